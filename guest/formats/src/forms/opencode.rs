//! What `opencode export` writes: `{info, messages: [{info, parts}]}`.

use harness_compact_engine::{ContentBlock, Usage};
use serde_json::{Value, json};

use super::{Reader, line, span_of};
use crate::content::{blocks, call, media, result, text, tokens};
use crate::document::{Fault, Span, one_value};
use crate::json::{Fields, Json, object, parse, told};
use crate::session::{Builder, Kind, Refusal, Rewritten, Session, Write};
use crate::stamp::Stamp;

pub(crate) struct Opencode;

/// What the program puts in place of an output that it has cleared.
const CLEARED: &str = "[Old tool result content cleared]";

impl Reader for Opencode {
    fn read(&self, bytes: &[u8], _skip_damaged: bool, into: &mut Builder) -> Result<(), Fault> {
        let (_, whole) = one_value(bytes)?;
        let fields = object(whole).map_err(|_| not_json(whole))?;
        let info = fields.get("info").and_then(Json::fields);
        let info = info.ok_or_else(|| Fault::Whole("`info` is missing".into()))?;
        let list = fields.get("messages");
        let messages = list.and_then(Json::items);
        let (Some(list), Some(mut messages)) = (list, messages) else {
            return Err(Fault::Whole("`messages` is not a list".into()));
        };
        into.facts.id = info.text("id").map(|id| id.into_owned());
        into.facts.cwd = info.text("directory").map(|cwd| cwd.into_owned());
        into.facts.list = Some(span_of(bytes, list.raw()));
        into.facts.last = messages.last().map(|last| span_of(bytes, last.raw()));
        // Messages that the user took back are gone with the next prompt.
        if let Some(revert) = info.get("revert").and_then(Json::fields) {
            let from = revert.text("messageID").unwrap_or_default();
            let in_part = revert.has("partID");
            if let Some(at) = messages
                .iter()
                .position(|m| id_of(*m).is_some_and(|id| id == from))
            {
                messages.truncate(if in_part { at + 1 } else { at });
            }
        }
        let mut at = 0;
        for index in 0..messages.len() {
            let Some((prompt, tail)) = compaction(&messages, index) else {
                continue;
            };
            for message in &messages[at..prompt] {
                add(bytes, *message, true, into);
            }
            let records = [prompt, index].map(|at| span_of(bytes, messages[at].raw()));
            into.facts.compaction = records.to_vec();
            into.rewrite();
            into.node(Kind::Checkpoint, &records, None);
            let tail = tail.and_then(|tail| {
                messages[..prompt]
                    .iter()
                    .position(|m| id_of(*m).is_some_and(|id| id == tail))
            });
            for message in &messages[tail.unwrap_or(prompt)..prompt] {
                // Earlier checkpoints are not part of a tail.
                if !is_summary(*message) && !asks_for_compaction(*message) {
                    add(bytes, *message, false, into);
                }
            }
            // What came in between, such as a second prompt, is still there.
            for message in &messages[prompt + 1..index] {
                add(bytes, *message, true, into);
            }
            at = index + 1;
        }
        for message in &messages[at..] {
            add(bytes, *message, true, into);
        }
        Ok(())
    }

