//! Judges the name of a key: the value of `dbPassword` is a password, that of
//! `password_hash` is not.

/// The kind of value that a key name indicates.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ExpectedValue {
    Password,
    Key,
    /// A key with an unknown word after it: the value must be random.
    Unsure,
}

/// Words before `key` that make it the key to something secret.
#[rustfmt::skip] // A list of words reads better in rows.
const OWNERS: &[&str] = &[
    "api", "access", "secret", "private", "signing", "sign", "signature", "encryption",
    "encrypt", "decryption", "account", "auth", "master", "shared", "app", "application",
    "session", "service", "admin", "license", "webhook", "client", "hmac", "jwt", "deploy",
    "storage", "aes", "cookie", "role", "ingest", "integration", "management", "security",
    "root", "server", "rest", "write", "read", "subscription", "functions", "host", "crypt",
    "crypto", "ssh", "wallet", "preshared",
];

/// Words after the name of a secret that show that the value is about the
/// secret, not the secret itself.
#[rustfmt::skip] // A list of words reads better in rows.
const ABOUT: &[&str] = &[
    "name", "names", "type", "types", "count", "counts", "id", "ids", "url", "uri", "path",
    "file", "filename", "dir", "field", "length", "len", "limit", "limits", "size", "ttl",
    "expiry", "expires", "expire", "expiration", "exp", "age", "max", "min", "hash", "hashed",
    "digest", "sha256", "checksum", "policy", "prefix", "suffix", "index", "idx", "kind",
    "pattern", "regex", "format", "header", "param", "parameter", "label", "placeholder",
    "hint", "title", "text", "message", "msg", "error", "err", "ref", "reference", "arn",
    "version", "enabled", "required", "provider", "method", "scheme", "mode", "server",
    "endpoint", "domain", "host", "user", "username", "email", "column", "table", "manager",
    "store", "class", "encoding", "vocab", "span", "tree", "position", "offset", "start", "end",
    "address", "contract", "symbol", "mint", "list", "map", "set", "ring", "budget", "usage",
    "cost", "price", "algorithm", "alg", "salt", "at", "date", "time", "timestamp", "status",
    "state", "scope", "scopes", "issuer", "audience", "realm", "fingerprint", "thumbprint",
    "input", "selector", "css", "icon", "button", "link", "page", "route", "callback",
    "redirect", "handler", "middleware", "module", "package", "plugin", "action", "event",
    "flow", "strategy", "model", "schema", "example", "description", "desc", "comment", "doc",
    "docs", "help", "info", "group", "namespace", "region", "location", "source", "sourcemap",
    "template", "pub", "public", "tests", "spec", "rule", "rules", "config", "strength",
    "score", "reset", "confirmation", "etag", "revision", "code",
];

/// Words before the name of a secret that do not change its meaning.
#[rustfmt::skip] // A list of words reads better in rows.
const HARMLESS: &[&str] = &[
    "next", "page", "continuation", "pagination", "cancel", "cancellation", "eos", "bos", "pad",
    "unk", "special", "stop", "public", "publishable", "design", "has", "is", "no", "num",
    "csrf", "xsrf", "anti", "ide", "max", "min", "sort", "primary", "foreign", "partition",
    "cache", "mask", "sep", "cls", "sync", "resume", "lexer", "syntax", "pub", "site",
];

/// Endings of words that indicate a password.
#[rustfmt::skip]
const PASSWORDS: &[&str] = &[
    "password", "passwd", "passwort", "passphrase", "pwd", "dbpass", "userpass", "rootpass",
    "adminpass", "authpass", "smtppass", "requirepass", "storepass", "keypass", "masterauth",
    "bindpw", "rootpw", "authtok", "psk", "passe", "kennwort",
];

/// Endings of words that indicate a key.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "secret", "token", "credential", "credentials", "apikey", "secretkey", "accesskey",
    "privatekey", "authkey", "accountkey", "sharedkey", "signingkey", "encryptionkey", "masterkey",
    "appkey", "licensekey", "presharedkey", "secreta", "secreto",
];

/// Words after a telling one that change nothing.
#[rustfmt::skip]
const NEUTRAL: &[&str] = &[
    "", "base", "value", "val", "string", "str", "key", "prod", "production", "dev", "staging",
    "live", "test", "main", "primary", "secondary", "default", "env", "b64", "base64", "hex",
    "old", "new", "current", "raw", "plain", "v", "access", "data", "phrase",
];

