//! Sessions of the pi coding agent: a tree of entries of which the branch that ends
//! in the last one is the session; in its first versions, lines without ids.

use std::collections::{HashMap, HashSet};

use harness_compact_engine::{ContentBlock, Usage};
use serde_json::json;

use super::{Form, Reader, append_lines, foreign, line};
use crate::content::{blocks, pi, text, tokens};
use crate::document::{Fault, Lines, Span};
use crate::json::{Fields, Json};
use crate::session::{Builder, Kind, Refusal, Rewritten, Write};
use crate::stamp::Stamp;

pub(crate) struct Pi;

/// An entry, as far as its place in the session needs it.
struct Entry {
    span: Span,
    kind: EntryKind,
    id: Option<String>,
    parent: Option<String>,
}

enum EntryKind {
    Node(Kind, Option<Usage>),
    /// The model that answers from here on.
    Model(String, String),
    Compaction {
        first_kept_id: Option<String>,
        first_kept_index: Option<usize>,
    },
    /// Other content for an earlier entry; none where it is taken out.
    Edit {
        target: String,
        removes: bool,
    },
    Other,
}

const TYPES: [&str; 12] = [
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "context_edit",
    "active_tools_change",
    "session",
];

impl Reader for Pi {
    fn recognises(&self, line: &Fields<'_>) -> bool {
        let kind = line.text("type").unwrap_or_default();
        if line.has("seq")
            || line.has("payload")
            || !line.get("timestamp").is_some_and(Json::is_text)
        {
            return false;
        }
        match &*kind {
            "session" => !line.has("createdAt"),
            "message" => line.get("message").is_some_and(Json::is_object),
            "compaction" => line.has("firstKeptEntryId") || line.has("firstKeptEntryIndex"),
            _ => false,
        }
    }

    fn read(&self, bytes: &[u8], skip_damaged: bool, into: &mut Builder) -> Result<(), Fault> {
        let mut lines = Lines::of(bytes, skip_damaged);
        let mut entries: Vec<Entry> = Vec::new();
        let read = lines.each(|record| {
            let kind = record.fields.text("type").unwrap_or_default();
            let is_own =
                TYPES.contains(&&*kind) && (kind != "session" || self.recognises(&record.fields));
            if !is_own {
                foreign(Form::Pi, &record.fields)?;
            }
            if kind.is_empty() {
                return Err("`type` is missing".into());
            }
            into.facts.last = Some(record.span);
            let entry = entry(&kind, record.span, &record.fields)?;
            if kind == "session" {
                into.facts.id = record.fields.text("id").map(|id| id.into_owned());
                into.facts.cwd = record.fields.text("cwd").map(|cwd| cwd.into_owned());
            }
            entries.push(entry);
            Ok(())
        });
        into.remarks = std::mem::take(&mut lines.remarks);
        read?;
        let path = path(&entries);
        into.facts.leaf = path.last().map(|at| entries[*at].span);
        build(&entries, &path, into);
        Ok(())
    }

