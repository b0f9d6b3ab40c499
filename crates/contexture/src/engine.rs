use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use contexture_core::guard::Policy;
use contexture_core::{Budget, ContentHash, Counts, Tokens};
use contexture_store::{AgentRole, Later, Store, StoreError};
use contexture_tokens::{Model, Models, Provider};
use jiff::Timestamp;

use crate::assembled::Assembled;
use crate::broker::{self, Environments, Standing};
use crate::calibration;
use crate::call::{Call, Clock, Compacting};
use crate::compaction::Compactor;
use crate::config::Config;
use crate::error::Error;
use crate::event::Event;
use crate::files::Root;
use crate::history::{self, TurnCache};
use crate::loom::{Loom, LoomCache};
use crate::memory::{ContextFilters, MemoryCache};
use crate::recipe::{Recipe, SourceKind};
use crate::snapshot::{self, Keeping, Remembered, Saved};
use crate::working_set::{Hints, Manifest, find_manifest};

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
    /// The loom tree.
    pub tree: Option<String>,
    /// The place in it, by id or short name. Default: where the saved path
    /// ends, else where the agent is, else the only leaf.
    pub head: Option<String>,
    /// The saved path that says which way and which versions are taken.
    pub path: Option<String>,
    /// The agent of the tree that is to go on.
    pub agent: Option<String>,
    /// Text behind a document that is not in the tree yet.
    pub working_buffer: Option<String>,
    /// Whether remarks are shown.
    pub include_annotations: bool,
    /// Directives for what comes next, behind those of the path.
    pub instructions: Vec<String>,
    /// Nodes of the tree to look at for what comes next, before the head.
    pub context: Vec<String>,
    /// What memory is asked for. Default: what the event says.
    pub query: Option<String>,
    /// What memory may find.
    pub filters: ContextFilters,
    /// The archetype whose strategy memory follows. Default: the configured one.
    pub strategy: Option<String>,
    /// The stack of tasks. Default: `main`.
    pub stack: Option<String>,
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

/// How often a compaction is tried when others are faster.
const MOST_COMPACTIONS: usize = 4;

