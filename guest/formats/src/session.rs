//! A session read from a document: events, which records of the document they come
//! from, and what is to be written of what a backend appended.

use std::collections::BTreeMap;

use harness_compact_engine::{
    AssistantMessage, CHECKPOINT_SOURCE, ContentBlock, Draft, Event, Payload, RequestHeader, Route,
    Seq, SessionError, SurfaceOp, SurfaceRange, Usage, UserMessage,
};

use crate::content::texts;
use crate::document::{Fault, Remark, Span};
use crate::events::{self, Line};
use crate::forms::Form;
use crate::json::{Json, object};
use crate::stamp::Stamp;

/// How a document is to be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Its form; none to tell by how it begins.
    pub form: Option<Form>,
    /// Go on without lines that cannot be read; each is told in a [`Remark`].
    pub skip_damaged: bool,
}

/// What is to be done to the file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Put `bytes` behind what is there, which is kept up to `keep`: all of it, but for
    /// the end of a log that a crash tore.
    Append {
        /// How many bytes of the document stay.
        keep: usize,
        /// What comes behind them.
        bytes: Vec<u8>,
    },
    /// Put this in place of what is there.
    Whole(Vec<u8>),
}

/// Why a compaction cannot be written in the document's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Figures of a compaction, for forms that record them, in tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The next request before it.
    pub before: u32,
    /// The next request after it.
    pub after: u32,
}

/// What kind of node, or other event, an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From the user: messages, and tool results where the form has those there.
    User,
    /// A command that the user ran in a shell.
    Shell,
    Assistant,
    /// A tool's answer.
    Result,
    /// Put there by the program.
    Context,
    Checkpoint,
    /// A line of a log, which says itself what it is.
    Line,
    /// One of several events that a line of a log packs.
    Packed,
    TurnStart(u32),
    TurnEnd(u32),
    /// The envelope of the requests that follow, by its number.
    Header(u32),
}

/// One event, by where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub kind: Kind,
    /// Its first part and how many it has.
    first: u32,
    count: u32,
    surface: Option<SurfaceOp>,
    /// What the provider counted, by its number.
    usage: Option<u32>,
    /// Whether it is only a part of the record before it.
    within: bool,
}

/// What a form knows of a document besides its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub id: Option<String>,
    pub cwd: Option<String>,
    /// The record that the conversation goes on from.
    pub leaf: Option<Span>,
    /// The last record.
    pub last: Option<Span>,
    /// The list that the messages stand in, for JSON documents.
    pub list: Option<Span>,
    /// Whether a log calls its compactions by the later names.
    pub later_names: bool,
    /// The window that the file says its model has.
    pub context_window: Option<u32>,
    /// The newest compaction of this package's or the program's own, as the records
    /// that recorded it.
    pub compaction: Vec<Span>,
    /// Whether a log says that a compaction began and not that it ended.
    pub compacting: bool,
    /// Records that go before the checkpoint of every compaction.
    pub sealed: Vec<Span>,
    /// Where a last line begins that was torn, in a log.
    pub torn: Option<usize>,
}

/// Gathers the events of a document.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    entries: Vec<Entry>,
    parts: Vec<Span>,
    usages: Vec<Usage>,
    headers: Vec<Route>,
    surface: Vec<Seq>,
    turn: u32,
    open: bool,
    /// The next node takes the place of all there are.
    replacing: bool,
    /// The answer that the newest record is a piece of, where answers come in pieces.
    pub answer: Option<Seq>,
    /// Tokens of what every request begins with, besides the surface.
    pub overhead: u64,
    pub facts: Facts,
    pub remarks: Vec<Remark>,
}

impl Builder {
    fn push(&mut self, kind: Kind, parts: &[Span], surface: Option<SurfaceOp>) -> Seq {
        let seq = self.entries.len() as Seq;
        self.entries.push(Entry {
            kind,
            first: self.parts.len() as u32,
            count: parts.len() as u32,
            surface,
            usage: None,
            within: false,
        });
        self.parts.extend_from_slice(parts);
        seq
    }

