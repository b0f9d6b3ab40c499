//! No file outside the root is read, and no response reveals the path of the
//! root.

use serde_json::{Value, json};

use crate::support::{Client, Lab, talk, turn};

const SECRET: &str = "the-stone-under-the-lighthouse";

/// A recipe and a manifest that would be of use, if they could be reached.
const RECIPE: &str =
    "recipe: outside\nlayers:\n  - name: event\n    source: event\n    place: current\n";
const MANIFEST: &str = "protocol: CONTEXT-ASSEMBLY/0.1\nbudget:\n  max_tokens: 1000\nfiles:\n  - path: secret.txt\n    priority: 100\n";

/// A directory with a root in it, whose siblings must stay hidden.
fn lab(tenant: &str) -> (Lab, String) {
    let lab = Lab::new()
        .file(".contexture/tenants/secret.txt", SECRET)
        .file(
            ".contexture/tenants/outside.yml",
            &format!("# {SECRET}\n{RECIPE}"),
        )
        .file(
            ".contexture/tenants/working-set.yml",
            &format!("# {SECRET}\n{MANIFEST}"),
        )
        .file(".contexture/tenants/harbour/inside.txt", "inside")
        .file(".contexture/tenants/harbour/working-set.yml", MANIFEST);
    let key = lab.key(tenant);
    (lab, key)
}

fn assemble(client: &Client, body: &Value) -> String {
    let answer = client.post("/v1/assemble", &body.to_string());
    assert!(answer.status < 500, "{body}: {}", answer.body);
    answer.body
}

