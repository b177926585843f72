//! The `harness-compact` command.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    harness_compact_host::command::main().await
}
