//! Separates settings that act outside the project from those that do not.
//!
//! A `contexture.toml` can come with a project by another author. Such a file
//! must not run commands, send content or keys anywhere, read files outside its
//! root, open a server to others, or turn the masking of secrets off. [`Config::restricted`] removes these
//! settings; all others are unchanged.

use std::fmt;
use std::path::{Component, Path};

use contexture_tokens::Tokenizer;
use serde::Serialize;

use super::{
    ANTHROPIC, Config, EmbedderConfig, Environment, LoomModel, MemoryConfig, OPENAI, Secrets,
    ServerConfig, Summariser,
};
use super::{StoreConfig, SummariserKind};
use crate::files::link_out;

/// A setting that acts outside the project, with all that it does there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActiveSetting {
    /// The name of the setting, such as `environment.command`.
    pub setting: String,
    /// The effects of the setting.
    pub effects: Vec<Effect>,
}

/// The effect of a setting outside the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// Runs a command: the program and its arguments.
    Command(Vec<String>),
    /// Sends content to a URL.
    Endpoint(String),
    /// Reads an environment variable, whose value is sent as a key.
    Variable(String),
    /// Uses a path outside the root.
    Path(String),
    /// Lets a server answer requests for a host name or from a web page.
    Access(String),
    /// Sends secrets without masking them: in what.
    Unmasked(String),
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Command(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                write!(f, "runs the command {}", words.join(" "))
            }
            Effect::Endpoint(url) => write!(f, "sends content to {url}"),
            Effect::Variable(name) => {
                write!(f, "sends the environment variable {name} as a key")
            }
            Effect::Path(path) => write!(f, "uses the path {path} outside the root"),
            Effect::Access(name) => write!(f, "lets a server answer requests for {name}"),
            Effect::Unmasked(what) => write!(f, "sends secrets in {what} without masking them"),
        }
    }
}

/// Returns a word as a shell would take it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the address of a database on a server, without a password.
fn database(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !matches!(scheme, "postgres" | "postgresql") {
        return None;
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{user}@{host}")
        }
        None => rest.to_owned(),
    };
    Some(format!("{scheme}://{rest}"))
}

impl ActiveSetting {
    fn new(setting: impl Into<String>, effects: Vec<Effect>) -> Self {
        Self {
            setting: setting.into(),
            effects,
        }
    }
}

impl Config {
    /// Returns the settings that act outside the project. Paths are relative to
    /// `root`.
    pub fn active_settings(&self, root: &Path) -> Vec<ActiveSetting> {
        self.clone().restricted(root, &[]).1
    }

    /// Returns the settings without those that act outside the project, and the
    /// list of removed settings. Settings in `allowed` stay.
    ///
    /// Paths are relative to `root`. A path is outside the root if it is
    /// written so, or if a symbolic link leads outside.
    pub fn restricted(
        mut self,
        root: &Path,
        allowed: &[ActiveSetting],
    ) -> (Self, Vec<ActiveSetting>) {
        // Every setting is listed here, so that the compiler reports a new one.
        // Files with a `_` are opened through `Root`, which no path can leave.
        let Config {
            recipe,
            models,
            environment,
            summariser,
            memory,
            store,
            server,
            model: _,
            limits: _,
            secrets,
            boot: _,
            observe: _,
            workspace: _,
            persona: _,
            runtime: _,
            tools: _,
            toolsets: _,
            permissions: _,
            compaction: _,
            tool_results: _,
            loom,
            snapshots: _,
            reserve_response: _,
            retention: _,
        } = &mut self;
        let mut removed = RemovedSettings {
            root,
            allowed,
            settings: Vec::new(),
        };
        if removed.path("recipe", recipe) {
            *recipe = Config::default().recipe;
        }
        for (name, model) in models.iter_mut() {
            let file = match model.tokenizer.as_deref().map(Tokenizer::parse) {
                Some(Some(Tokenizer::HuggingFace(_))) => model.tokenizer.clone(),
                _ => None,
            };
            if file.is_some_and(|file| removed.path(&format!("models.{name}.tokenizer"), &file)) {
                model.tokenizer = None;
            }
        }
        removed.secrets(secrets);
        removed.environment(environment);
        removed.summariser(summariser);
        removed.loom_model(&mut loom.model);
        removed.memory(memory);
        removed.store(store);
        removed.server(server);
        (self, removed.settings)
    }
}

/// The settings that were removed so far.
struct RemovedSettings<'a> {
    root: &'a Path,
    allowed: &'a [ActiveSetting],
    settings: Vec<ActiveSetting>,
}

