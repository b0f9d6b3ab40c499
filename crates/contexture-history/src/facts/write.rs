//! Writes facts as a summary within a number of tokens.
//!
//! Each section has a share of the tokens. Unused tokens of a section go to the
//! others, in a fixed order. Failures and files are written in a short form
//! before any of them is left out.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use contexture_core::{TokenCounter, Tokens};

use super::prose::{
    CUT_NOTE, clip, content_words, cut_note, ending, instructs, normalise, shorten, stem,
};
use super::{Facts, Failure, FileUse, Statement, constraints};
use contexture_shorten::cues::{BLAND, FIRM, Lexicon};

/// The token limits and the focus of a summary.
#[derive(Clone, Copy)]
pub struct SummaryLimits<'a> {
    /// The tokens of everything but the user's messages.
    pub tokens: Tokens,
    /// The tokens of the user's messages.
    pub messages: Tokens,
    /// The topic that the summary concentrates on. `None` for no topic.
    pub focus: Option<&'a str>,
    /// Counts tokens.
    pub counter: &'a dyn TokenCounter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Constraints,
    Notes,
    Done,
    Next,
    Decisions,
    Failures,
    Files,
    Named,
    Findings,
}

/// The sections in the order in which they are written, with their share of the
/// room in percent: usually, and if there are few tokens. In the second case,
/// constraints, failures and files come before all others, and each of the three
/// has room that the other two cannot take.
const SECTIONS: [(Section, &str, u64, u64); 9] = [
    (Section::Constraints, "## Constraints", 15, 42),
    (Section::Notes, "## Notes", 40, 13),
    (Section::Done, "## Done", 12, 0),
    (Section::Next, "## In progress and next", 8, 0),
    (Section::Decisions, "## Decisions", 12, 0),
    (Section::Failures, "## Failed attempts", 22, 26),
    (Section::Files, "## Files", 22, 32),
    (Section::Named, "## Other files that were named", 0, 0),
    (Section::Findings, "## Findings", 9, 0),
];

/// The sections that first get more and longer lines from the unused tokens.
const FIRST: [Section; 3] = [Section::Constraints, Section::Failures, Section::Files];

/// The order in which these lines are lengthened. What was done to a file has few
/// tokens, and errors have many. If there are few tokens, errors come first.
const LENGTHENED: [Section; 3] = [Section::Constraints, Section::Files, Section::Failures];

/// The sections that get the tokens that remain after that.
const LAST: [Section; 6] = [
    Section::Next,
    Section::Decisions,
    Section::Done,
    Section::Findings,
    Section::Notes,
    Section::Named,
];

/// Below this many tokens, recorded facts come before sentences.
const TIGHT_ROOM: Tokens = 2_000;

/// The number of newest messages that come before those with constraints.
const NEWEST_MESSAGES: usize = 4;

/// The most lines that several failures share and that come before the others.
const MOST_SHARED: usize = 6;

/// A line that a section may have.
struct Line {
    // The position of the line in its section.
    place: usize,
    // The forms, the longest first.
    forms: Vec<String>,
    // Whether it is left out where another line has its text.
    is_part: bool,
}

impl Line {
    fn new(place: usize, forms: Vec<String>) -> Self {
        Self {
            place,
            forms,
            is_part: false,
        }
    }
}

/// The words of the topic that a summary concentrates on.
struct Focus(BTreeSet<String>);

impl Focus {
    fn of(focus: Option<&str>) -> Self {
        let normal = normalise(focus.unwrap_or(""));
        Self(
            content_words(&normal)
                .map(stem)
                .map(str::to_owned)
                .collect(),
        )
    }

    fn meets(&self, text: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let normal = normalise(text);
        content_words(&normal).any(|word| self.0.contains(stem(word)))
    }
}

/// The constraints of the user's messages, each found when it is needed: a
/// summary is written several times until it fits.
struct Stated<'f> {
    facts: &'f Facts,
    by_message: Vec<OnceCell<Vec<String>>>,
}

