//! Conversations in, summaries out.
#![allow(clippy::unwrap_used)]

use contexture::compaction::{Passage, Speaker, extract};
use contexture_tokens::{Encoding, OpenAi, TokenCounter};
use proptest::prelude::*;

fn counter() -> OpenAi {
    OpenAi::new(Encoding::O200k)
}

/// A conversation: speaker, text, failed, turn, tool.
struct Script {
    entries: Vec<(Speaker, String, bool, u64, Option<String>)>,
}

impl Script {
    /// Reads `turn speaker [tool]: text` from each line; further lines of a
    /// text are indented by four spaces. `fail` is a failed result.
    fn new(script: &str) -> Self {
        let mut entries: Vec<(Speaker, String, bool, u64, Option<String>)> = Vec::new();
        for line in script.lines() {
            if let Some(more) = line.strip_prefix("    ") {
                let text = &mut entries.last_mut().unwrap().1;
                text.push('\n');
                text.push_str(more);
                continue;
            }
            let bare = line.strip_suffix(':').map(|head| (head, ""));
            let Some((head, text)) = line.split_once(": ").or(bare) else {
                continue;
            };
            let mut head = head.split(' ');
            let turn = head.next().unwrap().parse().unwrap();
            let (speaker, failed) = match head.next().unwrap() {
                "user" => (Speaker::User, false),
                "assistant" => (Speaker::Assistant, false),
                "call" => (Speaker::ToolCall, false),
                "result" => (Speaker::ToolResult, false),
                "fail" => (Speaker::ToolResult, true),
                _ => (Speaker::Other, false),
            };
            let name = head.next().map(str::to_owned);
            entries.push((speaker, text.to_owned(), failed, turn, name));
        }
        Self { entries }
    }

    fn passages(&self) -> Vec<Passage<'_>> {
        self.entries
            .iter()
            .map(|entry| Passage {
                speaker: entry.0,
                text: &entry.1,
                failed: entry.2,
                turn: entry.3,
                name: entry.4.as_deref(),
            })
            .collect()
    }
}

fn summary(script: &str, target: u64) -> String {
    extract(
        None,
        &Script::new(script).passages(),
        None,
        target,
        &counter(),
    )
}

const CACHE: &str = r#"
1 user: Add a cache to the HTTP client in src/http/client.rs. Entries must expire after 300 seconds. Don't add new dependencies, and keep the public API of `Client` unchanged. Our staging server is cache-7.internal:8443.
1 assistant: I'll start by looking at the client.
1 call read_file: {"path": "src/http/client.rs"}
1 result read_file: use std::collections::HashMap;
    pub struct Client { base: Url, retries: u32 }
    impl Client {
        pub fn get(&self, path: &str) -> Result<Response, Error> {
            if self.closed { return Err(Error::Closed); }
            panic!("error: not implemented");
        }
    }
1 assistant: The client has a single entry point, `Client::get`, and retries 3 times. I'll use a `RefCell<HashMap>` inside `Client` for the entries, because `get` takes `&self`.
1 call edit_file: {"path": "src/http/client.rs", "old": "retries: u32", "new": "retries: u32, cache: RefCell<HashMap<String, Entry>>"}
1 result edit_file: The file src/http/client.rs has been updated.
1 call bash: {"command": "cd /repo && cargo test -p http"}
1 fail bash: Compiling http v0.3.1 (/repo)
    error[E0277]: `RefCell<HashMap<String, Entry>>` cannot be shared between threads safely
      --> src/http/client.rs:41:9
       |
    41 |         spawn(move || client.get("/a"));
       |         ^^^^^ `RefCell<..>` cannot be shared between threads safely
    error: aborting due to 1 previous error
    error: could not compile `http` (lib test)
1 assistant: `RefCell` did not work because `Client` is shared across threads. We'll use a `Mutex<HashMap>` instead of `RefCell`.
1 call edit_file: {"path": "src/http/client.rs", "old": "RefCell<HashMap", "new": "Mutex<HashMap"}
1 result edit_file: The file src/http/client.rs has been updated.
1 call bash: {"command": "cd /repo && cargo test -p http"}
1 result bash: Compiling http v0.3.1 (/repo)
    running 24 tests
    test result: ok. 24 passed; 0 failed; 0 ignored; finished in 1.32s
1 assistant: The cache works: all 24 tests pass. I added `Entry { body, at }` in src/http/cache.rs with a 300 second expiry. Should entries also be bounded in number?
2 user: Yes, at most 1000 entries, least recently used goes first.
2 call edit_file: {"path": "src/http/cache.rs", "old": "x", "new": "y"}
2 fail edit_file: Error: old string not found in src/http/cache.rs
2 call edit_file: {"path": "src/http/cache.rs", "old": "z", "new": "y"}
2 fail edit_file: Error: old string not found in src/http/cache.rs
2 call read_file: {"path": "src/http/cache.rs"}
2 result read_file: pub struct Entry { body: Bytes, at: Instant }
2 call edit_file: {"path": "src/http/cache.rs", "old": "pub struct Entry", "new": "pub(crate) struct Entry"}
2 result edit_file: The file src/http/cache.rs has been updated.
2 assistant: Added an LRU bound of 1000 entries in src/http/cache.rs using a `VecDeque` for the order. Lookups are O(n) in the worst case.
3 user: The benchmark in benches/get.rs got slower, from 1.8 µs to 14 µs per lookup. Why is that? And does the cache survive a restart?
3 call bash: {"command": "cargo bench --bench get"}
3 result bash: get/hit  time: [13.9 µs 14.1 µs 14.4 µs]
3 assistant: The slowdown is caused by the linear scan of the `VecDeque` on each hit. Root cause: `touch` moves the entry to the back by scanning all 1000 entries.
4 user: Please make it O(1).
4 assistant: I considered an intrusive linked list. I'll use a generation counter per entry rather than a linked list, since it needs no unsafe code.
4 call edit_file: {"path": "src/http/cache.rs", "old": "VecDeque", "new": "BTreeMap<u64, String>"}
4 result edit_file: The file src/http/cache.rs has been updated.
4 call bash: {"command": "cargo bench --bench get"}
4 fail bash: thread 'main' panicked at src/http/cache.rs:88:14:
    called `Option::unwrap()` on a `None` value
    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
