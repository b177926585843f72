//! Loading a backend and calling it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use wasmtime::component::{Component, Linker, Resource, ResourceAny};
use wasmtime::{Cache, Engine, Store};

use crate::bindings::exports::harness::compact::compact as wit;
use crate::bindings::{Compactor as Instance, CompactorPre};
use crate::convert::Cross;
use crate::error::Error;
use crate::imports::{self, Session, Signal, State};
use crate::model::{Hooks, Model};
use crate::session::SessionLog;
use crate::types::{
    AgentContext, CompactError, CompactionResult, Config, Measurement, Message, NowOptions, Pruned,
    SurfaceNode, SurfaceRange, Trigger,
};

/// The basic backend, as a component of the world `harness:compact/compactor`.
pub const BASIC_BACKEND: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/compactor.wasm"));

/// A loaded backend, from which compactors are made. Cheap to clone, and to be
/// shared: loading compiles the component, which takes far longer than anything
/// after it.
#[derive(Clone)]
pub struct CompactHost {
    backend: CompactorPre<State>,
}

impl CompactHost {
    /// Load the basic backend. The compiled code is cached on disk, in wasmtime's
    /// own cache; where that cannot be used it is compiled anew.
    pub fn new() -> Result<Self, Error> {
        Self::with_component(BASIC_BACKEND)
    }

    /// Load a backend from the bytes of a component of the same world. One that
    /// imports anything else, or does not export `compact`, is refused.
    pub fn with_component(component: &[u8]) -> Result<Self, Error> {
        let mut config = wasmtime::Config::new();
        config.cache(Cache::from_file(None).ok());
        let load = || -> wasmtime::Result<Self> {
            let engine = Engine::new(&config)?;
            let component = Component::new(&engine, component)?;
            let mut linker = Linker::new(&engine);
            imports::add_to_linker(&mut linker)?;
            let backend = CompactorPre::new(linker.instantiate_pre(&component)?)?;
            Ok(Self { backend })
        };
        load().map_err(Error::Backend)
    }

    /// Make a compactor that calls `model`.
    pub async fn compactor(
        &self,
        config: Config,
        model: Arc<dyn Model>,
    ) -> Result<Compactor, Error> {
        self.build(config, model, None).await
    }

    /// Make a compactor some of whose steps `hooks` takes over: those that the
    /// configuration's `hooks` name.
    pub async fn compactor_with_hooks(
        &self,
        config: Config,
        model: Arc<dyn Model>,
        hooks: Arc<dyn Hooks>,
    ) -> Result<Compactor, Error> {
        self.build(config, model, Some(hooks)).await
    }

    async fn build(
        &self,
        config: Config,
        model: Arc<dyn Model>,
        hooks: Option<Arc<dyn Hooks>>,
    ) -> Result<Compactor, Error> {
        let mut compactor = Compactor {
            host: self.clone(),
            config,
            model,
            hooks,
            live: None,
        };
        // A wrong configuration is told now, not at the first call.
        compactor.live().await?;
        Ok(compactor)
    }
}

/// Compacts sessions under one configuration.
///
/// It keeps what it has read of each session, by the session's id, and at the
/// next call reads only what is new. It takes one call at a time, as the `&mut`
/// says: make one for each session that is to be compacted side by side.
///
/// Dropping a call's future abandons it where it stands. The session is whole
/// then, but its compaction lock may still be held; cancel the signal instead.
pub struct Compactor {
    host: CompactHost,
    config: Config,
    model: Arc<dyn Model>,
    hooks: Option<Arc<dyn Hooks>>,
    /// None before the first call, and after one that was not brought to its end.
    live: Option<Live>,
}

struct Live {
    store: Store<State>,
    instance: Instance,
    compactor: ResourceAny,
}

/// One call on the live instance: `$call` is given the store, the compactor, and
/// handles for the session and the signal.
macro_rules! call {
    ($self:ident, $session:ident, $signal:expr, |$guest:ident, $store:ident, $compactor:ident, $log:ident, $cancel:ident| $call:expr) => {{
        $self.live().await?;
        // Taken out for the time of the call: whatever ends it early, an instance
        // in the middle of something is never called again.
        let Some(Live {
            mut store,
            instance,
            compactor: $compactor,
        }) = $self.live.take()
        else {
            unreachable!("it was just made");
        };
        let table = &mut store.data_mut().table;
        let session = table
            .push(Session($session.clone()))
            .map_err(broken_table)?;
        let signal: Option<&CancellationToken> = $signal;
        let signal = Signal(signal.cloned().unwrap_or_default());
        let signal = table.push(signal).map_err(broken_table)?;
        let $log = Resource::new_borrow(session.rep());
        let $cancel = Some(Resource::<Signal>::new_borrow(signal.rep()));
        let outcome: Result<_, wit::CompactError> = {
            let interface = instance.harness_compact_compact();
            let $guest = interface.compactor();
            let $store = &mut store;
            $call.await.map_err(Error::Backend)?
        };
        let table = &mut store.data_mut().table;
        table.delete(session).map_err(broken_table)?;
        table.delete(signal).map_err(broken_table)?;
        $self.live = Some(Live {
            store,
            instance,
            compactor: $compactor,
        });
        match outcome {
            Ok(answer) => Ok(answer.cross()),
            Err(error) => Err(Error::Compact(error.cross())),
        }
    }};
}

