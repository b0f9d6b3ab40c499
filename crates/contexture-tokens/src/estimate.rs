//! A token estimate that errs high, for models whose tokenizer is not public.
//!
//! Every character costs a fixed amount that depends on the character before it and on the
//! run it continues: the second letter of a frequent pair is nearly free, the first letter
//! after a space is nearly a token, a digit pays when it opens a group of three. Prose, code,
//! base64 and CSV thus come out right without anyone saying which is which. The costs were
//! fitted so that blocks of a few hundred bytes come out above the larger of `o200k_base`
//! and `cl100k_base`; `tests/estimate.rs` prints how far above.
//!
//! ```
//! use contexture_tokens::estimate::{estimate, estimate_up_to, prefix_within};
//!
//! let text = "The quick brown fox jumps over the lazy dog.";
//! let tokens = estimate(text);
//! assert!((10..=16).contains(&tokens)); // `o200k_base` has 10
//! assert_eq!(estimate_up_to(text, tokens), Some(tokens));
//! assert_eq!(estimate_up_to(text, tokens - 1), None);
//! assert!(estimate(&text[..prefix_within(text, 6)]) <= 6);
//! ```
//!
//! # Laws
//!
//! - A prefix never costs more than the whole, because no character costs less than nothing.
//! - The parts never cost less than the whole, wherever it is split: the first characters of
//!   a text pay for the most expensive context they could have had. Short texts therefore
//!   come out two or three tokens high.
//!
//! # Limits
//!
//! The estimate is based on pairs of characters, not words, so a crafted text
//! can mislead it: one rare but pronounceable word repeated for pages is
//! estimated too low. It also does not depend on a particular model; a factor
//! from the usage that providers report is applied elsewhere.

/// Units per token: every cost is a whole number of these.
const UNITS: u64 = 40;

/// Units added to every text that is not empty.
///
/// A part that begins in the middle of a word or of a run has lost its context, and the
/// costs further on may be lower for it. This is the most that can be lost; the tests
/// derive it from the tables.
const HEAD: u64 = 50;

/// Units added to a letter that repeats the pair before it, as in `abab` or
/// `zzzz`: pairs of letters are cheap only inside words.
const REPEAT: u64 = 16;

/// The largest share of its cost alone that a non-ASCII character can cost, in units.
const FULL: u8 = 42;

/// Bytes scanned between two looks at the limit.
const CHUNK: usize = 2048;

/// Returns an estimate of the tokens of `text` that errs high.
///
/// The empty text has none; any other has at least one. The time is linear in the length,
/// and nothing is allocated.
pub fn estimate(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    let mut scan = Scan::new();
    scan.advance(text);
    scan.units.div_ceil(UNITS)
}

/// Returns the estimate of `text` when it is at most `limit`, and `None` otherwise.
///
/// The scan stops soon after the limit is passed, so a huge text costs no more time than
/// the part of it that fits.
pub fn estimate_up_to(text: &str, limit: u64) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let limit = limit.saturating_mul(UNITS);
    let mut scan = Scan::new();
    let mut rest = text;
    while !rest.is_empty() && scan.units <= limit {
        let (chunk, tail) = rest.split_at(rest.floor_char_boundary(CHUNK));
        scan.advance(chunk);
        rest = tail;
    }
    (scan.units <= limit).then(|| scan.units.div_ceil(UNITS))
}

/// Returns the byte length of the longest prefix of `text`, on a character boundary, whose
/// estimate is at most `limit`.
///
/// That is 0 when not even the first character fits, and `text.len()` when all of it does.
pub fn prefix_within(text: &str, limit: u64) -> usize {
    let limit = limit.saturating_mul(UNITS);
    let mut scan = Scan::new();
    let mut kept = 0;
    while kept < text.len() {
        let rest = &text[kept..];
        let chunk = &rest[..rest.floor_char_boundary(CHUNK)];
        let before = scan;
        scan.advance(chunk);
        if scan.units <= limit {
            kept += chunk.len();
            continue;
        }
        // The limit falls into this chunk: go through it again by character.
        scan = before;
        for (at, c) in chunk.char_indices() {
            scan.advance(&chunk[at..at + c.len_utf8()]);
            if scan.units > limit {
                return kept + at;
            }
        }
    }
    kept
}

/// The state of the scan between two characters.
#[derive(Clone, Copy)]
struct Scan {
    units: u64,
    /// Row of [`COSTS`]: the ASCII character before, the script before, or the start.
    row: u8,
    /// State of the run, times [`CLASSES`].
    run: u8,
    /// The last four bytes, newest lowest; zero after a non-ASCII character.
    window: u32,
    /// The last non-ASCII character; meaningful only while `row` is that of a script.
    last: char,
}

impl Scan {
    fn new() -> Scan {
        Scan {
            units: HEAD,
            row: START_ROW as u8,
            run: (AFTER_BREAK * CLASSES) as u8,
            window: 0,
            last: '\0',
        }
    }

    fn advance(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            // Locals, so that they stay in registers while the text is ASCII.
            let Scan {
                mut units,
                mut row,
                mut run,
                mut window,
                last,
            } = *self;
            let ascii = bytes[at..].iter().take_while(|byte| byte.is_ascii());
            for &byte in ascii {
                let step = usize::from(run | CLASS[usize::from(byte & 0x7f)]);
                units += u64::from(COSTS[usize::from(row)][usize::from(byte & 0x7f)]);
                units += u64::from(RUNS[step]);
                run = NEXT[step];
                row = byte;
                window = window << 8 | u32::from(byte);
                if (window ^ (window >> 16)) & 0xffff == 0 {
                    units += repeat_cost(window);
                }
                at += 1;
            }
            *self = Scan {
                units,
                row,
                run,
                window,
                last,
            };
            if let Some(c) = text[at..].chars().next() {
                self.non_ascii(c);
                at += c.len_utf8();
            }
        }
    }

    fn non_ascii(&mut self, c: char) {
        let alone = alone(c);
        let letter = cyrillic(c);
        let script = if letter.is_some() {
            CYRILLIC
        } else {
            script(c, alone)
        };
        let share = match usize::from(self.row) {
            START_ROW => FULL,
            row @ 0..ASCII_ROWS => digit(SCRIPT_COSTS[usize::from(CLASS[row])][script]),
            row => match (cyrillic(self.last), letter) {
                (Some(before), Some(letter)) => digit(CYRILLIC_COSTS[before][letter]),
                _ => {
                    let repeated = c == self.last && is_symbol(script);
                    let column = if repeated { REPEATED } else { script };
                    digit(SCRIPT_COSTS[7 + row - ASCII_ROWS][column])
                }
            },
        };
        self.units += u64::from(share) * alone;
        self.row = (ASCII_ROWS + script) as u8;
        self.run = (AFTER_NON_ASCII * CLASSES) as u8;
        self.window = 0;
        self.last = c;
    }
}

