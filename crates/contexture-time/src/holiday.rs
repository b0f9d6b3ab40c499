//! Holidays: their names and their days.

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};

/// A holiday that has a date in every year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holiday {
    /// `Christmas`: 24 to 26 December.
    Christmas,
    ChristmasEve,
    ChristmasDay,
    BoxingDay,
    /// `New Year`: 31 December and 1 January.
    NewYear,
    NewYearsEve,
    NewYearsDay,
    ValentinesDay,
    /// `Easter`: Good Friday to Easter Monday.
    Easter,
    GoodFriday,
    EasterSunday,
    EasterMonday,
    Halloween,
    /// The fourth Thursday of November, as in the United States.
    Thanksgiving,
}

/// Returns the holiday that words name, and the number of its words. The
/// function returns a word by its number, without `'s`.
pub(super) fn holiday<'w>(word: impl Fn(usize) -> &'w str) -> Option<(Holiday, usize)> {
    Some(match (word(0), word(1), word(2)) {
        ("christmas", "eve", _) => (Holiday::ChristmasEve, 2),
        ("christmas", "day", _) => (Holiday::ChristmasDay, 2),
        ("christmas", _, _) => (Holiday::Christmas, 1),
        ("boxing", "day", _) => (Holiday::BoxingDay, 2),
        ("new", "year" | "years", "eve") => (Holiday::NewYearsEve, 3),
        ("new", "year" | "years", "day") => (Holiday::NewYearsDay, 3),
        ("new", "year" | "years", _) => (Holiday::NewYear, 2),
        ("valentine" | "valentines", "day", _) => (Holiday::ValentinesDay, 2),
        ("good", "friday", _) => (Holiday::GoodFriday, 2),
        ("easter", "sunday", _) => (Holiday::EasterSunday, 2),
        ("easter", "monday", _) => (Holiday::EasterMonday, 2),
        ("easter", _, _) => (Holiday::Easter, 1),
        ("halloween", _, _) => (Holiday::Halloween, 1),
        ("thanksgiving", "day", _) => (Holiday::Thanksgiving, 2),
        ("thanksgiving", _, _) => (Holiday::Thanksgiving, 1),
        _ => return None,
    })
}

impl Holiday {
    /// Returns true when the name contains the day, as in `Christmas Eve`. Such a
    /// name is a time wherever it appears; `Christmas` may be a part of `the
    /// Christmas party`.
    pub(super) fn is_day(self) -> bool {
        !matches!(
            self,
            Self::Christmas | Self::NewYear | Self::Easter | Self::Halloween | Self::Thanksgiving
        )
    }

    /// Returns the first day in a year, and the number of days. The year of
    /// `New Year` is the one that begins.
    pub(super) fn dates(self, year: i16) -> Option<(Date, i64)> {
        let on = |month: i8, day: i8| Date::new(year, month, day).ok();
        let from_easter = |count: i64| Some(easter(year)?.saturating_add(count.days()));
        let (first, count) = match self {
            Self::Christmas => (on(12, 24), 3),
            Self::ChristmasEve => (on(12, 24), 1),
            Self::ChristmasDay => (on(12, 25), 1),
            Self::BoxingDay => (on(12, 26), 1),
            Self::NewYear => (on(1, 1)?.yesterday().ok(), 2),
            Self::NewYearsEve => (on(12, 31), 1),
            Self::NewYearsDay => (on(1, 1), 1),
            Self::ValentinesDay => (on(2, 14), 1),
            Self::Easter => (from_easter(-2), 4),
            Self::GoodFriday => (from_easter(-2), 1),
            Self::EasterSunday => (from_easter(0), 1),
            Self::EasterMonday => (from_easter(1), 1),
            Self::Halloween => (on(10, 31), 1),
            Self::Thanksgiving => (
                on(11, 1)?.nth_weekday_of_month(4, Weekday::Thursday).ok(),
                1,
            ),
        };
        Some((first?, count))
    }
}

/// Returns Easter Sunday in the Gregorian calendar, by the algorithm of Meeus,
/// Jones and Butcher.
fn easter(year: i16) -> Option<Date> {
    let y = i32::from(year);
    let (a, b, c) = (y.rem_euclid(19), y.div_euclid(100), y.rem_euclid(100));
    let (d, e) = (b.div_euclid(4), b.rem_euclid(4));
    let g = (8 * b + 13).div_euclid(25);
    let h = (19 * a + b - d - g + 15).rem_euclid(30);
    let (i, k) = (c / 4, c % 4);
    let l = (32 + 2 * e + 2 * i - h - k).rem_euclid(7);
    let m = (a + 11 * h + 22 * l).div_euclid(451);
    let days = h + l - 7 * m + 114;
    let (month, day) = (days / 31, days % 31 + 1);
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}
