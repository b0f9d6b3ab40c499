use contexture_core::{Block, Budget, Layout, Part, Report, Role, Section, Tokens, markup};
use contexture_providers::{Format, Prompt, Refused, Sampling};
use contexture_store::{AgentRole, TurnId};
use contexture_tokens::{Model, Provider};
use serde_json::{Value, json};

use crate::compaction::Compacted;
use crate::loom::LoomSummary;

/// An assembled request and its account.
#[derive(Debug, Clone)]
pub struct Assembled {
    /// What is sent, in order.
    pub layout: Layout,
    /// What became of every candidate.
    pub report: Report,
    /// What might be spent.
    pub budget: Budget,
    /// The model it is for.
    pub model: Model,
    /// Whether the model is to go on where its own last message ends.
    pub continues: bool,
    /// How the answer is drawn.
    pub sampling: Sampling,
    /// The session it belongs to.
    pub session_label: Option<String>,
    /// The head of the session: the parent of the turn that answers.
    pub parent_turn_id: Option<TurnId>,
    /// The agent's role, where it has one.
    pub role: Option<AgentRole>,
    /// The set that the tools were taken from.
    pub toolset_name: Option<String>,
    /// What the agent may use.
    pub permissions_granted: Vec<String>,
    /// The event that is answered.
    pub source_event_id: Option<String>,
    /// What became of the path through a loom, where it is one.
    pub loom: Option<LoomSummary>,
    /// What was summarised to make room, if anything was.
    pub compacted: Option<Compacted>,
    /// The hash that the request is kept by, if it is kept.
    pub snapshot: Option<String>,
    /// What goes with the answer into the ledger: hashes of what went into the
    /// system prompt, and what is known about the event.
    pub context_json: Value,
    /// The root.
    pub workspace_path: String,
}

impl Assembled {
    /// Returns what a provider's form is made from.
    pub fn prompt(&self) -> Prompt<'_> {
        let reserve = self.budget.reserve_response();
        Prompt {
            layout: &self.layout,
            model: sent_name(&self.model),
            max_output: (reserve > 0).then_some(reserve),
            spare: self.report.budget.remaining,
            continues: self.continues,
            sampling: &self.sampling,
        }
    }

    /// Returns the request in a provider's form.
    pub fn render(&self, format: Format) -> Result<String, Refused> {
        self.prompt().render(format)
    }

    /// Returns the document that is sent, where it is one and not a
    /// conversation.
    fn document(&self) -> Option<String> {
        let mut text = String::new();
        markup::write_document(&mut text, self.layout.blocks());
        self.layout.is_document().then_some(text)
    }

    /// Returns the request in Contexture's own form.
    pub fn to_json(&self) -> Value {
        let blocks = |section: Section| match section {
            Section::System => &self.layout.system,
            Section::History => &self.layout.history,
            Section::Current => &self.layout.current,
        };
        let used =
            |section: Section| -> Tokens { blocks(section).iter().map(|block| block.tokens).sum() };
        let layers = |names: &[&str]| -> Tokens {
            let layers = self.report.budget.layers.iter();
            let named = layers.filter(|layer| names.contains(&&*layer.name));
            named.map(|layer| layer.used).sum()
        };
        let tools: Vec<Value> = self.layout.system.iter().filter_map(tool).collect();
        let mut model_config = json!({
            "max_output_tokens": Some(self.budget.reserve_response()).filter(|&n| n > 0),
        });
        if let Ok(Value::Object(sampling)) = serde_json::to_value(&self.sampling) {
            for (name, value) in sampling
                .into_iter()
                .filter(|(name, _)| name != "max_tokens")
            {
                model_config[name] = value;
            }
        }
        // A document is nobody's message.
        let document = self.document();
        let current = document.is_none().then(|| {
            json!({
                "role": "user",
                "content": bare(&self.layout.current),
                "parts": self.layout.current.iter().map(part).collect::<Vec<_>>(),
            })
        });
        json!({
            "system_prompt": bare(&self.layout.system),
            "history": messages(&self.layout.history),
            "current_message": current,
            "document": document,
            "tools": tools,
            "model": self.model.name,
            "provider": self.model.provider,
            "model_config": model_config,
            "token_budget": {
                "model_limit": self.budget.window(),
                "reserve_response": self.budget.reserve_response(),
                "reserve_tools": self.budget.reserve_tools(),
                "available": self.budget.available(),
                "used": {
                    "system_prompt": used(Section::System),
                    "history": used(Section::History),
                    "event": used(Section::Current),
                    "total": self.report.budget.used,
                },
                "remaining": self.budget.available() - self.report.budget.used,
                "allocation": {
                    "workspace": layers(&["workspace", "environment", "runtime", "tools", "files"]),
                    "persona": layers(&["persona", "role", "task"]),
                    "history": layers(&["session"]),
                    "memory": layers(&["memory"]),
                    "event": layers(&["event"]),
                },
            },
            "session_label": self.session_label,
            "parent_turn_id": self.parent_turn_id,
            "role": self.role,
            "toolset_name": self.toolset_name,
            "permissions_granted": self.permissions_granted,
            "source_event_id": self.source_event_id,
            "workspace_path": self.workspace_path,
            "loom": self.loom,
            "truncation": {
                "truncated": self.report.included.iter().any(|row| row.truncated)
                    || self.loom.as_ref().is_some_and(|loom| loom.truncated),
                "items_cut": self.report.included.iter().filter(|row| row.truncated).count(),
                "items_dropped": self.report.excluded.len(),
                "compacted": self.compacted,
            },
            "snapshot": self.snapshot,
            "context_json": self.context_json,
            "report": self.report,
        })
    }
}

