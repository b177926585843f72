//! Events as JSON: the form of a session log file, one object a line.
//!
//! `{type, seq, time, data, sourceEventSeqs?, surfaceOp?}`, with messages and
//! blocks as deepseek-harness writes them. Compaction events are written
//! `compact/…` or, as its later releases call them, `compaction/…`.

use std::hash::{DefaultHasher, Hash, Hasher};

use harness_compact_engine::{
    AssistantMessage, CompactEnd, CompactPrune, CompactStart, CompactSummary, ContentBlock, Draft,
    Event, Image, Opaque, Payload, RequestHeader, ResultBlock, Route, Seq, Step, SurfaceOp,
    SurfaceRange, ToolCall, ToolResult, Usage, UserMessage,
};
use serde_json::{Value, json};

use crate::json::{Fields, Json, object};

/// What a line of a log file holds.
pub enum Line {
    /// The header, which is no event.
    Header {
        /// The session's id.
        id: Option<String>,
    },
    /// One event; or several of the same unimportant type, packed into one row.
    Events {
        /// The event, or the first of them.
        first: Event,
        /// How many.
        count: u32,
    },
}

/// What a log line says.
pub fn read_line(line: &str) -> Result<Line, String> {
    read_fields(&object(line)?)
}

pub(crate) fn read_fields(line: &Fields<'_>) -> Result<Line, String> {
    let kind = string(line, "type")?;
    if kind == "session" && line.get("seq").is_none() {
        let id = line.text("id").map(|id| id.into_owned());
        return Ok(Line::Header { id });
    }
    if let Some(first) = line.get("seq0") {
        // Streamed deltas, packed: what they amounted to is in the message.
        let gaps = line.get("data").and_then(|data| data.get("dt")?.items());
        let gaps = gaps.ok_or("a packed row has no `data.dt`")?.len();
        let first = Event {
            seq: seq(first).ok_or("`seq0` is not a sequence number")?,
            payload: Payload::Other("assistant/chunk".into()),
            surface: None,
            sources: Vec::new(),
        };
        let count = u32::try_from(gaps + 1).map_err(|_| "a packed row is too long")?;
        return Ok(Line::Events { first, count });
    }
    let first = read_event(line, &kind)?;
    Ok(Line::Events { first, count: 1 })
}

/// Read one event from the JSON that a log file has of it:
/// `{type, seq, time, data, sourceEventSeqs?, surfaceOp?}`. The error says what is
/// wrong with it.
pub fn event_from_json(line: &str) -> Result<Event, String> {
    let line = object(line)?;
    let kind = string(&line, "type")?;
    read_event(&line, &kind)
}

fn read_event(line: &Fields<'_>, kind: &str) -> Result<Event, String> {
    let seq_value = line.get("seq").ok_or("`seq` is missing")?;
    let seq_value = seq(seq_value).ok_or("`seq` is not a sequence number")?;
    let payload = read_payload(kind, Data::of(line.get("data")))?;
    let on_surface = matches!(
        payload,
        Payload::UserMessage(_)
            | Payload::AssistantMessage(_)
            | Payload::ToolResult(_)
            | Payload::ContextMessage(_)
            | Payload::SteeringMessage(_)
    );
    let surface = match line.get("surfaceOp") {
        None if on_surface => return Err(format!("a {kind} needs a `surfaceOp`")),
        Some(_) if !on_surface => return Err(format!("a {kind} cannot have a `surfaceOp`")),
        None => None,
        Some(op) => Some(read_surface_op(op).ok_or("`surfaceOp` is neither append nor replace")?),
    };
    let sources = match line.get("sourceEventSeqs") {
        None => Vec::new(),
        Some(seqs) => read_seqs(seqs).ok_or("`sourceEventSeqs` is not a list of seqs")?,
    };
    Ok(Event {
        seq: seq_value,
        payload,
        surface,
        sources,
    })
}

