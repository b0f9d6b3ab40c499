use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use contexture_core::guard::Policy;
use contexture_core::{
    Assembly, Budget, Code, ContentHash, Counts, Excluded, Fit, Item, Layer, Layout, Report, Role,
    Text, Tokens, Trust, markup,
};
use contexture_store::{AgentRole, Session, Store, Trigger};
use contexture_tokens::{Model, Models, Provider};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::account::{Logged, fates, summarise};
use crate::assembled::{Assembled, bare};
use crate::broker::{self, Environments, Permissions, Toolbox};
use crate::calibration;
use crate::compaction::{Compacted, Compactor, Plan};
use crate::config::Config;
use crate::error::Error;
use crate::event::Event;
use crate::files::Root;
use crate::history::{self, History, Reader, TurnCache};
use crate::recipe::{Recipe, RecipeLayer, SourceKind};
use crate::snapshot::{self, Saved};
use crate::source::{self, FileLoader};
use crate::working_set::{
    BootHeader, Hints, Log, Manifest, find_manifest, guidelines, session_dir,
};

/// What is asked for. Everything has a default.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The recipe: a built-in name or a file. Default: the configured one.
    pub recipe: Option<String>,
    /// The manifest, relative to the root. Default: `working-set.yml`, else
    /// `.agent/working-set.yml`.
    pub manifest: Option<String>,
    /// The session's label. Default: `default`, without a history.
    pub session: Option<String>,
    /// The agent's role. Default: unified.
    pub role: Option<AgentRole>,
    /// What the agent is to do. Default: what the session says.
    pub task: Option<String>,
    /// The set that tools are taken from. Default: the configured one.
    pub toolset: Option<String>,
    /// What is asked now.
    pub event: Option<Event>,
    /// The model. Default: the configured one.
    pub model: Option<String>,
    /// The provider the request is rendered for, when that is known: decides
    /// the model when none is named, and is compared with it when one is.
    pub provider: Option<Provider>,
    /// The window. Default: what the manifest says, else the model's.
    pub max_tokens: Option<Tokens>,
    /// What is set aside for the response. Default: what the manifest says.
    pub reserve_response: Option<Tokens>,
    /// What is set aside for tools.
    pub reserve_tools: Option<Tokens>,
    /// The clock, for repeatable logs. Default: now.
    pub now: Option<Timestamp>,
}

/// Assembles requests; keeps what it has counted.
pub struct Engine {
    pub(crate) config: Config,
    models: Models,
    counts: Mutex<BTreeMap<String, Arc<Counts>>>,
    store: Option<Arc<dyn Store>>,
    turns: TurnCache,
    environments: Environments,
    // The latest snapshot of each session.
    latest: Mutex<BTreeMap<String, Arc<Saved>>>,
}

impl Engine {
    /// Returns an engine with the settings of `root`.
    pub fn for_root(root: &Root) -> Result<Self, Error> {
        Self::new(Config::read(root)?, root)
    }

    /// Returns an engine with `config`; `root` is what its paths start from.
    pub fn new(config: Config, root: &Root) -> Result<Self, Error> {
        Ok(Self {
            models: config.models(root.path())?,
            config,
            counts: Mutex::default(),
            store: None,
            turns: TurnCache::default(),
            environments: Environments::default(),
            latest: Mutex::default(),
        })
    }

    /// Gives the engine a store for conversations and requests. Without one it
    /// assembles what needs none, and keeps nothing.
    pub fn with_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Returns the settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the model table.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns the store.
    ///
    /// Fails when the engine has none.
    pub fn store(&self) -> Result<&dyn Store, Error> {
        self.store.as_deref().ok_or_else(|| {
            Error::input("there is no store of conversations here").hint("name one with --db")
        })
    }

    /// Returns the counter for `model`, with what it has counted so far.
    pub fn counts(&self, model: &Model) -> Result<Arc<Counts>, Error> {
        let key = format!("{:?}", model.tokenizer);
        let mut known = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(&key) {
            return Ok(Arc::clone(counts));
        }
        let counter = model
            .tokenizer
            .load()
            .map_err(|error| Error::input(error.to_string()))?;
        let counts = Arc::new(Counts::new(counter));
        known.insert(key, Arc::clone(&counts));
        Ok(counts)
    }

