//! Files in the store: versions, conflicts and limits.

use contexture_core::ContentHash;
use contexture_store::{ExpectedFile, MAX_FILE_BYTES, Store, StoreError};

use crate::at;

pub fn a_file_is_read_back_unchanged(store: &dyn Store) {
    assert_eq!(store.files_revision().unwrap(), 0);
    assert_eq!(store.files().unwrap(), []);
    assert_eq!(store.file("persona/SOUL.md").unwrap(), None);
    let content = "You are kind.\0🦀".as_bytes();
    let put = |path: &str, content: &[u8], second| {
        let done = store.put_file(path, content, ExpectedFile::Any, at(second));
        done.unwrap()
    };
    let first = put("persona/SOUL.md", content, 1);
    assert_eq!(first.hash, ContentHash::of(content));
    assert_eq!((first.bytes, first.revision), (content.len() as u64, 1));
    let found = store.file("persona/SOUL.md").unwrap();
    assert_eq!(found, Some((first.clone(), content.to_vec())));
    // The same content again changes nothing.
    assert_eq!(put("persona/SOUL.md", content, 2), first);
    let other = put("a.yml", b"", 3);
    assert_eq!(other.revision, 2);
    assert_eq!(store.files().unwrap(), [other, first]);
    let second = put("persona/SOUL.md", b"You are brief.", 4);
    assert_eq!((second.revision, second.updated_at), (3, at(4)));
    store
        .delete_file("a.yml", ExpectedFile::Any, at(5))
        .unwrap();
    assert_eq!(store.files_revision().unwrap(), 4);
    assert_eq!(store.files().unwrap(), [second]);
    let missing = store.delete_file("a.yml", ExpectedFile::Any, at(6));
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
    assert_eq!(store.verify().unwrap().damaged, []);
}

pub fn a_changed_file_is_not_overwritten(store: &dyn Store) {
    let put = |content: &str, expected| store.put_file("a", content.as_bytes(), expected, at(1));
    let hash = |content: &str| ContentHash::of(content.as_bytes());
    let changed = |result: Result<_, StoreError>, expected: Option<ContentHash>| match result {
        Err(StoreError::FileChanged { path, hash }) => {
            assert_eq!((path.as_str(), hash), ("a", expected));
        }
        other => panic!("{other:?}"),
    };
    changed(put("one", ExpectedFile::Hash(hash("x"))), None);
    put("one", ExpectedFile::Absent).unwrap();
    changed(put("two", ExpectedFile::Absent), Some(hash("one")));
    put("two", ExpectedFile::Hash(hash("one"))).unwrap();
    changed(
        put("three", ExpectedFile::Hash(hash("one"))),
        Some(hash("two")),
    );
    let stale = ExpectedFile::Hash(hash("one"));
    changed(
        store
            .delete_file("a", stale, at(2))
            .map(|()| unreachable!()),
        Some(hash("two")),
    );
    assert_eq!(store.files_revision().unwrap(), 2);
    let now = ExpectedFile::Hash(hash("two"));
    store.delete_file("a", now, at(3)).unwrap();
}

pub fn concurrent_changes_of_a_file_are_not_lost(store: &dyn Store) {
    store
        .put_file("list", b"", ExpectedFile::Absent, at(0))
        .unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for line in 0..5 {
                    loop {
                        let (file, mut content) = store.file("list").unwrap().unwrap();
                        content.extend_from_slice(format!("{writer}.{line}\n").as_bytes());
                        let expected = ExpectedFile::Hash(file.hash);
                        match store.put_file("list", &content, expected, at(1)) {
                            Ok(_) => break,
                            Err(StoreError::FileChanged { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let (file, content) = store.file("list").unwrap().unwrap();
    assert_eq!(content.split(|byte| *byte == b'\n').count(), 21);
    assert_eq!(file.revision, 21);
}

pub fn files_that_cannot_be_are_rejected(store: &dyn Store) {
    let put = |path: &str| store.put_file(path, b"x", ExpectedFile::Any, at(0));
    for path in ["", "../a", "/a", ".contexture/a", "a\\b"] {
        let refused = put(path).unwrap_err();
        assert!(
            matches!(refused, StoreError::Invalid { .. }),
            "{path}: {refused}"
        );
    }
    put("a/b").unwrap();
    for path in ["a", "a/b/c"] {
        let refused = put(path).unwrap_err().to_string();
        assert!(
            refused.contains("one would be inside the other"),
            "{refused}"
        );
    }
    put("ab").unwrap();
    put("a/bc").unwrap();
    let large = vec![b'x'; MAX_FILE_BYTES + 1];
    let refused = store.put_file("c", &large, ExpectedFile::Any, at(0));
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    assert_eq!(store.files().unwrap().len(), 3);
}
