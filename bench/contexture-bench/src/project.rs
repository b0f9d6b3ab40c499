//! What the parts that go through the engine share: a project with its store,
//! and turns to put there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use contexture::config::Config;
use contexture::core::guard::Policy;
use contexture::core::{Counts, Text};
use contexture::store::{
    Block, Counted, Message, MessageContent, MessageRole, NewSession, NewTurn, Store,
};
use contexture::{Engine, Request, Root, Timestamp, recipes};
use contexture_sqlite::SqliteStore;
use serde_json::Value;

/// The session that is measured.
pub(crate) const SESSION: &str = "main";

/// A project in a directory of its own.
pub(crate) struct Project {
    pub(crate) root: Root,
    pub(crate) config: Config,
    db: PathBuf,
}

impl Project {
    /// Makes a project for the recipe `broker`, with its store in `db`.
    pub(crate) fn new(dir: &Path, db: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let mut config = Config {
            recipe: "broker".to_owned(),
            model: "gpt-4o".to_owned(),
            ..Config::default()
        };
        // So that the prompt is the same everywhere.
        config.runtime.host = Some("bench".to_owned());
        Ok(Self {
            root: Root::open(dir)?,
            config,
            db,
        })
    }

    /// Has history cut without a summary: the window keeps the newest turns that
    /// fit, and when it must move, it moves as little as it can.
    pub(crate) fn sliding(mut self) -> anyhow::Result<Self> {
        let recipe = recipes::text("broker").context("no recipe `broker`")?;
        let sliding = recipe.replace("shrink_to: 60", "shrink_to: 100");
        anyhow::ensure!(recipe != sliding, "the recipe has no `shrink_to: 60`");
        std::fs::write(self.root.path().join("sliding.yml"), sliding)?;
        self.config.recipe = "sliding.yml".to_owned();
        self.config.compaction.enabled = false;
        Ok(self)
    }

    pub(crate) fn store(&self) -> anyhow::Result<Arc<SqliteStore>> {
        Ok(Arc::new(SqliteStore::open(&self.db)?))
    }

    /// Returns the engine that a server has: it does not wait for the disk.
    pub(crate) fn served_engine(&self, store: &Arc<SqliteStore>) -> anyhow::Result<Engine> {
        let store: Arc<dyn Store> = Arc::<SqliteStore>::clone(store);
        Ok(Engine::builder()
            .config(self.config.clone())
            .folder(self.root.path())
            .store(store)
            .confined()
            .background_snapshots()
            .build()?)
    }

    /// Returns an engine that has seen nothing yet.
    pub(crate) fn engine(&self, store: &Arc<SqliteStore>) -> anyhow::Result<Engine> {
        let store: Arc<dyn Store> = Arc::<SqliteStore>::clone(store);
        Ok(Engine::new(self.config.clone(), &self.root)?.with_store(store))
    }
}

/// Returns a request of the session, `max_tokens` long at most.
pub(crate) fn request(session: &str, event: &str, max_tokens: u64, at: i64) -> Request {
    Request {
        session: Some(session.to_owned()),
        event: (!event.is_empty()).then(|| event.into()),
        max_tokens: Some(max_tokens),
        now: Some(clock(at)),
        ..Request::default()
    }
}

/// Returns the time `seconds` after the beginning of the session.
pub(crate) fn clock(seconds: i64) -> Timestamp {
    let start = 1_780_000_000;
    Timestamp::from_second(start + seconds).unwrap_or_default()
}

pub(crate) fn session(label: &str) -> NewSession {
    NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    }
}

pub(crate) fn said(role: MessageRole, text: impl Into<String>) -> Message {
    message(role, MessageContent::Text(text.into()))
}

fn message(role: MessageRole, content: MessageContent) -> Message {
    Message {
        role,
        source: None,
        content,
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

/// A message of the model that calls a tool, and the tool's answer.
pub(crate) fn call(id: &str, name: &str, arguments: Value, result: &str) -> [Message; 2] {
    let call = Block::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
        native: None,
    };
    let mut answer = said(MessageRole::Tool, result);
    answer.tool_call_id = Some(id.to_owned());
    [
        message(MessageRole::Assistant, MessageContent::Blocks(vec![call])),
        answer,
    ]
}

pub(crate) fn turn(messages: Vec<Message>) -> NewTurn {
    NewTurn {
        messages,
        model: Some("gpt-4o".to_owned()),
        ..NewTurn::default()
    }
}

/// Counts a turn of plain text as the engine does when it records one.
pub(crate) fn counted(turn: &NewTurn) -> Counted {
    let counts = Counts::new(crate::counter());
    let tokens = |message: &Message| match &message.content {
        MessageContent::Text(text) => vec![counts.count_of(&Text::new(text))],
        MessageContent::Blocks(_) => Vec::new(),
    };
    Counted {
        counter: contexture::counter_name(&counts, Policy::default()),
        blocks: turn.messages.iter().map(tokens).collect(),
    }
}

/// Numbers that look random and are the same everywhere.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number from `low` to `high`.
    pub(crate) fn roll(&mut self, low: usize, high: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        low + (self.0 >> 33) as usize % (high - low + 1)
    }
}
