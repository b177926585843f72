//! Oversized tool results, made shorter without a model: the middle goes.

use crate::types::ResultBlock;

/// What stands where the middle was.
const MARKER: &str = "\n\n[... tool result middle pruned ...]\n\n";

/// Limits in code points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub threshold: usize,
    pub head: usize,
    pub tail: usize,
}

impl Limits {
    /// Whether what is left of an oversized result is never longer than one that
    /// is left alone.
    pub fn fit(&self) -> bool {
        self.head + MARKER.chars().count() + self.tail <= self.threshold
    }
}

/// A shorter result, with its length before and after. None where it is short
/// enough. Only text counts and is cut; all other blocks stay where they are.
pub(crate) fn shorten(
    content: &[ResultBlock],
    limits: Limits,
) -> Option<(Vec<ResultBlock>, usize, usize)> {
    let length = |block: &ResultBlock| match block {
        ResultBlock::Text(text) => text.chars().count(),
        _ => 0,
    };
    let total: usize = content.iter().map(length).sum();
    if total <= limits.threshold {
        return None;
    }
    let (head_end, tail_start) = (limits.head, total - limits.tail);
    let (mut at, mut marked) = (0, false);
    let mut shorter = Vec::new();
    for block in content {
        let ResultBlock::Text(text) = block else {
            shorter.push(block.clone());
            continue;
        };
        let (start, end) = (at, at + length(block));
        at = end;
        let byte = |chars: usize| {
            text.char_indices()
                .nth(chars)
                .map_or(text.len(), |(at, _)| at)
        };
        let head = &text[..byte(head_end.saturating_sub(start))];
        let tail = &text[byte(tail_start.max(start) - start)..];
        let cut = start.max(head_end) < end.min(tail_start);
        let marker = if cut && !marked { MARKER } else { "" };
        marked |= cut;
        // A block on one side of the middle is kept whole, once.
        let kept = match cut {
            true => [head, marker, tail].concat(),
            false => text.clone(),
        };
        if !kept.is_empty() {
            shorter.push(ResultBlock::Text(kept));
        }
    }
    let after = shorter.iter().map(length).sum();
    Some((shorter, total, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        threshold: 60,
        head: 10,
        tail: 5,
    };

    fn text(text: &str) -> ResultBlock {
        ResultBlock::Text(text.into())
    }

    #[test]
    fn the_middle_goes_across_blocks_and_the_marker_stands_once() {
        assert!(shorten(&[text(&"a".repeat(60))], LIMITS).is_none());
        let image = ResultBlock::Opaque(crate::types::Opaque {
            kind: "x".into(),
            json: "{}".into(),
        });
        let content = [
            text(&"a".repeat(12)),
            image.clone(),
            text(&"b".repeat(40)),
            text("cccc"),
            text(&"😀".repeat(5)),
        ];
        let (shorter, before, after) = shorten(&content, LIMITS).unwrap();
        let marked = text(&format!("aaaaaaaaaa{MARKER}"));
        assert_eq!(shorter, [marked, image, text(&"😀".repeat(5))]);
        assert_eq!((before, after), (61, 10 + 39 + 5));
        assert!(shorten(&shorter, LIMITS).is_none());
    }
}
