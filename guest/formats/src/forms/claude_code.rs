//! Sessions of Claude Code: lines that form a tree by `uuid` and `parentUuid`, of
//! which the branch that ends in the newest one is the session.

use std::collections::{HashMap, HashSet};

use harness_compact_engine::{ContentBlock, Usage};
use serde_json::{Map, Value, json};

use super::{Form, Reader, append_lines, foreign, line};
use crate::content::{anthropic, blocks, tokens};
use crate::document::{Fault, Lines, Span};
use crate::json::{Fields, Json};
use crate::session::{Builder, Kind, Refusal, Rewritten, Write};
use crate::stamp::Stamp;

pub(crate) struct ClaudeCode;

/// A line of the tree.
struct Node {
    span: Span,
    uuid: String,
    parent: Option<String>,
    kind: NodeKind,
    /// The API's id of the answer that an assistant's line is a part of.
    message: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    /// The call ids that a line of the user's answers.
    answers: Vec<String>,
}

enum NodeKind {
    User,
    Summary,
    Assistant,
    Attachment,
    Boundary {
        /// The line that it stands after.
        after: Option<String>,
        /// First and last line of what is kept before it, and the line that this
        /// stands behind.
        kept: Option<[String; 3]>,
    },
    /// In the tree, but not in what is sent.
    Hidden,
}

/// Types of lines outside the tree.
const BESIDE: [&str; 14] = [
    "queue-operation",
    "last-prompt",
    "mode",
    "summary",
    "file-history-snapshot",
    "custom-title",
    "ai-title",
    "tag",
    "agent-name",
    "agent-color",
    "agent-setting",
    "pr-link",
    "permission-mode",
    "progress",
];

/// What each new line repeats of the last.
const REPEATED: [&str; 6] = [
    "userType",
    "entrypoint",
    "cwd",
    "sessionId",
    "version",
    "gitBranch",
];

impl Reader for ClaudeCode {
    fn recognises(&self, line: &Fields<'_>) -> bool {
        let kind = line.text("type").unwrap_or_default();
        match &*kind {
            "user" | "assistant" | "system" | "attachment" => {
                line.has("uuid") && line.get("parentUuid").is_some()
            }
            "summary" => line.has("leafUuid"),
            "file-history-snapshot" => line.has("snapshot") || line.has("messageId"),
            kind => BESIDE.contains(&kind) && line.has("sessionId"),
        }
    }

    fn read(&self, bytes: &[u8], skip_damaged: bool, into: &mut Builder) -> Result<(), Fault> {
        let mut lines = Lines::of(bytes, skip_damaged);
        let mut nodes: Vec<Node> = Vec::new();
        let read = lines.each(|record| {
            let kind = record.fields.text("type").unwrap_or_default();
            let in_tree = record.fields.has("uuid")
                && matches!(
                    &*kind,
                    "user" | "assistant" | "system" | "attachment" | "progress"
                );
            if !in_tree && !BESIDE.contains(&&*kind) {
                foreign(Form::ClaudeCode, &record.fields)?;
            }
            into.facts.last = Some(record.span);
            // Sub-agents' conversations are their own.
            if in_tree && !record.fields.is_true("isSidechain") {
                nodes.push(node(&kind, record.span, &record.fields));
                let own = |key: &str| record.fields.text(key).map(|text| text.into_owned());
                into.facts.id = own("sessionId").or(into.facts.id.take());
                into.facts.cwd = own("cwd").or(into.facts.cwd.take());
            }
            Ok(())
        });
        into.remarks = std::mem::take(&mut lines.remarks);
        read?;
        build(&nodes, into);
        Ok(())
    }

