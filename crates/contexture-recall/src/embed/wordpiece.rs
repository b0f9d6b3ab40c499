//! A fast WordPiece tokenizer, as in BERT: one pass, no allocation per token,
//! and a time that is linear in the text.
//!
//! A property test checks that the ids equal those of the `tokenizers` crate.

use serde::Deserialize;
use unicode_categories::UnicodeCategories as _;
use unicode_normalization::UnicodeNormalization as _;

/// A WordPiece tokenizer with BERT's normaliser and pre-tokenizer.
pub struct WordPiece {
    beginnings: Table,
    continuations: Table,
    unknown: u32,
    most_characters: usize,
    normaliser: Normaliser,
    /// Special tokens that are matched in the original text, longest first.
    added: Vec<(String, u32)>,
}

/// Buffers that are reused from text to text.
#[derive(Default)]
pub struct Scratch {
    word: Vec<u8>,
    /// The number of characters of the word. Characters above the limit are
    /// only counted.
    characters: usize,
    /// The token ids of the latest text.
    pub ids: Vec<u32>,
}

/// The limits and options for reading a text.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The maximum number of tokens.
    pub most: usize,
    /// Whether unknown tokens are included.
    pub unknown: bool,
    /// Whether `parseHttp` is read as `parse Http`.
    pub split_camel_case: bool,
}

#[derive(Deserialize)]
struct File {
    normalizer: Option<Normaliser>,
    pre_tokenizer: Option<Typed>,
    #[serde(default)]
    added_tokens: Vec<Added>,
    model: Model,
}

#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default = "yes")]
    normalized: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Normaliser {
    r#type: String,
    #[serde(default = "yes")]
    clean_text: bool,
    #[serde(default = "yes")]
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    #[serde(default = "yes")]
    lowercase: bool,
}

#[derive(Deserialize)]
struct Model {
    r#type: Option<String>,
    #[serde(default)]
    unk_token: String,
    #[serde(default = "hashes")]
    continuing_subword_prefix: String,
    #[serde(default = "hundred")]
    max_input_chars_per_word: usize,
    vocab: std::collections::BTreeMap<String, u32>,
}

fn hashes() -> String {
    "##".to_owned()
}

fn hundred() -> usize {
    100
}

/// The reason why a tokenizer cannot be read.
pub enum NotRead {
    /// The tokenizer has another kind, which is in this field.
    Other(String),
    /// The file is invalid.
    Broken(String),
}

/// Properties of a vocabulary.
pub struct Vocabulary {
    /// One more than the largest id.
    pub ids: usize,
    /// The median length of the tokens in characters.
    pub median: usize,
}

