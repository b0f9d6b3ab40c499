//! What `find_secrets` finds and leaves alone: two corpora in plain text, and its laws on
//! generated input.

use contexture_guard::{Policy, Secret, clean_part, find_secrets, find_secrets_in};
use proptest::prelude::*;

const POSITIVE: &str = include_str!("secrets/positive.txt");
const BENIGN: &str = include_str!("secrets/benign.txt");

struct Case {
    rule: String,
    value: String,
    text: String,
}

/// Reads the cases of the positive corpus; its header says how they are written.
fn cases() -> Vec<Case> {
    let whole = POSITIVE.replace('¦', "");
    let mut cases = Vec::new();
    for block in whole.split("\n@ ").skip(1) {
        let (rule, rest) = block.split_once('\n').expect("a rule ends its line");
        let (value, text) = rest.split_once('\n').expect("a value ends its line");
        let value = value
            .strip_prefix("= ")
            .expect("a value follows its rule")
            .replace('⏎', "\n");
        cases.push(Case {
            rule: rule.to_owned(),
            text: text.trim_end_matches('\n').to_owned(),
            value,
        });
    }
    cases
}

/// Reads the cases of the benign corpus, one to a line.
fn benign() -> Vec<String> {
    let (_, body) = BENIGN.split_once("\n\n").expect("a header, then the cases");
    body.lines()
        .filter(|line| !line.is_empty() && !line.starts_with("## "))
        .map(|line| line.replace('¦', "").replace('⏎', "\n"))
        .collect()
}

