//! Log files, real ones: other writers, torn lines, a kill.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use harness_compact_host::types::*;
use harness_compact_host::{CompactHost, JsonlLog, OfflineModel, SessionLog, TornTail};

fn user(text: &str) -> Draft {
    Draft::on_surface(Payload::UserMessage(UserMessage {
        content: vec![ContentBlock::Text(text.into())],
        source: "user".into(),
        pinned: false,
    }))
}

fn new_log(folder: &Path) -> JsonlLog {
    let path = folder.join("session.jsonl");
    fs::write(
        &path,
        "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":0}\n",
    )
    .unwrap();
    JsonlLog::open(path).unwrap()
}

async fn texts(log: &JsonlLog) -> Vec<String> {
    let events = log.read(0, u32::MAX).await.unwrap();
    let text = |event: Event| match event.payload {
        Payload::UserMessage(message) => match &message.content[0] {
            ContentBlock::Text(text) => text.clone(),
            _ => panic!("text"),
        },
        _ => panic!("user messages only"),
    };
    events.into_iter().map(text).collect()
}

#[tokio::test]
async fn a_conflict_tells_the_head_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = new_log(folder.path());
    assert_eq!(log.id(), "s");
    assert_eq!(log.append(vec![user("a"), user("b")], Some(0)).await, Ok(0));
    let second = JsonlLog::open(folder.path().join("session.jsonl")).unwrap();
    assert_eq!(second.append(vec![user("c")], Some(2)).await, Ok(2));
    let before = fs::read(folder.path().join("session.jsonl")).unwrap();
    let stale = log.append(vec![user("d")], Some(2)).await;
    assert_eq!(stale, Err(SessionError::Conflict(3)));
    assert_eq!(
        fs::read(folder.path().join("session.jsonl")).unwrap(),
        before
    );
    // And what the other wrote is seen.
    assert_eq!(texts(&log).await, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_side_by_side_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    new_log(folder.path());
    let path = folder.path().join("session.jsonl");
    let writers = (0..4).map(|writer| {
        let log = JsonlLog::open(&path).unwrap();
        tokio::spawn(async move {
            for index in 0..25 {
                // Compare and append until it was our turn.
                loop {
                    let head = log.head().await.unwrap();
                    match log
                        .append(vec![user(&format!("{writer}-{index}"))], Some(head))
                        .await
                    {
                        Ok(seq) => {
                            assert_eq!(seq, head);
                            break;
                        }
                        Err(SessionError::Conflict(now)) => assert!(now > head),
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let log = JsonlLog::open(&path).unwrap();
    let mut all = texts(&log).await;
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 100);
}

#[tokio::test]
async fn a_torn_last_line_is_left_out_and_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let log = new_log(folder.path());
    log.append(vec![user("a")], None).await.unwrap();
    let path = folder.path().join("session.jsonl");
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"type\":\"user/mess").unwrap();
    let log = JsonlLog::open(&path).unwrap();
    assert_eq!(log.torn_tail(), Some(TornTail { line: 3, bytes: 18 }));
    assert_eq!(log.head().await, Ok(1));
    log.append(vec![user("b")], Some(1)).await.unwrap();
    assert_eq!(log.torn_tail(), None);
    assert_eq!(texts(&JsonlLog::open(&path).unwrap()).await, ["a", "b"]);
}

#[tokio::test]
async fn a_last_line_without_its_newline_is_whole_if_it_parses() {
    let folder = tempfile::tempdir().unwrap();
    new_log(folder.path())
        .append(vec![user("a")], None)
        .await
        .unwrap();
    let path = folder.path().join("session.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.trim_end()).unwrap();
    let log = JsonlLog::open(&path).unwrap();
    assert_eq!(log.append(vec![user("b")], Some(1)).await, Ok(1));
    assert_eq!(texts(&JsonlLog::open(&path).unwrap()).await, ["a", "b"]);
}

#[test]
fn a_bad_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    let good = r#"{"type":"turn/start","seq":0,"time":0,"data":{"turn":1}}"#;
    for (bad, why) in [
        ("{]", "key must be a string"),
        (
            r#"{"type":"turn/end","seq":2,"time":0,"data":{"turn":1}}"#,
            "its seq is 2, expected 1",
        ),
        (
            r#"{"type":"turn/end","seq":1,"time":0,"data":{}}"#,
            "`data.turn` is not a number",
        ),
        (
            r#"{"type":"user/message","seq":1,"time":0,"data":{"content":[]}}"#,
            "needs a `surfaceOp`",
        ),
        (
            r#"{"type":"todo/write","seq":1,"time":0,"data":{},"surfaceOp":"append"}"#,
            "cannot have a `surfaceOp`",
        ),
        (r#"{"seq":1}"#, "`type` is not a text"),
        (
            r#"{"type":"tool/result","seq":1,"data":{"message":{"content":[]}},"surfaceOp":"append"}"#,
            "exactly one tool-result block",
        ),
    ] {
        fs::write(&path, format!("{good}\n{bad}\n")).unwrap();
        let error = JsonlLog::open(&path).unwrap_err().to_string();
        let place = format!("{}, line 2: ", path.display());
        assert!(error.contains(&place) && error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn packed_rows_count_as_the_events_that_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    let rows = [
        r#"{"type":"turn/start","seq":0,"time":0,"data":{"turn":1}}"#,
        r#"{"type":"text-chunks","seq0":1,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":[1,2],"texts":["a","b","c"]}}"#,
        r#"{"type":"turn/end","seq":4,"time":0,"data":{"turn":1}}"#,
    ];
    fs::write(&path, rows.join("\n")).unwrap();
    let log = JsonlLog::open(&path).unwrap();
    assert_eq!(log.head().await, Ok(5));
    let events = log.read(2, 2).await.unwrap();
    assert_eq!(
        events.iter().map(|event| event.seq).collect::<Vec<_>>(),
        [2, 3]
    );
    assert_eq!(
        log.read(4, 9).await.unwrap()[0].payload,
        Payload::TurnEnd(1)
    );
}

/// Not a test of its own: what the next one runs, and kills.
#[tokio::test]
async fn writer_to_be_killed() {
    let Ok(path) = std::env::var("JSONL_TEST_WRITER") else {
        return;
    };
    let log = JsonlLog::open(path).unwrap();
    loop {
        let drafts = (0..50).map(|_| user(&"x".repeat(2000))).collect();
        log.append(drafts, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_kill_in_the_middle_leaves_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let path = folder.path().join(format!("{round}.jsonl"));
        fs::write(&path, "").unwrap();
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_to_be_killed"])
            .env("JSONL_TEST_WRITER", &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while fs::metadata(&path).unwrap().len() < 100_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 3));
        writer.kill().unwrap();
        writer.wait().unwrap();
        // Nothing but the last line can be torn, and the log goes on after it.
        let log = JsonlLog::open(&path).unwrap();
        let head = log.head().await.unwrap();
        assert!(head > 0);
        assert_eq!(log.append(vec![user("after")], Some(head)).await, Ok(head));
        let log = JsonlLog::open(&path).unwrap();
        assert_eq!(log.torn_tail(), None);
        assert_eq!(texts(&log).await.len() as u32, head + 1);
    }
}

#[tokio::test]
async fn a_rewritten_result_keeps_what_the_contract_does_not_carry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    let long = "x".repeat(9000);
    let image = r#"{"type":"image","attachment":{"attachmentId":"sha256:1","mediaType":"image/png","bytes":9,"width":3,"height":3}}"#;
    let rows = [
        r#"{"type":"assistant/message","seq":0,"time":0,"data":{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"tool-call","id":"c","name":"n","arguments":"{}"}]}},"surfaceOp":"append"}"#.to_owned(),
        format!(r#"{{"type":"tool/result","seq":1,"time":0,"data":{{"turn":1,"step":1,"message":{{"id":"r","role":"user","content":[{{"type":"tool-result","toolCallId":"c","content":[{image},{{"type":"text","text":"{long}"}}],"isError":false}}],"source":{{"kind":"tool","callId":"c"}}}},"meta":{{"k":1}}}},"surfaceOp":"append"}}"#),
    ];
    fs::write(&path, rows.join("\n")).unwrap();
    let log: Arc<dyn SessionLog> = Arc::new(JsonlLog::open(&path).unwrap());
    let host = CompactHost::new().unwrap();
    let mut compactor = host
        .compactor(Config::default(), Arc::new(OfflineModel))
        .await
        .unwrap();
    let pruned = compactor.prune(&log).await.unwrap();
    assert_eq!(pruned[0].replacement_seq, 3);
    let text = fs::read_to_string(&path).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let original: serde_json::Value = serde_json::from_str(&rows[1]).unwrap();
    // All but the text of the one block is as it was.
    let mut expected = original["data"].clone();
    let block = "/message/content/0/content/1/text";
    *expected.pointer_mut(block).unwrap() = line["data"].pointer(block).unwrap().clone();
    assert_eq!(line["data"], expected);
    assert!(line["data"].pointer(block).unwrap().as_str().unwrap().len() < 5200);
    assert_eq!(
        line["surfaceOp"],
        serde_json::json!({"op": "replace", "start": 1, "end": 1})
    );
}
