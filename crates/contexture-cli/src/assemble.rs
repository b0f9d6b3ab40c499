//! `contexture assemble`: assembles one request and prints it.
//!
//! The request is printed to standard output; the report, warnings and defaults
//! that were used are printed to standard error or to a file. In a project
//! without a store, one is created only if there is something to save.

use std::io::IsTerminal as _;
use std::path::Path;

use contexture::tokens::Provider;
use contexture::{Assembled, Engine, Error, Event, Format, Request, Root, Warning, usual_format};
use contexture_terminal::report;
use serde::Serialize;

use crate::args::{AssembleArgs, ReportFormat};
use crate::{output, progress, store};

pub(crate) fn run(args: &AssembleArgs) -> anyhow::Result<()> {
    if args.root.is_file() {
        return Err(a_file(&args.root).into());
    }
    let root = Root::open(&args.root)?;
    root.remove_left_over();
    let mut engine = store::marked(Engine::for_root(&root)?);
    if args.format != Format::Text && args.report.as_deref() == Some(Path::new("-")) {
        let both = "--report - cannot follow a JSON request on standard output; write it to a \
                    file with --report FILE, or use --format json, which contains the report";
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
        return Err(output::Usage(
            "the event is empty; give text with --event, or a file with \
                                  --event-file"
                .to_owned(),
        )
        .into());
    }
    let mut request = args.request.clone();
    request.event = event;
    request.format = Some(args.format);
    request.now = args.now;
    if let Some(file) = &args.working_buffer_file {
        request.working_buffer = Some(output::read_text(file)?);
    }
    let mut unkept = None;
    let mut keep_later = false;
    match store::find(&root, engine.config(), args.db.as_deref()) {
        // In a project without a store, one is created if there is something to
        // save.
        Ok(place) if !place.exists() && !engine.needs_store(&root, &request)? => keep_later = true,
        Ok(place) => match place.open() {
            Ok(store) => engine = engine.with_store(store),
            // Files need no store: it would only save the request.
            Err(error) if args.db.is_none() && !engine.needs_store(&root, &request)? => {
                unkept = Some(not_kept(&error));
            }
            Err(error) => return Err(error.into()),
        },
        Err(error) => return Err(error),
    }
    let assembled = progress::with_spinner("assembling", || engine.assemble(&root, &request));
    // Without a report, the warning may have the reason for the error.
    let mut assembled = assembled.inspect_err(|_| {
        engine.settings_warnings().iter().for_each(output::warn);
    })?;
    if keep_later && engine.config().snapshots.keep {
        match store::find(&root, engine.config(), args.db.as_deref())?.open() {
            Ok(store) => {
                engine = engine.with_store(store);
                unkept = engine.keep(&mut assembled, args.now)?;
            }
            Err(error) => unkept = Some(not_kept(&error)),
        }
    }
    assembled.report.warnings.extend(unkept);
    let unsupported = unsupported(args, &assembled);
    let chats = not_completing(args.format, &assembled, &engine);
    assembled.report.warnings.extend(chats);
    assembled.report.warnings.extend(unsupported);

    // The request is rendered before the report is written, so that a request
    // that the provider would reject leaves no report.
    let rendered = assembled.render(args.format)?;
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
        // A document may end without a line end; messages start on a new line.
        output::say("");
    }
    for used in used_for_tree(&request, &engine, &assembled)? {
        output::say(&used);
    }
    let of_agent = agent_model(&request, &engine)?;
    if request.model.is_none() && of_agent.is_none() && !args.explain {
        let tokenizer = &assembled.report.tokenizer.name;
        let model = &assembled.model.name;
        output::say(&format!(
            "using model {model} (tokenizer {tokenizer}); set another with --model"
        ));
    }
    if args.explain {
        output::say(&report::table(&assembled, output::width()));
    } else {
        // Guidelines are shown only by --explain and in the report.
        let warnings = assembled.report.warnings.iter();
        for warning in warnings.filter(|warning| warning.code != "guideline") {
            output::warn(warning);
        }
    }
    Ok(())
}

fn a_file(path: &Path) -> output::Advice {
    let path = output::visible(&path.display().to_string());
    output::Advice {
        message: format!("{path} is a file; assemble takes a project directory"),
        hint: format!(
            "to add the file to the prompt, run `contexture working-set add {path} --why REASON` \
             in the project directory"
        ),
    }
}

