//! The basic backend as a component: binds `harness-compact-engine` to the
//! contract in `wit/`, and decides nothing.

mod bindings;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use harness_compact_engine as engine;

use bindings::exports::harness::compact::compact::{Guest, GuestCompactor};
use bindings::harness::compact::session::Session;
use bindings::harness::compact::types::AbortSignal;
use bindings::harness::compact::{hooks, llm_stream};
use engine::{
    AgentContext, Chunk, CompactError, CompactionResult, Config, ConfigError, ContentBlock, Draft,
    Event, GenerateOptions, LlmError, Measurement, Message, ModelInfo, NowOptions, Pruned, Route,
    Seq, SessionError, Summary, SurfaceNode, SurfaceRange, Trigger,
};

struct Component;

impl Guest for Component {
    type Compactor = Compactor;
}

struct Compactor(engine::Compactor);

impl GuestCompactor for Compactor {
    fn create(
        config: Config,
    ) -> Result<bindings::exports::harness::compact::compact::Compactor, ConfigError> {
        let compactor = engine::Compactor::new(config)?;
        Ok(bindings::exports::harness::compact::compact::Compactor::new(Compactor(compactor)))
    }

    fn measure(
        &self,
        session: &Session,
        agent: AgentContext,
        full_system_prompt: String,
        session_prefix: Vec<Message>,
    ) -> Result<Measurement, CompactError> {
        let (log, model) = (Log(session), Model);
        run(self
            .0
            .measure(&log, &model, &agent, &full_system_prompt, &session_prefix))
    }

    fn surface(&self, session: &Session) -> Result<Vec<SurfaceNode>, CompactError> {
        run(self.0.surface(&Log(session), &Model))
    }

    fn compact_if_needed(
        &self,
        session: &Session,
        agent: AgentContext,
        full_system_prompt: String,
        session_prefix: Vec<Message>,
        trigger: Trigger,
        signal: Option<&AbortSignal>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let (log, model, signal) = (Log(session), Model, signal.map(Signal));
        run(self.0.compact_if_needed(
            &log,
            &model,
            &agent,
            &full_system_prompt,
            &session_prefix,
            trigger,
            signal.as_ref(),
        ))
    }

    fn compact_region(
        &self,
        session: &Session,
        range: SurfaceRange,
        agent: AgentContext,
        signal: Option<&AbortSignal>,
    ) -> Result<CompactionResult, CompactError> {
        let (log, model, signal) = (Log(session), Model, signal.map(Signal));
        run(self
            .0
            .compact_region(&log, &model, range, &agent, signal.as_ref()))
    }

    fn compact_now(
        &self,
        session: &Session,
        agent: AgentContext,
        options: NowOptions,
        signal: Option<&AbortSignal>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let (log, model, signal) = (Log(session), Model, signal.map(Signal));
        run(self
            .0
            .compact_now(&log, &model, &agent, &options, signal.as_ref()))
    }

    fn prune(&self, session: &Session) -> Result<Vec<Pruned>, CompactError> {
        run(self.0.prune(&Log(session), &Model))
    }

    fn forget(&self, session_id: String) {
        self.0.forget(&session_id);
    }
}

/// Imports block, so a future of the engine's is ready when it is first polled.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the engine awaits nothing but imports"),
    }
}

struct Log<'a>(&'a Session);

impl engine::SessionLog for Log<'_> {
    fn id(&self) -> String {
        self.0.id()
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        self.0.head()
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        self.0.read(start, limit)
    }

    async fn append(
        &self,
        drafts: &[Draft],
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.0.append(drafts, expected_head)
    }

    async fn flush(&self) -> Result<(), SessionError> {
        self.0.flush()
    }
}

struct Signal<'a>(&'a AbortSignal);

impl engine::AbortSignal for Signal<'_> {
    fn aborted(&self) -> bool {
        self.0.aborted()
    }
}

struct Generation(llm_stream::Generation);

impl engine::Generation for Generation {
    async fn next(&mut self) -> Result<Vec<Chunk>, LlmError> {
        self.0.next()
    }
}

struct Model;

impl<'a> engine::Model<Log<'a>> for Model {
    type Signal = Signal<'a>;
    type Generation = Generation;

    async fn describe_model(&self, route: &Route) -> Option<ModelInfo> {
        llm_stream::describe_model(route)
    }

    async fn stream(
        &self,
        session: &Log<'a>,
        options: &GenerateOptions,
        signal: Option<&Signal<'a>>,
    ) -> Result<Generation, LlmError> {
        llm_stream::stream(session.0, options, signal.map(|signal| signal.0)).map(Generation)
    }

    async fn estimate_content_tokens(
        &self,
        groups: &[Vec<ContentBlock>],
    ) -> Result<Vec<u32>, String> {
        hooks::estimate_content_tokens(groups)
    }

    async fn summarize(
        &self,
        session: &Log<'a>,
        transcript: &str,
        signal: Option<&Signal<'a>>,
    ) -> Result<Summary, LlmError> {
        hooks::summarize(session.0, transcript, signal.map(|signal| signal.0))
    }
}
