//! [`Proposal`]: the entries that suit a project.
//!
//! The proposal is written as a manifest and expanded as `assemble` does it,
//! so that its counts are those of the files that its patterns really match,
//! and no entry is proposed that matches nothing.

use std::collections::{BTreeMap, BTreeSet};

use contexture_core::{Cut, Role, TokenCounter, Tokens};

use super::packages::Packages;
use super::rank::Ranking;
use super::render;
use super::survey::{
    Kind, Skip, Survey, SurveyFile, copy_dir, ending_of, generated_name, languages, marking_dir,
    name_of, test_name, vendored_dir,
};
use crate::error::Error;
use crate::files::Root;
use crate::working_set::{Manifest, expand};

/// The window of a small project, and the tokens of it that are reserved for
/// the answer.
const SMALL: (Tokens, Tokens) = (28_000, 4_000);
/// The same for a project whose files need more.
const LARGE: (Tokens, Tokens) = (100_000, 8_000);

/// The tokens of the boot header, tags and the question.
const OVERHEAD: Tokens = 600;

const MOST_ENTRY_POINTS: usize = 6;
const MOST_MANIFESTS: usize = 3;
const MOST_EXCLUDED: usize = 40;

/// The working set that `init` proposes for a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The size of the window.
    pub max_tokens: Tokens,
    /// The tokens of the window that are reserved for the response.
    pub reserved_for_response: Tokens,
    /// The entries, in the order of the manifest.
    pub entries: Vec<ProposedEntry>,
    /// Patterns to exclude, with the reason for each.
    pub exclude: Vec<(String, &'static str)>,
    /// The languages of the source code, the largest first.
    pub languages: Vec<&'static str>,
    /// The tokens of all files that the entries match.
    pub tokens: Tokens,
    /// The number of files that the entries match.
    pub files: usize,
}

/// An entry that `init` proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedEntry {
    /// A file or a pattern.
    pub path: String,
    /// From 0 to 1.
    pub priority: f64,
    /// The role of the content.
    pub role: Role,
    /// The part of a file that a cut removes.
    pub cut: Cut,
    /// The most tokens of one file.
    pub max_tokens: Option<Tokens>,
    /// A description of the entry in a few words.
    pub what: &'static str,
    /// The number of files that it matches.
    pub files: usize,
    /// The tokens of those files.
    pub tokens: Tokens,
    // The tokens of each of them.
    counts: Vec<Tokens>,
}

impl ProposedEntry {
    pub(super) fn new(path: impl Into<String>, priority: f64, what: &'static str) -> Self {
        Self {
            path: path.into(),
            priority,
            role: Role::Context,
            cut: Cut::End,
            max_tokens: None,
            what,
            files: 0,
            tokens: 0,
            counts: Vec::new(),
        }
    }

    pub(super) fn cut(mut self, cut: Cut) -> Self {
        self.cut = cut;
        self
    }
}

/// The file of rules that `init` writes.
pub(super) const CONSTITUTION: &str = ".agent/constitution.md";

/// Files with instructions for agents.
const INSTRUCTIONS: &[&str] = &[
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
];

pub(super) const READMES: &[&str] = &[
    "README.md",
    "README.rst",
    "README.adoc",
    "README.txt",
    "README",
];

pub(super) const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "build.sbt",
    "composer.json",
    "Gemfile",
    "mix.exs",
    "pubspec.yaml",
    "Package.swift",
    "deno.json",
    "build.zig",
    "stack.yaml",
    "dune-project",
    "CMakeLists.txt",
    "meson.build",
    "Makefile",
];

const DESIGNS: &[&str] = &["ARCHITECTURE.md", "DESIGN.md", "CONTRIBUTING.md"];

/// Names, without their ends, of files where a program or a library begins.
const BEGINNINGS: &[&str] = &[
    "main", "lib", "app", "cli", "server", "program", "__main__", "index", "__init__",
];

/// Of these, those that every directory may have: only the shallowest counts.
const IN_EVERY_DIRECTORY: &[&str] = &["__main__", "index", "__init__"];