    /// Assembles a request from what is below `root` and, for a session, from
    /// the store. History that has become too long is summarised first.
    pub fn assemble(&self, root: &Root, request: &Request) -> Result<Assembled, Error> {
        let mut clock = Clock::new();
        let mut call = self.prepare(root, request)?;
        clock.lap("resolve");

        let mut made = call.attempt(&mut clock)?;
        let mut compacted = None;
        if let Some(need) = call.needs_compaction(&made) {
            compacted = call.compact(&made, &need)?;
            clock.lap("compact");
            if compacted.is_some() {
                made = call.attempt(&mut clock)?;
            }
        }
        let mut assembled = call.finish(made, compacted)?;
        clock.lap("account");
        // With the clock given, the output is to be the same each time.
        if request.now.is_none() {
            assembled.report.timings_ms = clock.laps;
        }
        Ok(assembled)
    }

    /// Returns how content is guarded.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            mask_secrets: self.config.secrets.mask,
        }
    }

    fn prepare<'a>(&'a self, root: &'a Root, request: &'a Request) -> Result<Call<'a>, Error> {
        let recipe = self.recipe(root, request)?;
        let mut warnings = Vec::new();
        let uses = |kind: SourceKind| recipe.layers.iter().any(|layer| layer.source == kind);
        let needs_manifest = uses(SourceKind::Boot) || uses(SourceKind::WorkingSet);
        let manifest = match &request.manifest {
            Some(path) => Manifest::read(root, path)?,
            None if needs_manifest => Manifest::read(root, &find_manifest(root)?)?,
            None => Manifest::default(),
        };
        warnings.extend(manifest.warnings.iter().cloned());
        let hints = if needs_manifest {
            Hints::read(root, manifest.dir())?
        } else {
            Hints::default()
        };
        warnings.extend(hints.warnings.iter().cloned());

        let session = match &request.session {
            Some(label) if uses(SourceKind::History) => Some(self.store()?.session(label)?),
            Some(_) => None,
            None => {
                if uses(SourceKind::History) {
                    warnings.push("no session is named: there is no history".to_owned());
                }
                None
            }
        };
        let persona = session.as_ref().and_then(|session| session.persona.clone());
        let persona = persona.or_else(|| self.config.persona.name.clone());
        let uses_persona = uses(SourceKind::Persona) || uses(SourceKind::Tools);
        let persona_dir = match uses_persona {
            true => broker::persona_dir(root, &self.config.persona.dir, persona.as_deref())?,
            false => String::new(),
        };
        let permissions = match uses_persona {
            true => self
                .config
                .permissions
                .clone()
                .with_persona(root, &persona_dir)?,
            false => Permissions::default(),
        };

        let mut model = self.model(request, &mut warnings)?;
        let margin = self.calibrate(&mut model)?;
        let budget = self.budget(request, &manifest, &model, margin, &recipe, &mut warnings)?;
        let counts = self.counts(&model)?;
        Ok(Call {
            engine: self,
            root,
            request,
            recipe,
            manifest,
            hints,
            persona_dir,
            permissions,
            model,
            budget,
            counts,
            now: request.now.unwrap_or_else(Timestamp::now),
            previous: self.previous(match &session {
                // An alias stands for its session.
                Some(session) => Some(&session.label),
                None => request.session.as_deref(),
            })?,
            session,
            warnings,
        })
    }

    /// Applies what recorded usage taught about the model's tokens. Returns
    /// the part of the window that is kept free for what an exact counter does
    /// not see.
    fn calibrate(&self, model: &mut Model) -> Result<f64, Error> {
        match &self.store {
            Some(store) => calibration::apply(&**store, model),
            None => Ok(0.0),
        }
    }

    /// Returns the latest request of a session that was kept.
    fn previous(&self, session: Option<&str>) -> Result<Option<Arc<Saved>>, Error> {
        let (Some(store), true) = (&self.store, self.config.snapshots.keep) else {
            return Ok(None);
        };
        let label = session.unwrap_or("default");
        let Some(latest) = store.snapshots(Some(label), 1)?.into_iter().next() else {
            return Ok(None);
        };
        let mut known = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(saved) = known.get(label)
            && saved.hash == latest.hash
        {
            return Ok(Some(Arc::clone(saved)));
        }
        let saved = Arc::new(Saved::load(&**store, &latest)?);
        known.insert(label.to_owned(), Arc::clone(&saved));
        Ok(Some(saved))
    }

    pub(crate) fn model(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
    ) -> Result<Model, Error> {
        let name = request.model.as_deref().unwrap_or(&self.config.model);
        if name.trim().is_empty() {
            return Err(Error::input("the model has no name").hint("give --model NAME"));
        }
        let model = self.models.resolve(name);
        let Some(provider) = request.provider.filter(|&wanted| wanted != model.provider) else {
            return Ok(model);
        };
        if request.model.is_none()
            && let Some(usual) = usual_model(provider)
        {
            return Ok(self.models.resolve(usual));
        }
        // Compatible servers take the same form for models of others.
        if model.known || provider != Provider::OpenAi {
            warnings.push(format!(
                "{} is a model of {}, but the request is {}'s: its tokens are counted as {}'s",
                model.name,
                model.provider.name(),
                provider.name(),
                model.provider.name()
            ));
        }
        Ok(model)
    }

    fn budget(
        &self,
        request: &Request,
        manifest: &Manifest,
        model: &Model,
        margin: f64,
        recipe: &Recipe,
        warnings: &mut Vec<String>,
    ) -> Result<Budget, Error> {
        if !model.known {
            warnings.push(format!(
                "model `{}` is not in the table: a window of {} tokens and an estimate are \
                 assumed; add it under [models] in contexture.toml",
                model.name, model.window
            ));
        }
        let asked = request.max_tokens.or(manifest.max_tokens);
        let from_files = recipe
            .layers
            .iter()
            .any(|layer| layer.source == SourceKind::WorkingSet);
        let asked = match (asked, &request.model) {
            (Some(asked), _) => asked,
            // Naming a model is naming its window; a conversation has one
            // anyway.
            (None, Some(_)) => model.window,
            (None, None) if !from_files => model.window,
            (None, None) => {
                return Err(Error::input(format!(
                    "{}: budget.max_tokens is missing",
                    manifest.path
                ))
                .hint("add it, or give --max-tokens or --model"));
            }
        };
        if asked == 0 {
            return Err(Error::input("the budget is 0 tokens").hint("give --max-tokens 1 or more"));
        }
        if asked > model.window && model.known {
            warnings.push(format!(
                "{asked} tokens are more than the {} that {} takes; {} are used",
                model.window, model.name, model.window
            ));
        }
        let window = if model.known {
            asked.min(model.window)
        } else {
            asked
        };
        let response = request
            .reserve_response
            .or(manifest.reserved_for_response)
            .unwrap_or(0);
        let mut tools = request.reserve_tools.unwrap_or(0);
        // What an exact count does not see is kept free with the tools'.
        tools = tools.saturating_add((window as f64 * margin).ceil() as Tokens);
        // What the manifest withholds is nobody's: it is kept with the tools'.
        if let Some(effective) = manifest.effective {
            let left = window.saturating_sub(response).saturating_sub(tools);
            tools = tools.saturating_add(left.saturating_sub(effective));
        }
        Ok(Budget::new(window, response, tools)?)
    }
}

