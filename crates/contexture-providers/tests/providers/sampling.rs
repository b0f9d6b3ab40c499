//! How an answer is drawn, in each provider's words.
use crate::common::*;
use contexture_providers::{Format, Prompt, Refused, Sampling};
use serde_json::{Value, json};

fn ask(format: Format, sampling: &Sampling) -> Result<Value, Refused> {
    let talk = Talk {
        event: vec![user("Go on.")],
        ..Talk::default()
    };
    Prompt {
        max_output: Some(500),
        sampling,
        ..Prompt::new(&talk.layout(), "m", 9000)
    }
    .request(format)
}

/// Returns the fields that the settings add to a request.
fn added(format: Format, sampling: &Sampling) -> Value {
    let mut request = ask(format, sampling).unwrap();
    let plain = ask(format, Sampling::unset()).unwrap();
    let fields = request.as_object_mut().unwrap();
    fields.retain(|key, value| plain.get(key) != Some(value));
    request
}

fn all() -> Sampling {
    Sampling {
        temperature: Some(0.7),
        top_p: Some(0.9),
        top_k: Some(40),
        stop: vec!["END".to_owned(), "Human:".to_owned()],
        seed: Some(42),
        frequency_penalty: Some(-0.5),
        presence_penalty: Some(1.0),
        max_tokens: Some(100),
    }
}

#[test]
fn each_provider_gets_the_settings_it_supports() {
    let stop = json!(["END", "Human:"]);
    for (format, expected, unsupported) in [
        (
            Format::Anthropic,
            json!({
                "max_tokens": 100, "temperature": 0.7, "top_p": 0.9, "top_k": 40,
                "stop_sequences": stop,
            }),
            vec!["seed", "frequency_penalty", "presence_penalty"],
        ),
        (
            Format::OpenAiChat,
            json!({
                "max_completion_tokens": 100, "temperature": 0.7, "top_p": 0.9, "stop": stop,
                "seed": 42, "frequency_penalty": -0.5, "presence_penalty": 1.0,
            }),
            vec!["top_k"],
        ),
        (
            Format::OpenAiCompletions,
            json!({
                "max_tokens": 100, "temperature": 0.7, "top_p": 0.9, "stop": stop,
                "seed": 42, "frequency_penalty": -0.5, "presence_penalty": 1.0,
            }),
            vec!["top_k"],
        ),
        (
            Format::OpenAiResponses,
            json!({"max_output_tokens": 100, "temperature": 0.7, "top_p": 0.9}),
            vec![
                "top_k",
                "stop",
                "seed",
                "frequency_penalty",
                "presence_penalty",
            ],
        ),
        (
            Format::Gemini,
            json!({"generationConfig": {
                "maxOutputTokens": 100, "temperature": 0.7, "topP": 0.9, "topK": 40,
                "stopSequences": stop, "seed": 42, "frequencyPenalty": -0.5, "presencePenalty": 1.0,
            }}),
            vec![],
        ),
        (Format::Text, json!(""), vec![]),
    ] {
        if format != Format::Text {
            assert_eq!(added(format, &all()), expected);
        }
        assert_eq!(all().unsupported(format, "m"), unsupported);
        assert_eq!(Sampling::unset().unsupported(format, "m"), [""; 0]);
    }
}

#[test]
fn the_response_limit_is_at_most_the_reserved_tokens() {
    let sampling = Sampling {
        max_tokens: Some(8000),
        ..Sampling::default()
    };
    let request = ask(Format::Anthropic, &sampling).unwrap();
    assert_eq!(request["max_tokens"], 500);
    let none = Sampling {
        max_tokens: Some(0),
        ..Sampling::default()
    };
    for format in FORMATS {
        let rule = ask(format, &none).unwrap_err().rule;
        assert!(rule.ends_with(".window"), "{rule}");
    }
}

