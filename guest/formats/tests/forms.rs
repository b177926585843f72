//! Each form: what a document of it says, and what is written to it.

mod common;

use common::*;
use harness_compact_engine::{Payload, Usage};
use harness_compact_formats::{Form, ReadOptions, Session};

/// The surface of a session of six turns, two with a tool call, as every program sends
/// it: see `tools/resume_trial.py`, which made them.
fn turns(nodes: &[String]) -> Vec<String> {
    nodes
        .iter()
        .filter(|node| !node.starts_with("context"))
        .map(|node| {
            let node = node.replace("user: \"TURN", "user: TURN");
            match node.split_once(' ') {
                Some(("user:", said)) => format!("user {}", said.split(' ').next().unwrap()),
                Some(("assistant:", said)) if said.starts_with("call") => "call".into(),
                Some(("assistant:", said)) => {
                    format!("said {}", said.split(' ').next().unwrap())
                }
                Some(("result", _)) => "result".into(),
                _ => node,
            }
        })
        .collect()
}

#[test]
fn a_session_of_each_program_is_what_it_sends() {
    for name in MADE {
        let session = read(&made(name));
        let form = name.split('.').next().unwrap();
        assert_eq!(session.form().name(), form);
        let mut expected = Vec::new();
        for turn in 1..=6 {
            expected.push(format!("user TURN-{turn}"));
            if matches!(turn, 2 | 5) {
                expected.extend(["call".into(), "result".into()]);
                // Gemini CLI sends the result again with every resumption.
                if form == "gemini" {
                    expected.push("result".into());
                }
                expected.push("said Understood.".into());
            } else {
                expected.push(format!("said ANSWER-{turn}"));
            }
        }
        assert_eq!(turns(&nodes(&session)), expected, "{name}");
        // Every node comes from records of the document's own.
        for seq in session.surface() {
            let records = session.records(*seq);
            assert!(!records.is_empty());
            let text = String::from_utf8(session.bytes().to_vec()).unwrap();
            assert!(records.iter().all(|record| text.contains(record)));
        }
    }
}

