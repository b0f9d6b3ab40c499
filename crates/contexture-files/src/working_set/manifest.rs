//! [`Manifest`]: a `working-set.yml` that was read and checked.
//!
//! Every error names file, line, column and field. Unknown fields are
//! warnings, so that newer manifests stay readable.

use std::collections::BTreeMap;

use contexture_core::{Cut, Role, Tokens};

use contexture_engine::lines::{Lines, split_lines};
use contexture_engine::recipe::cut_named;

use crate::error::{Cause, Error};
use crate::files::{self, Root};
use crate::yaml::{Fields, Node, Source, Value};

/// The protocol a manifest names.
pub const PROTOCOL: &str = "CONTEXT-ASSEMBLY/0.1";

pub(crate) const ROLES: &[&str] = &["system", "developer", "user", "context"];
pub(crate) const STRATEGIES: &[&str] = &["never", "start", "middle", "end"];

/// The least that a file may be limited to: less would show only tags and a
/// marker.
const LEAST_MAX_TOKENS: Tokens = 100;

/// A `working-set.yml` that was read and checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// The path of the manifest, relative to the root.
    pub path: String,
    /// The tokens of the whole window. `None` if the manifest does not set it.
    pub max_tokens: Option<Tokens>,
    /// The tokens reserved for the response. `None` if the manifest does not
    /// set them.
    pub reserved_for_response: Option<Tokens>,
    /// The tokens that the manifest allows for the prompt, if that is less than
    /// the window minus the reserve.
    pub effective: Option<Tokens>,
    /// The entries, in the order of the manifest.
    pub files: Vec<Entry>,
    /// Patterns of files that patterns and directories skip.
    pub exclude: Vec<String>,
    /// The last author of the manifest.
    pub assembled_by: Option<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// One entry of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The path as written, without a line range: a file, a directory or a
    /// pattern.
    pub path: String,
    /// The range of lines. `None` for the whole file.
    pub lines: Option<Lines>,
    /// The priority, from 0 to 1.
    pub priority: f64,
    /// The role of the file in the request.
    pub role: Role,
    /// The part that may be removed if the file does not fit.
    pub cut: Cut,
    /// The maximum number of lines. `None` for no limit.
    pub max_lines: Option<u32>,
    /// The maximum number of tokens of each file, tags included. `None` for no
    /// limit.
    pub max_tokens: Option<Tokens>,
    /// The line of the entry in the manifest.
    pub line: usize,
    /// The column of its path in the manifest.
    pub column: usize,
    /// The path and range as written.
    pub written: String,
}

impl Entry {
    /// Returns the path with its line range, as written.
    pub fn id(&self) -> String {
        id_of(&self.path, self.lines)
    }

    /// Returns true when the entry is always there: whole, or the call fails.
    pub fn is_pinned(&self) -> bool {
        self.cut == Cut::Never && self.priority >= 1.0
    }

    /// Returns true when the path is a pattern.
    pub fn is_pattern(&self) -> bool {
        self.path.contains(['*', '?', '[', '{'])
    }
}

/// Returns the path of the manifest of `root`: `working-set.yml`, else
/// `.agent/working-set.yml`.
pub fn find_manifest(root: &Root) -> Result<String, Error> {
    ["working-set.yml", ".agent/working-set.yml"]
        .into_iter()
        .find(|path| !root.is_absent(path))
        .map(str::to_owned)
        .ok_or_else(|| {
            Error::input(format!(
                "no working-set.yml and no .agent/working-set.yml in {}",
                root.name()
            ))
            .because(Cause::Missing)
            .advise(crate::advice::Advice::call(
                crate::advice::Operation::CreateProject,
            ))
            .advise(crate::advice::Advice::set("manifest"))
        })
}

impl Manifest {
    /// Reads the manifest at `path` below `root`.
    pub fn read(root: &Root, path: &str) -> Result<Self, Error> {
        Self::parse(path, &Self::read_text(root, path)?)
    }

