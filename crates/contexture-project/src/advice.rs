//! [`Advice`]: the remedy for an error or a warning, as data.
//!
//! The library does not know whether its caller types a command, sends JSON or
//! is a model with tools. It returns the remedy as [`Advice`]; each interface
//! of the product names fields and operations in its own words ([`Interface`]).

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

/// One action that the caller can take after an error or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Set a field of the request.
    Set {
        /// The name of the field, such as `max_tokens`.
        field: Cow<'static, str>,
        /// The value to set. Null if Contexture cannot suggest one.
        value: Option<String>,
    },
    /// Increase a number in a field of the request.
    Raise {
        /// The name of the field, such as `max_tokens`.
        field: Cow<'static, str>,
    },
    /// Decrease a number in a field of the request.
    Lower {
        /// The name of the field, such as `reserve_response`.
        field: Cow<'static, str>,
    },
    /// Call another operation.
    Call {
        /// The operation to call.
        operation: Operation,
        /// The session label or the tree id to call the operation for.
        on: Option<String>,
    },
    /// Change a setting in `contexture.toml`.
    Configure {
        /// The name of the setting, such as `limits.max_entries`.
        setting: Cow<'static, str>,
    },
    /// Do something that has no field and no operation.
    Text {
        /// The action to take.
        text: Cow<'static, str>,
    },
}

/// An action that helps. An operation of the HTTP API is called, and an operation
/// that only the command has is run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Advice"))]
#[serde(tag = "do", rename_all = "snake_case")]
enum AdviceData<'a> {
    /// Set a field of the request.
    Set {
        /// The name of the field, such as `max_tokens`.
        field: &'a str,
        /// The value to set. Null if Contexture cannot suggest one.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<&'a str>,
    },
    /// Increase a number in a field of the request.
    Raise {
        /// The name of the field, such as `max_tokens`.
        field: &'a str,
    },
    /// Decrease a number in a field of the request.
    Lower {
        /// The name of the field, such as `reserve_response`.
        field: &'a str,
    },
    /// Call another operation.
    Call {
        /// The `operationId` of the operation, such as `list_sessions`.
        operation: &'static str,
        /// The session label or the tree id to call the operation for.
        #[serde(skip_serializing_if = "Option::is_none")]
        on: Option<&'a str>,
    },
    /// Run a command on the machine of the store. The HTTP API has no such
    /// operation.
    Run {
        /// The command without the name of the program, such as `models update`.
        command: &'static str,
        /// The directory to run the command for.
        #[serde(skip_serializing_if = "Option::is_none")]
        on: Option<&'a str>,
    },
    /// Change a setting in `contexture.toml`.
    Configure {
        /// The name of the setting, such as `limits.max_entries`.
        setting: &'a str,
    },
    /// Do something that has no field and no operation.
    Text {
        /// The action to take.
        text: &'a str,
    },
}

impl Serialize for Advice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let data = match self {
            Advice::Set { field, value } => AdviceData::Set {
                field,
                value: value.as_deref(),
            },
            Advice::Raise { field } => AdviceData::Raise { field },
            Advice::Lower { field } => AdviceData::Lower { field },
            Advice::Call { operation, on } if operation.is_command() => AdviceData::Run {
                command: operation.name(),
                on: on.as_deref(),
            },
            Advice::Call { operation, on } => AdviceData::Call {
                operation: operation.name(),
                on: on.as_deref(),
            },
            Advice::Configure { setting } => AdviceData::Configure { setting },
            Advice::Text { text } => AdviceData::Text { text },
        };
        data.serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Advice {
    fn schema_name() -> Cow<'static, str> {
        AdviceData::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        AdviceData::json_schema(generator)
    }
}

