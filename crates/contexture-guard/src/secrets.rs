//! Finds credentials in text, so that they can be masked before a prompt is rendered.
//!
//! The scan is one pass over the bytes, and another over the masked text where something was
//! found. Each window of three bytes, folded to lower case, is looked up in a table built at
//! compile time; the few windows that open a known shape (the prefix of a service's token, a key
//! name such as `password`, `://`, `-BEGIN`) are handed to the matcher of that shape. A matcher
//! reads a bounded number of bytes, or bytes that no other call reads again, so the whole is
//! linear on any input, and there is nothing to compile before the first byte is read.
//!
//! | File | Holds |
//! | --- | --- |
//! | `secrets/tokens.rs` | tokens that are known by their own shape |
//! | `secrets/blocks.rs` | private keys, URLs, headers |
//! | `secrets/base64.rs` | blocks of base64, and the text that they encode |
//! | `secrets/commands.rs` | passwords on command lines |
//! | `secrets/calls.rs` | arguments of functions and statements |
//! | `secrets/files.rs` | lines of credential files: pgpass, htpasswd, shadow, PuTTY, JWK |
//! | `secrets/context.rs` | sentences, tables, Kubernetes secrets, cookies, words of a wallet |
//! | `secrets/assignment.rs` | a telling key name followed by a value |
//! | `secrets/pieces.rs` | a value that is written in several pieces |
//! | `secrets/views.rs` | the text with escapes or base64 decoded, or without the prefixes of its lines |
//! | `secrets/prefix.rs` | what tools write before each line: numbers, names of files, times |
//! | `secrets/value.rs` | whether a value looks like a credential or like a placeholder |
//!
//! # What is masked
//!
//! | What | Examples | Rule |
//! | --- | --- | --- |
//! | Private keys | PEM, OpenSSH, PGP, PuTTY, also in JSON or in code | `private-key` |
//! | Base64 of a private key | `client-key-data` of a kubeconfig, `tls.key` of a Kubernetes secret | `encoded-private-key` |
//! | Base64 of a text with a secret | a whole `.env` or credential file | the rule of the secret |
//! | Private JSON web keys | `"d"` next to `"kty"` | `jwk-private-key` |
//! | age keys | `AGE-SECRET-KEY-1…` | `age-secret-key` |
//! | Passwords by key name | `DB_PASSWORD=…`, `"password": "…"`, `<password>…</password>` | `password-assignment` |
//! | Keys, secrets and tokens by key name | `api_key = "…"`, `client_secret: …`, `GITHUB_PAT=…` | `secret-assignment`, or the service's rule |
//! | Values on the line after their key | JSON, YAML, code | as on one line |
//! | Values in pieces | literals joined by `+`, `.`, `..`, `\` or a line end; `\` in shell and properties; `>` and `\|` in YAML | as in one piece |
//! | Passwords in URLs | `scheme://user:…@host` | `url-password` |
//! | Passwords in connection strings | `Server=…;Password=…;`, `user:…@tcp(host)/db` | `connection-password` |
//! | `.pgpass` | `host:port:database:user:…` | `pgpass-password` |
//! | `.netrc` | `machine HOST login USER password …` | `netrc-password` |
//! | htpasswd, shadow, basic-auth lists | `user:$apr1$…`, `user:$2y$…`, `user:$6$…`, `user:$y$…`, `user:{SHA}…` | `password-hash` |
//! | Passwords of commands | `curl -u`, `mysql -p`, `sshpass -p`, `redis-cli -a`, `snmpwalk -c` | `command-line-password` |
//! | Users of Redis | `user app on >…`, `ACL SETUSER app on >…` | `redis-password` |
//! | Communities of SNMP | `rocommunity …`, `snmp-server community …` | `snmp-community` |
//! | HTTP credentials | `Authorization: Bearer …`, `Basic …` | `authorization-header` |
//! | Arguments | `login("user", "…")`, `jwt.sign(…, "…")`, `IDENTIFIED BY '…'`, cells under `password` | `password-argument` |
//! | Cookies of sessions | `Cookie: sessionid=…` | `session-cookie` |
//! | Kubernetes secrets | base64 under `data:` | `kubernetes-secret` |
//! | Words of a wallet | `MNEMONIC="…"` | `wallet-mnemonic` |
//! | JSON web tokens | `eyJ….eyJ….…`, and the encrypted form | `json-web-token` |
//! | Clouds | AWS, Azure, Google, Alibaba, Tencent, Yandex, DigitalOcean, Cloudflare, Heroku, Fly, Vercel, Netlify, Render, Railway, OpenShift | `aws-access-key-id`, `azure-storage-key`, `vercel-token`, … |
//! | Databases | Neon, Supabase, PlanetScale, MongoDB Atlas, Databricks, Pinecone | `neon-password`, `neon-api-key`, … |
//! | Code and builds | GitHub, GitLab, Bitbucket, Azure DevOps, npm, PyPI, crates.io, RubyGems, NuGet, Docker, CircleCI, Buildkite, Sonar, Terraform, Vault, Pulumi, Artifactory, Octopus, Harness | `github-token`, `azure-devops-token`, … |
//! | Messages | Slack, Discord, Telegram, Teams, Firebase messaging, Twilio, SendGrid, Mailgun, Mailchimp, Brevo, Resend | `slack-token`, `telegram-bot-token`, `firebase-server-key`, … |
//! | Payments and shops | Stripe, Square, Shopify, Braintree, Plaid, EasyPost, Flutterwave, Duffel | `stripe-key`, … |
//! | Models | OpenAI, Anthropic, Hugging Face, Groq, Perplexity, Replicate, xAI, Voyage, Kaggle, Together, Tavily, LangSmith, ElevenLabs, NVIDIA | `openai-api-key`, `voyage-api-key`, `kaggle-api-key`, … |
//! | Other services | Dropbox, Notion, Linear, Airtable, Figma, Grafana, Sentry, New Relic, Dynatrace, Doppler, 1Password, HubSpot, PostHog, Postman, Mapbox, … | `dropbox-token`, … |
//!
//! Placeholders are left alone: variables, references to a secret manager, `changeme`, `xxxx`,
//! `your-key-here`, public keys, certificates, digests and identifiers.
//!
//! It does not ask any service whether a token is live, does not decode
//! archives, and does not find a password in prose without a key name.

