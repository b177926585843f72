//! A line that moves while a model writes; only on a terminal.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use harness_compact_host::types::{Chunk, GenerateOptions, LlmError, ModelInfo, Route};
use harness_compact_host::{CancellationToken, Generation, Model, SessionLog};
use indicatif::{ProgressBar, ProgressStyle};

/// A model whose answers are counted while they come.
pub struct Watched {
    pub model: Arc<dyn Model>,
    pub line: ProgressBar,
}

/// A line that shows nothing yet. Where stderr is no terminal it never will.
pub fn line() -> ProgressBar {
    let line = ProgressBar::new_spinner();
    line.set_style(ProgressStyle::default_spinner());
    line
}

#[async_trait]
impl Model for Watched {
    async fn describe_model(&self, route: &Route) -> Option<ModelInfo> {
        self.model.describe_model(route).await
    }

    async fn stream(
        &self,
        session: &dyn SessionLog,
        options: GenerateOptions,
        signal: &CancellationToken,
    ) -> Result<Generation, LlmError> {
        let part = options
            .part
            .map(|part| format!(" part {} of {}", part.index, part.count));
        let doing = format!("summarising{}", part.unwrap_or_default());
        let line = self.line.clone();
        line.enable_steady_tick(Duration::from_millis(100));
        line.set_message(format!("{doing}: waiting for {}", options.route.model));
        let generation = self.model.stream(session, options, signal).await?;
        let mut characters = 0;
        let counted = generation.inspect(move |chunk| {
            if let Ok(Chunk::Text(text)) = chunk {
                characters += text.chars().count();
                line.set_message(format!("{doing}: {characters} characters"));
            }
        });
        Ok(counted.boxed())
    }
}
