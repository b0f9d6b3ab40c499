//! Collects every bullet that a summary could contain.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Section::{Asked, Decided, Done, Facts, Failed, Files, Next, Open};
use super::prose::{
    HEAD_BYTES, LINE_BYTES, Sentence, TAIL_BYTES, clip, content_words, ends, given_up, informative,
    is_reply, key, normalise, paths, sentences, shorten, stem, without_marker,
};
use super::tools::{Findings, describe_call, is_failure_line};
use super::{
    Bullet, MOST_TIMES, NOTED, Passage, SECTIONS, Section, Speaker, SummaryLine, Weight, call_of,
    parse_left_out,
};
use contexture_shorten::cues::{
    ASK, BOUND, DECIDE, DONE, FACT, FAIL, HEDGE, LOG, Lexicon, NEXT, PLAN, POLITE, STRONG,
    is_trivial,
};

/// Words that tell the section of a heading, ours or a language model's.
/// Earlier rows win: "Next steps for the failed tests" is about what is next.
const HEADINGS: [(Section, &[&str]); 8] = [
    (Next, &["next", "todo", "pending", "remaining"]),
    (Open, &["question", "open"]),
    (
        Failed,
        &["failed", "failure", "error", "tried", "失败", "错误"],
    ),
    (Files, &["file", "文件"]),
    (Decided, &["decided", "decision", "决定"]),
    (
        Asked,
        &[
            "asked",
            "request",
            "goal",
            "task",
            "intent",
            "constraint",
            "需求",
            "目标",
        ],
    ),
    (
        Done,
        &["done", "completed", "progress", "accomplished", "完成"],
    ),
    (Facts, &["fact", "finding", "context", "concept", "事实"]),
];

/// The most bytes of one bullet: a sentence, or two lines of an error.
const BULLET_BYTES: usize = 280;
/// The most files that are listed.
const MAX_FILES: usize = 40;
/// The value of a bullet that is dropped however much room there is.
const STALE: i64 = i64::MIN;
/// What is added to the value of a question that was answered.
const ANSWERED: i64 = -25;
/// What is said of a call whose result is not among the passages.
const NO_RESULT: &str = "(no result seen)";
/// How far back a decision is looked for that was taken back.
const RECENT_BULLETS: usize = 60;
/// How many assistant passages after a question are searched for an answer.
const ANSWERS_READ: usize = 8;

/// A question somebody asked, until it is known whether it was answered.
struct Question {
    is_user: bool,
    text: String,
    // The words to look for in an answer.
    bare: String,
    time: usize,
    turn: u64,
}

/// A tool call whose result has not been seen yet.
struct Call<'a> {
    name: Option<&'a str>,
    label: String,
    reads: bool,
    time: usize,
}

/// Everything that could be said.
pub(super) struct Gathered {
    pub(super) lexicon: Lexicon,
    focus: BTreeSet<String>,
    pub(super) bullets: Vec<Bullet>,
    // From the key of a bullet to its place; never walked.
    seen: BTreeMap<String, usize>,
    // Mentions of a path, and when it was first seen.
    files: BTreeMap<String, (u64, usize)>,
    // Failures that are only counted, by kind.
    pub(super) counted: BTreeMap<String, u64>,
    // The failures with those of one form told together, once it is needed.
    pub(super) folded: Option<Vec<Bullet>>,
    failures_of_call: BTreeMap<String, Vec<usize>>,
    questions: Vec<Question>,
    // What the assistant stated: time, turn, normalised words.
    statements: Vec<(usize, u64, String)>,
    last_time: usize,
    // Somebody has asked for something: the first request is the task.
    has_user: bool,
    has_task: bool,
    // How many bullets of each section were left out by earlier summaries.
    pub(super) left_out: [u64; SECTIONS.len()],
}

impl Gathered {
    pub(super) fn new(focus: Option<&str>) -> Self {
        let focus = normalise(focus.unwrap_or(""));
        Self {
            lexicon: Lexicon::new(),
            focus: content_words(&focus).map(stem).map(str::to_owned).collect(),
            bullets: Vec::new(),
            seen: BTreeMap::new(),
            files: BTreeMap::new(),
            counted: BTreeMap::new(),
            folded: None,
            failures_of_call: BTreeMap::new(),
            questions: Vec::new(),
            statements: Vec::new(),
            last_time: 1,
            has_user: false,
            has_task: false,
            left_out: [0; SECTIONS.len()],
        }
    }

