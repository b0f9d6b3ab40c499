//! Quotes a text so that YAML reads it back unchanged.

use granit_parser::ScalarStyle;

/// Returns true when `value`, written plain, is text to YAML 1.1 and 1.2 readers alike.
pub(super) fn reads_as_text(value: &str) -> bool {
    const WORDS: [&str; 17] = [
        "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", "+.inf",
        "-.inf", ".nan", "<<", "=",
    ];
    // Numbers in any base, sexagesimals, dates and times.
    let numeric = value.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && value.contains(|c: char| c.is_ascii_digit())
        && value
            .chars()
            .all(|c| c.is_ascii_hexdigit() || "_xXoO.+-: tTzZ".contains(c));
    !numeric && !WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Writes a text in `style` if that is possible, and otherwise in double quotes.
pub(super) fn write_scalar(value: &str, style: ScalarStyle, flow: bool) -> String {
    let printable = !value.contains(must_escape);
    let plain = printable
        && reads_as_text(value)
        && value.trim() == value
        && !value.starts_with(|c| "-?:,[]{}#&*!|>'\"%@`".contains(c))
        && !value.ends_with(':')
        && !value.contains(": ")
        && !value.contains(" #")
        && !(flow && value.contains([',', '[', ']', '{', '}']));
    match style {
        ScalarStyle::SingleQuoted if printable => format!("'{}'", value.replace('\'', "''")),
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => double_quoted(value),
        _ if plain => value.to_owned(),
        _ => double_quoted(value),
    }
}

/// Returns true for characters that YAML does not print, and those that only look like blanks.
pub(super) fn must_escape(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{feff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

pub(super) fn double_quoted(value: &str) -> String {
    let mut quoted = String::from('"');
    for c in value.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if must_escape(c) => match u32::from(c) {
                code @ ..=0xff => quoted.push_str(&format!("\\x{code:02x}")),
                code @ ..=0xffff => quoted.push_str(&format!("\\u{code:04x}")),
                code => quoted.push_str(&format!("\\U{code:08x}")),
            },
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