    /// Reads the text of the manifest at `path` below `root`.
    pub(crate) fn read_text(root: &Root, path: &str) -> Result<String, Error> {
        files::check_path(path).map_err(|why| Error::input(format!("the manifest {why}")))?;
        if root.is_absent(path) {
            return Err(
                Error::input(format!("no manifest `{path}` in {}", root.name()))
                    .because(Cause::Missing)
                    .advise(crate::advice::Advice::call(
                        crate::advice::Operation::CreateProject,
                    ))
                    .advise(crate::advice::Advice::set("manifest")),
            );
        }
        root.read_required(path)
    }

    /// Reads `text`, the content of the manifest at `path`.
    ///
    /// Fails with file, line, column and field for any invalid value. Unknown
    /// fields are warnings.
    pub fn parse(path: &str, text: &str) -> Result<Self, Error> {
        let source = Source { name: path };
        let documents = source.parse(text)?;
        let [root] = documents.as_slice() else {
            let start = crate::yaml::Mark { line: 1, column: 1 };
            let what = match documents.len() {
                0 => "is empty; begin it with `protocol: CONTEXT-ASSEMBLY/0.1`",
                _ => "contains more than one document",
            };
            return Err(source.error(start, "", what));
        };
        let mut fields = Fields::of(source, "", root)?;
        let mut warnings = Vec::new();
        match fields.text("protocol")? {
            Some((PROTOCOL, _)) => {}
            Some((other, mark)) => {
                return Err(fields.error(
                    mark,
                    "protocol",
                    format!("is `{other}`; only `{PROTOCOL}` is supported"),
                ));
            }
            None => warnings.push(format!(
                "{path}: `protocol` is missing; assuming `{PROTOCOL}`"
            )),
        }
        let older = fields.whole("context_budget_tokens", 1)?;
        let budget = fields
            .take("budget")
            .map(|node| read_budget(source, node, &mut warnings))
            .transpose()?
            .unwrap_or_default();
        if !fields.has("files") {
            let mark = fields.mark;
            return Err(fields
                .error(mark, "files", "is missing")
                .advise("list the files: `files: [{path: README.md, priority: 0.5}]`"));
        }
        let exclude = read_exclude(&mut fields)?;
        let files = read_files(source, fields.list("files")?, &mut warnings)?;
        let assembled_by = fields
            .take("metadata")
            .map(|node| read_metadata(source, node, &mut warnings))
            .transpose()?
            .flatten();
        warnings.extend(fields.warn_unknown());
        Ok(Self {
            path: path.to_owned(),
            max_tokens: budget.max_tokens.or(older),
            reserved_for_response: budget.reserved,
            effective: budget.effective,
            files,
            exclude,
            assembled_by,
            warnings,
        })
    }

    /// Returns the directory of the manifest, with a final slash, or an empty
    /// text for the root itself.
    pub fn dir(&self) -> &str {
        self.path.rfind('/').map_or("", |at| &self.path[..=at])
    }
}

#[derive(Default)]
struct ManifestBudget {
    max_tokens: Option<Tokens>,
    reserved: Option<Tokens>,
    effective: Option<Tokens>,
}

fn read_budget(
    source: Source<'_>,
    node: &Node,
    warnings: &mut Vec<String>,
) -> Result<ManifestBudget, Error> {
    let mut fields = Fields::of(source, "budget", node)?;
    let max_tokens = fields.whole("max_tokens", 1)?;
    let reserved = fields.whole_at("reserved_for_response", 0)?;
    let stated = fields.whole_at("effective", 1)?;
    if let (Some(max), Some((held, mark))) = (max_tokens, reserved)
        && held >= max
    {
        return Err(fields.error(
            mark,
            "reserved_for_response",
            format!("is {held}, which uses up the whole max_tokens of {max}"),
        ));
    }
    let reserved = reserved.map(|(held, _)| held);
    if let (Some(max), Some((stated, mark))) = (max_tokens, stated) {
        let effective = max - reserved.unwrap_or(0);
        if stated != effective {
            let used = stated.min(effective);
            warnings.push(format!(
                "{}:{}: budget.effective is {stated}, but {max} minus {} is {effective}; using \
                 {used}",
                source.name,
                mark.line,
                reserved.unwrap_or(0)
            ));
        }
    }
    warnings.extend(fields.warn_unknown());
    Ok(ManifestBudget {
        max_tokens,
        reserved,
        effective: stated.map(|(stated, _)| stated),
    })
}

