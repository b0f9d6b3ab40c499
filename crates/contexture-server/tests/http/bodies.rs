//! Accepted bodies, and the errors for others.

use serde_json::json;

use crate::support::{Answer, Lab, Running, turn};

fn server() -> (Lab, Running) {
    let lab = Lab::new();
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    (lab, server)
}

/// Sends a request whose head is written here.
fn post(server: &Running, target: &str, headers: &str, body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let head = format!(
        "POST {target} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    server.raw([head.as_bytes(), body].concat())
}

const JSON: &str = "content-type: application/json\r\n";

/// Checks that earlier data exists, and that new calls are accepted.
fn is_well(server: &Running) {
    server.get("/v1/sessions/s").ok(200);
    server
        .post("/v1/sessions/s/turns", &turn("Still there?"))
        .ok(201);
}

#[test]
fn an_unknown_field_of_alternatives_lists_the_fields_of_all() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    let refused = client.post("/v1/memory/forget", r#"{"everything":"x"}"#);
    let text = refused.text();
    let listed = "unknown field; expected `source`, `session` or `user`";
    assert!(text.contains(listed), "{text}");
    let near = client.post("/v1/memory/forget", r#"{"sesion":"x"}"#);
    assert!(
        near.text().contains("did you mean `session`?"),
        "{}",
        near.text()
    );
}

#[test]
fn fit_explains_where_the_providers_request_belongs() {
    let (_lab, server) = server();
    let request = json!({"model": "gpt-5.6", "messages": [{"role": "user", "content": "Hi"}]});
    let answer = server.post("/v1/fit", &request.to_string());
    assert_eq!(answer.status, 400);
    let hint = "wrap the provider's request: `{\"request\": {…}}`";
    assert_eq!(answer.json()["error"]["hint"], hint);
    // Another error of a body with the field has no such hint.
    let wrapped = json!({"request": request, "max_tokens": "many"});
    let answer = server.post("/v1/fit", &wrapped.to_string());
    assert_eq!(answer.json()["error"]["field"], "max_tokens");
    assert!(answer.json()["error"]["hint"].is_null());
    let wrapped = json!({"request": request, "report": false});
    let answer = server.post("/v1/fit", &wrapped.to_string());
    assert_eq!(answer.ok(200).json()["changed"], false);
}

#[test]
fn a_too_large_body_is_rejected_before_it_is_read() {
    let lab = Lab::new().with(|server| server.max_body_bytes = 1000);
    let server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let refused = "413 too_large: the body is larger than the limit of 1000 bytes [send less per \
                   call, or raise `max_body_bytes` in the server's settings]";
    // The length is known: the server answers before any byte is sent.
    let head = format!("POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\n{JSON}");
    let told = server.raw(format!("{head}content-length: 1001\r\n\r\n"));
    assert_eq!(told.text(), refused);
    let told = server.raw(format!(
        "{head}content-length: 99999999999999999999999\r\n\r\n"
    ));
    assert_eq!(told.status, 400);
    // The length is unknown: the server answers as soon as the limit is
    // exceeded.
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    for _ in 0..11 {
        chunked.push_str(&format!("64\r\n{}\r\n", " ".repeat(100)));
    }
    assert_eq!(server.raw(&chunked).text(), refused);
    // A client that sends everything before it listens is answered, too.
    let large = format!(r#"{{"label":"{}"}}"#, "x".repeat(500_000));
    assert_eq!(server.post("/v1/sessions", &large).text(), refused);
    // A body just below the limit is accepted.
    let fits = format!("{}{}", r#"{"label":"fits"}"#, " ".repeat(1000 - 16));
    server.post("/v1/sessions", &fits).ok(201);
    is_well(&server);
}

#[test]
fn a_truncated_body_stores_nothing() {
    let (_lab, server) = server();
    let whole = turn("half");
    for sent in [0, 1, whole.len() - 1] {
        let mut wire = server.connect();
        wire.send(format!(
            "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: {}\r\n\r\n",
            whole.len()
        ));
        wire.send(&whole[..sent]);
        wire.end();
        assert_eq!(
            wire.answer().text(),
            "400 truncated: the connection was closed before the end of the body"
        );
    }
    for chunks in ["5\r\n{\"mes", "zz\r\n", "5\r\n{\"mesXX"] {
        let mut wire = server.connect();
        wire.send(format!(
            "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\n{JSON}transfer-encoding: \
             chunked\r\n\r\n{chunks}"
        ));
        wire.end();
        assert_eq!(wire.answer().status, 400);
    }
    assert_eq!(server.get("/v1/sessions/s").json()["turns"], 0);
    is_well(&server);
}

#[test]
fn invalid_json_is_reported_with_its_position() {
    let (_lab, server) = server();
    for (body, answer) in [
        (
            "",
            "400 invalid_json: unexpected end of JSON, expected a value at line 1 column 0",
        ),
        (
            "{\"label\":",
            "400 invalid_json: unexpected end of JSON, expected a value at line 1 column 9",
        ),
        (
            "{'label':1}",
            "400 invalid_json: key must be a string at line 1 column 2",
        ),
        (
            "{} x",
            "400 invalid_json: trailing characters at line 1 column 4",
        ),
        ("nil", "400 invalid_json: expected ident at line 1 column 2"),
        ("[\"s2\"]", "400 invalid_field: must be an object"),
        ("\"s2\"", "400 invalid_field: must be an object"),
        (
            "{\"label\":7}",
            "400 invalid_field: must be a string (label)",
        ),
        (
            "{\"label\":null}",
            "400 invalid_field: must be a string (label)",
        ),
        ("{}", "400 invalid_field: missing required field (label)"),
        (
            "{\"label\":\"a\",\"label\":\"b\"}",
            "400 invalid_json: duplicate key `label` at \
            line 1 column 20",
        ),
        (
            "{\"label\":\"\\ud800\"}",
            "400 invalid_json: unexpected end of hex escape at line 1 \
            column 17",
        ),
        (
            "{\"label\":\"a\",\"labl\":\"b\"}",
            "400 invalid_field: unknown field; did you mean `label`? (labl)",
        ),
    ] {
        let said = post(&server, "/v1/sessions", JSON, body).text();
        assert!(said.starts_with(answer), "{body}\n{said}\n{answer}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(
        post(&server, "/v1/sessions", JSON, &deep).text(),
        "400 invalid_json: the JSON is nested too deeply at line 1 column 128"
    );
    let deep = format!(r#"{{"label":{}"#, r#"{"a":"#.repeat(100_000));
    assert_eq!(post(&server, "/v1/sessions", JSON, &deep).status, 400);
    assert_eq!(
        post(&server, "/v1/sessions", JSON, b"{\"label\":\"\xff\"}").text(),
        "400 invalid_json: the body is not UTF-8 at byte 10"
    );
    is_well(&server);
}

#[test]
fn errors_name_nested_fields() {
    let (_lab, server) = server();
    let said = |arguments: &str, more: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":[
            {{"type":"tool_call","id":"c","name":"shell","arguments":{arguments}{more}}}]}}]}}"#
        );
        post(&server, "/v1/sessions/s/turns", JSON, body).text()
    };
    // Two readers could read two different commands.
    assert_eq!(
        said(r#"{"command":"ls","command":"rm"}"#, ""),
        "400 invalid_json: duplicate key `command` at line 2 column 93"
    );
    assert_eq!(
        said(r#"{"a":[{"b":{"c":1,"\u0063":2}}]}"#, ""),
        "400 invalid_json: duplicate key `c` at line 2 column 94"
    );
    let unknown = said("{}", r#","colour":1"#);
    assert!(unknown.starts_with("400 invalid_field: "), "{unknown}");
    assert!(unknown.contains("messages[1].content"), "{unknown}");
    assert!(unknown.contains("colour"), "{unknown}");
    let role = r#"{"messages":[{"role":"user","content":"x"},{"role":"usr","content":"x"}]}"#;
    let said = post(&server, "/v1/sessions/s/turns", JSON, role).text();
    assert!(said.contains("(messages[1].role)"), "{said}");
    let usage = r#"{"messages":[{"role":"user","content":"x"}],"usage":{"input_tokens":-1}}"#;
    let said = post(&server, "/v1/sessions/s/turns", JSON, usage).text();
    assert!(said.contains("(usage.input_tokens)"), "{said}");
    assert_eq!(server.get("/v1/sessions/s").json()["turns"], 0);
}

#[test]
fn nul_characters_are_allowed_in_content_but_not_in_names() {
    let (_lab, server) = server();
    for (target, body) in [
        ("/v1/sessions", r#"{"label":"a\u0000b"}"#),
        ("/v1/sessions", r#"{"label":"\u0000"}"#),
        ("/v1/sessions/s/fork", r#"{"label":"a\u0000b"}"#),
    ] {
        let said = server.post(target, body).text();
        assert!(said.starts_with("422 invalid: label: "), "{said}");
    }
    let said = server
        .anybody()
        .patch("/v1/sessions/s", r#"{"alias":"a\u0000b"}"#)
        .text();
    assert!(said.starts_with("422 invalid: "), "{said}");
    assert_eq!(server.get("/v1/sessions/a%00b").status, 404);
    assert_eq!(server.get("/v1/sessions?after=%00").status, 200);
    // Content is what it is, and comes back so.
    let odd = "a\u{0}b\u{7f}\u{1b}[31m\u{202e}\u{fffd}\u{10ffff}\r\n\u{2028}";
    server.post("/v1/sessions/s/turns", &turn(odd)).ok(201);
    let history = server.get("/v1/sessions/s/history").json();
    let content = &history["turns"][0]["messages"][0]["content"];
    let came_back = content
        .as_str()
        .unwrap_or_else(|| content[0]["text"].as_str().unwrap());
    assert_eq!(came_back, odd);
}

#[test]
fn a_body_needs_the_content_type_json() {
    let (_lab, server) = server();
    let hint = "[send `Content-Type: application/json`]";
    for (headers, answer) in [
        ("", format!("the body has no `Content-Type` {hint}")),
        (
            "content-type: text/plain\r\n",
            format!("the body has the `Content-Type` `text/plain` instead of JSON {hint}"),
        ),
        (
            "content-type: application/x-www-form-urlencoded\r\n",
            format!(
                "the body has the `Content-Type` `application/x-www-form-urlencoded` instead of \
                 JSON {hint}"
            ),
        ),
        (
            "content-type: application/x-ndjson\r\n",
            format!("this operation accepts one JSON object, not NDJSON {hint}"),
        ),
        (
            "content-type: application/json; charset=latin1\r\n",
            format!("the body has the charset `latin1` instead of UTF-8 {hint}"),
        ),
        (
            "content-type: application/json\r\ncontent-encoding: gzip\r\n",
            "the body is compressed [send the body uncompressed, without `Content-Encoding`]"
                .to_owned(),
        ),
    ] {
        let said = post(&server, "/v1/sessions", headers, r#"{"label":"x"}"#).text();
        assert_eq!(
            said,
            format!("415 unsupported_media_type: {answer}"),
            "{headers}"
        );
    }
    for (i, headers) in [
        "content-type: application/json; charset=utf-8\r\n",
        "content-type: Application/JSON\r\n",
        "content-type: application/json;charset=\"UTF-8\"\r\ncontent-encoding: identity\r\n",
    ]
    .iter()
    .enumerate()
    {
        let body = json!({"label": format!("ok{i}")}).to_string();
        post(&server, "/v1/sessions", headers, body).ok(201);
    }
}

#[test]
fn an_unexpected_body_is_rejected() {
    let (_lab, server) = server();
    let refused = "400 unexpected_body: this operation accepts no body [send the call without a \
                   body]";
    let uncompact = "/v1/sessions/s/uncompact";
    assert_eq!(
        post(&server, uncompact, JSON, r#"{"focus":"x"}"#).text(),
        refused
    );
    let get = "GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\n";
    assert_eq!(
        server
            .raw(format!("{get}content-length: 2\r\n\r\n{{}}"))
            .text(),
        refused
    );
    let chunked = format!("{get}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    assert_eq!(server.raw(chunked).text(), refused);
    // An empty one is none.
    let empty = format!("{get}transfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    server.raw(empty).ok(200);
    server
        .raw(format!("{get}content-length: 0\r\n\r\n"))
        .ok(200);
    is_well(&server);
}

#[test]
fn paths_and_queries_are_read_strictly() {
    let (_lab, server) = server();
    for (target, answer) in [
        (
            "/v1/sessions/%FF",
            "400 invalid_path: Invalid UTF-8 in `label`",
        ),
        (
            "/v1/sessions?after=%FF",
            "400 invalid_query: the query is not UTF-8",
        ),
        (
            "/v1/sessions?limit=0",
            "400 invalid_query: must be from 1 to 1000 (limit)",
        ),
        (
            "/v1/sessions?limit=1001",
            "400 invalid_query: must be from 1 to 1000 (limit)",
        ),
        (
            "/v1/sessions?limit=-1",
            "400 invalid_query: invalid digit found in string (limit)",
        ),
        (
            "/v1/sessions?limit=ten",
            "400 invalid_query: invalid digit found in string (limit)",
        ),
        (
            "/v1/sessions?limit=",
            "400 invalid_query: cannot parse integer from empty string (limit)",
        ),
        (
            "/v1/sessions?limit=1&limit=2",
            "400 invalid_query: duplicate field `limit`",
        ),
        (
            "/v1/sessions?limits=1",
            "400 invalid_query: unknown field `limits`, expected `after` or `limit` (limits)",
        ),
        (
            "/v1/sessions/s?x=1",
            "400 invalid_query: unknown field `x`, there are no fields (x)",
        ),
    ] {
        let raw = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(server.raw(raw).text(), answer, "{target}");
    }
    // An invalid target is rejected by the parser of the head.
    for target in ["/v1/sessions/\u{e9}", "sessions", "/a b"] {
        let raw = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let status = server.raw(raw).status;
        assert!([400, 403, 404].contains(&status), "{target}: {status}");
    }
    is_well(&server);
}

#[test]
fn unknown_paths_and_methods_are_reported() {
    let (_lab, server) = server();
    let client = server.anybody();
    let nothing = "404 no_such_path: the server has no such path [open `/docs` for a list of \
                   operations]";
    for target in [
        "/ui",
        "/ui/0/app.js",
        "/v1",
        "/v1/",
        "/v1/session",
        "/v1/sessions/",
        "/v1/sessions/s/nothing",
        "/v2/sessions",
        "/v1/../etc/passwd",
        "//v1/sessions",
    ] {
        assert_eq!(client.get(target).text(), nothing, "{target}");
    }
    let not_so = "405 no_such_method: the path does not support this method [use a method of the \
                  answer's `allow` header]";
    for (method, target, allow) in [
        ("DELETE", "/v1/sessions", "GET,HEAD,POST"),
        ("PUT", "/v1/sessions/s", "DELETE,GET,HEAD,PATCH"),
        ("GET", "/v1/assemble", "POST"),
        ("OPTIONS", "/v1/assemble", "POST"),
        ("BREW", "/v1/assemble", "POST"),
        ("POST", "/healthz", "GET,HEAD"),
        ("POST", "/metrics", "GET,HEAD"),
        ("DELETE", "/openapi.json", "GET,HEAD"),
    ] {
        let raw = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let said = server.raw(raw);
        assert_eq!(said.text(), not_so, "{method} {target}");
        let mut allowed: Vec<&str> = said.header("allow").unwrap().split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{method} {target}");
    }
    // HEAD has the response of GET, without the body.
    let mut wire = server.connect();
    wire.send("HEAD /v1/sessions/s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let said = wire.rest();
    assert!(
        said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\n"),
        "{said}"
    );
}

#[test]
fn every_answer_has_a_request_id() {
    let (_lab, server) = server();
    let client = server.anybody();
    let ask = |id: &str| {
        let answer = client.send("GET", "/v1/sessions", &[("x-request-id", id)], None);
        answer.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(ask("job-7.part_2"), "job-7.part_2");
    for strange in ["", "a b", "a\"b", &"x".repeat(65)] {
        let id = ask(strange);
        assert_eq!(id.len(), 16);
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
}

#[test]
fn integers_can_be_written_with_a_decimal_point() {
    let (_lab, server) = server();
    let record = r#"{"records":[{"kind":"chunk","id":"c","source":"x","text":"x","timestamp":-4555907.0,
        "valid_from":"0002-10-22T08:23:55.1-19:48","valid_to":1163.0}]}"#;
    server.post("/v1/memory/records", record).ok(200);
    let request = r#"{"session":"s","recipe":"broker","event":"x","reserve_response":100.0}"#;
    server.post("/v1/assemble", request).ok(200);
    let recall = r#"{"max_tokens":100.5}"#;
    assert_eq!(
        server.post("/v1/memory/recall", recall).text(),
        "400 invalid_field: must be an integer (max_tokens)"
    );
    // The range of a number is that of the document.
    let pattern = r#"{"records":[{"kind":"pattern","name":"x","procedure":"y",
        "applications":9223372036854775808}]}"#;
    assert_eq!(
        server.post("/v1/memory/records", pattern).text(),
        "400 invalid_field: must be at most 9223372036854775807 \
         (records[0].applications)"
    );
}

#[test]
fn a_body_with_too_many_values_is_rejected() {
    let lab = Lab::new();
    let server = lab.serve();
    let many = format!("[{}1]", "1,".repeat(500_000));
    let refused = "413 too_many_values: the body has more than 500000 values [send less per call; \
                   send records as NDJSON]";
    for target in ["/v1/sessions", "/v1/memory/records", "/mcp"] {
        assert_eq!(server.post(target, &many).text(), refused, "{target}");
    }
}

#[test]
fn a_recipe_can_be_sent_inline() {
    let (_lab, server) = server();
    let assemble = |recipe: serde_json::Value, with: serde_json::Value| {
        let body = json!({"recipe": recipe, "with": with, "event": "Hello?", "session": "s"});
        server.post("/v1/assemble", &body.to_string())
    };
    let recipe = |source: &str| {
        json!({"recipe": "mine", "layers": [
            {"layer": "talk", "source": source, "share": 50, "place": "history"},
            {"layer": "event", "source": "event"},
        ]})
    };
    let answer = assemble(recipe("history"), json!({})).ok(200).json();
    assert_eq!(answer["report"]["recipe"], "mine");
    let current = answer["current_message"]["content"].as_str();
    assert!(current.unwrap().ends_with("Hello?"), "{answer}");
    for (recipe, with, refused) in [
        (
            recipe("nothing"),
            json!({}),
            "422 invalid: recipe:1:28: layers[0].source: unknown source `nothing`",
        ),
        (
            json!({"recipe": "mine", "layers": [{"layer": "event"}]}),
            json!({}),
            "422 invalid: recipe:1:28: layers[0].source: is missing",
        ),
        (
            recipe("history"),
            json!({"talk": {"nothing": 1}}),
            "422 invalid: recipe:1:28: layers[0].with.nothing: unknown parameter `nothing`",
        ),
        (json!({"recipe": "mine"}), json!({}), "400 invalid_field: "),
    ] {
        let text = assemble(recipe, with).text();
        assert!(text.starts_with(refused), "{text}");
    }
}

#[test]
fn a_request_cannot_set_the_clock() {
    let (_lab, server) = server();
    let body = json!({"session": "s", "event": "Hello?", "now": "2026-01-01T00:00:00Z"});
    let refused = server.post("/v1/assemble", &body.to_string()).text();
    let begins = "400 invalid_field: unknown field";
    assert!(refused.starts_with(begins), "{refused}");
    assert!(refused.contains("(now)"), "{refused}");
}

#[test]
fn advice_is_given_as_data() {
    let (_lab, server) = server();
    let answer = server.get("/v1/sessions/none").ok(404).json();
    let error = &answer["error"];
    assert_eq!(
        error["hint"],
        "`GET /v1/sessions` lists the sessions; or `POST /v1/sessions` creates a session"
    );
    let advice = json!([
        {"do": "call", "operation": "list_sessions"},
        {"do": "call", "operation": "create_session"},
    ]);
    assert_eq!(error["advice"], advice);
}
