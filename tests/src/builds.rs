//! One interface for every build.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use harness_compact_host::types::{
    AgentContext, CompactError, CompactionResult, Config, Measurement, Message, NowOptions, Pruned,
    SurfaceNode, SurfaceRange, Trigger,
};
use harness_compact_host::{
    CancellationToken, CompactHost, Compactor, Error, Hooks, Model, SessionLog,
};

use crate::native::NativeBuild;
use crate::node::NodeBuild;

/// A build of the compactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// The engine, compiled for this machine.
    Native,
    /// The component, in wasmtime.
    Wasmtime,
    /// The npm package's component build, in the `node` on PATH or that `NODE` names.
    Component,
    /// Its bindgen build.
    Bindgen,
}

/// A compactor of some build. Its errors are the contract's; a trap, which is a
/// bug wherever it comes from, panics.
#[async_trait(?Send)]
pub trait Build {
    /// See [`Compactor::measure`].
    async fn measure(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
    ) -> Result<Measurement, CompactError>;

    /// See [`Compactor::surface`].
    async fn surface(
        &mut self,
        log: &Arc<dyn SessionLog>,
    ) -> Result<Vec<SurfaceNode>, CompactError>;

    /// See [`Compactor::compact_if_needed`].
    async fn compact_if_needed(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
        trigger: Trigger,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, CompactError>;

    /// See [`Compactor::compact_region`].
    async fn compact_region(
        &mut self,
        log: &Arc<dyn SessionLog>,
        range: SurfaceRange,
        agent: &AgentContext,
        signal: Option<&CancellationToken>,
    ) -> Result<CompactionResult, CompactError>;

    /// See [`Compactor::compact_now`].
    async fn compact_now(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        options: &NowOptions,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, CompactError>;

    /// See [`Compactor::prune`].
    async fn prune(&mut self, log: &Arc<dyn SessionLog>) -> Result<Vec<Pruned>, CompactError>;
}

/// Make a compactor of this build.
pub async fn create(
    kind: Kind,
    config: Config,
    model: Arc<dyn Model>,
    hooks: Option<Arc<dyn Hooks>>,
) -> Result<Box<dyn Build>, CompactError> {
    Ok(match kind {
        Kind::Native => Box::new(NativeBuild::new(config, model, hooks)?),
        Kind::Component => Box::new(NodeBuild::new("component", config, model).await?),
        Kind::Bindgen => Box::new(NodeBuild::new("bindgen", config, model).await?),
        Kind::Wasmtime => {
            static HOST: OnceLock<CompactHost> = OnceLock::new();
            let host = HOST.get_or_init(|| CompactHost::new().expect("the embedded backend loads"));
            let compactor = match hooks {
                Some(hooks) => host.compactor_with_hooks(config, model, hooks).await,
                None => host.compactor(config, model).await,
            };
            Box::new(WasmtimeBuild(contract(compactor)?))
        }
    })
}

/// The component in wasmtime.
pub struct WasmtimeBuild(pub(crate) Compactor);

pub(crate) fn contract<T>(outcome: Result<T, Error>) -> Result<T, CompactError> {
    outcome.map_err(|error| match error {
        Error::Compact(error) => error,
        Error::Backend(error) => panic!("the component trapped: {error:?}"),
    })
}

#[async_trait(?Send)]
impl Build for WasmtimeBuild {
    async fn measure(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
    ) -> Result<Measurement, CompactError> {
        let compactor = &mut self.0;
        contract(
            compactor
                .measure(log, agent, full_system_prompt, session_prefix)
                .await,
        )
    }

    async fn surface(
        &mut self,
        log: &Arc<dyn SessionLog>,
    ) -> Result<Vec<SurfaceNode>, CompactError> {
        contract(self.0.surface(log).await)
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
        let call = self.0.compact_if_needed(
            log,
            agent,
            full_system_prompt,
            session_prefix,
            trigger,
            signal,
        );
        contract(call.await)
    }

    async fn compact_region(
        &mut self,
        log: &Arc<dyn SessionLog>,
        range: SurfaceRange,
        agent: &AgentContext,
        signal: Option<&CancellationToken>,
    ) -> Result<CompactionResult, CompactError> {
        contract(self.0.compact_region(log, range, agent, signal).await)
    }

    async fn compact_now(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        options: &NowOptions,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        contract(self.0.compact_now(log, agent, options, signal).await)
    }

    async fn prune(&mut self, log: &Arc<dyn SessionLog>) -> Result<Vec<Pruned>, CompactError> {
        contract(self.0.prune(log).await)
    }
}
