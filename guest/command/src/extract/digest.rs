//! What a span of a session amounts to, gathered node by node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::{SECTIONS, cost};
use harness_compact_engine::{ContentBlock, Payload, ResultBlock, ToolCall, ToolResult};

/// Characters of one request, of one message of the agent's, of one error.
const REQUEST_CHARS: usize = 700;
const MESSAGE_CHARS: usize = 600;
const LINE_CHARS: usize = 200;
const EARLIER_CHARS: usize = 900;
/// A request below this is told after the others.
const SHORT_CHARS: usize = 16;

/// How many of the newest things "last" means.
const LAST: usize = 6;

/// How many of a kind are kept at most: more than any checkpoint has room for, however
/// long the session.
const KEPT: usize = 2048;

/// The newest of a kind, oldest first, and how many there were before them.
#[derive(Debug)]
struct Newest<T, const MOST: usize> {
    items: VecDeque<T>,
    earlier: usize,
}

impl<T, const MOST: usize> Default for Newest<T, MOST> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            earlier: 0,
        }
    }
}

impl<T, const MOST: usize> Newest<T, MOST> {
    fn push(&mut self, item: T) {
        if self.items.len() == MOST {
            self.items.pop_front();
            self.earlier += 1;
        }
        self.items.push_back(item);
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }
}

/// Everything that a checkpoint may want to say of the nodes taken so far.
#[derive(Debug, Default)]
pub(super) struct Digest {
    /// The size of what was taken, in quarter tokens.
    cost: usize,
    /// What the user asked for first.
    first_request: Option<String>,
    /// What the user asked for after that, oldest first.
    requests: Newest<String, KEPT>,
    /// Files by path.
    files: BTreeMap<String, FileNotes>,
    tools: BTreeMap<String, usize>,
    commands: Newest<String, KEPT>,
    errors: Newest<ErrorNotes, KEPT>,
    /// What the agent said, oldest first.
    messages: Newest<String, LAST>,
    /// What it did, oldest first.
    actions: Newest<String, LAST>,
    todos: Vec<String>,
    context: Newest<String, KEPT>,
    /// Calls that have no result yet, by id.
    waiting: BTreeMap<String, Action>,
    /// Items of earlier checkpoints, by section.
    earlier: [Vec<String>; SECTIONS.len()],
    /// Whether the last thing taken was an answer that asks for no tool.
    answered: bool,
    clock: usize,
}

#[derive(Debug, Default)]
struct FileNotes {
    /// What was done to it, in order of first time.
    done: Vec<&'static str>,
    changed: bool,
    last: usize,
}

#[derive(Debug)]
struct ErrorNotes {
    action: Action,
    text: String,
    /// What was done next.
    followed: Vec<String>,
    /// Whether the same action went well later.
    mended: bool,
}

/// A tool call, as it is told.
#[derive(Clone, Debug, PartialEq)]
struct Action {
    label: String,
    /// A look, not a deed.
    harmless: bool,
}

impl Digest {
    /// The size of everything taken, in tokens.
    pub fn tokens(&self) -> usize {
        self.cost / 4
    }

    pub fn take(&mut self, payload: &Payload) {
        self.clock += 1;
        match payload {
            Payload::UserMessage(message) if message.source == "plugin:compact" => {
                self.earlier_checkpoint(&text_of(&message.content));
            }
            Payload::UserMessage(message) if message.source == "shell" => {
                let text = text_of(&message.content);
                self.cost += cost(&text);
                self.actions
                    .push(one_line(text.lines().next().unwrap_or_default()));
            }
            Payload::UserMessage(message) if message.source.starts_with("plugin:") => {
                self.injected(&text_of(&message.content));
            }
            Payload::UserMessage(message) => self.request(&text_of(&message.content)),
            Payload::SteeringMessage(content) => self.request(&text_of(content)),
            Payload::ContextMessage(content) => self.injected(&text_of(content)),
            Payload::AssistantMessage(message) => self.answer(&message.content),
            Payload::ToolResult(result) => self.result(result),
            _ => {}
        }
    }

