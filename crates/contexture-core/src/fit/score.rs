//! Fits by score: the highest-scoring items first, across all layers inside
//! one.
//!
//! Near-duplicates are dropped, and low-scoring items are replaced by shorter
//! forms when that makes room for a higher-scoring one.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use super::frame::KeptLines;
use super::{Decided, Fitter, Outcome, Units, is_out_of_room};
use crate::assemble::Fitted;
use crate::code::Code;
use crate::counts::Tokens;
use crate::cut::Cut;
use crate::form::{Curator, Form, NearPrint};
use crate::item::Item;
use crate::layer::{Layer, Order};
use crate::measure::Size;
use crate::text::Text;

/// Items shorter than this are not favoured for being short.
const SHORT_TOKENS: f64 = 128.0;

/// The fewest tokens of a passage that is worth showing.
const LEAST_PASSAGE: Tokens = 24;

/// Shorter items are not summarised.
const LEAST_SUMMARISED: Tokens = 48;

/// The number of times that unused tokens are offered again.
const MOST_REFILLS: usize = 3;

/// Settings for fitting items by score.
///
/// Each nested layer first fills its share with its own best items. Unused
/// tokens then go to the best items of all layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ByScore {
    /// The number of best items of all layers that are kept before shares are
    /// given.
    pub best: usize,
    /// The number of best items that are shown as a passage if they do not fit
    /// whole. Applies if the layer has a [`Curator`].
    pub passages: usize,
    /// Whether those that score lowest are summarised to a third when that makes
    /// room for something that scores higher.
    pub summarise: bool,
}

impl Default for ByScore {
    fn default() -> Self {
        Self {
            best: 0,
            passages: 3,
            summarise: false,
        }
    }
}

/// Returns `score` weighed against length: a text four times as long as
/// a short one must score twice as much to come first.
fn weighed_score(score: f64, tokens: Tokens) -> f64 {
    let length = (tokens as f64 / SHORT_TOKENS).max(1.0).sqrt();
    // A negative score must not improve with length.
    if score < 0.0 {
        score * length
    } else {
        score / length
    }
}

/// A layer, or one inside it, while its items compete.
struct NestedLayer {
    parent: Option<usize>,
    // The layer right inside the one that is fitted which it belongs to.
    share: usize,
    // The tokens charged when the first item below the layer is kept.
    opening: Tokens,
    is_open: bool,
    items: usize,
}

/// The state of a unit during the competition.
enum State {
    Open,
    Kept,
    // The first item is shown in a shorter form.
    Shorter(Form),
    // Another unit has nearly the same content.
    Duplicate(usize),
}

/// A group of items, or a single item without a group.
struct Unit {
    state: State,
    decided: Decided,
    // The tokens of the unit as it is shown now.
    tokens: Tokens,
    whole: Size,
    rank: f64,
    sub: usize,
    // False when something of it is missing.
    usable: bool,
    // The keys that near-duplicates share, once they were needed.
    keys: Option<NearKeys>,
}

/// The keys that a unit and its near-duplicates share.
#[derive(Clone)]
enum NearKeys {
    /// Any other unit may be a near-duplicate.
    Any,
    /// Near-duplicates share one of these, a range of [`Competition::keys`], and
    /// have a similar print.
    Some(Range<usize>, NearPrint),
}

/// The units that were kept, by the keys that near-duplicates share.
///
/// A request keeps hundreds of units with a few keys each. A table without
/// deletion is enough, because the state of a unit is checked before it is
/// compared.
struct KeptByKey {
    // The last entry of each bucket.
    buckets: Vec<u32>,
    entries: Vec<KeptEntry>,
}

#[derive(Debug)]
struct KeptEntry {
    print: NearPrint,
    key: u32,
    unit: u32,
    // The entry before it in its bucket.
    before: u32,
}

/// No entry has this index.
const NO_ENTRY: u32 = u32::MAX;

