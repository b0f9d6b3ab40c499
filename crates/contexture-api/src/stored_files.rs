//! Files of a tenant that are kept in the store, as files in its root.
//!
//! A tenant without a configured root can have its files in the store, so that
//! several servers share no directory. The server writes them into the tenant's
//! own directory before they are used, and looks for changes of other servers
//! every two seconds. Files there that the store does not have are not touched.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contexture::core::ContentHash;
use contexture::session_files::copies_list;
use contexture::store::{ExpectedFile, MAX_FILE_BYTES, Store, StoreError};
use contexture::{Error, Root, Timestamp};

use crate::problem::Problem;

/// How long the files are used before the store is queried for changes.
const FRESH: Duration = Duration::from_secs(2);

/// The number of retries of a change after a conflict with another server.
const TRIES: usize = 20;

/// The files of a tenant in the store, and their copies in its root.
pub struct StoredFiles {
    store: Arc<dyn Store>,
    // Of the tenant, with nothing hidden.
    root: Root,
    // Of the server: the list of copies is outside the tenant's root.
    list: (Root, String),
    state: Mutex<State>,
    looked_at: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct State {
    /// The number of the latest change that was copied.
    revision: Option<u64>,
    /// The copies, by path.
    copies: BTreeMap<String, ContentHash>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoredFiles {
    /// Returns the files of a tenant. `server` is the root of the server.
    pub fn new(store: Arc<dyn Store>, root: Root, server: Root, tenant: &str) -> Self {
        let list = copies_list(tenant);
        let copies = server.read_text(&list, 1 << 20).ok();
        let copies = copies.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            store,
            root,
            list: (server, list),
            state: Mutex::new(State {
                revision: None,
                copies: copies.unwrap_or_default(),
            }),
            looked_at: Mutex::new(None),
        }
    }

    /// Returns true if the store should be asked for changes, and lets one caller
    /// do so.
    pub fn is_due(&self) -> bool {
        let mut looked_at = lock(&self.looked_at);
        let due = looked_at.is_none_or(|at| at.elapsed() >= FRESH);
        if due {
            *looked_at = Some(Instant::now());
        }
        due
    }

    /// Copies what has changed in the store.
    pub fn refresh(&self) -> Result<(), Error> {
        self.copy(&mut lock(&self.state))
    }

    fn copy(&self, state: &mut State) -> Result<(), Error> {
        let revision = self.store.files_revision()?;
        if state.revision == Some(revision) || (revision == 0 && state.copies.is_empty()) {
            state.revision = Some(revision);
            return Ok(());
        }
        let listed = self.store.files()?;
        let mut copies = BTreeMap::new();
        for file in listed {
            let is_there = state.copies.get(&file.path) == Some(&file.hash)
                && self.local(&file.path) == Some(file.hash);
            if !is_there {
                // Deleted since it was listed: the next look sees that.
                let Some((_, bytes)) = self.store.file(&file.path)? else {
                    continue;
                };
                let Ok(text) = String::from_utf8(bytes) else {
                    tracing::warn!(path = file.path, "a stored file is not UTF-8");
                    continue;
                };
                let made = self.root.create_dir_of(&file.path);
                made.map_err(|error| {
                    Error::input(format!("cannot create {}: {error}", file.path))
                })?;
                self.root.replace(&file.path, &text)?;
            }
            copies.insert(file.path, file.hash);
        }
        for (path, hash) in &state.copies {
            // A file that was changed here is not ours any more.
            if !copies.contains_key(path) && self.local(path) == Some(*hash) {
                self.root.remove(path);
            }
        }
        let text = serde_json::to_string(&copies).unwrap_or_default();
        self.list.0.write_private(&self.list.1, &text)?;
        state.copies = copies;
        state.revision = Some(revision);
        Ok(())
    }

    fn local(&self, path: &str) -> Option<ContentHash> {
        let bytes = self.root.read(path, MAX_FILE_BYTES as u64 + 1).ok()?;
        Some(ContentHash::of(&bytes))
    }

    /// Applies a change to a file of the root that may be one of the store. If it
    /// is, the store gets the new content, and the change is applied again if
    /// another server has changed the file meanwhile.
    pub fn changing<T>(
        &self,
        path: &str,
        now: Timestamp,
        change: &dyn Fn() -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut state = lock(&self.state);
        for _ in 0..TRIES {
            self.copy(&mut state)?;
            let Some(before) = state.copies.get(path).copied() else {
                return change();
            };
            let done = change()?;
            let bytes = self.root.read(path, MAX_FILE_BYTES as u64 + 1);
            let bytes = bytes.map_err(|error| Error::input(error.reason))?;
            let hash = ContentHash::of(&bytes);
            if hash == before {
                return Ok(done);
            }
            let expected = ExpectedFile::Hash(before);
            match self.store.put_file(path, &bytes, expected, now) {
                Ok(_) => {
                    state.copies.insert(path.to_owned(), hash);
                    state.revision = None;
                    self.copy(&mut state)?;
                    return Ok(done);
                }
                // The copy is replaced by the files of the store.
                Err(StoreError::FileChanged { .. }) => state.revision = None,
                Err(error) => {
                    state.revision = None;
                    self.copy(&mut state)?;
                    return Err(error.into());
                }
            }
        }
        Err(Problem::unavailable(format!(
            "other servers change {path} all the time; nothing was changed"
        )))
    }
}