/// Returns the cost of a repeated pair: none unless both of its bytes are letters.
#[cold]
fn repeat_cost(window: u32) -> u64 {
    let [.., a, b] = window.to_be_bytes();
    if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() {
        REPEAT
    } else {
        0
    }
}

// Classes of ASCII characters, the columns of `RUN_COSTS`.
const LOWER: u8 = 0;
const UPPER: u8 = 1;
const DIGIT: u8 = 2;
const SPACE: u8 = 3;
const BREAK: u8 = 4;
const TAB: u8 = 5;
const OTHER: u8 = 6;
/// Columns per state of [`RUNS`]: a power of two, so that an index needs no multiplication.
const CLASSES: usize = 8;

static CLASS: [u8; 128] = {
    let mut classes = [OTHER; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b' ' => SPACE,
            b'\n' | b'\r' => BREAK,
            b'\t' => TAB,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// States of the run a character continues; `RUN_COSTS` names them.
const STATES: usize = 24;
const AFTER_BREAK: usize = 20;
const AFTER_NON_ASCII: usize = 23;

/// Returns the state after a character of `class` in `state`.
const fn following(state: usize, class: u8) -> usize {
    match (class, state) {
        (LOWER, 0..=6) => state + 1,
        (LOWER, 7) => 7,
        // A capital, or several, opens the word: `Word`, `HTTPServer`.
        (LOWER, 8..=10) => state - 7,
        (LOWER, _) => 0,
        (UPPER, 8 | 9) => state + 1,
        (UPPER, 10) => 10,
        (UPPER, _) => 8,
        (DIGIT, 11 | 12) => state + 1,
        (DIGIT, _) => 11,
        (SPACE, 14..=16) => state + 1,
        (SPACE, 17) => 17,
        (SPACE, _) => 14,
        (BREAK, _) => AFTER_BREAK,
        (TAB, 21 | 22) => 22,
        (TAB, _) => 21,
        (OTHER, 18 | 19) => 19,
        (OTHER, _) => 18,
        _ => AFTER_NON_ASCII,
    }
}

/// The cost of a character of each class in each state, apart from its pair.
///
/// The columns are lower case, upper case, digit, space, line break, tab,
/// other.
const RUN_COSTS: [&[u8; 7]; STATES] = [
    b"0C802C9", // a word, 1 letter
    b"0C00000", // 2 letters
    b"00A0000", // 3
    b"0CB0040", // 4
    b"0020CB2", // 5
    b"0000C05", // 6
    b"0120CA1", // 7
    b"2CC0C0B", // 8 or more
    b"0077C0C", // capitals, 1
    b"C000800", // 2
    b"C070000", // 3 or more
    b"CC0CC69", // digits, first of a group of three
    b"400BC92", // second
    b"00I0171", // third
    b"00AN0C0", // spaces, 1
    b"9KKA00K", // 2
    b"40K400J", // 3
    b"06K1800", // 4 or more
    b"2438B90", // punctuation, 1
    b"5800060", // 2 or more
    b"6C20014", // a line break
    b"0C100A5", // tabs, 1
    b"IOJ000O", // 2 or more
    b"2CCCCCC", // a non-ASCII character
];

/// [`RUN_COSTS`] by state times [`CLASSES`] plus class, in as many places as a byte can
/// name, so that the loop needs no check.
static RUNS: [u8; 256] = {
    let mut runs = [0; 256];
    let mut at = 0;
    while at < STATES * CLASSES {
        if at % CLASSES < 7 {
            runs[at] = digit(RUN_COSTS[at / CLASSES][at % CLASSES]);
        }
        at += 1;
    }
    runs
};

/// The state that follows, times [`CLASSES`], in the same places.
static NEXT: [u8; 256] = {
    let mut next = [0; 256];
    let mut at = 0;
    while at < STATES * CLASSES {
        next[at] = (following(at / CLASSES, (at % CLASSES) as u8) * CLASSES) as u8;
        at += 1;
    }
    next
};

const ASCII_ROWS: usize = 128;
const SCRIPTS: usize = 39;
const START_ROW: usize = ASCII_ROWS + SCRIPTS;

/// The cost of an ASCII character after each ASCII character, after each
/// script, and at the start of a text, where it is the highest of all.
///
/// There are as many rows as values of a byte, so that the loop needs no check.
static COSTS: [[u8; 128]; 256] = {
    let mut costs = [[0; 128]; 256];
    let mut byte = 0;
    while byte < 128 {
        let mut most = 0;
        let mut row = 0;
        while row < START_ROW {
            let cost = if row < ASCII_ROWS {
                digit(ASCII_COSTS[symbol(row as u8)][symbol(byte as u8)])
            } else {
                digit(ASCII_AFTER_SCRIPT[row - ASCII_ROWS][CLASS[byte] as usize])
            };
            costs[row][byte] = cost;
            if cost > most {
                most = cost;
            }
            row += 1;
        }
        costs[START_ROW][byte] = most;
        byte += 1;
    }
    costs
};

/// Returns the row and column of an ASCII character in [`ASCII_COSTS`].
const fn symbol(byte: u8) -> usize {
    match byte {
        b'\t' => 1,
        b'\n' => 2,
        b'\r' => 3,
        b' '..=b'/' => 4 + (byte - b' ') as usize,
        b'0'..=b'9' => 20,
        b':'..=b'~' => 21 + (byte - b':') as usize,
        _ => 0,
    }
}

/// Returns the value of a digit of the tables: `0-9`, `A-Z`, `a-z` for 0 to 61 units.
const fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'A'..=b'Z' => byte - b'A' + 10,
        b'a'..=b'z' => byte - b'a' + 36,
        _ => panic!("the tables hold letters and digits only"),
    }
}

/// Returns an upper bound of the tokens of a non-ASCII character by itself.
///
/// A character that is not in the vocabulary is split into bytes, of which the
/// first two may still be one token; whether they are is the same for 64
/// characters in a row.
fn alone(c: char) -> u64 {
    let code = c as usize;
    match code {
        0..0x1_0000 if SINGLE[code / 64] >> (code % 64) & 1 == 1 => 1,
        0..0x800 => 2,
        0x800..0x1_0000 => {
            let block = code / 64;
            if SHORT_BLOCKS[block / 64] >> (block % 64) & 1 == 1 {
                2
            } else {
                3
            }
        }
        0x1_f480..0x1_f4c0 | 0x1_f600..0x1_f640 => 2,
        0x1_d000..0x1_e000 | 0x1_f000..0x2_0000 => 3,
        _ => 4,
    }
}

/// Columns of [`SCRIPT_COSTS`] that the code names; [`script`] has them all.
const CYRILLIC: usize = 5;
const CYRILLIC_CAPITAL: usize = 6;
const JOINER: usize = 34;
const REPEATED: usize = 39;

