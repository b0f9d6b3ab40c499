use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use contexture_core::guard::{FindingKind, Policy};
use contexture_core::{
    Assembly, Budget, Code, Counts, Cut, Item, Layer, Layout, Report, Role, Section, Text, Tokens,
    Trust, markup,
};
use contexture_providers::{Format, Prompt, Refused};
use contexture_tokens::{Model, Models, Provider};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::Error;
use crate::files::Root;
use crate::recipe::{Recipe, RecipeLayer, SourceKind};
use crate::source::{self, FileLoader};
use crate::working_set::{
    BootHeader, Fate, Hints, Log, Manifest, find_manifest, guidelines, session_dir,
};

/// What is asked for. Everything has a default.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The recipe: a built-in name or a file. Default: the configured one.
    pub recipe: Option<String>,
    /// The manifest, relative to the root. Default: `working-set.yml`, else
    /// `.agent/working-set.yml`.
    pub manifest: Option<String>,
    /// The session's label. Default: `default`.
    pub session: Option<String>,
    /// What is asked now.
    pub event: Option<String>,
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
    config: Config,
    models: Models,
    counts: Mutex<BTreeMap<String, Arc<Counts>>>,
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
        })
    }

    /// Returns the settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the model table.
    pub fn models(&self) -> &Models {
        &self.models
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

    /// Assembles a request from what is below `root`.
    pub fn assemble(&self, root: &Root, request: &Request) -> Result<Assembled, Error> {
        let mut clock = Clock::new();
        let now = request.now.unwrap_or_else(Timestamp::now);
        let recipe = match &request.recipe {
            Some(name) => Recipe::load(name)?,
            None => self.config.recipe(root)?,
        };
        let mut warnings = Vec::new();

        let needs_manifest = recipe
            .layers
            .iter()
            .any(|layer| layer.source != SourceKind::Event);
        let manifest = match &request.manifest {
            Some(path) => Manifest::read(root, path)?,
            None if needs_manifest => Manifest::read(root, &find_manifest(root)?)?,
            None => Manifest::default(),
        };
        warnings.extend(manifest.warnings.iter().cloned());
        let hints = Hints::read(root, manifest.dir())?;
        warnings.extend(hints.warnings.iter().cloned());

        let model = self.model(request, &mut warnings)?;
        let budget = self.budget(request, &manifest, &model, &mut warnings)?;
        let counts = self.counts(&model)?;
        clock.lap("resolve");

        let loader = FileLoader {
            root,
            max_file_bytes: self.config.limits.max_file_bytes,
        };
        let mut gathered = Gathered {
            root,
            request,
            config: &self.config,
            manifest: &manifest,
            hints: &hints,
            warnings: &mut warnings,
        };
        let mut layers = recipe
            .layers
            .iter()
            .map(|layer| gathered.layer(layer))
            .collect::<Result<Vec<_>, _>>()?;
        clock.lap("gather");

        for layer in &mut layers {
            source::read_ahead(layer, &loader, &counts, budget.available());
        }
        clock.lap("read_and_count");

        let Assembly { layout, mut report } =
            contexture_core::assemble(layers, budget, &counts, &mut |item| loader.load(item))?;
        clock.lap("fit");

        report.recipe = recipe.name.clone();
        report.model = model.name.clone();
        let verdicts = {
            let fates = fates(&report);
            hints.verdicts(|path| fates.get(path).copied())
        };
        report.hints = verdicts;
        warnings.extend(summarise(&report));
        warnings.extend(guidelines(&report, budget.reserve_response()));
        let log = Log::of(root, request.session.as_deref());
        warnings.extend(log.append(now, "assembled", Logged::of(&report)));
        report.warnings = warnings;
        clock.lap("account");
        // With the clock given, the output is to be the same each time.
        if request.now.is_none() {
            report.timings_ms = clock.laps;
        }

        Ok(Assembled {
            layout,
            report,
            budget,
            model,
            session_label: request.session.clone(),
            workspace_path: root.path().display().to_string(),
        })
    }

    fn model(&self, request: &Request, warnings: &mut Vec<String>) -> Result<Model, Error> {
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
        let asked = match (asked, &request.model) {
            (Some(asked), _) => asked,
            // Naming a model is naming its window.
            (None, Some(_)) => model.window,
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

/// Returns the name that the provider's own interface knows: without the
/// vendor that some put before it.
fn sent_name(model: &Model) -> &str {
    let vendors: &[&str] = match model.provider {
        Provider::Anthropic => &["anthropic/"],
        Provider::OpenAi => &["openai/"],
        Provider::Gemini => &["google/", "models/"],
        Provider::Other => &[],
    };
    let name = &model.name;
    vendors
        .iter()
        .find_map(|vendor| name.strip_prefix(vendor))
        .unwrap_or(name)
}

/// What the sources draw on.
struct Gathered<'a> {
    root: &'a Root,
    request: &'a Request,
    config: &'a Config,
    manifest: &'a Manifest,
    hints: &'a Hints,
    warnings: &'a mut Vec<String>,
}

impl Gathered<'_> {
    fn layer(&mut self, recipe: &RecipeLayer) -> Result<Layer, Error> {
        let policy = Policy {
            mask_secrets: self.config.secrets.mask && recipe.mask_secrets,
        };
        let mut items = match recipe.source {
            SourceKind::Boot => self.boot(policy),
            SourceKind::WorkingSet => {
                source::working_set(self.root, self.manifest, self.hints, policy, self.warnings)?
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
            fit: recipe.fit.clone(),
            place: recipe.place,
            order: recipe.order,
            volatile: recipe.source == SourceKind::Event,
            items,
        })
    }

    fn boot(&self, policy: Policy) -> Vec<Item> {
        let header = BootHeader::gather(
            self.root,
            self.manifest,
            &self.hints.files,
            &session_dir(self.root, self.request.session.as_deref()),
            &self.config.boot.output_sink,
            self.config.limits.max_file_bytes,
        );
        let text = Text::guarded(&header.text(), policy);
        let mut item = Item::new("boot header", Role::Header, text).pinned();
        item.priority = 1.0;
        item.trust = Trust::Operator;
        vec![item]
    }

    fn event(&self, policy: Policy) -> Vec<Item> {
        let Some(event) = &self.request.event else {
            return Vec::new();
        };
        let text = Text::guarded(event.trim_end(), policy);
        let mut item = Item::new("event", Role::User, text).pinned();
        item.priority = 1.0;
        item.trust = Trust::User;
        item.cut = Cut::Never;
        vec![item]
    }
}

/// Returns what became of each file. Of several ranges of one file, the best
/// fate counts.
fn fates(report: &Report) -> BTreeMap<&str, Fate> {
    let mut fates: BTreeMap<&str, Fate> = BTreeMap::new();
    let kept = report.included.iter().map(|row| {
        let fate = match row.code {
            Code::Pinned => Fate::Pinned,
            _ if row.truncated => Fate::Cut,
            _ => Fate::Whole,
        };
        (row.path.as_deref(), fate)
    });
    let dropped = report
        .excluded
        .iter()
        .map(|row| (row.path.as_deref(), Fate::Dropped));
    for (path, fate) in kept.chain(dropped) {
        let Some(path) = path else { continue };
        let file = crate::working_set::split_lines(path).map_or(path, |(file, _)| file);
        fates
            .entry(file)
            .and_modify(|best| *best = (*best).min(fate))
            .or_insert(fate);
    }
    fates
}

/// Says in a few lines what a person should not overlook.
fn summarise(report: &Report) -> Vec<String> {
    let (unusable, over): (Vec<_>, Vec<_>) =
        report.excluded.iter().partition(|row| row.tokens == 0);
    let mut lines = Vec::new();
    for row in unusable.iter().take(MOST_NAMED) {
        let reason = row.reason.to_string();
        let name = if reason.contains(&format!("`{}`", row.id)) {
            String::new()
        } else {
            format!("`{}`: ", row.id)
        };
        lines.push(format!("{name}{reason}"));
    }
    if unusable.len() > MOST_NAMED {
        let more = unusable.len() - MOST_NAMED;
        lines.push(format!(
            "{more} more files cannot be used; the report names them"
        ));
    }
    if !over.is_empty() {
        let names: Vec<String> = over
            .iter()
            .map(|row| format!("`{}` ({})", row.id, row.code.as_str()))
            .collect();
        lines.push(format!("left out for want of tokens: {}", named(&names)));
    }
    let halved: Vec<String> = report
        .included
        .iter()
        .filter(|row| row.code == Code::Cut && row.tokens * 2 < row.original_tokens)
        .map(|row| format!("`{}`", row.id))
        .collect();
    if !halved.is_empty() {
        lines.push(format!("cut to less than half: {}", named(&halved)));
    }
    let masked: Vec<String> = report
        .guard
        .iter()
        .filter(|line| line.finding.kind == FindingKind::Secret)
        .map(|line| {
            format!(
                "{}:{} ({})",
                line.item, line.finding.line, line.finding.what
            )
        })
        .collect();
    if !masked.is_empty() {
        let secrets = if masked.len() == 1 {
            "secret"
        } else {
            "secrets"
        };
        let named = named(&masked);
        lines.push(format!("{} {secrets} masked: {named}", masked.len()));
    }
    lines
}

/// Names the first few.
fn named(names: &[String]) -> String {
    let first = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Most files that a warning names.
const MOST_NAMED: usize = 3;

/// What the event log keeps of an assembly.
#[derive(Serialize)]
struct Logged<'r> {
    recipe: &'r str,
    model: &'r str,
    max: Tokens,
    effective: Tokens,
    used: Tokens,
    included: Vec<(&'r str, Tokens)>,
    excluded: usize,
    hints: &'r [contexture_core::HintVerdict],
}

impl<'r> Logged<'r> {
    fn of(report: &'r Report) -> Self {
        Self {
            recipe: &report.recipe,
            model: &report.model,
            max: report.budget.max,
            effective: report.budget.effective,
            used: report.budget.used,
            included: report
                .included
                .iter()
                .map(|row| (&*row.id, row.tokens))
                .collect(),
            excluded: report.excluded.len(),
            hints: &report.hints,
        }
    }
}

/// An assembled request and its account.
#[derive(Debug, Clone)]
pub struct Assembled {
    /// What is sent, in order.
    pub layout: Layout,
    /// What became of every candidate.
    pub report: Report,
    /// What might be spent.
    pub budget: Budget,
    /// The model it is for.
    pub model: Model,
    /// The session it belongs to.
    pub session_label: Option<String>,
    /// The root.
    pub workspace_path: String,
}

impl Assembled {
    /// Returns the request in a provider's form.
    pub fn render(&self, format: Format) -> Result<String, Refused> {
        let reserve = self.budget.reserve_response();
        Prompt {
            layout: &self.layout,
            model: sent_name(&self.model),
            max_output: (reserve > 0).then_some(reserve),
            spare: self.report.budget.remaining,
        }
        .render(format)
    }

    /// Returns the request in Contexture's own form.
    pub fn to_json(&self) -> Value {
        let section = |blocks: &[contexture_core::Block]| -> String {
            let part = Layout {
                system: blocks.to_vec(),
                ..Layout::default()
            };
            markup::render(&part)
        };
        let messages = |blocks: &[contexture_core::Block]| -> Vec<Value> {
            blocks
                .iter()
                .map(|block| {
                    json!({
                        "role": block.role,
                        "path": block.path,
                        "layer": block.layer,
                        "trust": block.trust,
                        "tokens": block.tokens,
                        "content": block.text(),
                    })
                })
                .collect()
        };
        let used = |section: Section| -> Tokens {
            let blocks = match section {
                Section::System => &self.layout.system,
                Section::History => &self.layout.history,
                Section::Current => &self.layout.current,
            };
            blocks.iter().map(|block| block.tokens).sum()
        };
        json!({
            "system_prompt": section(&self.layout.system),
            "history": messages(&self.layout.history),
            "current_message": {
                "role": "user",
                "content": section(&self.layout.current),
                "parts": messages(&self.layout.current),
            },
            "document": null,
            "tools": [],
            "model": self.model.name,
            "provider": self.model.provider,
            "model_config": {
                "max_output_tokens": Some(self.budget.reserve_response()).filter(|&n| n > 0),
            },
            "token_budget": {
                "model_limit": self.budget.window(),
                "reserve_response": self.budget.reserve_response(),
                "reserve_tools": self.budget.reserve_tools(),
                "available": self.budget.available(),
                "used": {
                    "system_prompt": used(Section::System),
                    "history": used(Section::History),
                    "event": used(Section::Current),
                    "total": self.report.budget.used,
                },
                "remaining": self.budget.available() - self.report.budget.used,
            },
            "session_label": self.session_label,
            "parent_turn_id": null,
            "role": null,
            "toolset_name": null,
            "permissions_granted": [],
            "source_event_id": null,
            "workspace_path": self.workspace_path,
            "truncation": {
                "truncated": self.report.included.iter().any(|row| row.truncated),
                "items_cut": self.report.included.iter().filter(|row| row.truncated).count(),
                "items_dropped": self.report.excluded.len(),
            },
            "report": self.report,
        })
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

    fn lap(&mut self, stage: &str) {
        let elapsed = self.last.elapsed().as_secs_f64() * 1000.0;
        let rounded = (elapsed * 1000.0).round() / 1000.0;
        self.laps.insert(stage.to_owned(), rounded);
        self.last = Instant::now();
    }
}
