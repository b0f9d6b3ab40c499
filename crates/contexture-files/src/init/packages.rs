//! [`Packages`]: the packages of a project, each with its build file.

use std::collections::{BTreeMap, BTreeSet};

use contexture_core::Tokens;

use super::propose::{MANIFESTS, ProposedEntry, READMES, one_of};
use super::survey::{Kind, Survey, language_of, marking_dir, name_of, vendored_dir};

/// The maximum number of packages whose files are proposed by name.
const MOST_PACKAGES: usize = 24;

/// The tokens of a package's README and build file, together for all packages:
/// what a reader needs of them is at their beginning.
const OVERVIEW: Tokens = 12_000;

/// A directory with less code is a part of a package, although it has a build
/// file.
const LEAST_TOKENS: Tokens = 300;

/// Build files, and the languages of the code that they build.
const LANGUAGES: &[(&[&str], &[&str])] = &[
    (&["Cargo.toml"], &["Rust"]),
    (
        &["package.json", "deno.json"],
        &["TypeScript", "JavaScript", "Vue", "Svelte"],
    ),
    (&["pyproject.toml", "setup.py", "setup.cfg"], &["Python"]),
    (&["go.mod"], &["Go"]),
    (
        &["pom.xml", "build.gradle", "build.gradle.kts"],
        &["Java", "Kotlin"],
    ),
    (&["build.sbt"], &["Scala"]),
    (&["composer.json"], &["PHP"]),
    (&["Gemfile"], &["Ruby"]),
    (&["mix.exs"], &["Elixir", "Erlang"]),
    (&["pubspec.yaml"], &["Dart"]),
    (&["Package.swift"], &["Swift", "Objective-C"]),
    (&["build.zig"], &["Zig"]),
    (&["stack.yaml"], &["Haskell"]),
    (&["dune-project"], &["OCaml"]),
    (&["CMakeLists.txt", "meson.build"], &["C/C++"]),
];

/// Build files that directories inside of a package have as well.
const IN_PACKAGES: &[&str] = &[
    "CMakeLists.txt",
    "meson.build",
    "Makefile",
    "Gemfile",
    "setup.cfg",
    "settings.gradle",
];

/// The packages of a project.
pub(super) struct Packages {
    /// The directories of the packages below the root, with a slash at the end.
    /// A package inside another one is part of it.
    pub(super) dirs: BTreeSet<String>,
    // The languages of the build files, by the directory of the package.
    languages: BTreeMap<String, Vec<&'static str>>,
}

impl Packages {
    /// Finds the packages below the root.
    pub(super) fn of(survey: &Survey) -> Self {
        let mut sizes: BTreeMap<&str, Tokens> = BTreeMap::new();
        for file in survey.of_kind(Kind::Source) {
            for (end, _) in file.path.match_indices('/') {
                *sizes.entry(&file.path[..=end]).or_default() += file.tokens;
            }
        }
        let is_own = |path: &str| {
            vendored_dir(path).is_none()
                && survey.output_dir(path).is_none()
                && [Kind::Test, Kind::Example, Kind::Doc]
                    .iter()
                    .all(|kind| marking_dir(path, *kind).is_none())
        };
        let mut dirs: BTreeSet<String> = BTreeSet::new();
        for file in &survey.files {
            let (path, name) = (file.path.as_str(), file.name());
            let is_manifest = MANIFESTS.contains(&name) && !IN_PACKAGES.contains(&name);
            let dir = &path[..path.len() - name.len()];
            let size = sizes.get(dir).copied().unwrap_or(0);
            if is_manifest && size >= LEAST_TOKENS && is_own(path) {
                dirs.insert(dir.to_owned());
            }
        }
        // Sorted, so that an outer directory comes first.
        let mut outer: BTreeSet<String> = BTreeSet::new();
        for dir in dirs {
            if !outer.iter().any(|other| dir.starts_with(other.as_str())) {
                outer.insert(dir);
            }
        }
        let mut packages = Self {
            dirs: outer,
            languages: BTreeMap::new(),
        };
        packages.name_languages(survey);
        packages
    }

