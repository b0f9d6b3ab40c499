//! The exact counters against independent ones, and their promises.

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
fn sources_count_as_the_reference_counts_them() {
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

/// Ten megabytes of each take a second or so; with a counter that is quadratic
/// they would not end.
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
    fn no_text_has_fewer_tokens_than_its_lower_bound(
        text in tricky(),
        any in ".{0,200}",
        code in "[a-cA-Cz1 .,:('\"\n\té—/_!#$%&)*+-]{0,300}",
    ) {
        for encoding in BOTH {
            let counter = OpenAi::new(encoding);
            for text in [&text, &any, &code] {
                let tokens = counter.count(text);
                prop_assert!(counter.lower_bound(text) <= tokens, "{text:?}");
                // A writer may write any character in digits.
                let json = serde_json::to_string(text).unwrap();
                let digits: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
                for json in [&json[1..json.len() - 1], &digits] {
                    prop_assert!(counter.lower_bound_in_json(json) <= tokens, "{json:?}");
                }
            }
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
fn long_lines_count_as_the_reference_counts_them() {
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

/// Text that the other generators do not make: what people and programs write.
fn realistic() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        // Code, with indentation and identifiers that are not tokens.
        "( {0,12}|\t{0,4})(let|if|return|fn|def|}) ?[a-z]{1,9}(_[a-z]{1,7}|[A-Z][a-z]{1,8}){0,3}(\\(&?[a-z]{1,6}\\)|\\[\\d{1,5}\\]| [=!<>+-]{1,3} ){0,3};?",
        "(//|#|/\\*|--|\"\"\") ?([A-Za-z']{1,12} ){0,12}",
        "([A-Z]?[a-z]{1,10}('(s|t|re|ve|m|ll|d|S|LL))?[,.;:!?]? ){1,15}",
        "[A-Za-z0-9+/]{20,200}={0,2}",
        "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        "([\\u4e00-\\u9fff]{1,20}[，。！？、])+",
        "[ぁ-んァ-ヶー一-龥]{1,40}",
        "([가-힣]{1,6} ){1,8}",
        "([а-яА-ЯёЁ]{1,12} ){1,8}",
        "([\\u0600-\\u06ff]{1,8} ){1,8}",
        "([\\u0900-\\u097f]{1,8} ){1,6}",
        "(👍|👩‍👩‍👧|🏳️‍🌈|🇩🇪|❤️|😀|👍🏽|1️⃣){1,12}",
        "[ \t\u{A0}\u{3000}]{1,150}",
        "[\r\n \t]{1,40}",
        "[-=*#_~/\\\\]{1,120}",
        "(<\\|(im_start|endoftext|im_end)\\|>|</?[a-z]{1,8}( [a-z]{1,5}=\"[^\"\\n]{0,12}\")?/?>){1,6}",
        "[\\x00-\\x1f\\x7f\u{FFFD}\u{FFFE}\u{FEFF}\u{200B}-\u{200F}\u{E000}\u{10FFFF}]{1,20}",
        "(\\\\x[0-9a-f]{2}|\\\\u[0-9a-f]{4}|%[0-9A-F]{2}|&#?[a-z0-9]{2,5};){1,20}",
        "(https?://)?[a-z]{2,9}(\\.[a-z]{2,6}){1,3}(/[A-Za-z0-9_.%-]{1,12}){0,5}(\\?[a-z]{1,5}=[A-Za-z0-9]{1,20})?",
        "([\\d.,]{1,12}[ |]){1,12}",
    ];
    let end = prop::sample::select(vec!["", " ", "\n", "\n\n", "\r\n", "\t", ". "]);
    prop::collection::vec((line, end), 1..12).prop_map(|lines| {
        lines
            .into_iter()
            .flat_map(|(line, end)| [line, end.into()])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn generated_texts_count_as_both_references_count_them(text in realistic()) {
        for encoding in BOTH {
            let count = OpenAi::new(encoding).count(&text);
            prop_assert_eq!(count, reference(encoding, &text));
            let other = tiktoken::get_encoding(encoding.name()).expect("compiled in");
            prop_assert_eq!(count, other.count(&text) as u64);
        }
    }
}

/// Every text file of the repository, whole and line by line.
#[test]
fn files_of_this_repository_count_as_the_reference_counts_them() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = [
        "crates",
        "docs",
        "examples",
        "recipes",
        "archetypes",
        "bench",
    ]
    .map(|folder| root.join(folder))
    .to_vec();
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name == "node_modules" || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            files += 1;
            for encoding in BOTH {
                let counter = OpenAi::new(encoding);
                let count = counter.count(&text);
                assert_eq!(count, reference(encoding, &text), "{}", path.display());
                assert_eq!(counter.count_up_to(&text, count), Some(count));
                for line in text.lines().take(200) {
                    assert_eq!(counter.count(line), reference(encoding, line), "{line:?}");
                }
            }
        }
    }
    assert!(files > 100, "{files} files");
}
