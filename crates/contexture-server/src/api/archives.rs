//! Portable archives over the admin API: a store, or one tenant, out and in.
//!
//! An export is streamed. An import is stored in a temporary file first, because
//! the whole archive is checked before anything is changed.

use std::io::{self, Write as _};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use contexture::archive::{self, Imported};
use contexture::key::{check_tenant, tenant_name};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::app::App;
use crate::body;
use crate::operation::{self, Api, Nothing, Operation, ResponseBody, json_response, to_bytes};
use crate::problem::Problem;

const MEDIA: &str = "application/zstd";

/// How many parts of an export can wait for the client.
const WAITING: usize = 4;

/// How many bytes are sent at once.
const PART_BYTES: usize = 256 << 10;

/// A tenant in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct OfTenant {
    /// The name of the tenant.
    tenant: String,
}

pub(crate) fn add(api: &mut Api) {
    const ALL: &str = "/v1/admin/archive";
    const ONE: &str = "/v1/admin/tenants/{tenant}/archive";
    let mut export = Operation::get(ALL, "admin_export_archive").says(
        "Export everything",
        "Streams a portable archive of the whole store: all tenants, the hashes of API keys, \
         quotas and the audit log. The archive is Zstandard-compressed and has hashes of all \
         parts. If the export fails after its first bytes, the connection is closed, and the \
         archive is refused as truncated. Needs an admin key.",
    );
    export.response = ResponseBody::Binary(MEDIA);
    api.add_route::<Nothing, Nothing, Nothing>(export, |filter| {
        on(
            filter,
            |State(app): State<App>, request: Request<Body>| async move {
                export_to(&app, request, None).await
            },
        )
    });
    let mut export = Operation::get(ONE, "admin_export_tenant")
        .says(
            "Export a tenant",
            "Streams a portable archive of the data of one tenant, without its API keys. Needs an \
             admin key.",
        )
        .refuses(&[404, 422]);
    export.response = ResponseBody::Binary(MEDIA);
    api.add_route::<OfTenant, Nothing, Nothing>(export, |filter| {
        on(
            filter,
            |State(app): State<App>, request: Request<Body>| async move {
                with_tenant(app, request, true).await
            },
        )
    });
    let mut import = Operation::post(ALL, "admin_import_archive")
        .says(
            "Import everything",
            "Imports a portable archive. The server checks the whole archive first. A tenant that \
             has other data is a conflict, and nothing is changed. A tenant that has exactly this \
             data is left as it is. Each tenant is imported as a whole or not at all. Needs an \
             admin key.",
        )
        .refuses(&[408, 409, 413, 422]);
    import.takes.binary = Some(MEDIA);
    import.response = ResponseBody::Json(api.outputs.subschema_for::<Imported>());
    api.add_route::<Nothing, Nothing, Nothing>(import, |filter| {
        on(
            filter,
            |State(app): State<App>, request: Request<Body>| async move {
                import_from(&app, request, None).await
            },
        )
    });
    let mut import = Operation::post(ONE, "admin_import_tenant")
        .says(
            "Import a tenant",
            "Imports the only tenant of a portable archive under the name in the path. The tenant \
             must have no data, or exactly this data. Needs an admin key.",
        )
        .refuses(&[408, 409, 413, 422]);
    import.takes.binary = Some(MEDIA);
    import.response = ResponseBody::Json(api.outputs.subschema_for::<Imported>());
    api.add_route::<OfTenant, Nothing, Nothing>(import, |filter| {
        on(
            filter,
            |State(app): State<App>, request: Request<Body>| async move {
                with_tenant(app, request, false).await
            },
        )
    });
}

async fn with_tenant(app: App, request: Request<Body>, export: bool) -> Response {
    let (mut parts, incoming) = request.into_parts();
    let named = async {
        let of: OfTenant = operation::path(&mut parts).await?;
        check_tenant(&of.tenant)?;
        Ok::<_, Problem>(of.tenant)
    };
    let tenant = match named.await {
        Ok(tenant) => tenant,
        Err(problem) => return problem.into_response(),
    };
    let request = Request::from_parts(parts, incoming);
    match export {
        true => export_to(&app, request, Some(tenant)).await,
        false => import_from(&app, request, Some(tenant)).await,
    }
}

/// Sends what is written to it in parts.
struct Sender {
    part: Vec<u8>,
    to: mpsc::Sender<Result<Bytes, Problem>>,
    runtime: tokio::runtime::Handle,
    patience: Duration,
}

