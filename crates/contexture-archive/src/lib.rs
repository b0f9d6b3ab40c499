//! Portable archives: everything that a store holds, or one tenant, in one file.
//!
//! ```
//! use contexture_sqlite::SqliteStore;
//! use contexture_store::{Ledger, NewSession};
//!
//! # let directory = tempfile::tempdir()?;
//! # let now = "2026-02-02T10:00:00Z".parse()?;
//! let one = SqliteStore::open(directory.path().join("one.db"))?;
//! let new = NewSession { label: "main".to_owned(), ..NewSession::default() };
//! one.create_session(&new, now)?;
//!
//! let path = directory.path().join("all.ctxa");
//! let exported = contexture_archive::export(&one, None, std::fs::File::create(&path)?, now)?;
//!
//! let other = SqliteStore::open(directory.path().join("other.db"))?;
//! let imported = contexture_archive::import(&other, &path, None, now)?;
//! assert_eq!(imported.summary.content, exported.content);
//! assert_eq!(other.session("main")?.turns, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The form
//!
//! An archive is a sequence of Zstandard frames, so that `zstd -dc` prints it. The
//! content is JSON, one value per line:
//!
//! ```text
//! {"contexture_archive":1,"version":"0.2.0","created_at":"2026-02-02T10:00:00Z"}
//! {"part":"tenant","tenant":"default"}
//! {"keys":{"sessions":1}}
//! {"table":"sessions","columns":["label","head", …]}
//! ["main",null, …]
//! {"end":"tenant","rows":1,"hash":"…"}
//! …
//! {"manifest":{"parts":[…],"rows":1,"content":"…"},"hash":"…"}
//! ```
//!
//! A part is a tenant, the API keys with the quotas, or the audit log. The hash of
//! a part is the BLAKE3 hash of its lines, without the first and the last. The hash
//! of the content is one of the parts' names and hashes, without the audit log: it
//! is the same for all archives of the same data. The last hash is one of all
//! lines before.
//!
//! Memory does not depend on the size of an archive, except for 8 bytes per row
//! that other rows refer to.
//!
//! This crate does not know databases: it writes and reads what
//! [`Archive`](contexture_store::Archive) and [`Tenants`] hand out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_core::ContentHash;
use contexture_store::{ArchiveSource, SharedPart, StoreError, Tenants};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::read::{Reader, not_an_archive};
use crate::write::Writer;

mod read;
mod write;

/// The version of the archive format that is written, and the newest that can
/// be read.
pub const FORMAT: u32 = 1;

/// A part of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ArchivePart"))]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The kind of data in the part.
    pub part: PartKind,
    /// The name of the tenant; `default` is the default tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The number of rows.
    pub rows: u64,
    /// The hash of the lines.
    pub hash: ContentHash,
}

/// The kind of data in a part of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ArchivePartKind"))]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The data of a tenant.
    Tenant,
    /// The API keys and the quotas of all tenants.
    Keys,
    /// The audit log.
    Audit,
}

impl PartKind {
    fn name(self) -> &'static str {
        match self {
            PartKind::Tenant => "tenant",
            PartKind::Keys => "keys",
            PartKind::Audit => "audit",
        }
    }
}

/// The contents of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ArchiveSummary"))]
pub struct Summary {
    /// The version of the archive's format.
    pub format: u32,
    /// The version of Contexture that wrote it.
    pub version: String,
    /// The time at which the archive was written.
    pub created_at: Timestamp,
    /// The parts.
    pub parts: Vec<Part>,
    /// The number of rows of all parts.
    pub rows: u64,
    /// A hash of the content. It is the same for the same data, in any store.
    pub content: ContentHash,
}