mod assignment;
mod base64;
mod blocks;
mod calls;
mod commands;
mod context;
mod files;
mod pieces;
mod prefix;
mod tokens;
mod value;
mod views;

use std::ops::Range;

/// One credential found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The bytes of the value alone, without its key name, on character boundaries.
    pub range: Range<usize>,
    /// The stable kebab-case name of the rule that found it, such as `aws-access-key-id`.
    pub rule: &'static str,
}

/// The beginning of a mask. A text that was masked before is recognised by it.
const MASK: &str = "[secret masked";

/// Returns the credentials in `text`, sorted by position, without overlaps.
///
/// If two rules overlap, one entry covers both and has the name of the more
/// specific rule. Replacing each range with `[secret masked: <rule>]` gives a
/// text in which nothing more is found.
///
/// ```
/// use contexture_guard::find_secrets;
///
/// let text = "db: postgres://app:tr0ub4dor@db.internal/app";
/// let found = find_secrets(text);
/// assert_eq!(found.len(), 1);
/// assert_eq!(&text[found[0].range.clone()], "tr0ub4dor");
/// ```
pub fn find_secrets(text: &str) -> Vec<Secret> {
    settle(text, scan(text))
}

/// Returns the credentials in `text[part]`, with ranges that begin at the start of the part.
///
/// The whole text is scanned, so that a line of a private key is found although the part holds
/// neither its first line nor its last. A credential that begins before the part or ends after
/// it is cut to the part. The part has to begin and end on character boundaries.
///
/// ```
/// use contexture_guard::find_secrets_in;
///
/// let text = "password:\n  q8Zr2LxV9mTn\n";
/// let line = 10..text.len() - 1;
/// assert_eq!(find_secrets_in(text, line)[0].range, 2..14);
/// ```
pub fn find_secrets_in(text: &str, part: Range<usize>) -> Vec<Secret> {
    let inside = find_secrets(text).into_iter().filter_map(|secret| {
        let start = secret.range.start.max(part.start);
        let end = secret.range.end.min(part.end);
        (start < end).then(|| Secret {
            range: start - part.start..end - part.start,
            rule: secret.rule,
        })
    });
    let mut found: Vec<Secret> = inside.collect();
    let text = &text[part];
    found.extend(scan(text));
    settle(text, merge(found))
}

