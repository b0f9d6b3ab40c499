//! The pipeline of one request: resolve, gather, fit, revise, account.
//!
//! Each layer's source takes part in every step through [`Source`]. The
//! pipeline tests no name of a recipe, layer or source.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use contexture_core::guard::{Policy, Template};
use contexture_core::{
    Assembly, Block, Budget, Content, ContentHash, Counts, Excluded, Item, Layer, Layout, markup,
};
use contexture_providers::{Format, MediaLimits};
use contexture_store::{ReadAhead, TurnId};
use contexture_tokens::{Model, Provider};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::account::{Logged, summarise};
use crate::assembled::{Assembled, LayerInfo};
use crate::engine::{Engine, usual_format};
use crate::error::Error;
use crate::files::Root;
use crate::media;
use crate::recipe::{Recipe, RecipeLayer};
use crate::report::Report;
use crate::request::Request;
use crate::snapshot::Saved;
use crate::source::{
    Account, Ask, CallState, Details, Facts, Loader, Offer, Outcome, Parameter, Scope, Source,
};
use contexture_project::Log;

mod budget;
mod checks;
mod gather;
mod layers;
mod recipe;

pub use budget::unknown_model;
use budget::{budget, overruled_reserve};
use checks::{check_used, described, left_out, unread_history, unread_instructions};
use gather::{guarded, in_parallel};
use layers::{blocks, empty_layer, fill, find_layer, set_recorded};
pub(crate) use recipe::check_variables;
use recipe::{parameters, recipe_of, with_variables};

/// The maximum number of times that layers are fitted again because a source
/// revised its offer.
const MOST_ROUNDS: usize = 24;

/// Returns true if the request cannot be assembled without a store.
pub(crate) fn needs_store(engine: &Engine, root: &Root, request: &Request) -> Result<bool, Error> {
    if request.recipe.is_none() {
        let mut names = engine.source_names().into_iter();
        // A source that chooses the recipe from the store needs a store.
        if names.any(|name| {
            (engine.source(name)).is_some_and(|source| source.recipe_for(engine, request).is_err())
        }) {
            return Ok(true);
        }
    }
    let recipe = recipe_of(engine, root, request)?;
    let call = CallState::default();
    let now = request.now.unwrap_or_else(Timestamp::now);
    Ok(recipe.sources().any(|layer| {
        let scope = Scope {
            engine,
            root,
            request,
            recipe: &recipe,
            layer,
            with: parameters(request, layer),
            now,
            call: &call,
        };
        let source = layer.source.as_deref().and_then(|name| engine.source(name));
        source.is_some_and(|source| source.needs_store(&scope))
    }))
}

/// A layer that has a source, the source, and its parameters.
type LayerSource<'a> = (&'a RecipeLayer, &'a Arc<dyn Source>, Map<String, Value>);

/// A request that is being assembled.
struct Call<'a> {
    engine: &'a Engine,
    root: &'a Root,
    request: &'a Request,
    recipe: &'a Recipe,
    now: Timestamp,
    state: &'a CallState,
    // Each layer that has a source, with the source and its parameters.
    sources: Vec<LayerSource<'a>>,
    facts: Facts,
    model: Model,
    budget: Budget,
    counts: Arc<Counts>,
    previous: Option<Arc<Saved>>,
    // Whether the whole request is a document without tags.
    is_document: bool,
}

/// Options for assembling a request without storing it.
#[derive(Debug, Clone, Default)]
pub struct Preview {
    /// An earlier head of the session to use. Default: its current head.
    pub head: Option<Option<TurnId>>,
    /// The previous request to compare with. Default: the session's latest.
    pub previous: Option<Arc<Saved>>,
}

/// Assembles a request.
pub(crate) fn assemble(
    engine: &Engine,
    root: &Root,
    request: &Request,
) -> Result<Assembled, Error> {
    assemble_with(engine, root, request, CallState::default())
}

/// Assembles a request and stores nothing.
pub(crate) fn preview(
    engine: &Engine,
    root: &Root,
    request: &Request,
    preview: Preview,
) -> Result<Assembled, Error> {
    assemble_with(engine, root, request, CallState::of_preview(preview))
}

