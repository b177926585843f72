//! Reference vectors: a scenario a line, with what the reference implementation
//! did, to be compared with what a build does.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use harness_compact_host::types::*;
use harness_compact_host::{MemoryLog, SessionLog, event_from_json};
use serde_json::{Value, json};

use crate::builds::{Build, Kind, create};
use crate::script::{Reply, ScriptedModel};
use crate::session::surface_seqs;

/// The vectors of a file, one JSON object a line; gzipped where its name ends in `.gz`.
pub fn read_vectors(path: &Path) -> io::Result<Vec<Value>> {
    let file = File::open(path)?;
    let text: Box<dyn Read> = match path.extension() {
        Some(extension) if extension == "gz" => Box::new(GzDecoder::new(file)),
        _ => Box::new(file),
    };
    let lines = BufReader::new(text).lines();
    let parse = |line: io::Result<String>| Ok(serde_json::from_str(&line?)?);
    let blank = |line: &io::Result<String>| matches!(line, Ok(line) if line.trim().is_empty());
    lines.filter(|line| !blank(line)).map(parse).collect()
}

/// What a build made of a vector.
#[derive(Debug)]
pub struct VectorRun {
    /// Every difference from what is expected, a line each.
    pub differences: Vec<String>,
    /// The events that it appended.
    pub appended: Vec<Event>,
}

/// Run one vector through a build. The error is why it cannot be run.
pub async fn run_vector(kind: Kind, vector: &Value) -> Result<VectorRun, String> {
    let log = Arc::new(MemoryLog::new("vector"));
    for (seq, event) in list(&vector["log"]).iter().enumerate() {
        let mut event = priced_by_json(event);
        event["seq"] = json!(seq);
        let event =
            event_from_json(&event.to_string()).map_err(|why| format!("event {seq}: {why}"))?;
        log.push(Draft {
            payload: event.payload,
            surface: event.surface,
            sources: event.sources,
        });
    }
    if vector["reopened"] == true {
        log.push(Draft::log_only(Payload::Reopened));
    }
    let written = log.events().len();
    let header = log
        .events()
        .into_iter()
        .rev()
        .find_map(|event| match event.payload {
            Payload::RequestHeader(header) => Some(header.route),
            _ => None,
        });

    let replies = list(&vector["replies"]).iter().map(read_reply);
    let model = ScriptedModel::new(replies.collect::<Vec<_>>());
    let window = number(&vector["contextWindow"]);
    let model = Arc::new(window.into_iter().fold(model, ScriptedModel::with_window));
    let config = read_config(vector);
    let session: Arc<dyn SessionLog> = log.clone();
    let agent = AgentContext {
        // The log's own route goes first.
        route: header
            .is_none()
            .then(|| read_route(&vector["agent"]))
            .flatten(),
        can_replay: true,
        ..AgentContext::default()
    };

    let mut compactor = match create(kind, config, model.clone(), None).await {
        Ok(compactor) => compactor,
        Err(error) => {
            return Ok(VectorRun {
                differences: compare("error", &vector["expect"]["error"], &class(&error)),
                appended: Vec::new(),
            });
        }
    };
    let before = state(&mut *compactor, &session, &agent).await;
    let outcome = operate(&mut *compactor, &session, &agent, &vector["operation"]).await;
    let after = state(&mut *compactor, &session, &agent).await;

    let expect = &vector["expect"];
    let mut differences = Vec::new();
    for key in ["result", "nothing", "error", "pruned"] {
        // What an operation that changes nothing answers is compared as its state.
        if expect.get(key).is_some() || outcome.get(key).is_some() {
            differences.extend(compare(key, &expect[key], &outcome[key]));
        }
    }
    differences.extend(compare("before", &expect["before"], &before));
    differences.extend(compare("after", &expect["after"], &after));
    let events = log.events();
    let surface = json!(surface_seqs(&events));
    differences.extend(compare("surface", &expect["surface"], &surface));
    let appended: Vec<&str> = events[written..].iter().map(type_name).collect();
    differences.extend(compare("appended", &expect["appended"], &json!(appended)));
    let requests = requests(&model, &events, vector);
    differences.extend(compare("requests", &expect["requests"], &requests));
    Ok(VectorRun {
        differences,
        appended: events[written..].to_vec(),
    })
}

