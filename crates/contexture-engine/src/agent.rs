//! [`Agent`]: the persona of an agent and its permissions.

use contexture_core::guard::Policy;
use serde::{Deserialize, Serialize};

use crate::by_file::ByFile;
use crate::error::{Error, from_yaml};
use crate::files::{self, Root};
use crate::source::Scope;

/// Who an agent is and what it may use.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    /// The name of its persona, when it has one.
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

/// Returns where a file of the operator is: where it is named, else below
/// `.agent/`.
pub fn place_of(root: &Root, path: &str) -> String {
    let below = format!(".agent/{path}");
    // What a pattern stands for shows only when it is walked: judge by where
    // it would begin.
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
/// Fails when a persona is named that has none.
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

/// What an agent may use. Names may hold `*`; what is denied is denied,
/// whatever is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// Names that are allowed. Empty: all names.
    pub allow: Vec<String>,
    /// Names that are denied.
    pub deny: Vec<String>,
}

impl Permissions {
    /// Reads the `permissions.yml` of a persona's directory, if there is one,
    /// on top of these.
    pub(crate) fn with_persona(
        mut self,
        root: &Root,
        dir: &str,
        known: &ByFile<Permissions>,
    ) -> Result<Self, Error> {
        let path = format!("{dir}/permissions.yml");
        if root.is_absent(&path) {
            return Ok(self);
        }
        let read = || {
            let text = root.read_required(&path)?;
            let hint = "write permissions as two lists of names: `allow` and `deny`";
            from_yaml(&path, &text).map_err(|error| error.advise(hint))
        };
        let more: Self = known.get(root, &path, Policy::default(), read)?;
        self.allow.extend(more.allow);
        self.deny.extend(more.deny);
        Ok(self)
    }

    /// Returns true when `name` may be used.
    pub fn allows(&self, name: &str) -> bool {
        let on = |list: &[String]| list.iter().any(|pattern| matches(pattern, name));
        !on(&self.deny) && (self.allow.is_empty() || on(&self.allow))
    }

    /// Returns true when `name` is denied by name; that it is not among what is
    /// allowed does not count.
    pub fn denies(&self, name: &str) -> bool {
        self.deny.iter().any(|pattern| matches(pattern, name))
    }

    /// Returns what is granted, for the record: what is allowed, and behind it
    /// what is not, with `!` before it.
    pub fn granted(&self) -> Vec<String> {
        let everything = ["*".to_owned()];
        let allowed = match self.allow.is_empty() {
            true => &everything[..],
            false => &self.allow,
        };
        let allowed = allowed.iter().filter(|name| !self.deny.contains(name));
        let denied = self.deny.iter().map(|name| format!("!{name}"));
        allowed.cloned().chain(denied).collect()
    }

    /// Returns the permissions as text for the system prompt.
    pub fn text(&self) -> String {
        if self.allow.is_empty() && self.deny.is_empty() {
            return String::new();
        }
        let mut text = String::from("## Permissions\n");
        for (what, names) in [("Allowed", &self.allow), ("Not allowed", &self.deny)] {
            if !names.is_empty() {
                text.push_str(&format!("\n{what}: {}", names.join(", ")));
            }
        }
        text
    }
}

/// Returns true when `name` is what `pattern` says, where `*` stands for
/// anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_value() {
        for (pattern, name, expected) in [
            ("shell", "shell", true),
            ("shell", "shell2", false),
            ("*", "", true),
            ("file_*", "file_read", true),
            ("file_*", "fil", false),
            ("*_read", "file_read", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_denied_is_denied() {
        let permissions = Permissions {
            allow: vec!["*".to_owned()],
            deny: vec!["shell".to_owned()],
        };
        assert!(permissions.allows("read"));
        assert!(!permissions.allows("shell"));
        assert!(Permissions::default().allows("anything"));
    }
}
