//! [`Source`]: provides the items of a layer.
//!
//! A source implements [`Source`] and is registered with the engine by name.
//! The built-in sources use the same interface as those of a program:
//!
//! 1. [`resolve`](Source::resolve) provides facts that the budget depends on:
//!    the model, the window, the session.
//! 2. [`gather`](Source::gather) offers items for one layer.
//! 3. [`revise`](Source::revise) reacts to the result of the fit, with other
//!    items or none.
//! 4. [`account`](Source::account) adds the source's own details to the report.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_core::guard::Policy;
use contexture_core::{
    Assembly, Budget, Code, Content, Counts, Curator, Excluded, Fit, Frame, Item, Layer,
    LayerBudget, Layout, Role, Tokens,
};
use contexture_providers::Sampling;
use contexture_store::{AgentRole, Session};
use contexture_tokens::Model;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::advice::Warning;
use crate::agent::Agent;
use crate::engine::Engine;
use crate::error::Error;
use crate::files::Root;
use crate::pipeline::Preview;
use crate::recipe::{Recipe, RecipeLayer};
use crate::report::Report;
use crate::request::Request;
use crate::snapshot::Saved;

/// Provides the items of a layer.
pub trait Source: Send + Sync {
    /// Returns the name that recipes use.
    fn name(&self) -> &str;

    /// Returns the parameters that `with:` in a recipe may set.
    fn parameters(&self) -> &[Parameter] {
        &[]
    }

    /// Fails with the reason if the value of a parameter is invalid. The value
    /// has the [kind](Parameter::kind) of the parameter. It is checked with the
    /// recipe, before any request, and the error names the file, the line and the
    /// field.
    fn check_parameter(&self, engine: &Engine, name: &str, value: &Value) -> Result<(), String> {
        let _ = (engine, name, value);
        Ok(())
    }

    /// Returns the part of an agent's context that the items belong to, for the
    /// summary of tokens by part.
    fn concept(&self) -> Concept {
        Concept::Workspace
    }

    /// Returns the position that the settings move the layer to. `None` leaves
    /// it in place.
    fn position(&self, engine: &Engine) -> Option<Position> {
        let _ = engine;
        None
    }

    /// Returns the recipe for a request that names none, if this source can
    /// choose one.
    fn recipe_for(&self, engine: &Engine, request: &Request) -> Result<Option<String>, Error> {
        let _ = (engine, request);
        Ok(None)
    }

    /// Returns true when the layer cannot be filled without a store.
    fn needs_store(&self, scope: &Scope<'_>) -> bool {
        let _ = scope;
        false
    }

    /// Provides facts that the budget depends on.
    fn resolve(&self, scope: &Scope<'_>, facts: &mut Facts) -> Result<(), Error> {
        let _ = (scope, facts);
        Ok(())
    }

    /// Offers items for one layer.
    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error>;

    /// Reacts to the result of the fit of all layers. Returns another offer for
    /// this layer, or `None` to keep the current one. It is called again after
    /// each new fit, a bounded number of times.
    ///
    /// An [input error](Error::is_input) refuses the request as it is fitted: it
    /// ends the request unless another source revises its offer. Any other error
    /// ends the request at once. If the fit failed because pinned items do not
    /// fit, [`Outcome::error`] returns the reason.
    fn revise(&self, ask: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        let _ = (ask, outcome);
        Ok(None)
    }

    /// Returns true if [`revise`](Source::revise) is called only when no other
    /// source has a change, because this source uses the tokens that the others
    /// leave.
    fn yields(&self) -> bool {
        false
    }

    /// Adds the source's own details to the report.
    fn account(&self, ask: &Ask<'_>, account: &mut Account<'_>) -> Result<(), Error> {
        let _ = (ask, account);
        Ok(())
    }

    /// Returns true if gathering never waits, for example for a network.
    /// Sources that wait are called concurrently, each in its own thread.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Returns true if the items may be part of a document without tags. A
    /// request that uses only such sources has no tags that content could
    /// forge.
    fn is_bare(&self, scope: &Scope<'_>) -> bool {
        let _ = scope;
        false
    }
}

