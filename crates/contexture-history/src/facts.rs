//! The facts of a conversation: requests, outcomes, failures, files and
//! decisions.
//!
//! [`Facts`] are read from recorded turns. They are stored with each compaction
//! and continued by the next one, so that a fact of the first turn is as exact
//! after ten compactions as after one. [`Facts::write`] makes the summary.
//!
//! The recorded outcome decides whether a call succeeded: the error flag, the
//! exit code or the test result. Words inside the content of a file are not an
//! outcome.

mod prose;
mod shell;
mod tools;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use contexture_shorten::cues::{
    BOUND, DECIDE, DONE, FACT, HEDGE, INSTRUCT, Lexicon, NEXT, PLAN, PREFER, STRONG, Signs, UNDO,
    is_trivial,
};
use prose::{normalise, sentences, shorten};
use shell::Use;
pub(crate) use tools::ReadCall;
use tools::{Access, Call, Outcome};
pub use write::SummaryLimits;

/// The author of a [`Passage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The arguments of a tool call, as JSON or as plain text.
    ToolCall,
    /// The result of a tool call.
    ToolResult,
    /// The operator, between the messages.
    Instruction,
    /// Anything else, such as the error that ended a turn.
    Other,
}

/// A piece of the conversation that is summarised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage<'a> {
    /// The author.
    pub speaker: Speaker,
    /// The text. Secrets are already masked.
    pub text: &'a str,
    /// Whether it is an error result, or the error of a turn.
    pub failed: bool,
    /// The number of its turn.
    pub turn: u64,
    /// The name of the tool, for calls and results.
    pub tool: Option<&'a str>,
    /// The id of the call, for calls and results.
    pub call: Option<&'a str>,
}

/// The facts of a conversation so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The messages of the user, oldest first.
    pub messages: Vec<Statement>,
    /// The number of messages that were removed from the list.
    pub messages_dropped: u64,
    /// Sentences with constraints, from messages that were removed from the
    /// list.
    pub constraints: Vec<Statement>,
    /// Instructions of the operator between the messages, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Statement>,
    /// Calls that failed, oldest first.
    pub failures: Vec<Failure>,
    /// The number of failures that were removed from the list.
    pub failures_dropped: u64,
    /// Commands and other calls that succeeded, with the line that sums up the
    /// result.
    pub results: Vec<CallResult>,
    /// Files that the conversation worked with.
    pub files: Vec<FileUse>,
    /// Decisions, oldest first.
    pub decisions: Vec<Decision>,
    /// The model's statements about completed work.
    pub done: Vec<Statement>,
    /// The model's findings.
    pub findings: Vec<Statement>,
    /// The model's latest statements about its work and the next steps.
    pub next: Vec<Statement>,
    /// The open items of plans and to-do lists, as the latest calls have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_items: Vec<OpenItem>,
    /// The end of the model's message that the user's latest message agrees to.
    /// Empty if the latest message can be understood alone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proposal: String,
    /// The end of the model's latest message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub latest_said: String,
    /// A summary in prose: by a language model, or of an earlier version.
    pub notes: String,
}

/// An open item of a plan or of a to-do list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenItem {
    /// The name of the tool that has the list.
    pub tool: String,
    /// The text of the item, with its state.
    pub text: String,
}

/// A text and its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// The number of the turn.
    pub turn: u64,
    /// The text, verbatim.
    pub text: String,
}

/// A call that failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The number of the turn of the latest failure.
    pub turn: u64,
    /// The command, or the tool and its subject.
    pub call: String,
    /// The lines that describe the error, verbatim, the latest last.
    pub errors: Vec<String>,
    /// True if the lines only state that the call failed, without a reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bland: bool,
    /// The number of times that the call failed.
    pub times: u64,
    /// Whether the same call succeeded later.
    pub is_solved: bool,
}

/// A command that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The number of the turn of the latest success.
    pub turn: u64,
    /// The command.
    pub call: String,
    /// The line that sums up the output. Empty if there is none.
    pub result: String,
    /// The number of times that the command succeeded.
    pub times: u64,
}

