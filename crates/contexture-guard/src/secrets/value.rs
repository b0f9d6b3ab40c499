//! Whether a value looks like a credential: random enough, and no placeholder.

/// Pairs of letters that are common in English and in identifiers, by first letter.
///
/// About a third of all pairs: nine of ten pairs in a word are among them, three of ten in a
/// random string.
const PAIRS: [&str; 26] = [
    "bcdfgiklmnprstuvwy",
    "aeijlorsuy",
    "acehiklortuy",
    "adeiorsuy",
    "acdefgilmnpqrstvwxy",
    "aefilortu",
    "aeghilnorsu",
    "aeiortuy",
    "abcdefgklmnoprstvxz",
    "aeosu",
    "eins",
    "adefikllostuvy",
    "abeimopsu",
    "acdefgiknostuv",
    "abcdefgiklmnoprstuvwx",
    "aehiloprstu",
    "u",
    "acdefgiklmnorstuvy",
    "acehiklmopqstuwy",
    "acehilmorstuwy",
    "abcdegilmnprst",
    "aeio",
    "aehinor",
    "aceipt",
    "emopst",
    "aeioz",
];

static COMMON: [u32; 26] = {
    let mut table = [0; 26];
    let mut row = 0;
    while row < 26 {
        let letters = PAIRS[row].as_bytes();
        let mut index = 0;
        while index < letters.len() {
            table[row] |= 1 << (letters[index] - b'a');
            index += 1;
        }
        row += 1;
    }
    table
};

/// Returns true for two letters that often follow one another, in any case.
pub(super) const fn is_common(a: u8, b: u8) -> bool {
    let row = COMMON[(a.to_ascii_lowercase() - b'a') as usize];
    row >> (b.to_ascii_lowercase() - b'a') & 1 != 0
}

/// The character statistics of a value, counted once.
pub(super) struct Shape {
    pub(super) len: usize,
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) digits: usize,
    /// Bytes such as `!` that no identifier, path or version has.
    pub(super) symbols: usize,
    /// Different bytes.
    pub(super) distinct: usize,
    /// Shannon entropy in bits per byte.
    pub(super) entropy: f64,
    /// Changes from a letter to a digit or back, with nothing between.
    pub(super) turns: usize,
    /// Runs of digits with a letter on both sides.
    pub(super) inner_digits: usize,
    /// Neighbouring letters, and how many of those pairs are common in words.
    pub(super) pairs: usize,
    pub(super) common: usize,
    /// Neighbours that count up, count down or repeat.
    pub(super) steps: usize,
    pub(super) hex_only: bool,
}

impl Shape {
    pub(super) fn of(value: &[u8]) -> Shape {
        let mut counts = [0_u32; 256];
        let mut shape = Shape {
            len: value.len(),
            lower: 0,
            upper: 0,
            digits: 0,
            symbols: 0,
            distinct: 0,
            entropy: 0.0,
            turns: 0,
            inner_digits: 0,
            pairs: 0,
            common: 0,
            steps: 0,
            hex_only: true,
        };
        let mut digits_after_letter = false;
        let mut previous = 0_u8;
        for &byte in value {
            counts[usize::from(byte)] += 1;
            match byte {
                b'a'..=b'z' => shape.lower += 1,
                b'A'..=b'Z' => shape.upper += 1,
                b'0'..=b'9' => shape.digits += 1,
                b'-' | b'_' | b'.' | b'/' | b':' | b'=' | b'+' | b',' => {}
                _ => shape.symbols += 1,
            }
            shape.hex_only &= byte.is_ascii_hexdigit();
            let (letter, digit) = (byte.is_ascii_alphabetic(), byte.is_ascii_digit());
            let (was_letter, was_digit) =
                (previous.is_ascii_alphabetic(), previous.is_ascii_digit());
            if (letter && was_digit) || (digit && was_letter) {
                shape.turns += 1;
            }
            if digit && !was_digit {
                digits_after_letter = was_letter;
            }
            if letter && was_digit && digits_after_letter {
                shape.inner_digits += 1;
            }
            // A capital after a small letter begins a word; the pair is not
            // evidence.
            if letter && was_letter && !(previous.is_ascii_lowercase() && byte.is_ascii_uppercase())
            {
                shape.pairs += 1;
                shape.common += usize::from(is_common(previous, byte));
            }
            if previous != 0 && byte.abs_diff(previous) <= 1 {
                shape.steps += 1;
            }
            previous = byte;
        }
        let len = value.len() as f64;
        for count in counts.into_iter().filter(|count| *count > 0) {
            shape.distinct += 1;
            let share = f64::from(count) / len;
            shape.entropy -= share * share.log2();
        }
        shape
    }

