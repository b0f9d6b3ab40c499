//! Changes to the working set: by the model, by the orchestrator, by a person.
//!
//! All changes of a call are made, or none. The user's file keeps its comments
//! and its layout; it is replaced in one step, under a lock.

use std::fs::File;
use std::num::NonZeroU64;
use std::time::Duration;

use contexture_core::guard::is_visible;
use contexture_core::{Cut, Role};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::edit::{self, Edit, EditError};
use super::manifest::{Entry, Manifest, ROLES, STRATEGIES, cut_name, id_of};
use super::observe;
use crate::advice::{Advice, Operation};
use crate::error::{ActionCode, Error, nearest};
use crate::files::{self, Root};
use crate::yaml::{Fields, Source};
use contexture_engine::Log;
use contexture_engine::config::{self, Quota};
use contexture_engine::lines::split_lines;

/// The actor that changes the working set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The model, which may not change pinned files.
    Model,
    /// The program around it: likewise.
    Orchestrator,
    /// A person: may do anything.
    User,
}

impl Actor {
    fn name(self) -> &'static str {
        match self {
            Actor::Model => "model",
            Actor::Orchestrator => "orchestrator",
            Actor::User => "user",
        }
    }
}

/// One change to the working set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "ActionForm")]
#[cfg_attr(feature = "schema", schemars(rename = "WorkingSetAction"))]
pub struct Action {
    /// The kind of the action.
    #[serde(flatten)]
    pub what: ActionKind,
    /// The path of the file as it is in the manifest.
    pub path: String,
    /// The reason for the change. Never empty.
    pub why: String,
}

/// The kind of a change to the working set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "action", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "WorkingSetChange"))]
pub enum ActionKind {
    /// Adds a file.
    #[serde(rename = "add_to_working_set")]
    Add {
        /// The priority, from 0 to 1.
        priority: f64,
        /// Further fields of the entry, such as `role`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        fields: Vec<(String, String)>,
    },
    /// Removes a file.
    #[serde(rename = "remove_from_working_set")]
    Remove,
    /// Changes the priority of a file.
    #[serde(rename = "adjust_priority")]
    Adjust {
        /// The new priority, from 0 to 1.
        priority: f64,
    },
}

/// One change to the working set.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "action", deny_unknown_fields)]
enum ActionForm {
    /// Adds a file.
    #[serde(rename = "add_to_working_set")]
    Add {
        /// The file, relative to the root. Append `#L10-L80` to a file to
        /// include only those lines.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::RelativePath"))]
        path: String,
        /// The priority, from 0 to 1.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::Fraction")
        )]
        priority: f64,
        /// The reason why the file is added.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::NotBlank")
        )]
        why: String,
        /// The role that the content is sent as. Default: `context`. Only a
        /// person can set another role.
        #[serde(default)]
        role: Option<EntryRole>,
        /// The part of the file that a cut removes. Default: `end`.
        #[serde(default)]
        truncate_strategy: Option<Cut>,
        /// The maximum number of lines to show, 1 or more. Default: all.
        #[serde(default)]
        max_lines: Option<NonZeroU64>,
    },
    /// Removes a file.
    #[serde(rename = "remove_from_working_set")]
    Remove {
        /// The path of the file as it is in the manifest.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::RelativePath"))]
        path: String,
        /// The reason why the file is removed.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::NotBlank")
        )]
        why: String,
    },
    /// Changes the priority of a file.
    #[serde(rename = "adjust_priority")]
    Adjust {
        /// The path of the file as it is in the manifest.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::RelativePath"))]
        path: String,
        /// The new priority, from 0 to 1.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::Fraction")
        )]
        priority: f64,
        /// The reason why the priority is changed.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "contexture_core::schema::NotBlank")
        )]
        why: String,
    },
}

/// The role that a file's content is sent as.
#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum EntryRole {
    /// Instructions of the operator.
    System,
    /// Instructions of the developer.
    Developer,
    /// Messages of the user.
    User,
    /// Reference text.
    Context,
}

