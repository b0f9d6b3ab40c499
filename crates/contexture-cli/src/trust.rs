//! `contexture trust`: trusts the settings file of a project.
//!
//! The library decides what needs trust (`contexture::trust`); this module shows
//! it and asks the library to remember it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use contexture::config::{ActiveSetting, FILE};
use contexture::trust::{SettingsFile, TrustFile};
use contexture::{Root, Timestamp};
use serde_json::json;

use crate::args::TrustArgs;
use crate::output::{self, Usage};
use crate::session::{plain, table};

pub(crate) fn run(args: &TrustArgs) -> anyhow::Result<()> {
    let list = TrustFile::of_user();
    if args.list {
        return show_list(&list, args.json);
    }
    let directory = directory(&args.root)?;
    if args.revoke {
        return revoke(&list, &directory, args.json);
    }
    let root = Root::open(&directory)?;
    let Some(file) = SettingsFile::read(&root)? else {
        let none = format!("there is no {FILE} in {}", directory.display());
        return Err(Usage(none).into());
    };
    let settings = file.config()?.active_settings(root.path());
    let path = file.path().display().to_string();
    // The effects are shown first, so that the user can still revoke the trust.
    let trusts = !args.show && !settings.is_empty();
    if !args.json {
        output::text(&effects(&path, &settings))?;
    }
    if trusts {
        list.trust(&file, Timestamp::now())?;
    }
    if args.json {
        let shown = json!({"path": path, "settings": settings, "trusted": trusts});
        return output::text(&format!("{shown:#}\n"));
    }
    if trusts {
        output::say(&format!(
            "trusted {}; a changed file must be trusted again",
            output::visible(&path)
        ));
    }
    Ok(())
}

/// Returns the effects of the settings outside the project, one per line.
pub(crate) fn effects(path: &str, settings: &[ActiveSetting]) -> String {
    let mut text = String::new();
    let path = output::visible(path);
    if settings.is_empty() {
        let _ = writeln!(text, "{path}: no setting needs trust");
        return text;
    }
    let _ = writeln!(text, "{path}:");
    for setting in settings {
        for effect in &setting.effects {
            let line = format!("{}: {effect}", setting.setting);
            let _ = writeln!(text, "  {}", output::visible(&line));
        }
    }
    text
}

/// Returns the directory of the settings file that the user named.
fn directory(path: &Path) -> anyhow::Result<PathBuf> {
    if path.file_name().is_some_and(|name| name == FILE) && !path.is_dir() {
        let parent = path.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        return Ok(parent.unwrap_or(Path::new(".")).to_owned());
    }
    if path.is_file() {
        let other = format!(
            "{} is not a {FILE}; settings are read from files of this name only",
            path.display()
        );
        return Err(Usage(other).into());
    }
    Ok(path.to_owned())
}

fn revoke(list: &TrustFile, directory: &Path, as_json: bool) -> anyhow::Result<()> {
    let revoked = list.revoke(directory)?;
    let path = directory.join(FILE).display().to_string();
    if as_json {
        return output::text(&format!(
            "{:#}\n",
            json!({"path": path, "revoked": revoked})
        ));
    }
    let path = output::visible(&path);
    match revoked {
        true => output::text(&format!("revoked {path}\n")),
        false => output::text(&format!("{path} was not trusted\n")),
    }
}

fn show_list(list: &TrustFile, as_json: bool) -> anyhow::Result<()> {
    let entries = list.entries()?;
    if as_json {
        return output::text(&format!("{:#}\n", json!(entries)));
    }
    if entries.is_empty() {
        return output::text("no trusted files\n");
    }
    let mut table = table(&["trusted", "content", "file"], &[]);
    for entry in &entries {
        table.add_row([
            format!("{:.0}", entry.trusted_at),
            entry.blake3.chars().take(12).collect(),
            output::visible(&entry.path),
        ]);
    }
    output::text(&plain(&table))
}
