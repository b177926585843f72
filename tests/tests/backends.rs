//! What the contract asks of every backend, whatever it decides: of the template of
//! `tests/template-backend`, in the Rust host and in the npm package. With
//! `BACKEND=file.wasm` of that one instead.

use std::collections::BTreeSet;
use std::sync::Arc;

use conformance::{
    Backend, Build, LogCall, RecordedLog, Reply, ScriptedModel, SessionBuilder, backend_under_test,
    surface_seqs,
};
use harness_compact_host::types::*;
use harness_compact_host::{BASIC_BACKEND, CancellationToken, CompactHost, SessionLog};

/// Every check in either host.
macro_rules! in_either_host {
    ($($check:ident),* $(,)?) => {
        mod in_wasmtime {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                let backend = Backend::in_wasmtime(backend_under_test());
                super::$check(&backend).await;
            })*
        }

        mod in_the_package {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                if let Some(backend) = Backend::in_package(backend_under_test()) {
                    super::$check(&backend).await;
                }
            })*
        }
    };
}

in_either_host!(
    it_tells_the_surface,
    it_compacts_by_hand,
    it_compacts_under_pressure_until_there_is_none,
    it_has_nothing_to_do_where_there_is_nothing,
    it_merges_what_it_left_before,
    it_never_parts_a_call_from_its_result,
    it_keeps_what_is_pinned,
    it_compacts_a_range,
    it_refuses_a_range_that_is_none,
    it_respects_a_lock,
    it_settles_a_lock_that_nobody_holds,
    it_stops_where_it_is_aborted,
    it_leaves_the_session_whole_where_the_log_fails,
    it_lands_though_the_log_moves_on,
    it_reads_only_what_is_new,
    it_takes_pages,
    it_refuses_a_log_with_a_gap,
    it_names_a_setting_that_is_wrong,
    it_serves_two_sessions,
);

async fn with(backend: &Backend, config: Config) -> Box<dyn Build> {
    // For a backend that asks.
    let summary = Reply::text("## Requests\n- please");
    let model = Arc::new(ScriptedModel::new(vec![summary; 20]));
    backend.create(config, model).await.expect("a compactor")
}

async fn compactor(backend: &Backend) -> Box<dyn Build> {
    with(backend, Config::default()).await
}

fn agent(window: u32) -> AgentContext {
    AgentContext {
        context_window: Some(window),
        ..AgentContext::default()
    }
}

async fn by_hand(
    compactor: &mut dyn Build,
    log: &Arc<dyn SessionLog>,
) -> Result<Option<CompactionResult>, CompactError> {
    let options = NowOptions {
        instructions: None,
        retain_tokens: Some(300),
    };
    compactor
        .compact_now(log, &agent(100_000), &options, None)
        .await
}

async fn under_pressure(
    compactor: &mut dyn Build,
    log: &Arc<dyn SessionLog>,
    window: u32,
) -> Result<Option<CompactionResult>, CompactError> {
    let pressure = Trigger::Pressure;
    compactor
        .compact_if_needed(log, &agent(window), "", &[], pressure, None)
        .await
}

/// Turns that run tools, the last of them open.
fn with_tools(turns: u32) -> SessionBuilder {
    let session = SessionBuilder::new("tools");
    for turn in 1..=turns {
        session.note(Payload::TurnStart(turn));
        session.user(&format!("Request {turn}: {}", "please ".repeat(30)));
        let ids = [format!("a{turn}"), format!("b{turn}")];
        session.calls(&[ids[0].as_str(), ids[1].as_str()]);
        session.result(&ids[1], &"a line ".repeat(60));
        session.result(&ids[0], &"another line ".repeat(60));
        session.assistant(&"done ".repeat(60));
        if turn < turns {
            session.note(Payload::TurnEnd(turn));
        }
    }
    session
}