/// Looks at the project below `root` and returns what to put into its working
/// set.
///
/// `window` is the size of the model's window, which the budget never exceeds;
/// `constitution` are the rules that `init` would write.
pub(super) fn propose(
    root: &Root,
    counter: &dyn TokenCounter,
    window: Tokens,
    constitution: &str,
) -> Result<Proposal, Error> {
    let survey = Survey::of(root, counter);
    let packages = Packages::of(&survey);
    let mut fixed = fixed_entries(root, &survey, constitution, counter);
    let sources: Vec<&SurveyFile> = survey.of_kind(Kind::Source).collect();
    fixed.extend(packages.entries(&survey));
    fixed.extend(entry_points(root, &sources, &packages));
    let marked = [
        marked_entries(&survey, Kind::Test, 0.2, "tests"),
        marked_entries(
            &survey,
            Kind::Example,
            0.25,
            "examples, benchmarks and scripts",
        ),
        marked_entries(&survey, Kind::Doc, 0.2, "documentation"),
    ]
    .concat();

    let total: Tokens = survey
        .files
        .iter()
        .filter(|file| {
            matches!(
                file.kind,
                Kind::Source | Kind::Test | Kind::Example | Kind::Doc
            )
        })
        .map(|file| file.tokens)
        .sum();
    let rest: Tokens = fixed.iter().map(|entry| entry.tokens).sum();
    let (max_tokens, reserved) = budget(total + rest, window);
    let room = (max_tokens - reserved).saturating_sub(OVERHEAD);
    let project = project_name(root);
    let groups = Ranking::new(&packages, &survey, project.as_deref()).groups(&sources, room);

    let mut proposal = Proposal {
        max_tokens,
        reserved_for_response: reserved,
        entries: fixed.into_iter().chain(marked).chain(groups).collect(),
        exclude: Vec::new(),
        languages: main_languages(&survey, &packages),
        tokens: 0,
        files: 0,
    };
    proposal.settle(root, &survey, counter)?;
    let (max_tokens, reserved) = budget(proposal.tokens, window);
    proposal.max_tokens = max_tokens;
    proposal.reserved_for_response = reserved;
    proposal.limit();
    Ok(proposal)
}

/// Returns the window and the reserve for files of `needed` tokens.
fn budget(needed: Tokens, window: Tokens) -> (Tokens, Tokens) {
    let fits = |(max, reserved): (Tokens, Tokens)| needed + OVERHEAD <= max - reserved;
    let (max, reserved) = if fits(SMALL) { SMALL } else { LARGE };
    match window < max {
        true => (window, window * reserved / max),
        false => (max, reserved),
    }
}

/// Returns the languages that make up at least a twentieth of the source, those
/// of the project's build files first.
fn main_languages(survey: &Survey, packages: &Packages) -> Vec<&'static str> {
    let mut languages = languages(survey);
    let total: Tokens = languages.iter().map(|(_, tokens)| tokens).sum();
    languages.sort_by_key(|(name, _)| !packages.is_named(name));
    let is_main = |(name, tokens): (&'static str, Tokens)| (tokens * 20 >= total).then_some(name);
    languages.into_iter().filter_map(is_main).take(4).collect()
}

/// Returns the entry for the rules that `init` writes.
fn rules(counter: &dyn TokenCounter, constitution: &str) -> ProposedEntry {
    let mut rules = ProposedEntry::new(CONSTITUTION, 1.0, "rules, always included whole");
    rules.role = Role::System;
    rules.cut = Cut::Never;
    rules.files = 1;
    rules.tokens = counter.count(constitution);
    rules
}

