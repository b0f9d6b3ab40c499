//! Operations of the HTTP API. Each is declared once; the declaration creates
//! both the route and the entry in the OpenAPI document.
//!
//! ```text
//! api.add(
//!     Operation::post("/v1/tasks", "push_task")
//!         .says("Create a task", "Creates a task, which becomes current. …")
//!         .creates()                     // answers with 201
//!         .refuses(&[404, 409])          // besides the errors of every operation
//!         .example("/v1/tasks", json!({"goal": "…"})),
//!     |tenant, path, query, body| { … }, // blocking work in a thread
//! );
//! ```

use std::any::TypeId;
use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::{App, BodyMemory};
use crate::idempotency::{self, KeyOfCall};
use crate::large_answer::LargeAnswer;
use crate::problem::Problem;
use crate::schema::Schemas;
use crate::tenant::Tenant;
use crate::{body, json};

/// An operation of the HTTP API.
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// The route, with parameters in braces, such as `/v1/sessions/{label}`.
    pub(crate) path: &'static str,
    /// The `operationId`: the name of the operation in generated clients.
    pub(crate) id: &'static str,
    /// A title: verb and noun.
    pub(crate) summary: &'static str,
    /// A description in the third person.
    pub(crate) about: &'static str,
    /// The status of a successful answer.
    pub(crate) status: StatusCode,
    /// The error statuses that not every operation can answer with.
    pub(crate) refusals: &'static [u16],
    /// The call that the document shows and a test makes.
    pub(crate) example: Option<Example>,
    /// Whether the body can be as large as a tree.
    pub(crate) large: bool,
    /// Whether the answer can be as large as a tree.
    pub(crate) large_answer: bool,
    /// A field that callers forget, and the hint for a body without it.
    pub(crate) wrapper: Option<Wrapper>,
    /// The parts of a call.
    pub(crate) takes: Takes,
    /// The content of a successful answer.
    pub(crate) response: ResponseBody,
    /// Whether the operation only reads. A read-only server refuses the others.
    pub(crate) only_reads: bool,
    /// Whether a call can be sent again without an idempotency key.
    pub(crate) is_repeatable: bool,
    /// Whether the operation needs an admin key.
    pub(crate) is_admin: bool,
}

/// A field that holds what callers may send as the whole body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wrapper {
    /// The name of the field.
    field: &'static str,
    /// The hint for an invalid body without the field.
    hint: &'static str,
}

/// A call that the document shows and a test makes.
pub(crate) struct Example {
    /// The path and the query.
    pub(crate) target: &'static str,
    /// The JSON body.
    pub(crate) body: Option<Value>,
}

/// The schemas of the parts of a call.
#[derive(Default)]
pub(crate) struct Takes {
    /// The schema of the path parameters.
    pub(crate) path: Option<Schema>,
    /// The schema of the query parameters.
    pub(crate) query: Option<Schema>,
    /// The schema of the JSON body.
    pub(crate) body: Option<Schema>,
    /// Whether the body can also be NDJSON: one JSON object per line.
    pub(crate) lines: bool,
    /// A schema that the JSON body can have instead, and that the operation
    /// checks itself. The body can then also be a recorded event stream.
    pub(crate) native: Option<Schema>,
    /// The media type of a body that is not JSON.
    pub(crate) binary: Option<&'static str>,
    /// Whether the operation reads the header `Idempotency-Key`.
    pub(crate) idempotency_header: bool,
}

