//! Taking the lock, landing a summary, giving the lock back.
//!
//! Every write is a compare-and-append against the head that its conditions were
//! checked at. Where the log moved on meanwhile, the conditions are checked again
//! at the new head, and only then is the write tried again.

use crate::compact::{CompactError, NodeKind, Pruned};
use crate::fold::{Fold, Node};
use crate::llm::Model;
use crate::pairing::Pairing;
use crate::prune::{self, Limits};
use crate::reading::{Reader, corrupt};
use crate::session::{
    CHECKPOINT_SOURCE, CompactEnd, CompactPrune, CompactStart, CompactSummary, Draft, Payload,
    SessionError, SessionLog, SurfaceOp, UserMessage,
};
use crate::types::{ContentBlock, Seq, SurfaceRange, ToolResult};

/// How often a write is tried against a log that others keep writing to.
const ATTEMPTS: u32 = 64;

/// A compaction that holds the lock.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub seq: Seq,
    turn: Option<u32>,
    /// The nodes that it is about, in surface order.
    pub nodes: Vec<Seq>,
}

/// Where a compaction's last two events landed.
pub(crate) struct Landed {
    pub summary_seq: Seq,
    pub end_seq: Seq,
}

/// The nodes of a range that can be compacted as the surface stands.
pub(crate) fn check_range(fold: &Fold, range: SurfaceRange) -> Result<Vec<Seq>, CompactError> {
    let find = |seq| fold.position(seq).ok_or(CompactError::NotOnSurface(seq));
    let (first, last) = (find(range.start)?, find(range.end)?);
    if first > last {
        return Err(CompactError::InvertedRange(range));
    }
    let pairing = Pairing::of(fold);
    if !pairing.balanced_before(first) {
        return Err(CompactError::Unbalanced(range.start));
    }
    if !pairing.balanced_before(last + 1) {
        return Err(CompactError::Unbalanced(range.end));
    }
    Ok(fold.nodes[first..=last].iter().map(|n| n.seq).collect())
}

/// Whether another compaction is under way.
pub(crate) fn check_lock(fold: &Fold) -> Result<(), CompactError> {
    match fold.lock {
        Some(lock) if !lock.stale => Err(CompactError::Busy(lock.seq)),
        _ => Ok(()),
    }
}

/// Take the lock for a compaction of `range`. A lock that nobody will give back
/// is closed with an error first.
pub(crate) async fn begin<S: SessionLog, M: Model<S>>(
    reader: &Reader<'_, S, M>,
    fold: &mut Fold,
    range: SurfaceRange,
) -> Result<Started, CompactError> {
    let mut attempts = ATTEMPTS;
    loop {
        let nodes = check_range(fold, range)?;
        check_lock(fold)?;
        let mut drafts = Vec::new();
        if let Some(stale) = fold.lock {
            let why = "the compaction was abandoned: its turn or its process ended before it did";
            drafts.push(end(stale.turn, Some(why.into())));
        }
        let turn = fold.turn;
        let start = CompactStart { turn };
        drafts.push(Draft::log_only(Payload::CompactStart(start)));
        let Some(first) = append(reader, fold, &drafts, &mut attempts).await? else {
            continue;
        };
        let seq = first + drafts.len() as Seq - 1;
        reader.catch_up(fold).await?;
        if fold.lock.map(|lock| lock.seq) != Some(seq) {
            return Err(corrupt(format!(
                "event {seq} was appended as a compact-start and does not read back as one"
            )));
        }
        return Ok(Started { seq, turn, nodes });
    }
}

/// Land a summary: its record, the checkpoint in place of the range, and the end
/// marker, in one append or not at all.
pub(crate) async fn land<S: SessionLog, M: Model<S>>(
    reader: &Reader<'_, S, M>,
    fold: &mut Fold,
    started: &Started,
    record: CompactSummary,
    checkpoint: Vec<ContentBlock>,
) -> Result<Landed, CompactError> {
    let range = record.shadowed_range;
    let mut drafts = vec![
        Draft::log_only(Payload::CompactSummary(record)),
        Draft {
            payload: Payload::UserMessage(UserMessage {
                content: checkpoint,
                source: CHECKPOINT_SOURCE.into(),
                pinned: false,
            }),
            surface: Some(SurfaceOp::Replace(range)),
            sources: Vec::new(),
        },
        end(started.turn, None),
    ];
    let mut attempts = ATTEMPTS;
    loop {
        reader.catch_up(fold).await?;
        let ours = fold.lock.map(|lock| lock.seq) == Some(started.seq);
        let stands = check_range(fold, range).is_ok_and(|nodes| nodes == started.nodes);
        if !ours || !stands {
            return Err(CompactError::Changed);
        }
        let summary_seq = fold.next;
        drafts[1].sources = [started.seq, summary_seq].into();
        drafts[1].sources.extend(&started.nodes);
        if append(reader, fold, &drafts, &mut attempts)
            .await?
            .is_some()
        {
            let end_seq = summary_seq + 2;
            return Ok(Landed {
                summary_seq,
                end_seq,
            });
        }
    }
}

