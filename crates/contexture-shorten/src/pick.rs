//! Chooses lines within a limit, and writes them with a marker in each gap.

use std::borrow::Cow;

use contexture_core::{LinesCut, Tokens};

use crate::lines::{LONG_LINE, Lines};
use crate::plain::{grapheme_ceil, grapheme_floor};
use crate::{Kind, Shortened, Task};

/// The number of successive lines that may not fit before a step ends.
const MOST_MISSES: usize = 32;

/// A gap of at most this many lines is closed if that costs no more than its
/// marker.
const SMALL_GAP: usize = 4;

/// The order in which lines are kept.
pub(crate) struct Plan {
    steps: Vec<(Cap, Step)>,
    /// Lines that are like the one before them and the one after them: the
    /// start and the end of a text are chosen from the others.
    pub(crate) folded: Vec<bool>,
    /// A number that similar lines have in common, if it was computed.
    pub(crate) likeness: Vec<u64>,
}

/// The limit on the tokens used after a step.
#[derive(Clone, Copy)]
enum Cap {
    // A percentage of the limit.
    OfLimit(u64),
    // A percentage of the tokens left before the step.
    OfRest(u64),
}

/// Lines that are tried, in order.
pub(crate) enum Step {
    /// From the start, until one does not fit.
    Head,
    /// From the end, until one does not fit.
    Tail,
    /// These, each if it fits.
    Lines(Vec<usize>),
}

impl Plan {
    pub(crate) fn new(lines: usize) -> Self {
        Self {
            steps: Vec::new(),
            folded: vec![false; lines],
            likeness: Vec::new(),
        }
    }

    /// Adds a step, after which at most `percent` of the limit is used.
    pub(crate) fn step(&mut self, percent: u64, step: Step) {
        self.steps.push((Cap::OfLimit(percent), step));
    }

    /// Adds a step that uses at most `percent` of the tokens left before it.
    pub(crate) fn share(&mut self, percent: u64, step: Step) {
        self.steps.push((Cap::OfRest(percent), step));
    }
}

/// Chooses lines.
pub(crate) struct Picker<'a> {
    task: &'a Task<'a>,
    lines: &'a Lines<'a>,
    // The number of bytes of a long line that are shown.
    clip: usize,
    kept: Vec<bool>,
    // The tokens of each line, if known.
    costs: Vec<Option<u32>>,
    // About what a short marker counts, and the full one.
    marker: Tokens,
    full: Tokens,
    budget: Tokens,
    used: Tokens,
}

impl<'a> Picker<'a> {
    /// Returns `None` if the limit leaves no tokens for lines next to a marker.
    pub(crate) fn new(task: &'a Task<'a>, lines: &'a Lines<'a>, clip: usize) -> Option<Self> {
        let last = lines.len();
        let full = task.marker(&gap_name(1, last, None), task.text.len());
        let full = task.counter.count(&full) + 1;
        let marker = task.short_marker(&gap_name(last, last + 1, None));
        let marker = task.counter.count(&marker);
        (task.limit >= full * 2).then(|| Self {
            task,
            lines,
            clip,
            kept: vec![false; last],
            costs: vec![None; last],
            marker,
            full,
            budget: task.limit,
            used: full,
        })
    }

    /// Chooses lines by `plan`.
    pub(crate) fn choose(&mut self, plan: &Plan) {
        self.kept.fill(false);
        self.used = self.full;
        for (cap, step) in &plan.steps {
            let cap = match cap {
                Cap::OfLimit(percent) => self.budget * percent / 100,
                Cap::OfRest(percent) => {
                    let rest = self.budget.saturating_sub(self.used);
                    self.used + rest * percent / 100
                }
            };
            self.take(step, plan, cap.max(self.full));
        }
        // Similar lines are little information, but better than none.
        if plan.folded.contains(&true) {
            let open = Plan::new(self.lines.len());
            self.take(&Step::Tail, &open, self.task.limit / 4);
        }
        self.close_small_gaps();
    }

    fn take(&mut self, step: &Step, plan: &Plan, cap: Tokens) {
        let len = self.lines.len();
        let mut fitting = |line: usize| plan.folded[line] || self.add(line, cap);
        match step {
            Step::Head => drop((0..len).try_for_each(|line| fitting(line).then_some(()))),
            Step::Tail => drop(
                (0..len)
                    .rev()
                    .try_for_each(|line| fitting(line).then_some(())),
            ),
            Step::Lines(lines) => {
                let mut misses = 0;
                for &line in lines {
                    misses = if self.add(line, cap) { 0 } else { misses + 1 };
                    if misses > MOST_MISSES {
                        break;
                    }
                }
            }
        }
    }

    /// Keeps a line if the result then stays within `cap`. Returns whether it
    /// is kept.
    fn add(&mut self, line: usize, cap: Tokens) -> bool {
        if self.kept[line] {
            return true;
        }
        let joins_before = line == 0 || self.kept[line - 1];
        let joins_after = line + 1 == self.lines.len() || self.kept[line + 1];
        // Within a gap it makes two of one, between two lines it closes one.
        let base = match (joins_before, joins_after) {
            (false, false) => self.used + self.marker,
            (true, true) => self.used.saturating_sub(self.marker),
            _ => self.used,
        };
        let Some(room) = cap.checked_sub(base) else {
            return false;
        };
        let Some(cost) = self.cost(line, room) else {
            return false;
        };
        self.used = base + cost;
        self.kept[line] = true;
        true
    }

