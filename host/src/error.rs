//! What can go wrong, and how it reads.

use crate::types::{CompactError, ConfigError, HookError, LlmError, Rejection, SessionError};

/// Why a call did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend refused or failed, and said why.
    #[error("{}", .0.describe())]
    Compact(CompactError),
    /// The backend could not be loaded, or broke in the middle of a call. The
    /// session is whole; the next call starts a new instance.
    #[error("the compaction backend cannot be used: {0:#}")]
    Backend(wasmtime::Error),
}

impl From<CompactError> for Error {
    fn from(error: CompactError) -> Self {
        Self::Compact(error)
    }
}

impl CompactError {
    /// The error as a sentence for a person.
    pub fn describe(&self) -> String {
        match self {
            Self::Busy(seq) => {
                format!("another compaction holds the session's lock since event {seq}")
            }
            Self::NotOnSurface(seq) => format!("event {seq} is not on the surface"),
            Self::InvertedRange(range) => format!(
                "event {} lies after event {} on the surface",
                range.start, range.end
            ),
            Self::Unbalanced(seq) => {
                format!("a cut at event {seq} would part a tool call from its result")
            }
            Self::Changed => "the range changed while it was being summarised".into(),
            Self::Aborted => "aborted".into(),
            Self::SummaryRejected(why) => {
                format!("the summary was not accepted: {}", why.describe())
            }
            Self::Model(error) => format!("the model call failed: {}", error.describe()),
            Self::Session(error) => error.describe(),
            Self::NotConverged((tokens, threshold)) => format!(
                "still at {tokens} tokens after every attempt; the threshold is {threshold}"
            ),
            Self::Irreducible((tokens, threshold)) => format!(
                "system prompt, tools and session prefix alone take {tokens} tokens; the threshold is {threshold}"
            ),
            Self::Config(ConfigError { key, message }) => {
                format!("configuration: {key}: {message}")
            }
            Self::Hook(HookError { hook, message }) => format!("hook {hook}: {message}"),
            Self::Other(why) => why.clone(),
        }
    }
}

impl LlmError {
    /// The error as a sentence for a person.
    pub fn describe(&self) -> String {
        match self {
            Self::ContextOverflow(why) => {
                format!("the request does not fit the model's window ({why})")
            }
            Self::RateLimited(None) => "the provider's rate limit is reached".into(),
            Self::RateLimited(Some(ms)) => {
                format!("the provider's rate limit is reached; retry in {ms} ms")
            }
            Self::Unavailable(why) => format!("the provider did not answer ({why})"),
            Self::Refused(why) => format!("the provider refused the request ({why})"),
            Self::Aborted => "aborted".into(),
            Self::Other(why) => why.clone(),
        }
    }
}

impl Rejection {
    /// The reason as a clause for a person.
    pub fn describe(&self) -> String {
        match self {
            Self::Empty => "it holds no text".into(),
            Self::Truncated => "it was cut off at the generation cap".into(),
            Self::NotSmaller((framed, shadowed)) => format!(
                "framed it takes {framed} tokens, no fewer than the {shadowed} it would replace"
            ),
            Self::Unsupported(what) => format!("it holds {what}, which a checkpoint cannot"),
        }
    }
}

impl SessionError {
    /// The error as a sentence for a person.
    pub fn describe(&self) -> String {
        match self {
            Self::Conflict(head) => format!("the session log moved on; its head is now {head}"),
            Self::Rejected(why) => format!("the session log refused the events: {why}"),
            Self::Corrupt(why) => format!("the session log cannot be read: {why}"),
            Self::Unavailable(why) => format!("the session storage did not answer: {why}"),
            Self::Other(why) => why.clone(),
        }
    }
}
