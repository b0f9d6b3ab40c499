//! [`Permissions`]: the names that an agent may use.

use contexture_core::guard::Policy;
use serde::{Deserialize, Serialize};

use crate::by_file::ByFile;
use crate::error::Error;
use crate::files::Root;
use crate::yaml::{self, Fields, Source, Value};

/// The permissions of an agent. Names may contain `*`. A denied name is denied
/// even if it is also allowed.
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
    pub fn with_persona(
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
            Self::parse(&path, &text).map_err(|error| error.advise(hint))
        };
        let more: Self = known.get(root, &path, Policy::default(), read)?;
        self.allow.extend(more.allow);
        self.deny.extend(more.deny);
        Ok(self)
    }

    fn parse(path: &str, text: &str) -> Result<Self, Error> {
        let document = yaml::document(path, text)?;
        if document.value == Value::Null {
            return Ok(Self::default());
        }
        let mut fields = Fields::of(Source { name: path }, "", &document)?;
        let mut names = |key| {
            let list = fields.list(key)?.iter();
            list.map(|name| Ok(fields.as_text(key, name)?.0.to_owned()))
                .collect::<Result<_, Error>>()
        };
        let (allow, deny) = (names("allow")?, names("deny")?);
        fields.finish(&["allow", "deny"])?;
        Ok(Self { allow, deny })
    }

    /// Returns true when `name` may be used.
    pub fn allows(&self, name: &str) -> bool {
        let on = |list: &[String]| list.iter().any(|pattern| matches(pattern, name));
        !on(&self.deny) && (self.allow.is_empty() || on(&self.allow))
    }

    /// Returns true if a deny rule matches `name`. A missing allow rule does
    /// not count.
    pub fn denies(&self, name: &str) -> bool {
        self.deny.iter().any(|pattern| matches(pattern, name))
    }

    /// Returns the permissions for the record: the allowed names, then the
    /// denied ones, each with `!` before it.
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

/// Returns true if `name` matches `pattern`, in which `*` matches any text.
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
    fn denied_items_are_not_shown() {
        let permissions = Permissions {
            allow: vec!["*".to_owned()],
            deny: vec!["shell".to_owned()],
        };
        assert!(permissions.allows("read"));
        assert!(!permissions.allows("shell"));
        assert!(Permissions::default().allows("anything"));
    }
}
