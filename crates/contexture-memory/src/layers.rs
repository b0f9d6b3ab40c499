//! Converts the candidates of a recall into layers for the engine's fit: one
//! for each channel, with its heading and its share.

use std::cmp::Ordering;
use std::collections::BTreeMap;
// Looked up only, never walked in an order that shows.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use contexture_core::guard::{self, Policy};
use contexture_core::{
    Assembly, ByScore, Code, Counts, Curator, Cut, Excluded, Fit, Form, FormKind, Frame, Heading,
    Included, Item, Layer, Role, Scores, Share, Text, Tokens, Trust, grouped,
};
use contexture_engine::{Engine, Summariser};
use contexture_recall::{is_near_duplicate, near_keys, shorten, snippet};
use contexture_store::RecordKind;

use crate::channels::{Alike, Candidate};
use crate::context::{
    Channel, ChannelBudget, Context, ContextComponent, ContextRequest, LeftOut, Shown,
};
use crate::form;
use crate::lines::Line;
use crate::lock;
use crate::recall::Findings;
use crate::shorten;

/// How many of the best are kept before channels get their shares, and are shown
/// as a passage rather than not at all.
const BEST: usize = 3;

/// How many rows there are at most for what is left out of a context.
const MOST_LEFT_OUT: usize = 200;

/// Milliseconds of a day.
const DAY: f64 = 86_400_000.0;

/// A record that was found, with its text.
#[derive(Debug, Clone)]
pub(crate) struct FoundRecord {
    pub(crate) candidate: Candidate,
    pub(crate) line: Arc<Line>,
    /// The parts of the score, by name.
    scores: Arc<Scores>,
    // What is added when it stands for many others, and how it reads then.
    note: Option<(usize, Text)>,
}

impl FoundRecord {
    pub(crate) fn new(mut candidate: Candidate, line: Arc<Line>) -> Self {
        let mut scores = std::mem::take(&mut candidate.parts);
        let longer = line.tokens as f64 / 128.0;
        if longer > 1.0 {
            scores.insert("length".into(), 1.0 / longer.sqrt());
        }
        Self {
            candidate,
            line,
            scores: Arc::new(scores),
            note: None,
        }
    }

    /// Adds how many others it stands for, when they are many.
    pub(crate) fn standing_for(mut self, alike: Option<Alike>) -> Self {
        if let Some(note) = alike.and_then(Alike::note) {
            let text = self.text();
            let noted = text.shortened(&format!("{}{note}", text.as_str()));
            self.note = Some((note.len(), noted));
        }
        self
    }

    /// Returns what its score is made of, and of a text how many of the words
    /// that are looked for it holds itself, apart from what is said around it.
    fn scores(&self, terms: &[u32]) -> Arc<Scores> {
        if !self.candidate.is_text() {
            return Arc::clone(&self.scores);
        }
        let words = self.line.words();
        let own = terms.iter().filter(|term| words.count(**term) > 0).count();
        let mut scores = Scores::clone(&self.scores);
        scores.insert("matched".into(), own as f64);
        Arc::new(scores)
    }

    /// Returns how it reads: what is recent has its time before it.
    fn text(&self) -> &Text {
        if let Some((_, noted)) = &self.note {
            return noted;
        }
        match self.candidate.channel {
            Channel::Recent => self.line.dated(),
            _ => &self.line.text,
        }
    }

    /// Returns what stands before it in any case, and the rest of it.
    fn split(&self) -> (&str, &str) {
        let whole = self.text().as_str();
        let note = self.note.as_ref().map_or(0, |(length, _)| *length);
        let rest = self.line.text.as_str().len() - self.line.lead + note;
        whole.split_at(whole.len() - rest)
    }

    /// Returns what it is put in order by: when it happened.
    fn when(&self) -> (i64, i64) {
        (self.candidate.at, self.candidate.key)
    }
}

