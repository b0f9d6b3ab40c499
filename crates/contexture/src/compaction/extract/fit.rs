//! Decides which bullets fit, and writes them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use contexture_core::{TokenCounter, Tokens};

use super::Section::{Failed, Files};
use super::gather::Gathered;
use super::prose::{normalise, shorten};
use super::variants::{fold, merge_alike};
use super::{Bullet, SECTIONS, call_of};

/// Failures take at most this part of the room while they can be shortened.
const FAILURE_PERCENT: u64 = 40;
/// The tokens a failure may be cut down to before it is only counted.
const SHORTEST_FAILURE: Tokens = 9;
/// The tokens of a failure when there is room for all of it.
const LONGEST_FAILURE: Tokens = 200;
/// What is kept free for the line that counts the failures without a line.
const COUNT_LINE: Tokens = 30;

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
        let mut open = [false; SECTIONS.len()];
        for bullet in &mut kept {
            left = left.saturating_sub(bullet.tokens(counter));
            open[Failed as usize] = true;
        }
        let headings = SECTIONS.map(|(_, heading, _)| counter.count(heading).max(1) + 1);
        if open[Failed as usize] {
            left = left.saturating_sub(headings[Failed as usize]);
        }
        // Each further bullet of a section is worth a little less, so that one
        // talkative section does not leave the others empty.
        let mut order: Vec<usize> = (0..self.bullets.len())
            .filter(|&at| self.bullets[at].section != Failed)
            .collect();
        order.sort_by_key(|&at| (self.bullets[at].section, -self.bullets[at].value, at));
        let mut rank = 0;
        let mut ranked: Vec<(i64, usize)> = Vec::with_capacity(order.len());
        for (place, &at) in order.iter().enumerate() {
            let section = self.bullets[at].section;
            rank = if place > 0 && self.bullets[order[place - 1]].section == section {
                rank + 1
            } else {
                0
            };
            ranked.push((rank * 7 - self.bullets[at].value, at));
        }
        ranked.sort_unstable();
        let mut misses = 0;
        for (value, at) in ranked {
            if left < 4 || misses > 40 {
                break;
            }
            let bullet = &mut self.bullets[at];
            let heading = if open[bullet.section as usize] {
                0
            } else {
                headings[bullet.section as usize]
            };
            let mut tokens = bullet.tokens(counter);
            let mut bullet = bullet.clone();
            let space = left.saturating_sub(heading);
            if tokens > space && bullet.section != Files && value <= -80 && space >= 14 {
                bullet = bullet.within(space - 2, tokens);
                tokens = bullet.tokens(counter);
            }
            if tokens > space {
                misses += 1;
                continue;
            }
            left -= tokens + heading;
            open[bullet.section as usize] = true;
            kept.push(bullet);
        }
        write(kept)
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
    kept.sort_by_key(|bullet| (bullet.section, bullet.time, bullet.order));
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
