//! Message arrays, as the usual interfaces take them: bare, or as the `messages` or
//! `input` member of a request body.
//!
//! There is no session around them, so a compaction is the array with the checkpoint
//! in place of what it stands for. Instructions are not part of the conversation:
//! they stay where they are.

use std::collections::{HashMap, HashSet};

use harness_compact_engine::ContentBlock;
use serde_json::{Value, json};

use super::{Form, Reader, is_checkpoint, line, span_of, with_list};
use crate::content::{
    Side, ai_sdk, anthropic, blocks, call, item_side, opaque, openai_chat, responses_item, result,
};
use crate::document::{Fault, Span, one_value};
use crate::json::{Fields, Json, told};
use crate::session::{Builder, Kind, Refusal, Rewritten, Session, Write};
use crate::stamp::Stamp;

pub(crate) struct OpenaiChat;
pub(crate) struct OpenaiResponses;
pub(crate) struct Anthropic;
pub(crate) struct AiSdk;

/// What is said of a call that got no result.
pub const INTERRUPTED: &str = "The call was interrupted; no result was recorded.";

/// What an interface's messages are like.
trait Api {
    const FORM: Form;

    /// Whose message this is; none where it is of no role that the interface knows.
    fn side(message: &Fields<'_>) -> Option<Side>;

    fn content(message: Json<'_>) -> Vec<ContentBlock>;

    /// Whether what the model says in one go can be several elements.
    const ANSWERS_IN_PIECES: bool = false;

    fn checkpoint(text: &str) -> Value {
        json!({"role": "user", "content": [{"type": "text", "text": text}]})
    }

    /// A result for a call that was interrupted.
    fn interrupted(call_id: &str, name: &str) -> Value;
}

impl Api for OpenaiChat {
    const FORM: Form = Form::OpenaiChat;

    fn side(message: &Fields<'_>) -> Option<Side> {
        match &*message.text("role")? {
            "system" | "developer" => Some(Side::Envelope),
            "user" => Some(Side::User),
            "assistant" => Some(Side::Assistant),
            "tool" | "function" => Some(Side::Result),
            _ => None,
        }
    }

    fn content(message: Json<'_>) -> Vec<ContentBlock> {
        let Some(fields) = message.fields() else {
            return Vec::new();
        };
        let mut content = blocks(fields.get("content"), openai_chat);
        let role = fields.text("role").unwrap_or_default();
        if role == "tool" || role == "function" {
            let id = fields.text("tool_call_id").or(fields.text("name"));
            return vec![result(id.unwrap_or_default(), false, content)];
        }
        let reasoning = fields
            .text("reasoning_content")
            .or(fields.text("reasoning"));
        if let Some(reasoning) = reasoning.filter(|reasoning| !reasoning.is_empty()) {
            content.insert(0, ContentBlock::Reasoning(reasoning.into_owned()));
        }
        for made in fields
            .get("tool_calls")
            .and_then(Json::items)
            .unwrap_or_default()
        {
            let id = made.get("id").and_then(Json::text).unwrap_or_default();
            let did = made.get("function").or(made.get("custom"));
            content.push(match did.and_then(Json::fields) {
                Some(did) => call(
                    id,
                    did.text("name").unwrap_or_default(),
                    did.get("arguments").or(did.get("input")),
                ),
                None => opaque(made, "tool_call"),
            });
        }
        content
    }

    fn checkpoint(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn interrupted(call_id: &str, _name: &str) -> Value {
        json!({"role": "tool", "tool_call_id": call_id, "content": INTERRUPTED})
    }
}

impl Api for OpenaiResponses {
    const FORM: Form = Form::OpenaiResponses;
    const ANSWERS_IN_PIECES: bool = true;

    fn side(message: &Fields<'_>) -> Option<Side> {
        item_side(message)
    }

    fn content(message: Json<'_>) -> Vec<ContentBlock> {
        responses_item(message)
    }

    fn checkpoint(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    fn interrupted(call_id: &str, _name: &str) -> Value {
        json!({"type": "function_call_output", "call_id": call_id, "output": INTERRUPTED})
    }
}

impl Api for Anthropic {
    const FORM: Form = Form::Anthropic;

    fn side(message: &Fields<'_>) -> Option<Side> {
        match &*message.text("role")? {
            "system" => Some(Side::Envelope),
            "assistant" => Some(Side::Assistant),
            "user" => {
                let content = message.get("content").and_then(Json::items);
                let answers = content.unwrap_or_default().iter().any(|block| {
                    block.get("type").and_then(Json::text).as_deref() == Some("tool_result")
                });
                Some(if answers { Side::Result } else { Side::User })
            }
            _ => None,
        }
    }

    fn content(message: Json<'_>) -> Vec<ContentBlock> {
        blocks(message.get("content"), anthropic)
    }

    fn interrupted(call_id: &str, _name: &str) -> Value {
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call_id, "is_error": true, "content": INTERRUPTED},
        ]})
    }
}