    pub(super) fn letters(&self) -> usize {
        self.lower + self.upper
    }

    /// Returns true when the letters read as words.
    pub(super) fn is_wordy(&self) -> bool {
        self.pairs >= 4 && self.common * 20 >= self.pairs * 13
    }

    /// Returns true if most of the value counts up or repeats:
    /// `0123456789abcdef`, `aaaaaaaa`.
    pub(super) fn is_counting(&self) -> bool {
        self.steps * 2 >= self.len
    }

    /// Returns true if a value looks generated and not typed: a key, a hash, a
    /// base64 string.
    pub(super) fn is_random(&self) -> bool {
        if self.len < 12 || self.distinct < 8 || self.entropy < 2.9 || self.is_counting() {
            return false;
        }
        if self.hex_only {
            return self.len >= 16 && self.digits >= 2 && self.letters() >= 2;
        }
        if self.digits == 0 {
            return self.len >= 20
                && self.upper >= 3
                && self.lower >= 3
                && self.common * 2 < self.pairs;
        }
        if self.letters() < 3 || self.turns < 2 {
            return false;
        }
        // `django-insecure-…` and similar values have words before the
        // generated part.
        let generated = self.len >= 20 && self.symbols >= 3 && self.digits >= 3;
        generated
            || !self.is_wordy()
            || (self.inner_digits >= 3 && self.common * 5 < self.pairs * 4)
    }
}

/// Words that mark a value as a placeholder.
#[rustfmt::skip] // A list of words reads better in rows.
const FILLER: &[&str] = &[
    "example", "placeholder", "changeme", "change-me", "change_me", "replace", "xxxx", "****",
    "....", "your-", "your_", "yourp", "yours", "yourt", "youra", "yourk", "insert", "dummy",
    "redacted", "sample", "foobar", "todo-", "todo_", "fixme", "notreal", "not-real",
    "not_real", "not-a-real", "fake-", "fake_", "fakekey", "faketoken", "-here", "_here",
    "goes-here", "<", ">", "masked", "hidden", "00000000", "deadbeef", "cafebabe", "abcabc",
    "123123", "testtest", "test-key", "test_key", "test-token", "test_token", "mock-", "mock_",
    "supersecret", "super-secret", "super_secret", "notasecret", "not-a-secret", "not_a_secret",
];

/// Returns true for the rest of a token that is a placeholder: `xxxxxxxx`,
/// `your-key-here`.
pub(super) fn is_filler(value: &[u8]) -> bool {
    // A placeholder is recognisable by its beginning, and a value may be long.
    let value = &value[..value.len().min(256)];
    let mut seen = [false; 256];
    for byte in value {
        seen[usize::from(*byte)] = true;
    }
    let distinct = seen.into_iter().filter(|seen| *seen).count();
    distinct < 6 || contains_word(value, FILLER)
}

/// Returns true if `value` contains one of `words`, in any case.
fn contains_word(value: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| contains(value, word.as_bytes()))
}

/// Returns true when `value` contains `word`, which is in lower case.
pub(super) fn contains(value: &[u8], word: &[u8]) -> bool {
    let Some(first) = word.first() else {
        return true;
    };
    value
        .windows(word.len())
        .any(|window| window[0].to_ascii_lowercase() == *first && window.eq_ignore_ascii_case(word))
}

/// Returns true when there are both letters and digits.
pub(super) fn is_mixed(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic)
}

