//! Expressions of time, resolved to days.

#![allow(clippy::unwrap_used)]

use contexture_time::{Clock, Interval, Order, TimeReading, mentioned_times, read_times};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

/// A Wednesday.
const NOW: &str = "2026-11-18T12:00:00Z";

fn clock() -> Clock {
    Clock::new(Some(NOW.parse().unwrap()), TimeZone::UTC)
}

fn read(query: &str) -> TimeReading {
    read_times(query, &clock())
}

/// Writes an interval as its first and its last day.
fn days(interval: Interval) -> String {
    let day = |at: i64| match Timestamp::from_millisecond(at) {
        Ok(at) => at.strftime("%Y-%m-%d").to_string(),
        Err(_) => "…".to_owned(),
    };
    let last = match interval.to {
        i64::MAX => i64::MAX,
        to => to - 1,
    };
    let (first, last) = (day(interval.from), day(last));
    match first == last {
        true => first,
        false => format!("{first}..{last}"),
    }
}

fn check(query: &str, expected: &[&str]) {
    check_on(NOW, query, expected);
}

fn check_on(now: &str, query: &str, expected: &[&str]) {
    let clock = Clock::new(Some(now.parse().unwrap()), TimeZone::UTC);
    let reading = read_times(query, &clock);
    let found: Vec<String> = reading.intervals.into_iter().map(days).collect();
    assert_eq!(found, expected, "{query} on {now}");
    assert!(!reading.contradicts, "{query}");
}

#[test]
fn days_are_counted_from_today() {
    check("What did I eat today?", &["2026-11-18"]);
    check("What did I eat yesterday?", &["2026-11-17"]);
    check("the day before yesterday", &["2026-11-16"]);
    check("what is planned for tomorrow", &["2026-11-19"]);
    check("Who called this morning?", &["2026-11-18"]);
    check("Who called last night?", &["2026-11-17"]);
    check("three days ago", &["2026-11-15"]);
    check("What did I do 3 days ago?", &["2026-11-15"]);
    check("a couple of days ago", &["2026-11-16"]);
}

#[test]
fn periods_have_an_early_a_middle_and_a_late_part() {
    check("early May", &["2026-05-01..2026-05-13"]);
    check("What did I do in mid-May?", &["2026-05-10..2026-05-22"]);
    check("late april", &["2026-04-19..2026-04-30"]);
    check(
        "at the beginning of October 2025",
        &["2025-10-01..2025-10-13"],
    );
    check("by the end of last month", &["…..2026-10-31"]);
    check("since the start of the year", &["2026-01-01..…"]);
    check("the end of last year", &["2025-11-01..2025-12-31"]);
    check("the beginning of 2026", &["2026-01-01..2026-02-28"]);
    check("early 2026", &["2026-01-01..2026-05-26"]);
    check("in the first week of May", &["2026-05-01..2026-05-07"]);
    check("the third week of May", &["2026-05-15..2026-05-21"]);
    check("the last week of February", &["2026-02-22..2026-02-28"]);
    check(
        "between early March and late April",
        &["2026-03-01..2026-04-30"],
    );
    assert_eq!(read("in the first week of May").order, None);
    assert!(read("early May").months.contains(&5));
    for not_a_time in [
        "I am early",
        "the end of the day",
        "early early early",
        "end of",
        "mid",
    ] {
        check(not_a_time, &[]);
    }
}

#[test]
fn periods_before_the_last_one_are_counted() {
    check("the week before last", &["2026-11-02..2026-11-08"]);
    check("the weekend before last", &["2026-11-07..2026-11-08"]);
    check("the month before last", &["2026-09-01..2026-09-30"]);
    check("the Monday before last", &["2026-11-09"]);
    check("the night before last", &["2026-11-16"]);
    check("Tuesday last week", &["2026-11-10"]);
    check("on Friday of this week", &["2026-11-20"]);
    check("last week on Thursday", &["2026-11-12"]);
    check("two Fridays ago", &["2026-11-06"]);
    check("10 days back", &["2026-11-08"]);
    check("a fortnight ago", &["2026-11-01..2026-11-07"]);
    check("in the past fortnight", &["2026-11-04..2026-11-18"]);
    check("Did she come back two times?", &[]);
}

