//! Returns a part of a tool result: lines, matches of a regular expression, or
//! what an expression of jq yields.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::jq;
use crate::plain::grapheme_floor;

/// The longest regular expression, in bytes.
const MOST_PATTERN: usize = 1000;

/// The part of a text to return. Without a field, the whole text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection<'a> {
    /// A jq expression, for JSON. `lines` and `grep` then apply to its output.
    pub jq: Option<&'a str>,
    /// Lines: `10-20`, `10-` or `10`.
    pub lines: Option<&'a str>,
    /// A regular expression, of which lines with a match are returned, each
    /// with its number.
    pub grep: Option<&'a str>,
    /// The most bytes that are returned; `None` for no limit.
    pub max_bytes: Option<usize>,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The text.
    pub text: String,
    /// The total number of lines.
    pub lines: usize,
    /// The first and the last line of the part, from 1.
    pub shown: (usize, usize),
    /// With `grep`: the number of matching lines among the searched ones.
    pub matches: Option<usize>,
    /// The first line of the next part, if the limit ended this one.
    pub next: Option<usize>,
    /// Whether the last line is incomplete, because it is longer than the
    /// limit.
    pub is_line_cut: bool,
}

/// The reason why a part cannot be returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartError {
    /// The field of the selection that is wrong.
    pub field: &'static str,
    /// The problem with the field.
    pub message: String,
}

impl PartError {
    fn new(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { field, message }
    }
}

/// Returns the output of a jq expression for a JSON text: each value on its own
/// lines, strings without quotation marks.
pub fn query(text: &str, expression: &str) -> Result<String, PartError> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let message = format!("the tool result is not JSON ({error}); use lines or grep instead");
        PartError::new("jq", message)
    })?;
    let values = jq::evaluate(expression, &value);
    let values = values.map_err(|message| PartError::new("jq", message))?;
    let texts = values.iter().map(|value| match value {
        Value::String(text) => text.clone(),
        value => format!("{value:#}"),
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// Returns a part of a text.
pub fn part(text: &str, selection: &Selection<'_>) -> Result<Part, PartError> {
    let queried;
    let text = match selection.jq {
        Some(expression) => {
            queried = query(text, expression)?;
            &queried
        }
        None => text,
    };
    let lines: Vec<&str> = text.lines().collect();
    let (first, last) = match selection.lines {
        Some(range) => line_range(range, lines.len())?,
        None => (1, lines.len()),
    };
    let regex = selection.grep.map(compile).transpose();
    let regex = regex.map_err(|message| PartError::new("grep", message))?;
    let most = selection.max_bytes.unwrap_or(usize::MAX);
    let mut part = Part {
        text: String::new(),
        lines: lines.len(),
        shown: (first, last),
        matches: regex.as_ref().map(|_| 0),
        next: None,
        is_line_cut: false,
    };
    let mut is_first = true;
    for number in first..=last {
        let line = lines[number - 1];
        let line = match &regex {
            Some(regex) if !regex.is_match(line) => continue,
            Some(_) => format!("{number}: {line}"),
            None => line.to_owned(),
        };
        let separator = usize::from(!is_first);
        if part.text.len() + separator + line.len() > most {
            if is_first {
                part.text.push_str(&line[..grapheme_floor(&line, most)]);
                part.is_line_cut = true;
                part.matches = part.matches.map(|matches| matches + 1);
                part.shown.1 = number;
                part.next = (number < last).then_some(number + 1);
            } else {
                part.shown.1 = number - 1;
                part.next = Some(number);
            }
            break;
        }
        if !is_first {
            part.text.push('\n');
        }
        is_first = false;
        part.text.push_str(&line);
        part.matches = part.matches.map(|matches| matches + 1);
    }
    Ok(part)
}

/// Compiles a regular expression within limits: matching takes time in
/// proportion to the text.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MOST_PATTERN {
        return Err(format!(
            "the regular expression is longer than {MOST_PATTERN} bytes"
        ));
    }
    let regex = RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .dfa_size_limit(1 << 21)
        .build();
    regex.map_err(|error| {
        let error = error.to_string();
        let last = error.lines().last().unwrap_or_default();
        let reason = last.trim_start_matches("error: ");
        format!("`{pattern}` is not a regular expression: {reason}")
    })
}

