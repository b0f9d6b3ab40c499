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

/// Lines of base64 as in a private key.
const KEY_LINES: [&str; 3] = [
    "MIIEpAIBAAKCAQEAq8Zr2LxV9mTn4KpW7sYdHc3vBn6Qe1Ru5Ty8Wi0Op2As4Df6",
    "Gh9JkL0ZxCvBnM1QwErTyUiOp2AsDfGhJkL3ZxCvBnM4QwErTyUiOp5AsDfGhJkL",
    "Zx7CvBnM8QwErTyUiOp9AsDf==",
];

/// Returns the lines of `text` with the result of `prefix` before each.
fn prefixed(text: &str, prefix: impl Fn(usize) -> String) -> String {
    let lines = text.lines().enumerate();
    lines
        .map(|(index, line)| format!("{}{line}\n", prefix(index + 1)))
        .collect()
}

type Prefix = fn(usize) -> String;

const PREFIXES: &[Prefix] = &[
    |_| String::new(),
    |line| format!("{line:5}→"),
    |line| format!("{line:6}\t"),
    |line| format!("{line} | "),
    |line| format!("config/app.conf:{line}:"),
    |_| "2026-01-02T10:00:00.123Z ".to_owned(),
    |_| "[10:00:00] ".to_owned(),
    |_| "web-1  | ".to_owned(),
    |_| "+".to_owned(),
    |_| "-".to_owned(),
    |_| "> ".to_owned(),
    |_| "# ".to_owned(),
    |_| "// ".to_owned(),
    |line| format!("2026-01-02T10:00:00Z web-1  | {line:5}→"),
];

#[test]
fn a_private_key_is_masked_under_the_prefixes_of_its_lines() {
    let [first, second, third] = KEY_LINES;
    for text in [
        format!(
            "-----BEGIN RSA PRIVATE KEY-----\n{first}\n{second}\n{third}\n-----END RSA PRIVATE KEY-----\nend"
        ),
        format!(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{first}\n{second}\n{third}\n-----END RSA PRIVATE KEY-----\nend"
        ),
        format!(
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\n{first}\n{second}\n{third}\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----\nend"
        ),
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{first}\n{second}\n{third}\nend"),
        format!("{first}\n{second}\n{third}\n-----END EC PRIVATE KEY-----\nend"),
        format!("Private-Lines: 3\n{first}\n{second}\n{third}\nPrivate-MAC: 00\nend"),
    ] {
        for prefix in PREFIXES {
            let text = prefixed(&text, prefix);
            let found = find_secrets(&text);
            let masked = super::mask(&text, &found);
            for line in KEY_LINES {
                assert!(!masked.contains(line), "{text}\n{masked}");
            }
            assert!(masked.contains("end\n"), "{masked}");
            assert_eq!(masked.lines().count(), text.lines().count());
            assert_eq!(find_secrets(&masked), []);
        }
    }
}

#[test]
fn certificates_and_public_keys_keep_their_lines() {
    let [first, second, third] = KEY_LINES;
    for label in ["CERTIFICATE", "PUBLIC KEY", "PGP SIGNATURE"] {
        let text = format!("{first}\n{second}\n{third}\n-----END {label}-----\n");
        for prefix in PREFIXES {
            check(&prefixed(&text, prefix), &[]);
        }
    }
}