/// The members of an object that may not be there.
struct Data<'a>(Option<Fields<'a>>);

impl<'a> Data<'a> {
    fn of(value: Option<Json<'a>>) -> Self {
        Self(value.and_then(Json::fields))
    }

    fn get(&self, key: &str) -> Option<Json<'a>> {
        self.0.as_ref()?.get(key)
    }

    fn text(&self, key: &str) -> Option<String> {
        Some(self.get(key)?.text()?.into_owned())
    }

    fn child(&self, key: &str) -> Data<'a> {
        Data::of(self.get(key))
    }
}

fn read_payload(kind: &str, data: Data<'_>) -> Result<Payload, String> {
    let name = kind
        .strip_prefix("compaction/")
        .or(kind.strip_prefix("compact/"));
    Ok(match name {
        Some("start") => Payload::CompactStart(CompactStart {
            turn: turn_or_none(&data)?,
        }),
        Some("summary") => Payload::CompactSummary(read_summary(&data)?),
        Some("prune") => Payload::CompactPrune(CompactPrune {
            shadowed_range: read_range(&data)?,
            shadowed_token_count: number(&data, "shadowedTokenCount")?,
        }),
        Some("end") => Payload::CompactEnd(CompactEnd {
            turn: turn_or_none(&data)?,
            error: data.text("error"),
        }),
        _ => match kind {
            "turn/start" => Payload::TurnStart(number(&data, "turn")?),
            "turn/end" => Payload::TurnEnd(number(&data, "turn")?),
            "step/start" => Payload::StepStart(read_step(&data)?),
            "step/end" => Payload::StepEnd(read_step(&data)?),
            "request/header" => Payload::RequestHeader(read_header(&data)?),
            "user/message" => Payload::UserMessage(UserMessage {
                content: read_content(&data)?,
                source: read_source(&data),
                pinned: data.get("pinned").is_some_and(Json::is_true),
            }),
            "assistant/message" => {
                data.get("message").ok_or("`data.message` is missing")?;
                Payload::AssistantMessage(AssistantMessage {
                    content: read_content(&data.child("message"))?,
                    usage: data.get("usage").and_then(read_usage),
                })
            }
            "tool/result" => {
                data.get("message").ok_or("`data.message` is missing")?;
                match <[ContentBlock; 1]>::try_from(read_content(&data.child("message"))?) {
                    Ok([ContentBlock::ToolResult(result)]) => Payload::ToolResult(result),
                    _ => return Err("a tool/result holds exactly one tool-result block".into()),
                }
            }
            "context/message" => Payload::ContextMessage(read_content(&data)?),
            "steering/message" => Payload::SteeringMessage(read_content(&data)?),
            "session/end-seed" => Payload::Reopened,
            _ => Payload::Other(kind.into()),
        },
    })
}

fn read_step(data: &Data<'_>) -> Result<Step, String> {
    Ok(Step {
        turn: number(data, "turn")?,
        step: number(data, "step")?,
    })
}

fn read_header(data: &Data<'_>) -> Result<RequestHeader, String> {
    let raw = data.get("header").ok_or("`data.header` is missing")?;
    let header = Data::of(Some(raw));
    let config = header.child("config");
    let name = |key: &str| config.text(key).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    raw.stringified().hash(&mut hasher);
    Ok(RequestHeader {
        route: Route {
            provider: name("provider"),
            model: name("model"),
        },
        overhead_tokens: header_tokens(&header),
        fingerprint: format!("{:016x}", hasher.finish()),
    })
}

/// The envelope's tokens at four code units a token, four for each part.
fn header_tokens(header: &Data<'_>) -> u32 {
    let part = |text: &str| (text.encode_utf16().count() as u32).div_ceil(4) + 4;
    let system = header.text("system").filter(|system| !system.is_empty());
    let tools = header
        .get("tools")
        .filter(|tools| tools.items().is_some_and(|tools| !tools.is_empty()));
    let system = system.map_or(0, |system| part(&system));
    system + tools.map_or(0, |tools| part(&tools.stringified()))
}