fn assemble_with(
    engine: &Engine,
    root: &Root,
    request: &Request,
    state: CallState,
) -> Result<Assembled, Error> {
    let current = contexture_store::Call::current().unwrap_or_default();
    current.run(|| {
        let assembled = assemble_within(engine, root, request, state);
        contexture_store::Call::forget_ahead();
        assembled
    })
}

/// Assembles as a part of the current call, for which the store can read ahead.
fn assemble_within(
    engine: &Engine,
    root: &Root,
    request: &Request,
    state: CallState,
) -> Result<Assembled, Error> {
    let mut clock = Clock::new();
    let recipe = recipe_of(engine, root, request)?;
    // Sources may choose another model; data read ahead for this one is then
    // unused.
    let likely = engine.model(request.model.as_deref(), request.format, &mut Vec::new())?;
    let wanted = ReadAhead {
        session: request.session.as_deref(),
        pins: true,
        snapshots: 1,
        memory: true,
        ..ReadAhead::default()
    };
    engine.read_ahead(wanted, Some(&likely));
    let call = Call::resolve(engine, root, request, &recipe, &state)?;
    clock.lap("resolve");

    let offers = call.gather_all()?;
    clock.lap("gather");
    let (assembly, excluded, deferred) = call.settle(offers, &mut clock)?;
    let mut assembled = call.finish(assembly, excluded, deferred)?;
    clock.lap("account");
    // If the time is given, the output must be the same each time.
    if request.now.is_none() {
        assembled.report.timings_ms = clock.laps;
    }
    Ok(assembled)
}

impl<'a> Call<'a> {
    fn resolve(
        engine: &'a Engine,
        root: &'a Root,
        request: &'a Request,
        recipe: &'a Recipe,
        state: &'a CallState,
    ) -> Result<Self, Error> {
        let now = request.now.unwrap_or_else(Timestamp::now);
        let mut sources = Vec::new();
        for layer in recipe.sources() {
            let name = layer.source.as_deref().unwrap_or_default();
            let Some(source) = engine.source(name) else {
                let message = crate::error::not_one_of("source", name, &engine.source_names());
                return Err(layer.error(recipe, None, &message));
            };
            let with = parameters(request, layer);
            Parameter::check(source.parameters(), recipe, layer, &with)?;
            let literal = with_variables(request, layer);
            Parameter::check_values(engine, &**source, recipe, layer, &literal)?;
            sources.push((layer, source, with));
        }
        if let Some(name) = (request.with.keys())
            .find(|name| !sources.iter().any(|(layer, ..)| *layer.name == ***name))
        {
            let known: Vec<&str> = sources.iter().map(|(layer, ..)| &*layer.name).collect();
            let message = crate::error::not_one_of("layer", name, &known);
            return Err(Error::input(message).at("with"));
        }
        let mut facts = Facts::default();
        for (layer, source, with) in &sources {
            let scope = Scope {
                engine,
                root,
                request,
                recipe,
                layer,
                with: with.clone(),
                now,
                call: state,
            };
            guarded(source.name(), || source.resolve(&scope, &mut facts))?;
        }
        check_used(request, recipe, &sources)?;
        let mut warnings = Vec::new();
        warnings.extend(recipe.masking_warning());
        warnings.extend(unread_history(request, recipe, &sources));
        warnings.extend(unread_instructions(request, recipe, &sources));
        let named = request.model.as_deref().or(facts.model.as_deref());
        let mut model = engine.model(named, request.format, &mut warnings)?;
        let margin = engine.calibrate(&mut model)?;
        warnings.extend(overruled_reserve(request, &facts, engine.config()));
        facts.reserve_response = facts.reserve_response.or(engine.config().reserve_response);
        let budget = budget(request, &mut facts, &model, margin, &mut warnings)?;
        let label = facts.label.clone().or_else(|| request.session.clone());
        let mut counts = engine.counts(&model)?.with_key(engine.mark_key());
        if request.format.is_some_and(Format::is_native) {
            counts = counts.native();
        }
        let mut call = Self {
            engine,
            root,
            request,
            recipe,
            now,
            state,
            sources,
            previous: match state.preview.as_ref().and_then(|it| it.previous.clone()) {
                Some(previous) => Some(previous),
                None => engine.previous(label.as_deref())?,
            },
            facts: Facts { label, ..facts },
            counts: Arc::new(counts),
            model,
            budget,
            is_document: false,
        };
        call.is_document =
            (0..call.sources.len()).all(|at| call.sources[at].1.is_bare(&call.scope(at)));
        if let Some(ask) = call.asks().next() {
            warnings.into_iter().for_each(|warning| ask.warn(warning));
        }
        Ok(call)
    }