/// The content of a successful answer.
#[derive(Default)]
pub(crate) enum ResponseBody {
    /// JSON with this schema.
    Json(Schema),
    /// A stream of lines or events with this schema.
    Stream { media: &'static str, schema: Schema },
    /// Bytes of this media type.
    Binary(&'static str),
    /// An empty body.
    #[default]
    Nothing,
}

/// No path parameters, no query, or no body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl Operation {
    pub(crate) fn get(path: &'static str, id: &'static str) -> Self {
        Self::new(Method::GET, path, id)
    }

    pub(crate) fn post(path: &'static str, id: &'static str) -> Self {
        Self::new(Method::POST, path, id)
    }

    pub(crate) fn new(method: Method, path: &'static str, id: &'static str) -> Self {
        Self {
            only_reads: method == Method::GET,
            method,
            path,
            id,
            summary: "",
            about: "",
            status: StatusCode::OK,
            refusals: &[],
            example: None,
            large: false,
            wrapper: None,
            large_answer: false,
            takes: Takes::default(),
            response: ResponseBody::default(),
            is_repeatable: false,
            is_admin: path.starts_with("/v1/admin/"),
        }
    }

    /// Sets the summary (verb and noun) and the description (third person).
    pub(crate) fn says(mut self, summary: &'static str, about: &'static str) -> Self {
        (self.summary, self.about) = (summary, about);
        self
    }

    /// Sets the status of success to 201.
    pub(crate) fn creates(mut self) -> Self {
        self.status = StatusCode::CREATED;
        self
    }

    /// Marks an operation with a body as one that only reads.
    pub(crate) fn reads(mut self) -> Self {
        self.only_reads = true;
        self
    }

    /// Marks an operation whose calls change nothing when they are sent again, so
    /// that they need no idempotency key.
    pub(crate) fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// Lets the body be as large as a tree can be.
    pub(crate) fn large(mut self) -> Self {
        self.large = true;
        self
    }

    /// Sets the hint for an invalid body without a field that callers forget.
    pub(crate) fn wrapped_in(mut self, field: &'static str, hint: &'static str) -> Self {
        self.wrapper = Some(Wrapper { field, hint });
        self
    }

    /// Lets the answer be as large as a tree: its memory is reserved before it is
    /// made.
    pub(crate) fn answers_large(mut self) -> Self {
        self.large_answer = true;
        self
    }

    /// Sets the error statuses that not every operation can answer with.
    pub(crate) fn refuses(mut self, refusals: &'static [u16]) -> Self {
        self.refusals = refusals;
        self
    }

    pub(crate) fn example(mut self, target: &'static str, body: impl Into<Option<Value>>) -> Self {
        let body = body.into();
        self.example = Some(Example { target, body });
        self
    }

    /// Returns the tag of the operation: the first part of its path.
    pub(crate) fn group(&self) -> &'static str {
        self.path.split('/').nth(2).unwrap_or("server")
    }
}

/// All operations, and the router that serves them.
pub(crate) struct Api {
    pub(crate) operations: Vec<Operation>,
    pub(crate) router: Router<App>,
    /// The routes that need an admin key.
    pub(crate) admin_router: Router<App>,
    pub(crate) inputs: SchemaGenerator,
    pub(crate) outputs: SchemaGenerator,
}

/// The implementation of an operation: it gets the tenant, the path parameters,
/// the query and the body.
pub(crate) type Work<P, Q, B, A> = fn(&Tenant, P, Q, B) -> Result<A, Problem>;

/// The implementation of an operation of the admin API.
pub(crate) type AdminWork<P, Q, B, A> = fn(&App, P, Q, B) -> Result<A, Problem>;

/// The name under which calls of the admin API wait for a place. No tenant can
/// have it.
const ADMIN: &str = "/admin";

impl Api {
    pub(crate) fn new() -> Self {
        let settings = || {
            schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
                settings
                    .transforms
                    .push(Box::new(RecursiveTransform(add_maximum)));
            })
        };
        Self {
            operations: Vec::new(),
            router: Router::new(),
            admin_router: Router::new(),
            inputs: settings().for_deserialize().into_generator(),
            outputs: settings().for_serialize().into_generator(),
        }
    }

    /// Adds an operation that reads JSON and answers JSON.
    pub(crate) fn add<P, Q, B, A>(&mut self, mut operation: Operation, work: Work<P, Q, B, A>)
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + Send + 'static,
    {
        operation.response = ResponseBody::Json(self.outputs.subschema_for::<A>());
        operation.takes.idempotency_header =
            operation.method == Method::POST && !operation.only_reads && !operation.is_repeatable;
        let call = Declared {
            id: operation.id,
            status: operation.status,
            large: operation.large,
            large_answer: operation.large_answer,
            wrapper: operation.wrapper,
            keyed: operation.takes.idempotency_header,
        };
        let handler = move |State(app): State<App>, request: Request<Body>| async move {
            answer(&app, request, call, work).await
        };
        self.add_route::<P, Q, B>(operation, |filter| on(filter, handler));
    }

    /// Adds an operation of the admin API, which reads JSON and answers JSON.
    pub(crate) fn add_admin<P, Q, B, A>(
        &mut self,
        mut operation: Operation,
        work: AdminWork<P, Q, B, A>,
    ) where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + Send + 'static,
    {
        operation.response = ResponseBody::Json(self.outputs.subschema_for::<A>());
        let call = (operation.id, operation.status);
        let handler = move |State(app): State<App>, request: Request<Body>| async move {
            answer_admin(&app, request, call, work).await
        };
        self.add_route::<P, Q, B>(operation, |filter| on(filter, handler));
    }

    /// Adds an operation with a handler of its own.
    pub(crate) fn add_route<P, Q, B>(
        &mut self,
        mut operation: Operation,
        route: impl FnOnce(MethodFilter) -> MethodRouter<App>,
    ) where
        P: JsonSchema + 'static,
        Q: JsonSchema + 'static,
        B: JsonSchema + 'static,
    {
        operation.takes.path = self.input::<P>(true);
        operation.takes.query = self.input::<Q>(true);
        operation.takes.body = self.input::<B>(false);
        let filter = match operation.method {
            Method::GET => MethodFilter::GET,
            Method::POST => MethodFilter::POST,
            Method::PUT => MethodFilter::PUT,
            Method::PATCH => MethodFilter::PATCH,
            _ => MethodFilter::DELETE,
        };
        let router = match operation.is_admin {
            true => &mut self.admin_router,
            false => &mut self.router,
        };
        *router = std::mem::take(router).route(operation.path, route(filter));
        self.operations.push(operation);
    }

    /// Compiles the schemas of all bodies, each under the id of its operation.
    pub(crate) fn schemas(&self) -> Schemas {
        let bodies = self.operations.iter().filter_map(|operation| {
            let schema = operation.takes.body.as_ref()?;
            Some((operation.id, schema.as_value()))
        });
        Schemas::compile(self.inputs.definitions(), bodies)
    }

    fn input<T: JsonSchema + 'static>(&mut self, whole: bool) -> Option<Schema> {
        if TypeId::of::<T>() == TypeId::of::<Nothing>() {
            return None;
        }
        // Each parameter is listed on its own, so the schema cannot be a reference.
        Some(match whole {
            true => T::json_schema(&mut self.inputs),
            false => self.inputs.subschema_for::<T>(),
        })
    }
}

