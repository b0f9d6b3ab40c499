//! Trust in a project's `contexture.toml`.
//!
//! A project can come from another author. Settings that act outside of it
//! ([`ActiveSetting`]: commands, endpoints, keys from environment variables,
//! paths outside the root, access to a server) are inactive until the user has
//! trusted the file. Trust applies to one content at one path: the BLAKE3 hash
//! of the file's bytes and the real path of its directory. A changed or moved
//! file must be trusted again.
//!
//! [`TrustFile`] is the user's list of trusted files. [`Settings::read`] reads
//! the settings of a root and leaves out those that are not trusted. A program
//! that builds its own [`Config`] needs none of this.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use contexture_core::ContentHash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advice::{Advice, Operation, Warning};
use crate::config::{ActiveSetting, Config, FILE};
use crate::error::Error;
use crate::files::{Root, replace_private_file};

/// The environment variable that names the list of trusted files.
pub const VARIABLE: &str = "CONTEXTURE_TRUST_FILE";

/// The largest list of trusted files that is read.
const MAX_BYTES: u64 = 16 << 20;

/// The settings of a root: those of its `contexture.toml` that may be active.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The settings, without the inactive ones.
    pub config: Config,
    /// The settings that act outside the project and are active.
    pub active: Vec<ActiveSetting>,
    /// The settings that are inactive.
    pub inactive: Vec<ActiveSetting>,
    /// Whether the file is trusted.
    pub trust: Trust,
    /// The root as the caller named it.
    pub root: PathBuf,
}

/// Whether a `contexture.toml` is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// The file has no setting that needs trust, or does not exist.
    NotNeeded,
    /// The user has trusted this content.
    Trusted,
    /// The user has not trusted the file.
    Untrusted,
    /// The user has trusted the file with another content.
    Changed,
    /// The list of trusted files cannot be used, and why.
    Unknown(String),
    /// The file cannot be trusted: the settings belong to the operator of a
    /// server.
    Refused,
}

impl Settings {
    /// Reads the settings of `root`, and leaves out those that act outside the
    /// project unless `list` holds the file with its content.
    ///
    /// A list that cannot be read trusts nothing; that is not an error.
    pub fn read(root: &Root, list: &TrustFile) -> Result<Self, Error> {
        let Some(file) = SettingsFile::read(root)? else {
            return Ok(Self::of(root, Config::default()));
        };
        let mut settings = Self::of(root, file.config()?);
        let (restricted, inactive) = settings.config.clone().restricted(root.path(), &[]);
        if inactive.is_empty() {
            return Ok(settings);
        }
        settings.trust = list.state(&file);
        match settings.trust {
            Trust::Trusted => settings.active = inactive,
            _ => (settings.config, settings.inactive) = (restricted, inactive),
        }
        Ok(settings)
    }

    /// Reads the settings of a tenant's root. Settings that act outside the
    /// project are active only when the operator's own settings have the same.
    pub fn of_tenant(root: &Root, operator: &[ActiveSetting]) -> Result<Self, Error> {
        let mut settings = Self::of(root, Config::read(root)?);
        let (config, inactive) = settings.config.restricted(root.path(), operator);
        (settings.config, settings.inactive) = (config, inactive);
        settings.active = settings.config.active_settings(root.path());
        if !settings.inactive.is_empty() {
            settings.trust = Trust::Refused;
        }
        Ok(settings)
    }

    fn of(root: &Root, config: Config) -> Self {
        Self {
            config,
            active: Vec::new(),
            inactive: Vec::new(),
            trust: Trust::NotNeeded,
            root: root.path().to_owned(),
        }
    }

