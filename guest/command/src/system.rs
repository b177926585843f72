//! What a command runs on.

use harness_compact_engine::{
    AgentContext, CompactError, CompactionResult, Config, Measurement, NowOptions, Route,
    SurfaceNode, SurfaceRange, Trigger,
};

use crate::file::SharedSession;

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed, in microseconds since 1970, as finely as the system
    /// tells.
    pub modified_us: u64,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// Which backend runs on what.
#[derive(Clone, Debug)]
pub struct BackendOptions {
    /// Its settings.
    pub config: Config,
    /// The model that summarises; [`crate::extract_route`] is none.
    pub model: Route,
    /// The provider's endpoint, where it is not the usual one.
    pub base_url: Option<String>,
    /// A component to use in place of the basic backend, by its file.
    pub component: Option<String>,
}

/// Why a backend did not do what it was asked to.
#[derive(Clone, Debug)]
pub enum Failure {
    /// It said so.
    Compact(CompactError),
    /// It could not be loaded or broke off.
    Broken(String),
}

/// A backend on one session.
pub trait Backend {
    /// Estimate the next request.
    async fn measure(&mut self, agent: &AgentContext) -> Result<Measurement, Failure>;
    /// The surface, node by node.
    async fn surface(&mut self) -> Result<Vec<SurfaceNode>, Failure>;
    /// Compact if the session is near its window.
    async fn compact_if_needed(
        &mut self,
        agent: &AgentContext,
        trigger: Trigger,
    ) -> Result<Option<CompactionResult>, Failure>;
    /// Compact this range.
    async fn compact_region(
        &mut self,
        range: SurfaceRange,
        agent: &AgentContext,
    ) -> Result<CompactionResult, Failure>;
    /// Compact now.
    async fn compact_now(
        &mut self,
        agent: &AgentContext,
        options: &NowOptions,
    ) -> Result<Option<CompactionResult>, Failure>;
}

/// Files, terminal, time and the backend. Paths are the system's own, as texts. An
/// error says what went wrong, without the path.
pub trait System {
    /// A backend of this system's.
    type Backend: Backend;

    /// The bytes of a file.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;
    /// The first bytes of a file, at most this many.
    fn read_start(&self, path: &str, most: usize) -> Result<Vec<u8>, String>;
    /// What is known of a file; none where there is none.
    fn stat(&self, path: &str) -> Option<Stat>;
    /// The names in a folder; none where it cannot be read.
    fn list(&self, folder: &str) -> Vec<String>;
    /// The one path of a file that is there, links followed.
    fn real(&self, path: &str) -> Option<String>;
    /// The path of a name in a folder.
    fn join(&self, folder: &str, name: &str) -> String;
    /// The folder of a path; none where it names none.
    fn folder(&self, path: &str) -> Option<String>;
    /// The last name of a path.
    fn name(&self, path: &str) -> String;

    /// Keep other commands from writing to this file until [`System::unlock`].
    fn lock(&self, path: &str) -> Result<(), String>;
    /// Let others write again.
    fn unlock(&self, path: &str);
    /// Put these bytes behind what is in a file, in one write; with `cut`, in place of
    /// what is there from that byte on.
    fn append(&self, path: &str, cut: Option<u64>, bytes: &[u8]) -> Result<(), String>;
    /// Make the file, or put another in its place, in one step: what is in `base`, if
    /// that is given, and these bytes behind it. Who may read `like` may read it.
    fn replace(
        &self,
        path: &str,
        base: Option<&str>,
        bytes: &[u8],
        like: &str,
    ) -> Result<(), String>;

    /// A variable of the environment, if it is there and not empty.
    fn env(&self, name: &str) -> Option<String>;
    /// The user's folder.
    fn home(&self) -> Option<String>;
    /// The folder that the command runs in.
    fn cwd(&self) -> String;
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// Random bytes.
    fn random(&self) -> [u8; 16];

    /// A line for standard error.
    fn note(&self, line: &str);
    /// What is being done, on a terminal; none takes the line away.
    fn progress(&self, doing: Option<&str>);

    /// A backend on this session.
    async fn backend(
        &self,
        session: SharedSession,
        options: BackendOptions,
    ) -> Result<Self::Backend, Failure>;
}
