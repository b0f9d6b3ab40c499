//! Resolves expressions of time in English text to intervals: `yesterday`,
//! `last week`, `in the last three days`, `on Monday`, `17 April 2026`,
//! `2026-04-17`, `in march`, `since May`, `between June and August`, `early May`,
//! `the week before last`, `Tuesday last week`, `the last Tuesday of October`,
//! `three days before 10 November`, `the second half of 2026`, `Monday the 9th`,
//! `May 3-5`, `in ten days`, `a week from Friday`, `last Christmas`.
//!
//! ```
//! use contexture_time::{Clock, read_times};
//! use jiff::tz::TimeZone;
//!
//! let now = "2026-11-18T12:00:00Z".parse().unwrap();
//! let reading = read_times("What did we decide yesterday?", &Clock::new(Some(now), TimeZone::UTC));
//! let day = reading.intervals[0];
//! assert!(day.contains("2026-11-17T09:30:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond()));
//! ```
//!
//! Relative expressions are resolved against a [`Clock`]: the time of the text,
//! in the time zone of its author. Without a time only complete dates are
//! resolved.
//!
//! Weeks begin on Monday, and seasons are those of the northern hemisphere. A
//! date without a year, a weekday or a month means the latest one that has
//! begun: most queries are about the past. In a clause about the future, such as
//! `What will happen in December?`, it means the next one. In a clause that
//! announces something, such as `The deadline moves to 29 January`, a date
//! means the nearest one.
//!
//! A range such as `from Monday to Friday` means the latest one whose end has
//! begun: its end is resolved first, and its start is the latest one before that
//! end. In a clause about the future, the start is resolved first.
//!
//! Months, seasons and years that are names are not times: `What did April say?`,
//! `The Summer Book`, `Who read 1984?`.

mod holiday;
mod names;
mod parse;
mod resolve;
mod tense;
mod token;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use regex::Regex;

use crate::parse::{Bound, Parser};
use crate::tense::Tense;

/// The maximum number of words of a text that are read.
const MOST_WORDS: usize = 512;

/// The maximum number of intervals that one text mentions.
const MOST_MENTIONED: usize = 4;

/// A period of time in Unix milliseconds; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// The first millisecond.
    pub from: i64,
    /// The first millisecond after the interval.
    pub to: i64,
}

impl Interval {
    /// Returns true if a time is in the interval.
    pub fn contains(self, at: i64) -> bool {
        (self.from..self.to).contains(&at)
    }

    /// Returns the part that is in both intervals, if there is one.
    pub fn and(self, other: Self) -> Option<Self> {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        (from < to).then_some(Self { from, to })
    }

    /// Returns its length in milliseconds.
    pub fn length(self) -> i64 {
        self.to.saturating_sub(self.from)
    }
}

/// The time of a text, and its time zone.
#[derive(Debug, Clone)]
pub struct Clock {
    now: Option<Zoned>,
    zone: TimeZone,
}

impl Clock {
    /// Returns a clock. Without a time, relative expressions are not resolved.
    pub fn new(now: Option<Timestamp>, zone: TimeZone) -> Self {
        Self {
            now: now.map(|now| now.to_zoned(zone.clone())),
            zone,
        }
    }
}

/// The order that a query asks for among the matching records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The earliest: `When did I first …?`
    First,
    /// The latest: `What was the last thing …?`
    Latest,
}

/// The times that a query names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimeReading {
    /// The intervals of the query. A record in any of them matches.
    pub intervals: Vec<Interval>,
    /// The months that are named, of any year.
    pub months: BTreeSet<i8>,
    /// The years that are named.
    pub years: BTreeSet<i16>,
    /// `Some` if the query asks for the earliest or the latest record.
    pub order: Option<Order>,
    /// True if the query compares times: which event came first, or how long it
    /// was between two events.
    pub compares: bool,
    /// True if bounds exclude each other or every other named time, as in
    /// `yesterday, before last week`. Such bounds are ignored.
    pub contradicts: bool,
    /// The byte ranges of relative expressions. Their words are unrelated to
    /// the content of a record.
    pub relative: Vec<Range<usize>>,
    /// The relative expressions that could not be resolved without a time.
    pub unresolved: Vec<String>,
}