    /// Adds a bullet, or counts it with one that says the same.
    fn add(&mut self, section: Section, text: &str, extra: i64, time: usize, times: u64) -> usize {
        let words: Vec<&str> = text.split_whitespace().collect();
        let whole = words.join(" ");
        let text = shorten(&whole, BULLET_BYTES);
        let normal = normalise(&text);
        let is_call = match section {
            Done => text.starts_with('`') && (text.ends_with('`') || text.ends_with(NO_RESULT)),
            Facts => call_of(&text).is_some(),
            _ => false,
        };
        let is_counted = section == Failed || is_call;
        // What is counted must be the same, down to the numbers.
        let mut key = if is_counted {
            whole.to_lowercase()
        } else {
            key(&normal)
        };
        if let (Facts, Some((label, _))) = (section, call_of(&text)) {
            // A newer result of the same call replaces the older one.
            key = format!("result {label}");
        }
        if section == Failed {
            // Said as a fact, it must not swallow the failure.
            key.insert_str(0, "failed ");
        }
        // "I'll use a loop" is less of a decision than "we agreed on loops".
        let is_explicit = section == Decided
            && ["decided", "decision", "agreed", "settled", "user", "决定"]
                .iter()
                .any(|word| normal.contains(word));
        let base = SECTIONS[section as usize].2 + if is_explicit { 15 } else { 0 };
        let recency = (20 * time / self.last_time) as i64;
        let is_focus = |word: &&str| self.focus.contains(stem(word));
        let focus = match content_words(&normal)
            .take_while(|_| !self.focus.is_empty())
            .filter(is_focus)
            .count()
        {
            0 => 0,
            shared => 100 + 20 * shared.min(5) as i64,
        };
        let value = base + extra + recency + focus + informative(&text).min(4) * 3;
        let is_shared = ["let's", "let us", "we'll", "we will"]
            .iter()
            .any(|words| normal.contains(words));
        // The words alone decide, so that it weighs the same when it is read
        // back: what is old must not gain on what is new.
        let weight = match section {
            Asked if !self.has_task && extra >= 0 => Weight::Task,
            Asked if self.is_question(&text, &normal) => Weight::Weak,
            Asked if self.lexicon.read(&normal).has(BOUND) => Weight::Strong,
            Decided if is_explicit || is_shared => Weight::Strong,
            _ => Weight::Plain,
        };
        self.has_task |= weight == Weight::Task;
        let index = self.bullets.len();
        if let Some(&known) = self.seen.get(&key) {
            let (index, known, newest) = (known, &mut self.bullets[known], index);
            known.value = known.value.max(value);
            known.weight = known.weight.max(weight);
            if matches!(section, Asked | Decided) && known.weight != Weight::Task {
                // Said again, it is as new as what else is said now.
                (known.time, known.order) = (time, newest);
            }
            if section == Decided {
                // "A instead of B" has the words of "B instead of A".
                known.text = text.clone();
            }
            if is_counted {
                known.times += times;
                // Of what was cut, only the start is known to be the same.
                known.is_varied |= section == Failed && whole.contains('…');
                if section == Facts {
                    (known.text, known.time, known.times) = (text, time, 1);
                }
            }
            return index;
        }
        self.seen.insert(key, index);
        let times = if is_counted { times } else { 1 };
        self.bullets.push(Bullet {
            section,
            text,
            times,
            is_varied: false,
            is_solved: false,
            value,
            weight,
            focus,
            time,
            order: index,
            tokens: None,
        });
        index
    }

    /// Returns true for a question that is no request.
    fn is_question(&self, text: &str, normal: &str) -> bool {
        text.ends_with(['?', '？']) && !self.lexicon.read(normal).has(POLITE)
    }

    fn mention(&mut self, text: &str, weight: u64, most: usize) {
        for path in paths(text).take(most) {
            let order = self.files.len();
            self.files.entry(path.to_owned()).or_insert((0, order)).0 += weight;
        }
    }

