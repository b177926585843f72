//! The command, run as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/data/sample-session.jsonl"
);
const PI_SESSION: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../shared/corpus/pi-before-compaction.jsonl"
);

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness-compact"));
    command
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A copy of the sample in a folder of its own.
fn sample() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session.jsonl");
    fs::copy(SAMPLE, &session).unwrap();
    (folder, session)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The surface of a log file, folded apart from the engine: events by position.
fn surface(path: &Path) -> Vec<Value> {
    let mut surface: Vec<Value> = Vec::new();
    for line in lines(path) {
        let op = line["surfaceOp"].clone();
        if op == "append" {
            surface.push(line);
        } else if op.is_object() {
            let at = |seq: &Value| surface.iter().position(|node| node["seq"] == *seq).unwrap();
            let (first, last) = (at(&op["start"]), at(&op["end"]));
            surface.splice(first..=last, [line]);
        }
    }
    surface
}

fn is_checkpoint(node: &Value) -> bool {
    node["data"]["source"]["plugin"] == "compact"
}

#[test]
fn the_sample_becomes_a_third_and_again_merges() {
    let (_folder, session) = sample();
    let session = session.to_str().unwrap();
    let window = ["--context-window", "64000"];
    let report = json(&[&["compact", session, "--json"][..], &window].concat());
    let before = report["before"]["totalTokens"].as_u64().unwrap();
    let after = report["after"]["totalTokens"].as_u64().unwrap();
    assert!(after * 3 <= before, "{before} → {after}");
    assert_eq!(report["model"], "offline/extract");

    let out = report["out"].as_str().unwrap();
    assert_eq!(out, session.replace(".jsonl", ".compacted.jsonl"));
    assert_eq!(json(&["measure", out, "--json"])["totalTokens"], after);
    let seqs = report["result"]["shadowedSeqs"].as_array().unwrap();
    assert_eq!(report["result"]["shadowedRange"]["start"], seqs[0]);
    assert_eq!(
        report["result"]["shadowedRange"]["end"],
        seqs[seqs.len() - 1]
    );
    assert_eq!(report["events"], lines(Path::new(out)).len() as u64 - 1);
    // The input is not touched, and is where the output begins.
    assert_eq!(fs::read(session).unwrap(), fs::read(SAMPLE).unwrap());
    assert!(
        fs::read(out)
            .unwrap()
            .starts_with(&fs::read(SAMPLE).unwrap())
    );

    // There is nothing more to do at the same size.
    let again = run(&[&["compact", out, "-o", "never.jsonl"][..], &window].concat());
    assert_eq!(again.status.code(), Some(3), "{}", text(&again.stderr));
    assert!(
        text(&again.stdout).starts_with("Nothing to do: "),
        "{}",
        text(&again.stdout)
    );
    assert!(!Path::new("never.jsonl").exists());

    // At a smaller one the checkpoint is merged.
    let second = format!("{session}.second");
    let report = json(&[
        "compact",
        out,
        "-o",
        &second,
        "--retain-tokens",
        "4000",
        "--json",
    ]);
    let surface = surface(Path::new(&second));
    assert!(is_checkpoint(&surface[0]));
    assert_eq!(surface.iter().filter(|node| is_checkpoint(node)).count(), 1);
    let summary = report["summary"].as_str().unwrap();
    assert!(
        summary.contains("no dependency in the engine crate without asking me"),
        "{summary}"
    );
    assert_eq!(summary.matches("\n## ").count() + 1, 8, "{summary}");
}

#[test]
fn in_place_appends_and_changes_nothing_that_was_there() {
    let (_folder, session) = sample();
    let report = json(&["compact", session.to_str().unwrap(), "--in-place", "--json"]);
    assert_eq!(report["out"], session.to_str().unwrap());
    let (before, after) = (fs::read(SAMPLE).unwrap(), fs::read(&session).unwrap());
    assert!(after.starts_with(&before));
    let appended: Vec<Value> = lines(&session)[lines(Path::new(SAMPLE)).len()..].to_vec();
    let types: Vec<&str> = appended
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "compact/start",
            "compact/summary",
            "user/message",
            "compact/end"
        ]
    );
    let id = &appended[0]["data"]["compactionId"];
    assert!(id.is_string());
    assert!(appended[1..].iter().all(|line| {
        line["data"]["compactionId"] == *id || line["data"]["source"]["compactionId"] == *id
    }));
    assert!(
        appended
            .iter()
            .all(|line| line["time"].as_u64() > Some(1_700_000_000_000))
    );
}

