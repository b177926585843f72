//! What the tests of the forms share.
#![allow(dead_code, reason = "each test uses its own part")]

use std::path::Path;

use harness_compact_engine::{
    AssistantMessage, CHECKPOINT_SOURCE, CompactEnd, CompactStart, CompactSummary, ContentBlock,
    Draft, Event, Payload, ResultBlock, Seq, SurfaceOp, SurfaceRange, UserMessage,
};
use harness_compact_formats::{Figures, Form, ReadOptions, Session, Stamp, Write};

/// A session that the published program made, against a model server on loopback.
pub fn made(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/sessions")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub const MADE: [&str; 5] = [
    "claude-code.jsonl",
    "codex.jsonl",
    "gemini.jsonl",
    "opencode.json",
    "pi.jsonl",
];

/// A log of three turns, as deepseek-harness writes one.
pub fn log() -> Vec<u8> {
    let mut text =
        String::from("{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":1}\n");
    let mut seq = 0;
    let mut add = |kind: &str, data: String, surface: bool| {
        let op = if surface {
            ",\"surfaceOp\":\"append\""
        } else {
            ""
        };
        text.push_str(&format!(
            "{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":1,\"data\":{data}{op}}}\n"
        ));
        seq += 1;
    };
    for turn in 1..=6 {
        add("turn/start", format!("{{\"turn\":{turn}}}"), false);
        let words = "please ".repeat(100);
        add(
            "user/message",
            format!(
                "{{\"id\":\"u\",\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"TURN-{turn} {words}\"}}]}}"
            ),
            true,
        );
        add(
            "assistant/message",
            format!(
                "{{\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"tool-call\",\"id\":\"c{turn}\",\"name\":\"n\",\"arguments\":\"{{}}\"}}]}}}}"
            ),
            true,
        );
        add(
            "tool/result",
            format!(
                "{{\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool-result\",\"toolCallId\":\"c{turn}\",\"content\":[{{\"type\":\"text\",\"text\":\"out\"}}],\"isError\":false}}]}}}}"
            ),
            true,
        );
        add("turn/end", format!("{{\"turn\":{turn}}}"), false);
    }
    text.into_bytes()
}

pub fn read(bytes: &[u8]) -> Session {
    Session::read(bytes.to_vec(), ReadOptions::default()).expect("it can be read")
}

pub fn read_as(bytes: &[u8], form: Form) -> Session {
    let options = ReadOptions {
        form: Some(form),
        skip_damaged: false,
    };
    Session::read(bytes.to_vec(), options).expect("it can be read")
}

pub fn event(session: &Session, seq: Seq) -> Event {
    session.events(seq, 1).expect("it is there").remove(0)
}

/// A node in short: who, and what it begins with.
pub fn node(session: &Session, seq: Seq) -> String {
    let content = |content: &[ContentBlock]| -> String {
        let texts = content.iter().map(|block| match block {
            ContentBlock::Text(text) => text.clone(),
            ContentBlock::Reasoning(text) => format!("({text})"),
            ContentBlock::ToolCall(call) => format!("call {} {}", call.call_id, call.name),
            ContentBlock::ToolResult(result) => format!("result {}", result.call_id),
            ContentBlock::Image(image) => format!("{} {}", image.media_type, image.byte_length),
            ContentBlock::Opaque(opaque) => format!("[{}]", opaque.kind),
        });
        texts.collect::<Vec<_>>().join(" + ")
    };
    let short = |text: String| text.chars().take(60).collect::<String>();
    match event(session, seq).payload {
        Payload::UserMessage(message) if message.source == CHECKPOINT_SOURCE => {
            format!("checkpoint: {}", short(content(&message.content)))
        }
        Payload::UserMessage(message) => {
            format!("{}: {}", message.source, short(content(&message.content)))
        }
        Payload::AssistantMessage(AssistantMessage { content: said, .. }) => {
            format!("assistant: {}", short(content(&said)))
        }
        Payload::ToolResult(result) => {
            let texts = result.content.iter().map(|block| match block {
                ResultBlock::Text(text) => text.as_str(),
                _ => "…",
            });
            let told = texts.collect::<Vec<_>>().join(" + ");
            short(format!("result {}: {told}", result.call_id))
        }
        Payload::ContextMessage(said) => format!("context: {}", short(content(&said))),
        other => format!("{other:?}"),
    }
}

pub fn nodes(session: &Session) -> Vec<String> {
    let seqs = session.surface().to_vec();
    seqs.into_iter().map(|seq| node(session, seq)).collect()
}

/// Replace nodes of the surface, by position, with a checkpoint, as a backend does.
pub fn compact(session: &mut Session, first: usize, last: usize, summary: &str) {
    let surface = session.surface();
    let shadowed = surface[first..=last].to_vec();
    let range = SurfaceRange {
        start: shadowed[0],
        end: shadowed[shadowed.len() - 1],
    };
    let text = |text: &str| ContentBlock::Text(text.into());
    let drafts = [
        Draft::log_only(Payload::CompactStart(CompactStart { turn: None })),
        Draft::log_only(Payload::CompactSummary(CompactSummary {
            summary: vec![text(summary)],
            shadowed_range: range,
            shadowed_seqs: shadowed.clone(),
            shadowed_token_count: 1,
            model: None,
            max_tokens: None,
            usage: None,
        })),
        Draft {
            payload: Payload::UserMessage(UserMessage {
                content: vec![
                    text("Read this.\n\n<compacted-summary>"),
                    text(summary),
                    text("</compacted-summary>"),
                ],
                source: CHECKPOINT_SOURCE.into(),
                pinned: false,
            }),
            surface: Some(SurfaceOp::Replace(range)),
            sources: shadowed,
        },
        Draft::log_only(Payload::CompactEnd(CompactEnd {
            turn: None,
            error: None,
        })),
    ];
    session.append(&drafts, None).expect("it is a range");
}

pub fn stamp(seed: u8) -> Stamp {
    Stamp::new(1_800_000_000_000, [seed; 16])
}

/// The document after what was appended has been written.
pub fn written(session: &Session, seed: u8) -> Vec<u8> {
    let figures = Figures {
        before: 100,
        after: 10,
    };
    let write = session.write(&mut stamp(seed), figures);
    apply(
        session.bytes(),
        write.expect("it has a record").expect("it has changed"),
    )
}

pub fn apply(bytes: &[u8], write: Write) -> Vec<u8> {
    match write {
        Write::Append { keep, bytes: more } => [&bytes[..keep], &more].concat(),
        Write::Whole(whole) => whole,
    }
}
