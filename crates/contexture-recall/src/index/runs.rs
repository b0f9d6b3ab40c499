//! Sequences of texts: sessions and files.

// The map is iterated only to sort its names, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;

use super::Slot;

/// Sequences of texts.
#[derive(Debug, Default)]
pub(super) struct Runs {
    #[allow(clippy::disallowed_types)]
    pub(super) names: HashMap<Box<str>, u32>,
    pub(super) members: Vec<Vec<Slot>>,
    // True if the slots of a run are consecutive.
    pub(super) straight: Vec<bool>,
}

impl Runs {
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(&run) = self.names.get(name) {
            return run;
        }
        let run = self.members.len() as u32;
        self.members.push(Vec::new());
        self.straight.push(true);
        self.names.insert(name.into(), run);
        run
    }

    /// Returns the runs with these names and members.
    pub(super) fn new(names: Vec<Box<str>>, members: Vec<Vec<Slot>>) -> Self {
        Self {
            names: (0..).zip(names).map(|(run, name)| (name, run)).collect(),
            straight: members.iter().map(|members| is_straight(members)).collect(),
            members,
        }
    }
}

/// Returns true when slots are consecutive.
pub(super) fn is_straight(members: &[Slot]) -> bool {
    members
        .windows(2)
        .all(|two| two[0].checked_add(1) == Some(two[1]))
}