    /// Returns a warning about the settings that are inactive.
    pub fn warning(&self) -> Option<Warning> {
        let names = names(&self.inactive);
        let are = match self.inactive.len() {
            0 => return None,
            1 => "is",
            _ => "are",
        };
        let why = match &self.trust {
            Trust::Changed => format!("{FILE} changed since you trusted it"),
            Trust::Unknown(why) => format!("{FILE} is not trusted ({why})"),
            Trust::Refused => format!("the {FILE} of a tenant cannot activate every setting"),
            _ => format!("{FILE} is not trusted"),
        };
        let warning = Warning::new(
            "settings_inactive",
            format!("{why}: {names} {are} inactive"),
        );
        Some(match &self.trust {
            Trust::Refused => warning.advise("the operator of the server can set them"),
            _ => warning.advise(match self.root.as_path() == Path::new(".") {
                true => Advice::call(Operation::TrustSettings),
                false => Advice::call_on(Operation::TrustSettings, self.root.display().to_string()),
            }),
        })
    }
}

/// Returns the names of settings, each once, with commas between them.
pub fn names(settings: &[ActiveSetting]) -> String {
    let mut names: Vec<String> = settings
        .iter()
        .map(|one| format!("`{}`", one.setting))
        .collect();
    names.dedup();
    names.join(", ")
}

/// The content of a `contexture.toml`.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    path: PathBuf,
    hash: ContentHash,
    text: String,
}

impl SettingsFile {
    /// Reads the file of `root`. Returns `None` if there is none.
    pub fn read(root: &Root) -> Result<Option<Self>, Error> {
        if root.is_absent(FILE) {
            return Ok(None);
        }
        let text = root.read_required(FILE)?;
        Ok(Some(Self {
            path: place(root.path())?,
            hash: ContentHash::of(text.as_bytes()),
            text,
        }))
    }

    /// Returns the path that trust is for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the settings of the file, all of them.
    pub fn config(&self) -> Result<Config, Error> {
        Config::parse(&self.text)
    }
}

/// Returns the path of the `contexture.toml` in a directory.
///
/// The directory's real path is used, because paths and commands in the file
/// are relative to it. If the file itself is a symbolic link, the link is not
/// resolved: the content is hashed.
fn place(root: &Path) -> Result<PathBuf, Error> {
    let real = root.canonicalize().map_err(|error| {
        Error::input(format!("cannot open {}: {error}", root.display()))
            .advise("name an existing directory")
    })?;
    Ok(real.join(FILE))
}

/// One trusted file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path of the file.
    pub path: String,
    /// The BLAKE3 hash of its bytes, in hexadecimal digits.
    pub blake3: String,
    /// The time at which it was trusted.
    pub trusted_at: Timestamp,
}

/// The user's list of trusted files: one JSON object per line, readable by its
/// owner only.
#[derive(Debug, Clone)]
pub struct TrustFile {
    path: Result<PathBuf, String>,
}

