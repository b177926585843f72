//! `harness-compact compact`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use harness_compact_host::types::{
    AgentContext, CompactError, CompactionResult, Config, ContentBlock, Event, Measurement,
    NowOptions, Payload, Policy, Route, SurfaceRange, Trigger,
};
use harness_compact_host::{
    CancellationToken, Compactor, Error, JsonlLog, Model, OfflineModel, ProviderModel,
    SessionFormat, SessionLog, copy_as_log,
};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempPath};

use super::progress::{self, Watched};
use super::{
    Format, Outcome, backend, count_others, grouped, measurement_json, read_all, told,
    warn_of_torn_tail,
};

/// Shown after the options.
pub const AFTER_HELP: &str = "\
Exit status: 0 compacted, 1 failed, 2 wrong usage, 3 nothing to do.

Without --model the summary is extracted from the session itself: no key, no network. \
With one, the key comes from the provider's usual environment variable, such as OPENAI_API_KEY.";

/// What to compact, and how.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The session file. It is not changed, but with --in-place.
    session: PathBuf,
    /// Where the smaller session goes [default: SESSION with `.compacted.jsonl`]
    #[arg(short, long, value_name = "OUT", conflicts_with = "in_place")]
    out: Option<PathBuf>,
    /// Append the compaction to SESSION itself, which must be a log.
    #[arg(long)]
    in_place: bool,
    /// How SESSION is written.
    #[arg(long, value_enum, default_value = "auto")]
    format: Format,
    /// The model that summarises; `offline` extracts without one.
    #[arg(long, value_name = "PROVIDER/NAME", default_value = "offline", value_parser = parse_model)]
    model: Route,
    /// The provider's endpoint, such as http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The window in tokens of the session's model [default: 128000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context_window: Option<u32>,
    /// Recent tokens to keep word for word [default: 20480, or 16 % of a window under 128000]
    #[arg(long, value_name = "N")]
    retain_tokens: Option<u32>,
    /// Compact only if the session is at the threshold, 80 % of the window.
    #[arg(long, conflicts_with = "region")]
    if_needed: bool,
    /// Compact these surface nodes, by the seqs that `measure` shows.
    #[arg(long, value_name = "START..END", value_parser = parse_region)]
    region: Option<SurfaceRange>,
    /// What the summary is to dwell on.
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// Treat a compaction that SESSION says is under way as abandoned: its
    /// process has ended. Only with --in-place; a copy has no other writer.
    #[arg(long, requires = "in_place")]
    reopen: bool,
    /// A backend to use in place of the basic one: a component file.
    #[arg(long, value_name = "FILE.wasm")]
    backend: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn parse_model(text: &str) -> Result<Route, String> {
    if text == "offline" {
        return Ok(OfflineModel::route());
    }
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(Route {
            provider: provider.into(),
            model: model.into(),
        }),
        _ => Err("neither `offline` nor PROVIDER/NAME".into()),
    }
}

fn parse_region(text: &str) -> Result<SurfaceRange, String> {
    let ends = text
        .split_once("..")
        .map(|(start, end)| (start.parse(), end.parse()));
    match ends {
        Some((Ok(start), Ok(end))) => Ok(SurfaceRange { start, end }),
        _ => Err("not two seqs, such as 0..41".into()),
    }
}

