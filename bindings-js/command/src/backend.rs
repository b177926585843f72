//! A backend on one session: the engine, which is in this module, or a component of
//! somebody else's, which JavaScript runs.

use harness_compact_command::{
    Backend, BackendOptions, Extract, Failure, SharedSession, extract_info, extract_route,
};
use harness_compact_engine::{
    self as engine, AbortSignal, AgentContext, Chunk, CompactError, CompactionResult, Compactor,
    Config, ContentBlock, Draft, Event, Finish, FinishReason, GenerateOptions, LlmError,
    Measurement, ModelInfo, NowOptions, Prompt, Route, Seq, SessionError, Summary, SurfaceNode,
    SurfaceRange, Trigger,
};
use js_sys::{Promise, Uint8Array};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::session_file::FileSession;
use crate::system::{JsSystem, thrown};

#[wasm_bindgen]
extern "C" {
    /// An answer that is being generated.
    pub type JsGeneration;
    /// Kept with a text of JSON: a list of chunks, empty at the end, or why not.
    #[wasm_bindgen(method, structural)]
    fn next(this: &JsGeneration) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn cancel(this: &JsGeneration);

    /// A component on one session: each call is kept with the postcard of a `Result`.
    pub type JsComponent;
    #[wasm_bindgen(method, structural)]
    fn measure(this: &JsComponent, agent: Vec<u8>) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn surface(this: &JsComponent) -> Promise;
    #[wasm_bindgen(method, structural, js_name = compactIfNeeded)]
    fn compact_if_needed(this: &JsComponent, agent: Vec<u8>) -> Promise;
    #[wasm_bindgen(method, structural, js_name = compactRegion)]
    fn compact_region(this: &JsComponent, start: Seq, end: Seq, agent: Vec<u8>) -> Promise;
    #[wasm_bindgen(method, structural, js_name = compactNow)]
    fn compact_now(this: &JsComponent, agent: Vec<u8>, options: Vec<u8>) -> Promise;
}

pub enum OnSession {
    Engine {
        compactor: Box<Compactor>,
        log: Log,
        model: Model,
    },
    Component(JsComponent),
}

impl OnSession {
    pub async fn new(
        system: JsSystem,
        session: SharedSession,
        options: BackendOptions,
    ) -> Result<Self, Failure> {
        if let Some(file) = &options.component {
            return component(&system, file, session, &options).await;
        }
        let compactor = Compactor::new(options.config);
        let compactor = compactor.map_err(|error| Failure::Compact(error.into()))?;
        Ok(Self::Engine {
            compactor: Box::new(compactor),
            log: Log(session),
            model: Model {
                system,
                base_url: options.base_url,
            },
        })
    }
}

async fn component(
    system: &JsSystem,
    file: &str,
    session: SharedSession,
    options: &BackendOptions,
) -> Result<OnSession, Failure> {
    let told = json!({
        "provider": options.model.provider,
        "model": options.model.model,
        "baseUrl": options.base_url,
        "extracts": options.model == extract_route(),
    });
    let config = Config::clone(&options.config);
    let config = postcard::to_allocvec(&config).unwrap_or_default();
    let session = FileSession::of(session);
    let promise = system.component(file, session, &told.to_string(), config);
    let made = JsFuture::from(promise).await;
    let made = made.map_err(|error| Failure::Broken(thrown(error)))?;
    match made.as_string() {
        Some(why) => Err(Failure::Broken(why)),
        None => Ok(OnSession::Component(made.unchecked_into())),
    }
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap_or_default()
}

/// What a component's call was kept with.
async fn answered<T: DeserializeOwned>(promise: Promise) -> Result<T, Failure> {
    let value = JsFuture::from(promise).await;
    let value = value.map_err(|error| Failure::Broken(thrown(error)))?;
    if let Some(why) = value.as_string() {
        return Err(Failure::Broken(why));
    }
    let bytes = value.dyn_into::<Uint8Array>().map(|bytes| bytes.to_vec());
    let outcome: Option<Result<T, CompactError>> = bytes
        .ok()
        .and_then(|bytes| postcard::from_bytes(&bytes).ok());
    match outcome {
        Some(outcome) => outcome.map_err(Failure::Compact),
        None => Err(Failure::Broken(
            "the backend's answer cannot be read".into(),
        )),
    }
}

