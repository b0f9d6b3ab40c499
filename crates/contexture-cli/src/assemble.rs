use std::path::Path;

use contexture::tokens::Provider;
use contexture::{Assembled, Engine, Format, Request, Root};
use serde::Serialize;

use crate::args::{AssembleArgs, FormatArg, ReportFormat};
use crate::{explain, output, progress};

pub(crate) fn run(args: &AssembleArgs) -> anyhow::Result<()> {
    let root = Root::open(&args.root)?;
    let engine = Engine::for_root(&root)?;
    let json = !matches!(args.format, FormatArg::Text);
    if json && args.report.as_deref() == Some(Path::new("-")) {
        let both = "the report cannot stand behind JSON: give --report FILE, or --format json, \
                    which holds it";
        return Err(output::Usage(both.to_owned()).into());
    }
    let event = match &args.event_file {
        Some(path) => Some(output::read(path)?),
        None => args.event.clone(),
    };
    if event
        .as_deref()
        .is_some_and(|event| event.trim().is_empty())
    {
        return Err(output::Usage("the event is empty".to_owned()).into());
    }
    let request = Request {
        recipe: args.recipe.clone(),
        manifest: args.manifest.clone(),
        session: args.session.clone(),
        event,
        model: args.model.clone(),
        provider: match args.format {
            FormatArg::Text | FormatArg::Json => None,
            FormatArg::Anthropic => Some(Provider::Anthropic),
            FormatArg::OpenaiChat | FormatArg::OpenaiResponses => Some(Provider::OpenAi),
            FormatArg::Gemini => Some(Provider::Gemini),
        },
        max_tokens: args.max_tokens,
        reserve_response: args.reserve_response,
        reserve_tools: args.reserve_tools,
        now: args.now,
    };
    let assembled = progress::with_spinner("assembling", || engine.assemble(&root, &request))?;

    // The request is rendered before the report is written, so that one the
    // provider would refuse leaves none behind.
    let rendered = match args.format {
        FormatArg::Json => format!("{:#}\n", assembled.to_json()),
        FormatArg::Text => assembled.render(Format::Text)?,
        FormatArg::Anthropic => assembled.render(Format::Anthropic)?,
        FormatArg::OpenaiChat => assembled.render(Format::OpenAiChat)?,
        FormatArg::OpenaiResponses => assembled.render(Format::OpenAiResponses)?,
        FormatArg::Gemini => assembled.render(Format::Gemini)?,
    };
    let report = match &args.report {
        Some(_) => Some(report(&assembled, args.report_format)?),
        None => None,
    };
    if let (Some(path), Some(report)) = (&args.report, &report)
        && path != Path::new("-")
    {
        output::file(path, report)?;
    }
    output::bytes(rendered.as_bytes())?;
    if args.report.as_deref() == Some(Path::new("-"))
        && let Some(report) = &report
    {
        output::bytes(format!("---\n{report}").as_bytes())?;
    }

    if args.model.is_none() && !args.explain {
        let tokenizer = &assembled.report.tokenizer.name;
        let model = &assembled.model.name;
        output::say(&format!(
            "model {model} ({tokenizer}) is taken; --model names another"
        ));
    }
    if args.explain {
        output::say(&explain::table(&assembled));
    } else {
        // Guidelines are for who looks closer: --explain and the report.
        let warnings = assembled.report.warnings.iter();
        for warning in warnings.filter(|warning| !warning.starts_with("guideline:")) {
            output::say(&format!("warning: {}", output::visible(warning)));
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Document<'r> {
    assembly_report: &'r contexture::core::Report,
}

fn report(assembled: &Assembled, format: ReportFormat) -> anyhow::Result<String> {
    let document = Document {
        assembly_report: &assembled.report,
    };
    Ok(match format {
        ReportFormat::Yaml => serde_saphyr::to_string(&document)?,
        ReportFormat::Json => format!("{}\n", serde_json::to_string_pretty(&document)?),
    })
}
