//! Summarises a conversation without a language model, by picking sentences.
//!
//! Nothing is paraphrased: sentences are taken as they stand, sorted into
//! sections by who said them and by the words in them, and compete for the
//! room there is. Failures do not compete. An agent that forgets what it tried
//! tries it again, so they are shortened, told together and in the end only
//! counted, but never dropped. Only what is the same is said to have happened
//! several times.
//!
//! Of requests and decisions the newest are kept first, for a later one often
//! overrides an earlier one; how many were left out is said, and carried on.

use contexture_core::{TokenCounter, Tokens};

mod fit;
mod gather;
mod prose;
mod tools;
mod variants;

use gather::Gathered;

/// The author of a [`Passage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person: what they say is what the work is for.
    User,
    /// The model's prose.
    Assistant,
    /// The arguments of a tool call, as JSON or as plain text.
    ToolCall,
    /// The result of a tool call.
    ToolResult,
    /// Anything else, such as a note by the host.
    Other,
}

/// One piece of what is summarised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage<'a> {
    /// The author.
    pub speaker: Speaker,
    /// Its text, already guarded: secrets are masked.
    pub text: &'a str,
    /// True for an error result or a turn that failed.
    pub failed: bool,
    /// The number of the turn it belongs to.
    pub turn: u64,
    /// The tool's name, for calls and results.
    pub name: Option<&'a str>,
}

/// Returns a summary of at most `target` tokens, or an empty string when there
/// is nothing to say or no room to say it.
///
/// `passages` come oldest first. `earlier` is the summary of what went before
/// them: an output of this function, whose bullets keep their sections and
/// compete again, or free text, which is read like prose. Sentences that share
/// words with `focus` rank much higher.
///
/// The cost is linear in the size of the input. Of a long passage of prose the
/// start and the end are read; of a long tool result also every line that
/// looks like an error.
pub fn extract(
    earlier: Option<&str>,
    passages: &[Passage<'_>],
    focus: Option<&str>,
    target: Tokens,
    counter: &dyn TokenCounter,
) -> String {
    let mut gathered = Gathered::new(focus);
    if let Some(earlier) = earlier {
        gathered.read_earlier(earlier, passages);
    }
    gathered.read(passages);
    gathered.settle_questions();
    gathered.list_files();

    // Bullets are counted one by one and their sum is an estimate, so the whole
    // is counted once more. Giving up at least a sixteenth of the room each
    // time makes this end soon, whatever the counter answers.
    let mut room = target;
    while room > 0 {
        let text = gathered.compose(room, counter);
        let over = counter.count(&text).saturating_sub(target);
        if over == 0 && !text.is_empty() {
            return text;
        }
        room = room.saturating_sub(over.max(room / 16).max(1));
        if text.is_empty() {
            break;
        }
    }
    gathered.last_resort(target, counter)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Asked,
    Decided,
    Failed,
    Done,
    Facts,
    Files,
    Next,
    Open,
}
use Section::{Asked, Decided, Done, Facts, Failed, Files, Next, Open};

/// The sections in the order they are written, with what a bullet is worth.
const SECTIONS: [(Section, &str, i64); 8] = [
    (Asked, "## Asked for\n", 80),
    (Decided, "## Decided\n", 90),
    (Failed, "## Failed attempts\n", 100),
    (Done, "## Done\n", 65),
    (Facts, "## Facts\n", 35),
    (Files, "## Files\n", 60),
    (Next, "## Next\n", 60),
    (Open, "## Open questions\n", 85),
];

/// The sections that say how much was left out, the most telling first.
const NOTED: [Section; 3] = [Decided, Asked, Open];

/// The largest count read back, so that sums cannot overflow.
const MOST_TIMES: u64 = 1_000_000_000;

/// How long a request or a decision is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// It was taken back, or says little.
    Weak,
    Plain,
    /// A constraint, or something that was agreed on.
    Strong,
    /// What the user asked for first: what all of it is for.
    Task,
}

/// A candidate for a line of the summary.
#[derive(Debug, Clone)]
struct Bullet {
    section: Section,
    text: String,
    // How often it happened; only failures and calls are counted.
    times: u64,
    // It stands for failures that need not be the same.
    is_varied: bool,
    // The same call succeeded later.
    is_solved: bool,
    value: i64,
    weight: Weight,
    // What of its value is due to the focus.
    focus: i64,
    // The passage it comes from, counted from one; zero is the earlier summary.
    time: usize,
    // Its place among the bullets of one passage.
    order: usize,
    tokens: Option<Tokens>,
}

impl Bullet {
    /// Returns what is said behind the text: `(3 times, later ok)`, or
    /// `(3 similar)` of what differs.
    fn suffix(&self) -> String {
        let what = if self.is_varied { "similar" } else { "times" };
        match (self.times, self.is_solved) {
            (0 | 1, false) => String::new(),
            (0 | 1, true) => " (later ok)".to_owned(),
            (times, false) => format!(" ({times} {what})"),
            (times, true) => format!(" ({times} {what}, later ok)"),
        }
    }

    /// Undoes [`Bullet::suffix`].
    fn parse(text: &str) -> SummaryLine<'_> {
        let once = SummaryLine {
            text,
            times: 1,
            is_varied: false,
            is_solved: false,
        };
        let parsed = text
            .strip_suffix(')')
            .and_then(|rest| rest.rsplit_once(" ("));
        let Some((body, inside)) = parsed else {
            return once;
        };
        let is_solved = inside.ends_with("later ok");
        let count = inside.trim_end_matches("later ok").trim_end_matches(", ");
        let similar = count.strip_suffix(" similar");
        let times = similar
            .or(count.strip_suffix(" times"))
            .and_then(|times| times.parse::<u64>().ok());
        match times {
            Some(times) => SummaryLine {
                text: body,
                times: times.min(MOST_TIMES),
                is_varied: similar.is_some(),
                is_solved,
            },
            None if is_solved && count.is_empty() => SummaryLine {
                text: body,
                is_solved,
                ..once
            },
            None => once,
        }
    }

    fn line(&self) -> String {
        format!("- {}{}\n", self.text, self.suffix())
    }
}

/// Returns the line that says how many bullets of a section were left out;
/// `is_earlier` says that they are all older than the newest one kept.
fn left_out_line(count: u64, is_earlier: bool) -> String {
    let earlier = if is_earlier { "earlier " } else { "" };
    format!("({count} {earlier}left out)")
}

/// Undoes [`left_out_line`].
fn parse_left_out(text: &str) -> Option<u64> {
    let (count, rest) = text.strip_prefix('(')?.split_once(' ')?;
    let count = count.parse::<u64>().ok()?.min(MOST_TIMES);
    matches!(rest, "left out)" | "earlier left out)").then_some(count)
}

/// A line of a summary, read back.
struct SummaryLine<'a> {
    text: &'a str,
    times: u64,
    is_varied: bool,
    is_solved: bool,
}

/// Splits "`cargo test`: error" into the call and what came of it.
fn call_of(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('`')?.split_once("`: ")
}
