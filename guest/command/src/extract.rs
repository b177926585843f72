//! A summariser that needs no model: it extracts.
//!
//! It reads the nodes that are to be condensed from the session itself and fills
//! the eight sections of a checkpoint with what stands there: the user's requests
//! word for word, files, commands, errors and what followed, the last work. It
//! paraphrases nothing and guesses nothing, and always gives the same answer.

mod digest;

use harness_compact_engine::{ModelInfo, Payload, Route};

use digest::Digest;

/// The sections of a checkpoint, in order.
const SECTIONS: [&str; 8] = [
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code",
    "Errors and Fixes",
    "Pending Tasks",
    "Current Work",
    "Next Step",
    "Critical Context",
];

/// Shares of the cap that the sections may fill before what is left over goes to
/// whichever still has something to say, in per cent.
const SHARES: [usize; 8] = [28, 3, 16, 12, 7, 12, 2, 20];

/// The cap where the caller sets none, in tokens.
const DEFAULT_MAX_TOKENS: u32 = 2048;

/// The least that the eight headings and a line of content take, in tokens.
const LEAST_TOKENS: usize = 200;

/// What a section takes besides its heading and its items, in quarter tokens: the
/// marks around the heading and the line that counts what was left out.
const SECTION_COST: usize = 36;

/// Sections whose first item is told before all else: where the checkpoint comes
/// from, what is wanted, what to do.
const FIRST: [usize; 3] = [7, 0, 6];

/// The route that names it, among models.
pub fn extract_route() -> Route {
    Route {
        provider: "offline".into(),
        model: "extract".into(),
    }
}

/// What is known of it: it reads the session, however long, at once.
pub fn extract_info() -> ModelInfo {
    ModelInfo {
        context_window: ModelInfo::READS_NODES,
        max_output_tokens: None,
    }
}

/// Condense nodes, in their order, to at most `max_tokens` (2,048 where there is no
/// cap), whatever counts them.
#[derive(Debug, Default)]
pub struct Extract {
    digest: Digest,
}

impl Extract {
    /// Take the next node.
    pub fn take(&mut self, payload: &Payload) {
        self.digest.take(payload);
    }

    /// What all of them amount to.
    pub fn finish(self, max_tokens: Option<u32>) -> String {
        write(
            &self.digest,
            max_tokens.unwrap_or(DEFAULT_MAX_TOKENS) as usize,
        )
    }
}

/// A text's tokens, in quarters, so that no tokenizer and no estimate counts more:
/// a quarter for an ASCII character, a whole one for any other.
fn cost(text: &str) -> usize {
    // Bytes that begin no character cost nothing of their own.
    let price = |byte: u8| match byte {
        0..0x80 => 1,
        0x80..0xC0 => 0,
        _ => 4,
    };
    text.bytes().map(price).sum()
}

/// Fill the sections within the cap. It is also kept well below what it is to
/// replace, or there would be no point in it.
fn write(digest: &Digest, max_tokens: usize) -> String {
    let worth = (digest.tokens() / 2).max(LEAST_TOKENS);
    let budget = 4 * max_tokens.min(worth);
    let sections = digest.sections();
    let forgotten = digest.forgotten();
    let frame: usize = SECTIONS
        .iter()
        .map(|heading| cost(heading) + SECTION_COST)
        .sum();
    let mut left = budget.saturating_sub(frame);
    let mut taken = [0; SECTIONS.len()];
    let mut take = |section: usize, most_items: usize, mut share: usize| {
        while let Some(item) = sections[section]
            .get(taken[section])
            .filter(|_| taken[section] < most_items)
        {
            let price = cost(item) + cost("- \n");
            if price > share.min(left) {
                break;
            }
            share -= price;
            left -= price;
            taken[section] += 1;
        }
        left
    };
    // First what must not be missing, then each section its share, then what is
    // left over in order of importance.
    let mut spendable = 0;
    for section in FIRST {
        spendable = take(section, 1, usize::MAX);
    }
    for (section, share) in SHARES.iter().enumerate() {
        take(section, usize::MAX, spendable * share / 100);
    }
    for section in 0..SECTIONS.len() {
        take(section, usize::MAX, usize::MAX);
    }
    let mut text = String::new();
    for (section, items) in sections.iter().enumerate() {
        text.push_str(&format!("## {}\n", SECTIONS[section]));
        if items.is_empty() {
            text.push_str("(none)\n");
        }
        for item in &items[..taken[section]] {
            text.push_str(&format!("- {item}\n"));
        }
        let more = items.len() - taken[section] + forgotten[section];
        if more > 0 {
            text.push_str(&format!("({more} more left out)\n"));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
