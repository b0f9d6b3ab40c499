//! Recall: from a request to a text within the budget, with every candidate
//! accounted for.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use contexture_core::cache::Cache;
use contexture_core::guard::Finding;
use contexture_core::{Assembly, Budget, Counts, Tokens, assemble, no_loader};
use contexture_engine::{Advice, Error, Permissions, Warning, unknown_model};
use contexture_recall::{Embedder, Strategy};
use contexture_store::{EventRecord, MemoryState, Record, RecordKey};
use contexture_time::Clock;
use contexture_words::name_key;
use jiff::Timestamp;

use crate::admission::Admission;
use crate::alike::Alike;
use crate::channels::{Candidate, ChannelResults, ChannelSearch};
use crate::context::{Context, ContextRequest, Metadata, VectorProgress};
use crate::found_lines::FoundLines;
use crate::later::Generation;
use crate::layers::{FoundRecord, Offered, Selection};
use crate::lines::Line;
use crate::query::{LONGEST_QUERY, Query, head_of};
use crate::score::Part;
use crate::view::View;
use crate::{Memory, ViewGuard, dimensions_of, kept, lock, time};

/// How long a cached result is used if nothing changes, in milliseconds.
const GOOD_FOR_MS: i64 = 30_000;

/// The approximate size of a found record without its line, in bytes, and the
/// size of a context for each of its tokens.
const FOUND_BYTES: usize = 400;
const CONTEXT_BYTES: usize = 24;

/// How many texts a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// As many as the budget holds lines of usual length.
    Usual,
    /// As many as it holds short lines. The first search was not enough: its lines are
    /// short, or near-duplicates of each other.
    Deep,
}

impl Depth {
    /// Returns the number of texts for a budget.
    fn most(self, budget: Tokens) -> usize {
        let line = match self {
            Depth::Usual => 24,
            Depth::Deep => 6,
        };
        (budget / line).clamp(256, 4096) as usize
    }
}

/// A budget counts as full if at most one part in this many is unused.
const MOST_UNUSED: Tokens = 64;

/// Standing instructions without a word of the query get a bonus as long as they
/// need at most one part in this many of the budget.
const INSTRUCTIONS_PART: Tokens = 4;

/// The maximum number of fits before the further texts of a series are left out.
const MOST_FITS: usize = 4;

/// The options of a recall, in addition to the request.
#[derive(Debug, Clone, Default)]
pub struct Recall<'a> {
    /// The model whose tokens are counted. Default: the configured one.
    pub model: Option<&'a str>,
    /// The time. Default: now.
    pub now: Option<Timestamp>,
    /// The identities of the caller. Records for other identities are not
    /// returned.
    pub identity: &'a [String],
    /// An event that is always shown, recorded or not.
    pub event: Option<&'a EventRecord>,
    /// The permissions of the caller. Events whose type is denied as
    /// `memory:TYPE` are not returned.
    pub permissions: Option<&'a Permissions>,
    /// The time limit. A recall that exceeds it fails with an error for which
    /// [`Error::is_late`] is true; a missing vector is only a warning.
    pub deadline: Option<Duration>,
}

/// The result of a recall, with all found records, which an
/// [update](Memory::update) needs.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// The result.
    pub context: Arc<Context>,
    /// The changes of the guard, by record.
    pub findings: Arc<Vec<(String, Finding)>>,
    found: Arc<Findings>,
}

#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) records: Vec<Arc<FoundRecord>>,
    /// The texts that a found text represents, by its key.
    pub(crate) duplicates: BTreeMap<RecordKey, Alike>,
    /// The number of further records that may be returned and rank below the
    /// found ones.
    pub(crate) lower: usize,
    /// The number of texts that are skipped because they are not valid.
    pub(crate) invalid: usize,
    depth: Depth,
    request: ContextRequest,
    pub(crate) strategy: Strategy,
    pub(crate) metadata: Metadata,
    pub(crate) terms: Vec<u32>,
    model: Option<String>,
    // The inputs of the recall, to repeat it.
    seq: u64,
    later: u64,
    pub(crate) now: Option<Timestamp>,
    identity: Vec<String>,
    permissions: Option<Permissions>,
    // The result of the fit, computed once.
    selected: OnceLock<Selected>,
}