#[test]
fn paths_outside_the_root_are_rejected() {
    let (lab, key) = lab("harbour");
    #[cfg(unix)]
    {
        let root = lab.path(".contexture/tenants/harbour");
        std::os::unix::fs::symlink("../outside.yml", root.join("link.yml")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("passwd.yml")).unwrap();
    }
    let server = lab.serve();
    let client = server.with_key(&key);
    let absolute = lab.path(".contexture/tenants/outside.yml");
    let root = lab.path("").display().to_string();
    let outside = ["outside.yml", "working-set.yml", "secret.txt"].map(|name| {
        let path = lab.path(".contexture/tenants").join(name);
        let content = std::fs::read_to_string(&path).unwrap();
        (path, content)
    });
    for path in [
        "/etc/passwd",
        "../outside.yml",
        "../../../../../../../../etc/passwd",
        "x/../../outside.yml",
        "./../outside.yml",
        "..\\outside.yml",
        "link.yml",
        "up/outside.yml",
        "passwd.yml",
        "~/outside.yml",
        "file:///etc/passwd",
        "outside.yml\0",
        "%2e%2e/outside.yml",
        absolute.to_str().unwrap(),
    ] {
        let attachment = json!({"content": "look", "attachments": [{"path": path}]});
        let told = [
            ("recipe", json!({"recipe": path, "event": "x"})),
            (
                "manifest",
                json!({"recipe": "working-set", "manifest": path}),
            ),
            // An attachment of an event is omitted, with a row of the report.
            (
                "attachment",
                json!({"recipe": "broker", "event": attachment}),
            ),
        ]
        .map(|(what, body)| (what, assemble(&client, &body)));
        let manifest = format!("?manifest={}", escaped(path));
        let action = json!({"actions": [{"action": "add_to_working_set", "path": path,
            "priority": 0.5, "why": "to look"}]});
        let more = [
            (
                "working set",
                client.get(&format!("/v1/working-set{manifest}")).body,
            ),
            (
                "change",
                client
                    .post(
                        &format!("/v1/working-set/actions{manifest}"),
                        &action.to_string(),
                    )
                    .body,
            ),
            (
                "observed",
                client
                    .post(&format!("/v1/working-set/observe{manifest}"), &turn("x"))
                    .body,
            ),
            (
                "path of a change",
                client
                    .post("/v1/working-set/actions", &action.to_string())
                    .body,
            ),
        ];
        for (what, said) in told.into_iter().chain(more) {
            let is_error = said.starts_with(r#"{"error":"#);
            // A name that leads nowhere outside is a name.
            let harmless = what == "path of a change" && path.starts_with('%');
            assert!(
                is_error || what == "attachment" || harmless,
                "{what} {path}: {said}"
            );
            let told = said.replace(&quoted(path), "PATH");
            assert!(!told.contains(SECRET), "{what} {path}: {said}");
            assert!(!told.contains("root:x:0"), "{what} {path}: {said}");
            assert!(!told.contains(&root), "{what} {path}: {said}");
        }
    }
    for (path, content) in outside {
        assert_eq!(std::fs::read_to_string(path).unwrap(), content);
    }
}

/// Returns a text as it is written in JSON.
fn quoted(text: &str) -> String {
    let quoted = json!(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns a text as it is written in a query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn a_tenant_does_not_learn_where_its_root_is() {
    let (lab, key) = lab("harbour");
    let server = lab.serve();
    let client = server.with_key(&key);
    talk(&client, "s", "x");
    let root = lab.path("").display().to_string();
    for body in [
        json!({"recipe": "missing.yml", "event": "x"}),
        json!({"recipe": "missing", "event": "x"}),
        json!({"recipe": "."}),
        json!({"recipe": "inside.txt"}),
        json!({"recipe": "working-set"}),
        json!({"recipe": "working-set", "manifest": "missing.yml"}),
        json!({"recipe": "working-set", "manifest": "missing/missing.yml"}),
        json!({"recipe": "working-set", "manifest": "inside.txt"}),
        json!({"recipe": "working-set", "manifest": "."}),
        json!({"recipe": "broker", "session": "nobody", "event": "x"}),
        json!({"recipe": "broker", "event": {"content": "x", "attachments": [{"path": "none"}]}}),
        json!({"recipe": "broker", "event": {"content": "x", "attachments": [{"path": "."}]}}),
        json!({"recipe": "broker", "event": "x", "toolset": "none"}),
        json!({"recipe": "broker", "event": "x", "strategy": "none"}),
        json!({"recipe": "broker", "event": "x", "strategy": "../x"}),
        json!({"recipe": "broker", "event": "x", "model": "none"}),
        json!({"recipe": "broker", "event": "x", "model": "../../x"}),
        json!({"recipe": "broker", "event": "x", "max_tokens": 1}),
        json!({"recipe": "loom", "tree": "none"}),
    ] {
        let answer = client.post("/v1/assemble", &body.to_string());
        assert!(answer.status < 500, "{body}: {}", answer.body);
        assert!(!answer.body.contains(&root), "{body}: {}", answer.body);
    }
    // Without a manifest, too.
    std::fs::remove_file(lab.path(".contexture/tenants/harbour/working-set.yml")).unwrap();
    for answer in [
        client.get("/v1/working-set"),
        client.post("/v1/assemble", r#"{"recipe":"working-set"}"#),
        client.post("/v1/working-set/observe", &turn("x")),
    ] {
        assert_eq!(
            answer.text(),
            "404 not_found: no working-set.yml and no .agent/working-set.yml in . [set `manifest`]"
        );
    }
    let persona = r#"{"label":"p","persona":"../../x"}"#;
    for body in [
        persona,
        r#"{"label":"p","persona":"none"}"#,
        r#"{"label":"p","persona":"/x"}"#,
    ] {
        let answer = client.post("/v1/sessions", body);
        assert!(!answer.body.contains(&root), "{body}: {}", answer.body);
    }
}

/// The usual tenant's root is the server's, and the roots of others lie below it.
#[test]
fn the_default_tenant_cannot_read_the_roots_of_other_tenants() {
    let (lab, key) = lab("default");
    let lab = lab
        .file(".contexture/tenants/harbour/notes.md", SECRET)
        .file("elsewhere/quay/notes.md", SECRET)
        .file(
            "working-set.yml",
            "protocol: CONTEXT-ASSEMBLY/0.1\nbudget: {max_tokens: 8000}\nfiles:\n\
             - {path: .contexture/tenants/harbour/notes.md, priority: 0.9}\n\
             - {path: elsewhere/quay/notes.md, priority: 0.8}\n\
             - {path: .contexture, priority: 0.7}\n\
             - {path: '**/*.md', priority: 0.6}\n",
        )
        .with(|config| {
            let quay = contexture::config::TenantConfig {
                root: Some("elsewhere/quay".to_owned()),
                quota: None,
            };
            config.tenants.insert("quay".to_owned(), quay);
        });
    #[cfg(unix)]
    {
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, lab.path(name)).unwrap();
        };
        link(".contexture/tenants/harbour/notes.md", "link.md");
        link(".contexture/tenants", "others");
    }
    let server = lab.serve();
    let client = server.with_key(&key);
    let files = json!({"recipe": "working-set", "format": "text", "event": "x"});
    assert!(!assemble(&client, &files).contains(SECRET));
    for path in [
        ".contexture/tenants/harbour/notes.md",
        "./.contexture//tenants/./harbour/notes.md",
        "elsewhere/quay/notes.md",
        "link.md",
        "others/harbour/notes.md",
    ] {
        let action = json!({"actions": [{"action": "add_to_working_set", "path": path,
            "priority": 0.9, "why": "to see"}]});
        let said = client.post("/v1/working-set/actions", &action.to_string());
        assert!(!said.body.contains(SECRET), "{path}: {}", said.body);
        let attached = json!({"recipe": "broker", "format": "text", "event":
            {"content": "x", "attachments": [{"path": path}]}});
        let told = [
            assemble(&client, &files),
            assemble(&client, &attached),
            assemble(&client, &json!({"recipe": path, "event": "x"})),
            assemble(&client, &json!({"recipe": "working-set", "manifest": path})),
        ];
        for told in told {
            assert!(!told.contains(SECRET), "{path}: {told}");
        }
    }
    let theirs = "/v1/working-set?manifest=.contexture/tenants/harbour/working-set.yml";
    client.get(theirs).ok(404);
}

#[test]
fn a_recipe_outside_the_root_is_reported_with_its_field() {
    let (lab, key) = lab("harbour");
    let server = lab.serve();
    let body = json!({"recipe": "../../etc/passwd"});
    let answer = server
        .with_key(&key)
        .post("/v1/assemble", &body.to_string());
    let error = answer.ok(422).json()["error"].clone();
    assert_eq!(error["field"], "recipe");
    let message = "../../etc/passwd: `../../etc/passwd` leaves the root";
    assert_eq!(error["message"], message);
}

/// A request without history looks right, and the model knows nothing.
#[test]
fn a_session_without_a_history_layer_gives_a_warning() {
    let lab = Lab::new();
    let key = lab.key("harbour");
    let server = lab.serve();
    let client = server.with_key(&key);
    talk(&client, "support", "Where is the pier?");
    let assemble = |recipe: &str, format: &str, report: bool| {
        let body = json!({"recipe": recipe, "session": "support", "event": "Hello",
                          "format": format, "report": report});
        let answer = client.post("/v1/assemble", &body.to_string());
        answer.ok(200).json()
    };
    // Every format has the warnings, and their copy in the report.
    let warnings = |recipe: &str| {
        for format in ["json", "text", "openai-chat"] {
            let answer = assemble(recipe, format, true);
            assert_eq!(answer["warnings"], answer["report"]["warnings"], "{format}");
        }
        let answer = assemble(recipe, "openai-chat", false);
        assert!(answer["report"].is_null());
        answer["warnings"].as_array().unwrap().clone()
    };
    let warned = json!({
        "code": "no_history",
        "message": "recipe `memory` has no history layer: the request contains no turns of \
                    session `support`",
        "advice": [{"do": "set", "field": "recipe", "value": "broker"}],
    });
    assert!(warnings("memory").contains(&warned));
    assert!(!warnings("broker").contains(&warned));
}
