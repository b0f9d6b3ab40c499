//! Resolves expressions of time to intervals.

use jiff::civil::{Date, Weekday};
use jiff::{Span, Timestamp, ToSpan as _};

use crate::holiday::Holiday;
use crate::parse::{Bound, Expression, Number, Part, Unit};
use crate::tense::Tense;
use crate::{Clock, Interval};

/// Returns the interval of an expression. Returns `None` for a date that does
/// not exist, and for a relative expression without a time.
pub(super) fn interval(expression: &Expression, clock: &Clock, tense: Tense) -> Option<Interval> {
    let resolve = |tense: Tense| {
        let resolver = Resolver {
            clock,
            tense,
            in_range: false,
        };
        resolver.interval(expression)
    };
    match tense {
        Tense::Unknown | Tense::Past | Tense::Future => resolve(tense),
        // An appointment on Monday or on the 14th is the next one, even a day
        // after a Monday.
        Tense::Nearest | Tense::Announced if !expression.has_open_year() => resolve(Tense::Future),
        Tense::Reported if !expression.has_open_year() => resolve(Tense::Past),
        Tense::Reported | Tense::Nearest | Tense::Announced => {
            let now = clock
                .now
                .as_ref()
                .map(|now| now.timestamp().as_millisecond());
            let distance = |interval: &Interval| {
                let now = now.unwrap_or(interval.from);
                let ahead = interval.from.saturating_sub(now);
                ahead.max(now.saturating_sub(interval.to)).max(0)
            };
            let both = [resolve(Tense::Future), resolve(Tense::Past)];
            both.into_iter().flatten().min_by_key(distance)
        }
    }
}

/// Returns the other possible interval of an expression: today, for `on Monday`
/// on a Monday, and the fifth of April, for `4/5/2026`.
pub(super) fn other_reading(
    expression: &Expression,
    clock: &Clock,
    tense: Tense,
) -> Option<Interval> {
    let resolver = Resolver {
        clock,
        tense,
        in_range: false,
    };
    match *expression {
        Expression::Weekday(weekday, None) if tense.is_past() => {
            let today = resolver.today()?;
            let is_today = today.weekday().to_monday_zero_offset() == weekday;
            is_today.then(|| resolver.days(today, 1)).flatten()
        }
        _ => swapped(expression, clock, tense),
    }
}

/// Returns the other reading of a date in digits: the fifth of April, for
/// `4/5/2026`.
pub(super) fn swapped(expression: &Expression, clock: &Clock, tense: Tense) -> Option<Interval> {
    match *expression {
        Expression::Day {
            day,
            month,
            year,
            swapped: true,
        } => {
            let other = Expression::Day {
                day: month,
                month: day,
                year,
                swapped: false,
            };
            interval(&other, clock, tense)
        }
        _ => None,
    }
}

/// Returns the interval on one side of another.
pub(super) fn bounded(bound: Bound, interval: Interval) -> Interval {
    let Interval { from, to } = interval;
    let (from, to) = match bound {
        Bound::Since => (from, i64::MAX),
        Bound::After => (to, i64::MAX),
        Bound::Before => (i64::MIN, from),
        Bound::Until => (i64::MIN, to),
    };
    Interval { from, to }
}

struct Resolver<'c> {
    clock: &'c Clock,
    tense: Tense,
    /// True for the start and the end of a range. A weekday then includes today.
    in_range: bool,
}

