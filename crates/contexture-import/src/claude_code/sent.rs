//! Rows that describe sent requests: `api-request-shape`, `api-request-blob`
//! and `api-request`.
//!
//! A message of a request is a blob, or one of the transcript's own messages.
//! It is identified by the SHA-256 of its JSON with sorted keys, in which a
//! text is one text block. The content of a row is compared with its digest
//! before it is used. The digest of a whole request is compared, too: a request
//! that differs is stored and counted.

use std::collections::HashMap;
use std::rc::Rc;

use contexture_core::ContentHash;
use contexture_engine::snapshot::recorded::{CacheMark, PathPart};
use contexture_store::Blob;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::request_digest::{RequestDigests, RequestParts};
use super::row::Row;
use crate::canonical::{Sha, digest, message_digest, sha_from_hex};
use crate::report::Counts;
use crate::requests::{Requests, Shape};

/// The maximum bytes of messages in memory that a request may refer to.
const MOST_CANDIDATES: usize = 32 << 20;

/// The maximum bytes of these messages that are stored between imports.
const MOST_STORED: usize = 1 << 20;

/// The maximum bytes of messages of incomplete requests that are kept for digests.
const MOST_NEW: usize = 32 << 20;

/// A request that was rebuilt, and has no answer yet.
pub(super) struct OpenRequest {
    pub(super) hash: ContentHash,
    pub(super) model: String,
    pub(super) blobs: Vec<Blob>,
    pub(super) at: Timestamp,
    /// The start of its row in the file.
    pub(super) offset: u64,
}

/// The sent requests, as far as a file describes them.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) requests: Requests,
    /// The offset of each shape in the file.
    pub(super) shapes: HashMap<String, u64>,
    shape_texts: HashMap<String, String>,
    fields: HashMap<(String, String), ContentHash>,
    fresh_fields: Vec<Blob>,
    // Messages of the transcript since the last request.
    candidates: Vec<Rc<str>>,
    candidate_bytes: usize,
    // The messages of the user's side since the last answer.
    since_answer: Vec<Rc<str>>,
    blobs: HashMap<Sha, String>,
    // The messages that were added since the last complete request, by their numbers.
    new_messages: HashMap<u32, Rc<str>>,
    new_bytes: usize,
    // The parts of an answer that was imported before.
    part_key: String,
    parts: Vec<String>,
    pub(super) open: HashMap<String, OpenRequest>,
    digests: RequestDigests,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

impl Sent {
    /// Records a message of the user's side.
    pub(super) fn said(&mut self, message: &str) {
        let message: Rc<str> = message.into();
        self.since_answer.push(Rc::clone(&message));
        self.candidate(message);
    }

    /// Records the beginning of an answer.
    pub(super) fn begin_answer(&mut self) {
        if self.since_answer.len() > 1
            && let Some(joined) = self.joined().pop()
        {
            self.candidate(joined.into());
        }
        self.since_answer.clear();
    }

    /// Records an answer.
    pub(super) fn answered(&mut self, message: String) {
        self.candidate(message.into());
    }

    /// Records a part of an answer that was imported before.
    pub(super) fn answered_part(&mut self, key: &str, content: &str) {
        if self.part_key != key {
            self.join_parts();
            self.begin_answer();
            self.part_key = key.to_owned();
        }
        let inner = content
            .strip_prefix('[')
            .and_then(|it| it.strip_suffix(']'));
        self.parts.extend(inner.map(str::to_owned));
    }

