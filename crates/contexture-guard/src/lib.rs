//! Makes content safe to send without changing what it says.
//!
//! ```
//! use contexture_guard::{Policy, clean};
//!
//! let (text, findings) = clean("url = postgres://app:hunter2@db/prod", Policy::default());
//! assert!(!text.contains("hunter2"));
//! assert_eq!(findings[0].what, "url-password");
//! ```
//!
//! [`clean`] turns raw content into text that can be placed in a request:
//!
//! - **Secrets** are replaced by `[secret masked: RULE]`.
//! - **Invisible characters** (bidirectional controls, tag characters, zero
//!   width) are written out: `[U+202E]`. Joiners inside emoji and marks of
//!   direction inside right-to-left text are left as they are.
//! - **Control tokens** of models (`<|im_start|>`, `[INST]`) are escaped only
//!   where the text reaches a raw chat template ([`Policy::template`]).
//!
//! Everything else is sent byte for byte, text that looks like a tag included.
//! Content cannot forge a boundary because the tags around it carry a [`Mark`]
//! that content does not hold.
//!
//! Nothing is silent: each change is a [`Finding`].

mod control;
mod invisible;
mod mark;
mod secrets;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use invisible::Treatment;
use serde::{Deserialize, Serialize};

pub use control::{Template, control_tokens, escape_control};
pub use mark::{Mark, MarkKey};
pub use secrets::{Secret, find_secrets, find_secrets_in, mask};

/// The rules by which the guard changes a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whether secrets are masked. On unless a source turns it off.
    pub mask_secrets: bool,
    /// Whether invisible characters are written out. Off in a document, which
    /// is sent as its authors wrote it.
    pub show_invisible: bool,
    /// The raw chat template that the text is sent to, whose control tokens are
    /// escaped. `None` if there is none.
    pub template: Option<Template>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mask_secrets: true,
            show_invisible: true,
            template: None,
        }
    }
}

impl Policy {
    /// Returns the policy for ordinary text, with secrets masked or not.
    pub fn masking(mask_secrets: bool) -> Self {
        Self {
            mask_secrets,
            ..Self::default()
        }
    }

    /// Returns the policy for a part of a document, which keeps its invisible
    /// characters.
    pub fn in_document(self) -> Self {
        Self {
            show_invisible: false,
            ..self
        }
    }
}

/// A change the guard made to a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// The secret rule, the tag, or the code point that was found.
    pub what: String,
    /// The line of the first finding, from 1.
    pub line: u32,
    /// The number of findings.
    pub count: u32,
}

/// The kind of a guard finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A credential was masked.
    Secret,
    /// Content holds the mark of this root's boundary tags, so that the request
    /// carries another one.
    Boundary,
    /// Text that a model's chat template reads as structure was escaped.
    ControlToken,
    /// An invisible character was written as its code point.
    Invisible,
}

/// Returns true if `c` is visible by itself: not a control character, not
/// invisible, not a line end or a tab.
pub fn is_visible(c: char) -> bool {
    let alone = std::iter::empty;
    !c.is_control() && invisible::treat(c, alone(), alone()) == Treatment::Keep
}

/// Returns `raw` made safe to send, and the changes.
///
/// Cleaning a clean text changes nothing.
pub fn clean(raw: &str, policy: Policy) -> (String, Vec<Finding>) {
    clean_part(raw, 0..raw.len(), policy)
}

/// Returns `raw[part]` made safe to send, and the changes.
///
/// Secrets are searched for in the whole of `raw`: lines from the middle of a
/// private key are masked although they cannot be recognised by themselves. A
/// part has as many lines after the guard as before it, and the lines of
/// findings count from its start. It must begin and end on character
/// boundaries.
pub fn clean_part(raw: &str, part: Range<usize>, policy: Policy) -> (String, Vec<Finding>) {
    let mut findings = Findings::default();
    let seen = sanitise(raw, part, policy, &mut findings);
    let text = match policy.template {
        Some(template) => {
            findings.begin();
            control::escape_each(&seen, template, |token, before| {
                findings.note(FindingKind::ControlToken, token, before);
            })
        }
        None => Cow::Borrowed(&*seen),
    };
    let text = match text {
        Cow::Owned(text) => text,
        Cow::Borrowed(seen) => {
            // Room for the line end that a text gets after it.
            let mut text = String::with_capacity(seen.len() + 1);
            text.push_str(seen);
            text
        }
    };
    findings.list.sort_by_key(|finding| finding.line);
    (text, findings.list)
}

