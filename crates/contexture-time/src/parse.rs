//! Finds expressions of time among the words of a text.

use std::ops::Range;

use crate::Order;
use crate::holiday::{Holiday, holiday};
use crate::tense::Tense;
use crate::token::{
    Gap, Token, day, month, number, ordinal, season, short_month, tokens, weekday, year,
};

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Hour,
    Day,
    Week,
    Weekend,
    Month,
    Quarter,
    Year,
}

/// The number of a recurring period, counted from now: -1 for `last`.
pub(super) type Step = i64;

/// An expression of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// `yesterday`: a day, counted from today.
    FromToday(i64),
    /// `last week`, `this year`.
    Recurring(Unit, Step),
    /// `the coming weekend`.
    ComingWeekend,
    /// `three days ago`, or `in three days` with a negative number.
    Ago(i64, Unit),
    /// `a week from Friday`: this many days after the next one.
    FromNext(i64, Box<Expression>),
    /// `in the last three days`.
    Past(i64, Unit),
    /// `on Monday`, or `last Monday` with a step.
    Weekday(i8, Option<Step>),
    /// `Tuesday last week`.
    WeekdayOfWeek(i8, Step),
    /// `17 April 2026`, `April 17`.
    Day {
        day: i8,
        month: i8,
        year: Option<i16>,
        /// True for the other reading of a date in digits: `4/5/2026`.
        swapped: bool,
    },
    /// `Friday, 4 December`: a date that is probably on this weekday.
    Confirmed(i8, Box<Expression>),
    /// `on the 17th`, or `Monday the 9th` with a weekday.
    DayOfMonth(i8, Option<i8>),
    /// `March`, `last March`, `March 2026`.
    Month {
        month: i8,
        year: Option<i16>,
        step: Option<Step>,
    },
    /// `last summer`, `spring 2026`; by its first month.
    Season {
        month: i8,
        year: Option<i16>,
        step: Option<Step>,
    },
    /// `Q2 2026`.
    Quarter { quarter: i8, year: Option<i16> },
    /// `Christmas`, `last Easter`, `Halloween 2025`.
    Holiday {
        holiday: Holiday,
        year: Option<i16>,
        step: Option<Step>,
    },
    /// `2026`.
    Year(i16),
    /// `between March and May`.
    Between(Box<Expression>, Box<Expression>),
    /// `the week of 9 November`.
    WeekOf(Box<Expression>),
    /// `early May`, `the end of last year`, `the second week of June`.
    PartOf(Part, Box<Expression>),
    /// `three days before November 10`.
    Offset {
        /// Positive for `after`, negative for `before`.
        count: i64,
        unit: Unit,
        /// True for all of the time in between: `the three days before …`.
        all: bool,
        anchor: Box<Expression>,
    },
}

/// A part of a longer period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// `the beginning of`: the first two months of a year, or else as `early`.
    Start,
    /// `early`: the first four tenths.
    Early,
    /// `mid`, `the middle of`: four tenths around the middle.
    Middle,
    /// `late`: the last four tenths.
    Late,
    /// `the end of`: the last two months of a year, or else as `late`.
    End,
    /// `the second week of`: a number of seven days, from 0.
    Week(i64),
    /// `the last week of`.
    LastWeek,
    /// `the first day of`: a number from 0, or from the end for `last`.
    Day(Number),
    /// `the second Monday of`, `the last weekend of`.
    Weekday {
        number: Number,
        weekday: i8,
        days: i64,
    },
    /// `the third quarter of` a year: a number of periods of this many months.
    Months { number: Number, count: i64 },
    /// `the second half of`.
    Half(Number),
    /// `Christmas` of a year.
    Holiday(Holiday),
}

/// The number of a part of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// From 0 for `first`.
    FromStart(i64),
    Last,
}

impl Expression {
    /// Returns true when the meaning depends on the time of the text.
    pub(super) fn is_relative(&self) -> bool {
        match self {
            Self::FromToday(_)
            | Self::Recurring(..)
            | Self::ComingWeekend
            | Self::Ago(..)
            | Self::FromNext(..)
            | Self::Past(..)
            | Self::Weekday(..)
            | Self::WeekdayOfWeek(..) => true,
            Self::Month { step, .. } | Self::Season { step, .. } => step.is_some(),
            Self::Between(from, to) => from.is_relative() && to.is_relative(),
            Self::PartOf(_, whole) => whole.is_relative(),
            Self::Offset { anchor, .. } => anchor.is_relative(),
            _ => false,
        }
    }