    /// Finds the languages that the build files of each package name. Without a
    /// build file of a known language, it is that of most of the code.
    fn name_languages(&mut self, survey: &Survey) {
        let mut found: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        let dirs = self.dirs.iter().map(String::as_str).chain([""]);
        for dir in dirs {
            let mut sums: BTreeMap<&'static str, Tokens> = BTreeMap::new();
            for file in survey.of_kind(Kind::Source) {
                let is_own = file.path.starts_with(dir);
                if let (true, Some(language)) = (is_own, language_of(&file.path)) {
                    *sums.entry(language).or_default() += file.tokens;
                }
            }
            let has = |name: &&&str| {
                let path = format!("{dir}{name}");
                let at = (survey.files).binary_search_by(|file| file.path.as_str().cmp(&path));
                at.is_ok()
            };
            let named = LANGUAGES
                .iter()
                .filter(|(files, _)| files.iter().any(|f| has(&f)));
            let mut languages: Vec<&'static str> = named
                .flat_map(|(_, languages)| languages.iter().copied())
                .filter(|language| sums.contains_key(language))
                .collect();
            if languages.is_empty() {
                let largest = sums.iter().max_by_key(|(_, tokens)| **tokens);
                languages.extend(largest.map(|(name, _)| *name));
            }
            found.insert(dir.to_owned(), languages);
        }
        self.languages = found;
    }

    /// Returns the directory of the package that a file belongs to. It is empty
    /// for the root.
    pub(super) fn of_file<'p>(&self, path: &'p str) -> &'p str {
        let mut dirs = path.match_indices('/').map(|(end, _)| &path[..=end]);
        dirs.find(|dir| self.dirs.contains(*dir))
            .unwrap_or_default()
    }

    /// Returns true if the language is that of the build file of the package.
    pub(super) fn is_primary(&self, package: &str, language: &str) -> bool {
        let languages = self.languages.get(package);
        languages.is_some_and(|names| names.contains(&language))
    }

    /// Returns true if a build file of the project, or of a package, names the
    /// language.
    pub(super) fn is_named(&self, language: &str) -> bool {
        let with_root = self.dirs.is_empty();
        (self.languages.iter())
            .filter(|(dir, _)| with_root || !dir.is_empty())
            .any(|(_, names)| names.contains(&language))
    }

    /// Returns entries for the README and the build files of the packages.
    pub(super) fn entries(&self, survey: &Survey) -> Vec<ProposedEntry> {
        let is_readme = |name: &str| READMES.iter().any(|one| one.eq_ignore_ascii_case(name));
        let is_manifest = |name: &str| MANIFESTS.contains(&name) && name != "Makefile";
        let mut dirs: Vec<&str> = self.dirs.iter().map(String::as_str).collect();
        let is_whole = dirs.len() <= MOST_PACKAGES;
        // Packages higher in the tree first.
        dirs.sort_by_key(|dir| dir.matches('/').count());
        dirs.truncate(MOST_PACKAGES);
        // The names of the packages and of their files, by the directory above.
        type Names<'s> = (BTreeSet<&'s str>, BTreeSet<&'s str>);
        let mut readmes: BTreeMap<&str, Names<'_>> = BTreeMap::new();
        let mut manifests: BTreeMap<&str, Names<'_>> = BTreeMap::new();
        for file in &survey.files {
            let (path, name) = (file.path.as_str(), file.name());
            let dir = &path[..path.len() - name.len()];
            if file.bytes == 0 || !dirs.contains(&dir) {
                continue;
            }
            let of_kind = match (is_readme(name), is_manifest(name)) {
                (true, _) => &mut readmes,
                (_, true) => &mut manifests,
                _ => continue,
            };
            let package = name_of(dir.trim_end_matches('/'));
            let above = &dir[..dir.len() - package.len() - 1];
            let (packages, names) = of_kind.entry(above).or_default();
            packages.insert(package);
            names.insert(name);
        }
        let max = (OVERVIEW / (2 * dirs.len().max(1)) as Tokens).clamp(200, 2_000) / 100 * 100;
        let entry = |(above, (packages, names)): (&str, Names<'_>), priority, what| {
            // A pattern stays true when a package is added.
            let packages = match is_whole && packages.len() > 3 && !above.is_empty() {
                true => "*".to_owned(),
                false => one_of(packages),
            };
            let above = globset::escape(above);
            let path = format!("{above}{packages}/{}", one_of(names));
            let mut entry = ProposedEntry::new(path, priority, what);
            entry.max_tokens = Some(max);
            entry
        };
        let readmes = readmes
            .into_iter()
            .map(|one| entry(one, 0.66, "what each package is"));
        let readmes: Vec<ProposedEntry> = readmes.collect();
        let manifests = (manifests.into_iter())
            .map(|one| entry(one, 0.64, "dependencies and build of each package"));
        readmes.into_iter().chain(manifests).collect()
    }
}
