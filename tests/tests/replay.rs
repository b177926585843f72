//! Real sessions, played event by event with a check after each, as a loop would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use conformance::{Build, Kind, LogCall, RecordedLog, Reply, ScriptedModel, create};
use harness_compact_host::types::*;
use harness_compact_host::{MemoryLog, SessionFile, SessionLog};

async fn events_of(path: &Path) -> Vec<Event> {
    let log = SessionFile::open(path, Default::default()).expect("it is a session");
    let head = log.head().await.expect("it has a head");
    log.read(0, head).await.expect("it can be read")
}

fn in_this_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The usage in a recorded session is of the session as it was, not as it is once
/// it has been compacted on the way.
fn config() -> Config {
    Config {
        usage_anchor: Some(UsageAnchor::Off),
        ..Config::default()
    }
}

async fn compactor() -> Box<dyn Build> {
    let replies = (0..50).map(|index| Reply::text(format!("summary {index}")));
    let model = Arc::new(ScriptedModel::new(replies).with_window(1_000_000));
    let created = create(Kind::Native, config(), model, None).await;
    created.expect("the defaults are valid")
}

/// Play a session; every `stride` events a compactor that has seen nothing of it
/// must decide the same. Answers how often it was compacted.
async fn play(path: &Path, window: u32, stride: usize) -> usize {
    let source = events_of(path).await;
    let agent = AgentContext {
        context_window: Some(window),
        ..AgentContext::default()
    };
    let memory = Arc::new(MemoryLog::new("played"));
    let recorded = Arc::new(RecordedLog::new(memory.clone()));
    let log: Arc<dyn SessionLog> = recorded.clone();
    let mut grown = compactor().await;
    // Where the events of the source are in the log that is compacted on the way.
    let mut moved: BTreeMap<Seq, Seq> = BTreeMap::new();
    let mut compactions: Vec<CompactionResult> = Vec::new();
    for event in &source {
        let at = |seq: Seq| moved.get(&seq).copied();
        let surface = match event.surface {
            // A replacement of its own names nodes that may be gone by now.
            Some(SurfaceOp::Replace(_)) => Some(SurfaceOp::Append),
            op => op,
        };
        let draft = Draft {
            payload: event.payload.clone(),
            surface,
            sources: event.sources.iter().filter_map(|seq| at(*seq)).collect(),
        };
        moved.insert(event.seq, memory.push(draft));

        let fresh = (event.seq as usize).is_multiple_of(stride);
        let prefix = fresh.then(|| {
            let copy = MemoryLog::new("played");
            for event in memory.events() {
                copy.push(Draft {
                    payload: event.payload,
                    surface: event.surface,
                    sources: event.sources,
                });
            }
            copy
        });
        let trigger = Trigger::Pressure;
        let decision = grown
            .compact_if_needed(&log, &agent, "", &[], trigger, None)
            .await;
        if let Some(copy) = prefix {
            let copy: Arc<dyn SessionLog> = Arc::new(copy);
            // It gives the summary that the grown one would have been given.
            let summary = Reply::text(format!("summary {}", compactions.len()));
            let model = Arc::new(ScriptedModel::new([summary]).with_window(1_000_000));
            let anew = create(Kind::Native, config(), model, None).await;
            let mut anew = anew.expect("the defaults are valid");
            let other = anew
                .compact_if_needed(&copy, &agent, "", &[], trigger, None)
                .await;
            assert_eq!(decision, other, "at event {}", event.seq);
        }
        compactions.extend(decision.expect("nothing fails"));
    }

    // Each event was read once, and those that were summarised once more.
    let mut reads: BTreeMap<Seq, usize> = BTreeMap::new();
    for call in recorded.take_calls() {
        if let LogCall::Read(seqs) = call {
            seqs.into_iter()
                .for_each(|seq| *reads.entry(seq).or_default() += 1);
        }
    }
    for seq in compactions.iter().flat_map(|result| &result.shadowed_seqs) {
        *reads.get_mut(seq).expect("it was read") -= 1;
    }
    assert_eq!(reads.len(), memory.events().len());
    assert!(
        reads.values().all(|count| *count == 1),
        "linear in the log's length"
    );
    compactions.len()
}

#[tokio::test]
async fn the_sample() {
    let sample = in_this_repository("data/sample-session.jsonl");
    assert_eq!(play(&sample, 30_000, 1).await, 2);
}

#[tokio::test]
async fn a_real_session() {
    let path = in_this_repository("../../shared/corpus/pi-before-compaction.jsonl");
    if !path.exists() {
        eprintln!("skipped: {} is not here", path.display());
        return;
    }
    assert!(play(&path, 60_000, 1).await > 3);
}
