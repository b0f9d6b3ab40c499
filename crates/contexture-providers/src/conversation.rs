//! Converts a layout to the terms that providers share: tools, system text, and
//! messages of two roles. The roles alternate, unless a conversation was given
//! with several messages of one role in a row.
//!
//! Each provider's module renders a [`Conversation`] as JSON.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use contexture_core::guard::Mark;
use contexture_core::{Block, Join, Layout, Media, Part, Role, Section, markup};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Refused;
use crate::dialect::Dialect;
use crate::json::Json;

/// The speaker of a message, as far as providers distinguish speakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Model,
    /// Neither: a message of another role, in the provider's own form.
    Other,
}

/// Neighbouring pieces of one speaker. Results of tools come first in it.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) speaker: Speaker,
    pub(crate) pieces: Vec<Piece<'a>>,
}

/// A part of a message.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) section: Section,
    /// Whether the content changes with every request.
    pub(crate) volatile: bool,
    pub(crate) group: Option<&'a str>,
    /// The piece in the provider's own form, which is then sent instead.
    pub(crate) native: Option<&'a str>,
    /// The block it is made from, or the last of several.
    pub(crate) block: &'a Block,
}

impl<'a> Piece<'a> {
    /// Returns true for reasoning that the provider requires before the content
    /// that follows it.
    pub(crate) fn is_thinking(&self) -> bool {
        match &self.content {
            Content::Thinking { .. } => true,
            Content::Provider(raw) => kind_of(raw) == "redacted_thinking",
            _ => false,
        }
    }

    /// Returns a text of this piece as JSON.
    pub(crate) fn json(block: &'a Block, text: Cow<'a, str>) -> Json<'a> {
        match text {
            // The block's own text, unchanged: its JSON form is cached.
            Cow::Borrowed(text) if std::ptr::eq(text, block.text()) => match block.json() {
                Some(json) => Json::Written { text, json },
                None => Json::text(text),
            },
            text => Json::Text(text),
        }
    }
}

/// The content of a part of a message.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// A text that is not blank.
    Text(Cow<'a, str>),
    Call(Call<'a>),
    Result(ToolResult<'a>),
    /// Reasoning at the beginning of a message of the model that has other
    /// content.
    Thinking {
        text: Cow<'a, str>,
        signature: &'a str,
    },
    Media(&'a Media),
    /// Content that only this provider understands, byte for byte.
    Provider(&'a str),
}

/// The model calls a tool.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: &'a str,
    /// The arguments as the model wrote them: the JSON of an object.
    pub(crate) json: Cow<'a, str>,
    pub(crate) arguments: Map<String, Value>,
}

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct ToolResult<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: &'a str,
    /// The text. Blank only if there are media.
    pub(crate) text: Cow<'a, str>,
    pub(crate) is_error: bool,
    pub(crate) media: Vec<&'a Media>,
    /// Whether the call has an id in the sent request.
    pub(crate) named: bool,
    /// Whether it answers a call of a tool that accepts any text.
    pub(crate) custom: bool,
}

/// A tool that the model may call.
#[derive(Debug)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Option<String>,
    /// A schema of an object with its `properties`.
    pub(crate) parameters: Map<String, Value>,
    pub(crate) volatile: bool,
}

/// The operator's or the developer's words.
#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) volatile: bool,
}

impl ToolResult<'_> {
    /// Returns the result for an API that has no field for a failure. The text
    /// form reports a failure with more tokens than this.
    pub(crate) fn told(&self) -> Cow<'_, str> {
        let begins = self.text.get(..5).unwrap_or_default();
        if self.is_error && !begins.eq_ignore_ascii_case("error") {
            return Cow::Owned(format!("Error: {}", self.text));
        }
        Cow::Borrowed(&self.text)
    }
}

/// The request in the terms that providers share.
#[derive(Debug, Default)]
pub(crate) struct Conversation<'a> {
    pub(crate) tools: Vec<Tool<'a>>,
    /// The operator's instructions: header and system.
    pub(crate) system: Vec<Instruction<'a>>,
    /// The developer's instructions, for providers that have the role.
    pub(crate) developer: Vec<Instruction<'a>>,
    pub(crate) messages: Vec<Message<'a>>,
    /// Whether a message was left out because it is blank.
    pub(crate) left_out_blank: bool,
}

