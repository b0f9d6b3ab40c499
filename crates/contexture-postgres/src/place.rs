//! The address of a database: its URL without the parameters that only
//! Contexture uses.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use contexture_store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::Options;
use crate::tls::Tls;

/// The longest name that PostgreSQL does not truncate.
const LONGEST_NAME: usize = 63;

/// The address of a database and the settings of its connections.
#[derive(Clone)]
pub(crate) struct DatabaseLocation {
    /// The address without a password, for messages.
    pub(crate) address: String,
    pub(crate) config: Config,
    pub(crate) tls: Option<Tls>,
    /// The schema of the tables.
    pub(crate) schema: String,
    /// The number of round trips to the database.
    pub(crate) round_trips: Arc<AtomicU64>,
    /// Statements for the settings of a session, and of a transaction.
    pub(crate) session_settings: Arc<str>,
    pub(crate) transaction_settings: Arc<str>,
}

fn invalid(message: impl Into<String>) -> StoreError {
    StoreError::invalid("", message)
}

impl DatabaseLocation {
    /// Reads a URL such as `postgres://user:password@host:5432/database`.
    pub(crate) fn parse(url: &str, options: &Options) -> Result<Self, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut schema = "contexture".to_owned();
        let mut mode = None;
        let mut roots = options.tls_root_certificates.clone();
        let mut rest = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "schema" => schema = value.into_owned(),
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => roots = Some(PathBuf::from(value.into_owned())),
                // PgBouncer does not accept this parameter.
                "options" => {
                    return Err(invalid(
                        "the parameter `options` of a PostgreSQL URL is not supported",
                    ));
                }
                _ => {
                    rest.append_pair(&name, &value);
                }
            }
        }
        if schema.is_empty() || schema.len() > LONGEST_NAME || schema.contains('\0') {
            return Err(invalid(format!(
                "the schema of a PostgreSQL URL must have 1 to {LONGEST_NAME} bytes"
            )));
        }
        let rest = rest.finish();
        let url = match rest.is_empty() {
            true => base.to_owned(),
            false => format!("{base}?{rest}"),
        };
        // The message of the parser may contain the password.
        let mut config: Config = url.parse().map_err(|_| {
            invalid("the PostgreSQL URL cannot be read; write postgres://USER@HOST/DATABASE")
        })?;
        if config.get_hosts().is_empty() {
            return Err(invalid("the PostgreSQL URL has no host"));
        }
        let is_local = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(host) => ["localhost", "127.0.0.1", "::1", "[::1]"].contains(&&**host),
            #[cfg(unix)]
            Host::Unix(_) => true,
        });
        let encrypted = match mode.as_deref() {
            None => !is_local,
            Some("disable") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            Some(other) => {
                return Err(invalid(format!(
                    "sslmode={other} is not supported; use disable, or verify-full for TLS with \
                     a checked certificate"
                )));
            }
        };
        let tls = match encrypted {
            true => Some(Tls::new(roots.as_deref()).map_err(invalid)?),
            false => None,
        };
        config.ssl_mode(match encrypted {
            true => SslMode::Require,
            false => SslMode::Disable,
        });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        if config.get_application_name().is_none() {
            config.application_name("contexture");
        }
        // A server that stopped responding is detected after this time.
        config.tcp_user_timeout(options.statement_timeout + Duration::from_secs(5));
        let place = Self {
            address: address(&config, &schema),
            config,
            tls,
            schema,
            round_trips: Arc::default(),
            session_settings: "".into(),
            transaction_settings: "".into(),
        };
        let path = place.quoted_schema();
        let statement = options.statement_timeout.as_millis().to_string();
        let lock = options.lock_timeout.as_millis().to_string();
        let settings: [(&str, &str); 3] = [
            ("search_path", &path),
            ("statement_timeout", &statement),
            ("lock_timeout", &lock),
        ];
        let for_session = settings.iter().chain(FOR_PREPARED);
        Ok(Self {
            session_settings: settings_sql(for_session, false).into(),
            transaction_settings: settings_sql(settings.iter(), true).into(),
            ..place
        })
    }

    /// Returns the schema as an identifier in SQL.
    pub(crate) fn quoted_schema(&self) -> String {
        format!("\"{}\"", self.schema.replace('"', "\"\""))
    }
}