    fn content(&self, kind: Kind, records: &[Json<'_>]) -> Vec<ContentBlock> {
        let mut content = Vec::new();
        for record in records.iter().filter_map(|record| record.fields()) {
            if kind == Kind::Context && record.has("attachment") {
                let attachment = record.get("attachment").unwrap_or(Json::of("null"));
                let named = attachment.get("type").and_then(Json::text);
                let named = named.unwrap_or("attachment".into());
                content.push(crate::content::opaque(attachment, &named));
                continue;
            }
            let message = record.get("message");
            content.extend(blocks(
                message.and_then(|message| message.get("content")),
                anthropic,
            ));
        }
        content
    }

    fn record(&self, rewritten: &Rewritten<'_>, stamp: &mut Stamp) -> Result<Write, Refusal> {
        let session = rewritten.session;
        if !rewritten.head.is_empty() {
            return Err(session.refusal("what is replaced must begin with its first node"));
        }
        let Some(leaf) = session
            .facts()
            .leaf
            .and_then(|leaf| session.json(leaf).fields())
        else {
            return Err(session.refusal("it has no line to go on from"));
        };
        let leaf_uuid = leaf.text("uuid").unwrap_or_default();
        let (boundary, summary) = (stamp.uuid(), stamp.uuid());
        let mut metadata = json!({
            "trigger": "manual",
            "preTokens": rewritten.figures.before,
            "postTokens": rewritten.figures.after,
        });
        let first = rewritten.tail.first().and_then(|seq| session.record(*seq));
        if let Some(first) = first.and_then(|first| session.json(first).get("uuid")?.text()) {
            metadata["preservedSegment"] = json!({
                "headUuid": first,
                "anchorUuid": summary,
                "tailUuid": leaf_uuid,
            });
        }
        let repeated: Map<String, Value> = REPEATED
            .iter()
            .filter_map(|key| {
                let value = serde_json::from_str(leaf.get(key)?.raw()).ok()?;
                Some(((*key).to_owned(), value))
            })
            .collect();
        let with = |mut value: Value| {
            if let Some(fields) = value.as_object_mut() {
                fields.extend(repeated.clone());
            }
            line(&value)
        };
        let timestamp = stamp.timestamp();
        let lines = [
            with(json!({
                "parentUuid": null,
                "logicalParentUuid": leaf_uuid,
                "isSidechain": false,
                "type": "system",
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "isMeta": false,
                "timestamp": timestamp,
                "uuid": boundary,
                "level": "info",
                "compactMetadata": metadata,
            })),
            with(json!({
                "parentUuid": boundary,
                "isSidechain": false,
                "type": "user",
                "message": {"role": "user", "content": rewritten.checkpoint},
                "isVisibleInTranscriptOnly": true,
                "isCompactSummary": true,
                "uuid": summary,
                "timestamp": timestamp,
            })),
        ];
        Ok(append_lines(session, &lines))
    }
}

fn node(kind: &str, span: Span, fields: &Fields<'_>) -> Node {
    let own = |key: &str| fields.text(key).map(|text| text.into_owned());
    let mut node = Node {
        span,
        uuid: own("uuid").unwrap_or_default(),
        parent: own("parentUuid"),
        kind: NodeKind::Hidden,
        message: None,
        usage: None,
        model: None,
        answers: Vec::new(),
    };
    let message = fields.get("message").and_then(Json::fields);
    match (kind, message) {
        ("user", Some(_)) if fields.is_true("isCompactSummary") => node.kind = NodeKind::Summary,
        ("user", Some(message)) => {
            node.kind = NodeKind::User;
            let content = message.get("content").and_then(Json::items);
            let answers = content.unwrap_or_default().into_iter().filter_map(|block| {
                let id = block.fields()?.text("tool_use_id")?;
                Some(id.into_owned())
            });
            node.answers = answers.collect();
        }
        // What the program itself said of an error is not sent.
        ("assistant", Some(_)) if fields.is_true("isApiErrorMessage") => {}
        ("assistant", Some(message)) => {
            node.kind = NodeKind::Assistant;
            node.message = message.text("id").map(|id| id.into_owned());
            node.model = message.text("model").map(|model| model.into_owned());
            let usage = message.get("usage").and_then(Json::fields);
            node.usage = usage.map(|usage| Usage {
                input_tokens: tokens(usage.number("input_tokens")),
                output_tokens: tokens(usage.number("output_tokens")),
                cache_read_tokens: tokens(usage.number("cache_read_input_tokens")),
                cache_write_tokens: tokens(usage.number("cache_creation_input_tokens")),
            });
        }
        ("attachment", _) => node.kind = NodeKind::Attachment,
        ("system", _) if own("subtype").as_deref() == Some("compact_boundary") => {
            let metadata = fields.get("compactMetadata").and_then(Json::fields);
            let kept = metadata.and_then(|metadata| {
                let kept = metadata.get("preservedSegment")?.fields()?;
                let end = |key: &str| kept.text(key).map(|text| text.into_owned());
                Some([end("headUuid")?, end("tailUuid")?, end("anchorUuid")?])
            });
            node.kind = NodeKind::Boundary {
                after: own("logicalParentUuid"),
                kept,
            };
        }
        _ => {}
    }
    node
}

/// The lines of a tree.
struct Tree<'a> {
    nodes: &'a [Node],
    by_uuid: HashMap<&'a str, usize>,
    /// What hangs elsewhere than it says, because a boundary kept it.
    moved: HashMap<usize, usize>,
}