impl KeptByKey {
    /// Returns an empty table for about this many keys.
    fn new(keys: usize) -> Self {
        Self {
            buckets: vec![NO_ENTRY; keys.next_power_of_two()],
            entries: Vec::with_capacity(keys),
        }
    }

    fn bucket(&self, key: u32) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all bits of
        // the key.
        let mixed = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as usize & (self.buckets.len() - 1)
    }

    fn insert(&mut self, key: u32, print: NearPrint, unit: usize) {
        let bucket = self.bucket(key);
        let last = self.entries.len() as u32;
        let before = std::mem::replace(&mut self.buckets[bucket], last);
        self.entries.push(KeptEntry {
            print,
            key,
            unit: unit as u32,
            before,
        });
    }

    /// Adds the units with a key and a similar print to `units`, in any order.
    fn find(&self, key: u32, print: NearPrint, units: &mut SmallVec<[usize; 16]>) {
        let mut next = self.buckets[self.bucket(key)];
        while let Some(entry) = self.entries.get(next as usize) {
            if entry.key == key && entry.print.may_be_near(print) {
                units.push(entry.unit as usize);
            }
            next = entry.before;
        }
    }
}

struct Competition<'c> {
    curator: Option<Arc<dyn Curator>>,
    items: &'c [&'c Item],
    subs: Vec<NestedLayer>,
    units: Vec<Unit>,
    // Units by rank, the best first.
    order: Vec<usize>,
    kept: Vec<usize>,
    // The keys of all units that were compared, unit by unit.
    keys: Vec<u32>,
    // The units that were kept, by the keys that near-duplicates share, and those
    // without keys.
    by_key: KeptByKey,
    keyless: Vec<usize>,
    allowance: Tokens,
    used: Tokens,
    // The tokens spent by each directly nested layer.
    spent: Vec<Tokens>,
    // The number of times a unit was kept. One unit may replace another.
    changes: usize,
}