    fn content(&self, _kind: Kind, records: &[Json<'_>]) -> Vec<ContentBlock> {
        let Some(entry) = records.last().and_then(|record| record.fields()) else {
            return Vec::new();
        };
        match &*entry.text("type").unwrap_or_default() {
            "compaction" => vec![text(entry.text("summary").unwrap_or_default())],
            "branch_summary" => {
                let summary = entry.text("summary").unwrap_or_default();
                vec![text(format!(
                    "Summary of a branch that was left: {summary}"
                ))]
            }
            "custom_message" => blocks(entry.get("content"), pi),
            "context_edit" => {
                let replacement = entry.get("replacement");
                let content = blocks(replacement.and_then(|with| with.get("content")), pi);
                // An edited result stays the answer to its call.
                let edited = records.first().and_then(|record| record.get("message"));
                let edited = edited.and_then(Json::fields);
                match edited.and_then(|message| message.text("toolCallId")) {
                    Some(id) => vec![crate::content::result(id, false, content)],
                    None => content,
                }
            }
            _ => message_content(entry.get("message")),
        }
    }

    fn record(&self, rewritten: &Rewritten<'_>, stamp: &mut Stamp) -> Result<Write, Refusal> {
        let session = rewritten.session;
        if !rewritten.head.is_empty() {
            return Err(session.refusal("what is replaced must begin with its first node"));
        }
        let leaf = session.facts().leaf.map(|leaf| session.json(leaf));
        let leaf_id = leaf.and_then(|leaf| leaf.get("id")?.text());
        let first = rewritten.tail.first().and_then(|seq| session.record(*seq));
        let mut entry = json!({"type": "compaction"});
        if let Some(parent) = leaf_id {
            entry["id"] = json!(format!("{:08x}", stamp.bits() as u32));
            entry["parentId"] = json!(parent);
        }
        entry["timestamp"] = json!(stamp.timestamp());
        entry["summary"] = json!(rewritten.checkpoint);
        let first_id = first.and_then(|first| session.json(first).get("id")?.text());
        match (first, first_id) {
            // Nothing is kept: the checkpoint itself is the first that is.
            (None, _) if entry.get("id").is_some() => {
                entry["firstKeptEntryId"] = entry["id"].clone()
            }
            (Some(_), Some(id)) => entry["firstKeptEntryId"] = json!(id),
            (first, None) => {
                // Entries are counted as the program counts them: from the header on.
                let mut index = 0;
                let at = first.map_or(session.bytes().len(), |first| first.start);
                let _ = Lines::of(&session.bytes()[..at], true).each(|_| {
                    index += 1;
                    Ok(())
                });
                entry["firstKeptEntryIndex"] = json!(index);
            }
            (None, Some(_)) => {}
        }
        entry["tokensBefore"] = json!(rewritten.figures.before);
        Ok(append_lines(session, &[line(&entry)]))
    }
}

fn entry(kind: &str, span: Span, fields: &Fields<'_>) -> Result<Entry, String> {
    let own = |key: &str| fields.text(key).map(|text| text.into_owned());
    let kind = match kind {
        "message" => message(fields.get("message"))?,
        "model_change" => EntryKind::Model(
            own("provider").unwrap_or_default(),
            own("modelId").unwrap_or_default(),
        ),
        "session" if fields.has("modelId") => EntryKind::Model(
            own("provider").unwrap_or_default(),
            own("modelId").unwrap_or_default(),
        ),
        "compaction" => {
            if !fields.get("summary").is_some_and(Json::is_text) {
                return Err("`summary` is missing".into());
            }
            EntryKind::Compaction {
                first_kept_id: own("firstKeptEntryId"),
                first_kept_index: fields.number("firstKeptEntryIndex").map(|at| at as usize),
            }
        }
        "branch_summary" if fields.has("summary") => EntryKind::Node(Kind::Context, None),
        "custom_message" => EntryKind::Node(Kind::Context, None),
        "context_edit" => EntryKind::Edit {
            target: own("targetId").unwrap_or_default(),
            removes: !fields.has("replacement"),
        },
        _ => EntryKind::Other,
    };
    Ok(Entry {
        span,
        kind,
        id: own("id"),
        parent: own("parentId"),
    })
}

fn message(message: Option<Json<'_>>) -> Result<EntryKind, String> {
    let message = message
        .and_then(Json::fields)
        .ok_or("`message` is missing")?;
    let role = message.text("role").ok_or("`message.role` is missing")?;
    Ok(match &*role {
        "user" => EntryKind::Node(Kind::User, None),
        "toolResult" => EntryKind::Node(Kind::Result, None),
        "bashExecution" if !message.is_true("excludeFromContext") => {
            EntryKind::Node(Kind::Shell, None)
        }
        "custom" | "hookMessage" => EntryKind::Node(Kind::Context, None),
        "assistant" => {
            let stop = message.text("stopReason");
            // What failed was not counted to its end.
            let failed = matches!(stop.as_deref(), Some("error" | "aborted"));
            let usage = message
                .get("usage")
                .and_then(Json::fields)
                .filter(|_| !failed);
            let usage = usage.map(|usage| Usage {
                input_tokens: tokens(usage.number("input")),
                output_tokens: tokens(usage.number("output")),
                cache_read_tokens: tokens(usage.number("cacheRead")),
                cache_write_tokens: tokens(usage.number("cacheWrite")),
            });
            EntryKind::Node(
                Kind::Assistant,
                usage.filter(|usage| usage.output_tokens > 0),
            )
        }
        // Its system prompt, and what is for the screen.
        _ => EntryKind::Other,
    })
}

fn message_content(message: Option<Json<'_>>) -> Vec<ContentBlock> {
    let Some(message) = message.and_then(Json::fields) else {
        return Vec::new();
    };
    let content = blocks(message.get("content"), pi);
    match &*message.text("role").unwrap_or_default() {
        "toolResult" => vec![crate::content::result(
            message.text("toolCallId").unwrap_or_default(),
            message.is_true("isError"),
            content,
        )],
        "bashExecution" => vec![text(shell_run(&message))],
        _ => content,
    }
}

/// The entries that make up the session, in order. In a file without ids all do.
fn path(entries: &[Entry]) -> Vec<usize> {
    if entries.iter().skip(1).all(|entry| entry.id.is_none()) {
        return (0..entries.len()).collect();
    }
    // Of several of one id the program takes the last.
    let by_id: HashMap<&str, usize> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| Some((entry.id.as_deref()?, at)))
        .collect();
    let mut path = Vec::new();
    let mut seen = HashSet::new();
    let mut at = entries.len().checked_sub(1);
    while let Some(here) = at.filter(|here| seen.insert(*here)) {
        path.push(here);
        let parent = entries[here].parent.as_deref();
        at = parent.and_then(|parent| by_id.get(parent).copied());
    }
    // The header names the first model, and is nobody's parent.
    if seen.insert(0) {
        path.push(0);
    }
    path.reverse();
    path
}

