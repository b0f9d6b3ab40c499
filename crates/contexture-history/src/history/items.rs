//! Converts the blocks of turns into items.
//!
//! Each block is one item: a text, a tool call, a result, a thinking block or
//! media. Items of one step are a group, which the fit keeps or drops as a
//! whole. Long tool results are shortened here. Token counts that are stored
//! with the turn are reused.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_core::guard::FindingKind;
use contexture_core::guard::Policy;
use contexture_core::{
    Counts, Cut, Item, Media, MediaSource, Native, Original, Part, RawJson, Role, Text, Tokens,
    Trust,
};
use contexture_providers::{describe, describes, media_tokens, native};
use contexture_shorten::{Hint, shorten};
use contexture_store::{
    Block, BlockCounts, Counted, Handle, MessageRole, NewTurn, StopReason, TurnId, fetchable,
};
use contexture_tokens::Provider;

use contexture_engine::config::Config;
use contexture_engine::{OTHER_API, counter_name, masked_json_text};
use serde_json::Value;

use super::steps::Previous;
use super::{PreparedTurn, Target, UnsentBlock, turn_name};
use crate::sent;
use crate::turn::guarded_json;

/// The most tokens of a tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResultLimits {
    /// The limit in this request. `None` for no limit.
    pub(crate) shown: Option<Tokens>,
    /// In the counts that are stored with a turn. It depends on the settings
    /// only, so that turns are counted once for windows of all sizes.
    pub(crate) stored: Option<Tokens>,
}

impl ResultLimits {
    pub(crate) fn of(config: &Config, window: Tokens) -> Self {
        Self {
            shown: config.tool_results.limit(window),
            stored: Self::stored(config),
        }
    }

    /// Returns the limit in the largest window.
    pub(crate) fn stored(config: &Config) -> Option<Tokens> {
        config.tool_results.limit(Tokens::MAX)
    }
}

/// Returns the counts of a turn that is about to be recorded.
pub(crate) fn count_turn(
    turn: &NewTurn,
    counts: &Counts,
    policy: Policy,
    max_result: Option<Tokens>,
) -> Counted {
    let nobody = TurnId::of(b"");
    let items = ItemBuilder::new(nobody, policy, Target::any(), max_result).items(turn, counts);
    Counted {
        counter: counter_of(counts, policy, max_result),
        blocks: count(&items, turn, counts),
    }
}

/// Returns a name for the counter, the guard's policy and the result limit;
/// stored counts are valid for one such name.
pub(crate) fn counter_of(counts: &Counts, policy: Policy, max_result: Option<Tokens>) -> String {
    let name = counter_name(counts, policy);
    let steady = counts.steady().identity();
    match max_result {
        Some(tokens) if steady == counts.counter().identity() => {
            format!("{name}/results {tokens}")
        }
        Some(tokens) => format!("{name}/results {tokens} of {steady}"),
        None => name,
    }
}

/// Returns true if counts are those of a turn: a row for each message, and one
/// for the message that was sent, if the turn stores that.
pub(crate) fn fits(counts: &BlockCounts, turn: &NewTurn) -> bool {
    let messages = turn.messages.iter().map(|message| message.blocks().len());
    let sent = (!turn.sent.is_empty()).then_some(turn.sent.len());
    let rows = counts.iter().map(Vec::len);
    rows.eq(messages.chain(sent))
}

/// Returns the tokens of each message of a turn, from the counts of its blocks.
pub(crate) fn by_message(counts: &BlockCounts, turn: &NewTurn) -> Vec<Tokens> {
    let sum = |blocks: &Vec<Tokens>| blocks.iter().sum::<Tokens>();
    let mut tokens: Vec<Tokens> = counts.iter().map(sum).collect();
    let sent = tokens.split_off(turn.messages.len().min(tokens.len()));
    if let Some(position) = sent::position(turn) {
        tokens[position] += sent.iter().sum::<Tokens>();
    }
    tokens
}

/// Counts each block as an item of a provider's request: its text, its
/// overhead, and its surcharge.
pub(super) fn count(items: &[BlockItem], turn: &NewTurn, counts: &Counts) -> BlockCounts {
    let mut blocks: BlockCounts = turn
        .messages
        .iter()
        .map(|message| vec![0; message.blocks().len()])
        .collect();
    if !turn.sent.is_empty() {
        blocks.push(vec![0; turn.sent.len()]);
    }
    // The tokens of tags depend on the form of a request; saved counts must
    // not.
    let counts = counts.native();
    for made in items {
        let tokens = counts.count_of(&made.text) + counts.overhead_of(&made.item);
        blocks[made.row][made.block] = tokens;
    }
    blocks
}