    /// What to say in each section, most important first.
    pub fn sections(&self) -> [Vec<String>; SECTIONS.len()] {
        let mut sections = [
            self.request_items(),
            self.concept_items(),
            self.file_items(),
            self.error_items(),
            self.todos.clone(),
            self.work_items(),
            self.next_items(),
            self.context_items(),
        ];
        for (section, earlier) in self.earlier[..LAST_SECTION].iter().enumerate() {
            // What only described the moment of the earlier checkpoint is past.
            if !matches!(section, 1 | 5 | 6) || sections[section].is_empty() {
                merge(&mut sections[section], earlier);
            }
        }
        sections
    }

    /// How many items of each section are not among them: too many came after them.
    pub fn forgotten(&self) -> [usize; SECTIONS.len()] {
        let context = self.commands.earlier + self.context.earlier;
        let errors = self.errors.earlier;
        [self.requests.earlier, 0, 0, errors, 0, 0, 0, context]
    }

    fn request(&mut self, text: &str) {
        self.cost += cost(text);
        self.answered = false;
        if !text.trim().is_empty() {
            let request = indent(&clip(text.trim(), REQUEST_CHARS));
            match self.first_request {
                None => self.first_request = Some(request),
                Some(_) => self.requests.push(request),
            }
        }
    }

    fn injected(&mut self, text: &str) {
        self.cost += cost(text);
        if !text.trim().is_empty() {
            let text = clip(text.trim(), MESSAGE_CHARS);
            self.context
                .push(format!("Injected context: {}", indent(&text)));
        }
    }

    fn answer(&mut self, content: &[ContentBlock]) {
        let mut calls = false;
        for block in content {
            match block {
                ContentBlock::Text(text) => {
                    self.cost += cost(text);
                    if !text.trim().is_empty() {
                        self.checklist(text);
                        self.messages
                            .push(indent(&clip(text.trim(), MESSAGE_CHARS)));
                    }
                }
                ContentBlock::ToolCall(call) => {
                    calls = true;
                    self.cost += cost(&call.name) + cost(&call.arguments);
                    self.call(call);
                }
                ContentBlock::Reasoning(text) => self.cost += cost(text),
                _ => {}
            }
        }
        self.answered = !calls;
    }

    fn call(&mut self, call: &ToolCall) {
        *self.tools.entry(call.name.clone()).or_default() += 1;
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let name = call.name.to_lowercase();
        if let Some(todos) = arguments.get("todos").and_then(Value::as_array) {
            // Each writes the whole list anew.
            self.todos = todos.iter().filter_map(open_todo).collect();
        }
        let command = ["command", "cmd", "script"].map(|key| shell_words(&arguments[key]));
        let command = command.into_iter().flatten().next();
        let path = [
            "path",
            "file_path",
            "filePath",
            "filename",
            "file",
            "notebook_path",
        ];
        let path = path.iter().find_map(|key| arguments[*key].as_str());
        let action = match (command, path) {
            (Some(command), None) => {
                let command = one_line(&command);
                self.commands.push(format!("`{command}`"));
                Action {
                    label: format!("{} `{command}`", call.name),
                    harmless: false,
                }
            }
            (_, Some(path)) => {
                let done = deed(&name);
                self.file(path, done);
                Action {
                    label: format!("{} `{path}`", call.name),
                    harmless: done == "read",
                }
            }
            (None, None) => {
                for path in patched_files(&call.arguments) {
                    self.file(&path, "edited");
                }
                let about = ["pattern", "query", "url", "prompt", "description"];
                let about = about.iter().find_map(|key| arguments[*key].as_str());
                Action {
                    label: match about {
                        Some(about) => format!("{} `{}`", call.name, one_line(about)),
                        None => call.name.clone(),
                    },
                    harmless: about.is_some(),
                }
            }
        };
        let errors = self.errors.items.iter_mut();
        for error in errors.filter(|error| !error.mended) {
            if error.followed.len() < 2
                && !action.harmless
                && !error.followed.contains(&action.label)
            {
                error.followed.push(action.label.clone());
            }
        }
        self.waiting.insert(call.call_id.clone(), action);
    }

