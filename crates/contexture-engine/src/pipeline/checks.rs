//! Warnings about a request: fields that nothing uses, history that is not
//! shown, media that are only described.

use contexture_core::{Block, Code, Excluded, Layout, Media, MediaSource, Part, Role};
use contexture_providers::{Format, describes, native};
use contexture_tokens::Model;

use super::LayerSource;
use crate::advice::{Advice, Warning};
use crate::engine::usual_format;
use crate::error::Error;
use crate::inline_source::instructions;
use crate::recipe::Recipe;
use crate::report::{OTHER_API, Report};
use crate::request::Request;
use crate::source::Concept;

/// Fails if the request sets a field that no layer of the recipe uses.
pub(super) fn check_used(
    request: &Request,
    recipe: &Recipe,
    sources: &[LayerSource<'_>],
) -> Result<(), Error> {
    let takes = |field: &str| {
        let mut all = sources.iter();
        all.any(|(_, source, _)| source.parameters().iter().any(|known| known.name == field))
    };
    let given = [
        ("query", request.query.is_some()),
        ("filters", request.filters.is_some()),
        ("strategy", request.strategy.is_some()),
        ("stack", request.stack.is_some()),
        ("tree", request.tree.is_some()),
        ("head", request.head.is_some()),
        ("path", request.path.is_some()),
        ("agent", request.agent.is_some()),
        ("working_buffer", request.working_buffer.is_some()),
        ("include_annotations", request.include_annotations),
        ("instructions", !request.instructions.is_empty()),
        ("context", !request.context.is_empty()),
    ];
    match given.iter().find(|(field, given)| *given && !takes(field)) {
        None => Ok(()),
        Some((field, _)) => Err(Error::input(format!(
            "recipe `{}` has no layer that uses `{field}`",
            recipe.name
        ))
        .at(*field)
        .advise(Advice::set("recipe"))),
    }
}

/// Returns a warning when the request names a session and no layer of the recipe
/// shows its turns.
pub(super) fn unread_history(
    request: &Request,
    recipe: &Recipe,
    sources: &[LayerSource<'_>],
) -> Option<Warning> {
    let session = request.session.as_deref()?;
    let mut all = sources.iter();
    if all.any(|(_, source, _)| source.concept() == Concept::History) {
        return None;
    }
    let message = format!(
        "recipe `{}` has no layer for history: the request has no turns of session `{session}`",
        recipe.name
    );
    Some(Warning::new("history_unused", message).advise(Advice::set("recipe")))
}

/// Returns a warning when messages of the request are instructions and no layer
/// of the recipe shows them.
pub(super) fn unread_instructions(
    request: &Request,
    recipe: &Recipe,
    sources: &[LayerSource<'_>],
) -> Option<Warning> {
    let (id, ..) = instructions(&request.messages).next()?;
    let mut all = sources.iter();
    if all.any(|(_, source, _)| source.name() == "system") {
        return None;
    }
    let message = format!(
        "recipe `{}` has no layer with the source `system`: the instruction `{id}` is left out",
        recipe.name
    );
    Some(Warning::new("instructions_unused", message).advise(Advice::set("recipe")))
}

/// Returns a warning if content of the user is left out because it has no form in
/// the API of the request.
pub(super) fn left_out(report: &Report) -> Option<Warning> {
    let rows = report.excluded.iter();
    let is_users = |row: &&Excluded| {
        row.role == Role::User
            && row.code == Code::NOT_FOR_PROVIDER
            && row.reason.to_string() == OTHER_API
    };
    let ids: Vec<&str> = rows.filter(is_users).map(|row| &*row.id).collect();
    let first = ids.first()?;
    let more = match ids.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(Warning::new(
        "content_left_out",
        format!("`{first}`{more} of the user is left out: it {OTHER_API}"),
    ))
}

/// Returns a warning for each medium that the model's provider does not accept,
/// so that only its description is sent.
pub(super) fn described(layout: &Layout, model: &Model, format: Option<Format>) -> Vec<Warning> {
    let format = format.filter(|format| !matches!(format, Format::Json | Format::Text));
    let Some(format) = format.or(usual_format(model.provider)) else {
        return Vec::new();
    };
    let is_own = |block: &Block| {
        let native = block.native.as_deref();
        native.is_some_and(|native| *native.provider == *format.name())
    };
    // The provider's own form of a result has its media in it.
    let mut holds_media = false;
    let media = layout.history.iter().filter_map(|block| match &block.part {
        Part::Media(_) if block.role == Role::Tool && holds_media => None,
        Part::Media(media) => (!is_own(block)).then_some((block, media)),
        part => {
            holds_media = matches!(part, Part::ToolResult { .. }) && is_own(block);
            None
        }
    });
    // A medium that is left out because of its size has a warning of its own.
    let is_there = |media: &Media| media.source != MediaSource::Url(String::new());
    let gone =
        media.filter(|(block, media)| is_there(media) && describes(format, block.role, media));
    let gone = gone.map(|(block, media)| {
        Warning::new(
            "media_described",
            format!(
                "{} does not accept {} of `{}` at this position: sending its description instead",
                model.provider.name(),
                media.media_type,
                block.id
            ),
        )
    });
    let has_files = |block: &&Block| {
        let native = block.native.as_deref();
        let other = native.filter(|native| *native.provider != *format.name());
        let is_result = matches!(block.part, Part::ToolResult { .. });
        is_result && other.is_some_and(|native| native::file_tokens(native.raw.as_str()) > 0)
    };
    let stored = layout.history.iter().filter(has_files).map(|block| {
        Warning::new(
            "media_described",
            format!(
                "the files in the result `{}` are stored at another provider than {}: sending \
                 their description instead",
                block.id,
                model.provider.name()
            ),
        )
    });
    gone.chain(stored).collect()
}