/// The part of an agent's context that items belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Concept {
    /// Files, tools and the environment.
    Workspace,
    /// The agent's identity and instructions.
    Persona,
    /// Earlier messages.
    History,
    /// Recalled records.
    Memory,
    /// The current question or event.
    Event,
}

/// The position of a layer among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// In the system part, before history.
    System,
    /// At the beginning of history.
    BeforeHistory,
    /// At the end of history.
    AfterHistory,
    /// In the current message, before its last layer.
    Current,
}

/// A parameter of a source, which `with:` in a recipe can set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// The type of the parameter.
    pub kind: ParameterKind,
    /// A description in one sentence, with the default.
    pub about: &'static str,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterKind {
    /// A text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number, 0 or more.
    Number,
    /// True or false.
    Flag,
    /// A list of texts.
    Texts,
    /// An object.
    Object,
}

impl ParameterKind {
    /// Fails if a value is invalid, with the reason.
    fn check(self, value: &Value) -> Result<(), String> {
        let is_text = |value: &Value| value.is_string() || value.is_number();
        let good = match self {
            ParameterKind::Text => is_text(value),
            ParameterKind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            ParameterKind::Number => value.is_u64(),
            ParameterKind::Flag => value.is_boolean(),
            ParameterKind::Texts => (value.as_array()).is_some_and(|list| list.iter().all(is_text)),
            ParameterKind::Object => value.is_object(),
        };
        if good {
            return Ok(());
        }
        let expected = match self {
            ParameterKind::Text => "a text".to_owned(),
            ParameterKind::Word(words) => format!("one of {}", words.join(", ")),
            ParameterKind::Number => "a whole number, 0 or more".to_owned(),
            ParameterKind::Flag => "true or false".to_owned(),
            ParameterKind::Texts => "a list of strings".to_owned(),
            ParameterKind::Object => "a mapping".to_owned(),
        };
        Err(format!("must be {expected}, not {value}"))
    }

    fn schema(self) -> Value {
        match self {
            ParameterKind::Text => json!({"type": "string"}),
            ParameterKind::Word(words) => json!({"type": "string", "enum": words}),
            ParameterKind::Number => json!({"type": "integer", "minimum": 0}),
            ParameterKind::Flag => json!({"type": "boolean"}),
            ParameterKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            ParameterKind::Object => json!({"type": "object"}),
        }
    }
}

impl Parameter {
    /// Returns a parameter.
    pub const fn new(name: &'static str, kind: ParameterKind, about: &'static str) -> Self {
        Self { name, kind, about }
    }

    /// Returns the JSON Schema of an object with these parameters.
    pub fn schema(parameters: &[Parameter]) -> Value {
        let mut properties = Map::new();
        for parameter in parameters {
            let mut schema = parameter.kind.schema();
            schema["description"] = parameter.about.into();
            properties.insert(parameter.name.to_owned(), schema);
        }
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }

    /// Fails if `with` holds an unknown parameter or an invalid value.
    pub(crate) fn check(
        parameters: &[Parameter],
        recipe: &Recipe,
        layer: &RecipeLayer,
        with: &Map<String, Value>,
    ) -> Result<(), Error> {
        for (name, value) in with {
            let Some(parameter) = parameters.iter().find(|known| known.name == name) else {
                let known: Vec<&str> = parameters.iter().map(|one| one.name).collect();
                let message = match known.is_empty() {
                    true => "the source has no parameters".to_owned(),
                    false => crate::error::not_one_of("parameter", name, &known),
                };
                return Err(layer.error(recipe, Some(name), &message));
            };
            if !value.is_null() && !is_variable(value) {
                (parameter.kind.check(value))
                    .map_err(|message| layer.error(recipe, Some(name), &message))?;
            }
        }
        Ok(())
    }

    /// Fails if a source rejects a value of `with`. Variables are not checked:
    /// their values come from the request.
    pub(crate) fn check_values(
        engine: &Engine,
        source: &dyn Source,
        recipe: &Recipe,
        layer: &RecipeLayer,
        with: &Map<String, Value>,
    ) -> Result<(), Error> {
        for (name, value) in with {
            if !value.is_null() && !is_variable(value) {
                (source.check_parameter(engine, name, value))
                    .map_err(|message| layer.error(recipe, Some(name), &message))?;
            }
        }
        Ok(())
    }
}

