//! Files that are not there, or do not stay.

use super::*;

#[test]
fn dropped_files_are_named_without_a_report() {
    let project = small().entries("a.md 0.5\ngone.md 0.5\nlost.md 0.4");
    let run = project.run(&["assemble"]);
    run.expect_code(0);
    // A number alone would send the user to the report for the names.
    assert!(run.err.contains("gone.md"), "{}", run.err);
    assert!(run.err.contains("lost.md"), "{}", run.err);
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
                "keep other.md fits\nout  a.md missing: file `a.md` does not exist\n" => {
                    assert!(!prompt.contains("a.md"));
                }
                other => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
