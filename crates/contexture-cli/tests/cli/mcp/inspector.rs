//! The protocol's own inspector: the other client library, in another language.

use super::*;

/// Runs the inspector's command line against a project.
#[track_caller]
fn inspect(project: &Project, args: &[&str]) -> Value {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inspector");
    std::fs::create_dir_all(&cache).unwrap();
    let output = Command::new("npx")
        .args(["--yes", "@modelcontextprotocol/inspector@2.12.0", "--cli"])
        .args([BIN, "mcp", "--tools", "all"])
        .args(["--root", project.path("").to_str().unwrap()])
        .args(args)
        .current_dir(&cache)
        .output()
        .expect("this test needs npx, which comes with node");
    let told = String::from_utf8_lossy(&output.stderr);
    // The inspector reports schemas that a client does not understand.
    assert!(!told.contains("schema"), "{told}");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("this test needs npm and its registry:\n{told}"))
}

#[test]
fn the_inspector_calls_tools() {
    let project = project();
    let listed = inspect(&project, &["--method", "tools/list"]);
    assert_eq!(listed["tools"].as_array().unwrap().len(), 15);
    let arguments = ["--method", "tools/call", "--tool-name", "push_task"];
    let more = [
        "--tool-arg",
        "goal=Mend the lamp",
        "--tool-arg",
        "why=It is dark",
    ];
    let done = inspect(&project, &[&arguments[..], &more].concat());
    assert_eq!(done["structuredContent"]["task"]["goal"], "Mend the lamp");
    // Errors reach the client unchanged.
    let refused = inspect(&project, &arguments);
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["code"], "MISSING_WHY");
}
