//! What of the found is shown: by channel, then the best of the rest, within a
//! budget that is counted as it is rendered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use contexture_core::guard::{Finding, Policy};
use contexture_core::{Code, Counts, Text, Tokens, grouped};
use contexture_recall::{NEAR_DUPLICATE, Strategy, shorten, similar, snippet};

use contexture_store::RecordKind;

use super::channels::Candidate;
use super::context::{Channel, ChannelBudget, ContextComponent, LeftOut, Shown};
use super::form;
use super::lines::Line;
use super::shorten::Shortener;

/// Up to this many tokens length does not count against an item; beyond, its
/// score is divided by the square root of how many times longer it is.
const SHORT: f64 = 128.0;

/// How many of the best are shown in part rather than not at all.
const BEST: usize = 3;

/// A part of fewer tokens says nothing.
const LEAST_PART: Tokens = 24;

/// Shorter texts are not compressed.
const WORTH_COMPRESSING: Tokens = 48;

/// How often what is left over is offered again.
const MOST_REFILLS: usize = 3;

/// How many rows there are at most for what is left out.
const MOST_LEFT_OUT: usize = 200;

/// Something that was found, with its text.
#[derive(Debug, Clone)]
pub(crate) struct Ranked {
    pub(crate) candidate: Candidate,
    pub(crate) line: Arc<Line>,
}

impl Ranked {
    /// Returns what it is picked by: its score, less when it is long.
    fn rank(&self) -> f64 {
        let longer = self.line.tokens as f64 / SHORT;
        self.candidate.score / longer.max(1.0).sqrt()
    }

    fn is_text(&self) -> bool {
        self.candidate.is_text()
    }

    /// Returns what stands before it in any case: its time, and who says it.
    fn lead(&self, counts: &Counts) -> String {
        let whole = match self.candidate.channel {
            Channel::Recent => self.line.dated(counts).0,
            _ => &self.line.body,
        };
        whole[..whole.len() - self.rest().len()].to_owned()
    }

    /// Returns the rest of it.
    fn rest(&self) -> &str {
        &self.line.body[self.line.lead..]
    }
}

/// Everything that was found, best first.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    items: Vec<Ranked>,
}

impl Pool {
    pub(crate) fn new(mut items: Vec<Ranked>) -> Self {
        for item in &mut items {
            let longer = item.line.tokens as f64 / SHORT;
            if longer > 1.0 {
                let factor = 1.0 / longer.sqrt();
                item.candidate.parts.insert("length".to_owned(), factor);
            }
        }
        let order = |item: &Ranked| (-item.candidate.at, item.candidate.key);
        items.sort_by(|a, b| {
            let better = b.rank().total_cmp(&a.rank());
            better.then_with(|| order(a).cmp(&order(b)))
        });
        Self { items }
    }
}

/// How things are picked.
pub(crate) struct Selector<'a> {
    pub(crate) counts: &'a Counts,
    pub(crate) strategy: &'a Strategy,
    pub(crate) budget: Tokens,
    /// What the query looks for, to show the passages that hold it.
    pub(crate) terms: &'a [u32],
    /// What stands at the end in any case, guarded.
    pub(crate) additional: Option<&'a str>,
    /// How content is guarded.
    pub(crate) policy: Policy,
    /// Makes a text shorter: a summary of at most so many tokens.
    pub(crate) summarise: Option<&'a Shortener<'a>>,
}

/// What was picked, rendered.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) content: String,
    pub(crate) tokens: Tokens,
    pub(crate) components: Vec<ContextComponent>,
    pub(crate) excluded: Vec<LeftOut>,
    pub(crate) channels: BTreeMap<&'static str, ChannelBudget>,
    pub(crate) truncated: bool,
    /// How many more were found than are listed.
    pub(crate) unlisted: usize,
    /// What the guard changed, by record.
    pub(crate) findings: Vec<(String, Finding)>,
}

