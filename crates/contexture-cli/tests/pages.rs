//! Pages that state facts about the code are compared with the code:
//! `docs/errors.md`, `docs/stability.md`, `docs/upgrade.md`, and the list of
//! pages in the README.
//!
//! Codes are found in the source text, because they are written where they are
//! used. A code that is neither a literal nor one of the forms below is not
//! found, and then the page has a code too many, which fails too.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const REPO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The maximum number of lines of the README.
const LONGEST_README: usize = 150;

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(REPO).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Adds the Rust files below a directory.
fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the code of every crate, without comments and unit tests.
fn code() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new(REPO).join("crates")).unwrap() {
        rust_files(&entry.unwrap().path().join("src"), &mut files);
    }
    files.sort();
    let shown = files.into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let text = lines.collect::<Vec<_>>().join("\n");
        (path.display().to_string(), text)
    });
    shown.collect()
}

/// Returns the text after each occurrence of `marker`, without space at its start.
fn after<'t>(text: &'t str, marker: &str) -> Vec<&'t str> {
    let found = text.match_indices(marker);
    let found = found.map(|(at, _)| text[at + marker.len()..].trim_start());
    found.collect()
}

/// Returns the string that `text` begins with, if it begins with one.
fn literal(text: &str) -> Option<&str> {
    let text = text.strip_prefix('"')?;
    text.split('"').next().filter(|word| !word.is_empty())
}

/// Returns the words in the first column of the tables between two headings.
fn listed(page: &str, heading: &str) -> Vec<(String, String)> {
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|row| row.split_once('`'));
    let rows: Vec<(String, String)> = rows
        .map(|(code, rest)| (code.to_owned(), rest.to_owned()))
        .collect();
    assert!(!rows.is_empty(), "{heading} lists nothing");
    rows
}

fn names(rows: &[(String, String)]) -> BTreeSet<String> {
    let names: BTreeSet<String> = rows.iter().map(|(code, _)| code.clone()).collect();
    assert_eq!(names.len(), rows.len(), "a code is listed twice: {rows:?}");
    names
}

#[test]
fn the_error_catalogue_lists_every_warning() {
    let mut used = BTreeSet::new();
    for (_, text) in code() {
        let codes = after(&text, "Warning::new(");
        used.extend(codes.into_iter().filter_map(literal).map(str::to_owned));
    }
    assert_eq!(names(&listed(&read("docs/errors.md"), "Warnings")), used);
}

#[test]
fn the_error_catalogue_lists_every_code_of_a_report() {
    let mut used = BTreeSet::new();
    for (path, text) in code() {
        let mut markers = vec!["Code::new(", "Code::by_rule("];
        if path.ends_with("contexture-core/src/code.rs") {
            markers.extend(["Self::new(", "Self::by_rule("]);
        }
        for marker in markers {
            let codes = after(&text, marker);
            used.extend(codes.into_iter().filter_map(literal).map(str::to_owned));
        }
    }
    let page = read("docs/errors.md");
    assert_eq!(names(&listed(&page, "Report codes")), used);
}

/// Returns the number of a status that the code names.
fn status(name: &str) -> Option<u16> {
    let name = name.rsplit_once("StatusCode::")?.1;
    Some(match name {
        "BAD_REQUEST" => 400,
        "UNAUTHORIZED" => 401,
        "FORBIDDEN" => 403,
        "NOT_FOUND" => 404,
        "METHOD_NOT_ALLOWED" => 405,
        "REQUEST_TIMEOUT" => 408,
        "CONFLICT" => 409,
        "PAYLOAD_TOO_LARGE" => 413,
        "UNSUPPORTED_MEDIA_TYPE" => 415,
        "UNPROCESSABLE_ENTITY" => 422,
        "TOO_MANY_REQUESTS" => 429,
        "INTERNAL_SERVER_ERROR" => 500,
        "SERVICE_UNAVAILABLE" => 503,
        "GATEWAY_TIMEOUT" => 504,
        "INSUFFICIENT_STORAGE" => 507,
        other => panic!("the test does not know the status {other}"),
    })
}