impl Api for AiSdk {
    const FORM: Form = Form::AiSdk;

    fn side(message: &Fields<'_>) -> Option<Side> {
        OpenaiChat::side(message)
    }

    fn content(message: Json<'_>) -> Vec<ContentBlock> {
        blocks(message.get("content"), ai_sdk)
    }

    fn interrupted(call_id: &str, name: &str) -> Value {
        json!({"role": "tool", "content": [{
            "type": "tool-result",
            "toolCallId": call_id,
            "toolName": name,
            "output": {"type": "error-text", "value": INTERRUPTED},
        }]})
    }
}

impl<A: Api + Sync> Reader for A {
    fn read(&self, bytes: &[u8], _skip_damaged: bool, into: &mut Builder) -> Result<(), Fault> {
        let (_, whole) = one_value(bytes)?;
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(whole) {
            return Err(Fault::Line {
                line: error.line(),
                why: told(&error),
            });
        }
        let list = list_of(Json::of(whole));
        let (Some(list), Some(messages)) = (list, list.and_then(Json::items)) else {
            return Err(Fault::Whole(
                "neither a list of messages nor an object with one as `messages` or `input`".into(),
            ));
        };
        into.facts.list = Some(span_of(bytes, list.raw()));
        for (index, message) in messages.iter().enumerate() {
            let span = span_of(bytes, message.raw());
            take::<A>(*message, span, into).map_err(|why| {
                let before = &bytes[..span.start];
                Fault::Line {
                    line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
                    why: format!("message {}: {why}", index + 1),
                }
            })?;
        }
        if into.overhead > 0 {
            into.header("", "");
        }
        Ok(())
    }

    fn push(&self, bytes: &[u8], record: Span, into: &mut Builder) -> Result<(), Fault> {
        let text = std::str::from_utf8(&bytes[record.start..record.end]);
        let message = Json::of(text.unwrap_or_default());
        take::<A>(message, record, into).map_err(Fault::Whole)
    }