/// Returns the column of a non-ASCII character in [`SCRIPT_COSTS`]: its script,
/// divided by the cost of the character by itself.
fn script(c: char, alone: u64) -> usize {
    // The column of those that cost one alone, and the most that any of them costs.
    let (first, most) = match c as u32 {
        0xa0..=0xbf | 0xd7 | 0xf7 => (27, 3),
        0xc0..=0x2af | 0x1e00..=0x1eff => (0, 3), // Latin
        0x370..=0x3ff => (3, 2),                  // Greek
        0x400..=0x42f if alone == 1 => return CYRILLIC_CAPITAL,
        0x400..=0x4ff if alone == 1 => return CYRILLIC,
        0x400..=0x4ff => (6, 2),                   // other Cyrillic
        0x590..=0x5ff => (8, 2),                   // Hebrew
        0x600..=0x6ff => (10, 2),                  // Arabic
        0x900..=0x97f => (12, 2),                  // Devanagari
        0x980..=0xdff => (16, 3),                  // other scripts of India
        0xe00..=0xe7f => (14, 2),                  // Thai
        0x200d | 0x20e3 | 0xfe0f => return JOINER, // what holds emoji together
        0x2000..=0x206f | 0x2100..=0x23ff | 0x2600..=0x27bf => (27, 3), // signs
        0x3000..=0x303f | 0xff00..=0xff20 => (27, 3), // wide punctuation
        0x2500..=0x25ff => (30, 2),                // boxes and blocks
        0x3040..=0x30ff => (19, 2),                // kana
        0x3400..=0x9fff => (21, 3),                // Han
        0xac00..=0xd7a3 => (24, 3),                // Hangul
        0x1_f000..=0x1_ffff => (31, 3),            // emoji; none costs one
        _ => (35, 4),
    };
    first + alone.min(most) as usize - 1
}

/// Returns true for the scripts whose characters are drawn in rows, as in `────`.
fn is_symbol(script: usize) -> bool {
    matches!(script, 27..=33 | 35..=38)
}

/// Returns the row and column of a small Cyrillic letter in [`CYRILLIC_COSTS`].
fn cyrillic(c: char) -> Option<usize> {
    match c {
        'а'..='я' => Some(c as usize - 'а' as usize),
        'ё' => Some(32),
        'є' => Some(33),
        'і' => Some(34),
        'ї' => Some(35),
        _ => None,
    }
}