/// Something that is shown.
#[derive(Clone)]
struct Pick<'p> {
    item: &'p Ranked,
    // How it reads, when it is not whole.
    part: Option<(String, Shown)>,
    tokens: Tokens,
    pinned: bool,
}

/// What was picked so far, and what that costs.
struct Basket<'p, 's> {
    selector: &'s Selector<'s>,
    picks: Vec<Pick<'p>>,
    taken: BTreeSet<i64>,
    sections: BTreeSet<Channel>,
    groups: BTreeSet<(Option<u32>, &'p str)>,
    used: Tokens,
    by_channel: BTreeMap<Channel, Tokens>,
}

impl Selector<'_> {
    /// Picks from what was found. `pinned` is shown in any case, if it fits at
    /// all.
    pub(crate) fn select(&self, pool: &Pool, pinned: Option<&Ranked>) -> Selection {
        let mut basket = Basket {
            selector: self,
            picks: Vec::new(),
            taken: BTreeSet::new(),
            sections: BTreeSet::new(),
            groups: BTreeSet::new(),
            used: self.additional_tokens(),
            by_channel: BTreeMap::new(),
        };
        let mut near = BTreeMap::new();
        if let Some(item) = pinned {
            let price = basket.price(item, self.tokens(item));
            match basket.used + price <= self.budget {
                true => basket.take(item, None, self.tokens(item), true),
                false => basket.offer_part(item, true, self.budget),
            }
        }
        let same = |item: &Ranked| {
            let event = item.candidate.kind == RecordKind::Event;
            event && pinned.is_some_and(|pinned| pinned.line.id == item.line.id)
        };
        let items: Vec<&Ranked> = pool.items.iter().filter(|item| !same(item)).collect();
        let parts = self.parts(self.budget.saturating_sub(basket.used));
        // What fits best of all is not for a channel's part to leave out, nor for
        // lesser things to take the room of.
        for (place, item) in items.iter().take(BEST).enumerate() {
            let price = basket.price(item, self.tokens(item));
            let room = if place == 0 {
                self.budget
            } else {
                self.budget / 2
            };
            if basket.used + price <= room {
                basket.offer(item, &mut near);
            } else if place == 0 && item.is_text() {
                basket.offer_part(item, false, self.budget * 2 / 3);
            }
        }
        for (channel, allowed) in &parts {
            for item in items
                .iter()
                .filter(|item| item.candidate.channel == *channel)
            {
                let price = basket.price(item, self.tokens(item));
                let spent = basket.by_channel.get(channel).copied().unwrap_or(0);
                if spent + price <= *allowed && basket.used + price <= self.budget {
                    basket.offer(item, &mut near);
                }
            }
        }
        // What is left goes to the best of the rest.
        self.fill(&mut basket, &items, &mut near);
        if self.strategy.compress {
            self.compress(&mut basket, &items, &mut near);
        }
        // Headings were charged with room to spare: what that leaves, too.
        for _ in 0..MOST_REFILLS {
            let exact = self.count(&self.render(&basket.picks).0);
            let picks = basket.picks.len();
            basket.used = basket.used.min(exact);
            self.fill(&mut basket, &items, &mut near);
            if basket.picks.len() == picks {
                break;
            }
        }
        let lost = pinned.filter(|item| !basket.knows(item));
        let mut selection = self.finish(basket, &items, &near, &parts);
        if let Some(item) = lost {
            let (needed, left) = (self.tokens(item), self.budget - selection.tokens);
            selection.truncated = true;
            selection.excluded.insert(
                0,
                left_out(item, needed, Code::OverBudget, wanting(needed, left)),
            );
        }
        selection
    }

    /// Takes what still fits, best first; of the very best a part, if need be.
    fn fill<'p>(
        &self,
        basket: &mut Basket<'p, '_>,
        items: &[&'p Ranked],
        near: &mut BTreeMap<i64, String>,
    ) {
        for (place, item) in items.iter().enumerate() {
            if basket.knows(item) || near.contains_key(&item.candidate.key) {
                continue;
            }
            let price = basket.price(item, self.tokens(item));
            if basket.used + price <= self.budget {
                basket.offer(item, near);
            } else if place < BEST && item.is_text() && !basket.is_near(item, near) {
                basket.offer_part(item, false, self.budget);
            }
        }
    }

