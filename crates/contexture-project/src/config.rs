//! `contexture.toml`: every setting, with its default.
//!
//! Unknown settings are errors. Limits and ranges are checked once, in
//! `Config::read`.

use std::collections::BTreeMap;
use std::path::Path;

use contexture_core::Tokens;
use contexture_store::TruncationStrategy;
use contexture_tokens::{Model, ModelTable, Models, Prices, Provider, Tokenizer};
use serde::{Deserialize, Serialize};

mod active;
mod change;
mod history;
mod loom_model;
mod memory;
mod place;
mod server;

use crate::advice::{Advice, Operation, Warning};
use crate::error::{Error, plain};
use crate::files::{Root, link_out};
pub use crate::permissions::Permissions;
pub use active::{ActiveSetting, Effect};
use history::USUAL_TARGET;
pub use history::{ANTHROPIC, OPENAI};
pub use history::{CompactionConfig, ResultLimit, Summariser, SummariserKind, ToolResults};
pub use loom_model::{LoomModel, ModelApi};
pub use memory::{Caps, EmbedderConfig, MemoryConfig, MemoryFormat, MemoryPosition};
pub use place::line_of;
pub use server::{ServerConfig, TenantConfig};

/// The name of the configuration file.
pub const FILE: &str = "contexture.toml";

/// The file below the root that replaces the built-in model table.
pub const MODEL_TABLE: &str = ".contexture/models.tsv";

/// The model that requests are made for when neither the request nor the
/// settings name one.
pub const DEFAULT_MODEL: &str = "gpt-5.6";

/// The largest model table that is read.
const MAX_TABLE_BYTES: u64 = 16 * 1024 * 1024;

/// The effective settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The recipe of requests that name none: a built-in name or a file.
    pub recipe: String,
    /// The model of requests that name none.
    pub model: String,
    /// The tokens reserved for the response if neither the request nor a source
    /// sets them. Default: the model's output limit, at most a quarter of the
    /// window and at most 32,000.
    pub reserve_response: Option<Tokens>,
    /// Models that the model table does not have, or has with other values, by name.
    pub models: BTreeMap<String, ModelConfig>,
    /// The limits of files, manifests, actions and messages.
    pub limits: Limits,
    /// The treatment of secrets in content.
    pub secrets: Secrets,
    /// The content of the boot header.
    pub boot: Boot,
    /// The changes of priorities by `working-set observe` after a turn.
    pub observe: Habits,
    /// The files of the workspace that are in the system prompt.
    pub workspace: Workspace,
    /// The persona of the agent.
    pub persona: Persona,
    /// The capabilities of the agent.
    pub environment: Environment,
    /// The facts about the machine in the system prompt.
    pub runtime: Runtime,
    /// The tools of the agent.
    pub tools: Tools,
    /// Names of tools, by the name of their toolset.
    pub toolsets: BTreeMap<String, Vec<String>>,
    /// The names of tools that the agent may and may not use.
    pub permissions: Permissions,
    /// The limits on tool results in a request.
    pub tool_results: ToolResults,
    /// The conditions and limits of compaction.
    pub compaction: CompactionConfig,
    /// The summariser for compaction.
    pub summariser: Summariser,
    /// Defaults for looms.
    pub loom: LoomConfig,
    /// The contents of memory, and their use in requests.
    pub memory: MemoryConfig,
    /// The store of conversations, memory, trees and snapshots.
    pub store: StoreConfig,
    /// Whether assembled requests are stored.
    pub snapshots: SnapshotConfig,
    /// The retention of snapshots, memory records and tasks.
    pub retention: RetentionConfig,
    /// The settings of `contexture serve`.
    pub server: ServerConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            recipe: "working-set".to_owned(),
            model: DEFAULT_MODEL.to_owned(),
            reserve_response: None,
            models: BTreeMap::new(),
            limits: Limits::default(),
            secrets: Secrets::default(),
            boot: Boot::default(),
            observe: Habits::default(),
            workspace: Workspace::default(),
            persona: Persona::default(),
            environment: Environment::default(),
            runtime: Runtime::default(),
            tools: Tools::default(),
            toolsets: BTreeMap::new(),
            permissions: Permissions::default(),
            tool_results: ToolResults::default(),
            compaction: CompactionConfig::default(),
            summariser: Summariser::default(),
            loom: LoomConfig::default(),
            memory: MemoryConfig::default(),
            store: StoreConfig::default(),
            snapshots: SnapshotConfig::default(),
            retention: RetentionConfig::default(),
            server: ServerConfig::default(),
        }
    }
}