fn not_kept(error: &Error) -> Warning {
    Warning::new(
        "not_kept",
        format!("the request was not saved as a snapshot: {error}"),
    )
}

/// Returns a warning about an agent's settings that this format does not
/// support. The engine has already warned about the usual format of the model.
fn unsupported(args: &AssembleArgs, assembled: &Assembled) -> Option<Warning> {
    let agent = args.request.agent.as_ref()?;
    let (sampling, model) = (&assembled.sampling, assembled.prompt().model);
    let usual = usual_format(assembled.model.provider);
    let known = usual.map(|format| sampling.unsupported(format, model));
    let known = known.unwrap_or_default();
    let mut left_out = sampling.unsupported(args.format, model);
    left_out.retain(|name| !known.contains(name));
    (!left_out.is_empty()).then(|| {
        Warning::new(
            "sampling_left_out",
            format!(
                "{} does not accept parameters {} of agent `{agent}`; they are omitted",
                args.format.name(),
                left_out.join(", ")
            ),
        )
    })
}

/// The models that OpenAI's older completions take.
const COMPLETING: [&str; 3] = ["gpt-3.5-turbo-instruct", "davinci-002", "babbage-002"];

/// Returns a warning when OpenAI would not take its own chat model there. Other
/// servers take the form for any model.
fn not_completing(format: Format, assembled: &Assembled, engine: &Engine) -> Option<Warning> {
    let model = &assembled.model;
    let chats = model.known
        && model.provider == Provider::OpenAi
        && !COMPLETING
            .iter()
            .any(|one| engine.models().is_same(one, &model.name));
    (format == Format::OpenAiCompletions && chats).then(|| {
        let message = format!(
            "{} is a chat model, which the OpenAI completions endpoint rejects; use {}",
            model.name,
            COMPLETING.join(", ")
        );
        Warning::new("chat_model", message)
    })
}

/// Returns the model of the agent that writes next, if it has one.
fn agent_model(request: &Request, engine: &Engine) -> anyhow::Result<Option<String>> {
    let (Some(tree), Some(id)) = (&request.tree, &request.agent) else {
        return Ok(None);
    };
    let info = engine.store()?.tree(tree).map_err(Error::from)?;
    let agent = info.agents.into_iter().find(|agent| agent.id == *id);
    Ok(agent.and_then(|agent| agent.model))
}

/// Returns the defaults that were used for a request from a tree.
fn used_for_tree(
    request: &Request,
    engine: &Engine,
    assembled: &Assembled,
) -> anyhow::Result<Vec<String>> {
    let (Some(tree), Some(loom)) = (&request.tree, assembled.loom()) else {
        return Ok(Vec::new());
    };
    let mut used = Vec::new();
    if request.recipe.is_none() {
        let info = engine.store()?.tree(tree).map_err(Error::from)?;
        used.push(format!(
            "using recipe {}: the mode of the tree is {}",
            assembled.report.recipe, info.tree.mode
        ));
    }
    if request.head.is_none() {
        let found = engine.store()?.find_node(tree, &loom.head_node_id);
        let head = output::visible(&found.map_err(Error::from)?.local_id);
        let why = match (&request.path, &request.agent) {
            (Some(path), _) => format!("path {} ends at this node", output::visible(path)),
            (None, Some(agent)) => {
                let info = engine.store()?.tree(tree).map_err(Error::from)?;
                let agents = &mut info.agents.iter();
                let is_there = agents.any(|one| one.id == *agent && one.position.is_some());
                match is_there {
                    true => format!("agent {} is at this node", output::visible(agent)),
                    false => "it is the only leaf of the tree".to_owned(),
                }
            }
            (None, None) => "it is the only leaf of the tree".to_owned(),
        };
        used.push(format!("using head {head}: {why}"));
    }
    if let (None, Some(agent), Some(model)) = (
        &request.model,
        &request.agent,
        agent_model(request, engine)?,
    ) {
        used.push(format!(
            "using model {} (tokenizer {}) of agent {}",
            output::visible(&model),
            assembled.report.tokenizer.name,
            output::visible(agent)
        ));
    }
    Ok(used)
}

#[derive(Serialize)]
struct Document<'r> {
    assembly_report: &'r contexture::Report,
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
