//! Streams portable archives over the admin API.
//!
//! An import is stored in a temporary file first, because the whole archive is
//! checked before anything is changed.

use std::io::{self, Write as _};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse as _, Response};
use contexture::archive;
use contexture::key::{check_tenant, tenant_name};
use contexture_api::admin::OfTenant;
use contexture_api::archives::MEDIA;
use contexture_api::{Nothing, to_bytes};
use http_body_util::BodyExt as _;

use crate::answer::{self, json_response};
use crate::app::App;
use crate::body;
use crate::parts::{self, Sender};
use crate::problem::{Problem, Respond as _};

/// How many parts of an export can wait for the client.
const WAITING: usize = 4;

/// How many bytes are sent at once.
const PART_BYTES: usize = 256 << 10;

/// Answers with the archive of the whole store.
pub(crate) async fn export_all(app: App, request: Request<Body>) -> Response {
    export_to(&app, request, None).await
}

/// Answers with the archive of one tenant.
pub(crate) async fn export_tenant(app: App, request: Request<Body>) -> Response {
    with_tenant(app, request, true).await
}

/// Imports an archive.
pub(crate) async fn import_all(app: App, request: Request<Body>) -> Response {
    import_from(&app, request, None).await
}

/// Imports an archive of one tenant.
pub(crate) async fn import_tenant(app: App, request: Request<Body>) -> Response {
    with_tenant(app, request, false).await
}

async fn with_tenant(app: App, request: Request<Body>, export: bool) -> Response {
    let (mut parts, incoming) = request.into_parts();
    let named = async {
        let of: OfTenant = answer::path(&mut parts).await?;
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
struct Writer {
    part: Vec<u8>,
    to: Sender,
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.part.is_empty() || self.to.send(std::mem::take(&mut self.part)) {
            true => Ok(()),
            false => Err(io::Error::other("the client stopped reading")),
        }
    }
}

async fn export_to(app: &App, request: Request<Body>, tenant: Option<String>) -> Response {
    let (parts, incoming) = request.into_parts();
    let checked = async {
        let Nothing {} = answer::query(&parts)?;
        body::none(app, incoming).await
    };
    if let Err(problem) = checked.await {
        return problem.into_response();
    }
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let (sender, receiver) = parts::parts(WAITING, patience);
    let name = tenant.as_deref().map_or("store", tenant_name);
    let name = format!("attachment; filename=\"{name}.ctxa\"");
    let mut out = Writer {
        part: Vec::with_capacity(2 * PART_BYTES),
        to: sender.clone(),
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
            let _ = sender.to.send(Err(problem)).await;
        }
    }));
    let mut response = match parts::body(receiver).await {
        Ok(body) => body.into_response(),
        Err(problem) => return problem.into_response(),
    };
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
        let Nothing {} = answer::query(&parts)?;
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
