//! A cloned project cannot act outside of itself before its file is trusted.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;

use super::*;

/// A project as a stranger could have written it, and a listener that it
/// would send a key to.
struct Clone {
    project: Project,
    listener: TcpListener,
}

impl Clone {
    fn new() -> Self {
        let project = with_session(project());
        say_many(&project, 1, 6);
        project.write(
            "records.jsonl",
            r#"{"kind":"event","id":"a","content":"A."}"#,
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let clone = Self { project, listener };
        clone.write("");
        clone
    }

    fn write(&self, more: &str) {
        let url = format!("http://{}/v1", self.listener.local_addr().unwrap());
        let settings = format!(
            r#"
            recipe = "broker"
            [environment]
            command = ["sh", "-c", "touch ran; echo '{{}}'"]
            [summariser]
            kind = "openai"
            model = "m"
            base_url = "{url}"
            api_key_env = "SECRET_OF_THE_USER"
            attempts = 1
            deadline_ms = 2000
            [memory.embedder]
            base_url = "{url}"
            model = "e"
            dimensions = 4
            api_key_env = "SECRET_OF_THE_USER"
            {more}
            "#
        );
        self.project.write("contexture.toml", settings);
    }

    fn run(&self, args: &str) -> Run {
        let mut command = self.project.command(args);
        command.env("SECRET_OF_THE_USER", "AKIA-not-for-you");
        crate::support::run(command, "")
    }

    /// Returns true when the command ran since the last call.
    fn ran(&self) -> bool {
        fs::remove_file(self.project.path("ran")).is_ok()
    }

    /// Returns true when something connected since the last call.
    fn connected(&self) -> bool {
        let mut connected = false;
        loop {
            match self.listener.accept() {
                Ok(_) => connected = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return connected,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

const INACTIVE: &str = "warning: contexture.toml is not trusted: `environment.command`, \
     `summariser`, `memory.embedder` are inactive; `contexture trust` shows what they do and \
     activates them\n";

#[test]
fn an_untrusted_clone_runs_no_command_and_opens_no_connection() {
    let clone = Clone::new();
    for args in [
        "assemble --event Hello --session chat",
        "assemble --event Hello --session chat --explain",
        "session compact chat",
        "session history chat",
        "memory record records.jsonl",
        "memory recall boat",
        "memory reembed",
        "tokens contexture.toml",
        "key list",
    ] {
        let run = clone.run(args);
        run.expect_code(0);
        let told = run.err.matches("is not trusted").count();
        assert_eq!(told, 1, "{args}: {}", run.err);
        assert!(
            run.err.contains(INACTIVE) || args.contains("--explain"),
            "{}",
            run.err
        );
    }
    for args in ["doctor", "recipe sources", "trust --show", "trust --list"] {
        clone.run(args).expect_code(0);
    }
    assert!(!clone.ran(), "the command ran");
    assert!(!clone.connected(), "something connected");

    // The report has the same, for programs; the rest of the file works.
    let (_, report) = clone.project.assemble("--event Hello --session chat");
    let warning = &report["warnings"][0];
    assert_eq!(warning["code"], "settings_inactive");
    assert_eq!(
        warning["advice"],
        json!([{"do": "run", "command": "trust"}])
    );
    assert_eq!(report["recipe"], "broker");
}

#[test]
fn a_trusted_file_acts_until_it_changes_or_is_revoked() {
    let clone = Clone::new();
    let assemble = "assemble --event Hello --session chat";
    let compact = "session compact chat";
    let run = clone.run("trust");
    run.expect_code(0);
    assert!(run.err.starts_with("trusted /"), "{}", run.err);
    let run = clone.run(assemble);
    run.expect_code(0);
    assert!(!run.err.contains("trusted"), "{}", run.err);
    assert!(clone.ran());
    clone.run(compact);
    assert!(clone.connected());

    clone.write("# changed");
    let run = clone.run(assemble);
    let told = "warning: contexture.toml changed since you trusted it: `environment.command`";
    assert!(run.err.contains(told), "{}", run.err);
    clone.run(compact);
    clone.write("");
    clone.run(assemble).expect_code(0);
    assert!(clone.ran());
    // Commands and connections are counted from here.
    clone.connected();

    let run = clone.run("trust --revoke");
    assert_eq!(run.out, "revoked ./contexture.toml\n");
    assert_eq!(
        clone.run("trust --revoke").out,
        "./contexture.toml was not trusted\n"
    );
    clone.run(assemble).says(INACTIVE.trim_end());
    clone.run(compact).expect_code(0);
    assert!(!clone.ran() && !clone.connected());
}

#[test]
fn trust_shows_what_becomes_active() {
    let clone = Clone::new();
    let url = format!("http://{}/v1", clone.listener.local_addr().unwrap());
    let path = clone.project.path("").canonicalize().unwrap();
    let path = path.join("contexture.toml").display().to_string();
    let shown = format!(
        "{path}:\n  environment.command: runs the command sh -c 'touch ran; echo \
         '\\''{{}}'\\'''\n  summariser: sends content to {url}\n  summariser: sends the \
         environment variable SECRET_OF_THE_USER as a key\n  memory.embedder: sends content to \
         {url}\n  memory.embedder: sends the environment variable SECRET_OF_THE_USER as a key\n"
    );
    assert_eq!(clone.run("trust --show").out, shown);
    assert_eq!(clone.run("trust --list").out, "no trusted files\n");
    let run = clone.run("trust contexture.toml");
    assert_eq!(run.out, shown);
    let told = format!("trusted {path}; a changed file must be trusted again\n");
    assert_eq!(run.err, told);
    let listed = clone.run("trust --list").out;
    assert!(listed.contains(&path), "{listed}");
    let listed: Value = serde_json::from_str(&clone.run("trust --list --json").out).unwrap();
    assert_eq!(listed[0]["path"], path);
    let doctor = clone.run("doctor").out;
    let row = "contexture.toml is trusted: `environment.command`, `summariser`, \
               `memory.embedder` are active";
    assert!(doctor.contains(row), "{doctor}");

    // Control characters in a file do not reach the terminal.
    clone.project.write(
        "contexture.toml",
        "[environment]\ncommand = [\"\\u001b[2J\"]\n",
    );
    let out = clone.run("trust").out;
    assert!(out.contains("[U+001B]"), "{out}");
}

#[test]
fn nothing_to_trust() {
    let project = Project::new();
    project.refuses("trust", 2, "error: there is no contexture.toml in .\n");
    project.ok("init");
    let run = project.run("trust");
    run.expect_code(0);
    assert!(
        run.out.ends_with(": no setting needs trust\n"),
        "{}",
        run.out
    );
    assert!(!project.trust_file().exists());
    let doctor = project.ok("doctor");
    assert!(doctor.contains("no setting needs trust"), "{doctor}");
    project.write("other.toml", "[environment]\ncommand = ['true']\n");
    project.refuses(
        "trust other.toml",
        2,
        "error: other.toml is not a contexture.toml; settings are read from files of this name \
         only\n",
    );
}

#[test]
fn a_list_that_cannot_be_read_trusts_nothing() {
    let clone = Clone::new();
    clone.run("trust").expect_code(0);
    let list = clone.project.trust_file();
    fs::write(&list, "what is this\n").unwrap();
    let run = clone.run("assemble --event Hello --session chat");
    run.expect_code(0);
    let told = format!(
        "warning: contexture.toml is not trusted ({}:1: not a trusted file: ",
        list.display()
    );
    assert!(run.err.contains(&told), "{}", run.err);
    assert!(!clone.ran());
    // A list that is damaged is not overwritten.
    clone.run("trust").expect_code(2);
    assert_eq!(fs::read_to_string(&list).unwrap(), "what is this\n");
}

#[test]
fn another_root_is_named_in_the_advice() {
    let above = Project::new();
    above.write("a b/contexture.toml", "[environment]\ncommand = ['true']\n");
    let run = above.run("session new x --root 'a b'");
    run.expect_code(0);
    assert!(run.err.contains("`contexture trust 'a b'`"), "{}", run.err);
    above.run("trust 'a b'").expect_code(0);
    assert_eq!(above.run("session list --root 'a b'").err, "");
}

#[test]
fn a_store_outside_the_root_needs_trust() {
    let above = Project::new();
    above.write(
        "clone/contexture.toml",
        "[store]\nurl = \"sqlite:../other.db\"\n",
    );
    let run = above.run("session new x --root clone");
    run.expect_code(0);
    assert!(run.err.contains("`store.url` is inactive"), "{}", run.err);
    assert!(!above.path("other.db").exists());
    above.run("trust clone").expect_code(0);
    above.run("session new x --root clone").expect_code(0);
    assert!(above.path("other.db").exists());
}

/// A cloned project with links to the store of another project.
#[cfg(unix)]
#[test]
fn a_store_behind_a_link_out_of_the_root_is_not_opened() {
    use std::os::unix::fs::symlink;
    let above = Project::new();
    above.write("clone/a.md", "a");
    above.write("clone/in/.keep", "");
    above.write(
        "records.jsonl",
        r#"{"kind":"event","id":"a","content":"The vault code of Rufus is 4711."}"#,
    );
    above
        .run("memory record records.jsonl --root . --db sqlite:mine/.contexture/contexture.db")
        .expect_code(0);
    let error = |link: &str| {
        format!(
            "error: the store is not opened: clone/{link} is a symbolic link that leads out of \
             the root\nhint: if you made the link, name the store yourself with --db sqlite:PATH \
             or CONTEXTURE_DB; otherwise remove the link\n"
        )
    };
    let clear = || {
        let own = above.path("clone/.contexture");
        if own.is_symlink() {
            fs::remove_file(own).unwrap();
        } else if own.exists() {
            fs::remove_dir_all(own).unwrap();
        }
    };
    let other = above.path("mine/.contexture");
    for (link, to) in [
        // A directory, the database, the files next to it, those of tenants,
        // and a file that is to be created.
        (".contexture", other.clone()),
        (".contexture/contexture.db", other.join("contexture.db")),
        (".contexture/contexture.db-wal", other.join("contexture.db")),
        (".contexture/contexture.db-index", other.join("absent")),
        (".contexture/contexture.db.tenants", other.clone()),
        (
            ".contexture/contexture.db.tenants/a.db",
            other.join("contexture.db"),
        ),
        (".contexture/contexture.db", above.path("new.db")),
    ] {
        clear();
        let place = above.path("clone").join(link);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(to, place).unwrap();
        for args in [
            "memory recall 'vault code of Rufus' --root clone",
            "session new x --root clone",
            "session list --root clone",
            "restore backup --root clone",
            "assemble --event Hello --root clone",
            "key list --root clone",
        ] {
            above.refuses(args, 2, &error(link));
        }
        let doctor = above.run("doctor --root clone");
        doctor.expect_code(2);
        assert!(
            doctor.out.contains("is a symbolic link that leads out"),
            "{}",
            doctor.out
        );
    }
    assert!(!above.path("new.db").exists());

    // A link that stays inside, and a store that the user names.
    clear();
    symlink("in", above.path("clone/.contexture")).unwrap();
    above.run("session new x --root clone").expect_code(0);
    assert!(above.path("clone/in/contexture.db").exists());
    clear();
    symlink(&other, above.path("clone/.contexture")).unwrap();
    let found = above.ok("memory recall 'vault code of Rufus' --root clone --db sqlite:clone/.contexture/contexture.db");
    assert!(found.contains("4711"), "{found}");
    // The user trusts the link.
    above.write(
        "clone/contexture.toml",
        "[store]\nurl = \"sqlite:.contexture/contexture.db\"\n",
    );
    above.refuses(
        "session list --root clone",
        2,
        &format!(
            "warning: contexture.toml is not trusted: `store.url`, `server.backup_directory` are \
             inactive; `contexture trust clone` shows what they do and activates them\n{}",
            error(".contexture")
        ),
    );
    above.run("trust clone").expect_code(0);
    above.run("session list --root clone").expect_code(0);
}

#[cfg(unix)]
#[test]
fn backups_are_not_written_through_a_link() {
    let above = Project::new()
        .file(
            "clone/contexture.toml",
            "[server]\nbackup_interval_minutes = 1\n",
        )
        .file("clone/.contexture/.keep", "")
        .file("outside/.keep", "");
    let link = above.path("clone/.contexture/backups");
    std::os::unix::fs::symlink(above.path("outside"), link).unwrap();
    let run = above.run("serve --root clone --addr 127.0.0.1:0");
    run.expect_code(2);
    run.says(
        "error: server.backup_directory: clone/.contexture/backups is a symbolic link that leads \
         out of the root",
    );
}

/// A `.gitignore` that is a broken link is not written through.
#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_linked_gitignore() {
    let above = Project::new().file("clone/.contexture/x", "");
    let link = above.path("clone/.contexture/.gitignore");
    std::os::unix::fs::symlink(above.path("outside"), link).unwrap();
    above.run("session new x --root clone").expect_code(0);
    assert!(!above.path("outside").exists());
}

#[test]
fn a_key_is_not_sent_in_clear_text() {
    let project = project();
    for (table, more) in [
        ("summariser", "kind = \"openai\"\n"),
        ("memory.embedder", "dimensions = 4\n"),
    ] {
        let settings = |url: &str| {
            format!("[{table}]\n{more}model = \"m\"\nbase_url = \"{url}\"\napi_key_env = \"K\"\n")
        };
        project.write("contexture.toml", settings("http://10.0.0.1/v1"));
        project.refuses(
            "session new x",
            2,
            &format!(
                "error: contexture.toml:4: {table}.base_url: must be an https:// address, or \
                 http:// on this machine, because {table}.api_key_env is set\nhint: use \
                 https://, or remove api_key_env if the server needs no key\n"
            ),
        );
        project.write("contexture.toml", settings("http://127.0.0.1:9/v1"));
        project.run("doctor").expect_code(0);
    }
}
