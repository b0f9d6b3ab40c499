//! Decides which items of a layer are kept: by priority, by score, or along a
//! path.
//!
//! First-fit is in this file; [`path`] and [`score`] hold the other two. A fit
//! never exceeds the tokens it is given.

mod frame;
mod path;
mod score;

use std::borrow::{Borrow, BorrowMut};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::code::Code;
use crate::counts::{Counts, Tokens};
use crate::cut::{self, Cut, CutText, MIN_USEFUL_TOKENS};
use crate::form::Form;
use crate::item::{Content, Item, Role};
use crate::measure::{self, BoundedMeasure, Size};
use crate::text::Text;

pub(crate) use path::Gap;
pub use path::{Anchor, Marker, Path, UnofferedRange};
pub use score::ByScore;

/// The method that chooses which items of a layer are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// By priority, highest first, ties in the given order. An item that fits
    /// is kept; one that does not is cut or dropped, and smaller items after it
    /// may still fit.
    #[default]
    FirstFit,
    /// By score, weighed against length: a text four times as long must score
    /// twice as much to come first. Tokens that nested layers leave unused go
    /// to the best items of all of them.
    ByScore(ByScore),
    /// Along a path, oldest item first: the newest are kept, or both ends.
    Path(Path),
}

/// A text up to this many tokens is counted whole even if it cannot be used.
const SHORT_TEXT_TOKENS: Tokens = 256;

/// A text up to this many bytes is counted in advance.
const SHORT_TEXT_BYTES: usize = 256;

/// The same limit for a text that may be cut; a request has few of those.
const SHORT_FILE_TOKENS: Tokens = 4096;

/// The members of a group that may be cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CutScope {
    ToolResults,
    All,
}

/// The outcome of an item.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Whole {
        text: Text,
        tokens: Tokens,
    },
    Cut {
        text: CutText,
        tokens: Tokens,
        original: Size,
        /// The tokens that the item's own limits leave of it.
        most: Size,
        code: Code,
        /// The tokens that other items would get first if there were more.
        ahead: Size,
    },
    Form {
        form: Form,
        tokens: Tokens,
        original: Size,
    },
    Dropped {
        code: Code,
        needs: Size,
        left: Tokens,
        /// The tokens that other items would get first if there were more. `None`
        /// if more tokens would not keep the item: a window shrinks by large steps.
        ahead: Option<Size>,
    },
    Duplicate {
        of: Arc<str>,
        size: Size,
    },
    Absent {
        code: Code,
        reason: String,
    },
}

impl Outcome {
    pub(crate) fn tokens(&self) -> Tokens {
        match self {
            Outcome::Whole { tokens, .. }
            | Outcome::Cut { tokens, .. }
            | Outcome::Form { tokens, .. } => *tokens,
            Outcome::Dropped { .. } | Outcome::Duplicate { .. } | Outcome::Absent { .. } => 0,
        }
    }

    /// Returns the outcome of an item that gets more tokens only after others get
    /// `more`.
    fn behind(mut self, more: Size) -> Self {
        match &mut self {
            Outcome::Dropped { ahead, .. } => *ahead = ahead.map(|_| more),
            Outcome::Cut { ahead, .. } => *ahead = more,
            _ => {}
        }
        self
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(
            self,
            Outcome::Whole { .. } | Outcome::Cut { .. } | Outcome::Form { .. }
        )
    }

    /// Returns true if more tokens would show more content.
    pub(crate) fn wants_more(&self) -> bool {
        match self {
            Outcome::Cut { code, .. } => ![Code::LINE_LIMIT, Code::TOKEN_LIMIT].contains(code),
            Outcome::Dropped { .. } | Outcome::Form { .. } => true,
            Outcome::Whole { .. } | Outcome::Duplicate { .. } | Outcome::Absent { .. } => false,
        }
    }
}

/// The tokens that items would get, if there were more, before the items after
/// them.
#[derive(Debug)]
struct Ahead {
    size: Size,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { size: Size::ZERO }
    }
}

impl Ahead {
    /// Adds what is missing of items.
    fn add<'o>(&mut self, outcomes: impl IntoIterator<Item = &'o Outcome>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Dropped { needs, .. } if is_out_of_room(outcome) => self.size.add(*needs),
                Outcome::Cut { tokens, most, .. } if outcome.wants_more() => self.size.add(Size {
                    tokens: most.tokens.saturating_sub(*tokens),
                    exact: most.exact,
                }),
                Outcome::Form {
                    tokens, original, ..
                } if outcome.wants_more() => self.size.add(Size {
                    tokens: original.tokens.saturating_sub(*tokens),
                    exact: original.exact,
                }),
                _ => {}
            }
        }
    }
}

