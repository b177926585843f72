//! Documents that are not as their programs write them.

mod common;

use common::*;
use harness_compact_formats::{Form, ReadOptions, Session};
use proptest::prelude::*;

const LINES: [&str; 4] = [
    "claude-code.jsonl",
    "codex.jsonl",
    "gemini.jsonl",
    "pi.jsonl",
];

/// Documents of every form that is written in lines.
fn documents() -> Vec<(String, Vec<u8>)> {
    let mut documents: Vec<_> = LINES
        .iter()
        .map(|name| ((*name).to_owned(), made(name)))
        .collect();
    documents.push(("log".into(), log()));
    documents
}

fn with_line(bytes: &[u8], at: usize, line: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, each) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if index == at {
            out.extend_from_slice(line);
        }
        out.extend_from_slice(each);
    }
    out
}

fn skipping(bytes: &[u8]) -> Session {
    let options = ReadOptions {
        form: None,
        skip_damaged: true,
    };
    Session::read(bytes.to_vec(), options).expect("damaged lines are left out")
}

fn error(bytes: &[u8]) -> String {
    let read = Session::read(bytes.to_vec(), ReadOptions::default());
    read.expect_err("it is damaged").to_string()
}

fn remarks(session: &Session) -> Vec<String> {
    session.remarks().iter().map(ToString::to_string).collect()
}

#[test]
fn a_byte_order_mark_and_crlf_change_nothing() {
    for (name, bytes) in documents() {
        let expected = nodes(&read(&bytes));
        let text = String::from_utf8(bytes).unwrap();
        let document = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let session = read(document.as_bytes());
        assert_eq!(nodes(&session), expected, "{name}");
        assert!(session.remarks().is_empty(), "{name}");
    }
}

#[test]
fn nul_runs_are_left_out_wherever_they_stand() {
    for (name, bytes) in documents() {
        let expected = nodes(&read(&bytes));
        let nul = [0_u8; 300];
        // A line of its own, glued to the front and to the end of a whole line, at the end.
        let alone = with_line(&bytes, 2, &[&nul[..], b"\n"].concat());
        let front = with_line(&bytes, 2, &nul);
        let mut behind = bytes.clone();
        let second = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        behind.splice(second..second, nul);
        let end = [&bytes[..], &nul].concat();
        for (what, document, line) in [
            ("alone", alone, 3),
            ("front", front, 3),
            ("behind", behind, 1),
            ("end", end, bytes.split(|byte| *byte == b'\n').count()),
        ] {
            let session = read(&document);
            assert_eq!(nodes(&session), expected, "{name}, {what}");
            let told = format!("left out: line {line}, 300 NUL bytes");
            assert_eq!(remarks(&session), [told], "{name}, {what}");
        }
    }
}

