//! Recall: is what answers a question found again, and how soon?

mod baseline;
pub(crate) mod limits;
mod made;
pub(crate) mod size;
pub(crate) mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use contexture::memory::{ContextRequest, FillIn, Lines, MemoryRecorded, Recall, Recalled};
use contexture::{Engine, Timestamp};
use contexture_encoder::Encoder;
use contexture_recall::{EmbedError, Embedder, StaticModel};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::project::Project;
use crate::{counter, cpu_ms, runs};

use self::baseline::Baselines;

/// What is asked for, in tokens.
const BUDGETS: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

/// The budget at which time is taken.
const TIMED: u64 = 4_000;

/// The model whose tokens are counted.
const MODEL: &str = "gpt-4o";

/// How many wrong answers are told of.
const MOST_TOLD: usize = 10;

/// A query of 20 tokens.
const QUERY: &str = "When did she say that her sister moved to the new house by the lake in June?";

/// Gives every text a vector that is like nothing else.
struct NoVectors;

impl Embedder for NoVectors {
    fn name(&self) -> &str {
        "none"
    }

    fn dimensions(&self) -> usize {
        1
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(vec![vec![0.0]; texts.len()])
    }
}

/// A question and the turns that answer it.
#[derive(Deserialize)]
struct Question {
    conversation: String,
    query: String,
    category: String,
    evidence: Vec<String>,
}

/// A turn of a conversation, as far as the baselines look at it.
#[derive(Deserialize)]
struct Turn {
    id: String,
    timestamp: Timestamp,
    content: Said,
}

#[derive(Deserialize)]
struct Said {
    speaker: String,
    text: String,
}

/// A conversation in a store of its own.
struct Conversation {
    name: String,
    project: Project,
    vectors: String,
    engine: Engine,
    turns: Vec<Turn>,
    now: Timestamp,
}

/// Asks every question of its own conversation, and says which part of the
/// evidence is in the answers, ours and those of simpler means; then how long
/// ours takes.
pub(crate) fn evidence(data: &Path, dir: &Path, vectors: &str) -> anyhow::Result<()> {
    counter().count("load the vocabulary");
    let before = Instant::now();
    StaticModel::built_in().embed(&["load the embedder"])?;
    let embedder_ms = milliseconds(before);
    let before = Instant::now();
    Encoder::built_in().embed(&["load the encoder"])?;
    let encoder_ms = milliseconds(before);
    let before = cpu_ms();
    for _ in 0..200 {
        Encoder::built_in().embed(&[QUERY])?;
    }
    let query_ms = (cpu_ms() - before) / 200.0;

    let text = std::fs::read_to_string(data.join("questions.json"))?;
    let questions: Vec<Question> = serde_json::from_str(&text)?;
    let mut conversations: Vec<Conversation> = Vec::new();
    let names: BTreeSet<&str> = questions.iter().map(|q| q.conversation.as_str()).collect();
    let before = Instant::now();
    for name in names {
        conversations.push(Conversation::record(name, data, dir, vectors)?);
    }
    let recording = before.elapsed().as_secs_f64();
    let before = cpu_ms();
    let mut filled = 0;
    for conversation in &conversations {
        let memory = conversation.engine.memory()?;
        filled += memory.fill_in(FillIn::ALL, &mut |_| {})?;
    }
    let filling = (cpu_ms() - before) / 1e3;
    let records: usize = conversations.iter().map(|one| one.turns.len()).sum();

    let mut wrong = Wrong::default();
    let mut shares: BTreeMap<String, BTreeMap<&str, Shares>> = BTreeMap::new();
    for conversation in &conversations {
        let baselines = Baselines::new(&conversation.turns)?;
        for question in conversation.questions(&questions) {
            ensure!(
                !question.evidence.is_empty(),
                "{}: no evidence",
                question.query
            );
            let rankings = baselines.rank(&question.query)?;
            for budget in BUDGETS {
                let recalled = conversation.ask(&question.query, budget)?;
                wrong.check(&recalled, budget, &question.query);
                let components = recalled.context.components.iter();
                let ours: BTreeSet<&str> = components.map(|part| part.source.as_str()).collect();
                let by_means = shares.entry(budget.to_string()).or_default();
                by_means
                    .entry("ours")
                    .or_default()
                    .note(question, |id| ours.contains(id));
                for (means, ranking) in &rankings {
                    let kept = baselines.pack(ranking, budget);
                    by_means
                        .entry(means)
                        .or_default()
                        .note(question, |id| kept.contains(id));
                }
            }
        }
    }
    let shares: BTreeMap<&String, BTreeMap<&&str, Value>> = (shares.iter())
        .map(|(budget, of)| {
            let figures = |(means, shares): (_, &Shares)| (means, shares.figures());
            (budget, of.iter().map(figures).collect())
        })
        .collect();

    let mut by_budget: BTreeMap<String, Value> = BTreeMap::new();
    for budget in [BUDGETS[0], BUDGETS[3]] {
        let times = warm(&conversations, &questions, budget, &mut wrong)?;
        by_budget.insert(budget.to_string(), times);
    }
    println!(
        "{}",
        json!({
            "questions": questions.len(),
            "conversations": conversations.len(),
            "records": records,
            "recorded_per_second": records as f64 / recording,
            "vectors": vectors,
            "embedder_load_ms": embedder_ms,
            "encoder_load_ms": encoder_ms,
            "encoder_query_ms": query_ms,
            "filled_in_per_cpu_second": filled as f64 / filling.max(1e-9),
            "budgets": BUDGETS,
            "evidence": shares,
            "warm": warm(&conversations, &questions, TIMED, &mut wrong)?,
            "warm_by_budget": by_budget,
            "cold": cold(&conversations, &questions)?,
            "wrong": wrong.told,
            "wrong_answers": wrong.answers,
            "digest": wrong.digest.figure(),
        })
    );
    Ok(())
}

