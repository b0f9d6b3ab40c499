//! The text of a manifest, and the edits on it.
//!
//! An edit replaces byte ranges of the text, so that comments and layout are
//! preserved. The result is parsed and compared with the intended data before
//! it is written. A form of YAML that cannot be edited safely is an error with
//! its position.

use std::ops::Range;
use std::slice::SliceIndex;

use granit_parser::{Event, Parser, ScalarStyle};

use super::scalar::write_scalar;
use super::tree::{Body, Builder, Node, parse_error, with_value};
use super::{EditError, MAX_BYTES, MAX_DEPTH, NUMBER_FIELDS};

/// A range of bytes of the source, and the text that replaces it.
pub(super) type Splice = (Range<usize>, String);

/// The effect of one edit: on the text, and on the data that the text must then
/// hold.
pub(super) struct Change {
    /// In source order, without overlap.
    splices: Vec<Splice>,
    expected: Node,
    /// The position to report if the check of the result fails.
    at: usize,
}

pub(super) struct Document {
    pub(super) text: String,
    /// Absent when the document is empty.
    pub(super) root: Option<Node>,
    /// The position for new top-level keys: before the end marker, or at the
    /// end of the text.
    pub(super) end: usize,
}

impl Document {
    pub(super) fn parse(text: String) -> Result<Document, EditError> {
        let mut document = Document {
            end: text.len(),
            text,
            root: None,
        };
        if document.text.len() > MAX_BYTES {
            return Err(document.unsupported(0, "the manifest is larger than 4 MiB"));
        }
        // Comments are found in the text where they matter; the parser would limit their number.
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let mut builder = Builder::default();
        let mut explicit_end = None;
        let mut documents = 0;
        for event in Parser::new_from_str_with_options(&document.text, options) {
            let (event, span) = event.map_err(|e| parse_error(&e))?;
            let bytes = span.byte_range().unwrap_or_default();
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        let reason = "the file contains a second document";
                        return Err(document.unsupported(bytes.start, reason));
                    }
                }
                Event::DocumentEnd if !bytes.is_empty() => explicit_end = Some(bytes.start),
                event => builder.push(&document, event, bytes)?,
            }
        }
        document.root = builder
            .root
            .filter(|root| !(root.is_null() && root.span.is_empty()));
        document.end = explicit_end.unwrap_or(document.text.len());
        // Lines are separated by `\n` below; YAML would also end one at a lone
        // `\r`.
        let bytes = document.text.as_bytes();
        let lone = |i: &usize| bytes[*i] == b'\r' && bytes.get(i + 1) != Some(&b'\n');
        match (0..bytes.len()).find(lone) {
            Some(i) => Err(document.unsupported(
                i,
                "the file contains a carriage return without \
                                                    a line feed",
            )),
            None => Ok(document),
        }
    }

    /// Returns the document after `change`, or an error when the text does not hold the data
    /// the change was to give.
    pub(super) fn changed(&self, change: Change) -> Result<Document, EditError> {
        let mut text = String::with_capacity(self.text.len() + 256);
        let mut from = 0;
        for (range, insert) in &change.splices {
            // A splice that is out of order or inside a character is a bug in this module; the
            // user's file is worth more than finding it, so it counts as a failed check.
            let Some(kept) = self.text.get(from..range.start) else {
                return Err(self.unsafe_at(change.at));
            };
            text.push_str(kept);
            text.push_str(insert);
            from = range.end;
        }
        text.push_str(self.text.get(from..).unwrap_or_default());
        let result = Document::parse(text).map_err(|_| self.unsafe_at(change.at))?;
        match &result.root {
            Some(root) if root.same(&change.expected) => Ok(result),
            _ => Err(self.unsafe_at(change.at)),
        }
    }

    pub(super) fn unsafe_at(&self, at: usize) -> EditError {
        self.unsupported(at, "this syntax cannot be changed safely")
    }

    pub(super) fn unsupported(&self, at: usize, reason: &str) -> EditError {
        let at = self.text.floor_char_boundary(at);
        let before = self.slice(..at);
        let line_start = self.line_start(at).min(at);
        EditError::Unsupported {
            line: before.matches('\n').count() + 1,
            column: self.slice(line_start..at).chars().count() + 1,
            reason: reason.to_owned(),
        }
    }

    // --- The edits -----------------------------------------------------------------------------

    pub(super) fn add(
        &self,
        path: &str,
        priority: f64,
        fields: &[(String, String)],
    ) -> Result<Change, EditError> {
        let fields = self.new_fields(path, priority, fields)?;
        let root = self.editable_root()?;
        let found = root.map_or(Ok(None), |root| self.pair(root, "files"))?;
        let items = found.map_or(Ok(Default::default()), |(_, files)| self.entries(files))?;
        match self.find(items, path) {
            Ok(_) => {
                return Err(EditError::Duplicate {
                    path: path.to_owned(),
                });
            }
            Err(EditError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let new = NewEntry {
            document: self,
            fields: &fields,
            items,
            model: items.iter().rposition(|item| item.get("path").is_some()),
        };
        let indent = self.root_indent();
        let at = found.map_or(self.end, |(_, files)| files.span.start);
        let splices = match found {
            None => {
                let mut lines = vec![format!("{indent}files:")];
                lines.extend(new.block(&format!("{indent}  "), " ", None));
                self.append_top_level(root, lines, &format!("files: [{}]", new.flow()))
            }
            Some((key, files)) if items.is_empty() => {
                let lines = new.block(&format!("{indent}  "), " ", None);
                self.fill(key, files, lines, &new.flow(), ["[", "]"])?
            }
            Some((_, files)) if files.is_flow() => {
                let last = items.last().map(|item| item.span.clone());
                self.append_flow(last, &files.span, &new.flow())
            }
            Some((key, _)) => vec![new.in_block_list(key)?],
        };
        let pairs = fields
            .into_iter()
            .map(|(key, value)| (Node::text_of(key), value));
        let entry = Node::new(Body::Map {
            pairs: pairs.collect(),
            flow: false,
        });
        let items = items.iter().cloned().chain([entry]).collect();
        let files = Node::new(Body::Seq { items, flow: false });
        Ok(Change {
            splices,
            expected: with_value(root, "files", files),
            at,
        })
    }

    /// Returns the fields of a new entry; the plain ones are numbers and the others text.
    pub(super) fn new_fields<'f>(
        &self,
        path: &str,
        priority: f64,
        more: &'f [(String, String)],
    ) -> Result<Vec<(&'f str, Node)>, EditError> {
        let mut fields = vec![
            ("path", Node::text_of(path)),
            ("priority", self.priority(priority)?),
        ];
        for (key, value) in more {
            if fields.iter().any(|(k, _)| k == key) {
                return Err(self.unsupported(0, &format!("the new entry has `{key}` twice")));
            }
            let number = NUMBER_FIELDS.contains(&key.as_str()) && value.parse::<u64>().is_ok();
            let node = if number {
                Node::plain(value)
            } else {
                Node::text_of(value)
            };
            fields.push((key, node));
        }
        Ok(fields)
    }

    pub(super) fn remove(&self, path: &str) -> Result<Change, EditError> {
        let (root, key, files, index) = self.locate(path)?;
        let items = self.entries(files)?;
        let item = &items[index];
        if item.has_anchor() {
            let reason = "the entry has an anchor that other values may refer to";
            return Err(self.unsupported(item.span.start, reason));
        }
        let splices = match files.is_flow() {
            true => self.remove_flow(files, items, index),
            false => {
                let floor = match index {
                    0 => self.colon(key)?,
                    _ => items[index - 1].span.end,
                };
                let dash = self.dash(key, items, index)?;
                let col = dash.saturating_sub(self.line_start(dash));
                let last = index + 1 == items.len();
                let mut start = self.comments_above(self.line_start(dash), col, floor);
                let mut end = self.after_deeper_comments(self.line_end(item.span.end), col);
                // One separator is removed with the entry, or two would remain
                // in its place.
                if self.is_blank_line(end) || end == self.text.len() || (last && index > 0) {
                    let above = self.blanks_above(start, floor);
                    while above == start && index == 0 && !last && self.is_blank_line(end) {
                        end = self.line_end(end);
                    }
                    start = above;
                }
                // At the end of a text without a final line break, the break
                // before is removed instead.
                if end == self.text.len() && !self.text.ends_with('\n') {
                    start = without_break(self.slice(..start)).len();
                }
                vec![(start..end, String::new())]
            }
        };
        let mut rest = items.to_vec();
        rest.remove(index);
        let rest = match rest.is_empty() && !files.is_flow() {
            true => Node::plain(""),
            false => Node::new(Body::Seq {
                items: rest,
                flow: false,
            }),
        };
        let expected = with_value(Some(root), "files", rest);
        Ok(Change {
            splices,
            expected,
            at: item.span.start,
        })
    }

    pub(super) fn set_priority(&self, path: &str, priority: f64) -> Result<Change, EditError> {
        let number = self.priority(priority)?;
        let (root, _, files, index) = self.locate(path)?;
        let mut items = self.entries(files)?.to_vec();
        let at = items[index].span.start;
        let text = number.text().unwrap_or_default().to_owned();
        let splices = self.set(&items[index], "priority", |_, _| text)?;
        items[index] = with_value(Some(&items[index]), "priority", number);
        let files = Node::new(Body::Seq { items, flow: false });
        Ok(Change {
            splices,
            expected: with_value(Some(root), "files", files),
            at,
        })
    }

    pub(super) fn set_metadata(&self, key: &str, value: &str) -> Result<Change, EditError> {
        let root = self.editable_root()?;
        let line = |flow| {
            let key = write_scalar(key, ScalarStyle::Plain, flow);
            format!("{key}: {}", write_scalar(value, ScalarStyle::Plain, flow))
        };
        let indent = self.root_indent();
        let block = format!("{indent}  {}", line(false));

        let found = root.map_or(Ok(None), |root| self.pair(root, "metadata"))?;
        let old = found.map(|(_, old)| old);
        let at = old.map_or(self.end, |old| old.span.start);
        let splices = match found {
            None => {
                let lines = vec![format!("{indent}metadata:"), block];
                self.append_top_level(root, lines, &format!("metadata: {{{}}}", line(true)))
            }
            Some((name, old)) => {
                self.plain_node(old)?;
                match &old.body {
                    Body::Map { pairs, .. } if !pairs.is_empty() => {
                        self.set(old, key, |style, flow| write_scalar(value, style, flow))?
                    }
                    _ if old.is_null() || matches!(old.body, Body::Map { .. }) => {
                        self.fill(name, old, vec![block], &line(true), ["{", "}"])?
                    }
                    _ => return Err(self.unsupported(at, "`metadata` is not a mapping")),
                }
            }
        };
        let metadata = with_value(old, key, Node::text_of(value));
        Ok(Change {
            splices,
            expected: with_value(root, "metadata", metadata),
            at,
        })
    }

    // --- Finding things in the data ------------------------------------------------------------

    pub(super) fn editable_root(&self) -> Result<Option<&Node>, EditError> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        self.plain_node(root)?;
        if let Some(merged) = root.get("<<") {
            let reason = "the manifest merges keys from another value";
            return Err(self.unsupported(merged.span.start, reason));
        }
        match root.body {
            Body::Map { .. } => Ok(Some(root)),
            _ => Err(self.unsupported(root.span.start, "the manifest is not a mapping")),
        }
    }

    /// Rejects a node whose meaning depends on other nodes, or is not the usual
    /// one.
    pub(super) fn plain_node(&self, node: &Node) -> Result<(), EditError> {
        let reason = match node {
            Node {
                body: Body::Alias { .. },
                ..
            } => "this is an alias of another value",
            Node { anchor: 1.., .. } => "this has an anchor that other values may refer to",
            Node { tag: Some(_), .. } => "this has a tag",
            _ => return Ok(()),
        };
        Err(self.unsupported(node.span.start, reason))
    }

    /// Returns the key and the value of `key`. Fails if the key occurs twice.
    pub(super) fn pair<'n>(
        &self,
        map: &'n Node,
        key: &str,
    ) -> Result<Option<(&'n Node, &'n Node)>, EditError> {
        let mut found = map.pairs().iter().filter(|(k, _)| k.text() == Some(key));
        let first = found.next();
        match found.next() {
            Some((k, _)) => Err(self.unsupported(k.span.start, &format!("`{key}` is given twice"))),
            None => Ok(first.map(|(k, v)| (k, v))),
        }
    }

    pub(super) fn entries<'n>(&self, files: &'n Node) -> Result<&'n [Node], EditError> {
        self.plain_node(files)?;
        match &files.body {
            Body::Seq { items, .. } => Ok(items),
            _ if files.is_null() => Ok(&[]),
            _ => Err(self.unsupported(files.span.start, "`files` is not a list")),
        }
    }

    pub(super) fn find(&self, items: &[Node], path: &str) -> Result<usize, EditError> {
        let mut found = None;
        for (index, item) in items.iter().enumerate() {
            if let Some((_, value)) = self.pair(item, "path")?
                && value.text() == Some(path)
                && found.replace(index).is_some()
            {
                let reason = format!("`{path}` is listed twice");
                return Err(self.unsupported(item.span.start, &reason));
            }
        }
        // The path may be in an alias or a merge key, so "not found" would be a
        // guess.
        let hidden = |item: &&Node| {
            matches!(item.body, Body::Alias { .. })
                || (item.get("path").is_none() && item.get("<<").is_some())
        };
        match (found, items.iter().find(hidden)) {
            (Some(index), _) => Ok(index),
            (None, Some(item)) => {
                let reason = "the path of this entry is an alias of another value";
                Err(self.unsupported(item.span.start, reason))
            }
            (None, None) => Err(EditError::NotFound {
                path: path.to_owned(),
            }),
        }
    }

    /// Returns the root, the key and the value of `files`, and the index of the entry.
    pub(super) fn locate(&self, path: &str) -> Result<(&Node, &Node, &Node, usize), EditError> {
        let missing = || EditError::NotFound {
            path: path.to_owned(),
        };
        self.editable_root()?;
        let root = self.root.as_ref().ok_or_else(missing)?;
        let (key, files) = self.pair(root, "files")?.ok_or_else(missing)?;
        let items = self.entries(files)?;
        let index = self.find(items, path)?;
        self.plain_node(&items[index])?;
        Ok((root, key, files, index))
    }

    pub(super) fn priority(&self, priority: f64) -> Result<Node, EditError> {
        if !(0.0..=1.0).contains(&priority) {
            let reason = format!("the priority {priority} is not between 0 and 1");
            return Err(self.unsupported(0, &reason));
        }
        // Display is the shortest form without an exponent; `abs` is for the sign of -0.0.
        let mut text = priority.abs().to_string();
        if !text.contains('.') {
            text.push_str(".0");
        }
        Ok(Node::plain(&text))
    }

    // --- Finding things in the text ------------------------------------------------------------

    /// Returns a part of the text. Positions come from the parser; an invalid
    /// range gives an empty text instead of a panic, and the check of the
    /// result then rejects the edit.
    pub(super) fn slice(&self, range: impl SliceIndex<str, Output = str>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    pub(super) fn line_start(&self, at: usize) -> usize {
        let bom = if self.text.starts_with('\u{feff}') {
            3
        } else {
            0
        };
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        before
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(bom, |i| i + 1)
    }

    /// Returns the start of the next line, or the end of the text.
    pub(super) fn line_end(&self, at: usize) -> usize {
        let after = self.text.as_bytes().get(at..).unwrap_or_default();
        after
            .iter()
            .position(|b| *b == b'\n')
            .map_or(self.text.len(), |i| at + i + 1)
    }

    /// Returns the line break at the end of the line of `at`, or the usual one
    /// of the file.
    pub(super) fn line_break(&self, at: usize) -> &'static str {
        let line = self.slice(..self.line_end(at));
        match line.ends_with("\r\n") || (!line.ends_with('\n') && line.contains("\r\n")) {
            true => "\r\n",
            false => "\n",
        }
    }

    /// Returns the text before `at` on its line, if it is blank.
    pub(super) fn indent(&self, at: usize) -> Option<&str> {
        let prefix = self.slice(self.line_start(at)..at);
        prefix.bytes().all(|b| b == b' ').then_some(prefix)
    }

    pub(super) fn root_indent(&self) -> &str {
        self.root
            .as_ref()
            .and_then(|root| self.indent(root.span.start))
            .unwrap_or_default()
    }

    pub(super) fn is_blank_line(&self, start: usize) -> bool {
        start < self.text.len() && self.slice(start..self.line_end(start)).trim().is_empty()
    }

    pub(super) fn blank_line_in(&self, range: Range<usize>) -> bool {
        let mut at = self.line_end(range.start);
        while at < range.end {
            if self.is_blank_line(at) {
                return true;
            }
            at = self.line_end(at);
        }
        false
    }

    /// Returns the width of the blanks before the comment that is alone on a line.
    pub(super) fn comment_column(&self, start: usize) -> Option<usize> {
        let line = self.slice(start..self.line_end(start));
        let comment = line.trim_start_matches([' ', '\t']);
        comment
            .starts_with('#')
            .then_some(line.len() - comment.len())
    }

    pub(super) fn after_deeper_comments(&self, mut start: usize, column: usize) -> usize {
        while start < self.end && self.comment_column(start).is_some_and(|c| c > column) {
            start = self.line_end(start);
        }
        start
    }

    /// Returns the start of the lines before `start` that satisfy `test`, at
    /// most up to `floor`.
    pub(super) fn lines_above(
        &self,
        mut start: usize,
        floor: usize,
        test: impl Fn(usize) -> bool,
    ) -> usize {
        let floor = self.line_end(floor);
        while start > floor {
            let above = self.line_start(start - 1);
            if above < floor || !test(above) {
                break;
            }
            start = above;
        }
        start
    }

    pub(super) fn comments_above(&self, start: usize, column: usize, floor: usize) -> usize {
        self.lines_above(start, floor, |line| {
            self.comment_column(line) == Some(column)
        })
    }

    pub(super) fn blanks_above(&self, start: usize, floor: usize) -> usize {
        self.lines_above(start, floor, |line| self.is_blank_line(line))
    }

    /// Returns the colon's end after `key`.
    pub(super) fn colon(&self, key: &Node) -> Result<usize, EditError> {
        let at = next_token(&self.text, key.span.end, b':');
        at.map(|i| i + 1)
            .ok_or_else(|| self.unsafe_at(key.span.start))
    }

    /// Returns the dash before an item of a block sequence; it must begin its line.
    pub(super) fn dash(
        &self,
        key: &Node,
        items: &[Node],
        index: usize,
    ) -> Result<usize, EditError> {
        let from = match index {
            0 => self.colon(key)?,
            _ => items[index - 1].span.end,
        };
        let dash = next_token(&self.text, from, b'-').filter(|at| self.indent(*at).is_some());
        dash.ok_or_else(|| self.unsafe_at(items[index].span.start))
    }

    // --- Making splices ------------------------------------------------------------------------

    /// Inserts whole lines at `at`, which begins a line or ends a text without a final break.
    pub(super) fn insert_lines(&self, at: usize, lines: Vec<String>) -> Splice {
        let eol = self.line_break(at.saturating_sub(1));
        let whole = self.line_start(at) == at;
        let line = |line: String| {
            if whole {
                line + eol
            } else {
                eol.to_owned() + &line
            }
        };
        (at..at, lines.into_iter().map(line).collect())
    }

    /// Adds a top-level key at the end: as `lines`, or as `flow` when the root is in flow style.
    pub(super) fn append_top_level(
        &self,
        root: Option<&Node>,
        mut lines: Vec<String>,
        flow: &str,
    ) -> Vec<Splice> {
        if let Some(root) = root {
            let last = root.pairs().last().map(|(k, v)| k.span.start..v.span.end);
            if root.is_flow() {
                return self.append_flow(last, &root.span, flow);
            }
            if let [.., (_, before), (key, _)] = root.pairs()
                && self.blank_line_in(before.span.end..key.span.start)
                && !self.is_blank_line(self.line_start(self.end.saturating_sub(1)))
            {
                lines.insert(0, String::new());
            }
        }
        vec![self.insert_lines(self.end, lines)]
    }

    /// Adds content to an empty value: `lines` below its key if that is
    /// possible, otherwise `flow` between brackets.
    pub(super) fn fill(
        &self,
        key: &Node,
        value: &Node,
        lines: Vec<String>,
        flow: &str,
        brackets: [&str; 2],
    ) -> Result<Vec<Splice>, EditError> {
        let colon = self.colon(key)?;
        let old = colon..value.span.end.max(colon);
        let line_end = self.line_end(old.end);
        let rest = self.slice(old.end..line_end).trim();
        let flow_root = self.root.as_ref().is_some_and(Node::is_flow);
        if !flow_root
            && !self.slice(old.clone()).contains(['#', '\n'])
            && (rest.is_empty() || rest.starts_with('#'))
        {
            return Ok(vec![
                (old, String::new()),
                self.insert_lines(line_end, lines),
            ]);
        }
        if !value.is_null() {
            return Ok(self.append_flow(None, &value.span, flow));
        }
        let [open, close] = brackets;
        Ok(vec![(old, format!(" {open}{flow}{close}"))])
    }

    /// Sets `key` of a mapping that is not empty.
    pub(super) fn set(
        &self,
        map: &Node,
        key: &str,
        write: impl FnOnce(ScalarStyle, bool) -> String,
    ) -> Result<Vec<Splice>, EditError> {
        let flow = map.is_flow();
        if let Some((_, old)) = self.pair(map, key)? {
            self.plain_node(old)?;
            let at = old.span.start;
            let style = match old.body {
                Body::Scalar {
                    style: ScalarStyle::Literal | ScalarStyle::Folded,
                    ..
                } => {
                    return Err(self.unsupported(at, "the value is a block scalar"));
                }
                Body::Scalar { style, .. } => style,
                _ => return Err(self.unsupported(at, &format!("`{key}` is not a scalar"))),
            };
            let lead = match self.slice(..at) {
                _ if !old.span.is_empty() => "",
                before if before.ends_with(':') => " ",
                _ => ": ",
            };
            return Ok(vec![(
                old.span.clone(),
                format!("{lead}{}", write(style, flow)),
            )]);
        }
        // A neighbour shows how this mapping quotes its text.
        let last = map.pairs().last();
        let style = last.map_or(ScalarStyle::Plain, |(_, value)| value.style());
        let line = format!(
            "{}: {}",
            write_scalar(key, ScalarStyle::Plain, flow),
            write(style, flow)
        );
        if flow {
            let last = last.map(|(k, v)| k.span.start..v.span.end);
            return Ok(self.append_flow(last, &map.span, &line));
        }
        let column = map
            .span
            .start
            .saturating_sub(self.line_start(map.span.start));
        let end = self.after_deeper_comments(self.line_end(map.span.end), column);
        Ok(vec![
            self.insert_lines(end, vec![" ".repeat(column) + &line]),
        ])
    }

    /// Adds `new` after the element at `last` of the flow collection at `all`.
    pub(super) fn append_flow(
        &self,
        last: Option<Range<usize>>,
        all: &Range<usize>,
        new: &str,
    ) -> Vec<Splice> {
        let insert = |at: usize, text: String| (at..at, text);
        let Some(last) = last else {
            return vec![insert(all.start + 1, new.to_owned())];
        };
        let close = all.end.saturating_sub(1);
        let comma = next_token(&self.text, last.end, b',').map(|i| i + 1);
        let tail = comma.unwrap_or(last.end);
        let Some(indent) = self.indent(last.start) else {
            return match comma {
                Some(comma) => vec![insert(comma, format!(" {new},"))],
                None => vec![insert(tail, format!(", {new}"))],
            };
        };
        let eol = self.line_break(tail);
        let next = self.line_end(tail);
        let alone = next <= close;
        match comma {
            Some(_) if alone => vec![insert(next, format!("{indent}{new},{eol}"))],
            Some(comma) => vec![insert(comma, format!("{eol}{indent}{new},"))],
            // The comment after the last element stays there: the comma is
            // inserted before it.
            None if alone && !self.slice(tail..next).trim().is_empty() => {
                vec![
                    insert(tail, ",".to_owned()),
                    insert(next, format!("{indent}{new}{eol}")),
                ]
            }
            None => vec![insert(tail, format!(",{eol}{indent}{new}"))],
        }
    }

    pub(super) fn remove_flow(&self, files: &Node, items: &[Node], index: usize) -> Vec<Splice> {
        let cut = |range: Range<usize>| (range, String::new());
        let item = &items[index].span;
        let before = index.checked_sub(1).map(|i| items[i].span.end);
        let comma = next_token(&self.text, item.end, b',').map(|i| i + 1);
        // Without a comma of its own the item is the last one, and the comma before it is spare.
        let spare = match (before, comma) {
            (Some(before), None) => next_token(&self.text, before, b',').map(|i| cut(i..i + 1)),
            _ => None,
        };
        let tail = comma.unwrap_or(item.end);
        let next = self.line_end(tail);
        let rest = self.slice(tail..next).trim_start();
        let alone = rest.is_empty() || rest.starts_with('#');
        if let Some(indent) = self.indent(item.start).filter(|_| alone) {
            let floor = before.unwrap_or(files.span.start);
            let start = self.comments_above(self.line_start(item.start), indent.len(), floor);
            return spare.into_iter().chain([cut(start..next)]).collect();
        }
        match before {
            Some(before) if !self.slice(before..item.start).contains('#') => {
                vec![cut(before..item.end)]
            }
            None if items.len() == 1 => {
                let inner = files.span.start + 1..files.span.end.saturating_sub(1);
                match self.slice(inner.start..item.start).contains('#')
                    || self.slice(item.end..inner.end).contains('#')
                {
                    true => vec![cut(item.start..tail)],
                    false => vec![cut(inner)],
                }
            }
            _ => {
                let blanks =
                    self.slice(tail..).len() - self.slice(tail..).trim_start_matches(' ').len();
                spare
                    .into_iter()
                    .chain([cut(item.start..tail + blanks)])
                    .collect()
            }
        }
    }
}

