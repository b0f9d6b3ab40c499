//! Serves the tools of `contexture-mcp`: over HTTP at `/mcp`, and over standard
//! input and output.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::http::request::Parts;
use axum::routing::post;
use contexture::Error;
use contexture_api::Tenant;
use contexture_api::json::check_count;
use contexture_mcp::{Handler, Host, ToolList};
use http_body_util::Full;
use rmcp::service::ServerInitializeError;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::app::App;
use crate::body;
use crate::problem::{Problem, Respond as _};

/// Agents that the gate has authenticated.
#[derive(Clone)]
struct Remote(App);

/// The program that started this process, as the default tenant.
#[derive(Clone)]
struct Local(App);

impl Host for Remote {
    async fn run<T: Send + 'static>(
        &self,
        request: Option<&Parts>,
        stores: bool,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Some(parts) = request else {
            return Err(Problem::failure("the request was not authenticated"));
        };
        let tenant = self.0.tenant(parts).await?;
        run(&self.0, tenant, stores, work).await
    }
}

impl Host for Local {
    async fn run<T: Send + 'static>(
        &self,
        _: Option<&Parts>,
        stores: bool,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let tenant = self.0.tenant_named("").await?;
        run(&self.0, tenant, stores, work).await
    }
}

/// Runs work for a tenant in a thread.
async fn run<T: Send + 'static>(
    app: &App,
    tenant: Arc<crate::tenant::Tenant>,
    stores: bool,
    work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if stores {
        app.measure_storage(&tenant).await?;
    }
    let name = Arc::clone(&tenant.name);
    app.run(&name, move || work(&tenant)).await
}

/// Returns the list that the address of a call asks for: `/mcp?tools=all`.
fn list_of(parts: &Parts) -> ToolList {
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    match pairs.any(|(name, value)| name == "tools" && value == "all") {
        true => ToolList::All,
        false => ToolList::Core,
    }
}

/// Returns the route of `/mcp`.
pub(crate) fn router(app: &App) -> Router<App> {
    let core = Handler::new(Remote(app.clone()), ToolList::Core);
    let all = core.listing(ToolList::All);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The body was read before, with the limit of the settings.
        .with_max_request_body_bytes(usize::MAX)
        // The gate has already checked both.
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let sessions = Arc::new(NeverSessionManager::default());
    let service = |handler: Handler<Remote>| {
        let (sessions, config) = (Arc::clone(&sessions), config.clone());
        StreamableHttpService::new(move || Ok(handler.clone()), sessions, config)
    };
    let (core, all) = (service(core), service(all));
    let call = move |State(app): State<App>, request: Request<Body>| async move {
        let (parts, incoming) = request.into_parts();
        let received = async {
            let tenant = app.tenant(&parts).await?;
            let reader = body::Reader::new(&app, &tenant);
            let received = body::json(reader, &parts.headers, incoming).await?;
            check_count(&received)?;
            Ok::<_, Problem>(received)
        };
        match received.await {
            Ok(received) => {
                let service = match list_of(&parts) {
                    ToolList::Core => core,
                    ToolList::All => all,
                };
                let request = Request::from_parts(parts, Full::new(received.bytes.clone()));
                let answer = service.handle(request).await.map(Body::new);
                drop(received);
                answer
            }
            Err(problem) => problem.into_response(),
        }
    };
    Router::new().route("/mcp", post(call))
}

/// Serves one agent over standard input and output, as the default tenant, until
/// standard input ends.
pub async fn mcp_stdio(service: crate::Service, tools: ToolList) -> Result<(), Error> {
    let app = service.app()?;
    let handler = Handler::new(Local(app.clone()), tools);
    let served = rmcp::serve_server(handler, rmcp::transport::stdio_pipes()).await;
    match served {
        Ok(running) => {
            let ended = running.waiting().await;
            ended.map_err(|error| Error::input(format!("the MCP session failed: {error}")))?;
        }
        // The agent closed standard input before it sent anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => {}
        Err(error) => {
            return Err(
                Error::input(format!("standard input is not an MCP session: {error}")).advise(
                    "let an agent start `contexture mcp` instead of a person; see docs/mcp.md",
                ),
            );
        }
    }
    app.stop();
    app.finished().await;
    Ok(())
}
