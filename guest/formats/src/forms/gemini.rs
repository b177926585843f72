//! Sessions of Gemini CLI: a header, messages and patches a line; in earlier
//! versions one object with a list of messages.

use std::collections::{HashMap, HashSet};

use harness_compact_engine::ContentBlock;
use serde_json::json;

use super::{
    Form, Reader, append_lines, foreign, is_checkpoint, line, span_of, undo_last_lines, with_list,
};
use crate::content::{blocks, call, gemini, inclusive_usage, result, text};
use crate::document::{Fault, Lines, Span, one_value};
use crate::json::{Fields, Json, object};
use crate::session::{Builder, Kind, Refusal, Rewritten, Session, Write};
use crate::stamp::Stamp;

pub(crate) struct Gemini;

/// How messages begin that are not sent when a session is resumed: commands to the
/// program, and what it puts there anew.
const NOT_SENT: [&str; 4] = ["/", "?", "<session_context>", "<hook_context>"];

/// Types of messages.
const TYPES: [&str; 5] = ["user", "gemini", "info", "error", "warning"];

/// Whether an object is a whole session of the earlier versions.
pub(super) fn is_legacy(fields: &Fields<'_>) -> bool {
    fields.has("sessionId") && fields.get("messages").is_some_and(Json::is_array)
}

impl Reader for Gemini {
    fn recognises(&self, line: &Fields<'_>) -> bool {
        (line.has("sessionId") && line.has("projectHash") && !line.has("messages"))
            || line.get("$set").is_some_and(Json::is_object)
            || line.get("$rewindTo").is_some_and(Json::is_text)
    }

    fn read(&self, bytes: &[u8], skip_damaged: bool, into: &mut Builder) -> Result<(), Fault> {
        let whole = one_value(bytes).ok().map(|(_, whole)| whole);
        if let Some(fields) = whole.and_then(|whole| object(whole).ok())
            && is_legacy(&fields)
        {
            let list = fields.get("messages").unwrap_or(Json::of("[]"));
            let mut messages = Messages::default();
            for message in list.items().unwrap_or_default() {
                messages.set(bytes, message);
            }
            into.facts.id = fields.text("sessionId").map(|id| id.into_owned());
            into.facts.list = Some(span_of(bytes, list.raw()));
            build(bytes, &[messages.in_order()], into);
            return Ok(());
        }
        let mut lines = Lines::of(bytes, skip_damaged);
        let mut messages = Messages::default();
        // The lists that were replaced by another, and the one that stands.
        let mut lists: Vec<Vec<Span>> = Vec::new();
        let read = lines.each(|record| {
            let fields = &record.fields;
            into.facts.last = Some(record.span);
            if let Some(id) = fields.text("$rewindTo") {
                messages.rewind(&id);
            } else if fields.get("id").is_some_and(Json::is_text) {
                let kind = fields.text("type");
                if !TYPES.contains(&kind.as_deref().unwrap_or_default()) {
                    foreign(Form::Gemini, fields)?;
                }
                let id = fields.text("id").unwrap_or_default();
                messages.put(id.into_owned(), record.span);
            } else if let Some(patch) = fields.get("$set").and_then(Json::fields) {
                if let Some(list) = patch.get("messages").and_then(Json::items) {
                    let old = std::mem::take(&mut messages).in_order();
                    for message in &list {
                        messages.set(bytes, *message);
                    }
                    if !same(bytes, &old, &messages.in_order()) {
                        // The program writes a checkpoint again with the list that it
                        // stands in: that is no new one.
                        if compacts(bytes, &list, &old) {
                            into.facts.compaction = vec![record.span];
                        }
                        lists.push(old);
                    }
                }
            } else if fields.has("sessionId") && fields.has("projectHash") {
                into.facts.id = fields.text("sessionId").map(|id| id.into_owned());
                let list = fields.get("messages").and_then(Json::items);
                for message in list.unwrap_or_default() {
                    messages.set(bytes, message);
                }
            } else {
                foreign(Form::Gemini, fields)?;
            }
            Ok(())
        });
        into.remarks = std::mem::take(&mut lines.remarks);
        read?;
        lists.push(messages.in_order());
        build(bytes, &lists, into);
        Ok(())
    }