impl WordPiece {
    /// Reads a `tokenizer.json`.
    pub fn read(json: &[u8]) -> Result<(Self, Vocabulary), NotRead> {
        let other = |what: &str| NotRead::Other(what.to_owned());
        let file: File = match serde_json::from_slice(json) {
            Ok(file) => file,
            Err(error) => return Err(not_wordpiece(json, &error)),
        };
        match file.model.r#type.as_deref() {
            Some("WordPiece") => {}
            kind => return Err(other(kind.unwrap_or("a model without a type"))),
        }
        let normaliser = file.normalizer.ok_or(other("no normaliser"))?;
        if normaliser.r#type != "BertNormalizer" {
            return Err(NotRead::Other(normaliser.r#type));
        }
        match file.pre_tokenizer {
            Some(typed) if typed.r#type == "BertPreTokenizer" => {}
            typed => {
                return Err(NotRead::Other(
                    typed.map_or("no pre-tokenizer".to_owned(), |typed| typed.r#type),
                ));
            }
        }
        for token in &file.added_tokens {
            let plain = !(token.single_word || token.lstrip || token.rstrip || token.normalized);
            if !plain || !token.content.starts_with(|c: char| c.is_ascii()) {
                return Err(other("an added token that is more than a plain text"));
            }
        }
        if file
            .model
            .vocab
            .keys()
            .any(|token| token.len() > MOST_BYTES)
        {
            return Err(other("a token of enormous length"));
        }
        let unknown = *file.model.vocab.get(&file.model.unk_token).ok_or_else(|| {
            NotRead::Broken(format!(
                "has no token `{}` in its vocabulary, although it is the unknown token",
                file.model.unk_token
            ))
        })?;

        let mut added: Vec<(String, u32)> = file
            .added_tokens
            .into_iter()
            .map(|token| (token.content, token.id))
            .collect();
        added.sort_by_key(|(content, _)| std::cmp::Reverse(content.len()));
        let prefix = &file.model.continuing_subword_prefix;
        let mut lengths: Vec<usize> = Vec::with_capacity(file.model.vocab.len());
        let mut ids = 0;
        let mut beginnings = Table::for_number(file.model.vocab.len());
        let mut continuations = Table::for_number(file.model.vocab.len());
        let extra = added
            .iter()
            .filter(|(content, _)| !file.model.vocab.contains_key(content));
        for (token, id) in file.model.vocab.iter().chain(extra.map(|(t, id)| (t, id))) {
            lengths.push(token.chars().count());
            ids = ids.max(*id as usize + 1);
        }
        for (token, id) in &file.model.vocab {
            beginnings.insert(token.as_bytes(), *id);
            if let Some(rest) = token.strip_prefix(prefix) {
                continuations.insert(rest.as_bytes(), *id);
            }
        }
        let median = median(&mut lengths);
        let read = Self {
            beginnings,
            continuations,
            unknown,
            most_characters: file.model.max_input_chars_per_word,
            normaliser,
            added,
        };
        Ok((read, Vocabulary { ids, median }))
    }

    /// Returns the id of a whole token, such as `[CLS]`.
    pub fn id(&self, token: &str) -> Option<u32> {
        let added = self.added.iter().find(|(content, _)| content == token);
        added
            .map(|(_, id)| *id)
            .or_else(|| self.beginnings.get(token.as_bytes()))
    }

    /// Returns the id of the unknown token.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Writes the ids of `text` to `scratch.ids`.
    pub fn read_text(&self, text: &str, reading: Reading, scratch: &mut Scratch) {
        scratch.ids.clear();
        scratch.word.clear();
        scratch.characters = 0;
        let bytes = text.as_bytes();
        let classes = if self.normaliser.clean_text {
            &CLEANED
        } else {
            &AS_IT_IS
        };
        let mut at = 0;
        while at < bytes.len() && scratch.ids.len() < reading.most {
            let byte = bytes[at];
            if byte >= 128 {
                let length = bytes[at..].iter().take_while(|byte| **byte >= 128).count();
                self.read_beyond_ascii(&text[at..at + length], reading, scratch);
                at += length;
                continue;
            }
            if !self.added.is_empty()
                && let Some((content, id)) = self
                    .added
                    .iter()
                    .find(|(content, _)| bytes[at..].starts_with(content.as_bytes()))
            {
                self.end_word(reading, scratch);
                if *id != self.unknown || reading.unknown {
                    scratch.ids.push(*id);
                }
                at += content.len();
                continue;
            }
            match classes[usize::from(byte)] {
                Class::Word => {
                    if byte.is_ascii_uppercase() {
                        if reading.split_camel_case && at > 0 && bytes[at - 1].is_ascii_lowercase()
                        {
                            self.end_word(reading, scratch);
                        }
                        let lower = byte | (u8::from(self.normaliser.lowercase) << 5);
                        self.push(&[lower], scratch);
                    } else {
                        self.push(&[byte], scratch);
                    }
                }
                Class::Space => self.end_word(reading, scratch),
                Class::Punctuation => {
                    self.end_word(reading, scratch);
                    self.push(&[byte], scratch);
                    self.end_word(reading, scratch);
                }
                Class::Removed => {}
            }
            at += 1;
        }
        if scratch.ids.len() < reading.most {
            self.end_word(reading, scratch);
        }
        scratch.ids.truncate(reading.most);
    }

    fn read_beyond_ascii(&self, run: &str, reading: Reading, scratch: &mut Scratch) {
        let normaliser = &self.normaliser;
        let cleaned = run
            .chars()
            .filter(|c| !normaliser.clean_text || !(*c == '\u{fffd}' || c.is_other()))
            .flat_map(|c| {
                let apart = normaliser.handle_chinese_chars && is_chinese(c);
                let space = apart.then_some(' ');
                space.into_iter().chain([c]).chain(space)
            });
        if normaliser.strip_accents.unwrap_or(normaliser.lowercase) {
            let bare = cleaned.nfd().filter(|c| !c.is_mark_nonspacing());
            self.read_normalised(bare, reading, scratch);
        } else {
            self.read_normalised(cleaned, reading, scratch);
        }
    }

    fn read_normalised(
        &self,
        characters: impl Iterator<Item = char>,
        reading: Reading,
        scratch: &mut Scratch,
    ) {
        for c in characters {
            if scratch.ids.len() >= reading.most {
                return;
            }
            if self.normaliser.lowercase {
                for lower in c.to_lowercase() {
                    self.read_character(lower, reading, scratch);
                }
            } else {
                self.read_character(c, reading, scratch);
            }
        }
    }

    fn read_character(&self, c: char, reading: Reading, scratch: &mut Scratch) {
        let mut buffer = [0; 4];
        if c.is_whitespace() {
            self.end_word(reading, scratch);
        } else if c.is_ascii_punctuation() || c.is_punctuation() {
            self.end_word(reading, scratch);
            self.push(c.encode_utf8(&mut buffer).as_bytes(), scratch);
            self.end_word(reading, scratch);
        } else {
            self.push(c.encode_utf8(&mut buffer).as_bytes(), scratch);
        }
    }

    /// Adds a character to the current word.
    #[inline]
    fn push(&self, character: &[u8], scratch: &mut Scratch) {
        scratch.characters += 1;
        if scratch.characters <= self.most_characters {
            scratch.word.extend_from_slice(character);
        }
    }

    /// Splits the current word into tokens: repeatedly the longest match. A
    /// word that cannot be split completely is unknown.
    fn end_word(&self, reading: Reading, scratch: &mut Scratch) {
        let before = scratch.ids.len();
        if scratch.characters == 0 {
            return;
        }
        let mut known = scratch.characters <= self.most_characters;
        let mut rest = scratch.word.as_slice();
        let mut table = &self.beginnings;
        while known && !rest.is_empty() {
            match table.longest(rest) {
                Some((length, id)) => {
                    scratch.ids.push(id);
                    rest = &rest[length..];
                    table = &self.continuations;
                }
                None => known = false,
            }
        }
        if !known {
            scratch.ids.truncate(before);
            if reading.unknown {
                scratch.ids.push(self.unknown);
            }
        } else if !reading.unknown {
            // The text may contain the name of the unknown token.
            let unknown = self.unknown;
            if scratch.ids[before..].contains(&unknown) {
                let kept = scratch.ids.split_off(before);
                scratch
                    .ids
                    .extend(kept.into_iter().filter(|id| *id != unknown));
            }
        }
        scratch.word.clear();
        scratch.characters = 0;
    }
}

/// Returns the median of lengths, rounded down.
pub fn median(lengths: &mut [usize]) -> usize {
    lengths.sort_unstable();
    let half = lengths.len() / 2;
    match lengths {
        [] => 0,
        _ if lengths.len().is_multiple_of(2) => (lengths[half - 1] + lengths[half]) / 2,
        _ => lengths[half],
    }
}

/// Describes a file that does not have the expected form.
fn not_wordpiece(json: &[u8], error: &serde_json::Error) -> NotRead {
    #[derive(Deserialize)]
    struct Kind {
        model: Typed,
    }
    match serde_json::from_slice::<Kind>(json) {
        Ok(kind) if error.is_data() => NotRead::Other(kind.model.r#type),
        _ => NotRead::Broken(format!("is no tokenizer: {error}")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Space,
    Punctuation,
    Removed,
}

/// The classes of ASCII characters when BERT cleans text. It removes control
/// characters, including some that count as white space elsewhere.
const CLEANED: [Class; 128] = classes(true);
const AS_IT_IS: [Class; 128] = classes(false);

const fn classes(cleaned: bool) -> [Class; 128] {
    let mut classes = [Class::Word; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => Class::Space,
            _ if cleaned && byte.is_ascii_control() => Class::Removed,
            0x0b | 0x0c => Class::Space,
            _ if byte.is_ascii_punctuation() => Class::Punctuation,
            _ => Class::Word,
        };
        byte += 1;
    }
    classes
}

/// Returns true for characters that BERT reads as single words.
fn is_chinese(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

/// A hash table of tokens, looked up with all prefixes of a word at once.
struct Table {
    /// The token number plus one, and some bits of its hash to reject most
    /// others.
    slots: Vec<(u32, u32)>,
    tokens: Vec<Token>,
    bytes: Vec<u8>,
    longest: usize,
}

struct Token {
    start: u32,
    length: u32,
    id: u32,
}

const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The maximum size of a token in bytes: the prefixes of a word are hashed on
/// the stack.
const MOST_BYTES: usize = 128;

#[inline]
fn hash_on(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

/// Mixes the high bits, which FNV distributes best, into the low ones.
#[inline]
fn spread(hash: u64) -> u64 {
    (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Table {
    fn for_number(number: usize) -> Self {
        Self {
            slots: vec![(0, 0); (number * 2).next_power_of_two().max(2)],
            tokens: Vec::with_capacity(number),
            bytes: Vec::new(),
            longest: 0,
        }
    }

    fn hash(token: &[u8]) -> u64 {
        let bytes = token.iter();
        spread(bytes.fold(HASH_START, |hash, byte| hash_on(hash, *byte)))
    }

    fn get(&self, token: &[u8]) -> Option<u32> {
        self.find(token, Self::hash(token))
    }

    fn insert(&mut self, token: &[u8], id: u32) {
        if token.is_empty() {
            return;
        }
        let hash = Self::hash(token);
        let mut at = self.slot(hash);
        while self.slots[at].0 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.tokens.push(Token {
            start: self.bytes.len() as u32,
            length: token.len() as u32,
            id,
        });
        self.slots[at] = (self.tokens.len() as u32, hash as u32);
        self.bytes.extend_from_slice(token);
        self.longest = self.longest.max(token.len());
    }

    fn slot(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    fn find(&self, token: &[u8], hash: u64) -> Option<u32> {
        let mut at = self.slot(hash);
        loop {
            let (number, tag) = self.slots[at];
            let known = self.tokens.get((number as usize).checked_sub(1)?)?;
            let start = known.start as usize;
            if tag == hash as u32 && &self.bytes[start..start + known.length as usize] == token {
                return Some(known.id);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Returns the longest token that `rest` begins with, and its length.
    fn longest(&self, rest: &[u8]) -> Option<(usize, u32)> {
        let most = rest.len().min(self.longest);
        let mut hashes = [0; MOST_BYTES];
        let mut hash = HASH_START;
        for (byte, place) in rest[..most].iter().zip(&mut hashes) {
            hash = hash_on(hash, *byte);
            *place = hash;
        }
        (1..=most).rev().find_map(|length| {
            let id = self.find(&rest[..length], spread(hashes[length - 1]))?;
            Some((length, id))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    const JSON: &[u8] = include_bytes!("../../assets/static-256/tokenizer.json");

    static OURS: LazyLock<WordPiece> = LazyLock::new(|| read(JSON));
    static THEIRS: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| theirs(JSON));

    fn read(json: &[u8]) -> WordPiece {
        match WordPiece::read(json) {
            Ok((wordpiece, _)) => wordpiece,
            Err(NotRead::Other(why) | NotRead::Broken(why)) => panic!("{why}"),
        }
    }

    fn theirs(json: &[u8]) -> tokenizers::Tokenizer {
        tokenizers::Tokenizer::from_bytes(json).unwrap()
    }

    fn ids(wordpiece: &WordPiece, text: &str) -> Vec<u32> {
        let reading = Reading {
            most: usize::MAX,
            unknown: true,
            split_camel_case: false,
        };
        let mut scratch = Scratch::default();
        wordpiece.read_text(text, reading, &mut scratch);
        scratch.ids
    }

    #[track_caller]
    fn same(text: &str) {
        let theirs = THEIRS.encode_fast(text, false).unwrap();
        assert_eq!(ids(&OURS, text), theirs.get_ids(), "{text:?}");
    }

    #[test]
    fn tricky_texts_match_the_reference_tokenizer() {
        for text in [
            "",
            "Hello, wörld! unaffable’s e-mail",
            "Crème Brûlée — naïve cafe\u{301} ÅNGSTRÖM İstanbul ẞ ﬁne",
            "中文和日本語のテキスト 한국어 텍스트",
            "𠀀𪜀 豈 ㍿ ＦＵＬＬ　width",
            "😀 👩‍👩‍👧 🇩🇪 ☕️",
            "a\u{0}b\u{7f}c\u{b}d\u{c}e\u{85}f\u{a0}g\u{200b}h\u{202e}i\u{feff}j\u{fffd}k\u{e000}l",
            "tab\tnew\r\nline\u{2028}separator\u{3000}wide",
            "[UNK] [CLS] ##ing ##",
            "«quotes» ‹x› ¿qué? ¡sí! §5 ¶ • … ‰",
            "हिन्दी ไทย עברית עִבְרִית العربية",
            "supercalifragilisticexpialidocious antidisestablishmentarianism",
            "\u{301}\u{316}x\u{316}\u{301}\u{302e}",
        ] {
            same(text);
        }
        same(&"a".repeat(100));
        same(&"a".repeat(101));
        same(&"é".repeat(101));
    }

    #[test]
    fn a_megabyte_of_one_letter_is_one_unknown_word() {
        for letter in ["a", "é", "中", "\u{301}", "!"] {
            let text = letter.repeat(1_000_000 / letter.len());
            let most = 512;
            let reading = Reading {
                most,
                unknown: true,
                split_camel_case: true,
            };
            let mut scratch = Scratch::default();
            OURS.read_text(&text, reading, &mut scratch);
            assert!(scratch.ids.len() <= most);
            assert!(scratch.word.capacity() < 1024);
        }
    }

    #[test]
    fn added_tokens_are_found_in_the_text() {
        let json = String::from_utf8(JSON.to_vec()).unwrap().replacen(
            r#""added_tokens":[]"#,
            r#""added_tokens":[
                {"id":1,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
                {"id":0,"content":"[PAD]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}]"#,
            1,
        );
        let (ours, theirs) = (read(json.as_bytes()), theirs(json.as_bytes()));
        for text in ["a[PAD]b [UNK]c[pad] [PAD", "[PAD]", "x[UNK][PAD]"] {
            let expected = theirs.encode_fast(text, false).unwrap();
            assert_eq!(ids(&ours, text), expected.get_ids(), "{text}");
        }
    }

    #[test]
    fn cased_models_are_supported() {
        let json = String::from_utf8(JSON.to_vec())
            .unwrap()
            .replacen(r#""lowercase":true"#, r#""lowercase":false"#, 1)
            .replacen(r#""clean_text":true"#, r#""clean_text":false"#, 1)
            .replacen(
                r#""handle_chinese_chars":true"#,
                r#""handle_chinese_chars":false"#,
                1,
            );
        let (ours, theirs) = (read(json.as_bytes()), theirs(json.as_bytes()));
        for text in [
            "Hello wörld",
            "a\u{b}b\u{1}c\u{85}d",
            "中文 and more",
            "CAFÉ café",
        ] {
            let expected = theirs.encode_fast(text, false).unwrap();
            assert_eq!(ids(&ours, text), expected.get_ids(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_matches_the_reference_tokenizer(text in ".{0,60}") {
            same(&text);
        }

        #[test]
        fn any_words_match_the_reference_tokenizer(
            text in "([a-zA-Z]{1,12}|[ .,'_\u{0}-\u{20}éÄß中の한\u{300}-\u{310}\u{85}\u{a0}]){0,30}",
        ) {
            same(&text);
        }
    }
}
