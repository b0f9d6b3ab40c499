//! Compares two requests: the first difference, and the effect on the
//! provider's cache.

use std::sync::{Arc, PoisonError};

use contexture_core::guard::Mark;
use contexture_core::{
    Block, ContentHash, Layout, Role, Section, TokenCounter, Tokens, Usage, markup,
};
use contexture_store::Snapshots;
use serde::Serialize;

use super::{Entry, Saved, SavedFields, SavedPart};
use crate::cache::{CacheCause, CacheReport, CacheTerms, Difference, Sharing};
use crate::error::Error;

/// The differences between two requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotDifference"))]
pub struct Comparison {
    /// The common beginning of both requests.
    pub cache: CacheReport,
    /// The usage that the provider reported for the later request. Null if it
    /// was not recorded.
    pub usage: Option<Usage>,
    /// The number of tokens of the later request.
    pub tokens: Tokens,
    /// The blocks that differ.
    pub changes: Vec<Change>,
}

/// A block that differs between two requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "BlockChange"))]
pub struct Change {
    /// The layer of the block.
    pub layer: Arc<str>,
    /// The id of the block.
    pub id: Arc<str>,
    /// The number of tokens of the block.
    pub tokens: Tokens,
    /// The content in the earlier request. Null if the block is new.
    pub before: Option<String>,
    /// The content in the later request. Null if the block was removed.
    pub now: Option<String>,
}

impl Change {
    /// Returns the change from one block to another, one of which may be absent.
    pub(crate) fn between(before: Option<&Block>, now: Option<&Block>) -> Self {
        let named = now.or(before);
        let text = |block: &Block| block.body().to_owned();
        Self {
            layer: named.map_or_else(|| "".into(), |block| Arc::clone(&block.layer)),
            id: named.map_or_else(|| "".into(), |block| Arc::clone(&block.id)),
            tokens: named.map_or(0, |block| block.tokens),
            before: before.map(text),
            now: now.map(text),
        }
    }

    pub(super) fn of(entry: &Entry, before: Option<String>, now: Option<String>) -> Self {
        Self {
            layer: Arc::clone(&entry.layer),
            id: Arc::clone(&entry.id),
            tokens: entry.tokens,
            before,
            now,
        }
    }
}

impl Saved {
    /// Compares `self` with the previous request, and returns its use of the
    /// provider's cache under `terms`. `layout` is the content of `self`;
    /// without it, the one block that is needed is read from the store.
    pub fn compare(
        &self,
        store: &dyn Snapshots,
        previous: &Saved,
        counter: &dyn TokenCounter,
        terms: &CacheTerms,
        layout: Option<&Layout>,
    ) -> Result<CacheReport, Error> {
        let standing = previous.standing();
        let given = |saved: &Saved| saved.settings.given.as_ref().map_or(0, SavedFields::tokens);
        let sharing = Sharing {
            total: self.tokens(),
            stable: tokens(self.stable()) + given(self),
            standing: tokens(standing) + given(previous),
            kept: 0,
            change: Some(CacheCause::Model),
            elapsed: self.made_at.duration_since(previous.made_at),
        };
        if self.settings.model != previous.settings.model {
            // No provider shares a cache between models.
            let difference = Difference {
                layer: "model".into(),
                item: self.settings.model.as_str().into(),
                byte: 0,
            };
            let hash = previous.hash.to_string();
            return Ok(CacheReport::new(hash, 0, Some(difference), &sharing, terms));
        }
        let hash = || previous.hash.to_string();
        if let Some((cause, kept, difference)) = self.given_change(previous) {
            let sharing = Sharing {
                kept,
                change: Some(cause),
                ..sharing
            };
            let difference = Some(difference);
            return Ok(CacheReport::new(hash(), kept, difference, &sharing, terms));
        }
        let (equal, shared_tokens, first_difference) =
            self.common(store, previous, counter, layout)?;
        let shared_tokens = shared_tokens + given(self);
        let change = if !self.tools().eq(previous.tools()) {
            Some(CacheCause::Tools)
        } else if equal >= standing.len() {
            None
        } else {
            let lost = &standing[equal];
            let is_gone = || !self.entries.iter().any(|entry| entry.id == lost.id);
            match lost.section == Section::History && is_gone() {
                true => Some(CacheCause::Compaction),
                false => Some(CacheCause::Edit),
            }
        };
        let sharing = Sharing {
            kept: match change {
                Some(_) => shared_tokens.min(sharing.standing),
                None => sharing.standing,
            },
            change,
            ..sharing
        };
        Ok(CacheReport::new(
            hash(),
            shared_tokens,
            first_difference,
            &sharing,
            terms,
        ))
    }

