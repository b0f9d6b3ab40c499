//! [`TokenCounter`], the trait of a tokenizer, and [`Counts`], a counter that
//! caches its results by content hash.
//!
//! A counter says where it always splits text (`is_seam`); only there may
//! counts of parts be added up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::cache::Cache;
use crate::markup;
use crate::measure::{self, Measured, Size};
use crate::text::{ContentHash, Tags, Text};
use crate::{Content, Item, Part, Role};
use contexture_guard::{Mark, MarkKey};

/// A number of tokens.
pub type Tokens = u64;

/// Counts tokens as one model's tokenizer does, or estimates them.
///
/// `count` must be deterministic. The other methods have defaults that are
/// correct for any counter; override them where a counter can do better.
pub trait TokenCounter: Send + Sync {
    /// Returns the name shown in reports, such as `o200k_base`.
    fn name(&self) -> &str;

    /// Returns a unique name of the counter, for stored counts.
    fn identity(&self) -> &str {
        self.name()
    }

    /// Returns false if the counts are estimates.
    fn is_exact(&self) -> bool;

    /// Returns the number of tokens of `text`.
    fn count(&self, text: &str) -> Tokens;

    /// Returns the number of tokens of `text` unless it exceeds `limit`.
    ///
    /// A counter that can stop early does so: the cost depends on `limit`, not
    /// on the length of `text`.
    fn count_up_to(&self, text: &str, limit: Tokens) -> Option<Tokens> {
        Some(self.count(text)).filter(|&n| n <= limit)
    }

    /// Returns the length of the longest token in bytes, or `None` if it is
    /// unknown.
    ///
    /// A text of `n` bytes then has at least `n / longest_token` tokens, which
    /// lets large candidates be dropped without reading them.
    fn longest_token(&self) -> Option<u64> {
        None
    }

    /// Returns a number that the tokens of `text` are never below, without
    /// counting them. The cost is small compared with a count.
    fn lower_bound(&self, text: &str) -> Tokens {
        let longest = self.longest_token().filter(|longest| *longest > 0);
        longest.map_or(0, |longest| text.len() as Tokens / longest)
    }

    /// Returns a number that the tokens of a text are never below. `json` is the text
    /// with the escapes of JSON, without quotes.
    fn lower_bound_in_json(&self, json: &str) -> Tokens {
        const LONGEST_ESCAPE: Tokens = 6;
        let longest = self.longest_token().filter(|longest| *longest > 0);
        let bytes = json.len() as Tokens / LONGEST_ESCAPE;
        longest.map_or(0, |longest| bytes / longest)
    }

    /// Returns true if `before` and `after` can be counted separately, with a
    /// sum that is at least the count of the two joined. `before` ends with a
    /// line end.
    fn is_seam(&self, before: &str, after: &str) -> bool {
        let _ = (before, after);
        true
    }

    /// Returns true when the sum over parts split at seams is never less than
    /// the count of the whole.
    ///
    /// When it may be less, [`assemble`](crate::assemble) counts the finished
    /// request once more and tightens the fit until it holds.
    fn sums_are_bounds(&self) -> bool {
        false
    }

    /// Returns the length in bytes of a long prefix of `text` that counts at
    /// most `limit` tokens; it ends on a character boundary.
    fn prefix_within(&self, text: &str, limit: Tokens) -> usize {
        let len = longest_within(text.len(), limit, |len| {
            let end = text.floor_char_boundary(len);
            self.count_up_to(&text[..end], limit).is_some()
        });
        text.floor_char_boundary(len)
    }

    /// Returns the start in bytes of a long suffix of `text` that counts at
    /// most `limit` tokens; it begins on a character boundary.
    fn suffix_within(&self, text: &str, limit: Tokens) -> usize {
        let len = longest_within(text.len(), limit, |len| {
            let start = text.ceil_char_boundary(text.len() - len);
            self.count_up_to(&text[start..], limit).is_some()
        });
        text.ceil_char_boundary(text.len() - len)
    }
}

/// Returns a large length up to `total` that `fits`.
///
/// The search starts from four bytes per token, which is typical, and doubles,
/// so that the cost depends on `limit` and not on `total`. A precision of 1/64
/// of the length is enough for a cut.
fn longest_within(total: usize, limit: Tokens, fits: impl Fn(usize) -> bool) -> usize {
    let (mut fitting, mut too_long) = (0, total.saturating_add(1));
    let mut guess = usize::try_from(limit)
        .unwrap_or(total)
        .saturating_mul(4)
        .clamp(1, total.max(1));
    while fitting < total && too_long > total {
        if fits(guess) {
            fitting = guess;
            guess = guess.saturating_mul(2).min(total);
        } else {
            too_long = guess;
        }
    }
    while too_long - fitting > 1 + fitting / 64 {
        let middle = fitting + (too_long - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            too_long = middle;
        }
    }
    fitting
}