/// The accesses to a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileUse {
    /// The number of the turn of the latest use.
    pub turn: u64,
    /// The path, as calls spell it.
    pub path: String,
    /// The number of times that the file was read.
    #[serde(skip_serializing_if = "is_zero")]
    pub read: u64,
    /// The number of times that a part of it was changed.
    #[serde(skip_serializing_if = "is_zero")]
    pub edited: u64,
    /// The number of times that it was written whole.
    #[serde(skip_serializing_if = "is_zero")]
    pub written: u64,
    /// The number of times that a command or a text mentions it.
    #[serde(skip_serializing_if = "is_zero")]
    pub named: u64,
    /// The change that ended its content: `deleted`, `moved to PATH` or
    /// `reverted`. Empty if there is none, or if the file was changed after it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended: String,
}

/// A decision, and the role that made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The number of the turn.
    pub turn: u64,
    /// Whether the user decided. Otherwise the model did.
    pub by_user: bool,
    /// The sentence, verbatim.
    pub text: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The most bytes of user messages that are kept verbatim.
const MESSAGE_BYTES: usize = 96 * 1024;
/// The most bytes of one user message that are kept.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// The most bytes of the model's message before a consent that are kept.
const PROPOSAL_BYTES: usize = 1_000;
/// The most entries of each list. Older entries are dropped first.
const MOST_ENTRIES: usize = 400;
/// The most entries of lists of sentences.
const MOST_SENTENCES: usize = 60;
/// The most error lines of one call.
const MOST_ERRORS: usize = 12;
/// The most bytes of a sentence that is kept.
const SENTENCE_BYTES: usize = 300;

impl Facts {
    /// Returns facts that are known only as the text of a summary.
    pub fn of_summary(summary: &str) -> Self {
        Self {
            notes: write::notes_of(summary),
            ..Self::default()
        }
    }