/// Passes stored counts to the counter. Returns the number of tokens saved
/// because results are shorter in this window than they were counted.
pub(super) fn know(items: &[BlockItem], blocks: &BlockCounts, counts: &Counts) -> Tokens {
    let counts = counts.native();
    let mut saved = 0;
    for made in items {
        let whole = blocks[made.row][made.block];
        if made.item.original.is_some() || made.is_described {
            let tokens = counts.count_of(&made.text) + counts.overhead_of(&made.item);
            saved += whole.saturating_sub(tokens);
        } else if let Some(text) = whole.checked_sub(counts.overhead_of(&made.item)) {
            counts.know(&made.text, text);
        }
    }
    saved
}

/// A block of a message as an item.
pub(super) struct BlockItem {
    // The message that it is shown in.
    message: usize,
    // The position of its count: the row of a message or of the sent message,
    // and the block.
    row: usize,
    block: usize,
    item: Item,
    text: Text,
    // The reason why the block is not sent. `None` if it is sent.
    unsent: Option<&'static str>,
    // Whether it is a result of a call of an earlier turn.
    answers_earlier: bool,
    // Whether it is a medium of which only the description is sent, or a result
    // with such media.
    is_described: bool,
}

/// Makes items of a turn.
pub(super) struct ItemBuilder {
    name: String,
    // The tool of each call.
    names: BTreeMap<String, Arc<str>>,
    // The file that each call reads, to identify the format of its result.
    paths: BTreeMap<String, String>,
    policy: Policy,
    target: Target,
    // The maximum tokens of a tool result. `None` for no limit.
    max_result: Option<Tokens>,
    open: Vec<(Arc<str>, Arc<str>)>,
    answers: Vec<Arc<str>>,
    // The first message that is not a tool result.
    speaks: Option<usize>,
    // The messages that steps begin with.
    starts: BTreeSet<usize>,
    // The position of the first message that is read.
    first: usize,
    // Whether the messages are those of the request itself.
    is_loose: bool,
    // The texts of blocks that were guarded before.
    texts: BTreeMap<(usize, usize), Text>,
    is_paused: bool,
    // Whether the latest result is sent in its provider's own form, which has the
    // media after it.
    holds_media: bool,
}

impl ItemBuilder {
    pub(super) fn new(
        turn: TurnId,
        policy: Policy,
        target: Target,
        max_result: Option<Tokens>,
    ) -> Self {
        Self {
            name: turn_name(turn),
            names: BTreeMap::new(),
            paths: BTreeMap::new(),
            policy,
            target,
            max_result,
            open: Vec::new(),
            answers: Vec::new(),
            speaks: None,
            starts: BTreeSet::new(),
            first: 0,
            is_loose: false,
            texts: BTreeMap::new(),
            is_paused: false,
            holds_media: false,
        }
    }

    /// Names the items of messages without a turn by their position, of which
    /// `first` is that of the first message. `texts` are the guarded texts of
    /// some blocks, by message and block.
    pub(super) fn of_loose_messages(
        mut self,
        first: usize,
        texts: BTreeMap<(usize, usize), Text>,
    ) -> Self {
        "messages".clone_into(&mut self.name);
        (self.first, self.texts, self.is_loose) = (first, texts, true);
        self
    }