impl Fitter<'_> {
    /// Decides for all items of a layer, and of those inside it, that have no
    /// outcome yet.
    pub(crate) fn by_score(
        &mut self,
        settings: ByScore,
        layer: &mut Layer,
        fitted: &mut Fitted,
        allowance: Tokens,
    ) {
        let count = count_items(layer);
        let mut outcomes = Vec::with_capacity(count);
        let (mut subs, mut sub_of) = (Vec::new(), Vec::with_capacity(count));
        self.flatten(layer, fitted, None, &mut subs, &mut |sub, outcome| {
            outcomes.push(outcome);
            sub_of.push(sub);
        });
        let open: Vec<usize> = (0..count).filter(|&i| outcomes[i].is_none()).collect();
        for i in (0..count).filter(|&i| outcomes[i].is_some()) {
            // Pinned items have already paid for the headings above them.
            let mut above = Some(sub_of[i]);
            while let Some(sub) = above {
                subs[sub].is_open = true;
                above = subs[sub].parent;
            }
        }
        // Items are large, and stay where they are.
        let mut loaded: Vec<&mut Item> = Vec::with_capacity(count);
        collect_mut(layer, &mut loaded);
        let groups = Units::of(&loaded, open);
        let mut units: Vec<Unit> = Vec::with_capacity(groups.len());
        for group in groups.iter() {
            units.push(self.unit(&mut loaded, group, &sub_of));
        }
        let layer: &Layer = layer;
        let mut items: Vec<&Item> = Vec::with_capacity(count);
        collect(layer, &mut items);
        let order = ranked(&items, &groups, &units);
        let shares = layer.layers.len();
        let mut competition = Competition {
            curator: layer.curator.clone(),
            items: &items,
            subs,
            units,
            order,
            kept: Vec::new(),
            by_key: KeptByKey::new(2 * groups.len()),
            keys: Vec::new(),
            keyless: Vec::new(),
            allowance,
            used: 0,
            spent: vec![0; shares + 1],
            changes: 0,
        };
        let targets: Vec<Tokens> = (layer.layers.iter())
            .map(|inner| inner.share.target(allowance))
            .collect();
        for (fitted, target) in fitted.layers.iter_mut().zip(&targets) {
            fitted.allowed = *target;
        }
        self.compete(&mut competition, settings, &targets);
        if layer.frame.is_some() {
            let pinned = fitted.pinned;
            let mut refills = 0;
            let mut buffer = String::new();
            let block = loop {
                let block = self.block(&competition, layer, &outcomes, &sub_of, buffer);
                let exact = block.as_ref().map_or(0, |(_, tokens)| *tokens);
                let exact = exact.saturating_sub(pinned);
                // For some tokenizers, the counts of lines add up to the count of
                // the block. For others, the worst items are dropped until the
                // block fits.
                let is_changed = if exact > allowance {
                    competition.drop_worst()
                } else {
                    // Headings were charged with room to spare.
                    competition.used = competition.used.min(exact);
                    let before = competition.changes;
                    if refills < MOST_REFILLS {
                        self.fill(&mut competition, settings);
                    }
                    refills += 1;
                    competition.changes != before
                };
                if !is_changed {
                    break block;
                }
                buffer = block.map_or_else(String::new, |(body, _)| body);
            };
            fitted.block = block.map(|(body, tokens)| (Text::of_lines(body), tokens));
        }
        competition.decide(self.available, &mut outcomes);
        let counts: Vec<usize> = competition.subs.iter().map(|sub| sub.items).collect();
        restore(fitted, &mut counts.into_iter(), &mut outcomes.into_iter());
    }

    /// Collects a layer and its nested layers, in order, and takes the outcomes of
    /// their items.
    fn flatten(
        &self,
        layer: &Layer,
        fitted: &mut Fitted,
        parent: Option<(usize, usize)>,
        subs: &mut Vec<NestedLayer>,
        take: &mut dyn FnMut(usize, Option<Outcome>),
    ) {
        let at = subs.len();
        let share = parent.map_or(usize::MAX, |(_, share)| share);
        subs.push(NestedLayer {
            parent: parent.map(|(parent, _)| parent),
            share,
            opening: match self.framed {
                true => self.opening(layer),
                false => 0,
            },
            is_open: false,
            items: layer.items.len(),
        });
        let outcomes = std::mem::take(&mut fitted.outcomes);
        outcomes.into_iter().for_each(|outcome| take(at, outcome));
        let inside = layer.layers.iter().zip(&mut fitted.layers);
        for (i, (inner, fitted)) in inside.enumerate() {
            let share = if parent.is_none() { i } else { share };
            self.flatten(inner, fitted, Some((at, share)), subs, take);
        }
    }

    fn unit(&mut self, items: &mut [&mut Item], group: &[usize], sub_of: &[usize]) -> Unit {
        let decided = self.whole_or_none(items, group, self.available);
        let needs = decided.iter().find_map(|(_, outcome)| match outcome {
            Outcome::Dropped { needs, .. } if is_out_of_room(outcome) => Some(*needs),
            _ => None,
        });
        let tokens: Tokens = decided.iter().map(|(_, outcome)| outcome.tokens()).sum();
        let whole = needs.unwrap_or(Size {
            tokens,
            exact: true,
        });
        let usable = needs.is_some() || decided.iter().any(|(_, outcome)| outcome.is_kept());
        let score = |i: &usize| items[*i].score.unwrap_or(0.0);
        let best = group.iter().map(score).fold(f64::NEG_INFINITY, f64::max);
        Unit {
            state: State::Open,
            rank: weighed_score(best, whole.tokens),
            tokens: whole.tokens,
            sub: group.first().map_or(0, |&i| sub_of[i]),
            decided,
            whole,
            usable,
            keys: None,
        }
    }

    fn compete(&mut self, all: &mut Competition<'_>, settings: ByScore, targets: &[Tokens]) {
        // The best items of all come before the shares, so that no share
        // excludes them and no lower-scoring items use up their tokens.
        for place in 0..settings.best.min(all.order.len()) {
            let u = all.order[place];
            let room = match place {
                0 => all.allowance,
                _ => all.allowance / 2,
            };
            if all.used + all.price(u) <= room {
                all.offer(u);
            } else if place == 0 && settings.passages > 0 {
                self.offer_passage(all, u, all.allowance * 2 / 3);
            }
        }
        let mut by_share: Vec<Vec<usize>> = vec![Vec::new(); targets.len()];
        for u in &all.order {
            let share = all.subs[all.units[*u].sub].share;
            if let Some(units) = by_share.get_mut(share) {
                units.push(*u);
            }
        }
        for (share, (units, target)) in by_share.into_iter().zip(targets).enumerate() {
            for u in units {
                let price = all.price(u);
                if all.spent[share] + price <= *target && all.used + price <= all.allowance {
                    all.offer(u);
                }
            }
        }
        self.fill(all, settings);
        if settings.summarise {
            self.summarise(all);
        }
    }

    /// Keeps the units that still fit, the best first. Of the very best, a part
    /// is kept if the whole does not fit.
    fn fill(&mut self, all: &mut Competition<'_>, settings: ByScore) {
        for place in 0..all.order.len() {
            let u = all.order[place];
            if !all.is_open(u) {
                continue;
            }
            if all.used + all.price(u) <= all.allowance {
                all.offer(u);
            } else {
                self.offer_shorter(all, u);
                if place < settings.passages && all.is_open(u) && !all.is_duplicate(u) {
                    self.offer_passage(all, u, all.allowance);
                }
            }
        }
    }

    /// Keeps a unit that does not fit whole in one of its shorter forms, or
    /// cut, if that is allowed.
    fn offer_shorter(&mut self, all: &mut Competition<'_>, u: usize) {
        let &[(i, _)] = all.units[u].decided.as_slice() else {
            return;
        };
        let item = all.items[i];
        let may_be_cut = item.cut != Cut::Never && !self.framed;
        if item.group.is_some() || item.forms.is_empty() && !may_be_cut {
            return;
        }
        let left = all.allowance.saturating_sub(all.used + all.opening(u));
        let outcome = self.single(&mut item.clone(), left);
        if outcome.is_kept() {
            all.units[u].tokens = outcome.tokens();
            all.units[u].decided = smallvec![(i, outcome)];
            all.keep(u);
        }
    }

    /// Keeps a passage of a unit that is larger than the rest of `room`.
    fn offer_passage(&mut self, all: &mut Competition<'_>, u: usize, room: Tokens) {
        let left = room.saturating_sub(all.used + all.opening(u));
        let Some(item) = all.only_item(u).filter(|_| left >= LEAST_PASSAGE) else {
            return;
        };
        let curator = all.curator.clone();
        let form = curator.and_then(|curator| curator.passage(item, left, self.counts));
        let Some(form) = form else { return };
        let tokens = self.size(&form.text, left).tokens + self.wrapper(item, &form.text);
        if (LEAST_PASSAGE..=left).contains(&tokens) {
            all.units[u].tokens = tokens;
            all.units[u].state = State::Shorter(form);
            all.keep(u);
        }
    }

    /// Summarises what scores lowest while something that scores higher has no
    /// room.
    fn summarise(&mut self, all: &mut Competition<'_>) {
        let score = |all: &Competition<'_>, u: usize| {
            let item = all.only_item(u);
            item.and_then(|item| item.score).unwrap_or(0.0)
        };
        let mut lowest: Vec<(f64, usize)> = (all.kept.iter().copied())
            .filter(|&u| {
                let long = all.units[u].tokens >= LEAST_SUMMARISED;
                long && matches!(all.units[u].state, State::Kept) && all.only_item(u).is_some()
            })
            .map(|u| (score(all, u), u))
            .collect();
        lowest.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        // What summaries of the first few would leave, for every number of them.
        let mut would_leave: Vec<Tokens> = vec![0];
        let mut sum = 0;
        would_leave.extend(lowest.iter().map(|(_, low)| {
            sum += all.units[*low].tokens * 2 / 3;
            sum
        }));
        let mut done = 0;
        for place in 0..all.order.len() {
            let u = all.order[place];
            if !all.is_open(u) || !all.units[u].usable {
                continue;
            }
            let price = all.price(u);
            let own = score(all, u);
            // Only what scores less, and only when that is enough.
            let lacking = (all.used + price).saturating_sub(all.allowance);
            let below = lowest.partition_point(|(low, _)| *low < own).max(done);
            if would_leave[below] - would_leave[done] < lacking {
                continue;
            }
            while all.used + price > all.allowance && done < below {
                self.summarise_one(all, lowest[done].1);
                done += 1;
            }
            if all.used + price <= all.allowance {
                all.offer(u);
            }
        }
    }

    fn summarise_one(&mut self, all: &mut Competition<'_>, u: usize) {
        let before = all.units[u].tokens;
        let Some(item) = all.only_item(u) else { return };
        let curator = all.curator.clone();
        let form = curator.and_then(|curator| curator.summary(item, before / 3, self.counts));
        let Some(form) = form else { return };
        let tokens = self.size(&form.text, before).tokens + self.wrapper(item, &form.text);
        if tokens >= before {
            return;
        }
        all.used -= before - tokens;
        if let Some(spent) = all.spent.get_mut(all.subs[all.units[u].sub].share) {
            *spent = spent.saturating_sub(before - tokens);
        }
        all.units[u].tokens = tokens;
        all.units[u].state = State::Shorter(form);
    }

    /// Returns the body of the block that the units kept now would make, and its
    /// tokens. The body is written to `buffer`.
    fn block(
        &self,
        all: &Competition<'_>,
        layer: &Layer,
        pinned: &[Option<Outcome>],
        sub_of: &[usize],
        buffer: String,
    ) -> Option<(String, Tokens)> {
        let frame = layer.frame.as_ref()?;
        let mut shown: Vec<Option<&Outcome>> = pinned.iter().map(Option::as_ref).collect();
        let mut forms: Vec<(usize, Outcome)> = Vec::new();
        for &u in &all.kept {
            let unit = &all.units[u];
            for (i, outcome) in &unit.decided {
                shown[*i] = Some(outcome);
            }
            forms.extend(unit.form());
        }
        for (i, outcome) in &forms {
            shown[*i] = Some(outcome);
        }
        let mut by_sub: Vec<Vec<(&Item, &Outcome)>> = Vec::new();
        by_sub.resize_with(all.subs.len(), Vec::new);
        for (i, outcome) in shown.into_iter().enumerate() {
            if let Some(outcome) = outcome.filter(|outcome| outcome.is_kept()) {
                by_sub[sub_of[i]].push((all.items[i], outcome));
            }
        }
        let mut by_sub = by_sub.into_iter();
        self.composed(frame, &kept_lines(layer, &mut by_sub), buffer)
    }
}

