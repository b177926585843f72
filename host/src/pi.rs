//! Session files of the pi coding agent, read as logs.
//!
//! Every line becomes at least one event, in order, and keeps all that it held:
//! what has a place in the log is put there, the rest stays beside it.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Whether a file's first line opens a session of pi's.
pub(crate) fn is_session(first_line: &Value) -> bool {
    first_line["type"] == "session"
        && first_line["timestamp"].is_string()
        && first_line.get("seq").is_none()
}

/// Turn the lines of a session file into those of a log: a header, then events.
/// The error names the line, from 1, and what is wrong with it.
pub(crate) fn convert(lines: Vec<(usize, Value)>) -> Result<Vec<Value>, (usize, String)> {
    let path = current_path(&lines);
    let mut log = Log::default();
    for (index, (number, line)) in lines.into_iter().enumerate() {
        let on_path = path.as_ref().is_none_or(|path| path[index]);
        log.take(index, line, on_path)
            .map_err(|why| (number, why))?;
    }
    Ok(log.lines)
}

/// Later versions store a tree: entries with parents, of which the branch that
/// ends in the last one is the session. None for the earlier, linear form.
fn current_path(lines: &[(usize, Value)]) -> Option<Vec<bool>> {
    let mut wanted = lines
        .last()?
        .1
        .get("id")
        .filter(|_| lines.len() > 1)?
        .as_str()?
        .to_owned();
    lines.last()?.1.get("parentId")?;
    let mut on_path = vec![false; lines.len()];
    for (index, (_, line)) in lines.iter().enumerate().rev() {
        if index == 0 || line["id"] == *wanted {
            on_path[index] = true;
            wanted = line["parentId"].as_str().unwrap_or_default().to_owned();
        }
    }
    Some(on_path)
}

#[derive(Default)]
struct Log {
    lines: Vec<Value>,
    seq: u64,
    /// The surface: each node's seq and the index of the line that it came from.
    nodes: Vec<(u64, usize)>,
    /// Entry ids by line, for checkpoints that name what they keep by id.
    ids: Vec<Option<String>>,
    time: u64,
}

impl Log {
    fn take(&mut self, index: usize, line: Value, on_path: bool) -> Result<(), String> {
        let kind = line["type"].as_str().ok_or("`type` is missing")?.to_owned();
        self.ids.push(line["id"].as_str().map(str::to_owned));
        self.time = timestamp(&line).unwrap_or(self.time);
        match kind.as_str() {
            _ if !on_path => self.other(&format!("pi/off-branch/{kind}"), line),
            "session" => {
                self.lines.push(json!({
                    "type": "session",
                    "version": 0,
                    "id": line["id"].as_str().unwrap_or("pi"),
                    "createdAt": self.time,
                    "cwd": line["cwd"],
                }));
                match (line["provider"].as_str(), line["modelId"].as_str()) {
                    (Some(_), Some(_)) => self.header("initial", line),
                    _ => self.other("pi/session", line),
                }
            }
            "model_change" => self.header("change", line),
            "message" => self.message(index, line)?,
            "compaction" => self.compaction(index, line)?,
            "branch_summary" => {
                let summary = line["summary"].as_str().ok_or("`summary` is missing")?;
                let text = format!("Summary of a branch that was left: {summary}");
                self.user(
                    index,
                    json!([{"type": "text", "text": text}]),
                    "plugin",
                    line,
                );
            }
            "custom_message" => {
                let content = content_blocks(&line["content"])?;
                self.user(index, content, "plugin", line);
            }
            _ => self.other(&format!("pi/{kind}"), line),
        }
        Ok(())
    }

