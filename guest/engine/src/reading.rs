//! Reading a log: new events into the fold, and nodes by seq.

use crate::compact::CompactError;
use crate::estimate::Pricing;
use crate::fold::Fold;
use crate::session::{Event, SessionError, SessionLog};
use crate::types::Seq;

/// How many events are asked for at once.
const PAGE: u32 = 512;

/// A session's log, as the engine reads it.
pub(crate) struct Reader<'a, S> {
    pub session: &'a S,
    pub pricing: Pricing,
}

impl<S: SessionLog> Reader<'_, S> {
    /// Take every event that `fold` has not seen.
    pub async fn catch_up(&self, fold: &mut Fold) -> Result<(), CompactError> {
        let head = self.session.head().await?;
        if head < fold.next {
            // Not the log that was folded: a truncated or another one.
            *fold = Fold::default();
        }
        while fold.next < head {
            for event in self.page(fold.next, head - fold.next).await? {
                let tokens = event.surface.and_then(|_| self.pricing.node(&event.payload));
                fold.apply(&event, tokens)
                    .map_err(|why| corrupt(format!("event {}: {why}", event.seq)))?;
            }
        }
        Ok(())
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
