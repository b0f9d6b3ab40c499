//! [`assemble`]: the whole decision as one function.
//!
//! It charges pinned items, gives each layer its share, passes on unused
//! tokens, lays out the kept items, and reports every candidate. Content is
//! loaded only for items that could still fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_guard::{Finding, FindingKind, Mark, MarkKey};

use crate::budget::Budget;
use crate::code::Code;
use crate::counts::{Counts, Tokens};
use crate::error::{Error, Piece};
use crate::fit::{Fit, Fitter, Gap, Outcome, highest_first};
use crate::item::{Content, Item, Role};
use crate::layer::{Frame, Layer, Order, Place};
use crate::layout::{Block, BlockText, Layout, Section};
use crate::markup;
use crate::report::{
    BudgetReport, Excluded, GuardLine, Included, LayerBudget, Reason, Report, TokenizerInfo,
};
use crate::room::{LayerRoom, Rooms};
use crate::text::Text;

/// An assembled request and its report.
#[derive(Debug, Clone, PartialEq)]
pub struct Assembly {
    /// The kept blocks, in the order in which they are sent.
    pub layout: Layout,
    /// One row for every candidate, and the budget.
    pub report: Report,
}

/// Decides which items are sent, and returns the request with its report.
///
/// Pinned items are charged first. Each layer then gets its share of the
/// remaining tokens, in the order given; layers that need more then get the
/// tokens that others left unused. `load` is called for items whose content is
/// still [pending](Content::Pending), at most once each, and only if they might
/// fit.
///
/// Fails if the pinned items alone do not fit. The tokens of the
/// [rendered](markup::render) request never exceed [`Budget::available`].
pub fn assemble(
    mut layers: Vec<Layer>,
    budget: Budget,
    counts: &Counts,
    load: &mut dyn FnMut(&Item) -> Content,
) -> Result<Assembly, Error> {
    assemble_layers(&mut layers, budget, counts, load)
}

/// Does the same as [`assemble`] for borrowed layers, so that they can be
/// changed and fitted again. Content that was loaded stays loaded.
pub fn assemble_layers(
    layers: &mut [Layer],
    budget: Budget,
    counts: &Counts,
    load: &mut dyn FnMut(&Item) -> Content,
) -> Result<Assembly, Error> {
    let mut limit = budget.available();
    let mut step: Tokens = 1;
    loop {
        let fitted = fit_all(layers, limit, budget.available(), counts, load)?;
        let sections = arrange(layers, &fitted);
        let mut layout = lay_out(&sections);
        layout.choose_mark(counts.key());
        let mut used = layout.tokens();
        let counter = counts.counter();
        // The block of a frame is counted as it is sent, and there is no other.
        let is_one_block = matches!(&*layers, [layer] if layer.frame.is_some());
        let adds_up = is_one_block || markup::adds_up(&layout, counter);
        let counted = if counter.sums_are_bounds() && adds_up {
            used
        } else {
            counter.count(&markup::render(&layout)) + layout.surcharges()
        };
        if counted <= budget.available() {
            used = used.max(counted);
            let mut report = account(layers, &fitted, &sections, used, budget, counts);
            note_used_marks(&mut report, &layout, counts.key());
            return Ok(Assembly { layout, report });
        }
        // Smaller items may fill the space of items that no longer fit, so
        // lowering the limit by the excess alone may never be enough: the
        // reduction doubles each time.
        if limit == 0 {
            return Err(Error::count_does_not_settle(counted, budget.available()));
        }
        let excess = counted - budget.available();
        limit = limit.saturating_sub(excess.saturating_mul(step));
        step = step.saturating_mul(2);
    }
}

/// A loader for layers without pending content.
pub fn no_loader(_: &Item) -> Content {
    Content::Absent {
        code: Code::UNREADABLE,
        reason: "no loader is available".to_owned(),
    }
}

/// The outcome of one layer.
#[derive(Debug, Default)]
pub(crate) struct Fitted {
    /// The outcome of each item. `None` while it is undecided.
    pub(crate) outcomes: Vec<Option<Outcome>>,
    /// The position of the part of a path that was removed.
    pub(crate) gap: Option<Gap>,
    /// The block of a frame with the kept items, with its tokens.
    pub(crate) block: Option<(Text, Tokens)>,
    pub(crate) pinned: Tokens,
    pub(crate) allowed: Tokens,
    /// The outcomes of nested layers.
    pub(crate) layers: Vec<Fitted>,
}

