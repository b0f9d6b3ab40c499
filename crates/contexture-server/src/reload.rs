//! Settings that are read again while the server runs.
//!
//! Everything that the new settings need is built before anything changes: a file
//! with an error changes nothing. Open streams stay open.

use std::sync::{Arc, PoisonError};

use contexture::Error;
use contexture::config::Config;
use contexture::core::cache;
use contexture::key::tenant_name;
use contexture::memory::index_memory;
use contexture_api::{Reloaded, UnchangedTenant};
use tracing::{info, warn};

use crate::app::App;

/// Reads the settings again. The program that starts the server knows how: it has
/// read them the first time.
pub type ReadSettings = Arc<dyn Fn() -> Result<Config, Error> + Send + Sync>;

/// Settings and tables that the server uses only when it starts.
const AT_START: [&str; 15] = [
    "limits.max_message_bytes",
    "server.addr",
    "server.allowed_origins",
    "server.backup_directory",
    "server.backup_interval_minutes",
    "server.body_memory_bytes",
    "server.gc_interval_minutes",
    "server.header_timeout_ms",
    "server.max_concurrent",
    "server.max_connections",
    "server.max_connections_per_address",
    "server.max_header_bytes",
    "server.max_model_calls",
    "server.otlp_endpoint",
    "store",
];

fn is_at_start(name: &str) -> bool {
    AT_START.iter().any(|start| {
        name.strip_prefix(start)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

impl App {
    /// Reads the settings again and applies them. Fails without any change if the
    /// settings have an error. The log reports the result.
    pub(crate) fn reload(&self) -> Result<Reloaded, Error> {
        let reloading = self.reloading();
        let _one_at_a_time = reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let reloaded = self.read_and_apply();
        match &reloaded {
            Ok(reloaded) => {
                let changed = reloaded.changed.join(", ");
                info!(changed, "the settings were read again");
                if !reloaded.needs_restart.is_empty() {
                    let settings = reloaded.needs_restart.join(", ");
                    warn!(settings, "changed settings need a restart of the server");
                }
                for UnchangedTenant { tenant, error } in &reloaded.unchanged_tenants {
                    warn!(
                        tenant,
                        error, "the previous settings of the tenant still apply"
                    );
                }
            }
            Err(error) => warn!(%error, "the previous settings still apply"),
        }
        reloaded
    }

    fn read_and_apply(&self) -> Result<Reloaded, Error> {
        let read = self.read_settings()?;
        let before = self.tenants().config();
        let different = before.differences(&read)?;
        let (needs_restart, changed): (Vec<String>, Vec<String>) =
            different.into_iter().partition(|name| is_at_start(name));
        let config = read.with_values_of(&before, &AT_START)?;
        let failed = self.tenants().reload(config.clone())?;
        self.set_config(config.server);
        let config = self.config();
        self.keys().set_limits(&config);
        cache::set_limit(config.cache_bytes);
        index_memory::set_limit(config.index_bytes);
        crate::set_log_level(&config.log);
        let unchanged_tenants = failed
            .into_iter()
            .map(|(tenant, error)| UnchangedTenant {
                tenant: tenant_name(&tenant).to_owned(),
                error: error.to_string(),
            })
            .collect();
        Ok(Reloaded {
            changed,
            needs_restart,
            unchanged_tenants,
        })
    }
}

/// Has a running server read its settings again.
#[derive(Clone)]
pub struct Reloader(pub(crate) App);

impl Reloader {
    /// Reads the settings again and applies those that can change while the server
    /// runs. It blocks. The log reports the result, also an error.
    pub fn reload(&self) -> Result<Reloaded, Error> {
        self.0.reload()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_table_belong_to_it() {
        assert!(is_at_start("store.pool_size"));
        assert!(is_at_start("server.addr"));
        assert!(!is_at_start("server.address"));
        assert!(!is_at_start("storeroom"));
    }

    /// Every setting that needs a restart is a setting, and the guide lists it.
    #[test]
    fn settings_that_need_a_restart_are_documented() {
        let guide = include_str!("../../../docs/operating.md");
        let begin = guide.find("These settings apply after a restart").unwrap();
        let listed = guide[begin..].lines().next().unwrap();
        let config = serde_json::to_value(Config::default()).unwrap();
        for name in AT_START {
            let pointer = format!("/{}", name.replace('.', "/"));
            assert!(config.pointer(&pointer).is_some(), "{name}");
            let short = name.strip_prefix("server.").unwrap_or(name);
            let is_listed = [format!("`{short}`"), format!("`[{short}]`")]
                .iter()
                .any(|text| listed.contains(text));
            assert!(is_listed, "{name}");
        }
    }
}