fn read_summary(data: &Data<'_>) -> Result<CompactSummary, String> {
    let summary = data.get("summary").ok_or("`data.summary` is missing")?;
    let seqs = data.get("shadowedSeqs").and_then(read_seqs);
    Ok(CompactSummary {
        summary: blocks(summary)?,
        shadowed_range: read_range(data)?,
        shadowed_seqs: seqs.ok_or("`data.shadowedSeqs` is missing")?,
        shadowed_token_count: number(data, "shadowedTokenCount")?,
        model: data.text("model").map(|model| Route {
            provider: data.text("provider").unwrap_or_default(),
            model,
        }),
        max_tokens: data.get("maxTokens").and_then(seq),
        usage: data.get("usage").and_then(read_usage),
    })
}

/// Who wrote a message: its source's kind, and the plugin's name where it is one.
fn read_source(message: &Data<'_>) -> String {
    let source = message.child("source");
    let kind = source.text("kind").unwrap_or_else(|| "user".into());
    match source.text("plugin") {
        Some(plugin) if kind == "plugin" => format!("plugin:{plugin}"),
        _ => kind,
    }
}

fn read_usage(usage: Json<'_>) -> Option<Usage> {
    let usage = usage.fields()?;
    let tokens = |key: &str| usage.number(key).unwrap_or(0);
    let tokens = |key| u32::try_from(tokens(key)).unwrap_or(u32::MAX);
    Some(Usage {
        input_tokens: tokens("inputTokens"),
        output_tokens: tokens("outputTokens"),
        cache_read_tokens: tokens("cacheReadTokens"),
        cache_write_tokens: tokens("cacheWriteTokens"),
    })
}

fn read_content(message: &Data<'_>) -> Result<Vec<ContentBlock>, String> {
    let content = message.get("content").ok_or("a message has no `content`")?;
    match content.text() {
        Some(text) => Ok(vec![ContentBlock::Text(text.into_owned())]),
        None => blocks(content),
    }
}

fn blocks(content: Json<'_>) -> Result<Vec<ContentBlock>, String> {
    let blocks = content.items().ok_or("`content` is not a list of blocks")?;
    blocks.into_iter().map(read_block).collect()
}

fn read_block(block: Json<'_>) -> Result<ContentBlock, String> {
    let fields = block.fields().ok_or("a block has no `type`")?;
    let kind = string(&fields, "type").map_err(|_| "a block has no `type`")?;
    Ok(match &*kind {
        "text" => ContentBlock::Text(string(&fields, "text")?),
        "reasoning" => ContentBlock::Reasoning(string(&fields, "text")?),
        "tool-call" => ContentBlock::ToolCall(ToolCall {
            call_id: string(&fields, "id")?,
            name: string(&fields, "name")?,
            arguments: string(&fields, "arguments")?,
        }),
        "tool-result" => {
            let missing = "a tool-result block has no `content`";
            let content = fields.get("content").ok_or(missing)?;
            let content = match content.text() {
                Some(text) => vec![ResultBlock::Text(text.into_owned())],
                None => {
                    let blocks = content.items().ok_or(missing)?;
                    let blocks = blocks.into_iter().map(read_result_block);
                    blocks.collect::<Result<_, _>>()?
                }
            };
            ContentBlock::ToolResult(ToolResult {
                call_id: string(&fields, "toolCallId")?,
                is_error: fields.is_true("isError"),
                content,
            })
        }
        "image" => {
            let attachment = Data::of(fields.get("attachment"));
            ContentBlock::Image(Image {
                media_type: attachment.text("mediaType").unwrap_or("image".into()),
                byte_length: attachment.get("bytes").and_then(seq).unwrap_or(0),
            })
        }
        _ => ContentBlock::Opaque(Opaque {
            kind,
            json: block.stringified(),
        }),
    })
}