impl<'f> Stated<'f> {
    fn of(facts: &'f Facts) -> Self {
        Self {
            facts,
            by_message: vec![OnceCell::new(); facts.messages.len()],
        }
    }

    /// Returns the constraints of a message.
    fn by(&self, at: usize) -> &[String] {
        let text = &self.facts.messages[at].text;
        self.by_message[at].get_or_init(|| constraints(text, Lexicon::shared()))
    }
}

/// A section that is being filled.
struct Filled {
    section: Section,
    heading: &'static str,
    share: u64,
    // The most important first.
    lines: Vec<Line>,
    // The form and the tokens of each line that is shown; the first lines are.
    chosen: Vec<(usize, Tokens)>,
}

impl Facts {
    /// Returns the summary. It is empty if there are no facts.
    pub fn write(&self, room: &SummaryLimits<'_>) -> String {
        self.write_counted(room).0
    }

    /// Returns the summary and its tokens.
    pub(crate) fn write_counted(&self, room: &SummaryLimits<'_>) -> (String, Tokens) {
        let stated = Stated::of(self);
        let (first, tokens) = self.write_within(room, &stated);
        // The tokens that the sections leave are for the latest request.
        let Some(goal) = self.messages.last() else {
            return (first, tokens);
        };
        let most = room.tokens.saturating_add(room.messages);
        let spare = most.saturating_sub(tokens);
        if first.contains(&goal.text) || spare < most / 8 {
            return (first, tokens);
        }
        let wanted = room.counter.count(&goal.text) * 3 / 2 + 64;
        let more = wanted
            .saturating_sub(room.messages)
            .min(spare)
            .min(room.tokens);
        let more = SummaryLimits {
            tokens: room.tokens.saturating_sub(more),
            messages: room.messages.saturating_add(more),
            ..*room
        };
        let again = self.write_within(&more, &stated);
        match again.0.is_empty() {
            true => (first, tokens),
            false => again,
        }
    }

    /// Returns true if a summary says that it leaves out facts.
    pub(crate) fn leaves_out(&self, summary: &str) -> bool {
        let is_cut = summary.contains(CUT_NOTE) && !self.messages.is_empty();
        is_cut || summary.contains(" not shown)")
    }

    fn write_within(&self, room: &SummaryLimits<'_>, stated: &Stated<'_>) -> (String, Tokens) {
        let wanted = SECTIONS.map(|(section, ..)| section);
        self.within(room, 0, |room| {
            let (mut text, hidden, room) = self.write_messages(room, stated);
            let room = self.write_instructions(&mut text, &room);
            self.write_sections(&mut text, &room, &hidden, &wanted);
            text
        })
    }

    /// Returns a summary with the prose of a language model in place of the
    /// sentences extracted from the conversation.
    pub fn write_with_prose(&self, prose: &str, room: &SummaryLimits<'_>) -> String {
        use Section::{Constraints, Failures, Files};
        let beside = room.counter.count(prose);
        let stated = Stated::of(self);
        self.within(room, beside, |room| {
            let (mut text, hidden, _) = self.write_messages(room, &stated);
            let room = self.write_instructions(&mut text, room);
            self.write_sections(&mut text, &room, &hidden, &[Constraints]);
            text.push_str(prose.trim());
            text.push('\n');
            self.write_sections(&mut text, &room, &[], &[Failures, Files]);
            text
        })
        .0
    }

