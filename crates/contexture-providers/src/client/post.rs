//! Sends requests over HTTP with a deadline, retries and masked keys.
//!
//! A temporary failure (429, 5xx, a broken connection) is retried with a pause,
//! as long as the deadline allows. Other failures are returned at once. Errors
//! never contain the key.

use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::uri::{Scheme, Uri};
use ureq::http::{HeaderMap, HeaderValue, Response};
use ureq::{Agent, Body};

use super::error::{public_url, quote};
use super::wire::ServerError;
use super::{CallError, CallErrorKind, Endpoint, Protocol};
use crate::endpoint::{self, may_carry_key};
use crate::response::{ErrorKind, error_kind};

/// The version of Anthropic's Messages API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The maximum number of bytes of an error body that are read. The quote in the
/// message is far shorter.
const MAX_ERROR_BYTES: u64 = 64 * 1024;

/// The maximum deadline. Adding a longer one to the clock could overflow.
const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// The body of a successful answer.
pub(super) struct Received {
    /// At most as many bytes as the endpoint's limit, not parsed yet.
    pub(super) body: Vec<u8>,
    /// The number of times the request was sent.
    pub(super) attempts: u32,
}

/// Posts `body` to `path`, and retries temporary failures.
///
/// The caller passes the clock, because one call can need several posts. The
/// deadline of `endpoint` is ignored.
pub(super) fn post(
    endpoint: &Endpoint,
    path: &str,
    body: &Value,
    clock: Clock,
) -> Result<Received, CallError> {
    let (body, attempts) = watched(endpoint, path, body, clock, &mut |call, response| {
        call.answer(response)
    })?;
    Ok(Received { body, attempts })
}

/// Posts `body` to `path`, and calls `event` with the data of each server-sent
/// event until it returns false or the stream ends. Returns the number of times
/// the request was sent.
///
/// A stream that breaks is not sent again: its beginning has been used.
pub(super) fn stream(
    endpoint: &Endpoint,
    path: &str,
    body: &Value,
    clock: Clock,
    event: &mut dyn FnMut(&str) -> bool,
) -> Result<u32, CallError> {
    let ((), attempts) = watched(endpoint, path, body, clock, &mut |call, response| {
        call.events(response, event)
    })?;
    Ok(attempts)
}

/// Reads a successful answer.
type Reader<'r, T> = dyn FnMut(&Call<'_>, Response<Body>) -> Result<T, Failure> + 'r;

/// Sends a request until `read` has an answer, and ends it at the deadline.
fn watched<T>(
    endpoint: &Endpoint,
    path: &str,
    body: &Value,
    clock: Clock,
    read: &mut Reader<'_, T>,
) -> Result<(T, u32), CallError> {
    let call = Call::new(endpoint, path, body, clock).map_err(|failure| failure.after(0))?;
    // The client's own timeouts restart with each write to the socket, so a
    // server that reads the request slowly can outlast them. The watch ends the
    // connection at the deadline in any case.
    let (done, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let agent = call.agent.clone();
        let watch = move || {
            if ended.recv_timeout(clock.left()) == Err(RecvTimeoutError::Timeout) {
                agent.shutdown();
            }
        };
        // If no thread can be started, the client's own timeouts still apply.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        let result = call.run(read);
        drop(done);
        result
    })
}

/// The remaining time until the deadline.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    limit: Duration,
}

impl Clock {
    pub(super) fn start(limit: Duration) -> Clock {
        Clock {
            start: Instant::now(),
            limit: limit.min(MAX_DEADLINE),
        }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

/// A failed attempt.
struct Failure {
    kind: CallErrorKind,
    message: String,
    /// Whether a retry can succeed.
    can_pass: bool,
    /// The pause that the server requests.
    wait: Option<Duration>,
}

impl Failure {
    /// Returns a failure that a retry does not fix.
    fn lasting(kind: CallErrorKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            can_pass: false,
            wait: None,
        }
    }

    fn after(self, attempts: u32) -> CallError {
        CallError {
            kind: self.kind,
            attempts,
            message: self.message,
        }
    }
}

/// A request that can be sent any number of times.
struct Call<'a> {
    endpoint: &'a Endpoint,
    agent: Agent,
    uri: Uri,
    key: Option<(&'static str, HeaderValue)>,
    body: Vec<u8>,
    clock: Clock,
}

impl<'a> Call<'a> {
    fn new(
        endpoint: &'a Endpoint,
        path: &str,
        body: &Value,
        clock: Clock,
    ) -> Result<Call<'a>, Failure> {
        let uri = uri(endpoint, path)?;
        Ok(Call {
            endpoint,
            agent: agent(&uri),
            uri,
            key: key_header(endpoint)?,
            body: body.to_string().into_bytes(),
            clock,
        })
    }

