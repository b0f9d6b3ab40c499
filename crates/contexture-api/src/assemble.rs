//! Assembling requests.

use std::borrow::Cow;
use std::fmt;

use contexture::tokens::Provider;
use contexture::{
    Advice, Assembled, AssembledForm, Concept, Format, Recipe, Report, Request, Warning,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::events::{self, SessionEvent};
use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::quota::StorageKind;
use crate::tenant::Tenant;

/// The body of `POST /v1/assemble`: the library's request, and fields that only
/// HTTP has.
///
/// `serde(flatten)` would accept unknown fields, so the body is read by hand.
#[derive(Debug)]
pub(crate) struct AssembleCall {
    /// The request that the library assembles.
    request: Request,
    /// A recipe that was sent inline. The library parses it, so that its errors
    /// are those of a recipe.
    recipe: Option<Map<String, Value>>,
    /// Whether the answer includes the report.
    report: bool,
}

impl JsonSchema for AssembleCall {
    fn schema_name() -> Cow<'static, str> {
        Request::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = request_schema(generator);
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties["format"]["default"] = Format::Json.name().into();
            properties.insert(
                "report".to_owned(),
                json!({
                    "description": "Whether the answer includes the report. The format `json` \
                        always includes it. Default: true.",
                    "type": "boolean",
                    "default": true,
                }),
            );
        }
        schema
    }
}

/// Returns the schema of a request to the server, without `now`: a caller cannot
/// set the server's clock.
pub fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = Request::json_schema(generator);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("now");
    }
    schema
}

impl<'de> Deserialize<'de> for AssembleCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CallVisitor)
    }
}

struct CallVisitor;

impl<'de> de::Visitor<'de> for CallVisitor {
    type Value = AssembleCall;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<AssembleCall, A::Error> {
        let mut call = AssembleCall {
            request: Request::default(),
            recipe: None,
            report: true,
        };
        let mut name = None;
        let fields = RequestFields {
            fields,
            call: &mut call,
            name: &mut name,
        };
        let request = Request::deserialize(MapAccessDeserializer::new(fields))?;
        call.request = Request {
            recipe: name.map(Into::into),
            ..request
        };
        Ok(call)
    }
}

/// The field `recipe` of a call: a name, or a recipe.
#[derive(Deserialize)]
#[serde(untagged)]
enum RecipeField {
    Name(String),
    Whole(Map<String, Value>),
}

/// The fields of a call that the library's request has. The other fields are
/// removed while the body is read, so that errors name the right field.
struct RequestFields<'c, A> {
    fields: A,
    call: &'c mut AssembleCall,
    name: &'c mut Option<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for RequestFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.fields.next_key::<String>()? {
            match name.as_str() {
                "report" => self.call.report = self.fields.next_value()?,
                "recipe" => match self.fields.next_value::<Option<RecipeField>>()? {
                    None => {}
                    Some(RecipeField::Name(name)) => *self.name = Some(name),
                    Some(RecipeField::Whole(recipe)) => self.call.recipe = Some(recipe),
                },
                _ => return seed.deserialize(name.into_deserializer()).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.fields.next_value_seed(seed)
    }
}

/// An assembled request: in Contexture's own format, or in a provider's.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum AssembleResponse {
    /// A request in a provider's format, or as text.
    Rendered(Box<Rendered>),
    /// A request in Contexture's own format.
    Own(#[schemars(with = "OwnForm<'static>")] Box<Own>),
}

/// A request in Contexture's own format.
#[derive(Debug)]
struct Own(Assembled);

impl Serialize for Own {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = OwnForm {
            format: OwnFormat::Json,
            form: self.0.form(),
            warnings: &self.0.report.warnings,
        };
        form.serialize(serializer)
    }
}

/// An assembled request in Contexture's own format, with its report.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Assembled")]
struct OwnForm<'a> {
    /// The format of the request.
    format: OwnFormat,
    #[serde(flatten)]
    form: AssembledForm<'a>,
    /// Warnings that the caller should read. The same as `report.warnings`.
    warnings: &'a [Warning],
}

/// The name of Contexture's own format.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum OwnFormat {
    Json,
}

/// The schema of every format but Contexture's own.
struct RenderedFormat;

impl JsonSchema for RenderedFormat {
    fn schema_name() -> Cow<'static, str> {
        "RenderedFormat".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Format::ALL
            .iter()
            .filter(|(_, format)| *format != Format::Json);
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        schemars::json_schema!({
            "description": "The format of a request: a provider's, or text.",
            "type": "string",
            "enum": names,
        })
    }
}

/// A request in a provider's format, or as text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RenderedRequest")]
struct Rendered {
    /// The format of the request.
    #[schemars(with = "RenderedFormat")]
    format: Format,
    /// The body to send to the provider, or a text.
    request: Body,
    /// The model that the request is for.
    model: String,
    /// The provider of the model.
    provider: Provider,
    /// The label of the session. Null if no session was given.
    session_label: Option<String>,
    /// The head of the session. Send this id as `parent_turn_id` of the turn
    /// that answers the request, so that concurrent writers get a conflict.
    /// Null while the session is empty: the first turn has no conflict check.
    parent_turn_id: Option<String>,
    /// The hash under which the request was saved. Null if it was not saved.
    snapshot: Option<String>,
    /// The number of tokens of the request.
    tokens: u64,
    /// Warnings that the caller should read. The same as `report.warnings`, and
    /// present without a report.
    warnings: Vec<Warning>,
    /// The report of every candidate. Null if `report` was false.
    report: Option<Report>,
}