/// A model that the user describes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// The context window in tokens. Default: that of the model table; required
    /// for a model that is not in it.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub window: Option<Tokens>,
    /// The most tokens of a response. Default: that of the model table, if it has
    /// one.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub max_output: Option<Tokens>,
    /// `o200k_base`, `cl100k_base`, `estimate`, or the path of a
    /// `tokenizer.json`. Default: that of the model table, otherwise `estimate`.
    pub tokenizer: Option<String>,
    /// For an estimate: the tokens of the model for each token of `o200k_base`.
    /// Default: that of the model's family, otherwise 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0, max = 100.0)))]
    pub factor: Option<f64>,
    /// The provider whose API the model is called through. Default: that of the
    /// model table, otherwise `other`.
    pub provider: Option<Provider>,
    /// Prices in dollars per million tokens.
    pub prices: Option<Prices>,
}

/// The defaults of looms. A tree can have its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LoomConfig {
    /// The nodes that are dropped when a path does not fit.
    pub truncation_strategy: TruncationStrategy,
    /// The number of latest nodes that are kept before all others.
    pub minimum_recent_nodes: usize,
    /// The tokens reserved for the response.
    pub token_buffer: Tokens,
    /// The text that follows the prompt of loom-aware agents. Default: a built-in
    /// text.
    pub addendum: Option<String>,
    /// The model that continues trees.
    pub model: LoomModel,
}

impl Default for LoomConfig {
    fn default() -> Self {
        Self {
            truncation_strategy: TruncationStrategy::default(),
            minimum_recent_nodes: 4,
            token_buffer: 1024,
            addendum: None,
            model: LoomModel::default(),
        }
    }
}

/// The retention of data. `contexture gc` and the server's collector delete
/// older data; the latest snapshot of each session is always kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// The age in days after which snapshots are deleted. 0: never.
    pub snapshot_days: u64,
    /// The number of latest snapshots that each session keeps. 0: all.
    pub snapshots_per_session: u64,
    /// The age in days after which events and chunks of the memory are deleted. 0:
    /// never.
    pub memory_days: u64,
    /// The days after which finished tasks are deleted. 0: never.
    pub task_days: u64,
    /// The age in days after which lines of the sessions' event logs are deleted. 0:
    /// never.
    pub log_days: u64,
}

impl RetentionConfig {
    /// Returns the retention of a collection at that time.
    pub fn at(&self, now: jiff::Timestamp) -> contexture_store::Retention {
        let before = |days: u64| before(days, now);
        contexture_store::Retention {
            before: before(self.snapshot_days),
            per_session: (self.snapshots_per_session > 0).then_some(self.snapshots_per_session),
            memories_before: before(self.memory_days),
            tasks_before: before(self.task_days),
        }
    }

    /// Returns the time before which lines of event logs are deleted.
    pub fn logs_before(&self, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
        before(self.log_days, now)
    }
}

/// Returns the time that many days ago. `None` for 0 days.
fn before(days: u64, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
    let age = std::time::Duration::from_secs(days.saturating_mul(86_400));
    let time = now.saturating_sub(age).unwrap_or(jiff::Timestamp::MIN);
    (days > 0).then_some(time)
}