4 assistant: The generation of an evicted entry was looked up again. Fixed by removing both maps' entries together in `evict`.
4 call bash: {"command": "cargo bench --bench get"}
4 result bash: get/hit  time: [2.0 µs 2.1 µs 2.2 µs]
    Finished in 12.1 seconds
5 user: Great. Now the CI job fails on Windows: https://ci.example.com/job/4711 says "The process cannot access the file cache.lock". Never use file locks in tests.
5 call fetch: {"url": "https://ci.example.com/job/4711"}
5 fail fetch: HTTP/1.1 403 Forbidden
5 assistant: I could not open the CI log (HTTP 403). I removed the lock file from tests/restart.rs and replaced it with a channel.
6 user: Also bump the version to 0.4.0, but don't publish it.
6 call edit_file: {"path": "Cargo.toml", "old": "0.3.1", "new": "0.4.0"}
6 result edit_file: The file Cargo.toml has been updated.
6 assistant: The version is 0.4.0 now. Next I need to add a Windows run to .github/workflows/ci.yml. Do you want Windows on every push or only on main?
"#;

const PYTHON: &str = r#"
1 user: hey, our nightly job crashed again. can you find out why? the script is jobs/nightly.py and it runs on box-12
1 call bash: {"command":"tail -50 logs/nightly.log"}
1 result bash: 2026-03-01 02:00:01 INFO start
    Traceback (most recent call last):
      File "jobs/nightly.py", line 88, in main
        rows = load(day)
    psycopg2.OperationalError: could not connect to server: Connection timed out
1 assistant: The job dies because the database at 10.0.4.17:5432 does not answer within 30 s. Let me check the connection settings.
1 call bash: {"command":"psql -h 10.0.4.17 -c 'select 1'"}
1 result bash: psql: error: connection to server at "10.0.4.17", port 5432 failed: timeout expired
1 call bash: {"command":"psql -h 10.0.4.17 -c 'select 1'"}
1 result bash: psql: error: connection to server at "10.0.4.17", port 5432 failed: timeout expired
1 assistant: The firewall rule for box-12 was removed on 27 February. There are two ways forward:
    1. Restore the firewall rule (needs the ops team, Maria Lopez).
    2. Go through the bastion host.

    Which one do you prefer?
2 user: the bastion. and make the job retry 5 times with backoff, but no more than 10 minutes total
2 assistant: I'll go with the bastion host and add retries.
2 call write_file: {"path":"jobs/db.py","content":"import time\nraise RuntimeError('error: gave up')"}
2 result write_file: wrote 48 lines to jobs/db.py
2 call bash: {"command":"pytest -q tests/test_db.py"}
2 result bash: F.                                                                       [100%]
    =================================== FAILURES ===================================
    ___________________________ test_gives_up ____________________________
        def test_gives_up():
    >       assert total <= 600
    E       AssertionError: assert 775 <= 600
    tests/test_db.py:31: AssertionError
    =========================== short test summary info ============================
    FAILED tests/test_db.py::test_gives_up - AssertionError: assert 775 <= 600
    1 failed, 1 passed in 0.34s
2 assistant: The backoff of 2^n × 25 s adds up to 775 s, which exceeds the limit of 600 s. Capping the single wait at 120 s fixes it.
2 call bash: {"command":"pytest -q tests/test_db.py"}
2 result bash: ..
    2 passed in 0.21s
2 assistant: Done. `jobs/db.py` now retries 5 times, waiting at most 120 s each. I haven't run the job itself on box-12 yet.
3 user: ok thanks. what about alerting? we should get a mail to oncall@example.com if it fails
3 assistant: I tried the local `sendmail`, but it isn't installed on box-12. An SMTP relay exists at smtp.internal:25.
"#;

const CHINESE: &str = r#"
1 user: 请帮我把登录模块迁移到 OAuth2。密码不能写入日志！必须兼容版本 2.3.1。
1 assistant: 我先看看代码。我们决定采用 PKCE 流程，因为移动端没有客户端密钥。
1 call bash: {"command":"go test ./auth/..."}
1 fail bash: --- FAIL: TestLogin (0.02s)
    auth/login.go:42: 错误：令牌已过期
1 assistant: 测试失败，原因是时钟偏差为 90 秒。已经修复了 auth/login.go 中的时间检查。
2 user: 刷新令牌保存在哪里？
"#;

/// Checks the whole summary of `script` at `target`.
fn check(script: &str, target: u64, expected: &str) {
    let actual = summary(script, target);
    assert!(counter().count(&actual) <= target, "{actual}");
    assert_eq!(actual.trim(), expected.trim(), "\n{actual}\n");
}

