//! Model calls over the network: any endpoint that speaks OpenAI's streaming
//! protocol, Anthropic's, and the others that the `genai` crate knows.

use std::env;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, StopReason, StreamEnd};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ModelSpec, ServiceTarget};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::model::{Generation, Model};
use crate::session::SessionLog;
use crate::types::{
    Chunk, Finish, FinishReason, GenerateOptions, LlmError, Prompt, ToolCall, Usage,
};

/// Calls the provider that a route names, with the key from its usual environment
/// variable, such as `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`.
///
/// It has no time limit of its own: the caller's signal ends a call.
pub struct ProviderModel {
    client: Client,
    base_url: Option<String>,
}

impl ProviderModel {
    /// A client. `base_url` is the endpoint to call instead of the provider's own,
    /// up to and including its version, such as `http://127.0.0.1:8080/v1`; a
    /// provider of an unknown name is then taken to speak OpenAI's protocol.
    pub fn new(base_url: Option<String>) -> Result<Self, LlmError> {
        let slash = |url: String| format!("{}/", url.trim_end_matches('/'));
        let client = Client::new().map_err(|error| LlmError::Other(error.to_string()))?;
        Ok(Self {
            client,
            base_url: base_url.map(slash),
        })
    }

    fn target(&self, provider: &str, model: &str) -> Result<ModelSpec, LlmError> {
        let known = AdapterKind::from_lower_str(provider);
        let Some(base_url) = &self.base_url else {
            return match known {
                Some(kind) => Ok(ModelIden::new(kind, model.to_owned()).into()),
                None => Err(LlmError::Refused(format!(
                    "no provider is named {provider:?}; with a base URL any name will do"
                ))),
            };
        };
        let kind = known.unwrap_or(AdapterKind::OpenAI);
        let auth = match kind
            .default_key_env_name()
            .filter(|name| env::var(name).is_ok())
        {
            Some(name) => AuthData::from_env(name),
            // A server of one's own may want none; the protocol wants something.
            None => AuthData::from_single("none"),
        };
        Ok(ServiceTarget {
            endpoint: Endpoint::from_owned(base_url.clone()),
            auth,
            model: ModelIden::new(kind, model.to_owned()),
        }
        .into())
    }
}

#[async_trait]
impl Model for ProviderModel {
    async fn stream(
        &self,
        _session: &dyn SessionLog,
        options: GenerateOptions,
        _signal: &CancellationToken,
    ) -> Result<Generation, LlmError> {
        let Prompt::Standalone(prompt) = options.prompt else {
            let why = "this client does not have the session's request to replay";
            return Err(LlmError::Refused(why.into()));
        };
        let target = self.target(&options.route.provider, &options.route.model)?;
        let request =
            ChatRequest::from_system(prompt.system).append_message(ChatMessage::user(prompt.user));
        let mut chat = ChatOptions::default().with_capture_usage(true);
        if let Some(max) = options.max_tokens {
            chat = chat.with_max_tokens(max);
        }
        let response = self
            .client
            .exec_chat_stream(target, request, Some(&chat))
            .await;
        let events = response.map_err(|error| classify(&error))?.stream;
        let chunks = events.flat_map(|event| {
            stream::iter(match event {
                Ok(event) => chunk(event).map(Ok),
                Err(error) => Some(Err(classify(&error))),
            })
        });
        Ok(chunks.boxed())
    }
}

fn chunk(event: ChatStreamEvent) -> Option<Chunk> {
    Some(match event {
        ChatStreamEvent::Chunk(piece) => Chunk::Text(piece.content),
        ChatStreamEvent::ReasoningChunk(piece) => Chunk::Reasoning(piece.content),
        ChatStreamEvent::ToolCallChunk(piece) => Chunk::ToolCall(ToolCall {
            call_id: piece.tool_call.call_id,
            name: piece.tool_call.fn_name,
            arguments: piece.tool_call.fn_arguments.to_string(),
        }),
        ChatStreamEvent::End(end) => Chunk::Finish(finish(&end)),
        ChatStreamEvent::Start
        | ChatStreamEvent::ThoughtSignatureChunk(_)
        | ChatStreamEvent::Heartbeat => return None,
    })
}

