//! Events as JSON: the form of a session log file, one object a line.
//!
//! `{type, seq, time, data, sourceEventSeqs?, surfaceOp?}`, with messages and
//! blocks as deepseek-harness writes them. Compaction events are written
//! `compact/…` and read with that or the later name, `compaction/…`.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use crate::types::{
    AssistantMessage, CompactEnd, CompactPrune, CompactStart, CompactSummary, ContentBlock, Draft,
    Event, Image, Opaque, Payload, RequestHeader, ResultBlock, Route, Seq, Step, SurfaceOp,
    SurfaceRange, ToolCall, ToolResult, Usage, UserMessage,
};

/// What a line of a log file holds.
pub(crate) enum Line {
    /// The header, which is no event.
    Header {
        /// The session's id.
        id: Option<String>,
    },
    /// One event; or several of the same unimportant type, packed into one row.
    Events { first: Event, count: u32 },
}

/// Parse a line's JSON. A lone surrogate, which JavaScript writes where a text
/// was cut inside a character, is read as the replacement character: it has the
/// same length.
pub(crate) fn parse(line: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => serde_json::from_str(&mend_surrogates(text)).map_err(|_| error.to_string()),
    }
}

/// What a log line says. `line` is its JSON.
pub(crate) fn read_line(line: &Value) -> Result<Line, String> {
    let kind = string(line, "type")?;
    if kind == "session" && line.get("seq").is_none() {
        let id = line.get("id").and_then(Value::as_str).map(str::to_owned);
        return Ok(Line::Header { id });
    }
    if let Some(first) = line.get("seq0") {
        // Streamed deltas, packed: what they amounted to is in the message.
        let gaps = line["data"]["dt"].as_array();
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
    let first = read_event(line, kind)?;
    Ok(Line::Events { first, count: 1 })
}

/// Read one event from the JSON that a log file has of it:
/// `{type, seq, time, data, sourceEventSeqs?, surfaceOp?}`. The error says what is
/// wrong with it.
pub fn event_from_json(line: &Value) -> Result<Event, String> {
    read_event(line, string(line, "type")?)
}

fn read_event(line: &Value, kind: &str) -> Result<Event, String> {
    let seq_value = line.get("seq").ok_or("`seq` is missing")?;
    let seq_value = seq(seq_value).ok_or("`seq` is not a sequence number")?;
    let payload = read_payload(kind, line.get("data").unwrap_or(&Value::Null))?;
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

fn read_payload(kind: &str, data: &Value) -> Result<Payload, String> {
    let name = kind
        .strip_prefix("compaction/")
        .or(kind.strip_prefix("compact/"));
    Ok(match name {
        Some("start") => Payload::CompactStart(CompactStart {
            turn: turn_or_none(data)?,
        }),
        Some("summary") => Payload::CompactSummary(read_summary(data)?),
        Some("prune") => Payload::CompactPrune(CompactPrune {
            shadowed_range: read_range(data)?,
            shadowed_token_count: number(data, "shadowedTokenCount")?,
        }),
        Some("end") => Payload::CompactEnd(CompactEnd {
            turn: turn_or_none(data)?,
            error: data.get("error").and_then(Value::as_str).map(str::to_owned),
        }),
        _ => match kind {
            "turn/start" => Payload::TurnStart(number(data, "turn")?),
            "turn/end" => Payload::TurnEnd(number(data, "turn")?),
            "step/start" => Payload::StepStart(read_step(data)?),
            "step/end" => Payload::StepEnd(read_step(data)?),
            "request/header" => Payload::RequestHeader(read_header(data)?),
            "user/message" => Payload::UserMessage(UserMessage {
                content: read_content(data)?,
                source: read_source(data),
                pinned: data["pinned"] == true,
            }),
            "assistant/message" => {
                let message = data.get("message").ok_or("`data.message` is missing")?;
                Payload::AssistantMessage(AssistantMessage {
                    content: read_content(message)?,
                    usage: data.get("usage").and_then(read_usage),
                })
            }
            "tool/result" => {
                let message = data.get("message").ok_or("`data.message` is missing")?;
                match <[ContentBlock; 1]>::try_from(read_content(message)?) {
                    Ok([ContentBlock::ToolResult(result)]) => Payload::ToolResult(result),
                    _ => return Err("a tool/result holds exactly one tool-result block".into()),
                }
            }
            "context/message" => Payload::ContextMessage(read_content(data)?),
            "steering/message" => Payload::SteeringMessage(read_content(data)?),
            "session/end-seed" => Payload::Reopened,
            _ => Payload::Other(kind.into()),
        },
    })
}

fn read_step(data: &Value) -> Result<Step, String> {
    Ok(Step {
        turn: number(data, "turn")?,
        step: number(data, "step")?,
    })
}

fn read_header(data: &Value) -> Result<RequestHeader, String> {
    let header = data.get("header").ok_or("`data.header` is missing")?;
    let config = &header["config"];
    let name = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
    let mut hasher = DefaultHasher::new();
    js_json(header).hash(&mut hasher);
    Ok(RequestHeader {
        route: Route {
            provider: name("provider"),
            model: name("model"),
        },
        overhead_tokens: header_tokens(header),
        fingerprint: format!("{:016x}", hasher.finish()),
    })
}

/// The envelope's tokens at four code units a token, four for each part.
fn header_tokens(header: &Value) -> u32 {
    let part = |text: &str| (text.encode_utf16().count() as u32).div_ceil(4) + 4;
    let system = header["system"]
        .as_str()
        .filter(|system| !system.is_empty());
    let tools = header
        .get("tools")
        .filter(|tools| tools.as_array().is_some_and(|t| !t.is_empty()));
    system.map_or(0, part) + tools.map_or(0, |tools| part(&js_json(tools)))
}

fn read_summary(data: &Value) -> Result<CompactSummary, String> {
    let model = data.get("model").and_then(Value::as_str);
    Ok(CompactSummary {
        summary: blocks(data.get("summary").ok_or("`data.summary` is missing")?)?,
        shadowed_range: read_range(data)?,
        shadowed_seqs: read_seqs(&data["shadowedSeqs"]).ok_or("`data.shadowedSeqs` is missing")?,
        shadowed_token_count: number(data, "shadowedTokenCount")?,
        model: model.map(|model| Route {
            provider: data["provider"].as_str().unwrap_or_default().into(),
            model: model.into(),
        }),
        max_tokens: data.get("maxTokens").and_then(seq),
        usage: data.get("usage").and_then(read_usage),
    })
}

/// Who wrote a message: its source's kind, and the plugin's name where it is one.
fn read_source(message: &Value) -> String {
    let source = &message["source"];
    let kind = source["kind"].as_str().unwrap_or("user");
    match source["plugin"].as_str() {
        Some(plugin) if kind == "plugin" => format!("plugin:{plugin}"),
        _ => kind.into(),
    }
}

fn read_usage(usage: &Value) -> Option<Usage> {
    let tokens = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    let tokens = |key| u32::try_from(tokens(key)).unwrap_or(u32::MAX);
    usage.is_object().then(|| Usage {
        input_tokens: tokens("inputTokens"),
        output_tokens: tokens("outputTokens"),
        cache_read_tokens: tokens("cacheReadTokens"),
        cache_write_tokens: tokens("cacheWriteTokens"),
    })
}

fn read_content(message: &Value) -> Result<Vec<ContentBlock>, String> {
    match message.get("content") {
        Some(Value::String(text)) => Ok(vec![ContentBlock::Text(text.clone())]),
        Some(content) => blocks(content),
        None => Err("a message has no `content`".into()),
    }
}

fn blocks(content: &Value) -> Result<Vec<ContentBlock>, String> {
    let blocks = content
        .as_array()
        .ok_or("`content` is not a list of blocks")?;
    blocks.iter().map(read_block).collect()
}

fn read_block(block: &Value) -> Result<ContentBlock, String> {
    let kind = string(block, "type").map_err(|_| "a block has no `type`")?;
    Ok(match kind {
        "text" => ContentBlock::Text(string(block, "text")?.into()),
        "reasoning" => ContentBlock::Reasoning(string(block, "text")?.into()),
        "tool-call" => ContentBlock::ToolCall(ToolCall {
            call_id: string(block, "id")?.into(),
            name: string(block, "name")?.into(),
            arguments: string(block, "arguments")?.into(),
        }),
        "tool-result" => {
            let content = match block.get("content") {
                Some(Value::Array(blocks)) => blocks.iter().map(read_result_block).collect(),
                Some(Value::String(text)) => Ok(vec![ResultBlock::Text(text.clone())]),
                _ => Err("a tool-result block has no `content`".into()),
            };
            ContentBlock::ToolResult(ToolResult {
                call_id: string(block, "toolCallId")?.into(),
                is_error: block["isError"] == true,
                content: content?,
            })
        }
        "image" => {
            let attachment = &block["attachment"];
            ContentBlock::Image(Image {
                media_type: attachment["mediaType"].as_str().unwrap_or("image").into(),
                byte_length: attachment.get("bytes").and_then(seq).unwrap_or(0),
            })
        }
        _ => ContentBlock::Opaque(Opaque {
            kind: kind.into(),
            json: js_json(block),
        }),
    })
}

fn read_result_block(block: &Value) -> Result<ResultBlock, String> {
    Ok(match read_block(block)? {
        ContentBlock::Text(text) => ResultBlock::Text(text),
        ContentBlock::Reasoning(text) => ResultBlock::Reasoning(text),
        ContentBlock::Image(image) => ResultBlock::Image(image),
        // The contract's results hold nothing that holds blocks itself.
        _ => ResultBlock::Opaque(Opaque {
            kind: string(block, "type")?.into(),
            json: js_json(block),
        }),
    })
}

fn read_surface_op(op: &Value) -> Option<SurfaceOp> {
    if op == "append" {
        return Some(SurfaceOp::Append);
    }
    (op["op"] == "replace").then(|| {
        Some(SurfaceOp::Replace(SurfaceRange {
            start: seq(op.get("start")?)?,
            end: seq(op.get("end")?)?,
        }))
    })?
}

fn read_range(data: &Value) -> Result<SurfaceRange, String> {
    let range = &data["shadowedRange"];
    match (
        range.get("start").and_then(seq),
        range.get("end").and_then(seq),
    ) {
        (Some(start), Some(end)) => Ok(SurfaceRange { start, end }),
        _ => Err("`data.shadowedRange` is not a range of seqs".into()),
    }
}

fn read_seqs(seqs: &Value) -> Option<Vec<Seq>> {
    seqs.as_array()?.iter().map(seq).collect()
}

fn seq(value: &Value) -> Option<Seq> {
    value.as_u64().and_then(|seq| Seq::try_from(seq).ok())
}

fn turn_or_none(data: &Value) -> Result<Option<u32>, String> {
    match data.get("turn") {
        None | Some(Value::Null) => Ok(None),
        Some(_) => number(data, "turn").map(Some),
    }
}

fn number(data: &Value, key: &str) -> Result<u32, String> {
    let value = data.get(key).and_then(seq);
    value.ok_or_else(|| format!("`data.{key}` is not a number of that size"))
}

fn string<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    let text = value.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("`{key}` is not a text"))
}

