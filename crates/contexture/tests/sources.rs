//! What a working set stands for, and how hints, ranges and links are taken.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use contexture::core::Code;
use contexture::{Engine, Format, Request, Root};

struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn assemble(&self, manifest: &str) -> contexture::Assembled {
        let manifest = format!("protocol: CONTEXT-ASSEMBLY/0.1\n{manifest}");
        fs::write(self.path().join("working-set.yml"), manifest).unwrap();
        let root = Root::open(self.path()).unwrap();
        let request = Request {
            max_tokens: Some(20_000),
            ..Request::default()
        };
        Engine::for_root(&root)
            .unwrap()
            .assemble(&root, &request)
            .unwrap()
    }
}

fn included(assembled: &contexture::Assembled) -> Vec<String> {
    let rows = assembled
        .report
        .included
        .iter()
        .filter(|row| row.path.is_some());
    rows.map(|row| row.id.to_string()).collect()
}

fn excluded(assembled: &contexture::Assembled) -> Vec<(String, Code)> {
    let rows = assembled.report.excluded.iter();
    rows.map(|row| (row.id.to_string(), row.code)).collect()
}

#[test]
fn patterns_and_directories_respect_gitignore_and_hidden_names() {
    let project = Project::new(&[
        ("src/a.rs", "a"),
        ("src/deep/b.rs", "b"),
        ("src/c.txt", "c"),
        ("src/.hidden.rs", "h"),
        ("src/gen/out.rs", "generated"),
        ("docs/x.md", "x"),
        (".agent/notes.md", "n"),
        (".gitignore", "gen/\n"),
    ]);
    let all = project.assemble("files: [{path: 'src/**/*.rs', priority: 0.5}]");
    assert_eq!(included(&all), ["src/a.rs", "src/deep/b.rs"]);
    let flat = project.assemble("files: [{path: 'src/*', priority: 0.5}]");
    assert_eq!(included(&flat), ["src/a.rs", "src/c.txt"]);
    let dir = project.assemble("files: [{path: docs, priority: 0.5}, {path: src/, priority: 0.4}]");
    assert_eq!(
        included(&dir),
        ["docs/x.md", "src/a.rs", "src/c.txt", "src/deep/b.rs"]
    );
    let hidden = project.assemble("files: [{path: '.agent/**', priority: 0.5}]");
    assert_eq!(included(&hidden), [".agent/notes.md"]);
}

#[test]
fn an_entry_that_names_a_file_wins_over_patterns() {
    let project = Project::new(&[("src/a.rs", "a"), ("src/b.rs", "b")]);
    let assembled = project.assemble(
        "files:\n- {path: 'src/*.rs', priority: 0.5}\n- {path: src/b.rs, priority: 0.9}\n\
         - {path: '**/*.rs', priority: 0.1}\n",
    );
    assert_eq!(included(&assembled), ["src/b.rs", "src/a.rs"]);
    assert_eq!(
        excluded(&assembled),
        [("**/*.rs".to_owned(), Code::Duplicate)]
    );
}

#[test]
fn a_line_range_shows_its_lines_and_stops_at_the_end() {
    let project = Project::new(&[("a.txt", "one\ntwo\nthree\nfour\n")]);
    let assembled = project.assemble(
        "files:\n- {path: 'a.txt#L2-L3', priority: 0.9}\n- {path: 'a.txt#L4-L99', priority: 0.8}\n\
         - {path: 'a.txt#L9', priority: 0.7}\n",
    );
    let text = assembled.render(Format::Text).unwrap();
    assert!(
        text.contains("<context path=\"a.txt#L2-L3\">\ntwo\nthree\n</context>"),
        "{text}"
    );
    assert!(
        text.contains("<context path=\"a.txt#L4-L99\">\nfour\n</context>"),
        "{text}"
    );
    assert_eq!(
        excluded(&assembled),
        [("a.txt#L9".to_owned(), Code::NoSuchLines)]
    );
}