/// Returns the model that is taken for a provider when none is named.
fn usual_model(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("claude-sonnet-4-5"),
        Provider::OpenAi => Some("gpt-4o"),
        Provider::Gemini => Some("gemini-2.5-pro"),
        Provider::Other => None,
    }
}

/// One call, with everything it draws on.
struct Call<'a> {
    engine: &'a Engine,
    root: &'a Root,
    request: &'a Request,
    recipe: Recipe,
    manifest: Manifest,
    hints: Hints,
    persona_dir: String,
    permissions: Permissions,
    model: Model,
    budget: Budget,
    counts: Arc<Counts>,
    now: Timestamp,
    previous: Option<Arc<Saved>>,
    session: Option<Session>,
    warnings: Vec<String>,
}

/// What one attempt gave.
struct Made {
    layout: Layout,
    report: Report,
    // Rows for what a source did not offer.
    unsent: Vec<Excluded>,
    warnings: Vec<String>,
    turns_since_summary: u64,
}

/// Why history is to be summarised, and how far.
struct Need {
    trigger: Trigger,
    // What everything but history takes.
    fixed: Tokens,
    // The percentage of what is available to come down to.
    target: Option<f64>,
}

impl Call<'_> {
    fn uses(&self, source: SourceKind) -> bool {
        let mut sources = self.recipe.layers.iter().map(|layer| layer.source);
        sources.any(|one| one == source)
    }

    fn role(&self) -> AgentRole {
        self.request.role.unwrap_or_default()
    }

    fn task(&self) -> Option<&str> {
        let of_session = || self.session.as_ref()?.task.as_deref();
        self.request.task.as_deref().or_else(of_session)
    }

    fn toolset(&self) -> Result<Option<(&str, &[String])>, Error> {
        let config = &self.engine.config;
        let name = self.request.toolset.as_deref();
        let Some(name) = name.or(config.tools.toolset.as_deref()) else {
            return Ok(None);
        };
        let Some((name, tools)) = config.toolsets.get_key_value(name) else {
            let known: Vec<&str> = config.toolsets.keys().map(String::as_str).collect();
            return Err(
                Error::input(crate::error::not_one_of("toolset", name, &known))
                    .hint("toolsets are lists of names under [toolsets] in contexture.toml"),
            );
        };
        Ok(Some((name, tools)))
    }

    /// Gathers, counts and fits.
    fn attempt(&self, clock: &mut Clock) -> Result<Made, Error> {
        match self.attempt_with(clock, SummaryIs::Pinned) {
            // A summary that was made for a larger window is history, and
            // gives way: a smaller one can be made of it.
            Err(Unmade::OverBudget(_)) if self.session.is_some() => {
                self.attempt_with(clock, SummaryIs::LeftOut)
            }
            made => made,
        }
        .map_err(|unmade| match unmade {
            Unmade::OverBudget(error) | Unmade::Other(error) => error,
        })
    }

    fn attempt_with(&self, clock: &mut Clock, summary: SummaryIs) -> Result<Made, Unmade> {
        let mut gathered = Gathered {
            call: self,
            summary,
            warnings: Vec::new(),
            unsent: Vec::new(),
            turns_since_summary: 0,
        };
        let mut layers = self
            .recipe
            .layers
            .iter()
            .map(|layer| gathered.layer(layer))
            .collect::<Result<Vec<_>, _>>()?;
        let Gathered {
            warnings,
            unsent,
            turns_since_summary,
            ..
        } = gathered;
        clock.lap("gather");

        let loader = FileLoader {
            root: self.root,
            max_file_bytes: self.engine.config.limits.max_file_bytes,
        };
        for layer in &mut layers {
            source::read_ahead(layer, &loader, &self.counts, self.budget.available());
        }
        clock.lap("read_and_count");

        let assembled = contexture_core::assemble(layers, self.budget, &self.counts, &mut |item| {
            loader.load(item)
        });
        let Assembly { layout, report } =
            assembled.map_err(|error| match error.is_over_budget() {
                true => Unmade::OverBudget(error.into()),
                false => Unmade::Other(error.into()),
            })?;
        clock.lap("fit");
        Ok(Made {
            layout,
            report,
            unsent,
            warnings,
            turns_since_summary,
        })
    }

    /// Returns why history is to be summarised before the request is sent, if
    /// it is.
    fn needs_compaction(&self, made: &Made) -> Option<Need> {
        let config = &self.engine.config.compaction;
        if !config.enabled || self.session.as_ref()?.head.is_none() {
            return None;
        }
        let available = self.budget.available();
        let threshold = (available as f64 * config.threshold / 100.0) as Tokens;
        let cut_off = made.report.excluded.iter().any(|row| {
            &*row.layer == "session" && matches!(row.code, Code::OverBudget | Code::BeforeWindow)
        });
        let unread = (made.unsent.iter())
            .any(|row| matches!(row.code, Code::OverBudget | Code::BeforeWindow));
        let layers = made.report.budget.layers.iter();
        let history: Tokens = layers
            .filter(|layer| &*layer.name == "session")
            .map(|layer| layer.used)
            .sum();
        let fixed = made.report.budget.used - history;
        if made.report.budget.used > threshold || cut_off || unread {
            return Some(Need {
                trigger: Trigger::ContextLimit,
                fixed,
                target: Some(config.target),
            });
        }
        let due = config
            .every_turns
            .filter(|every| made.turns_since_summary >= *every);
        due.map(|_| Need {
            trigger: Trigger::Periodic,
            fixed,
            target: None,
        })
    }

    fn compact(&mut self, made: &Made, need: &Need) -> Result<Option<Compacted>, Error> {
        let Some(session) = &self.session else {
            return Ok(None);
        };
        let engine = self.engine;
        let store = engine.store()?;
        let system = bare(&made.layout.system);
        let plan = Plan {
            session,
            trigger: need.trigger,
            focus: None,
            available: self.budget.available(),
            fixed: need.fixed,
            target: need.target,
            system: &system,
            now: self.now,
        };
        match engine.compactor(store, &self.counts).compact(&plan) {
            Ok(Some(compacted)) => {
                self.warnings.extend(compacted.warnings.iter().cloned());
                let why = match need.trigger {
                    Trigger::Periodic => "it was time (compaction.every_turns)".to_owned(),
                    _ => format!(
                        "the request would take more than {} % of the budget",
                        engine.config.compaction.threshold
                    ),
                };
                self.warnings.push(format!(
                    "{} turns were summarised, {} tokens became {} ({}): {why}; \
                     `contexture session uncompact {}` undoes it",
                    compacted.turns,
                    compacted.tokens_before,
                    compacted.tokens_after,
                    compacted.summariser,
                    session.label,
                ));
                self.session = Some(store.session(&session.label)?);
                Ok(Some(compacted))
            }
            Ok(None) => Ok(None),
            // The window still keeps the request within its budget.
            Err(error) => {
                self.warnings
                    .push(format!("history could not be summarised: {error}"));
                Ok(None)
            }
        }
    }

    /// Accounts for what was made, logs it and keeps it.
    fn finish(mut self, made: Made, compacted: Option<Compacted>) -> Result<Assembled, Error> {
        let Made {
            layout,
            mut report,
            unsent,
            warnings,
            ..
        } = made;
        report.recipe = self.recipe.name.clone();
        report.model = self.model.name.clone();
        report.excluded.extend(unsent);
        self.warnings.extend(warnings);
        let verdicts = {
            let fates = fates(&report);
            self.hints.verdicts(|path| fates.get(path).copied())
        };
        report.hints = verdicts;
        self.warnings.extend(summarise(&report));
        // What is typical is known of prompts from files.
        if self.uses(SourceKind::WorkingSet) {
            let reserved = self.budget.reserve_response();
            self.warnings.extend(guidelines(&report, reserved));
        }
        let toolset_name = self.toolset()?.map(|(name, _)| name.to_owned());
        let is_broker = self.session.is_some() || self.uses(SourceKind::History);
        let context_json = self.context_json(&layout);
        let mut assembled = Assembled {
            layout,
            report,
            budget: self.budget,
            model: self.model.clone(),
            session_label: self.session.as_ref().map_or_else(
                || self.request.session.clone(),
                |session| Some(session.label.clone()),
            ),
            parent_turn_id: self.session.as_ref().and_then(|session| session.head),
            role: is_broker.then(|| self.role()),
            toolset_name,
            permissions_granted: match is_broker {
                true => self.permissions.granted(),
                false => Vec::new(),
            },
            source_event_id: self
                .request
                .event
                .as_ref()
                .and_then(|event| event.id.clone()),
            compacted,
            snapshot: None,
            context_json,
            workspace_path: self.root.path().display().to_string(),
        };
        let previous = self.previous.as_deref();
        let unkept = self
            .engine
            .keep_behind(&mut assembled, previous, self.now)?;
        self.warnings.extend(unkept);
        let log = Log::of(self.root, self.request.session.as_deref());
        self.warnings
            .extend(log.append(self.now, "assembled", Logged::of(&assembled.report)));
        assembled.report.warnings = self.warnings;
        Ok(assembled)
    }

    /// Returns what is kept beside the messages: hashes of what went into the
    /// system prompt, and what is known about the event.
    fn context_json(&self, layout: &Layout) -> Value {
        let hash = |layer: &str| -> Value {
            let mut text = String::new();
            for block in layout.system.iter().filter(|block| &*block.layer == layer) {
                markup::write_block(&mut text, block);
            }
            match text.is_empty() {
                true => Value::Null,
                false => ContentHash::of(text.as_bytes()).to_string()[..16].into(),
            }
        };
        let mut system = json!({});
        for layer in [
            "workspace",
            "persona",
            "environment",
            "runtime",
            "role",
            "task",
            "tools",
        ] {
            let hash = hash(layer);
            if !hash.is_null() {
                system[layer] = hash;
            }
        }
        let event = self.request.event.as_ref().map(|event| {
            json!({
                "platform": event.platform,
                "hooks": event.hooks.iter().map(|hook| &hook.name).collect::<Vec<_>>(),
                "attachments": event.attachments.iter()
                    .map(|one| one.path.as_ref().or(one.name.as_ref())).collect::<Vec<_>>(),
                "injected_at": self.now.to_string(),
            })
        });
        json!({"system": system, "user": event})
    }
}