fn mask(text: &str, found: &[Secret]) -> String {
    let mut masked = String::new();
    let mut at = 0;
    for secret in found {
        masked.push_str(&text[at..secret.range.start]);
        masked.push_str(&format!("[secret masked: {}]", secret.rule));
        let lines = text[secret.range.clone()].matches('\n').count();
        masked.push_str(&"\n".repeat(lines));
        at = secret.range.end;
    }
    masked.push_str(&text[at..]);
    masked
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

#[test]
fn the_corpora_are_told_apart() {
    let cases = cases();
    let benign = benign();
    let mut found = 0;
    for case in &cases {
        let start = case.text.find('§').expect("the text names its value");
        let text = case.text.replace('§', &case.value);
        let secrets = find_secrets(&text);
        let range = start..start + case.value.len();
        if secrets.len() == 1 && secrets[0].range == range && secrets[0].rule == case.rule {
            found += 1;
        } else {
            let seen: Vec<_> = secrets
                .iter()
                .map(|secret| (secret.rule, &text[secret.range.clone()]))
                .collect();
            println!("missed: {} in {text:?}\n   saw {seen:?}", case.rule);
        }
        let again = find_secrets(&mask(&text, &secrets));
        assert!(again.is_empty(), "found after masking {text:?}: {again:?}");
    }
    let mut false_hits = 0;
    for text in &benign {
        for secret in find_secrets(text) {
            false_hits += 1;
            let value = &text[secret.range.clone()];
            println!("false hit: {} {value:?} in {text:?}", secret.rule);
        }
    }
    println!(
        "secrets: recall {found}/{} ({:.1} %), false hits {false_hits}/{} ({:.1} %)",
        cases.len(),
        percent(found, cases.len()),
        benign.len(),
        percent(false_hits, benign.len()),
    );
    assert!(
        cases.len() >= 160 && benign.len() >= 320,
        "the corpora have shrunk"
    );
    assert!(found * 100 >= cases.len() * 95, "too many secrets missed");
    assert!(false_hits * 100 <= benign.len(), "too many false hits");
}

/// Hosts scan repositories for tokens, so the corpus may hold none as it is written.
#[test]
fn the_positive_corpus_holds_no_token_as_written() {
    let found: Vec<_> = find_secrets(POSITIVE)
        .into_iter()
        .map(|secret| &POSITIVE[secret.range])
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn every_secret_is_found_in_one_long_text() {
    let cases = cases();
    let text: String = cases
        .iter()
        .map(|case| case.text.replace('§', &case.value) + "\n\n# next\n\n")
        .collect();
    let found = find_secrets(&text);
    let values: Vec<&str> = found
        .iter()
        .map(|secret| &text[secret.range.clone()])
        .collect();
    let kept = cases
        .iter()
        .filter(|case| values.contains(&case.value.as_str()))
        .count();
    assert!(kept * 100 >= cases.len() * 95, "{kept} of {}", cases.len());
    assert!(find_secrets(&mask(&text, &found)).is_empty());
}

fn check_laws(text: &str) {
    let found = find_secrets(text);
    let mut end = 0;
    for secret in &found {
        assert!(secret.range.start >= end && secret.range.start < secret.range.end);
        assert!(
            text.get(secret.range.clone()).is_some(),
            "not on character boundaries"
        );
        end = secret.range.end;
    }
    let masked = mask(text, &found);
    let again = find_secrets(&masked);
    assert!(
        again.is_empty(),
        "found after masking: {again:?}\n{text:?}\n{masked:?}"
    );
}

/// A part of a text shows nothing that the whole hides, is clean by itself, and keeps its lines.
fn check_part(text: &str, part: std::ops::Range<usize>) {
    let whole = find_secrets(text);
    let found = find_secrets_in(text, part.clone());
    for secret in &whole {
        let hidden = secret.range.start.max(part.start)..secret.range.end.min(part.end);
        let is_covered = found.iter().any(|found| {
            found.range.start + part.start <= hidden.start
                && hidden.end <= found.range.end + part.start
        });
        assert!(
            hidden.is_empty() || is_covered,
            "{hidden:?} shows: {text:?}"
        );
    }
    let shown = &text[part.clone()];
    let masked = mask(shown, &found);
    assert_eq!(find_secrets(&masked), [], "found after masking {masked:?}");
    let policy = Policy::default().in_document();
    let (cleaned, findings) = clean_part(text, part, policy);
    assert_eq!(cleaned.matches('\n').count(), shown.matches('\n').count());
    let secrets = findings
        .iter()
        .filter(|f| cleaned.contains(&format!("[secret masked: {}]", f.what)));
    assert!(secrets.count() >= found.len());
}

#[test]
fn every_part_of_every_case_is_masked_as_the_whole_is() {
    for case in cases() {
        let text = case.text.replace('§', &case.value);
        let starts: Vec<usize> = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        for &start in &starts {
            let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
            check_part(&text, start..end);
            check_part(&text, start..text.len());
        }
    }
}

/// Pieces that rules look for, so that generated text comes close to them.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "password",
        "token",
        "api_key",
        "auth",
        "secret",
        "--token",
        "DB_PASSWORD",
        "=",
        ": ",
        " = ",
        "=>",
        "\"",
        "'",
        "\\\"",
        "\n",
        " ",
        "://",
        "@",
        ":",
        "/",
        "Bearer ",
        "Basic ",
        "Authorization: ",
        "curl -u ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END",
        "\\n",
        "ghp_",
        "sk-",
        "eyJ",
        ".eyJ",
        ".",
        "AKIA",
        "value",
        ",",
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        ";",
        "&",
        "Server=",
        "[secret masked: github-token]",
        "é",
        "日本",
        "postgres://u:",
        "-us1",
        ":AA",
        ".atlasv1.",
        "8Q~",
        "sig=",
        "&sig=",
        "login(\"",
        "hooks.slack.com/services/",
    ])
    .prop_map(str::to_owned);
    prop_oneof![
        5 => words,
        2 => "[A-Za-z0-9]{8,44}",
        1 => "[0-9a-f]{32}",
        1 => "[A-Za-z0-9+/]{40}={0,2}",
        1 => "[A-Za-z]{1,8}[0-9]{1,3}[!@#$%&*]{0,2}",
        1 => "\\PC{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn laws_hold_on_any_text(text in "(?s).{0,200}") {
        check_laws(&text);
    }

    #[test]
    fn laws_hold_on_text_made_of_what_rules_look_for(
        pieces in prop::collection::vec(piece(), 0..24),
    ) {
        check_laws(&pieces.concat());
    }

    #[test]
    fn laws_hold_on_cases_joined_and_cut(
        first in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        glue in piece(),
    ) {
        let cases = cases();
        let text = |index: prop::sample::Index| {
            let case = index.get(&cases);
            case.text.replace('§', &case.value)
        };
        let whole = text(first) + &glue + &text(second);
        let mut at = cut.index(whole.len() + 1);
        while !whole.is_char_boundary(at) {
            at -= 1;
        }
        check_laws(&whole[..at]);
        check_laws(&whole[at..]);
        check_laws(&whole);
    }
}