    /// Records the answer whose parts were recorded.
    pub(super) fn join_parts(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            let parts = parts.join(",");
            self.answered(format!(r#"{{"role":"assistant","content":[{parts}]}}"#));
        }
    }

    fn candidate(&mut self, message: Rc<str>) {
        self.candidate_bytes += message.len();
        self.candidates.push(message);
        if self.candidate_bytes > MOST_CANDIDATES {
            // A file without requests: no request refers to old messages any
            // more.
            self.candidates.clear();
            self.since_answer.clear();
            self.candidate_bytes = 0;
        }
    }

    /// Returns the messages that the next request may refer to: those since the
    /// last request, and those since the last answer. They are stored between
    /// imports, unless the file has no requests. Long ones, such as images, are
    /// added to the messages of requests instead.
    pub(super) fn pending(&mut self) -> (Vec<String>, Vec<String>) {
        if self.shapes.is_empty() {
            return (Vec::new(), Vec::new());
        }
        if self.candidate_bytes > MOST_STORED {
            self.add_candidates();
            self.add_joined();
            return (Vec::new(), Vec::new());
        }
        let texts = |all: &[Rc<str>]| all.iter().map(|one| one.to_string()).collect();
        (texts(&self.candidates), texts(&self.since_answer))
    }

    /// Forgets the messages that a request may refer to.
    pub(super) fn forget_messages(&mut self) {
        self.candidates = Vec::new();
        self.since_answer = Vec::new();
        self.blobs = HashMap::new();
        self.new_messages = HashMap::new();
        self.new_bytes = 0;
        self.digests = RequestDigests::default();
        self.shape_texts = HashMap::new();
    }

    /// Continues with messages that were stored.
    pub(super) fn resume(&mut self, (candidates, since_answer): (Vec<String>, Vec<String>)) {
        self.candidate_bytes = candidates.iter().map(String::len).sum();
        let texts = |all: Vec<String>| all.into_iter().map(Rc::from).collect();
        self.candidates = texts(candidates);
        self.since_answer = texts(since_answer);
    }

    /// Records the system prompt and the tools of requests.
    pub(super) fn shape(&mut self, row: &Row<'_>, offset: u64, counts: &mut Counts) {
        let (Some(hash), Some(shape)) = (&row.shape_hash, row.shape) else {
            return;
        };
        let is_it = sha_from_hex(hash).is_some_and(|hash| digest(shape.get()) == Some(hash));
        if !is_it {
            counts.digest_mismatches += 1;
            return;
        }
        self.shapes.entry(hash.to_string()).or_insert(offset);
        self.shape_texts
            .insert(hash.to_string(), shape.get().to_owned());
    }

    /// Records a message that is not in the transcript.
    pub(super) fn blob(&mut self, row: &Row<'_>, counts: &mut Counts) {
        let (Some(hash), Some(message)) = (&row.hash, row.message) else {
            return;
        };
        match sha_from_hex(hash) {
            Some(hash) if message_digest(message) == Some(hash) => {
                if !self.requests.knows(&hash) {
                    self.blobs.insert(hash, message.to_owned());
                }
            }
            _ => counts.digest_mismatches += 1,
        }
    }

    /// Rebuilds a request. `reread` returns the shape row at an offset. Returns
    /// content to be stored: the new messages of an incomplete request.
    pub(super) fn request(
        &mut self,
        row: &Row<'_>,
        offset: u64,
        at: Timestamp,
        counts: &mut Counts,
        reread: impl FnOnce(u64) -> Option<String>,
    ) -> Vec<Blob> {
        self.add_candidates();
        let rebuilt = self.rebuild(row, offset, at, counts, reread);
        // The next request may have messages of one that is incomplete.
        if rebuilt.is_some() || self.new_bytes > MOST_NEW {
            self.new_messages.clear();
            self.new_bytes = 0;
        }
        match (rebuilt, &row.id) {
            (Some(mut request), Some(id)) => {
                // A row may be there twice. The second request consists of content of
                // the first one.
                if let Some(same) = self.open.remove(&**id) {
                    request.blobs.extend(same.blobs);
                }
                self.open.insert(id.to_string(), request);
                Vec::new()
            }
            _ => {
                counts.incomplete_requests += 1;
                self.requests.take_fresh()
            }
        }
    }

    fn rebuild(
        &mut self,
        row: &Row<'_>,
        offset: u64,
        at: Timestamp,
        counts: &mut Counts,
        reread: impl FnOnce(u64) -> Option<String>,
    ) -> Option<OpenRequest> {
        let id = row.id.as_deref()?;
        let keep = row.keep.unwrap_or(0);
        let tail = row.tail.as_ref()?.iter().map(|hash| sha_from_hex(hash));
        let tail: Vec<Sha> = tail.collect::<Option<_>>()?;
        let marks: Vec<CacheMark> = match row.cache_control {
            Some(marks) => serde_json::from_str(marks.get()).ok()?,
            None => Vec::new(),
        };
        for (i, digest) in tail.iter().enumerate() {
            if let Some(message) = self.blobs.remove(digest) {
                let message = match has_mark(&marks, keep.saturating_add(i)) {
                    true => without_list(&message).unwrap_or(message),
                    false => message,
                };
                self.add_message(*digest, message.into());
            }
        }
        if tail.iter().any(|digest| !self.requests.knows(digest)) {
            self.add_joined();
        }
        let list = self.requests.list(row.base.as_deref(), keep, &tail)?;
        let shape_hash = row.shape_hash.as_deref()?;
        let params = row.params?.get();
        let fields = self.fields(shape_hash, params, reread)?;
        let model = model_of(params)?;
        if let Some(shape) = self.shape_texts.get(shape_hash) {
            let parts = RequestParts {
                params,
                shape_hash,
                shape,
                messages: &list,
                marks: &marks,
            };
            let expected = row.request_digest.as_deref().and_then(sha_from_hex);
            if self.digests.check(&parts, expected, &self.new_messages) == Some(false) {
                counts.digest_mismatches += 1;
            }
        }
        let shape = Shape {
            api: "anthropic",
            model: &model,
            fields,
            list: "messages",
        };
        let (hash, mut blobs) = self.requests.build(id, list, shape, marks);
        blobs.append(&mut self.fresh_fields);
        Some(OpenRequest {
            hash,
            model,
            blobs,
            at,
            offset,
        })
    }

    /// Adds the messages of the transcript since the last request.
    fn add_candidates(&mut self) {
        for message in std::mem::take(&mut self.candidates) {
            if let Some(digest) = message_digest(&message) {
                self.add_message(digest, message);
            }
        }
        self.candidate_bytes = 0;
    }

    /// Adds a message that requests may refer to.
    fn add_message(&mut self, digest: Sha, message: Rc<str>) {
        if let Some(number) = self.requests.add(digest, &message) {
            self.new_bytes += message.len();
            self.new_messages.insert(number, message);
        }
    }

    /// Adds the messages of the user's side since the last answer as one
    /// message.
    fn add_joined(&mut self) {
        for joined in self.joined() {
            if let Some(digest) = message_digest(&joined) {
                self.add_message(digest, joined.into());
            }
        }
    }

    /// Returns the messages of the user's side since the last answer as one
    /// message: the first rows, one more each time. Results of calls that ran
    /// at the same time are rows of their own.
    fn joined(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        let mut all = Vec::new();
        for message in &self.since_answer {
            let Ok(message) = serde_json::from_str::<Message<'_>>(message) else {
                break;
            };
            let content = message.content.get();
            match content.starts_with('"') {
                true => parts.push(format!(r#"{{"type":"text","text":{content}}}"#)),
                false => {
                    let inner = content
                        .strip_prefix('[')
                        .and_then(|it| it.strip_suffix(']'));
                    let inner = inner.unwrap_or_default();
                    if !inner.trim().is_empty() {
                        parts.push(inner.to_owned());
                    }
                }
            }
            all.push(format!(
                r#"{{"role":"user","content":[{}]}}"#,
                parts.join(",")
            ));
        }
        all
    }

    /// Returns the blob with all fields of a request but its messages.
    fn fields(
        &mut self,
        shape_hash: &str,
        params: &str,
        reread: impl FnOnce(u64) -> Option<String>,
    ) -> Option<ContentHash> {
        let key = (shape_hash.to_owned(), params.to_owned());
        if let Some(hash) = self.fields.get(&key) {
            return Some(*hash);
        }
        if !self.shape_texts.contains_key(shape_hash) {
            let offset = *self.shapes.get(shape_hash)?;
            let line = reread(offset)?;
            let row: Row<'_> = serde_json::from_str(&line).ok()?;
            self.shape_texts
                .insert(shape_hash.to_owned(), row.shape?.get().to_owned());
        }
        let shape: Map<String, Value> =
            serde_json::from_str(self.shape_texts.get(shape_hash)?).ok()?;
        let params: Map<String, Value> = serde_json::from_str(params).ok()?;
        let mut fields = Map::new();
        let is_model = |name: &str| name == "model";
        let first = params.iter().filter(|(name, _)| is_model(name));
        let others = params
            .iter()
            // A header of the request, not a field of the body.
            .filter(|(name, _)| !is_model(name) && *name != "betas");
        for (name, value) in first.chain(&shape).chain(others) {
            fields.insert(name.clone(), value.clone());
        }
        let blob = crate::writer::blob(Value::Object(fields).to_string().into_bytes());
        let hash = blob.hash;
        self.fresh_fields.push(blob);
        self.fields.insert(key, hash);
        Some(hash)
    }
}

fn model_of(params: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        model: String,
    }
    let params: Params = serde_json::from_str(params).ok()?;
    Some(params.model)
}

/// Returns true if the first block of a message has a cache mark.
fn has_mark(marks: &[CacheMark], message: usize) -> bool {
    let path = [
        PathPart::Field("messages".to_owned()),
        PathPart::Index(message),
        PathPart::Field("content".to_owned()),
        PathPart::Index(0),
    ];
    marks.iter().any(|mark| mark.path == path)
}

/// Returns a message that is one plain text block with its content as a text: a
/// text becomes a block only to carry a mark.
fn without_list(message: &str) -> Option<String> {
    let mut message: Map<String, Value> = serde_json::from_str(message).ok()?;
    let role = message.get("role")?.as_str()?;
    let [block] = &message.get("content")?.as_array()?[..] else {
        return None;
    };
    let fields = block.as_object()?;
    let is_text = fields.len() == 2 && fields.get("type")? == "text";
    let text = fields.get("text").filter(|text| text.is_string())?.clone();
    if !is_text || !matches!(role, "user" | "system") {
        return None;
    }
    message.insert("content".to_owned(), text);
    Some(Value::Object(message).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_a_block_for_its_mark_is_a_text_again() {
        let block = r#"{"role":"system","content":[{"type":"text","text":"a\nb"}],"output_config":{"effort":"medium"}}"#;
        let text = r#"{"role":"system","content":"a\nb","output_config":{"effort":"medium"}}"#;
        assert_eq!(without_list(block).as_deref(), Some(text));
        assert_eq!(message_digest(block), message_digest(text));
        for other in [
            r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a","citations":[]}]}"#,
            r#"{"role":"user","content":[{"type":"image","text":"a"}]}"#,
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"user","content":[]}"#,
        ] {
            assert_eq!(without_list(other), None, "{other}");
        }
    }
}