#[test]
fn settings_out_of_range_are_rejected_with_the_range() {
    let refused = |format, sampling: Value| {
        let sampling: Sampling = serde_json::from_value(sampling).unwrap();
        let refused = ask(format, &sampling).unwrap_err();
        format!("{refused}")
    };
    for (format, sampling, expected) in [
        (
            Format::Anthropic,
            json!({"temperature": 1.5}),
            "temperature is 1.5: the provider takes 0 to 1 (anthropic.temperature)",
        ),
        (
            Format::OpenAiChat,
            json!({"temperature": 2.5}),
            "temperature is 2.5: the provider takes 0 to 2 (openai.temperature)",
        ),
        (
            Format::Gemini,
            json!({"temperature": -0.1}),
            "temperature is -0.1: the provider takes 0 to 2 (gemini.temperature)",
        ),
        (
            Format::OpenAiResponses,
            json!({"top_p": 1.1}),
            "top_p is 1.1: the provider takes 0 to 1 (openai.top_p)",
        ),
        (
            Format::Gemini,
            json!({"top_k": 0}),
            "top_k is 0: give at least 1 (gemini.top_k)",
        ),
        (
            Format::OpenAiCompletions,
            json!({"stop": ["a", "b", "c", "d", "e"]}),
            "5 stop texts are given; the limit is 4 (openai.stop)",
        ),
        (
            Format::Anthropic,
            json!({"stop": ["\n"]}),
            "the answer is to stop at \"\\n\": the provider wants something visible (anthropic.stop)",
        ),
        (
            Format::Gemini,
            json!({"seed": 3_000_000_000_i64}),
            "seed is 3000000000: the provider takes -2147483648 to 2147483647 (gemini.seed)",
        ),
        (
            Format::OpenAiChat,
            json!({"presence_penalty": 3}),
            "presence_penalty is 3: the provider takes -2 to 2 (openai.presence_penalty)",
        ),
    ] {
        assert_eq!(refused(format, sampling), expected);
    }
    let line_end = Sampling {
        stop: vec!["\n".to_owned()],
        ..Sampling::default()
    };
    assert_eq!(
        added(Format::OpenAiChat, &line_end),
        json!({"stop": ["\n"]})
    );
}

#[test]
fn an_unknown_setting_is_rejected() {
    let read: Result<Sampling, _> = serde_json::from_value(json!({"temprature": 1}));
    assert!(read.unwrap_err().to_string().contains("temprature"));
    let read: Sampling = serde_json::from_value(json!({"top_k": 3})).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), json!({"top_k": 3}));
    assert!(!read.is_unset());
}

#[test]
fn newer_anthropic_models_get_no_sampling_settings() {
    let talk = Talk {
        event: vec![user("Go on.")],
        ..Talk::default()
    };
    let layout = talk.layout();
    let ask = |model: &str, sampling: &Sampling| {
        let prompt = Prompt {
            sampling,
            ..Prompt::new(&layout, model, 9000)
        };
        prompt.request(Format::Anthropic)
    };
    for model in ["claude-opus-4-7", "claude-sonnet-5-5", "claude-opus-5"] {
        let request = ask(model, &all()).unwrap();
        assert_eq!(request.get("temperature"), None);
        assert_eq!(request["stop_sequences"], json!(["END", "Human:"]));
        assert_eq!(
            all().unsupported(Format::Anthropic, model),
            [
                "temperature",
                "top_p",
                "top_k",
                "seed",
                "frequency_penalty",
                "presence_penalty"
            ]
        );
    }
    let refused = ask("claude-sonnet-4-6", &all()).unwrap_err();
    assert_eq!(refused.rule, "anthropic.temperature_or_top_p");
    let cooler = Sampling {
        top_p: None,
        ..all()
    };
    for (model, sampling) in [
        ("claude-sonnet-4-6", &cooler),
        ("claude-haiku-4-5-20251001", &cooler),
        ("claude-sonnet-4-20250514", &all()),
        ("claude-3-5-sonnet-latest", &all()),
    ] {
        assert_eq!(ask(model, sampling).unwrap()["temperature"], 0.7);
    }
}