#[test]
fn weeks_months_and_years_are_those_of_the_calendar() {
    check("last week", &["2026-11-09..2026-11-15"]);
    check("Who visited this week?", &["2026-11-16..2026-11-22"]);
    check("next week", &["2026-11-23..2026-11-29"]);
    check("last weekend", &["2026-11-14..2026-11-15"]);
    check("What did I do on the weekend?", &["2026-11-14..2026-11-15"]);
    check(
        "What will I do over the weekend?",
        &["2026-11-21..2026-11-22"],
    );
    check("Which weekend did I work?", &[]);
    check("last month", &["2026-10-01..2026-10-31"]);
    check("this month", &["2026-11-01..2026-11-30"]);
    check("last year", &["2025-01-01..2025-12-31"]);
    check("last quarter", &["2026-07-01..2026-09-30"]);
    check("two weeks ago", &["2026-11-01..2026-11-07"]);
    check("2 months ago", &["2026-09-03..2026-10-03"]);
    check("a year ago", &["2025-01-01..2025-12-31"]);
    check("in the last three days", &["2026-11-15..2026-11-18"]);
    check("over the past 2 weeks", &["2026-11-04..2026-11-18"]);
    check("the last few days", &["2026-11-15..2026-11-18"]);
}

#[test]
fn a_weekday_is_the_latest_one() {
    check("What did we decide on Monday?", &["2026-11-16"]);
    check("what happened on friday", &["2026-11-13"]);
    check("last Tuesday", &["2026-11-17"]);
    check("this Friday", &["2026-11-20"]);
    check("next Friday", &["2026-11-20"]);
    // Today is a Wednesday.
    check("on Wednesday", &["2026-11-11", "2026-11-18"]);
    check("last Wednesday", &["2026-11-11"]);
}

#[test]
fn dates_are_read_in_the_usual_forms() {
    for query in [
        "on 17 April 2026",
        "17th of April 2026",
        "April 17, 2026",
        "April 17th",
        "apr 17",
        "17 apr 2026",
        "2026-04-17",
        "at 2026-04-17T10:30:00Z",
        "2026/4/17",
        "17.04.2026",
        "4/17/2026",
        "17/04/2026",
        "Friday, 17 April 2026",
    ] {
        check(query, &["2026-04-17"]);
    }
    check("4/5/2026", &["2026-05-04", "2026-04-05"]);
    check("on the 17th", &["2026-11-17"]);
    check("on the 20th", &["2026-10-20"]);
    check("December 24", &["2025-12-24"]);
    check("29 February", &["2024-02-29"]);
}

#[test]
fn months_and_seasons_are_read_in_any_case() {
    check("What did I read in March?", &["2026-03-01..2026-03-31"]);
    check("what did i read in march", &["2026-03-01..2026-03-31"]);
    check("in march 2024", &["2024-03-01..2024-03-31"]);
    check("last December", &["2025-12-01..2025-12-31"]);
    check("2026-03", &["2026-03-01..2026-03-31"]);
    check("last summer", &["2026-06-01..2026-08-31"]);
    check("in the winter of 2024", &["2024-12-01..2025-02-28"]);
    check("in spring", &["2026-03-01..2026-05-31"]);
    check("Q2 2026", &["2026-04-01..2026-06-30"]);
    check("what happened in 2022", &["2022-01-01..2022-12-31"]);
    // Words that only look like time.
    check("may I march?", &[]);
    check("May I march?", &[]);
    check("Did she fall?", &[]);
    check("the spring of the door", &[]);
    check("version 3.12.4 of the tool", &[]);
    check("who won?", &[]);
}

#[test]
fn bounds_open_an_interval_to_one_side() {
    check("since last Monday", &["2026-11-16..…"]);
    check("before 17 April 2026", &["…..2026-04-16"]);
    check("after March 2026", &["2026-04-01..…"]);
    check("until the 3rd of May 2026", &["…..2026-05-03"]);
    check("between March and May", &["2026-03-01..2026-05-31"]);
    check("between 3 and 5 May 2026", &["2026-05-03..2026-05-05"]);
    check("from June to August 2025", &["2025-06-01..2025-08-31"]);
    // The later date may come first.
    check(
        "between May 2026 and March 2026",
        &["2026-03-01..2026-05-31"],
    );
    check(
        "after March 2026 and before June 2026",
        &["2026-04-01..2026-05-31"],
    );
    check("since we moved", &[]);
}

