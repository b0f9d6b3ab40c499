//! Follows files that grow.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::ImportError;
use crate::format::{Environment, Format};
use crate::import::{Import, Report};

/// Repeats the import every `interval`, until `go_on` returns false. `go_on` is
/// called with the result of each import.
///
/// With a path, that file or directory is imported; otherwise the default
/// directories of the formats are.
pub fn watch(
    import: &mut Import<'_>,
    formats: &[&'static dyn Format],
    path: Option<&PathBuf>,
    environment: &Environment,
    interval: Duration,
    mut go_on: impl FnMut(Report) -> bool,
) -> Result<(), ImportError> {
    loop {
        let mut report = Report::default();
        for format in formats {
            report.add(match path {
                Some(path) => import.path(*format, path)?,
                None => import.default_places(*format, environment)?,
            });
        }
        if !go_on(report) {
            return Ok(());
        }
        std::thread::sleep(interval);
    }
}