impl Fitted {
    /// Returns the tokens spent, including pinned items.
    pub(crate) fn spent(&self) -> Tokens {
        match &self.block {
            Some((_, tokens)) => *tokens,
            None => self.items_spent() + self.layers.iter().map(Fitted::spent).sum::<Tokens>(),
        }
    }

    fn items_spent(&self) -> Tokens {
        let gap = self.gap.as_ref().map_or(0, |gap| gap.outcome.tokens());
        self.outcomes
            .iter()
            .flatten()
            .map(Outcome::tokens)
            .sum::<Tokens>()
            + gap
    }

    /// Returns true if more tokens would show more content.
    pub(crate) fn wants_more(&self) -> bool {
        self.outcomes.iter().flatten().any(Outcome::wants_more)
            || self.layers.iter().any(Fitted::wants_more)
    }

    /// Clears the outcomes of items that are not pinned.
    fn reopen(&mut self, layer: &Layer) {
        for (item, outcome) in layer.items.iter().zip(&mut self.outcomes) {
            if !item.pinned {
                *outcome = None;
            }
        }
        self.gap = None;
        self.block = None;
        for (layer, fitted) in layer.layers.iter().zip(&mut self.layers) {
            fitted.reopen(layer);
        }
    }
}

fn fit_all(
    layers: &mut [Layer],
    limit: Tokens,
    available: Tokens,
    counts: &Counts,
    load: &mut dyn FnMut(&Item) -> Content,
) -> Result<Vec<Fitted>, Error> {
    let mut fitter = Fitter {
        counts,
        available,
        load,
        framed: false,
    };
    layers.iter_mut().for_each(pin_groups);
    let mut fitted: Vec<Fitted> = (layers.iter_mut())
        .map(|layer| charge_pinned(&mut fitter, layer))
        .collect();
    let charged: Tokens = fitted.iter().map(|layer| layer.pinned).sum();
    if charged > available {
        let mut pieces = Vec::new();
        for (layer, fitted) in layers.iter().zip(&fitted) {
            pinned_pieces(layer, fitted, &mut pieces);
        }
        return Err(Error::pinned_over_budget(charged, available, pieces));
    }
    // Pinned items are kept, however low the limit is.
    give_shares(&mut fitter, layers, &mut fitted, limit.max(charged));
    Ok(fitted)
}

/// Pins the group of a pinned item, because its members belong together.
fn pin_groups(layer: &mut Layer) {
    let groups: BTreeSet<Arc<str>> = layer
        .items
        .iter()
        .filter(|item| item.pinned)
        .filter_map(|item| item.group.clone())
        .collect();
    for item in &mut layer.items {
        item.pinned |= item
            .group
            .as_ref()
            .is_some_and(|group| groups.contains(group));
    }
    layer.layers.iter_mut().for_each(pin_groups);
}

/// Charges the pinned items of a layer before anything else.
fn charge_pinned(fitter: &mut Fitter<'_>, layer: &mut Layer) -> Fitted {
    let around = fitter.framed;
    fitter.framed |= layer.frame.is_some();
    let outcomes: Vec<Option<Outcome>> = layer
        .items
        .iter_mut()
        .map(|item| item.pinned.then(|| fitter.pinned(item)))
        .collect();
    let layers: Vec<Fitted> = (layer.layers.iter_mut())
        .map(|layer| charge_pinned(fitter, layer))
        .collect();
    let own: Tokens = outcomes.iter().flatten().map(Outcome::tokens).sum();
    let mut pinned = own + layers.iter().map(|layer| layer.pinned).sum::<Tokens>();
    if fitter.framed && pinned > 0 {
        pinned += fitter.opening(layer);
    }
    fitter.framed = around;
    Fitted {
        outcomes,
        pinned,
        allowed: pinned,
        layers,
        ..Fitted::default()
    }
}

fn pinned_pieces(layer: &Layer, fitted: &Fitted, pieces: &mut Vec<Piece>) {
    for (item, outcome) in layer.items.iter().zip(&fitted.outcomes) {
        if let Some(outcome) = outcome {
            pieces.push(Piece {
                id: item.id.to_string(),
                tokens: outcome.tokens(),
            });
        }
    }
    for (layer, fitted) in layer.layers.iter().zip(&fitted.layers) {
        pinned_pieces(layer, fitted, pieces);
    }
}

