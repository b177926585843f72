//! What the embedded component is made of.

use harness_compact_host::BASIC_BACKEND;
use wasmparser::{Parser, Payload};

/// The names that a component imports or exports at its outermost level.
fn names(component: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0);
    for payload in Parser::new(0).parse_all(component) {
        match payload.expect("a valid component") {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                let names = section
                    .into_iter()
                    .map(|import| import.expect("an import").name.name);
                imports.extend(names.map(str::to_owned));
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                let names = section
                    .into_iter()
                    .map(|export| export.expect("an export").name.name);
                exports.extend(names.map(str::to_owned));
            }
            _ => {}
        }
    }
    imports.sort();
    (imports, exports)
}

#[test]
fn it_imports_this_package_and_nothing_else() {
    let (imports, exports) = names(BASIC_BACKEND);
    let interface = |name: &str| format!("harness:compact/{name}@0.1.0");
    let expected = ["hooks", "llm-stream", "session", "types"].map(interface);
    assert_eq!(imports, expected);
    assert_eq!(exports, [interface("compact")]);
}

#[test]
fn it_is_small() {
    let size = BASIC_BACKEND.len();
    assert!(size <= 200_000, "{size} bytes");
}
