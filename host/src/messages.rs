//! The messages that a surface stands for, as they are sent to a model.

use crate::session::SessionLog;
use crate::types::{
    ContentBlock, Message, Payload, ResultBlock, Role, SessionError, SurfaceNode, ToolResult,
};

/// What a call that was interrupted is answered with. Providers refuse a call
/// without a result, and a model would wait for it.
const INTERRUPTED: &str = "The call was interrupted; no result was recorded.";

/// The messages of the next request: one for each node of a surface that
/// [`crate::Compactor::surface`] listed, verbatim and in order. A call that was
/// interrupted gets a short error result after it; empty answers make no message.
///
/// Images are descriptions here: a loop that sends them builds its messages from
/// its own store in the same way.
pub async fn messages(
    log: &dyn SessionLog,
    surface: &[SurfaceNode],
) -> Result<Vec<Message>, SessionError> {
    let mut messages = Vec::with_capacity(surface.len());
    for node in surface {
        let mut events = log.read(node.seq, 1).await?.into_iter();
        let event = events.next().filter(|event| event.seq == node.seq);
        let event = event
            .ok_or_else(|| SessionError::Corrupt(format!("event {} cannot be read", node.seq)))?;
        let (role, content) = match event.payload {
            Payload::UserMessage(message) => (Role::User, message.content),
            Payload::AssistantMessage(message) => (Role::Assistant, message.content),
            Payload::ToolResult(result) => (Role::User, vec![ContentBlock::ToolResult(result)]),
            Payload::ContextMessage(content) | Payload::SteeringMessage(content) => {
                (Role::User, content)
            }
            _ => continue,
        };
        if !content.is_empty() || role == Role::User {
            messages.push(Message { role, content });
        }
        let interrupted = node.dead_calls.iter().map(|id| {
            ContentBlock::ToolResult(ToolResult {
                call_id: id.clone(),
                is_error: true,
                content: vec![ResultBlock::Text(INTERRUPTED.into())],
            })
        });
        let content: Vec<ContentBlock> = interrupted.collect();
        if !content.is_empty() {
            messages.push(Message {
                role: Role::User,
                content,
            });
        }
    }
    Ok(messages)
}
