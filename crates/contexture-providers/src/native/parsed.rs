//! [`ParsedRequest`]: a request that was read before, so that of the next one only
//! the end is read.
//!
//! An agent sends its whole conversation with each call. The next request begins
//! with the bytes of the one before: comparing them costs far less than reading
//! them.

use std::ops::Range;

use super::node::Node;
use super::{Api, utf8};

/// The bytes that are compared at once.
const CHUNK: usize = 4096;

/// A request that was read, with the positions of its messages.
#[derive(Debug, Clone)]
pub struct ParsedRequest {
    api: Api,
    body: Vec<u8>,
    // The byte ranges of the messages, which are objects.
    messages: Vec<Range<usize>>,
    // The number of instructions at the beginning of the messages.
    instructions: usize,
}

/// The end of a request: its instructions and settings, and its latest
/// messages.
///
/// The first of these messages may be a part of a longer one.
#[derive(Debug, Clone)]
pub struct RequestEnd {
    /// A request of its own, without the older messages. It can be read exactly
    /// if the whole one can.
    pub body: Vec<u8>,
    // The number of bytes that the whole request has in common with the known
    // one.
    common: usize,
    // The first message here, as an index in the whole request after its
    // instructions.
    first: usize,
    // The number of bytes that are left out.
    left_out: usize,
}

impl ParsedRequest {
    /// Remembers a body that [`read_request`](super::read_request) could read.
    ///
    /// Returns `None` if its messages are not a list of objects.
    pub fn new(body: &[u8], api: Api) -> Option<Self> {
        let (messages, instructions) = places(utf8(body).ok()?, api)?;
        // A mark at the beginning would move the places.
        let is_plain = body.first() == Some(&b'{');
        is_plain.then(|| Self {
            api,
            body: body.to_vec(),
            messages,
            instructions,
        })
    }

    /// Returns the API of the request.
    pub fn api(&self) -> Api {
        self.api
    }

    /// Returns the size of the request, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.messages.len() * size_of::<Range<usize>>()
    }

    /// Returns the end of `body`, if it begins like this request.
    ///
    /// `keep` is the minimum number of common messages that the end includes.
    pub fn end_of(&self, body: &[u8], keep: usize) -> Option<RequestEnd> {
        self.end_after(common_prefix(&self.body, body), body, keep)
    }

    /// Returns the end of `body` with its latest message, if it is this request.
    pub fn end_of_same(&self, body: &[u8]) -> Option<RequestEnd> {
        match self.body == body {
            true => self.end_after(body.len(), body, 1),
            false => None,
        }
    }

    /// Returns the end of `body`, of which `common` bytes are those of this request.
    fn end_after(&self, common: usize, body: &[u8], keep: usize) -> Option<RequestEnd> {
        let shared = self.messages.partition_point(|place| place.end <= common);
        let mut first = shared.checked_sub(keep)?;
        // An instruction between the messages must not come to be at the beginning.
        while first > self.instructions && self.is_instruction(first) {
            first -= 1;
        }
        if first <= self.instructions {
            return None;
        }
        let left_out = self.messages[self.instructions].start..self.messages[first].start;
        Some(RequestEnd {
            body: [&body[..left_out.start], &body[left_out.end..]].concat(),
            common,
            first,
            left_out: left_out.len(),
        })
    }

    /// Returns the end of `body` from its first new message on, if it begins with all
    /// messages of this request and the first new one is an answer of the model.
    ///
    /// If a blank answer is not read as a message, what follows it may belong to an
    /// earlier message: callers check that the first message of the end is the model's.
    pub fn added_in(&self, body: &[u8]) -> Option<RequestEnd> {
        // An API with items instead of messages joins several of them.
        if self.api == Api::OpenAiResponses {
            return None;
        }
        let common = common_prefix(&self.body, body);
        let before = self.messages.get(self.instructions)?.start;
        let last = self.messages.last()?;
        if last.end > common {
            return None;
        }
        let between = body[last.end..].iter().take_while(|byte| **byte != b'{');
        let start = last.end + between.count();
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let between = body[last.end..start].iter().filter(|byte| !is_space(byte));
        if !between.eq(b",") {
            return None;
        }
        let end = RequestEnd {
            body: [&body[..before], &body[start..]].concat(),
            common,
            first: self.messages.len(),
            left_out: start - before,
        };
        let root = Node::of_json(utf8(&end.body).ok()?);
        let all = root.each_of(self.api.messages_field()).ok()?;
        let added = all.get(self.instructions..)?;
        // One at the beginning of an end would be an instruction for all messages.
        if added.iter().any(is_instruction) {
            return None;
        }
        // An answer of the model begins a message. Results may belong to the one before:
        // to its other results, or to a call whose id they do not have.
        let role = role_of(added.first()?)?;
        let known = Node::of_json(utf8(&self.body[last.clone()]).ok()?);
        let is_answer = matches!(role.as_str(), "assistant" | "model");
        (is_answer && Some(role) != role_of(&known)).then_some(end)
    }

    /// Remembers `body` in place of this request. `end` is its end, which
    /// [`read_request`](super::read_request) could read.
    ///
    /// Returns false if the messages are not a list of objects; this request is
    /// then unchanged.
    pub fn replace(&mut self, body: &[u8], end: &RequestEnd) -> bool {
        if end.common == self.body.len() && end.common == body.len() {
            return true;
        }
        let found = utf8(&end.body).ok().and_then(|text| places(text, self.api));
        let Some((places, instructions)) = found else {
            return false;
        };
        if instructions != self.instructions {
            return false;
        }
        self.messages.truncate(end.first);
        let kept = places.into_iter().skip(instructions);
        let in_body = kept.map(|place| place.start + end.left_out..place.end + end.left_out);
        self.messages.extend(in_body);
        self.body.truncate(end.common);
        self.body.extend_from_slice(&body[end.common..]);
        true
    }

    fn is_instruction(&self, message: usize) -> bool {
        let json = self.body.get(self.messages[message].clone());
        let text = json.and_then(|json| std::str::from_utf8(json).ok());
        text.is_some_and(|text| is_instruction(&Node::of_json(text)))
    }
}