impl From<ActionForm> for Action {
    fn from(form: ActionForm) -> Self {
        let (what, path, why) = match form {
            ActionForm::Add {
                path,
                priority,
                why,
                role,
                truncate_strategy,
                max_lines,
            } => {
                let role = role.map(|role| match role {
                    EntryRole::System => Role::System,
                    EntryRole::Developer => Role::Developer,
                    EntryRole::User => Role::User,
                    EntryRole::Context => Role::Context,
                });
                let fields = [
                    ("role", role.map(|role| role.name().to_owned())),
                    (
                        "truncate_strategy",
                        truncate_strategy.map(|cut| cut_name(cut).to_owned()),
                    ),
                    ("max_lines", max_lines.map(|lines| lines.to_string())),
                ];
                let fields = fields.into_iter();
                let fields = fields.filter_map(|(key, value)| Some((key.to_owned(), value?)));
                let fields = fields.collect();
                (ActionKind::Add { priority, fields }, path, why)
            }
            ActionForm::Remove { path, why } => (ActionKind::Remove, path, why),
            ActionForm::Adjust {
                path,
                priority,
                why,
            } => (ActionKind::Adjust { priority }, path, why),
        };
        let why = why.trim().to_owned();
        Self { what, path, why }
    }
}

/// The result of a change to the working set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "WorkingSetChanged"))]
pub struct Changed<'a> {
    /// The manifest that was changed, relative to the root.
    pub manifest: &'a str,
    /// The changes that were made.
    pub changes: &'a [Action],
}

/// The manifest to change, with the session and the limits of the change.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The directory that all paths are relative to.
    pub root: &'a Root,
    /// The manifest, relative to the root.
    pub manifest: &'a str,
    /// The session whose log is written.
    pub session: Option<&'a str>,
    /// The limits of one call.
    pub quota: Quota,
    /// The clock.
    pub now: Timestamp,
}

const ACTIONS: &[&str] = &[
    "add_to_working_set",
    "remove_from_working_set",
    "adjust_priority",
];

/// Reads actions from YAML: one document each, or a list.
///
/// Error messages refer to the text by `name`.
pub fn parse(name: &str, text: &str) -> Result<Vec<Action>, Error> {
    let source = Source { name };
    let text = without_fences(text);
    let documents = source
        .parse(&text)
        .or_else(|error| parse_blocks(source, &text).unwrap_or(Err(error)))
        .map_err(|e| Error::action(ActionCode::InvalidArgs, e.to_string()))?;
    let mut nodes = Vec::new();
    for document in &documents {
        match &document.value {
            crate::yaml::Value::Null => {}
            crate::yaml::Value::List(items) => nodes.extend(items),
            _ => nodes.push(document),
        }
    }
    let read: Vec<Result<Action, Error>> = nodes.iter().map(|node| read(source, node)).collect();
    if read.iter().any(Result::is_err) {
        // A missing reason is reported even if other fields are wrong.
        let mut refusals = Vec::new();
        for (node, action) in nodes.into_iter().zip(read) {
            match action {
                Ok(action) => refusals.extend(missing_why(&action.path, &action.why)),
                Err(error) => {
                    let path = scalar(node, "path").unwrap_or_default();
                    let why = scalar(node, "why").unwrap_or_default();
                    let is_action = matches!(node.value, crate::yaml::Value::Map(_));
                    refusals.extend(missing_why(path, why).filter(|_| is_action));
                    refusals.push(error);
                }
            }
        }
        return Err(all_of(refusals));
    }
    let actions: Vec<Action> = read.into_iter().collect::<Result<_, _>>()?;
    if actions.is_empty() {
        return Err(Error::action(
            ActionCode::InvalidArgs,
            format!("{name} contains no action"),
        )
        .advise("write `action`, `path`, `priority` and `why`"));
    }
    Ok(actions)
}

/// Reads actions that follow each other without `---` between them, as in the
/// protocol's own example: each begins with a line `action:`.
///
/// Returns `None` if there is at most one such line.
fn parse_blocks(source: Source<'_>, text: &str) -> Option<Result<Vec<crate::yaml::Node>, Error>> {
    let mut blocks: Vec<String> = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with("action:") || blocks.is_empty() {
            // Blank lines keep the numbers of lines in messages.
            blocks.push("\n".repeat(at));
        }
        if let Some(block) = blocks.last_mut() {
            block.push_str(line);
        }
    }
    let begins = text.lines().filter(|line| line.starts_with("action:"));
    if begins.count() < 2 {
        return None;
    }
    let mut nodes = Vec::new();
    for block in blocks {
        match source.parse(&block) {
            Ok(documents) => nodes.extend(documents),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(nodes))
}