    fn scope(&self, at: usize) -> Scope<'_> {
        let (layer, _, with) = &self.sources[at];
        Scope {
            engine: self.engine,
            root: self.root,
            request: self.request,
            recipe: self.recipe,
            layer,
            with: with.clone(),
            now: self.now,
            call: self.state,
        }
    }

    fn ask(&self, at: usize) -> Ask<'_> {
        let layer = self.sources[at].0;
        let secrets = self.engine.config().secrets.mask && layer.mask_secrets;
        Ask {
            scope: self.scope(at),
            model: &self.model,
            budget: self.budget,
            counts: &self.counts,
            policy: self.policy(secrets),
            previous: self.previous.as_deref(),
            facts: &self.facts,
            is_document: self.is_document,
        }
    }

    /// Returns the guard's policy for content. The model's chat template reads
    /// a raw prompt, so the template's control tokens are escaped in it.
    fn policy(&self, mask_secrets: bool) -> Policy {
        let is_raw = self.request.format == Some(Format::OpenAiCompletions);
        Policy {
            template: is_raw.then(|| Template::of_model(&self.model.name)),
            ..Policy::masking(mask_secrets)
        }
    }

    fn asks(&self) -> impl Iterator<Item = Ask<'_>> {
        (0..self.sources.len()).map(|at| self.ask(at))
    }

    /// Fits the layers and lets sources revise their offers, until none has a
    /// change.
    fn settle(
        &self,
        offers: Vec<Offer>,
        clock: &mut Clock,
    ) -> Result<(Assembly, Vec<Excluded>, Vec<Block>), Error> {
        // Sources that use the tokens that others leave are called last.
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        order.sort_by_key(|&at| self.sources[at].1.yields());
        let in_session = self.facts.label.is_some();
        let empty = |recipe: &RecipeLayer| empty_layer(recipe, in_session);
        let mut layers: Vec<Layer> = self.recipe.layers.iter().map(empty).collect();
        let mut excluded: Vec<Vec<Excluded>> = vec![Vec::new(); self.sources.len()];
        let mut deferred: Vec<Vec<Block>> = vec![Vec::new(); self.sources.len()];
        let mut changed: Vec<(usize, Offer)> = offers.into_iter().enumerate().collect();
        let mut refused = None;
        for round in 0.. {
            for (at, mut offer) in changed.drain(..) {
                let recipe = self.sources[at].0;
                for row in &mut offer.excluded {
                    row.layer = Arc::clone(&recipe.name);
                }
                excluded[at] = std::mem::take(&mut offer.excluded);
                deferred[at] = blocks(&recipe.name, std::mem::take(&mut offer.deferred));
                if let Some(layer) = find_layer(&mut layers, &recipe.name) {
                    *layer = empty(recipe);
                    fill(layer, recipe, offer);
                    if self.facts.records_current {
                        set_recorded(layer);
                    }
                    self.read_ahead(layer);
                }
            }
            if let Some(limits) = self.media_limits() {
                media::limit(&mut layers, &limits, self.model.provider.name())?;
            }
            clock.lap("read_and_count");
            let fitted = contexture_core::assemble_layers(
                &mut layers,
                self.budget,
                &self.counts,
                &mut Loader::load,
            );
            clock.lap("fit");
            let rows = excluded.concat();
            let revised = match round < MOST_ROUNDS {
                true => self.revise(&order, &fitted, &rows, round, &mut refused)?,
                false => None,
            };
            clock.lap("revise");
            match revised {
                Some((at, offer)) => changed.push((at, self.checked(at, offer)?)),
                None => {
                    return match refused {
                        Some(error) => Err(error),
                        None => Ok((fitted?, rows, deferred.concat())),
                    };
                }
            }
        }
        unreachable!("the last round ends it")
    }

    /// Returns the limits on media in the request. `None` for no limits.
    fn media_limits(&self) -> Option<MediaLimits> {
        let format = self.request.format.filter(|format| *format != Format::Json);
        let format = format.or_else(|| usual_format(self.model.provider))?;
        MediaLimits::of(format)
    }

    /// Returns the first offer that a source revises. A source that refuses the
    /// request as it is fitted sets `refused`. The refusal counts only if no
    /// other source has a change, so that the order of the layers does not
    /// decide whether a request fails.
    fn revise(
        &self,
        order: &[usize],
        fitted: &Result<Assembly, contexture_core::Error>,
        excluded: &[Excluded],
        round: usize,
        refused: &mut Option<Error>,
    ) -> Result<Option<(usize, Offer)>, Error> {
        *refused = None;
        for &at in order {
            let (layer, source, _) = &self.sources[at];
            let outcome = Outcome {
                fitted: fitted.as_ref(),
                layer: &layer.name,
                excluded,
                round,
            };
            let ask = self.ask(at);
            match guarded(source.name(), || source.revise(&ask, &outcome)) {
                Ok(None) => {}
                Ok(Some(offer)) => return Ok(Some((at, offer))),
                Err(error) if error.is_input() => {
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Reads, guards and counts in parallel the items that will most likely be
    /// used, so that the fit finds them ready.
    ///
    /// Only items that the budget could hold, by their size, are read ahead:
    /// the cost depends on the used items, not on all items.
    fn read_ahead(&self, layer: &mut Layer) {
        let available = self.budget.available();
        // Four bytes per token is typical; if texts have more, the rest is read
        // on demand.
        let mut budget = available.saturating_mul(4);
        let pending = |item: &Item| matches!(item.content, Content::Pending { .. });
        if !layer.items.iter().any(pending) {
            return;
        }
        let mut order: Vec<usize> = (0..layer.items.len()).collect();
        order.sort_by(|&a, &b| {
            let priority = |i: usize| layer.items[i].priority;
            priority(b).total_cmp(&priority(a))
        });
        let mut wanted = Vec::new();
        for i in order {
            if let Content::Pending { bytes, .. } = layer.items[i].content {
                wanted.push(i);
                match budget.checked_sub(bytes) {
                    Some(left) if left > 0 => budget = left,
                    _ => break,
                }
            }
        }
        let items = &layer.items;
        let read = |i: usize| {
            let content = Loader::load(&items[i]);
            if let Content::Ready(text) = &content {
                self.counts.warm(text, available);
            }
            (i, content)
        };
        let loaded = in_parallel(&wanted, read);
        for (i, content) in loaded {
            layer.items[i].content = content;
        }
    }

    /// Completes the report of the assembled request, logs it and saves it.
    fn finish(
        self,
        assembly: Assembly,
        excluded: Vec<Excluded>,
        deferred: Vec<Block>,
    ) -> Result<Assembled, Error> {
        let Assembly { layout, report } = assembly;
        let mut report = Report::around(report);
        report.recipe = self.recipe.name.clone();
        report.model = self.model.name.clone();
        report.excluded.extend(excluded);
        report.guard.splice(0..0, self.request.given.masked.clone());
        let mut details = Details::default();
        let mut parent_turn = self.facts.parent_turn;
        let mut made_of = None;
        let given = &self.request.given;
        let mut continues = self.facts.continues || given.ends_with_model;
        for (at, (_, source, _)) in self.sources.iter().enumerate() {
            let ask = self.ask(at);
            let mut account = Account {
                layout: &layout,
                report: &mut report,
                parent_turn: &mut parent_turn,
                made_of: &mut made_of,
                continues: &mut continues,
                details: &mut details,
            };
            guarded(source.name(), || source.account(&ask, &mut account))?;
        }
        let mut warnings = self.engine.settings_warnings().to_vec();
        warnings.extend(self.state.take_warnings());
        warnings.extend(summarise(&report));
        warnings.extend(described(&layout, &self.model, self.request.format));
        warnings.extend(left_out(&report));
        warnings.extend(media::warning(&report));
        let agent = match self.facts.is_agent {
            true => Some(self.ask(0).agent()?),
            false => None,
        };
        let context_json = self.context_json(&layout);
        let layers: Vec<LayerInfo> = (self.sources.iter())
            .map(|(layer, source, _)| LayerInfo {
                name: Arc::clone(&layer.name),
                concept: source.concept(),
            })
            .collect();
        let mut assembled = Assembled {
            layout,
            report,
            budget: self.budget,
            model: self.model.clone(),
            continues,
            follows_stored: given.follows_stored,
            sampling: self.facts.sampling.clone().unwrap_or_default(),
            session_label: self.facts.label.clone(),
            deferred,
            // No other provider accepts a cache key.
            cache_key: (self.facts.label.as_deref())
                .filter(|_| self.model.provider == Provider::OpenAi)
                .map(|label| self.engine.cache_key(label)),
            parent_turn_id: parent_turn,
            made_of,
            role: agent
                .as_ref()
                .map(|_| self.request.role.unwrap_or_default()),
            toolset_name: self.facts.toolset.clone(),
            permissions_granted: agent.map_or_else(Vec::new, |agent| agent.permissions.granted()),
            source_event_id: self
                .request
                .event
                .as_ref()
                .and_then(|event| event.id.clone()),
            snapshot: None,
            context_json,
            workspace_path: self.root.name(),
            layers,
            details,
        };
        if self.state.preview.is_some() {
            assembled.report.warnings = warnings;
            return Ok(assembled);
        }
        let previous = self.previous.as_deref();
        assembled.report.warnings = warnings;
        let not_kept =
            self.engine
                .keep_after(&mut assembled, previous, Some(self.request), self.now)?;
        assembled.report.warnings.extend(not_kept);
        let log = Log::of(self.root, self.request.session.as_deref());
        let logged = log.append(self.now, "assembled", Logged::of(&assembled));
        if let Some(logged) = logged {
            assembled.report.warnings.push(logged);
            // A repeated request has the report of the first one.
            if !previous.is_some_and(|previous| assembled.is_snapshot(previous.hash)) {
                self.engine.keep_report(&assembled, Some(self.request));
            }
        }
        Ok(assembled)
    }

    /// Returns the data that is stored with the messages: hashes of the
    /// contents of the system prompt, by layer, and the context of the event.
    fn context_json(&self, layout: &Layout) -> Value {
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        for block in &layout.system {
            markup::write_block(texts.entry(&block.layer).or_default(), block, layout.mark);
        }
        let mut system = json!({});
        // In the order of the recipe.
        for (layer, ..) in &self.sources {
            if let Some(text) = texts.get(&*layer.name) {
                let hash = ContentHash::of(text.as_bytes()).to_string();
                system[&*layer.name] = hash[..16].into();
            }
        }
        let event = self.request.event.as_ref().map(|event| {
            let mut context = json!({
                "platform": event.platform,
                "hooks": event.hooks.iter().map(|hook| &hook.name).collect::<Vec<_>>(),
                "attachments": event.attachments.iter()
                    .map(|one| one.path.as_ref().or(one.name.as_ref())).collect::<Vec<_>>(),
                "injected_at": self.now.to_string(),
            });
            if let Some(sender) = &event.sender {
                context["sender"] = json!(sender);
            }
            context
        });
        json!({"system": system, "user": event})
    }
}

/// Times the stages.
struct Clock {
    last: Instant,
    laps: BTreeMap<String, f64>,
}

impl Clock {
    fn new() -> Self {
        Self {
            last: Instant::now(),
            laps: BTreeMap::new(),
        }
    }

    /// Adds the time since the last lap to a stage. A stage can run more than
    /// once.
    fn lap(&mut self, stage: &str) {
        let elapsed = self.last.elapsed().as_secs_f64() * 1000.0;
        let lap = self.laps.entry(stage.to_owned()).or_default();
        *lap = ((*lap + elapsed) * 1000.0).round() / 1000.0;
        self.last = Instant::now();
    }
}
