//! The `harness-compact` command: compacts and measures session files.

mod command;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use command::{Outcome, compact, measure};

/// Context compaction for agent sessions.
#[derive(Debug, Parser)]
#[command(name = "harness-compact", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Replace a session's older part with a summary, and keep the recent part
    /// word for word.
    #[command(after_help = compact::AFTER_HELP)]
    Compact(compact::Arguments),
    /// Show what a session's next request costs, node by node.
    Measure(measure::Arguments),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Compact(arguments) => compact::run(arguments).await,
        Command::Measure(arguments) => measure::run(arguments).await,
    };
    let (output, code) = match outcome {
        Ok(Outcome::Done(output)) => (output, ExitCode::SUCCESS),
        Ok(Outcome::NothingToDo(output)) => (output, ExitCode::from(3)),
        Err(error) => {
            eprintln!("harness-compact: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    match writeln!(io::stdout(), "{output}") {
        // Whoever reads has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
        Err(error) => {
            eprintln!("harness-compact: {error}");
            ExitCode::FAILURE
        }
        Ok(()) => code,
    }
}