/// The text that replaces an empty result: some providers reject an empty one,
/// and some models mistake it for the end. The tags of a result cost more than
/// this.
const NO_OUTPUT: &str = "(no output)";

/// Returns the text that a result is sent as.
pub(crate) fn shown_result(text: &str) -> &str {
    match text.trim().is_empty() {
        true => NO_OUTPUT,
        false => text,
    }
}

/// The text that replaces a result that is a medium, if the medium must follow
/// the result.
const ATTACHED: &str = "(attached)";

impl<'a> Conversation<'a> {
    /// Sorts the blocks of a layout by speaker. With `developer_role` the
    /// developer's instructions are separate, else they join the operator's
    /// between their tags.
    ///
    /// Blank content is left out, and so is reasoning that cannot be sent
    /// unchanged.
    pub(crate) fn of(
        layout: &'a Layout,
        dialect: &Dialect,
        developer_role: bool,
    ) -> Result<Self, Refused> {
        let mut builder = Builder {
            dialect,
            mark: layout.mark,
            developer_role,
            conversation: Conversation::default(),
            said: Vec::new(),
            names: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            custom: BTreeSet::new(),
            open_result: None,
        };
        let is_document = |block: &Block| block.role == Role::Document;
        let mut document = Vec::new();
        for (section, blocks) in layout.sections() {
            for run in blocks.chunk_by(|before, block| block.joins(before)) {
                match run {
                    [block] if is_document(block) => document.push((section, block)),
                    run => builder.add(run, section)?,
                }
            }
        }
        builder.add_document(&document)?;
        Ok(builder.finish())
    }

    /// Removes the white space at the end of the model's last message.
    pub(crate) fn trim_end(&mut self) {
        if let Some(message) = self.messages.last_mut()
            && message.speaker == Speaker::Model
            && let Some(piece) = message.pieces.last_mut()
            && let Content::Text(text) = &mut piece.content
            && text.ends_with(char::is_whitespace)
        {
            *text = Cow::Owned(text.trim_end().to_owned());
            // The provider's own form has the white space.
            piece.native = None;
        }
    }

    /// Returns every piece of every message, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece<'a>> {
        self.messages.iter().flat_map(|message| &message.pieces)
    }
}

struct Builder<'a, 'd> {
    dialect: &'d Dialect,
    mark: Mark,
    developer_role: bool,
    conversation: Conversation<'a>,
    said: Vec<(Speaker, Piece<'a>)>,
    // The tool of each call, by the id it came with.
    names: BTreeMap<&'a str, &'a str>,
    // Calls that have no id in the provider's own form.
    unnamed: BTreeSet<&'a str>,
    // Calls of tools that accept any text.
    custom: BTreeSet<&'a str>,
    // The result that media right after it belong to.
    open_result: Option<usize>,
}

impl<'a> Builder<'a, '_> {
    /// Adds a block, or several of which each continues inside the tags of the
    /// one before it.
    fn add(&mut self, run: &'a [Block], section: Section) -> Result<(), Refused> {
        // If one of them is volatile, the whole is.
        let Some(block) = run.iter().find(|block| block.volatile).or(run.last()) else {
            return Ok(());
        };
        let open_result = self.open_result.take();
        match &block.part {
            Part::Text => self.add_text(run, block, section),
            Part::Tool { name } => {
                let tool = tool_of(self.dialect, name, block)?;
                self.conversation.tools.push(tool);
            }
            Part::ToolCall { id, name } => {
                self.names.insert(id, name);
                if let Some(raw) = self.native(block) {
                    if !has_id(raw) {
                        self.unnamed.insert(id);
                    }
                    if kind_of(raw) == "custom_tool_call" {
                        self.custom.insert(id);
                    }
                }
                let call = self.call(id, name, block);
                self.say(Speaker::Model, Content::Call(call), block, section);
            }
            Part::ToolResult { id, name, is_error } => {
                let result = ToolResult {
                    id: (self.dialect.call_id)(id),
                    // Gemini pairs by name, so the result has that of its call.
                    name: self.names.get(&**id).copied().unwrap_or(name),
                    text: Cow::Borrowed(block.text()),
                    is_error: *is_error,
                    media: Vec::new(),
                    named: !self.unnamed.contains(&**id),
                    custom: self.custom.contains(&**id),
                };
                self.open_result = Some(self.said.len());
                self.say(Speaker::User, Content::Result(result), block, section);
            }
            Part::Thinking { signature } => {
                if self.dialect.thinking
                    && !signature.is_empty()
                    && let Some(text) = unchanged(block.text())
                {
                    let content = Content::Thinking { text, signature };
                    self.say(Speaker::Model, content, block, section);
                } else if let Some(raw) = self.native(block) {
                    self.say(Speaker::Model, Content::Provider(raw), block, section);
                }
            }
            Part::Media(media) => self.add_media(media, block, section, open_result),
            Part::Provider(native) => {
                if *native.provider == *self.dialect.name {
                    let speaker = match block.role {
                        Role::Assistant => Speaker::Model,
                        Role::System | Role::Developer => Speaker::Other,
                        _ => Speaker::User,
                    };
                    let content = Content::Provider(native.raw.as_str());
                    self.say(speaker, content, block, section);
                }
            }
        }
        Ok(())
    }

