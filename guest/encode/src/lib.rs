//! Builds the guest crates to WebAssembly, so that nobody has to install a tool or
//! a prebuilt file. For the host's build script and the npm package's build.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use wit_component::ComponentEncoder;

const TARGET: &str = "wasm32-unknown-unknown";

/// The component that every host loads: the basic backend.
pub fn component(workspace: &Path, target_dir: &Path) -> Result<Vec<u8>> {
    component_of(workspace, target_dir, "harness-compact-guest")
}

/// A backend of this workspace, compiled and encoded.
pub fn component_of(workspace: &Path, target_dir: &Path, package: &str) -> Result<Vec<u8>> {
    let module = core_module(workspace, target_dir, package, "component")?;
    ComponentEncoder::default()
        .validate(true)
        .module(&std::fs::read(module)?)?
        .encode()
}

/// Compile a guest crate to a core module, apart from the build that is running.
pub fn core_module(
    workspace: &Path,
    target_dir: &Path,
    package: &str,
    profile: &str,
) -> Result<PathBuf> {
    check_target()?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["build", "--package", package, "--profile", profile])
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
    ensure!(status.success(), "{package} did not build: {status}");
    let file = format!("{}.wasm", package.replace('-', "_"));
    Ok(target_dir.join(TARGET).join(profile).join(file))
}

/// A missing target shows as "can't find crate for `core`"; say what to do instead.
fn check_target() -> Result<()> {
    let output = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()?;
    let libdir = String::from_utf8(output.stdout)?;
    if !Path::new(libdir.trim()).exists() {
        bail!("the guest needs the Rust target {TARGET}; run: rustup target add {TARGET}");
    }
    Ok(())
}
