//! Having a range condensed: what is sent, in how many calls, and again when an
//! answer is empty or cut off.

use crate::acceptance::{Answer, accept_text};
use crate::compact::{CompactError, Rejection};
use crate::estimate::Pricing;
use crate::llm::{
    DeadCall, GenerateOptions, Generation, LlmError, Model, ModelInfo, Part, Prompt, Replay,
    Standalone,
};
use crate::prompt;
use crate::settings::EffectivePolicy;
use crate::types::{AbortSignal, ContentBlock, Route, Seq, Usage};

/// Tokens below which a part of a transcript would say nothing.
const LEAST_ROOM: u32 = 128;
/// What an estimate may be off by, as a share of the window.
const MARGIN: u32 = 20;

/// One node of the range, as the summariser reads it.
pub(crate) struct Entry {
    pub seq: Seq,
    pub text: String,
    /// Ids of its calls that never got a result.
    pub dead_calls: Vec<String>,
}

/// How the summariser is shown the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As a transcript.
    Transcript,
    /// As the session's own request.
    Replay,
    /// As the session's own request; as a transcript where that does not work.
    ReplayFirst,
}

/// A summary that passed, and where it came from.
pub(crate) struct Made {
    pub content: Vec<ContentBlock>,
    pub model: Option<Route>,
    pub max_tokens: Option<u32>,
    pub usage: Option<Usage>,
    /// Nodes that were shown only in part.
    pub elided: Vec<Seq>,
}

/// One summary to be made.
pub(crate) struct Summariser<'a, S, M: Model<S>> {
    pub session: &'a S,
    pub model: &'a M,
    pub signal: Option<&'a M::Signal>,
    pub pricing: Pricing,
    pub policy: &'a EffectivePolicy,
    /// Where the calls go.
    pub route: Route,
    /// What the host knows of the model there.
    pub info: Option<ModelInfo>,
    /// The window to assume where the host does not know the model's.
    pub fallback_window: u32,
    /// How many of the provider's tokens one estimated token stands for.
    pub scale: f64,
    /// What the summary is to dwell on.
    pub focus: Vec<&'a str>,
    /// Whether a replay that is answered by a tool call has failed.
    pub strict: bool,
}

/// What one call may hold.
struct Limits {
    /// Tokens of transcript.
    room: u32,
    /// Tokens of answer.
    max_tokens: u32,
    /// Tokens that a second attempt may raise it to.
    most_tokens: u32,
}

