//! The sources that read files, for registration with an engine.
//!
//! `boot` and `working-set` are for prompts from a manifest. `files`,
//! `persona`, `environment`, `runtime`, `task`, `role` and `tools` are sections
//! of an agent's system prompt. None of them knows conversations.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::{Code, Content, Cut, Item, Place, Role, Text, Tokens, Trust};
use contexture_engine::config::Tools;
use contexture_engine::source::{Account, Facts, Scope};
use contexture_engine::{
    Advice, Ask, Concept, Engine, EngineBuilder, Error, Offer, Parameter, ParameterKind, Report,
    Source, ToolUsage, Warning, session_dir,
};
use contexture_store::AgentRole;
use serde_json::Value;

use crate::environment::Environments;
use crate::files::check_path;
use crate::load;
use crate::static_content::StaticContent;
use crate::tools::choose::{Choice, choose};
use crate::tools::{Toolbox, tool_items};
use crate::working_set::{BootHeader, HintOutcome, Hints, Manifest, find_manifest, guidelines};

/// Registers the sources `boot`, `working-set`, `files`, `persona`,
/// `environment`, `runtime`, `task`, `role` and `tools`.
pub fn register(builder: EngineBuilder) -> EngineBuilder {
    let static_content = Arc::new(StaticContent::default());
    let section = |name, concept, gather| Section {
        name,
        concept,
        static_content: Arc::clone(&static_content),
        gather,
    };
    builder
        .source(BootSource)
        .source(WorkingSetSource)
        .source(FilesSource {
            static_content: Arc::clone(&static_content),
        })
        .source(EnvironmentSource {
            static_content: Arc::clone(&static_content),
            environments: Environments::default(),
        })
        .source(ToolsSource {
            static_content: Arc::clone(&static_content),
        })
        .source(section("persona", Concept::Persona, persona))
        .source(section("runtime", Concept::Workspace, runtime))
        .source(section("task", Concept::Persona, task))
        .source(section("role", Concept::Persona, role))
}

const MANIFEST: Parameter = Parameter::new(
    "manifest",
    ParameterKind::Text,
    "The manifest, relative to the root. Default: the request's.",
);

/// Fails with the reason if a value names a path that cannot be below the root.
/// An empty text names none.
fn check_paths(value: &Value) -> Result<(), String> {
    let check = |path: &str| check_path(path).map_err(|why| format!("the path {why}"));
    match value {
        Value::String(path) if !path.is_empty() => check(path),
        Value::Array(paths) => paths.iter().filter_map(Value::as_str).try_for_each(check),
        _ => Ok(()),
    }
}

/// A manifest with the hints next to it.
struct ManifestWithHints {
    manifest: Manifest,
    hints: Hints,
}

impl ManifestWithHints {
    fn of(scope: &Scope<'_>) -> Result<Arc<Self>, Error> {
        let named = scope
            .text("manifest")
            .or_else(|| scope.request.manifest.clone());
        scope.shared(named.as_deref().unwrap_or_default(), || {
            let manifest = match &named {
                Some(path) => Manifest::read(scope.root, path)?,
                None => Manifest::read(scope.root, &find_manifest(scope.root)?)?,
            };
            let hints = Hints::read(scope.root, manifest.dir())?;
            for message in manifest.warnings.iter().chain(&hints.warnings) {
                scope.warn(Warning::new("manifest", message));
            }
            Ok(Self { manifest, hints })
        })
    }

    fn resolve(scope: &Scope<'_>, facts: &mut Facts) -> Result<Arc<Self>, Error> {
        let listed = Self::of(scope)?;
        let manifest = &listed.manifest;
        facts.max_tokens = facts.max_tokens.or(manifest.max_tokens);
        // A manifest that sets its window sets the whole budget, except for the
        // reserve in the configuration.
        let configured = scope.engine.config().reserve_response;
        let unreserved = manifest.max_tokens.map(|_| configured.unwrap_or(0));
        let reserved = manifest.reserved_for_response.or(unreserved);
        facts.reserve_response = facts.reserve_response.or(reserved);
        facts.effective = facts.effective.or(manifest.effective);
        Ok(listed)
    }
}

