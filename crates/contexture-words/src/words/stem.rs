//! Reduces a word to its stem and the stem to a number.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;

use super::language::OtherStems;
use super::scan::Part;
use super::stop::is_stop_word;
use super::term_id;

/// Computes stems.
pub(super) struct Stems {
    english: Stemmer,
    other: OtherStems,
    /// The current word, in lower case.
    folded: String,
}

impl Stems {
    pub(super) fn with<T>(text: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        work(&mut Self {
            english: Stemmer::create(Algorithm::English),
            other: OtherStems::of(text),
            folded: String::with_capacity(super::LONGEST),
        })
    }

    /// Returns the number of a part's stem; `None` for a stop word.
    pub(super) fn id(&mut self, part: Part<'_>) -> Option<u32> {
        if !self.read(part, false) {
            return None;
        }
        Some(term_id(&stem(&self.english, &self.folded)))
    }

    /// Returns the stem of a part in its own language, if that is not English
    /// and differs from the usual stem.
    pub(super) fn other(&self, part: Part<'_>) -> Option<String> {
        let Part::Word(word) = part else {
            return None;
        };
        let other = self.other.stem(word)?;
        (!other.is_empty() && other != stem(&self.english, &self.folded)).then_some(other)
    }

    /// Returns the part that was read last, in lower case.
    pub(super) fn word(&self) -> &str {
        &self.folded
    }

    /// Returns a part in lower case, and its stem. Returns `None` for a stop
    /// word, unless stop words are wanted.
    pub(super) fn stem(
        &mut self,
        part: Part<'_>,
        stop_words: bool,
    ) -> Option<(&str, Cow<'_, str>)> {
        if !self.read(part, stop_words) {
            return None;
        }
        Some((&self.folded, stem(&self.english, &self.folded)))
    }

    /// Folds a part; returns false for a stop word.
    fn read(&mut self, part: Part<'_>, stop_words: bool) -> bool {
        fold(part, &mut self.folded);
        match part {
            Part::Word(_) => stop_words || !is_stop_word(&self.folded),
            Part::Negation(_) => stop_words,
            Part::Whole(_) | Part::Gram(_) => true,
        }
    }
}

/// Returns the English stem of a word. A word that is not ASCII is unchanged.
fn stem<'w>(english: &Stemmer, word: &'w str) -> Cow<'w, str> {
    if word.len() > 2 && word.is_ascii() && !word.as_bytes()[0].is_ascii_digit() {
        english.stem(word)
    } else {
        Cow::Borrowed(word)
    }
}

/// Returns a word in lower case without accents and apostrophes.
pub(super) fn folded(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    fold(Part::Word(word), &mut folded);
    folded
}

/// Converts a word to lower case without accents and apostrophes.
fn fold(part: Part<'_>, folded: &mut String) {
    folded.clear();
    match part {
        Part::Gram(gram) => folded.push_str(gram),
        Part::Word(word) | Part::Whole(word) | Part::Negation(word) if word.is_ascii() => {
            folded.extend(
                word.bytes()
                    .filter(|byte| *byte != b'\'')
                    .map(|byte| char::from(byte.to_ascii_lowercase())),
            );
        }
        Part::Word(word) | Part::Whole(word) | Part::Negation(word) => folded.extend(
            word.nfkd()
                .flat_map(char::to_lowercase)
                .filter(|c| !matches!(c, '\'' | '\u{2019}' | '\u{300}'..='\u{36f}')),
        ),
    }
}
