//! A summariser that needs no model: it extracts.

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use harness_compact_command::{Extract, extract_info, extract_route};
use tokio_util::sync::CancellationToken;

use crate::model::{Generation, Model};
use crate::session::SessionLog;
use crate::types::{
    Chunk, Finish, FinishReason, GenerateOptions, LlmError, ModelInfo, Prompt, Route,
};

/// Condenses by extraction: no key, no network, no model.
///
/// It reads the nodes that are to be condensed from the session itself and fills
/// the eight sections of a checkpoint with what stands there. It paraphrases nothing
/// and guesses nothing, and always gives the same answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl OfflineModel {
    /// The route that names it.
    pub fn route() -> Route {
        extract_route()
    }
}

#[async_trait]
impl Model for OfflineModel {
    /// It reads the session, however long, at once.
    async fn describe_model(&self, route: &Route) -> Option<ModelInfo> {
        (*route == Self::route()).then(extract_info)
    }

    async fn stream(
        &self,
        session: &dyn SessionLog,
        options: GenerateOptions,
        _signal: &CancellationToken,
    ) -> Result<Generation, LlmError> {
        let nodes = match &options.prompt {
            Prompt::Standalone(prompt) => &prompt.nodes,
            Prompt::Replay(prompt) => &prompt.nodes,
        };
        let mut extract = Extract::default();
        for &seq in nodes {
            let events = session.read(seq, 1).await;
            let events = events.map_err(|error| LlmError::Unavailable(error.to_string()))?;
            for event in &events {
                extract.take(&event.payload);
            }
        }
        let finish = Finish {
            reason: FinishReason::Stop,
            usage: None,
        };
        let text = extract.finish(options.max_tokens);
        let chunks = [Ok(Chunk::Text(text)), Ok(Chunk::Finish(finish))];
        Ok(stream::iter(chunks).boxed())
    }
}
