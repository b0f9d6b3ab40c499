//! Trees in a short notation, and their requests.

use std::sync::Arc;

use contexture::store::{
    Agent, Author, Edge, EdgeKind, EdgeSource, Flags, MessageContent, Node, Preferences, SavedPath,
    SourceRole, Tree, TreeDocument, TreeMode,
};
use contexture::{Assembled, Engine, Error, Format, Request, Root, Timestamp};
use contexture_sqlite::SqliteStore;

/// An engine with a store of its own.
pub(crate) struct Lab {
    _directory: tempfile::TempDir,
    pub(crate) root: Root,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<SqliteStore>,
}

pub(crate) fn now() -> Timestamp {
    "2026-01-02T12:00:00Z".parse().unwrap()
}

impl Lab {
    /// Returns an engine with `settings` (TOML) and an empty store.
    pub(crate) fn new(settings: &str) -> Self {
        // In memory, where there is such a thing: a store waits for the disk.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.unwrap();
        std::fs::write(directory.path().join("contexture.toml"), settings).unwrap();
        let root = Root::open(directory.path()).unwrap();
        let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
        let store = Arc::new(store);
        let engine = Engine::for_root(&root).unwrap();
        let key = contexture::core::guard::MarkKey::from_text("test");
        let engine = engine.with_store(store.clone()).with_mark_key(key);
        Self {
            _directory: directory,
            root,
            engine,
            store,
        }
    }

    /// Returns an engine with the tree that `text` describes.
    pub(crate) fn with(text: &str) -> Self {
        let lab = Self::new("");
        lab.import(text);
        lab
    }

    pub(crate) fn import(&self, text: &str) {
        self.engine.import_tree(&tree(text), Some(now())).unwrap();
    }

    /// Returns what a request as on the command line gives.
    pub(crate) fn assemble(&self, request: &str) -> Result<Assembled, Error> {
        self.engine.assemble(&self.root, &request_of(request))
    }

    /// Returns the request as text with role tags.
    pub(crate) fn text(&self, request: &str) -> String {
        let assembled = self.assemble(request).unwrap();
        assembled
            .render(Format::Text)
            .unwrap()
            .replace(&format!("-{}", assembled.layout.mark), "")
    }

    /// Returns the error with its hint.
    pub(crate) fn complaint(&self, request: &str) -> String {
        let error = self.assemble(request).unwrap_err();
        assert!(error.is_input(), "{error}");
        match error.hint(&contexture::advice::Plain).as_deref() {
            Some(hint) => format!("{error}\nhint: {hint}"),
            None => error.to_string(),
        }
    }

    /// Returns what is not in the request, a line each: id, code, reason.
    pub(crate) fn left_out(&self, request: &str) -> String {
        let assembled = self.assemble(request).unwrap();
        let rows = assembled.report.excluded.iter();
        let line = |row: &contexture::core::Excluded| {
            format!("{}: {} ({})\n", row.id, row.code.as_str(), row.reason)
        };
        rows.map(line).collect()
    }
}

/// Reads `--head n3 --max-tokens 200` and so on; the tree is `t` unless named.
pub(crate) fn request_of(text: &str) -> Request {
    let mut request = Request {
        tree: Some("t".to_owned()),
        model: Some("gpt-4o".to_owned()),
        now: Some(now()),
        format: Some(Format::Json),
        ..Request::default()
    };
    for option in text.split("--").skip(1) {
        let (name, value) = option.split_once(' ').unwrap_or((option, ""));
        let value = value.trim().to_owned();
        match name.trim() {
            "tree" => request.tree = Some(value),
            "head" => request.head = Some(value),
            "path" => request.path = Some(value),
            "agent" => request.agent = Some(value),
            "recipe" => request.recipe = Some(value.into()),
            "model" => request.model = Some(value),
            "event" => request.event = Some(value.as_str().into()),
            "working-buffer" => request.working_buffer = Some(value),
            "instruct" => request.instructions.push(value),
            "context" => request.context.push(value),
            "include-annotations" => request.include_annotations = true,
            "max-tokens" => request.max_tokens = Some(value.parse().unwrap()),
            "format" => request.format = Some(serde_json::from_value(value.into()).unwrap()),
            "reserve" => request.reserve_response = Some(value.parse().unwrap()),
            other => panic!("unknown option {other}"),
        }
    }
    request
}