fn is_variable(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with('$'))
}

/// Facts that sources provide before the budget is computed. Fields of the
/// request take precedence; of two sources, the first one does.
#[derive(Debug, Default)]
pub struct Facts {
    /// The model, if the request names none.
    pub model: Option<String>,
    /// The size of the window in tokens, if the request does not set it.
    pub max_tokens: Option<Tokens>,
    /// The tokens reserved for the answer, if the request does not set them.
    pub reserve_response: Option<Tokens>,
    /// The maximum number of tokens of the request, even if the window is
    /// larger.
    pub effective: Option<Tokens>,
    /// The error if neither the request nor a source sets a window or a model.
    /// `None` if no budget is required.
    pub budget_needed: Option<Error>,
    /// The label that the request is saved under.
    pub label: Option<String>,
    /// Whether the request is for an agent with a role and permissions.
    pub is_agent: bool,
    /// Whether volatile items of the current message enter history with the
    /// same bytes when the answer is recorded.
    pub records_current: bool,
    /// The turn that the answer follows.
    pub parent_turn: Option<contexture_store::TurnId>,
    /// The toolset that tools were taken from.
    pub toolset: Option<String>,
    /// Whether the model continues its own last message.
    pub continues: bool,
    /// The sampling settings for the answer.
    pub sampling: Option<Sampling>,
    /// Line beginnings that only one source may write. Other sources escape
    /// them.
    pub reserved_prefixes: Vec<&'static str>,
}

/// The context of a source's call before the budget is known: one layer of one
/// request.
pub struct Scope<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The directory that paths are relative to.
    pub root: &'a Root,
    /// The request that is assembled.
    pub request: &'a Request,
    /// The recipe that is followed.
    pub recipe: &'a Recipe,
    /// The layer that is filled.
    pub layer: &'a RecipeLayer,
    /// The parameters of the source: those of the request, else of the recipe.
    pub with: Map<String, Value>,
    /// The time.
    pub now: Timestamp,
    pub(crate) call: &'a CallState,
}

/// State that the sources of one request share.
#[derive(Default)]
pub(crate) struct CallState {
    shared: Mutex<BTreeMap<(TypeId, String), Arc<dyn Any + Send + Sync>>>,
    warnings: Mutex<Vec<Warning>>,
    pub(crate) preview: Option<Preview>,
}

impl CallState {
    pub(crate) fn of_preview(preview: Preview) -> Self {
        Self {
            preview: Some(preview),
            ..Self::default()
        }
    }

    pub(crate) fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A source's own state for one layer during a request.
#[derive(Debug)]
pub struct LayerState<T>(Mutex<T>);

impl<T> LayerState<T> {
    /// Locks the state for reading and changing.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scope<'_> {
    /// Returns a parameter as text, if it is given and not empty.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.with.get(name)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }

    /// Returns a parameter that is true or false.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.with.get(name)?.as_bool()
    }

