//! The command and session files, behind wasm-bindgen. The command itself is
//! `guest/command`, with the engine beside it in one module: JavaScript supplies
//! files, terminal, time and model calls.
#![allow(
    missing_docs,
    reason = "the package's TypeScript describes what users see"
)]

mod backend;
mod session_file;
mod system;

use wasm_bindgen::prelude::*;

/// Run the command; the answer is `[output, error, status]`.
#[wasm_bindgen]
pub async fn run(arguments: Vec<String>, system: system::JsSystem) -> Vec<JsValue> {
    let ended = harness_compact_command::run(&arguments, &system::Js::new(system)).await;
    vec![
        ended.output.into(),
        ended.error.into(),
        u32::from(ended.status).into(),
    ]
}