#[test]
fn the_end_of_a_range_has_begun_and_its_start_is_before_it() {
    const FRIDAY: &str = "2026-11-20T12:00:00Z";
    for (now, query, expected) in [
        (FRIDAY, "from Monday to Friday", "2026-11-16..2026-11-20"),
        (TUESDAY, "from Monday to Friday", "2026-11-09..2026-11-13"),
        (
            TUESDAY,
            "between Monday and Wednesday",
            "2026-11-09..2026-11-11",
        ),
        (
            TUESDAY,
            "since Monday until Wednesday",
            "2026-11-09..2026-11-11",
        ),
        (TUESDAY, "from Monday to Tuesday", "2026-11-16..2026-11-17"),
        (TUESDAY, "from Friday to Monday", "2026-11-13..2026-11-16"),
        (TUESDAY, "from Monday to Monday", "2026-11-09..2026-11-16"),
        (TUESDAY, "from Monday until today", "2026-11-16..2026-11-17"),
        (
            TUESDAY,
            "from last Monday to Friday",
            "2026-11-16..2026-11-20",
        ),
        (
            TUESDAY,
            "between October and December",
            "2025-10-01..2025-12-31",
        ),
        (
            TUESDAY,
            "from November to January",
            "2025-11-01..2026-01-31",
        ),
        (
            TUESDAY,
            "from November to January 2025",
            "2024-11-01..2025-01-31",
        ),
        (
            TUESDAY,
            "from November 2024 to January",
            "2024-11-01..2025-01-31",
        ),
        (
            TUESDAY,
            "from 28 December to 3 January",
            "2025-12-28..2026-01-03",
        ),
        (TUESDAY, "between 5 and 3 May", "2026-05-03..2026-05-05"),
        (TUESDAY, "from Q4 to Q1", "2025-10-01..2026-03-31"),
        (
            TUESDAY,
            "from late October to early November",
            "2026-10-19..2026-11-12",
        ),
    ] {
        check_on(now, query, &[expected]);
    }
    let said = Clock::new(Some(TUESDAY.parse().unwrap()), TimeZone::UTC);
    let told = |text: &str| mentioned_times(text, &said).into_iter().map(days).collect();
    let told: Vec<String> = told("I will be in Rome from Monday to Friday.");
    assert_eq!(told, ["2026-11-23..2026-11-27"]);
}

#[test]
fn parts_of_a_period_are_counted() {
    for (query, expected) in [
        ("last Tuesday of October", "2026-10-27"),
        ("on the last Tuesday in October", "2026-10-27"),
        ("first Monday in November", "2026-11-02"),
        ("the second Friday of last month", "2026-10-09"),
        ("the 3rd Friday of May 2025", "2025-05-16"),
        ("the last day of October", "2026-10-31"),
        ("the first day of the month", "2026-11-01"),
        ("the first of November", "2026-11-01"),
        ("the first of November 2024", "2024-11-01"),
        ("the twenty-first of May", "2026-05-21"),
        ("the last weekend of October", "2026-10-31..2026-11-01"),
        ("third quarter of 2026", "2026-07-01..2026-09-30"),
        ("the third quarter 2026", "2026-07-01..2026-09-30"),
        ("the last quarter of 2025", "2025-10-01..2025-12-31"),
        ("second half of 2026", "2026-07-01..2026-12-31"),
        ("the first half of last year", "2025-01-01..2025-06-30"),
        ("H2 2025", "2025-07-01..2025-12-31"),
        ("the second half of October", "2026-10-16..2026-10-31"),
        ("the last month of 2025", "2025-12-01..2025-12-31"),
        ("the last week in February", "2026-02-22..2026-02-28"),
    ] {
        check(query, &[expected]);
        assert_eq!(read(query).order, None, "{query}");
        assert!(!read(&format!("{query}, or not?")).compares, "{query}");
    }
    check("last Tuesday in the office", &["2026-11-17"]);
    check("the last week in Berlin", &["2026-11-09..2026-11-15"]);
    for not_a_time in [
        "the first of many",
        "the second half of the game",
        "the third quarter of the game",
        "the first day of school",
        "H2 and H1",
    ] {
        check(not_a_time, &[]);
    }
    let query = "What did I first eat on the first Monday in November?";
    assert_eq!(read(query).order, Some(Order::First));
}

