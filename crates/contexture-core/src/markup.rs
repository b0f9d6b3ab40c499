//! The text form of a request: blocks between role tags, and back again.
//!
//! Every tag carries the request's [`Mark`]: `<user-482913220>`. Content is
//! written byte for byte and holds no such mark, so that [`parse`] undoes
//! [`render`] on any content, which is what "structure cannot be forged" means.
//! A document without roles has no tags, and so no structure; it is not read
//! back.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::counts::TokenCounter;
use crate::layout::{Block, Layout};
use crate::{Part, Role};
use contexture_guard::{self as guard, Mark};

/// Returns true if a block is written between tags in every form, not only in
/// the text form, because no provider has a role for it.
pub fn is_tagged(role: Role, part: &Part) -> bool {
    *part == Part::Text && matches!(role, Role::Context | Role::Tool | Role::Developer)
}

/// Returns the opening tag of a block, with its line end.
///
/// The header and documents have no tags; the result is empty for them.
pub fn open(role: Role, path: Option<&str>, part: &Part, mark: Option<Mark>) -> String {
    let mut out = String::new();
    write_open(&mut out, role, path, part, mark);
    out
}

fn write_open(out: &mut String, role: Role, path: Option<&str>, part: &Part, mark: Option<Mark>) {
    let Some(tag) = role.tag() else {
        return;
    };
    out.push('<');
    out.push_str(tag);
    write_mark(out, mark);
    let path = path.filter(|_| role.shows_path());
    for (name, value) in path
        .map(|path| ("path", path))
        .into_iter()
        .chain(part.attributes())
    {
        let _ = write!(out, " {name}=\"{}\"", escape_attribute(value));
    }
    out.push_str(">\n");
}

fn write_mark(out: &mut String, mark: Option<Mark>) {
    if let Some(mark) = mark {
        out.push('-');
        out.push_str(mark.as_str());
    }
}

/// Returns the closing tag of a block and the blank line after it.
pub fn close(role: Role, mark: Option<Mark>) -> String {
    let mut out = String::new();
    write_close(&mut out, role, mark);
    out
}

fn write_close(out: &mut String, role: Role, mark: Option<Mark>) {
    if let Some(tag) = role.tag() {
        out.push_str("</");
        out.push_str(tag);
        write_mark(out, mark);
        out.push_str(">\n");
    }
    if role != Role::Document {
        out.push('\n');
    }
}

/// Returns the whole request as text: between role tags, or bare when it is a
/// document.
pub fn render(layout: &Layout) -> String {
    let mut out = String::new();
    render_into(&mut out, layout);
    out
}

/// Writes the whole request as text into `out`, which is empty.
pub fn render_into(out: &mut String, layout: &Layout) {
    if layout.is_document() {
        *out = render_bare(layout);
        return;
    }
    out.reserve(layout.blocks().map(|b| b.text().len() + 64).sum());
    for (_, blocks) in layout.sections() {
        for run in blocks.chunk_by(|before, block| block.joins(before)) {
            write_run(out, run, layout.mark);
        }
    }
    // A blank line separates blocks; none follows the last.
    if out.ends_with("\n\n") {
        out.pop();
    }
}

/// Returns the instructions without their tags, each followed by a blank line,
/// and then the document with nothing after it.
fn render_bare(layout: &Layout) -> String {
    let is_bare = |block: &Block| block.role <= Role::Developer && block.part == Part::Text;
    let mut out = String::new();
    for (_, blocks) in layout.sections() {
        let others: Vec<&Block> = blocks.iter().filter(|b| b.role != Role::Document).collect();
        for run in others.chunk_by(|before, block| block.joins(before) && !is_bare(block)) {
            let start = out.len();
            match run {
                [block] if is_bare(block) => out.push_str(block.text()),
                run => write_run(&mut out, run.iter().copied(), layout.mark),
            }
            if out[start..].trim().is_empty() {
                out.truncate(start);
            } else if !out.ends_with("\n\n") {
                let missing = if out.ends_with('\n') { "\n" } else { "\n\n" };
                out.push_str(missing);
            }
        }
    }
    write_document(&mut out, layout.blocks());
    out
}

/// Writes one block with its tags, as [`render`] does.
pub fn write_block(out: &mut String, block: &Block, mark: Mark) {
    write_run(out, [block], mark);
}

/// Writes blocks of which each [joins](Block::joins) the one before it.
pub fn write_run<'b>(out: &mut String, run: impl IntoIterator<Item = &'b Block>, mark: Mark) {
    let mark = Some(mark);
    let mut last: Option<&Block> = None;
    for block in run {
        match last {
            None => write_open(out, block.role, block.path.as_deref(), &block.part, mark),
            Some(_) => out.push('\n'),
        }
        out.push_str(block.text());
        if block.role != Role::Document {
            out.push('\n');
        }
        last = Some(block);
    }
    if let Some(block) = last {
        write_close(out, block.role, mark);
    }
}

/// Writes the parts of a document among `blocks`, byte for byte, one after the
/// other.
pub fn write_document<'b>(out: &mut String, blocks: impl IntoIterator<Item = &'b Block>) {
    for block in blocks {
        if block.role == Role::Document {
            out.push_str(block.text());
        }
    }
}

