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

/// Returns the treatment of `c`. `before` are the characters before it as they were written, the
/// nearest first, and `after` are those that follow.
pub(super) fn treat(
    c: char,
    before: impl Iterator<Item = char> + Clone,
    after: impl Iterator<Item = char> + Clone,
) -> Treatment {
    let (previous, next) = (before.clone().next(), after.clone().next());
    let keep = match c {
        '\r' => {
            return if next == Some('\n') {
                Treatment::Keep
            } else {
                Treatment::LineEnd
            };
        }
        // Joiners make emoji and are part of Persian and Indic spelling: they
        // are kept between characters that can need one, once. After a virama
        // a joiner also ends words.
        '\u{200C}' | '\u{200D}' => {
            let between =
                joins(previous) && next.is_some_and(|c| !c.is_ascii() && !is_invisible(c));
            between || previous.is_some_and(is_virama)
        }
        // A variation selector changes the appearance of the character before
        // it. A second one, or one after plain text, carries hidden data.
        '\u{FE0E}' | '\u{FE0F}' => previous.is_some_and(has_variants),
        '\u{FE00}'..='\u{FE02}' | '\u{E0100}'..='\u{E01EF}' => previous.is_some_and(is_han),
        '\u{180B}'..='\u{180D}' | '\u{180F}' => {
            previous.is_some_and(|c| ('\u{1820}'..='\u{18AA}').contains(&c))
        }
        // Flags of countries and regions are spelled with tags after a black flag.
        '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}' | '\u{E007F}' => {
            spells_flag(c, before, after)
        }
        // Marks, embeddings and isolates belong to right-to-left text, next to
        // its own letters or a blank away from them. Elsewhere they hide an
        // invisible order; overrides do so everywhere.
        '\u{061C}'
        | '\u{200E}'
        | '\u{200F}'
        | '\u{202A}'..='\u{202C}'
        | '\u{2066}'..='\u{2069}' => {
            is_right_to_left(past_blank(before)) || is_right_to_left(past_blank(after))
        }
        _ => !is_invisible(c),
    };
    if keep {
        Treatment::Keep
    } else {
        Treatment::WriteOut
    }
}

/// Returns the first of `letters` that is no blank; at most one blank is skipped.
fn past_blank(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next()?;
    match first {
        ' ' => letters.next(),
        _ => Some(first),
    }
}

/// Returns true if `c` is part of a black flag, three to six tags and the end of the tags.
fn spells_flag(
    c: char,
    before: impl Iterator<Item = char> + Clone,
    after: impl Iterator<Item = char>,
) -> bool {
    const MOST: usize = 6;
    const END: char = '\u{E007F}';
    let is_tag = |c: &char| ('\u{E0030}'..='\u{E007A}').contains(c);
    let tags = before.clone().take(MOST + 1).take_while(is_tag).count();
    if before.clone().nth(tags) != Some('\u{1F3F4}') {
        return false;
    }
    let mut rest = 0;
    if c != END {
        rest = 1;
        let mut closed = false;
        for next in after.take(MOST) {
            if next == END {
                closed = true;
                break;
            }
            if !is_tag(&next) {
                return false;
            }
            rest += 1;
        }
        if !closed {
            return false;
        }
    }
    (3..=MOST).contains(&(tags + rest))
}

fn is_han(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// Returns true for the sign that joins two consonants of an Indic script.
fn is_virama(c: char) -> bool {
    matches!(
        u32::from(c),
        0x094D
            | 0x09CD
            | 0x0A4D
            | 0x0ACD
            | 0x0B4D
            | 0x0BCD
            | 0x0C4D
            | 0x0CCD
            | 0x0D4D
            | 0x0DCA
            | 0x1039
            | 0x17D2
    )
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
