//! Places Anthropic's cache marks (`cache_control`), at most four per request,
//! and OpenAI's breakpoints (`prompt_cache_breakpoint`), at most three.
//!
//! A mark caches everything before it. A later request hits the cache if it has a
//! mark at the same position, or up to about twenty blocks after it.

use contexture_core::Section;

use crate::conversation::{Content, Conversation, Piece, Speaker};

/// The maximum number of marks that the API accepts.
pub const MOST_MARKS: usize = 4;

/// The number of blocks before a mark in which the API searches for a cached
/// prefix.
const LOOK_BACK: usize = 20;

/// The positions of the cache marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The index of the tool.
    pub(crate) tool: Option<usize>,
    /// The index of the operator's text.
    pub(crate) system: Option<usize>,
    /// The indices of messages and their pieces.
    pub(crate) pieces: Vec<(usize, usize)>,
}

impl Marks {
    /// Returns the positions at which a mark saves the most.
    pub(crate) fn of(conversation: &Conversation<'_>) -> Self {
        let tools = &conversation.tools;
        let system = &conversation.system;
        let stable_tools = tools.iter().take_while(|tool| !tool.volatile).count();
        let stable_system = system.iter().take_while(|text| !text.volatile).count();
        let mut marks = Marks::default();
        // Nothing after content that changes with every request can be cached.
        if stable_tools < tools.len() {
            marks.tool = stable_tools.checked_sub(1);
            return marks;
        }
        marks.system = stable_system.checked_sub(1);
        if marks.system.is_none() {
            marks.tool = stable_tools.checked_sub(1);
        }
        if stable_system < system.len() {
            return marks;
        }
        let fixed = usize::from(marks.system.is_some() || marks.tool.is_some());
        marks.pieces = in_messages(conversation, MOST_MARKS - fixed);
        marks
    }
}

/// The maximum number of breakpoints that OpenAI accepts besides the one that
/// it sets itself, at the end of the request.
const MOST_BREAKPOINTS: usize = 3;

/// Returns the positions of OpenAI's breakpoints, as message and piece: after
/// the latest texts of the user that do not change with every request. OpenAI
/// finds the cache of an earlier request if this one has a breakpoint at the
/// same position.
///
/// With `joins`, a message of several texts is written differently with a
/// breakpoint and without: it gets none, because the next request would not
/// have the same beginning.
pub(crate) fn breakpoints(conversation: &Conversation<'_>, joins: bool) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    let mut is_all_stable = true;
    let is_text = |piece: &Piece<'_>| matches!(piece.content, Content::Text(_));
    'messages: for (m, message) in conversation.messages.iter().enumerate() {
        let texts = message.pieces.iter().filter(|piece| is_text(piece)).count();
        for (p, piece) in message.pieces.iter().enumerate() {
            if piece.volatile {
                is_all_stable = false;
                break 'messages;
            }
            let is_user = message.speaker == Speaker::User && piece.native.is_none();
            if is_user && is_text(piece) && (texts == 1 || !joins) {
                places.push((m, p));
            }
        }
    }
    // Nothing after content that changes with every request can be cached.
    let is_stable = conversation.tools.iter().all(|tool| !tool.volatile)
        && conversation.system.iter().all(|text| !text.volatile);
    // OpenAI's own breakpoint is at the end: it is enough where all is stable, and
    // the texts of messages stay plain strings.
    if !is_stable || joins && is_all_stable {
        places.clear();
    }
    places.split_off(places.len().saturating_sub(MOST_BREAKPOINTS))
}

/// A piece with its message and its place there.
type Placed<'c, 'a> = (usize, usize, &'c Piece<'a>);

fn in_messages(conversation: &Conversation<'_>, most: usize) -> Vec<(usize, usize)> {
    let placed: Vec<Placed<'_, '_>> = conversation
        .messages
        .iter()
        .enumerate()
        .flat_map(|(m, message)| {
            message
                .pieces
                .iter()
                .enumerate()
                .map(move |(p, piece)| (m, p, piece))
        })
        .take_while(|(_, _, piece)| !piece.volatile)
        .collect();
    let mut places: Vec<usize> = Vec::new();
    let mut add = |at: Option<usize>| {
        let is_markable = |at: &usize| {
            !matches!(
                placed[*at].2.content,
                Content::Thinking { .. } | Content::Provider(_)
            )
        };
        let at = at.and_then(|at| (0..=at).rev().find(is_markable));
        if let Some(at) = at
            && !places.contains(&at)
            && places.len() < most
        {
            places.push(at);
        }
    };
    let history_end = placed
        .iter()
        .rposition(|(_, _, piece)| piece.section != Section::Current);
    if let Some(end) = history_end {
        let start = last_group(conversation, &placed[..=end]);
        add(start.checked_sub(1));
        add(Some(end));
        add(placed.len().checked_sub(1));
        let size = end + 1 - start;
        if size > LOOK_BACK {
            add(Some(start + size / 2));
        }
    } else {
        add(placed.len().checked_sub(1));
    }
    places.sort_unstable();
    let place = |at: usize| (placed[at].0, placed[at].1);
    places.into_iter().map(place).collect()
}

/// Returns the start of the last group, which the previous request did not
/// have. Without groups, it is assumed to begin with the user's last message.
fn last_group(conversation: &Conversation<'_>, history: &[Placed<'_, '_>]) -> usize {
    if let Some(group) = history.last().and_then(|(_, _, piece)| piece.group) {
        let behind = |(_, _, piece): &&Placed<'_, '_>| piece.group == Some(group);
        return history.len() - history.iter().rev().take_while(behind).count();
    }
    let begins = |(m, p, piece): &Placed<'_, '_>| {
        *p == 0
            && conversation.messages[*m].speaker == Speaker::User
            && !matches!(piece.content, Content::Result(_))
    };
    history.iter().rposition(begins).unwrap_or(0)
}
