//! The `harness-compact` command, but for what it runs on.
//!
//! Two commands are this one: the Rust host's and the npm package's. Each supplies a
//! [`System`], which is files, terminal, time and the backend; words, flags, exit
//! statuses and what is written are the same by that.
#![deny(missing_docs)]
// Both systems run one command at a time, on one thread.
#![allow(async_fn_in_trait)]

mod compact;
mod extract;
mod file;
mod measure;
mod sessions;
mod system;
mod undo;
mod words;

use clap::{CommandFactory, Parser, Subcommand};

pub use extract::{Extract, extract_info, extract_route};
pub use file::SharedSession;
pub use system::{Backend, BackendOptions, Failure, Stat, System};

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
    /// List the sessions in the usual places of their programs, newest first.
    #[command(after_help = sessions::AFTER_HELP)]
    Sessions(sessions::Arguments),
    /// Take a session's newest compaction back, where it is the last thing in the file.
    Undo(undo::Arguments),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// For standard output.
    pub output: String,
    /// For standard error.
    pub error: String,
    /// 0 done, 1 failed, 2 wrong usage, 3 nothing to do.
    pub status: u8,
}

/// Why a command did not do what it was asked to.
enum Stopped {
    /// There was nothing to do; what to print.
    NothingToDo(String),
    /// The arguments do not go together, or are of no use here.
    Usage(String),
    /// It failed.
    Failed(String),
}

impl From<String> for Stopped {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Run the command with these arguments, of which the first is its name.
pub async fn run<S: System>(arguments: &[String], system: &S) -> Ended {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let done = match arguments.command {
        Command::Compact(arguments) => compact::run(arguments, system).await,
        Command::Measure(arguments) => measure::run(arguments, system).await,
        Command::Sessions(arguments) => sessions::run(arguments, system).await,
        Command::Undo(arguments) => undo::run(arguments, system),
    };
    system.progress(None);
    match done {
        Ok(output) => ended(output, 0),
        Err(Stopped::NothingToDo(output)) => ended(output, 3),
        Err(Stopped::Usage(why)) => {
            let kind = clap::error::ErrorKind::ArgumentConflict;
            misused(&Arguments::command().error(kind, why))
        }
        Err(Stopped::Failed(why)) => Ended {
            output: String::new(),
            error: format!("harness-compact: {why}\n"),
            status: 1,
        },
    }
}

fn ended(mut output: String, status: u8) -> Ended {
    output.push('\n');
    Ended {
        output,
        error: String::new(),
        status,
    }
}

fn misused(error: &clap::Error) -> Ended {
    let text = error.render().to_string();
    let (output, error, status) = match error.use_stderr() {
        true => (String::new(), text, 2),
        false => (text, String::new(), 0),
    };
    Ended {
        output,
        error,
        status,
    }
}
