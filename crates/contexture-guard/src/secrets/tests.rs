//! Unit tests of the rules for secrets.

use super::{Secret, find_secrets, merge};

/// Finds the secrets of `text` and compares them, one line each: the rule, then the value.
fn check(text: &str, expected: &[&str]) {
    let found: Vec<String> = find_secrets(text)
        .into_iter()
        .map(|secret| format!("{} {}", secret.rule, &text[secret.range]))
        .collect();
    assert_eq!(found, expected, "in {text:?}");
}

#[test]
fn nothing_is_found_in_nothing() {
    for text in [
        "",
        "a",
        "ab",
        "abc",
        "é",
        "日本語",
        "\0\0\0",
        "://",
        "password=",
    ] {
        check(text, &[]);
    }
}

#[test]
fn a_window_at_either_end_of_a_text_is_seen() {
    for blanks in 0..16 {
        let text = format!("{}redis://:k9Lm2Qx7@r", " ".repeat(blanks));
        check(&text, &["url-password k9Lm2Qx7"]);
    }
}

#[test]
fn only_the_password_of_a_url_is_masked() {
    check("postgres://app:s3cr3t@db/app", &["url-password s3cr3t"]);
    check("postgres://app@db/app", &[]);
    check("postgres://app:app@db/app", &[]);
    check("https://h/a:b@c", &[]);
}

#[test]
fn a_key_name_is_looked_at_once() {
    check(
        "auth_token_secret_key = 'q8Zr2LxV9mTn4KpW7sYd'",
        &["secret-assignment q8Zr2LxV9mTn4KpW7sYd"],
    );
}

#[test]
fn a_key_that_is_about_a_secret_holds_none() {
    for key in [
        "token_type",
        "secret_name",
        "max_tokens",
        "password_file",
        "tokenizer",
        "authors",
    ] {
        check(&format!("{key} = 'q8Zr2LxV9mTn4KpW7sYd'"), &[]);
    }
}

#[test]
fn an_unfinished_private_key_ends_with_its_base64() {
    let line = "MIIEpAIBAAKCAQEAq8Zr2LxV9mTn4KpW7sYd";
    let text = format!("-----BEGIN RSA PRIVATE KEY-----\n{line}\n{line}\nand more");
    check(&text, &[&format!("private-key {line}\n{line}")]);
}

#[test]
fn overlaps_are_joined_under_the_rule_that_knows_more() {
    let secret = |range, rule| Secret { range, rule };
    let merged = merge(vec![
        secret(4..9, "github-token"),
        secret(2..6, "secret-assignment"),
        secret(9..12, "url-password"),
    ]);
    assert_eq!(
        merged,
        [secret(2..9, "github-token"), secret(9..12, "url-password")]
    );
}

/// Not promised: a password of plain letters cannot be distinguished from a
/// word, except in a URL or a connection.
#[test]
fn a_password_of_plain_letters_is_missed() {
    check("password = 'correcthorsebatterystaple'", &[]);
}

/// Texts that made other scanners slow: they hold nothing, and what a line holds is found in
/// each of many.
#[test]
fn long_repetitions_hold_what_their_parts_hold() {
    for piece in [
        "a",
        " ",
        "password=",
        "-----BEGIN ",
        "token",
        "://",
        "eyJ",
        "Authorization: ",
    ] {
        check(&piece.repeat(100_000 / piece.len()), &[]);
    }
    let line = "password: q8Zr2LxV9mTn\n";
    for lines in [10, 1_000] {
        assert_eq!(find_secrets(&line.repeat(lines)).len(), lines);
    }
}
