//! A session log in a file: one JSON event a line, appended to and never rewritten.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use harness_compact_formats::{EventStamp, Line, parse, read_line, rewrite_result, write_event};
use uuid::Uuid;

use crate::session::{SessionLog, check_head};
use crate::types::{CHECKPOINT_SOURCE, Draft, Event, Payload, Seq, SessionError, SurfaceOp};

/// A log file: an optional header line, then one JSON event a line,
/// `{type, seq, time, data, sourceEventSeqs?, surfaceOp?}`.
///
/// What is in the file is never changed, only appended to, under an advisory lock
/// on the file, in one write. Events that other processes append are seen. A last
/// line that was torn by a crash is left out, and cut off by the next append;
/// [`JsonlLog::torn_tail`] tells of it.
#[derive(Clone, Debug)]
pub struct JsonlLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    id: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    rows: Vec<Row>,
    head: Seq,
    /// Bytes of the file that have been taken in: its complete lines.
    taken: u64,
    /// How many lines those are.
    lines: usize,
    torn: Option<TornTail>,
    /// Whether a compaction began that has not ended, by what the log says.
    compacting: bool,
    /// What ties the events of the newest compaction together.
    compaction_id: Option<String>,
    /// Whether the log calls its compactions `compaction/…`, as later releases of
    /// deepseek-harness do.
    later_names: bool,
}

/// Where a line with events lies.
#[derive(Clone, Copy, Debug)]
struct Row {
    first: Seq,
    offset: u64,
    length: usize,
}

/// A last line that is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Its number, from 1.
    pub line: usize,
    /// How many bytes of it there are.
    pub bytes: u64,
}

impl JsonlLog {
    /// Open a log file, which must exist and may be empty. Every line is read: an
    /// error names the file, the line and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SessionError> {
        let path = path.as_ref().to_path_buf();
        let failed = |error: io::Error| unavailable(&path, &error);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        // A file that cannot be written to can still be measured.
        let file = file.or_else(|_| File::open(&path)).map_err(failed)?;
        let mut state = State {
            file,
            rows: Vec::new(),
            head: 0,
            taken: 0,
            lines: 0,
            torn: None,
            compacting: false,
            compaction_id: None,
            later_names: false,
        };
        let id = state.catch_up(&path)?;
        let id = match id {
            Some(id) => id,
            None => {
                let path = path.canonicalize().map_err(failed)?;
                path.to_string_lossy().into_owned()
            }
        };
        let state = Mutex::new(state);
        Ok(Self {
            inner: Arc::new(Inner { path, id, state }),
        })
    }

    /// The last line, if it is not whole.
    pub fn torn_tail(&self) -> Option<TornTail> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).torn.clone()
    }

    /// Declare every earlier writer gone: a compaction that one of them left open is
    /// over, and does not keep others waiting. For a process that has just opened
    /// the log as its only writer. Answers whether there was one.
    pub async fn settle(&self) -> Result<bool, SessionError> {
        let open = self.blocking(|path, state| {
            state.catch_up(path)?;
            Ok(state.compacting)
        });
        let open = open.await?;
        if open {
            let reopened = vec![Draft::log_only(Payload::Reopened)];
            self.append(reopened, None).await?;
        }
        Ok(open)
    }

    /// Run `work` on the state, where blocking is allowed.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path, &mut State) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let inner = self.inner.clone();
        let task = tokio::task::spawn_blocking(move || {
            let mut state = inner.state.lock().unwrap_or_else(PoisonError::into_inner);
            work(&inner.path, &mut state)
        });
        let failed = |error: tokio::task::JoinError| SessionError::Other(error.to_string());
        task.await.map_err(failed)?
    }
}

#[async_trait]
impl SessionLog for JsonlLog {
    fn id(&self) -> String {
        self.inner.id.clone()
    }

    async fn head(&self) -> Result<Seq, SessionError> {
        self.blocking(|path, state| {
            state.catch_up(path)?;
            Ok(state.head)
        })
        .await
    }

