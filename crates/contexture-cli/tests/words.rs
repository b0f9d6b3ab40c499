//! Documentation, help, messages, comments and API descriptions use plain words.
//!
//! `docs/words.txt` lists phrases that readers stumbled over, with their
//! replacements. The tests search for them in the guides, in the help of every
//! command, in the string literals and comments of every crate, and in the
//! OpenAPI document. The guides are also checked for long sentences.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const REPO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The longest sentence of a guide, in words.
const LONGEST_SENTENCE: usize = 40;

/// The longest median sentence of a guide, in words.
const LONGEST_MEDIAN: usize = 16;

struct Phrase {
    banned: String,
    replacement: String,
}

/// Reads `docs/words.txt`.
fn phrases() -> Vec<Phrase> {
    let text = fs::read_to_string(Path::new(REPO).join("docs/words.txt")).unwrap();
    let lines = text.lines().map(str::trim);
    let phrases: Vec<Phrase> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (banned, replacement) = line.split_once(" => ").unwrap_or_else(|| {
                panic!("docs/words.txt: `{line}` is not `phrase => replacement`")
            });
            Phrase {
                banned: normalise(banned),
                replacement: replacement.to_owned(),
            }
        })
        .collect();
    assert!(!phrases.is_empty(), "docs/words.txt lists no phrase");
    phrases
}

/// Returns a text in lower case with one space between words.
fn normalise(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

/// Returns the byte offset of `phrase` in `text` when it is there as whole words.
fn find(text: &str, phrase: &str) -> Option<usize> {
    let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).map(|(at, _)| at).find(|&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        let last = phrase.chars().next_back();
        !(is_word(before) || is_word(last) && is_word(after))
    })
}

/// Adds a complaint for each banned phrase in `text`.
fn check(place: &str, text: &str, phrases: &[Phrase], complaints: &mut Vec<String>) {
    let text = normalise(text);
    for phrase in phrases {
        if find(&text, &phrase.banned).is_some() {
            complaints.push(format!(
                "{place}: `{}`; write: {}",
                phrase.banned, phrase.replacement
            ));
        }
    }
}

fn fail(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// A piece of prose of a Markdown file.
struct Paragraph {
    // The line it begins at, counted from 1.
    line: usize,
    text: String,
    // Table rows and headings have no sentences.
    is_prose: bool,
}

/// Returns the prose of a Markdown text: paragraphs, list items, headings and
/// table rows, without code blocks and comments.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut is_code = false;
    let mut is_open = false;
    for (i, line) in text.lines().enumerate() {
        let line_start = line.trim_start();
        if line_start.starts_with("```") {
            is_code = !is_code;
            is_open = false;
            continue;
        }
        if is_code || line_start.is_empty() || line_start.starts_with("<!--") {
            is_open = false;
            continue;
        }
        let is_prose = !line_start.starts_with(['|', '#', '<']);
        let mut marks = ["- ", "* ", "+ ", "> "].iter();
        let item = marks.find_map(|mark| line_start.strip_prefix(mark));
        let numbered = line_start.split_once(". ").filter(|(number, _)| {
            !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
        });
        let item = item.or(numbered.map(|(_, rest)| rest));
        match found
            .last_mut()
            .filter(|_| is_open && is_prose && item.is_none())
        {
            Some(paragraph) => {
                paragraph.text.push(' ');
                paragraph.text.push_str(line_start);
            }
            None => found.push(Paragraph {
                line: i + 1,
                text: item.unwrap_or(line_start).to_owned(),
                is_prose,
            }),
        }
        is_open = is_prose;
    }
    found
}

/// Returns Markdown without links' addresses, and with each code span as one
/// word.
fn plain(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some(at) = rest.find(['`', ']']) {
        out.push_str(&rest[..at]);
        let (mark, after) = rest[at..].split_at(1);
        rest = match mark {
            "`" => match after.split_once('`') {
                Some((_, after)) => {
                    out.push_str("code");
                    after
                }
                None => after,
            },
            _ => match after
                .strip_prefix('(')
                .and_then(|link| link.split_once(')'))
            {
                Some((_, after)) => after,
                None => after,
            },
        };
    }
    out.push_str(rest);
    out
}

/// Returns the number of words of each sentence.
fn sentences(text: &str) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut words = 0;
    for word in plain(text).split_whitespace() {
        words += usize::from(word.chars().any(char::is_alphanumeric));
        let bare = word.trim_end_matches([')', '"', '\'', '*', '_']);
        let is_abbreviation = ["e.g.", "i.e.", "etc.", "vs."].contains(&bare);
        if bare.ends_with(['.', '!', '?']) && !is_abbreviation && words > 0 {
            lengths.push(std::mem::take(&mut words));
        }
    }
    if words > 0 {
        lengths.push(words);
    }
    lengths
}