    fn content(&self, _kind: Kind, records: &[Json<'_>]) -> Vec<ContentBlock> {
        records
            .iter()
            .flat_map(|record| A::content(*record))
            .collect()
    }

    fn record(&self, rewritten: &Rewritten<'_>, _stamp: &mut Stamp) -> Result<Write, Refusal> {
        let session = rewritten.session;
        let Some(list) = session.facts().list else {
            return Err(session.refusal("it has no messages"));
        };
        let kept = |seqs: &[u32]| -> HashSet<usize> {
            let records = session.records_of(seqs);
            records.iter().map(|span| span.start).collect()
        };
        let (head, tail) = (kept(&rewritten.head), kept(&rewritten.tail));
        let messages = session.json(list).items().unwrap_or_default();
        let mut elements: Vec<Json<'_>> = Vec::new();
        let mut at = None;
        for message in &messages {
            let start = span_of(session.bytes(), message.raw()).start;
            let is_node =
                message.fields().and_then(|fields| A::side(&fields)) != Some(Side::Envelope);
            if is_node && !head.contains(&start) && !tail.contains(&start) {
                at.get_or_insert(elements.len());
                continue;
            }
            elements.push(*message);
        }
        let checkpoint = line(&A::checkpoint(&rewritten.checkpoint));
        elements.insert(at.unwrap_or(elements.len()), Json::of(&checkpoint));
        let interrupted = interrupted::<A>(&elements);
        let mut texts = Vec::new();
        for (element, results) in elements.iter().zip(&interrupted) {
            texts.push(element.raw());
            texts.extend(results.iter().map(String::as_str));
        }
        Ok(with_list(session, list, &texts))
    }

    fn undo(&self, session: &Session) -> Result<Write, Refusal> {
        Err(session.refusal("what a compaction replaced is no longer in it"))
    }
}

/// Take a message as what it is.
fn take<A: Api>(message: Json<'_>, span: Span, into: &mut Builder) -> Result<(), String> {
    let fields = message.fields().ok_or("it is not an object")?;
    let Some(side) = A::side(&fields) else {
        let role = fields.get("role").map_or("none", Json::raw);
        return Err(format!(
            "its role is {role}, which {} does not know",
            A::FORM.name()
        ));
    };
    let answer = into.answer.take();
    match side {
        Side::Envelope => into.overhead += (span.end - span.start) as u64 / 4,
        Side::Assistant => {
            into.answer = match answer.filter(|_| A::ANSWERS_IN_PIECES) {
                Some(seq) => {
                    into.extend(seq, span);
                    Some(seq)
                }
                None => Some(into.node(Kind::Assistant, &[span], None)),
            };
        }
        Side::Result => {
            into.node(Kind::Result, &[span], None);
        }
        Side::User if is_checkpoint(&A::content(message)) => {
            into.node(Kind::Checkpoint, &[span], None);
        }
        Side::User => {
            into.user(Kind::User, &[span]);
        }
    }
    Ok(())
}

/// For each element, results for those of its calls that got none and will get none,
/// because the conversation has gone on.
fn interrupted<A: Api>(elements: &[Json<'_>]) -> Vec<Vec<String>> {
    let contents: Vec<Vec<ContentBlock>> = elements.iter().map(|each| A::content(*each)).collect();
    let side = |at: usize| elements[at].fields().and_then(|fields| A::side(&fields));
    // Whether somebody else than a tool speaks after an element; what the model says
    // in pieces is one answer.
    let mut goes_on = vec![false; elements.len()];
    let mut later = false;
    for at in (0..elements.len()).rev() {
        goes_on[at] = later;
        match side(at) {
            Some(Side::User) => later = true,
            Some(Side::Assistant) => {
                let piece = A::ANSWERS_IN_PIECES && at > 0 && side(at - 1) == Some(Side::Assistant);
                later |= !piece;
            }
            _ => {}
        }
    }
    let mut last_result: HashMap<&str, usize> = HashMap::new();
    for (at, content) in contents.iter().enumerate() {
        for block in content {
            if let ContentBlock::ToolResult(answer) = block {
                last_result.insert(&answer.call_id, at);
            }
        }
    }
    let mut results = vec![Vec::new(); elements.len()];
    for (at, content) in contents.iter().enumerate() {
        for block in content {
            let ContentBlock::ToolCall(call) = block else {
                continue;
            };
            let result = last_result.get(call.call_id.as_str());
            let answered = result.is_some_and(|result| *result >= at);
            if !answered && goes_on[at] {
                results[at].push(line(&A::interrupted(&call.call_id, &call.name)));
            }
        }
    }
    results
}

/// The list of messages of a document.
fn list_of(document: Json<'_>) -> Option<Json<'_>> {
    if document.is_array() {
        return Some(document);
    }
    let fields = document.fields()?;
    let member = |key| fields.get(key).filter(|list: &Json<'_>| list.is_array());
    member("messages").or_else(|| member("input"))
}

/// Whose messages a document holds.
pub(super) fn recognise(document: Json<'_>) -> Option<Form> {
    let messages = list_of(document)?.items()?;
    if messages.is_empty() {
        return None;
    }
    let body = document.fields();
    let has = |key: &str| body.as_ref().is_some_and(|body| body.get(key).is_some());
    if has("input") && !has("messages") {
        return Some(Form::OpenaiResponses);
    }
    let mut all = true;
    let mut anthropic = has("anthropic_version") || has("system");
    let (mut items, mut sdk, mut chat) = (false, false, false);
    for message in messages.iter().filter_map(|message| message.fields()) {
        if !message.has("role") {
            items |= message.get("type").is_some_and(Json::is_text);
            all &= items;
            continue;
        }
        chat |= message.has("tool_calls") || message.has("tool_call_id");
        for block in message
            .get("content")
            .and_then(Json::items)
            .unwrap_or_default()
        {
            match block.get("type").and_then(Json::text).as_deref() {
                Some("input_text" | "output_text" | "input_image" | "input_file") => items = true,
                Some("tool-call" | "tool-result" | "reasoning" | "file") => sdk = true,
                Some("image") => match block.get("source") {
                    Some(_) => anthropic = true,
                    None => sdk = true,
                },
                Some(
                    "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "document",
                ) => {
                    anthropic = true;
                }
                Some("image_url" | "refusal" | "input_audio") => chat = true,
                _ => {}
            }
        }
    }
    if !all || !messages.iter().all(|message| message.is_object()) {
        return None;
    }
    Some(match (items, sdk, anthropic, chat) {
        (true, ..) => Form::OpenaiResponses,
        (_, true, ..) => Form::AiSdk,
        (_, _, true, _) => Form::Anthropic,
        _ => Form::OpenaiChat,
    })
}
