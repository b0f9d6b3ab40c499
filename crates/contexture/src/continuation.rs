//! Continues a tree with a model: samples become nodes while they are written.
//!
//! One request is assembled for the node and sent as often as there are
//! samples, each in a thread. A complete sample is added as a node. A failed
//! sample does not affect the others.

use std::sync::{Mutex, PoisonError};

use contexture_core::message::MessageContent;
use contexture_engine::config::{LoomModel, ModelApi};
use contexture_engine::{Advice, Error, Request, Root, snapshot};
use contexture_loom::{NewNode, raw_response};
use contexture_providers::Format;
use contexture_store::{Author, EdgeKind, NodeHead};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::Engine;

/// The most samples of one call.
pub const MAX_SAMPLES: usize = 16;

/// An event during the continuation of a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SampleEvent {
    /// A part of the text of a sample.
    Text {
        /// The number of the sample, from 0.
        sample: usize,
        /// The text that comes next.
        text: String,
    },
    /// A sample is complete and is a node now.
    Node {
        /// The number of the sample, from 0.
        sample: usize,
        /// The node.
        node: NodeHead,
        /// The reason why the model stopped, in the provider's words, such as
        /// `stop`, `length` or `max_tokens`. Null if it was not reported.
        stop_reason: Option<String>,
    },
    /// A sample has failed. The others continue.
    Failed {
        /// The number of the sample, from 0.
        sample: usize,
        /// The reason.
        message: String,
    },
}

/// The format of a request and the path that it is sent to.
fn form(api: ModelApi, is_document: bool) -> (Format, &'static str) {
    match (api, is_document) {
        (ModelApi::Anthropic, _) => (Format::Anthropic, "messages"),
        (_, true) => (Format::OpenAiCompletions, "completions"),
        (_, false) => (Format::OpenAiChat, "chat/completions"),
    }
}

/// The name of the provider whose API is called.
fn provider(api: ModelApi) -> &'static str {
    match api {
        ModelApi::Anthropic => "anthropic",
        _ => "openai",
    }
}

/// The answer of a model.
struct Answer {
    text: String,
    stop_reason: Option<String>,
    // The provider's response.
    body: Value,
}

impl Engine {
    /// Asks the configured model for `samples` continuations of a node in a
    /// tree, and adds each as a node. `request` names the tree and, optionally,
    /// `head`, `path` and `agent`.
    ///
    /// `tell` receives the texts while they are written, from several threads.
    /// It returns false to end the call; an incomplete sample is then not
    /// added. A node keeps the provider's response with its usage. Returns the
    /// new nodes. A failed sample is passed to `tell`. The
    /// call fails if no model is configured, or if no request can be made for
    /// the node.
    pub fn continue_tree(
        &self,
        root: &Root,
        request: &Request,
        samples: usize,
        now: Option<Timestamp>,
        tell: &(dyn Fn(SampleEvent) -> bool + Sync),
    ) -> Result<Vec<NodeHead>, Error> {
        let settings = &self.config().loom.model;
        if settings.kind == ModelApi::None {
            return Err(Error::input("no model is configured to continue trees")
                .advise(Advice::configure("loom.model")));
        }
        if !(1..=MAX_SAMPLES).contains(&samples) {
            let message = format!("must be from 1 to {MAX_SAMPLES}");
            return Err(Error::input(message).at("samples"));
        }
        let tree = request.tree.clone();
        let tree = tree.ok_or_else(|| Error::input("is missing").at("tree"))?;
        let mut request = request.clone();
        request.model.clone_from(&settings.model);
        let assembled = self.assemble(root, &request)?;
        let (format, path) = form(settings.kind, assembled.layout.is_document());
        let body = assembled.render_compact(format);
        let body = body.map_err(|refused| Error::input(refused.to_string()))?;
        let body: Value = serde_json::from_str(&body)
            .map_err(|error| Error::failure("the request is not JSON", error))?;
        let head = self.tree_path(&request)?.pop();
        let new = NewNode {
            id: None,
            author: Author::Model,
            agent: request.agent.clone(),
            content: MessageContent::Text(String::new()),
            after: head.into_iter().map(|head| head.id).collect(),
            kind: EdgeKind::Continuation,
            material: Vec::new(),
            raw_response: None,
        };
        // The request may still be in the queue of the store.
        let is_saved = |hash: &String| {
            let store = self.snapshots();
            store.is_ok_and(|store| snapshot::find(store, hash).is_ok())
        };
        let snapshot = assembled.snapshot.clone().filter(is_saved);
        let added = Mutex::new(Vec::new());
        let sample = |sample: usize| {
            let mut goes_on = true;
            let mut pass = |text: &str| {
                let text = text.to_owned();
                goes_on = tell(SampleEvent::Text { sample, text });
                goes_on
            };
            let answer = call(settings, path, body.clone(), &mut pass);
            if !goes_on {
                return;
            }
            let done = answer.and_then(|answer| {
                let mut added = added.lock().unwrap_or_else(PoisonError::into_inner);
                let mut response = raw_response(answer.body, snapshot.clone());
                response.model = response.model.or_else(|| settings.model.clone());
                response.provider = Some(provider(settings.kind).to_owned());
                let new = NewNode {
                    content: MessageContent::Text(answer.text),
                    raw_response: Some(response),
                    ..new.clone()
                };
                let node = self.add_node(&tree, &new, now)?;
                added.push(node.clone());
                Ok((node, answer.stop_reason))
            });
            tell(match done {
                Ok((node, stop_reason)) => SampleEvent::Node {
                    sample,
                    node,
                    stop_reason,
                },
                Err(error) => SampleEvent::Failed {
                    sample,
                    message: error.to_string(),
                },
            });
        };
        std::thread::scope(|scope| {
            for number in 1..samples {
                let sample = &sample;
                scope.spawn(move || sample(number));
            }
            sample(0);
        });
        Ok(added.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(feature = "http")]
fn call(
    settings: &LoomModel,
    path: &str,
    body: Value,
    text: &mut dyn FnMut(&str) -> bool,
) -> Result<Answer, Error> {
    use std::time::Duration;

    use contexture_providers::client::{Endpoint, Protocol};

    let api_key = match &settings.api_key_env {
        None => None,
        Some(name) => Some(std::env::var(name).map_err(|_| {
            Error::input(format!("the environment variable {name} is not set"))
                .advise(Advice::configure("loom.model"))
        })?),
    };
    let endpoint = Endpoint {
        protocol: match settings.kind {
            ModelApi::Anthropic => Protocol::Anthropic,
            _ => Protocol::OpenAi,
        },
        base_url: settings.address().unwrap_or_default(),
        model: settings.model.clone().unwrap_or_default(),
        api_key,
        deadline: Duration::from_millis(settings.deadline_ms),
        attempts: settings.attempts,
        back_off: Duration::from_millis(500),
        max_answer_bytes: 64 << 20,
    };
    let answer = endpoint.continue_with(path, body, text);
    let answer = answer.map_err(|error| Error::failure(error.to_string(), error))?;
    let (completion, body) = answer;
    Ok(Answer {
        text: completion.text,
        stop_reason: completion.stop_reason,
        body,
    })
}

#[cfg(not(feature = "http"))]
fn call(
    _: &LoomModel,
    _: &str,
    _: Value,
    _: &mut dyn FnMut(&str) -> bool,
) -> Result<Answer, Error> {
    Err(Error::input(
        "this build cannot call a model: it has no feature `http`",
    ))
}