/// The boot header, first in every context of a working set.
struct BootSource;

impl Source for BootSource {
    fn name(&self) -> &str {
        "boot"
    }

    fn parameters(&self) -> &[Parameter] {
        &[MANIFEST]
    }

    fn check_parameter(&self, _: &Engine, _: &str, value: &Value) -> Result<(), String> {
        check_paths(value)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn resolve(&self, scope: &Scope<'_>, facts: &mut Facts) -> Result<(), Error> {
        ManifestWithHints::resolve(scope, facts).map(drop)
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let listed = ManifestWithHints::of(ask)?;
        let config = ask.engine.config();
        let header = BootHeader::gather(
            ask.root,
            &listed.manifest,
            &listed.hints.files,
            &session_dir(ask.root, ask.request.session.as_deref()),
            &config.boot.output_sink,
            config.limits.max_file_bytes,
        );
        let text = Text::guarded(&header.text(), ask.policy);
        let mut item = Item::new("boot header", Role::Header, text).pinned();
        item.priority = 1.0;
        item.trust = Trust::Operator;
        Ok(vec![item].into())
    }
}

/// The files that a manifest lists.
struct WorkingSetSource;

impl Source for WorkingSetSource {
    fn name(&self) -> &str {
        "working-set"
    }

    fn parameters(&self) -> &[Parameter] {
        &[MANIFEST]
    }

    fn check_parameter(&self, _: &Engine, _: &str, value: &Value) -> Result<(), String> {
        check_paths(value)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn resolve(&self, scope: &Scope<'_>, facts: &mut Facts) -> Result<(), Error> {
        let listed = ManifestWithHints::resolve(scope, facts)?;
        facts.budget_needed.get_or_insert_with(|| {
            Error::input(format!(
                "{}: budget.max_tokens is missing",
                listed.manifest.path
            ))
            .advise("add it to the manifest")
            .advise(Advice::set("max_tokens"))
            .advise(Advice::set("model"))
        });
        Ok(())
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let listed = ManifestWithHints::of(ask)?;
        let mut warnings = Vec::new();
        let items = load::working_set(
            ask.root,
            ask.engine.config().limits.max_file_bytes,
            &listed.manifest,
            &listed.hints,
            ask.policy,
            &mut warnings,
        )?;
        for message in warnings {
            ask.warn(Warning::new("working_set", message));
        }
        Ok(items.into())
    }

    fn account(&self, ask: &Ask<'_>, account: &mut Account<'_>) -> Result<(), Error> {
        let listed = ManifestWithHints::of(ask)?;
        let verdicts = {
            let fates = fates(account.report);
            listed.hints.verdicts(|path| fates.get(path).copied())
        };
        account.report.hints = verdicts;
        let reserved = ask.budget.reserve_response();
        for message in guidelines(account.report, reserved) {
            ask.warn(Warning::new("guideline", message));
        }
        Ok(())
    }
}

/// Returns the outcome of each file. Of several ranges of one file, the best
/// outcome counts.
fn fates(report: &Report) -> BTreeMap<&str, HintOutcome> {
    let mut fates: BTreeMap<&str, HintOutcome> = BTreeMap::new();
    let kept = report.included.iter().map(|row| {
        let fate = match row.code {
            Code::PINNED => HintOutcome::Pinned,
            _ if row.truncated => HintOutcome::Cut,
            _ => HintOutcome::Whole,
        };
        (row.path.as_deref(), fate)
    });
    let dropped = report
        .excluded
        .iter()
        .map(|row| (row.path.as_deref(), HintOutcome::Dropped));
    for (path, fate) in kept.chain(dropped) {
        let Some(path) = path else { continue };
        let file = contexture_engine::lines::split_lines(path).map_or(path, |(file, _)| file);
        fates
            .entry(file)
            .and_modify(|best| *best = (*best).min(fate))
            .or_insert(fate);
    }
    fates
}

/// The operator's files: those that the settings name, or the layer.
struct FilesSource {
    static_content: Arc<StaticContent>,
}

impl Source for FilesSource {
    fn name(&self) -> &str {
        "files"
    }

