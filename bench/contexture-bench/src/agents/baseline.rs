//! Replays runs by simple rules for the content of a request, without
//! Contexture.

use std::sync::Arc;

use contexture::store::Block;
use serde_json::{Value, json};

use super::measure::{Measured, Meter, STEP};
use super::replay::CONTINUE;
use super::survival::Facts;
use super::trace::{Call, Trace};
use super::wire::{Blocks, Segment, Wire};

/// The tokens of a summary that a language model writes. Assumed, not measured.
const SUMMARY_TOKENS: u64 = 1000;

/// The part of the window at which `LangChain`'s rule summarises, and the number
/// of messages that it keeps.
const TRIGGER: f64 = 0.8;
const KEEP: usize = 20;

/// A rule for the content of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The latest messages that fit into as many tokens as Contexture may use.
    /// A call and its results stay together. The latest user message is kept.
    Sliding,
    /// The rule of `LangChain`'s `SummarizationMiddleware`: at 80 % of the
    /// window, a summary replaces all but the latest 20 messages. The text of
    /// the summary is unknown: facts in the summary count as lost.
    Summarise,
    /// Everything.
    NoLimit,
}

impl Rule {
    pub(crate) const ALL: [Rule; 3] = [Rule::Sliding, Rule::Summarise, Rule::NoLimit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Rule::Sliding => "sliding window",
            Rule::Summarise => "summarise at 80 %",
            Rule::NoLimit => "no limit",
        }
    }
}

/// The author of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    User,
    Assistant,
    Result,
}

/// A message.
#[derive(Clone)]
struct Message {
    kind: Kind,
    segments: Vec<Arc<Segment>>,
}

impl Message {
    fn user(text: &str, blocks: &mut Blocks) -> Self {
        let block = json!({"type": "text", "text": text});
        Self {
            kind: Kind::User,
            segments: vec![blocks.get(Blocks::USER, &block)],
        }
    }

    fn tokens(&self) -> u64 {
        self.segments.iter().map(|segment| segment.tokens).sum()
    }
}

/// Replays `trace` by a rule.
pub(crate) fn replay(
    rule: Rule,
    trace: &Trace,
    window: u64,
    available: u64,
    blocks: &mut Blocks,
) -> Measured {
    let mut run = Run {
        rule,
        window,
        available,
        fixed: fixed(trace, blocks),
        messages: Vec::new(),
        meter: Meter::default(),
    };
    run.meter.available = available;
    let mut last = None;
    for i in 0..=trace.calls.len() {
        let call = trace.calls.get(i);
        let asked = call.and_then(Call::asked);
        let answered = (run.messages.last()).is_none_or(|said| said.kind == Kind::Assistant);
        let event = asked.as_deref().or(answered.then_some(CONTINUE));
        if let Some(event) = event {
            run.messages.push(Message::user(event, blocks));
        }
        let wire = run.request(blocks);
        let Some(call) = call else {
            last = Some(wire);
            break;
        };
        if rule != Rule::NoLimit && wire.tokens() > window {
            *run.meter
                .malformed
                .entry("over_window".to_owned())
                .or_default() += 1;
        }
        run.meter.sent(wire, STEP * i as i64);
        if asked.is_none() && answered {
            run.messages.pop();
        }
        run.messages.extend(messages(call, blocks));
    }
    run.meter
        .finish(last.as_ref(), &Facts::of(trace, trace.calls.len()))
}

struct Run {
    rule: Rule,
    window: u64,
    available: u64,
    /// Tools and the system prompt.
    fixed: Vec<Arc<Segment>>,
    messages: Vec<Message>,
    meter: Meter,
}

impl Run {
    /// Returns the next request.
    fn request(&mut self, blocks: &mut Blocks) -> Wire {
        let fixed: u64 = self.fixed.iter().map(|segment| segment.tokens).sum();
        let first = match self.rule {
            Rule::NoLimit => 0,
            Rule::Sliding => first_that_fits(&self.messages, self.available.saturating_sub(fixed)),
            Rule::Summarise => {
                self.summarise(fixed, blocks);
                0
            }
        };
        let mut said: Vec<&Message> = Vec::new();
        let kept = &self.messages[first..];
        // The first message of a request must be the user's.
        if kept.iter().all(|said| said.kind != Kind::User) {
            let asked = self.messages.iter().rev();
            said.extend(asked.clone().find(|said| said.kind == Kind::User));
        }
        said.extend(kept);
        wire(&self.fixed, &said)
    }

    /// Replaces all but the latest messages with a summary, if the trigger
    /// is reached. A call and its results stay together.
    fn summarise(&mut self, fixed: u64, blocks: &mut Blocks) {
        let total: u64 = fixed + self.messages.iter().map(Message::tokens).sum::<u64>();
        if (total as f64) < TRIGGER * self.window as f64 {
            return;
        }
        let mut cut = self.messages.len().saturating_sub(KEEP);
        while cut > 0 && self.messages[cut].kind == Kind::Result {
            cut -= 1;
        }
        // A summary of the summary alone would free no tokens.
        if cut < 2 {
            return;
        }
        let covered = self.messages[..cut].iter().map(Message::tokens).sum();
        (self.meter.providers.bill).add_call(covered, SUMMARY_TOKENS);
        self.meter.compactions += 1;
        let summary = summary(self.meter.compactions);
        self.messages
            .splice(..cut, [Message::user(&summary, blocks)]);
    }
}