/// More of the same program's lines: what it would write after resuming the session.
fn go_on(form: Form, bytes: &[u8], turn: usize) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let last = || -> serde_json::Value {
        serde_json::from_str(text.lines().next_back().unwrap()).unwrap()
    };
    let words = format!("TURN-{turn} {}", "more ".repeat(300));
    let lines = match form {
        Form::Pi => {
            let parent = last()["id"].clone();
            vec![
                serde_json::json!({"type":"message","id":format!("u{turn}"),"parentId":parent,"timestamp":"2026-12-07T00:00:00.000Z","message":{"role":"user","content":[{"type":"text","text":words}]}}),
                serde_json::json!({"type":"message","id":format!("a{turn}"),"parentId":format!("u{turn}"),"timestamp":"2026-12-07T00:00:00.000Z","message":{"role":"assistant","content":[{"type":"text","text":format!("ANSWER-{turn}")}],"usage":{"input":500,"output":5,"cacheRead":0,"cacheWrite":0},"stopReason":"stop"}}),
            ]
        }
        Form::ClaudeCode => {
            // The program hangs new lines where the kept segment ends.
            let session = read(bytes);
            let tail = *session.surface().last().unwrap();
            let tail = session.records(tail).last().unwrap().to_string();
            let tail: serde_json::Value = serde_json::from_str(&tail).unwrap();
            let line = |kind: &str,
                        uuid: String,
                        parent: serde_json::Value,
                        message: serde_json::Value| {
                serde_json::json!({"type":kind,"uuid":uuid,"parentUuid":parent,"isSidechain":false,"sessionId":"s","cwd":"/x","version":"2","message":message})
            };
            vec![
                line(
                    "user",
                    format!("u{turn}"),
                    tail["uuid"].clone(),
                    serde_json::json!({"role":"user","content":words}),
                ),
                line(
                    "assistant",
                    format!("a{turn}"),
                    format!("u{turn}").into(),
                    serde_json::json!({"role":"assistant","id":format!("m{turn}"),"model":"claude","content":[{"type":"text","text":format!("ANSWER-{turn}")}],"usage":{"input_tokens":500,"output_tokens":5}}),
                ),
            ]
        }
        Form::Codex => {
            let ordinal = last()["ordinal"].as_u64().unwrap();
            let line = |at: u64, role: &str, kind: &str, text: &str| serde_json::json!({"timestamp":"2026-12-07T00:00:00.000Z","ordinal":ordinal + at,"type":"response_item","payload":{"type":"message","role":role,"content":[{"type":kind,"text":text}]}});
            vec![
                line(1, "user", "input_text", &words),
                line(2, "assistant", "output_text", &format!("ANSWER-{turn}")),
            ]
        }
        Form::Gemini => vec![
            serde_json::json!({"id":format!("u{turn}"),"timestamp":"2026-12-07T00:00:00.000Z","type":"user","content":[{"text":words}]}),
            serde_json::json!({"id":format!("a{turn}"),"timestamp":"2026-12-07T00:00:00.000Z","type":"gemini","content":format!("ANSWER-{turn}"),"tokens":{"input":500,"output":5,"cached":0}}),
        ],
        Form::Log => {
            let seq = last()["seq"].as_u64().unwrap();
            vec![
                serde_json::json!({"type":"user/message","seq":seq + 1,"time":1,"data":{"content":words},"surfaceOp":"append"}),
                serde_json::json!({"type":"assistant/message","seq":seq + 2,"time":1,"data":{"message":{"content":format!("ANSWER-{turn}")}},"surfaceOp":"append"}),
            ]
        }
        Form::Opencode => {
            let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
            let messages = document["messages"].as_array_mut().unwrap();
            messages.push(serde_json::json!({"info":{"role":"user","id":format!("msg_ffff{turn:08x}00000000000000"),"sessionID":"s","time":{"created":1}},"parts":[{"type":"text","text":words,"id":format!("prt_ffff{turn:08x}00000000000000")}]}));
            messages.push(serde_json::json!({"info":{"role":"assistant","id":format!("msg_ffff{:08x}00000000000000", turn + 100),"sessionID":"s","time":{"created":2},"finish":"stop"},"parts":[{"type":"text","text":format!("ANSWER-{turn}"),"id":format!("prt_ffff{:08x}00000000000000", turn + 100)}]}));
            return serde_json::to_string_pretty(&document)
                .unwrap()
                .into_bytes();
        }
        _ => unreachable!("not a program's"),
    };
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    [bytes, lines.as_bytes()].concat()
}

#[test]
fn three_compactions_with_new_lines_between_keep_every_line_and_one_checkpoint() {
    let documents = MADE.iter().map(|name| made(name)).chain([log()]);
    for mut bytes in documents {
        let form = read(&bytes).form();
        for round in 0..3_u8 {
            let mut session = read(&bytes);
            // All but the last two nodes: the newest question and answer.
            let last = session.surface().len() - 3;
            let kept = nodes(&session)[last + 1..].to_vec();
            compact(&mut session, 0, last, &format!("SUMMARY-{round}"));
            let after = written(&session, round);
            if form.is_one_value() {
                let old: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                let new: serde_json::Value = serde_json::from_slice(&after).unwrap();
                let count = old["messages"].as_array().unwrap().len();
                assert_eq!(
                    new["messages"].as_array().unwrap()[..count],
                    *old["messages"].as_array().unwrap()
                );
                assert_eq!(new["info"], old["info"]);
            } else {
                assert!(after.starts_with(&bytes), "{form:?}");
            }
            // The same time and the same random bytes give the same record.
            assert_eq!(written(&session, round), after);
            let again = read(&after);
            let surface = nodes(&again);
            let texts: Vec<String> = again
                .surface()
                .iter()
                .map(|seq| format!("{:?}", event(&again, *seq)))
                .collect();
            assert!(surface[0].starts_with("checkpoint"), "{form:?} {surface:?}");
            assert!(texts[0].contains(&format!("SUMMARY-{round}")), "{form:?}");
            assert_eq!(
                texts
                    .iter()
                    .filter(|text| text.contains("SUMMARY-"))
                    .count(),
                1,
                "{form:?}"
            );
            assert_eq!(surface[1..], kept, "{form:?}");
            assert!(again.remarks().is_empty());
            // Taken back it is what it was, to the byte.
            let undone = apply(&after, again.undo().expect("it is the last thing"));
            assert_eq!(undone, bytes, "{form:?}");
            bytes = go_on(form, &after, 7 + usize::from(round));
            let gone_on = read(&bytes);
            assert_eq!(gone_on.surface().len(), surface.len() + 2, "{form:?}");
            assert!(gone_on.undo().is_err(), "{form:?}: it has gone on since");
        }
    }
}