/// Reads a tree, a line each:
///
/// ```text
/// dialogue | buffer
/// system TEXT                 the tree's system context
/// prefer KEY VALUE            a preference
/// with system                 a document has a system context
/// agent ID [aware]: PROMPT
/// path NAME HEAD CHOICE…
/// ID human|model [FLAG…] [<- NODE…] [context NODE…] [instruction NODE…] [remark] [edits NODE]: TEXT
/// ```
///
/// A minute passes from line to line. `\n` in a text is a line end, `\s` a space.
pub(crate) fn tree(text: &str) -> TreeDocument {
    let mut document = TreeDocument {
        tree: Tree {
            id: "t".to_owned(),
            mode: TreeMode::Dialogue,
            title: None,
            system_context: None,
            buffer_mode_system_context: false,
            preferences: Preferences::default(),
            created_at: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        },
        agents: Vec::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
        paths: Vec::new(),
        memories: Vec::new(),
    };
    for (i, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() {
            continue;
        }
        let (head, body) = line
            .split_once(": ")
            .unwrap_or((line.trim_end_matches(':'), ""));
        let body = body.replace("\\n", "\n").replace("\\s", " ");
        let mut words = head.split_whitespace();
        let first = words.next().unwrap();
        let rest: Vec<&str> = words.collect();
        let tree = &mut document.tree;
        match first {
            "dialogue" => tree.mode = TreeMode::Dialogue,
            "buffer" => tree.mode = TreeMode::Buffer,
            "id" => tree.id = rest[0].to_owned(),
            "title" => tree.title = Some(rest.join(" ")),
            "system" => tree.system_context = Some(line["system ".len()..].replace("\\n", "\n")),
            "with" => tree.buffer_mode_system_context = true,
            "prefer" => {
                let preference = format!("{{\"{}\": {}}}", rest[0], quoted(rest[1]));
                let one: Preferences = serde_json::from_str(&preference).unwrap();
                let all = &mut tree.preferences;
                all.truncation_strategy = one.truncation_strategy.or(all.truncation_strategy);
                all.minimum_recent_nodes = one.minimum_recent_nodes.or(all.minimum_recent_nodes);
                all.token_buffer = one.token_buffer.or(all.token_buffer);
            }
            "agent" => document.agents.push(Agent {
                id: rest[0].to_owned(),
                kind: Author::Model,
                name: None,
                system_prompt: Some(body).filter(|text| !text.is_empty()),
                model: None,
                parameters: serde_json::Map::new(),
                permissions: Vec::new(),
                loom_aware: rest.contains(&"aware"),
                position: None,
            }),
            "path" => document.paths.push(SavedPath {
                name: rest[0].to_owned(),
                head: rest[1].to_owned(),
                choices: rest[2..].iter().map(|&word| word.to_owned()).collect(),
            }),
            id => node(&mut document, id, &rest, body, i),
        }
    }
    document
}

fn quoted(word: &str) -> String {
    match word.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("\"{word}\""),
    }
}

fn node(document: &mut TreeDocument, id: &str, words: &[&str], text: String, minute: usize) {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let created_at = start.as_second() + 60 * minute as i64;
    let mut flags = Flags::default();
    let mut edited_from = None;
    let mut kind = EdgeKind::Continuation;
    let mut sources = Vec::new();
    let mut role = None;
    let mut edits = false;
    for word in &words[1..] {
        match *word {
            "excluded" => flags.excluded = true,
            "pruned" => flags.pruned = true,
            "bookmarked" => flags.bookmarked = true,
            "remark" => kind = EdgeKind::Annotation,
            "<-" => (role, edits) = (Some(SourceRole::Primary), false),
            "context" => role = Some(SourceRole::Context),
            "instruction" => role = Some(SourceRole::Instruction),
            "edits" => edits = true,
            name if edits => edited_from = Some(name.to_owned()),
            name => sources.push(EdgeSource {
                node_id: name.to_owned(),
                role: role.unwrap_or_else(|| panic!("what is {name}?")),
            }),
        }
    }
    let content = match text.strip_prefix("!image ") {
        Some(url) => serde_json::from_value(serde_json::json!(
            [{"type": "image", "media_type": "image/png", "url": url}]
        ))
        .unwrap(),
        None => MessageContent::Text(text),
    };
    document.nodes.push(Node {
        id: id.to_owned(),
        local_id: None,
        author: match words[0] {
            "human" => Author::Human,
            "model" => Author::Model,
            other => panic!("unknown author {other}"),
        },
        author_agent_id: None,
        content,
        edited_from,
        metadata: Some(flags),
        created_at: Some(Timestamp::from_second(created_at).unwrap()),
        raw_response: None,
    });
    if !sources.is_empty() {
        let n = document.edges.len();
        document.edges.push(Edge {
            id: format!("e{n}"),
            kind,
            sources,
            target_node_id: id.to_owned(),
        });
    }
}

/// Compares texts after taking the indentation of the test away.
#[track_caller]
pub(crate) fn expect(actual: &str, expected: &str) {
    let lines: Vec<&str> = expected.trim_start_matches('\n').lines().collect();
    let indent = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let expected: Vec<&str> = lines
        .iter()
        .map(|line| line.get(indent..).unwrap_or_default())
        .collect();
    let expected = expected.join("\n");
    assert_eq!(actual.trim_end(), expected.trim_end(), "\n{actual}");
}
