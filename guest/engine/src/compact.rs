//! `wit/compact.wit`: what a compactor is given and what it answers.

use crate::llm::LlmError;
use crate::session::SessionError;
use crate::types::{ContentBlock, Route, Seq, SurfaceRange, contract_enum};

contract_enum! {
    /// How the summariser is shown the range.
    SummarizationInput {
        /// `Replay` where it keeps the provider's cache warm and fits, else `Transcript`.
        Auto,
        /// A flattened plain-text transcript under the backend's own system prompt.
        Transcript,
        /// The session's own request, replayed.
        Replay,
    }
}

contract_enum! {
    /// What provider-reported usage does to the estimate.
    UsageAnchor {
        /// Nothing: every node is estimated.
        Off,
        /// The last reported usage, plus or minus the estimates of what came or went since.
        Delta,
        /// As `Delta`, those estimates scaled by how far usage and estimate lay apart.
        Calibrated,
    }
}

/// Limits in code points for rewriting oversized tool results without a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PruneConfig {
    /// Results with more text than this are rewritten. Default 8192.
    pub threshold_chars: Option<u32>,
    /// Text kept from the start. Default 4096.
    pub head_chars: Option<u32>,
    /// Text kept from the end. Default 1024.
    pub tail_chars: Option<u32>,
}

/// The settings that can differ by model. Every absent field takes its default.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Policy {
    /// Share of the window at which compaction starts. Default 0.8.
    pub threshold_ratio: Option<f64>,
    /// Tokens at which compaction starts at the latest.
    pub threshold_tokens: Option<u32>,
    /// Recent tokens to keep verbatim. Default 20480, or 16 % of a window under 128000.
    pub retain_tokens: Option<u32>,
    /// The same as a share of the window.
    pub retain_ratio: Option<f64>,
    /// The model that summarises. Default: the session's own.
    pub summarization_route: Option<Route>,
    /// Generation cap of the summary. Default 2048.
    pub summarization_max_tokens: Option<u32>,
    /// Further compactions when the result is still at or above the threshold. Default 1.
    pub compaction_retries: Option<u32>,
    /// Further model calls when a summary is empty or truncated. Default 1.
    pub summary_retries: Option<u32>,
}

/// A policy for one model, over the default one.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ModelPolicy {
    /// The model that it is for: both names, exactly.
    pub route: Route,
    /// What differs for it.
    pub policy: Policy,
}

/// Which steps the host takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HookSet {
    /// Call `estimate_content_tokens` instead of estimating.
    pub estimate_content_tokens: bool,
    /// Call `summarize` instead of the model.
    pub summarize: bool,
}

/// The settings of a compactor. Every absent field takes its default.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Config {
    /// Window where neither the caller nor the host knows it. Default 128000.
    pub context_window: Option<u32>,
    /// The default policy.
    pub policy: Policy,
    /// Policies by model; the first match counts.
    pub model_policies: Vec<ModelPolicy>,
    /// UTF-16 code units a token. Default 4.
    pub chars_per_token: Option<f64>,
    /// Weigh text by its script. Default true.
    pub script_aware: Option<bool>,
    /// Default `Calibrated`.
    pub usage_anchor: Option<UsageAnchor>,
    /// Price of an image. Default 85.
    pub image_tokens: Option<u32>,
    /// Default `Auto`.
    pub summarization_input: Option<SummarizationInput>,
    /// Keep the open turn verbatim. Default false.
    pub protect_in_flight_turn: Option<bool>,
    /// Rewrite oversized tool results before summarising; none leaves them alone.
    pub prune: Option<PruneConfig>,
    /// Extra guidance for the summariser.
    pub instructions: Option<String>,
    /// What the host does itself.
    pub hooks: HookSet,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ConfigError {
    /// The setting at fault, by its WIT name, such as `policy.retain-tokens`.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

/// What a caller knows of the agent whose session this is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AgentContext {
    /// Where its next request goes. Absent: the log's newest request header.
    pub route: Option<Route>,
    /// The window of the model that answers next; overrides the configuration.
    pub context_window: Option<u32>,
    /// Tokens that the next request reserves for its answer.
    pub output_tokens: Option<u32>,
    /// Tokens of the tool schemas, which the estimate counts.
    pub tools_tokens: u32,
    /// Whether the host can replay the session's last request.
    pub can_replay: bool,
}

contract_enum! {
    /// Why a compaction may be due.
    Trigger {
        /// The next request is estimated near the window.
        Pressure,
        /// The provider refused the last request as too long.
        ContextOverflow,
    }
}

