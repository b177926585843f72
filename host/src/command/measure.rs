//! `harness-compact measure`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use harness_compact_host::types::{AgentContext, Config, NodeKind, SurfaceNode};
use harness_compact_host::{JsonlLog, OfflineModel, SessionFormat, SessionLog, copy_as_log};
use serde_json::{Value, json};

use super::{Format, Outcome, backend, grouped, measurement_json, told, warn_of_torn_tail};

/// What to measure, and how.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The session file.
    session: PathBuf,
    /// How it is written.
    #[arg(long, value_enum, default_value = "auto")]
    format: Format,
    /// The model's window in tokens [default: 128000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context_window: Option<u32>,
    /// A backend to use in place of the basic one: a component file.
    #[arg(long, value_name = "FILE.wasm")]
    backend: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measure a session file; it is not written to.
pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let session = &arguments.session;
    // What is no log yet is made one for as long as it takes.
    let scratch = tempfile::tempdir()?;
    let log = match arguments.format.of(session)? {
        SessionFormat::Log => JsonlLog::open(session).map_err(told)?,
        format => {
            let copy = scratch.path().join("session.jsonl");
            warn_of_torn_tail(
                session,
                copy_as_log(session, format, &copy).map_err(told)?.as_ref(),
            );
            JsonlLog::open(copy).map_err(told)?
        }
    };
    warn_of_torn_tail(session, log.torn_tail().as_ref());
    let log: Arc<dyn SessionLog> = Arc::new(log);
    let agent = AgentContext {
        context_window: arguments.context_window,
        ..AgentContext::default()
    };
    let host = backend(arguments.backend.as_deref())?;
    let mut compactor = host
        .compactor(Config::default(), Arc::new(OfflineModel))
        .await?;
    let measurement = compactor.measure(&log, &agent, "", &[]).await?;
    let surface = compactor.surface(&log).await?;

    if arguments.json {
        let mut object = measurement_json(&measurement);
        object["retainTokens"] = json!(measurement.retain_tokens);
        object["surface"] = surface.iter().map(node_json).collect();
        return Ok(Outcome::Done(object.to_string()));
    }
    let mut table = format!(
        "{} tokens of a window of {} (compaction from {} on); the surface is {} nodes, {} tokens",
        grouped(measurement.total_tokens),
        grouped(measurement.context_window),
        grouped(measurement.threshold_tokens),
        measurement.nodes,
        grouped(measurement.surface_tokens),
    );
    table.push_str(&format!(
        "\n{:>8}  {:12} {:>9}  cut before it",
        "seq", "kind", "tokens"
    ));
    for node in &surface {
        let cut = if node.balanced_before {
            "balanced"
        } else {
            "parts a pair"
        };
        let (seq, kind, tokens) = (node.seq, kind_name(node.kind), grouped(node.tokens));
        let remarks = remarks(node);
        table.push_str(&format!(
            "\n{seq:>8}  {kind:12} {tokens:>9}  {cut}{remarks}"
        ));
    }
    Ok(Outcome::Done(table))
}

fn node_json(node: &SurfaceNode) -> Value {
    json!({
        "seq": node.seq,
        "kind": kind_name(node.kind),
        "tokens": node.tokens,
        "balancedBefore": node.balanced_before,
        "openCalls": node.open_calls,
        "deadCalls": node.dead_calls,
        "orphanedResults": node.orphaned_results,
        "pinned": node.pinned,
    })
}

fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::User => "user",
        NodeKind::Assistant => "assistant",
        NodeKind::ToolResult => "tool-result",
        NodeKind::Context => "context",
        NodeKind::Steering => "steering",
        NodeKind::Checkpoint => "checkpoint",
    }
}

fn remarks(node: &SurfaceNode) -> String {
    let mut remarks = String::new();
    for (what, ids) in [
        ("waiting for", &node.open_calls),
        ("interrupted", &node.dead_calls),
        ("without its call", &node.orphaned_results),
    ] {
        if !ids.is_empty() {
            remarks.push_str(&format!("; {what}: {}", ids.join(", ")));
        }
    }
    if node.pinned {
        remarks.push_str("; pinned");
    }
    remarks
}
