//! Arrays of messages: what each interface asks of them, on what comes out.

mod common;

use common::*;
use harness_compact_formats::Form;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A conversation, as each interface has it: `turns` of a question, `calls` calls with
/// their results and an answer. Of the turns in `cut` the last result never came.
fn conversation(form: Form, turns: usize, calls: usize, cut: &[usize]) -> Vec<Value> {
    let mut messages = match form {
        Form::OpenaiChat | Form::AiSdk => vec![json!({"role": "system", "content": "Rules."})],
        Form::OpenaiResponses => vec![json!({"role": "developer", "content": "Rules."})],
        _ => Vec::new(),
    };
    for turn in 0..turns {
        let ids: Vec<String> = (0..calls).map(|call| format!("c{turn}-{call}")).collect();
        let came = |call: usize| !(cut.contains(&turn) && call + 1 == calls);
        let question = format!("Question {turn}");
        match form {
            Form::OpenaiChat => {
                messages.push(json!({"role": "user", "content": question}));
                let made: Vec<Value> = ids.iter().map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})).collect();
                if !made.is_empty() {
                    messages
                        .push(json!({"role": "assistant", "content": null, "tool_calls": made}));
                }
                for (call, id) in ids.iter().enumerate().filter(|(call, _)| came(*call)) {
                    messages.push(json!({"role": "tool", "tool_call_id": id, "content": format!("out {call}")}));
                }
                messages.push(json!({"role": "assistant", "content": format!("Answer {turn}")}));
            }
            Form::OpenaiResponses => {
                messages.push(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": question}]}));
                messages.push(json!({"type": "reasoning", "id": format!("r{turn}"), "summary": [], "encrypted_content": "AAAA"}));
                for id in &ids {
                    messages.push(json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}));
                }
                for (_, id) in ids.iter().enumerate().filter(|(call, _)| came(*call)) {
                    messages.push(
                        json!({"type": "function_call_output", "call_id": id, "output": "out"}),
                    );
                }
                messages.push(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": format!("Answer {turn}")}]}));
            }
            Form::Anthropic => {
                messages.push(json!({"role": "user", "content": question}));
                let made: Vec<Value> = ids
                    .iter()
                    .map(|id| json!({"type": "tool_use", "id": id, "name": "f", "input": {}}))
                    .collect();
                if !made.is_empty() {
                    messages.push(json!({"role": "assistant", "content": made}));
                }
                let results: Vec<Value> = ids.iter().enumerate().filter(|(call, _)| came(*call)).map(|(_, id)| json!({"type": "tool_result", "tool_use_id": id, "content": "out"})).collect();
                if !results.is_empty() {
                    messages.push(json!({"role": "user", "content": results}));
                }
                messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": format!("Answer {turn}")}]}));
            }
            _ => {
                messages
                    .push(json!({"role": "user", "content": [{"type": "text", "text": question}]}));
                let made: Vec<Value> = ids.iter().map(|id| json!({"type": "tool-call", "toolCallId": id, "toolName": "f", "input": {}})).collect();
                if !made.is_empty() {
                    messages.push(json!({"role": "assistant", "content": made}));
                }
                let results: Vec<Value> = ids.iter().enumerate().filter(|(call, _)| came(*call)).map(|(_, id)| json!({"type": "tool-result", "toolCallId": id, "toolName": "f", "output": {"type": "text", "value": "out"}})).collect();
                if !results.is_empty() {
                    messages.push(json!({"role": "tool", "content": results}));
                }
                messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": format!("Answer {turn}")}]}));
            }
        }
    }
    messages
}

/// Call ids and result ids of a message, each where it stands.
fn links(message: &Value) -> Vec<(bool, String)> {
    let mut links = Vec::new();
    let mut link =
        |is_call: bool, id: &Value| links.push((is_call, id.as_str().unwrap().to_owned()));
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        link(true, &call["id"]);
    }
    if message.get("tool_call_id").is_some() {
        link(false, &message["tool_call_id"]);
    }
    match message["type"].as_str() {
        Some("function_call") => link(true, &message["call_id"]),
        Some("function_call_output") => link(false, &message["call_id"]),
        _ => {}
    }
    for block in message["content"].as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("tool_use") => link(true, &block["id"]),
            Some("tool_result") => link(false, &block["tool_use_id"]),
            Some("tool-call") => link(true, &block["toolCallId"]),
            Some("tool-result") => link(false, &block["toolCallId"]),
            _ => {}
        }
    }
    links
}

