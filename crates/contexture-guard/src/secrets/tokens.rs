//! Tokens that are known by their own shape: a prefix, then runs of a few classes of bytes.

use super::{Secret, ends_word, starts_word, value};

const DIGIT: u16 = 1;
const LOWER: u16 = 2;
const UPPER: u16 = 4;
const UNDERSCORE: u16 = 8;
const DASH: u16 = 16;
const BASE64: u16 = 32;
const EQUALS: u16 = 64;
const DOT: u16 = 128;
const HEX: u16 = 256;
const AT: u16 = 512;
const COMMA: u16 = 1024;
const PERCENT: u16 = 2048;
const TILDE: u16 = 4096;

const ALNUM: u16 = DIGIT | LOWER | UPPER;
const WORD: u16 = ALNUM | UNDERSCORE | DASH;

static CLASS: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        table[index] = match byte {
            b'0'..=b'9' => DIGIT | HEX,
            b'a'..=b'f' => LOWER | HEX,
            b'g'..=b'z' => LOWER,
            b'A'..=b'F' => UPPER | HEX,
            b'G'..=b'Z' => UPPER,
            b'_' => UNDERSCORE,
            b'-' => DASH,
            b'+' | b'/' => BASE64,
            b'=' => EQUALS,
            b'.' => DOT,
            b'@' => AT,
            b',' => COMMA,
            b'%' => PERCENT,
            b'~' => TILDE,
            _ => 0,
        };
        index += 1;
    }
    table
};

fn is(byte: u8, class: u16) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

/// Returns the end of the run of `class` that begins at `at`, `max` bytes long at most.
fn run(bytes: &[u8], at: usize, class: u16, max: usize) -> usize {
    let mut end = at;
    while end - at < max && bytes.get(end).is_some_and(|byte| is(*byte, class)) {
        end += 1;
    }
    end
}

/// Runs of at least this limit are remembered.
const LONG_RUN: usize = 512;

/// The long runs looked at last, by class: a text that is one run, with a prefix
/// every few bytes, is read once and not once for each prefix.
#[derive(Default)]
pub(super) struct Runs {
    known: Vec<(u16, std::ops::Range<usize>)>,
}

impl Runs {
    /// Does what [`run`] does.
    fn end(&mut self, bytes: &[u8], at: usize, class: u16, max: usize) -> usize {
        if max < LONG_RUN {
            return run(bytes, at, class, max);
        }
        let known = self.known.iter().position(|(known, _)| *known == class);
        let known = known.unwrap_or_else(|| {
            self.known.push((class, 0..0));
            self.known.len() - 1
        });
        let range = &mut self.known[known].1;
        if !range.contains(&at) {
            *range = at..run(bytes, at, class, usize::MAX);
        }
        range.end.min(at + max)
    }
}

/// Returns the start of the run of `class` that ends before `end`, `max` bytes long at most.
fn run_back(bytes: &[u8], end: usize, class: u16, max: usize) -> usize {
    let mut start = end;
    while start > 0 && end - start < max && is(bytes[start - 1], class) {
        start -= 1;
    }
    start
}

enum Part {
    /// A run of bytes of a class, as long as possible, with a minimum and a
    /// maximum length.
    Run(u16, usize, usize),
    /// Exactly these bytes.
    Text(&'static str),
}
use Part::{Run, Text};

/// How reliably a prefix identifies a secret.
#[derive(PartialEq)]
enum Prefix {
    /// Only secrets begin like this.
    Sure,
    /// A few letters that words begin with, too: the rest must have digits and
    /// letters.
    Weak,
    /// A prefix that names begin with, too: the rest must be random.
    Random,
    /// An address that stays readable; the secret follows it.
    Shown,
}

pub(super) struct Token {
    rule: &'static str,
    prefix: &'static str,
    kind: Prefix,
    parts: &'static [Part],
}

impl Token {
    /// The three bytes that lead to this row, and how far into the prefix they are.
    ///
    /// A prefix of two letters takes the byte after it too, and has a row for each.
    pub(super) const fn window(&self) -> ([u8; 3], usize) {
        let prefix = self.prefix.as_bytes();
        let mut at = 0;
        let mut best = i32::MIN;
        let mut next = 0;
        while next + 3 <= prefix.len() {
            let score =
                rarity(prefix[next], prefix[next + 1]) + rarity(prefix[next + 1], prefix[next + 2]);
            if score > best {
                (at, best) = (next, score);
            }
            next += 1;
        }
        let mut row = 0;
        while row < RAREST.len() {
            if same(RAREST[row].0.as_bytes(), prefix) {
                at = RAREST[row].1;
            }
            row += 1;
        }
        ([prefix[at], prefix[at + 1], prefix[at + 2]], at)
    }