/// Compact a session file.
pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let session = &arguments.session;
    let format = arguments.format.of(session)?;
    let (log, target) = open(&arguments, format)?;
    // A copy has no writer but this process, so whatever its log says is under
    // way in it is not.
    if arguments.reopen || target.is_some() {
        log.settle().await.map_err(told)?;
    }
    let log: Arc<dyn SessionLog> = Arc::new(log);

    let line = progress::line();
    let model: Arc<dyn Model> = if arguments.model == OfflineModel::route() {
        Arc::new(OfflineModel)
    } else {
        let client = ProviderModel::new(arguments.base_url.clone());
        let client = client.map_err(|error| anyhow::anyhow!(error.describe()))?;
        Arc::new(Watched {
            model: Arc::new(client),
            line: line.clone(),
        })
    };
    let host = backend(arguments.backend.as_deref())?;
    let mut compactor = host.compactor(config(&arguments), model).await?;
    let agent = AgentContext {
        context_window: arguments.context_window,
        ..AgentContext::default()
    };
    let before = compactor.measure(&log, &agent, "", &[]).await?;
    let signal = cancel_on_interrupt();
    let compacted = compact(&arguments, &mut compactor, &log, &agent, &before, &signal).await;
    line.finish_and_clear();
    let compacted = compacted.map_err(|error| explain(error, session, &arguments))?;

    let Some(result) = compacted else {
        let why = why_nothing(&arguments, &before);
        return Ok(Outcome::NothingToDo(if arguments.json {
            let before = measurement_json(&before);
            json!({"before": before, "result": null, "reason": why}).to_string()
        } else {
            format!("Nothing to do: {why}.")
        }));
    };
    let out = match target {
        Some((copy, out)) => {
            let persisted = copy.persist(&out);
            persisted.with_context(|| format!("{} could not be written", out.display()))?;
            out
        }
        None => session.clone(),
    };
    let events = read_all(&*log).await?;
    Ok(Outcome::Done(if arguments.json {
        report_json(&result, &events, &out).to_string()
    } else {
        report(&result, &events, &out)
    }))
}

/// A copy of the session, and the place it goes to when it is done.
type Target = (TempPath, PathBuf);

/// The log to work on: the session itself, or a copy.
fn open(
    arguments: &Arguments,
    format: SessionFormat,
) -> anyhow::Result<(JsonlLog, Option<Target>)> {
    let session = &arguments.session;
    if arguments.in_place {
        if format != SessionFormat::Log {
            misused(
                "--in-place works on log files only; leave it out and a log is written beside it",
            );
        }
        let log = JsonlLog::open(session).map_err(told)?;
        warn_of_torn_tail(session, log.torn_tail().as_ref());
        return Ok((log, None));
    }
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| session.with_extension("compacted.jsonl"));
    let same = |path: &Path| path.canonicalize().ok();
    if same(&out).is_some() && same(&out) == same(session) {
        misused("OUT is SESSION itself; --in-place is the way to change it");
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let copy = NamedTempFile::new_in(folder)
        .with_context(|| format!("{} cannot be written to", folder.display()))?
        .into_temp_path();
    let torn = copy_as_log(session, format, &copy).map_err(told)?;
    warn_of_torn_tail(session, torn.as_ref());
    // Who may read the session may read the smaller one.
    fs::set_permissions(&copy, fs::metadata(session)?.permissions())?;
    let log = JsonlLog::open(&copy).map_err(|error| {
        // The copy has the same lines; its name says nothing to anybody.
        let (copy, session) = (copy.display().to_string(), session.display().to_string());
        anyhow::anyhow!(error.describe().replace(&copy, &session))
    })?;
    Ok((log, Some((copy, out))))
}

fn config(arguments: &Arguments) -> Config {
    Config {
        policy: Policy {
            retain_tokens: arguments.retain_tokens,
            summarization_route: Some(arguments.model.clone()),
            ..Policy::default()
        },
        instructions: arguments.instructions.clone(),
        ..Config::default()
    }
}

async fn compact(
    arguments: &Arguments,
    compactor: &mut Compactor,
    log: &Arc<dyn SessionLog>,
    agent: &AgentContext,
    before: &Measurement,
    signal: &CancellationToken,
) -> Result<Option<CompactionResult>, Error> {
    if let Some(region) = arguments.region {
        let result = compactor
            .compact_region(log, region, agent, Some(signal))
            .await?;
        return Ok(Some(result));
    }
    if arguments.if_needed {
        let trigger = Trigger::Pressure;
        return compactor
            .compact_if_needed(log, agent, "", &[], trigger, Some(signal))
            .await;
    }
    let options = NowOptions {
        retain_tokens: Some(before.retain_tokens),
        ..NowOptions::default()
    };
    compactor
        .compact_now(log, agent, &options, Some(signal))
        .await
}

