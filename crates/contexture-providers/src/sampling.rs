//! Sampling settings, and their names and ranges for each provider.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::check::refused;
use crate::{Format, Refused, anthropic};

/// The sampling settings of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// The sampling temperature. Higher values give more varied responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling: only the most likely tokens with this total
    /// probability are used, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The number of most likely tokens that are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// Texts at which the response ends: a list, or one text.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "one_or_several"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "OneOrSeveral"))]
    pub stop: Vec<String>,
    /// The random seed. The same seed gives the same response if the provider
    /// supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The penalty for tokens by how often they occurred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// The penalty for tokens that occurred at least once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// The maximum number of tokens of the response, if it is lower than the
    /// reserved number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

#[cfg(feature = "schema")]
contexture_core::stands_for! {
    /// A text or a list of texts.
    OneOrSeveral, |generator| match generator.contract().is_deserialize() {
        true => schemars::json_schema!({"type": ["string", "array"], "items": {"type": "string"}}),
        false => schemars::json_schema!({"type": "array", "items": {"type": "string"}}),
    }
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or a list of texts")]
    enum Form {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::One(text) => vec![text],
        Form::Several(texts) => texts,
    })
}

/// The settings that not every provider has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Temperature,
    TopP,
    TopK,
    Stop,
    Seed,
    FrequencyPenalty,
    PresencePenalty,
}

impl Key {
    const ALL: [Key; 7] = [
        Key::Temperature,
        Key::TopP,
        Key::TopK,
        Key::Stop,
        Key::Seed,
        Key::FrequencyPenalty,
        Key::PresencePenalty,
    ];

    fn name(self) -> &'static str {
        match self {
            Key::Temperature => "temperature",
            Key::TopP => "top_p",
            Key::TopK => "top_k",
            Key::Stop => "stop",
            Key::Seed => "seed",
            Key::FrequencyPenalty => "frequency_penalty",
            Key::PresencePenalty => "presence_penalty",
        }
    }
}

/// A setting that a provider supports.
struct SupportedSetting {
    key: Key,
    field: &'static str,
    /// The minimum and the maximum value; for texts, their number.
    range: (f64, f64),
    rule: &'static str,
}

const fn taken(
    key: Key,
    field: &'static str,
    range: (f64, f64),
    rule: &'static str,
) -> SupportedSetting {
    SupportedSetting {
        key,
        field,
        range,
        rule,
    }
}

const MANY: f64 = 1e9;

const ANTHROPIC: &[SupportedSetting] = &[
    taken(
        Key::Temperature,
        "temperature",
        (0.0, 1.0),
        "anthropic.temperature",
    ),
    taken(Key::TopP, "top_p", (0.0, 1.0), "anthropic.top_p"),
    taken(Key::TopK, "top_k", (1.0, MANY), "anthropic.top_k"),
    taken(Key::Stop, "stop_sequences", (0.0, MANY), "anthropic.stop"),
];

/// From Claude 4.7 on, no other setting exists. Earlier models support the
/// others only with version 2023-06-01 of the API.
const ANTHROPIC_LATER: &[SupportedSetting] = &[taken(
    Key::Stop,
    "stop_sequences",
    (0.0, MANY),
    "anthropic.stop",
)];

/// Chat and the older completions.
const OPENAI: &[SupportedSetting] = &[
    taken(
        Key::Temperature,
        "temperature",
        (0.0, 2.0),
        "openai.temperature",
    ),
    taken(Key::TopP, "top_p", (0.0, 1.0), "openai.top_p"),
    taken(Key::Stop, "stop", (0.0, 4.0), "openai.stop"),
    taken(
        Key::Seed,
        "seed",
        (i64::MIN as f64, i64::MAX as f64),
        "openai.seed",
    ),
    taken(
        Key::FrequencyPenalty,
        "frequency_penalty",
        (-2.0, 2.0),
        "openai.frequency_penalty",
    ),
    taken(
        Key::PresencePenalty,
        "presence_penalty",
        (-2.0, 2.0),
        "openai.presence_penalty",
    ),
];

const RESPONSES: &[SupportedSetting] = &[
    taken(
        Key::Temperature,
        "temperature",
        (0.0, 2.0),
        "openai.temperature",
    ),
    taken(Key::TopP, "top_p", (0.0, 1.0), "openai.top_p"),
];

