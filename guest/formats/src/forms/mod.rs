//! The forms of session files, one module each.

mod ai_messages;
mod claude_code;
mod codex;
mod gemini;
pub(crate) mod log;
mod opencode;
mod pi;

use harness_compact_engine::ContentBlock;

use crate::document::{Fault, Lines, Span, first_line, one_value};
use crate::json::{Fields, Json, object};
use crate::session::{Builder, Kind, Refusal, Rewritten, Session, Write};
use crate::stamp::Stamp;

/// How a session file is written: by which program, or for which interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One event a line: deepseek-harness, and the logs of this package.
    Log,
    /// The pi coding agent: a tree of entries, or the lines of its first versions.
    Pi,
    /// Claude Code: a tree of lines.
    ClaudeCode,
    /// Codex CLI: a rollout.
    Codex,
    /// What `opencode export` writes: one JSON object.
    Opencode,
    /// Gemini CLI: lines and patches, or the one object of earlier versions.
    Gemini,
    /// Messages of OpenAI's chat completions.
    OpenaiChat,
    /// Input items of OpenAI's Responses.
    OpenaiResponses,
    /// Messages of Anthropic's.
    Anthropic,
    /// `ModelMessage[]` of the AI SDK's.
    AiSdk,
}

impl Form {
    /// Every form.
    pub const ALL: [Form; 10] = [
        Self::Log,
        Self::Pi,
        Self::ClaudeCode,
        Self::Codex,
        Self::Opencode,
        Self::Gemini,
        Self::OpenaiChat,
        Self::OpenaiResponses,
        Self::Anthropic,
        Self::AiSdk,
    ];

    /// Its name, as the commands take it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Pi => "pi",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::OpenaiChat => "openai",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::AiSdk => "ai-sdk",
        }
    }

    /// The form of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// The names of all forms.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|form| form.name()).collect()
    }

    /// Whether it is one JSON value, and not lines that can be appended to. Gemini's
    /// earlier files are one as well.
    pub fn is_one_value(self) -> bool {
        matches!(
            self,
            Self::Opencode
                | Self::OpenaiChat
                | Self::OpenaiResponses
                | Self::Anthropic
                | Self::AiSdk
        )
    }

    /// Whether it is an array of messages, with no session around it.
    pub fn is_messages(self) -> bool {
        self.is_one_value() && self != Self::Opencode
    }

    pub(crate) fn reader(self) -> &'static dyn Reader {
        match self {
            Self::Log => &log::Log,
            Self::Pi => &pi::Pi,
            Self::ClaudeCode => &claude_code::ClaudeCode,
            Self::Codex => &codex::Codex,
            Self::Opencode => &opencode::Opencode,
            Self::Gemini => &gemini::Gemini,
            Self::OpenaiChat => &ai_messages::OpenaiChat,
            Self::OpenaiResponses => &ai_messages::OpenaiResponses,
            Self::Anthropic => &ai_messages::Anthropic,
            Self::AiSdk => &ai_messages::AiSdk,
        }
    }

    /// Tell a document's form by how it begins.
    pub fn recognise(bytes: &[u8]) -> Result<Self, Fault> {
        let unknown = || Fault::Unknown(first_line(bytes));
        let begins = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let begins = begins
            .iter()
            .copied()
            .find(|byte| *byte != 0 && !byte.is_ascii_whitespace());
        match begins {
            None => return Err(Fault::Empty),
            Some(b'{' | b'[') => {}
            Some(_) => return Err(unknown()),
        }
        // By the first line that is one of a form's; what cannot be read is told
        // when the whole is.
        let mut found = None;
        let mut lines = Lines::of(bytes, true);
        lines.most = 50;
        let _ = lines.each(|record| {
            found = found.or_else(|| line_form(&record.fields));
            Ok(())
        });
        if let Some(form) = found {
            return Ok(form);
        }
        let (_, text) = one_value(bytes)?;
        one_value_form(text).ok_or_else(unknown)
    }
}

/// The form that a line belongs to, if it can be told.
fn line_form(fields: &Fields<'_>) -> Option<Form> {
    let lines = [
        Form::Log,
        Form::Pi,
        Form::ClaudeCode,
        Form::Codex,
        Form::Gemini,
    ];
    lines
        .into_iter()
        .find(|form| form.reader().recognises(fields))
}