/// The cost of a character after another, one row per character before it, both
/// in the order of [`symbol`]: control, tab, newline, return, then printable
/// ASCII with one entry for all digits.
const ASCII_COSTS: [&[u8; 90]; 90] = [
    b"he8Z6kqoqmqjqljjjemlYojgkjqkqkgokkdfqqnkjmijkikibkfaqlSjijjpijlmgnmmjijeqilcijgqljipfjqlil",
    b"g30a0pqjqYKqqiqqqqqqQqqqO0qqqqqqqijNqqqqWqqfqqqqqqqqqqqqqqqqqReKEKV0QK20ic8Q6Y9jWbqQY7qqqq",
    b"3F360kSD0LdgR0OIZOFIXeQIK0dL6qnqjqqqqZqqpjjqohopqqcVlqTZ0Sh0RkTNYUmbXKHXWqqXnXRaiZ7peqAG00",
    b"YV6V1ccccccbdedcbbbbYbcbbdccRRRRRRRSRRRRRRRRQRRQRRRRRRcbcbccYYZYYYaZYYYYYYYYYYYYYcYYZcnbbb",
    b"nUZV0dYTcqYTlIMPNVqSqRYXLQSHWWWWWWWWWWWWWWWWkWWWWWWqWqUYDWVUWWWWWWWWWgWWWWWWiWWWWWWkWqWeNh",
    b"fj0W08TenqdcNFLbX2qDqYfnEYVcSOP00XknYpcjoYIde0jdqhpVkgXTqcUWRa1AjqciNZhkqc9ZhqTqIqhfqfnihq",
    b"gl0VCUMM9pqkG2GGI002KEAJI6MZ0QK0T26IHooCIM031EQOJVDGcRNHRAHYgmqqqqqYqqZXqlgTPdUgSUeggqOk0g",
    b"pZOV4CA1nNcTpkabjaQAURWqqlceLLc9ClLgYgR36HFdPPgqIqJqdn2aqXedNqb74qEqTUqqRqZkqcqgTWqqqcXgdq",
    b"YkHV0aLHBlPJ6VFZffUWAfVdUa0MEXfg0eM4qlh0qlkcoHfNDiJAqafbfmCaOeqa6cakikq5qqqafaXqqqoQqf4Ygb",
    b"ie0V0X0SO7eRK9ZYWO9ggXiNaFbbjfMqAgTCqmhMPZgdeXppVHqiCqaXeagfWYqqpqfqlqqmjLgqJqqOqpqXZUfcda",
    b"ogPV6ZLLbfM04afolqkcdalbUdadMSJ3jKcRHglWJIq0YD0qfqNZjiHZegdjAqqqYmQqqqqplh1UFkN8NqqBjpfeZb",
    b"Jq1WIa3hTTaMF0M3EeC0eR5NYPZIZ10VqM0I2pqp5Gok0fcgqIqmj3bSH90QqqkUqQZqoFJRVqqqGZ6RqEqqdqPQqZ",
    b"Yf7V0C9F7Fb8NI0ga0ORfYd9qTDqZcdUHmjdHQkjUNZlqMPF3Fn0LnOTaWfFZNbhMMelViRVALPdPTWNmLiRgBLIeR",
    b"ggIW6U1YYcPJ9BgU6SRQpG6PfhDcd30kakZZpcbgaY05d0fOkZZhcklX3Wcflmq4q1qqHnqZi5qqqSqeqqfYqk0BNc",
    b"im4V2LbdWiZcP41aWaDMqbTNaOVc0lK8MmTdaqcNaCqGS9mJ0qXcmZdZUbLqaqqjkqqqqDNmoqgqgqqjVqlQNqXaag",
    b"eiCV8qXaWLcGMWa2GkhRe7MbalXimq4bqUqh5PGhKjlQqUQ2kqT0qTePZaRbY1e8ZdUKqRqkXEqqqeTjppF08qiojg",
    b"geEVCU8bCfcGlUmbC4TecZbKidSX0Wcl8YPjqqqqqqNqmYoDoZVqfiNEiVBcqnVPUqhbNngqqRoe4qqTo4fbWc0WQS",
    b"ieKV3Y0gDqWVW0aac1QZZXjWaEWhhYm00f3q0MjPqqqqURqGP0eRToMbqW7ViMOinaqZn8XUqjnoGbcUSQMhOEUILf",
    b"eDAV0QRkiiZZMDNj0n5JihY7ZhZhAeRD5WqYlVqqMRpOQMHOqem4LWRUqmKqT2JZYMUNRQqKNbeQAaROXHRJTn0fcq",
    b"fq7VGR3LLKcCMbMqQmI1qjLRZAYlYYW5PqhihbecVQQdXGd1Liqd6qROfCZiiVdVplfqVBGONKRPZYQoLb7Gqq0iio",
    b"ZeqSEegWXbbeWfq3egTa9njTiOchqklempqqqqqdqmiqqneTplqndmpqUlDWeojpqqqqqqpqqqRjqqqonjqdqqqqgq",
    b"qj0V7kDiQ0cKAbKRUei0UBiV6qMfO0qcQM07fVq20nVKTSHZ0q0TlqKa1kNXnqqNoVqqqq5qIPmqqQcnZq4qkH7bZc",
    b"ff6VLjobZhUbeSbjP0oQRj7GjcYhZqhCpeihkYjPZaWkjmn0DeZWbdaigdjWC1Eq2qqqJgiqLCLqokqMnNWoiqdgQf",
    b"bq0V31qqqRq6fPbdbblH3YY6pHJUV5B9qeDm0V7BMbc6N8JFi0qqiPOqjhYVgolYgqbJgqqXMc1RqklqmDqSPqCqag",
    b"fCMU800aIWP51oadiaZPnmi529c8Lmlq0l0VDSqqq2YBqRS8obphq0TLWa0GFonDXFMiWpDm05BqHhVSdMp91YSYhb",
    b"fqBVEaGdRY10C1CgPeTYqIJ396gP0jaOMcYHM0iaRoJCcfbNq02ZGWbfgaLJTqQkpqqqfnTqqW9koqpmqZkLofmSPd",
    b"lk0V9EacOlXcS2eXdUVfq0PTdICZ0YgebokbUYHah03gfQqihkbidcqUbeacqaqNqIOHleqqqq9qlUqQXdqMeoXYKa",
    b"gj1VBdWdahgVbZicbqbUqfQPdVaEihRhamqaYQVqWWqqiqQmdagngXWZZeNdZqqq1qqXnqqLlqqZWTqqql2qqPMbgZ",
    b"b50Y0O9VTLNZ9QTq9VeqZcLO7OQP1WWWWWDWWWW440WNW3009WICWWNS6W00WWWFWWWWWWWWWWWWWWWMWWWWWWJF4M",
    b"e0kVLjPaP3AV00IaeYAhNbTkQKSTW1WW9WWWINW0WWWWWWSU3WWW0WFKIX0XEWWWLWWMWWW50RNWWWWPKVWF24RbKd",
    b"jUFV0NC0XdUW0P0VHT9NGC0E09OQGSAT8RW1WWH9WW0WW0W0FWWWWWF06N0W3WWQMWWBWWJ9WO0WWWWL4WWHWWLfnQ",
    b"qV4W0NENaJK0OMcJ8HJbI0l0HPU9BHK60OWWFWWWWWHWWWSWWWWWWWd0TR30AWWWDWWW7WWWWF7WWJWNIHWWWWXU5P",
    b"pc2V0KLZYBc0OFLV7L40E8DNT3KMWW7VI2WWWWWTOHWWW07JWFW00WFAmn5dGWWGWWWSWWU000PW0BWWW0Q2WWWeOQ",
    b"c40W0PKJWT91bNKfD0ZT7RYU4BQeQWWWNCWW3WWHWW0WW0W3MWWW5WgN0SGqACWJKWWA7WW5W9OUU9WW8LWMECRgAS",
    b"j00W0RUNYKqB60cS00PlTEFKFneRWWWW0WUOHWWWWMTWW4FW0WWWWWW0PXg05VWW0WWWDVW8OWT1I7JW9QW6WWKoAO",
    b"g09V0TeIWXfdnTLM0EMqcCQTTKTPEWWW0WWW5WWWWMBWWLW0WWWWWWLC0eJ0GWWT9WWWPWWUWWKWW2WHWWV103Qe0Z",
    b"Z0BV0UJRML70cTNF0aHMQ0j2B5OSGW0LWOAWWWW7008EW700WWWWWQMgGQJoWWWWC2TWWWQUC1W3WWC0WWWUWWOgPf",
    b"e4nVhW9TPQUqIQT7YRQ1YWCWOURZWWWWNWWWWWWWWWWWWW0WWWWWWWKQmN0UIJWWWTR08WNVWT0WWW0QCFWWWRceWS",
    b"i00WQW4VaOaX0CQ0GnWiPTLI0BMUWWWW5WWWVWWWWWWWWWWWWWWWWWWG0W00UWWW3MW0WOLWQWWW3WWWWCWW0UWm9R",
    b"h0aV2VOVpPSq00EE00R3I3i0b0TO0WWW0WWW0WW3WW0WWWSJ0WWWWWL3DV300WW6ATWW0WW8KWEARWHWWIWW6W0YOR",
    b"fBdW2OJSV3TNGDbR0bjWMLPSbPeRFWWW0WWW5WWG9WLWWWWWPWWWWWl7gQDL1NWWBWPMWWW0WW406WSWWWWW0KNdNN",
    b"m0fW00ARWcYl5GYd06ATQCq601SMWW0FFM0WWWWWWV0WWW006UWW0WE5qX5aIWWCSWC7PWWVJW0DWAWW0QWWWRVqJN",
    b"h70V0WDaDXX5TQRK0Bg8WQCNYKNMWWD8W0MWWWFW90DFW0Q02WKWWWNmCO0KW0VWW1W9SDPWWWWIO0WCW3WRWWjc0V",
    b"i0BW0PKUOY1q00N0ObhePNW0QXQgAW8AHSWWCWL5WWFQW9RDIWWW0WSNRS4n3WWWOEWDWNW0WWBTW7GS50WTBUhcTQ",
    b"hOBVVXIQWSSW4GO0hBmkjCZP0BWQWWWWWWWWWWWQWWWWWWWW9WWWWWbRVV0TWWW8WWWWWWWWWWW6RWWW1WWWWWShOQ",
    b"a06W0FAUOPEEACH0Oj09ED7a0NKR6WMJ0WSW0SWGW00EW6E5N0WW1W20Ka60FWWW5SWWPWW6WWW8WWWW9WWWQWaePU",
    b"i0FW0F0ePUMI00HZRq9I6NOeS0ONEVAC0WJNIWWAWW0SWW73LWWWWWb0LPg00W600WWI870WW078WWQ47S9W0WOW0R",
    b"q01V0GXNXTBq0954030EQGCNb1QT0WWWBWW08WWNQJ9VWILDCWGL8W89aa92HWPC2WW0AW1WWP0NWDWWSDV00JRRTY",
    b"g5AV6UBWUQCOOTdUXq0cFQRX0aaWWWWN3WWWNWW0W9W0W000WWWWWWm4oO0OWWWWWW70SWWWWSA0WHLRWWWWWWYdRc",
    b"e50WbTQXVQYZc5S4PLZVKBX9Z5VXPWWW9WWWEWWWWWNWWWWWWWWWWWIPWY7X2OWW4QWWW80G0WK6WWGJ0WWWTTEl0M",
    b"o1JWMb0OXm1bVZBRmg3fO0hBAIRd0WWWWWW9FWWWQWWWWWIWWWWWWWIabO00HGWW0WW97WWERWAW7W5WWWWQWWOkPO",
    b"g01W0R0RXHhm20XiS0MqBlME0QTQWWWWWWWWUWWWNWWWWWWWWWW1WW0Z5U90NWWRWW0FWNWOWWWACWWWWWAW9WVc0Z",
    b"g00W0WeUQQRj0OP35F0RC00H0OYSWWWWWWWWWWWWWWTJWWWWWWWWLWLnoXRYOOWW3WWWW0WWVW0TWW0WWWWWWSWeWT",
    b"h3CWTP0XTUSmH0JbF9WXGTToRbNPWWWWWWWWWWWWWWWWWWWWWWWWWFLT6U00WBHWWLWKTMWPWWOWWWOWWWWWW7JXeU",
    b"ck0V5QGWadYHRGTj6QqYZ0danhXdcAc0Th09EWD0cqq6f6Rm4Vq9QqMa1bZCSfnKFqd9MqJqqaaIqSoUjq3nVjcdbf",
    b"em0VBZ0XkqlM7KShbNLIqdeqVqfdoeqqgDdgpeqQ7qe3dh0g5LVkbq0VXZ0ZqXqLqUlqkhZRqYjlfViJVqZImbmXqe",
    b"fq9VAaYZZgo6FEWM0QMZq86Y8J8fpnjckdchhYcqjhqpbURqgcbjacLFMXRqqqqVqqplqmkqnqqqqoqqjqgqqq0BWf",
    b"afYW6ZZcjbZRQccYb6qahabdcfbaSZMciqiiieYjejhiokmcgVagec0KYCXajqqqnkVDOqqiqjqjkjqqqjVnqjNogh",
    b"kl0X0fZPXMjLbhieLhqWq2MmeIahUTDMiAOeRYRJYSYF8MC7l0Ci00Ua2a2QfhjakNleUY6QREpSOjHUCGphmqRIjc",
    b"mkOV4lbq0qcccegkJTC0d1UqihaOAgqqWq4Lj0bJ09X8PTG00pZafqO2FYCKJLSXkjFGRPmpcOYRGqLqPQiKqqbhq8",
    b"g0qWD0K0GKDPNZ7CcB5JQPFH761TWWWWWWWWWWWWWWWWWWWWWWWWWWP8L9FjK825WF0WBWL050W5W270DG040RGJRX",
    b"h2qWI3OQh000000EF00N4GhZB00SWWWWWWWWWWWWWWWWWWWWWWWWWWOHMJ0fBWNW5WWWE6W3CLBWWKJM0WWW9WPSFS",
    b"fRqW0KBHI00lC2LnfBCSHZQX0YWaWWWWWW1WWWWWWWWWWWWWWWWWWWV0JcJRCW6U0WW6FW30RW0WW0H36WWWANK0QT",
    b"i7qW00M0X3HZB9L2MO4EG0NCB0SeWWWWWWWWWWWWWWTWWWWWWWWWWWR0XJP99BW82WWWAWWQWW7WWT9WPWWW7WRN1T",
    b"cFoX07DfaWN9CC19820EDHNFITEqWWNQWWWLQWWWWWWWWWWCFWWWWW525J3L5D00JADWJWWH35PA2308WN805WTM4b",
    b"k0qX40AVNdFEI0ddG22pGR3B0S0YWWWWWWWWWWWWWWWWWWWSWWWWWWPFJIF67WWJ2BWW1WWGWU1WW7W20WWW6WKG2W",
    b"a0qX01K0LSPU4650OQ02UQleAO60WWWWWWWWPWWWWWWWWWWWWWWWWW0SQQ8XWWWW7WK09WW7W7PWW9LWCSWWWWBiqP",
    b"gWqW0000F6MIMLJQT0HOMOCV0JEkWWWWWWWWWWWWWWWWWWWWWWWWWW0igN000WWW0WWW3WWIWK1WWFU2WWWWWWX0VU",
    b"iKqXjMR9NSq0JGefaSB4LpPePq0QWWWWWWWWWWWWWWWWWWWWWWWWWW20FVQL8000755WWWW73000WA41W7WMW0UXUS",
    b"gTqYqRVSMPHHI09kMdHqFWhTBOMJWWWWWWWWWWWWWWWWWWWWWWWWWWOLFf0PWWWW0WWWWWWWWWLWWW0WWWWWWWNjLR",
    b"lRqW501BSRA0920S2800d5AUWN0hWWWWWWWWWWWWWWWWWWWWWWWWWWLQ0K7LWWWWAW40IWWWWWWWLWEWWWWWWWZP0O",
    b"pQqW0AEHdSBI1GO0WR0CHILR0KKRWWWWWWWWWWWWWWWWWWWWWWWWWW9I9MB08QWF13WW3LW8WW10WW087CWW0WMkFO",
    b"g8qX1070Zi0L2HdAfdJBK2U3GkKQWWWWWWWWWWWWWWWWWWMWWWWWWW085Q0B4CWA1WWW8WWK8W20WWIWJWWW7WUT6P",
    b"fYqW000XI0Q60D5CO95Uh0d90P3bWWWWPWWWWWWNWWWWWWQWWWWWWWF11O96AW30C4008WK0W4E2WW00I9WW0WTU7M",
    b"c8qW0X50YSBZAUlKkNBiEZHC6mFpWWWWWWWWWWWWWWWWWWWWWWWWWWKHONP3CG54W07L319A9057W0F70N4E9Wm00P",
    b"e0pX0XSCNPTmA4RV5QM9Z880I89QWWWWWWWWWWWWWWWWWWWWWWWWWW6HFVC05WVI1WA0FWT0IW09W0F3IWWWAWXo7V",
    b"qDqWqIqOKMNdcqNMd9fUqaXbORKNWWWWWWWWWWWWWWWWWWWWWWWWWWLNUT0SWWWWWWWWWWWAWWWWWWWW0WWWWWLh6U",
    b"e0qW00LJJCEQ08OIJ67DOFGK650mWWWWWWWWWWWDWWWWWLWWWWWWWW0KCR98FW9D0M0W6W2Q6A3RWCD3QBKW5WRGFU",
    b"c6qX0M9oJ0CM7G0WNR0LU3MfC6BqWWWWWWWWWWWWWWWWWWWWWWWWWS60ASW0GWEW3UW86WQWWW1BNW526WPW3WRcFW",
    b"k0qX0AC0n00C3FD5KD48D6J2B5OqGWWWWW1WWWWWWWWVWWQKWWWWWWJ34SAF8WAR5WW00WWWHW1GW08L6WBW0W4OfO",
    b"o6qW8I0OQgXC000000KMG0gE0XBAWWWWWWWWWWWWWWWWWWWWWWWWWW00IVFRJ0070L6WCWW0D6F0W012PWW9WWFXTO",
    b"iEqWjl00KHb0KKN00BIS8Ef503PSWWWWWWWWWWWWWWWWWWWWWWWWWWGLqGHPGWWW0WWW0WWWWWQWWWWWWWWWWWDRCL",
    b"k0qW0LReUDJS2C4YR04JB0R0NGRQWWWWWWWWWWWWWWWWWWWWWWWWWWPQ0OaWGWWW7WW70WWWW00WW2AWWWRWWWPR0R",
    b"eUqY3GZLqY4IOMcTF02TQk0U0N0UWWWWWWWWWWWUWWWWWWWWWWWWWWJA0M0RHWIWOTWWMWWWRWW6WWWCWWW5UWQR2Q",
    b"b0qX0Bl2GIj0LLR2FA9PKEGaE72ZWWWWWWWWWWWWWWWWWWWWWWWWWWCUU8G5WWWWWWWWWWWWWL2FWUH9WWGW2W4CHb",
    b"hZqYmVURPMOEqUfiqR0nM2l02JJBWWWWWWWWWWWWWWWWWWWWWWWWWW040Md9VWWWNWWWWWWWWWSWWWWWWWWWRWKSHP",
    b"ZU3V3bFYbBfVVfhebMiVNKdXgbd4005Z1GFfei0mONh0bj0C04eYaqEXYaQqbbqKhVjJgiDnqdbhUIgXYRjicqMX1g",
    b"e90VDMeaSTqZ7lVEiVqZeqTXSqgXiPRCoqqqaimeqqadqcZcjaoqoqWZWiKbqYm1qKfpogqqmqqendqoClqqqqWBdi",
    b"qd2V4c0XBja7eLYhIPO0q0IXRNjPZqqmjgggjiqZgeakZlkZdfkhNZKXXYiOqWqqWqLmMhqnnqqqkcb9qqqqlqhOMZ",
    b"bkMVFcqggkioOqqchdqDnUXfadfeefoplXcbhogYYabWeecYcffdiaZaeffeqnqnOoqmqjmnkpqqpqZqjqkqljZch3",
];