#[test]
fn what_was_counted_before_a_compaction_is_not_taken_for_what_comes_after_it() {
    for name in [
        "claude-code.jsonl",
        "codex.jsonl",
        "opencode.json",
        "pi.jsonl",
    ] {
        let bytes = made(name);
        let mut session = read(&bytes);
        let counted = |session: &Session| -> Vec<Usage> {
            let usages =
                session
                    .surface()
                    .iter()
                    .filter_map(|seq| match event(session, *seq).payload {
                        Payload::AssistantMessage(message) => message.usage,
                        _ => None,
                    });
            usages.collect()
        };
        assert!(counted(&session).len() >= 6, "{name}");
        let last = session.surface().len() - 3;
        compact(&mut session, 0, last, "SUMMARY");
        assert_eq!(counted(&read(&written(&session, 0))), [], "{name}");
    }
}

#[test]
fn a_document_that_grew_meanwhile_keeps_what_came() {
    for bytes in MADE.iter().map(|name| made(name)).chain([log()]) {
        let mut session = read(&bytes);
        let form = session.form();
        compact(&mut session, 0, 4, "SUMMARY");
        let grown = go_on(form, &bytes, 7);
        let rebased = session.rebased(grown.clone());
        if form.is_one_value() {
            assert!(rebased.is_none(), "a JSON document is not appended to");
            continue;
        }
        let rebased = rebased.unwrap_or_else(|| panic!("{form:?} is appended to"));
        let after = written(&rebased, 0);
        assert!(after.starts_with(&grown), "{form:?}");
        let surface = nodes(&read(&after));
        assert!(surface[0].starts_with("checkpoint"), "{form:?}");
        assert!(
            surface.last().unwrap().contains("ANSWER-7"),
            "{form:?} {surface:?}"
        );
        // Another's compaction of the same range leaves nothing to replace.
        let mut other = read(&bytes);
        compact(&mut other, 0, 6, "OTHER");
        assert!(session.rebased(written(&other, 1)).is_none(), "{form:?}");
        // And another file is another file.
        assert!(session.rebased(bytes[..bytes.len() / 2].to_vec()).is_none());
    }
}

#[test]
fn a_range_in_the_middle_is_written_where_the_form_can_say_it() {
    for bytes in MADE.iter().map(|name| made(name)).chain([log()]) {
        let mut session = read(&bytes);
        let form = session.form();
        let all = nodes(&session);
        // Between two whole turns.
        let first = all.iter().position(|node| node.contains("TURN-3")).unwrap();
        let last = all.iter().position(|node| node.contains("TURN-4")).unwrap() - 1;
        compact(&mut session, first, last, "SUMMARY");
        let write = session.write(&mut stamp(0), Default::default());
        match form {
            Form::Codex | Form::Gemini | Form::Log => {
                let after = apply(&bytes, write.unwrap().unwrap());
                let surface = nodes(&read(&after));
                assert_eq!(surface[..first], all[..first], "{form:?}");
                assert!(surface[first].starts_with("checkpoint"), "{form:?}");
                assert_eq!(surface[first + 1..], all[last + 1..], "{form:?}");
            }
            _ => {
                let why = write.unwrap_err().to_string();
                assert!(why.contains("must begin with its first node"), "{why}");
            }
        }
    }
}

