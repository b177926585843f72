//! The surface of a session, folded from its log: which nodes the next request is
//! made from, which calls have their results, and who holds the lock.

use std::ops::RangeInclusive;

use crate::exports::harness::compact::compact::{CompactError, NodeKind, SurfaceNode};
use crate::harness::compact::session::{Event, Payload, Session, SessionError, SurfaceOp};
use crate::harness::compact::types::{ContentBlock, ResultBlock, Seq, SurfaceRange};

/// The source of a node that a compaction left.
pub const CHECKPOINT: &str = "plugin:compact";

/// How many events are read at once.
const PAGE: u32 = 512;

#[derive(Clone)]
pub struct Node {
    pub seq: Seq,
    pub kind: NodeKind,
    pub tokens: u32,
    /// Ids of the calls that it makes, and of those that it answers.
    pub calls: Vec<String>,
    pub results: Vec<String>,
    /// The pinned messages that it is, or carries.
    pub pins: Vec<Seq>,
    turn: Option<u32>,
}

#[derive(Clone, Default)]
pub struct Surface {
    nodes: Vec<Node>,
    /// The seq of the next event.
    pub next: Seq,
    /// The turn that is open.
    pub turn: Option<u32>,
    /// The `compact-start` that has no end, and the turn that it names.
    pub lock: Option<Seq>,
    pub lock_turn: Option<u32>,
    /// Whether nobody is left to give it back.
    pub lock_is_stale: bool,
    /// Compactions in a row that failed, with no new message between.
    pub failures: u32,
}

/// Which calls are answered by which nodes.
struct Pairs {
    /// Whether a cut before each node, and after the last, parts nothing.
    balanced: Vec<bool>,
    open: Vec<Vec<String>>,
    dead: Vec<Vec<String>>,
    orphaned: Vec<Vec<String>>,
}

