//! Recorded runs of agents: one JSON file each, with the calls of the model in
//! order.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use contexture::store::{Block, Message, MessageContent};
use serde::Deserialize;
use serde_json::Value;

/// One run of an agent.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Trace {
    /// The name of the file without its ending.
    #[serde(skip)]
    pub(crate) file: String,
    /// The system prompt.
    pub(crate) system: String,
    /// The tools, each with `name`, `description` and `parameters`.
    pub(crate) tools: Vec<Value>,
    pub(crate) calls: Vec<Call>,
}

/// One call of the model, with the results of the tools that it called.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Call {
    /// What the user said before the call. Empty after tool results.
    pub(crate) event: Vec<String>,
    /// The model's message, then the results of its tools.
    pub(crate) messages: Vec<Message>,
}

impl Call {
    /// Returns what the user said before the call.
    pub(crate) fn asked(&self) -> Option<String> {
        (!self.event.is_empty()).then(|| self.event.join("\n"))
    }

    /// Returns the blocks of the model's message.
    pub(crate) fn blocks(&self) -> &[Block] {
        match self.messages.first().map(|message| &message.content) {
            Some(MessageContent::Blocks(blocks)) => blocks,
            _ => &[],
        }
    }

    /// Returns the messages of the tools.
    pub(crate) fn results(&self) -> &[Message] {
        self.messages.get(1..).unwrap_or_default()
    }

    fn tool_calls(&self) -> usize {
        let calls = self.blocks().iter();
        calls
            .filter(|block| matches!(block, Block::ToolCall { .. }))
            .count()
    }
}

impl Trace {
    /// Reads the traces in a directory whose file name contains `name`, in the
    /// order of their names.
    pub(crate) fn read_all(dir: &Path, name: &str) -> anyhow::Result<Vec<Self>> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
            .with_context(|| format!("{}: the directory of the traces", dir.display()))?
            .map(|entry| Ok(entry?.path()))
            .collect::<anyhow::Result<_>>()?;
        paths.retain(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.ends_with(".json") && file.contains(name)
        });
        paths.sort();
        ensure!(
            !paths.is_empty(),
            "{}: no file `*{name}*.json`; see bench/README.md",
            dir.display()
        );
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let mut trace: Self =
            serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?;
        trace.file = (path.file_stem().unwrap_or_default())
            .to_string_lossy()
            .into_owned();
        Ok(trace)
    }

    /// Returns the same work as one question followed by steps only, the usual
    /// shape of a coding agent: the calls whose tools have all returned.
    pub(crate) fn one_question(&self) -> anyhow::Result<Self> {
        let mut calls: Vec<Call> = Vec::new();
        for call in &self.calls {
            let made = call.tool_calls();
            if made > 0 && made == call.results().len() {
                let mut call = call.clone();
                if !calls.is_empty() {
                    call.event.clear();
                }
                calls.push(call);
            }
        }
        let first = calls
            .first_mut()
            .with_context(|| format!("{}: no call with tools", self.file))?;
        if first.event.is_empty() {
            let asked = self.calls.iter().find(|call| !call.event.is_empty());
            let asked = asked.with_context(|| format!("{}: nobody asks anything", self.file))?;
            first.event.clone_from(&asked.event);
        }
        Ok(Self {
            calls,
            ..self.clone()
        })
    }
}
