//! A session in its file: opened, and written back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use harness_compact_engine::{Draft, Payload};
use harness_compact_formats::{Fault, Figures, Form, ReadOptions, Session, Stamp, Write};

use crate::sessions::{self, Program};
use crate::system::{Stat, System};
use crate::{Stopped, words};

/// A session that a backend works on while the command keeps hold of it.
#[derive(Clone, Debug)]
pub struct SharedSession(Arc<Mutex<Session>>);

impl SharedSession {
    /// Share a session.
    pub fn of(session: Session) -> Self {
        Self(Arc::new(Mutex::new(session)))
    }

    /// The session.
    pub fn lock(&self) -> MutexGuard<'_, Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which session.
#[derive(Debug, Args)]
pub struct Which {
    /// The session file.
    #[arg(required_unless_present = "latest")]
    pub session: Option<String>,
    /// The newest session of a program, of this working directory where the program
    /// keeps sessions by it, in place of SESSION.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "session")]
    pub latest: Option<Program>,
    /// Work on a session of --latest that its program may be writing right now: one
    /// that changed in the last minute.
    #[arg(long)]
    pub force: bool,
    /// How it is written; `auto` tells by how it begins.
    #[arg(long, value_name = "FORM", default_value = "auto", value_parser = parse_form)]
    pub format: FormChoice,
    /// Go on without lines that cannot be read, each named.
    #[arg(long)]
    pub skip_damaged: bool,
}

/// A form, or what there is to find out.
#[derive(Clone, Copy, Debug)]
pub struct FormChoice(pub Option<Form>);

fn parse_form(text: &str) -> Result<FormChoice, String> {
    if text == "auto" {
        return Ok(FormChoice(None));
    }
    let form = Form::named(text).ok_or_else(|| {
        let names = Form::names().join(", ");
        format!("neither `auto` nor one of {names}")
    })?;
    Ok(FormChoice(Some(form)))
}

/// How long a session must have been left alone before --latest takes it.
const WRITING_US: u64 = 60_000_000;

/// An opened session file.
pub struct Opened {
    pub path: String,
    pub session: SharedSession,
    options: ReadOptions,
    /// What the file was like when it was read.
    seen: Stat,
}

impl Opened {
    /// Open the session that was asked for, and tell what of it was left out.
    pub fn open(which: &Which, system: &impl System) -> Result<Self, Stopped> {
        let path = match (&which.session, which.latest) {
            (Some(path), _) => path.clone(),
            (None, Some(program)) => latest(program, which.force, system)?,
            (None, None) => return Err(Stopped::Usage("SESSION is missing".into())),
        };
        let options = ReadOptions {
            form: which.format.0,
            skip_damaged: which.skip_damaged,
        };
        Ok(Self::read(path, options, system)?)
    }

    /// Read a session file.
    pub fn read(path: String, options: ReadOptions, system: &impl System) -> Result<Self, String> {
        system.progress(Some(&format!("reading {path}")));
        let (bytes, seen) = read(&path, system)?;
        let session = Session::read(bytes, options).map_err(|fault| told(&path, &fault))?;
        Ok(Self {
            path,
            session: SharedSession::of(session),
            options,
            seen,
        })
    }

    /// Say what was left out of the file.
    pub fn tell_remarks(&self, system: &impl System) {
        const SHOWN: usize = 20;
        let session = self.session.lock();
        let remarks = session.remarks();
        for remark in remarks.iter().take(SHOWN) {
            system.note(&format!("{}: {remark}", self.path));
        }
        if remarks.len() > SHOWN {
            let more = words::grouped((remarks.len() - SHOWN) as u64);
            system.note(&format!("{}: and {more} more such lines", self.path));
        }
    }

