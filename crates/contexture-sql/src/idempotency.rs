//! Calls with an idempotency key.

use contexture_store::{
    DoneCall, DoneCalls, IDEMPOTENCY_HOURS, IdempotentCall, MAX_STORED_ANSWER_BYTES, StoreError,
};
use jiff::SignedDuration;

use crate::driver::{Connection, OptionalExtension};
use crate::error::Fault;
use crate::row::{Hash, Time};
use crate::{Backend, SqlStore};

impl<B: Backend> DoneCalls for SqlStore<B> {
    fn done_call(&self, call: &IdempotentCall) -> Result<Option<DoneCall>, StoreError> {
        self.read(|db, tenant| find(db, tenant, call))
    }

    fn put_answer(&self, call: &IdempotentCall, answer: &[u8]) -> Result<(), StoreError> {
        let call = call.clone();
        let answer = (answer.len() <= MAX_STORED_ANSWER_BYTES).then(|| answer.to_vec());
        self.write(move |db, tenant| {
            remove_old(db, tenant, &call)?;
            db.prepare_cached(
                "INSERT INTO done_calls (tenant, key, digest, at, answer)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (tenant, key) DO UPDATE SET answer = excluded.answer
                 WHERE done_calls.digest = excluded.digest",
            )?
            .execute((
                tenant,
                &call.key,
                Hash(call.digest),
                Time(call.now),
                &answer,
            ))?;
            Ok(())
        })
    }
}

/// Stores the key of a call whose write begins. Fails if the key is stored.
pub(crate) fn claim(db: &Connection, tenant: i64, call: &IdempotentCall) -> Result<(), Fault> {
    remove_old(db, tenant, call)?;
    if find(db, tenant, call)?.is_some() {
        let key = call.key.clone();
        return Err(Fault::Refused(StoreError::AlreadyDone { key }));
    }
    db.prepare_cached("INSERT INTO done_calls (tenant, key, digest, at) VALUES (?1, ?2, ?3, ?4)")?
        .execute((tenant, &call.key, Hash(call.digest), Time(call.now)))?;
    Ok(())
}

/// Removes all stored responses: they can contain text that is deleted.
pub(crate) fn remove_answers(db: &Connection, tenant: i64) -> Result<(), Fault> {
    db.prepare_cached(
        "UPDATE done_calls SET answer = NULL WHERE tenant = ?1 AND answer IS NOT NULL",
    )?
    .execute([tenant])?;
    Ok(())
}

fn find(db: &Connection, tenant: i64, call: &IdempotentCall) -> Result<Option<DoneCall>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT digest, answer FROM done_calls WHERE tenant = ?1 AND key = ?2 AND at >= ?3",
    )?;
    let found = select.query_row((tenant, &call.key, oldest(call)), |row| {
        Ok((row.get::<Hash>(0)?.0, row.get(1)?))
    });
    match found.optional()? {
        Some((digest, _)) if digest != call.digest => {
            let key = call.key.clone();
            Err(Fault::Refused(StoreError::KeyReused { key }))
        }
        found => Ok(found.map(|(_, answer)| DoneCall { answer })),
    }
}

/// Removes the tenant's expired keys and responses.
fn remove_old(db: &Connection, tenant: i64, call: &IdempotentCall) -> Result<(), Fault> {
    db.prepare_cached("DELETE FROM done_calls WHERE tenant = ?1 AND at < ?2")?
        .execute((tenant, oldest(call)))?;
    Ok(())
}

/// Returns the time before which a key has expired.
fn oldest(call: &IdempotentCall) -> Time {
    let age = SignedDuration::from_hours(IDEMPOTENCY_HOURS);
    Time(call.now.saturating_sub(age).unwrap_or(call.now))
}
