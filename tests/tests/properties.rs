//! What must hold for every session and every answer. Numbers are those of the
//! invariants in the project's list of pitfalls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use conformance::{Build, Kind, Reply, ScriptedModel, SessionBuilder, create, surface_seqs};
use futures_util::FutureExt;
use harness_compact_host::types::*;
use harness_compact_host::{MemoryLog, SessionLog};
use proptest::prelude::*;

/// One thing that happens in a session.
#[derive(Clone, Debug)]
enum Happening {
    User(String),
    Pinned(String),
    Blocks(Vec<ContentBlock>),
    Assistant(String),
    Empty,
    /// Calls by these ids; small numbers, so that ids repeat.
    Calls(Vec<u8>),
    Result(u8, String),
    /// A message of the user's that holds a result as well as text.
    Mixed(u8, String),
    Context(String),
    Steering(String),
    TurnStart,
    TurnEnd,
    Other,
    Reopened,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z ]{0,400}",
        1 => "[你好世界é😀\u{2028}\"\\\\\n</transcript> ]{0,120}",
        1 => Just(String::new()),
    ]
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        text().prop_map(ContentBlock::Text),
        text().prop_map(ContentBlock::Reasoning),
        (0u32..9_000_000).prop_map(|byte_length| ContentBlock::Image(Image {
            media_type: "image/png".into(),
            byte_length,
        })),
        text().prop_map(|text| ContentBlock::Opaque(Opaque {
            kind: "future-block".into(),
            json: format!("{{\"type\":\"future-block\",\"x\":{text:?}}}"),
        })),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    prop_oneof![
        4 => text().prop_map(User),
        1 => text().prop_map(Pinned),
        2 => prop::collection::vec(block(), 0..4).prop_map(Blocks),
        4 => text().prop_map(Assistant),
        1 => Just(Empty),
        6 => prop::collection::vec(0u8..12, 1..4).prop_map(Calls),
        9 => (0u8..12, text()).prop_map(|(id, text)| Result(id, text)),
        1 => (0u8..12, text()).prop_map(|(id, text)| Mixed(id, text)),
        1 => text().prop_map(Context),
        1 => text().prop_map(Steering),
        2 => Just(TurnStart),
        2 => Just(TurnEnd),
        1 => Just(Other),
        1 => Just(Reopened),
    ]
}

fn sessions() -> impl Strategy<Value = Vec<Happening>> {
    prop::collection::vec(happening(), 0..60)
}