/// Checks that the summary has every one of `parts`, and none of `absent`.
fn check_parts(script: &str, target: u64, parts: &[&str], absent: &[&str]) {
    let actual = summary(script, target);
    assert!(counter().count(&actual) <= target, "{actual}");
    for part in parts {
        assert!(actual.contains(part), "{part:?} is missing in\n{actual}");
    }
    for part in absent {
        assert!(
            !actual.contains(part),
            "{part:?} should not be in\n{actual}"
        );
    }
}

#[test]
fn a_conversation_with_room_for_all_of_it() {
    check(
        CACHE,
        2000,
        r#"
## Asked for
- Add a cache to the HTTP client in src/http/client.rs.
- Entries must expire after 300 seconds.
- Don't add new dependencies, and keep the public API of `Client` unchanged.
- The benchmark in benches/get.rs got slower, from 1.8 µs to 14 µs per lookup.
- Please make it O(1).
- Never use file locks in tests.
- Also bump the version to 0.4.0, but don't publish it.

## Decided
- I'll use a `RefCell<HashMap>` inside `Client` for the entries, because `get` takes `&self`.
- We'll use a `Mutex<HashMap>` instead of `RefCell`.
- Should entries also be bounded in number? User: Yes, at most 1000 entries, least recently used goes first.
- I'll use a generation counter per entry rather than a linked list, since it needs no unsafe code.

## Failed attempts
- `cargo test -p http`: error[E0277]: `RefCell<HashMap<String, Entry>>` cannot be shared between threads safely --> src/http/client.rs:41:9 (later ok)
- `RefCell` did not work because `Client` is shared across threads.
- `edit_file src/http/cache.rs`: Error: old string not found in src/http/cache.rs (2 times, later ok)
- `cargo bench --bench get`: panicked at src/http/cache.rs:88:14: called `Option::unwrap()` on a `None` value (later ok)
- Now the CI job fails on Windows: https://ci.example.com/job/4711 says "The process cannot access the file cache.lock".
- `fetch https://ci.example.com/job/4711`: HTTP/1.1 403 Forbidden
- I could not open the CI log (HTTP 403).

## Done
- `edit_file src/http/client.rs` (2 times)
- The cache works: all 24 tests pass.
- I added `Entry { body, at }` in src/http/cache.rs with a 300 second expiry.
- `edit_file src/http/cache.rs` (2 times)
- Added an LRU bound of 1000 entries in src/http/cache.rs using a `VecDeque` for the order.
- Fixed by removing both maps' entries together in `evict`.
- I removed the lock file from tests/restart.rs and replaced it with a channel.
- `edit_file Cargo.toml`

## Facts
- Our staging server is cache-7.internal:8443.
- The client has a single entry point, `Client::get`, and retries 3 times.
- `cargo test -p http`: test result: ok. 24 passed; 0 failed; 0 ignored; finished in 1.32s
- Lookups are O(n) in the worst case.
- The slowdown is caused by the linear scan of the `VecDeque` on each hit.
- Root cause: `touch` moves the entry to the back by scanning all 1000 entries.
- `cargo bench --bench get`: get/hit time: [2.0 µs 2.1 µs 2.2 µs]
- The version is 0.4.0 now.

## Files
- src/http/cache.rs, src/http/client.rs, Cargo.toml, benches/get.rs, cache.lock, tests/restart.rs, .github/workflows/ci.yml

## Next
- Next I need to add a Windows run to .github/workflows/ci.yml.

## Open questions
- User: And does the cache survive a restart?
- Assistant: Do you want Windows on every push or only on main?
"#,
    );
}

#[test]
fn the_same_conversation_in_less_room() {
    check(
        CACHE,
        400,
        r#"
## Asked for
- Add a cache to the HTTP client in src/http/client.rs.
- (2 earlier left out)
- Entries must expire after 300 seconds.
- Don't add new dependencies, and keep the public API of `Client` unchanged.
- Never use file locks in tests.
- Also bump the version to 0.4.0, but don't publish it.

## Decided
- (1 earlier left out)
- We'll use a `Mutex<HashMap>` instead of `RefCell`.
- Should entries also be bounded in number? User: Yes, at most 1000 entries, least recently used goes first.
- I'll use a generation counter per entry rather than a linked list, since it needs no unsafe code.

## Failed attempts
- `cargo test -p http`: error[E0277]… (later ok)
- `RefCell` did not work because `Client` is shared across threads.
- `edit_file src/http/cache.rs`: Error: old string not found in src/http/cache.rs (2 times, later ok)
- `cargo bench --bench get`: panicked at… (later ok)
- Now the CI job fails on Windows: https://ci.example.com/job/4711 says "The process cannot access the file cache.lock".
- `fetch https://ci.example.com/job/4711`: HTTP/1.1 403 Forbidden
- I could not open the CI log (HTTP 403).

## Done
- Added an LRU bound of 1000 entries in src/http/cache.rs using a `VecDeque` for the order.

## Files
- src/http/cache.rs, src/http/client.rs

## Next
- Next I need to add a Windows run to .github/workflows/ci.yml.

## Open questions
- User: And does the cache survive a restart?
- Assistant: Do you want Windows on every push or only on main?
"#,
    );
}

