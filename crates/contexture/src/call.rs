//! One call of [`assemble`](crate::Engine::assemble): attempts, compaction, and
//! the account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use contexture_core::{
    Assembly, Budget, Code, ContentHash, Counts, Excluded, Item, Layout, Part, Report, Role,
    Tokens, markup,
};
use contexture_providers::{Format, describes};
use contexture_store::{AgentRole, Session, TaskView, Trigger};
use contexture_tokens::{Model, Provider};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::account::{Logged, fates, summarise};
use crate::assembled::{Assembled, bare, sent_name};
use crate::broker::Permissions;
use crate::compaction::{Compacted, Plan};
use crate::engine::{Engine, Request};
use crate::error::Error;
use crate::files::Root;
use crate::gather::Gathered;
use crate::history::History;
use crate::inject::Injected;
use crate::loom::{Loom, LoomSummary};
use crate::recipe::{Recipe, SourceKind};
use crate::snapshot::Saved;
use crate::source::{self, FileLoader};
use crate::working_set::{Hints, Log, Manifest, guidelines};

/// One call, with everything it draws on.
pub(crate) struct Call<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) root: &'a Root,
    pub(crate) request: &'a Request,
    pub(crate) recipe: Recipe,
    pub(crate) manifest: Manifest,
    pub(crate) hints: Hints,
    pub(crate) persona_dir: String,
    pub(crate) permissions: Permissions,
    pub(crate) model: Model,
    pub(crate) budget: Budget,
    pub(crate) counts: Arc<Counts>,
    pub(crate) now: Timestamp,
    pub(crate) previous: Option<Arc<Saved>>,
    /// What its requests are kept under.
    pub(crate) label: Option<String>,
    pub(crate) session: Option<Session>,
    pub(crate) loom: Option<Loom>,
    pub(crate) warnings: Vec<String>,
    /// What is remembered, once that was asked.
    pub(crate) memory: Option<Injected>,
    /// Where one is in a stack of tasks.
    pub(crate) tasks: Option<TaskView>,
    /// What the agent can do, once that was asked, and what is to be said of it.
    pub(crate) environment: OnceLock<Vec<Item>>,
    pub(crate) told: Mutex<Vec<String>>,
}

/// What one attempt gave.
pub(crate) struct Made {
    layout: Layout,
    report: Report,
    // Rows for what a source did not offer.
    unsent: Vec<Excluded>,
    warnings: Vec<String>,
    turns_since_summary: u64,
    // Whether something of the latest run of steps is cut or left out.
    newest_is_torn: bool,
    // What became of the path, in a loom.
    path: Option<LoomSummary>,
}

impl Made {
    /// Returns how much a layer without items might take: its own part, or what
    /// everything else leaves, whichever is more.
    pub(crate) fn room_for(&self, layer: &str) -> Tokens {
        let budget = &self.report.budget;
        let own = budget.layers.iter().find(|one| &*one.name == layer);
        budget.available.max(own.map_or(0, |own| own.allowed))
    }
}

/// An answer that may have fewer tokens than this is likely to be cut off.
pub(crate) const LITTLE_ROOM: Tokens = 512;

/// What came of summarising.
pub(crate) enum Compacting {
    Done(Compacted),
    /// There was nothing to summarise, or it failed.
    Nothing,
    /// Another writer moved the head first.
    Overtaken,
}

/// Why history is to be summarised, and how far.
pub(crate) struct Need {
    trigger: Trigger,
    // What everything but history takes.
    fixed: Tokens,
    // What the request may use, when history has a limit of its own.
    room: Tokens,
    // The percentage of what is available to come down to.
    target: Option<f64>,
}

