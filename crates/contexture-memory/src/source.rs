//! The sources `memory` and `tasks`: they query memory after all other layers
//! have been fitted.

use std::sync::Arc;
use std::time::Duration;

use contexture_core::{Code, Cut, Excluded, Frame, Item, Role, Text, Tokens, Trust};
use contexture_engine::config::{MemoryFormat, MemoryPosition};
use contexture_engine::source::{Facts, Position, Scope};
use contexture_engine::{
    Advice, Ask, Concept, ContextFilters, Engine, EngineBuilder, Error, Offer, Operation, Outcome,
    Parameter, ParameterKind, Permissions, Source, Warning,
};
use contexture_store::TaskView;
use serde::Deserialize as _;
use serde_json::Value;

use crate::context::{Context, ContextRequest};
use crate::layers::{Offered, Selection};
use crate::recall::Recall;
use crate::{Memory, MemoryCache, messages, shorten, task_stack};

/// A budget below this is too small for a useful record.
const LEAST: Tokens = 32;

/// The tokens that are left for an agent's answer if none are reserved.
const DEFAULT_RESPONSE_TOKENS: Tokens = 512;

/// Registers the sources `memory` and `tasks`. They share `cache` between
/// requests.
pub fn register(builder: EngineBuilder, cache: &Arc<MemoryCache>) -> EngineBuilder {
    builder
        .source(MemorySource {
            cache: Arc::clone(cache),
        })
        .source(TasksSource)
}

/// Offers the records that match the query, within the budget that the other
/// layers leave.
struct MemorySource {
    cache: Arc<MemoryCache>,
}

/// Whether memory was queried for a layer of a request.
#[derive(Default)]
struct WasQueried(bool);

impl Source for MemorySource {
    fn name(&self) -> &str {
        "memory"
    }

