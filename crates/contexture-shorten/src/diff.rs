//! Chooses the lines of a diff: the headers of files and hunks, then hunks of
//! each file in turn.

use crate::lines::Lines;
use crate::pick::{Plan, Step};

/// The most lines before the first file that come before the hunks.
const PREFACE: usize = 20;

/// Files that tools write: their hunks come last.
const GENERATED: [&str; 6] = [
    "Cargo.lock",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "go.sum",
];

/// Returns true for text that holds a diff in the unified format.
pub(crate) fn is_diff(text: &str) -> bool {
    // A log of commits may begin with a message.
    let lines: Vec<&str> = text.lines().take(200).collect();
    let is_plain = |three: &[&str]| {
        three[0].starts_with("--- ") && three[1].starts_with("+++ ") && is_hunk_header(three[2])
    };
    lines.iter().any(|line| line.starts_with("diff --git ")) || lines.windows(3).any(is_plain)
}

fn is_hunk_header(line: &str) -> bool {
    line.starts_with("@@ -") || line.starts_with("@@@ -")
}

struct File {
    is_generated: bool,
    // The lines of each hunk, its header first.
    hunks: Vec<Vec<usize>>,
}

/// Returns the plan for a diff.
pub(crate) fn plan(lines: &Lines<'_>) -> Plan {
    let (mut headers, mut hunk_headers, mut preface) = (Vec::new(), Vec::new(), Vec::new());
    let mut files: Vec<File> = Vec::new();
    let mut in_hunk = false;
    for (at, line) in lines.iter().enumerate() {
        let next = (at + 1 < lines.len()).then(|| lines.get(at + 1));
        let names_files =
            line.starts_with("--- ") && next.is_some_and(|next| next.starts_with("+++ "));
        let is_git = line.starts_with("diff --git ");
        // `--- a` after `diff --git` belongs to the same file.
        if is_git || names_files && (in_hunk || files.is_empty()) {
            let is_generated = GENERATED.iter().any(|name| line.ends_with(name));
            files.push(File {
                is_generated,
                hunks: Vec::new(),
            });
            in_hunk = false;
        }
        let Some(file) = files.last_mut() else {
            preface.push(at);
            continue;
        };
        if is_hunk_header(line) {
            in_hunk = true;
            hunk_headers.push(at);
            file.hunks.push(vec![at]);
        } else if !in_hunk {
            headers.push(at);
        } else if let Some(hunk) = file.hunks.last_mut() {
            hunk.push(at);
        }
    }
    preface.truncate(PREFACE);
    let mut plan = Plan::new(lines.len());
    plan.step(20, Step::Lines(preface));
    plan.step(50, Step::Lines(headers));
    plan.step(65, Step::Lines(hunk_headers));
    let (generated, written): (Vec<File>, Vec<File>) =
        files.into_iter().partition(|file| file.is_generated);
    plan.step(100, Step::Lines(in_turn(&written)));
    plan.step(100, Step::Lines(in_turn(&generated)));
    plan.step(100, Step::Head);
    plan
}

/// The number of lines of a hunk that are shown before lines of other hunks.
const PART: usize = 16;

/// Returns the lines of all hunks: the beginning of the first hunk of each
/// file, then of the second, and so on; then the remaining lines, in the same
/// order.
fn in_turn(files: &[File]) -> Vec<usize> {
    let most = files.iter().map(|file| file.hunks.len()).max().unwrap_or(0);
    let (mut starts, mut rests) = (vec![Vec::new(); most], vec![Vec::new(); most]);
    for file in files {
        for (round, hunk) in file.hunks.iter().enumerate() {
            let (start, rest) = hunk.split_at(hunk.len().min(PART));
            starts[round].extend(start);
            rests[round].extend(rest);
        }
    }
    starts.append(&mut rests);
    starts.concat()
}

#[cfg(test)]
mod tests {
    use super::is_diff;

    #[test]
    fn a_diff_is_recognised_by_its_headers() {
        assert!(is_diff("diff --git a/x b/x\nindex 1..2\n"));
        assert!(is_diff(
            "commit 1\n\n    words\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"
        ));
        assert!(!is_diff("--- a\nb\n+++ c\n"));
        assert!(!is_diff("- a list\n- of things\n"));
    }
}