/// Returns the text of a field of a mapping.
fn scalar<'n>(node: &'n crate::yaml::Node, key: &str) -> Option<&'n str> {
    let crate::yaml::Value::Map(entries) = &node.value else {
        return None;
    };
    let text = |node: &'n crate::yaml::Node| match &node.value {
        crate::yaml::Value::Scalar { text, .. } => Some(text.as_str()),
        _ => None,
    };
    let mut entries = entries.iter();
    let (_, value) = entries.find(|(name, _)| text(name) == Some(key))?;
    text(value)
}

/// Returns the refusal of a change without a reason. A reason of blank or
/// invisible characters is none.
fn missing_why(path: &str, why: &str) -> Option<Error> {
    let says_something = |c: char| !c.is_whitespace() && is_visible(c);
    if why.chars().any(says_something) {
        return None;
    }
    let message = format!("the change to `{path}` has no reason");
    let advice = "set `why` to the reason for the change";
    Some(Error::action(ActionCode::MissingWhy, message).advise(advice))
}

/// Returns one error for all refusals of a batch. It has the code and the advice
/// of the first; a missing reason comes first.
fn all_of(mut refusals: Vec<Error>) -> Error {
    refusals.sort_by_key(|refusal| refusal.code() != Some(ActionCode::MissingWhy));
    let mut messages: Vec<String> = Vec::new();
    for refusal in &refusals {
        let message = refusal.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    let first = refusals.swap_remove(0);
    if messages.len() == 1 {
        return first;
    }
    let code = first.code().unwrap_or(ActionCode::InvalidArgs);
    let prefix = format!("{}: ", code.as_str());
    let shown = messages.len().min(MOST_REFUSALS);
    let mut message = messages[..shown].join("; also ");
    if messages.len() > shown {
        message.push_str(&format!("; and {} more", messages.len() - shown));
    }
    let message = message.strip_prefix(&prefix).unwrap_or(&message);
    let advice = first.advice().iter().cloned();
    advice.fold(Error::action(code, message), Error::advise)
}

/// The maximum number of rejections that one message lists.
const MOST_REFUSALS: usize = 20;

/// Models like to put YAML between code fences: lines of three backticks are
/// blanked, so that line numbers stay.
fn without_fences(text: &str) -> String {
    let line = |line: &str| {
        if line.trim_start().starts_with("```") {
            String::new()
        } else {
            line.to_owned()
        }
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    lines.join("\n")
}

fn read(source: Source<'_>, node: &crate::yaml::Node) -> Result<Action, Error> {
    let invalid = |e: Error| Error::action(ActionCode::InvalidArgs, e.to_string());
    let mut fields = Fields::of(source, "", node).map_err(invalid)?;
    let kind = fields
        .word("action", "action", ACTIONS)
        .map_err(invalid)?
        .ok_or_else(|| {
            let missing = fields.error(node.mark, "action", "is missing");
            invalid(missing).advise(format!("one of {}", ACTIONS.join(", ")))
        })?;
    let path = fields
        .text("path")
        .map_err(invalid)?
        .map(|(path, _)| path.to_owned())
        .ok_or_else(|| invalid(fields.error(node.mark, "path", "is missing")))?;
    let why = fields
        .text("why")
        .map_err(invalid)?
        .map(|(why, _)| why.trim().to_owned())
        .unwrap_or_default();
    let priority = fields.number("priority").map_err(invalid)?;
    let required = |fields: &Fields<'_>| {
        priority
            .map(|(priority, _)| priority)
            .ok_or_else(|| invalid(fields.error(node.mark, "priority", "is missing")))
    };
    let what = match kind {
        "add_to_working_set" => {
            let priority = required(&fields)?;
            let mut further = Vec::new();
            let words: [(&str, &str, &[&str]); 2] = [
                ("role", "role", ROLES),
                ("truncate_strategy", "strategy", STRATEGIES),
            ];
            for (key, what, known) in words {
                if let Some(word) = fields.word(key, what, known).map_err(invalid)? {
                    further.push((key.to_owned(), word.to_owned()));
                }
            }
            for key in ["max_lines", "max_tokens"] {
                if let Some(limit) = fields.whole(key, 1).map_err(invalid)? {
                    further.push((key.to_owned(), limit.to_string()));
                }
            }
            ActionKind::Add {
                priority,
                fields: further,
            }
        }
        "adjust_priority" => ActionKind::Adjust {
            priority: required(&fields)?,
        },
        _ => ActionKind::Remove,
    };
    fields
        .finish(&[
            "action",
            "path",
            "priority",
            "why",
            "role",
            "truncate_strategy",
            "max_lines",
            "max_tokens",
        ])
        .map_err(invalid)?;
    Ok(Action { what, path, why })
}

/// Applies `actions` to the manifest at `manifest`, all or none, and logs
/// them.
///
/// Returns warnings. The file is read, checked and replaced under a lock, so
/// that two writers never lose each other's changes.
pub fn apply(target: Target<'_>, actions: &[Action], actor: Actor) -> Result<Vec<String>, Error> {
    check_quota(actions, target.quota)?;
    // The settings and the store are not for models.
    let shown = match actor {
        Actor::User => target.root.clone(),
        Actor::Model | Actor::Orchestrator => {
            let root = target.root.clone().hiding(config::FILE);
            root.hiding(".contexture/contexture.db")
        }
    };
    let mut refusals = check_arguments(&shown, actions);
    if !refusals.is_empty() {
        // The plan shows further errors; nothing is changed.
        if let Ok(current) = Manifest::read(target.root, target.manifest)
            && let Err(planned) = plan(&current, actions, actor, target.quota)
        {
            refusals.extend(planned);
        }
        refusals.sort_by_key(|(at, _)| *at);
        return Err(all_of(
            refusals.into_iter().map(|(_, error)| error).collect(),
        ));
    }
    let _lock = lock(target)?;
    let warnings = prepare(target, actions, actor)?.write()?;
    let removed = actions
        .iter()
        .filter(|action| action.what == ActionKind::Remove)
        .map(|action| action.path.clone());
    observe::delete_unlisted(target.root, target.manifest, removed)?;
    Ok(warnings)
}

/// A change of a manifest that has been checked and not yet written.
pub(super) struct Prepared<'a> {
    target: Target<'a>,
    actions: &'a [Action],
    actor: Actor,
    updated: String,
}

