//! The contract's data on its way into a component and out of it: the generated
//! types on one side, the engine's on the other. Texts and lists are moved, not copied.

use crate::bindings::exports::harness::compact::compact as wit_compact;
use crate::bindings::harness::compact::{
    hooks as wit_hooks, llm_stream as wit_llm, session as wit_session, types as wit_types,
};
use crate::types::*;

/// The same data in the types of the other side.
pub(crate) trait Cross<T> {
    fn cross(self) -> T;
}

macro_rules! same {
    ($($type:ty),+) => { $(impl Cross<$type> for $type {
        fn cross(self) -> $type {
            self
        }
    })+ };
}
same!(bool, u32, f64, String, (u32, u32));

impl<A: Cross<B>, B> Cross<Vec<B>> for Vec<A> {
    fn cross(self) -> Vec<B> {
        self.into_iter().map(Cross::cross).collect()
    }
}

impl<A: Cross<B>, B> Cross<Option<B>> for Option<A> {
    fn cross(self) -> Option<B> {
        self.map(Cross::cross)
    }
}

impl<A: Cross<B>, B, E: Cross<F>, F> Cross<Result<B, F>> for Result<A, E> {
    fn cross(self) -> Result<B, F> {
        match self {
            Ok(value) => Ok(value.cross()),
            Err(error) => Err(error.cross()),
        }
    }
}

macro_rules! record {
    ($of:ident :: $name:ident { $($field:ident),+ $(,)? }) => {
        impl Cross<$of::$name> for $name {
            fn cross(self) -> $of::$name {
                $of::$name { $($field: self.$field.cross()),+ }
            }
        }
        impl Cross<$name> for $of::$name {
            fn cross(self) -> $name {
                $name { $($field: self.$field.cross()),+ }
            }
        }
    };
}

macro_rules! variant {
    ($of:ident :: $name:ident { $($plain:ident),* $(; $($with:ident),+)? }) => {
        impl Cross<$of::$name> for $name {
            fn cross(self) -> $of::$name {
                match self {
                    $(Self::$plain => $of::$name::$plain,)*
                    $($(Self::$with(value) => $of::$name::$with(value.cross()),)+)?
                }
            }
        }
        impl Cross<$name> for $of::$name {
            fn cross(self) -> $name {
                match self {
                    $(Self::$plain => $name::$plain,)*
                    $($(Self::$with(value) => $name::$with(value.cross()),)+)?
                }
            }
        }
    };
}

record!(wit_types::SurfaceRange { start, end });
record!(wit_types::Route { provider, model });
record!(wit_types::Usage {
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
});
record!(wit_types::ToolCall {
    call_id,
    name,
    arguments
});
record!(wit_types::Image {
    media_type,
    byte_length
});
record!(wit_types::Opaque { kind, json });
variant!(wit_types::ResultBlock { ; Text, Reasoning, Image, Opaque });
record!(wit_types::ToolResult {
    call_id,
    is_error,
    content
});
variant!(wit_types::ContentBlock { ; Text, Reasoning, ToolCall, ToolResult, Image, Opaque });
variant!(wit_types::Role { User, Assistant });
record!(wit_types::Message { role, content });

record!(wit_session::Step { turn, step });
record!(wit_session::RequestHeader {
    route,
    overhead_tokens,
    fingerprint
});
record!(wit_session::UserMessage {
    content,
    source,
    pinned
});
record!(wit_session::AssistantMessage { content, usage });
record!(wit_session::CompactStart { turn });
record!(wit_session::CompactSummary {
    summary,
    shadowed_range,
    shadowed_seqs,
    shadowed_token_count,
    model,
    max_tokens,
    usage,
});
record!(wit_session::CompactPrune {
    shadowed_range,
    shadowed_token_count
});
record!(wit_session::CompactEnd { turn, error });
variant!(wit_session::Payload {
    Reopened;
    TurnStart, TurnEnd, StepStart, StepEnd, RequestHeader, UserMessage, AssistantMessage,
    ToolResult, ContextMessage, SteeringMessage, CompactStart, CompactSummary, CompactPrune,
    CompactEnd, Other
});
variant!(wit_session::SurfaceOp { Append; Replace });
record!(wit_session::Event {
    seq,
    payload,
    surface,
    sources
});
record!(wit_session::Draft {
    payload,
    surface,
    sources
});
variant!(wit_session::SessionError { ; Conflict, Rejected, Corrupt, Unavailable, Other });