fn settle(text: &str, mut found: Vec<Secret>) -> Vec<Secret> {
    // A mask may be shorter than the secret, or end a word that continued
    // before, and so let another rule match. The masked text is therefore
    // scanned again until it is clean; texts without secrets are scanned once.
    for _ in 0..ROUNDS {
        if found.is_empty() {
            break;
        }
        let masked = Masked::new(text, &found);
        let more = scan(&masked.text);
        if more.is_empty() {
            break;
        }
        found.extend(more.into_iter().map(|secret| masked.original(secret)));
        found = merge(found);
    }
    found
}

/// Returns `text` with the credentials in `found` masked. They must be sorted
/// and must not overlap.
///
/// A mask has as many lines as the secret.
pub fn mask(text: &str, found: &[Secret]) -> String {
    Masked::new(text, found).text
}

/// The maximum number of times that a masked text is scanned again. Two rounds
/// are rare; the limit guards against texts made to need many.
const ROUNDS: usize = 16;

/// A text with its secrets masked, and where its parts come from.
struct Masked {
    text: String,
    /// For each mask, its range in the masked text and the range of the secret
    /// in the original.
    masks: Vec<(Range<usize>, Range<usize>)>,
}

impl Masked {
    fn new(text: &str, found: &[Secret]) -> Masked {
        let mut masked = Masked {
            text: String::with_capacity(text.len()),
            masks: Vec::with_capacity(found.len()),
        };
        let mut at = 0;
        for secret in found {
            masked.text.push_str(&text[at..secret.range.start]);
            let start = masked.text.len();
            masked.text.push_str(MASK);
            masked.text.push_str(": ");
            masked.text.push_str(secret.rule);
            masked.text.push(']');
            // A mask has as many lines as the secret.
            let hidden = &text.as_bytes()[secret.range.clone()];
            let lines = memchr::memchr_iter(b'\n', hidden).count();
            masked.text.extend(std::iter::repeat_n('\n', lines));
            masked
                .masks
                .push((start..masked.text.len(), secret.range.clone()));
            at = secret.range.end;
        }
        masked.text.push_str(&text[at..]);
        masked
    }

    /// Returns `secret` at its place in the original text; a mask it touches is covered whole.
    fn original(&self, secret: Secret) -> Secret {
        let place = |at: usize, is_end: bool| {
            let before = self.masks.partition_point(|(mask, _)| mask.start <= at);
            match before.checked_sub(1).map(|index| &self.masks[index]) {
                None => at,
                Some((mask, hidden)) if at >= mask.end => at - mask.end + hidden.end,
                Some((mask, hidden)) if is_end && at > mask.start => hidden.end,
                Some((_, hidden)) => hidden.start,
            }
        };
        Secret {
            range: place(secret.range.start, false)..place(secret.range.end, true),
            rule: secret.rule,
        }
    }
}

/// The maximum number of views of views: JSON in JSON, in a log with times.
const DEPTH: usize = 3;

/// Reads `text`, and the views of it in which more can be found.
fn scan(text: &str) -> Vec<Secret> {
    merge(scan_views(text, DEPTH))
}

fn scan_views(text: &str, depth: usize) -> Vec<Secret> {
    let (mut found, crossings) = scan_once(text);
    if depth == 0 {
        return found;
    }
    let mut seen = |view: &views::View| {
        found.extend(
            scan_views(&view.text, depth - 1)
                .into_iter()
                .map(|secret| Secret {
                    range: view.original(&secret.range),
                    rule: secret.rule,
                }),
        );
    };
    views::literals(text, &mut seen);
    views::encoded(text, &mut seen);
    if let Some(view) = views::uncoloured(text) {
        seen(&view);
    }
    views::unprefixed(text, crossings, &mut seen);
    found
}

