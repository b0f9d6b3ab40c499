//! Splits long texts into chunks that can be understood on their own.
//!
//! Every possible split has a strength: a heading or a new function is stronger
//! than a paragraph, a paragraph stronger than a sentence, a sentence stronger
//! than a word. A chunk is as long as allowed and ends at the strongest split in
//! its last three quarters.

use contexture_words::sentences;

/// A part of a text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// Returns chunks of `text` of at most `most` characters each, in order.
///
/// Everything but white space is in exactly one chunk. `name` is the path the
/// text was read from; its extension distinguishes Markdown and source code
/// from prose. Chunks end between characters; in a single word that is longer
/// than `most` they end within it. The time is linear in the text.
pub fn chunks(text: &str, name: Option<&str>, most: usize) -> Vec<Chunk> {
    let most = most.max(1);
    let cuts = match Kind::of(name) {
        Kind::Prose => prose(text, |_, strength| strength),
        Kind::Markdown => markdown(text),
        Kind::Code => code(text),
    };
    let mut cuts = cuts.as_slice();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((start, first)) = next_start(text, at, most) {
        let place = |characters: usize| {
            let mut places = text[start..].char_indices();
            places.nth(characters).map(|(offset, _)| start + offset)
        };
        let Some(limit) = place(most) else {
            found.push(Chunk {
                start,
                end: text.trim_end().len(),
            });
            break;
        };
        // The offset is after the first character, so that no chunk is empty.
        let least = place(most / 4).unwrap_or(limit).max(first + 1);
        while cuts.first().is_some_and(|cut| cut.at < least) {
            cuts = &cuts[1..];
        }
        let within = cuts.iter().take_while(|cut| cut.at <= limit);
        let end = match within.max_by_key(|cut| cut.strength) {
            Some(cut) => cut.at,
            None => end_of_word(text, least, limit),
        };
        let end = start + text[start..end].trim_end().len();
        found.push(Chunk { start, end });
        at = end;
    }
    found
}

/// Returns the start of the next chunk, and its first character that is not
/// white space. The chunk begins with the indentation, unless that is a large
/// part of it.
fn next_start(text: &str, at: usize, most: usize) -> Option<(usize, usize)> {
    let first = at + text[at..].find(|c: char| !c.is_whitespace())?;
    let line = match text[at..first].rfind('\n') {
        Some(end) => at + end + 1,
        None if at == 0 => 0,
        None => first,
    };
    let is_indented = first - line <= most / 4;
    Some((if is_indented { line } else { first }, first))
}

/// Returns the end of the last word between two offsets, or the second offset.
fn end_of_word(text: &str, least: usize, limit: usize) -> usize {
    let least = text.ceil_char_boundary(least).min(limit);
    let range = &text[least..limit];
    let next_is_white = text[limit..].starts_with(char::is_whitespace);
    match range.rfind(char::is_whitespace) {
        Some(at) if !next_is_white => least + at,
        _ => limit,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Prose,
    Markdown,
    Code,
}

/// Extensions of files whose structure is in their indentation.
const CODE: &[&str] = &[
    "rs", "py", "pyi", "js", "jsx", "ts", "tsx", "mjs", "cjs", "vue", "svelte", "go", "java", "kt",
    "kts", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "cs", "fs", "rb", "php", "swift", "scala",
    "sh", "bash", "zsh", "fish", "ps1", "lua", "pl", "pm", "r", "jl", "ex", "exs", "erl", "hs",
    "ml", "mli", "clj", "zig", "nim", "dart", "sql", "css", "scss", "less", "html", "xml", "json",
    "yaml", "yml", "toml", "ini", "tf", "proto", "graphql", "cmake", "gradle",
];

impl Kind {
    fn of(name: Option<&str>) -> Self {
        let ending = name.and_then(|name| name.rsplit_once('.')).map(|(_, e)| e);
        let ending = ending.unwrap_or_default().to_ascii_lowercase();
        match ending.as_str() {
            "md" | "markdown" | "mdx" => Kind::Markdown,
            ending if CODE.contains(&ending) => Kind::Code,
            _ => Kind::Prose,
        }
    }
}

/// A position where a text may be split: before the byte at `at`.
#[derive(Debug, Clone, Copy)]
struct Cut {
    at: usize,
    strength: u8,
}

const LINE: u8 = 1;
const SENTENCE: u8 = 2;
/// The strength of a sentence at the start of a line.
const ENTRY: u8 = 3;
const PARAGRAPH: u8 = 4;
/// The smallest strength of a heading. Higher headings have more.
const HEADING: u8 = 5;

struct Line<'t> {
    at: usize,
    text: &'t str,
    /// True if the line before is blank.
    after_blank: bool,
}