/// Asks every question warm, in passes of all budgets in turn, and says how long
/// that takes: for a profiler, or to compare two versions. The stores in `dir` are
/// used again.
pub(crate) fn warm_only(data: &Path, dir: &Path, budgets: &str) -> anyhow::Result<()> {
    let budgets: Vec<u64> = (budgets.split(','))
        .map(|budget| Ok(budget.parse()?))
        .collect::<anyhow::Result<_>>()?;
    counter().count("load the vocabulary");
    let text = std::fs::read_to_string(data.join("questions.json"))?;
    let questions: Vec<Question> = serde_json::from_str(&text)?;
    let names: BTreeSet<&str> = questions.iter().map(|q| q.conversation.as_str()).collect();
    let mut conversations: Vec<Conversation> = Vec::new();
    for name in names {
        let conversation = Conversation::record(name, data, dir, "encoder")?;
        (conversation.engine.memory()?).fill_in(FillIn::ALL, &mut |_| {})?;
        conversations.push(conversation);
    }
    let ask = |budget: u64, wrong: &mut Wrong| -> anyhow::Result<Times> {
        let mut times = Times::default();
        for conversation in &conversations {
            for question in conversation.questions(&questions) {
                let recalled = times.take(|| conversation.ask(&question.query, budget))?;
                wrong.digest.add(&recalled);
            }
        }
        Ok(times)
    };
    let mut wrong = Wrong::default();
    // The texts are read, and the vectors of the queries computed.
    ask(budgets.iter().copied().max().unwrap_or(TIMED), &mut wrong)?;
    let mut passes: Vec<Vec<Times>> = budgets.iter().map(|_| Vec::new()).collect();
    for pass in 0..runs(3) as u64 {
        for (budget, passes) in budgets.iter().zip(&mut passes) {
            passes.push(ask(budget - 1 - pass, &mut wrong)?);
        }
    }
    let times: BTreeMap<String, Value> = (budgets.iter().zip(&passes))
        .map(|(budget, passes)| (budget.to_string(), middle(passes)))
        .collect();
    println!(
        "{}",
        json!({"warm_by_budget": times, "digest": wrong.digest.figure()})
    );
    Ok(())
}

