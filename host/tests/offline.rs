//! The summariser that needs no model.

use futures_util::StreamExt;
use harness_compact_host::types::*;
use harness_compact_host::{CancellationToken, MemoryLog, Model, OfflineModel};

fn node(log: &MemoryLog, payload: Payload) {
    log.push(Draft::on_surface(payload));
}

fn user(log: &MemoryLog, text: &str, source: &str) {
    node(
        log,
        Payload::UserMessage(UserMessage {
            content: vec![ContentBlock::Text(text.into())],
            source: source.into(),
            pinned: false,
        }),
    );
}

fn assistant(log: &MemoryLog, content: Vec<ContentBlock>) {
    node(
        log,
        Payload::AssistantMessage(AssistantMessage {
            content,
            usage: None,
        }),
    );
}

fn run(log: &MemoryLog, id: &str, name: &str, arguments: &str, output: &str, is_error: bool) {
    assistant(
        log,
        vec![ContentBlock::ToolCall(ToolCall {
            call_id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        })],
    );
    node(
        log,
        Payload::ToolResult(ToolResult {
            call_id: id.into(),
            is_error,
            content: vec![ResultBlock::Text(output.into())],
        }),
    );
}

async fn summarise(log: &MemoryLog, max_tokens: u32) -> String {
    let nodes = (0..log.events().len() as u32).collect();
    let prompt = Prompt::Standalone(Standalone {
        system: String::new(),
        user: String::new(),
        nodes,
    });
    let options = GenerateOptions {
        route: OfflineModel::route(),
        prompt,
        max_tokens: Some(max_tokens),
        purpose: "compaction".into(),
        part: None,
    };
    let signal = CancellationToken::new();
    let answer = OfflineModel.stream(log, options, &signal).await.unwrap();
    let chunks: Vec<_> = answer.collect().await;
    match &chunks[..] {
        [Ok(Chunk::Text(text)), Ok(Chunk::Finish(finish))] => {
            assert_eq!(finish.reason, FinishReason::Stop);
            text.clone()
        }
        other => panic!("{other:?}"),
    }
}

