//! [`Text`]: content that has passed the guard.
//!
//! Every text in a request is a `Text`, and the guard is the only way to
//! create one. A text keeps its hash and its token counts, so that cloning is
//! cheap and content is counted once.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::counts::Tokens;
use crate::item::Role;
use crate::json;
use crate::measure::Measured;
use crate::part::Part;
use contexture_guard::{self as guard, Finding, Policy};

/// The BLAKE3 hash of a guarded text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

impl std::hash::Hash for ContentHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // A derived implementation would also write the length.
        state.write(&self.0);
    }
}

impl ContentHash {
    /// Returns the hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the hash with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the hash as bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(digits(&self.0, &mut [0; 64]))
    }
}

/// Writes bytes to `out` as hexadecimal digits, and returns them.
fn digits<'o>(bytes: &[u8; 32], out: &'o mut [u8; 64]) -> &'o str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (pairs, _) = out.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
    }
    // Digits are valid UTF-8.
    std::str::from_utf8(out).unwrap_or_default()
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(digits(&self.0, &mut [0; 64]))
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        Self::from_hex(&digits).ok_or_else(|| {
            serde::de::Error::custom(format!("`{digits}` is not a hash of 64 hexadecimal digits"))
        })
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Content that has passed the guard and can be rendered unchanged.
///
/// Invariant: secrets are masked and invisible characters written out, as the
/// policy requires; everything else is unchanged. Only the
/// [guard](crate::guard) makes texts, so that no source can bypass it. A text
/// that was guarded for a [document](Policy::in_document) may hold invisible
/// characters; it is guarded again before it is placed between tags. Cloning is
/// cheap.
#[derive(Clone)]
pub struct Text(Arc<Inner>);

struct Inner {
    // The text and one line end after it, as written between its tags.
    body: Box<str>,
    // Boxed, like the findings: most texts are short and have neither.
    hash: OnceLock<Box<ContentHash>>,
    findings: Box<[Finding]>,
    // Whether invisible characters are written out. False if the text may hold
    // them.
    shows_invisible: bool,
    memo: Mutex<Option<Memo>>,
    // The text as a JSON string, once it was needed.
    json: OnceLock<Box<str>>,
    // The tokens of the tags that the text was last placed between, if they are
    // not the same for all texts.
    tags: Mutex<Option<Box<Tags>>>,
}

/// The latest measurement of a text.
struct Memo {
    // The id of the `Counts` that made it.
    counts: u64,
    // The tokens of the whole text, if it was measured completely. Most readers
    // need no more, and then do not read the measurement.
    total: Option<Tokens>,
    measured: Arc<Measured>,
}

/// The tokens of the tags around a text.
pub(crate) struct Tags {
    /// The id of the `Counts` that counted them.
    pub(crate) counts: u64,
    pub(crate) role: Role,
    /// Whether the tags carry a mark.
    pub(crate) marked: bool,
    /// The path in the opening tag, if it is shown.
    pub(crate) path: Option<Arc<str>>,
    pub(crate) part: Part,
    pub(crate) tokens: Tokens,
}

impl Text {
    /// Returns `raw` after the guard, with secrets masked.
    pub fn new(raw: &str) -> Self {
        Self::guarded(raw, Policy::default())
    }

    /// Returns `raw` after the guard, by `policy`.
    pub fn guarded(raw: &str, policy: Policy) -> Self {
        let (body, findings) = guard::clean(raw, policy);
        Self::of(body, findings, policy)
    }

    /// Returns a text that was guarded before, such as a stored one.
    pub fn verbatim(guarded: &str) -> Self {
        Self::of(guarded.to_owned(), Vec::new(), Policy::masking(false))
    }

    /// Returns `raw[part]` after the guard, by `policy`.
    ///
    /// Secrets are searched for in the whole of `raw`, so that a part of a
    /// private key is masked although it holds neither its first line nor its
    /// last.
    pub fn guarded_part(raw: &str, part: Range<usize>, policy: Policy) -> Self {
        let (body, findings) = guard::clean_part(raw, part, policy);
        Self::of(body, findings, policy)
    }

    /// Returns the lines `raw[part]` of a file after the guard, by `policy`.
    ///
    /// A line feed after the part becomes the text's own line end, so that a
    /// carriage return before it is kept: it is not a line end by itself.
    pub fn guarded_lines(raw: &str, part: Range<usize>, policy: Policy) -> Self {
        let ends = raw[part.end..].starts_with('\n');
        let (mut body, findings) =
            guard::clean_part(raw, part.start..part.end + usize::from(ends), policy);
        if ends && body.ends_with('\n') {
            body.pop();
        }
        Self::of(body, findings, policy)
    }

    /// Returns the text with one more finding, of a change that was made before
    /// the guard.
    pub fn with_finding(&self, finding: Finding) -> Self {
        let mut findings = self.findings().to_vec();
        findings.push(finding);
        findings.sort_by_key(|finding| finding.line);
        let policy = Policy {
            show_invisible: self.0.shows_invisible,
            ..Policy::masking(false)
        };
        Self::of(self.as_str().to_owned(), findings, policy)
    }

