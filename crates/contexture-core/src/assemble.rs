use std::collections::BTreeSet;
use std::sync::Arc;

use crate::budget::Budget;
use crate::counts::{Counts, Tokens};
use crate::error::{Error, Piece};
use crate::fit::{Fit, Fitter, Gap, Outcome, highest_first};
use crate::item::{Content, Item, Layer, Order, Place, Role};
use crate::layout::{Block, Layout, Section, Shown};
use crate::markup;
use crate::report::{
    BudgetReport, Code, Excluded, GuardLine, Included, LayerBudget, Reason, Report, TokenizerInfo,
};
use contexture_guard::Finding;

/// A finished request: what is sent, and the account of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Assembly {
    /// What is sent.
    pub layout: Layout,
    /// What became of every candidate.
    pub report: Report,
}

/// Decides what is sent.
///
/// Pinned items are charged first; each layer then gets its part of the rest,
/// in the order given, and what one leaves unused is passed on to those that
/// want more. `load` is called for items whose content is still
/// [pending](Content::Pending), at most once each, and only when they might be
/// used.
///
/// Fails when the pinned items alone do not fit. The tokens of the
/// [rendered](markup::render) request never exceed [`Budget::available`].
pub fn assemble(
    mut layers: Vec<Layer>,
    budget: Budget,
    counts: &Counts,
    load: &mut dyn FnMut(&Item) -> Content,
) -> Result<Assembly, Error> {
    let mut limit = budget.available();
    let mut step: Tokens = 1;
    loop {
        let fitted = fit_layers(&mut layers, limit, budget.available(), counts, load)?;
        let (layout, in_order) = lay_out(&layers, &fitted);
        let mut used = layout.tokens();
        let counter = counts.counter();
        let counted = if counter.sums_are_bounds() && markup::adds_up(&layout, counter) {
            used
        } else {
            counter.count(&markup::render(&layout)) + layout.surcharges()
        };
        if counted <= budget.available() {
            used = used.max(counted);
            let report = account(&layers, &fitted, &in_order, used, budget, counts);
            return Ok(Assembly { layout, report });
        }
        // Smaller items take the place of what no longer fits, so the excess
        // alone may never be enough: each time, twice as much is asked for.
        if limit == 0 {
            return Err(Error::count_does_not_settle(counted, budget.available()));
        }
        let excess = counted - budget.available();
        limit = limit.saturating_sub(excess.saturating_mul(step));
        step = step.saturating_mul(2);
    }
}

/// A loader for layers whose content is all there.
pub fn no_loader(_: &Item) -> Content {
    Content::Absent {
        code: Code::Unreadable,
        reason: "nothing can be loaded here".to_owned(),
    }
}

/// What became of one layer.
struct Fitted {
    // One for each item; `None` only while it is not decided.
    outcomes: Vec<Option<Outcome>>,
    // Where a part of a path went.
    gap: Option<Gap>,
    pinned: Tokens,
    allowed: Tokens,
}

impl Fitted {
    fn spent(&self) -> Tokens {
        let gap = self.gap.as_ref().map_or(0, |gap| gap.outcome.tokens());
        spent(&self.outcomes) + gap
    }
}

