//! The spellings of a model's name on different platforms, and its family.
//!
//! The same model is `claude-sonnet-4-5-20250929`, `anthropic/claude-sonnet-4.5`
//! (OpenRouter), `us.anthropic.claude-sonnet-4-5-20250929-v1:0` (Bedrock) and
//! `claude-sonnet-4-5@20250929` (Vertex AI).

/// Regions before the vendor in the ids of Bedrock.
const REGIONS: &[&str] = &[
    "us", "us-gov", "eu", "apac", "ap", "global", "jp", "au", "ca", "sa", "me", "af", "in",
];

/// Vendors before the name in the ids of Bedrock and of similar platforms.
const VENDORS: &[&str] = &[
    "anthropic",
    "amazon",
    "meta",
    "mistral",
    "cohere",
    "ai21",
    "deepseek",
    "openai",
    "qwen",
    "google",
    "minimax",
    "moonshot",
    "moonshotai",
    "nvidia",
    "zai",
    "writer",
    "xai",
];

/// Suffixes of a name that describe how a platform runs the model.
const DEPLOYMENTS: &[&str] = &["-maas", "-fp8", "-bf16", "-tee"];

/// Product lines whose unknown models get the values of a known one.
const LINES: &[&str] = &[
    "claude",
    "gpt",
    "chatgpt",
    "o",
    "gemini",
    "gemma",
    "deepseek",
    "mistral",
    "mixtral",
    "ministral",
    "magistral",
    "codestral",
    "devstral",
    "pixtral",
    "llama",
    "qwen",
    "qwq",
    "grok",
    "kimi",
    "glm",
    "minimax",
    "command",
    "nova",
    "phi",
    "jamba",
    "nemotron",
    "granite",
    "ernie",
    "hunyuan",
    "mimo",
    "sonar",
];

/// Words of a name that do not distinguish families.
const NOISE: &[&str] = &[
    "v",
    "instruct",
    "it",
    "latest",
    "preview",
    "exp",
    "experimental",
    "hf",
    "free",
    "beta",
    "cloud",
];

/// Returns the spellings to look `name` up by: first unchanged, and then with
/// fewer and fewer of the parts that platforms and dates add.
pub(crate) fn spellings(name: &str) -> Vec<String> {
    let mut list = vec![name.trim().to_ascii_lowercase()];
    let mut push = |spelling: String| {
        if !spelling.is_empty() && list.last() != Some(&spelling) {
            list.push(spelling);
        }
    };
    let lower = name.trim().to_ascii_lowercase();
    let bare = lower.rsplit('/').next().unwrap_or_default();
    push(bare.to_owned());
    let bare = match bare.strip_prefix("ft:") {
        Some(tuned) => tuned.split(':').next().unwrap_or_default(),
        None => bare,
    };
    // The size of a local model comes after a colon: `gpt-oss:120b`.
    push(bare.replace(':', "-"));
    let mut name = without_platform(bare);
    push(name.clone());
    while let Some(shorter) = without_suffix(&name) {
        name = shorter.to_owned();
        push(name.clone());
    }
    list
}

/// Returns the last of the [spellings]: the name of the model itself.
pub(crate) fn base(name: &str) -> String {
    spellings(name).pop().unwrap_or_default()
}