/// Returns entries for files with a name of their own.
fn fixed_entries(
    root: &Root,
    survey: &Survey,
    constitution: &str,
    counter: &dyn TokenCounter,
) -> Vec<ProposedEntry> {
    let mut entries = vec![rules(counter, constitution)];

    let mut seen: BTreeSet<String> = BTreeSet::new();
    for name in INSTRUCTIONS {
        // A link to another file of instructions, or the same text again, would
        // only repeat it.
        let Ok(text) = root.read_text(name, super::survey::HUGE_BYTES) else {
            continue;
        };
        let refers = text
            .trim()
            .strip_prefix('@')
            .is_some_and(|to| INSTRUCTIONS.contains(&to));
        if text.trim().is_empty() || refers || !seen.insert(text) {
            continue;
        }
        let mut entry = ProposedEntry::new(*name, 0.9, "instructions for agents");
        entry.role = Role::Developer;
        entries.push(entry);
    }
    let named = |name: &&str| survey.at_root(name).filter(|file| file.bytes > 0);
    let readme = READMES.iter().find_map(&named);
    entries.extend(readme.map(|file| ProposedEntry::new(&file.path, 0.8, "what the project is")));
    let manifests = MANIFESTS.iter().filter_map(named);
    for file in manifests.take(MOST_MANIFESTS) {
        entries.push(ProposedEntry::new(
            &file.path,
            0.7,
            "dependencies and build",
        ));
    }
    for file in DESIGNS.iter().filter_map(named) {
        entries.push(ProposedEntry::new(
            &file.path,
            0.3,
            "how the project is made",
        ));
    }
    entries
}

/// Returns entries for the files where the program or library begins: the first
/// of each package, then the second of each.
fn entry_points(root: &Root, sources: &[&SurveyFile], packages: &Packages) -> Vec<ProposedEntry> {
    let project = project_name(root);
    let rank = |file: &SurveyFile| -> Option<usize> {
        let stem = file.name().split('.').next().unwrap_or_default();
        let plain = stem.to_ascii_lowercase();
        if project.as_deref().is_some_and(|project| project == plain) {
            return Some(0);
        }
        let plain = match plain.as_str() {
            "__init__" | "__main__" => plain.as_str(),
            other => other.trim_start_matches('_'),
        };
        let at = BEGINNINGS.iter().position(|name| *name == plain)?;
        // A file of a few lines shows little of the project.
        (file.tokens >= 40).then_some(at + 1)
    };
    let mut by_package: BTreeMap<&str, Vec<(usize, usize, &str)>> = BTreeMap::new();
    for file in sources {
        let package = packages.of_file(&file.path);
        let depth = file.path[package.len()..].matches('/').count();
        if let (true, Some(rank)) = (depth <= 4, rank(file)) {
            let found = by_package.entry(package).or_default();
            found.push((depth, rank, &file.path));
        }
    }
    let mut found: Vec<(usize, usize, usize, &str)> = Vec::new();
    for mut files in by_package.into_values() {
        files.sort_unstable();
        let shallowest = files.first().map_or(0, |(depth, ..)| *depth);
        let is_beginning = |(depth, _, path): &(usize, usize, &str)| {
            let stem = name_of(path).split('.').next().unwrap_or_default();
            let deeper = usize::from(!IN_EVERY_DIRECTORY.contains(&stem));
            *depth <= shallowest + deeper
        };
        let files = files.into_iter().filter(is_beginning).enumerate();
        found.extend(files.map(|(turn, (depth, rank, path))| (turn, depth, rank, path)));
    }
    found.sort_unstable();
    let most = MOST_ENTRY_POINTS.max(packages.dirs.len().min(2 * MOST_ENTRY_POINTS));
    found.truncate(most);
    let entry = |(.., path): (usize, usize, usize, &str)| {
        ProposedEntry::new(path, 0.6, "where the code begins").cut(Cut::Middle)
    };
    found.into_iter().map(entry).collect()
}

/// Returns the name of the project: that of its directory without a version.
/// `express-5.1.0` and `express` are the same project.
fn project_name(root: &Root) -> Option<String> {
    let directory = root.path().canonicalize().ok()?;
    let name = directory.file_name()?.to_str()?;
    let version = name.rfind('-').filter(|at| {
        let after = name[at + 1..].trim_start_matches('v');
        after.starts_with(|c: char| c.is_ascii_digit())
    });
    Some(name[..version.unwrap_or(name.len())].to_owned())
}