/// Gives each of the layers that share `limit` tokens (pinned items included)
/// its share, and distributes the unused tokens.
fn give_shares(
    fitter: &mut Fitter<'_>,
    layers: &mut [Layer],
    fitted: &mut [Fitted],
    limit: Tokens,
) {
    let charged: Tokens = fitted.iter().map(|layer| layer.pinned).sum();
    // Each layer gets its share minus the tokens of its pinned items, but
    // leaves enough for the guaranteed minimums of the layers after it.
    let mut left = limit.saturating_sub(charged);
    let owed: Vec<Tokens> = layers
        .iter()
        .zip(&*fitted)
        .map(|(layer, fitted)| {
            let least = layer.share.cap(layer.share.min);
            least.saturating_sub(fitted.pinned)
        })
        .collect();
    for (i, layer) in layers.iter_mut().enumerate() {
        let owed_behind: Tokens = owed[i + 1..].iter().sum();
        let pinned = fitted[i].pinned;
        let target = layer.share.target(limit).saturating_sub(pinned);
        let allowed = target.min(left.saturating_sub(owed_behind).max(owed[i].min(left)));
        fit_layer(fitter, layer, &mut fitted[i], allowed);
        left = left.saturating_sub(fitted[i].spent().saturating_sub(pinned));
    }

    // Unused tokens are offered to the layers that need more, in the same
    // order.
    for (layer, fitted) in layers.iter_mut().zip(fitted) {
        let used = fitted.spent().saturating_sub(fitted.pinned);
        let most = layer.share.cap(limit).saturating_sub(fitted.pinned);
        let allowed = (used + left).min(most);
        let more = allowed + fitted.pinned > fitted.allowed;
        if !more || !fitted.wants_more() {
            continue;
        }
        fitted.reopen(layer);
        fit_layer(fitter, layer, fitted, allowed);
        left = (left + used).saturating_sub(fitted.spent().saturating_sub(fitted.pinned));
    }
}

/// Fits a layer and its nested layers into `allowed` tokens, not counting
/// pinned items.
fn fit_layer(fitter: &mut Fitter<'_>, layer: &mut Layer, fitted: &mut Fitted, allowed: Tokens) {
    fitted.allowed = allowed + fitted.pinned;
    let around = fitter.framed;
    fitter.framed |= layer.frame.is_some();
    if let Fit::ByScore(by_score) = layer.fit {
        fitter.by_score(by_score, layer, fitted, allowed);
    } else {
        // The tokens that open a frame, or a part of one, are reserved before
        // it is known whether they are needed.
        let opening = match fitter.framed && fitted.pinned == 0 {
            true => fitter.opening(layer),
            false => 0,
        };
        let mut left = allowed.saturating_sub(opening);
        let before = fitted.items_spent();
        fitted.gap = fitter.fit(&layer.fit, &mut layer.items, &mut fitted.outcomes, left);
        left = left.saturating_sub(fitted.items_spent() - before);
        let inside: Tokens = fitted.layers.iter().map(|layer| layer.pinned).sum();
        give_shares(fitter, &mut layer.layers, &mut fitted.layers, left + inside);
    }
    if layer.frame.is_some() && fitted.block.is_none() {
        fitted.block = fitter.compose(layer, fitted);
    }
    fitter.framed = around;
}

/// A kept item, or the block of a framed layer, at its position in the request.
#[derive(Clone, Copy)]
enum LayoutEntry<'a> {
    /// An item, or the marker of its layer.
    Item {
        layer: &'a Layer,
        item: &'a Item,
        outcome: &'a Outcome,
        is_marker: bool,
    },
    /// A layer whose items are lines of one block.
    Frame {
        layer: &'a Layer,
        frame: &'a Frame,
        fitted: &'a Fitted,
    },
}

impl LayoutEntry<'_> {
    fn role(&self) -> Role {
        match self {
            LayoutEntry::Item { item, .. } => item.role,
            LayoutEntry::Frame { frame, .. } => frame.role,
        }
    }
}

