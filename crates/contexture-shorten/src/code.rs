//! Chooses the lines of source code: an outline first, then bodies from the
//! start.

use crate::hint::Hint;
use crate::lines::Lines;
use crate::pick::{Plan, Step};

/// A language that has a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    TypeScript,
    Go,
    Java,
    C,
}

/// Returns the language of a file, by the end of its name or by its first
/// lines.
pub(crate) fn language(text: &str, hint: &Hint<'_>) -> Option<Language> {
    if !cfg!(feature = "outline") {
        return None;
    }
    if let Some(extension) = hint.extension() {
        return by_extension(&extension);
    }
    match hint.path {
        Some(_) => None,
        None => by_content(text),
    }
}

fn by_extension(extension: &str) -> Option<Language> {
    Some(match extension {
        "rs" => Language::Rust,
        "py" | "pyi" => Language::Python,
        "ts" | "tsx" | "mts" | "cts" | "js" | "jsx" | "mjs" | "cjs" => Language::TypeScript,
        "go" => Language::Go,
        "java" => Language::Java,
        "c" | "h" => Language::C,
        _ => return None,
    })
}

/// The number of lines that are read to detect the language of a text.
const LINES_READ: usize = 120;

/// Beginnings of lines that are typical of each language.
const STARTS: [(Language, &[&str]); 6] = [
    (
        Language::Rust,
        &[
            "use std::",
            "use crate::",
            "pub fn ",
            "pub struct ",
            "impl ",
            "impl<",
            "#[derive(",
            "//! ",
            "fn main()",
            "pub enum ",
            "pub(crate) ",
        ],
    ),
    (
        Language::Python,
        &[
            "#!/usr/bin/env python",
            "from __future__",
            "def ",
            "class ",
            "import ",
            "if __name__",
            "@property",
        ],
    ),
    (
        Language::TypeScript,
        &[
            "import {",
            "import * as",
            "export ",
            "const ",
            "interface ",
            "type ",
            "function ",
            "async function ",
            "'use strict'",
            "\"use strict\"",
        ],
    ),
    (Language::Go, &["package ", "func ", "import (", "type "]),
    (
        Language::Java,
        &[
            "package ",
            "import java",
            "public class ",
            "public interface ",
            "public final class ",
            "@Override",
            "import org.",
            "import com.",
        ],
    ),
    (
        Language::C,
        &[
            "#include ",
            "#define ",
            "#ifndef ",
            "typedef ",
            "static ",
            "#endif",
        ],
    ),
];

/// Returns the language that at least an eighth of the first lines begin like,
/// and more of them than like any other.
fn by_content(text: &str) -> Option<Language> {
    let (mut hits, mut read) = ([0_usize; STARTS.len()], 0_usize);
    for line in text.lines().take(LINES_READ) {
        let line = without_number(line);
        if line.is_empty() {
            continue;
        }
        read += 1;
        let line = line.trim_start_matches('\u{feff}');
        for (hits, (_, starts)) in hits.iter_mut().zip(STARTS) {
            *hits += usize::from(starts.iter().any(|start| line.starts_with(start)));
        }
    }
    let most = *hits.iter().max()?;
    let mut best = hits.iter().zip(STARTS).filter(|(hits, _)| **hits == most);
    let found = best.next().map(|(_, (language, _))| language);
    let is_clear = most >= 4 && most * 8 >= read && best.next().is_none();
    found.filter(|_| is_clear)
}

/// Returns a line without the number that a tool put before it: `  12→fn main`
/// or `12: fn main`.
pub(crate) fn without_number(line: &str) -> &str {
    let trimmed = line.trim_start_matches(' ');
    let digits = trimmed.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() == trimmed.len() {
        return line;
    }
    ["\t", "→", "| ", "|", ": ", ":"]
        .iter()
        .find_map(|mark| digits.strip_prefix(mark))
        .unwrap_or(line)
}

/// Returns true when a tool put its number before each line.
fn is_numbered(lines: &Lines<'_>) -> bool {
    let first: Vec<&str> = lines.iter().take(40).collect();
    let numbered = first
        .iter()
        .filter(|line| without_number(line).len() < line.len());
    numbered.count() * 10 >= first.len() * 9
}

/// The role of a line of code in an outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The line of a top-level declaration.
    Top,
    /// The line of a declaration inside another.
    Nested,
    /// An import, a constant, a field.
    Detail,
    /// The first line of a comment.
    Comment,
    /// Any other line.
    Body,
}

/// Returns the plan for source code. Returns `None` when it cannot be parsed.
pub(crate) fn plan(lines: &Lines<'_>, hint: &Hint<'_>) -> Option<Plan> {
    let numbered = is_numbered(lines);
    let source: String = lines
        .iter()
        .flat_map(|line| {
            let line = if numbered { without_number(line) } else { line };
            [line, "\n"]
        })
        .collect();
    let language = language(&source, hint)?;
    #[cfg(feature = "outline")]
    let ranks = crate::outline::ranks(&source, lines.len(), language)?;
    #[cfg(not(feature = "outline"))]
    let ranks = vec![Rank::Body; lines.len()];
    let _ = language;
    let of = |rank: Rank| {
        let found = ranks.iter().enumerate().filter(|(_, of)| **of == rank);
        Step::Lines(found.map(|(line, _)| line).collect())
    };
    let mut plan = Plan::new(lines.len());
    plan.step(80, of(Rank::Top));
    plan.step(90, of(Rank::Nested));
    plan.step(92, of(Rank::Detail));
    plan.step(95, of(Rank::Comment));
    plan.step(100, Step::Head);
    Some(plan)
}
