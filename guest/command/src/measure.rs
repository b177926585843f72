//! `harness-compact measure`.

use clap::Args;
use harness_compact_engine::{AgentContext, Config, NodeKind, SurfaceNode};
use serde_json::{Value, json};

use crate::Stopped;
use crate::extract::extract_route;
use crate::file::{Opened, Which};
use crate::system::{Backend, BackendOptions, Failure, System};
use crate::words::{grouped, measurement_json};

/// What to measure, and how.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    which: Which,
    /// The model's window in tokens [default: what SESSION says, else 128000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context_window: Option<u32>,
    /// A backend to use in place of the basic one: a component file.
    #[arg(long, value_name = "FILE.wasm")]
    backend: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measure a session file; it is not written to.
pub async fn run<S: System>(arguments: Arguments, system: &S) -> Result<String, Stopped> {
    let opened = Opened::open(&arguments.which, system)?;
    opened.tell_remarks(system);
    let window = opened.session.lock().context_window();
    let agent = AgentContext {
        context_window: arguments.context_window.or(window),
        ..AgentContext::default()
    };
    let options = BackendOptions {
        config: Config::default(),
        model: extract_route(),
        base_url: None,
        component: arguments.backend,
    };
    system.progress(Some("measuring"));
    let failed = |failure| failed(&opened.path, failure);
    let backend = system.backend(opened.session.clone(), options).await;
    let mut backend = backend.map_err(failed)?;
    let measurement = backend.measure(&agent).await.map_err(failed)?;
    let surface = backend.surface().await.map_err(failed)?;

    if arguments.json {
        let mut object = measurement_json(&measurement);
        object["form"] = json!(opened.session.lock().form().name());
        object["retainTokens"] = json!(measurement.retain_tokens);
        // Node by node: of a long session there are many.
        let mut text = object.to_string();
        text.pop();
        text.push_str(",\"surface\":[");
        for (index, node) in surface.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&node_json(node).to_string());
        }
        text.push_str("]}");
        return Ok(text);
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
    Ok(table)
}

/// A backend's failure on this session.
pub fn failed(path: &str, failure: Failure) -> Stopped {
    Stopped::Failed(match failure {
        Failure::Compact(error) => format!("{path}: {error}"),
        Failure::Broken(why) => why,
    })
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