    /// Returns a text and its tokens. Counts of lines add up to an estimate, so the
    /// whole is counted and made again with less room until it fits.
    fn within(
        &self,
        room: &SummaryLimits<'_>,
        beside: Tokens,
        make: impl Fn(&SummaryLimits<'_>) -> String,
    ) -> (String, Tokens) {
        let most = room.tokens.saturating_add(room.messages) + beside;
        let (mut tokens, mut messages) = (room.tokens, room.messages);
        for _ in 0..12 {
            let text = make(&SummaryLimits {
                tokens,
                messages,
                ..*room
            });
            let text = text.trim_end().to_owned();
            let count = room.counter.count(&text);
            let over = count.saturating_sub(most);
            if over == 0 {
                return (text, count);
            }
            let less = over.max(most / 16).max(1);
            tokens = tokens.saturating_sub(less / 2 + 1);
            messages = messages.saturating_sub(less / 2 + 1);
        }
        (String::new(), 0)
    }

    /// Writes the latest request and the user's earlier messages. Returns the
    /// constraints of messages that are not shown whole, and the limits of
    /// the sections.
    ///
    /// If there are few tokens, only the first and the newest messages are
    /// shown: the constraints of the others have fewer tokens by themselves.
    fn write_messages<'r>(
        &self,
        room: &SummaryLimits<'r>,
        stated: &Stated<'_>,
    ) -> (String, Vec<String>, SummaryLimits<'r>) {
        let Some((goal, earlier)) = self.messages.split_last() else {
            return (String::new(), Vec::new(), *room);
        };
        let is_tight = room.tokens < TIGHT_ROOM;
        let is_one_turn = earlier.iter().all(|said| said.turn == goal.turn);
        let counter = room.counter;
        let mut left = room.messages.saturating_sub(24);
        let mut cut_off: Vec<usize> = Vec::new();
        let is_alone = earlier.is_empty() && self.proposal.is_empty();
        let most = if is_alone { left } else { left * 2 / 3 };
        let shown = whole_or_cut(&goal.text, most, counter);
        // A few words of the request are better than none.
        let shown = match shown.is_empty() {
            true => goal.text[..counter.prefix_within(&goal.text, left.max(8))].to_owned(),
            false => shown,
        };
        if shown != goal.text {
            cut_off.push(earlier.len());
        }
        left = left.saturating_sub(counter.count(&shown));
        let quoted = match shown == goal.text {
            true => "verbatim",
            false => "with parts left out",
        };
        let mut text =
            format!("## Goal\nThe user's latest request before this point, {quoted}:\n{shown}\n");
        // The goal means nothing without it, so the sections give tokens for it.
        let proposal = self.write_proposal(left / 2 + room.tokens / 4, counter);
        let tokens = counter.count(&proposal);
        let borrowed = tokens.saturating_sub(left / 2);
        left = left.saturating_sub(tokens - borrowed);
        text.push_str(&proposal);
        // The first message, which began the work, and the newest are chosen.
        // Of the others, those with constraints come first. Messages about the
        // focus come before all others.
        let mut chosen: Vec<(usize, String)> = Vec::new();
        let mut order: Vec<usize> = (0..earlier.len()).rev().collect();
        let focus = Focus::of(room.focus);
        let is_newest = |at: usize| at == 0 || at + NEWEST_MESSAGES >= earlier.len();
        if is_tight {
            let (shown, others) = order
                .into_iter()
                .partition(|&at| is_newest(at) || focus.meets(&earlier[at].text));
            order = shown;
            cut_off.extend::<Vec<usize>>(others);
        }
        order.sort_by_cached_key(|&at| {
            let text = &earlier[at].text;
            let rank = match () {
                () if is_newest(at) => 0,
                () if !stated.by(at).is_empty() => 1,
                () => 2,
            };
            (!focus.meets(text), rank)
        });
        for at in order {
            let most = if at == 0 { left / 2 } else { left / 3 };
            let shown = whole_or_cut(&earlier[at].text, most, counter);
            let line = match is_one_turn {
                // Messages inside a request have no turns of their own.
                true => format!("[message {}] {shown}", self.message_number(at)),
                false => format!("[turn {}] {shown}", earlier[at].turn),
            };
            let tokens = counter.count(&line) + 2;
            if shown.is_empty() || tokens > left {
                cut_off.push(at);
                continue;
            }
            if shown != earlier[at].text {
                cut_off.push(at);
            }
            left -= tokens;
            chosen.push((at, line));
        }
        chosen.sort_unstable_by_key(|(at, _)| *at);
        let left_out = (earlier.len() - chosen.len()) as u64 + self.messages_dropped;
        if !chosen.is_empty() {
            text.push_str("## Earlier messages of the user\n");
        }
        for (_, line) in &chosen {
            text.push_str(line);
            text.push('\n');
        }
        if left_out > 0 {
            let are = match left_out {
                1 => "message is",
                _ => "messages are",
            };
            text.push_str(&format!("({left_out} earlier {are} not shown)\n"));
        }
        cut_off.sort_unstable();
        let hidden = cut_off.iter();
        let hidden = hidden.flat_map(|&at| stated.by(at));
        let hidden = hidden.filter(|sentence| !text.contains(sentence.as_str()));
        let hidden = hidden.cloned().collect();
        let spare = if is_tight { left } else { 0 };
        let room = SummaryLimits {
            tokens: (room.tokens.saturating_add(spare)).saturating_sub(borrowed),
            ..*room
        };
        (text, hidden, room)
    }