/// Makes passages and summaries of records, and tells which say the same.
struct RecordCurator {
    // What the query looks for, to show the passages that hold it.
    terms: Vec<u32>,
    policy: Policy,
    summariser: Option<Arc<dyn Summariser>>,
    // The shorter form of each record that was made last.
    made: Mutex<BTreeMap<Arc<str>, Form>>,
}

impl std::fmt::Debug for RecordCurator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordCurator")
    }
}

impl RecordCurator {
    /// Returns lines of a guarded text as a text: what is taken out of it, and
    /// marks around that, cannot be structure that it was not before.
    fn text(&self, lines: &str) -> Text {
        Text::verbatim(lines.trim_end())
    }

    fn form(&self, item: &Item, kind: FormKind, text: Text) -> Option<Form> {
        let form = Form::new(kind, text);
        lock(&self.made).insert(Arc::clone(&item.id), form.clone());
        Some(form)
    }
}

/// Returns the record of an item.
fn record_of(item: &Item) -> Option<&FoundRecord> {
    item.data.as_ref()?.get::<FoundRecord>()
}

/// Returns the record of an item if it is a text.
fn found(item: &Item) -> Option<&FoundRecord> {
    record_of(item).filter(|found| found.candidate.is_text())
}

/// The records that are offered, by the ids of their items.
#[allow(clippy::disallowed_types)]
type RecordsById = HashMap<Arc<str>, Arc<FoundRecord>>;

impl Curator for RecordCurator {
    fn passage(&self, item: &Item, room: Tokens, counts: &Counts) -> Option<Form> {
        let (lead, body) = found(item)?.split();
        let counter = counts.counter();
        let part = |range: &str| format!("{lead}{}\n", within(body, range));
        let mut fits = |range: &str| counter.count(&part(range)) <= room;
        let range = snippet(body, &self.terms, &mut fits)?;
        let text = self.text(&part(&body[range]));
        self.form(item, FormKind::Passage, text)
    }

    fn summary(&self, item: &Item, room: Tokens, counts: &Counts) -> Option<Form> {
        let (lead, body) = found(item)?.split();
        let counter = counts.counter();
        let fits = |text: &str| counter.count(&format!("{lead}{text}\n")) <= room;
        let by_model = (self.summariser.as_ref())
            .and_then(|model| shorten::by_model(&**model, body, room))
            // Whoever wrote it, it is content.
            .map(|text| guard::visible(&text, self.policy).into_owned())
            .map(|text| form::indented(text.trim_end()));
        if let Some(text) = by_model.filter(|text| fits(text)) {
            let text = self.text(&format!("{lead}{text}"));
            return self.form(item, FormKind::Summary, text);
        }
        let text = shorten(body, &self.terms, &mut |text| fits(text))?;
        let text = self.text(&format!("{lead}{text}"));
        (!text.is_empty()).then_some(())?;
        self.form(item, FormKind::Extract, text)
    }

    fn near_keys(&self, item: &Item) -> Option<Vec<u32>> {
        // Only texts are like each other.
        let keys = found(item).map(|found| near_keys(found.line.words()).collect());
        Some(keys.unwrap_or_default())
    }

    fn near_duplicate(&self, a: &Item, b: &Item) -> Option<Ordering> {
        let (a, b) = (found(a)?, found(b)?);
        let same = is_near_duplicate(a.line.words(), b.line.words());
        same.then(|| a.when().cmp(&b.when()))
    }
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

/// What was found, on its way into a request or a context.
pub(crate) struct Selection<'f> {
    findings: &'f Findings,
    records: RecordsById,
    layers: Vec<Layer>,
    curator: Arc<RecordCurator>,
    best: usize,
    // What the request adds.
    additional: Option<Text>,
}