    /// Returns a parameter that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.with.get(name)?.as_u64()
    }

    /// Returns a parameter that is a list of texts.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        let list = self.with.get(name)?.as_array()?;
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(list.iter().map(text).collect())
    }

    /// Reads a parameter that is an object.
    ///
    /// Fails if it does not have the expected form.
    pub fn object<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.with.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        T::deserialize(value).map(Some).map_err(|error| {
            let message = crate::error::plain(&error.to_string());
            self.layer.error(self.recipe, Some(name), &message)
        })
    }

    /// Returns a value that all layers of one request share, and creates it on
    /// the first call. `key` distinguishes values that depend on parameters.
    ///
    /// Fails if the value cannot be created.
    pub fn shared<T: Any + Send + Sync>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Arc<T>, Error> {
        let key = (TypeId::of::<T>(), key.to_owned());
        let lock = || {
            self.call
                .shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(known) = lock().get(&key)
            && let Ok(known) = Arc::clone(known).downcast::<T>()
        {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        lock().insert(key, Arc::clone(&made) as _);
        Ok(made)
    }

    /// Returns the source's state for this layer: the same value for every call
    /// of the layer's source in a request.
    pub fn state<T: Any + Default + Send>(&self) -> Result<Arc<LayerState<T>>, Error> {
        self.shared(&self.layer.name, || Ok(LayerState(Mutex::default())))
    }

    /// Returns a value that another layer of the request has shared, or `None`.
    pub fn peek<T: Any + Send + Sync>(&self, key: &str) -> Option<Arc<T>> {
        let shared = self.call.shared.lock();
        let shared = shared.unwrap_or_else(PoisonError::into_inner);
        let known = shared.get(&(TypeId::of::<T>(), key.to_owned()))?;
        Arc::clone(known).downcast().ok()
    }

    /// Sets a value that all layers of one request share.
    pub fn share<T: Any + Send + Sync>(&self, key: &str, value: Arc<T>) {
        let key = (TypeId::of::<T>(), key.to_owned());
        let shared = self.call.shared.lock();
        let mut shared = shared.unwrap_or_else(PoisonError::into_inner);
        shared.insert(key, value);
    }

    /// Adds a warning to the report.
    pub fn warn(&self, warning: Warning) {
        let warnings = self.call.warnings.lock();
        let mut warnings = warnings.unwrap_or_else(PoisonError::into_inner);
        // A layer may be gathered again.
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Returns the label of the session that the layer is about.
    pub fn session_label(&self) -> Option<String> {
        self.text("session")
            .or_else(|| self.request.session.clone())
    }

    /// Returns the session of the layer. `None` if neither the layer nor the
    /// request names one.
    ///
    /// Fails if there is no such session, or no ledger.
    pub fn session(&self) -> Result<Option<Arc<Session>>, Error> {
        let Some(label) = self.session_label() else {
            return Ok(None);
        };
        let found = self.shared(&label, || {
            let session = self.engine.ledger()?.session(&label)?;
            Ok::<Session, Error>(self.as_previewed(session))
        })?;
        Ok(Some(found))
    }

    /// Returns true if the request is only previewed: nothing may be stored,
    /// and history may not be summarised.
    pub fn is_preview(&self) -> bool {
        self.call.preview.is_some()
    }

    /// Returns the session as it was when the turn that a preview names was its
    /// head.
    fn as_previewed(&self, session: Session) -> Session {
        let preview = self.call.preview.as_ref();
        match preview.and_then(|preview| preview.head) {
            Some(head) => Session { head, ..session },
            None => session,
        }
    }

    /// Returns the session of the request. Returns `None` without a ledger;
    /// that is not an error here.
    pub fn known_session(&self) -> Option<Arc<Session>> {
        let label = self.request.session.as_ref()?;
        let ledger = self.engine.ledger().ok()?;
        let read = || Ok::<Session, Error>(self.as_previewed(ledger.session(label)?));
        self.shared(label, read).ok()
    }

    /// Returns the part of an agent's context that the items of a layer belong
    /// to. `None` for a group of layers.
    pub fn concept_of(&self, layer: &RecipeLayer) -> Option<Concept> {
        let source = self.engine.source(layer.source.as_deref()?)?;
        Some(source.concept())
    }

    /// Returns the agent's role.
    pub fn role(&self) -> AgentRole {
        self.request.role.unwrap_or_default()
    }

    /// Returns the agent's task: that of the request, else that of its session.
    pub fn task(&self) -> Option<String> {
        let of_session = || self.known_session()?.task.clone();
        self.request.task.clone().or_else(of_session)
    }

    /// Returns the agent's role and permissions.
    ///
    /// Fails if it has a persona that does not exist.
    pub fn agent(&self) -> Result<Arc<Agent>, Error> {
        self.shared("", || Agent::find(self))
    }
}

/// The context of a source's call: one layer of one request, with its budget.
pub struct Ask<'a> {
    pub(crate) scope: Scope<'a>,
    /// The model the request is for.
    pub model: &'a Model,
    /// The budget of the request.
    pub budget: Budget,
    /// Counts tokens.
    pub counts: &'a Counts,
    /// The guard's policy for content of this layer.
    pub policy: Policy,
    /// The previous request of the session, if it is known.
    pub previous: Option<&'a Saved>,
    /// The facts that sources provided before the budget was computed.
    pub facts: &'a Facts,
    /// Whether the whole request is a document without tags.
    pub is_document: bool,
}

impl<'a> Deref for Ask<'a> {
    type Target = Scope<'a>;

    fn deref(&self) -> &Self::Target {
        &self.scope
    }
}

impl Ask<'_> {
    /// Returns true when the model can search for tools that are not in its
    /// context.
    pub fn can_defer_tools(&self) -> bool {
        let format = self.request.format;
        format.is_some_and(|format| contexture_providers::defers_tools(format, &self.model.name))
    }

    /// Returns text from outside with all reserved line beginnings escaped.
    pub fn without_reserved(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for prefix in &self.facts.reserved_prefixes {
            text = escape_prefix(&text, prefix);
        }
        text
    }
}