impl Backend for OnSession {
    async fn measure(&mut self, agent: &AgentContext) -> Result<Measurement, Failure> {
        match self {
            Self::Engine {
                compactor,
                log,
                model,
            } => {
                let measured = compactor.measure(log, model, agent, "", &[]).await;
                measured.map_err(Failure::Compact)
            }
            Self::Component(backend) => answered(backend.measure(encoded(agent))).await,
        }
    }

    async fn surface(&mut self) -> Result<Vec<SurfaceNode>, Failure> {
        match self {
            Self::Engine {
                compactor,
                log,
                model,
            } => compactor
                .surface(log, model)
                .await
                .map_err(Failure::Compact),
            Self::Component(backend) => answered(backend.surface()).await,
        }
    }

    async fn compact_if_needed(
        &mut self,
        agent: &AgentContext,
        trigger: Trigger,
    ) -> Result<Option<CompactionResult>, Failure> {
        match self {
            Self::Engine {
                compactor,
                log,
                model,
            } => {
                let signal = Some(&model.system);
                let compacted = compactor
                    .compact_if_needed(log, model, agent, "", &[], trigger, signal)
                    .await;
                compacted.map_err(Failure::Compact)
            }
            Self::Component(backend) => answered(backend.compact_if_needed(encoded(agent))).await,
        }
    }

    async fn compact_region(
        &mut self,
        range: SurfaceRange,
        agent: &AgentContext,
    ) -> Result<CompactionResult, Failure> {
        match self {
            Self::Engine {
                compactor,
                log,
                model,
            } => {
                let signal = Some(&model.system);
                let compacted = compactor
                    .compact_region(log, model, range, agent, signal)
                    .await;
                compacted.map_err(Failure::Compact)
            }
            Self::Component(backend) => {
                let call = backend.compact_region(range.start, range.end, encoded(agent));
                answered(call).await
            }
        }
    }

    async fn compact_now(
        &mut self,
        agent: &AgentContext,
        options: &NowOptions,
    ) -> Result<Option<CompactionResult>, Failure> {
        match self {
            Self::Engine {
                compactor,
                log,
                model,
            } => {
                let signal = Some(&model.system);
                let compacted = compactor
                    .compact_now(log, model, agent, options, signal)
                    .await;
                compacted.map_err(Failure::Compact)
            }
            Self::Component(backend) => {
                answered(backend.compact_now(encoded(agent), encoded(options))).await
            }
        }
    }
}

/// A session that the command has opened, as the engine's log.
pub struct Log(SharedSession);

impl engine::SessionLog for Log {
    fn id(&self) -> String {
        "session".into()
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        Ok(self.0.lock().head())
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        self.0.lock().events(start, limit)
    }

    async fn append(
        &self,
        drafts: &[Draft],
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.0.lock().append(drafts, expected_head)
    }

    async fn flush(&self) -> Result<(), SessionError> {
        Ok(())
    }
}

impl AbortSignal for JsSystem {
    fn aborted(&self) -> bool {
        JsSystem::aborted(self)
    }
}

/// The extract, or a model that JavaScript calls.
pub struct Model {
    system: JsSystem,
    base_url: Option<String>,
}

impl engine::Model<Log> for Model {
    type Signal = JsSystem;
    type Generation = Generation;

    async fn describe_model(&self, route: &Route) -> Option<ModelInfo> {
        (*route == extract_route()).then(extract_info)
    }

    async fn stream(
        &self,
        session: &Log,
        options: &GenerateOptions,
        _signal: Option<&JsSystem>,
    ) -> Result<Generation, LlmError> {
        let Prompt::Standalone(prompt) = &options.prompt else {
            return Err(LlmError::Other(
                "a session file has no request to replay".into(),
            ));
        };
        if options.route == extract_route() {
            let mut extract = Extract::default();
            for seq in &prompt.nodes {
                let events = session.0.lock().events(*seq, 1);
                let events = events.map_err(|error| LlmError::Unavailable(error.to_string()))?;
                for event in &events {
                    extract.take(&event.payload);
                }
            }
            let finish = Finish {
                reason: FinishReason::Stop,
                usage: None,
            };
            let text = Chunk::Text(extract.finish(options.max_tokens));
            return Ok(Generation::Extracted(vec![text, Chunk::Finish(finish)]));
        }
        let request = json!({
            "provider": options.route.provider,
            "model": options.route.model,
            "baseUrl": self.base_url,
            "system": prompt.system,
            "user": prompt.user,
            "maxTokens": options.max_tokens,
            "part": options.part.map(|part| [part.index, part.count]),
        });
        let value = JsFuture::from(self.system.stream(&request.to_string())).await;
        let value = value.map_err(|error| LlmError::Other(thrown(error)))?;
        match value.as_string() {
            Some(failure) => Err(read_failure(&failure)),
            None => Ok(Generation::Model(value.unchecked_into())),
        }
    }

