//! Sessions, written a step at a time.

use std::sync::Arc;

use harness_compact_host::types::{
    AssistantMessage, ContentBlock, Draft, Event, Payload, ResultBlock, Seq, SurfaceOp,
    SurfaceRange, ToolCall, ToolResult, Usage, UserMessage,
};
use harness_compact_host::{MemoryLog, SessionLog};

/// A session that is being written, in memory.
pub struct SessionBuilder {
    /// Its log.
    pub log: Arc<MemoryLog>,
}

impl SessionBuilder {
    /// An empty session.
    pub fn new(id: &str) -> Self {
        Self {
            log: Arc::new(MemoryLog::new(id)),
        }
    }

    /// The log, as compactors take it.
    pub fn session(&self) -> Arc<dyn SessionLog> {
        self.log.clone()
    }

    /// Append an event that is not on the surface.
    pub fn note(&self, payload: Payload) -> Seq {
        self.log.push(Draft::log_only(payload))
    }

    /// Append a node.
    pub fn node(&self, payload: Payload) -> Seq {
        self.log.push(Draft::on_surface(payload))
    }

    /// The user says something.
    pub fn user(&self, text: &str) -> Seq {
        self.user_blocks(vec![ContentBlock::Text(text.into())])
    }

    /// The user says something that is more than text.
    pub fn user_blocks(&self, content: Vec<ContentBlock>) -> Seq {
        self.node(Payload::UserMessage(UserMessage {
            content,
            source: "user".into(),
            pinned: false,
        }))
    }

    /// A message that no compaction may lose.
    pub fn pinned(&self, text: &str) -> Seq {
        self.node(Payload::UserMessage(UserMessage {
            content: vec![ContentBlock::Text(text.into())],
            source: "user".into(),
            pinned: true,
        }))
    }

    /// The model says something.
    pub fn assistant(&self, text: &str) -> Seq {
        self.assistant_blocks(vec![ContentBlock::Text(text.into())], None)
    }

    /// The model calls tools, by these ids.
    pub fn calls(&self, ids: &[&str]) -> Seq {
        let call = |id: &&str| {
            ContentBlock::ToolCall(ToolCall {
                call_id: (*id).into(),
                name: "read".into(),
                arguments: format!("{{\"path\":\"{id}.rs\"}}"),
            })
        };
        self.assistant_blocks(ids.iter().map(call).collect(), None)
    }

    /// The model says anything, and the provider may have counted.
    pub fn assistant_blocks(&self, content: Vec<ContentBlock>, usage: Option<Usage>) -> Seq {
        self.node(Payload::AssistantMessage(AssistantMessage {
            content,
            usage,
        }))
    }

    /// A tool answers.
    pub fn result(&self, call_id: &str, text: &str) -> Seq {
        self.node(Payload::ToolResult(ToolResult {
            call_id: call_id.into(),
            is_error: false,
            content: vec![ResultBlock::Text(text.into())],
        }))
    }

    /// A whole turn without tools.
    pub fn turn(&self, number: u32, request: &str, answer: &str) {
        self.note(Payload::TurnStart(number));
        self.user(request);
        self.assistant(answer);
        self.note(Payload::TurnEnd(number));
    }

    /// Turns of about 200 tokens each, in an open last turn.
    pub fn turns(&self, count: u32) {
        for number in 1..=count {
            self.turn(number, &"please ".repeat(40), &"done ".repeat(80));
        }
        self.note(Payload::TurnStart(count + 1));
    }
}

/// The surface that a log amounts to, as a reader of the format would fold it:
/// apart from the engine, to check it by.
pub fn surface_seqs(events: &[Event]) -> Vec<Seq> {
    let mut surface: Vec<Seq> = Vec::new();
    for event in events {
        match event.surface {
            None => {}
            Some(SurfaceOp::Append) => surface.push(event.seq),
            Some(SurfaceOp::Replace(SurfaceRange { start, end })) => {
                let at = |seq| surface.iter().position(|node| *node == seq);
                let (first, last) = (at(start).expect("on it"), at(end).expect("on it"));
                surface.splice(first..=last, [event.seq]);
            }
        }
    }
    surface
}
