//! Paths and kinds of files.

use super::*;

#[test]
fn a_path_out_of_the_root() {
    small().entries("../a.md 0.5").refuses(
        &["assemble"],
        2,
        "
        error: working-set.yml:5:11: files[0].path: `../a.md` holds `..`, which could lead out of the root
        hint: move the file below the root, or run with a root above it
        ",
    );
}

#[test]
fn a_path_that_goes_up_and_down_again_is_refused_too() {
    small().entries("docs/../a.md 0.5").refuses(
        &["assemble"],
        2,
        "
        error: working-set.yml:5:11: files[0].path: `docs/../a.md` holds `..`, which could lead out of the root
        hint: move the file below the root, or run with a root above it
        ",
    );
}

#[test]
fn an_absolute_path() {
    small().entries("/etc/passwd 0.5").refuses(
        &["assemble"],
        2,
        "
        error: working-set.yml:5:11: files[0].path: `/etc/passwd` is absolute; paths are relative to the root
        hint: move the file below the root, or run with a root above it
        ",
    );
}

#[test]
fn a_link_out_of_the_root() {
    let outside = Project::new().file("o.md", "from outside\n");
    let project = Project::new()
        .link("out.md", outside.path("o.md"))
        .entries("out.md 0.5");
    project
        .check_fates("out  out.md outside_root: `out.md` leads out of the root through a link\n");
    assert!(!project.ok(&["assemble"]).contains("from outside"));
}

#[test]
fn a_relative_link_out_of_the_root() {
    let above = Project::new()
        .file("o.md", "from outside\n")
        .file("root/a.md", "alpha\n");
    let project = Project::new();
    std::os::unix::fs::symlink("../o.md", above.path("root/out.md")).unwrap();
    above.write(
        "root/working-set.yml",
        project.entries("out.md 0.5").read("working-set.yml"),
    );
    let run = above.run(&["assemble", "root", "--report", "-"]);
    run.expect_code(0);
    assert!(!run.out.contains("from outside"));
    assert!(run.out.contains("code: outside_root"), "{}", run.out);
}

#[test]
fn a_linked_directory_out_of_the_root() {
    let outside = Project::new().file("o.md", "from outside\n");
    let project = Project::new()
        .link("docs", outside.path(""))
        .entries("docs/o.md 0.5\ndocs 0.5\ndocs/*.md 0.5\n**/*.md 0.5");
    project.check_fates(
        "
        out  docs/o.md outside_root: `docs/o.md` leads out of the root through a link
        out  docs outside_root: `docs` leads out of the root through a link
        out  docs/*.md no_match: the pattern matches no file
        out  **/*.md no_match: the pattern matches no file
        ",
    );
    assert!(!project.ok(&["assemble"]).contains("from outside"));
}

#[test]
fn a_link_that_stays_below_the_root_is_followed() {
    Project::new()
        .file("a.md", "alpha\n")
        .link("b.md", "a.md")
        .entries("b.md 0.5")
        .check_fates("keep b.md fits\n");
}

#[test]
fn a_pipe_does_not_block() {
    let project = Project::new().entries("pipe 0.9\n*.pipe 0.5");
    for name in ["pipe", "other.pipe"] {
        let made = Command::new("mkfifo")
            .arg(project.path(name))
            .status()
            .unwrap();
        assert!(made.success());
    }
    project.check_fates(
        "
        out  pipe not_a_file: is a pipe, a socket or a device, not a file
        out  other.pipe not_a_file: is a pipe, a socket or a device, not a file
        ",
    );
}

#[test]
fn a_device() {
    Project::new()
        .link("zero", "/dev/zero")
        .entries("zero 0.5")
        .check_fates("out  zero outside_root: `zero` leads out of the root through a link\n");
}

#[test]
fn a_socket() {
    let project = Project::new().entries("socket 0.5");
    let _listener = std::os::unix::net::UnixListener::bind(project.path("socket")).unwrap();
    project.check_fates("out  socket not_a_file: is a pipe, a socket or a device, not a file\n");
}

#[test]
fn links_that_go_in_circles() {
    Project::new()
        .file("d/a.md", "alpha\n")
        .link("self", "self")
        .link("d/up", "..")
        .entries("self 0.5\nd/up/d/up/d/a.md 0.5\nd/**/*.md 0.5")
        .check_fates(
            "
            keep d/up/d/up/d/a.md fits
            keep d/a.md fits
            out  self unreadable: cannot be read: Too many levels of symbolic links (os error 40)
            ",
        );
}

#[test]
fn a_directory_where_a_file_is_meant() {
    // A directory stands for its files; one with a line range can stand for none.
    let project = Project::new().file("d/a.md", "alpha\n").entries("d/ 0.5");
    project.check_fates("keep d/a.md fits\n");
    Project::new()
        .file("d/.keep", "")
        .entries("d 0.5")
        .check_fates("out  d no_match: the directory holds no file that is not ignored\n");
}