/// Returns the kept items by section, in the order they are sent.
fn arrange<'a>(layers: &'a [Layer], fitted: &'a [Fitted]) -> [Vec<LayoutEntry<'a>>; 3] {
    let mut sections: [Vec<LayoutEntry<'a>>; 3] = Default::default();
    for (layer, fitted) in layers.iter().zip(fitted) {
        arrange_layer(layer, fitted, &mut sections);
    }
    // The header has no tag, so nothing may be placed before it. The operator's
    // instructions come before all other text.
    sections[Section::System as usize].sort_by_key(|placed| placed.role().min(Role::Developer));
    sections
}

fn arrange_layer<'a>(
    layer: &'a Layer,
    fitted: &'a Fitted,
    sections: &mut [Vec<LayoutEntry<'a>>; 3],
) {
    let mut put = |placed: LayoutEntry<'a>| {
        sections[section(layer.place, placed.role()) as usize].push(placed);
    };
    if let Some(frame) = &layer.frame {
        if fitted.block.is_some() {
            put(LayoutEntry::Frame {
                layer,
                frame,
                fitted,
            });
        }
        return;
    }
    let marker = |gap: &'a Gap| LayoutEntry::Item {
        layer,
        item: &gap.item,
        outcome: &gap.outcome,
        is_marker: true,
    };
    let mut gap = fitted.gap.as_ref();
    for (i, outcome) in kept_in_order(layer, fitted) {
        if let Some(gap) = gap.take_if(|gap| gap.before <= i) {
            put(marker(gap));
        }
        put(LayoutEntry::Item {
            layer,
            item: &layer.items[i],
            outcome,
            is_marker: false,
        });
    }
    if let Some(gap) = gap {
        put(marker(gap));
    }
    for (layer, fitted) in layer.layers.iter().zip(&fitted.layers) {
        arrange_layer(layer, fitted, sections);
    }
}

/// Returns the kept items of a layer in the order they are sent.
pub(crate) fn kept_in_order<'a>(
    layer: &Layer,
    fitted: &'a Fitted,
) -> impl Iterator<Item = (usize, &'a Outcome)> {
    let mut order: Vec<usize> = (0..layer.items.len())
        .filter(|&i| fitted.outcomes[i].as_ref().is_some_and(Outcome::is_kept))
        .collect();
    // The order of a path never changes.
    if layer.order == Order::Priority && !matches!(layer.fit, Fit::Path(_)) {
        let rank = |i: usize| layer.items[i].score.unwrap_or(layer.items[i].priority);
        order = highest_first(order, rank);
    }
    order
        .into_iter()
        .filter_map(|i| Some((i, fitted.outcomes[i].as_ref()?)))
}

fn lay_out(sections: &[Vec<LayoutEntry<'_>>; 3]) -> Layout {
    let [system, history, current] = sections;
    let blocks = |placed: &Vec<LayoutEntry<'_>>, section: Section| {
        let mut blocks = Vec::with_capacity(placed.len());
        blocks.extend(placed.iter().filter_map(|entry| block(entry, section)));
        blocks
    };
    Layout {
        mark: Mark::ANY,
        system: blocks(system, Section::System),
        history: blocks(history, Section::History),
        current: blocks(current, Section::Current),
    }
}

fn block(placed: &LayoutEntry<'_>, section: Section) -> Option<Block> {
    let is_recorded =
        |layer: &Layer| layer.volatile && layer.recorded && section == Section::Current;
    match placed {
        LayoutEntry::Frame {
            layer,
            frame,
            fitted,
        } => {
            let (text, tokens) = fitted.block.as_ref()?;
            Some(Block {
                trust: frame.trust,
                path: frame.path.clone(),
                tokens: *tokens,
                volatile: layer.volatile && !is_recorded(layer),
                recorded: is_recorded(layer),
                ..Block::new(
                    Arc::clone(&layer.name),
                    Arc::clone(&layer.name),
                    frame.role,
                    text.clone(),
                )
            })
        }
        LayoutEntry::Item {
            layer,
            item,
            outcome,
            ..
        } => {
            let whole = matches!(outcome, Outcome::Whole { .. });
            let shown = match outcome {
                Outcome::Whole { text, .. } => BlockText::Whole(text.clone()),
                Outcome::Form { form, .. } => BlockText::Whole(form.text.clone()),
                Outcome::Cut { text, .. } => BlockText::Cut(text.clone()),
                _ => return None,
            };
            Some(Block {
                id: Arc::clone(&item.id),
                layer: Arc::clone(&layer.name),
                role: item.role,
                part: item.part.clone(),
                native: item.native.clone().filter(|_| whole),
                join: item.join,
                trust: item.trust,
                path: item.path.clone(),
                tokens: outcome.tokens(),
                surcharge: item.surcharge,
                volatile: layer.volatile && !is_recorded(layer),
                recorded: is_recorded(layer),
                group: item.group.clone(),
                shown,
            })
        }
    }
}

