//! Operations of the HTTP API. Each is declared once; the declaration is both the
//! work and the entry in the OpenAPI document.
//!
//! ```text
//! api.add(
//!     Operation::post("/v1/tasks", "push_task")
//!         .describe("Create a task", "Creates a task, which becomes current. …")
//!         .creates()                     // answers with 201
//!         .refuses(&[404, 409])          // besides the errors of every operation
//!         .example("/v1/tasks", json!({"goal": "…"})),
//!     |tenant, path, query, body| { … }, // blocking work
//! );
//! ```

use std::any::TypeId;
use std::collections::BTreeMap;

use http::{Method, StatusCode};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::deployment::Deployment;
use crate::json;
use crate::problem::Problem;
use crate::schema::Schemas;
use crate::tenant::Tenant;
use crate::work::{Call, ReadyCall, Work};

/// An operation of the HTTP API.
pub struct Operation {
    /// The method.
    pub method: Method,
    /// The route, with parameters in braces, such as `/v1/sessions/{label}`.
    pub path: &'static str,
    /// The `operationId`: the name of the operation in generated clients.
    pub id: &'static str,
    /// A title: verb and noun.
    pub(crate) summary: &'static str,
    /// A description in the third person.
    pub(crate) about: &'static str,
    /// The status of a successful answer.
    pub status: StatusCode,
    /// The error statuses that not every operation can answer with.
    pub(crate) refusals: &'static [u16],
    /// The call that the document shows and a test makes.
    pub(crate) example: Option<Example>,
    /// Whether the body can be as large as a tree.
    pub large: bool,
    /// Whether the answer can be as large as a tree.
    pub large_answer: bool,
    /// A field that callers forget, and the hint for a body without it.
    pub(crate) wrapper: Option<Wrapper>,
    /// The parts of a call.
    pub(crate) takes: Takes,
    /// The content of a successful answer.
    pub(crate) response: ResponseBody,
    /// Whether the operation only reads. A read-only server refuses the others.
    pub only_reads: bool,
    /// Whether a call can be sent again without an idempotency key.
    pub(crate) is_repeatable: bool,
    /// Whether the operation needs an admin key.
    pub is_admin: bool,
    /// The implementation of the operation.
    pub implementation: Implementation,
}

/// The implementation of an operation.
pub enum Implementation {
    /// Work for the tenant of the call. It reads JSON and answers JSON.
    Tenant(Work<Tenant>),
    /// Work of the admin API. It reads JSON and answers JSON.
    Admin(Work<dyn Deployment>),
    /// A body or an answer that is a stream: the server has a handler for the id of
    /// the operation.
    Stream,
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
pub struct Nothing {}

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
            implementation: Implementation::Stream,
        }
    }

    /// Sets the summary (verb and noun) and the description (third person).
    pub(crate) fn describe(mut self, summary: &'static str, about: &'static str) -> Self {
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

    /// Returns true if a call has a JSON body.
    pub fn has_body(&self) -> bool {
        self.takes.body.is_some()
    }

    /// Returns true if a call that is sent again with the same `Idempotency-Key` is
    /// done once.
    pub fn is_keyed(&self) -> bool {
        self.takes.idempotency_header
    }

    /// Returns the tag of the operation: the first part of its path.
    pub(crate) fn group(&self) -> &'static str {
        self.path.split('/').nth(2).unwrap_or("server")
    }
}

/// All operations, and the schemas of their parts.
pub struct Api {
    /// The operations, in an order in which their examples succeed.
    pub operations: Vec<Operation>,
    pub(crate) inputs: SchemaGenerator,
    pub(crate) outputs: SchemaGenerator,
}

/// The implementation of an operation: it gets the tenant, the path parameters,
/// the query and the body.
pub(crate) type TenantWork<P, Q, B, A> = fn(&Tenant, P, Q, B) -> Result<A, Problem>;

