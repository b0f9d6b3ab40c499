//! Where items come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Counts, Item, Layer, Role, Text, Tokens, Trust};

use crate::error::Error;
use crate::files::{Root, Unusable};
use crate::working_set::{Candidate, Hints, Lines, Manifest, expand};

/// Reads the files of a working set when they turn out to be needed.
pub(crate) struct FileLoader<'r> {
    pub(crate) root: &'r Root,
    pub(crate) max_file_bytes: u64,
}

impl FileLoader<'_> {
    /// Returns the content of a pending item, whose id names a file and
    /// perhaps lines of it.
    pub(crate) fn load(&self, item: &Item) -> Content {
        let Content::Pending { policy, .. } = item.content else {
            return item.content.clone();
        };
        let id = &*item.id;
        let (path, lines) = match crate::working_set::split_lines(id) {
            Ok((path, Some(lines))) if !self.root.exists(id) => (path, Some(lines)),
            _ => (id, None),
        };
        match self.read(path, lines, policy) {
            Ok(text) => Content::Ready(text),
            Err(unusable) => Content::Absent {
                code: unusable.code,
                reason: unusable.reason,
            },
        }
    }

    fn read(&self, path: &str, lines: Option<Lines>, policy: Policy) -> Result<Text, Unusable> {
        let text = self.root.read_text(path, self.max_file_bytes)?;
        if text.is_empty() {
            return Err(Unusable::new(Code::Empty, "is empty"));
        }
        match lines {
            None => Ok(Text::guarded(&text, policy)),
            Some(range) => Ok(Text::guarded(part_of(&text, range)?, policy)),
        }
    }
}

/// Returns the lines of `text` that `range` names. A range that goes on behind
/// the end stops there.
fn part_of(text: &str, range: Lines) -> Result<&str, Unusable> {
    let mut starts =
        std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
    let first = range.first as usize - 1;
    let Some(start) = starts.nth(first) else {
        let count = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
        return Err(Unusable::new(
            Code::NoSuchLines,
            format!("ends with line {count}; there is no line {}", range.first),
        ));
    };
    let length = (range.last - range.first) as usize;
    let end = starts.nth(length).map_or(text.len(), |next| next - 1);
    let part = &text[start..end];
    Ok(part.strip_suffix('\r').unwrap_or(part))
}

/// Returns an item for each file that the manifest stands for.
pub(crate) fn working_set(
    root: &Root,
    manifest: &Manifest,
    hints: &Hints,
    policy: Policy,
    warnings: &mut Vec<String>,
) -> Result<Vec<Item>, Error> {
    let candidates = expand(root, manifest, warnings)?;
    Ok(candidates
        .into_iter()
        .map(|candidate| item_of(root, hints, policy, candidate))
        .collect())
}

pub(crate) fn item_of(
    root: &Root,
    hints: &Hints,
    policy: Policy,
    candidate: Candidate<'_>,
) -> Item {
    let size = candidate.size(root);
    let Candidate {
        id,
        path,
        entry,
        problem,
        ..
    } = candidate;
    let content = match size {
        // How large a part of a file is shows only when it is read.
        Ok(_) if entry.lines.is_some() => Content::Pending { bytes: 0, policy },
        Ok(bytes) => Content::Pending { bytes, policy },
        Err(Unusable { code, reason }) => Content::Absent { code, reason },
    };
    let priority = hints.priority(&path, entry);
    let id: Arc<str> = id.into();
    Item {
        path: Some(Arc::clone(&id)),
        trust: match entry.role {
            Role::System | Role::Developer => Trust::Operator,
            Role::User => Trust::User,
            _ if path.contains("/sessions/") && path.contains("/tool/") => Trust::Tool,
            _ => Trust::Retrieved,
        },
        priority,
        base_priority: hints.get(&path).map(|_| entry.priority),
        cut: entry.cut,
        max_lines: entry.max_lines,
        first_line: entry.lines.map_or(1, |lines| lines.first),
        pinned: entry.is_pinned() && problem.is_none(),
        ..Item::with_content(id, entry.role, content)
    }
}

/// Reads, guards and counts in parallel what will most likely be used, so that
/// the fit finds it ready.
///
/// Only files that the budget could pay for, by their size, are read ahead:
/// the cost follows what is used, not what is there.
pub(crate) fn read_ahead(
    layer: &mut Layer,
    loader: &FileLoader<'_>,
    counts: &Counts,
    available: Tokens,
) {
    // Four bytes a token is typical; where texts have more, the rest is read on
    // demand.
    let mut budget = available.saturating_mul(4);
    let mut order: Vec<usize> = (0..layer.items.len()).collect();
    order.sort_by(|&a, &b| layer.items[b].priority.total_cmp(&layer.items[a].priority));
    let mut wanted = Vec::new();
    for i in order {
        if let Content::Pending { bytes, .. } = layer.items[i].content {
            wanted.push(i);
            match budget.checked_sub(bytes) {
                Some(left) if left > 0 => budget = left,
                _ => break,
            }
        }
    }
    // Asking how many cores there are means reading files, too.
    let threads = match wanted.len() / 4 {
        0 | 1 => 1,
        most => std::thread::available_parallelism().map_or(1, |cores| most.min(cores.get())),
    };
    let items = &layer.items;
    let read = |i: usize| {
        let content = loader.load(&items[i]);
        if let Content::Ready(text) = &content {
            counts.warm(text, available);
        }
        (i, content)
    };
    let loaded: Vec<(usize, Content)> = if threads == 1 {
        wanted.into_iter().map(read).collect()
    } else {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let take = || wanted.get(next.fetch_add(1, Ordering::Relaxed)).copied();
                        std::iter::from_fn(take).map(read).collect::<Vec<_>>()
                    })
                })
                .collect();
            workers
                .into_iter()
                .flat_map(|worker| match worker.join() {
                    Ok(loaded) => loaded,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect()
        })
    };
    for (i, content) in loaded {
        layer.items[i].content = content;
    }
}