    pub(super) fn items(&mut self, turn: &NewTurn, counts: &Counts) -> Vec<BlockItem> {
        let mut made = Vec::with_capacity(turn.messages.len());
        self.is_paused = turn.stop_reason.as_ref().is_some_and(StopReason::is_pause);
        let mut previous = Previous::default();
        let position = match turn.sent.is_empty() {
            true => None,
            false => sent::position(turn),
        };
        let mut sent = position.map(|at| (at, self.sent(turn, at)));
        for (row, message) in turn.messages.iter().enumerate() {
            let m = self.first + row;
            if previous.starts_step(message) {
                self.starts.insert(m);
            }
            let mut blocks = message.blocks();
            if let Some(format) = self.target.format {
                for block in &mut blocks {
                    if let Some(translated) = native::translated(block, format) {
                        *block = Cow::Owned(translated);
                    }
                }
            }
            let calls = blocks
                .iter()
                .any(|block| matches!(&**block, Block::ToolCall { .. }));
            let answers = blocks
                .iter()
                .any(|block| matches!(&**block, Block::ToolResult { .. }));
            let opaque = blocks
                .iter()
                .all(|block| matches!(**block, Block::Provider { .. }));
            let talks = match message.role {
                // An item that only the provider understands may be a result.
                MessageRole::User => !opaque,
                role => role == MessageRole::Assistant,
            };
            if talks && !answers {
                self.speaks = self.speaks.or(Some(m));
            }
            let first = made.len();
            let mut take_sent = || sent.take_if(|(at, _)| *at == m).map(|(_, items)| items);
            if message.role == MessageRole::Assistant {
                made.extend(take_sent().into_iter().flatten());
            }
            for (b, block) in blocks.iter().enumerate() {
                if !turn.sent.is_empty() && sent::is_replaced(turn, row, block) {
                    made.extend(take_sent().into_iter().flatten());
                    continue;
                }
                // The source `system` offers these.
                if self.is_loose && message.role.is_instruction() && is_plain_text(block) {
                    continue;
                }
                let id = match blocks.len() {
                    1 => format!("{}/{m}", self.name),
                    _ => format!("{}/{m}.{b}", self.name),
                };
                let (role, trust) = match message.role {
                    MessageRole::User => (Role::User, Trust::User),
                    MessageRole::Assistant => (Role::Assistant, Trust::User),
                    MessageRole::Tool => (Role::Tool, Trust::Tool),
                    MessageRole::System => (Role::System, Trust::Operator),
                    MessageRole::Developer => (Role::Developer, Trust::Operator),
                };
                let guarded = self.texts.remove(&(m, b));
                let (mut text, masked) = match (guarded, self.masked_block(message.role, block)) {
                    (_, Some((text, masked))) => (text, Some(masked)),
                    (Some(text), None) => (text, None),
                    (None, None) => (self.text(block), None),
                };
                let handle = handle_of(block);
                let original = self.shorten(block, handle.as_deref(), &mut text, counts);
                let mut item = Item::new(id, role, text.clone()).cut(Cut::Never);
                item.trust = trust;
                let earlier = self.answers.len();
                self.holds_media &= is_medium(block);
                let mut item = self.with_part(item, block);
                if let Some(masked) = masked {
                    item.part = Part::Provider(Arc::new(masked));
                }
                let mut is_described =
                    (block.media()).is_some_and(|media| self.is_described(role, block, &media));
                // A shortened block no longer equals the provider's own form.
                if let Some(native) = block.native().filter(|_| original.is_none()) {
                    // Counted for every provider, so that a stored count is
                    // valid for all of them.
                    let raw = native.raw.as_str();
                    // The cost of media does not depend on their bytes.
                    let media = match block.media().is_some() || role == Role::Tool {
                        true => native::data_bytes(raw),
                        false => 0,
                    };
                    let shown = text.as_str().len() + media;
                    let more = raw.len().saturating_sub(shown);
                    item.surcharge += more as Tokens / BYTES_PER_TOKEN;
                    // A secret is not sent in another form either.
                    item.native = (!is_changed(&text)).then(|| Arc::new(native.clone()));
                    if matches!(&**block, Block::ToolResult { .. }) {
                        let is_own = self.target.accepts(&native.provider);
                        self.holds_media = is_own && item.native.is_some();
                        // Files that only the provider of the result has.
                        let files = native::file_tokens(raw);
                        is_described |= files > 0 && !is_own && self.target.format.is_some();
                        if !is_described {
                            item.surcharge += files;
                        }
                    }
                }
                // An instruction is sent in the provider's own form between the
                // messages, or else with the other instructions.
                if message.role.is_instruction()
                    && let Some(native) = block.native()
                    && self.target.accepts(&native.provider)
                    && let Some(native) = match is_changed(&text) {
                        true => masked_instruction(native, text.as_str()),
                        false => Some(native.clone()),
                    }
                {
                    item.part = Part::Provider(Arc::new(native));
                }
                item.original = original.map(Arc::new);
                item.handle = handle;
                made.push(BlockItem {
                    message: m,
                    row,
                    block: b,
                    unsent: self.unsent(role, block, calls, &text),
                    answers_earlier: self.answers.len() > earlier,
                    is_described,
                    item,
                    text,
                });
            }
            whole_thinking(&mut made[first..]);
        }
        made
    }

