//! Records turns: the body can be a turn, or what a provider returned.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use contexture_api::sessions::Named;
use contexture_api::turns::{self, SentTurn};
use contexture_api::{Nothing, to_bytes};

use crate::app::App;
use crate::gate::GivenRequestId;
use crate::problem::Respond as _;
use crate::{answer, background, body, idempotency};

/// Reads a turn in our own form or in that of a provider, and records it.
pub(crate) async fn record(app: App, request: Request<Body>) -> Response {
    let done = async {
        let (mut parts, incoming) = request.into_parts();
        let path: Named = answer::path(&mut parts).await?;
        let _: Nothing = answer::query(&parts)?;
        let key = idempotency::header(&parts.headers)?;
        let is_event_stream = body::is_event_stream(&parts.headers);
        let tenant = app.tenant(&parts).await?;
        let reader = body::Reader::new(&app, &tenant);
        let bytes = body::recording(reader, &parts.headers, incoming).await?;
        let request_id = parts.extensions.get::<GivenRequestId>().cloned();
        let shared = app.clone();
        let name = std::sync::Arc::clone(&tenant.name);
        app.run(&name, move || {
            let sent = SentTurn {
                body: &bytes,
                is_event_stream,
                retry_key: request_id.map(|id| id.idempotency_key(&bytes)),
                key,
            };
            let recorded = turns::record(&tenant, shared.schemas(), &path.label, sent)?;
            background::compact(&shared, &tenant, &path.label);
            to_bytes(&recorded)
        })
        .await
    };
    match done.await {
        Ok(bytes) => answer::json_response(StatusCode::CREATED, bytes),
        Err(problem) => problem.into_response(),
    }
}