fn without_platform(bare: &str) -> String {
    let bare = bare.split('@').next().unwrap_or_default();
    let (mut rest, mut is_id) = match bare.split_once(':') {
        Some((rest, version)) => (rest, version.starts_with(|c: char| c.is_ascii_digit())),
        None => (bare, false),
    };
    let strip = |rest: &mut &str, known: &'static [&'static str]| {
        let (first, after) = rest.split_once('.')?;
        let vendor = *known.iter().find(|known| **known == first)?;
        *rest = after;
        Some(vendor)
    };
    strip(&mut rest, REGIONS);
    let vendor = strip(&mut rest, VENDORS);
    is_id |= vendor.is_some();
    if is_id
        && let Some((name, version)) = rest.rsplit_once("-v")
        && !version.is_empty()
        && version.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = name;
    }
    let mut name = match vendor {
        // `deepseek.r1` and `deepseek.v3.2` are named by their version only.
        Some(vendor) if rest.starts_with(['r', 'v']) && digits_at(rest, 1) => {
            format!("{vendor}-{rest}")
        }
        _ => rest.to_owned(),
    };
    for suffix in DEPLOYMENTS {
        if let Some(shorter) = name.strip_suffix(suffix) {
            name.truncate(shorter.len());
        }
    }
    for prefix in ["databricks-", "meta-"] {
        if let Some(shorter) = name.strip_prefix(prefix) {
            name = shorter.to_owned();
        }
    }
    if let Some(rest) = name.strip_prefix("gpt-35") {
        name = format!("gpt-3.5{rest}");
    }
    with_points(&name)
}

fn digits_at(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_some_and(u8::is_ascii_digit)
}

/// Writes `4p6`, as Fireworks has it, as `4.6`.
fn with_points(name: &str) -> String {
    let bytes = name.as_bytes();
    let is_point = |at: usize| {
        bytes[at] == b'p' && at > 0 && bytes[at - 1].is_ascii_digit() && digits_at(name, at + 1)
    };
    let point = |(at, c): (usize, char)| if is_point(at) { '.' } else { c };
    name.char_indices().map(point).collect()
}

/// Returns `name` without a trailing `-latest`, `-preview`, `-20250514`,
/// `-2024-08-06`, `-09-2025`, `-0613` or `-001`, if it has one.
fn without_suffix(name: &str) -> Option<&str> {
    let latest = ["-latest", "-preview", "-default"];
    if let Some(base) = latest.iter().find_map(|suffix| name.strip_suffix(suffix)) {
        return Some(base);
    }
    let shapes: [&[usize]; 5] = [&[8], &[2, 2, 4], &[4, 2], &[4], &[3]];
    shapes
        .iter()
        .find_map(|groups| strip_digit_groups(name, groups))
}

/// Strips groups of digits of the given lengths, the last first, each with the
/// `-` before it.
fn strip_digit_groups<'n>(name: &'n str, lengths: &[usize]) -> Option<&'n str> {
    lengths.iter().try_fold(name, |rest, &length| {
        let at = rest.len().checked_sub(length)?;
        let (base, digits) = rest.split_at_checked(at)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| base.strip_suffix('-'))
            .flatten()
    })
}

/// Returns the bytes that names are compared by: `4.5` and `4-5` are the same.
pub(crate) fn key(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| match byte {
        b'.' | b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    })
}

/// The family and the version in a model's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The product line and the variant, such as `claude` and `sonnet`.
    pub(crate) words: Vec<String>,
    /// The numbers of its version.
    pub(crate) version: Vec<u32>,
}

impl Kind {
    /// Reads the base name of a model.
    pub(crate) fn of(base: &str) -> Self {
        let (mut words, mut version) = (Vec::new(), Vec::new());
        let parts = base.split(['-', '_', ' ']);
        for part in parts.filter(|part| !is_size(part)) {
            let letters: String = part.chars().take_while(char::is_ascii_alphabetic).collect();
            let rest = &part[letters.len()..];
            let number: String = (rest.chars())
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            let tail = &rest[number.len()..];
            let numbers = number.split('.').filter(|n| !n.is_empty());
            version.extend(numbers.filter_map(version_number));
            // The `o` of `gpt-4o` is not part of a family.
            let tail = Some(tail).filter(|tail| *tail != "o");
            let found = [Some(letters.as_str()), tail].into_iter().flatten();
            words.extend(
                found
                    .filter(|word| !word.is_empty() && !NOISE.contains(word))
                    .map(str::to_owned),
            );
        }
        Self { words, version }
    }

    /// Returns the family, such as `claude-sonnet`.
    pub(crate) fn family(&self) -> String {
        self.words.join("-")
    }

