//! The source `environment`: the capabilities of an agent, summarised by
//! category.
//!
//! They come from a file or from a command with a timeout. If the command
//! fails, its last valid answer is used, with a warning.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use contexture_core::cache::Cache;
use contexture_core::guard::Policy;
use contexture_core::{Code, Content, ContentHash, Item, Role, Trust};
use serde_json::Value;

use crate::config;
use crate::error::Error;
use crate::files::Root;
use crate::static_content::StaticContent;
use crate::turn::json_with_path;
use crate::yaml;

/// The path where the last valid answer of a command is saved.
const KEPT: &str = ".contexture/environment.json";

/// The files that are looked for when none is named.
const FILES: [&str; 6] = [
    "capabilities.yml",
    "capabilities.yaml",
    "capabilities.json",
    ".agent/capabilities.yml",
    ".agent/capabilities.yaml",
    ".agent/capabilities.json",
];

/// The most that a command may print.
const MAX_ANSWER: u64 = 1024 * 1024;

/// Cached summaries of capabilities, by the hash of their input.
#[derive(Debug, Default)]
pub(crate) struct Environments {
    made: Cache<ContentHash, Arc<Snapshot>>,
}

/// The capabilities of an agent, by category.
#[derive(Debug, Default, PartialEq)]
struct Snapshot {
    categories: Vec<(String, Vec<Capability>)>,
    credentials: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Capability {
    name: String,
    state: String,
    note: Option<String>,
}

impl Environments {
    /// Returns the environment section. With `task`, only the capabilities that
    /// the task names.
    ///
    /// A failing command is not an error of the call: its last valid answer is
    /// used, with a warning.
    pub(crate) fn items(
        &self,
        root: &Root,
        config: &config::Environment,
        static_content: &StaticContent,
        task: Option<&str>,
        policy: Policy,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Item>, Error> {
        let (name, text) = match read(root, config, warnings)? {
            Answer::None => return Ok(Vec::new()),
            Answer::Failed(reason) => return Ok(vec![failed(reason)]),
            Answer::Text { name, text } => (name, text),
        };
        let key = ContentHash::of(text.as_bytes());
        let snapshot = match self.made.get(&key) {
            Some(snapshot) => snapshot,
            None => {
                let snapshot = Arc::new(Snapshot::parse(&name, &text)?);
                let bytes = 2 * text.len() + 256;
                self.made.insert(key, Arc::clone(&snapshot), bytes);
                snapshot
            }
        };
        let item = static_content.section("environment", &snapshot.text(task), policy);
        Ok(item.into_iter().collect())
    }
}

enum Answer {
    None,
    Failed(String),
    Text { name: String, text: String },
}

fn read(
    root: &Root,
    config: &config::Environment,
    warnings: &mut Vec<String>,
) -> Result<Answer, Error> {
    if config.command.is_empty() {
        let found = FILES.into_iter().find(|path| !root.is_absent(path));
        return match config.file.as_deref().or(found) {
            None => Ok(Answer::None),
            Some(path) => Ok(Answer::Text {
                name: path.to_owned(),
                text: root.read_required(path)?,
            }),
        };
    }
    let name = format!("the answer of `{}`", config.command.join(" "));
    let answer = run(root, config).and_then(|text| {
        // A command prints JSON.
        if let Err(error) = serde_json::from_str::<Value>(&text) {
            return Err(format!("printed something that is not JSON: {error}"));
        }
        match Snapshot::parse("its answer", &text) {
            Ok(_) => Ok(text),
            Err(error) => Err(format!(
                "printed JSON that is not a list of capabilities: {error}"
            )),
        }
    });
    match answer {
        Ok(text) => {
            // Saved for the next failure of the command; an error while saving
            // is ignored.
            let masked = serde_json::from_str(&text).map(contexture_engine::masked_json);
            let masked = masked.unwrap_or_default();
            let unchanged = root
                .read_text(KEPT, MAX_ANSWER)
                .is_ok_and(|kept| kept == masked);
            if !unchanged {
                let _ = root.write_private(KEPT, &masked);
            }
            Ok(Answer::Text { name, text })
        }
        Err(why) => {
            let why = format!("the command `{}` {why}", config.command.join(" "));
            match root.read_text(KEPT, MAX_ANSWER) {
                Ok(text) => {
                    warnings.push(format!("environment: {why}; using its last valid answer"));
                    Ok(Answer::Text { name, text })
                }
                // The row with the reason becomes a warning, like every other.
                Err(_) => Ok(Answer::Failed(format!("{why}; there is no earlier answer"))),
            }
        }
    }
}

fn failed(reason: String) -> Item {
    let content = Content::Absent {
        code: Code::UNREADABLE,
        reason,
    };
    let mut item = Item::with_content("environment", Role::System, content);
    item.trust = Trust::Operator;
    item
}

/// Runs the command in the root, for as long as it may take.
fn run(root: &Root, config: &config::Environment) -> Result<String, String> {
    let (program, arguments) = config.command.split_first().ok_or("is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(root.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot be run: {error}"))?;
    let Some(mut out) = child.stdout.take() else {
        return Err("has no output".to_owned());
    };
    let (send, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = out.by_ref().take(MAX_ANSWER + 1).read_to_end(&mut bytes);
        // If the receiver has stopped waiting, the result is not needed.
        let _ = send.send(read.map(|_| bytes));
        // Further output is not read: the pipe closes.
    });
    let limit = Duration::from_millis(config.timeout_ms);
    let status = wait(&mut child, limit);
    let mut answered = answer.try_recv().ok();
    // Closing the pipe ends most commands with a meaningless status.
    if let Some(Ok(bytes)) = &answered
        && bytes.len() as u64 > MAX_ANSWER
    {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("printed more than {MAX_ANSWER} bytes"));
    }
    let Some(status) = status.map_err(|error| format!("failed: {error}"))? else {
        // Processes that the command started may hold the pipe; they are not
        // waited for.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!(
            "was stopped: no answer after {} ms (environment.timeout_ms)",
            config.timeout_ms
        ));
    };
    if !status.success() {
        return Err(format!("failed: {status}"));
    }
    // A program in the background may keep the pipe open.
    if answered.is_none() {
        answered = answer.recv_timeout(limit).ok();
    }
    let bytes = match answered {
        Some(Ok(bytes)) => bytes,
        Some(Err(error)) => return Err(format!("cannot be read: {error}")),
        None => return Err("did not close its output".to_owned()),
    };
    if bytes.len() as u64 > MAX_ANSWER {
        return Err(format!("printed more than {MAX_ANSWER} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "printed something that is not UTF-8".to_owned())
}

fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

impl Snapshot {
    /// Reads capabilities in any of the forms that are in use: by category, as
    /// a list or a map to states, or as a flat list with categories.
    fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let refuse =
            |field: &str, why: &str| Error::input(format!("{name}: {field}: {why}")).advise(FORM);
        let value: Value = if text.trim_start().starts_with(['{', '[']) {
            json_with_path(name, text)
        } else {
            yaml::document(name, text).map(|document| document.to_json())
        }
        .map_err(|error| error.advise(FORM))?;
        let known = ["capabilities", "credentials"];
        let Some(map) = value.as_object() else {
            let message = format!("{name}: must be a mapping with `capabilities`");
            return Err(Error::input(message).advise(FORM));
        };
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(refuse(
                key,
                "unknown field; expected `capabilities` or `credentials`",
            ));
        }
        let mut snapshot = Self::default();
        match value.get("capabilities") {
            None | Some(Value::Null) => {}
            Some(Value::Object(categories)) => {
                for (category, value) in categories {
                    let list = Capability::list(value)
                        .ok_or_else(|| refuse(&format!("capabilities.{category}"), WANTED))?;
                    snapshot.add(category, list);
                }
            }
            Some(Value::Array(list)) => {
                for (i, value) in list.iter().enumerate() {
                    let capability = Capability::of(value)
                        .ok_or_else(|| refuse(&format!("capabilities[{i}]"), WANTED))?;
                    let category = value.get("category").and_then(Value::as_str);
                    snapshot.add(category.unwrap_or("Other"), vec![capability]);
                }
            }
            Some(_) => return Err(refuse("capabilities", WANTED)),
        }
        // By name, so that the order of a map's keys does not show.
        snapshot.categories.sort_by(|a, b| a.0.cmp(&b.0));
        snapshot.credentials = match value.get("credentials") {
            None | Some(Value::Null) => None,
            Some(credentials) => Some(
                credentials_text(credentials)
                    .ok_or_else(|| refuse("credentials", "must be counts or lists of names"))?,
            ),
        };
        Ok(snapshot)
    }

    fn add(&mut self, category: &str, list: Vec<Capability>) {
        match self
            .categories
            .iter_mut()
            .find(|(name, _)| name == category)
        {
            Some((_, known)) => known.extend(list),
            None => self.categories.push((category.to_owned(), list)),
        }
    }

    /// Returns the text of the section. Empty if there are no capabilities.
    fn text(&self, task: Option<&str>) -> String {
        let mut text = String::new();
        for (category, list) in &self.categories {
            let list: Vec<&Capability> = match task {
                None => list.iter().collect(),
                Some(task) => list
                    .iter()
                    .filter(|capability| {
                        is_named(task, &capability.name) || is_named(task, category)
                    })
                    .collect(),
            };
            if !list.is_empty() {
                text.push_str(&format!("\n{category}: {}", by_state(&list)));
            }
        }
        if !text.is_empty() {
            text = format!("\n\n### Capabilities\n{text}");
        }
        // A worker sees only what it needs; credentials are for the manager.
        if let (Some(credentials), None) = (&self.credentials, task) {
            text.push_str(&format!("\n\n### Credentials\n\n{credentials}"));
        }
        if text.is_empty() {
            return text;
        }
        format!("## Environment{text}")
    }
}

