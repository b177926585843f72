//! `harness-compact sessions`: what lies in the usual places.

use clap::{Args, ValueEnum};
use harness_compact_engine::{AgentContext, Config, Payload};
use harness_compact_formats::{ReadOptions, rfc3339};
use serde_json::{Value, json};

use crate::Stopped;
use crate::extract::extract_route;
use crate::file::Opened;
use crate::system::{Backend, BackendOptions, Stat, System};
use crate::words::{grouped, texts};

/// Shown after the options.
pub const AFTER_HELP: &str = "\
Where it looks, and the variable that says another place:
  claude-code  ~/.claude/projects         CLAUDE_CONFIG_DIR
  codex        ~/.codex/sessions          CODEX_HOME
  pi           ~/.pi/agent/sessions       PI_CODING_AGENT_DIR, PI_CODING_AGENT_SESSION_DIR
  gemini       ~/.gemini/tmp/*/chats      GEMINI_CLI_HOME (the folder that holds .gemini)

opencode keeps its sessions in a database: `opencode export ID > FILE` makes a file of one.";

/// A program that keeps sessions in files of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// The pi coding agent.
    Pi,
    /// Gemini CLI.
    Gemini,
}

impl Program {
    const ALL: [Program; 4] = [Self::ClaudeCode, Self::Codex, Self::Pi, Self::Gemini];

    /// Its name, as the command takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Pi => "pi",
            Self::Gemini => "gemini",
        }
    }
}

/// Which sessions.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Only those of this program.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<Program>,
    /// How many of the newest; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print one JSON array.
    #[arg(long)]
    json: bool,
}

/// A session file that was found.
pub struct Found {
    pub program: Program,
    pub path: String,
    pub stat: Stat,
    /// The folder that it belongs to, where its place says so.
    cwd: Option<String>,
}

/// What is told of a session.
struct Told {
    cwd: Option<String>,
    request: Option<String>,
    tokens: Option<u32>,
    /// Why it cannot be read.
    error: Option<String>,
}

/// List sessions.
pub async fn run<S: System>(arguments: Arguments, system: &S) -> Result<String, Stopped> {
    let programs = arguments
        .program
        .map_or(Program::ALL.to_vec(), |program| vec![program]);
    let mut found = find(&programs, None, system);
    if found.is_empty() {
        return Err(Stopped::NothingToDo(match arguments.json {
            true => "[]".into(),
            false => "No sessions were found.".into(),
        }));
    }
    if arguments.limit > 0 {
        found.truncate(arguments.limit);
    }
    let mut rows = Vec::new();
    for (index, session) in found.iter().enumerate() {
        let doing = format!("reading session {} of {}", index + 1, found.len());
        system.progress(Some(&doing));
        rows.push(look(session, system).await);
    }
    if arguments.json {
        let rows = found
            .iter()
            .zip(&rows)
            .map(|(found, told)| to_json(found, told));
        return Ok(rows.collect::<Value>().to_string());
    }
    let rows = found
        .iter()
        .zip(&rows)
        .map(|(found, told)| to_text(found, told));
    Ok(rows.collect::<Vec<_>>().join("\n"))
}

fn to_json(found: &Found, told: &Told) -> Value {
    let mut row = json!({
        "program": found.program.name(),
        "path": found.path,
        "cwd": told.cwd,
        "firstRequest": told.request,
        "lastUsed": rfc3339(found.stat.modified_us / 1000),
        "tokens": told.tokens,
    });
    if let Some(error) = &told.error {
        row["error"] = json!(error);
    }
    row
}

fn to_text(found: &Found, told: &Told) -> String {
    let used = rfc3339(found.stat.modified_us / 1000);
    let used = used[..16].replace('T', " ");
    let tokens = told.tokens.map_or("?".into(), grouped);
    let mut text = format!(
        "{used}  {:11} {tokens:>11} tokens  {}\n    {}",
        found.program.name(),
        told.cwd.as_deref().unwrap_or("?"),
        found.path,
    );
    if let Some(error) = &told.error {
        text.push_str(&format!("\n    {error}"));
    } else if let Some(request) = &told.request {
        text.push_str(&format!("\n    {request}"));
    }
    text
}

/// Read a session for what is told of it.
async fn look<S: System>(found: &Found, system: &S) -> Told {
    let mut told = Told {
        cwd: found.cwd.clone(),
        request: None,
        tokens: None,
        error: None,
    };
    let options = ReadOptions {
        form: None,
        skip_damaged: true,
    };
    let opened = match Opened::read(found.path.clone(), options, system) {
        Ok(opened) => opened,
        Err(why) => {
            told.error = Some(why);
            return told;
        }
    };
    let window = {
        let session = opened.session.lock();
        told.cwd = session.cwd().map(str::to_owned).or(told.cwd);
        told.request = first_request(&session);
        session.context_window()
    };
    let agent = AgentContext {
        context_window: window,
        ..AgentContext::default()
    };
    let options = BackendOptions {
        config: Config::default(),
        model: extract_route(),
        base_url: None,
        component: None,
    };
    if let Ok(mut backend) = system.backend(opened.session.clone(), options).await {
        let measured = backend.measure(&agent).await;
        told.tokens = measured.ok().map(|measured| measured.total_tokens);
    }
    told
}

/// What the user asked first, in one line.
fn first_request(session: &harness_compact_formats::Session) -> Option<String> {
    const MOST: usize = 70;
    for seq in 0..session.read_head() {
        let Some(event) = session.events(seq, 1).ok()?.pop() else {
            continue;
        };
        let Payload::UserMessage(message) = event.payload else {
            continue;
        };
        let said = texts(&message.content);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        // What programs put into the user's mouth begins with a tag.
        if message.source != "user" || said.is_empty() || said.starts_with('<') {
            continue;
        }
        let cut: String = said.chars().take(MOST).collect();
        return Some(match cut.len() < said.len() {
            true => format!("{cut}…"),
            false => cut,
        });
    }
    None
}

/// The sessions of these programs, newest first; with a `cwd` only those that belong
/// to it, of programs that keep sessions by it.
pub fn find(programs: &[Program], cwd: Option<&str>, system: &impl System) -> Vec<Found> {
    let mut found = Vec::new();
    for program in programs {
        for (path, of) in files(*program, cwd, system) {
            let Some(stat) = system.stat(&path).filter(|stat| !stat.is_folder) else {
                continue;
            };
            found.push(Found {
                program: *program,
                path,
                stat,
                cwd: of,
            });
        }
    }
    found.sort_by(|a, b| {
        let newest = b.stat.modified_us.cmp(&a.stat.modified_us);
        newest.then_with(|| a.path.cmp(&b.path))
    });
    found
}

/// The session files of a program, and the folder that each belongs to where its
/// place says so.
fn files(
    program: Program,
    cwd: Option<&str>,
    system: &impl System,
) -> Vec<(String, Option<String>)> {
    let home = |name: &str| system.home().map(|home| system.join(&home, name));
    let inside = |folder: &str| -> Vec<(String, String)> {
        let names = system.list(folder).into_iter();
        let paths = names.map(|name| (name.clone(), system.join(folder, &name)));
        paths.collect()
    };
    let lines = |folder: &str| -> Vec<String> {
        let files = inside(folder).into_iter();
        let files = files.filter(|(name, _)| name.ends_with(".jsonl"));
        files.map(|(_, path)| path).collect()
    };
    match program {
        Program::ClaudeCode => {
            let root = system.env("CLAUDE_CONFIG_DIR").or_else(|| home(".claude"));
            let Some(root) = root else { return Vec::new() };
            let wanted = cwd.map(|cwd| slug(cwd, |c| c.is_ascii_alphanumeric()));
            let projects = inside(&system.join(&root, "projects")).into_iter();
            let projects =
                projects.filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == name));
            // Sub-agents have files of their own.
            let own = |path: &String| !system.name(path).starts_with("agent-");
            projects
                .flat_map(|(_, project)| lines(&project))
                .filter(own)
                .map(|path| (path, None))
                .collect()
        }
        Program::Codex => {
            let root = system.env("CODEX_HOME").or_else(|| home(".codex"));
            let Some(root) = root else { return Vec::new() };
            // By year, month and day; earlier versions put them side by side.
            let mut folders = vec![system.join(&root, "sessions")];
            let mut files = Vec::new();
            for _ in 0..4 {
                for folder in std::mem::take(&mut folders) {
                    for (name, path) in inside(&folder) {
                        match name.starts_with("rollout-") {
                            true if name.ends_with(".jsonl") => files.push((path, None)),
                            true => {}
                            false if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                                folders.push(path);
                            }
                            false => {}
                        }
                    }
                }
            }
            files
        }
        Program::Pi => {
            let agent = system
                .env("PI_CODING_AGENT_DIR")
                .map(|folder| expand(&folder, system));
            let agent = agent.or_else(|| home(".pi").map(|folder| system.join(&folder, "agent")));
            let sessions = system.env("PI_CODING_AGENT_SESSION_DIR");
            let sessions = sessions.map(|folder| expand(&folder, system));
            // A folder that was named holds the files themselves.
            if let Some(folder) = sessions {
                return lines(&folder)
                    .into_iter()
                    .map(|path| (path, None))
                    .collect();
            }
            let Some(agent) = agent else {
                return Vec::new();
            };
            let wanted = cwd.map(|cwd| {
                let cwd = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd);
                format!("--{}--", slug(cwd, |c| !matches!(c, '/' | '\\' | ':')))
            });
            let folders = inside(&system.join(&agent, "sessions")).into_iter();
            let folders =
                folders.filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == name));
            folders
                .flat_map(|(_, folder)| lines(&folder))
                .map(|path| (path, None))
                .collect()
        }
        Program::Gemini => {
            let root = system.env("GEMINI_CLI_HOME").or_else(|| system.home());
            let Some(root) = root else { return Vec::new() };
            let tmp = system.join(&system.join(&root, ".gemini"), "tmp");
            let mut files = Vec::new();
            for (_, project) in inside(&tmp) {
                let of = system.read_start(&system.join(&project, ".project_root"), 4096);
                let of = of.ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let of = of
                    .map(|of| of.trim().to_owned())
                    .filter(|of| !of.is_empty());
                if cwd.is_some() && of.is_some() && of.as_deref() != cwd {
                    continue;
                }
                for (name, path) in inside(&system.join(&project, "chats")) {
                    let is_session = name.starts_with("session-")
                        && (name.ends_with(".jsonl") || name.ends_with(".json"));
                    if is_session {
                        files.push((path, of.clone()));
                    }
                }
            }
            files
        }
    }
}

/// A folder's path as a name.
fn slug(path: &str, kept: impl Fn(char) -> bool) -> String {
    let slugged = path.chars().map(|c| if kept(c) { c } else { '-' });
    slugged.collect()
}

fn expand(path: &str, system: &impl System) -> String {
    match (path.strip_prefix("~/"), system.home()) {
        (Some(rest), Some(home)) => system.join(&home, rest),
        _ => path.into(),
    }
}
