//! [`CachedConversation`]: finds what a provider's request adds to a session,
//! without reading again what the request before already had.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_core::cache::Cache;
use contexture_engine::{Cause, Error};
use contexture_history::{LatestMessages, Sessions, make_ids_unique};
use contexture_providers::native::{self, Api, NativeRequest, ParsedRequest, RequestEnd};
use contexture_store::{Block, Message, MessageRole, Session, TurnId};

use super::{ends_with_model, follows_stored, read};

/// The number of messages of the previous request that are read again. An API
/// may write one of our messages as several of its own.
const READ_AGAIN: usize = 32;

/// The remedy for messages that do not continue a session.
const ANOTHER: &str =
    "name another session for a conversation that was edited, shortened or begun again";

/// Returns the beginning of what a message says.
fn beginning(message: &Message) -> String {
    const SHOWN: usize = 48;
    let blocks = message.blocks();
    let words = blocks.iter().find_map(|block| match &**block {
        Block::Text { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
        Block::ToolCall { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let words: Vec<&str> = words.unwrap_or_default().split_whitespace().collect();
    words.join(" ").chars().take(SHOWN).collect()
}

/// The conversations of sessions that were made to fit, by the session's name.
#[derive(Debug, Default)]
pub(crate) struct ConversationCache(Cache<String, Arc<Mutex<CachedConversation>>>);

impl ConversationCache {
    /// Returns the cached state of a session. Calls at the same time share it, so
    /// that one waits for the other.
    pub(super) fn of(&self, label: &str) -> Arc<Mutex<CachedConversation>> {
        let label = label.to_owned();
        if let Some(known) = self.0.get(&label) {
            return known;
        }
        let known = Arc::<Mutex<CachedConversation>>::default();
        let bytes = label.len() + size_of::<CachedConversation>();
        self.0.insert(label, Arc::clone(&known), bytes);
        known
    }

    /// Caches the state of a session.
    pub(super) fn keep(&self, label: &str, known: &Arc<Mutex<CachedConversation>>) {
        let bytes = locked(known)
            .request
            .as_ref()
            .map_or(0, ParsedRequest::bytes);
        self.0.insert(label.to_owned(), Arc::clone(known), bytes);
    }
}

/// Locks the cached state of a session. It stays valid if a thread that held
/// the lock panicked, because it is a copy of what was read.
pub(super) fn locked(known: &Mutex<CachedConversation>) -> MutexGuard<'_, CachedConversation> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cached state of a session: its latest messages, and the latest request.
#[derive(Debug, Default)]
pub(super) struct CachedConversation {
    latest: LatestMessages,
    request: Option<ParsedRequest>,
    // Whether the session has earlier messages that the latest request did not have.
    is_shorter: bool,
    // Whether the session ends with the messages of the latest request.
    is_recorded: bool,
}

/// A request that continues a session.
pub(super) struct Continuation<'b> {
    /// The request, or its end.
    pub(super) body: Cow<'b, [u8]>,
    /// The content of the body, without messages.
    pub(super) native: NativeRequest,
    /// The messages that the session does not have.
    pub(super) new: Vec<Message>,
    /// Whether the request ends with the model's message.
    pub(super) ends_with_model: bool,
    /// Whether the session has earlier messages that the request does not have.
    pub(super) is_shorter: bool,
}

impl<'b> Continuation<'b> {
    /// Returns the continuation whose messages from `first` on are new.
    ///
    /// Fails for a request that follows messages that the provider stores.
    fn new(
        body: Cow<'b, [u8]>,
        mut native: NativeRequest,
        first: usize,
        is_shorter: bool,
    ) -> Result<Self, Error> {
        if follows_stored(&native) {
            return Err(Error::input(
                "the request has `previous_response_id` or `conversation`, so that the session \
                 would not have the whole conversation",
            )
            .at("session")
            .advise("fit the request without a session"));
        }
        let ends_with_model = ends_with_model(&native.messages);
        let new = native.messages.split_off(first);
        native.messages.clear();
        Ok(Self {
            body,
            native,
            new,
            ends_with_model,
            is_shorter,
        })
    }
}

impl CachedConversation {
    /// Reads the first request of a session.
    pub(super) fn first<'b>(
        &mut self,
        body: &'b [u8],
        apis: &[Api],
    ) -> Result<Continuation<'b>, Error> {
        let native = read(body, apis)?;
        self.request = ParsedRequest::new(body, native.api);
        (self.is_shorter, self.is_recorded) = (false, false);
        Continuation::new(Cow::Borrowed(body), native, 0, false)
    }

    /// Reads a request, and finds the messages of it that the session does not
    /// have.
    pub(super) fn read<'b>(
        &mut self,
        sessions: Sessions<'_>,
        session: &Session,
        body: &'b [u8],
        apis: &[Api],
    ) -> Result<Continuation<'b>, Error> {
        if !self.latest.is_current(session) {
            self.latest = sessions.latest_messages(session)?;
            self.is_recorded = false;
        }
        if let Some((end, native, first)) = self.read_end(body, apis) {
            let mut known = self.request.take();
            let is_known = known
                .as_mut()
                .is_some_and(|known| known.replace(body, &end));
            self.request = known.filter(|_| is_known);
            self.is_recorded = false;
            return Continuation::new(Cow::Owned(end.body), native, first, self.is_shorter);
        }
        let native = read(body, apis)?;
        self.request = ParsedRequest::new(body, native.api);
        self.is_recorded = false;
        let agreement = sessions.agreement(session, &self.latest, &native.messages)?;
        let Some(agreement) = agreement else {
            let label = &session.label;
            return Err(Error::input(format!(
                "the messages do not continue session `{label}`: they do not have its latest messages"
            ))
            .because(Cause::Conflict)
            .advise(ANOTHER));
        };
        let first = agreement.first_new;
        let known = &native.messages[..first];
        self.is_shorter = agreement.is_shorter;
        if let Some(at) = agreement.unknown {
            self.request = None;
            let label = &session.label;
            let beginning = beginning(&known[at]);
            return Err(Error::input(format!(
                "the messages do not continue session `{label}`: it does not have the {} message \
                 that begins with `{beginning}`",
                known[at].role.name()
            ))
            .because(Cause::Conflict)
            .advise(ANOTHER));
        }
        Continuation::new(Cow::Borrowed(body), native, first, self.is_shorter)
    }

    /// Notes that the messages of the latest request were recorded: the turn `head` has
    /// those that were new.
    pub(super) fn recorded(&mut self, head: TurnId, new: &[Message]) {
        self.latest.extend(Some(head), new);
        self.is_recorded = true;
    }

    /// Notes that the session has all messages of the latest request.
    pub(super) fn had_all(&mut self) {
        self.is_recorded = true;
    }

    /// Reads the end of a request that begins like the previous one, and finds
    /// its first message that the session does not have. Returns `None` if the
    /// whole request must be read.
    fn read_end(&self, body: &[u8], apis: &[Api]) -> Option<(RequestEnd, NativeRequest, usize)> {
        let request = self.request.as_ref()?;
        let api = request.api();
        if !apis.contains(&api) {
            return None;
        }
        // The same request again, for example a retry.
        if self.is_recorded
            && let Some(end) = request.end_of_same(body)
            && let Ok(native) = native::read_request(&end.body, &[api])
            && !native.messages.is_empty()
        {
            let first = native.messages.len();
            return Some((end, native, first));
        }
        if self.is_recorded
            && let Some(end) = request.added_in(body)
            && let Ok(mut native) = native::read_request(&end.body, &[api])
            // A blank answer is no message, and what follows it may belong to an earlier one.
            && (native.messages.first()).is_some_and(|it| it.role == MessageRole::Assistant)
        {
            make_ids_unique(&mut native.messages);
            return Some((end, native, 0));
        }
        let end = request.end_of(body, READ_AGAIN)?;
        let mut native = native::read_request(&end.body, &[api]).ok()?;
        make_ids_unique(&mut native.messages);
        let first = self.latest.first_new_in_end(&native.messages)?;
        Some((end, native, first))
    }
}
