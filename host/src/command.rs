//! The `harness-compact` command on this host: real files, the terminal, and backends
//! in wasmtime. What it does is the same as the npm package's and is written once, in
//! `guest/command`.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use harness_compact_command::{
    Backend, BackendOptions, Failure, SharedSession, Stat, System, extract_route, run,
};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::files::{self, FileLock};
use crate::host::{CompactHost, Compactor};
use crate::model::{Generation, Model};
use crate::offline::OfflineModel;
use crate::providers::ProviderModel;
use crate::session::SessionLog;
use crate::types::{
    AgentContext, Chunk, CompactionResult, Draft, Event, GenerateOptions, LlmError, Measurement,
    ModelInfo, NowOptions, Route, Seq, SessionError, SurfaceNode, SurfaceRange, Trigger,
};

/// Run the command with the arguments of the process.
pub async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let ended = run(&arguments, &Native::new()).await;
    eprint!("{}", ended.error);
    match io::stdout().write_all(ended.output.as_bytes()) {
        // Whoever reads has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            eprintln!("harness-compact: {error}");
            return ExitCode::FAILURE;
        }
        Ok(()) => {}
    }
    ExitCode::from(ended.status)
}

struct Native {
    /// A line that moves; where stderr is no terminal it shows nothing.
    line: ProgressBar,
    signal: CancellationToken,
    locks: std::cell::RefCell<Vec<(String, FileLock)>>,
    /// Loaded once for the command.
    host: std::cell::OnceCell<CompactHost>,
}

impl Native {
    fn new() -> Self {
        let line = ProgressBar::new_spinner();
        line.set_style(ProgressStyle::default_spinner());
        Self {
            line,
            signal: cancel_on_interrupt(),
            locks: Default::default(),
            host: Default::default(),
        }
    }

    fn host(&self, component: Option<&str>) -> Result<CompactHost, Failure> {
        let broken = |error: Error| Failure::Broken(error.to_string());
        let Some(file) = component else {
            if let Some(host) = self.host.get() {
                return Ok(host.clone());
            }
            let host = CompactHost::new().map_err(broken)?;
            return Ok(self.host.get_or_init(|| host).clone());
        };
        let named = |why: String| Failure::Broken(format!("{file}: {why}"));
        let bytes = fs::read(file).map_err(|error| named(told(error)))?;
        CompactHost::with_component(&bytes).map_err(|error| named(error.to_string()))
    }
}

/// A signal that the first Ctrl-C gives; the second ends the process at once.
fn cancel_on_interrupt() -> CancellationToken {
    let signal = CancellationToken::new();
    let cancelled = signal.clone();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if cancelled.is_cancelled() {
                std::process::exit(130);
            }
            cancelled.cancel();
        }
    });
    signal
}

/// An error of the operating system's, in words that are the same on all of them
/// where the kind is known.
fn told(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder".into(),
        _ => error.to_string(),
    }
}