#[test]
fn times_are_counted_from_a_date() {
    for (query, expected) in [
        ("three days before November 10", "2026-11-07"),
        ("a day after 3 May 2025", "2025-05-04"),
        ("two weeks after 3 May", "2026-05-14..2026-05-20"),
        ("two days prior to last Monday", "2026-11-14"),
        ("the day before November 10", "2026-11-09"),
        (
            "in the three days before November 10",
            "2026-11-07..2026-11-09",
        ),
        ("the week after 3 May", "2026-05-04..2026-05-10"),
        ("a month after 3 May 2026", "2026-05-19..2026-06-18"),
        ("a year before 2026", "2025-01-01..2025-12-31"),
        ("since three days before November 10", "2026-11-07..…"),
    ] {
        check(query, &[expected]);
    }
    check("two weeks after we moved", &[]);
    check("before November 10", &["…..2026-11-09"]);
}

#[test]
fn bounds_that_contradict_are_not_used() {
    let reading = read("what happened after May 2026 and before March 2026");
    assert!(reading.contradicts && reading.intervals.is_empty());
    let reading = read("yesterday, before last week");
    assert!(reading.contradicts);
    assert_eq!(days(reading.intervals[0]), "2026-11-17");
    assert!(!read("yesterday").contradicts);
}

#[test]
fn without_a_time_only_dates_are_resolved() {
    let clock = Clock::new(None, TimeZone::UTC);
    let reading = read_times("last week, or on 17 April 2026", &clock);
    assert_eq!(reading.unresolved, ["last week"]);
    assert_eq!(reading.intervals.len(), 1);
    assert_eq!(days(reading.intervals[0]), "2026-04-17");
}

#[test]
fn days_begin_and_end_where_the_sender_is() {
    let zone = TimeZone::fixed(jiff::tz::offset(13));
    let clock = Clock::new(Some(NOW.parse().unwrap()), zone);
    let reading = read_times("yesterday", &clock);
    let from = Timestamp::from_millisecond(reading.intervals[0].from).unwrap();
    // At noon in Greenwich it is one o'clock of the next day in this zone.
    assert_eq!(from.to_string(), "2026-11-17T11:00:00Z");
}

#[test]
fn times_in_a_text_are_resolved_from_the_time_it_was_said() {
    let said = Clock::new(Some("2026-05-08T10:00:00Z".parse().unwrap()), TimeZone::UTC);
    let told = |text: &str| -> Vec<String> {
        let times = mentioned_times(text, &said);
        times.into_iter().map(days).collect()
    };
    assert_eq!(told("Last Friday we went to the lake."), ["2026-05-01"]);
    assert_eq!(told("I will see her on Monday."), ["2026-05-11"]);
    assert_eq!(told("I saw her on Monday."), ["2026-05-04"]);
    assert_eq!(told("We moved here in March."), ["2026-03-01..2026-03-31"]);
    // The day of the text itself is already known.
    assert!(told("I am tired today.").is_empty());
    assert!(told("I have been busy before today.").is_empty());
    // What lasts since a day began on that day.
    assert_eq!(told("I have been ill since Tuesday."), ["2026-05-05"]);
}

/// Checks the times that a text of a day mentions.
fn check_text(day: &str, text: &str, expected: &[&str]) {
    let said = format!("{day}T10:00:00Z").parse().unwrap();
    let times = mentioned_times(text, &Clock::new(Some(said), TimeZone::UTC));
    let found: Vec<String> = times.into_iter().map(days).collect();
    assert_eq!(found, expected, "{text} on {day}");
}

const TUESDAY: &str = "2026-11-17T12:00:00Z";