    /// Returns the number of a message in the conversation.
    fn message_number(&self, at: usize) -> u64 {
        let dropped = if at == 0 { 0 } else { self.messages_dropped };
        at as u64 + 1 + dropped
    }

    /// Returns the end of the message that the latest request agrees to, within
    /// `most` tokens.
    fn write_proposal(&self, most: Tokens, counter: &dyn TokenCounter) -> String {
        const FEWEST_BYTES: usize = 32;
        let mut bytes = self.proposal.len();
        while bytes > 0 {
            let ending = ending(&self.proposal, bytes);
            let text = format!("It answers the assistant's message, which ended:\n{ending}\n");
            if counter.count_up_to(&text, most).is_some() {
                return text;
            }
            bytes = if bytes < FEWEST_BYTES {
                0
            } else {
                bytes / 3 * 2
            };
        }
        String::new()
    }

    /// Writes the operator's instructions, the newest first if there are few
    /// tokens. Returns the limits of the sections.
    fn write_instructions<'r>(
        &self,
        text: &mut String,
        room: &SummaryLimits<'r>,
    ) -> SummaryLimits<'r> {
        let counter = room.counter;
        let mut left = room.tokens;
        let mut shown: Vec<String> = Vec::new();
        for one in self.instructions.iter().rev() {
            let line = whole_or_cut(&one.text, left.saturating_sub(16), counter);
            if line.is_empty() {
                break;
            }
            left = left.saturating_sub(counter.count(&line) + 4);
            shown.push(line);
        }
        if !shown.is_empty() {
            text.push_str(
                "## Instructions\nOf the system prompt, given during the conversation:\n",
            );
        }
        for line in shown.iter().rev() {
            text.push_str(&format!("- {line}\n"));
        }
        SummaryLimits {
            tokens: left,
            ..*room
        }
    }

    fn write_sections(
        &self,
        text: &mut String,
        room: &SummaryLimits<'_>,
        hidden: &[String],
        wanted: &[Section],
    ) {
        let counter = room.counter;
        let focus = Focus::of(room.focus);
        let mut sections: Vec<Filled> = Vec::new();
        let is_tight = room.tokens < TIGHT_ROOM;
        for (section, heading, share, tight_share) in SECTIONS {
            let share = match is_tight {
                // The open items of a plan are recorded facts.
                true if section == Section::Next && !self.open_items.is_empty() => share,
                true => tight_share,
                false => share,
            };
            let mut lines = match wanted.contains(&section) {
                true => self.lines(section, hidden, text, is_tight),
                false => Vec::new(),
            };
            if lines.is_empty() {
                continue;
            }
            lines.sort_by_key(|line| !focus.meets(&line.forms[0]));
            sections.push(Filled {
                section,
                heading,
                share,
                lines,
                chosen: Vec::new(),
            });
        }
        let mut left = room.tokens;
        for filled in &mut sections {
            let share = (room.tokens * filled.share / 100).min(left);
            left -= share - filled.add(share, counter);
        }
        let lengthened = if is_tight { &FIRST } else { &LENGTHENED };
        let rounds: [(&[Section], Fill); 4] = [
            (&FIRST, Filled::add),
            (lengthened, Filled::lengthen),
            (&LAST, Filled::add),
            (&LAST, Filled::lengthen),
        ];
        for (order, fill) in rounds {
            for section in order {
                let filled = sections.iter_mut().find(|it| it.section == *section);
                left = filled.map_or(left, |filled| fill(filled, left, counter));
            }
        }
        for filled in &sections {
            filled.write(text, self);
        }
    }

    /// Returns the lines that a section may have, the most important first.
    fn lines(&self, section: Section, hidden: &[String], shown: &str, is_tight: bool) -> Vec<Line> {
        let newest_first = |count: usize| (0..count).rev();
        let bullets = |list: &[Statement]| -> Vec<Line> {
            let line = |at: usize| Line::new(at, vec![format!("- {}", list[at].text)]);
            newest_first(list.len()).map(line).collect()
        };
        match section {
            Section::Constraints => {
                let kept = self.constraints.iter().map(|said| said.text.as_str());
                let all: Vec<&str> = kept.chain(hidden.iter().map(String::as_str)).collect();
                let line = |at: usize| Line::new(at, vec![format!("- {}", all[at])]);
                let mut seen = BTreeSet::new();
                let mut order: Vec<usize> = newest_first(all.len())
                    .filter(|&at| seen.insert(all[at]))
                    .collect();
                if is_tight {
                    let lexicon = Lexicon::shared();
                    order.sort_by_cached_key(|&at| {
                        let normal = normalise(all[at]);
                        !lexicon.read(&normal).has(FIRM) && !instructs(all[at], &normal)
                    });
                }
                order.into_iter().map(line).collect()
            }
            Section::Notes => {
                let notes = self.notes.lines().filter(|line| !line.trim().is_empty());
                let line = |(at, line): (usize, &str)| Line::new(at, vec![line.to_owned()]);
                notes.enumerate().map(line).collect()
            }
            Section::Done => {
                let mut lines: Vec<((u64, bool, usize), Line)> = Vec::new();
                for (at, result) in self.results.iter().enumerate() {
                    let mut forms = vec![format!(
                        "- `{}` succeeded{}",
                        result.call,
                        times(result.times)
                    )];
                    if !result.result.is_empty() {
                        forms.insert(0, format!("{}: {}", forms[0], result.result));
                    }
                    lines.push(((result.turn, true, at), Line::new(at, forms)));
                }
                for (at, said) in self.done.iter().enumerate() {
                    let place = self.results.len() + at;
                    let text = format!("- The assistant: {}", said.text);
                    lines.push(((said.turn, false, at), Line::new(place, vec![text])));
                }
                // The newest first, and of a turn the recorded outcomes.
                lines.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
                lines.into_iter().map(|(_, line)| line).collect()
            }
            Section::Next => {
                let items = self.open_items.iter().enumerate();
                let items = items.map(|(at, item)| Line::new(at, vec![format!("- {}", item.text)]));
                let mut lines: Vec<Line> = items.collect();
                let place = lines.len();
                lines.extend(bullets(&self.next).into_iter().map(|line| Line {
                    place: place + line.place,
                    ..line
                }));
                lines
            }
            Section::Decisions => {
                let line = |at: usize| {
                    let decision = &self.decisions[at];
                    let by = if decision.by_user {
                        "User"
                    } else {
                        "Assistant"
                    };
                    Line::new(at, vec![format!("- {by}: {}", decision.text)])
                };
                // The user's messages may be shown anyway.
                let is_new = |at: &usize| !shown.contains(&self.decisions[*at].text);
                let places = newest_first(self.decisions.len()).filter(is_new);
                places.map(line).collect()
            }
            Section::Failures => self.failure_lines(is_tight),
            Section::Files | Section::Named => {
                let is_wanted = |at: &usize| {
                    let is_worked_on = self.files[*at].is_worked_on();
                    is_worked_on == (section == Section::Files)
                };
                let mut order: Vec<usize> = (0..self.files.len()).filter(is_wanted).collect();
                order.sort_by_key(|&at| std::cmp::Reverse(self.files[at].weight()));
                let line = |at: usize| Line::new(at, self.files[at].forms());
                order.into_iter().map(line).collect()
            }
            Section::Findings => bullets(&self.findings),
        }
    }
}

