//! [`Survey`]: the files of a project, each with its kind.
//!
//! The walk respects `.gitignore` and skips hidden files, as patterns of a
//! manifest do. Kinds are recognised by names; contents are read only to tell
//! generated and binary files from source.

use std::collections::BTreeSet;

use contexture_core::{TokenCounter, Tokens};
use ignore::WalkBuilder;

use crate::files::Root;

/// The maximum number of files that are read. A larger tree is surveyed in
/// part.
const MAX_FILES: usize = 50_000;

/// The maximum bytes of source that are counted; the rest is estimated from its
/// size.
const MAX_COUNTED_BYTES: u64 = 16 * 1024 * 1024;

/// A larger file is data or generated, whatever its name.
pub(super) const HUGE_BYTES: u64 = 384 * 1024;

/// The kind of a file, as far as a proposal is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Source code.
    Source,
    /// Generated source code: used only if there is no other.
    Built,
    /// Tests.
    Test,
    /// Examples, benchmarks and scripts.
    Example,
    /// Documentation.
    Doc,
    /// Vendored, generated, minified, binary or huge.
    Skipped(Skip),
    /// Anything else.
    Other,
}

/// The reason why a file with the name of source code is not proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Skip {
    /// In a directory of third-party code.
    Vendored,
    /// Written by a program.
    Generated,
    /// Larger than [`HUGE_BYTES`].
    Huge,
    /// Binary, or not UTF-8.
    NotText,
    /// A copy of other code, built for another module format.
    Copy,
}

impl Skip {
    pub(super) fn name(self) -> &'static str {
        match self {
            Skip::Vendored => "vendored",
            Skip::Generated => "generated",
            Skip::Huge => "very large",
            Skip::NotText => "not UTF-8 text",
            Skip::Copy => "built copies",
        }
    }
}

/// A file of the project.
#[derive(Debug, Clone)]
pub(super) struct SurveyFile {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) kind: Kind,
    /// The tokens of its content; an estimate where it was not read.
    pub(super) tokens: Tokens,
}

impl SurveyFile {
    pub(super) fn name(&self) -> &str {
        name_of(&self.path)
    }

    pub(super) fn depth(&self) -> usize {
        self.path.matches('/').count()
    }
}

/// The files of a project, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) files: Vec<SurveyFile>,
    // The directories that a build tool writes.
    outputs: BTreeSet<String>,
}

impl Survey {
    /// Walks the tree below `root`.
    pub(super) fn of(root: &Root, counter: &dyn TokenCounter) -> Self {
        let mut files = Vec::new();
        let walker = WalkBuilder::new(root.path())
            .hidden(true)
            .require_git(false)
            .parents(false)
            .git_global(false)
            .follow_links(false)
            .filter_entry(|entry| {
                let name = entry.file_name().to_str().unwrap_or_default();
                !NEVER_ENTERED.contains(&name)
            })
            .build();
        for entry in walker.flatten().take(MAX_FILES) {
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let relative = entry.path().strip_prefix(root.path()).ok();
            let Some(path) = relative.and_then(|path| path.to_str()) else {
                continue;
            };
            let bytes = entry.metadata().map_or(0, |meta| meta.len());
            files.push(SurveyFile {
                kind: Kind::Other,
                path: path.replace('\\', "/"),
                bytes,
                tokens: 0,
            });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let outputs = outputs(&files);
        for file in &mut files {
            file.kind = kind_of(&file.path, file.bytes, &outputs);
        }
        let mut survey = Self { files, outputs };
        survey.settle_built();
        survey.read(root, counter);
        survey
    }

    /// Marks generated code as source if there is no other source.
    fn settle_built(&mut self) {
        let has_source = self.files.iter().any(|file| file.kind == Kind::Source);
        let is_first = |file: &SurveyFile| copy_dir(&file.path).is_none();
        let mut built = self.files.iter().filter(|file| file.kind == Kind::Built);
        let has_first = built.any(is_first);
        for file in &mut self.files {
            if file.kind == Kind::Built {
                file.kind = match has_source {
                    true => Kind::Skipped(Skip::Generated),
                    false if has_first && !is_first(file) => Kind::Skipped(Skip::Copy),
                    false => Kind::Source,
                };
            }
        }
    }

    /// Reads the files that could be proposed, counts their tokens, and finds
    /// generated and binary files.
    fn read(&mut self, root: &Root, counter: &dyn TokenCounter) {
        let mut left = MAX_COUNTED_BYTES;
        for file in &mut self.files {
            let is_code = matches!(file.kind, Kind::Source | Kind::Test | Kind::Example);
            if !is_code && file.kind != Kind::Doc && file.depth() > 0 {
                continue;
            }
            file.tokens = file.bytes.div_ceil(4);
            if file.bytes > left || file.bytes > HUGE_BYTES {
                continue;
            }
            match root.read_text(&file.path, HUGE_BYTES) {
                Ok(text) if is_code && is_generated(&text) => {
                    file.kind = Kind::Skipped(Skip::Generated);
                }
                Ok(text) => {
                    left -= file.bytes;
                    file.tokens = counter.count(&text);
                }
                Err(_) => file.kind = Kind::Skipped(Skip::NotText),
            }
        }
    }

    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &SurveyFile> {
        self.files.iter().filter(move |file| file.kind == kind)
    }

    /// Returns the directory of build output that contains the file.
    pub(super) fn output_dir<'p>(&self, path: &'p str) -> Option<&'p str> {
        output_dir(path, &self.outputs)
    }

    /// Returns the file at the root that has this name, in any letter case.
    pub(super) fn at_root(&self, name: &str) -> Option<&SurveyFile> {
        let mut files = self.files.iter();
        files.find(|file| file.depth() == 0 && file.path.eq_ignore_ascii_case(name))
    }
}