#[test]
fn a_query_about_the_future_means_the_next_date() {
    for (query, expected) in [
        ("What will happen in December?", "2026-12-01..2026-12-31"),
        ("What are we going to do on 3 January?", "2027-01-03"),
        ("What is due in June?", "2027-06-01..2027-06-30"),
        ("Which deadline is in January?", "2027-01-01..2027-01-31"),
        ("What is planned for Friday?", "2026-11-20"),
        (
            "When is the appointment in December?",
            "2026-12-01..2026-12-31",
        ),
        ("Who leaves in December?", "2026-12-01..2026-12-31"),
        ("What is scheduled for December 4?", "2026-12-04"),
        ("What did we plan for December?", "2026-12-01..2026-12-31"),
        ("What will she do on the 14th?", "2026-12-14"),
        (
            "Which upcoming trips are in March?",
            "2027-03-01..2027-03-31",
        ),
        ("What happens in December?", "2026-12-01..2026-12-31"),
        ("When's the concert in December?", "2026-12-01..2026-12-31"),
        ("Where are we going on Friday?", "2026-11-20"),
        ("What time does the train leave on Friday?", "2026-11-20"),
        ("What do I have to do by Friday?", "…..2026-11-20"),
        ("Any plans for the weekend?", "2026-11-21..2026-11-22"),
        // The past.
        (
            "Which next steps are in the notes from Monday?",
            "2026-11-16",
        ),
        (
            "What should I know about the call from Monday?",
            "2026-11-16",
        ),
        ("What happened in December?", "2025-12-01..2025-12-31"),
        (
            "Which appointments did I have in March?",
            "2026-03-01..2026-03-31",
        ),
        ("What did Will say in December?", "2025-12-01..2025-12-31"),
        (
            "What did she do next in December?",
            "2025-12-01..2025-12-31",
        ),
        ("What was due in December?", "2025-12-01..2025-12-31"),
        (
            "Will we get what I ordered in October?",
            "2026-10-01..2026-10-31",
        ),
        ("in December", "2025-12-01..2025-12-31"),
    ] {
        check_on(TUESDAY, query, &[expected]);
    }
}

#[test]
fn a_text_about_the_future_means_the_next_date() {
    for (day, text, expected) in [
        ("2026-11-10", "We will ship on 15 December.", "2026-12-15"),
        (
            "2026-11-10",
            "I have a dentist appointment on December 4.",
            "2026-12-04",
        ),
        (
            "2026-11-10",
            "I have an appointment with Dr. Lee on December 4.",
            "2026-12-04",
        ),
        (
            "2026-10-20",
            "The deadline moves to 29 January",
            "2027-01-29",
        ),
        (
            "2026-10-20",
            "The deadline was moved to 29 January",
            "2027-01-29",
        ),
        ("2026-10-20", "Deadline: 29 January", "2027-01-29"),
        (
            "2026-10-20",
            "The report is due by 29 January.",
            "2027-01-29",
        ),
        (
            "2026-10-01",
            "I will have my knee surgery on the 14th",
            "2026-10-14",
        ),
        ("2026-10-16", "The appointment is on the 14th", "2026-11-14"),
        ("2026-11-10", "See you on 3 January!", "2027-01-03"),
        ("2026-05-10", "Great, see you on 3 January!", "2027-01-03"),
        ("2026-11-10", "Ana is coming on Friday.", "2026-11-13"),
        (
            "2026-11-10",
            "In March, we will go to Rome.",
            "2027-03-01..2027-03-31",
        ),
        ("2026-11-10", "The concert is on 3 December.", "2026-12-03"),
        (
            "2026-11-10",
            "I bought tickets for 3 December.",
            "2026-12-03",
        ),
        (
            "2026-11-10",
            "I start my new job on 1 December.",
            "2026-12-01",
        ),
        (
            "2026-11-10",
            "They are getting married in June.",
            "2027-06-01..2027-06-30",
        ),
        ("2026-11-10", "Please send it by Friday.", "2026-11-13"),
        (
            "2026-11-10",
            "I want to visit Ana in March.",
            "2027-03-01..2027-03-31",
        ),
        (
            "2026-11-10",
            "She said she would come on Friday.",
            "2026-11-13",
        ),
        (
            "2026-11-10",
            "She told me about her appointment on December 4.",
            "2026-12-04",
        ),
        (
            "2026-11-10",
            "She mentioned her plans on Monday.",
            "2026-11-09",
        ),
        // An announcement of a date that has just passed.
        ("2026-11-02", "The deadline is 1 November.", "2026-11-01"),
        // The past.
        (
            "2026-11-10",
            "I had a dentist appointment on March 4.",
            "2026-03-04",
        ),
        ("2026-11-10", "We shipped on 15 December.", "2025-12-15"),
        ("2026-11-10", "I met Will on 15 December.", "2025-12-15"),
        (
            "2026-11-10",
            "The deadline on 29 January was missed.",
            "2026-01-29",
        ),
        (
            "2026-11-10",
            "I saw her on 3 March. I will call her.",
            "2026-03-03",
        ),
        (
            "2026-11-10",
            "It stopped due to the rain on 3 December.",
            "2025-12-03",
        ),
    ] {
        check_text(day, text, &[expected]);
    }
    check_text(
        "2026-11-10",
        "On 3 March I saw her and on 5 March I will call her.",
        &["2026-03-03", "2027-03-05"],
    );
}