/// The cost of a non-ASCII character, as a share of its [`alone`] cost, one
/// column per [`script`] and a last one for a symbol that repeats. The rows are
/// the character before: the seven ASCII classes, then the scripts.
const SCRIPT_COSTS: [&[u8; 40]; 46] = [
    b"a2gKVZUgYY2PgYWYYPY0YgdgK3PgUY0YYYYgggWY",
    b"gaWXSgUVYa8YYYYYYUY2V0VS0YX1QbFYYVYbgWXY",
    b"ggYNXXWZXXgXYKYYYeYMYIgW0TWgaGYYYYgegXdY",
    b"VggfWfgggdZVYgggRgYgggggY9SEKbeOaaYQgggY",
    b"ggeagPSgfggUgfdgXgYggYgggggXWYgggfYdgggY",
    b"ggYYYYYYYYYYYYYYYYYYYYYYYYYZYYYYYYYaaXYY",
    b"ggaTfgggQbWbgYggQgYggCggRgSggeggVJYegSgY",
    b"ZggYgYYYYYYcYYYYYgYYYYggYggggYYYYYYggggY",
    b"gggYXYYYYgYYYYYYYgYYgYggYgggggYgYYYggggY",
    b"gYXYgYYYYYYYYYYYYggYYdggYggYgYYYYYYYYggY",
    b"aYYggYYYYYYXYYYYYYYYYYggYYYegYYYYYYXYgYY",
    b"YgYgbYYgYgYYYYYgYgYgYgggYgggYgYYYYYXgggY",
    b"YYYYYgOgYYYYYYYYYYYYYYggYggbYYacYYYeggYY",
    b"YgYYYggeYYYYYYYYYYYYYYggYgYbYYYYYYYYYgYY",
    b"YYYYYgegXYgXYYYYYggYYgggYggXYYYYYYYVgggY",
    b"YYYYYYYYgaYYYYYYYYYYYYYgYYgYYYYYYYYgYgXY",
    b"VgYYYYYYfgYYYYgYYYYYYgggYggVYYYgYYYcgggY",
    b"YgYYYYYYYYZJYYYYYYYYYYggYgggZYYYYYWYggYY",
    b"aYYYYYYYYYZaYYYYYggYYYggYggXUgYYYgYVgggY",
    b"YgYYYYYYYYYYgaYYYgYYYYYgYYYYYYYYYYXYYgYY",
    b"YYYYYYYgYYYYbgYYYXYYYYggYggYgYYYYYYYYggY",
    b"YYYYYYYYYYYYYYfgYYYYgYggYgYYYYYYYYYYYggY",
    b"YgYYYYYYYYYYYYgcYYYYYYggYggYYgYYYYYYggYY",
    b"YYYYYYYYYYYYYfYYcUYYYYgYYYYgYYYYYYgYggYY",
    b"gggYYYYgggYgY2YYgggYYgggYgggggYYYYgYgggY",
    b"YgYYYYYYYYYYYYYYYYYYYgggYggYYYYYYYYYgggY",
    b"YgYYYYYYYYYgYYYYYgYcfgggYggBYYYYYYYYgggY",
    b"YYYYYYYYYYggYYYYYgYgg0ggYggegYYYYYYYgggY",
    b"YgYYYYYYYgYYYgYYYggggdgggggNggYYYYYYgggY",
    b"ggggggggggggggggggggggggggggggggYgYggggY",
    b"ggggggdgggggggggYgggggggggggggYgYgfggggY",
    b"YYYYYYYYYYYYYYYgYgYYYgggbggYgYYYYYYYgggY",
    b"ggggYfggggYgYYfgggggggggggggggYgYgYYgggY",
    b"gggYggfgggggYgggYgggggggggggggggYYYXgggY",
    b"gggaYgMYYYgGXYYYYgYCgcggKgggggggYYYggggd",
    b"gggaYYYYggYgYgYYYgYgegggYgggggYggggggggT",
    b"YgYYYYYgYgYYYYYYYgYYYgggggggggYYYgVYgggg",
    b"YYYYYYYYYYYYYYYYYYYYYYYgYgYgYYggYYYYYgYE",
    b"agYaYagYYYaYYYYgYggYYgggYgggggggYYYYgggg",
    b"YYYYYYYYYYYYYYYYYYYYYYYYYYYYggYYggYYYYYY",
    b"YYYYYYYYYYYYYYYYYYYYYYYgYYgYgYYYgggYYYgg",
    b"YYYYYYYYYYYYYYYYYgYYYYYgYYgXYYYYgggYYYYY",
    b"ggYXYfZRXcYWYYYYYXYYYYggYXXggXaYYYYYJggC",
    b"gggYgUYgYgggYgYgYgYgggggggggggYgYYYMgggg",
    b"gggdggggegggggggggggggggggggggYgYggegggg",
    b"gggYgYYgYgYgYgeYYgggggggfgggggYgYgYggggY",
];

