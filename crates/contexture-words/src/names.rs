//! The words of a name: the key by which a name is looked up, and the possible
//! names in a query.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::words::is_stop_word;

/// The maximum number of words of a query in which names are searched.
pub const MOST_WORDS: usize = 512;

/// The maximum number of words of a name.
pub const LONGEST_NAME: usize = 5;

/// The maximum size of a name in bytes. Longer words are not a name.
const LONGEST_KEY: usize = 256;

/// Words of a query that may be a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameCandidate {
    /// The key to look up: the words in the form of [`name_key`].
    pub key: String,
    /// The first of the words, counted from 0.
    pub first: usize,
    /// The number of words. If two found names overlap, the longer one is used.
    pub words: usize,
}

/// Returns the possible names in `query`: runs of up to [`LONGEST_NAME`] words
/// by position, the longest first, each key once. A single stop word is not a
/// name.
pub fn names_in(query: &str) -> Vec<NameCandidate> {
    let words: Vec<String> = name_words(query).into_iter().take(MOST_WORDS).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for first in 0..words.len() {
        for length in (1..=LONGEST_NAME.min(words.len() - first)).rev() {
            let run = &words[first..first + length];
            if run.iter().map(String::len).sum::<usize>() > LONGEST_KEY {
                continue;
            }
            let key = run.join(" ");
            if (length > 1 || !is_stop_word(&key)) && seen.insert(key.clone()) {
                found.push(NameCandidate {
                    key,
                    first,
                    words: length,
                });
            }
        }
    }
    found
}

/// Returns the form of a name by which it is looked up: lower case, without
/// accents and a final `'s`, words separated by one space. `Ana's`, `ANA` and
/// `ana` are equal, and so are `parse_http` and `Parse HTTP`; `C`, `C++` and
/// `C#` are not. A name without letters and digits is unchanged.
pub fn name_key(name: &str) -> String {
    let words = name_words(name);
    if words.is_empty() {
        return name.trim().to_lowercase();
    }
    words.join(" ")
}

/// Returns the words of names: letters and digits, with apostrophes between
/// them, and `+` and `#` after them.
fn name_words(text: &str) -> Vec<String> {
    let folded: String = text
        .chars()
        .take(MOST_WORDS * 64)
        .nfkd()
        .flat_map(char::to_lowercase)
        .filter(|c| !matches!(c, '\u{300}'..='\u{36f}'))
        .nfc()
        .collect();
    let is_word = |c: char| c.is_alphanumeric() || is_combining_mark(c);
    let mut words = Vec::new();
    let mut rest = folded.as_str();
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let end = rest
            .find(|c: char| !(is_word(c) || matches!(c, '\'' | '\u{2019}')))
            .unwrap_or(rest.len());
        let signs = rest[end..].bytes().take_while(|b| matches!(b, b'+' | b'#'));
        let signs = signs.count();
        let (word, after) = rest.split_at(end);
        let (signs, after) = after.split_at(signs);
        rest = after;
        let bare = word
            .strip_suffix("'s")
            .or_else(|| word.strip_suffix("\u{2019}s"));
        let mut word = bare.unwrap_or(word).replace(['\'', '\u{2019}'], "");
        // A sign between two words (`a+b`) is not part of the first.
        if !after.starts_with(is_word) {
            word.push_str(signs);
        }
        words.push(word);
    }
    words
}