    /// Adds what passages say, oldest first.
    ///
    /// The cost is linear in their size.
    pub fn read(&mut self, passages: &[Passage<'_>]) {
        let lexicon = Lexicon::shared();
        let mut calls = Calls::default();
        let mut places = FilePlaces::of(&self.files);
        let mut latest = latest_said(passages, lexicon);
        for (at, passage) in passages.iter().enumerate() {
            match passage.speaker {
                Speaker::User => self.read_user(passage, &mut places, lexicon),
                Speaker::Assistant => {
                    match latest.remove(&at) {
                        Some(said) => self.add_said(passage.turn, said),
                        // Of earlier passages, only the decisions are kept.
                        None if lexicon.may_have(passage.text, DECIDE) => {
                            self.add_said(passage.turn, Said::read(passage.text, lexicon));
                        }
                        None => {}
                    }
                    let text = passage.text.trim();
                    if !text.is_empty() {
                        self.latest_said = prose::ending(text, PROPOSAL_BYTES);
                    }
                }
                Speaker::ToolCall => {
                    let call = Call::read(passage.tool, passage.text);
                    calls.begin(passage, call);
                }
                Speaker::ToolResult => {
                    let call = calls.end(passage);
                    self.read_result(passage, &call, &mut places, lexicon);
                }
                Speaker::Instruction => self.instruct(passage),
                Speaker::Other if passage.failed => {
                    let error = shorten(passage.text.trim(), SENTENCE_BYTES);
                    self.fail(passage.turn, String::new(), vec![error], false);
                }
                Speaker::Other => {}
            }
        }
        // A call without a result may still have changed the file, but not after
        // a later call deleted it.
        for (turn, mut call) in calls.rest() {
            call.uses.retain(|(_, path)| {
                let file = places.0.get(path.as_str()).map(|at| &self.files[*at]);
                file.is_none_or(|file| file.ended.is_empty())
            });
            self.use_files(turn, &call, "", &mut places);
            self.plan(&call);
        }
        self.bound(lexicon);
    }

    /// Adds an instruction. One that is repeated is kept once.
    fn instruct(&mut self, passage: &Passage<'_>) {
        let text = shorten(passage.text.trim(), LONGEST_MESSAGE);
        self.instructions.retain(|known| known.text != text);
        self.instructions.push(Statement {
            turn: passage.turn,
            text,
        });
    }

    /// Adds a message of the user.
    fn read_user(&mut self, passage: &Passage<'_>, places: &mut FilePlaces, lexicon: &Lexicon) {
        let text = passage.text.trim();
        if text.is_empty() {
            return;
        }
        // The model's earlier plans belong to an earlier request.
        self.next.clear();
        self.proposal = match prose::is_answer(text, &self.latest_said) {
            true => self.latest_said.clone(),
            false => String::new(),
        };
        // Most messages neither undo nor decide anything.
        let may_decide = lexicon.may_have(text, UNDO | DECIDE | PREFER);
        // Work that the user undid is not done.
        if may_decide && prose::undoes(text, lexicon) {
            self.done.clear();
        }
        self.messages.push(Statement {
            turn: passage.turn,
            text: prose::cut_middle(text, LONGEST_MESSAGE),
        });
        for path in prose::paths(text) {
            self.file(passage.turn, path, places).named += 1;
        }
        let is_first = self.messages.len() == 1 && self.messages_dropped == 0;
        if is_first || !may_decide || !lexicon.may_have(text, DECIDE | PREFER) {
            return;
        }
        for piece in prose::pieces(text) {
            // Most pieces decide nothing, and need not be split into sentences.
            if !lexicon.may_have(piece, DECIDE | PREFER) {
                continue;
            }
            for sentence in sentences(piece) {
                if sentence.is_code || !lexicon.may_have(&sentence.text, DECIDE | PREFER) {
                    continue;
                }
                let normal = normalise(&sentence.text);
                let signs = lexicon.read(&normal);
                let decides = signs.has(DECIDE | PREFER) && !signs.has(HEDGE);
                if decides && says_enough(&sentence.text, &normal) {
                    self.decide(passage.turn, true, &sentence.text);
                }
            }
        }
    }

    /// Adds what the model said in a turn.
    fn add_said(&mut self, turn: u64, said: Said) {
        for (kind, text) in said.statements {
            match kind {
                Kind::Decision => self.decide(turn, false, &text),
                Kind::Done => self.done.push(Statement { turn, text }),
                Kind::Finding => self.findings.push(Statement { turn, text }),
                Kind::Question | Kind::Next | Kind::Other => {}
            }
        }
        if !said.next.is_empty() {
            let next = said.next.into_iter();
            self.next = next.map(|text| Statement { turn, text }).collect();
        }
    }

    fn read_result(
        &mut self,
        passage: &Passage<'_>,
        call: &Call,
        places: &mut FilePlaces,
        lexicon: &Lexicon,
    ) {
        match Outcome::of(call, passage.text, passage.failed, lexicon) {
            Outcome::Failed { errors, is_bland } => {
                // A file that could not be read or changed is named.
                for (_, path) in &call.uses {
                    self.file(passage.turn, path, places).named += 1;
                }
                self.fail(passage.turn, call.label.clone(), errors, is_bland);
            }
            Outcome::Succeeded(result) => {
                self.use_files(passage.turn, call, passage.text, places);
                self.plan(call);
                // The exit code of a pipe is that of its last command. A pipe that
                // showed a failure before would show it again.
                let is_unknown = call.is_piped() && result.is_none();
                let key = call.key();
                let same = |failure: &&mut Failure| match is_unknown {
                    true => failure.call == call.label,
                    false => tools::key(&failure.call) == key,
                };
                for failure in self.failures.iter_mut().filter(same) {
                    failure.is_solved = !failure.call.is_empty();
                }
                if is_unknown {
                    return;
                }
                let is_work = match call.access {
                    Access::Run | Access::Other => !call.is_chore(),
                    // Files are listed on their own.
                    Access::Read | Access::Edit | Access::Write => false,
                };
                if is_work {
                    self.succeed(passage.turn, key, result);
                }
            }
        }
    }

    fn fail(&mut self, turn: u64, call: String, errors: Vec<String>, is_bland: bool) {
        let key = tools::key(&call);
        let same = |failure: &Failure| !call.is_empty() && tools::key(&failure.call) == key;
        let mut failure = match self.failures.iter().rposition(same) {
            Some(at) => self.failures.remove(at),
            None => Failure {
                is_bland: true,
                ..Failure::default()
            },
        };
        failure.times += 1;
        (failure.turn, failure.is_solved) = (turn, false);
        failure.is_bland &= is_bland;
        failure.call = call;
        for error in errors.into_iter().rev() {
            failure.errors.retain(|known| *known != error);
            failure.errors.push(error);
        }
        drop_oldest(&mut failure.errors, MOST_ERRORS);
        self.failures.push(failure);
    }

    fn succeed(&mut self, turn: u64, call: &str, result: Option<String>) {
        let result = result.unwrap_or_default();
        if let Some(known) = self.results.iter_mut().rev().find(|r| r.call == call) {
            known.times += 1;
            (known.turn, known.result) = (turn, result);
            return;
        }
        self.results.push(CallResult {
            turn,
            call: call.to_owned(),
            result,
            times: 1,
        });
    }

    /// Adds the files of a call. Files that its output reports as missing are
    /// only named.
    fn use_files(&mut self, turn: u64, call: &Call, output: &str, places: &mut FilePlaces) {
        for (how, path) in &call.uses {
            let is_denied = call.is_denied(path, output);
            let file = self.file(turn, path, places);
            match how {
                _ if is_denied => file.named += 1,
                Use::Read => file.read += 1,
                Use::Edit => {
                    file.edited += 1;
                    file.ended.clear();
                }
                Use::Write => {
                    file.written += 1;
                    file.ended.clear();
                }
                Use::Delete => file.ended = "deleted".to_owned(),
                Use::Move(to) => file.ended = format!("moved to {to}"),
                Use::Revert => file.ended = "reverted".to_owned(),
                Use::Name => file.named += 1,
            }
        }
    }

    /// Replaces the open items of a plan by those of its latest call.
    fn plan(&mut self, call: &Call) {
        let Some(plan) = &call.plan else { return };
        self.open_items.retain(|item| item.tool != plan.tool);
        let items = plan.open.iter().map(|text| OpenItem {
            tool: plan.tool.clone(),
            text: text.clone(),
        });
        self.open_items.extend(items);
        drop_oldest(&mut self.open_items, MOST_SENTENCES);
    }

    fn file(&mut self, turn: u64, path: &str, places: &mut FilePlaces) -> &mut FileUse {
        let at = match places.0.get(path) {
            Some(at) => *at,
            None => {
                places.0.insert(path.to_owned(), self.files.len());
                self.files.push(FileUse {
                    path: path.to_owned(),
                    ..FileUse::default()
                });
                self.files.len() - 1
            }
        };
        self.files[at].turn = turn;
        &mut self.files[at]
    }

    fn decide(&mut self, turn: u64, by_user: bool, text: &str) {
        let text = shorten(text, SENTENCE_BYTES);
        if self.decisions.iter().any(|known| known.text == text) {
            return;
        }
        // A retracted decision would mislead.
        if let Some(what) = prose::given_up(&text) {
            self.decisions.retain(|known| {
                let chosen = known.text.split(" instead of ").next().unwrap_or("");
                !chosen.contains(what)
            });
        }
        self.decisions.push(Decision {
            turn,
            by_user,
            text,
        });
    }

    /// Drops the oldest entries of lists that became too long. Constraints of
    /// dropped messages are kept.
    fn bound(&mut self, lexicon: &Lexicon) {
        let mut bytes: usize = self.messages.iter().map(|said| said.text.len()).sum();
        // The first message is kept, because it states the purpose of the
        // conversation.
        let mut excess = 0;
        while bytes > MESSAGE_BYTES && self.messages.len() - excess > 2 {
            excess += 1;
            bytes -= self.messages[excess].text.len();
        }
        self.messages_dropped += excess as u64;
        let mut stated = Newest::of(MOST_ENTRIES);
        let dropped = self.messages.iter().take(excess + 1).skip(1);
        for Statement { turn, text } in dropped.rev() {
            if stated.is_full() {
                break;
            }
            let found = constraints(text, lexicon).into_iter().rev();
            found.for_each(|text| stated.add(Statement { turn: *turn, text }));
        }
        stated.add_all(&mut self.constraints);
        if excess > 0 {
            self.messages.drain(1..=excess);
        }
        let excess = self.failures.len().saturating_sub(MOST_ENTRIES);
        self.failures_dropped += excess as u64;
        drop_oldest(&mut self.failures, MOST_ENTRIES);
        drop_oldest(&mut self.results, MOST_ENTRIES);
        Newest::of(MOST_SENTENCES).add_all(&mut self.done);
        Newest::of(MOST_SENTENCES).add_all(&mut self.findings);
        drop_oldest(&mut self.decisions, MOST_SENTENCES);
        drop_oldest(&mut self.instructions, MOST_SENTENCES);
        // A path that is the end of another is the same file, spelled shorter.
        let paths: Vec<String> = self.files.iter().map(|file| file.path.clone()).collect();
        let ends: HashSet<&str> = (paths.iter())
            .flat_map(|path| path.match_indices('/').map(|(at, _)| &path[at + 1..]))
            .collect();
        self.files
            .retain(|file| file.is_worked_on() || !ends.contains(file.path.as_str()));
        if self.files.len() > MOST_ENTRIES {
            self.files.sort_by_key(FileUse::weight);
            drop_oldest(&mut self.files, MOST_ENTRIES);
        }
    }

    /// Returns the facts that `summary` does not contain literally: the latest
    /// request, constraints of the user, errors and paths.
    pub fn missing_from(&self, summary: &str) -> Vec<String> {
        let lexicon = Lexicon::shared();
        let mut missing = Vec::new();
        let mut check = |kind: &str, text: &str| {
            let text = text.trim();
            if !text.is_empty() && !summary.contains(text) {
                missing.push(format!("{kind}: {text}"));
            }
        };
        if let Some(goal) = self.messages.last() {
            check("request", prose::clip(&goal.text, SENTENCE_BYTES));
        }
        for message in &self.messages {
            for constraint in constraints(&message.text, lexicon) {
                check("constraint", &constraint);
            }
        }
        for constraint in &self.constraints {
            check("constraint", &constraint.text);
        }
        for error in self.failures.iter().filter_map(|f| f.errors.last()) {
            check("error", prose::clip(error, 80));
        }
        for file in self.files.iter().filter(|file| file.is_worked_on()) {
            check("file", &file.path);
        }
        missing
    }
}

impl FileUse {
    /// Returns true if a call read or changed the file.
    fn is_worked_on(&self) -> bool {
        self.read + self.edited + self.written > 0 || !self.ended.is_empty()
    }