/// What the next request is made of, in estimated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Measurement {
    /// Session prefix, surface, system prompt and tools.
    pub total_tokens: u32,
    /// The surface alone.
    pub surface_tokens: u32,
    /// The total from which on a compaction is due.
    pub threshold_tokens: u32,
    /// Recent tokens that a compaction keeps verbatim.
    pub retain_tokens: u32,
    /// The window that the two are shares of.
    pub context_window: u32,
    /// How many nodes the surface has.
    pub nodes: u32,
}

contract_enum! {
    /// What a surface node is.
    NodeKind {
        /// A message from the user's side.
        User,
        /// A model's answer.
        Assistant,
        /// A tool's answer.
        ToolResult,
        /// Injected context.
        Context,
        /// What the user said while the agent worked.
        Steering,
        /// A summary that a compaction left.
        Checkpoint,
    }
}

/// One node of the surface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SurfaceNode {
    /// Its event.
    pub seq: Seq,
    /// What it is.
    pub kind: NodeKind,
    /// What it is estimated at.
    pub tokens: u32,
    /// Whether a cut directly before it parts no call from its result.
    pub balanced_before: bool,
    /// Its calls that have no result yet and may still get one.
    pub open_calls: Vec<String>,
    /// Its calls that were interrupted and will get none.
    pub dead_calls: Vec<String>,
    /// Its results that answer no call on the surface.
    pub orphaned_results: Vec<String>,
    /// Whether it is, or carries, a pinned message.
    pub pinned: bool,
}

/// What a compaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CompactionResult {
    /// Seq of the `CompactStart` event.
    pub start_seq: Seq,
    /// Seq of the `CompactSummary` event; the replacement node follows it.
    pub summary_seq: Seq,
    /// Seq of the `CompactEnd` event.
    pub end_seq: Seq,
    /// What the summariser wrote, before framing.
    pub summary: Vec<ContentBlock>,
    /// The span that was replaced.
    pub shadowed_range: SurfaceRange,
    /// The nodes that were replaced, in surface order.
    pub shadowed_seqs: Vec<Seq>,
    /// What they were estimated at.
    pub shadowed_token_count: u32,
    /// Ids of the tool calls among them.
    pub removed_call_ids: Vec<String>,
    /// Nodes that the summariser was shown only in part.
    pub elided_seqs: Vec<Seq>,
    /// The request before.
    pub before: Measurement,
    /// The request after.
    pub after: Measurement,
}

/// How to compact on a user's command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NowOptions {
    /// What the user wants the summary to dwell on.
    pub instructions: Option<String>,
    /// Recent tokens to keep verbatim; absent, all but the newest unit is compacted.
    pub retain_tokens: Option<u32>,
}

/// A tool result that was rewritten shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pruned {
    /// The node as it was.
    pub original_seq: Seq,
    /// The node that took its place.
    pub replacement_seq: Seq,
    /// The call that it answers.
    pub call_id: String,
    /// Code points of text before.
    pub chars_before: u32,
    /// Code points of text after, the marker included.
    pub chars_after: u32,
}

/// Why a summary was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Rejection {
    /// No text that is more than white space.
    Empty,
    /// The answer stopped at the generation cap.
    Truncated,
    /// The framed summary is not smaller than the range: its tokens, the range's.
    NotSmaller((u32, u32)),
    /// The answer holds something that a checkpoint cannot.
    Unsupported(String),
}

/// A hook that failed or answered nonsense.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HookError {
    /// The hook's name.
    pub hook: String,
    /// What it did.
    pub message: String,
}

/// Why a compaction did not happen. But for `Session` after the commit, the
/// surface is then as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum CompactError {
    /// Another compaction holds the lock, from this `CompactStart` on.
    Busy(Seq),
    /// This seq is not on the surface.
    NotOnSurface(Seq),
    /// The start lies after the end on the surface.
    InvertedRange(SurfaceRange),
    /// A cut at this node would part a tool call from its result.
    Unbalanced(Seq),
    /// The range changed while it was being summarised.
    Changed,
    /// The caller's signal aborted it.
    Aborted,
    /// The summary was not accepted.
    SummaryRejected(Rejection),
    /// The model call failed.
    Model(LlmError),
    /// The log failed.
    Session(SessionError),
    /// Still at or above the threshold after every attempt: tokens, threshold.
    NotConverged((u32, u32)),
    /// What cannot be compacted is already at the threshold: its tokens, threshold.
    Irreducible((u32, u32)),
    /// A setting cannot be used with this session's model.
    Config(ConfigError),
    /// A hook failed.
    Hook(HookError),
    /// Anything else.
    Other(String),
}
