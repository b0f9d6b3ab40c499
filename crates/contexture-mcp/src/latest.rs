//! Finds the latest saved request of a session, for resources.

use contexture::snapshot::Saved;
use contexture::store::Snapshot;

use contexture_api::{Problem, Tenant};

/// Returns the latest saved request of one session or of all sessions.
pub(super) fn request(
    tenant: &Tenant,
    session: Option<&str>,
) -> Result<(Snapshot, Saved), Problem> {
    let store = tenant.store()?;
    // An alias is resolved to its label. A request can belong to a session that
    // is not stored.
    let label = session.map(|name| match store.session(name) {
        Ok(session) => session.label,
        Err(_) => name.to_owned(),
    });
    let Some(snapshot) = store.snapshots(label.as_deref(), 1)?.into_iter().next() else {
        let message = match session {
            Some(session) => format!("session `{session}` has no assembled request yet"),
            None => "no request has been assembled yet".to_owned(),
        };
        let missing = http::StatusCode::NOT_FOUND;
        return Err(Problem::new(missing, "not_found", message).hint("call `assemble` first"));
    };
    let saved = Saved::load(store, &snapshot)?;
    Ok((snapshot, saved))
}