#[test]
fn a_weekday_confirms_a_day_of_the_month() {
    check_on(TUESDAY, "Monday the 9th", &["2026-11-09"]);
    check_on(
        TUESDAY,
        "What did we do on Monday, the 9th?",
        &["2026-11-09"],
    );
    check_on(TUESDAY, "Monday the 9th of November", &["2026-11-09"]);
    // The 20th of October was a Tuesday.
    check_on(TUESDAY, "Friday the 20th", &["2026-11-20"]);
    check_on(TUESDAY, "next Friday, the 27th", &["2026-11-27"]);
    // 4 December was a Thursday in 2025.
    check_on(TUESDAY, "Friday, 4 December", &["2026-12-04"]);
    check_on(TUESDAY, "Thursday, 4 December", &["2025-12-04"]);
    check_on(TUESDAY, "Monday, 4 December", &["2025-12-04"]);
    check_on(TUESDAY, "since Friday, 17 April", &["2026-04-17..…"]);
    check_on(TUESDAY, "Saturday, 07/04/2026", &["2026-07-04"]);
    check_on(TUESDAY, "Friday the 13th", &["2026-11-13"]);
    check_on(TUESDAY, "after the 20th", &["2026-10-21..…"]);
    check_on(
        TUESDAY,
        "What will happen after the 20th?",
        &["2026-11-21..…"],
    );
    check_text(
        "2026-07-29",
        "We met on Saturday the 18th.",
        &["2026-07-18"],
    );
    for not_a_day in [
        "Who lives on the 4th floor?",
        "What did she say on the 3rd attempt?",
        "the shop on the 5th Avenue",
        "the 21st century",
        "for the 2nd time",
    ] {
        check_on(TUESDAY, not_a_day, &[]);
    }
}

#[test]
fn weekends_and_halves_are_counted() {
    for (query, expected) in [
        ("half a year ago", "2026-05-02..2026-06-01"),
        ("a year and a half ago", "2025-05-02..2025-06-01"),
        ("the coming weekend", "2026-11-21..2026-11-22"),
        ("What did she do this weekend?", "2026-11-14..2026-11-15"),
        ("What will she do this weekend?", "2026-11-21..2026-11-22"),
        ("this weekend", "2026-11-21..2026-11-22"),
        (
            "What did we plan for this weekend?",
            "2026-11-21..2026-11-22",
        ),
        ("What did she do this Friday?", "2026-11-13"),
        ("since Wednesday", "2026-11-11..…"),
    ] {
        check_on(TUESDAY, query, &[expected]);
    }
    check_on(
        "2026-11-21T12:00:00Z",
        "the coming weekend",
        &["2026-11-28..2026-11-29"],
    );
    check_on(
        "2026-11-22T12:00:00Z",
        "What did I do this weekend?",
        &["2026-11-21..2026-11-22"],
    );
}

#[test]
fn times_ahead_are_counted() {
    for (query, expected) in [
        ("in ten days", "2026-11-27"),
        (
            "What will happen in two weeks' time?",
            "2026-11-28..2026-12-04",
        ),
        ("three days from now", "2026-11-20"),
        ("a week from Friday", "2026-11-27"),
        ("two weeks from tomorrow", "2026-12-02"),
        ("in half a year", "2027-05-02..2027-06-01"),
    ] {
        check_on(TUESDAY, query, &[expected]);
    }
    check_text("2026-11-10", "We fly to Rome in ten days.", &["2026-11-20"]);
    for duration in [
        "Which book did she read in ten days?",
        "How far do I run in a week?",
        "the first time in ten days",
        "It is the best film in ten years",
        "They meet three times in a month",
        "two weeks from the lake",
    ] {
        check_on(TUESDAY, duration, &[]);
    }
}

