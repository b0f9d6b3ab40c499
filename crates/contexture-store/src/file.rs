//! Files of a tenant that are kept in the store: personas, tools, permissions,
//! recipes and working sets, for servers that share no directory.

use contexture_core::ContentHash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// The maximum length of a stored file's path, in bytes.
pub const MAX_PATH_BYTES: usize = 500;

/// The maximum size of a stored file, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// The maximum number of files that a tenant can store.
pub const MAX_FILES: usize = 1000;

/// A file in the store, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoredFile {
    /// The path, relative to the tenant's root, with `/` between its parts.
    pub path: String,
    /// The hash of the content.
    pub hash: ContentHash,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of the change of the tenant's files that stored this content.
    pub revision: u64,
    /// The time when the content was stored.
    pub updated_at: Timestamp,
}

/// The state that a caller expects of a file that it changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExpectedFile {
    /// Anything: the last writer wins.
    #[default]
    Any,
    /// The file does not exist.
    Absent,
    /// The file has this content.
    Hash(ContentHash),
}

impl ExpectedFile {
    /// Returns true if `found`, the hash of the current content or `None` for
    /// no file, is the expected state.
    pub fn accepts(&self, found: Option<ContentHash>) -> bool {
        match self {
            ExpectedFile::Any => true,
            ExpectedFile::Absent => found.is_none(),
            ExpectedFile::Hash(hash) => found == Some(*hash),
        }
    }
}

/// Stores the files of a tenant.
pub trait Files: Send + Sync {
    /// Returns the number of the latest change of the tenant's files. 0 when no
    /// file was ever stored.
    fn files_revision(&self) -> Result<u64, StoreError>;

    /// Returns all files, sorted by path.
    fn files(&self) -> Result<Vec<StoredFile>, StoreError>;

    /// Returns a file with its content. `None` if there is none.
    fn file(&self, path: &str) -> Result<Option<(StoredFile, Vec<u8>)>, StoreError>;

    /// Stores the content of a file. The same content again changes nothing.
    ///
    /// Fails with [`StoreError::FileChanged`] if the file is not in the
    /// expected state, and with [`StoreError::Invalid`] if the path is not
    /// [valid](check_file_path), or a limit is exceeded.
    fn put_file(
        &self,
        path: &str,
        content: &[u8],
        expected: ExpectedFile,
        now: Timestamp,
    ) -> Result<StoredFile, StoreError>;

    /// Deletes a file.
    ///
    /// Fails with [`StoreError::NotFound`] if it does not exist, and with
    /// [`StoreError::FileChanged`] if it is not in the expected state.
    fn delete_file(
        &self,
        path: &str,
        expected: ExpectedFile,
        now: Timestamp,
    ) -> Result<(), StoreError>;
}

/// Checks the path of a stored file: relative, with `/` between its parts, and
/// without parts that leave the root or that a file system treats specially.
pub fn check_file_path(path: &str) -> Result<(), StoreError> {
    let wrong = |message: String| Err(StoreError::invalid("path", message));
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return wrong(format!("must have 1 to {MAX_PATH_BYTES} bytes"));
    }
    if path.chars().any(char::is_control) || path.contains(['\\', ':']) {
        return wrong("must not contain control characters, `\\` or `:`".to_owned());
    }
    for part in path.split('/') {
        let message = match part {
            "" => "must be relative, with one `/` between its parts",
            "." | ".." => "must not contain `.` or `..` as a part",
            part if part.ends_with(['.', ' ']) => "must not have a part that ends in `.` or ` `",
            part if part.eq_ignore_ascii_case(".contexture")
                || part.eq_ignore_ascii_case(".git") =>
            {
                "must not be inside `.contexture` or `.git`"
            }
            _ => continue,
        };
        return wrong(message.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        for path in [".agent/working-set.yml", "persona/SOUL.md", "a", "ä/🦀.md"] {
            check_file_path(path).unwrap();
        }
        let long = "x".repeat(MAX_PATH_BYTES + 1);
        for path in [
            "",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "a\\b",
            "c:/a",
            "a\0b",
            "a\nb",
            ".contexture/x",
            "a/.git/config",
            ".GIT/x",
            "a./b",
            "a /b",
            &long,
        ] {
            let error = check_file_path(path).unwrap_err();
            assert!(error.to_string().starts_with("path: "), "{path}: {error}");
        }
    }
}
