//! OpenTelemetry traces: one span per request, and one per call of a model.
//!
//! Spans go to a collector as JSON over HTTP (OTLP). A thread sends them in
//! batches; a request only puts its span into a queue. When the queue is full,
//! because the collector is slow or gone, spans are dropped and counted. Without
//! an endpoint in the settings nothing is recorded.
//!
//! Spans have routes, statuses, models and numbers of tokens, by the names of
//! OpenTelemetry's conventions for generative AI. They have no content, no paths
//! and no names of sessions.

use std::cell::RefCell;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use contexture::Assembled;
use contexture::store::ModelCall;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};

/// The most spans that wait to be sent.
const MOST_WAITING: usize = 4096;

/// The most spans in one request to the collector.
const MOST_IN_BATCH: usize = 512;

/// How long spans wait for others to be sent with.
const BATCH_INTERVAL: Duration = Duration::from_secs(2);

/// How long the collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a stopping server waits until the last spans are sent.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// The kinds of spans in OTLP.
const SERVER: u8 = 2;
const CLIENT: u8 = 3;

/// The status of a span with an error in OTLP.
const ERROR: u8 = 2;

/// Sends spans to a collector, if the settings name one.
#[derive(Default)]
pub(crate) struct Traces {
    queue: Option<SyncSender<Message>>,
    dropped: Counter,
}

enum Message {
    Span(Box<Span>),
    /// Everything before it is to be sent, and then this answered.
    Flush(SyncSender<()>),
}

/// A finished span.
struct Span {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    name: String,
    kind: u8,
    begin: SystemTime,
    end: SystemTime,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

/// The span of a request that is in progress.
#[derive(Clone)]
pub(crate) struct ActiveSpan(Arc<Active>);

struct Active {
    queue: SyncSender<Message>,
    dropped: Counter,
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    begin: SystemTime,
    attributes: Mutex<Vec<(&'static str, Value)>>,
}

tokio::task_local! {
    /// The span of the request that this task answers.
    pub(crate) static REQUEST: Option<ActiveSpan>;
}

thread_local! {
    static IN_THREAD: RefCell<Option<ActiveSpan>> = const { RefCell::new(None) };
}

/// Returns the span of the request that this task answers.
pub(crate) fn current() -> Option<ActiveSpan> {
    REQUEST.try_with(Clone::clone).ok().flatten()
}

/// Runs work of a request in this thread.
pub(crate) fn in_thread<T>(span: Option<ActiveSpan>, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<ActiveSpan>);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_THREAD.set(self.0.take());
        }
    }
    let _restore = Restore(IN_THREAD.replace(span));
    work()
}

/// Adds an assembled request to the span of the thread's request.
pub(crate) fn note_assembled(assembled: &Assembled) {
    note(|attributes| {
        attributes.extend([
            ("gen_ai.operation.name", json!("chat")),
            (
                "gen_ai.provider.name",
                json!(assembled.model.provider.name()),
            ),
            ("gen_ai.request.model", json!(assembled.model.name)),
            ("contexture.tokens", json!(assembled.report.budget.used)),
        ]);
        for (stage, ms) in &assembled.report.timings_ms {
            let name = match stage.to_string().as_str() {
                "resolve" => "contexture.stage.resolve_ms",
                "gather" => "contexture.stage.gather_ms",
                "read_and_count" => "contexture.stage.read_and_count_ms",
                "fit" => "contexture.stage.fit_ms",
                "revise" => "contexture.stage.revise_ms",
                "account" => "contexture.stage.account_ms",
                _ => continue,
            };
            attributes.push((name, json!(ms)));
        }
    });
}

/// Adds the usage that a provider reported to the span of the thread's request.
pub(crate) fn note_usage(input: u64, output: u64) {
    note(|attributes| {
        attributes.extend([
            ("gen_ai.usage.input_tokens", json!(input)),
            ("gen_ai.usage.output_tokens", json!(output)),
        ]);
    });
}

