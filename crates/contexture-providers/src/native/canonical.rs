//! A canonical form of JSON, to compare whether two texts mean the same.

use contexture_core::json;

/// Returns JSON without blanks and with every string written in one way. The
/// order of fields and the spelling of numbers stay, because a model reads them.
pub(super) fn canonical(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let bytes = raw.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                match serde_json::from_str::<String>(&raw[at..end]) {
                    Ok(text) => json::write(&mut out, &text),
                    Err(_) => out.push_str(&raw[at..end]),
                }
                at = end;
            }
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            _ => {
                let rest = bytes[at..].iter();
                let plain =
                    rest.take_while(|byte| !matches!(byte, b'"' | b' ' | b'\t' | b'\r' | b'\n'));
                let end = at + plain.count();
                out.push_str(&raw[at..end]);
                at = end;
            }
        }
    }
    out
}

/// Returns the end of the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_escapes_do_not_matter_but_order_and_numbers_do() {
        let one = canonical("{ \"a\" : [ 1.0, \"caf\\u00e9 \\/ \\\"x\\\"\" ] }");
        assert_eq!(one, "{\"a\":[1.0,\"café / \\\"x\\\"\"]}");
        assert_ne!(canonical("[1.0]"), canonical("[1]"));
        assert_ne!(
            canonical("{\"a\":1,\"b\":2}"),
            canonical("{\"b\":2,\"a\":1}")
        );
    }
}
