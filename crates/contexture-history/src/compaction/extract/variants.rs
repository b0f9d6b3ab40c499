//! Tells failures together that differ in their numbers only.
//!
//! `psql -p 5432` and `psql -p 5433` become `psql -p {5432,5433}`, which is
//! read back as what it stands for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Bullet;
use super::prose::normalise;
use contexture_shorten::cues::Lexicon;

/// The most bytes of the numbers named at one place.
const NAMED_BYTES: usize = 24;

/// The numbers at one place of a text, in the order they were met.
#[derive(Clone, Default)]
struct Slot {
    values: Vec<String>,
    // Some numbers are no longer named.
    has_more: bool,
}

/// Tells failures together that are of one form and came to the same end, each
/// at the place of its newest.
pub(super) fn fold(failures: Vec<Bullet>, lexicon: &Lexicon) -> Vec<Bullet> {
    let mut groups: Vec<(Vec<Slot>, Bullet)> = Vec::new();
    let mut by_form: BTreeMap<(String, String, bool), usize> = BTreeMap::new();
    for failure in failures {
        let (form, slots) = form(&failure.text);
        // Another code is another failure, however alike the lines are.
        let signs = lexicon.read(&normalise(&failure.text));
        let kind = signs.failure.map_or_else(String::new, |(_, kind)| kind);
        let key = (form.to_lowercase(), kind, failure.is_solved);
        let Some(&group) = by_form.get(&key) else {
            by_form.insert(key, groups.len());
            groups.push((slots, failure));
            continue;
        };
        let (known_slots, known) = &mut groups[group];
        for (known, slot) in known_slots.iter_mut().zip(slots) {
            known.join(slot);
        }
        known.text = fill(&form, known_slots);
        known.times += failure.times;
        known.is_varied = true;
        known.value = known.value.max(failure.value);
        (known.time, known.order) = (failure.time, failure.order);
        known.tokens = None;
    }
    let mut folded: Vec<Bullet> = groups.into_iter().map(|(_, bullet)| bullet).collect();
    folded.sort_by_key(|bullet| (bullet.time, bullet.order));
    folded
}

/// Joins lines that became the same by being shortened.
pub(super) fn merge_alike(kept: &mut Vec<Bullet>) {
    let mut places: BTreeMap<(String, bool), usize> = BTreeMap::new();
    let mut merged: Vec<Bullet> = Vec::with_capacity(kept.len());
    for bullet in kept.drain(..) {
        let key = (bullet.text.clone(), bullet.is_solved);
        if let Some(&place) = places.get(&key) {
            let known = &mut merged[place];
            known.times += bullet.times;
            known.is_varied = true;
            known.tokens = None;
        } else {
            places.insert(key, merged.len());
            merged.push(bullet);
        }
    }
    *kept = merged;
}

impl Slot {
    fn join(&mut self, other: Slot) {
        self.has_more |= other.has_more;
        for value in other.values {
            if self.values.contains(&value) {
                continue;
            }
            let named: usize = self.values.iter().map(|value| value.len() + 1).sum();
            if named + value.len() > NAMED_BYTES {
                self.has_more = true;
            } else {
                self.values.push(value);
            }
        }
    }
}

/// Splits `text` into what is around its numbers, with a NUL for each of them,
/// and the numbers. A version or an address is one number, and so is `{1,2,…}`.
fn form(text: &str) -> (String, Vec<Slot>) {
    let mut form = String::with_capacity(text.len());
    let mut slots = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '{' || c == '\0' || c.is_ascii_digit()) {
        form.push_str(&rest[..at]);
        rest = &rest[at..];
        let (slot, len) = match rest.as_bytes()[0] {
            b'{' => list(rest).unwrap_or_default(),
            b'\0' => (Slot::default(), 0),
            _ => {
                let len = number(rest);
                let slot = Slot {
                    values: vec![rest[..len].to_owned()],
                    has_more: false,
                };
                (slot, len)
            }
        };
        if len > 0 {
            form.push('\0');
            slots.push(slot);
        } else if rest.starts_with('{') {
            form.push('{');
        }
        rest = &rest[len.max(1)..];
    }
    form.push_str(rest);
    (form, slots)
}

/// Returns the length of the number at the start of `text`: `5432`, `1.26`.
fn number(text: &str) -> usize {
    let end = text
        .find(|c: char| c != '.' && !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].trim_end_matches('.').len()
}

/// Reads `{1,2,…}` at the start of `text`, and returns its length.
fn list(text: &str) -> Option<(Slot, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let mut slot = Slot::default();
    for value in inside.split(',') {
        if value == "…" {
            slot.has_more = true;
        } else if value.starts_with(|c: char| c.is_ascii_digit()) && number(value) == value.len() {
            slot.values.push(value.to_owned());
        } else {
            return None;
        }
    }
    let is_list = slot.values.len() + usize::from(slot.has_more) > 1;
    is_list.then_some((slot, inside.len() + 2))
}

/// Undoes [`form`].
fn fill(form: &str, slots: &[Slot]) -> String {
    let mut text = String::with_capacity(form.len());
    let mut slots = slots.iter();
    for part in form.split_inclusive('\0') {
        text.push_str(part.trim_end_matches('\0'));
        let Some(slot) = slots.next().filter(|_| part.ends_with('\0')) else {
            continue;
        };
        let more = if slot.has_more { ",…" } else { "" };
        let values = slot.values.join(",");
        _ = if slot.values.len() > 1 || slot.has_more {
            write!(text, "{{{values}{more}}}")
        } else {
            write!(text, "{values}")
        };
    }
    text
}
