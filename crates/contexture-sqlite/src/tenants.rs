//! The files of the tenants.
//!
//! The store's own file has the default tenant's data, the API keys, and the
//! list of tenants. Every other tenant has a file in a directory next to it,
//! created by the first write. Stores from before version 13 have all tenants
//! in one file; [`split`] gives each tenant its own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use contexture_core::ContentHash;
use contexture_store::StoreError;
use rusqlite::Connection;

use crate::connect::StoreLocation;
use crate::driver::Database;
use crate::error::Fault;
use crate::split::split;
use crate::{Shared, SqliteBackend, Tenant, schema};

/// The longest name of a tenant that is also the name of its file.
const LONGEST_NAME: usize = 64;

/// The suffixes of an index file, and of one that is being written.
pub(crate) const INDEX: &str = "-index";
const INDEX_NEW: &str = "-index-new";

/// The open files of a store.
pub(crate) struct TenantFiles {
    pub(crate) main: Arc<Shared>,
    open: Mutex<HashMap<Arc<str>, Arc<OpenFile>>>,
    // An empty database, for tenants that have no file yet.
    nothing: Mutex<Option<Database>>,
}

/// The file of a tenant. It need not be open.
#[derive(Default)]
struct OpenFile {
    // Held while the file is searched, opened or removed. Other tenants do not
    // wait for that.
    changing: Mutex<()>,
    file: Mutex<Weak<Shared>>,
}

impl OpenFile {
    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file if it is open.
    fn get(&self) -> Option<Arc<Shared>> {
        self.file().upgrade()
    }

    fn is_open(&self) -> bool {
        self.file().strong_count() > 0
    }

    fn set(&self, new: Weak<Shared>) {
        *self.file() = new;
    }

    fn file(&self) -> MutexGuard<'_, Weak<Shared>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TenantFiles {
    pub(crate) fn open(place: StoreLocation) -> Result<Arc<Self>, StoreError> {
        let main = Shared::open_place(place, Arc::default())?;
        split(&main)?;
        Ok(Arc::new(Self {
            main,
            open: Mutex::default(),
            nothing: Mutex::new(None),
        }))
    }

    /// Returns the store of a tenant.
    pub(crate) fn store(self: &Arc<Self>, tenant: &str) -> SqliteBackend {
        let own = match tenant {
            "" => OnceLock::from(Arc::clone(&self.main)),
            _ => OnceLock::new(),
        };
        SqliteBackend {
            files: Arc::clone(self),
            tenant: Tenant::new(tenant),
            own: Arc::new(own),
        }
    }

    /// Returns the path of a tenant's file, which may not exist.
    pub(crate) fn place_of(&self, tenant: &str) -> StoreLocation {
        let main = &self.main.place;
        match tenant {
            "" => main.clone(),
            tenant => {
                let path = directory(&main.path).join(file_name(tenant));
                StoreLocation::new(&path, main.options.clone(), main.read_only)
            }
        }
    }

    /// Returns the file of a tenant, if it exists.
    pub(crate) fn find(&self, tenant: &str) -> Result<Option<Arc<Shared>>, StoreError> {
        let entry = self.entry(tenant);
        let _changing = entry.change();
        if let Some(found) = entry.get() {
            return Ok(Some(found));
        }
        if self.is_inside(tenant)? {
            return Ok(Some(Arc::clone(&self.main)));
        }
        let place = self.place_of(tenant);
        if !place.path.exists() {
            return Ok(None);
        }
        self.open_file(&entry, place).map(Some)
    }

    /// Creates the file of a tenant, unless it exists now.
    pub(crate) fn make(&self, tenant: &str) -> Result<Arc<Shared>, StoreError> {
        let entry = self.entry(tenant);
        let _changing = entry.change();
        if let Some(found) = entry.get() {
            return Ok(found);
        }
        // The tenant is added to the list before its file is created, so that
        // no file is missing from the list.
        let store = self.main_rows(tenant);
        store.write(|_, _| Ok(()))?;
        self.open_file(&entry, self.place_of(tenant))
    }

    /// Returns the entry of a tenant, and removes those of others that are not in
    /// use.
    fn entry(&self, tenant: &str) -> Arc<OpenFile> {
        let mut open = self.lock();
        if let Some(entry) = open.get(tenant) {
            return Arc::clone(entry);
        }
        // A thread that opens a file holds its entry.
        open.retain(|_, other| Arc::strong_count(other) > 1 || other.is_open());
        Arc::clone(open.entry(tenant.into()).or_default())
    }

