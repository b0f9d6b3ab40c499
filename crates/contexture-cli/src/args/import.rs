//! The arguments of `contexture import`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use contexture::Timestamp;
use contexture_import::formats;

use super::StoreOptions;

#[derive(Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) options: StoreOptions,
    /// Program whose files are imported [default: all programs, in their
    /// default directories]
    #[arg(value_name = "SOURCE", value_parser = names())]
    pub(crate) source: Option<String>,
    /// File or directory to import [default: the program's own directory]
    #[arg(value_name = "PATH", requires = "source")]
    pub(crate) path: Option<PathBuf>,
    /// Import again every second, until the command is stopped
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) watch: bool,
    /// Import only files that were changed since this time: RFC 3339, a date, or a span such as 12h,
    /// 7d or 2w [default: all files]
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Since>,
    /// Print what would be imported, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Import the only tenant of an archive under this name [default: its name in the archive]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["watch", "since"])]
    pub(crate) tenant: Option<String>,
}

/// The source that is an archive of another store.
pub(crate) const ARCHIVE: &str = "archive";

fn names() -> PossibleValuesParser {
    let formats = formats().iter().map(|format| format.name());
    PossibleValuesParser::new(formats.chain([ARCHIVE]))
}

/// A time, or how long ago it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Since {
    Time(Timestamp),
    SecondsAgo(i64),
}

impl Since {
    /// Returns the time.
    pub(crate) fn time(self, now: Timestamp) -> Timestamp {
        match self {
            Since::Time(time) => time,
            Since::SecondsAgo(seconds) => {
                let second = now.as_second().saturating_sub(seconds);
                Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
            }
        }
    }
}

fn since(text: &str) -> Result<Since, String> {
    let units = [('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    for (unit, seconds) in units {
        let number = text
            .strip_suffix(unit)
            .and_then(|number| number.parse::<u32>().ok());
        if let Some(number) = number {
            return Ok(Since::SecondsAgo(i64::from(number) * seconds));
        }
    }
    let of_day = format!("{text}T00:00:00Z");
    let time = text.parse().or_else(|_| of_day.parse());
    time.map(Since::Time).map_err(|_| {
        "is not a time; write 2026-11-01, 2026-11-01T10:00:00Z, 12h, 7d or 2w".to_owned()
    })
}