    /// Returns true when the expression recurs and does not name the week or
    /// the year: `Monday`, `October`.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Weekday(_, step) => step.is_none(),
            Self::Day { year, .. } | Self::Quarter { year, .. } => year.is_none(),
            Self::Month { year, step, .. }
            | Self::Season { year, step, .. }
            | Self::Holiday { year, step, .. } => year.is_none() && step.is_none(),
            Self::DayOfMonth(..) => true,
            Self::PartOf(_, whole) | Self::WeekOf(whole) | Self::Confirmed(_, whole) => {
                whole.is_open()
            }
            Self::Offset { anchor, .. } => anchor.is_open(),
            _ => false,
        }
    }

    /// Returns true when only the year is open: `29 January`, `October`.
    pub(super) fn has_open_year(&self) -> bool {
        match self {
            Self::Weekday(..) | Self::DayOfMonth(..) => false,
            Self::PartOf(_, whole) | Self::WeekOf(whole) | Self::Confirmed(_, whole) => {
                whole.has_open_year()
            }
            Self::Offset { anchor, .. } => anchor.has_open_year(),
            Self::Between(from, to) => from.has_open_year() || to.has_open_year(),
            _ => self.is_open(),
        }
    }

    /// Returns the year of the expression.
    pub(super) fn year(&self) -> Option<i16> {
        match self {
            Self::Day { year, .. }
            | Self::Month { year, .. }
            | Self::Season { year, .. }
            | Self::Holiday { year, .. }
            | Self::Quarter { year, .. } => *year,
            Self::Year(year) => Some(*year),
            Self::PartOf(_, whole) | Self::WeekOf(whole) | Self::Confirmed(_, whole) => {
                whole.year()
            }
            _ => None,
        }
    }

    /// Returns the month that the expression names.
    pub(super) fn month(&self) -> Option<i8> {
        match self {
            Self::Day { month, .. } | Self::Month { month, .. } => Some(*month),
            Self::PartOf(_, whole) | Self::WeekOf(whole) | Self::Confirmed(_, whole) => {
                whole.month()
            }
            _ => None,
        }
    }
}

/// The side of an expression on which the meant time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Since,
    After,
    Before,
    Until,
}

/// An expression in a text.
#[derive(Debug, Clone)]
pub(super) struct FoundExpression {
    pub(super) expression: Expression,
    pub(super) bound: Option<Bound>,
    pub(super) tense: Tense,
    pub(super) range: Range<usize>,
}

/// Words before a month or a season that show that it is a time.
const TIME_WORDS: &[&str] = &[
    "in",
    "during",
    "since",
    "until",
    "till",
    "of",
    "from",
    "before",
    "after",
    "between",
    "early",
    "mid",
    "late",
    "last",
    "this",
    "next",
    "past",
    "previous",
    "throughout",
    "every",
    "end",
    "through",
];

/// Returns true for a word before a month or a season that shows that it is neither a
/// person nor a verb.
pub(super) fn is_time_word(word: &str) -> bool {
    TIME_WORDS.contains(&word)
}

/// Returns true for a word before a month or a season that shows that it is not a verb.
/// The name of a person can follow `by` and `to`.
fn is_cue(word: &str) -> bool {
    is_time_word(word) || matches!(word, "by" | "to")
}

/// Words before `the 17th` that show that it is a day.
const DATED: &[&str] = &[
    "on", "after", "before", "since", "until", "till", "by", "from", "to", "around", "for",
    "between",
];

/// Nouns that an ordinal number counts: `the 4th floor` is not a day.
const COUNTED: &[&str] = &[
    "amendment",
    "anniversary",
    "attempt",
    "avenue",
    "ave",
    "birthday",
    "book",
    "bus",
    "call",
    "century",
    "chapter",
    "child",
    "class",
    "commit",
    "congress",
    "cousin",
    "day",
    "district",
    "draft",
    "edition",
    "episode",
    "film",
    "floor",
    "game",
    "gate",
    "generation",
    "grade",
    "grader",
    "hole",
    "hour",
    "house",
    "item",
    "iteration",
    "lap",
    "level",
    "line",
    "match",
    "meeting",
    "month",
    "movie",
    "one",
    "page",
    "part",
    "percentile",
    "person",
    "place",
    "platform",
    "point",
    "position",
    "quarter",
    "question",
    "race",
    "room",
    "round",
    "row",
    "run",
    "season",
    "section",
    "semester",
    "session",
    "set",
    "sprint",
    "stage",
    "step",
    "street",
    "symphony",
    "term",
    "test",
    "time",
    "trip",
    "try",
    "version",
    "visit",
    "volume",
    "ward",
    "wave",
    "week",
    "weekend",
    "year",
];

/// The words of a text that is searched for expressions.
pub(super) struct Parser {
    pub(super) tokens: Vec<Token>,
}

impl Parser {
    pub(super) fn new(text: &str, most: usize) -> Self {
        Self {
            tokens: tokens(text, most),
        }
    }