    pub(super) fn find(&self, bytes: &[u8], at: usize, runs: &mut Runs) -> Option<Secret> {
        if !bytes.get(at..)?.starts_with(self.prefix.as_bytes()) || !starts_word(bytes, at) {
            return None;
        }
        // In the middle of base64 a prefix is a coincidence; 40 bytes are more than any word.
        if at - run_back(bytes, at, ALNUM | BASE64, 40) == 40 {
            return None;
        }
        let body = at + self.prefix.len();
        let mut end = body;
        let mut last = 0;
        for part in self.parts {
            match *part {
                Run(class, min, max) => {
                    let stop = runs.end(bytes, end, class, max);
                    if stop - end < min {
                        return None;
                    }
                    (end, last) = (stop, class);
                }
                Text(text) => {
                    if !bytes.get(end..)?.starts_with(text.as_bytes()) {
                        return None;
                    }
                    end += text.len();
                }
            }
        }
        // A full stop after a token ends a sentence.
        while end > body && bytes[end - 1] == b'.' {
            end -= 1;
        }
        // A run cut short by its limit is something longer, so something else.
        if !ends_word(bytes, end)
            || bytes
                .get(end)
                .is_some_and(|byte| is(*byte, last & !(DOT | DASH | EQUALS)))
        {
            return None;
        }
        let tail = &bytes[body..end];
        let doubtful = match self.kind {
            Prefix::Sure | Prefix::Shown => false,
            Prefix::Weak => !value::is_mixed(tail),
            Prefix::Random => !value::is_issued(tail),
        };
        if value::is_filler(tail) || doubtful {
            return None;
        }
        let start = if self.kind == Prefix::Shown { body } else { at };
        Some(Secret {
            range: start..end,
            rule: self.rule,
        })
    }
}

/// Prefixes of ordinary words, and where their rarest window begins; counted in source code.
const RAREST: &[(&str, usize)] = &[
    ("secret_", 1),
    ("lin_api_", 4),
    ("lin_oauth_", 4),
    ("github_pat_", 5),
];

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    a.len() == b.len()
}

/// Returns how rare a pair of bytes is in prose and in code. It affects only
/// the speed. Many words end with an underscore, so a window inside the prefix
/// is better.
const fn rarity(a: u8, b: u8) -> i32 {
    if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() {
        return if value::is_common(a, b) { 0 } else { 4 };
    }
    match (a, b) {
        (b'0'..=b'9', _) | (_, b'0'..=b'9') => 4,
        (b'_', _) | (_, b'_') => -1,
        _ => 3,
    }
}

const fn sure(rule: &'static str, prefix: &'static str, parts: &'static [Part]) -> Token {
    Token {
        rule,
        prefix,
        kind: Prefix::Sure,
        parts,
    }
}

const fn weak(rule: &'static str, prefix: &'static str, parts: &'static [Part]) -> Token {
    Token {
        rule,
        prefix,
        kind: Prefix::Weak,
        parts,
    }
}

const fn random(rule: &'static str, prefix: &'static str, parts: &'static [Part]) -> Token {
    Token {
        rule,
        prefix,
        kind: Prefix::Random,
        parts,
    }
}

const fn shown(rule: &'static str, prefix: &'static str, parts: &'static [Part]) -> Token {
    Token {
        rule,
        prefix,
        kind: Prefix::Shown,
        parts,
    }
}

const TWILIO: &[Part] = &[Run(HEX, 31, 31)];
const GITHUB: &[Part] = &[Run(ALNUM, 36, 255)];
const GITLAB: &[Part] = &[Run(WORD | DOT, 20, 300)];
const SLACK: &[Part] = &[Run(ALNUM | DASH, 20, 255)];
const STRIPE: &[Part] = &[Run(ALNUM, 16, 255)];
const WORDS_20: &[Part] = &[Run(WORD, 20, 512)];
const HEX_32: &[Part] = &[Run(HEX, 32, 32)];
const HEX_40: &[Part] = &[Run(HEX, 40, 40)];
const HEX_64: &[Part] = &[Run(HEX, 64, 64)];

