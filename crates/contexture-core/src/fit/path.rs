//! Fits a path: keeps its start and its end, and puts a marker between.
//!
//! A window over a conversation is a path with an [`Anchor`]: it moves rarely
//! and far, so that the provider's prompt cache stays valid.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    CutScope, Decided, Fitter, Outcome, Units, estimated_size, is_out_of_room, over_budget,
};
use crate::code::Code;
use crate::counts::Tokens;
use crate::cut::{Cut, MIN_USEFUL_TOKENS, grouped};
use crate::item::{Content, Item, Join, Role, Trust};
use crate::measure::Size;
use crate::text::Text;

/// Settings for fitting a path, such as a conversation: the beginning and the
/// end are kept, and a marker shows where items were removed.
///
/// With `head` 0 and no marker, as many of the newest items are kept as fit.
/// With an [`Anchor`], the kept items are a window whose start stays the same
/// from request to request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Path {
    /// The number of newest items that are kept before all others. At least
    /// one, unless the path is anchored. Default: 4.
    pub min_recent: usize,
    /// The fraction of the allowance for the oldest items if not everything
    /// fits. 0 keeps only the newest. Default: 0.3.
    pub head: f64,
    /// The marker that replaces removed items. `None` leaves no marker.
    pub marker: Option<Marker>,
    /// The items that the source did not offer because they could not fit.
    pub unseen: Option<UnofferedRange>,
    /// Whether the items are one continuous text. The item of the newest few
    /// that does not fit is then cut instead of dropped, and no item before the
    /// cut is kept.
    pub is_text: bool,
    /// The anchor that keeps the start of the path in place, for the provider's
    /// cache. `None` for no anchor.
    pub anchor: Option<Anchor>,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            min_recent: 4,
            head: 0.3,
            marker: None,
            unseen: None,
            is_text: false,
            anchor: None,
        }
    }
}

impl Path {
    /// Returns a window over the newest items: it stays where it is while it
    /// fits, and shrinks in one large step when it does not.
    pub fn window() -> Self {
        Self {
            min_recent: 3,
            head: 0.0,
            anchor: Some(Anchor::default()),
            ..Self::default()
        }
    }
}

/// The start of a window over a path, and how far the window shrinks when it
/// must move.
///
/// Each of the newest few items is cut if it does not fit whole. The window has
/// no gaps: it ends before the first item that does not fit even in part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Anchor {
    /// The item that the window began with last time. While everything from
    /// there on fits, the window stays: a provider's cache ends where the
    /// window moves.
    pub start: Option<Arc<str>>,
    /// The part of the allowance that is kept when the window must move. It
    /// then moves once by a large amount instead of a little on every request.
    pub shrink_to: f64,
}

impl Default for Anchor {
    fn default() -> Self {
        Self {
            start: None,
            shrink_to: 0.6,
        }
    }
}

impl Anchor {
    /// Returns the tokens that are kept of `allowance` when the window moves.
    pub fn shrunk(&self, allowance: Tokens) -> Tokens {
        (allowance as f64 * self.shrink_to.clamp(0.0, 1.0)) as Tokens
    }
}

/// The marker that replaces a removed part of a path: `[... 37 nodes cut ...]`.
///
/// It gives the number of removed items. It does not give their tokens, which
/// would depend on how far they were counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    /// The name of one item: `node`.
    pub noun: Arc<str>,
    /// The role that the marker is sent as.
    pub role: Role,
    /// The whole text, where it must not depend on the number.
    #[serde(default)]
    pub text: Option<Arc<str>>,
    /// Whether the marker is always present when something was removed, even if
    /// one of the newest items is cut to make room for it.
    #[serde(default)]
    pub is_required: bool,
}

impl Marker {
    /// Returns a marker that is left out if the newest items need its tokens.
    pub fn new(noun: impl Into<Arc<str>>, role: Role) -> Self {
        Self {
            noun: noun.into(),
            role,
            text: None,
            is_required: false,
        }
    }

    /// Returns the text of the marker for `count` removed items.
    pub fn text(&self, count: u64) -> String {
        let plural = if count == 1 { "" } else { "s" };
        let text = match &self.text {
            Some(text) => text.to_string(),
            None => format!("[... {} {}{plural} cut ...]", grouped(count), self.noun),
        };
        match self.role {
            // In the middle of a document nothing else sets it off.
            Role::Document => format!("\n{text}\n"),
            _ => text,
        }
    }
}