/// Whether the summary of older turns is in the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SummaryIs {
    Pinned,
    LeftOut,
}

/// Why an attempt gave nothing.
enum Unmade {
    OverBudget(Error),
    Other(Error),
}

impl From<Error> for Unmade {
    fn from(error: Error) -> Self {
        Unmade::Other(error)
    }
}

/// What the sources gave so far.
struct Gathered<'c, 'a> {
    call: &'c Call<'a>,
    summary: SummaryIs,
    warnings: Vec<String>,
    unsent: Vec<Excluded>,
    turns_since_summary: u64,
}

impl Gathered<'_, '_> {
    fn layer(&mut self, recipe: &RecipeLayer) -> Result<Layer, Error> {
        let call = self.call;
        let config = &call.engine.config;
        let policy = Policy {
            mask_secrets: config.secrets.mask && recipe.mask_secrets,
        };
        let warnings = &mut self.warnings;
        let mut fit = recipe.fit.clone();
        let max_file_bytes = config.limits.max_file_bytes;
        let mut items = match recipe.source {
            SourceKind::Boot => self.boot(policy),
            SourceKind::WorkingSet => {
                source::working_set(call.root, &call.manifest, &call.hints, policy, warnings)?
            }
            SourceKind::Workspace => {
                let files = &config.workspace.files;
                broker::standing_files(call.root, files, max_file_bytes, policy, warnings)?
            }
            SourceKind::Persona => broker::persona_items(
                call.root,
                &call.persona_dir,
                &call.permissions,
                max_file_bytes,
                policy,
                warnings,
            )?,
            SourceKind::Environment => {
                let task = match call.role() {
                    AgentRole::Worker => Some(call.task().unwrap_or_default()),
                    _ => None,
                };
                let environments = &call.engine.environments;
                environments.items(call.root, &config.environment, task, policy, warnings)?
            }
            SourceKind::Runtime => broker::runtime_items(config.runtime.host.as_deref(), policy),
            SourceKind::Task => broker::task_items(call.role(), call.task(), policy)?,
            SourceKind::Role => broker::role_items(call.role(), policy),
            SourceKind::Tools => self.tools(policy)?,
            SourceKind::History => {
                let history = self.history(policy, &mut fit)?;
                let summarised = history.latest.as_ref().map_or(0, |latest| latest.depth);
                let turns = call.session.as_ref().map_or(0, |session| session.turns);
                self.turns_since_summary = turns.saturating_sub(summarised);
                self.unsent.extend(history.unsent);
                history.items
            }
            SourceKind::Event => self.event(policy),
        };
        if let Some(cut) = recipe.cut {
            for item in &mut items {
                item.cut = cut;
            }
        }
        Ok(Layer {
            name: recipe.name.as_str().into(),
            share: recipe.share,
            fit,
            place: recipe.place,
            order: recipe.order,
            volatile: recipe.source == SourceKind::Event,
            items,
        })
    }