    fn run<T>(&self, read: &mut Reader<'_, T>) -> Result<(T, u32), CallError> {
        let most = self.endpoint.attempts.max(1);
        let mut back_off = self.endpoint.back_off;
        let mut attempts = 0;
        loop {
            if self.clock.is_over() {
                return Err(self.timeout().after(attempts));
            }
            let result = self.attempt(most - attempts, read);
            attempts += 1;
            let failure = match result {
                Ok(answer) => return Ok((answer, attempts)),
                Err(failure) => failure,
            };
            let pause = failure.wait.unwrap_or_default().max(back_off);
            if !failure.can_pass || attempts == most || pause >= self.clock.left() {
                return Err(failure.after(attempts));
            }
            thread::sleep(pause);
            back_off = back_off.saturating_mul(2);
        }
    }

    /// Sends the request once; `attempts_left` counts this one.
    fn attempt<T>(&self, attempts_left: u32, read: &mut Reader<'_, T>) -> Result<T, Failure> {
        let left = self.clock.left();
        // A connection that is not accepted is tried again while there is time;
        // a slow answer is waited for.
        let to_connect = left / attempts_left;
        let mut request = self
            .agent
            .post(&self.uri)
            .config()
            .timeout_global(Some(left))
            .timeout_resolve(Some(to_connect))
            .timeout_connect(Some(to_connect))
            .build()
            .content_type("application/json");
        if self.endpoint.protocol == Protocol::Anthropic {
            request = request.header("anthropic-version", ANTHROPIC_VERSION);
        }
        if let Some((name, value)) = &self.key {
            request = request.header(*name, value);
        }
        let response = request
            .send(&self.body)
            .map_err(|error| self.broken(error))?;
        if response.status().is_success() {
            read(self, response)
        } else {
            Err(self.refusal(response))
        }
    }

    /// Reads the body of a successful answer.
    fn answer(&self, response: Response<Body>) -> Result<Vec<u8>, Failure> {
        let most = self.endpoint.max_answer_bytes;
        let too_large = || {
            let problem = format!("the answer is larger than {most} bytes");
            Failure::lasting(CallErrorKind::BadAnswer, problem)
        };
        let body = response.into_body();
        if body.content_length().is_some_and(|bytes| bytes > most) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        body.into_reader()
            .take(most.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| self.broken(error.into()))?;
        // A body without a length ends where the connection does, also when it
        // was the watch that ended it.
        if self.clock.is_over() {
            return Err(self.timeout());
        }
        if bytes.len() as u64 > most {
            return Err(too_large());
        }
        Ok(bytes)
    }