const GEMINI: &[SupportedSetting] = &[
    taken(
        Key::Temperature,
        "temperature",
        (0.0, 2.0),
        "gemini.temperature",
    ),
    taken(Key::TopP, "topP", (0.0, 1.0), "gemini.top_p"),
    taken(Key::TopK, "topK", (1.0, MANY), "gemini.top_k"),
    taken(Key::Stop, "stopSequences", (0.0, 5.0), "gemini.stop"),
    taken(
        Key::Seed,
        "seed",
        (i32::MIN as f64, i32::MAX as f64),
        "gemini.seed",
    ),
    taken(
        Key::FrequencyPenalty,
        "frequencyPenalty",
        (-2.0, 2.0),
        "gemini.frequency_penalty",
    ),
    taken(
        Key::PresencePenalty,
        "presencePenalty",
        (-2.0, 2.0),
        "gemini.presence_penalty",
    ),
];

/// Returns the settings that a request of this format to this model supports,
/// or `None` if the format has no settings.
fn supported_by(format: Format, model: &str) -> Option<&'static [SupportedSetting]> {
    match format {
        Format::Json | Format::Text => None,
        Format::Anthropic if anthropic::is_since(model, (4, 7)) => Some(ANTHROPIC_LATER),
        Format::Anthropic => Some(ANTHROPIC),
        Format::OpenAiChat | Format::OpenAiCompletions => Some(OPENAI),
        Format::OpenAiResponses => Some(RESPONSES),
        Format::Gemini => Some(GEMINI),
    }
}

impl Sampling {
    /// Returns settings with no value set.
    pub fn unset() -> &'static Self {
        static UNSET: Sampling = Sampling {
            temperature: None,
            top_p: None,
            top_k: None,
            stop: Vec::new(),
            seed: None,
            frequency_penalty: None,
            presence_penalty: None,
            max_tokens: None,
        };
        &UNSET
    }

    /// Returns true when nothing is set.
    pub fn is_unset(&self) -> bool {
        self == Self::unset()
    }

    /// Returns the names of settings that a request of this format to this
    /// model does not support and leaves out. The text form has no settings:
    /// its sender makes them, so the result is empty.
    pub fn unsupported(&self, format: Format, model: &str) -> Vec<&'static str> {
        let Some(taken) = supported_by(format, model) else {
            return Vec::new();
        };
        Key::ALL
            .into_iter()
            .filter(|key| self.number(*key).is_some())
            .filter(|key| !taken.iter().any(|taken| taken.key == *key))
            .map(Key::name)
            .collect()
    }

    /// Returns a setting as a number; for texts, their number. Returns `None`
    /// if it is not set.
    fn number(&self, key: Key) -> Option<f64> {
        match key {
            Key::Temperature => self.temperature,
            Key::TopP => self.top_p,
            Key::TopK => self.top_k.map(|k| k as f64),
            Key::Stop => Some(self.stop.len() as f64).filter(|&count| count > 0.0),
            Key::Seed => self.seed.map(|seed| seed as f64),
            Key::FrequencyPenalty => self.frequency_penalty,
            Key::PresencePenalty => self.presence_penalty,
        }
    }

    /// Writes the settings that the provider supports.
    pub(crate) fn write(
        &self,
        format: Format,
        model: &str,
        request: &mut Map<String, Value>,
    ) -> Result<(), Refused> {
        let taken = supported_by(format, model).unwrap_or_default();
        let both = self.temperature.is_some() && self.top_p.is_some();
        if both
            && format == Format::Anthropic
            && taken.len() > 1
            && anthropic::is_since(model, (4, 1))
        {
            return Err(refused(
                "anthropic.temperature_or_top_p",
                format!("`{model}` takes temperature or top_p, not both: leave one out"),
            ));
        }
        for setting in taken {
            let Some(number) = self.number(setting.key) else {
                continue;
            };
            let (least, most) = setting.range;
            let name = setting.key.name();
            if !(least..=most).contains(&number) {
                let message = match setting.key {
                    Key::Stop => {
                        format!("{number} stop texts are given; the limit is {most}")
                    }
                    _ if most == MANY => format!("{name} is {number}: give at least {least}"),
                    _ => format!("{name} is {number}: the provider takes {least} to {most}"),
                };
                return Err(refused(setting.rule, message));
            }
            let value = match setting.key {
                Key::Stop => {
                    self.check_stop(setting)?;
                    json!(self.stop)
                }
                Key::TopK => json!(self.top_k),
                Key::Seed => json!(self.seed),
                _ => json!(number),
            };
            request.insert(setting.field.to_owned(), value);
        }
        Ok(())
    }

    fn check_stop(&self, setting: &SupportedSetting) -> Result<(), Refused> {
        // A line end is a usual place to stop, but Anthropic does not take it.
        let blanks = setting.rule != "anthropic.stop";
        let says_nothing = |text: &&String| match blanks {
            true => text.is_empty(),
            false => text.trim().is_empty(),
        };
        match self.stop.iter().find(says_nothing) {
            None => Ok(()),
            Some(text) => Err(refused(
                setting.rule,
                format!("the answer is to stop at {text:?}: the provider wants something visible"),
            )),
        }
    }
}