    fn add_text(&mut self, run: &'a [Block], block: &'a Block, section: Section) {
        let blank = run.iter().all(|block| is_blank(block.text()));
        if blank && !block.role.shows_path() {
            let instructs = block.role <= Role::Developer;
            self.conversation.left_out_blank |= !instructs;
            return;
        }
        let plain = || paragraphs(run);
        let instruction = |text| Instruction {
            text,
            volatile: block.volatile,
        };
        match block.role {
            Role::Header | Role::System => self.conversation.system.push(instruction(plain())),
            Role::Developer if self.developer_role => {
                self.conversation.developer.push(instruction(plain()));
            }
            Role::Developer => self
                .conversation
                .system
                .push(instruction(tagged(run, self.mark))),
            // Reference material in the static part is the operator's.
            Role::Context if section == Section::System => {
                self.conversation
                    .system
                    .push(instruction(tagged(run, self.mark)));
            }
            Role::Context | Role::Tool => {
                self.say(
                    Speaker::User,
                    Content::Text(tagged(run, self.mark)),
                    block,
                    section,
                );
            }
            Role::User | Role::Document => {
                self.say(Speaker::User, Content::Text(plain()), block, section);
            }
            Role::Assistant => self.say(Speaker::Model, Content::Text(plain()), block, section),
        }
    }