impl Findings {
    /// Returns the options that the records were found with, without an event and a
    /// time limit.
    fn how(&self) -> Recall<'_> {
        Recall {
            model: self.model.as_deref(),
            now: self.now,
            identity: &self.identity,
            event: None,
            permissions: self.permissions.as_ref(),
            deadline: None,
        }
    }
}

/// A context, and the changes of the guard, by record.
type Selected = (Arc<Context>, Arc<Vec<(String, Finding)>>);

/// A request, with the values that follow from it.
struct RecallCall<'a> {
    request: &'a ContextRequest,
    how: &'a Recall<'a>,
    strategy: Strategy,
    now: Timestamp,
    clock: Clock,
}

/// The maximum size of the recent findings of a memory, in bytes. Few results are
/// asked for again. Memory that was used a moment ago is made and freed faster
/// than memory that has left the processor's caches.
const RECENT_BYTES: usize = 1 << 20;

/// Recent findings, by request and state of the store. Each has its time in
/// Unix milliseconds.
#[derive(Debug, Default)]
pub(crate) struct RecentFindings {
    cache: Cache<String, (i64, Arc<Findings>)>,
    order: Mutex<RecentOrder>,
}

/// The keys of recent findings with their sizes, the oldest first.
#[derive(Debug, Default)]
struct RecentOrder {
    keys: VecDeque<(String, usize)>,
    bytes: usize,
}

impl RecentFindings {
    fn insert(&self, key: String, value: (i64, Arc<Findings>), bytes: usize) {
        let mut order = lock(&self.order);
        order.keys.push_back((key.clone(), bytes));
        order.bytes += bytes;
        self.cache.insert(key, value, bytes);
        // The latest findings stay, whatever their size.
        while order.bytes > RECENT_BYTES
            && order.keys.len() > 1
            && let Some((oldest, bytes)) = order.keys.pop_front()
        {
            order.bytes -= bytes;
            self.cache.remove(&oldest);
        }
    }

    /// Removes all findings.
    pub(crate) fn clear(&self) {
        let mut order = lock(&self.order);
        *order = RecentOrder::default();
        self.cache.clear();
    }
}

/// The vectors of recent queries, by embedder name and text.
pub(crate) type QueryVectors = Cache<(String, String), Arc<[f32]>>;

