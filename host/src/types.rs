//! The contract's plain data, as generated from `wit/`, where every type, field
//! and case is described.

pub use crate::bindings::exports::harness::compact::compact::{
    AgentContext, CompactError, CompactionResult, Config, ConfigError, HookError, HookSet,
    Measurement, ModelPolicy, NodeKind, NowOptions, Policy, PruneConfig, Pruned, Rejection,
    SummarizationInput, SurfaceNode, Trigger, UsageAnchor,
};
pub use crate::bindings::harness::compact::hooks::Summary;
pub use crate::bindings::harness::compact::llm_stream::{
    Chunk, DeadCall, Finish, FinishReason, GenerateOptions, LlmError, ModelInfo, Part, Prompt,
    Replay, Standalone,
};
pub use crate::bindings::harness::compact::session::{
    AssistantMessage, CompactEnd, CompactPrune, CompactStart, CompactSummary, Draft, Event,
    Payload, RequestHeader, SessionError, Step, SurfaceOp, UserMessage,
};
pub use crate::bindings::harness::compact::types::{
    ContentBlock, Image, Message, Opaque, ResultBlock, Role, Route, Seq, SurfaceRange, ToolCall,
    ToolResult, Usage,
};

impl Default for Policy {
    /// Every setting at its default.
    fn default() -> Self {
        Self {
            threshold_ratio: None,
            threshold_tokens: None,
            retain_tokens: None,
            retain_ratio: None,
            summarization_route: None,
            summarization_max_tokens: None,
            compaction_retries: None,
            summary_retries: None,
        }
    }
}

impl Default for Config {
    /// Every setting at its default, no policies by model, no hooks.
    fn default() -> Self {
        Self {
            context_window: None,
            policy: Policy::default(),
            model_policies: Vec::new(),
            chars_per_token: None,
            script_aware: None,
            usage_anchor: None,
            image_tokens: None,
            summarization_input: None,
            protect_in_flight_turn: None,
            prune: None,
            instructions: None,
            hooks: HookSet {
                estimate_content_tokens: false,
                summarize: false,
            },
        }
    }
}

impl Default for AgentContext {
    /// Nothing known but what the log says.
    fn default() -> Self {
        Self {
            route: None,
            context_window: None,
            output_tokens: None,
            tools_tokens: 0,
            can_replay: false,
        }
    }
}

impl Default for NowOptions {
    /// All but the newest unit, with no guidance of its own.
    fn default() -> Self {
        Self {
            instructions: None,
            retain_tokens: None,
        }
    }
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

    /// An event that is not on the surface.
    pub fn log_only(payload: Payload) -> Self {
        Self {
            payload,
            surface: None,
            sources: Vec::new(),
        }
    }
}