/// What the store adds to an event: who and when.
pub(crate) struct Stamp {
    /// Milliseconds since 1970.
    pub time: u64,
    /// The id of a message that has none yet.
    pub message_id: String,
    /// The compaction that the event belongs to, if it is one of its events.
    pub compaction_id: Option<String>,
}

/// A new event as a line's JSON.
pub(crate) fn write_event(seq: Seq, draft: &Draft, stamp: &Stamp) -> Value {
    let (kind, mut data) = write_payload(&draft.payload, stamp);
    if let (Some(id), Some(data)) = (&stamp.compaction_id, data.as_object_mut()) {
        data.insert("compactionId".into(), json!(id));
    }
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
pub(crate) fn rewrite_result(original: &Value, result: &ToolResult) -> Option<Value> {
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

fn write_payload<'a>(payload: &'a Payload, stamp: &Stamp) -> (&'a str, Value) {
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

/// A value as JavaScript's `JSON.stringify` prints it, by which unknown blocks
/// and tool schemas are priced.
pub(crate) fn js_json(value: &Value) -> String {
    let mut out = String::new();
    write_js(&mut out, value);
    out
}

fn write_js(out: &mut String, value: &Value) {
    match value {
        Value::Number(number) => {
            let mut buffer = ryu_js::Buffer::new();
            out.push_str(buffer.format(number.as_f64().unwrap_or(f64::NAN)));
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_js(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (key, item)) in in_js_order(fields).into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_js(out, item);
            }
            out.push('}');
        }
        // Texts are escaped alike by both.
        other => out.push_str(&other.to_string()),
    }
}

/// JavaScript lists keys that look like array indices first, by number.
fn in_js_order(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let index = |key: &str| {
        let number: u32 = key.parse().ok().filter(|n| *n < u32::MAX)?;
        (number.to_string() == key).then_some(number)
    };
    let (mut indices, names): (Vec<_>, Vec<_>) =
        fields.iter().partition(|(key, _)| index(key).is_some());
    indices.sort_by_key(|(key, _)| index(key));
    indices.into_iter().chain(names).collect()
}

fn mend_surrogates(text: &str) -> String {
    let unit = |at: usize| -> Option<u16> {
        let escape = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let escape = at + found;
        out.push_str(&text[at..escape]);
        let (length, lone) = match unit(escape) {
            Some(0xD800..=0xDBFF) => match unit(escape + 6) {
                Some(0xDC00..=0xDFFF) => (12, false),
                _ => (6, true),
            },
            Some(0xDC00..=0xDFFF) => (6, true),
            Some(_) => (6, false),
            // An escape of another kind: the character after the backslash goes
            // with it.
            None => (
                1 + text[escape + 1..].chars().next().map_or(0, char::len_utf8),
                false,
            ),
        };
        at = escape + length;
        out.push_str(if lone { "\\ufffd" } else { &text[escape..at] });
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_json_as_javascript_does() {
        let text =
            r#"{"b":1.0,"10":1e3,"2":"\u00e9\u2028\u0001","a":[1.5e21,-0.0,true,null,0.000001]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let expected =
            "{\"2\":\"é\u{2028}\\u0001\",\"10\":1000,\"b\":1,\"a\":[1.5e+21,0,true,null,0.000001]}";
        assert_eq!(js_json(&value), expected);
    }

    #[test]
    fn reads_texts_that_javascript_cut_inside_a_character() {
        let line = br#"{"a":"\ud83d\ude00 \ud83d \ude00 \\ud83d \u00e9"}"#;
        let value = parse(line).unwrap();
        assert_eq!(value["a"], "😀 \u{fffd} \u{fffd} \\ud83d é");
        assert!(parse(b"{\"a\":\"\\ud83d\"").is_err());
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let stamp = Stamp {
            time: 1,
            message_id: "m".into(),
            compaction_id: Some("c".into()),
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
                source: "plugin:compact".into(),
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
            let Line::Events { first, count: 1 } = read_line(&line).unwrap() else {
                panic!("one event");
            };
            assert_eq!(
                (first.payload, first.surface, first.sources),
                (draft.payload, draft.surface, draft.sources)
            );
        }
    }
}
