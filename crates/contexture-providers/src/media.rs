//! The token cost of media, and their description where only text is accepted.

use std::borrow::Cow;
use std::fmt::Write as _;

use contexture_core::{Media, MediaKind, MediaSource, Tokens, grouped};

use crate::check::refused;
use crate::{Format, Refused};

/// The pictures that Anthropic and OpenAI take.
pub(crate) const WEB_IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The limits of a provider on the number and the size of media in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaLimits {
    /// The most images and documents.
    pub number: usize,
    /// The most bytes of all of them together, as base64.
    pub bytes: u64,
    /// The most bytes of one image, as base64.
    pub image_bytes: u64,
}

impl MediaLimits {
    /// Returns the limits of a provider's API, as its documentation stated them
    /// in November 2026. Of the limit on the bytes of a request, a fifth is left
    /// for text.
    ///
    /// - Anthropic: 100 images or documents (more with some models), 32 MB a
    ///   request, 5 MB an image (platform.claude.com, "Vision" and "Errors").
    /// - OpenAI: 500 images, 50 MB a request (developers.openai.com, "Images and
    ///   vision").
    /// - Gemini: 3,600 images, 100 MB a request with its data in it
    ///   (ai.google.dev, "Image understanding" and "File input methods").
    pub fn of(format: Format) -> Option<Self> {
        const MB: u64 = 1_000_000;
        let (number, request, image_bytes) = match format {
            Format::Anthropic => (100, 32 * MB, 5 << 20),
            Format::OpenAiChat | Format::OpenAiResponses => (500, 50 * MB, 40 * MB),
            Format::Gemini => (3_600, 100 * MB, 80 * MB),
            Format::Json | Format::Text | Format::OpenAiCompletions => return None,
        };
        Some(Self {
            number,
            bytes: request / 5 * 4,
            image_bytes,
        })
    }
}

/// Returns the number of bytes of a medium in a request.
pub fn media_bytes(media: &Media) -> u64 {
    match &media.source {
        MediaSource::Data(data) | MediaSource::Url(data) => data.len() as u64,
    }
}

/// The maximum tokens of a page of a document: its text and its picture.
const PAGE: Tokens = 3_000;

/// The assumed minimum bytes of a page of a PDF whose pages cannot be counted.
/// A smaller number would exclude every document with pictures.
const PAGE_BYTES: u64 = 25_000;

/// The maximum number of pages that any provider reads.
const MOST_PAGES: u64 = 1_000;

/// The assumed number of pages of a document whose content is not available.
const UNSEEN_PAGES: u64 = 20;

/// The tokens of a second of a recording at Gemini; others use fewer.
const SECOND: Tokens = 32;

/// Bytes for a second at 16 kbit/s, about the least that speech is sent at.
const SECOND_BYTES: u64 = 2_000;

/// The assumed number of seconds of a recording whose content is not available.
const UNSEEN_SECONDS: u64 = 600;

/// The number of bytes of a picture that are decoded to find its size: a JPEG
/// can have a preview and a colour profile first.
const HEAD_BYTES: usize = 256 * 1024;

/// Returns the maximum tokens of a medium at any of the providers, for
/// [`Item::surcharge`](contexture_core::Item::surcharge).
///
/// - A picture by its size in pixels: the most that Anthropic, OpenAI and
///   Gemini charge for it. A picture whose content is not available or cannot
///   be read counts as the largest.
/// - A PDF by its pages, counted if that is possible without unpacking it, else
///   estimated from its bytes. Other documents by their bytes.
/// - A recording by its length, from a WAV's header or else estimated from its
///   bytes as if it were of low quality.
pub fn media_tokens(media: &Media) -> Tokens {
    match (media.kind, &media.source) {
        (MediaKind::Image, _) => match dimensions(media) {
            Some((width, height)) => image_tokens(width, height),
            None => image_tokens(u64::MAX, u64::MAX),
        },
        (MediaKind::Document, MediaSource::Url(_)) => UNSEEN_PAGES * PAGE,
        (MediaKind::Document, MediaSource::Data(data)) => {
            if canonical_type(media) == "application/pdf" {
                pages(&decode(data, usize::MAX)) * PAGE
            } else {
                // Text: few tokens have less than two bytes.
                decoded_len(data).div_ceil(2)
            }
        }
        (MediaKind::Audio, MediaSource::Url(_)) => UNSEEN_SECONDS * SECOND,
        (MediaKind::Audio, MediaSource::Data(data)) => {
            let rate = wav_rate(&decode(data, 64)).unwrap_or(SECOND_BYTES);
            decoded_len(data)
                .div_ceil(rate)
                .max(1)
                .saturating_mul(SECOND)
        }
    }
}

