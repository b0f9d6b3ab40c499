use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::guard::Policy;
use contexture_core::{Content, Counts, Cut, Item, Part, Role, Text, Tokens, Trust};
use contexture_providers::{describe, media_tokens};
use contexture_store::{Block, BlockCounts, Counted, MessageRole, NewTurn, TurnId};
use contexture_tokens::Provider;

use super::{Prepared, counter_name, turn_name};
use crate::broker::guarded_json;

/// Returns the counts of a turn that is about to be recorded.
pub(crate) fn count_turn(turn: &NewTurn, counts: &Counts, policy: Policy) -> Counted {
    let nobody = TurnId::of(b"");
    let items = Maker::new(nobody, policy, Provider::Other).items(turn);
    Counted {
        counter: counter_name(counts, policy),
        blocks: count(&items, turn, counts),
    }
}

pub(super) fn fits(counts: &BlockCounts, turn: &NewTurn) -> bool {
    counts.len() == turn.messages.len()
        && counts
            .iter()
            .zip(&turn.messages)
            .all(|(counts, message)| counts.len() == message.blocks().len())
}

pub(super) fn count(items: &[Made], turn: &NewTurn, counts: &Counts) -> BlockCounts {
    let mut blocks: BlockCounts = turn
        .messages
        .iter()
        .map(|message| vec![0; message.blocks().len()])
        .collect();
    for made in items {
        if let Some(text) = made.text() {
            let tokens = counts.count_of(text) + made.surcharge();
            blocks[made.message][made.block] = tokens;
        }
    }
    blocks
}

/// A block of a message, made an item or kept back.
pub(super) struct Made {
    pub(super) message: usize,
    pub(super) block: usize,
    what: Result<Item, (String, Role, String, Text)>,
}

impl Made {
    /// Returns what the block costs beyond its text.
    pub(super) fn surcharge(&self) -> Tokens {
        self.what.as_ref().map_or(0, |item| item.surcharge)
    }

    pub(super) fn text(&self) -> Option<&Text> {
        match &self.what {
            Ok(item) => match &item.content {
                Content::Ready(text) => Some(text),
                _ => None,
            },
            Err((.., text)) => Some(text),
        }
    }
}

/// Makes items of a turn.
pub(super) struct Maker {
    name: String,
    // The tool of each call.
    names: BTreeMap<String, Arc<str>>,
    policy: Policy,
    provider: Provider,
    unsent: Vec<(String, Role, String)>,
    open: Vec<(Arc<str>, Arc<str>)>,
    answers: Vec<Arc<str>>,
    // The first message of somebody who speaks and has no result.
    speaks: Option<usize>,
}

impl Maker {
    pub(super) fn new(turn: TurnId, policy: Policy, provider: Provider) -> Self {
        Self {
            name: turn_name(turn),
            names: BTreeMap::new(),
            policy,
            provider,
            unsent: Vec::new(),
            open: Vec::new(),
            answers: Vec::new(),
            speaks: None,
        }
    }

    pub(super) fn items(&mut self, turn: &NewTurn) -> Vec<Made> {
        let mut made = Vec::new();
        for (m, message) in turn.messages.iter().enumerate() {
            let blocks = message.blocks();
            let calls = blocks
                .iter()
                .any(|block| matches!(&**block, Block::ToolCall { .. }));
            let answers = blocks
                .iter()
                .any(|block| matches!(&**block, Block::ToolResult { .. }));
            let talks = matches!(message.role, MessageRole::User | MessageRole::Assistant);
            if talks && !answers {
                self.speaks = self.speaks.or(Some(m));
            }
            for (b, block) in blocks.iter().enumerate() {
                let id = match blocks.len() {
                    1 => format!("{}/{m}", self.name),
                    _ => format!("{}/{m}.{b}", self.name),
                };
                made.push(Made {
                    message: m,
                    block: b,
                    what: self.block(id, message.role, block, calls),
                });
            }
        }
        made
    }

