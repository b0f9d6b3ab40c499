//! The settings of `[server]`, and their environment variables.

use std::collections::BTreeMap;

use contexture_core::cache;
use contexture_store::TenantQuota;
use serde::{Deserialize, Serialize};

use crate::advice::{Advice, Operation};
use crate::error::{Error, plain};

/// The settings of `contexture serve`. Every setting but `tenants` can also be set
/// in the environment: `CONTEXTURE_SERVER_` and its name in capitals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The address and port to listen on.
    pub addr: String,
    /// Host names that clients can use, besides addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that can call the server, such as
    /// `https://app.example.com`.
    pub allowed_origins: Vec<String>,
    /// The largest body of a request, in bytes. A stream of lines can be longer.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1073741824)))]
    pub max_body_bytes: usize,
    /// The largest tree in one request, in bytes.
    pub max_tree_bytes: usize,
    /// The largest archive that can be imported over HTTP, in bytes. It is stored in the
    /// directory for temporary files while it is checked.
    pub max_archive_bytes: u64,
    /// The largest head of a request, in bytes.
    #[cfg_attr(feature = "schema", schemars(range(min = 8192, max = 1048576)))]
    pub max_header_bytes: usize,
    /// The most connections at the same time.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000000)))]
    pub max_connections: usize,
    /// The most requests that run at the same time. Others wait.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 4096)))]
    pub max_concurrent: usize,
    /// The most requests of one tenant that run at the same time. 0: a quarter of
    /// `max_concurrent`. A server without keys has one tenant and no such limit.
    pub max_concurrent_per_tenant: usize,
    /// The most calls of summarisers and embedders over HTTP that run at the same
    /// time. They do not count as requests in progress. One tenant can have a
    /// quarter.
    pub max_model_calls: usize,
    /// The memory for the bodies of all requests and for answers that are not yet
    /// sent, in bytes. A body counts eight times its size, an answer once. One
    /// tenant can use half.
    pub body_memory_bytes: usize,
    /// The most connections from one address. 0: a quarter of `max_connections`,
    /// at least 64.
    pub max_connections_per_address: usize,
    /// The most wrong API keys of one address in a minute. 0: no limit.
    pub wrong_keys_per_minute: u32,
    /// The most connections to event streams of one tenant.
    pub max_listeners: usize,
    /// The time limit for the head of a request and for idle connections, in
    /// milliseconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub header_timeout_ms: u64,
    /// The time limit for the body of a request, or for the next line of a
    /// stream, in milliseconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub body_timeout_ms: u64,
    /// The time that a request can wait and run before it is answered with 503 or
    /// 504, in milliseconds. A write that has begun is completed.
    pub request_timeout_ms: u64,
    /// The most requests per second of one API key. 0: no limit.
    pub rate_per_second: u32,
    /// The most requests of one API key at once after a pause.
    pub rate_burst: u32,
    /// The time that a stopping server waits for accepted requests, in
    /// milliseconds.
    pub shutdown_timeout_ms: u64,
    /// The most memory of all caches together, in bytes.
    #[cfg_attr(feature = "schema", schemars(range(min = 16777216)))]
    pub cache_bytes: u64,
    /// The most memory of the memory indexes of all tenants together, in bytes.
    #[cfg_attr(feature = "schema", schemars(range(min = 16777216)))]
    pub index_bytes: u64,
    /// The minutes between two runs of the garbage collector with the limits of
    /// `[retention]`. 0: never.
    pub gc_interval_minutes: u64,
    /// The minutes between two backups of all tenants. 0: never.
    pub backup_interval_minutes: u64,
    /// The directory of these backups, relative to the root.
    pub backup_directory: String,
    /// The number of latest backups to keep there. 0: all.
    pub backups_kept: usize,
    /// The URL to send OpenTelemetry traces to, such as
    /// `http://127.0.0.1:4318/v1/traces`. Empty: no traces.
    pub otlp_endpoint: String,
    /// The requests that are logged: `off`, `error`, `warn`, `info` or `debug`.
    pub log: String,
    /// The limits on each tenant's data and requests, unless it has its own
    /// quota.
    pub quota: TenantQuota,
    /// Tenants whose files are not below `.contexture/tenants/`, or that have
    /// their own quota, by name.
    pub tenants: BTreeMap<String, TenantConfig>,
}