record!(wit_llm::ModelInfo {
    context_window,
    max_output_tokens
});
record!(wit_llm::Standalone {
    system,
    user,
    nodes
});
record!(wit_llm::DeadCall { node, call_id });
record!(wit_llm::Replay {
    nodes,
    dead_calls,
    instruction
});
variant!(wit_llm::Prompt { ; Standalone, Replay });
record!(wit_llm::Part { index, count });
record!(wit_llm::GenerateOptions {
    route,
    prompt,
    max_tokens,
    purpose,
    part
});
variant!(wit_llm::FinishReason {
    Stop,
    MaxTokens,
    ToolCalls,
    ContentFilter,
    Other
});
record!(wit_llm::Finish { reason, usage });
variant!(wit_llm::Chunk { ; Text, Reasoning, ToolCall, Other, Finish });
variant!(wit_llm::LlmError {
    Aborted;
    ContextOverflow, RateLimited, Unavailable, Refused, Other
});
record!(wit_hooks::Summary {
    content,
    model,
    max_tokens,
    usage
});

variant!(wit_compact::SummarizationInput {
    Auto,
    Transcript,
    Replay
});
variant!(wit_compact::UsageAnchor {
    Off,
    Delta,
    Calibrated
});
record!(wit_compact::PruneConfig {
    threshold_chars,
    head_chars,
    tail_chars
});
record!(wit_compact::Policy {
    threshold_ratio,
    threshold_tokens,
    retain_tokens,
    retain_ratio,
    summarization_route,
    summarization_max_tokens,
    compaction_retries,
    summary_retries,
});
record!(wit_compact::ModelPolicy { route, policy });
record!(wit_compact::HookSet {
    estimate_content_tokens,
    summarize
});
record!(wit_compact::Config {
    context_window,
    policy,
    model_policies,
    chars_per_token,
    script_aware,
    usage_anchor,
    image_tokens,
    summarization_input,
    protect_in_flight_turn,
    prune,
    instructions,
    hooks,
});
record!(wit_compact::ConfigError { key, message });
record!(wit_compact::AgentContext {
    route,
    context_window,
    output_tokens,
    tools_tokens,
    can_replay,
});
variant!(wit_compact::Trigger {
    Pressure,
    ContextOverflow
});
record!(wit_compact::Measurement {
    total_tokens,
    surface_tokens,
    threshold_tokens,
    retain_tokens,
    context_window,
    nodes,
});
variant!(wit_compact::NodeKind {
    User,
    Assistant,
    ToolResult,
    Context,
    Steering,
    Checkpoint
});
record!(wit_compact::SurfaceNode {
    seq,
    kind,
    tokens,
    balanced_before,
    open_calls,
    dead_calls,
    orphaned_results,
    pinned,
});
record!(wit_compact::CompactionResult {
    start_seq,
    summary_seq,
    end_seq,
    summary,
    shadowed_range,
    shadowed_seqs,
    shadowed_token_count,
    removed_call_ids,
    elided_seqs,
    before,
    after,
});
record!(wit_compact::NowOptions {
    instructions,
    retain_tokens
});
record!(wit_compact::Pruned {
    original_seq,
    replacement_seq,
    call_id,
    chars_before,
    chars_after,
});
variant!(wit_compact::Rejection { Empty, Truncated; NotSmaller, Unsupported });
record!(wit_compact::HookError { hook, message });
variant!(wit_compact::CompactError {
    Changed, Aborted;
    Busy, NotOnSurface, InvertedRange, Unbalanced, SummaryRejected, Model, Session,
    NotConverged, Irreducible, Config, Hook, Other
});
