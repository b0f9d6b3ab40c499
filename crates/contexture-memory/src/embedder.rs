//! Chooses the embedders: built-in models, a folder, or an HTTP endpoint.

use std::path::Path;
use std::sync::Arc;

use contexture_encoder::Encoder;
use contexture_recall::{Embedder, StaticModel};

use crate::config::EmbedderConfig;
use crate::error::Error;

/// The embedder that computes vectors while recording, and the one that
/// computes better vectors afterwards.
#[derive(Clone)]
pub(crate) struct Embedders {
    pub(crate) first: Arc<dyn Embedder>,
    pub(crate) later: Option<Arc<dyn Embedder>>,
}

impl Embedders {
    pub(crate) fn one(first: Arc<dyn Embedder>) -> Self {
        Self { first, later: None }
    }

    /// Transformers are too slow for recording, so static vectors come first.
    fn after_static(later: Arc<dyn Embedder>) -> Self {
        Self {
            first: StaticModel::built_in(),
            later: Some(later),
        }
    }
}

/// Returns the configured embedders. The folder of a model is relative to
/// `base`. If the address of an endpoint `is_private`, no error contains it.
pub(crate) fn configured(
    base: &Path,
    config: &EmbedderConfig,
    is_private: bool,
) -> Result<Embedders, Error> {
    match (&config.base_url, config.model.as_deref()) {
        (Some(url), Some(model)) => Ok(Embedders::one(endpoint(url, model, config, is_private)?)),
        (Some(_), None) => Err(
            Error::input("[memory.embedder] has a base_url but no model")
                .advise("set model to the model that the endpoint serves"),
        ),
        (None, None | Some("encoder")) => Ok(Embedders::after_static(Encoder::built_in())),
        (None, Some("static")) => Ok(Embedders::one(StaticModel::built_in())),
        (None, Some(folder)) => {
            let folder = base.join(folder);
            let failed = |error| {
                Error::input(format!("[memory.embedder] model: {error}")).advise(
                    "set model to \"encoder\", \"static\" or the folder of a BERT-type or \
                     Model2Vec model, or set base_url as well",
                )
            };
            if contexture_encoder::is_encoder(&folder) {
                let encoder = Encoder::load(&folder).map_err(failed)?;
                return Ok(Embedders::after_static(Arc::new(encoder)));
            }
            let model = StaticModel::load(&folder).map_err(failed)?;
            Ok(Embedders::one(Arc::new(model)))
        }
    }
}

/// Returns a vector with length 1. A zero vector is unchanged.
pub(crate) fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

#[cfg(not(feature = "http"))]
fn endpoint(_: &str, _: &str, _: &EmbedderConfig, _: bool) -> Result<Arc<dyn Embedder>, Error> {
    Err(Error::input(
        "[memory.embedder] base_url: an embedder over HTTP needs the feature `http`, which is \
         not enabled in this build",
    ))
}

#[cfg(feature = "http")]
fn endpoint(
    url: &str,
    model: &str,
    config: &EmbedderConfig,
    is_private: bool,
) -> Result<Arc<dyn Embedder>, Error> {
    use contexture_providers::client::EmbeddingsApi;

    let api_key = match &config.api_key_env {
        None => None,
        Some(name) => Some(std::env::var(name).map_err(|_| {
            Error::input(format!(
                "the embedder has no API key: the environment variable {name} is not set"
            ))
        })?),
    };
    let Some(dimensions) = config.dimensions else {
        return Err(
            Error::input("[memory.embedder] has a base_url but no dimensions")
                .advise("set the length of the model's vectors, such as `dimensions = 1536`"),
        );
    };
    let api = EmbeddingsApi {
        api_key,
        deadline: std::time::Duration::from_millis(config.deadline_ms),
        ..EmbeddingsApi::new(url, model)
    };
    Ok(Arc::new(http::Endpoint {
        name: model.to_owned(),
        place: http::without_secrets(url).to_owned(),
        dimensions: dimensions as usize,
        deadline_ms: config.deadline_ms,
        private: is_private.then(|| http::names_of(url)),
        api,
    }))
}

