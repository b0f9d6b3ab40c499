//! Making a provider's request fit.

use contexture::core::RawJson;
use contexture::{FitOptions, Format, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::quota::StorageKind;
use crate::sessions::check_new_session;
use crate::tenant::Tenant;

/// A provider's request, and the tokens that it may use.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "FitRequest")]
#[serde(deny_unknown_fields)]
pub struct FitBody {
    /// The body of the request, as it would be sent to the provider.
    #[schemars(with = "Map<String, Value>")]
    pub request: RawJson,
    /// The session that keeps the conversation, so that the provider's cache
    /// stays valid from call to call. It is created if it does not exist.
    /// Default: none; nothing is stored.
    #[serde(default)]
    pub session: Option<String>,
    /// The API of the request: `anthropic`, `openai`, `openai-chat`,
    /// `openai-responses` or `gemini`. Default: detected.
    #[serde(default)]
    pub from: Option<String>,
    /// The format of the result. Default: that of the request.
    #[serde(default)]
    pub to: Option<Format>,
    /// The model whose window and tokenizer are used. Default: the request's.
    #[serde(default)]
    pub model: Option<String>,
    /// The size of the context window in tokens. Default: the model's.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// The number of tokens to keep free for the response. Default: the limit
    /// that the request sets; otherwise the model's output limit, at most a
    /// quarter of the window and at most 32,000.
    #[serde(default)]
    pub reserve_response: Option<u64>,
    /// Fails with `cache_break` if the request changes earlier messages of the
    /// session's previous request, so that the provider's cache is lost. Needs
    /// `session`. Default: false.
    #[serde(default)]
    pub fail_on_cache_break: bool,
    /// Whether the answer includes the report. Default: true.
    #[serde(default)]
    pub report: Option<bool>,
}

/// A request that fits.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FitResponse")]
pub struct FitResponse {
    /// The body to send to the provider.
    #[schemars(with = "Map<String, Value>")]
    pub request: RawJson,
    /// The format of the body.
    pub format: Format,
    /// Whether the body differs from the one that was sent.
    pub changed: bool,
    /// The report of what was kept and left out. Null if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
}

pub(crate) fn add(api: &mut Api) {
    let example = json!({
        "request": {
            "model": "gpt-5.6",
            "messages": [
                {"role": "system", "content": "Answer briefly."},
                {"role": "user", "content": "Why does the build fail?"},
            ],
        },
        "max_tokens": 8000,
        "report": false,
    });
    api.add(
        Operation::post("/v1/fit", "fit")
            .describe(
                "Make a request fit",
                "Returns a provider's own request within a number of tokens. A request that fits \
                 is returned unchanged. Otherwise older steps are replaced by a summary, and long \
                 tool results are cut. Instructions, tools and settings keep their bytes. With \
                 `session`, new messages are recorded, and summaries are kept from call to call.",
            )
            .repeatable()
            .refuses(&[409, 422])
            .wrapped_in(
                "request",
                "wrap the provider's request: `{\"request\": {…}}`",
            )
            .example("/v1/fit", Some(example)),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: FitBody| fit(tenant, body),
    );
}

/// Fits a request into its budget.
pub fn fit(tenant: &Tenant, body: FitBody) -> Result<FitResponse, Problem> {
    if let Some(session) = &body.session {
        tenant.check_quota(StorageKind::Bytes)?;
        check_new_session(tenant, session)?;
    }
    let options = FitOptions {
        session: body.session,
        from: body.from,
        to: body.to,
        model: body.model,
        max_tokens: body.max_tokens,
        reserve_response: body.reserve_response,
        fail_on_cache_break: body.fail_on_cache_break,
        now: tenant.fixed_now(),
    };
    let given = body.request.as_str().as_bytes();
    let fitted = (tenant.engine.fit(&tenant.root, given, &options)).map_err(|error| {
        let field = error.field().map(field_of);
        let problem = Problem::from(error);
        match field {
            Some(field) => problem.at(field),
            None => problem,
        }
    })?;
    let request = RawJson::parse(&fitted.body).map_err(|error| {
        Problem::from(contexture::Error::input(format!(
            "the result is not JSON: {error}"
        )))
    })?;
    let report = body.report.unwrap_or(true);
    Ok(FitResponse {
        request,
        format: fitted.format,
        changed: fitted.is_changed,
        report: report.then(|| fitted.assembled.into_inner().report),
    })
}

/// Returns the field of the body with an error: one of the body itself, or one of the
/// provider's request.
fn field_of(field: &str) -> String {
    const OWN: [&str; 7] = [
        "session",
        "from",
        "to",
        "model",
        "max_tokens",
        "reserve_response",
        "fail_on_cache_break",
    ];
    match field {
        "label" => "session".to_owned(),
        field if OWN.contains(&field) => field.to_owned(),
        field => format!("request.{field}"),
    }
}