fn read_result_block(block: Json<'_>) -> Result<ResultBlock, String> {
    Ok(crate::content::as_result(read_block(block)?, || {
        block.stringified()
    }))
}

fn read_surface_op(op: Json<'_>) -> Option<SurfaceOp> {
    if op.text().is_some_and(|op| op == "append") {
        return Some(SurfaceOp::Append);
    }
    let op = op.fields()?;
    if op.text("op")? != "replace" {
        return None;
    }
    Some(SurfaceOp::Replace(SurfaceRange {
        start: seq(op.get("start")?)?,
        end: seq(op.get("end")?)?,
    }))
}

fn read_range(data: &Data<'_>) -> Result<SurfaceRange, String> {
    let range = data.child("shadowedRange");
    match (
        range.get("start").and_then(seq),
        range.get("end").and_then(seq),
    ) {
        (Some(start), Some(end)) => Ok(SurfaceRange { start, end }),
        _ => Err("`data.shadowedRange` is not a range of seqs".into()),
    }
}

fn read_seqs(seqs: Json<'_>) -> Option<Vec<Seq>> {
    seqs.items()?.into_iter().map(seq).collect()
}

/// Written as a whole number: what has a fraction is none.
fn seq(value: Json<'_>) -> Option<Seq> {
    value.raw().parse().ok()
}

fn turn_or_none(data: &Data<'_>) -> Result<Option<u32>, String> {
    match data.get("turn") {
        None => Ok(None),
        Some(turn) if turn.is_null() => Ok(None),
        Some(_) => number(data, "turn").map(Some),
    }
}

fn number(data: &Data<'_>, key: &str) -> Result<u32, String> {
    let value = data.get(key).and_then(seq);
    value.ok_or_else(|| format!("`data.{key}` is not a number of that size"))
}

fn string(fields: &Fields<'_>, key: &str) -> Result<String, String> {
    let text = fields.text(key).map(|text| text.into_owned());
    text.ok_or_else(|| format!("`{key}` is not a text"))
}

/// What the store adds to an event: who and when.
pub struct EventStamp {
    /// Milliseconds since 1970.
    pub time: u64,
    /// The id of a message that has none yet.
    pub message_id: String,
    /// The compaction that the event belongs to, if it is one of its events.
    pub compaction_id: Option<String>,
    /// Whether the log calls such events `compaction/…`, as later releases do.
    pub later_names: bool,
}

/// A new event as a line's JSON.
pub fn write_event(seq: Seq, draft: &Draft, stamp: &EventStamp) -> Value {
    let (kind, mut data) = write_payload(&draft.payload, stamp);
    if let (Some(id), Some(data)) = (&stamp.compaction_id, data.as_object_mut()) {
        data.insert("compactionId".into(), json!(id));
    }
    let kind = match kind.strip_prefix("compact/") {
        Some(name) if stamp.later_names => format!("compaction/{name}"),
        _ => kind.to_owned(),
    };
    let mut line = json!({"type": kind, "seq": seq, "time": stamp.time, "data": data});
    if !draft.sources.is_empty() {
        line["sourceEventSeqs"] = json!(draft.sources);
    }
    match draft.surface {
        Some(SurfaceOp::Append) => line["surfaceOp"] = json!("append"),
        Some(SurfaceOp::Replace(SurfaceRange { start, end })) => {
            line["surfaceOp"] = json!({"op": "replace", "start": start, "end": end});
        }
        None => {}
    }
    line
}

/// A rewritten tool result: the event that it replaces, with other texts. All that
/// the contract does not carry stays, such as ids, errors and the bytes of images.
pub fn rewrite_result(original: &Value, result: &ToolResult) -> Option<Value> {
    let mut data = original.get("data")?.clone();
    let content = data.pointer_mut("/message/content/0/content")?;
    let is_text = |block: &&Value| block["type"] == "text";
    let mut others = content.as_array()?.iter().filter(|block| !is_text(block));
    let rewritten = result.content.iter().map(|block| match block {
        ResultBlock::Text(text) => Some(json!({"type": "text", "text": text})),
        _ => others.next().cloned(),
    });
    *content = rewritten.collect::<Option<Vec<Value>>>()?.into();
    Some(data)
}