    /// Returns the first change in the fields that were given around the
    /// conversation: its cause, the tokens before it, and where it is. Providers read
    /// the tools first, and then the instructions.
    fn given_change(&self, previous: &Saved) -> Option<(CacheCause, Tokens, Difference)> {
        let difference = |name: &str| Difference {
            layer: name.into(),
            item: name.into(),
            byte: 0,
        };
        match (&self.settings.given, &previous.settings.given) {
            (Some(now), Some(before)) if now.tools.hash != before.tools.hash => {
                Some((CacheCause::Tools, 0, difference("tools")))
            }
            (Some(now), Some(before)) if now.system.hash != before.system.hash => {
                Some((CacheCause::Edit, now.tools.tokens, difference("system")))
            }
            _ => None,
        }
    }

    /// Returns the blocks before the first volatile one.
    fn stable(&self) -> &[Entry] {
        let is_volatile = |entry: &Entry| entry.volatile;
        let end = self.entries.iter().position(is_volatile);
        &self.entries[..end.unwrap_or(self.entries.len())]
    }

    /// Returns the blocks that the next request should begin with: the stable
    /// ones before the current message.
    fn standing(&self) -> &[Entry] {
        let stable = self.stable();
        let is_current = |entry: &Entry| entry.section == Section::Current;
        let end = stable.iter().position(is_current);
        &stable[..end.unwrap_or(stable.len())]
    }

    /// Returns the definitions of tools, in order.
    fn tools(&self) -> impl Iterator<Item = (&SavedPart, ContentHash)> {
        let is_tool = |entry: &&Entry| matches!(entry.part, SavedPart::Tool { .. });
        let tools = self.entries.iter().filter(is_tool);
        tools.map(|entry| (&entry.part, entry.body))
    }

    /// Returns the number of blocks and tokens that two requests for one model
    /// have in common at the start, and the position of the first difference.
    fn common(
        &self,
        store: &dyn Snapshots,
        previous: &Saved,
        counter: &dyn TokenCounter,
        layout: Option<&Layout>,
    ) -> Result<(usize, Tokens, Option<Difference>), Error> {
        let bare = self.is_document();
        let same = |at: &usize| {
            let (a, b) = (&self.entries[*at], &previous.entries[*at]);
            a.role == b.role
                && a.path == b.path
                && a.part == b.part
                && a.body == b.body
                && is_joined(&self.entries, *at) == is_joined(&previous.entries, *at)
        };
        let both = self.entries.len().min(previous.entries.len());
        let mark = self.settings.mark;
        let is_alike = bare == previous.is_document() && mark == previous.settings.mark;
        let equal = match is_alike {
            true => (0..both).take_while(same).count(),
            false => 0,
        };
        let mut shared_tokens = tokens(&self.entries[..equal]);
        let mut byte = self.start_of(equal, previous, bare, mark);
        let (now, before) = (self.entries.get(equal), previous.entries.get(equal));
        let own = match (now, layout) {
            (_, Some(layout)) => {
                let own = layout.blocks().nth(equal).map_or("", Block::body);
                self.from(equal, own.as_bytes())
            }
            (Some(now), None) => self.from(equal, &self.bodies(store, &[now.body])?[0]),
            (None, None) => self.from(equal, b""),
        };
        let other = match before {
            Some(before) => {
                let known = previous.new.iter().find(|(hash, _)| *hash == before.body);
                match known {
                    Some((_, body)) => previous.from(equal, body.as_bytes()),
                    None => previous.from(equal, &previous.bodies(store, &[before.body])?[0]),
                }
            }
            None => previous.from(equal, b""),
        };
        if let (Some(now), Some(_)) = (now, before) {
            let (close, open) = lead(&self.entries, equal, bare, mark);
            let common = if own == other {
                // The blocks differ only outside their text, so the difference
                // is placed at the start of the text.
                close.len() + open.len()
            } else {
                common_prefix(&own, &other)
            };
            byte += common as u64;
            // The last token may extend beyond the shared text.
            let head = String::from_utf8_lossy(own[..common].get(close.len()..).unwrap_or(b""));
            let within = counter.count(&head).saturating_sub(1);
            shared_tokens += within.min(now.tokens);
        } else if now.is_some() != before.is_some() {
            byte += common_prefix(&own, &other) as u64;
        }
        let first_difference = now.or(before).map(|entry| Difference {
            layer: Arc::clone(&entry.layer),
            item: Arc::clone(&entry.id),
            byte,
        });
        Ok((equal, shared_tokens, first_difference))
    }

