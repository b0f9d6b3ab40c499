//! Tests of the positions where texts are split.
#![allow(clippy::unwrap_used)]

use contexture_recall::{Chunk, chunks};
use proptest::prelude::*;

/// Compares the chunks of `text`, which are separated by lines of `---`.
#[track_caller]
fn check(name: &str, most: usize, text: &str, expected: &str) {
    let found: Vec<&str> = chunks(text, Some(name), most)
        .into_iter()
        .map(|chunk| &text[chunk.start..chunk.end])
        .collect();
    assert_eq!(found.join("\n---\n"), expected);
}

#[test]
fn prose_is_cut_between_paragraphs_then_sentences_then_words() {
    check(
        "notes.txt",
        60,
        "We moved to Berlin. Ana loves\nthe lake.\n\nThe parser fails on empty bodies. Nobody \
         checked the length of what was read, and so on and on.",
        "We moved to Berlin. Ana loves\nthe lake.\n---\n\
         The parser fails on empty bodies.\n---\n\
         Nobody checked the length of what was read, and so on and\n---\non.",
    );
}

#[test]
fn a_text_that_fits_is_one_chunk() {
    check("a.txt", 100, "\n\n  One.\n\nTwo.\n\n", "  One.\n\nTwo.");
    assert_eq!(chunks(" \n\t ", None, 10), []);
    assert_eq!(chunks("", None, 10), []);
    assert_eq!(chunks("x", None, 0), [Chunk { start: 0, end: 1 }]);
}

#[test]
fn markdown_is_cut_before_headings() {
    check(
        "README.md",
        75,
        "# Title\n\nWhat it is, in a line.\n\n## Use\n\nRun it:\n\n```sh\n# no heading\n\nrun\n```\n\n\
         Then stop.\n\n## Licence\n\nFree.\n",
        "# Title\n\nWhat it is, in a line.\n---\n\
         ## Use\n\nRun it:\n\n```sh\n# no heading\n\nrun\n```\n\nThen stop.\n---\n\
         ## Licence\n\nFree.",
    );
}

#[test]
fn rust_is_cut_before_items_with_their_comments() {
    check(
        "src/lib.rs",
        80,
        "use std::fmt;\n\n/// Adds.\n#[inline]\nfn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n\n\
         /// Shows.\nfn show() {\n    let a = 1;\n\n    add(a, a);\n}\n",
        "use std::fmt;\n\n/// Adds.\n#[inline]\nfn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n---\n\
         /// Shows.\nfn show() {\n    let a = 1;\n\n    add(a, a);\n}",
    );
}

#[test]
fn python_is_cut_before_functions_then_methods() {
    check(
        "app.py",
        70,
        "import os\n\nclass Store:\n    def get(self):\n        return 1\n\n    @cached\n    def put(self):\n        \
         if self:\n            return 2\n        else:\n            return 3\n\ndef main():\n    Store()\n",
        "import os\n\nclass Store:\n    def get(self):\n        return 1\n---\n    @cached\n    def put(self):\n        \
         if self:\n            return 2\n---\n        else:\n            return 3\n\ndef main():\n    Store()",
    );
}

#[test]
fn typescript_is_cut_before_items() {
    check(
        "app.tsx",
        70,
        "import a from 'a';\nimport b from 'b';\n\nexport function one() {\n  return a;\n}\nexport const two = \
         () => {\n  return b;\n};\n",
        "import a from 'a';\nimport b from 'b';\n---\nexport function one() {\n  return a;\n}\n---\n\
         export const two = () => {\n  return b;\n};",
    );
}

#[test]
fn large_inputs_are_split() {
    for part in [
        "a",
        "lake berlin ",
        ". ",
        "\n",
        "[",
        "）",
        "…",
        "a\n\n",
        "# a\n",
        "！",
        "x. Y",
    ] {
        let text = part.repeat(300_000 / part.len());
        for name in ["a.txt", "a.md", "a.rs"] {
            for chunk in chunks(&text, Some(name), 1000) {
                assert!(text[chunk.start..chunk.end].chars().count() <= 1000);
            }
        }
    }
}

proptest! {
    #[test]
    fn everything_is_in_one_chunk(
        text in "([a-zA-Z]{1,9}|[ .!?\n\r\t{}#`é中。]|\n\n|    |```\n|## ){0,80}",
        most in 0_usize..60,
        name in prop::sample::select(vec!["a.txt", "a.md", "a.rs", "a"]),
    ) {
        let mut last = 0;
        for chunk in chunks(&text, Some(name), most) {
            prop_assert!(chunk.start >= last && chunk.end > chunk.start);
            prop_assert!(text[last..chunk.start].trim().is_empty());
            let content = &text[chunk.start..chunk.end];
            prop_assert!(content.chars().count() <= most.max(1));
            prop_assert!(!content.trim().is_empty());
            last = chunk.end;
        }
        prop_assert!(text[last..].trim().is_empty());
    }
}