#[test]
fn a_file_where_a_directory_is_meant() {
    Project::new()
        .file("a.md", "alpha\n")
        .entries("a.md/b.md 0.5")
        .check_fates("out  a.md/b.md missing: there is no file `a.md/b.md`\n");
}

#[test]
fn a_file_of_five_gigabytes_is_not_read() {
    let project = Project::new().entries("big.md 0.9\n*.log 0.5");
    for name in ["big.md", "big.log"] {
        File::create(project.path(name))
            .unwrap()
            .set_len(5 << 30)
            .unwrap();
    }
    project.check_fates(
        "
        out  big.md size_limit: is 5368709120 bytes; the limit is 8388608 (limits.max_file_bytes)
        out  big.log size_limit: is 5368709120 bytes; the limit is 8388608 (limits.max_file_bytes)
        ",
    );
}

#[test]
fn binary_other_encodings_and_nothing_at_all() {
    Project::new()
        .file("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
        .file("utf16.txt", b"\xFF\xFEh\0i\0")
        .file("latin1.txt", b"caf\xE9\n")
        .file("half.txt", b"half a euro: \xE2\x82")
        .file("empty.md", "")
        .file("blank.md", "\n")
        .entries(
            "
            logo.png   0.5
            utf16.txt  0.5
            latin1.txt 0.5
            half.txt   0.5
            empty.md   0.5
            blank.md   0.5
            missing.md 0.5
            ",
        )
        .check_fates(
            "
            out  logo.png binary: is binary
            out  utf16.txt not_utf8: is UTF-16; convert it to UTF-8 to use it
            out  latin1.txt not_utf8: is not UTF-8 at byte 3; convert it to use it
            out  half.txt not_utf8: is not UTF-8 at byte 13; convert it to use it
            out  empty.md empty: is empty
            out  blank.md empty: is empty
            out  missing.md missing: there is no file `missing.md`
            ",
        );
}

#[test]
fn utf16_without_a_mark_is_binary() {
    Project::new()
        .file("utf16le.txt", b"h\0i\0\n\0")
        .entries("utf16le.txt 0.5")
        .check_fates("out  utf16le.txt binary: is binary\n");
}

#[test]
fn lines_behind_the_end_of_a_file() {
    // The final line end does not begin another line.
    Project::new()
        .file("a.md", "one\ntwo\n")
        .entries("a.md#L3-L4 0.5")
        .check_fates("out  a.md#L3-L4 no_such_lines: ends with line 2; there is no line 3\n");
}

#[test]
fn what_is_left_out_is_named_without_a_report() {
    let project = small().entries("a.md 0.5\ngone.md 0.5\nlost.md 0.4");
    let run = project.run(&["assemble"]);
    run.expect_code(0);
    // A number alone would send the user to the report for the names.
    assert!(run.err.contains("gone.md"), "{}", run.err);
    assert!(run.err.contains("lost.md"), "{}", run.err);
}

/// A project with a file that may not be cut and is larger than the window.
fn with_a_file_too_large() -> Project {
    small()
        .file("long.md", "a long story\n".repeat(500))
        .entries("long.md 0.9 truncate_strategy=never\na.md 0.5")
}

#[test]
fn a_file_that_may_not_be_cut_and_does_not_fit_is_named_in_a_warning() {
    let (_, report) = with_a_file_too_large().assemble(&[]);
    let warnings = warnings(&report);
    assert!(
        warnings.iter().any(|warning| warning.contains("long.md")),
        "{warnings:?}"
    );
}

#[test]
fn a_file_that_no_order_could_have_kept_is_too_large() {
    let (_, report) = with_a_file_too_large().assemble(&[]);
    assert_eq!(report["excluded"][0]["id"], "long.md");
    assert_eq!(report["excluded"][0]["code"], "too_large");
}

#[test]
fn a_file_that_is_replaced_or_deleted_meanwhile_is_whole_or_reported() {
    let old = "the old text\n".repeat(4_000);
    let new = "some newer text\n".repeat(5_000);
    let project = Project::new()
        .file("a.md", &old)
        .file("other.md", "other\n")
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 100000
            files:
              - path: a.md
                priority: 0.9
              - path: other.md
                priority: 0.5
            ",
        );
    let (path, next) = (project.path("a.md"), project.path("next"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for text in [&new, &old] {
                    fs::write(&next, text).unwrap();
                    fs::rename(&next, &path).unwrap();
                }
                fs::remove_file(&path).unwrap();
            }
        });
        for _ in 0..15 {
            let (prompt, report) = project.assemble(&[]);
            let fates = fates(&report);
            match fates.as_str() {
                "keep a.md fits\nkeep other.md fits\n" => {
                    let (_, behind) = prompt.split_once("<context path=\"a.md\">\n").unwrap();
                    let (body, _) = behind.split_once("</context>\n").unwrap();
                    assert!(body == old || body == new, "torn: {} bytes", body.len());
                }
                "keep other.md fits\nout  a.md missing: there is no file `a.md`\n" => {
                    assert!(!prompt.contains("a.md"));
                }
                other => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
