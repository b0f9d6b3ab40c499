//! Removes cache marks (`cache_control`) that Anthropic does not accept.

use std::ops::Range;

use memchr::memmem;

use super::node::Node;
use crate::marks::MOST_MARKS;

/// The name of a cache mark, with its quotes.
const KEY: &str = "\"cache_control\"";

/// A cache mark of a request.
struct PlacedMark {
    // The path of the block that has it.
    path: String,
    // The bytes of the field, with a comma.
    bytes: Range<usize>,
    // Whether it is before the messages: on a tool or an instruction.
    is_before: bool,
}

/// Removes the cache marks of a request to Anthropic that are more than the API
/// accepts, and keeps every other byte. Returns the request and the paths of the
/// blocks that lost their mark. Returns `None` if there are not too many.
///
/// The last mark before the messages stays, because other conversations can use
/// its cache. The other marks that stay are the last ones, because they are on the
/// longest beginnings. The mark of the whole request is the last one.
pub fn without_excess_marks(body: &str) -> Option<(String, Vec<String>)> {
    memmem::find_iter(body.as_bytes(), KEY).nth(MOST_MARKS)?;
    let root = Node::of_json(body);
    let mut marks = Vec::new();
    for field in ["tools", "system"] {
        let blocks = root.list(field).unwrap_or_default();
        collect(body, &blocks, true, &mut marks);
    }
    for message in root.list("messages").unwrap_or_default() {
        let blocks = message.list("content").unwrap_or_default();
        collect(body, &blocks, false, &mut marks);
    }
    let whole = root.find("cache_control");
    let whole = usize::from(whole.is_some_and(|mark| mark.is_object()));
    let excess = (marks.len() + whole).checked_sub(MOST_MARKS)?;
    let kept = marks.iter().rposition(|mark| mark.is_before);
    let mut removed: Vec<PlacedMark> = Vec::new();
    for (at, mark) in marks.into_iter().enumerate() {
        if Some(at) != kept && removed.len() < excess {
            removed.push(mark);
        }
    }
    if removed.is_empty() {
        return None;
    }
    // The fields of a request may be in any order.
    removed.sort_by_key(|mark| mark.bytes.start);
    let mut out = String::with_capacity(body.len());
    let mut end = 0;
    for mark in &removed {
        out.push_str(body.get(end..mark.bytes.start)?);
        end = mark.bytes.end;
    }
    out.push_str(body.get(end..)?);
    Some((out, removed.into_iter().map(|mark| mark.path).collect()))
}

/// Collects the marks of blocks, including those in results of tools.
fn collect(body: &str, blocks: &[Node<'_>], is_before: bool, marks: &mut Vec<PlacedMark>) {
    for block in blocks {
        if block.kind_field() == "tool_result" {
            let inner = block.list("content").unwrap_or_default();
            collect(body, &inner, is_before, marks);
        }
        let mark = block.get("cache_control").filter(|mark| mark.is_object());
        let bytes = mark.and_then(|mark| field_bytes(body, mark.raw));
        marks.extend(bytes.map(|bytes| PlacedMark {
            path: block.path(),
            bytes,
            is_before,
        }));
    }
}

/// Returns the bytes of the field whose value is `value`, a part of `body`, with
/// the comma after it or before it.
fn field_bytes(body: &str, value: &str) -> Option<Range<usize>> {
    let start = value.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
    let end = start + value.len();
    let start = body.get(..start)?.rfind(KEY)?;
    let after = body.get(end..)?.trim_start();
    if let Some(after) = after.strip_prefix(',') {
        return Some(start..body.len() - after.trim_start().len());
    }
    let before = body.get(..start)?.trim_end();
    let start = before.strip_suffix(',').map_or(start, str::len);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_last_marks_stay_and_all_other_bytes() {
        let mark = r#""cache_control" : {"type":"ephemeral"}"#;
        let body = format!(
            r#" {{"tools":[{{"name":"a",{mark}}}],
              "system":[{{"type":"text","text":"b", {mark} }},{{{mark}, "type":"text","text":"c"}}],
              "messages":[
                {{"role":"user","content":[{{"type":"text",{mark},"text":"say \"cache_control\""}}]}},
                {{"role":"user","content":[{{"type":"tool_result","content":[{{"type":"text","text":"d",{mark}}}],{mark}}}]}}],
              {mark}}}"#
        );
        let (fewer, paths) = without_excess_marks(&body).unwrap();
        assert_eq!(paths, ["tools[0]", "system[0]", "messages[0].content[0]"]);
        let expected = format!(
            r#" {{"tools":[{{"name":"a"}}],
              "system":[{{"type":"text","text":"b" }},{{{mark}, "type":"text","text":"c"}}],
              "messages":[
                {{"role":"user","content":[{{"type":"text","text":"say \"cache_control\""}}]}},
                {{"role":"user","content":[{{"type":"tool_result","content":[{{"type":"text","text":"d",{mark}}}],{mark}}}]}}],
              {mark}}}"#
        );
        assert_eq!(fewer, expected);
        assert_eq!(without_excess_marks(&fewer), None);
    }
}
