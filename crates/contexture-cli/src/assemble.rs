use std::io::IsTerminal as _;
use std::path::Path;

use clap::ValueEnum as _;
use contexture::memory::ContextFilters;
use contexture::tokens::Provider;
use contexture::{Assembled, Engine, Error, Event, Format, Request, Root};
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
            &output::read_text(path)?,
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
        tree: args.tree.clone(),
        head: args.head.clone(),
        path: args.path.clone(),
        agent: args.agent.clone(),
        working_buffer: match &args.working_buffer_file {
            Some(file) => Some(output::read_text(file)?),
            None => args.working_buffer.clone(),
        },
        include_annotations: args.include_annotations,
        instructions: args.instruct.clone(),
        context: args.context.clone(),
        query: args.query.clone(),
        filters: match &args.filters {
            Some(filters) => ContextFilters::from_json(filters)?,
            None => ContextFilters::default(),
        },
        strategy: args.strategy.clone(),
        stack: args.stack.clone(),
        model: args.model.clone(),
        provider: match args.format {
            FormatArg::Text | FormatArg::Json => None,
            FormatArg::Anthropic => Some(Provider::Anthropic),
            FormatArg::OpenaiChat | FormatArg::OpenaiResponses | FormatArg::OpenaiCompletions => {
                Some(Provider::OpenAi)
            }
            FormatArg::Gemini => Some(Provider::Gemini),
        },
        max_tokens: args.max_tokens,
        reserve_response: args.reserve_response,
        reserve_tools: args.reserve_tools,
        now: args.now,
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
    let format = format_of(args.format);
    let not_taken = format.and_then(|format| not_taken(args, format, &assembled));
    let chats = format.and_then(|format| not_completing(format, &assembled, &engine));
    assembled.report.warnings.extend(chats);
    assembled.report.warnings.extend(not_taken);

    // The request is rendered before the report is written, so that one the
    // provider would refuse leaves none behind.
    let rendered = match format {
        Some(format) => assembled.render(format)?,
        None => format!("{:#}\n", assembled.to_json()),
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

    if !rendered.ends_with('\n') && std::io::stdout().is_terminal() {
        // A document ends where it ends; what is said of it begins a line.
        output::say("");
    }
    for taken in taken_for_tree(args, &engine, &assembled)? {
        output::say(&taken);
    }
    let of_agent = agent_model(args, &engine)?;
    if args.model.is_none() && of_agent.is_none() && !args.explain {
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

/// Returns the form that a request is rendered in; `json` is our own.
fn format_of(format: FormatArg) -> Option<Format> {
    match format {
        FormatArg::Json => None,
        FormatArg::Text => Some(Format::Text),
        FormatArg::Anthropic => Some(Format::Anthropic),
        FormatArg::OpenaiChat => Some(Format::OpenAiChat),
        FormatArg::OpenaiResponses => Some(Format::OpenAiResponses),
        FormatArg::OpenaiCompletions => Some(Format::OpenAiCompletions),
        FormatArg::Gemini => Some(Format::Gemini),
    }
}

/// Returns a warning about what an agent sets and this form has no place for.
/// The engine has told what the usual form for the model does not take.
fn not_taken(args: &AssembleArgs, format: Format, assembled: &Assembled) -> Option<String> {
    let agent = args.agent.as_ref()?;
    let (sampling, model) = (&assembled.sampling, assembled.prompt().model);
    let told = match assembled.model.provider {
        Provider::Anthropic => sampling.not_taken(Format::Anthropic, model),
        Provider::OpenAi => sampling.not_taken(Format::OpenAiChat, model),
        Provider::Gemini => sampling.not_taken(Format::Gemini, model),
        Provider::Other => Vec::new(),
    };
    let mut left_out = sampling.not_taken(format, model);
    left_out.retain(|name| !told.contains(name));
    let name = args.format.to_possible_value()?;
    (!left_out.is_empty()).then(|| {
        format!(
            "{} does not take {} of agent `{agent}`: left out",
            name.get_name(),
            left_out.join(", ")
        )
    })
}

/// The models that OpenAI's older completions take.
const COMPLETING: [&str; 3] = ["gpt-3.5-turbo-instruct", "davinci-002", "babbage-002"];

/// Returns a warning when OpenAI would not take its own chat model there. Other
/// servers take the form for any model.
fn not_completing(format: Format, assembled: &Assembled, engine: &Engine) -> Option<String> {
    let model = &assembled.model;
    let chats = model.known
        && model.provider == Provider::OpenAi
        && !COMPLETING
            .iter()
            .any(|one| engine.models().is_same(one, &model.name));
    (format == Format::OpenAiCompletions && chats).then(|| {
        format!(
            "{} is a chat model, which OpenAI's completions refuse; they take {}",
            model.name,
            COMPLETING.join(", ")
        )
    })
}

/// Returns the model of the agent that is to go on, if it has one.
fn agent_model(args: &AssembleArgs, engine: &Engine) -> anyhow::Result<Option<String>> {
    let (Some(tree), Some(id)) = (&args.tree, &args.agent) else {
        return Ok(None);
    };
    let info = engine.store()?.tree(tree).map_err(Error::from)?;
    let agent = info.agents.into_iter().find(|agent| agent.id == *id);
    Ok(agent.and_then(|agent| agent.model))
}

/// Returns what was decided for a request from a tree that nobody said.
fn taken_for_tree(
    args: &AssembleArgs,
    engine: &Engine,
    assembled: &Assembled,
) -> anyhow::Result<Vec<String>> {
    let (Some(tree), Some(loom)) = (&args.tree, &assembled.loom) else {
        return Ok(Vec::new());
    };
    let mut taken = Vec::new();
    if args.recipe.is_none() {
        let info = engine.store()?.tree(tree).map_err(Error::from)?;
        taken.push(format!(
            "recipe {} is taken: the tree is a {}",
            assembled.report.recipe, info.tree.mode
        ));
    }
    if args.head.is_none() {
        let found = engine.store()?.find_node(tree, &loom.head_node_id);
        let head = output::visible(&found.map_err(Error::from)?.local_id);
        let why = match (&args.path, &args.agent) {
            (Some(path), _) => format!("path {} ends there", output::visible(path)),
            (None, Some(agent)) => {
                let info = engine.store()?.tree(tree).map_err(Error::from)?;
                let agents = &mut info.agents.iter();
                let is_there = agents.any(|one| one.id == *agent && one.position.is_some());
                match is_there {
                    true => format!("{} is there", output::visible(agent)),
                    false => "the tree ends there".to_owned(),
                }
            }
            (None, None) => "the tree ends there".to_owned(),
        };
        taken.push(format!("head {head} is taken: {why}"));
    }
    if let (None, Some(agent), Some(model)) = (&args.model, &args.agent, agent_model(args, engine)?)
    {
        taken.push(format!(
            "model {} ({}) is taken: {}'s",
            output::visible(&model),
            assembled.report.tokenizer.name,
            output::visible(agent)
        ));
    }
    Ok(taken)
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