/// Inserts a backslash after the first character of every occurrence of
/// `prefix` in `text`, even within a line: the guard turns other characters
/// into line ends, and a cut can begin a line anywhere.
pub fn escape_prefix(text: &str, prefix: &str) -> String {
    let Some(first) = prefix.chars().next() else {
        return text.to_owned();
    };
    let rest = &prefix[first.len_utf8()..];
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, _) in text.match_indices(first) {
        let behind = at + first.len_utf8();
        if text[behind..].trim_start_matches('\\').starts_with(rest) {
            out.push_str(&text[copied..behind]);
            out.push('\\');
            copied = behind;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// The items that a source offers for a layer, with their settings.
#[derive(Debug, Default)]
pub struct Offer {
    /// The items, in the order they are shown.
    pub items: Vec<Item>,
    /// Nested layers that share the tokens of the layer.
    pub layers: Vec<Layer>,
    /// The method that chooses the kept items. `None` follows the recipe.
    pub fit: Option<Fit>,
    /// The block that all items are lines of. `None` if the items have tags of
    /// their own.
    pub frame: Option<Frame>,
    /// The source's curator, which helps to fit the items.
    pub curator: Option<Arc<dyn Curator>>,
    /// The maximum tokens of the layer, whatever the recipe allows. `None` for
    /// no limit.
    pub max: Option<Tokens>,
    /// Whether the items change with every request, so that nothing after them
    /// can be cached.
    pub volatile: bool,
    /// Rows of the report for candidates that are not offered.
    pub excluded: Vec<Excluded>,
    /// Tools that are not in the context. The model can search for them if the
    /// provider supports that.
    pub deferred: Vec<Item>,
    /// Whether the recipe's `cut` applies only to text and tool results.
    pub keeps_parts: bool,
}

impl From<Vec<Item>> for Offer {
    fn from(items: Vec<Item>) -> Self {
        Self {
            items,
            ..Self::default()
        }
    }
}

impl From<Option<Item>> for Offer {
    fn from(item: Option<Item>) -> Self {
        item.into_iter().collect::<Vec<_>>().into()
    }
}

impl Offer {
    /// Marks the items as changing with every request.
    pub fn volatile(mut self) -> Self {
        self.volatile = true;
        self
    }

    /// Adds a row of the report for a candidate that is not offered.
    pub fn exclude(&mut self, id: &str, role: Role, code: Code, reason: impl Into<String>) {
        // The engine sets the layer.
        let row = Excluded::unoffered(id, "", role, code, reason.into());
        self.excluded.push(row);
    }
}

/// Loads the content of a [pending](Content::Pending) item: attach it with
/// [`Item::data`].
pub struct Loader(Box<dyn Fn(&Item) -> Content + Send + Sync>);

impl Loader {
    /// Returns a loader. It may be called from any thread.
    pub fn new(load: impl Fn(&Item) -> Content + Send + Sync + 'static) -> Self {
        Self(Box::new(load))
    }

    /// Loads the content of an item that is pending.
    pub(crate) fn load(item: &Item) -> Content {
        let loader = item.data.as_ref().and_then(|data| data.get::<Loader>());
        let load = loader.map(|loader| {
            catch_unwind(AssertUnwindSafe(|| (loader.0)(item))).unwrap_or_else(|_| {
                Content::Absent {
                    code: Code::UNREADABLE,
                    reason: "its loader panicked".to_owned(),
                }
            })
        });
        match load {
            Some(content) => content,
            None => Content::Absent {
                code: Code::UNREADABLE,
                reason: "its source defines no loader".to_owned(),
            },
        }
    }
}

/// The result of fitting all layers.
pub struct Outcome<'a> {
    pub(crate) fitted: Result<&'a Assembly, &'a contexture_core::Error>,
    pub(crate) layer: &'a str,
    pub(crate) excluded: &'a [Excluded],
    pub(crate) round: usize,
}

impl<'a> Outcome<'a> {
    /// Returns the request as fitted so far, or `None` if it does not fit.
    pub fn assembly(&self) -> Option<&'a Assembly> {
        self.fitted.ok()
    }

    /// Returns the reason why there is no request: pinned items alone do not
    /// fit.
    pub fn error(&self) -> Option<&'a contexture_core::Error> {
        self.fitted.err()
    }

    /// Returns this layer's budget and its use.
    pub fn layer_budget(&self) -> Option<&'a LayerBudget> {
        let layers = &self.assembly()?.report.budget.layers;
        find_layer(layers, self.layer)
    }

    /// Returns the rows for candidates that sources did not offer to this
    /// layer.
    pub fn not_offered(&self) -> impl Iterator<Item = &'a Excluded> {
        let layer = self.layer.to_owned();
        self.excluded.iter().filter(move |row| *row.layer == *layer)
    }

    /// Returns the larger of the layer's own allowance and the tokens that the
    /// whole request leaves unused. Returns 0 if the request does not fit.
    pub fn available_tokens(&self) -> Tokens {
        let Some(assembly) = self.assembly() else {
            return 0;
        };
        let own = self.layer_budget().map_or(0, |layer| layer.allowed);
        assembly.report.budget.available.max(own)
    }

    /// Returns the number of times that the layers were fitted before this.
    pub fn round(&self) -> usize {
        self.round
    }
}