impl System for Native {
    type Backend = OnSession;

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(path).map_err(told)
    }

    fn read_start(&self, path: &str, most: usize) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(told)?;
        file.take(most as u64)
            .read_to_end(&mut bytes)
            .map_err(told)?;
        Ok(bytes)
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        let (size, modified_us, is_folder) = files::stat(Path::new(path))?;
        Some(Stat {
            size,
            modified_us,
            is_folder,
        })
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    fn real(&self, path: &str) -> Option<String> {
        let real = fs::canonicalize(path).ok()?;
        real.into_os_string().into_string().ok()
    }

    fn join(&self, folder: &str, name: &str) -> String {
        Path::new(folder).join(name).to_string_lossy().into_owned()
    }

    fn folder(&self, path: &str) -> Option<String> {
        let folder = Path::new(path).parent()?.to_string_lossy().into_owned();
        (!folder.is_empty()).then_some(folder)
    }

    fn name(&self, path: &str) -> String {
        let name = Path::new(path).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn lock(&self, path: &str) -> Result<(), String> {
        let lock = FileLock::take(Path::new(path)).map_err(told)?;
        self.locks.borrow_mut().push((path.into(), lock));
        Ok(())
    }

    fn unlock(&self, path: &str) {
        self.locks.borrow_mut().retain(|(held, _)| held != path);
    }

    fn append(&self, path: &str, cut: Option<u64>, bytes: &[u8]) -> Result<(), String> {
        files::append(Path::new(path), cut, bytes).map_err(told)
    }

    fn replace(
        &self,
        path: &str,
        base: Option<&str>,
        bytes: &[u8],
        like: &str,
    ) -> Result<(), String> {
        let base = base.map(Path::new);
        files::replace(Path::new(path), base, bytes, Path::new(like)).map_err(told)
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<String> {
        let home: Option<PathBuf> = std::env::home_dir();
        home.map(|home| home.to_string_lossy().into_owned())
    }

    fn cwd(&self) -> String {
        let cwd = std::env::current_dir().unwrap_or_default();
        cwd.to_string_lossy().into_owned()
    }

    fn now_ms(&self) -> u64 {
        files::now_ms()
    }

    fn random(&self) -> [u8; 16] {
        files::random()
    }

    fn note(&self, line: &str) {
        self.line.suspend(|| eprintln!("{line}"));
    }

    fn progress(&self, doing: Option<&str>) {
        match doing {
            Some(doing) => {
                self.line.enable_steady_tick(Duration::from_millis(100));
                self.line.set_message(doing.to_owned());
            }
            None => self.line.finish_and_clear(),
        }
    }

    async fn backend(
        &self,
        session: SharedSession,
        options: BackendOptions,
    ) -> Result<OnSession, Failure> {
        let model: Arc<dyn Model> = if options.model == extract_route() {
            Arc::new(OfflineModel)
        } else {
            let client = ProviderModel::new(options.base_url);
            let client = client.map_err(|error| Failure::Broken(error.to_string()))?;
            Arc::new(Watched {
                model: client,
                line: self.line.clone(),
            })
        };
        let host = self.host(options.component.as_deref())?;
        let compactor = host.compactor(options.config, model).await;
        Ok(OnSession {
            compactor: compactor.map_err(failure)?,
            log: Arc::new(Log(session)),
            signal: self.signal.clone(),
        })
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Compact(error) => Failure::Compact(error),
        Error::Backend(_) => Failure::Broken(error.to_string()),
    }
}

/// A session that the command has opened, as this host's log.
struct Log(SharedSession);

#[async_trait]
impl SessionLog for Log {
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
        drafts: Vec<Draft>,
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.0.lock().append(&drafts, expected_head)
    }

    async fn flush(&self) -> Result<(), SessionError> {
        Ok(())
    }
}

struct OnSession {
    compactor: Compactor,
    log: Arc<dyn SessionLog>,
    signal: CancellationToken,
}

impl Backend for OnSession {
    async fn measure(&mut self, agent: &AgentContext) -> Result<Measurement, Failure> {
        let measured = self.compactor.measure(&self.log, agent, "", &[]).await;
        measured.map_err(failure)
    }

    async fn surface(&mut self) -> Result<Vec<SurfaceNode>, Failure> {
        self.compactor.surface(&self.log).await.map_err(failure)
    }

    async fn compact_if_needed(
        &mut self,
        agent: &AgentContext,
        trigger: Trigger,
    ) -> Result<Option<CompactionResult>, Failure> {
        let signal = Some(&self.signal);
        let compacted = self
            .compactor
            .compact_if_needed(&self.log, agent, "", &[], trigger, signal)
            .await;
        compacted.map_err(failure)
    }

    async fn compact_region(
        &mut self,
        range: SurfaceRange,
        agent: &AgentContext,
    ) -> Result<CompactionResult, Failure> {
        let signal = Some(&self.signal);
        let compacted = self
            .compactor
            .compact_region(&self.log, range, agent, signal)
            .await;
        compacted.map_err(failure)
    }

    async fn compact_now(
        &mut self,
        agent: &AgentContext,
        options: &NowOptions,
    ) -> Result<Option<CompactionResult>, Failure> {
        let signal = Some(&self.signal);
        let compacted = self
            .compactor
            .compact_now(&self.log, agent, options, signal)
            .await;
        compacted.map_err(failure)
    }
}

/// A model whose answers are counted while they come.
struct Watched {
    model: ProviderModel,
    line: ProgressBar,
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
