//! Reports and previews: the report of a snapshot, the same request at another
//! budget or for another model, and a preview of a new one. Nothing is stored.

use std::sync::Arc;

use contexture::core::{Code, Layout};
use contexture::snapshot::{self, Change, Saved};
use contexture::store::Snapshot;
use contexture::stored_report::{self, ReportedBlock, SnapshotReport};
use contexture::tokens::Provider;
use contexture::{Assembled, FitOptions, Preview, Report, Request, usual_format};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::assemble::AssembleCall;
use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A snapshot in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ByHash {
    /// The hash of the snapshot, or its first digits.
    hash: String,
}

/// The query of the report of a snapshot.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ReportQuery {
    /// Whether blocks have their content. Default: true.
    content: bool,
}

impl Default for ReportQuery {
    fn default() -> Self {
        Self { content: true }
    }
}

/// The budget and the model to refit a request for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "RefitRequest")]
#[serde(default, deny_unknown_fields)]
struct RefitBody {
    /// The model. Default: the model of the request.
    model: Option<String>,
    /// The size of the context window in tokens. Default: that of the request;
    /// if `model` is set, the model's.
    max_tokens: Option<u64>,
    /// The number of tokens reserved for the response. Default: that of the
    /// request, if the window has room for it. For a request with inline or
    /// imported content: at most a quarter of the window and 32,000.
    reserve_response: Option<u64>,
    /// Whether to check that the sources still produce the saved request at its
    /// own budget. This assembles the request twice. Default: false.
    verify: bool,
}

/// The content that a refit starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RefitBasis")]
#[serde(rename_all = "snake_case")]
enum Basis {
    /// The sources of the request, as they are now, at the turn that the request
    /// followed. Candidates that were left out can return.
    Sources,
    /// The content of the saved request. It can only become shorter.
    Content,
}

/// A request at another budget or for another model.
#[derive(Debug, Serialize, JsonSchema)]
struct RefitResponse {
    /// The content that the refit starts from.
    basis: Basis,
    /// Whether the sources still produce the saved request at its own budget.
    /// Null if that was not checked.
    reproduced: Option<bool>,
    /// The model.
    model: String,
    /// The provider of the model.
    provider: Provider,
    /// The report of the refitted request.
    report: Report,
    /// The blocks of the refitted request, without their content.
    blocks: Vec<ReportedBlock>,
    /// The blocks that differ from the saved request.
    changes: Vec<Change>,
}

/// A request that was assembled and not stored.
#[derive(Debug, Serialize, JsonSchema)]
struct PreviewResponse {
    /// The model.
    model: String,
    /// The provider of the model.
    provider: Provider,
    /// The report of the request.
    report: Report,
    /// The blocks of the request, with their content.
    blocks: Vec<ReportedBlock>,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/snapshots/{hash}/report", "get_snapshot_report")
            .describe(
                "Get the report of a snapshot",
                "Returns every block of an assembled request with its content, the reason, and \
                 the first request that contains it, and every candidate that was left out with \
                 the reason. Requests that were saved by an earlier version have no left-out \
                 candidates.",
            )
            .refuses(&[422])
            .example("/v1/snapshots/a145e33a/report?content=false", None),
        |tenant: &Tenant, by: ByHash, query: ReportQuery, _: Nothing| {
            let store = tenant.store()?;
            let snapshot = snapshot::find(store, &by.hash)?;
            let report = stored_report::load(store, &snapshot, query.content)?;
            Ok::<SnapshotReport, Problem>(report)
        },
    );
    api.add(
        Operation::post("/v1/snapshots/{hash}/refit", "refit_snapshot")
            .describe(
                "Refit a snapshot",
                "Assembles a saved request again with another budget or for another model, and \
                 returns what differs. Nothing is stored, and history is not summarised. The \
                 sources are read as they are now, and history as it was then. For a request \
                 with inline content, refit starts from the content that was sent.",
            )
            .reads()
            .refuses(&[422])
            .example(
                "/v1/snapshots/a145e33a/refit",
                json!({"max_tokens": 4000, "reserve_response": 1000}),
            ),
        refit,
    );
    api.add(
        Operation::post("/v1/assemble/preview", "preview_request")
            .describe(
                "Preview a request",
                "Assembles a request as `assemble` does, and returns its blocks and its report. \
                 Nothing is stored, and history is not summarised.",
            )
            .reads()
            .refuses(&[404, 409])
            .example(
                "/v1/assemble/preview",
                json!({"recipe": "broker", "session": "support", "event": "Which compiler is it?"}),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, call: AssembleCall| {
            let mut request = call.into_request()?;
            request.now = tenant.fixed_now();
            let preview = Preview::default();
            let assembled = tenant.engine.preview(&tenant.root, &request, preview)?;
            let blocks = stored_report::blocks(&assembled.layout);
            let assembled = assembled.into_inner();
            Ok::<PreviewResponse, Problem>(PreviewResponse {
                model: assembled.model.name,
                provider: assembled.model.provider,
                report: assembled.report,
                blocks,
            })
        },
    );
}

