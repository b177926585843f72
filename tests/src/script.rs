//! A model that answers as it is told to.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use harness_compact_host::types::{
    Chunk, Finish, FinishReason, GenerateOptions, LlmError, ModelInfo, Route,
};
use harness_compact_host::{CancellationToken, Generation, Model, SessionLog};

/// One answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// These chunks, as they are.
    Chunks(Vec<Chunk>),
    /// The call fails before it answers.
    Fails(LlmError),
    /// The answer fails after these chunks.
    Breaks(Vec<Chunk>, LlmError),
}

impl Reply {
    /// This text, and a normal end.
    pub fn text(text: impl Into<String>) -> Self {
        Self::ends(text, FinishReason::Stop)
    }

    /// This text, and this end.
    pub fn ends(text: impl Into<String>, reason: FinishReason) -> Self {
        let finish = Finish {
            reason,
            usage: None,
        };
        Self::Chunks(vec![Chunk::Text(text.into()), Chunk::Finish(finish)])
    }
}

type OnCall = Box<dyn Fn(usize) + Send + Sync>;

/// A model that gives its replies one after the other, and keeps what it was asked.
/// When they run out it answers without text.
#[derive(Default)]
pub struct ScriptedModel {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<GenerateOptions>>,
    /// What is known of every model.
    pub info: Option<ModelInfo>,
    on_call: Option<OnCall>,
}

impl ScriptedModel {
    /// A text that stands for one of as many tokens as the call allows.
    pub const AT_ITS_CAP: &str = "\0";

    /// A model with these replies.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Mutex::new(replies.into_iter().collect()),
            ..Self::default()
        }
    }

    /// What is known of every model.
    pub fn with_window(mut self, context_window: u32) -> Self {
        self.info = Some(ModelInfo {
            context_window,
            max_output_tokens: None,
        });
        self
    }

    /// What happens while it is being called; given the call's index.
    pub fn on_call(mut self, happens: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.on_call = Some(Box::new(happens));
        self
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<GenerateOptions> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn describe_model(&self, _route: &Route) -> Option<ModelInfo> {
        self.info
    }

    async fn stream(
        &self,
        _session: &dyn SessionLog,
        options: GenerateOptions,
        _signal: &CancellationToken,
    ) -> Result<Generation, LlmError> {
        let cap = options.max_tokens.unwrap_or(0);
        let index = {
            let mut requests = self.requests.lock().expect("not poisoned");
            requests.push(options);
            requests.len() - 1
        };
        if let Some(happens) = &self.on_call {
            happens(index);
        }
        let reply = self.replies.lock().expect("not poisoned").pop_front();
        let mut reply = reply.unwrap_or_else(|| Reply::text(""));
        if let Reply::Chunks(chunks) = &mut reply {
            for chunk in chunks {
                if let Chunk::Text(text) = chunk
                    && text == Self::AT_ITS_CAP
                {
                    *text = "word ".repeat(cap as usize * 4 / 5);
                }
            }
        }
        let items = match reply {
            Reply::Fails(error) => return Err(error),
            Reply::Chunks(chunks) => chunks.into_iter().map(Ok).collect(),
            Reply::Breaks(chunks, error) => {
                let chunks = chunks.into_iter().map(Ok);
                chunks.chain([Err(error)]).collect::<Vec<_>>()
            }
        };
        Ok(stream::iter(items).boxed())
    }
}
