//! Session storage, as a host supplies it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::types::{Draft, Event, Seq, SessionError};

/// One session's append-only event log.
///
/// A store keeps events and derives nothing: what they amount to is the
/// backend's to find out. Seqs start at 0 and have no gaps.
#[async_trait]
pub trait SessionLog: Send + Sync {
    /// Stable identity of the session, under which a compactor keeps what it has
    /// read. Two sessions never share one.
    fn id(&self) -> String;

    /// The number of events, which is the seq of the next one.
    async fn head(&self) -> Result<Seq, SessionError>;

    /// Up to `limit` events from `start` on, in order. Fewer where that suits the
    /// store, but never none while `start` is below the head.
    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError>;

    /// Append all of `drafts` or none, and return the first one's seq. With
    /// `expected_head` only if the head still is that: otherwise the error is
    /// [`SessionError::Conflict`] with the head as it is.
    async fn append(
        &self,
        drafts: Vec<Draft>,
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError>;

    /// Return once everything appended so far is durable.
    async fn flush(&self) -> Result<(), SessionError>;
}

/// A log that lives in memory, for tests and for loops that store elsewhere.
#[derive(Debug, Default)]
pub struct MemoryLog {
    id: String,
    events: Mutex<Vec<Event>>,
}

impl MemoryLog {
    /// An empty log.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            events: Mutex::default(),
        }
    }

    /// Add an event, as the agent loop does.
    pub fn push(&self, draft: Draft) -> Seq {
        let mut events = self.lock();
        let seq = events.len() as Seq;
        events.push(number(draft, seq));
        seq
    }

    /// A copy of every event.
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionLog for MemoryLog {
    fn id(&self) -> String {
        self.id.clone()
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        Ok(self.lock().len() as Seq)
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        let events = self.lock();
        let events = events.iter().skip(start as usize).take(limit as usize);
        Ok(events.cloned().collect())
    }

    async fn append(
        &self,
        drafts: Vec<Draft>,
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        let mut events = self.lock();
        let head = events.len() as Seq;
        check_head(head, expected_head)?;
        events.extend(
            drafts
                .into_iter()
                .zip(head..)
                .map(|(d, seq)| number(d, seq)),
        );
        Ok(head)
    }

    async fn flush(&self) -> Result<(), SessionError> {
        Ok(())
    }
}

/// The condition of a compare-and-append.
pub(crate) fn check_head(head: Seq, expected: Option<Seq>) -> Result<(), SessionError> {
    match expected {
        Some(expected) if expected != head => Err(SessionError::Conflict(head)),
        _ => Ok(()),
    }
}

fn number(draft: Draft, seq: Seq) -> Event {
    Event {
        seq,
        payload: draft.payload,
        surface: draft.surface,
        sources: draft.sources,
    }
}
