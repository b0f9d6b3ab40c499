//! Properties of edits for any manifest.

use super::*;

/// How a generated manifest writes `files`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// Dash and first key on one line: the dash's indentation and the blanks after it.
    Block(usize, usize),
    /// The dash alone on its line.
    DashAlone(usize),
    /// Flow entries in a block list.
    FlowEntries(usize),
    /// A flow list on one line; whether a comma ends it.
    OneLine(bool),
    /// A flow list with one line for each entry; whether a comma ends it.
    ManyLines(bool),
}

#[derive(Debug, Clone)]
struct Entry {
    name: &'static str,
    quote: &'static str,
    priority_first: bool,
    role: bool,
    notes: bool,
    blank_before: bool,
    comments_above: usize,
    comment_behind: bool,
    comments_below: usize,
}

#[derive(Debug, Clone)]
struct Manifest {
    layout: Layout,
    entries: Vec<Entry>,
    before: Vec<&'static str>,
    after: Vec<&'static str>,
    bom: bool,
    crlf: bool,
    final_break: bool,
}

impl Manifest {
    fn path(&self, index: usize) -> String {
        format!("{}{index}.md", self.entries[index].name)
    }

    /// Each number is written once in the whole text, so that a test can find it.
    fn number(index: usize) -> String {
        format!("0.4{index}7")
    }

    fn text(&self) -> String {
        let mut lines: Vec<String> = self.before.iter().map(|l| l.to_string()).collect();
        let flow: Vec<String> = (0..self.entries.len())
            .map(|i| format!("{{{}}}", self.fields(i).join(", ")))
            .collect();
        match self.layout {
            Layout::OneLine(comma) => {
                let comma = if comma { "," } else { "" };
                lines.push(format!("files: [{}{comma}] # all", flow.join(", ")));
            }
            Layout::ManyLines(_) => lines.push("files: [".into()),
            _ => lines.push("files: # all".into()),
        }
        for (i, entry) in self.entries.iter().enumerate() {
            let (indent, column) = match self.layout {
                Layout::OneLine(_) => break,
                Layout::Block(indent, gap) => (indent, indent + 1 + gap),
                Layout::DashAlone(indent) => (indent, indent + 3),
                Layout::FlowEntries(indent) => (indent, indent + 2),
                Layout::ManyLines(_) => (2, 4),
            };
            let (outer, inner) = (" ".repeat(indent), " ".repeat(column));
            if entry.blank_before {
                lines.push(if i % 2 == 0 {
                    String::new()
                } else {
                    "    ".into()
                });
            }
            for n in 0..entry.comments_above {
                lines.push(format!("{outer}# above {i} {n}"));
            }
            let behind = if entry.comment_behind {
                format!("  # behind {i}")
            } else {
                "".into()
            };
            match self.layout {
                Layout::ManyLines(comma) => {
                    let comma = if comma || i + 1 < self.entries.len() {
                        ","
                    } else {
                        ""
                    };
                    lines.push(format!("{outer}{}{comma}{behind}", flow[i]));
                    continue;
                }
                Layout::FlowEntries(_) => lines.push(format!("{outer}- {}{behind}", flow[i])),
                Layout::Block(_, gap) => {
                    for (n, field) in self.fields(i).iter().enumerate() {
                        lines.push(match n {
                            0 => format!("{outer}-{}{field}{behind}", " ".repeat(gap)),
                            _ => format!("{inner}{field}"),
                        });
                    }
                }
                _ => {
                    lines.push(format!("{outer}-{behind}"));
                    lines.extend(self.fields(i).iter().map(|field| format!("{inner}{field}")));
                }
            }
            if entry.notes && !matches!(self.layout, Layout::FlowEntries(_)) {
                lines.push(format!("{inner}notes: |"));
                lines.push(format!("{inner}  # text {i}"));
                lines.push(format!("{inner}  - path: none"));
            }
            for n in 0..entry.comments_below {
                lines.push(format!("{inner}# below {i} {n}"));
            }
        }
        if let Layout::ManyLines(_) = self.layout {
            lines.push("]".into());
        }
        lines.extend(self.after.iter().map(|l| l.to_string()));
        let eol = if self.crlf { "\r\n" } else { "\n" };
        let bom = if self.bom { "\u{feff}" } else { "" };
        let end = if self.final_break { eol } else { "" };
        format!("{bom}{}{end}", lines.join(eol))
    }

    fn fields(&self, index: usize) -> Vec<String> {
        let entry = &self.entries[index];
        let quote = entry.quote;
        let mut fields = vec![
            format!("path: {quote}{}{quote}", self.path(index)),
            format!("priority: {}", Self::number(index)),
        ];
        if entry.role {
            fields.push("role: 'user'".into());
        }
        if entry.priority_first {
            fields.swap(0, 1);
        }
        fields
    }
}