    /// Returns the items of the sent message, as shown in history.
    fn sent(&self, turn: &NewTurn, message: usize) -> Vec<BlockItem> {
        let items = sent::items(&turn.sent, &self.name, message, self.policy);
        let made = items.into_iter().enumerate();
        made.map(|(block, (item, text))| BlockItem {
            message,
            row: turn.messages.len(),
            block,
            unsent: None,
            answers_earlier: false,
            is_described: false,
            item,
            text,
        })
        .collect()
    }

    /// Returns a block in a provider's own form that the client wrote, such as the
    /// output of a tool, with its secrets masked. Returns `None` for other blocks,
    /// and if it has no secrets.
    fn masked_block(&self, role: MessageRole, block: &Block) -> Option<(Text, Native)> {
        let Block::Provider { provider, raw } = block else {
            return None;
        };
        let is_clients = matches!(role, MessageRole::User | MessageRole::Tool);
        if !is_clients || !self.policy.mask_secrets {
            return None;
        }
        let masked = masked_json_text(raw.as_str())?;
        let native = Native::new(provider.as_str(), RawJson::parse(&masked).ok()?);
        Some((Text::guarded(raw.as_str(), self.policy), native))
    }

    fn text(&self, block: &Block) -> Text {
        let guarded = |text: &str| Text::guarded(text, self.policy);
        match block {
            // The provider rejects signed reasoning that was changed.
            Block::Thinking {
                text,
                signature: Some(signature),
                ..
            } if !signature.is_empty() => Text::verbatim(text),
            Block::Text { text, .. } => guarded(text),
            Block::Thinking { text, .. } => guarded(text),
            // The provider gets back the bytes that it sent.
            Block::Provider { raw, .. } => Text::verbatim(&native::shown(raw).0),
            Block::ToolCall {
                arguments: Value::String(written),
                ..
            } => guarded(written),
            Block::ToolCall { arguments, .. } => guarded_json(arguments, self.policy),
            Block::ToolResult { content, .. } if content.trim().is_empty() => guarded(""),
            Block::ToolResult { content, .. } => guarded(content),
            Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {
                let media = block.media();
                guarded(&media.as_ref().map(describe).unwrap_or_default())
            }
        }
    }

    /// Shortens a tool result that is over the limit. The result depends only
    /// on the turn, the limit and the model, so that its bytes are the same in
    /// every request.
    fn shorten(
        &self,
        block: &Block,
        handle: Option<&str>,
        text: &mut Text,
        counts: &Counts,
    ) -> Option<Original> {
        let Block::ToolResult {
            tool_call_id,
            content,
            ..
        } = block
        else {
            return None;
        };
        let max_tokens = self.max_result?;
        // Messages of the request itself are not stored, so that they cannot be
        // fetched.
        let handle = match self.is_loose {
            true => None,
            false => Some(handle?),
        };
        // Only its own form shows that it answers a tool that accepts any text, if
        // the request does not have the call.
        let is_custom = |own: &Native| native::kind(&own.raw) == "custom_tool_call_output";
        if !self.names.contains_key(tool_call_id) && block.native().is_some_and(is_custom) {
            return None;
        }
        // No counter has more than two tokens per byte, so a short result is
        // within the limit.
        if content.len() as Tokens <= max_tokens / 2 {
            return None;
        }
        let hint = Hint {
            tool: self.names.get(tool_call_id).map_or("", |name| name),
            path: self.paths.get(tool_call_id).map(String::as_str),
        };
        let shown = text.as_str();
        // Another cut would break the provider's cache whenever the counter is
        // calibrated.
        let short = shorten(shown, &hint, max_tokens, counts.steady(), handle)?;
        *text = text.shortened(&short.text);
        Some(Original {
            tokens: short.original_tokens,
            lines: short.lines,
            max_tokens: Some(max_tokens),
        })
    }