impl Facts {
    /// Returns the lines of failures: those with a message and not solved first.
    /// Calls that failed without a message share a line. If there are few
    /// tokens, so do the lines that only say that a call failed: the short form
    /// of a failure does not have them. These lines then come first, because
    /// they are short and each represents several calls.
    fn failure_lines(&self, is_tight: bool) -> Vec<Line> {
        let (bland, telling): (Vec<usize>, Vec<usize>) =
            (0..self.failures.len()).partition(|&at| self.failures[at].is_bland);
        // Calls that failed for the same reason share a line, too.
        let mut same: BTreeMap<&[String], Failure> = BTreeMap::new();
        let mut calls: BTreeMap<&[String], Vec<&Failure>> = BTreeMap::new();
        for failure in telling.into_iter().map(|at| &self.failures[at]) {
            calls.entry(&failure.errors).or_default().push(failure);
            match same.get_mut(failure.errors.as_slice()) {
                None => drop(same.insert(&failure.errors, failure.clone())),
                Some(other) => {
                    let times = other.times.max(1) + failure.times.max(1);
                    let is_solved = other.is_solved && failure.is_solved;
                    if failure.turn >= other.turn {
                        *other = failure.clone();
                    }
                    (other.times, other.is_solved) = (times, is_solved);
                }
            }
        }
        let mut telling: Vec<Failure> = same.into_values().collect();
        telling.sort_by_key(|failure| (failure.is_solved, std::cmp::Reverse(failure.turn)));
        let place = |failure: &Failure| {
            let mut all = self.failures.iter();
            all.position(|one| one.turn == failure.turn && one.call == failure.call)
        };
        let forms = |failure: &Failure| match calls.get(failure.errors.as_slice()) {
            Some(group) if group.len() > 1 => {
                let mut forms = shared_forms(&failure.errors.join(" / "), group);
                let newest = failure.errors.last().map_or("", |error| clip(error, 90));
                forms.extend(shared_forms(newest, group));
                forms
            }
            _ => failure.forms(),
        };
        let mut lines: Vec<Line> = (telling.iter())
            .map(|failure| Line::new(place(failure).unwrap_or_default(), forms(failure)))
            .collect();
        let mut groups: BTreeMap<&str, Vec<&Failure>> = BTreeMap::new();
        for failure in bland.into_iter().map(|at| &self.failures[at]) {
            let error = failure.errors.last().map_or("", String::as_str);
            groups.entry(clip(error, 90)).or_default().push(failure);
        }
        let known: BTreeSet<&str> = groups.keys().copied().collect();
        let place = self.failures.len() + groups.len();
        let beside = telling.iter().filter(|_| is_tight).flat_map(|failure| {
            let others = failure.errors.iter().rev().skip(1);
            others.map(|error| clip(error, 90))
        });
        let is_bland = |error: &str| Lexicon::shared().read(&normalise(error)).has(BLAND);
        let beside: BTreeSet<&str> = beside
            .filter(|error| !known.contains(error) && is_bland(error))
            .collect();
        let beside: Vec<Line> = (beside.into_iter().enumerate())
            .map(|(at, error)| Line {
                is_part: true,
                ..Line::new(place + at, vec![format!("- {error}")])
            })
            .collect();
        for (place, (error, group)) in groups.into_iter().enumerate() {
            let place = self.failures.len() + place;
            lines.push(Line::new(place, shared_forms(error, &group)));
        }
        lines.extend(beside);
        if is_tight {
            let first = telling.len();
            let shared = (lines.len() - first).min(MOST_SHARED);
            lines[..first + shared].rotate_right(shared);
        }
        lines
    }
}

