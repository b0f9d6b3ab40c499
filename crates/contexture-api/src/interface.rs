//! Names of fields and operations in advice over HTTP.
//!
//! Advice is data ([`contexture::Advice`]). HTTP names routes.

use std::fmt::Write as _;

use contexture::{Interface, Operation};

/// The HTTP API: operations are routes.
pub(crate) struct Http;

fn quoted(text: &str) -> String {
    format!("`{text}`")
}

impl Interface for Http {
    fn field(&self, name: &str) -> Option<String> {
        // A caller cannot choose the store.
        (name != "db").then(|| quoted(name))
    }

    fn operation(&self, operation: Operation, on: Option<&str>) -> Option<String> {
        let route = match operation {
            Operation::ListSessions => "GET /v1/sessions",
            Operation::CreateSession => "POST /v1/sessions",
            Operation::ShowHistory => "GET /v1/sessions/{label}/history",
            Operation::UndoCompaction => "POST /v1/sessions/{label}/uncompact",
            Operation::ReopenSession => "PATCH /v1/sessions/{label}",
            Operation::ListTrees => "GET /v1/trees",
            Operation::ImportTree => "POST /v1/trees",
            Operation::ShowTree => "GET /v1/trees/{tree}/document",
            Operation::AddNode => "POST /v1/trees/{tree}/nodes",
            Operation::FlagNode => "PATCH /v1/trees/{tree}/nodes/{node}",
            Operation::SavePath => "PUT /v1/trees/{tree}/paths/{name}",
            Operation::ShowTasks => "GET /v1/tasks",
            Operation::ListStacks => "GET /v1/stacks",
            Operation::PushTask => "POST /v1/tasks",
            Operation::RecordMemory => "POST /v1/memory/records",
            Operation::ExportMemory => "GET /v1/memory/records",
            Operation::ReembedMemory => "POST /v1/memory/reembed",
            Operation::ListSnapshots => "GET /v1/snapshots",
            Operation::ListWorkingSet => "GET /v1/working-set",
            Operation::AdjustPriority => "POST /v1/working-set/actions",
            _ => return None,
        };
        Some(quoted(&with_name(route, on)))
    }
}

/// Replaces the first parameter of a route by a name.
fn with_name(route: &str, name: Option<&str>) -> String {
    let place = route
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?.1)));
    let (Some((before, after)), Some(name)) = (place, name) else {
        return route.to_owned();
    };
    let mut filled = before.to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                filled.push(byte.into());
            }
            // Writing to a text does not fail.
            byte => drop(write!(filled, "%{byte:02X}")),
        }
    }
    filled + after
}

#[cfg(test)]
mod tests {
    use contexture::{Advice, advice};

    use super::*;

    #[test]
    fn advice_names_fields_and_routes() {
        let given = [
            Advice::raise("max_tokens"),
            Advice::call_on(Operation::UndoCompaction, "a b/c"),
            Advice::call_on(Operation::FlagNode, "story"),
            Advice::call(Operation::ShowHistory),
            Advice::call(Operation::PushTask),
            Advice::call(Operation::ListKeys),
        ];
        assert_eq!(
            advice::phrase(&given, &Http).as_deref(),
            Some(
                "raise `max_tokens`; or `POST /v1/sessions/a%20b%2Fc/uncompact` undoes the \
                 compaction; or `PATCH /v1/trees/story/nodes/{node}` excludes or includes a node; \
                 or `GET /v1/sessions/{label}/history` shows the turns; or `POST /v1/tasks` adds a \
                 task"
            )
        );
    }

    #[test]
    fn every_route_in_advice_exists() {
        let api = crate::api();
        for advised in Operation::ALL {
            let named = (api.operations.iter()).find(|one| one.id == advised.name());
            let route = named.map(|one| format!("`{} {}`", one.method, one.path));
            assert_eq!(Http.operation(*advised, None), route, "{advised:?}");
            assert_eq!(advised.is_command(), route.is_none(), "{advised:?}");
        }
    }
}