#[test]
fn a_conversation_in_which_the_results_are_not_flagged() {
    check(
        PYTHON,
        600,
        r#"
## Asked for
- hey, our nightly job crashed again. can you find out why?
- and make the job retry 5 times with backoff, but no more than 10 minutes total
- we should get a mail to oncall@example.com if it fails

## Decided
- Which one do you prefer? User: the bastion.
- I'll go with the bastion host and add retries.

## Failed attempts
- hey, our nightly job crashed again.
- `tail -50 logs/nightly.log`: psycopg2.OperationalError: could not connect to server: Connection timed out
- `psql -h 10.0.4.17 -c 'select 1'`: psql: error: connection to server at "10.0.4.17", port 5432 failed: timeout expired (2 times)
- `pytest -q tests/test_db.py`: AssertionError: assert 775 <= 600; tests/test_db.py:31: AssertionError (later ok)
- I tried the local `sendmail`, but it isn't installed on box-12.

## Done
- The firewall rule for box-12 was removed on 27 February.
- `write_file jobs/db.py`

## Facts
- the script is jobs/nightly.py and it runs on box-12
- The job dies because the database at 10.0.4.17:5432 does not answer within 30 s.
- Restore the firewall rule (needs the ops team, Maria Lopez).
- The backoff of 2^n × 25 s adds up to 775 s, which exceeds the limit of 600 s.
- Capping the single wait at 120 s fixes it.
- `pytest -q tests/test_db.py`: 2 passed in 0.21s
- `jobs/db.py` now retries 5 times, waiting at most 120 s each.
- An SMTP relay exists at smtp.internal:25.

## Files
- tests/test_db.py, jobs/db.py, jobs/nightly.py, logs/nightly.log

## Next
- I haven't run the job itself on box-12 yet.

## Open questions
- User: what about alerting?
"#,
    );
}

#[test]
fn chinese() {
    check(
        CHINESE,
        600,
        r#"
## Asked for
- 请帮我把登录模块迁移到 OAuth2。
- 密码不能写入日志！
- 必须兼容版本 2.3.1。

## Decided
- 我们决定采用 PKCE 流程，因为移动端没有客户端密钥。

## Failed attempts
- `go test ./auth/...`: auth/login.go:42: 错误：令牌已过期
- 测试失败，原因是时钟偏差为 90 秒。

## Done
- 已经修复了 auth/login.go 中的时间检查。

## Files
- auth/login.go

## Open questions
- User: 刷新令牌保存在哪里？
"#,
    );
}

#[test]
fn every_kind_of_fact_is_kept() {
    check_parts(
        "
1 user: Port the parser to Rust. It must not allocate. Ask Maria Lopez about the grammar.
1 assistant: We decided on a Pratt parser. The grammar has 214 rules. I added src/parser.rs with 3 entry points. I haven't written the fuzz target yet.
1 call bash: cargo build
1 fail bash: error[E0382]: use of moved value: `tokens`
1 assistant: Which fuzzer should I set up?
",
        600,
        &[
            "## Asked for\n- Port the parser to Rust.\n- It must not allocate.",
            "## Decided\n- We decided on a Pratt parser.",
            "## Failed attempts\n- `cargo build`: error[E0382]: use of moved value: `tokens`",
            "## Done\n- I added src/parser.rs with 3 entry points.",
            "## Facts\n- Ask Maria Lopez about the grammar.\n- The grammar has 214 rules.",
            "## Files\n- src/parser.rs",
            "## Next\n- I haven't written the fuzz target yet.",
            "## Open questions\n- Assistant: Which fuzzer should I set up?",
        ],
        &[],
    );
}

#[test]
fn forms_of_failure_are_recognised_without_the_flag() {
    for line in [
        "error: linker `cc` not found",
        "TypeError: undefined is not a function",
        "java.lang.IllegalStateException: closed",
        "thread 'main' panicked at src/main.rs:3:5: boom",
        "FAILED tests/test_a.py::test_b",
        "ld: undefined reference to `foo'",
        "Process exited with status 2",
        "exit code 137",
        "src/a.ts(3,1): TS2345 argument mismatch",
        "HTTP/1.1 503 Service Unavailable",
        "cat: x: No such file or directory",
        "mkdir: Permission denied",
        "request timed out after 30 s",
        "cannot open display",
    ] {
        let script =
            format!("1 call bash: make all\n1 result bash: building\n    {line}\n    bye\n");
        let actual = summary(&script, 200);
        assert!(
            actual.starts_with("## Failed attempts\n- `make all`: "),
            "{line}:\n{actual}"
        );
    }
}

#[test]
fn text_that_only_mentions_errors_is_not_a_failure() {
    for line in [
        "0 errors, 0 warnings",
        "finished with no errors",
        "test result: ok. 4 passed; 0 failed",
        "test parse_error ... ok",
        "warning: unused variable `error`",
        "exit code 0",
        "HTTP/1.1 200 OK",
        "return Err(Error::Closed);",
        "// error: this cannot happen",
    ] {
        let script =
            format!("1 call bash: make all\n1 result bash: building\n    {line}\n    bye\n");
        let actual = summary(&script, 200);
        assert!(!actual.contains("## Failed"), "{line}:\n{actual}");
    }
    for sentence in [
        "I added error handling to the parser.",
        "If the upload fails, the client tries again.",
        "Fixed the test that failed.",
    ] {
        let actual = summary(&format!("1 assistant: {sentence}\n"), 200);
        assert!(!actual.contains("## Failed"), "{sentence}:\n{actual}");
    }
}

#[test]
fn attempts_that_led_nowhere_are_failures() {
    for sentence in [
        "Raising the timeout did not work.",
        "Raising the timeout made no difference.",
        "I tried raising the timeout, but the job is still stuck.",
        "The upload timed out.",
    ] {
        let actual = summary(&format!("1 assistant: {sentence}\n"), 200);
        assert_eq!(actual, format!("## Failed attempts\n- {sentence}"));
    }
}