/// The limits of files, manifests, actions and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The largest file that is read, in bytes.
    pub max_file_bytes: u64,
    /// The most entries of a manifest that actions can add to.
    pub max_entries: usize,
    /// The most working-set actions in one call.
    pub max_actions: usize,
    /// The largest message that is recorded, in bytes.
    pub max_message_bytes: u64,
    /// The most items of one source in one layer.
    pub max_items: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_file_bytes: 8 * 1024 * 1024,
            max_entries: 1000,
            max_actions: 64,
            max_message_bytes: 16 * 1024 * 1024,
            max_items: 200_000,
        }
    }
}

impl Limits {
    /// Returns the limits on actions.
    pub fn quota(&self) -> Quota {
        Quota {
            max_entries: self.max_entries,
            max_actions: self.max_actions,
        }
    }
}

/// Limits on what a call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The maximum number of entries in a manifest.
    pub max_entries: usize,
    /// The maximum number of actions in a call.
    pub max_actions: usize,
}

/// The changes of priorities by `working-set observe` after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Habits {
    /// The number of latest tool outputs that stay in the working set.
    pub keep_tool_outputs: usize,
    /// The number of turns without a mention after which the priority of a file
    /// falls.
    pub untouched_turns: u64,
    /// The change of a priority in one step.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub step: f64,
    /// The lowest priority that a file falls to.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub floor: f64,
    /// The highest priority that a file rises to.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub ceiling: f64,
    /// The priority of a new tool output.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub tool_output_priority: f64,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            keep_tool_outputs: 5,
            untouched_turns: 5,
            step: 0.1,
            floor: 0.1,
            ceiling: 0.95,
            tool_output_priority: 0.6,
        }
    }
}

/// The treatment of secrets in content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// Whether secrets are masked in content. `false` needs trust.
    pub mask: bool,
    /// Whether recipe files below the root can turn masking off for a layer
    /// with `mask_secrets: false`. `true` needs trust.
    pub allow_unmasked_layers: bool,
}

impl Default for Secrets {
    fn default() -> Self {
        Self {
            mask: true,
            allow_unmasked_layers: false,
        }
    }
}

/// The content of the boot header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Boot {
    /// The file that the boot header names for the model's output.
    pub output_sink: String,
}

impl Default for Boot {
    fn default() -> Self {
        Self {
            output_sink: "output.md".to_owned(),
        }
    }
}

/// The files of the workspace that are in the system prompt, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Workspace {
    /// Paths or patterns, relative to the root or to `.agent/`. A missing file is
    /// skipped.
    pub files: Vec<String>,
}

impl Default for Workspace {
    fn default() -> Self {
        let files = ["AGENTS.md", "IDENTITY.md", "rules/*.md"];
        Self {
            files: files.map(str::to_owned).to_vec(),
        }
    }
}

/// The persona of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Persona {
    /// The persona of sessions that name none. Default: the files in `persona/`.
    pub name: Option<String>,
    /// The directory of all personas. Each persona is a directory with `SOUL.md`,
    /// `IDENTITY.md` and `permissions.yml`.
    pub dir: String,
}

impl Default for Persona {
    fn default() -> Self {
        Self {
            name: None,
            dir: "personas".to_owned(),
        }
    }
}

/// The capabilities of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Environment {
    /// The file of capabilities. Default: `capabilities.yml` or
    /// `capabilities.json`, if it exists.
    pub file: Option<String>,
    /// The command that prints the capabilities as JSON, instead of a file. It
    /// must be trusted.
    pub command: Vec<String>,
    /// The time limit of the command, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            file: None,
            command: Vec::new(),
            timeout_ms: 5_000,
        }
    }
}

/// The facts about the machine in the system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Runtime {
    /// The host name in the system prompt. Default: none.
    pub host: Option<String>,
}