fn note(add: impl FnOnce(&mut Vec<(&'static str, Value)>)) {
    IN_THREAD.with_borrow(|span| {
        if let Some(span) = span {
            let attributes = span.0.attributes.lock();
            add(&mut attributes.unwrap_or_else(PoisonError::into_inner));
        }
    });
}

impl Traces {
    /// Starts the thread that sends spans, if there is an endpoint.
    pub(crate) fn start(endpoint: &str, dropped: Counter) -> Self {
        if endpoint.is_empty() {
            return Self::default();
        }
        let (queue, waiting) = mpsc::sync_channel(MOST_WAITING);
        let sender = Sender {
            endpoint: endpoint.to_owned(),
            agent: ureq::Agent::config_builder()
                .timeout_global(Some(PATIENCE))
                .build()
                .into(),
            dropped: dropped.clone(),
        };
        let started = std::thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || sender.run(&waiting));
        // Without a thread there are no traces, and everything else works.
        let queue = started.is_ok().then_some(queue);
        Self { queue, dropped }
    }

    /// Begins the span of a request. Returns `None` if traces are off, or if
    /// the caller marks this one as not sampled.
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Option<ActiveSpan> {
        let queue = self.queue.clone()?;
        let context = headers.get("traceparent").and_then(|it| it.to_str().ok());
        let (trace, parent) = match context.and_then(parse_traceparent) {
            Some(context) if !context.sampled => return None,
            Some(context) => (context.trace, Some(context.parent)),
            None => (random(), None),
        };
        Some(ActiveSpan(Arc::new(Active {
            queue,
            dropped: self.dropped.clone(),
            trace,
            id: random(),
            parent,
            begin: SystemTime::now(),
            attributes: Mutex::default(),
        })))
    }

    /// Waits a short time until all spans are sent.
    pub(crate) async fn flush(&self) {
        let Some(queue) = self.queue.clone() else {
            return;
        };
        let flushed = tokio::task::spawn_blocking(move || {
            let (done, wait) = mpsc::sync_channel(1);
            if queue.try_send(Message::Flush(done)).is_ok() {
                let _ = wait.recv_timeout(LAST_PATIENCE);
            }
        });
        let _ = flushed.await;
    }
}

impl ActiveSpan {
    /// Ends the span of a request.
    pub(crate) fn end(
        &self,
        method: &str,
        route: &str,
        status: u16,
        tenant: Option<&str>,
        code: Option<&str>,
    ) {
        let attributes = self.0.attributes.lock();
        let mut attributes =
            std::mem::take(&mut *attributes.unwrap_or_else(PoisonError::into_inner));
        attributes.extend([
            ("http.request.method", json!(method)),
            ("http.route", json!(route)),
            ("http.response.status_code", json!(status)),
        ]);
        attributes.extend(tenant.map(|tenant| ("contexture.tenant", json!(tenant))));
        attributes.extend(code.map(|code| ("error.type", json!(code))));
        self.send(Span {
            trace: self.0.trace,
            id: self.0.id,
            parent: self.0.parent,
            name: format!("{method} {route}"),
            kind: SERVER,
            begin: self.0.begin,
            end: SystemTime::now(),
            attributes,
            failed: status >= 500,
        });
    }

    /// Adds a call of a model that has just ended.
    pub(crate) fn model_call(&self, model: ModelCall, time: Duration) {
        let operation = match model {
            ModelCall::Summary => "chat",
            ModelCall::Embedding => "embeddings",
        };
        let end = SystemTime::now();
        self.send(Span {
            trace: self.0.trace,
            id: random(),
            parent: Some(self.0.id),
            name: operation.to_owned(),
            kind: CLIENT,
            begin: end.checked_sub(time).unwrap_or(end),
            end,
            attributes: vec![("gen_ai.operation.name", json!(operation))],
            failed: false,
        });
    }

    fn send(&self, span: Span) {
        if self
            .0
            .queue
            .try_send(Message::Span(Box::new(span)))
            .is_err()
        {
            self.0.dropped.inc();
        }
    }
}

/// The thread that sends spans.
struct Sender {
    endpoint: String,
    agent: ureq::Agent,
    dropped: Counter,
}

impl Sender {
    fn run(&self, waiting: &Receiver<Message>) {
        let mut batch: Vec<Span> = Vec::new();
        loop {
            let message = match batch.is_empty() {
                true => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => waiting.recv_timeout(BATCH_INTERVAL),
            };
            match message {
                Ok(Message::Span(span)) => {
                    batch.push(*span);
                    if batch.len() >= MOST_IN_BATCH {
                        self.send(&mut batch);
                    }
                }
                Ok(Message::Flush(done)) => {
                    self.send(&mut batch);
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.send(&mut batch),
                Err(RecvTimeoutError::Disconnected) => return self.send(&mut batch),
            }
        }
    }

    fn send(&self, batch: &mut Vec<Span>) {
        let spans = std::mem::take(batch);
        if spans.is_empty() {
            return;
        }
        let body = request(&spans).to_string();
        let sent = self
            .agent
            .post(&self.endpoint)
            .content_type("application/json")
            .send(&body);
        if let Err(error) = sent {
            self.dropped.inc_by(spans.len() as u64);
            tracing::debug!(%error, "traces were not sent");
        }
    }
}

/// Returns the body of a request to a collector.
fn request(spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<Value> = spans.iter().map(Span::to_json).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", &json!("contexture")),
            attribute("service.version", &json!(version)),
        ]},
        "scopeSpans": [{
            "scope": {"name": "contexture-server", "version": version},
            "spans": spans,
        }],
    }]})
}

impl Span {
    fn to_json(&self) -> Value {
        let attributes: Vec<Value> = (self.attributes.iter())
            .map(|(name, value)| attribute(name, value))
            .collect();
        let mut span = json!({
            "traceId": hex(&self.trace),
            "spanId": hex(&self.id),
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": nanoseconds(self.begin),
            "endTimeUnixNano": nanoseconds(self.end),
            "attributes": attributes,
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = json!(hex(parent));
        }
        if self.failed {
            span["status"] = json!({"code": ERROR});
        }
        span
    }
}

/// Returns an attribute in the JSON form of OTLP, in which 64-bit integers are
/// texts.
fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(value) => json!({"boolValue": value}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}

fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The trace that a caller's request belongs to.
struct Context {
    trace: [u8; 16],
    parent: [u8; 8],
    sampled: bool,
}

/// Reads a `traceparent` of the W3C. `None` for one that is not valid.
fn parse_traceparent(text: &str) -> Option<Context> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let version = unhex::<1>(version)?[0];
    // Later versions can have more parts.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let context = Context {
        trace: unhex(trace)?,
        parent: unhex(parent)?,
        sampled: unhex::<1>(flags)?[0] & 1 == 1,
    };
    (context.trace != [0; 16] && context.parent != [0; 8]).then_some(context)
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without random numbers, spans of different requests cannot be
    // distinguished. That is no reason to reject a request.
    let _ = getrandom::fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read() {
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = parse_traceparent(valid).unwrap();
        assert_eq!(hex(&context.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(hex(&context.parent), "00f067aa0ba902b7");
        assert!(context.sampled);
        let more = format!("{}-more", valid.replacen("00", "01", 1));
        assert!(parse_traceparent(&more).is_some());
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e47é-00f067aa0ba902b7-01",
        ] {
            assert!(parse_traceparent(wrong).is_none(), "{wrong}");
        }
    }
}