/// What a compaction has written, against what it says and what was there.
fn check(session: &SessionBuilder, before: &[Event], result: &CompactionResult) {
    let events = session.log.events();
    assert_eq!(&events[..before.len()], before, "nothing is rewritten");
    let payload = |seq: Seq| &events[seq as usize].payload;
    assert!(matches!(
        payload(result.start_seq),
        Payload::CompactStart(_)
    ));
    let Payload::CompactSummary(record) = payload(result.summary_seq) else {
        panic!("{:?}", payload(result.summary_seq));
    };
    assert_eq!(record.summary, result.summary);
    assert_eq!(record.shadowed_range, result.shadowed_range);
    assert_eq!(record.shadowed_seqs, result.shadowed_seqs);
    assert_eq!(record.shadowed_token_count, result.shadowed_token_count);
    let Payload::CompactEnd(end) = payload(result.end_seq) else {
        panic!("{:?}", payload(result.end_seq));
    };
    assert_eq!(end.error, None);

    // The node follows its record, names what it came of, and is a checkpoint.
    let node = &events[result.summary_seq as usize + 1];
    assert_eq!(
        node.surface,
        Some(SurfaceOp::Replace(result.shadowed_range))
    );
    let sources: BTreeSet<Seq> = node.sources.iter().copied().collect();
    let mut named = result.shadowed_seqs.clone();
    named.extend([result.start_seq, result.summary_seq]);
    assert_eq!(sources, named.into_iter().collect());
    let Payload::UserMessage(checkpoint) = &node.payload else {
        panic!("{:?}", node.payload);
    };
    assert_eq!(checkpoint.source, "plugin:compact");
    for block in &result.summary {
        assert!(checkpoint.content.contains(block));
    }

    // In place of the range, and nowhere else.
    let old = surface_seqs(before);
    let at = |seq| {
        old.iter()
            .position(|node| *node == seq)
            .expect("on the surface")
    };
    let (first, last) = (
        at(result.shadowed_range.start),
        at(result.shadowed_range.end),
    );
    assert_eq!(result.shadowed_seqs, old[first..=last]);
    let mut new = old.clone();
    new.splice(first..=last, [node.seq]);
    assert_eq!(surface_seqs(&events), new);
    assert!(result.after.surface_tokens < result.before.surface_tokens);
    assert_eq!(result.after.nodes as usize, new.len());
    assert!(last + 1 < old.len(), "the newest stays");
}

/// The ids of a node's calls, and of its results.
fn links(event: &Event) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    match &event.payload {
        Payload::AssistantMessage(message) => {
            for block in &message.content {
                if let ContentBlock::ToolCall(call) = block {
                    calls.push(call.call_id.clone());
                }
            }
        }
        Payload::ToolResult(result) => results.push(result.call_id.clone()),
        _ => {}
    }
    (calls, results)
}

/// The same log, without what a compaction that failed has noted of itself.
fn without_notes(events: Vec<Event>) -> Vec<Event> {
    let is_note = |event: &Event| {
        matches!(
            event.payload,
            Payload::CompactStart(_) | Payload::CompactEnd(_)
        )
    };
    events.into_iter().filter(|event| !is_note(event)).collect()
}

async fn it_tells_the_surface(backend: &Backend) {
    let session = with_tools(3);
    session.calls(&["open"]);
    let mut compactor = compactor(backend).await;
    let log = session.session();
    let nodes = compactor.surface(&log).await.expect("a surface");
    let seqs: Vec<Seq> = nodes.iter().map(|node| node.seq).collect();
    assert_eq!(seqs, surface_seqs(&session.log.events()));
    let last = nodes.last().expect("a node");
    assert_eq!(last.open_calls, ["open"]);
    // Before the second result of a pair of calls, a cut parts them.
    let kinds: Vec<NodeKind> = nodes.iter().map(|node| node.kind).collect();
    let results: Vec<bool> = nodes
        .iter()
        .filter(|node| node.kind == NodeKind::ToolResult)
        .map(|node| node.balanced_before)
        .collect();
    assert_eq!(results, [false; 6]);
    assert_eq!(kinds[0], NodeKind::User);
    let measured = compactor
        .measure(&log, &agent(1000), "", &[])
        .await
        .expect("a figure");
    assert_eq!(measured.nodes as usize, nodes.len());
    let sum: u32 = nodes.iter().map(|node| node.tokens).sum();
    assert_eq!(measured.surface_tokens, sum);
}

