//! MCP resources: data that an agent or its user can read without a tool call.

use contexture::Format;
use contexture::snapshot::Contents;
use contexture::store::Snapshot;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;

use super::{latest, tool};
use contexture_api::working_set::list;
use contexture_api::{Problem, Tenant};

const WORKING_SET: &str = "contexture://working-set";
const REPORT: &str = "contexture://report";
const REQUEST: &str = "contexture://request";

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

pub(super) fn all() -> Vec<Resource> {
    vec![
        Resource::new(WORKING_SET, "working-set")
            .with_title("Working set")
            .with_description("The files that requests are assembled from, with priorities.")
            .with_mime_type(JSON),
        Resource::new(REPORT, "report")
            .with_title("Latest request, by block")
            .with_description(
                "The blocks of the latest request of any session, with layer, tokens and origin. \
                 Dropped candidates are not listed; call `context_report` for them.",
            )
            .with_mime_type(JSON),
        Resource::new(REQUEST, "request")
            .with_title("Latest request, as text")
            .with_description("The latest request of any session, as text.")
            .with_mime_type(TEXT),
    ]
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{REPORT}/{{session}}"), "session-report")
            .with_title("Latest request of a session, by block")
            .with_description("The blocks of a session's latest request; use a label or alias.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{REQUEST}/{{session}}"), "session-request")
            .with_title("Latest request of a session, as text")
            .with_description("A session's latest request as text; use a label or alias.")
            .with_mime_type(TEXT),
    ]
}

pub(super) fn read(tenant: &Tenant, uri: &str) -> Result<ResourceContents, Problem> {
    let session = |prefix: &str| uri.strip_prefix(prefix)?.strip_prefix('/');
    let (text, media) = match uri {
        WORKING_SET => (pretty(&list(tenant, None)?.working_set)?, JSON),
        REPORT => (report(tenant, None)?, JSON),
        REQUEST => (request(tenant, None)?, TEXT),
        _ => match (session(REPORT), session(REQUEST)) {
            (Some(session), _) => (report(tenant, Some(&decoded(session)?))?, JSON),
            (_, Some(session)) => (request(tenant, Some(&decoded(session)?))?, TEXT),
            _ => return Err(no_resource(uri)),
        },
    };
    Ok(ResourceContents::text(text, uri).with_mime_type(media))
}

fn no_resource(uri: &str) -> Problem {
    let message = format!("unknown resource `{}`", tool::shown(uri));
    Problem::new(http::StatusCode::NOT_FOUND, "not_found", message).hint(format!(
        "use {WORKING_SET}, {REPORT}, {REQUEST}, {REPORT}/SESSION or {REQUEST}/SESSION"
    ))
}

/// The latest request and its blocks.
#[derive(Serialize)]
struct Latest<'a> {
    request: &'a Snapshot,
    contents: Contents<'a>,
}

fn report(tenant: &Tenant, session: Option<&str>) -> Result<String, Problem> {
    let (snapshot, saved) = latest::request(tenant, session)?;
    pretty(&Latest {
        request: &snapshot,
        contents: saved.contents(),
    })
}

fn request(tenant: &Tenant, session: Option<&str>) -> Result<String, Problem> {
    let (_, saved) = latest::request(tenant, session)?;
    Ok(saved.render(tenant.store()?, Format::Text)?)
}

fn pretty(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string_pretty(value).map_err(|error| Problem::failure(error.to_string()))
}

/// Returns a part of a URI without percent encoding.
fn decoded(part: &str) -> Result<String, Problem> {
    let wrong = || {
        let message = "the URI has an invalid percent encoding";
        Problem::bad_request("invalid_uri", message).at("uri")
    };
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(wrong());
        };
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_uris_can_be_percent_encoded() {
        for (part, name) in [
            ("a", "a"),
            ("a%20b", "a b"),
            ("a+b", "a+b"),
            ("%C3%A9", "é"),
        ] {
            assert_eq!(decoded(part).unwrap(), name);
        }
        for part in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(part).unwrap_err().code, "invalid_uri");
        }
    }
}
