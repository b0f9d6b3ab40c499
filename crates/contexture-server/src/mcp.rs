//! MCP: tools, resources and prompts for agents.

use axum::Router;

use crate::app::App;

/// Returns what serves `/mcp`.
pub(crate) fn router(_: &App) -> Router<App> {
    Router::new()
}

/// Serves one agent over standard input and output, as the usual tenant.
pub async fn mcp_stdio(service: crate::Service) -> Result<(), contexture::Error> {
    let _ = service.app()?;
    Ok(())
}
