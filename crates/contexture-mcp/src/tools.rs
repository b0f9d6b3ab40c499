//! The MCP tools, one module per subject.

mod assemble;
mod compact;
mod fetch;
mod fit;
mod memory;
mod sessions;
mod tasks;
mod working_set;

use contexture::Warning;
use contexture::working_set::Log;
use contexture::working_set::actions::Actor;
use serde::Serialize;

pub(super) use self::assemble::account;
use super::tool::Tools;
use crate::interface::Mcp;
use contexture_api::Tenant;

/// Returns every tool.
pub(super) fn all() -> Tools {
    let mut tools = Tools::default();
    assemble::add(&mut tools);
    working_set::add(&mut tools);
    memory::add(&mut tools);
    sessions::add(&mut tools);
    tasks::add(&mut tools);
    compact::add(&mut tools);
    fetch::add(&mut tools);
    fit::add(&mut tools);
    tools
}

/// The reason for a change, as the event log records it.
#[derive(Serialize)]
struct Reason<'a> {
    actor: Actor,
    why: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

impl<'a> Reason<'a> {
    fn new(why: &'a str) -> Self {
        Self {
            actor: Actor::Model,
            why: why.trim(),
            stack: None,
            id: None,
        }
    }
}

/// Writes the reason for a change to the session's event log, because records,
/// tasks and compactions have no field for it. Returns a warning if the log
/// cannot be written.
fn note(
    tenant: &Tenant,
    session: Option<&str>,
    event: &str,
    reason: &Reason<'_>,
) -> Option<Warning> {
    Log::of(&tenant.root, session).append(tenant.now(), event, reason)
}

/// Returns warnings in the words of MCP.
fn phrases(warnings: &[Warning]) -> Vec<String> {
    let phrase = |warning: &Warning| warning.phrase(&Mcp);
    warnings.iter().map(phrase).collect()
}