async fn it_compacts_by_hand(backend: &Backend) {
    for session in [with_tools(8), {
        let session = SessionBuilder::new("plain");
        session.turns(12);
        session
    }] {
        let before = session.log.events();
        let mut compactor = compactor(backend).await;
        let result = by_hand(&mut *compactor, &session.session()).await;
        check(
            &session,
            &before,
            &result.expect("no error").expect("a compaction"),
        );
    }
}

async fn it_compacts_under_pressure_until_there_is_none(backend: &Backend) {
    let session = with_tools(20);
    let log = session.session();
    let mut compactor = compactor(backend).await;
    let before = session.log.events();
    let figure = compactor
        .measure(&log, &agent(4000), "", &[])
        .await
        .expect("a figure");
    assert!(figure.total_tokens >= figure.threshold_tokens);
    let result = under_pressure(&mut *compactor, &log, 4000).await;
    check(
        &session,
        &before,
        &result.expect("no error").expect("a compaction"),
    );
    let figure = compactor
        .measure(&log, &agent(4000), "", &[])
        .await
        .expect("a figure");
    assert!(figure.total_tokens < figure.threshold_tokens);
    let head = session.log.events().len();
    let again = under_pressure(&mut *compactor, &log, 4000).await;
    assert_eq!(again.expect("no error"), None);
    assert_eq!(session.log.events().len(), head);
}

async fn it_has_nothing_to_do_where_there_is_nothing(backend: &Backend) {
    let session = SessionBuilder::new("empty");
    let mut compactor = compactor(backend).await;
    let log = session.session();
    assert_eq!(
        by_hand(&mut *compactor, &log).await.expect("no error"),
        None
    );
    assert_eq!(
        under_pressure(&mut *compactor, &log, 1000)
            .await
            .expect("no error"),
        None
    );
    session.user("hello");
    assert_eq!(
        by_hand(&mut *compactor, &log).await.expect("no error"),
        None
    );
    assert_eq!(session.log.events().len(), 1);
}

async fn it_merges_what_it_left_before(backend: &Backend) {
    let session = with_tools(10);
    let log = session.session();
    let mut compactor = compactor(backend).await;
    by_hand(&mut *compactor, &log)
        .await
        .expect("no error")
        .expect("a compaction");
    for _ in 0..6 {
        session.user(&"more ".repeat(100));
        session.assistant(&"done ".repeat(100));
    }
    let before = session.log.events();
    let result = by_hand(&mut *compactor, &log)
        .await
        .expect("no error")
        .expect("a compaction");
    check(&session, &before, &result);
    let nodes = compactor.surface(&log).await.expect("a surface");
    let checkpoints = nodes
        .iter()
        .filter(|node| node.kind == NodeKind::Checkpoint);
    assert_eq!(checkpoints.count(), 1);
}

async fn it_never_parts_a_call_from_its_result(backend: &Backend) {
    for retain in (0..3000).step_by(149) {
        let session = with_tools(6);
        let mut compactor = compactor(backend).await;
        let options = NowOptions {
            instructions: None,
            retain_tokens: Some(retain),
        };
        let agent = agent(100_000);
        let log = session.session();
        let outcome = compactor.compact_now(&log, &agent, &options, None).await;
        let events = session.log.events();
        let surface = surface_seqs(&events);
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for seq in surface {
            let (of_calls, of_results) = links(&events[seq as usize]);
            calls.extend(of_calls);
            results.extend(of_results);
        }
        calls.sort();
        results.sort();
        assert_eq!(calls, results, "at {retain}: {outcome:?}");
    }
}