impl<'f> Selection<'f> {
    /// Puts what was found into layers. `pinned` comes before everything else.
    pub(crate) fn new(
        engine: &Engine,
        findings: &'f Findings,
        pinned: Option<FoundRecord>,
        request: &ContextRequest,
    ) -> Self {
        let policy = engine.policy();
        let is_pinned = |found: &FoundRecord| {
            let event = found.candidate.kind == RecordKind::Event;
            event && (pinned.as_ref()).is_some_and(|pinned| pinned.line.id == found.line.id)
        };
        // A record that several channels found is offered by the best of them.
        let mut best: Vec<&FoundRecord> =
            (findings.records.iter().filter(|found| !is_pinned(found))).collect();
        best.sort_by(|a, b| {
            let (a, b) = (&a.candidate, &b.candidate);
            a.key.cmp(&b.key).then(b.score.total_cmp(&a.score))
        });
        best.dedup_by_key(|found| found.candidate.key);
        let now = findings.now.unwrap_or_else(jiff::Timestamp::now);
        let mut records = RecordsById::with_capacity(best.len() + 1);
        let mut by_channel: BTreeMap<Channel, Vec<Item>> = BTreeMap::new();
        for found in best.into_iter().cloned().chain(pinned.clone()) {
            let channel = found.candidate.channel;
            let item = item(found, now.as_millisecond(), &mut records);
            by_channel.entry(channel).or_default().push(item);
        }
        let shares = shares(findings);
        let mut layers: Vec<Layer> = Channel::ALL
            .into_iter()
            .map(|channel| {
                let items = by_channel.remove(&channel).unwrap_or_default();
                let percent = shares[channel as usize];
                channel_layer(channel, percent, items)
            })
            .collect();
        let additional = request.additional_context.as_deref();
        let additional = additional.filter(|text| !text.trim().is_empty());
        let additional = additional.map(|text| Text::guarded(text.trim_end(), policy));
        if let Some(text) = &additional {
            let item = Item::new(ADDITIONAL, Role::Context, text.clone()).pinned();
            layers.push(channel_layer(Channel::Custom, 0.0, vec![item]));
        }
        Self {
            findings,
            records,
            layers,
            curator: Arc::new(RecordCurator {
                terms: findings.terms.clone(),
                policy,
                summariser: engine.summariser().cloned(),
                made: Mutex::default(),
            }),
            best: BEST + usize::from(pinned.is_some()),
            additional,
        }
    }

    /// Returns how the records compete.
    pub(crate) fn fit(&self) -> Fit {
        Fit::ByScore(ByScore {
            best: self.best,
            passages: self.best,
            summarise: self.findings.strategy.compress,
        })
    }

    pub(crate) fn curator(&self) -> Arc<dyn Curator> {
        Arc::clone(&self.curator) as _
    }

    /// Hands out the layers, with or without headings: once.
    pub(crate) fn layers(&mut self, headings: bool) -> Vec<Layer> {
        fn strip(layer: &mut Layer) {
            layer.heading = None;
            layer.layers.iter_mut().for_each(strip);
        }
        let mut layers = std::mem::take(&mut self.layers);
        if !headings {
            layers.iter_mut().for_each(strip);
        }
        layers
    }

    /// Hands out all of it as one layer without tags: once.
    pub(crate) fn document(&mut self) -> Layer {
        Layer {
            fit: self.fit(),
            frame: Some(Frame {
                role: Role::Document,
                path: None,
                trust: Trust::Retrieved,
            }),
            curator: Some(self.curator()),
            layers: self.layers(true),
            ..Layer::new("memory")
        }
    }

    /// Returns a row for each group of records that is not offered: those that
    /// say exactly the same as one that is, and those that rank below them all.
    pub(crate) fn groups(&self) -> Vec<Excluded> {
        let by_key: BTreeMap<i64, &Arc<str>> = (self.records.iter())
            .map(|(id, found)| (found.candidate.key, id))
            .collect();
        let rows = self.findings.duplicates.iter().flat_map(|(key, alike)| {
            let id = by_key.get(key);
            let row = |count: usize, name: &str, reason: &str| {
                let id = id.filter(|_| count > 0)?;
                let others = if count == 1 { "record" } else { "records" };
                let reason = format!(
                    "{} {others} {reason} `{id}`, which is newer",
                    grouped(count as u64)
                );
                let (name, code) = (format!("{name} {id}"), Code::NEAR_DUPLICATE);
                let mut row = Excluded::unoffered(&name, "", Role::Context, code, reason);
                row.items = Some(count as u64);
                Some(row)
            };
            let same = row(alike.same, "duplicates of", "with the same content as");
            let like = row(alike.like, "records like", "differing only in numbers from");
            [same, like].into_iter().flatten()
        });
        rows.chain(self.lower()).collect()
    }