/// Returns `raw` with secrets masked and invisible characters written out.
pub fn visible(raw: &str, policy: Policy) -> Cow<'_, str> {
    visible_part(raw, 0..raw.len(), policy)
}

/// Returns `raw[part]` as [`visible`] returns a whole text, with the secrets
/// masked that show in the whole of `raw`.
pub fn visible_part(raw: &str, part: Range<usize>, policy: Policy) -> Cow<'_, str> {
    sanitise(raw, part, policy, &mut Findings::default())
}

fn sanitise<'t>(
    raw: &'t str,
    part: Range<usize>,
    policy: Policy,
    findings: &mut Findings,
) -> Cow<'t, str> {
    let secrets = match policy.mask_secrets {
        true if part == (0..raw.len()) => find_secrets(raw),
        true => find_secrets_in(raw, part.clone()),
        false => Vec::new(),
    };
    let raw = &raw[part];
    findings.begin();
    let mut out = String::new();
    let mut at = 0;
    let copy = |out: &mut String, range: Range<usize>, findings: &mut Findings| match policy
        .show_invisible
    {
        true => write_visible(out, raw, range, findings),
        false => out.push_str(&raw[range]),
    };
    for secret in secrets {
        copy(&mut out, at..secret.range.start, findings);
        findings.note(FindingKind::Secret, secret.rule, &out);
        out.push_str("[secret masked: ");
        out.push_str(secret.rule);
        out.push(']');
        // The mask of a key has as many lines as the key, so that the lines
        // after it keep their numbers.
        let lines = memchr::memchr_iter(b'\n', raw[secret.range.clone()].as_bytes()).count();
        out.extend(std::iter::repeat_n('\n', lines));
        at = secret.range.end;
    }
    if at == 0 && (!policy.show_invisible || is_plain(raw)) {
        return Cow::Borrowed(raw);
    }
    copy(&mut out, at..raw.len(), findings);
    Cow::Owned(out)
}

/// Copies `raw[range]` to `out` with invisible characters written out.
fn write_visible(out: &mut String, raw: &str, range: Range<usize>, findings: &mut Findings) {
    let mut copied = range.start;
    let mut at = range.start;
    let bytes = raw.as_bytes();
    while at < range.end {
        if !NEEDS_A_LOOK[bytes[at] as usize] {
            at += 1;
            continue;
        }
        let mut rest = raw[at..].chars();
        let Some(c) = rest.next() else { break };
        // The characters that were written before this one, not the original
        // ones: cleaning a clean text must change nothing.
        let before = raw[copied..at].chars().rev().chain(out.chars().rev());
        let behind = at + c.len_utf8();
        let treatment = invisible::treat(c, before, rest);
        if treatment != Treatment::Keep {
            out.push_str(&raw[copied..at]);
            copied = behind;
        }
        match treatment {
            Treatment::Keep => {}
            Treatment::LineEnd => {
                findings.note(FindingKind::Invisible, "U+000D", out);
                out.push('\n');
            }
            Treatment::WriteOut => {
                let code = format!("U+{:04X}", u32::from(c));
                findings.note(FindingKind::Invisible, &code, out);
                out.push('[');
                out.push_str(&code);
                out.push(']');
            }
        }
        at = behind;
    }
    out.push_str(&raw[copied..range.end]);
}

/// The maximum number of kinds of findings of one text, except secrets. Further
/// kinds are counted under the last: a text can hold a million different ones.
const MOST_KINDS: usize = 64;

/// The findings so far.
#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
    // The position of each kind in the list, except secrets.
    kinds: BTreeMap<(FindingKind, String), usize>,
    // The position up to which lines were counted, so that each byte is read
    // once.
    counted: usize,
    line: u32,
}

impl Findings {
    /// Begins a new text, whose lines are counted from its start.
    fn begin(&mut self) {
        self.counted = 0;
        self.line = 1;
    }

    /// Adds a finding right after `before`, which only grows.
    fn note(&mut self, kind: FindingKind, what: &str, before: &str) {
        // Each masking is a line of the report; the rest is counted by kind.
        let key = (kind, what.to_ascii_lowercase());
        if kind != FindingKind::Secret {
            if let Some(&at) = self.kinds.get(&key) {
                self.list[at].count += 1;
                return;
            }
            if self.kinds.len() >= MOST_KINDS
                && let Some(last) = self.kinds.values().max()
            {
                self.list[*last].count += 1;
                return;
            }
            self.kinds.insert(key, self.list.len());
        }
        let newlines = memchr::memchr_iter(b'\n', &before.as_bytes()[self.counted..]).count();
        self.line = self
            .line
            .saturating_add(u32::try_from(newlines).unwrap_or(u32::MAX));
        self.counted = before.len();
        self.list.push(Finding {
            kind,
            what: what.to_owned(),
            line: self.line,
            count: 1,
        });
    }
}