    /// Adds the parts of a document: a provider receives it as the user's
    /// message.
    fn add_document(&mut self, parts: &[(Section, &'a Block)]) -> Result<(), Refused> {
        let is_text = |part: &(Section, &Block)| part.1.part == Part::Text;
        for run in parts.chunk_by(|a, b| is_text(a) && is_text(b)) {
            let volatile = run.iter().find(|(_, block)| block.volatile);
            let Some(&(section, block)) = volatile.or(run.last()) else {
                continue;
            };
            if !is_text(&run[0]) {
                self.add(std::slice::from_ref(block), section)?;
                continue;
            }
            let mut text = String::new();
            markup::write_document(&mut text, run.iter().map(|(_, block)| *block));
            if is_blank(&text) {
                self.conversation.left_out_blank = true;
                continue;
            }
            self.say(
                Speaker::User,
                Content::Text(Cow::Owned(text)),
                block,
                section,
            );
        }
        Ok(())
    }

    fn add_media(
        &mut self,
        media: &'a Media,
        block: &'a Block,
        section: Section,
        open_result: Option<usize>,
    ) {
        let result = open_result
            .filter(|_| block.role == Role::Tool)
            .and_then(|at| Some((at, self.said.get_mut(at)?)));
        let mut open = None;
        if let Some((at, (_, piece))) = result
            && piece.group == block.group.as_deref()
            && let Content::Result(result) = &mut piece.content
        {
            self.open_result = Some(at);
            // The provider's own form of the result has its media in it.
            if piece.native.is_some() {
                return;
            }
            open = Some(result);
        }
        // Content for another provider must not stop the conversation: a medium
        // that this provider does not accept is replaced by its description.
        if section == Section::History && (self.dialect.check_media)(media).is_err() {
            let speaker = match block.role {
                Role::Assistant => Speaker::Model,
                _ => Speaker::User,
            };
            return self.say(
                speaker,
                Content::Text(Cow::Borrowed(block.text())),
                block,
                section,
            );
        }
        if block.role == Role::Assistant {
            let content = if self.dialect.model_media {
                Content::Media(media)
            } else if is_blank(block.text()) {
                return;
            } else {
                // The provider accepts only text from the model, so the medium
                // is described.
                Content::Text(Cow::Borrowed(block.text()))
            };
            return self.say(Speaker::Model, content, block, section);
        }
        if let Some(result) = open {
            // An error is text only, to Anthropic.
            if self.dialect.result_media && !result.is_error {
                result.media.push(media);
                return;
            }
            if is_blank(&result.text) {
                result.text = Cow::Borrowed(ATTACHED);
            }
        }
        // A file is identified by its name.
        if block.role.shows_path() && block.path.is_some() {
            let run = std::slice::from_ref(block);
            self.say(
                Speaker::User,
                Content::Text(tagged(run, self.mark)),
                block,
                section,
            );
        }
        self.say(Speaker::User, Content::Media(media), block, section);
    }

    fn say(&mut self, speaker: Speaker, content: Content<'a>, block: &'a Block, section: Section) {
        let piece = Piece {
            content,
            section,
            volatile: block.volatile,
            group: block.group.as_deref(),
            native: self.native(block),
            block,
        };
        self.said.push((speaker, piece));
    }

    /// Returns the block in the provider's own form, if that is stored.
    fn native(&self, block: &'a Block) -> Option<&'a str> {
        // A block that joins others is only a part of the message.
        let is_part = block.join == Join::Paragraph;
        let native = block.native.as_deref().filter(|_| !is_part)?;
        (*native.provider == *self.dialect.name).then(|| native.raw.as_str())
    }

    fn call(&self, id: &'a str, name: &'a str, block: &'a Block) -> Call<'a> {
        let json = match block.text() {
            // Models write a blank text for no arguments.
            text if is_blank(text) => Cow::Borrowed("{}"),
            text => Cow::Borrowed(text),
        };
        let wrapped = |field: &str| Map::from_iter([(field.to_owned(), Value::from(&*json))]);
        // A tool that accepts any text is a function with one argument here.
        if is_custom(block) {
            let arguments = wrapped(INPUT);
            return Call {
                id: (self.dialect.call_id)(id),
                name,
                json: Cow::Owned(Value::from(arguments.clone()).to_string()),
                arguments,
            };
        }
        let arguments = object(&json).unwrap_or_else(|| wrapped(MALFORMED));
        Call {
            id: (self.dialect.call_id)(id),
            name,
            json,
            arguments,
        }
    }

    fn finish(self) -> Conversation<'a> {
        let mut conversation = self.conversation;
        for (speaker, mut piece) in with_leading_thinking(self.said) {
            if let Content::Result(result) = &mut piece.content
                && is_blank(&result.text)
                && result.media.is_empty()
            {
                result.text = Cow::Borrowed(NO_OUTPUT);
            }
            let is_own = self.dialect.in_a_row && piece.block.join == Join::Message;
            match conversation.messages.last_mut() {
                Some(last) if last.speaker == speaker && speaker != Speaker::Other && !is_own => {
                    last.pieces.push(piece)
                }
                _ => conversation.messages.push(Message {
                    speaker,
                    pieces: vec![piece],
                }),
            }
        }
        for message in &mut conversation.messages {
            // Results come directly after the calls, and the user's messages
            // after them.
            message
                .pieces
                .sort_by_key(|piece| !matches!(piece.content, Content::Result(_)));
        }
        conversation
    }
}

/// The field that holds the arguments of a call that are not a JSON object, for
/// providers that take nothing but an object.
const MALFORMED: &str = "malformed_arguments";

/// The argument of a tool that accepts any text, for an API without such tools.
pub const INPUT: &str = "input";

/// Returns true for a call of a tool that accepts any text.
fn is_custom(block: &Block) -> bool {
    let native = block.native.as_deref();
    native.is_some_and(|native| {
        matches!(
            &*kind_of(native.raw.as_str()),
            "custom" | "custom_tool_call"
        )
    })
}

/// Returns the type of a block in a provider's own form.
pub(crate) fn kind_of(raw: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Cow<'a, str>,
    }
    serde_json::from_str(raw).map_or(Cow::Borrowed(""), |kind: Kind<'_>| kind.kind)
}

/// Returns true when a call in a provider's own form has an id.
fn has_id(raw: &str) -> bool {
    let value: Value = serde_json::from_str(raw).unwrap_or(Value::Null);
    let ids = [
        &value["id"],
        &value["call_id"],
        &value["functionCall"]["id"],
        &value["function_call"]["id"],
    ];
    ids.into_iter().any(Value::is_string)
}

/// Removes the model's reasoning, except at the beginning of a message that has
/// other content.
fn with_leading_thinking<'a>(said: Vec<(Speaker, Piece<'a>)>) -> Vec<(Speaker, Piece<'a>)> {
    let is_thinking = |(_, piece): &(Speaker, Piece<'_>)| piece.is_thinking();
    let mut keep = Vec::with_capacity(said.len());
    for message in said.chunk_by(|a, b| a.0 == b.0) {
        let begins = message.first().is_some_and(is_thinking);
        let goes_on = !message.iter().all(is_thinking);
        let keeps = begins && goes_on;
        keep.extend(message.iter().map(|said| keeps || !is_thinking(said)));
    }
    let mut keep = keep.into_iter();
    said.into_iter()
        .filter(|_| keep.next().unwrap_or_default())
        .collect()
}

/// Returns the model's reasoning unchanged, or `None` if it may have been
/// changed: its signature is valid only for the exact text.
fn unchanged(text: &str) -> Option<Cow<'_, str>> {
    // The texts that the guard and a cut insert. Reasoning that contains such a
    // text by itself is left out as well, which is harmless.
    let changed = ["[secret masked: ", "[U+", "[... "]
        .iter()
        .any(|sign| text.contains(sign));
    (!changed).then_some(Cow::Borrowed(text))
}

fn object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns the texts of the blocks of one message as its paragraphs.
fn paragraphs(run: &[Block]) -> Cow<'_, str> {
    match run {
        [block] => Cow::Borrowed(block.text()),
        run => {
            let texts: Vec<&str> = run
                .iter()
                .map(Block::text)
                .filter(|text| !is_blank(text))
                .collect();
            Cow::Owned(texts.join("\n\n"))
        }
    }
}

