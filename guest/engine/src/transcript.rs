//! A range of the surface as plain text, for a summariser that reads it as data.

use std::fmt::Write;

use crate::session::{CHECKPOINT_SOURCE, Event, Payload};
use crate::types::{ContentBlock, Image, ResultBlock, ToolResult};

/// What a call that was interrupted is answered with, so that no reader waits for it.
const NO_RESULT: &str = "[tool-result (error): interrupted, no result was recorded]\n";

/// The tags between which a transcript stands in a prompt.
pub(crate) const OPEN: &str = "<transcript>";
pub(crate) const CLOSE: &str = "</transcript>";

/// One node as text. `dead_calls` are the ids of its calls that never got a result.
pub(crate) fn entry(event: &Event, dead_calls: &[String]) -> String {
    let mut out = String::new();
    match &event.payload {
        Payload::UserMessage(message) if message.source == CHECKPOINT_SOURCE => {
            speak(&mut out, "Earlier checkpoint", &message.content, &[]);
        }
        Payload::UserMessage(message) => speak(&mut out, "User", &message.content, &[]),
        Payload::AssistantMessage(message) => {
            speak(&mut out, "Assistant", &message.content, dead_calls);
        }
        Payload::ContextMessage(content) => speak(&mut out, "Context", content, &[]),
        Payload::SteeringMessage(content) => {
            speak(&mut out, "User, while the agent worked", content, &[]);
        }
        Payload::ToolResult(result) => {
            out.push_str("Tool:\n");
            tool_result(&mut out, result);
        }
        _ => {}
    }
    // The text is data: it must not be able to close the tag that it stands in.
    out.replace(CLOSE, "<\\/transcript>")
}

fn speak(out: &mut String, who: &str, content: &[ContentBlock], dead_calls: &[String]) {
    if content.is_empty() {
        return;
    }
    let _ = writeln!(out, "{who}:");
    for block in content {
        match block {
            ContentBlock::Text(text) | ContentBlock::Reasoning(text) => {
                let _ = writeln!(out, "{text}");
            }
            ContentBlock::ToolCall(call) => {
                let _ = writeln!(out, "[tool-call: {}({})]", call.name, call.arguments);
                if dead_calls.contains(&call.call_id) {
                    out.push_str(NO_RESULT);
                }
            }
            ContentBlock::ToolResult(result) => tool_result(out, result),
            ContentBlock::Image(image) => placeholder(out, image),
            ContentBlock::Opaque(opaque) => {
                let _ = writeln!(out, "[{}]", opaque.kind);
            }
        }
    }
}

fn tool_result(out: &mut String, result: &ToolResult) {
    out.push_str(if result.is_error {
        "[tool-result (error): "
    } else {
        "[tool-result: "
    });
    for (index, block) in result.content.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        match block {
            ResultBlock::Text(text) | ResultBlock::Reasoning(text) => out.push_str(text),
            ResultBlock::Image(image) => {
                placeholder(out, image);
                out.pop();
            }
            ResultBlock::Opaque(opaque) => {
                let _ = write!(out, "[{}]", opaque.kind);
            }
        }
    }
    out.push_str("]\n");
}

/// A picture is named, never sent: its bytes say nothing to a reader of text.
fn placeholder(out: &mut String, image: &Image) {
    match image.byte_length {
        0 => {
            let _ = writeln!(out, "[image {}]", image.media_type);
        }
        bytes => {
            let _ = writeln!(out, "[image {}, {bytes} bytes]", image.media_type);
        }
    }
}
