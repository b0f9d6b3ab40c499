//! OpenCode: `opencode.db`, a SQLite file with sessions, messages and their
//! parts; older versions have a JSON file for each.
//!
//! An answer holds the calls of the model with their results. A session with a
//! parent is a sub-agent's or a fork. `revert` names the first message that was
//! taken back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contexture_core::Usage;
use contexture_store::{
    Block, Compaction, Message, MessageRole, NewSession, NewTurn, StopReason, Trigger, TurnError,
    TurnStatus,
};
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, params};
use serde_json::{Map, Value};

use crate::error::ImportError;
use crate::exported::cut_label;
use crate::file::SourceFile;
use crate::format::{Environment, Format};
use crate::messages::{message, title};
use crate::writer::{TurnRef, Writer};

/// The format of OpenCode.
pub(crate) struct OpenCode;

const NAME: &str = "opencode";

/// The time to wait for another program that holds a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

impl Format for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "OpenCode"
    }

    fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        let configured = environment
            .variable("OPENCODE_DATA_DIR")
            .map(Path::to_owned);
        let shared = environment.variable("XDG_DATA_HOME");
        let shared = shared.map(|data| data.join("opencode"));
        let usual = environment.in_home(".local/share/opencode");
        configured.or(shared).or(usual).into_iter().collect()
    }

    fn is_transcript(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let in_sessions = path.components().any(|part| part.as_os_str() == "session");
        name.starts_with("opencode") && name.ends_with(".db")
            || in_sessions && name.starts_with("ses_") && name.ends_with(".json")
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let is_json = file.path.extension().is_some_and(|it| it == "json");
        let mut seen: BTreeMap<String, i64> = file
            .state
            .as_ref()
            .and_then(|state| serde_json::from_slice(state).ok())
            .unwrap_or_default();
        let is_held = match is_json {
            true => read_files(file, writer)?,
            false => read_database(file, &mut seen, writer)?,
        };
        // The file is read each time until its end is recorded.
        file.held = is_held.then_some(Duration::ZERO);
        file.new_state = serde_json::to_vec(&seen).unwrap_or_default();
        file.new_offset = file.size();
        Ok(())
    }
}

/// A session with its messages.
struct Stored {
    id: String,
    parent: Option<String>,
    title: Option<String>,
    created: Timestamp,
    // The first message that was taken back.
    reverted: Option<String>,
    // Whether nothing more is expected.
    is_settled: bool,
    messages: Vec<(String, Value, Vec<Value>)>,
}

fn read_database(
    file: &SourceFile<'_>,
    seen: &mut BTreeMap<String, i64>,
    writer: &mut Writer<'_>,
) -> Result<bool, ImportError> {
    let failed = |error: rusqlite::Error| {
        let is_locked = matches!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
        );
        if is_locked {
            // The file may be readable later without a change.
            let message = "is locked by another program; close it, or try again later";
            let error = std::io::Error::new(std::io::ErrorKind::ResourceBusy, message);
            return ImportError::file(file.path, error);
        }
        file.refuse(format!(
            "cannot be read as a SQLite file of OpenCode: {error}"
        ))
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file.path, flags).map_err(failed)?;
    db.busy_timeout(LOCK_TIMEOUT).map_err(failed)?;
    let mut select = db
        .prepare(
            "SELECT id, parent_id, title, time_created, time_updated, revert FROM session
             ORDER BY parent_id IS NOT NULL, time_created, id",
        )
        .map_err(failed)?;
    let rows = select.query_map([], |row| {
        let mut columns = Vec::with_capacity(6);
        for column in 0..6 {
            columns.push(Cell::read(row, column)?);
        }
        Ok(columns)
    });
    let rows: Result<Vec<Vec<Cell>>, _> = rows.map_err(failed)?.collect();
    let mut is_held = false;
    for columns in rows.map_err(failed)? {
        let text = |column: usize| columns.get(column).and_then(Cell::text);
        let number = |column: usize| columns.get(column).and_then(Cell::number);
        let Some(id) = text(0) else {
            let shown: Vec<String> = columns.iter().map(Cell::shown).collect();
            writer.unknown_part(NAME, &file.name, shown.join("|").as_bytes())?;
            continue;
        };
        let (parent, title, revert) = (text(1), text(2), text(5));
        let (created, updated) = (number(3), number(4));
        // A session without a time of its last change is always read.
        if updated.is_some() && seen.get(&id).copied() == updated {
            continue;
        }
        let mut messages = db
            .prepare_cached("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY id")
            .map_err(failed)?;
        let messages = messages
            .query_map([&id], |row| Ok((Cell::read(row, 0)?, Cell::read(row, 1)?)))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed)?;
        let mut stored = Stored {
            created: time(created).unwrap_or(file.now),
            reverted: revert.as_deref().and_then(reverted),
            is_settled: is_settled(updated, file),
            id: id.clone(),
            parent,
            title,
            messages: Vec::new(),
        };
        for (message, data) in messages {
            let value = data.object();
            let (Some(message), Some(value)) = (message.text(), value) else {
                writer.unknown_part(NAME, &file.name, data.shown().as_bytes())?;
                continue;
            };
            let mut parts = db
                .prepare_cached("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")
                .map_err(failed)?;
            let parts = parts
                .query_map(params![message], |row| Cell::read(row, 0))
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(failed)?;
            let mut read = Vec::new();
            for part in parts {
                match part.object() {
                    Some(part) => read.push(part),
                    None => writer.unknown_part(NAME, &file.name, part.shown().as_bytes())?,
                }
            }
            stored.messages.push((message, value, read));
        }
        match write(&stored, file, writer)? {
            true => is_held = true,
            false => {
                if let Some(updated) = updated {
                    seen.insert(id, updated);
                }
            }
        }
    }
    Ok(is_held)
}