/// Returns the forms of a line about several calls that failed with an error.
fn shared_forms(error: &str, group: &[&Failure]) -> Vec<String> {
    const LATER: &str = " (succeeded later)";
    let is_solved = group.iter().all(|failure| failure.is_solved);
    let note = match (is_solved, group.len()) {
        (false, _) => "",
        (true, 1) => LATER,
        (true, _) => " (all succeeded later)",
    };
    let calls = group.iter().filter(|failure| !failure.call.is_empty());
    let named: Vec<String> = (calls.rev().take(4))
        .map(|failure| {
            let is_solved_alone = failure.is_solved && !is_solved;
            let note = if is_solved_alone { LATER } else { "" };
            format!("`{}`{note}", shorten(&failure.call, 60))
        })
        .collect();
    let count: u64 = group.iter().map(|failure| failure.times.max(1)).sum();
    let mut forms = vec![format!("- {error}{}{note}", times(count))];
    if !named.is_empty() {
        let calls = named.join(", ");
        forms.insert(0, format!("- {error}{}: {calls}{note}", times(count)));
    }
    forms
}

impl Failure {
    fn forms(&self) -> Vec<String> {
        let note = match (self.times, self.is_solved) {
            (0 | 1, false) => String::new(),
            (0 | 1, true) => " (succeeded later)".to_owned(),
            (times, false) => format!(" ({times} times)"),
            (times, true) => format!(" ({times} times, succeeded later)"),
        };
        let call = match self.call.is_empty() {
            true => String::new(),
            false => format!("`{}`: ", self.call),
        };
        let short_call = match self.call.is_empty() {
            true => String::new(),
            false => format!("`{}`: ", shorten(&self.call, 48)),
        };
        let newest = |count: usize| {
            let from = self.errors.len().saturating_sub(count);
            let errors = self.errors[from..].iter().map(|error| clip(error, 90));
            errors.collect::<Vec<_>>().join(" / ")
        };
        let mut forms = vec![
            format!("- {call}{}{note}", self.errors.join(" / ")),
            format!("- {short_call}{}{note}", newest(self.errors.len())),
            format!("- {short_call}{}{note}", newest(3)),
        ];
        forms.push(format!("- {}{note}", newest(1)));
        forms
    }
}

