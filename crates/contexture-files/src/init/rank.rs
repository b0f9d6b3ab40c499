//! [`Ranking`]: divides the source code into entries and decides which of them a
//! newcomer needs first.
//!
//! Code in the language of the build file comes before other code, the main
//! directory of a package before bindings and tools, and files higher in the
//! tree before deeper ones. Among equals, small directories come first: the
//! budget then covers as many as possible.

use std::collections::{BTreeMap, BTreeSet};

use contexture_core::{Cut, Tokens};

use super::packages::Packages;
use super::propose::{ProposedEntry, one_of};
use super::survey::{Kind, Survey, SurveyFile, ending_of, language_of, name_of};

/// The maximum number of entries for the source code.
const MOST_GROUPS: usize = 10;

/// The least tokens of a file that many files are cut to.
const LEAST_OF_FILE: Tokens = 100;

/// Directories with the code of a package.
const MAIN: &[&str] = &[
    "src", "lib", "app", "pkg", "internal", "cmd", "core", "source", "sources",
];

/// Directories of a package that are not its main code.
const SECONDARY: &[&str] = &[
    "assets",
    "binding",
    "bindings",
    "browser",
    "ci",
    "compat",
    "contrib",
    "ffi",
    "generated",
    "hack",
    "legacy",
    "mk",
    "polyfills",
    "pregenerated",
    "public",
    "shims",
    "static",
    "tooling",
    "tools",
    "wasm",
    "xtask",
];

/// How much a newcomer needs an entry. The priority of each has room below it
/// for the order of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Directly in the main directory of a package.
    Top,
    Main,
    Beside,
    OtherLanguage,
    Secondary,
}

impl Tier {
    fn priority(self) -> f64 {
        match self {
            Tier::Top => 0.48,
            Tier::Main => 0.4,
            Tier::Beside => 0.36,
            Tier::OtherLanguage => 0.32,
            Tier::Secondary => 0.28,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Tier::Top | Tier::Main => "source code",
            Tier::Beside => "source code outside the main directories",
            Tier::OtherLanguage => "source code in other languages",
            Tier::Secondary => "bindings, tools and code for other platforms",
        }
    }
}

/// A directory of source code: all of it, or only the files directly in it.
#[derive(Debug, Clone)]
struct Group<'s> {
    dir: String,
    // The directory as a pattern, if it matches several.
    glob: Option<String>,
    deep: bool,
    files: Vec<&'s SurveyFile>,
}

impl<'s> Group<'s> {
    fn new(dir: impl Into<String>, deep: bool, files: Vec<&'s SurveyFile>) -> Self {
        Self {
            dir: dir.into(),
            glob: None,
            deep,
            files,
        }
    }

    fn tokens(&self) -> Tokens {
        self.files.iter().map(|file| file.tokens).sum()
    }

    /// Returns the groups one level below: the files directly in the directory,
    /// and its subdirectories.
    fn split(&self) -> Vec<Group<'s>> {
        let mut direct = Vec::new();
        let mut below: BTreeMap<&str, Vec<&'s SurveyFile>> = BTreeMap::new();
        for &file in &self.files {
            match file.path[self.dir.len()..].split_once('/') {
                Some((name, _)) => below.entry(name).or_default().push(file),
                None => direct.push(file),
            }
        }
        let mut groups = Vec::new();
        if !direct.is_empty() {
            groups.push(Group::new(self.dir.clone(), false, direct));
        }
        let below = below.into_iter();
        groups.extend(
            below.map(|(name, files)| Group::new(format!("{}{name}/", self.dir), true, files)),
        );
        groups
    }

    fn pattern(&self) -> String {
        let endings: BTreeSet<&str> = (self.files.iter())
            .filter(|file| language_of(&file.path).is_some())
            .filter_map(|file| ending_of(&file.path))
            .collect();
        let deep = if self.deep { "**/" } else { "" };
        let dir = match &self.glob {
            Some(glob) => glob.clone(),
            None => globset::escape(&self.dir),
        };
        format!("{dir}{deep}*.{}", one_of(endings))
    }
}

/// Ranks the source code of a project.
pub(super) struct Ranking<'a> {
    packages: &'a Packages,
    project: Option<&'a str>,
    // The packages that have a main directory.
    with_main: BTreeSet<&'a str>,
    // The number of directories above the highest file of each package.
    highest: BTreeMap<&'a str, usize>,
}

impl<'a> Ranking<'a> {
    pub(super) fn new(
        packages: &'a Packages,
        survey: &'a Survey,
        project: Option<&'a str>,
    ) -> Self {
        let mut ranking = Self {
            packages,
            project,
            with_main: BTreeSet::new(),
            highest: BTreeMap::new(),
        };
        for file in survey.of_kind(Kind::Source) {
            let package = packages.of_file(&file.path);
            let depth = file.path[package.len()..].matches('/').count();
            let highest = ranking.highest.entry(package).or_insert(depth);
            *highest = depth.min(*highest);
        }
        let sources = survey.of_kind(Kind::Source);
        let with_main = sources.filter_map(|file| {
            let package = packages.of_file(&file.path);
            let (first, _) = file.path[package.len()..].split_once('/')?;
            ranking.is_main(package, first).then_some(package)
        });
        ranking.with_main = with_main.collect();
        ranking
    }