/// Give the lock back without a change. What goes wrong here is not told: the
/// caller has the error that matters, and a lock that stays is settled later.
pub(crate) async fn abandon<S: SessionLog, M: Model<S>>(
    reader: &Reader<'_, S, M>,
    fold: &mut Fold,
    started: &Started,
    why: &CompactError,
) {
    let drafts = [end(started.turn, Some(why.to_string()))];
    let mut attempts = ATTEMPTS;
    loop {
        // Only if it is still ours: it may have landed though the append failed.
        let caught_up = reader.catch_up(fold).await.is_ok();
        if !caught_up || fold.lock.map(|lock| lock.seq) != Some(started.seq) {
            return;
        }
        match append(reader, fold, &drafts, &mut attempts).await {
            Ok(None) => continue,
            Ok(Some(_)) => {
                let _ = reader.session.flush().await;
                return;
            }
            Err(_) => return,
        }
    }
}

/// Rewrite every oversized tool result on the surface, in one append.
pub(crate) async fn prune<S: SessionLog, M: Model<S>>(
    reader: &Reader<'_, S, M>,
    fold: &mut Fold,
    limits: Limits,
) -> Result<Vec<Pruned>, CompactError> {
    let mut attempts = ATTEMPTS;
    loop {
        // Only what costs enough to be too long is read.
        let could_be_long = |node: &&Node| {
            node.kind == NodeKind::ToolResult && reader.could_hold(node.tokens, limits.threshold)
        };
        let nodes = fold.nodes.iter().filter(could_be_long);
        let (seqs, tokens): (Vec<Seq>, Vec<u32>) = nodes.map(|n| (n.seq, n.tokens)).unzip();
        let (mut drafts, mut pruned) = (Vec::new(), Vec::new());
        for (event, tokens) in reader.nodes(&seqs).await?.into_iter().zip(tokens) {
            let Payload::ToolResult(result) = event.payload else {
                continue;
            };
            let Some((content, before, after)) = prune::shorten(&result.content, limits) else {
                continue;
            };
            let range = SurfaceRange {
                start: event.seq,
                end: event.seq,
            };
            drafts.push(Draft::log_only(Payload::CompactPrune(CompactPrune {
                shadowed_range: range,
                shadowed_token_count: tokens,
            })));
            pruned.push(Pruned {
                original_seq: event.seq,
                replacement_seq: fold.next + drafts.len() as Seq,
                call_id: result.call_id.clone(),
                chars_before: before as u32,
                chars_after: after as u32,
            });
            drafts.push(Draft {
                payload: Payload::ToolResult(ToolResult { content, ..result }),
                surface: Some(SurfaceOp::Replace(range)),
                sources: vec![event.seq],
            });
        }
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        if append(reader, fold, &drafts, &mut attempts)
            .await?
            .is_some()
        {
            reader.catch_up(fold).await?;
            return Ok(pruned);
        }
    }
}

fn end(turn: Option<u32>, error: Option<String>) -> Draft {
    Draft::log_only(Payload::CompactEnd(CompactEnd { turn, error }))
}

/// Append at the head that `fold` stands at. None where the log has moved on;
/// the fold has then caught up.
async fn append<S: SessionLog, M: Model<S>>(
    reader: &Reader<'_, S, M>,
    fold: &mut Fold,
    drafts: &[Draft],
    attempts: &mut u32,
) -> Result<Option<Seq>, CompactError> {
    match reader.session.append(drafts, Some(fold.next)).await {
        Ok(first) if first == fold.next => Ok(Some(first)),
        Ok(first) => Err(corrupt(format!(
            "an append at head {} answered {first}",
            fold.next
        ))),
        Err(SessionError::Conflict(_)) if *attempts > 1 => {
            *attempts -= 1;
            reader.catch_up(fold).await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
