//! Context compaction for agent loops: load the backend, hand it a session log
//! and a model call, and call it before each step.
//!
//! The backend is a WebAssembly component; what it decides is described in the
//! contract, `wit/`. A host supplies two things, as implementations of two traits:
//! where a session is stored, [`SessionLog`], and how a model is called,
//! [`Model`]. This crate has some of both: [`MemoryLog`], [`JsonlLog`],
//! [`SessionFile`] and [`MessagesLog`],
//! [`OfflineModel`], which needs no model at all, and [`ProviderModel`], which
//! calls one over the network.
//!
//! ```
//! use std::sync::Arc;
//!
//! use harness_compact_host::types::{
//!     AgentContext, AssistantMessage, ContentBlock, Draft, NowOptions, Payload, Trigger,
//!     UserMessage,
//! };
//! use harness_compact_host::{CompactHost, MemoryLog, OfflineModel, SessionLog};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), harness_compact_host::Error> {
//! // The session, as the loop writes it.
//! let log = Arc::new(MemoryLog::new("session-1"));
//! for turn in 1..=20 {
//!     log.push(Draft::log_only(Payload::TurnStart(turn)));
//!     log.push(Draft::on_surface(Payload::UserMessage(UserMessage {
//!         content: vec![ContentBlock::Text(format!("Request {turn}: {}", "please ".repeat(50)))],
//!         source: "user".into(),
//!         pinned: false,
//!     })));
//!     log.push(Draft::on_surface(Payload::AssistantMessage(AssistantMessage {
//!         content: vec![ContentBlock::Text("Done. ".repeat(100))],
//!         usage: None,
//!     })));
//!     log.push(Draft::log_only(Payload::TurnEnd(turn)));
//! }
//! let session: Arc<dyn SessionLog> = log;
//!
//! // Loaded once for the process; one compactor for each session that runs.
//! let host = CompactHost::new()?;
//! let mut compactor = host.compactor(Default::default(), Arc::new(OfflineModel)).await?;
//!
//! // Before each step of the loop, with what the step will send besides the session.
//! let agent = AgentContext {
//!     context_window: Some(4000),
//!     ..AgentContext::default()
//! };
//! let result = compactor
//!     .compact_if_needed(&session, &agent, "You are an agent.", &[], Trigger::Pressure, None)
//!     .await?
//!     .expect("20 requests do not fit 4000 tokens");
//! assert!(result.after.total_tokens < result.before.threshold_tokens);
//!
//! // And when the user asks for it.
//! let again = compactor.compact_now(&session, &agent, &NowOptions::default(), None).await?;
//! assert!(again.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! What a loop has to do itself: make its requests from the surface, the nodes that
//! [`Compactor::surface`] lists, and store what it is handed to append as it is.
//! [`messages`] shows how a surface becomes messages; in particular, a call that was
//! interrupted needs an error result when it is sent to a model.
#![deny(missing_docs)]

mod bindings;
pub mod command;
mod config_json;
mod convert;
mod error;
mod files;
mod host;
mod imports;
mod jsonl;
mod messages;
mod messages_log;
mod model;
mod offline;
mod providers;
mod session;
mod session_file;
pub mod types;

pub use config_json::config_from_json;
pub use error::Error;
pub use harness_compact_formats::{Form, Remark, event_from_json};
pub use host::{BASIC_BACKEND, CompactHost, Compactor};
pub use jsonl::{JsonlLog, TornTail};
pub use messages::messages;
pub use messages_log::MessagesLog;
pub use model::{Generation, Hooks, Model};
pub use offline::OfflineModel;
pub use providers::ProviderModel;
pub use session::{MemoryLog, SessionLog};
pub use session_file::{OpenOptions, SessionFile};
pub use tokio_util::sync::CancellationToken;