/// Returns blocks as one text: what has no tags in a provider's form has none
/// here, and a blank line stands between two of them.
pub(crate) fn bare(blocks: &[Block]) -> String {
    let mut out = String::new();
    // A document stands in a field of its own.
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
                markup::write_run(&mut out, run.iter().copied());
                out.truncate(start + out[start..].trim_end().len());
            }
        }
    }
    out
}

fn part(block: &Block) -> Value {
    json!({
        "role": block.role,
        "id": block.id,
        "path": block.path,
        "layer": block.layer,
        "trust": block.trust,
        "tokens": block.tokens,
        "content": block.text(),
    })
}

fn tool(block: &Block) -> Option<Value> {
    let Part::Tool { name } = &block.part else {
        return None;
    };
    let mut tool = json!({"name": name});
    if let Value::Object(definition) = parsed(block) {
        for (key, value) in definition {
            tool[key] = value;
        }
    }
    Some(tool)
}

/// Returns the JSON that a block's text is.
fn parsed(block: &Block) -> Value {
    let text = contexture_core::guard::restore(block.text());
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// Returns history as messages with blocks, as they were recorded.
fn messages(blocks: &[Block]) -> Vec<Value> {
    let name = |block: &Block| -> String {
        let id = &*block.id;
        let message = id.rsplit_once('.').map_or(id, |(message, _)| message);
        message.to_owned()
    };
    let mut messages: Vec<Value> = Vec::new();
    let is_one = |a: &Block, b: &Block| a.role == b.role && name(a) == name(b);
    for run in blocks.chunk_by(|a, b| b.joins(a) || is_one(a, b)) {
        let Some(first) = run.first() else { continue };
        // A document stands in a field of its own.
        if first.role == Role::Document {
            continue;
        }
        let joined = run.windows(2).all(|pair| pair[1].joins(&pair[0]));
        let content: Value = match run {
            run if joined && first.part == Part::Text => {
                let texts: Vec<&str> = run.iter().map(Block::text).collect();
                texts.join("\n\n").into()
            }
            run => run.iter().map(block_json).collect(),
        };
        let tokens: Tokens = run.iter().map(|block| block.tokens).sum();
        messages.push(json!({
            "role": first.role,
            "id": name(first),
            "trust": first.trust,
            "tokens": tokens,
            "content": content,
        }));
    }
    messages
}

fn block_json(block: &Block) -> Value {
    let text = block.text();
    match &block.part {
        Part::Text => json!({"type": "text", "text": text}),
        Part::Tool { name } => json!({"type": "tool", "name": name}),
        Part::ToolCall { id, name } => {
            json!({"type": "tool_call", "id": id, "name": name, "arguments": parsed(block)})
        }
        Part::ToolResult { id, is_error, .. } => {
            json!({"type": "tool_result", "tool_call_id": id, "content": text, "is_error": is_error})
        }
        Part::Thinking { signature } => {
            json!({"type": "thinking", "text": text, "signature": signature})
        }
        Part::Media(media) => {
            let mut value = json!(**media);
            value["type"] = media.kind.name().into();
            if let Value::Object(map) = &mut value {
                map.remove("kind");
            }
            value
        }
    }
}

/// Returns the name that the provider's own interface knows: without the
/// vendor that some put before it.
pub(crate) fn sent_name(model: &Model) -> &str {
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
