//! Backends of somebody else's, in either host.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use harness_compact_host::types::{CompactError, Config};
use harness_compact_host::{CompactHost, Model};
use tempfile::TempDir;

use crate::builds::{Build, WasmtimeBuild, contract};
use crate::node::NodeBuild;

/// A backend, loaded in a host.
pub enum Backend {
    /// In the Rust host.
    Wasmtime(CompactHost),
    /// In the npm package: the directory of the module that was made of it.
    Package(TempDir),
}

impl Backend {
    /// Load a component in the Rust host.
    pub fn in_wasmtime(component: &[u8]) -> Self {
        Self::Wasmtime(CompactHost::with_component(component).expect("a backend"))
    }

    /// Make a module of a component for the package, in the JavaScript runtime that
    /// `NODE` names. None, with the reason printed, where that cannot run it.
    pub fn in_package(component: &[u8]) -> Option<Self> {
        let package = NodeBuild::package();
        let transpile = package.join("dist/transpile.js");
        if !transpile.exists() {
            eprintln!("skipped: bindings-js is not built");
            return None;
        }
        let suspends = "process.exit('Suspending' in WebAssembly ? 0 : 1)";
        let probe = Command::new(NodeBuild::runtime())
            .args(["-e", suspends])
            .status();
        if !probe.is_ok_and(|status| status.success()) {
            eprintln!(
                "skipped: {} cannot suspend WebAssembly",
                NodeBuild::runtime()
            );
            return None;
        }
        let directory = TempDir::new().expect("a directory");
        let file = directory.path().join("backend.wasm");
        std::fs::write(&file, component).expect("a file");
        let status = Command::new("node")
            .arg(transpile)
            .arg(&file)
            .arg("--out-dir")
            .arg(directory.path())
            .current_dir(package)
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "not transpiled"
        );
        Some(Self::Package(directory))
    }

    /// Make a compactor of it.
    pub async fn create(
        &self,
        config: Config,
        model: Arc<dyn Model>,
    ) -> Result<Box<dyn Build>, CompactError> {
        Ok(match self {
            Self::Wasmtime(host) => {
                let compactor = host.compactor(config, model).await;
                Box::new(WasmtimeBuild(contract(compactor)?))
            }
            Self::Package(directory) => {
                let module = directory.path().join("index.js");
                Box::new(NodeBuild::with_backend(&module, config, model).await?)
            }
        })
    }
}

/// The component that `BACKEND` names; else the template of `tests/template-backend`,
/// built now.
pub fn backend_under_test() -> &'static [u8] {
    static COMPONENT: OnceLock<Vec<u8>> = OnceLock::new();
    COMPONENT.get_or_init(|| match std::env::var_os("BACKEND") {
        Some(file) => std::fs::read(&file).unwrap_or_else(|why| panic!("{file:?}: {why}")),
        None => {
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            let target = target_dir(&workspace).join("guest");
            harness_compact_encode::component_of(&workspace, &target, "template-backend")
                .expect("the template builds")
        }
    })
}

fn target_dir(workspace: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), PathBuf::from)
}
