//! Tools: three shapes, sets and permissions.

use super::*;

/// A tool in each of the three shapes that providers have, and a bare one.
const TOOLS: &str = r#"[
    {"type": "function", "function": {"name": "shell", "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}},
    {"name": "file_read", "description": "Reads a file.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
    {"name": "mail", "parametersJsonSchema": {"type": "object"}},
    {"name": "file_delete"}
]"#;

fn with_tools(settings: &str) -> Project {
    let project = chat().file("tools.json", TOOLS);
    project.write("contexture.toml", dedent(settings));
    project
}

fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| text(&tool["name"])).collect()
}

/// Returns the tools that are not offered, with the reason.
fn left_out(request: &Value) -> Vec<String> {
    let excluded = request["report"]["excluded"].as_array().unwrap();
    let row = |row: &Value| {
        let (id, code) = (text(&row["id"]), text(&row["code"]));
        format!("{id} {code}: {}", text(&row["reason"]))
    };
    excluded.iter().map(row).collect()
}

#[test]
fn a_tool_in_any_shape_is_read_and_listed_by_name() {
    let request = assembled(&with_tools(""), &[]);
    assert_eq!(
        request["tools"],
        json!([
            {"name": "file_delete", "parameters": {"type": "object", "properties": {}}},
            {"name": "file_read", "description": "Reads a file.",
             "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
            {"name": "mail", "parameters": {"type": "object"}},
            {"name": "shell", "description": "Runs a command.",
             "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
        ])
    );
    // They are no part of the system prompt, but they cost.
    assert!(!text(&request["system_prompt"]).contains("file_read"));
    let layers = &request["report"]["budget"]["layers"];
    assert!(layers["tools"]["used"].as_u64().unwrap() > 50, "{layers}");
}

#[test]
fn each_provider_gets_its_own_shape() {
    let project = with_tools("");
    let tool = |format: &str, model: &str, pointer: &str| -> Value {
        let args = ["--format", format, "--model", model];
        let value = parsed(&project.ok(&request(&args)));
        value
            .pointer(pointer)
            .cloned()
            .unwrap_or_else(|| panic!("{value:#}"))
    };
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let (name, about) = ("file_read", "Reads a file.");
    assert_eq!(
        tool("anthropic", "claude-sonnet-4", "/tools/1"),
        json!({"name": name, "description": about, "input_schema": schema})
    );
    assert_eq!(
        tool("openai-chat", "gpt-4o", "/tools/1"),
        json!({"type": "function",
               "function": {"name": name, "description": about, "parameters": schema}})
    );
    let flat = tool("openai-responses", "gpt-4o", "/tools/1");
    assert_eq!(flat["type"], "function");
    assert_eq!(flat["name"], name);
    assert_eq!(flat["parameters"], schema);
    let gemini = tool(
        "gemini",
        "gemini-2.5-pro",
        "/tools/0/functionDeclarations/1",
    );
    assert_eq!(gemini["name"], name);
    assert_eq!(gemini["description"], about);
}

#[test]
fn tools_may_be_yaml_and_anywhere_below_the_root() {
    let project = chat().file("conf/mine.yml", "tools:\n  - name: shell\n");
    project.write("contexture.toml", "[tools]\nfile = \"conf/mine.yml\"\n");
    assert_eq!(names(&assembled(&project, &[])), ["shell"]);
}

#[test]
fn what_is_denied_is_denied_whatever_is_allowed() {
    let project = with_tools(
        "
        [permissions]
        allow = [\"file_*\", \"shell\"]
        deny = [\"file_delete\"]
        ",
    );
    let request = assembled(&project, &[]);
    assert_eq!(names(&request), ["file_read", "shell"]);
    assert_eq!(
        left_out(&request),
        [
            "tool:file_delete not_permitted: the permissions do not allow it",
            "tool:mail not_permitted: the permissions do not allow it",
        ]
    );
    assert_eq!(
        request["permissions_granted"],
        json!(["file_*", "shell", "!file_delete"])
    );
    let system = text(&request["system_prompt"]);
    let told = "## Permissions\n\nAllowed: file_*, shell\nNot allowed: file_delete";
    assert!(system.contains(told), "{system}");
}

#[test]
fn the_permissions_of_a_persona_come_on_top() {
    let project = with_tools("permissions.deny = [\"mail\"]\n");
    project.write("persona/permissions.yml", "allow: ['*']\ndeny: [shell]\n");
    assert_eq!(
        names(&assembled(&project, &[])),
        ["file_delete", "file_read"]
    );
}

#[test]
fn without_permissions_everything_is_allowed() {
    let request = assembled(&with_tools(""), &[]);
    assert_eq!(names(&request).len(), 4);
    assert_eq!(request["permissions_granted"], json!(["*"]));
    assert!(!text(&request["system_prompt"]).contains("Permissions"));
}

#[test]
fn a_toolset_by_name_and_by_default() {
    let project = with_tools(
        "
        tools.toolset = \"reading\"
        [toolsets]
        reading = [\"file_read\", \"mail\"]
        all = [\"mail\", \"shell\", \"file_read\", \"file_delete\"]
        [permissions]
        deny = [\"mail\"]
        ",
    );
    let request = assembled(&project, &[]);
    assert_eq!(request["toolset_name"], "reading");
    assert_eq!(names(&request), ["file_read"]);
    assert_eq!(
        left_out(&request),
        [
            "tool:file_delete not_permitted: the toolset `reading` does not have it",
            "tool:mail not_permitted: the permissions do not allow it",
            "tool:shell not_permitted: the toolset `reading` does not have it",
        ]
    );
    let request = assembled(&project, &["--toolset", "all"]);
    assert_eq!(request["toolset_name"], "all");
    // By name, whatever the order in the set.
    assert_eq!(names(&request), ["file_delete", "file_read", "shell"]);
}