/// Returns the maximum tokens of a picture.
fn image_tokens(width: u64, height: u64) -> Tokens {
    // Scales down so that the longer side is at most `most`.
    let fit = |most: u64, (width, height): (u64, u64)| {
        let longer = width.max(height);
        if longer <= most {
            return (width.max(1), height.max(1));
        }
        let scale = |side: u64| u128::from(side) * u128::from(most) / u128::from(longer);
        let scale = |side: u64| u64::try_from(scale(side)).unwrap_or(most).max(1);
        (scale(width), scale(height))
    };
    let tiles =
        |side: u64, (width, height): (u64, u64)| width.div_ceil(side) * height.div_ceil(side);
    let size = (width, height);

    let (w, h) = fit(1568, size);
    let anthropic = (w * h).div_ceil(750).min(1600);

    let (w, h) = fit(2048, size);
    let shorter = w.min(h);
    let (w, h) = if shorter > 768 {
        fit(768 * w.max(h) / shorter, (w, h))
    } else {
        (w, h)
    };
    let openai = 85 + 170 * tiles(512, (w, h));

    let gemini = 258 * tiles(768, fit(3072, size));
    anthropic.max(openai).max(gemini)
}

/// Returns a line that describes a medium in text, such as `[image image/png,
/// 640x480, 12,345 bytes]` or `[image image/png at https://example.com/a.png]`.
///
/// The query of an address, after `?`, is left out, because it often is a key.
pub fn describe(media: &Media) -> String {
    let mut out = format!("[{} {}", media.kind.name(), canonical_type(media));
    match &media.source {
        MediaSource::Data(data) => {
            if let Some((width, height)) = dimensions(media) {
                let _ = write!(out, ", {width}x{height}");
            }
            let _ = write!(out, ", {} bytes", grouped(decoded_len(data)));
        }
        MediaSource::Url(url) => {
            let end = url.find(['?', '#']).unwrap_or(url.len());
            let shown: String = url[..end].chars().take(200).collect();
            let _ = write!(out, " at {shown}");
        }
    }
    out.push(']');
    out
}

/// Returns the width and height of a picture that is here.
fn dimensions(media: &Media) -> Option<(u64, u64)> {
    let MediaSource::Data(data) = &media.source else {
        return None;
    };
    if media.kind != MediaKind::Image {
        return None;
    }
    let size = imagesize::blob_size(&decode(data, HEAD_BYTES)).ok()?;
    Some((size.width as u64, size.height as u64)).filter(|&(width, height)| width > 0 && height > 0)
}

/// Returns the number of pages of a PDF, or a guess.
fn pages(pdf: &[u8]) -> u64 {
    let mut counted: u64 = 0;
    for at in find_all(pdf, b"/Type") {
        let name = pdf[at + b"/Type".len()..].trim_ascii_start();
        let is_page = name
            .strip_prefix(b"/Page")
            .is_some_and(|behind| !behind.first().is_some_and(u8::is_ascii_alphanumeric));
        counted += u64::from(is_page);
    }
    // Pages are often packed away, but this is written for readers in a hurry.
    let hurried = find_all(pdf, b"/Linearized").next().and_then(|at| {
        let dictionary = &pdf[at..pdf.len().min(at + 256)];
        let number = find_all(dictionary, b"/N ").next()? + b"/N ".len();
        let digits = dictionary[number..].trim_ascii_start();
        let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
        std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
    });
    let known = counted.max(hurried.unwrap_or(0));
    let guessed = (pdf.len() as u64).div_ceil(PAGE_BYTES);
    (if known > 0 { known } else { guessed }).clamp(1, MOST_PAGES)
}