#[test]
fn a_repeated_failure_is_listed_once_with_a_count() {
    check(
        "
1 call bash: make
1 fail bash: src/a.c:10: error: unknown type name `foo`
1 call bash: make
1 fail bash: src/a.c:10:  Error: unknown type name `foo`
1 call bash: make
1 fail bash: src/a.c:19: error: unknown type name `foo`
1 call bash: make
1 result bash: ok
",
        200,
        "
## Failed attempts
- `make`: src/a.c:10: error: unknown type name `foo` (2 times, later ok)
- `make`: src/a.c:19: error: unknown type name `foo` (later ok)

## Done
- `make`

## Files
- src/a.c
",
    );
}

const VARIANTS: &str = "
1 call bash: psql -p 5432
1 fail bash: connection refused on port 5432
1 call bash: psql -p 5433
1 fail bash: connection refused on port 5433
1 call bash: pip install numpy==1.26
1 fail bash: error: no wheel for numpy 1.26
1 call bash: pip install numpy==2.1
1 fail bash: error: no wheel for numpy 2.1
1 call bash: pytest tests/test_login_7.py
1 fail bash: FAILED test_login: got 401
1 call bash: pytest tests/test_login_9.py
1 fail bash: FAILED test_login: got 500
1 call bash: make -j 4
1 result bash: ok
1 call bash: make -j 8
1 result bash: ok
";

#[test]
fn failures_that_differ_in_a_number_are_listed_separately() {
    check(
        VARIANTS,
        400,
        "
## Failed attempts
- `psql -p 5432`: connection refused on port 5432
- `psql -p 5433`: connection refused on port 5433
- `pip install numpy==1.26`: error: no wheel for numpy 1.26
- `pip install numpy==2.1`: error: no wheel for numpy 2.1
- `pytest tests/test_login_7.py`: FAILED test_login: got 401
- `pytest tests/test_login_9.py`: FAILED test_login: got 500

## Done
- `make -j 4`
- `make -j 8`

## Files
- tests/test_login_7.py, tests/test_login_9.py
",
    );
}

#[test]
fn in_less_room_they_share_a_line_that_says_so() {
    let text = summary(VARIANTS, 140);
    let failures = "## Failed attempts
- `psql -p {5432,5433}`: connection refused on port {5432,5433} (2 similar)
- `pip install numpy=={1.26,2.1}`: error: no wheel for numpy {1.26,2.1} (2 similar)
- `pytest tests/test_login_{7,9}.py`: FAILED test_login: got {401,500} (2 similar)
";
    assert!(text.contains(failures), "{text}");
    // The next one of the same form joins them.
    let script = "2 call bash: psql -p 5434\n2 fail bash: connection refused on port 5434\n";
    let script = Script::new(script);
    let text = extract(Some(&text), &script.passages(), None, 140, &counter());
    let line = "- `psql -p {5432,5433,5434}`: connection refused on port… (3 similar)";
    assert!(text.contains(line), "{text}");
    assert!(counter().count(&text) <= 140);
}

#[test]
fn many_variants_are_named_in_part() {
    let mut script = String::new();
    for test in 1..=30 {
        script += &format!(
            "1 call bash: pytest tests/test_{test}.py\n1 fail bash: FAILED with a broken fixture\n"
        );
    }
    let line = "- `pytest tests/test_{1,2,3,4,5,6,7,8,9,10,11,…}.py`: FAILED with a broken fixture (30 similar)";
    check_parts(&script, 200, &[line], &[" times)"]);
    check_parts(&script, 60, &["- FAILED with a broken… (30 similar)"], &[]);
}

#[test]
fn a_failed_passage_without_words_is_a_failure_all_the_same() {
    check(
        "1 fail deploy:\n",
        100,
        "## Failed attempts\n- `deploy`: failed",
    );
    check(
        "1 call deploy: {\"name\": \"web\"}\n1 fail deploy:\n",
        100,
        "## Failed attempts\n- `deploy web`: failed",
    );
}

#[test]
fn failures_are_shortened_before_they_are_merged_into_a_count() {
    let errors = [
        "E0277 the trait",
        "E0308 mismatched",
        "E0382 moved",
        "E0499 borrowed",
        "E0599 no method",
    ];
    let mut script = String::from("1 user: Please fix the build of the whole workspace today.\n");
    for (index, error) in errors.iter().enumerate() {
        script += &format!(
            "1 call bash: cargo build -p crate-{index}\n1 fail bash: error {error} in a long line with very many words about what could be done to make it right, number {index}\n"
        );
    }
    for target in [70, 100, 150, 300] {
        let actual = summary(&script, target);
        assert!(counter().count(&actual) <= target, "{actual}");
        for error in &errors {
            assert!(
                actual.contains(&error[..5]),
                "{error} is missing at {target}:\n{actual}"
            );
        }
    }
    check(
        &script,
        40,
        "## Failed attempts\n- 5 failed: 1 × E0277, 1 × E0308, 3 × other",
    );
    check(&script, 12, "## Failed attempts\n- 5 failed");
    check(&script, 3, "5 failed");
    check(&script, 1, "");
}

#[test]
fn a_count_of_failures_is_read_back() {
    let earlier =
        "## Failed attempts\n- 12 failed: 8 × E0308, 4 × timed out\n- `make`: no rule (2 times)";
    let script = Script::new("2 call bash: make\n2 fail bash: no rule\n");
    let actual = extract(Some(earlier), &script.passages(), None, 200, &counter());
    assert_eq!(
        actual,
        "## Failed attempts\n- 12 more failed: 8 × E0308, 4 × timed out\n- `make`: no rule (3 times)"
    );
}

