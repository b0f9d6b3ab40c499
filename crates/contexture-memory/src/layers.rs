//! Converts the candidates of a recall into layers for the engine's fit: one
//! for each channel, with its heading and its share.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
// The map is never iterated, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use contexture_core::guard::{self, Policy};
use contexture_core::{
    Assembly, ByScore, Code, Counts, Curator, Cut, Excluded, Fit, Form, FormKind, Frame, Heading,
    Included, Item, Layer, NearPrint, Role, Scores, Share, Text, Tokens, Trust, grouped,
};
use contexture_engine::{Engine, Summariser};
use contexture_recall::{is_near_duplicate, shorten, snippet};
use contexture_store::{RecordKey, RecordKind};

use crate::alike::Alike;
use crate::channels::Candidate;
use crate::context::{
    Channel, ChannelBudget, Context, ContextComponent, ContextRequest, LeftOut, Shown,
};
use crate::form;
use crate::found_lines::KeyHash;
use crate::lines::Line;
use crate::lock;
use crate::recall::Findings;
use crate::score::Part;
use crate::shorten;

/// The number of best records that are kept before channels get their shares.
/// They are shown as a passage rather than dropped.
const BEST: usize = 3;

/// The maximum number of rows for dropped records in a context.
const MOST_LEFT_OUT: usize = 200;

/// The code of records that are not valid at the time of the recall.
const NOT_VALID: Code = Code::by_rule("not_valid");

/// The milliseconds of a day.
const DAY: f64 = 86_400_000.0;

/// A record that was found, with its text.
#[derive(Debug)]
pub(crate) struct FoundRecord {
    /// The found record, with the parts of its score.
    pub(crate) candidate: Candidate,
    pub(crate) line: Arc<Line>,
    // The tokens of the line, and the factor of the score for its length. They are
    // here because all records are ranked, and most lines are not shown.
    tokens: Tokens,
    factor: f64,
    // The number of represented texts, and the line with the note about them.
    note: Option<(usize, Text)>,
}

impl FoundRecord {
    pub(crate) fn new(mut candidate: Candidate, line: Arc<Line>) -> Self {
        let factor = length_factor(&line);
        if factor < 1.0 {
            candidate.parts.add(Part::Length, factor);
        }
        Self {
            candidate,
            tokens: line.tokens,
            line,
            factor,
            note: None,
        }
    }

    /// Returns the record with a note about the texts that it represents.
    fn representing(found: &Arc<Self>, others: usize) -> Arc<Self> {
        let Some(note) = Alike::note(others) else {
            return Arc::clone(found);
        };
        let text = found.text();
        let noted = text.shortened(&format!("{}{note}", text.as_str()));
        Arc::new(Self {
            candidate: found.candidate.clone(),
            line: Arc::clone(&found.line),
            note: Some((note.len(), noted)),
            ..**found
        })
    }

    /// Returns the parts of the score.
    fn scores(&self) -> Arc<Scores> {
        Arc::new(self.candidate.parts.named(None))
    }

    /// Returns the parts of the score. For a text, includes the number of query
    /// words in the text itself, without its neighbours.
    fn scores_with_words(&self, terms: &[u32]) -> Arc<Scores> {
        if !self.candidate.is_text() {
            return self.scores();
        }
        let matched = (Part::Matched, self.line.count_terms(terms) as f64);
        Arc::new(self.candidate.parts.named(Some(matched)))
    }

    /// Returns the line of the record. A recent record has its time before it.
    fn text(&self) -> &Text {
        if let Some((_, noted)) = &self.note {
            return noted;
        }
        match self.candidate.channel {
            Channel::Recent => self.line.dated(),
            _ => &self.line.text,
        }
    }

    /// Returns the prefix that is always shown, and the rest.
    fn split(&self) -> (&str, &str) {
        let whole = self.text().as_str();
        let note = self.note.as_ref().map_or(0, |(length, _)| *length);
        let rest = self.line.text.as_str().len() - self.line.lead + note;
        whole.split_at(whole.len() - rest)
    }

    /// Returns the sort key: the time of the record.
    fn when(&self) -> (i64, i64) {
        (self.candidate.at, self.candidate.key)
    }