/// Adds the maximum of an integer type, exactly. Clients that read JSON numbers
/// as doubles round the maximum of 64-bit types; the document does not.
fn add_maximum(schema: &mut Schema) {
    let maximum = match schema.get("format").and_then(Value::as_str) {
        Some("uint64" | "uint") => u64::MAX,
        Some("uint32") => u32::MAX.into(),
        Some("int64") => i64::MAX.unsigned_abs(),
        _ => return,
    };
    if schema.get("maximum").is_none() {
        schema.insert("maximum".to_owned(), maximum.into());
    }
}

/// What a handler needs to know of its operation.
#[derive(Clone, Copy)]
struct Declared {
    id: &'static str,
    status: StatusCode,
    large: bool,
    large_answer: bool,
    wrapper: Option<Wrapper>,
    // Whether a retry with the same `Idempotency-Key` is done once.
    keyed: bool,
}

impl Wrapper {
    /// Adds the hint to a problem with a body that does not have the field.
    fn explain(self, body: &[u8], problem: Problem) -> Problem {
        let fields: Result<BTreeMap<String, IgnoredAny>, _> = serde_json::from_slice(body);
        match fields {
            Ok(fields) if !fields.contains_key(self.field) => problem.hint(self.hint),
            _ => problem,
        }
    }
}

/// Reads a call, and does the work in a thread. The answer is serialised in that
/// thread, too.
async fn answer<P, Q, B, A>(
    app: &App,
    request: Request<Body>,
    operation: Declared,
    work: Work<P, Q, B, A>,
) -> Response
where
    P: DeserializeOwned + Send + 'static,
    Q: DeserializeOwned + Send + 'static,
    B: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    let prepared = async {
        let (mut parts, incoming) = request.into_parts();
        let path: P = path(&mut parts).await?;
        let query: Q = query(&parts)?;
        let key = match operation.keyed {
            true => KeyOfCall::read(&parts)?,
            false => None,
        };
        let tenant = app.tenant(&parts).await?;
        let mut reader = body::Reader::new(app, &tenant);
        if operation.large {
            reader.most = reader.most.max(app.config().max_tree_bytes);
        }
        let bytes = match TypeId::of::<B>() == TypeId::of::<Nothing>() {
            true => body::none(app, incoming).await.map(|()| None)?,
            false => Some(body::json(reader, &parts.headers, incoming).await?),
        };
        let reserved = match operation.large_answer {
            true => Some(app.reserve_large_answer(&tenant).await?),
            false => None,
        };
        Ok::<_, Problem>((tenant, path, query, key, bytes, reserved))
    };
    let (tenant, path, query, key, bytes, reserved) = match prepared.await {
        Ok(prepared) => prepared,
        Err(problem) => return problem.into_response(),
    };
    let shared = app.clone();
    let name = std::sync::Arc::clone(&tenant.name);
    let done = app.run(&name, move || {
        let most = match operation.large {
            true => json::MOST_VALUES_OF_TREE,
            false => json::MOST_VALUES,
        };
        let body: B = match &bytes {
            Some(bytes) => {
                let read = json::read(shared.schemas(), operation.id, bytes, most);
                read.map_err(|problem| match operation.wrapper {
                    Some(wrapper) => wrapper.explain(bytes, problem),
                    None => problem,
                })?
            }
            None => json::nothing()?,
        };
        let sent: &[u8] = bytes.as_deref().unwrap_or_default();
        let answer = idempotency::run(&tenant, key, sent, || {
            to_bytes(&work(&tenant, path, query, body)?)
        })?;
        // The memory of the request is given back first: calls that wait for each
        // other's memory would wait for ever.
        drop(bytes);
        let memory = match reserved {
            Some(reserved) => Some(reserved.shrunk_to(answer.len())),
            None => shared.reserve_answer(&tenant, answer.len())?,
        };
        Ok((answer, memory))
    });
    match done.await {
        Ok((bytes, memory)) => answer_with(operation.status, bytes, memory),
        Err(problem) => problem.into_response(),
    }
}