    /// Makes what fits least well shorter, lowest score first, while something
    /// better waits for the room.
    fn compress<'p>(
        &self,
        basket: &mut Basket<'p, '_>,
        items: &[&'p Ranked],
        near: &mut BTreeMap<i64, String>,
    ) {
        let mut order: Vec<usize> = (0..basket.picks.len())
            .filter(|&i| {
                let pick = &basket.picks[i];
                let long = pick.tokens >= WORTH_COMPRESSING;
                long && !pick.pinned && pick.part.is_none() && pick.item.is_text()
            })
            .collect();
        order.sort_by(|&a, &b| {
            let score = |i: usize| basket.picks[i].item.candidate.score;
            score(a).total_cmp(&score(b)).then(b.cmp(&a))
        });
        let mut order = order.into_iter();
        for item in items {
            if basket.knows(item) || near.contains_key(&item.candidate.key) {
                continue;
            }
            let price = basket.price(item, self.tokens(item));
            let lacking = (basket.used + price).saturating_sub(self.budget);
            // Only what fits less well, and only when that is enough.
            let below = |i: &usize| {
                let pick = &basket.picks[*i];
                pick.item.candidate.score < item.candidate.score
            };
            let saved = |i: &usize| basket.picks[*i].tokens * 2 / 3;
            let may: Tokens = order.clone().take_while(below).map(|i| saved(&i)).sum();
            if may < lacking {
                continue;
            }
            while basket.used + price > self.budget {
                let Some(&i) = order.as_slice().first() else {
                    break;
                };
                if basket.picks[i].item.candidate.score >= item.candidate.score {
                    break;
                }
                order.next();
                basket.shorten(i);
            }
            if basket.used + price > self.budget {
                continue;
            }
            basket.offer(item, near);
        }
    }

    /// Returns what each channel may spend.
    fn parts(&self, room: Tokens) -> Vec<(Channel, Tokens)> {
        let shares = self.strategy.budget.split(room);
        vec![
            (Channel::Recent, shares.recent),
            (Channel::Semantic, shares.semantic),
            (Channel::Entity, shares.entities),
            (Channel::Relation, shares.relations),
            (Channel::Pattern, shares.patterns),
        ]
    }

    fn tokens(&self, item: &Ranked) -> Tokens {
        match item.candidate.channel {
            Channel::Recent => item.line.dated(self.counts).1,
            _ => item.line.tokens,
        }
    }

    /// Returns what a score is made of, and of a text how many of the words that
    /// are looked for it holds itself, apart from what is said around it.
    fn scores(&self, item: &Ranked) -> BTreeMap<String, f64> {
        let mut scores = item.candidate.parts.clone();
        if item.is_text() {
            let words = item.line.words();
            let own = self.terms.iter().filter(|term| words.count(**term) > 0);
            scores.insert("matched".to_owned(), own.count() as f64);
        }
        scores
    }

    fn count(&self, text: &str) -> Tokens {
        self.counts.counter().count(text)
    }

    fn additional_tokens(&self) -> Tokens {
        match self.additional {
            None => 0,
            Some(text) => self.count(&heading(Channel::Custom)) + self.count(text) + 1,
        }
    }

