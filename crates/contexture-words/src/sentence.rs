//! Splits text into sentences.

use std::ops::Range;

/// Abbreviations whose period does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "fig", "no", "vol", "approx",
    "e.g", "i.e", "cf", "ca", "dept", "inc", "ltd", "co", "corp", "gen", "rev", "hon",
];

/// Returns the sentences of `text`, in order, without the white space around
/// them. Together they contain everything else.
///
/// A sentence ends with a final punctuation mark, or at the end of a line. A
/// line that ends within a sentence, and whose next line begins in lower case,
/// counts as wrapped. Lists, logs and code are therefore split into lines.
pub fn sentences(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(|c: char| !c.is_whitespace())?;
        let end = end_of_sentence(text, start);
        at = end;
        Some(start..start + text[start..end].trim_end().len())
    })
}

/// Returns the end of the sentence that begins at `start`.
fn end_of_sentence(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\n' if line_ends(text, start, at) => return at,
            b'.' | b'!' | b'?' => {
                let end = past_closers(text, at + 1);
                if mark_ends(text, start, at, end) {
                    return end;
                }
                at = end;
                continue;
            }
            // The other marks (。！？｡ and …) begin with one of these bytes.
            0xE2 | 0xE3 | 0xEF => {
                let c = text[at..].chars().next().unwrap_or(' ');
                at += c.len_utf8();
                if matches!(c, '。' | '！' | '？' | '｡' | '…') {
                    let end = past_closers(text, at);
                    if c != '…' || text[end..].starts_with(char::is_whitespace) {
                        return end;
                    }
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Skips further marks, quotes and brackets that belong to the sentence.
fn past_closers(text: &str, at: usize) -> usize {
    let more = text[at..].chars().take_while(|c| {
        matches!(
            c,
            '.' | '!'
                | '?'
                | '"'
                | '\''
                | ')'
                | ']'
                | '”'
                | '’'
                | '»'
                | '」'
                | '』'
                | '）'
                | '！'
                | '？'
                | '*'
                | '_'
        )
    });
    at + more.map(char::len_utf8).sum::<usize>()
}

/// Returns true when the mark at `at`, with the marks after it up to `end`,
/// ends a sentence.
fn mark_ends(text: &str, start: usize, at: usize, end: usize) -> bool {
    let mut after = text[end..].chars();
    match after.next() {
        None => return true,
        Some(c) if !c.is_whitespace() => return false,
        Some('\n') => return true,
        Some(_) => {}
    }
    if text.as_bytes()[at] != b'.' {
        return true;
    }
    // In a sentence that continues, the next word is in lower case.
    let next = after.find(|c| !c.is_whitespace());
    if next.is_some_and(char::is_lowercase) {
        return false;
    }
    let word = text[start..at]
        .rsplit(|c: char| !(c.is_alphanumeric() || c == '.'))
        .next()
        .unwrap_or_default();
    let is_initial = word.chars().count() == 1 && word.starts_with(char::is_uppercase);
    let is_numbering = start + word.len() == at && word.bytes().all(|b| b.is_ascii_digit());
    // `Mt. Etna`; `ft` in lower case is a unit.
    let is_name_part = matches!(word, "Mt" | "Ft");
    !(is_initial
        || is_numbering
        || is_name_part
        || ABBREVIATIONS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word)))
}

/// The minimum number of characters of a wrapped line.
const FULL_LINE: usize = 40;

/// Returns true when the end of a line at `at` ends the sentence.
fn line_ends(text: &str, start: usize, at: usize) -> bool {
    let line = &text[start..at];
    let line = line[line.rfind('\n').map_or(0, |end| end + 1)..].trim_end();
    let wrapped = line.len() >= FULL_LINE
        && line
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | '-' | '"' | '\'' | ')'));
    if !wrapped {
        return true;
    }
    let next = &text[at + 1..];
    // Lines that begin with `warning:` are lines of a log.
    let first = next.split(char::is_whitespace).next().unwrap_or_default();
    let goes_on = next.starts_with(char::is_lowercase) && !first.ends_with([':', '=']);
    !goes_on
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = sentences(text).map(|range| &text[range]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn punctuation_ends_sentences() {
        check(
            "We moved. Ana loves it! \"Really?\" (Yes.) fine",
            &["We moved.", "Ana loves it!", "\"Really?\"", "(Yes.) fine"],
        );
        check("  \n ", &[]);
        check("Wait... what? Hm… Yes", &["Wait... what?", "Hm…", "Yes"]);
        check(
            "東京に行った。楽しかった！また行く",
            &["東京に行った。", "楽しかった！", "また行く"],
        );
    }

    #[test]
    fn periods_inside_words_do_not_end_sentences() {
        check(
            "Dr. Lee met J. Smith at 3.14 p.m. today.",
            &["Dr. Lee met J. Smith at 3.14 p.m. today."],
        );
        check(
            "I live in St. Louis, near Mt. Etna. It is 6 ft. Next.",
            &[
                "I live in St. Louis, near Mt. Etna.",
                "It is 6 ft.",
                "Next.",
            ],
        );
        check("See e.g. Foo. Bar", &["See e.g. Foo.", "Bar"]);
        check(
            "edit src/main.rs and config.toml now",
            &["edit src/main.rs and config.toml now"],
        );
        check("1. First\n2. Second", &["1. First", "2. Second"]);
    }

    #[test]
    fn line_breaks_end_sentences_unless_lines_are_wrapped() {
        check(
            "a line that is full because it was wrapped\nhere, and ends.\nNext one\nAna: hi\nok",
            &[
                "a line that is full because it was wrapped\nhere, and ends.",
                "Next one",
                "Ana: hi",
                "ok",
            ],
        );
        check("one\n\ntwo", &["one", "two"]);
        check(
            "let a = 1;\nlet b = 2;\r\n}",
            &["let a = 1;", "let b = 2;", "}"],
        );
        let warning = "warning: unused variable `x` in function foo";
        check(&[warning, warning].join("\n"), &[warning, warning]);
    }

    proptest! {
        #[test]
        fn sentences_cover_the_whole_text(text in "([a-zA-Z .!?\n\"']|。|…|é){0,80}") {
            let mut last = 0;
            for range in sentences(&text) {
                prop_assert!(text[last..range.start].trim().is_empty());
                prop_assert!(range.start < range.end);
                last = range.end;
            }
            prop_assert!(text[last..].trim().is_empty());
        }
    }
}
