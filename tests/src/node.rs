//! The npm package, driven through a runner of its own in the `node` on PATH.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt;
use harness_compact_host::types::{
    AgentContext, Chunk, CompactError, CompactionResult, Config, Draft, GenerateOptions, LlmError,
    Measurement, Message, NowOptions, Pruned, SurfaceNode, SurfaceRange, Trigger,
};
use harness_compact_host::{CancellationToken, Model, SessionLog};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::builds::Build;

/// The package in a process of its own, which lives as long as this does.
pub struct NodeBuild {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    model: Arc<dyn Model>,
}

impl Drop for NodeBuild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn base64(value: &(impl Serialize + ?Sized)) -> String {
    let bytes = postcard::to_allocvec(value).expect("plain data");
    BASE64_STANDARD.encode(bytes)
}

fn from_base64<T: DeserializeOwned>(value: &Value) -> T {
    let text = value.as_str().expect("base64");
    let bytes = BASE64_STANDARD.decode(text).expect("base64");
    postcard::from_bytes(&bytes).expect("the package's types are the contract's")
}

/// The runner is told once: it has no way to hear of what comes later.
fn is_aborted(signal: Option<&CancellationToken>) -> bool {
    signal.is_some_and(CancellationToken::is_cancelled)
}

impl NodeBuild {
    /// Start the package with one of its builds, `component` or `bindgen`.
    pub async fn new(
        runtime: &str,
        config: Config,
        model: Arc<dyn Model>,
    ) -> Result<Self, CompactError> {
        Self::start(&[runtime.as_ref()], config, model).await
    }

    /// Start the package with a backend in place of its own: the module that
    /// `harness-compact-transpile` made of it.
    pub async fn with_backend(
        module: &Path,
        config: Config,
        model: Arc<dyn Model>,
    ) -> Result<Self, CompactError> {
        Self::start(&["component".as_ref(), module.as_ref()], config, model).await
    }

    /// The JavaScript runtime that `NODE` names, such as a `bun`; else the `node` on PATH.
    pub fn runtime() -> String {
        std::env::var("NODE").unwrap_or("node".into())
    }

    /// Where the package is.
    pub fn package() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings-js")
    }

    async fn start(
        arguments: &[&OsStr],
        config: Config,
        model: Arc<dyn Model>,
    ) -> Result<Self, CompactError> {
        let mut child = Command::new(Self::runtime())
            .arg(Self::package().join("test/runner.mjs"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is on PATH");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut build = Self {
            child,
            stdin,
            stdout,
            model,
        };
        build.say(&json!({"op": "create", "config": base64(&config)}));
        let line = build.hear();
        from_base64::<Result<(), CompactError>>(&line["result"]).map(|()| build)
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.stdin, "{line}").expect("the runner reads");
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the runner writes");
        assert!(
            !line.is_empty(),
            "the runner has ended; its errors are above"
        );
        serde_json::from_str(&line).expect("a JSON object a line")
    }

    /// One operation, with the questions that it asks on the way.
    async fn run<T: DeserializeOwned>(
        &mut self,
        log: &Arc<dyn SessionLog>,
        operation: Value,
    ) -> Result<T, CompactError> {
        self.say(&operation);
        loop {
            let line = self.hear();
            let reply = match line["call"].as_str() {
                None => return from_base64(&line["result"]),
                Some("head") => base64(&log.head().await),
                Some("read") => {
                    let number = |key: &str| line[key].as_u64().expect("a number") as u32;
                    base64(&log.read(number("start"), number("limit")).await)
                }
                Some("append") => {
                    let drafts: Vec<Draft> = from_base64(&line["drafts"]);
                    let expected = line["expected"].as_u64().map(|head| head as u32);
                    base64(&log.append(drafts, expected).await)
                }
                Some("flush") => base64(&log.flush().await),
                Some("describe") => {
                    let route = from_base64(&line["route"]);
                    base64(&self.model.describe_model(&route).await)
                }
                Some("stream") => {
                    let options: GenerateOptions = from_base64(&line["options"]);
                    base64(&self.answer(&**log, options).await)
                }
                Some(other) => panic!("no call {other}"),
            };
            self.say(&json!({"reply": reply}));
        }
    }

    async fn answer(
        &self,
        log: &dyn SessionLog,
        options: GenerateOptions,
    ) -> Result<Vec<Chunk>, LlmError> {
        let signal = CancellationToken::new();
        let generation = self.model.stream(log, options, &signal).await?;
        let chunks: Vec<Result<Chunk, LlmError>> = generation.collect().await;
        chunks.into_iter().collect()
    }
}

#[async_trait(?Send)]
impl Build for NodeBuild {
    async fn measure(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
    ) -> Result<Measurement, CompactError> {
        let operation = json!({
            "op": "measure",
            "agent": base64(agent),
            "prompt": full_system_prompt,
            "prefix": base64(session_prefix),
        });
        self.run(log, operation).await
    }

    async fn surface(
        &mut self,
        log: &Arc<dyn SessionLog>,
    ) -> Result<Vec<SurfaceNode>, CompactError> {
        self.run(log, json!({"op": "surface"})).await
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
        let trigger = match trigger {
            Trigger::Pressure => "pressure",
            Trigger::ContextOverflow => "context-overflow",
        };
        let operation = json!({
            "op": "compact-if-needed",
            "agent": base64(agent),
            "prompt": full_system_prompt,
            "prefix": base64(session_prefix),
            "trigger": trigger,
            "aborted": is_aborted(signal),
        });
        self.run(log, operation).await
    }

    async fn compact_region(
        &mut self,
        log: &Arc<dyn SessionLog>,
        range: SurfaceRange,
        agent: &AgentContext,
        signal: Option<&CancellationToken>,
    ) -> Result<CompactionResult, CompactError> {
        let range = json!({"start": range.start, "end": range.end});
        let operation = json!({
            "op": "compact-region",
            "agent": base64(agent),
            "range": range,
            "aborted": is_aborted(signal),
        });
        self.run(log, operation).await
    }

    async fn compact_now(
        &mut self,
        log: &Arc<dyn SessionLog>,
        agent: &AgentContext,
        options: &NowOptions,
        signal: Option<&CancellationToken>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let operation = json!({
            "op": "compact-now",
            "agent": base64(agent),
            "options": base64(options),
            "aborted": is_aborted(signal),
        });
        self.run(log, operation).await
    }

    async fn prune(&mut self, log: &Arc<dyn SessionLog>) -> Result<Vec<Pruned>, CompactError> {
        self.run(log, json!({"op": "prune"})).await
    }
}