    /// Returns true if two texts may be near-duplicates: texts of two speakers
    /// or users are not. A new event has no record, so its author is unknown.
    fn is_comparable(&self, other: &Self) -> bool {
        let is_new = |found: &Self| found.candidate.key == RecordKey::MIN;
        is_new(self) || is_new(other) || self.candidate.author == other.candidate.author
    }
}

/// Returns the factor of a record's score for its length.
fn length_factor(line: &Line) -> f64 {
    1.0 / (line.tokens as f64 / 128.0).max(1.0).sqrt()
}

/// The records that are offered to the fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// All records.
    All,
    /// The best records: 1.25 times as many as the budget holds, and at least
    /// [`LEAST_OFFERED`].
    Best,
}

/// The minimum number of offered records.
const LEAST_OFFERED: usize = 256;

/// Creates passages and summaries of records, and detects near-duplicates.
struct RecordCurator {
    // The terms of the query, to choose the passages that contain them.
    terms: Vec<u32>,
    policy: Policy,
    summariser: Option<Arc<dyn Summariser>>,
    // The latest shortened form of each record.
    made: Mutex<BTreeMap<Arc<str>, Form>>,
}

impl std::fmt::Debug for RecordCurator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordCurator")
    }
}

impl RecordCurator {
    /// Returns lines of a guarded text as a text. Removing parts and adding
    /// markers cannot create new structure.
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

/// The records that are offered, with the ids of their items.
#[derive(Debug, Default)]
struct OfferedRecords {
    list: Vec<(Arc<str>, Arc<FoundRecord>)>,
    // The index of each record, by the address of its item's id. The rows of a
    // report have the ids of the items themselves, so no text is hashed or compared.
    places: PlacesByAddress,
}

#[allow(clippy::disallowed_types)]
type PlacesByAddress = HashMap<usize, usize, KeyHash>;

/// The places of records in a list, by their keys.
#[allow(clippy::disallowed_types)]
type PlacesByKey = HashMap<RecordKey, usize, KeyHash>;

impl OfferedRecords {
    fn with_capacity(records: usize) -> Self {
        Self {
            list: Vec::with_capacity(records),
            places: PlacesByAddress::with_capacity_and_hasher(records, KeyHash::default()),
        }
    }

    fn push(&mut self, id: Arc<str>, found: Arc<FoundRecord>) {
        self.places.insert(address(&id), self.list.len());
        self.list.push((id, found));
    }

    /// Returns the record of the item with this id.
    fn get(&self, id: &Arc<str>) -> Option<&Arc<FoundRecord>> {
        let place = self.places.get(&address(id))?;
        Some(&self.list[*place].1)
    }
}

fn address(id: &Arc<str>) -> usize {
    id.as_ptr() as usize
}

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
            // A summary is treated as content, even if a model wrote it.
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

    fn near_keys(&self, item: &Item, keys: &mut Vec<u32>) -> Option<NearPrint> {
        // Only texts are compared with each other.
        let Some(found) = found(item) else {
            return Some(NearPrint::default());
        };
        let near = found.line.near();
        keys.extend_from_slice(&near.keys);
        Some(near.print)
    }

    fn near_duplicate(&self, a: &Item, b: &Item) -> Option<Ordering> {
        let (a, b) = (found(a)?, found(b)?);
        let same = a.is_comparable(b) && is_near_duplicate(a.line.words(), b.line.words());
        // A text of a time that the query names is preferred to a newer one.
        let preference = |found: &FoundRecord| (found.candidate.in_time, found.when());
        same.then(|| preference(a).cmp(&preference(b)))
    }
}

/// Returns a passage, with markers where text is omitted before or after it.
fn within(body: &str, passage: &str) -> String {
    let before = if body.starts_with(passage) {
        ""
    } else {
        "… "
    };
    let behind = if body.ends_with(passage) { "" } else { " …" };
    format!("{before}{}{behind}", passage.trim())
}

/// The found records as layers, for a request or a context.
pub(crate) struct Selection<'f> {
    findings: &'f Findings,
    records: OfferedRecords,
    // The number of records that rank lower and are not offered.
    more: usize,
    // The offered texts that others represent if they are not shown.
    members: BTreeSet<RecordKey>,
    // The number of texts that an offered text represents, by its key: identical
    // ones, and similar ones.
    represented: BTreeMap<RecordKey, (usize, usize)>,
    layers: Vec<Layer>,
    curator: Arc<RecordCurator>,
    best: usize,
    // The additional text of the request.
    additional: Option<Text>,
}