/// The outcomes of the items of a unit. Most units are one item.
type Decided = SmallVec<[(usize, Outcome); 1]>;

/// Decides the outcome of each item of one layer.
pub(crate) struct Fitter<'a> {
    pub(crate) counts: &'a Counts,
    /// The tokens available to the whole request. No text is counted beyond
    /// this.
    pub(crate) available: Tokens,
    pub(crate) load: &'a mut dyn FnMut(&Item) -> Content,
    /// Whether the items are lines of a block, and so have no tags of their own.
    pub(crate) framed: bool,
}

impl Fitter<'_> {
    /// Decides every item that has no outcome yet, spending at most `allowance`
    /// tokens on them. Returns the marker for a removed part of a path, if
    /// there is one; its tokens are part of the allowance.
    pub(crate) fn fit(
        &mut self,
        fit: &Fit,
        items: &mut [Item],
        outcomes: &mut [Option<Outcome>],
        allowance: Tokens,
    ) -> Option<Gap> {
        let open: Vec<usize> = (0..items.len())
            .filter(|&i| outcomes[i].is_none())
            .collect();
        match fit {
            Fit::FirstFit => {
                let order = highest_first(open, |i| items[i].priority);
                self.first_fit(items, &Units::of(items, order), allowance, outcomes);
            }
            // `by_score` decides these items together with the nested layers.
            Fit::ByScore(_) => {}
            Fit::Path(path) => {
                let units = Units::of(items, open);
                return self.path(path, items, &units, allowance, outcomes);
            }
        }
        None
    }

    fn first_fit(
        &mut self,
        items: &mut [Item],
        units: &Units,
        allowance: Tokens,
        outcomes: &mut [Option<Outcome>],
    ) {
        let short = self.short_texts(items);
        let mut left = allowance;
        let mut ahead = Ahead::default();
        for unit in units.iter() {
            if let &[i] = unit
                && let Some((whole, cut)) = short[i]
                && whole > left
                && (cut == Cut::Never || left <= MIN_USEFUL_TOKENS)
            {
                outcomes[i] = Some(Outcome::Dropped {
                    code: over_budget(whole, self.available, cut),
                    needs: Size {
                        tokens: whole,
                        exact: true,
                    },
                    left,
                    ahead: Some(ahead.size),
                });
                ahead.add(outcomes[i].iter());
                continue;
            }
            if let &[i] = unit
                && items[i].group.is_none()
            {
                let outcome = self.single(&mut items[i], left);
                left -= outcome.tokens();
                outcomes[i] = Some(outcome.behind(ahead.size));
                ahead.add(outcomes[i].iter());
                continue;
            }
            let mut decided = self.whole_or_none(items, unit, left);
            for (_, outcome) in &mut decided {
                left -= outcome.tokens();
                *outcome = outcome.clone().behind(ahead.size);
            }
            // Each member of a group has the tokens of the whole group.
            ahead.add(decided.first().map(|(_, outcome)| outcome));
            for (i, outcome) in decided {
                outcomes[i] = Some(outcome);
            }
        }
    }

    /// Returns the whole tokens of each short text, and how it may be cut.
    ///
    /// Texts are counted in memory order. The order of priority is as good as
    /// random, and for many small items fetching them in that order would take
    /// longer than counting.
    fn short_texts(&self, items: &[Item]) -> Vec<Option<(Tokens, Cut)>> {
        let short = |item: &Item| match &item.content {
            Content::Ready(text)
                if text.body().len() <= SHORT_TEXT_BYTES
                    && item.group.is_none()
                    && item.forms.is_empty()
                    && item.max_lines.is_none()
                    && item.max_tokens.is_none() =>
            {
                let wrapper = self.wrapper(item, text);
                Some((wrapper + self.size(text, Tokens::MAX).tokens, item.cut))
            }
            _ => None,
        };
        items.iter().map(short).collect()
    }

    /// Returns the tokens of an item's tags and its surcharge.
    fn wrapper(&self, item: &Item, text: &Text) -> Tokens {
        match self.framed {
            true => item.surcharge,
            false => self.counts.wrapper_of(item, text),
        }
    }

    /// Returns the first of the item's shorter forms that fits.
    fn shorter(&self, item: &Item, whole: Size, left: Tokens) -> Option<Outcome> {
        item.forms.iter().find_map(|form| {
            let tokens = self.size(&form.text, left).tokens + self.wrapper(item, &form.text);
            (tokens <= left).then(|| Outcome::Form {
                form: form.clone(),
                tokens,
                original: whole,
            })
        })
    }

    /// Decides an item without a group: whole, in a shorter form, cut, or
    /// dropped.
    fn single(&mut self, item: &mut Item, left: Tokens) -> Outcome {
        let room = item.max_tokens.unwrap_or(left).min(left);
        let may_be_cut = item.cut != Cut::Never && room > MIN_USEFUL_TOKENS && !self.framed;
        // The item's own limit applies only if the item may be cut.
        let left = if may_be_cut { room } else { left };
        if let Content::Pending { bytes, .. } = item.content
            && !may_be_cut
            && item.max_lines.is_none()
            && self.is_surely_over(bytes, left)
        {
            if measure::is_binary_name(item.path.as_deref().unwrap_or(&item.id)) {
                return Outcome::Absent {
                    code: Code::BINARY,
                    reason: "is binary, by its name".to_owned(),
                };
            }
            let never = item.cut == Cut::Never && self.is_surely_over(bytes, self.available);
            return Outcome::Dropped {
                code: if never {
                    Code::TOO_LARGE
                } else {
                    Code::OVER_BUDGET
                },
                needs: estimated_size(item),
                left,
                ahead: Some(Size::ZERO),
            };
        }
        let text = match self.ready(item) {
            Ok(text) => text,
            Err(absent) => return absent,
        };
        let wrapper = self.wrapper(item, &text);
        let line_limited = cut::is_line_limited(item, &text);
        // An item that cannot be cut need not be counted beyond the tokens that
        // are left. A short text is counted anyway, so that the report has its
        // exact size.
        let limit = if may_be_cut || line_limited {
            self.available.max(SHORT_FILE_TOKENS)
        } else {
            left.max(SHORT_TEXT_TOKENS)
        };
        let counted = self.counts.measure_pieces(&text, limit);
        let measured = counted.within(limit);
        let mut whole = measured.size(text.body());
        if item.cut == Cut::Never && !whole.exact && whole.tokens * 5 / 4 > self.available {
            // The report says whether the item could fit at all.
            whole = self.size(&text, self.available);
        }
        whole.tokens += wrapper;
        if whole.exact && whole.tokens <= left && !line_limited {
            return Outcome::Whole {
                text,
                tokens: whole.tokens,
            };
        }
        if let Some(form) = self.shorter(item, whole, left) {
            return form;
        }
        let most = self.within_limits(item, &text, measured, whole);
        let mut code = over_budget(most.tokens, self.available, item.cut);
        if may_be_cut || line_limited {
            if let Some(cut) = cut::cut(item, &text, measured, self.counts, left, MIN_USEFUL_TOKENS)
            {
                return Outcome::Cut {
                    tokens: cut.tokens + self.counts.wrapper(item, cut.body()),
                    code: match item.max_tokens {
                        _ if cut.by_lines_only => Code::LINE_LIMIT,
                        Some(max) if max == left => Code::TOKEN_LIMIT,
                        _ => Code::CUT,
                    },
                    text: cut,
                    original: whole,
                    most,
                    ahead: Size::ZERO,
                };
            }
            if item.cut != Cut::Never {
                code = Code::BELOW_MINIMUM;
            }
        }
        Outcome::Dropped {
            code,
            needs: most,
            left,
            ahead: Some(Size::ZERO),
        }
    }

    /// Returns what an item's own limits leave of its size.
    fn within_limits(
        &self,
        item: &Item,
        text: &Text,
        measured: BoundedMeasure<'_>,
        whole: Size,
    ) -> Size {
        let mut most = whole;
        if whole.exact
            && cut::is_line_limited(item, text)
            && let Some(cut) = cut::cut(item, text, measured, self.counts, Tokens::MAX, 0)
        {
            most.tokens = cut.tokens + self.counts.wrapper(item, cut.body());
        }
        if let Some(max) = item.max_tokens
            && item.cut != Cut::Never
            && max < most.tokens
        {
            most = Size {
                tokens: max,
                exact: true,
            };
        }
        most
    }

    /// Decides the items of a group, which are kept or dropped together.
    fn whole_or_none<I: BorrowMut<Item>>(
        &mut self,
        items: &mut [I],
        members: &[usize],
        left: Tokens,
    ) -> Decided {
        let mut sizes: SmallVec<[_; 1]> = SmallVec::with_capacity(members.len());
        let mut absent = false;
        for &i in members {
            let item: &mut Item = items[i].borrow_mut();
            match self.ready(item) {
                Ok(text) => {
                    let wrapper = self.wrapper(item, &text);
                    let mut size = self.size(&text, self.available);
                    size.tokens += wrapper;
                    sizes.push((i, Ok((text, size))));
                }
                Err(outcome) => {
                    absent = true;
                    sizes.push((i, Err(outcome)));
                }
            }
        }
        let total: Tokens = sizes
            .iter()
            .filter_map(|(_, size)| size.as_ref().ok())
            .map(|(_, size)| size.tokens)
            .sum();
        let keep = !absent && total <= left;
        let exact = sizes
            .iter()
            .all(|(_, size)| size.as_ref().map_or(true, |(_, size)| size.exact));
        sizes
            .into_iter()
            .map(|(i, size)| {
                let outcome = match size {
                    Ok((text, size)) if keep => Outcome::Whole {
                        text,
                        tokens: size.tokens,
                    },
                    Ok((_, size)) => Outcome::Dropped {
                        code: if absent {
                            Code::GROUP_DROPPED
                        } else {
                            Code::OVER_BUDGET
                        },
                        needs: Size {
                            tokens: if absent { size.tokens } else { total },
                            exact,
                        },
                        left,
                        ahead: Some(Size::ZERO),
                    },
                    Err(outcome) => outcome,
                };
                (i, outcome)
            })
            .collect()
    }

    /// Cuts the members of a group that may be cut, the largest the most, so
    /// that the group has at most `left` tokens. Returns `None` if that is not
    /// enough.
    fn cut_to_fit(
        &mut self,
        items: &mut [Item],
        members: &[usize],
        left: Tokens,
        scope: CutScope,
        least: Tokens,
    ) -> Option<Vec<(usize, Outcome)>> {
        let mut room = left;
        let mut outcomes = Vec::with_capacity(members.len());
        let mut open = Vec::new();
        for &i in members {
            let text = self.ready(&mut items[i]).ok()?;
            let wrapper = self.wrapper(&items[i], &text);
            let tokens = wrapper + self.size(&text, self.available).tokens;
            let whole = scope == CutScope::ToolResults && items[i].role != Role::Tool;
            if whole || items[i].cut == Cut::Never {
                room = room.checked_sub(tokens)?;
                outcomes.push((i, Outcome::Whole { text, tokens }));
            } else {
                open.push((tokens, i, text));
            }
        }
        // The smallest come first: tokens that they leave of an equal share go
        // to the larger ones.
        open.sort_by_key(|(tokens, i, _)| (*tokens, *i));
        let mut waiting = open.len() as Tokens;
        for (tokens, i, text) in open {
            let part = room / waiting.max(1);
            waiting -= 1;
            let outcome = if tokens <= part {
                Outcome::Whole { text, tokens }
            } else {
                let measured = self.counts.measure_pieces(&text, self.available);
                let within = measured.within(self.available);
                let cut = cut::cut(&items[i], &text, within, self.counts, part, least)?;
                let original = Size {
                    tokens,
                    exact: within.is_complete(),
                };
                Outcome::Cut {
                    tokens: cut.tokens + self.counts.wrapper(&items[i], cut.body()),
                    code: Code::CUT,
                    original,
                    most: original,
                    ahead: Size::ZERO,
                    text: cut,
                }
            };
            room -= outcome.tokens();
            outcomes.push((i, outcome));
        }
        Some(outcomes)
    }

    /// Returns the outcome of a pinned item: its whole content, or the lines
    /// that its own line limit leaves.
    pub(crate) fn pinned(&mut self, item: &mut Item) -> Outcome {
        let text = match self.ready(item) {
            Ok(text) => text,
            Err(absent) => return absent,
        };
        let mut whole = self.size(&text, Tokens::MAX);
        whole.tokens += self.wrapper(item, &text);
        if cut::is_line_limited(item, &text) {
            let measured = self.counts.measure_pieces(&text, Tokens::MAX);
            let within = measured.within(Tokens::MAX);
            if let Some(cut) = cut::cut(
                item,
                &text,
                within,
                self.counts,
                Tokens::MAX,
                MIN_USEFUL_TOKENS,
            ) {
                return Outcome::Cut {
                    tokens: cut.tokens + self.counts.wrapper(item, cut.body()),
                    text: cut,
                    original: whole,
                    most: whole,
                    code: Code::LINE_LIMIT,
                    ahead: Size::ZERO,
                };
            }
        }
        Outcome::Whole {
            tokens: whole.tokens,
            text,
        }
    }

    fn ready(&mut self, item: &mut Item) -> Result<Text, Outcome> {
        if matches!(item.content, Content::Pending { .. }) {
            item.content = (self.load)(item);
        }
        match &mut item.content {
            Content::Ready(text) => {
                if let Some(again) = text.guarded_again(item.role) {
                    *text = again;
                }
                Ok(text.clone())
            }
            Content::Absent { code, reason } => Err(Outcome::Absent {
                code: *code,
                reason: reason.clone(),
            }),
            Content::Pending { .. } => Err(Outcome::Absent {
                code: Code::UNREADABLE,
                reason: "it was not loaded".to_owned(),
            }),
        }
    }

    fn size(&self, text: &Text, limit: Tokens) -> Size {
        self.counts.size(text, limit)
    }

    /// Returns true when a text of `bytes` cannot fit in `left` tokens, even
    /// with the longest tokens there are.
    fn is_surely_over(&self, bytes: u64, left: Tokens) -> bool {
        match self.counts.counter().longest_token() {
            Some(longest) => bytes / longest.max(1) > left,
            None => left == 0,
        }
    }
}

