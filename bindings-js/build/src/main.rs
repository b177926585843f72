//! Makes the WebAssembly that the npm package ships, in `OUT`: the component, and
//! the wasm-bindgen build with its glue.

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
    let package = "harness-compact-js-shell";
    let module = harness_compact_encode::core_module(&workspace, &target, package, "bindgen")?;
    Bindgen::new()
        .input_path(module)
        .out_name("engine")
        .web(true)?
        .typescript(true)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(out.join("bindgen"))
}
