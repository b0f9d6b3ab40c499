//! Chooses the lines of a log: failures with their surroundings, then results
//! and warnings, then the start and the end.

use std::sync::OnceLock;

use regex::Regex;

use crate::cues::{BLAND, LINE_BYTES, Lexicon, RESULT, clip, is_failure_line, normalise};
use crate::lines::{Lines, likeness};
use crate::pick::{Plan, Step};

/// The lines before and after a failure that are shown with it.
const BEFORE: usize = 2;
const AFTER: usize = 3;

/// The most lines of a stack trace that are shown with a failure.
const TRACE: usize = 12;

/// A run of at least this many similar lines is folded.
const LEAST_RUN: usize = 4;

/// The sign that a line of a log gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Nothing,
    Warning,
    Result,
    Failure,
}

struct Patterns {
    // Lines without any of these are not read further.
    any: Regex,
    // A level or a verdict in capitals, or a field of that name.
    failure: Regex,
    warning: Regex,
    harmless: Regex,
    // "FAILED 0", "0 errors".
    zero: Regex,
}

fn patterns() -> &'static Patterns {
    static PATTERNS: OnceLock<Patterns> = OnceLock::new();
    #[expect(clippy::expect_used, reason = "the patterns are constants, and a test makes them")]
    PATTERNS.get_or_init(|| {
        let regex = |pattern: &str| Regex::new(pattern).expect("a valid pattern");
        Patterns {
            any: regex(
                "(?i)err|fail|panic|fatal|excep|traceb|warn|abort|denied|refus|time|cannot|can't\
                 |could|not found|no such|undefined|unable|unresolved|invalid|killed|segf|segm\
                 |assert|conflict|critical|severe|emerg|exit|passed|finished|coverage|total|rejected\
                 |crash|overflow|throws|out of memory|mismatched|enoent|eacces|[^\\x00-\\x7f]",
            ),
            failure: regex(
                "(?-u:\\b)(?:ERROR|FATAL|CRITICAL|CRIT|PANIC|SEVERE|EMERG|FAILED|FAIL|FAILURE)(?-u:\\b)\
                 |(?i:\"?(?:level|severity|lvl)\"?[=:]\\s*\"?(?:error|fatal|critical|panic|severe))\
                 |panicked at|^Traceback \\(|^\\s*(?:error|fatal)(?:\\[[A-Z0-9]+\\])?:|^npm ERR!",
            ),
            warning: regex(
                "(?-u:\\b)WARN(?:ING)?(?-u:\\b)|^\\s*warning(?:\\[|:)|: warning:\
                 |(?i:\"?(?:level|severity|lvl)\"?[=:]\\s*\"?warn)",
            ),
            harmless: regex(
                "(?-u:\\b)(?:INFO|DEBUG|TRACE|NOTICE)(?-u:\\b)\
                 |(?i:\"?(?:level|severity|lvl)\"?[=:]\\s*\"?(?:info|debug|trace))",
            ),
            zero: regex("(?i)(?-u:\\b)(?:0|no) (?:errors?|failures?|failed)|(?:failed|failures?|errors?)[:=] ?0(?-u:\\b)"),
        }
    })
}

fn sign_of(line: &str, lexicon: &Lexicon) -> Sign {
    let patterns = patterns();
    let line = clip(line, LINE_BYTES);
    if !patterns.any.is_match(line) {
        return Sign::Nothing;
    }
    let start = clip(line, 160);
    if patterns.failure.is_match(start) && !patterns.zero.is_match(line) {
        return Sign::Failure;
    }
    if patterns.warning.is_match(start) {
        return Sign::Warning;
    }
    if patterns.harmless.is_match(start) {
        return Sign::Nothing;
    }
    let line = line.trim();
    if ["... yes", "... no", "... ok"]
        .iter()
        .any(|end| line.ends_with(end))
    {
        return Sign::Nothing;
    }
    // A file may be called `traceback.py` or `errors/`.
    let words: Vec<&str> = line.split(' ').filter(|word| !is_path(word)).collect();
    let signs = lexicon.read(&normalise(&words.join(" ")));
    if is_failure_line(line, &signs, false) {
        return match signs.has(BLAND) {
            true => Sign::Result,
            false => Sign::Failure,
        };
    }
    match signs.has(RESULT | BLAND) && line.bytes().any(|byte| byte.is_ascii_digit()) {
        true => Sign::Result,
        false => Sign::Nothing,
    }
}