    /// Returns the byte of the text form at which the text of the block at `equal`
    /// starts, without the tags before it. All blocks before it are the same in the
    /// previous request, so that the bytes that are known of that one hold.
    fn start_of(&self, equal: usize, previous: &Saved, bare: bool, mark: Mark) -> u64 {
        let known = previous
            .starts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut starts: Vec<u64> = known.iter().take(equal + 1).copied().collect();
        drop(known);
        if starts.is_empty() {
            starts.push(0);
        }
        for at in starts.len() - 1..equal {
            let (close, open) = lead(&self.entries, at, bare, mark);
            let bytes = (close.len() + open.len()) as u64 + shown_bytes(&self.entries[at]);
            starts.push(starts[at] + bytes);
        }
        let start = starts[equal];
        *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = starts;
        start
    }

    fn is_document(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.role == Role::Document)
    }

    /// Returns the text form from the end of the previous block's text: the
    /// block at `at`, whose text is `body`, or the end of the request.
    fn from(&self, at: usize, body: &[u8]) -> Vec<u8> {
        let bare = self.is_document();
        let mark = self.settings.mark;
        let Some(entry) = self.entries.get(at) else {
            let last = at.checked_sub(1).and_then(|at| self.entries.get(at));
            let end = last.map_or_else(String::new, |last| ending(last, bare, mark));
            // No blank line follows the last block.
            return end.strip_suffix('\n').unwrap_or(&end).into();
        };
        let (close, open) = lead(&self.entries, at, bare, mark);
        let shown = usize::try_from(shown_bytes(entry)).unwrap_or(usize::MAX);
        let body = &body[..shown.min(body.len())];
        // One text may end where the other contains the same characters as
        // content.
        [
            close.as_bytes(),
            open.as_bytes(),
            body,
            ending(entry, bare, mark).as_bytes(),
        ]
        .concat()
    }
}

fn tokens(entries: &[Entry]) -> Tokens {
    entries.iter().map(|entry| entry.tokens).sum()
}

fn open_tag(entry: &Entry, mark: Mark) -> String {
    let part = entry.part.shown();
    markup::open(entry.role, entry.path.as_deref(), &part, Some(mark))
}

/// Returns true if the block at `at` continues inside the tags of the one
/// before it.
fn is_joined(entries: &[Entry], at: usize) -> bool {
    at > 0 && entries[at].joins(&entries[at - 1])
}

/// Returns the text between the previous block's text and that of the block at
/// `at`: the end of the previous block, and the beginning of this one.
fn lead(entries: &[Entry], at: usize, bare: bool, mark: Mark) -> (String, String) {
    let entry = &entries[at];
    let before = at.checked_sub(1).map(|at| &entries[at]);
    let is_bare = bare && entry.role <= Role::Developer;
    if !is_bare && is_joined(entries, at) {
        return (String::new(), "\n".to_owned());
    }
    let open = if is_bare {
        String::new()
    } else {
        open_tag(entry, mark)
    };
    let close = before.map_or_else(String::new, |before| ending(before, bare, mark));
    (close, open)
}

/// Returns the text after the last block of a run.
fn ending(entry: &Entry, bare: bool, mark: Mark) -> String {
    match bare && entry.role <= Role::Developer {
        true => markup::close(Role::Header, None),
        false => markup::close(entry.role, Some(mark)),
    }
}

/// Returns the number of bytes of a block's text in the text form. A part of a
/// document has no line end after it.
fn shown_bytes(entry: &Entry) -> u64 {
    entry.bytes - u64::from(entry.role == Role::Document)
}

/// Returns the number of bytes that two texts have in common at their start, up
/// to a character boundary of UTF-8.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    while common > 0 && common < a.len() && a[common] & 0xC0 == 0x80 {
        common -= 1;
    }
    common
}
