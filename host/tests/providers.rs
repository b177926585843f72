//! The command against a real server on loopback that speaks OpenAI's streaming
//! protocol, well and badly.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Notify;

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/data/sample-session.jsonl"
);
const SUMMARY: &str = "## Primary Request and Intent\n- 写引擎 — write the engine\n";

/// A server, and what it was asked last.
struct Server {
    url: String,
    asked: Arc<tokio::sync::Mutex<Value>>,
    called: Arc<Notify>,
}

type Seen = (Arc<tokio::sync::Mutex<Value>>, Arc<Notify>);

async fn serve() -> Server {
    let (asked, called) = Seen::default();
    let app = Router::new()
        .route("/v1/chat/completions", post(answer))
        .route("/v1/messages", post(anthropic_answer))
        .with_state((asked.clone(), called.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    Server { url, asked, called }
}

fn delta(content: &str, finish: Option<&str>) -> Value {
    json!({"id": "1", "object": "chat.completion.chunk", "choices": [
        {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    ]})
}

fn events(chunks: Vec<Value>, done: bool) -> Response {
    let mut texts: Vec<String> = chunks.iter().map(Value::to_string).collect();
    if done {
        texts.push("[DONE]".into());
    }
    let events = texts
        .into_iter()
        .map(|text| Ok::<_, Infallible>(Event::default().data(text)));
    Sse::new(stream::iter(events.collect::<Vec<_>>())).into_response()
}

fn refusal(status: u16, message: &str, code: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let body = json!({"error": {"message": message, "type": "x", "code": code}});
    (status, Json(body)).into_response()
}

/// The model's name says how to behave.
async fn answer(State((asked, called)): State<Seen>, Json(request): Json<Value>) -> Response {
    let behaviour = request["model"].as_str().unwrap().to_owned();
    *asked.lock().await = request;
    called.notify_one();
    match behaviour.as_str() {
        "normal" => {
            let mut chunks: Vec<Value> = SUMMARY
                .split_inclusive(' ')
                .map(|part| delta(part, None))
                .collect();
            chunks.push(delta("", Some("stop")));
            chunks.push(json!({"choices": [], "usage": {
                "prompt_tokens": 1200, "completion_tokens": 34,
                "prompt_tokens_details": {"cached_tokens": 200},
            }}));
            events(chunks, true)
        }
        "length" => events(vec![delta("## Primary Req", Some("length"))], true),
        "empty" => events(vec![delta("", Some("stop"))], true),
        "tool" => events(
            vec![
                json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls": [
                    {"index": 0, "id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
                ]}}]}),
            ],
            true,
        ),
        "stops" => events(vec![delta(SUMMARY, None)], false),
        "breaks" => {
            let first = format!("data: {}\n\n", delta(SUMMARY, None));
            let gone = std::io::Error::other("gone");
            let body = Body::from_stream(stream::iter([Ok(first), Err(gone)]));
            ([("content-type", "text/event-stream")], body).into_response()
        }
        "overflow" => {
            let message =
                "This model's maximum context length is 8192 tokens, your messages have 20000.";
            refusal(400, message, "context_length_exceeded")
        }
        "unauthorised" => refusal(401, "Incorrect API key provided.", "invalid_api_key"),
        // A rate limit that speaks of the context: it is no overflow.
        "rate" => {
            let refusal = refusal(
                429,
                "Too many tokens: maximum context length per minute.",
                "rate_limit",
            );
            ([("retry-after", "7")], refusal).into_response()
        }
        "error" => refusal(500, "Internal error.", "server_error"),
        "silent" => std::future::pending().await,
        other => panic!("no behaviour {other}"),
    }
}

/// Anthropic's protocol.
async fn anthropic_answer(State((asked, _)): State<Seen>, Json(request): Json<Value>) -> Response {
    let behaviour = request["model"].as_str().unwrap().to_owned();
    *asked.lock().await = request;
    if behaviour == "overflow" {
        let error = json!({"type": "error", "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 210000 tokens > 200000 maximum",
        }});
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    let stop = if behaviour == "length" {
        "max_tokens"
    } else {
        "end_turn"
    };
    let message = json!({"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x",
        "stop_reason": null, "usage": {"input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 1}});
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SUMMARY}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ];
    let events = events.into_iter().map(|event| {
        let kind = event["type"].as_str().unwrap().to_owned();
        Ok::<_, Infallible>(Event::default().event(kind).data(event.to_string()))
    });
    Sse::new(stream::iter(events.collect::<Vec<_>>())).into_response()
}

fn sample() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session.jsonl");
    fs::copy(SAMPLE, &session).unwrap();
    (folder, session)
}

fn command(session: &Path, server: &Server, behaviour: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness-compact"));
    command
        .arg("compact")
        .arg(session)
        .args([
            "--model",
            &format!("openai/{behaviour}"),
            "--base-url",
            &server.url,
        ])
        .args(more)
        .env("OPENAI_API_KEY", "test");
    command
}