    /// Returns the expressions, in order.
    pub(super) fn expressions(&self) -> Vec<FoundExpression> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let Some((expression, end)) = self.pair(at).or_else(|| self.one(at)) else {
                at += 1;
                continue;
            };
            let range = self.tokens[at].range.start..self.tokens[end - 1].range.end;
            found.push(FoundExpression {
                expression,
                bound: self.bound(at),
                tense: self.tense(at),
                range,
            });
            at = end;
        }
        // A weekday next to a date confirms the year of the date: `Friday, 4
        // December`.
        let mut merged: Vec<FoundExpression> = Vec::with_capacity(found.len());
        for mut next in found {
            if let Some(last) = merged.last()
                && let Expression::Weekday(weekday, None) = last.expression
                && matches!(next.expression, Expression::Day { .. })
                && next.range.start.saturating_sub(last.range.end) <= 6
            {
                next.expression = Expression::Confirmed(weekday, Box::new(next.expression));
                next.bound = next.bound.or(last.bound);
                merged.pop();
            }
            merged.push(next);
        }
        merged
    }

    /// Returns `Some` if the query asks for the earliest or the latest record.
    /// The words of `found` expressions do not count: `first Monday in May`.
    pub(super) fn order(&self, found: &[FoundExpression]) -> Option<Order> {
        const THINGS: &[&str] = &[
            "time",
            "thing",
            "one",
            "message",
            "session",
            "meeting",
            "visit",
            "trip",
            "call",
            "conversation",
            "talk",
            "change",
            "error",
            "commit",
            "run",
            "update",
            "version",
        ];
        const PERSONS: &[&str] = &["i", "you", "we", "he", "she", "they"];
        let latest = |at: usize| match self.word(at) {
            "latest" | "newest" => true,
            "recent" | "recently" => at > 0 && self.word(at - 1) == "most",
            "last" => {
                THINGS.contains(&self.word(at + 1))
                    || (at > 0 && PERSONS.contains(&self.word(at - 1)))
            }
            _ => false,
        };
        let first = |at: usize| match self.word(at) {
            "earliest" | "originally" | "initially" => true,
            "first" => {
                let of_a_name_or_month = matches!(self.word(at + 1), "name" | "week");
                !of_a_name_or_month && self.before(at) != "at"
            }
            _ => false,
        };
        let free: Vec<usize> = self.free(found).collect();
        if free.iter().any(|at| latest(*at)) {
            return Some(Order::Latest);
        }
        free.iter().any(|at| first(*at)).then_some(Order::First)
    }

    /// Returns the indices of the words outside the expressions.
    fn free(&self, found: &[FoundExpression]) -> impl Iterator<Item = usize> {
        (0..self.tokens.len()).filter(|at| {
            let start = self.tokens[*at].range.start;
            !found.iter().any(|found| found.range.contains(&start))
        })
    }

    /// Returns true when times are compared.
    pub(super) fn compares(&self, found: &[FoundExpression]) -> bool {
        let has = |word: &str| self.tokens.iter().any(|token| token.word == word);
        let first = || self.free(found).any(|at| self.word(at) == "first");
        let pair = |a: &str, b: &str| {
            (1..self.tokens.len()).any(|at| self.word(at - 1) == a && self.word(at) == b)
        };
        let units = [
            "days", "weeks", "months", "years", "hours", "minutes", "day", "week", "month", "year",
        ];
        let measured = pair("how", "long")
            || (pair("how", "many") && units.iter().any(|unit| has(unit)))
            || pair("how", "much") && has("time");
        let apart = [
            "between", "passed", "since", "after", "before", "until", "elapsed", "from", "later",
            "earlier",
        ];
        (measured && apart.iter().any(|word| has(word)))
            || pair("what", "order")
            || pair("which", "order")
            || pair("the", "order")
            || has("chronological")
            || has("chronologically")
            || has("timeline")
            || (pair("before", "or") && has("after"))
            || (has("or") && first())
            || pair("came", "first")
            || pair("happened", "first")
    }

    pub(super) fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.word.as_str())
    }

    pub(super) fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |at| self.word(at))
    }

    /// Returns the bound before an expression: `since last May`.
    fn bound(&self, at: usize) -> Option<Bound> {
        let articles = ["the", "on", "around", "about"];
        let skipped = usize::from(articles.contains(&self.before(at)));
        Bound::named(self.before(at.checked_sub(skipped)?))
    }

    /// Returns an interval between two expressions, and its end.
    fn pair(&self, at: usize) -> Option<(Expression, usize)> {
        let joins: &[&str] = match self.word(at) {
            "between" => &["and"],
            "from" | "since" => &["to", "until", "till", "through"],
            _ => return self.dashed(at),
        };
        let after = |at: usize| at + usize::from(matches!(self.word(at), "the" | "on"));
        let first = after(at + 1);
        // `between 3 and 5 May`: the first day has the month of the second.
        if let Some(from) = day(self.word(first))
            && joins.contains(&self.word(first + 1))
            && let Some((
                Expression::Day {
                    day, month, year, ..
                },
                end,
            )) = self.one(after(first + 2))
        {
            let of = |day| {
                Box::new(Expression::Day {
                    day,
                    month,
                    year,
                    swapped: false,
                })
            };
            let (from, to) = (of(from.min(day)), of(from.max(day)));
            return Some((Expression::Between(from, to), end));
        }
        let (from, end) = self.one(first)?;
        joins.contains(&self.word(end)).then_some(())?;
        // `from May 3 to 5`.
        if let Expression::Day {
            day: first,
            month,
            year,
            ..
        } = from
            && let Some(day) = day(self.word(end + 1)).filter(|day| first < *day)
            && self.any_month(end + 2).is_none()
            && !matches!(self.word(end + 2), "am" | "pm" | "of" | "o'clock")
        {
            let to = Expression::Day {
                day,
                month,
                year,
                swapped: false,
            };
            return Some((Expression::Between(Box::new(from), Box::new(to)), end + 2));
        }
        let (to, end) = self.one(after(end + 1))?;
        Some((Expression::Between(Box::new(from), Box::new(to)), end))
    }

    /// `28 April - 3 May`, `Monday-Friday`: two expressions of the same kind.
    fn dashed(&self, at: usize) -> Option<(Expression, usize)> {
        let (from, end) = self.one(at)?;
        let next = self.tokens.get(end)?;
        if next.gap != Gap::Dash {
            return None;
        }
        let (to, end) = self.one(end)?;
        let is_range = matches!(
            (&from, &to),
            (Expression::Day { .. }, Expression::Day { .. })
                | (Expression::Month { .. }, Expression::Month { .. })
                | (Expression::Weekday(..), Expression::Weekday(..))
                | (Expression::Quarter { .. }, Expression::Quarter { .. })
        );
        is_range.then(|| (Expression::Between(Box::new(from), Box::new(to)), end))
    }

    /// Returns the expression that begins at a word, and its end.
    fn one(&self, at: usize) -> Option<(Expression, usize)> {
        let word = self.word(at);
        match word {
            "" => return None,
            "today" | "tonight" => return Some((Expression::FromToday(0), at + 1)),
            "yesterday" => return Some((Expression::FromToday(-1), at + 1)),
            "tomorrow" => return Some((Expression::FromToday(1), at + 1)),
            "day" if self.word(at + 1) == "before" && self.word(at + 2) == "yesterday" => {
                return Some((Expression::FromToday(-2), at + 3));
            }
            // The latest one, unless the text is about the future.
            "weekend"
                if self.before(at) == "the"
                    && at >= 2
                    && matches!(self.word(at - 2), "on" | "at" | "over" | "during" | "for") =>
            {
                let step = match self.tense(at) {
                    Tense::Unknown | Tense::Past | Tense::Reported => -1,
                    Tense::Nearest | Tense::Announced | Tense::Future => 0,
                };
                return Some((Expression::Recurring(Unit::Weekend, step), at + 1));
            }
            "day" if self.word(at + 1) == "after" && self.word(at + 2) == "tomorrow" => {
                return Some((Expression::FromToday(2), at + 3));
            }
            _ => {}
        }
        self.part(at)
            .or_else(|| self.week_of(at))
            .or_else(|| self.ahead(at))
            .or_else(|| self.holiday(at))
            .or_else(|| self.before_last(at))
            .or_else(|| self.weekday_of_month(at))
            .or_else(|| self.weekday_of_week(at))
            .or_else(|| self.stepped(at))
            .or_else(|| self.ago(at))
            .or_else(|| self.offset(at))
            .or_else(|| self.in_digits(at))
            .or_else(|| self.date(at))
            .or_else(|| self.named(at))
    }

    /// `early May`, `mid-2026`, `the end of last month`, `the first week of June`,
    /// `the last Tuesday in October`, `the second half of 2026`.
    fn part(&self, at: usize) -> Option<(Expression, usize)> {
        // An empty join means that the period may follow directly.
        let (part, of, joins): (_, _, &[&str]) = match self.word(at) {
            "early" => (Part::Early, at + 1, &["of", ""]),
            "mid" => (Part::Middle, at + 1, &["of", ""]),
            "late" => (Part::Late, at + 1, &["of", ""]),
            "beginning" | "start" => (Part::Start, at + 1, &["of"]),
            "middle" => (Part::Middle, at + 1, &["of"]),
            "end" => (Part::End, at + 1, &["of"]),
            word => {
                let part = numbered(word, self.word(at + 1))?;
                // `third quarter 2026`.
                let of_year = year(self.word(at + 2)).is_some();
                let joins: &[&str] = match part {
                    Part::Months { .. } | Part::Half(_) if of_year => &[""],
                    _ => &["of", "in"],
                };
                (part, at + 2, joins)
            }
        };
        let whole = of + usize::from(joins.contains(&self.word(of)));
        (whole > of || joins.contains(&"")).then_some(())?;
        // `the beginning of the year` is this year.
        let (expression, end) = match (self.word(whole), unit(self.word(whole + 1))) {
            ("the", Some(unit)) => (Expression::Recurring(unit, 0), whole + 2),
            _ => self.one(whole)?,
        };
        let is_long = match &expression {
            Expression::Month { .. }
            | Expression::Season { .. }
            | Expression::Quarter { .. }
            | Expression::Year(_) => true,
            Expression::Recurring(unit, _) => !matches!(unit, Unit::Hour | Unit::Day),
            _ => false,
        };
        let is_year = matches!(
            expression,
            Expression::Year(_) | Expression::Recurring(Unit::Year, _)
        );
        let is_long = match part {
            Part::Months { .. } => is_year,
            _ => is_long,
        };
        is_long.then(|| (Expression::PartOf(part, Box::new(expression)), end))
    }

    /// `the week before last`, `the Monday before last`, `the night before last`.
    fn before_last(&self, at: usize) -> Option<(Expression, usize)> {
        if self.word(at + 1) != "before" || self.word(at + 2) != "last" {
            return None;
        }
        let word = self.word(at);
        let expression = match weekday(word) {
            Some(weekday) => Expression::Weekday(weekday, Some(-2)),
            None if word == "night" => Expression::FromToday(-2),
            None => Expression::Recurring(unit(word)?, -2),
        };
        Some((expression, at + 3))
    }

    /// `Tuesday last week`, `Tuesday of this week`, `last week on Tuesday`.
    fn weekday_of_week(&self, at: usize) -> Option<(Expression, usize)> {
        let week = |at: usize| {
            let step = step(self.word(at))?;
            (self.word(at + 1) == "week").then_some((step, at + 2))
        };
        if let Some(weekday) = weekday(self.word(at)) {
            let of = usize::from(self.word(at + 1) == "of");
            let (step, end) = week(at + 1 + of)?;
            return Some((Expression::WeekdayOfWeek(weekday, step), end));
        }
        let (step, end) = week(at)?;
        let end = end + usize::from(self.word(end) == "on");
        let weekday = weekday(self.word(end))?;
        Some((Expression::WeekdayOfWeek(weekday, step), end + 1))
    }

    /// `last week`, `this Monday`, `the past three days`.
    fn stepped(&self, at: usize) -> Option<(Expression, usize)> {
        let step = step(self.word(at))?;
        let next = self.word(at + 1);
        if matches!(next, "morning" | "afternoon" | "evening" | "night") {
            let day = if step < 0 { -1 } else { step };
            return Some((Expression::FromToday(day), at + 2));
        }
        if let Some(weekday) = weekday(next) {
            return Some((Expression::Weekday(weekday, Some(step)), at + 2));
        }
        if let Some(month) = month(next) {
            let step = Some(step);
            let year = None;
            return Some((Expression::Month { month, year, step }, at + 2));
        }
        if let Some(month) = season(next) {
            let step = Some(step);
            let year = None;
            return Some((Expression::Season { month, year, step }, at + 2));
        }
        if let Some(unit) = unit(next) {
            let coming = matches!(self.word(at), "coming" | "upcoming");
            let expression = match unit {
                Unit::Weekend if coming => Expression::ComingWeekend,
                _ => Expression::Recurring(unit, step),
            };
            return Some((expression, at + 2));
        }
        if next == "fortnight" && step < 0 {
            return Some((Expression::Past(2, Unit::Week), at + 2));
        }
        // `the last three days`, `the past couple of weeks`.
        let count = number(next).filter(|_| step < 0)?;
        let skipped = usize::from(self.word(at + 2) == "of");
        let end = at + 2 + skipped;
        let unit = unit(self.word(end))?;
        Some((Expression::Past(count, unit), end + 1))
    }

    /// `three days ago`, `a couple of weeks back`, `a fortnight ago`, `two Fridays ago`.
    fn ago(&self, at: usize) -> Option<(Expression, usize)> {
        if let Some((count, unit, end)) = self.half(at)
            && matches!(self.word(end), "ago" | "back")
        {
            return Some((Expression::Ago(count, unit), end + 1));
        }
        let (count, end) = self.count(at)?;
        if !matches!(self.word(end + 1), "ago" | "back") {
            return None;
        }
        let word = self.word(end);
        let singular = word.strip_suffix('s').unwrap_or(word);
        let expression = match (weekday(singular), singular) {
            (Some(weekday), _) => Expression::Weekday(weekday, Some(-count.max(1))),
            (None, "fortnight") => Expression::Ago(2 * count, Unit::Week),
            (None, _) => Expression::Ago(count, unit(word)?),
        };
        Some((expression, end + 2))
    }

    /// `half a year`, `a year and a half`, `two and a half years`: as a number of
    /// months or days.
    fn half(&self, at: usize) -> Option<(i64, Unit, usize)> {
        let and_a_half = |at: usize| {
            self.word(at) == "and" && self.word(at + 1) == "a" && self.word(at + 2) == "half"
        };
        let (wholes, name, end) = if self.word(at) == "half" {
            let a = usize::from(matches!(self.word(at + 1), "a" | "an"));
            (0, self.word(at + 1 + a), at + 2 + a)
        } else {
            let wholes = number(self.word(at))?;
            match (and_a_half(at + 1), and_a_half(at + 2)) {
                (true, _) => (wholes, self.word(at + 4), at + 5),
                (_, true) => (wholes, self.word(at + 1), at + 5),
                _ => return None,
            }
        };
        let halves = wholes * 2 + 1;
        Some(match unit(name)? {
            Unit::Year => (halves * 6, Unit::Month, end),
            Unit::Month => (halves * 15, Unit::Day, end),
            _ => return None,
        })
    }

    /// `in ten days`, `two weeks from now`, `a week from Friday`.
    fn ahead(&self, at: usize) -> Option<(Expression, usize)> {
        let first = at + usize::from(self.word(at) == "in");
        let (count, unit, end) = self.half(first).or_else(|| {
            let (count, end) = self.count(first)?;
            let word = self.word(end);
            Some(match word.strip_suffix('s').unwrap_or(word) {
                "fortnight" => (2 * count, Unit::Week, end + 1),
                _ => (count, unit(word)?, end + 1),
            })
        })?;
        if first > at {
            // `She read it in ten days`, `how often in a week`, `the best film in
            // ten years` and `the first time in two weeks` are durations.
            let measures = |word: &str| {
                let superlative = word.len() > 4 && word.ends_with("est");
                superlative
                    || self::unit(word).is_some()
                    || matches!(
                        word,
                        "how" | "time" | "times" | "once" | "twice" | "best" | "worst" | "most"
                    )
            };
            let mut earlier = at.saturating_sub(6)..at;
            let measured = earlier.any(|at| measures(self.word(at)));
            let lasts = measured || self.tense(at) == Tense::Past;
            let end = end + usize::from(self.word(end) == "time");
            return (!lasts).then_some((Expression::Ago(-count, unit), end));
        }
        if self.word(end) != "from" {
            return None;
        }
        match (self.word(end + 1), unit) {
            ("now", _) => Some((Expression::Ago(-count, unit), end + 2)),
            (_, Unit::Day | Unit::Week) => {
                let days = if unit == Unit::Week { 7 * count } else { count };
                let anchor = end + 1 + usize::from(self.word(end + 1) == "this");
                let (anchor, end) = self.one(anchor)?;
                let is_day = matches!(
                    anchor,
                    Expression::FromToday(_)
                        | Expression::Weekday(..)
                        | Expression::Day { .. }
                        | Expression::DayOfMonth(..)
                );
                is_day.then(|| (Expression::FromNext(days, Box::new(anchor)), end))
            }
            _ => None,
        }
    }

    /// `at Christmas`, `last Easter`, `New Year's Eve 2025`, `Christmas last year`.
    fn holiday(&self, at: usize) -> Option<(Expression, usize)> {
        // Words before a holiday that is not a part of a name such as `the
        // Christmas party`.
        const BEFORE: &[&str] = &[
            "",
            "at",
            "on",
            "over",
            "for",
            "by",
            "since",
            "before",
            "after",
            "until",
            "till",
            "during",
            "around",
            "about",
            "from",
            "to",
            "this",
            "last",
            "next",
            "past",
            "between",
            "and",
            "is",
            "was",
            "every",
            "spend",
            "spent",
            "celebrate",
            "celebrated",
            "of",
        ];
        const NAMES: &[&str] = &[
            "island",
            "tree",
            "party",
            "card",
            "cards",
            "present",
            "presents",
            "gift",
            "gifts",
            "market",
            "dinner",
            "carol",
            "egg",
            "eggs",
            "bunny",
            "costume",
            "song",
            "movie",
            "resolution",
            "resolutions",
        ];
        let own_step = step(self.word(at));
        let start = at + usize::from(own_step.is_some());
        let (holiday, end) = holiday(|ahead| self.word(start + ahead))?;
        let end = start + end;
        let year_at = end + usize::from(matches!(self.word(end), "of" | "in"));
        if let Some(year) = year(self.word(year_at)) {
            let (year, step) = (Some(year), None);
            return Some((
                Expression::Holiday {
                    holiday,
                    year,
                    step,
                },
                year_at + 1,
            ));
        }
        // `Christmas last year` is the one of that calendar year, as is `Christmas
        // this year`.
        if let Some(years) = step(self.word(end))
            && self.word(end + 1) == "year"
        {
            let whole = Box::new(Expression::Recurring(Unit::Year, years));
            return Some((Expression::PartOf(Part::Holiday(holiday), whole), end + 2));
        }
        let is_name = NAMES.contains(&self.word(end)) && !holiday.is_day();
        if own_step.is_none() && (is_name || self.is_habit(at)) {
            return None;
        }
        let follows = own_step.is_some() || BEFORE.contains(&self.before(at));
        let first = self.tokens.get(at)?.first;
        let (year, step) = (None, own_step);
        let found = Expression::Holiday {
            holiday,
            year,
            step,
        };
        (follows || first || holiday.is_day()).then_some((found, end))
    }

    /// `the week of 9 November`.
    fn week_of(&self, at: usize) -> Option<(Expression, usize)> {
        if self.word(at) != "week" || self.word(at + 1) != "of" {
            return None;
        }
        let the = usize::from(self.word(at + 2) == "the");
        let (day, end) = self.date(at + 2 + the)?;
        let is_day = matches!(day, Expression::Day { .. });
        is_day.then(|| (Expression::WeekOf(Box::new(day)), end))
    }

    /// `Monday the 9th`, `Saturday, 18th`, `next Friday, the 27th`.
    fn weekday_of_month(&self, at: usize) -> Option<(Expression, usize)> {
        // `next Friday, the 27th`.
        let at = at + usize::from(step(self.word(at)).is_some());
        let weekday = weekday(self.word(at))?;
        let on = at + 1 + usize::from(self.word(at + 1) == "the");
        let day = self.ordinal_day(on)?;
        Some((Expression::DayOfMonth(day, Some(weekday)), on + 1))
    }

    /// Returns a day such as `17th` that does not count a thing, as in `the 4th
    /// floor`, and has no month.
    fn ordinal_day(&self, at: usize) -> Option<i8> {
        let is_ordinal = self.word(at).ends_with(|c: char| c.is_ascii_alphabetic());
        let day = day(self.word(at)).filter(|_| is_ordinal)?;
        let next = self.tokens.get(at + 1);
        let counts = next
            .is_some_and(|next| next.gap <= Gap::Dash && (COUNTED.contains(&next.word.as_str())));
        let of = usize::from(self.word(at + 1) == "of");
        (!counts && self.any_month(at + 1 + of).is_none()).then_some(day)
    }

    fn any_month(&self, at: usize) -> Option<i8> {
        month(self.word(at)).or_else(|| short_month(self.word(at)))
    }

    /// Returns a day or a range of days, and its end: `3rd`, `3-5`.
    fn days(&self, at: usize) -> Option<(i8, Option<i8>, usize)> {
        let word = self.word(at);
        if let Some((from, to)) = word.split_once('-') {
            let (from, to) = (day(from)?, day(to)?);
            return (from < to).then_some((from, Some(to), at + 1));
        }
        let from = day(word)?;
        let next = self.tokens.get(at + 1).filter(|next| next.gap == Gap::Dash);
        let to = next
            .and_then(|next| day(&next.word))
            .filter(|to| from < *to);
        Some((from, to, at + 1 + usize::from(to.is_some())))
    }

    /// Returns a number before a unit, and its end: `three`, `a couple of`.
    fn count(&self, at: usize) -> Option<(i64, usize)> {
        let mut count = number(self.word(at))?;
        let mut end = at + 1;
        // `a couple of`, `a few`.
        if self.word(at) == "a"
            && let Some(more) = number(self.word(end)).filter(|_| unit(self.word(end)).is_none())
        {
            count = more;
            end += 1;
        }
        end += usize::from(self.word(end) == "of");
        Some((count, end))
    }

    /// `three days before November 10`, `two weeks after 3 May`, `the day after
    /// 3 May`, `the three days before 3 May`.
    fn offset(&self, at: usize) -> Option<(Expression, usize)> {
        let the = self.before(at) == "the";
        let counted = self.count(at);
        let (count, end) = counted.or(the.then_some((1, at)))?;
        let word = self.word(end);
        let (count, unit) = match word.strip_suffix('s').unwrap_or(word) {
            "fortnight" => (2 * count, Unit::Week),
            _ => (count, unit(word)?),
        };
        if matches!(unit, Unit::Hour | Unit::Weekend) {
            return None;
        }
        let (count, end) = match (self.word(end + 1), self.word(end + 2)) {
            ("before", _) => (-count, end + 2),
            ("prior", "to") => (-count, end + 3),
            ("after" | "following", _) => (count, end + 2),
            _ => return None,
        };
        let end = end + usize::from(self.word(end) == "the");
        let (anchor, end) = self.one(end)?;
        let expression = Expression::Offset {
            count,
            unit,
            all: the && (counted.is_some() || unit != Unit::Day),
            anchor: Box::new(anchor),
        };
        Some((expression, end))
    }

    /// `2026-04-17`, `2026-04`, `17.4.2026`, `4/17/2026`.
    fn in_digits(&self, at: usize) -> Option<(Expression, usize)> {
        let word = self.word(at);
        // A time after the date is ignored: `2026-04-17t10`.
        let word = word.split('t').next().unwrap_or(word);
        let mut parts = word.split(['-', '/', '.']);
        let mut part = || parts.next()?.parse::<i16>().ok();
        let (first, second, third) = (part()?, part()?, part());
        let small = |n: i16, most: i16| i8::try_from(n).ok().filter(|_| (1..=most).contains(&n));
        let is_year = |n: i16| (1900..2100).contains(&n);
        let found = if third.is_none() && is_year(first) && is_year(second) && first < second {
            // `2024-2025`.
            let year = |year: i16| Box::new(Expression::Year(year));
            Expression::Between(year(first), year(second))
        } else if word.len() >= 6 && (1000..=9999).contains(&first) {
            let (month, year) = (small(second, 12)?, Some(first));
            match third {
                Some(day) => Expression::Day {
                    day: small(day, 31)?,
                    month,
                    year,
                    swapped: false,
                },
                None => Expression::Month {
                    month,
                    year,
                    step: None,
                },
            }
        } else if third.is_none() && !word.contains('.') && is_year(second) {
            // `09/2026`.
            Expression::Month {
                month: small(first, 12)?,
                year: Some(second),
                step: None,
            }
        } else {
            let year = third.filter(|year| (1000..=9999).contains(year));
            if year.is_none() && !(third.is_none() && self.is_date_without_year(at, first, second))
            {
                return None;
            }
            let by_day = small(first, 31).zip(small(second, 12));
            let by_month = small(second, 31).zip(small(first, 12));
            let slashes = word.contains('/');
            match (by_day, by_month) {
                (Some((day, month)), None) => Expression::Day {
                    day,
                    month,
                    year,
                    swapped: false,
                },
                (None, Some((day, month))) if slashes => Expression::Day {
                    day,
                    month,
                    year,
                    swapped: false,
                },
                // Both orders are in use, so both readings are kept.
                (Some((day, month)), Some(_)) => Expression::Day {
                    day,
                    month,
                    year,
                    swapped: slashes && day != month,
                },
                _ => return None,
            }
        };
        Some((found, at + 1))
    }

    /// Returns true for `4/13` and `on 4/5`, and false for `24/7` and for a
    /// fraction.
    fn is_date_without_year(&self, at: usize, first: i16, second: i16) -> bool {
        let cue = matches!(
            self.before(at),
            "on" | "since"
                | "until"
                | "till"
                | "by"
                | "due"
                | "before"
                | "after"
                | "from"
                | "dated"
        );
        let is_ambiguous = first <= 12 && second <= 12;
        let starts = self.tokens.get(at).is_some_and(|token| token.first);
        self.word(at).contains('/')
            && (cue || (starts && !is_ambiguous))
            && (first, second) != (24, 7)
            && self.word(at + 1) != "of"
    }

    /// `17 April 2026`, `the 17th of April`, `April 17, 2026`, `on the 17th`.
    fn date(&self, at: usize) -> Option<(Expression, usize)> {
        let with_year = |day: i8, to: Option<i8>, month: i8, end: usize| {
            let year = year(self.word(end));
            let end = end + usize::from(year.is_some());
            let of = |day: i8| Expression::Day {
                day,
                month,
                year,
                swapped: false,
            };
            let found = match to {
                Some(to) => Expression::Between(Box::new(of(day)), Box::new(of(to))),
                None => of(day),
            };
            Some((found, end))
        };
        if let Some((day, to, end)) = self.days(at) {
            let of = usize::from(self.word(end) == "of");
            if let Some(month) = self.any_month(end + of) {
                return with_year(day, to, month, end + 1 + of);
            }
            // `the 3rd and 5th of May`.
            let next = end + 1 + usize::from(self.word(end + 1) == "the");
            if matches!(self.word(end), "and" | "or")
                && self.days(next).is_some()
                && let Some((Expression::Day { month, year, .. }, _)) = self.date(next)
            {
                let found = Expression::Day {
                    day,
                    month,
                    year,
                    swapped: false,
                };
                return Some((found, end));
            }
            let the = at >= 2 && self.word(at - 1) == "the";
            let listed = matches!(self.word(at.saturating_sub(2)), "and" | "or")
                && at >= 3
                && self.ordinal_day(at - 3).is_some();
            let dated = the && (listed || DATED.contains(&self.word(at - 2)));
            let day = self.ordinal_day(at).filter(|_| dated)?;
            return Some((Expression::DayOfMonth(day, None), at + 1));
        }
        // `the first of November`, `the twenty-first of May`.
        let tens = match self.word(at) {
            "twenty" => 20,
            "thirty" => 30,
            _ => 0,
        };
        let of = at + 1 + usize::from(tens > 0);
        if let Some(day) = ordinal(self.word(of - 1))
            && self.word(of) == "of"
            && let Some(month) = self.any_month(of + 1)
            && let Ok(day) = i8::try_from(tens + day)
        {
            return with_year(day, None, month, of + 2);
        }
        let month = self.any_month(at)?;
        let the = usize::from(self.word(at + 1) == "the");
        let (day, to, end) = self.days(at + 1 + the)?;
        with_year(day, to, month, end)
    }

    /// Weekdays, months, seasons, quarters and years by their names alone.
    fn named(&self, at: usize) -> Option<(Expression, usize)> {
        let token = self.tokens.get(at)?;
        let word = token.word.as_str();
        if let Some(weekday) = weekday(word) {
            return Some((Expression::Weekday(weekday, None), at + 1));
        }
        let cue = is_cue(self.before(at));
        let next_year = year(self.word(at + 1 + usize::from(self.word(at + 1) == "of")));
        let end = |year: Option<i16>| match year {
            Some(_) => at + 2 + usize::from(self.word(at + 1) == "of"),
            None => at + 1,
        };
        let is_name = || self.is_person(at) || self.is_in_title(at);
        if let Some(month) = month(word) {
            if next_year.is_none() && is_name() {
                return None;
            }
            // `march` and `may` are also verbs.
            let verb = matches!(word, "march" | "may");
            let asks = verb && token.first && next_year.is_none();
            let is_month = cue || next_year.is_some() || (token.capital && !asks);
            return (is_month || (!verb && !token.capital)).then_some((
                Expression::Month {
                    month,
                    year: next_year,
                    step: None,
                },
                end(next_year),
            ));
        }
        if let Some(month) = season(word) {
            if next_year.is_none() && is_name() {
                return None;
            }
            let the = self.before(at) == "the" && at >= 2 && is_cue(self.word(at - 2));
            return (cue || the || next_year.is_some()).then_some((
                Expression::Season {
                    month,
                    year: next_year,
                    step: None,
                },
                end(next_year),
            ));
        }
        if let Some(quarter) = word.strip_prefix('q').and_then(|q| q.parse::<i8>().ok())
            && (1..=4).contains(&quarter)
        {
            let found = Expression::Quarter {
                quarter,
                year: next_year,
            };
            return Some((found, end(next_year)));
        }
        // `in the first quarter`, but not `the first quarter of the game`.
        if let Some(quarter @ 1..=4) = ordinal(word).and_then(|n| i8::try_from(n).ok())
            && self.word(at + 1) == "quarter"
            && self.before(at) == "the"
            && self.word(at + 2) != "of"
        {
            let year = None;
            return Some((Expression::Quarter { quarter, year }, at + 2));
        }
        // `H2 2026`. Without a year this is a heading of a document.
        if let ("h1" | "h2", Some(year)) = (word, next_year) {
            let half = Part::Half(Number::FromStart(i64::from(word == "h2")));
            let whole = Box::new(Expression::Year(year));
            return Some((Expression::PartOf(half, whole), end(next_year)));
        }
        // `the 1990s`. `the 1900s` may be the century.
        if let Some(first) = word
            .strip_suffix('s')
            .and_then(year)
            .filter(|year| year % 10 == 0 && *year != 1900)
        {
            let [from, to] = [first, first + 9].map(|year| Box::new(Expression::Year(year)));
            return Some((Expression::Between(from, to), at + 1));
        }
        let year = year(word).filter(|_| !self.is_other_number(at))?;
        // `2026 Q3`, `2026-Q3`.
        if self.word(at + 1).starts_with('q')
            && let Some((
                Expression::Quarter {
                    quarter,
                    year: None,
                },
                end,
            )) = self.named(at + 1)
        {
            let year = Some(year);
            return Some((Expression::Quarter { quarter, year }, end));
        }
        Some((Expression::Year(year), at + 1))
    }
}

