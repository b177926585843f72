//! The compactor in every build, behind one interface, with the parts that the
//! tests drive it with.
//!
//! The host's types are the common language: the native build converts to the
//! engine's at its edge.

mod backends;
mod builds;
mod native;
mod node;
mod recorded;
mod script;
mod session;
mod vectors;

pub use backends::{Backend, backend_under_test};
pub use builds::{Build, Kind, WasmtimeBuild, create};
pub use native::NativeBuild;
pub use node::NodeBuild;
pub use recorded::{LogCall, RecordedLog};
pub use script::{Reply, ScriptedModel};
pub use session::{SessionBuilder, surface_seqs};
pub use vectors::{VectorRun, read_vectors, run_vector};