    /// A node, after those there are.
    pub fn node(&mut self, kind: Kind, parts: &[Span], usage: Option<Usage>) -> Seq {
        let op = match (self.replacing, self.surface.first(), self.surface.last()) {
            (true, Some(start), Some(end)) => SurfaceOp::Replace(SurfaceRange {
                start: *start,
                end: *end,
            }),
            _ => SurfaceOp::Append,
        };
        if std::mem::take(&mut self.replacing) {
            self.surface.clear();
        }
        let seq = self.push(kind, parts, Some(op));
        self.surface.push(seq);
        if let Some(usage) = usage {
            self.count(seq, usage);
        }
        seq
    }

    /// A node that is a part of the record of the node before it.
    pub fn node_within(&mut self, kind: Kind, part: Span) {
        let seq = self.node(kind, &[part], None);
        self.entries[seq as usize].within = true;
    }

    /// A message of the user's own: it begins a turn.
    pub fn user(&mut self, kind: Kind, parts: &[Span]) -> Seq {
        self.end_turn();
        self.turn += 1;
        self.open = true;
        self.push(Kind::TurnStart(self.turn), &[], None);
        self.node(kind, parts, None)
    }

    /// More records of a node that is the newest with parts.
    pub fn extend(&mut self, seq: Seq, part: Span) {
        let entry = self.entries[seq as usize];
        let end = (entry.first + entry.count) as usize;
        if end == self.parts.len() {
            self.parts.push(part);
        } else {
            // Others have come since: its parts move behind them.
            let own = self.parts[entry.first as usize..end].to_vec();
            self.entries[seq as usize].first = self.parts.len() as u32;
            self.parts.extend(own);
            self.parts.push(part);
        }
        self.entries[seq as usize].count += 1;
    }

    /// What the provider counted for an answer.
    pub fn count(&mut self, seq: Seq, usage: Usage) {
        let entry = &mut self.entries[seq as usize];
        match entry.usage {
            Some(index) => self.usages[index as usize] = usage,
            None => {
                entry.usage = Some(self.usages.len() as u32);
                self.usages.push(usage);
            }
        }
    }

    /// The conversation was rewritten: the nodes that follow are all there is.
    pub fn rewrite(&mut self) {
        self.end_turn();
        self.replacing = !self.surface.is_empty();
    }

    /// The records of the nodes there are.
    pub fn records(&self) -> Vec<Span> {
        let nodes = self.surface.iter().map(|seq| &self.entries[*seq as usize]);
        nodes
            .flat_map(|entry| self.parts_of(entry).iter().copied())
            .collect()
    }

    fn parts_of(&self, entry: &Entry) -> &[Span] {
        &self.parts[entry.first as usize..(entry.first + entry.count) as usize]
    }

    /// Where the requests that follow go.
    pub fn header(&mut self, provider: &str, model: &str) {
        let known = self.headers.last();
        if known.is_some_and(|known| known.provider == provider && known.model == model) {
            return;
        }
        self.headers.push(Route {
            provider: provider.into(),
            model: model.into(),
        });
        self.push(Kind::Header(self.headers.len() as u32 - 1), &[], None);
    }

    /// A line of a log, with what it does to the surface.
    pub fn line(&mut self, span: Span, surface: Option<SurfaceOp>) -> Result<(), String> {
        let seq = self.entries.len() as Seq;
        if let Some(op) = surface {
            place(&mut self.surface, seq, op)?;
        }
        self.push(Kind::Line, &[span], surface);
        Ok(())
    }

