//! Decides which bullets fit, and writes them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use contexture_core::{TokenCounter, Tokens};

use super::Section::{Asked, Decided, Failed, Files};
use super::gather::Gathered;
use super::prose::{normalise, shorten};
use super::variants::{fold, merge_alike};
use super::{Bullet, NOTED, SECTIONS, Section, Weight, call_of, left_out_line};

/// Failures take at most this part of the room while they can be shortened.
const FAILURE_PERCENT: u64 = 40;
/// The tokens a failure may be cut down to before it is only counted.
const SHORTEST_FAILURE: Tokens = 9;
/// The tokens of a failure when there is room for all of it.
const LONGEST_FAILURE: Tokens = 200;
/// What is kept free for the line that counts the failures without a line.
const COUNT_LINE: Tokens = 30;
/// One clipped section may say so for this much room.
const ROOM_PER_NOTE: Tokens = 64;

/// Returns true for a section in which a later bullet may override an earlier.
fn is_newest_first(section: Section) -> bool {
    matches!(section, Asked | Decided)
}

impl Bullet {
    fn tokens(&mut self, counter: &dyn TokenCounter) -> Tokens {
        if self.tokens.is_none() {
            self.tokens = Some(counter.count(&self.line()).max(1));
        }
        self.tokens.unwrap_or(1)
    }

    /// Returns the bullet with at most about `cap` tokens; it has `tokens`.
    fn within(&self, cap: Tokens, tokens: Tokens) -> Bullet {
        let mut short = self.clone();
        if tokens <= cap {
            return short;
        }
        // At a few words apiece, what went wrong comes before how it ended.
        short.is_solved &= cap >= 14;
        // The suffix, the dash and the ellipsis are paid for by the text.
        let suffix = short.suffix().len() as u64;
        let bytes = (self.text.len() as u64 + suffix) * cap.saturating_sub(3) / tokens;
        let bytes = usize::try_from(bytes.saturating_sub(suffix))
            .unwrap_or(usize::MAX)
            .max(8);
        let body = match call_of(&self.text) {
            // What went wrong says more than which command it was.
            Some((call, error)) if call.len() > bytes / 2 && !error.is_empty() => error,
            _ => &self.text,
        };
        // So does every word after "Error:".
        let body = body
            .strip_prefix("Error: ")
            .or(body.strip_prefix("error: "))
            .unwrap_or(body);
        short.text = shorten(body, bytes);
        short.tokens = None;
        short
    }
}

impl Gathered {
    /// Writes what fits into about `room` tokens.
    pub(super) fn compose(&mut self, room: Tokens, counter: &dyn TokenCounter) -> String {
        let mut kept = self.fit_failures(room, counter);
        let mut left = room;
        let headings = SECTIONS.map(|(_, heading, _)| counter.count(heading).max(1) + 1);
        for bullet in &mut kept {
            left = left.saturating_sub(bullet.tokens(counter));
        }
        if !kept.is_empty() {
            left = left.saturating_sub(headings[Failed as usize]);
        }
        let ranked = self.ranked();
        let mut all = self.left_out;
        for (_, at) in &ranked {
            all[self.bullets[*at].section as usize] += 1;
        }
        // Which sections are clipped shows when room is kept for saying so.
        // Each round either ends it or adds a section that matters more.
        let most = usize::try_from(left / ROOM_PER_NOTE).unwrap_or(usize::MAX);
        let mut noted: Vec<Section> = Vec::new();
        let (chosen, notes) = loop {
            let mut open = [false; SECTIONS.len()];
            let mut free = left;
            for &section in &noted {
                let line = format!("- {}\n", left_out_line(all[section as usize], true));
                free = free.saturating_sub(headings[section as usize] + counter.count(&line) + 1);
                open[section as usize] = true;
            }
            let chosen = self.choose(&ranked, free, open, &headings, counter);
            let notes = self.notes(&chosen, &all);
            let mut wanted = NOTED.to_vec();
            wanted.retain(|section| {
                noted.contains(section) || notes.iter().any(|note| note.section == *section)
            });
            wanted.truncate(most);
            if wanted == noted {
                break (chosen, notes);
            }
            noted = wanted;
        };
        kept.extend(chosen.into_iter().map(|(_, bullet)| bullet));
        kept.extend(
            notes
                .into_iter()
                .filter(|note| noted.contains(&note.section)),
        );
        write(kept)
    }