/// Reads `text` once. Returns the secrets, and where a value may be on another line than its key.
fn scan_once(text: &str) -> (Vec<Secret>, Vec<Crossing>) {
    let bytes = text.as_bytes();
    let mut scan = Scan {
        text,
        bytes,
        keys: assignment::Keys::default(),
        blocks_done: 0,
        context_done: context::Done::default(),
        runs: tokens::Runs::default(),
        found: Vec::new(),
    };
    let mut at = 0;
    // Eight bytes hold six windows; one branch covers them all, and is rarely taken.
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let mut any = 0;
        for step in 0..6 {
            any |= SEEN[bucket(window(word >> (8 * step)))];
        }
        if any != 0 {
            for step in 0..6 {
                scan.window(window(word >> (8 * step)), at + step);
            }
        }
        at += 6;
    }
    while let Some(&[a, b, c]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<3>()) {
        scan.window(fold([a, b, c]), at);
        at += 1;
    }
    (scan.found, scan.keys.crossings)
}

/// A place where a secret may continue on other lines: after a key without a value, or at the
/// first or last line of a private key.
struct Crossing {
    at: usize,
    /// The number of lines before and after the place that may belong to the secret.
    lines: usize,
}

impl Crossing {
    fn key(at: usize) -> Crossing {
        Crossing { at, lines: 8 }
    }

    fn block(at: usize) -> Crossing {
        Crossing { at, lines: 400 }
    }
}

/// The matcher to run where a window is found.
#[derive(Clone, Copy)]
enum Kind {
    /// Compare with this row of [`tokens::TOKENS`].
    Token(usize),
    /// A word that marks the name of a secret.
    Key,
    Authorization,
    Bearer,
    Basic,
    Url,
    Pem,
    Flag,
    /// A flag in a list: `["mysqladmin", "-p…"]`.
    QuotedFlag,
    Identified,
    AmazonSignature,
    Cookie,
    Mnemonic,
    RandomPassword,
    /// A function whose argument is a secret.
    Call,
    Telegram,
    Mailchimp,
    Terraform,
    AzureClientSecret,
    SasSignature,
    DiscordCall,
    AccessToken,
    EncodedKey,
    PuttyKey,
    PgPass,
    PasswordHash,
    GoDsn,
    /// A blank before a word of an access rule of Redis.
    RedisUser,
    SnmpCommunity,
    AzureDevOps,
    FirebaseKey,
    KaggleFile,
    JwkKey,
}