/// The cost of an ASCII character after a non-ASCII one: a row per script, a
/// column per class.
const ASCII_AFTER_SCRIPT: [&[u8; 7]; 39] = [
    b"Uqq0qYq", b"q0qTYhq", b"qWW7pWq", b"MWU5qWa", b"WWVAgWd", b"Thk8qWI", b"TWV0XWl", b"VVS8IWq",
    b"ZWZ8lWq", b"YXP9cWC", b"WMW4iWX", b"YDW0CWq", b"WWW9nWS", b"WVP4jWo", b"WWW0mWf", b"WWW8fWh",
    b"WWV0jW9", b"ZVWaqWp", b"WWW2WWW", b"CDdMpWW", b"WTW4jWq", b"U0P5qWb", b"aVSqqWq", b"aWWlhWq",
    b"WW70qWV", b"WWVfqWa", b"WWWQqWq", b"lqq0RjY", b"q0N0WWG", b"UWWAQWd", b"WEWAoWh", b"WWW0kWq",
    b"WWW5eWV", b"WVq5fWM", b"WWWqqWq", b"qQLLcUV", b"qqoqqkq", b"lWWqqWU", b"WWWEiWX",
];

/// The share for a Cyrillic letter after another, both in the order of [`cyrillic`]:
/// the thirty-two from U+0430, then `ё`, `є`, `і`, `ї`.
const CYRILLIC_COSTS: [&[u8; 36]; 36] = [
    b"g0Dga0T2gTBI0QgRPb0ggg5Aggggggg8Regg",
    b"gggggUggggYgggIgQgggggggggSJgggggggg",
    b"DggggGggggdNggUgKgggggggggg0gggggggg",
    b"ggggggggcggggg0ggggZgggggggggggggggg",
    b"0ggggKgg9gg0ggFgggggggggggggggggXggg",
    b"ggUKDcgfgJS6A3gg060ggDgTgggggggggggg",
    b"ggggg9ggBggggUggggggggggggggggggXggg",
    b"1gggVgggagggQgIggggcgggggggggggggggg",
    b"g1VTMCg7AgbI0PgaG00gNggfggggggg0gggg",
    b"ggggggggggg0ggggggJggggggggggggggggg",
    b"5gggggggLggegg8ggCcLgggggggggggggggg",
    b"YggggFTg4ggggW4ggggbgggggggg3gW0Oggg",
    b"Kgegg0ggTgggdg9YgggggggggggAgggcbggg",
    b"Tgggg0gg0geggf0gggJNAgggggg0ggggLggg",
    b"g234207Jg0800bfXHC6ggggccggggggggggg",
    b"5ggggDgg5ggggg0g0ggBgggggggfgggggggg",
    b"5ggOgGSgFggg0g0ggggJgggggggXgggggggg",
    b"gggggAggGgF0SgF4g00eggggggg0SggNgggg",
    b"Egcgg0ggTgNggK8gJJgggggagggG0ggggggg",
    b"gggc0Rfggdgg5ggdg5gggggQgFgggg0ggggg",
    b"0gggggggWgggggCggggggggggggggggggggg",
    b"ggggggggggggggfggggggggggggggggggggg",
    b"gggggggg0ggggggggggggggggggggggggggg",
    b"WgUgg5ggNgggggggggAgggggggggggggSggg",
    b"gggggfggCggggggggggggggggggggggggggg",
    b"gggggNggFgggggggggggggggggggggggVggg",
    b"gggggEgggggggggggggggggggggggggggggg",
    b"gg0gg0ggg1gQgggRggagg0gggggggggggggg",
    b"gggggggDgggggagggbgggggggggggggggggg",
    b"gggggggggggggggggggggggggggggggggggg",
    b"gggggggggggggggggggggggXgegggggggggg",
    b"gggggKggggggggggggMggggggggggggggggg",
    b"gggfggggggggg0ggfX9ggggggggggggggggg",
    b"ggggggggggggggggggGggggggggggggggggg",
    b"gggggggggggggggggggggggggggggggggggg",
    b"gggggggggggggggggggggggggggggggggggg",
];