/// Directories whose content is never looked at: huge, and never source.
const NEVER_ENTERED: &[&str] = &[
    ".git",
    ".contexture",
    "node_modules",
    "__pycache__",
    "site-packages",
];

const VENDORED: &[&str] = &[
    "vendor",
    "vendored",
    "third_party",
    "third-party",
    "thirdparty",
    "bower_components",
    "jspm_packages",
    "venv",
    "Pods",
    "Carthage",
];

/// Directories that build tools write, and the files next to them that show
/// that the tool is in use. Directories of source code can have the same names.
const OUTPUTS: &[(&str, &[&str])] = &[
    ("target", &["Cargo.toml", "pom.xml", "build.sbt"]),
    ("coverage", &["package.json"]),
    (
        "dist",
        &["package.json", "pyproject.toml", "setup.py", "deno.json"],
    ),
    (
        "build",
        &[
            "package.json",
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "CMakeLists.txt",
            "meson.build",
            "pyproject.toml",
            "setup.py",
            "pubspec.yaml",
        ],
    ),
    ("out", &["package.json", "tsconfig.json", "build.xml"]),
    ("_build", &["mix.exs", "dune-project", "conf.py"]),
];

/// Outputs that are never the code of a package, not even if it has no other.
const NEVER_SOURCE: &[&str] = &["target", "coverage"];

/// The ends of names of files that only build tools write.
const OUTPUT_ENDINGS: &[&str] = &[
    "o", "obj", "class", "d", "rlib", "rmeta", "pyc", "jar", "dll", "exe", "map", "beam",
];

const OUTPUT_NAMES: &[&str] = &["CACHEDIR.TAG", "lcov.info"];

const TESTS: &[&str] = &[
    "test",
    "tests",
    "__tests__",
    "spec",
    "specs",
    "testing",
    "testdata",
    "test-data",
    "test_data",
    "fixtures",
    "__snapshots__",
    "__mocks__",
    "e2e",
    "test_helpers",
    "test-helpers",
    "test_utils",
    "test-utils",
    "testutil",
    "testutils",
];

const EXAMPLES: &[&str] = &[
    "example",
    "examples",
    "demo",
    "demos",
    "samples",
    "bench",
    "benches",
    "benchmark",
    "benchmarks",
    "scripts",
    "fuzz",
];

const DOCS: &[&str] = &["doc", "docs", "documentation", "guide", "guides"];

const DOC_ENDINGS: &[&str] = &["md", "mdx", "rst", "adoc"];