async fn it_keeps_what_is_pinned(backend: &Backend) {
    let session = SessionBuilder::new("pinned");
    session.pinned("Never push to main.");
    session.turns(12);
    let log = session.session();
    let mut compactor = compactor(backend).await;
    for _ in 0..2 {
        let result = by_hand(&mut *compactor, &log)
            .await
            .expect("no error")
            .expect("a compaction");
        let events = session.log.events();
        let Payload::UserMessage(checkpoint) = &events[result.summary_seq as usize + 1].payload
        else {
            panic!("a checkpoint is a user message");
        };
        let pin = ContentBlock::Text("Never push to main.".into());
        assert!(checkpoint.content.contains(&pin));
        session.turns(12);
    }
}

async fn it_compacts_a_range(backend: &Backend) {
    let session = with_tools(8);
    let before = session.log.events();
    let surface = surface_seqs(&before);
    let mut compactor = compactor(backend).await;
    let range = SurfaceRange {
        start: surface[5],
        end: surface[24],
    };
    let log = session.session();
    let result = compactor
        .compact_region(&log, range, &agent(100_000), None)
        .await;
    let result = result.expect("a compaction");
    assert_eq!(result.shadowed_range, range);
    check(&session, &before, &result);
}

async fn it_refuses_a_range_that_is_none(backend: &Backend) {
    let session = with_tools(4);
    let before = session.log.events();
    let surface = surface_seqs(&before);
    let log = session.session();
    let mut compactor = compactor(backend).await;
    let refused = [
        (surface[0], 9999, CompactError::NotOnSurface(9999)),
        (9999, surface[0], CompactError::NotOnSurface(9999)),
        (
            surface[5],
            surface[0],
            CompactError::InvertedRange(SurfaceRange {
                start: surface[5],
                end: surface[0],
            }),
        ),
        (surface[0], surface[1], CompactError::Unbalanced(surface[1])),
        (surface[2], surface[4], CompactError::Unbalanced(surface[2])),
    ];
    for (start, end, error) in refused {
        let range = SurfaceRange { start, end };
        let outcome = compactor
            .compact_region(&log, range, &agent(100_000), None)
            .await;
        assert_eq!(outcome, Err(error));
    }
    assert_eq!(session.log.events(), before);
}

async fn it_respects_a_lock(backend: &Backend) {
    let session = with_tools(8);
    let lock = session.note(Payload::CompactStart(CompactStart { turn: Some(8) }));
    let before = session.log.events();
    let log = session.session();
    let mut compactor = compactor(backend).await;
    let busy = Err(CompactError::Busy(lock));
    assert_eq!(by_hand(&mut *compactor, &log).await, busy);
    assert_eq!(under_pressure(&mut *compactor, &log, 2000).await, busy);
    assert_eq!(session.log.events(), before);
}

async fn it_settles_a_lock_that_nobody_holds(backend: &Backend) {
    for (turn, gone) in [
        (None, Payload::Reopened),
        (Some(8), Payload::Reopened),
        (Some(8), Payload::TurnEnd(8)),
    ] {
        let session = with_tools(8);
        session.note(Payload::CompactStart(CompactStart { turn }));
        session.note(gone);
        let head = session.log.events().len();
        let mut compactor = compactor(backend).await;
        let result = by_hand(&mut *compactor, &session.session()).await;
        let result = result.expect("no error").expect("a compaction");
        // Closed with an error first, so that starts and ends go in pairs.
        let Payload::CompactEnd(end) = &session.log.events()[head].payload else {
            panic!("{:?}", session.log.events()[head]);
        };
        assert!(end.error.is_some());
        assert_eq!(result.start_seq as usize, head + 1);
    }
}

async fn it_stops_where_it_is_aborted(backend: &Backend) {
    let session = with_tools(8);
    let before = session.log.events();
    let log = session.session();
    let mut compactor = compactor(backend).await;
    let signal = CancellationToken::new();
    signal.cancel();
    let options = NowOptions {
        instructions: None,
        retain_tokens: None,
    };
    let outcome = compactor
        .compact_now(&log, &agent(100_000), &options, Some(&signal))
        .await;
    assert_eq!(outcome, Err(CompactError::Aborted));
    assert_eq!(without_notes(session.log.events()), before);
    // And the lock is free.
    let result = by_hand(&mut *compactor, &log).await;
    assert!(result.expect("no error").is_some());
}