/// Reads `10-20`, `10-` or `10`.
fn line_range(range: &str, lines: usize) -> Result<(usize, usize), PartError> {
    let wrong = || {
        let message = format!("`{range}` is not a range of lines; write `10-20`, `10-` or `10`");
        PartError::new("lines", message)
    };
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let (first, last) = match range.split_once('-') {
        Some((first, "")) => (number(first)?, lines),
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(range)?, number(range)?),
    };
    if first == 0
        || first > last
            && range
                .split_once('-')
                .is_none_or(|(_, last)| !last.is_empty())
    {
        return Err(wrong());
    }
    if first > lines {
        let message = format!("line {first} does not exist: there are {lines} lines");
        return Err(PartError::new("lines", message));
    }
    Ok((first, last.min(lines)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "one\ntwo\nthree\nfour";

    fn select<'a>(lines: &'a str, grep: &'a str, max_bytes: usize) -> Selection<'a> {
        Selection {
            jq: None,
            lines: Some(lines).filter(|lines| !lines.is_empty()),
            grep: Some(grep).filter(|grep| !grep.is_empty()),
            max_bytes: Some(max_bytes).filter(|bytes| *bytes > 0),
        }
    }

    fn text(selection: &Selection<'_>) -> String {
        part(TEXT, selection).unwrap().text
    }

    #[test]
    fn lines_and_matches_are_returned() {
        assert_eq!(text(&select("", "", 0)), TEXT);
        assert_eq!(text(&select("2-3", "", 0)), "two\nthree");
        assert_eq!(text(&select("3-", "", 0)), "three\nfour");
        assert_eq!(text(&select("4", "", 0)), "four");
        assert_eq!(text(&select("2-99", "", 0)), "two\nthree\nfour");
        assert_eq!(text(&select("", "t|f", 0)), "2: two\n3: three\n4: four");
        assert_eq!(text(&select("3-4", "t|f", 0)), "3: three\n4: four");
        let none = part(TEXT, &select("", "zzz", 0)).unwrap();
        assert_eq!((none.text.as_str(), none.matches), ("", Some(0)));
        assert_eq!(part("", &select("", "", 0)).unwrap().lines, 0);
        assert_eq!(part("\n\na", &select("", "", 0)).unwrap().text, "\n\na");
    }

    #[test]
    fn parts_put_together_are_the_whole() {
        for most in 5..30 {
            let (mut all, mut from) = (Vec::new(), 1);
            loop {
                let lines = format!("{from}-");
                let part = part(TEXT, &select(&lines, "", most)).unwrap();
                assert!(part.text.len() <= most && !part.is_line_cut);
                all.push(part.text);
                match part.next {
                    Some(next) => from = next,
                    None => break,
                }
            }
            assert_eq!(all.join("\n"), TEXT, "{most}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let long = part("ééééé\nb", &select("", "", 5)).unwrap();
        assert_eq!(long.text, "éé");
        assert_eq!((long.is_line_cut, long.next), (true, Some(2)));
    }

    #[test]
    fn wrong_selections_name_their_field() {
        for (selection, field, told) in [
            (select("0-2", "", 0), "lines", "is not a range of lines"),
            (select("x", "", 0), "lines", "is not a range of lines"),
            (select("3-2", "", 0), "lines", "is not a range of lines"),
            (
                select("5-9", "", 0),
                "lines",
                "line 5 does not exist: there are 4 lines",
            ),
            (select("", "(", 0), "grep", "is not a regular expression"),
            (
                select("", "(?:a{1000}){1000}", 0),
                "grep",
                "is not a regular expression",
            ),
        ] {
            let error = part(TEXT, &selection).unwrap_err();
            assert_eq!(error.field, field);
            assert!(error.message.contains(told), "{}", error.message);
        }
        let jq = Selection {
            jq: Some(".a"),
            ..Selection::default()
        };
        let error = part(TEXT, &jq).unwrap_err();
        assert!(error.message.contains("the tool result is not JSON"));
    }

    #[test]
    fn lines_are_those_of_what_jq_yields() {
        let json = r#"{"code":1,"out":"a\nb\nc"}"#;
        let of = |jq, lines| {
            let selection = Selection {
                jq: Some(jq),
                lines,
                ..Selection::default()
            };
            part(json, &selection).unwrap().text
        };
        assert_eq!(of(".out", Some("2-")), "b\nc");
        assert_eq!(of(".code, .out", None), "1\na\nb\nc");
        assert_eq!(of(". | keys", None), "[\n  \"code\",\n  \"out\"\n]");
    }
}
