//! `harness-compact compact`.

use clap::Args;
use harness_compact_engine::{
    AgentContext, CompactError, CompactionResult, Config, Measurement, NowOptions, Payload, Policy,
    Route, SurfaceRange, Trigger,
};
use harness_compact_formats::{Figures, Form};
use serde_json::{Value, json};

use crate::Stopped;
use crate::extract::extract_route;
use crate::file::{Opened, Which};
use crate::measure::failed;
use crate::system::{Backend, BackendOptions, Failure, System};
use crate::words::{grouped, measurement_json, texts};

/// Shown after the options.
pub const AFTER_HELP: &str = "\
Exit status: 0 compacted, 1 failed, 2 wrong usage, 3 nothing to do.

What is written has SESSION's own form, so that the program that made it goes on with it.

Without --model the summary is extracted from the session itself: no key, no network. \
With one, the key comes from the provider's usual environment variable, such as OPENAI_API_KEY.";

/// What to compact, and how.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    which: Which,
    /// Where the smaller session goes [default: SESSION with `.compacted` before its ending]
    #[arg(short, long, value_name = "OUT", conflicts_with = "in_place")]
    out: Option<String>,
    /// Write the compaction to SESSION itself: behind its lines, which stay as they
    /// are, or into its JSON document.
    #[arg(long)]
    in_place: bool,
    /// The model that summarises; `offline` extracts without one.
    #[arg(long, value_name = "PROVIDER/NAME", default_value = "offline", value_parser = parse_model)]
    model: Model,
    /// The provider's endpoint, such as http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The window in tokens of the session's model [default: what SESSION says, else 128000]
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
    region: Option<Region>,
    /// What the summary is to dwell on.
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// Treat a compaction that SESSION says is under way as abandoned: its
    /// process has ended. Only with --in-place; a copy has no other writer.
    #[arg(long, requires = "in_place")]
    reopen: bool,
    /// A backend to use in place of the basic one: a component file.
    #[arg(long, value_name = "FILE.wasm")]
    backend: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct Model(Route);

#[derive(Clone, Copy, Debug)]
struct Region(SurfaceRange);

fn parse_model(text: &str) -> Result<Model, String> {
    if text == "offline" {
        return Ok(Model(extract_route()));
    }
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(Model(Route {
            provider: provider.into(),
            model: model.into(),
        })),
        _ => Err("neither `offline` nor PROVIDER/NAME".into()),
    }
}

fn parse_region(text: &str) -> Result<Region, String> {
    let ends = text
        .split_once("..")
        .map(|(start, end)| (start.parse(), end.parse()));
    match ends {
        Some((Ok(start), Ok(end))) => Ok(Region(SurfaceRange { start, end })),
        _ => Err("not two seqs, such as 0..41".into()),
    }
}

/// Compact a session file.
pub async fn run<S: System>(arguments: Arguments, system: &S) -> Result<String, Stopped> {
    let opened = Opened::open(&arguments.which, system)?;
    let path = &opened.path;
    let out = match (&arguments.out, arguments.in_place) {
        (_, true) => None,
        (Some(out), _) => Some(out.clone()),
        (None, _) => Some(beside(path, system)),
    };
    let real = |path: &str| system.real(path);
    if let Some(out) = &out
        && real(out).is_some()
        && real(out) == real(path)
    {
        let why = "OUT is SESSION itself; --in-place is the way to change it";
        return Err(Stopped::Usage(why.into()));
    }
    opened.tell_remarks(system);
    // A copy has no writer but this process, so whatever its log says is under
    // way in it is not.
    let is_log = opened.session.lock().form() == Form::Log;
    if is_log && (arguments.reopen || out.is_some()) {
        opened.settle()?;
    }
    let (before, result) = compact(&arguments, &opened, system).await?;
    let Some(result) = result else {
        let why = why_nothing(&arguments, &before);
        return Err(Stopped::NothingToDo(if arguments.json {
            let before = measurement_json(&before);
            json!({"before": before, "result": null, "reason": why}).to_string()
        } else {
            format!("Nothing to do: {why}.")
        }));
    };
    let figures = Figures {
        before: result.before.total_tokens,
        after: result.after.total_tokens,
    };
    let model = summariser(&opened, &result);
    opened.save(out.as_deref(), figures, system)?;
    let written = out.as_deref().unwrap_or(path);
    let session = opened.session.lock();
    Ok(match arguments.json {
        true => {
            let mut report = report_json(&result, model.as_ref());
            report["form"] = json!(session.form().name());
            report["events"] = json!(session.head());
            report["out"] = json!(written);
            report.to_string()
        }
        false => report(&result, session.form(), written),
    })
}