/// The tools of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// The file of tool definitions. Default: `tools.json` or `tools.yml`, if it
    /// exists.
    pub file: Option<String>,
    /// The toolset of requests that name none. Default: all tools.
    pub toolset: Option<String>,
    /// The percentage of the budget that definitions of tools may use, from 1 to
    /// 100. Default: 50.
    pub share: Option<u8>,
}

impl Tools {
    /// The percentage when none is set.
    pub const DEFAULT_SHARE: u8 = 50;
}

/// The store of conversations, memory, trees and snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `sqlite:PATH` or `postgres://USER@HOST/DATABASE`. Default:
    /// `.contexture/contexture.db` below the root.
    pub url: Option<String>,
    /// The most connections to PostgreSQL.
    pub pool_size: usize,
    /// The time that a call waits for a connection to PostgreSQL, in
    /// milliseconds.
    pub pool_timeout_ms: u64,
    /// The maximum time of a statement in PostgreSQL, in milliseconds.
    pub statement_timeout_ms: u64,
    /// The time that a write waits for another server that writes for the same
    /// tenant, in milliseconds.
    pub lock_timeout_ms: u64,
    /// The PostgreSQL URL that creates and migrates the tables. Default: `url`.
    pub migration_url: Option<String>,
    /// A file with the certificates to trust for TLS to PostgreSQL. Default: those
    /// that browsers trust.
    pub tls_root_certificates: Option<String>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: None,
            pool_size: 16,
            pool_timeout_ms: 10_000,
            statement_timeout_ms: 30_000,
            lock_timeout_ms: 10_000,
            migration_url: None,
            tls_root_certificates: None,
        }
    }
}

/// Whether assembled requests are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotConfig {
    /// Whether every assembled request is stored as a snapshot.
    pub keep: bool,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self { keep: true }
    }
}

impl Config {
    /// Reads `contexture.toml` in `root`; defaults when there is none.
    ///
    /// The settings are those of the file, also those that run commands or
    /// name endpoints. For a project that others wrote, see
    /// [`Settings`](crate::trust::Settings).
    pub fn read(root: &Root) -> Result<Self, Error> {
        if root.is_absent(FILE) {
            return Ok(Self::default());
        }
        Self::parse(&root.read_required(FILE)?)
    }

