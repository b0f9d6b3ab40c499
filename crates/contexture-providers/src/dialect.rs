//! The differences between providers that matter for a conversation.

use std::borrow::Cow;

use contexture_core::{ContentHash, Media};

use crate::Refused;

/// The capabilities of a provider, and the names of its rules.
pub(crate) struct Dialect {
    /// The name that blocks in its own form carry: that of its format.
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
    /// Whether it accepts the model's reasoning.
    pub(crate) thinking: bool,
    /// Whether the model's own messages may hold media.
    pub(crate) model_media: bool,
    /// Whether the result of a tool may hold media.
    pub(crate) result_media: bool,
    /// Whether a model can continue its own last message.
    pub(crate) goes_on: fn(model: &str) -> bool,
    /// Whether any model resumes its own last message that uses the provider's
    /// tools: the provider paused it.
    pub(crate) resumes: bool,
    /// Whether a speaker may have several messages in a row.
    pub(crate) in_a_row: bool,
    /// Whether the model's message may come first.
    pub(crate) model_first: bool,
    /// Whether it accepts a text as the name of a tool.
    pub(crate) is_tool_name: fn(&str) -> bool,
    /// A description of valid tool names.
    pub(crate) tool_names: &'static str,
    /// Returns the id of a call in a form that the provider accepts.
    pub(crate) call_id: fn(&str) -> Cow<'_, str>,
    /// Fails for a medium that the provider does not accept.
    pub(crate) check_media: fn(&Media) -> Result<(), Refused>,
}

/// The names of a provider's rules.
pub(crate) struct Rules {
    pub(crate) not_empty: &'static str,
    pub(crate) roles: &'static str,
    pub(crate) user_first: &'static str,
    pub(crate) user_last: &'static str,
    pub(crate) alternation: &'static str,
    pub(crate) no_blank_text: &'static str,
    pub(crate) calls_answered: &'static str,
    pub(crate) results_called: &'static str,
    pub(crate) results_first: &'static str,
    pub(crate) call_ids: &'static str,
    pub(crate) call_json: &'static str,
    pub(crate) tool_name: &'static str,
    pub(crate) tool_names_unique: &'static str,
    pub(crate) tool_json: &'static str,
    pub(crate) thinking: &'static str,
    pub(crate) window: &'static str,
}

/// Names the rules of a provider; the second argument is its word for messages.
macro_rules! rules {
    ($provider:literal, $messages:literal) => {
        $crate::dialect::Rules {
            not_empty: concat!($provider, ".", $messages, "_not_empty"),
            roles: concat!($provider, ".roles"),
            user_first: concat!($provider, ".user_first"),
            user_last: concat!($provider, ".user_last"),
            alternation: concat!($provider, ".alternation"),
            no_blank_text: concat!($provider, ".no_blank_text"),
            calls_answered: concat!($provider, ".calls_answered"),
            results_called: concat!($provider, ".results_called"),
            results_first: concat!($provider, ".results_first"),
            call_ids: concat!($provider, ".call_ids"),
            call_json: concat!($provider, ".call_json"),
            tool_name: concat!($provider, ".tool_name"),
            tool_names_unique: concat!($provider, ".tool_names_unique"),
            tool_json: concat!($provider, ".tool_json"),
            thinking: concat!($provider, ".thinking"),
            window: concat!($provider, ".window"),
        }
    };
}
pub(crate) use rules;

/// Returns true for a letter, a digit, `_` or `-` of ASCII.
pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns true for a character of ASCII that can be seen.
pub(crate) fn is_graphic(c: char) -> bool {
    c.is_ascii_graphic()
}

/// Returns true for the names that Anthropic and OpenAI take.
pub(crate) fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(is_word)
}

/// The description of names that [`is_plain_name`] accepts.
pub(crate) const PLAIN_NAMES: &str = "1 to 64 letters, digits, _ or -";

/// Returns `id` if it has at most `longest` characters that are all `taken`.
/// Otherwise returns an id made of its plain characters and its hash, so that a
/// call and its result have the same id and two calls have different ones.
pub(crate) fn call_id(id: &str, longest: usize, taken: fn(char) -> bool) -> Cow<'_, str> {
    if (1..=longest).contains(&id.len()) && id.chars().all(taken) {
        return Cow::Borrowed(id);
    }
    let hash = ContentHash::of(id.as_bytes()).to_string();
    let hash = &hash[..8];
    let plain: String = id
        .chars()
        .map(|c| if is_word(c) { c } else { '_' })
        .take(longest - hash.len() - 1)
        .collect();
    Cow::Owned(format!("{plain}_{hash}"))
}