#[test]
fn later_logs_are_written_with_their_own_names() {
    let mut bytes = String::from_utf8(log()).unwrap();
    let seq = bytes.lines().count() - 1;
    bytes.push_str(&format!(
        "{{\"type\":\"compaction/start\",\"seq\":{seq},\"time\":1,\"data\":{{}}}}\n\
         {{\"type\":\"compaction/end\",\"seq\":{},\"time\":1,\"data\":{{\"error\":\"e\"}}}}\n",
        seq + 1
    ));
    let mut session = read(bytes.as_bytes());
    compact(&mut session, 0, 2, "SUMMARY");
    let after = String::from_utf8(written(&session, 0)).unwrap();
    let new = after.strip_prefix(&bytes).unwrap();
    assert!(new.contains("\"compaction/start\"") && new.contains("\"compaction/summary\""));
    assert!(!new.contains("\"compact/"));
}

#[test]
fn pi_branches_edits_and_its_first_versions() {
    let line = |id: &str, parent: &str, rest: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:00Z\",{rest}}}\n"
        )
    };
    let user = |text: &str| format!("\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}");
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"cwd\":\"/w\"}\n";
    let document = [
        header.to_owned(),
        line("a", "null", &user("one")),
        line("b", "\"a\"", &user("left")),
        line("c", "\"a\"", &user("taken")),
        "{\"type\":\"context_edit\",\"id\":\"e\",\"parentId\":\"c\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"targetId\":\"a\",\"replacement\":{\"content\":\"edited\"}}\n".into(),
        line("d", "\"e\"", "\"message\":{\"role\":\"system\",\"content\":\"prompt\"}"),
        "{\"type\":\"branch_summary\",\"id\":\"f\",\"parentId\":\"d\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"fromId\":\"b\",\"summary\":\"was left\"}\n".into(),
    ]
    .concat();
    let session = read(document.as_bytes());
    assert_eq!(
        nodes(&session),
        [
            "user: edited",
            "user: taken",
            "context: Summary of a branch that was left: was left"
        ]
    );
    assert_eq!((session.id(), session.cwd()), (Some("s"), Some("/w")));

    // Version 1: no ids, and what is kept by its index from the header on.
    let old = |rest: &str| {
        format!("{{\"type\":\"message\",\"timestamp\":\"2025-01-01T00:00:00Z\",{rest}}}\n")
    };
    let document = [
        "{\"type\":\"session\",\"id\":\"s\",\"timestamp\":\"2025-01-01T00:00:00Z\",\"cwd\":\"/w\"}\n".into(),
        old(&user("one")),
        old(&user("two")),
        "{\"type\":\"compaction\",\"timestamp\":\"2025-01-01T00:00:00Z\",\"summary\":\"S\",\"firstKeptEntryIndex\":2,\"tokensBefore\":9}\n".into(),
        old(&user("three")),
    ]
    .concat();
    let mut session = read(document.as_bytes());
    let surface = nodes(&session);
    assert!(surface[0].starts_with("checkpoint: Earlier history"));
    assert_eq!(surface[1..], ["user: two", "user: three"]);
    compact(&mut session, 0, 1, "SUMMARY");
    let after = written(&session, 0);
    let record = String::from_utf8(after.clone()).unwrap();
    let record: serde_json::Value = serde_json::from_str(record.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&record["firstKeptEntryIndex"], &record["id"]),
        (&4.into(), &serde_json::Value::Null)
    );
    assert_eq!(nodes(&read(&after))[1..], ["user: three"]);
}