#[test]
fn if_needed_waits_for_the_threshold() {
    let (_folder, session) = sample();
    let session = session.to_str().unwrap();
    let output = run(&["compact", session, "--if-needed"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stdout).contains("are below the threshold of 102,400"),
        "{}",
        text(&output.stdout)
    );
    let output = run(&["compact", session, "--if-needed", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        report["result"].is_null() && report["reason"].is_string(),
        "{report}"
    );
    let report = json(&[
        "compact",
        session,
        "--if-needed",
        "--context-window",
        "64000",
        "--json",
    ]);
    assert!(report["after"]["totalTokens"].as_u64() < report["before"]["thresholdTokens"].as_u64());
}

#[test]
fn a_region_is_compacted_as_measure_names_it() {
    let (_folder, session) = sample();
    let session = session.to_str().unwrap();
    let measured = json(&["measure", session, "--json"]);
    let nodes = measured["surface"].as_array().unwrap();
    let cuts: Vec<usize> = (0..nodes.len())
        .filter(|at| nodes[*at]["balancedBefore"] == true)
        .collect();
    let (first, end) = (cuts[4], cuts[40]);
    let region = format!("{}..{}", nodes[first]["seq"], nodes[end - 1]["seq"]);
    let report = json(&["compact", session, "--region", &region, "--json"]);
    assert_eq!(
        report["result"]["shadowedSeqs"].as_array().unwrap().len(),
        end - first
    );
    let surface = surface(Path::new(report["out"].as_str().unwrap()));
    assert!(is_checkpoint(&surface[first]));
    assert_eq!(surface.len(), nodes.len() - (end - first) + 1);

    // One that would part a call from its result is refused by its seq.
    let unbalanced = (0..nodes.len())
        .find(|at| nodes[*at]["balancedBefore"] == false)
        .unwrap();
    let region = format!("{}..{}", nodes[unbalanced]["seq"], nodes[end - 1]["seq"]);
    let output = run(&["compact", session, "--region", &region]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("a cut at event {} would part", nodes[unbalanced]["seq"]);
    assert!(
        text(&output.stderr).contains(&expected),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn wrong_usage_is_2_and_failure_is_1() {
    let (folder, session) = sample();
    let session = session.to_str().unwrap();
    for arguments in [
        vec!["compact"],
        vec!["compact", session, "--model", "nonsense"],
        vec!["compact", session, "--region", "1-2"],
        vec!["compact", session, "--context-window", "0"],
        vec!["compact", session, "--in-place", "-o", "x"],
        vec!["compact", session, "-o", session],
        vec!["compact", session, "--reopen"],
        vec!["compact", session, "--format", "nonsense"],
        vec!["compact", session, "--latest", "codex"],
        vec!["compact", "--latest", "nobody"],
    ] {
        let output = run(&arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
    let missing = folder.path().join("missing.jsonl");
    let bad = folder.path().join("bad.jsonl");
    fs::write(
        &bad,
        "{\"type\":\"turn/start\",\"seq\":0,\"data\":{\"turn\":1}}\n{]\n{}\n",
    )
    .unwrap();
    for (session, why) in [
        (&missing, "there is no such file"),
        (&bad, "bad.jsonl, line 2: "),
    ] {
        for command in ["compact", "measure"] {
            let output = run(&[command, session.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(1));
            assert!(
                text(&output.stderr).contains(why),
                "{}",
                text(&output.stderr)
            );
        }
    }
    let too_much = run(&[
        "compact",
        session,
        "--retain-tokens",
        "200000",
        "--if-needed",
    ]);
    assert_eq!(too_much.status.code(), Some(1));
    assert!(
        text(&too_much.stderr).contains("policy.retain-tokens"),
        "{}",
        text(&too_much.stderr)
    );
    // None of it left anything behind.
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_torn_last_line_is_reported_and_left_out() {
    let (_folder, session) = sample();
    let whole = fs::read(&session).unwrap();
    let torn = [&whole[..], b"{\"type\":\"user/messa"].concat();
    fs::write(&session, &torn).unwrap();
    let output = run(&["compact", session.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("left out: line 935, cut off after 19 bytes"),
        "{}",
        text(&output.stderr)
    );
    let out = fs::read(session.with_extension("compacted.jsonl")).unwrap();
    assert!(out.starts_with(&whole) && !text(&out).contains("user/messa\""));
    assert_eq!(fs::read(&session).unwrap(), torn);
}

#[test]
fn a_compaction_that_was_abandoned_can_be_settled() {
    let (_folder, session) = sample();
    let text_before = fs::read_to_string(&session).unwrap();
    let started =
        r#"{"type":"compact/start","seq":933,"time":0,"data":{"compactionId":"gone","turn":null}}"#;
    fs::write(&session, format!("{text_before}{started}\n")).unwrap();
    let path = session.to_str().unwrap();
    let output = run(&["compact", path, "--in-place"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("since event 933") && stderr.contains("--reopen"),
        "{stderr}"
    );
    // Nobody else writes to a copy.
    assert_eq!(run(&["compact", path]).status.code(), Some(0));
    let output = run(&["compact", path, "--in-place", "--reopen"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = lines(&session);
    let types: Vec<&str> = lines[935..]
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    let settled = [
        "session/end-seed",
        "compact/end",
        "compact/start",
        "compact/summary",
    ];
    assert_eq!(
        types,
        [&settled[..], &["user/message", "compact/end"]].concat()
    );
    assert_eq!(lines[936]["data"]["compactionId"], "gone");
    assert!(lines[936]["data"]["error"].is_string());
}

#[test]
fn a_session_of_pi_is_what_its_agent_saw_and_goes_on_with() {
    if !Path::new(PI_SESSION).exists() {
        eprintln!("skipped: {PI_SESSION} is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session.jsonl");
    fs::copy(PI_SESSION, &session).unwrap();
    let path = session.to_str().unwrap();

    // Before: its own second checkpoint, then what that one kept, and all after.
    let input = lines(&session);
    let measured = json(&["measure", path, "--json"]);
    let checkpoints = |measured: &Value| -> Vec<bool> {
        let nodes = measured["surface"].as_array().unwrap().iter();
        nodes.map(|node| node["kind"] == "checkpoint").collect()
    };
    let before = checkpoints(&measured);
    assert!(before[0] && before.iter().filter(|checkpoint| **checkpoint).count() == 1);
    let last = input
        .iter()
        .rposition(|line| line["type"] == "compaction")
        .unwrap();
    let first_kept = input[last]["firstKeptEntryIndex"].as_u64().unwrap() as usize;
    let is_message = |line: &&Value| line["type"] == "message";
    assert_eq!(
        before.len(),
        1 + input[first_kept..].iter().filter(is_message).count()
    );

    let window = ["--context-window", "200000", "--json", "--in-place"];
    let report = json(&[&["compact", path][..], &window].concat());
    assert_eq!(report["form"], "pi");
    assert!(
        report["after"]["totalTokens"].as_u64().unwrap() * 4
            < report["before"]["totalTokens"].as_u64().unwrap()
    );
    assert!(report["summary"].as_str().unwrap().contains("AgentSession"));
    // Its own lines as they were, and its own record behind them.
    let after = fs::read(&session).unwrap();
    assert!(after.starts_with(&fs::read(PI_SESSION).unwrap()));
    let added = lines(&session).split_off(input.len());
    assert_eq!(added.len(), 1);
    assert_eq!(added[0]["type"], "compaction");
    let measured = json(&["measure", path, "--json"]);
    let kept = input[added[0]["firstKeptEntryIndex"].as_u64().unwrap() as usize..]
        .iter()
        .filter(is_message)
        .count();
    let nodes = checkpoints(&measured);
    assert!(nodes[0] && nodes.len() == 1 + kept);
    // No result has lost its call.
    let surface = measured["surface"].as_array().unwrap();
    assert!(
        surface
            .iter()
            .all(|node| node["orphanedResults"] == Value::from(Vec::<Value>::new()))
    );
    // What it says it is now is what the compaction said it would be.
    let tokens = |measured: &Value| measured["totalTokens"].as_f64().unwrap();
    let (told, read) = (tokens(&report["after"]), tokens(&measured));
    assert!((told - read).abs() < 0.02 * told, "{told} {read}");
}

/// What is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[cfg(unix)]
#[test]
fn json_documents_are_replaced_in_one_step_with_their_permissions_and_links() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("export.json");
    fs::copy(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/data/sessions/opencode.json"
        ),
        &session,
    )
    .unwrap();
    fs::set_permissions(&session, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.json");
    symlink("export.json", &link).unwrap();
    let before = fs::metadata(&session).unwrap().ino();
    let output = run(&[
        "compact",
        link.to_str().unwrap(),
        "--in-place",
        "--retain-tokens",
        "3000",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let stat = fs::metadata(&session).unwrap();
    assert_eq!(stat.permissions().mode() & 0o777, 0o640);
    assert_ne!(stat.ino(), before, "another file took its place");
    assert_eq!(names(folder.path()), ["export.json", "link.json"]);
    // Lines are appended to the file itself.
    let session = folder.path().join("codex.jsonl");
    fs::copy(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/data/sessions/codex.jsonl"
        ),
        &session,
    )
    .unwrap();
    let before = fs::metadata(&session).unwrap().ino();
    let path = session.to_str().unwrap();
    assert_eq!(
        run(&["compact", path, "--in-place", "--retain-tokens", "3000"])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(fs::metadata(&session).unwrap().ino(), before);
    // A copy has who may read it from what it is made of.
    fs::set_permissions(&session, fs::Permissions::from_mode(0o600)).unwrap();
    let out = folder.path().join("smaller.jsonl");
    let output = run(&[
        "compact",
        path,
        "-o",
        out.to_str().unwrap(),
        "--retain-tokens",
        "1000",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        fs::metadata(&out).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn eight_at_once_and_a_writer_lose_nothing_and_land_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("codex.jsonl");
    fs::copy(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/data/sessions/codex.jsonl"
        ),
        &session,
    )
    .unwrap();
    let path = session.to_str().unwrap().to_owned();
    let written = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| run(&["compact", &path, "--in-place", "--retain-tokens", "3000"]))
            })
            .collect();
        let mut file = fs::OpenOptions::new().append(true).open(&session).unwrap();
        for index in 0..200 {
            use std::io::Write;
            let line = format!(
                "{{\"timestamp\":\"t\",\"ordinal\":{},\"type\":\"event_msg\",\"payload\":{{\"type\":\"noise\",\"n\":{index}}}}}\n",
                74 + index
            );
            file.write_all(line.as_bytes()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let statuses: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        statuses
    });
    // Those that came late found nothing to do, or what they had summarised gone.
    let done = written
        .iter()
        .filter(|output| output.status.code() == Some(0))
        .count();
    assert!(done >= 1);
    for output in &written {
        let told = text(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 3)) || told.contains("changed"),
            "{told}"
        );
    }
    let lines = lines(&session);
    let noise = lines
        .iter()
        .filter(|line| line["payload"]["type"] == "noise")
        .count();
    let compacted = lines
        .iter()
        .filter(|line| line["type"] == "compacted")
        .count();
    assert_eq!((noise, compacted), (200, done));
    assert_eq!(names(folder.path()), ["codex.jsonl"]);
}

#[test]
fn killed_at_any_moment_the_file_is_what_it_was_or_has_the_whole_record() {
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let mut landed = 0;
    for (index, name) in
        (0..30).flat_map(|index| ["claude-code.jsonl", "opencode.json"].map(|name| (index, name)))
    {
        let original = fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../tests/data/sessions")
                .join(name),
        )
        .unwrap();
        let session = folder.path().join(name);
        fs::write(&session, &original).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_harness-compact"))
            .args([
                "compact",
                session.to_str().unwrap(),
                "--in-place",
                "--retain-tokens",
                "3000",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(15 * index));
        child.kill().unwrap();
        child.wait().unwrap();
        let after = fs::read(&session).unwrap();
        if after != original {
            landed += 1;
            // Whole: it can be taken back, to the byte.
            let undone = run(&["undo", session.to_str().unwrap()]);
            assert_eq!(undone.status.code(), Some(0), "{}", text(&undone.stderr));
            assert_eq!(fs::read(&session).unwrap(), original);
        }
        // Nobody is kept waiting by what the dead one held.
        let lock = folder.path().join(format!("{name}.harness-compact.lock"));
        if lock.exists() {
            fs::remove_file(lock).unwrap();
        }
    }
    eprintln!("{landed} of 60 had landed");
}

#[test]
fn what_changed_meanwhile_is_not_written_over() {
    // Seen from the outside by a file of which the summarised part is gone.
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("export.json");
    let original = include_bytes!("../../tests/data/sessions/opencode.json");
    fs::write(&session, original).unwrap();
    let path = session.to_str().unwrap().to_owned();
    let writer = std::thread::spawn({
        let session = session.clone();
        move || {
            for index in 0..400 {
                let other = String::from_utf8_lossy(original)
                    .replace("gentle-cabin", &format!("cabin-{index}"));
                fs::write(session.with_extension("new"), other).unwrap();
                fs::rename(session.with_extension("new"), &session).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    });
    let output = run(&["compact", &path, "--in-place", "--retain-tokens", "3000"]);
    writer.join().unwrap();
    let told = text(&output.stderr);
    assert!(
        output.status.code() == Some(0) || told.contains("changed"),
        "{told}"
    );
    let now = fs::read_to_string(&session).unwrap();
    serde_json::from_str::<Value>(&now).expect("it is whole");
}

#[test]
fn sessions_are_found_in_their_usual_places() {
    let home = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/sessions");
    for (name, place) in [
        (
            "claude-code.jsonl",
            ".claude/projects/-home-user-project/13ecdd32.jsonl",
        ),
        (
            "codex.jsonl",
            ".codex/sessions/2026/12/06/rollout-2026-12-06T12-34-53-01a2.jsonl",
        ),
        (
            "pi.jsonl",
            ".pi/agent/sessions/--home-user-project--/2026_x.jsonl",
        ),
        ("gemini.jsonl", ".gemini/tmp/proj/chats/session-2026.jsonl"),
    ] {
        let place = home.path().join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(data.join(name), &place).unwrap();
    }
    fs::write(
        home.path().join(".gemini/tmp/proj/.project_root"),
        "/home/user/project",
    )
    .unwrap();
    fs::write(
        home.path()
            .join(".claude/projects/-home-user-project/agent-1.jsonl"),
        "{}",
    )
    .unwrap();
    let run = |arguments: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_harness-compact"))
            .args(arguments)
            .env("HOME", home.path())
            .env_remove("CODEX_HOME")
            .env_remove("CLAUDE_CONFIG_DIR")
            .output()
            .unwrap()
    };
    let found: Value = serde_json::from_slice(&run(&["sessions", "--json"]).stdout).unwrap();
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 4);
    for session in found {
        assert_eq!(session["cwd"], "/home/user/project", "{session}");
        assert!(
            session["firstRequest"]
                .as_str()
                .unwrap()
                .contains("TURN-1 asked-1-0")
        );
        assert!(session["tokens"].as_u64().unwrap() > 10_000);
    }
    let listed = run(&["sessions", "--program", "codex"]);
    assert!(text(&listed.stdout).contains("codex") && !text(&listed.stdout).contains("gemini"));
    // It may be being written to.
    let refused = run(&[
        "compact",
        "--latest",
        "codex",
        "--retain-tokens",
        "3000",
        "--in-place",
    ]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("--force"),
        "{}",
        text(&refused.stderr)
    );
    let done = run(&[
        "compact",
        "--latest",
        "codex",
        "--force",
        "--retain-tokens",
        "3000",
        "--in-place",
    ]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    // This folder has no session of Claude Code's.
    let none = run(&["measure", "--latest", "claude-code", "--force"]);
    assert!(text(&none.stderr).contains("no session of claude-code"));
}

#[test]
fn a_backend_that_is_none_is_named() {
    let (folder, session) = sample();
    let session = session.to_str().unwrap();
    let absent = folder.path().join("absent.wasm");
    // A component, and nothing in it.
    let empty = folder.path().join("empty.wasm");
    fs::write(&empty, b"\0asm\x0d\0\x01\0").unwrap();
    for (file, why) in [
        (absent, "there is no such file"),
        (empty, "harness:compact/compact@0.1.0"),
    ] {
        for command in ["measure", "compact"] {
            let output = run(&[command, session, "--backend", file.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(1));
            let told = text(&output.stderr);
            assert!(told.contains(file.to_str().unwrap()), "{told}");
            assert!(told.contains(why), "{told}");
        }
    }
    // Nothing was written.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
