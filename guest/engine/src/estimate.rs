//! What content costs, in estimated tokens, before a provider has counted it.

use crate::script;
use crate::session::Payload;
use crate::types::{ContentBlock, ResultBlock, ToolCall, ToolResult};

/// What each block and each message costs beyond its text.
const OVERHEAD: u32 = 4;

/// How content is priced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pricing {
    pub chars_per_token: f64,
    /// Whether scripts that tokenizers cut finer than Latin are weighed by their own.
    pub script_aware: bool,
    pub image_tokens: u32,
}

/// Length in UTF-16 code units, in which every text is priced.
pub(crate) fn utf16_len(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().map(char::len_utf16).sum()
    }
}

impl Pricing {
    /// A text's own cost, without the overhead of the block that holds it.
    pub fn bare_text(&self, text: &str) -> u32 {
        if !self.script_aware || text.is_ascii() {
            return (utf16_len(text) as f64 / self.chars_per_token).ceil() as u32;
        }
        let (mut units, mut hundredths) = (0u64, 0u64);
        for c in text.chars() {
            match script::hundredths(c) {
                Some(weight) => hundredths += u64::from(weight),
                None => units += c.len_utf16() as u64,
            }
        }
        (units as f64 / self.chars_per_token + hundredths as f64 / 100.0).ceil() as u32
    }

    /// A text block, or the system prompt.
    pub fn text(&self, text: &str) -> u32 {
        self.bare_text(text).saturating_add(OVERHEAD)
    }

    /// A message: its blocks and its role.
    pub fn message(&self, content: &[ContentBlock]) -> u32 {
        let blocks = content.iter().map(|block| self.block(block));
        blocks.fold(OVERHEAD, u32::saturating_add)
    }

    /// A message whose blocks somebody else has counted.
    pub fn counted_message(&self, blocks: u32) -> u32 {
        blocks.saturating_add(OVERHEAD)
    }

    /// A surface node. None for events that are never on the surface.
    pub fn node(&self, payload: &Payload) -> Option<u32> {
        Some(match payload {
            Payload::ToolResult(result) => self.counted_message(self.tool_result(result)),
            _ if makes_no_message(payload) => 0,
            _ => self.message(content(payload)?),
        })
    }

    fn block(&self, block: &ContentBlock) -> u32 {
        match block {
            ContentBlock::Text(text) | ContentBlock::Reasoning(text) => self.text(text),
            ContentBlock::ToolCall(call) => self.tool_call(call),
            ContentBlock::ToolResult(result) => self.tool_result(result),
            ContentBlock::Image(_) => self.image_tokens,
            ContentBlock::Opaque(opaque) => self.text(&opaque.json),
        }
    }

    fn tool_call(&self, call: &ToolCall) -> u32 {
        self.text(&call.name)
            .saturating_add(self.bare_text(&call.arguments))
    }

    fn tool_result(&self, result: &ToolResult) -> u32 {
        let blocks = result.content.iter().map(|block| match block {
            ResultBlock::Text(text) | ResultBlock::Reasoning(text) => self.text(text),
            ResultBlock::Image(_) => self.image_tokens,
            ResultBlock::Opaque(opaque) => self.text(&opaque.json),
        });
        blocks.fold(OVERHEAD, u32::saturating_add)
    }
}

/// Whether a node stands for no message: an empty answer is not sent.
pub(crate) fn makes_no_message(payload: &Payload) -> bool {
    matches!(payload, Payload::AssistantMessage(message) if message.content.is_empty())
}

/// What a node says, where it is a list of blocks.
pub(crate) fn content(payload: &Payload) -> Option<&[ContentBlock]> {
    match payload {
        Payload::AssistantMessage(message) => Some(&message.content),
        Payload::UserMessage(message) => Some(&message.content),
        Payload::ContextMessage(content) | Payload::SteeringMessage(content) => Some(content),
        _ => None,
    }
}

/// The most tokens that a group of blocks can be counted at: no tokenizer makes
/// more than a token of a byte, and no picture is worth a million.
pub(crate) fn most_tokens(content: &[ContentBlock]) -> u64 {
    const IMAGE: usize = 1_000_000;
    let result = |result: &ToolResult| -> usize {
        let blocks = result.content.iter().map(|block| match block {
            ResultBlock::Text(text) | ResultBlock::Reasoning(text) => text.len(),
            ResultBlock::Image(_) => IMAGE,
            ResultBlock::Opaque(opaque) => opaque.json.len() + IMAGE,
        });
        blocks.sum()
    };
    let blocks = content.iter().map(|block| match block {
        ContentBlock::Text(text) | ContentBlock::Reasoning(text) => text.len(),
        ContentBlock::ToolCall(call) => call.name.len() + call.arguments.len(),
        ContentBlock::ToolResult(tool_result) => result(tool_result),
        ContentBlock::Image(_) => IMAGE,
        ContentBlock::Opaque(opaque) => opaque.json.len() + IMAGE,
    });
    // What a provider adds around each block.
    blocks.map(|bytes| bytes as u64 + 64).sum::<u64>() + 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Image, Opaque};

    const PRICING: Pricing = Pricing {
        chars_per_token: 4.0,
        script_aware: false,
        image_tokens: 85,
    };

    fn text(text: &str) -> ContentBlock {
        ContentBlock::Text(text.into())
    }

    fn call(name: &str, arguments: &str) -> ContentBlock {
        ContentBlock::ToolCall(ToolCall {
            call_id: "c".into(),
            name: name.into(),
            arguments: arguments.into(),
        })
    }

    fn result(content: Vec<ResultBlock>) -> ContentBlock {
        ContentBlock::ToolResult(ToolResult {
            call_id: "c".into(),
            is_error: false,
            content,
        })
    }

    #[test]
    fn prices_messages_as_the_reference_does() {
        let opaque = Opaque {
            kind: "future-block".into(),
            json: r#"{"type":"future-block","payload":"abcd"}"#.into(),
        };
        let golden: &[(Vec<ContentBlock>, u32)] = &[
            (vec![], 4),
            (vec![text("")], 8),
            (vec![text("a")], 9),
            (vec![text("abcd")], 9),
            (vec![text("abcde")], 10),
            (vec![text("你好世界")], 9),
            (vec![text("😀")], 9),
            (vec![text("😀😀😀")], 10),
            (vec![text("ab"), text("cd")], 14),
            (vec![ContentBlock::Reasoning("abcdefgh".into())], 10),
            (vec![call("read", r#"{"x":1}"#)], 11),
            (vec![call("", "")], 8),
            (vec![result(vec![ResultBlock::Text("xy".into())])], 13),
            (vec![result(vec![])], 8),
            (vec![ContentBlock::Opaque(opaque)], 18),
        ];
        for (content, tokens) in golden {
            assert_eq!(PRICING.message(content), *tokens, "{content:?}");
        }
    }

    #[test]
    fn r27_an_image_has_its_own_price_whatever_its_size() {
        let image = ContentBlock::Image(Image {
            media_type: "image/png".into(),
            byte_length: 4_000_000,
        });
        assert_eq!(PRICING.message(&[image]), 4 + 85);
    }
}