/// Windows that are not part of the token table: three bytes in lower case,
/// their distance from the start of the match, and the matcher.
///
/// Each window is the rarest one of its word in ordinary source code: `ecr`
/// rather than `sec`.
const WINDOWS: &[(&[u8; 3], usize, Kind)] = &[
    (b"ken", 2, Kind::Key), // token
    (b"ecr", 1, Kind::Key), // secret
    (b"pas", 0, Kind::Key), // password, passwd, passphrase, pass
    (b"pwd", 0, Kind::Key), // pwd
    (b"uth", 1, Kind::Key), // auth
    (b"ede", 2, Kind::Key), // credential
    (b"key", 0, Kind::Key), // api key, access key, private key
    (b"psk", 0, Kind::Key), // psk
    (b"pw=", 0, Kind::Key), // pw, bindpw
    (b"pw:", 0, Kind::Key),
    (b"pw ", 0, Kind::Key),
    (b"pw\"", 0, Kind::Key),
    (b"pw'", 0, Kind::Key),
    (b"nnw", 2, Kind::Key),           // kennwort
    (b"riz", 5, Kind::Authorization), // authorization
    (b"rer", 3, Kind::Bearer),        // bearer
    (b"ic ", 3, Kind::Basic),         // basic
    (b"://", 0, Kind::Url),
    (b"-be", 4, Kind::Pem),
    (b" -u", 0, Kind::Flag),
    (b"--u", 0, Kind::Flag),
    (b" -p", 0, Kind::Flag),
    (b"y-u", 6, Kind::Flag), // --proxy-user
    (b" -a", 0, Kind::Flag),
    (b" -w", 0, Kind::Flag),
    (b" -c", 0, Kind::Flag),
    (b"\"-p", 1, Kind::QuotedFlag),
    (b"'-p", 1, Kind::QuotedFlag),
    (b"ied", 7, Kind::Identified),      // identified by
    (b"z-s", 4, Kind::AmazonSignature), // X-Amz-Signature
    (b"\"k\"", 0, Kind::JwkKey),
    (b"oki", 2, Kind::Cookie), // cookie
    (b"mne", 0, Kind::Mnemonic),
    (b"m_p", 5, Kind::RandomPassword), // random_password
    (b"pdo", 0, Kind::Call),
    (b"qli", 3, Kind::Call), // mysqli
    (b"r.g", 0, Kind::Call), // DriverManager.getConnection
    (b"i->", 2, Kind::Call), // DBI->connect
    (b"jwt", 0, Kind::Call),
    (b"o-s", 8, Kind::Call), // ConvertTo-SecureString
    (b"t(b", 5, Kind::Call), // Fernet(b"…")
    (b"c.n", 3, Kind::Call), // hmac.new
    (b"fep", 4, Kind::Call), // unsafePlainText
    (b"rkc", 5, Kind::Call), // NetworkCredential
    (b":aa", 0, Kind::Telegram),
    (b"-us", 0, Kind::Mailchimp),
    (b"sv1", 5, Kind::Terraform), // .atlasv1.
    (b"0q~", 0, Kind::AzureClientSecret),
    (b"1q~", 0, Kind::AzureClientSecret),
    (b"2q~", 0, Kind::AzureClientSecret),
    (b"3q~", 0, Kind::AzureClientSecret),
    (b"4q~", 0, Kind::AzureClientSecret),
    (b"5q~", 0, Kind::AzureClientSecret),
    (b"6q~", 0, Kind::AzureClientSecret),
    (b"7q~", 0, Kind::AzureClientSecret),
    (b"8q~", 0, Kind::AzureClientSecret),
    (b"9q~", 0, Kind::AzureClientSecret),
    (b"ig=", 1, Kind::SasSignature), // sig=
    (b"in(", 3, Kind::DiscordCall),  // login(
    (b"un(", 1, Kind::DiscordCall),  // run(
    (b"pat", 0, Kind::AccessToken),  // GITHUB_PAT
    (b"s0t", 1, Kind::EncodedKey),   // LS0tLS1CRUdJTi, the base64 of -----BEGIN
    (b"e-l", 6, Kind::PuttyKey),     // Private-Lines:
    (b":*:", 0, Kind::PgPass),
    (b":54", 0, Kind::PgPass),
    (b":64", 0, Kind::PgPass),
    (b":25", 0, Kind::PgPass),
    (b":26", 0, Kind::PgPass),
    (b":$1", 0, Kind::PasswordHash),
    (b":$2", 0, Kind::PasswordHash),
    (b":$5", 0, Kind::PasswordHash),
    (b":$6", 0, Kind::PasswordHash),
    (b":$7", 0, Kind::PasswordHash),
    (b":$y", 0, Kind::PasswordHash),
    (b":$a", 0, Kind::PasswordHash),
    (b":$$", 0, Kind::PasswordHash),
    (b":{s", 0, Kind::PasswordHash),
    (b"@tc", 0, Kind::GoDsn),
    (b"@un", 0, Kind::GoDsn),
    (b"@cl", 0, Kind::GoDsn),
    (b"n >", 2, Kind::RedisUser),     // on >
    (b"* >", 2, Kind::RedisUser),     // ~* >
    (b"mmu", 2, Kind::SnmpCommunity), // community
    (b"zdo", 1, Kind::AzureDevOps),   // AZDO
    (b"pa9", 2, Kind::FirebaseKey),   // :APA91b
    (b"\"ke", 0, Kind::KaggleFile),   // "key"
    (b"\"d\"", 0, Kind::JwkKey),
];

/// The table has two to this many bytes: few enough to stay in the nearest cache, many enough
/// that only one window in two hundred shares its bucket with one we look for.
const BITS: u32 = 15;
const COUNT: usize = WINDOWS.len() + tokens::TOKENS.len();

struct Anchor {
    window: u32,
    back: usize,
    kind: Kind,
    /// The next anchor in the same bucket, plus one; zero ends the chain.
    next: u16,
}

