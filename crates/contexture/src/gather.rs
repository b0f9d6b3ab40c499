//! What the sources of a recipe give, layer by layer.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use contexture_core::guard::Policy;
use contexture_core::{Excluded, Fit, Item, Layer, Part, Role, Text, Trust};
use contexture_store::AgentRole;

use crate::broker;
use crate::call::{Attempt, Call};
use crate::error::Error;
use crate::event::Event;
use crate::history::{History, Reader};
use crate::loom::{self, Loom, PathItems};
use crate::recipe::{RecipeLayer, SourceKind};
use crate::source;
use crate::task_stack;
use crate::working_set::{BootHeader, session_dir};

/// What the sources gave so far.
pub(crate) struct Gathered<'c, 'a> {
    pub(crate) call: &'c Call<'a>,
    pub(crate) how: Attempt,
    pub(crate) newest: BTreeSet<Arc<str>>,
    pub(crate) warnings: Vec<String>,
    pub(crate) unsent: Vec<Excluded>,
    pub(crate) turns_since_summary: u64,
    pub(crate) path: Option<PathItems>,
}

impl Gathered<'_, '_> {
    pub(crate) fn layer(&mut self, recipe: &RecipeLayer) -> Result<Layer, Error> {
        let call = self.call;
        let config = &call.engine.config;
        let policy = Policy::masking(config.secrets.mask && recipe.mask_secrets);
        let warnings = &mut self.warnings;
        let mut fit = recipe.fit.clone();
        let max_file_bytes = config.limits.max_file_bytes;
        let standing = &call.engine.standing;
        let mut items = match recipe.source {
            SourceKind::Boot => self.boot(policy),
            SourceKind::WorkingSet => {
                source::working_set(call.root, &call.manifest, &call.hints, policy, warnings)?
            }
            SourceKind::Workspace => {
                let files = &config.workspace.files;
                standing.files(call.root, files, max_file_bytes, policy, warnings)?
            }
            SourceKind::Persona => standing.persona(
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
                // A command is run once, however many attempts there are.
                let known = call.environment.get().cloned();
                match known {
                    Some(items) => items,
                    None => {
                        let environments = &call.engine.environments;
                        let settings = &config.environment;
                        let mut told = Vec::new();
                        let items = environments
                            .items(call.root, settings, standing, task, policy, &mut told)?;
                        call.told
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .extend(told);
                        call.environment.get_or_init(|| items).clone()
                    }
                }
            }
            SourceKind::Runtime => standing.runtime(config.runtime.host.as_deref(), policy),
            SourceKind::Task => standing.task(call.role(), call.task(), policy)?,
            SourceKind::Role => standing.role(call.role(), policy),
            SourceKind::Tools => self.tools(policy)?,
            SourceKind::History => {
                let history = self.history(policy, &mut fit)?;
                let summarised = history.latest.as_ref().map_or(0, |latest| latest.depth);
                let turns = call.session.as_ref().map_or(0, |session| session.turns);
                self.turns_since_summary = turns.saturating_sub(summarised);
                if let Some(call) = history.waiting.first() {
                    self.warnings.push(format!(
                        "call `{call}` of the latest turn has no result: the request says that none \
                         was recorded; record it first, as a message of role tool"
                    ));
                }
                self.unsent.extend(history.unsent);
                self.newest = history.newest;
                history.items
            }
            SourceKind::Event => self.event(policy),
            SourceKind::Memory => match &call.memory {
                Some(memory) => memory.item.iter().cloned().collect(),
                None => Vec::new(),
            },
            SourceKind::TaskRoot | SourceKind::TaskPath | SourceKind::TaskResults => {
                task_stack::items(call.tasks.as_ref(), recipe.source, policy)
            }
            SourceKind::LoomPath | SourceKind::LoomDocument => self.loom_path(policy, &mut fit)?,
            kind => {
                let mut unsent = Vec::new();
                let items = match self.loom(policy)? {
                    Some(loom) => loom.items(kind, &mut unsent)?,
                    None => Vec::new(),
                };
                self.unsent.append(&mut unsent);
                items
            }
        };
        if let Some(cut) = recipe.cut {
            // Calls, thinking and media are whole or not there.
            let may = |item: &Item| match (&item.part, recipe.source) {
                (Part::Text | Part::ToolResult { .. }, _) => true,
                (_, source) => source != SourceKind::History && !source.is_loom(),
            };
            for item in items.iter_mut().filter(|item| may(item)) {
                item.cut = cut;
            }
        }
        Ok(Layer {
            name: recipe.name.as_str().into(),
            share: recipe.share,
            fit,
            place: recipe.place,
            order: recipe.order,
            volatile: matches!(
                recipe.source,
                SourceKind::Event | SourceKind::LoomPosition | SourceKind::Memory
            ),
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
        let file = call.engine.config.tools.file.as_deref();
        let toolbox = call.engine.standing.toolbox(call.root, file)?;
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
            Fit::Path(path) => path.min_recent,
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
            with_summary: !self.how.without_summary,
            by_steps: self.how.by_steps,
        };
        let history = reader.read(session)?;
        if let Fit::Window(window) = fit {
            // Steps of one run are fewer than a turn.
            let turns = if self.how.by_steps { 0 } else { min_recent };
            window.start = call.window_start(&history, turns);
        }
        Ok(history)
    }

    /// Returns what the layers of a loom draw on.
    fn loom(&self, mut policy: Policy) -> Result<Option<loom::Source<'_>>, Error> {
        let call = self.call;
        // A document alone has no tags that anybody could forge.
        let others = |layer: &RecipeLayer| !layer.source.is_loom();
        let alone = !call.recipe.layers.iter().any(others);
        policy.between_tags = !(alone && call.uses(SourceKind::LoomDocument));
        let Some(loom) = &call.loom else {
            return Ok(None);
        };
        Ok(Some(loom::Source {
            loom,
            store: call.engine.store()?,
            cache: &call.engine.loom,
            counts: &call.counts,
            policy,
            available: call.budget.available(),
            now: call.now,
            with_opening: self.how.with_opening,
            has_event: call.request.event.is_some(),
            addendum: call.engine.config.loom.addendum.as_deref(),
        }))
    }

    fn loom_path(&mut self, policy: Policy, fit: &mut Fit) -> Result<Vec<Item>, Error> {
        let Some(source) = self.loom(policy)? else {
            return Ok(Vec::new());
        };
        let mut made = source.path(fit)?;
        self.unsent.append(&mut made.unsent);
        let items = std::mem::take(&mut made.items);
        self.path = Some(made);
        Ok(items)
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
        // Nobody but us writes what looks like a node's header.
        let mut escaped = None;
        if call.loom.as_ref().is_some_and(Loom::shows_headers) {
            let content = loom::without_headers(&event.content).into_owned();
            escaped = Some(Event {
                content,
                ..event.clone()
            });
        }
        let mut items = broker::event_items(
            escaped.as_ref().unwrap_or(event),
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