/// Checks a change for a caller that holds the lock and has checked the
/// arguments. Nothing is written.
pub(super) fn prepare<'a>(
    target: Target<'a>,
    actions: &'a [Action],
    actor: Actor,
) -> Result<Prepared<'a>, Error> {
    let Target {
        root,
        manifest,
        quota,
        now,
        ..
    } = target;
    let source = Manifest::read_text(root, manifest)?;
    let current = Manifest::parse(manifest, &source)?;
    let mut edits = plan(&current, actions, actor, quota)
        .map_err(|refused| all_of(refused.into_iter().map(|(_, error)| error).collect()))?;
    for (key, value) in [
        ("last_updated", to_the_second(now).to_string()),
        ("assembled_by", actor.name().to_owned()),
    ] {
        edits.push(Edit::SetMetadata {
            key: key.to_owned(),
            value,
        });
    }
    let updated = edit::apply(&source, &edits).map_err(|error| match error {
        EditError::NotFound { .. } => Error::action(ActionCode::NotFound, error.to_string()),
        _ => Error::action(ActionCode::InvalidArgs, format!("{manifest}: {error}")),
    })?;
    // The result must be a valid manifest; it is checked before it is written.
    let changed = Manifest::parse(manifest, &updated)
        .map_err(|e| Error::action(ActionCode::InvalidArgs, e.to_string()))?;
    if actor != Actor::User {
        refuse_promotion(&current, &changed)?;
    }
    Ok(Prepared {
        target,
        actions,
        actor,
        updated,
    })
}

impl Prepared<'_> {
    /// Writes the manifest and logs the changes. Returns warnings.
    pub(super) fn write(self) -> Result<Vec<String>, Error> {
        let Target {
            root,
            manifest,
            session,
            now,
            ..
        } = self.target;
        root.replace(manifest, &self.updated)?;
        let log = Log::of(root, session);
        let actor = self.actor;
        let logged =
            |action| log.append(now, "working_set_updated", LoggedAction { actor, action });
        let warnings = self.actions.iter().filter_map(logged).take(1);
        Ok(warnings.map(|warning| warning.message).collect())
    }
}

