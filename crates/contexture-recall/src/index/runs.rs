//! Sequences of texts: sessions and files.

// The map is iterated only to sort its names, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::ops::Range;

use super::Slot;

/// Sequences of texts.
#[derive(Debug, Default)]
pub(super) struct Runs {
    #[allow(clippy::disallowed_types)]
    pub(super) names: HashMap<Box<str>, u32>,
    pub(super) members: Vec<Vec<Slot>>,
    // The slots of each run that are consecutive. A search reads all runs, and
    // mostly does not need their members.
    pub(super) spans: Vec<Span>,
}

/// The slots of a run if they are consecutive.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    first: Slot,
    // 0 if the slots are not consecutive.
    count: u32,
}

impl Span {
    pub(super) fn of(members: &[Slot]) -> Self {
        let is_next = |two: &[Slot]| two[0].checked_add(1) == Some(two[1]);
        match members.first() {
            Some(&first) if members.windows(2).all(is_next) => Self {
                first,
                count: members.len() as u32,
            },
            _ => Self::default(),
        }
    }

    /// Returns the span after a slot was added at the end of the run.
    pub(super) fn with_last(self, slot: Slot) -> Self {
        match self.count > 0 && self.first.checked_add(self.count) == Some(slot) {
            true => Self {
                count: self.count + 1,
                ..self
            },
            false => Self::default(),
        }
    }

    /// Returns the slots, or `None` if they are not consecutive.
    pub(super) fn slots(self) -> Option<Range<Slot>> {
        (self.count > 0).then(|| self.first..self.first + self.count)
    }
}

/// The slots of a run, in order.
pub(super) struct RunSlots<'a> {
    span: Range<Slot>,
    members: std::slice::Iter<'a, Slot>,
}

impl Iterator for RunSlots<'_> {
    type Item = Slot;

    #[inline]
    fn next(&mut self) -> Option<Slot> {
        self.span.next().or_else(|| self.members.next().copied())
    }
}

impl Runs {
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(&run) = self.names.get(name) {
            return run;
        }
        let run = self.members.len() as u32;
        self.members.push(Vec::new());
        self.spans.push(Span::default());
        self.names.insert(name.into(), run);
        run
    }

    /// Returns the runs with these names and members.
    pub(super) fn new(names: Vec<Box<str>>, members: Vec<Vec<Slot>>) -> Self {
        Self {
            names: (0..).zip(names).map(|(run, name)| (name, run)).collect(),
            spans: members.iter().map(|members| Span::of(members)).collect(),
            members,
        }
    }

    /// Returns the slots of a run, in order.
    pub(super) fn slots(&self, run: u32) -> RunSlots<'_> {
        match self.spans[run as usize].slots() {
            Some(span) => RunSlots {
                span,
                members: [].iter(),
            },
            None => RunSlots {
                span: 0..0,
                members: self.members[run as usize].iter(),
            },
        }
    }
}