impl Memory<'_> {
    /// Finds the records for a request, and returns those that fit the budget.
    ///
    /// A result of the last 30 seconds is used again, as long as no record was
    /// stored or deleted since.
    pub fn recall(&self, request: &ContextRequest, how: &Recall<'_>) -> Result<Recalled, Error> {
        let started = Instant::now();
        let (counts, of_model) = self.counts(how.model)?;
        let found = self.find(request, how, &counts, &of_model)?;
        let Some(event) = how.event else {
            if let Some((context, findings)) = found.selected.get() {
                return Ok(Recalled {
                    context: Arc::clone(context),
                    findings: Arc::clone(findings),
                    found,
                });
            }
            let recalled = self.select(found, None, &counts, started)?;
            let selected = (
                Arc::clone(&recalled.context),
                Arc::clone(&recalled.findings),
            );
            // Two threads may compute the same selection at once, with the same
            // result.
            let _ = recalled.found.selected.set(selected);
            return Ok(recalled);
        };
        let pinned = self.pinned(event, &found.request, &counts);
        self.select(found, Some(pinned), &counts, started)
    }

    /// Finds the records for a request. The result has the warnings about the
    /// model, too.
    pub(crate) fn find(
        &self,
        request: &ContextRequest,
        how: &Recall<'_>,
        counts: &Counts,
        of_model: &[Warning],
    ) -> Result<Arc<Findings>, Error> {
        self.find_to(Depth::Usual, request, how, counts, of_model)
    }

    fn find_to(
        &self,
        depth: Depth,
        request: &ContextRequest,
        how: &Recall<'_>,
        counts: &Counts,
        of_model: &[Warning],
    ) -> Result<Arc<Findings>, Error> {
        let started = Instant::now();
        if request.max_tokens == 0 {
            return Err(Error::input("the budget is 0 tokens").advise(Advice::raise("max_tokens")));
        }
        let now = kept(how.now);
        let (clock, unknown_zone) = time::clock(now, request.timezone.as_deref());
        let asked = RecallCall {
            request,
            how,
            strategy: self.strategy(request)?,
            now,
            clock,
        };
        let deadline = how.deadline.map(|deadline| started + deadline);
        let state = self.catch_up_vectors(deadline)?;
        let progress = self.vector_progress(&state)?;
        let key = |view: &View| {
            let (seq, later) = (view.seq, view.later);
            let request = serde_json::to_string(request).unwrap_or_default();
            let clock = how.now.map(|now| now.as_millisecond());
            let who = (how.identity, how.permissions);
            let counter = counts.counter().identity();
            let model = serde_json::to_string(of_model).unwrap_or_default();
            format!("{seq} {later} {depth:?}\n{counter}\n{clock:?}\n{who:?}\n{model}\n{request}")
        };
        let guard = self.view_at(state.clone(), deadline)?;
        let known = guard.as_ref().and_then(|view| self.kept(&key(view), now));
        if let Some(known) = known {
            return Ok(known);
        }
        let (guard, query, vector) = self.query(guard, &state, &asked, deadline)?;
        let Some(view) = guard.as_ref() else {
            return Err(Error::damage("the memory could not be read"));
        };
        let mut warnings = of_model.to_vec();
        warnings.extend(vector.warning);
        warnings.extend(unknown_zone);
        warnings.extend(self.pending_warnings());
        let search = PreparedSearch {
            view,
            query,
            vector: vector.vector,
            progress,
        };
        let found = Arc::new(self.look(depth, search, asked, counts, warnings)?);
        let kept_as = key(view);
        let is_damaged = view.index.is_damaged();
        drop(guard);
        if is_damaged {
            // The index file was damaged while it was in use; the next attempt
            // reads the store.
            self.drop_damaged();
            return self.find_to(depth, request, how, counts, of_model);
        }
        // An incomplete result is not cached. The warnings about the model are
        // the same in the next recall.
        if found.metadata.warnings.len() == of_model.len() {
            self.keep(kept_as, now, &found);
        }
        Ok(found)
    }

    /// Returns a context that also contains a new event. The result equals a
    /// new recall with that event, and costs only the event, unless a record
    /// was stored or deleted since. The worst records are dropped until the
    /// rest fits. The event itself is shown regardless of the filters.
    pub fn update(&self, recalled: &Recalled, event: &EventRecord) -> Result<Recalled, Error> {
        let started = Instant::now();
        let found = &recalled.found;
        let state = self.store.memory_state()?;
        if (state.seq, state.later.seq) != (found.seq, found.later) {
            let how = Recall {
                event: Some(event),
                ..found.how()
            };
            return self.recall(&found.request, &how);
        }
        let (counts, _) = self.counts(found.model.as_deref())?;
        let pinned = self.pinned(event, &found.request, &counts);
        self.select(Arc::clone(found), Some(pinned), &counts, started)
    }

    fn look(
        &self,
        depth: Depth,
        search: PreparedSearch<'_>,
        asked: RecallCall<'_>,
        counts: &Counts,
        mut warnings: Vec<Warning>,
    ) -> Result<Findings, Error> {
        let PreparedSearch {
            view,
            query,
            vector,
            progress,
        } = search;
        let (request, how) = (asked.request, asked.how);
        if request.query.len() > LONGEST_QUERY {
            warnings.push(Warning::new(
                "query_cut",
                format!(
                    "the query has {} bytes; only the first {LONGEST_QUERY} are used",
                    request.query.len()
                ),
            ));
        }
        let admission = self.admission(view, &asked)?;
        if query.times.reading.contradicts {
            let message = "the times in the query exclude each other; none of the bounds is used";
            warnings.push(Warning::new("times_contradict", message));
        }
        let single = self.single_relations()?;
        let zone = time::zone(request.timezone.as_deref());
        let most = |depth: Depth| depth.most(request.max_tokens);
        let mut depth = depth;
        let mut search = ChannelSearch {
            view,
            query: &query,
            admission: &admission,
            strategy: &asked.strategy,
            session: request.session_id.as_deref(),
            most: most(depth),
            now: asked.now.as_millisecond(),
            unmatched: false,
            single: &single,
            sessions: RefCell::default(),
            ranked: OnceCell::new(),
            instructions: OnceCell::new(),
        };
        let (vector, mute) = (vector.as_deref(), admission.mute());
        let scores = view.index.scores(&query.terms, vector, &mute);
        let mut lines = FoundLines::new(self, view, counts, &zone);
        let mut found = search.find(&scores);
        lines.read(found.keys(search.most))?;
        let enough = request.max_tokens.saturating_add(request.max_tokens / 2);
        if most(Depth::Deep) > search.most
            && lines.tokens(found.keys(search.most)) < enough
            && search.has_lower(&found)
        {
            // The lines are short: the budget may hold more of them.
            depth = Depth::Deep;
            found = search.find_more(most(depth), &scores, found);
            lines.read(found.keys(search.most))?;
        }
        let mut found = search.results(found);
        let candidates = std::mem::take(&mut found.candidates);
        let records = lines.records(candidates, &asked.strategy)?;
        let records = limited_instructions(
            records,
            request.max_tokens / INSTRUCTIONS_PART,
            &query.terms,
            |candidate| is_own(candidate, &query, view, how.identity),
        );
        let ChannelResults {
            events,
            entities,
            searched,
            duplicates,
            lower,
            unmatched,
            ..
        } = found;
        let head = head_of(&request.query);
        Ok(Findings {
            records,
            duplicates,
            lower,
            invalid: admission.invalid(),
            depth,
            request: ContextRequest {
                query: head.to_owned(),
                ..request.clone()
            },
            strategy: asked.strategy,
            metadata: Metadata {
                query: head.to_owned(),
                signals: query.signals,
                events_considered: events,
                entities_considered: entities,
                chunks_searched: searched,
                unmatched,
                vectors: progress,
                warnings,
                ..Metadata::default()
            },
            terms: query.terms,
            model: how.model.map(str::to_owned),
            seq: view.seq,
            later: view.later,
            now: how.now,
            identity: how.identity.to_vec(),
            permissions: how.permissions.cloned(),
            selected: OnceLock::new(),
        })
    }

    /// Returns the rules for which records may be returned.
    fn admission<'v>(
        &self,
        view: &'v View,
        asked: &RecallCall<'v>,
    ) -> Result<Admission<'v>, Error> {
        let filters = &asked.request.filters;
        let exclude = self.with_parts(&filters.exclude)?;
        let Recall {
            identity,
            permissions,
            ..
        } = asked.how;
        let strategy = &asked.strategy;
        let admission = Admission::new(
            view,
            filters,
            exclude,
            strategy,
            identity,
            *permissions,
            asked.now,
        );
        Ok(admission)
    }

    /// Returns the keys of records with these ids, and of the parts that they
    /// were split into.
    fn with_parts(&self, ids: &[String]) -> Result<BTreeSet<RecordKey>, Error> {
        let mut keys = BTreeSet::new();
        for id in ids {
            let found = self.store.record_keys(&[id])?;
            let parts = self.parts_of(id, 0)?;
            keys.extend(found.into_iter().chain(parts).map(|(_, key)| key));
        }
        Ok(keys)
    }

    /// Computes the vector of a query and caches it. The key is the name of the
    /// embedder and the text.
    fn embedded(
        &self,
        generation: Generation,
        embedder: &Arc<dyn Embedder>,
        key: (String, String),
        deadline: Option<Instant>,
    ) -> QueryVector {
        let text = &key.1;
        let made = match deadline.filter(|_| !embedder.is_local()) {
            None => embedder.embed(&[text]).map_err(|error| error.to_string()),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                embed_within(embedder, text, left)
            }
        };
        match made {
            Ok(vectors) => {
                let Some(vector) = vectors.into_iter().next().map(Arc::<[f32]>::from) else {
                    return QueryVector::NONE;
                };
                let bytes = key.0.len() + key.1.len() + size_of_val(&*vector);
                let kept = Arc::clone(&vector);
                self.cache.query_vectors.insert(key, kept, bytes);
                QueryVector::of(generation, vector)
            }
            Err(error) => {
                let message = format!(
                    "the query was searched by words only, because it has no vector: {error}"
                );
                QueryVector {
                    generation,
                    vector: None,
                    warning: Some(Warning::new("no_vector", message)),
                }
            }
        }
    }

    /// Returns the progress of the encoder, unless it is complete.
    fn vector_progress(&self, state: &MemoryState) -> Result<Option<VectorProgress>, Error> {
        let lacking = self.missing_vectors_in(&state.later)?;
        Ok(match lacking {
            Some((lacking @ 1.., all)) => Some(VectorProgress {
                current: all - lacking,
                texts: all,
            }),
            _ => None,
        })
    }

    /// Returns an event as a record that is shown first.
    fn pinned(
        &self,
        event: &EventRecord,
        request: &ContextRequest,
        counts: &Counts,
    ) -> FoundRecord {
        let record = Record::Event(event.clone());
        let zone = time::zone(request.timezone.as_deref());
        let policy = self.engine.policy();
        let line = Line::new(&record, str::to_owned, &zone, counts, policy, None);
        let at = event.timestamp.map_or(0, |at| at.as_millisecond());
        FoundRecord::new(Candidate::new_event(at), Arc::new(line))
    }

    fn select(
        &self,
        found: Arc<Findings>,
        pinned: Option<FoundRecord>,
        counts: &Counts,
        started: Instant,
    ) -> Result<Recalled, Error> {
        let budget = Budget::new(found.request.max_tokens, 0, 0)?;
        let pinned = pinned.map(Arc::new);
        let has_room = |assembly: &Assembly| {
            let left = assembly.report.budget.available;
            left > budget.available() / MOST_UNUSED
        };
        // Many of the best may be near-duplicates of each other.
        let deeper;
        let (mut selection, mut assembly) =
            self.selected(&found, pinned.as_ref(), budget, Offered::Best, counts)?;
        if selection.has_more() && has_room(&assembly) {
            (selection, assembly) =
                self.selected(&found, pinned.as_ref(), budget, Offered::All, counts)?;
        }
        if found.depth == Depth::Usual && found.lower > 0 && has_room(&assembly) {
            deeper = self.deeper(&found, counts)?;
            (selection, assembly) =
                self.selected(&deeper, pinned.as_ref(), budget, Offered::All, counts)?;
        }
        let findings: Vec<(String, Finding)> = (assembly.report.guard.iter())
            .map(|line| (line.item.to_string(), line.finding.clone()))
            .collect();
        let mut context: Context = selection.context(&assembly, counts);
        context.metadata.assembly_time_ms = found
            .now
            .is_none()
            .then(|| started.elapsed().as_secs_f64() * 1e3);
        Ok(Recalled {
            context: Arc::new(context),
            findings: Arc::new(findings),
            found,
        })
    }

    /// Fits the records of a search into the budget.
    ///
    /// A text shows how many texts of its series are missing. A first fit finds
    /// those that fit, and the next one shows the right numbers.
    pub(crate) fn selected<'f>(
        &self,
        found: &'f Findings,
        pinned: Option<&Arc<FoundRecord>>,
        budget: Budget,
        offered: Offered,
        counts: &Counts,
    ) -> Result<(Selection<'f>, Assembly), Error> {
        let request = &found.request;
        let mut members: Option<BTreeSet<RecordKey>> = None;
        let mut rounds = 0;
        loop {
            let pinned = pinned.cloned();
            let mut selection = Selection::new(
                self.engine,
                found,
                pinned,
                request,
                offered,
                members.as_ref(),
            );
            let layers = vec![selection.document()];
            let assembly = assemble(layers, budget, counts, &mut no_loader).map_err(|error| {
                let (needed, available) = error.over_budget().unwrap_or_default();
                Error::input(format!(
                    "additional_context alone needs {needed} tokens; the budget is {available}"
                ))
            })?;
            let shown = selection.shown_members(&assembly);
            let is_counted = members.is_some() || selection.members().is_empty();
            if is_counted && shown.len() == selection.members().len() {
                return Ok((selection, assembly));
            }
            rounds += 1;
            // Without any further text, the notes are right.
            members = Some(match rounds < MOST_FITS {
                true => shown,
                false => BTreeSet::new(),
            });
        }
    }

    /// Returns the further texts of series that fit into nine tenths of the
    /// budget: another fit, with tags and other headings, then shows them, too.
    pub(crate) fn fitting_members(
        &self,
        found: &Findings,
        counts: &Counts,
    ) -> Result<BTreeSet<RecordKey>, Error> {
        if found
            .duplicates
            .values()
            .all(|alike| alike.members.is_empty())
        {
            return Ok(BTreeSet::new());
        }
        let most = found.request.max_tokens;
        let budget = Budget::new(most - most / 10, 0, 0)?;
        let (selection, _) = self.selected(found, None, budget, Offered::All, counts)?;
        Ok(selection.members().clone())
    }

    /// Finds more records for the same request.
    fn deeper(&self, found: &Findings, counts: &Counts) -> Result<Arc<Findings>, Error> {
        let how = found.how();
        let (_, of_model) = self.counts(how.model)?;
        self.find_to(Depth::Deep, &found.request, &how, counts, &of_model)
    }

    /// Returns the counts of a model, and the warnings about it.
    fn counts(&self, model: Option<&str>) -> Result<(Arc<Counts>, Vec<Warning>), Error> {
        let mut warnings = Vec::new();
        let model = self.engine.model(model, None, &mut warnings)?;
        warnings.extend(unknown_model(&model));
        Ok((self.engine.counts(&model)?, warnings))
    }

    fn kept(&self, key: &String, now: Timestamp) -> Option<Arc<Findings>> {
        let (made, found) = self.cache.contexts.cache.get(key)?;
        let age = now.as_millisecond() - made;
        (0..GOOD_FOR_MS).contains(&age).then_some(found)
    }

    fn keep(&self, key: String, now: Timestamp, found: &Arc<Findings>) {
        let records = found.records.iter();
        let tokens: Tokens = records.map(|record| record.line.tokens).sum();
        let shown = usize::try_from(tokens.min(found.request.max_tokens)).unwrap_or(usize::MAX);
        let bytes = 1024
            + 2 * key.len()
            + FOUND_BYTES * found.records.len()
            + CONTEXT_BYTES.saturating_mul(shown);
        let value = (now.as_millisecond(), Arc::clone(found));
        self.cache.contexts.insert(key, value, bytes);
    }
}