fn is_path(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let has_end = word.rsplit_once('.').is_some_and(|(_, end)| {
        (1..=4).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    word.contains('/') || has_end
}

/// Returns the plan for a log.
pub(crate) fn plan(lines: &Lines<'_>) -> Plan {
    let lexicon = Lexicon::new();
    let signs: Vec<Sign> = lines.iter().map(|line| sign_of(line, &lexicon)).collect();
    let alike: Vec<u64> = lines.iter().map(likeness).collect();
    let of = |sign: Sign| -> Vec<usize> {
        let all = signs.iter().enumerate();
        let found = all.filter(|(_, found)| **found == sign);
        found.map(|(line, _)| line).collect()
    };
    let (failures, repeated) = distinct(&of(Sign::Failure), &alike);
    let (warnings, _) = distinct(&of(Sign::Warning), &alike);
    let mut results = of(Sign::Result);
    // The latest result shows how it ended.
    results.reverse();
    let surroundings: Vec<usize> = failures
        .iter()
        .flat_map(|&line| surroundings(line, lines))
        .collect();

    let mut plan = Plan::new(lines.len());
    plan.folded = folded(lines, &alike);
    let is_open = |line: &usize| !plan.folded[*line];
    let head = (0..lines.len().min(3)).filter(is_open);
    let tail = (lines.len().saturating_sub(5)..lines.len()).rev();
    let ends = head.chain(tail.filter(is_open)).collect();
    plan.step(15, Step::Lines(ends));
    plan.step(45, Step::Lines(failures));
    plan.step(60, Step::Lines(surroundings));
    plan.step(68, Step::Lines(results));
    plan.step(75, Step::Lines(warnings));
    plan.step(80, Step::Lines(repeated));
    // The end of a log is more useful than its beginning.
    plan.share(30, Step::Head);
    plan.step(100, Step::Tail);
    plan.step(100, Step::Head);
    plan.likeness = alike;
    plan
}

/// Returns the first of each kind of similar lines, and the others. Both begin
/// with the first and the last, and continue inwards: the first failure is most
/// often the cause, and the last shows how it ended.
fn distinct(found: &[usize], alike: &[u64]) -> (Vec<usize>, Vec<usize>) {
    let mut kinds: Vec<(u64, usize)> = found.iter().map(|&line| (alike[line], line)).collect();
    kinds.sort_unstable();
    kinds.dedup_by_key(|(kind, _)| *kind);
    let mut first: Vec<usize> = kinds.into_iter().map(|(_, line)| line).collect();
    first.sort_unstable();
    let others: Vec<usize> = found
        .iter()
        .copied()
        .filter(|line| first.binary_search(line).is_err())
        .collect();
    (inwards(&first), inwards(&others))
}

fn inwards(lines: &[usize]) -> Vec<usize> {
    let half = lines.len().div_ceil(2);
    let (front, back) = lines.split_at(half);
    let mut back = back.iter().rev();
    let pairs = front.iter().flat_map(|line| [Some(line), back.next()]);
    pairs.flatten().copied().collect()
}

/// Returns the lines around a failure: its stack trace, the lines after it, and
/// the lines before it.
fn surroundings(line: usize, lines: &Lines<'_>) -> Vec<usize> {
    let continues = |line: &usize| {
        let text = lines.get(*line);
        text.starts_with([' ', '\t', '|', '>']) || text.starts_with("Caused by")
    };
    let after = line + 1..lines.len();
    let trace = after.clone().take_while(continues).take(TRACE).count();
    let after = after.take(trace.max(AFTER));
    let before = (line.saturating_sub(BEFORE)..line).rev();
    after.chain(before).collect()
}

/// Returns the lines inside runs of similar lines.
fn folded(lines: &Lines<'_>, alike: &[u64]) -> Vec<bool> {
    let mut folded = vec![false; alike.len()];
    let mut start = 0;
    for end in 1..=alike.len() {
        if end < alike.len() && alike[end] == alike[start] {
            continue;
        }
        // A marker would be longer than short lines.
        if end - start >= LEAST_RUN && lines.bytes(start, end) > 240 {
            folded[start + 1..end - 1].fill(true);
        }
        start = end;
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_report_a_failure_are_found() {
        let lexicon = Lexicon::new();
        let check = |sign: Sign, lines: &[&str]| {
            for line in lines {
                assert_eq!(sign_of(line, &lexicon), sign, "{line}");
            }
        };
        check(
            Sign::Failure,
            &[
                "2026-03-01T10:00:00.123Z [worker-7] [pid 4411] ERROR pool: out of memory",
                "error[E0308]: mismatched types",
                "test pool::tests::grows ... FAILED",
                "thread 'main' panicked at src/main.rs:4:5:",
                "Traceback (most recent call last):",
                "TypeError: undefined is not a function",
                "{\"level\":\"error\",\"msg\":\"cannot connect\"}",
                "time=\"x\" level=fatal msg=\"gone\"",
                "make: *** [all] Error 2",
                "bash: foo: command not found",
                "npm ERR! code ELIFECYCLE",
                "エラー: 接続できません",
            ],
        );
        check(
            Sign::Warning,
            &["warning: unused variable", "12:00 WARN slow query"],
        );
        check(
            Sign::Result,
            &[
                "test result: ok. 12 passed; 0 failed",
                "Finished in 3.2 seconds",
            ],
        );
        check(
            Sign::Nothing,
            &[
                "2026-03-01 INFO retried after error, all good",
                "Compiling foo v0.1.0",
                "checking for strerror... yes",
                "install -c -m 644 ./Lib/traceback.py /usr/lib/errors/traceback.py",
                "",
            ],
        );
    }
}