fn manifests() -> impl Strategy<Value = Manifest> {
    let layout = prop_oneof![
        3 => (0..5usize, 1..4usize).prop_map(|(indent, gap)| Layout::Block(indent, gap)),
        1 => (0..5usize).prop_map(Layout::DashAlone),
        1 => (0..5usize).prop_map(Layout::FlowEntries),
        1 => any::<bool>().prop_map(Layout::OneLine),
        1 => any::<bool>().prop_map(Layout::ManyLines),
    ];
    let name = prop::sample::select(vec!["a", "src/b", "日本", "x y", "é-", "z#L1-L", "glob*"]);
    let quote = prop::sample::select(vec!["", "'", "\""]);
    let entry = (name, quote, any::<[bool; 5]>(), 0..3usize, 0..3usize).prop_map(
        |(name, quote, flags, comments_above, comments_below)| Entry {
            name,
            quote,
            priority_first: flags[0],
            role: flags[1],
            notes: flags[2],
            blank_before: flags[3],
            comments_above,
            comment_behind: flags[4],
            comments_below,
        },
    );
    let before = prop::sample::subsequence(
        vec![
            "# ünïcode 🎵",
            "protocol: CONTEXT-ASSEMBLY/0.1",
            "",
            "budget: {max_tokens: 9} # b",
            "\"ключ\": 'ö' # ü",
            "   ",
            "list:",
            "- 1",
        ],
        0..=6,
    )
    // A list item needs its key.
    .prop_map(|lines| match lines.contains(&"list:") {
        true => lines,
        false => lines.into_iter().filter(|l| *l != "- 1").collect(),
    });
    let after = prop::sample::subsequence(
        vec![
            "",
            "# after",
            "other: 1",
            "  # deep",
            "metadata:",
            "  skill: \"x\" # s",
            "",
            "# end",
        ],
        0..=8,
    )
    .prop_map(|lines| match lines.contains(&"metadata:") {
        true => lines,
        false => lines
            .into_iter()
            .filter(|l| !l.starts_with("  skill"))
            .collect(),
    });
    (
        layout,
        prop::collection::vec(entry, 1..5),
        before,
        after,
        any::<[bool; 3]>(),
    )
        .prop_map(|(layout, entries, before, after, flags)| Manifest {
            layout,
            entries,
            before,
            after,
            bom: flags[0],
            crlf: flags[1],
            final_break: flags[2],
        })
}