#[test]
fn keys_and_values_are_found_under_the_prefixes_of_their_lines() {
    for (text, value) in [
        (
            "user: app\npassword: Tulip#Frost47\nport: 1\n",
            "Tulip#Frost47",
        ),
        ("storePassword=Tulipfrost47\nkeyAlias=a\n", "Tulipfrost47"),
        ("a: 1\npassword:\n  q8Zr2LxV9mTn\n", "q8Zr2LxV9mTn"),
        (
            "- name: DB_PASSWORD\n  value: q8Zr2LxV9mTn\n",
            "q8Zr2LxV9mTn",
        ),
        (
            "token: >-\n  q8Zr2LxV9mTn4KpW7sYd\n",
            "q8Zr2LxV9mTn4KpW7sYd",
        ),
        (
            "key = (\n    api_secret =\n    'q8Zr2LxV9mTn4KpW7sYd'\n",
            "q8Zr2LxV9mTn4KpW7sYd",
        ),
        ("ENV DB_PASSWORD q8Zr2LxV9mTn\nEND\n", "q8Zr2LxV9mTn"),
        (
            "db.internal:5432:shop:app:q8Zr2LxV9mTn\nx\n",
            "q8Zr2LxV9mTn",
        ),
    ] {
        for prefix in PREFIXES {
            let text = prefixed(text, prefix);
            let found = find_secrets(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(&text[found[0].range.clone()], value, "{text}");
        }
    }
}

#[test]
fn colours_around_a_name_or_a_value_are_skipped() {
    check(
        "\u{1b}[36mDB_PASSWORD\u{1b}[0m=\u{1b}[1;33mq8Zr2LxV9mTn\u{1b}[0m\n",
        &["password-assignment q8Zr2LxV9mTn"],
    );
    check("\u{1b}[36mtoken\u{1b}[0m = next\n", &[]);
}

/// Returns `text` as a string of JSON.
fn json(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('\t', "\\t");
    format!("{{\"out\":\"{escaped}\",\"code\":0}}")
}

#[test]
fn strings_of_json_are_read_as_text() {
    for (text, value) in [
        ("user: app\npassword: q8Zr2LxV9mTn\n", "q8Zr2LxV9mTn"),
        ("password:\n  q8Zr2LxV9mTn\n", "q8Zr2LxV9mTn"),
        (
            "- name: DB_PASSWORD\n  value: \"q8Zr2LxV9mTn\"\n",
            "q8Zr2LxV9mTn",
        ),
        (
            "x = 1\napi_key = \"q8Zr2LxV9mTn4KpW7sYd\"\n",
            "q8Zr2LxV9mTn4KpW7sYd",
        ),
        ("{\"password\": \"q8Zr2LxV9mTn\"}", "q8Zr2LxV9mTn"),
        ("    1→password: q8Zr2LxV9mTn\n    2→x\n", "q8Zr2LxV9mTn"),
    ] {
        let (once, twice) = (json(text), json(&json(text)));
        let thrice = json(&twice);
        for text in [once, twice, thrice] {
            let found = find_secrets(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(&text[found[0].range.clone()], value, "{text}");
        }
    }
    let key = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        KEY_LINES.join("\n")
    );
    let text = json(&json(&prefixed(&key, |line| format!("{line:5}→"))));
    let masked = super::mask(&text, &find_secrets(&text));
    assert!(
        KEY_LINES.iter().all(|line| !masked.contains(line)),
        "{masked}"
    );
    assert!(
        masked.ends_with("\\\",\\\"code\\\":0}\",\"code\":0}"),
        "{masked}"
    );
}

#[test]
fn long_values_are_masked_to_their_end() {
    for length in [200, 257, 1_000, 5_000, 50_000] {
        let value: String = (0..length)
            .map(|n: usize| char::from(b'0' + ((n * n * 7 + n / 3) % 10) as u8))
            .collect();
        let value: String = value
            .bytes()
            .enumerate()
            .map(|(n, b)| char::from(if n % 3 == 0 { b + 49 } else { b }))
            .collect();
        for (text, rule) in [
            (format!("AWS_SESSION_TOKEN={value}\n"), "secret-assignment"),
            (format!("token = \"{value}\"\n"), "secret-assignment"),
            (format!("password: {value}\n"), "password-assignment"),
        ] {
            check(&text, &[&format!("{rule} {value}")]);
        }
    }
    // A long run with a key every few bytes is read in linear time.
    let _ = find_secrets(&"token:a1b2-".repeat(4_000));
}

#[test]
fn code_and_encoded_words_are_no_passwords() {
    for text in [
        "ownPass: !!ownPass",
        "password: !hasPassword",
        "username=user&password=secure%20password",
        "http://user:pass%20pass@host/path",
        "http://user:pass%23pass@host/path",
    ] {
        check(text, &[]);
    }
}

#[test]
fn values_are_found_in_forms_of_code_and_commands() {
    for text in [
        "SECRET_KEY = b\"§\"",
        "static NSString *const kAPIKey = @\"§\";",
        "std::string token = R\"(§)\";",
        "CREATE LOGIN app WITH PASSWORD = N'§';",
        "CREATE USER app WITH PASSWORD '§';",
        "CREATE USER 'app'@'%' IDENTIFIED BY '§';",
        "ALTER USER app IDENTIFIED WITH caching_sha2_password BY '§';",
        "static const char api_key[] = \"§\";",
        "#define WIFI_PASSWORD \"§\"",
        "set(DB_PASSWORD \"§\")",
        "const token = config.token ?? '§'",
        "variable \"db_password\" {\n  type    = string\n  default = \"§\"\n}",
        "<key>APIKey</key>\n<string>§</string>",
        "requirepass §",
        "  user ann insecure-password §",
        "bindpw §",
        "PresharedKey = §",
        "redis-server --requirepass § --appendonly yes",
        "keytool -genkey -storepass §",
        "aws configure set aws_secret_access_key §",
        "ldapsearch -x -w § -b dc=a",
        "sqlcmd -S db -U sa -P §",
        "test: [\"CMD\", \"mysqladmin\", \"-uroot\", \"-p§\"]",
        "smbclient //nas/s -U ann%§",
        "lftp -u ann,§ ftp.host",
        "req.SetBasicAuth(\"ann\", \"§\")",
        "r = requests.get(url, auth=(\"ann\", \"§\"))",
        "const t = jwt.sign({ id, a: [1] }, '§', { expiresIn: '1h' });",
        "server.login(\"ann@mail.test\", \"§\")",
        "$db = new PDO(\"mysql:host=db\", \"app\", \"§\");",
        "$pw = ConvertTo-SecureString \"§\" -AsPlainText -Force",
        "password: “§”",
        "password:\u{a0}§",
        "password：§",
        "**Password:** §",
        "mot_de_passe = §",
        "Kennwort=§",
        "The password is `§`, keep it.",
        "Le mot de passe est §.",
        "| user | password |\n|---|---|\n| ann | § |",
        "user,password\nann,§\nbob,none",
        "Cookie: theme=dark; sessionid=§; a=b",
        "{\"name\":\"Cookie\",\"value\":\"sid=§; a=b\"}",
        "echo 'deploy:§' | chpasswd",
        "chpasswd:\n  list: |\n    root:§\n",
    ] {
        let value = "q8Zr2LxV9mTn4KpW7sYd";
        let text = text.replace('§', value);
        let found = find_secrets(&text);
        let values: Vec<_> = found
            .iter()
            .map(|secret| &text[secret.range.clone()])
            .collect();
        assert_eq!(values, [value], "{text}");
    }
    check(
        "password: \"pässwörd99X\"",
        &["password-assignment pässwörd99X"],
    );
    check(
        "MNEMONIC=\"river candle stone orbit maple tiger cloud lemon anchor velvet harbor pencil\"",
        &[
            "wallet-mnemonic river candle stone orbit maple tiger cloud lemon anchor velvet harbor pencil",
        ],
    );
}

#[test]
fn look_alikes_of_these_forms_are_left_alone() {
    for text in [
        "user,password\nann,none\n",
        "def login(user, password):\n    return user, password\n",
        "| option | password |\n|---|---|\n| type | required |",
        "The password is required and was changed in v2.3.",
        "password is stored in config.password2",
        "server.login(username, password)",
        "server.login(\"ann\", \"password123\")",
        "jwt.verify(token, process.env.JWT_SECRET)",
        "jwt.sign(payload, 'secret')",
        "variable \"db_password\" {\n  type = string\n}\nvariable \"region\" {\n  default = \"eu-west-1a\"\n}",
        "Identified by 'name' in the table",
        "Set-Cookie: theme=dark; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT",
        "mnemonic: the quick brown fox jumps over the lazy dog and then goes home again",
        "kind: Secret\nmetadata:\n  name: application-configuration\n",
        "mkdir -p build/output2 && cp -p a1 b2",
        "token: uuid 550e8400-e29b-41d4-a716-446655440000",
        "password：至少8位字符",
        "psk: WPA-PSK",
    ] {
        check(text, &[]);
    }
}

#[test]
fn base64_of_a_file_with_a_secret_is_masked_whole() {
    // DB_HOST=db.internal\nDB_PASSWORD=tr0ub4dor-9x\nPORT=8080\n
    let encoded = "REJfSE9TVD1kYi5pbnRlcm5hbApEQl9QQVNTV09SRD10cjB1YjRkb3ItOXgKUE9SVD04MDgwCg==";
    let found = format!("password-assignment {encoded}");
    for text in [
        encoded.to_owned(),
        format!("ENV={encoded}\n"),
        format!("echo {encoded} | base64 -d > .env"),
        format!(r#"{{"content": "{encoded}"}}"#),
    ] {
        check(&text, &[&found]);
    }
    // Wrapped, as `base64` and the API of GitHub write it.
    let wrapped = format!("{}\n{}", &encoded[..60], &encoded[60..]);
    check(&wrapped, &[&format!("password-assignment {wrapped}")]);
    let escaped = wrapped.replace('\n', "\\n");
    let json = format!(r#"{{"content": "{escaped}\n"}}"#);
    check(&json, &[&format!("password-assignment {escaped}")]);
    // DB_PASSWORD=tr0ub4dor-9x
    let short = "REJfUEFTU1dPUkQ9dHIwdWI0ZG9yLTl4";
    check(short, &[&format!("password-assignment {short}")]);
    // Text without a secret, and bytes that are no text.
    check(
        "REJfSE9TVD1kYi5pbnRlcm5hbApQT1JUPTgwODAKTkFNRT1ib2F0cwo=",
        &[],
    );
    check(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        &[],
    );
}

#[test]
fn passwords_of_redis_users_and_snmp_communities_are_masked() {
    check(
        "user app on >k9Lm2Qx7 ~* +@all",
        &["redis-password k9Lm2Qx7"],
    );
    check(
        "ACL SETUSER app on ~* >k9Lm2Qx7 +@all",
        &["redis-password k9Lm2Qx7"],
    );
    check("user app on nopass ~* +@all", &[]);
    check("if user.len > 12345 && on > 1 {", &[]);
    check(
        "rocommunity n3tM0n-x9 10.0.0.0/8",
        &["snmp-community n3tM0n-x9"],
    );
    check(
        "snmp-server community n3tM0n-x9 RO",
        &["snmp-community n3tM0n-x9"],
    );
    check("rocommunity public", &[]);
    check("the snmp-server community strings are listed below", &[]);
    check(
        "snmpwalk -v2c -c n3tM0n-x9 10.0.0.1",
        &["command-line-password n3tM0n-x9"],
    );
}