/// The body to send to the provider, or a text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RequestBody")]
#[serde(untagged)]
enum Body {
    /// The request as text.
    Text(String),
    /// The body to send to the provider.
    // Raw, because it is large and would otherwise be parsed only to be written.
    Json(#[schemars(with = "Map<String, Value>")] Box<RawValue>),
}

impl Body {
    fn new(format: Format, rendered: String) -> Result<Self, Problem> {
        match format {
            Format::Text => Ok(Self::Text(rendered)),
            _ => RawValue::from_string(rendered)
                .map(Self::Json)
                .map_err(|error| Problem::failure(format!("rendered JSON is invalid: {error}"))),
        }
    }
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/assemble", "assemble")
            .describe(
                "Assemble a request",
                "Collects the content that the recipe names, fits it into the token budget, and \
                 returns the request to send to the model. The report lists every candidate: what \
                 was kept, cut or dropped, and why. The request is saved; `snapshot` is its hash.",
            )
            .repeatable()
            .refuses(&[404, 409])
            .example(
                "/v1/assemble",
                json!({
                    "recipe": "broker",
                    "session": "support",
                    "event": "Does it also happen in release builds?",
                    "model": "claude-sonnet-5-5",
                    "format": "anthropic",
                }),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, call: AssembleCall| answer(tenant, call),
    );
}

impl AssembleCall {
    /// Returns the library's request, with the recipe that was sent inline.
    pub(crate) fn into_request(self) -> Result<Request, Problem> {
        let mut request = self.request;
        if let Some(recipe) = self.recipe {
            let text = Value::Object(recipe).to_string();
            let recipe = Recipe::parse("recipe", &text).map_err(|error| {
                let field = error.field().map(|field| format!("recipe.{field}"));
                Problem::from(error).at(field.unwrap_or_else(|| "recipe".to_owned()))
            })?;
            request.recipe = Some(recipe.into());
        }
        Ok(request)
    }
}

/// Assembles a request and returns it in the requested format.
fn answer(tenant: &Tenant, call: AssembleCall) -> Result<AssembleResponse, Problem> {
    let report = call.report;
    let mut request = call.into_request()?;
    let format = *request.format.get_or_insert(Format::Json);
    let assembled = assemble(tenant, request)?;
    if format == Format::Json {
        return Ok(AssembleResponse::Own(Box::new(Own(assembled))));
    }
    let request = Body::new(format, assembled.render_compact(format)?)?;
    let assembled = assembled.into_inner();
    Ok(AssembleResponse::Rendered(Box::new(Rendered {
        format,
        request,
        model: assembled.model.name,
        provider: assembled.model.provider,
        session_label: assembled.session_label,
        parent_turn_id: assembled.parent_turn_id.map(|id| id.to_string()),
        snapshot: assembled.snapshot,
        tokens: assembled.report.budget.used,
        warnings: assembled.report.warnings.clone(),
        report: report.then_some(assembled.report),
    })))
}

/// Returns a warning if a request names a session and its recipe has no history
/// layer: the request looks right, and the model does not see the conversation.
fn history_warning(session: &str, assembled: &Assembled) -> Option<Warning> {
    let mut layers = assembled.layers.iter();
    if layers.any(|layer| layer.concept == Concept::History) {
        return None;
    }
    let message = format!(
        "recipe `{}` has no history layer: the request contains no turns of session `{session}`",
        assembled.report.recipe
    );
    let advice = Advice::set_to("recipe", "broker");
    Some(Warning::new("no_history", message).advise(advice))
}

/// Assembles a request, counts it, and notifies listeners.
pub fn assemble(tenant: &Tenant, mut request: Request) -> Result<Assembled, Problem> {
    // The request is saved.
    tenant.check_quota(StorageKind::Bytes)?;
    request.now = tenant.fixed_now();
    if let Some(event) = &request.event {
        event
            .check("event")
            .map_err(|error| Problem::from(error).at("event"))?;
    }
    let mut assembled = tenant.engine.assemble(&tenant.root, &request)?;
    if let Some(session) = &request.session {
        let warning = history_warning(session, &assembled);
        assembled.report.warnings.extend(warning);
    }
    tenant.observer.assembled(&assembled);
    if let Some(session) = &assembled.session_label {
        let event = SessionEvent::Assembled {
            session: session.clone(),
            recipe: assembled.report.recipe.clone(),
            model: assembled.model.name.clone(),
            tokens: assembled.report.budget.used,
            shared_tokens: assembled
                .report
                .cache
                .as_ref()
                .map(|cache| cache.shared_tokens),
            snapshot: assembled.snapshot.clone(),
        };
        events::publish(tenant, &event);
    }
    Ok(assembled)
}