impl<'a> Tree<'a> {
    fn find(&self, uuid: Option<&String>) -> Option<usize> {
        self.by_uuid.get(uuid?.as_str()).copied()
    }

    fn parent(&self, at: usize) -> Option<usize> {
        let moved = self.moved.get(&at).copied();
        moved.or_else(|| self.find(self.nodes[at].parent.as_ref()))
    }

    /// The lines from the root, or from a boundary, to this one.
    fn chain(&self, leaf: usize) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut seen = HashSet::new();
        let mut at = Some(leaf);
        while let Some(here) = at.filter(|here| seen.insert(*here)) {
            chain.push(here);
            at = match &self.nodes[here].kind {
                NodeKind::Boundary { .. } => None,
                _ => self.parent(here),
            };
        }
        chain.reverse();
        chain
    }

    /// Hang what a boundary keeps behind its anchor, and what was hung there behind
    /// what it keeps, as the program does.
    fn keep(&mut self, [head, tail, anchor]: &[String; 3]) -> Option<usize> {
        let ends = [head, tail, anchor].map(|uuid| self.find(Some(uuid)));
        let [Some(head), Some(tail), Some(anchor)] = ends else {
            return None;
        };
        // The one must lead to the other.
        if !self.chain(tail).contains(&head) {
            return None;
        }
        let uuid = self.nodes[anchor].uuid.as_str();
        for (at, node) in self.nodes.iter().enumerate() {
            if node.parent.as_deref() == Some(uuid) {
                self.moved.insert(at, tail);
            }
        }
        self.moved.insert(head, anchor);
        Some(tail)
    }
}