    /// Returns all bullets but the failures in the order in which they are
    /// offered room, with what they are worth; less is worth more.
    fn ranked(&self) -> Vec<(i64, usize)> {
        let mut ranked: Vec<(i64, usize)> = Vec::with_capacity(self.bullets.len());
        for (section, ..) in SECTIONS.iter().filter(|(section, ..)| *section != Failed) {
            let mut places: Vec<usize> = (0..self.bullets.len())
                .filter(|&at| self.bullets[at].section == *section)
                .collect();
            // Of two that are worth the same, the newer one; files come sorted.
            let newness = |bullet: &Bullet| match bullet.section {
                Files => None,
                _ => Some((bullet.time, bullet.order)),
            };
            places.sort_by_key(|&at| {
                let bullet = &self.bullets[at];
                (-bullet.value, Reverse(newness(bullet)), at)
            });
            let values: Vec<i64> = places.iter().map(|&at| self.bullets[at].value).collect();
            if is_newest_first(*section) {
                self.sort_newest_first(&mut places);
            }
            // Each further bullet of a section is worth a little less, so that
            // one talkative section does not leave the others empty.
            let ranks = (0..).step_by(7);
            let worth = ranks.zip(values).map(|(rank, value)| rank - value);
            ranked.extend(worth.zip(places));
        }
        ranked.sort_unstable();
        ranked
    }

    /// Sorts the newest first. What was agreed on ages more slowly, and what
    /// the user asked for first not at all.
    fn sort_newest_first(&self, places: &mut [usize]) {
        let bullet = |at: usize| &self.bullets[at];
        places.sort_by_key(|&at| Reverse((bullet(at).time, bullet(at).order)));
        let mut aged: Vec<(Reverse<i64>, Weight, usize, usize)> = Vec::new();
        for (age, &at) in places.iter().enumerate() {
            let weight = bullet(at).weight;
            let age = if weight == Weight::Strong {
                age / 4
            } else {
                age
            };
            // Only what is weak is set apart; the others compete by their age.
            aged.push((
                Reverse(bullet(at).focus),
                weight.min(Weight::Plain),
                age,
                at,
            ));
        }
        aged.sort_by_key(|&(focus, weight, age, _)| (focus, Reverse(weight), age));
        for (place, (.., at)) in places.iter_mut().zip(aged) {
            *place = at;
        }
        let task = places
            .iter()
            .position(|&at| bullet(at).weight == Weight::Task);
        if let Some(task) = task {
            let first = usize::from(bullet(places[0]).focus > 0).min(task);
            places[first..=task].rotate_right(1);
        }
    }

    /// Returns the bullets that fit into `left` tokens, with their places.
    fn choose(
        &mut self,
        ranked: &[(i64, usize)],
        mut left: Tokens,
        mut open: [bool; SECTIONS.len()],
        headings: &[Tokens; SECTIONS.len()],
        counter: &dyn TokenCounter,
    ) -> Vec<(usize, Bullet)> {
        let mut closed = [false; SECTIONS.len()];
        let mut chosen = Vec::new();
        let mut misses = 0;
        for &(value, at) in ranked {
            if left < 4 || misses > 40 {
                break;
            }
            let bullet = &mut self.bullets[at];
            let section = bullet.section as usize;
            if closed[section] {
                continue;
            }
            let heading = if open[section] { 0 } else { headings[section] };
            let mut tokens = bullet.tokens(counter);
            let mut bullet = bullet.clone();
            let space = left.saturating_sub(heading);
            if tokens > space && bullet.section != Files && value <= -80 && space >= 14 {
                bullet = bullet.within(space - 2, tokens);
                tokens = bullet.tokens(counter);
            }
            if tokens > space {
                misses += 1;
                // An older one must not take the place of a newer one.
                closed[section] = is_newest_first(bullet.section);
                continue;
            }
            left -= tokens + heading;
            open[section] = true;
            chosen.push((at, bullet));
        }
        chosen
    }