    async fn read(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        self.blocking(move |path, state| state.read(path, start, limit))
            .await
    }

    async fn append(
        &self,
        drafts: Vec<Draft>,
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.blocking(move |path, state| {
            state
                .file
                .lock()
                .map_err(|error| unavailable(path, &error))?;
            let appended = state.append(path, &drafts, expected_head);
            let unlocked = state.file.unlock();
            let first = appended?;
            unlocked.map_err(|error| unavailable(path, &error))?;
            Ok(first)
        })
        .await
    }

    async fn flush(&self) -> Result<(), SessionError> {
        self.blocking(|path, state| {
            let synced = state.file.sync_all();
            synced.map_err(|error| unavailable(path, &error))
        })
        .await
    }
}

impl State {
    /// Take in what has been appended, by whomever. Answers the session's id if
    /// it came upon the header.
    fn catch_up(&mut self, path: &Path) -> Result<Option<String>, SessionError> {
        let failed = |error| unavailable(path, &error);
        let size = self.file.metadata().map_err(failed)?.len();
        if size < self.taken {
            let why = "it has become shorter since it was opened";
            return Err(SessionError::Corrupt(format!("{}: {why}", path.display())));
        }
        let mut bytes = Vec::new();
        self.file
            .seek(SeekFrom::Start(self.taken))
            .map_err(failed)?;
        (&self.file)
            .take(size - self.taken)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        self.torn = None;
        let mut id = None;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let number = self.lines + 1;
            let whole = line.ends_with(b"\n");
            let text = line.trim_ascii();
            if !text.is_empty() {
                let taken = std::str::from_utf8(text).map_err(|error| error.to_string());
                match taken.and_then(|text| self.take(text, line.len())) {
                    Ok(header) => id = id.or(header),
                    // Only the last line can lack its end, and then it is torn.
                    Err(_) if !whole && parse(text).is_err() => {
                        self.torn = Some(TornTail {
                            line: number,
                            bytes: line.len() as u64,
                        });
                        break;
                    }
                    Err(why) => return Err(malformed(path, number, &why)),
                }
            }
            self.taken += line.len() as u64;
            self.lines = number;
        }
        Ok(id)
    }

    fn take(&mut self, text: &str, length: usize) -> Result<Option<String>, String> {
        match read_line(text)? {
            Line::Header { id } => {
                if self.head > 0 {
                    return Err("a header after the first event".into());
                }
                Ok(id)
            }
            Line::Events { first, count } => {
                if first.seq != self.head {
                    let expected = self.head;
                    return Err(format!("its seq is {}, expected {expected}", first.seq));
                }
                match first.payload {
                    Payload::CompactStart(_) => {
                        self.compacting = true;
                        let line = parse(text.as_bytes())?;
                        let id = line["data"]["compactionId"].as_str();
                        self.compaction_id = id.map(str::to_owned);
                        let kind = line["type"].as_str().unwrap_or_default();
                        self.later_names = kind.starts_with("compaction/");
                    }
                    Payload::CompactEnd(_) | Payload::Reopened => self.compacting = false,
                    _ => {}
                }
                self.rows.push(Row {
                    first: first.seq,
                    offset: self.taken,
                    length,
                });
                let head = self.head.checked_add(count);
                self.head = head.ok_or("the log is longer than seqs can count")?;
                Ok(None)
            }
        }
    }

    fn read(&mut self, path: &Path, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        let end = start.saturating_add(limit).min(self.head);
        let mut row = self
            .rows
            .partition_point(|row| row.first <= start)
            .saturating_sub(1);
        let mut events = Vec::new();
        while let Some(at) = self.rows.get(row).copied().filter(|at| at.first < end) {
            let line = read_line(&self.row_text(path, at)?);
            let Ok(Line::Events { first, count }) = line else {
                return Err(changed(path, at.first));
            };
            for seq in first.seq.max(start)..first.seq.saturating_add(count).min(end) {
                let mut event = first.clone();
                event.seq = seq;
                events.push(event);
            }
            row += 1;
        }
        Ok(events)
    }

    /// The line that an event stands in.
    fn line(&mut self, path: &Path, seq: Seq) -> Result<String, SessionError> {
        let at = self.rows.partition_point(|row| row.first <= seq);
        let Some(row) = at.checked_sub(1).and_then(|at| self.rows.get(at).copied()) else {
            let why = format!("{}: there is no event {seq}", path.display());
            return Err(SessionError::Rejected(why));
        };
        self.row_text(path, row)
    }

    fn row_text(&mut self, path: &Path, row: Row) -> Result<String, SessionError> {
        let mut bytes = vec![0; row.length];
        let read = self.file.seek(SeekFrom::Start(row.offset));
        let read = read.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|error| unavailable(path, &error))?;
        let text = String::from_utf8(bytes).map_err(|_| changed(path, row.first))?;
        Ok(text.trim_ascii().into())
    }

    /// With the file locked.
    fn append(
        &mut self,
        path: &Path,
        drafts: &[Draft],
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        self.catch_up(path)?;
        check_head(self.head, expected_head)?;
        let failed = |error| unavailable(path, &error);
        let first = self.head;
        let mut text = Vec::new();
        if self.taken > 0 {
            let mut last = [0];
            self.file
                .seek(SeekFrom::Start(self.taken - 1))
                .map_err(failed)?;
            self.file.read_exact(&mut last).map_err(failed)?;
            if last != *b"\n" {
                text.push(b'\n');
            }
        }
        let time = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        for (draft, seq) in drafts.iter().zip(first..) {
            let stamp = EventStamp {
                time: time.as_millis() as u64,
                message_id: Uuid::new_v4().to_string(),
                compaction_id: self.compaction_id(&draft.payload),
                later_names: self.later_names,
            };
            let mut line = write_event(seq, draft, &stamp);
            if let (Payload::ToolResult(result), Some(SurfaceOp::Replace(range))) =
                (&draft.payload, draft.surface)
            {
                let original = parse(self.line(path, range.start)?.as_bytes());
                let original = original.map_err(|_| changed(path, range.start))?;
                if let Some(data) = rewrite_result(&original, result) {
                    line["data"] = data;
                }
            }
            text.extend_from_slice(line.to_string().as_bytes());
            text.push(b'\n');
        }
        // Without what a crash left behind the last whole line.
        self.file.set_len(self.taken).map_err(failed)?;
        self.file
            .seek(SeekFrom::Start(self.taken))
            .map_err(failed)?;
        if let Err(error) = self.file.write_all(&text) {
            // All or nothing.
            let _ = self.file.set_len(self.taken);
            return Err(failed(error));
        }
        self.catch_up(path)?;
        Ok(first)
    }

    /// The id that ties the events of one compaction together.
    fn compaction_id(&mut self, payload: &Payload) -> Option<String> {
        match payload {
            Payload::CompactStart(_) => {
                self.compaction_id = Some(Uuid::new_v4().to_string());
                self.compaction_id.clone()
            }
            Payload::CompactSummary(_) => self.compaction_id.clone(),
            Payload::UserMessage(user) if user.source == CHECKPOINT_SOURCE => {
                self.compaction_id.clone()
            }
            Payload::CompactEnd(_) => self.compaction_id.take(),
            _ => None,
        }
    }
}

fn changed(path: &Path, seq: Seq) -> SessionError {
    let path = path.display();
    SessionError::Corrupt(format!(
        "{path}: event {seq} has been changed since it was read"
    ))
}

fn unavailable(path: &Path, error: &io::Error) -> SessionError {
    SessionError::Unavailable(format!("{}: {error}", path.display()))
}

fn malformed(path: &Path, line: usize, why: &str) -> SessionError {
    SessionError::Corrupt(format!("{}, line {line}: {why}", path.display()))
}