    /// Reads a stream of events.
    fn events(
        &self,
        response: Response<Body>,
        event: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), Failure> {
        let most = self.endpoint.max_answer_bytes;
        let mut lines = BufReader::new(response.into_body().into_reader().take(most));
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure {
                    can_pass: false,
                    ..self.broken(error.into())
                })?;
            if self.clock.is_over() {
                return Err(self.timeout());
            }
            if read == 0 {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&line);
            let data = text.strip_prefix("data:").map(str::trim);
            if data.is_some_and(|data| !data.is_empty() && !event(data)) {
                return Ok(());
            }
        }
    }

    /// Reads an error answer.
    fn refusal(&self, response: Response<Body>) -> Failure {
        use CallErrorKind::{Auth, Overflow, RateLimited, Refused};

        let status = response.status().as_u16();
        if response.status().is_redirection() {
            return Failure::lasting(
                Refused { status },
                format!(
                    "{} answers with a redirect ({status}), which is not followed",
                    self.server()
                ),
            );
        }
        let wait = requested_wait(response.headers());
        let mut bytes = Vec::new();
        // The status is decisive: the body is read as far as it arrives.
        let _ = response
            .into_body()
            .into_reader()
            .take(MAX_ERROR_BYTES)
            .read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let server_error = ServerError::of(&json);
        let kind = match status {
            401 | 403 => Auth,
            400 | 413 | 422 if error_kind(status, &text) == ErrorKind::ContextOverflow => Overflow,
            429 | 529 => RateLimited,
            _ => Refused { status },
        };
        let said = self.quote(server_error.message.unwrap_or(&text));
        let mut message = format!("{} answers {status}", self.server());
        if !said.is_empty() {
            message = format!("{message}: {said}");
        }
        Failure {
            kind,
            message,
            // 409 is a lock that was not free in time; the providers' own
            // clients try again too.
            can_pass: matches!(status, 408 | 409 | 429 | 500 | 502 | 503 | 504 | 529)
                && !server_error.is_out_of_credit(),
            wait,
        }
    }

    /// Classifies a failure of the connection.
    fn broken(&self, error: ureq::Error) -> Failure {
        use CallErrorKind::{BadAnswer, Timeout, Unreachable};

        // The watch caused the error, whatever its message.
        if self.clock.is_over() {
            return self.timeout();
        }
        let (kind, can_pass) = match &error {
            ureq::Error::Timeout(_) => (Timeout, true),
            ureq::Error::Io(error) => match error.kind() {
                io::ErrorKind::TimedOut => (Timeout, true),
                kind => (Unreachable, is_passing(kind)),
            },
            ureq::Error::ConnectionFailed => (Unreachable, true),
            ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => (BadAnswer, false),
            _ => (Unreachable, false),
        };
        let what = match kind {
            BadAnswer => "cannot read the answer of",
            _ => "no answer from",
        };
        let why = self.quote(&error.to_string());
        Failure {
            kind,
            message: format!("{what} {}: {why}", self.server()),
            can_pass,
            wait: None,
        }
    }

    fn timeout(&self) -> Failure {
        let message = format!("{} gave no answer in {:?}", self.server(), self.clock.limit);
        Failure::lasting(CallErrorKind::Timeout, message)
    }

    fn server(&self) -> &str {
        self.uri.authority().map_or("server", |host| host.as_str())
    }

    fn quote(&self, text: &str) -> String {
        quote(text, self.endpoint.key())
    }
}

/// Returns true for failures of a connection that a retry can fix.
fn is_passing(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkUnreachable, NotConnected, UnexpectedEof,
    };
    matches!(
        kind,
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkUnreachable
            | NotConnected
            | UnexpectedEof
    )
}

/// Returns the pause that a server requests.
fn requested_wait(headers: &HeaderMap) -> Option<Duration> {
    let number =
        |name: &str| -> Option<u64> { headers.get(name)?.to_str().ok()?.trim().parse().ok() };
    number("retry-after-ms")
        .map(Duration::from_millis)
        .or_else(|| number("retry-after").map(Duration::from_secs))
}

/// Returns the URL of `path` below the versioned root of the API.
fn uri(endpoint: &Endpoint, path: &str) -> Result<Uri, Failure> {
    let unusable = |why: &str| {
        let shown = quote(&public_url(&endpoint.base_url), endpoint.key());
        Failure::lasting(
            CallErrorKind::Unreachable,
            format!("base_url `{shown}` cannot be used: {why}"),
        )
    };
    let base = endpoint.base_url.trim();
    if base.contains(['?', '#']) {
        return Err(unusable("it has a query or a fragment"));
    }
    let base = base.trim_end_matches('/');
    let parsed: Uri = base.parse().map_err(|_| unusable("it is not a URL"))?;
    let known = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&parsed.scheme());
    let Some(authority) = parsed.authority().filter(|_| known) else {
        return Err(unusable("it needs http:// or https:// and a host"));
    };
    if authority.as_str().contains('@') {
        return Err(unusable("it names a user; a key belongs in api_key"));
    }
    let version = match endpoint.protocol {
        Protocol::OpenAi if parsed.path() == "/" => "/v1",
        Protocol::Anthropic if !base.ends_with("/v1") => "/v1",
        _ => "",
    };
    format!("{base}{version}/{}", path.trim_start_matches('/'))
        .parse()
        .map_err(|_| unusable("with the path it is not a URL"))
}

