//! Makes the WebAssembly that the npm package ships, in `OUT`: the component, and the
//! two wasm-bindgen builds with their glue, the engine's and the command's.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let out = std::env::args_os()
        .nth(1)
        .context("usage: harness-compact-js-build OUT")?;
    let out = PathBuf::from(out);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let target = workspace.join("target/guest");
    std::fs::create_dir_all(&out)?;
    let component = harness_compact_encode::component(&workspace, &target)?;
    std::fs::write(out.join("compactor.component.wasm"), component)?;
    bindgen(
        &workspace,
        &target,
        "harness-compact-js-shell",
        "bindgen",
        "engine",
        &out,
    )?;
    bindgen(
        &workspace,
        &target,
        "harness-compact-js-command",
        "command",
        "command",
        &out,
    )
}

/// Compile a crate under a profile, and make its glue.
fn bindgen(
    workspace: &Path,
    target: &Path,
    package: &str,
    profile: &str,
    name: &str,
    out: &Path,
) -> Result<()> {
    let module = harness_compact_encode::core_module(workspace, target, package, profile)?;
    Bindgen::new()
        .input_path(module)
        .out_name(name)
        .web(true)?
        .typescript(true)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(out.join("bindgen"))
}
