//! A file as its records: the lines of a JSONL file, or the one value of a JSON
//! file, and what of it cannot be read.

use std::fmt;

use memchr::{memchr, memmem};

use crate::json::{Fields, Json, object};

/// A piece of a document, by its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

/// Something of a file that was left out, or is not as it should be. It stays in
/// the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The line, from 1.
    pub line: usize,
    /// What it is about, such as `300 NUL bytes`.
    pub what: String,
    /// Whether it was left out.
    pub left_out: bool,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left_out {
            true => write!(f, "left out: line {}, {}", self.line, self.what),
            false => write!(f, "line {}: {}", self.line, self.what),
        }
    }
}

/// Why a file cannot be read as a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is nothing in it.
    Empty,
    /// It is of no form that is known; this is how it begins.
    Unknown(String),
    /// A line that cannot be read.
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The whole of it is not what it should be.
    Whole(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty: no session"),
            Self::Unknown(first) => write!(
                f,
                "not a session file of a known form ({}); its first line is {first}",
                crate::Form::names().join(", ")
            ),
            Self::Line { line, why } => write!(f, "line {line}: {why}"),
            Self::Whole(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

/// One record of a document.
pub(crate) struct Record<'a> {
    pub span: Span,
    pub fields: Fields<'a>,
}

/// How the lines of a document are read.
pub(crate) struct Lines<'a> {
    text: &'a [u8],
    /// Whether lines that cannot be read are left out, each with a remark.
    skip_damaged: bool,
    /// Where the last line begins, if it was torn.
    pub torn: Option<usize>,
    /// How many lines are looked at.
    pub most: usize,
    pub remarks: Vec<Remark>,
}

impl<'a> Lines<'a> {
    pub fn of(text: &'a [u8], skip_damaged: bool) -> Self {
        Self {
            text,
            skip_damaged,
            torn: None,
            most: usize::MAX,
            remarks: Vec::new(),
        }
    }

    /// Hand each record to `take`, in order. What `take` finds wrong with one is a
    /// line that cannot be read.
    pub fn each(
        &mut self,
        mut take: impl FnMut(Record<'a>) -> Result<(), String>,
    ) -> Result<(), Fault> {
        let text = self.text;
        let mut at = if text.starts_with(b"\xEF\xBB\xBF") {
            3
        } else {
            0
        };
        let mut line = 0;
        while at < text.len() && line < self.most {
            line += 1;
            let length = memchr(b'\n', &text[at..]);
            let (end, next) = match length {
                Some(length) => (at + length, at + length + 1),
                None => (text.len(), text.len()),
            };
            let whole = length.is_some();
            if let Err(why) = self.line(line, Span { start: at, end }, whole, &mut take) {
                self.damaged(line, why)?;
            }
            at = next;
        }
        Ok(())
    }

    /// A line that cannot be read: an error, or a remark where that is wanted.
    pub fn damaged(&mut self, line: usize, why: String) -> Result<(), Fault> {
        if !self.skip_damaged {
            return Err(Fault::Line { line, why });
        }
        self.leave_out(line, why);
        Ok(())
    }

    fn leave_out(&mut self, line: usize, what: String) {
        self.remarks.push(Remark {
            line,
            what,
            left_out: true,
        });
    }

    fn line(
        &mut self,
        line: usize,
        span: Span,
        whole: bool,
        take: &mut impl FnMut(Record<'a>) -> Result<(), String>,
    ) -> Result<(), String> {
        let bytes: &'a [u8] = &self.text[span.start..span.end];
        if bytes.trim_ascii().is_empty() {
            return Ok(());
        }
        // A machine that crashed leaves runs of NUL where data was to come: no JSON
        // has any, so what stands between them is looked at by itself.
        if memchr(0, bytes).is_some() {
            let nuls = bytes.iter().filter(|byte| **byte == 0).count();
            self.leave_out(line, format!("{nuls} NUL bytes"));
            let mut at = span.start;
            for piece in bytes.split(|byte| *byte == 0) {
                let span = Span {
                    start: at,
                    end: at + piece.len(),
                };
                at = span.end + 1;
                if !piece.trim_ascii().is_empty() {
                    self.line(line, span, whole, take)?;
                }
            }
            return Ok(());
        }
        let (start, bytes) = trimmed(span.start, bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let why = format!("not UTF-8 from byte {} on", error.valid_up_to() + 1);
                return self.torn(line, start, span.end, whole, why);
            }
        };
        let fields = match object(text) {
            Ok(fields) => fields,
            Err(why) => {
                if let Some(glued) = glued(text) {
                    self.remarks.push(Remark {
                        line,
                        what: format!("{} records in one line", glued.len()),
                        left_out: false,
                    });
                    for piece in glued {
                        let start =
                            start + (piece.raw().as_ptr() as usize - text.as_ptr() as usize);
                        let span = Span {
                            start,
                            end: start + piece.raw().len(),
                        };
                        if let Some(fields) = piece.fields() {
                            take(Record { span, fields })?;
                        }
                    }
                    return Ok(());
                }
                return self.torn(line, start, span.end, whole, why);
            }
        };
        let span = Span {
            start,
            end: start + text.len(),
        };
        take(Record { span, fields })
    }
}

impl Lines<'_> {
    /// A line that is not whole: the last one, which a crash tore; or one that was the
    /// last when a compaction was written behind it. Any other is an error.
    fn torn(
        &mut self,
        line: usize,
        start: usize,
        end: usize,
        whole: bool,
        why: String,
    ) -> Result<(), String> {
        let before_compaction = || {
            let next = self.text.get(end + 1..).unwrap_or_default();
            let next = next.split(|byte| *byte == b'\n').next().unwrap_or_default();
            memmem::find(next, b"<compacted-summary>").is_some()
                || memmem::find(next, b"\"compact_boundary\"").is_some()
        };
        if whole && !before_compaction() {
            return Err(why);
        }
        if !whole {
            self.torn = Some(start);
        }
        self.leave_out(line, format!("cut off after {} bytes", end - start));
        Ok(())
    }
}

/// Several objects in one line: the end of the line between them was lost.
fn glued(text: &str) -> Option<Vec<Json<'_>>> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Json<'_>>();
    let values: Vec<Json<'_>> = values.collect::<Result<_, _>>().ok()?;
    (values.len() > 1 && values.iter().all(|value| value.is_object())).then_some(values)
}

fn trimmed(start: usize, bytes: &[u8]) -> (usize, &[u8]) {
    let from = bytes.len() - bytes.trim_ascii_start().len();
    (start + from, bytes.trim_ascii())
}

/// The text of a file that holds one JSON value: without a byte-order mark, and
/// without the NUL bytes behind it.
pub(crate) fn one_value(bytes: &[u8]) -> Result<(usize, &str), Fault> {
    let start = if bytes.starts_with(b"\xEF\xBB\xBF") {
        3
    } else {
        0
    };
    let text = std::str::from_utf8(&bytes[start..]).map_err(|error| {
        Fault::Whole(format!(
            "not UTF-8 from byte {} on",
            start + error.valid_up_to() + 1
        ))
    })?;
    let trimmed = text.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace());
    let start = start + (trimmed.as_ptr() as usize - text.as_ptr() as usize);
    Ok((start, trimmed))
}

/// How a file begins, for a person: its first line, cut.
pub(crate) fn first_line(bytes: &[u8]) -> String {
    let line = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.trim_ascii())
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&line[..line.len().min(400)]).into_owned();
    let shown: String = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(80)
        .collect();
    match line.len() > shown.len() {
        true => format!("`{shown}…`"),
        false => format!("`{shown}`"),
    }
}