/// A new entry, written in the style of the existing ones.
pub(super) struct NewEntry<'d> {
    document: &'d Document,
    fields: &'d [(&'d str, Node)],
    items: &'d [Node],
    /// The index of the last entry that can serve as a model.
    model: Option<usize>,
}

impl NewEntry<'_> {
    pub(super) fn write_fields(&self, flow: bool) -> Vec<String> {
        let model = self.model.map(|index| &self.items[index]);
        let key_style = model
            .and_then(|model| model.pairs().first())
            .map_or(ScalarStyle::Plain, |(key, _)| key.style());
        let field = |(key, value): &(&str, Node)| {
            let text = value.text().unwrap_or_default();
            let like = self.items.iter().rev().find_map(|item| item.get(key));
            let like = like.or_else(|| model?.get("path"));
            let text = match value.style() {
                ScalarStyle::Plain => text.to_owned(),
                _ => write_scalar(text, like.map_or(ScalarStyle::Plain, Node::style), flow),
            };
            format!("{}: {text}", write_scalar(key, key_style, flow))
        };
        self.fields.iter().map(field).collect()
    }

    pub(super) fn flow(&self) -> String {
        let model = self
            .model
            .map(|index| &self.items[index])
            .filter(|model| model.is_flow());
        let spaced = |model: &Node| self.document.slice(model.span.start..).starts_with("{ ");
        let pad = if model.is_some_and(spaced) { " " } else { "" };
        format!("{{{pad}{}{pad}}}", self.write_fields(true).join(", "))
    }

    /// Returns the lines of a block entry. The fields begin `gap` after the dash, or on lines of
    /// their own with the indentation `below`.
    pub(super) fn block(&self, indent: &str, gap: &str, below: Option<&str>) -> Vec<String> {
        let inner = " ".repeat(below.map_or(indent.len() + 1 + gap.len(), str::len));
        let mut lines: Vec<String> = below.map(|_| format!("{indent}-")).into_iter().collect();
        for field in self.write_fields(false) {
            lines.push(match lines.is_empty() {
                true => format!("{indent}-{gap}{field}"),
                false => format!("{inner}{field}"),
            });
        }
        lines
    }

    /// Adds the entry below those of the block list of `key`, which is not empty.
    pub(super) fn in_block_list(&self, key: &Node) -> Result<Splice, EditError> {
        let NewEntry {
            document, items, ..
        } = *self;
        let last = items.len() - 1;
        let indent = document
            .indent(document.dash(key, items, last)?)
            .unwrap_or_default();
        let lines = match self.model.map(|index| (index, &items[index])) {
            None => self.block(indent, " ", None),
            Some((_, model)) if model.is_flow() => vec![format!("{indent}- {}", self.flow())],
            Some((index, model)) => {
                let dash = document.dash(key, items, index)?;
                let between = document.slice(dash + 1..model.span.start);
                let gap = if between.trim_matches(' ').is_empty() {
                    between
                } else {
                    " "
                };
                let below = document
                    .indent(model.span.start)
                    .filter(|_| between.contains('\n'));
                self.block(indent, gap, below)
            }
        };
        let spaced =
            last > 0 && document.blank_line_in(items[last - 1].span.end..items[last].span.start);
        let lines = spaced.then(String::new).into_iter().chain(lines).collect();
        let end = document.line_end(items[last].span.end);
        Ok(document.insert_lines(document.after_deeper_comments(end, indent.len()), lines))
    }
}

pub(super) fn without_break(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Returns the position of `token` if it is next after `at`, past white space
/// and comments.
pub(super) fn next_token(text: &str, mut at: usize, token: u8) -> Option<usize> {
    loop {
        match *text.as_bytes().get(at)? {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'#' => at += text.get(at..)?.find('\n')?,
            byte => return (byte == token).then_some(at),
        }
    }
}