    fn boot(&self, policy: Policy) -> Vec<Item> {
        let call = self.call;
        let config = &call.engine.config;
        let header = BootHeader::gather(
            call.root,
            &call.manifest,
            &call.hints.files,
            &session_dir(call.root, call.request.session.as_deref()),
            &config.boot.output_sink,
            config.limits.max_file_bytes,
        );
        let text = Text::guarded(&header.text(), policy);
        let mut item = Item::new("boot header", Role::Header, text).pinned();
        item.priority = 1.0;
        item.trust = Trust::Operator;
        vec![item]
    }

    fn tools(&self, policy: Policy) -> Result<Vec<Item>, Error> {
        let call = self.call;
        let toolbox = Toolbox::read(call.root, call.engine.config.tools.file.as_deref())?;
        let toolset = call.toolset()?;
        if let Some((set, names)) = toolset {
            let known = toolbox.names();
            if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
                return Err(Error::input(format!(
                    "toolsets.{set}: {}",
                    crate::error::not_one_of("tool", name, &known)
                )));
            }
        }
        Ok(broker::tool_items(
            &toolbox,
            toolset,
            &call.permissions,
            policy,
        ))
    }

    fn history(&self, policy: Policy, fit: &mut Fit) -> Result<History, Error> {
        let call = self.call;
        let Some(session) = &call.session else {
            return Ok(History::default());
        };
        let min_recent = match fit {
            Fit::Window(window) => window.min_recent,
            _ => call.engine.config.compaction.keep_turns,
        };
        let reader = Reader {
            store: call.engine.store()?,
            cache: &call.engine.turns,
            counts: &call.counts,
            policy,
            provider: call.model.provider,
            available: call.budget.available(),
            min_recent,
            with_summary: self.summary == SummaryIs::Pinned,
        };
        let history = reader.read(session)?;
        if let Fit::Window(window) = fit {
            // The window stays where it was, unless a larger budget has room
            // for everything again.
            let room = (call.budget.available() as f64 * window.shrink_to) as Tokens;
            let fits = history.whole().is_some_and(|whole| whole <= room);
            if let (Some(previous), false) = (&call.previous, fits) {
                window.start = previous.history_start(history.summary_name());
            }
        }
        Ok(history)
    }

    fn event(&self, policy: Policy) -> Vec<Item> {
        let call = self.call;
        let Some(event) = &call.request.event else {
            return Vec::new();
        };
        // Among files the question stands alone; an agent is told when it is
        // and who asks.
        let is_agent = call.uses(SourceKind::History) || call.uses(SourceKind::Workspace);
        let max_file_bytes = call.engine.config.limits.max_file_bytes;
        let mut items = broker::event_items(
            event,
            call.role(),
            call.now,
            call.root,
            max_file_bytes,
            policy,
        );
        if !is_agent {
            items.retain(|item| &*item.id != "event context");
        }
        items
    }
}

