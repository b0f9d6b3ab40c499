//! What OpenAI's two APIs have in common.

use std::fmt::Write as _;

use contexture_core::{Media, MediaSource};

use crate::conversation::{Instruction, Piece};
use crate::media;

/// Returns true for OpenAI's own models, which know the developer's role;
/// compatible servers of others often do not.
pub(crate) fn has_developer_role(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    let numbered_o = model
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered_o || model.starts_with("gpt-") || model.starts_with("chatgpt-")
}

/// Returns texts as one, a blank line between them.
pub(crate) fn joined<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    texts.fold(String::new(), |mut out, text| {
        let between = if out.is_empty() { "" } else { "\n\n" };
        let _ = write!(out, "{between}{text}");
        out
    })
}

/// Returns the operator's words as one text.
pub(crate) fn instructions(texts: &[Instruction<'_>]) -> Option<String> {
    (!texts.is_empty()).then(|| joined(texts.iter().map(|instruction| &*instruction.text)))
}

/// Returns a medium's address, which holds its bytes when they are here.
pub(crate) fn address(media: &Media) -> String {
    match &media.source {
        MediaSource::Data(data) => {
            format!("data:{};base64,{data}", media::canonical_type(media))
        }
        MediaSource::Url(url) => url.clone(),
    }
}

/// The name of a document: the API wants one, and there is none.
pub(crate) const FILE_NAME: &str = "document.pdf";

/// Returns the pieces for which `keep` holds.
pub(crate) fn only<'m, 'a, T>(
    pieces: &'m [Piece<'a>],
    keep: impl Fn(&'m Piece<'a>) -> Option<T>,
) -> Vec<T> {
    pieces.iter().filter_map(keep).collect()
}