/// One row per prefix.
#[rustfmt::skip] // One line per row reads as the table it is.
pub(super) const TOKENS: &[Token] = &[
    // Ours, as `contexture key new` makes them.
    sure("contexture-key", "ctx_", &[Run(ALNUM, 12, 12), Text("_"), Run(ALNUM, 43, 128)]),
    // Clouds.
    weak("aws-access-key-id", "AKIA", &[Run(UPPER | DIGIT, 16, 16)]),
    weak("aws-access-key-id", "ASIA", &[Run(UPPER | DIGIT, 16, 16)]),
    sure("aws-bedrock-api-key", "ABSKQmVkcm9ja0FQSUtleS", &[Run(ALNUM | BASE64 | EQUALS, 60, 400)]),
    weak("gcp-api-key", "AIza", &[Run(WORD, 35, 35)]),
    sure("google-oauth-client-secret", "GOCSPX-", &[Run(WORD, 20, 48)]),
    sure("google-oauth-token", "ya29.", &[Run(WORD | DOT, 20, 2048)]),
    weak("google-refresh-token", "1//0", &[Run(WORD, 40, 256)]),
    sure("digitalocean-token", "dop_v1_", HEX_64),
    sure("digitalocean-token", "doo_v1_", HEX_64),
    sure("digitalocean-token", "dor_v1_", HEX_64),
    weak("alibaba-access-key-id", "LTAI", &[Run(ALNUM, 12, 24)]),
    weak("tencent-secret-id", "AKID", &[Run(ALNUM, 32, 32)]),
    weak("yandex-api-key", "AQVN", &[Run(WORD, 35, 38)]),
    sure("heroku-api-key", "HRKU-", &[Run(WORD, 36, 80)]),
    sure("databricks-token", "dapi", &[Run(HEX, 32, 32)]),
    sure("terraform-token", "tfp_v1_", WORDS_20),
    sure("vault-token", "hvs.", &[Run(WORD, 24, 300)]),
    sure("vault-token", "hvb.", &[Run(WORD, 24, 300)]),
    sure("vault-token", "hvr.", &[Run(WORD, 24, 300)]),
    sure("pulumi-token", "pul-", HEX_40),
    sure("fly-token", "fo1_", &[Run(WORD, 40, 64)]),
    sure("fly-token", "fm1r_", &[Run(ALNUM | BASE64 | EQUALS | COMMA | UNDERSCORE, 60, 2048)]),
    sure("fly-token", "fm2_", &[Run(ALNUM | BASE64 | EQUALS | COMMA | UNDERSCORE, 60, 2048)]),
    sure("supabase-token", "sbp_", HEX_40),
    sure("supabase-token", "sb_secret_", WORDS_20),
    sure("planetscale-token", "pscale_tkn_", &[Run(WORD | DOT | EQUALS, 32, 64)]),
    sure("planetscale-token", "pscale_pw_", &[Run(WORD | DOT | EQUALS, 32, 64)]),
    sure("planetscale-token", "pscale_oauth_", &[Run(WORD | DOT | EQUALS, 32, 64)]),
    weak("neon-api-key", "napi_", &[Run(ALNUM, 48, 80)]),
    weak("neon-password", "npg_", &[Run(ALNUM, 10, 64)]),
    random("vercel-token", "vcp_", &[Run(WORD, 20, 128)]),
    random("vercel-token", "vci_", &[Run(WORD, 20, 128)]),
    random("vercel-token", "vca_", &[Run(WORD, 20, 128)]),
    random("vercel-token", "vcr_", &[Run(WORD, 20, 128)]),
    random("vercel-token", "vck_", &[Run(WORD, 20, 128)]),
    sure("vercel-token", "vercel_blob_rw_", &[Run(WORD, 30, 128)]),
    random("dropbox-token", "sl.", &[Run(WORD | DOT | EQUALS, 60, 2048)]),
    random("cloudflare-token", "cfk_", &[Run(ALNUM | UNDERSCORE, 40, 64)]),
    random("cloudflare-token", "cfut_", &[Run(ALNUM | UNDERSCORE, 40, 64)]),
    random("cloudflare-token", "cfat_", &[Run(ALNUM | UNDERSCORE, 40, 64)]),
    sure("cloudflare-origin-key", "v1.0-", &[Run(HEX, 24, 24), Text("-"), Run(HEX, 146, 146)]),
    sure("openshift-token", "sha256~", &[Run(WORD, 43, 43)]),
    sure("aws-bedrock-api-key", "bedrock-api-key-", &[Run(ALNUM | BASE64 | EQUALS, 60, 2048)]),
    sure("mongodb-atlas-secret", "mdb_sa_sk_", &[Run(WORD, 30, 64)]),
    weak("scalingo-token", "tk-us-", &[Run(WORD, 48, 48)]),
    sure("onepassword-secret-key", "A3-", &[Run(UPPER | DIGIT, 6, 6), Text("-"), Run(UPPER | DIGIT | DASH, 28, 30)]),
    weak("netlify-token", "nfp_", &[Run(ALNUM, 36, 64)]),
    weak("render-api-key", "rnd_", &[Run(ALNUM, 28, 40)]),
    weak("tailscale-key", "tskey-", WORDS_20),
    weak("dynatrace-token", "dt0c01.", &[Run(ALNUM, 24, 24), Text("."), Run(ALNUM, 64, 64)]),
    weak("doppler-token", "dp.pt.", &[Run(ALNUM, 40, 48)]),
    weak("doppler-token", "dp.ct.", &[Run(ALNUM, 40, 48)]),
    weak("doppler-token", "dp.sa.", &[Run(ALNUM, 40, 48)]),
    weak("doppler-token", "dp.st.", &[Run(WORD, 1, 40), Text("."), Run(ALNUM, 40, 48)]),
    sure("age-secret-key", "AGE-SECRET-KEY-1", &[Run(UPPER | DIGIT, 58, 58)]),
    sure("onepassword-token", "ops_eyJ", &[Run(ALNUM | BASE64 | EQUALS | UNDERSCORE | DASH, 100, 4096)]),
    sure("age-secret-key", "AGE-SECRET-KEY-PQ-1", &[Run(UPPER | DIGIT, 58, 4096)]),
    weak("nostr-secret-key", "nsec1", &[Run(LOWER | DIGIT, 58, 58)]),
    shown("infura-api-key", "infura.io/v3/", HEX_32),
    shown("alchemy-api-key", "g.alchemy.com/v2/", &[Run(WORD, 28, 40)]),
    sure("launchdarkly-key", "sdk-", &[Run(HEX, 8, 8), Text("-"), Run(HEX, 4, 4), Text("-"), Run(HEX, 4, 4), Text("-"), Run(HEX, 4, 4), Text("-"), Run(HEX, 12, 12)]),
    // Code hosting, packages, builds.
    sure("github-token", "ghp_", GITHUB),
    sure("github-token", "gho_", GITHUB),
    sure("github-token", "ghu_", GITHUB),
    sure("github-token", "ghs_", GITHUB),
    sure("github-token", "ghr_", GITHUB),
    sure("github-token", "github_pat_", &[Run(ALNUM | UNDERSCORE, 36, 255)]),
    sure("gitlab-token", "glpat-", GITLAB),
    sure("gitlab-token", "gldt-", GITLAB),
    sure("gitlab-token", "glrt-", GITLAB),
    sure("gitlab-token", "glptt-", GITLAB),
    sure("gitlab-token", "glcbt-", GITLAB),
    sure("gitlab-token", "glimt-", GITLAB),
    sure("gitlab-token", "glft-", GITLAB),
    sure("gitlab-token", "glagent-", GITLAB),
    sure("gitlab-token", "glsoat-", GITLAB),
    sure("gitlab-token", "gloas-", GITLAB),
    sure("gitlab-token", "glffct-", GITLAB),
    sure("gitlab-token", "GR1348941", &[Run(WORD, 20, 40)]),
    sure("bitbucket-token", "ATBB", &[Run(ALNUM, 28, 40)]),
    sure("bitbucket-token", "ATCTT3", &[Run(WORD | EQUALS, 60, 300)]),
    sure("atlassian-token", "ATATT3", &[Run(WORD | EQUALS, 60, 300)]),
    weak("npm-token", "npm_", &[Run(ALNUM, 36, 36)]),
    sure("pypi-token", "pypi-AgE", &[Run(WORD, 40, 1024)]),
    weak("crates-io-token", "cio", &[Run(ALNUM, 32, 32)]),
    sure("rubygems-token", "rubygems_", &[Run(HEX, 48, 48)]),
    weak("nuget-api-key", "oy2", &[Run(LOWER | DIGIT, 43, 43)]),
    sure("clojars-token", "CLOJARS_", &[Run(HEX, 60, 60)]),
    sure("docker-token", "dckr_pat_", &[Run(WORD, 24, 64)]),
    sure("docker-token", "dckr_oat_", &[Run(WORD, 24, 64)]),
    weak("artifactory-api-key", "AKCp", &[Run(ALNUM, 60, 80)]),
    sure("circleci-token", "CCIPAT_", &[Run(WORD, 40, 100)]),
    sure("circleci-token", "CCIPRJ_", &[Run(WORD, 40, 100)]),
    sure("buildkite-token", "bkua_", HEX_40),
    weak("sonar-token", "sqp_", HEX_40),
    weak("sonar-token", "squ_", HEX_40),
    weak("sonar-token", "sqa_", HEX_40),
    sure("sourcegraph-token", "sgp_", &[Run(HEX | UNDERSCORE, 40, 64)]),
    weak("artifactory-token", "cmVmd", &[Run(ALNUM, 59, 59)]),
    weak("octopus-api-key", "API-", &[Run(UPPER | DIGIT, 26, 26)]),
    random("infracost-api-key", "ico-", &[Run(ALNUM, 32, 32)]),
    sure("defined-networking-key", "dnkey-", &[Run(WORD, 70, 90)]),
    sure("harness-api-key", "pat.", &[Run(WORD, 22, 22), Text("."), Run(ALNUM, 24, 24), Text("."), Run(ALNUM, 20, 20)]),
    sure("harness-api-key", "sat.", &[Run(WORD, 22, 22), Text("."), Run(ALNUM, 24, 24), Text("."), Run(ALNUM, 20, 20)]),
    weak("prefect-api-key", "pnu_", &[Run(ALNUM, 36, 36)]),
    weak("deno-token", "ddp_", &[Run(ALNUM, 36, 40)]),
    weak("deno-token", "ddo_", &[Run(ALNUM, 36, 40)]),
    sure("postman-api-key", "PMAK-", &[Run(HEX, 24, 24), Text("-"), Run(HEX, 34, 34)]),
    sure("readme-api-key", "rdme_", &[Run(LOWER | DIGIT, 60, 80)]),
    sure("shippo-token", "shippo_live_", HEX_40),
    // Messages.
    sure("slack-token", "xoxb-", SLACK),
    sure("slack-token", "xoxp-", SLACK),
    sure("slack-token", "xoxa-", SLACK),
    sure("slack-token", "xoxr-", SLACK),
    sure("slack-token", "xoxs-", SLACK),
    sure("slack-token", "xoxo-", SLACK),
    sure("slack-token", "xoxc-", SLACK),
    sure("slack-token", "xoxd-", &[Run(WORD | BASE64 | PERCENT | EQUALS, 20, 512)]),
    sure("slack-token", "xoxe-", SLACK),
    sure("slack-token", "xoxe.xox", &[Run(ALNUM | DASH, 20, 512)]),
    sure("slack-token", "xapp-", SLACK),
    shown("slack-webhook", "hooks.slack.com/services/", &[Run(ALNUM | BASE64, 30, 100)]),
    shown("slack-webhook", "hooks.slack.com/workflows/", &[Run(ALNUM | BASE64, 30, 100)]),
    shown("slack-webhook", "hooks.slack.com/triggers/", &[Run(ALNUM | BASE64, 30, 100)]),
    shown("discord-webhook", "discord.com/api/webhooks/", &[Run(DIGIT, 16, 21), Text("/"), Run(WORD, 50, 80)]),
    shown("discord-webhook", "discordapp.com/api/webhooks/", &[Run(DIGIT, 16, 21), Text("/"), Run(WORD, 50, 80)]),
    shown("teams-webhook", "webhook.office.com/webhookb2/", &[Run(WORD | AT | BASE64, 60, 300)]),
    sure("sendgrid-api-key", "SG.", &[Run(WORD, 16, 32), Text("."), Run(WORD, 32, 64)]),
    sure("brevo-api-key", "xkeysib-", &[Run(HEX, 64, 64), Text("-"), Run(ALNUM, 16, 16)]),
    weak("mailgun-api-key", "key-", &[Run(LOWER | DIGIT, 32, 32)]),
    weak("resend-api-key", "re_", &[Run(ALNUM, 8, 8), Text("_"), Run(ALNUM, 20, 30)]),
    sure("twilio-api-key", "SK0", TWILIO),
    sure("twilio-api-key", "SK1", TWILIO),
    sure("twilio-api-key", "SK2", TWILIO),
    sure("twilio-api-key", "SK3", TWILIO),
    sure("twilio-api-key", "SK4", TWILIO),
    sure("twilio-api-key", "SK5", TWILIO),
    sure("twilio-api-key", "SK6", TWILIO),
    sure("twilio-api-key", "SK7", TWILIO),
    sure("twilio-api-key", "SK8", TWILIO),
    sure("twilio-api-key", "SK9", TWILIO),
    sure("twilio-api-key", "SKa", TWILIO),
    sure("twilio-api-key", "SKb", TWILIO),
    sure("twilio-api-key", "SKc", TWILIO),
    sure("twilio-api-key", "SKd", TWILIO),
    sure("twilio-api-key", "SKe", TWILIO),
    sure("twilio-api-key", "SKf", TWILIO),
    // Payments and shops.
    sure("stripe-key", "sk_live_", STRIPE),
    sure("stripe-key", "rk_live_", STRIPE),
    sure("stripe-key", "sk_test_", STRIPE),
    sure("stripe-key", "rk_test_", STRIPE),
    sure("webhook-signing-secret", "whsec_", &[Run(ALNUM | BASE64 | EQUALS, 24, 128)]),
    sure("shopify-token", "shpat_", HEX_32),
    sure("shopify-token", "shpca_", HEX_32),
    sure("shopify-token", "shppa_", HEX_32),
    sure("shopify-token", "shpss_", HEX_32),
    sure("square-token", "sq0atp-", &[Run(WORD, 22, 22)]),
    sure("square-token", "sq0csp-", &[Run(WORD, 43, 43)]),
    weak("square-token", "EAAA", &[Run(WORD, 60, 60)]),
    weak("facebook-token", "EAA", &[Run(ALNUM, 80, 400)]),
    sure("braintree-token", "access_token$production$", &[Run(LOWER | DIGIT, 16, 16), Text("$"), Run(HEX, 32, 32)]),
    sure("braintree-token", "access_token$sandbox$", &[Run(LOWER | DIGIT, 16, 16), Text("$"), Run(HEX, 32, 32)]),
    sure("easypost-api-key", "EZAK", &[Run(ALNUM, 54, 54)]),
    sure("easypost-api-key", "EZTK", &[Run(ALNUM, 54, 54)]),
    sure("duffel-token", "duffel_live_", &[Run(WORD | EQUALS, 43, 43)]),
    sure("duffel-token", "duffel_test_", &[Run(WORD | EQUALS, 43, 43)]),
    sure("adobe-client-secret", "p8e-", &[Run(ALNUM, 32, 32)]),
    sure("flutterwave-key", "FLWSECK-", &[Run(ALNUM | DASH, 32, 64)]),
    sure("flutterwave-key", "FLWSECK_TEST-", &[Run(ALNUM | DASH, 32, 64)]),
    sure("plaid-token", "access-production-", &[Run(HEX | DASH, 36, 36)]),
    sure("plaid-token", "access-sandbox-", &[Run(HEX | DASH, 36, 36)]),
    sure("hubspot-token", "pat-na1-", &[Run(HEX | DASH, 36, 36)]),
    sure("hubspot-token", "pat-eu1-", &[Run(HEX | DASH, 36, 36)]),
    // Models.
    sure("anthropic-api-key", "sk-ant-", WORDS_20),
    sure("openai-api-key", "sk-proj-", WORDS_20),
    sure("openai-api-key", "sk-svcacct-", WORDS_20),
    sure("openai-api-key", "sk-admin-", WORDS_20),
    sure("openrouter-api-key", "sk-or-v1-", HEX_64),
    sure("langfuse-secret-key", "sk-lf-", &[Run(HEX | DASH, 36, 36)]),
    weak("openai-api-key", "sk-", &[Run(ALNUM, 20, 80)]),
    weak("elevenlabs-api-key", "sk_", &[Run(HEX, 48, 48)]),
    weak("huggingface-token", "hf_", &[Run(ALNUM, 30, 40)]),
    sure("huggingface-token", "api_org_", &[Run(ALNUM, 30, 40)]),
    weak("groq-api-key", "gsk_", &[Run(ALNUM, 40, 64)]),
    weak("perplexity-api-key", "pplx-", &[Run(ALNUM, 40, 64)]),
    weak("replicate-token", "r8_", &[Run(ALNUM, 36, 40)]),
    weak("xai-api-key", "xai-", &[Run(ALNUM, 40, 100)]),
    weak("cerebras-api-key", "csk-", &[Run(ALNUM, 40, 64)]),
    weak("fireworks-api-key", "fw_", &[Run(ALNUM, 22, 28)]),
    weak("nvidia-api-key", "nvapi-", &[Run(WORD, 50, 80)]),
    weak("pinecone-api-key", "pcsk_", &[Run(ALNUM | UNDERSCORE, 50, 90)]),
    weak("tavily-api-key", "tvly-", &[Run(ALNUM | DASH, 24, 60)]),
    weak("langsmith-api-key", "lsv2_", &[Run(ALNUM | UNDERSCORE, 40, 60)]),
    weak("jina-api-key", "jina_", &[Run(WORD, 50, 70)]),
    random("voyage-api-key", "pa-", &[Run(WORD, 40, 48)]),
    sure("kaggle-api-key", "KGAT_", &[Run(ALNUM, 32, 64)]),
    random("together-api-key", "tgp_v1_", &[Run(WORD, 40, 64)]),
    weak("firecrawl-api-key", "fc-", HEX_32),
    sure("e2b-api-key", "e2b_", HEX_40),
    // Everything else.
    random("posthog-api-key", "phx_", &[Run(ALNUM, 40, 60)]),
    sure("inngest-signing-key", "signkey-prod-", HEX_64),
    sure("frame-io-token", "fio-u-", &[Run(WORD | EQUALS, 64, 64)]),
    sure("new-relic-key", "NRAK-", &[Run(ALNUM, 27, 27)]),
    sure("new-relic-key", "NRII-", &[Run(WORD, 32, 32)]),
    sure("sentry-token", "sntrys_", &[Run(ALNUM | BASE64 | EQUALS | UNDERSCORE | DASH, 60, 400)]),
    sure("sentry-token", "sntryu_", HEX_64),
    sure("linear-api-key", "lin_api_", &[Run(ALNUM, 32, 64)]),
    sure("linear-api-key", "lin_oauth_", &[Run(ALNUM, 32, 64)]),
    weak("notion-token", "ntn_", &[Run(ALNUM, 40, 60)]),
    weak("notion-token", "secret_", &[Run(ALNUM, 43, 43)]),
    weak("airtable-token", "pat", &[Run(ALNUM, 14, 14), Text("."), Run(HEX, 64, 64)]),
    weak("figma-token", "figd_", &[Run(WORD, 38, 60)]),
    sure("grafana-token", "glc_", &[Run(ALNUM | BASE64 | EQUALS, 32, 400)]),
    sure("grafana-token", "glsa_", &[Run(ALNUM, 32, 32), Text("_"), Run(HEX, 8, 8)]),
    sure("contentful-token", "CFPAT-", &[Run(WORD, 40, 48)]),
    weak("typeform-token", "tfp_", &[Run(WORD | DOT, 40, 64)]),
    weak("adafruit-key", "aio_", &[Run(ALNUM, 28, 28)]),
    sure("mapbox-secret-token", "sk.eyJ", &[Run(WORD, 40, 200), Text("."), Run(WORD, 20, 40)]),
    sure("json-web-token", "eyJ", &[Run(WORD, 12, 4096), Text(".eyJ"), Run(WORD, 4, 8192), Text("."), Run(WORD, 16, 2048)]),
    // The encrypted form has five parts, the second of which is random.
    sure("json-web-token", "eyJ", &[Run(WORD, 20, 1024), Text("."), Run(WORD, 0, 1024), Text("."), Run(WORD, 16, 64), Text("."), Run(WORD, 8, 8192), Text("."), Run(WORD, 16, 64)]),
];

