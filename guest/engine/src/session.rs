//! `wit/session.wit`: the log that the host owns.

use crate::types::{ContentBlock, Route, Seq, SurfaceRange, ToolResult, Usage};

/// Names a step: one model call and the tools that it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Step {
    /// The turn it belongs to, from 1.
    pub turn: u32,
    /// Its number in that turn, from 1.
    pub step: u32,
}

/// The envelope of the requests that follow, as sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestHeader {
    /// Where those requests go.
    pub route: Route,
    /// Estimated or counted tokens of the system prompt and of the tool schemas.
    pub overhead_tokens: u32,
    /// Changes whenever anything in the envelope changes.
    pub fingerprint: String,
}

/// A message from the user's side that no tool wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UserMessage {
    /// What it says.
    pub content: Vec<ContentBlock>,
    /// Who wrote it, such as `user`, or [`CHECKPOINT_SOURCE`].
    pub source: String,
    /// Carried verbatim through every compaction.
    pub pinned: bool,
}

/// The source of a checkpoint, the node that a compaction leaves.
pub const CHECKPOINT_SOURCE: &str = "plugin:compact";

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AssistantMessage {
    /// What it says; may be empty.
    pub content: Vec<ContentBlock>,
    /// What the provider reported for the call that produced it.
    pub usage: Option<Usage>,
}

/// A compaction begins: takes the session's compaction lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CompactStart {
    /// The open turn that encloses the compaction; none between turns.
    pub turn: Option<u32>,
}

/// What a compaction wrote, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CompactSummary {
    /// What the summariser wrote, before framing.
    pub summary: Vec<ContentBlock>,
    /// The span that is replaced.
    pub shadowed_range: SurfaceRange,
    /// The authoritative set of shadowed nodes, in surface order.
    pub shadowed_seqs: Vec<Seq>,
    /// What those nodes were estimated at.
    pub shadowed_token_count: u32,
    /// The call that wrote the summary; none where no model was called.
    pub model: Option<Route>,
    /// The generation cap of that call.
    pub max_tokens: Option<u32>,
    /// What the provider reported for that call.
    pub usage: Option<Usage>,
}

/// Announces the rewrite of one oversized tool result, which follows directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CompactPrune {
    /// The node that is rewritten, as a span of one.
    pub shadowed_range: SurfaceRange,
    /// What it was estimated at.
    pub shadowed_token_count: u32,
}

/// A compaction ends: gives the lock back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CompactEnd {
    /// The same as in its start.
    pub turn: Option<u32>,
    /// Why it changed nothing; none where it landed.
    pub error: Option<String>,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Payload {
    /// A turn opens.
    TurnStart(u32),
    /// The turn closes: calls of it without a result are dead.
    TurnEnd(u32),
    /// A step opens.
    StepStart(Step),
    /// A step closes.
    StepEnd(Step),
    /// The envelope of the requests that follow.
    RequestHeader(RequestHeader),
    /// On the surface: a message from the user's side.
    UserMessage(UserMessage),
    /// On the surface: a model's answer.
    AssistantMessage(AssistantMessage),
    /// On the surface: a tool's answer.
    ToolResult(ToolResult),
    /// On the surface: context that the harness injected.
    ContextMessage(Vec<ContentBlock>),
    /// On the surface: what the user said while the agent worked.
    SteeringMessage(Vec<ContentBlock>),
    /// A compaction begins.
    CompactStart(CompactStart),
    /// What a compaction wrote.
    CompactSummary(CompactSummary),
    /// A tool result is about to be rewritten shorter.
    CompactPrune(CompactPrune),
    /// A compaction ends.
    CompactEnd(CompactEnd),
    /// The log was reopened after its writer ended: earlier locks are stale.
    Reopened,
    /// Any other event type, by name. Never on the surface.
    Other(String),
}

/// What an event does to the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SurfaceOp {
    /// Becomes the last node.
    Append,
    /// Takes the place of this span of nodes.
    Replace(SurfaceRange),
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Event {
    /// Its position.
    pub seq: Seq,
    /// What it says.
    pub payload: Payload,
    /// What it does to the surface; none for events that are not on it.
    pub surface: Option<SurfaceOp>,
    /// The events that this one was made from.
    pub sources: Vec<Seq>,
}

/// An event that the log has not numbered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Draft {
    /// What it says.
    pub payload: Payload,
    /// What it does to the surface.
    pub surface: Option<SurfaceOp>,
    /// The events that it was made from.
    pub sources: Vec<Seq>,
}

impl Draft {
    /// An event that becomes the last node of the surface.
    pub fn on_surface(payload: Payload) -> Self {
        Self {
            payload,
            surface: Some(SurfaceOp::Append),
            sources: Vec::new(),
        }
    }

    /// An event that is not on the surface and cites nothing.
    pub fn log_only(payload: Payload) -> Self {
        Self {
            payload,
            surface: None,
            sources: Vec::new(),
        }
    }
}

/// Why the log could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SessionError {
    /// The log moved on: its head is now this.
    Conflict(Seq),
    /// The host refuses these events.
    Rejected(String),
    /// The log cannot be read as it stands.
    Corrupt(String),
    /// The storage did not answer.
    Unavailable(String),
    /// Anything else.
    Other(String),
}

/// One session's log.
pub trait SessionLog {
    /// Stable identity, under which the engine keeps what it has folded.
    fn id(&self) -> String;

    /// The number of events in the log, which is the seq of the next one.
    async fn head(&self) -> Result<Seq, SessionError>;

    /// Up to `limit` events from `start` on, in order; fewer where the host pages.
    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError>;

    /// Append all of `drafts` or none, and return the first one's seq. With
    /// `expected_head` only if the head still is that, else `Conflict`.
    async fn append(
        &self,
        drafts: &[Draft],
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError>;

    /// Return once everything appended so far is durable.
    async fn flush(&self) -> Result<(), SessionError>;
}