impl Sender {
    fn send(&mut self) -> io::Result<()> {
        if self.part.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(&mut self.part));
        // A client that does not read must not block the thread forever.
        let sending = self.to.send_timeout(Ok(bytes), self.patience);
        let sent = self.runtime.block_on(sending);
        sent.map_err(|_| io::Error::other("the client stopped reading"))
    }
}

impl io::Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

async fn export_to(app: &App, request: Request<Body>, tenant: Option<String>) -> Response {
    let (parts, incoming) = request.into_parts();
    let checked = async {
        let Nothing {} = operation::query(&parts)?;
        body::none(app, incoming).await
    };
    if let Err(problem) = checked.await {
        return problem.into_response();
    }
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, Problem>>(WAITING);
    let name = tenant.as_deref().map_or("store", tenant_name);
    let name = format!("attachment; filename=\"{name}.ctxa\"");
    let mut out = Sender {
        part: Vec::with_capacity(2 * PART_BYTES),
        to: sender.clone(),
        runtime: tokio::runtime::Handle::current(),
        patience: Duration::from_millis(app.config().body_timeout_ms),
    };
    let work = app.clone();
    let stores = app.clone();
    let caller = crate::app::CALLER.try_with(Clone::clone).ok().flatten();
    tokio::spawn(crate::app::CALLER.scope(caller, async move {
        let done = work.run_long(move || {
            let tenants = stores.tenants();
            let tenant = tenant.as_deref();
            archive::export(tenants.stores(), tenant, &mut out, tenants.now())?;
            Ok(())
        });
        if let Err(problem) = done.await {
            let _ = sender.send(Err(problem)).await;
        }
    }));
    // An error before the first byte can still be answered with a status.
    let first = match receiver.recv().await {
        Some(Ok(first)) => first,
        Some(Err(problem)) => return problem.into_response(),
        None => return Problem::failure("an export ended before it began").into_response(),
    };
    let rest = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        let part = part.map_err(|problem| io::Error::other(problem.message));
        Some((part, receiver))
    });
    let first = futures_util::stream::once(async { Ok::<_, io::Error>(first) });
    let mut response = Body::from_stream(first.chain(rest)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

async fn import_from(app: &App, request: Request<Body>, tenant: Option<String>) -> Response {
    let (parts, incoming) = request.into_parts();
    let done = async {
        let Nothing {} = operation::query(&parts)?;
        let file = received(app, incoming).await?;
        let stores = app.clone();
        app.run_long(move || {
            let tenants = stores.tenants();
            let (path, tenant) = (file.path(), tenant.as_deref());
            let imported = archive::import(tenants.stores(), path, tenant, tenants.now())?;
            // Keys came with it, and engines may know the tenants as empty.
            stores.keys().forget_cached();
            stores.stored_quotas().expire();
            for name in &imported.imported {
                tenants.unload(contexture::key::tenant_of(name));
            }
            to_bytes(&imported)
        })
        .await
    };
    match done.await {
        Ok(bytes) => json_response(axum::http::StatusCode::OK, bytes),
        Err(problem) => problem.into_response(),
    }
}

/// Writes a body to a temporary file, which only this user can read.
async fn received(app: &App, mut incoming: Body) -> Result<tempfile::NamedTempFile, Problem> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull => Problem::new(
            axum::http::StatusCode::INSUFFICIENT_STORAGE,
            "store_full",
            "the directory for temporary files is full; nothing was imported",
        ),
        _ => Problem::failure(format!("an archive cannot be stored: {error}")),
    };
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    let most = app.config().max_archive_bytes;
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let mut bytes = 0;
    loop {
        let frame = match tokio::time::timeout(patience, incoming.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => {
                return Err(Problem::bad_request(
                    "truncated",
                    "the connection was closed before the end of the body",
                ));
            }
            Err(_) => return Err(body::too_slow()),
        };
        let Ok(part) = frame.into_data() else {
            continue;
        };
        bytes += part.len() as u64;
        if bytes > most {
            let message = format!("the archive is larger than the limit of {most} bytes");
            let status = axum::http::StatusCode::PAYLOAD_TOO_LARGE;
            return Err(Problem::new(status, "too_large", message)
                .hint("raise `max_archive_bytes` in the server's settings"));
        }
        let written = tokio::task::spawn_blocking(move || {
            let written = file.write_all(&part);
            (file, written)
        });
        let (returned, written) = match written.await {
            Ok(done) => done,
            Err(error) => return Err(Problem::failure(error.to_string())),
        };
        file = returned;
        written.map_err(failed)?;
    }
    Ok(file)
}
