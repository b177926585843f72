//! The engine behind wasm-bindgen: it awaits what JavaScript promises. Values have
//! the shapes that the transpiled component gives and takes.
#![allow(
    missing_docs,
    reason = "the package's TypeScript describes what users see"
)]

use harness_compact_engine as engine;
use js_sys::{JsString, Promise, Uint8Array};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use engine::{
    AgentContext, Chunk, ContentBlock, Draft, Event, GenerateOptions, LlmError, Message, ModelInfo,
    NowOptions, Route, Seq, SessionError, Summary, SurfaceRange, Trigger,
};

#[wasm_bindgen]
extern "C" {
    /// A session's log. Every promise is kept, with `{Ok}` or `{Err}`.
    pub type Session;
    #[wasm_bindgen(method, structural)]
    fn id(this: &Session) -> String;
    #[wasm_bindgen(method, structural)]
    fn head(this: &Session) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn read(this: &Session, start: Seq, limit: u32) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn append(this: &Session, drafts: Vec<u8>, expected_head: Option<Seq>) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn flush(this: &Session) -> Promise;

    /// The model call and the hooks, in the same way.
    pub type Model;
    #[wasm_bindgen(method, structural, js_name = describeModel)]
    fn describe_model(this: &Model, route: Vec<u8>) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn stream(this: &Model, options: Vec<u8>) -> Promise;
    #[wasm_bindgen(method, structural, js_name = estimateContentTokens)]
    fn estimate_content_tokens(this: &Model, groups: Vec<u8>) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn summarize(this: &Model, transcript: JsString) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn aborted(this: &Model) -> bool;

    /// An answer that is being generated.
    pub type Generation;
    #[wasm_bindgen(method, structural)]
    fn next(this: &Generation) -> Promise;
    #[wasm_bindgen(method, structural)]
    fn cancel(this: &Generation);
}

fn encode(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap_or_default()
}

/// What a promise was kept with; `failed` makes an error of one that was not, or
/// not as agreed.
async fn kept<T: DeserializeOwned, E: DeserializeOwned>(
    promise: Promise,
    failed: impl Fn(String) -> E,
) -> Result<T, E> {
    let value = JsFuture::from(promise).await;
    let bytes = value
        .ok()
        .and_then(|value| value.dyn_into::<Uint8Array>().ok());
    let outcome = bytes.and_then(|bytes| postcard::from_bytes(&bytes.to_vec()).ok());
    outcome.unwrap_or_else(|| Err(failed("the host's answer cannot be read".into())))
}

impl engine::SessionLog for Session {
    fn id(&self) -> String {
        Session::id(self)
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        kept(Session::head(self), SessionError::Other).await
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        kept(Session::read(self, start, limit), SessionError::Other).await
    }

    async fn append(
        &self,
        drafts: &[Draft],
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        let append = Session::append(self, encode(drafts), expected_head);
        kept(append, SessionError::Other).await
    }

    async fn flush(&self) -> Result<(), SessionError> {
        kept(Session::flush(self), SessionError::Other).await
    }
}

impl engine::AbortSignal for Model {
    fn aborted(&self) -> bool {
        Model::aborted(self)
    }
}

pub struct Answer(Generation);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl engine::Generation for Answer {
    async fn next(&mut self) -> Result<Vec<Chunk>, LlmError> {
        kept(self.0.next(), LlmError::Other).await
    }
}

impl engine::Model<Session> for Model {
    type Signal = Model;
    type Generation = Answer;

    async fn describe_model(&self, route: &Route) -> Option<ModelInfo> {
        let promise = Model::describe_model(self, encode(route));
        let info: Result<Option<ModelInfo>, String> = kept(promise, |why| why).await;
        info.ok().flatten()
    }

    async fn stream(
        &self,
        _session: &Session,
        options: &GenerateOptions,
        _signal: Option<&Model>,
    ) -> Result<Answer, LlmError> {
        // The answer is an object, not bytes; what goes wrong is bytes.
        let value = JsFuture::from(Model::stream(self, encode(options))).await;
        let value = value.map_err(|_| LlmError::Other("the model call was lost".into()))?;
        match value.dyn_into::<Uint8Array>() {
            Ok(error) => Err(postcard::from_bytes(&error.to_vec())
                .unwrap_or_else(|_| LlmError::Other("the host's answer cannot be read".into()))),
            Err(generation) => Ok(Answer(generation.unchecked_into())),
        }
    }