    /// Returns the text with `lead` before it, such as a time in brackets.
    pub fn with_lead(&self, lead: &str) -> Self {
        let (lead, _) = guard::clean(lead, Policy::masking(false));
        let joined = format!("{lead}{}", self.as_str());
        Self::of(joined, self.findings().to_vec(), Policy::masking(false))
    }

    /// Returns `shown`, which was made from lines of this text, with the
    /// guard's findings of the whole text.
    pub fn shortened(&self, shown: &str) -> Self {
        let findings = self.findings().to_vec();
        Self::of(shown.to_owned(), findings, Policy::masking(false))
    }

    /// Returns lines of guarded texts as one text. Each line of a guarded text
    /// is safe before a line end, so lines of several texts are safe together.
    pub(crate) fn of_lines(mut lines: String) -> Self {
        if lines.ends_with('\n') {
            lines.pop();
        }
        Self::of(lines, Vec::new(), Policy::masking(false))
    }

    fn of(mut body: String, findings: Vec<Finding>, policy: Policy) -> Self {
        body.push('\n');
        Self(Arc::new(Inner {
            body: body.into(),
            hash: OnceLock::new(),
            findings: findings.into(),
            shows_invisible: policy.show_invisible,
            memo: Mutex::new(None),
            json: OnceLock::new(),
            tags: Mutex::new(None),
        }))
    }

    /// Returns the text guarded again if it was guarded for a document and is
    /// now placed between the tags of `role`. Returns `None` if that is not
    /// necessary.
    pub(crate) fn guarded_again(&self, role: Role) -> Option<Self> {
        if self.0.shows_invisible || role == Role::Document {
            return None;
        }
        // The text holds no secrets any more.
        let policy = Policy::masking(false);
        // With its line end, which a carriage return can belong to.
        let (mut body, mut findings) = guard::clean(self.body(), policy);
        if body.ends_with('\n') {
            body.pop();
        }
        findings.extend(self.findings().iter().cloned());
        findings.sort_by_key(|finding| finding.line);
        Some(Self::of(body, findings, policy))
    }

    /// Returns the guarded text, without a final line end of its own.
    pub fn as_str(&self) -> &str {
        &self.0.body[..self.0.body.len() - 1]
    }

    /// Returns the text as written between its tags, with its line end.
    pub(crate) fn body(&self) -> &str {
        &self.0.body
    }

    /// Returns the hash of the guarded text.
    pub fn hash(&self) -> ContentHash {
        **self
            .0
            .hash
            .get_or_init(|| Box::new(ContentHash::of(self.0.body.as_bytes())))
    }

    /// Returns the guarded text as a JSON string, and caches it: a history is
    /// sent many times.
    pub(crate) fn json(&self) -> &str {
        self.0.json.get_or_init(|| {
            let mut out = String::with_capacity(self.0.body.len() + self.0.body.len() / 8 + 2);
            json::write(&mut out, self.as_str());
            out.into()
        })
    }

    /// Returns the guard's changes.
    pub fn findings(&self) -> &[Finding] {
        &self.0.findings
    }

    /// Returns true if the text is empty.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    pub(crate) fn memo(&self, counts: u64) -> Option<Arc<Measured>> {
        let memo = self.0.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let memo = memo.as_ref().filter(|memo| memo.counts == counts);
        memo.map(|memo| Arc::clone(&memo.measured))
    }

    /// Returns the tokens of the whole text if the latest measurement was made by
    /// these `counts` and is complete.
    pub(crate) fn total(&self, counts: u64) -> Option<Tokens> {
        let memo = self.0.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let memo = memo.as_ref().filter(|memo| memo.counts == counts);
        memo.and_then(|memo| memo.total)
    }

    /// Returns the cached tokens of the tags of an item of `role`.
    pub(crate) fn tags(
        &self,
        counts: u64,
        role: Role,
        marked: bool,
        path: Option<&Arc<str>>,
        part: &Part,
    ) -> Option<Tokens> {
        let tags = self.0.tags.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |tags: &&Tags| {
            tags.counts == counts
                && tags.role == role
                && tags.marked == marked
                && tags.path.as_ref() == path
                && tags.part == *part
        };
        tags.as_deref().filter(is_same).map(|tags| tags.tokens)
    }

    pub(crate) fn remember_tags(&self, tags: Tags) {
        let mut known = self.0.tags.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Box::new(tags));
    }

    pub(crate) fn remember(&self, counts: u64, measured: Arc<Measured>) {
        let memo = Memo {
            counts,
            total: measured.total(),
            measured,
        };
        *self.0.memo.lock().unwrap_or_else(PoisonError::into_inner) = Some(memo);
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.body == other.0.body
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

// Reading a stored text guards it again, which changes nothing.
impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&String::deserialize(deserializer)?))
    }
}