/// Returns the step that a word names: -1 for `last`.
fn step(word: &str) -> Option<Step> {
    Some(match word {
        "last" | "past" | "previous" => -1,
        "this" | "current" => 0,
        "next" | "coming" | "upcoming" | "following" => 1,
        _ => return None,
    })
}

/// Returns the part that two words name: `second Monday`, `last day`.
fn numbered(word: &str, what: &str) -> Option<Part> {
    let number = match (word, ordinal(word), day(word)) {
        ("last", ..) => Number::Last,
        (_, Some(number), _) => Number::FromStart(number - 1),
        // `2nd`, but not `2`.
        (_, None, Some(day)) if !word.ends_with(|c: char| c.is_ascii_digit()) => {
            Number::FromStart(i64::from(day) - 1)
        }
        _ => return None,
    };
    let months = |count: i64| Part::Months { number, count };
    Some(match (what, number) {
        ("week", Number::Last) => Part::LastWeek,
        ("week", Number::FromStart(number)) => Part::Week(number),
        ("day", _) => Part::Day(number),
        ("month", _) => months(1),
        ("quarter", _) => months(3),
        ("half", _) => Part::Half(number),
        ("weekend", _) => Part::Weekday {
            number,
            weekday: 5,
            days: 2,
        },
        _ => Part::Weekday {
            number,
            weekday: weekday(what)?,
            days: 1,
        },
    })
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "hour" => Unit::Hour,
        "day" => Unit::Day,
        "week" => Unit::Week,
        "weekend" => Unit::Weekend,
        "month" => Unit::Month,
        "quarter" => Unit::Quarter,
        "year" => Unit::Year,
        _ => return None,
    })
}