fn section(place: Place, role: Role) -> Section {
    // Without a tag, the header could not be recognised in any other section.
    if role == Role::Header {
        return Section::System;
    }
    match place {
        Place::System => Section::System,
        Place::History => Section::History,
        Place::Current => Section::Current,
        Place::ByRole if role <= Role::System => Section::System,
        Place::ByRole => Section::Current,
    }
}

fn account(
    layers: &[Layer],
    fitted: &[Fitted],
    sections: &[Vec<LayoutEntry<'_>>; 3],
    used: Tokens,
    budget: Budget,
    counts: &Counts,
) -> Report {
    let mut report = Report {
        tokenizer: TokenizerInfo {
            name: counts.counter().name().to_owned(),
            exact: counts.counter().is_exact(),
        },
        budget: BudgetReport {
            max: budget.window(),
            reserved: budget.reserved(),
            effective: budget.available(),
            used,
            remaining: budget.window() - used,
            available: budget.available() - used,
            layers: Vec::with_capacity(layers.len()),
        },
        included: Vec::with_capacity(sections.iter().map(Vec::len).sum()),
        ..Report::default()
    };
    let rooms = Rooms::of(layers, fitted);
    for placed in sections.iter().flatten() {
        match placed {
            LayoutEntry::Item {
                layer,
                item,
                outcome,
                is_marker,
            } => {
                note_findings(&mut report, item, outcome);
                let room = rooms.of_layer(&layer.name);
                let mut row = included(&layer.name, item, outcome, room);
                if *is_marker {
                    (row.code, row.reason) = (Code::MARKER, Reason::Marker);
                }
                report.included.push(row);
            }
            LayoutEntry::Frame { layer, fitted, .. } => {
                let from = report.included.len();
                report.included.reserve(kept_count(fitted));
                include_lines(&mut report, &layer.name, layer, fitted);
                let rows = &mut report.included[from..];
                let tokens = fitted.block.as_ref().map_or(0, |(_, tokens)| *tokens);
                spread(rows, tokens);
            }
        }
    }
    for (layer, fitted) in layers.iter().zip(fitted) {
        let row = layer_budget(layer, fitted);
        report.budget.layers.push(row);
        exclude_layer(&mut report, &rooms, &layer.name, layer, fitted, false);
    }
    report
}

/// Adds a row for each item of a framed layer, in the order of its lines.
fn include_lines(report: &mut Report, name: &Arc<str>, layer: &Layer, fitted: &Fitted) {
    for (i, outcome) in kept_in_order(layer, fitted) {
        note_findings(report, &layer.items[i], outcome);
        let row = included(name, &layer.items[i], outcome, LayerRoom::default());
        report.included.push(row);
    }
    for (layer, fitted) in layer.layers.iter().zip(&fitted.layers) {
        include_lines(report, name, layer, fitted);
    }
}

/// Returns the number of kept items of a layer and of its nested layers.
fn kept_count(fitted: &Fitted) -> usize {
    let own = fitted.outcomes.iter().flatten();
    own.filter(|outcome| outcome.is_kept()).count()
        + fitted.layers.iter().map(kept_count).sum::<usize>()
}

/// Makes the rows of a block add up to its tokens: the first row is charged for
/// headings and tags.
fn spread(rows: &mut [Included], total: Tokens) {
    let mut left = total;
    for row in rows.iter_mut() {
        // Lines may count a little less together than one by one.
        let own = row.tokens.min(left);
        row.original_tokens -= row.tokens - own;
        row.tokens = own;
        left -= own;
    }
    if let Some(first) = rows.first_mut() {
        first.tokens += left;
        first.original_tokens += left;
    }
}

fn layer_budget(layer: &Layer, fitted: &Fitted) -> LayerBudget {
    let layers: Vec<LayerBudget> = (layer.layers.iter().zip(&fitted.layers))
        .map(|(layer, fitted)| layer_budget(layer, fitted))
        .collect();
    let sum = |count: fn(&LayerBudget) -> usize| layers.iter().map(count).sum::<usize>();
    let mut row = LayerBudget {
        name: Arc::clone(&layer.name),
        allowed: fitted.allowed,
        used: fitted.spent(),
        pinned: fitted.pinned,
        kept: sum(|layer| layer.kept),
        cut: sum(|layer| layer.cut),
        dropped: sum(|layer| layer.dropped),
        layers: Vec::new(),
    };
    // A group of lines without a name is not reported as a layer.
    row.layers = layers
        .into_iter()
        .filter(|layer| !layer.name.is_empty())
        .collect();
    for (item, outcome) in layer.items.iter().zip(&fitted.outcomes) {
        let Some(outcome) = outcome else { continue };
        if outcome.is_kept() {
            row.kept += 1;
            let is_whole = matches!(outcome, Outcome::Whole { .. }) && item.original.is_none();
            row.cut += usize::from(!is_whole);
        } else {
            row.dropped += 1;
        }
    }
    row
}

fn exclude_layer(
    report: &mut Report,
    rooms: &Rooms<'_>,
    name: &Arc<str>,
    layer: &Layer,
    fitted: &Fitted,
    framed: bool,
) {
    let framed = framed || layer.frame.is_some();
    let room = rooms.of_layer(&layer.name);
    // The last item of the run that the previous row reports.
    let mut run: Option<&Item> = None;
    for (item, outcome) in layer.items.iter().zip(&fitted.outcomes) {
        let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.is_kept()) else {
            run = None;
            continue;
        };
        let row = excluded(name, item, outcome, room);
        let is_run = row.code == Code::BEFORE_WINDOW;
        match (report.excluded.last_mut(), run) {
            // All items before a window share one row.
            (Some(last), Some(previous)) if is_run => {
                last.items = Some(last.items.unwrap_or(1) + 1);
                last.through = Some(row.id);
                // The tokens of a group are counted once.
                if item.group.is_none() || item.group != previous.group {
                    last.tokens = last.tokens.saturating_add(row.tokens);
                }
                last.estimated |= row.estimated;
            }
            _ => report.excluded.push(row),
        }
        run = is_run.then_some(item);
    }
    for (inner, fitted) in layer.layers.iter().zip(&fitted.layers) {
        // Items inside a frame are reported under the layer that has the frame.
        let name = match framed {
            true => name,
            false => &inner.name,
        };
        exclude_layer(report, rooms, name, inner, fitted, framed);
    }
}

