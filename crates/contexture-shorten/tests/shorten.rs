//! The kept part of each kind of tool result, and properties of any result.

use contexture_core::TokenCounter;
use contexture_shorten::{Hint, Kind, Shortened, shorten};
use contexture_tokens::{Encoding, Estimated, OpenAi};
use proptest::prelude::*;

const HANDLE: Option<&str> = Some("sha256:1a2b3c4d5e6f");

fn counter() -> OpenAi {
    OpenAi::new(Encoding::O200k)
}

fn hint(path: &str) -> Hint<'_> {
    Hint {
        tool: "shell",
        path: Some(path).filter(|path| !path.is_empty()),
    }
}

fn short(text: &str, path: &str, limit: u64) -> Shortened {
    let made = shorten(text, &hint(path), limit, &counter(), HANDLE).expect("it is too long");
    check(text, &made, limit, &counter());
    made
}

/// Checks what holds for every result.
fn check(text: &str, made: &Shortened, limit: u64, counter: &dyn TokenCounter) {
    assert_eq!(made.tokens, counter.count(&made.text));
    assert!(made.tokens <= limit, "{} of {limit}", made.tokens);
    assert!(made.original_tokens > limit);
    if made.kind == Kind::Json {
        serde_json::from_str::<serde_json::Value>(&made.text).expect("it is JSON still");
        return;
    }
    // Every line that is shown whole is a line of the text, in its order.
    let mut rest = text.lines();
    for line in made.text.lines().filter(|line| !line.contains("[... ")) {
        if made.lines.partial {
            assert!(text.contains(line), "{line}");
        } else {
            assert!(rest.any(|of| of == line), "{line:?}");
        }
    }
}

/// A log of about a megabyte with one line that matters in its middle.
fn log() -> String {
    let mut log = String::new();
    for i in 0..13_000_u32 {
        let thread = i % 17;
        log.push_str(&format!(
            "2026-03-01T10:{:02}:{:02}.{:03}Z INFO  [worker-{thread}] arena: chunk {i} handed out\n",
            i / 60 % 60,
            i % 60,
            i % 997
        ));
        if i == 6_500 {
            log.push_str("2026-03-01T10:48:20.000Z ERROR [worker-3] OutOfMemoryError in src/pool/arena.c:417\n");
            log.push_str("    at arena_grow (arena.c:417)\n    at pool_take (pool.c:88)\n");
        }
    }
    log
}

#[test]
fn a_text_that_fits_is_not_shortened() {
    assert_eq!(shorten("a\nb", &hint(""), 10, &counter(), HANDLE), None);
    assert_eq!(shorten("", &hint(""), 0, &counter(), HANDLE), None);
}

#[test]
fn the_one_error_of_a_long_log_is_kept() {
    let log = log();
    assert!(log.len() > 900_000);
    for limit in [300, 2_000, 16_000] {
        let made = short(log.trim_end(), "", limit);
        assert_eq!(made.kind, Kind::Log);
        assert!(
            made.text
                .contains("OutOfMemoryError in src/pool/arena.c:417")
        );
        assert!(
            made.text.contains("    at pool_take (pool.c:88)"),
            "{limit}"
        );
        // The start and the end are there, too.
        assert!(made.text.contains("chunk 0 handed out"));
        assert!(made.text.ends_with("chunk 12999 handed out"));
    }
}

#[test]
fn similar_lines_are_folded() {
    let mut log = String::from("starting\n");
    for i in 0..1_205 {
        log.push_str(&format!(
            "connection {i} from 10.0.0.{} accepted on port 4650\n",
            i % 250
        ));
    }
    log.push_str("stopped");
    let made = short(&log, "", 200);
    assert_eq!(
        made.text,
        "starting\n\
         connection 0 from 10.0.0.0 accepted on port 4650\n\
         [... lines 3-1205 (1,203 lines similar to line 2) cut, about 23,094 tokens; \
         fetch sha256:1a2b3c4d5e6f for the rest ...]\n\
         connection 1204 from 10.0.0.204 accepted on port 4650\n\
         stopped"
    );
}

