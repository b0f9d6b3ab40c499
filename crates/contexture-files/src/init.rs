//! Creates the first files of a new project from templates.

use std::path::Path;

use crate::error::Error;
use crate::files::Root;

/// The files that `init` created and those that existed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scaffold {
    /// Files that were written.
    pub written: Vec<String>,
    /// Files that were there already, and were left alone.
    pub kept: Vec<String>,
}

const FILES: &[(&str, &str)] = &[
    (
        ".agent/constitution.md",
        include_str!("../templates/constitution.md"),
    ),
    (
        ".agent/working-set.yml",
        include_str!("../templates/working-set.yml"),
    ),
    (".agent/hot.yml", include_str!("../templates/hot.yml")),
    (".agent/cold.yml", include_str!("../templates/cold.yml")),
    (
        "contexture.toml",
        include_str!("../templates/contexture.toml"),
    ),
];

/// Writes the first files of a project below `dir`, which is created when it
/// is not there. Files that exist are left as they are.
pub fn init(dir: &Path) -> Result<Scaffold, Error> {
    let failed = |what: &str, source: std::io::Error| {
        Error::failure(format!("cannot write {what}: {source}"), source)
            .advise("check that the directory is writable")
    };
    std::fs::create_dir_all(dir).map_err(|e| failed(&dir.display().to_string(), e))?;
    let root = Root::open(dir)?;
    let mut scaffold = Scaffold::default();
    for (path, text) in FILES {
        if root.exists(path) {
            scaffold.kept.push((*path).to_owned());
            continue;
        }
        root.write_new(path, text).map_err(|e| failed(path, e))?;
        scaffold.written.push((*path).to_owned());
    }
    Ok(scaffold)
}