#[test]
fn a_torn_last_line_is_left_out_and_stays_in_the_file() {
    for (name, bytes) in documents() {
        let lines = bytes.split(|byte| *byte == b'\n').count();
        let torn = [&bytes[..], br#"{"type":"user","uuid":"x","payl"#].concat();
        let mut session = read(&torn);
        assert_eq!(nodes(&session), nodes(&read(&bytes)), "{name}");
        let told = format!("left out: line {lines}, cut off after 31 bytes");
        assert_eq!(remarks(&session), [told], "{name}");
        // What is written begins a line of its own.
        compact(&mut session, 0, 2, "SUMMARY");
        let after = written(&session, 0);
        let again = read(&after);
        assert!(nodes(&again)[0].starts_with("checkpoint"), "{name}");
        if name == "log" {
            // Other readers of logs take nothing but events.
            assert!(after.starts_with(&bytes) && remarks(&again).is_empty());
        } else {
            assert!(after.starts_with(&torn), "{name}");
            assert_eq!(remarks(&again).len(), 1, "{name}");
        }
    }
}

#[test]
fn two_lines_glued_together_are_two_records() {
    for (name, bytes) in documents() {
        let expected = nodes(&read(&bytes));
        let mut glued = bytes.clone();
        // Not the first: a header belongs alone.
        let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
        glued.remove(ends[3]);
        let session = read(&glued);
        assert_eq!(nodes(&session), expected, "{name}");
        assert_eq!(
            remarks(&session),
            ["line 4: 2 records in one line"],
            "{name}"
        );
    }
}

#[test]
fn a_line_that_cannot_be_read_is_named_and_can_be_left_out() {
    for (name, bytes) in documents() {
        let expected = nodes(&read(&bytes));
        for (damage, why) in [
            (&b"{\"type\":\"user\",\n"[..], "EOF while parsing"),
            (b"not json\n", "expected ident"),
            (b"[1]\n", "not a JSON object"),
            (b"{\"type\":\"\xff\"}\n", "not UTF-8 from byte 10 on"),
            (b"{\"a\":1}}\n", "trailing characters"),
        ] {
            let document = with_line(&bytes, 3, damage);
            let told = error(&document);
            assert!(
                told.starts_with("line 4: ") && told.contains(why),
                "{name}: {told}"
            );
            let session = skipping(&document);
            assert_eq!(nodes(&session), expected, "{name}");
            let remark = &remarks(&session)[0];
            assert!(remark.starts_with("left out: line 4, "), "{remark}");
            // It stays in the file.
            assert_eq!(session.bytes(), document);
        }
    }
}

#[test]
fn lines_of_another_program_are_named() {
    let documents = documents();
    for (name, bytes) in &documents {
        for (other, foreign) in &documents {
            if name == other {
                continue;
            }
            let form = read(foreign).form();
            // A line by which the other form is told.
            let line = foreign
                .split_inclusive(|byte| *byte == b'\n')
                .find(|line| {
                    let alone = Session::read(line.to_vec(), ReadOptions::default());
                    alone.is_ok_and(|session| session.form() == form)
                })
                .expect("it has one");
            let document = with_line(bytes, 4, line);
            let told = error(&document);
            assert!(
                told.contains(&format!("a line of form {}", form.name())),
                "{name} with a line of {other}: {told}"
            );
            assert_eq!(
                nodes(&skipping(&document)),
                nodes(&read(bytes)),
                "{name} {other}"
            );
        }
    }
}

#[test]
fn records_of_unknown_types_stay_where_they_are() {
    for (name, bytes) in documents() {
        let line: &[u8] = match name.as_str() {
            "pi.jsonl" => b"{\"type\":\"of_tomorrow\",\"timestamp\":\"t\"}\n",
            "log" => continue, // Every event has its seq.
            _ => b"{\"type\":\"of-tomorrow\",\"value\":[1]}\n",
        };
        // pi's tree is told by its last line, and by ids.
        let document = with_line(&bytes, 2, line);
        let mut session = read(&document);
        assert_eq!(nodes(&session), nodes(&read(&bytes)), "{name}");
        assert!(session.remarks().is_empty(), "{name}");
        compact(&mut session, 0, 2, "SUMMARY");
        assert!(written(&session, 0).starts_with(&document), "{name}");
    }
}

#[test]
fn missing_and_cyclic_parents_and_ids_that_come_twice_end() {
    let pi = |id: &str, parent: &str, text: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":\"{parent}\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let header = "{\"type\":\"session\",\"id\":\"s\",\"timestamp\":\"t\"}\n";
    let cyclic = [header, &pi("a", "b", "one"), &pi("b", "a", "two")].concat();
    assert_eq!(nodes(&read(cyclic.as_bytes())), ["user: one", "user: two"]);
    let missing = [header, &pi("a", "x", "one"), &pi("b", "nowhere", "two")].concat();
    assert_eq!(nodes(&read(missing.as_bytes())), ["user: two"]);
    let twice = [
        header,
        &pi("a", "x", "one"),
        &pi("a", "x", "two"),
        &pi("b", "a", "three"),
    ]
    .concat();
    assert_eq!(nodes(&read(twice.as_bytes())), ["user: two", "user: three"]);

    let claude = |uuid: &str, parent: &str, text: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"parentUuid\":\"{parent}\",\"sessionId\":\"s\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let cyclic = [claude("a", "b", "one"), claude("b", "a", "two")].concat();
    assert_eq!(nodes(&read(cyclic.as_bytes())), ["user: one", "user: two"]);
    // A boundary that names itself.
    let boundary = "{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"x\",\"parentUuid\":null,\"logicalParentUuid\":\"x\",\"sessionId\":\"s\",\"compactMetadata\":{\"preservedSegment\":{\"headUuid\":\"x\",\"anchorUuid\":\"x\",\"tailUuid\":\"x\"}}}\n";
    let document = [
        claude("a", "none", "one").as_str(),
        boundary,
        &claude("c", "x", "two"),
    ]
    .concat();
    assert_eq!(nodes(&read(document.as_bytes())), ["user: two"]);
}

#[test]
fn what_is_nested_deep_and_what_is_long_is_read() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let codex = format!(
        "{{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":{{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\",\"arguments\":{deep}}}}}\n"
    );
    let session = read(codex.as_bytes());
    assert_eq!(nodes(&session), ["assistant: call c n"]);
    let long = "x".repeat(20_000_000);
    let gemini = format!(
        "{{\"sessionId\":\"s\",\"projectHash\":\"h\"}}\n{{\"id\":\"1\",\"type\":\"user\",\"content\":\"{long}\"}}\n"
    );
    assert_eq!(read(gemini.as_bytes()).surface().len(), 1);
    let anthropic = format!(r#"[{{"role":"user","content":[{{"type":"new","value":{deep}}}]}}]"#);
    assert_eq!(
        nodes(&read_as(anthropic.as_bytes(), Form::Anthropic)),
        ["user: [new]"]
    );
}

#[test]
fn lone_surrogates_and_line_separators_are_text() {
    let document = "{\"sessionId\":\"s\",\"projectHash\":\"h\"}\n{\"id\":\"1\",\"type\":\"user\",\"content\":\"a\\ud83d b\u{2028}c\"}\n";
    let mut session = read(document.as_bytes());
    assert_eq!(nodes(&session), ["user: a\u{fffd} b\u{2028}c"]);
    compact(&mut session, 0, 0, "SUMMARY");
    let document = document.replace("}\n", "}\r\n");
    assert_eq!(
        nodes(&read(document.as_bytes())),
        ["user: a\u{fffd} b\u{2028}c"]
    );
    assert!(written(&session, 0).starts_with(b"{\"sessionId\""));
}

#[test]
fn calls_without_results_and_results_without_calls_are_read() {
    let document = r#"[{"role":"user","content":"a"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"n","arguments":"{}"}}]},
        {"role":"user","content":"b"},
        {"role":"tool","tool_call_id":"c9","content":"orphan"}]"#;
    let session = read(document.as_bytes());
    assert_eq!(
        nodes(&session),
        [
            "user: a",
            "assistant: call c1 n",
            "user: b",
            "result c9: orphan"
        ]
    );
}

/// Whatever comes, reading ends, and what is read can be looked at and written.
fn survives(bytes: &[u8], form: Option<Form>) {
    for skip_damaged in [false, true] {
        let options = ReadOptions { form, skip_damaged };
        let Ok(mut session) = Session::read(bytes.to_vec(), options) else {
            continue;
        };
        let head = session.head();
        assert!(head as usize <= 20 * (bytes.len() + 2), "in proportion");
        let events = session.events(0, head).expect("what was read can be read");
        assert_eq!(events.len(), head as usize);
        let count = session.surface().len();
        if count > 1 {
            compact(&mut session, 0, count / 2, "SUMMARY");
            if let Ok(Some(write)) = session.write(&mut stamp(1), Default::default()) {
                let after = apply(bytes, write);
                let options = ReadOptions {
                    form: Some(session.form()),
                    skip_damaged: true,
                };
                let again = Session::read(after, options).expect("what was written can be read");
                let texts = format!("{:?}", again.events(0, again.head()).unwrap());
                assert!(texts.contains("SUMMARY"), "{:?}", session.form());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), form in 0..11_usize) {
        survives(&bytes, Form::ALL.get(form).copied());
    }

    /// A program's own session with pieces cut out, doubled, swapped and overwritten.
    #[test]
    fn mutilated_sessions(
        which in 0..6_usize,
        form in prop::option::weighted(0.1, 0..10_usize),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..6_u8, any::<u8>()), 1..5),
    ) {
        let bytes = match which {
            5 => log(),
            which => shortened(&made(MADE[which])),
        };
        let mut bytes = bytes;
        for (a, b, what, byte) in cuts {
            if bytes.is_empty() {
                break;
            }
            let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
            let (a, b) = (a.min(b), a.max(b));
            match what {
                0 => { bytes.drain(a..b); }
                1 => { let piece = bytes[a..b].to_vec(); bytes.splice(a..a, piece); }
                2 => bytes[a] = byte,
                3 => { bytes.splice(a..a, vec![0; usize::from(byte)]); }
                4 => bytes.truncate(b),
                _ => {
                    // Lines change places.
                    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                    let count = lines.len();
                    lines.swap(a % count, b % count);
                    bytes = lines.concat();
                }
            }
        }
        survives(&bytes, form.map(|form| Form::ALL[form]));
    }
}

/// The same session with its long texts cut: what is mutilated is then its structure.
fn shortened(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let mut out = String::new();
    let mut run = 0;
    for word in text.split_inclusive(' ') {
        let filler = word.starts_with("asked-") || word.starts_with("said-");
        run = if filler { run + 1 } else { 0 };
        if run < 3 || word.contains('"') {
            out.push_str(word);
        }
    }
    out.into_bytes()
}