const fn fold(bytes: [u8; 3]) -> u32 {
    (bytes[0] as u32 | (bytes[1] as u32) << 8 | (bytes[2] as u32) << 16) | 0x0020_2020
}

fn window(word: u64) -> u32 {
    (word as u32 & 0x00ff_ffff) | 0x0020_2020
}

const fn bucket(window: u32) -> usize {
    (window.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}

const fn build() -> ([u8; 1 << BITS], [u16; 1 << BITS], [Anchor; COUNT]) {
    const EMPTY: Anchor = Anchor {
        window: 0,
        back: 0,
        kind: Kind::Key,
        next: 0,
    };
    let mut seen = [0; 1 << BITS];
    let mut heads = [0; 1 << BITS];
    let mut anchors = [EMPTY; COUNT];
    let mut index = 0;
    while index < COUNT {
        let (bytes, back, kind) = if index < WINDOWS.len() {
            let (bytes, back, kind) = WINDOWS[index];
            (*bytes, back, kind)
        } else {
            let row = index - WINDOWS.len();
            let (bytes, back) = tokens::TOKENS[row].window();
            (bytes, back, Kind::Token(row))
        };
        let window = fold(bytes);
        let slot = bucket(window);
        anchors[index] = Anchor {
            window,
            back,
            kind,
            next: heads[slot],
        };
        heads[slot] = index as u16 + 1;
        seen[slot] = 1;
        index += 1;
    }
    (seen, heads, anchors)
}

/// Whether a bucket holds anchors. Every window is looked up here, so it has to stay small.
static SEEN: [u8; 1 << BITS] = build().0;
/// The first anchor of each bucket, plus one; read only for windows that were seen.
static HEADS: [u16; 1 << BITS] = build().1;
static ANCHORS: [Anchor; COUNT] = build().2;

/// The state of one pass.
struct Scan<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// The key names that have been looked at.
    keys: assignment::Keys,
    /// Private keys that begin before this have been looked at.
    blocks_done: usize,
    /// Documents and tables that have been looked at.
    context_done: context::Done,
    /// Long runs that have been looked at.
    runs: tokens::Runs,
    found: Vec<Secret>,
}