/// Returns whether a message of any API has the role of an instruction.
fn is_instruction(message: &Node<'_>) -> bool {
    role_of(message).is_some_and(|role| matches!(role.as_str(), "system" | "developer"))
}

fn role_of(message: &Node<'_>) -> Option<String> {
    message.string("role").ok().flatten()
}

/// Returns the places of a request's messages, and how many of them are
/// instructions at the beginning.
fn places(text: &str, api: Api) -> Option<(Vec<Range<usize>>, usize)> {
    let root = Node::of_json(text);
    let list = root.find(api.messages_field())?;
    let items = list.items().ok()?;
    let instructions = items.iter().take_while(|one| is_instruction(one)).count();
    let start = text.as_ptr().addr();
    let place = |node: &Node<'_>| {
        let at = node.raw.as_ptr().addr().checked_sub(start)?;
        node.is_object().then_some(at..at + node.raw.len())
    };
    let places = items.iter().map(place).collect::<Option<Vec<_>>>()?;
    Some((places, instructions))
}

/// Returns the number of bytes that two texts have in common at the beginning.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.chunks(CHUNK).zip(b.chunks(CHUNK));
    let same = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    let at = same.min(a.len()).min(b.len());
    let rest = a[at..].iter().zip(&b[at..]);
    at + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use contexture_core::message::MessageRole;

    use crate::native::read_request;

    /// A conversation of the Chat API: messages, calls and results.
    fn conversation() -> impl Strategy<Value = Vec<Value>> {
        let message = prop_oneof![
            "[a-c\"\\\\{}\\[\\], ü]{0,6}".prop_map(|text| json!({"role": "user", "content": text})),
            "[a-c]{1,4}".prop_map(|text| json!({"role": "assistant", "content": text})),
            "[a-c]{1,4}".prop_map(|text| json!({"role": "system", "content": text})),
            // It says nothing, and becomes no message.
            Just(json!({"role": "assistant", "content": ""})),
            Just(json!({"role": "assistant", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ]})),
            "[a-c]{1,4}"
                .prop_map(|text| json!({"role": "tool", "tool_call_id": "c", "content": text})),
        ];
        proptest::collection::vec(message, 0..24)
    }

    fn body(messages: &[Value], blanks: bool) -> Vec<u8> {
        let body = json!({"model": "gpt-5.6", "messages": messages, "temperature": 0});
        match blanks {
            true => serde_json::to_vec_pretty(&body).unwrap(),
            false => serde_json::to_vec(&body).unwrap(),
        }
    }

    proptest! {
        #[test]
        fn the_end_has_the_latest_messages_of_the_whole(
            known in conversation(),
            // The number of messages that are the same in the next request.
            same in 0_usize..24,
            more in conversation(),
            keep in 1_usize..6,
            blanks: bool,
        ) {
            let next: Vec<Value> = known.iter().take(same).chain(&more).cloned().collect();
            let next = body(&next, blanks);
            let Some(mut known) = ParsedRequest::new(&body(&known, blanks), Api::OpenAiChat) else {
                return Ok(());
            };
            let Some(end) = known.end_of(&next, keep) else {
                return Ok(());
            };
            let whole = read_request(&next, &[Api::OpenAiChat]).unwrap();
            let read = read_request(&end.body, &[Api::OpenAiChat]);
            let read = read.unwrap();
            prop_assert_eq!(&read.settings, &whole.settings);
            prop_assert_eq!(&read.system, &whole.system);
            let latest = read.messages.iter().rev().zip(whole.messages.iter().rev());
            let compared = read.messages.len().saturating_sub(1);
            for (read, whole) in latest.take(compared) {
                prop_assert_eq!(read, whole);
            }
            if known.replace(&next, &end) {
                let anew = ParsedRequest::new(&next, Api::OpenAiChat).unwrap();
                prop_assert_eq!(&known.body, &anew.body);
                prop_assert_eq!(&known.messages, &anew.messages);
                prop_assert_eq!(known.instructions, anew.instructions);
            }
        }

        #[test]
        fn the_added_messages_are_those_after_the_known_ones(
            known in conversation(),
            more in conversation(),
            blanks: bool,
        ) {
            let next: Vec<Value> = known.iter().chain(&more).cloned().collect();
            let (known, next) = (body(&known, blanks), body(&next, blanks));
            let Some(mut request) = ParsedRequest::new(&known, Api::OpenAiChat) else {
                return Ok(());
            };
            let Some(end) = request.added_in(&next) else {
                return Ok(());
            };
            let read = |body: &[u8]| read_request(body, &[Api::OpenAiChat]).unwrap();
            let (known, whole, added) = (read(&known), read(&next), read(&end.body));
            // Only then do callers use the end.
            let first = added.messages.first().map(|message| message.role);
            if first != Some(MessageRole::Assistant) {
                return Ok(());
            }
            prop_assert_eq!(&added.settings, &whole.settings);
            prop_assert_eq!(&added.system, &whole.system);
            prop_assert_eq!([known.messages, added.messages].concat(), whole.messages);
            prop_assert!(request.replace(&next, &end));
            let anew = ParsedRequest::new(&next, Api::OpenAiChat).unwrap();
            prop_assert_eq!(&request.body, &anew.body);
            prop_assert_eq!(&request.messages, &anew.messages);
            prop_assert_eq!(request.instructions, anew.instructions);
        }

        #[test]
        fn the_end_of_the_same_request_has_its_last_message(
            messages in conversation(),
            blanks: bool,
        ) {
            let body = body(&messages, blanks);
            let Some(mut request) = ParsedRequest::new(&body, Api::OpenAiChat) else {
                return Ok(());
            };
            let Some(end) = request.end_of_same(&body) else {
                return Ok(());
            };
            prop_assert!(request.end_of_same(&body[1..]).is_none());
            let read = |body: &[u8]| read_request(body, &[Api::OpenAiChat]).unwrap();
            let (whole, read) = (read(&body), read(&end.body));
            prop_assert_eq!(&read.settings, &whole.settings);
            prop_assert_eq!(&read.system, &whole.system);
            if let Some(last) = read.messages.last() {
                let latest = whole.messages.last().map(|message| message.role);
                prop_assert_eq!(Some(last.role), latest);
            }
            prop_assert!(request.replace(&body, &end));
            let anew = ParsedRequest::new(&body, Api::OpenAiChat).unwrap();
            prop_assert_eq!(&request.body, &anew.body);
            prop_assert_eq!(&request.messages, &anew.messages);
        }

        #[test]
        fn an_invalid_earlier_part_makes_the_end_invalid(
            known in conversation(),
            cut in 0_usize..200,
        ) {
            let whole = body(&known, false);
            let Some(known) = ParsedRequest::new(&whole, Api::OpenAiChat) else {
                return Ok(());
            };
            let cut = &whole[..whole.len().saturating_sub(cut)];
            let Some(end) = known.end_of(cut, 1) else {
                return Ok(());
            };
            prop_assert_eq!(
                read_request(cut, &[Api::OpenAiChat]).is_ok(),
                read_request(&end.body, &[Api::OpenAiChat]).is_ok()
            );
        }
    }

    #[test]
    fn fields_after_the_messages_are_not_added_messages() {
        let body = |messages: &str| {
            format!(
                r#"{{"model":"m","messages":[{messages}], "metadata":{{"role":"assistant","content":"x"}}}}"#
            )
        };
        let asked = r#"{"role":"user","content":"a"}"#;
        let answered = r#"{"role":"assistant","content":"b"}"#;
        let known = ParsedRequest::new(body(asked).as_bytes(), Api::OpenAiChat).unwrap();
        assert!(known.added_in(body(asked).as_bytes()).is_none());
        let next = body(&format!("{asked} , {answered}"));
        let added = known.added_in(next.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(added.body).unwrap(), body(answered));
        // Two answers of the model may be parts of one message.
        let known = ParsedRequest::new(next.as_bytes(), Api::OpenAiChat).unwrap();
        let next = body(&format!("{asked} , {answered},{answered}"));
        assert!(known.added_in(next.as_bytes()).is_none());
    }

    #[test]
    fn a_result_is_read_with_the_call_before_it() {
        let body = |contents: &[Value]| json!({"contents": contents}).to_string();
        let asked = json!({"role": "user", "parts": [{"text": "Go."}]});
        let call = json!({"functionCall": {"id": "abc", "name": "f", "args": {}}});
        let called = json!({"role": "model", "parts": [call]});
        let result = json!({"functionResponse": {"name": "f", "response": {"a": 1}}});
        let answered = json!({"role": "user", "parts": [result]});
        let known = |contents: &[Value]| {
            ParsedRequest::new(body(contents).as_bytes(), Api::Gemini).unwrap()
        };
        let all = body(&[asked.clone(), called.clone(), answered]);
        let before = known(&[asked.clone(), called]);
        assert!(before.added_in(all.as_bytes()).is_none());
        assert!(known(&[asked]).added_in(all.as_bytes()).is_some());
    }

    #[test]
    fn white_space_of_json_is_between_messages() {
        let body = |between: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"a"}}{between}{{"role":"assistant","content":"b"}}]}}"#
            )
        };
        let known = br#"{"messages":[{"role":"user","content":"a"}]}"#;
        let known = ParsedRequest::new(known, Api::OpenAiChat).unwrap();
        for (between, is_json) in [
            (" \t\r\n, ", true),
            ("\u{c},", false),
            (",,", false),
            ("", false),
        ] {
            let body = body(between);
            assert_eq!(
                known.added_in(body.as_bytes()).is_some(),
                is_json,
                "{between:?}"
            );
            assert_eq!(serde_json::from_str::<Value>(&body).is_ok(), is_json);
        }
    }

    #[test]
    fn another_conversation_has_no_end() {
        let said = |texts: &[&str]| {
            let texts = texts.iter();
            let messages: Vec<Value> = texts
                .map(|text| json!({"role": "user", "content": text}))
                .collect();
            body(&messages, false)
        };
        let known = ParsedRequest::new(&said(&["a", "b", "c", "d"]), Api::OpenAiChat).unwrap();
        assert!(known.end_of(&said(&["x", "b", "c", "d", "e"]), 1).is_none());
        let end = known.end_of(&said(&["a", "b", "c", "d", "e"]), 2).unwrap();
        let read = read_request(&end.body, &[Api::OpenAiChat]).unwrap();
        assert_eq!(read.messages.len(), 3);
        // Instructions are always included.
        let text = r#"{"model":"m","messages":[{"role":"system","content":"s"}, {"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"c"}]}"#;
        let known = ParsedRequest::new(text.as_bytes(), Api::OpenAiChat).unwrap();
        let end = known.end_of(text.as_bytes(), 1).unwrap();
        assert_eq!(
            String::from_utf8(end.body).unwrap(),
            r#"{"model":"m","messages":[{"role":"system","content":"s"}, {"role":"user","content":"c"}]}"#
        );
    }
}