impl Summary {
    /// Returns the names of the tenants; `default` is the default tenant.
    pub fn tenants(&self) -> Vec<&str> {
        let parts = self.parts.iter();
        parts.filter_map(|part| part.tenant.as_deref()).collect()
    }
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ImportedArchive"))]
pub struct Imported {
    /// The contents of the archive.
    #[serde(flatten)]
    pub summary: Summary,
    /// The tenants that were imported.
    pub imported: Vec<String>,
    /// The tenants that had the same data already.
    pub unchanged: Vec<String>,
}

/// The name of the default tenant in archives.
const DEFAULT: &str = "default";

/// Returns the name in the store.
fn stored_name(tenant: &str) -> &str {
    match tenant {
        DEFAULT => "",
        name => name,
    }
}

/// Returns the name in an archive.
fn shown_name(tenant: &str) -> &str {
    match tenant {
        "" => DEFAULT,
        name => name,
    }
}

/// Writes an archive of a whole store, or of one tenant.
///
/// The archive of a tenant has its data, and neither keys nor audit log. Each
/// tenant is in the state of one moment; several tenants are written one after
/// the other. The store can be used meanwhile.
///
/// Fails with [`StoreError::NotFound`] if the tenant has no data.
pub fn export(
    stores: &dyn Tenants,
    tenant: Option<&str>,
    out: impl Write,
    now: Timestamp,
) -> Result<Summary, StoreError> {
    let known = stores.tenant_names()?;
    let names = match tenant {
        None => known,
        Some(name) if known.iter().any(|it| it == stored_name(name)) => {
            vec![stored_name(name).to_owned()]
        }
        Some(name) => {
            let (what, name) = ("tenant", name.to_owned());
            return Err(StoreError::NotFound { what, name });
        }
    };
    let mut writer = Writer::new(out, now)?;
    for name in &names {
        writer.begin(PartKind::Tenant, Some(shown_name(name)))?;
        let store = stores.tenant(name);
        store.export_entries(&mut |entry| writer.entry(&entry))?;
        writer.end()?;
    }
    if tenant.is_none() {
        for (kind, part) in [
            (PartKind::Keys, SharedPart::Keys),
            (PartKind::Audit, SharedPart::Audit),
        ] {
            writer.begin(kind, None)?;
            stores.export_shared(part, &mut |entry| writer.entry(&entry))?;
            writer.end()?;
        }
    }
    let summary = writer.finish()?;
    let subject = summary.content.to_string();
    let of = tenant.map_or("", stored_name);
    stores.note_act("archive_exported", of, &subject, now)?;
    Ok(summary)
}

/// Checks a whole archive: its form, the hashes of all parts, and that nothing is
/// missing. Neither needs nor changes a store.
pub fn check(path: &Path) -> Result<Summary, StoreError> {
    let mut reader = Reader::open(path)?;
    while reader.next_part()?.is_some() {
        while reader.next_entry()?.is_some() {}
    }
    reader.summary()
}

/// Imports an archive into a store.
///
/// The whole archive is checked before anything is changed. Each tenant is
/// imported completely or not at all, and is verified before it is committed.
/// `tenant` is another name for the only tenant of an archive. A tenant that
/// already has exactly this data is left unchanged, so an interrupted import
/// can be repeated. API keys and quotas are imported last: incomplete data
/// cannot be accessed.
///
/// Fails with [`StoreError::Exists`], before anything is changed, if a tenant
/// has other data.
pub fn import(
    stores: &dyn Tenants,
    path: &Path,
    tenant: Option<&str>,
    now: Timestamp,
) -> Result<Imported, StoreError> {
    let summary = check(path)?;
    let names = summary.tenants();
    if let Some(tenant) = tenant
        && names.len() != 1
    {
        let count = names.len();
        return Err(StoreError::invalid(
            "tenant",
            format!("the archive has {count} tenants, and only one can be renamed to `{tenant}`"),
        ));
    }
    let mut unchanged = Vec::new();
    for part in &summary.parts {
        let Some(name) = &part.tenant else { continue };
        let target = tenant.unwrap_or(name);
        let store = stores.tenant(stored_name(target));
        if store.is_blank()? {
            continue;
        }
        if write::hash_of(&*store)? != part.hash {
            return Err(StoreError::Exists {
                what: "tenant",
                name: target.to_owned(),
            });
        }
        unchanged.push(target.to_owned());
    }
    let reader = Arc::new(Mutex::new(Reader::open(path)?));
    let mut imported = Vec::new();
    let mut parts = summary.parts.iter();
    loop {
        let part = lock(&reader).next_part()?;
        let Some((kind, name)) = part else { break };
        let changed = || not_an_archive("was changed while it was imported");
        let expected = parts.next().ok_or_else(changed)?;
        if (kind, name.as_deref()) != (expected.part, expected.tenant.as_deref()) {
            return Err(changed());
        }
        let target = tenant.or(name.as_deref()).unwrap_or(DEFAULT);
        if unchanged.iter().any(|it| it == target) && kind == PartKind::Tenant {
            while lock(&reader).next_entry()?.is_some() {}
            continue;
        }
        let next = source(&reader, expected.hash);
        match kind {
            PartKind::Tenant => {
                let store = stores.tenant(stored_name(target));
                store.import_entries(next)?;
                imported.push(target.to_owned());
                let subject = expected.hash.to_string();
                stores.note_act("archive_imported", stored_name(target), &subject, now)?;
            }
            PartKind::Keys => stores.import_shared(SharedPart::Keys, next)?,
            PartKind::Audit => stores.import_shared(SharedPart::Audit, next)?,
        }
    }
    Ok(Imported {
        summary,
        imported,
        unchanged,
    })
}

fn lock(reader: &Mutex<Reader<File>>) -> std::sync::MutexGuard<'_, Reader<File>> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the entries of the current part. The end is an error if the part
/// differs from the checked one.
fn source(reader: &Arc<Mutex<Reader<File>>>, expected: ContentHash) -> ArchiveSource {
    let reader = Arc::clone(reader);
    Box::new(move || {
        let mut reader = lock(&reader);
        let entry = reader.next_entry()?;
        if entry.is_none() && reader.last_hash() != Some(expected) {
            return Err(not_an_archive("was changed while it was imported"));
        }
        Ok(entry)
    })
}

/// Returns the hash of the content of an archive with those parts.
fn content_hash(parts: &[Part]) -> ContentHash {
    let mut content = BTreeMap::new();
    for part in parts {
        if part.part != PartKind::Audit {
            let name = part.tenant.as_deref().unwrap_or_default();
            content.insert((part.part, name), part.hash);
        }
    }
    let mut bytes = Vec::new();
    for ((part, name), hash) in content {
        bytes.extend_from_slice(part.name().as_bytes());
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(hash.as_bytes());
    }
    ContentHash::of(&bytes)
}