impl Scan<'_> {
    #[inline]
    fn window(&mut self, window: u32, at: usize) {
        let mut next = HEADS[bucket(window)];
        while next != 0 {
            let anchor = &ANCHORS[usize::from(next) - 1];
            next = anchor.next;
            if anchor.window == window && at >= anchor.back {
                self.matched(anchor.kind, at - anchor.back);
            }
        }
    }

    fn matched(&mut self, kind: Kind, at: usize) {
        let (text, bytes) = (self.text, self.bytes);
        let secret = match kind {
            Kind::Token(row) => tokens::TOKENS[row]
                .find(bytes, at, &mut self.runs)
                .map(|secret| pieces::extended(bytes, secret)),
            Kind::Key => self.key(at),
            Kind::Authorization => blocks::authorization(text, at),
            Kind::Bearer => blocks::bearer(text, at),
            Kind::Basic => blocks::basic(bytes, at),
            Kind::Url => blocks::url(text, at),
            Kind::Pem => {
                self.keys.crossings.push(Crossing::block(at));
                blocks::private_key(bytes, at, &mut self.blocks_done)
            }
            Kind::Flag => commands::flag(text, at),
            Kind::QuotedFlag => commands::flag(text, at + 2),
            Kind::Identified => calls::identified(text, at),
            Kind::AmazonSignature => tokens::amazon_signature(bytes, at),
            Kind::Call => calls::argument(text, at),
            Kind::Cookie => {
                self.found.extend(context::cookie(text, at));
                None
            }
            Kind::Mnemonic => context::mnemonic(text, at),
            Kind::RandomPassword => context::random_password(text, at),
            Kind::Telegram => tokens::telegram(bytes, at),
            Kind::Mailchimp => tokens::mailchimp(bytes, at),
            Kind::Terraform => tokens::terraform(bytes, at),
            Kind::AzureClientSecret => tokens::azure_client_secret(bytes, at),
            Kind::SasSignature => tokens::sas_signature(bytes, at),
            Kind::DiscordCall => {
                tokens::discord_call(bytes, at).or_else(|| calls::argument(text, at))
            }
            // `_path` and `pattern` are frequent; they end here.
            Kind::AccessToken => match bytes.get(at + 3) {
                Some(next) if !next.is_ascii_alphabetic() && bytes[..at].ends_with(b"_") => {
                    assignment::find(text, at, &mut self.keys)
                }
                _ => None,
            },
            Kind::EncodedKey => blocks::encoded_key(bytes, at, &mut self.blocks_done),
            Kind::PuttyKey => {
                self.keys.crossings.push(Crossing::block(at));
                files::putty_key(bytes, at)
            }
            Kind::PgPass => files::pgpass(text, at),
            Kind::PasswordHash => files::password_hash(bytes, at),
            Kind::GoDsn => files::go_dsn(text, at),
            Kind::RedisUser => files::redis_user(text, at),
            Kind::SnmpCommunity => files::snmp_community(text, at),
            Kind::AzureDevOps => tokens::azure_devops(bytes, at),
            Kind::FirebaseKey => tokens::firebase_key(bytes, at),
            Kind::KaggleFile => files::kaggle(bytes, at),
            Kind::JwkKey => files::jwk(bytes, at),
        };
        self.found.extend(secret);
    }

    /// Reads the key name around `at`.
    fn key(&mut self, at: usize) -> Option<Secret> {
        let bytes = self.bytes;
        // The last line of a private key, whose first line may be missing.
        if bytes[..at].ends_with(b"PRIVATE ") && bytes[at..].starts_with(b"KEY") {
            self.keys.crossings.push(Crossing::block(at));
            if at >= self.blocks_done {
                self.found.extend(blocks::private_key_tail(bytes, at));
            }
        }
        let word = &bytes[at..bytes.len().min(at + 6)];
        if word.len() > 3 && word[..4].eq_ignore_ascii_case(b"pass")
            || word.eq_ignore_ascii_case(b"secret")
        {
            self.found
                .extend(context::around(self.text, at, &mut self.context_done));
        }
        if bytes[at] | 0x20 == b'a'
            && let Some(secret) = calls::basic_auth(self.text, at)
        {
            return Some(secret);
        }
        assignment::find(self.text, at, &mut self.keys)
    }
}

/// Sorts by position and joins overlapping secrets under the name of the more
/// specific rule.
fn merge(mut found: Vec<Secret>) -> Vec<Secret> {
    found.sort_by(|a, b| {
        (a.range.start, a.range.end, a.rule).cmp(&(b.range.start, b.range.end, b.rule))
    });
    let mut merged: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match merged.last_mut() {
            Some(last) if secret.range.start < last.range.end => {
                if rank(secret.rule) > rank(last.rule) {
                    last.rule = secret.rule;
                }
                last.range.end = last.range.end.max(secret.range.end);
            }
            _ => merged.push(secret),
        }
    }
    merged
}

/// Returns how specific a rule is; higher is more specific.
fn rank(rule: &str) -> u8 {
    match rule {
        "secret-assignment" | "password-assignment" => 0,
        "authorization-header"
        | "command-line-password"
        | "password-argument"
        | "session-cookie" => 1,
        "connection-password" | "url-password" | "json-web-token" => 2,
        _ => 3,
    }
}

/// Returns true if a token may begin at `at`: the byte before is not part of a
/// word, or is the letter of an escape such as `\n`.
fn starts_word(bytes: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else {
        return true;
    };
    let byte = bytes[before];
    if !byte.is_ascii_alphanumeric() && byte != b'_' {
        return true;
    }
    let escaped = before > 0 && bytes[before - 1] == b'\\';
    // `%3D` and similar sequences encode punctuation in a URL.
    let percent = before > 1 && bytes[before - 2] == b'%' && byte.is_ascii_hexdigit();
    (escaped && matches!(byte, b'n' | b'r' | b't')) || percent
}

/// Returns true if no word continues at `at`.
fn ends_word(bytes: &[u8], at: usize) -> bool {
    bytes
        .get(at)
        .is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

#[cfg(test)]
mod tests;