const FORM: &str = "write `capabilities: {Category: {name: state}}` and `credentials: \
                    {configured: 3, broken: [name]}`";

const WANTED: &str = "must be names with their state: a map, or a list of `{name, state, note}`";

impl Capability {
    fn list(value: &Value) -> Option<Vec<Self>> {
        match value {
            Value::Array(list) => list.iter().map(Self::of).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(name, state)| match state {
                    Value::Object(_) => Self::of(state).map(|mut capability| {
                        capability.name = name.clone();
                        capability
                    }),
                    _ => Some(Self {
                        name: name.clone(),
                        state: state.as_str()?.to_owned(),
                        note: None,
                    }),
                })
                .collect(),
            _ => None,
        }
    }

    fn of(value: &Value) -> Option<Self> {
        if let Some(name) = value.as_str() {
            return Some(Self {
                name: name.to_owned(),
                state: "active".to_owned(),
                note: None,
            });
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        value.is_object().then_some(())?;
        Some(Self {
            name: text("name").unwrap_or_default(),
            state: text("state").or_else(|| text("status"))?,
            note: text("note").or_else(|| text("reason")),
        })
    }
}

/// Writes capabilities by their state, those that work first.
fn by_state(list: &[&Capability]) -> String {
    let mut states: Vec<(&str, Option<&str>)> = Vec::new();
    for capability in list {
        let state = (capability.state.as_str(), capability.note.as_deref());
        if !states.contains(&state) {
            states.push(state);
        }
    }
    states.sort_by_key(|(state, note)| (*state != "active", *state != "ready", *state, *note));
    let groups: Vec<String> = states
        .into_iter()
        .map(|(state, note)| {
            let mut names: Vec<&str> = list
                .iter()
                .filter(|one| one.state == state && one.note.as_deref() == note)
                .map(|one| one.name.as_str())
                .collect();
            names.sort_unstable();
            match note {
                Some(note) => format!("{} ({state}: {note})", names.join(", ")),
                None => format!("{} ({state})", names.join(", ")),
            }
        })
        .collect();
    groups.join(" | ")
}

fn credentials_text(value: &Value) -> Option<String> {
    let map = value.as_object()?;
    let parts: Option<Vec<String>> = map
        .iter()
        .map(|(state, value)| match value {
            Value::Number(count) => Some(format!("{count} {state}")),
            Value::Array(names) => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                let names = names?;
                match names.len() {
                    0 => Some(String::new()),
                    count => Some(format!("{count} {state} ({})", names.join(", "))),
                }
            }
            _ => None,
        })
        .collect();
    let parts: Vec<String> = parts?.into_iter().filter(|part| !part.is_empty()).collect();
    Some(parts.join(" | "))
}

/// Returns true when `text` names `name`, as one word or as several.
fn is_named(text: &str, name: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (text, name) = (words(text), words(name));
    !name.is_empty() && name.iter().all(|word| text.contains(word))
}