    fn file(&mut self, path: &str, done: &'static str) {
        let notes = self.files.entry(path.to_owned()).or_default();
        notes.last = self.clock;
        notes.changed |= done != "read";
        if !notes.done.contains(&done) {
            notes.done.push(done);
        }
    }

    fn result(&mut self, result: &ToolResult) {
        self.answered = false;
        let text = result.content.iter().filter_map(|block| match block {
            ResultBlock::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text = text.collect::<Vec<_>>().join("\n");
        self.cost += cost(&text);
        let Some(action) = self.waiting.remove(&result.call_id) else {
            return;
        };
        match error_line(&text, result.is_error, action.harmless) {
            Some(line) => {
                self.actions
                    .push(format!("{} → failed: {line}", action.label));
                self.errors.push(ErrorNotes {
                    action,
                    text: line,
                    followed: Vec::new(),
                    mended: false,
                });
            }
            None => {
                for error in &mut self.errors.items {
                    error.mended |= error.action == action;
                }
                let last = text.trim().lines().last().unwrap_or_default();
                self.actions.push(match action.harmless || last.is_empty() {
                    true => action.label,
                    false => format!("{} → {}", action.label, one_line(last)),
                });
            }
        }
    }

    /// Open items of a check list in what the agent says: the newest list counts.
    fn checklist(&mut self, text: &str) {
        let open = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("- [ ] "));
        let open: Vec<String> = open.map(one_line).collect();
        if !open.is_empty() {
            self.todos = open;
        }
    }

    /// Take an earlier checkpoint apart: its items, by section.
    fn earlier_checkpoint(&mut self, text: &str) {
        self.cost += cost(text);
        self.answered = false;
        let start = text
            .find("<compacted-summary>")
            .map_or(0, |at| at + "<compacted-summary>".len());
        let end = text.rfind("</compacted-summary>").unwrap_or(text.len());
        let body = text.get(start..end).unwrap_or(text);
        // Under headings of its own a checkpoint is context, told heading by heading.
        let (mut section, mut foreign) = (LAST_SECTION, false);
        for line in body
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
        {
            if let Some(heading) = line.strip_prefix('#') {
                let heading = heading.trim_start_matches('#').trim();
                let known = SECTIONS.iter().position(|known| *known == heading);
                (section, foreign) = (known.unwrap_or(LAST_SECTION), known.is_none());
                if foreign {
                    self.earlier[section].push(format!("{heading}:"));
                }
                continue;
            }
            let items = &mut self.earlier[section];
            let skipped =
                line == "(none)" || line.ends_with(" more left out)") || line.contains(NOTE);
            match (
                line.strip_prefix("- ").or(line.strip_prefix("* ")),
                items.last_mut(),
            ) {
                _ if skipped => {}
                // A line that belongs to the item before it.
                (item, Some(last)) if foreign || (item.is_none() && line.starts_with(' ')) => {
                    last.push_str(if foreign { "\n  " } else { "\n" });
                    last.push_str(line);
                }
                (item, _) => items.push(item.unwrap_or(line).to_owned()),
            }
        }
        for item in self.earlier.iter_mut().flatten() {
            *item = clip(item, EARLIER_CHARS);
        }
    }

    fn request_items(&self) -> Vec<String> {
        // The newest says what is wanted now, the first what it is all about.
        let mut items: Vec<String> = Vec::new();
        let requests = self.first_request.iter().chain(self.requests.iter());
        let mut newest = requests.rev();
        items.extend(
            newest
                .next()
                .map(|request| format!("Newest request: {request}")),
        );
        if self.earlier[0].is_empty() {
            items.extend(
                newest
                    .next_back()
                    .map(|request| format!("First request: {request}")),
            );
        }
        // A word of assent says little once it has been acted upon.
        let (short, telling): (Vec<_>, Vec<_>) = newest
            .cloned()
            .partition(|request| request.chars().count() < SHORT_CHARS);
        items.extend(telling);
        items.extend(short);
        items
    }

    fn concept_items(&self) -> Vec<String> {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for path in self.files.keys() {
            let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
            if let Some((_, kind)) = name.rsplit_once('.') {
                *kinds.entry(kind).or_default() += 1;
            }
        }
        let mut items = Vec::new();
        if !kinds.is_empty() {
            let kinds = kinds.iter().map(|(kind, count)| (*kind, *count));
            items.push(format!("Kinds of files: {}", by_count(kinds, ".")));
        }
        if !self.tools.is_empty() {
            let tools = self
                .tools
                .iter()
                .map(|(tool, count)| (tool.as_str(), *count));
            items.push(format!("Tools used: {}", by_count(tools, "")));
        }
        items
    }

    fn file_items(&self) -> Vec<String> {
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|(_, notes)| std::cmp::Reverse((notes.changed, notes.last)));
        let item =
            |(path, notes): (&String, &FileNotes)| format!("`{path}`: {}", notes.done.join(", "));
        files.into_iter().map(item).collect()
    }

