//! The addresses that a key may be sent to.

/// Returns true when a key may be sent to `url`: over `https://`, or over
/// `http://` to this machine.
///
/// Every other URL would carry the key in clear text. Text that is not a URL,
/// and a URL that names a user, return false.
pub fn may_carry_key(url: &str) -> bool {
    let url = url.trim();
    // Some parsers read a backslash as a slash, and so another host.
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') || url.contains(odd) {
        return false;
    }
    match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => is_loopback(host(authority)),
        _ => false,
    }
}

/// Returns the host of `host:port`, without the brackets of an IPv6 address.
fn host(authority: &str) -> &str {
    if let Some((address, _)) = authority
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        return address;
    }
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

/// Returns true when `host` is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::may_carry_key;

    #[test]
    fn a_key_goes_over_https_or_to_this_machine() {
        for url in [
            "https://api.openai.com/v1",
            "HTTPS://api.example.com",
            "http://localhost:11434/v1",
            "http://LocalHost",
            " http://127.0.0.1:8080 ",
            "http://127.9.9.9",
            "http://[::1]:80/v1",
        ] {
            assert!(may_carry_key(url), "{url}");
        }
        for url in [
            "http://api.example.com/v1",
            "HTTP://api.example.com",
            "http://10.0.0.7",
            "http://0.0.0.0",
            "http://[2001:db8::1]/",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://127.0.0.1@example.com",
            "http://localhost:80@example.com",
            "http://localhost\\@example.com",
            "http://example.com?localhost",
            "http://example.com#@localhost",
            "https://user:pass@example.com",
            "ftp://localhost",
            "https://",
            "localhost",
            "",
        ] {
            assert!(!may_carry_key(url), "{url}");
        }
    }
}
