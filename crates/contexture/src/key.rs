//! API keys, which give access to a store over a network.
//!
//! A key is a text such as `ctx_7hK2mQx9PzR4_…`: an id, by which it is found,
//! and a secret. Only a hash of the secret is stored, so a reader of the store
//! cannot use the keys in it. The key is shown once, when it is created.
//!
//! ```
//! use contexture::key;
//! use contexture::store::KeyScope;
//!
//! let now = "2026-02-02T10:00:00Z".parse()?;
//! let (made, record) = key::generate("harbour", KeyScope::Tenant, None, now)?;
//! // Store the record and hand out the text. When a caller presents it:
//! let (id, secret) = key::parse(made.as_str()).ok_or("no key")?;
//! assert_eq!(id, record.id);
//! assert!(key::matches(&record, secret));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A hash without salt or stretching is enough, because the secrets are random:
//! there are too many of them to try.

use std::fmt;

use contexture_store::{KeyRecord, KeyScope};
use jiff::Timestamp;

use contexture_engine::Error;

/// The prefix of every key, by which leaked keys can be recognised.
const PREFIX: &str = "ctx_";

/// Characters of an id: enough that two are never the same.
const ID_CHARS: usize = 12;

/// Characters of a secret: 256 bits.
const SECRET_CHARS: usize = 43;

/// The maximum length of a secret that is checked. A caller may send anything.
const MAX_SECRET_CHARS: usize = 128;

/// The word for the usual tenant, whose name is `""`.
const DEFAULT: &str = "default";

/// The longest name of a tenant.
const MAX_TENANT_CHARS: usize = 63;

/// The maximum length of a key's name, in bytes.
const MAX_NAME_BYTES: usize = contexture_store::MAX_KEY_NAME_BYTES;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key with its secret. It is shown once, to its creator, and must not be
/// logged: its debug output omits the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Returns the text of the key, secret and all.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = parse(&self.0).map_or("", |(id, _)| id);
        write!(f, "Key({PREFIX}{id}_…)")
    }
}

/// Returns a new key and its record for a store.
///
/// `tenant` is a name, or `""` or `default` for the default tenant. A key for
/// metrics or for administration must use the default tenant.
pub fn generate(
    tenant: &str,
    scope: KeyScope,
    name: Option<&str>,
    now: Timestamp,
) -> Result<(Key, KeyRecord), Error> {
    if !tenant.is_empty() {
        check_tenant(tenant)?;
    }
    let tenant = tenant_of(tenant);
    if scope != KeyScope::Tenant && !tenant.is_empty() {
        let article = match scope {
            KeyScope::Admin => "an",
            _ => "a",
        };
        let scope = scope.name();
        return Err(Error::input(format!(
            "tenant: {article} {scope} key grants no access to a tenant, so it cannot belong to \
             `{tenant}`"
        ))
        .advise("create two keys"));
    }
    let name = name.map(str::trim).filter(|name| !name.is_empty());
    if let Some(length) = name.map(str::len).filter(|length| *length > MAX_NAME_BYTES) {
        return Err(Error::input(format!(
            "name: has {length} bytes; the limit is {MAX_NAME_BYTES}"
        )));
    }
    let id = random(ID_CHARS)?;
    let secret = random(SECRET_CHARS)?;
    let record = KeyRecord {
        hash: *blake3::hash(secret.as_bytes()).as_bytes(),
        tenant: tenant.to_owned(),
        scope,
        name: name.map(str::to_owned),
        created_at: now,
        revoked_at: None,
        id,
    };
    let key = Key(format!("{PREFIX}{}_{secret}", record.id));
    Ok((key, record))
}

/// Returns the id and the secret of a key; `None` for a text that is none.
pub fn parse(text: &str) -> Option<(&str, &str)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let is_made_of = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let fits = id.len() == ID_CHARS && (SECRET_CHARS..=MAX_SECRET_CHARS).contains(&secret.len());
    (fits && is_made_of(id) && is_made_of(secret)).then_some((id, secret))
}

/// Returns true if `secret` is the secret of the key. The time of the
/// comparison reveals nothing about the secret.
///
/// The record also says whether the key was revoked, and its scope; check these
/// only after the secret.
pub fn matches(record: &KeyRecord, secret: &str) -> bool {
    // This comparison takes the same time for all values.
    blake3::hash(secret.as_bytes()) == blake3::Hash::from_bytes(record.hash)
}

/// Fails if the name of a tenant is invalid.
pub fn check_tenant(name: &str) -> Result<(), Error> {
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let goes_on = name.bytes().all(|byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-')
    });
    if is_device(name) {
        return Err(Error::input(format!(
            "tenant: `{name}` is not a valid tenant name: Windows reserves it; choose another"
        )));
    }
    if begins && goes_on && name.len() <= MAX_TENANT_CHARS {
        return Ok(());
    }
    let shown = &name[..name.floor_char_boundary(MAX_TENANT_CHARS)];
    let more = if shown.len() < name.len() { "…" } else { "" };
    Err(Error::input(format!(
        "tenant: `{shown}{more}` is not a valid tenant name; use 1 to {MAX_TENANT_CHARS} of a-z, \
         0-9, _ and -, beginning with a letter or digit"
    )))
}