impl Unit {
    /// Returns the outcome of the only item of a unit that is shown in a shorter
    /// form, with the index of the item.
    fn form(&self) -> Option<(usize, Outcome)> {
        match (&self.state, self.decided.as_slice()) {
            (State::Shorter(form), [(i, _)]) => {
                let outcome = Outcome::Form {
                    form: form.clone(),
                    tokens: self.tokens,
                    original: self.whole,
                };
                Some((*i, outcome))
            }
            _ => None,
        }
    }
}

/// Returns the lines of a layer, and of those inside it, in the order that they
/// are sent. The items are given layer by layer.
fn kept_lines<'a>(
    layer: &'a Layer,
    by_sub: &mut dyn Iterator<Item = Vec<(&'a Item, &'a Outcome)>>,
) -> KeptLines<'a> {
    let mut lines = by_sub.next().unwrap_or_default();
    if layer.order == Order::Priority {
        let rank = |item: &Item| item.score.unwrap_or(item.priority);
        lines.sort_by(|(a, _), (b, _)| rank(b).total_cmp(&rank(a)));
    }
    KeptLines {
        heading: layer.heading.as_ref(),
        lines,
        inside: (layer.layers.iter())
            .map(|layer| kept_lines(layer, by_sub))
            .collect(),
    }
}