/// A part of a path that was not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnofferedRange {
    /// The index of the item that follows it.
    pub at: usize,
    /// The number of units in it; 0 for none.
    pub count: u64,
}

/// The marker in its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gap {
    /// The index of the item that follows it.
    pub(crate) before: usize,
    pub(crate) item: Item,
    pub(crate) outcome: Outcome,
}

/// The kept part of a path: the units before `head` and from `tail` on.
struct KeptUnits {
    units: usize,
    head: usize,
    tail: usize,
    left: Tokens,
    // Whether any of it can be seen.
    shows: bool,
    // The units that are kept only in part: the newest; in a text, the oldest
    // kept one of the newest few; in a window, any of the newest few.
    cut: Vec<(usize, Vec<(usize, Outcome)>)>,
    // Units after the kept ones that cannot be shown.
    unshown: Vec<usize>,
    // The unit that ended a window because it did not fit, and the tokens that
    // were left.
    blocked: Option<(usize, Tokens)>,
    // The number of newest units that should have come first but did not fit,
    // and the tokens that were left then.
    missed: usize,
    left_then: Tokens,
    // Whether no more units are kept before the tail.
    closed: bool,
}

impl KeptUnits {
    fn nothing(units: usize, left: Tokens) -> Self {
        Self {
            units,
            head: 0,
            tail: units,
            left,
            shows: false,
            cut: Vec::new(),
            unshown: Vec::new(),
            blocked: None,
            missed: 0,
            left_then: 0,
            closed: false,
        }
    }

    /// Returns true when something of the newest few is not there.
    fn is_short(&self) -> bool {
        self.missed > 0 || !self.cut.is_empty() || self.lacks_newest()
    }

    /// Returns true if the newest unit is missing, or not whole.
    fn lacks_newest(&self) -> bool {
        // The newest unit that can be shown is directly before the unshown
        // ones.
        let newest = self.units.checked_sub(self.unshown.len() + 1);
        let is_cut = self.cut.iter().any(|(u, _)| Some(*u) == newest);
        !self.shows || is_cut || !self.unshown.is_empty()
    }

    /// Returns true when it has all of the newest few, or the newest where the
    /// other has not.
    fn is_better_than(&self, other: &KeptUnits) -> bool {
        !self.is_short() || !self.lacks_newest() && other.lacks_newest()
    }

    /// Pays for a unit, or returns false when it does not fit in `left`. A unit
    /// that cannot be used costs nothing and leaves a gap.
    fn pay(&mut self, cost: Cost) -> bool {
        match cost {
            Cost::Whole(tokens) if tokens <= self.left => {
                self.left -= tokens;
                self.shows = true;
                true
            }
            Cost::Unusable => true,
            _ => false,
        }
    }
}

/// The tokens of a unit, or the reason why it has none.
#[derive(Clone, Copy)]
enum Cost {
    Whole(Tokens),
    // More than all that is available.
    TooLarge(Size),
    // Something of it is missing.
    Unusable,
}

impl Cost {
    fn size(self) -> Size {
        match self {
            Cost::TooLarge(size) => size,
            Cost::Whole(tokens) => Size {
                tokens,
                exact: true,
            },
            Cost::Unusable => Size {
                tokens: 0,
                exact: true,
            },
        }
    }
}

/// A unit that was looked at.
struct MeasuredUnit {
    cost: Cost,
    decided: Decided,
}

/// The units of a path, looked at when they are needed.
struct Walk<'u> {
    units: &'u Units,
    looked: Vec<Option<MeasuredUnit>>,
}

impl Walk<'_> {
    fn cost(&mut self, fitter: &mut Fitter<'_>, items: &mut [Item], u: usize) -> Cost {
        let units = self.units;
        let look = || {
            let decided = fitter.whole_or_none(items, units.get(u), fitter.available);
            let out_of_room = decided.iter().find_map(|(_, outcome)| match outcome {
                Outcome::Dropped { needs, .. } if is_out_of_room(outcome) => Some(*needs),
                _ => None,
            });
            let cost = match out_of_room {
                Some(needs) => Cost::TooLarge(needs),
                None if decided.iter().any(|(_, outcome)| outcome.is_kept()) => {
                    Cost::Whole(decided.iter().map(|(_, outcome)| outcome.tokens()).sum())
                }
                None => Cost::Unusable,
            };
            MeasuredUnit { cost, decided }
        };
        self.looked[u].get_or_insert_with(look).cost
    }
}