#[test]
fn claude_code_rewinds_side_chains_and_calls_side_by_side() {
    let line = |kind: &str, uuid: &str, parent: &str, rest: &str| {
        let parent = if parent.is_empty() {
            "null".into()
        } else {
            format!("\"{parent}\"")
        };
        format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"sessionId\":\"s\",\"isSidechain\":false,{rest}}}\n"
        )
    };
    let said = |text: &str| format!("\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}");
    let call = |id: &str| {
        format!(
            "\"message\":{{\"id\":\"m\",\"role\":\"assistant\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"Bash\",\"input\":{{}}}}],\"usage\":{{\"input_tokens\":7,\"output_tokens\":3}}}}"
        )
    };
    let answer = |id: &str| {
        format!(
            "\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"{id}\",\"content\":\"out {id}\"}}]}}"
        )
    };
    let document = [
        "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"z\"}\n".into(),
        line("user", "u1", "", &said("one")),
        line("user", "left", "u1", &said("left")),
        line("user", "u2", "u1", &said("two")),
        // One answer in two lines, its calls run side by side: the first result hangs
        // beside the chain.
        line("assistant", "a1", "u2", &call("c1")),
        line("assistant", "a2", "a1", &call("c2")),
        line("user", "r1", "a1", &answer("c1")),
        line("user", "r2", "a2", &answer("c2")),
        line("user", "side", "r2", "\"message\":{\"role\":\"user\",\"content\":\"side\"}").replace("\"isSidechain\":false", "\"isSidechain\":true"),
        line("assistant", "e", "r2", "\"isApiErrorMessage\":true,\"message\":{\"id\":\"x\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"API Error\"}]}"),
        line("user", "u3", "e", &said("three")),
        line("system", "h", "u3", "\"subtype\":\"turn_duration\""),
    ]
    .concat();
    let session = read(document.as_bytes());
    assert_eq!(
        nodes(&session),
        [
            "user: one",
            "user: two",
            "assistant: call c1 Bash + call c2 Bash",
            "result c1: out c1",
            "result c2: out c2",
            "user: three"
        ]
    );
}

#[test]
fn codex_without_ordinals_rollbacks_and_the_bare_items_of_its_first_files() {
    let item = |payload: &str| {
        format!(
            "{{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"response_item\",\"payload\":{payload}}}\n"
        )
    };
    let said = |role: &str, text: &str| {
        format!(
            "{{\"type\":\"message\",\"role\":\"{role}\",\"content\":[{{\"type\":\"input_text\",\"text\":\"{text}\"}}]}}"
        )
    };
    let document = [
        "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"s\",\"cwd\":\"/w\",\"model_provider\":\"p\"}}\n".into(),
        item(&said("developer", "rules")),
        item(&said("user", "<environment_context>here</environment_context>")),
        item(&said("user", "one")),
        item("{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"why\"}],\"encrypted_content\":\"AAAA\"}"),
        item("{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"apply_patch\",\"input\":\"p\"}"),
        item("{\"type\":\"custom_tool_call_output\",\"call_id\":\"c\",\"output\":\"done\"}"),
        item(&said("user", "two")),
        item(&said("assistant", "answer to two")),
        "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"event_msg\",\"payload\":{\"type\":\"thread_rolled_back\",\"num_turns\":1}}\n".into(),
        item(&said("user", "three")),
    ]
    .concat();
    let mut session = read(document.as_bytes());
    let expected = [
        "user: one",
        "assistant: (why) + [encrypted_reasoning] + call c apply_patch",
        "result c: done",
        "user: three",
    ];
    assert_eq!(nodes(&session), expected);
    compact(&mut session, 0, 2, "SUMMARY");
    let after = written(&session, 0);
    let record = String::from_utf8(after.clone()).unwrap();
    let record: serde_json::Value = serde_json::from_str(record.lines().last().unwrap()).unwrap();
    assert!(record.get("ordinal").is_none());
    // What the program puts there by itself is neither replaced nor repeated.
    let history = record["payload"]["replacement_history"].as_array().unwrap();
    assert_eq!(history.len(), 2, "{history:?}");

    let bare = [
        "{\"id\":\"s\",\"timestamp\":\"2025-05-01T00:00:00Z\",\"instructions\":null}\n".to_owned(),
        format!("{}\n", said("user", "one")),
        "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"shell\",\"arguments\":\"{}\"}\n"
            .into(),
        "{\"record_type\":\"state\"}\n".into(),
        "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"ok\"}\n".into(),
    ]
    .concat();
    let session = read(bare.as_bytes());
    assert_eq!((session.form(), session.id()), (Form::Codex, Some("s")));
    assert_eq!(
        nodes(&session),
        ["user: one", "assistant: call c shell", "result c: ok"]
    );

    // What only the provider can read stays, before every checkpoint.
    let sealed = format!(
        "{document}{{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"compacted\",\"payload\":{{\"message\":\"\",\"replacement_history\":[{{\"type\":\"compaction\",\"encrypted_content\":\"AAAA\"}},{},{}]}}}}\n",
        said("user", "four"),
        said("user", "five"),
    );
    let mut session = read(sealed.as_bytes());
    assert_eq!(nodes(&session), ["user: four", "user: five"]);
    compact(&mut session, 0, 0, "SUMMARY");
    let after = written(&session, 0);
    let record = String::from_utf8(after.clone()).unwrap();
    let record: serde_json::Value = serde_json::from_str(record.lines().last().unwrap()).unwrap();
    let history = &record["payload"]["replacement_history"];
    assert_eq!(history[0]["type"], "compaction");
    assert!(history[1].to_string().contains("SUMMARY"));
    assert_eq!(nodes(&read(&after))[1..], ["user: five"]);

    // Earlier compactions do not say what they keep: what the user said.
    let earlier = format!(
        "{document}{{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"compacted\",\"payload\":{{\"message\":\"S\"}}}}\n"
    );
    let surface = nodes(&read(earlier.as_bytes()));
    assert_eq!(surface[..2], ["user: one", "user: three"]);
    assert!(surface[2].starts_with("checkpoint"));
}