impl TrustFile {
    /// Returns the list at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Ok(path.into()),
        }
    }

    /// Returns the list of the user who runs this process: the file in
    /// `CONTEXTURE_TRUST_FILE`, else `contexture/trusted` in `XDG_DATA_HOME` or
    /// `~/.local/share`.
    pub fn of_user() -> Self {
        Self::of_environment(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn of_environment(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
        if let Some(path) = set(VARIABLE) {
            return Self::at(path);
        }
        // A relative directory would let every project bring its own list.
        let absolute = |name: &str| set(name).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME")
            .or_else(|| Some(absolute("HOME")?.join(".local").join("share")))
            .or_else(|| absolute("LOCALAPPDATA"));
        Self {
            path: data
                .map(|data| data.join("contexture").join("trusted"))
                .ok_or_else(|| format!("neither HOME nor {VARIABLE} is set")),
        }
    }

    /// Returns the path of the list.
    pub fn path(&self) -> Result<&Path, Error> {
        self.path.as_deref().map_err(|why| {
            Error::input(format!("there is no list of trusted files: {why}"))
                .advise(format!("set {VARIABLE} to a path"))
        })
    }

    /// Returns the trusted files, in the order in which they were trusted. A
    /// list that does not exist is empty.
    ///
    /// Fails when the list cannot be read, is damaged, or can be written by
    /// other users.
    pub fn entries(&self) -> Result<Vec<Entry>, Error> {
        let path = self.path()?;
        let shown = path.display();
        let failed = |error: std::io::Error| {
            Error::failure(
                format!("cannot read the list of trusted files {shown}: {error}"),
                error,
            )
        };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() || meta.len() > MAX_BYTES {
            return Err(Error::input(format!(
                "{shown} is not a list of trusted files"
            )));
        }
        #[cfg(unix)]
        if std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o022 != 0 {
            return Err(Error::input(format!(
                "other users can write the list of trusted files {shown}"
            ))
            .advise(format!("check the list, then run `chmod 600 {shown}`")));
        }
        let mut text = String::new();
        std::io::Read::by_ref(&mut file)
            .take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let lines = text.lines().enumerate();
        let entries = lines.filter(|(_, line)| !line.trim().is_empty());
        entries
            .map(|(at, line)| {
                serde_json::from_str(line).map_err(|error| {
                    Error::input(format!("{shown}:{}: not a trusted file: {error}", at + 1))
                        .advise("remove the line, then trust the file again")
                })
            })
            .collect()
    }

    /// Returns whether a file is trusted.
    fn state(&self, file: &SettingsFile) -> Trust {
        let entries = match self.entries() {
            Ok(entries) => entries,
            Err(error) => return Trust::Unknown(error.to_string()),
        };
        let path = file.path.to_str();
        let known = entries.iter().find(|entry| Some(&*entry.path) == path);
        match known {
            None => Trust::Untrusted,
            Some(entry) if entry.blake3 == file.hash.to_string() => Trust::Trusted,
            Some(_) => Trust::Changed,
        }
    }

    /// Trusts a file with the content that was read.
    pub fn trust(&self, file: &SettingsFile, now: Timestamp) -> Result<(), Error> {
        let Some(path) = file.path.to_str() else {
            return Err(Error::input(format!(
                "cannot trust {}: the path is not UTF-8",
                file.path.display()
            )));
        };
        self.change(|entries| {
            entries.retain(|entry| entry.path != path);
            entries.push(Entry {
                path: path.to_owned(),
                blake3: file.hash.to_string(),
                trusted_at: now,
            });
            true
        })
        .map(drop)
    }

    /// Revokes the trust in the `contexture.toml` of a directory, which need
    /// not exist any more. Returns false when it was not trusted.
    pub fn revoke(&self, directory: &Path) -> Result<bool, Error> {
        let path = match place(directory) {
            Ok(path) => path,
            // The directory no longer exists: its entry has its last path.
            Err(_) => std::path::absolute(directory)
                .unwrap_or_else(|_| directory.to_owned())
                .join(FILE),
        };
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|entry| Path::new(&entry.path) != path);
            entries.len() < before
        })
    }

    /// Changes the list under a lock, so that two processes do not lose each
    /// other's changes. The list is written if `change` returns true. Returns
    /// that result.
    fn change(&self, change: impl FnOnce(&mut Vec<Entry>) -> bool) -> Result<bool, Error> {
        let path = self.path()?;
        let failed = |error: std::io::Error| {
            let shown = path.display();
            Error::failure(
                format!("cannot write the list of trusted files {shown}: {error}"),
                error,
            )
            .advise(format!("set {VARIABLE} to a path that you can write"))
        };
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(parent).map_err(failed)?;
        // The directory is locked, because the file itself is replaced. Not
        // every system can open a directory.
        let lock = File::open(parent).ok();
        if let Some(lock) = &lock {
            lock.lock().map_err(failed)?;
        }
        let mut entries = self.entries()?;
        if !change(&mut entries) {
            return Ok(false);
        }
        let mut text = String::new();
        for entry in &entries {
            let line = serde_json::to_string(entry)
                .map_err(|error| failed(std::io::Error::other(error)))?;
            text.push_str(&line);
            text.push('\n');
        }
        replace_private_file(path, text.as_bytes()).map_err(failed)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: &str = "model = 'gpt-4o-mini'\n[environment]\ncommand = ['true']\n";

    struct Lab {
        dir: tempfile::TempDir,
        list: TrustFile,
    }

    impl Lab {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("project")).unwrap();
            let list = TrustFile::at(dir.path().join("data/contexture/trusted"));
            let lab = Self { dir, list };
            lab.write(COMMAND);
            lab
        }

        fn project(&self) -> PathBuf {
            self.dir.path().join("project")
        }

        fn write(&self, text: &str) {
            std::fs::write(self.project().join(FILE), text).unwrap();
        }

        fn root(&self) -> Root {
            Root::open(self.project()).unwrap()
        }

        fn trust(&self) {
            let file = SettingsFile::read(&self.root()).unwrap().unwrap();
            self.list.trust(&file, Timestamp::UNIX_EPOCH).unwrap();
        }

        fn state(&self) -> Trust {
            Settings::read(&self.root(), &self.list).unwrap().trust
        }
    }

    #[test]
    fn a_file_is_trusted_with_its_content_until_it_is_revoked() {
        let lab = Lab::new();
        let settings = Settings::read(&lab.root(), &lab.list).unwrap();
        assert_eq!(settings.trust, Trust::Untrusted);
        assert_eq!(settings.config.environment.command, [""; 0]);
        assert_eq!(settings.config.model, "gpt-4o-mini");
        let message = "contexture.toml is not trusted: `environment.command` is inactive";
        let warning = settings.warning().unwrap();
        assert_eq!(warning, message);
        assert_eq!(warning.code, "settings_inactive");

        lab.trust();
        let settings = Settings::read(&lab.root(), &lab.list).unwrap();
        assert_eq!(settings.trust, Trust::Trusted);
        assert_eq!(settings.config.environment.command, ["true"]);
        assert_eq!((settings.active.len(), settings.inactive.len()), (1, 0));
        assert_eq!(settings.warning(), None);

        lab.write(&format!("{COMMAND}# changed\n"));
        assert_eq!(lab.state(), Trust::Changed);
        lab.write(COMMAND);
        assert_eq!(lab.state(), Trust::Trusted);
        assert!(lab.list.revoke(&lab.project()).unwrap());
        assert!(!lab.list.revoke(&lab.project()).unwrap());
        assert_eq!(lab.state(), Trust::Untrusted);

        lab.write("model = 'gpt-4o-mini'\n");
        assert_eq!(lab.state(), Trust::NotNeeded);
    }

    #[test]
    fn a_copy_elsewhere_is_not_trusted() {
        let lab = Lab::new();
        lab.trust();
        let copy = lab.dir.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(lab.project().join(FILE), copy.join(FILE)).unwrap();
        let root = Root::open(copy).unwrap();
        let settings = Settings::read(&root, &lab.list).unwrap();
        assert_eq!(settings.trust, Trust::Untrusted);
        // A project that moved away can still be revoked by the path it had.
        let project = lab.project().canonicalize().unwrap();
        std::fs::rename(lab.project(), lab.dir.path().join("moved")).unwrap();
        assert!(lab.list.revoke(&project).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_the_same_root_and_content_counts() {
        let lab = Lab::new();
        let link = lab.dir.path().join("link");
        std::os::unix::fs::symlink(lab.project(), &link).unwrap();
        lab.trust();
        let through = Root::open(&link).unwrap();
        let state = Settings::read(&through, &lab.list).unwrap().trust;
        assert_eq!(state, Trust::Trusted);

        // The file is a link to another one below the root.
        let (file, other) = (lab.project().join(FILE), lab.project().join("other.toml"));
        std::fs::rename(&file, &other).unwrap();
        std::os::unix::fs::symlink("other.toml", &file).unwrap();
        assert_eq!(lab.state(), Trust::Trusted);
        std::fs::write(&other, format!("{COMMAND}\n")).unwrap();
        assert_eq!(lab.state(), Trust::Changed);

        // A link out of the root is not read at all.
        let outside = lab.dir.path().join("outside.toml");
        std::fs::write(&outside, COMMAND).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(outside, &file).unwrap();
        Settings::read(&lab.root(), &lab.list).unwrap_err();
    }

    #[test]
    fn a_list_that_cannot_be_used_trusts_nothing() {
        let lab = Lab::new();
        lab.trust();
        let path = lab.list.path().unwrap().to_owned();
        let good = std::fs::read(&path).unwrap();
        let unknown = || match lab.state() {
            Trust::Unknown(why) => why,
            other => panic!("{other:?}"),
        };
        std::fs::write(&path, [&good[..], b"{}\n"].concat()).unwrap();
        assert!(unknown().contains("trusted:2: not a trusted file"));
        std::fs::write(&path, b"\xff\xfe").unwrap();
        assert!(unknown().contains("cannot read"));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        unknown();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(lab.state(), Trust::Untrusted);
        let nowhere = TrustFile::of_environment(|_| None);
        let settings = Settings::read(&lab.root(), &nowhere).unwrap();
        assert!(matches!(settings.trust, Trust::Unknown(_)));
        assert!(settings.config.environment.command.is_empty());
        nowhere.entries().unwrap_err();
    }

    #[cfg(unix)]
    #[test]
    fn the_list_is_private_and_one_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let lab = Lab::new();
        lab.trust();
        let path = lab.list.path().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o620)).unwrap();
        assert!(matches!(lab.state(), Trust::Unknown(_)));
    }

    #[test]
    fn the_list_lies_in_the_users_data() {
        let list = |variables: &[(&str, &str)]| {
            let variables = variables.to_vec();
            let list = TrustFile::of_environment(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            });
            list.path.map(|path| path.display().to_string())
        };
        let usual = "/home/a/.local/share/contexture/trusted";
        for (variables, expected) in [
            (&[("HOME", "/home/a")][..], usual),
            (&[("HOME", "/home/a"), ("XDG_DATA_HOME", "")], usual),
            (&[("HOME", "/home/a"), ("XDG_DATA_HOME", "here")], usual),
            (
                &[("HOME", "/home/a"), ("XDG_DATA_HOME", "/d")],
                "/d/contexture/trusted",
            ),
            (&[("HOME", "/home/a"), (VARIABLE, "mine")], "mine"),
        ] {
            assert_eq!(list(variables).as_deref(), Ok(expected));
        }
        list(&[("HOME", "")]).unwrap_err();
    }

    #[test]
    fn many_writers_lose_nothing() {
        let lab = Lab::new();
        std::thread::scope(|scope| {
            for i in 0..8 {
                let (lab, list) = (&lab, lab.list.clone());
                scope.spawn(move || {
                    let root = lab.dir.path().join(format!("p{i}"));
                    std::fs::create_dir(&root).unwrap();
                    std::fs::write(root.join(FILE), COMMAND).unwrap();
                    let root = Root::open(root).unwrap();
                    let file = SettingsFile::read(&root).unwrap().unwrap();
                    list.trust(&file, Timestamp::UNIX_EPOCH).unwrap();
                });
            }
        });
        assert_eq!(lab.list.entries().unwrap().len(), 8);
    }

    #[test]
    fn a_tenant_has_what_the_operator_has_and_nothing_else() {
        let lab = Lab::new();
        let settings = Settings::of_tenant(&lab.root(), &[]).unwrap();
        assert_eq!(settings.trust, Trust::Refused);
        assert!(settings.config.environment.command.is_empty());
        let operator = Config::parse(COMMAND).unwrap();
        let operator = operator.active_settings(&lab.project());
        let settings = Settings::of_tenant(&lab.root(), &operator).unwrap();
        assert_eq!(settings.trust, Trust::NotNeeded);
        assert_eq!(settings.config.environment.command, ["true"]);
    }
}