    /// Returns the reason why a block is not sent, or `None` if it is.
    fn unsent(&self, role: Role, block: &Block, calls: bool, text: &Text) -> Option<&'static str> {
        if let Block::Provider { provider, .. } = block {
            let belongs = self.target.accepts(provider);
            return (!belongs).then_some(OTHER_API);
        }
        if matches!(role, Role::System | Role::Developer) && block.native().is_none() {
            return Some("recorded system prompt: each request gets a new one");
        }
        match block {
            Block::Text { text, .. } if text.is_blank() => Some("is blank"),
            // Providers require it unchanged if tools were called, and ignore
            // it otherwise.
            Block::Thinking { .. } if is_changed(text) => {
                Some("thinking changed by the guard, so that its signature is no longer valid")
            }
            Block::Thinking { signature, .. } => {
                let sealed = signature.as_ref().is_some_and(|seal| !seal.is_empty());
                let wanted = calls && sealed && self.target.accepts(ANTHROPIC);
                let native = block.native();
                let own = native.is_some_and(|native| self.target.accepts(&native.provider));
                (!wanted && !own).then_some("thinking that the provider does not accept back")
            }
            _ => None,
        }
    }

    fn with_part(&mut self, mut item: Item, block: &Block) -> Item {
        match block {
            Block::Provider { provider, raw } => {
                // The output belongs to a call, as other results do.
                if item.role == Role::User && native::kind(raw).ends_with("_output") {
                    item.role = Role::Tool;
                    item.trust = Trust::Tool;
                }
                item.surcharge = native::shown(raw).1;
                item.part = Part::Provider(Arc::new(Native::new(provider.as_str(), raw.clone())));
            }
            // If the latest turn alone is too large, a part of it is better
            // than nothing.
            Block::Text { .. } if item.trust != Trust::Operator => item.cut = Cut::Middle,
            Block::Text { .. } => {}
            Block::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                if let Some(path) = Hint::of_call(name, arguments).path {
                    self.paths.insert(id.clone(), path.to_owned());
                }
                let id: Arc<str> = id.as_str().into();
                let name: Arc<str> = sendable(name, self.target.provider).into();
                self.names.insert(id.to_string(), Arc::clone(&name));
                self.open.push((Arc::clone(&id), Arc::clone(&name)));
                item.part = Part::ToolCall { id, name };
            }
            Block::ToolResult {
                tool_call_id,
                is_error,
                ..
            } => {
                let id: Arc<str> = tool_call_id.as_str().into();
                match self.open.iter().position(|(open, _)| *open == id) {
                    Some(at) => drop(self.open.remove(at)),
                    None => self.answers.push(Arc::clone(&id)),
                }
                item.role = Role::Tool;
                item.trust = Trust::Tool;
                // The newest results are cut if nothing else can be removed.
                item.cut = Cut::Middle;
                item.part = Part::ToolResult {
                    id,
                    name: self.names.get(tool_call_id).cloned().unwrap_or_default(),
                    is_error: *is_error,
                };
            }
            Block::Thinking { signature, .. } => {
                let signature = signature.as_deref().unwrap_or_default().into();
                item.part = Part::Thinking { signature };
            }
            Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {
                if let Some(media) = block.media() {
                    // A description has no tokens beyond its text.
                    if !self.is_described(item.role, block, &media) {
                        item.surcharge = media_tokens(&media);
                    }
                    item.part = Part::Media(media.into());
                }
            }
        }
        item
    }

    /// Returns true for a medium that the API does not accept, so that only its
    /// description is sent.
    fn is_described(&self, role: Role, block: &Block, media: &Media) -> bool {
        let native = block.native();
        let is_own = native.is_some_and(|native| self.target.accepts(&native.provider));
        let is_sent = is_own || role == Role::Tool && self.holds_media;
        let format = self.target.format.filter(|_| !is_sent);
        format.is_some_and(|format| describes(format, role, media))
    }

    pub(super) fn finish(self, made: Vec<BlockItem>, shorter: Option<Tokens>) -> PreparedTurn {
        let mut items = Vec::with_capacity(made.len());
        let mut unsent = Vec::new();
        let mut messages = Vec::with_capacity(made.len());
        let (mut starts, mut earlier) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut speaks_at = self.speaks.map(|_| usize::MAX);
        for one in made {
            let speaks = self.speaks.is_some_and(|speaks| one.message >= speaks);
            if speaks && one.unsent.is_none() {
                speaks_at = speaks_at.map(|at| at.min(items.len()));
            }
            // A text is cached both as it is and as JSON.
            bytes += 2 * one.text.as_str().len() + extra_bytes(&one.item.part) + 256;
            bytes += one
                .item
                .native
                .as_ref()
                .map_or(0, |native| native.raw.as_str().len());
            match one.unsent {
                None => {
                    // A step whose first blocks are not sent begins with the
                    // next.
                    let is_new = messages.last().is_none_or(|last| *last < one.message);
                    if is_new && self.begins_step(messages.last().copied(), one.message) {
                        starts.push(items.len());
                    }
                    if one.answers_earlier {
                        earlier.push(items.len());
                    }
                    messages.push(one.message);
                    items.push(one.item);
                }
                Some(reason) => unsent.push(UnsentBlock {
                    id: one.item.id,
                    role: one.item.role,
                    message: one.message,
                    reason,
                }),
            }
        }
        PreparedTurn {
            items,
            unsent,
            open: self.open,
            answers: self.answers,
            earlier,
            speaks_at,
            messages,
            starts,
            shorter,
            is_paused: self.is_paused,
            bytes,
        }
    }

    /// Returns true if a step begins after the message `last`, and at the
    /// latest with `message`.
    fn begins_step(&self, last: Option<usize>, message: usize) -> bool {
        let from = last.map_or(0, |last| last + 1);
        self.starts.range(from..=message).next().is_some()
    }
}