    fn parameters(&self) -> &[Parameter] {
        const PARAMETERS: &[Parameter] = &[Parameter::new(
            "paths",
            ParameterKind::Texts,
            "Files below the root, or patterns. Default: `workspace.files` of the settings.",
        )];
        PARAMETERS
    }

    fn check_parameter(&self, _: &Engine, _: &str, value: &Value) -> Result<(), String> {
        check_paths(value)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let config = ask.engine.config();
        let named = ask.texts("paths");
        let paths = named.as_ref().unwrap_or(&config.workspace.files);
        let limit = config.limits.max_file_bytes;
        let mut warnings = Vec::new();
        let optional = named.is_none();
        let files = &self.static_content;
        let mut items = files.files(ask.root, paths, optional, limit, ask.policy, &mut warnings)?;
        for message in warnings {
            ask.warn(Warning::new("files", message));
        }
        let is_system = matches!(ask.layer.place, Place::System | Place::ByRole);
        for item in &mut items {
            // The layer decides what is pinned, and whether files are instructions.
            item.pinned = false;
            if !is_system {
                item.role = Role::Context;
                item.trust = Trust::Retrieved;
                item.cut = Cut::End;
            }
        }
        Ok(items.into())
    }
}

/// Sections of an agent's system prompt that are made from settings and files.
struct Section {
    name: &'static str,
    concept: Concept,
    static_content: Arc<StaticContent>,
    gather: fn(&StaticContent, &Ask<'_>) -> Result<Vec<Item>, Error>,
}

impl Source for Section {
    fn name(&self) -> &str {
        self.name
    }

    fn concept(&self) -> Concept {
        self.concept
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        Ok((self.gather)(&self.static_content, ask)?.into())
    }
}

fn persona(static_content: &StaticContent, ask: &Ask<'_>) -> Result<Vec<Item>, Error> {
    let agent = ask.agent()?;
    let limit = ask.engine.config().limits.max_file_bytes;
    let mut warnings = Vec::new();
    let paths = ["SOUL.md", "IDENTITY.md"].map(|name| format!("{}/{name}", agent.persona_dir));
    let mut items =
        static_content.files(ask.root, &paths, true, limit, ask.policy, &mut warnings)?;
    for message in warnings {
        ask.warn(Warning::new("files", message));
    }
    items.extend(static_content.section("permissions", &agent.permissions.text(), ask.policy));
    Ok(items)
}

fn runtime(static_content: &StaticContent, ask: &Ask<'_>) -> Result<Vec<Item>, Error> {
    let host = ask.engine.config().runtime.host.as_deref();
    Ok(static_content.runtime(host, ask.policy))
}

fn task(static_content: &StaticContent, ask: &Ask<'_>) -> Result<Vec<Item>, Error> {
    static_content.task(ask.role(), ask.task().as_deref(), ask.policy)
}

fn role(static_content: &StaticContent, ask: &Ask<'_>) -> Result<Vec<Item>, Error> {
    Ok(static_content.role(ask.role(), ask.policy))
}

/// The capabilities of an agent, from a file or a command.
struct EnvironmentSource {
    static_content: Arc<StaticContent>,
    environments: Environments,
}

impl Source for EnvironmentSource {
    fn name(&self) -> &str {
        "environment"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        // A worker sees only the capabilities that its task names.
        let task = match ask.role() {
            AgentRole::Worker => Some(ask.task().unwrap_or_default()),
            _ => None,
        };
        let mut warnings = Vec::new();
        let items = self.environments.items(
            ask.root,
            &ask.engine.config().environment,
            &self.static_content,
            task.as_deref(),
            ask.policy,
            &mut warnings,
        )?;
        for message in warnings {
            ask.warn(Warning::new("environment", message));
        }
        Ok(items.into())
    }
}

/// The tools that an agent may call.
struct ToolsSource {
    static_content: Arc<StaticContent>,
}

/// A toolset: its name, and the names of its tools.
type Toolset = Option<(String, Vec<String>)>;

impl ToolsSource {
    fn toolset(scope: &Scope<'_>) -> Result<Toolset, Error> {
        let config = scope.engine.config();
        let named = scope
            .text("toolset")
            .or_else(|| scope.request.toolset.clone());
        let Some(name) = named.or_else(|| config.tools.toolset.clone()) else {
            return Ok(None);
        };
        let Some(tools) = config.toolsets.get(&name) else {
            let known: Vec<&str> = config.toolsets.keys().map(String::as_str).collect();
            return Err(
                Error::input(crate::error::not_one_of("toolset", &name, &known))
                    .at("toolset")
                    .advise(
                        "define toolsets as lists of names under [toolsets] in contexture.toml",
                    ),
            );
        };
        Ok(Some((name, tools.clone())))
    }

