//! [`Hints`]: `hot.yml` and `cold.yml`, which raise and lower priorities.
//!
//! Hints shift a priority by at most [`MAX_SHIFT`]. The report contains a
//! verdict on each hint.

use std::collections::BTreeMap;

use contexture_engine::HintVerdict;
use serde::Serialize;

use super::manifest::Entry;
use crate::error::Error;
use crate::files::{self, Root};
use crate::yaml::{Fields, Source};

/// The most that hints move a priority, up or down.
pub const MAX_SHIFT: f64 = 0.2;

/// The hotness of a file that is in the working set and nothing else.
const NEUTRAL: f64 = 0.2;

/// The number of recent touches at which a file reaches the highest heat from
/// touches.
const FULL_TOUCHES: f64 = 5.0;

/// The hints of `hot.yml` and `cold.yml`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hints {
    hints: BTreeMap<String, Hint>,
    /// The files the hints were read from.
    pub files: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A hint about one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// The list that the file is on. A file on both lists counts as hot.
    pub list: HintList,
    /// Whether the file is on both lists.
    pub on_both: bool,
    /// The reason given.
    pub why: Option<String>,
    /// The number of recent touches.
    pub touches: u64,
}

/// The outcome for a file with a hint, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HintOutcome {
    /// The file is pinned, and so always included.
    Pinned,
    /// The file is included whole.
    Whole,
    /// A part of the file is included.
    Cut,
    /// The file is not included.
    Dropped,
}

/// The list that a hint is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HintList {
    /// Files to keep.
    Hot,
    /// Files to drop.
    Cold,
}

impl Hints {
    /// Reads `hot.yml` and `cold.yml` in `dir`; neither need be there.
    pub fn read(root: &Root, dir: &str) -> Result<Self, Error> {
        let mut hints = Self::default();
        let (hot, cold) = (format!("{dir}hot.yml"), format!("{dir}cold.yml"));
        if !root.is_absent(&hot) {
            hints.read_list(&hot, &root.read_required(&hot)?, HintList::Hot)?;
        }
        if !root.is_absent(&cold) {
            hints.read_list(&cold, &root.read_required(&cold)?, HintList::Cold)?;
        }
        Ok(hints)
    }

    fn read_list(&mut self, name: &str, text: &str, list: HintList) -> Result<(), Error> {
        let source = Source { name };
        let (key, details): (_, &[&str]) = match list {
            HintList::Hot => ("keep", &["since"]),
            HintList::Cold => ("evict", &["last_touch", "suggested_action"]),
        };
        self.files.push(name.to_owned());
        for document in source.parse(text)? {
            if document.value == crate::yaml::Value::Null {
                continue;
            }
            let mut fields = Fields::of(source, "", &document)?;
            let _ = fields.take("protocol");
            for (i, node) in fields.list(key)?.iter().enumerate() {
                let mut item = Fields::of(source, format!("{key}[{i}]"), node)?;
                let path = item.require("path")?;
                let (path, mark) = item.as_text("path", path)?;
                files::check_path(path).map_err(|why| item.error(mark, "path", why))?;
                let why = item.text("why")?.map(|(why, _)| why.to_owned());
                let touches = item.whole("touches", 0)?.unwrap_or(0);
                for detail in details {
                    item.text(detail)?;
                }
                self.warnings.extend(item.warn_unknown());
                let hint = Hint {
                    list,
                    on_both: false,
                    why,
                    touches,
                };
                self.hints
                    .entry(files::normalise(path))
                    .and_modify(|known| known.on_both |= known.list != list)
                    .or_insert(hint);
            }
            self.warnings.extend(fields.warn_unknown());
        }
        Ok(())
    }

    /// Returns the hint for `path`.
    pub fn get(&self, path: &str) -> Option<&Hint> {
        self.hints.get(path)
    }

    /// Returns the priority of an entry after the hints are applied.
    ///
    /// Hotness ranges from 0 to 1: recent touches add up to 0.3, membership in
    /// the working set 0.2, the hot list 0.3, and a pin 0.2. A file on the cold
    /// list does not get the 0.2 of the working set. Plain membership, 0.2,
    /// changes nothing; the extremes change the priority by [`MAX_SHIFT`].
    pub fn priority(&self, path: &str, entry: &Entry) -> f64 {
        let Some(hint) = self.get(path) else {
            return entry.priority;
        };
        let touches = (hint.touches as f64 / FULL_TOUCHES).min(1.0);
        let listed = match hint.list {
            HintList::Hot => NEUTRAL + 0.3,
            HintList::Cold => 0.0,
        };
        let pinned = if entry.is_pinned() { 0.2 } else { 0.0 };
        let hotness = 0.3 * touches + listed + pinned;
        let above = hotness - NEUTRAL;
        let reach = if above < 0.0 { NEUTRAL } else { 1.0 - NEUTRAL };
        let shift = MAX_SHIFT * above / reach;
        // Priorities are written with few digits; keep them readable.
        ((entry.priority + shift).clamp(0.0, 1.0) * 1e6).round() / 1e6
    }

    /// Returns the verdict on each hint. `fate` returns the outcome for a file,
    /// or `None` if it is not in the working set.
    pub fn verdicts(&self, fate: impl Fn(&str) -> Option<HintOutcome>) -> Vec<HintVerdict> {
        self.hints
            .iter()
            .map(|(path, hint)| {
                let verdict = match (hint.list, fate(path)) {
                    (_, None) => "deferred",
                    (HintList::Hot, _) if hint.on_both => "promoted",
                    (HintList::Hot, Some(HintOutcome::Dropped)) => "overridden",
                    (HintList::Hot, Some(_)) => "honored",
                    (HintList::Cold, Some(HintOutcome::Pinned)) => "overridden",
                    (HintList::Cold, Some(HintOutcome::Cut | HintOutcome::Dropped)) => "honored",
                    (HintList::Cold, Some(HintOutcome::Whole)) => "deferred",
                };
                HintVerdict {
                    path: path.clone(),
                    list: match hint.list {
                        HintList::Hot => "hot".to_owned(),
                        HintList::Cold => "cold".to_owned(),
                    },
                    verdict: verdict.to_owned(),
                    why: hint.why.clone(),
                }
            })
            .collect()
    }
}
