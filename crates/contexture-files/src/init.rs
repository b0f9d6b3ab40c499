//! Creates the first files of a project: looks at its tree, proposes a working
//! set, and writes it with the templates around it.

mod packages;
mod propose;
mod rank;
mod render;
mod survey;

use std::path::Path;

use contexture_core::{TokenCounter, Tokens};

pub use propose::{Proposal, ProposedEntry};

use crate::error::Error;
use crate::files::Root;
use crate::working_set::find_manifest;

/// The files that `init` created and those that existed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scaffold {
    /// Files that were written.
    pub written: Vec<String>,
    /// Files that were replaced.
    pub replaced: Vec<String>,
    /// Existing files, which were not changed.
    pub kept: Vec<String>,
}

const MANIFEST: &str = ".agent/working-set.yml";

const TEMPLATES: &[(&str, &str)] = &[
    (
        propose::CONSTITUTION,
        include_str!("../templates/constitution.md"),
    ),
    (".agent/hot.yml", include_str!("../templates/hot.yml")),
    (".agent/cold.yml", include_str!("../templates/cold.yml")),
    (
        "contexture.toml",
        include_str!("../templates/contexture.toml"),
    ),
];

/// Returns the working set that suits the project below `dir`. A directory that
/// does not exist is an empty project.
///
/// `window` is the size of the model's window in tokens, which the proposed
/// budget never exceeds. Nothing is written.
pub fn propose(dir: &Path, counter: &dyn TokenCounter, window: Tokens) -> Result<Proposal, Error> {
    let (_, template) = TEMPLATES[0];
    if !dir.exists() {
        return Ok(Proposal::of_nothing(counter, window, template));
    }
    let root = Root::open(dir)?;
    let own = root.read_text(propose::CONSTITUTION, survey::HUGE_BYTES);
    let constitution = own.unwrap_or_else(|_| template.to_owned());
    propose::propose(&root, counter, window, &constitution)
}

/// Writes the first files of a project below `dir`, which is created if it does
/// not exist. Existing files are not changed; with `force`, only an existing
/// manifest is replaced.
pub fn init(
    dir: &Path,
    proposal: &Proposal,
    tokenizer: &str,
    force: bool,
) -> Result<Scaffold, Error> {
    let failed = |what: &str, source: std::io::Error| {
        Error::failure(format!("cannot write {what}: {source}"), source)
            .advise("check that the directory is writable")
    };
    std::fs::create_dir_all(dir).map_err(|e| failed(&dir.display().to_string(), e))?;
    let root = Root::open(dir)?;
    let mut scaffold = Scaffold::default();
    let mut write = |path: &str, text: &str, replace: bool| -> Result<(), Error> {
        if root.is_absent(path) {
            root.write_new(path, text).map_err(|e| failed(path, e))?;
            scaffold.written.push(path.to_owned());
        } else if replace {
            root.replace(path, text)?;
            scaffold.replaced.push(path.to_owned());
        } else {
            scaffold.kept.push(path.to_owned());
        }
        Ok(())
    };
    // A manifest in the root takes precedence.
    let manifest = find_manifest(&root).unwrap_or_else(|_| MANIFEST.to_owned());
    let (constitution, others) = TEMPLATES.split_at(1);
    for (path, text) in constitution {
        write(path, text, false)?;
    }
    write(&manifest, &render::manifest(proposal, tokenizer), force)?;
    for (path, text) in others {
        write(path, text, false)?;
    }
    Ok(scaffold)
}

/// Returns the path of the manifest of the project below `dir`, or `None`.
pub fn existing_manifest(dir: &Path) -> Option<String> {
    let root = Root::open(dir).ok()?;
    find_manifest(&root).ok()
}