    /// Reads the text of a `contexture.toml`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or_else(String::new, |span| {
                let before = &text[..span.start.min(text.len())];
                let line = before.matches('\n').count() + 1;
                let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
                format!(":{line}:{column}")
            });
            let told = match (error.message(), error.span()) {
                ("duplicate key", Some(span)) => {
                    let key = text.get(span).unwrap_or_default().trim();
                    format!("the key `{key}` is given twice")
                }
                (message, _) => plain(message),
            };
            let is_unknown = |name: &&&str| told.starts_with(&format!("unknown field `{name}`"));
            let misplaced = ["model", "recipe"].iter().find(is_unknown);
            let advice = match misplaced {
                Some(name) => Advice::from(format!("`{name}` must be above the first [table]")),
                None => Advice::call(Operation::ShowSettings),
            };
            Error::input(format!("{FILE}{place}: {told}")).advise(advice)
        })?;
        config.check().map_err(|error| {
            let message = place::with_line(text, &error.to_string());
            match message {
                Some(message) => error.with_message(message),
                None => error,
            }
        })?;
        Ok(config)
    }

    /// Rejects values that are out of range.
    fn check(&self) -> Result<(), Error> {
        let refuse =
            |name: String, must: &str| Err(Error::input(format!("{FILE}: {name}: must be {must}")));
        for (name, model) in &self.models {
            if model.factor.is_some_and(|f| !(1.0..=100.0).contains(&f)) {
                return refuse(format!("models.{name}.factor"), "from 1 to 100");
            }
            if model.window == Some(0) {
                return refuse(format!("models.{name}.window"), "at least 1");
            }
            if model.max_output == Some(0) {
                return refuse(format!("models.{name}.max_output"), "at least 1");
            }
        }
        for (name, part) in [
            ("step", self.observe.step),
            ("floor", self.observe.floor),
            ("ceiling", self.observe.ceiling),
            ("tool_output_priority", self.observe.tool_output_priority),
        ] {
            if !(0.0..=1.0).contains(&part) {
                return refuse(format!("observe.{name}"), "from 0 to 1");
            }
        }
        if self
            .tools
            .share
            .is_some_and(|share| !(1..=100).contains(&share))
        {
            return refuse("tools.share".to_owned(), "from 1 to 100");
        }
        if let Some(ResultLimit::Tokens(tokens)) = self.tool_results.max_tokens
            && (1..ToolResults::LEAST).contains(&tokens)
        {
            return refuse(
                "tool_results.max_tokens".to_owned(),
                "at least 500, or 0 for no limit",
            );
        }
        if self.tool_results.stale_after == Some(0) {
            return refuse("tool_results.stale_after".to_owned(), "at least 1");
        }
        for (name, percent) in [
            ("threshold", self.compaction.threshold),
            ("target", self.compaction.target.unwrap_or(USUAL_TARGET)),
            ("overflow_target", self.compaction.overflow_target),
            ("summary", self.compaction.summary),
            ("user_messages", self.compaction.user_messages),
        ] {
            if !(1.0..=100.0).contains(&percent) {
                return refuse(format!("compaction.{name}"), "a percentage from 1 to 100");
            }
        }
        if self
            .compaction
            .target
            .is_some_and(|target| target > self.compaction.threshold)
        {
            return refuse(
                "compaction.target".to_owned(),
                "at most compaction.threshold",
            );
        }
        if self.summariser.kind != SummariserKind::Extractive && self.summariser.model.is_none() {
            return refuse(
                "summariser.model".to_owned(),
                "set when summariser.kind is not \
                                                          `extractive`",
            );
        }
        let writer = &self.loom.model;
        if writer.kind != ModelApi::None && writer.model.is_none() {
            return refuse(
                "loom.model.model".to_owned(),
                "set when loom.model.kind is not `none`",
            );
        }
        let embedder = &self.memory.embedder;
        for (setting, url, key) in [
            (
                "summariser",
                &self.summariser.base_url,
                &self.summariser.api_key_env,
            ),
            ("loom.model", &writer.base_url, &writer.api_key_env),
            ("memory.embedder", &embedder.base_url, &embedder.api_key_env),
        ] {
            if let (Some(url), Some(_)) = (url, key)
                && !contexture_providers::may_carry_key(url)
            {
                let message = format!(
                    "{FILE}: {setting}.base_url: must be an https:// address, or http:// on this \
                     machine, because {setting}.api_key_env is set"
                );
                return Err(Error::input(message)
                    .advise("use https://, or remove api_key_env if the server needs no key"));
            }
        }
        self.server.check()
    }

    /// Returns `table` with the user's models. Paths of tokenizers are relative
    /// to `root`.
    pub fn models(&self, root: &Path, table: ModelTable) -> Result<Models, Error> {
        let built_in = Models::with_table(table);
        let mut models = built_in.clone();
        for (name, model) in &self.models {
            let table = built_in.resolve(name);
            let mut tokenizer = match &model.tokenizer {
                Some(tokenizer) => Tokenizer::parse(tokenizer).ok_or_else(|| {
                    let known = ["o200k_base", "cl100k_base", "estimate"];
                    let what = crate::error::not_one_of("tokenizer", tokenizer, &known);
                    Error::input(format!("{FILE}: models.{name}.tokenizer: {what}"))
                        .advise("or give the path of a tokenizer.json")
                })?,
                None if table.known => table.tokenizer.clone(),
                None => Tokenizer::Estimate(1.0),
            };
            let window = model.window.or(table.known.then_some(table.window));
            let window = window.ok_or_else(|| {
                Error::input(format!("{FILE}: models.{name}.window: is missing"))
                    .advise("set the size of the model's window in tokens")
            })?;
            if let Some(factor) = model.factor {
                tokenizer = tokenizer.with_factor(factor);
            }
            if let Tokenizer::HuggingFace(path) = &mut tokenizer {
                *path = root.join(&*path);
            }
            models.add(Model {
                name: name.clone(),
                family: table.family,
                window,
                max_output: model.max_output.or(table.max_output),
                tokenizer,
                provider: model.provider.unwrap_or(match table.known {
                    true => table.provider,
                    false => Provider::Other,
                }),
                prices: model.prices.or(table.prices),
                known: true,
                like: None,
            });
        }
        Ok(models)
    }
}

