//! What the subcommands share.

pub mod compact;
pub mod measure;
mod progress;

use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use harness_compact_host::types::{Event, Measurement, Payload, SessionError};
use harness_compact_host::{CompactHost, SessionFormat, SessionLog, TornTail};
use serde_json::{Value, json};

/// How a command ended that did not fail, and what it prints.
pub enum Outcome {
    /// It did what it was asked to.
    Done(String),
    /// There was nothing to do.
    NothingToDo(String),
}

/// The session file's format, as given.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// Tell by the first line.
    Auto,
    /// One event a line.
    Log,
    /// The pi coding agent's.
    Pi,
}

impl Format {
    /// The format of this file.
    pub fn of(self, path: &Path) -> anyhow::Result<SessionFormat> {
        Ok(match self {
            Self::Auto => SessionFormat::detect(path).map_err(told)?,
            Self::Log => SessionFormat::Log,
            Self::Pi => SessionFormat::Pi,
        })
    }
}

/// The backend in this file; else the basic one.
pub fn backend(file: Option<&Path>) -> anyhow::Result<CompactHost> {
    let Some(file) = file else {
        return Ok(CompactHost::new()?);
    };
    let told = || file.display().to_string();
    let component = std::fs::read(file).with_context(told)?;
    CompactHost::with_component(&component).with_context(told)
}

/// An error of a session's, for a person.
pub fn told(error: SessionError) -> anyhow::Error {
    anyhow::anyhow!(error.describe())
}

/// Say that a last line was left out.
pub fn warn_of_torn_tail(session: &Path, torn: Option<&TornTail>) {
    if let Some(TornTail { line, bytes }) = torn {
        let session = session.display();
        eprintln!("{session}, line {line}: cut off after {bytes} bytes, left out");
    }
}

/// Every event of a log.
pub async fn read_all(log: &dyn SessionLog) -> anyhow::Result<Vec<Event>> {
    let head = log.head().await.map_err(told)?;
    let mut events: Vec<Event> = Vec::new();
    while (events.len() as u32) < head {
        events.extend(log.read(events.len() as u32, head).await.map_err(told)?);
    }
    Ok(events)
}

/// How many events are kept lines of another format that have no place in a log.
pub fn count_others(events: &[Event]) -> usize {
    let other =
        |event: &&Event| matches!(&event.payload, Payload::Other(kind) if kind.starts_with("pi/"));
    events.iter().filter(other).count()
}

/// A measurement as the documented JSON has it.
pub fn measurement_json(measurement: &Measurement) -> Value {
    json!({
        "totalTokens": measurement.total_tokens,
        "surfaceTokens": measurement.surface_tokens,
        "thresholdTokens": measurement.threshold_tokens,
        "contextWindow": measurement.context_window,
        "nodes": measurement.nodes,
    })
}

/// A number as people read it.
pub fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