/// A value of a row. SQLite accepts any type in any column.
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    // Text, or bytes that are not UTF-8.
    Bytes(Vec<u8>),
}

impl Cell {
    fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        Ok(match row.get_ref(column)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        })
    }

    fn text(&self) -> Option<String> {
        match self {
            Cell::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Cell::Integer(number) => Some(*number),
            Cell::Real(number) => Some(*number as i64),
            _ => None,
        }
    }

    /// Returns the JSON object that the value holds.
    fn object(&self) -> Option<Value> {
        let Cell::Bytes(bytes) = self else {
            return None;
        };
        let value: Option<Value> = serde_json::from_slice(bytes).ok();
        value.filter(Value::is_object)
    }

    fn shown(&self) -> String {
        match self {
            Cell::Null => "null".to_owned(),
            Cell::Integer(number) => number.to_string(),
            Cell::Real(number) => number.to_string(),
            Cell::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

/// Reads a session of an older version: `storage/session/PROJECT/ID.json`,
/// `storage/message/SESSION/ID.json` and `storage/part/MESSAGE/ID.json`.
fn read_files(file: &SourceFile<'_>, writer: &mut Writer<'_>) -> Result<bool, ImportError> {
    const MAX_FILE: u64 = 64 << 20;
    let bytes = file.bytes(MAX_FILE)?;
    let session: Value = serde_json::from_slice(&bytes)
        .map_err(|error| file.refuse(format!("is not a session of OpenCode: {error}")))?;
    let field = |name: &str| Some(session.get(name)?.as_str()?.to_owned());
    let Some(id) = field("id") else {
        return Err(file.refuse("is not a session of OpenCode: it has no `id`"));
    };
    let mut above = file.path.ancestors();
    let storage = above.find(|path| path.file_name().is_some_and(|name| name == "session"));
    let storage = storage.and_then(Path::parent).map(Path::to_owned);
    let storage = storage.unwrap_or_default();
    let created = session.get("time").and_then(|time| time.get("created"));
    let updated = session.get("time").and_then(|time| time.get("updated"));
    let mut stored = Stored {
        parent: field("parentID"),
        title: field("title"),
        created: time(created.and_then(Value::as_i64)).unwrap_or(file.now),
        reverted: session.get("revert").and_then(revert_id),
        is_settled: is_settled(updated.and_then(Value::as_i64), file),
        messages: Vec::new(),
        id,
    };
    for (id, data) in values(&storage.join("message").join(&stored.id), file, writer)? {
        let parts = values(&storage.join("part").join(&id), file, writer)?;
        let parts = parts.into_iter().map(|(_, part)| part).collect();
        stored.messages.push((id, data, parts));
    }
    write(&stored, file, writer)
}

/// Returns the JSON files of a directory by name. A file that is not understood
/// is stored as it is.
fn values(
    directory: &Path,
    file: &SourceFile<'_>,
    writer: &mut Writer<'_>,
) -> Result<Vec<(String, Value)>, ImportError> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            // OpenCode deleted the file meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ImportError::file(&path, error)),
        };
        let value: Option<Value> = serde_json::from_slice(&bytes).ok();
        match value.filter(Value::is_object) {
            Some(value) => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                found.push((name.into_owned(), value));
            }
            None => writer.unknown_part(NAME, &file.name, &bytes)?,
        }
    }
    Ok(found)
}

fn reverted(revert: &str) -> Option<String> {
    revert_id(&serde_json::from_str(revert).ok()?)
}

fn revert_id(revert: &Value) -> Option<String> {
    Some(revert.get("messageID")?.as_str()?.to_owned())
}

/// Reads Unix milliseconds.
fn time(milliseconds: Option<i64>) -> Option<Timestamp> {
    Timestamp::from_millisecond(milliseconds?).ok()
}