/// Returns the error codes of the server, each with the statuses that are written
/// next to it.
fn error_codes() -> BTreeMap<String, BTreeSet<u16>> {
    let mut used: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    let mut add = |code: &str, found: Option<u16>| {
        used.entry(code.to_owned()).or_default().extend(found);
    };
    for (path, text) in code() {
        if path.ends_with("contexture-project/src/error.rs") {
            for rest in after(&text, "=>") {
                let code = literal(rest);
                if let Some(code) = code.filter(|code| **code == code.to_uppercase()) {
                    add(code, None);
                }
            }
        }
        let crates = [
            "contexture-api/src",
            "contexture-mcp/src",
            "contexture-server/src",
        ];
        if !crates.iter().any(|name| path.contains(name)) {
            continue;
        }
        // `Problem::new(status, "code", …)` and `(status, "code")`.
        for marker in ["Problem::new(", "Self::new(", "=> ("] {
            for rest in after(&text, marker) {
                if let Some((first, rest)) = rest.split_once(',')
                    && let Some(code) = literal(rest.trim_start())
                    && first.to_lowercase().contains("status")
                {
                    add(code, status(first));
                }
            }
        }
        for rest in after(&text, "bad_request(") {
            if let Some(code) = literal(rest) {
                add(code, Some(400));
            }
        }
        // `code: "code", ..Problem::unavailable(…)`
        for rest in after(&text, "code: ") {
            if let Some(code) = literal(rest) {
                let base = rest.split_once("..").map_or("", |(_, base)| base);
                let base = base.split('(').next().unwrap();
                add(
                    code,
                    match base.rsplit("::").next().unwrap() {
                        "unavailable" => Some(503),
                        "unprocessable" => Some(422),
                        _ => None,
                    },
                );
            }
        }
    }
    assert!(used.len() > 30, "{used:?}");
    used
}

fn check_statuses(page: &str, code: &str, shown: &BTreeSet<u16>, used: &BTreeSet<u16>) {
    assert!(
        used.is_subset(shown),
        "{page}: `{code}` has {shown:?}, and the code has {used:?}"
    );
    assert!(!shown.is_empty(), "{page}: `{code}` has no status");
}

#[test]
fn the_error_catalogue_lists_every_error_with_its_status() {
    let used = error_codes();
    let rows = listed(&read("docs/errors.md"), "Errors");
    assert_eq!(names(&rows), used.keys().cloned().collect());
    for (code, rest) in &rows {
        let cell = rest.split('|').nth(1).unwrap();
        let shown = cell.split(',').map(|number| number.trim().parse().unwrap());
        check_statuses("errors.md", code, &shown.collect(), &used[code]);
    }
}

#[test]
fn the_guide_to_http_lists_every_error_by_status() {
    let page = read("docs/http.md");
    let section = page.split("\n## Errors\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut shown: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let statuses: Vec<u16> = cells[1]
            .split(", ")
            .filter_map(|number| number.parse().ok())
            .collect();
        if statuses.is_empty() {
            continue;
        }
        for code in cells[2].split('`').skip(1).step_by(2) {
            shown.entry(code.to_owned()).or_default().extend(&statuses);
        }
    }
    let used = error_codes();
    let codes =
        |of: &BTreeMap<String, BTreeSet<u16>>| -> BTreeSet<String> { of.keys().cloned().collect() };
    assert_eq!(codes(&shown), codes(&used));
    for (code, statuses) in &shown {
        check_statuses("http.md", code, statuses, &used[code]);
    }
}