fn one_value_form(text: &str) -> Option<Form> {
    if let Ok(fields) = object(text) {
        if fields.has("info") && fields.get("messages").is_some_and(Json::is_array) {
            return Some(Form::Opencode);
        }
        if gemini::is_legacy(&fields) {
            return Some(Form::Gemini);
        }
    }
    ai_messages::recognise(Json::of(text))
}

/// One form: how a document of it is told, read, and written to.
pub(crate) trait Reader: Sync {
    /// Whether a line is one of this form's, and of no other's.
    fn recognises(&self, line: &Fields<'_>) -> bool {
        let _ = line;
        false
    }

    /// Read a document's events, each with the records that it comes from.
    fn read(&self, bytes: &[u8], skip_damaged: bool, into: &mut Builder) -> Result<(), Fault>;

    /// What a node says, from its records.
    fn content(&self, kind: Kind, records: &[Json<'_>]) -> Vec<ContentBlock>;

    /// What records a compaction in the form's own way.
    fn record(&self, rewritten: &Rewritten<'_>, stamp: &mut Stamp) -> Result<Write, Refusal>;

    /// Take a record that was put behind the others.
    fn push(&self, bytes: &[u8], record: Span, into: &mut Builder) -> Result<(), Fault> {
        let _ = (bytes, record, into);
        Err(Fault::Whole("its records come from its program".into()))
    }

    /// What takes the newest compaction back.
    fn undo(&self, session: &Session) -> Result<Write, Refusal> {
        undo_last_lines(session)
    }
}

/// A line that is none of its document's form's: another program's, or nobody's.
fn foreign(own: Form, fields: &Fields<'_>) -> Result<(), String> {
    match line_form(fields) {
        Some(form) if form != own => Err(format!(
            "a line of form {} in a session of form {}",
            form.name(),
            own.name()
        )),
        _ => Ok(()),
    }
}

/// Lines to put behind a document.
fn append_lines(session: &Session, lines: &[String]) -> Write {
    let keep = session.facts().torn.unwrap_or(session.bytes().len());
    let mut bytes = Vec::new();
    if keep > 0 && session.bytes()[keep - 1] != b'\n' {
        bytes.push(b'\n');
    }
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    Write::Append { keep, bytes }
}

/// A document without the lines of its newest compaction, which must be its last.
fn undo_last_lines(session: &Session) -> Result<Write, Refusal> {
    let facts = session.facts();
    let (Some(first), Some(end)) = (facts.compaction.first(), facts.compaction.last()) else {
        return Err(session.refusal("it holds no compaction"));
    };
    if facts.last.is_some_and(|last| last.end > end.end) {
        return Err(session.refusal(
            "it has gone on since its newest compaction, which can only be taken back while it is the last thing in the file",
        ));
    }
    Ok(Write::Whole(session.bytes()[..first.start].to_vec()))
}

/// A JSON document whose list of messages is to be another one: the text of each of
/// its elements.
fn with_list(session: &Session, list: Span, elements: &[&str]) -> Write {
    let bytes = session.bytes();
    let text = session.text(list);
    // As the list was laid out, as far as its first element tells.
    let inner = text.strip_prefix('[').unwrap_or(text);
    let gap = &inner[..inner.len() - inner.trim_ascii_start().len()];
    let end = text.strip_suffix(']').unwrap_or(text);
    let tail = &end[end.trim_ascii_end().len()..];
    let mut out = bytes[..list.start].to_vec();
    out.push(b'[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(gap.as_bytes());
        out.extend_from_slice(element.as_bytes());
    }
    out.extend_from_slice(tail.as_bytes());
    out.push(b']');
    out.extend_from_slice(&bytes[list.end..]);
    Write::Whole(out)
}

/// Whether a message is a checkpoint of this package's.
fn is_checkpoint(content: &[ContentBlock]) -> bool {
    match content.first() {
        Some(ContentBlock::Text(text)) => {
            let head = text.get(..1000).unwrap_or(text);
            head.contains("<compacted-summary>")
        }
        _ => false,
    }
}

/// Where in its document a piece of it stands.
fn span_of(bytes: &[u8], piece: &str) -> Span {
    let start = piece.as_ptr() as usize - bytes.as_ptr() as usize;
    Span {
        start,
        end: start + piece.len(),
    }
}

/// A value as a line's JSON text.
fn line(value: &serde_json::Value) -> String {
    value.to_string()
}
