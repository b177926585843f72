//! Session files of agent programs, and arrays of messages: read as the events of a
//! log, and written back in their own form.
//!
//! What a program would send if it resumed a file is the surface of the [`Session`]
//! that is read from it: the program's own compactions, branches, rewinds and
//! replaced messages included. Every node knows the document's own records that it
//! comes from, as they stand there. What a backend appends to a session stays beside
//! the document until [`Session::write`] answers the bytes that record it in the
//! document's own way. There is no I/O here, no clock and no randomness.
//!
//! ```
//! use harness_compact_formats::{Form, ReadOptions, Session};
//!
//! let body = r#"{"model":"m","messages":[{"role":"user","content":"Hello"}]}"#;
//! let session = Session::read(body.into(), ReadOptions::default()).unwrap();
//! assert_eq!(session.form(), Form::OpenaiChat);
//! assert_eq!(session.surface().len(), 1);
//! let error = Session::read("Hello".into(), ReadOptions::default()).unwrap_err();
//! assert!(error.to_string().contains("its first line is `Hello`"));
//! ```
#![deny(missing_docs)]

mod content;
mod document;
mod events;
mod forms;
mod json;
mod session;
mod stamp;

pub use document::{Fault, Remark};
pub use events::{EventStamp, Line, event_from_json, read_line, rewrite_result, write_event};
pub use forms::Form;
pub use json::{js_json, parse};
pub use session::{Figures, ReadOptions, Refusal, Session, Write};
pub use stamp::{Stamp, parse_time, rfc3339};