#[test]
fn gemini_patches_rewinds_and_its_earlier_files() {
    let document = [
        "{\"sessionId\":\"s\",\"projectHash\":\"h\",\"startTime\":\"t\",\"lastUpdated\":\"t\",\"kind\":\"main\"}\n",
        "{\"id\":\"1\",\"type\":\"user\",\"content\":[{\"text\":\"one\"}]}\n",
        "{\"id\":\"2\",\"type\":\"gemini\",\"content\":\"\",\"toolCalls\":[{\"id\":\"c\",\"name\":\"ls\",\"args\":{}}]}\n",
        "{\"id\":\"2\",\"type\":\"gemini\",\"content\":\"\",\"toolCalls\":[{\"id\":\"c\",\"name\":\"ls\",\"args\":{},\"status\":\"success\",\"result\":[{\"functionResponse\":{\"id\":\"c\",\"name\":\"ls\",\"response\":{\"output\":\"out\"}}}]}]}\n",
        "{\"id\":\"3\",\"type\":\"info\",\"content\":\"for the screen\"}\n",
        "{\"id\":\"4\",\"type\":\"user\",\"content\":\"/help\"}\n",
        "{\"id\":\"5\",\"type\":\"user\",\"content\":\"left\"}\n",
        "{\"$rewindTo\":\"5\"}\n",
        "{\"$set\":{\"summary\":\"x\"}}\n",
        "{\"id\":\"6\",\"type\":\"user\",\"content\":\"two\"}\n",
    ]
    .concat();
    let expected = [
        "user: one",
        "assistant: call c ls",
        "result c: out",
        "user: two",
    ];
    assert_eq!(nodes(&read(document.as_bytes())), expected);

    let legacy = "{\n  \"sessionId\": \"s\",\n  \"projectHash\": \"h\",\n  \"messages\": [\n    {\"id\":\"1\",\"type\":\"user\",\"content\":\"one\"},\n    {\"id\":\"2\",\"type\":\"gemini\",\"content\":\"answer\"},\n    {\"id\":\"3\",\"type\":\"user\",\"content\":\"two\"}\n  ],\n  \"summary\": \"kept\"\n}\n";
    let mut session = read(legacy.as_bytes());
    assert_eq!(session.form(), Form::Gemini);
    assert_eq!(
        nodes(&session),
        ["user: one", "assistant: answer", "user: two"]
    );
    compact(&mut session, 0, 1, "SUMMARY");
    let after = String::from_utf8(written(&session, 0)).unwrap();
    assert!(after.ends_with("\n    {\"id\":\"3\",\"type\":\"user\",\"content\":\"two\"}\n  ],\n  \"summary\": \"kept\"\n}\n"), "{after}");
    assert!(nodes(&read(after.as_bytes()))[0].starts_with("checkpoint"));
}