    /// Renders what was picked, and accounts for the rest.
    fn finish(
        &self,
        mut basket: Basket<'_, '_>,
        items: &[&Ranked],
        near: &BTreeMap<i64, String>,
        parts: &[(Channel, Tokens)],
    ) -> Selection {
        let (mut content, mut components) = self.render(&basket.picks);
        let mut tokens = self.count(&content);
        // Counts of lines add up to that of the text, for the tokenizers that
        // say so; for others, what fits least well leaves until it is true.
        while tokens > self.budget && !basket.picks.is_empty() {
            let last = (0..basket.picks.len()).min_by(|&a, &b| {
                let (a, b) = (&basket.picks[a], &basket.picks[b]);
                let pinned = a.pinned.cmp(&b.pinned);
                pinned.then(a.item.rank().total_cmp(&b.item.rank()))
            });
            let pick = basket.picks.remove(last.unwrap_or_default());
            basket.taken.remove(&pick.item.candidate.key);
            (content, components) = self.render(&basket.picks);
            tokens = self.count(&content);
        }
        let left = self.budget.saturating_sub(tokens);
        let mut channels: BTreeMap<&'static str, ChannelBudget> = BTreeMap::new();
        for (channel, allowed) in parts {
            let known = channels.entry(channel.name()).or_default();
            known.allowed = *allowed;
            known.used = basket.by_channel.get(channel).copied().unwrap_or(0);
        }
        for pick in &basket.picks {
            let channel = pick.item.candidate.channel.name();
            channels.entry(channel).or_default().kept += 1;
        }
        let (mut excluded, mut unlisted) = (Vec::new(), 0);
        let mut seen = BTreeSet::new();
        for item in items {
            let candidate = &item.candidate;
            let name = candidate.channel.name();
            channels.entry(name).or_default().found += 1;
            let shown = basket.taken.contains(&candidate.key);
            if shown || !seen.insert(candidate.key) {
                continue;
            }
            if excluded.len() >= MOST_LEFT_OUT {
                unlisted += 1;
                continue;
            }
            let (code, reason) = match near.get(&candidate.key) {
                Some(other) => (
                    Code::NearDuplicate,
                    format!("says nearly what {other} says"),
                ),
                None => {
                    let needed = basket.price(item, self.tokens(item));
                    (Code::OverBudget, wanting(needed, left))
                }
            };
            excluded.push(left_out(item, self.tokens(item), code, reason));
        }
        let findings = basket.picks.iter().flat_map(|pick| {
            let line = &pick.item.line;
            let found = line.findings.iter().cloned();
            found.map(|finding| (line.id.clone(), finding))
        });
        let findings = findings.collect();
        let parted = basket.picks.iter().any(|pick| pick.part.is_some());
        let over = excluded.iter().any(|row| row.code == Code::OverBudget);
        Selection {
            content,
            tokens,
            components,
            truncated: parted || over,
            unlisted,
            findings,
            excluded,
            channels,
        }
    }

    fn render(&self, picks: &[Pick<'_>]) -> (String, Vec<ContextComponent>) {
        let mut content = String::new();
        let mut components = Vec::with_capacity(picks.len());
        for channel in Channel::ALL {
            let mut of_channel: Vec<&Pick<'_>> = (picks.iter())
                .filter(|pick| pick.item.candidate.channel == channel)
                .collect();
            if of_channel.is_empty() {
                continue;
            }
            sort(channel, &mut of_channel);
            open(&mut content, channel);
            let mut group = None;
            for pick in of_channel {
                let candidate = &pick.item.candidate;
                let header = (candidate.run, pick.item.line.group.as_str());
                if channel == Channel::Semantic && group != Some(header) {
                    if group.is_some() {
                        content.push('\n');
                    }
                    if !header.1.is_empty() {
                        let _ = writeln!(content, "[{}]", header.1);
                    }
                    group = Some(header);
                }
                let body = match &pick.part {
                    Some((part, _)) => part,
                    None if channel == Channel::Recent => pick.item.line.dated(self.counts).0,
                    None => &pick.item.line.body,
                };
                content.push_str(body);
                content.push('\n');
                components.push(ContextComponent {
                    channel,
                    source: pick.item.line.id.clone(),
                    kind: Some(candidate.kind),
                    content: body.to_owned(),
                    tokens: pick.tokens,
                    original_tokens: self.tokens(pick.item),
                    relevance_score: candidate.score,
                    scores: self.scores(pick.item),
                    shown: pick.part.as_ref().map(|(_, shown)| *shown),
                });
            }
        }
        if let Some(text) = self.additional {
            open(&mut content, Channel::Custom);
            content.push_str(text);
            content.push('\n');
            components.push(ContextComponent {
                channel: Channel::Custom,
                source: "additional_context".to_owned(),
                kind: None,
                content: text.to_owned(),
                tokens: self.count(text) + 1,
                original_tokens: self.count(text) + 1,
                relevance_score: 1.0,
                scores: BTreeMap::new(),
                shown: None,
            });
        }
        (content, components)
    }
}

impl<'p> Basket<'p, '_> {
    fn knows(&self, item: &Ranked) -> bool {
        self.taken.contains(&item.candidate.key)
    }