/// Returns true for the names of devices on Windows, which no directory or file
/// can have.
fn is_device(name: &str) -> bool {
    let numbered = |prefix: &str| {
        let number = name.strip_prefix(prefix);
        number.is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9']))
    };
    matches!(name, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

/// Returns the tenant with a name: `default` is `""`.
pub fn tenant_of(name: &str) -> &str {
    match name {
        DEFAULT => "",
        name => name,
    }
}

/// Returns the name of a tenant: `""` is `default`.
pub fn tenant_name(tenant: &str) -> &str {
    match tenant {
        "" => DEFAULT,
        tenant => tenant,
    }
}

/// Returns random letters and digits from the operating system.
fn random(chars: usize) -> Result<String, Error> {
    // Bytes from here on would make some characters likelier than others.
    const FAIR: u8 = 248;
    let mut text = String::with_capacity(chars);
    let mut bytes = [0; 64];
    while text.len() < chars {
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::failure(
                format!("cannot get random numbers from the system to create a key: {error}"),
                error.to_string(),
            )
        })?;
        let fair = bytes.iter().filter(|byte| **byte < FAIR);
        let drawn = fair.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
        text.extend(drawn.take(chars - text.len()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use contexture_core::guard::find_secrets;

    use super::*;

    fn made(tenant: &str) -> (Key, KeyRecord) {
        generate(tenant, KeyScope::Tenant, None, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_key_opens_its_record_and_no_other() {
        let (key, record) = made("harbour");
        let (id, secret) = parse(key.as_str()).unwrap();
        assert_eq!((id.len(), secret.len()), (12, 43));
        assert_eq!(record.id, id);
        assert_eq!(record.tenant, "harbour");
        assert!(matches(&record, secret));
        let (_, other) = made("harbour");
        assert!(!matches(&other, secret));
        assert!(!matches(&record, ""));
        assert!(!matches(&record, &secret[1..]));
        assert!(!matches(&record, &secret.to_uppercase()));
    }

    #[test]
    fn no_two_keys_are_alike() {
        let mut ids = BTreeSet::new();
        let mut characters = BTreeSet::new();
        for _ in 0..200 {
            let (key, record) = made("");
            assert!(ids.insert(record.id));
            characters.extend(parse(key.as_str()).unwrap().1.bytes());
        }
        assert_eq!(characters.len(), 62, "every letter and digit is drawn");
    }

    #[test]
    fn the_secret_is_shown_by_asking_for_it_only() {
        let (key, record) = made("");
        let secret = parse(key.as_str()).unwrap().1;
        let shown = format!("{key:?} {record:?}");
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains(&record.id), "{shown}");
    }

    #[test]
    fn text_that_is_not_a_key_is_not_parsed_as_one() {
        let (key, _) = made("");
        let key = key.as_str();
        let secret = parse(key).unwrap().1;
        for wrong in [
            "",
            "ctx_",
            "ctx__",
            secret,
            &key[1..],
            &key[..key.len() - 1],
            &key.to_uppercase(),
            &key.replacen('_', "-", 1),
            &format!(" {key}"),
            &format!("{key}\n"),
            &format!("{key}_x"),
            &format!("{key}é"),
            &format!("{key}{}", "x".repeat(1000)),
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_in_content_is_masked() {
        for _ in 0..50 {
            let (key, _) = made("");
            let text = format!("I start it with {} as always.", key.as_str());
            let found = find_secrets(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(&text[found[0].range.clone()], key.as_str());
            assert_eq!(found[0].rule, "contexture-key");
        }
    }

    #[test]
    fn tenants_have_plain_names() {
        for name in ["a", "0", "harbour", "default", "a_b-c", &"x".repeat(63)] {
            check_tenant(name).unwrap();
        }
        for name in [
            "",
            "-a",
            "_a",
            "A",
            "a b",
            "a.b",
            "a/b",
            "é",
            "a\n",
            "..",
            "CON",
            "con",
            "lpt1",
            "🦀",
            &"x".repeat(64),
            &"x".repeat(300),
        ] {
            let refused = check_tenant(name).unwrap_err();
            assert!(refused.is_input());
            assert!(refused.to_string().starts_with("tenant: `"), "{refused}");
        }
        assert_eq!(tenant_of("default"), "");
        assert_eq!(tenant_of("harbour"), "harbour");
        assert_eq!(tenant_name(""), "default");
        assert_eq!(tenant_name("harbour"), "harbour");
        assert_eq!(made("default").1.tenant, "");
        assert_eq!(made("").1.tenant, "");
    }

    #[test]
    fn invalid_input_is_rejected() {
        let now = Timestamp::UNIX_EPOCH;
        for (tenant, scope, name) in [
            ("No", KeyScope::Tenant, None),
            ("harbour", KeyScope::Metrics, None),
            ("harbour", KeyScope::Admin, None),
            ("", KeyScope::Tenant, Some("x".repeat(201))),
        ] {
            let refused = generate(tenant, scope, name.as_deref(), now).unwrap_err();
            assert!(refused.is_input(), "{refused}");
        }
        let (_, record) = generate("", KeyScope::Metrics, Some("  "), now).unwrap();
        assert_eq!(record.name, None);
    }
}