    /// Reads a summary made before: ours by its sections, another by its words.
    pub(super) fn read_earlier(&mut self, earlier: &str, passages: &[Passage<'_>]) {
        // The first reply settles what the assistant had last asked.
        let reply = passages
            .iter()
            .find(|passage| passage.speaker == Speaker::User);
        let reply = reply.map(|reply| normalise(ends(reply.text).0));
        let mut section = None;
        let mut prose = String::new();
        let lines = earlier.lines().count().max(1);
        for (place, line) in earlier.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('#') {
                let title = normalise(line);
                let is_about = |words: &[&str]| words.iter().any(|word| title.contains(word));
                section = HEADINGS
                    .iter()
                    .find(|(_, words)| is_about(words))
                    .map(|(section, _)| *section);
                continue;
            }
            let bullet = without_marker(line);
            if bullet.is_empty() {
                prose.push('\n');
                continue;
            }
            if let Some(section) = section.filter(|section| NOTED.contains(section))
                && let Some(count) = parse_left_out(bullet)
            {
                self.left_out[section as usize] += count;
                continue;
            }
            match section {
                None => {
                    prose.push_str(line);
                    prose.push('\n');
                }
                Some(Files) => {
                    let all = bullet.split(", ").count();
                    if paths(bullet).count() < all {
                        self.add(Facts, bullet, 0, 0, 1);
                    }
                    for (place, part) in bullet.split(", ").enumerate() {
                        self.mention(part, 4_u64.saturating_sub(place as u64 / 2).max(1), 1);
                    }
                }
                Some(Failed) if self.read_counted(bullet) => {}
                Some(Open) => {
                    let asked = bullet.strip_prefix("Assistant: ");
                    let text = asked.or(bullet.strip_prefix("User: ")).unwrap_or(bullet);
                    let bare = normalise(text);
                    let is_settled = |reply: &String| is_reply(reply, &bare, false);
                    if asked.is_some() && !reply.as_ref().is_none_or(is_settled) {
                        self.add(Open, bullet, 20, 0, 1);
                        continue;
                    }
                    self.questions.push(Question {
                        is_user: asked.is_none(),
                        text: text.to_owned(),
                        bare,
                        time: 0,
                        turn: passages.first().map_or(0, |passage| passage.turn),
                    });
                }
                Some(section) => {
                    let SummaryLine {
                        text,
                        times,
                        is_varied,
                        is_solved,
                    } = Bullet::parse(bullet);
                    // A constraint or a decision is not worth less for being old.
                    let normal = normalise(text);
                    let is_bound = self.lexicon.read(&normal).has(BOUND);
                    let is_task = section == Asked && !std::mem::replace(&mut self.has_user, true);
                    let extra = match section {
                        Asked if is_task => 60,
                        Asked if self.is_question(text, &normal) => ANSWERED,
                        Asked if is_bound => 30,
                        Decided => 15,
                        _ => 0,
                    };
                    let extra = extra + (10 * place / lines) as i64;
                    let known = self.bullets.len();
                    let index = self.add(section, text, extra, 0, times);
                    let added = &mut self.bullets[index];
                    added.is_varied |= is_varied;
                    added.is_solved = is_solved && (added.is_solved || index == known);
                    if let Some((label, _)) = call_of(text) {
                        self.failures_of_call
                            .entry(label.to_owned())
                            .or_default()
                            .push(index);
                    }
                }
            }
        }
        self.read_prose(
            &Passage {
                speaker: Speaker::Other,
                text: &prose,
                failed: false,
                turn: 0,
                name: None,
            },
            0,
            false,
        );
    }

    /// Reads a line such as `12 failed: 8 × E0308, 4 × timed out`.
    fn read_counted(&mut self, line: &str) -> bool {
        let Some((total, rest)) = line.split_once(' ') else {
            return false;
        };
        let rest = rest.strip_prefix("more ").unwrap_or(rest);
        let (Ok(mut total), Some(kinds)) = (total.parse::<u64>(), rest.strip_prefix("failed"))
        else {
            return false;
        };
        total = total.min(MOST_TIMES);
        for kind in kinds.trim_start_matches(": ").split(", ") {
            if let Some((times, kind)) = kind.split_once(" × ") {
                let times = times.parse::<u64>().unwrap_or(1).min(total);
                *self.counted.entry(kind.to_owned()).or_default() += times;
                total -= times;
            }
        }
        if total > 0 {
            *self.counted.entry("other".to_owned()).or_default() += total;
        }
        true
    }