impl Conversation {
    /// Records a conversation, unless its store exists.
    fn record(name: &str, data: &Path, dir: &Path, vectors: &str) -> anyhow::Result<Self> {
        let file = data.join(format!("{name}.jsonl"));
        let text = std::fs::read_to_string(&file).context(format!("{name}.jsonl"))?;
        let turns: Vec<Turn> = (text.lines().filter(|line| !line.trim().is_empty()))
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect::<anyhow::Result<_>>()?;
        let last = turns.iter().map(|turn| turn.timestamp).max();
        let last = last.context("a conversation without turns")?;
        let mut project = Project::new(&dir.join(name), dir.join(format!("{name}.db")))?;
        // `none` is no model that the settings could name.
        project.config.memory.embedder.model = (vectors != "none").then(|| vectors.to_owned());
        let is_recorded = dir.join(format!("{name}.db")).exists();
        let engine = engine(&project, vectors)?;
        if !is_recorded {
            let recorded = record_file(&engine, &file, last)?;
            ensure!(
                recorded.added == turns.len() as u64 && recorded.warnings.is_empty(),
                "{name}: {} turns, but {recorded:?}",
                turns.len()
            );
        }
        Ok(Self {
            name: name.to_owned(),
            project,
            vectors: vectors.to_owned(),
            engine,
            turns,
            now: Timestamp::from_millisecond(last.as_millisecond() + 24 * 60 * 60 * 1000)?,
        })
    }

    fn questions<'q>(&self, all: &'q [Question]) -> impl Iterator<Item = &'q Question> {
        all.iter().filter(|one| one.conversation == self.name)
    }

    fn ask(&self, query: &str, budget: u64) -> anyhow::Result<Recalled> {
        ask(&self.engine, query, budget, self.now)
    }
}

/// Returns an engine that has seen nothing, over the store of a project.
fn engine(project: &Project, vectors: &str) -> anyhow::Result<Engine> {
    match vectors {
        "none" => Ok(Engine::builder()
            .config(project.config.clone())
            .embedder(Arc::new(NoVectors))
            .store(project.store()?)
            .build()?),
        _ => project.engine(&project.store()?),
    }
}

fn record_file(engine: &Engine, file: &Path, now: Timestamp) -> anyhow::Result<MemoryRecorded> {
    let mut lines = Lines {
        name: "records",
        reader: &mut BufReader::new(File::open(file)?),
        progress: &mut |_, _| {},
    };
    Ok(engine.memory()?.record_lines(&mut lines, Some(now))?)
}

fn ask(engine: &Engine, query: &str, budget: u64, now: Timestamp) -> anyhow::Result<Recalled> {
    let request = ContextRequest {
        query: query.to_owned(),
        max_tokens: budget,
        ..ContextRequest::default()
    };
    let how = Recall {
        model: Some(MODEL),
        now: Some(now),
        ..Recall::default()
    };
    Ok(engine.memory()?.recall(&request, &how)?)
}

/// Answers that are not what they say they are.
#[derive(Default)]
struct Wrong {
    told: Vec<String>,
    answers: usize,
    digest: Digest,
}

/// A hash of all answers. Two versions with the same digest answer alike.
#[derive(Clone, Copy)]
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        // FNV-1a, 64 bits.
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, recalled: &Recalled) {
        let answer = serde_json::to_vec(&*recalled.context).unwrap_or_default();
        for byte in answer {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn figure(self) -> String {
        format!("{:016x}", self.0)
    }
}

impl Wrong {
    /// Counts an answer again, and looks for its components in its text, where
    /// each stands behind the one before.
    fn check(&mut self, recalled: &Recalled, budget: u64, query: &str) {
        let context = &recalled.context;
        self.digest.add(recalled);
        let (tokens, said) = (counter().count(&context.content), context.token_count);
        if tokens != said || tokens > budget {
            self.tell(format!(
                "`{query}` into {budget}: {tokens} tokens, said to be {said}"
            ));
        }
        let mut rest = context.content.as_str();
        for part in &context.components {
            match rest.split_once(part.content.as_str()) {
                Some((_, behind)) if !part.content.as_str().trim().is_empty() => rest = behind,
                _ => {
                    let id = &part.source;
                    self.tell(format!("`{query}` into {budget}: {id} is not in the text"));
                    return;
                }
            }
        }
    }

    fn tell(&mut self, what: String) {
        self.answers += 1;
        if self.told.len() < MOST_TOLD {
            self.told.push(what);
        }
    }
}

/// Which part of the evidence was there, summed over questions.
#[derive(Default)]
struct Shares {
    all: Mean,
    by_category: BTreeMap<String, Mean>,
    by_conversation: BTreeMap<String, Mean>,
}

#[derive(Default)]
struct Mean {
    sum: f64,
    of: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.of += 1;
    }

    /// Returns the mean in percent.
    fn percent(&self) -> f64 {
        100.0 * self.sum / self.of as f64
    }
}

