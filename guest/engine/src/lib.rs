//! The basic compaction backend, as pure logic.
//!
//! Everything that decides lives here: the token estimate, the fold of the log
//! into a surface, the pairing of tool calls, what to keep, what the summariser
//! is sent, what of its answer is accepted, and how the result is written. It
//! touches the outside through two traits, [`SessionLog`] and [`Model`], which a
//! component shell, a JavaScript shell or a native program implements. There is
//! no clock, no randomness and no I/O of its own, so the same log and the same
//! answers always give the same result.
//!
//! Types have the names and shapes of the contract in `wit/`; the component
//! shell uses them directly in place of generated ones.
//!
//! ```
//! use harness_compact_engine::{Compactor, Config};
//!
//! let compactor = Compactor::new(Config::default()).expect("the defaults are valid");
//! assert!(Compactor::new(Config { context_window: Some(0), ..Config::default() }).is_err());
//! # drop(compactor);
//! ```
#![deny(missing_docs)]
// The traits are implemented over component imports, over JavaScript promises and
// natively: whether their futures are `Send` is for the implementor to say.
#![allow(async_fn_in_trait)]

mod acceptance;
mod checkpoint;
mod commit;
mod compact;
mod compactor;
mod error;
mod estimate;
mod fold;
mod llm;
mod pairing;
mod prompt;
mod prune;
mod reading;
mod retention;
mod script;
mod session;
mod settings;
mod summarise;
mod transcript;
mod types;
mod usage;

pub use compact::*;
pub use compactor::Compactor;
pub use llm::*;
pub use session::*;
pub use types::*;