impl RemovedSettings<'_> {
    /// Returns true if a setting must be removed, and records it.
    fn take(&mut self, setting: &str, effects: Vec<Effect>) -> bool {
        if effects.is_empty() {
            return false;
        }
        let setting = ActiveSetting::new(setting, effects);
        if self.allowed.contains(&setting) {
            return false;
        }
        self.settings.push(setting);
        true
    }

    fn path(&mut self, setting: &str, path: &str) -> bool {
        is_outside(self.root, path) && self.take(setting, vec![Effect::Path(path.to_owned())])
    }

    fn secrets(&mut self, secrets: &mut Secrets) {
        let Secrets {
            mask,
            allow_unmasked_layers,
        } = secrets;
        let unmasked = |what: &str| vec![Effect::Unmasked(what.to_owned())];
        if !*mask && self.take("secrets.mask", unmasked("all content")) {
            *mask = true;
        }
        if *allow_unmasked_layers
            && self.take(
                "secrets.allow_unmasked_layers",
                unmasked("layers with `mask_secrets: false`"),
            )
        {
            *allow_unmasked_layers = false;
        }
    }

    fn environment(&mut self, environment: &mut Environment) {
        let Environment {
            command,
            file: _,
            timeout_ms: _,
        } = environment;
        if !command.is_empty()
            && self.take(
                "environment.command",
                vec![Effect::Command(command.clone())],
            )
        {
            command.clear();
        }
    }

    // Address, model and key are removed together: a remaining key would be
    // sent to the default address.
    fn summariser(&mut self, summariser: &mut Summariser) {
        let Summariser {
            kind,
            base_url,
            model,
            api_key_env,
            deadline_ms: _,
            attempts: _,
            back_off_ms: _,
        } = summariser;
        let usual = match kind {
            SummariserKind::Extractive => None,
            SummariserKind::OpenAi => Some(OPENAI),
            SummariserKind::Anthropic => Some(ANTHROPIC),
        };
        let url = base_url.clone().or(usual.map(str::to_owned));
        if self.take("summariser", endpoint(url, api_key_env.as_ref())) {
            *kind = SummariserKind::Extractive;
            (*base_url, *model, *api_key_env) = (None, None, None);
        }
    }

    fn loom_model(&mut self, settings: &mut LoomModel) {
        // An address without a model is not called, but it is part of the
        // settings that a person trusts.
        let url = settings.address().or_else(|| settings.base_url.clone());
        if self.take("loom.model", endpoint(url, settings.api_key_env.as_ref())) {
            *settings = LoomModel::default();
        }
    }

    fn memory(&mut self, memory: &mut MemoryConfig) {
        let MemoryConfig {
            archetypes,
            embedder,
            archetype: _,
            inject: _,
            from_sessions: _,
            position: _,
            format: _,
            max_tokens: _,
            deadline_ms: _,
            caps: _,
        } = memory;
        archetypes.retain(|file| !self.path("memory.archetypes", file));
        let EmbedderConfig {
            model,
            base_url,
            api_key_env,
            dimensions,
            deadline_ms: _,
        } = embedder;
        let mut effects = endpoint(base_url.clone(), api_key_env.as_ref());
        // Without an address the model is a folder.
        if let (None, Some(folder)) = (&base_url, &model)
            && is_outside(self.root, folder)
        {
            effects.push(Effect::Path(folder.clone()));
        }
        if self.take("memory.embedder", effects) {
            (*model, *base_url, *api_key_env, *dimensions) = (None, None, None, None);
        }
    }

    fn store(&mut self, store: &mut StoreConfig) {
        let StoreConfig {
            url,
            migration_url,
            tls_root_certificates,
            pool_size: _,
            pool_timeout_ms: _,
            statement_timeout_ms: _,
            lock_timeout_ms: _,
        } = store;
        for (setting, url) in [
            ("store.url", &mut *url),
            ("store.migration_url", &mut *migration_url),
        ] {
            let database = url.as_deref().and_then(database);
            let effects = database.map(Effect::Endpoint).into_iter().collect();
            if self.take(setting, effects) {
                *url = None;
            }
        }
        let roots = tls_root_certificates.as_deref();
        if roots.is_some_and(|path| self.path("store.tls_root_certificates", path)) {
            *tls_root_certificates = None;
        }
        let path = url.as_deref().and_then(|url| url.strip_prefix("sqlite:"));
        let path = path.map(|path| path.strip_prefix("//").unwrap_or(path).to_owned());
        if path.is_some_and(|path| self.path("store.url", &path)) {
            *url = None;
        }
    }

    fn server(&mut self, server: &mut ServerConfig) {
        for (setting, names) in [
            ("server.allowed_hosts", &mut server.allowed_hosts),
            ("server.allowed_origins", &mut server.allowed_origins),
        ] {
            let effects = names.iter().cloned().map(Effect::Access).collect();
            if self.take(setting, effects) {
                names.clear();
            }
        }
        if self.path("server.backup_directory", &server.backup_directory) {
            server.backup_directory = ServerConfig::default().backup_directory;
        }
        let endpoint = Some(server.otlp_endpoint.clone()).filter(|url| !url.is_empty());
        if self.take(
            "server.otlp_endpoint",
            endpoint.map(Effect::Endpoint).into_iter().collect(),
        ) {
            server.otlp_endpoint.clear();
        }
        for (name, tenant) in &mut server.tenants {
            let outside = tenant.root.as_ref();
            let setting = format!("server.tenants.{name}.root");
            if outside.is_some_and(|root| self.path(&setting, root)) {
                tenant.root = None;
            }
        }
    }
}

