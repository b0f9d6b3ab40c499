//! How much of each request the provider has read before.

use std::path::Path;

use anyhow::{Context as _, ensure};
use contexture::Format;
use contexture::store::{Ledger as _, Message, MessageRole};
use contexture::turn::Usage;
use serde_json::{Value, json};

use crate::counter;
use crate::project::{self, Dice, Project, SESSION};

const TURNS: usize = 200;
const WINDOW: u64 = 128_000;
/// What is kept free for the answer.
const RESERVE: u64 = 8_000;

/// Anthropic's prices, in parts of that of a token that is read uncached.
const WRITE: f64 = 1.25;
const READ: f64 = 0.1;

/// Runs a session through the engine and SQLite, once as it is and once with a
/// window that drops the oldest turn each time.
pub(crate) fn cache(file: &str, dir: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let session = Script::new(&text, TURNS);
    let project = |name: &str| -> anyhow::Result<Project> {
        let root = dir.join(name);
        session.write_project(&root)?;
        Project::new(&root, dir.join(format!("{name}.db")))
    };
    let ours = run(&session, &project("steps")?)?;
    let sliding = run(&session, &project("sliding")?.sliding()?)?;
    println!(
        "{}",
        json!({
            "turns": TURNS,
            "window": WINDOW,
            "reserve": RESERVE,
            "tokens_said": session.tokens(),
            "ours": ours,
            "sliding": sliding,
        })
    );
    Ok(())
}

fn run(session: &Script<'_>, project: &Project) -> anyhow::Result<Value> {
    let store = project.store()?;
    store.create_session(&project::session(SESSION), project::clock(0))?;
    let engine = project.engine(&store)?;
    let (mut total, mut shared_total, mut cost) = (0_u64, 0_u64, 0.0);
    let (mut compactions, mut moves) = (0, 0);
    let mut before = String::new();
    for (i, turn) in session.turns.iter().enumerate() {
        let now = 90 * i as i64;
        let mut request = project::request(SESSION, &turn.asked, WINDOW, now);
        request.reserve_response = Some(RESERVE);
        let assembled = engine.assemble(&project.root, &request)?;
        let text = assembled.render(Format::Text)?;
        // Nothing that a provider would refuse counts.
        assembled.render(Format::Anthropic)?;
        compactions += usize::from(assembled.compacted().is_some());

        let tokens = counter().count(&text);
        ensure!(tokens <= WINDOW - RESERVE, "{tokens} tokens");
        let shared = counter().count(&text[..common(&text, &before)]);
        if i > 0 {
            let reported = assembled.report.cache.as_ref().context("no cache report")?;
            let off = reported.shared_tokens.abs_diff(shared);
            ensure!(
                off <= 2 + shared / 1000,
                "{reported:?}, but {shared} are shared"
            );
            moves += usize::from(shared < tokens / 2);
        }
        total += tokens;
        shared_total += shared;
        cost += READ * shared as f64 + WRITE * (tokens - shared) as f64;
        before = text;

        let mut messages = vec![project::said(MessageRole::User, turn.asked.as_str())];
        messages.extend(turn.did.iter().cloned());
        let mut new = project::turn(messages);
        new.usage = Some(Usage {
            input_tokens: tokens,
            cached_input_tokens: shared,
            cache_write_tokens: tokens - shared,
            ..Usage::default()
        });
        engine.record(SESSION, &new, Some(project::clock(now + 30)))?;
    }
    let reported = engine.cost(SESSION)?;
    let share = shared_total as f64 / total as f64;
    ensure!(
        (reported.cached_share - share).abs() < 1e-9,
        "session cost says otherwise"
    );
    Ok(json!({
        "requests": session.turns.len(),
        "input_tokens": total,
        "shared_tokens": shared_total,
        "shared": share,
        "cost": cost,
        "cost_uncached": total,
        "compactions": compactions,
        "prefix_lost": moves,
    }))
}

/// Returns how many bytes two texts share at their start.
fn common(a: &str, b: &str) -> usize {
    let pairs = a.bytes().zip(b.bytes());
    let mut common = pairs.take_while(|(a, b)| a == b).count();
    while !a.is_char_boundary(common) {
        common -= 1;
    }
    common
}

/// A session as it will be said, whatever becomes of it.
pub(crate) struct Script<'t> {
    text: &'t str,
    pub(crate) turns: Vec<Said>,
}

pub(crate) struct Said {
    pub(crate) asked: String,
    pub(crate) did: Vec<Message>,
}

impl<'t> Script<'t> {
    /// Makes up a session of so many turns: questions of a few lines; in three of five turns one
    /// to three calls of tools, which return 30 to 150 lines; answers of some
    /// paragraphs.
    pub(crate) fn new(text: &'t str, turns: usize) -> Self {
        let lines: Vec<&str> = text.lines().filter(|line| line.len() < 200).collect();
        let mut dice = Dice(7);
        let some = |dice: &mut Dice, low: usize, high: usize| -> String {
            let count = dice.roll(low, high);
            let at = dice.roll(0, lines.len() - count - 1);
            lines[at..at + count].join("\n")
        };
        let turns = (0..turns)
            .map(|i| {
                let asked = format!("Question {i}.\n{}", some(&mut dice, 2, 8));
                let mut did = Vec::new();
                let calls = match dice.roll(1, 5) {
                    1..=3 => dice.roll(1, 3),
                    _ => 0,
                };
                for call in 0..calls {
                    let path = format!("src/part-{}.rs", dice.roll(1, 60));
                    let name = ["read", "search", "shell"][dice.roll(0, 2)];
                    let arguments = json!({"path": path, "why": some(&mut dice, 1, 1)});
                    let result = some(&mut dice, 30, 150);
                    did.extend(project::call(
                        &format!("c{i}-{call}"),
                        name,
                        arguments,
                        &result,
                    ));
                }
                let answer = format!("Answer {i}.\n{}", some(&mut dice, 8, 40));
                did.push(project::said(MessageRole::Assistant, answer));
                Said { asked, did }
            })
            .collect();
        Self { text, turns }
    }

    /// Writes what stands in the system prompt: some 1,700 tokens.
    pub(crate) fn write_project(&self, root: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(root.join("persona"))?;
        let lines: Vec<&str> = self.text.lines().take(400).collect();
        std::fs::write(root.join("AGENTS.md"), lines[..200].join("\n"))?;
        std::fs::write(root.join("persona/SOUL.md"), lines[200..240].join("\n"))?;
        let tool = |name: &str| {
            json!({
                "name": name,
                "description": lines[300..310].join(" "),
                "parameters": {"type": "object", "properties": {
                    "path": {"type": "string"}, "why": {"type": "string"}}},
            })
        };
        let tools: Vec<Value> = ["read", "search", "shell"].map(tool).to_vec();
        std::fs::write(root.join("tools.json"), json!(tools).to_string())?;
        Ok(())
    }

    fn tokens(&self) -> u64 {
        let counter = counter();
        let block = |message: &Message| json!(message.content).to_string();
        let of = |turn: &Said| {
            let did: u64 = turn.did.iter().map(|it| counter.count(&block(it))).sum();
            counter.count(&turn.asked) + did
        };
        self.turns.iter().map(of).sum()
    }
}
