//! The Model Context Protocol: tools, resources and prompts for agents.
//!
//! MCP is served over HTTP at `/mcp` and over standard input and output. The
//! server is stateless: every call is complete by itself, and all data is in the
//! store.

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

/// The instructions that an agent receives when it connects.
const INSTRUCTIONS: &str = "\
Contexture assembles requests to language models: it fits files, history, memory and tasks into a \
token budget and reports what happened to every candidate.\n\
- `assemble` returns the request to send. `context_report` lists what was kept, cut and dropped, \
and why.\n\
- Files: call `add_to_working_set` for files that the next steps need, `remove_from_working_set` \
for files that they no longer need, and `adjust_priority` if an important file was cut.\n\
- Memory: call `remember` for facts that are useful later, `recall` before you ask or guess, and \
`forget` for what is wrong.\n\
- Sessions: call `begin_session` for a conversation that is continued later, and `record_turn` for \
what was said.\n\
- Tasks: call `push_task` when you start a subtask, and `pop_task` with the result when it is \
done.\n\
- Call `compact` when a session is long and its beginning matters less.\n\
- Call `fit` with a provider's request that may be too long for the window.\n\
- Call `fetch` with the handle in a marker when you need lines that were cut from a tool result.\n\
Tools that change data require `why`: one sentence that a person can check later. An error names \
the argument and what to do. After an error, nothing was changed.";

/// The instructions for the default list of tools.
const BRIEF_INSTRUCTIONS: &str = "\
Contexture keeps context within a token budget.\n\
- Memory: call `remember` for facts that are useful later, `recall` before you ask or guess, and \
`forget` for what is wrong.\n\
- Files: call `add_to_working_set` and `remove_from_working_set`; `context_report` lists what was \
kept, cut and dropped.\n\
- Sessions: call `begin_session` and `record_turn` to continue a conversation later.\n\
- Call `fetch` with the handle in a marker for lines that were cut.\n\
`why` is one sentence that a person can check later. After an error, nothing was changed.";

/// The tools that a client is shown. It can call all of them in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolList {
    /// The tools that most agents need, described briefly: the list costs tokens
    /// in every conversation.
    #[default]
    Core,
    /// Every tool with all arguments and the schemas of its results.
    All,
}

impl ToolList {
    /// Returns the list that the address of a call asks for: `/mcp?tools=all`.
    fn of(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        match pairs.any(|(name, value)| name == "tools" && value == "all") {
            true => Self::All,
            false => Self::Core,
        }
    }
}

/// Returns the route of `/mcp`.
pub(crate) fn router(app: &App) -> Router<App> {
    let core = Handler::new(app.clone(), Client::Authenticated, ToolList::Core);
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
    let service = |handler: Handler| {
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
            crate::json::check_count(&received)?;
            Ok::<_, Problem>(received)
        };
        match received.await {
            Ok(received) => {
                let service = match ToolList::of(&parts) {
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
    let handler = Handler::new(app.clone(), Client::Local, tools);
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

/// Returns the names of the tools.
#[cfg(test)]
pub(crate) fn tool_names() -> impl Iterator<Item = String> {
    let declared = tools::all().declared();
    declared.into_iter().map(|tool| tool.name.into_owned())
}

/// The kind of client.
#[derive(Clone, Copy)]
enum Client {
    /// A client over HTTP that the gate authenticated.
    Authenticated,
    /// The program that started this process.
    Local,
}

/// Answers the calls of agents.
#[derive(Clone)]
struct Handler {
    app: App,
    tools: Arc<Tools>,
    client: Client,
    list: ToolList,
}

impl Handler {
    fn new(app: App, client: Client, list: ToolList) -> Self {
        let tools = Arc::new(tools::all());
        Self {
            app,
            tools,
            client,
            list,
        }
    }

    fn listing(&self, list: ToolList) -> Self {
        Self {
            list,
            ..self.clone()
        }
    }

    async fn tenant(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Tenant>, Problem> {
        match self.client {
            Client::Local => self.app.tenant_named("").await,
            Client::Authenticated => match context.extensions.get::<Parts>() {
                Some(parts) => self.app.tenant(parts).await,
                None => Err(Problem::failure("the request was not authenticated")),
            },
        }
    }

    /// Runs work for the caller's tenant in a thread.
    async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let tenant = self.tenant(context).await?;
        let name = Arc::clone(&tenant.name);
        self.app.run(&name, move || work(&tenant)).await
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
            .with_instructions(match self.list {
                ToolList::Core => BRIEF_INSTRUCTIONS,
                ToolList::All => INSTRUCTIONS,
            })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Some(self.tools.get(name)?.declared.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(match self.list {
            ToolList::Core => self.tools.brief(),
            ToolList::All => self.tools.declared(),
        }))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.get(&request.name) else {
            let message = format!("unknown tool `{}`", tool::shown(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let name = tool.declared.name.clone();
        let annotations = tool.declared.annotations.as_ref();
        let reads = annotations.and_then(|hints| hints.read_only_hint) == Some(true);
        if !reads && let Ok(tenant) = self.tenant(&context).await {
            // What takes data away must stay possible.
            let removes = matches!(&*name, "remove_from_working_set" | "pop_task");
            if !removes && let Err(problem) = self.app.check_storage(&tenant).await {
                return Ok(CallToolResponse::from(tool::refused(&name, problem)));
            }
        }
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

/// Returns a problem as a protocol error, for calls that are not tool calls.
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