fn finish(end: &StreamEnd) -> Finish {
    let reason = match &end.captured_stop_reason {
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) => FinishReason::Stop,
        Some(StopReason::MaxTokens(_)) => FinishReason::MaxTokens,
        Some(StopReason::ToolCall(_)) => FinishReason::ToolCalls,
        Some(StopReason::ContentFilter(_)) => FinishReason::ContentFilter,
        // Some servers name the token that ended the answer.
        Some(StopReason::Other(reason)) if reason == "eos" => FinishReason::Stop,
        Some(StopReason::Other(_)) | None => FinishReason::Other,
    };
    let usage = end.captured_usage.as_ref().map(|usage| {
        let count = |tokens: Option<i32>| tokens.and_then(|t| u32::try_from(t).ok()).unwrap_or(0);
        let details = usage.prompt_tokens_details.as_ref();
        let cache_read_tokens = count(details.and_then(|details| details.cached_tokens));
        let cache_write_tokens = count(details.and_then(|details| details.cache_creation_tokens));
        Usage {
            // The provider's figure includes what its cache held.
            input_tokens: count(usage.prompt_tokens)
                .saturating_sub(cache_read_tokens)
                .saturating_sub(cache_write_tokens),
            output_tokens: count(usage.completion_tokens),
            cache_read_tokens,
            cache_write_tokens,
        }
    });
    Finish { reason, usage }
}

/// Which of our errors a provider's is. The status decides first: a rate limit
/// that speaks of tokens is no overflow.
fn classify(error: &genai::Error) -> LlmError {
    use genai::Error as E;
    match error {
        E::HttpError {
            status,
            body,
            headers,
            ..
        } => {
            let told = provider_message(body);
            let header = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
            match status.as_u16() {
                429 => {
                    let ms = header("retry-after-ms")
                        .or_else(|| Some(header("retry-after")? * 1000.0))
                        .map(|ms| Duration::from_secs_f64((ms / 1000.0).clamp(0.0, 86_400.0)));
                    LlmError::RateLimited(ms.map(|wait| wait.as_millis() as u32))
                }
                400 | 413 | 422 if speaks_of_overflow(body) => LlmError::ContextOverflow(told),
                408 | 500.. => LlmError::Unavailable(format!("HTTP {}: {told}", status.as_u16())),
                status => LlmError::Refused(format!("HTTP {status}: {told}")),
            }
        }
        E::WebStream { cause, error, .. } => match error.downcast_ref::<genai::Error>() {
            Some(inner) => classify(inner),
            None => LlmError::Unavailable(chain(cause, error.source())),
        },
        // An error that came inside the stream.
        E::ChatResponse { body, .. } => {
            let told = provider_message(&body.to_string());
            if speaks_of_overflow(&body.to_string()) {
                LlmError::ContextOverflow(told)
            } else {
                LlmError::Unavailable(told)
            }
        }
        E::Resolver { .. }
        | E::RequiresApiKey { .. }
        | E::NoAuthData { .. }
        | E::NoAuthResolver { .. } => LlmError::Refused(format!("no key: {error}")),
        other => LlmError::Other(other.to_string()),
    }
}

/// What a provider's error body says, without its JSON.
fn provider_message(body: &str) -> String {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let message = [&json["error"]["message"], &json["message"], &json["error"]];
    let message = message.iter().find_map(|message| message.as_str());
    let text = message.unwrap_or(body).trim();
    text.chars().take(300).collect()
}

/// How providers word that a request is too long.
fn speaks_of_overflow(body: &str) -> bool {
    let body = body.to_lowercase();
    let phrases = [
        "context_length_exceeded",
        "context length",
        "context window",
        "context size",
        "exceed_context_size",
        "maximum context",
        "max_prompt_tokens",
        "model_max_prompt_tokens",
        "prompt is too long",
        "input is too long",
        "too many tokens",
        "reduce the length",
        "maximum prompt length",
        "exceeds the maximum number of tokens",
    ];
    phrases.iter().any(|phrase| body.contains(phrase))
}

fn chain(cause: &str, mut source: Option<&(dyn std::error::Error + 'static)>) -> String {
    let mut text = cause.to_owned();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}