/// Returns the code for an item of `tokens` tokens that did not fit.
fn over_budget(tokens: Tokens, available: Tokens, cut: Cut) -> Code {
    if tokens > available && cut == Cut::Never {
        Code::TOO_LARGE
    } else {
        Code::OVER_BUDGET
    }
}

/// Returns `items` by descending rank, ties in the order given.
pub(crate) fn highest_first(items: Vec<usize>, rank: impl Fn(usize) -> f64) -> Vec<usize> {
    // Ranks are read once, because the items are spread over much more memory.
    let mut ranked: Vec<(f64, usize)> = items.into_iter().map(|i| (rank(i), i)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().map(|(_, i)| i).collect()
}

/// Returns true for an item that was dropped because the budget is full, not
/// because another member of its group was dropped.
fn is_out_of_room(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Dropped { code, .. } if *code != Code::GROUP_DROPPED)
}

/// Returns the estimated size of an item that is not worth counting.
fn estimated_size(item: &Item) -> Size {
    let tokens = match &item.content {
        Content::Ready(text) => (text.as_str().len() as u64).div_ceil(4),
        Content::Pending { bytes, .. } => {
            measure::likely_tokens(item.path.as_deref().unwrap_or(&item.id), *bytes)
        }
        Content::Absent { .. } => 0,
    };
    Size {
        tokens,
        exact: false,
    }
}