    /// Events that a line of a log packs.
    pub fn packed(&mut self, span: Span, count: u32) {
        for _ in 0..count {
            self.push(Kind::Packed, &[span], None);
        }
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// What was begun with the last message of the user's is over.
    pub fn end_turn(&mut self) {
        if std::mem::take(&mut self.open) {
            self.push(Kind::TurnEnd(self.turn), &[], None);
        }
    }
}

/// What an event does to a surface.
fn place(surface: &mut Vec<Seq>, seq: Seq, op: SurfaceOp) -> Result<(), String> {
    match op {
        SurfaceOp::Append => surface.push(seq),
        SurfaceOp::Replace(SurfaceRange { start, end }) => {
            let find = |seq: Seq| {
                surface
                    .iter()
                    .rposition(|node| *node == seq)
                    .ok_or_else(|| format!("it replaces event {seq}, which is not on the surface"))
            };
            let (first, last) = (find(start)?, find(end)?);
            if first > last {
                return Err(format!(
                    "it replaces events {start} to {end}, which lie the other way round"
                ));
            }
            surface.splice(first..=last, [seq]);
        }
    }
    Ok(())
}

/// A session of a document, and what has been appended to it since it was read.
///
/// The document is kept as it is; what a backend appends stays beside it until
/// [`Session::write`] says what is to be written of it.
pub struct Session {
    form: Form,
    bytes: Vec<u8>,
    read: Builder,
    /// The surface as it was read.
    read_surface: Vec<Seq>,
    appended: Vec<Event>,
    options: ReadOptions,
}

/// Without what it says, which is its owner's.
impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("form", &self.form)
            .field("bytes", &self.bytes.len())
            .field("events", &self.head())
            .field("nodes", &self.read.surface.len())
            .finish_non_exhaustive()
    }
}

/// The surface after a compaction, for those who write it down.
pub(crate) struct Rewritten<'a> {
    pub session: &'a Session,
    /// Nodes before the checkpoint, which a range in the middle leaves.
    pub head: Vec<Seq>,
    /// The checkpoint's text.
    pub checkpoint: String,
    /// Nodes after it.
    pub tail: Vec<Seq>,
    pub figures: Figures,
}

impl Session {
    /// Read a document. The error says where it cannot be read, and why.
    pub fn read(bytes: Vec<u8>, options: ReadOptions) -> Result<Self, Fault> {
        let form = match options.form {
            Some(form) => form,
            None => Form::recognise(&bytes)?,
        };
        if is_blank(&bytes) && form != Form::Log {
            return Err(Fault::Empty);
        }
        if bytes.len() as u64 > u64::from(u32::MAX) {
            return Err(Fault::Whole("larger than 4 GB".into()));
        }
        let mut read = Builder::default();
        form.reader()
            .read(&bytes, options.skip_damaged, &mut read)?;
        // Nobody is working on a session that lies in a file: what has no result by now
        // gets none. An array of messages may be part of a loop that is running.
        if !form.is_messages() {
            read.end_turn();
        }
        Ok(Self {
            form,
            read_surface: read.surface.clone(),
            read,
            bytes,
            appended: Vec::new(),
            options,
        })
    }

    /// The document's form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The document as it was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was left out of it, or is not as it should be.
    pub fn remarks(&self) -> &[Remark] {
        &self.read.remarks
    }

    /// The session's id, where the document says one.
    pub fn id(&self) -> Option<&str> {
        self.read.facts.id.as_deref()
    }

    /// The folder that the session worked in, where the document says so.
    pub fn cwd(&self) -> Option<&str> {
        self.read.facts.cwd.as_deref()
    }

    /// The window of the session's model, where the document says so.
    pub fn context_window(&self) -> Option<u32> {
        self.read.facts.context_window
    }

    /// The number of events.
    pub fn head(&self) -> Seq {
        (self.read.len() + self.appended.len()) as Seq
    }

    /// How many events the document itself has.
    pub fn read_head(&self) -> Seq {
        self.read.len() as Seq
    }

    /// The surface: the nodes that the next request is made from.
    pub fn surface(&self) -> &[Seq] {
        &self.read.surface
    }

    /// The document's own records that a node comes from, as they stand there.
    pub fn records(&self, seq: Seq) -> Vec<&str> {
        let entry = self.read.entries.get(seq as usize);
        let spans = entry.map(|entry| self.read.parts_of(entry));
        let records = spans.unwrap_or_default().iter();
        records.map(|span| self.text(*span)).collect()
    }

