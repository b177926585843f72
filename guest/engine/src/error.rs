//! How errors read. The texts also go into the log, as the reason on a failed
//! compaction's end marker.

use std::fmt::{self, Display, Formatter};

use crate::compact::{CompactError, ConfigError, HookError, Rejection};
use crate::llm::LlmError;
use crate::session::SessionError;

impl Display for SessionError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(head) => write!(f, "the session log moved on, its head is now {head}"),
            Self::Rejected(why) => write!(f, "the session log refused the events: {why}"),
            Self::Corrupt(why) => write!(f, "the session log cannot be read: {why}"),
            Self::Unavailable(why) => write!(f, "the session storage did not answer: {why}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl Display for LlmError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContextOverflow(why) => {
                write!(f, "the request does not fit the model's window: {why}")
            }
            Self::RateLimited(None) => f.write_str("the provider's rate limit is reached"),
            Self::RateLimited(Some(ms)) => {
                write!(f, "the provider's rate limit is reached, retry in {ms} ms")
            }
            Self::Unavailable(why) => write!(f, "the provider did not answer: {why}"),
            Self::Refused(why) => write!(f, "the provider refused the request: {why}"),
            Self::Aborted => f.write_str("aborted"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl Display for Rejection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it holds no text"),
            Self::Truncated => f.write_str("it was cut off at the generation cap"),
            Self::NotSmaller((framed, shadowed)) => write!(
                f,
                "framed it takes {framed} tokens, no fewer than the {shadowed} it would replace"
            ),
            Self::Unsupported(what) => write!(f, "it holds {what}, which a checkpoint cannot"),
        }
    }
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl Display for HookError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "hook {}: {}", self.hook, self.message)
    }
}

impl Display for CompactError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(seq) => write!(
                f,
                "another compaction holds the session's lock since event {seq}"
            ),
            Self::NotOnSurface(seq) => write!(f, "event {seq} is not on the surface"),
            Self::InvertedRange(range) => write!(
                f,
                "event {} lies after event {} on the surface",
                range.start, range.end
            ),
            Self::Unbalanced(seq) => write!(
                f,
                "a cut at event {seq} would part a tool call from its result"
            ),
            Self::Changed => f.write_str("the range changed while it was being summarised"),
            Self::Aborted => f.write_str("aborted"),
            Self::SummaryRejected(why) => write!(f, "the summary was not accepted: {why}"),
            Self::Model(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
            Self::NotConverged((tokens, threshold)) => write!(
                f,
                "still at {tokens} tokens after every attempt, the threshold is {threshold}"
            ),
            Self::Irreducible((tokens, threshold)) => write!(
                f,
                "system prompt, tools and session prefix alone take {tokens} tokens, \
                 the threshold is {threshold}"
            ),
            Self::Config(error) => error.fmt(f),
            Self::Hook(error) => error.fmt(f),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SessionError {}
impl std::error::Error for LlmError {}
impl std::error::Error for ConfigError {}
impl std::error::Error for CompactError {}

impl From<SessionError> for CompactError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl From<ConfigError> for CompactError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<LlmError> for CompactError {
    /// An abort is the caller's doing wherever it is noticed.
    fn from(error: LlmError) -> Self {
        match error {
            LlmError::Aborted => Self::Aborted,
            other => Self::Model(other),
        }
    }
}
