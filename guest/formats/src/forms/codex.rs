//! Rollouts of Codex CLI: `{timestamp, type, payload}` a line, of which the
//! `response_item` lines are the conversation; in files of early 2025 the items
//! stand there bare, behind a line that describes the session.

use harness_compact_engine::{ContentBlock, Usage};
use serde_json::json;

use super::{Form, Reader, append_lines, foreign, is_checkpoint, line, span_of};
use crate::content::{
    Side, blocks, inclusive_usage, item_side, responses, responses_item, text, texts,
};
use crate::document::{Fault, Lines, Span};
use crate::json::{Fields, Json};
use crate::session::{Builder, Kind, Refusal, Rewritten, Write};
use crate::stamp::Stamp;

pub(crate) struct Codex;

/// An item of the conversation.
struct Item {
    span: Span,
    part: Part,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Side(Side),
    Checkpoint,
}

/// What was sent between two rewritings.
#[derive(Default)]
struct Segment {
    items: Vec<Item>,
    /// Sizes of what the program puts before the conversation by itself.
    envelope: u64,
    /// Compactions that only their provider can read.
    sealed: Vec<Span>,
}

const TYPES: [&str; 7] = [
    "session_meta",
    "turn_context",
    "response_item",
    "event_msg",
    "world_state",
    "token_usage_record",
    "compacted",
];

/// How the user messages begin that the program makes, and makes anew when a
/// session is resumed.
const OWN: [&str; 4] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
];

/// Where a compaction does not say what it keeps, the program keeps the newest
/// user messages of this many bytes together.
const KEPT_USER_BYTES: usize = 80_000;

impl Reader for Codex {
    fn recognises(&self, line: &Fields<'_>) -> bool {
        match line.text("type") {
            Some(kind) if line.has("payload") => TYPES.contains(&&*kind),
            // Bare items have types of their own.
            Some(kind) => {
                !line.has("uuid")
                    && !line.has("message")
                    && ((kind == "message" && line.has("role") && line.has("content"))
                        || matches!(
                            &*kind,
                            "function_call"
                                | "function_call_output"
                                | "local_shell_call"
                                | "reasoning"
                        ))
            }
            None => {
                line.has("record_type")
                    || (line.has("id")
                        && line.has("timestamp")
                        && line.get("instructions").is_some())
            }
        }
    }

    fn read(&self, bytes: &[u8], skip_damaged: bool, into: &mut Builder) -> Result<(), Fault> {
        let mut lines = Lines::of(bytes, skip_damaged);
        let mut segments = vec![Segment::default()];
        // Items are wrapped in all of a file or in none.
        let mut wrapped = false;
        let mut provider = String::from("openai");
        let mut model = String::new();
        let read = lines.each(|record| {
            let fields = &record.fields;
            let kind = fields.text("type").unwrap_or_default();
            let payload = fields.get("payload").filter(|payload| payload.is_object());
            into.facts.last = Some(record.span);
            let Some(payload) = payload else {
                foreign(Form::Codex, fields)?;
                let segment = segments.last_mut().ok_or("no segment")?;
                match item_side(fields) {
                    Some(side) if fields.has("type") && !wrapped => {
                        add(segment, side, record.span, fields)
                    }
                    _ => {
                        let id = fields.text("id").map(|id| id.into_owned());
                        into.facts.id = into.facts.id.take().or(id);
                    }
                }
                return Ok(());
            };
            wrapped = true;
            let Some(inner) = payload.fields() else {
                return Err("`payload` is not an object".into());
            };
            match &*kind {
                "session_meta" => {
                    let own = |key: &str| inner.text(key).map(|text| text.into_owned());
                    into.facts.id = own("id").or(into.facts.id.take());
                    into.facts.cwd = own("cwd").or(into.facts.cwd.take());
                    provider = own("model_provider").unwrap_or(std::mem::take(&mut provider));
                }
                "turn_context" => {
                    model = inner
                        .text("model")
                        .map(|m| m.into_owned())
                        .unwrap_or_default();
                    let cwd = inner.text("cwd").map(|cwd| cwd.into_owned());
                    into.facts.cwd = cwd.or(into.facts.cwd.take());
                }
                "response_item" => {
                    let segment = segments.last_mut().ok_or("no segment")?;
                    if let Some(side) = item_side(&inner) {
                        add(segment, side, span_of(bytes, payload.raw()), &inner);
                    }
                }
                "compacted" => {
                    into.facts.compaction = vec![record.span];
                    let rewritten = compacted(bytes, payload, &inner, segments.last());
                    segments.push(rewritten);
                }
                "event_msg" => event(&inner, segments.last_mut(), into),
                kind if TYPES.contains(&kind) => {}
                _ => foreign(Form::Codex, fields)?,
            }
            Ok(())
        });
        into.remarks = std::mem::take(&mut lines.remarks);
        read?;
        into.header(&provider, &model);
        let envelope = segments.iter().rev().map(|segment| segment.envelope);
        into.overhead = envelope.into_iter().find(|size| *size > 0).unwrap_or(0);
        if let Some(newest) = segments.last_mut() {
            into.facts.sealed = std::mem::take(&mut newest.sealed);
        }
        for (index, segment) in segments.iter().enumerate() {
            if index > 0 {
                into.rewrite();
            }
            build(&segment.items, into);
        }
        Ok(())
    }