/// Returns the oldest unit that may be kept: the start of the previous window,
/// or the first open unit after it if that one is pinned now.
fn oldest(path: &Path, items: &[Item], units: &Units) -> usize {
    let start = path
        .anchor
        .as_ref()
        .and_then(|anchor| anchor.start.as_ref());
    let start = start.and_then(|id| items.iter().position(|item| item.id == *id));
    start.map_or(0, |start| {
        let behind = |unit: &[usize]| unit.iter().any(|&i| i >= start);
        units.iter().position(behind).unwrap_or(units.len())
    })
}

impl Fitter<'_> {
    pub(super) fn path(
        &mut self,
        path: &Path,
        items: &mut [Item],
        units: &Units,
        allowance: Tokens,
        outcomes: &mut [Option<Outcome>],
    ) -> Option<Gap> {
        let unseen = path.unseen.filter(|unseen| unseen.count > 0);
        let mut walk = Walk {
            units,
            looked: (0..units.len()).map(|_| None).collect(),
        };
        let oldest = oldest(path, items, units);
        let mut whole = KeptUnits::nothing(units.len(), allowance);
        if unseen.is_none() {
            self.more_tail(&mut whole, oldest, items, &mut walk);
        }
        // A window that does not begin at the start of the path has the marker
        // in every request.
        let is_marked = oldest > 0 && path.marker.as_ref().is_some_and(|m| m.is_required);
        let (kept, gap) = match unseen.is_none() && whole.tail == oldest && !is_marked {
            true => (whole, None),
            false => self.keep_ends(path, unseen, items, &mut walk, allowance),
        };
        self.settle(path, &kept, items, walk, outcomes);
        gap
    }

    /// Chooses the units to keep if not everything fits, with room for a
    /// marker.
    fn keep_ends(
        &mut self,
        path: &Path,
        unseen: Option<UnofferedRange>,
        items: &mut [Item],
        walk: &mut Walk<'_>,
        allowance: Tokens,
    ) -> (KeptUnits, Option<Gap>) {
        let units = walk.units;
        let most = units.len() as u64 + unseen.map_or(0, |unseen| unseen.count);
        let marker = path.marker.as_ref();
        let mut reserve = marker.map_or(0, |marker| self.marker(marker, most).1);
        if reserve > allowance && marker.is_some_and(|marker| marker.is_required) {
            // If a required marker does not fit, nothing is kept.
            return (KeptUnits::nothing(units.len(), allowance), None);
        }
        loop {
            let room = allowance.saturating_sub(reserve);
            let kept = self.ends(path, unseen, items, walk, room);
            // The newest units are worth more than a marker for the omitted
            // ones.
            if marker.is_some_and(|marker| !marker.is_required) && kept.is_short() {
                let without = self.ends(path, unseen, items, walk, allowance);
                if without.is_better_than(&kept) || !kept.shows {
                    return (without, None);
                }
            }
            let absent = |i: &usize| matches!(items[*i].content, Content::Absent { .. });
            let usable = |u: &usize| !units.get(*u).iter().all(absent);
            let dropped = (kept.head..kept.tail).filter(usable).count() as u64;
            let count = dropped + unseen.map_or(0, |unseen| unseen.count);
            let Some(marker) = marker.filter(|_| count > 0) else {
                return (kept, None);
            };
            let (item, tokens) = self.marker(marker, count);
            // A number may cost more than a larger one.
            if tokens > reserve {
                reserve = tokens;
                continue;
            }
            let behind_head = || {
                let head = (0..kept.head).flat_map(|u| units.get(u));
                head.max().map_or(0, |last| last + 1)
            };
            let gap = Gap {
                before: if kept.tail < units.len() {
                    units.get(kept.tail).iter().copied().min().unwrap_or(0)
                } else {
                    behind_head()
                },
                outcome: match &item.content {
                    Content::Ready(text) => Outcome::Whole {
                        text: text.clone(),
                        tokens,
                    },
                    _ => unreachable!("a marker is made with its text"),
                },
                item,
            };
            return (kept, Some(gap));
        }
    }

    /// Returns the marker for `count` removed units, and its tokens.
    fn marker(&self, marker: &Marker, count: u64) -> (Item, Tokens) {
        let text = Text::new(&marker.text(count));
        let mut item = Item::new("gap", marker.role, text.clone()).cut(Cut::Never);
        item.path = None;
        item.trust = Trust::Operator;
        if marker.role != Role::Document {
            item.join = Join::Paragraph;
        }
        let wrapper = self.counts.wrapper_of(&item, &text);
        let tokens = wrapper + self.size(&text, Tokens::MAX).tokens;
        (item, tokens)
    }

    /// Chooses from both ends within `room`: the newest few, then the oldest
    /// within their part, then more of the newest, then more of the oldest.
    fn ends(
        &mut self,
        path: &Path,
        unseen: Option<UnofferedRange>,
        items: &mut [Item],
        walk: &mut Walk<'_>,
        room: Tokens,
    ) -> KeptUnits {
        let units = walk.units;
        // Units that were not offered are not skipped. If the oldest have no
        // share of their own, they do not get the tokens that the newest leave
        // either.
        let (floor, mut ceiling) = match unseen {
            None => (0, units.len()),
            Some(unseen) => {
                let behind = |unit: &[usize]| unit.iter().any(|&i| i >= unseen.at);
                let border = units.iter().position(behind).unwrap_or(units.len());
                (border, border)
            }
        };
        if path.head <= 0.0 {
            ceiling = 0;
        }
        let floor = floor.max(oldest(path, items, units));
        let mut kept = KeptUnits::nothing(units.len(), room);
        if room == 0 {
            return kept;
        }
        self.newest(path, floor, items, walk, &mut kept);

        let part = (room as f64 * path.head.clamp(0.0, 1.0)) as Tokens;
        let others = kept.left.saturating_sub(part);
        kept.left -= others;
        self.more_head(&mut kept, ceiling, items, walk);
        kept.left += others;
        if !kept.closed {
            let (tail, left) = (kept.tail, kept.left);
            self.more_tail(&mut kept, floor, items, walk);
            // A window without a start cannot hold the units that were not
            // offered, whatever the others need.
            let must_move =
                |anchor: &&Anchor| kept.tail > floor || unseen.is_some() && anchor.start.is_none();
            if let Some(anchor) = path.anchor.as_ref().filter(must_move) {
                // The window must move, and so moves far.
                if kept.tail > floor {
                    kept.blocked = Some((kept.tail - 1, kept.left));
                }
                let beyond = room - anchor.shrunk(room);
                (kept.tail, kept.left) = (tail, left.saturating_sub(beyond));
                self.more_tail(&mut kept, floor, items, walk);
                kept.left += left.min(beyond);
            }
        }
        self.more_head(&mut kept, ceiling, items, walk);
        kept
    }

    /// Keeps the newest few units: whole, or as much of them as fits.
    fn newest(
        &mut self,
        path: &Path,
        floor: usize,
        items: &mut [Item],
        walk: &mut Walk<'_>,
        kept: &mut KeptUnits,
    ) {
        let units = walk.units;
        let room = kept.left;
        let mut wanted = match path.anchor {
            Some(_) => path.min_recent,
            None => path.min_recent.max(1),
        };
        while kept.tail > floor && wanted > 0 {
            let u = kept.tail - 1;
            let cost = walk.cost(self, items, u);
            if kept.pay(cost) {
                wanted -= usize::from(!matches!(cost, Cost::Unusable));
            } else {
                let most = match &path.anchor {
                    // The cut leaves tokens for the units before it.
                    Some(anchor) if u > floor => kept.left.min(anchor.shrunk(room)),
                    _ => kept.left,
                };
                match self.part_of(path, units.get(u), items, kept, most) {
                    Some(part) => {
                        kept.left -= part.iter().map(|(_, o)| o.tokens()).sum::<Tokens>();
                        kept.cut.push((u, part));
                        kept.shows = true;
                        wanted -= 1;
                        kept.closed = path.is_text;
                    }
                    // A window has no holes.
                    None if kept.shows => {
                        kept.missed = wanted;
                        kept.left_then = kept.left;
                        break;
                    }
                    None => kept.unshown.push(u),
                }
            }
            kept.tail = u;
            if kept.closed {
                kept.missed = wanted.min(kept.tail - floor);
                kept.left_then = kept.left;
                break;
            }
        }
    }

    /// Returns a part of a unit that does not fit whole, when it may be cut:
    /// tool results are cut before messages. In a window, the part has at most `most`
    /// tokens if that is enough for a useful part.
    fn part_of(
        &mut self,
        path: &Path,
        unit: &[usize],
        items: &mut [Item],
        kept: &KeptUnits,
        most: Tokens,
    ) -> Option<Vec<(usize, Outcome)>> {
        use CutScope::{All, ToolResults};
        let left = kept.left;
        if path.anchor.is_none() {
            // The newest is shown in part rather than not at all, however
            // little that is.
            let may_be_cut = !kept.shows || path.is_text;
            let least = match kept.shows {
                true => MIN_USEFUL_TOKENS,
                false => 1,
            };
            return [ToolResults, All]
                .into_iter()
                .filter(|_| may_be_cut)
                .find_map(|scope| self.cut_to_fit(items, unit, left, scope, least));
        }
        [(most, ToolResults), (most, All), (left, All)]
            .into_iter()
            .find_map(|(room, scope)| self.cut_to_fit(items, unit, room, scope, MIN_USEFUL_TOKENS))
    }

    /// Adds units to the head, the oldest first, while they fit.
    fn more_head(
        &mut self,
        kept: &mut KeptUnits,
        ceiling: usize,
        items: &mut [Item],
        walk: &mut Walk<'_>,
    ) {
        while kept.head < ceiling.min(kept.tail) && kept.pay(walk.cost(self, items, kept.head)) {
            kept.head += 1;
        }
    }

    /// Adds units to the tail, the newest first, while they fit.
    fn more_tail(
        &mut self,
        kept: &mut KeptUnits,
        floor: usize,
        items: &mut [Item],
        walk: &mut Walk<'_>,
    ) {
        while kept.tail > floor.max(kept.head) && kept.pay(walk.cost(self, items, kept.tail - 1)) {
            kept.tail -= 1;
        }
    }

    /// Writes down what became of each item.
    fn settle(
        &self,
        path: &Path,
        kept: &KeptUnits,
        items: &[Item],
        walk: Walk<'_>,
        outcomes: &mut [Option<Outcome>],
    ) {
        for (u, looked) in walk.looked.into_iter().enumerate() {
            let unit = walk.units.get(u);
            let in_gap = (kept.head..kept.tail).contains(&u);
            if let Some((_, part)) = kept.cut.iter().find(|(cut, _)| *cut == u) {
                for (i, outcome) in part {
                    outcomes[*i] = Some(outcome.clone());
                }
                continue;
            }
            let looked = match looked {
                Some(looked) if !in_gap && !kept.unshown.contains(&u) => {
                    for (i, outcome) in looked.decided {
                        outcomes[i] = Some(outcome);
                    }
                    continue;
                }
                looked => looked,
            };
            let size = looked.map(|looked| looked.cost.size());
            let missed = in_gap && kept.tail - u <= kept.missed;
            let blocked = kept.blocked.filter(|(blocked, _)| *blocked == u);
            for &i in unit {
                let needs = size.unwrap_or_else(|| estimated_size(&items[i]));
                outcomes[i] = Some(match &items[i].content {
                    Content::Absent { code, reason } => Outcome::Absent {
                        code: *code,
                        reason: reason.clone(),
                    },
                    _ => Outcome::Dropped {
                        code: match in_gap {
                            true if blocked.is_some() => Code::OVER_BUDGET,
                            true if path.anchor.is_some() => Code::BEFORE_WINDOW,
                            true => Code::CUT_FROM_PATH,
                            false if path.anchor.is_some() => Code::OVER_BUDGET,
                            false if unit.iter().any(|&i| items[i].cut != Cut::Never) => {
                                Code::BELOW_MINIMUM
                            }
                            false => over_budget(needs.tokens, self.available, Cut::Never),
                        },
                        needs,
                        left: match blocked {
                            Some((_, left)) => left,
                            None if missed => kept.left_then,
                            None => kept.left,
                        },
                        // A window begins elsewhere only when it shrinks again.
                        ahead: (path.anchor.is_none() && !in_gap).then_some(Size::ZERO),
                    },
                });
            }
        }
    }
}
