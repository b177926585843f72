//! x
mod bindings;
mod error;
mod host;
mod imports;
mod model;
mod session;
pub mod types;
pub use error::Error;
pub use host::*;
pub use model::*;
pub use session::*;
pub use tokio_util::sync::CancellationToken;
