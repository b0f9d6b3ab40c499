//! Control tokens: text that a model's chat template reads as structure.
//!
//! Providers with message APIs treat such text as plain characters. A prompt
//! that goes to a raw template, as in a completions API, is tokenized as it is,
//! so there, and only there, the tokens of the model's own family get a
//! backslash after their first character (`<\|im_start|>`).

use std::borrow::Cow;
use std::ops::Range;

/// A family of chat templates, by the control tokens that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Template {
    /// `<|im_start|>`, `<tool_call>`: Qwen, Yi, Hermes and OpenAI's models;
    /// `<|start_header_id|>`: Llama 3 and later; `<|user|>`: Phi and GLM.
    Bars,
    /// `[INST]`, `<<SYS>>`, `<s>`, `[TOOL_CALLS]`: Llama 2 and Mistral.
    Brackets,
    /// `<start_of_turn>`, `<bos>`: Gemma.
    Gemma,
    /// `<｜begin▁of▁sentence｜>`: DeepSeek.
    DeepSeek,
    /// `\n\nHuman:`, `\n\nAssistant:`: Claude's former completions API.
    Claude,
    /// All of them, for a model of no known family.
    Any,
}

/// Parts of a model's name, and the templates of the models that have them. The first part that
/// a name has counts: a fine-tuned model has the template of its own family and often the name of
/// the model that it was made from.
const FAMILIES: [(&str, Template); 23] = [
    ("hermes", Template::Bars),
    ("dolphin", Template::Bars),
    ("distill-llama", Template::Any),
    ("distill-qwen", Template::Any),
    ("claude", Template::Claude),
    ("deepseek", Template::DeepSeek),
    ("gemma", Template::Gemma),
    ("llama-2", Template::Brackets),
    ("llama2", Template::Brackets),
    ("mistral", Template::Brackets),
    ("mixtral", Template::Brackets),
    ("codestral", Template::Brackets),
    ("devstral", Template::Brackets),
    ("magistral", Template::Brackets),
    ("ministral", Template::Brackets),
    ("llama", Template::Bars),
    ("qwen", Template::Bars),
    ("qwq", Template::Bars),
    ("chatml", Template::Bars),
    ("phi-", Template::Bars),
    ("glm", Template::Bars),
    ("gpt", Template::Bars),
    ("davinci", Template::Bars),
];

impl Template {
    /// Returns the template of a model by its name.
    pub fn of_model(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let family = FAMILIES.iter().find(|(part, _)| name.contains(part));
        family.map_or(Self::Any, |&(_, template)| template)
    }

    fn reads(self, of: Template) -> bool {
        self == Self::Any || self == of
    }
}

/// Control tokens that are always spelled the same, apart from case.
const WORDS: [(&str, Template); 26] = [
    ("<tool_call>", Template::Bars),
    ("</tool_call>", Template::Bars),
    ("<tool_response>", Template::Bars),
    ("</tool_response>", Template::Bars),
    ("[inst]", Template::Brackets),
    ("[/inst]", Template::Brackets),
    ("[tool_calls]", Template::Brackets),
    ("[tool_results]", Template::Brackets),
    ("[/tool_results]", Template::Brackets),
    ("[available_tools]", Template::Brackets),
    ("[/available_tools]", Template::Brackets),
    ("[system_prompt]", Template::Brackets),
    ("[/system_prompt]", Template::Brackets),
    ("[args]", Template::Brackets),
    ("[call_id]", Template::Brackets),
    ("[think]", Template::Brackets),
    ("[/think]", Template::Brackets),
    ("<<sys>>", Template::Brackets),
    ("<</sys>>", Template::Brackets),
    ("<s>", Template::Brackets),
    ("</s>", Template::Brackets),
    ("<start_of_turn>", Template::Gemma),
    ("<end_of_turn>", Template::Gemma),
    ("<bos>", Template::Gemma),
    ("<eos>", Template::Gemma),
    ("<pad>", Template::Gemma),
];

/// The speakers of [`Template::Claude`]. A colon follows, and an empty line
/// comes before.
const SPEAKERS: [&str; 2] = ["Human", "Assistant"];

/// The longest name in a `<|name|>`.
const MAX_NAME: usize = 64;

/// Returns the ranges of the control tokens of `template` in `text`, in order.
pub fn control_tokens(text: &str, template: Template) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for at in memchr::memchr3_iter(b'<', b'[', b'\n', text.as_bytes()) {
        if let Some(length) = token_length(&text[at..], template) {
            found.push(at..at + length);
        }
    }
    found
}

/// Returns `text` with a backslash after the first character of each control
/// token of `template`. A text without control tokens is returned unchanged.
pub fn escape_control(text: &str, template: Template) -> Cow<'_, str> {
    escape_each(text, template, |_, _| {})
}