impl<S, M: Model<S>> Summariser<'_, S, M> {
    /// Condense `entries`.
    pub async fn condense(&self, entries: Vec<Entry>, shown: Shown) -> Result<Made, CompactError> {
        match shown {
            Shown::Transcript => self.transcript(entries).await,
            Shown::Replay => self.replay(&entries, self.policy.summary_retries).await,
            Shown::ReplayFirst => match self.replay(&entries, 0).await {
                // A failure of the way, not of the model: the other way may do.
                Err(
                    CompactError::Model(LlmError::ContextOverflow(_))
                    | CompactError::SummaryRejected(Rejection::Empty),
                ) => self.transcript(entries).await,
                made => made,
            },
        }
    }

    /// Tokens that a replay adds to the session's own request.
    pub fn replay_tokens(&self) -> u32 {
        let (_, max_tokens) = self.replay_cap();
        let instruction = self.pricing.text(&prompt::instruction(&self.focus));
        max_tokens.saturating_add(instruction)
    }

    /// The summariser's own limit, and the cap of a first replay.
    fn replay_cap(&self) -> (u32, u32) {
        let most = self
            .info
            .and_then(|info| info.max_output_tokens)
            .unwrap_or(u32::MAX);
        (most, self.policy.summarization_max_tokens.min(most))
    }

    /// Condense `entries` as the session's own request shows them.
    async fn replay(&self, entries: &[Entry], retries: u32) -> Result<Made, CompactError> {
        let dead_calls = entries.iter().flat_map(|entry| {
            let dead = |call_id: &String| DeadCall {
                node: entry.seq,
                call_id: call_id.clone(),
            };
            entry.dead_calls.iter().map(dead)
        });
        let prompt = Prompt::Replay(Replay {
            nodes: entries.iter().map(|entry| entry.seq).collect(),
            dead_calls: dead_calls.collect(),
            instruction: prompt::instruction(&self.focus),
        });
        let (most_tokens, max_tokens) = self.replay_cap();
        let limits = Limits {
            room: 0,
            max_tokens,
            most_tokens,
        };
        self.call(prompt, None, &limits, None, retries).await
    }

    /// Condense a transcript of `entries`, in as many calls as the summariser's
    /// window needs: each after the first is given the summary so far, to be merged.
    async fn transcript(&self, mut entries: Vec<Entry>) -> Result<Made, CompactError> {
        let mut limits = self.limits()?;
        let price = |entry: &Entry| self.pricing.text(&entry.text);
        let total = entries.iter().map(price).fold(0, u32::saturating_add);
        let mut elided = Vec::new();
        let parts = if total <= limits.room {
            vec![&entries[..]]
        } else {
            // Each part but the first also carries the summary so far, however long
            // that may have become.
            limits.max_tokens = limits.max_tokens.min(limits.room / 3);
            limits.most_tokens = limits.most_tokens.min(limits.room / 2);
            limits.room -= limits.most_tokens;
            self.parts(&mut entries, limits.room, &mut elided)
        };
        let count = parts.len();
        let mut made: Option<Made> = None;
        for (index, entries) in parts.iter().enumerate() {
            let mut text = String::new();
            if let Some(earlier) = &made {
                push_earlier(&mut text, &earlier.content);
            }
            for entry in *entries {
                text.push_str(&entry.text);
                text.push('\n');
            }
            let prompt = Prompt::Standalone(Standalone {
                system: prompt::system(),
                user: prompt::user(&text, &self.focus),
                nodes: entries.iter().map(|entry| entry.seq).collect(),
            });
            let part = (count > 1).then_some(Part {
                index: index as u32 + 1,
                count: count as u32,
            });
            let usage = made.and_then(|earlier| earlier.usage);
            let retries = self.policy.summary_retries;
            made = Some(self.call(prompt, part, &limits, usage, retries).await?);
        }
        let made = made.ok_or(CompactError::SummaryRejected(Rejection::Empty))?;
        Ok(Made { elided, ..made })
    }

    /// Have the host condense `entries`.
    pub async fn by_host(&self, entries: &[Entry]) -> Result<Made, CompactError> {
        self.check_abort()?;
        let transcript: String = entries
            .iter()
            .flat_map(|e| [e.text.as_str(), "\n"])
            .collect();
        let call = self.model.summarize(self.session, &transcript, self.signal);
        let summary = call.await?;
        Ok(Made {
            content: accept_text(summary.content)?,
            model: summary.model,
            max_tokens: summary.max_tokens,
            usage: summary.usage,
            elided: Vec::new(),
        })
    }

    fn limits(&self) -> Result<Limits, CompactError> {
        let ModelInfo {
            context_window: window,
            max_output_tokens,
        } = self.info.unwrap_or(ModelInfo {
            context_window: self.fallback_window,
            max_output_tokens: None,
        });
        // However small the window, half of it is for reading.
        let most_tokens = max_output_tokens.unwrap_or(u32::MAX).min(window / 2);
        let max_tokens = self.policy.summarization_max_tokens.min(most_tokens);
        let frame = self
            .pricing
            .text(&prompt::system())
            .saturating_add(self.pricing.text(&prompt::user("", &self.focus)));
        let room = window
            .saturating_sub(most_tokens.min(max_tokens.saturating_mul(2)))
            .saturating_sub(frame)
            .saturating_sub(window / MARGIN);
        // Where the provider counts more than is estimated, less fits.
        let room = (f64::from(room) / self.scale.max(1.0)) as u32;
        if room < LEAST_ROOM {
            let why = format!("the summariser's window of {window} tokens holds no transcript");
            return Err(CompactError::Model(LlmError::ContextOverflow(why)));
        }
        Ok(Limits {
            room,
            max_tokens,
            most_tokens,
        })
    }

    /// Divide the entries into parts that fit `room`. An entry that fits in none
    /// keeps its head and its tail, and is named in `elided`.
    fn parts<'e>(
        &self,
        entries: &'e mut [Entry],
        room: u32,
        elided: &mut Vec<Seq>,
    ) -> Vec<&'e [Entry]> {
        let price = |entry: &Entry| self.pricing.text(&entry.text);
        for entry in entries.iter_mut() {
            if price(entry) > room {
                entry.text = elide(&entry.text, room, self.pricing);
                elided.push(entry.seq);
            }
        }
        let entries: &'e [Entry] = entries;
        let (mut parts, mut from, mut sum) = (Vec::new(), 0, 0u32);
        for (at, entry) in entries.iter().enumerate() {
            let tokens = price(entry);
            if at > from && sum.saturating_add(tokens) > room {
                parts.push(&entries[from..at]);
                (from, sum) = (at, 0);
            }
            sum = sum.saturating_add(tokens);
        }
        parts.push(&entries[from..]);
        parts
    }

    /// One answer that passes. An empty or truncated one is asked for again, with
    /// more room where it was cut off. `spent` is what earlier calls used.
    async fn call(
        &self,
        prompt: Prompt,
        part: Option<Part>,
        limits: &Limits,
        spent: Option<Usage>,
        mut retries: u32,
    ) -> Result<Made, CompactError> {
        let mut options = GenerateOptions {
            route: self.route.clone(),
            prompt,
            max_tokens: Some(limits.max_tokens),
            purpose: "compaction".into(),
            part,
        };
        // In a replay that may be tried otherwise, a tool call is the answer to the
        // session, whatever is said beside it.
        let is_replay = matches!(options.prompt, Prompt::Replay(_));
        let mut usage = spent;
        loop {
            let answer = self.answer(&options).await?;
            usage = sum(usage, answer.usage());
            let went_on = is_replay && self.strict && answer.calls_a_tool();
            let accepted = match went_on {
                true => Err(CompactError::SummaryRejected(Rejection::Empty)),
                false => answer.accept(),
            };
            match accepted {
                Ok(content) => {
                    return Ok(Made {
                        content,
                        model: Some(options.route),
                        max_tokens: options.max_tokens,
                        usage,
                        elided: Vec::new(),
                    });
                }
                Err(CompactError::SummaryRejected(
                    rejection @ (Rejection::Empty | Rejection::Truncated),
                )) if retries > 0 => {
                    retries -= 1;
                    if rejection == Rejection::Truncated {
                        let more = options.max_tokens.map(|max| max.saturating_mul(2));
                        options.max_tokens = more.map(|max| max.min(limits.most_tokens));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn answer(&self, options: &GenerateOptions) -> Result<Answer, CompactError> {
        self.check_abort()?;
        let stream = self.model.stream(self.session, options, self.signal);
        let mut generation = stream.await?;
        let mut answer = Answer::default();
        loop {
            let chunks = generation.next().await?;
            self.check_abort()?;
            if chunks.is_empty() {
                return Ok(answer);
            }
            for chunk in chunks {
                answer.push(chunk);
            }
        }
    }

    fn check_abort(&self) -> Result<(), CompactError> {
        match self.signal {
            Some(signal) if signal.aborted() => Err(CompactError::Aborted),
            _ => Ok(()),
        }
    }
}

fn push_earlier(text: &mut String, summary: &[ContentBlock]) {
    text.push_str("Earlier checkpoint:\n<compacted-summary>\n");
    for block in summary {
        if let ContentBlock::Text(block) = block {
            text.push_str(block);
            text.push('\n');
        }
    }
    text.push_str("</compacted-summary>\n\n");
}

/// The head and the tail of a text, within `room` tokens.
fn elide(text: &str, room: u32, pricing: Pricing) -> String {
    let chars = text.chars().count();
    // A first guess, then less until it fits: the price depends on the text.
    let mut keep = chars * room as usize / pricing.text(text).max(1) as usize;
    loop {
        let nth = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
        let (head, tail) = (keep / 2, keep - keep / 2);
        let left_out = chars - keep;
        let short = format!(
            "{}\n[... {left_out} characters left out ...]\n{}",
            &text[..nth(head)],
            &text[nth(chars - tail)..]
        );
        if keep == 0 || pricing.text(&short) <= room {
            return short;
        }
        keep = keep * 9 / 10;
    }
}

fn sum(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    let (Some(a), Some(b)) = (one, other) else {
        return one.or(other);
    };
    Some(Usage {
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        cache_read_tokens: a.cache_read_tokens.saturating_add(b.cache_read_tokens),
        cache_write_tokens: a.cache_write_tokens.saturating_add(b.cache_write_tokens),
    })
}
