//! Requests that a page somewhere else has a visitor's browser send.

use crate::support::{Answer, Lab, Running};

fn ask(server: &Running, method: &str, headers: &str) -> Answer {
    server.raw(format!("{method} /v1/sessions HTTP/1.1\r\n{headers}\r\n"))
}

#[test]
fn a_foreign_host_is_rejected() {
    let lab =
        Lab::new().with(|server| server.allowed_hosts = vec!["Contexture.Example".to_owned()]);
    let server = lab.serve();
    let port = server.address.port();
    for host in [
        "localhost",
        "LOCALHOST:1234",
        "localhost.",
        &format!("127.0.0.1:{port}"),
        "[::1]:80",
        "192.0.2.7",
        "contexture.example",
        "contexture.example:4650",
    ] {
        let answer = ask(&server, "GET", &format!("host: {host}\r\n"));
        assert_eq!(answer.status, 200, "{host}: {}", answer.body);
    }
    let foreign = "403 foreign_host: the host name in `Host` is not allowed [call the server by \
                   its IP address, or add the name to `allowed_hosts` in the server's settings]";
    for host in [
        "evil.example",
        &format!("evil.example:{port}"),
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.contexture.example",
        "localhost@evil.example",
        "127.0.0.1@evil.example",
    ] {
        let answer = ask(&server, "GET", &format!("host: {host}\r\n"));
        assert_eq!(answer.text(), foreign, "{host}");
    }
    let unclear = "400 invalid_host: missing or malformed Host header";
    for headers in [
        "",
        "host: \r\n",
        "host: a b\r\n",
        "host: localhost\r\nhost: localhost\r\n",
    ] {
        assert_eq!(ask(&server, "GET", headers).text(), unclear, "{headers}");
    }
    // Health checks accept any host name and return no data.
    for target in ["/healthz", "/readyz"] {
        server
            .raw(format!("GET {target} HTTP/1.1\r\nhost: pod-7\r\n\r\n"))
            .ok(200);
    }
    // The pages are not for everyone.
    for target in ["/docs", "/openapi.json", "/metrics", "/mcp", "/nowhere"] {
        let answer = server.raw(format!(
            "GET {target} HTTP/1.1\r\nhost: evil.example\r\n\r\n"
        ));
        assert_eq!(answer.text(), foreign, "{target}");
    }
}

#[test]
fn an_absolute_target_overrides_the_host_header() {
    let lab = Lab::new();
    let server = lab.serve();
    let answer =
        server.raw("GET http://evil.example/v1/sessions HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(answer.status, 403, "{}", answer.body);
}

#[test]
fn a_foreign_origin_is_rejected() {
    let lab = Lab::new()
        .with(|server| server.allowed_origins = vec!["https://app.example.com".to_owned()]);
    let server = lab.serve();
    let port = server.address.port();
    let own = format!("127.0.0.1:{port}");
    for (host, origin) in [
        (own.as_str(), format!("http://{own}")),
        ("localhost", "http://localhost".to_owned()),
        ("localhost", "https://app.example.com".to_owned()),
    ] {
        let headers = format!("host: {host}\r\norigin: {origin}\r\n");
        ask(&server, "GET", &headers).ok(200);
    }
    let foreign = "403 foreign_origin: the origin in `Origin` is not allowed [add the origin to \
                   `allowed_origins` in the server's settings]";
    for origins in [
        "origin: null\r\n",
        "origin: http://evil.example\r\n",
        "origin: https://app.example.com.evil.example\r\n",
        "origin: http://app.example.com\r\n",
        "origin: https://app.example.com:444\r\n",
        "origin: file://\r\n",
        "origin: \r\n",
        // Another program on this machine is another site.
        "origin: http://127.0.0.1:1\r\n",
        "origin: https://app.example.com\r\norigin: http://evil.example\r\n",
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            let answer = ask(&server, method, &format!("host: {own}\r\n{origins}"));
            assert_eq!(answer.text(), foreign, "{method} {origins}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}

#[test]
fn allowed_origins_get_cors_headers() {
    let lab = Lab::new()
        .with(|server| server.allowed_origins = vec!["https://app.example.com".to_owned()]);
    // A browser asks before it sends the key.
    let key = lab.key("");
    let server = lab.serve();
    let asked = ask(
        &server,
        "OPTIONS",
        "host: localhost\r\norigin: https://app.example.com\r\n\
         access-control-request-method: POST\r\n\
         access-control-request-headers: authorization,content-type\r\n",
    );
    assert_eq!((asked.status, asked.body.as_str()), (200, ""));
    let says = |answer: &Answer, name: &str| answer.header(name).unwrap_or_default().to_owned();
    assert_eq!(
        says(&asked, "access-control-allow-origin"),
        "https://app.example.com"
    );
    assert_eq!(
        says(&asked, "access-control-allow-methods"),
        "GET,POST,PUT,PATCH,DELETE"
    );
    assert_eq!(
        says(&asked, "access-control-allow-headers"),
        "authorization,content-type,x-request-id,last-event-id,mcp-protocol-version,mcp-session-id"
    );
    assert_eq!(asked.header("access-control-allow-credentials"), None);
    let called = ask(
        &server,
        "GET",
        &format!(
            "host: localhost\r\norigin: https://app.example.com\r\nauthorization: Bearer {key}\r\n"
        ),
    );
    assert_eq!(called.status, 200);
    assert_eq!(
        says(&called, "access-control-allow-origin"),
        "https://app.example.com"
    );
    assert_eq!(
        says(&called, "access-control-expose-headers"),
        "contexture-version,x-request-id,retry-after,mcp-session-id"
    );
    assert!(says(&called, "vary").contains("origin"), "{called:?}");
    // A refusal can be read by the page, too.
    let refused = ask(
        &server,
        "GET",
        "host: localhost\r\norigin: https://app.example.com\r\n",
    );
    assert_eq!(refused.status, 401);
    assert_eq!(
        says(&refused, "access-control-allow-origin"),
        "https://app.example.com"
    );
}

#[test]
fn without_allowed_origins_there_are_no_cors_headers() {
    let lab = Lab::new();
    let server = lab.serve();
    let own = "host: localhost\r\norigin: http://localhost\r\n";
    let answer = ask(&server, "GET", own).ok(200);
    assert_eq!(answer.header("access-control-allow-origin"), None);
    ask(&server, "OPTIONS", own).ok(405);
}