fn compare(what: &str, expected: &Value, found: &Value) -> Vec<String> {
    match expected == found {
        true => Vec::new(),
        false => vec![format!("{what}: expected {expected}, found {found}")],
    }
}

async fn state(
    compactor: &mut dyn Build,
    session: &Arc<dyn SessionLog>,
    agent: &AgentContext,
) -> Value {
    let measured = compactor.measure(session, agent, "", &[]).await;
    let surface = compactor.surface(session).await;
    match (measured, surface) {
        (Ok(measured), Ok(surface)) => json!({
            "totalTokens": measured.total_tokens,
            "surfaceTokens": measured.surface_tokens,
            "nodes": surface.iter().map(|node| json!([node.seq, node.tokens])).collect::<Vec<_>>(),
        }),
        (Err(error), _) | (_, Err(error)) => json!(format!("{error:?}")),
    }
}

async fn operate(
    compactor: &mut dyn Build,
    session: &Arc<dyn SessionLog>,
    agent: &AgentContext,
    operation: &Value,
) -> Value {
    let outcome = match operation["kind"].as_str().unwrap_or_default() {
        "pressure" => {
            let trigger = Trigger::Pressure;
            compactor
                .compact_if_needed(session, agent, "", &[], trigger, None)
                .await
        }
        "context-overflow" => {
            let trigger = Trigger::ContextOverflow;
            compactor
                .compact_if_needed(session, agent, "", &[], trigger, None)
                .await
        }
        "now" => {
            compactor
                .compact_now(session, agent, &NowOptions::default(), None)
                .await
        }
        "region" => {
            let range = SurfaceRange {
                start: number(&operation["start"]).unwrap_or(u32::MAX),
                end: number(&operation["end"]).unwrap_or(u32::MAX),
            };
            compactor
                .compact_region(session, range, agent, None)
                .await
                .map(Some)
        }
        "prune" => {
            return match compactor.prune(session).await {
                Ok(pruned) => json!({"pruned": pruned.iter().map(pruned_json).collect::<Vec<_>>()}),
                Err(error) => json!({"error": class(&error)}),
            };
        }
        "measure" => return json!({}),
        other => return json!({"error": format!("no operation {other}")}),
    };
    match outcome {
        Ok(Some(result)) => json!({"result": result_json(&result)}),
        Ok(None) => json!({"nothing": true}),
        Err(error) => json!({"error": class(&error)}),
    }
}

fn result_json(result: &CompactionResult) -> Value {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text}),
        other => json!(format!("{other:?}")),
    };
    json!({
        "startSeq": result.start_seq,
        "summarySeq": result.summary_seq,
        "endSeq": result.end_seq,
        "summary": result.summary.iter().map(text).collect::<Vec<_>>(),
        "shadowedRange": {
            "start": result.shadowed_range.start,
            "end": result.shadowed_range.end,
        },
        "shadowedSeqs": result.shadowed_seqs,
        "shadowedTokenCount": result.shadowed_token_count,
    })
}

fn pruned_json(pruned: &Pruned) -> Value {
    json!({
        "originalSeq": pruned.original_seq,
        "replacementSeq": pruned.replacement_seq,
        "charsBefore": pruned.chars_before,
        "charsAfter": pruned.chars_after,
    })
}

