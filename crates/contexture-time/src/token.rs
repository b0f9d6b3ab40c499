//! Splits a text into the words and numbers that expressions of time are made
//! of.

use std::ops::Range;

/// The characters between a word and the word before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    /// Spaces only.
    Space,
    /// A hyphen or a dash.
    Dash,
    /// A comma, a colon, a bracket, a quotation mark or the end of a line.
    Break,
    /// The end of a sentence.
    Sentence,
}

/// A word, a number or a date in digits.
#[derive(Debug, Clone)]
pub(super) struct Token {
    /// The word in lower case, without `'s`.
    pub(super) word: String,
    /// True if the word begins with a capital letter.
    pub(super) capital: bool,
    /// True if the word is the first of a sentence.
    pub(super) first: bool,
    /// True if the word ends in `'s`, which `word` does not have.
    pub(super) possessive: bool,
    /// The characters before the word.
    pub(super) gap: Gap,
    /// The byte range in the text.
    pub(super) range: Range<usize>,
}

/// Returns the tokens of a text, at most `most`.
pub(super) fn tokens(text: &str, most: usize) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut chars = text.char_indices().peekable();
    let (mut first, mut gap) = (true, Gap::Sentence);
    while let Some(&(start, c)) = chars.peek() {
        if !c.is_alphanumeric() {
            first |= matches!(c, '.' | '!' | '?' | '\n' | ':' | ';');
            let last = tokens.last().map_or("", |token| token.word.as_str());
            gap = gap.max(gap_of(c, &text[start + c.len_utf8()..], last));
            chars.next();
            continue;
        }
        let mut end = start;
        let digits = c.is_ascii_digit();
        while let Some(&(at, c)) = chars.peek() {
            // A date in digits is one token: `2026-04-17`, `17/4/2026`.
            let joins = match c {
                '-' | '/' | '.' => {
                    digits && text[at + 1..].starts_with(|next: char| next.is_ascii_digit())
                }
                '\'' | '\u{2019}' => true,
                _ => c.is_alphanumeric(),
            };
            if !joins {
                break;
            }
            end = at + c.len_utf8();
            chars.next();
        }
        if tokens.len() == most {
            break;
        }
        let written = &text[start..end];
        // No word of time is longer.
        let word = match written.len() {
            0..=32 => written.to_lowercase().replace('\u{2019}', "'"),
            _ => String::new(),
        };
        let word = word.trim_end_matches('\'');
        tokens.push(Token {
            word: word.strip_suffix("'s").unwrap_or(word).to_owned(),
            possessive: word.ends_with("'s"),
            capital: written.starts_with(char::is_uppercase),
            first: std::mem::take(&mut first),
            gap: std::mem::replace(&mut gap, Gap::Space),
            range: start..end,
        });
    }
    tokens
}

/// Returns the gap that a character makes, before the rest of the text and
/// after a word.
fn gap_of(c: char, rest: &str, last: &str) -> Gap {
    const ABBREVIATED: &[&str] = &[
        "dr", "mr", "mrs", "ms", "prof", "st", "sr", "jr", "vs", "no", "approx", "mon", "tue",
        "wed", "thu", "fri", "sat", "sun",
    ];
    match c {
        '-' | '\u{2010}'..='\u{2013}' => Gap::Dash,
        '!' | '?' | ';' => Gap::Sentence,
        '\n' if rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n') => Gap::Sentence,
        '.' => {
            // `Dr. Lee`, `10 a.m. on Monday`, `Dec. 4`.
            let letter = last.chars().count() == 1 && last != "i";
            let short = letter || ABBREVIATED.contains(&last) || short_month(last).is_some();
            match rest.starts_with(char::is_alphanumeric) || short {
                true => Gap::Space,
                false => Gap::Sentence,
            }
        }
        c if c.is_whitespace() && c != '\n' => Gap::Space,
        _ => Gap::Break,
    }
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

const NUMBERS: [&str; 21] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

const ORDINALS: [&str; 21] = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
];

/// Returns the number of a month that is written out.
pub(super) fn month(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|month| *month == word)?;
    i8::try_from(at + 1).ok()
}

/// Returns the number of an abbreviated month: `apr`.
pub(super) fn short_month(word: &str) -> Option<i8> {
    let word = if word == "sept" { "sep" } else { word };
    if word.len() != 3 {
        return None;
    }
    let at = MONTHS.iter().position(|month| month.starts_with(word))?;
    i8::try_from(at + 1).ok()
}

/// Returns the number of a weekday, from 0 for Monday.
pub(super) fn weekday(word: &str) -> Option<i8> {
    let at = WEEKDAYS.iter().position(|day| *day == word)?;
    i8::try_from(at).ok()
}

/// Returns the first month of a season.
pub(super) fn season(word: &str) -> Option<i8> {
    Some(match word {
        "spring" | "springtime" => 3,
        "summer" | "summertime" => 6,
        "autumn" | "fall" => 9,
        "winter" | "wintertime" => 12,
        _ => return None,
    })
}

/// Returns a number in digits or words: `3`, `three`, `a`.
pub(super) fn number(word: &str) -> Option<i64> {
    let in_words = NUMBERS.iter().position(|number| *number == word);
    match word {
        "a" | "an" => Some(1),
        "couple" => Some(2),
        "few" => Some(3),
        "several" => Some(4),
        "thirty" => Some(30),
        "forty" => Some(40),
        "fifty" => Some(50),
        _ => in_words
            .map(|at| at as i64)
            .or_else(|| word.parse().ok().filter(|n| (0..=10_000).contains(n))),
    }
}

/// Returns an ordinal number in words, from 1 for `first`.
pub(super) fn ordinal(word: &str) -> Option<i64> {
    match word {
        "thirtieth" => Some(30),
        _ => {
            let at = ORDINALS.iter().position(|ordinal| *ordinal == word)?;
            i64::try_from(at).ok().filter(|at| *at > 0)
        }
    }
}

/// Returns the day of a month: `17`, `17th`.
pub(super) fn day(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &word[digits.len()..];
    let day = matches!(suffix, "" | "st" | "nd" | "rd" | "th");
    let day = day.then(|| digits.parse().ok()).flatten();
    day.filter(|day| (1..=31).contains(day))
}

/// Returns a year of four digits.
pub(super) fn year(word: &str) -> Option<i16> {
    let year = word.parse().ok().filter(|year| (1900..2100).contains(year));
    year.filter(|_| word.len() == 4)
}
