//! The files of a working set, and the use of hints, ranges and links.

use std::fs;
use std::path::Path;

use contexture::core::Code;
use contexture::working_set::Hints;
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
        self.try_assemble(manifest).unwrap()
    }

    fn try_assemble(&self, manifest: &str) -> Result<contexture::Assembled, contexture::Error> {
        let manifest = format!("protocol: CONTEXT-ASSEMBLY/0.1\n{manifest}");
        fs::write(self.path().join("working-set.yml"), manifest).unwrap();
        let root = Root::open(self.path()).unwrap();
        let request = Request {
            max_tokens: Some(20_000),
            ..Request::default()
        };
        Engine::for_root(&root).unwrap().assemble(&root, &request)
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
fn files_keep_their_order_in_a_session() {
    let project = Project::new(&[("a.md", "first"), ("b.md", "second")]);
    let manifest = |a: f64, b: f64| {
        format!("files: [{{path: a.md, priority: {a}}}, {{path: b.md, priority: {b}}}]")
    };
    let order = |session: Option<&str>, manifest: &str| {
        project.assemble(manifest);
        let root = Root::open(project.path()).unwrap();
        let request = Request {
            max_tokens: Some(20_000),
            session: session.map(str::to_owned),
            ..Request::default()
        };
        let engine = Engine::for_root(&root).unwrap();
        included(&engine.assemble(&root, &request).unwrap())
    };
    assert_eq!(order(None, &manifest(0.4, 0.8)), ["b.md", "a.md"]);
    assert_eq!(order(Some("s"), &manifest(0.4, 0.8)), ["a.md", "b.md"]);
    assert_eq!(order(Some("s"), &manifest(0.8, 0.4)), ["a.md", "b.md"]);
}

#[test]
fn a_large_file_that_was_not_read_has_an_estimate_and_a_binary_has_none() {
    let code = "let value = compute(first, second);\n".repeat(40_000);
    let picture = "x".repeat(4_000_000);
    let project = Project::new(&[("big.rs", &code), ("big.png", &picture)]);
    let assembled = project.assemble(
        "files: [{path: big.rs, priority: 0.5, truncate_strategy: never}, \
         {path: big.png, priority: 0.4, truncate_strategy: never}]",
    );
    let row = |id: &str| {
        let mut rows = assembled.report.excluded.iter();
        rows.find(|row| &*row.id == id).unwrap()
    };
    let tokens = row("big.rs").tokens;
    let counted = 40_000 * 8;
    assert!(tokens >= counted && tokens < counted * 2, "{tokens}");
    assert!(row("big.rs").reason.to_string().contains("about"));
    assert_eq!(
        (row("big.png").code, row("big.png").tokens),
        (Code::BINARY, 0)
    );
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
        [("**/*.rs".to_owned(), Code::DUPLICATE)]
    );
}

#[test]
fn a_line_range_shows_its_lines_and_stops_at_the_end() {
    let project = Project::new(&[("a.txt", "one\ntwo\nthree\nfour\n")]);
    let assembled = project.assemble(
        "files:\n- {path: 'a.txt#L2-L3', priority: 0.9}\n- {path: 'a.txt#L4-L99', priority: 0.8}\n\
         - {path: 'a.txt#L9', priority: 0.7}\n",
    );
    let text = assembled
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", assembled.layout.mark), "");
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
        [("a.txt#L9".to_owned(), Code::NO_SUCH_LINES)]
    );
    // Other line ends are not split.
    let project = Project::new(&[("a.txt", "one\r\ntwo\r\nthree\r\n")]);
    let assembled = project.assemble("files: [{path: 'a.txt#L1-L2', priority: 0.5}]");
    let text = assembled
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", assembled.layout.mark), "");
    assert!(text.contains(">\none\r\ntwo\r\n</context>"), "{text}");
}

/// Returns why files are left out, a line each.
fn reasons(assembled: &contexture::Assembled) -> String {
    let rows = assembled.report.excluded.iter();
    rows.map(|row| format!("{} {}: {}\n", row.id, row.code.as_str(), row.reason))
        .collect()
}