    fn content(&self, kind: Kind, records: &[Json<'_>]) -> Vec<ContentBlock> {
        let summary = |record: &Json<'_>| {
            let summary = record.get("message").filter(|message| message.is_text())?;
            Some(text(summary.text()?))
        };
        let content = records.iter().flat_map(|record| match kind {
            // A compaction that keeps nothing else is its summary.
            Kind::Checkpoint => match summary(record) {
                Some(summary) => vec![summary],
                None => responses_item(*record),
            },
            _ => responses_item(*record),
        });
        content.collect()
    }

    fn record(&self, rewritten: &Rewritten<'_>, stamp: &mut Stamp) -> Result<Write, Refusal> {
        let session = rewritten.session;
        let Some(last) = session
            .facts()
            .last
            .and_then(|last| session.json(last).fields())
        else {
            return Err(session.refusal("it has no lines"));
        };
        let checkpoint = line(&json!({
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": rewritten.checkpoint}],
        }));
        let raw = |seqs: &[u32]| -> Vec<&str> {
            let records = session.records_of(seqs).into_iter();
            records.map(|span| session.text(span)).collect()
        };
        let sealed = session.facts().sealed.iter();
        let mut history: Vec<&str> = sealed.map(|span| session.text(*span)).collect();
        history.extend(raw(&rewritten.head));
        history.push(&checkpoint);
        history.extend(raw(&rewritten.tail));
        let ordinal = match last.number("ordinal") {
            Some(ordinal) => format!("\"ordinal\":{},", ordinal + 1),
            None => String::new(),
        };
        let record = format!(
            "{{\"timestamp\":\"{}\",{ordinal}\"type\":\"compacted\",\"payload\":{{\"message\":{},\"replacement_history\":[{}]}}}}",
            stamp.timestamp(),
            line(&json!(rewritten.checkpoint)),
            history.join(","),
        );
        Ok(append_lines(session, &[record]))
    }
}

fn add(segment: &mut Segment, side: Side, span: Span, item: &Fields<'_>) {
    let mut part = Part::Side(side);
    if side == Side::User {
        let content = blocks(item.get("content"), responses);
        let said = texts(&content);
        if OWN.iter().any(|own| said.trim_start().starts_with(own)) {
            part = Part::Side(Side::Envelope);
        } else if is_checkpoint(&content) {
            part = Part::Checkpoint;
        }
    }
    if part == Part::Side(Side::Envelope) {
        if !item.has("role") {
            segment.sealed.push(span);
        }
        // What stands there is sent, whoever puts it there: at four characters a
        // token, as any text.
        segment.envelope += (span.end - span.start) as u64 / 4;
        return;
    }
    segment.items.push(Item {
        span,
        part,
        usage: None,
    });
}

