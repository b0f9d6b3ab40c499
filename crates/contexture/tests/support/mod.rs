//! A project, a store and an engine over both; turns in few words.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

pub mod counting;
pub mod dice;
pub mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use contexture::config::Config;
use contexture::core::Part;
use contexture::store::{NewSession, Recorded, Session, Store};
use contexture::turn::{Block, Message, MessageContent, MessageRole, NewTurn};
use contexture::{Assembled, Engine, Event, Format, Request, Root, Timestamp};
use contexture_sqlite::SqliteStore;
use serde_json::json;

/// The forms that providers take.
pub const PROVIDERS: [Format; 4] = [
    Format::Anthropic,
    Format::OpenAiChat,
    Format::OpenAiResponses,
    Format::Gemini,
];

/// A picture of one pixel.
pub const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A project with a store.
pub struct Lab {
    pub dir: tempfile::TempDir,
    pub root: Root,
    pub store: Arc<dyn Store>,
    pub engine: Engine,
    clock: AtomicI64,
}

impl Lab {
    /// Returns a project with these settings, the broker's recipe, and a short
    /// `AGENTS.md`.
    pub fn new(config: &str) -> Self {
        Self::over(config, |store| Arc::new(store))
    }

    /// Returns the same over a store that is wrapped.
    pub fn over(config: &str, wrap: impl FnOnce(SqliteStore) -> Arc<dyn Store>) -> Self {
        let dir = directory();
        std::fs::write(dir.path().join("AGENTS.md"), "Answer briefly.\n").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let store = wrap(SqliteStore::open(dir.path().join("lab.db")).unwrap());
        let engine = engine(config, &root, &store);
        Self {
            dir,
            root,
            store,
            engine,
            clock: AtomicI64::new(1_770_000_000),
        }
    }

    /// Returns a project over a store that counts, and the store.
    pub fn counting(config: &str) -> (Self, Arc<counting::Counting>) {
        let mut counting = None;
        let lab = Self::over(config, |store| {
            let store = Arc::new(counting::Counting::new(store));
            counting = Some(Arc::clone(&store));
            store
        });
        (lab, counting.unwrap())
    }

    /// Returns another engine over the same store, which remembers nothing.
    pub fn another(&self, config: &str) -> Engine {
        engine(config, &self.root, &self.store)
    }

    /// Creates a new engine with other settings.
    pub fn restart(&mut self, config: &str) {
        self.engine = self.another(config);
    }

    /// Writes a file, with the directories above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns a time that is later than the one before.
    pub fn tick(&self) -> Timestamp {
        let second = self.clock.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_second(second).unwrap()
    }

    pub fn session(&self, label: &str) -> Session {
        let new = NewSession {
            label: label.to_owned(),
            ..NewSession::default()
        };
        self.store.create_session(&new, self.tick()).unwrap()
    }

    /// Makes a session with these turns.
    pub fn talk(&self, label: &str, turns: &[NewTurn]) {
        self.session(label);
        for turn in turns {
            self.record(label, turn);
        }
    }

    pub fn record(&self, label: &str, turn: &NewTurn) -> Recorded {
        self.engine.record(label, turn, Some(self.tick())).unwrap()
    }

    pub fn fork(&self, label: &str, new: &str) {
        self.engine
            .fork(label, new, None, Some(self.tick()))
            .unwrap();
    }

    pub fn assemble(&self, label: &str, max_tokens: u64) -> Assembled {
        self.engine
            .assemble(&self.root, &request(label, max_tokens))
            .unwrap()
    }

    /// Returns what the pinned part costs: the system prompt and the event.
    pub fn pinned(&self) -> u64 {
        if self.store.session("(empty)").is_err() {
            self.session("(empty)");
        }
        let assembled = self.assemble("(empty)", 100_000);
        assembled.report.budget.used
    }
}

/// Returns a directory in memory, where there is such a thing: a store waits for
/// the disk with every turn.
fn directory() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = tempfile::tempdir_in(memory);
    made.or_else(|_| tempfile::tempdir()).unwrap()
}

/// Returns an engine over a store, with these settings.
pub fn engine(config: &str, root: &Root, store: &Arc<dyn Store>) -> Engine {
    let config = format!("recipe = \"broker\"\n{config}\n");
    let mut config = Config::parse(&config).unwrap();
    // Windows of a few hundred tokens are all for what is tested.
    config.reserve_response.get_or_insert(0);
    config.runtime.host = Some("lab".to_owned());
    Engine::new(config, root)
        .unwrap()
        .with_store(Arc::clone(store))
        .with_mark_key(contexture::core::guard::MarkKey::from_text("test"))
}

/// Returns `text` without the mark that the tags of these engines carry.
pub fn unmarked(text: &str) -> String {
    let key = contexture::core::guard::MarkKey::from_text("test");
    let mark = key.marks().next().unwrap();
    text.replace(&format!("-{mark}"), "")
}

pub const QUESTION: &str = "What is to be done now?";

pub fn request(label: &str, max_tokens: u64) -> Request {
    Request {
        session: Some(label.to_owned()),
        event: Some(Event::from(QUESTION)),
        max_tokens: Some(max_tokens),
        now: Some("2026-03-01T12:00:00Z".parse().unwrap()),
        ..Request::default()
    }
}