#[cfg(feature = "http")]
mod http {
    use contexture_providers::client::{CallError, CallErrorKind, EmbeddingsApi};
    use contexture_recall::embed::check;
    use contexture_recall::{EmbedError, Embedder};
    use contexture_store::{Call, ModelCall};

    /// An embedder at a URL.
    pub(crate) struct Endpoint {
        pub(crate) name: String,
        pub(crate) place: String,
        pub(crate) dimensions: usize,
        pub(crate) deadline_ms: u64,
        /// The texts that errors must not contain, the longest first. `None` if errors
        /// can name the address.
        pub(crate) private: Option<Vec<String>>,
        pub(crate) api: EmbeddingsApi,
    }

    impl Embedder for Endpoint {
        fn name(&self) -> &str {
            &self.name
        }

        fn dimensions(&self) -> usize {
            self.dimensions
        }

        fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            let vectors = Call::wait_for_model(ModelCall::Embedding, || self.api.embed(texts));
            let vectors = vectors.map_err(|error| self.told(error))?;
            check(&vectors, texts.len(), self.dimensions)?;
            Ok(vectors.into_iter().map(super::unit).collect())
        }
    }

    impl Endpoint {
        fn told(&self, error: CallError) -> EmbedError {
            let refused = |status| EmbedError::Refused {
                status,
                message: self.shown(error.message()),
            };
            match error.kind {
                CallErrorKind::Timeout => EmbedError::Timeout {
                    place: self.shown(&self.place),
                    after_ms: self.deadline_ms,
                },
                CallErrorKind::Unreachable => EmbedError::Unreachable {
                    place: self.shown(&self.place),
                    source: match self.private {
                        Some(_) => self.shown(&error.to_string()).into(),
                        None => Box::new(error),
                    },
                },
                CallErrorKind::RateLimited => refused(429),
                CallErrorKind::Auth => refused(401),
                CallErrorKind::Overflow => refused(413),
                CallErrorKind::Refused { status } => refused(status),
                CallErrorKind::BadAnswer => EmbedError::BadAnswer {
                    message: self.shown(&error.to_string()),
                },
            }
        }

        /// Returns a text without the address of the endpoint, if that is private.
        fn shown(&self, text: &str) -> String {
            let private = self.private.iter().flatten();
            private.fold(text.to_owned(), |text, name| {
                text.replace(name.as_str(), "the embedder")
            })
        }
    }

    /// Returns the address of an endpoint as errors can name it, the longest first: its
    /// URL, its host with its port, and its host.
    pub(crate) fn names_of(url: &str) -> Vec<String> {
        let place = without_secrets(url);
        let host = place.split_once("://").map_or(place, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or(host);
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let bare = host.rsplit_once(':').filter(|(_, port)| is_port(port));
        let bare = bare.map_or(host, |(bare, _)| bare);
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = authority.split(['/', '?', '#']).next().unwrap_or(authority);
        [url, place, authority, host, bare]
            .into_iter()
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Returns an address without parts that may be secret.
    pub(crate) fn without_secrets(url: &str) -> &str {
        let url = url.split(['?', '#']).next().unwrap_or(url);
        match (url.split_once("://"), url.rsplit_once('@')) {
            (Some(_), Some((_, host))) => host,
            _ => url,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn errors_of_a_private_endpoint_do_not_name_it() {
            let url = "http://user:secret@10.0.0.7:14680/v1";
            let endpoint = |is_private: bool| Endpoint {
                name: "m".to_owned(),
                place: without_secrets(url).to_owned(),
                dimensions: 3,
                deadline_ms: 5,
                private: is_private.then(|| names_of(url)),
                api: EmbeddingsApi::new(url, "m"),
            };
            for text in [
                "cannot read the answer of user:secret@10.0.0.7:14680: no JSON",
                "no answer from 10.0.0.7:14680: refused",
                "cannot find 10.0.0.7",
                url,
                without_secrets(url),
            ] {
                let shown = endpoint(true).shown(text);
                assert!(shown.contains("the embedder"), "{shown}");
                for private in ["10.0.0.7", "14680", "secret"] {
                    assert!(!shown.contains(private), "{shown}");
                }
                assert_eq!(endpoint(false).shown(text), text);
            }
        }
    }
}