fn endpoint(url: Option<String>, variable: Option<&String>) -> Vec<Effect> {
    let variable = variable.cloned().map(Effect::Variable);
    url.map(Effect::Endpoint)
        .into_iter()
        .chain(variable)
        .collect()
}

/// Returns true when `path` leads out of `root`, by its words or through a
/// symbolic link.
fn is_outside(root: &Path, path: &str) -> bool {
    let path = Path::new(path);
    let plain = |part: Component<'_>| matches!(part, Component::CurDir | Component::Normal(_));
    if !path.components().all(plain) {
        return true;
    }
    link_out(root, path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = r#"
        recipe = "../r.yml"
        model = "gpt-4o-mini"
        [models.mine]
        window = 100
        tokenizer = "/t/tokenizer.json"
        [models.inside]
        window = 100
        tokenizer = "./tokenizer.json"
        [secrets]
        mask = false
        allow_unmasked_layers = true
        [environment]
        command = ["sh", "-c", "curl 'x'"]
        timeout_ms = 7
        [summariser]
        kind = "anthropic"
        model = "m"
        api_key_env = "SECRET"
        attempts = 2
        [memory]
        archetypes = ["mine.yml", "../theirs.yml"]
        [memory.embedder]
        base_url = "https://e.example"
        model = "e"
        dimensions = 4
        [store]
        url = "sqlite:/tmp/other.db"
        [server]
        allowed_hosts = ["evil.example"]
        log = "warn"
        [server.tenants.a]
        root = "../a"
        [server.tenants.b]
        root = "b"
    "#;

    fn shown(settings: &[ActiveSetting]) -> Vec<String> {
        let effects = settings.iter().flat_map(|one| {
            let effects = one.effects.iter();
            effects.map(move |effect| format!("{}: {effect}", one.setting))
        });
        effects.collect()
    }

    #[test]
    fn settings_with_outside_effects_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(ALL).unwrap();
        let (left, removed) = config.clone().restricted(dir.path(), &[]);
        assert_eq!(
            shown(&removed),
            [
                "recipe: uses the path ../r.yml outside the root",
                "models.mine.tokenizer: uses the path /t/tokenizer.json outside the root",
                "secrets.mask: sends secrets in all content without masking them",
                "secrets.allow_unmasked_layers: sends secrets in layers with `mask_secrets: \
                 false` without masking them",
                r"environment.command: runs the command sh -c 'curl '\''x'\'''",
                "summariser: sends content to https://api.anthropic.com",
                "summariser: sends the environment variable SECRET as a key",
                "memory.archetypes: uses the path ../theirs.yml outside the root",
                "memory.embedder: sends content to https://e.example",
                "store.url: uses the path /tmp/other.db outside the root",
                "server.allowed_hosts: lets a server answer requests for evil.example",
                "server.tenants.a.root: uses the path ../a outside the root",
            ]
        );
        let rest = r#"
            model = "gpt-4o-mini"
            [models.mine]
            window = 100
            [models.inside]
            window = 100
            tokenizer = "./tokenizer.json"
            [environment]
            timeout_ms = 7
            [summariser]
            attempts = 2
            [memory]
            archetypes = ["mine.yml"]
            [server]
            log = "warn"
            [server.tenants.a]
            [server.tenants.b]
            root = "b"
        "#;
        assert_eq!(left, Config::parse(rest).unwrap());
        // No further setting is removed, and allowed settings stay.
        assert_eq!(left.active_settings(dir.path()), []);
        let (all, none) = config.clone().restricted(dir.path(), &removed);
        assert_eq!((all, none), (config, Vec::new()));
    }

    #[test]
    fn a_key_is_never_left_for_another_address() {
        let dir = tempfile::tempdir().unwrap();
        let text = |url| {
            let text = format!(
                "[summariser]\nkind = 'openai'\nmodel = 'm'\napi_key_env = 'K'\nbase_url = '{url}'"
            );
            Config::parse(&text).unwrap()
        };
        let allowed = text("https://a.example").active_settings(dir.path());
        let (left, removed) = text("https://b.example").restricted(dir.path(), &allowed);
        assert_eq!(left.summariser, Summariser::default());
        assert_eq!(removed.len(), 1);
    }

    #[test]
    fn the_files_of_init_act_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Config::default().active_settings(dir.path()), []);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_is_outside() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        let link = |to: &Path, name| {
            std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
        };
        link(outside.path(), "out");
        link(&outside.path().join("absent"), "nowhere");
        link(Path::new("in"), "again");
        for (path, expected) in [
            ("in/new.db", false),
            ("again/new.db", false),
            ("absent/new.db", false),
            ("out/new.db", true),
            ("out", true),
            ("nowhere", true),
            ("nowhere/x", true),
            ("in/../../x", true),
        ] {
            assert_eq!(is_outside(dir.path(), path), expected, "{path}");
        }
    }
}