    async fn estimate_content_tokens(
        &self,
        groups: &[Vec<ContentBlock>],
    ) -> Result<Vec<u32>, String> {
        kept(
            Model::estimate_content_tokens(self, encode(groups)),
            |why| why,
        )
        .await
    }

    async fn summarize(
        &self,
        _session: &Session,
        transcript: &str,
        _signal: Option<&Model>,
    ) -> Result<Summary, LlmError> {
        kept(Model::summarize(self, transcript.into()), LlmError::Other).await
    }
}

/// Compacts sessions under one configuration. Values cross as postcard; an
/// operation answers a `Result`.
#[wasm_bindgen]
pub struct Compactor(engine::Compactor);

/// What the package encoded, which it has checked.
fn given<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsValue> {
    postcard::from_bytes(bytes).map_err(|_| JsValue::from_str("an argument cannot be read"))
}

#[wasm_bindgen]
impl Compactor {
    /// The error is thrown as the bytes of a `config-error`.
    pub fn create(config: &[u8]) -> Result<Compactor, JsValue> {
        let compactor = engine::Compactor::new(given(config)?);
        let compactor = compactor.map_err(|error| Uint8Array::from(&encode(&error)[..]))?;
        Ok(Self(compactor))
    }

    pub async fn measure(
        &self,
        session: Session,
        model: Model,
        agent: Vec<u8>,
        full_system_prompt: String,
        session_prefix: Vec<u8>,
    ) -> Result<Vec<u8>, JsValue> {
        let agent: AgentContext = given(&agent)?;
        let prefix: Vec<Message> = given(&session_prefix)?;
        Ok(encode(
            &self
                .0
                .measure(&session, &model, &agent, &full_system_prompt, &prefix)
                .await,
        ))
    }

    pub async fn surface(&self, session: Session, model: Model) -> Result<Vec<u8>, JsValue> {
        Ok(encode(&self.0.surface(&session, &model).await))
    }

    #[wasm_bindgen(js_name = compactIfNeeded)]
    pub async fn compact_if_needed(
        &self,
        session: Session,
        model: Model,
        agent: Vec<u8>,
        full_system_prompt: String,
        session_prefix: Vec<u8>,
        trigger: Vec<u8>,
    ) -> Result<Vec<u8>, JsValue> {
        let agent: AgentContext = given(&agent)?;
        let prefix: Vec<Message> = given(&session_prefix)?;
        let trigger: Trigger = given(&trigger)?;
        let signal = Some(&model);
        Ok(encode(
            &self
                .0
                .compact_if_needed(
                    &session,
                    &model,
                    &agent,
                    &full_system_prompt,
                    &prefix,
                    trigger,
                    signal,
                )
                .await,
        ))
    }

    #[wasm_bindgen(js_name = compactRegion)]
    pub async fn compact_region(
        &self,
        session: Session,
        model: Model,
        range: Vec<u8>,
        agent: Vec<u8>,
    ) -> Result<Vec<u8>, JsValue> {
        let range: SurfaceRange = given(&range)?;
        let agent: AgentContext = given(&agent)?;
        Ok(encode(
            &self
                .0
                .compact_region(&session, &model, range, &agent, Some(&model))
                .await,
        ))
    }

    #[wasm_bindgen(js_name = compactNow)]
    pub async fn compact_now(
        &self,
        session: Session,
        model: Model,
        agent: Vec<u8>,
        options: Vec<u8>,
    ) -> Result<Vec<u8>, JsValue> {
        let agent: AgentContext = given(&agent)?;
        let options: NowOptions = given(&options)?;
        Ok(encode(
            &self
                .0
                .compact_now(&session, &model, &agent, &options, Some(&model))
                .await,
        ))
    }

    pub async fn prune(&self, session: Session, model: Model) -> Result<Vec<u8>, JsValue> {
        Ok(encode(&self.0.prune(&session, &model).await))
    }

    pub fn forget(&self, session_id: &str) {
        self.0.forget(session_id);
    }
}