/// A bit per 64 characters from U+0000: set where none costs more than two tokens alone.
const SHORT_BLOCKS: [u64; 16] = [
    0x37ffcff0ffffffff,
    0x0c000000c0000009,
    0x0000000073f20377,
    0x000000000000002f,
    0xff00000000000000,
    0xff87e0bfb87bffeb,
    0x1ffff02bfff6ff1b,
    0x7c36fff63e31c312,
    0xe0ffe7ce0201bf8f,
    0x4800024f3ffc108f,
    0x03af000000000000,
    0x014d86ebc019ac34,
    0x024500d17fe00c7c,
    0xffffffff0320141a,
    0x0000000000000000,
    0xf100000000000004,
];

/// A bit per character of [`SINGLES`].
static SINGLE: [u64; 1024] = {
    let mut bits = [0; 1024];
    let bytes = SINGLES.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let lead = bytes[at] as usize;
        let second = (bytes[at + 1] & 0x3f) as usize;
        let code = if lead < 0xe0 {
            at += 2;
            (lead & 0x1f) << 6 | second
        } else {
            at += 3;
            (lead & 0x0f) << 12 | second << 6 | (bytes[at - 1] & 0x3f) as usize
        };
        bits[code / 64] |= 1 << (code % 64);
    }
    bits
};