async fn it_leaves_the_session_whole_where_the_log_fails(backend: &Backend) {
    // The n-th write fails: the lock, the landing.
    for failing in 0..2 {
        let session = with_tools(8);
        let before = session.log.events();
        let writes = std::sync::atomic::AtomicU32::new(0);
        let recorded = RecordedLog::new(session.log.clone()).failing(move |call| {
            let LogCall::Append(_) = call else {
                return None;
            };
            let write = writes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            (write == failing).then(|| SessionError::Rejected("the disk is full".into()))
        });
        let log: Arc<dyn SessionLog> = Arc::new(recorded);
        let mut compactor = compactor(backend).await;
        let outcome = by_hand(&mut *compactor, &log).await;
        let rejected = SessionError::Rejected("the disk is full".into());
        assert_eq!(
            outcome,
            Err(CompactError::Session(rejected)),
            "write {failing}"
        );
        assert_eq!(without_notes(session.log.events()), before);
        // It can be tried again.
        let result = by_hand(&mut *compactor, &log).await;
        assert!(result.expect("no error").is_some());
    }
}

async fn it_lands_though_the_log_moves_on(backend: &Backend) {
    let session = with_tools(8);
    let inner = session.log.clone();
    let writes = std::sync::atomic::AtomicU32::new(0);
    let recorded = RecordedLog::new(session.log.clone()).failing(move |call| {
        let LogCall::Append(_) = call else {
            return None;
        };
        // Somebody else writes before it takes the lock, and before it lands.
        let write = writes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if matches!(write, 0 | 2) {
            inner.push(Draft::log_only(Payload::Other("todo/write".into())));
        }
        None
    });
    let log: Arc<dyn SessionLog> = Arc::new(recorded);
    let mut compactor = compactor(backend).await;
    let result = by_hand(&mut *compactor, &log)
        .await
        .expect("no error")
        .expect("a compaction");
    let events = session.log.events();
    let kinds = [result.start_seq, result.summary_seq, result.end_seq];
    assert!(matches!(
        kinds.map(|seq| &events[seq as usize].payload),
        [
            Payload::CompactStart(_),
            Payload::CompactSummary(_),
            Payload::CompactEnd(_)
        ]
    ));
    let node = result.summary_seq + 1;
    assert_eq!(surface_seqs(&events)[0], node);
    assert!(events[node as usize].sources.contains(&result.summary_seq));
}

async fn it_reads_only_what_is_new(backend: &Backend) {
    let session = with_tools(40);
    let log = Arc::new(RecordedLog::new(session.log.clone()));
    let shared: Arc<dyn SessionLog> = log.clone();
    let mut compactor = compactor(backend).await;
    compactor
        .measure(&shared, &agent(100_000), "", &[])
        .await
        .expect("a figure");
    log.take_calls();
    let new = session.user("one more");
    compactor
        .measure(&shared, &agent(100_000), "", &[])
        .await
        .expect("a figure");
    let read: Vec<LogCall> = log.take_calls();
    assert_eq!(read, [LogCall::Read(vec![new])]);
}

async fn it_takes_pages(backend: &Backend) {
    let session = with_tools(12);
    let log: Arc<dyn SessionLog> = Arc::new(RecordedLog::new(session.log.clone()).paged(3));
    let before = session.log.events();
    let mut compactor = compactor(backend).await;
    let result = by_hand(&mut *compactor, &log)
        .await
        .expect("no error")
        .expect("a compaction");
    check(&session, &before, &result);
}

