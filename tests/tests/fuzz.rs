//! Arbitrary logs, arbitrary settings, arbitrary answers: nothing panics, nothing
//! traps, and what cannot be done changes nothing.
//!
//! `FUZZ_CASES=100000 cargo test --release -p conformance --test fuzz` runs as many.

use std::sync::Arc;

use conformance::{Kind, Reply, ScriptedModel, SessionBuilder, create};
use futures_util::FutureExt;
use harness_compact_host::types::*;
use proptest::prelude::*;

fn seq() -> impl Strategy<Value = Seq> {
    prop_oneof![9 => 0u32..24, 1 => any::<u32>()]
}

fn range() -> impl Strategy<Value = SurfaceRange> {
    (seq(), seq()).prop_map(|(start, end)| SurfaceRange { start, end })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,60}", "\\PC{0,20}", Just("x".repeat(300))]
}

fn id() -> impl Strategy<Value = String> {
    "[ab]?"
}

fn usage() -> impl Strategy<Value = Option<Usage>> {
    let usage = |(input_tokens, output_tokens, cache_read_tokens, cache_write_tokens)| Usage {
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
    };
    let tokens = || prop_oneof![9 => 0u32..3000, 1 => any::<u32>()];
    prop::option::of((tokens(), tokens(), tokens(), tokens()).prop_map(usage))
}

fn result() -> impl Strategy<Value = ToolResult> {
    let block = prop_oneof![
        text().prop_map(ResultBlock::Text),
        text().prop_map(ResultBlock::Reasoning),
        text().prop_map(|json| ResultBlock::Opaque(Opaque {
            kind: "k".into(),
            json
        })),
    ];
    (id(), any::<bool>(), prop::collection::vec(block, 0..3)).prop_map(
        |(call_id, is_error, content)| ToolResult {
            call_id,
            is_error,
            content,
        },
    )
}

fn content() -> impl Strategy<Value = Vec<ContentBlock>> {
    let block = prop_oneof![
        4 => text().prop_map(ContentBlock::Text),
        1 => text().prop_map(ContentBlock::Reasoning),
        3 => (id(), text()).prop_map(|(call_id, arguments)| ContentBlock::ToolCall(ToolCall {
            call_id,
            name: "n".into(),
            arguments,
        })),
        1 => result().prop_map(ContentBlock::ToolResult),
        1 => any::<u32>().prop_map(|byte_length| ContentBlock::Image(Image {
            media_type: "image/png".into(),
            byte_length,
        })),
        1 => text().prop_map(|json| ContentBlock::Opaque(Opaque { kind: "k".into(), json })),
    ];
    prop::collection::vec(block, 0..4)
}

fn payload() -> impl Strategy<Value = Payload> {
    let turn = || prop::option::of(0u32..4);
    let step = || (0u32..4, 0u32..4).prop_map(|(turn, step)| Step { turn, step });
    prop_oneof![
        1 => (0u32..4).prop_map(Payload::TurnStart),
        1 => (0u32..4).prop_map(Payload::TurnEnd),
        1 => step().prop_map(Payload::StepStart),
        1 => step().prop_map(Payload::StepEnd),
        1 => (any::<u32>(), "[xy]").prop_map(|(tokens, fingerprint)| Payload::RequestHeader(RequestHeader {
            route: Route { provider: "p".into(), model: fingerprint.clone() },
            overhead_tokens: tokens % 200,
            fingerprint,
        })),
        6 => (content(), any::<bool>(), prop_oneof![4 => Just("user"), 1 => Just("plugin:compact")]).prop_map(
            |(content, pinned, source)| Payload::UserMessage(UserMessage { content, source: source.into(), pinned }),
        ),
        6 => (content(), usage()).prop_map(|(content, usage)| Payload::AssistantMessage(AssistantMessage { content, usage })),
        6 => result().prop_map(Payload::ToolResult),
        1 => content().prop_map(Payload::ContextMessage),
        1 => content().prop_map(Payload::SteeringMessage),
        1 => turn().prop_map(|turn| Payload::CompactStart(CompactStart { turn })),
        1 => turn().prop_map(|turn| Payload::CompactEnd(CompactEnd { turn, error: None })),
        1 => Just(Payload::Reopened),
        1 => Just(Payload::Other("x".into())),
    ]
}

