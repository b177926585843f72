//! What a component may ask of its host: a thin layer that hands each call to a
//! [`SessionLog`], a [`Model`] or [`Hooks`].

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};

use crate::bindings::harness::compact::{hooks, llm_stream, session, types};
use crate::convert::Cross;
use crate::model::{self, Hooks, Model};
use crate::session::SessionLog;
use crate::types::{LlmError, Seq};

/// A session that a component has a handle to.
pub struct Session(pub(crate) Arc<dyn SessionLog>);

/// A caller's signal that a component has a handle to.
pub struct Signal(pub(crate) CancellationToken);

/// An answer that a component is reading.
pub struct Generation {
    chunks: model::Generation,
    signal: CancellationToken,
    /// An error that came right behind chunks, which go first.
    error: Option<LlmError>,
}

/// What a store holds.
pub(crate) struct State {
    pub table: ResourceTable,
    pub model: Arc<dyn Model>,
    pub hooks: Option<Arc<dyn Hooks>>,
}

impl HasData for State {
    type Data<'a> = &'a mut State;
}

/// Supply every import of the world.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    types::add_to_linker::<State, State>(linker, |state| state)?;
    session::add_to_linker::<State, State>(linker, |state| state)?;
    llm_stream::add_to_linker::<State, State>(linker, |state| state)?;
    hooks::add_to_linker::<State, State>(linker, |state| state)
}

impl State {
    fn log(&self, session: &Resource<Session>) -> wasmtime::Result<Arc<dyn SessionLog>> {
        Ok(self.table.get(session)?.0.clone())
    }

    fn signal(&self, signal: Option<&Resource<Signal>>) -> wasmtime::Result<CancellationToken> {
        Ok(match signal {
            Some(signal) => self.table.get(signal)?.0.clone(),
            None => CancellationToken::new(),
        })
    }
}

/// A call's outcome, or `Aborted` as soon as the caller has given up on it.
async fn unless_aborted<T>(
    signal: &CancellationToken,
    call: impl Future<Output = Result<T, LlmError>>,
) -> Result<T, LlmError> {
    let outcome = signal.run_until_cancelled(call).await;
    outcome.unwrap_or(Err(LlmError::Aborted))
}

impl types::Host for State {}

impl types::HostAbortSignal for State {
    async fn aborted(&mut self, signal: Resource<Signal>) -> wasmtime::Result<bool> {
        Ok(self.table.get(&signal)?.0.is_cancelled())
    }

    async fn drop(&mut self, signal: Resource<Signal>) -> wasmtime::Result<()> {
        self.table.delete(signal)?;
        Ok(())
    }
}

impl session::Host for State {}

impl session::HostSession for State {
    async fn id(&mut self, session: Resource<Session>) -> wasmtime::Result<String> {
        Ok(self.log(&session)?.id())
    }

    async fn head(
        &mut self,
        session: Resource<Session>,
    ) -> wasmtime::Result<Result<Seq, session::SessionError>> {
        Ok(self.log(&session)?.head().await.cross())
    }

    async fn read(
        &mut self,
        session: Resource<Session>,
        start: Seq,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<session::Event>, session::SessionError>> {
        Ok(self.log(&session)?.read(start, limit).await.cross())
    }

    async fn append(
        &mut self,
        session: Resource<Session>,
        drafts: Vec<session::Draft>,
        expected_head: Option<Seq>,
    ) -> wasmtime::Result<Result<Seq, session::SessionError>> {
        let log = self.log(&session)?;
        Ok(log.append(drafts.cross(), expected_head).await.cross())
    }

    async fn flush(
        &mut self,
        session: Resource<Session>,
    ) -> wasmtime::Result<Result<(), session::SessionError>> {
        Ok(self.log(&session)?.flush().await.map_err(Cross::cross))
    }

    async fn drop(&mut self, session: Resource<Session>) -> wasmtime::Result<()> {
        self.table.delete(session)?;
        Ok(())
    }
}

impl llm_stream::Host for State {
    async fn describe_model(
        &mut self,
        route: types::Route,
    ) -> wasmtime::Result<Option<llm_stream::ModelInfo>> {
        Ok(self.model.describe_model(&route.cross()).await.cross())
    }

    async fn stream(
        &mut self,
        session: Resource<Session>,
        options: llm_stream::GenerateOptions,
        signal: Option<Resource<Signal>>,
    ) -> wasmtime::Result<Result<Resource<Generation>, llm_stream::LlmError>> {
        let log = self.log(&session)?;
        let signal = self.signal(signal.as_ref())?;
        let call = self.model.stream(&*log, options.cross(), &signal);
        Ok(match unless_aborted(&signal, call).await {
            Ok(chunks) => Ok(self.table.push(Generation {
                chunks,
                signal,
                error: None,
            })?),
            Err(error) => Err(error.cross()),
        })
    }
}

impl llm_stream::HostGeneration for State {
    async fn next(
        &mut self,
        generation: Resource<Generation>,
    ) -> wasmtime::Result<Result<Vec<llm_stream::Chunk>, llm_stream::LlmError>> {
        let generation = self.table.get_mut(&generation)?;
        if let Some(error) = generation.error.take() {
            return Ok(Err(error.cross()));
        }
        let first = async { generation.chunks.next().await.transpose() };
        let mut chunks = match unless_aborted(&generation.signal, first).await {
            Ok(first) => Vec::from_iter(first),
            Err(error) => return Ok(Err(error.cross())),
        };
        // What else has arrived crosses in the same call.
        while !chunks.is_empty() {
            match generation.chunks.next().now_or_never() {
                Some(Some(Ok(chunk))) => chunks.push(chunk),
                Some(Some(Err(error))) => {
                    generation.error = Some(error);
                    break;
                }
                Some(None) | None => break,
            }
        }
        Ok(Ok(chunks.cross()))
    }

    async fn drop(&mut self, generation: Resource<Generation>) -> wasmtime::Result<()> {
        self.table.delete(generation)?;
        Ok(())
    }
}

impl hooks::Host for State {
    async fn estimate_content_tokens(
        &mut self,
        groups: Vec<Vec<types::ContentBlock>>,
    ) -> wasmtime::Result<Result<Vec<u32>, String>> {
        Ok(match &self.hooks {
            Some(hooks) => hooks.estimate_content_tokens(groups.cross()).await,
            None => Err("the host has no hooks".into()),
        })
    }

    async fn summarize(
        &mut self,
        session: Resource<Session>,
        transcript: String,
        signal: Option<Resource<Signal>>,
    ) -> wasmtime::Result<Result<hooks::Summary, llm_stream::LlmError>> {
        let log = self.log(&session)?;
        let signal = self.signal(signal.as_ref())?;
        Ok(match &self.hooks {
            Some(hooks) => {
                let call = hooks.summarize(&*log, transcript, &signal);
                unless_aborted(&signal, call).await.cross()
            }
            None => Err(llm_stream::LlmError::Other("the host has no hooks".into())),
        })
    }
}