/// Returns the lines that are not blank.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0;
    let mut after_blank = false;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        if line.trim().is_empty() {
            after_blank = true;
            return None;
        }
        Some(Line {
            at: start,
            text: line,
            after_blank: std::mem::take(&mut after_blank),
        })
    })
}

/// Returns the possible splits of prose. `change` may change the strength of
/// those at lines.
fn prose<'t>(text: &'t str, mut change: impl FnMut(&Line<'t>, u8) -> u8) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    let mut sentences = sentences(text).peekable();
    for line in lines(text) {
        let first = line.at + line.text.len() - line.text.trim_start().len();
        while let Some(sentence) = sentences.next_if(|sentence| sentence.start < first) {
            cuts.push(Cut {
                at: sentence.start,
                strength: SENTENCE,
            });
        }
        let begins = sentences.next_if(|sentence| sentence.start == first);
        let strength = match (line.after_blank, begins) {
            (true, _) => PARAGRAPH,
            (false, Some(_)) => ENTRY,
            (false, None) => LINE,
        };
        cuts.push(Cut {
            at: line.at,
            strength: change(&line, strength),
        });
    }
    cuts.extend(sentences.map(|sentence| Cut {
        at: sentence.start,
        strength: SENTENCE,
    }));
    cuts
}

fn markdown(text: &str) -> Vec<Cut> {
    let mut fence = None;
    let mut after_fence = false;
    prose(text, move |line, strength| {
        let content = line.text.trim_start();
        let follows_fence = std::mem::take(&mut after_fence);
        if let Some(mark) = fence {
            if content.starts_with(mark) {
                fence = None;
                after_fence = true;
            }
            // Inside a code block, a blank line counts like a line of code.
            return LINE;
        }
        if let Some(mark) = ["```", "~~~"]
            .iter()
            .find(|mark| content.starts_with(**mark))
        {
            fence = Some(*mark);
            // The line that introduces a code block belongs to it.
            return strength.min(ENTRY);
        }
        let hashes = content.bytes().take_while(|byte| *byte == b'#').count();
        let is_heading = (1..=6).contains(&hashes)
            && content[hashes..].starts_with([' ', '\t'])
            && line.text.len() - content.len() < 4;
        if is_heading {
            HEADING + 6 - hashes as u8
        } else if follows_fence {
            PARAGRAPH
        } else {
            strength
        }
    })
}

/// Code is split before top-level items, then before lines with less
/// indentation.
///
/// Comments and attributes stay with the following item, because the blank line
/// is before them. No chunk begins with a line that closes or continues a
/// block.
fn code(text: &str) -> Vec<Cut> {
    let mut before = 0;
    lines(text)
        .map(|line| {
            let content = line.text.trim_start();
            let indentation = line.text[..line.text.len() - content.len()]
                .chars()
                .map(|c| if c == '\t' { 4 } else { 1 })
                .sum::<usize>();
            let level = u8::try_from(indentation.div_ceil(4).min(4)).unwrap_or(4);
            let goes_on = content.starts_with(['}', ')', ']', '{', '<'])
                || [
                    "end", "else", "elif", "except", "finally", "catch", "then", "do",
                ]
                .contains(
                    &content
                        .split(|c: char| !c.is_alphanumeric())
                        .next()
                        .unwrap_or(""),
                );
            let strength = match (line.after_blank, goes_on) {
                (true, false) => 14 - level,
                // A line with less indentation begins a block; one with more
                // continues it.
                (false, false) if indentation <= before => 8 - level,
                _ => 1,
            };
            before = indentation;
            Cut {
                at: line.at,
                strength,
            }
        })
        .collect()
}