fn find_layer<'l>(layers: &'l [LayerBudget], name: &str) -> Option<&'l LayerBudget> {
    layers
        .iter()
        .find(|layer| &*layer.name == name)
        .or_else(|| layers.iter().find_map(|l| find_layer(&l.layers, name)))
}

/// The finished request, to which sources add their details.
pub struct Account<'a> {
    /// The kept blocks, in the order in which they are sent.
    pub layout: &'a Layout,
    /// The report.
    pub report: &'a mut Report,
    /// The turn that the answer follows.
    pub parent_turn: &'a mut Option<contexture_store::TurnId>,
    /// Turns of the session that the request was made of, among them the oldest;
    /// `None` if it was made of no session. If one of them is deleted meanwhile,
    /// the request is not saved.
    pub made_of: &'a mut Option<Vec<contexture_store::TurnId>>,
    /// Whether the model continues its own last message.
    pub continues: &'a mut bool,
    /// Details that sources attach to the request, found by type.
    pub details: &'a mut Details,
}

/// Details that sources attached to a request, by type.
#[derive(Clone, Default)]
pub struct Details(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Details {
    /// Adds a value. A previous value of the same type is replaced.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of that type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

impl std::fmt::Debug for Details {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Details({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_prefix_is_escaped_anywhere() {
        for (text, escaped) in [
            ("plain", "plain"),
            ("[loom a]", "[\\loom a]"),
            ("x [loom a] [\\loom b]", "x [\\loom a] [\\\\loom b]"),
            ("[lo", "[lo"),
        ] {
            assert_eq!(escape_prefix(text, "[loom "), escaped);
        }
    }

    #[test]
    fn parameters_describe_themselves() {
        let parameters = [
            Parameter::new("session", ParameterKind::Text, "The session."),
            Parameter::new("part", ParameterKind::Word(&["a", "b"]), "Which part."),
        ];
        let schema = Parameter::schema(&parameters);
        assert_eq!(schema["properties"]["part"]["enum"], json!(["a", "b"]));
        assert!(ParameterKind::Number.check(&json!(-1)).is_err());
        assert!(ParameterKind::Texts.check(&json!(["a", 1])).is_ok());
    }
}