impl Surface {
    /// Read what is new in the log.
    pub fn catch_up(&mut self, session: &Session) -> Result<(), SessionError> {
        let head = session.head()?;
        while self.next < head {
            let events = session.read(self.next, PAGE.min(head - self.next))?;
            if events.is_empty() {
                let at = self.next;
                return Err(SessionError::Corrupt(format!("event {at} is missing")));
            }
            for event in events {
                self.take(event)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), SessionError> {
        if event.seq != self.next {
            let (at, seq) = (self.next, event.seq);
            return Err(SessionError::Corrupt(format!(
                "event {seq} is where {at} belongs"
            )));
        }
        // Nothing is taken in of an event that cannot be: the next call meets it again.
        let gone = match &event.surface {
            Some(SurfaceOp::Replace(range)) => Some(self.replaced(event.seq, *range)?),
            _ => None,
        };
        match &event.payload {
            Payload::TurnStart(turn) => self.turn = Some(*turn),
            Payload::TurnEnd(_) => {
                self.turn = None;
                self.lock_is_stale |= self.lock_turn.is_some();
            }
            Payload::CompactStart(start) => {
                self.lock = Some(event.seq);
                self.lock_turn = start.turn;
                self.lock_is_stale = false;
            }
            Payload::CompactEnd(end) => {
                self.lock = None;
                self.failures = if end.error.is_some() {
                    self.failures + 1
                } else {
                    0
                };
            }
            Payload::UserMessage(message) if message.source == CHECKPOINT => {}
            Payload::UserMessage(_) | Payload::AssistantMessage(_) => self.failures = 0,
            Payload::Reopened => self.lock_is_stale = true,
            _ => {}
        }
        self.next += 1;
        if event.surface.is_none() {
            return Ok(());
        }
        let mut node = self.node(event.seq, event.payload);
        match gone {
            None => self.nodes.push(node),
            Some(range) => {
                // Whatever was pinned in the range, the checkpoint carries.
                let gone = &self.nodes[range.clone()];
                node.pins = gone.iter().flat_map(|node| node.pins.clone()).collect();
                node.turn = gone[0].turn;
                self.nodes.splice(range, [node]);
            }
        }
        Ok(())
    }

    /// The positions that a node takes the place of.
    fn replaced(
        &self,
        by: Seq,
        range: SurfaceRange,
    ) -> Result<RangeInclusive<usize>, SessionError> {
        match (self.find(range.start), self.find(range.end)) {
            (Some(first), Some(last)) if first <= last => Ok(first..=last),
            _ => Err(SessionError::Corrupt(format!(
                "event {by} replaces what is no range of the surface"
            ))),
        }
    }

    fn node(&self, seq: Seq, payload: Payload) -> Node {
        let (kind, content, pinned) = match payload {
            Payload::AssistantMessage(message) => (NodeKind::Assistant, message.content, false),
            Payload::ToolResult(result) => {
                let content = vec![ContentBlock::ToolResult(result)];
                (NodeKind::ToolResult, content, false)
            }
            Payload::ContextMessage(content) => (NodeKind::Context, content, false),
            Payload::SteeringMessage(content) => (NodeKind::Steering, content, false),
            Payload::UserMessage(message) if message.source == CHECKPOINT => {
                (NodeKind::Checkpoint, message.content, false)
            }
            Payload::UserMessage(message) => (NodeKind::User, message.content, message.pinned),
            _ => (NodeKind::User, Vec::new(), false),
        };
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for block in &content {
            match block {
                ContentBlock::ToolCall(call) => calls.push(call.call_id.clone()),
                ContentBlock::ToolResult(result) => results.push(result.call_id.clone()),
                _ => {}
            }
        }
        Node {
            seq,
            kind,
            tokens: price(&content),
            calls,
            results,
            pins: if pinned { vec![seq] } else { Vec::new() },
            turn: self.turn,
        }
    }

    fn find(&self, seq: Seq) -> Option<usize> {
        self.nodes.iter().position(|node| node.seq == seq)
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn tokens(&self) -> u32 {
        self.nodes.iter().map(|node| node.tokens).sum()
    }

    /// Everything from the head on but the newest `retain` tokens, at least one node,
    /// and whole exchanges; none where that leaves nothing to compact.
    pub fn range_but(&self, retain: u32) -> Option<SurfaceRange> {
        let mut kept = 0;
        let mut cut = self.nodes.len();
        while cut > 0 && (cut == self.nodes.len() || kept < retain) {
            cut -= 1;
            kept += self.nodes[cut].tokens;
        }
        let pairs = self.pairs();
        while cut > 0 && !pairs.balanced[cut] {
            cut -= 1;
        }
        let news = |node: &Node| node.kind != NodeKind::Checkpoint;
        let compacted = &self.nodes[..cut];
        compacted.iter().any(news).then(|| SurfaceRange {
            start: self.nodes[0].seq,
            end: self.nodes[cut - 1].seq,
        })
    }

    /// The nodes of a range that can be compacted as the surface stands.
    pub fn check(&self, range: SurfaceRange) -> Result<Vec<Node>, CompactError> {
        let find = |seq| self.find(seq).ok_or(CompactError::NotOnSurface(seq));
        let (first, last) = (find(range.start)?, find(range.end)?);
        if first > last {
            return Err(CompactError::InvertedRange(range));
        }
        let pairs = self.pairs();
        for (cut, seq) in [(first, range.start), (last + 1, range.end)] {
            if !pairs.balanced[cut] {
                return Err(CompactError::Unbalanced(seq));
            }
        }
        Ok(self.nodes[first..=last].to_vec())
    }

    pub fn nodes(&self) -> Vec<SurfaceNode> {
        let mut pairs = self.pairs();
        let node = |(at, node): (usize, &Node)| SurfaceNode {
            seq: node.seq,
            kind: node.kind,
            tokens: node.tokens,
            balanced_before: pairs.balanced[at],
            open_calls: std::mem::take(&mut pairs.open[at]),
            dead_calls: std::mem::take(&mut pairs.dead[at]),
            orphaned_results: std::mem::take(&mut pairs.orphaned[at]),
            pinned: !node.pins.is_empty(),
        };
        self.nodes.iter().enumerate().map(node).collect()
    }

    /// Pair calls and results. An id may come again: a result answers the newest call
    /// of its id that waits.
    fn pairs(&self) -> Pairs {
        let count = self.nodes.len();
        let mut waiting: Vec<(usize, &String)> = Vec::new();
        // How many exchanges a cut would part: up behind a call, down behind its result.
        let mut steps = vec![0i32; count + 2];
        let mut hold = |from: usize, to: usize| {
            steps[from + 1] += 1;
            steps[to + 1] -= 1;
        };
        let mut orphaned = vec![Vec::new(); count];
        for (at, node) in self.nodes.iter().enumerate() {
            waiting.extend(node.calls.iter().map(|id| (at, id)));
            for id in &node.results {
                match waiting.iter().rposition(|(_, call)| *call == id) {
                    Some(index) => hold(waiting.remove(index).0, at),
                    None => {
                        // Whatever it belongs to, it goes with what precedes it.
                        hold(at.saturating_sub(1), at);
                        orphaned[at].push(id.clone());
                    }
                }
            }
        }
        let (mut open, mut dead) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (at, id) in waiting {
            if self.may_be_answered(at) {
                hold(at, count);
                open[at].push(id.clone());
            } else {
                dead[at].push(id.clone());
            }
        }
        let mut parted = 0;
        let balanced = steps[..=count].iter().map(|step| {
            parted += step;
            parted == 0
        });
        Pairs {
            balanced: balanced.collect(),
            open,
            dead,
            orphaned,
        }
    }

    /// A call's tool may still run while its turn is open and nobody has gone on
    /// without it.
    fn may_be_answered(&self, call: usize) -> bool {
        let goes_on = |node: &Node| match node.kind {
            NodeKind::Assistant => true,
            NodeKind::User => self.turn.is_none(),
            _ => false,
        };
        self.nodes[call].turn == self.turn && !self.nodes[call + 1..].iter().any(goes_on)
    }
}

/// What a message costs: a token for four UTF-16 units of each block, and four for
/// the block and for the message.
pub fn price(content: &[ContentBlock]) -> u32 {
    4 + content
        .iter()
        .map(|block| 4 + price_block(block))
        .sum::<u32>()
}

fn price_block(block: &ContentBlock) -> u32 {
    match block {
        ContentBlock::Text(text) | ContentBlock::Reasoning(text) => price_text(text),
        ContentBlock::ToolCall(call) => price_text(&call.name) + price_text(&call.arguments),
        ContentBlock::ToolResult(result) => result.content.iter().map(price_result).sum(),
        ContentBlock::Image(_) => 85,
        ContentBlock::Opaque(block) => price_text(&block.json),
    }
}

fn price_result(block: &ResultBlock) -> u32 {
    match block {
        ResultBlock::Text(text) | ResultBlock::Reasoning(text) => price_text(text),
        ResultBlock::Image(_) => 85,
        ResultBlock::Opaque(block) => price_text(&block.json),
    }
}

pub fn price_text(text: &str) -> u32 {
    (text.encode_utf16().count() as u32).div_ceil(4)
}