    /// Returns the product line, such as `claude`, if it is a known one.
    pub(crate) fn line(&self) -> Option<&'static str> {
        let first = self.words.first()?;
        LINES.iter().copied().find(|line| line == first)
    }
}

/// Returns a number of a version. Three digits are a build, four a date, and a
/// zero before a digit begins a month.
fn version_number(digits: &str) -> Option<u32> {
    let is_version = digits.len() <= 2 && (digits.len() == 1 || !digits.starts_with('0'));
    is_version.then(|| digits.parse().ok()).flatten()
}

/// Returns true for `70b`, `a22b`, `8x7b`, `128k` and `16e`.
fn is_size(part: &str) -> bool {
    let part = part.strip_prefix('a').unwrap_or(part);
    part.starts_with(|c: char| c.is_ascii_digit())
        && part.ends_with(['b', 'k', 'e', 'm'])
        && part[..part.len() - 1]
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'x' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_and_dates_are_stripped() {
        for (name, expected) in [
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("anthropic/claude-sonnet-4.5", "claude-sonnet-4.5"),
            ("us.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6"),
            ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
            (
                "bedrock/us-gov-east-1/anthropic.claude-sonnet-5-5",
                "claude-sonnet-5-5",
            ),
            (
                "us-gov.anthropic.claude-3-haiku-20240307-v1:0",
                "claude-3-haiku",
            ),
            ("vertex_ai/claude-opus-5@default", "claude-opus-5"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("deepseek.v3.2", "deepseek-v3.2"),
            ("us.deepseek.r1-v1:0", "deepseek-r1"),
            ("deepseek-v3", "deepseek-v3"),
            ("amazon.nova-pro-v1:0", "nova-pro"),
            (
                "meta-llama/Meta-Llama-3.1-8B-Instruct",
                "llama-3.1-8b-instruct",
            ),
            (
                "vertex_ai/meta/llama-3.2-90b-vision-instruct-maas",
                "llama-3.2-90b-vision-instruct",
            ),
            ("fireworks_ai/accounts/fireworks/models/glm-4p6", "glm-4.6"),
            ("azure/gpt-35-turbo-0125", "gpt-3.5-turbo"),
            ("ft:gpt-4o-2024-08-06:acme::1", "gpt-4o"),
            ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
            ("models/gemini-2.0-flash-001", "gemini-2.0-flash"),
            ("deepseek/deepseek-chat-v3.1:free", "deepseek-chat-v3.1"),
            ("GPT-4o", "gpt-4o"),
        ] {
            assert_eq!(base(name), expected, "{name}");
        }
        assert!(spellings("gpt-oss:120b").contains(&"gpt-oss-120b".to_owned()));
    }

    #[test]
    fn a_name_tells_family_and_version() {
        for (name, family, version) in [
            ("claude-sonnet-4-5", "claude-sonnet", vec![4, 5]),
            ("claude-3-5-sonnet", "claude-sonnet", vec![3, 5]),
            ("gpt-5.4-mini", "gpt-mini", vec![5, 4]),
            ("gpt-4o-mini", "gpt-mini", vec![4]),
            ("gpt-5.6", "gpt", vec![5, 6]),
            ("o4-mini", "o-mini", vec![4]),
            ("gemini-3.8-flash", "gemini-flash", vec![3, 8]),
            ("qwen2.5-coder-32b-instruct", "qwen-coder", vec![2, 5]),
            ("llama-3.3-70b-instruct", "llama", vec![3, 3]),
            ("qwen3-235b-a22b", "qwen", vec![3]),
            ("deepseek-v3.2", "deepseek", vec![3, 2]),
            ("gpt-oss-120b", "gpt-oss", vec![]),
            ("mixtral-8x7b", "mixtral", vec![]),
        ] {
            let kind = Kind::of(name);
            assert_eq!(
                (kind.family().as_str(), kind.version),
                (family, version),
                "{name}"
            );
        }
        assert_eq!(Kind::of("my-model-7b").line(), None);
        assert_eq!(Kind::of("o4-mini").line(), Some("o"));
    }
}