/// A tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TenantConfig {
    /// The root of the tenant, relative to the root of the server. Default:
    /// `.contexture/tenants/NAME`.
    pub root: Option<String>,
    /// The limits on the tenant's data and requests. They replace the server's
    /// `quota`.
    pub quota: Option<TenantQuota>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            addr: "127.0.0.1:4650".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 16 << 20,
            max_tree_bytes: 64 << 20,
            max_archive_bytes: 16 << 30,
            max_header_bytes: 16 << 10,
            max_connections: 4096,
            max_concurrent: 64,
            max_concurrent_per_tenant: 0,
            max_model_calls: 64,
            body_memory_bytes: 1 << 30,
            max_connections_per_address: 0,
            wrong_keys_per_minute: 60,
            max_listeners: 64,
            header_timeout_ms: 15_000,
            body_timeout_ms: 30_000,
            request_timeout_ms: 60_000,
            rate_per_second: 1000,
            rate_burst: 2000,
            shutdown_timeout_ms: 30_000,
            cache_bytes: cache::DEFAULT_LIMIT,
            index_bytes: 1 << 30,
            gc_interval_minutes: 0,
            backup_interval_minutes: 0,
            backup_directory: ".contexture/backups".to_owned(),
            backups_kept: 7,
            otlp_endpoint: String::new(),
            log: "info".to_owned(),
            quota: TenantQuota::default(),
            tenants: BTreeMap::new(),
        }
    }
}

/// The smallest `cache_bytes` and `index_bytes`: with less, hardly anything
/// would be found again.
const LEAST_CACHE: u64 = 16 << 20;

/// The default number of connections per address.
const LEAST_OF_ADDRESS: usize = 64;

/// The smallest `body_memory_bytes`.
const LEAST_BODY_MEMORY: usize = 16 << 20;

/// The prefix of settings in the environment.
const PREFIX: &str = "CONTEXTURE_SERVER_";

impl ServerConfig {
    /// Returns the maximum number of open record streams. They wait for their
    /// callers, so they do not count towards `max_concurrent`.
    pub fn max_streams(&self) -> usize {
        (self.max_concurrent / 4).max(4)
    }

    /// Returns the maximum number of concurrent requests of one tenant.
    pub fn max_concurrent_of_tenant(&self) -> usize {
        match self.max_concurrent_per_tenant {
            0 => (self.max_concurrent / 4).max(1),
            most => most.min(self.max_concurrent),
        }
    }

    /// Returns the maximum number of concurrent model calls of one tenant.
    pub fn max_model_calls_of_tenant(&self) -> usize {
        (self.max_model_calls / 4).max(1)
    }

    /// Returns the quota of a tenant.
    pub fn quota_of(&self, tenant: &str) -> TenantQuota {
        let own = self.tenants.get(tenant).and_then(|tenant| tenant.quota);
        own.unwrap_or(self.quota)
    }

    /// Returns the maximum number of connections from one address.
    pub fn max_connections_of_address(&self) -> usize {
        match self.max_connections_per_address {
            0 => (self.max_connections / 4).max(LEAST_OF_ADDRESS),
            most => most,
        }
    }