/// Returns the number of items of a layer and of its nested layers.
fn count_items(layer: &Layer) -> usize {
    layer.items.len() + layer.layers.iter().map(count_items).sum::<usize>()
}

/// Collects the items of a layer and of its nested layers, in order.
fn collect<'l>(layer: &'l Layer, items: &mut Vec<&'l Item>) {
    items.extend(&layer.items);
    layer.layers.iter().for_each(|layer| collect(layer, items));
}

/// Collects the same items for changes.
fn collect_mut<'l>(layer: &'l mut Layer, items: &mut Vec<&'l mut Item>) {
    items.extend(&mut layer.items);
    let inside = layer.layers.iter_mut();
    inside.for_each(|layer| collect_mut(layer, items));
}

/// Moves outcomes back to their layers, which have so many items each.
fn restore(
    fitted: &mut Fitted,
    counts: &mut dyn Iterator<Item = usize>,
    outcomes: &mut std::vec::IntoIter<Option<Outcome>>,
) {
    let count = counts.next().unwrap_or(0);
    fitted.outcomes.reserve_exact(count);
    fitted.outcomes.extend(outcomes.take(count));
    for fitted in &mut fitted.layers {
        restore(fitted, counts, outcomes);
    }
}

/// Returns units by rank, the best first; ties by priority, then as given.
fn ranked(items: &[&Item], groups: &Units, units: &[Unit]) -> Vec<usize> {
    let priority = |u: usize| groups.get(u).first().map_or(0.0, |&i| items[i].priority);
    let mut order: Vec<(f64, f64, usize)> = (0..units.len())
        .map(|u| (units[u].rank, priority(u), u))
        .collect();
    order.sort_by(|a, b| {
        let better = b.0.total_cmp(&a.0);
        better.then_with(|| b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2))
    });
    order.into_iter().map(|(_, _, u)| u).collect()
}