/// The characters that are one token in both vocabularies.
const SINGLES: &str = "\
    \u{80}\u{92}\u{a0}¡¢£¤¥¦§\u{a8}©ª«¬\u{ad}®\u{af}°±²³\u{b4}µ¶·¹º»¼½¾¿ÀÁÂÃÄÇÉ\
    ÍÎÐÑÓÖ×ÚÜßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýāăąćčĐđēęěğīİıłńōőœřśşšţťūůűźżžơưșțə\
    ɵ\u{300}\u{301}άέήίαβγδεηθικλμνοπρςστυφχωόЂАБВГДЕЗИКЛМНОПРСТУФЦЧЭЯабвгдежзи\
    йклмнопрстуфхцчшщъыьэюяёі\u{5d0}\u{5d1}\u{5d3}\u{5d4}\u{5d5}\u{5d7}\u{5d9}\
    \u{5dc}\u{5de}\u{5e0}\u{5e2}\u{5e8}\u{5e9}\u{5ea}،\u{623}\u{625}\u{627}\
    \u{628}\u{629}\u{62a}\u{62b}\u{62c}\u{62d}\u{62e}\u{62f}\u{630}\u{631}\
    \u{632}\u{633}\u{634}\u{635}\u{636}\u{637}\u{638}\u{639}\u{63a}\u{641}\
    \u{642}\u{643}\u{644}\u{645}\u{646}\u{647}\u{648}\u{649}\u{64a}\u{64e}\
    \u{64f}\u{650}\u{651}\u{652}\u{67e}\u{6a9}\u{6af}\u{6cc}\u{902}कतनपमरलसह\
    \u{93e}\u{93f}\u{940}\u{941}\u{947}\u{94b}\u{94d}নর\u{9be}\u{9bf}\u{9c7}\
    \u{9cd}\u{bbf}\u{bc1}\u{bcd}\u{d4d}กขคงจชณดตถทนบปผพมยรลวสหอะ\u{e31}าำ\
    \u{e34}\u{e35}\u{e37}\u{e38}\u{e39}เแใไ\u{e47}\u{e48}\u{e49}\u{e4c}\u{17b6}\
    ạảấầẩậắặếềểệỉịọỏốồổỗộớờởợụủứửữự\u{200b}\u{200c}\u{200e}‐‑–—―‘’‚“”\
    „†•…‰′″›※₂€™←↑→↓−─━│═║╗╝█░■►●★☆☴♀♥♪✔⠀\
    \u{3000}、。《》「」『』【】〜あいうえおかがきくけこごさざしじすせそただちっ\
    つてでとどなにのはばまみめもやよらりるれろわをんアィイウェエオカキクグコサシ\
    ジスズセタダチッテデトドナニバパビピフブプペポマムメャュョラリルレロン・ー一\
    万三上下不与专业东两个中串为主么义之也书了事二于五些交产享京人亿今介从他付代\
    以们件价任份企优会传但位体何余作你使例供価保信修倍值停像元先入全公共关其具内\
    円册再写出击分列则初利别到制前力功加务动動包化北区十午华单南即历原去县参及友\
    反发取变口只可台右号司合同名后向否含听启告员周命和品哈商問器四回因国图土在地\
    场址型城基報場填增声处备复外多大天失头女好如始子字存学安宋完定实审客家容密对\
    导将小少尔就局展山岁州工左已市布常平年并广序库应店度建开异式引张当录形影径待\
    後得微心必志态思性总息您情意感成我或户所手打找技投报拉持指按换据排接推提播支\
    收改放政效数整文料断新方族无日时明易星是時景更最月有服期木未本机权束条来板构\
    析果查标样核格案检模次款止正此步歳段每比民気水求江汽没治法注活流海消清游源火\
    点無然片版物特率环现球理生用由电男画界番登的监目直相省看県真知码确示社票私种\
    科秒称移程稍税稿空立站章端笑符第等签简算管箱米类系素索约级线组经结给络统编网\
    置美老考者而联能自至色节英藏行表装西要見见规视角解言計記話読计认议记论设证评\
    试话询该详语误说请读调象责败账货购费资起超路身车转软载辑输达过运近还这进连述\
    退送选通速造連道邮部都配释里重量金钟钮链销错键长開間関门闭问间队阳陆限院除雅\
    集雷需非面音页项预频题额首验高黑가간값개거게결경고공과구그글기나내는능니다당\
    대도동되된드든들디라래러력로록료류른를름리만메면명목문미버번보복부분비사산상\
    색생서성세션소수스습시식신아야어에여열오와요용우운원위으은을음의이인일임입자\
    작장재적전정제져조주지진째체출치크태터턴트튼하한할함해호화환회\u{fe0f}\
    \u{feff}！（），－．／０１２３４５６７８９：；＞？\u{ff3e}～･￥�";

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that a context can add to the costs of the following text, in
    /// units, compared with a fresh start: the pairs of the first character,
    /// the runs, and the repeats.
    fn most_lost() -> i64 {
        let cost = |state: usize, class: usize| i64::from(RUNS[state * CLASSES + class]);
        let next = |state: usize, class: usize| match class {
            7 => AFTER_NON_ASCII,
            class => following(state, class as u8),
        };
        // The maximum difference of the costs of runs between two start states,
        // over any text.
        let mut more = [[0; STATES]; STATES];
        loop {
            let mut changed = false;
            for a in 0..STATES {
                for b in 0..STATES {
                    for class in 0..CLASSES {
                        let sum =
                            cost(a, class) - cost(b, class) + more[next(a, class)][next(b, class)];
                        assert!(sum < 1000, "a cycle gains on another");
                        if sum > more[a][b] {
                            more[a][b] = sum;
                            changed = true;
                        }
                    }
                }
            }
            if !changed {
                break;
            }
        }
        // The state a text is in after a character of each class.
        let states = |row: usize| match CLASS.get(row) {
            None => 23..24,
            Some(&LOWER) => 0..8,
            Some(&UPPER) => 8..11,
            Some(&DIGIT) => 11..14,
            Some(&SPACE) => 14..18,
            Some(&BREAK) => 20..21,
            Some(&TAB) => 21..23,
            Some(_) => 18..20,
        };
        let mut most = 0;
        for row in 0..START_ROW {
            for byte in 0..128 {
                let class = CLASS[byte] as usize;
                let pair = i64::from(COSTS[row][byte]) - i64::from(COSTS[START_ROW][byte]);
                // A fresh start sees a repeat three characters later.
                let letters = row < 128 && CLASS[row] <= UPPER && CLASS[byte] <= UPPER;
                let repeats = if letters { 3 * REPEAT as i64 } else { 0 };
                for state in states(row) {
                    let runs = cost(state, class) - cost(AFTER_BREAK, class)
                        + more[next(state, class)][next(AFTER_BREAK, class)];
                    most = most.max(pair + runs + repeats);
                }
            }
        }
        most
    }

    #[test]
    fn the_head_pays_for_any_lost_context() {
        assert!(most_lost() <= HEAD as i64, "{} units are lost", most_lost());
    }

    #[test]
    fn no_share_is_above_the_full_one() {
        let shares = SCRIPT_COSTS.iter().flat_map(|row| row.iter());
        let letters = CYRILLIC_COSTS.iter().flat_map(|row| row.iter());
        assert!(shares.chain(letters).all(|&share| digit(share) <= FULL));
    }

    #[test]
    fn every_character_has_a_column() {
        for c in '\u{80}'..=char::MAX {
            assert!(script(c, alone(c)) < SCRIPTS, "{c:?}");
        }
    }
}