/// Returns the rule of the token that `value` is, if it is one.
pub(super) fn name(value: &[u8]) -> Option<&'static str> {
    let mut runs = Runs::default();
    let mut rows = TOKENS.iter();
    let found = rows.find_map(|row| row.find(value, 0, &mut runs))?;
    (found.range.end == value.len()).then_some(found.rule)
}

/// A bot token: the account's number, a colon, and 35 letters that begin with `AA`.
pub(super) fn telegram(bytes: &[u8], at: usize) -> Option<Secret> {
    let end = run(bytes, at + 1, WORD, 36);
    let start = run_back(bytes, at, DIGIT, 11);
    let number = (8..=10).contains(&(at - start));
    // The number follows the word `bot` in addresses, so it need not begin a word.
    // One in five hundred tokens has no digit, so letters of both cases will do.
    if !number || end - at - 1 != 35 || !value::is_varied(&bytes[at + 3..end]) {
        return None;
    }
    Some(Secret {
        range: start..end,
        rule: "telegram-bot-token",
    })
}

/// A key of 32 hex digits that names its data centre: `-us` and a number.
pub(super) fn mailchimp(bytes: &[u8], at: usize) -> Option<Secret> {
    let end = run(bytes, at + 3, DIGIT, 2);
    let start = run_back(bytes, at, HEX, 33);
    if at - start != 32 || end == at + 3 || !ends_word(bytes, end) || !starts_word(bytes, start) {
        return None;
    }
    Some(Secret {
        range: start..end,
        rule: "mailchimp-api-key",
    })
}