/// What every interface asks: each result has its call before it, each call its result
/// before anybody else speaks.
fn assert_legal(form: Form, messages: &[Value]) {
    let mut waiting: Vec<String> = Vec::new();
    let mut conversation = 0;
    for message in messages {
        let links = links(message);
        let speaks = !links.iter().any(|(is_call, _)| !is_call);
        let goes_on = form == Form::OpenaiResponses && links.iter().any(|(is_call, _)| *is_call);
        if speaks && !goes_on {
            assert!(
                waiting.is_empty(),
                "{form:?}: {waiting:?} not answered before {message}"
            );
        }
        for (is_call, id) in links {
            match is_call {
                true => waiting.push(id),
                false => {
                    let at = waiting.iter().position(|each| *each == id);
                    waiting.remove(at.unwrap_or_else(|| panic!("{form:?}: {id} answers nothing")));
                }
            }
        }
        let role = message["role"].as_str().unwrap_or_default();
        if !matches!(role, "system" | "developer") {
            conversation += 1;
            // What is replaced gives way to something of the user's.
            assert!(conversation > 1 || role == "user", "{form:?}: {message}");
        }
    }
    assert!(waiting.is_empty(), "{form:?}: {waiting:?} never answered");
    assert!(conversation > 0);
}

const FORMS: [Form; 4] = [
    Form::OpenaiChat,
    Form::OpenaiResponses,
    Form::Anthropic,
    Form::AiSdk,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_out_is_legal(
        form in 0..4_usize,
        turns in 2..7_usize,
        calls in 0..4_usize,
        cut in prop::collection::vec(0..7_usize, 0..3),
        range in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        in_body in any::<bool>(),
        pretty in any::<bool>(),
    ) {
        let form = FORMS[form];
        // What the model says in pieces is one answer until a result comes: a call in the
        // last one is still waiting for its own.
        prop_assume!(form != Form::OpenaiResponses || calls != 1 || !cut.contains(&(turns - 1)));
        let messages = conversation(form, turns, calls, &cut);
        let key = if form == Form::OpenaiResponses { "input" } else { "messages" };
        let document = match in_body {
            true => json!({"model": "m", key: messages, "temperature": 0.5}),
            false => Value::from(messages.clone()),
        };
        let text = match pretty {
            true => serde_json::to_string_pretty(&document).unwrap(),
            false => document.to_string(),
        };
        let mut session = read_as(text.as_bytes(), form);
        // Whole turns, as a backend cuts: from one question to before another.
        let all = nodes(&session);
        let mut starts: Vec<usize> = (0..all.len()).filter(|at| all[*at].starts_with("user: Question")).collect();
        starts.push(all.len());
        let (a, b) = (range.0.index(starts.len() - 1), range.1.index(starts.len() - 1));
        let (first, last) = (starts[a.min(b)], starts[a.max(b) + 1] - 1);
        compact(&mut session, first, last, "SUMMARY");
        let after = written(&session, 0);
        let new: Value = serde_json::from_slice(&after).unwrap();
        let list = if in_body { &new[key] } else { &new };
        assert_legal(form, list.as_array().unwrap());
        if in_body {
            prop_assert_eq!(&new["model"], "m");
            prop_assert_eq!(&new["temperature"], 0.5);
        }
        // Kept messages are what they were.
        let kept = list.as_array().unwrap().iter().filter(|message| messages.contains(message)).count();
        let added = list.as_array().unwrap().len() - kept;
        let dead = cut.iter().collect::<std::collections::BTreeSet<_>>().len();
        prop_assert!(added <= 1 + dead, "{added} added");
        let again = read_as(&after, form);
        prop_assert_eq!(nodes(&again).iter().filter(|node| node.starts_with("checkpoint")).count(), 1);
    }
}