/// Returns blocks with their tags, as in the text form.
fn tagged(run: &[Block], mark: Mark) -> Cow<'_, str> {
    let size: usize = run.iter().map(|block| block.text().len()).sum();
    let mut out = String::with_capacity(size + 64);
    markup::write_run(&mut out, run, mark);
    out.truncate(out.trim_end().len());
    Cow::Owned(out)
}

/// Returns a tool from its definition.
pub(crate) fn tool_of<'a>(
    dialect: &Dialect,
    name: &'a str,
    block: &Block,
) -> Result<Tool<'a>, Refused> {
    let refused = |why: &str| Refused {
        rule: dialect.rules.tool_json,
        message: format!(
            "the tool `{name}` {why}: give it as an object with a `description` and the \
             JSON schema of its `parameters`, and never cut it"
        ),
    };
    let mut fields = object(block.text()).ok_or_else(|| refused("is not a JSON object"))?;
    let description = match fields.remove("description") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text).filter(|text| !is_blank(text)),
        Some(_) => return Err(refused("has a description that is not text")),
    };
    let given = match fields.remove("parameters") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(schema)) => schema,
        Some(_) => return Err(refused("has parameters that are not an object")),
    };
    if given.get("type").is_some_and(|kind| kind != "object") {
        return Err(refused("has parameters of another `type` than `object`"));
    }
    // Some providers reject a schema without these two fields, although they
    // add no meaning.
    let mut parameters = Map::new();
    parameters.insert("type".to_owned(), "object".into());
    if !given.contains_key("properties") {
        parameters.insert("properties".to_owned(), Map::new().into());
    }
    parameters.extend(given);
    Ok(Tool {
        name,
        description,
        parameters,
        volatile: block.volatile,
    })
}
