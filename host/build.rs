//! Builds the guest and makes it the component that this crate embeds, so that
//! nobody has to install a tool or a prebuilt file.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use wit_component::ComponentEncoder;

const TARGET: &str = "wasm32-unknown-unknown";

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
    let module = build_guest(workspace, &out.join("guest"))?;
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&std::fs::read(module)?)?
        .encode()?;
    std::fs::write(out.join("compactor.wasm"), component)?;
    Ok(())
}

/// Compile the guest to a core module, apart from the build that is running.
fn build_guest(workspace: &Path, target_dir: &Path) -> Result<PathBuf> {
    check_target()?;
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .args([
            "build",
            "--package",
            "harness-compact-guest",
            "--profile",
            "component",
        ])
        .args(["--target", TARGET])
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(workspace);
    // Flags, wrappers and profiles of the build that is running are for its target.
    for (name, _) in env::vars() {
        let theirs = name.starts_with("CARGO_PROFILE_") || name.starts_with("CARGO_BUILD_");
        let wrapper = name.ends_with("RUSTFLAGS") || name.ends_with("_WRAPPER");
        if theirs || wrapper {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().context("cargo could not be started")?;
    ensure!(status.success(), "the guest did not build: {status}");
    Ok(target_dir
        .join(TARGET)
        .join("component/harness_compact_guest.wasm"))
}

/// A missing target shows as "can't find crate for `core`"; say what to do instead.
fn check_target() -> Result<()> {
    let output = Command::new(env::var("RUSTC")?)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()?;
    let libdir = String::from_utf8(output.stdout)?;
    if !Path::new(libdir.trim()).exists() {
        bail!("the guest needs the Rust target {TARGET}; run: rustup target add {TARGET}");
    }
    Ok(())
}