    /// Returns the rank by which files are kept: changed ones first, then read
    /// ones, then the latest.
    fn weight(&self) -> (bool, bool, u64) {
        let is_changed = self.edited + self.written > 0 || !self.ended.is_empty();
        (is_changed, self.read > 0, self.turn)
    }
}

/// The subject of a sentence of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Question,
    Next,
    Decision,
    Done,
    Finding,
    Other,
}

impl Kind {
    /// The signs that decide about the kind of a sentence, except [`HEDGE`],
    /// which only excludes kinds.
    const SIGNS: u16 = Self::KEPT | NEXT | PLAN;

    /// The signs of decisions, of completed work and of findings.
    const KEPT: u16 = STRONG | DECIDE | DONE | FACT;

    fn of(text: &str, normal: &str, signs: &Signs) -> Self {
        if text.ends_with(['?', '？']) {
            return Kind::Question;
        }
        match () {
            () if signs.has(STRONG) && !signs.has(PLAN) => Kind::Finding,
            () if signs.has(DECIDE) && !signs.has(HEDGE) => Kind::Decision,
            () if signs.has(NEXT | PLAN) => Kind::Next,
            () if signs.has(DONE) && prose::is_negated(normal) => Kind::Next,
            () if signs.has(DONE) && !signs.has(HEDGE) && prose::reports_work(normal) => Kind::Done,
            () if signs.has(FACT) => Kind::Finding,
            () => Kind::Other,
        }
    }
}