/// A person reads this in their own file; the log has the fractions.
fn to_the_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[derive(Serialize)]
struct LoggedAction<'a> {
    actor: Actor,
    #[serde(flatten)]
    action: &'a Action,
}

/// A refusal, with the number of its action.
type Refusal = (usize, Error);

fn check_quota(actions: &[Action], quota: Quota) -> Result<(), Error> {
    if actions.len() > quota.max_actions {
        return Err(Error::action(
            ActionCode::QuotaExceeded,
            format!(
                "{} actions in one call; the limit is {}",
                actions.len(),
                quota.max_actions
            ),
        )
        .advise("send fewer at a time, or raise limits.max_actions in contexture.toml"));
    }
    Ok(())
}

/// Returns everything that is wrong with the arguments of the actions.
fn check_arguments(root: &Root, actions: &[Action]) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for (at, action) in actions.iter().enumerate() {
        refused.extend(missing_why(&action.path, &action.why).map(|error| (at, error)));
        if let Err(error) = check_action(root, action) {
            refused.push((at, error));
        }
    }
    refused
}

fn check_action(root: &Root, action: &Action) -> Result<(), Error> {
    let path = &action.path;
    if let ActionKind::Add { priority, .. } | ActionKind::Adjust { priority } = action.what
        && !(0.0..=1.0).contains(&priority)
    {
        return Err(Error::action(
            ActionCode::InvalidArgs,
            format!("priority of `{path}` must be from 0 to 1, not {priority}"),
        ));
    }
    let (file, _) = split_lines(path).map_err(|why| Error::action(ActionCode::InvalidArgs, why))?;
    files::check_path(file).map_err(|why| {
        Error::action(ActionCode::PermissionDenied, why)
            .advise("only files below the root can be in the working set")
    })?;
    match action.what {
        ActionKind::Add { .. } => check_file(root, file),
        _ => Ok(()),
    }
}

/// Checks that a file that is to be added can be.
fn check_file(root: &Root, file: &str) -> Result<(), Error> {
    let is_pattern = file.contains(['*', '?', '[', '{']) && root.is_absent(file);
    if is_pattern {
        // Written into the manifest, it would be an entry that can never match.
        return super::expand::pattern(file).map(drop).map_err(|why| {
            Error::action(ActionCode::InvalidArgs, format!("`{file}` {why}"))
                .advise("name a file that exists, or write a valid pattern such as `notes/*.md`")
        });
    }
    if root.is_dir(file) {
        return Ok(());
    }
    root.size(file).map(drop).map_err(|unusable| {
        let told = unusable.reason.contains(file);
        let name = if told {
            String::new()
        } else {
            format!("`{file}` ")
        };
        let message = format!("{name}{}", unusable.reason);
        match unusable.code {
            contexture_core::Code::MISSING => Error::action(ActionCode::NotFound, message),
            _ => Error::action(ActionCode::PermissionDenied, message)
                .advise("only files below the root can be in the working set"),
        }
    })
}

/// An entry as far as actions are concerned.
struct EntryState {
    id: String,
    written: String,
    pinned: bool,
}

