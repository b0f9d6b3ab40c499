//! Layers with a frame: all their items are lines of one block, which is
//! charged once.

use super::{Fitter, Outcome};
use crate::assemble::{Fitted, kept_in_order};
use crate::counts::{Counts, Tokens};
use crate::item::{Item, Role};
use crate::layer::{Frame, Heading, Layer};
use crate::text::Text;

/// Returns the text of a heading, with the blank lines around it.
fn lines_of(heading: &Heading) -> String {
    let behind = if heading.spaced { "\n" } else { "" };
    match heading.text.is_empty() {
        true => "\n".to_owned(),
        false => format!("\n{}\n{behind}", heading.text.as_str()),
    }
}

impl Fitter<'_> {
    /// Returns the tokens charged once when the first item of a layer, or of a
    /// nested one, is kept: its heading, and the tags if it has a frame.
    pub(crate) fn opening(&self, layer: &Layer) -> Tokens {
        let heading = layer
            .heading
            .as_ref()
            .map_or(0, |heading| self.counts.counter().count(&lines_of(heading)));
        let tags = layer
            .frame
            .as_ref()
            .map_or(0, |frame| self.tags(frame, "-\n"));
        heading + tags
    }

    /// Returns the tokens of the tags around a block.
    fn tags(&self, frame: &Frame, body: &str) -> Tokens {
        let mut item = Item::new("", frame.role, Text::new(""));
        item.path = frame.path.clone();
        self.counts.wrapper(&item, body)
    }

    /// Returns the block made of the kept items of a framed layer, and its
    /// tokens. Returns `None` if no item is kept.
    pub(crate) fn compose(&self, layer: &Layer, fitted: &Fitted) -> Option<(Text, Tokens)> {
        self.composed(layer.frame.as_ref()?, &KeptLines::of(layer, fitted))
    }

    /// Returns a block with these lines, and its tokens. Returns `None` if
    /// there are no lines.
    pub(super) fn composed(&self, frame: &Frame, lines: &KeptLines<'_>) -> Option<(Text, Tokens)> {
        let mut block = BlockWriter::new(self.counts);
        block.write(lines);
        let (text, tokens, bare) = block.finish()?;
        // A document is sent without its last line end.
        let tokens = match frame.role {
            Role::Document => tokens.max(bare),
            _ => tokens + self.tags(frame, text.body()),
        };
        Some((text, tokens + lines.surcharges()))
    }
}

/// The kept lines of a layer and its nested layers, in order.
pub(super) struct KeptLines<'a> {
    pub(super) heading: Option<&'a Heading>,
    pub(super) lines: Vec<(&'a Item, &'a Outcome)>,
    pub(super) inside: Vec<KeptLines<'a>>,
}

impl<'a> KeptLines<'a> {
    fn of(layer: &'a Layer, fitted: &'a Fitted) -> Self {
        let inside = layer.layers.iter().zip(&fitted.layers);
        Self {
            heading: layer.heading.as_ref(),
            lines: kept_in_order(layer, fitted)
                .map(|(i, outcome)| (&layer.items[i], outcome))
                .collect(),
            inside: inside
                .map(|(layer, fitted)| KeptLines::of(layer, fitted))
                .collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.inside.iter().all(KeptLines::is_empty)
    }

    fn surcharges(&self) -> Tokens {
        let own: Tokens = self.lines.iter().map(|(item, _)| item.surcharge).sum();
        let inside = self.inside.iter().map(KeptLines::surcharges);
        own + inside.sum::<Tokens>()
    }
}

/// A block that is written and counted line by line.
///
/// If the counter's sums are exact, each line is counted once, however many
/// blocks it is part of. Only lines that share a token with the next one are
/// counted together with it.
struct BlockWriter<'c> {
    counts: &'c Counts,
    body: String,
    adds_up: bool,
    // The tokens of the text before `counted`.
    tokens: Tokens,
    counted: usize,
    // The tokens of the text after `counted`, if known.
    last: Option<Tokens>,
}

impl<'c> BlockWriter<'c> {
    fn new(counts: &'c Counts) -> Self {
        let counter = counts.counter();
        Self {
            counts,
            body: String::new(),
            adds_up: counter.is_exact() && counter.sums_are_bounds(),
            tokens: 0,
            counted: 0,
            last: None,
        }
    }

    /// Adds lines, with their count if it is known.
    fn push(&mut self, lines: &str, tokens: Option<Tokens>) {
        let is_apart = self.adds_up
            && self.body.ends_with('\n')
            && self.counts.counter().is_seam(&self.body, lines);
        if is_apart {
            self.close();
        }
        self.last = tokens.filter(|_| self.counted == self.body.len());
        self.body.push_str(lines);
    }

    /// Counts the text that has not been counted yet.
    fn close(&mut self) {
        let rest = &self.body[self.counted..];
        if !rest.is_empty() {
            let tokens = self.last.take();
            self.tokens += tokens.unwrap_or_else(|| self.counts.counter().count(rest));
            self.counted = self.body.len();
        }
    }

    fn write(&mut self, layer: &KeptLines<'_>) {
        if layer.is_empty() {
            return;
        }
        if let Some(heading) = layer.heading {
            if !self.body.is_empty() && !self.body.ends_with("\n\n") {
                self.push("\n", None);
            }
            let lines = lines_of(heading);
            self.push(lines.trim_start_matches('\n'), None);
        }
        for (_, outcome) in &layer.lines {
            match outcome {
                Outcome::Whole { text, .. } => self.push_text(text),
                Outcome::Form { form, .. } => self.push_text(&form.text),
                Outcome::Cut { text, .. } => self.push(text.body(), None),
                _ => {}
            }
        }
        for inside in &layer.inside {
            self.write(inside);
        }
    }

    fn push_text(&mut self, text: &Text) {
        let tokens = self.adds_up.then(|| self.counts.count_of(text));
        self.push(text.body(), tokens);
    }

    /// Returns the block, its count, and its count without the last line end,
    /// unless it is empty.
    fn finish(mut self) -> Option<(Text, Tokens, Tokens)> {
        if self.body.is_empty() {
            return None;
        }
        if !self.body.ends_with('\n') {
            // A text ends with a line end.
            self.push("\n", None);
        }
        // The last line is counted twice, but not the whole.
        let bare = match self.adds_up {
            true => {
                let rest = &self.body[self.counted..];
                let rest = rest.strip_suffix('\n').unwrap_or(rest);
                self.tokens + self.counts.counter().count(rest)
            }
            false => 0,
        };
        self.close();
        Some((Text::of_lines(self.body), self.tokens, bare))
    }
}