fn event() -> impl Strategy<Value = Draft> {
    let surface = prop_oneof![
        40 => Just(true).prop_map(|_| SurfaceOp::Append),
        2 => range().prop_map(SurfaceOp::Replace),
    ];
    (payload(), surface, 0u32..60).prop_map(|(payload, op, odd)| {
        let node = matches!(
            payload,
            Payload::UserMessage(_)
                | Payload::AssistantMessage(_)
                | Payload::ToolResult(_)
                | Payload::ContextMessage(_)
                | Payload::SteeringMessage(_)
        );
        // Now and then a node that is on no surface, or the reverse.
        let surface = (node != (odd == 0)).then_some(op);
        Draft {
            payload,
            surface,
            sources: vec![],
        }
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let reason = prop_oneof![
        6 => Just(FinishReason::Stop),
        1 => Just(FinishReason::MaxTokens),
        1 => Just(FinishReason::ToolCalls),
        1 => Just(FinishReason::ContentFilter),
        1 => Just(FinishReason::Other),
    ];
    let chunk = prop_oneof![
        6 => text().prop_map(Chunk::Text),
        1 => text().prop_map(Chunk::Reasoning),
        1 => Just(Chunk::Other("image".into())),
        1 => Just(Chunk::ToolCall(ToolCall { call_id: "a".into(), name: "n".into(), arguments: "{}".into() })),
        4 => (reason, usage()).prop_map(|(reason, usage)| Chunk::Finish(Finish { reason, usage })),
    ];
    let error = || {
        prop_oneof![
            Just(LlmError::Aborted),
            Just(LlmError::ContextOverflow("long".into())),
            Just(LlmError::Other("x".into())),
        ]
    };
    let chunks = || prop::collection::vec(chunk.clone(), 0..5);
    prop_oneof![
        6 => text().prop_map(Reply::text),
        4 => chunks().prop_map(Reply::Chunks),
        1 => error().prop_map(Reply::Fails),
        1 => (chunks(), error()).prop_map(|(chunks, error)| Reply::Breaks(chunks, error)),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let small = |most: u32| prop::option::of(0..most);
    let ratio = || prop::option::of(-0.1f64..1.2);
    let policy = (ratio(), small(900), ratio(), small(900), small(3), small(3)).prop_map(
        |(threshold_ratio, retain_tokens, retain_ratio, max_tokens, compactions, summaries)| {
            Policy {
                threshold_ratio,
                retain_tokens,
                retain_ratio: retain_ratio.filter(|_| retain_tokens.is_none()),
                summarization_max_tokens: max_tokens,
                compaction_retries: compactions,
                summary_retries: summaries,
                ..Policy::default()
            }
        },
    );
    let anchor = prop_oneof![
        Just(UsageAnchor::Off),
        Just(UsageAnchor::Delta),
        Just(UsageAnchor::Calibrated)
    ];
    let input = prop_oneof![
        Just(SummarizationInput::Auto),
        Just(SummarizationInput::Transcript),
        Just(SummarizationInput::Replay),
    ];
    let prune = (1u32..300, 0u32..100, 0u32..100).prop_map(|(threshold, head, tail)| PruneConfig {
        threshold_chars: Some(threshold),
        head_chars: Some(head),
        tail_chars: Some(tail),
    });
    let flags = (any::<bool>(), any::<bool>());
    (
        policy,
        anchor,
        input,
        prop::option::of(prune),
        flags,
        prop::option::of(0.01f64..20.0),
    )
        .prop_map(
            |(policy, anchor, input, prune, (scripts, protect), chars_per_token)| Config {
                policy,
                usage_anchor: Some(anchor),
                summarization_input: Some(input),
                prune,
                script_aware: Some(scripts),
                protect_in_flight_turn: Some(protect),
                chars_per_token,
                ..Config::default()
            },
        )
}

/// What is done with a session.
#[derive(Clone, Debug)]
enum Operation {
    Pressure,
    Overflow,
    Now(Option<u32>),
    Region(SurfaceRange),
    Prune,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => Just(Operation::Pressure),
        1 => Just(Operation::Overflow),
        3 => prop::option::of(0u32..900).prop_map(Operation::Now),
        3 => range().prop_map(Operation::Region),
        1 => Just(Operation::Prune),
    ]
}

/// A surface folded apart from the engine; none where the log is not one.
fn surface(events: &[Event]) -> Option<Vec<Seq>> {
    let mut surface: Vec<Seq> = Vec::new();
    for event in events {
        match event.surface {
            None => {}
            Some(SurfaceOp::Append) => surface.push(event.seq),
            Some(SurfaceOp::Replace(range)) => {
                let at = |seq| surface.iter().position(|node| *node == seq);
                let (first, last) = (at(range.start)?, at(range.end)?);
                if first > last {
                    return None;
                }
                surface.splice(first..=last, [event.seq]);
            }
        }
    }
    Some(surface)
}

#[derive(Clone, Debug)]
struct Case {
    events: Vec<Draft>,
    config: Config,
    replies: Vec<Reply>,
    operations: Vec<Operation>,
    agent: AgentContext,
}

fn case() -> impl Strategy<Value = Case> {
    let agent = (
        prop::option::of(0u32..4000),
        prop::option::of(0u32..9000),
        0u32..300,
        any::<bool>(),
    )
        .prop_map(
            |(context_window, output_tokens, tools_tokens, can_replay)| AgentContext {
                route: None,
                context_window,
                output_tokens: output_tokens.filter(|tokens| *tokens < 2000),
                tools_tokens,
                can_replay,
            },
        );
    (
        prop::collection::vec(event(), 0..24),
        config(),
        prop::collection::vec(reply(), 0..6),
        prop::collection::vec(operation(), 1..4),
        agent,
    )
        .prop_map(|(events, config, replies, operations, agent)| Case {
            events,
            config,
            replies,
            operations,
            agent,
        })
}

/// Everything that a build did with a case.
type Trace = (Vec<String>, Vec<Event>);

fn run(kind: Kind, case: &Case) -> Trace {
    let session = SessionBuilder::new("fuzz");
    for event in &case.events {
        session.log.push(event.clone());
    }
    let model = Arc::new(ScriptedModel::new(case.replies.clone()).with_window(1_000_000));
    let created = create(kind, case.config.clone(), model, None)
        .now_or_never()
        .expect("no waiting");
    let mut compactor = match created {
        Ok(compactor) => compactor,
        Err(error) => return (vec![format!("{error:?}")], Vec::new()),
    };
    let log = session.session();
    let mut trace = Vec::new();
    for operation in &case.operations {
        let before = session.log.events();
        let agent = &case.agent;
        let (trigger, now) = match operation {
            Operation::Overflow => (Trigger::ContextOverflow, None),
            Operation::Now(retain) => (Trigger::Pressure, *retain),
            _ => (Trigger::Pressure, None),
        };
        let options = NowOptions {
            instructions: None,
            retain_tokens: now,
        };
        let outcome = match operation {
            Operation::Pressure | Operation::Overflow => compactor
                .compact_if_needed(&log, agent, "system", &[], trigger, None)
                .now_or_never(),
            Operation::Now(_) => compactor
                .compact_now(&log, agent, &options, None)
                .now_or_never(),
            Operation::Region(range) => {
                let call = compactor
                    .compact_region(&log, *range, agent, None)
                    .now_or_never();
                call.map(|outcome| outcome.map(Some))
            }
            Operation::Prune => {
                let call = compactor.prune(&log).now_or_never();
                call.map(|outcome| outcome.map(|_| None))
            }
        };
        let outcome = outcome.expect("no waiting");
        let after = session.log.events();
        assert_eq!(after[..before.len()], before, "what was there stays");
        match surface(&before) {
            None => {
                assert!(
                    matches!(
                        outcome,
                        Err(CompactError::Session(SessionError::Corrupt(_))
                            | CompactError::Config(_))
                    ),
                    "{outcome:?}"
                );
                assert_eq!(after.len(), before.len());
            }
            Some(old) => {
                let new = surface(&after);
                let odd = before.iter().any(|event| {
                    event.surface.is_some()
                        && !matches!(
                            event.payload,
                            Payload::UserMessage(_)
                                | Payload::AssistantMessage(_)
                                | Payload::ToolResult(_)
                                | Payload::ContextMessage(_)
                                | Payload::SteeringMessage(_)
                        )
                });
                let new = new.expect("what is appended fits the surface");
                if odd {
                    assert_eq!(old, new);
                }
                // Pruning puts one node for one; all else leaves the surface, or lands.
                let pruned = after[before.len()..]
                    .iter()
                    .filter(|event| matches!(event.payload, Payload::CompactPrune(_)))
                    .count();
                let landed = after[before.len()..]
                    .iter()
                    .filter(|event| matches!(event.payload, Payload::CompactSummary(_)))
                    .count();
                if landed == 0 {
                    assert_eq!(old.len(), new.len());
                    assert!(!matches!(outcome, Ok(Some(_))));
                    assert!(pruned > 0 || old == new);
                }
                let starts = after[before.len()..]
                    .iter()
                    .filter(|event| matches!(event.payload, Payload::CompactStart(_)))
                    .count();
                let ends = after[before.len()..]
                    .iter()
                    .filter(|event| matches!(event.payload, Payload::CompactEnd(_)))
                    .count();
                assert!(ends >= starts, "every lock is given back");
            }
        }
        trace.push(format!("{outcome:?}"));
    }
    (trace, session.log.events())
}

fn cases() -> u32 {
    let cases = std::env::var("FUZZ_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    cases.unwrap_or(1500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_survives_anything(case in case()) {
        run(Kind::Native, &case);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases() / 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_component_does_the_same_of_it(case in case()) {
        prop_assert_eq!(run(Kind::Native, &case), run(Kind::Wasmtime, &case));
    }
}