    /// Leaves out tools if all of them together are longer than their share of
    /// the budget.
    fn within_share(ask: &Ask<'_>, mut items: Vec<Item>) -> Result<Offer, Error> {
        let share = ask
            .engine
            .config()
            .tools
            .share
            .unwrap_or(Tools::DEFAULT_SHARE);
        let limit = ask.budget.available() / 100 * Tokens::from(share);
        let bytes = items.iter().map(|item| match &item.content {
            Content::Ready(text) => text.as_str().len() as Tokens,
            _ => 0,
        });
        // No definition has more tokens than bytes.
        if bytes.sum::<Tokens>() <= limit {
            return Ok(items.into());
        }
        let usage = match (ask.facts.parent_turn, ask.request.messages.is_empty()) {
            (Some(head), _) => ask.engine.tool_usage(head)?,
            (None, false) => Arc::new(ToolUsage::of(&ask.request.messages)),
            (None, true) => Arc::default(),
        };
        let event = ask.request.event.as_ref();
        let event = event.map(|event| event.content.as_str());
        let left_out = choose(
            &mut items,
            &Choice {
                limit,
                event: event.or(ask.request.query.as_deref()).unwrap_or_default(),
                usage: &usage,
                previous: ask
                    .previous
                    .into_iter()
                    .flat_map(|it| it.tool_names())
                    .collect(),
                can_defer: ask.can_defer_tools(),
                price: ask.model.prices.map(|prices| prices.input),
                tokens: &|item, text| ask.counts.count_of(text) + ask.counts.overhead_of(item),
            },
        );
        Ok(Offer {
            items,
            excluded: left_out.rows,
            deferred: left_out.deferred,
            ..Offer::default()
        })
    }
}

impl Source for ToolsSource {
    fn name(&self) -> &str {
        "tools"
    }

    fn parameters(&self) -> &[Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter::new(
                "toolset",
                ParameterKind::Text,
                "The toolset to use. Default: the request's, else the configured one.",
            ),
            Parameter::new(
                "inline",
                ParameterKind::Flag,
                "Whether only the tools in the request are offered. Default: false.",
            ),
        ];
        PARAMETERS
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn resolve(&self, scope: &Scope<'_>, facts: &mut Facts) -> Result<(), Error> {
        if !scope.flag("inline").unwrap_or(false) {
            facts.toolset = Self::toolset(scope)?.map(|(name, _)| name);
        }
        Ok(())
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        if !ask.request.tools.is_empty() || ask.flag("inline").unwrap_or(false) {
            let toolbox = Toolbox::of_list("tools", &ask.request.tools)?;
            let permissions = contexture_engine::Permissions::default();
            let items = tool_items(&toolbox, None, &permissions, ask.policy);
            return Self::within_share(ask, items);
        }
        let file = ask.engine.config().tools.file.as_deref();
        let toolbox = self.static_content.toolbox(ask.root, file)?;
        let toolset = Self::toolset(ask)?;
        if let Some((set, names)) = &toolset {
            let known = toolbox.names();
            if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
                return Err(Error::input(format!(
                    "toolsets.{set}: {}",
                    crate::error::not_one_of("tool", name, &known)
                )));
            }
        }
        let toolset = toolset
            .as_ref()
            .map(|(name, tools)| (name.as_str(), tools.as_slice()));
        let permissions = &ask.agent()?.permissions;
        let items = tool_items(&toolbox, toolset, permissions, ask.policy);
        Self::within_share(ask, items)
    }
}