/// Returns a text of as many tokens as a summary has, no two the same.
fn summary(number: usize) -> String {
    let words = " word".repeat(SUMMARY_TOKENS as usize - 10);
    format!("Here is summary {number} of the conversation to date:{words}")
}

/// Returns where the latest messages begin that fit into `room`.
fn first_that_fits(messages: &[Message], room: u64) -> usize {
    // The latest user message is sent even if it is older than the window.
    let asked = (messages.iter().rposition(|said| said.kind == Kind::User)).unwrap_or(0);
    let (mut first, mut used) = (messages.len(), 0);
    for (i, said) in messages.iter().enumerate().rev() {
        used += said.tokens();
        let question = if asked < i {
            messages[asked].tokens()
        } else {
            0
        };
        if used + question > room {
            break;
        }
        if said.kind != Kind::Result {
            first = i;
        }
    }
    // The latest messages are always sent.
    match messages.iter().rposition(|said| said.kind != Kind::Result) {
        Some(last) => first.min(last),
        None => first,
    }
}

/// Returns a request with three marks: after the system prompt, where the
/// request before ended, and at the end.
fn wire(fixed: &[Arc<Segment>], said: &[&Message]) -> Wire {
    let mut wire = Wire {
        segments: fixed.to_vec(),
        marks: Vec::new(),
    };
    wire.marks.extend(fixed.len().checked_sub(1));
    let answer = said.iter().rposition(|said| said.kind == Kind::Assistant);
    for (i, said) in said.iter().enumerate() {
        if Some(i) == answer {
            wire.marks.extend(wire.segments.len().checked_sub(1));
        }
        wire.segments.extend(said.segments.iter().cloned());
    }
    wire.marks.extend(wire.segments.len().checked_sub(1));
    wire.marks.dedup();
    wire
}

fn fixed(trace: &Trace, blocks: &mut Blocks) -> Vec<Arc<Segment>> {
    let mut fixed: Vec<Arc<Segment>> = (trace.tools.iter())
        .map(|tool| blocks.get(Blocks::TOOL, tool))
        .collect();
    let system = json!({"type": "text", "text": trace.system});
    fixed.push(blocks.get(Blocks::SYSTEM, &system));
    fixed
}

/// Returns the messages of a call. A tool that was interrupted has an empty
/// result.
fn messages(call: &Call, blocks: &mut Blocks) -> Vec<Message> {
    let mut calls = Vec::new();
    let mut segments = Vec::new();
    for block in call.blocks() {
        let block = match block {
            Block::Text { text, .. } => json!({"type": "text", "text": text}),
            Block::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                calls.push(id.as_str());
                json!({"type": "tool_use", "id": id, "name": name, "input": arguments})
            }
            other => json!(other),
        };
        segments.push(blocks.get(Blocks::ASSISTANT, &block));
    }
    let mut messages = vec![Message {
        kind: Kind::Assistant,
        segments,
    }];
    for id in calls {
        let result =
            (call.results().iter()).find(|result| result.tool_call_id.as_deref() == Some(id));
        let content = result.map_or(Value::Null, |result| json!(result.content));
        let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        if result.is_some_and(|result| result.is_error) {
            block["is_error"] = true.into();
        }
        messages.push(Message {
            kind: Kind::Result,
            segments: vec![blocks.get(Blocks::USER, &block)],
        });
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: Kind, size: usize, blocks: &mut Blocks) -> Message {
        let block = json!({"type": "text", "text": " word".repeat(size)});
        Message {
            kind,
            segments: vec![blocks.get(Blocks::USER, &block)],
        }
    }

    #[test]
    fn a_window_begins_with_no_result() {
        use Kind::{Assistant, Result, User};
        let mut blocks = Blocks::new();
        let kinds = [User, Assistant, Result, Result, Assistant, Result];
        let messages = kinds.map(|kind| said(kind, 10, &mut blocks));
        // Room for the question and so many messages behind it.
        for (room, first) in [(60, 0), (50, 4), (40, 4), (30, 4), (1, 4)] {
            assert_eq!(first_that_fits(&messages, room), first, "{room}");
        }
        let kept = &messages[4..];
        let request = wire(&[], &kept.iter().collect::<Vec<_>>());
        assert_eq!(request.tokens(), 20);
    }

    #[test]
    fn a_summary_replaces_all_but_the_latest_messages() {
        use Kind::{Assistant, Result, User};
        let mut blocks = Blocks::new();
        let mut messages = vec![said(User, 10, &mut blocks)];
        for _ in 0..20 {
            messages.push(said(Assistant, 100, &mut blocks));
            messages.push(said(Result, 100, &mut blocks));
        }
        let mut run = Run {
            rule: Rule::Summarise,
            window: 5000,
            available: 5000,
            fixed: Vec::new(),
            messages,
            meter: Meter::default(),
        };
        let request = run.request(&mut blocks);
        // 4,010 tokens are more than 80 %.
        assert_eq!(run.meter.compactions, 1);
        assert_eq!(run.messages.len(), 1 + KEEP);
        let summary = run.messages[0].tokens();
        assert!(summary.abs_diff(SUMMARY_TOKENS) < 10, "{summary}");
        assert_eq!(request.tokens(), summary + 2000);
        // It is paid for: 2,010 tokens are read.
        let bill = &run.meter.providers.bill;
        assert_eq!(bill.openai_uncached, 2010.0);
        run.request(&mut blocks);
        assert_eq!(run.meter.compactions, 1);
    }
}
