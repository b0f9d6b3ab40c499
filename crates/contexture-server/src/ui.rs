//! The inspector: a page that shows sessions, requests, memory and trees. It
//! uses the public API only.
//!
//! Its files are compiled in and served below `/ui/HASH/`, where the hash covers
//! all of them: browsers keep them until a new version has another hash. The
//! page loads nothing from other sites, and its policy allows no inline code.

use std::sync::LazyLock;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use contexture::core::ContentHash;

use crate::app::{self, App};

/// A file of the page.
struct Asset {
    name: &'static str,
    media: &'static str,
    content: &'static str,
}

macro_rules! assets {
    ($($name:literal: $media:literal),* $(,)?) => {
        &[$(Asset {
            name: $name,
            media: $media,
            content: include_str!(concat!("../ui/", $name)),
        }),*]
    };
}

const ASSETS: &[Asset] = assets! {
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "app.js": "text/javascript; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "parts.js": "text/javascript; charset=utf-8",
    "format.js": "text/javascript; charset=utf-8",
    "sessions.js": "text/javascript; charset=utf-8",
    "session.js": "text/javascript; charset=utf-8",
    "request.js": "text/javascript; charset=utf-8",
    "refit.js": "text/javascript; charset=utf-8",
    "diff.js": "text/javascript; charset=utf-8",
    "memory.js": "text/javascript; charset=utf-8",
    "records.js": "text/javascript; charset=utf-8",
    "graph.js": "text/javascript; charset=utf-8",
    "change.js": "text/javascript; charset=utf-8",
    "trees.js": "text/javascript; charset=utf-8",
    "tree.js": "text/javascript; charset=utf-8",
    "continue.js": "text/javascript; charset=utf-8",
    "export.js": "text/javascript; charset=utf-8",
    "vendor/preact.js": "text/javascript; charset=utf-8",
    "vendor/LICENSES.txt": "text/plain; charset=utf-8",
};

const INDEX: &str = include_str!("../ui/index.html");

/// The permissions of the page: load its own files and call its own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
    data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The first digits of the hash of all files.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut all = String::from(INDEX);
    for asset in ASSETS {
        all.push_str(asset.name);
        all.push_str(asset.content);
    }
    ContentHash::of(all.as_bytes()).to_string()[..16].to_owned()
});

/// Returns the page.
pub(crate) async fn index(State(app): State<App>) -> Response {
    let access = match app.is_read_only() {
        true => "read-only",
        false => "full",
    };
    let page = INDEX
        .replace("{{assets}}", &format!("/ui/{}", *HASH))
        .replace("{{access}}", access)
        .replace("{{version}}", env!("CARGO_PKG_VERSION"));
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, page).into_response()
}

/// Returns a file of the page.
pub(crate) async fn asset(Path((hash, name)): Path<(String, String)>) -> Response {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    // A page of another version must not get files of this one.
    let Some(asset) = found.filter(|_| hash == *HASH) else {
        return app::no_such_path().await;
    };
    let headers = [
        (header::CONTENT_TYPE, asset.media),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, asset.content).into_response()
}