    /// Returns what an item adds, with the headings that it is the first under.
    fn price(&self, item: &Ranked, tokens: Tokens) -> Tokens {
        let channel = item.candidate.channel;
        let mut price = tokens;
        if !self.sections.contains(&channel) {
            price += self.selector.count(&heading(channel));
        }
        let group = item.line.group.as_str();
        let is_open = self.groups.contains(&(item.candidate.run, group));
        if channel == Channel::Semantic && !is_open {
            price += self.selector.count(&format!("[{group}]\n"));
        }
        price
    }

    /// Takes an item, unless it or nearly the same is there.
    fn offer(&mut self, item: &'p Ranked, near: &mut BTreeMap<i64, String>) {
        if self.knows(item) || self.is_near(item, near) {
            return;
        }
        let tokens = self.selector.tokens(item);
        self.take(item, None, tokens, false);
    }

    /// Returns true when nearly the same is there, and notes it.
    fn is_near(&self, item: &Ranked, near: &mut BTreeMap<i64, String>) -> bool {
        if near.contains_key(&item.candidate.key) {
            return true;
        }
        if !item.is_text() {
            return false;
        }
        let words = item.line.words();
        let mut others = self.picks.iter().filter(|pick| pick.item.is_text());
        let same = |pick: &&Pick<'_>| similar(words, pick.item.line.words()) >= NEAR_DUPLICATE;
        let Some(pick) = others.find(same) else {
            return false;
        };
        near.insert(item.candidate.key, pick.item.line.id.clone());
        true
    }

    /// Takes the best passage of an item that is larger than what is left of
    /// `room`.
    fn offer_part(&mut self, item: &'p Ranked, pinned: bool, room: Tokens) {
        let selector = self.selector;
        let around = self.price(item, 0);
        let left = room.saturating_sub(self.used + around);
        if left < LEAST_PART {
            return;
        }
        let lead = item.lead(selector.counts);
        let body = item.rest();
        let part = |range: &str| format!("{lead}{}\n", within(body, range));
        let mut fits = |range: &str| selector.count(&part(range)) <= left;
        let Some(range) = snippet(body, selector.terms, &mut fits) else {
            return;
        };
        let text = part(&body[range]);
        let tokens = selector.count(&text);
        if tokens < LEAST_PART || tokens > left {
            return;
        }
        let text = text.trim_end().to_owned();
        self.take(item, Some((text, Shown::Snippet)), tokens, pinned);
    }

    fn take(
        &mut self,
        item: &'p Ranked,
        part: Option<(String, Shown)>,
        tokens: Tokens,
        pinned: bool,
    ) {
        let price = self.price(item, tokens);
        let channel = item.candidate.channel;
        self.used += price;
        *self.by_channel.entry(channel).or_default() += price;
        self.sections.insert(channel);
        if channel == Channel::Semantic {
            self.groups.insert((item.candidate.run, &item.line.group));
        }
        self.taken.insert(item.candidate.key);
        self.picks.push(Pick {
            item,
            part,
            tokens,
            pinned,
        });
    }