/// Checks the actions against the existing entries, one after the other, and
/// returns the resulting edits.
fn plan(
    manifest: &Manifest,
    actions: &[Action],
    actor: Actor,
    quota: Quota,
) -> Result<Vec<Edit>, Vec<Refusal>> {
    let mut refused = Vec::new();
    let mut entries: Vec<EntryState> = manifest
        .files
        .iter()
        .map(|entry| EntryState {
            id: entry.id(),
            written: entry.written.clone(),
            pinned: entry.is_pinned(),
        })
        .collect();
    let mut edits = Vec::with_capacity(actions.len());
    for (number, action) in actions.iter().enumerate() {
        let id = canonical(&action.path);
        let at = entries.iter().position(|known| known.id == id);
        if let ActionKind::Add { priority, fields } = &action.what {
            if at.is_some() {
                let message = format!("`{id}` is already in the working set");
                let refusal = Error::action(ActionCode::InvalidArgs, message)
                    .advise(Advice::call_on(Operation::AdjustPriority, &id));
                refused.push((number, refusal));
                continue;
            }
            edits.push(Edit::Add {
                path: id.clone(),
                priority: *priority,
                fields: fields.clone(),
            });
            entries.push(EntryState {
                written: id.clone(),
                id,
                pinned: false,
            });
            continue;
        }
        let Some(at) = at else {
            let (message, hint) = not_an_entry(&id, &entries);
            let refusal = Error::action(ActionCode::NotFound, message).advise(hint);
            refused.push((number, refusal));
            continue;
        };
        if entries[at].pinned && actor != Actor::User {
            let message = format!("`{id}` is pinned; only a person can change it");
            refused.push((number, Error::action(ActionCode::PermissionDenied, message)));
            continue;
        }
        let path = entries[at].written.clone();
        edits.push(match action.what {
            ActionKind::Adjust { priority } => Edit::SetPriority { path, priority },
            _ => {
                entries.remove(at);
                Edit::Remove { path }
            }
        });
    }
    if entries.len() > quota.max_entries && entries.len() > manifest.files.len() {
        let limit = quota.max_entries;
        let message = format!("the working set is full: the limit is {limit} entries");
        let refusal = Error::action(ActionCode::QuotaExceeded, message)
            .advise("remove some first, or raise limits.max_entries in contexture.toml");
        refused.push((actions.len(), refusal));
    }
    match refused.is_empty() {
        true => Ok(edits),
        false => Err(refused),
    }
}

/// Rejects a change that would give a model another role, or pin a file so that
/// the model cannot remove it.
///
/// The manifests before and after the change are compared, so that no way to do
/// it is missed.
fn refuse_promotion(before: &Manifest, behind: &Manifest) -> Result<(), Error> {
    let mut refused = Vec::new();
    for entry in &behind.files {
        let id = entry.id();
        let known = before.files.iter().find(|known| known.id() == id);
        let was_pinned = known.is_some_and(Entry::is_pinned);
        let what = if entry.is_pinned() && !was_pinned {
            "would be pinned"
        } else if known.is_none() && entry.role != Role::Context {
            "would get another role"
        } else {
            continue;
        };
        let message = format!("`{id}` {what}; only a person can do that");
        refused.push(Error::action(ActionCode::PermissionDenied, message));
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(all_of(refused)),
    }
}

/// Returns the error for a path that is not an entry. A file that only a
/// pattern matches has no entry of its own.
fn not_an_entry(id: &str, entries: &[EntryState]) -> (String, Advice) {
    let pattern = entries.iter().find(|known| {
        let glob = super::expand::pattern(&known.id);
        glob.is_ok_and(|glob| glob.compile_matcher().is_match(id))
    });
    if let Some(pattern) = pattern {
        let pattern = &pattern.id;
        let message = format!("`{id}` has no entry of its own; the pattern `{pattern}` matches it");
        let hint = format!(
            "add `{id}` to give the file its own entry, or name `{pattern}` to change all files \
             of the pattern"
        );
        return (message, Advice::from(hint));
    }
    let hint = match nearest(id, entries.iter().map(|known| known.id.as_str())) {
        Some(near) => Advice::from(format!("did you mean `{near}`?")),
        None => Advice::call(Operation::ListWorkingSet),
    };
    (format!("`{id}` is not in the working set"), hint)
}

/// Returns a path as entries are compared: without `./`, its range written in
/// one way.
fn canonical(path: &str) -> String {
    match split_lines(path) {
        Ok((file, lines)) => id_of(&files::normalise(file), lines),
        Err(_) => files::normalise(path),
    }
}

/// Waits for the lock of a manifest, at most five seconds.
pub(super) fn lock(target: Target<'_>) -> Result<File, Error> {
    let Target { root, manifest, .. } = target;
    // A missing manifest is reported as such, not as a failed lock.
    Manifest::read_text(root, manifest)?;
    let failed = |source: std::io::Error| {
        Error::failure(
            format!("cannot lock the directory of {manifest}: {source}"),
            source,
        )
    };
    let dir = root.open_dir_of(manifest).map_err(failed)?;
    for _ in 0..100 {
        match dir.try_lock() {
            Ok(()) => return Ok(dir),
            Err(std::fs::TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
    Err(Error::failure(
        format!("{manifest} has been locked by another process for five seconds"),
        std::io::Error::from(std::io::ErrorKind::WouldBlock),
    )
    .advise("retry, or stop that process"))
}