fn write(happenings: &[Happening]) -> SessionBuilder {
    let session = SessionBuilder::new("generated");
    let mut turn = 0;
    for happening in happenings {
        match happening {
            Happening::User(text) => session.user(text),
            Happening::Pinned(text) => session.pinned(text),
            Happening::Blocks(blocks) => session.user_blocks(blocks.clone()),
            Happening::Assistant(text) => session.assistant(text),
            Happening::Empty => session.assistant_blocks(Vec::new(), None),
            Happening::Calls(ids) => {
                let ids: Vec<String> = ids.iter().map(|id| format!("c{id}")).collect();
                session.calls(&ids.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Happening::Result(id, text) => session.result(&format!("c{id}"), text),
            Happening::Mixed(id, text) => session.user_blocks(vec![
                ContentBlock::ToolResult(ToolResult {
                    call_id: format!("c{id}"),
                    is_error: false,
                    content: vec![],
                }),
                ContentBlock::Text(text.clone()),
            ]),
            Happening::Context(text) => {
                session.node(Payload::ContextMessage(vec![ContentBlock::Text(
                    text.clone(),
                )]))
            }
            Happening::Steering(text) => {
                session.node(Payload::SteeringMessage(vec![ContentBlock::Text(
                    text.clone(),
                )]))
            }
            Happening::TurnStart => {
                turn += 1;
                session.note(Payload::TurnStart(turn))
            }
            Happening::TurnEnd => session.note(Payload::TurnEnd(turn)),
            Happening::Other => session.note(Payload::Other("todo/write".into())),
            Happening::Reopened => session.note(Payload::Reopened),
        };
    }
    session
}

/// The calls and results of a node, in order.
fn links(event: &Event) -> Vec<(bool, String)> {
    let of = |content: &[ContentBlock]| {
        let link = |block: &ContentBlock| match block {
            ContentBlock::ToolCall(call) => Some((true, call.call_id.clone())),
            ContentBlock::ToolResult(result) => Some((false, result.call_id.clone())),
            _ => None,
        };
        content.iter().filter_map(link).collect()
    };
    match &event.payload {
        Payload::UserMessage(message) => of(&message.content),
        Payload::AssistantMessage(message) => of(&message.content),
        Payload::ContextMessage(content) | Payload::SteeringMessage(content) => of(content),
        Payload::ToolResult(result) => vec![(false, result.call_id.clone())],
        _ => Vec::new(),
    }
}

/// How many calls lack a result, and results a call, where each result takes
/// the newest call of its id.
fn unpaired(events: &[Event], surface: &[Seq]) -> (usize, usize) {
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    let mut orphans = 0;
    for seq in surface {
        for (is_call, id) in links(&events[*seq as usize]) {
            let waiting = waiting.entry(id).or_default();
            match (is_call, *waiting) {
                (true, _) => *waiting += 1,
                (false, 0) => orphans += 1,
                (false, _) => *waiting -= 1,
            }
        }
    }
    (waiting.values().sum(), orphans)
}

fn compactor(kind: Kind, model: &Arc<ScriptedModel>) -> Box<dyn Build> {
    let created = create(kind, Config::default(), model.clone(), None);
    created
        .now_or_never()
        .expect("no waiting")
        .expect("the defaults are valid")
}

fn compact_now(
    compactor: &mut dyn Build,
    session: &Arc<dyn SessionLog>,
    retain: Option<u32>,
) -> Result<Option<CompactionResult>, CompactError> {
    let options = NowOptions {
        instructions: None,
        retain_tokens: retain,
    };
    let agent = AgentContext::default();
    let call = compactor.compact_now(session, &agent, &options, None);
    call.now_or_never().expect("no waiting")
}

/// What must hold after a compaction by hand, whatever it was given.
fn check(kind: Kind, happenings: &[Happening], retain: Option<u32>, summary: &str, late: bool) {
    let session = write(happenings);
    let before = session.log.events();
    let surface_before = surface_seqs(&before);
    let log = session.log.clone();
    let model = Arc::new(
        ScriptedModel::new([Reply::text(summary)]).on_call(move |index| {
            if late && index == 0 {
                append(&log, "this came while the summary was written");
            }
        }),
    );
    let mut compactor = compactor(kind, &model);
    let outcome = compact_now(&mut *compactor, &session.session(), retain);
    let after = session.log.events();
    let surface_after = surface_seqs(&after);
    // What was there is still there, word for word.
    assert_eq!(after[..before.len()], before, "P3");

    let Ok(Some(result)) = outcome else {
        let came = usize::from(late && !model.requests().is_empty());
        let kept = &surface_after[..surface_after.len() - came];
        assert_eq!(kept, surface_before, "P6: {outcome:?}");
        return;
    };
    // The surface is the checkpoint, then what was kept, then what came meanwhile.
    let removed = result.shadowed_seqs.len();
    assert_eq!(result.shadowed_seqs, surface_before[..removed], "P2");
    assert_eq!(surface_after[0], result.summary_seq + 1);
    let kept = &surface_before[removed..];
    assert_eq!(&surface_after[1..=kept.len()], kept, "P2");
    assert!(!kept.is_empty(), "the newest unit stays");
    let late_nodes = &surface_after[kept.len() + 1..];
    assert_eq!(late_nodes.len(), usize::from(late), "P7");

    // No exchange was cut in two: what was unpaired was so before.
    let (calls_before, results_before) = unpaired(&before, &surface_before);
    let (calls_removed, results_removed) = unpaired(&before, &result.shadowed_seqs);
    let (calls_kept, results_kept) = unpaired(&before, kept);
    assert_eq!(results_before, results_removed + results_kept, "P1");
    assert_eq!(calls_before, calls_removed + calls_kept, "P1");

    // Everything that was removed was shown to the summariser.
    let shown: BTreeSet<Seq> = model
        .requests()
        .iter()
        .flat_map(|request| match &request.prompt {
            Prompt::Standalone(prompt) => prompt.nodes.clone(),
            Prompt::Replay(prompt) => prompt.nodes.clone(),
        })
        .collect();
    assert_eq!(shown, result.shadowed_seqs.iter().copied().collect(), "P4");
    assert!(result.elided_seqs.is_empty());

    // It is smaller, by its own measure.
    let came = if late {
        result.after.nodes - 1 - kept.len() as u32
    } else {
        0
    };
    if came == 0 {
        assert!(result.after.total_tokens < result.before.total_tokens, "P5");
    }
    // And what was pinned is still said.
    let Payload::UserMessage(checkpoint) = &after[surface_after[0] as usize].payload else {
        panic!("a checkpoint is a user message");
    };
    for seq in &result.shadowed_seqs {
        if let Payload::UserMessage(message) = &before[*seq as usize].payload
            && message.pinned
        {
            let carried = message
                .content
                .iter()
                .all(|block| checkpoint.content.contains(block));
            assert!(carried, "P13");
        }
    }
}

fn append(log: &MemoryLog, text: &str) {
    let message = UserMessage {
        content: vec![ContentBlock::Text(text.into())],
        source: "user".into(),
        pinned: false,
    };
    log.push(Draft::on_surface(Payload::UserMessage(message)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p1_to_p7_hold_natively(
        happenings in sessions(),
        retain in prop::option::of(0u32..2000),
        summary in text(),
        late in any::<bool>(),
    ) {
        check(Kind::Native, &happenings, retain, &summary, late);
    }

    #[test]
    fn p6_a_failed_call_leaves_the_surface(happenings in sessions(), which in 0usize..6) {
        let aborted = LlmError::Aborted;
        let reply = match which {
            0 => Reply::Fails(LlmError::Unavailable("down".into())),
            1 => Reply::Fails(LlmError::ContextOverflow("long".into())),
            2 => Reply::Breaks(vec![Chunk::Text("half".into())], LlmError::Other("gone".into())),
            3 => Reply::Chunks(vec![Chunk::Text("half a summ".into())]),
            4 => Reply::ends("filtered", FinishReason::ContentFilter),
            _ => Reply::Fails(aborted),
        };
        let session = write(&happenings);
        let before = session.log.events();
        let model = Arc::new(ScriptedModel::new([reply]));
        let mut compactor = compactor(Kind::Native, &model);
        let outcome = compact_now(&mut *compactor, &session.session(), None);
        let after = session.log.events();
        prop_assert!(!matches!(outcome, Ok(Some(_))));
        prop_assert_eq!(surface_seqs(&after), surface_seqs(&before));
        // One closed bracket, or nothing at all.
        let appended: Vec<&Payload> = after[before.len()..].iter().map(|e| &e.payload).collect();
        let bracket = matches!(
            appended[..],
            [] | [Payload::CompactStart(_), Payload::CompactEnd(CompactEnd { error: Some(_), .. })]
        );
        prop_assert!(bracket, "{:?}", appended);
    }

    #[test]
    fn p8_same_state_and_same_answer_give_the_same_result(happenings in sessions(), summary in text()) {
        let run = || {
            let session = write(&happenings);
            let model = Arc::new(ScriptedModel::new([Reply::text(summary.as_str())]));
            let outcome = compact_now(&mut *compactor(Kind::Native, &model), &session.session(), None);
            (outcome, session.log.events())
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn p8_a_fold_that_grew_decides_as_one_made_anew(happenings in sessions(), split in 0usize..60) {
        let split = split.min(happenings.len());
        let session = write(&happenings[..split]);
        let model = Arc::new(ScriptedModel::new([]));
        let mut grown = compactor(Kind::Native, &model);
        let log = session.session();
        let _ = grown.surface(&log).now_or_never().expect("no waiting");
        let rest = write(&happenings);
        for event in &rest.log.events()[split..] {
            session.log.push(Draft {
                payload: event.payload.clone(),
                surface: event.surface,
                sources: event.sources.clone(),
            });
        }
        let anew = compactor(Kind::Native, &model).surface(&rest.session()).now_or_never();
        prop_assert_eq!(grown.surface(&log).now_or_never(), anew);
    }

    #[test]
    fn p12_budgets_fit_any_window(window in 3u32..=u32::MAX) {
        let session = SessionBuilder::new("empty");
        let model = Arc::new(ScriptedModel::new([]));
        let agent = AgentContext { context_window: Some(window), ..AgentContext::default() };
        let mut compactor = compactor(Kind::Native, &model);
        let log = session.session();
        let measured = compactor.measure(&log, &agent, "", &[]).now_or_never().expect("no waiting");
        let measured = measured.expect("any window can be measured");
        prop_assert!(0 < measured.retain_tokens);
        prop_assert!(measured.retain_tokens < measured.threshold_tokens);
        prop_assert!(measured.threshold_tokens < window);
    }

    #[test]
    fn p15_p10_a_small_window_gets_parts_that_fit(
        texts in prop::collection::vec("[a-z你好😀\n ]{0,4000}", 3..12),
        window in 2500u32..9000,
    ) {
        let session = SessionBuilder::new("long");
        for text in &texts {
            session.user(text);
        }
        session.assistant("and now");
        // Each answer is as long as its cap allows, after one that was cut off.
        let replies = (0..80).flat_map(|_| {
            let half = Reply::ends("half", FinishReason::MaxTokens);
            [half, Reply::text(ScriptedModel::AT_ITS_CAP)]
        });
        let model = ScriptedModel::new(replies).with_window(window);
        let model = Arc::new(model);
        let outcome = compact_now(&mut *compactor(Kind::Native, &model), &session.session(), None);
        for request in model.requests() {
            let Prompt::Standalone(prompt) = &request.prompt else { panic!("a transcript") };
            let units = prompt.system.encode_utf16().count() + prompt.user.encode_utf16().count();
            let tokens = units.div_ceil(4) as u32 + request.max_tokens.unwrap_or(0);
            prop_assert!(tokens <= window, "P10: {} of {}", tokens, window);
            prop_assert!(!prompt.user.contains('\u{fffd}'), "P15");
        }
        let shown = model.requests().into_iter().flat_map(|request| match request.prompt {
            Prompt::Standalone(prompt) => prompt.nodes,
            Prompt::Replay(prompt) => prompt.nodes,
        });
        let mut shown: Vec<Seq> = shown.collect();
        // Each part was asked for twice.
        shown.sort_unstable();
        shown.dedup();
        if let Ok(Some(result)) = outcome {
            prop_assert_eq!(shown, result.shadowed_seqs, "P4");
        }
    }

    #[test]
    fn p17_unknown_blocks_cost_what_their_json_is_long(json in "[a-z\"]{0,300}") {
        let session = SessionBuilder::new("opaque");
        let seq = session.user_blocks(vec![ContentBlock::Opaque(Opaque { kind: "x".into(), json: json.clone() })]);
        let model = Arc::new(ScriptedModel::new([]));
        let surface = compactor(Kind::Native, &model).surface(&session.session()).now_or_never();
        let surface = surface.expect("no waiting").expect("it can be read");
        prop_assert_eq!((surface[0].seq, surface[0].tokens), (seq, 8 + (json.len() as u32).div_ceil(4)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_component_does_what_the_engine_does(
        happenings in sessions(),
        retain in prop::option::of(0u32..2000),
        summary in text(),
    ) {
        let run = |kind| {
            let session = write(&happenings);
            let model = Arc::new(ScriptedModel::new([Reply::text(summary.as_str())]));
            let mut compactor = compactor(kind, &model);
            let surface = compactor.surface(&session.session()).now_or_never();
            let outcome = compact_now(&mut *compactor, &session.session(), retain);
            (surface, outcome, session.log.events(), model.requests())
        };
        prop_assert_eq!(run(Kind::Native), run(Kind::Wasmtime));
    }
}

#[test]
fn p16_one_compaction_at_a_time() {
    for kind in [Kind::Native, Kind::Wasmtime] {
        let session = SessionBuilder::new("busy");
        session.turns(8);
        let log = session.session();
        let second = std::sync::Mutex::new(None);
        let second = Arc::new(second);
        let (seen, other) = (second.clone(), log.clone());
        // While the first call is out, another process wants to compact as well.
        let model = Arc::new(
            ScriptedModel::new([Reply::text("short")]).on_call(move |_| {
                let other = other.clone();
                let outcome = std::thread::spawn(move || {
                    let model = Arc::new(ScriptedModel::new([Reply::text("mine")]));
                    compact_now(&mut *compactor(kind, &model), &other, None)
                });
                *seen.lock().unwrap() = Some(outcome.join().unwrap());
            }),
        );
        let first = compact_now(&mut *compactor(kind, &model), &log, None);
        let start = first.unwrap().unwrap().start_seq;
        let second = second.lock().unwrap().take();
        assert_eq!(second, Some(Err(CompactError::Busy(start))), "{kind:?}");
    }
}