/// Returns true for a run that a service issued, where names of words and dashes look alike.
pub(super) fn is_issued(value: &[u8]) -> bool {
    let shape = Shape::of(&value[..value.len().min(256)]);
    shape.digits >= 2
        && shape.letters() >= 6
        && shape.is_random()
        && !shape.is_wordy()
        && shape.upper + shape.digits >= 4
}

/// Returns true when there are many different letters and digits, of both cases.
pub(super) fn is_varied(value: &[u8]) -> bool {
    let shape = Shape::of(value);
    shape.distinct >= 12 && shape.upper >= 2 && shape.lower >= 2 && !shape.is_counting()
}

/// Beginnings of values that only refer to a secret, or are the hash of one.
#[rustfmt::skip] // A list of words reads better in rows.
const REFERENCES: &[&str] = &[
    "process.", "os.environ", "os.getenv", "env.", "env:", "env[", "var.", "vars.", "secrets.",
    "secret:", "local.", "data.", "config.", "settings.", "self.", "this.", "vault:", "arn:",
    "op://", "file:", "ref+", "ssm:", "kms:", "sops:", "enc[", "aws::", "urn:", "data:",
    "projects/", "sha1-", "sha1:", "sha256-", "sha256:", "sha384-", "sha512-", "sha512:",
    "md5:", "md5-", "sha1$", "sha256$", "pbkdf2", "$2a$", "$2b$", "$2y$", "$argon2", "$1$",
    "$5$", "$6$", "$pbkdf2", "$scrypt", "scrypt:", "{sha", "{ssha", "{bcrypt", "scram-sha",
    "ssh-rsa", "ssh-ed25519", "ecdsa-", "-----begin", "import.meta", "application/", "text/",
    "oauth2", "x-", "did:", "ipfs:",
];

/// Whole values, without digits and separators, that documents use in place of
/// a password.
#[rustfmt::skip] // A list of words reads better in rows.
const STOCK: &[&str] = &[
    "", "password", "passwd", "pass", "pw", "pwd", "secret", "mysecret", "mypassword", "token",
    "mytoken", "key", "mykey", "apikey", "myapikey", "test", "testing", "tests", "testpass",
    "testpassword", "testuser", "testsecret", "testtoken", "testkey", "admin", "administrator",
    "root", "user", "username", "guest", "demo", "default", "none", "null", "nil", "undefined",
    "true", "false", "foo", "bar", "baz", "foobar", "abc", "abcdef",
    "postgres", "postgresql", "mysql", "redis", "mongo", "mongodb", "rabbitmq", "minio",
    "minioadmin", "string", "secretkey", "secretpassword", "secrettoken", "somepassword",
    "somesecret", "sometoken", "passphrase", "p@ssword", "p@ssw0rd", "value", "valid",
    "invalid", "wrong", "correct", "newpassword", "oldpassword", "new", "old", "yourpassword",
    "dbpassword", "dbpass", "adminpassword", "adminpass", "rootpassword", "rootpass",
    "userpassword", "pass word", "bearer", "basic", "oauth", "sha", "md", "base", "aes", "rsa",
    "utf", "hmac", "hs", "rs", "es", "argon", "argonid", "bcrypt", "pbkdf", "scrypt", "ed", "x",
    "v", "cl", "o",
];

/// Names of techniques with digits inside. They do not make a value random.
#[rustfmt::skip] // A list of words reads better in rows.
const TECHNICAL: &[&str] = &[
    "sha256", "sha512", "sha384", "sha1", "base64", "base32", "base58", "utf8", "utf16",
    "oauth2", "x509", "ed25519", "x25519", "curve25519", "rs256", "hs256", "es256", "hs512",
    "rs512", "aes256", "aes128", "ipv4", "ipv6", "http2", "http3", "k8s", "i18n", "l10n",
    "pbkdf2", "argon2", "p256", "secp256k1", "log4j", "web3", "x86", "arm64", "amd64", "o200k",
    "cl100k", "r50k", "p50k", "rfc6749", "rfc7519", "blake2", "blake3", "poly1305", "chacha20",
    "salsa20", "md5", "oauth1", "win32",
];

