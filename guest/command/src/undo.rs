//! `harness-compact undo`.

use clap::Args;

use crate::Stopped;
use crate::file::{Opened, Which};
use crate::system::System;

/// What to take back.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    which: Which,
}

/// Take the newest compaction of a session file back.
pub fn run(arguments: Arguments, system: &impl System) -> Result<String, Stopped> {
    let opened = Opened::open(&arguments.which, system)?;
    opened.undo(system)?;
    Ok(format!(
        "Took the newest compaction of {} back: the session is what it was before.",
        opened.path
    ))
}
