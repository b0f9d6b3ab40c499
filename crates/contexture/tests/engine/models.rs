//! The model table of a root, and the tokens that are reserved by default.

use contexture::config::{Config, MODEL_TABLE};
use contexture::tokens::ModelTable;
use contexture::{Assembled, Engine, Format, Request, Root};
use serde_json::Value;

struct Lab {
    dir: tempfile::TempDir,
    root: Root,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let lab = Self { dir, root };
        lab.write(
            "working-set.yml",
            "files:\n  - path: a.md\n    priority: 0.5\n",
        );
        lab.write("a.md", "Some words.\n");
        lab
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn engine(&self, config: &str) -> Engine {
        Engine::new(Config::parse(config).unwrap(), &self.root).unwrap()
    }

    fn ask(&self, config: &str, model: &str, max_tokens: Option<u64>) -> Assembled {
        let request = Request {
            model: Some(model.to_owned()),
            max_tokens,
            ..Request::default()
        };
        self.engine(config).assemble(&self.root, &request).unwrap()
    }
}

fn codes(assembled: &Assembled) -> Vec<&str> {
    let warnings = assembled.report.warnings.iter();
    warnings.map(|warning| &*warning.code).collect()
}

#[test]
fn the_response_has_room_by_default() {
    let lab = Lab::new();
    let models = "[models.plain]\nwindow = 1000\n[models.terse]\nwindow = 8000\nmax_output = 300";
    for (model, max_tokens, reserved) in [
        // The model's output limit.
        ("gpt-4o", None, 16_384),
        ("terse", None, 300),
        // Not more than 32,000.
        ("claude-sonnet-5-5", None, 32_000),
        ("gpt-5.6", None, 32_000),
        // Not more than a quarter of the window.
        ("gpt-4o", Some(2_000), 500),
        ("plain", None, 250),
    ] {
        let request = Request {
            model: Some(model.to_owned()),
            max_tokens,
            ..Request::default()
        };
        let assembled = lab.engine(models).assemble(&lab.root, &request).unwrap();
        assert_eq!(assembled.budget.reserve_response(), reserved, "{model}");
        assert_eq!(assembled.report.budget.reserved, reserved, "{model}");
    }
}

#[test]
fn explicit_values_override_defaults() {
    let lab = Lab::new();
    let reserve = |config: &str, request: Request| {
        let assembled = lab.engine(config).assemble(&lab.root, &request).unwrap();
        assembled.budget.reserve_response()
    };
    let of = |reserve_response| Request {
        model: Some("gpt-4o".to_owned()),
        reserve_response,
        ..Request::default()
    };
    assert_eq!(reserve("", of(Some(0))), 0);
    assert_eq!(reserve("", of(Some(77))), 77);
    assert_eq!(reserve("reserve_response = 0", of(None)), 0);
    assert_eq!(reserve("reserve_response = 500", of(None)), 500);
    assert_eq!(reserve("reserve_response = 500", of(Some(77))), 77);
    // A manifest that names its budget names all of it.
    let manifest = |budget: &str| {
        let text = format!("budget: {budget}\nfiles:\n  - path: a.md\n    priority: 0.5\n");
        lab.write("working-set.yml", &text);
    };
    manifest("{max_tokens: 4000}");
    assert_eq!(reserve("", of(None)), 0);
    manifest("{max_tokens: 4000, reserved_for_response: 90}");
    assert_eq!(reserve("reserve_response = 500", of(None)), 90);
    // Tokens for tools are not reserved for the response.
    manifest("{}");
    let request = Request {
        reserve_tools: Some(3_800),
        max_tokens: Some(4_000),
        ..of(None)
    };
    assert_eq!(reserve("", request), 50);
}