impl<'f> Selection<'f> {
    /// Groups the found records into layers. `pinned` comes before everything
    /// else.
    ///
    /// Of the further texts of a series, only `members` are offered. If it is
    /// `None`, all are offered, and the notes count all of them: a note then has
    /// at least the length of the right one.
    pub(crate) fn new(
        engine: &Engine,
        findings: &'f Findings,
        pinned: Option<Arc<FoundRecord>>,
        request: &ContextRequest,
        offered: Offered,
        members: Option<&BTreeSet<RecordKey>>,
    ) -> Self {
        let policy = engine.policy();
        let is_pinned = |found: &FoundRecord| {
            let event = found.candidate.kind == RecordKind::Event;
            event && (pinned.as_ref()).is_some_and(|pinned| pinned.line.id == found.line.id)
        };
        // A record of several channels is offered by the channel with the best
        // score.
        let score = |i: usize| findings.records[i].candidate.score;
        let mut best: Vec<(RecordKey, usize)> = Vec::with_capacity(findings.records.len());
        let mut places =
            PlacesByKey::with_capacity_and_hasher(findings.records.len(), KeyHash::default());
        for (i, found) in findings.records.iter().enumerate() {
            let key = found.candidate.key;
            if is_pinned(found) {
                continue;
            }
            match places.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(best.len());
                    best.push((key, i));
                }
                Entry::Occupied(place) => {
                    let known = &mut best[*place.get()].1;
                    if score(i).total_cmp(&score(*known)).is_gt() {
                        *known = i;
                    }
                }
            }
        }
        let all_members: BTreeSet<RecordKey> = (findings.duplicates.values())
            .flat_map(|alike| alike.members.iter().copied())
            .collect();
        if let Some(members) = members {
            best.retain(|(key, _)| members.contains(key) || !all_members.contains(key));
        }
        let all = best.len();
        let mut more = 0;
        if offered == Offered::Best && all > LEAST_OFFERED {
            more = leave_best(&mut best, findings, &all_members, request.max_tokens);
        }
        best.sort_unstable();
        let is_offered = |key: &RecordKey| best.binary_search_by_key(key, |one| one.0).is_ok();
        let is_shown = |key: &RecordKey| members.is_some() && is_offered(key);
        let represented = represented(findings, is_offered, is_shown);
        let now = findings.now.unwrap_or_else(jiff::Timestamp::now);
        let mut records = OfferedRecords::with_capacity(best.len() + 1);
        let mut by_channel: BTreeMap<Channel, Vec<Offer>> = BTreeMap::new();
        let members = all_members.into_iter().filter(is_offered).collect();
        let noted = |found: &Arc<FoundRecord>| match represented.get(&found.candidate.key) {
            Some((same, like)) => FoundRecord::representing(found, same + like),
            None => Arc::clone(found),
        };
        let best = best.iter().map(|(_, i)| noted(&findings.records[*i]));
        let mut ids = ItemIds::default();
        for found in best.chain(pinned.iter().cloned()) {
            let channel = found.candidate.channel;
            let id = ids.unique(&found);
            records.push(Arc::clone(&id), Arc::clone(&found));
            let offer = Offer { id, found };
            by_channel.entry(channel).or_default().push(offer);
        }
        let shares = shares(findings);
        let now = now.as_millisecond();
        let mut layers: Vec<Layer> = Channel::ALL
            .into_iter()
            .map(|channel| {
                let offers = by_channel.remove(&channel).unwrap_or_default();
                let percent = shares[channel as usize];
                channel_layer(channel, percent, offers, now)
            })
            .collect();
        let additional = request.additional_context.as_deref();
        let additional = additional.filter(|text| !text.trim().is_empty());
        let additional = additional.map(|text| Text::guarded(text.trim_end(), policy));
        if let Some(text) = &additional {
            let item = Item::new(ADDITIONAL, Role::Context, text.clone()).pinned();
            let mut layer = channel_layer(Channel::Custom, 0.0, Vec::new(), now);
            layer.items.push(item);
            layers.push(layer);
        }
        Self {
            findings,
            records,
            more,
            members,
            represented,
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

    /// Returns the rules by which the records compete.
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

    /// Returns true if there are records that are not offered.
    pub(crate) fn has_more(&self) -> bool {
        self.more > 0
    }

    /// Returns the further texts of series that are shown.
    pub(crate) fn shown_members(&self, assembly: &Assembly) -> BTreeSet<RecordKey> {
        if self.members.is_empty() {
            return BTreeSet::new();
        }
        let rows = assembly.report.included.iter();
        let shown = rows.filter_map(|row| self.records.get(&row.id));
        let shown = shown.map(|found| found.candidate.key);
        shown.filter(|key| self.members.contains(key)).collect()
    }

    /// Returns the further texts of series that are offered.
    pub(crate) fn members(&self) -> &BTreeSet<RecordKey> {
        &self.members
    }

    /// Returns the layers, with or without headings. It can be called once. The
    /// items have the parts of their scores, which the report lists.
    pub(crate) fn layers(&mut self, headings: bool) -> Vec<Layer> {
        fn finish(layer: &mut Layer, headings: bool) {
            if !headings {
                layer.heading = None;
            }
            for item in &mut layer.items {
                if let Some(scores) = record_of(item).map(FoundRecord::scores) {
                    item.scores = scores;
                }
            }
            for inner in &mut layer.layers {
                finish(inner, headings);
            }
        }
        let mut layers = std::mem::take(&mut self.layers);
        for layer in &mut layers {
            finish(layer, headings);
        }
        layers
    }

    /// Returns all records as one layer without tags. It can be called once.
    pub(crate) fn document(&mut self) -> Layer {
        Layer {
            fit: self.fit(),
            frame: Some(Frame {
                role: Role::Document,
                path: None,
                trust: Trust::Retrieved,
            }),
            curator: Some(self.curator()),
            layers: std::mem::take(&mut self.layers),
            ..Layer::new("memory")
        }
    }

    /// Returns a row for each group of records that are not offered: duplicates
    /// of offered records, and records that rank below all offered ones.
    pub(crate) fn groups(&self) -> Vec<Excluded> {
        let by_key: BTreeMap<i64, &Arc<str>> = (self.records.list.iter())
            .map(|(id, found)| (found.candidate.key, id))
            .collect();
        let rows = self.represented.iter().flat_map(|(key, (same, like))| {
            let id = by_key.get(key);
            let row = |count: usize, name: &str, reason: &str| {
                let id = id.filter(|_| count > 0)?;
                let (others, them) = match count {
                    1 => ("record", "it"),
                    _ => ("records", "them"),
                };
                let reason = format!(
                    "{} {others} {reason} `{id}`, which represents {them}",
                    grouped(count as u64)
                );
                let (name, code) = (format!("{name} {id}"), Code::NEAR_DUPLICATE);
                let mut row = Excluded::unoffered(&name, "", Role::Context, code, reason);
                row.items = Some(count as u64);
                Some(row)
            };
            let same = row(*same, "duplicates of", "with the same content as");
            let like = row(*like, "records like", "differing only in numbers from");
            [same, like].into_iter().flatten()
        });
        rows.chain(self.lower()).collect()
    }

    /// Returns a row for the records that are not valid now.
    fn invalid(&self) -> Option<Excluded> {
        let count = self.findings.invalid;
        (count > 0).then_some(())?;
        let (records, are) = match count {
            1 => ("record", "is"),
            _ => ("records", "are"),
        };
        let reason = format!(
            "{} {records} {are} superseded, expired or not valid yet",
            grouped(count as u64)
        );
        let (name, code) = ("invalid records", NOT_VALID);
        let mut row = Excluded::unoffered(name, "", Role::Context, code, reason);
        row.items = Some(count as u64);
        Some(row)
    }

    /// Returns a row for the records that rank below all offered ones.
    fn lower(&self) -> Option<Excluded> {
        let count = self.findings.lower + self.more;
        (count > 0).then_some(())?;
        let offered = self.records.list.len();
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

    /// Returns the context for the result of the fit.
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
        let mut groups = self.groups();
        groups.extend(self.invalid());
        left.extend(&groups);
        let over = |row: &&Excluded| ![Code::NEAR_DUPLICATE, NOT_VALID].contains(&row.code);
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
        let original_tokens = counts.count_of(&whole);
        let (content, tokens) = match &form {
            Some(form) => (form.text.clone(), counts.count_of(&form.text)),
            None => (whole, original_tokens),
        };
        let id = found.map_or(&row.id, |found| &found.line.id);
        ContextComponent {
            channel: found.map_or(Channel::Custom, |found| found.candidate.channel),
            source: String::from(&**id),
            kind: found.map(|found| found.candidate.kind),
            tokens,
            content,
            original_tokens,
            relevance_score: row.score.unwrap_or(1.0),
            scores: match found {
                Some(found) => found.scores_with_words(&self.findings.terms),
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
            source: String::from(&*row.id),
            tokens: row.tokens,
            relevance_score: row.score.unwrap_or(0.0),
            scores: match found {
                Some(found) => found.scores(),
                None => Arc::clone(&row.scores),
            },
            code: row.code,
            reason: row.reason.clone(),
        }
    }
}

/// The name of the request's additional text.
const ADDITIONAL: &str = "additional_context";

/// Returns the share of each channel in percent, in the order of
/// [`Channel::ALL`].
fn shares(findings: &Findings) -> [f64; 5] {
    // The percentages are nested: patterns get their part first, the others
    // share the rest.
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

/// Returns the number of texts that each offered text represents, by its key:
/// identical ones, and similar ones. Texts of a series that are not shown count.
fn represented(
    findings: &Findings,
    is_offered: impl Fn(&RecordKey) -> bool,
    is_shown: impl Fn(&RecordKey) -> bool,
) -> BTreeMap<RecordKey, (usize, usize)> {
    let duplicates = &findings.duplicates;
    let others = |key: &RecordKey| duplicates.get(key).map_or(0, Alike::others);
    let offered = duplicates.iter().filter(|(key, _)| is_offered(key));
    let counts = offered.map(|(key, alike)| {
        let members = alike.members.iter().filter(|member| !is_shown(member));
        let hidden: usize = members.map(|member| 1 + others(member)).sum();
        (*key, (alike.same, alike.like + hidden))
    });
    counts.filter(|(_, counts)| *counts != (0, 0)).collect()
}

/// Keeps the best records of a list: 1.25 times as many as the budget holds.
/// Returns the number of removed records and of texts that are like them, without
/// the `members` of a series, which another text represents. Records that are not
/// texts are few, and all of them are kept.
fn leave_best(
    best: &mut Vec<(RecordKey, usize)>,
    findings: &Findings,
    members: &BTreeSet<RecordKey>,
    max_tokens: Tokens,
) -> usize {
    let found = |i: usize| &findings.records[i];
    let mut ranks: Vec<(u64, usize)> = (best.iter())
        .map(|(_, i)| {
            let found = found(*i);
            let rank = found.candidate.score * found.factor;
            (descending(rank), *i)
        })
        .collect();
    // The order of the first ones does not matter, because all of them are kept.
    let tokens_of = |(_, i): &(u64, usize)| found(*i).tokens;
    let enough = max_tokens.saturating_add(max_tokens / 4);
    let mut offered = LEAST_OFFERED.min(ranks.len());
    if offered < ranks.len() {
        ranks.select_nth_unstable(offered);
        let first = ranks[..offered].iter().map(tokens_of);
        let mut tokens = first.fold(0, Tokens::saturating_add);
        if tokens <= enough {
            ranks[offered..].sort_unstable();
            let more = ranks[offered..].iter().take_while(|rank| {
                tokens = tokens.saturating_add(tokens_of(rank));
                tokens <= enough
            });
            offered += more.count();
        }
    }
    let mut is_left_out = vec![false; findings.records.len()];
    let left_out: Vec<usize> = (ranks.iter().skip(offered).map(|(_, i)| *i))
        .filter(|i| found(*i).candidate.is_text())
        .collect();
    left_out.iter().for_each(|i| is_left_out[*i] = true);
    best.retain(|(_, i)| !is_left_out[*i]);
    let removed = left_out.iter().map(|i| found(*i).candidate.key);
    let removed = removed.filter(|key| !members.contains(key));
    let others = |key: RecordKey| {
        let alike = findings.duplicates.get(&key);
        alike.map_or(0, |alike| alike.others() + alike.members.len())
    };
    removed.map(|key| 1 + others(key)).sum()
}

/// Returns a number that is smaller for a larger value, in the order of
/// [`f64::total_cmp`].
fn descending(value: f64) -> u64 {
    let bits = value.to_bits();
    // Negative values are in reverse order, below the others.
    match value.is_sign_negative() {
        true => bits,
        false => !bits & (u64::MAX >> 1),
    }
}

/// A record with the id of its item.
struct Offer {
    id: Arc<str>,
    found: Arc<FoundRecord>,
}

/// The ids of items, each used once. Records of different kinds may have the same
/// id.
#[derive(Default)]
struct ItemIds {
    // The kind of all records so far.
    kind: Option<RecordKind>,
    // The ids of all records so far.
    plain: Vec<Arc<str>>,
    // All ids, once there are two kinds. Ids of one kind differ.
    used: Option<BTreeSet<Arc<str>>>,
}

impl ItemIds {
    /// Returns the id for the item of a record.
    fn unique(&mut self, found: &FoundRecord) -> Arc<str> {
        let (id, kind) = (&found.line.id, found.candidate.kind);
        if *self.kind.get_or_insert(kind) == kind && self.used.is_none() {
            self.plain.push(Arc::clone(id));
            return Arc::clone(id);
        }
        let plain = &mut self.plain;
        let used = (self.used).get_or_insert_with(|| std::mem::take(plain).into_iter().collect());
        let id = match used.contains(id) {
            true => format!("{}:{id}", kind.name()).into(),
            false => Arc::clone(id),
        };
        used.insert(Arc::clone(&id));
        id
    }
}

impl Offer {
    /// Returns the item.
    fn item(self, now: i64) -> Item {
        let Self { id, found } = self;
        let mut item = Item::new(id, Role::Context, found.text().clone());
        item.path = None;
        item.trust = Trust::Retrieved;
        item.cut = Cut::Never;
        item.score = Some(found.candidate.score);
        // Of two equal scores, the newer record wins.
        let age = now.saturating_sub(found.candidate.at).max(0) as f64 / DAY;
        item.priority = 1.0 / (1.0 + age);
        item.data(found)
    }
}

/// Returns the layer of a channel, its items in the order they are shown.
fn channel_layer(channel: Channel, percent: f64, mut offers: Vec<Offer>, now: i64) -> Layer {
    match channel {
        Channel::Recent | Channel::Semantic => {
            offers.sort_by_cached_key(|offer| offer.found.when());
        }
        _ => offers.sort_by(|a, b| {
            let (a, b) = (&a.found.candidate, &b.found.candidate);
            b.score.total_cmp(&a.score).then(a.key.cmp(&b.key))
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
        layer.items = offers.into_iter().map(|offer| offer.item(now)).collect();
        return layer;
    }
    // Items are grouped by session and day, in the order of the first text of
    // each group.
    let mut groups: Vec<(Text, usize)> = Vec::new();
    let mut places: BTreeMap<(Option<u32>, Arc<str>), usize> = BTreeMap::new();
    // Most items belong to the group of the one before.
    let mut last: Option<(Option<u32>, usize)> = None;
    let place_of = |offer: &Offer| {
        let run = offer.found.candidate.run;
        let group = &offer.found.line.group;
        let is_same = |at: usize| groups.get(at).is_some_and(|(text, _)| text == group);
        let place = match last {
            Some((of, at)) if of == run && is_same(at) => at,
            _ => *places
                .entry((run, group.as_str().into()))
                .or_insert(groups.len()),
        };
        last = Some((run, place));
        if groups.len() == place {
            groups.push((group.clone(), 0));
        }
        groups[place].1 += 1;
        place
    };
    let places: Vec<usize> = offers.iter().map(place_of).collect();
    // Items are large, and a list that grows would move them.
    let mut items: Vec<Vec<Item>> = (groups.iter())
        .map(|(_, count)| Vec::with_capacity(*count))
        .collect();
    for (offer, place) in offers.into_iter().zip(places) {
        items[place].push(offer.item(now));
    }
    layer.layers = (groups.into_iter().zip(items))
        .map(|((text, _), items)| Layer {
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