/// Reads a call of the admin API, and does the work in a thread.
async fn answer_admin<P, Q, B, A>(
    app: &App,
    request: Request<Body>,
    (id, status): (&'static str, StatusCode),
    work: AdminWork<P, Q, B, A>,
) -> Response
where
    P: DeserializeOwned + Send + 'static,
    Q: DeserializeOwned + Send + 'static,
    B: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    let done = async {
        let (mut parts, incoming) = request.into_parts();
        let path: P = path(&mut parts).await?;
        let query: Q = query(&parts)?;
        // Bodies use the memory of the default tenant.
        let tenant = app.tenant_named("").await?;
        let bytes = match TypeId::of::<B>() == TypeId::of::<Nothing>() {
            true => body::none(app, incoming).await.map(|()| None)?,
            false => {
                let reader = body::Reader::new(app, &tenant);
                Some(body::json(reader, &parts.headers, incoming).await?)
            }
        };
        let shared = app.clone();
        app.run(ADMIN, move || {
            let body: B = match bytes {
                Some(bytes) => json::read(shared.schemas(), id, &bytes, json::MOST_VALUES)?,
                None => json::nothing()?,
            };
            to_bytes(&work(&shared, path, query, body)?)
        })
        .await
    };
    match done.await {
        Ok(bytes) => json_response(status, bytes),
        Err(problem) => problem.into_response(),
    }
}

/// Serialises an answer into a buffer that is large from the start, because many
/// answers are large and a growing buffer is copied.
pub(crate) fn to_bytes(answer: &impl Serialize) -> Result<Vec<u8>, Problem> {
    const USUAL: usize = 64 << 10;
    let mut bytes = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut bytes, answer)
        .map_err(|error| Problem::failure(error.to_string()))?;
    Ok(bytes)
}

/// Returns an answer that gives its memory back when it was sent.
pub(crate) fn answer_with(
    status: StatusCode,
    bytes: Vec<u8>,
    memory: Option<BodyMemory>,
) -> Response {
    let Some(memory) = memory else {
        return json_response(status, bytes);
    };
    let json = HeaderValue::from_static("application/json");
    let body = Body::new(LargeAnswer::new(bytes, memory));
    (status, [(header::CONTENT_TYPE, json)], body).into_response()
}

pub(crate) fn json_response(status: StatusCode, bytes: Vec<u8>) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], bytes).into_response()
}

/// Returns the path parameters.
pub(crate) async fn path<P: DeserializeOwned>(parts: &mut Parts) -> Result<P, Problem> {
    let wrong = |message: String| Problem::bad_request("invalid_path", message);
    let names = RawPathParams::from_request_parts(parts, &()).await;
    let names = names.map_err(|error| wrong(error.body_text()))?;
    let map: Map<String, Value> = names
        .iter()
        .map(|(name, value)| (name.to_owned(), Value::String(value.to_owned())))
        .collect();
    serde_json::from_value(Value::Object(map)).map_err(|error| wrong(error.to_string()))
}

/// Returns the query parameters.
pub(crate) fn query<Q: DeserializeOwned>(parts: &Parts) -> Result<Q, Problem> {
    let wrong = |message: String| Problem::bad_request("invalid_query", message);
    let text = parts.uri.query().unwrap_or_default();
    // The parser would replace invalid UTF-8 silently.
    if !is_utf8(text.as_bytes()) {
        return Err(wrong("the query is not UTF-8".to_owned()));
    }
    let pairs = form_urlencoded::parse(text.as_bytes());
    serde_path_to_error::deserialize(serde_urlencoded::Deserializer::new(pairs)).map_err(|error| {
        let path = error.path().to_string();
        wrong(error.inner().to_string()).at(path.trim_end_matches(['?', '.']))
    })
}

/// Returns true if a text is UTF-8 after its `%` escapes are decoded.
fn is_utf8(text: &[u8]) -> bool {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}