    /// Divides the source code into entries by directory: few where everything
    /// fits, more where the budget has to choose.
    pub(super) fn groups(&self, sources: &[&SurveyFile], room: Tokens) -> Vec<ProposedEntry> {
        let all = Group::new("", true, sources.to_vec());
        let fits = all.tokens() <= room;
        let groups = match fits {
            true => self.few(&all),
            false => self.many(&all, room),
        };
        let mut entries: Vec<(Tier, Tokens, ProposedEntry)> = Vec::new();
        for group in groups {
            for part in self.by_language(group, fits) {
                let tier = match self.tier(&part) {
                    Tier::Top if fits => Tier::Main,
                    tier => tier,
                };
                let mut entry = ProposedEntry::new(part.pattern(), tier.priority(), tier.what());
                entry = entry.cut(Cut::Middle);
                // Many files of many packages: some of each.
                if part.glob.is_some() && part.tokens() * 2 > room {
                    let files = part.files.len().max(1) as Tokens;
                    entry.max_tokens = Some((room / 2 / files).max(LEAST_OF_FILE) / 100 * 100);
                }
                entries.push((tier, part.tokens(), entry));
            }
        }
        if !fits {
            order_by_size(&mut entries);
        }
        // The first pattern that matches a file decides, so a pattern for
        // several directories comes after those of single ones.
        let is_general = |path: &str| path.starts_with('*');
        entries.sort_by(|(.., a), (.., b)| {
            let general = is_general(&a.path).cmp(&is_general(&b.path));
            general.then(b.priority.total_cmp(&a.priority))
        });
        entries.into_iter().map(|(.., entry)| entry).collect()
    }