#[test]
fn opencode_tails_reverts_and_cleared_outputs() {
    let message = |id: &str, role: &str, more: &str, parts: &str| {
        format!("{{\"info\":{{\"id\":\"{id}\",\"role\":\"{role}\"{more}}},\"parts\":[{parts}]}}")
    };
    let text = |text: &str| {
        format!(
            "{{\"type\":\"text\",\"text\":\"{text}\",\"id\":\"prt_0000000000010000000000000x\"}}"
        )
    };
    let tool = "{\"type\":\"tool\",\"tool\":\"bash\",\"callID\":\"c\",\"state\":{\"status\":\"completed\",\"input\":{},\"output\":\"long\",\"time\":{\"compacted\":1}}}";
    let running = "{\"type\":\"tool\",\"tool\":\"bash\",\"callID\":\"d\",\"state\":{\"status\":\"running\",\"input\":{}}}";
    let messages = [
        message("m1", "user", "", &text("gone")),
        message("m2", "user", "", &text("kept")),
        message("m3", "assistant", "", &format!("{tool},{running}")),
        message(
            "m4",
            "user",
            "",
            "{\"type\":\"compaction\",\"auto\":false,\"tail_start_id\":\"m2\"}",
        ),
        message(
            "m5",
            "assistant",
            ",\"summary\":true,\"finish\":\"stop\",\"parentID\":\"m4\"",
            &text("S"),
        ),
        message("m6", "user", "", &text("after")),
        message("m7", "user", "", &text("taken back")),
    ]
    .join(",");
    let document = format!(
        "{{\"info\":{{\"id\":\"ses\",\"directory\":\"/w\",\"revert\":{{\"messageID\":\"m7\"}}}},\"messages\":[{messages}]}}"
    );
    let session = read(document.as_bytes());
    let surface = nodes(&session);
    assert!(surface[0].starts_with("checkpoint"));
    assert_eq!(
        surface[1..],
        [
            "user: kept",
            "assistant: call c bash + call d bash",
            "result c: [Old tool result content cleared]",
            "result d: [Tool execution was interrupted]",
            "user: after"
        ]
    );
}

#[test]
fn pictures_and_documents_are_told_by_their_size() {
    let data = "A".repeat(4000);
    let documents = [
        format!(
            r#"[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}]}}]"#
        ),
        format!(
            r#"[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}]}}]"#
        ),
        format!(
            r#"{{"input":[{{"role":"user","content":[{{"type":"input_image","image_url":"data:image/png;base64,{data}"}}]}}]}}"#
        ),
        format!(
            r#"[{{"role":"user","content":[{{"type":"file","mediaType":"image/png","data":"{data}"}}]}}]"#
        ),
    ];
    for document in documents {
        assert_eq!(
            nodes(&read(document.as_bytes())),
            ["user: image/png 3000"],
            "{document:.60}"
        );
    }
}

#[test]
fn what_cannot_be_told_apart_is_named() {
    let options = ReadOptions::default();
    for (document, expected) in [
        ("", "empty: no session"),
        (" \n\u{0}\u{0}\n", "empty: no session"),
        ("hello\nthere", "its first line is `hello`"),
        ("{\"a\":1}\n", "its first line is `{\"a\":1}`"),
        ("[]", "its first line is `[]`"),
        ("[1,2]", "its first line is `[1,2]`"),
    ] {
        let error = Session::read(document.into(), options)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{document}: {error}");
    }
    let error = Session::read(b"{\"a\":1}".to_vec(), options)
        .unwrap_err()
        .to_string();
    assert!(
        Form::names().iter().all(|name| error.contains(name)),
        "{error}"
    );
}