impl<'e> Memory<'e> {
    /// Parses a query and computes its vector, unless it has only times.
    /// Returns both with their view.
    fn query(
        &self,
        mut guard: ViewGuard<'e>,
        state: &MemoryState,
        asked: &RecallCall<'_>,
        deadline: Option<Instant>,
    ) -> Result<(ViewGuard<'e>, Query, QueryVector), Error> {
        let has_vectors = dimensions_of(state) > 0;
        if has_vectors {
            self.check_embedder(state, &*self.embedders()?.first)?;
        }
        let mut made: Option<QueryVector> = None;
        loop {
            let Some(view) = guard.as_ref() else {
                return Err(Error::damage("the memory could not be read"));
            };
            let admission = self.admission(view, asked)?;
            let query = Query::read(&asked.request.query, view, &admission, &asked.clock);
            let generation = view.generation;
            if !has_vectors || query.terms.is_empty() {
                return Ok((guard, query, QueryVector::NONE));
            }
            // The other generation may rank by now.
            if let Some(made) = made.take_if(|made| made.generation == generation) {
                return Ok((guard, query, made));
            }
            let embedders = self.embedders()?;
            let embedder = match (generation, &embedders.later) {
                (Generation::Later, Some(later)) => later,
                _ => &embedders.first,
            };
            let key = (embedder.name().to_owned(), query.text.clone());
            let known = self.cache.query_vectors.get(&key);
            if embedder.is_local() || known.is_some() {
                let vector = known.map(|vector| QueryVector::of(generation, vector));
                let make = || self.embedded(generation, embedder, key, deadline);
                let vector = vector.unwrap_or_else(make);
                return Ok((guard, query, vector));
            }
            // The view must not be locked while the recall waits for an
            // endpoint.
            drop(guard);
            made = Some(self.embedded(generation, embedder, key, deadline));
            guard = self.view(deadline)?;
        }
    }
}