impl Engine {
    /// Fails when there is no persona of that name below `root`. A session
    /// keeps its persona, so that a wrong one is best found before it is made.
    pub fn check_persona(&self, root: &Root, name: &str) -> Result<(), Error> {
        broker::persona_dir(root, &self.config.persona.dir, Some(name)).map(drop)
    }

    /// Returns true when what is asked for cannot be made without a store.
    pub fn needs_store(&self, root: &Root, request: &Request) -> Result<bool, Error> {
        let recipe = self.recipe(root, request)?;
        let mut sources = recipe.layers.iter().map(|layer| layer.source);
        Ok(request.session.is_some() && sources.any(|source| source == SourceKind::History))
    }

    fn recipe(&self, root: &Root, request: &Request) -> Result<Recipe, Error> {
        match &request.recipe {
            Some(name) => Recipe::load(name),
            None => self.config.recipe(root),
        }
    }

    /// Keeps a request that was assembled without a store. Returns what a
    /// person should look at when it could not be kept.
    pub fn keep(
        &self,
        assembled: &mut Assembled,
        now: Option<Timestamp>,
    ) -> Result<Option<String>, Error> {
        let previous = self.previous(assembled.session_label.as_deref())?;
        let now = now.unwrap_or_else(Timestamp::now);
        self.keep_behind(assembled, previous.as_deref(), now)
    }