    /// Take a compaction that the file says is under way as abandoned.
    pub fn settle(&self) -> Result<(), Stopped> {
        let mut session = self.session.lock();
        if session.compacting() {
            let reopened = [Draft::log_only(Payload::Reopened)];
            session
                .append(&reopened, None)
                .map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    /// Write what was appended to the session: to the file itself, or to another one
    /// that holds all of it.
    pub fn save(
        &self,
        out: Option<&str>,
        figures: Figures,
        system: &impl System,
    ) -> Result<(), Stopped> {
        system.progress(Some("writing"));
        let path = &self.path;
        let stamp = Stamp::new(system.now_ms(), system.random());
        let record = |session: &Session| {
            let written = session.write(&mut stamp.clone(), figures);
            written.map_err(|why| format!("{path}: {why}"))
        };
        let Some(out) = out else {
            let locked = system.lock(path);
            locked.map_err(|why| format!("{path} cannot be locked: {why}"))?;
            let done = self.save_in_place(record, system);
            system.unlock(path);
            return done.map_err(Stopped::Failed);
        };
        let session = self.session.lock();
        let failed = |why| format!("{out} could not be written: {why}");
        match record(&session)? {
            None => {}
            Some(Write::Append { keep, bytes }) => {
                // Of the file as it was read: what came since is its writer's.
                let same = keep == session.bytes().len() && system.stat(path) == Some(self.seen);
                let written = match same {
                    true => system.replace(out, Some(path), &bytes, path),
                    false => {
                        let mut whole = session.bytes()[..keep].to_vec();
                        whole.extend_from_slice(&bytes);
                        system.replace(out, None, &whole, path)
                    }
                };
                written.map_err(failed)?;
            }
            Some(Write::Whole(bytes)) => {
                system.replace(out, None, &bytes, path).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// With the file locked.
    fn save_in_place(
        &self,
        record: impl Fn(&Session) -> Result<Option<Write>, String>,
        system: &impl System,
    ) -> Result<(), String> {
        let path = &self.path;
        let mut session = self.session.lock();
        if system.stat(path) != Some(self.seen) {
            let bytes = system.read(path);
            let bytes = bytes.map_err(|why| format!("{path}: {why}"))?;
            if bytes != session.bytes() {
                let rebased = session.rebased(bytes);
                *session = rebased.ok_or_else(|| {
                    format!(
                        "{path}: changed: it was written to while the summary was being made, \
                         and what the summary stands for is no longer there as it was; \
                         the file is as its writer left it"
                    )
                })?;
            }
        }
        let failed = |why| format!("{path} could not be written: {why}");
        match record(&session)? {
            None => Ok(()),
            Some(Write::Append { keep, bytes }) => {
                // Only what is known to be torn is cut: another writer's line may have
                // come this very moment.
                let torn = (keep < session.bytes().len()).then_some(keep as u64);
                system.append(path, torn, &bytes).map_err(failed)
            }
            Some(Write::Whole(bytes)) => {
                let target = system.real(path).unwrap_or_else(|| path.clone());
                system.replace(&target, None, &bytes, path).map_err(failed)
            }
        }
    }

    /// Take the newest compaction back.
    pub fn undo(&self, system: &impl System) -> Result<(), Stopped> {
        let path = &self.path;
        let locked = system.lock(path);
        locked.map_err(|why| format!("{path} cannot be locked: {why}"))?;
        let undone = (|| {
            let mut session = self.session.lock();
            if system.stat(path) != Some(self.seen) {
                let bytes = system.read(path).map_err(|why| format!("{path}: {why}"))?;
                let anew = Session::read(bytes, self.options);
                *session = anew.map_err(|fault| told(path, &fault))?;
            }
            let write = session.undo().map_err(|why| format!("{path}: {why}"))?;
            let Write::Whole(bytes) = write else {
                return Err(format!("{path}: it cannot be undone"));
            };
            let target = system.real(path).unwrap_or_else(|| path.clone());
            let written = system.replace(&target, None, &bytes, path);
            written.map_err(|why| format!("{path} could not be written: {why}"))
        })();
        system.unlock(path);
        undone.map_err(Stopped::Failed)
    }
}

/// A file as it was at one moment, and what it was like then.
fn read(path: &str, system: &impl System) -> Result<(Vec<u8>, Stat), String> {
    // One that is written to while it is read is read again, but not for ever: what comes
    // behind what was read is a change since.
    const TRIES: usize = 5;
    for tried in 1..=TRIES {
        let before = system.stat(path);
        let bytes = system.read(path).map_err(|why| format!("{path}: {why}"))?;
        match before {
            Some(seen) if tried == TRIES || system.stat(path) == before => {
                return Ok((bytes, seen));
            }
            _ => {}
        }
    }
    Err(format!("{path}: it is gone"))
}

/// What is wrong with a file, with where.
pub fn told(path: &str, fault: &Fault) -> String {
    match fault {
        Fault::Line { line, why } => format!("{path}, line {line}: {why}"),
        other => format!("{path}: {other}"),
    }
}

fn latest(program: Program, force: bool, system: &impl System) -> Result<String, Stopped> {
    let found = sessions::find(&[program], Some(&system.cwd()), system);
    let Some(newest) = found.first() else {
        let name = program.name();
        return Err(Stopped::Failed(format!(
            "no session of {name} was found; `harness-compact sessions` lists those that are there"
        )));
    };
    let path = newest.path.clone();
    let age = (system.now_ms() * 1000).saturating_sub(newest.stat.modified_us);
    if age < WRITING_US && !force {
        return Err(Stopped::Failed(format!(
            "{path}: it changed in the last minute, so its program may be writing to it; \
             end the program, or add --force"
        )));
    }
    Ok(path)
}