/// Returns entries for files whose directory or name identifies their kind.
///
/// They come before the source code in the manifest, because a file belongs to
/// the first pattern that matches it.
fn marked_entries(
    survey: &Survey,
    kind: Kind,
    priority: f64,
    what: &'static str,
) -> Vec<ProposedEntry> {
    let mut by_dir: BTreeMap<bool, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    let mut by_name: BTreeSet<&str> = BTreeSet::new();
    for file in survey.of_kind(kind) {
        let Some(ending) = ending_of(&file.path) else {
            continue;
        };
        match marking_dir(&file.path, kind) {
            Some(dir) => {
                let at_root = file.path.starts_with(&format!("{dir}/"));
                let (dirs, endings) = by_dir.entry(at_root).or_default();
                dirs.insert(dir);
                endings.insert(ending);
            }
            None => by_name.extend(test_name(&file.path)),
        }
    }
    let mut patterns = Vec::new();
    for (at_root, (dirs, endings)) in by_dir.into_iter().rev() {
        let before = if at_root { "" } else { "**/" };
        patterns.push(format!("{before}{}/**/*.{}", one_of(dirs), one_of(endings)));
    }
    patterns.extend(by_name.into_iter().map(|name| format!("**/{name}")));
    let entry = |pattern| ProposedEntry::new(pattern, priority, what).cut(Cut::Middle);
    patterns.into_iter().map(entry).collect()
}

/// Writes a pattern for any of `names`.
pub(super) fn one_of(names: BTreeSet<&str>) -> String {
    let names: Vec<String> = names.into_iter().map(globset::escape).collect();
    match names.as_slice() {
        [name] => name.clone(),
        names => format!("{{{}}}", names.join(",")),
    }
}

impl Proposal {
    /// Returns the proposal for a directory without files.
    pub(super) fn of_nothing(
        counter: &dyn TokenCounter,
        window: Tokens,
        constitution: &str,
    ) -> Self {
        let rules = rules(counter, constitution);
        let (max_tokens, reserved_for_response) = budget(rules.tokens, window);
        Self {
            max_tokens,
            reserved_for_response,
            tokens: rules.tokens,
            files: 1,
            entries: vec![rules],
            exclude: Vec::new(),
            languages: Vec::new(),
        }
    }

    /// Finds the files that each entry matches, leaves out the entries that
    /// match none, and excludes what no entry should match.
    fn settle(
        &mut self,
        root: &Root,
        survey: &Survey,
        counter: &dyn TokenCounter,
    ) -> Result<(), Error> {
        let known: BTreeMap<&str, &SurveyFile> = (survey.files.iter())
            .map(|file| (file.path.as_str(), file))
            .collect();
        let matched = self.matches(root)?;
        // Output that is the only code of a package is not excluded.
        let used: BTreeSet<&str> = (survey.of_kind(Kind::Source))
            .filter_map(|file| survey.output_dir(&file.path))
            .collect();
        let mut exclude: BTreeMap<String, &'static str> = BTreeMap::new();
        for path in matched.iter().flatten() {
            if let Some(Kind::Skipped(skip)) = known.get(path.as_str()).map(|file| file.kind) {
                let output = survey.output_dir(path).filter(|dir| !used.contains(dir));
                let pattern = match (skip, vendored_dir(path), generated_name(path)) {
                    _ if output.is_some() => {
                        format!("{}/", globset::escape(output.unwrap_or(path)))
                    }
                    (Skip::Vendored, Some(dir), _) => format!("{}/", globset::escape(dir)),
                    (Skip::Copy, ..) => {
                        let dir = copy_dir(path).unwrap_or(path);
                        format!("{}/", globset::escape(dir))
                    }
                    (Skip::Generated, _, Some(pattern)) => pattern.to_owned(),
                    _ => globset::escape(path),
                };
                exclude.insert(pattern, skip.name());
            }
        }
        // Hundreds of generated files are a directory of them.
        if exclude.len() > MOST_EXCLUDED {
            let shorter = exclude.into_iter().map(|(pattern, why)| {
                let dir = pattern
                    .rsplit_once('/')
                    .filter(|(_, name)| !name.is_empty());
                (
                    dir.map_or(pattern.clone(), |(dir, _)| format!("{dir}/")),
                    why,
                )
            });
            exclude = shorter.collect();
        }
        self.exclude = exclude.into_iter().collect();

        let matched = self.matches(root)?;
        for (entry, paths) in self.entries.iter_mut().zip(matched) {
            if entry.path == CONSTITUTION {
                continue;
            }
            entry.files = paths.len();
            let count = |path: &String| match known.get(path.as_str()) {
                Some(file) if file.tokens > 0 || file.bytes == 0 => file.tokens,
                _ => root
                    .read_text(path, super::survey::HUGE_BYTES)
                    .map_or(0, |text| counter.count(&text)),
            };
            let counts: Vec<Tokens> = paths.iter().map(count).collect();
            entry.tokens = counts.iter().sum();
            entry.counts = counts;
        }
        self.entries.retain(|entry| entry.tokens > 0);
        self.tokens = self.entries.iter().map(|entry| entry.tokens).sum();
        self.files = self.entries.iter().map(|entry| entry.files).sum();
        Ok(())
    }