/// The settings of a session with prepared statements, whose plans PostgreSQL
/// caches until the statistics of a table change.
///
/// A plan from when a table was small must also suit a large table, so that it
/// must use indexes. After many rows were inserted at once, the driver updates
/// the statistics. Planning each statement each time would double the time of a
/// warm request. The JIT compiler takes longer than our statements.
const FOR_PREPARED: &[(&str, &str)] = &[("enable_seqscan", "off"), ("jit", "off")];

/// Returns a statement that applies settings.
fn settings_sql<'s>(
    settings: impl Iterator<Item = &'s (&'s str, &'s str)>,
    in_transaction: bool,
) -> String {
    let set = |(name, value): &(&str, &str)| {
        let value = value.replace('\'', "\'\'");
        format!("set_config('{name}', '{value}', {in_transaction})")
    };
    let settings: Vec<String> = settings.map(set).collect();
    format!("SELECT {}", settings.join(", "))
}

/// Returns the address without the password.
fn address(config: &Config, schema: &str) -> String {
    let user = config.get_user().map(|user| format!("{user}@"));
    let ports = config.get_ports();
    let hosts: Vec<String> = (config.get_hosts().iter().enumerate())
        .map(|(at, host)| {
            let host = match host {
                Host::Tcp(host) => host.clone(),
                #[cfg(unix)]
                Host::Unix(path) => path.display().to_string(),
            };
            match ports.get(at).or(ports.first()) {
                Some(port) => format!("{host}:{port}"),
                None => host,
            }
        })
        .collect();
    let (user, hosts) = (user.unwrap_or_default(), hosts.join(","));
    let database = config.get_dbname().unwrap_or_default();
    match schema {
        "contexture" => format!("postgres://{user}{hosts}/{database}"),
        schema => format!("postgres://{user}{hosts}/{database}?schema={schema}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<DatabaseLocation, StoreError> {
        DatabaseLocation::parse(url, &Options::default())
    }

    #[test]
    fn an_address_has_no_password() {
        let place = parse("postgres://ann:se%40cret@db.example:5433/app?schema=a%22b").unwrap();
        assert_eq!(
            place.address,
            "postgres://ann@db.example:5433/app?schema=a\"b"
        );
        assert_eq!(place.quoted_schema(), "\"a\"\"b\"");
        assert!(place.tls.is_some());
        let several =
            parse("postgresql://ann@a:1,b:2/app?target_session_attrs=read-write").unwrap();
        assert_eq!(several.address, "postgres://ann@a:1,b:2/app");
    }

    #[test]
    fn tls_is_the_default_for_other_machines() {
        for (url, tls) in [
            ("postgres://u@localhost/d", false),
            ("postgres://u@127.0.0.1/d", false),
            ("postgres://u@db/d", true),
            ("postgres://u@db/d?sslmode=disable", false),
            ("postgres://u@localhost/d?sslmode=verify-full", true),
        ] {
            assert_eq!(parse(url).unwrap().tls.is_some(), tls, "{url}");
        }
    }

    #[test]
    fn an_invalid_url_is_rejected_without_printing_the_password() {
        let long = format!("postgres://u@h/d?schema={}", "x".repeat(64));
        for url in [
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@h/d?sslmode=prefer",
            "postgres://u:secret@h/d?options=-c%20a=b",
            "postgres://u:secret@h/d?schema=",
            "postgres://u:secret@h/d?nonsense=1",
            "postgres:///d",
            &long,
        ] {
            let refused = parse(url).map(|_| ()).unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
