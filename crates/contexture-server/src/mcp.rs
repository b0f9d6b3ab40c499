//! MCP: tools, resources and prompts for agents.
//!
//! Nothing is kept between two calls: over HTTP each is whole by itself, and
//! over standard input and output the only state is the protocol's own.

mod latest;
mod prompts;
mod resources;
mod tool;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::http::request::Parts;
use axum::response::IntoResponse as _;
use axum::routing::post;
use contexture::Error;
use http_body_util::Full;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use tracing::error;

use self::tool::Tools;
use crate::app::App;
use crate::body;
use crate::problem::Problem;
use crate::tenant::Tenant;

/// What an agent is told when it connects.
const INSTRUCTIONS: &str = "\
Contexture decides what a language model sees: it fits files, history, memory and tasks into a \
token budget and accounts for every candidate.\n\
- `assemble` makes the request to send; `context_report` says what was kept, cut and left out, \
and why.\n\
- Files: `add_to_working_set` what the next steps need, `remove_from_working_set` what they do \
not, `adjust_priority` when something important was cut.\n\
- Facts worth knowing next time: `remember`. Before asking or guessing: `recall`.\n\
- Larger work: `push_task` for each part when it begins, `pop_task` with its result when it is \
done.\n\
- `compact` when a session has become long and its beginning matters less.\n\
Whatever changes something takes `why`: one sentence that a person can check later. An error says \
which field is wrong and what to do; nothing was changed then.";

/// Returns what serves `/mcp`.
pub(crate) fn router(app: &App) -> Router<App> {
    let handler = Handler::new(app.clone(), Who::LetIn);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(app.config().max_body_bytes)
        // The gate has looked at both already.
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
    let call = move |State(app): State<App>, request: Request<Body>| async move {
        let (parts, incoming) = request.into_parts();
        let received = body::json(&app, &parts.headers, incoming).await;
        let received = received.and_then(|received| {
            crate::json::check_count(&received)?;
            Ok(received)
        });
        match received {
            Ok(received) => {
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

/// Serves one agent over standard input and output, as the usual tenant, until
/// standard input ends.
pub async fn mcp_stdio(service: crate::Service) -> Result<(), Error> {
    let app = service.app()?;
    let handler = Handler::new(app.clone(), Who::Local);
    let served = rmcp::serve_server(handler, rmcp::transport::stdio_pipes()).await;
    match served {
        Ok(running) => {
            let ended = running.waiting().await;
            ended.map_err(|error| Error::input(format!("serving ended: {error}")))?;
        }
        // Whoever started us went away before saying anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => {}
        Err(error) => {
            return Err(Error::input(format!("this is not MCP: {error}"))
                .advise("`contexture mcp` is started by an agent, not by hand; see docs/mcp.md"));
        }
    }
    app.stop();
    app.finished().await;
    Ok(())
}

/// Returns the names of the tools.
#[cfg(test)]
pub(crate) fn tool_names() -> impl Iterator<Item = String> {
    let declared = tools::all().declared();
    declared.into_iter().map(|tool| tool.name.into_owned())
}

/// Who is served.
#[derive(Clone, Copy)]
enum Who {
    /// Whoever the gate let in.
    LetIn,
    /// Whoever started us.
    Local,
}

/// Answers what an agent asks.
#[derive(Clone)]
struct Handler {
    app: App,
    tools: Arc<Tools>,
    who: Who,
}

impl Handler {
    fn new(app: App, who: Who) -> Self {
        let tools = Arc::new(tools::all());
        Self { app, tools, who }
    }

    async fn tenant(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Tenant>, Problem> {
        match self.who {
            Who::Local => self.app.tenant_named("").await,
            Who::LetIn => match context.extensions.get::<Parts>() {
                Some(parts) => self.app.tenant(parts).await,
                None => Err(Problem::failure("a request came in past the keys")),
            },
        }
    }

    /// Has a thread do the work for whoever asks.
    async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let tenant = self.tenant(context).await?;
        self.app.run(move || work(&tenant)).await
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_resources()
            .enable_tools()
            .build();
        let server = Implementation::new("contexture", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(server.with_title("Contexture"))
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Some(self.tools.get(name)?.declared.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.declared()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.get(&request.name) else {
            let message = format!("there is no tool `{}`", tool::shown(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let name = tool.declared.name.clone();
        let work = Arc::clone(&tool.work);
        let done = self
            .run(&context, move |tenant| work(tenant, arguments))
            .await;
        Ok(match done {
            Ok(answer) => answer.into(),
            Err(problem) => tool::refused(&name, problem),
        }
        .into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::all()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let read = self
            .run(&context, move |tenant| resources::read(tenant, &uri))
            .await;
        let content = read.map_err(protocol_error)?;
        Ok(ReadResourceResult::new(vec![content]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let work = move |tenant: &Tenant| prompts::get(tenant, &request.name, arguments);
        let messages = self.run(&context, work).await.map_err(protocol_error)?;
        Ok(GetPromptResult::new(messages).into())
    }
}

/// Returns a problem where the protocol has no other place for one.
fn protocol_error(problem: Problem) -> ErrorData {
    if let Some(detail) = &problem.detail {
        error!(code = problem.code, detail = &**detail, "protocol");
    }
    let problem = tool::error_text(problem);
    let data = json!(problem.body);
    match problem.status {
        404 => ErrorData::resource_not_found(problem.text, Some(data)),
        500.. => ErrorData::internal_error(problem.text, Some(data)),
        _ => ErrorData::invalid_params(problem.text, Some(data)),
    }
}