    /// Returns the tokens of a line, or `None` if they exceed `room`.
    fn cost(&mut self, line: usize, room: Tokens) -> Option<Tokens> {
        if let Some(cost) = self.costs[line] {
            return Some(Tokens::from(cost)).filter(|cost| *cost <= room);
        }
        let cost = self.task.counter.count_up_to(&self.shown(line), room)?;
        self.costs[line] = u32::try_from(cost).ok();
        Some(cost)
    }

    /// Returns a line as it is shown; a long one is shortened.
    fn shown(&self, line: usize) -> Cow<'a, str> {
        let whole = self.lines.with_end(line);
        if whole.len() <= LONG_LINE || whole.len() <= self.clip + self.clip / 4 {
            return Cow::Borrowed(whole);
        }
        let head = grapheme_floor(whole, self.clip * 2 / 3);
        let tail = grapheme_ceil(whole, whole.len() - self.clip / 3);
        let name = format!("part of line {}", line + 1);
        let marker = self.task.marker(&name, tail - head);
        let (head, tail) = (&whole[..head], &whole[tail..]);
        Cow::Owned(format!("{head}{}{tail}", marker.trim_end()))
    }

    fn close_small_gaps(&mut self) {
        let mut from = 0;
        while let Some((start, end)) = self.gap(from) {
            from = end;
            if end - start <= SMALL_GAP {
                let costs = (start..end).map(|line| self.cost(line, self.marker));
                let sum: Option<Tokens> = costs.collect::<Vec<_>>().into_iter().sum();
                if let Some(sum) = sum.filter(|sum| *sum <= self.marker) {
                    self.kept[start..end].fill(true);
                    self.used = (self.used + sum).saturating_sub(self.marker);
                }
            }
        }
    }

    /// Returns the first gap from `from` on.
    fn gap(&self, from: usize) -> Option<(usize, usize)> {
        let start = from + self.kept[from..].iter().position(|kept| !kept)?;
        let length = self.kept[start..].iter().position(|kept| *kept);
        Some((
            start,
            length.map_or(self.kept.len(), |length| start + length),
        ))
    }

    /// Adjusts the budget by the difference between the result and the limit.
    /// Returns false if choosing again would not help.
    pub(crate) fn adjust(&mut self, tokens: Tokens) -> bool {
        let limit = self.task.limit;
        if tokens > limit {
            self.budget = self.budget.saturating_sub(tokens - limit + 1);
            return self.budget > self.full;
        }
        // A part of the rest: lines that are left out may be longer.
        let rest = (limit - tokens) * 3 / 4;
        self.budget += rest;
        rest > limit / 16 && self.kept.contains(&false)
    }

    /// Writes the chosen lines.
    pub(crate) fn render(&self, plan: &Plan, kind: Kind) -> Shortened {
        let mut text = String::new();
        let mut cut = None;
        let mut note = |first: usize, last: usize, partial: bool| {
            let number = |line: usize| u32::try_from(line + 1).unwrap_or(u32::MAX);
            let lines = cut.get_or_insert(LinesCut {
                first: number(first),
                last: 0,
                partial,
            });
            lines.last = number(last);
            lines.partial |= partial;
        };
        let mut line = 0;
        let mut gaps = 0;
        while line < self.kept.len() {
            if self.kept[line] {
                let shown = self.shown(line);
                if let Cow::Owned(_) = shown {
                    note(line, line, true);
                }
                text.push_str(&shown);
                line += 1;
                continue;
            }
            let (start, end) = self.gap(line).unwrap_or((line, self.kept.len()));
            note(start, end - 1, false);
            let name = gap_name(start + 1, end, similar(plan, start, end));
            // The first marker has all details; the others only the lines that
            // they replace.
            text.push_str(&match gaps {
                0 => self.task.marker(&name, self.lines.bytes(start, end)),
                _ => self.task.short_marker(&name),
            });
            gaps += 1;
            line = end;
        }
        if text.ends_with('\n') {
            text.pop();
        }
        let lines = cut.unwrap_or(LinesCut {
            first: 1,
            last: 1,
            partial: true,
        });
        self.task.shortened(text, lines, kind)
    }
}

/// Returns the number of lines of a gap, and the line before it, if all of them
/// are similar to that line.
fn similar(plan: &Plan, start: usize, end: usize) -> Option<(usize, usize)> {
    let before = plan.likeness.get(start.checked_sub(1)?)?;
    let alike = plan.likeness[start..end].iter().all(|line| line == before);
    (alike && end - start > 1).then_some((end - start, start))
}

/// Returns the description of a gap's lines in a marker.
fn gap_name(first: usize, last: usize, similar: Option<(usize, usize)>) -> String {
    let name = match first == last {
        true => format!("line {first}"),
        false => format!("lines {first}-{last}"),
    };
    match similar {
        Some((count, like)) => {
            let count = contexture_core::grouped(count as u64);
            format!("{name} ({count} lines similar to line {like})")
        }
        None => name,
    }
}