/// Returns true for texts that may name a time. Other texts, which are most,
/// are not parsed.
fn may_name_a_time(text: &str) -> bool {
    static CUES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let cues = "[0-9]|day|week|month|year|quarter|hour|morning|evening|night|noon|tomorrow|\
                    first|last|latest|newest|recent|earliest|original|initial|order|chronolog|\
                    timeline|before|january|february|march|april|may|june|july|august|\
                    september|october|november|december|spring|summer|autumn|fall|winter|long|christmas|\
                    easter|halloween|thanksgiving|new year";
        Regex::new(&format!("(?i){cues}")).ok()
    });
    CUES.as_ref().is_none_or(|cues| cues.is_match(text))
}

/// Reads the times that a query names.
pub fn read_times(query: &str, clock: &Clock) -> TimeReading {
    if !may_name_a_time(query) {
        return TimeReading::default();
    }
    let parser = Parser::new(query, MOST_WORDS);
    let expressions = parser.expressions();
    let mut reading = TimeReading {
        order: parser.order(&expressions),
        compares: parser.compares(&expressions),
        ..TimeReading::default()
    };
    let (mut points, mut bounds) = (Vec::new(), Vec::new());
    for found in expressions {
        if found.expression.is_relative() {
            reading.relative.push(found.range.clone());
        }
        reading.months.extend(found.expression.month());
        reading.years.extend(found.expression.year());
        let expression = &found.expression;
        // `What is due in June?` is a query about the next June.
        let tense = match found.tense {
            Tense::Announced if parser.is_question() => Tense::Future,
            tense => tense,
        };
        match resolve::interval(expression, clock, tense) {
            Some(interval) => match found.bound {
                None => {
                    points.push(interval);
                    points.extend(resolve::other_reading(expression, clock, tense));
                }
                Some(bound) => bounds.push(resolve::bounded(bound, interval)),
            },
            None => {
                let said = query[found.range.clone()].to_owned();
                reading.unresolved.push(said);
            }
        }
    }
    (reading.intervals, reading.contradicts) = combine(points, &bounds);
    reading
}

/// Returns the times, other than its own, that a text mentions: `last Friday`
/// in a message of 8 May is 1 May.
pub fn mentioned_times(text: &str, clock: &Clock) -> Vec<Interval> {
    if !may_name_a_time(text) {
        return Vec::new();
    }
    let parser = Parser::new(text, MOST_WORDS);
    let said = clock.now.as_ref().map(|now| now.timestamp());
    let mut found: Vec<Interval> = parser
        .expressions()
        .iter()
        .flat_map(|found| {
            let first = resolve::interval(&found.expression, clock, found.tense);
            // Both readings of `4/5/2026`, as in a query.
            let swapped = resolve::swapped(&found.expression, clock, found.tense);
            let both = first.into_iter().chain(swapped);
            both.map(move |interval| (found, interval))
        })
        .map(|(found, interval)| {
            let is_ahead = matches!(found.tense, Tense::Future | Tense::Announced);
            match found.bound {
                None => interval,
                // `The report is due by Friday` mentions the Friday.
                Some(Bound::Until) if is_ahead => interval,
                // `I have been ill since Tuesday` mentions the Tuesday, when it
                // began.
                Some(Bound::Since) => interval,
                Some(bound) => resolve::bounded(bound, interval),
            }
        })
        // An interval without an end, and the time of the text itself, have no
        // information.
        .filter(|interval| interval.from != i64::MIN && interval.to != i64::MAX)
        .filter(|interval| !said.is_some_and(|said| interval.contains(said.as_millisecond())))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(MOST_MENTIONED);
    found
}

/// Returns the intervals of a query: the points within the bounds. Bounds that
/// exclude each other or every point are ignored, and the result is marked.
fn combine(points: Vec<Interval>, bounds: &[Interval]) -> (Vec<Interval>, bool) {
    if bounds.is_empty() {
        return (points, false);
    }
    let all = Interval {
        from: i64::MIN,
        to: i64::MAX,
    };
    let bound = bounds.iter().try_fold(all, |one, other| one.and(*other));
    match bound {
        None => (points, true),
        Some(bound) if points.is_empty() => (vec![bound], false),
        Some(bound) => {
            let within: Vec<Interval> = points.iter().filter_map(|one| one.and(bound)).collect();
            match within.is_empty() {
                true => (points, true),
                false => (within, false),
            }
        }
    }
}

impl Bound {
    /// Returns the bound that a word begins, as in `since May`.
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "since" => Self::Since,
            "after" | "following" => Self::After,
            "before" | "prior" => Self::Before,
            "until" | "till" | "til" | "by" => Self::Until,
            _ => return None,
        })
    }
}
