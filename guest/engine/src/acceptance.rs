//! What of a model's answer may become a checkpoint.

use crate::compact::{CompactError, Rejection};
use crate::llm::{Chunk, Finish, FinishReason, LlmError};
use crate::types::{ContentBlock, Usage};

/// A streamed answer, put together.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: Vec<String>,
    /// Whether the last piece was text, which the next piece of text continues.
    in_text: bool,
    image: bool,
    tool_call: bool,
    finish: Option<Finish>,
}

impl Answer {
    pub fn push(&mut self, chunk: Chunk) {
        let in_text = std::mem::take(&mut self.in_text);
        match chunk {
            Chunk::Text(piece) => {
                match self.text.last_mut().filter(|_| in_text) {
                    Some(text) => text.push_str(&piece),
                    None => self.text.push(piece),
                }
                self.in_text = true;
            }
            Chunk::Other(kind) if kind == "image" => self.image = true,
            Chunk::ToolCall(_) => self.tool_call = true,
            // Reasoning and what else there may be say nothing that a checkpoint needs.
            Chunk::Reasoning(_) | Chunk::Other(_) => {}
            Chunk::Finish(finish) => self.finish = Some(finish),
        }
    }

    pub fn usage(&self) -> Option<Usage> {
        self.finish.and_then(|finish| finish.usage)
    }

    /// Whether the model went on with the session instead of summarising it.
    pub fn calls_a_tool(&self) -> bool {
        self.tool_call
    }

    /// The text of an answer that came to its normal end.
    pub fn accept(self) -> Result<Vec<ContentBlock>, CompactError> {
        match self.finish.map(|finish| finish.reason) {
            Some(FinishReason::Stop | FinishReason::ToolCalls) => {}
            Some(FinishReason::MaxTokens) => {
                return Err(CompactError::SummaryRejected(Rejection::Truncated));
            }
            Some(FinishReason::ContentFilter) => {
                let why = "the provider's content filter ended the answer";
                return Err(CompactError::Model(LlmError::Refused(why.into())));
            }
            Some(FinishReason::Other) => {
                let why = "the answer ended for a reason that is not known";
                return Err(CompactError::Model(LlmError::Other(why.into())));
            }
            None => {
                let why = "the answer broke off before its end";
                return Err(CompactError::Model(LlmError::Unavailable(why.into())));
            }
        }
        if self.image {
            let what = Rejection::Unsupported("an image".into());
            return Err(CompactError::SummaryRejected(what));
        }
        let content = self.text.into_iter().map(ContentBlock::Text).collect();
        accept_text(content)
    }
}

/// The text blocks among `content`, one of which at least says something.
pub(crate) fn accept_text(content: Vec<ContentBlock>) -> Result<Vec<ContentBlock>, CompactError> {
    let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text(_));
    let text: Vec<ContentBlock> = content.into_iter().filter(is_text).collect();
    let says_something = text
        .iter()
        .any(|block| matches!(block, ContentBlock::Text(text) if !is_blank(text)));
    if says_something {
        Ok(text)
    } else {
        Err(CompactError::SummaryRejected(Rejection::Empty))
    }
}

/// Only a checkpoint that is smaller than what it replaces is worth its loss.
pub(crate) fn accept_size(framed: u32, shadowed: u32) -> Result<(), CompactError> {
    if framed < shadowed {
        Ok(())
    } else {
        let sizes = Rejection::NotSmaller((framed, shadowed));
        Err(CompactError::SummaryRejected(sizes))
    }
}

/// Blank as JavaScript's `trim` has it: every build must agree on it.
fn is_blank(text: &str) -> bool {
    let blank = |c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}');
    text.chars().all(blank)
}