    fn block(
        &mut self,
        id: String,
        message: MessageRole,
        block: &Block,
        calls: bool,
    ) -> Result<Item, (String, Role, String, Text)> {
        let (role, trust) = match message {
            MessageRole::User => (Role::User, Trust::User),
            MessageRole::Assistant => (Role::Assistant, Trust::User),
            MessageRole::Tool => (Role::Tool, Trust::Tool),
            MessageRole::System => (Role::System, Trust::Operator),
            MessageRole::Developer => (Role::Developer, Trust::Operator),
        };
        let guarded = |text: &str| Text::guarded(text, self.policy);
        let item = |id: String, role: Role, text: Text, trust: Trust| {
            let mut item = Item::new(id, role, text).cut(Cut::Never);
            item.trust = trust;
            item
        };
        if matches!(role, Role::System | Role::Developer) {
            let mut text = String::new();
            if let Block::Text { text: said } = block {
                text.push_str(said);
            }
            let reason = "kept for the record: the system prompt is made anew each time";
            return Err((id, role, reason.to_owned(), guarded(&text)));
        }
        Ok(match block {
            Block::Text { text } if text.trim().is_empty() => {
                return Err((id, role, "is blank".to_owned(), guarded("")));
            }
            Block::Text { text } => item(id, role, guarded(text), trust),
            Block::ToolCall {
                id: call,
                name,
                arguments,
            } => {
                let (call, name): (Arc<str>, Arc<str>) =
                    (call.as_str().into(), name.as_str().into());
                self.names.insert(call.to_string(), Arc::clone(&name));
                self.open.push((Arc::clone(&call), Arc::clone(&name)));
                let text = guarded_json(arguments, self.policy);
                item(id, role, text, trust).part(Part::ToolCall { id: call, name })
            }
            Block::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => {
                let call: Arc<str> = tool_call_id.as_str().into();
                let own = self.open.iter().position(|(open, _)| *open == call);
                match own {
                    Some(at) => drop(self.open.remove(at)),
                    None => self.answers.push(Arc::clone(&call)),
                }
                let name = self.names.get(tool_call_id).cloned().unwrap_or_default();
                let mut item = item(id, Role::Tool, guarded(content.trim_end()), Trust::Tool).part(
                    Part::ToolResult {
                        id: call,
                        name,
                        is_error: *is_error,
                    },
                );
                // The newest results give way when nothing else can.
                item.cut = Cut::Middle;
                item
            }
            Block::Thinking { text, signature } => {
                // Providers want it back unchanged where tools were called, and
                // have no use for it elsewhere.
                let wanted = calls && self.provider == Provider::Anthropic;
                match signature {
                    Some(signature) if wanted && !signature.is_empty() => {
                        item(id, role, guarded(text), trust).part(Part::Thinking {
                            signature: signature.as_str().into(),
                        })
                    }
                    _ => {
                        let reason = "thinking that the provider does not want back";
                        return Err((id, role, reason.to_owned(), guarded(text)));
                    }
                }
            }
            Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {
                let Some(media) = block.media() else {
                    return Err((id, role, "has neither data nor url".to_owned(), guarded("")));
                };
                let mut item = item(id, role, guarded(&describe(&media)), trust);
                item.surcharge = media_tokens(&media);
                item.part(Part::Media(media.into()))
            }
        })
    }

    pub(super) fn finish(mut self, made: Vec<Made>) -> Prepared {
        let mut items = Vec::with_capacity(made.len());
        let mut bytes = 0;
        let mut speaks_at = self.speaks.map(|_| usize::MAX);
        for one in made {
            if one.what.is_ok() && self.speaks.is_some_and(|speaks| one.message >= speaks) {
                speaks_at = speaks_at.map(|at| at.min(items.len()));
            }
            bytes += one.text().map_or(0, |text| text.as_str().len() + 256);
            match one.what {
                Ok(item) => items.push(item),
                Err((id, role, reason, _)) => self.unsent.push((id, role, reason)),
            }
        }
        let talks = |item: &&Item| matches!(item.role, Role::User | Role::Assistant);
        let begins = items
            .iter()
            .find(talks)
            .is_some_and(|item| item.role == Role::User)
            && self.answers.is_empty();
        Prepared {
            items,
            unsent: self.unsent,
            open: self.open,
            answers: self.answers,
            speaks_at,
            begins,
            bytes,
        }
    }
}