/// Fourteen letters, `.atlasv1.`, and a long run.
pub(super) fn terraform(bytes: &[u8], at: usize) -> Option<Secret> {
    let middle = b".atlasv1.";
    if !bytes.get(at..)?.starts_with(middle) {
        return None;
    }
    let start = run_back(bytes, at, ALNUM, 15);
    let end = run(bytes, at + middle.len(), WORD, 80);
    if at - start != 14 || end < at + middle.len() + 40 {
        return None;
    }
    Some(Secret {
        range: start..end,
        rule: "terraform-token",
    })
}

/// Three characters, a digit, `Q~`, and 31 to 34 more.
pub(super) fn azure_client_secret(bytes: &[u8], at: usize) -> Option<Secret> {
    const CLASS: u16 = WORD | DOT | TILDE;
    let start = run_back(bytes, at, CLASS, 4);
    let end = run(bytes, at + 3, CLASS, 35);
    if at - start != 3 || bytes.get(at + 1) != Some(&b'Q') || !(31..=34).contains(&(end - at - 3)) {
        return None;
    }
    Some(Secret {
        range: start..end,
        rule: "azure-client-secret",
    })
}

/// The signature in the query of a shared access address.
pub(super) fn sas_signature(bytes: &[u8], at: usize) -> Option<Secret> {
    let opened = at.checked_sub(1).map(|before| bytes[before]);
    if !matches!(opened, Some(b'?' | b'&' | b';')) || !bytes.get(at..)?.starts_with(b"sig=") {
        return None;
    }
    let end = run(bytes, at + 4, ALNUM | BASE64 | PERCENT | EQUALS, 120);
    let tail = &bytes[at + 4..end];
    if tail.len() < 40 || tail.len() == 120 || value::is_filler(tail) {
        return None;
    }
    Some(Secret {
        range: at + 4..end,
        rule: "azure-sas-signature",
    })
}