    fn message(&mut self, index: usize, mut line: Value) -> Result<(), String> {
        let message = line["message"]
            .as_object_mut()
            .ok_or("`message` is missing")?;
        let role = message
            .get("role")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        match role.as_str() {
            "user" => {
                let content = content_blocks(&message.remove("content").unwrap_or_default())?;
                self.user(index, content, "user", line);
            }
            "assistant" => {
                let content = content_blocks(&message.remove("content").unwrap_or_default())?;
                let usage = message.get("usage").map(usage);
                let source = json!({
                    "kind": "model",
                    "provider": message.get("provider"),
                    "model": message.get("model"),
                });
                let mut data = json!({
                    "message": {"id": self.id(), "role": "assistant", "content": content, "source": source},
                });
                // An answer that failed reports nothing.
                if let Some(usage) = usage.filter(|usage| usage["outputTokens"] != 0) {
                    data["usage"] = usage;
                }
                data["pi"] = line;
                self.node(index, "assistant/message", data);
            }
            "toolResult" => {
                let call = message.get("toolCallId").and_then(Value::as_str);
                let call = call.ok_or("`message.toolCallId` is missing")?.to_owned();
                let content = content_blocks(&message.remove("content").unwrap_or_default())?;
                let block = json!({
                    "type": "tool-result",
                    "toolCallId": call,
                    "content": content,
                    "isError": message.get("isError") == Some(&json!(true)),
                });
                let source = json!({"kind": "tool", "callId": call});
                let data = json!({
                    "message": {"id": self.id(), "role": "user", "content": [block], "source": source},
                    "pi": line,
                });
                self.node(index, "tool/result", data);
            }
            "bashExecution" => {
                let text = shell_run(message);
                self.user(
                    index,
                    json!([{"type": "text", "text": text}]),
                    "shell",
                    line,
                );
            }
            "custom" | "hookMessage" => {
                let content = content_blocks(&message.remove("content").unwrap_or_default())?;
                self.user(index, content, "plugin", line);
            }
            "" => return Err("`message.role` is missing".into()),
            _ => self.other(&format!("pi/message/{role}"), line),
        }
        Ok(())
    }

    /// A compaction that pi made: its summary stands for all before the first
    /// entry that it kept.
    fn compaction(&mut self, index: usize, line: Value) -> Result<(), String> {
        let summary = line["summary"]
            .as_str()
            .ok_or("`summary` is missing")?
            .to_owned();
        let first_kept = match (
            line["firstKeptEntryIndex"].as_u64(),
            line["firstKeptEntryId"].as_str(),
        ) {
            (Some(index), _) => index as usize,
            (None, Some(id)) => self
                .ids
                .iter()
                .position(|known| known.as_deref() == Some(id))
                .unwrap_or(index),
            (None, None) => {
                return Err("neither `firstKeptEntryIndex` nor `firstKeptEntryId`".into());
            }
        };
        let count = self
            .nodes
            .iter()
            .take_while(|(_, from)| *from < first_kept)
            .count();
        let shadowed: Vec<u64> = self.nodes.iter().take(count).map(|(seq, _)| *seq).collect();
        let text = |text: String| json!({"type": "text", "text": text});
        let content = json!([
            text("Earlier history, condensed:\n\n<compacted-summary>".into()),
            text(summary),
            text("</compacted-summary>".into()),
        ]);
        let source = json!({"kind": "plugin", "plugin": "compact"});
        let data = json!({"id": self.id(), "role": "user", "content": content, "source": source, "pi": line});
        let (Some(start), Some(end)) = (shadowed.first(), shadowed.last()) else {
            // Nothing before it: it can only follow what there is.
            self.node(index, "user/message", data);
            return Ok(());
        };
        let op = json!({"op": "replace", "start": start, "end": end});
        let seq = self.event("user/message", data, Some((op, shadowed.clone())));
        // It stands where what it replaced began.
        let from = self.nodes[0].1;
        self.nodes.splice(..count, [(seq, from)]);
        Ok(())
    }

    fn user(&mut self, index: usize, content: Value, kind: &str, line: Value) {
        let mut source = json!({"kind": kind});
        if kind == "plugin" {
            source["plugin"] = json!("pi");
        }
        let data = json!({"id": self.id(), "role": "user", "content": content, "source": source, "pi": line});
        self.node(index, "user/message", data);
    }