/// Leaves out all reasoning of a message if some of it cannot be sent: a
/// provider accepts all of it or none.
fn whole_thinking(made: &mut [BlockItem]) {
    let is_redacted = |one: &BlockItem| match &one.item.part {
        Part::Provider(own) => native::kind(&own.raw) == "redacted_thinking",
        _ => false,
    };
    let is_thinking = |one: &BlockItem| matches!(one.item.part, Part::Thinking { .. });
    let mut thinking = made.iter().filter(|one| is_thinking(one));
    let Some(reason) = thinking.find_map(|one| one.unsent.filter(|_| is_changed(&one.text))) else {
        return;
    };
    for one in made.iter_mut() {
        if is_thinking(one) || is_redacted(one) {
            one.unsent = one.unsent.or(Some(reason));
        }
    }
}

/// Returns an instruction in a provider's own form with another text.
fn masked_instruction(native: &Native, text: &str) -> Option<Native> {
    let whole: Value = serde_json::from_str(native.raw.as_str()).ok()?;
    let made = serde_json::json!({"role": whole.get("role")?, "content": text});
    let raw = RawJson::parse(&made.to_string()).ok()?;
    Some(Native::new(native.provider.as_ref(), raw))
}

fn is_medium(block: &Block) -> bool {
    matches!(
        block,
        Block::Image { .. } | Block::Audio { .. } | Block::Document { .. }
    )
}

/// Returns true for a text without a form of a provider.
fn is_plain_text(block: &Block) -> bool {
    matches!(block, Block::Text { native: None, .. })
}

/// Returns the handle of a block that can be fetched.
fn handle_of(block: &Block) -> Option<Arc<str>> {
    fetchable(block).map(|text| Handle::of(text).short().into())
}

/// Returns true when the guard changed more than can be undone.
fn is_changed(text: &Text) -> bool {
    let kinds = [FindingKind::Secret, FindingKind::Invisible];
    let mut findings = text.findings().iter();
    findings.any(|finding| kinds.contains(&finding.kind))
}

/// Returns the number of bytes of a part besides its text.
fn extra_bytes(part: &Part) -> usize {
    match part {
        Part::Media(media) => match &media.source {
            MediaSource::Data(data) => data.len(),
            MediaSource::Url(url) => url.len(),
        },
        Part::Thinking { signature } => signature.len(),
        Part::Provider(native) => native.raw.as_str().len(),
        _ => 0,
    }
}

/// Returns the name of a tool in a form that a provider accepts. A model may
/// have called a tool that does not exist, by any name; that must not end the
/// conversation.
fn sendable(name: &str, provider: Provider) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_taken = |c: char| is_plain(c) || provider == Provider::Gemini && matches!(c, '.' | ':');
    let mut sent: String = name
        .chars()
        .map(|c| if is_taken(c) { c } else { '_' })
        .take(MAX_NAME)
        .collect();
    if provider == Provider::Gemini && !sent.starts_with(|c: char| c.is_ascii_alphabetic()) {
        sent.insert(0, '_');
        sent.truncate(MAX_NAME);
    }
    sent
}

/// The name of the API that accepts signed reasoning.
const ANTHROPIC: &str = "anthropic";

/// The number of bytes of a block's own form, beyond its text, that count as
/// one token.
const BYTES_PER_TOKEN: Tokens = 4;

/// The longest name of a tool.
const MAX_NAME: usize = 64;