/// Splits `dbPassword`, `DB_PASSWORD` and `db-password` into words in lower case.
fn split(key: &str) -> Vec<String> {
    let bytes = key.as_bytes();
    let mut words = vec![String::new()];
    for (index, &byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = index.checked_sub(1).map_or(b'_', |before| bytes[before]);
        let next_lower = bytes.get(index + 1).is_some_and(u8::is_ascii_lowercase);
        let humps = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && next_lower));
        if humps {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the kind of value that a key name indicates, and its words. Returns
/// `None` if it indicates no secret.
pub(super) fn expected_value(key: &str) -> Option<(ExpectedValue, Vec<String>)> {
    let words = split(key);
    let mut found = None;
    for (index, word) in words.iter().enumerate() {
        let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let before = index.checked_sub(1).map(|before| words[before].as_str());
        let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
        let named = |before: &str| OWNERS.contains(&before) || is_service(before);
        let key = (word == "key" && before.is_some_and(named)) || (word == "pat" && index > 0);
        if ends(PASSWORDS) || word == "pass" || word == "pw" {
            found = Some((ExpectedValue::Password, index));
        } else if (ends(KEYS) || word == "auth" || key)
            && before.is_none_or(|before| !HARMLESS.contains(&before))
        {
            // `password_token` is a token; `secret_password` is a password.
            found = Some((ExpectedValue::Key, index));
        }
    }
    let (mut expected, index) = found?;
    for word in &words[index + 1..] {
        let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        if ABOUT.contains(&word) {
            return None;
        }
        if !NEUTRAL.contains(&word) {
            expected = ExpectedValue::Unsure;
        }
    }
    Some((expected, words))
}

/// Services whose keys are recognised by a word in the name of the key, with
/// their rule.
pub(super) const SERVICES: &[(&[&str], &str)] = &[
    (&["heroku"], "heroku-api-key"),
    (&["snyk"], "snyk-token"),
    (&["codecov"], "codecov-token"),
    (&["railway"], "railway-token"),
    (&["twilio"], "twilio-auth-token"),
    (&["datadog", "dd"], "datadog-key"),
    (&["vercel"], "vercel-token"),
    (&["cloudflare", "cf"], "cloudflare-token"),
    (&["okta"], "okta-token"),
    (&["auth0"], "auth0-client-secret"),
    (&["algolia"], "algolia-api-key"),
    (&["fastly"], "fastly-token"),
    (&["bitbucket"], "bitbucket-token"),
    (&["discord"], "discord-bot-token"),
    (&["paypal"], "paypal-secret"),
    (&["braintree"], "braintree-token"),
    (&["newrelic"], "new-relic-key"),
    (&["wandb"], "wandb-api-key"),
    (&["cohere"], "cohere-api-key"),
    (&["mistral"], "mistral-api-key"),
    (&["deepseek"], "deepseek-api-key"),
    (&["asana"], "asana-token"),
    (&["dropbox"], "dropbox-token"),
    (&["mailgun"], "mailgun-api-key"),
    (&["mailchimp"], "mailchimp-api-key"),
    (&["postmark"], "postmark-token"),
    (&["pagerduty"], "pagerduty-token"),
    (&["devops", "azdo", "vsts"], "azure-devops-token"),
    (&["azure"], "azure-key"),
    (&["kaggle"], "kaggle-api-key"),
    (&["voyage", "voyageai"], "voyage-api-key"),
    (&["neon"], "neon-api-key"),
    (&["fcm", "firebase"], "firebase-server-key"),
    (&["telegram"], "telegram-bot-token"),
    (&["twitter"], "twitter-token"),
    (&["facebook"], "facebook-token"),
    (&["alibaba", "aliyun", "alicloud"], "alibaba-secret-key"),
];

/// Other services whose name before `key` marks the key as secret.
#[rustfmt::skip] // A list of words reads better in rows.
const VENDORS: &[&str] = &[
    "openai", "anthropic", "claude", "gemini", "google", "stripe", "github", "gitlab", "sendgrid",
    "supabase", "pinecone", "mapbox", "segment", "sentry", "huggingface", "groq", "replicate",
    "elevenlabs", "tavily", "serpapi", "resend", "twitch", "spotify", "shopify", "square",
    "plaid", "linear", "notion", "airtable", "figma", "grafana", "honeycomb", "rollbar",
    "bugsnag", "amplitude", "mixpanel", "binance", "coinbase", "kraken", "infura", "alchemy",
    "etherscan", "gcp", "aws", "ibm", "oci", "linode", "vultr", "hetzner", "digitalocean",
];

fn is_service(word: &str) -> bool {
    VENDORS.contains(&word) || SERVICES.iter().any(|(names, _)| names.contains(&word))
}
