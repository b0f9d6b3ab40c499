//! Characters that a reader cannot see but a model can.

/// The treatment of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    Keep,
    /// A line end of another system: becomes `\n`.
    LineEnd,
    /// Written out as `[U+XXXX]`.
    WriteOut,
}

/// Returns the treatment of `c` between `previous`, as it was written, and
/// `next`.
pub(super) fn treat(c: char, previous: Option<char>, next: Option<char>) -> Treatment {
    let keep = match c {
        '\r' => {
            return if next == Some('\n') {
                Treatment::Keep
            } else {
                Treatment::LineEnd
            };
        }
        // Joiners make emoji and are part of Persian and Indic spelling: they
        // are kept between characters that can need one, once.
        '\u{200C}' | '\u{200D}' => {
            joins(previous) && next.is_some_and(|c| !c.is_ascii() && !is_invisible(c))
        }
        // A variation selector changes the appearance of the character before
        // it. A second one, or one after plain text, carries hidden data.
        '\u{FE0E}' | '\u{FE0F}' => previous.is_some_and(has_variants),
        // Marks, embeddings and isolates belong to right-to-left text, next to
        // its own letters. Elsewhere they hide an invisible order; overrides do
        // so everywhere.
        '\u{061C}'
        | '\u{200E}'
        | '\u{200F}'
        | '\u{202A}'..='\u{202C}'
        | '\u{2066}'..='\u{2069}' => is_right_to_left(previous) || is_right_to_left(next),
        _ => !is_invisible(c),
    };
    if keep {
        Treatment::Keep
    } else {
        Treatment::WriteOut
    }
}

fn is_right_to_left(c: Option<char>) -> bool {
    c.is_some_and(|c| {
        matches!(u32::from(c),
            0x0590..=0x05FF     // Hebrew
            | 0x0620..=0x08FF   // Arabic, Syriac, Thaana, N'Ko and their kin
            | 0xFB1D..=0xFDFF   // presentation forms
            | 0xFE70..=0xFEFC
            | 0x10800..=0x10FFF // ancient scripts
            | 0x1E800..=0x1EFFF // Adlam, Mende, Arabic mathematical letters
        )
    })
}

fn joins(c: Option<char>) -> bool {
    c.is_some_and(|c| !c.is_ascii() && (c == '\u{FE0F}' || !is_invisible(c)))
}

fn has_variants(c: char) -> bool {
    // Keycaps (`1️⃣`) begin with an ASCII digit, `#` or `*`.
    matches!(c, '0'..='9' | '#' | '*') || (!c.is_ascii() && !is_invisible(c))
}

fn is_invisible(c: char) -> bool {
    matches!(u32::from(c),
        0x00..=0x08 | 0x0B..=0x0C | 0x0E..=0x1F | 0x7F..=0x9F // controls
        | 0xAD              // soft hyphen
        | 0x034F            // combining grapheme joiner
        | 0x061C            // Arabic letter mark
        | 0x115F..=0x1160 | 0x3164 | 0xFFA0 // Hangul fillers
        | 0x17B4..=0x17B5   // Khmer inherent vowels
        | 0x180B..=0x180F   // Mongolian selectors
        | 0x200B..=0x200F   // zero width, marks of direction
        | 0x2028..=0x202E   // separators, embeddings, overrides
        | 0x2060..=0x206F   // word joiner, isolates, deprecated controls
        | 0x2800            // empty Braille cell
        | 0xFE00..=0xFE0F   // variation selectors
        | 0xFEFF            // byte order mark
        | 0xFFF0..=0xFFFB   // specials
        | 0x1BCA0..=0x1BCA3 // shorthand controls
        | 0x1D173..=0x1D17A // musical controls
        | 0xE0000..=0xE0FFF // tags, supplementary variation selectors
    )
}
