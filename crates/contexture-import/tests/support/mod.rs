//! A store to import into, and its content as text.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};

use contexture_engine::snapshot::{LoadedChunks, Saved};
use contexture_import::{Import, Options, Report, format};
use contexture_providers::native::Api;
use contexture_sqlite::SqliteStore;
use contexture_store::{
    Block, Ledger, MessageContent, Session, Snapshot, Snapshots, Trees, Turn, TurnKind, Walk,
};
use serde_json::Value;

/// A store in a directory of its own.
pub struct Place {
    pub directory: tempfile::TempDir,
    pub store: SqliteStore,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path().join("contexture.db")).unwrap();
        Self { directory, store }
    }

    /// Copies fixtures, so that they can be changed.
    pub fn copy(&self, name: &str) -> PathBuf {
        let to = self.directory.path().join(name);
        copy_all(&fixture(name), &to);
        to
    }

    /// Writes a file.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn import(&self, source: &str, path: &Path) -> Report {
        self.import_with(source, path, options())
    }

    pub fn import_with(&self, source: &str, path: &Path, options: Options) -> Report {
        let format = format(source).unwrap();
        Import::new(&self.store, options)
            .path(format, path)
            .unwrap()
    }

    /// Returns every session with its turns as text.
    pub fn sessions(&self) -> String {
        let sessions = self.store.sessions(None, 1000).unwrap();
        let all: Vec<String> = sessions.iter().map(|one| self.session(one)).collect();
        all.join("\n")
    }

    pub fn session(&self, session: &Session) -> String {
        let mut out = format!("{}\n", session.label);
        if let Some(task) = &session.task {
            out += &format!("  task: {task}\n");
        }
        if let Some(parent) = &session.parent_session {
            out += &format!("  from: {parent}\n");
        }
        for turn in self.turns(session) {
            out += &show_turn(&turn);
        }
        out
    }

    /// Returns the turns of a session, oldest first.
    pub fn turns(&self, session: &Session) -> Vec<Turn> {
        let Some(head) = session.head else {
            return Vec::new();
        };
        let walk = Walk {
            counter: "",
            tokens: u64::MAX,
            at_least: 0,
            through: None,
        };
        let heads = self.store.walk(head, &walk).unwrap();
        let mut ids: Vec<_> = heads.iter().map(|head| head.id).collect();
        ids.reverse();
        self.store.turns(&ids, "").unwrap()
    }

    /// Returns the requests of a session, oldest first.
    pub fn requests(&self, session: &str) -> Vec<(Snapshot, Value)> {
        let mut found = self.store.snapshots(Some(session), 1000).unwrap();
        found.reverse();
        let mut loaded = LoadedChunks::default();
        let read = |snapshot: Snapshot| {
            let saved = Saved::load(&self.store, &snapshot).unwrap();
            saved.check(&self.store).unwrap();
            // The requests of a session in a row are read by their new messages.
            let next = Saved::load_with(&self.store, &snapshot, &mut loaded).unwrap();
            assert_eq!(without_native(&next), without_native(&saved));
            let texts = |saved: &Saved| {
                let layout = saved.layout(&self.store).unwrap();
                let texts = layout.blocks().map(|block| block.body().to_owned());
                texts.collect::<Vec<String>>()
            };
            assert_eq!(texts(&next), texts(&saved));
            let apis = [Api::Anthropic, Api::OpenAiResponses];
            let body = apis
                .iter()
                .filter_map(|api| saved.render(&self.store, api.format()).ok())
                .find(|body| body.starts_with("{\"model\""))
                .unwrap();
            (snapshot, serde_json::from_str(&body).unwrap())
        };
        found.into_iter().map(read).collect()
    }

    /// Returns every tree as text.
    pub fn trees(&self) -> String {
        let mut out = String::new();
        for info in self.store.trees(None, 1000).unwrap() {
            let tree = self.store.export_tree(&info.tree.id).unwrap();
            out += &format!("{} ({})", tree.tree.id, tree.tree.mode);
            if let Some(title) = &tree.tree.title {
                out += &format!(" {title}");
            }
            out += "\n";
            let short = |id: &str| id.rsplit('/').next().unwrap().to_owned();
            for node in &tree.nodes {
                let parent = tree
                    .edges
                    .iter()
                    .find(|edge| edge.target_node_id == node.id);
                let parent = parent.map_or("-".to_owned(), |edge| short(&edge.sources[0].node_id));
                let text = match &node.content {
                    MessageContent::Text(text) => text.replace('\n', "|"),
                    MessageContent::Blocks(_) => "blocks".to_owned(),
                };
                let mark = if node.flags().bookmarked { " *" } else { "" };
                let author = node.author.name();
                out += &format!("  {} < {parent} {author}: {text}{mark}\n", short(&node.id));
            }
            for path in &tree.paths {
                out += &format!("  path {}: {}\n", path.name, short(&path.head));
            }
        }
        out
    }
}

