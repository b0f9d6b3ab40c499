//! The current message of a request, which becomes a part of history.
//!
//! A request's current message is more than the event: the time, the sender,
//! attachments, hooks, and what was recalled for it. When the answer is
//! recorded, the turn stores these blocks as they were sent. History shows them
//! instead of the user's messages that the turn begins with, so that the next
//! request begins with the bytes of this one.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_core::guard::{self, Policy};
use contexture_core::{Cut, Item, Part, Role, Text, Trust, markup};
use contexture_engine::snapshot::CurrentMessage;
use contexture_providers::media_tokens;
use contexture_store::{Block, Message, MessageRole, NewTurn, SentBlock};

/// Returns the index of the first message of the model.
fn first_answer(turn: &NewTurn) -> Option<usize> {
    let is_answer = |message: &Message| message.role == MessageRole::Assistant;
    turn.messages.iter().position(is_answer)
}

/// Returns true if the sent message replaces this block of `message` in
/// history, when the turn stores the sent message: the user wrote it before the
/// model answered.
pub(crate) fn is_replaced(turn: &NewTurn, message: usize, block: &Block) -> bool {
    let said = matches!(
        block,
        Block::Text { .. } | Block::Image { .. } | Block::Audio { .. } | Block::Document { .. }
    );
    let is_before = first_answer(turn).is_none_or(|answer| message < answer);
    said && is_before && turn.messages[message].role == MessageRole::User
}

/// Returns the message that the sent blocks replace, or precede.
pub(crate) fn position(turn: &NewTurn) -> Option<usize> {
    let said = |at: &usize| {
        let blocks = turn.messages[*at].blocks();
        blocks.iter().any(|block| is_replaced(turn, *at, block))
    };
    let messages = 0..turn.messages.len();
    messages.into_iter().find(said).or(first_answer(turn))
}

/// Returns the blocks that a turn stores if it answers the request with this
/// current message: the message contains the user's text of the turn.
pub(crate) fn sent_with(
    turn: &NewTurn,
    current: &CurrentMessage,
    policy: Policy,
) -> Option<Vec<SentBlock>> {
    position(turn)?;
    let is_known = |part: &Part| matches!(part, Part::Text | Part::Media(_));
    let all_known = current.blocks.iter().all(|block| is_known(&block.part));
    if current.blocks.is_empty() || !all_known || !has_same_text(turn, current, policy) {
        return None;
    }
    let sent = current.blocks.iter().map(|block| SentBlock {
        id: block.id.to_string(),
        role: block.role,
        trust: block.trust,
        path: block.path.as_deref().map(str::to_owned),
        join: block.join,
        text: block.text().to_owned(),
        media: match &block.part {
            Part::Media(media) => Some((**media).clone()),
            _ => None,
        },
    });
    Some(sent.collect())
}

/// Returns true if the user's text in a turn is the text that was sent: block
/// by block, or as a provider's request holds it.
fn has_same_text(turn: &NewTurn, current: &CurrentMessage, policy: Policy) -> bool {
    let mut texts = Vec::new();
    let mut media = Vec::new();
    for (m, message) in turn.messages.iter().enumerate() {
        for block in message.blocks().iter() {
            if !is_replaced(turn, m, block) {
                continue;
            }
            match &**block {
                Block::Text { text, .. } if text.trim().is_empty() => {}
                Block::Text { text, .. } => {
                    texts.push(guard::visible(text.trim_end(), policy).into_owned());
                }
                other => media.extend(other.media()),
            }
        }
    }
    let sent = || current.blocks.iter();
    let has_media = |media| {
        let mut sent = sent();
        sent.any(|block| matches!(&block.part, Part::Media(sent) if **sent == media))
    };
    if !media.into_iter().all(has_media) {
        return false;
    }
    let of_blocks: BTreeSet<&str> = sent().map(|block| block.text().trim_end()).collect();
    if texts.iter().all(|text| of_blocks.contains(text.as_str())) {
        return true;
    }
    let mut written = String::new();
    for block in sent().filter(|block| block.part == Part::Text) {
        match markup::is_tagged(block.role, &block.part) {
            true => markup::write_block(&mut written, block, current.mark),
            false => written.push_str(block.text()),
        }
    }
    let letters = |text: &str| -> String { text.split_whitespace().collect() };
    letters(&texts.concat()) == letters(&written)
}

/// Returns the items of the blocks that a turn stores. `name` is the name of
/// the turn, and `message` the index of the message in which they are shown.
pub(crate) fn items(
    sent: &[SentBlock],
    name: &str,
    message: usize,
    policy: Policy,
) -> Vec<(Item, Text)> {
    let mut ids = BTreeSet::new();
    let item = |block: &SentBlock| {
        let mut id = format!("{name}/{message}:{}", block.id);
        while !ids.insert(id.clone()) {
            id.push('~');
        }
        let text = Text::guarded(&block.text, policy);
        let mut item = Item::new(id, block.role, text.clone()).join(block.join);
        item.trust = block.trust;
        item.path = block.path.as_deref().map(Arc::from);
        // If the latest turn alone is too large, a part of it is better than
        // nothing.
        item.cut = Cut::Middle;
        if let Some(media) = &block.media {
            item.cut = Cut::Never;
            item.surcharge = media_tokens(media);
            item.part = Part::Media(media.clone().into());
        }
        (item, text)
    };
    sent.iter().map(item).collect()
}

/// Returns the user's texts in the stored blocks of a turn that are not in its
/// messages.
pub(crate) fn unrecorded_words(turn: &NewTurn) -> impl Iterator<Item = &str> {
    let answer = first_answer(turn);
    let is_missing = answer.is_some() && position(turn) == answer;
    let sent = turn.sent.iter().filter(move |_| is_missing);
    let said = sent.filter(|block| block.role == Role::User && block.trust == Trust::User);
    said.filter(|block| block.media.is_none())
        .map(|block| block.text.as_str())
}