#[test]
fn failures_of_each_kind_come_before_repeated_ones() {
    let mut log = Vec::new();
    for i in 0..3_000 {
        log.push(format!("ERROR cannot reach host 10.0.0.{i}"));
    }
    log[1_700] = "error[E0308]: mismatched types".to_owned();
    log[2_200] = "thread 'main' panicked at src/main.rs:4:5:".to_owned();
    let made = short(&log.join("\n"), "", 600);
    assert!(made.text.contains("\nerror[E0308]: mismatched types\n"));
    assert!(
        made.text
            .contains("\nthread 'main' panicked at src/main.rs:4:5:\n")
    );
}

#[test]
fn json_keeps_its_shape() {
    let rows: Vec<String> = (0..500)
        .map(|i| {
            format!(
                r#"{{"id":{i},"name":"row {i}","tags":["a","b"],"text":"{}"}}"#,
                "x".repeat(900)
            )
        })
        .collect();
    let text = format!(r#"{{"total":500,"next":null,"rows":[{}]}}"#, rows.join(","));
    let made = short(&text, "", 300);
    assert_eq!(made.kind, Kind::Json);
    let value: serde_json::Value = serde_json::from_str(&made.text).unwrap();
    assert_eq!(value["total"], 500);
    assert_eq!(value["rows"][0]["name"], "row 0");
    let rows = value["rows"].as_array().unwrap();
    let last = rows.last().unwrap().as_str().unwrap();
    assert!(last.ends_with("more of 500 items ...]"), "{last}");
    let marker = value["[...]"].as_str().unwrap();
    assert!(marker.contains("fetch sha256:1a2b3c4d5e6f"), "{marker}");
}

#[test]
fn a_log_inside_json_is_cut_as_a_log() {
    let body = serde_json::json!({"exit_code": 1, "stdout": log(), "truncated": false});
    let made = short(&body.to_string(), "", 1_000);
    let value: serde_json::Value = serde_json::from_str(&made.text).unwrap();
    assert_eq!(value["exit_code"], 1);
    let stdout = value["stdout"].as_str().unwrap();
    assert!(stdout.contains("OutOfMemoryError in src/pool/arena.c:417"));
    assert!(stdout.contains("fetch sha256:1a2b3c4d5e6f with jq .stdout for the rest"));
}

#[test]
fn a_diff_keeps_the_headers_of_all_files() {
    let mut diff = String::new();
    for file in ["a.rs", "b.rs", "Cargo.lock"] {
        diff.push_str(&format!(
            "diff --git a/{file} b/{file}\nindex 1..2 100644\n--- a/{file}\n+++ b/{file}\n"
        ));
        for hunk in 0..4 {
            diff.push_str(&format!("@@ -{hunk},60 +{hunk},60 @@ fn f{hunk}()\n"));
            for line in 0..60 {
                diff.push_str(&format!("+    let value_{line} = {file:?};\n"));
            }
        }
    }
    let made = short(diff.trim_end(), "", 1_500);
    assert_eq!(made.kind, Kind::Diff);
    for file in ["a.rs", "b.rs", "Cargo.lock"] {
        assert!(made.text.contains(&format!("\n+++ b/{file}\n")));
        let is_shown = made.text.contains(&format!("= \"{file}\";"));
        assert_eq!(is_shown, file != "Cargo.lock", "{file}: {}", made.text);
    }
    for hunk in 0..4 {
        assert_eq!(made.text.matches(&format!(" @@ fn f{hunk}()")).count(), 3);
    }
}

#[cfg(feature = "outline")]
mod outlines {
    use super::*;

    /// Fills `//BODY` with a body of many lines.
    fn outline(path: &str, source: &str, body: &str) -> String {
        let source = source.replace("BODY", &body.repeat(60));
        let made = short(source.trim_end(), path, 400);
        assert_eq!(made.kind, Kind::Code, "{}", made.text);
        let marker = |line: &str| match line.starts_with("[... line") {
            true => "[...]".to_owned(),
            false => line.to_owned(),
        };
        made.text.lines().map(marker).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn rust() {
        let shown = outline(
            "src/a.rs",
            "use std::fmt;\n\n/// A pool.\n/// More words.\npub struct Pool {\n    size: usize,\n}\n\n\
             impl Pool {\n    /// Grows it.\n    pub fn grow(\n        &mut self,\n    ) -> usize {\nBODY    }\n\n\
             fn shrink(&mut self) {\nBODY    }\n}\n",
            "        let a = self.size + 1;\n",
        );
        for line in [
            "use std::fmt;",
            "/// A pool.",
            "pub struct Pool {",
            "    size: usize,",
            "impl Pool {",
            "    /// Grows it.",
            "    pub fn grow(",
            "    ) -> usize {",
            "fn shrink(&mut self) {",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
    }

    #[test]
    fn others() {
        let check = |path: &str, source: &str, body: &str, wanted: &[&str]| {
            let shown = outline(path, source, body);
            for line in wanted {
                assert!(shown.lines().any(|shown| shown == *line), "{line}\n{shown}");
            }
        };
        check(
            "a.py",
            "import os\n\nclass Pool:\n    \"\"\"Hands out chunks.\"\"\"\n\n    def grow(self, by: int) -> None:\nBODY\n\
             @decorated\ndef shrink():\nBODY",
            "        value = by + 1\n",
            &[
                "import os",
                "class Pool:",
                "    \"\"\"Hands out chunks.\"\"\"",
                "    def grow(self, by: int) -> None:",
                "@decorated",
                "def shrink():",
            ],
        );
        check(
            "a.ts",
            "import { x } from './x';\n\nexport interface Pool {\n  size: number;\n}\n\nexport class Arena {\n  grow(by: number): void {\nBODY  }\n}\n\
             export const shrink = (by: number) => {\nBODY};\n",
            "    const a = by + 1;\n",
            &[
                "import { x } from './x';",
                "export interface Pool {",
                "  size: number;",
                "  grow(by: number): void {",
                "export const shrink = (by: number) => {",
            ],
        );
        check(
            "a.go",
            "package pool\n\nimport \"fmt\"\n\ntype Pool struct {\n\tSize int\n}\n\nfunc (p *Pool) Grow(by int) {\nBODY}\n\nfunc Shrink() {\nBODY}\n",
            "\ta := by + 1\n",
            &[
                "package pool",
                "type Pool struct {",
                "\tSize int",
                "func (p *Pool) Grow(by int) {",
                "func Shrink() {",
            ],
        );
        check(
            "A.java",
            "package a;\n\nimport java.util.List;\n\npublic class Pool {\n    private int size;\n\n    public void grow(int by) {\nBODY    }\n\n    void shrink() {\nBODY    }\n}\n",
            "        int a = by + 1;\n",
            &[
                "import java.util.List;",
                "public class Pool {",
                "    private int size;",
                "    public void grow(int by) {",
                "    void shrink() {",
            ],
        );
        check(
            "a.c",
            "#include <stdio.h>\n\nstruct pool {\n    int size;\n};\n\nstatic int grow(struct pool *p)\n{\nBODY}\n\nint shrink(void)\n{\nBODY}\n",
            "    int a = p->size + 1;\n",
            &[
                "#include <stdio.h>",
                "struct pool {",
                "    int size;",
                "static int grow(struct pool *p)",
                "int shrink(void)",
            ],
        );
    }

    #[test]
    fn numbers_before_lines_do_not_matter() {
        let source = format!(
            "use std::fmt;\n\npub fn grow() {{\n{}}}\n\npub fn shrink() {{\n{}}}",
            "    let a = 1;\n".repeat(200),
            "    let b = 1;\n".repeat(200)
        );
        let numbered: Vec<String> = source
            .lines()
            .enumerate()
            .map(|(i, line)| format!("{:>6}\t{line}", i + 1))
            .collect();
        let made = short(&numbered.join("\n"), "a.rs", 300);
        assert_eq!(made.kind, Kind::Code);
        assert!(made.text.contains("\tpub fn shrink() {\n"), "{}", made.text);
    }

    #[test]
    fn code_that_nests_without_end_is_cut_as_text() {
        for source in [
            "(".repeat(300_000),
            "fn f() {".repeat(40_000),
            "[\n".repeat(100_000),
        ] {
            short(&source, "a.rs", 500);
            short(&source, "a.ts", 500);
        }
    }
}

#[test]
fn extreme_texts_are_cut_in_time() {
    let million = 1 << 20;
    for text in [
        "x".repeat(million),
        " ".repeat(million),
        "\n".repeat(million),
        "é".repeat(million / 2),
        "e\u{301}".repeat(million / 3),
        "[".repeat(100_000),
        format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
        "{\"a\":".repeat(100_000),
        "ERROR failed\n".repeat(80_000),
        "INFO\n".repeat(200_000),
        format!("[{}]", vec!["\"x\""; 200_000].join(",")),
        format!("\"{}\"", "y".repeat(million)),
        format!(
            "ERROR {}\nERROR {}",
            "a".repeat(million),
            "b".repeat(million)
        ),
        "@@ -1 +1 @@\n".repeat(80_000),
        "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n".repeat(30_000),
    ] {
        for limit in [0, 1, 40, 100, 4_000] {
            short(&text, "", limit);
        }
    }
}

#[test]
fn a_short_line_next_to_a_long_one_is_kept() {
    let text = format!(
        "{}\nERROR the disk is full\n{}",
        "a ".repeat(400_000),
        "b ".repeat(400_000)
    );
    let made = short(&text, "", 1_000);
    assert!(
        made.text.contains("\nERROR the disk is full\n"),
        "{}",
        made.text
    );
    assert!(made.text.contains("[... part of line 1 cut"));
}

fn any_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[a-z ]{0,60}",
        "(INFO|WARN|ERROR) [a-z0-9]{1,8} [a-z ]{0,40}",
        "\\PC{0,40}",
        Just("{\"a\": [1, 2".to_owned()),
        Just("@@ -1,2 +3,4 @@".to_owned()),
        Just("--- a/x\n+++ b/x".to_owned()),
        Just("fn main() {".to_owned()),
        Just(String::new()),
        "[x.]{0,3000}",
    ];
    proptest::collection::vec(line, 0..120).prop_map(|lines| lines.join("\n"))
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        "\\PC{0,200}".prop_map(serde_json::Value::from),
        "[a-z\n ]{0,400}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 200, 20, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(serde_json::Value::from),
            proptest::collection::btree_map("[a-z/~]{1,6}", inner, 0..12)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
    .prop_map(|value| value.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_laws_hold_for_any_text(
        text in prop_oneof![any_text(), any_json()],
        limit in 0_u64..600,
        path in prop_oneof![Just(""), Just("a.rs"), Just("a.py"), Just("a.log"), Just("a.md"), Just("x.ts")],
    ) {
        let estimated = Estimated::new(1.0);
        let counters: [&dyn TokenCounter; 2] = [&counter(), &estimated];
        for counter in counters {
            let made = shorten(&text, &hint(path), limit, counter, HANDLE);
            prop_assert_eq!(&made, &shorten(&text, &hint(path), limit, counter, HANDLE));
            match made {
                None => prop_assert!(counter.count(&text) <= limit),
                Some(made) => {
                    prop_assert!(counter.count(&text) > limit);
                    check(&text, &made, limit, counter);
                }
            }
        }
    }
}