impl FileUse {
    fn forms(&self) -> Vec<String> {
        let uses = [
            (self.written, "written"),
            (self.edited, "edited"),
            (self.read, "read"),
        ];
        let mut told: Vec<String> = Vec::new();
        for (count, what) in uses {
            if count > 0 {
                told.push(format!("{what}{}", times(count)));
            }
        }
        if !self.ended.is_empty() {
            let then = if told.is_empty() { "" } else { "then " };
            told.push(format!("{then}{}", self.ended));
        }
        let mut forms = vec![format!("- {}", self.path)];
        if !told.is_empty() {
            forms.insert(0, format!("- {}: {}", self.path, told.join(", ")));
        }
        // The short form says what changed the file last. A file without it was
        // read.
        let last = match () {
            () if !self.ended.is_empty() => self.ended.as_str(),
            () if self.edited > 0 => "edited",
            () if self.written > 0 => "written",
            () => return forms,
        };
        let short = format!("- {}: {last}", self.path);
        if forms[0] != short {
            forms.insert(1, short);
        }
        forms.pop();
        forms
    }
}

fn times(count: u64) -> String {
    match count {
        0 | 1 => String::new(),
        count => format!(" {count} times"),
    }
}

/// Returns `text`, or its start and its end with a note between them, within
/// `most` tokens. Empty if nothing fits.
fn whole_or_cut(text: &str, most: Tokens, counter: &dyn TokenCounter) -> String {
    if counter.count_up_to(text, most).is_some() {
        return text.to_owned();
    }
    let room = most.saturating_sub(16);
    if room < 16 {
        return String::new();
    }
    let tokens = counter.count(text);
    let head = counter.prefix_within(text, room * 2 / 3);
    let rest = &text[head..];
    let bytes = rest.len() as u64 * (room / 3) / tokens.max(1);
    let bytes = usize::try_from(bytes).unwrap_or(0);
    let tail = rest.ceil_char_boundary(rest.len().saturating_sub(bytes));
    format!(
        "{} {} {}",
        &text[..head],
        cut_note(&rest[..tail]),
        &rest[tail..]
    )
}

