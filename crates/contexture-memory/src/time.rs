//! The times in a query, and how well a text matches them.

use contexture_engine::{Warning, time_zone};
use contexture_time::{Clock, Interval, TimeReading, read_times};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A day, in milliseconds.
pub(crate) const DAY: i64 = 24 * 60 * 60 * 1000;

/// The bonus of a text with a time that a query names, relative to the weight
/// of vectors.
const INSIDE: f32 = 1.0;

/// The bonus of a text of a named month in another year, or of a named year when
/// the query names nothing shorter.
const NAMED: f32 = 0.25;

/// A period of this length or more is a year, which selects little.
const YEAR: i64 = 365 * DAY;

/// Returns the time zone with this name, or UTC if the name is unknown.
pub(crate) fn zone(zone: Option<&str>) -> TimeZone {
    time_zone(zone).unwrap_or(TimeZone::UTC)
}

/// Returns a clock in the time zone with this name. If the name is unknown,
/// returns UTC and a warning.
pub(crate) fn clock(now: Timestamp, zone: Option<&str>) -> (Clock, Option<Warning>) {
    match time_zone(zone) {
        Ok(zone) => (Clock::new(Some(now), zone), None),
        Err(warning) => (Clock::new(Some(now), TimeZone::UTC), Some(warning)),
    }
}

/// The times in a query.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) reading: TimeReading,
}

impl Times {
    /// Returns the times that a query names.
    pub(crate) fn named_in(query: &str, clock: &Clock) -> Self {
        Self {
            reading: read_times(query, clock),
        }
    }

    /// Returns true when the query names no time.
    pub(crate) fn is_empty(&self) -> bool {
        let TimeReading {
            intervals,
            months,
            years,
            ..
        } = &self.reading;
        intervals.is_empty() && months.is_empty() && years.is_empty()
    }

    /// Returns the largest possible [`bonus`](Times::bonus).
    pub(crate) fn most_bonus(&self) -> f32 {
        match (self.is_empty(), self.reading.intervals.is_empty()) {
            (true, _) => 0.0,
            (_, true) => NAMED,
            (_, false) => INSIDE,
        }
    }

    /// Returns the bonus for the time of a text and the times it mentions,
    /// relative to the weight of vectors.
    pub(crate) fn bonus(&self, at: i64, told: &[Interval]) -> f32 {
        if self.is_empty() {
            return 0.0;
        }
        let fits = |asked: &Interval| {
            asked.contains(at)
                || told.iter().any(|told| {
                    // A mention of a whole year has no information about a day
                    // in it.
                    asked.and(*told).is_some() && told.length() <= asked.length().max(7 * DAY)
                })
        };
        let inside = self.reading.intervals.iter().filter(|asked| fits(asked));
        let worth = |asked: &Interval| match asked.length() >= YEAR && asked.from != i64::MIN {
            true if asked.to != i64::MAX => NAMED,
            _ => INSIDE,
        };
        match inside.map(worth).reduce(f32::max) {
            Some(worth) => worth,
            None if self.is_named(at) => NAMED,
            None => 0.0,
        }
    }

    /// Returns true when a time is in a month or year that the query names.
    fn is_named(&self, at: i64) -> bool {
        let TimeReading { months, years, .. } = &self.reading;
        if months.is_empty() && years.is_empty() {
            return false;
        }
        let Ok(at) = Timestamp::from_millisecond(at) else {
            return false;
        };
        let date = at.to_zoned(TimeZone::UTC).date();
        (months.is_empty() || months.contains(&date.month()))
            && (years.is_empty() || years.contains(&date.year()))
    }
}

/// Returns a text without relative times: `yesterday` in a record is another
/// day.
pub(crate) fn without_relative(query: &str, reading: &TimeReading) -> String {
    let mut kept = String::with_capacity(query.len());
    let mut at = 0;
    for range in &reading.relative {
        kept.push_str(&query[at..range.start]);
        at = range.end;
    }
    kept.push_str(&query[at..]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bonus(query: &str, time: &str) -> f32 {
        let now: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
        let at: Timestamp = time.parse().unwrap();
        let times = Times::named_in(query, &clock(now, None).0);
        times.bonus(at.as_millisecond(), &[])
    }

    #[test]
    fn a_time_that_is_named_counts() {
        let query = "What did Ana paint in May 2023?";
        assert_eq!(bonus(query, "2023-05-08T00:00:00Z"), INSIDE);
        assert_eq!(bonus(query, "2022-05-08T00:00:00Z"), 0.0);
        assert_eq!(
            bonus("what happened in 2022", "2022-12-31T23:59:59Z"),
            NAMED
        );
        // The query may also mean the June of another year.
        assert_eq!(bonus("in May or June", "2020-06-01T00:00:00Z"), NAMED);
        assert_eq!(bonus("in May or June", "2026-06-01T00:00:00Z"), INSIDE);
        assert_eq!(bonus("since Monday", "2026-11-17T00:00:00Z"), INSIDE);
        assert_eq!(bonus("may I march?", "2023-05-08T00:00:00Z"), 0.0);
    }

    #[test]
    fn a_time_zone_that_does_not_exist_is_reported() {
        let now = "2026-11-18T12:00:00Z".parse().unwrap();
        let warning = clock(now, Some("Mars/Base")).1.unwrap();
        assert!(warning.message.contains("`Mars/Base`"), "{warning:?}");
        for known in ["UTC", "+02:00", " "] {
            assert!(clock(now, Some(known)).1.is_none(), "{known}");
        }
    }
}
