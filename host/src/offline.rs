//! A summariser that needs no model: it extracts.
//!
//! It reads the nodes that are to be condensed from the session itself and fills
//! the eight sections of a checkpoint with what stands there: the user's requests
//! word for word, files, commands, errors and what followed, the last work. It
//! paraphrases nothing and guesses nothing, and always gives the same answer.

mod digest;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::model::{Generation, Model};
use crate::session::SessionLog;
use crate::types::{
    Chunk, Finish, FinishReason, GenerateOptions, LlmError, ModelInfo, Prompt, Route,
};
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

/// Condenses by extraction: no key, no network, no model.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl OfflineModel {
    /// The route that names it.
    pub fn route() -> Route {
        Route {
            provider: "offline".into(),
            model: "extract".into(),
        }
    }
}

#[async_trait]
impl Model for OfflineModel {
    /// It reads the session, however long, at once.
    async fn describe_model(&self, route: &Route) -> Option<ModelInfo> {
        (*route == Self::route()).then_some(ModelInfo {
            context_window: u32::MAX,
            max_output_tokens: None,
        })
    }

    async fn stream(
        &self,
        session: &dyn SessionLog,
        options: GenerateOptions,
        _signal: &CancellationToken,
    ) -> Result<Generation, LlmError> {
        let nodes = match &options.prompt {
            Prompt::Standalone(prompt) => &prompt.nodes,
            Prompt::Replay(prompt) => &prompt.nodes,
        };
        let mut digest = Digest::default();
        for &seq in nodes {
            let events = session.read(seq, 1).await;
            let events = events.map_err(|error| LlmError::Unavailable(error.describe()))?;
            for event in &events {
                digest.take(&event.payload);
            }
        }
        let max_tokens = options.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS) as usize;
        let text = write(&digest, max_tokens);
        let finish = Finish {
            reason: FinishReason::Stop,
            usage: None,
        };
        let chunks = [Ok(Chunk::Text(text)), Ok(Chunk::Finish(finish))];
        Ok(stream::iter(chunks).boxed())
    }
}

/// A text's tokens, in quarters, so that no tokenizer and no estimate counts more:
/// a quarter for an ASCII character, a whole one for any other.
fn cost(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    ascii + 4 * (text.chars().count() - ascii)
}

/// Fill the sections within the cap. It is also kept well below what it is to
/// replace, or there would be no point in it.
fn write(digest: &Digest, max_tokens: usize) -> String {
    let worth = (digest.tokens() / 2).max(LEAST_TOKENS);
    let budget = 4 * max_tokens.min(worth);
    let sections = digest.sections();
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
        let more = items.len() - taken[section];
        if more > 0 {
            text.push_str(&format!("({more} more left out)\n"));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