fn build(nodes: &[Node], into: &mut Builder) {
    let by_uuid = nodes.iter().enumerate();
    let by_uuid = by_uuid.map(|(at, node)| (node.uuid.as_str(), at)).collect();
    let mut tree = Tree {
        nodes,
        by_uuid,
        moved: HashMap::new(),
    };
    // The newest line that a request ends with.
    let speaks = |node: &Node| !matches!(node.kind, NodeKind::Hidden | NodeKind::Attachment);
    let Some(mut leaf) = nodes.iter().rposition(speaks) else {
        return;
    };
    // What the program hung behind it stands on the same branch.
    while let Some(next) = (leaf + 1..nodes.len())
        .find(|at| nodes[*at].parent.as_deref() == Some(nodes[leaf].uuid.as_str()))
    {
        leaf = next;
    }
    // The boundaries, oldest first, each with the chain that it stands behind.
    let mut replaced = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let NodeKind::Boundary { after, kept } = &node.kind else {
            continue;
        };
        let before = tree.find(after.as_ref()).filter(|before| *before < at);
        replaced.push((at, before.map(|before| tree.chain(before))));
        let tail = kept.as_ref().and_then(|kept| tree.keep(kept));
        // Where nothing has come since, the session ends with what was kept.
        let anchor = kept
            .as_ref()
            .and_then(|[_, _, anchor]| tree.find(Some(anchor)));
        if let Some(tail) = tail
            && (leaf == at || Some(leaf) == anchor)
        {
            leaf = tail;
        }
    }
    into.facts.leaf = Some(nodes[leaf].span);
    let newest = tree.chain(leaf);
    // Of the boundaries those that the session has gone through, back from its own.
    let mut through = Vec::new();
    let mut first = newest.first().copied();
    while let Some(at) = replaced.iter().rposition(|(at, _)| Some(*at) == first) {
        let (boundary, before) = replaced.remove(at);
        first = before.as_ref().and_then(|before| before.first().copied());
        through.push((boundary, before.unwrap_or_default()));
    }
    let mut boundary = None;
    for (next, before) in through.into_iter().rev() {
        add(&tree, &before, boundary, into);
        boundary = Some(next);
    }
    add(&tree, &newest, boundary, into);
}

/// Add the nodes of a chain, which may begin with a boundary. What was counted of lines
/// from before it was counted of another request.
fn add(tree: &Tree<'_>, chain: &[usize], boundary: Option<usize>, into: &mut Builder) {
    let nodes = tree.nodes;
    if let Some(boundary) = boundary {
        let summary = chain
            .iter()
            .filter(|at| matches!(nodes[**at].kind, NodeKind::Summary) && **at > boundary);
        let mut recorded = vec![nodes[boundary].span];
        recorded.extend(summary.map(|at| nodes[*at].span));
        into.facts.compaction = recorded;
        into.rewrite();
    }
    let on_chain: HashSet<usize> = chain.iter().copied().collect();
    let answered: HashSet<&str> = chain
        .iter()
        .flat_map(|at| nodes[*at].answers.iter().map(String::as_str))
        .collect();
    // Calls that ran side by side: the results of all but one hang beside the chain.
    let mut beside: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let missing = node
            .answers
            .iter()
            .any(|id| !answered.contains(id.as_str()));
        if !on_chain.contains(&at)
            && missing
            && let Some(parent) = &node.parent
        {
            beside.entry(parent).or_default().push(at);
        }
    }
    // Answers by the API's id of them: one message is written in several lines.
    let mut messages: HashMap<&str, u32> = HashMap::new();
    for at in chain {
        let node = &nodes[*at];
        let usage = node
            .usage
            .filter(|_| boundary.is_none_or(|boundary| *at > boundary));
        match &node.kind {
            NodeKind::User if node.answers.is_empty() => {
                into.user(Kind::User, &[node.span]);
            }
            NodeKind::User => {
                into.node(Kind::Result, &[node.span], None);
            }
            NodeKind::Summary => {
                into.node(Kind::Checkpoint, &[node.span], None);
            }
            NodeKind::Attachment => {
                into.node(Kind::Context, &[node.span], None);
            }
            NodeKind::Assistant => {
                if let Some(model) = node.model.as_ref().filter(|model| *model != "<synthetic>") {
                    into.header("anthropic", model);
                }
                let known = node.message.as_deref().and_then(|id| messages.get(id));
                let seq = match known {
                    Some(seq) => {
                        into.extend(*seq, node.span);
                        *seq
                    }
                    None => into.node(Kind::Assistant, &[node.span], None),
                };
                if let Some(usage) = usage {
                    into.count(seq, usage);
                }
                if let Some(id) = node.message.as_deref() {
                    messages.insert(id, seq);
                }
            }
            NodeKind::Boundary { .. } | NodeKind::Hidden => {}
        }
        for result in beside.get(node.uuid.as_str()).into_iter().flatten() {
            into.node(Kind::Result, &[nodes[*result].span], None);
        }
    }
}