    fn content(&self, kind: Kind, records: &[Json<'_>]) -> Vec<ContentBlock> {
        let Some(message) = records.first().and_then(|record| record.fields()) else {
            return Vec::new();
        };
        match kind {
            Kind::Result => tool_answer(&message),
            Kind::Assistant => answer(&message),
            _ => blocks(message.get("content"), gemini),
        }
    }

    fn record(&self, rewritten: &Rewritten<'_>, stamp: &mut Stamp) -> Result<Write, Refusal> {
        let session = rewritten.session;
        let checkpoint = line(&json!({
            "id": stamp.uuid(),
            "timestamp": stamp.timestamp(),
            "type": "user",
            "content": [{"text": rewritten.checkpoint}],
        }));
        let raw = |seqs: &[u32]| -> Vec<&str> {
            let records = session.records_of(seqs).into_iter();
            records.map(|span| session.text(span)).collect()
        };
        let mut messages = raw(&rewritten.head);
        messages.push(&checkpoint);
        messages.extend(raw(&rewritten.tail));
        if let Some(list) = session.facts().list {
            return Ok(with_list(session, list, &messages));
        }
        let record = format!("{{\"$set\":{{\"messages\":[{}]}}}}", messages.join(","));
        Ok(append_lines(session, &[record]))
    }

    fn undo(&self, session: &Session) -> Result<Write, Refusal> {
        match session.facts().list {
            Some(_) => Err(session.refusal("what a compaction replaced is no longer in it")),
            None => undo_last_lines(session),
        }
    }
}

/// Messages in the order of their ids' first coming; a later one of the same id
/// takes the place of the earlier.
#[derive(Default)]
struct Messages {
    spans: Vec<Option<Span>>,
    by_id: HashMap<String, usize>,
}

impl Messages {
    fn set(&mut self, bytes: &[u8], message: Json<'_>) {
        let Some(id) = message.get("id").and_then(Json::text) else {
            return;
        };
        self.put(id.into_owned(), span_of(bytes, message.raw()));
    }

    fn put(&mut self, id: String, span: Span) {
        match self.by_id.get(&id) {
            Some(at) => self.spans[*at] = Some(span),
            None => {
                self.by_id.insert(id, self.spans.len());
                self.spans.push(Some(span));
            }
        }
    }

    /// Take a message and all after it away; all there are where it is not known.
    fn rewind(&mut self, id: &str) {
        let from = self.by_id.get(id).copied().unwrap_or(0);
        self.by_id.retain(|_, at| *at < from);
        self.spans.truncate(from);
    }

    fn in_order(&self) -> Vec<Span> {
        self.spans.iter().flatten().copied().collect()
    }
}

fn message_of<'a>(bytes: &'a [u8], span: &Span) -> Json<'a> {
    Json::of(std::str::from_utf8(&bytes[span.start..span.end]).unwrap_or_default())
}

/// Whether two lists hold the same messages: the program writes a list anew without
/// a change to it.
fn same(bytes: &[u8], old: &[Span], new: &[Span]) -> bool {
    let id = |span: &Span| message_of(bytes, span).get("id").and_then(Json::text);
    old.len() <= new.len() && old.iter().zip(new).all(|(old, new)| id(old) == id(new))
}