fn fit_layers(
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
    };

    // A pinned member pins its group: they only make sense together.
    for layer in layers.iter_mut() {
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
    }

    // What is never cut is charged first.
    let mut fitted: Vec<Fitted> = Vec::with_capacity(layers.len());
    for layer in layers.iter_mut() {
        let outcomes: Vec<Option<Outcome>> = layer
            .items
            .iter_mut()
            .map(|item| item.pinned.then(|| fitter.pinned(item)))
            .collect();
        let pinned = spent(&outcomes);
        fitted.push(Fitted {
            outcomes,
            gap: None,
            pinned,
            allowed: pinned,
        });
    }
    let charged: Tokens = fitted.iter().map(|layer| layer.pinned).sum();
    if charged > available {
        let pieces = layers
            .iter()
            .zip(&fitted)
            .flat_map(|(layer, fitted)| layer.items.iter().zip(&fitted.outcomes))
            .filter_map(|(item, outcome)| {
                let tokens = outcome.as_ref()?.tokens();
                let id = item.id.to_string();
                Some(Piece { id, tokens })
            })
            .collect();
        return Err(Error::pinned_over_budget(charged, available, pieces));
    }
    // However tight the limit, what is pinned stays.
    let limit = limit.max(charged);

    // Then each layer its part, less what its own pinned items took of it, but
    // leaving to the ones behind it what they are to get in any case.
    let mut left = limit - charged;
    let owed: Vec<Tokens> = layers
        .iter()
        .zip(&fitted)
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
        fitted[i].allowed = allowed + pinned;
        fitted[i].gap = fitter.fit(
            &layer.fit,
            &mut layer.items,
            &mut fitted[i].outcomes,
            allowed,
        );
        left -= fitted[i].spent() - pinned;
    }

    // And what is left goes to those that want more, in the same order.
    for (layer, fitted) in layers.iter_mut().zip(&mut fitted) {
        let used = fitted.spent() - fitted.pinned;
        let most = layer.share.cap(limit).saturating_sub(fitted.pinned);
        let allowed = (used + left).min(most);
        let more = allowed + fitted.pinned > fitted.allowed;
        if !more || !fitted.outcomes.iter().flatten().any(Outcome::wants_more) {
            continue;
        }
        for (item, outcome) in layer.items.iter().zip(&mut fitted.outcomes) {
            if !item.pinned {
                *outcome = None;
            }
        }
        fitted.allowed = allowed + fitted.pinned;
        fitted.gap = fitter.fit(&layer.fit, &mut layer.items, &mut fitted.outcomes, allowed);
        left = left + used - (fitted.spent() - fitted.pinned);
    }
    Ok(fitted)
}

fn spent(outcomes: &[Option<Outcome>]) -> Tokens {
    outcomes.iter().flatten().map(Outcome::tokens).sum()
}

/// The kept items in the order they are sent: layer and item by index. Without
/// an item it is the marker of the layer.
type Sent = Vec<(usize, Option<usize>)>;

/// Returns an item, or the marker of its layer, and what became of it.
fn sent<'a>(
    layers: &'a [Layer],
    fitted: &'a [Fitted],
    (l, i): (usize, Option<usize>),
) -> Option<(&'a Item, &'a Outcome)> {
    match i {
        Some(i) => Some((&layers[l].items[i], fitted[l].outcomes[i].as_ref()?)),
        None => {
            let gap = fitted[l].gap.as_ref()?;
            Some((&gap.item, &gap.outcome))
        }
    }
}

fn lay_out(layers: &[Layer], fitted: &[Fitted]) -> (Layout, Sent) {
    let mut sections: [Sent; 3] = Default::default();
    for (l, (layer, fitted)) in layers.iter().zip(fitted).enumerate() {
        let mut order: Vec<usize> = (0..layer.items.len())
            .filter(|&i| fitted.outcomes[i].as_ref().is_some_and(Outcome::is_kept))
            .collect();
        // A path has one order only.
        if layer.order == Order::Priority && !matches!(layer.fit, Fit::Path(_)) {
            let rank = |i: usize| layer.items[i].score.unwrap_or(layer.items[i].priority);
            order = highest_first(order, rank);
        }
        let mut gap = fitted.gap.as_ref();
        for i in order {
            if let Some(gap) = gap.take_if(|gap| gap.before <= i) {
                sections[section(layer.place, gap.item.role) as usize].push((l, None));
            }
            sections[section(layer.place, layer.items[i].role) as usize].push((l, Some(i)));
        }
        if let Some(gap) = gap {
            sections[section(layer.place, gap.item.role) as usize].push((l, None));
        }
    }
    // The header has no tag, so nothing may stand before it; the operator's
    // words come before everybody else's.
    sections[Section::System as usize].sort_by_key(|&at| {
        sent(layers, fitted, at).map(|(item, _)| item.role.min(Role::Developer))
    });

    let block = |&(l, i): &(usize, Option<usize>)| -> Option<Block> {
        let (item, outcome) = sent(layers, fitted, (l, i))?;
        let shown = match outcome {
            Outcome::Whole { text, .. } => Shown::Whole(text.clone()),
            Outcome::Cut { text, .. } => Shown::Cut(text.clone()),
            Outcome::Dropped { .. } | Outcome::Absent { .. } => return None,
        };
        Some(Block {
            id: Arc::clone(&item.id),
            layer: Arc::clone(&layers[l].name),
            role: item.role,
            part: item.part.clone(),
            join: item.join,
            trust: item.trust,
            path: item.path.clone(),
            tokens: outcome.tokens(),
            surcharge: item.surcharge,
            volatile: layers[l].volatile,
            group: item.group.clone(),
            shown,
        })
    };
    let [system, history, current] = &sections;
    let layout = Layout {
        system: system.iter().filter_map(block).collect(),
        history: history.iter().filter_map(block).collect(),
        current: current.iter().filter_map(block).collect(),
    };
    (layout, sections.concat())
}

