//! A client for embedding APIs that are compatible with OpenAI's.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::post::{self, Clock, Received};
use super::wire::ServerError;
use super::{CallError, Endpoint, Protocol, error};

/// The default deadline of a call.
const DEADLINE: Duration = Duration::from_secs(10);

/// The default maximum number of texts of a request.
const BATCH: usize = 128;

/// The maximum bytes of a request's texts.
///
/// OpenAI accepts 300,000 tokens per request, and no token is shorter than a
/// byte.
const BATCH_BYTES: usize = 256 * 1024;

/// The number of times that a request is sent: once, and twice more if that can
/// help.
const ATTEMPTS: u32 = 3;

/// The pause after the first failure.
const BACK_OFF: Duration = Duration::from_millis(250);

/// The maximum bytes of a vector: 16,384 numbers, written with all digits.
const VECTOR_BYTES: u64 = 512 * 1024;

/// The maximum bytes of an answer besides its vectors, and of one without
/// vectors.
const FRAME_BYTES: u64 = 64 * 1024;

/// A model that turns texts into vectors, behind a URL that speaks OpenAI's
/// embeddings.
///
/// ```no_run
/// use contexture_providers::client::EmbeddingsApi;
///
/// let api = EmbeddingsApi {
///     dimensions: Some(256),
///     ..EmbeddingsApi::new("http://localhost:11434", "embeddinggemma")
/// };
/// let vectors = api.embed(&["What is the capital of Peru?", "Lima"])?;
/// assert_eq!((vectors.len(), vectors[0].len()), (2, 256));
/// # Ok::<(), contexture_providers::client::CallError>(())
/// ```
#[derive(Clone)]
pub struct EmbeddingsApi {
    /// The address of the server, by the rules of [`Endpoint::base_url`] for
    /// [`Protocol::OpenAi`]; `embeddings` is added to it.
    pub base_url: String,
    /// The model's name on the server.
    pub model: String,
    /// The key, as in [`Endpoint::api_key`].
    pub api_key: Option<String>,
    /// The requested length of vectors; not every model supports it. `None`
    /// leaves it to the server.
    pub dimensions: Option<u32>,
    /// The maximum duration of a call, with all its requests, attempts and
    /// pauses. More than a day counts as a day.
    pub deadline: Duration,
    /// The maximum number of texts of one request; zero counts as one.
    pub batch: usize,
}

/// Shows everything but the key, and the URL without what could be a secret.
impl fmt::Debug for EmbeddingsApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingsApi")
            .field("base_url", &error::public_url(&self.base_url))
            .field("model", &self.model)
            .field("api_key", &self.api_key.as_ref().map(|_| error::MASK))
            .field("dimensions", &self.dimensions)
            .field("deadline", &self.deadline)
            .field("batch", &self.batch)
            .finish()
    }
}

/// The parts of an answer that are read; usage and names are not.
#[derive(Deserialize)]
struct Answer {
    data: Option<Vec<Row>>,
}

#[derive(Deserialize)]
struct Row {
    index: usize,
    embedding: Vec<f32>,
}