pub fn turn(messages: impl IntoIterator<Item = Message>) -> NewTurn {
    NewTurn {
        messages: messages.into_iter().collect(),
        ..NewTurn::default()
    }
}

/// Returns a question and its answer.
pub fn exchange(question: &str, answer: &str) -> NewTurn {
    turn([user(question), says(answer)])
}

pub fn message(role: MessageRole, content: MessageContent) -> Message {
    Message {
        role,
        source: None,
        content,
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

pub fn user(text: &str) -> Message {
    message(MessageRole::User, MessageContent::Text(text.to_owned()))
}

pub fn says(text: &str) -> Message {
    message(
        MessageRole::Assistant,
        MessageContent::Text(text.to_owned()),
    )
}

pub fn blocks(role: MessageRole, blocks: impl IntoIterator<Item = Block>) -> Message {
    message(role, MessageContent::Blocks(blocks.into_iter().collect()))
}

pub fn text(text: &str) -> Block {
    Block::Text {
        text: text.into(),
        native: None,
    }
}

pub fn call(id: &str, name: &str, argument: &str) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: json!({"argument": argument}),
        native: None,
    }
}

pub fn thought(text: &str, signature: Option<&str>) -> Block {
    Block::Thinking {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
        native: None,
    }
}

pub fn image() -> Block {
    Block::Image {
        media_type: "image/png".to_owned(),
        data: Some(PIXEL.to_owned()),
        url: None,
        native: None,
    }
}

/// Calls tools at the same time, by their ids.
pub fn calls<'a>(ids: impl IntoIterator<Item = &'a str>) -> Message {
    let ids = ids.into_iter();
    blocks(
        MessageRole::Assistant,
        ids.map(|id| call(id, "shell", "make test")),
    )
}

pub fn result(id: &str, content: &str) -> Message {
    let mut message = message(MessageRole::Tool, MessageContent::Text(content.to_owned()));
    message.tool_call_id = Some(id.to_owned());
    message
}

pub fn result_block(id: &str, content: &str) -> Block {
    Block::ToolResult {
        tool_call_id: id.to_owned(),
        content: content.to_owned(),
        is_error: false,
        native: None,
    }
}

/// Returns `words` words that no other number gives.
pub fn prose(number: usize, words: usize) -> String {
    const WORDS: [&str; 12] = [
        "parser", "retries", "the", "ledger", "when", "window", "moves", "and", "cache", "stays",
        "under", "load",
    ];
    let mut text = format!("Point {number}:");
    for i in 0..words {
        text.push(' ');
        text.push_str(WORDS[(i * 7 + number * 5 + i / 12) % WORDS.len()]);
    }
    text.push('.');
    text
}

/// Returns `n` plain exchanges of about that many words each.
pub fn chat(n: usize, words: usize) -> Vec<NewTurn> {
    (0..n)
        .map(|i| {
            exchange(
                &format!("Question {i}? {}", prose(i, words / 2)),
                &prose(i + 1000, words / 2),
            )
        })
        .collect()
}

/// Checks what every request must be: taken by every provider, whole in its
/// pinned part, within its budget by a second count.
pub fn check(assembled: &Assembled) -> Result<(), String> {
    let budget = &assembled.report.budget;
    let text = assembled
        .render(Format::Text)
        .map_err(|error| error.to_string())?;
    let media: u64 = (assembled.layout.blocks())
        .map(|block| block.surcharge)
        .sum();
    let counted = bpe_openai::o200k_base().count(text.as_str()) as u64 + media;
    if counted > budget.used || budget.used > budget.effective {
        return Err(format!(
            "{counted} counted, {} reported, {} available",
            budget.used, budget.effective
        ));
    }
    if !text.contains("Answer briefly.") || !text.contains(QUESTION) {
        return Err("the system prompt or the event is not whole".to_owned());
    }
    paired(assembled)?;
    let report = &assembled.report;
    let included = report.included.iter().map(|row| (&row.layer, &row.id));
    let excluded = report.excluded.iter().map(|row| (&row.layer, &row.id));
    let mut rows: Vec<_> = included.chain(excluded).collect();
    rows.sort();
    if let Some(twice) = rows.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{:?} is reported twice", twice[0]));
    }
    for format in PROVIDERS {
        let request = assembled
            .prompt()
            .request(format)
            .map_err(|refused| format!("{format:?}: {refused}"))?;
        contexture_providers::preflight(format, &request)
            .map_err(|refused| format!("{format:?}: {refused}"))?;
    }
    Ok(())
}

/// Checks pairs by its own rule: only tools speak between a call and its
/// result, and each call has exactly one result.
fn paired(assembled: &Assembled) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut calling = false;
    for block in &assembled.layout.history {
        match &block.part {
            Part::ToolCall { id, .. } => {
                if !seen.insert(id.clone()) {
                    return Err(format!("two calls are named {id}"));
                }
                if !calling && !open.is_empty() {
                    return Err(format!("{open:?} wait while {id} is called"));
                }
                calling = true;
                open.push(id);
            }
            Part::ToolResult { id, .. } => {
                calling = false;
                let at = open.iter().position(|call| **call == **id);
                let at = at.ok_or_else(|| format!("result of {id} without its call"))?;
                open.remove(at);
            }
            _ => {}
        }
    }
    match open.first() {
        None => Ok(()),
        Some(id) => Err(format!("call {id} without its result")),
    }
}
