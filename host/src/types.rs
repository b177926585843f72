//! The contract's plain data: the engine's types, one for each of `wit/`, where every
//! type, field and case is described.

pub use harness_compact_engine::{
    AgentContext, AssistantMessage, CHECKPOINT_SOURCE, Chunk, CompactEnd, CompactError,
    CompactPrune, CompactStart, CompactSummary, CompactionResult, Config, ConfigError,
    ContentBlock, DeadCall, Draft, Event, Finish, FinishReason, GenerateOptions, HookError,
    HookSet, Image, LlmError, Measurement, Message, ModelInfo, ModelPolicy, NodeKind, NowOptions,
    Opaque, Part, Payload, Policy, Prompt, PruneConfig, Pruned, Rejection, Replay, RequestHeader,
    ResultBlock, Role, Route, Seq, SessionError, Standalone, Step, SummarizationInput, Summary,
    SurfaceNode, SurfaceOp, SurfaceRange, ToolCall, ToolResult, Trigger, Usage, UsageAnchor,
    UserMessage,
};
