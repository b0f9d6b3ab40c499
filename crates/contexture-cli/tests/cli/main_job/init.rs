//! `init`.

use std::collections::BTreeMap;

use super::*;

/// A project in Python, with files that a proposal should leave out.
fn python() -> Project {
    let many = "def f(x):\n    return x + 1\n\n".repeat(40);
    Project::new()
        .file(
            "README.md",
            "# Tally\nAdds up the account book of a club.\n",
        )
        .file("AGENTS.md", "Run the tests with pytest.\n")
        .file("CLAUDE.md", "@AGENTS.md\n")
        .file("pyproject.toml", "[project]\nname = \"tally\"\n")
        .file("poetry.lock", "[[package]]\n")
        .file(".gitignore", "ignored/\n")
        .file("ignored/secret.py", "x = 1\n")
        .file("node_modules/left/index.js", "x\n")
        .file("tally/__init__.py", "")
        .file("tally/main.py", &many)
        .file("tally/ledger.py", &many)
        .file("tally/api_pb2.py", &many)
        .file("tally/vendor/six.py", &many)
        .file("tally/test_main.py", &many)
        .file("tests/test_ledger.py", &many)
        .file("docs/index.md", "# Guide\n")
        .file("logo.png", b"\x89PNG\0\0")
}

#[test]
fn init_writes_a_project_that_assembles() {
    let project = Project::new();
    let run = project.run(&["init", "mine"]);
    run.expect_code(0);
    assert_eq!(
        run.out,
        dedent(
            "
            proposed working set: 1 entry, 1 file, 69 tokens (o200k_base)
              priority    tokens  files  entry
                     1        69      1  .agent/constitution.md
            budget: 28,000 tokens, 4,000 of them reserved for the answer: everything fits
            no source files were found; add files with `contexture working-set add`
            wrote .agent/constitution.md
            wrote .agent/working-set.yml
            wrote .agent/hot.yml
            wrote .agent/cold.yml
            wrote contexture.toml
            "
        )
    );
    run.says("next: contexture assemble mine --explain > prompt.txt");
    let prompt = project.ok(&["assemble", "mine"]);
    assert!(
        prompt.starts_with("Root: .agent/\nConstitution: .agent/constitution.md (v0.1, checksum: ")
    );
    assert!(prompt.contains("\n<system>\n# Constitution v0.1\n"));
    project.ok(&["doctor", "mine"]);
}

#[test]
fn init_proposes_what_it_finds() {
    let project = python();
    let run = project.run("init");
    run.expect_code(0);
    assert!(
        run.out
            .starts_with("proposed working set (Python): 9 entries, "),
        "{}",
        run.out
    );
    run.says("next: contexture assemble --explain > prompt.txt");
    let list = parsed(&project.ok("working-set list --json"));
    let files: Vec<String> = (list["files"].as_array().unwrap().iter())
        .map(|file| {
            let (path, entry) = (text(&file["path"]), text(&file["entry"]));
            format!(
                "{} {} {path} from {entry}",
                file["priority"],
                text(&file["role"])
            )
        })
        .collect();
    assert_eq!(
        files,
        [
            "1.0 system .agent/constitution.md from .agent/constitution.md",
            "0.9 developer AGENTS.md from AGENTS.md",
            "0.8 context README.md from README.md",
            "0.7 context pyproject.toml from pyproject.toml",
            "0.6 context tally/main.py from tally/main.py",
            "0.2 context tests/test_ledger.py from tests/**/*.py",
            "0.2 context tally/test_main.py from **/test_*.py",
            "0.2 context docs/index.md from docs/**/*.md",
            "0.4 context tally/__init__.py from tally/**/*.py",
            "0.4 context tally/ledger.py from tally/**/*.py",
        ]
    );
    let manifest = project.read(".agent/working-set.yml");
    for line in [
        "  - \"*_pb2.py\"  # generated",
        "  - \"tally/vendor/\"  # vendored",
    ] {
        assert!(
            manifest.lines().any(|found| found == line),
            "{line}\n{manifest}"
        );
    }
}

#[test]
fn files_written_by_init_cause_no_warning() {
    let big = "fn f(x: u32) -> u32 { x + 1 }\n".repeat(3_000);
    let large = (0..12).fold(python(), |project, i| {
        project.file(&format!("tally/part{i}/mod.rs"), &big)
    });
    for project in [Project::new(), python(), large] {
        project.ok("init");
        for call in ["assemble --explain", "working-set list", "assemble"] {
            let run = project.run(call);
            run.expect_code(0);
            assert!(!run.err.contains("warning"), "{}", run.err);
            assert!(!run.err.contains("guideline"), "{}", run.err);
        }
        let doctor = project.ok("doctor");
        assert!(doctor.ends_with(": 0 problems, 0 notes\n"), "{doctor}");
    }
}