impl EmbeddingsApi {
    /// Returns an API without a key, with a deadline of ten seconds per call
    /// and at most 128 texts per request.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> EmbeddingsApi {
        EmbeddingsApi {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            dimensions: None,
            deadline: DEADLINE,
            batch: BATCH,
        }
    }

    /// Returns the vectors of `texts`, in their order.
    ///
    /// All vectors have the same length, which is not zero and equals
    /// `dimensions` if that is set; all numbers are finite. They are not
    /// normalised: some servers do it, and some do not.
    ///
    /// Without texts, no call is made. Many texts are sent in several requests,
    /// one after the other: at most [`batch`](EmbeddingsApi::batch) texts and
    /// 256 KiB each; a longer text is sent alone. The call returns all vectors
    /// or an error, which is that of the failed request, with its attempts. A
    /// request is sent up to three times, as by [`Endpoint`].
    ///
    /// Texts are sent unchanged. Servers may reject an empty text, and reject
    /// or cut one that is longer than the model accepts.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, CallError> {
        let clock = Clock::start(self.deadline);
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        let mut rest = texts;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.batch_len(rest));
            let endpoint = self.endpoint(batch.len());
            let received = post::post(&endpoint, "embeddings", &self.request(batch), clock)?;
            let bad = |problem: String| endpoint.bad_answer(&problem, received.attempts);
            let answer: Answer = endpoint.json(&received)?;
            let rows = answer.data.ok_or_else(|| bad(without_data(&received)))?;
            let new = in_order(rows, batch.len()).map_err(bad)?;
            // The first request sets the length for all: a server that changes
            // its model between two of them must not go unnoticed.
            let length = vectors.first().or(new.first()).map_or(0, Vec::len);
            self.check(&new, length).map_err(bad)?;
            vectors.extend(new);
            rest = later;
        }
        Ok(vectors)
    }

    /// Returns the number of `texts`, which are not empty, that fit in one
    /// request.
    fn batch_len(&self, texts: &[&str]) -> usize {
        let mut bytes = 0;
        let fitting = texts.iter().take(self.batch).take_while(|text| {
            bytes += text.len();
            bytes <= BATCH_BYTES
        });
        fitting.count().max(1)
    }

    fn request(&self, batch: &[&str]) -> Value {
        let mut body = json!({
            "model": self.model,
            "input": batch,
            "encoding_format": "float",
        });
        if let Some(dimensions) = self.dimensions {
            body["dimensions"] = dimensions.into();
        }
        body
    }

    /// Returns the endpoint for a request with `texts` texts.
    fn endpoint(&self, texts: usize) -> Endpoint {
        Endpoint {
            protocol: Protocol::OpenAi,
            base_url: self.base_url.clone(),
            model: self.model.clone(),
            api_key: self.api_key.clone(),
            deadline: self.deadline,
            attempts: ATTEMPTS,
            back_off: BACK_OFF,
            max_answer_bytes: FRAME_BYTES + VECTOR_BYTES.saturating_mul(texts as u64),
        }
    }

    /// Fails with the reason if `vectors` are invalid. Each should have
    /// `length` numbers.
    fn check(&self, vectors: &[Vec<f32>], length: usize) -> Result<(), String> {
        if length == 0 {
            return Err("the answer has a vector without numbers".into());
        }
        if let Some(asked) = self.dimensions.filter(|&asked| asked as usize != length) {
            return Err(format!(
                "the answer has vectors of {length} numbers, where {asked} were asked for"
            ));
        }
        if let Some(other) = vectors.iter().find(|vector| vector.len() != length) {
            return Err(format!(
                "vectors have different lengths: {length} and {} numbers",
                other.len()
            ));
        }
        // JSON cannot write it, but a number can be too large for an `f32`.
        if vectors.iter().flatten().any(|number| !number.is_finite()) {
            return Err("the answer has a number that is not finite".into());
        }
        Ok(())
    }
}

/// Returns the vector of each of `texts` texts by the index that it was given:
/// the protocol does not promise that they come in order.
fn in_order(rows: Vec<Row>, texts: usize) -> Result<Vec<Vec<f32>>, String> {
    if rows.len() != texts {
        return Err(format!(
            "the answer has {} vectors for {texts} texts",
            rows.len()
        ));
    }
    let mut found = vec![None; texts];
    for row in rows {
        let index = row.index;
        let place = found.get_mut(index).ok_or_else(|| {
            format!("the answer has a vector with the index {index} for {texts} texts")
        })?;
        if place.replace(row.embedding).is_some() {
            return Err(format!("the answer has two vectors with the index {index}"));
        }
    }
    // As many vectors as texts, and no index twice: none is missing.
    Ok(found.into_iter().flatten().collect())
}

/// Returns the reason why an answer has no data: some servers report an error
/// with a status of success.
fn without_data(received: &Received) -> String {
    let small = received.body.len() as u64 <= FRAME_BYTES;
    let body = Some(&received.body).filter(|_| small);
    let json = body.and_then(|body| serde_json::from_slice(body).ok());
    match ServerError::of(&json.unwrap_or(Value::Null)).message {
        Some(said) => format!("the answer has no vectors: {said}"),
        None => "the answer has no vectors".into(),
    }
}