#[cfg(unix)]
#[test]
fn unusable_files_are_excluded_with_the_reason() {
    let project = Project::new(&[
        ("empty.md", ""),
        ("blank.md", "\n"),
        ("pages/[id].tsx", "export default Page\n"),
        ("d/a.md", "alpha\n"),
        ("bare/.keep", ""),
    ]);
    for (name, bytes) in [
        ("logo.png", &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..]),
        ("utf16.txt", b"\xFF\xFEh\0i\0"),
        ("utf16le.txt", b"h\0i\0\n\0"),
        ("latin1.txt", b"caf\xE9\n"),
        ("half.txt", b"half a euro: \xE2\x82"),
    ] {
        fs::write(project.path().join(name), bytes).unwrap();
    }
    let big = fs::File::create(project.path().join("big.md")).unwrap();
    big.set_len(5 << 30).unwrap();
    std::os::unix::fs::symlink("/dev/zero", project.path().join("zero")).unwrap();
    std::os::unix::fs::symlink("..", project.path().join("d/up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(project.path().join("socket")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(project.path().join("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    let names = "pages/[id].tsx d/up/d/a.md logo.png utf16.txt utf16le.txt latin1.txt half.txt \
                 empty.md blank.md missing.md d/a.md/b.md bare big.md zero socket pipe p*e";
    let mut manifest = "files:\n".to_owned();
    for name in names.split_whitespace() {
        manifest += &format!("- {{path: '{name}', priority: 0.5}}\n");
    }
    let assembled = project.assemble(&manifest);
    assert_eq!(included(&assembled), ["pages/[id].tsx", "d/up/d/a.md"]);
    // An entry that is not a valid pattern is a row, and the others are used.
    let none = project.assemble("files: [{path: '{a.md', priority: 0.5}]");
    assert_eq!(
        reasons(&none),
        "{a.md no_match: is not a file, and not a pattern: unclosed alternate group; missing '}' \
         (maybe escape '{' with '[{]'?)\n"
    );
    assert_eq!(
        reasons(&assembled),
        "logo.png binary: is binary\nutf16.txt not_utf8: is UTF-16; convert it to \
         UTF-8\nutf16le.txt binary: is binary\nlatin1.txt not_utf8: is not UTF-8 at byte 3; \
         convert it to UTF-8\nhalf.txt not_utf8: is not UTF-8 at byte 13; convert it to \
         UTF-8\nempty.md empty: is empty\nblank.md empty: is empty\nmissing.md missing: file \
         `missing.md` does not exist\nd/a.md/b.md missing: file `d/a.md/b.md` does not \
         exist\nbare no_match: the directory is empty or contains only ignored files\nbig.md size_limit: is \
         5368709120 bytes; the limit is 8388608 (limits.max_file_bytes)\nzero outside_root: \
         `zero` leaves the root through a symbolic link\nsocket not_a_file: is a pipe, a \
         socket or a device, not a file\npipe not_a_file: is a pipe, a socket or a device, not a \
         file\np*e duplicate: all its files are listed by other entries\n"
    );
}

#[test]
fn hints_move_priority_and_get_a_verdict() {
    let project = Project::new(&[
        ("a", "a"),
        ("b", "b"),
        ("c", "c"),
        ("p", "p"),
        (
            "hot.yml",
            "keep:\n- {path: a, why: the bug, touches: 9}\n- {path: gone, why: maybe}\n- {path: c}\n",
        ),
        (
            "cold.yml",
            "evict:\n- {path: b, why: old, suggested_action: remove}\n- {path: c}\n- {path: p}\n",
        ),
    ]);
    let assembled = project.assemble(
        "files: [{path: a, priority: 0.5}, {path: b, priority: 0.5}, {path: c, priority: 0.5},\n\
         {path: p, priority: 1.0, truncate_strategy: never}]",
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
            ("p".to_owned(), 1.0, Some(1.0)),
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
            ("p", "cold", "overridden"),
        ]
    );
    for (hot, message) in [
        (
            "keep:\n  - path: a\n    touches: many\n",
            "3:14: keep[0].touches: must be a number, not `many`",
        ),
        ("keep: a\n", "1:7: keep: must be a list, not `a`"),
        ("keep:\n  - why: x\n", "2:5: keep[0].path: is missing"),
        (
            "keep:\n  - path: ../a\n",
            "2:11: keep[0].path: `../a` contains `..`, which can leave the root; use a path \
             below the root",
        ),
        ("- a\n", "1:1: must be a mapping (`key: value`), not a list"),
        ("keep: [\n", "1:7: unclosed bracket '['"),
    ] {
        fs::write(project.path().join("hot.yml"), hot).unwrap();
        let root = Root::open(project.path()).unwrap();
        let error = Hints::read(&root, "").err().unwrap();
        assert_eq!(error.to_string(), format!("hot.yml:{message}"));
    }
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
    let text = assembled
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", assembled.layout.mark), "");
    assert!(!text.contains("do not show"));
    let codes = excluded(&assembled);
    for (path, code) in [
        ("out", Code::OUTSIDE_ROOT),
        ("dir/secret", Code::OUTSIDE_ROOT),
        ("up", Code::OUTSIDE_ROOT),
        ("loop", Code::UNREADABLE),
        ("dir/**", Code::NO_MATCH),
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
    let text = assembled
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", assembled.layout.mark), "");
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
        recipe: Some(project.path().join("ask.yml").display().to_string().into()),
        event: Some("Why?".into()),
        model: Some("gpt-4o".to_owned()),
        ..Request::default()
    };
    let assembled = Engine::for_root(&root)
        .unwrap()
        .assemble(&root, &request)
        .unwrap();
    let text = assembled
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", assembled.layout.mark), "");
    assert_eq!(text, "<user>\nWhy?\n</user>\n");
}
