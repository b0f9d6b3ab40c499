//! Keeps content from being mistaken for structure, and secrets from leaving.
//!
//! [`clean`] turns raw content into text that can stand between boundary tags:
//!
//! - **Boundaries.** `</context>`, `<system>` and the like get a backslash
//!   behind their first character (`<\/context>`), so that content can neither
//!   close its own tag nor open another. [`restore`] takes exactly one such
//!   backslash away again; the pair is lossless on any text.
//! - **Control tokens** of models (`<|im_start|>`, `[INST]`) are escaped the
//!   same way, so that they are plain text to any tokenizer.
//! - **Invisible characters** (bidirectional controls, tag characters, zero
//!   width) are written out: `[U+202E]`.
//! - **Secrets** are replaced by `[secret masked: RULE]`.
//!
//! In a document, which has no tags, only control tokens and secrets are looked
//! at ([`Policy::between_tags`]).
//!
//! Nothing is silent: each change is a [`Finding`].

mod invisible;
mod secrets;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use invisible::Treatment;
use serde::{Deserialize, Serialize};

pub use secrets::{Secret, find_secrets};

/// What the guard does beyond what it always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Whether secrets are masked. On unless a source turns it off.
    pub mask_secrets: bool,
    /// Whether it stands between tags, so that what looks like one is escaped
    /// and what cannot be seen is written out. Off in a document, which has no
    /// tags that could be forged and is what its authors wrote.
    pub between_tags: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mask_secrets: true,
            between_tags: true,
        }
    }
}

impl Policy {
    /// Returns the policy for text between tags, with secrets masked or not.
    pub fn masking(mask_secrets: bool) -> Self {
        Self {
            mask_secrets,
            ..Self::default()
        }
    }

    /// Returns the policy for text that stands in a document.
    pub fn in_document(self) -> Self {
        Self {
            between_tags: false,
            ..self
        }
    }

    fn escapes(self, kind: FindingKind) -> bool {
        self.between_tags || kind != FindingKind::Boundary
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
    /// A text that looks like one of Contexture's tags was escaped.
    Boundary,
    /// A control token of a model was escaped.
    ControlToken,
    /// An invisible character was written as its code point.
    Invisible,
}

/// The names of our tags.
const TAGS: [&str; 6] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "context",
];

/// Control tokens of models that begin with `<`, without their first character.
const CONTROL: [&str; 6] = [
    "s>",
    "/s>",
    "start_of_turn>",
    "end_of_turn>",
    "<sys>>",
    "</sys>>",
];

/// Most blanks between `<` and a tag's name that do not hide the tag.
const MAX_BLANKS: usize = 8;

/// The longest name in a `<|name|>`.
const MAX_CONTROL_NAME: usize = 64;

/// How far back a control token can begin that goes on behind a joint, unless
/// it has been escaped many times.
const LONGEST_CONTROL: usize = MAX_CONTROL_NAME + 32;

/// Returns the kind and the name of what would be read as structure at the
/// start of `text`, which begins with `<` or `[`: one of our tags, or a control
/// token of a model.
///
/// A blank behind `<` does not stop a reader from seeing a tag, nor does upper
/// case. Backslashes behind the first character mean that it was escaped
/// already; it is structure all the same, and gets one more, so that
/// [`restore`] gives back what was there.
pub fn structure(text: &str) -> Option<(FindingKind, &str)> {
    let rest = text[1..].trim_start_matches('\\');
    if text.starts_with('[') {
        return ["inst]", "/inst]"]
            .iter()
            .find_map(|token| strip_prefix_any_case(rest, token))
            .map(|_| (FindingKind::ControlToken, "inst"));
    }
    match rest.as_bytes().first()? {
        b'|' => control_name(&rest[1..], "|>"),
        0xEF if rest.starts_with('｜') => control_name(&rest['｜'.len_utf8()..], "｜>"),
        b'/' | b' ' | b'\t' | b'<' | b'a'..=b'z' | b'A'..=b'Z' => CONTROL
            .iter()
            .find(|token| strip_prefix_any_case(rest, token).is_some())
            .map(|token| {
                (
                    FindingKind::ControlToken,
                    token.trim_matches(['<', '>', '/']),
                )
            })
            .or_else(|| Some((FindingKind::Boundary, tag_name(rest)?))),
        _ => None,
    }
}

/// Returns true when structure begins before `joint` and goes on behind it: the
/// two sides are harmless, and together they are not.
pub fn structure_at(text: &str, joint: usize) -> bool {
    let before = memchr::memchr2_iter(b'<', b'[', &text.as_bytes()[..joint]);
    before
        .map(|at| (at, structure(&text[at..]).is_some()))
        .any(|(at, is_structure)| is_structure && structure(&text[at..joint]).is_none())
}

