use contexture_core::{Block, Layout, Role, Section, markup};

use crate::Refused;

/// Who speaks, as far as providers tell speakers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Model,
}

/// Neighbouring blocks of one speaker.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) speaker: Speaker,
    pub(crate) parts: Vec<Part>,
}

/// A text of a message.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) text: String,
    /// False for the event, which is new each time.
    pub(crate) stable: bool,
}

/// The request in the terms that providers share.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// The operator's words: header and system.
    pub(crate) system: Vec<String>,
    /// The developer's, for providers that know the role.
    pub(crate) developer: Vec<String>,
    pub(crate) messages: Vec<Message>,
}

impl Conversation {
    /// Sorts the blocks of a layout by who speaks. With `developer_role` the
    /// developer's words are kept apart, else they join the operator's between
    /// their tags.
    pub(crate) fn of(layout: &Layout, developer_role: bool) -> Self {
        let mut conversation = Self::default();
        let sections = [
            (Section::System, &layout.system),
            (Section::History, &layout.history),
            (Section::Current, &layout.current),
        ];
        for (section, blocks) in sections {
            for block in blocks {
                conversation.add(block, section, developer_role);
            }
        }
        conversation
    }

    fn add(&mut self, block: &Block, section: Section, developer_role: bool) {
        match block.role {
            Role::Header | Role::System => self.system.push(block.text().to_owned()),
            Role::Developer if developer_role => self.developer.push(block.text().to_owned()),
            Role::Developer => self.system.push(tagged(block)),
            // Reference material in the static part is the operator's.
            Role::Context if section == Section::System => self.system.push(tagged(block)),
            Role::Context | Role::Tool => self.say(Speaker::User, tagged(block), block),
            Role::User => self.say(Speaker::User, block.text().to_owned(), block),
            Role::Assistant => self.say(Speaker::Model, block.text().to_owned(), block),
        }
    }

    fn say(&mut self, speaker: Speaker, text: String, block: &Block) {
        let part = Part {
            text,
            stable: !block.volatile,
        };
        match self.messages.last_mut() {
            Some(last) if last.speaker == speaker => last.parts.push(part),
            _ => self.messages.push(Message {
                speaker,
                parts: vec![part],
            }),
        }
    }

    /// Checks the rules that every provider has for the messages.
    pub(crate) fn check(&self, rules: &Rules) -> Result<(), Refused> {
        let Some(first) = self.messages.first() else {
            return Err(Refused {
                rule: rules.not_empty,
                message: "the request has no message: add a file with role user or context, \
                          or say what is asked with --event"
                    .to_owned(),
            });
        };
        if first.speaker != Speaker::User {
            return Err(Refused {
                rule: rules.user_first,
                message: "the first message is the model's, but the provider wants the user's"
                    .to_owned(),
            });
        }
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        if parts
            .map(|part| &part.text)
            .any(|text| text.trim().is_empty())
        {
            return Err(Refused {
                rule: rules.no_blank_text,
                message: "a message holds nothing but blanks".to_owned(),
            });
        }
        Ok(())
    }
}

/// What a provider calls its rules.
pub(crate) struct Rules {
    pub(crate) not_empty: &'static str,
    pub(crate) user_first: &'static str,
    pub(crate) no_blank_text: &'static str,
}

/// Returns a block with its tags, as it stands in the text form.
fn tagged(block: &Block) -> String {
    let mut out = String::with_capacity(block.text().len() + 64);
    markup::write_block(&mut out, block);
    out.truncate(out.trim_end().len());
    out
}