    fn error_items(&self) -> Vec<String> {
        let mut errors: Vec<&ErrorNotes> = self.errors.iter().rev().collect();
        errors.sort_by_key(|error| error.mended);
        let mut told = BTreeSet::new();
        let item = |error: &ErrorNotes| {
            let mut item = format!("{}: {}", error.action.label, error.text);
            if !error.followed.is_empty() {
                item.push_str(&format!("; then {}", error.followed.join(", ")));
            }
            item.push_str(match error.mended {
                true => "; went well later",
                false => "; not seen to go well since",
            });
            item
        };
        errors.retain(|error| told.insert((&error.action.label, &error.text)));
        errors.into_iter().map(item).collect()
    }

    fn work_items(&self) -> Vec<String> {
        let mut items = Vec::new();
        let mut messages = self.messages.iter().rev();
        items.extend(
            messages
                .next()
                .map(|message| format!("The agent said last: {message}")),
        );
        let interrupted = self.waiting.values().map(|action| &action.label);
        items.extend(interrupted.map(|label| format!("Interrupted, no result: {label}")));
        let actions = self.actions.iter().rev().take(LAST);
        items.extend(actions.map(|action| format!("Done: {action}")));
        items.extend(
            messages
                .take(LAST / 2)
                .map(|message| format!("Before that: {message}")),
        );
        items
    }

    fn next_items(&self) -> Vec<String> {
        match self.first_request {
            Some(_) if !self.answered => {
                vec!["Go on with the newest request above from where the work stands.".into()]
            }
            _ => Vec::new(),
        }
    }

    fn context_items(&self) -> Vec<String> {
        let mut items = vec![NOTE.into()];
        // What an earlier checkpoint found critical comes before what merely happened.
        let (commands, critical): (Vec<_>, Vec<_>) = self.earlier[LAST_SECTION]
            .iter()
            .cloned()
            .partition(|item| item.starts_with(COMMAND));
        merge(&mut items, &critical);
        items.extend(self.context.iter().rev().cloned());
        let mut told = BTreeSet::new();
        let run = self
            .commands
            .iter()
            .rev()
            .filter(|command| told.insert(*command));
        items.extend(run.map(|command| format!("{COMMAND}{command}")));
        merge(&mut items, &commands);
        items
    }
}

const LAST_SECTION: usize = SECTIONS.len() - 1;

/// How a command is told.
const COMMAND: &str = "Command run: ";

/// What a reader must know of where the checkpoint comes from.
const NOTE: &str = "This checkpoint was made without a model: it is extracted from the record, newest first, \
and nothing in it is paraphrased. What it does not list may still have happened.";

fn merge(items: &mut Vec<String>, earlier: &[String]) {
    for item in earlier {
        // A file or command that is told anew is not told twice.
        let subject = |item: &str| {
            item.split_once("`: ")
                .map(|(subject, _)| subject.to_owned())
        };
        let known = items
            .iter()
            .any(|new| new == item || (subject(item).is_some() && subject(item) == subject(new)));
        if !known {
            let item = item.replacen("Newest request: ", "", 1);
            items.push(item);
        }
    }
}

