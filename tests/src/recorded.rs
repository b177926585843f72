//! A log that keeps what is asked of it, and fails when it is told to.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use harness_compact_host::types::{Draft, Event, Seq, SessionError};
use harness_compact_host::{MemoryLog, SessionLog};

/// One call of a log's.
#[derive(Clone, Debug, PartialEq)]
pub enum LogCall {
    /// A read that was answered with these events.
    Read(Vec<Seq>),
    /// An append of this many drafts.
    Append(usize),
    /// A flush.
    Flush,
}

type Fault = Box<dyn Fn(&LogCall) -> Option<SessionError> + Send + Sync>;

/// A log in memory that records its calls.
pub struct RecordedLog {
    log: Arc<MemoryLog>,
    calls: Mutex<Vec<LogCall>>,
    fault: Option<Fault>,
    page: u32,
}

impl RecordedLog {
    /// A log over `log`.
    pub fn new(log: Arc<MemoryLog>) -> Self {
        Self {
            log,
            calls: Mutex::default(),
            fault: None,
            page: u32::MAX,
        }
    }

    /// Fail the calls for which this answers an error.
    pub fn failing(
        mut self,
        fault: impl Fn(&LogCall) -> Option<SessionError> + Send + Sync + 'static,
    ) -> Self {
        self.fault = Some(Box::new(fault));
        self
    }

    /// Answer at most this many events a read.
    pub fn paged(mut self, page: u32) -> Self {
        self.page = page;
        self
    }

    /// What was asked since the last time, and forget it.
    pub fn take_calls(&self) -> Vec<LogCall> {
        std::mem::take(&mut self.calls.lock().expect("not poisoned"))
    }

    fn record(&self, call: LogCall) -> Result<(), SessionError> {
        let fault = self.fault.as_ref().and_then(|fault| fault(&call));
        self.calls.lock().expect("not poisoned").push(call);
        fault.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl SessionLog for RecordedLog {
    fn id(&self) -> String {
        self.log.id()
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        self.log.head().await
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        let events = self.log.read(start, limit.min(self.page)).await?;
        let seqs = events.iter().map(|event| event.seq).collect();
        self.record(LogCall::Read(seqs))?;
        Ok(events)
    }

    async fn append(
        &self,
        drafts: Vec<Draft>,
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.record(LogCall::Append(drafts.len()))?;
        self.log.append(drafts, expected_head).await
    }

    async fn flush(&self) -> Result<(), SessionError> {
        self.record(LogCall::Flush)?;
        self.log.flush().await
    }
}