/// Returns true when nothing in `text` needs a look: most texts.
fn is_plain(text: &str) -> bool {
    // Without an early end inside a chunk the compiler compares many at once.
    text.as_bytes().chunks(128).all(|chunk| {
        chunk.iter().fold(true, |plain, &byte| {
            plain & ((0x20..0x7F).contains(&byte) | (byte == b'\n') | (byte == b'\t'))
        })
    })
}

/// Bytes that may begin a character which is not plainly visible.
static NEEDS_A_LOOK: [bool; 256] = {
    let mut look = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        look[byte] = match byte as u8 {
            b'\n' | b'\t' => false,
            0..=0x1F | 0x7F..=0xFF => true,
            _ => false,
        };
        byte += 1;
    }
    look
};

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, expected: &str) {
        let (cleaned, _) = clean(raw, Policy::default());
        assert_eq!(cleaned, expected);
    }

    #[test]
    fn code_and_markup_are_left_alone() {
        for same in [
            "impl<S> Layer<S> for Promise<User>",
            "#include <system>\ncat <<SYSTEM",
            "</context><system>",
            "<|im_start|>system [INST] <s>",
        ] {
            check(same, same);
        }
    }

    #[test]
    fn control_tokens_of_the_template_are_escaped() {
        let policy = Policy {
            template: Some(Template::Bars),
            ..Policy::default()
        };
        let (text, findings) = clean("<s>\n<|im_start|>", policy);
        assert_eq!(text, "<s>\n<\\|im_start|>");
        assert_eq!(findings.len(), 1);
        assert_eq!((&*findings[0].what, findings[0].line), ("<|im_start|>", 2));
    }

    #[test]
    fn invisible_characters_are_written_out() {
        check("a\u{202E}b", "a[U+202E]b");
        check("hi\u{E0041}\u{E0042}", "hi[U+E0041][U+E0042]");
        check("zero\u{200B}width", "zero[U+200B]width");
        // Tags without a flag, a flag without an end, and selectors after letters hide data.
        check("🏴\u{E0067}\u{E0062}x", "🏴[U+E0067][U+E0062]x");
        check("a\u{E0100}", "a[U+E0100]");
        check("葛\u{E0100}\u{E0101}", "葛\u{E0100}[U+E0101]");
        check("a\u{180B}", "a[U+180B]");
        check("word\u{200D} end", "word[U+200D] end");
        check("left \u{200F} right", "left [U+200F] right");
        check("esc \u{1b}[31m", "esc [U+001B][31m");
        check("nul\0", "nul[U+0000]");
        check("\u{FEFF}bom first", "[U+FEFF]bom first");
    }

    #[test]
    fn fields_that_writing_needs_are_kept() {
        for same in [
            "👨‍👩‍👧",
            "❤️",
            "می‌خواهم",
            "क्‍ष",
            "tab\tand\nline",
            "win\r\nline",
            "שלום\u{200F}!",
            "שלום \u{200F}(C++)",
            "C++ \u{200E} مرحبا",
            "🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} flag",
            "葛\u{E0100}城",
            "ᠮᠣᠩᠭᠣᠯ\u{180B}",
            "അവന്\u{200D} വന്നു",
            "\u{2067}مرحبا\u{2069} C++",
        ] {
            check(same, same);
        }
        check("old\rmac", "old\nmac");
    }

    #[test]
    fn a_text_full_of_different_things_gets_a_short_list() {
        let text: String = (0..10_000).map(|n| format!("<|t{n}|>")).collect();
        let policy = Policy {
            template: Some(Template::Any),
            ..Policy::default()
        };
        let (_, findings) = clean(&text, policy);
        assert_eq!(findings.len(), MOST_KINDS);
        assert_eq!(findings.iter().map(|f| f.count).sum::<u32>(), 10_000);
    }

    #[test]
    fn findings_are_counted_with_the_first_line() {
        let (_, findings) = clean("a\n\u{200B}\n\u{200B}\n\u{202E}", Policy::default());
        assert_eq!(
            findings,
            [
                Finding {
                    kind: FindingKind::Invisible,
                    what: "U+200B".into(),
                    line: 2,
                    count: 2
                },
                Finding {
                    kind: FindingKind::Invisible,
                    what: "U+202E".into(),
                    line: 4,
                    count: 1
                },
            ]
        );
    }
}
