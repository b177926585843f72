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
            Ok(differences) if differences.is_empty() => {}
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
    let differences = run_vector(Kind::Native, &vector).await.expect("it runs");
    assert_eq!(differences.len(), 1);
    assert!(
        differences[0].starts_with("after: expected "),
        "{differences:?}"
    );
}