impl Recalled {
    /// Returns the tokens of the text.
    pub fn tokens(&self) -> Tokens {
        self.context.token_count
    }
}

/// The vector of a query, and the warning when it could not be computed.
struct QueryVector {
    generation: Generation,
    vector: Option<Arc<[f32]>>,
    warning: Option<Warning>,
}

impl QueryVector {
    /// The vector of a query that needs none.
    const NONE: QueryVector = QueryVector {
        generation: Generation::First,
        vector: None,
        warning: None,
    };

    fn of(generation: Generation, vector: Arc<[f32]>) -> Self {
        Self {
            generation,
            vector: Some(vector),
            warning: None,
        }
    }
}

/// A query and the view to search.
struct PreparedSearch<'v> {
    view: &'v View,
    query: Query,
    vector: Option<Arc<[f32]>>,
    /// The progress of the encoder, unless it is complete.
    progress: Option<VectorProgress>,
}

/// Returns true if a text is by the caller or by a speaker that the query names.
fn is_own(candidate: &Candidate, query: &Query, view: &View, identity: &[String]) -> bool {
    let Some(speaker) = candidate.author.speaker else {
        return false;
    };
    let is_caller = |who: &String| name_key(who) == view.name_of(speaker);
    query.speakers.contains(&speaker) || identity.iter().any(is_caller)
}

