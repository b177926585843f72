//! Logs of events: deepseek-harness, and this package's own.

use harness_compact_engine::{CHECKPOINT_SOURCE, ContentBlock, Payload, SurfaceOp};

use super::{Form, Reader, append_lines, foreign};
use crate::document::{Fault, Lines};
use crate::events::{EventStamp, Line, read_fields, rewrite_result, write_event};
use crate::json::{Fields, Json, parse};
use crate::session::{Builder, Kind, Refusal, Rewritten, Session, Write};
use crate::stamp::Stamp;

pub(crate) struct Log;

impl Reader for Log {
    fn recognises(&self, line: &Fields<'_>) -> bool {
        let is_header = line.text("type").is_some_and(|kind| kind == "session")
            && (line.has("createdAt") || line.number("version") == Some(0))
            && !line.has("timestamp");
        let is_event = line.get("type").is_some_and(Json::is_text)
            && (line.number("seq").is_some() || line.number("seq0").is_some());
        is_header || is_event
    }

    fn read(&self, bytes: &[u8], skip_damaged: bool, into: &mut Builder) -> Result<(), Fault> {
        let mut lines = Lines::of(bytes, skip_damaged);
        let read = lines.each(|record| {
            let span = record.span;
            into.facts.last = Some(span);
            match read_fields(&record.fields) {
                // Whose line it is says more than what it lacks.
                Err(why) => return foreign(Form::Log, &record.fields).and(Err(why)),
                Ok(Line::Header { id }) => {
                    foreign(Form::Log, &record.fields)?;
                    if into.len() > 0 {
                        return Err("a header after the first event".into());
                    }
                    into.facts.id = id;
                    let cwd = record.fields.text("cwd");
                    into.facts.cwd = cwd.map(|cwd| cwd.into_owned());
                }
                Ok(Line::Events { first, count }) => {
                    let expected = into.len();
                    if first.seq as usize != expected {
                        let seq = first.seq;
                        return Err(format!("its seq is {seq}, expected {expected}"));
                    }
                    if u32::try_from(expected + count as usize).is_err() {
                        return Err("the log is longer than seqs can count".into());
                    }
                    let kind = record.fields.text("type").unwrap_or_default();
                    if kind.starts_with("compaction/") {
                        into.facts.later_names = true;
                    }
                    match &first.payload {
                        Payload::CompactStart(_) => {
                            into.facts.compaction = vec![span];
                            into.facts.compacting = true;
                        }
                        Payload::CompactSummary(_) | Payload::CompactPrune(_) => {
                            into.facts.compaction.push(span);
                        }
                        Payload::CompactEnd(_) => {
                            into.facts.compaction.push(span);
                            into.facts.compacting = false;
                        }
                        Payload::Reopened => into.facts.compacting = false,
                        _ => {}
                    }
                    match record.fields.has("seq0") {
                        true => into.packed(span, count),
                        false => into.line(span, first.surface)?,
                    }
                }
            }
            Ok(())
        });
        into.remarks = lines.remarks;
        into.facts.torn = lines.torn;
        read
    }

    /// Lines say themselves what they are.
    fn content(&self, _kind: Kind, _records: &[Json<'_>]) -> Vec<ContentBlock> {
        Vec::new()
    }

    /// Unused: a log is appended to event by event, by [`write`].
    fn record(&self, rewritten: &Rewritten<'_>, _stamp: &mut Stamp) -> Result<Write, Refusal> {
        Err(rewritten
            .session
            .refusal("its events are written one by one"))
    }
}

/// What was appended, as lines.
pub(crate) fn write(session: &Session, stamp: &mut Stamp) -> Result<Write, Refusal> {
    // The one that is under way, if there is one: it is the first to end.
    let newest = session.facts().compaction.first();
    let id = newest.and_then(|line| session.json(*line).get("data")?.get("compactionId")?.text());
    let mut compaction = match session.compacting() {
        true => id.map(|id| id.into_owned()),
        false => None,
    };
    let mut lines = Vec::new();
    for event in session.appended() {
        match &event.payload {
            Payload::CompactStart(_) => compaction = Some(stamp.uuid()),
            Payload::CompactSummary(_) | Payload::CompactEnd(_) => {}
            Payload::UserMessage(user) if user.source == CHECKPOINT_SOURCE => {}
            _ => {
                let mut line = written(session, event, stamp, None);
                if let (Payload::ToolResult(result), Some(SurfaceOp::Replace(range))) =
                    (&event.payload, event.surface)
                {
                    let original = session.records(range.start);
                    let original = original
                        .first()
                        .and_then(|line| parse(line.as_bytes()).ok());
                    let data = original.and_then(|line| rewrite_result(&line, result));
                    if let Some(data) = data {
                        line["data"] = data;
                    }
                }
                lines.push(line.to_string());
                continue;
            }
        }
        let id = match &event.payload {
            Payload::CompactEnd(_) => compaction.take(),
            _ => compaction.clone(),
        };
        lines.push(written(session, event, stamp, id).to_string());
    }
    Ok(append_lines(session, &lines))
}

fn written(
    session: &Session,
    event: &harness_compact_engine::Event,
    stamp: &mut Stamp,
    compaction_id: Option<String>,
) -> serde_json::Value {
    let draft = harness_compact_engine::Draft {
        payload: event.payload.clone(),
        surface: event.surface,
        sources: event.sources.clone(),
    };
    let stamp = EventStamp {
        time: stamp.now_ms(),
        message_id: stamp.uuid(),
        compaction_id,
        later_names: session.facts().later_names,
    };
    write_event(event.seq, &draft, &stamp)
}