/// The signature of a signed address: `X-Amz-Signature=…`. `at` begins the name.
pub(super) fn amazon_signature(bytes: &[u8], at: usize) -> Option<Secret> {
    const NAME: &[u8] = b"X-Amz-Signature=";
    let rest = bytes.get(at..)?;
    if !rest.get(..NAME.len())?.eq_ignore_ascii_case(NAME) {
        return None;
    }
    let start = at + NAME.len();
    let end = run(bytes, start, HEX, 65);
    (end - start == 64 && !value::is_filler(&bytes[start..end])).then_some(Secret {
        range: start..end,
        rule: "aws-request-signature",
    })
}

/// Seventy-six characters, `AZDO`, and four more.
pub(super) fn azure_devops(bytes: &[u8], at: usize) -> Option<Secret> {
    if !bytes.get(at..)?.starts_with(b"AZDO") {
        return None;
    }
    let start = run_back(bytes, at, ALNUM, 77);
    let end = run(bytes, at + 4, ALNUM, 5);
    if at - start != 76 || end - at != 8 || !value::is_varied(&bytes[start..at]) {
        return None;
    }
    Some(Secret {
        range: start..end,
        rule: "azure-devops-token",
    })
}

/// The server key of Firebase messaging: `AAAA`, seven characters, `:APA91b` and 134 more.
pub(super) fn firebase_key(bytes: &[u8], at: usize) -> Option<Secret> {
    let middle = b":APA91b";
    if !bytes.get(at..)?.starts_with(middle) {
        return None;
    }
    let start = run_back(bytes, at, WORD, 12);
    let end = run(bytes, at + middle.len(), WORD, 201);
    let length = end - at - middle.len();
    if at - start != 11 || !bytes[start..].starts_with(b"AAAA") || !(100..=200).contains(&length) {
        return None;
    }
    Some(Secret {
        range: start..end,
        rule: "firebase-server-key",
    })
}

/// `login("…")` and `run("…")` with a bot token of three parts.
pub(super) fn discord_call(bytes: &[u8], at: usize) -> Option<Secret> {
    let open = at
        + bytes
            .get(at..)?
            .iter()
            .take(6)
            .position(|byte| *byte == b'(')?;
    if !matches!(bytes.get(open + 1), Some(b'"' | b'\'' | b'`')) {
        return None;
    }
    let start = open + 2;
    let end = run(bytes, start, WORD | DOT, 100);
    is_discord(bytes.get(start..end)?).then_some(Secret {
        range: start..end,
        rule: "discord-bot-token",
    })
}

/// Returns true for an account number in base64, a time and a signature, joined by dots.
pub(super) fn is_discord(token: &[u8]) -> bool {
    let mut parts = token.split(|byte| *byte == b'.');
    let (Some(account), Some(time), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    (23..=28).contains(&account.len())
        && matches!(account[0], b'M' | b'N' | b'O')
        && time.len() == 6
        && (25..=40).contains(&signature.len())
        && token.iter().all(|byte| is(*byte, WORD | DOT))
}