/// Adds to the report the blocks whose content holds a mark of `key` that would
/// otherwise have been used for the tags of this request.
fn note_used_marks(report: &mut Report, layout: &Layout, key: &MarkKey) {
    let used = key.marks().take_while(|mark| *mark != layout.mark);
    for (mark, block) in used.filter_map(|mark| Some((mark, layout.holder_of(mark)?))) {
        let before = block.text().split(mark.as_str()).next().unwrap_or_default();
        let line = before.matches('\n').count() as u32 + 1;
        report.guard.push(GuardLine {
            item: Arc::clone(block.path.as_ref().unwrap_or(&block.id)),
            finding: Finding {
                kind: FindingKind::Boundary,
                what: format!("mark {mark}"),
                line,
                count: 1,
            },
        });
    }
}

/// Adds the guard's changes in the shown part of an item to the report, with
/// the line numbers of its file.
fn note_findings(report: &mut Report, item: &Item, outcome: &Outcome) {
    let Content::Ready(text) = &item.content else {
        return;
    };
    let gone = match outcome {
        Outcome::Cut { text, .. } => Some(text.lines),
        _ => None,
    };
    for finding in text.findings() {
        let line = finding
            .line
            .saturating_add(item.first_line.saturating_sub(1));
        // Of several occurrences, some may remain even if the first was
        // removed.
        let is_gone = gone.is_some_and(|gone| {
            finding.count == 1 && !gone.partial && (gone.first..=gone.last).contains(&line)
        });
        if !is_gone {
            report.guard.push(GuardLine {
                item: Arc::clone(item.path.as_ref().unwrap_or(&item.id)),
                finding: Finding {
                    line,
                    ..finding.clone()
                },
            });
        }
    }
}