/// Returns false for a sentence that means nothing by itself.
fn says_enough(text: &str, normal: &str) -> bool {
    !is_trivial(normal)
        && !text.ends_with([':', '：'])
        && prose::content_words(normal).nth(2).is_some()
}

/// Returns the sentences of a user's message that state a constraint.
fn constraints(text: &str, lexicon: &Lexicon) -> Vec<String> {
    let states = |sentence: &prose::Sentence| {
        if !lexicon.may_have(&sentence.text, BOUND | INSTRUCT) {
            return false;
        }
        let normal = normalise(&sentence.text);
        let is_bound = lexicon.read(&normal).has(BOUND)
            || !sentence.is_code && prose::instructs(&sentence.text, &normal);
        is_bound && says_enough(&sentence.text, &normal)
    };
    let mut stated = Vec::new();
    for piece in prose::pieces(text) {
        if !lexicon.may_have(piece, BOUND | INSTRUCT) {
            continue;
        }
        let mut found = sentences(piece);
        found.retain(states);
        let found = found.into_iter().map(|sentence| sentence.text).collect();
        stated.extend(as_written(piece, found));
    }
    stated
}

/// Returns the constraints in a piece of a message. A short piece of several
/// lines is kept whole: its lines explain each other, and the words stay as
/// they were written.
fn as_written(piece: &str, found: Vec<String>) -> Vec<String> {
    let whole = piece.trim();
    if !found.is_empty() && whole.contains('\n') && whole.len() <= SENTENCE_BYTES {
        return vec![whole.to_owned()];
    }
    let found = found.iter();
    found.map(|text| shorten(text, SENTENCE_BYTES)).collect()
}

