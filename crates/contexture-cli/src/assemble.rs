use std::path::Path;

use contexture::tokens::Provider;
use contexture::{Assembled, Engine, Event, Format, Request, Root};
use serde::Serialize;

use crate::args::{AssembleArgs, FormatArg, ReportFormat};
use crate::{explain, output, progress, store};

pub(crate) fn run(args: &AssembleArgs) -> anyhow::Result<()> {
    let root = Root::open(&args.root)?;
    let mut engine = Engine::for_root(&root)?;
    let json = !matches!(args.format, FormatArg::Text);
    if json && args.report.as_deref() == Some(Path::new("-")) {
        let both = "the report cannot stand behind JSON: give --report FILE, or --format json, \
                    which holds it";
        return Err(output::Usage(both.to_owned()).into());
    }
    let event = match &args.event_file {
        Some(path) => Some(Event::read(
            &path.display().to_string(),
            &output::read(path)?,
        )?),
        None => args.event.as_deref().map(Event::from),
    };
    if event
        .as_ref()
        .is_some_and(|event| event.content.trim().is_empty() && event.attachments.is_empty())
    {
        return Err(output::Usage("the event is empty".to_owned()).into());
    }
    let request = Request {
        recipe: args.recipe.clone(),
        manifest: args.manifest.clone(),
        session: args.session.clone(),
        role: args.role.map(Into::into),
        task: args.task.clone(),
        toolset: args.toolset.clone(),
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
        ..Request::default()
    };
    let mut unkept = None;
    let mut keep_later = false;
    match store::find(&root, engine.config(), args.db.as_deref()) {
        // A project that has no store gets one when there is something to keep.
        Ok(place) if !place.exists() && !engine.needs_store(&root, &request)? => keep_later = true,
        Ok(place) => match place.open() {
            Ok(store) => engine = engine.with_store(store),
            // Files need no store: it would only keep the request.
            Err(error) if args.db.is_none() && !engine.needs_store(&root, &request)? => {
                unkept = Some(format!("the request is not kept: {error}"));
            }
            Err(error) => return Err(error.into()),
        },
        Err(error) => return Err(error),
    }
    let mut assembled = progress::with_spinner("assembling", || engine.assemble(&root, &request))?;
    if keep_later && engine.config().snapshots.keep {
        match store::find(&root, engine.config(), args.db.as_deref())?.open() {
            Ok(store) => {
                engine = engine.with_store(store);
                unkept = engine.keep(&mut assembled, args.now)?;
            }
            Err(error) => unkept = Some(format!("the request is not kept: {error}")),
        }
    }
    assembled.report.warnings.extend(unkept);

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
