//! Finds the words of a text and the parts of its compounds.

use super::LONGEST;

/// A unit of a text that can be searched for by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'t> {
    /// A word, alone or as a part of a compound.
    Word(&'t str),
    /// A compound of several words, as one.
    Whole(&'t str),
    /// `don't` and similar contractions, which have no meaning alone.
    Negation(&'t str),
    /// One or two characters of a script without spaces.
    Gram(&'t str),
}

impl<'t> Part<'t> {
    pub(super) fn as_str(self) -> &'t str {
        let (Part::Word(text) | Part::Whole(text) | Part::Negation(text) | Part::Gram(text)) = self;
        text
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Lower,
    Upper,
    Digit,
    /// Continues a word, and begins none: an accent, or a modifier after an
    /// emoji.
    Mark,
    Unspaced,
}

const ASCII: [Class; 128] = {
    let mut classes = [Class::Other; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// Returns true for scripts without spaces, and for Korean, whose words include
/// their endings. Pairs of characters match better than words there.
pub fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        // Thai and Lao, Burmese, Khmer.
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF
        // Hangul; Japanese; Chinese characters, without punctuation.
        | 0x1100..=0x11FF | 0x3005..=0x3007 | 0x3041..=0x30FF | 0x3105..=0x31FF
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF
        | 0xF900..=0xFAFF | 0xFF66..=0xFFDC | 0x20000..=0x323AF)
        && c != '\u{30FB}'
}

/// Returns the class of the character at `at`, and its length in bytes.
#[inline]
fn class_at(text: &str, at: usize) -> (Class, usize) {
    let byte = text.as_bytes()[at];
    if byte < 128 {
        return (ASCII[usize::from(byte)], 1);
    }
    let c = text[at..].chars().next().unwrap_or('\u{fffd}');
    let class = if is_unspaced(c) {
        Class::Unspaced
    } else if c.is_uppercase() {
        Class::Upper
    } else if c.is_alphabetic() {
        Class::Lower
    } else if unicode_normalization::char::is_combining_mark(c) {
        Class::Mark
    } else if c.is_numeric() {
        Class::Digit
    } else {
        Class::Other
    };
    (class, c.len_utf8())
}

/// Calls `each` with the words of `text`, a compound before its parts.
pub(super) fn scan<'t>(text: &'t str, each: &mut impl FnMut(Part<'t>)) {
    let mut at = 0;
    while at < text.len() {
        let (class, width) = class_at(text, at);
        at = match class {
            Class::Other | Class::Mark => at + width,
            Class::Unspaced => grams(text, at, each),
            Class::Lower | Class::Upper | Class::Digit => run(text, at, each),
        };
    }
}

fn grams<'t>(text: &'t str, start: usize, each: &mut impl FnMut(Part<'t>)) -> usize {
    let mut last = None;
    let mut at = start;
    while at < text.len() {
        let (class, width) = class_at(text, at);
        if class != Class::Unspaced {
            break;
        }
        if let Some(last) = last {
            each(Part::Gram(&text[last..at + width]));
        }
        last = Some(at);
        at += width;
    }
    if last == Some(start) {
        each(Part::Gram(&text[start..at]));
    }
    at
}

/// Reads a word or compound from `start`; returns its end.
fn run<'t>(text: &'t str, start: usize, each: &mut impl FnMut(Part<'t>)) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut end = start;
    let mut before = Class::Other;
    let mut uppers = 0;
    let (mut joined, mut camel, mut apostrophe) = (false, false, false);
    while at < bytes.len() {
        let (class, width) = class_at(text, at);
        match class {
            Class::Lower | Class::Upper | Class::Digit => {
                if class == Class::Upper {
                    camel |= matches!(before, Class::Lower | Class::Digit);
                    uppers += 1;
                } else {
                    camel |= class == Class::Lower && uppers > 1;
                    uppers = 0;
                }
                before = class;
                at += width;
                end = at;
                continue;
            }
            Class::Mark => {
                at += width;
                end = at;
                continue;
            }
            Class::Unspaced => break,
            Class::Other => {}
        }
        let (width, is_apostrophe) = match bytes[at] {
            b'_' => (
                bytes[at..].iter().take_while(|byte| **byte == b'_').count(),
                false,
            ),
            b'-' | b'.' => (1, false),
            b'\'' => (1, true),
            _ if text[at..].starts_with('\u{2019}') => (3, true),
            _ => break,
        };
        let goes_on = at + width < bytes.len()
            && matches!(
                class_at(text, at + width).0,
                Class::Lower | Class::Upper | Class::Digit
            );
        if !goes_on {
            break;
        }
        joined |= !is_apostrophe;
        apostrophe |= is_apostrophe;
        before = Class::Other;
        uppers = 0;
        at += width;
    }
    let found = &text[start..end];
    if !joined && !camel && !apostrophe {
        if found.len() <= LONGEST {
            each(Part::Word(found));
        }
    } else {
        compound(found, joined, each);
    }
    end
}

fn compound<'t>(found: &'t str, joined: bool, each: &mut impl FnMut(Part<'t>)) {
    let Some(whole) = without_ending(found) else {
        each(Part::Negation(found));
        return;
    };
    if !joined && humps(whole).nth(1).is_none() {
        if whole.len() <= LONGEST {
            each(Part::Word(whole));
        }
        return;
    }
    if whole.len() <= LONGEST {
        each(Part::Whole(whole));
    }
    for piece in whole.split(['_', '-', '.']) {
        if piece.len() > LONGEST {
            continue;
        }
        let Some(piece) = without_ending(piece) else {
            continue;
        };
        for hump in humps(piece) {
            // A single letter matches nothing that the whole compound does not.
            if hump.len() > 1 || hump.as_bytes()[0].is_ascii_digit() {
                each(Part::Word(hump));
            }
        }
    }
}

/// Removes `'s`, `'ll` and similar endings. A negation is not a word of its
/// own.
fn without_ending(word: &str) -> Option<&str> {
    let Some((stem, ending)) = word.rsplit_once(['\'', '\u{2019}']) else {
        return Some(word);
    };
    if ending.eq_ignore_ascii_case("t") && stem.ends_with(['n', 'N']) {
        return None;
    }
    Some(if ending.len() <= 2 { stem } else { word })
}

/// Splits `parseHTTPRequest2Go` into `parse`, `HTTP`, `Request2` and `Go`.
fn humps(word: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= word.len() {
            return None;
        }
        let (mut at, mut before, mut uppers, mut last) = (start, Class::Other, 0, start);
        while at < word.len() {
            let (class, width) = class_at(word, at);
            let cut = match class {
                Class::Upper if before == Class::Lower => at,
                // `utf8Parser` has two parts, but `5K` and `H2O` have one.
                Class::Upper
                    if before == Class::Digit
                        && word.len() > at + width
                        && class_at(word, at + width).0 == Class::Lower =>
                {
                    at
                }
                // The last capital begins the next word, except before the `s`
                // of `URLs`.
                Class::Lower if uppers > 1 && &word[at..] != "s" => last,
                _ => start,
            };
            if cut > start {
                let hump = &word[start..cut];
                start = cut;
                return Some(hump);
            }
            if class != Class::Mark {
                uppers = if class == Class::Upper { uppers + 1 } else { 0 };
                (before, last) = (class, at);
            }
            at += width;
        }
        let hump = &word[start..];
        start = word.len();
        Some(hump)
    })
}