/// Declares the operations: the enum, the list of all of them, and their words,
/// from one list, so that none can be forgotten. Operations of the HTTP API have
/// the name of their `operationId`; the others have that of their command.
macro_rules! operations {
    (
        api {$($(#[$api_doc:meta])* $api:ident: $api_name:literal, $api_effect:literal;)*}
        commands {$($(#[$doc:meta])* $operation:ident: $name:literal, $effect:literal;)*}
    ) => {
        /// An operation of the product, by its effect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[$api_doc])* $api,)*
            $($(#[$doc])* $operation,)*
        }

        impl Operation {
            /// All operations. Tests of an interface check each of them.
            pub const ALL: &'static [Operation] = &[
                $(Operation::$api,)*
                $(Operation::$operation,)*
            ];

            /// Returns true if only the command has the operation.
            pub fn is_command(self) -> bool {
                matches!(self, $(Operation::$operation)|*)
            }

            fn words(self) -> (&'static str, &'static str) {
                match self {
                    $(Operation::$api => ($api_name, $api_effect),)*
                    $(Operation::$operation => ($name, $effect),)*
                }
            }
        }
    };
}

operations! {
    api {
        /// Lists the sessions.
        ListSessions: "list_sessions", "lists the sessions";
        /// Creates a session.
        CreateSession: "create_session", "creates a session";
        /// Shows the turns of a session.
        ShowHistory: "get_history", "shows the turns";
        /// Undoes the latest compaction of a session.
        UndoCompaction: "uncompact_session", "undoes the compaction";
        /// Sets the status of a closed session to active.
        ReopenSession: "update_session", "sets its status to active";
        /// Lists the trees.
        ListTrees: "list_trees", "lists the trees";
        /// Imports a tree.
        ImportTree: "import_tree", "imports a tree";
        /// Shows the nodes of a tree.
        ShowTree: "export_tree", "shows the nodes";
        /// Adds a node to a tree.
        AddNode: "add_node", "adds a node";
        /// Excludes a node of a tree from requests, or includes it again.
        FlagNode: "flag_node", "excludes or includes a node";
        /// Saves a path through a tree.
        SavePath: "save_path", "saves a path";
        /// Shows the tasks of a stack.
        ShowTasks: "get_tasks", "shows the tasks";
        /// Lists the stacks of tasks.
        ListStacks: "list_stacks", "lists the stacks";
        /// Adds a task.
        PushTask: "push_task", "adds a task";
        /// Records something in memory.
        RecordMemory: "record_memory", "records something";
        /// Prints all records of memory.
        ExportMemory: "export_memory", "prints all records";
        /// Computes the vectors of memory again.
        ReembedMemory: "reembed_memory", "computes the vectors again";
        /// Lists the snapshots.
        ListSnapshots: "list_snapshots", "lists the snapshots";
        /// Lists the files of the working set.
        ListWorkingSet: "get_working_set", "lists the files";
        /// Changes the priority of a file of the working set.
        AdjustPriority: "update_working_set", "changes its priority";
    }
    commands {
        /// Lists the API keys.
        ListKeys: "key list", "lists the keys";
        /// Creates the first files of a project.
        CreateProject: "init", "creates the files of a project";
        /// Prints the settings with their defaults.
        ShowSettings: "doctor", "prints the settings and their defaults";
        /// Trusts the settings file of a project.
        TrustSettings: "trust", "shows what they do and activates them";
        /// Replaces the model table.
        UpdateModels: "models update", "replaces the model table";
    }
}

impl Operation {
    /// Returns the name of the operation in data: the `operationId` of the HTTP
    /// API, or the command.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the effect of the operation, in the third person.
    pub fn effect(self) -> &'static str {
        self.words().1
    }
}

/// The names of fields and operations in one interface of the product.
pub trait Interface {
    /// Returns a field of the request as a caller writes it: `--max-tokens`;
    /// `None` when this interface does not have it.
    fn field(&self, name: &str) -> Option<String>;

    /// Returns the name of an operation in this interface, for `on` if it is
    /// given. Returns `None` if the interface does not have the operation.
    fn operation(&self, operation: Operation, on: Option<&str>) -> Option<String>;
}

/// The interface of the library itself: fields and operations by their names in
/// data.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Interface for Plain {
    fn field(&self, name: &str) -> Option<String> {
        Some(format!("`{name}`"))
    }

    fn operation(&self, operation: Operation, on: Option<&str>) -> Option<String> {
        let of = on.map_or_else(String::new, |on| format!(" of `{on}`"));
        Some(format!("`{}`{of}", operation.name()))
    }
}

impl Advice {
    /// Advises to set a field of the request.
    pub fn set(field: &'static str) -> Self {
        Advice::Set {
            field: field.into(),
            value: None,
        }
    }

    /// Advises to set a field of the request to a value.
    pub fn set_to(field: &'static str, value: impl Into<String>) -> Self {
        Advice::Set {
            field: field.into(),
            value: Some(value.into()),
        }
    }

    /// Advises to raise a field of the request.
    pub fn raise(field: &'static str) -> Self {
        Advice::Raise {
            field: field.into(),
        }
    }

    /// Advises to lower a field of the request.
    pub fn lower(field: &'static str) -> Self {
        Advice::Lower {
            field: field.into(),
        }
    }

    /// Advises to call an operation.
    pub fn call(operation: Operation) -> Self {
        Advice::Call {
            operation,
            on: None,
        }
    }

    /// Advises to call an operation for something.
    pub fn call_on(operation: Operation, on: impl Into<String>) -> Self {
        Advice::Call {
            operation,
            on: Some(on.into()),
        }
    }

    /// Advises to change a setting.
    pub fn configure(setting: &'static str) -> Self {
        Advice::Configure {
            setting: setting.into(),
        }
    }

    /// Returns the advice in the words of an interface; `None` when that
    /// interface cannot follow it.
    pub fn phrase(&self, interface: &dyn Interface) -> Option<String> {
        Some(match self {
            Advice::Set { field, value: None } => format!("set {}", interface.field(field)?),
            Advice::Set {
                field,
                value: Some(value),
            } => format!("set {} to {value}", interface.field(field)?),
            Advice::Raise { field } => format!("raise {}", interface.field(field)?),
            Advice::Lower { field } => format!("lower {}", interface.field(field)?),
            Advice::Call { operation, on } => {
                let call = interface.operation(*operation, on.as_deref())?;
                format!("{call} {}", operation.effect())
            }
            Advice::Configure { setting } => format!("change `{setting}` in contexture.toml"),
            Advice::Text { text } => text.to_string(),
        })
    }
}

impl From<&'static str> for Advice {
    fn from(text: &'static str) -> Self {
        Advice::Text { text: text.into() }
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Advice::Text { text: text.into() }
    }
}

/// Returns several pieces of advice as one sentence, in the words of an interface.
pub fn phrase(advice: &[Advice], interface: &dyn Interface) -> Option<String> {
    let phrases: Vec<String> = advice
        .iter()
        .filter_map(|one| one.phrase(interface))
        .collect();
    (!phrases.is_empty()).then(|| phrases.join("; or "))
}

/// A warning. The request was still assembled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warning {
    /// A stable code for programs, such as `history_compacted`.
    pub code: Cow<'static, str>,
    /// The warning, for people.
    pub message: String,
    /// The actions that the caller can take.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub advice: Vec<Advice>,
}

impl Warning {
    /// Returns a warning of that code.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            advice: Vec::new(),
        }
    }

    /// Adds what can be done about it.
    pub fn advise(mut self, advice: impl Into<Advice>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Returns the message with the advice in the words of an interface.
    pub fn phrase(&self, interface: &dyn Interface) -> String {
        match phrase(&self.advice, interface) {
            Some(advice) => format!("{}; {advice}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Compares the message.
impl PartialEq<&str> for Warning {
    fn eq(&self, message: &&str) -> bool {
        self.message == *message
    }
}

/// Compares the message.
impl PartialEq<String> for Warning {
    fn eq(&self, message: &String) -> bool {
        self.message == *message
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_phrased_with_the_names_of_the_face() {
        let warning = Warning::new("too_long", "it is too long")
            .advise(Advice::raise("max_tokens"))
            .advise(Advice::call(Operation::CreateProject))
            .advise(Advice::call_on(Operation::UndoCompaction, "s"));
        assert_eq!(
            warning.phrase(&Plain),
            "it is too long; raise `max_tokens`; or `init` creates the files of a \
             project; or `uncompact_session` of `s` undoes the compaction"
        );
        assert_eq!(
            serde_json::to_string(&warning.advice).unwrap_or_default(),
            r#"[{"do":"raise","field":"max_tokens"},{"do":"run","command":"init"},{"do":"call","operation":"uncompact_session","on":"s"}]"#
        );
    }
}