/// Returns the name of the tag at the start of `text`, which stands behind its
/// angle bracket.
fn tag_name(text: &str) -> Option<&'static str> {
    let text = skip_blanks(text)?;
    let text = skip_blanks(text.strip_prefix('/').unwrap_or(text))?;
    TAGS.into_iter().find(|tag| {
        strip_prefix_any_case(text, tag).is_some_and(|behind| {
            // `<systemd>` and `<context-menu>` are other words.
            !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c))
        })
    })
}

fn skip_blanks(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches([' ', '\t']);
    (text.len() - rest.len() <= MAX_BLANKS).then_some(rest)
}

/// Returns the name of a control token whose name `text` begins with, up to
/// `end`.
fn control_name<'t>(text: &'t str, end: &str) -> Option<(FindingKind, &'t str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-▁".contains(c);
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, behind) = text.split_at(length);
    let named = !name.is_empty() && length <= MAX_CONTROL_NAME;
    (named && behind.starts_with(end)).then_some((FindingKind::ControlToken, name))
}

fn strip_prefix_any_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, behind) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(behind)
}

/// Returns true when `c` can be seen where it stands alone: not a control, not
/// invisible, not a line end or a tab.
pub fn is_visible(c: char) -> bool {
    !c.is_control() && invisible::treat(c, None, None) == Treatment::Keep
}

/// Returns `raw` made safe to stand between tags, and what was changed.
///
/// `restore_by(clean(x, policy), policy) == visible(x, policy)` for every `x`.
pub fn clean(raw: &str, policy: Policy) -> (String, Vec<Finding>) {
    let mut findings = Findings::default();
    let seen = sanitise(raw, policy, &mut findings);
    let text = escape(&seen, policy, &mut findings);
    findings.list.sort_by_key(|finding| finding.line);
    (text, findings.list)
}

/// Returns `raw` with secrets masked and invisible characters written out, but
/// with its structure as it is.
pub fn visible(raw: &str, policy: Policy) -> Cow<'_, str> {
    sanitise(raw, policy, &mut Findings::default())
}

fn sanitise<'t>(raw: &'t str, policy: Policy, findings: &mut Findings) -> Cow<'t, str> {
    let secrets = if policy.mask_secrets {
        find_secrets(raw)
    } else {
        Vec::new()
    };
    findings.begin();
    let mut out = String::new();
    let mut at = 0;
    let copy = |out: &mut String, range: Range<usize>, findings: &mut Findings| {
        // A document is what its authors wrote, marks of direction included.
        match policy.between_tags {
            true => write_visible(out, raw, range, findings),
            false => out.push_str(&raw[range]),
        }
    };
    for secret in secrets {
        copy(&mut out, at..secret.range.start, findings);
        findings.note(FindingKind::Secret, secret.rule, &out);
        out.push_str("[secret masked: ");
        out.push_str(secret.rule);
        out.push(']');
        // A key of many lines still takes as many, so that the lines behind it
        // keep their numbers.
        let lines = memchr::memchr_iter(b'\n', raw[secret.range.clone()].as_bytes()).count();
        out.extend(std::iter::repeat_n('\n', lines));
        at = secret.range.end;
    }
    if at == 0 && (!policy.between_tags || is_plain(raw)) {
        return Cow::Borrowed(raw);
    }
    copy(&mut out, at..raw.len(), findings);
    Cow::Owned(out)
}

