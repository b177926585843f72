//! Session files on disk: read, locked, appended to, replaced in one step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tempfile::NamedTempFile;
use uuid::Uuid;

/// How long a lock may be old before its owner is taken to be gone: it is held for
/// one write.
const STALE: Duration = Duration::from_secs(10);

/// How long to wait for a lock.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps other commands and stores from writing to a file while it lives.
///
/// Two locks: a file beside it, which the npm package's command makes as well, and the
/// operating system's, which [`crate::JsonlLog`] takes.
#[derive(Debug)]
pub struct FileLock {
    beside: PathBuf,
    _file: Option<File>,
}

impl FileLock {
    /// Wait until nobody else holds the lock of this file.
    pub fn take(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".harness-compact.lock");
        let beside = path.with_file_name(name);
        let begun = Instant::now();
        loop {
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&beside)
            {
                Ok(mut file) => {
                    let _ = write!(file, "{}", std::process::id());
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let age = fs::metadata(&beside).and_then(|held| held.modified());
                    let age = age
                        .ok()
                        .and_then(|at| SystemTime::now().duration_since(at).ok());
                    if age.is_some_and(|age| age > STALE) {
                        let _ = fs::remove_file(&beside);
                    } else if begun.elapsed() > PATIENCE {
                        return Err(io::Error::new(
                            io::ErrorKind::TimedOut,
                            format!("{} is held by another process", beside.display()),
                        ));
                    } else {
                        thread::sleep(Duration::from_millis(20));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // Where the file system has no locks, the one beside must do.
        let file = OpenOptions::new().read(true).append(true).open(&path).ok();
        let file = file.filter(|file| file.lock().is_ok());
        Ok(Self {
            beside,
            _file: file,
        })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.beside);
    }
}

/// Put bytes behind what is in a file, in one write; with `cut`, in place of what is
/// there from that byte on. What of them got there is taken away again where not all did.
pub fn append(path: &Path, cut: Option<u64>, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    if let Some(cut) = cut {
        file.set_len(cut)?;
    }
    let before = file.metadata()?.len();
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(more) if more > 0 => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => {
                // Unless somebody else has written meanwhile.
                let alone = file.metadata()?.len() == before + written as u64;
                if alone {
                    let _ = file.set_len(before);
                }
                return outcome.and(Err(io::ErrorKind::WriteZero.into()));
            }
        }
    }
    file.sync_data()
}

/// Make a file, or put another in its place, in one step: what is in `base`, and
/// `bytes` behind it. It has the permissions of `like`.
pub fn replace(path: &Path, base: Option<&Path>, bytes: &[u8], like: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    if let Some(base) = base {
        io::copy(&mut File::open(base)?, &mut file)?;
    }
    file.write_all(bytes)?;
    file.flush()?;
    fs::set_permissions(file.path(), fs::metadata(like)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// A file's size, and when it was changed in microseconds since 1970.
pub fn stat(path: &Path) -> Option<(u64, u64, bool)> {
    let stat = fs::metadata(path).ok()?;
    let changed = stat.modified().ok()?;
    let since = changed.duration_since(UNIX_EPOCH).ok()?;
    Some((stat.len(), since.as_micros() as u64, stat.is_dir()))
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

/// Random bytes.
pub fn random() -> [u8; 16] {
    *Uuid::new_v4().as_bytes()
}