#[test]
fn days_are_written_as_ranges_and_in_digits() {
    for query in [
        "May 3-5",
        "3-5 May",
        "May 3\u{2013}5, 2026",
        "May 3rd-5th",
        "from May 3 to 5",
    ] {
        check_on(TUESDAY, query, &["2026-05-03..2026-05-05"]);
    }
    check_on(
        TUESDAY,
        "on the 3rd and 5th of May",
        &["2026-05-03", "2026-05-05"],
    );
    check_on(
        TUESDAY,
        "on the 3rd and the 5th",
        &["2026-11-03", "2026-11-05"],
    );
    check_on(
        TUESDAY,
        "the week of 10 November",
        &["2026-11-09..2026-11-15"],
    );
    check_on(TUESDAY, "in the 1990s", &["1990-01-01..1999-12-31"]);
    check_on(TUESDAY, "28 April - 3 May", &["2026-04-28..2026-05-03"]);
    check_on(TUESDAY, "in March\u{2013}May", &["2026-03-01..2026-05-31"]);
    check_on(TUESDAY, "2024-2025", &["2024-01-01..2025-12-31"]);
    check_on(TUESDAY, "4/13", &["2026-04-13"]);
    check_on(TUESDAY, "What happened on 13/4?", &["2026-04-13"]);
    check_on(
        TUESDAY,
        "What did I do on 4/5?",
        &["2026-05-04", "2026-04-05"],
    );
    check_on(TUESDAY, "09/2026", &["2026-09-01..2026-09-30"]);
    check_on(TUESDAY, "What is due on 12/24?", &["2026-12-24"]);
    for not_a_date in [
        "open 24/7",
        "I rated it 4/5",
        "3/4 cup",
        "a 5/16 inch screw",
        "on 3/4 of it",
    ] {
        check_on(TUESDAY, not_a_date, &[]);
    }
    check_on(TUESDAY, "07/04/2026", &["2026-04-07", "2026-07-04"]);
    check_text(
        "2026-11-10",
        "We met on 07/04/2026.",
        &["2026-04-07", "2026-07-04"],
    );
    check_on(TUESDAY, "in the first quarter", &["2026-01-01..2026-03-31"]);
    check_on(
        TUESDAY,
        "What did we sell in Q1?",
        &["2026-01-01..2026-03-31"],
    );
}

#[test]
fn holidays_have_dates() {
    for (query, expected) in [
        ("What did we eat at Christmas?", "2025-12-24..2025-12-26"),
        ("Where will we be at Christmas?", "2026-12-24..2026-12-26"),
        (
            "Where did we spend last Christmas?",
            "2025-12-24..2025-12-26",
        ),
        ("Christmas 2023", "2023-12-24..2023-12-26"),
        ("Christmas last year", "2025-12-24..2025-12-26"),
        ("What did I do on Christmas Eve?", "2025-12-24"),
        ("New Year's Eve", "2025-12-31"),
        ("What did I do on New Year's Day?", "2026-01-01"),
        ("Who came at Easter?", "2026-04-03..2026-04-06"),
        ("Easter Sunday 2027", "2027-03-28"),
        ("What did we wear on Halloween?", "2026-10-31"),
        ("Where did we go for Thanksgiving?", "2025-11-27"),
        ("Where will we go for Thanksgiving?", "2026-11-26"),
        ("since Easter", "2026-04-03..…"),
        ("between Christmas and New Year", "2025-12-24..2026-01-01"),
    ] {
        check_on(TUESDAY, query, &[expected]);
    }
    check_text(
        "2026-11-10",
        "See you at Christmas!",
        &["2026-12-24..2026-12-26"],
    );
    check_on(TUESDAY, "Who brought the Christmas tree?", &[]);
    check_on(TUESDAY, "Who flew to Easter Island?", &[]);
    check_on(
        TUESDAY,
        "Which film do they love to watch at Christmas?",
        &[],
    );
}

