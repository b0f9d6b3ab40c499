//! An import restores exactly the exported data.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use contexture_archive::{Summary, check, export, import};
use contexture_sqlite::{Options, SqliteStore};
use contexture_store::{
    Archive as _, ArchiveEntry, Blob, NewSession, NewTurn, Snapshot, Store, StoreError,
    Tenants as _, Upkeep as _,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

fn now() -> Timestamp {
    "2026-02-02T10:00:00Z".parse().unwrap()
}

struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn store(&self, name: &str) -> SqliteStore {
        SqliteStore::open(self.path(name)).unwrap()
    }
}

fn session(store: &dyn Store, label: &str) {
    let new = NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, now()).unwrap();
}

fn record(store: &dyn Store, label: &str, text: &str) {
    let turn: NewTurn = serde_json::from_value(json!({"messages": [
        {"role": "user", "content": text},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Yes."},
            {"type": "tool_call", "id": "c", "name": "shell", "arguments": {"command": text}}]},
        {"role": "tool", "tool_call_id": "c", "content": text.repeat(20)},
        {"role": "assistant", "content": "Done."}]}))
    .unwrap();
    store.record(label, &turn, None, None, now()).unwrap();
}

fn snapshot(store: &dyn Store, label: &str, content: &[u8]) {
    use contexture_core::ContentHash;
    let blob = Blob {
        hash: ContentHash::of(content),
        bytes: content.to_vec(),
    };
    let snapshot = Snapshot {
        hash: ContentHash::of(&[content, b"!"].concat()),
        session: label.to_owned(),
        parent_turn: None,
        model: "gpt-4o".to_owned(),
        tokens: 12,
        counter: "words".to_owned(),
        root: blob.hash,
        created_at: now(),
    };
    store.put_snapshot(&snapshot, &[blob]).unwrap();
}

/// Writes an archive of a store with two tenants.
fn archive(fixture: &Fixture) -> (PathBuf, Summary) {
    let store = fixture.store("source.db");
    for name in ["", "island"] {
        let tenant = store.tenant(name);
        session(&*tenant, "main");
        for at in 0..5 {
            record(&*tenant, "main", &format!("turn {at} of {name}"));
        }
        snapshot(&*tenant, "main", name.as_bytes());
    }
    let path = fixture.path("archive");
    let summary = export(&store, None, File::create(&path).unwrap(), now()).unwrap();
    (path, summary)
}

fn text(bytes: &[u8]) -> String {
    // All frames are small, so that there is one.
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(bytes).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
    text
}