    fn content(&self, kind: Kind, records: &[Json<'_>]) -> Vec<ContentBlock> {
        let Some(record) = records.last().and_then(|record| record.fields()) else {
            return Vec::new();
        };
        match kind {
            Kind::Result => tool_result(&record).into_iter().collect(),
            _ => parts(&record)
                .iter()
                .filter_map(|part| block(part, kind))
                .collect(),
        }
    }

    fn record(&self, rewritten: &Rewritten<'_>, stamp: &mut Stamp) -> Result<Write, Refusal> {
        let session = rewritten.session;
        if !rewritten.head.is_empty() {
            return Err(session.refusal("what is replaced must begin with its first node"));
        }
        let Some(list) = session.facts().list else {
            return Err(session.refusal("it has no messages"));
        };
        let messages = session.json(list).items().unwrap_or_default();
        let newest = |role: &str| {
            let mut found = messages.iter().rev().filter_map(|message| {
                let info = message.get("info")?;
                (info.get("role")?.text()? == role).then_some(info)
            });
            found
                .next()
                .and_then(|info| parse(info.raw().as_bytes()).ok())
        };
        let (Some(user), Some(assistant)) = (newest("user"), newest("assistant")) else {
            return Err(session.refusal("it has no question and answer to make its records like"));
        };
        let ids = messages.iter().filter_map(|message| id_of(*message));
        let message_ids = Ids::after(ids.map(|id| id.into_owned()), "msg_");
        let part_ids = messages.iter().flat_map(|message| {
            let parts = message
                .get("parts")
                .and_then(Json::items)
                .unwrap_or_default();
            parts
                .into_iter()
                .filter_map(|part| Some(part.get("id")?.text()?.into_owned()))
        });
        let part_ids = Ids::after(part_ids, "prt_");
        let (Some(message_ids), Some(part_ids)) = (message_ids, part_ids) else {
            return Err(session.refusal("its ids are none that another could follow"));
        };
        let session_id = user["sessionID"].clone();
        let created = assistant["time"]["created"].as_u64().unwrap_or(0);
        let time = stamp.now_ms().max(created + 1);
        let (prompt_id, summary_id) = (message_ids.next(1, stamp), message_ids.next(2, stamp));
        let (mark_id, text_id) = (part_ids.next(1, stamp), part_ids.next(2, stamp));
        let mut prompt = user;
        prompt["id"] = json!(prompt_id);
        prompt["time"] = json!({"created": time});
        let mut mark = json!({"type": "compaction", "auto": false});
        let first = rewritten.tail.first().and_then(|seq| session.record(*seq));
        if let Some(first) =
            first.and_then(|first| id_of(session.json(first)).map(|id| id.into_owned()))
        {
            mark["tail_start_id"] = json!(first);
        }
        mark["id"] = json!(mark_id);
        mark["messageID"] = json!(prompt_id);
        mark["sessionID"] = session_id.clone();
        let mut summary = assistant;
        if let Some(info) = summary.as_object_mut() {
            info.shift_remove("error");
            info.shift_remove("structured");
        }
        for (key, value) in [
            ("id", json!(summary_id)),
            ("parentID", json!(prompt_id)),
            ("mode", json!("compaction")),
            ("agent", json!("compaction")),
            ("summary", json!(true)),
            ("cost", json!(0)),
            (
                "tokens",
                json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}),
            ),
            ("finish", json!("stop")),
            ("time", json!({"created": time + 1, "completed": time + 2})),
        ] {
            summary[key] = value;
        }
        let told = json!({
            "type": "text",
            "text": rewritten.checkpoint,
            "id": text_id,
            "messageID": summary_id,
            "sessionID": session_id,
        });
        let message = |info: Value, part: Value| line(&json!({"info": info, "parts": [part]}));
        let new = [message(prompt, mark), message(summary, told)];
        Ok(append_to_list(session, list, &new))
    }

    fn undo(&self, session: &Session) -> Result<Write, Refusal> {
        let facts = session.facts();
        let messages = facts.list.and_then(|list| session.json(list).items());
        let (Some(messages), [prompt, summary]) = (messages, &facts.compaction[..]) else {
            return Err(session.refusal("it holds no compaction"));
        };
        if facts.last != Some(*summary) {
            return Err(session.refusal(
                "it has gone on since its newest compaction, which can only be taken back while it is the last thing in the file",
            ));
        }
        let before = messages
            .iter()
            .map(|message| span_of(session.bytes(), message.raw()))
            .rfind(|span| span.end <= prompt.start);
        let from = before.map_or(prompt.start, |span| span.end);
        let mut out = session.bytes()[..from].to_vec();
        out.extend_from_slice(&session.bytes()[summary.end..]);
        Ok(Write::Whole(out))
    }
}

fn not_json(text: &str) -> Fault {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error) => Fault::Line {
            line: error.line(),
            why: told(&error),
        },
        Ok(_) => Fault::Whole("not a JSON object".into()),
    }
}

fn id_of(message: Json<'_>) -> Option<std::borrow::Cow<'_, str>> {
    message.get("info")?.get("id")?.text()
}

fn parts<'a>(message: &Fields<'a>) -> Vec<Fields<'a>> {
    let parts = message.get("parts").and_then(Json::items);
    parts
        .unwrap_or_default()
        .into_iter()
        .filter_map(Json::fields)
        .collect()
}

/// Whether a message is a summary that came to its end.
fn is_summary(message: Json<'_>) -> bool {
    message
        .get("info")
        .and_then(Json::fields)
        .is_some_and(|info| {
            info.is_true("summary")
                && info.text("role").is_some_and(|role| role == "assistant")
                && info.has("finish")
                && !info.has("error")
        })
}

fn asks_for_compaction(message: Json<'_>) -> bool {
    let fields = message.fields();
    fields.is_some_and(|message| {
        parts(&message)
            .iter()
            .any(|part| part.text("type").is_some_and(|kind| kind == "compaction"))
    })
}