#[test]
fn names_and_titles_are_not_times() {
    for query in [
        "What did April say about the boat?",
        "What does June want for her birthday?",
        "April said the boat is old",
        "June likes the sea",
        "Did August go to Rome?",
        "Who is April?",
        "Who went sailing with June?",
        "Which poem was written by May?",
        "Who gave the boat to April?",
        "What did I tell June?",
        "What has April bought?",
        "What did Summer think of Dawn?",
        "Who sold the car to Autumn?",
        "What did Farid think of The Summer Book?",
        "Who saw The April Report?",
        "Who read 1984?",
        "Who wrote 1984?",
        "Who has a copy of 1984?",
        "Is April coming?",
        "Will June come?",
        "When was April's birthday?",
        "Thanks, June!",
        "April and Ana went to Rome",
        "Who wrote 2000 words?",
    ] {
        check_on(TUESDAY, query, &[]);
        assert!(read(query).months.is_empty(), "{query}");
    }
    for (query, expected) in [
        ("What did April say in May?", "2026-05-01..2026-05-31"),
        ("What did we do in April?", "2026-04-01..2026-04-30"),
        ("What did we read in April?", "2026-04-01..2026-04-30"),
        ("Did the plan for April work?", "2026-04-01..2026-04-30"),
        ("What did last April look like?", "2026-04-01..2026-04-30"),
        ("from March to April", "2026-03-01..2026-04-30"),
        ("Was June 2025 warm?", "2025-06-01..2025-06-30"),
        ("Who finished by April?", "…..2026-04-30"),
        ("What happened in the summer?", "2026-06-01..2026-08-31"),
        (
            "What did Ana do in the Summer of 2025?",
            "2025-06-01..2025-08-31",
        ),
        ("Who read Dune in 1984?", "1984-01-01..1984-12-31"),
        ("What happened in 1984?", "1984-01-01..1984-12-31"),
    ] {
        check_on(TUESDAY, query, &[expected]);
    }
    check_text("2026-11-10", "April told me that June lives in Rome.", &[]);
}

#[test]
fn order_and_comparison_are_recognised() {
    assert_eq!(read("When did I first see Ana?").order, Some(Order::First));
    assert_eq!(read("What is the latest plan?").order, Some(Order::Latest));
    assert_eq!(read("When did we last talk?").order, Some(Order::Latest));
    assert_eq!(read("What did I do last week?").order, None);
    assert!(read("How long was it between the move and the wedding?").compares);
    assert!(read("How many days passed since the surgery?").compares);
    assert!(read("Which came first, the cat or the dog?").compares);
    assert!(!read("How long is the boat?").compares);
}

#[test]
fn the_ends_of_the_calendar_are_no_error() {
    for now in [
        "9999-12-30T21:59:59Z",
        "-009999-01-03T00:00:00Z",
        "1970-01-01T00:00:00Z",
    ] {
        let clock = Clock::new(Some(now.parse().unwrap()), TimeZone::UTC);
        for query in [
            "tomorrow",
            "yesterday",
            "next year",
            "last year",
            "10000 years ago",
            "next weekend",
            "in the last 9999 months",
            "on Monday",
            "last winter",
            "the last 10000 days",
            "from Monday to Friday",
            "10000 years before May",
            "the last Monday of the year",
            "the second half of next year",
        ] {
            let reading = read_times(query, &clock);
            assert!(
                reading.intervals.iter().all(|one| one.from < one.to),
                "{now} {query}"
            );
        }
    }
    check("31 February 2026", &[]);
    // The calendar ends a day earlier.
    check("9999-12-31", &[]);
}

proptest! {
    #[test]
    fn any_text_is_read(text in "\\PC{0,200}") {
        let reading = read(&text);
        for range in reading.relative {
            prop_assert!(text.get(range).is_some());
        }
    }

    #[test]
    fn any_words_of_time_are_read(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "last", "this", "next", "week", "month", "year", "monday", "march", "may", "17",
                "17th", "2026", "of", "the", "between", "and", "from", "to", "since", "before",
                "ago", "three", "days", "a", "couple", "31", "february", "2026-02-31", "q4",
                "summer", "in", "on", "yesterday", "999999999999", "0", "00/00/0000", "first",
                "second", "half", "quarter", "day", "weekend", "after", "until", "early", "early",
                "29", "in", "half", "from", "christmas", "easter", "3-5", "4/13", "9th", "coming",
                "will", "did", "now",
            ]),
            0..12,
        ),
    ) {
        let reading = read(&words.join(" "));
        for one in reading.intervals {
            prop_assert!(one.from < one.to);
        }
    }
}