#[test]
fn hints_move_priority_and_get_a_verdict() {
    let project = Project::new(&[
        ("a", "a"),
        ("b", "b"),
        ("c", "c"),
        (
            "hot.yml",
            "keep:\n- {path: a, why: the bug, touches: 9}\n- {path: gone, why: maybe}\n- {path: c}\n",
        ),
        (
            "cold.yml",
            "evict:\n- {path: b, why: old, suggested_action: remove}\n- {path: c}\n",
        ),
    ]);
    let assembled = project.assemble(
        "files: [{path: a, priority: 0.5}, {path: b, priority: 0.5}, {path: c, priority: 0.5}]",
    );
    let rows: Vec<_> = assembled
        .report
        .included
        .iter()
        .filter(|row| row.path.is_some())
        .map(|row| (row.id.to_string(), row.priority, row.base_priority))
        .collect();
    // Hotness: a is 0.3 + 0.2 + 0.3, c is 0.2 + 0.3, b is 0; 0.2 moves nothing.
    assert_eq!(
        rows,
        [
            ("a".to_owned(), 0.65, Some(0.5)),
            ("c".to_owned(), 0.575, Some(0.5)),
            ("b".to_owned(), 0.3, Some(0.5)),
        ]
    );
    let verdicts: Vec<_> = assembled
        .report
        .hints
        .iter()
        .map(|hint| {
            (
                hint.path.as_str(),
                hint.list.as_str(),
                hint.verdict.as_str(),
            )
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            ("a", "hot", "honored"),
            ("b", "cold", "deferred"),
            ("c", "hot", "promoted"),
            ("gone", "hot", "deferred"),
        ]
    );
}

#[cfg(unix)]
#[test]
fn no_link_leads_out_of_the_root() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "do not show").unwrap();
    let project = Project::new(&[("in.txt", "inside")]);
    symlink(outside.path().join("secret"), project.path().join("out")).unwrap();
    symlink(outside.path(), project.path().join("dir")).unwrap();
    symlink("in.txt", project.path().join("fine")).unwrap();
    symlink("loop", project.path().join("loop")).unwrap();
    symlink("../../../../etc/hostname", project.path().join("up")).unwrap();
    let assembled = project.assemble(
        "files:\n- {path: out, priority: 0.5}\n- {path: dir/secret, priority: 0.5}\n\
         - {path: fine, priority: 0.5}\n- {path: loop, priority: 0.5}\n- {path: up, priority: 0.5}\n\
         - {path: 'dir/**', priority: 0.5}\n",
    );
    assert_eq!(included(&assembled), ["fine"]);
    let text = assembled.render(Format::Text).unwrap();
    assert!(!text.contains("do not show"));
    let codes = excluded(&assembled);
    for (path, code) in [
        ("out", Code::OutsideRoot),
        ("dir/secret", Code::OutsideRoot),
        ("up", Code::OutsideRoot),
        ("loop", Code::Unreadable),
        ("dir/**", Code::NoMatch),
    ] {
        assert!(
            codes.contains(&(path.to_owned(), code)),
            "{path}: {codes:?}"
        );
    }
}

#[test]
fn the_boot_header_is_first_and_names_what_there_is() {
    let project = Project::new(&[
        (".agent/constitution.md", "# Rules v1.2\n"),
        ("hot.yml", "keep: []\n"),
    ]);
    let assembled = project.assemble(
        "files: [{path: .agent/constitution.md, priority: 1.0, role: system, truncate_strategy: never}]",
    );
    let checksum = &contexture::core::ContentHash::of(b"# Rules v1.2\n").to_string()[..12];
    let text = assembled.render(Format::Text).unwrap();
    assert_eq!(
        text,
        format!(
            "Root: .agent/\n\
             Constitution: .agent/constitution.md (v1.2, checksum: {checksum})\n\
             Session: .agent/sessions/default/\n\
             Output sink: output.md (append-only)\n\
             Working set: working-set.yml\n\
             Cache hints: hot.yml\n\
             Tool contract: All calls require `why`\n\n\
             <system>\n# Rules v1.2\n</system>\n"
        )
    );
}

#[test]
fn a_manifest_in_the_agent_directory_is_relative_to_the_root() {
    let project = Project::new(&[("a.md", "hello")]);
    fs::create_dir(project.path().join(".agent")).unwrap();
    fs::write(
        project.path().join(".agent/working-set.yml"),
        "protocol: CONTEXT-ASSEMBLY/0.1\nbudget: {max_tokens: 900}\nfiles: [{path: a.md, priority: 0.5}]",
    )
    .unwrap();
    let root = Root::open(project.path()).unwrap();
    let assembled = Engine::for_root(&root)
        .unwrap()
        .assemble(&root, &Request::default())
        .unwrap();
    assert_eq!(included(&assembled), ["a.md"]);
}

#[test]
fn a_recipe_of_the_event_alone_needs_no_manifest() {
    let project = Project::new(&[(
        "ask.yml",
        "recipe: ask\nlayers: [{layer: event, source: event, share: 100}]\n",
    )]);
    let root = Root::open(project.path()).unwrap();
    let request = Request {
        recipe: Some(project.path().join("ask.yml").display().to_string()),
        event: Some("Why?".into()),
        model: Some("gpt-4o".to_owned()),
        ..Request::default()
    };
    let assembled = Engine::for_root(&root)
        .unwrap()
        .assemble(&root, &request)
        .unwrap();
    let text = assembled.render(Format::Text).unwrap();
    assert_eq!(text, "<user>\nWhy?\n</user>\n");
}