/// Below this many bytes, a count is cached only with the text, and not by its
/// hash. Such a text is counted in a few microseconds; hashing would add a
/// fifth to that, and most messages are counted only once.
const SHORT_TEXT: usize = 1536;

/// A token counter with a cache of its counts.
///
/// Counts are cached by content hash, so the same text is counted once, however
/// often and under whatever path it is used. Clones share the cache.
#[derive(Clone)]
pub struct Counts {
    shared: Arc<Shared>,
    // The counter without calibration, if that is another one.
    steady: Option<Arc<dyn TokenCounter>>,
    key: Arc<MarkKey>,
    native: bool,
}

struct Shared {
    counter: Arc<dyn TokenCounter>,
    // Distinguishes counters in the memo that texts carry; never reused.
    id: u64,
    measured: Cache<ContentHash, Arc<Measured>>,
    // The tags of plain text, by role, without a mark and with one, and by path
    // if it is shown.
    by_role: [[OnceLock<Wrapper>; 8]; 2],
    by_path: Cache<Arc<str>, Arc<Wrapper>>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Counts {
    /// Returns an empty cache over `counter`, with a publicly known key for
    /// marks: see [`with_key`](Counts::with_key).
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            shared: Arc::new(Shared {
                counter,
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                measured: Cache::new(),
                by_role: Default::default(),
                by_path: Cache::new(),
            }),
            steady: None,
            key: Arc::new(MarkKey::from_text("")),
            native: false,
        }
    }

    /// Returns the same counts with another [steady](Counts::steady) counter.
    pub fn with_steady(self, steady: Arc<dyn TokenCounter>) -> Self {
        Self {
            steady: Some(steady),
            ..self
        }
    }

    /// Returns the counter for content that must not change from request to
    /// request, such as a shortened tool result. Unlike
    /// [`counter`](Counts::counter), it is not calibrated by the counts of
    /// providers.
    pub fn steady(&self) -> &dyn TokenCounter {
        self.steady.as_deref().unwrap_or(self.counter())
    }

    /// Returns the same counts for requests whose boundary marks are derived
    /// from `key`.
    pub fn with_key(&self, key: MarkKey) -> Self {
        Self {
            key: Arc::new(key),
            ..self.clone()
        }
    }

    /// Returns the same counts for requests in a provider's own form, where
    /// messages have no tags: a message is charged what unmarked tags would
    /// cost, which covers what a provider adds around it. Only blocks that are
    /// [tagged](markup::is_tagged) in every form are charged with a mark.
    pub fn native(&self) -> Self {
        Self {
            native: true,
            ..self.clone()
        }
    }

    /// Returns the counter itself.
    pub fn counter(&self) -> &dyn TokenCounter {
        &*self.shared.counter
    }

    /// Returns the key that boundary marks are derived from.
    pub fn key(&self) -> &MarkKey {
        &self.key
    }

    /// Returns true when the tags of such a block are charged with a mark.
    fn is_marked(&self, role: Role, part: &Part) -> bool {
        !self.native || markup::is_tagged(role, part)
    }

    /// Returns the token counts of `text`, piece by piece, up to `limit`.
    pub(crate) fn measure(&self, text: &Text, limit: Tokens) -> Arc<Measured> {
        if let Some(known) = text.memo(self.shared.id)
            && known.covers(limit)
        {
            return known;
        }
        if text.body().len() < SHORT_TEXT {
            let measured = Arc::new(Measured::new(text.body(), self.counter(), limit));
            text.remember(self.shared.id, Arc::clone(&measured));
            return measured;
        }
        if let Some(known) = self.shared.measured.get(&text.hash())
            && known.covers(limit)
        {
            text.remember(self.shared.id, Arc::clone(&known));
            return known;
        }
        let measured = Arc::new(Measured::new(text.body(), self.counter(), limit));
        text.remember(self.shared.id, Arc::clone(&measured));
        self.shared
            .measured
            .insert(text.hash(), Arc::clone(&measured), measured.bytes());
        measured
    }

    /// Counts `text` up to `limit` and caches the result for a later
    /// [`assemble`](crate::assemble). Safe to call from several threads.
    pub fn warm(&self, text: &Text, limit: Tokens) {
        self.measure(text, limit);
    }

    /// Sets the count of `text`, which was counted and stored before. The
    /// number must be a result of [`count_of`](Counts::count_of).
    pub fn know(&self, text: &Text, tokens: Tokens) {
        let measured = Measured::known(text.body().len(), tokens);
        text.remember(self.shared.id, Arc::new(measured));
    }

    /// Returns the tokens of `text` between its tags, to be stored with it.
    pub fn count_of(&self, text: &Text) -> Tokens {
        if let Some(total) = text.total(self.shared.id) {
            return total;
        }
        let measured = self.measure(text, Tokens::MAX);
        measured.within(Tokens::MAX).size(text.body()).tokens
    }

    /// Returns the size of a text, counted up to `limit`.
    pub(crate) fn size(&self, text: &Text, limit: Tokens) -> Size {
        match text.total(self.shared.id) {
            Some(tokens) if tokens <= limit => Size {
                tokens,
                exact: true,
            },
            _ => self.measure(text, limit).within(limit).size(text.body()),
        }
    }

    /// Returns the tokens of `text` with a blank line after it. The result is
    /// cached with the text: the last line of a group is counted so in every
    /// block that it is part of.
    pub(crate) fn count_spaced(&self, text: &Text) -> Tokens {
        let measured = self.measure(text, Tokens::MAX);
        measured.spaced(|| self.counter().count(&format!("{}\n", text.body())))
    }

    /// Returns the counts of `text` piece by piece, even if only its total was
    /// [known](Counts::know).
    pub(crate) fn measure_pieces(&self, text: &Text, limit: Tokens) -> Arc<Measured> {
        let measured = self.measure(text, limit);
        if measured.has_pieces() {
            return measured;
        }
        let measured = Arc::new(Measured::new(text.body(), self.counter(), limit));
        text.remember(self.shared.id, Arc::clone(&measured));
        measured
    }

    /// Returns the tokens of an item without its text: its tags and its
    /// surcharge, for example for a picture.
    pub fn overhead_of(&self, item: &Item) -> Tokens {
        match &item.content {
            Content::Ready(text) => self.wrapper_of(item, text),
            Content::Pending { .. } | Content::Absent { .. } => 0,
        }
    }

    /// Returns the tokens that the tags around `item` add to the count of
    /// `text`. If they must be counted, the result is cached with the text,
    /// because history is the same from turn to turn.
    pub(crate) fn wrapper_of(&self, item: &Item, text: &Text) -> Tokens {
        if let Some(tags) = self.tags_apart(item, text.body()) {
            return item.surcharge + tags;
        }
        let path = item.path.as_ref().filter(|_| item.role.shows_path());
        let marked = self.is_marked(item.role, &item.part);
        if let Some(tags) = text.tags(self.shared.id, item.role, marked, path, &item.part) {
            return item.surcharge + tags;
        }
        let tokens = self.tags(item, text.body());
        text.remember_tags(Tags {
            counts: self.shared.id,
            role: item.role,
            marked,
            path: path.cloned(),
            part: item.part.clone(),
            tokens,
        });
        item.surcharge + tokens
    }

    /// Returns the tokens that the tags around `item` add to the count of
    /// `body`.
    pub(crate) fn wrapper(&self, item: &Item, body: &str) -> Tokens {
        let apart = self.tags_apart(item, body);
        item.surcharge + apart.unwrap_or_else(|| self.tags(item, body))
    }

    /// Returns the count of the tags of plain text, if they share no token with
    /// `body`: that is the same for all texts.
    fn tags_apart(&self, item: &Item, body: &str) -> Option<Tokens> {
        if item.part != Part::Text {
            // Every call has a different tag.
            return None;
        }
        let path = item.path.as_ref().filter(|_| item.role.shows_path());
        let marked = self.is_marked(item.role, &Part::Text);
        let mark = marked.then_some(Mark::ANY);
        let make = || {
            let open = markup::open(item.role, path.map(|path| &**path), &Part::Text, mark);
            let close = self.counter().count(&markup::close(item.role, mark));
            Wrapper {
                apart: self.counter().count(&open) + close,
                open,
            }
        };
        let apart = |wrapper: &Wrapper| {
            let is_apart = wrapper.open.is_empty() || self.counter().is_seam(&wrapper.open, body);
            is_apart.then_some(wrapper.apart)
        };
        let Some(path) = path else {
            return apart(
                self.shared.by_role[usize::from(marked)][item.role as usize].get_or_init(make),
            );
        };
        if let Some(known) = self.shared.by_path.get(path) {
            return apart(&known);
        }
        let made = Arc::new(make());
        let bytes = made.open.len() + path.len();
        self.shared
            .by_path
            .insert(Arc::clone(path), Arc::clone(&made), bytes);
        apart(&made)
    }

    fn tags(&self, item: &Item, body: &str) -> Tokens {
        let marked = self.is_marked(item.role, &item.part);
        let mark = marked.then_some(Mark::ANY);
        let open = markup::open(item.role, item.path.as_deref(), &item.part, mark);
        let close = self.counter().count(&markup::close(item.role, mark));
        let open = if open.is_empty() || self.counter().is_seam(&open, body) {
            self.counter().count(&open)
        } else {
            self.joined(&open, body)
        };
        open + close
    }

    /// Returns the tokens that the opening tag adds to the count of `body` if
    /// the two share a token.
    fn joined(&self, open: &str, body: &str) -> Tokens {
        let first = &body[..measure::next_seam(body, 0, self.counter())];
        let joined = self.counter().count(&format!("{open}{first}"));
        joined.saturating_sub(self.counter().count(first))
    }
}

/// The tags of plain text.
struct Wrapper {
    open: String,
    // The count of both tags when the body begins at a seam.
    apart: Tokens,
}