async fn it_refuses_a_log_with_a_gap(backend: &Backend) {
    let session = with_tools(4);
    session.log.push(Draft {
        payload: Payload::UserMessage(UserMessage {
            content: Vec::new(),
            source: "user".into(),
            pinned: false,
        }),
        surface: Some(SurfaceOp::Replace(SurfaceRange { start: 0, end: 0 })),
        sources: Vec::new(),
    });
    let before = session.log.events();
    let mut compactor = compactor(backend).await;
    // And again: it has not read over it.
    for _ in 0..2 {
        let outcome = by_hand(&mut *compactor, &session.session()).await;
        let corrupt = matches!(
            outcome,
            Err(CompactError::Session(SessionError::Corrupt(_)))
        );
        assert!(corrupt, "{outcome:?}");
        assert_eq!(session.log.events(), before);
    }
}

async fn it_names_a_setting_that_is_wrong(backend: &Backend) {
    let config = Config {
        policy: Policy {
            threshold_ratio: Some(1.5),
            ..Policy::default()
        },
        ..Config::default()
    };
    let model = Arc::new(ScriptedModel::new([]));
    match backend.create(config, model).await.map(|_| ()) {
        Err(CompactError::Config(error)) => assert_eq!(error.key, "policy.threshold-ratio"),
        other => panic!("{other:?}"),
    }
}

async fn it_serves_two_sessions(backend: &Backend) {
    // The package keeps an instance a session, and this runner has one session.
    let Backend::Wasmtime(_) = backend else {
        return;
    };
    let (one, other) = (with_tools(8), SessionBuilder::new("other"));
    other.turns(12);
    let mut compactor = compactor(backend).await;
    for session in [&one, &other] {
        compactor
            .surface(&session.session())
            .await
            .expect("a surface");
    }
    for session in [&one, &other] {
        let before = session.log.events();
        let result = by_hand(&mut *compactor, &session.session()).await;
        check(
            session,
            &before,
            &result.expect("no error").expect("a compaction"),
        );
    }
}

#[tokio::test]
async fn the_template_calls_no_model() {
    if std::env::var_os("BACKEND").is_some() {
        return eprintln!("skipped: another backend is under test");
    }
    let backend = Backend::in_wasmtime(backend_under_test());
    let model = Arc::new(ScriptedModel::new([]));
    let created = backend.create(Config::default(), model.clone()).await;
    let mut compactor = created.expect("a compactor");
    let session = with_tools(20);
    let result = under_pressure(&mut *compactor, &session.session(), 4000).await;
    assert!(result.expect("no error").is_some());
    assert!(model.requests().is_empty());
}

/// Ours takes what a template left, and a template what ours left.
#[tokio::test]
async fn backends_take_over_from_each_other() {
    let template = Backend::in_wasmtime(backend_under_test());
    let basic = Backend::in_wasmtime(BASIC_BACKEND);
    let session = SessionBuilder::new("handed-on");
    for backend in [&template, &basic, &template] {
        session.turns(12);
        let before = session.log.events();
        let summary = Reply::text("## Requests\n- please");
        let model = Arc::new(ScriptedModel::new([summary]));
        let created = backend.create(Config::default(), model).await;
        let mut compactor = created.expect("a compactor");
        let result = by_hand(&mut *compactor, &session.session()).await;
        check(
            &session,
            &before,
            &result.expect("no error").expect("a compaction"),
        );
    }
}

#[test]
fn a_component_that_is_no_backend_is_refused_by_name() {
    let refused = |wat: &str| {
        let component = wat::parse_str(wat).expect("a component");
        let error = CompactHost::with_component(&component).map(|_| ());
        error.expect_err("no backend").to_string()
    };
    let clock = r#"(component (import "wasi:clocks/monotonic-clock@0.2.0"
        (instance (export "now" (func (result u64))))))"#;
    let told = refused(clock);
    assert!(told.contains("wasi:clocks/monotonic-clock@0.2.0"), "{told}");
    let later = r#"(component (instance $it)
        (export "harness:compact/compact@0.2.0" (instance $it)))"#;
    for component in ["(component)", later] {
        let told = refused(component);
        assert!(told.contains("harness:compact/compact@0.1.0"), "{told}");
    }
    let told = CompactHost::with_component(b"no component").map(|_| ());
    assert!(told.is_err());
}
