//! Session files of agent programs, and arrays of messages, as session logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use harness_compact_formats::{Figures, Form, ReadOptions, Refusal, Remark, Session, Stamp, Write};

use crate::files::{self, FileLock};
use crate::session::SessionLog;
use crate::types::{Draft, Event, Seq, SessionError};

/// How a session file is to be opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// How it is written; none to tell by how it begins.
    pub form: Option<Form>,
    /// Go on without lines that cannot be read; each is told by
    /// [`SessionFile::remarks`].
    pub skip_damaged: bool,
}

impl From<OpenOptions> for ReadOptions {
    fn from(options: OpenOptions) -> Self {
        Self {
            form: options.form,
            skip_damaged: options.skip_damaged,
        }
    }
}

/// A session of an agent program, as its file has it: of Claude Code, Codex, pi,
/// opencode, Gemini CLI or deepseek-harness; or an array of messages.
///
/// The surface is what the program would send if it resumed the file. What is appended
/// to the log stays in memory until [`SessionFile::save`] writes it to the file in the
/// program's own way.
///
/// ```
/// use harness_compact_host::SessionFile;
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("messages.json");
/// std::fs::write(&path, r#"[{"role":"user","content":"Hello"}]"#).unwrap();
/// let session = SessionFile::open(&path, Default::default()).unwrap();
/// assert_eq!(session.form().name(), "openai");
/// // Compact it, then:
/// assert!(!session.save().unwrap(), "nothing has changed");
/// ```
#[derive(Debug)]
pub struct SessionFile {
    path: PathBuf,
    id: String,
    session: Mutex<Session>,
    /// How often it was written: each time its events are numbered anew.
    saves: AtomicU32,
}

impl SessionFile {
    /// Open a session file. The error names the file, the line and what is wrong.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, SessionError> {
        let path = path.as_ref().to_path_buf();
        let failed = |error| SessionError::Unavailable(format!("{}: {error}", path.display()));
        let bytes = fs::read(&path).map_err(failed)?;
        let session = Session::read(bytes, options.into())
            .map_err(|fault| SessionError::Corrupt(format!("{}: {fault}", path.display())))?;
        let id = match session.id() {
            Some(id) => id.to_owned(),
            None => path
                .canonicalize()
                .map_err(failed)?
                .to_string_lossy()
                .into(),
        };
        Ok(Self {
            path,
            id,
            session: Mutex::new(session),
            saves: AtomicU32::new(0),
        })
    }

    /// Its form.
    pub fn form(&self) -> Form {
        self.lock().form()
    }

    /// What of it was left out, or is not as it should be.
    pub fn remarks(&self) -> Vec<Remark> {
        self.lock().remarks().to_vec()
    }

    /// The window of the session's model, where the file says so.
    pub fn context_window(&self) -> Option<u32> {
        self.lock().context_window()
    }

    /// The file's own records that a surface node comes from, as they stand there.
    pub fn records(&self, seq: Seq) -> Vec<String> {
        let session = self.lock();
        session
            .records(seq)
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    /// Write what was appended to the file, under its lock and whole or not at all.
    /// Answers whether there was anything to write.
    ///
    /// A file that has grown meanwhile keeps what came; one of which what was
    /// compacted is gone is left alone, and the error is
    /// [`SessionError::Rejected`].
    pub fn save(&self) -> Result<bool, SessionError> {
        let path = &self.path;
        let told = |error: std::io::Error| {
            SessionError::Unavailable(format!("{}: {error}", path.display()))
        };
        let rejected = |why: &str| SessionError::Rejected(format!("{}: {why}", path.display()));
        let mut session = self.lock();
        let _locked = FileLock::take(path).map_err(told)?;
        let bytes = fs::read(path).map_err(told)?;
        if bytes != session.bytes() {
            let rebased = session.rebased(bytes);
            *session = rebased.ok_or_else(|| rejected("what was compacted has changed in it"))?;
        }
        let mut stamp = Stamp::new(files::now_ms(), files::random());
        let write = session.write(&mut stamp, Figures::default());
        let write = write.map_err(|Refusal(why)| rejected(&why))?;
        match write {
            None => return Ok(false),
            Some(Write::Append { keep, bytes }) => {
                let torn = (keep < session.bytes().len()).then_some(keep as u64);
                files::append(path, torn, &bytes).map_err(told)?;
            }
            Some(Write::Whole(bytes)) => {
                let target = path.canonicalize().map_err(told)?;
                files::replace(&target, None, &bytes, path).map_err(told)?;
            }
        }
        let options = ReadOptions {
            form: Some(session.form()),
            skip_damaged: true,
        };
        let bytes = fs::read(path).map_err(told)?;
        *session = Session::read(bytes, options).map_err(|fault| rejected(&fault.to_string()))?;
        self.saves.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionLog for SessionFile {
    /// The session's id; another one after each [`SessionFile::save`], because the
    /// events are read anew then.
    fn id(&self) -> String {
        match self.saves.load(Ordering::Relaxed) {
            0 => self.id.clone(),
            saves => format!("{}#{saves}", self.id),
        }
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        Ok(self.lock().head())
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        self.lock().events(start, limit)
    }

    async fn append(
        &self,
        drafts: Vec<Draft>,
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.lock().append(&drafts, expected_head)
    }

    /// Nothing is durable before [`SessionFile::save`].
    async fn flush(&self) -> Result<(), SessionError> {
        Ok(())
    }
}
