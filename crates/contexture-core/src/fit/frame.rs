//! Layers with a frame: all their items are lines of one block, which is paid
//! for once.

use super::{Fitter, Outcome};
use crate::assemble::{Fitted, kept_in_order};
use crate::counts::Tokens;
use crate::item::Item;
use crate::layer::{Frame, Heading, Layer};
use crate::text::Text;

/// Returns a heading as it is written, with the blank lines around it.
fn lines_of(heading: &Heading) -> String {
    let behind = if heading.spaced { "\n" } else { "" };
    match heading.text.is_empty() {
        true => "\n".to_owned(),
        false => format!("\n{}\n{behind}", heading.text.as_str()),
    }
}

impl Fitter<'_> {
    /// Returns what is paid once when the first item of a layer, or of one
    /// inside it, is kept: its heading, and the tags when it has a frame.
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

    /// Returns what the tags around a block cost.
    fn tags(&self, frame: &Frame, body: &str) -> Tokens {
        let mut item = Item::new("", frame.role, Text::new(""));
        item.path = frame.path.clone();
        self.counts.wrapper(&item, body)
    }

    /// Returns the block that is made of what is kept in a framed layer, and
    /// what it costs; `None` when nothing is kept.
    pub(crate) fn compose(&self, layer: &Layer, fitted: &Fitted) -> Option<(Text, Tokens)> {
        let frame = layer.frame.as_ref()?;
        let mut body = String::new();
        write(&mut body, layer, fitted);
        if body.is_empty() {
            return None;
        }
        let text = Text::of_lines(body);
        let tokens = self.counts.counter().count(text.body()) + self.tags(frame, text.body());
        Some((text, tokens + surcharges(layer, fitted)))
    }
}

fn write(out: &mut String, layer: &Layer, fitted: &Fitted) {
    if !keeps_any(fitted) {
        return;
    }
    if let Some(heading) = &layer.heading {
        if !out.is_empty() && !out.ends_with("\n\n") {
            out.push('\n');
        }
        let lines = lines_of(heading);
        out.push_str(lines.trim_start_matches('\n'));
    }
    for (_, outcome) in kept_in_order(layer, fitted) {
        match outcome {
            Outcome::Whole { text, .. } => out.push_str(text.body()),
            Outcome::Form { form, .. } => out.push_str(form.text.body()),
            Outcome::Cut { text, .. } => out.push_str(text.body()),
            _ => {}
        }
    }
    for (layer, fitted) in layer.layers.iter().zip(&fitted.layers) {
        write(out, layer, fitted);
    }
}

fn keeps_any(fitted: &Fitted) -> bool {
    fitted.outcomes.iter().flatten().any(Outcome::is_kept) || fitted.layers.iter().any(keeps_any)
}

fn surcharges(layer: &Layer, fitted: &Fitted) -> Tokens {
    let own: Tokens = (layer.items.iter().zip(&fitted.outcomes))
        .filter(|(_, outcome)| outcome.as_ref().is_some_and(Outcome::is_kept))
        .map(|(item, _)| item.surcharge)
        .sum();
    let inside = layer.layers.iter().zip(&fitted.layers);
    own + inside
        .map(|(layer, fitted)| surcharges(layer, fitted))
        .sum::<Tokens>()
}