    /// Returns the settings, overridden by the environment. Elements of a list
    /// are separated by commas.
    pub fn with_environment(
        self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::input(format!("[server]: {}", plain(&error.to_string())))
        };
        let mut table = toml::Table::try_from(&self).map_err(|error| failed(&error))?;
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(PREFIX) else {
                continue;
            };
            let name = name.to_ascii_lowercase();
            let wrong = |what: &str| {
                Error::input(format!("{variable}: {what}"))
                    .advise(Advice::call(Operation::ShowSettings))
            };
            let setting = match table.get_mut(&name) {
                Some(setting) if !setting.is_table() => setting,
                _ => return Err(wrong("unknown setting")),
            };
            *setting = match setting {
                toml::Value::Integer(_) => {
                    let number = value
                        .trim()
                        .parse()
                        .map_err(|_| wrong("expected a whole number"));
                    toml::Value::Integer(number?)
                }
                toml::Value::Array(_) => {
                    let parts = value
                        .split(',')
                        .map(str::trim)
                        .filter(|part| !part.is_empty());
                    toml::Value::Array(parts.map(|part| part.to_owned().into()).collect())
                }
                _ => toml::Value::String(value),
            };
        }
        let config: Self = table.try_into().map_err(|error| failed(&error))?;
        config.check()?;
        Ok(config)
    }

    /// Fails when settings are out of range or contradict each other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let positive = [
            ("max_body_bytes", self.max_body_bytes as u64),
            ("max_tree_bytes", self.max_tree_bytes as u64),
            ("max_header_bytes", self.max_header_bytes as u64),
            ("max_connections", self.max_connections as u64),
            ("max_concurrent", self.max_concurrent as u64),
            ("max_model_calls", self.max_model_calls as u64),
            ("header_timeout_ms", self.header_timeout_ms),
            ("body_timeout_ms", self.body_timeout_ms),
            ("request_timeout_ms", self.request_timeout_ms),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::input(format!("server.{name}: must be 1 or more")).at(*name));
        }
        let most = [
            ("max_body_bytes", self.max_body_bytes, 1 << 30),
            ("max_header_bytes", self.max_header_bytes, 1 << 20),
            ("max_tree_bytes", self.max_tree_bytes, 1 << 30),
            ("max_connections", self.max_connections, 1_000_000),
            ("max_concurrent", self.max_concurrent, 4096),
            ("max_model_calls", self.max_model_calls, 4096),
        ];
        if let Some((name, _, most)) = most.iter().find(|(_, value, most)| value > most) {
            return Err(Error::input(format!("server.{name}: must be {most} or less")).at(*name));
        }
        if self.body_memory_bytes < LEAST_BODY_MEMORY {
            let message = format!("server.body_memory_bytes: must be {LEAST_BODY_MEMORY} or more");
            return Err(Error::input(message).at("body_memory_bytes"));
        }
        // Less would not hold the head of an ordinary request.
        if self.max_header_bytes < 8192 {
            return Err(Error::input(
                "server.max_header_bytes: must be 8192 or more",
            ));
        }
        let memory = [
            ("cache_bytes", self.cache_bytes),
            ("index_bytes", self.index_bytes),
        ];
        if let Some((name, _)) = memory.iter().find(|(_, bytes)| *bytes < LEAST_CACHE) {
            let message = format!("server.{name}: must be {LEAST_CACHE} or more");
            return Err(Error::input(message).at(*name));
        }
        if self.backup_directory.is_empty() && self.backup_interval_minutes > 0 {
            let message = "server.backup_directory: backups need a directory";
            return Err(Error::input(message).at("backup_directory"));
        }
        let endpoint = &self.otlp_endpoint;
        let is_url = ["http://", "https://"]
            .iter()
            .any(|scheme| endpoint.starts_with(scheme));
        if !endpoint.is_empty() && !is_url {
            let message = "server.otlp_endpoint: must begin with http:// or https://";
            return Err(Error::input(message).at("otlp_endpoint"));
        }
        const LEVELS: [&str; 5] = ["off", "error", "warn", "info", "debug"];
        if !LEVELS.contains(&self.log.as_str()) {
            let unknown = crate::error::not_one_of("level", &self.log, &LEVELS);
            return Err(Error::input(format!("server.log: {unknown}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<ServerConfig, Error> {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        ServerConfig::default().with_environment(variables)
    }

    #[test]
    fn the_environment_comes_before_the_file() {
        let config = with(&[
            ("CONTEXTURE_SERVER_ADDR", "0.0.0.0:80"),
            ("CONTEXTURE_SERVER_MAX_CONCURRENT", "8"),
            ("CONTEXTURE_SERVER_ALLOWED_HOSTS", "a.example, b.example"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!(config.addr, "0.0.0.0:80");
        assert_eq!(config.max_concurrent, 8);
        assert_eq!(config.allowed_hosts, ["a.example", "b.example"]);
    }

    #[test]
    fn an_invalid_setting_is_named() {
        for (name, value, message) in [
            (
                "CONTEXTURE_SERVER_ADR",
                "x",
                "CONTEXTURE_SERVER_ADR: unknown setting",
            ),
            (
                "CONTEXTURE_SERVER_MAX_CONCURRENT",
                "many",
                "CONTEXTURE_SERVER_MAX_CONCURRENT: expected a whole number",
            ),
            (
                "CONTEXTURE_SERVER_MAX_CONCURRENT",
                "0",
                "server.max_concurrent: must be 1 or more",
            ),
            (
                "CONTEXTURE_SERVER_MAX_CONCURRENT",
                "4097",
                "server.max_concurrent: must be 4096 or less",
            ),
            (
                "CONTEXTURE_SERVER_MAX_BODY_BYTES",
                "9223372036854775807",
                "server.max_body_bytes: must be 1073741824 or less",
            ),
            (
                "CONTEXTURE_SERVER_CACHE_BYTES",
                "16777215",
                "server.cache_bytes: must be 16777216 or more",
            ),
            (
                "CONTEXTURE_SERVER_INDEX_BYTES",
                "0",
                "server.index_bytes: must be 16777216 or more",
            ),
            (
                "CONTEXTURE_SERVER_LOG",
                "infos",
                "server.log: unknown level `infos`; did you mean `info`? (one of off, error, \
                 warn, info, debug)",
            ),
        ] {
            assert_eq!(with(&[(name, value)]).unwrap_err().to_string(), message);
        }
    }
}
