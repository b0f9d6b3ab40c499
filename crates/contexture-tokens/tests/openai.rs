//! The fast counter against an independent one, and its promises.

use contexture_tokens::{Encoding, OpenAi, TokenCounter};
use proptest::prelude::*;

fn reference(encoding: Encoding, text: &str) -> u64 {
    let tokenizer = match encoding {
        Encoding::O200k => bpe_openai::o200k_base(),
        Encoding::Cl100k => bpe_openai::cl100k_base(),
    };
    tokenizer.count(text) as u64
}

const BOTH: [Encoding; 2] = [Encoding::O200k, Encoding::Cl100k];

#[test]
fn known_texts_count_as_published() {
    let counter = OpenAi::new(Encoding::O200k);
    assert_eq!(counter.count(""), 0);
    assert_eq!(counter.count("hello world"), 2);
    assert_eq!(counter.count("<|im_start|>"), 6);
    assert_eq!(OpenAi::new(Encoding::Cl100k).count("tiktoken is great!"), 6);
}

#[test]
fn sources_count_the_same_in_chunks_as_whole() {
    let text = [
        include_str!("../src/openai.rs"),
        include_str!("../src/models.rs"),
        include_str!("openai.rs"),
    ]
    .concat();
    for encoding in BOTH {
        assert_eq!(
            OpenAi::new(encoding).count(&text),
            reference(encoding, &text)
        );
    }
}

/// Ten megabytes of each take a second or so in a debug build; with a counter
/// that is quadratic, or `n log n` with its usual factor, they would not end.
#[test]
fn ten_megabytes_of_anything_are_counted() {
    let counter = OpenAi::new(Encoding::O200k);
    for (name, unit) in [
        ("blanks", " "),
        ("line ends", "\n"),
        ("one letter", "a"),
        ("emoji", "😀"),
        ("base64", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo1"),
        ("Chinese", "中"),
        ("combining marks", "a\u{301}\u{302}"),
    ] {
        let text = unit.repeat(10_000_000 / unit.len());
        let tokens = counter.count(&text);
        assert!(tokens > 0, "{name}");
        // Stopping early must not look at the rest.
        assert_eq!(counter.count_up_to(&text, 100), None, "{name}");
        let prefix = counter.prefix_within(&text, 100);
        assert!(counter.count(&text[..prefix]) <= 100, "{name}");
        assert!(prefix > 0, "{name}");
    }
}

/// Text of the kind that finds the seams of the patterns: few characters, many
/// ways to meet.
fn tricky() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "\n",
        "\r\n",
        " ",
        "\t",
        "/",
        "//",
        "'",
        "'s",
        "'LL",
        "a",
        "Word",
        "word",
        "XML",
        "1",
        "1234",
        ".",
        ";",
        "->",
        "中文",
        "é",
        "e\u{301}",
        "\u{00A0}",
        "\u{2028}",
        "\u{3000}",
        "👍🏽",
        "\u{0B}",
        "x = 1;\n",
        "    ",
        "<context path=\"a\">\n",
        "</context>\n\n",
        "[... cut ...]\n",
    ]);
    prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn counts_agree_with_the_reference(text in tricky(), any in ".{0,200}") {
        for encoding in BOTH {
            let counter = OpenAi::new(encoding);
            prop_assert_eq!(counter.count(&text), reference(encoding, &text));
            prop_assert_eq!(counter.count(&any), reference(encoding, &any));
        }
    }

    #[test]
    fn seams_add_up_exactly(text in tricky()) {
        for encoding in BOTH {
            let counter = OpenAi::new(encoding);
            let whole = reference(encoding, &text);
            for (at, _) in text.match_indices('\n') {
                let (before, after) = text.split_at(at + 1);
                if counter.is_seam(before, after) {
                    prop_assert_eq!(
                        reference(encoding, before) + reference(encoding, after),
                        whole,
                        "{:?} | {:?}", before, after
                    );
                }
            }
        }
    }

    #[test]
    fn counting_to_a_limit_agrees_with_counting(text in tricky(), limit in 0u64..80) {
        let counter = OpenAi::new(Encoding::O200k);
        let count = counter.count(&text);
        prop_assert_eq!(counter.count_up_to(&text, limit), (count <= limit).then_some(count));
        let prefix = counter.prefix_within(&text, limit);
        prop_assert!(counter.count(&text[..prefix]) <= limit);
        let suffix = counter.suffix_within(&text, limit);
        prop_assert!(counter.count(&text[suffix..]) <= limit);
    }
}

#[test]
fn long_lines_are_chunked_exactly() {
    let line = "fn f(x:u32)->u32{let y=x+1;y*2}don't stop it's 'll ".repeat(2_000);
    let minified = "a=1,b='x',c=function(){return a+b};".repeat(3_000);
    let accents = "Größe naïve façade e\u{301}tude ".repeat(2_000);
    for text in [line, minified, accents] {
        for encoding in BOTH {
            assert_eq!(
                OpenAi::new(encoding).count(&text),
                reference(encoding, &text)
            );
        }
    }
}