    async fn estimate_content_tokens(
        &self,
        _groups: &[Vec<ContentBlock>],
    ) -> Result<Vec<u32>, String> {
        Err("the command has no hooks".into())
    }

    async fn summarize(
        &self,
        _session: &Log,
        _transcript: &str,
        _signal: Option<&JsSystem>,
    ) -> Result<Summary, LlmError> {
        Err(LlmError::Other("the command has no hooks".into()))
    }
}

pub enum Generation {
    Extracted(Vec<Chunk>),
    Model(JsGeneration),
}

impl Drop for Generation {
    fn drop(&mut self) {
        if let Self::Model(generation) = self {
            generation.cancel();
        }
    }
}

impl engine::Generation for Generation {
    async fn next(&mut self) -> Result<Vec<Chunk>, LlmError> {
        let generation = match self {
            Self::Extracted(chunks) => return Ok(std::mem::take(chunks)),
            Self::Model(generation) => generation,
        };
        let value = JsFuture::from(generation.next()).await;
        let value = value.map_err(|error| LlmError::Other(thrown(error)))?;
        let text = value.as_string().unwrap_or_default();
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Array(chunks)) => Ok(chunks.iter().map(read_chunk).collect()),
            _ => Err(read_failure(&text)),
        }
    }
}

/// A failure as the package has it: `{tag, val}`.
fn read_failure(text: &str) -> LlmError {
    let failure: Value = serde_json::from_str(text).unwrap_or_default();
    let said = || failure["val"].as_str().unwrap_or_default().to_owned();
    match failure["tag"].as_str() {
        Some("context-overflow") => LlmError::ContextOverflow(said()),
        Some("rate-limited") => {
            let after = failure["val"].as_u64();
            LlmError::RateLimited(after.and_then(|after| u32::try_from(after).ok()))
        }
        Some("unavailable") => LlmError::Unavailable(said()),
        Some("refused") => LlmError::Refused(said()),
        Some("aborted") => LlmError::Aborted,
        _ => LlmError::Other(said()),
    }
}

/// A chunk as the package's models give it.
fn read_chunk(chunk: &Value) -> Chunk {
    let text = |key: &str| chunk[key].as_str().unwrap_or_default().to_owned();
    match chunk["type"].as_str().unwrap_or_default() {
        "text" => Chunk::Text(text("text")),
        "reasoning" => Chunk::Reasoning(text("text")),
        "tool-call" => Chunk::ToolCall(engine::ToolCall {
            call_id: text("id"),
            name: text("name"),
            arguments: text("arguments"),
        }),
        "finish" => {
            let figure = |key: &str| {
                let figure = chunk["usage"][key].as_u64().unwrap_or(0);
                u32::try_from(figure).unwrap_or(u32::MAX)
            };
            Chunk::Finish(Finish {
                reason: match chunk["reason"].as_str() {
                    Some("stop") => FinishReason::Stop,
                    Some("max-tokens") => FinishReason::MaxTokens,
                    Some("tool-calls") => FinishReason::ToolCalls,
                    Some("content-filter") => FinishReason::ContentFilter,
                    _ => FinishReason::Other,
                },
                usage: chunk["usage"].is_object().then(|| engine::Usage {
                    input_tokens: figure("inputTokens"),
                    output_tokens: figure("outputTokens"),
                    cache_read_tokens: figure("cacheReadTokens"),
                    cache_write_tokens: figure("cacheWriteTokens"),
                }),
            })
        }
        other => Chunk::Other(other.into()),
    }
}
