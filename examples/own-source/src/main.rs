//! A program that adds a source and a token counter of its own to Contexture,
//! and uses both in a recipe.
//!
//! Run it with `cargo run -p own-source`.

use std::sync::Arc;

use contexture::core::guard::MarkKey;
use contexture::core::{Code, Item, Role, Text, TokenCounter, Tokens, Trust};
use contexture::{
    Ask, Engine, Error, Format, Offer, Parameter, ParameterKind, Recipe, Request, Root, Source,
};
use serde::Deserialize;

/// A ticket of the support desk.
#[derive(Debug, Clone, Deserialize)]
struct Ticket {
    id: String,
    title: String,
    state: String,
    votes: u32,
    text: String,
}

/// Offers the tickets of a support desk, those with the most votes first.
struct TicketSource {
    tickets: Vec<Ticket>,
}

/// Why closed tickets are not offered: a reason code of our own.
const CLOSED: Code = Code::by_rule("ticket_closed");

impl Source for TicketSource {
    fn name(&self) -> &str {
        "tickets"
    }

    fn parameters(&self) -> &[Parameter] {
        const PARAMETERS: &[Parameter] = &[Parameter::new(
            "min_votes",
            ParameterKind::Number,
            "The fewest votes that a ticket must have. Default: 0.",
        )];
        PARAMETERS
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let least = ask.number("min_votes").unwrap_or(0);
        let mut offer = Offer::default();
        for ticket in &self.tickets {
            if ticket.state == "closed" {
                // A candidate that a rule leaves out is a row of the report, too.
                offer.exclude(&ticket.id, Role::Context, CLOSED, "the ticket is closed");
                continue;
            }
            let text = format!("{} ({} votes)\n{}", ticket.title, ticket.votes, ticket.text);
            // Content is untrusted: it becomes a `Text` only through the guard.
            let text = Text::guarded(&text, ask.policy);
            let mut item = Item::new(ticket.id.as_str(), Role::Context, text);
            item.trust = Trust::Retrieved;
            item.priority = f64::from(ticket.votes.min(100)) / 100.0;
            if u64::from(ticket.votes) >= least {
                offer.items.push(item);
            }
        }
        Ok(offer)
    }
}

/// Counts a token for every four bytes, as our model's maker recommends.
struct FourBytes;

impl TokenCounter for FourBytes {
    fn name(&self) -> &str {
        "four-bytes"
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn count(&self, text: &str) -> Tokens {
        text.len().div_ceil(4) as Tokens
    }
}

/// The recipe: the tickets within 60 % of the budget, then the question.
const RECIPE: &str = "
recipe: triage
layers:
  - {layer: tickets, source: tickets, with: {min_votes: 10}, share: 60, order: priority}
  - {layer: question, source: event}
";

/// Assembles a request for 100 tokens and returns its text and its report, row by
/// row.
fn triage() -> Result<String, Box<dyn std::error::Error>> {
    let tickets = serde_json::from_str(include_str!("../tickets.json"))?;
    let engine = Engine::builder()
        .source(TicketSource { tickets })
        .counter("our-model", Arc::new(FourBytes))
        // Without a key of its own an engine makes one, and its boundary marks
        // differ from run to run.
        .mark_key(MarkKey::from_text("the example"))
        .build()?;
    // Nothing is read from files here, but paths must be relative to something.
    let folder = tempfile::tempdir()?;
    let root = Root::open(folder.path())?;
    let request = Request {
        recipe: Some(Recipe::parse("triage", RECIPE)?.into()),
        event: Some("What should we fix first?".into()),
        model: Some("our-model".to_owned()),
        max_tokens: Some(115),
        reserve_response: Some(0),
        ..Request::default()
    };
    let assembled = engine.assemble(&root, &request)?;
    let mut shown = assembled.render(Format::Text)?;
    for row in &assembled.report.included {
        shown.push_str(&format!("kept {}: {} tokens\n", row.id, row.tokens));
    }
    for row in &assembled.report.excluded {
        shown.push_str(&format!(
            "left out {} ({}): {}\n",
            row.id, row.code, row.reason
        ));
    }
    Ok(shown)
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", triage()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_source_and_the_counter_are_used_in_the_recipe() {
        let shown = super::triage().unwrap();
        assert_eq!(shown, include_str!("../expected.txt"));
    }
}
