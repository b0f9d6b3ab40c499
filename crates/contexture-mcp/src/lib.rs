//! The Model Context Protocol: Contexture's tools, resources and prompts for agents.
//!
//! ```
//! let tools: Vec<String> = contexture_mcp::tool_names().collect();
//! assert!(tools.contains(&"remember".to_owned()));
//! ```
//!
//! A tool is a short form of an operation in `contexture-api`, with fewer arguments
//! and texts for models: every tool costs tokens in every conversation. [`Handler`]
//! answers the protocol, for [`rmcp`]'s transports. What runs the work of a call,
//! and for which tenant, is up to a [`Host`]: `contexture-server` is one. Every call
//! is complete by itself, and all data is in the store.

mod interface;
mod latest;
mod prompts;
mod resources;
mod tool;
mod tools;

use std::sync::Arc;

use contexture_api::{Problem, StorageKind, Tenant};
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use tracing::error;

use self::tool::Tools;

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

/// Returns the names of all tools.
pub fn tool_names() -> impl Iterator<Item = String> {
    let declared = tools::all().declared();
    declared.into_iter().map(|tool| tool.name.into_owned())
}

/// Runs the work of calls.
pub trait Host: Clone + Send + Sync + 'static {
    /// Runs blocking work for the tenant of a call, in a thread.
    ///
    /// `request` is the HTTP request of the call. It is `None` over standard input
    /// and output. If the work may store data, `stores` is true: the host measures what
    /// the tenant stores first, so that the work can check its quotas.
    fn run<T: Send + 'static>(
        &self,
        request: Option<&Parts>,
        stores: bool,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> impl Future<Output = Result<T, Problem>> + Send;
}

/// Answers the calls of agents.
#[derive(Clone)]
pub struct Handler<H> {
    host: H,
    tools: Arc<Tools>,
    list: ToolList,
}

impl<H: Host> Handler<H> {
    /// Returns a handler that lists these tools and can call all of them.
    pub fn new(host: H, list: ToolList) -> Self {
        let tools = Arc::new(tools::all());
        Self { host, tools, list }
    }

    /// Returns the handler with another list of tools.
    pub fn listing(&self, list: ToolList) -> Self {
        Self {
            list,
            ..self.clone()
        }
    }

    /// Runs work that only reads.
    async fn read<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let request = context.extensions.get::<Parts>();
        self.host.run(request, false, work).await
    }
}

impl<H: Host> ServerHandler for Handler<H> {
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
        // Calls that remove data must stay possible.
        let removes = matches!(&*name, "remove_from_working_set" | "pop_task");
        // It stores something only with a session, and checks the quotas itself.
        let is_fit = name == "fit";
        let always_stores = !reads && !removes;
        let work = Arc::clone(&tool.work);
        let request = context.extensions.get::<Parts>();
        let work = move |tenant: &Tenant| {
            if always_stores {
                tenant.check_quota(StorageKind::Bytes)?;
            }
            work(tenant, arguments)
        };
        let done = self.host.run(request, always_stores || is_fit, work).await;
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
            .read(&context, move |tenant| resources::read(tenant, &uri))
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
        // Some prompts contain an assembled request, which is saved.
        let request = context.extensions.get::<Parts>();
        let messages = self.host.run(request, true, work).await;
        let messages = messages.map_err(protocol_error)?;
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
