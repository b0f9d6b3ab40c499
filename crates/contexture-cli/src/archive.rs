//! `contexture export` and `contexture import archive`: portable archives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::path::Path;

use contexture::archive::{self, Imported, Summary};
use contexture::key::{check_tenant, tenant_of};
use contexture::store::{StoreError, Tenants};
use contexture::{Error, Timestamp};

use crate::args::{ExportArgs, ImportArgs, StoreOptions};
use crate::session::show;
use crate::{output, progress, store};

const MAKER: &str = "contexture session new LABEL";

pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let options = &args.options;
    let stores = store::tenants(options, false, MAKER)?;
    write(&*stores, &args.archive, args.tenant.as_deref(), options)
}

/// Writes an archive of all tenants, or of one.
pub(crate) fn write(
    stores: &dyn Tenants,
    target: &Path,
    tenant: Option<&str>,
    options: &StoreOptions,
) -> anyhow::Result<()> {
    if let Some(tenant) = tenant {
        check_tenant(tenant)?;
    }
    let now = options.now.unwrap_or_else(Timestamp::now);
    if target == Path::new("-") {
        if io::stdout().is_terminal() {
            let message = "an archive is not text; name a file, or pipe the output";
            return Err(output::Usage(message.to_owned()).into());
        }
        let out = io::BufWriter::new(io::stdout().lock());
        archive::export(stores, tenant, out, now).map_err(Error::from)?;
        return Ok(());
    }
    let written = to_file(target, |file| archive::export(stores, tenant, file, now))?;
    let told = format!("exported {} to {}", counted(&written), target.display());
    show(options, &written, &told)
}

/// Writes a new file, which only its owner can read. A file that is not whole is
/// removed.
fn to_file(
    target: &Path,
    write: impl FnOnce(&File) -> Result<Summary, StoreError>,
) -> anyhow::Result<Summary> {
    let mut open = OpenOptions::new();
    open.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    let file = open.open(target).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            output::Usage(format!("{} exists; name a new file", target.display()))
        }
        _ => output::Usage(format!("cannot create {}: {error}", target.display())),
    })?;
    let work = || {
        let written = write(&file).map_err(Error::from)?;
        let failed = |error| Error::input(format!("{}: {error}", target.display()));
        file.sync_all().map_err(failed)?;
        Ok::<_, Error>(written)
    };
    let written = match io::stderr().is_terminal() {
        true => progress::with_spinner("exporting", work),
        false => work(),
    };
    if written.is_err() {
        let _ = fs::remove_file(target);
    }
    Ok(written?)
}

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let options = &args.options;
    let Some(path) = &args.path else {
        let message = "name the archive: `contexture import archive FILE`";
        return Err(output::Usage(message.to_owned()).into());
    };
    if args.watch || args.since.is_some() {
        let message = "an archive is imported once, as a whole, without --watch and --since";
        return Err(output::Usage(message.to_owned()).into());
    }
    if let Some(tenant) = &args.tenant {
        check_tenant(tenant)?;
    }
    if args.dry_run {
        let checked = archive::check(path).map_err(|error| Error::from(named(error, path)))?;
        let told = format!(
            "the archive of {} is intact: {}",
            checked.created_at,
            counted(&checked)
        );
        show(options, &checked, &told)?;
        output::say("dry run: nothing was written");
        return Ok(());
    }
    let stores = store::tenants(options, true, "contexture import archive")?;
    let now = options.now.unwrap_or_else(Timestamp::now);
    let tenant = args.tenant.as_deref();
    let work = || archive::import(&*stores, path, tenant, now);
    let imported = match io::stderr().is_terminal() {
        true => progress::with_spinner("importing", work),
        false => work(),
    };
    let imported = imported.map_err(|error| match error {
        StoreError::Exists {
            what: "tenant",
            name,
        } => Error::input(format!(
            "tenant `{name}` has other data; nothing was imported"
        ))
        .advise(format!(
            "import into an empty store, or name another tenant with --tenant, or delete the data \
             first: `contexture tenant delete {}`",
            shown(&name)
        )),
        other => Error::from(named(other, path)),
    })?;
    show(options, &imported, &sentence(&imported))
}

/// Names the file in an error about an archive.
fn named(error: StoreError, path: &Path) -> StoreError {
    match error {
        StoreError::Invalid { field, message } if field == "archive" => {
            StoreError::invalid(path.display().to_string(), message)
        }
        other => other,
    }
}

fn shown(tenant: &str) -> &str {
    match tenant_of(tenant) {
        "" => "NAME",
        name => name,
    }
}

fn sentence(imported: &Imported) -> String {
    let mut parts = vec![format!(
        "imported {} from the archive of {}",
        output::many(imported.imported.len() as u64, "tenant"),
        imported.summary.created_at
    )];
    if !imported.unchanged.is_empty() {
        let unchanged = output::many(imported.unchanged.len() as u64, "tenant");
        parts.push(format!("{unchanged} had the same data already"));
    }
    parts.join("; ")
}

fn counted(summary: &Summary) -> String {
    format!(
        "{} with {}, content {}",
        output::many(summary.tenants().len() as u64, "tenant"),
        output::many(summary.rows, "row"),
        summary.content
    )
}