    fn header(&mut self, reason: &str, line: Value) {
        let config = json!({"provider": line["provider"], "model": line["modelId"]});
        let data = json!({"header": {"config": config}, "reason": reason, "pi": line});
        self.event("request/header", data, None);
    }

    fn other(&mut self, kind: &str, line: Value) {
        self.event(kind, json!({"pi": line}), None);
    }

    fn node(&mut self, index: usize, kind: &str, data: Value) {
        let seq = self.event(kind, data, Some((json!("append"), Vec::new())));
        self.nodes.push((seq, index));
    }

    fn event(&mut self, kind: &str, data: Value, surface: Option<(Value, Vec<u64>)>) -> u64 {
        let seq = self.seq;
        let mut line = json!({"type": kind, "seq": seq, "time": self.time, "data": data});
        if let Some((op, sources)) = surface {
            if !sources.is_empty() {
                line["sourceEventSeqs"] = json!(sources);
            }
            line["surfaceOp"] = op;
        }
        self.lines.push(line);
        self.seq += 1;
        seq
    }

    /// An id for the message of the next event: pi has none of its own there.
    fn id(&self) -> String {
        format!("pi-{}", self.seq)
    }
}

fn content_blocks(content: &Value) -> Result<Value, String> {
    match content {
        Value::String(text) => Ok(json!([{"type": "text", "text": text}])),
        Value::Array(blocks) => blocks.iter().map(block).collect(),
        _ => Err("`content` is neither a text nor a list of blocks".into()),
    }
}

/// A block of pi's as one of a log's. Fields that the log does not know stay.
fn block(block: &Value) -> Result<Value, String> {
    let mut fields = block
        .as_object()
        .cloned()
        .ok_or("a block is not an object")?;
    let missing = |field: &str| format!("a block has no `{field}`");
    match block["type"].as_str().ok_or_else(|| missing("type"))? {
        "text" if !block["text"].is_string() => return Err(missing("text")),
        "thinking" => {
            let text = fields
                .remove("thinking")
                .ok_or_else(|| missing("thinking"))?;
            fields.insert("type".into(), json!("reasoning"));
            fields.insert("text".into(), text);
        }
        "toolCall" => {
            if !(block["id"].is_string() && block["name"].is_string()) {
                return Err(missing("id"));
            }
            let arguments = fields.get("arguments").cloned().unwrap_or(json!({}));
            fields.insert("type".into(), json!("tool-call"));
            fields.insert("arguments".into(), json!(arguments.to_string()));
        }
        "image" => {
            let bytes = block["data"].as_str().map_or(0, |data| data.len() / 4 * 3);
            let attachment = json!({"mediaType": block["mimeType"], "bytes": bytes});
            fields.insert("attachment".into(), attachment);
        }
        _ => {}
    }
    Ok(Value::Object(fields))
}

/// A shell command that the user ran, as the agent was told of it.
fn shell_run(message: &Map<String, Value>) -> String {
    let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
    let flag = |key: &str| message.get(key) == Some(&json!(true));
    let mut told = format!("I ran `{}`", text("command"));
    match text("output") {
        "" => told.push_str(" (no output)"),
        output => told.push_str(&format!(":\n```\n{output}\n```")),
    }
    if flag("cancelled") {
        told.push_str("\nI cancelled it.");
    } else if let Some(code) = message
        .get("exitCode")
        .and_then(Value::as_i64)
        .filter(|code| *code != 0)
    {
        told.push_str(&format!("\nIt ended with code {code}."));
    }
    if flag("truncated") {
        told.push_str(&format!(
            "\nThe output was cut; all of it is in {}.",
            text("fullOutputPath")
        ));
    }
    told
}

fn usage(usage: &Value) -> Value {
    let tokens = |key: &str| usage[key].as_u64().unwrap_or(0);
    json!({
        "inputTokens": tokens("input"),
        "outputTokens": tokens("output"),
        "cacheReadTokens": tokens("cacheRead"),
        "cacheWriteTokens": tokens("cacheWrite"),
    })
}

fn timestamp(line: &Value) -> Option<u64> {
    let time = OffsetDateTime::parse(line["timestamp"].as_str()?, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}