impl Resolver<'_> {
    fn interval(&self, expression: &Expression) -> Option<Interval> {
        match *expression {
            Expression::FromToday(days) => self.days_from_today(days),
            Expression::Recurring(unit, step) => self.recurring(unit, step),
            Expression::ComingWeekend => {
                let today = self.today()?;
                let days_on = today.weekday().to_monday_zero_offset();
                self.recurring(Unit::Weekend, i64::from(days_on >= 5))
            }
            Expression::Ago(count, unit) => self.ago(count, unit),
            Expression::FromNext(count, ref anchor) => {
                let next = Resolver {
                    tense: Tense::Future,
                    ..*self
                };
                let anchor = self.date(next.interval(anchor)?.from)?;
                self.days(anchor.saturating_add(days(count)), 1)
            }
            Expression::Past(count, unit) => self.past(count, unit),
            Expression::Weekday(weekday, step) => self.weekday(weekday, step),
            Expression::WeekdayOfWeek(weekday, step) => {
                let monday = monday_of(self.today()?);
                let count = 7 * step + i64::from(weekday);
                self.days(monday.saturating_add(days(count)), 1)
            }
            Expression::Day {
                day, month, year, ..
            } => self.day(day, month, year),
            Expression::Confirmed(weekday, ref day) => {
                let first = self.interval(day)?;
                let other = Resolver {
                    tense: self.other_tense(),
                    ..*self
                };
                let on_weekday = |interval: &Interval| {
                    let date = self.date(interval.from);
                    date.is_some_and(|date| date.weekday().to_monday_zero_offset() == weekday)
                };
                let mut readings = std::iter::once(first)
                    .chain(other.interval(day))
                    .chain(swapped(day, self.clock, self.tense));
                Some(readings.find(on_weekday).unwrap_or(first))
            }
            Expression::DayOfMonth(day, weekday) => {
                let other = self.other_tense();
                let dates: Vec<Date> = self.days_of_month(day, self.tense).collect();
                // A weekday confirms the month. It may show that the nearest
                // one on the other side is meant.
                let (first, more) = dates.split_first()?;
                let on_the_other_side = self.days_of_month(day, other).take(1);
                let mut candidates = std::iter::once(*first)
                    .chain(on_the_other_side)
                    .chain(more.iter().copied());
                let fits = |date: &Date| {
                    weekday.is_none_or(|day| date.weekday().to_monday_zero_offset() == day)
                };
                self.days(candidates.find(fits).unwrap_or(*first), 1)
            }
            Expression::Month { month, year, step } => self.months(month, 1, year, step),
            Expression::Season { month, year, step } => self.months(month, 3, year, step),
            Expression::Quarter { quarter, year } => self.months(quarter * 3 - 2, 3, year, None),
            Expression::Holiday {
                holiday,
                year,
                step,
            } => self.holiday(holiday, year, step),
            Expression::Year(year) => self.months(1, 12, Some(year), None),
            Expression::Between(ref from, ref to) => self.range(from, to),
            Expression::WeekOf(ref day) => {
                let day = self.date(self.interval(day)?.from)?;
                self.days(monday_of(day), 7)
            }
            Expression::PartOf(part, ref whole) => {
                let is_year = matches!(
                    **whole,
                    Expression::Year(_) | Expression::Recurring(Unit::Year, _)
                );
                self.part_of(part, self.interval(whole)?, is_year)
            }
            Expression::Offset {
                count,
                unit,
                all,
                ref anchor,
            } => self.offset(count, unit, all, self.interval(anchor)?),
        }
    }

    /// Returns the interval from one expression to another. An end without a
    /// week or a year is resolved first, and the start is the latest one before
    /// it. In a text about the future, and after a start that is complete, the
    /// end is the earliest one after the start.
    fn range(&self, from: &Expression, to: &Expression) -> Option<Interval> {
        let ends = Resolver {
            in_range: true,
            ..*self
        };
        let start_first = to.is_open() && (!from.is_open() || self.tense == Tense::Future);
        let (from, to) = if start_first {
            let start = ends.interval(from)?;
            let end = ends.at(start.to, Tense::Future, to);
            (start, end.or_else(|| ends.interval(to))?)
        } else {
            let end = ends.interval(to)?;
            let start = match from.is_open() {
                true => ends.at(end.from.saturating_sub(1), Tense::Past, from),
                false => None,
            };
            (start.or_else(|| ends.interval(from))?, end)
        };
        // The later expression may come first.
        Some(Interval {
            from: from.from.min(to.from),
            to: from.to.max(to.to),
        })
    }

    /// Resolves an expression as at another time.
    fn at(&self, at: i64, tense: Tense, expression: &Expression) -> Option<Interval> {
        let zone = self.clock.zone.clone();
        let clock = Clock::new(Some(Timestamp::from_millisecond(at).ok()?), zone);
        let resolver = Resolver {
            clock: &clock,
            tense,
            in_range: self.in_range,
        };
        resolver.interval(expression)
    }

    fn other_tense(&self) -> Tense {
        match self.tense.is_past() {
            true => Tense::Future,
            false => Tense::Past,
        }
    }

    /// Returns the day of a time.
    fn date(&self, at: i64) -> Option<Date> {
        let at = Timestamp::from_millisecond(at).ok()?;
        Some(at.to_zoned(self.clock.zone.clone()).date())
    }

    /// `three days before November 10` is a day. As with `ago`, weeks and months
    /// are counted to a week and a month around the day.
    fn offset(&self, count: i64, unit: Unit, all: bool, anchor: Interval) -> Option<Interval> {
        let first = self.date(anchor.from)?;
        let end = self
            .date(anchor.to.saturating_sub(1))?
            .saturating_add(days(1));
        let moved = |date: Date| {
            date.saturating_add(match unit {
                Unit::Hour | Unit::Day | Unit::Weekend => days(count),
                Unit::Week => days(count.saturating_mul(7)),
                Unit::Month => months(count),
                Unit::Quarter => months(count.saturating_mul(3)),
                Unit::Year => months(count.saturating_mul(12)),
            })
        };
        if all {
            return match count < 0 {
                true => self.between(moved(first), first),
                false => self.between(end, moved(end)),
            };
        }
        let in_months = matches!(unit, Unit::Month | Unit::Quarter | Unit::Year);
        let is_day = first.saturating_add(days(1)) >= end;
        // `a year before 2026`, `two months after March`.
        if in_months && !is_day {
            return self.between(moved(first), moved(end));
        }
        let date = match count < 0 {
            true => moved(first),
            false => moved(end.saturating_sub(days(1))),
        };
        match (unit, in_months) {
            (Unit::Week, _) => self.days(date.saturating_sub(days(3)), 7),
            (_, true) => self.days(date.saturating_sub(days(15)), 31),
            _ => self.days(date, 1),
        }
    }

    /// Returns a part of an interval. Early, middle and late overlap, because
    /// people do not draw a line between them.
    fn part_of(&self, part: Part, whole: Interval, is_year: bool) -> Option<Interval> {
        const WEEK: i64 = 7 * 24 * 60 * 60 * 1000;
        let tenths = |count: i64| whole.from.saturating_add(whole.length() / 10 * count);
        let dates = || {
            let end = self.date(whole.to.saturating_sub(1))?;
            Some((self.date(whole.from)?, end.saturating_add(days(1))))
        };
        // A part of a year, by its number of periods of this many months.
        let of_year = |number: Number, count: i64| {
            let number = match number {
                Number::FromStart(number) => number,
                Number::Last => 12 / count - 1,
            };
            let first = dates()?.0.saturating_add(months(number * count));
            self.between(first, first.saturating_add(months(count)))
        };
        let (from, to) = match part {
            Part::Start if is_year => return of_year(Number::FromStart(0), 2)?.and(whole),
            Part::End if is_year => return of_year(Number::Last, 2)?.and(whole),
            Part::Holiday(holiday) => {
                let year = dates()?.0.year();
                return self.holiday(holiday, Some(year), None);
            }
            Part::Early | Part::Start => (whole.from, tenths(4)),
            Part::Middle => (tenths(3), tenths(7)),
            Part::Late | Part::End => (tenths(6), whole.to),
            Part::Week(number) => {
                let from = whole.from.saturating_add(WEEK * number);
                (from, from.saturating_add(WEEK))
            }
            Part::LastWeek => (whole.to.saturating_sub(WEEK), whole.to),
            Part::Day(number) => {
                let (first, end) = dates()?;
                let day = match number {
                    Number::FromStart(number) => first.saturating_add(days(number)),
                    Number::Last => end.saturating_sub(days(1)),
                };
                return self.days(day, 1)?.and(whole);
            }
            Part::Weekday {
                number,
                weekday,
                days: count,
            } => {
                let (first, end) = dates()?;
                let day = match number {
                    Number::FromStart(number) => {
                        let ahead = weekday - first.weekday().to_monday_zero_offset();
                        let ahead = i64::from(ahead.rem_euclid(7));
                        first.saturating_add(days(ahead + 7 * number))
                    }
                    Number::Last => {
                        let last = end.saturating_sub(days(1));
                        let back = last.weekday().to_monday_zero_offset() - weekday;
                        last.saturating_sub(days(i64::from(back.rem_euclid(7))))
                    }
                };
                // A weekend belongs to the month of its Saturday.
                let found = self.days(day, count)?;
                return whole.contains(found.from).then_some(found);
            }
            Part::Months { number, count } => return of_year(number, count)?.and(whole),
            Part::Half(number) if is_year => return of_year(number, 6)?.and(whole),
            Part::Half(number) => {
                let (first, end) = dates()?;
                let length = i64::from(first.until(end).ok()?.get_days());
                let middle = self.start(first.saturating_add(days(length / 2)));
                match number {
                    Number::FromStart(0) => (whole.from, middle),
                    Number::FromStart(1) | Number::Last => (middle, whole.to),
                    Number::FromStart(_) => return None,
                }
            }
        };
        Interval { from, to }.and(whole)
    }

    fn today(&self) -> Option<Date> {
        Some(self.clock.now.as_ref()?.date())
    }

    /// Returns the start of a day. At the ends of the calendar this is the
    /// earliest or latest possible time.
    fn start(&self, date: Date) -> i64 {
        match date.to_zoned(self.clock.zone.clone()) {
            Ok(start) => start.timestamp().as_millisecond(),
            Err(_) if date.year() > 0 => i64::MAX,
            Err(_) => i64::MIN,
        }
    }

    fn between(&self, from: Date, end: Date) -> Option<Interval> {
        let (from, to) = (self.start(from), self.start(end));
        (from < to).then_some(Interval { from, to })
    }

    /// Returns the interval of this many days.
    fn days(&self, from: Date, count: i64) -> Option<Interval> {
        self.between(from, from.saturating_add(days(count)))
    }

    fn days_from_today(&self, count: i64) -> Option<Interval> {
        self.days(self.today()?.saturating_add(days(count)), 1)
    }

    fn recurring(&self, unit: Unit, step: i64) -> Option<Interval> {
        let today = self.today()?;
        let monday = monday_of(today);
        match unit {
            Unit::Hour => self.past(1, Unit::Hour),
            Unit::Day => self.days_from_today(step),
            Unit::Week => self.days(monday.saturating_add(days(7 * step)), 7),
            Unit::Weekend => {
                let saturday = monday.saturating_add(days(5));
                // `What did she do this weekend?` on a Tuesday.
                let is_over = step == 0 && self.tense == Tense::Past && today < saturday;
                let step = if is_over { -1 } else { step };
                self.days(saturday.saturating_add(days(7 * step)), 2)
            }
            Unit::Month => {
                let first = today.first_of_month().saturating_add(months(step));
                self.between(first, first.saturating_add(months(1)))
            }
            Unit::Quarter => {
                let first = Date::new(today.year(), (today.month() - 1) / 3 * 3 + 1, 1).ok()?;
                let first = first.saturating_add(months(3 * step));
                self.between(first, first.saturating_add(months(3)))
            }
            Unit::Year => {
                let first = today.first_of_year().saturating_add(months(12 * step));
                self.between(first, first.saturating_add(months(12)))
            }
        }
    }

    /// `three weeks ago` is a week around that day, `two months ago` that month.
    fn ago(&self, count: i64, unit: Unit) -> Option<Interval> {
        let now = self.clock.now.as_ref()?.timestamp().as_millisecond();
        let today = self.today()?;
        match unit {
            Unit::Hour => {
                let hour = 60 * 60 * 1000;
                let at = now.saturating_sub(count.saturating_mul(hour));
                Some(Interval {
                    from: at.saturating_sub(hour),
                    to: at.saturating_add(hour),
                })
            }
            Unit::Day => self.days_from_today(-count),
            Unit::Week => {
                let day = today.saturating_sub(days(7 * count));
                self.days(day.saturating_sub(days(3)), 7)
            }
            Unit::Weekend => self.recurring(Unit::Weekend, -count),
            Unit::Month => {
                // A month around that day contains both ways to count.
                let day = today.saturating_sub(months(count));
                self.days(day.saturating_sub(days(15)), 31)
            }
            Unit::Quarter => self.recurring(Unit::Quarter, -count),
            Unit::Year => self.recurring(Unit::Year, -count),
        }
    }

    fn past(&self, count: i64, unit: Unit) -> Option<Interval> {
        let now = self.clock.now.as_ref()?.timestamp().as_millisecond();
        let today = self.today()?;
        let first = match unit {
            Unit::Hour => {
                let from = now.saturating_sub(count.saturating_mul(60 * 60 * 1000));
                return Some(Interval { from, to: now + 1 });
            }
            Unit::Day => today.saturating_sub(days(count)),
            Unit::Week => today.saturating_sub(days(7 * count)),
            Unit::Weekend => monday_of(today).saturating_sub(days(7 * count - 5)),
            Unit::Month => today.saturating_sub(months(count)),
            Unit::Quarter => today.saturating_sub(months(3 * count)),
            Unit::Year => today.saturating_sub(months(12 * count)),
        };
        self.between(first, today.saturating_add(days(1)))
    }

    fn weekday(&self, weekday: i8, step: Option<i64>) -> Option<Interval> {
        let today = self.today()?;
        let weekday = Weekday::from_monday_zero_offset(weekday).ok()?;
        let before = || today.nth_weekday(-1, weekday).ok();
        let after = || today.nth_weekday(1, weekday).ok();
        let is_today = today.weekday() == weekday;
        let date = match (step, self.tense) {
            (Some(-1), _) => before()?,
            (Some(1), _) => after()?,
            (Some(step), _) if step < 0 => before()?.saturating_sub(days(7 * (-step - 1))),
            (Some(_), _) => {
                let days_on = i64::from(weekday.to_monday_zero_offset());
                let this = monday_of(today).saturating_add(days(days_on));
                // `What did she do this Friday?` on a Tuesday.
                match self.tense {
                    Tense::Past if this > today => this.saturating_sub(days(7)),
                    Tense::Future if this < today => this.saturating_add(days(7)),
                    _ => this,
                }
            }
            (None, tense) if tense.is_past() => match is_today && self.in_range {
                true => today,
                false => before()?,
            },
            (None, _) if is_today => today,
            (None, _) => after()?,
        };
        self.days(date, 1)
    }

    /// Returns a holiday: of a year, the latest that has begun, or the next one.
    fn holiday(&self, holiday: Holiday, year: Option<i16>, step: Option<i64>) -> Option<Interval> {
        let of = |year: i16| {
            let (first, count) = holiday.dates(year)?;
            Some((first, first.saturating_add(days(count))))
        };
        let (first, end) = match year {
            Some(year) => of(year)?,
            None => {
                let today = self.today()?;
                let year = today.year();
                let ahead = match step {
                    Some(step) if step < 0 => false,
                    Some(0) => self.tense != Tense::Past,
                    Some(_) => true,
                    None => !self.tense.is_past(),
                };
                // `last Christmas` is over, and `next Christmas` has not begun.
                let open = step.is_none_or(|step| step == 0);
                match ahead {
                    true => [year, year + 1]
                        .into_iter()
                        .filter_map(of)
                        .find(|(first, end)| *first > today || (open && *end > today))?,
                    false => [year, year - 1]
                        .into_iter()
                        .filter_map(of)
                        .find(|(first, end)| *end <= today || (open && *first <= today))?,
                }
            }
        };
        self.between(first, end)
    }

    fn day(&self, day: i8, month: i8, year: Option<i16>) -> Option<Interval> {
        let date = match year {
            Some(year) => Date::new(year, month, day).ok()?,
            None => {
                let today = self.today()?;
                let of = |year: i16| Date::new(year, month, day).ok();
                // The 29th of February does not exist in every year.
                let years = match self.tense.is_past() {
                    true => [0, -1, -2, -3, -4],
                    false => [0, 1, 2, 3, 4],
                };
                let mut dates = years.into_iter().filter_map(|more| of(today.year() + more));
                dates.find(|date| match self.tense.is_past() {
                    true => *date <= today,
                    false => *date >= today,
                })?
            }
        };
        self.days(date, 1)
    }

    /// Returns the days with this number, from the latest one back, or from the
    /// next one on. Months without such a day are left out.
    fn days_of_month(&self, day: i8, tense: Tense) -> impl Iterator<Item = Date> + use<> {
        let today = self.today();
        let back = if tense.is_past() { -1 } else { 1 };
        (0..=12).filter_map(move |count| {
            let today = today?;
            let month = today.first_of_month().saturating_add(months(back * count));
            let date = Date::new(month.year(), month.month(), day).ok()?;
            let fits = if back < 0 {
                date <= today
            } else {
                date >= today
            };
            fits.then_some(date)
        })
    }

    /// Returns an interval of this many months: of a year, the latest that have
    /// begun, or the one before or after.
    fn months(
        &self,
        month: i8,
        count: i64,
        year: Option<i16>,
        step: Option<i64>,
    ) -> Option<Interval> {
        let first = match year {
            Some(year) => Date::new(year, month, 1).ok()?,
            None => {
                let today = self.today()?;
                let this = Date::new(today.year(), month, 1).ok()?;
                let end = this.saturating_add(months(count));
                let latest = match this <= today {
                    true => this,
                    false => this.saturating_sub(months(12)),
                };
                let goes_on = latest <= today && today < latest.saturating_add(months(count));
                match (step, self.tense) {
                    // `last March` in March is the March of the year before.
                    (Some(-1), _) if goes_on => latest.saturating_sub(months(12)),
                    (Some(1), _) | (None, Tense::Future) if today >= this => {
                        match (step, today < end) {
                            (None, true) => this,
                            _ => this.saturating_add(months(12)),
                        }
                    }
                    (Some(1), _) | (None, Tense::Future) => this,
                    (Some(0), _) if !goes_on => this,
                    _ => latest,
                }
            }
        };
        self.between(first, first.saturating_add(months(count)))
    }
}

fn monday_of(date: Date) -> Date {
    let on = i64::from(date.weekday().to_monday_zero_offset());
    date.saturating_sub(days(on))
}

fn days(count: i64) -> Span {
    // More than about a hundred years of days are clamped.
    count.clamp(-40_000, 40_000).days()
}

fn months(count: i64) -> Span {
    count.clamp(-12_000, 12_000).months()
}
