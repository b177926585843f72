//! Reading a log: new events into the fold, and nodes by seq.

use crate::compact::{CompactError, HookError};
use crate::estimate::{self, Pricing};
use crate::fold::Fold;
use crate::llm::Model;
use crate::session::{Event, Payload, SessionError, SessionLog};
use crate::types::{ContentBlock, Seq};

/// How many events are asked for at once.
const PAGE: u32 = 512;

/// A session's log, as the engine reads it.
pub(crate) struct Reader<'a, S, M> {
    pub session: &'a S,
    pub model: &'a M,
    pub pricing: Pricing,
    /// Whether the host counts the tokens of content.
    pub host_counts: bool,
}

impl<S: SessionLog, M: Model<S>> Reader<'_, S, M> {
    /// Take every event that `fold` has not seen.
    pub async fn catch_up(&self, fold: &mut Fold) -> Result<(), CompactError> {
        let head = self.session.head().await?;
        if head < fold.next {
            // Not the log that was folded: a truncated or another one.
            *fold = Fold::default();
        }
        while fold.next < head {
            let events = self.page(fold.next, head - fold.next).await?;
            let tokens = self.price_nodes(&events).await?;
            for (event, tokens) in events.iter().zip(tokens) {
                fold.apply(event, tokens)
                    .map_err(|why| corrupt(format!("event {}: {why}", event.seq)))?;
            }
        }
        Ok(())
    }

    /// Whether a node at this price may hold more than `chars` code points of text.
    pub fn could_hold(&self, tokens: u32, chars: usize) -> bool {
        // The cheapest a code point can be is one of Latin; what a host counts is
        // not known to follow any rule.
        self.host_counts || f64::from(tokens) * self.pricing.chars_per_token.max(8.0) > chars as f64
    }

    /// What a message costs, its role included.
    pub async fn price_message(&self, content: &[ContentBlock]) -> Result<u32, CompactError> {
        if !self.host_counts {
            return Ok(self.pricing.message(content));
        }
        let counts = self.count(&[content.to_vec()]).await?;
        Ok(self.pricing.counted_message(counts[0]))
    }

    /// What each event costs on the surface; none for those that are not nodes.
    async fn price_nodes(&self, events: &[Event]) -> Result<Vec<Option<u32>>, CompactError> {
        let on_surface = |event: &&Event| event.surface.is_some();
        if !self.host_counts {
            let price =
                |event: &Event| on_surface(&event).then(|| self.pricing.node(&event.payload));
            return Ok(events.iter().map(|event| price(event).flatten()).collect());
        }
        let group = |event: &Event| match &event.payload {
            Payload::ToolResult(result) => Some(vec![ContentBlock::ToolResult(result.clone())]),
            payload => estimate::content(payload).map(<[_]>::to_vec),
        };
        let nodes = events.iter().filter(on_surface);
        let groups: Vec<Vec<ContentBlock>> = nodes.filter_map(group).collect();
        let mut counts = self.count(&groups).await?.into_iter();
        let price = |event: &Event| {
            let is_node = event.surface.is_some() && group(event).is_some();
            let count = if is_node { counts.next() } else { None }?;
            Some(match estimate::makes_no_message(&event.payload) {
                true => 0,
                false => self.pricing.counted_message(count),
            })
        };
        Ok(events.iter().map(price).collect())
    }

    /// The host's count of each group, checked.
    async fn count(&self, groups: &[Vec<ContentBlock>]) -> Result<Vec<u32>, CompactError> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |message: String| {
            CompactError::Hook(HookError {
                hook: "estimate-content-tokens".into(),
                message,
            })
        };
        let counts = self
            .model
            .estimate_content_tokens(groups)
            .await
            .map_err(failed)?;
        if counts.len() != groups.len() {
            let (given, got) = (groups.len(), counts.len());
            return Err(failed(format!(
                "it was given {given} groups and answered {got} figures"
            )));
        }
        for (count, group) in counts.iter().zip(groups) {
            let most = estimate::most_tokens(group);
            if u64::from(*count) > most {
                return Err(failed(format!(
                    "it answered {count} tokens for at most {most}"
                )));
            }
        }
        Ok(counts)
    }

    /// The events of these surface nodes, in their order.
    pub async fn nodes(&self, seqs: &[Seq]) -> Result<Vec<Event>, CompactError> {
        let mut events = Vec::with_capacity(seqs.len());
        while events.len() < seqs.len() {
            // Neighbours in one call.
            let wanted = &seqs[events.len()..];
            let run = wanted.iter().zip(wanted[0]..);
            let run = run.take_while(|(seq, next)| **seq == *next).count();
            events.extend(self.page(wanted[0], run as u32).await?);
        }
        Ok(events)
    }

    /// One read, checked: between one and `limit` events, contiguous from `start`.
    async fn page(&self, start: Seq, limit: u32) -> Result<Vec<Event>, CompactError> {
        let limit = limit.min(PAGE);
        let events = self.session.read(start, limit).await?;
        let contiguous = events.iter().zip(start..).all(|(e, seq)| e.seq == seq);
        if events.is_empty() || events.len() > limit as usize || !contiguous {
            return Err(corrupt(format!(
                "a read of {limit} events from {start} on answered {} that are not those",
                events.len()
            )));
        }
        Ok(events)
    }
}

pub(crate) fn corrupt(why: String) -> CompactError {
    CompactError::Session(SessionError::Corrupt(why))
}