/// Returns the header that carries the key.
fn key_header(endpoint: &Endpoint) -> Result<Option<(&'static str, HeaderValue)>, Failure> {
    let Some(key) = endpoint.key() else {
        return Ok(None);
    };
    if !may_carry_key(&endpoint.base_url) {
        let shown = quote(&public_url(&endpoint.base_url), Some(key));
        return Err(Failure::lasting(
            CallErrorKind::Unreachable,
            format!(
                "base_url `{shown}` cannot be used with a key: the key would be sent in clear \
                 text; use https://, or a server on this machine"
            ),
        ));
    }
    let (name, value) = match endpoint.protocol {
        Protocol::OpenAi => ("authorization", format!("Bearer {key}")),
        Protocol::Anthropic => ("x-api-key", key.to_owned()),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| {
        let why = "the key has characters that a header cannot hold";
        Failure::lasting(CallErrorKind::Auth, why)
    })?;
    // Logs of the layers below then leave it out.
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

/// Returns a client for one call to `uri`.
fn agent(uri: &Uri) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // Zero returns the redirect itself, which is then rejected.
        .max_redirects(0)
        // Each attempt has a connection of its own: one that has just failed
        // is the last that should be used again.
        .max_idle_connections(0)
        .user_agent(concat!("contexture/", env!("CARGO_PKG_VERSION")))
        .accept("application/json");
    // A remote proxy cannot reach a server on this machine.
    let config = if is_loopback(uri) {
        config.proxy(None)
    } else {
        config
    };
    config.build().new_agent()
}

fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    endpoint::is_loopback(host.trim_start_matches('[').trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(protocol: Protocol, base_url: &str) -> Endpoint {
        Endpoint {
            protocol,
            base_url: base_url.into(),
            model: "m".into(),
            api_key: Some(" sk-secret\n".into()),
            deadline: Duration::from_secs(1),
            attempts: 1,
            back_off: Duration::ZERO,
            max_answer_bytes: 1,
        }
    }

    #[test]
    fn the_version_is_added_to_the_url_once() {
        use Protocol::{Anthropic, OpenAi};
        for (protocol, base, expected) in [
            (OpenAi, "https://a.b", "https://a.b/v1/x"),
            (OpenAi, "https://a.b/", "https://a.b/v1/x"),
            (OpenAi, "https://a.b/v1", "https://a.b/v1/x"),
            (OpenAi, "https://a.b/v1//", "https://a.b/v1/x"),
            (OpenAi, "https://a.b/api/v4", "https://a.b/api/v4/x"),
            (OpenAi, " http://[::1]:80 ", "http://[::1]:80/v1/x"),
            (Anthropic, "https://a.b", "https://a.b/v1/x"),
            (Anthropic, "https://a.b/v1/", "https://a.b/v1/x"),
            (
                Anthropic,
                "https://a.b/anthropic",
                "https://a.b/anthropic/v1/x",
            ),
        ] {
            for path in ["x", "/x"] {
                let uri = uri(&endpoint(protocol, base), path);
                assert_eq!(uri.ok().unwrap().to_string(), expected, "{base}");
            }
        }
    }

    #[test]
    fn a_server_on_this_machine_needs_no_proxy() {
        for (uri, expected) in [
            ("http://localhost:1/", true),
            ("http://127.0.0.2/", true),
            ("http://[::1]:1/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&uri.parse().unwrap()), expected, "{uri}");
        }
    }

    #[test]
    fn debug_output_does_not_contain_the_key() {
        for protocol in [Protocol::OpenAi, Protocol::Anthropic] {
            let header = key_header(&endpoint(protocol, "https://api.example.com"))
                .ok()
                .unwrap()
                .unwrap();
            assert!(header.1.to_str().unwrap().ends_with("sk-secret"));
            assert!(!format!("{header:?}").contains("secret"));
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_milliseconds() {
        for (name, value, expected) in [
            ("retry-after", "3", Some(3000)),
            ("retry-after-ms", "20", Some(20)),
            (
                "retry-after",
                "18446744073709551615",
                Some(u128::from(u64::MAX) * 1000),
            ),
            ("retry-after", "-1", None),
            ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(requested_wait(&headers).map(|d| d.as_millis()), expected);
        }
    }
}