fn text_of(content: &[ContentBlock]) -> String {
    let blocks = content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.clone()),
        ContentBlock::Image(image) => Some(format!("[image {}]", image.media_type)),
        ContentBlock::Opaque(opaque) => Some(format!("[{}]", opaque.kind)),
        _ => None,
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// What a tool of this name does to the file that it is given.
fn deed(tool: &str) -> &'static str {
    let named = |words: &[&str]| words.iter().any(|word| tool.contains(word));
    if named(&["write", "create"]) {
        "written"
    } else if named(&["edit", "replace", "patch", "insert", "update"]) {
        "edited"
    } else if named(&["delete", "remove"]) {
        "deleted"
    } else {
        "read"
    }
}

/// Files named by a patch that is given as text.
fn patched_files(arguments: &str) -> Vec<String> {
    let marks = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    let files = marks.iter().flat_map(|mark| {
        let found = arguments.split(mark).skip(1);
        found.filter_map(|rest| rest.split(['\n', '\\', '"']).next().map(str::to_owned))
    });
    files.collect()
}

fn open_todo(todo: &Value) -> Option<String> {
    let text = todo["content"].as_str().or(todo["text"].as_str())?;
    let status = todo["status"].as_str().unwrap_or("pending");
    (!matches!(status, "completed" | "done" | "cancelled")).then(|| match status {
        "in_progress" => format!("(in progress) {}", one_line(text)),
        _ => one_line(text),
    })
}

/// A command given as a text or as a list of words.
fn shell_words(value: &Value) -> Option<String> {
    match value {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            (!words.is_empty()).then(|| words.join(" "))
        }
        _ => None,
    }
}

/// The line that tells what went wrong, if something did. In what a tool merely
/// shows, an error is part of the text.
fn error_line(text: &str, is_error: bool, shown: bool) -> Option<String> {
    let telling = |line: &&str| {
        let line = line.trim_start().to_lowercase();
        let starts = ["error", "fatal", "traceback", "panic", "failed", "thread '"];
        starts.iter().any(|word| line.starts_with(word))
            || line.contains("error:")
            || line.contains("exception:")
            || line.contains("panicked at")
            || line.contains("command not found")
            || line.contains("exited with code")
    };
    // Most results hold none of these words at all.
    let lower = text.to_ascii_lowercase();
    let marks = ["error", "panicked at", "exited with code"];
    let suspect = || marks.iter().any(|mark| lower.contains(mark));
    let failed = is_error
        || (!shown
            && suspect()
            && text.lines().any(|line| {
                let line = line.trim_start().to_lowercase();
                line.starts_with("error")
                    || line.contains("panicked at")
                    || (line.contains("exited with code") && !line.contains("code 0"))
            }));
    failed.then(|| {
        let line = text
            .lines()
            .find(telling)
            .or(text.lines().find(|line| !line.trim().is_empty()));
        one_line(line.unwrap_or("no output"))
    })
}

fn by_count<'a>(counts: impl Iterator<Item = (&'a str, usize)>, prefix: &str) -> String {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let counts = counts
        .iter()
        .take(8)
        .map(|(name, count)| format!("{prefix}{name} ({count})"));
    counts.collect::<Vec<_>>().join(", ")
}

fn one_line(text: &str) -> String {
    // Of a long text only both ends are looked at.
    let (mut head, mut count) = (String::new(), 0);
    let mut words = text.split_whitespace();
    for word in words.by_ref() {
        if !head.is_empty() {
            head.push(' ');
        }
        head.push_str(word);
        count += word.chars().count() + 1;
        if count > 2 * LINE_CHARS {
            break;
        }
    }
    let (mut tail, mut count) = (Vec::new(), 0);
    for word in words.rev() {
        tail.push(word);
        count += word.chars().count() + 1;
        if count > 2 * LINE_CHARS {
            break;
        }
    }
    for word in tail.into_iter().rev() {
        head.push(' ');
        head.push_str(word);
    }
    clip(&head, LINE_CHARS)
}

/// Keep a text of several lines inside its bullet.
fn indent(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// At most `most` characters: the head and the tail of a longer text.
fn clip(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.into();
    }
    let nth = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let head = most * 3 / 4;
    format!(
        "{} […] {}",
        &text[..nth(head)],
        &text[nth(count - (most - head))..]
    )
}