/// Spends tokens on a section, and returns the tokens that are left.
type Fill = fn(&mut Filled, Tokens, &dyn TokenCounter) -> Tokens;

impl Filled {
    /// Adds lines in their shortest form while they fit in `room`.
    fn add(&mut self, room: Tokens, counter: &dyn TokenCounter) -> Tokens {
        let mut left = room;
        if self.chosen.is_empty() {
            // The tokens of the heading, and of the line with the number of
            // hidden lines.
            let Some(rest) = left.checked_sub(counter.count(self.heading) + 10) else {
                return left;
            };
            left = rest;
        }
        for line in &self.lines[self.chosen.len()..] {
            let form = line.forms.len() - 1;
            let tokens = counter.count(line.form(form)) + 1;
            if tokens > left {
                break;
            }
            left -= tokens;
            self.chosen.push((form, tokens));
        }
        match self.chosen.is_empty() {
            true => room,
            false => left,
        }
    }

    /// Lengthens lines while they fit in `room`, from the first on. Returns the
    /// tokens that are left.
    fn lengthen(&mut self, room: Tokens, counter: &dyn TokenCounter) -> Tokens {
        let mut left = room;
        for (line, (form, tokens)) in self.lines.iter().zip(&mut self.chosen) {
            for longer in 0..*form {
                let all = counter.count(line.form(longer)) + 1;
                let more = all.saturating_sub(*tokens);
                if more <= left {
                    left -= more;
                    (*form, *tokens) = (longer, all);
                    break;
                }
            }
        }
        left
    }

    fn write(&self, text: &mut String, facts: &Facts) {
        if self.chosen.is_empty() {
            return;
        }
        let forms = || self.lines.iter().zip(&self.chosen);
        let is_shown = |part: &Line| {
            let text = part.forms[0].trim_start_matches("- ");
            let mut others = forms().filter(|(line, _)| !line.is_part);
            others.any(|(line, (form, _))| line.form(*form).contains(text))
        };
        let mut shown: Vec<(usize, &str)> = forms()
            .filter(|entry| !(entry.0.is_part && is_shown(entry.0)))
            .map(|(line, (form, _))| (line.place, line.form(*form)))
            .collect();
        shown.sort_unstable_by_key(|(place, _)| *place);
        text.push_str(self.heading);
        text.push('\n');
        for (_, line) in shown {
            text.push_str(line);
            text.push('\n');
        }
        let dropped = match self.section {
            Section::Failures => facts.failures_dropped,
            _ => 0,
        };
        let left_out = (self.lines.len() - self.chosen.len()) as u64 + dropped;
        if left_out > 0 && self.section != Section::Notes {
            text.push_str(&format!("({left_out} more are not shown)\n"));
        }
    }
}

impl Line {
    fn form(&self, at: usize) -> &str {
        let last = self.forms.len() - 1;
        &self.forms[at.min(last)]
    }
}

/// Returns the beginning of a summary that is known only as text, so that it
/// can be continued.
pub(super) fn notes_of(summary: &str) -> String {
    shorten(summary.trim(), 32 * 1024)
}
