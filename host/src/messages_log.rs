//! Arrays of messages, as the usual interfaces have them, as session logs and back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use harness_compact_formats::{Form, ReadOptions, Session, parse};
use serde_json::Value;

use crate::session::SessionLog;
use crate::types::{Draft, Event, Seq, SessionError};

/// A session over an array of messages of one interface: OpenAI's chat completions or
/// Responses, Anthropic's, or the AI SDK's.
///
/// The messages stay what they are: those that no compaction touched come back from
/// [`MessagesLog::to_messages`] member for member.
///
/// ```
/// use harness_compact_host::{Form, MessagesLog};
/// use serde_json::json;
///
/// let messages = [json!({"role": "user", "content": "Hello"})];
/// let session = MessagesLog::from_messages(&messages, Form::OpenaiChat, "session-1").unwrap();
/// session.push(&json!({"role": "assistant", "content": "Hello."})).unwrap();
/// // Before each step: compactor.compact_if_needed(&session, …), then:
/// assert_eq!(session.to_messages().unwrap().len(), 2);
/// assert!(session.push(&json!({"role": "wizard"})).is_err());
/// ```
#[derive(Debug)]
pub struct MessagesLog {
    id: String,
    session: Mutex<Session>,
    /// How often its events were numbered anew.
    generation: AtomicU32,
}

impl MessagesLog {
    /// A session over these messages. `form` is that of an array of messages; the error
    /// says which message is none of it.
    pub fn from_messages(
        messages: &[Value],
        form: Form,
        id: impl Into<String>,
    ) -> Result<Self, SessionError> {
        if !form.is_messages() {
            let why = format!("{} is no form of message arrays", form.name());
            return Err(SessionError::Rejected(why));
        }
        let options = ReadOptions {
            form: Some(form),
            skip_damaged: false,
        };
        let text = Value::from(messages.to_vec()).to_string();
        let session = Session::read(text.into_bytes(), options);
        let session = session.map_err(|fault| SessionError::Rejected(fault.to_string()))?;
        Ok(Self {
            id: id.into(),
            session: Mutex::new(session),
            generation: AtomicU32::new(0),
        })
    }

    /// The conversation goes on.
    pub fn push(&self, message: &Value) -> Result<(), SessionError> {
        let pushed = self.lock().push(&message.to_string());
        let renumbered = pushed.map_err(|fault| SessionError::Rejected(fault.to_string()))?;
        if renumbered {
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The messages of the next request, a checkpoint in place of those it stands for.
    /// A call that was interrupted has an error result after it.
    pub fn to_messages(&self) -> Result<Vec<Value>, SessionError> {
        let messages = self.lock().messages();
        let messages = messages.map_err(|refusal| SessionError::Other(refusal.to_string()))?;
        let parsed = messages.iter().map(|message| parse(message.as_bytes()));
        parsed
            .collect::<Result<_, _>>()
            .map_err(SessionError::Other)
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionLog for MessagesLog {
    /// The session's id; another one after the first message behind a compaction,
    /// because the events are numbered anew then.
    fn id(&self) -> String {
        match self.generation.load(Ordering::Relaxed) {
            0 => self.id.clone(),
            generation => format!("{}#{generation}", self.id),
        }
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        Ok(self.lock().head())
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        self.lock().events(start, limit)
    }

    async fn append(
        &self,
        drafts: Vec<Draft>,
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.lock().append(&drafts, expected_head)
    }

    async fn flush(&self) -> Result<(), SessionError> {
        Ok(())
    }
}