    /// Returns one group for each directory of the root.
    fn few<'s>(&self, all: &Group<'s>) -> Vec<Group<'s>> {
        let groups = all.split();
        // A project of dozens of directories is one pattern.
        match groups.len() > 2 * MOST_GROUPS {
            true => vec![all.clone()],
            false => groups,
        }
    }

    /// Divides the largest groups until they are small.
    fn many<'s>(&self, all: &Group<'s>, room: Tokens) -> Vec<Group<'s>> {
        let mut groups = self.by_package(all);
        let mut whole = BTreeSet::new();
        loop {
            let largest = groups
                .iter()
                .enumerate()
                .filter(|(_, group)| group.deep && group.glob.is_none())
                .filter(|(_, group)| !group.dir.is_empty() && !whole.contains(&group.dir))
                .max_by_key(|(_, group)| group.tokens());
            let Some((at, group)) = largest else { break };
            let parts = group.split();
            let is_chain = parts.len() == 1;
            let is_small = group.tokens() * 3 <= room;
            if !is_chain && (is_small || groups.len() + parts.len() > MOST_GROUPS + 1) {
                // The files of its top are separate at least.
                whole.insert(group.dir.clone());
                let top = parts.into_iter().find(|part| !part.deep);
                if let Some(top) = top.filter(|_| !is_small && groups.len() <= MOST_GROUPS) {
                    groups[at]
                        .files
                        .retain(|file| !top.files.iter().any(|one| one.path == file.path));
                    groups.insert(at, top);
                }
                continue;
            }
            groups.splice(at..=at, parts);
        }
        groups
    }

    /// Returns the packages as groups, and the other directories of the root.
    fn by_package<'s>(&self, all: &Group<'s>) -> Vec<Group<'s>> {
        let mut of_package: BTreeMap<&str, Vec<&'s SurveyFile>> = BTreeMap::new();
        for &file in &all.files {
            let package = self.packages.of_file(&file.path);
            of_package.entry(package).or_default().push(file);
        }
        let outside = of_package.remove("").unwrap_or_default();
        let outside = Group::new("", true, outside);
        let mut groups = outside.split();
        if groups.len() > MOST_GROUPS {
            groups = self.by_depth(groups, &outside);
        }
        if of_package.len() + groups.len() <= MOST_GROUPS {
            let packages = of_package.into_iter();
            groups.extend(packages.map(|(dir, files)| Group::new(dir, true, files)));
        } else {
            groups.extend(many_packages(of_package));
        }
        groups
    }

    /// Returns the directories that are not main code, and all others as patterns
    /// by their depth.
    fn by_depth<'s>(&self, dirs: Vec<Group<'s>>, all: &Group<'s>) -> Vec<Group<'s>> {
        let is_secondary =
            |group: &Group<'_>| SECONDARY.contains(&name_of(group.dir.trim_end_matches('/')));
        let mut groups: Vec<Group<'s>> = dirs.into_iter().filter(is_secondary).collect();
        let taken: BTreeSet<&str> = (groups.iter())
            .flat_map(|group| group.files.iter().map(|file| file.path.as_str()))
            .collect();
        let mut levels: [Vec<&'s SurveyFile>; 3] = Default::default();
        for &file in &all.files {
            if !taken.contains(file.path.as_str()) {
                levels[file.depth().min(2)].push(file);
            }
        }
        for (level, files) in levels.into_iter().enumerate() {
            let mut group = Group::new("", level != 1, files);
            match level {
                0 => group.deep = false,
                1 => group.glob = Some("*/".to_owned()),
                _ => {}
            }
            if !group.files.is_empty() {
                groups.push(group);
            }
        }
        groups
    }

    /// Divides a group into the code in the language of its package, and other
    /// code.
    fn by_language<'s>(&self, group: Group<'s>, fits: bool) -> Vec<Group<'s>> {
        if fits {
            return vec![group];
        }
        let is_primary = |file: &&SurveyFile| self.is_primary(file);
        let (own, other): (Vec<_>, Vec<_>) = group.files.iter().copied().partition(is_primary);
        let parts = [own, other].into_iter().filter(|files| !files.is_empty());
        let with = |files| Group {
            files,
            ..group.clone()
        };
        parts.map(with).collect()
    }

    fn is_primary(&self, file: &SurveyFile) -> bool {
        let package = self.packages.of_file(&file.path);
        let language = language_of(&file.path).unwrap_or_default();
        self.packages.is_primary(package, language)
    }

    fn is_main(&self, package: &str, dir: &str) -> bool {
        let package = name_of(package.trim_end_matches('/'));
        MAIN.contains(&dir)
            || !package.is_empty() && dir == package
            || self.project.is_some_and(|project| dir == project)
    }

    fn tier(&self, group: &Group<'_>) -> Tier {
        let Some(first) = group.files.first() else {
            return Tier::Secondary;
        };
        let package = self.packages.of_file(&first.path);
        let own = group.dir.get(package.len()..).unwrap_or_default();
        let dir = own.split('/').next().unwrap_or_default();
        if SECONDARY.contains(&dir) {
            return Tier::Secondary;
        }
        let primary: Tokens = (group.files.iter())
            .filter(|file| self.is_primary(file))
            .map(|file| file.tokens)
            .sum();
        if primary * 2 < group.tokens() {
            return Tier::OtherLanguage;
        }
        let is_main =
            dir.is_empty() || self.is_main(package, dir) || !self.with_main.contains(package);
        // The main directory itself, or the one that all code is below.
        let depth = own.matches('/').count();
        let is_top = depth <= 1 || self.highest.get(package) == Some(&depth);
        match (is_main, is_top && !group.deep) {
            (false, _) => Tier::Beside,
            (true, true) => Tier::Top,
            (true, false) => Tier::Main,
        }
    }
}

/// Returns patterns for many packages: the files at the top of each, those in its
/// main directory, and the others.
fn many_packages<'s>(packages: BTreeMap<&str, Vec<&'s SurveyFile>>) -> Vec<Group<'s>> {
    let mut found: BTreeMap<(String, usize, &str), Vec<&'s SurveyFile>> = BTreeMap::new();
    for (dir, files) in packages {
        let name = name_of(dir.trim_end_matches('/'));
        let above = &dir[..dir.len() - name.len() - 1];
        for file in files {
            let below = &file.path[dir.len()..];
            let (level, main) = match below.split_once('/') {
                None => (0, ""),
                Some((main, rest)) if MAIN.contains(&main) && !rest.contains('/') => (1, main),
                Some(_) => (2, ""),
            };
            let main = MAIN.iter().find(|known| **known == main).unwrap_or(&"");
            let key = (above.to_owned(), level, *main);
            found.entry(key).or_default().push(file);
        }
    }
    let group = |((above, level, main), files): ((String, usize, &str), Vec<&'s SurveyFile>)| {
        let escaped = globset::escape(&above);
        let glob = match level {
            0 => format!("{escaped}*/"),
            1 => format!("{escaped}*/{main}/"),
            _ => escaped,
        };
        let mut group = Group::new(above, level == 2, files);
        group.glob = Some(glob);
        group
    };
    found.into_iter().map(group).collect()
}

/// Gives smaller entries of the same kind a higher priority.
fn order_by_size(entries: &mut [(Tier, Tokens, ProposedEntry)]) {
    entries.sort_by_key(|(tier, tokens, _)| (*tier, *tokens));
    let mut before = None;
    let mut steps = 0;
    for (tier, _, entry) in entries {
        steps = if before == Some(*tier) { steps + 1 } else { 0 };
        before = Some(*tier);
        let hundredths = (entry.priority * 100.0).round() - f64::from(steps.min(3));
        entry.priority = hundredths / 100.0;
    }
}
