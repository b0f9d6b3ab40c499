//! The digest of a whole request, which an `api-request` row has: the SHA-256
//! of its parameters, system, tools and messages with all cache marks, as JSON
//! without white space and with sorted keys. A text is hashed as one text
//! block.
//!
//! Messages before every mark do not change from request to request. They are
//! hashed once, and the hash is continued. The fields after them are hashed for
//! each request that is checked, so only some requests are: the first of a
//! file, and then every sixteenth.

use std::collections::HashMap;
use std::rc::Rc;

use contexture_engine::snapshot::recorded::{CacheMark, PathPart};
use sha2::{Digest as _, Sha256};

use crate::canonical::{Mark, Sha, hash_message, split_fields};

/// The number of requests of a file that are all checked; afterwards only some
/// are.
const FIRST: u64 = 4;

/// After the first ones, one request in this many is checked.
const ONE_IN: u64 = 16;

/// The digests of the requests of a file.
#[derive(Default)]
pub(super) struct RequestDigests {
    seen: u64,
    frame: Option<Frame>,
    prefix: Option<Prefix>,
    // Messages that the prefix does not hold yet.
    texts: HashMap<u32, Rc<str>>,
}

/// A request without its messages, in the hashed form.
struct Frame {
    params: String,
    shape_hash: String,
    marks: Vec<CacheMark>,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// The hash of a request up to a message.
struct Prefix {
    before: Vec<u8>,
    messages: Vec<u32>,
    hasher: Sha256,
}

/// A request as a row describes it.
pub(super) struct RequestParts<'a> {
    pub(super) params: &'a str,
    pub(super) shape_hash: &'a str,
    pub(super) shape: &'a str,
    pub(super) messages: &'a [u32],
    pub(super) marks: &'a [CacheMark],
}

impl RequestDigests {
    /// Returns whether a request has the digest that its row has. `None` if that
    /// was not checked: the request is not one of those that are, or a message of
    /// it was imported before. `new` are the messages that are new.
    pub(super) fn check(
        &mut self,
        request: &RequestParts<'_>,
        expected: Option<Sha>,
        new: &HashMap<u32, Rc<str>>,
    ) -> Option<bool> {
        let number = self.seen;
        self.seen += 1;
        let done = self.hash(
            request,
            expected.filter(|_| number < FIRST || number.is_multiple_of(ONE_IN)),
            new,
        );
        // The messages that are needed for the next request.
        let known = self.prefix.as_ref().map_or(0, |it| it.messages.len());
        let mut kept = HashMap::new();
        for number in request.messages.iter().skip(known) {
            let text = self.texts.remove(number);
            let text = text.or_else(|| new.get(number).cloned());
            kept.extend(text.map(|text| (*number, text)));
        }
        self.texts = kept;
        done
    }

    fn hash(
        &mut self,
        request: &RequestParts<'_>,
        expected: Option<Sha>,
        new: &HashMap<u32, Rc<str>>,
    ) -> Option<bool> {
        let (of_messages, others): (Vec<&CacheMark>, Vec<&CacheMark>) =
            (request.marks.iter()).partition(|mark| message_of(mark).is_some());
        self.frame(request, &others)?;
        let frame = self.frame.as_ref()?;
        let first_mark = of_messages.iter().filter_map(|mark| message_of(mark)).min();
        let end = request.messages.len();
        let stable = first_mark.unwrap_or(end).min(end);
        // Messages that do not continue the hash start a new one.
        let goes_on = self.prefix.as_ref().is_some_and(|prefix| {
            prefix.before == frame.before
                && prefix.messages.len() <= stable
                && request.messages.starts_with(&prefix.messages)
        });
        if !goes_on {
            let mut hasher = Sha256::new();
            hasher.update(b"{");
            hasher.update(&frame.before);
            hasher.update(b"\"messages\":[");
            self.prefix = Some(Prefix {
                before: frame.before.clone(),
                messages: Vec::new(),
                hasher,
            });
        }
        let prefix = self.prefix.as_mut()?;
        let texts = &self.texts;
        let text = |number: u32| texts.get(&number).or_else(|| new.get(&number));
        for number in &request.messages[prefix.messages.len()..stable] {
            // A message that was imported before is not in memory.
            let Some(text) = text(*number) else {
                self.prefix = None;
                return None;
            };
            if !prefix.messages.is_empty() {
                prefix.hasher.update(b",");
            }
            hash_message(text, &[], &mut prefix.hasher)?;
            prefix.messages.push(*number);
        }
        let expected = expected?;
        let mut hasher = prefix.hasher.clone();
        let values: Vec<String> = of_messages.iter().map(|it| it.value.to_string()).collect();
        for (at, number) in request.messages.iter().enumerate().skip(stable) {
            if at > 0 {
                hasher.update(b",");
            }
            let marks = of_messages.iter().zip(&values);
            let marks = marks.filter(|(mark, _)| message_of(mark) == Some(at));
            let marks: Vec<Mark<'_>> = marks
                .map(|(mark, value)| (&mark.path[2..], value.as_str()))
                .collect();
            hash_message(text(*number)?, &marks, &mut hasher)?;
        }
        hasher.update(b"]");
        hasher.update(&frame.after);
        hasher.update(b"}");
        let found: Sha = hasher.finalize().into();
        Some(found == expected)
    }

