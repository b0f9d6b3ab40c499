//! The manifest as a tree of values with their byte ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{Event, ScalarStyle, ScanError, StructureStyle};

use super::document::{Document, next_token, without_break};
use super::scalar::reads_as_text;
use super::{EditError, MAX_NODES};

/// A value with the bytes it occupies.
#[derive(Clone)]
pub(super) struct Node {
    /// From the first byte to past the last one. A block collection ends with
    /// its last value; an absent value is right after the colon or dash that
    /// announces it.
    pub(super) span: Range<usize>,
    /// The number the parser gave the anchor; 0 when there is none.
    pub(super) anchor: usize,
    pub(super) tag: Option<String>,
    pub(super) body: Body,
}

#[derive(Clone)]
pub(super) enum Body {
    Scalar {
        value: String,
        style: ScalarStyle,
    },
    /// A reference to the anchor `id`, with the text there if it is a scalar.
    Alias {
        id: usize,
        text: Option<String>,
    },
    Seq {
        items: Vec<Node>,
        flow: bool,
    },
    Map {
        pairs: Vec<(Node, Node)>,
        flow: bool,
    },
}

impl Node {
    pub(super) fn new(body: Body) -> Node {
        Node {
            span: 0..0,
            anchor: 0,
            tag: None,
            body,
        }
    }

    /// Returns a value that plain YAML gives another meaning than text: a number, or nothing.
    pub(super) fn plain(value: &str) -> Node {
        Node::new(Body::Scalar {
            value: value.to_owned(),
            style: ScalarStyle::Plain,
        })
    }