#[test]
fn facts_survive_ten_generations() {
    let mut text = summary(
        "
1 user: Build the importer for Acme. Never write to the production database.
1 assistant: We decided to use Parquet instead of CSV.
1 assistant: Streaming through Kafka did not work because the brokers drop large messages.
1 user: Who owns the schema registry?
",
        300,
    );
    for turn in 2..12 {
        let script = Script::new(&format!(
            "
{turn} user: Please add column number {turn} to the report in src/report_{turn}.rs.
{turn} call bash: cargo test report_{turn}
{turn} result bash: test result: ok. {turn} passed; 0 failed
{turn} assistant: I added column {turn} to src/report_{turn}.rs. It holds {turn}00 values. The width is {turn} cm. I'll use layout {turn} for page {turn} instead of the default.
"
        ));
        text = extract(Some(&text), &script.passages(), None, 300, &counter());
        assert!(counter().count(&text) <= 300);
    }
    for part in [
        "Build the importer for Acme.",
        "Never write to the production database.",
        "We decided to use Parquet instead of CSV.",
        "Streaming through Kafka did not work",
        "User: Who owns the schema registry?",
        "column number 11",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

/// Returns the number in `(7 earlier left out)` of the section `heading`.
fn left_out(text: &str, heading: &str) -> u64 {
    let mut lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let note = lines
        .by_ref()
        .take_while(|line| !line.is_empty())
        .find(|line| line.ends_with(" left out)"));
    note.map_or(0, |note| {
        let number = note.trim_start_matches("- (").split(' ').next();
        number.unwrap().parse().unwrap()
    })
}

/// Returns the numbers from one to `most` for which `text` has the sentence.
fn told(text: &str, most: u64, sentence: impl Fn(u64) -> String) -> Vec<u64> {
    (1..=most)
        .filter(|n| text.contains(&sentence(*n)))
        .collect()
}

#[test]
fn the_newest_decisions_and_requests_are_kept_over_generations() {
    let goal = "Build the importer for Acme.";
    let request = |n: u64| format!("Please add column number {n} to the report.");
    let decision = |n: u64| format!("We decided that table {n} is sorted by key {n}.");
    for target in [250, 300, 450, 700] {
        let mut text = summary(&format!("1 user: {goal}\n"), target);
        let mut was_left_out = 0;
        for n in 1..=60 {
            let script = Script::new(&format!(
                "
{n} user: {}
{n} call bash: cargo test report_{n}
{n} result bash: test result: ok. {n} passed; 0 failed
{n} assistant: I added column {n} to src/report_{n}.rs. {} It holds {n}00 values.
",
                request(n),
                decision(n)
            ));
            text = extract(Some(&text), &script.passages(), None, target, &counter());
            assert!(counter().count(&text) <= target, "{text}");
            assert!(text.contains(goal), "at {n}:\n{text}");
            for (heading, kept) in [
                ("## Asked for", told(&text, n, request)),
                ("## Decided", told(&text, n, decision)),
            ] {
                // The newest without a gap, and the others counted.
                let from = n + 1 - kept.len() as u64;
                assert_eq!(kept, (from..=n).collect::<Vec<_>>(), "at {n}:\n{text}");
                assert_eq!(left_out(&text, heading), n - kept.len() as u64, "{text}");
            }
            let left_out = left_out(&text, "## Decided");
            assert!(left_out >= was_left_out, "{text}");
            was_left_out = left_out;
        }
        assert!(was_left_out > 30);
        assert!(told(&text, 60, decision).len() > 1, "{text}");
    }
}

#[test]
fn decisions_between_many_questions_are_not_lost() {
    let decision = |n: u64| format!("Let's use library-{n} for part {n} instead of the old one.");
    let mut text = summary(
        "1 user: Build a shop for Acme. It must run on one server.\n",
        400,
    );
    for n in 2..=59 {
        let decided = if n % 5 == 0 {
            decision(n)
        } else {
            String::new()
        };
        let script = Script::new(&format!(
            "
{n} user: How does module {n} handle the load of {n}000 users? {decided}
{n} assistant: Module {n} keeps {n}00 entries in src/mod_{n}.rs because it is simple. I'll use cache {n} for it.
"
        ));
        text = extract(Some(&text), &script.passages(), None, 400, &counter());
        assert!(counter().count(&text) <= 400, "{text}");
    }
    assert!(
        text.starts_with("## Asked for\n- Build a shop for Acme.\n- ("),
        "{text}"
    );
    assert!(text.contains("- It must run on one server.\n"), "{text}");
    assert!(
        text.contains("module 59") && !text.contains("module 5 "),
        "{text}"
    );
    assert!(text.contains("I'll use cache 59"), "{text}");
    let kept = told(&text, 59, decision);
    assert!(kept.ends_with(&[45, 50, 55]), "{kept:?}\n{text}");
    let lines = |part: &str| text.lines().filter(|line| line.starts_with(part)).count() as u64;
    let shown = kept.len() as u64 + lines("- I'll use cache");
    assert_eq!(left_out(&text, "## Decided") + shown, 58 + 11, "{text}");
}

#[test]
fn what_was_left_out_is_read_back() {
    let earlier = "## Asked for\n- Build it.\n- (7 earlier left out)\n- Please add a flag.\n\n## Decided\n- (2 left out)\n- We decided on Rust.";
    let actual = extract(Some(earlier), &[], None, 300, &counter());
    assert_eq!(actual, earlier.replace("(2 left", "(2 earlier left"));
}

#[test]
fn a_reversed_decision_is_summarised_in_its_latest_form() {
    check(
        "1 assistant: We decided to use tabs instead of spaces.\n2 assistant: We decided to use spaces instead of tabs.\n",
        200,
        "## Decided\n- We decided to use spaces instead of tabs.",
    );
}

#[test]
fn a_summary_of_a_summary_is_itself() {
    let text = summary(CACHE, 2000);
    let again = extract(Some(&text), &[], None, 2000, &counter());
    assert_eq!(again, text);
}

#[test]
fn a_language_models_summary_is_read_by_its_headings_and_words() {
    let earlier = "The user, Ada, runs a shop. We settled on Stripe for payments.\n\n## Errors\n- Webhooks returned HTTP 500 until the secret was rotated.\n\n## Next steps\n1. Add refunds.\n";
    let actual = extract(Some(earlier), &[], None, 200, &counter());
    assert_eq!(
        actual,
        "## Decided\n- We settled on Stripe for payments.\n\n## Failed attempts\n- Webhooks returned HTTP 500 until the secret was rotated.\n\n## Facts\n- The user, Ada, runs a shop.\n\n## Next\n- Add refunds."
    );
}

#[test]
fn a_newer_next_step_replaces_an_older_one() {
    let earlier = "## Next\n- Next I need to write the docs.";
    let script =
        Script::new("2 assistant: I added docs/guide.md. Next I need to tag the release.\n");
    let actual = extract(Some(earlier), &script.passages(), None, 200, &counter());
    assert_eq!(
        actual,
        "## Done\n- I added docs/guide.md.\n\n## Files\n- docs/guide.md\n\n## Next\n- Next I need to tag the release."
    );
}

#[test]
fn an_answered_question_is_not_open() {
    let script =
        "1 user: Which port does the proxy use?\n1 assistant: The proxy listens on port 8080.\n";
    check_parts(
        script,
        200,
        &["The proxy listens on port 8080."],
        &["## Open"],
    );
    let script = "1 user: Which port does the proxy use? Who renews the certificate?\n1 assistant: The proxy listens on port 8080.\n";
    check_parts(
        script,
        200,
        &["## Open questions\n- User: Who renews the certificate?"],
        &["User: Which port"],
    );
}

#[test]
fn a_short_reply_is_kept_with_its_question() {
    let script = "1 assistant: Should I use sled or Redis?\n2 user: sled, please\n";
    check(
        script,
        100,
        "## Decided\n- Should I use sled or Redis? User: sled, please",
    );
}

#[test]
fn a_failure_is_no_reply() {
    let script = "1 assistant: Shall I go on?\n2 user: The deploy still fails.\n";
    check(script, 100, "## Failed attempts\n- The deploy still fails.");
}

#[test]
fn the_focus_decides_what_is_kept() {
    let script = Script::new(
        "
1 user: Please speed up the renderer. Please rename the billing module. Please translate the manual.
1 assistant: The renderer draws 60 frames. The billing tables have 12 columns. The manual has 300 pages.
",
    );
    let keep = |focus| extract(None, &script.passages(), Some(focus), 27, &counter());
    assert_eq!(
        keep("billing"),
        "## Asked for\n- Please rename the billing module.\n\n## Facts\n- The billing tables have 12 columns."
    );
    assert_eq!(
        keep("the manuals"),
        "## Asked for\n- Please translate the manual.\n\n## Facts\n- The manual has 300 pages."
    );
}

#[test]
fn sentences_are_split_at_sentence_ends_only() {
    check(
        "
1 user: Please read v1.2.3 of docs/a.b.md, e.g. chapter 4. Please see https://x.org/a.html?q=1. Please ask Dr. Ito about `x.y()`! Please do this:
    - check item one. check item two
    1. check item three
    and this sentence, which goes on for a while, must be kept although it is
    wrapped over two lines
",
        500,
        "
## Asked for
- Please read v1.2.3 of docs/a.b.md, e.g. chapter 4.
- Please see https://x.org/a.html?q=1.
- Please ask Dr. Ito about `x.y()`!
- check item one.
- check item two
- check item three
- and this sentence, which goes on for a while, must be kept although it is wrapped over two lines

## Files
- docs/a.b.md
",
    );
}

#[test]
fn repeated_sentences_are_said_once() {
    check(
        "1 user: Please never push to main.\n2 user: never push to main, please!\n3 user: NEVER push to main\n",
        200,
        "## Asked for\n- Please never push to main.",
    );
}

#[test]
fn an_error_is_found_in_the_middle_of_megabytes() {
    let line = "2026-03-01 12:00:00 INFO handled request in 12 ms\n";
    let text = format!(
        "{0}fatal: disk quota exceeded on /dev/sda1\n{0}",
        line.repeat(20_000)
    );
    let passage = Passage {
        speaker: Speaker::ToolResult,
        text: &text,
        failed: true,
        turn: 1,
        name: Some("import"),
    };
    let actual = extract(None, &[passage], None, 100, &counter());
    assert_eq!(
        actual,
        "## Failed attempts\n- `import`: fatal: disk quota exceeded on /dev/sda1"
    );
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(extract(None, &[], None, 1000, &counter()), "");
    assert_eq!(extract(Some(" \n"), &[], Some("x"), 1000, &counter()), "");
    assert_eq!(summary("1 user: ok, thanks\n", 1000), "");
    assert_eq!(summary(CACHE, 0), "");
}

/// Counts in a way that no sum over lines predicts.
struct Odd;

impl TokenCounter for Odd {
    fn name(&self) -> &str {
        "odd"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> u64 {
        let len = text.len() as u64;
        len + len * len / 500
    }
}

fn speaker() -> impl Strategy<Value = Speaker> {
    prop::sample::select(vec![
        Speaker::User,
        Speaker::Assistant,
        Speaker::ToolCall,
        Speaker::ToolResult,
        Speaker::Other,
    ])
}

/// Arbitrary text, and text made of what the reader looks for.
fn text() -> impl Strategy<Value = String> {
    let parts = vec![
        "error: ",
        "failed ",
        "`x`: ",
        "## Decided\n",
        "- ",
        "?",
        "。",
        "？",
        "\n",
        "instead of ",
        "must ",
        "exit code 1",
        "{\"path\": \"",
        "src/a.rs",
        "```\n",
        " (3 times)",
        " (3 similar)",
        "{5,6,…}",
        "(4 earlier left out)\n",
        "error on port 7\n",
        "9 failed: 2 × E0308",
        "…",
        "did not work",
        "é",
        "的",
        "\u{301}",
        ", ",
        "User: ",
        "panicked at ",
        "'",
        "HTTP 404 ",
        "## Failed attempts\n",
        "## Files\n",
        "added 3 files. ",
        "99999999999999999999 times",
    ];
    let parts =
        prop::collection::vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat());
    prop_oneof!["\\PC{0,200}", any::<String>(), parts]
}

fn passages() -> impl Strategy<Value = Vec<(Speaker, String, bool, u64, Option<String>)>> {
    let name = prop::option::of(
        prop::sample::select(vec!["bash", "read", "edit"]).prop_map(str::to_owned),
    );
    prop::collection::vec((speaker(), text(), any::<bool>(), 0..5_u64, name), 0..12)
}

proptest! {
    #[test]
    fn laws(
        earlier in prop::option::of(text()),
        entries in passages(),
        focus in prop::option::of(text()),
        target in prop_oneof![0..60_u64, 0..2000_u64, any::<u64>()],
        is_odd in any::<bool>(),
    ) {
        let exact = counter();
        let counter: &dyn TokenCounter = if is_odd { &Odd } else { &exact };
        let script = Script { entries };
        let actual = extract(earlier.as_deref(), &script.passages(), focus.as_deref(), target, counter);
        let again = extract(earlier.as_deref(), &script.passages(), focus.as_deref(), target, counter);
        prop_assert_eq!(&actual, &again, "the same input gives the same bytes");
        prop_assert!(counter.count(&actual) <= target || actual.is_empty(), "it is within the target");
        let failed = script.entries.iter().any(|(_, _, failed, ..)| *failed);
        if failed && target > 60 && !is_odd {
            prop_assert!(actual.contains("failed") || actual.contains("## Failed"), "failures are told:\n{}", actual);
        }
        // The output can be read again, and still fits.
        let next = extract(Some(&actual), &script.passages(), None, target, counter);
        prop_assert!(counter.count(&next) <= target || next.is_empty());
    }

    #[test]
    fn the_variants_told_add_up(kinds in prop::collection::vec((0..3_usize, 0..30_u32), 1..60), target in 16..1500_u64) {
        let mut entries = Vec::new();
        for (call, number) in &kinds {
            let call = [format!("psql -p {number}"), format!("pytest test_{number}.py -k 1.{number}"), "make".to_owned()][*call].clone();
            entries.push((Speaker::ToolCall, call, false, 1, Some("bash".to_owned())));
            let text = format!("error: connection refused, attempt {number} on a host of the cluster");
            entries.push((Speaker::ToolResult, text, true, 1, Some("bash".to_owned())));
        }
        let script = Script { entries };
        let mut text = String::new();
        for generation in 1..4 {
            text = extract(Some(&text), &script.passages(), None, target, &counter());
            let failures = text.split("\n\n## Files").next().unwrap();
            prop_assert_eq!(failures_told(failures), generation * kinds.len() as u64, "\n{}", text);
        }
    }

    #[test]
    fn the_failures_told_add_up(kinds in prop::collection::vec(0..40_u32, 1..60), target in 16..1500_u64) {
        let entries = kinds.iter().map(|kind| {
            let words = ["disk", "net", "auth", "parse"][*kind as usize % 4];
            let text = format!("error E{:04}: the {words} step of unit u{kind}x broke", 1000 + kind);
            (Speaker::ToolResult, text, true, 1, Some("bash".to_owned()))
        });
        let script = Script { entries: entries.collect() };
        let first = extract(None, &script.passages(), None, target, &counter());
        prop_assert_eq!(failures_told(&first), kinds.len() as u64, "\n{}", first);
        // The same again, on top of the summary: nothing is forgotten.
        let second = extract(Some(&first), &script.passages(), None, target, &counter());
        prop_assert_eq!(failures_told(&second), 2 * kinds.len() as u64, "\n{}\n{}", first, second);
    }
}

/// Adds up the failures of a summary that has no other section.
fn failures_told(summary: &str) -> u64 {
    let told = |line: &str| {
        let bullet = line.strip_prefix("- ").unwrap_or(line);
        let start = bullet
            .split_once(' ')
            .filter(|(_, rest)| rest.contains("failed"));
        let counted = start.and_then(|(number, _)| number.parse().ok());
        let times = bullet
            .strip_suffix(" times)")
            .or(bullet.strip_suffix(" similar)"))
            .and_then(|rest| rest.rsplit_once('('));
        counted
            .or(times.and_then(|(_, times)| times.parse().ok()))
            .unwrap_or(1)
    };
    summary
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(told)
        .sum()
}