/// The implementation of an operation of the admin API.
pub(crate) type AdminWork<P, Q, B, A> =
    fn(&(dyn Deployment + 'static), P, Q, B) -> Result<A, Problem>;

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
            inputs: settings().for_deserialize().into_generator(),
            outputs: settings().for_serialize().into_generator(),
        }
    }

    /// Adds an operation that reads JSON and answers JSON.
    pub(crate) fn add<P, Q, B, A>(&mut self, mut operation: Operation, work: TenantWork<P, Q, B, A>)
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
    {
        operation.response = ResponseBody::Json(self.outputs.subschema_for::<A>());
        operation.takes.idempotency_header =
            operation.method == Method::POST && !operation.only_reads && !operation.is_repeatable;
        operation.implementation = Implementation::Tenant(reader(&operation, work));
        self.add_stream::<P, Q, B>(operation);
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
        A: Serialize + JsonSchema + 'static,
    {
        operation.response = ResponseBody::Json(self.outputs.subschema_for::<A>());
        operation.implementation = Implementation::Admin(reader(&operation, work));
        self.add_stream::<P, Q, B>(operation);
    }

    /// Adds an operation that the server has a handler for.
    pub(crate) fn add_stream<P, Q, B>(&mut self, mut operation: Operation)
    where
        P: JsonSchema + 'static,
        Q: JsonSchema + 'static,
        B: JsonSchema + 'static,
    {
        operation.takes.path = self.input::<P>(true);
        operation.takes.query = self.input::<Q>(true);
        operation.takes.body = self.input::<B>(false);
        self.operations.push(operation);
    }

    /// Compiles the schemas of all bodies, each under the id of its operation.
    pub fn schemas(&self) -> Schemas {
        let bodies = self.operations.iter().filter_map(|operation| {
            let schema = operation.takes.body.as_ref()?;
            Some((operation.id, schema.as_value()))
        });
        Schemas::compile(self.inputs.definitions(), bodies)
    }

    /// Returns the OpenAPI document.
    pub fn document(&self, schemas: &Schemas) -> Value {
        crate::openapi::document(self, schemas)
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

/// Returns the work of an operation on a `T`, with what reads its calls.
fn reader<T, P, Q, B, A>(
    operation: &Operation,
    work: fn(&T, P, Q, B) -> Result<A, Problem>,
) -> Work<T>
where
    T: ?Sized + 'static,
    P: DeserializeOwned + Send + 'static,
    Q: DeserializeOwned + Send + 'static,
    B: DeserializeOwned + Send + 'static,
    A: Serialize + 'static,
{
    let (id, wrapper) = (operation.id, operation.wrapper);
    let most = match operation.large {
        true => json::MOST_VALUES_OF_TREE,
        false => json::MOST_VALUES,
    };
    Work::new(move |path, query| {
        let path: P = read_path(path)?;
        let query: Q = read_query(query)?;
        Ok(Call::new(move |schemas, bytes| {
            let body: B = match bytes {
                Some(bytes) => {
                    json::read(schemas, id, bytes, most).map_err(|problem| match wrapper {
                        Some(wrapper) => wrapper.explain(bytes, problem),
                        None => problem,
                    })?
                }
                None => json::nothing()?,
            };
            Ok(ReadyCall::new(move |of: &T| {
                to_bytes(&work(of, path, query, body)?)
            }))
        }))
    })
}

/// Serialises an answer into a buffer that is large from the start, because many
/// answers are large and a growing buffer is copied.
pub fn to_bytes(answer: &impl Serialize) -> Result<Vec<u8>, Problem> {
    const USUAL: usize = 64 << 10;
    let mut bytes = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut bytes, answer)
        .map_err(|error| Problem::failure(error.to_string()))?;
    Ok(bytes)
}

/// Returns the path parameters as a value.
pub fn read_path<P: DeserializeOwned>(parameters: Map<String, Value>) -> Result<P, Problem> {
    serde_json::from_value(Value::Object(parameters))
        .map_err(|error| Problem::bad_request("invalid_path", error.to_string()))
}

/// Returns the parameters of a query as a value.
pub fn read_query<Q: DeserializeOwned>(text: &str) -> Result<Q, Problem> {
    let wrong = |message: String| Problem::bad_request("invalid_query", message);
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
