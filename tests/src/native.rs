//! The engine, compiled for this machine, behind the host's traits.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use harness_compact_engine as engine;
use harness_compact_host::types::{
    AgentContext, CompactError, CompactionResult, Config, Measurement, Message, NowOptions, Pruned,
    SurfaceNode, SurfaceRange, Trigger,
};
use harness_compact_host::{CancellationToken, Generation, Hooks, Model, SessionLog};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builds::Build;

/// The engine without a component around it.
pub struct NativeBuild {
    compactor: engine::Compactor,
    model: NativeModel,
}

impl NativeBuild {
    /// Make a compactor.
    pub fn new(
        config: Config,
        model: Arc<dyn Model>,
        hooks: Option<Arc<dyn Hooks>>,
    ) -> Result<Self, CompactError> {
        let compactor = engine::Compactor::new(same(config));
        Ok(Self {
            compactor: compactor.map_err(|error| CompactError::Config(same(error)))?,
            model: NativeModel { model, hooks },
        })
    }
}

/// The same value in the other crate's type of the same shape.
fn same<A: Serialize, B: DeserializeOwned>(value: A) -> B {
    let json = serde_json::to_value(value).expect("the contract's types are plain data");
    serde_json::from_value(json).expect("both crates have the contract's types")
}

fn outcome<A: Serialize, B: DeserializeOwned>(
    outcome: Result<A, engine::CompactError>,
) -> Result<B, CompactError> {
    outcome.map(same).map_err(same)
}

#[async_trait(?Send)]
impl Build for NativeBuild {
    async fn measure(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
    ) -> Result<Measurement, CompactError> {
        let (log, agent) = (NativeLog(log.clone()), same(agent));
        let prefix: Vec<engine::Message> = same(session_prefix);
        let compactor = &self.compactor;
        outcome(
            compactor
                .measure(&log, &self.model, &agent, full_system_prompt, &prefix)
                .await,
        )
    }

    async fn surface(
        &mut self,
        log: &Arc<dyn SessionLog>,
    ) -> Result<Vec<SurfaceNode>, CompactError> {
        outcome(
            self.compactor
                .surface(&NativeLog(log.clone()), &self.model)
                .await,
        )
    }

    async fn compact_if_needed(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
        trigger: Trigger,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let (log, agent) = (NativeLog(log.clone()), same(agent));
        let prefix: Vec<engine::Message> = same(session_prefix);
        let signal = signal.map(|signal| Signal(signal.clone()));
        let call = self.compactor.compact_if_needed(
            &log,
            &self.model,
            &agent,
            full_system_prompt,
            &prefix,
            same(trigger),
            signal.as_ref(),
        );
        outcome(call.await)
    }

    async fn compact_region(
        &mut self,
        log: &Arc<dyn SessionLog>,
        range: SurfaceRange,
        agent: &AgentContext,
        signal: Option<&CancellationToken>,
    ) -> Result<CompactionResult, CompactError> {
        let (log, agent) = (NativeLog(log.clone()), same(agent));
        let signal = signal.map(|signal| Signal(signal.clone()));
        let compactor = &self.compactor;
        let range = same(range);
        outcome(
            compactor
                .compact_region(&log, &self.model, range, &agent, signal.as_ref())
                .await,
        )
    }

    async fn compact_now(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        options: &NowOptions,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let (log, agent) = (NativeLog(log.clone()), same(agent));
        let (options, signal) = (same(options), signal.map(|signal| Signal(signal.clone())));
        let compactor = &self.compactor;
        outcome(
            compactor
                .compact_now(&log, &self.model, &agent, &options, signal.as_ref())
                .await,
        )
    }

    async fn prune(&mut self, log: &Arc<dyn SessionLog>) -> Result<Vec<Pruned>, CompactError> {
        outcome(
            self.compactor
                .prune(&NativeLog(log.clone()), &self.model)
                .await,
        )
    }
}

struct NativeLog(Arc<dyn SessionLog>);

impl engine::SessionLog for NativeLog {
    fn id(&self) -> String {
        self.0.id()
    }

    async fn head(&self) -> Result<engine::Seq, engine::SessionError> {
        self.0.head().await.map_err(same)
    }

    async fn read(
        &self,
        start: engine::Seq,
        limit: u32,
    ) -> Result<Vec<engine::Event>, engine::SessionError> {
        self.0.read(start, limit).await.map(same).map_err(same)
    }

    async fn append(
        &self,
        drafts: &[engine::Draft],
        expected_head: Option<engine::Seq>,
    ) -> Result<engine::Seq, engine::SessionError> {
        self.0
            .append(same(drafts), expected_head)
            .await
            .map_err(same)
    }

    async fn flush(&self) -> Result<(), engine::SessionError> {
        self.0.flush().await.map_err(same)
    }
}

struct Signal(CancellationToken);

impl engine::AbortSignal for Signal {
    fn aborted(&self) -> bool {
        self.0.is_cancelled()
    }
}

struct NativeGeneration(Generation);

impl engine::Generation for NativeGeneration {
    async fn next(&mut self) -> Result<Vec<engine::Chunk>, engine::LlmError> {
        match self.0.next().await {
            Some(Ok(chunk)) => Ok(vec![same(chunk)]),
            Some(Err(error)) => Err(same(error)),
            None => Ok(Vec::new()),
        }
    }
}

struct NativeModel {
    model: Arc<dyn Model>,
    hooks: Option<Arc<dyn Hooks>>,
}

impl engine::Model<NativeLog> for NativeModel {
    type Signal = Signal;
    type Generation = NativeGeneration;

    async fn describe_model(&self, route: &engine::Route) -> Option<engine::ModelInfo> {
        self.model.describe_model(&same(route)).await.map(same)
    }

    async fn stream(
        &self,
        session: &NativeLog,
        options: &engine::GenerateOptions,
        signal: Option<&Signal>,
    ) -> Result<NativeGeneration, engine::LlmError> {
        let signal = signal.map(|signal| signal.0.clone()).unwrap_or_default();
        let call = self.model.stream(&*session.0, same(options), &signal);
        call.await.map(NativeGeneration).map_err(same)
    }

    async fn estimate_content_tokens(
        &self,
        groups: &[Vec<engine::ContentBlock>],
    ) -> Result<Vec<u32>, String> {
        match &self.hooks {
            Some(hooks) => hooks.estimate_content_tokens(same(groups)).await,
            None => Err("the host has no hooks".into()),
        }
    }

    async fn summarize(
        &self,
        session: &NativeLog,
        transcript: &str,
        signal: Option<&Signal>,
    ) -> Result<engine::Summary, engine::LlmError> {
        let signal = signal.map(|signal| signal.0.clone()).unwrap_or_default();
        let Some(hooks) = &self.hooks else {
            return Err(engine::LlmError::Other("the host has no hooks".into()));
        };
        let call = hooks.summarize(&*session.0, transcript.into(), &signal);
        call.await.map(same).map_err(same)
    }
}
