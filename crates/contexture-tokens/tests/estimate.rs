//! The estimate against the exact counts of two vocabularies, and its laws.

// A helper may panic as a test may, and the table is meant to be read.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use contexture_tokens::estimate::{estimate, estimate_up_to, prefix_within};
use proptest::prelude::*;
use std::fmt::Write;

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}

const WORDS: [&str; 40] = [
    "account", "balance", "buffer", "cache", "client", "commit", "config", "context", "cursor",
    "default", "deploy", "element", "error", "event", "filter", "handle", "header", "index",
    "insert", "invoice", "layout", "limit", "message", "number", "offset", "order", "packet",
    "parser", "period", "report", "request", "result", "schema", "server", "status", "stream",
    "thread", "update", "value", "window",
];

/// Repeats what `line` writes until the text is long enough to be a file.
fn lines(seed: u64, mut line: impl FnMut(&mut Random, &mut String)) -> String {
    let mut random = Random(seed);
    let mut text = String::new();
    while text.len() < 4000 {
        line(&mut random, &mut text);
        text.push('\n');
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, &b| bits << 8 | u32::from(b)) << (8 * (3 - three.len()));
        for at in 0..4 {
            text.push(if at <= three.len() {
                DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char
            } else {
                '='
            });
        }
    }
    text
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

/// Characters of `range`, evenly, without invalid code points.
fn characters(seed: u64, range: std::ops::Range<u32>) -> String {
    let mut random = Random(seed);
    let width = u64::from(range.end - range.start);
    let codes = std::iter::from_fn(|| Some(range.start + random.below(width) as u32));
    codes.filter_map(char::from_u32).take(1500).collect()
}