    fn parameters(&self) -> &[Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter::new(
                "query",
                ParameterKind::Text,
                "The query. Default: the request's query, else the current task, else the event.",
            ),
            Parameter::new(
                "filters",
                ParameterKind::Object,
                "Filters for the records. Default: the request's filters, and the current task \
                 when the recipe has one.",
            ),
            Parameter::new(
                "strategy",
                ParameterKind::Text,
                "The archetype whose strategy is used. Default: the request's, else the \
                 configured one.",
            ),
            Parameter::new(
                "session",
                ParameterKind::Text,
                "The session whose events count as recent. Default: the request's.",
            ),
            Parameter::new(
                "required",
                ParameterKind::Flag,
                "Whether to query memory even when `memory.inject` is off, and to warn when \
                 memory is empty or there is no query. Default: false.",
            ),
        ];
        PARAMETERS
    }

    fn check_parameter(&self, engine: &Engine, name: &str, value: &Value) -> Result<(), String> {
        match (name, value) {
            ("filters", value) => ContextFilters::deserialize(value)
                .map(drop)
                .map_err(|error| contexture_engine::error::plain(&error.to_string())),
            ("strategy", Value::String(name)) if !name.is_empty() => {
                let known = Memory::archetypes_of(engine, &self.cache);
                let found = known.and_then(|known| known.get(name).map(drop));
                found.map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }

    fn concept(&self) -> Concept {
        Concept::Memory
    }

    fn position(&self, engine: &Engine) -> Option<Position> {
        Some(match engine.config().memory.position? {
            MemoryPosition::System => Position::System,
            MemoryPosition::BeforeHistory => Position::BeforeHistory,
            MemoryPosition::AfterHistory => Position::AfterHistory,
            MemoryPosition::Current => Position::Current,
        })
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn needs_store(&self, scope: &Scope<'_>) -> bool {
        is_required(scope)
    }

    fn gather(&self, _: &Ask<'_>) -> Result<Offer, Error> {
        // All other layers are fitted first.
        Ok(Offer::default().volatile())
    }

    fn yields(&self) -> bool {
        true
    }

    fn revise(&self, ask: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        if outcome.assembly().is_none() {
            return Ok(None);
        }
        if std::mem::replace(&mut ask.state::<WasQueried>()?.lock().0, true) {
            return Ok(None);
        }
        self.recall(ask, outcome)
    }
}

/// Returns true when the request names memory explicitly.
fn is_required(scope: &Scope<'_>) -> bool {
    scope.flag("required").unwrap_or(false) || scope.request.query.is_some()
}

/// Returns an empty offer, with the reason as a row and a warning.
fn nothing(ask: &Ask<'_>, code: Code, reason: &str) -> Offer {
    let message = format!("memory is not included: {reason}");
    ask.warn(Warning::new("memory_left_out", message));
    let mut offer = Offer::default().volatile();
    offer.exclude("memory", Role::Context, code, reason);
    offer.excluded.iter_mut().for_each(|row| row.is_told = true);
    offer
}

impl MemorySource {
    fn recall(&self, ask: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        let config = &ask.engine.config().memory;
        let required = is_required(ask);
        if !(config.inject || required) {
            return Ok(None);
        }
        let permissions = permissions(ask)?;
        if permissions.denies("memory") {
            let offer = nothing(ask, Code::NOT_PERMITTED, "permissions deny `memory`");
            return Ok(Some(offer));
        }
        let Some(query) = query(ask) else {
            if required {
                ask.warn(
                    Warning::new(
                        "memory_not_asked",
                        "memory was not queried: the request has no \
                                                      query, task or event",
                    )
                    .advise(Advice::set("query"))
                    .advise(Advice::set("event")),
                );
            }
            return Ok(None);
        };
        let memory = Memory::new(ask.engine, &self.cache).ok();
        let Some(memory) = memory.filter(|memory| !memory.is_empty().unwrap_or(false)) else {
            if required {
                ask.warn(
                    Warning::new("memory_empty", "memory is empty")
                        .advise(Advice::call(Operation::RecordMemory)),
                );
            }
            return Ok(None);
        };
        let query = in_context(ask, query);
        // An agent's response needs a part of the remaining budget.
        let spared = match ask.facts.is_agent && ask.budget.reserve_response() == 0 {
            true => DEFAULT_RESPONSE_TOKENS,
            false => 0,
        };
        let most = [ask.layer.share.max, config.max_tokens]
            .into_iter()
            .flatten();
        let most = most.min().unwrap_or(Tokens::MAX);
        let room = outcome.available_tokens().saturating_sub(spared).min(most);
        if room < LEAST {
            let reason = format!("only {room} tokens remain");
            return Ok(Some(nothing(ask, Code::OVER_BUDGET, &reason)));
        }
        let request = ContextRequest {
            query,
            session_id: ask.session_label(),
            max_tokens: room,
            archetype: ask
                .text("strategy")
                .or_else(|| ask.request.strategy.clone()),
            filters: filters(ask)?,
            timezone: (ask.request.event.as_ref()).and_then(|event| event.timezone.clone()),
            ..ContextRequest::default()
        };
        let identity = identity(ask);
        let how = Recall {
            model: Some(&ask.model.name),
            now: ask.request.now,
            identity: &identity,
            permissions: Some(&permissions),
            deadline: Some(Duration::from_millis(config.deadline_ms)),
            ..Recall::default()
        };
        let offer = match config.format {
            MemoryFormat::Summary => summarised(ask, &memory, &request, &how),
            format => found(ask, &memory, &request, &how, format),
        };
        match offer {
            Ok(offer) => Ok(Some(Offer {
                max: Some(room),
                ..offer
            })),
            Err(error) if error.is_late() => {
                Ok(Some(nothing(ask, Code::DEADLINE, &error.to_string())))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the found records, to be fitted one by one.
fn found(
    ask: &Ask<'_>,
    memory: &Memory<'_>,
    request: &ContextRequest,
    how: &Recall<'_>,
    format: MemoryFormat,
) -> Result<Offer, Error> {
    let findings = memory.find(request, how, ask.counts, &[])?;
    for warning in &findings.metadata.warnings {
        ask.warn(warning.clone());
    }
    let members = memory.fitting_members(&findings, ask.counts)?;
    let mut selection = Selection::new(
        ask.engine,
        &findings,
        None,
        request,
        Offered::All,
        Some(&members),
    );
    Ok(Offer {
        layers: selection.layers(format == MemoryFormat::Structured),
        fit: Some(selection.fit()),
        frame: Some(frame(ask)),
        curator: Some(selection.curator()),
        excluded: selection.groups(),
        volatile: true,
        ..Offer::default()
    })
}

fn frame(ask: &Ask<'_>) -> Frame {
    Frame {
        role: Role::Context,
        path: Some(Arc::clone(&ask.layer.name)),
        trust: Trust::Retrieved,
    }
}

/// Returns a summary of the found records as one item that replaces them.
fn summarised(
    ask: &Ask<'_>,
    memory: &Memory<'_>,
    request: &ContextRequest,
    how: &Recall<'_>,
) -> Result<Offer, Error> {
    let recalled = memory.recall(request, how)?;
    let context = &recalled.context;
    for warning in &context.metadata.warnings {
        ask.warn(warning.clone());
    }
    let third = (request.max_tokens / 3).max(LEAST);
    let query = &context.metadata.query;
    let text = shorten::to_tokens(ask.engine, &raw(context), query, third, ask.counts);
    let mut offer = Offer::default().volatile();
    if !text.trim().is_empty() {
        let name = Arc::clone(&ask.layer.name);
        let text = Text::guarded(text.trim_end(), ask.policy);
        let mut item = Item::new(name, Role::Context, text);
        item.trust = Trust::Retrieved;
        item.cut = Cut::Never;
        offer.items.push(item);
    }
    let reason = format!("replaced by the summary `{}`", ask.layer.name);
    for part in &context.components {
        let (id, code) = (&part.source, Code::COMPACTED);
        let mut row = Excluded::unoffered(id, "", Role::Context, code, reason.clone());
        row.tokens = part.tokens;
        row.score = Some(part.relevance_score);
        row.scores = part.scores.clone();
        offer.excluded.push(row);
    }
    for left in &context.excluded {
        let reason = left.reason.to_string();
        let mut row = Excluded::unoffered(&left.source, "", Role::Context, left.code, reason);
        row.tokens = left.tokens;
        row.score = Some(left.relevance_score);
        offer.excluded.push(row);
    }
    Ok(offer)
}

/// Returns the texts alone.
fn raw(context: &Context) -> String {
    let lines = context.components.iter().map(|part| part.content.as_str());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the current task of the request's stack, when the recipe has one.
fn current_task(scope: &Scope<'_>) -> Option<contexture_store::TaskRecord> {
    let view = scope.peek::<TaskView>(&stack_of(scope.request.stack.clone()))?;
    view.path.last().cloned()
}

fn query(ask: &Ask<'_>) -> Option<String> {
    if let Some(query) = ask.text("query") {
        return Some(query);
    }
    // An explicitly empty query asks for recent and salient records.
    if let Some(query) = &ask.request.query {
        return Some(query.clone());
    }
    let of_event = || Some(ask.request.event.as_ref()?.content.clone());
    let query = current_task(ask).map(|task| task.goal).or_else(of_event)?;
    (!query.trim().is_empty()).then_some(query)
}

/// Returns a query with the messages before it, when it is an event that says
/// little: `yes, go ahead`.
fn in_context(ask: &Ask<'_>, query: String) -> String {
    let is_event = ask
        .request
        .event
        .as_ref()
        .is_some_and(|event| event.content == query);
    if !is_event || !messages::says_little(&query) {
        return query;
    }
    let of_session = || {
        let label = ask.session_label()?;
        messages::last_of_session(ask.engine.ledger().ok()?, &label)
    };
    match messages::last_said(&ask.request.messages).or_else(of_session) {
        Some(before) => format!("{before}\n{query}"),
        None => query,
    }
}

fn filters(ask: &Ask<'_>) -> Result<ContextFilters, Error> {
    // The filters of the layer replace all others.
    if let Some(filters) = ask.object("filters")? {
        return Ok(filters);
    }
    let mut filters = ask.request.filters.clone().unwrap_or_default();
    if let Some(current) = current_task(ask) {
        filters.task_id.get_or_insert(current.id);
    }
    Ok(filters)
}

/// Returns the permissions: those of the agent, otherwise the configured ones.
fn permissions(ask: &Ask<'_>) -> Result<Permissions, Error> {
    match ask.facts.is_agent {
        true => Ok(ask.agent()?.permissions.clone()),
        false => Ok(ask.engine.config().permissions.clone()),
    }
}

/// Returns the identities of the caller: the persona, and the id of the event's
/// sender. The sender's name is not used, because a sender can choose it.
fn identity(ask: &Ask<'_>) -> Vec<String> {
    let of_session = || ask.known_session()?.persona.clone();
    let persona = of_session().or_else(|| ask.engine.config().persona.name.clone());
    let event = ask.request.event.as_ref();
    let sender = event.and_then(|event| event.sender.as_ref()?.id.clone());
    persona.into_iter().chain(sender).collect()
}

/// Offers the position in a task stack.
struct TasksSource;

/// Returns the stack with this name, or the default one.
fn stack_of(named: Option<String>) -> String {
    named.unwrap_or_else(|| "main".to_owned())
}

fn view_of(scope: &Scope<'_>) -> Result<Arc<TaskView>, Error> {
    let named = scope.text("stack").or_else(|| scope.request.stack.clone());
    let stack = stack_of(named);
    scope.shared(&stack, || Ok(scope.engine.tasks()?.task_view(&stack)?))
}

impl Source for TasksSource {
    fn name(&self) -> &str {
        "tasks"
    }

    fn parameters(&self) -> &[Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter::new(
                "part",
                ParameterKind::Word(&["root", "path", "results"]),
                "Which part: the goal of the outermost task, the path from it to the current \
                 task, or the results of completed sibling tasks. Default: path.",
            ),
            Parameter::new(
                "stack",
                ParameterKind::Text,
                "The stack. Default: the request's, else `main`.",
            ),
        ];
        PARAMETERS
    }

    fn concept(&self) -> Concept {
        Concept::Persona
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn needs_store(&self, _: &Scope<'_>) -> bool {
        true
    }

    fn resolve(&self, scope: &Scope<'_>, _: &mut Facts) -> Result<(), Error> {
        if view_of(scope)?.path.is_empty() {
            scope.warn(
                Warning::new("no_task", "the stack has no current task")
                    .advise(Advice::call(Operation::PushTask)),
            );
        }
        Ok(())
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let view = view_of(ask)?;
        Ok(match ask.text("part").as_deref() {
            Some("root") => task_stack::root(&view, ask.policy),
            Some("results") => task_stack::results(&view, ask.policy),
            _ => task_stack::path(&view, ask.policy),
        }
        .into())
    }
}
