//! [`Format`]: the trait of transcript formats, and the list of all formats.

use std::path::{Path, PathBuf};

use crate::error::ImportError;
use crate::file::SourceFile;
use crate::writer::Writer;

/// The variables and the directories that the default directories depend on.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The current directory.
    pub current: Option<PathBuf>,
    /// The values of environment variables, by name.
    pub variables: Vec<(String, PathBuf)>,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        const NAMES: [&str; 5] = [
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "GEMINI_CLI_HOME",
            "OPENCODE_DATA_DIR",
            "XDG_DATA_HOME",
        ];
        let read = |name: &&str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
            Some(((*name).to_owned(), PathBuf::from(value)))
        };
        Self {
            home: std::env::home_dir(),
            current: std::env::current_dir().ok(),
            variables: NAMES.iter().filter_map(read).collect(),
        }
    }

    /// Returns the value of a variable.
    pub fn variable(&self, name: &str) -> Option<&Path> {
        let mut found = self.variables.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_path())
    }

    /// Returns a path in the home directory.
    pub(crate) fn in_home(&self, path: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(path))
    }
}

/// A format of transcripts.
pub trait Format: Sync {
    /// Returns the name of the format on the command line, such as
    /// `claude-code`.
    fn name(&self) -> &'static str;

    /// Returns the name of the program, for people.
    fn title(&self) -> &'static str;

    /// Returns the files and directories where the program keeps its
    /// transcripts. They need not exist.
    fn places(&self, environment: &Environment) -> Vec<PathBuf>;

    /// Returns true if the program has default files or directories. An export
    /// has none.
    fn has_places(&self) -> bool {
        true
    }

    /// Returns true if a file in a directory is one of the format.
    fn is_transcript(&self, path: &Path) -> bool;

    /// Returns true if a file can be read on from where an import ended. Files
    /// of other formats are read from the beginning when they have changed.
    fn grows(&self) -> bool {
        false
    }

    /// Reads a file from its current offset, and passes the results to
    /// `writer`.
    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError>;
}

/// Returns all formats.
pub fn formats() -> &'static [&'static dyn Format] {
    &[
        &crate::claude_code::ClaudeCode,
        &crate::codex::Codex,
        &crate::gemini::GeminiCli,
        &crate::opencode::OpenCode,
        &crate::chatgpt::ChatGpt,
        &crate::claude_export::ClaudeExport,
        &crate::aider::Aider,
        &crate::loomsidian::Loomsidian,
    ]
}

/// Returns the format of a name.
pub fn format(name: &str) -> Option<&'static dyn Format> {
    formats()
        .iter()
        .copied()
        .find(|format| format.name() == name)
}