fn find_all<'b>(bytes: &'b [u8], needle: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    bytes
        .windows(needle.len())
        .enumerate()
        .filter(move |(_, window)| *window == needle)
        .map(|(at, _)| at)
}

/// Returns the bytes for a second, from the head of a WAV.
fn wav_rate(head: &[u8]) -> Option<u64> {
    let is_wav = head.starts_with(b"RIFF") && head.get(8..16)? == b"WAVEfmt ";
    let rate = u32::from_le_bytes(head.get(28..32)?.try_into().ok()?);
    (is_wav && rate > 0).then_some(u64::from(rate))
}

/// Returns the number of bytes that `base64` encodes.
fn decoded_len(base64: &str) -> u64 {
    let digits = base64.trim_end_matches('=').len() as u64;
    digits * 3 / 4
}

/// Returns the first bytes that `base64` encodes, about `most` of them, as far
/// as it is valid.
fn decode(base64: &str, most: usize) -> Vec<u8> {
    let digits = base64.len().min(most.div_ceil(3).saturating_mul(4));
    let mut out = Vec::with_capacity(digits / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for digit in base64.as_bytes()[..digits].iter().map_while(|&c| digit(c)) {
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

fn digit(c: u8) -> Option<u8> {
    Some(match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Returns true for base64 as providers take it: padded, without line ends.
fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    let padding = data.len() - digits.len();
    !digits.is_empty()
        && padding <= 2
        && data.len().is_multiple_of(4)
        && digits.bytes().all(|c| digit(c).is_some())
}

/// Returns the media type in the spelling that providers know.
pub(crate) fn canonical_type(media: &Media) -> Cow<'_, str> {
    let name = media
        .media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let lower = if name.bytes().any(|c| c.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    match &*lower {
        "image/jpg" => "image/jpeg".into(),
        "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "audio/wav".into(),
        "audio/mp3" => "audio/mpeg".into(),
        _ => lower,
    }
}

/// Fails for a medium whose type is not one of `types`.
pub(crate) fn expect_type(
    media: &Media,
    types: &[&str],
    rule: &'static str,
) -> Result<(), Refused> {
    if types.contains(&&*canonical_type(media)) {
        return Ok(());
    }
    Err(refused(
        rule,
        format!(
            "the provider does not take {}: convert it to {}, or leave it out",
            describe(media),
            types.join(" or ")
        ),
    ))
}

/// Fails for a medium whose bytes are not base64, or whose address is invalid.
pub(crate) fn expect_source(media: &Media, rule: &'static str) -> Result<(), Refused> {
    let wrong = match &media.source {
        MediaSource::Data(data) if !is_base64(data) => {
            "is not base64 with its padding and without line ends"
        }
        MediaSource::Url(url) if !is_web_address(url) => "is not at an https address",
        MediaSource::Url(url) if is_google_file(url) && !rule.starts_with("gemini.") => {
            "is a file that only Gemini can read"
        }
        _ => return Ok(()),
    };
    Err(refused(rule, format!("{} {wrong}", describe(media))))
}

/// Returns true for the address of a file that was uploaded to Gemini.
fn is_google_file(url: &str) -> bool {
    let hosts = ["https://generativelanguage.googleapis.com/"];
    hosts.iter().any(|host| url.starts_with(host))
}

fn is_web_address(url: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| {
        url.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    }) && !url.contains(|c: char| c.is_whitespace() || c.is_control())
}