/// Returns true if the sum of the blocks' tokens is an upper bound of the
/// tokens of the whole, for a counter whose sums over parts split at seams are
/// bounds.
///
/// If a block continues inside the tags of another, the two must be countable
/// separately. For a document the sum is not a bound: its parts meet in the
/// middle of a word, and each is counted with a line end after it, which can
/// make it cheaper. An estimate of the whole never exceeds the sum of the
/// estimates of its parts.
pub(crate) fn adds_up(layout: &Layout, counter: &dyn TokenCounter) -> bool {
    let apart = |pair: &[Block]| {
        // The blank line between them replaces two tags, and is cheaper.
        !pair[1].joins(&pair[0])
            || counter.is_seam(&format!("{}\n", pair[0].body()), pair[1].body())
    };
    let sections = layout.sections();
    let mut pairs = sections.iter().flat_map(|(_, blocks)| blocks.windows(2));
    !counter.is_exact() || (!layout.is_document() && pairs.all(apart))
}

/// Names and values of attributes, in order.
pub type Attributes = Vec<(String, String)>;

/// A block read back from text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The role of the block.
    pub role: Role,
    /// The path attribute, for a context block.
    pub path: Option<String>,
    /// The other attributes, which describe the kind of content.
    pub attributes: Attributes,
    /// The content.
    pub text: String,
}

/// Parses text that [`render`] wrote with `mark`.
///
/// Fails with the byte offset of the first part that cannot be parsed.
pub fn parse(text: &str, mark: Mark) -> Result<Vec<Parsed>, usize> {
    let mut blocks = Vec::new();
    let mut at = 0;
    if !text.is_empty() && parse_open(text, mark).is_none() {
        let end = find_open(text, mark).unwrap_or(text.len());
        // A header ends with a line end and, if more blocks follow, a blank
        // line.
        let body = text[..end].strip_suffix('\n').ok_or(0usize)?;
        let body = if end == text.len() {
            body
        } else {
            body.strip_suffix('\n').ok_or(0usize)?
        };
        blocks.push(Parsed {
            role: Role::Header,
            path: None,
            attributes: Vec::new(),
            text: body.to_owned(),
        });
        at = end;
    }
    while at < text.len() {
        let (role, mut attributes, opened) = parse_open(&text[at..], mark).ok_or(at)?;
        let is_path = |(name, _): &(String, String)| name == "path";
        let path = attributes.iter().position(is_path);
        let path = path.map(|at| attributes.remove(at).1);
        let body = at + opened;
        let close = close(role, Some(mark));
        let close = close.trim_end();
        let end = memchr::memmem::find(&text.as_bytes()[body..], close.as_bytes()).ok_or(at)?;
        let inner = text[body..body + end].strip_suffix('\n').ok_or(body)?;
        blocks.push(Parsed {
            role,
            path,
            attributes,
            text: inner.to_owned(),
        });
        at = body + end + close.len();
        let rest = &text[at..];
        at += match rest {
            "\n" => 1,
            _ if rest.starts_with("\n\n") => 2,
            _ => return Err(at),
        };
    }
    Ok(blocks)
}

fn find_open(text: &str, mark: Mark) -> Option<usize> {
    memchr::memmem::find_iter(text.as_bytes(), b"\n<")
        .map(|newline| newline + 1)
        .find(|&at| parse_open(&text[at..], mark).is_some())
}

/// Parses an opening tag. Returns its role, its attributes and its length.
fn parse_open(text: &str, mark: Mark) -> Option<(Role, Attributes, usize)> {
    let end = text.find(">\n")?;
    let inside = text.get(1..end).filter(|_| text.starts_with('<'))?;
    let (tag, mut rest) = match inside.split_once(' ') {
        Some((tag, rest)) => (tag, Some(rest)),
        None => (inside, None),
    };
    let tag = tag.strip_suffix(mark.as_str())?.strip_suffix('-')?;
    let role = Role::from_tag(tag)?;
    let mut attributes = Vec::new();
    while let Some(attribute) = rest {
        let (name, value) = attribute.split_once("=\"")?;
        let (value, behind) = value.split_once('"')?;
        attributes.push((name.to_owned(), unescape_attribute(value)?));
        rest = match behind {
            "" => None,
            more => Some(more.strip_prefix(' ')?),
        };
    }
    Some((role, attributes, end + 2))
}

fn is_plain(c: char) -> bool {
    !matches!(c, '&' | '"' | '<' | '>') && guard::is_visible(c)
}

/// Returns `value` escaped for an attribute in double quotes, on one line.
///
/// Every character that could end the attribute or the tag, or is invisible,
/// becomes a character reference.
pub fn escape_attribute(value: &str) -> Cow<'_, str> {
    if value.chars().all(is_plain) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 16);
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if is_plain(c) => out.push(c),
            c => {
                let _ = write!(out, "&#x{:X};", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

fn unescape_attribute(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let (name, behind) = rest[at + 1..].split_once(';')?;
        out.push(match name {
            "amp" => '&',
            "quot" => '"',
            "lt" => '<',
            "gt" => '>',
            code => {
                let digits = code.strip_prefix("#x")?;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
        });
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}