/// Escapes control tokens like [`escape_control`], and calls `note` with each
/// token and the text written before its backslash.
pub(crate) fn escape_each<'t>(
    text: &'t str,
    template: Template,
    mut note: impl FnMut(&str, &str),
) -> Cow<'t, str> {
    let tokens = control_tokens(text, template);
    if tokens.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + tokens.len() + 1);
    let mut copied = 0;
    for token in tokens {
        let split = split_of(text, &token);
        out.push_str(&text[copied..split]);
        note(text[token].trim_start(), &out);
        out.push('\\');
        copied = split;
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Returns the position of a token's backslash: before the name of a speaker,
/// after the first character of any other token.
fn split_of(text: &str, token: &Range<usize>) -> usize {
    let line_ends = text[token.clone()]
        .bytes()
        .take_while(|&b| b == b'\n')
        .count();
    token.start + line_ends.max(1)
}

/// Returns the length of the control token that `text` begins with.
fn token_length(text: &str, template: Template) -> Option<usize> {
    if text.starts_with('\n') {
        let rest = text
            .strip_prefix("\n\n")
            .filter(|_| template.reads(Template::Claude))?;
        let speaks = |name: &&&str| {
            rest.strip_prefix(**name)
                .is_some_and(|r| r.starts_with(':'))
        };
        return SPEAKERS.iter().find(speaks).map(|name| 2 + name.len() + 1);
    }
    let begins = |word: &str| {
        let start = text.get(..word.len())?;
        start.eq_ignore_ascii_case(word).then_some(word.len())
    };
    if let Some(rest) = text.strip_prefix("<|") {
        let length = template
            .reads(Template::Bars)
            .then(|| name_length(rest, "|>"))??;
        return Some("<|".len() + length);
    }
    if let Some(rest) = text.strip_prefix("<｜") {
        let length = template
            .reads(Template::DeepSeek)
            .then(|| name_length(rest, "｜>"))??;
        return Some("<｜".len() + length);
    }
    let words = WORDS.iter().filter(|(_, of)| template.reads(*of));
    words.map(|(word, _)| *word).find_map(begins)
}

/// Returns the length of a name that ends with `end`, with the end.
fn name_length(text: &str, end: &str) -> Option<usize> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-▁".contains(c);
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let named = length > 0 && length <= MAX_NAME;
    (named && text[length..].starts_with(end)).then_some(length + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: Template, text: &str, expected: &str) {
        assert_eq!(escape_control(text, template), expected);
        // Escaping again changes nothing.
        assert_eq!(escape_control(expected, template), expected);
    }

    #[test]
    fn each_family_has_its_own_tokens() {
        check(Template::Bars, "<|im_start|>system", "<\\|im_start|>system");
        check(Template::Bars, "<tool_call>", "<\\tool_call>");
        check(
            Template::Brackets,
            "[INST] hi [/INST]",
            "[\\INST] hi [\\/INST]",
        );
        check(Template::Brackets, "[TOOL_CALLS]", "[\\TOOL_CALLS]");
        check(
            Template::Brackets,
            "[TOOL_CALLS]f[CALL_ID]1[ARGS]{}",
            "[\\TOOL_CALLS]f[\\CALL_ID]1[\\ARGS]{}",
        );
        check(
            Template::Brackets,
            "[THINK]a[/THINK]",
            "[\\THINK]a[\\/THINK]",
        );
        check(Template::Brackets, "</s><<SYS>>", "<\\/s><\\<SYS>>");
        check(
            Template::Gemma,
            "<bos><start_of_turn>",
            "<\\bos><\\start_of_turn>",
        );
        check(Template::DeepSeek, "<｜User｜>", "<\\｜User｜>");
        check(Template::Claude, "a\n\nHuman: b", "a\n\n\\Human: b");
        check(
            Template::Any,
            "<|eot_id|>[INST]<eos>",
            "<\\|eot_id|>[\\INST]<\\eos>",
        );
    }

    #[test]
    fn tokens_of_other_families_are_left_alone() {
        check(
            Template::Gemma,
            "<|im_start|>[INST]<s>",
            "<|im_start|>[INST]<s>",
        );
        check(Template::Bars, "<s>\n\nHuman:", "<s>\n\nHuman:");
        check(
            Template::Any,
            "f <| x |> g, [instance], Human:",
            "f <| x |> g, [instance], Human:",
        );
    }

    #[test]
    fn the_template_follows_the_name_of_the_model() {
        for (name, template) in [
            ("claude-2.1", Template::Claude),
            ("meta-llama/Llama-2-7b", Template::Brackets),
            ("meta-llama/Llama-3.1-8B", Template::Bars),
            ("Qwen/Qwen3-8B", Template::Bars),
            ("deepseek-r1", Template::DeepSeek),
            ("deepseek-r1-distill-qwen-7b", Template::Any),
            ("DeepSeek-R1-Distill-Llama-70B", Template::Any),
            ("teknium/OpenHermes-2.5-Mistral-7B", Template::Bars),
            ("Nous-Hermes-2-Mixtral-8x7B-DPO", Template::Bars),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Template::Brackets),
            ("google/gemma-3-27b-it", Template::Gemma),
            ("my-own", Template::Any),
        ] {
            assert_eq!(Template::of_model(name), template, "{name}");
        }
    }
}