fn write_text(path: &Path, text: &str) {
    let frame = ruzstd::encoding::compress_to_vec(
        text.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    fs::write(path, frame).unwrap();
}

/// Asserts that an archive is refused, and that the store is as it was.
#[track_caller]
fn refused(fixture: &Fixture, path: &Path, expected: &str) {
    let store = fixture.store("target.db");
    let error = import(&store, path, None, now()).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    for name in store.tenant_names().unwrap() {
        assert!(store.tenant(&name).is_blank().unwrap(), "{name}");
    }
    assert_eq!(store.audit(10).unwrap(), []);
}

#[test]
fn a_tenant_is_exported_and_imported_under_another_name() {
    let fixture = Fixture::new();
    archive(&fixture);
    let store = fixture.store("source.db");
    let path = fixture.path("one");
    let file = File::create(&path).unwrap();
    let exported = export(&store, Some("island"), file, now()).unwrap();
    assert_eq!(exported.tenants(), ["island"]);
    assert_eq!(exported.parts.len(), 1);
    let there = import(&store, &path, None, now()).unwrap();
    assert_eq!((there.imported.len(), there.unchanged.len()), (0, 1));
    let renamed = import(&store, &path, Some("peninsula"), now()).unwrap();
    assert_eq!(renamed.imported, ["peninsula"]);
    let (old, new) = (store.tenant("island"), store.tenant("peninsula"));
    assert_eq!(new.session("main").unwrap(), old.session("main").unwrap());
    assert_eq!(new.verify().unwrap().damaged, []);
    let acts: Vec<String> = (store.audit(10).unwrap().into_iter())
        .map(|entry| format!("{} {}", entry.act, entry.tenant))
        .collect();
    assert_eq!(
        acts,
        [
            "archive_imported peninsula",
            "archive_exported island",
            "archive_exported "
        ]
    );
    // Into a tenant with other data, it is refused.
    record(&*new, "main", "more");
    let error = import(&store, &path, Some("peninsula"), now()).unwrap_err();
    assert_eq!(error.to_string(), "there is a tenant `peninsula` already");
    let unknown = export(&store, Some("nobody"), Vec::new(), now()).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no tenant `nobody`");
}

#[test]
fn only_one_tenant_can_be_renamed() {
    let fixture = Fixture::new();
    let (path, _) = archive(&fixture);
    let store = fixture.store("target.db");
    let error = import(&store, &path, Some("a"), now()).unwrap_err();
    let expected = "tenant: the archive has 2 tenants, and only one can be renamed to `a`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_import_that_was_cut_short_is_repeated() {
    let fixture = Fixture::new();
    let (path, _) = archive(&fixture);
    // The first tenant is there, as after a crash between two tenants.
    let source = fixture.store("source.db");
    let one = fixture.path("one");
    export(&source, Some("default"), File::create(&one).unwrap(), now()).unwrap();
    let store = fixture.store("target.db");
    import(&store, &one, None, now()).unwrap();
    let imported = import(&store, &path, None, now()).unwrap();
    assert_eq!(
        (imported.imported, imported.unchanged),
        (vec!["island".to_owned()], vec!["default".to_owned()])
    );
}

#[test]
fn a_truncated_archive_is_refused() {
    let fixture = Fixture::new();
    let (path, _) = archive(&fixture);
    let whole = fs::read(&path).unwrap();
    let text = text(&whole);
    let cut = fixture.path("cut");
    // The bytes end somewhere.
    for at in (1..whole.len()).step_by(whole.len() / 40 + 1) {
        fs::write(&cut, &whole[..at]).unwrap();
        check(&cut).unwrap_err();
    }
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    refused(&fixture, &cut, "archive: is truncated");
    // The lines end somewhere.
    let lines: Vec<&str> = text.lines().collect();
    for at in 1..lines.len() {
        write_text(&cut, &(lines[..at].join("\n") + "\n"));
        let error = check(&cut).unwrap_err();
        assert!(
            error.to_string().ends_with("archive: is truncated"),
            "{error}"
        );
    }
    write_text(&cut, &(lines[..lines.len() - 1].join("\n") + "\n"));
    refused(&fixture, &cut, "archive: is truncated");
}

#[test]
fn changed_bytes_are_noticed() {
    let fixture = Fixture::new();
    let (path, summary) = archive(&fixture);
    let whole = fs::read(&path).unwrap();
    let text = text(&whole);
    let changed = fixture.path("changed");
    for at in (0..whole.len()).step_by(whole.len() / 150 + 1) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&changed, &bytes).unwrap();
        // Some bits of a frame's header change nothing that is read.
        if let Ok(checked) = check(&changed) {
            assert_eq!(checked, summary);
        }
    }
    // Other bytes in well-formed frames.
    for at in (0..text.len()).step_by(text.len() / 150 + 1) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(other) = String::from_utf8(bytes) else {
            continue;
        };
        write_text(&changed, &other);
        check(&changed).unwrap_err();
    }
    write_text(
        &changed,
        &text.replacen("turn 3 of island", "turn 4 of island", 1),
    );
    refused(&fixture, &changed, "the hash of the part differs");
}

/// A changed archive with recomputed hashes still cannot forge a turn.
#[test]
fn a_forged_turn_is_refused() {
    let fixture = Fixture::new();
    archive(&fixture);
    let source = fixture.store("source.db");
    let mut entries = Vec::new();
    let island = source.tenant("island");
    island
        .export_entries(&mut |entry| {
            entries.push(entry);
            Ok(())
        })
        .unwrap();
    for entry in &mut entries {
        if let ArchiveEntry::Row(cells) = entry {
            for cell in cells {
                if let Some(text) = cell.as_str()
                    && text.contains("turn 3")
                {
                    *cell = text.replace("turn 3", "turn 9").into();
                }
            }
        }
    }
    let target = fixture.store("target.db").tenant("island");
    let mut rest = entries.into_iter();
    let error = target
        .import_entries(Box::new(move || Ok(rest.next())))
        .unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(target.is_blank().unwrap());
    assert_eq!(target.usage().unwrap().turns, 0);
}