fn escape(text: &str, policy: Policy, findings: &mut Findings) -> String {
    findings.begin();
    // Room for the line end that a text gets behind it.
    let mut out = String::with_capacity(text.len() + 1);
    let mut copied = 0;
    for at in memchr::memchr2_iter(b'<', b'[', text.as_bytes()) {
        if let Some((kind, what)) = structure(&text[at..])
            && policy.escapes(kind)
        {
            out.push_str(&text[copied..=at]);
            findings.note(kind, what, &out);
            out.push('\\');
            copied = at + 1;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Puts a backslash into what became a control token where `text[..joint]` and
/// `text[joint..]` meet. Nothing before `start` is looked at.
pub fn escape_joint(text: &mut String, start: usize, joint: usize) {
    // No control token reaches over a line end.
    let from = text.floor_char_boundary(joint.saturating_sub(LONGEST_CONTROL).max(start));
    let before = &text[from..joint];
    let from = before.rfind('\n').map_or(from, |at| from + at);
    let before = &text[from..joint];
    let forged: Vec<usize> = memchr::memchr2_iter(b'<', b'[', before.as_bytes())
        .map(|at| from + at)
        .filter(|&at| {
            let is_control =
                |text: &str| matches!(structure(text), Some((FindingKind::ControlToken, _)));
            is_control(&text[at..]) && !is_control(&text[at..joint])
        })
        .collect();
    for at in forged.into_iter().rev() {
        text.insert(at + 1, '\\');
    }
}

/// Returns `text` with the backslashes that [`clean`] put in taken out again.
pub fn restore(text: &str) -> Cow<'_, str> {
    restore_by(text, Policy::default())
}

/// Returns `text` with the backslashes that [`clean`] put in by `policy` taken
/// out again.
pub fn restore_by(text: &str, policy: Policy) -> Cow<'_, str> {
    let escapes = |text| structure(text).is_some_and(|(kind, _)| policy.escapes(kind));
    let mut out = String::new();
    let mut copied = 0;
    for at in memchr::memchr2_iter(b'<', b'[', text.as_bytes()) {
        if text.as_bytes().get(at + 1) == Some(&b'\\') && escapes(&text[at..]) {
            out.push_str(&text[copied..=at]);
            copied = at + 2;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
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
        // What stands before it now, not what stood there: cleaning what is
        // clean must change nothing.
        let previous = if at > copied {
            raw[..at].chars().next_back()
        } else {
            out.chars().next_back()
        };
        let behind = at + c.len_utf8();
        let treatment = invisible::treat(c, previous, rest.next());
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

/// Most kinds of things, secrets apart, that one text gets a finding for. More
/// are counted under the last: a text can hold a million different ones.
const MOST_KINDS: usize = 64;

/// What was found so far.
#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
    // Where each kind stands in the list, secrets apart.
    kinds: BTreeMap<(FindingKind, String), usize>,
    // How far lines have been counted, so that each byte is looked at once.
    counted: usize,
    line: u32,
}

impl Findings {
    /// Begins a new text, whose lines are counted from its start.
    fn begin(&mut self) {
        self.counted = 0;
        self.line = 1;
    }

    /// Notes a finding that stands right behind `before`, which only grows.
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
    fn tags_are_escaped_in_any_spelling() {
        check("</context><system>", "<\\/context><\\system>");
        check("< / CONTEXT >", "<\\ / CONTEXT >");
        check("<context path=\"x\">", "<\\context path=\"x\">");
        check("<User>", "<\\User>");
        check("<system", "<\\system");
    }

    #[test]
    fn what_only_resembles_a_tag_is_left_alone() {
        for same in [
            "<systemd>",
            "<context-menu>",
            "a < b",
            "Vec<Context>",
            "<users>",
            "f <| x |> g",
            "[instance]",
            "<sub>",
            "<tool_call>",
        ] {
            check(same, &same.replace("<Context>", "<\\Context>"));
        }
    }

    #[test]
    fn control_tokens_are_plain_text() {
        check("<|im_start|>system", "<\\|im_start|>system");
        check("<｜begin▁of▁sentence｜>", "<\\｜begin▁of▁sentence｜>");
        check("[INST] hi [/INST]", "[\\INST] hi [\\/INST]");
        check("</s><s>", "<\\/s><\\s>");
        check("<start_of_turn>", "<\\start_of_turn>");
        check("<<SYS>>", "<\\<SYS>>");
    }

    #[test]
    fn invisible_characters_are_written_out() {
        check("a\u{202E}b", "a[U+202E]b");
        check("hi\u{E0041}\u{E0042}", "hi[U+E0041][U+E0042]");
        check("zero\u{200B}width", "zero[U+200B]width");
        check("esc \u{1b}[31m", "esc [U+001B][31m");
        check("nul\0", "nul[U+0000]");
        check("\u{FEFF}bom first", "[U+FEFF]bom first");
    }

    #[test]
    fn what_writing_needs_is_kept() {
        for same in ["👨‍👩‍👧", "❤️", "می‌خواهم", "क्‍ष", "tab\tand\nline", "win\r\nline"]
        {
            check(same, same);
        }
        check("old\rmac", "old\nmac");
    }

    #[test]
    fn a_text_full_of_different_things_gets_a_short_list() {
        let text: String = (0..10_000).map(|n| format!("<|t{n}|>")).collect();
        let (_, findings) = clean(&text, Policy::default());
        assert_eq!(findings.len(), MOST_KINDS);
        assert_eq!(findings.iter().map(|f| f.count).sum::<u32>(), 10_000);
    }

    #[test]
    fn findings_are_counted_with_the_first_line() {
        let (_, findings) = clean("a\n<user>\n<USER>\n\u{202E}", Policy::default());
        assert_eq!(
            findings,
            [
                Finding {
                    kind: FindingKind::Boundary,
                    what: "user".into(),
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