/// The kinds with a ceiling, then those without, written here or generated.
fn samples() -> Vec<(&'static str, String, f64)> {
    let ordinary = 1.35;
    let any = f64::INFINITY;
    let file = |text: &str| text.to_owned();
    let mut samples = vec![
        (
            "english",
            file(include_str!("samples/english.txt")),
            ordinary,
        ),
        ("markdown", file(include_str!("samples/notes.md")), ordinary),
        ("rust", file(include_str!("samples/code.rs.txt")), ordinary),
        (
            "python",
            file(include_str!("samples/code.py.txt")),
            ordinary,
        ),
        (
            "typescript",
            file(include_str!("samples/code.ts.txt")),
            ordinary,
        ),
        ("go", file(include_str!("samples/code.go.txt")), ordinary),
        ("c", file(include_str!("samples/code.c.txt")), ordinary),
        (
            "languages",
            file(include_str!("samples/languages.txt")),
            any,
        ),
    ];
    // Each language is a kind of its own as well.
    for part in include_str!("samples/languages.txt").split("## ").skip(1) {
        let (name, text) = part.split_once('\n').unwrap();
        let name: &'static str = match name {
            "Chinese" => "chinese",
            "Japanese" => "japanese",
            "Korean" => "korean",
            "Russian" => "russian",
            "Arabic" => "arabic",
            "Hindi" => "hindi",
            "Thai" => "thai",
            "French" => "french",
            other => panic!("no such language: {other}"),
        };
        samples.push((name, text.to_owned(), any));
    }

    samples.push((
        "json",
        lines(1, |r, t| {
            write!(
            t,
            "  {{\n    \"{}\": \"{} {}\",\n    \"{}\": {},\n    \"{}\": [true, null, {}.5]\n  }},",
            r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS), r.below(100_000),
            r.pick(&WORDS), r.below(100),
        ).unwrap();
        }),
        ordinary,
    ));
    samples.push((
        "json, one line",
        lines(2, |r, t| {
            write!(
                t,
                "{{\"{}\":{},\"{}\":\"{}\"}},",
                r.pick(&WORDS),
                r.below(1000),
                r.pick(&WORDS),
                r.pick(&WORDS)
            )
            .unwrap();
        })
        .replace('\n', ""),
        any,
    ));
    samples.push(("lock file", lines(3, |r, t| {
        let name = r.pick(&WORDS);
        write!(
            t,
            "    \"node_modules/{name}\": {{\n      \"version\": \"{}.{}.{}\",\n      \"integrity\": \"sha512-{}\",\n      \"license\": \"MIT\"\n    }},",
            r.below(20), r.below(20), r.below(20), base64(&r.bytes(64)),
        ).unwrap();
    }), any));
    samples.push(("javascript, minified", lines(4, |r, t| {
        write!(
            t,
            "function {}(e,t){{var n=e.{}||[],r={};for(;r<n.length;r++)if(n[r].{}===t)return!0;return void 0!==e.{}}}",
            (b'a' + r.below(26) as u8) as char, r.pick(&WORDS), r.below(9), r.pick(&WORDS), r.pick(&WORDS),
        ).unwrap();
    }).replace('\n', ""), any));
    samples.push((
        "html",
        lines(5, |r, t| {
            write!(
                t,
                "  <li class=\"{}-{}\" id=\"n{}\"><a href=\"/{}/{}.html\">{} &amp; {}</a></li>",
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.below(500),
                r.pick(&WORDS),
                r.pick(&WORDS),
                capital(r.pick(&WORDS)),
                r.pick(&WORDS),
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "css",
        lines(6, |r, t| {
            write!(
            t,
            ".{}-{} > a:hover {{\n  margin: 0 {}px;\n  color: #{};\n  display: inline-block;\n}}\n",
            r.pick(&WORDS), r.pick(&WORDS), r.below(40), hex(&r.bytes(3)),
        ).unwrap();
        }),
        any,
    ));
    samples.push((
        "yaml",
        lines(7, |r, t| {
            write!(
                t,
                "- name: {} {}\n  {}:\n    enabled: true\n    {}: {}\n    paths: [\"/{}/*\", '{}']",
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.below(9000),
                r.pick(&WORDS),
                r.pick(&WORDS),
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "toml",
        lines(8, |r, t| {
            write!(
                t,
                "[{}.{}]\nversion = \"{}.{}.0\"\nfeatures = [\"{}\", \"{}\"]\n",
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.below(9),
                r.below(30),
                r.pick(&WORDS),
                r.pick(&WORDS),
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "csv of numbers",
        lines(9, |r, t| {
            write!(
                t,
                "{},{}.{:04},-{}.{:02},{:e}",
                r.below(100_000),
                r.below(1000),
                r.below(10_000),
                r.below(90),
                r.below(100),
                r.below(1_000_000) as f64 / 7.0,
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "log",
        lines(10, |r, t| {
            write!(
                t,
                "2025-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z {} [{}] {} {} id={} took {} ms",
                1 + r.below(12),
                1 + r.below(28),
                r.below(24),
                r.below(60),
                r.below(60),
                r.below(1000),
                r.pick(&["INFO", "WARN", "ERROR", "DEBUG"]),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.below(1_000_000),
                r.below(5000),
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "hex dump",
        lines(11, |r, t| {
            let bytes = r.bytes(16);
            write!(t, "{:08x}  ", r.below(1 << 31)).unwrap();
            for pair in bytes.chunks(2) {
                write!(t, "{} ", hex(pair)).unwrap();
            }
            t.extend(
                bytes
                    .iter()
                    .map(|&b| if b.is_ascii_graphic() { b as char } else { '.' }),
            );
        }),
        any,
    ));
    samples.push((
        "hex digests",
        lines(12, |r, t| t.push_str(&hex(&r.bytes(32)))),
        any,
    ));
    samples.push(("base64", base64(&Random(13).bytes(3000)), any));
    samples.push((
        "base64, in lines",
        lines(14, |r, t| t.push_str(&base64(&r.bytes(57)))),
        any,
    ));
    samples.push((
        "uuids",
        lines(15, |r, t| {
            let id = hex(&r.bytes(16));
            write!(
                t,
                "{}-{}-{}-{}-{}",
                &id[..8],
                &id[8..12],
                &id[12..16],
                &id[16..20],
                &id[20..]
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "urls",
        lines(16, |r, t| {
            write!(
                t,
                "https://www.{}-{}.example/{}/{}?{}={}&page={}#{}",
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.below(99_999),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.below(50),
                r.pick(&WORDS),
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "identifiers",
        lines(17, |r, t| {
            let (a, b, c) = (r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS));
            write!(
                t,
                "{a}{}{} {a}_{b}_{c} {}_{} {a}-{b}",
                capital(b),
                capital(c),
                a.to_uppercase(),
                c.to_uppercase()
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "diff",
        lines(18, |r, t| {
            write!(
            t,
            "@@ -{},{} +{},{} @@ fn {}()\n     let {} = {};\n-    {}.{}({});\n+    {}.{}(&{}, {});",
            r.below(900), r.below(20), r.below(900), r.below(20), r.pick(&WORDS), r.pick(&WORDS),
            r.below(100), r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS),
            r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS),
        ).unwrap();
        }),
        any,
    ));
    samples.push((
        "stack traces",
        lines(19, |r, t| {
            write!(
                t,
                "  File \"/srv/{}/{}.py\", line {}, in {}_{}\n    at com.{}.{}.{}.{}({}.java:{})",
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.below(900),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.pick(&WORDS),
                r.pick(&WORDS),
                capital(r.pick(&WORDS)),
                r.pick(&WORDS),
                capital(r.pick(&WORDS)),
                r.below(900),
            )
            .unwrap();
        }),
        any,
    ));
    samples.push(("latex", lines(20, |r, t| {
        write!(
            t,
            "The {} of $\\mathbb{{R}}^n$ is \\emph{{{}}} \\cite{{{}{}}}.\n\\[ \\sum_{{i=0}}^{{\\infty}} \\frac{{x_{{{}}}}}{{\\sqrt{{{}}}}} \\le \\alpha \\]",
            r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS), 1990 + r.below(35), r.below(9), r.below(90),
        ).unwrap();
    }), any));
    samples.push(("sql", lines(21, |r, t| {
        write!(
            t,
            "SELECT {0}.id, COUNT(*) AS {1} FROM {0} LEFT JOIN {2} ON {2}.{0}_id = {0}.id\n  WHERE {3} >= {4} GROUP BY {3} ORDER BY {1} DESC LIMIT {4};",
            r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS), r.pick(&WORDS), r.below(500),
        ).unwrap();
    }), any));
    samples.push((
        "much white space",
        lines(22, |r, t| {
            let indent = r.below(50) as usize;
            write!(
                t,
                "{:indent$}{}{:gap$}= {};\n\n{:indent$}\t\t}}",
                "",
                r.pick(&WORDS),
                "",
                r.below(99),
                "",
                gap = indent / 2
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "boxes",
        lines(23, |r, t| {
            let width = 3 + r.below(40) as usize;
            write!(
                t,
                "┌{}┬{}┐\n│ {:12} │ {:8} │\n├── {}\n╚{}╝",
                "─".repeat(width),
                "─".repeat(8),
                r.pick(&WORDS),
                r.below(999),
                r.pick(&WORDS),
                "═".repeat(width)
            )
            .unwrap();
        }),
        any,
    ));
    samples.push((
        "emoji",
        lines(24, |r, t| {
            t.push_str(r.pick(&[
                "😀",
                "🎉",
                "👩🏽‍💻",
                "👨‍👩‍👧‍👦",
                "🏳️‍🌈",
                "🇯🇵",
                "✅",
                "⚠️",
                "🦀",
                "🚀",
                "❤️",
                "1️⃣",
                "🧪",
                "🫠",
            ]));
            t.extend(char::from_u32(0x1_f300 + r.below(0x200) as u32));
        }),
        any,
    ));
    samples.push(("blanks", " ".repeat(3000), any));
    samples.push((
        "blank lines",
        format!("{}\n", " ".repeat(90)).repeat(40),
        any,
    ));
    samples.push(("line breaks", "\n".repeat(3000), any));
    samples.push(("tabs", "\t".repeat(3000), any));
    samples.push(("one letter", "p".repeat(3000), any));
    samples.push(("one capital", "Q".repeat(3000), any));
    samples.push(("one digit", "7".repeat(3000), any));
    samples.push((
        "rules",
        "-----=====*****#####".repeat(100) + &"=".repeat(2000),
        any,
    ));
    samples.push(("one bracket", "{".repeat(3000), any));
    samples.push(("two letters", "ab".repeat(1500), any));
    samples.push((
        "random letters",
        lines(25, |r, t| {
            t.extend((0..60).map(|_| (b'a' + r.below(26) as u8) as char))
        }),
        any,
    ));
    samples.push(("random ascii", characters(26, 0x20..0x7f), any));
    samples.push((
        "random punctuation",
        lines(27, |r, t| {
            t.extend(
                (0..60)
                    .map(|_| b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"[r.below(32) as usize] as char),
            )
        }),
        any,
    ));
    samples.push((
        "random bytes, lossy",
        String::from_utf8_lossy(&Random(28).bytes(3000)).into_owned(),
        any,
    ));
    samples.push(("random characters", characters(29, 1..0x11_0000), any));
    samples.push(("random bmp", characters(30, 0x80..0x1_0000), any));
    samples.push(("random han", characters(31, 0x4e00..0xa000), any));
    samples.push(("random hangul", characters(32, 0xac00..0xd7a4), any));
    samples
}

#[test]
fn the_estimate_is_above_both_exact_counts() {
    let o200k = tiktoken::get_encoding("o200k_base").unwrap();
    let cl100k = tiktoken::get_encoding("cl100k_base").unwrap();
    let mut table = format!(
        "{:22} {:>6} {:>6} {:>6} {:>8} {:>6} {:>6}\n",
        "kind", "bytes", "o200k", "cl100k", "estimate", "ratio", "least",
    );
    let mut wrong = Vec::new();
    for (kind, text, most) in samples() {
        assert!(
            text.len() >= 1024,
            "{kind}: a sample of {} bytes says little",
            text.len()
        );
        let exact = |part: &str| (o200k.count(part), cl100k.count(part));
        let ratio = |part: &str| {
            let (a, b) = exact(part);
            estimate(part) as f64 / a.max(b) as f64
        };
        // A sum over a file can hide a bad passage, so blocks are held to it too.
        let least = blocks(&text).map(ratio).fold(f64::INFINITY, f64::min);
        let (a, b) = exact(&text);
        writeln!(
            table,
            "{kind:22} {:6} {a:6} {b:6} {:8} {:6.3} {least:6.3}",
            text.len(),
            estimate(&text),
            ratio(&text),
        )
        .unwrap();
        if ratio(&text) < 1.0 || least < 1.0 || ratio(&text) > most {
            wrong.push(kind);
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "out of bounds: {wrong:?}\n{table}");
}

/// Cuts `text` into pieces of about 300 bytes.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(300);
        let (block, tail) = rest.split_at(end);
        rest = tail;
        (block.len() >= 200).then_some(block)
    })
}

#[test]
fn the_smallest_texts() {
    assert_eq!(estimate(""), 0);
    assert_eq!(estimate_up_to("", 0), Some(0));
    assert_eq!(prefix_within("", 0), 0);
    assert_eq!(estimate_up_to("a", 0), None);
    assert_eq!(prefix_within("é", 0), 0);
    assert_eq!(prefix_within("é", u64::MAX), 2);
    assert!((1..=4).contains(&estimate("a")));
}

#[test]
fn a_limit_in_a_large_text_is_found() {
    let text = "let total = items.iter().map(Item::tokens).sum::<u64>(); // 合計\n".repeat(2000);
    for limit in [
        0,
        1,
        2,
        40,
        1000,
        20_000,
        estimate(&text) - 1,
        estimate(&text),
    ] {
        let cut = prefix_within(&text, limit);
        assert!(estimate(&text[..cut]) <= limit);
        if let Some(next) = text[cut..].chars().next() {
            assert!(estimate(&text[..cut + next.len_utf8()]) > limit);
        }
    }
}

/// A known limit: the estimate knows pairs of letters, not words.
#[test]
fn a_rare_but_pronounceable_word_repeated_comes_out_low() {
    let text = "rotecting ".repeat(200);
    let exact = tiktoken::get_encoding("o200k_base").unwrap().count(&text) as u64;
    assert!(estimate(&text) < exact);
}

/// Text of all sorts: any characters, words and signs, and runs.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        ".{0,12}",
        "[a-zA-Z]{1,14}",
        "[ab]{1,9}",
        "[0-9]{1,9}",
        "[ \t\n]{1,6}",
        "[-=_.:;,(){}<>/]{1,6}",
        "[а-яёЁіїА-Я]{1,9}",
        "[─│あ漢字한é—🙂\u{200d}\u{fe0f}]{1,6}",
        ("[a-z -]", 1..40usize).prop_map(|(c, n)| c.repeat(n)),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn boundaries(text: &str) -> impl Iterator<Item = usize> {
    (0..=text.len()).filter(|&at| text.is_char_boundary(at))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_parts_never_cost_less_than_the_whole(text in text()) {
        let whole = estimate(&text);
        for at in boundaries(&text) {
            let (a, b) = text.split_at(at);
            prop_assert!(whole <= estimate(a) + estimate(b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_prefix_never_costs_more_than_the_whole(text in text()) {
        let mut before = 0;
        for at in boundaries(&text) {
            let now = estimate(&text[..at]);
            prop_assert!(before <= now);
            prop_assert_eq!(now == 0, at == 0);
            before = now;
        }
    }

    #[test]
    fn the_limited_forms_agree_with_the_estimate(text in text(), limit in 0..80u64) {
        let whole = estimate(&text);
        prop_assert_eq!(whole, estimate(&text.clone()));
        prop_assert_eq!(estimate_up_to(&text, limit), (whole <= limit).then_some(whole));
        let longest = boundaries(&text).filter(|&at| estimate(&text[..at]) <= limit).max();
        prop_assert_eq!(Some(prefix_within(&text, limit)), longest);
    }
}