#[test]
fn requests_carry_the_reserve_as_their_maximum() {
    let lab = Lab::new();
    let body = |assembled: &Assembled, format| -> Value {
        serde_json::from_str(&assembled.render(format).unwrap()).unwrap()
    };
    let gpt = lab.ask("", "gpt-5.6", None);
    let chat = body(&gpt, Format::OpenAiChat);
    assert_eq!(chat["max_completion_tokens"], 32_000);
    let responses = body(&gpt, Format::OpenAiResponses);
    assert_eq!(responses["max_output_tokens"], 32_000);
    let claude = lab.ask("", "claude-opus-4-1", None);
    assert_eq!(body(&claude, Format::Anthropic)["max_tokens"], 32_000);
    let gemini = lab.ask("", "gemini-3.8-flash", Some(4_000));
    let config = &body(&gemini, Format::Gemini)["generationConfig"];
    assert_eq!(config["maxOutputTokens"], 1_000);
    // A larger reserve does not ask for more than the model can write.
    let request = Request {
        model: Some("gpt-4o".to_owned()),
        reserve_response: Some(50_000),
        ..Request::default()
    };
    let large = lab.engine("").assemble(&lab.root, &request).unwrap();
    assert_eq!(large.budget.reserve_response(), 50_000);
    assert_eq!(
        body(&large, Format::OpenAiChat)["max_completion_tokens"],
        16_384
    );
}

#[test]
fn a_root_may_have_its_own_table() {
    let lab = Lab::new();
    let table = r#"{"date": "2026-12-01", "source": "mine", "models": [
        {"name": "gpt-9", "provider": "openai", "window": 7000, "max_output": 900}]}"#;
    let table = ModelTable::import(table, "", "").unwrap();
    lab.write(MODEL_TABLE, table.text());
    let assembled = lab.ask("", "openai/gpt-9-2026-11-30", None);
    assert_eq!(assembled.budget.window(), 7_000);
    assert_eq!(assembled.budget.reserve_response(), 900);
    assert!(!codes(&assembled).contains(&"unknown_model"));
    assert!(codes(&lab.ask("", "claude-opus-5-5", None)).contains(&"unknown_model"));
    // Settings still come first.
    let own = lab.ask("[models.gpt-9]\nwindow = 3000", "gpt-9", None);
    assert_eq!(own.budget.window(), 3_000);
}

#[test]
fn a_broken_table_is_a_warning() {
    let lab = Lab::new();
    let text = ModelTable::built_in()
        .text()
        .replacen("\t128000\t", "\tmany\t", 1);
    for (text, why) in [
        (
            text.as_str(),
            "must be a whole number, at least 1, but is `many`",
        ),
        ("", "line 1: title:"),
    ] {
        lab.write(MODEL_TABLE, text);
        let assembled = lab.ask("", "gpt-4o", None);
        assert_eq!(assembled.budget.window(), 128_000);
        let warnings = &assembled.report.warnings;
        let warning = warnings
            .iter()
            .find(|it| &*it.code == "model_table")
            .unwrap();
        assert!(warning.message.contains(why), "{}", warning.message);
    }
}

#[test]
fn an_unknown_model_gets_the_values_of_its_family_and_a_warning() {
    let lab = Lab::new();
    let warned = |model: &str| {
        let assembled = lab.ask("", model, None);
        let warnings = assembled.report.warnings.iter();
        let found = warnings.filter(|it| &*it.code == "unknown_model");
        let messages: Vec<String> = found.map(|it| it.message.to_string()).collect();
        (assembled.budget.window(), messages.concat())
    };
    assert_eq!(
        warned("claude-sonnet-9"),
        (
            1_000_000,
            "model `claude-sonnet-9` is not in the model table: using the values of \
             claude-sonnet-5-5, a window of 1000000 tokens"
                .to_owned()
        )
    );
    assert_eq!(
        warned("mystery"),
        (
            128_000,
            "model `mystery` is not in the model table: assuming a window of 128000 tokens"
                .to_owned()
        )
    );
    assert_eq!(warned("claude-sonnet-5-5").1, "");
}