/// Returns true if `value` is not a secret itself: a variable, a reference, a
/// hash, a path, a placeholder.
pub(super) fn is_placeholder(value: &str) -> bool {
    let bytes = value.as_bytes();
    if !value.is_ascii() || bytes.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    if value.contains("[secret")
        || REFERENCES.iter().any(|head| lower.starts_with(head))
        || [
            "${", "{{", "$(", "<%", "%(", "#{", "{}", "(?", ".*", "[a-z", "\\d", "\\w", "://",
            "::", "->", "&&", "||", "\\u", "\\x", "();", "...", "$$",
        ]
        .iter()
        .any(|mark| value.contains(mark))
    {
        return true;
    }
    // `%s` is a verb of a format only if no word goes on after it.
    let is_verb = |pair: &[u8]| pair[0] == b'%' && b"sdv".contains(&pair[1]);
    let verb = bytes.windows(2).position(is_verb);
    if verb.is_some_and(|at| {
        bytes
            .get(at + 2)
            .is_none_or(|next| !next.is_ascii_alphanumeric())
    }) {
        return true;
    }
    if is_rules(bytes) || is_filler_word(&lower) || is_variable(bytes) || is_file(&lower) {
        return true;
    }
    is_stock(value) || is_negation(bytes) || are_stock_words(value) || Shape::of(bytes).distinct < 4
}

/// Returns true for `!name` and `!!name`, which are code.
fn is_negation(value: &[u8]) -> bool {
    let name = value.iter().position(|byte| *byte != b'!').unwrap_or(0);
    name > 0
        && value[name..]
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || *byte == b'_' || *byte == b'.')
}

/// Returns true for words parted by encoded punctuation, as in `pass%20pass`, that hold no digit
/// of their own.
fn are_stock_words(value: &str) -> bool {
    if !value.contains('%') {
        return false;
    }
    let mut words = value.split('%');
    let first = words.next().unwrap_or_default();
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let mut stock = is_stock(first);
    let coded = words.all(|part| {
        let rest = part.get(2..).unwrap_or_default();
        stock |= is_stock(rest) && !rest.is_empty();
        part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit) && is_word(rest)
    });
    coded && stock && is_word(first)
}

/// Returns true for `password123` and its like.
pub(super) fn is_stock(value: &str) -> bool {
    let letters: String = value
        .chars()
        .filter(|letter| !letter.is_ascii_digit() && !"-_.:/,!".contains(*letter))
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    STOCK.contains(&letters.as_str())
}

fn is_filler_word(lower: &str) -> bool {
    let bytes = lower.as_bytes();
    contains_word(bytes, FILLER)
        || (bytes.len() < 24 && contains_word(bytes, &["your", "changeit", "enter"]))
}

/// Rules for a field of a form: `required|string|min:8`.
fn is_rules(value: &[u8]) -> bool {
    let mut parts = value.split(|byte| *byte == b'|');
    let is_rule = |part: &[u8]| {
        part.first().is_some_and(u8::is_ascii_lowercase)
            && part.iter().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":,_.".contains(byte)
            })
    };
    value.contains(&b'|') && parts.all(is_rule)
}

/// `$NAME`, `%NAME%`, `@NAME@`, `{name}`, `:name`, `[name]`, `__NAME__`.
fn is_variable(value: &[u8]) -> bool {
    let name = |bytes: &[u8]| {
        bytes
            .first()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte))
    };
    match value {
        [b'$' | b':' | b'#' | b'.' | b'&', rest @ ..] if name(rest) => true,
        [b'%', rest @ .., b'%'] | [b'{', rest @ .., b'}'] | [b'[', rest @ .., b']'] => name(rest),
        [b'_', b'_', .., b'_', b'_'] => true,
        // A name inside braces anywhere: a template or a format string.
        _ => value.split(|byte| *byte == b'{').skip(1).any(|rest| {
            rest.iter()
                .position(|byte| *byte == b'}')
                .is_some_and(|end| name(&rest[..end]))
        }),
    }
}

pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A path, an address of mail, or a name that ends like a file's.
fn is_file(lower: &str) -> bool {
    let tail = lower.rsplit('.').next().unwrap_or_default();
    let extension = lower.contains('.')
        && [
            "pem", "key", "json", "txt", "yml", "yaml", "toml", "env", "crt", "cer", "p12", "pfx",
            "js", "ts", "py", "go", "rs", "rb", "java", "kt", "php", "cs", "c", "h", "html", "xml",
            "md", "com", "org", "net", "io", "dev", "local", "internal", "conf", "cfg", "ini",
            "sh", "gpg", "jks", "pub", "lock", "log", "svg", "png", "css", "sql", "cpp", "tsx",
            "jsx",
        ]
        .contains(&tail);
    let path = ["/", "./", "../", "~/"]
        .iter()
        .any(|head| lower.starts_with(head))
        && !lower.contains('+')
        && lower[1..].contains('/');
    let mail = lower
        .split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && extension && !host.contains('@'));
    extension || path || mail
}

/// Returns true when `value` is what people and generators choose for a password.
///
/// `typed` is false where a bare value may be an identifier of the language around it; there a
/// word with digits at its end is not enough.
pub(super) fn is_password(value: &str, typed: bool) -> bool {
    let mut plain = value.to_ascii_lowercase();
    for word in TECHNICAL {
        if plain.contains(word) {
            plain = plain.replace(word, "");
        }
    }
    let cut = value.len() - plain.len();
    let shape = Shape::of(value.as_bytes());
    if shape.is_random() {
        return true;
    }
    if shape.len < 6 || shape.len > 128 || shape.letters() == 0 {
        return false;
    }
    let digits = plain.bytes().filter(u8::is_ascii_digit).count();
    let inner = cut == 0 && shape.inner_digits > 0;
    if digits == 0 || shape.is_counting() {
        // `Pass@word`: letters of both cases around a symbol that ends no sentence.
        let last = value.as_bytes()[value.len() - 1];
        let symbols = shape.symbols - usize::from(b"!?;".contains(&last) && shape.symbols > 0);
        return symbols > 0
            && shape.upper > 0
            && shape.lower > 2
            && shape.len >= 8
            && typed
            && !value
                .bytes()
                .any(|byte| b"(){}[]<>\"'`\\|*;$".contains(&byte));
    }
    if shape.symbols > 0 {
        return typed
            || !value
                .bytes()
                .any(|byte| b"(){}[]<>\"'`\\|*;&$".contains(&byte));
    }
    if inner && shape.len >= 7 {
        return typed || shape.len >= 8;
    }
    // Names such as `us-east-1` and `my-app-v2` are words with a number; passwords are one word.
    let joined = !value.bytes().any(|byte| b"-_./:".contains(&byte));
    // Capitals every two or three letters are no words.
    if typed
        && shape.len >= 10
        && shape.upper >= 3
        && shape.upper * 3 > shape.letters()
        && shape.lower >= 3
    {
        return true;
    }
    if shape.upper > 0 && shape.lower > 0 && shape.len >= 8 {
        return typed && (joined || !shape.is_wordy());
    }
    typed && shape.len >= 7 && joined && cut == 0
}

/// Returns true when `value` is what services issue as a key.
pub(super) fn is_key(value: &str) -> bool {
    if value.len() < 12 || value.len() > 1024 {
        return false;
    }
    let shape = Shape::of(value.as_bytes());
    if shape.digits == 0 && (shape.upper < 3 || shape.lower < 3) {
        return false;
    }
    let mut plain = value.to_ascii_lowercase();
    for word in TECHNICAL {
        if plain.contains(word) {
            plain = plain.replace(word, "-");
        }
    }
    if plain.len() < value.len() && value.len() < 40 {
        let rest = Shape::of(plain.as_bytes());
        return value.len() >= 16 && rest.is_random() && !rest.is_wordy();
    }
    // A value shorter than sixteen bytes counts as a key only if it has every
    // kind of character.
    (value.len() >= 16 && shape.is_random())
        || (shape.symbols > 0
            && shape.upper > 0
            && shape.lower > 0
            && shape.digits > 0
            && (shape.inner_digits > 0 || shape.symbols > 1)
            && !value
                .bytes()
                .any(|byte| b"(){}[]<>\"'`\\|;".contains(&byte)))
}