/// Returns the schema version of a new store.
fn schema_version() -> u32 {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_contexture"))
        .args(["session", "new", "s", "--root"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let file = dir.path().join(".contexture/contexture.db");
    let store = rusqlite::Connection::open(file).unwrap();
    store
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

#[test]
fn the_versions_on_the_page_are_those_of_the_code() {
    let page = read("docs/stability.md");
    let version = |part: &str| {
        let row = page.lines().find(|line| line.starts_with(part));
        let row = row.unwrap_or_else(|| panic!("no row {part}"));
        row.split('`').nth(1).unwrap().to_owned()
    };
    assert_eq!(version("| Contexture:"), env!("CARGO_PKG_VERSION"));
    assert_eq!(version("| Rust compiler"), env!("CARGO_PKG_RUST_VERSION"));
    let schema = schema_version().to_string();
    assert_eq!(version("| Store schema"), schema);
    let upgrade = read("docs/upgrade.md");
    assert!(
        upgrade.contains(&format!("schema version of this version is `{schema}`")),
        "docs/upgrade.md does not have schema version {schema}"
    );
    let protocol = version("| Working set");
    let manifest = read("crates/contexture-files/src/working_set/manifest.rs");
    assert!(manifest.contains(&format!("PROTOCOL: &str = \"{protocol}\"")));
    let grammar = version("| Recipe grammar");
    let recipe = read("crates/contexture-engine/src/recipe.rs");
    assert!(recipe.contains(&format!("was removed in recipe grammar {grammar}")));
    let api = version("| HTTP API");
    let document = contexture_server::openapi();
    let prefix = format!("/{api}/");
    let paths = document["paths"].as_object().unwrap();
    let others: Vec<&String> = paths
        .keys()
        .filter(|path| !path.starts_with(&prefix))
        .collect();
    assert!(paths.len() > 2 * others.len(), "{others:?}");
}

/// Returns what the pages call: `contexture` and the words after it that can be
/// commands.
fn calls(text: &str) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for code in text.split('`').skip(1).step_by(2) {
        let Some(rest) = code.strip_prefix("contexture ") else {
            continue;
        };
        let words = rest.split_whitespace().take_while(|word| {
            word.chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '-')
                && !word.starts_with('-')
        });
        found.insert(words.take(2).map(str::to_owned).collect());
    }
    found
}

#[test]
fn commands_on_the_pages_exist() {
    for page in [
        "docs/errors.md",
        "docs/stability.md",
        "docs/upgrade.md",
        "docs/backup.md",
    ] {
        let text = read(page);
        // Blocks are run by another test, and would make odd pairs of quotes.
        let prose = text.split("```").step_by(2).collect::<Vec<_>>().join("\n");
        for call in calls(&prose).iter().filter(|call| !call.is_empty()) {
            let run = Command::new(env!("CARGO_BIN_EXE_contexture"))
                .args(call)
                .arg("--help")
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&run.stderr);
            assert!(
                run.status.success(),
                "{page}: contexture {call:?}: {printed}"
            );
        }
    }
}

#[test]
fn the_readme_is_short_and_lists_every_page() {
    let readme = read("README.md");
    let lines = readme.lines().count();
    assert!(lines <= LONGEST_README, "README.md has {lines} lines");
    for entry in fs::read_dir(Path::new(REPO).join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            assert!(
                readme.contains(&format!("](docs/{name})")),
                "README.md does not link to docs/{name}"
            );
        }
    }
}

/// Returns the anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || "-_".contains(letter) => Some(letter),
        _ => None,
    });
    kept.collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages: Vec<PathBuf> = fs::read_dir(Path::new(REPO).join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push(Path::new(REPO).join("README.md"));
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        let prose = text
            .split("\n```")
            .step_by(2)
            .collect::<Vec<_>>()
            .join("\n");
        for rest in prose.split("](").skip(1) {
            let link = rest.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let is_there = match (fs::read_to_string(&target), part) {
                (_, "") => target.exists(),
                (Ok(text), part) => text
                    .lines()
                    .any(|line| line.starts_with('#') && anchor(line) == part),
                (Err(_), _) => false,
            };
            if !is_there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// Returns the first example of a crate's documentation, as it is shown: without
/// the lines that are hidden.
fn first_example(library: &str) -> String {
    let docs = library.lines().map_while(|line| line.strip_prefix("//!"));
    let docs = docs.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let example = docs
        .skip_while(|line| !line.starts_with("```"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .filter(|line| !line.starts_with("# ") && *line != "#");
    example
        .collect::<Vec<_>>()
        .join("\n")
        .trim_matches('\n')
        .to_owned()
}

#[test]
fn every_crate_can_be_published() {
    for entry in fs::read_dir(Path::new(REPO).join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for field in [
            "description = ",
            "license.",
            "keywords.",
            "categories",
            "[package.metadata.docs.rs]",
        ] {
            assert!(
                manifest.contains(&format!("\n{field}")),
                "{name} has no {field}"
            );
        }
        let readme = fs::read_to_string(folder.join("README.md"))
            .unwrap_or_else(|error| panic!("{name}/README.md: {error}"));
        assert!(
            readme.starts_with(&format!("# {name}\n")),
            "{name}/README.md"
        );
        if let Ok(library) = fs::read_to_string(folder.join("src/lib.rs")) {
            // The documentation tests run the example there.
            let example = first_example(&library);
            assert!(!example.is_empty(), "{name} has no example");
            assert!(
                readme.contains(&format!("\n```rust\n{example}\n```\n")),
                "{name}/README.md does not show the first example of its documentation:\n{example}"
            );
        }
    }
}