/// The newest edit of each entry that has one, by the entry's id; none where it is
/// taken out.
type Edits<'a> = HashMap<&'a str, Option<Span>>;

fn build(entries: &[Entry], path: &[usize], into: &mut Builder) {
    let edits: Edits<'_> = path
        .iter()
        .filter_map(|at| match &entries[*at].kind {
            EntryKind::Edit { target, removes } => {
                let span = entries[*at].span;
                Some((target.as_str(), (!removes).then_some(span)))
            }
            _ => None,
        })
        .collect();
    for (position, at) in path.iter().enumerate() {
        let entry = &entries[*at];
        match &entry.kind {
            EntryKind::Model(provider, model) => into.header(provider, model),
            EntryKind::Node(kind, usage) => node(entry, *kind, *usage, &edits, into),
            EntryKind::Compaction {
                first_kept_id,
                first_kept_index,
            } => {
                into.facts.compaction = vec![entry.span];
                into.rewrite();
                into.node(Kind::Checkpoint, &[entry.span], None);
                // What it keeps of what came before: from an entry of the path on.
                let kept = path[..position].iter().position(|at| {
                    let kept = &entries[*at];
                    match (first_kept_id, first_kept_index) {
                        (Some(id), _) => kept.id.as_ref() == Some(id),
                        (None, Some(index)) => at >= index,
                        (None, None) => false,
                    }
                });
                for at in path
                    .get(kept.unwrap_or(position)..position)
                    .unwrap_or_default()
                {
                    if let EntryKind::Node(kind, _) = &entries[*at].kind {
                        node(&entries[*at], *kind, None, &edits, into);
                    }
                }
            }
            EntryKind::Edit { .. } | EntryKind::Other => {}
        }
    }
}

fn node(entry: &Entry, kind: Kind, usage: Option<Usage>, edits: &Edits<'_>, into: &mut Builder) {
    let edit = entry.id.as_deref().and_then(|id| edits.get(id));
    let mut parts = vec![entry.span];
    match edit {
        Some(None) => return,
        Some(Some(edit)) => parts.push(*edit),
        None => {}
    }
    match kind {
        Kind::User => {
            into.user(kind, &parts);
        }
        _ => {
            into.node(kind, &parts, usage);
        }
    }
}

/// A shell command that the user ran, as the agent was told of it.
fn shell_run(message: &Fields<'_>) -> String {
    let text = |key: &str| message.text(key).unwrap_or_default();
    let mut told = format!("I ran `{}`", text("command"));
    match &*text("output") {
        "" => told.push_str(" (no output)"),
        output => told.push_str(&format!(":\n```\n{output}\n```")),
    }
    if message.is_true("cancelled") {
        told.push_str("\nI cancelled it.");
    } else if let Some(code) = message
        .get("exitCode")
        .filter(|code| !matches!(code.raw(), "0" | "null"))
    {
        told.push_str(&format!("\nIt ended with code {}.", code.raw()));
    }
    if message.is_true("truncated") {
        told.push_str(&format!(
            "\nThe output was cut; all of it is in {}.",
            text("fullOutputPath")
        ));
    }
    told
}