/// The newest sentences, and of repeated ones the last.
struct Newest {
    most: usize,
    // The newest first.
    kept: Vec<Statement>,
    seen: BTreeSet<String>,
}

impl Newest {
    fn of(most: usize) -> Self {
        Self {
            most,
            kept: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= self.most
    }

    /// Adds a sentence that is older than all before.
    fn add(&mut self, said: Statement) {
        if !self.is_full() && self.seen.insert(prose::key(&normalise(&said.text))) {
            self.kept.push(said);
        }
    }

    /// Adds a list of older sentences, and makes it the list of all.
    fn add_all(mut self, list: &mut Vec<Statement>) {
        while !self.is_full()
            && let Some(said) = list.pop()
        {
            self.add(said);
        }
        self.kept.reverse();
        *list = self.kept;
    }
}

/// What a passage of the model says.
#[derive(Default)]
struct Said {
    /// The sentences that are of a kind, in order.
    statements: Vec<(Kind, String)>,
    /// The latest statements about its work and the next steps.
    next: Vec<String>,
}

/// The most statements about next steps that are kept of a passage.
const MOST_NEXT: usize = 3;

impl Said {
    fn read(text: &str, lexicon: &Lexicon) -> Self {
        let (mut statements, mut next) = (Vec::new(), Vec::new());
        // Sentences that are of no kind, since the last one that is of one.
        let mut others: Vec<String> = Vec::new();
        for sentence in sentences(text) {
            if sentence.is_code || sentence.text.starts_with('|') {
                continue;
            }
            // A line such as "Now let me run the tests:" introduces a call.
            let whole = sentence.text.len();
            let mut text = sentence.text;
            text.truncate(text.trim_end_matches([':', '：']).len());
            let is_heading = text.len() < whole;
            if text.len() > SENTENCE_BYTES {
                text = shorten(&text, SENTENCE_BYTES);
            }
            // Most sentences are of no kind.
            if !text.ends_with(['?', '？']) && !lexicon.may_have(&text, Kind::SIGNS) {
                if !is_heading {
                    others.push(text);
                }
                continue;
            }
            // A built-in function was built by others.
            let normal = normalise(&text).replace("built in ", "builtin ");
            let signs = lexicon.read(&normal);
            if is_heading && !signs.has(PLAN) {
                continue;
            }
            let kind = Kind::of(&text, &normal, &signs);
            if kind == Kind::Other {
                others.push(text);
                continue;
            }
            if !says_enough(&text, &normal) {
                continue;
            }
            others.clear();
            if matches!(kind, Kind::Question | Kind::Next) {
                next.push(text.clone());
            }
            statements.push((kind, text));
        }
        // The last statement describes the state of the work best.
        if next.is_empty() {
            let mut others = others.into_iter().rev();
            let other = others.find(|text| says_enough(text, &normalise(text)));
            let last = || statements.last().map(|(_, text)| text.clone());
            next.extend(other.or_else(last));
        }
        let first = next.len().saturating_sub(MOST_NEXT);
        next.drain(..first);
        Self { statements, next }
    }
}

/// Reads the latest passages of the model, by their index: those after the
/// user's latest message, and as many before it as have the statements that are
/// kept. Earlier ones would be dropped again.
fn latest_said(passages: &[Passage<'_>], lexicon: &Lexicon) -> BTreeMap<usize, Said> {
    let asks =
        |passage: &Passage<'_>| passage.speaker == Speaker::User && !passage.text.trim().is_empty();
    let asked = passages.iter().rposition(asks).unwrap_or(0);
    let (mut done, mut findings) = (BTreeSet::new(), BTreeSet::new());
    let mut latest = BTreeMap::new();
    let of_model = passages.iter().enumerate().rev();
    for (at, passage) in of_model.filter(|(_, one)| one.speaker == Speaker::Assistant) {
        if at < asked && done.len() >= MOST_SENTENCES && findings.len() >= MOST_SENTENCES {
            break;
        }
        // Of passages before the latest message, only statements are kept.
        let said = match at < asked && !lexicon.may_have(passage.text, Kind::KEPT) {
            true => Said::default(),
            false => Said::read(passage.text, lexicon),
        };
        for (kind, text) in &said.statements {
            let kept = match kind {
                Kind::Done => &mut done,
                Kind::Finding => &mut findings,
                _ => continue,
            };
            if kept.len() < MOST_SENTENCES {
                kept.insert(prose::key(&normalise(text)));
            }
        }
        latest.insert(at, said);
    }
    latest
}

fn drop_oldest<T>(list: &mut Vec<T>, most: usize) {
    let excess = list.len().saturating_sub(most);
    list.drain(..excess);
}

/// The position of each path in the list of files: a long conversation names
/// hundreds of them, again and again.
struct FilePlaces(HashMap<String, usize>);

impl FilePlaces {
    fn of(files: &[FileUse]) -> Self {
        let files = files.iter().enumerate();
        Self(files.map(|(at, file)| (file.path.clone(), at)).collect())
    }
}

/// Calls that wait for their result.
#[derive(Default)]
struct Calls {
    by_id: BTreeMap<String, (u64, Call)>,
    // Calls without an id, in order.
    others: Vec<(u64, Call)>,
}

impl Calls {
    fn begin(&mut self, passage: &Passage<'_>, call: Call) {
        match passage.call {
            Some(id) => drop(self.by_id.insert(id.to_owned(), (passage.turn, call))),
            None => self.others.push((passage.turn, call)),
        }
    }

    fn end(&mut self, passage: &Passage<'_>) -> Call {
        let by_id = passage.call.and_then(|id| self.by_id.remove(id));
        let first = || (!self.others.is_empty()).then(|| self.others.remove(0));
        let call = by_id.or_else(first).map(|(_, call)| call);
        call.unwrap_or_else(|| Call::read(passage.tool, ""))
    }

    fn rest(self) -> impl Iterator<Item = (u64, Call)> {
        self.by_id.into_values().chain(self.others)
    }
}