    /// Returns the rows about a tenant in the store's own file.
    fn main_rows(&self, tenant: &str) -> MainRows<'_> {
        MainRows {
            main: &self.main,
            tenant: Tenant::new(tenant),
        }
    }

    fn open_file(&self, entry: &OpenFile, place: StoreLocation) -> Result<Arc<Shared>, StoreError> {
        let shared = Shared::open_place(place, Arc::clone(&self.main.watch))?;
        entry.set(Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Returns true when a tenant's data is still in the store's own file.
    fn is_inside(&self, tenant: &str) -> Result<bool, StoreError> {
        self.main_rows(tenant).read(|db| {
            let inside = "SELECT EXISTS (SELECT 1 FROM tenants WHERE name = ?1 AND inside = 1)";
            let mut select = db.prepare_cached(inside)?;
            Ok(select.query_row([tenant], |row| row.get(0))?)
        })
    }

    /// Calls `read` with an empty store.
    pub(crate) fn read_nothing<T>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let address = &self.main.place.address;
        let mut nothing = self.nothing.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match nothing.take() {
            Some(made) => Ok(made),
            None => Connection::open_in_memory()
                .map_err(Fault::Sql)
                .and_then(|made| {
                    schema::migrate(&made, address, schema::STEPS)?;
                    Ok(Database(made))
                }),
        };
        let made = made.map_err(|fault| fault.at(address))?;
        read(nothing.insert(made)).map_err(|fault| fault.at(address))
    }

    /// Returns the names of the tenants that have data.
    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let listed = self.main_rows("").read(|db| {
            let mut select = db.prepare_cached("SELECT name, inside FROM tenants ORDER BY name")?;
            let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(found.collect::<Result<Vec<(String, bool)>, _>>()?)
        })?;
        let mut names = vec![String::new()];
        for (name, inside) in listed {
            if !name.is_empty() && (inside || self.place_of(&name).path.exists()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Returns the size of a tenant's files.
    pub(crate) fn bytes_of(&self, tenant: &str) -> u64 {
        let main = self.place_of(tenant).path;
        let sizes = ["", "-wal"].iter().filter_map(|suffix| {
            let mut path = OsString::from(&main);
            path.push(suffix);
            Some(std::fs::metadata(path).ok()?.len())
        });
        sizes.sum()
    }

    /// Removes the files of a tenant.
    pub(crate) fn remove(&self, tenant: &str) -> Result<(), StoreError> {
        let entry = self.entry(tenant);
        let _changing = entry.change();
        let main = self.place_of(tenant);
        let failed = |error| main.io(error).at(&main.address);
        for suffix in ["", "-wal", "-shm", "-journal", "-seal", INDEX, INDEX_NEW] {
            let mut path = OsString::from(&main.path);
            path.push(suffix);
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(error));
                }
                _ => {}
            }
        }
        entry.set(Weak::new());
        Ok(())
    }

    /// Returns the files that are open.
    pub(crate) fn open_files(&self) -> Vec<Arc<Shared>> {
        let open = self.lock();
        let others = open.values().filter_map(|entry| entry.get());
        std::iter::once(Arc::clone(&self.main))
            .chain(others)
            .collect()
    }

    /// Returns a number that changes when one of the files was replaced.
    pub(crate) fn incarnation(&self) -> u64 {
        let open = self.lock();
        let others = open.values().filter_map(|entry| entry.get());
        let others: u64 = others.map(|shared| shared.current().number).sum();
        self.main.current().number + others
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<OpenFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rows of the store's own file about a tenant.
struct MainRows<'a> {
    main: &'a Arc<Shared>,
    tenant: Tenant,
}

impl MainRows<'_> {
    fn read<T>(&self, read: impl FnOnce(&Database) -> Result<T, Fault>) -> Result<T, StoreError> {
        loop {
            let open = self.main.open()?;
            let Some(lease) = open.readers.take() else {
                continue;
            };
            let place = &self.main.place;
            let result = lease.run(|| open.reader(place), read);
            return result.map_err(|fault| open.explain(&place.address, fault));
        }
    }

    /// Adds the tenant to the list, and calls `write`.
    fn write(
        &self,
        write: impl FnOnce(&Database, i64) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), StoreError> {
        let tenant = self.tenant.clone();
        let work = move |db: &Database, open: u64| {
            let key = tenant.find_or_add(db, open)?;
            write(db, key)
        };
        let (open, writer) = self.main.writer()?;
        let done = (self.main).run(&open, &writer, work, crate::writer::AfterCommit::Nothing);
        done.map(|_| ())
    }
}

/// Returns the directory of the tenants' files, next to the store's own file.
pub(crate) fn directory(main: &Path) -> PathBuf {
    let mut path = OsString::from(main);
    path.push(".tenants");
    PathBuf::from(path)
}

/// Returns the name of a tenant's file. A name that some file systems do not
/// allow is replaced by a hash.
pub(crate) fn file_name(tenant: &str) -> String {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    match tenant.len() <= LONGEST_NAME && tenant.bytes().all(plain) {
        // The prefix avoids the names of devices.
        true => format!("t-{tenant}.db"),
        false => format!("~{}.db", ContentHash::of(tenant.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenant_has_a_file_of_its_own() {
        assert_eq!(file_name("acme"), "t-acme.db");
        assert_eq!(file_name("con"), "t-con.db");
        let long = "x".repeat(300);
        let names = [
            "..", ".", "/", "a/b", "CON", "Acme", "acme", "🦀", "a b", &long, "~acme",
        ];
        let mut files: Vec<String> = names.iter().map(|name| file_name(name)).collect();
        for file in &files {
            assert!(
                file.len() < 100 && !file.contains(['/', '\\', ' ']),
                "{file}"
            );
            assert!(!file.starts_with('.'), "{file}");
        }
        files.sort();
        files.dedup();
        assert_eq!(files.len(), names.len());
    }
}