/// The file beside a session: `.compacted` before its ending.
fn beside(path: &str, system: &impl System) -> String {
    let name = system.name(path);
    let name = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}.compacted.{ending}"),
        _ => format!("{name}.compacted"),
    };
    match system.folder(path) {
        Some(folder) => system.join(&folder, &name),
        None => name,
    }
}

async fn compact<S: System>(
    arguments: &Arguments,
    opened: &Opened,
    system: &S,
) -> Result<(Measurement, Option<CompactionResult>), Stopped> {
    let window = opened.session.lock().context_window();
    let agent = AgentContext {
        context_window: arguments.context_window.or(window),
        ..AgentContext::default()
    };
    let Model(model) = arguments.model.clone();
    let config = Config {
        policy: Policy {
            retain_tokens: arguments.retain_tokens,
            summarization_route: Some(model.clone()),
            ..Policy::default()
        },
        instructions: arguments.instructions.clone(),
        ..Config::default()
    };
    let options = BackendOptions {
        config,
        model,
        base_url: arguments.base_url.clone(),
        component: arguments.backend.clone(),
    };
    let explain = |failure| explain(failure, &opened.path, arguments);
    system.progress(Some("measuring"));
    let backend = system.backend(opened.session.clone(), options).await;
    let mut backend = backend.map_err(explain)?;
    let before = backend.measure(&agent).await.map_err(explain)?;
    system.progress(Some("summarising"));
    let result = if let Some(Region(region)) = arguments.region {
        let result = backend.compact_region(region, &agent).await;
        Some(result.map_err(explain)?)
    } else if arguments.if_needed {
        let result = backend.compact_if_needed(&agent, Trigger::Pressure).await;
        result.map_err(explain)?
    } else {
        let options = NowOptions {
            retain_tokens: Some(before.retain_tokens),
            ..NowOptions::default()
        };
        let result = backend.compact_now(&agent, &options).await;
        result.map_err(explain)?
    };
    Ok((before, result))
}

/// The error, with what to do about it where that is known.
fn explain(failure: Failure, path: &str, arguments: &Arguments) -> Stopped {
    let busy = matches!(failure, Failure::Compact(CompactError::Busy(_)));
    match failed(path, failure) {
        Stopped::Failed(why) if busy && arguments.in_place => Stopped::Failed(format!(
            "{why}; if the process that started it has ended, add --reopen"
        )),
        stopped => stopped,
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

/// Who wrote the summary, as the session has it: a backend may do without a model.
fn summariser(opened: &Opened, result: &CompactionResult) -> Option<Route> {
    let session = opened.session.lock();
    let event = session.events(result.summary_seq, 1).ok()?.pop()?;
    match event.payload {
        Payload::CompactSummary(summary) => summary.model,
        _ => None,
    }
}

fn report_json(result: &CompactionResult, model: Option<&Route>) -> Value {
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
        "summary": texts(&result.summary),
        "model": model.map(|Route { provider, model }| format!("{provider}/{model}")),
    })
}

fn report(result: &CompactionResult, form: Form, out: &str) -> String {
    let (before, after) = (&result.before, &result.after);
    let became =
        (after.surface_tokens + result.shadowed_token_count).saturating_sub(before.surface_tokens);
    format!(
        "Replaced {} of {} nodes, events {} to {}: {} tokens became {}.\n\
         The next request: {} tokens before, {} after; the window holds {}.\n\
         Written to {out}, in the form {}.\n\n{}",
        result.shadowed_seqs.len(),
        before.nodes,
        result.shadowed_range.start,
        result.shadowed_range.end,
        grouped(result.shadowed_token_count),
        grouped(became),
        grouped(before.total_tokens),
        grouped(after.total_tokens),
        grouped(before.context_window),
        form.name(),
        texts(&result.summary),
    )
}