/// An error's class: the case of `compact-error`, and of `rejection` after a slash.
fn class(error: &CompactError) -> Value {
    json!(match error {
        CompactError::Busy(_) => "busy",
        CompactError::NotOnSurface(_) => "not-on-surface",
        CompactError::InvertedRange(_) => "inverted-range",
        CompactError::Unbalanced(_) => "unbalanced",
        CompactError::Changed => "changed",
        CompactError::Aborted => "aborted",
        CompactError::SummaryRejected(Rejection::Empty) => "summary-rejected/empty",
        CompactError::SummaryRejected(Rejection::Truncated) => "summary-rejected/truncated",
        CompactError::SummaryRejected(Rejection::NotSmaller(_)) => "summary-rejected/not-smaller",
        CompactError::SummaryRejected(Rejection::Unsupported(_)) => "summary-rejected/unsupported",
        CompactError::Model(_) => "model",
        CompactError::Session(_) => "session",
        CompactError::NotConverged(_) => "not-converged",
        CompactError::Irreducible(_) => "irreducible",
        CompactError::Config(_) => "config",
        CompactError::Hook(_) => "hook",
        CompactError::Other(_) => "other",
    })
}

fn type_name(event: &Event) -> &'static str {
    match event.payload {
        Payload::CompactStart(_) => "compaction/start",
        Payload::CompactSummary(_) => "compaction/summary",
        Payload::CompactPrune(_) => "compaction/prune",
        Payload::CompactEnd(_) => "compaction/end",
        Payload::UserMessage(_) => "user/message",
        Payload::ToolResult(_) => "tool/result",
        _ => "another",
    }
}

/// What the model was asked, as a host that replays would send it: the messages of
/// the nodes and the instruction, under the newest header.
fn requests(model: &ScriptedModel, events: &[Event], vector: &Value) -> Value {
    let headers = list(&vector["log"]).iter().rev();
    let header = headers
        .map(|event| &event["data"]["header"])
        .find(|header| header.is_object());
    let header = header.unwrap_or(&Value::Null);
    let is_message = |seq: &&Seq| {
        let payload = &events[**seq as usize].payload;
        !matches!(payload, Payload::AssistantMessage(message) if message.content.is_empty())
    };
    let requests = model.requests().into_iter().map(|request| {
        let messages = match &request.prompt {
            Prompt::Replay(replay) => replay.nodes.iter().filter(is_message).count() + 1,
            Prompt::Standalone(_) => 1,
        };
        json!({
            "provider": request.route.provider,
            "model": request.route.model,
            "maxTokens": request.max_tokens,
            "messages": messages,
            "system": header["system"].as_str().is_some_and(|system| !system.is_empty()),
            "tools": list(&header["tools"]).len(),
        })
    });
    requests.collect()
}

/// An event whose images are priced by their JSON, as the reference prices them:
/// under a type name that is not known but as long.
fn priced_by_json(event: &Value) -> Value {
    let mut event = event.clone();
    fn visit(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if fields.get("type") == Some(&json!("image")) {
                    fields.insert("type".into(), json!("imago"));
                }
                fields.values_mut().for_each(visit);
            }
            Value::Array(items) => items.iter_mut().for_each(visit),
            _ => {}
        }
    }
    visit(&mut event["data"]);
    event
}

