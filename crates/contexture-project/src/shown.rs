//! Stored records as lists and pages show them.
//!
//! The store has texts exactly as they were given. A list shows titles and goals next
//! to those of others, so that their secrets are masked when they are shown. Turns,
//! nodes and archives are content: they are returned as they were stored.

use contexture_store::{Session, TaskRecord, TreeInfo};

use crate::log::masked;

/// A record that is shown to people and programs.
pub trait Shown {
    /// Returns the record with the secrets in its describing texts masked.
    fn shown(self) -> Self;
}

impl Shown for Session {
    fn shown(mut self) -> Self {
        mask(self.task.as_mut());
        self
    }
}

impl Shown for TaskRecord {
    fn shown(mut self) -> Self {
        mask([&mut self.goal].into_iter().chain(self.result.as_mut()));
        self
    }
}

impl Shown for TreeInfo {
    fn shown(mut self) -> Self {
        let tree = &mut self.tree;
        mask(
            [&mut tree.title, &mut tree.system_context]
                .into_iter()
                .flatten(),
        );
        self
    }
}

impl<T: Shown> Shown for Option<T> {
    fn shown(self) -> Self {
        self.map(T::shown)
    }
}

impl<T: Shown> Shown for Vec<T> {
    fn shown(self) -> Self {
        self.into_iter().map(T::shown).collect()
    }
}

fn mask<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    for text in texts {
        *text = masked(text);
    }
}
