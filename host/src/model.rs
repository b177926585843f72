//! The model call, as a host supplies it.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::session::SessionLog;
use crate::types::{Chunk, ContentBlock, GenerateOptions, LlmError, ModelInfo, Route, Summary};

/// An answer that is being generated. It ends with [`Chunk::Finish`]; one that
/// ends without was cut off. Dropping it cancels the call.
pub type Generation = BoxStream<'static, Result<Chunk, LlmError>>;

/// Calls language models.
#[async_trait]
pub trait Model: Send + Sync {
    /// What is known of a model; none where nothing is.
    async fn describe_model(&self, route: &Route) -> Option<ModelInfo> {
        let _ = route;
        None
    }

    /// Start one call on behalf of `session`.
    ///
    /// The host stops waiting for the answer when `signal` is cancelled; an
    /// implementation may use it to stop sooner. Errors are the provider's, told
    /// apart as well as it allows: a request that is too long is
    /// [`LlmError::ContextOverflow`] and no other.
    async fn stream(
        &self,
        session: &dyn SessionLog,
        options: GenerateOptions,
        signal: &CancellationToken,
    ) -> Result<Generation, LlmError>;
}

/// The two steps of the basic backend that a host may take over. Each is called
/// only where the configuration's `hooks` say so.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Tokens of each group of blocks, in order: one figure a group. The error is
    /// why they could not be counted.
    async fn estimate_content_tokens(
        &self,
        groups: Vec<Vec<ContentBlock>>,
    ) -> Result<Vec<u32>, String>;

    /// Condense a transcript.
    async fn summarize(
        &self,
        session: &dyn SessionLog,
        transcript: String,
        signal: &CancellationToken,
    ) -> Result<Summary, LlmError>;
}
