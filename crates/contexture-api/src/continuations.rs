//! Continues a tree with the configured model, as a stream of NDJSON.
//!
//! The texts are sent while the model writes them. A client that disconnects
//! ends the call; samples that are not complete then are not added.

use contexture::{MAX_SAMPLES, Request, SampleEvent};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::operation::{Api, Nothing, Operation, ResponseBody};

/// The tree in the path of the call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct InTree {
    /// The id of the tree.
    pub tree: String,
}

/// Where and how a tree is continued.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ContinueRequest")]
#[serde(default, deny_unknown_fields)]
pub struct ContinueBody {
    /// The node to continue, by id or short name. Default: the end of the saved
    /// path, otherwise the agent's position, otherwise the only leaf.
    head: Option<String>,
    /// The name of a saved path to follow. Default: none.
    path: Option<String>,
    /// The id of the agent that writes. Default: none.
    agent: Option<String>,
    /// The number of samples, from 1 to 16. Each becomes a node. Default: 1.
    #[schemars(range(min = 1, max = MAX_SAMPLES))]
    samples: Option<usize>,
    /// The maximum number of tokens of the request and the response together.
    /// Default: the window of the model.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
}

pub(crate) fn add(api: &mut Api) {
    let mut operation = Operation::post("/v1/trees/{tree}/continuations", "continue_tree")
        .describe(
            "Continue a tree",
            "Sends the request for a node to the model of `[loom.model]` and adds each sample as \
             a new node. The response is a stream: one JSON object per line, with the texts while \
             they are written, and the node or the error of each sample.",
        )
        .refuses(&[404, 422]);
    operation.response = ResponseBody::Stream {
        media: "application/x-ndjson",
        schema: api.outputs.subschema_for::<SampleEvent>(),
    };
    api.add_stream::<InTree, Nothing, ContinueBody>(operation);
}

impl ContinueBody {
    /// Returns the request for the node of a tree that is continued, and the number
    /// of samples.
    pub fn into_request(self, tree: String) -> (Request, usize) {
        let request = Request {
            tree: Some(tree),
            head: self.head,
            path: self.path,
            agent: self.agent,
            max_tokens: self.max_tokens,
            ..Request::default()
        };
        (request, self.samples.unwrap_or(1))
    }
}
