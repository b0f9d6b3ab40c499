//! The tokens of media, and their names.
use crate::common::PIXEL;
use contexture_core::{Media, MediaKind, MediaSource};
use contexture_providers::{describe, media_tokens};
use proptest::prelude::*;

fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            out.push(match digit <= chunk.len() {
                true => DIGITS[(bits >> (18 - 6 * digit)) as usize & 63].into(),
                false => '=',
            });
        }
    }
    out
}

fn here(kind: MediaKind, media_type: &str, bytes: &[u8]) -> Media {
    Media {
        kind,
        media_type: media_type.into(),
        source: MediaSource::Data(encode(bytes)),
    }
}

fn there(kind: MediaKind, media_type: &str, url: &str) -> Media {
    Media {
        kind,
        media_type: media_type.into(),
        source: MediaSource::Url(url.into()),
    }
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 6, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = b"GIF89a".to_vec();
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// With a segment of `before` bytes in front, as cameras write it.
fn jpeg(width: u16, height: u16, before: u16) -> Vec<u8> {
    let mut bytes = vec![0xFF, 0xD8, 0xFF, 0xE1];
    bytes.extend((before + 2).to_be_bytes());
    bytes.extend(vec![0; before.into()]);
    bytes.extend([0xFF, 0xC0, 0x00, 0x11, 8]);
    bytes.extend(height.to_be_bytes());
    bytes.extend(width.to_be_bytes());
    bytes.extend([3; 16]);
    bytes
}

fn webp(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
    bytes.extend(&(width - 1).to_le_bytes()[..3]);
    bytes.extend(&(height - 1).to_le_bytes()[..3]);
    bytes.extend([0; 8]);
    bytes
}

fn image_tokens(bytes: &[u8]) -> u64 {
    media_tokens(&here(MediaKind::Image, "image/png", bytes))
}

#[test]
fn an_image_costs_the_maximum_over_all_providers() {
    // Gemini: one tile.
    assert_eq!(image_tokens(&png(1, 1)), 258);
    // Anthropic: a token for 750 pixels.
    assert_eq!(image_tokens(&png(512, 512)), 350);
    assert_eq!(image_tokens(&png(1024, 1024)), 1399);
    // OpenAI: a long strip has eight tiles of 512.
    assert_eq!(image_tokens(&png(2048, 700)), 85 + 8 * 170);
    // Gemini: four by three.
    assert_eq!(image_tokens(&png(3000, 2000)), 12 * 258);
    // However large it is, it is scaled down.
    assert_eq!(image_tokens(&png(60_000, 60_000)), 16 * 258);
    assert_eq!(image_tokens(&png(u32::MAX, 1)), 4 * 258);
}

#[test]
fn the_size_is_read_from_every_image_format() {
    for bytes in [
        png(3000, 2000),
        gif(3000, 2000),
        jpeg(3000, 2000, 60_000),
        webp(3000, 2000),
    ] {
        assert_eq!(image_tokens(&bytes), 12 * 258);
    }
}

#[test]
fn an_unreadable_image_counts_as_the_largest() {
    assert_eq!(image_tokens(b"not a picture at all"), 16 * 258);
    assert_eq!(image_tokens(&png(0, 5)), 16 * 258);
    let elsewhere = there(MediaKind::Image, "image/png", "https://example.com/a.png");
    assert_eq!(media_tokens(&elsewhere), 16 * 258);
}

#[test]
fn a_document_costs_by_its_pages() {
    let pdf = |bytes: &[u8]| media_tokens(&here(MediaKind::Document, "application/pdf", bytes));
    let page = "1 0 obj <</Type /Page /Parent 2 0 R>> endobj\n";
    let pages = "2 0 obj <</Type /Pages /Count 3>> endobj\n";
    let text = format!(
        "%PDF-1.4\n{page}{page}{}{pages}",
        page.replace("e /P", "e/P")
    );
    assert_eq!(pdf(text.as_bytes()), 3 * 3000);
    assert_eq!(
        pdf(b"%PDF-1.5 <</Linearized 1 /L 9 /N 12 /T 8>>"),
        12 * 3000
    );
    // Its pages are packed away: by its bytes.
    assert_eq!(pdf(&[b'x'; 60_000]), 3 * 3000);
    assert_eq!(pdf(b""), 3000);
    assert_eq!(
        media_tokens(&here(MediaKind::Document, "text/plain", &[b'x'; 100])),
        50
    );
    let elsewhere = there(
        MediaKind::Document,
        "application/pdf",
        "https://example.com/a.pdf",
    );
    assert_eq!(media_tokens(&elsewhere), 60_000);
}

#[test]
fn a_recording_costs_by_its_length() {
    let mp3 = here(MediaKind::Audio, "audio/mpeg", &[b'x'; 20_000]);
    assert_eq!(media_tokens(&mp3), 10 * 32);
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    bytes.extend(16_000u32.to_le_bytes());
    bytes.extend(32_000u32.to_le_bytes());
    bytes.resize(320_000, 0);
    let wav = here(MediaKind::Audio, "audio/wav", &bytes);
    assert_eq!(media_tokens(&wav), 10 * 32);
    let elsewhere = there(MediaKind::Audio, "audio/wav", "https://example.com/a.wav");
    assert_eq!(media_tokens(&elsewhere), 600 * 32);
}

#[test]
fn media_are_described_in_one_line() {
    let name = |media: Media| describe(&media);
    let mut bytes = png(640, 480);
    bytes.resize(12_345, 0);
    assert_eq!(
        name(here(MediaKind::Image, "image/PNG", &bytes)),
        "[image image/png, 640x480, 12,345 bytes]"
    );
    assert_eq!(
        name(here(MediaKind::Document, "application/pdf", b"%PDF")),
        "[document application/pdf, 4 bytes]"
    );
    assert_eq!(
        name(there(
            MediaKind::Image,
            "image/png",
            "https://example.com/a.png?key=secret"
        )),
        "[image image/png at https://example.com/a.png]"
    );
    let pixel = Media {
        kind: MediaKind::Image,
        media_type: "image/png".into(),
        source: MediaSource::Data(PIXEL.into()),
    };
    assert_eq!(name(pixel), "[image image/png, 1x1, 68 bytes]");
}

proptest! {
    #[test]
    fn anything_can_be_weighed(
        head in prop::sample::select(vec![png(9, 9), gif(9, 9), jpeg(9, 9, 9), webp(9, 9), b"%PDF".to_vec(), b"RIFF".to_vec()]),
        keep in 0usize..40,
        tail in prop::collection::vec(any::<u8>(), 0..64),
        junk in ".{0,30}",
    ) {
        let mut bytes = head;
        bytes.truncate(keep);
        bytes.extend(tail);
        for kind in [MediaKind::Image, MediaKind::Audio, MediaKind::Document] {
            for source in [MediaSource::Data(encode(&bytes)), MediaSource::Data(junk.clone())] {
                let media = Media { kind, media_type: "application/pdf".into(), source };
                prop_assert!(media_tokens(&media) <= 3_000_000);
                prop_assert!(!describe(&media).contains('\n'));
            }
        }
    }
}