/// Whether a list that takes the place of another brings a checkpoint.
fn compacts(bytes: &[u8], list: &[Json<'_>], old: &[Span]) -> bool {
    let checkpoint = list
        .iter()
        .find(|message| is_checkpoint(&blocks(message.get("content"), gemini)));
    let Some(id) = checkpoint.and_then(|message| message.get("id")?.text()) else {
        return false;
    };
    let known =
        |span: &Span| message_of(bytes, span).get("id").and_then(Json::text) == Some(id.clone());
    !old.iter().any(known)
}

fn build(bytes: &[u8], lists: &[Vec<Span>], into: &mut Builder) {
    for (index, list) in lists.iter().enumerate() {
        if index > 0 {
            into.rewrite();
        }
        let newest = index + 1 == lists.len();
        build_list(bytes, list, newest, into);
    }
}

fn build_list(bytes: &[u8], list: &[Span], newest: bool, into: &mut Builder) {
    let json = |span: &Span| message_of(bytes, span);
    // Results that stand in messages of their own are not told twice.
    let mut answered: HashSet<String> = HashSet::new();
    for span in list {
        let message = json(span);
        // Looked for before it is taken apart: most messages hold none.
        if !message.raw().contains("\"functionResponse\"") {
            continue;
        }
        if message.get("type").and_then(Json::text).as_deref() == Some("user") {
            for part in message
                .get("content")
                .and_then(Json::items)
                .unwrap_or_default()
            {
                let id = part
                    .get("functionResponse")
                    .and_then(|answer| answer.get("id")?.text());
                answered.extend(id.map(|id| id.into_owned()));
            }
        }
    }
    let mut overhead = 0;
    // A list that was written anew repeats answers to earlier requests.
    let replaced = into.records().into_iter();
    let known: HashSet<String> = replaced
        .filter_map(|span| json(&span).get("id")?.text().map(|id| id.into_owned()))
        .collect();
    for span in list {
        let Some(message) = json(span).fields() else {
            continue;
        };
        let kind = message.text("type").unwrap_or_default();
        match &*kind {
            "user" => {
                let content = message.get("content");
                let opening = opening(content);
                let said = opening.trim_start();
                if said.contains("<compacted-summary>") || said.starts_with("<state_snapshot>") {
                    // The program's own begins with a tag of its own.
                    into.node(Kind::Checkpoint, &[*span], None);
                } else if NOT_SENT.iter().any(|mark| said.starts_with(mark)) {
                    // The program puts its context there anew.
                    overhead += match said.starts_with('<') {
                        true => (span.end - span.start) as u64 / 4,
                        false => 0,
                    };
                } else if content
                    .is_some_and(|content| content.raw().contains("\"functionResponse\""))
                {
                    into.node(Kind::Result, &[*span], None);
                } else if !said.is_empty() || !says_nothing(&blocks(content, gemini)) {
                    into.user(Kind::User, &[*span]);
                }
            }
            "gemini" => {
                // Without a word, a thought or a call it is not sent.
                let holds = |key, empty| {
                    message
                        .get(key)
                        .is_some_and(|held: Json<'_>| !held.is_null() && held.raw() != empty)
                };
                if !holds("thoughts", "[]")
                    && !holds("toolCalls", "[]")
                    && (!holds("content", "\"\"") || answer(&message).is_empty())
                {
                    continue;
                }
                if let Some(model) = message.text("model") {
                    into.header("google", &model);
                }
                let id = message.text("id").unwrap_or_default();
                let counted = message.get("tokens").and_then(Json::fields);
                let counted = counted.filter(|_| !known.contains(&*id));
                let usage = counted.map(|tokens| {
                    let figure = |key| tokens.number(key).unwrap_or(0);
                    inclusive_usage(
                        figure("input") + figure("tool"),
                        figure("cached"),
                        figure("output") + figure("thoughts"),
                    )
                });
                into.node(Kind::Assistant, &[*span], usage);
                for made in message
                    .get("toolCalls")
                    .and_then(Json::items)
                    .unwrap_or_default()
                {
                    let id = made.get("id").and_then(Json::text).unwrap_or_default();
                    let has_result = made.get("result").is_some_and(|result| !result.is_null());
                    if has_result && !answered.contains(&*id) {
                        into.node_within(Kind::Result, span_of(bytes, made.raw()));
                    }
                }
            }
            _ => {}
        }
    }
    if newest || overhead > 0 {
        into.overhead = into.overhead.max(overhead);
    }
}

/// How a message begins: its first text, cut where nothing depends on more.
fn opening(content: Option<Json<'_>>) -> String {
    let first = content.and_then(|content| match content.is_text() {
        true => content.text(),
        false => content.items()?.first()?.get("text")?.text(),
    });
    first.unwrap_or_default().chars().take(1000).collect()
}

/// Whether a message holds nothing but empty texts.
fn says_nothing(content: &[ContentBlock]) -> bool {
    let empty =
        |block: &ContentBlock| matches!(block, ContentBlock::Text(text) if text.trim().is_empty());
    content.iter().all(empty)
}

/// What the model said, as the program sends it again.
fn answer(message: &Fields<'_>) -> Vec<ContentBlock> {
    let parts = blocks(message.get("content"), gemini);
    let parts: Vec<ContentBlock> = parts
        .into_iter()
        .filter(|block| !matches!(block, ContentBlock::Text(text) if text.is_empty()))
        .collect();
    let complete = parts.iter().any(|block| {
        matches!(
            block,
            ContentBlock::ToolCall(_) | ContentBlock::Reasoning(_)
        )
    });
    if complete {
        return parts;
    }
    let mut content = Vec::new();
    for thought in message
        .get("thoughts")
        .and_then(Json::items)
        .unwrap_or_default()
    {
        let told = |key| thought.get(key).and_then(Json::text).unwrap_or_default();
        content.push(ContentBlock::Reasoning(match &*told("subject") {
            "" => told("description").into_owned(),
            subject => format!("**{subject}** {}", told("description")),
        }));
    }
    content.extend(parts);
    for made in message
        .get("toolCalls")
        .and_then(Json::items)
        .unwrap_or_default()
    {
        let told = |key| made.get(key).and_then(Json::text).unwrap_or_default();
        content.push(call(told("id"), told("name"), made.get("args")));
    }
    content
}

/// The result that stands within a call, or in a message of its own.
fn tool_answer(record: &Fields<'_>) -> Vec<ContentBlock> {
    if record.has("content") {
        return blocks(record.get("content"), gemini);
    }
    let id = record.text("id").unwrap_or_default().into_owned();
    let failed = record
        .text("status")
        .is_some_and(|status| status == "error");
    let answered = record.get("result");
    let parts = match answered {
        Some(answered) if answered.is_object() => answered
            .fields()
            .map(|fields| vec![gemini(&fields, answered)])
            .unwrap_or_default(),
        answered => blocks(answered, gemini),
    };
    let content = parts.into_iter().flat_map(|part| match part {
        ContentBlock::ToolResult(answer) => answer
            .content
            .into_iter()
            .map(|block| match block {
                harness_compact_engine::ResultBlock::Text(said) => text(said),
                harness_compact_engine::ResultBlock::Reasoning(said) => {
                    ContentBlock::Reasoning(said)
                }
                harness_compact_engine::ResultBlock::Image(image) => ContentBlock::Image(image),
                harness_compact_engine::ResultBlock::Opaque(block) => ContentBlock::Opaque(block),
            })
            .collect(),
        other => vec![other],
    });
    vec![result(id, failed, content.collect())]
}
