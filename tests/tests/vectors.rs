//! The reference vectors, on every build that needs no other runtime.

use std::path::Path;

use conformance::{Kind, read_vectors, run_vector};

async fn all_pass(kind: Kind) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/reference.jsonl");
    let vectors = read_vectors(&path).expect("the vectors are part of the project");
    assert_eq!(vectors.len(), 120);
    let mut failed = Vec::new();
    for vector in &vectors {
        match run_vector(kind, vector).await {
            Ok(run) if run.differences.is_empty() => {}
            outcome => failed.push(format!("{}: {outcome:?}", vector["name"])),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test]
async fn natively() {
    all_pass(Kind::Native).await;
}

#[tokio::test]
async fn in_wasmtime() {
    all_pass(Kind::Wasmtime).await;
}

#[tokio::test]
async fn a_wrong_expectation_is_a_difference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/reference.jsonl");
    let mut vector = read_vectors(&path)
        .expect("they can be read")
        .swap_remove(3);
    vector["expect"]["after"]["totalTokens"] = 1.into();
    let run = run_vector(Kind::Native, &vector).await.expect("it runs");
    let differences = run.differences;
    assert_eq!(differences.len(), 1);
    assert!(
        differences[0].starts_with("after: expected "),
        "{differences:?}"
    );
}

/// The package's builds, if it has been built, and what they append to the byte.
async fn package_agrees(kind: Kind) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings-js/dist");
    if !package.exists() {
        eprintln!("skipped: the npm package is not built (npm ci && npm run build in bindings-js)");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/reference.jsonl");
    for vector in read_vectors(&path).expect("they can be read") {
        let run = run_vector(kind, &vector).await.expect("it runs");
        assert_eq!(run.differences, [] as [String; 0], "{}", vector["name"]);
        let native = run_vector(Kind::Native, &vector).await.expect("it runs");
        assert_eq!(run.appended, native.appended, "{}", vector["name"]);
    }
}

#[tokio::test]
async fn in_javascript_with_wasm_bindgen() {
    package_agrees(Kind::Bindgen).await;
}

#[tokio::test]
async fn in_javascript_with_the_component() {
    if std::env::var_os("NODE").is_none() {
        eprintln!("skipped: NODE names no runtime that can suspend WebAssembly");
        return;
    }
    package_agrees(Kind::Component).await;
}