    pub(super) fn text_of(value: &str) -> Node {
        Node::new(Body::Scalar {
            value: value.to_owned(),
            style: ScalarStyle::DoubleQuoted,
        })
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Scalar { value, .. } => Some(value),
            Body::Alias { text, .. } => text.as_deref(),
            _ => None,
        }
    }

    pub(super) fn style(&self) -> ScalarStyle {
        match self.body {
            Body::Scalar { style, .. } => style,
            _ => ScalarStyle::Plain,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.body, Body::Scalar { value, style: ScalarStyle::Plain }
            if matches!(value.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    pub(super) fn pairs(&self) -> &[(Node, Node)] {
        match &self.body {
            Body::Map { pairs, .. } => pairs,
            _ => &[],
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.pairs()
            .iter()
            .find(|(k, _)| k.text() == Some(key))
            .map(|(_, value)| value)
    }

    pub(super) fn is_flow(&self) -> bool {
        matches!(
            self.body,
            Body::Seq { flow: true, .. } | Body::Map { flow: true, .. }
        )
    }

    pub(super) fn has_anchor(&self) -> bool {
        self.anchor != 0
            || match &self.body {
                Body::Seq { items, .. } => items.iter().any(Node::has_anchor),
                Body::Map { pairs, .. } => {
                    pairs.iter().any(|(k, v)| k.has_anchor() || v.has_anchor())
                }
                _ => false,
            }
    }

    /// Returns true when both hold the same data, wherever and however it is written.
    pub(super) fn same(&self, other: &Node) -> bool {
        self.anchor == other.anchor
            && self.tag == other.tag
            && match (&self.body, &other.body) {
                (Body::Scalar { value: a, style: s }, Body::Scalar { value: b, style: t }) => {
                    let text = |value, style| style != ScalarStyle::Plain || reads_as_text(value);
                    a == b && text(a, *s) == text(b, *t)
                }
                (Body::Alias { id: a, .. }, Body::Alias { id: b, .. }) => a == b,
                (Body::Seq { items: a, .. }, Body::Seq { items: b, .. }) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
                }
                (Body::Map { pairs: a, .. }, Body::Map { pairs: b, .. }) => {
                    a.len() == b.len()
                        && a.iter()
                            .zip(b)
                            .all(|(a, b)| a.0.same(&b.0) && a.1.same(&b.1))
                }
                _ => false,
            }
    }
}

/// Returns `map` with `key` set to `value`, at its position or at the end. A
/// value that is not a mapping becomes one.
pub(super) fn with_value(map: Option<&Node>, key: &str, value: Node) -> Node {
    let mut pairs = map.map_or(Vec::new(), |map| map.pairs().to_vec());
    match pairs.iter_mut().find(|(k, _)| k.text() == Some(key)) {
        Some((_, old)) => *old = value,
        None => pairs.push((Node::text_of(key), value)),
    }
    Node::new(Body::Map { pairs, flow: false })
}

/// Collects parser events into a tree, without recursion.
#[derive(Default)]
pub(super) struct Builder {
    /// The open collections; a mapping holds keys and values in turn until it is closed.
    pub(super) open: Vec<(Node, Vec<Node>)>,
    pub(super) root: Option<Node>,
    /// The text of each anchored scalar.
    pub(super) anchors: BTreeMap<usize, String>,
    pub(super) count: usize,
}

impl Builder {
    pub(super) fn push(
        &mut self,
        document: &Document,
        event: Event<'_>,
        bytes: Range<usize>,
    ) -> Result<(), EditError> {
        let tag = event.tag().map(ToString::to_string);
        let anchor = event.anchor_id().unwrap_or_default();
        let flow = |style: StructureStyle| style == StructureStyle::Flow;
        let body = match event {
            Event::Scalar(value, style, ..) => {
                // The parser writes `~` for a value that is not there.
                let absent = bytes.is_empty() && style == ScalarStyle::Plain;
                let value = if absent {
                    String::new()
                } else {
                    value.into_owned()
                };
                Body::Scalar { value, style }
            }
            Event::Alias(id) => Body::Alias {
                id,
                text: self.anchors.get(&id).cloned(),
            },
            Event::SequenceStart(style, ..) => Body::Seq {
                items: Vec::new(),
                flow: flow(style),
            },
            Event::MappingStart(style, ..) => Body::Map {
                pairs: Vec::new(),
                flow: flow(style),
            },
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((node, children)) = self.open.pop() {
                    self.place(&document.text, close(node, children, bytes.end));
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.count += 1;
        if self.count > MAX_NODES {
            let reason = format!("the manifest has more than {MAX_NODES} values");
            return Err(document.unsupported(bytes.start, &reason));
        }
        let node = Node {
            span: bytes,
            anchor,
            tag,
            body,
        };
        match node.body {
            Body::Seq { .. } | Body::Map { .. } => self.open.push((node, Vec::new())),
            _ => {
                if let (1.., Some(text)) = (anchor, node.text()) {
                    self.anchors.insert(anchor, text.to_owned());
                }
                self.place(&document.text, node);
            }
        }
        Ok(())
    }

    pub(super) fn place(&mut self, text: &str, mut node: Node) {
        let Some((parent, children)) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        let key_end = match (&parent.body, children.last()) {
            (Body::Map { .. }, Some(key)) if children.len() % 2 == 1 => Some(key.span.end),
            _ => None,
        };
        let colon = key_end.map(|end| next_token(text, end, b':').map_or(end, |i| i + 1));
        match node.body {
            // The parser puts an absent value before the colon.
            Body::Scalar {
                style: ScalarStyle::Plain,
                ..
            } if node.span.is_empty() => {
                let at = colon.unwrap_or(node.span.start).max(node.span.start);
                node.span = at..at;
            }
            // The span of a block scalar runs into the lines after it.
            Body::Scalar {
                ref value,
                style: ScalarStyle::Literal | ScalarStyle::Folded,
            } => {
                let slice = text.get(node.span.clone()).unwrap_or_default();
                // With the indicator `+`, the blank lines at the end belong to the text.
                let slice = match value.ends_with("\n\n") || value == "\n" {
                    true => without_break(slice.trim_end_matches([' ', '\t'])),
                    false => slice.trim_end(),
                };
                let end = node.span.start + slice.len();
                let floor = colon.unwrap_or(node.span.start);
                node.span = node.span.start.min(end.max(floor))..end.max(floor);
            }
            _ => {}
        }
        children.push(node);
    }
}

/// Adds the children to a collection, and ends a block collection with the last
/// of them.
pub(super) fn close(mut node: Node, children: Vec<Node>, end: usize) -> Node {
    let last = children
        .last()
        .map_or(node.span.end, |child| child.span.end);
    node.span.end = if node.is_flow() { end } else { last };
    match &mut node.body {
        Body::Seq { items, .. } => *items = children,
        Body::Map { pairs, .. } => {
            let mut children = children.into_iter();
            while let (Some(key), Some(value)) = (children.next(), children.next()) {
                pairs.push((key, value));
            }
        }
        _ => {}
    }
    node
}

pub(super) fn parse_error(error: &ScanError) -> EditError {
    EditError::Parse {
        line: error.marker().line(),
        column: error.marker().col() + 1,
        message: error.info(),
    }
}
