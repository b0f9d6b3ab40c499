//! [`BootHeader`]: the first lines of a prompt from files.
//!
//! The header contains nothing that changes from turn to turn, because
//! providers cache from the first byte.

use std::fmt::Write as _;

use contexture_core::{ContentHash, Role};

use super::manifest::Manifest;
use crate::files::Root;

/// The first lines of every context, so that a model can orient itself without
/// reading everything.
///
/// They do not change from turn to turn: providers cache from the first byte
/// on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootHeader {
    root: String,
    constitution: Option<Constitution>,
    session: String,
    output_sink: String,
    working_set: String,
    hints: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Constitution {
    path: String,
    version: Option<String>,
    checksum: String,
}

impl BootHeader {
    /// Collects the contents of the header. `hints` are the hint files that
    /// exist.
    pub fn gather(
        root: &Root,
        manifest: &Manifest,
        hints: &[String],
        session_dir: &str,
        output_sink: &str,
        max_file_bytes: u64,
    ) -> Self {
        let agent_dir = if root.is_dir(".agent") {
            ".agent/"
        } else {
            "./"
        };
        let listed = manifest
            .files
            .iter()
            .find(|entry| entry.role == Role::System && entry.is_pinned() && !entry.is_pattern())
            .map(|entry| entry.path.clone());
        let path = listed.unwrap_or_else(|| ".agent/constitution.md".to_owned());
        let constitution = root.read(&path, max_file_bytes).ok().map(|bytes| {
            let checksum = ContentHash::of(&bytes).to_string()[..12].to_owned();
            Constitution {
                version: version(&String::from_utf8_lossy(&bytes)),
                path,
                checksum,
            }
        });
        Self {
            root: agent_dir.to_owned(),
            constitution,
            session: session_dir.to_owned(),
            output_sink: output_sink.to_owned(),
            working_set: manifest.path.clone(),
            hints: hints.to_vec(),
        }
    }

    /// Returns the header as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "Root: {}", one_line(&self.root));
        let _ = match &self.constitution {
            None => writeln!(out, "Constitution: none"),
            Some(c) => {
                let version = match &c.version {
                    Some(version) => format!("v{version}"),
                    None => "no version".to_owned(),
                };
                let path = one_line(&c.path);
                writeln!(
                    out,
                    "Constitution: {path} ({version}, checksum: {})",
                    c.checksum
                )
            }
        };
        let _ = writeln!(out, "Session: {}", one_line(&self.session));
        let _ = writeln!(
            out,
            "Output sink: {} (append-only)",
            one_line(&self.output_sink)
        );
        let _ = writeln!(out, "Working set: {}", one_line(&self.working_set));
        let hints = if self.hints.is_empty() {
            "none".to_owned()
        } else {
            one_line(&self.hints.join(", "))
        };
        let _ = writeln!(out, "Cache hints: {hints}");
        out.push_str("Tool contract: All calls require `why`");
        out
    }
}

/// A name may hold a line end; a header line may not.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Finds `version: 0.1`, `Version 0.1` or `v0.1` in the first lines.
fn version(text: &str) -> Option<String> {
    text.lines().take(12).find_map(|line| {
        let lower = line.to_ascii_lowercase();
        let words = lower.split(|c: char| c.is_whitespace() || ":*_()[]\"'#,".contains(c));
        let mut after_version = false;
        for word in words.filter(|word| !word.is_empty()) {
            let number = word.strip_prefix('v').unwrap_or(word);
            let is_number = number.starts_with(|c: char| c.is_ascii_digit())
                && number
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c));
            if is_number && (after_version || (word.starts_with('v') && number.contains('.'))) {
                return Some(number.trim_end_matches('.').to_owned());
            }
            after_version = word == "version";
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_found_where_people_write_them() {
        for (text, expected) in [
            ("# Constitution v0.1\n", Some("0.1")),
            ("---\nversion: 2.3.1\n---\n", Some("2.3.1")),
            ("**Version:** 1.0\n", Some("1.0")),
            ("# Rules\n\nBe kind. Version 7 of these.\n", Some("7")),
            ("# Rules\n\nvalue 3.5 is fine\n", None),
            ("", None),
        ] {
            assert_eq!(version(text).as_deref(), expected, "{text:?}");
        }
    }
}
