//! [`Assembled`]: an assembled request with its report.
//!
//! It renders the request in any format; the snapshot hash identifies it in
//! the store.

use std::sync::Arc;

use contexture_core::guard::Mark;
use contexture_core::{
    Block, Budget, ContentHash, LayerBudget, Layout, Part, Role, Tokens, markup,
};
use contexture_providers::native::Api;
use contexture_providers::{Format, Prompt, Refused, Sampling};
use contexture_store::{AgentRole, TurnId};
use contexture_tokens::{Model, Provider};
use serde_json::Value;

use crate::report::Report;
use crate::source::{Concept, Details};

/// An assembled request and its report.
#[derive(Debug, Clone)]
pub struct Assembled {
    /// The blocks of a request, in the order in which they are sent.
    pub layout: Layout,
    /// One row for every candidate, and the budget.
    pub report: Report,
    /// The budget of the request.
    pub budget: Budget,
    /// The model it is for.
    pub model: Model,
    /// Whether the model continues its own last message.
    pub continues: bool,
    /// Whether the provider stores earlier messages, which the request follows.
    pub follows_stored: bool,
    /// The sampling settings for the answer.
    pub sampling: Sampling,
    /// The session it belongs to.
    pub session_label: Option<String>,
    /// Tools that the model can search for, if the provider supports that.
    pub deferred: Vec<Block>,
    /// The key by which a provider finds the cache of the session's requests.
    pub cache_key: Option<String>,
    /// The head of the session: the parent of the turn that answers.
    pub parent_turn_id: Option<TurnId>,
    /// Turns of the session that the request was made of, among them the oldest.
    /// `None` if it was made of no session.
    pub made_of: Option<Vec<TurnId>>,
    /// The agent's role. `None` if it has none.
    pub role: Option<AgentRole>,
    /// The set that the tools were taken from.
    pub toolset_name: Option<String>,
    /// The names that the agent may use.
    pub permissions_granted: Vec<String>,
    /// The event that is answered.
    pub source_event_id: Option<String>,
    /// The hash of the saved request. `None` if it is not saved.
    pub snapshot: Option<String>,
    /// The data that is stored in the ledger with the answer: hashes of the
    /// contents of the system prompt, and the context of the event.
    pub context_json: Value,
    /// The root.
    pub workspace_path: String,
    /// The layers that have a source, in recipe order.
    pub layers: Vec<LayerInfo>,
    /// Details that the sources attached to the request, by type.
    pub details: Details,
}

/// A layer of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerInfo {
    /// The name.
    pub name: Arc<str>,
    /// The part of an agent's context that the layer holds.
    pub concept: Concept,
}

impl Assembled {
    /// Returns true if the request was saved as the snapshot with that hash.
    pub(crate) fn is_snapshot(&self, hash: ContentHash) -> bool {
        self.snapshot == Some(hash.to_string())
    }

    /// Returns the prompt from which a provider's request is rendered.
    pub fn prompt(&self) -> Prompt<'_> {
        let reserve = self.budget.reserve_response();
        // Providers reject a request for more tokens than the model can write.
        let limit = self.model.max_output.unwrap_or(reserve).min(reserve);
        Prompt {
            layout: &self.layout,
            model: sent_name(&self.model),
            max_output: (limit > 0).then_some(limit),
            spare: self.report.budget.remaining,
            continues: self.continues,
            follows_stored: self.follows_stored,
            sampling: &self.sampling,
            cache_key: self.cache_key.as_deref(),
            deferred: &self.deferred,
        }
    }

    /// Returns the tokens used by the layers of one part of an agent's context.
    pub fn used_by(&self, concept: Concept) -> Tokens {
        fn used(layers: &[LayerBudget], name: &str) -> Option<Tokens> {
            layers.iter().find_map(|layer| match &*layer.name == name {
                true => Some(layer.used),
                false => used(&layer.layers, name),
            })
        }
        let of_concept = self.layers.iter().filter(|l| l.concept == concept);
        let budget = &self.report.budget.layers;
        of_concept.filter_map(|l| used(budget, &l.name)).sum()
    }

    /// Returns the request in a provider's form.
    pub fn render(&self, format: Format) -> Result<String, Refused> {
        self.prompt().render(format)
    }

    /// Renders the request like [`render`](Self::render), but JSON without
    /// white space between its elements, for programs.
    pub fn render_compact(&self, format: Format) -> Result<String, Refused> {
        self.prompt().render_compact(format)
    }

    /// Renders the conversation of the request for an API, without white space
    /// between its elements.
    pub fn render_messages(&self, api: Api) -> Result<String, Refused> {
        self.prompt().render_messages(api)
    }
}

/// Returns blocks as one text, separated by blank lines. Blocks that have no
/// tags in a provider's form have none here.
pub fn bare(blocks: &[Block], mark: Mark) -> String {
    let mut out = String::new();
    // A document is returned in a field of its own.
    let shown =
        |block: &&Block| !matches!(block.part, Part::Tool { .. }) && block.role != Role::Document;
    let blocks: Vec<&Block> = blocks.iter().filter(shown).collect();
    let plain = |block: &Block| {
        let role = matches!(
            block.role,
            Role::Header | Role::System | Role::User | Role::Assistant
        );
        role && block.part == Part::Text
    };
    for run in blocks.chunk_by(|before, block| block.joins(before) && !plain(block)) {
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        match run {
            [block] if plain(block) => out.push_str(block.text()),
            run => {
                let start = out.len();
                markup::write_run(&mut out, run.iter().copied(), mark);
                out.truncate(start + out[start..].trim_end().len());
            }
        }
    }
    out
}

/// Returns the model name that the provider's own API uses: without the vendor
/// prefix that some names have.
pub fn sent_name(model: &Model) -> &str {
    let vendors: &[&str] = match model.provider {
        Provider::Anthropic => &["anthropic/"],
        Provider::OpenAi => &["openai/"],
        Provider::Gemini => &["google/", "models/"],
        Provider::Other => &[],
    };
    let name = &model.name;
    vendors
        .iter()
        .find_map(|vendor| name.strip_prefix(vendor))
        .unwrap_or(name)
}