async fn run(session: &Path, server: &Server, behaviour: &str, more: &[&str]) -> Output {
    let mut command = command(session, server, behaviour, more);
    let run = tokio::task::spawn_blocking(move || command.output());
    run.await.unwrap().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines that were appended to the sample, after it was found untouched.
fn appended(session: &Path) -> Vec<Value> {
    let (before, after) = (fs::read(SAMPLE).unwrap(), fs::read(session).unwrap());
    assert!(after.starts_with(&before), "what was there has changed");
    let appended = text(&after[before.len()..]);
    appended
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_normal_answer_lands() {
    let server = serve().await;
    let (_folder, session) = sample();
    let output = run(
        &session,
        &server,
        "normal",
        &["--in-place", "--instructions", "the exit codes", "--json"],
    )
    .await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["summary"], SUMMARY);
    assert_eq!(report["model"], "openai/normal");
    let record = &appended(&session)[1]["data"];
    assert_eq!(
        record["usage"],
        json!({
            "inputTokens": 1000, "outputTokens": 34, "cacheReadTokens": 200, "cacheWriteTokens": 0,
        })
    );
    assert_eq!(
        (&record["provider"], &record["model"]),
        (&json!("openai"), &json!("normal"))
    );

    let asked = server.asked.lock().await.clone();
    assert_eq!(asked["stream"], true);
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert!(asked.get("tools").is_none());
    let prompt = messages[1]["content"].as_str().unwrap();
    let transcript = prompt.find("<transcript>").unwrap()..prompt.find("</transcript>").unwrap();
    assert!(prompt[transcript.clone()].contains("[tool-call: bash("));
    assert!(
        prompt[transcript.end..].contains("the exit codes"),
        "instructions come last"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn anthropics_protocol_is_spoken_as_well() {
    let server = serve().await;
    for (behaviour, told) in [
        ("normal", None),
        ("length", Some("cut off at the generation cap")),
        (
            "overflow",
            Some("does not fit the model's window: prompt is too long"),
        ),
    ] {
        let (_folder, session) = sample();
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness-compact"));
        command
            .arg("compact")
            .arg(&session)
            .args(["--model", &format!("anthropic/{behaviour}")])
            .args(["--base-url", &server.url, "--json"])
            .env("ANTHROPIC_API_KEY", "test");
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let stderr = text(&output.stderr);
        match told {
            None => {
                assert_eq!(output.status.code(), Some(0), "{stderr}");
                let report: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(report["summary"], SUMMARY);
                let log = fs::read_to_string(session.with_extension("compacted.jsonl")).unwrap();
                let record = log
                    .lines()
                    .find(|line| line.contains("compact/summary"))
                    .unwrap();
                let record: Value = serde_json::from_str(record).unwrap();
                assert_eq!(
                    record["data"]["usage"],
                    json!({
                        "inputTokens": 900, "outputTokens": 20,
                        "cacheReadTokens": 100, "cacheWriteTokens": 0,
                    })
                );
                let asked = server.asked.lock().await.clone();
                assert_eq!(asked["max_tokens"], 2048);
                let system = asked["system"].to_string();
                assert!(system.contains("## Primary Request and Intent"), "{system}");
            }
            Some(told) => {
                assert_eq!(output.status.code(), Some(1), "{stderr}");
                assert!(stderr.contains(told), "{behaviour}: {stderr}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_is_named_and_changes_nothing() {
    let server = serve().await;
    for (behaviour, told) in [
        ("length", "cut off at the generation cap"),
        ("empty", "it holds no text"),
        ("tool", "it holds no text"),
        ("stops", "broke off before its end"),
        ("breaks", "did not answer"),
        (
            "overflow",
            "does not fit the model's window: This model's maximum context length",
        ),
        (
            "unauthorised",
            "refused the request: HTTP 401: Incorrect API key provided.",
        ),
        ("rate", "rate limit is reached, retry in 7000 ms"),
        ("error", "did not answer: HTTP 500: Internal error."),
    ] {
        let (folder, session) = sample();
        let output = run(&session, &server, behaviour, &[]).await;
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{behaviour}: {stderr}");
        assert!(stderr.contains(told), "{behaviour}: {stderr}");
        assert!(output.stdout.is_empty());
        assert_eq!(
            fs::read(&session).unwrap(),
            fs::read(SAMPLE).unwrap(),
            "{behaviour}"
        );
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "{behaviour}: something is left"
        );

        let output = run(&session, &server, behaviour, &["--in-place"]).await;
        assert_eq!(output.status.code(), Some(1), "{behaviour}");
        assert!(
            appended(&session).is_empty(),
            "{behaviour}: something was written"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named() {
    let mut server = serve().await;
    server.url = "http://127.0.0.1:9/v1".into();
    let (_folder, session) = sample();
    let output = run(&session, &server, "normal", &[]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("did not answer"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_named() {
    let (_folder, session) = sample();
    let output = Command::new(env!("CARGO_BIN_EXE_harness-compact"))
        .arg("compact")
        .arg(&session)
        .args(["--model", "anthropic/claude-x"])
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("ANTHROPIC_API_KEY"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_call_that_is_never_answered() {
    let server = serve().await;
    let (_folder, session) = sample();
    let child = command(&session, &server, "silent", &["--in-place"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::timeout(Duration::from_secs(60), server.called.notified())
        .await
        .unwrap();
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output = tokio::time::timeout(Duration::from_secs(60), output)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("aborted"),
        "{}",
        text(&output.stderr)
    );
    assert!(
        appended(&session).is_empty(),
        "what was aborted wrote something"
    );
}