/// What the program sends after one of its compactions.
fn compacted(
    bytes: &[u8],
    payload: Json<'_>,
    fields: &Fields<'_>,
    before: Option<&Segment>,
) -> Segment {
    let mut segment = Segment::default();
    let message = fields.text("message").unwrap_or_default();
    if let Some(history) = fields.get("replacement_history").and_then(Json::items) {
        for item in history {
            let Some(inner) = item.fields() else { continue };
            let Some(side) = item_side(&inner) else {
                continue;
            };
            add(&mut segment, side, span_of(bytes, item.raw()), &inner);
            // The summary is one of the messages; where it stands says the text.
            let said = texts(&blocks(inner.get("content"), responses));
            if let Some(last) = segment.items.last_mut()
                && side == Side::User
                && !message.is_empty()
                && said == *message
            {
                last.part = Part::Checkpoint;
            }
        }
        return segment;
    }
    // Earlier versions keep what the user said, the newest, and put the summary behind it.
    let mut left = KEPT_USER_BYTES;
    let users = before
        .into_iter()
        .flat_map(|before| before.items.iter().rev());
    let users = users.filter(|item| item.part == Part::Side(Side::User));
    let mut kept: Vec<Span> = users
        .take_while(|item| {
            let size = item.span.end - item.span.start;
            let fits = size <= left;
            left = left.saturating_sub(size);
            fits
        })
        .map(|item| item.span)
        .collect();
    kept.reverse();
    let item = |span, part| Item {
        span,
        part,
        usage: None,
    };
    segment.items.extend(
        kept.into_iter()
            .map(|span| item(span, Part::Side(Side::User))),
    );
    segment
        .items
        .push(item(span_of(bytes, payload.raw()), Part::Checkpoint));
    segment
}

/// Events are for the screen, but for what was counted and what was taken back.
fn event(fields: &Fields<'_>, segment: Option<&mut Segment>, into: &mut Builder) {
    let Some(segment) = segment else { return };
    match fields.text("type").as_deref() {
        Some("token_count") => {
            let Some(info) = fields.get("info").and_then(Json::fields) else {
                return;
            };
            if let Some(window) = info.number("model_context_window") {
                into.facts.context_window = u32::try_from(window).ok().filter(|window| *window > 0);
            }
            let Some(usage) = info.get("last_token_usage").and_then(Json::fields) else {
                return;
            };
            let figure = |key| usage.number(key).unwrap_or(0);
            let answer = segment
                .items
                .iter_mut()
                .rfind(|item| item.part == Part::Side(Side::Assistant));
            if let Some(answer) = answer {
                answer.usage = Some(inclusive_usage(
                    figure("input_tokens"),
                    figure("cached_input_tokens"),
                    figure("output_tokens"),
                ));
            }
        }
        Some("thread_rolled_back") => {
            let turns = fields.number("num_turns").unwrap_or(0);
            for _ in 0..turns {
                let user = Part::Side(Side::User);
                let at = segment.items.iter().rposition(|item| item.part == user);
                let Some(at) = at else { break };
                segment.items.truncate(at);
            }
        }
        _ => {}
    }
}

/// The nodes of a segment: what the model said in one go is one of them.
fn build(items: &[Item], into: &mut Builder) {
    let mut answer: Option<u32> = None;
    for item in items {
        match item.part {
            Part::Side(Side::Assistant) => {
                let seq = match answer {
                    Some(seq) => {
                        into.extend(seq, item.span);
                        seq
                    }
                    None => into.node(Kind::Assistant, &[item.span], None),
                };
                if let Some(usage) = item.usage {
                    into.count(seq, usage);
                }
                answer = Some(seq);
                continue;
            }
            Part::Side(Side::Result) => {
                into.node(Kind::Result, &[item.span], None);
            }
            Part::Side(_) => {
                into.user(Kind::User, &[item.span]);
            }
            Part::Checkpoint => {
                into.node(Kind::Checkpoint, &[item.span], None);
            }
        }
        answer = None;
    }
}