/// Languages, and how the names of their files end.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("Rust", &["rs"]),
    ("Python", &["py", "pyi"]),
    ("JavaScript", &["js", "mjs", "cjs", "jsx"]),
    ("TypeScript", &["ts", "tsx", "mts", "cts"]),
    ("Go", &["go"]),
    ("Java", &["java"]),
    ("Kotlin", &["kt", "kts"]),
    ("Scala", &["scala", "sc"]),
    ("C/C++", &["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx"]),
    ("C#", &["cs"]),
    ("F#", &["fs", "fsi"]),
    ("Ruby", &["rb"]),
    ("PHP", &["php"]),
    ("Swift", &["swift"]),
    ("Objective-C", &["m", "mm"]),
    ("Dart", &["dart"]),
    ("Elixir", &["ex", "exs"]),
    ("Erlang", &["erl", "hrl"]),
    ("Haskell", &["hs"]),
    ("OCaml", &["ml", "mli"]),
    ("Clojure", &["clj", "cljs", "cljc"]),
    ("Lua", &["lua"]),
    ("Perl", &["pl", "pm"]),
    ("R", &["r", "R"]),
    ("Julia", &["jl"]),
    ("Zig", &["zig"]),
    ("Nim", &["nim"]),
    ("Shell", &["sh", "bash"]),
    ("SQL", &["sql"]),
    ("Protocol Buffers", &["proto"]),
    ("GraphQL", &["graphql", "gql"]),
    ("Vue", &["vue"]),
    ("Svelte", &["svelte"]),
    ("Terraform", &["tf"]),
    ("Solidity", &["sol"]),
    ("Nix", &["nix"]),
    ("CSS", &["css", "scss"]),
    ("HTML", &["html"]),
];

/// Returns the language of a file by the end of its name.
pub(super) fn language_of(path: &str) -> Option<&'static str> {
    let ending = ending_of(path)?;
    let mut languages = LANGUAGES.iter();
    let found = languages.find(|(_, endings)| endings.contains(&ending));
    found.map(|(name, _)| *name)
}

/// Returns the end of a file's name, after its last dot.
pub(super) fn ending_of(path: &str) -> Option<&str> {
    let (stem, ending) = name_of(path).rsplit_once('.')?;
    (!stem.is_empty()).then_some(ending)
}

pub(super) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the name of the directory, among those above the file, that makes it
/// a test or an example.
pub(super) fn marking_dir(path: &str, kind: Kind) -> Option<&str> {
    let names = match kind {
        Kind::Test => TESTS,
        Kind::Example => EXAMPLES,
        Kind::Doc => DOCS,
        _ => return None,
    };
    let (dirs, _) = path.rsplit_once('/')?;
    dirs.split('/').find(|part| names.contains(part))
}

/// Returns the directory of third-party code that contains the file. Returns
/// `None` if there is none.
pub(super) fn vendored_dir(path: &str) -> Option<&str> {
    dir_named(path, VENDORED)
}

/// Returns the directories that build tools write: those with the name of one,
/// next to a file of the tool, or with files that only tools write.
fn outputs(files: &[SurveyFile]) -> BTreeSet<String> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut found = BTreeSet::new();
    for path in &paths {
        let is_written = OUTPUT_NAMES.contains(&name_of(path))
            || ending_of(path).is_some_and(|ending| OUTPUT_ENDINGS.contains(&ending));
        for (end, _) in path.match_indices('/') {
            let (dir, name) = (&path[..end], name_of(&path[..end]));
            let tool = OUTPUTS.iter().find(|(known, _)| *known == name);
            let Some((_, manifests)) = tool else {
                continue;
            };
            let above = &dir[..dir.len() - name.len()];
            let is_next = |file: &&str| paths.contains(format!("{above}{file}").as_str());
            if is_written || !found.contains(dir) && manifests.iter().any(is_next) {
                found.insert(dir.to_owned());
            }
        }
    }
    found
}

/// Returns the first directory above the file that is in `outputs`.
fn output_dir<'p>(path: &'p str, outputs: &BTreeSet<String>) -> Option<&'p str> {
    let mut dirs = path.match_indices('/').map(|(end, _)| &path[..end]);
    dirs.find(|dir| outputs.contains(*dir))
}

/// Returns the directory of built copies that contains the file.
pub(super) fn copy_dir(path: &str) -> Option<&str> {
    dir_named(path, &["cjs", "umd", "commonjs"])
}

