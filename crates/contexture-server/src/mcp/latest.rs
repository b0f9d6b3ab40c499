//! The latest request of a session, as it was kept.

use contexture::snapshot::Saved;
use contexture::store::Snapshot;

use crate::problem::Problem;
use crate::tenant::Tenant;

/// Returns the latest request that was kept, of one session or of all.
pub(super) fn request(
    tenant: &Tenant,
    session: Option<&str>,
) -> Result<(Snapshot, Saved), Problem> {
    let store = tenant.store()?;
    // An alias stands for its session; a request may be for none that is kept.
    let label = session.map(|name| match store.session(name) {
        Ok(session) => session.label,
        Err(_) => name.to_owned(),
    });
    let Some(snapshot) = store.snapshots(label.as_deref(), 1)?.into_iter().next() else {
        let message = match session {
            Some(session) => format!("no request was assembled for session `{session}` yet"),
            None => "no request was assembled yet".to_owned(),
        };
        let missing = axum::http::StatusCode::NOT_FOUND;
        return Err(Problem::new(missing, "not_found", message).hint("call `assemble` first"));
    };
    let saved = Saved::load(store, &snapshot)?;
    Ok((snapshot, saved))
}