fn read_metadata(
    source: Source<'_>,
    node: &Node,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, Error> {
    let mut fields = Fields::of(source, "metadata", node)?;
    let assembled_by = fields.text("assembled_by")?.map(|(by, _)| by.to_owned());
    for known in ["last_updated", "skill"] {
        fields.text(known)?;
    }
    // Notes are free: text or a list.
    let _ = fields.take("notes");
    warnings.extend(fields.warn_unknown());
    Ok(assembled_by)
}

fn read_exclude(fields: &mut Fields<'_>) -> Result<Vec<String>, Error> {
    let nodes = fields.list("exclude")?;
    let mut patterns = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        let key = format!("exclude[{i}]");
        let (pattern, mark) = fields.as_text(&key, node)?;
        files::check_path(pattern).map_err(|why| fields.error(mark, &key, why))?;
        super::expand::exclusion(pattern).map_err(|error| {
            let why = error.kind();
            fields.error(mark, &key, format!("`{pattern}` is not a pattern: {why}"))
        })?;
        patterns.push(pattern.to_owned());
    }
    Ok(patterns)
}

fn read_files(
    source: Source<'_>,
    nodes: &[Node],
    warnings: &mut Vec<String>,
) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::with_capacity(nodes.len());
    let mut seen = BTreeMap::new();
    for (i, node) in nodes.iter().enumerate() {
        let mut fields = Fields::of(source, format!("files[{i}]"), node)?;
        let path_node = fields.require("path")?;
        let (written, mark) = fields.as_text("path", path_node)?;
        let (path, lines) = split_lines(written).map_err(|why| fields.error(mark, "path", why))?;
        files::check_path(path).map_err(|why| {
            fields
                .error(mark, "path", why)
                .advise("move the file below the root, or choose a root above it")
        })?;
        let priority_node = fields.require("priority")?;
        let priority = read_priority(&fields, priority_node)?;
        let role = fields
            .word("role", "role", ROLES)?
            .and_then(Role::from_tag)
            .unwrap_or_default();
        let cut = fields
            .word("truncate_strategy", "strategy", STRATEGIES)?
            .map_or(Cut::End, |word| cut_named(word).unwrap_or_default());
        let max_lines = fields.whole("max_lines", 1)?;
        let max_tokens = fields.whole_at("max_tokens", LEAST_MAX_TOKENS)?;
        if let (Some((_, mark)), Cut::Never) = (max_tokens, cut) {
            return Err(fields
                .error(
                    mark,
                    "max_tokens",
                    "cannot be combined with `truncate_strategy: never`",
                )
                .advise("remove one of the two"));
        }
        warnings.extend(fields.warn_unknown());
        let entry = Entry {
            path: files::normalise(path),
            lines,
            priority,
            role,
            cut,
            max_lines: max_lines.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            max_tokens: max_tokens.map(|(max, _)| max),
            line: mark.line,
            column: mark.column,
            written: written.to_owned(),
        };
        if let Some(first) = seen.insert(entry.id(), mark.line) {
            return Err(source
                .error(
                    mark,
                    &format!("files[{i}].path"),
                    format!("`{written}` is already listed on line {first}"),
                )
                .advise("remove one of the two entries"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn read_priority(fields: &Fields<'_>, node: &Node) -> Result<f64, Error> {
    let text = match &node.value {
        Value::Scalar { text, .. } => text.as_str(),
        Value::List(_) | Value::Map(_) | Value::Null => "",
    };
    text.parse::<f64>()
        .ok()
        .filter(|priority| (0.0..=1.0).contains(priority))
        .ok_or_else(|| {
            fields.error(
                node.mark,
                "priority",
                format!("must be a number from 0 to 1, not `{text}`"),
            )
        })
}

/// Returns the name of a strategy.
pub(crate) fn cut_name(cut: Cut) -> &'static str {
    match cut {
        Cut::Never => "never",
        Cut::Start => "start",
        Cut::Middle => "middle",
        Cut::End => "end",
    }
}

/// Returns a path with its line range, written in one way only.
pub(crate) fn id_of(path: &str, lines: Option<Lines>) -> String {
    match lines {
        Some(Lines { first, last }) if first == last => format!("{path}#L{first}"),
        Some(Lines { first, last }) => format!("{path}#L{first}-L{last}"),
        None => path.to_owned(),
    }
}
