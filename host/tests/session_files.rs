//! Session files and message arrays as logs of this host.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use harness_compact_host::types::{AgentContext, NodeKind, NowOptions, Trigger};
use harness_compact_host::{
    CompactHost, Form, MessagesLog, OfflineModel, OpenOptions, SessionFile, SessionLog,
};
use serde_json::{Value, json};

fn made(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data/sessions")
        .join(name)
}

#[tokio::test]
async fn each_programs_file_is_compacted_saved_and_goes_on() {
    let host = CompactHost::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "claude-code.jsonl",
        "codex.jsonl",
        "gemini.jsonl",
        "opencode.json",
        "pi.jsonl",
    ] {
        let path = folder.path().join(name);
        fs::copy(made(name), &path).unwrap();
        let mut compactor = host
            .compactor(Default::default(), Arc::new(OfflineModel))
            .await
            .unwrap();
        let file = Arc::new(SessionFile::open(&path, OpenOptions::default()).unwrap());
        let session: Arc<dyn SessionLog> = file.clone();
        let agent = AgentContext {
            context_window: file.context_window(),
            ..AgentContext::default()
        };
        assert!(file.remarks().is_empty());
        let options = NowOptions {
            retain_tokens: Some(3000),
            ..NowOptions::default()
        };
        let before = session.id();
        let result = compactor
            .compact_now(&session, &agent, &options, None)
            .await
            .unwrap();
        let result = result.expect("there is something to gain");
        assert!(file.save().unwrap(), "{name}");
        assert!(!file.save().unwrap(), "{name}: nothing has changed since");
        assert_ne!(session.id(), before, "its events are numbered anew");
        let surface = compactor.surface(&session).await.unwrap();
        assert_eq!(surface[0].kind, NodeKind::Checkpoint, "{name}");
        let summary = format!("{:?}", file.records(surface[0].seq));
        assert!(summary.contains("compacted-summary"), "{name}");
        let measured = compactor.measure(&session, &agent, "", &[]).await.unwrap();
        let (told, now) = (
            f64::from(result.after.total_tokens),
            f64::from(measured.total_tokens),
        );
        assert!((told - now).abs() < 0.05 * told, "{name}: {told} {now}");
        // Somebody else's write of other content is not written over.
        compactor
            .compact_now(&session, &agent, &NowOptions::default(), None)
            .await
            .unwrap();
        fs::write(&path, "{}").unwrap();
        let why = file.save().unwrap_err().to_string();
        assert!(why.contains("has changed"), "{why}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    }
    let missing = SessionFile::open(folder.path().join("missing"), OpenOptions::default());
    assert!(missing.unwrap_err().to_string().contains("missing"));
}

#[tokio::test]
async fn a_loop_over_an_array_of_messages_is_compacted_as_it_grows() {
    let host = CompactHost::new().unwrap();
    let mut compactor = host
        .compactor(Default::default(), Arc::new(OfflineModel))
        .await
        .unwrap();
    let system = json!({"role": "system", "content": "Rules."});
    let log = Arc::new(MessagesLog::from_messages(&[system], Form::OpenaiChat, "loop").unwrap());
    let session: Arc<dyn SessionLog> = log.clone();
    let agent = AgentContext {
        context_window: Some(6000),
        ..AgentContext::default()
    };
    let mut compactions = 0;
    for turn in 0..40 {
        let id = format!("c{turn}");
        for message in [
            json!({"role": "user", "content": format!("Request {turn}: {}", "please ".repeat(60))}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": id, "content": "out ".repeat(100)}),
            json!({"role": "assistant", "content": "Done."}),
        ] {
            log.push(&message).unwrap();
            let trigger = Trigger::Pressure;
            let result =
                compactor.compact_if_needed(&session, &agent, "Rules.", &[], trigger, None);
            compactions += usize::from(result.await.unwrap().is_some());
            let messages = log.to_messages().unwrap();
            // Every result has its call before it, and the newest message is the last.
            let mut calls: Vec<&Value> = Vec::new();
            for message in &messages {
                calls.extend(
                    message["tool_calls"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|call| &call["id"]),
                );
                assert!(message["role"] != "tool" || calls.contains(&&message["tool_call_id"]));
            }
            assert_eq!(messages.last(), Some(&message));
            assert_eq!(messages[0]["content"], "Rules.");
        }
    }
    assert!(compactions >= 2, "{compactions}");
    assert!(log.to_messages().unwrap().len() < 60);
    assert!(MessagesLog::from_messages(&[], Form::Codex, "x").is_err());
}
