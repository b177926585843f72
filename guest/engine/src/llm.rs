//! `wit/llm-stream.wit`: the model call and the hooks, which the host makes.

use crate::types::{AbortSignal, ContentBlock, Route, Seq, ToolCall, Usage, contract_enum};

/// What the host knows of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ModelInfo {
    /// Tokens of input and output together; [`ModelInfo::READS_NODES`] for a summariser
    /// that reads the nodes of the session itself.
    pub context_window: u32,
    /// The most tokens that it generates in one answer.
    pub max_output_tokens: Option<u32>,
}

impl ModelInfo {
    /// The window of a summariser that reads the nodes that a prompt names itself: its
    /// prompts carry no text of them.
    pub const READS_NODES: u32 = u32::MAX;

    /// Whether it reads the nodes itself.
    pub fn reads_nodes(&self) -> bool {
        self.context_window == Self::READS_NODES
    }
}

/// A prompt that holds everything it needs. No tools go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Standalone {
    /// The system prompt.
    pub system: String,
    /// The one user message.
    pub user: String,
    /// The surface nodes whose text `user` carries.
    pub nodes: Vec<Seq>,
}

/// A call that was interrupted, in a replayed message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeadCall {
    /// The assistant message that makes it.
    pub node: Seq,
    /// Its id.
    pub call_id: String,
}

/// The session's own request, replayed, with one user message after it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Replay {
    /// The nodes to send, in order.
    pub nodes: Vec<Seq>,
    /// The calls among them that never got a result, to be given one.
    pub dead_calls: Vec<DeadCall>,
    /// The text of the user message after them.
    pub instruction: String,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Prompt {
    /// A prompt of its own.
    Standalone(Standalone),
    /// The session's last request and an instruction.
    Replay(Replay),
}

/// Where a range is summarised in several calls, which one this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Part {
    /// Its number, from 1.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

/// One model call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GenerateOptions {
    /// Where it goes.
    pub route: Route,
    /// What to send.
    pub prompt: Prompt,
    /// Generation cap, reasoning included.
    pub max_tokens: Option<u32>,
    /// Why the call is made: `compaction`.
    pub purpose: String,
    /// Which part of the summary it makes; none where there is only one.
    pub part: Option<Part>,
}

contract_enum! {
    /// Why an answer ended.
    FinishReason {
        /// The model was done.
        Stop,
        /// The generation cap was reached: the answer is incomplete.
        MaxTokens,
        /// The model wants tools run.
        ToolCalls,
        /// The provider withheld the rest.
        ContentFilter,
        /// Anything else.
        Other,
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// What the provider reported for the call.
    pub usage: Option<Usage>,
}

/// One piece of a streamed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Chunk {
    /// Text of the answer.
    Text(String),
    /// Reasoning before or between.
    Reasoning(String),
    /// A tool call.
    ToolCall(ToolCall),
    /// Output of any other kind, by name.
    Other(String),
    /// The end. An answer that ends without one was cut off.
    Finish(Finish),
}

/// Why a model call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LlmError {
    /// The request does not fit the model's window.
    ContextOverflow(String),
    /// Too many requests; retry after this many milliseconds where the provider said.
    RateLimited(Option<u32>),
    /// The provider or its network did not answer.
    Unavailable(String),
    /// The provider will not take this request as it stands.
    Refused(String),
    /// The caller's signal aborted the call.
    Aborted,
    /// Anything else.
    Other(String),
}

/// An answer that is being generated. Dropping it cancels the call.
pub trait Generation {
    /// The chunks that arrived since the last call, waiting for at least one;
    /// empty at the end.
    async fn next(&mut self) -> Result<Vec<Chunk>, LlmError>;
}

/// A summary that the host made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Summary {
    /// What it says. Only text is kept, and it must not be blank.
    pub content: Vec<ContentBlock>,
    /// The model that wrote it, if one did.
    pub model: Option<Route>,
    /// The generation cap of that call.
    pub max_tokens: Option<u32>,
    /// What the provider reported for it.
    pub usage: Option<Usage>,
}

/// The model calls that the host makes, and the two steps that it may take over.
/// `S` is the session log that a call is made for.
pub trait Model<S> {
    /// The host's cancellation.
    type Signal: AbortSignal;
    /// An answer of this host's.
    type Generation: Generation;

    /// What the host knows of a model; none where it knows nothing.
    async fn describe_model(&self, route: &Route) -> Option<ModelInfo>;

    /// Start one call on behalf of `session`.
    async fn stream(
        &self,
        session: &S,
        options: &GenerateOptions,
        signal: Option<&Self::Signal>,
    ) -> Result<Self::Generation, LlmError>;

    /// Tokens of each group of blocks, in order. Called only where the
    /// configuration says so.
    async fn estimate_content_tokens(
        &self,
        groups: &[Vec<ContentBlock>],
    ) -> Result<Vec<u32>, String>;

    /// Condense a transcript. Called only where the configuration says so.
    async fn summarize(
        &self,
        session: &S,
        transcript: &str,
        signal: Option<&Self::Signal>,
    ) -> Result<Summary, LlmError>;
}
