//! Session files of other programs, taken in as logs.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use crate::event_json;
use crate::jsonl::TornTail;
use crate::pi;
use crate::types::SessionError;

/// How a session file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFormat {
    /// One event a line, as [`crate::JsonlLog`] reads and writes it.
    Log,
    /// A session of the pi coding agent.
    Pi,
}

impl SessionFormat {
    /// Tell a file's format by its first line.
    pub fn detect(path: &Path) -> Result<Self, SessionError> {
        let text = read(path)?;
        let first = text
            .split(|byte| *byte == b'\n')
            .find(|line| !line.trim_ascii().is_empty());
        let first = first.and_then(|line| event_json::parse(line.trim_ascii()).ok());
        Ok(match first {
            Some(line) if pi::is_session(&line) => Self::Pi,
            _ => Self::Log,
        })
    }
}

/// Write what `from` holds as a log to `to`, which is created or emptied. A log is
/// copied byte for byte. Answers the input's last line if that is not whole: it
/// is left out. Any other line that cannot be read is an error that names it.
pub fn copy_as_log(
    from: &Path,
    format: SessionFormat,
    to: &Path,
) -> Result<Option<TornTail>, SessionError> {
    let text = read(from)?;
    let (lines, torn) = parse_lines(from, &text)?;
    let create = || fs::File::create(to).map(BufWriter::new);
    let written = match format {
        SessionFormat::Log => {
            let torn = torn.as_ref().map_or(0, |torn| torn.bytes as usize);
            create().and_then(|mut file| {
                file.write_all(&text[..text.len() - torn])?;
                file.flush()
            })
        }
        SessionFormat::Pi => {
            let lines = pi::convert(lines).map_err(|(line, why)| malformed(from, line, &why))?;
            create().and_then(|mut file| {
                for line in lines {
                    writeln!(file, "{line}")?;
                }
                file.flush()
            })
        }
    };
    written.map_err(|error| unavailable(to, &error))?;
    Ok(torn)
}

/// A file's lines as JSON, each with its number, from 1.
type Lines = Vec<(usize, Value)>;

fn parse_lines(path: &Path, text: &[u8]) -> Result<(Lines, Option<TornTail>), SessionError> {
    let mut lines = Vec::new();
    for (line, number) in text.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        let content = line.trim_ascii();
        if content.is_empty() {
            continue;
        }
        match event_json::parse(content) {
            Ok(value) => lines.push((number, value)),
            Err(_) if !line.ends_with(b"\n") => {
                let bytes = line.len() as u64;
                return Ok((
                    lines,
                    Some(TornTail {
                        line: number,
                        bytes,
                    }),
                ));
            }
            Err(why) => return Err(malformed(path, number, &why)),
        }
    }
    Ok((lines, None))
}

fn read(path: &Path) -> Result<Vec<u8>, SessionError> {
    fs::read(path).map_err(|error| unavailable(path, &error))
}

pub(crate) fn unavailable(path: &Path, error: &io::Error) -> SessionError {
    SessionError::Unavailable(format!("{}: {error}", path.display()))
}

pub(crate) fn malformed(path: &Path, line: usize, why: &str) -> SessionError {
    SessionError::Corrupt(format!("{}, line {line}: {why}", path.display()))
}