    /// Returns a row for the records that rank below all that are offered.
    fn lower(&self) -> Option<Excluded> {
        let count = self.findings.lower;
        (count > 0).then_some(())?;
        let offered = self.records.len();
        let reason = format!(
            "{} more records rank below the {} that were compared",
            grouped(count as u64),
            grouped(offered as u64)
        );
        let (name, code) = ("lower-ranking records", Code::OVER_BUDGET);
        let mut row = Excluded::unoffered(name, "", Role::Context, code, reason);
        row.items = Some(count as u64);
        Some(row)
    }

    /// Returns the context that the fit made of it.
    pub(crate) fn context(&self, assembly: &Assembly, counts: &Counts) -> Context {
        let Assembly { layout, report } = assembly;
        let content = layout.blocks().next();
        let content = content.map_or_else(String::new, |block| format!("{}\n", block.text()));
        let components: Vec<ContextComponent> = (report.included.iter())
            .map(|row| self.component(row, counts))
            .collect();
        let mut left: Vec<&Excluded> = report.excluded.iter().collect();
        let score = |row: &Excluded| row.score.unwrap_or(0.0);
        left.sort_by(|a, b| score(b).total_cmp(&score(a)));
        let groups = self.groups();
        left.extend(&groups);
        let over = |row: &&Excluded| row.code != Code::NEAR_DUPLICATE;
        let mut channels: BTreeMap<&'static str, ChannelBudget> = BTreeMap::new();
        for (channel, layer) in
            (Channel::ALL.iter()).zip(report.budget.layers.iter().flat_map(|layer| &layer.layers))
        {
            let budget = ChannelBudget {
                allowed: layer.allowed,
                used: layer.used,
                found: layer.kept + layer.dropped,
                kept: layer.kept,
            };
            channels.insert(channel.name(), budget);
        }
        let mut metadata = self.findings.metadata.clone();
        metadata.channels = channels;
        metadata.unlisted = left.len().saturating_sub(MOST_LEFT_OUT);
        Context {
            token_count: report.budget.used,
            content,
            truncated: components.iter().any(|one| one.shown.is_some()) || left.iter().any(over),
            components,
            strategy: self.findings.strategy.clone(),
            excluded: (left.iter().take(MOST_LEFT_OUT))
                .map(|row| self.left_out(row))
                .collect(),
            metadata,
        }
    }

    fn component(&self, row: &Included, counts: &Counts) -> ContextComponent {
        let found = self.records.get(&row.id);
        let whole = found.map(|found| found.text().clone());
        let form = row.form.and_then(|_| {
            let made = lock(&self.curator.made);
            made.get(&row.id).cloned()
        });
        let additional = || self.additional.clone().unwrap_or_else(|| Text::new(""));
        let whole = whole.unwrap_or_else(additional);
        let text = form.as_ref().map_or(&whole, |form| &form.text);
        ContextComponent {
            channel: found.map_or(Channel::Custom, |found| found.candidate.channel),
            source: match found {
                Some(found) => found.line.id.clone(),
                None => row.id.to_string(),
            },
            kind: found.map(|found| found.candidate.kind),
            content: text.as_str().to_owned(),
            tokens: counts.count_of(text),
            original_tokens: counts.count_of(&whole),
            relevance_score: row.score.unwrap_or(1.0),
            scores: match found {
                Some(found) => found.scores(&self.findings.terms),
                None => Arc::default(),
            },
            shown: form.map(|form| match form.kind {
                FormKind::Summary => Shown::Summary,
                FormKind::Extract => Shown::Compressed,
                _ => Shown::Snippet,
            }),
        }
    }