fn refit(
    tenant: &Tenant,
    by: ByHash,
    _: Nothing,
    body: RefitBody,
) -> Result<RefitResponse, Problem> {
    let store = tenant.store()?;
    let snapshot = snapshot::find(store, &by.hash)?;
    let saved = Arc::new(Saved::load(store, &snapshot)?);
    let stored = stored_report::request(store, snapshot.hash)?;
    let (basis, reproduced, assembled) = match stored {
        Some(request) => {
            let reproduced = match body.verify {
                true => Some(is_reproduced(tenant, &snapshot, &saved, &request)?),
                false => None,
            };
            let request = refitted(tenant, &snapshot, request, &body);
            let assembled = preview(tenant, &snapshot, &saved, &request)?;
            (Basis::Sources, reproduced, assembled)
        }
        None => (
            Basis::Content,
            None,
            shorten(tenant, &snapshot, &saved, &body)?,
        ),
    };
    let changes = stored_report::changes(store, &saved, &assembled.layout)?;
    let mut blocks = stored_report::blocks(&assembled.layout);
    blocks.iter_mut().for_each(|block| block.text = None);
    let assembled = assembled.into_inner();
    Ok(RefitResponse {
        basis,
        reproduced,
        model: assembled.model.name,
        provider: assembled.model.provider,
        report: assembled.report,
        blocks,
        changes,
    })
}

/// Returns true if the sources still produce the saved request.
fn is_reproduced(
    tenant: &Tenant,
    snapshot: &Snapshot,
    saved: &Arc<Saved>,
    request: &Request,
) -> Result<bool, Problem> {
    // A source that is gone is a difference, not an error.
    let Ok(again) = preview(tenant, snapshot, saved, request) else {
        return Ok(false);
    };
    let changes = stored_report::changes(tenant.store()?, saved, &again.layout)?;
    Ok(changes.is_empty())
}

/// Returns the stored request with another budget or model.
fn refitted(
    tenant: &Tenant,
    snapshot: &Snapshot,
    mut request: Request,
    body: &RefitBody,
) -> Request {
    if let Some(model) = &body.model {
        let models = tenant.engine.models();
        let provider = models.resolve(model).provider;
        if provider != models.resolve(&snapshot.model).provider {
            request.format = request.format.and_then(|_| usual_format(provider));
        }
        request.model = Some(model.clone());
        request.max_tokens = None;
    }
    request.max_tokens = body.max_tokens.or(request.max_tokens);
    if let Some(window) = body.max_tokens {
        // The recorded reserve may be more than a smaller window holds.
        request.reserve_response = (request.reserve_response).filter(|tokens| *tokens < window / 2);
    }
    request.reserve_response = body.reserve_response.or(request.reserve_response);
    request
}

/// Assembles a request at the time and the turn of a snapshot.
fn preview(
    tenant: &Tenant,
    snapshot: &Snapshot,
    saved: &Arc<Saved>,
    request: &Request,
) -> Result<Assembled, Problem> {
    let request = Request {
        now: Some(snapshot.created_at),
        ..request.clone()
    };
    let preview = Preview {
        head: Some(snapshot.parent_turn),
        previous: Some(Arc::clone(saved)),
    };
    Ok(tenant.engine.preview(&tenant.root, &request, preview)?)
}

/// The most tokens that are reserved for the response by default.
const MOST_RESERVED: u64 = 32_000;

/// Shortens the content of a saved request.
fn shorten(
    tenant: &Tenant,
    snapshot: &Snapshot,
    saved: &Saved,
    body: &RefitBody,
) -> Result<Assembled, Problem> {
    let store = tenant.store()?;
    let models = tenant.engine.models();
    let name = body.model.as_ref().unwrap_or(&snapshot.model);
    let model = models.resolve(name);
    // A request in its own form is read with the ids that it has in the snapshot.
    let own = saved.own_format();
    let usual = || usual_format(models.resolve(&snapshot.model).provider);
    let format = own.or_else(usual).unwrap_or(contexture::Format::OpenAiChat);
    let sent = saved.render(store, format)?;
    let recorded = match *name == snapshot.model {
        true => stored_report::window(store, snapshot.hash)?,
        false => None,
    };
    let default = recorded.unwrap_or(model.window);
    let window = body.max_tokens.unwrap_or(default);
    let reserve = body.reserve_response.unwrap_or_else(|| {
        let answer = saved.max_output().or(model.max_output);
        let most = MOST_RESERVED.min(window / 4);
        answer.map_or(most, |answer| answer.min(most))
    });
    let options = FitOptions {
        model: Some(name.clone()),
        max_tokens: Some(window),
        reserve_response: Some(reserve),
        now: Some(snapshot.created_at),
        ..FitOptions::default()
    };
    let fitted = tenant
        .engine
        .preview_fit(&tenant.root, sent.as_bytes(), &options)?;
    let mut assembled = fitted.assembled;
    let before = saved.layout(store)?;
    let sum = |layout: &Layout| layout.blocks().map(|block| block.tokens).sum::<u64>();
    // The fields around a fitted conversation are not blocks.
    let given = saved.tokens().saturating_sub(sum(&before));
    let report = &assembled.report;
    let is_cut = |id: &str| {
        let mut rows = report.included.iter();
        rows.any(|row| row.truncated && row.id.as_ref() == id)
    };
    let mut excluded = report.excluded.iter();
    let is_shorter = excluded.any(|row| row.code != Code::NOT_FOR_PROVIDER)
        || report.included.iter().any(|row| row.truncated);
    // The provider accepted the request as it is.
    let is_same = *name == snapshot.model && window == default && body.reserve_response.is_none();
    assembled.layout = match is_shorter && !is_same {
        // Other differences come from the form, and from masks of secrets.
        true => {
            let is_whole = |id: &str| own.is_some() && !is_cut(id);
            stored_report::aligned(&before, &assembled.layout, &is_whole)
        }
        false => before,
    };
    // The reserve of the fitted request includes instructions and tools, which
    // are blocks here.
    let used = sum(&assembled.layout) + given;
    let budget = &mut assembled.report.budget;
    budget.reserved = reserve;
    budget.used = used;
    budget.effective = budget.max.saturating_sub(reserve);
    budget.remaining = budget.max.saturating_sub(used);
    budget.available = budget.effective.saturating_sub(used);
    Ok(assembled)
}
