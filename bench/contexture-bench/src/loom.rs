//! A place at the end of a long path through a tree, against a short one.

use std::path::Path;

use anyhow::ensure;
use contexture::loom::NewNode;
use contexture::store::{
    Author, Edge, EdgeKind, EdgeSource, MessageContent, Node, Preferences, SourceRole, Tree,
    TreeDocument, TreeMode, Trees as _, TruncationStrategy,
};
use contexture::{Assembled, Engine, Request};
use serde_json::{Value, json};

use crate::project::{self, Project};
use crate::{counter, cpu_ms, runs};

const BUDGET: u64 = 100_000;

/// About 200 tokens.
const TEXT: &str = "The path through the garden turned twice before it reached the wall, and each \
time it turned the old man stopped to look at what he had planted there: beans first, then the \
small bitter apples that nobody but him would eat, then a row of something tall whose name he had \
forgotten. He said the names of the others aloud, one after another, the way other people count \
steps, and when he came to the tall row he only nodded at it. Behind the wall a train went by. He \
waited until it had passed, because he did not like to be in the middle of a sentence when it \
came, and then he said that in spring he would move the apples closer to the house, where the \
ground held water longer and where he could see them from the window while he wrote his letters. \
Nobody answered. The dog had gone ahead and lay in the shade of the tool shed, with its nose on \
its paws, and looked at the gate as if somebody were about to come through it.";

/// Compares two trees that differ only in the length of their path.
pub(crate) fn loom(nodes: [u64; 2], dir: &Path) -> anyhow::Result<()> {
    let tokens = counter().count(TEXT);
    ensure!((180..=220).contains(&tokens), "{tokens} tokens a node");
    let mut made = Vec::new();
    for nodes in nodes {
        made.push(Subject::new(nodes, dir)?);
    }
    for _ in 0..runs(15) {
        for subject in &mut made {
            subject.cold()?;
        }
    }
    // The two take turns, so that a busy machine is busy for both.
    for strategy in ["middle", "window"] {
        for subject in &mut made {
            subject.warm(strategy)?;
        }
        for _ in 0..runs(51) {
            for subject in &mut made {
                subject.warm(strategy)?;
            }
        }
    }
    for _ in 0..runs(51) {
        for subject in &mut made {
            subject.grow()?;
        }
    }
    let [small, large] = made.as_mut_slice() else {
        anyhow::bail!("two trees are compared");
    };
    println!(
        "{}",
        json!({"budget": BUDGET, "node_tokens": tokens, "small": small.figures(), "large": large.figures()})
    );
    Ok(())
}

struct Subject {
    nodes: u64,
    project: Project,
    engine: Engine,
    cold: Vec<f64>,
    middle: Vec<f64>,
    window: Vec<f64>,
    grown: Vec<f64>,
    imported_ms: f64,
    kept: u64,
    tokens: u64,
    head: String,
}

impl Subject {
    fn new(nodes: u64, dir: &Path) -> anyhow::Result<Self> {
        let dir = dir.join(nodes.to_string());
        std::fs::create_dir_all(&dir)?;
        let mut project = Project::new(&dir, dir.join("loom.db"))?;
        // Keeping requests is another part's figure.
        project.config.snapshots.keep = false;
        let store = project.store()?;
        let before = cpu_ms();
        store.import_tree(&document("middle", nodes, None), project::clock(0))?;
        let imported_ms = cpu_ms() - before;
        let window = Some(TruncationStrategy::RollingWindow);
        store.import_tree(&document("window", nodes, window), project::clock(0))?;
        Ok(Self {
            nodes,
            engine: project.engine(&store)?,
            project,
            cold: Vec::new(),
            middle: Vec::new(),
            window: Vec::new(),
            grown: Vec::new(),
            imported_ms,
            kept: 0,
            tokens: 0,
            head: format!("middle-{:06}", nodes - 1),
        })
    }

    fn assemble(
        &self,
        engine: &Engine,
        tree: &str,
        head: &str,
    ) -> anyhow::Result<(f64, Assembled)> {
        let request = Request {
            tree: Some(tree.to_owned()),
            head: Some(head.to_owned()),
            max_tokens: Some(BUDGET),
            now: Some(project::clock(0)),
            ..Request::default()
        };
        let before = cpu_ms();
        let assembled = engine.assemble(&self.project.root, &request)?;
        let time = cpu_ms() - before;
        let used = assembled.report.budget.used;
        let free = BUDGET - 1024 - used;
        ensure!(free < 300, "{free} tokens are left unused");
        Ok((time, assembled))
    }

    /// Opens the store and assembles with an engine that has seen nothing.
    fn cold(&mut self) -> anyhow::Result<()> {
        let before = cpu_ms();
        let engine = self.project.engine(&self.project.store()?)?;
        let (_, assembled) = self.assemble(&engine, "middle", &self.head)?;
        self.cold.push(cpu_ms() - before);
        self.tokens = assembled.report.budget.used;
        self.kept = assembled.loom().map_or(0, |loom| loom.nodes_kept);
        Ok(())
    }

    fn warm(&mut self, tree: &str) -> anyhow::Result<()> {
        let head = format!("{tree}-{:06}", self.nodes - 1);
        let (time, _) = self.assemble(&self.engine, tree, &head)?;
        match tree {
            "middle" => self.middle.push(time),
            _ => self.window.push(time),
        }
        Ok(())
    }

    /// Goes on by one node, and assembles there.
    fn grow(&mut self) -> anyhow::Result<()> {
        let new = NewNode::text(Author::Human, TEXT, Some(&self.head));
        self.head = self.engine.add_node("middle", &new, None)?.id;
        let (time, _) = self.assemble(&self.engine, "middle", &self.head)?;
        self.grown.push(time);
        Ok(())
    }

    fn figures(&mut self) -> Value {
        let middle = |times: &mut Vec<f64>| -> f64 {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        json!({
            "nodes": self.nodes,
            "kept": self.kept,
            "tokens": self.tokens,
            "import_cpu_ms": self.imported_ms,
            "cold_cpu_ms": middle(&mut self.cold),
            "middle_cpu_ms": middle(&mut self.middle),
            "window_cpu_ms": middle(&mut self.window),
            "grown_cpu_ms": middle(&mut self.grown),
        })
    }
}

fn document(tree: &str, nodes: u64, strategy: Option<TruncationStrategy>) -> TreeDocument {
    let id = |n: u64| format!("{tree}-{n:06}");
    TreeDocument {
        tree: Tree {
            id: tree.to_owned(),
            mode: TreeMode::Dialogue,
            title: None,
            system_context: Some("Go on with the story.".to_owned()),
            buffer_mode_system_context: false,
            preferences: Preferences {
                truncation_strategy: strategy,
                ..Preferences::default()
            },
            created_at: Some(project::clock(0)),
        },
        agents: Vec::new(),
        nodes: (0..nodes)
            .map(|n| Node {
                id: id(n),
                local_id: None,
                author: if n % 2 == 0 {
                    Author::Human
                } else {
                    Author::Model
                },
                author_agent_id: None,
                content: MessageContent::Text(format!("{n}: {TEXT}")),
                edited_from: None,
                metadata: None,
                created_at: Some(project::clock(n as i64)),
                raw_response: None,
            })
            .collect(),
        edges: (1..nodes)
            .map(|n| Edge {
                id: format!("to-{}", id(n)),
                kind: EdgeKind::Continuation,
                sources: vec![EdgeSource {
                    node_id: id(n - 1),
                    role: SourceRole::Primary,
                }],
                target_node_id: id(n),
            })
            .collect(),
        paths: Vec::new(),
        memories: Vec::new(),
    }
}