    fn left_out(&self, row: &Excluded) -> LeftOut {
        let found = self.records.get(&row.id);
        LeftOut {
            channel: found.map_or(Channel::Semantic, |found| found.candidate.channel),
            source: row.id.to_string(),
            tokens: row.tokens,
            relevance_score: row.score.unwrap_or(0.0),
            scores: Arc::clone(&row.scores),
            code: row.code,
            reason: row.reason.to_string(),
        }
    }
}

/// The name of what a request adds.
const ADDITIONAL: &str = "additional_context";

/// Returns the share of each channel in percent, in the order of
/// [`Channel::ALL`].
fn shares(findings: &Findings) -> [f64; 5] {
    // Percent of percent: patterns are taken first, the others of the rest.
    let whole = 1_000_000;
    let split = findings.strategy.budget.split(whole);
    [
        split.recent,
        split.semantic,
        split.entities,
        split.relations,
        split.patterns,
    ]
    .map(|tokens| tokens as f64 * 100.0 / whole as f64)
}

/// Returns a record as an item, and notes it by the item's id.
fn item(found: FoundRecord, now: i64, records: &mut RecordsById) -> Item {
    // Records of different kinds may have the same id.
    let mut id: Arc<str> = found.line.id.as_str().into();
    if records.contains_key(&id) {
        id = format!("{}:{id}", found.candidate.kind.name()).into();
    }
    let mut item = Item::new(Arc::clone(&id), Role::Context, found.text().clone());
    item.path = None;
    item.trust = Trust::Retrieved;
    item.cut = Cut::Never;
    item.score = Some(found.candidate.score);
    item.scores = Arc::clone(&found.scores);
    // Of two that score the same, the newer one.
    let age = now.saturating_sub(found.candidate.at).max(0) as f64 / DAY;
    item.priority = 1.0 / (1.0 + age);
    let found = Arc::new(found);
    records.insert(id, Arc::clone(&found));
    item.data(found)
}

/// Returns the layer of a channel, its items in the order they are shown.
fn channel_layer(channel: Channel, percent: f64, mut items: Vec<Item>) -> Layer {
    let when = |item: &Item| record_of(item).map(FoundRecord::when);
    match channel {
        Channel::Recent | Channel::Semantic => items.sort_by_cached_key(when),
        _ => items.sort_by(|a, b| {
            let better = b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0));
            better.then_with(|| when(a).map(|w| w.1).cmp(&when(b).map(|w| w.1)))
        }),
    }
    let mut layer = Layer {
        share: Share {
            percent,
            ..Share::default()
        },
        fit: Fit::ByScore(ByScore::default()),
        heading: Some(Heading {
            text: Text::new(&format!("## {}", channel.heading())),
            spaced: true,
        }),
        ..Layer::new(channel.name())
    };
    if channel != Channel::Semantic {
        layer.items = items;
        return layer;
    }
    // By session and day, in the order of the first text of each.
    let mut groups: Vec<(Text, Vec<Item>)> = Vec::new();
    let mut places: BTreeMap<(Option<u32>, Arc<str>), usize> = BTreeMap::new();
    // Mostly the one before.
    let mut last: Option<(Option<u32>, usize)> = None;
    for item in items {
        let found = record_of(&item);
        let run = found.and_then(|found| found.candidate.run);
        let group = found.map_or_else(|| Text::new(""), |found| found.line.group.clone());
        let is_same = |at: usize| groups.get(at).is_some_and(|(text, _)| *text == group);
        let place = match last {
            Some((of, at)) if of == run && is_same(at) => at,
            _ => *places
                .entry((run, group.as_str().into()))
                .or_insert(groups.len()),
        };
        last = Some((run, place));
        match groups.get_mut(place) {
            Some((_, items)) => items.push(item),
            None => groups.push((group, vec![item])),
        }
    }
    layer.layers = groups
        .into_iter()
        .map(|(text, items)| Layer {
            share: Share::default(),
            heading: Some(Heading {
                text,
                spaced: false,
            }),
            fit: Fit::ByScore(ByScore::default()),
            items,
            ..Layer::new("")
        })
        .collect();
    layer
}