pub fn options() -> Options {
    Options {
        now: Some("2026-02-03T00:00:00Z".parse().unwrap()),
        ..Options::default()
    }
}

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn copy_all(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
        return;
    }
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}

pub fn show_turn(turn: &Turn) -> String {
    let mut out = String::new();
    if turn.kind == TurnKind::Compaction {
        let compaction = turn.compaction.as_ref().unwrap();
        let kept = compaction.first_kept.map_or("", |_| ", keeps turns");
        return format!(
            "  = {} ({}, {} -> {}{kept})\n",
            compaction.summary.replace('\n', "|"),
            compaction.trigger.name(),
            compaction.tokens_before,
            compaction.tokens_after
        );
    }
    let body = &turn.turn;
    out += &format!("  {}", turn.depth);
    for (name, value) in [
        ("", body.model.as_deref()),
        ("stop ", body.stop_reason.as_ref().map(|it| it.as_str())),
    ] {
        if let Some(value) = value {
            out += &format!(" {name}{value}");
        }
    }
    if let Some(usage) = body.usage {
        out += &format!(
            " {}+{} ({} cached)",
            usage.input_tokens, usage.output_tokens, usage.cached_input_tokens
        );
    }
    if body.request_hash.is_some() {
        out += " request";
    }
    if let Some(status) = body.status {
        out += &format!(" {status:?}").to_lowercase();
    }
    if let Some(error) = &body.error {
        out += &format!(" error: {}", error.message);
    }
    out += "\n";
    for message in &body.messages {
        for block in message.blocks() {
            let shown = match &*block {
                Block::Text { text, .. } => text.to_string(),
                Block::Thinking { text, .. } => format!("({text})"),
                Block::ToolCall {
                    id,
                    name,
                    arguments,
                    ..
                } => format!("{name} {arguments} as {id}"),
                Block::ToolResult {
                    tool_call_id,
                    content,
                    is_error,
                    ..
                } => {
                    let failed = if *is_error { "failed " } else { "" };
                    format!("{failed}{tool_call_id} -> {content}")
                }
                Block::Provider { provider, raw } => format!("{provider} {}", raw.as_str()),
                other => format!("{other:?}").chars().take(60).collect(),
            };
            let shown = shown.replace('\n', "|");
            out += &format!("    {}: {shown}\n", message.role.name());
        }
    }
    out
}

/// Compares texts, without the indentation that all lines of `expected` share.
#[track_caller]
pub fn assert_text(found: &str, expected: &str) {
    let lines: Vec<&str> = expected.lines().collect();
    let indent = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let expected: Vec<&str> = lines
        .iter()
        .map(|line| line.get(indent..).unwrap_or(""))
        .collect();
    let expected = expected.join("\n");
    assert!(
        found.trim() == expected.trim(),
        "found:\n{found}\n\nexpected:\n{expected}"
    );
}

/// Returns the blocks of a request without the cache marks, which are in the
/// provider's own form of a block.
fn without_native(saved: &Saved) -> Value {
    let mut contents = saved.to_json();
    for block in contents["blocks"].as_array_mut().unwrap() {
        block.as_object_mut().unwrap().remove("native");
    }
    contents
}