fn label(id: &str) -> String {
    cut_label(&format!("{NAME}:{id}"))
}

/// Writes a session. Returns true if its end is held back because more may follow.
fn write(
    stored: &Stored,
    file: &SourceFile<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, ImportError> {
    let session = label(&stored.id);
    let new = NewSession {
        label: session.clone(),
        parent_session: stored.parent.as_deref().map(label),
        task: stored.title.as_deref().and_then(title),
        ..NewSession::default()
    };
    let mut head: Option<TurnRef> = None;
    let mut kept: Option<Option<TurnRef>> = None;
    let mut waiting: Vec<Message> = Vec::new();
    let mut is_compacting = false;
    let mut at = stored.created;
    if stored.messages.is_empty() {
        return Ok(false);
    }
    writer.session(new, None, stored.created)?;
    let is_answer = |(_, data, _): &(String, Value, Vec<Value>)| {
        data.get("role").and_then(Value::as_str) != Some("user")
    };
    let last_answer = stored.messages.iter().rposition(is_answer);
    let mut is_held = false;
    for (at_message, (id, data, parts)) in stored.messages.iter().enumerate() {
        if stored.reverted.as_deref() == Some(id.as_str()) {
            kept = Some(head);
        }
        let created = data.get("time").and_then(|time| time.get("created"));
        at = time(created.and_then(Value::as_i64)).unwrap_or(at);
        if data.get("role").and_then(Value::as_str) == Some("user") {
            is_compacting = parts.iter().any(|part| kind(part) == "compaction");
            waiting.extend(user(parts));
            keep_unknown(parts, file, writer)?;
            continue;
        }
        // A later answer shows that the program has given up this one.
        if last_answer == Some(at_message) && !is_finished(data, parts) && !stored.is_settled {
            is_held = true;
            break;
        }
        keep_unknown(parts, file, writer)?;
        let is_summary = data.get("summary").and_then(Value::as_bool) == Some(true);
        if (is_summary || is_compacting)
            && let Some(parent) = head
        {
            is_compacting = false;
            waiting.clear();
            let compaction = compaction(data, parts);
            head = Some(writer.compaction(&session, parent, None, compaction, at)?);
            continue;
        }
        let turn = answer(data, parts, std::mem::take(&mut waiting));
        head = writer.turn(&session, head, turn, at)?;
    }
    let has_tail =
        file.with_tail && !is_held && waiting.iter().any(|one| one.role == MessageRole::User);
    is_held |= has_tail && !stored.is_settled;
    if has_tail && !is_held {
        let turn = NewTurn {
            messages: waiting,
            status: Some(TurnStatus::Pending),
            ..NewTurn::default()
        };
        head = writer.turn(&session, head, turn, at)?;
    }
    match kept {
        Some(kept) => {
            writer.head(&session, head, "imported", at)?;
            writer.head(&session, kept, "reverted", at)?;
        }
        None => writer.head(&session, head, "imported", at)?,
    }
    Ok(is_held)
}

/// Returns true if a session was last changed so long ago that nothing more is
/// expected. `updated`: Unix milliseconds.
fn is_settled(updated: Option<i64>, file: &SourceFile<'_>) -> bool {
    let updated = time(updated);
    file.rest.is_settled() && updated.is_none_or(|it| file.rest.is_settled_since(it))
}

/// Returns true if an answer is complete.
fn is_finished(data: &Value, parts: &[Value]) -> bool {
    let completed = data.get("time").and_then(|time| time.get("completed"));
    let is_running = |part: &Value| {
        let state = part.get("state").unwrap_or(&Value::Null);
        kind(part) == "tool" && matches!(text_of(state, "status"), "pending" | "running")
    };
    completed.is_some_and(Value::is_number)
        || data.get("error").is_some_and(Value::is_object)
        || !text_of(data, "finish").is_empty() && !parts.iter().any(is_running)
}

/// Stores the parts of a message whose type is not known.
fn keep_unknown(
    parts: &[Value],
    file: &SourceFile<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), ImportError> {
    const KNOWN: [&str; 12] = [
        "text",
        "reasoning",
        "tool",
        "file",
        "agent",
        "subtask",
        "compaction",
        // They hold nothing of the conversation.
        "step-start",
        "step-finish",
        "snapshot",
        "patch",
        "retry",
    ];
    for part in parts.iter().filter(|part| !KNOWN.contains(&kind(part))) {
        writer.unknown_part(NAME, &file.name, part.to_string().as_bytes())?;
    }
    Ok(())
}

fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn user(parts: &[Value]) -> Option<Message> {
    let mut blocks = Vec::new();
    for part in parts {
        match kind(part) {
            "text" => blocks.push(Block::text(text_of(part, "text"))),
            "file" => blocks.push(attached(part)),
            "agent" | "subtask" => blocks.push(Block::text(part.to_string())),
            _ => {}
        }
    }
    blocks.retain(|block| block.bytes() > 0);
    (!blocks.is_empty()).then(|| message(MessageRole::User, blocks))
}

fn attached(part: &Value) -> Block {
    let (mime, url) = (text_of(part, "mime"), text_of(part, "url"));
    let data = url.split_once(";base64,").map(|(_, data)| data.to_owned());
    if mime.starts_with("image/") && (data.is_some() || url.starts_with("http")) {
        return Block::Image {
            media_type: mime.to_owned(),
            url: data.is_none().then(|| url.to_owned()),
            data,
            native: None,
        };
    }
    Block::text(format!("[file {} {mime}]", text_of(part, "filename")))
}

fn answer(data: &Value, parts: &[Value], mut messages: Vec<Message>) -> NewTurn {
    let mut blocks = Vec::new();
    let mut results = Vec::new();
    for part in parts {
        match kind(part) {
            "text" if !text_of(part, "text").is_empty() => {
                blocks.push(Block::text(text_of(part, "text")));
            }
            "reasoning" if !text_of(part, "text").is_empty() => blocks.push(Block::Thinking {
                text: text_of(part, "text").to_owned(),
                signature: None,
                native: None,
            }),
            "tool" => call(part, &mut blocks, &mut results),
            "file" => blocks.push(attached(part)),
            _ => {}
        }
    }
    if !blocks.is_empty() {
        messages.push(message(MessageRole::Assistant, blocks));
    }
    if !results.is_empty() {
        messages.push(message(MessageRole::Tool, results));
    }
    let model = text_of(data, "modelID");
    let finish = text_of(data, "finish");
    let error = data.get("error").filter(|error| error.is_object());
    NewTurn {
        messages,
        model: (!model.is_empty()).then(|| model.to_owned()),
        provider: Some(text_of(data, "providerID").to_owned()).filter(|it| !it.is_empty()),
        usage: usage(data),
        stop_reason: (!finish.is_empty()).then(|| match finish {
            "tool-calls" => StopReason::ToolUse,
            other => StopReason::of(other),
        }),
        error: error.map(|error| TurnError {
            kind: contexture_store::ErrorKind::Unknown,
            message: error.to_string(),
        }),
        ..NewTurn::default()
    }
}

fn call(part: &Value, blocks: &mut Vec<Block>, results: &mut Vec<Block>) {
    let empty = Value::Object(Map::new());
    let state = part.get("state").unwrap_or(&empty);
    let id = text_of(part, "callID");
    let input = state.get("input").filter(|input| input.is_object());
    blocks.push(Block::ToolCall {
        id: id.to_owned(),
        name: text_of(part, "tool").to_owned(),
        arguments: input.unwrap_or(&empty).clone(),
        native: None,
    });
    let (content, is_error) = match text_of(state, "status") {
        "completed" => (text_of(state, "output"), false),
        "error" => (text_of(state, "error"), true),
        _ => return,
    };
    results.push(Block::ToolResult {
        tool_call_id: id.to_owned(),
        content: content.to_owned(),
        is_error,
        native: None,
    });
    let files = state.get("attachments").and_then(Value::as_array);
    results.extend(files.into_iter().flatten().map(attached));
}

fn usage(data: &Value) -> Option<Usage> {
    let tokens = data.get("tokens")?;
    let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
    let cache = tokens.get("cache");
    let read = number(cache.and_then(|cache| cache.get("read")));
    let written = number(cache.and_then(|cache| cache.get("write")));
    let reasoning = number(tokens.get("reasoning"));
    Some(Usage {
        input_tokens: number(tokens.get("input"))
            .saturating_add(read)
            .saturating_add(written),
        output_tokens: number(tokens.get("output")).saturating_add(reasoning),
        cached_input_tokens: read,
        cache_write_tokens: written,
        reasoning_tokens: reasoning,
    })
}

fn compaction(data: &Value, parts: &[Value]) -> Compaction {
    let texts = parts.iter().filter(|part| kind(part) == "text");
    let texts: Vec<&str> = texts.map(|part| text_of(part, "text")).collect();
    let summary = texts.join("\n\n");
    let usage = usage(data);
    let model = text_of(data, "modelID");
    Compaction {
        tokens_before: usage.map_or(0, |usage| usage.input_tokens),
        tokens_after: (summary.len() as u64).div_ceil(4),
        summary,
        summarized_through: None,
        first_kept: None,
        first_kept_message: 0,
        facts: None,
        made_of: Vec::new(),
        trigger: Trigger::ContextLimit,
        focus: None,
        summariser: match model.is_empty() {
            true => NAME.to_owned(),
            false => model.to_owned(),
        },
        usage,
    }
}
