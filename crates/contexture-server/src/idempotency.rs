//! The header `Idempotency-Key`: a call that is sent again is done once, and
//! answered as before.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use contexture::Timestamp;
use contexture::core::ContentHash;
use contexture::store::{Call, IdempotentCall, MAX_IDEMPOTENCY_KEY_BYTES, StoreError};

use crate::problem::Problem;
use crate::tenant::Tenant;

/// The idempotency key of a call, with the method and the target of the call.
pub(crate) struct KeyOfCall {
    key: String,
    target: String,
}

impl KeyOfCall {
    /// Reads the key of a call that has one.
    pub(crate) fn read(parts: &Parts) -> Result<Option<Self>, Problem> {
        let Some(key) = header(&parts.headers)? else {
            return Ok(None);
        };
        if key.len() > MAX_IDEMPOTENCY_KEY_BYTES {
            let why = format!("is longer than {MAX_IDEMPOTENCY_KEY_BYTES} bytes");
            return Err(wrong(&why));
        }
        let target = format!("{} {}", parts.method, parts.uri);
        Ok(Some(Self { key, target }))
    }

    fn with_body(self, body: &[u8]) -> IdempotentCall {
        let mut call = self.target.into_bytes();
        call.push(b'\n');
        call.extend_from_slice(ContentHash::of(body).as_bytes());
        IdempotentCall {
            key: self.key,
            digest: ContentHash::of(&call),
            now: Timestamp::now(),
        }
    }
}

/// The keys of a tenant's calls that are in progress on this server.
#[derive(Default)]
pub(crate) struct KeysInProgress(Mutex<HashSet<String>>);

impl KeysInProgress {
    /// Adds a key until the guard is dropped. Fails if the key is there.
    fn begin(&self, key: &str) -> Result<InProgress<'_>, Problem> {
        if !self.lock().insert(key.to_owned()) {
            let message = format!("a call with the idempotency key `{key}` is in progress");
            return Err(Problem {
                retry_after: Some(1),
                ..Problem::new(StatusCode::CONFLICT, "conflict", message)
                    .hint("retry after `retry-after` seconds to get the answer of that call")
            });
        }
        let key = key.to_owned();
        Ok(InProgress { all: self, key })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that is in progress.
struct InProgress<'a> {
    all: &'a KeysInProgress,
    key: String,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
    }
}

/// Does the work of a call, or returns the answer of the same call before it.
///
/// The first write of the work stores the key in its transaction. Work that writes
/// nothing in the store, such as a change of a file, gets its key stored with the
/// answer.
pub(crate) fn run(
    tenant: &Tenant,
    key: Option<KeyOfCall>,
    body: &[u8],
    work: impl FnOnce() -> Result<Vec<u8>, Problem>,
) -> Result<Vec<u8>, Problem> {
    let Some(key) = key else {
        return work();
    };
    let call = key.with_body(body);
    let _in_progress = tenant.keys_in_progress.begin(&call.key)?;
    let store = tenant.store()?;
    if let Some(done) = store.done_call(&call)? {
        let key = call.key;
        return (done.answer).ok_or_else(|| StoreError::AlreadyDone { key }.into());
    }
    let keyed = Call::current().unwrap_or_default().keyed(call.clone());
    let answer = keyed.run(work)?;
    // A retry then gets the error that the call was already done.
    if let Err(error) = store.put_answer(&call, &answer) {
        tracing::warn!(%error, "the answer of a call with an idempotency key is not stored");
    }
    Ok(answer)
}

/// Returns the value of the header.
pub(crate) fn header(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.any(|other| other != value) {
        return Err(wrong("is sent twice, with different values"));
    }
    let key = value
        .to_str()
        .map_err(|_| wrong("is not visible ASCII"))?
        .trim();
    match key.is_empty() {
        true => Err(wrong("is empty")),
        false => Ok(Some(key.to_owned())),
    }
}

fn wrong(why: &str) -> Problem {
    let message = format!("the header `Idempotency-Key` {why}");
    Problem::bad_request("invalid_header", message)
}