/// Where a summary's prompt stands, and the first message of the tail that it keeps.
fn compaction(messages: &[Json<'_>], at: usize) -> Option<(usize, Option<String>)> {
    if !is_summary(messages[at]) {
        return None;
    }
    let parent = messages[at].get("info")?.get("parentID")?.text()?;
    let is_parent = |message: &Json<'_>| id_of(*message).is_some_and(|id| id == parent);
    let prompt = messages[..at].iter().rposition(is_parent)?;
    let fields = messages[prompt].fields()?;
    let mark = parts(&fields)
        .into_iter()
        .find(|part| part.text("type").is_some_and(|kind| kind == "compaction"))?;
    let tail = mark.text("tail_start_id").map(|id| id.into_owned());
    Some((prompt, tail))
}

fn add(bytes: &[u8], message: Json<'_>, counted: bool, into: &mut Builder) {
    let Some(fields) = message.fields() else {
        return;
    };
    let Some(info) = fields.get("info").and_then(Json::fields) else {
        return;
    };
    let span = span_of(bytes, message.raw());
    let parts = parts(&fields);
    let is_user = info.text("role").is_some_and(|role| role == "user");
    let kind = if is_user { Kind::User } else { Kind::Assistant };
    if !parts.iter().any(|part| block(part, kind).is_some()) {
        return;
    }
    if is_user {
        into.user(kind, &[span]);
        return;
    }
    let named = |key: &str| info.text(key).unwrap_or_default();
    into.header(&named("providerID"), &named("modelID"));
    let usage = info
        .get("tokens")
        .and_then(Json::fields)
        .filter(|_| counted);
    let usage = usage.map(|figures| {
        let cache = figures.get("cache").and_then(Json::fields);
        let cached = |key| tokens(cache.as_ref().and_then(|cache| cache.number(key)));
        let figure = |key| figures.number(key).unwrap_or(0);
        Usage {
            input_tokens: tokens(Some(figure("input"))),
            output_tokens: tokens(Some(figure("output") + figure("reasoning"))),
            cache_read_tokens: cached("read"),
            cache_write_tokens: cached("write"),
        }
    });
    into.node(kind, &[span], usage.filter(|usage| usage.output_tokens > 0));
    let made = fields
        .get("parts")
        .and_then(Json::items)
        .unwrap_or_default();
    for part in made {
        if part.get("type").and_then(Json::text).as_deref() == Some("tool") {
            into.node_within(Kind::Result, span_of(bytes, part.raw()));
        }
    }
}

/// A part of a message; none where the model is not shown it.
fn block(part: &Fields<'_>, of: Kind) -> Option<ContentBlock> {
    let said = || part.text("text").filter(|said| !said.is_empty());
    match &*part.text("type")? {
        "text" if !part.is_true("ignored") => said().map(text),
        "reasoning" => said().map(|said| ContentBlock::Reasoning(said.into_owned())),
        "file" if of == Kind::User => {
            let kind = part.text("mime").unwrap_or("file".into());
            // The program has put the text of text files beside them.
            let is_text = kind == "text/plain" || kind == "application/x-directory";
            (!is_text).then(|| media(Some(&kind), part.get("url")))
        }
        "tool" => {
            let state = part.get("state").and_then(Json::fields);
            Some(call(
                part.text("callID").unwrap_or_default(),
                part.text("tool").unwrap_or_default(),
                state.and_then(|state| state.get("input")),
            ))
        }
        "subtask" => part.text("prompt").map(text),
        "compaction" => Some(text("What did we do so far?")),
        _ => None,
    }
}

/// The result of a `tool` part: each has one, or is told to have been interrupted.
fn tool_result(part: &Fields<'_>) -> Option<ContentBlock> {
    let id = part.text("callID").unwrap_or_default().into_owned();
    let state = part.get("state").and_then(Json::fields)?;
    let said = |key: &str| state.text(key).unwrap_or_default().into_owned();
    let cleared = state
        .get("time")
        .is_some_and(|time| time.get("compacted").is_some_and(|at| !at.is_null()));
    Some(match &*state.text("status").unwrap_or_default() {
        "completed" if cleared => result(id, false, vec![text(CLEARED)]),
        "completed" => {
            let mut content = vec![text(said("output"))];
            content.extend(blocks(state.get("attachments"), |file, _| {
                media(file.text("mime").as_deref(), file.get("url"))
            }));
            result(id, false, content)
        }
        "error" => result(id, true, vec![text(said("error"))]),
        _ => result(id, true, vec![text("[Tool execution was interrupted]")]),
    })
}

/// Ids that grow with time: a prefix, twelve hex digits, fourteen of base 62.
struct Ids {
    prefix: &'static str,
    last: u64,
}

impl Ids {
    fn after(ids: impl Iterator<Item = String>, prefix: &'static str) -> Option<Self> {
        let number = |id: &str| {
            let digits = id.strip_prefix(prefix)?.get(..12)?;
            u64::from_str_radix(digits, 16).ok()
        };
        let last = ids.filter_map(|id| number(&id)).max()?;
        Some(Self { prefix, last })
    }

    fn next(&self, step: u64, stamp: &mut Stamp) -> String {
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut id = format!("{}{:012x}", self.prefix, self.last + step);
        for _ in 0..14 {
            id.push(char::from(DIGITS[(stamp.bits() % 62) as usize]));
        }
        id
    }
}

/// A document with more messages at the end of its list, and all else as it stands.
fn append_to_list(session: &Session, list: Span, new: &[String]) -> Write {
    let items = session.json(list).items().unwrap_or_default();
    let bytes = session.bytes();
    let spans: Vec<Span> = items
        .iter()
        .map(|item| span_of(bytes, item.raw()))
        .collect();
    let (at, gap) = match &spans[..] {
        [] => (list.start + 1, &bytes[..0]),
        [.., last] => (last.end, &bytes[list.start + 1..spans[0].start]),
    };
    let mut out = bytes[..at].to_vec();
    for (index, element) in new.iter().enumerate() {
        if index > 0 || !spans.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(gap);
        out.extend_from_slice(element.as_bytes());
    }
    out.extend_from_slice(&bytes[at..]);
    Write::Whole(out)
}