    /// Returns the files of each entry, as `assemble` would find them.
    fn matches(&self, root: &Root) -> Result<Vec<Vec<String>>, Error> {
        let text = render::manifest(self, "");
        let manifest = Manifest::parse("working-set.yml", &text)?;
        let mut matched = vec![Vec::new(); manifest.files.len()];
        for candidate in expand(root, &manifest, &mut Vec::new())? {
            let at = (manifest.files.iter()).position(|one| std::ptr::eq(one, candidate.entry));
            if let (Some(at), Ok(_)) = (at, candidate.size(root)) {
                matched[at].push(candidate.path);
            }
        }
        Ok(matched)
    }

    /// Limits the size of single files if one of them could use the tokens of
    /// many.
    fn limit(&mut self) {
        let room = (self.max_tokens - self.reserved_for_response).saturating_sub(OVERHEAD);
        if self.tokens <= room {
            for entry in &mut self.entries {
                entry.max_tokens = None;
            }
            return;
        }
        let limited = |max: Tokens| -> Tokens {
            let files = |entry: &ProposedEntry| -> Tokens {
                let max = entry.max_tokens.map_or(max, |own| own.min(max));
                entry.counts.iter().map(|tokens| (*tokens).min(max)).sum()
            };
            self.entries.iter().map(files).sum()
        };
        // The largest limit, in steps of a hundred, with which all files fit. If there
        // is none, a tenth of the space.
        let least = room / 10 / 100;
        let (mut fits, mut too_large) = (least, room / 100 + 1);
        while too_large - fits > 1 {
            let middle = fits + (too_large - fits) / 2;
            match limited(middle * 100) <= room {
                true => fits = middle,
                false => too_large = middle,
            }
        }
        let max = (fits * 100).max(100);
        for entry in &mut self.entries {
            let max = entry.max_tokens.map_or(max, |own| own.min(max));
            let is_larger = entry.counts.iter().any(|tokens| *tokens > max);
            let is_limited = is_larger && entry.cut != Cut::Never;
            entry.max_tokens = is_limited.then_some(max);
        }
    }

    /// Returns the tokens of all files within their limits, and the number of files
    /// that a limit cuts.
    pub fn limited(&self) -> (Tokens, usize) {
        let mut sum: Tokens = 0;
        let mut cut = 0;
        for entry in &self.entries {
            let max = entry.max_tokens.unwrap_or(Tokens::MAX);
            sum += entry
                .counts
                .iter()
                .map(|tokens| (*tokens).min(max))
                .sum::<Tokens>();
            cut += entry.counts.iter().filter(|tokens| **tokens > max).count();
        }
        (sum, cut)
    }

    /// Returns the entries with the highest priority first, for people.
    pub fn by_priority(&self) -> Vec<&ProposedEntry> {
        let mut entries: Vec<&ProposedEntry> = self.entries.iter().collect();
        entries.sort_by(|a, b| b.priority.total_cmp(&a.priority));
        entries
    }

    /// Returns true when all files fit the budget whole.
    pub fn fits(&self) -> bool {
        self.tokens + OVERHEAD <= self.max_tokens - self.reserved_for_response
    }

    /// Returns true when something of the project was found, not only the rules
    /// that `init` writes.
    pub fn has_files(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| name_of(&entry.path) != name_of(CONSTITUTION))
    }
}
