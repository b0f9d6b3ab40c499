//! Records turns: in our own form, or as a provider returned them.

use contexture::Recording;
use contexture::native::{self, Api as ProviderApi, NativeExchange, StreamReader};
use contexture::store::{NewTurn, ParentTurn, RawJson, Recorded};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::json::{self as json_body};
use crate::operation::{Api, Nothing, Operation, ResponseBody};
use crate::problem::Problem;
use crate::schema::Schemas;
use crate::sessions::{self, Named};
use crate::tenant::Tenant;

/// The id of the operation.
const RECORD_TURN: &str = "record_turn";

/// A call of a model in the form of a provider's own API.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = native_example())]
#[allow(dead_code, reason = "it describes the body; the library reads it")]
pub(crate) struct NativeTurn {
    /// The provider: `anthropic`, `openai`, `openai-chat`, `openai-responses` or
    /// `gemini`. Default: detected by the shape of the response.
    #[serde(default)]
    provider: Option<String>,
    /// The body of the request that was sent. Its messages that the session does
    /// not have yet are recorded before the response. Default: only the response
    /// is recorded.
    #[serde(default)]
    request: Option<Map<String, Value>>,
    /// The body of the response, or the recorded event stream as text.
    #[schemars(with = "NativeResponse")]
    response: Value,
    /// The id of the previous turn, as in a turn of Contexture's own form.
    #[serde(default)]
    parent_turn_id: ParentTurn,
    /// A key that makes a retry safe: a turn with the same key is recorded once.
    #[serde(default)]
    #[schemars(with = "Option<contexture::store::schema::NotEmpty>")]
    idempotency_key: Option<String>,
    /// The hash of the snapshot of the request that was answered.
    #[serde(default)]
    request_hash: Option<String>,
    /// The id of the event that caused the turn.
    #[serde(default)]
    source_event_id: Option<String>,
}

contexture::core::stands_for! {
    /// A response of a provider.
    NativeResponse, |_generator| schemars::json_schema!({
        "type": ["object", "array", "string"],
        "items": {"type": "object", "additionalProperties": true},
        "additionalProperties": true,
    })
}

fn native_example() -> Value {
    json!({
        "provider": "anthropic",
        "response": {
            "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
            "content": [
                {"type": "thinking", "thinking": "The log says so.", "signature": "c2VhbA=="},
                {"type": "text", "text": "foo is never linked."},
            ],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 512, "output_tokens": 24},
        },
    })
}

pub(crate) fn add(api: &mut Api) {
    let mut recording = Operation::post("/v1/sessions/{label}/turns", RECORD_TURN)
        .describe(
            "Record a turn",
            "Records the messages of one exchange with the model, including tool calls and \
             results. The body is a turn in Contexture's own form, a provider's response as it \
             came (Anthropic Messages, OpenAI Chat, OpenAI Responses or Gemini, whole or as a \
             recorded event stream), or an object with `response` and, optionally, `provider` and \
             `request`. With `request`, the messages that the session does not have yet are \
             recorded before the response. When the call returns, the turn is on disk. If \
             `parent_turn_id` is absent, the turn is recorded after the session's head. If it is \
             null, the session must be empty. A turn whose `parent_turn_id` is not the session's \
             head is rejected with 409, and nothing is recorded. Send `idempotency_key`, or the \
             header `Idempotency-Key`, to make retries safe.",
        )
        .creates()
        .refuses(&[409])
        .example(
            "/v1/sessions/support/turns",
            json!({
                "messages": [
                    {"role": "user", "content": "Why does the build fail?"},
                    {"role": "assistant", "content": [
                        {"type": "text", "text": "Let me look."},
                        {"type": "tool_call", "id": "c1", "name": "shell",
                         "arguments": {"command": "make"}},
                    ]},
                    {"role": "tool", "tool_call_id": "c1",
                     "content": "undefined reference to foo"},
                    {"role": "assistant", "content": "foo is never linked."},
                ],
                "model": "claude-sonnet-5-5",
                "idempotency_key": "answer-1",
            }),
        );
    recording.response = ResponseBody::Json(api.outputs.subschema_for::<Recorded>());
    recording.takes.native = Some(api.inputs.subschema_for::<NativeTurn>());
    recording.takes.idempotency_header = true;
    api.add_stream::<Named, Nothing, NewTurn>(recording);
}

/// A turn as it was sent.
#[derive(Debug)]
pub struct SentTurn<'a> {
    /// A turn in our own form, or a response of a provider.
    pub body: &'a [u8],
    /// Whether the body is a recorded stream of server-sent events.
    pub is_event_stream: bool,
    /// The header `Idempotency-Key`.
    pub key: Option<String>,
    /// The key of a call without that header, which a retry of the same call has, too.
    pub retry_key: Option<String>,
}

/// Reads a turn in our own form or in that of a provider, and records it.
pub fn record(
    tenant: &Tenant,
    schemas: &Schemas,
    label: &str,
    sent: SentTurn<'_>,
) -> Result<Recorded, Problem> {
    let bytes = sent.body;
    let explicit = sent.key.is_some();
    let key = sent.key.or(sent.retry_key);
    let mut turn = match sent.is_event_stream || native::is_native(bytes) {
        true => {
            json_body::check_count(bytes)?;
            let mut recording = match sent.is_event_stream {
                true => read_stream(bytes)?,
                false => Recording::read("", bytes, None)?,
            };
            if let (Recording::Exchange(exchange), Some(key)) = (&mut recording, &key) {
                add_key(exchange, key);
            }
            tenant.engine.turn_of(label, recording)?
        }
        false => {
            let checked: NewTurn =
                json_body::read(schemas, RECORD_TURN, bytes, json_body::MOST_VALUES)?;
            // Read from the bytes, blocks of providers keep theirs.
            let has_raw = bytes.windows(5).any(|name| name == b"\"raw\"");
            match has_raw {
                true => serde_json::from_slice(bytes).unwrap_or(checked),
                false => checked,
            }
        }
    };
    if let Some(key) = key {
        match &turn.idempotency_key {
            Some(_) if !explicit => {}
            Some(own) if *own != key => {
                let message = format!(
                    "is `{own}`, but the header `Idempotency-Key` is `{key}`: send one of them, \
                     or the same value in both"
                );
                return Err(Problem::unprocessable(message).at("idempotency_key"));
            }
            _ => turn.idempotency_key = Some(key),
        }
    }
    sessions::record(tenant, label, &turn)
}

/// Reads the recorded stream of a response.
fn read_stream(bytes: &[u8]) -> Result<Recording, Problem> {
    let mut reader = StreamReader::new();
    reader.push(bytes);
    let response = reader.finish(&ProviderApi::ALL);
    let response =
        response.map_err(|error| Problem::unprocessable(error.to_string()).at(&error.path))?;
    Ok(Recording::Exchange(Box::new(NativeExchange {
        request: None,
        response,
        other: Vec::new(),
    })))
}

/// Gives the key to an exchange that has none, so that a retry is compared with
/// the history before the first try.
fn add_key(exchange: &mut NativeExchange, key: &str) {
    let has_key = exchange
        .other
        .iter()
        .any(|(name, _)| name == "idempotency_key");
    if !has_key && let Ok(raw) = RawJson::parse(&Value::from(key).to_string()) {
        exchange.other.push(("idempotency_key".to_owned(), raw));
    }
}