fn included(layer: &Arc<str>, item: &Item, outcome: &Outcome, room: LayerRoom) -> Included {
    let tokens = outcome.tokens();
    let shortened = item.original.as_deref();
    let (code, original, lines_cut, form) = match outcome {
        Outcome::Cut {
            text,
            original,
            code,
            ..
        } => (*code, Some(original), Some(text.lines), None),
        Outcome::Form { form, original, .. } => (Code::CUT, Some(original), None, Some(form.kind)),
        _ if item.replaced.is_some() => (Code::MEDIA_LIMIT, None, None, None),
        _ if item.pinned => (Code::PINNED, None, None, None),
        _ if shortened.is_some_and(|from| from.max_tokens.is_none()) => {
            (Code::CLEARED, None, None, None)
        }
        _ if shortened.is_some() => (Code::TOKEN_LIMIT, None, None, None),
        _ => (Code::FITS, None, None, None),
    };
    // Lines that the source removed earlier are counted, too.
    let lines_cut = shortened.map(|from| from.lines).or(lines_cut);
    let original_tokens = match shortened {
        Some(from) => from.tokens,
        None => original.map_or(tokens, |size| size.tokens),
    };
    let reason = match code {
        Code::MEDIA_LIMIT => {
            Reason::Unusable(item.replaced.as_deref().unwrap_or_default().to_owned())
        }
        Code::PINNED => Reason::Pinned,
        Code::FITS => Reason::Fits,
        Code::CLEARED => Reason::Cleared {
            tokens: original_tokens,
        },
        Code::LINE_LIMIT => Reason::LineLimit {
            max_lines: item.max_lines.unwrap_or_default(),
        },
        Code::TOKEN_LIMIT => Reason::TokenLimit {
            max_tokens: match shortened {
                Some(from) => from.max_tokens.unwrap_or_default(),
                None => item.max_tokens.unwrap_or_default(),
            },
        },
        _ => {
            let (most, ahead) = match outcome {
                Outcome::Cut { most, ahead, .. } if shortened.is_none() => {
                    (most.tokens, ahead.tokens)
                }
                _ => (original_tokens, 0),
            };
            let missing = most.saturating_sub(tokens) + ahead;
            Reason::Cut {
                missing,
                part: lines_cut.map(|_| item.cut),
                is_limited: most < original_tokens,
                is_behind: ahead > 0,
                room: room.for_missing(missing),
            }
        }
    };
    Included {
        path: item.path.clone(),
        id: Arc::clone(&item.id),
        layer: Arc::clone(layer),
        role: item.role,
        trust: item.trust,
        tokens,
        truncated: lines_cut.is_some() || form.is_some() || item.replaced.is_some(),
        original_tokens,
        original_estimated: shortened.is_some() || original.is_some_and(|size| !size.exact),
        priority: item.priority,
        base_priority: item.base_priority,
        score: item.score,
        scores: Arc::clone(&item.scores),
        lines_cut,
        form,
        code,
        reason,
    }
}

fn excluded(layer: &Arc<str>, item: &Item, outcome: &Outcome, room: LayerRoom) -> Excluded {
    let (code, tokens, exact, reason) = match outcome.clone() {
        Outcome::Dropped {
            code,
            needs,
            left,
            ahead,
        } => {
            let more = ahead.map(|ahead| needs.tokens.saturating_add(ahead.tokens));
            let missing = more.map(|more| more.saturating_sub(left));
            let reason = Reason::Dropped {
                code,
                needed: needs.tokens,
                exact: needs.exact,
                left,
                missing,
                exactly_missing: needs.exact && ahead.is_none_or(|ahead| ahead.exact),
                is_behind: ahead.is_some_and(|ahead| ahead.tokens > 0),
                room: room.for_missing(missing.unwrap_or_default()),
            };
            (code, needs.tokens, needs.exact, reason)
        }
        Outcome::Duplicate { of, size } => {
            let reason = Reason::Unusable(format!("near-duplicate of `{of}`"));
            (Code::NEAR_DUPLICATE, size.tokens, size.exact, reason)
        }
        Outcome::Absent { code, reason } => (code, 0, true, Reason::Unusable(reason)),
        Outcome::Whole { .. } | Outcome::Form { .. } | Outcome::Cut { .. } => {
            unreachable!("kept items are not excluded")
        }
    };
    Excluded {
        path: item.path.clone(),
        id: Arc::clone(&item.id),
        through: None,
        items: None,
        layer: Arc::clone(layer),
        role: item.role,
        tokens,
        estimated: !exact,
        priority: item.priority,
        base_priority: item.base_priority,
        score: item.score,
        scores: Arc::clone(&item.scores),
        code,
        reason,
        is_told: false,
    }
}
