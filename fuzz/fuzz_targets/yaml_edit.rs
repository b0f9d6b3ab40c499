//! Edits any manifest in place. The result is a manifest with that change.
#![no_main]

use contexture_files::working_set::Manifest;
use contexture_files::working_set::edit::{Edit, apply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let add = Edit::Add {
        path: "added/by fuzz.rs".to_owned(),
        priority: 0.5,
        fields: vec![("why".to_owned(), "a reason: # \"quoted\"".to_owned())],
    };
    let before = Manifest::parse("working-set.yml", text);
    let Ok(added) = apply(text, std::slice::from_ref(&add)) else {
        return;
    };
    let Ok(before) = before else {
        return;
    };
    let after = Manifest::parse("working-set.yml", &added);
    let after = after.unwrap_or_else(|error| panic!("{error}: {added:?}"));
    assert_eq!(after.files.len(), before.files.len() + 1, "{added:?}");
    let remove = Edit::Remove {
        path: "added/by fuzz.rs".to_owned(),
    };
    if let Ok(removed) = apply(&added, &[remove]) {
        let removed = Manifest::parse("working-set.yml", &removed)
            .unwrap_or_else(|error| panic!("{error}: {removed:?}"));
        assert_eq!(removed.files.len(), before.files.len(), "{added:?}");
    }
});