#[test]
fn init_does_not_change_existing_files() {
    let project = Project::new().file(".agent/constitution.md", "mine\n");
    let out = project.ok(&["init"]);
    assert!(
        out.contains("kept  .agent/constitution.md (already exists)\n"),
        "{out}"
    );
    assert_eq!(project.read(".agent/constitution.md"), "mine\n");
    let once = project.snapshot();
    let run = project.run(&["init"]);
    run.expect_code(0);
    run.says(".agent/working-set.yml was not changed; replace it with a new proposal with --force");
    assert_eq!(project.snapshot(), once);
}

#[test]
fn force_replaces_the_manifest_and_nothing_else() {
    let own = "protocol: CONTEXT-ASSEMBLY/0.1\nfiles: []\n";
    let project = python()
        .file("working-set.yml", own)
        .file(".agent/constitution.md", "mine\n");
    project.ok("init");
    assert_eq!(project.read("working-set.yml"), own);
    let out = project.ok("init --force");
    assert!(out.contains("\nreplaced working-set.yml\n"), "{out}");
    assert!(project.read("working-set.yml").contains("tally/main.py"));
    assert_eq!(project.read(".agent/constitution.md"), "mine\n");
    assert!(!project.path(".agent/working-set.yml").exists());
}

/// The priorities of the entries that `init` proposes, by their path.
fn proposed(project: &Project) -> BTreeMap<String, f64> {
    project.ok("init");
    let manifest = project.read(".agent/working-set.yml");
    let mut found = BTreeMap::new();
    let mut path = String::new();
    for line in manifest.lines() {
        if let Some(rest) = line.strip_prefix("  - path: \"") {
            path = rest.split('"').next().unwrap().to_owned();
        }
        if let Some(priority) = line.strip_prefix("    priority: ") {
            found.insert(path.clone(), priority.parse().unwrap());
        }
    }
    found
}

#[test]
fn init_prefers_the_language_of_the_build_file() {
    let many = "fn f(x: u32) -> u32 { x + 1 }\n".repeat(600);
    let mut project = Project::new()
        .file("Cargo.toml", "[package]\nname = \"a\"\n")
        .file("src/lib.rs", &many)
        .file("bindings/python/glue.rs", &many);
    for i in 0..12 {
        project = project
            .file(&format!("crypto/c{i}.c"), &many)
            .file(&format!("src/m{i}.rs"), &many)
            .file(&format!("src/deep/d{i}.rs"), &many);
    }
    let found = proposed(&project);
    let priority = |path: &str| {
        found
            .get(path)
            .copied()
            .unwrap_or_else(|| panic!("{found:?}"))
    };
    let (top, deep) = (priority("src/*.rs"), priority("src/deep/*.rs"));
    let (other, bound) = (priority("crypto/*.c"), priority("bindings/python/*.rs"));
    assert!(top > deep && deep > other && other > bound, "{found:?}");
}

#[test]
fn init_proposes_an_overview_of_each_package() {
    let many = "export function f(x) {\n  return x + 1;\n}\n".repeat(300);
    let mut project = Project::new()
        .file("package.json", "{\"workspaces\": [\"packages/*\"]}\n")
        .file("README.md", "# All\n");
    for name in ["alpha", "beta", "gamma", "delta"] {
        project = project
            .file(&format!("packages/{name}/package.json"), "{}\n")
            .file(&format!("packages/{name}/README.md"), "# A package\n")
            .file(&format!("packages/{name}/src/index.ts"), &many)
            .file(&format!("packages/{name}/src/other.ts"), &many)
            .file(&format!("packages/{name}/dist/index.ts"), &many);
    }
    let found = proposed(&project);
    for (path, priority) in [
        ("packages/*/README.md", 0.66),
        ("packages/*/package.json", 0.64),
        ("packages/alpha/src/index.ts", 0.6),
        ("packages/gamma/src/index.ts", 0.6),
    ] {
        assert_eq!(found.get(path), Some(&priority), "{path}: {found:?}");
    }
    let manifest = project.read(".agent/working-set.yml");
    assert!(
        manifest.contains("\"packages/alpha/dist/\"  # generated"),
        "{manifest}"
    );
}

#[test]
fn init_keeps_source_in_directories_that_are_named_like_output() {
    let project = Project::new()
        .file("Cargo.toml", "[package]\nname = \"a\"\n")
        .file("src/lib.rs", "pub mod target;\n")
        .file("src/target/apple.rs", "pub fn apple() {}\n")
        .file("build/build.rs", "fn main() {}\n")
        .file("target/debug/out.rs", "fn generated() {}\n");
    project.ok("init");
    let list = project.ok("working-set list");
    for path in ["src/target/apple.rs", "build/build.rs"] {
        assert!(list.contains(path), "{path}: {list}");
    }
    assert!(!list.contains("target/debug"), "{list}");
}