    pub(crate) fn text(&self, span: Span) -> &str {
        std::str::from_utf8(&self.bytes[span.start..span.end]).unwrap_or_default()
    }

    pub(crate) fn json(&self, span: Span) -> Json<'_> {
        Json::of(self.text(span))
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.read.facts
    }

    /// The first record of a node.
    pub(crate) fn record(&self, seq: Seq) -> Option<Span> {
        let entry = self.read.entries.get(seq as usize)?;
        self.read.parts_of(entry).first().copied()
    }

    /// The records of these nodes, each once and in order.
    pub(crate) fn records_of(&self, nodes: &[Seq]) -> Vec<Span> {
        let entries = nodes
            .iter()
            .filter_map(|seq| self.read.entries.get(*seq as usize));
        let whole = entries.filter(|entry| !entry.within);
        whole
            .flat_map(|entry| self.read.parts_of(entry).iter().copied())
            .collect()
    }

    /// The one event at `seq`.
    fn event(&self, seq: Seq) -> Result<Event, SessionError> {
        let Some(entry) = self.read.entries.get(seq as usize) else {
            let at = seq as usize - self.read.len();
            let event = self.appended.get(at).cloned();
            return event.ok_or_else(|| SessionError::Other(format!("there is no event {seq}")));
        };
        let mut event = Event {
            seq,
            payload: Payload::Reopened,
            surface: entry.surface,
            sources: Vec::new(),
        };
        let parts = self.read.parts_of(entry);
        event.payload = match entry.kind {
            Kind::TurnStart(turn) => Payload::TurnStart(turn),
            Kind::TurnEnd(turn) => Payload::TurnEnd(turn),
            Kind::Header(index) => {
                let route = self.read.headers[index as usize].clone();
                Payload::RequestHeader(RequestHeader {
                    fingerprint: format!("{}/{}", route.provider, route.model),
                    route,
                    overhead_tokens: u32::try_from(self.read.overhead).unwrap_or(u32::MAX),
                })
            }
            Kind::Line | Kind::Packed => {
                let line = events::read_line(self.text(parts[0]));
                let Ok(Line::Events { first, .. }) = line else {
                    return Err(SessionError::Corrupt(format!("event {seq} is none")));
                };
                event.sources = first.sources;
                first.payload
            }
            kind => {
                let parts: Vec<Json<'_>> = parts.iter().map(|span| self.json(*span)).collect();
                let content = self.form.reader().content(kind, &parts);
                let usage = entry.usage.map(|index| self.read.usages[index as usize]);
                payload(kind, content, usage)
            }
        };
        Ok(event)
    }

    /// Up to `limit` events from `start` on.
    pub fn events(&self, start: Seq, limit: u32) -> Result<Vec<Event>, SessionError> {
        let end = start.saturating_add(limit).min(self.head());
        (start..end).map(|seq| self.event(seq)).collect()
    }

    /// Append events, if the head still is what it is expected to be.
    pub fn append(
        &mut self,
        drafts: &[Draft],
        expected_head: Option<Seq>,
    ) -> Result<Seq, SessionError> {
        let first = self.head();
        if expected_head.is_some_and(|expected| expected != first) {
            return Err(SessionError::Conflict(first));
        }
        let mut surface = self.read.surface.clone();
        for (draft, seq) in drafts.iter().zip(first..) {
            if let Some(op) = draft.surface {
                place(&mut surface, seq, op).map_err(SessionError::Rejected)?;
            }
        }
        self.read.surface = surface;
        let events = drafts.iter().zip(first..).map(|(draft, seq)| Event {
            seq,
            payload: draft.payload.clone(),
            surface: draft.surface,
            sources: draft.sources.clone(),
        });
        self.appended.extend(events);
        Ok(first)
    }

    /// Whether the document's log says that a compaction is under way.
    pub fn compacting(&self) -> bool {
        self.read.facts.compacting
    }

    /// A message more, behind those of an array of messages. What was appended is
    /// written into the array first, and the events are numbered anew by that: answers
    /// whether they were.
    pub fn push(&mut self, message: &str) -> Result<bool, Fault> {
        let Some(list) = self.read.facts.list.filter(|_| self.form.is_messages()) else {
            let why = format!(
                "a session of form {} is not an array of messages",
                self.form.name()
            );
            return Err(Fault::Whole(why));
        };
        let message = message.trim_ascii();
        object(message).map_err(Fault::Whole)?;
        if self.read.surface != self.read_surface {
            let write = self.write(&mut Stamp::new(0, [0; 16]), Figures::default());
            let Ok(Some(Write::Whole(bytes))) = write else {
                return Err(Fault::Whole("what was appended cannot be written".into()));
            };
            let options = ReadOptions {
                form: Some(self.form),
                ..self.options
            };
            *self = Self::read(bytes, options)?;
            return self.push(message).map(|_| true);
        }
        let renumbered = !std::mem::take(&mut self.appended).is_empty();
        let end = list.end - 1;
        let is_empty = self.json(list).raw().trim_start_matches('[').trim_ascii() == "]";
        let comma = if is_empty { "" } else { "," };
        let start = end + comma.len();
        let more = format!("{comma}{message}");
        self.bytes.splice(end..end, more.bytes());
        let span = Span {
            start,
            end: start + message.len(),
        };
        if let Some(list) = &mut self.read.facts.list {
            list.end += more.len();
        }
        let taken = self.form.reader().push(&self.bytes, span, &mut self.read);
        if taken.is_err() {
            self.bytes.drain(end..end + more.len());
            self.read.facts.list = Some(list);
        }
        taken?;
        self.read_surface = self.read.surface.clone();
        Ok(renumbered)
    }

    /// The messages of an array of messages, with what was appended: the texts of its
    /// elements.
    pub fn messages(&self) -> Result<Vec<String>, Refusal> {
        let elements = |session: &Session| -> Vec<String> {
            let list = session.read.facts.list.map(|list| session.json(list));
            let items = list.and_then(Json::items).unwrap_or_default();
            items
                .into_iter()
                .map(|item| item.raw().to_owned())
                .collect()
        };
        match self.write(&mut Stamp::new(0, [0; 16]), Figures::default())? {
            Some(Write::Whole(bytes)) => {
                let options = ReadOptions {
                    form: Some(self.form),
                    ..self.options
                };
                let written = Self::read(bytes, options);
                written
                    .map(|session| elements(&session))
                    .map_err(|fault| Refusal(fault.to_string()))
            }
            _ => Ok(elements(self)),
        }
    }

    /// What has been appended and not been written.
    pub fn appended(&self) -> &[Event] {
        &self.appended
    }

    /// What is to be written of what was appended, in the document's own form; none
    /// where the surface is what it was.
    pub fn write(&self, stamp: &mut Stamp, figures: Figures) -> Result<Option<Write>, Refusal> {
        if self.form == Form::Log {
            if self.appended.is_empty() {
                return Ok(None);
            }
            return crate::forms::log::write(self, stamp).map(Some);
        }
        if self.read.surface == self.read_surface {
            return Ok(None);
        }
        let base = self.read.len();
        let is_new = |seq: &Seq| *seq as usize >= base;
        let surface = &self.read.surface;
        let mut new = surface.iter().enumerate().filter(|(_, seq)| is_new(seq));
        let (Some((at, seq)), None) = (new.next(), new.next()) else {
            return Err(self.refusal("only one checkpoint can be recorded at a time"));
        };
        let event = &self.appended[*seq as usize - base];
        let Payload::UserMessage(message) = &event.payload else {
            return Err(self.refusal("a shortened tool result has no record of its own"));
        };
        let rewritten = Rewritten {
            session: self,
            head: surface[..at].to_vec(),
            checkpoint: texts(&message.content),
            tail: surface[at + 1..].to_vec(),
            figures,
        };
        self.form.reader().record(&rewritten, stamp).map(Some)
    }

    pub(crate) fn refusal(&self, why: &str) -> Refusal {
        Refusal(format!("a session of form {}: {why}", self.form.name()))
    }

    /// The same session in a document that has changed since: what was appended is
    /// taken over if the nodes that it replaces still stand there as they did. None
    /// where they do not.
    pub fn rebased(&self, bytes: Vec<u8>) -> Option<Session> {
        if self.form.is_one_value() || !bytes.starts_with(&self.bytes) {
            return None;
        }
        let mut options = self.options;
        options.form = Some(self.form);
        let mut session = Session::read(bytes, options).ok()?;
        let base = self.read.len() as Seq;
        let grown = session.read.len() as Seq;
        let by_record: BTreeMap<usize, Seq> = session
            .read_surface
            .iter()
            .filter_map(|seq| Some((session.record(*seq)?.start, *seq)))
            .collect();
        // Where each node that was read stands now.
        let moved = |seq: Seq| -> Option<Seq> {
            if seq >= base {
                return Some(seq - base + grown);
            }
            if self.form == Form::Log {
                return Some(seq);
            }
            let entry = self.read.entries.get(seq as usize)?;
            let parts = self.read.parts_of(entry);
            let now = by_record.get(&parts.first()?.start).copied()?;
            let other = &session.read.entries[now as usize];
            let same = other.kind == entry.kind && session.read.parts_of(other).starts_with(parts);
            same.then_some(now)
        };
        let mut drafts = Vec::new();
        for event in &self.appended {
            let surface = match event.surface {
                Some(SurfaceOp::Replace(range)) => Some(SurfaceOp::Replace(SurfaceRange {
                    start: moved(range.start)?,
                    end: moved(range.end)?,
                })),
                op => op,
            };
            let mut payload = event.payload.clone();
            if let Payload::CompactSummary(summary) = &mut payload {
                let range = &mut summary.shadowed_range;
                (range.start, range.end) = (moved(range.start)?, moved(range.end)?);
                let seqs = summary.shadowed_seqs.iter().map(|seq| moved(*seq));
                summary.shadowed_seqs = seqs.collect::<Option<_>>()?;
                // All that it names, and nothing else, must still be there.
                let shadowed = &summary.shadowed_seqs;
                let first = session.surface().iter().position(|seq| *seq == range.start);
                if let Some(first) = first {
                    let there = session.surface().get(first..first + shadowed.len())?;
                    if there != shadowed {
                        return None;
                    }
                }
            }
            let sources = event.sources.iter().filter_map(|seq| moved(*seq));
            drafts.push(Draft {
                payload,
                surface,
                sources: sources.collect(),
            });
        }
        session.append(&drafts, None).ok()?;
        Some(session)
    }

    /// The newest compaction's records, where the document ends with it.
    pub fn undo(&self) -> Result<Write, Refusal> {
        self.form.reader().undo(self)
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    bytes
        .iter()
        .all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

/// The event of a node.
fn payload(kind: Kind, mut content: Vec<ContentBlock>, usage: Option<Usage>) -> Payload {
    let message = |content, source: &str| {
        Payload::UserMessage(UserMessage {
            content,
            source: source.into(),
            pinned: false,
        })
    };
    match kind {
        Kind::Assistant => Payload::AssistantMessage(AssistantMessage { content, usage }),
        Kind::Context => Payload::ContextMessage(content),
        Kind::Shell => message(content, "shell"),
        Kind::Checkpoint => {
            let said = texts(&content);
            if !said.contains("<compacted-summary>") {
                // One of the program's own: framed like those of the engine, so that
                // the next one is merged with it.
                content = vec![
                    ContentBlock::Text("Earlier history, condensed:\n\n<compacted-summary>".into()),
                    ContentBlock::Text(said),
                    ContentBlock::Text("</compacted-summary>".into()),
                ];
            }
            message(content, CHECKPOINT_SOURCE)
        }
        _ => match <[ContentBlock; 1]>::try_from(content) {
            Ok([ContentBlock::ToolResult(result)]) => Payload::ToolResult(result),
            Ok(only) => message(only.into(), "user"),
            Err(content) => message(content, "user"),
        },
    }
}