/// Assembles requests; keeps what it has counted.
pub struct Engine {
    pub(crate) config: Config,
    // What paths in the settings start from.
    pub(crate) folder: PathBuf,
    models: Models,
    counts: Mutex<BTreeMap<String, Arc<Counts>>>,
    store: Option<Arc<dyn Store>>,
    // Whether a request may name files below the root only.
    confined: bool,
    pub(crate) turns: TurnCache,
    pub(crate) loom: LoomCache,
    pub(crate) memory: MemoryCache,
    pub(crate) environments: Environments,
    pub(crate) standing: Standing,
    // The latest snapshots of each session.
    latest: Mutex<Remembered>,
    // Whether a request is kept while it is already being used.
    keeps_behind: bool,
    // Why the latest request that was not kept was not.
    unkept: Arc<Mutex<Option<String>>>,
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
            folder: root.path().to_owned(),
            config,
            counts: Mutex::default(),
            store: None,
            confined: false,
            turns: TurnCache::default(),
            loom: LoomCache::default(),
            memory: MemoryCache::default(),
            environments: Environments::default(),
            standing: Standing::default(),
            latest: Mutex::default(),
            keeps_behind: false,
            unkept: Arc::default(),
        })
    }

    /// Gives the engine a store for conversations and requests. Without one it
    /// assembles what needs none, and keeps nothing.
    pub fn with_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Makes the engine return a request before it is on disk: for a program that
    /// makes many, and lives on. A turn that answers it is still not recorded
    /// before it, and it is kept when the store is dropped. If it cannot be kept,
    /// the next request's report says so.
    pub fn keeping_behind(mut self) -> Self {
        self.keeps_behind = true;
        self
    }

    /// Makes the engine take requests from elsewhere: a recipe of the user's own
    /// is then a file below the root, and no other file is looked at.
    pub fn confined(mut self) -> Self {
        self.confined = true;
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

    /// Returns true when the engine has a store.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
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
        for _ in 0..MOST_COMPACTIONS {
            let Some(need) = call.needs_compaction(&made) else {
                break;
            };
            let done = call.compact(&made, &need)?;
            clock.lap("compact");
            match done {
                Compacting::Done(done) => compacted = Some(done),
                Compacting::Overtaken => {}
                Compacting::Nothing => break,
            }
            made = call.attempt(&mut clock)?;
            if compacted.is_some() {
                break;
            }
        }
        if call.recall(&made)? {
            clock.lap("recall");
            made = call.attempt(&mut clock)?;
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
        Policy::masking(self.config.secrets.mask)
    }

    fn prepare<'a>(&'a self, root: &'a Root, request: &'a Request) -> Result<Call<'a>, Error> {
        let recipe = self
            .recipe(root, request)?
            .with_memory_at(self.config.memory.position);
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
        let permissions = self.config.permissions.clone();
        let permissions = match uses_persona {
            true => permissions.with_persona(root, &persona_dir, &self.standing)?,
            false => permissions,
        };

        let tasks = match recipe
            .layers
            .iter()
            .any(|layer| layer.source.is_task_stack())
        {
            true => {
                let stack = request.stack.as_deref().unwrap_or("main");
                Some(self.store()?.task_view(stack)?)
            }
            false => None,
        };
        if tasks.as_ref().is_some_and(|tasks| tasks.path.is_empty()) {
            warnings.push("the stack has no current task: `contexture task push` adds one".into());
        }
        let asked = [
            ("query", request.query.is_some()),
            ("filters", request.filters != ContextFilters::default()),
            ("strategy", request.strategy.is_some()),
        ];
        for (name, _) in asked.iter().filter(|(_, given)| *given) {
            if !uses(SourceKind::Memory) {
                return Err(Error::input(format!(
                    "the recipe `{}` has no memory for `{name}`",
                    recipe.name
                ))
                .at(*name)
                .hint(
                    "use --recipe memory, broker or task-stack, or one with the source `memory`",
                ));
            }
        }
        if request.stack.is_some() && tasks.is_none() {
            return Err(Error::input(format!(
                "the recipe `{}` has no tasks for `stack`",
                recipe.name
            ))
            .at("stack")
            .hint("use --recipe task-stack, or one with the sources of a stack"));
        }
        let loom = self.find_loom(request, &recipe)?;
        let of_agent = || loom.as_ref()?.agent.as_ref()?.model.as_deref();
        let named = request.model.as_deref().or_else(of_agent);
        let mut model = self.model(named, request.provider, &mut warnings)?;
        let margin = self.calibrate(&mut model)?;
        warnings.extend(loom.iter().flat_map(|loom| loom.warnings(&model)));
        let reserved = Reserved {
            response: request
                .reserve_response
                .or(manifest.reserved_for_response)
                .or(loom.as_ref().map(Loom::token_buffer))
                .unwrap_or(0),
            margin,
        };
        let budget = self.budget(request, &manifest, &model, reserved, &recipe, &mut warnings)?;
        let label = match (&session, &loom) {
            // An alias stands for its session.
            (Some(session), _) => Some(session.label.clone()),
            (None, Some(loom)) if request.session.is_none() => Some(loom.label()),
            (None, _) => request.session.clone(),
        };
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
            previous: self.previous(label.as_deref())?,
            label,
            session,
            loom,
            warnings,
            environment: OnceLock::new(),
            memory: None,
            tasks,
            told: Mutex::default(),
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
        let label = session.unwrap_or("default");
        let (Some(store), true) = (&self.store, self.config.snapshots.keep) else {
            // What is not kept is remembered for as long as the engine lives.
            let known = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(known.latest(label));
        };
        // What is on its way is later than what is kept.
        let known = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let on_its_way = known.latest(label);
        drop(known);
        if let Some(saved) = on_its_way.filter(|it| it.keeping() == Keeping::OnItsWay) {
            return Ok(Some(saved));
        }
        let Some(latest) = store.latest_snapshot(label)? else {
            return Ok(None);
        };
        let known = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(saved) = known.find(label, latest.hash) {
            return Ok(Some(saved));
        }
        drop(known);
        // It is needed for the cache's sake only: a damaged one must not end the
        // session.
        let Ok(saved) = Saved::load(&**store, &latest) else {
            return Ok(None);
        };
        let saved = Arc::new(saved);
        self.remember(label, &saved);
        Ok(Some(saved))
    }

    /// Returns the model of that name, else the configured one, unless that is
    /// another provider's.
    pub(crate) fn model(
        &self,
        named: Option<&str>,
        provider: Option<Provider>,
        warnings: &mut Vec<String>,
    ) -> Result<Model, Error> {
        let name = named.unwrap_or(&self.config.model);
        if name.trim().is_empty() {
            return Err(Error::input("the model has no name").hint("give --model NAME"));
        }
        let model = self.models.resolve(name);
        let Some(provider) = provider.filter(|&wanted| wanted != model.provider) else {
            return Ok(model);
        };
        if named.is_none()
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
        reserved: Reserved,
        recipe: &Recipe,
        warnings: &mut Vec<String>,
    ) -> Result<Budget, Error> {
        if !model.known {
            warnings.push(format!(
                "model `{}` is not in the table: a window of {} tokens is assumed, and the way its \
                 family counts; add it under [models] in contexture.toml",
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
        let Reserved { response, margin } = reserved;
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

/// What is kept free.
struct Reserved {
    /// For the response.
    response: Tokens,
    /// The part of the window for what an exact counter does not see.
    margin: f64,
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

impl Engine {
    /// Fails when there is no persona of that name below `root`. A session
    /// keeps its persona, so that a wrong one is best found before it is made.
    pub fn check_persona(&self, root: &Root, name: &str) -> Result<(), Error> {
        broker::persona_dir(root, &self.config.persona.dir, Some(name)).map(drop)
    }

    /// Returns true when what is asked for cannot be made without a store.
    pub fn needs_store(&self, root: &Root, request: &Request) -> Result<bool, Error> {
        if request.tree.is_some() {
            return Ok(true);
        }
        let recipe = self.recipe(root, request)?;
        let asked = recipe.name == "memory" || request.query.is_some();
        let mut sources = recipe.layers.iter().map(|layer| layer.source);
        Ok(sources.any(|source| {
            source.is_loom()
                || source.is_task_stack()
                || source == SourceKind::History && request.session.is_some()
                || source == SourceKind::Memory && asked
        }))
    }

    /// Finds the place in a tree that a recipe of a loom is followed for.
    fn find_loom(&self, request: &Request, recipe: &Recipe) -> Result<Option<Loom>, Error> {
        let sources = recipe.layers.iter().map(|layer| layer.source);
        let is_loom = sources.clone().any(SourceKind::is_loom);
        if !is_loom {
            let given = [
                ("tree", request.tree.is_some()),
                ("head", request.head.is_some()),
                ("path", request.path.is_some()),
                ("agent", request.agent.is_some()),
                ("working_buffer", request.working_buffer.is_some()),
                ("include_annotations", request.include_annotations),
                ("instructions", !request.instructions.is_empty()),
                ("context", !request.context.is_empty()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((name, _)) => Err(Error::input(format!(
                    "the recipe `{}` has no tree for `{name}`",
                    recipe.name
                ))
                .at(*name)
                .hint("use --recipe loom-dialogue or loom-buffer, or one with a loom's sources")),
            };
        }
        let mode = sources.filter_map(SourceKind::mode).next();
        Loom::find(self, request, mode).map(Some)
    }

    fn recipe(&self, root: &Root, request: &Request) -> Result<Recipe, Error> {
        match (&request.recipe, &request.tree) {
            (Some(name), _) if self.confined => Recipe::load_below(root, name),
            (Some(name), _) => Recipe::load(name),
            // A tree says itself what is to be made of it.
            (None, Some(tree)) => {
                let mode = self.store()?.tree(tree)?.tree.mode;
                Recipe::load(&format!("loom-{mode}"))
            }
            (None, None) => self.config.recipe(root),
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
    pub(crate) fn keep_behind(
        &self,
        assembled: &mut Assembled,
        previous: Option<&Saved>,
        now: Timestamp,
    ) -> Result<Option<String>, Error> {
        let Some(store) = &self.store else {
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
            keep: self.config.snapshots.keep,
            now,
        };
        let (saved, snapshot, blobs) = snapshot::take(&made, previous);
        if !self.config.snapshots.keep {
            self.remember(label, &Arc::new(saved));
            return Ok(None);
        }
        if let Some(previous) = previous {
            let counts = self.counts(&assembled.model)?;
            let layout = &assembled.layout;
            let cache = saved.compare(&**store, previous, counts.counter(), layout);
            assembled.report.cache = cache.ok();
        }
        let is_new = previous.is_none_or(|previous| previous.hash != saved.hash);
        let hash = saved.hash.to_string();
        let saved = Arc::new(saved);
        let mut warning = None;
        match is_new {
            false => self.remember(label, &saved),
            true if self.keeps_behind => {
                let kept = Arc::clone(&saved);
                kept.keep(Keeping::OnItsWay);
                let unkept = Arc::clone(&self.unkept);
                warning = unkept.lock().unwrap_or_else(PoisonError::into_inner).take();
                store.put_snapshot_later(Later {
                    snapshot,
                    blobs,
                    builds_on: previous.map(|previous| previous.hash),
                    done: Box::new(move |done| match done {
                        Ok(()) => kept.keep(Keeping::Kept),
                        Err(error) => {
                            kept.keep(Keeping::Lost);
                            let why = format!("a request before was not kept: {}", why(&error));
                            *unkept.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                        }
                    }),
                });
                // Only now: what builds on it must come behind it.
                self.remember(label, &saved);
            }
            true => {
                // Before it is kept: another thread may ask for what comes next
                // as soon as it is.
                self.remember(label, &saved);
                if let Err(error) = store.put_snapshot(&snapshot, &blobs) {
                    saved.keep(Keeping::Lost);
                    return Ok(Some(format!("the request was not kept: {error}")));
                }
            }
        }
        assembled.snapshot = Some(hash);
        assembled.report.snapshot = assembled.snapshot.clone();
        Ok(warning)
    }

    /// Returns true when a request of a session was made and could not be kept.
    pub(crate) fn is_lost(&self, label: &str, hash: &str) -> bool {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        ContentHash::from_hex(hash)
            .and_then(|hash| latest.find(label, hash))
            .is_some_and(|saved| saved.keeping() == Keeping::Lost)
    }

    fn remember(&self, label: &str, saved: &Arc<Saved>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.put(label, Arc::clone(saved));
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

/// Says why a request was not kept, without where the store is: whoever reads
/// the report need not know.
fn why(error: &StoreError) -> &'static str {
    match error {
        StoreError::Busy { .. } => "the store was locked by another process",
        StoreError::ReadOnly { .. } => "the store cannot be written",
        StoreError::Full { .. } => "the store is full",
        StoreError::NotFound { .. } => "nor was the one before it",
        _ => "the store failed",
    }
}