/// Returns the guides and the READMEs, with their names in the repository.
fn guides() -> Vec<(String, String)> {
    let root = Path::new(REPO);
    let mut guides: Vec<PathBuf> = fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    guides.sort();
    assert!(!guides.is_empty(), "docs/ holds no guide");
    for page in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        guides.push(root.join(page));
    }
    for page in ["bench", "fuzz", "packages", "release"] {
        guides.push(root.join(page).join("README.md"));
    }
    for parent in ["crates", "examples", "packages"] {
        let mut readmes: Vec<PathBuf> = fs::read_dir(root.join(parent))
            .unwrap()
            .map(|entry| entry.unwrap().path().join("README.md"))
            .filter(|path| path.exists())
            .collect();
        assert!(!readmes.is_empty(), "{parent}/ holds no README.md");
        readmes.sort();
        guides.append(&mut readmes);
    }
    let names = guides.into_iter().map(|path| {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, text)
    });
    names.collect()
}

/// Returns the top section of the changelog: what is not released, or the latest
/// version.
fn latest_changes() -> String {
    let text = fs::read_to_string(Path::new(REPO).join("CHANGELOG.md")).unwrap();
    let mut sections = text.match_indices("\n## ").map(|(at, _)| at + 1);
    let from = sections.next().unwrap();
    let to = sections.next().unwrap_or(text.len());
    // Lines keep their numbers.
    let before = text[..from].matches('\n').count();
    "\n".repeat(before) + &text[from..to]
}

#[test]
fn guides_use_plain_words() {
    let phrases = phrases();
    let mut complaints = Vec::new();
    let mut pages = guides();
    pages.push(("CHANGELOG.md".to_owned(), latest_changes()));
    for (name, text) in &pages {
        for paragraph in paragraphs(text) {
            let place = format!("{name}:{}", paragraph.line);
            check(&place, &paragraph.text, &phrases, &mut complaints);
        }
    }
    fail(&complaints);
}

#[test]
fn guides_have_short_sentences() {
    let mut complaints = Vec::new();
    for (name, text) in guides() {
        let mut lengths = Vec::new();
        for paragraph in paragraphs(&text) {
            if !paragraph.is_prose {
                continue;
            }
            for words in sentences(&paragraph.text) {
                if words > LONGEST_SENTENCE {
                    complaints.push(format!(
                        "{name}:{}: a sentence of {words} words; write: sentences of at most \
                         {LONGEST_SENTENCE} words",
                        paragraph.line
                    ));
                }
                lengths.push(words);
            }
        }
        lengths.sort_unstable();
        let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
        if median > LONGEST_MEDIAN {
            complaints.push(format!(
                "{name}: the median sentence has {median} words; write: at most {LONGEST_MEDIAN}"
            ));
        }
    }
    fail(&complaints);
}

/// Returns the help of a command and of all commands below it, by what is typed.
fn help(command: &[String], found: &mut Vec<(String, String)>) {
    let output = Command::new(env!("CARGO_BIN_EXE_contexture"))
        .args(command)
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?} --help");
    let text = String::from_utf8(output.stdout).unwrap();
    // The commands are in one list, or in groups before the options.
    let commands = match text.split_once("\nCommands:\n") {
        Some((_, rest)) => rest.split("\n\n").next().unwrap_or(rest),
        None if command.is_empty() => text.split("\nOptions:\n").next().unwrap_or(&text),
        None => "",
    };
    let below: Vec<String> = (commands.lines())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
    let typed = format!("contexture {} --help", command.join(" "));
    found.push((typed.replace("  ", " "), text));
    for name in below {
        let mut command = command.to_vec();
        command.push(name);
        help(&command, found);
    }
}

#[test]
fn the_help_of_every_command_uses_plain_words() {
    let phrases = phrases();
    let mut pages = Vec::new();
    help(&[], &mut pages);
    let has = |typed: &str| pages.iter().any(|(name, _)| name == typed);
    assert!(
        has("contexture tree memory stash --help"),
        "{}",
        pages.len()
    );
    let mut complaints = Vec::new();
    for (name, text) in &pages {
        check(name, text, &phrases, &mut complaints);
    }
    fail(&complaints);
}

/// Returns the string literals of Rust code with their lines, up to its tests.
fn literals(code: &str) -> Vec<(usize, String)> {
    let code = code
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or("");
    let mut found = Vec::new();
    let mut rest = code;
    let line_of = |rest: &str| code[..code.len() - rest.len()].matches('\n').count() + 1;
    while let Some(at) = rest.find(['/', '"', '\'', 'r']) {
        let here = &rest[at..];
        let before = rest[..at].chars().next_back();
        let line = line_of(here);
        if here.starts_with("//") {
            rest = here.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(literal) = here.strip_prefix('"') {
            let mut is_escaped = false;
            let end = literal.find(|character| {
                let ends = character == '"' && !is_escaped;
                is_escaped = character == '\\' && !is_escaped;
                ends
            });
            let end = end.unwrap_or(literal.len());
            let text = literal[..end].replace("\\\n", " ").replace("\\n", " ");
            found.push((line, text));
            rest = literal.get(end + 1..).unwrap_or("");
        } else if let Some(hashes) = raw_string(here, before) {
            let end = format!("\"{}", "#".repeat(hashes));
            let literal = &here[hashes + 2..];
            let (text, after) = literal.split_once(&*end).unwrap_or((literal, ""));
            found.push((line, text.to_owned()));
            rest = after;
        } else {
            // A character such as '"' is no string; a lifetime has no end.
            let quoted = ["'\"'", "'\\''", "'\\\"'"]
                .iter()
                .find(|one| here.starts_with(**one));
            rest = &here[quoted.map_or(1, |one| one.len())..];
        }
    }
    found
}

/// Returns how many `#` a raw string has that begins here, if one does.
fn raw_string(here: &str, before: Option<char>) -> Option<usize> {
    let is_name = before.is_some_and(|one| one.is_alphanumeric() && one != 'b' || one == '_');
    let after = here.strip_prefix('r').filter(|_| !is_name)?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Adds the Rust files below a directory.
fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            found.push(path);
        }
    }
}