/// A scripted answer, put together from its stream as the reference does it.
fn read_reply(reply: &Value) -> Reply {
    /// A block, by the index that its pieces name.
    struct Block {
        index: Value,
        kind: String,
        text: String,
        closed: Option<Value>,
    }
    let chunks = list(reply);
    let mut blocks: Vec<Block> = Vec::new();
    let (mut reason, mut usage) = (FinishReason::Stop, None);
    for chunk in chunks {
        if chunk.get("throw").is_some() {
            return Reply::Fails(LlmError::Unavailable("thrown".into()));
        }
        let kind = chunk["type"].as_str().unwrap_or_default();
        let opened = match kind {
            "block-start" => chunk["blockType"].as_str(),
            "text-delta" => Some("text"),
            "reasoning-delta" => Some("reasoning"),
            "tool-call-delta" => Some("tool-call"),
            "block-end" => chunk["block"]["type"].as_str(),
            _ => None,
        };
        if let Some(opened) = opened {
            let at = blocks
                .iter()
                .position(|block| block.index == chunk["index"]);
            let at = at.unwrap_or_else(|| {
                blocks.push(Block {
                    index: chunk["index"].clone(),
                    kind: opened.into(),
                    text: String::new(),
                    closed: None,
                });
                blocks.len() - 1
            });
            let block = &mut blocks[at];
            match kind {
                "block-end" if block.closed.is_none() => {
                    block.closed = Some(chunk["block"].clone())
                }
                _ if block.closed.is_some() => {}
                _ => block
                    .text
                    .push_str(chunk["text"].as_str().unwrap_or_default()),
            }
        }
        match kind {
            "usage" => usage = Some(read_usage(&chunk["usage"])),
            "finish" => match chunk["reason"]["kind"].as_str() {
                Some("error" | "aborted") => {
                    return Reply::Fails(LlmError::Unavailable("a failed answer".into()));
                }
                Some("max-tokens") => reason = FinishReason::MaxTokens,
                Some("tool-calls") => reason = FinishReason::ToolCalls,
                _ => {}
            },
            _ => {}
        }
    }
    let mut answer = Vec::new();
    for block in blocks {
        let (kind, text) = match &block.closed {
            Some(closed) => (
                closed["type"].as_str().unwrap_or_default().to_owned(),
                closed["text"].as_str().unwrap_or_default().to_owned(),
            ),
            None => (block.kind, block.text),
        };
        // Something between two texts, so that they stay two.
        answer.push(Chunk::Reasoning(String::new()));
        answer.push(match kind.as_str() {
            "text" => Chunk::Text(text),
            "reasoning" => Chunk::Reasoning(text),
            "tool-call" => Chunk::ToolCall(ToolCall {
                call_id: "x".into(),
                name: "n".into(),
                arguments: "{}".into(),
            }),
            other => Chunk::Other(other.into()),
        });
    }
    answer.push(Chunk::Finish(Finish { reason, usage }));
    Reply::Chunks(answer)
}

fn read_usage(usage: &Value) -> Usage {
    let tokens = |key: &str| number(&usage[key]).unwrap_or(0);
    Usage {
        input_tokens: tokens("inputTokens"),
        output_tokens: tokens("outputTokens"),
        cache_read_tokens: tokens("cacheReadTokens"),
        cache_write_tokens: tokens("cacheWriteTokens"),
    }
}

/// The reference's configuration, under the profile in which it can be compared.
fn read_config(vector: &Value) -> Config {
    let config = &vector["config"];
    let mut policy = read_policy(config);
    if policy.retain_tokens.is_none() && policy.retain_ratio.is_none() {
        policy.retain_ratio = Some(0.16);
    }
    policy.summarization_max_tokens.get_or_insert(8192);
    policy.summary_retries = Some(0);
    let model_policies = list(&config["modelPolicies"])
        .iter()
        .map(|entry| ModelPolicy {
            route: read_route(entry).unwrap_or(Route {
                provider: String::new(),
                model: String::new(),
            }),
            policy: read_policy(entry),
        });
    let prune = &vector["prune"];
    Config {
        policy,
        model_policies: model_policies.collect(),
        script_aware: Some(false),
        usage_anchor: Some(UsageAnchor::Delta),
        summarization_input: Some(SummarizationInput::Replay),
        prune: prune.is_object().then(|| PruneConfig {
            threshold_chars: number(&prune["thresholdChars"]),
            head_chars: number(&prune["headChars"]),
            tail_chars: number(&prune["tailChars"]),
        }),
        ..Config::default()
    }
}

fn read_policy(config: &Value) -> Policy {
    let text = |key: &str| config[key].as_str().map(str::to_owned);
    let route = text("summarizationModel").map(|model| Route {
        provider: text("summarizationProvider").unwrap_or_default(),
        model,
    });
    Policy {
        threshold_ratio: config["thresholdRatio"].as_f64(),
        retain_tokens: number(&config["retainTokens"]),
        retain_ratio: config["retainRatio"].as_f64(),
        summarization_route: route,
        summarization_max_tokens: number(&config["maxTokens"]),
        compaction_retries: number(&config["compactionRetries"]),
        ..Policy::default()
    }
}

fn read_route(value: &Value) -> Option<Route> {
    Some(Route {
        provider: value["provider"].as_str()?.into(),
        model: value["model"].as_str()?.into(),
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}