fn write_payload<'a>(payload: &'a Payload, stamp: &EventStamp) -> (&'a str, Value) {
    let message = |content: &[ContentBlock], source: Value| {
        json!({
            "id": stamp.message_id,
            "role": "user",
            "content": content.iter().map(write_block).collect::<Vec<_>>(),
            "source": source,
        })
    };
    match payload {
        Payload::TurnStart(turn) => ("turn/start", json!({"turn": turn})),
        Payload::TurnEnd(turn) => ("turn/end", json!({"turn": turn})),
        Payload::StepStart(at) => ("step/start", json!({"turn": at.turn, "step": at.step})),
        Payload::StepEnd(at) => ("step/end", json!({"turn": at.turn, "step": at.step})),
        Payload::RequestHeader(header) => {
            let config = json!({"provider": header.route.provider, "model": header.route.model});
            (
                "request/header",
                json!({"header": {"config": config}, "reason": "change"}),
            )
        }
        Payload::UserMessage(user) => {
            let source = match user.source.split_once(':') {
                Some(("plugin", plugin)) => json!({"kind": "plugin", "plugin": plugin}),
                _ => json!({"kind": user.source}),
            };
            let mut data = message(&user.content, source);
            if let (Some(id), Some(source)) = (&stamp.compaction_id, data["source"].as_object_mut())
            {
                source.insert("compactionId".into(), json!(id));
            }
            if user.pinned {
                data["pinned"] = json!(true);
            }
            ("user/message", data)
        }
        Payload::AssistantMessage(assistant) => {
            let message = json!({
                "id": stamp.message_id,
                "role": "assistant",
                "content": assistant.content.iter().map(write_block).collect::<Vec<_>>(),
            });
            let mut data = json!({"message": message});
            if let Some(usage) = &assistant.usage {
                data["usage"] = write_usage(usage);
            }
            ("assistant/message", data)
        }
        Payload::ToolResult(result) => {
            let source = json!({"kind": "tool", "callId": result.call_id});
            let content = [ContentBlock::ToolResult(result.clone())];
            ("tool/result", json!({"message": message(&content, source)}))
        }
        Payload::ContextMessage(content) => (
            "context/message",
            message(content, json!({"kind": "context"})),
        ),
        Payload::SteeringMessage(content) => (
            "steering/message",
            message(content, json!({"kind": "user"})),
        ),
        Payload::CompactStart(start) => ("compact/start", json!({"turn": start.turn})),
        Payload::CompactSummary(summary) => ("compact/summary", write_summary(summary)),
        Payload::CompactPrune(prune) => (
            "compact/prune",
            json!({
                "shadowedRange": write_range(prune.shadowed_range),
                "shadowedSeqs": [prune.shadowed_range.start],
                "shadowedTokenCount": prune.shadowed_token_count,
            }),
        ),
        Payload::CompactEnd(end) => {
            let mut data = json!({"turn": end.turn});
            if let Some(error) = &end.error {
                data["error"] = json!(error);
            }
            ("compact/end", data)
        }
        Payload::Reopened => ("session/end-seed", json!({})),
        Payload::Other(kind) => (kind, json!({})),
    }
}

fn write_summary(summary: &CompactSummary) -> Value {
    let mut data = json!({
        "summary": summary.summary.iter().map(write_block).collect::<Vec<_>>(),
        "shadowedRange": write_range(summary.shadowed_range),
        "shadowedSeqs": summary.shadowed_seqs,
        "shadowedTokenCount": summary.shadowed_token_count,
    });
    if let Some(route) = &summary.model {
        data["provider"] = json!(route.provider);
        data["model"] = json!(route.model);
    }
    if let Some(max) = summary.max_tokens {
        data["maxTokens"] = json!(max);
    }
    if let Some(usage) = &summary.usage {
        data["usage"] = write_usage(usage);
    }
    data
}

