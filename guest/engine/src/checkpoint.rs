//! The node that a compaction leaves: the summary, framed so that a resuming
//! model knows what it reads.

use crate::types::ContentBlock;

// With the opening tag this is 321 to 324 UTF-16 units, so that a frame costs
// exactly 98 tokens with the role: figures that are compared with the
// reference's rely on it.
const PREAMBLE: &str = "This is a checkpoint of an earlier span of this session, written when that span was \
taken out of the context to make room. Read it as established background: build on what it records, keep to \
its decisions and instructions, and do not redo finished work. What follows it is the session itself, verbatim.";
const OPEN: &str = "<compacted-summary>";
const CLOSE: &str = "</compacted-summary>";
const PINNED: &str = "Pinned messages from that span, verbatim:";

/// Frame a summary, with the pinned messages that it must not lose.
pub(crate) fn frame(
    summary: &[ContentBlock],
    pinned: impl IntoIterator<Item = ContentBlock>,
) -> Vec<ContentBlock> {
    let mut content = vec![ContentBlock::Text(format!("{PREAMBLE}\n\n{OPEN}"))];
    content.extend_from_slice(summary);
    content.push(ContentBlock::Text(CLOSE.into()));
    let mut pinned = pinned.into_iter().peekable();
    if pinned.peek().is_some() {
        content.push(ContentBlock::Text(PINNED.into()));
        content.extend(pinned);
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Pricing, utf16_len};

    #[test]
    fn a_frame_costs_98_tokens() {
        let pricing = Pricing {
            chars_per_token: 4.0,
            script_aware: true,
            image_tokens: 85,
        };
        let frame = frame(&[], []);
        let ContentBlock::Text(first) = &frame[0] else {
            panic!("the first block is text");
        };
        assert!(
            (321..=324).contains(&utf16_len(first)),
            "{}",
            utf16_len(first)
        );
        assert_eq!(pricing.message(&frame), 98);
    }
}