/// A section's text.
fn section<'a>(summary: &'a str, heading: &str) -> &'a str {
    let start = summary.find(&format!("## {heading}\n")).expect(heading);
    let rest = &summary[start + heading.len() + 4..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

fn session() -> MemoryLog {
    let log = MemoryLog::new("s");
    user(
        &log,
        "Mend the parser.\nKeep the public names as they are.",
        "user",
    );
    run(
        &log,
        "1",
        "read",
        r#"{"path":"src/parser.rs"}"#,
        &"fn parse() {}\n".repeat(600),
        false,
    );
    run(
        &log,
        "2",
        "bash",
        r#"{"command":"cargo test"}"#,
        "error: expected `;`",
        true,
    );
    run(
        &log,
        "3",
        "edit",
        r#"{"path":"src/parser.rs","oldText":"a","newText":"b"}"#,
        "ok",
        false,
    );
    run(
        &log,
        "4",
        "bash",
        r#"{"command":"cargo test"}"#,
        "test result: ok. 3 passed",
        false,
    );
    run(
        &log,
        "5",
        "bash",
        r#"{"command":"cargo clippy"}"#,
        "error: unused import",
        true,
    );
    assistant(
        &log,
        vec![ContentBlock::Text(
            "The tests pass.\n- [ ] clippy\n- [x] tests".into(),
        )],
    );
    user(&log, "Now clippy.", "user");
    assistant(
        &log,
        vec![ContentBlock::ToolCall(ToolCall {
            call_id: "6".into(),
            name: "bash".into(),
            arguments: r#"{"command":"cargo clippy --fix"}"#.into(),
        })],
    );
    log
}

#[tokio::test]
async fn it_fills_the_eight_sections_from_the_session() {
    let summary = summarise(&session(), 2048).await;
    let requests = section(&summary, "Primary Request and Intent");
    assert!(
        requests.contains("Newest request: Now clippy."),
        "{summary}"
    );
    assert!(
        requests.contains("Mend the parser.\n  Keep the public names as they are."),
        "{summary}"
    );
    assert!(
        section(&summary, "Files and Code").contains("`src/parser.rs`: read, edited"),
        "{summary}"
    );
    let errors = section(&summary, "Errors and Fixes");
    let mended = "bash `cargo test`: error: expected `;`; then edit `src/parser.rs`, bash `cargo test`; went well later";
    assert!(errors.contains(mended), "{summary}");
    assert!(
        errors.contains("bash `cargo clippy`: error: unused import"),
        "{summary}"
    );
    assert!(errors.contains("not seen to go well since"), "{summary}");
    assert_eq!(section(&summary, "Pending Tasks").trim(), "- clippy");
    let work = section(&summary, "Current Work");
    assert!(
        work.contains("Interrupted, no result: bash `cargo clippy --fix`"),
        "{summary}"
    );
    assert!(
        section(&summary, "Next Step").contains("newest request"),
        "{summary}"
    );
    let context = section(&summary, "Critical Context");
    assert!(context.contains("made without a model"), "{summary}");
    assert!(context.contains("`cargo clippy`"), "{summary}");
    // And says the same again.
    assert_eq!(summary, summarise(&session(), 2048).await);
}

#[tokio::test]
async fn it_merges_an_earlier_checkpoint_of_its_own() {
    let first = summarise(&session(), 2048).await;
    let log = MemoryLog::new("t");
    user(
        &log,
        &format!("This is a checkpoint.\n\n<compacted-summary>\n{first}\n</compacted-summary>"),
        "plugin:compact",
    );
    user(&log, "And now the documentation.", "user");
    run(
        &log,
        "7",
        "write",
        r#"{"path":"docs/parser.md","content":"x"}"#,
        &"written ".repeat(300),
        false,
    );
    let summary = summarise(&log, 2048).await;
    let requests = section(&summary, "Primary Request and Intent");
    let order = [
        "Newest request: And now the documentation.",
        "Now clippy.",
        "Mend the parser.",
    ];
    let found: Vec<_> = order
        .iter()
        .map(|text| requests.find(text).expect(text))
        .collect();
    assert!(found.is_sorted(), "{summary}");
    assert!(
        section(&summary, "Files and Code").contains("`src/parser.rs`: read, edited"),
        "{summary}"
    );
    assert!(
        section(&summary, "Errors and Fixes").contains("unused import"),
        "{summary}"
    );
    assert_eq!(
        summary.matches("made without a model").count(),
        1,
        "{summary}"
    );
    assert_eq!(summary.matches("## ").count(), 8, "{summary}");
}

#[tokio::test]
async fn it_keeps_an_earlier_checkpoint_under_headings_that_are_not_its_own() {
    let log = MemoryLog::new("t");
    let foreign = "# Checkpoint\n\n## Goal\nShip the parser by Friday.\n\n## Decisions\n1. Recursive descent\n2. No macros";
    user(
        &log,
        &format!("Earlier:\n<compacted-summary>\n{foreign}\n</compacted-summary>"),
        "plugin:compact",
    );
    for index in 0..60 {
        let arguments = format!("{{\"command\":\"make step-{index}\"}}");
        run(
            &log,
            &format!("c{index}"),
            "bash",
            &arguments,
            &"ok ".repeat(60),
            false,
        );
    }
    let summary = summarise(&log, 600).await;
    let context = section(&summary, "Critical Context");
    assert!(
        context.contains("Goal:\n  Ship the parser by Friday."),
        "{summary}"
    );
    assert!(context.contains("2. No macros"), "{summary}");
}

#[tokio::test]
async fn it_stays_within_the_cap_and_below_what_it_replaces() {
    for (count, text) in [
        (3, "short"),
        (800, "请把这个模块重写得更简单一些，并保留所有的测试。"),
        (3000, "please go on"),
    ] {
        let log = MemoryLog::new("long");
        for index in 0..count {
            user(&log, &format!("{index}: {text}"), "user");
            let arguments = format!("{{\"path\":\"src/file_{index}.rs\",\"content\":\"…\"}}");
            run(
                &log,
                &format!("c{index}"),
                "write",
                &arguments,
                "error: no space left",
                index % 7 == 0,
            );
        }
        for cap in [300, 2048] {
            let summary = summarise(&log, cap).await;
            // The upper bound of any script: a token for each character beyond ASCII.
            let ascii = summary.bytes().filter(u8::is_ascii).count();
            let tokens = ascii.div_ceil(4) + (summary.chars().count() - ascii);
            assert!(tokens as u32 <= cap, "{tokens} of {cap}:\n{summary}");
            assert_eq!(summary.matches("## ").count(), 8, "{summary}");
        }
    }
}