    /// Returns for every section that was clipped a line that says so; `all`
    /// are the bullets there were.
    fn notes(&self, chosen: &[(usize, Bullet)], all: &[u64; SECTIONS.len()]) -> Vec<Bullet> {
        let mut is_chosen = vec![false; self.bullets.len()];
        let mut missing = *all;
        let mut newest = [None; SECTIONS.len()];
        let mut newest_missing = [None; SECTIONS.len()];
        for &(at, ref bullet) in chosen {
            is_chosen[at] = true;
            missing[bullet.section as usize] -= 1;
        }
        for (bullet, is_chosen) in self.bullets.iter().zip(&is_chosen) {
            let newest = if *is_chosen {
                &mut newest
            } else {
                &mut newest_missing
            };
            let newest = &mut newest[bullet.section as usize];
            *newest = (*newest).max(Some((bullet.time, bullet.order)));
        }
        let mut notes = Vec::new();
        for section in NOTED {
            let place = section as usize;
            if missing[place] == 0 {
                continue;
            }
            // What all of it is for comes before what was left out of it.
            let is_task = |(_, bullet): &&(usize, Bullet)| {
                bullet.section == section && bullet.weight == Weight::Task
            };
            let after = chosen.iter().find(is_task);
            let (time, order) = after.map_or((0, 0), |(_, bullet)| (bullet.time, bullet.order + 1));
            notes.push(Bullet {
                section,
                text: left_out_line(missing[place], newest_missing[place] < newest[place]),
                times: 1,
                is_varied: false,
                is_solved: false,
                value: 0,
                weight: Weight::Plain,
                focus: 0,
                time,
                order,
                tokens: None,
            });
        }
        notes
    }

    /// Returns all failures, as long as `room` allows.
    fn fit_failures(&mut self, room: Tokens, counter: &dyn TokenCounter) -> Vec<Bullet> {
        let heading = counter.count(SECTIONS[Failed as usize].1) + 1;
        let mut counted = self.counted.clone();
        let reserve = if counted.is_empty() { 0 } else { COUNT_LINE };
        // What the other sections cannot use is for the failures, too.
        let share = (room.saturating_mul(FAILURE_PERCENT) / 100)
            .max(room.saturating_sub(self.needed_elsewhere(room, counter)))
            .saturating_sub(heading);
        let failures = self.whole_or_folded(share.saturating_sub(reserve), counter);
        // What was solved later is told in half the words.
        let cap_of = |bullet: &Bullet, cap: Tokens| {
            let cap = if bullet.is_solved {
                (cap / 2).max(SHORTEST_FAILURE)
            } else {
                cap
            };
            // The count comes on top, or little else would be left.
            if bullet.times > 1 { cap + 4 } else { cap }
        };
        let sum = |cap: Tokens| {
            let capped = failures
                .iter()
                .map(|(tokens, bullet)| cap_of(bullet, cap).min(*tokens));
            capped.sum::<Tokens>() + reserve
        };
        let (mut cap, mut too_much) = (SHORTEST_FAILURE, LONGEST_FAILURE + 1);
        while too_much - cap > 1 {
            let middle = cap + (too_much - cap) / 2;
            if sum(middle) <= share {
                cap = middle;
            } else {
                too_much = middle;
            }
        }
        let mut skip = 0;
        if sum(cap) + heading > room {
            // The oldest are only counted; the newest are the likeliest to be
            // tried again.
            let fitting = room.saturating_sub(heading + COUNT_LINE) / 2 / SHORTEST_FAILURE;
            skip = failures.len()
                - failures
                    .len()
                    .min(usize::try_from(fitting).unwrap_or(usize::MAX));
            for (_, bullet) in &failures[..skip] {
                let signs = self.lexicon.read(&normalise(&bullet.text));
                let kind = signs.failure.map_or("other".to_owned(), |(_, kind)| kind);
                *counted.entry(kind).or_default() += bullet.times;
            }
        }
        let mut kept = Vec::new();
        let mut space = room.saturating_sub(heading);
        for (tokens, bullet) in &failures[skip..] {
            kept.push(bullet.within(cap_of(bullet, cap), *tokens));
        }
        merge_alike(&mut kept);
        for bullet in &mut kept {
            space = space.saturating_sub(bullet.tokens(counter));
        }
        if !counted.is_empty() {
            let text = count_line(&counted, !kept.is_empty(), space, counter);
            let line = Bullet {
                section: Failed,
                text,
                times: 1,
                is_varied: false,
                is_solved: false,
                value: 0,
                weight: Weight::Plain,
                focus: 0,
                time: 0,
                order: 0,
                tokens: None,
            };
            kept.insert(0, line);
        }
        kept
    }

