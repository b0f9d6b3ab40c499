//! `contexture tenant file`: files of a tenant that are kept in the store.

use contexture::Error;
use contexture::Timestamp;
use contexture::core::ContentHash;
use contexture::key::{check_tenant, tenant_of};
use contexture::store::{ExpectedFile, Store, Tenants};
use serde_json::json;

use crate::args::{FileCommand, StoreOptions};
use crate::output;
use crate::session::{plain, show, table};

pub(crate) fn run(
    stores: &dyn Tenants,
    command: &FileCommand,
    options: &StoreOptions,
) -> anyhow::Result<()> {
    let (FileCommand::List { name }
    | FileCommand::Get { name, .. }
    | FileCommand::Put { name, .. }
    | FileCommand::Delete { name, .. }) = command;
    check_tenant(name)?;
    if tenant_of(name).is_empty() {
        let message = "the tenant `default` uses the files in the server's root";
        return Err(output::Usage(message.to_owned()).into());
    }
    let store = stores.tenant(tenant_of(name));
    let now = options.now.unwrap_or_else(Timestamp::now);
    match command {
        FileCommand::List { .. } => list(&*store, options),
        FileCommand::Get { path, .. } => match store.file(path).map_err(Error::from)? {
            Some((_, bytes)) => output::bytes(&bytes),
            None => Err(output::Usage(format!(
                "tenant `{name}` has no stored file `{path}`; list them with `contexture tenant \
                 file list {name}`"
            ))
            .into()),
        },
        FileCommand::Put {
            path,
            file,
            if_hash,
            ..
        } => {
            // Servers use files as text.
            let text = output::read(file)?;
            let expected = expected(if_hash.as_deref())?;
            let stored = store.put_file(path, text.as_bytes(), expected, now);
            let stored = stored.map_err(Error::from)?;
            let told = format!(
                "stored {path} of tenant {name}: {} bytes, hash {}",
                stored.bytes, stored.hash
            );
            show(options, &stored, &told)
        }
        FileCommand::Delete { path, if_hash, .. } => {
            let expected = expected(if_hash.as_deref())?;
            let deleted = store.delete_file(path, expected, now);
            deleted.map_err(Error::from)?;
            let told = format!("deleted {path} of tenant {name}");
            show(options, &json!({"deleted": path}), &told)
        }
    }
}

fn expected(if_hash: Option<&str>) -> anyhow::Result<ExpectedFile> {
    match if_hash {
        None => Ok(ExpectedFile::Any),
        Some("") => Ok(ExpectedFile::Absent),
        Some(hash) => match ContentHash::from_hex(hash) {
            Some(hash) => Ok(ExpectedFile::Hash(hash)),
            None => Err(output::Usage(
                "--if-hash: must be the hash of a file: 64 hexadecimal digits".to_owned(),
            )
            .into()),
        },
    }
}

fn list(store: &dyn Store, options: &StoreOptions) -> anyhow::Result<()> {
    let files = store.files().map_err(Error::from)?;
    if options.json {
        return output::text(&format!("{:#}\n", json!(files)));
    }
    let mut lines = table(&["PATH", "BYTES", "REVISION", "UPDATED", "HASH"], &[1, 2]);
    for file in &files {
        lines.add_row([
            output::visible(&file.path),
            file.bytes.to_string(),
            file.revision.to_string(),
            format!("{:.0}", file.updated_at),
            file.hash.to_string(),
        ]);
    }
    output::text(&plain(&lines))
}
