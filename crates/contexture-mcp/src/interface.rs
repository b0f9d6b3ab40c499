//! Names of arguments and tools in advice.

use contexture::{Interface, Operation};

/// MCP: operations are tools.
pub(crate) struct Mcp;

fn quoted(text: &str) -> String {
    format!("`{text}`")
}

impl Interface for Mcp {
    fn field(&self, name: &str) -> Option<String> {
        // A caller cannot choose the store.
        (name != "db").then(|| quoted(name))
    }

    fn operation(&self, operation: Operation, _: Option<&str>) -> Option<String> {
        match operation {
            Operation::PushTask => Some(quoted("push_task")),
            Operation::RecordMemory => Some(quoted("remember")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use contexture::{Advice, advice};

    use super::*;

    #[test]
    fn advice_names_arguments_and_tools() {
        let given = [
            Advice::raise("max_tokens"),
            Advice::call_on(Operation::UndoCompaction, "a b/c"),
            Advice::call(Operation::ShowHistory),
            Advice::call(Operation::PushTask),
            Advice::call(Operation::ListKeys),
        ];
        assert_eq!(
            advice::phrase(&given, &Mcp).as_deref(),
            Some("raise `max_tokens`; or `push_task` adds a task")
        );
    }

    #[test]
    fn every_tool_in_advice_exists() {
        let tools: Vec<String> = crate::tool_names().map(|name| quoted(&name)).collect();
        for tool in Operation::ALL
            .iter()
            .filter_map(|one| Mcp.operation(*one, None))
        {
            assert!(tools.contains(&tool), "{tool}");
        }
    }
}