    /// Makes a pick a third as long.
    fn shorten(&mut self, at: usize) {
        let selector = self.selector;
        let pick = &self.picks[at];
        let third = pick.tokens / 3;
        let (lead, body) = (pick.item.lead(selector.counts), pick.item.rest());
        let summary = selector.summarise.and_then(|make| make(body, third));
        // Whoever wrote it, it is content.
        let summary = summary.map(|summary| {
            let guarded = Text::guarded(&summary, selector.policy);
            guarded.as_str().trim_end().to_owned()
        });
        let fits = |text: &str| selector.count(&format!("{lead}{text}\n")) <= third;
        let part = match summary.filter(|summary| fits(summary)) {
            Some(summary) => Some((form::indented(&summary), Shown::Summary)),
            None => shorten(body, selector.terms, &mut |text| fits(text))
                .map(|text| (text, Shown::Compressed)),
        };
        let part = part.map(|(text, shown)| (format!("{lead}{text}"), shown));
        let Some((text, shown)) = part else { return };
        let text = text.trim_end().to_owned();
        let tokens = selector.count(&format!("{text}\n"));
        if text.is_empty() || tokens >= pick.tokens {
            return;
        }
        let saved = pick.tokens - tokens;
        let channel = pick.item.candidate.channel;
        self.used -= saved;
        if let Some(used) = self.by_channel.get_mut(&channel) {
            *used = used.saturating_sub(saved);
        }
        let pick = &mut self.picks[at];
        pick.part = Some((text, shown));
        pick.tokens = tokens;
    }
}

/// Returns the row of something that is not shown.
fn left_out(item: &Ranked, tokens: Tokens, code: Code, reason: String) -> LeftOut {
    let candidate = &item.candidate;
    LeftOut {
        channel: candidate.channel,
        source: item.line.id.clone(),
        tokens,
        relevance_score: candidate.score,
        scores: candidate.parts.clone(),
        code,
        reason,
    }
}

/// Says what would have kept something.
fn wanting(needed: Tokens, left: Tokens) -> String {
    format!(
        "needed {} tokens, {} were left",
        grouped(needed),
        grouped(left)
    )
}

/// Returns a passage, with marks where something is missing before or behind.
fn within(body: &str, passage: &str) -> String {
    let before = if body.starts_with(passage) {
        ""
    } else {
        "… "
    };
    let behind = if body.ends_with(passage) { "" } else { " …" };
    format!("{before}{}{behind}", passage.trim())
}

fn heading(channel: Channel) -> String {
    format!("\n## {}\n\n", channel.heading())
}

fn open(content: &mut String, channel: Channel) {
    let heading = heading(channel);
    content.push_str(match content.is_empty() {
        true => heading.trim_start(),
        false => &heading,
    });
}

/// Puts what happened in the order it happened, and the rest by score.
fn sort(channel: Channel, picks: &mut [&Pick<'_>]) {
    match channel {
        Channel::Recent => picks.sort_by_key(|pick| when(pick)),
        Channel::Semantic => {
            // Groups by their first text.
            let mut first: BTreeMap<(Option<u32>, &str), (i64, i64)> = BTreeMap::new();
            for pick in picks.iter() {
                let group = (pick.item.candidate.run, pick.item.line.group.as_str());
                let at = first.entry(group).or_insert((i64::MAX, i64::MAX));
                *at = (*at).min(when(pick));
            }
            picks.sort_by_key(|pick| {
                let group = (pick.item.candidate.run, pick.item.line.group.as_str());
                (first.get(&group).copied(), when(pick))
            });
        }
        _ => {
            let score = |pick: &Pick<'_>| pick.item.candidate.score;
            picks.sort_by(|a, b| {
                let better = score(b).total_cmp(&score(a));
                better.then(a.item.candidate.key.cmp(&b.item.candidate.key))
            });
        }
    }
}

fn when(pick: &Pick<'_>) -> (i64, i64) {
    (pick.item.candidate.at, pick.item.candidate.key)
}
