//! Builds the component that this crate embeds.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let host = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = host.parent().context("the host lies in the workspace")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for input in ["wit", "guest", "Cargo.toml", "Cargo.lock"] {
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join(input).display()
        );
    }
    let component = harness_compact_encode::component(workspace, &out.join("guest"))?;
    std::fs::write(out.join("compactor.wasm"), component)?;
    Ok(())
}
