//! What this backend writes in place of what it removes.

use std::collections::BTreeMap;

use crate::harness::compact::session::{Event, Payload};
use crate::harness::compact::types::ContentBlock;
use crate::surface::CHECKPOINT;

const OPEN: &str = "<compacted-summary>";
const CLOSE: &str = "</compacted-summary>";
/// Code points of a request, or of the newest answer, that are kept.
const REQUEST: usize = 200;
const ANSWER: usize = 600;

/// The outline of these events, at most half of what they cost.
pub fn of(events: &[Event], tokens: u32) -> String {
    let mut requests: Vec<String> = Vec::new();
    let mut tools: BTreeMap<String, u32> = BTreeMap::new();
    let mut answer = String::new();
    for event in events {
        match &event.payload {
            // An earlier outline is merged, not quoted.
            Payload::UserMessage(message) if message.source == CHECKPOINT => {
                let old = texts(&message.content);
                let lines = old.lines().filter_map(|line| line.strip_prefix("- "));
                requests.extend(lines.map(str::to_owned));
            }
            Payload::UserMessage(message) => requests.push(line(&texts(&message.content))),
            Payload::SteeringMessage(content) => requests.push(line(&texts(content))),
            Payload::AssistantMessage(message) => {
                for block in &message.content {
                    if let ContentBlock::ToolCall(call) = block {
                        *tools.entry(call.name.clone()).or_default() += 1;
                    }
                }
                let said = texts(&message.content);
                if !said.trim().is_empty() {
                    answer = said.chars().take(ANSWER).collect();
                }
            }
            _ => {}
        }
    }
    requests.retain(|request| !request.trim().is_empty());
    requests.dedup();
    let tools: Vec<String> = tools
        .iter()
        .map(|(name, runs)| format!("{name} ({runs})"))
        .collect();
    // The oldest requests go first where not all of them fit.
    let most = tokens as usize * 2;
    let mut skipped = 0;
    loop {
        let mut text = String::from("## Requests\n");
        for request in &requests[skipped..] {
            text.push_str(&format!("- {request}\n"));
        }
        if !tools.is_empty() {
            text.push_str(&format!("## Tools that ran\n{}\n", tools.join(", ")));
        }
        if !answer.is_empty() {
            text.push_str(&format!("## Newest answer\n{answer}\n"));
        }
        if text.len() <= most || skipped == requests.len() {
            return text;
        }
        skipped += 1;
    }
}

/// The node that takes the range's place: the outline in the tags by which every
/// backend knows a summary, and the pinned messages as they were.
pub fn framed(summary: &[ContentBlock], pinned: &[Event]) -> Vec<ContentBlock> {
    let text = |text: &str| ContentBlock::Text(text.into());
    let mut content = vec![text(&format!(
        "An outline of an earlier span of this session, which was removed to make room.\n\n{OPEN}"
    ))];
    content.extend_from_slice(summary);
    content.push(text(CLOSE));
    for event in pinned {
        if let Payload::UserMessage(message) = &event.payload {
            content.extend_from_slice(&message.content);
        }
    }
    content
}

fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(REQUEST).collect()
}

fn texts(content: &[ContentBlock]) -> String {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => Some(text.clone()),
        _ => None,
    };
    content
        .iter()
        .filter_map(text)
        .collect::<Vec<_>>()
        .join("\n")
}
