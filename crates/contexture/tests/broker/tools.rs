//! Tools: three shapes, sets and permissions.

use serde_json::json;

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

fn with_tools(config: &str) -> Lab {
    project(config, &[("tools.json", TOOLS)])
}

fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_tool_in_any_shape_is_read_and_listed_by_name() {
    let request = ask(&with_tools(""), |_| {});
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
    // Tools are not part of the system prompt, but their tokens count.
    assert!(!system(&request).contains("file_read"));
    let layers = &request["report"]["budget"]["layers"];
    assert!(layers["tools"]["used"].as_u64().unwrap() > 50, "{layers}");
    // Without permissions everything is allowed.
    assert_eq!(request["permissions_granted"], json!(["*"]));
    assert!(!system(&request).contains("Permissions"));
    let yaml = [("conf/mine.yml", "tools:\n  - name: shell\n")];
    let yaml = project("[tools]\nfile = \"conf/mine.yml\"\n", &yaml);
    assert_eq!(names(&ask(&yaml, |_| {})), ["shell"]);
}

#[test]
fn numbers_of_yaml_are_numbers() {
    let tools = "- name: scale\n  parameters:\n    type: object\n    numbers: [.5, +1, 0x1F, 0o17, \
                 007, 1., -2e3, '3', .inf, 1-2, e5]\n";
    let request = ask(&project("", &[("tools.yml", tools)]), |_| {});
    assert_eq!(
        request["tools"][0]["parameters"]["numbers"],
        json!([0.5, 1, 31, 15, 7, 1.0, -2e3, "3", ".inf", "1-2", "e5"])
    );
}

#[test]
fn deny_overrides_allow() {
    let allow = "[permissions]\nallow = [\"file_*\", \"shell\"]\ndeny = [\"file_delete\"]\n";
    let request = ask(&with_tools(allow), |_| {});
    assert_eq!(names(&request), ["file_read", "shell"]);
    assert_eq!(
        left_out(&request)[..2],
        [
            "tool:file_delete not_permitted: not allowed by the permissions",
            "tool:mail not_permitted: not allowed by the permissions",
        ]
    );
    let granted = json!(["file_*", "shell", "!file_delete"]);
    assert_eq!(request["permissions_granted"], granted);
    let told = "## Permissions\n\nAllowed: file_*, shell\nNot allowed: file_delete";
    assert!(system(&request).contains(told), "{}", system(&request));
    // Those of a persona come on top.
    let lab = with_tools("permissions.deny = [\"mail\"]\n");
    lab.write("persona/permissions.yml", "allow: ['*']\ndeny: [shell]\n");
    assert_eq!(names(&ask(&lab, |_| {})), ["file_delete", "file_read"]);
}

#[test]
fn a_toolset_by_name_and_by_default() {
    let lab = with_tools(
        "tools.toolset = \"reading\"\n[toolsets]\nreading = [\"file_read\", \"mail\"]\n\
         all = [\"mail\", \"shell\", \"file_read\", \"file_delete\"]\nodd = [\"shel\"]\n\
         [permissions]\ndeny = [\"mail\"]\n",
    );
    let request = ask(&lab, |_| {});
    assert_eq!(request["toolset_name"], "reading");
    assert_eq!(names(&request), ["file_read"]);
    assert_eq!(
        left_out(&request)[..3],
        [
            "tool:file_delete not_permitted: not in the toolset `reading`",
            "tool:mail not_permitted: not allowed by the permissions",
            "tool:shell not_permitted: not in the toolset `reading`",
        ]
    );
    // By name, whatever the order in the set.
    let of = |name: &str| {
        let name = Some(name.to_owned());
        move |request: &mut Request| request.toolset = name
    };
    assert_eq!(
        names(&ask(&lab, of("all"))),
        ["file_delete", "file_read", "shell"]
    );
    let hint = "hint: define toolsets as lists of names under [toolsets] in contexture.toml";
    let known = "did you mean `all`? (one of all, odd, reading)";
    assert_eq!(
        complaint(&lab, of("al")),
        format!("unknown toolset `al`; {known}\n{hint}")
    );
    let known = "did you mean `shell`? (one of file_delete, file_read, mail, shell)";
    let odd = format!("toolsets.odd: unknown tool `shel`; {known}");
    assert_eq!(complaint(&lab, of("odd")), odd);
}

#[test]
fn files_that_are_malformed() {
    let hint = "hint: write a tool as `{\"name\":…,\"description\":…,\"parameters\":{…}}`";
    for (content, message) in [
        ("[", "it ends inside a list at line 1 column 1"),
        ("{}", &format!("must be a list of tools\n{hint}")),
        ("[{}]", "[0].name: is missing"),
        ("[{\"name\":\" \"}]", "[0].name: is missing"),
        (
            "[{\"name\":\"a\",\"parameters\":3}]",
            "[0].parameters: must be a JSON schema of type object",
        ),
        (
            "[{\"name\":\"a\",\"description\":3}]",
            "[0].description: must be text",
        ),
        (
            "[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"a\"}]",
            "[2].name: the tool name `a` is already in use",
        ),
    ] {
        let lab = project("", &[("tools.json", content)]);
        assert_eq!(complaint(&lab, |_| {}), format!("tools.json: {message}"));
    }
    let lab = project("", &[("tools.yml", "a: [\n")]);
    let message = "tools.yml:1:4: unclosed bracket '['";
    assert_eq!(complaint(&lab, |_| {}), message);
    let hint = "hint: write permissions as two lists of names: `allow` and `deny`";
    for (content, message) in [
        ("allow: [\n", "1:8: unclosed bracket '['"),
        (
            "alow: [a]\n",
            "1:1: alow: unknown field `alow`; did you mean `allow`? (one of allow, deny)",
        ),
        ("allow: shell\n", "1:8: allow: must be a list, not `shell`"),
        ("deny: [[shell]]\n", "1:8: deny: must be text, not a list"),
        (
            "allow: [a]\n---\ndeny: [b]\n",
            "3:1: a second document begins here; expected one",
        ),
    ] {
        let path = "persona/permissions.yml";
        let lab = project("", &[(path, content)]);
        assert_eq!(complaint(&lab, |_| {}), format!("{path}:{message}\n{hint}"));
    }
}