    pub(super) fn read(&mut self, passages: &[Passage<'_>]) {
        self.last_time = passages.len().max(1);
        let last_turn = passages
            .iter()
            .map(|passage| passage.turn)
            .max()
            .unwrap_or(0);
        let mut calls: VecDeque<Call<'_>> = VecDeque::new();
        for (index, passage) in passages.iter().enumerate() {
            let time = index + 1;
            match passage.speaker {
                Speaker::ToolCall => {
                    let (label, reads) = describe_call(passage.name, passage.text);
                    self.mention(&label, if reads { 2 } else { 3 }, 3);
                    if passage.failed {
                        self.fail(&label, "failed", time);
                        continue;
                    }
                    calls.push_back(Call {
                        name: passage.name,
                        label,
                        reads,
                        time,
                    });
                    if calls.len() > 64 {
                        calls
                            .pop_front()
                            .into_iter()
                            .for_each(|call| self.unanswered(&call));
                    }
                }
                Speaker::ToolResult => {
                    let is_same =
                        |call: &Call<'_>| passage.name.is_none() || call.name == passage.name;
                    let call = calls
                        .iter()
                        .position(is_same)
                        .and_then(|at| calls.remove(at));
                    let (label, reads) = call.map_or_else(
                        || describe_call(passage.name, ""),
                        |call| (call.label, call.reads),
                    );
                    self.read_result(passage, &label, reads, time);
                }
                _ => {
                    let is_recent = passage.turn.saturating_add(1) >= last_turn;
                    self.read_prose(passage, time, is_recent);
                }
            }
        }
        calls.iter().for_each(|call| self.unanswered(call));
        // What was next is done or forgotten once something else is next. It is
        // only marked here: removing it would shift the places of the others.
        if self
            .bullets
            .iter()
            .any(|bullet| bullet.section == Next && bullet.time > 0)
        {
            let stale = self
                .bullets
                .iter_mut()
                .filter(|bullet| bullet.section == Next && bullet.time == 0);
            stale.for_each(|bullet| bullet.value = STALE);
        }
    }

    /// A call without a result was made, but nothing says that it worked.
    fn unanswered(&mut self, call: &Call<'_>) {
        if !call.reads && !call.label.is_empty() {
            self.add(
                Done,
                &format!("`{}` {NO_RESULT}", call.label),
                -25,
                call.time,
                1,
            );
        }
    }

    fn fail(&mut self, label: &str, error: &str, time: usize) {
        let text = if label.is_empty() {
            error.to_owned()
        } else {
            format!("`{label}`: {error}")
        };
        let index = self.add(Failed, &text, 0, time, 1);
        self.bullets[index].is_solved = false;
        self.failures_of_call
            .entry(label.to_owned())
            .or_default()
            .push(index);
    }

    fn read_result(&mut self, passage: &Passage<'_>, label: &str, reads: bool, time: usize) {
        self.mention(clip(passage.text, TAIL_BYTES / 2), 1, 5);
        // What a file says about errors is no failure, unless it is a log.
        let is_log = label.contains("log") && !label.starts_with("git");
        let found = if reads && !is_log && !passage.failed {
            Findings::default()
        } else {
            Findings::of(passage.text, passage.failed, &self.lexicon)
        };
        if passage.failed || !found.errors.is_empty() {
            let error = found.errors.join("; ");
            return self.fail(
                label,
                if error.is_empty() { "failed" } else { &error },
                time,
            );
        }
        for index in self.failures_of_call.remove(label).unwrap_or_default() {
            self.bullets[index].is_solved = true;
        }
        if reads || label.is_empty() {
            return;
        }
        match found.result {
            Some(result) => self.add(Facts, &format!("`{label}`: {result}"), 0, time, 1),
            None => self.add(Done, &format!("`{label}`"), -30, time, 1),
        };
    }

    /// Sorts the sentences of a passage into sections.
    fn read_prose(&mut self, passage: &Passage<'_>, time: usize, is_recent: bool) {
        let is_user = passage.speaker == Speaker::User;
        let is_first = is_user && !self.has_user;
        self.has_user |= is_user;
        let sentences = sentences(passage.text);
        self.mention(
            clip(passage.text, HEAD_BYTES),
            if is_user { 3 } else { 1 },
            20,
        );
        let failures_before = self.bullets.len();
        let mut has_failure = false;
        let mut stated = String::new();
        let mut answered = 0;
        let asked = self
            .questions
            .last()
            .filter(|asked| is_user && !asked.is_user);
        if let (Some(asked), Some(reply)) = (asked, sentences.first()) {
            // "Yes, the second one" means nothing without its question.
            // A failure or a long text that follows is read like any other.
            let is_failure = self
                .lexicon
                .read(&normalise(clip(passage.text, LINE_BYTES)))
                .has(FAIL | STRONG);
            let is_short = |text: &str, most| {
                !is_failure
                    && text.len() <= BULLET_BYTES / 2
                    && text.split_whitespace().take(most).count() < most
            };
            if is_short(passage.text, 14) {
                answered = sentences.len();
            } else if is_short(&reply.text, 8) {
                answered = 1;
            }
            let replies: Vec<&str> = sentences[..answered]
                .iter()
                .map(|reply| reply.text.as_str())
                .collect();
            if replies.iter().any(|reply| reply.ends_with(['?', '？'])) {
                answered = 0;
            } else if answered > 0 {
                let question = shorten(&asked.text, BULLET_BYTES / 2);
                self.add(
                    Decided,
                    &format!("{question} User: {}", replies.join(" ")),
                    10,
                    time,
                    1,
                );
            }
        }
        if is_user {
            // The assistant's questions are settled by any reply, or never.
            while self
                .questions
                .pop_if(|question| !question.is_user)
                .is_some()
            {}
        }
        let count = sentences.len();
        let mut previous = String::new();
        for (place, Sentence { mut text, is_code }) in
            sentences.into_iter().enumerate().skip(answered)
        {
            let normal = normalise(clip(&text, LINE_BYTES));
            let signs = self.lexicon.read(&normal);
            if is_code {
                // People paste logs; code in an answer is in the files by now.
                if is_user && is_failure_line(&text, &signs, false) {
                    self.add(Failed, &text, 0, time, 1);
                    has_failure = true;
                }
                continue;
            }
            if is_trivial(&normal)
                || content_words(&normal).next().is_none() && !text.ends_with(['?', '？'])
            {
                continue;
            }
            let whole = text.clone();
            if is_user
                && !previous.is_empty()
                && text.ends_with(['?', '？'])
                && content_words(&normal).count() < 3
            {
                // "Can you find out why?" means nothing without its subject.
                text = format!("{} {text}", shorten(&previous, BULLET_BYTES / 2));
            }
            previous = if whole.ends_with(['?', '？']) {
                String::new()
            } else {
                whole
            };
            let is_question = text.ends_with(['?', '？']) && !signs.has(POLITE);
            if is_question {
                if is_user || place + 3 >= count {
                    self.questions.push(Question {
                        is_user,
                        text,
                        bare: normal,
                        time,
                        turn: passage.turn,
                    });
                }
                continue;
            }
            if !is_user && !signs.has(PLAN) {
                stated.push_str(&normal);
                stated.push(' ');
            }
            let says_error = signs.has(LOG) && (text.contains("rror: ") || text.contains("rror["));
            let failed = signs.has(FAIL) || says_error;
            let was_tried = normal.contains("tried ") && normal.contains(" but ");
            let is_dead_end = signs.has(STRONG) || was_tried;
            let facts = informative(&text);
            let lead = 4 - place.min(4) as i64;
            let (section, extra) = if is_user {
                match () {
                    () if (is_dead_end || failed) && !signs.has(ASK | BOUND | HEDGE) => (Failed, 0),
                    () if signs.has(DECIDE) && !is_first => (Decided, 5),
                    () if signs.has(BOUND) => (Asked, 15 + lead),
                    () if signs.has(ASK) || place == 0 => (Asked, lead),
                    () if facts > 0 || signs.has(FACT) => (Facts, 25),
                    () => (Asked, -25),
                }
            } else {
                match () {
                    () if is_dead_end && !signs.has(PLAN) => (Failed, 0),
                    () if failed && !signs.has(HEDGE | PLAN | DONE | NEXT) => (Failed, 0),
                    () if signs.has(DECIDE) && (!signs.has(DONE) || signs.has(PLAN)) => {
                        (Decided, 0)
                    }
                    () if signs.has(NEXT) && is_recent => (Next, 0),
                    () if signs.has(DECIDE) => (Decided, 0),
                    () if signs.has(DONE) && !signs.has(PLAN) => (Done, 0),
                    () if signs.has(PLAN | NEXT) => continue,
                    () if signs.has(FACT) => (Facts, 15),
                    () if facts > 0 => (Facts, 0),
                    () if is_recent || time == 0 => (Facts, -15),
                    () => continue,
                }
            };
            if is_dead_end || section == Decided {
                // A decision that was taken back would lead astray.
                let given_up = given_up(&text, is_dead_end);
                let recent = self.bullets.iter_mut().rev().take(RECENT_BULLETS);
                for known in recent.filter(|known| known.section == Decided) {
                    let chosen = known.text.split(" instead of ").next().unwrap_or("");
                    if given_up.iter().any(|what| chosen.contains(what)) {
                        known.value -= 60;
                        known.weight = Weight::Weak;
                    }
                }
            }
            has_failure |= section == Failed;
            let first = match place {
                0 if is_first && section == Asked => 50,
                _ if is_first && section == Asked => 30,
                _ => 0,
            };
            self.add(section, &text, extra + first, time, 1);
        }
        if passage.failed && !has_failure {
            // The flag is to be believed even where the words do not say it.
            let said = self.bullets[failures_before..]
                .last()
                .map(|bullet| bullet.text.clone());
            let text = said.unwrap_or_else(|| format!("turn {}", passage.turn));
            self.add(
                Failed,
                &format!("{} (failed)", shorten(&text, BULLET_BYTES - 12)),
                0,
                time,
                1,
            );
        }
        if passage.speaker == Speaker::Assistant && !passage.failed {
            self.statements.push((time, passage.turn, stated));
        }
    }

    /// Writes the questions that nobody answered as open, the others as asked.
    pub(super) fn settle_questions(&mut self) {
        let questions = std::mem::take(&mut self.questions);
        for (place, question) in questions.iter().enumerate() {
            if !question.is_user {
                self.add(
                    Open,
                    &format!("Assistant: {}", question.text),
                    0,
                    question.time,
                    1,
                );
                continue;
            }
            let is_same =
                |other: Option<&Question>| other.is_some_and(|other| other.time == question.time);
            let is_one_of_many =
                is_same(questions.get(place + 1)) || place > 0 && is_same(questions.get(place - 1));
            let from = self
                .statements
                .partition_point(|(time, ..)| *time <= question.time);
            let until = question.turn.saturating_add(1);
            let answers = self.statements[from..].iter().take(ANSWERS_READ);
            let mut answers = answers.take_while(|(_, turn, _)| *turn <= until);
            let is_answered =
                answers.any(|(_, _, said)| is_reply(said, &question.bare, is_one_of_many));
            if !is_answered {
                let extra = if question.time == 0 { 20 } else { 0 };
                self.add(
                    Open,
                    &format!("User: {}", question.text),
                    extra,
                    question.time,
                    1,
                );
            } else if content_words(&question.bare).count() > 2 {
                self.add(Asked, &question.text, ANSWERED, question.time, 1);
            }
        }
    }

    /// Drops what is stale, and makes a bullet of every path, the most mentioned
    /// first.
    pub(super) fn list_files(&mut self) {
        self.bullets.retain(|bullet| bullet.value != STALE);
        // "extract.rs" is most likely the "src/extract.rs" of before.
        let mut by_name: BTreeMap<String, String> = BTreeMap::new();
        for (path, _) in self.files.iter().filter(|(path, _)| path.contains('/')) {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            by_name.entry(name).or_insert_with(|| path.clone());
        }
        let mut files: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
        for (path, &(mentions, order)) in &self.files {
            let path = by_name.get(path).unwrap_or(path);
            let entry = files.entry(path).or_insert((0, order));
            *entry = (entry.0 + mentions, entry.1.min(order));
        }
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort_by_key(|(_, (mentions, order))| (Reverse(*mentions), *order));
        for (place, (path, (mentions, _))) in files.into_iter().take(MAX_FILES).enumerate() {
            let words = normalise(path);
            let is_focus = content_words(&words).any(|word| self.focus.contains(stem(word)));
            let value = SECTIONS[Files as usize].2
                + mentions.min(10) as i64 * 3
                + if is_focus { 100 } else { 0 };
            self.bullets.push(Bullet {
                section: Files,
                text: path.to_owned(),
                times: 1,
                is_varied: false,
                is_solved: false,
                value,
                weight: Weight::Plain,
                focus: 0,
                time: place,
                order: 0,
                tokens: None,
            });
        }
    }
}
