//! What the log amounts to: the surface, the open turn, the lock.
//!
//! A fold takes each event once, in order, and keeps only what later decisions
//! need: of the content nothing but its price and the ids that pair calls with
//! results.

use crate::compact::NodeKind;
use crate::session::{CHECKPOINT_SOURCE, Event, Payload, RequestHeader, SurfaceOp};
use crate::types::{ContentBlock, Seq, SurfaceRange};
use crate::usage::Anchors;

/// One end of a tool exchange.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Link {
    Call(String),
    Result(String),
}

/// A node of the surface.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub seq: Seq,
    pub kind: NodeKind,
    pub tokens: u32,
    /// The turn that was open when it came.
    pub turn: Option<u32>,
    /// Its calls and results, in the order of its blocks.
    pub links: Vec<Link>,
    /// The pinned messages that it is or, as a checkpoint, carries.
    pub pins: Vec<Seq>,
}

/// A compaction that started and has not ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lock {
    pub seq: Seq,
    pub turn: Option<u32>,
    /// Its turn has ended or its writer is gone: nobody will end it.
    pub stale: bool,
}

/// The state of a session after the events it has been given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fold {
    /// How many events it has taken, which is the seq of the next one.
    pub next: Seq,
    pub nodes: Vec<Node>,
    pub surface_tokens: u64,
    pub turn: Option<u32>,
    pub lock: Option<Lock>,
    pub header: Option<RequestHeader>,
    pub anchors: Anchors,
    /// Compactions that ended, well or not, since the user or the model last spoke.
    pub attempts: u32,
    /// Surface tokens when the open step began.
    step: Option<u64>,
}

impl Fold {
    /// Take the next event; `tokens` is its price if it is a node. An error says
    /// what is wrong with the event, and leaves the fold as it was.
    pub fn apply(&mut self, event: &Event, tokens: Option<u32>) -> Result<(), String> {
        if event.seq != self.next {
            return Err(format!("expected event {}", self.next));
        }
        if let Some(op) = event.surface {
            self.place(event, op, tokens)?;
        }
        match &event.payload {
            Payload::TurnStart(turn) => {
                self.turn = Some(*turn);
                // A turn that opens proves that an earlier one is over.
                self.settle_lock(|lock| lock.turn.is_some_and(|of| of != *turn));
            }
            Payload::TurnEnd(turn) => {
                self.turn = None;
                self.settle_lock(|lock| lock.turn == Some(*turn));
            }
            Payload::StepStart(_) => self.step = Some(self.surface_tokens),
            Payload::StepEnd(_) => self.step = None,
            Payload::RequestHeader(header) => self.header = Some(header.clone()),
            Payload::CompactStart(start) => {
                self.lock = Some(Lock {
                    seq: event.seq,
                    turn: start.turn,
                    stale: false,
                });
            }
            Payload::CompactEnd(_) => {
                self.lock = None;
                self.attempts = self.attempts.saturating_add(1);
            }
            Payload::Reopened => self.settle_lock(|_| true),
            _ => {}
        }
        self.next += 1;
        Ok(())
    }

    /// Position of a node on the surface.
    pub fn position(&self, seq: Seq) -> Option<usize> {
        self.nodes.iter().position(|node| node.seq == seq)
    }

    fn settle_lock(&mut self, ended: impl Fn(&Lock) -> bool) {
        if let Some(lock) = &mut self.lock {
            lock.stale |= ended(lock);
        }
    }

    fn place(&mut self, event: &Event, op: SurfaceOp, tokens: Option<u32>) -> Result<(), String> {
        let mut node = node(event, tokens, self.turn)
            .ok_or("an event of its type cannot be on the surface")?;
        match op {
            SurfaceOp::Append => {
                if matches!(
                    node.kind,
                    NodeKind::User | NodeKind::Assistant | NodeKind::Steering
                ) {
                    self.attempts = 0;
                }
                let before = self.surface_tokens;
                self.surface_tokens += u64::from(node.tokens);
                if let Payload::AssistantMessage(message) = &event.payload {
                    let at_step = self.step.unwrap_or(before) + u64::from(node.tokens);
                    let header = self.header.as_ref();
                    let anchors = &mut self.anchors;
                    anchors.answered(message.usage, header, at_step, self.surface_tokens);
                }
                self.nodes.push(node);
            }
            SurfaceOp::Replace(SurfaceRange { start, end }) => {
                let find = |seq| {
                    self.position(seq).ok_or_else(|| {
                        format!("it replaces event {seq}, which is not on the surface")
                    })
                };
                let (first, last) = (find(start)?, find(end)?);
                if first > last {
                    return Err(format!(
                        "it replaces events {start} to {end}, which lie the other way round"
                    ));
                }
                let shadowed = &self.nodes[first..=last];
                if node.kind == NodeKind::Checkpoint {
                    // It stands for what is past, whichever turn is open.
                    node.turn = None;
                    node.pins = shadowed.iter().flat_map(|n| n.pins.clone()).collect();
                } else {
                    // A rewritten node stays in the turn that it came in.
                    node.turn = shadowed[0].turn;
                }
                let removed: u64 = shadowed.iter().map(|n| u64::from(n.tokens)).sum();
                self.surface_tokens = self.surface_tokens - removed + u64::from(node.tokens);
                self.nodes.splice(first..=last, [node]);
            }
        }
        Ok(())
    }
}

fn node(event: &Event, tokens: Option<u32>, turn: Option<u32>) -> Option<Node> {
    let (kind, links, pinned) = match &event.payload {
        Payload::UserMessage(message) if message.source == CHECKPOINT_SOURCE => {
            (NodeKind::Checkpoint, links(&message.content), false)
        }
        Payload::UserMessage(message) => (NodeKind::User, links(&message.content), message.pinned),
        Payload::AssistantMessage(message) => (NodeKind::Assistant, links(&message.content), false),
        Payload::ToolResult(result) => (
            NodeKind::ToolResult,
            vec![Link::Result(result.call_id.clone())],
            false,
        ),
        Payload::ContextMessage(content) => (NodeKind::Context, links(content), false),
        Payload::SteeringMessage(content) => (NodeKind::Steering, links(content), false),
        _ => return None,
    };
    Some(Node {
        seq: event.seq,
        kind,
        tokens: tokens?,
        turn,
        links,
        pins: if pinned { vec![event.seq] } else { Vec::new() },
    })
}

fn links(content: &[ContentBlock]) -> Vec<Link> {
    let link = |block: &ContentBlock| match block {
        ContentBlock::ToolCall(call) => Some(Link::Call(call.call_id.clone())),
        ContentBlock::ToolResult(result) => Some(Link::Result(result.call_id.clone())),
        _ => None,
    };
    content.iter().filter_map(link).collect()
}
