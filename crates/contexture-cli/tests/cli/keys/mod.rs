//! Keys: made, listed and revoked.

use crate::support::{NOW, Project, Run, dedent};
use serde_json::Value;

fn call(project: &Project, args: &[&str]) -> Run {
    project.run_now(&[&["key"], args].concat())
}

#[track_caller]
fn ok(project: &Project, args: &[&str]) -> Run {
    let run = call(project, args);
    run.expect_code(0);
    run
}

/// Makes a key, and returns its text and its id.
#[track_caller]
fn new(project: &Project, args: &[&str]) -> (String, String) {
    let mut all = vec!["new"];
    all.extend(args);
    let key = ok(project, &all).out.trim_end().to_owned();
    let id = key.split('_').nth(1).unwrap().to_owned();
    (key, id)
}

#[track_caller]
fn refuses(project: &Project, args: &[&str], message: &str) {
    let mut all = vec!["key"];
    all.extend(args);
    project.refuses(&all, 2, message);
}

#[test]
fn only_the_new_key_goes_to_standard_output() {
    let project = Project::new();
    let run = ok(&project, &["new", "--tenant", "harbour"]);
    let key = run.out.strip_suffix('\n').unwrap();
    let parts: Vec<&str> = key.split('_').collect();
    assert_eq!((parts.len(), parts[0]), (3, "ctx"));
    assert_eq!((parts[1].len(), parts[2].len()), (12, 43));
    let id = parts[1];
    assert_eq!(
        run.err,
        dedent(&format!(
            "
            created key {id} in ./.contexture/contexture.db; servers on this store require a key within two seconds
            This is the only time the key is shown: save it in a safe place.
            It grants access to the data of tenant harbour. Send it with every request as
              Authorization: Bearer ctx_{id}_…
            Revoke it with `contexture key revoke {id}`.
            "
        ))
    );
    let metrics = ok(&project, &["new", "--metrics"]);
    assert!(
        metrics.err.contains("grants access to /metrics only."),
        "{}",
        metrics.err
    );
}

#[test]
fn the_secret_is_nowhere() {
    let project = Project::new();
    let (key, id) = new(&project, &["--name", "a laptop"]);
    let secret = key.rsplit('_').next().unwrap();
    for shown in [
        ok(&project, &["list"]).out,
        ok(&project, &["list", "--json"]).out,
        ok(&project, &["revoke", &id, "--json"]).out,
    ] {
        assert!(shown.contains(&id), "{shown}");
        assert!(!shown.contains(secret), "{shown}");
        assert!(!shown.contains("hash"), "{shown}");
    }
    for name in project.names() {
        let path = project.path(&name);
        if path.is_file() {
            let bytes = std::fs::read(path).unwrap();
            let found = bytes
                .windows(secret.len())
                .any(|it| it == secret.as_bytes());
            assert!(!found, "{name}");
        }
    }
}

#[test]
fn keys_are_listed_and_revoked() {
    let project = Project::new();
    let (_, laptop) = new(&project, &["--name", "my laptop"]);
    let (harbour_key, harbour) = new(&project, &["--tenant", "harbour"]);
    let (_, metrics) = new(&project, &["--metrics", "--name", "the dash\u{1b}board"]);
    let told = ok(&project, &["revoke", &harbour]).out;
    let since = format!("revoked key {harbour} of tenant harbour at {NOW}\n");
    assert_eq!(told, since);
    // Again, and by the whole key: the first time stays.
    let later = [
        "key",
        "revoke",
        &harbour_key,
        "--now",
        "2027-01-01T00:00:00Z",
    ];
    assert_eq!(project.ok(&later), since);
    let listed = ok(&project, &["list"]).out;
    let words: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words,
        [
            vec!["id", "tenant", "scope", "name", "created", "revoked"],
            vec![&laptop, "default", "tenant", "my", "laptop", NOW, "-"],
            vec![&harbour, "harbour", "tenant", "-", NOW, NOW],
            vec![
                &metrics,
                "-",
                "metrics",
                "the",
                "dash[U+001B]board",
                NOW,
                "-"
            ],
        ]
    );
    let json: Value = serde_json::from_str(&ok(&project, &["list", "--json"]).out).unwrap();
    assert_eq!(
        json[1],
        serde_json::json!({
            "id": harbour, "tenant": "harbour", "scope": "tenant", "name": null,
            "created_at": NOW, "revoked_at": NOW,
        })
    );
    let doctor = project.ok(&["doctor"]);
    assert!(doctor.contains("0 sessions, 0 trees, 2 keys"), "{doctor}");
}

#[test]
fn a_new_key_as_json() {
    let project = Project::new();
    let run = ok(&project, &["new", "--json", "--name", "a laptop"]);
    assert_eq!(run.err, "");
    let value: Value = serde_json::from_str(&run.out).unwrap();
    let (key, id) = (
        value["key"].as_str().unwrap(),
        value["id"].as_str().unwrap(),
    );
    assert!(key.starts_with(&format!("ctx_{id}_")), "{key}");
    assert_eq!(value["tenant"], "default");
    assert_eq!(value["scope"], "tenant");
    assert_eq!(value["name"], "a laptop");
    assert_eq!(value["created_at"], NOW);
}

#[test]
fn keys_are_no_part_of_what_the_usual_tenant_sees() {
    let project = Project::new();
    new(&project, &["--tenant", "harbour"]);
    assert_eq!(
        project.ok(&["session", "list"]),
        "no sessions; create one with `contexture session new LABEL`\n"
    );
}

#[test]
fn invalid_input_is_rejected() {
    let project = Project::new();
    for name in ["Harbour", "", "a b", "-x"] {
        refuses(
            &project,
            &["new", &format!("--tenant={name}")],
            &format!(
                "
                error: tenant: `{name}` is not a valid tenant name; use 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit
                "
            ),
        );
    }
    let both = call(&project, &["new", "--metrics", "--tenant", "harbour"]);
    both.expect_code(2);
    assert!(both.err.contains("cannot be used with"), "{}", both.err);
    for args in [&["list"][..], &["revoke", "abc"]] {
        let none = call(&project, args);
        none.expect_code(2);
        assert!(
            none.err.contains("create one with `contexture key new`"),
            "{}",
            none.err
        );
    }
    assert_eq!(project.names(), Vec::<String>::new());
    new(&project, &[]);
    refuses(
        &project,
        &["revoke", "abc"],
        "
        error: there is no key `abc`
        hint: `contexture key list` lists the keys
        ",
    );
}

#[test]
fn a_key_is_revoked_by_its_name() {
    let project = Project::new();
    let (_, id) = new(&project, &["--name", "laptop"]);
    let told = ok(&project, &["revoke", "laptop"]).out;
    assert!(told.starts_with(&format!("revoked key {id} ")), "{told}");
    // A revoked key no longer has the name.
    new(&project, &["--name", "laptop"]);
    new(&project, &["--name", "laptop"]);
    refuses(
        &project,
        &["revoke", "laptop"],
        "
        error: several keys have the name `laptop`
        hint: use an id that `contexture key list` prints
        ",
    );
}

#[test]
fn a_store_without_keys_says_how_to_make_one() {
    let project = Project::new();
    project.ok(&["session", "new", "main"]);
    assert_eq!(
        ok(&project, &["list"]).out,
        "no keys; create one with `contexture key new`\n"
    );
    assert_eq!(ok(&project, &["list", "--json"]).out, "[]\n");
    let doctor = project.ok(&["doctor"]);
    assert!(doctor.contains("1 session, 0 trees\n"), "{doctor}");
}