    /// Returns the tokens of everything but failures, or `most` if it is more.
    fn needed_elsewhere(&mut self, most: Tokens, counter: &dyn TokenCounter) -> Tokens {
        let mut open = [false; SECTIONS.len()];
        let mut needed: Tokens = 0;
        for bullet in self
            .bullets
            .iter_mut()
            .filter(|bullet| bullet.section != Failed)
        {
            let section = bullet.section as usize;
            if !std::mem::replace(&mut open[section], true) {
                needed += counter.count(SECTIONS[section].1) + 1;
            }
            needed = needed.saturating_add(bullet.tokens(counter));
            if needed >= most {
                return most;
            }
        }
        needed
    }

    /// Returns the failures with their tokens: one by one if that takes at most
    /// `share`, and else those of one form together.
    fn whole_or_folded(
        &mut self,
        share: Tokens,
        counter: &dyn TokenCounter,
    ) -> Vec<(Tokens, Bullet)> {
        let mut failures = Vec::new();
        let mut sum: Tokens = 0;
        for bullet in self
            .bullets
            .iter_mut()
            .filter(|bullet| bullet.section == Failed)
        {
            let tokens = bullet.tokens(counter);
            sum = sum.saturating_add(tokens);
            failures.push((tokens, bullet.clone()));
        }
        if sum <= share {
            return failures;
        }
        let lexicon = &self.lexicon;
        let folded = self.folded.get_or_insert_with(|| {
            let whole = failures.into_iter().map(|(_, bullet)| bullet).collect();
            fold(whole, lexicon)
        });
        folded
            .iter_mut()
            .map(|bullet| (bullet.tokens(counter), bullet.clone()))
            .collect()
    }

    /// Says at least how much failed, when not even one line fits.
    pub(super) fn last_resort(&self, target: Tokens, counter: &dyn TokenCounter) -> String {
        let failures = self
            .bullets
            .iter()
            .filter(|bullet| bullet.section == Failed);
        let failed =
            failures.map(|bullet| bullet.times).sum::<u64>() + self.counted.values().sum::<u64>();
        let text = format!("{failed} failed");
        if failed > 0 && counter.count(&text) <= target {
            text
        } else {
            String::new()
        }
    }
}

/// Returns `12 failed: 8 × E0308, 4 × timed out` with as many kinds as fit.
fn count_line(
    counted: &BTreeMap<String, u64>,
    is_more: bool,
    space: Tokens,
    counter: &dyn TokenCounter,
) -> String {
    let total: u64 = counted.values().sum();
    let mut kinds: Vec<(&String, &u64)> = counted.iter().collect();
    kinds.sort_by_key(|(_, times)| Reverse(**times));
    let start = format!("{total} {}failed", if is_more { "more " } else { "" });
    for most in [16, 8, 4, 2, 1] {
        let mut line = start.clone();
        for (place, (kind, times)) in kinds.iter().take(most).enumerate() {
            let gap = if place == 0 { ": " } else { ", " };
            _ = write!(line, "{gap}{times} × {kind}");
        }
        let shown: u64 = kinds.iter().take(most).map(|(_, times)| **times).sum();
        if shown < total {
            _ = write!(line, ", {} × other", total - shown);
        }
        if counter.count(&line) + 2 <= space {
            return line;
        }
    }
    start
}

/// Writes the sections, their bullets in the order of time.
fn write(mut kept: Vec<Bullet>) -> String {
    // A note has the place of the bullet it stands before.
    let is_note = |bullet: &Bullet| bullet.text.ends_with("left out)");
    kept.sort_by_key(|bullet| {
        (
            bullet.section,
            bullet.time,
            bullet.order,
            Reverse(is_note(bullet)),
        )
    });
    let mut text = String::new();
    let mut section = None;
    for bullet in kept {
        if section != Some(bullet.section) {
            let gap = if text.is_empty() {
                ""
            } else if text.ends_with('\n') {
                "\n"
            } else {
                "\n\n"
            };
            _ = write!(text, "{gap}{}", SECTIONS[bullet.section as usize].1);
        }
        if bullet.section != Files {
            text.push_str(&bullet.line());
        } else {
            let gap = if section == Some(Files) { ", " } else { "- " };
            _ = write!(text, "{gap}{}", bullet.text);
        }
        section = Some(bullet.section);
    }
    text.truncate(text.trim_end().len());
    text
}