impl Compactor {
    /// Estimate the next request: session prefix, surface, system prompt and tools.
    pub async fn measure(
        &mut self,
        session: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
    ) -> Result<Measurement, Error> {
        let agent = agent.clone().cross();
        let prefix = session_prefix.to_vec().cross();
        call!(
            self,
            session,
            None,
            |guest, store, compactor, log, _signal| {
                guest.call_measure(store, compactor, log, &agent, full_system_prompt, &prefix)
            }
        )
    }

    /// The surface, node by node, as the backend sees it.
    pub async fn surface(
        &mut self,
        session: &Arc<dyn SessionLog>,
    ) -> Result<Vec<SurfaceNode>, Error> {
        call!(
            self,
            session,
            None,
            |guest, store, compactor, log, _signal| { guest.call_surface(store, compactor, log) }
        )
    }

    /// Compact if `trigger` calls for it; none where nothing needs or can be done.
    /// To be called before each step of a loop, with what the step will send.
    pub async fn compact_if_needed(
        &mut self,
        session: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
        trigger: Trigger,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, Error> {
        let agent = agent.clone().cross();
        let prefix = session_prefix.to_vec().cross();
        call!(
            self,
            session,
            signal,
            |guest, store, compactor, log, cancel| {
                guest.call_compact_if_needed(
                    store,
                    compactor,
                    log,
                    &agent,
                    full_system_prompt,
                    &prefix,
                    trigger.cross(),
                    cancel,
                )
            }
        )
    }

    /// Compact this inclusive range of surface nodes, whatever the pressure.
    pub async fn compact_region(
        &mut self,
        session: &Arc<dyn SessionLog>,
        range: SurfaceRange,
        agent: &AgentContext,
        signal: Option<&CancellationToken>,
    ) -> Result<CompactionResult, Error> {
        let agent = agent.clone().cross();
        call!(
            self,
            session,
            signal,
            |guest, store, compactor, log, cancel| {
                guest.call_compact_region(store, compactor, log, range.cross(), &agent, cancel)
            }
        )
    }

    /// Compact on a user's command, whatever the pressure; none where there is
    /// nothing to gain.
    pub async fn compact_now(
        &mut self,
        session: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        options: &NowOptions,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, Error> {
        let agent = agent.clone().cross();
        let options = options.clone().cross();
        call!(
            self,
            session,
            signal,
            |guest, store, compactor, log, cancel| {
                guest.call_compact_now(store, compactor, log, &agent, &options, cancel)
            }
        )
    }

    /// Rewrite every oversized tool result on the surface, without a model.
    pub async fn prune(&mut self, session: &Arc<dyn SessionLog>) -> Result<Vec<Pruned>, Error> {
        call!(
            self,
            session,
            None,
            |guest, store, compactor, log, _signal| { guest.call_prune(store, compactor, log) }
        )
    }

    /// Make the instance, if there is none.
    async fn live(&mut self) -> Result<(), Error> {
        if self.live.is_some() {
            return Ok(());
        }
        let state = State {
            table: Default::default(),
            model: self.model.clone(),
            hooks: self.hooks.clone(),
        };
        let engine = self.host.backend.engine();
        let mut store = Store::new(engine, state);
        let instance = self.host.backend.instantiate_async(&mut store).await;
        let instance = instance.map_err(Error::Backend)?;
        let compactor = instance.harness_compact_compact().compactor();
        let created = compactor
            .call_create(&mut store, &self.config.clone().cross())
            .await;
        let compactor = created
            .map_err(Error::Backend)?
            .map_err(|error| CompactError::Config(error.cross()))?;
        self.live = Some(Live {
            store,
            instance,
            compactor,
        });
        Ok(())
    }
}

fn broken_table(error: wasmtime::component::ResourceTableError) -> Error {
    Error::Backend(error.into())
}