#[test]
fn newer_and_foreign_files_are_refused() {
    let fixture = Fixture::new();
    let (path, _) = archive(&fixture);
    let text = text(&fs::read(&path).unwrap());
    let other = fixture.path("other");
    let newer = text.replacen("\"contexture_archive\":1", "\"contexture_archive\":2", 1);
    write_text(&other, &newer);
    refused(
        &fixture,
        &other,
        "was written by a newer version: its format is 2",
    );
    write_text(&other, "a compressed file of another program\n");
    refused(&fixture, &other, "is not an archive of Contexture");
    fs::write(&other, "a text file\n").unwrap();
    refused(&fixture, &other, "is not an archive of Contexture");
    fs::write(&other, "").unwrap();
    refused(&fixture, &other, "is not an archive of Contexture");
    fs::copy(fixture.path("source.db"), &other).unwrap();
    refused(&fixture, &other, "is not an archive of Contexture");
    let missing = import(
        &fixture.store("target.db"),
        &fixture.path("none"),
        None,
        now(),
    );
    assert!(missing.unwrap_err().to_string().contains("No such file"));
}

#[test]
fn entries_that_make_no_whole_copy_are_refused() {
    let fixture = Fixture::new();
    let target = fixture.store("target.db").tenant("a");
    let keys = |counts: &[(&str, u64)]| {
        let counts = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        ArchiveEntry::Keys(counts.collect())
    };
    let table = |name: &str, columns: &[&str]| ArchiveEntry::Table {
        name: name.to_owned(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
    };
    let row =
        |cells: serde_json::Value| ArchiveEntry::Row(cells.as_array().cloned().unwrap_or_default());
    let cases: Vec<(Vec<ArchiveEntry>, &str)> = vec![
        (vec![], "keys: the copy does not begin with its keys"),
        (
            vec![keys(&[]), row(json!([1]))],
            "a row belongs to no table",
        ),
        (
            vec![keys(&[("bees", 1)])],
            "bees: is a table that this version does not know",
        ),
        (
            vec![keys(&[("turns", u64::MAX)])],
            "turns: has too many rows",
        ),
        (
            vec![keys(&[]), table("bees", &[])],
            "bees: is a table that this version does not know",
        ),
        (
            vec![keys(&[]), table("samples", &["honey"])],
            "samples.honey: is a column that this version does not know",
        ),
        (
            vec![keys(&[]), table("turns", &[]), table("sessions", &[])],
            "sessions: the table is not in its place",
        ),
        (
            vec![keys(&[("samples", 2)])],
            "samples: has 0 rows instead of 2",
        ),
        (
            vec![
                keys(&[("samples", 1)]),
                table("samples", &["model", "counted"]),
                row(json!(["m"])),
            ],
            "samples[1]: has 1 values instead of 2",
        ),
        (
            vec![
                keys(&[("samples", 1)]),
                table("samples", &["model", "counted"]),
                row(json!(["m", "x"])),
            ],
            "samples[1].counted: is not a whole number",
        ),
        (
            vec![
                keys(&[("sessions", 1)]),
                table("aliases", &["alias", "session"]),
                row(json!(["a", 2])),
            ],
            "aliases[1].session: refers to row 2 of sessions, which is missing",
        ),
    ];
    for (entries, expected) in cases {
        let mut rest = entries.into_iter();
        let next = Box::new(move || Ok(rest.next()));
        let error = target.import_entries(next).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    assert!(target.is_blank().unwrap());
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let fixture = Fixture::new();
    archive(&fixture);
    let source = fixture.store("source.db");
    let mut entries = Vec::new();
    (source.tenant("island"))
        .export_entries(&mut |entry| {
            entries.push(entry);
            Ok(())
        })
        .unwrap();
    let target = fixture.store("target.db").tenant("island");
    for at in (0..entries.len()).step_by(7) {
        let cut: Vec<_> = entries[..at].to_vec();
        let mut rest = cut.into_iter();
        let next = Box::new(move || match rest.next() {
            Some(entry) => Ok(Some(entry)),
            None => Err(StoreError::Withdrawn),
        });
        let error = target.import_entries(next).unwrap_err();
        assert!(matches!(error, StoreError::Withdrawn), "{error}");
        assert!(target.is_blank().unwrap());
    }
    let mut rest = entries.into_iter();
    target
        .import_entries(Box::new(move || Ok(rest.next())))
        .unwrap();
}

#[test]
fn a_full_disk_leaves_nothing() {
    let fixture = Fixture::new();
    let source = fixture.store("source.db");
    session(&source, "main");
    for at in 0..20 {
        record(&source, "main", &format!("{at}{}", "x".repeat(5000)));
    }
    let path = fixture.path("archive");
    export(&source, None, File::create(&path).unwrap(), now()).unwrap();
    let options = Options {
        max_bytes: Some(1 << 20),
        ..Options::default()
    };
    let target = SqliteStore::open_with(fixture.path("target.db"), options).unwrap();
    let error = import(&target, &path, None, now()).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(target.is_blank().unwrap());
    // Nor is an archive taken for whole that could not be written.
    #[cfg(target_os = "linux")]
    {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let error = export(&source, None, full, now()).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
    }
}

/// Counts the bytes that are written, and discards them.
struct Discarded(u64);

impl std::io::Write for Discarded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn large_rows_span_frames() {
    let fixture = Fixture::new();
    let source = fixture.store("source.db");
    session(&source, "main");
    // Neither a pattern nor a limit of the compression is in the way.
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for size in [0, 1, 300_000, 1_100_000] {
        let bytes: Vec<u8> = (0..size).map(|_| noise()).collect();
        snapshot(&source, "main", &bytes);
        snapshot(&source, "main", &vec![b'a'; size + 7]);
    }
    let path = fixture.path("archive");
    let mut file = File::create(&path).unwrap();
    let exported = export(&source, None, &mut file, now()).unwrap();
    file.flush().unwrap();
    let target = fixture.store("target.db");
    import(&target, &path, None, now()).unwrap();
    let again = export(&target, None, Discarded(0), now()).unwrap();
    assert_eq!(again.content, exported.content);
}

/// A change of a generated store.
#[derive(Debug, Clone)]
enum Step {
    Session(u8),
    Turn(u8, String),
    Fork(u8, u8),
    Snapshot(u8, Vec<u8>),
    Alias(u8, u8),
    Delete(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let label = 0..4_u8;
    prop_oneof![
        label.clone().prop_map(Step::Session),
        (label.clone(), any::<String>()).prop_map(|(at, text)| Step::Turn(at, text)),
        (label.clone(), label.clone()).prop_map(|(from, to)| Step::Fork(from, to)),
        (label.clone(), any::<Vec<u8>>()).prop_map(|(at, bytes)| Step::Snapshot(at, bytes)),
        (label.clone(), 0..3_u8).prop_map(|(at, alias)| Step::Alias(at, alias)),
        label.prop_map(Step::Delete),
    ]
}

fn apply(store: &dyn Store, step: &Step) {
    let label = |at: &u8| format!("s{at}");
    match step {
        Step::Session(at) => {
            let new = NewSession {
                label: label(at),
                ..NewSession::default()
            };
            let _ = store.create_session(&new, now());
        }
        Step::Turn(at, text) if store.session(&label(at)).is_ok() => {
            record(store, &label(at), text);
        }
        Step::Turn(..) => {}
        Step::Fork(from, to) => {
            if let Ok(parent) = store.session(&label(from)) {
                let new = NewSession {
                    label: label(to),
                    head: parent.head,
                    ..NewSession::default()
                };
                let _ = store.create_session(&new, now());
            }
        }
        Step::Snapshot(at, bytes) => snapshot(store, &label(at), bytes),
        Step::Alias(at, alias) => {
            let change = contexture_store::SessionChange {
                alias: Some(format!("a{alias}")),
                ..contexture_store::SessionChange::default()
            };
            let _ = store.change_session(&label(at), &change);
        }
        Step::Delete(at) => drop(store.delete_session(&label(at))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn an_import_has_the_hash_of_its_archive(steps in prop::collection::vec(step(), 0..25)) {
        let fixture = Fixture::new();
        let source = fixture.store("source.db");
        for step in &steps {
            apply(&source, step);
        }
        let path = fixture.path("archive");
        let exported = export(&source, None, File::create(&path).unwrap(), now()).unwrap();
        let target = fixture.store("target.db");
        import(&target, &path, None, now()).unwrap();
        let again = export(&target, None, Discarded(0), now()).unwrap();
        prop_assert_eq!(again.content, exported.content);
        prop_assert_eq!(target.verify().unwrap().damaged, []);
    }
}