impl Shares {
    fn note(&mut self, question: &Question, is_there: impl Fn(&str) -> bool) {
        let there = question.evidence.iter().filter(|id| is_there(id)).count();
        let share = there as f64 / question.evidence.len() as f64;
        self.all.add(share);
        let category = self.by_category.entry(question.category.clone());
        category.or_default().add(share);
        let conversation = self.by_conversation.entry(question.conversation.clone());
        conversation.or_default().add(share);
    }

    fn figures(&self) -> Value {
        let each = |of: &BTreeMap<String, Mean>| -> BTreeMap<String, Value> {
            let figure = |mean: &Mean| json!({"percent": mean.percent(), "questions": mean.of});
            of.iter()
                .map(|(name, mean)| (name.clone(), figure(mean)))
                .collect()
        };
        json!({
            "all": self.all.percent(),
            "by_category": each(&self.by_category),
            "by_conversation": each(&self.by_conversation),
        })
    }
}

/// Asks every question once a pass. The budget differs a little from pass to
/// pass, so that no context is one that was kept; the texts have been read
/// before.
fn warm(
    conversations: &[Conversation],
    questions: &[Question],
    budget: u64,
    wrong: &mut Wrong,
) -> anyhow::Result<Value> {
    let mut passes = Vec::new();
    for pass in 0..runs(3) as u64 {
        let budget = budget - 1 - pass;
        let mut times = Times::default();
        for conversation in conversations {
            for question in conversation.questions(questions) {
                let recalled = times.take(|| conversation.ask(&question.query, budget))?;
                wrong.check(&recalled, budget, &question.query);
            }
        }
        passes.push(times);
    }
    Ok(middle(&passes))
}

/// Asks with a store that was just opened and an engine that has seen nothing.
fn cold(conversations: &[Conversation], questions: &[Question]) -> anyhow::Result<Value> {
    let mut passes = Vec::new();
    for pass in 0..runs(3) {
        let mut times = Times::default();
        for conversation in conversations {
            let mut own = conversation.questions(questions).skip(pass);
            let question = own.next().context("a question for each conversation")?;
            times.take(|| {
                let engine = engine(&conversation.project, &conversation.vectors)?;
                ask(&engine, &question.query, TIMED, conversation.now)
            })?;
        }
        passes.push(times);
    }
    Ok(middle(&passes))
}

/// How long things took, by the clock and in CPU time.
#[derive(Default)]
struct Times {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Times {
    fn take<T>(&mut self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let (cpu, wall) = (cpu_ms(), Instant::now());
        let result = work()?;
        self.wall.push(milliseconds(wall));
        self.cpu.push(cpu_ms() - cpu);
        Ok(result)
    }

    fn figures(&self) -> Value {
        middle(std::slice::from_ref(self))
    }
}

/// Returns the medians over passes of what half and 19 of 20 stay below.
fn middle(passes: &[Times]) -> Value {
    let at = |of: fn(&Times) -> &Vec<f64>, part: f64| {
        let mut each: Vec<f64> = passes
            .iter()
            .map(|pass| percentile(of(pass), part))
            .collect();
        each.sort_by(f64::total_cmp);
        each[each.len() / 2]
    };
    json!({
        "queries": passes.first().map_or(0, |pass| pass.wall.len()),
        "passes": passes.len(),
        "wall_p50_ms": at(|times| &times.wall, 0.5),
        "wall_p95_ms": at(|times| &times.wall, 0.95),
        "cpu_p50_ms": at(|times| &times.cpu, 0.5),
        "cpu_p95_ms": at(|times| &times.cpu, 0.95),
    })
}

fn percentile(times: &[f64], part: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * part).round() as usize]
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
