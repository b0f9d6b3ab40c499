//! The source `pins`: texts that every request of a session contains.
//!
//! Pins are placed before history, so that no summary replaces them. They are
//! never cut and never dropped.

use std::sync::Arc;

use contexture_core::{Item, Role, Text, Tokens, Trust};
use contexture_engine::source::{Facts, Scope};
use contexture_engine::{Advice, Ask, Cause, Concept, Error, Offer, Source};
use contexture_store::{Block, MessageRole, NewSessionPin, SessionPin};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::session::Sessions;

/// Offers the pins of the session.
pub(crate) struct PinsSource;

/// A detail of the request: a layer shows the pins.
pub(crate) struct PinsShown;

/// The key under which [`PinsShown`] is shared.
pub(crate) const SHOWN: &str = "pins";

impl Source for PinsSource {
    fn name(&self) -> &str {
        "pins"
    }

    fn concept(&self) -> Concept {
        Concept::Persona
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn needs_store(&self, scope: &Scope<'_>) -> bool {
        scope.session_label().is_some()
    }

    fn resolve(&self, scope: &Scope<'_>, _: &mut Facts) -> Result<(), Error> {
        scope.share(SHOWN, Arc::new(PinsShown));
        Ok(())
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let Some(session) = ask.session()? else {
            return Ok(Offer::default());
        };
        let pins = ask.engine.ledger()?.pins(&session.label)?;
        let item = |pin: &SessionPin| {
            let text = pin.text.as_deref().unwrap_or_default();
            let text = Text::guarded(text.trim_end(), ask.policy);
            let mut item = Item::new(format!("pin:{}", pin.name), Role::Context, text).pinned();
            item.priority = 1.0;
            item.trust = Trust::User;
            item
        };
        let items: Vec<Item> = pins.iter().map(item).collect();
        check_size(ask, &session.label, &items)?;
        Ok(items.into())
    }
}

/// Fails if the pins alone are more than a request may hold.
fn check_size(ask: &Ask<'_>, label: &str, items: &[Item]) -> Result<(), Error> {
    let size = |item: &Item| match &item.content {
        contexture_core::Content::Ready(text) => {
            ask.counts.count_of(text) + ask.counts.overhead_of(item)
        }
        _ => 0,
    };
    let tokens: Tokens = items.iter().map(size).sum();
    let available = ask.budget.available();
    if tokens <= available {
        return Ok(());
    }
    let largest = items.iter().max_by_key(|item| size(item));
    let largest = largest.map_or("", |item| &item.id);
    Err(Error::input(format!(
        "the pins of session `{label}` need {tokens} tokens, but {available} are available \
         (largest: `{largest}`)"
    ))
    .advise("remove a pin, or replace it by a shorter text")
    .advise(Advice::raise("max_tokens")))
}

/// The text to pin, given directly or by its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a pin: an object with `text` or `turn`"
)]
pub struct PinRequest {
    /// The name of the pin. A pin with this name is replaced. Default: `pin-1`,
    /// `pin-2` and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The turn whose messages of the user and the model are pinned: the first 4
    /// or more digits of its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The source of the text, for the list of pins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Sessions<'_> {
    /// Pins a text, or the text of a turn: every request of the session then
    /// contains it verbatim. A pin of the same name is replaced; its revisions
    /// stay stored.
    ///
    /// Fails if neither or both of `text` and `turn` are given, if the text is
    /// blank or larger than a message may be, and if the session is closed.
    pub fn pin(
        &self,
        label: &str,
        request: &PinRequest,
        now: Option<Timestamp>,
    ) -> Result<SessionPin, Error> {
        let engine = self.engine();
        let mut origin = request.origin.clone();
        let text = match (&request.text, &request.turn) {
            (Some(text), None) => text.clone(),
            (None, Some(turn)) => {
                let (text, id) = self.said_in(label, turn)?;
                origin = origin.or(Some(format!("turn {id}")));
                text
            }
            _ => {
                return Err(Error::input("a pin needs either `text` or `turn`").at("text"));
            }
        };
        let most = engine.config().limits.max_message_bytes;
        if text.len() as u64 > most {
            return Err(Error::input(format!(
                "text: is {} bytes; the limit is {most} (limits.max_message_bytes)",
                text.len()
            ))
            .at("text"));
        }
        let new = NewSessionPin {
            name: request.name.clone(),
            text,
            origin,
        };
        let now = now.unwrap_or_else(Timestamp::now);
        Ok(engine.ledger()?.pin(label, &new, now)?)
    }

    /// Returns the text of the user and the model in a turn, and its id.
    fn said_in(&self, label: &str, turn: &str) -> Result<(String, String), Error> {
        let ledger = self.engine().ledger()?;
        let session = ledger.session(label)?;
        let id = self.find_turn(&session, turn)?;
        let mut said = Vec::new();
        for turn in ledger.turns(&[id], "")? {
            for message in &turn.turn.messages {
                if !matches!(message.role, MessageRole::User | MessageRole::Assistant) {
                    continue;
                }
                for block in message.blocks().iter() {
                    if let Block::Text { text, .. } = &**block
                        && !text.trim().is_empty()
                    {
                        said.push(text.trim().to_owned());
                    }
                }
            }
        }
        match said.is_empty() {
            true => Err(Error::input(format!("turn {id} has no text to pin")).at("turn")),
            false => Ok((said.join("\n\n"), id.short())),
        }
    }

    /// Removes a pin. Its revisions stay stored.
    pub fn unpin(
        &self,
        label: &str,
        name: &str,
        now: Option<Timestamp>,
    ) -> Result<SessionPin, Error> {
        let now = now.unwrap_or_else(Timestamp::now);
        Ok(self.engine().ledger()?.unpin(label, name, now)?)
    }

    /// Returns the pins of a session, in the order in which they are sent.
    pub fn pins(&self, label: &str) -> Result<Vec<SessionPin>, Error> {
        Ok(self.engine().ledger()?.pins(label)?)
    }

    /// Returns every revision of a pin, oldest first.
    pub fn pin_revisions(&self, label: &str, name: &str) -> Result<Vec<SessionPin>, Error> {
        let revisions = self.engine().ledger()?.pin_revisions(label, name);
        revisions.map_err(|error| Error::from(error).because(Cause::Missing))
    }
}
