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

/// Returns the tokens of a heading with the blank line after it, if there is
/// one. They are counted once for each text.
fn heading_tokens(counts: &Counts, heading: &Heading) -> Tokens {
    match heading.spaced {
        true => counts.count_spaced(&heading.text),
        false => counts.count_of(&heading.text),
    }
}

impl Fitter<'_> {
    /// Returns the tokens charged once when the first item of a layer, or of a
    /// nested one, is kept: its heading, and the tags if it has a frame.
    pub(crate) fn opening(&self, layer: &Layer) -> Tokens {
        let heading = (layer.heading.as_ref()).map_or(0, |heading| self.heading(heading));
        let tags = layer
            .frame
            .as_ref()
            .map_or(0, |frame| self.tags(frame, "-\n"));
        heading + tags
    }

    /// Returns the tokens of a heading with the blank lines around it.
    fn heading(&self, heading: &Heading) -> Tokens {
        let counter = self.counts.counter();
        let text = &heading.text;
        match counter.is_exact() && counter.is_seam("\n", text.as_str()) {
            true => counter.count("\n") + heading_tokens(self.counts, heading),
            false => counter.count(&lines_of(heading)),
        }
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
        let lines = KeptLines::of(layer, fitted);
        let (body, tokens) = self.composed(layer.frame.as_ref()?, &lines, String::new())?;
        Some((Text::of_lines(body), tokens))
    }

    /// Returns the body of a block with these lines, and its tokens. Returns
    /// `None` if there are no lines. The body is written to `buffer`.
    pub(super) fn composed(
        &self,
        frame: &Frame,
        lines: &KeptLines<'_>,
        buffer: String,
    ) -> Option<(String, Tokens)> {
        let mut block = BlockWriter::new(self.counts, buffer);
        // One byte more for the line end of a text.
        block.body.reserve(lines.bytes() + 1);
        block.write(lines);
        let (body, tokens, bare) = block.finish()?;
        // A document is sent without its last line end.
        let tokens = match frame.role {
            Role::Document => tokens.max(bare),
            _ => tokens + self.tags(frame, &body),
        };
        Some((body, tokens + lines.surcharges()))
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

    /// Returns about how many bytes the lines have.
    fn bytes(&self) -> usize {
        let heading = self
            .heading
            .map_or(0, |heading| heading.text.body().len() + 2);
        let own = self.lines.iter().map(|(_, outcome)| match outcome {
            Outcome::Whole { text, .. } => text.body().len(),
            Outcome::Form { form, .. } => form.text.body().len(),
            Outcome::Cut { text, .. } => text.body().len(),
            _ => 0,
        });
        let inside = self.inside.iter().map(KeptLines::bytes);
        heading + own.chain(inside).sum::<usize>()
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
struct BlockWriter<'a> {
    counts: &'a Counts,
    body: String,
    adds_up: bool,
    // The tokens of the text before `counted`.
    tokens: Tokens,
    counted: usize,
    // The text after `counted`, if it is known.
    last: Uncounted<'a>,
}

/// The text at the end of a block that is not counted yet.
enum Uncounted<'a> {
    /// Any lines.
    Lines,
    /// Lines with so many tokens.
    Known(Tokens),
    /// One text, and its tokens if they are known. They are cached with the text,
    /// too.
    Text(&'a Text, Option<Tokens>),
}

impl<'a> BlockWriter<'a> {
    /// Returns an empty block whose body is written to `buffer`.
    fn new(counts: &'a Counts, mut buffer: String) -> Self {
        let counter = counts.counter();
        buffer.clear();
        Self {
            counts,
            body: buffer,
            adds_up: counter.is_exact() && counter.sums_are_bounds(),
            tokens: 0,
            counted: 0,
            last: Uncounted::Lines,
        }
    }

    /// Adds lines, with what is known of their count.
    fn push(&mut self, lines: &str, known: Uncounted<'a>) {
        let is_apart = self.adds_up
            && self.body.ends_with('\n')
            && self.counts.counter().is_seam(&self.body, lines);
        if is_apart {
            self.close();
        }
        self.last = match self.adds_up && self.counted == self.body.len() {
            true => known,
            false => Uncounted::Lines,
        };
        self.body.push_str(lines);
    }

    /// Adds a blank line. It mostly shares a token with the line before it.
    fn push_blank(&mut self) {
        self.last = match self.last {
            Uncounted::Text(text, _) => Uncounted::Known(self.counts.count_spaced(text)),
            _ => Uncounted::Lines,
        };
        self.body.push('\n');
    }

    /// Counts the text that has not been counted yet.
    fn close(&mut self) {
        let rest = &self.body[self.counted..];
        if !rest.is_empty() {
            self.tokens += match std::mem::replace(&mut self.last, Uncounted::Lines) {
                Uncounted::Lines => self.counts.counter().count(rest),
                Uncounted::Known(tokens) | Uncounted::Text(_, Some(tokens)) => tokens,
                Uncounted::Text(text, None) => self.counts.count_of(text),
            };
            self.counted = self.body.len();
        }
    }

    fn write(&mut self, layer: &KeptLines<'a>) {
        if layer.is_empty() {
            return;
        }
        if let Some(heading) = layer.heading {
            if !self.body.is_empty() && !self.body.ends_with("\n\n") {
                self.push_blank();
            }
            if !heading.text.is_empty() {
                self.push_heading(heading);
            }
        }
        for (item, outcome) in &layer.lines {
            match outcome {
                // A line has no tags: its tokens are those of its text and its
                // surcharge.
                Outcome::Whole { text, tokens } => {
                    self.push_text(text, tokens.checked_sub(item.surcharge));
                }
                Outcome::Form { form, .. } => self.push_text(&form.text, None),
                Outcome::Cut { text, .. } => self.push(text.body(), Uncounted::Lines),
                _ => {}
            }
        }
        for inside in &layer.inside {
            self.write(inside);
        }
    }

    fn push_heading(&mut self, heading: &'a Heading) {
        let lines = heading.text.body();
        let known = match lines.starts_with('\n') {
            true => Uncounted::Lines,
            false => Uncounted::Text(&heading.text, None),
        };
        self.push(lines.trim_start_matches('\n'), known);
        if heading.spaced {
            self.push_blank();
        }
    }

    fn push_text(&mut self, text: &'a Text, tokens: Option<Tokens>) {
        self.push(text.body(), Uncounted::Text(text, tokens));
    }

    /// Returns the body, its count, and its count without the last line end,
    /// unless it is empty.
    fn finish(mut self) -> Option<(String, Tokens, Tokens)> {
        if self.body.is_empty() {
            return None;
        }
        if !self.body.ends_with('\n') {
            // A text ends with a line end.
            self.push("\n", Uncounted::Lines);
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
        Some((self.body, self.tokens, bare))
    }
}
