//! Finds days, months and years in a query.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A day, in milliseconds.
pub(crate) const DAY: i64 = 24 * 60 * 60 * 1000;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The months and years that a query names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    months: BTreeSet<i8>,
    years: BTreeSet<i16>,
}

impl Dates {
    /// Returns the months and years that a text names. A month is written with
    /// a capital, so that one may march.
    pub(crate) fn named_in(text: &str) -> Self {
        let mut dates = Self::default();
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            let capital = word.starts_with(char::is_uppercase);
            let lower = word.to_lowercase();
            let month = MONTHS.iter().position(|month| capital && *month == lower);
            dates.months.extend(month.map(|month| month as i8 + 1));
            let year = word.parse::<i16>().ok();
            let year = year.filter(|year| (1900..2100).contains(year));
            dates.years.extend(year.filter(|_| word.len() == 4));
        }
        dates
    }

    /// Returns true when none is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.months.is_empty() && self.years.is_empty()
    }

    /// Returns true when a time, in Unix milliseconds, is one of those that are
    /// named.
    pub(crate) fn hold(&self, at: i64) -> bool {
        if self.is_empty() {
            return false;
        }
        let Ok(at) = Timestamp::from_millisecond(at) else {
            return false;
        };
        let date = at.to_zoned(TimeZone::UTC).date();
        (self.months.is_empty() || self.months.contains(&date.month()))
            && (self.years.is_empty() || self.years.contains(&date.year()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(query: &str, time: &str) -> bool {
        let at: Timestamp = time.parse().unwrap();
        Dates::named_in(query).hold(at.as_millisecond())
    }

    #[test]
    fn a_month_or_a_year_that_is_named_holds() {
        assert!(holds(
            "What did Ana paint in May 2023?",
            "2023-05-08T00:00:00Z"
        ));
        assert!(!holds(
            "What did Ana paint in May 2023?",
            "2022-05-08T00:00:00Z"
        ));
        assert!(holds("what happened in 2022", "2022-12-31T23:59:59Z"));
        assert!(holds("in May or June", "2020-06-01T00:00:00Z"));
    }

    #[test]
    fn a_verb_spelled_like_a_month_is_not_a_date() {
        assert!(!holds("may I march?", "2023-05-08T00:00:00Z"));
        assert!(!holds("who won?", "2023-05-08T00:00:00Z"));
    }
}