/// Returns the model table of a root: the file [`MODEL_TABLE`] if it exists,
/// else the built-in table.
///
/// A file that cannot be used causes a warning, and the built-in table is used:
/// operations that need no model must not fail.
pub fn model_table(root: &Path) -> (ModelTable, Option<Warning>) {
    // A folder that was not set is not the current directory.
    if root.as_os_str().is_empty() {
        return (ModelTable::built_in(), None);
    }
    let read = || {
        let path = root.join(MODEL_TABLE);
        if link_out(root, Path::new(MODEL_TABLE)).is_some() {
            return Err("leads out of the root through a symbolic link".to_owned());
        }
        let found = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|error| error.to_string())?,
        };
        if !found.is_file() || found.len() > MAX_TABLE_BYTES {
            return Err("is not a model table".to_owned());
        }
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let table = ModelTable::parse(text).map_err(|error| error.to_string())?;
        Ok(Some(table))
    };
    match read() {
        Ok(table) => (table.unwrap_or_else(ModelTable::built_in), None),
        Err(why) => {
            let message = format!("{MODEL_TABLE}: {why}: using the built-in model table");
            let warning =
                Warning::new("model_table", message).advise(Advice::call(Operation::UpdateModels));
            (ModelTable::built_in(), Some(warning))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_tool_results_follows_the_window() {
        let limit = |text: &str, window: Tokens| {
            let config = Config::parse(text).unwrap();
            config.tool_results.limit(window)
        };
        for (window, expected) in [(8_000, 2_000), (32_000, 4_000), (1_000_000, 20_000)] {
            assert_eq!(limit("", window), Some(expected));
            let on = "[tool_results]\nmax_tokens = true";
            assert_eq!(limit(on, window), Some(expected));
        }
        for off in ["0", "false"] {
            assert_eq!(
                limit(&format!("tool_results.max_tokens = {off}"), 8_000),
                None
            );
        }
        assert_eq!(limit("tool_results.max_tokens = 700", 8_000), Some(700));
        for (wrong, told) in [
            (
                "499",
                "tool_results.max_tokens: must be at least 500, or 0 for no limit",
            ),
            ("-1", "expected a number of tokens, or false"),
            ("'many'", "expected a number of tokens, or false"),
        ] {
            let error = Config::parse(&format!("tool_results.max_tokens = {wrong}")).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
        }
    }

    #[test]
    fn an_embedder_has_defaults_and_no_other_settings() {
        let read = |text: &str| toml::from_str::<EmbedderConfig>(text);
        assert_eq!(read("").unwrap(), EmbedderConfig::default());
        let embedder = EmbedderConfig {
            model: Some("embeddinggemma".to_owned()),
            base_url: Some("http://localhost:11434".to_owned()),
            dimensions: Some(256),
            ..EmbedderConfig::default()
        };
        let text =
            "model = 'embeddinggemma'\nbase_url = 'http://localhost:11434'\ndimensions = 256";
        assert_eq!(read(text).unwrap(), embedder);
        for wrong in ["kind = 'openai'", "dimensions = -1", "deadline_ms = 0.5"] {
            read(wrong).unwrap_err();
        }
    }
}
