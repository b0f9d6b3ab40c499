//! The source `tools`: tool definitions of a project, limited by toolset and
//! permissions.
//!
//! Tools that are not allowed stay candidates, so that the report has the
//! reason why they are missing. Tools are sorted by name, which keeps the start
//! of the request identical between turns. If there are too many,
//! [`choose`](choose::choose) leaves some out.

pub(crate) mod choose;

use std::sync::{Arc, OnceLock};

use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Item, Part, Role, Text, Trust};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::files::Root;
use crate::static_content::StaticContent;
use crate::turn::{guarded_json, json_with_path};
use crate::yaml;
use contexture_engine::Permissions;

/// The tools that a project has.
#[derive(Debug, Default)]
pub(crate) struct Toolbox {
    // Sorted by name: the order must not change from turn to turn.
    tools: Vec<Tool>,
}

#[derive(Debug)]
struct Tool {
    name: String,
    definition: Value,
    // The definition after the guard, by whether secrets are masked.
    guarded: [OnceLock<Text>; 2],
}

impl Tool {
    fn text(&self, policy: Policy) -> Text {
        let known = &self.guarded[usize::from(policy.mask_secrets)];
        let guard = || guarded_json(&self.definition, policy);
        match policy == Policy::masking(policy.mask_secrets) {
            true => known.get_or_init(guard).clone(),
            false => guard(),
        }
    }
}

/// The files that are looked for when none is named.
const FILES: [&str; 6] = [
    "tools.json",
    "tools.yml",
    "tools.yaml",
    ".agent/tools.json",
    ".agent/tools.yml",
    ".agent/tools.yaml",
];

impl StaticContent {
    /// Reads the tools of the file at `path`, or of the default file. Empty if
    /// there is none.
    pub(crate) fn toolbox(&self, root: &Root, path: Option<&str>) -> Result<Arc<Toolbox>, Error> {
        let found = || FILES.into_iter().find(|path| !root.is_absent(path));
        let Some(path) = path.or_else(found) else {
            return Ok(Arc::default());
        };
        let read = || Toolbox::parse(path, &root.read_required(path)?).map(Arc::new);
        self.toolboxes.get(root, path, Policy::default(), read)
    }
}

impl Toolbox {
    fn parse(path: &str, text: &str) -> Result<Self, Error> {
        let value: Value = if path.ends_with(".json") {
            json_with_path(path, text)?
        } else {
            yaml::document(path, text)?.to_json()
        };
        let list = value.get("tools").unwrap_or(&value);
        let list = list.as_array().ok_or_else(|| {
            Error::input(format!("{path}: must be a list of tools"))
                .advise("write a tool as `{\"name\":…,\"description\":…,\"parameters\":{…}}`")
        })?;
        Self::of_list(&format!("{path}: "), list)
    }

    /// Reads definitions of tools. Error messages refer to a tool by `place`
    /// and its number.
    pub(crate) fn of_list(place: &str, list: &[Value]) -> Result<Self, Error> {
        let mut tools = Vec::with_capacity(list.len());
        for (i, tool) in list.iter().enumerate() {
            let tool = Tool::of(tool)
                .map_err(|(field, why)| Error::input(format!("{place}[{i}].{field}: {why}")))?;
            if tools.iter().any(|other: &Tool| other.name == tool.name) {
                return Err(Error::input(format!(
                    "{place}[{i}].name: the tool name `{}` is already in use",
                    tool.name
                )));
            }
            tools.push(tool);
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { tools })
    }

    /// Returns the names of the tools.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }
}

impl Tool {
    /// Reads a tool in the form of any provider.
    fn of(value: &Value) -> Result<Self, (&'static str, &'static str)> {
        // OpenAI's Chat Completions wraps it once more.
        let value = value.get("function").unwrap_or(value);
        let name = value.get("name").and_then(Value::as_str);
        let name = name.filter(|name| !name.trim().is_empty());
        let name = name.ok_or(("name", "is missing"))?.to_owned();
        let keys = ["parameters", "input_schema", "parametersJsonSchema"];
        let parameters = keys.iter().find_map(|key| value.get(key));
        let parameters = match parameters {
            None => json!({"type": "object", "properties": {}}),
            Some(schema) if schema.is_object() => schema.clone(),
            Some(_) => return Err(("parameters", "must be a JSON schema of type object")),
        };
        let mut definition = Map::new();
        match value.get("description") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => {
                definition.insert("description".to_owned(), text.as_str().into());
            }
            Some(_) => return Err(("description", "must be text")),
        }
        definition.insert("parameters".to_owned(), parameters);
        Ok(Self {
            name,
            definition: Value::Object(definition),
            guarded: Default::default(),
        })
    }
}

/// Returns an item for each tool. Tools that may not be used are included as
/// absent items, so that the report has the reason.
///
/// With `toolset`, only the tools of that set are offered.
pub(crate) fn tool_items(
    toolbox: &Toolbox,
    toolset: Option<(&str, &[String])>,
    permissions: &Permissions,
    policy: Policy,
) -> Vec<Item> {
    let item = |tool: &Tool| -> Item {
        let name: Arc<str> = tool.name.as_str().into();
        let absent = |reason: String| Content::Absent {
            code: Code::NOT_PERMITTED,
            reason,
        };
        let content = match toolset {
            Some((set, names)) if !names.contains(&tool.name) => {
                absent(format!("not in the toolset `{set}`"))
            }
            _ if !permissions.allows(&tool.name) => {
                absent("not allowed by the permissions".to_owned())
            }
            _ => Content::Ready(tool.text(policy)),
        };
        let mut item = Item::with_content(format!("tool:{name}"), Role::System, content)
            .part(Part::Tool { name })
            .pinned();
        item.priority = 1.0;
        item.trust = Trust::Operator;
        item
    };
    toolbox.tools.iter().map(item).collect()
}