impl Competition<'_> {
    fn is_open(&self, u: usize) -> bool {
        matches!(self.units[u].state, State::Open)
    }

    /// Returns the item of a unit that has one only.
    fn only_item(&self, u: usize) -> Option<&Item> {
        match self.units[u].decided.as_slice() {
            [(i, _)] => Some(self.items[*i]),
            _ => None,
        }
    }

    /// Returns the tokens of the headings that a unit would open.
    fn opening(&self, u: usize) -> Tokens {
        let mut opening = 0;
        let mut above = Some(self.units[u].sub);
        while let Some(sub) = above {
            let sub = &self.subs[sub];
            if sub.is_open {
                break;
            }
            opening += sub.opening;
            above = sub.parent;
        }
        opening
    }

    /// Returns the tokens that a unit adds, including the headings that it
    /// would open.
    fn price(&self, u: usize) -> Tokens {
        self.units[u].tokens + self.opening(u)
    }

    /// Keeps a unit whole, unless it is kept already or has a near duplicate.
    fn offer(&mut self, u: usize) {
        if self.is_open(u) && self.units[u].usable && !self.is_duplicate(u) {
            self.units[u].state = State::Kept;
            self.keep(u);
        }
    }

    fn keep(&mut self, u: usize) {
        self.changes += 1;
        let price = self.price(u);
        self.used += price;
        let sub = self.units[u].sub;
        if let Some(spent) = self.spent.get_mut(self.subs[sub].share) {
            *spent += price;
        }
        let mut above = Some(sub);
        while let Some(sub) = above {
            self.subs[sub].is_open = true;
            above = self.subs[sub].parent;
        }
        if matches!(self.units[u].state, State::Open) {
            self.units[u].state = State::Kept;
        }
        self.kept.push(u);
        match self.keys_of(u) {
            NearKeys::Any => self.keyless.push(u),
            NearKeys::Some(keys, print) => {
                for key in &self.keys[keys] {
                    self.by_key.insert(*key, print, u);
                }
            }
        }
    }

    /// Returns the keys of a unit that near-duplicates of it share. They are
    /// asked for once.
    fn keys_of(&mut self, u: usize) -> NearKeys {
        if let Some(keys) = &self.units[u].keys {
            return keys.clone();
        }
        let start = self.keys.len();
        let mut all = std::mem::take(&mut self.keys);
        let item = self.only_item(u);
        let print = match (&self.curator, item) {
            (Some(curator), Some(item)) => curator.near_keys(item, &mut all),
            _ => None,
        };
        let keys = match print {
            Some(print) => NearKeys::Some(start..all.len(), print),
            None => NearKeys::Any,
        };
        self.keys = all;
        self.units[u].keys = Some(keys.clone());
        keys
    }

    /// Returns the kept units that may be near duplicates of a unit with these
    /// keys, in ascending order.
    fn possible_duplicates(&self, keys: &NearKeys) -> SmallVec<[usize; 16]> {
        // One without keys is compared with all, and all with one without.
        let mut units: SmallVec<[usize; 16]> = SmallVec::new();
        match keys {
            NearKeys::Any => units.extend(self.kept.iter().copied()),
            NearKeys::Some(keys, print) => {
                for key in &self.keys[keys.clone()] {
                    self.by_key.find(*key, *print, &mut units);
                }
                units.extend(self.keyless.iter().copied());
            }
        }
        units.sort_unstable();
        units.dedup();
        units
    }

    /// Returns true if a kept unit has nearly the same content, and records it.
    /// If this unit is the newer of the two, it replaces the kept one, provided
    /// that it fits.
    fn is_duplicate(&mut self, u: usize) -> bool {
        let Some(curator) = self.curator.clone() else {
            return false;
        };
        if self.only_item(u).is_none() {
            return false;
        }
        let keys = self.keys_of(u);
        let possible = self.possible_duplicates(&keys);
        let Some(item) = self.only_item(u) else {
            return false;
        };
        let like = possible.iter().find_map(|&other| {
            let is_kept = matches!(self.units[other].state, State::Kept | State::Shorter(_));
            let other_item = self.only_item(other).filter(|_| is_kept)?;
            let age = curator.near_duplicate(item, other_item)?;
            let at = self.kept.iter().position(|kept| *kept == other)?;
            Some((at, other, age))
        });
        let Some((at, other, age)) = like else {
            return false;
        };
        let fits = self.used - self.units[other].tokens + self.price(u) <= self.allowance;
        if age == Ordering::Greater && fits {
            self.kept.remove(at);
            self.used -= self.units[other].tokens;
            if let Some(spent) = self.spent.get_mut(self.subs[self.units[other].sub].share) {
                *spent = spent.saturating_sub(self.units[other].tokens);
            }
            self.units[other].state = State::Duplicate(u);
            self.units[u].state = State::Kept;
            self.keep(u);
        } else {
            self.units[u].state = State::Duplicate(other);
        }
        true
    }

    /// Removes the kept unit with the lowest rank. Returns false if there is
    /// none.
    fn drop_worst(&mut self) -> bool {
        let rank = |u: &usize| self.units[*u].rank;
        let worst = (0..self.kept.len())
            .min_by(|&a, &b| rank(&self.kept[a]).total_cmp(&rank(&self.kept[b])));
        let Some(at) = worst else { return false };
        let u = self.kept.remove(at);
        self.used = self.used.saturating_sub(self.units[u].tokens);
        self.units[u].state = State::Open;
        self.units[u].tokens = self.units[u].whole.tokens;
        // The unit must not be chosen again.
        self.units[u].usable = false;
        true
    }

    /// Writes the outcome of every item of the units.
    fn decide(&mut self, available: Tokens, outcomes: &mut [Option<Outcome>]) {
        let left = self.allowance.saturating_sub(self.used);
        let ahead = self.ahead();
        for (u, unit) in self.units.iter().enumerate() {
            if matches!(unit.state, State::Kept | State::Shorter(_)) {
                continue;
            }
            for (i, decided) in &unit.decided {
                let outcome = match (&unit.state, decided) {
                    (State::Duplicate(of), _) => Outcome::Duplicate {
                        of: match self.only_item(*of) {
                            Some(item) => Arc::clone(&item.id),
                            None => "".into(),
                        },
                        size: unit.whole,
                    },
                    (_, Outcome::Absent { .. }) => decided.clone(),
                    (_, Outcome::Dropped { code, .. }) if *code == Code::GROUP_DROPPED => {
                        decided.clone()
                    }
                    _ => Outcome::Dropped {
                        code: super::over_budget(unit.whole.tokens, available, self.items[*i].cut),
                        needs: Size {
                            tokens: unit.whole.tokens + self.opening(u),
                            exact: unit.whole.exact,
                        },
                        left,
                        ahead: Some(ahead[u]),
                    },
                };
                outcomes[*i] = Some(outcome);
            }
        }
        for &u in &self.kept {
            let unit = &mut self.units[u];
            let form = unit.form();
            for (i, outcome) in unit.decided.drain(..) {
                outcomes[i] = Some(outcome);
            }
            if let Some((i, outcome)) = form {
                outcomes[i] = Some(outcome);
            }
        }
    }

    /// Returns the tokens that units with higher scores would get, if there were
    /// more, before each unit that is left out.
    fn ahead(&self) -> Vec<Size> {
        let is_out = |unit: &Unit| {
            let is_decided = matches!(
                unit.state,
                State::Kept | State::Shorter(_) | State::Duplicate(_)
            );
            !is_decided && unit.usable
        };
        let out = (0..self.units.len()).filter(|&u| is_out(&self.units[u]));
        let mut sum = Size::ZERO;
        let mut ahead = vec![Size::ZERO; self.units.len()];
        for u in super::highest_first(out.collect(), |u| self.units[u].rank) {
            ahead[u] = sum;
            let whole = self.units[u].whole;
            sum.add(Size {
                tokens: whole.tokens + self.opening(u),
                ..whole
            });
        }
        ahead
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn kept_units_are_found_by_each_of_their_keys() {
        let print = |unit: usize| NearPrint {
            bits: u64::from(unit % 2 == 1),
            most_apart: 1,
        };
        for size in [0, 1, 100] {
            let mut kept = KeptByKey::new(size);
            let mut expected: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for unit in 0..200_usize {
                for key in [unit as u32 % 7, (unit as u32).wrapping_mul(77_777_777)] {
                    kept.insert(key, print(unit), unit);
                    expected.entry(key).or_default().push(unit);
                }
            }
            let units = |key: u32, print: NearPrint| {
                let mut found = SmallVec::new();
                kept.find(key, print, &mut found);
                found.sort_unstable();
                found.to_vec()
            };
            for (key, expected) in &expected {
                let found = units(*key, print(0));
                assert_eq!(&found, expected);
            }
            assert_eq!(units(12_345, print(0)), Vec::<usize>::new());
            // The prints of these differ in three bits.
            let other = NearPrint {
                bits: 0b111,
                most_apart: 1,
            };
            assert!(!units(3, other).contains(&10));
        }
    }
}