/// Returns the data of a manifest, as a reader that shares no code with the editor sees it.
fn data(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Returns `data` after `edit`. A list without entries may be written as no value at all.
fn edited(mut data: Value, edit: Option<&Edit>) -> Value {
    if data["files"].is_null() {
        data["files"] = json!([]);
    }
    if let Some(Edit::SetMetadata { key, value }) = edit {
        data["metadata"][key] = json!(value);
    }
    let Some(files) = data["files"].as_array_mut() else {
        return data;
    };
    let index = |path: &str| files.iter().position(|entry| entry["path"] == path);
    match edit {
        None | Some(Edit::SetMetadata { .. }) => {}
        Some(Edit::Add {
            path,
            priority,
            fields,
        }) => {
            let mut entry = json!({"path": path, "priority": priority});
            for (key, value) in fields {
                let number = value.parse::<u32>().ok().filter(|_| key == "max_lines");
                entry[key] = number.map_or(json!(value), |n| json!(n));
            }
            files.push(entry);
        }
        Some(Edit::Remove { path }) => {
            files.remove(index(path).unwrap());
        }
        Some(Edit::SetPriority { path, priority }) => {
            let index = index(path).unwrap();
            files[index]["priority"] = json!(priority);
        }
    }
    data
}

/// Returns true when `long` is `short` with one run of bytes put in.
fn is_one_insertion(short: &str, long: &str) -> bool {
    let prefix = short
        .bytes()
        .zip(long.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let suffix = short
        .bytes()
        .rev()
        .zip(long.bytes().rev())
        .take_while(|(a, b)| a == b)
        .count();
    short.len() <= long.len() && prefix + suffix >= short.len()
}

/// Returns the comments, and what looks like one inside a block scalar.
fn comments(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.find("# ").map(|i| &line[i..]))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn setting_a_priority_changes_only_the_number(
        manifest in manifests(), pick: prop::sample::Index, thousandths in 0..=1000u16,
    ) {
        let priority = f64::from(thousandths) / 1000.0;
        let source = manifest.text();
        let index = pick.index(manifest.entries.len());
        let edit = set(&manifest.path(index), priority);
        let result = apply(&source, std::slice::from_ref(&edit)).unwrap();
        prop_assert_eq!(&result, &source.replace(&Manifest::number(index), &format!("{priority:?}")));
        prop_assert_eq!(data(&result), edited(data(&source), Some(&edit)));
    }

    #[test]
    fn removing_takes_the_entry_and_its_comments_only(
        manifest in manifests(), pick: prop::sample::Index,
    ) {
        let source = manifest.text();
        let index = pick.index(manifest.entries.len());
        let edit = remove(&manifest.path(index));
        let result = apply(&source, std::slice::from_ref(&edit)).unwrap();

        // Without a trailing comma, a flow list also loses the comma before the
        // entry, and a comment may be in between.
        if manifest.layout != Layout::ManyLines(false) {
            prop_assert!(is_one_insertion(&result, &source), "{}", result);
        }
        let own = |c: &&str| {
            let kinds = ["above", "behind", "below", "text"];
            kinds.iter().any(|kind| c.starts_with(&format!("# {kind} {index}")))
        };
        // `# deep` belongs to the last entry or to none, depending on the lines
        // above it.
        let deep = |c: &&str| *c == "# deep";
        let kept: Vec<&str> =
            comments(&source).into_iter().filter(|c| !own(c) && !deep(c)).collect();
        let left: Vec<&str> = comments(&result).into_iter().filter(|c| !deep(c)).collect();
        prop_assert_eq!(left, kept, "{}", result);
        prop_assert_eq!(edited(data(&result), None), edited(data(&source), Some(&edit)));
    }

    #[test]
    fn adding_is_one_insertion(
        manifest in manifests(), path in "[a-z#:,\\[\\]{}'\" é日\t*&!-]{1,8}", role in "[a-z0-9:# ]{0,5}", priority in 0.0..=1.0f64,
    ) {
        let source = manifest.text();
        let edit = add_with(&path, priority, &[("role", &role), ("max_lines", "7")]);
        let result = apply(&source, std::slice::from_ref(&edit)).unwrap();
        if manifest.layout != Layout::ManyLines(false) {
            prop_assert!(is_one_insertion(&source, &result), "{}", result);
        }
        prop_assert_eq!(data(&result), edited(data(&source), Some(&edit)), "{}", result);
    }

    #[test]
    fn adding_and_removing_gives_the_source_back(manifest in manifests(), path in "\\PC{1,8}") {
        let source = manifest.text();
        let added = apply(&source, &[add(&path, 0.5)]).unwrap();
        prop_assert_ne!(&added, &source);
        prop_assert_eq!(apply(&added, &[remove(&path)]).unwrap(), source, "{}", added);
    }

    #[test]
    fn metadata_is_set_and_nothing_else(
        manifest in manifests(), key in prop::sample::select(vec!["skill", "notes", "a b", "yes"]), value in any::<String>(),
    ) {
        let source = manifest.text();
        let edit = meta(key, &value);
        let result = apply(&source, std::slice::from_ref(&edit)).unwrap();
        prop_assert_eq!(data(&result), edited(data(&source), Some(&edit)), "{}", result);
    }

    #[test]
    fn mutated_manifests_are_edited_or_refused(
        manifest in manifests(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, "[-\\[\\]{}:,#&*!|>+'\"? \n\r\tpé~]{0,4}"), 1..6),
    ) {
        let path = manifest.path(0);
        let mut source: Vec<char> = manifest.text().chars().collect();
        for (at, length, insert) in cuts {
            let at = at.index(source.len() + 1);
            let end = (at + length).min(source.len());
            source.splice(at..end, insert.chars());
        }
        let source: String = source.into_iter().collect();
        for edit in [add("new", 0.5), remove(&path), set(&path, 0.5), meta("skill", "y"), meta("k", "v")] {
            let Ok(result) = apply(&source, std::slice::from_ref(&edit)) else { continue };
            // Where another reader understands the source, it sees the edit and nothing else.
            if let Ok(before) = serde_saphyr::from_str::<Value>(&source) {
                let after = edited(data(&result), None);
                prop_assert_eq!(after, edited(before, Some(&edit)), "{:?}\n{}\n{}", edit, source, result);
            }
        }
    }

    #[test]
    fn arbitrary_text_never_panics(source in any::<String>(), yaml in "[-\\[\\]{}:,#&*!|>'\"? \n\r\tafé~]{0,40}") {
        for source in [source, format!("files:{yaml}"), format!("\u{feff}metadata: {yaml}\nfiles:\n- path: a\n{yaml}"), yaml] {
            for edit in [add("a", 0.5), remove("a"), set("a", 0.5), meta("k", "v")] {
                let _ = apply(&source, &[edit]);
            }
        }
    }
}
