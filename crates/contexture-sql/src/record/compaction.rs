//! Appends compactions.

use contexture_store::{Compaction, Recorded, Trigger, TurnId};
use jiff::Timestamp;

use super::{Parent, head_of, list};
use crate::driver::Connection;
use crate::error::Fault;
use crate::row::{Id, Json, Time, number};
use crate::sessions::{self, SessionRow};
use crate::{events, params, turns};

/// Appends a compaction after `expected`, which must be the head of the session, and
/// moves the head there.
pub(crate) fn compact(
    db: &Connection,
    tenant: i64,
    label: &str,
    expected: TurnId,
    compaction: &Compaction,
    now: Timestamp,
) -> Result<Recorded, Fault> {
    compaction.check()?;
    let session = sessions::find(db, tenant, label)?;
    let parent = head_of(db, &session)?;
    sessions::check_head(&session, parent.id, Some(expected))?;
    for turn in &compaction.made_of {
        turns::key(db, tenant, *turn)?;
    }
    let (recorded, _) = append_compaction(db, tenant, &session, &parent, compaction, now)?;
    let key = turns::key(db, tenant, recorded.id)?;
    let reason = match compaction.trigger {
        Trigger::Undo => "uncompacted",
        _ => "compacted",
    };
    sessions::move_head(db, &session, Some(key), reason, now)?;
    let data = [("turn_id".to_owned(), recorded.id.to_string().into())];
    let data = data.into_iter().collect();
    events::insert(db, tenant, "compacted", &session.label, &data, now)?;
    Ok(recorded)
}

/// Writes a compaction after `parent`, unless it exists. The head does not
/// move. Returns true if the compaction is new.
pub(crate) fn append_compaction(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    parent: &Parent,
    compaction: &Compaction,
    now: Timestamp,
) -> Result<(Recorded, bool), Fault> {
    // The restored state of an earlier compaction can name deleted turns.
    let known = |id: Option<TurnId>| {
        id.map(|id| turns::key_to_refer_to(db, tenant, id))
            .transpose()
    };
    let through = known(compaction.summarized_through)?;
    let first_kept = known(compaction.first_kept)?;
    let recorded = Recorded {
        id: compaction.body().id(parent.id, &session.label, now),
        parent: parent.id,
        depth: parent.depth,
        replayed: false,
    };
    let added = match turns::find_key(db, tenant, recorded.id)? {
        Some(_) => false,
        None => {
            let mut insert = db.prepare_cached(
                "INSERT INTO turns (tenant, id, session, parent, depth, kind, compaction, begins,
                     bytes, created_at, open_calls, parent_given)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'compaction', ?6, 0, 0, ?7, ?8, 0)",
            )?;
            let key = insert.insert(params![
                tenant,
                Id(recorded.id),
                session.key,
                parent.key,
                number("depth", recorded.depth)?,
                parent.compaction,
                Time(now),
                list(&parent.open_calls),
            ])?;
            db.prepare_cached(
                "INSERT INTO compactions (turn, summary, summarized_through, first_kept,
                     trigger_name, focus, summariser, tokens_before, tokens_after, usage,
                     first_kept_message, facts)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                key,
                compaction.summary,
                through,
                first_kept,
                compaction.trigger.name(),
                compaction.focus,
                compaction.summariser,
                number("tokens_before", compaction.tokens_before)?,
                number("tokens_after", compaction.tokens_after)?,
                compaction.usage.as_ref().map(Json),
                number("first_kept_message", compaction.first_kept_message as u64)?,
                compaction.facts.as_ref().map(Json),
            ])?;
            true
        }
    };
    Ok((recorded, added))
}