fn section(place: Place, role: Role) -> Section {
    // The header has no tag to tell it apart anywhere else.
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
    in_order: &Sent,
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
        ..Report::default()
    };
    let candidates: usize = layers.iter().map(|layer| layer.items.len()).sum();
    let kept = in_order.iter().filter(|(_, i)| i.is_some()).count();
    report.included.reserve_exact(in_order.len());
    report.excluded.reserve_exact(candidates - kept);
    for &(l, i) in in_order {
        let Some((item, outcome)) = sent(layers, fitted, (l, i)) else {
            continue;
        };
        note_findings(&mut report, item, outcome);
        let mut row = included(&layers[l], item, outcome);
        if i.is_none() {
            (row.code, row.reason) = (Code::Marker, Reason::Marker);
        }
        report.included.push(row);
    }
    for (layer, fitted) in layers.iter().zip(fitted) {
        let mut row = LayerBudget {
            name: Arc::clone(&layer.name),
            allowed: fitted.allowed,
            used: fitted.spent(),
            pinned: fitted.pinned,
            ..LayerBudget::default()
        };
        for (item, outcome) in layer.items.iter().zip(&fitted.outcomes) {
            let Some(outcome) = outcome else { continue };
            if outcome.is_kept() {
                row.kept += 1;
                row.cut += usize::from(matches!(outcome, Outcome::Cut { .. }));
            } else {
                row.dropped += 1;
                report.excluded.push(excluded(layer, item, outcome));
            }
        }
        report.budget.layers.push(row);
    }
    report
}

/// Notes what the guard changed in what is shown of an item, by the lines of
/// its file.
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
        // Of what occurs several times, some may be left where the first is not.
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

fn included(layer: &Layer, item: &Item, outcome: &Outcome) -> Included {
    let tokens = outcome.tokens();
    let (code, original, lines_cut) = match outcome {
        Outcome::Cut {
            text,
            original,
            code,
            ..
        } => (*code, Some(original), Some(text.lines)),
        _ if item.pinned => (Code::Pinned, None, None),
        _ => (Code::Fits, None, None),
    };
    let original_tokens = original.map_or(tokens, |size| size.tokens);
    let reason = match code {
        Code::Pinned => Reason::Pinned,
        Code::Fits => Reason::Fits,
        Code::LineLimit => Reason::LineLimit {
            max_lines: item.max_lines.unwrap_or_default(),
        },
        _ => Reason::Cut {
            missing: original_tokens.saturating_sub(tokens),
        },
    };
    Included {
        path: item.path.clone(),
        id: Arc::clone(&item.id),
        layer: Arc::clone(&layer.name),
        role: item.role,
        trust: item.trust,
        tokens,
        truncated: lines_cut.is_some(),
        original_tokens,
        original_estimated: original.is_some_and(|size| !size.exact),
        priority: item.priority,
        base_priority: item.base_priority,
        score: item.score,
        scores: item.scores.clone(),
        lines_cut,
        code,
        reason,
    }
}

fn excluded(layer: &Layer, item: &Item, outcome: &Outcome) -> Excluded {
    let (code, tokens, exact, reason) = match outcome.clone() {
        Outcome::Dropped { code, needs, left } => {
            let reason = Reason::Dropped {
                code,
                needed: needs.tokens,
                exact: needs.exact,
                left,
            };
            (code, needs.tokens, needs.exact, reason)
        }
        Outcome::Absent { code, reason } => (code, 0, true, Reason::Unusable(reason)),
        Outcome::Whole { .. } | Outcome::Cut { .. } => {
            unreachable!("kept items are not excluded")
        }
    };
    Excluded {
        path: item.path.clone(),
        id: Arc::clone(&item.id),
        layer: Arc::clone(&layer.name),
        role: item.role,
        tokens,
        estimated: !exact,
        priority: item.priority,
        base_priority: item.base_priority,
        score: item.score,
        scores: item.scores.clone(),
        code,
        reason,
    }
}
