//! Files of a tenant in the store.

use contexture_core::ContentHash;
use contexture_store::{
    ExpectedFile, Files, MAX_FILE_BYTES, MAX_FILES, StoreError, StoredFile, check_file_path,
};
use jiff::Timestamp;

use crate::driver::{Connection, OptionalExtension, Row};
use crate::error::Fault;
use crate::params;
use crate::row::{Hash, Time, unsigned};
use crate::{Backend, SqlStore};

impl<B: Backend> Files for SqlStore<B> {
    fn files_revision(&self) -> Result<u64, StoreError> {
        self.read(revision)
    }

    fn files(&self) -> Result<Vec<StoredFile>, StoreError> {
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(
                "SELECT path, hash, length(bytes), revision, updated_at FROM files
                 WHERE tenant = ?1 ORDER BY path",
            )?;
            let found = select.query_map([tenant], file_row)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn file(&self, path: &str) -> Result<Option<(StoredFile, Vec<u8>)>, StoreError> {
        self.read(|db, tenant| {
            let mut select = db.prepare_cached(
                "SELECT path, hash, length(bytes), revision, updated_at, bytes FROM files
                 WHERE tenant = ?1 AND path = ?2",
            )?;
            let found = select.query_row((tenant, path), |row| Ok((file_row(row)?, row.get(5)?)));
            let found: Option<(StoredFile, Vec<u8>)> = found.optional()?;
            match &found {
                Some((file, bytes)) if ContentHash::of(bytes) != file.hash => Err(Fault::damaged(
                    format!("file `{path}`"),
                    "its content does not match its hash",
                )),
                _ => Ok(found),
            }
        })
    }

    fn put_file(
        &self,
        path: &str,
        content: &[u8],
        expected: ExpectedFile,
        now: Timestamp,
    ) -> Result<StoredFile, StoreError> {
        check_file_path(path)?;
        if content.len() > MAX_FILE_BYTES {
            let bytes = content.len();
            return Err(StoreError::invalid(
                "content",
                format!("is {bytes} bytes; the limit is {MAX_FILE_BYTES}"),
            ));
        }
        let (name, bytes) = (path.to_owned(), content.to_vec());
        let put = move |db: &Connection, tenant: i64| put(db, tenant, &name, &bytes, expected, now);
        let (file, is_new) = self.write(put)?;
        if is_new {
            self.note_deletion("file_stored", path.to_owned());
        }
        Ok(file)
    }

    fn delete_file(
        &self,
        path: &str,
        expected: ExpectedFile,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let name = path.to_owned();
        self.write_and_clean(move |db, tenant| delete(db, tenant, &name, expected, now))?;
        self.note_deletion("file_deleted", path.to_owned());
        Ok(())
    }
}

fn revision(db: &Connection, tenant: i64) -> Result<u64, Fault> {
    let mut select = db.prepare_cached("SELECT revision FROM file_states WHERE tenant = ?1")?;
    let found = select
        .query_row([tenant], |row| unsigned(row, 0))
        .optional()?;
    Ok(found.unwrap_or_default())
}

fn file_row(row: &Row<'_>) -> crate::driver::Result<StoredFile> {
    Ok(StoredFile {
        path: row.get(0)?,
        hash: row.get::<Hash>(1)?.0,
        bytes: unsigned(row, 2)?,
        revision: unsigned(row, 3)?,
        updated_at: row.get::<Time>(4)?.0,
    })
}

/// Returns the file if it has the state that the caller expects.
fn expected_file(
    db: &Connection,
    tenant: i64,
    path: &str,
    expected: ExpectedFile,
) -> Result<Option<StoredFile>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT path, hash, length(bytes), revision, updated_at FROM files
         WHERE tenant = ?1 AND path = ?2",
    )?;
    let found = select.query_row((tenant, path), file_row).optional()?;
    let hash = found.as_ref().map(|file| file.hash);
    match expected.accepts(hash) {
        true => Ok(found),
        false => Err(Fault::Refused(StoreError::FileChanged {
            path: path.to_owned(),
            hash,
        })),
    }
}

/// Increments the revision of the tenant's files.
fn next_revision(db: &Connection, tenant: i64) -> Result<u64, Fault> {
    let next = revision(db, tenant)? + 1;
    db.prepare_cached(
        "INSERT INTO file_states (tenant, revision) VALUES (?1, ?2)
         ON CONFLICT (tenant) DO UPDATE SET revision = excluded.revision",
    )?
    .execute((tenant, next as i64))?;
    Ok(next)
}

/// Returns the file, and true if the call wrote it.
fn put(
    db: &Connection,
    tenant: i64,
    path: &str,
    bytes: &[u8],
    expected: ExpectedFile,
    now: Timestamp,
) -> Result<(StoredFile, bool), Fault> {
    // The time is rounded to milliseconds, as it is read back.
    let now = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
    let hash = ContentHash::of(bytes);
    let found = expected_file(db, tenant, path, expected)?;
    match found {
        Some(file) if file.hash == hash => return Ok((file, false)),
        Some(_) => {}
        None => {
            let count = "SELECT count(*) FROM files WHERE tenant = ?1";
            let count: i64 = db.query_row(count, [tenant], |row| row.get(0))?;
            if count >= MAX_FILES as i64 {
                return Err(Fault::Refused(StoreError::invalid(
                    "path",
                    format!("the tenant has {count} files; the limit is {MAX_FILES}"),
                )));
            }
        }
    }
    // A directory and a file cannot have one name.
    let clash = "SELECT path FROM files WHERE tenant = ?1
        AND (substr(path, 1, length(?2) + 1) = ?2 || '/' OR substr(?2, 1, length(path) + 1) = path || '/')
        LIMIT 1";
    let clash = db.query_row(clash, (tenant, path), |row| row.get::<String>(0));
    if let Some(clash) = clash.optional()? {
        return Err(Fault::Refused(StoreError::invalid(
            "path",
            format!("there is a file `{clash}`: one would be inside the other"),
        )));
    }
    let revision = next_revision(db, tenant)?;
    db.prepare_cached(
        "INSERT INTO files (tenant, path, hash, bytes, revision, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (tenant, path) DO UPDATE SET hash = excluded.hash, bytes = excluded.bytes,
             revision = excluded.revision, updated_at = excluded.updated_at",
    )?
    .execute(params![
        tenant,
        path,
        Hash(hash),
        bytes,
        revision as i64,
        Time(now)
    ])?;
    let file = StoredFile {
        path: path.to_owned(),
        hash,
        bytes: bytes.len() as u64,
        revision,
        updated_at: now,
    };
    Ok((file, true))
}

fn delete(
    db: &Connection,
    tenant: i64,
    path: &str,
    expected: ExpectedFile,
    _: Timestamp,
) -> Result<(), Fault> {
    if expected_file(db, tenant, path, expected)?.is_none() {
        return Err(Fault::not_found("file", path));
    }
    next_revision(db, tenant)?;
    db.prepare_cached("DELETE FROM files WHERE tenant = ?1 AND path = ?2")?
        .execute((tenant, path))?;
    Ok(())
}