#[test]
fn each_interface_is_told_by_its_messages() {
    for form in FORMS {
        let messages = conversation(form, 2, 1, &[]);
        assert_eq!(
            read(Value::from(messages.clone()).to_string().as_bytes()).form(),
            form
        );
        let key = if form == Form::OpenaiResponses {
            "input"
        } else {
            "messages"
        };
        let body = json!({"model": "m", key: messages}).to_string();
        assert_eq!(read(body.as_bytes()).form(), form);
    }
}

#[test]
fn instructions_stay_whatever_goes_around_them() {
    let document = json!([
        {"role": "system", "content": "Rules."},
        {"role": "user", "content": "one"},
        {"role": "system", "content": "More rules."},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]);
    let mut session = read(document.to_string().as_bytes());
    compact(&mut session, 0, 1, "SUMMARY");
    let after: Value = serde_json::from_slice(&written(&session, 0)).unwrap();
    let texts: Vec<&str> = after
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        (texts[0], texts[2], texts[3]),
        ("Rules.", "More rules.", "three")
    );
    assert!(texts[1].contains("SUMMARY"));
}

#[test]
fn a_call_that_waits_for_its_result_is_left_waiting() {
    // The body of a loop that is running: its last calls are being run.
    let mut messages = conversation(Form::OpenaiChat, 3, 1, &[]);
    messages.push(json!({"role": "user", "content": "go"}));
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "open", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}));
    let mut session = read(Value::from(messages).to_string().as_bytes());
    compact(&mut session, 0, 3, "SUMMARY");
    let after: Value = serde_json::from_slice(&written(&session, 0)).unwrap();
    let last = after.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["tool_calls"][0]["id"], "open");
}

#[test]
fn a_message_of_a_role_that_nobody_knows_is_named() {
    let document =
        "[\n{\"role\":\"user\",\"content\":\"a\"},\n{\"role\":\"wizard\",\"content\":\"b\"}]";
    let options = harness_compact_formats::ReadOptions::default();
    let error = harness_compact_formats::Session::read(document.into(), options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3: message 2: its role is \"wizard\", which openai does not know"
    );
}

#[test]
fn an_array_goes_on_growing_before_and_after_a_compaction() {
    for form in FORMS {
        let messages = conversation(form, 6, 1, &[]);
        let mut session = read_as(b"[]", form);
        for message in &messages {
            assert!(!session.push(&message.to_string()).unwrap());
        }
        let texts: Vec<String> = messages.iter().map(Value::to_string).collect();
        assert_eq!(session.messages().unwrap(), texts, "{form:?}");
        let whole = Value::from(messages.clone()).to_string();
        assert_eq!(
            nodes(&session),
            nodes(&read_as(whole.as_bytes(), form)),
            "{form:?}"
        );
        let starts: Vec<usize> = nodes(&session)
            .iter()
            .enumerate()
            .filter(|(_, node)| node.starts_with("user: Question"))
            .map(|(at, _)| at)
            .collect();
        compact(&mut session, 0, starts[4] - 1, "SUMMARY");
        let compacted = session.messages().unwrap();
        assert!(
            compacted.len() < texts.len() && compacted.iter().any(|text| text.contains("SUMMARY"))
        );
        // The conversation goes on: the events are those of the shorter array.
        let question = conversation(form, 7, 1, &[]);
        let question = question
            .iter()
            .find(|message| message.to_string().contains("Question 6"))
            .unwrap();
        assert!(session.push(&question.to_string()).unwrap(), "{form:?}");
        assert!(!session.push(&question.to_string()).unwrap(), "{form:?}");
        let now = session.messages().unwrap();
        assert_eq!(now[..compacted.len()], compacted, "{form:?}");
        assert_eq!(now.len(), compacted.len() + 2, "{form:?}");
        assert!(
            nodes(&session)
                .iter()
                .any(|node| node.starts_with("checkpoint"))
        );
        // What is no message changes nothing.
        for wrong in ["{", "1", r#"{"role":"wizard"}"#] {
            assert!(session.push(wrong).is_err() || form == Form::OpenaiResponses);
        }
        assert_eq!(session.messages().unwrap(), now, "{form:?}");
    }
}