/// A signal that the first Ctrl-C gives; the second ends the process at once.
fn cancel_on_interrupt() -> CancellationToken {
    let signal = CancellationToken::new();
    let cancelled = signal.clone();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if cancelled.is_cancelled() {
                std::process::exit(130);
            }
            cancelled.cancel();
        }
    });
    signal
}

/// The error, with what to do about it where that is known.
fn explain(error: Error, session: &Path, arguments: &Arguments) -> anyhow::Error {
    let advice = match &error {
        Error::Compact(CompactError::Busy(_)) if arguments.in_place => {
            Some("if the process that started it has ended, add --reopen")
        }
        _ => None,
    };
    let error = anyhow::Error::from(error).context(session.display().to_string());
    match advice {
        Some(advice) => anyhow::anyhow!("{error:#}; {advice}"),
        None => error,
    }
}

fn why_nothing(arguments: &Arguments, before: &Measurement) -> String {
    let total = grouped(before.total_tokens);
    if arguments.if_needed && before.total_tokens < before.threshold_tokens {
        let threshold = grouped(before.threshold_tokens);
        return format!("{total} tokens are below the threshold of {threshold}");
    }
    let retain = grouped(before.retain_tokens);
    format!(
        "{total} tokens, of which the newest {retain} are kept with what belongs to them, \
         leave nothing older that is not summarised already"
    )
}

fn summary_text(result: &CompactionResult) -> String {
    let texts = result.summary.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn report_json(result: &CompactionResult, events: &[Event], out: &Path) -> Value {
    // As the log has it: a backend may do without one.
    let model = match &events[result.summary_seq as usize].payload {
        Payload::CompactSummary(summary) => summary.model.as_ref(),
        _ => None,
    };
    json!({
        "before": measurement_json(&result.before),
        "after": measurement_json(&result.after),
        "result": {
            "startSeq": result.start_seq,
            "summarySeq": result.summary_seq,
            "endSeq": result.end_seq,
            "shadowedRange": {
                "start": result.shadowed_range.start,
                "end": result.shadowed_range.end,
            },
            "shadowedSeqs": result.shadowed_seqs,
            "shadowedTokenCount": result.shadowed_token_count,
        },
        "summary": summary_text(result),
        "model": model.map(|Route { provider, model }| format!("{provider}/{model}")),
        "events": events.len(),
        "otherEvents": count_others(events),
        "out": out,
    })
}

fn report(result: &CompactionResult, events: &[Event], out: &Path) -> String {
    let (before, after) = (&result.before, &result.after);
    let became =
        (after.surface_tokens + result.shadowed_token_count).saturating_sub(before.surface_tokens);
    format!(
        "Replaced {} of {} nodes, events {} to {}: {} tokens became {}.\n\
         The next request: {} tokens before, {} after; the window holds {}.\n\
         Written to {}: {} events{}.\n\n{}",
        result.shadowed_seqs.len(),
        before.nodes,
        result.shadowed_range.start,
        result.shadowed_range.end,
        grouped(result.shadowed_token_count),
        grouped(became),
        grouped(before.total_tokens),
        grouped(after.total_tokens),
        grouped(before.context_window),
        out.display(),
        events.len(),
        match count_others(events) {
            0 => String::new(),
            others => format!(", {others} of them kept lines that have no place in a log"),
        },
        summary_text(result),
    )
}

/// End with a usage error, as the argument parser does.
fn misused(why: &str) -> ! {
    crate::Arguments::command()
        .error(ErrorKind::ArgumentConflict, why)
        .exit()
}