    /// Prepares the fields of a request, unless those of the previous request
    /// are the same.
    fn frame(&mut self, request: &RequestParts<'_>, marks: &[&CacheMark]) -> Option<()> {
        let is_same = self.frame.as_ref().is_some_and(|frame| {
            frame.params == request.params
                && frame.shape_hash == request.shape_hash
                && frame.marks.iter().eq(marks.iter().copied())
        });
        if is_same {
            return Some(());
        }
        let values: Vec<String> = marks.iter().map(|it| it.value.to_string()).collect();
        let all: Vec<Mark<'_>> = (marks.iter().zip(&values))
            .map(|(mark, value)| (mark.path.as_slice(), value.as_str()))
            .collect();
        let (before, after) = split_fields([request.params, request.shape], &all, "messages")?;
        self.frame = Some(Frame {
            params: request.params.to_owned(),
            shape_hash: request.shape_hash.to_owned(),
            marks: marks.iter().map(|mark| (*mark).clone()).collect(),
            before,
            after,
        });
        Some(())
    }
}

/// Returns the message that a mark is in.
fn message_of(mark: &CacheMark) -> Option<usize> {
    match mark.path.as_slice() {
        [PathPart::Field(list), PathPart::Index(at), ..] if list == "messages" => Some(*at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn mark(path: serde_json::Value) -> CacheMark {
        serde_json::from_value(json!({"path": path, "value": {"type": "ephemeral"}})).unwrap()
    }

    fn sha(text: &str) -> Sha {
        Sha256::digest(text.as_bytes()).into()
    }

    #[test]
    fn a_request_is_hashed_with_its_marks() {
        let messages = [
            r#"{"role":"user","content":"one"}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"two"}]}"#,
            r#"{"role":"user","content":"three"}"#,
        ];
        let new: HashMap<u32, Rc<str>> = (0..).zip(messages.map(Rc::from)).collect();
        let mut digests = RequestDigests::default();
        let head = r#"{"betas":["b"],"max_tokens":9,"messages":["#;
        let tail = r#"],"model":"m","system":[{"cache_control":{"type":"ephemeral"},"text":"s","type":"text"}],"tools":[]}"#;
        let block = |text: &str, mark: &str| {
            format!(r#"{{"content":[{{{mark}"text":"{text}","type":"text"}}],"role":"user"}}"#)
        };
        let marked = r#""cache_control":{"type":"ephemeral"},"#;
        let two = r#"{"content":[{"text":"two","type":"text"}],"role":"assistant"}"#;
        for (list, at, body) in [
            (&[0][..], 0, block("one", marked)),
            (
                &[0, 1, 2],
                2,
                format!("{},{two},{}", block("one", ""), block("three", marked)),
            ),
        ] {
            let marks = [
                mark(json!(["system", 0])),
                mark(json!(["messages", at, "content", 0])),
            ];
            let request = RequestParts {
                params: r#"{"model":"m","betas":["b"],"max_tokens":9}"#,
                shape_hash: "x",
                shape: r#"{"tools":[],"system":[{"type":"text","text":"s"}]}"#,
                messages: list,
                marks: &marks,
            };
            let expected = sha(&format!("{head}{body}{tail}"));
            assert_eq!(digests.check(&request, Some(expected), &new), Some(true));
        }
        let marks = [mark(json!(["messages", 7, "content", 0]))];
        let request = RequestParts {
            params: "{}",
            shape_hash: "y",
            shape: "{}",
            messages: &[0, 1],
            marks: &marks,
        };
        assert_eq!(digests.check(&request, Some([0; 32]), &new), Some(false));
        assert_eq!(digests.check(&request, None, &new), None);
    }
}