/// Returns the first directory above the file that has one of `names`.
fn dir_named<'p>(path: &'p str, names: &[&str]) -> Option<&'p str> {
    let mut end = 0;
    for part in path.split('/') {
        let start = end;
        end += part.len();
        if names.contains(&&path[start..end]) && end < path.len() {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

/// Patterns for the names of tests, and the languages they belong to.
pub(super) const TEST_NAMES: &[(&str, &[&str])] = &[
    ("*_test.go", &["Go"]),
    ("test_*.py", &["Python"]),
    ("*_test.py", &["Python"]),
    ("conftest.py", &["Python"]),
    ("tests.rs", &["Rust"]),
    ("test.rs", &["Rust"]),
    ("*_test.rs", &["Rust"]),
    ("*_tests.rs", &["Rust"]),
    ("*.test.*", &["JavaScript", "TypeScript"]),
    ("*.spec.*", &["JavaScript", "TypeScript"]),
    ("*Test.java", &["Java"]),
    ("*Tests.java", &["Java"]),
    ("*Test.kt", &["Kotlin"]),
    ("*Tests.cs", &["C#"]),
    ("*_spec.rb", &["Ruby"]),
    ("*_test.rb", &["Ruby"]),
    ("*Test.php", &["PHP"]),
    ("*Tests.swift", &["Swift"]),
    ("*_test.dart", &["Dart"]),
    ("*_test.exs", &["Elixir"]),
];

/// Returns the pattern that makes the file's name that of a test.
pub(super) fn test_name(path: &str) -> Option<&'static str> {
    let (name, language) = (name_of(path), language_of(path)?);
    let mut known = TEST_NAMES.iter();
    let found = known
        .find(|(pattern, languages)| languages.contains(&language) && matches_name(pattern, name));
    found.map(|(pattern, _)| *pattern)
}

/// Matches a name with a pattern whose only special character is `*`.
fn matches_name(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            match rest.find(before) {
                Some(at) => rest = &rest[at + before.len()..],
                None => return false,
            }
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

/// Patterns for the names of files that a program wrote.
pub(super) const GENERATED_NAMES: &[&str] = &[
    "*.min.js",
    "*.min.css",
    "*.bundle.js",
    "*.pb.go",
    "*_pb2.py",
    "*_pb2_grpc.py",
    "*.pb.h",
    "*.pb.cc",
    "*.g.dart",
    "*.freezed.dart",
    "*.designer.cs",
    "*.generated.*",
    "*.gen.go",
];

/// Returns the pattern that makes the file's name that of a generated file.
pub(super) fn generated_name(path: &str) -> Option<&'static str> {
    let mut known = GENERATED_NAMES.iter().copied();
    known.find(|pattern| matches_name(pattern, name_of(path)))
}

fn kind_of(path: &str, bytes: u64, outputs: &BTreeSet<String>) -> Kind {
    let parts: BTreeSet<&str> = match path.rsplit_once('/') {
        Some((dirs, _)) => dirs.split('/').collect(),
        None => BTreeSet::new(),
    };
    let within = |names: &[&str]| names.iter().any(|name| parts.contains(name));
    let ending = ending_of(path).unwrap_or_default();
    let output = output_dir(path, outputs);
    if language_of(path).is_none() {
        let is_doc = DOC_ENDINGS.contains(&ending) && within(DOCS) && !within(TESTS);
        let is_own = vendored_dir(path).is_none() && output.is_none();
        return match is_doc && is_own && bytes > 0 {
            true => Kind::Doc,
            false => Kind::Other,
        };
    }
    if vendored_dir(path).is_some() {
        Kind::Skipped(Skip::Vendored)
    } else if generated_name(path).is_some()
        || output.is_some_and(|dir| NEVER_SOURCE.contains(&name_of(dir)))
    {
        Kind::Skipped(Skip::Generated)
    } else if bytes > HUGE_BYTES {
        Kind::Skipped(Skip::Huge)
    } else if output.is_some() {
        Kind::Built
    } else if within(TESTS) || test_name(path).is_some() {
        Kind::Test
    } else if within(EXAMPLES) {
        Kind::Example
    } else if within(DOCS) {
        // Pages of documentation that happen to be HTML or CSS.
        Kind::Other
    } else {
        Kind::Source
    }
}

/// Returns true if the first lines show that a program wrote the file, or if
/// its lines are too long for a person.
fn is_generated(text: &str) -> bool {
    let says = |line: &str| {
        let line = line.trim_start_matches(['/', '*', '#', '-', ';', '<', '!', ' ', '\t']);
        line.starts_with("@generated")
            || line.starts_with("Code generated ") && line.contains("DO NOT EDIT")
            || line.starts_with("This file is automatically generated")
            || line.starts_with("This file is generated")
            || line.starts_with("This file was automatically generated")
            || line.starts_with("DO NOT EDIT THIS FILE")
            || line.starts_with("AUTO-GENERATED")
            || line.starts_with("AUTOGENERATED")
    };
    let lines = text.lines().count().max(1);
    text.lines().take(12).any(says) || text.len() > 4_096 && text.len() / lines > 400
}

/// Returns the languages of the source files, the one with the most tokens
/// first, and the tokens of each.
pub(super) fn languages(survey: &Survey) -> Vec<(&'static str, Tokens)> {
    let mut sums: Vec<(&'static str, Tokens)> = Vec::new();
    for file in survey.of_kind(Kind::Source) {
        let Some(language) = language_of(&file.path) else {
            continue;
        };
        match sums.iter_mut().find(|(name, _)| *name == language) {
            Some((_, tokens)) => *tokens += file.tokens,
            None => sums.push((language, file.tokens)),
        }
    }
    sums.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_recognised_by_names() {
        for (path, kind) in [
            ("src/lib.rs", Kind::Source),
            ("crates/core/search.rs", Kind::Source),
            ("tests/api.rs", Kind::Test),
            ("src/tests/api.rs", Kind::Test),
            ("src/fit/tests.rs", Kind::Test),
            ("pkg/http_test.go", Kind::Test),
            ("test_ledger.py", Kind::Test),
            ("src/latest.py", Kind::Source),
            ("src/button.test.tsx", Kind::Test),
            ("src/main/java/PoolTest.java", Kind::Test),
            ("src/main/java/Pool.java", Kind::Source),
            ("examples/hello.py", Kind::Example),
            ("benches/fit.rs", Kind::Example),
            ("docs/index.md", Kind::Doc),
            ("docs/theme/site.css", Kind::Other),
            ("README.md", Kind::Other),
            ("package-lock.json", Kind::Other),
            ("logo.png", Kind::Other),
            (".eslintrc.js", Kind::Source),
            ("dist/index.js", Kind::Built),
            ("vendor/github.com/x/y.go", Kind::Skipped(Skip::Vendored)),
            ("web/app.min.js", Kind::Skipped(Skip::Generated)),
            ("api/user.pb.go", Kind::Skipped(Skip::Generated)),
        ] {
            let outputs = BTreeSet::from(["dist".to_owned()]);
            assert_eq!(kind_of(path, 100, &outputs), kind, "{path}");
        }
        let huge = Kind::Skipped(Skip::Huge);
        assert_eq!(
            kind_of("src/table.rs", HUGE_BYTES + 1, &BTreeSet::new()),
            huge
        );
    }

    #[test]
    fn output_of_a_build_is_told_from_source_of_the_same_name() {
        let found = |paths: &[&str]| -> Vec<String> {
            let file = |path: &&str| SurveyFile {
                path: (*path).to_owned(),
                bytes: 100,
                kind: Kind::Other,
                tokens: 0,
            };
            let files: Vec<SurveyFile> = paths.iter().map(file).collect();
            outputs(&files).into_iter().collect()
        };
        // Source: the tool of the name is not in use there.
        for paths in [
            &["Cargo.toml", "src/target/apple.rs"][..],
            &["Cargo.toml", "src/build/imp.rs"],
            &["Cargo.toml", "build/build.rs", "src/lib.rs"],
            &["go.mod", "internal/out/out.go", "dist/dist.go"],
        ] {
            assert_eq!(found(paths), [""; 0], "{paths:?}");
        }
        // Output: next to a file of the tool, or with files that tools write.
        for (paths, expected) in [
            (&["a/Cargo.toml", "a/target/debug/x.rs"][..], "a/target"),
            (&["package.json", "dist/index.js"], "dist"),
            (&["build.gradle.kts", "build/A.java"], "build"),
            (&["src/A.java", "out/A.class", "out/A.java"], "out"),
            (
                &["src/target/CACHEDIR.TAG", "src/target/x.rs"],
                "src/target",
            ),
            (&["lib/build/a.js", "lib/build/a.js.map"], "lib/build"),
        ] {
            assert_eq!(found(paths), [expected], "{paths:?}");
        }
    }

    #[test]
    fn generated_files_are_recognised_by_their_first_lines() {
        for (text, expected) in [
            (
                "// Code generated by protoc-gen-go. DO NOT EDIT.\npackage a\n",
                true,
            ),
            ("# @generated by a tool\n", true),
            ("/**\n * This file is automatically generated.\n */\n", true),
            (
                "// Detects `@generated` in other files.\nfn main() {}\n",
                false,
            ),
            ("fn main() {}\n", false),
        ] {
            assert_eq!(is_generated(text), expected, "{text}");
        }
        assert!(is_generated(&"var a=1;".repeat(1_000)));
    }

    #[test]
    fn a_name_matches_a_pattern_with_stars() {
        for (pattern, name, expected) in [
            ("*.test.*", "a.test.ts", true),
            ("*.test.*", "test.ts", false),
            ("*_test.go", "http_test.go", true),
            ("*_test.go", "http_test.go.txt", false),
            ("conftest.py", "conftest.py", true),
            ("conftest.py", "myconftest.py", false),
        ] {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} {name}");
        }
    }
}
