//! [`Agent`]: the persona of an agent and its permissions.

use contexture_project::{Permissions, files};

use crate::error::Error;
use crate::files::Root;
use crate::source::Scope;

/// The role and the permissions of an agent.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    /// The name of the persona. `None` if the agent has none.
    pub persona: Option<String>,
    /// The directory of its persona.
    pub persona_dir: String,
    /// The names that the agent may and may not use.
    pub permissions: Permissions,
}

impl Agent {
    pub(crate) fn find(scope: &Scope<'_>) -> Result<Self, Error> {
        let config = scope.engine.config();
        let of_session = || scope.known_session()?.persona.clone();
        let persona = of_session().or_else(|| config.persona.name.clone());
        let persona_dir = persona_dir(scope.root, &config.persona.dir, persona.as_deref())?;
        let permissions = config.permissions.clone();
        let known = &scope.engine.permissions;
        Ok(Self {
            permissions: permissions.with_persona(scope.root, &persona_dir, known)?,
            persona,
            persona_dir,
        })
    }
}

/// Returns the path of an operator's file: `path` itself if it exists, else the
/// same path below `.agent/` if that exists.
pub fn place_of(root: &Root, path: &str) -> String {
    let below = format!(".agent/{path}");
    // A pattern is not walked here: it counts as existing if the directory in
    // which it starts exists.
    let fixed = |path: &str| -> bool {
        let start = path.find(['*', '?', '[', '{']).unwrap_or(path.len());
        let directory = path[..start].rsplit_once('/').map(|(above, _)| above);
        match directory {
            Some(directory) if start < path.len() => root.is_dir(directory),
            None if start < path.len() => true,
            _ => root.exists(path),
        }
    };
    if !fixed(path) && fixed(&below) {
        below
    } else {
        path.to_owned()
    }
}

/// Returns the directory of a persona.
///
/// Fails if the named persona does not exist.
pub fn persona_dir(root: &Root, dir: &str, name: Option<&str>) -> Result<String, Error> {
    let Some(name) = name else {
        return Ok(place_of(root, "persona"));
    };
    let path = format!("{dir}/{name}");
    if name.contains('/') || files::check_path(&path).is_err() {
        return Err(Error::input(format!(
            "`{name}` is not a valid persona name"
        )));
    }
    let place = place_of(root, &path);
    if !root.is_dir(&place) {
        return Err(
            Error::input(format!("no persona `{name}`: {place} is not a directory")).advise(
                "create it, with SOUL.md and IDENTITY.md, or set persona.dir in contexture.toml",
            ),
        );
    }
    Ok(place)
}