/// Returns the end of each unit if the members of every group are adjacent, as
/// in a conversation. Returns `None` otherwise.
fn adjacent<I: Borrow<Item>>(items: &[I], order: &[usize]) -> Option<Vec<usize>> {
    let group_of = |i: usize| items[i].borrow().group.as_ref();
    let mut ends = Vec::with_capacity(order.len());
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (at, &i) in order.iter().enumerate() {
        let group = group_of(i);
        let before = at.checked_sub(1).and_then(|at| group_of(order[at]));
        let same = match (group, before) {
            (Some(group), Some(before)) => Arc::ptr_eq(group, before) || group == before,
            _ => false,
        };
        if same {
            continue;
        }
        if at > 0 {
            ends.push(at);
        }
        if let Some(group) = group
            && !seen.insert(group)
        {
            return None;
        }
    }
    if !order.is_empty() {
        ends.push(order.len());
    }
    Some(ends)
}

/// Items in the order they are decided. The members of a group are together, at
/// the position of the first of them.
struct Units {
    order: Vec<usize>,
    // The end of each unit in `order`.
    ends: Vec<usize>,
}

impl Units {
    fn of<I: Borrow<Item>>(items: &[I], order: Vec<usize>) -> Self {
        let group_of = |i: usize| items[i].borrow().group.as_ref();
        let mut ends = Vec::with_capacity(order.len());
        if order.iter().all(|&i| group_of(i).is_none()) {
            ends.extend(1..=order.len());
            return Self { order, ends };
        }
        if let Some(ends) = adjacent(items, &order) {
            return Self { order, ends };
        }
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for &i in &order {
            if let Some(group) = group_of(i) {
                groups.entry(group).or_default().push(i);
            }
        }
        let mut grouped = Vec::with_capacity(order.len());
        for i in order {
            match group_of(i) {
                None => grouped.push(i),
                // The first member brings the others along.
                Some(group) => match groups.remove(&**group) {
                    Some(members) => grouped.extend(members),
                    None => continue,
                },
            }
            ends.push(grouped.len());
        }
        Self {
            order: grouped,
            ends,
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, unit: usize) -> &[usize] {
        let start = if unit == 0 { 0 } else { self.ends[unit - 1] };
        &self.order[start..self.ends[unit]]
    }

    fn iter(&self) -> impl Iterator<Item = &[usize]> {
        (0..self.len()).map(|unit| self.get(unit))
    }
}