/// Removes the bonus of standing instructions that have no word of the query and
/// need more than `room` tokens together. Those for which `is_own` is true come
/// first, then the best. The first keeps its bonus.
fn limited_instructions(
    mut records: Vec<Arc<FoundRecord>>,
    room: Tokens,
    terms: &[u32],
    is_own: impl Fn(&Candidate) -> bool,
) -> Vec<Arc<FoundRecord>> {
    let matches = |found: &FoundRecord| {
        let words = found.line.words();
        terms.iter().any(|term| words.count(*term) > 0)
    };
    let mut raised: Vec<(bool, f64, usize)> = (records.iter().enumerate())
        .filter(|(_, found)| found.candidate.parts.get(Part::Instruction).is_some())
        .filter(|(_, found)| !matches(found))
        .map(|(i, found)| (is_own(&found.candidate), found.candidate.score, i))
        .collect();
    raised.sort_unstable_by(|a, b| {
        let better = b.0.cmp(&a.0).then(b.1.total_cmp(&a.1));
        better.then(a.2.cmp(&b.2))
    });
    let mut left = room;
    for (place, (_, _, i)) in raised.into_iter().enumerate() {
        match left.checked_sub(records[i].line.tokens) {
            Some(rest) => left = rest,
            None if place == 0 => left = 0,
            None => {
                // No other owner has the record yet.
                if let Some(found) = Arc::get_mut(&mut records[i]) {
                    found.candidate.drop_instruction();
                }
            }
        }
    }
    records
}

/// Embeds a text, and waits at most until the deadline.
fn embed_within(
    embedder: &Arc<dyn Embedder>,
    text: &str,
    deadline: Duration,
) -> Result<Vec<Vec<f32>>, String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let (embedder, text) = (Arc::clone(embedder), text.to_owned());
    std::thread::spawn(move || {
        // The caller may have stopped waiting.
        let _ = sender.send(embedder.embed(&[&text]).map_err(|error| error.to_string()));
    });
    let late = |_| "the embedder did not answer within memory.deadline_ms".to_owned();
    let wait = || receiver.recv_timeout(deadline);
    contexture_store::Call::wait_for_model(contexture_store::ModelCall::Embedding, wait)
        .map_err(late)?
}
