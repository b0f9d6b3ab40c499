//! Shared functions of the tests of this crate.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

#[cfg(unix)]
pub mod faults;

use std::path::Path;
use std::process::{Command, Stdio};

use contexture_sqlite::SqliteStore;
use contexture_store::{
    Block, Counted, Ledger, Message, MessageContent, MessageRole, NewSession, NewTurn, TurnHead,
    TurnId, Walk,
};
use jiff::Timestamp;

pub const COUNTER: &str = "words";

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_770_000_000 + second).unwrap()
}

pub fn session(label: &str) -> NewSession {
    NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    }
}

pub fn message(role: MessageRole, text: &str) -> Message {
    Message {
        role,
        source: None,
        content: MessageContent::Text(text.to_owned()),
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

/// A turn with one message of the user.
pub fn turn(said: &str) -> NewTurn {
    NewTurn {
        messages: vec![
            message(MessageRole::User, said),
            message(MessageRole::Assistant, "I see."),
        ],
        ..NewTurn::default()
    }
}

/// A turn in which a tool returns `text`.
pub fn turn_with_result(text: &str) -> NewTurn {
    let call = Block::ToolCall {
        id: "c1".to_owned(),
        name: "shell".to_owned(),
        arguments: serde_json::json!({"command": "make"}),
        native: None,
    };
    let calls = Message {
        content: MessageContent::Blocks(vec![call]),
        ..message(MessageRole::Assistant, "")
    };
    let result = Message {
        tool_call_id: Some("c1".to_owned()),
        ..message(MessageRole::Tool, text)
    };
    NewTurn {
        messages: vec![message(MessageRole::User, "go"), calls, result],
        ..NewTurn::default()
    }
}

/// Counts of one token for each message of a turn.
pub fn counted(turn: &NewTurn) -> Counted {
    Counted {
        counter: COUNTER.to_owned(),
        blocks: vec![vec![1]; turn.messages.len()],
    }
}

/// A walk to the root.
pub const EVERYTHING: Walk<'static> = Walk {
    counter: COUNTER,
    tokens: u64::MAX,
    at_least: 0,
    through: None,
};

/// Returns the whole path to a turn, newest first.
pub fn path(store: &SqliteStore, from: TurnId) -> Vec<TurnHead> {
    store.walk(from, &EVERYTHING).unwrap()
}

/// Checks a store whose sessions were only recorded to: no row is incomplete,
/// and each session is one chain without a gap. Returns the turns of all
/// sessions with the hashes of their messages.
pub fn check_store(path: &Path) -> Vec<(TurnId, TurnId)> {
    check_rows(path);
    let store = SqliteStore::open(path).unwrap();
    let mut turns = Vec::new();
    for session in store.sessions(None, usize::MAX).unwrap() {
        turns.extend(check_chain(&store, &session.label));
    }
    let connection = rusqlite::Connection::open(path).unwrap();
    let all: u32 = connection
        .query_row("SELECT count(*) FROM turns", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        all as usize,
        turns.len(),
        "a turn that belongs to no session"
    );
    turns
}

/// Checks that the file is intact and that no row refers to a missing one.
pub fn check_rows(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
    let orphans = connection
        .prepare("PRAGMA foreign_key_check")
        .unwrap()
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .count();
    assert_eq!(orphans, 0, "rows that refer to nothing");
}

/// Checks one session, turn by turn, against the recorded turns.
fn check_chain(store: &SqliteStore, label: &str) -> Vec<(TurnId, TurnId)> {
    let session = store.session(label).unwrap();
    let heads = match session.head {
        Some(head) => path(store, head),
        None => Vec::new(),
    };
    assert_eq!(heads.len() as u64, session.turns);
    let ids: Vec<TurnId> = heads.iter().map(|head| head.id).collect();
    let turns = store.turns(&ids, COUNTER).unwrap();
    let mut checked = Vec::new();
    for (i, turn) in turns.iter().enumerate() {
        assert_eq!(turn.depth, session.turns - i as u64, "a gap");
        assert_eq!(turn.parent, ids.get(i + 1).copied(), "a wrong parent");
        // The id is a hash of the whole turn, so a missing message or field
        // would change it.
        let body = turn.turn.body();
        let id = body.id(turn.parent, label, turn.created_at);
        assert_eq!(id, turn.id, "not what was recorded");
        checked.push((turn.id, body.hash()));
        let counts = turn.counts.as_ref().expect("the counts of every turn");
        assert_eq!(counts.len(), turn.turn.messages.len());
    }
    // One move for each turn, and one for the creation of the session.
    let moves = store.head_moves(label, usize::MAX).unwrap();
    assert_eq!(moves.len(), turns.len() + 1);
    assert_eq!(moves[0].to, session.head);
    for (moved, turn) in moves.iter().zip(&turns) {
        assert_eq!((moved.from, moved.to), (turn.parent, Some(turn.id)));
    }
    checked
}

/// Returns a command that runs the test `name` of this test binary in its own
/// process, with `path` in `CONTEXTURE_TEST_PATH`.
pub fn child(name: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("CONTEXTURE_TEST_PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns the path of a [`child`]. Returns `None` when the test runs in the
/// parent process.
pub fn child_path() -> Option<std::path::PathBuf> {
    std::env::var_os("CONTEXTURE_TEST_PATH").map(Into::into)
}

/// Runs a child to its end, which must be a success.
pub fn run(mut child: Command) -> String {
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

/// Prints a line for the parent in one write. `println!` is not used, because
/// the test harness may capture it.
pub fn say(line: &str) {
    use std::io::Write;
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{line}\n").as_bytes()).unwrap();
    output.flush().unwrap();
}

/// Returns the complete lines that begin with `word`, without the word. The
/// last line of a killed process may be incomplete and is ignored.
pub fn said<'a>(output: &'a str, word: &str) -> Vec<&'a str> {
    output
        .split_inclusive('\n')
        .filter_map(|line| {
            line.strip_suffix('\n')?
                .strip_prefix(word)?
                .strip_prefix(' ')
        })
        .collect()
}

/// A small pseudorandom generator with a fixed seed.
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Returns the number of rounds of a test: `small` times `CONTEXTURE_FAULTS`.
pub fn rounds(small: u64) -> u64 {
    let times = std::env::var("CONTEXTURE_FAULTS").ok();
    small * times.and_then(|times| times.parse().ok()).unwrap_or(1)
}