impl Call<'_> {
    pub(crate) fn uses(&self, source: SourceKind) -> bool {
        let mut sources = self.recipe.layers.iter().map(|layer| layer.source);
        sources.any(|one| one == source)
    }

    pub(crate) fn role(&self) -> AgentRole {
        self.request.role.unwrap_or_default()
    }

    pub(crate) fn task(&self) -> Option<&str> {
        let of_session = || self.session.as_ref()?.task.as_deref();
        self.request.task.as_deref().or_else(of_session)
    }

    pub(crate) fn toolset(&self) -> Result<Option<(&str, &[String])>, Error> {
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

    /// Returns where the window over history stays, because it began there in
    /// the request before: for the same model, whose cache is at stake, while
    /// there is no more room than there was, and while it holds the latest
    /// turns.
    pub(crate) fn window_start(&self, history: &History, min_recent: usize) -> Option<Arc<str>> {
        let previous = self.previous.as_ref()?;
        let room = self.budget.window() - self.budget.reserve_response();
        if previous.model() != sent_name(&self.model) || previous.available() < room {
            return None;
        }
        let start = previous.history_start(history.summary_name())?;
        history.holds_latest(&start, min_recent).then_some(start)
    }

    /// Gathers, counts and fits.
    pub(crate) fn attempt(&self, clock: &mut Clock) -> Result<Made, Error> {
        let mut how = Attempt::default();
        let mut made = self.attempt_with(clock, how);
        if let (Err(Unmade::OverBudget(_)), true) = (&made, self.session.is_some()) {
            // A summary that was made for a larger window is history, and
            // gives way: a smaller one can be made of it.
            how.without_summary = true;
            made = self.attempt_with(clock, how);
        }
        if let Ok(whole) = &made
            && whole.newest_is_torn
        {
            // The latest run is too long: its latest steps, whole, say more
            // than all of them cut.
            how.by_steps = true;
            let by_steps = self.attempt_with(clock, how);
            if by_steps.is_ok() {
                made = by_steps;
            }
        }
        if let Ok(whole) = &made
            && self.lacks_opening(&whole.layout)
        {
            how.with_opening = true;
            let opened = self.attempt_with(clock, how);
            if opened.is_ok() {
                made = opened;
            }
        }
        made.map_err(|unmade| match unmade {
            Unmade::OverBudget(error) | Unmade::Other(error) => error,
        })
    }

    /// Returns true when a path through a loom begins with the model, and the
    /// provider wants the user first.
    fn lacks_opening(&self, layout: &Layout) -> bool {
        let strict = matches!(self.model.provider, Provider::Anthropic | Provider::Gemini);
        let first = layout.history.iter().chain(&layout.current).next();
        let model_first = first.is_some_and(|block| block.role == Role::Assistant);
        self.loom.is_some() && strict && model_first
    }

    fn attempt_with(&self, clock: &mut Clock, how: Attempt) -> Result<Made, Unmade> {
        let mut gathered = Gathered {
            call: self,
            how,
            newest: BTreeSet::new(),
            warnings: Vec::new(),
            unsent: Vec::new(),
            turns_since_summary: 0,
            path: None,
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
            newest,
            path,
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
            assembled.map_err(|error| match (error.is_over_budget(), &self.loom, &path) {
                (true, Some(loom), Some(path)) => Unmade::Other(loom.over_budget(&error, path)),
                (true, _, _) => Unmade::OverBudget(error.into()),
                (false, _, _) => Unmade::Other(error.into()),
            })?;
        clock.lap("fit");
        let kept = report.included.iter();
        let kept = kept.filter(|row| !row.truncated && newest.contains(&row.id));
        let path = match (&self.loom, path) {
            (Some(loom), Some(path)) => {
                loom.says_something(&path, &layout, &report)?;
                Some(path.summary(loom, &report))
            }
            _ => None,
        };
        Ok(Made {
            path,
            newest_is_torn: !newest.is_empty() && kept.count() < newest.len(),
            layout,
            report,
            unsent,
            warnings,
            turns_since_summary,
        })
    }

    /// Returns why history is to be summarised before the request is sent, if
    /// it is.
    pub(crate) fn needs_compaction(&self, made: &Made) -> Option<Need> {
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
        let mut layers = made.report.budget.layers.iter();
        let session = layers.find(|layer| &*layer.name == "session")?;
        let history = session.used;
        let fixed = made.report.budget.used - history;
        let room = fixed + session.allowed;
        // Where the rest alone takes most of the budget, a summary of a turn or
        // two at a time would move the prefix with each request and gain nothing.
        let over = made.report.budget.used > threshold && history > (available - fixed) / 4;
        if over || cut_off || unread {
            return Some(Need {
                trigger: Trigger::ContextLimit,
                fixed,
                room,
                target: Some(config.target),
            });
        }
        let due = config
            .every_turns
            .filter(|every| made.turns_since_summary >= *every);
        due.map(|_| Need {
            trigger: Trigger::Periodic,
            fixed,
            room,
            target: None,
        })
    }

    pub(crate) fn compact(&mut self, made: &Made, need: &Need) -> Result<Compacting, Error> {
        let Some(session) = &self.session else {
            return Ok(Compacting::Nothing);
        };
        let engine = self.engine;
        let store = engine.store()?;
        let system = bare(&made.layout.system);
        let plan = Plan {
            session,
            trigger: need.trigger,
            focus: None,
            available: self.budget.available().min(need.room),
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
                    "{} summarised, {} tokens became {} ({}): {why}; \
                     `contexture session uncompact {}` undoes it",
                    match compacted.turns {
                        1 => "1 turn was".to_owned(),
                        turns => format!("{turns} turns were"),
                    },
                    compacted.tokens_before,
                    compacted.tokens_after,
                    compacted.summariser,
                    session.label,
                ));
                self.session = Some(store.session(&session.label)?);
                Ok(Compacting::Done(compacted))
            }
            Ok(None) => Ok(Compacting::Nothing),
            Err(error) => {
                let now = store.session(&session.label)?;
                if now.head != session.head {
                    // Somebody else recorded or summarised meanwhile: go on
                    // from there.
                    self.session = Some(now);
                    return Ok(Compacting::Overtaken);
                }
                // The window still keeps the request within its budget.
                self.warnings
                    .push(format!("history could not be summarised: {error}"));
                Ok(Compacting::Nothing)
            }
        }
    }

    /// Accounts for what was made, logs it and keeps it.
    pub(crate) fn finish(
        mut self,
        made: Made,
        compacted: Option<Compacted>,
    ) -> Result<Assembled, Error> {
        let Made {
            layout,
            mut report,
            unsent,
            warnings,
            path,
            ..
        } = made;
        report.recipe = self.recipe.name.clone();
        self.warnings
            .extend(path.iter().flat_map(LoomSummary::warnings));
        report.model = self.model.name.clone();
        report.excluded.extend(unsent);
        if let Some(memory) = self.memory.take() {
            self.warnings.extend(memory.account(&mut report));
        }
        self.warnings.extend(warnings);
        let told = std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner));
        self.warnings.extend(told);
        let verdicts = {
            let fates = fates(&report);
            self.hints.verdicts(|path| fates.get(path).copied())
        };
        report.hints = verdicts;
        self.warnings.extend(summarise(&report));
        self.warnings.extend(described(&layout, &self.model));
        let spare = self.budget.window() - report.budget.used;
        if self.uses(SourceKind::History) && spare < LITTLE_ROOM {
            self.warnings.push(format!(
                "only {spare} tokens of the window are left for the answer; --reserve-response \
                 keeps some free"
            ));
        }
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
            // Any place in a tree may be gone on from.
            continues: self.loom.is_some(),
            sampling: self.loom.as_ref().map(Loom::sampling).unwrap_or_default(),
            session_label: self.label.clone(),
            loom: path,
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
            workspace_path: self.root.name(),
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
    pub(crate) fn context_json(&self, layout: &Layout) -> Value {
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

/// Returns a warning for each medium that the model's provider does not take,
/// so that only its description is sent.
fn described(layout: &Layout, model: &Model) -> Vec<String> {
    let Some(format) = usual_format(model.provider) else {
        return Vec::new();
    };
    let media = layout.history.iter().filter_map(|block| match &block.part {
        Part::Media(media) => Some((block, media)),
        _ => None,
    });
    let gone = media.filter(|(block, media)| describes(format, block.role, media));
    gone.map(|(block, media)| {
        format!(
            "{} does not take {} of `{}` here: its description is sent instead",
            model.provider.name(),
            media.media_type,
            block.id
        )
    })
    .collect()
}

/// Returns the form in which a provider's models are usually asked.
pub(crate) fn usual_format(provider: Provider) -> Option<Format> {
    match provider {
        Provider::Anthropic => Some(Format::Anthropic),
        Provider::OpenAi => Some(Format::OpenAiChat),
        Provider::Gemini => Some(Format::Gemini),
        Provider::Other => None,
    }
}

/// How an attempt differs from the usual.
#[derive(Clone, Copy, Default)]
pub(crate) struct Attempt {
    /// The summary of older turns is left out.
    pub(crate) without_summary: bool,
    /// The latest run of steps may be torn between them.
    pub(crate) by_steps: bool,
    /// A line of ours stands before a path that a model begins.
    pub(crate) with_opening: bool,
}

/// Why an attempt gave nothing.
pub(crate) enum Unmade {
    OverBudget(Error),
    Other(Error),
}

impl From<Error> for Unmade {
    fn from(error: Error) -> Self {
        Unmade::Other(error)
    }
}

/// Times the stages.
pub(crate) struct Clock {
    last: Instant,
    pub(crate) laps: BTreeMap<String, f64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            last: Instant::now(),
            laps: BTreeMap::new(),
        }
    }

    /// Adds the time since the last lap to a stage, which may be gone through
    /// twice.
    pub(crate) fn lap(&mut self, stage: &str) {
        let elapsed = self.last.elapsed().as_secs_f64() * 1000.0;
        let lap = self.laps.entry(stage.to_owned()).or_default();
        *lap = ((*lap + elapsed) * 1000.0).round() / 1000.0;
        self.last = Instant::now();
    }
}