/// Returns the sources of all crates.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new(REPO).join("crates")).unwrap() {
        rust_files(&entry.unwrap().path().join("src"), &mut files);
    }
    files.sort();
    files
}

/// Returns the paragraphs of comments with their first lines, up to the tests of
/// the file. Code spans count as one word, and code blocks are omitted.
fn comments(code: &str) -> Vec<(usize, String)> {
    let code = code
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or("");
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    let mut is_code = false;
    for (i, line) in code.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            (is_open, is_code) = (false, false);
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim();
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if text.is_empty() || text.starts_with("```") || is_code {
            is_open = false;
            continue;
        }
        match found.last_mut().filter(|_| is_open) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(text);
            }
            None => found.push((i + 1, text.to_owned())),
        }
        is_open = true;
    }
    for (_, paragraph) in &mut found {
        *paragraph = plain(paragraph);
    }
    found
}

#[test]
fn comments_use_plain_words() {
    let phrases = phrases();
    let root = Path::new(REPO);
    let mut complaints = Vec::new();
    for file in sources() {
        let name = file.strip_prefix(root).unwrap().display().to_string();
        for (line, comment) in comments(&fs::read_to_string(&file).unwrap()) {
            let place = format!("{name}:{line}");
            check(&place, &comment, &phrases, &mut complaints);
        }
    }
    fail(&complaints);
}

#[test]
fn comments_are_read_as_paragraphs_without_code() {
    let code = "//! A `b c`\n//! d.\n//!\n//! ```\n//! whoever\n//! ```\n//! E.\n\n/// F.\nfn g() {} // h\n\n#[cfg(test)]\nmod tests {\n// I.\n";
    let read: Vec<(usize, String)> = comments(code);
    let expected = [(1, "A code d."), (7, "E."), (9, "F.")];
    assert_eq!(read, expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn messages_use_plain_words() {
    let phrases = phrases();
    let root = Path::new(REPO);
    let mut files = sources();
    // The suite consists of tests: its texts are data.
    files.retain(|file| !file.starts_with(root.join("crates/contexture-store-suite")));
    let mut complaints = Vec::new();
    for file in &files {
        let name = file.strip_prefix(root).unwrap().display().to_string();
        for (line, literal) in literals(&fs::read_to_string(file).unwrap()) {
            check(
                &format!("{name}:{line}"),
                &literal,
                &phrases,
                &mut complaints,
            );
        }
    }
    fail(&complaints);
}

/// Checks every title, summary and description of the OpenAPI document.
fn check_document(at: &str, value: &Value, phrases: &[Phrase], complaints: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = format!("{at}/{name}");
                match value.as_str() {
                    Some(text) if ["title", "summary", "description"].contains(&&**name) => {
                        check(&at, text, phrases, complaints);
                    }
                    _ => check_document(&at, value, phrases, complaints),
                }
            }
        }
        Value::Array(values) => {
            for (i, value) in values.iter().enumerate() {
                check_document(&format!("{at}/{i}"), value, phrases, complaints);
            }
        }
        _ => {}
    }
}

#[test]
fn the_openapi_document_uses_plain_words() {
    let mut complaints = Vec::new();
    let document = contexture_server::openapi();
    assert!(document["paths"].is_object());
    check_document("openapi.json", &document, &phrases(), &mut complaints);
    fail(&complaints);
}

#[test]
fn phrases_match_whole_words() {
    assert_eq!(find("the port is taken", "is taken"), Some(9));
    assert_eq!(find("this taken", "is taken"), None);
    assert_eq!(find("is takenly", "is taken"), None);
}

#[test]
fn sentences_are_counted_outside_code() {
    let text =
        "Run `a b c. d` now. See [the page](docs/a b.md), e.g. here!\n\n| a table. | row |\n";
    let prose: Vec<Paragraph> = paragraphs(text);
    assert_eq!(sentences(&prose[0].text), [3, 5]);
    assert!(!prose[1].is_prose);
}

#[test]
fn literals_are_found_with_their_lines() {
    let code = "// \"no\"\nlet a = \"one \\\n    two\";\nlet b = ('\"', r#\"three\"#);\nlet c = \"\\\"four\";\n";
    let found = literals(code);
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["one      two", "three", "\\\"four"]);
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 4, 5]);
}