    /// Compares the request with the one before it in its session, and keeps
    /// it.
    fn keep_behind(
        &self,
        assembled: &mut Assembled,
        previous: Option<&Saved>,
        now: Timestamp,
    ) -> Result<Option<String>, Error> {
        let (Some(store), true) = (&self.store, self.config.snapshots.keep) else {
            return Ok(None);
        };
        let label = assembled.session_label.clone();
        let label = label.as_deref().unwrap_or("default");
        let prompt = assembled.prompt();
        let made = snapshot::Made {
            session: label,
            parent_turn: assembled.parent_turn_id,
            prompt: &prompt,
            tokens: assembled.report.budget.used,
            counter: &assembled.report.tokenizer.name,
            agent: assembled.role.map(|role| snapshot::Agent {
                role,
                toolset_name: assembled.toolset_name.clone(),
                permissions_granted: assembled.permissions_granted.clone(),
                source_event_id: assembled.source_event_id.clone(),
                context_json: assembled.context_json.clone(),
            }),
            now,
        };
        let (saved, snapshot, blobs) = snapshot::take(&made, previous);
        if let Some(previous) = previous {
            let counts = self.counts(&assembled.model)?;
            let layout = &assembled.layout;
            let cache = saved.compare(&**store, previous, counts.counter(), layout)?;
            assembled.report.cache = Some(cache);
        }
        let is_new = previous.is_none_or(|previous| previous.hash != saved.hash);
        if is_new && let Err(error) = store.put_snapshot(&snapshot, &blobs) {
            return Ok(Some(format!("the request was not kept: {error}")));
        }
        assembled.snapshot = Some(saved.hash.to_string());
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.insert(label.to_owned(), Arc::new(saved));
        Ok(None)
    }

    pub(crate) fn compactor<'a>(
        &'a self,
        store: &'a dyn Store,
        counts: &'a Counts,
    ) -> Compactor<'a> {
        let model = self.config.summariser.model.as_deref().unwrap_or_default();
        Compactor {
            store,
            config: &self.config,
            counts,
            policy: self.policy(),
            model_window: self.models.resolve(model).window,
        }
    }

    /// Returns the counts of a turn, to be recorded with it.
    pub(crate) fn count_turn(
        &self,
        turn: &contexture_store::NewTurn,
        model: &Model,
    ) -> Result<contexture_store::Counted, Error> {
        Ok(history::count_turn(
            turn,
            &*self.counts(model)?,
            self.policy(),
        ))
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

    /// Adds the time since the last lap to a stage, which may be gone through
    /// twice.
    fn lap(&mut self, stage: &str) {
        let elapsed = self.last.elapsed().as_secs_f64() * 1000.0;
        let lap = self.laps.entry(stage.to_owned()).or_default();
        *lap = ((*lap + elapsed) * 1000.0).round() / 1000.0;
        self.last = Instant::now();
    }
}