fn write_range(range: SurfaceRange) -> Value {
    json!({"start": range.start, "end": range.end})
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    })
}

fn write_block(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text}),
        ContentBlock::Reasoning(text) => json!({"type": "reasoning", "text": text}),
        ContentBlock::ToolCall(call) => json!({
            "type": "tool-call",
            "id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
        }),
        ContentBlock::ToolResult(result) => {
            let content = result.content.iter().map(|block| {
                write_block(&match block {
                    ResultBlock::Text(text) => ContentBlock::Text(text.clone()),
                    ResultBlock::Reasoning(text) => ContentBlock::Reasoning(text.clone()),
                    ResultBlock::Image(image) => ContentBlock::Image(image.clone()),
                    ResultBlock::Opaque(opaque) => ContentBlock::Opaque(opaque.clone()),
                })
            });
            json!({
                "type": "tool-result",
                "toolCallId": result.call_id,
                "content": content.collect::<Vec<_>>(),
                "isError": result.is_error,
            })
        }
        ContentBlock::Image(image) => json!({
            "type": "image",
            "attachment": {"mediaType": image.media_type, "bytes": image.byte_length},
        }),
        // What came as JSON goes as JSON; what does not parse is kept as its text.
        ContentBlock::Opaque(opaque) => serde_json::from_str(&opaque.json)
            .unwrap_or_else(|_| json!({"type": opaque.kind, "json": opaque.json})),
    }
}

#[cfg(test)]
mod tests {
    use harness_compact_engine::CHECKPOINT_SOURCE;

    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let stamp = EventStamp {
            time: 1,
            message_id: "m".into(),
            compaction_id: Some("c".into()),
            later_names: false,
        };
        let result = ToolResult {
            call_id: "c1".into(),
            is_error: true,
            content: vec![
                ResultBlock::Text("x".into()),
                ResultBlock::Opaque(Opaque {
                    kind: "z".into(),
                    json: r#"{"type":"z","n":1}"#.into(),
                }),
            ],
        };
        let range = SurfaceRange { start: 3, end: 1 };
        let payloads = [
            Payload::CompactStart(CompactStart { turn: None }),
            Payload::CompactEnd(CompactEnd {
                turn: Some(2),
                error: Some("e".into()),
            }),
            Payload::CompactSummary(CompactSummary {
                summary: vec![ContentBlock::Text("s".into())],
                shadowed_range: range,
                shadowed_seqs: vec![3, 1],
                shadowed_token_count: 9,
                model: Some(Route {
                    provider: "p".into(),
                    model: "m".into(),
                }),
                max_tokens: Some(5),
                usage: Some(Usage {
                    input_tokens: 1,
                    output_tokens: 2,
                    cache_read_tokens: 3,
                    cache_write_tokens: 4,
                }),
            }),
            Payload::ToolResult(result),
            Payload::UserMessage(UserMessage {
                content: vec![ContentBlock::Reasoning("r".into())],
                source: CHECKPOINT_SOURCE.into(),
                pinned: true,
            }),
            Payload::Reopened,
        ];
        for payload in payloads {
            let surface = match &payload {
                Payload::ToolResult(_) => Some(SurfaceOp::Append),
                Payload::UserMessage(_) => Some(SurfaceOp::Replace(range)),
                _ => None,
            };
            let draft = Draft {
                payload,
                surface,
                sources: vec![1, 2],
            };
            let line = write_event(7, &draft, &stamp);
            let Line::Events { first, count: 1 } = read_line(&line.to_string()).unwrap() else {
                panic!("one event");
            };
            assert_eq!(
                (first.payload, first.surface, first.sources),
                (draft.payload, draft.surface, draft.sources)
            );
        }
    }
}
