//! Questions about times: 20 records on 20 days, and 100 questions whose answers
//! are known by their dates.
//!
//! Every question is asked with space for the records it asks for and two more.
//! The records and the questions follow from a seed, and are the same
//! everywhere.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::ensure;
use contexture::Timestamp;
use serde_json::json;

use crate::counter;
use crate::project::{Dice, Project};

use super::{Mean, ask, milliseconds, record_file};

/// A Wednesday, in the middle of a month.
const NOW: &str = "2026-11-18T12:00:00Z";

/// How many days before it each record is of.
const AGES: [i64; 20] = [
    0, 1, 2, 3, 5, 6, 8, 9, 12, 15, 19, 24, 30, 34, 40, 62, 95, 200, 245, 380,
];

const DAY: i64 = 24 * 60 * 60 * 1000;

const DONE: [&str; 20] = [
    "I repaired the garden fence with new boards",
    "I baked two loaves of rye bread",
    "I visited the maritime museum with Clara",
    "I returned the library books",
    "I planted garlic in the raised bed",
    "I watched a film about mountain rescue",
    "I cleaned the attic and found old letters",
    "I had the brakes of the car checked",
    "I swam forty lengths in the indoor pool",
    "I wrote a letter to my landlord",
    "I bought a second-hand accordion",
    "I met Jonas for coffee near the station",
    "I painted the hallway in light green",
    "I finished the puzzle with the lighthouse",
    "I cooked lentil soup for the neighbours",
    "I signed up for a pottery course",
    "I walked around the lake in the rain",
    "I replaced the zip of the blue jacket",
    "I took the cat to the vet",
    "I sold the old bicycle at the market",
];

/// A question, and the days it asks about: how many days before now the first
/// and the last of them are.
struct Question {
    query: String,
    first: i64,
    last: i64,
}

/// Asks the questions, and prints which part of the records is in the answers.
pub(crate) fn measure(dir: &Path) -> anyhow::Result<()> {
    let now: Timestamp = NOW.parse()?;
    let mut dice = Dice(17);
    let mut done = DONE;
    for i in (1..done.len()).rev() {
        done.swap(i, dice.roll(0, i));
    }
    let records: Vec<(String, i64, &str)> = (AGES.iter().zip(done).enumerate())
        .map(|(i, (age, text))| (format!("r{i}"), *age, text))
        .collect();
    let lines: String = (records.iter())
        .map(|(id, age, text)| {
            let at = Timestamp::from_millisecond(now.as_millisecond() - age * DAY - 7_200_000);
            let line = json!({
                "kind": "event", "id": id, "session_id": id, "timestamp": at.unwrap_or(now),
                "type": "user_message", "content": {"speaker": "Ana", "text": format!("{text}.")},
            });
            format!("{line}\n")
        })
        .collect();
    std::fs::create_dir_all(dir)?;
    let file = dir.join("times.jsonl");
    std::fs::write(&file, lines)?;
    let project = Project::new(&dir.join("times"), dir.join("times.db"))?;
    let engine = project.engine(&project.store()?)?;
    record_file(&engine, &file, now)?;

    let questions = questions(now, &mut dice)?;
    let (mut mean, mut missed) = (Mean::default(), Vec::new());
    let before = std::time::Instant::now();
    for Question { query, first, last } in &questions {
        let wanted = |age: i64| (*last..=*first).contains(&age);
        let asked: BTreeSet<&str> = (records.iter())
            .filter(|(_, age, _)| wanted(*age))
            .map(|(id, ..)| id.as_str())
            .collect();
        ensure!(!asked.is_empty(), "{query}: no record of that time");
        let tokens = |text: &str| counter().count(&format!("[2026-11-18]\nAna: {text}.\n\n"));
        let mut budget = counter().count("## Relevant Content\n\n");
        let mut others: Vec<u64> = Vec::new();
        for (id, _, text) in &records {
            match asked.contains(id.as_str()) {
                true => budget += tokens(text),
                false => others.push(tokens(text)),
            }
        }
        others.sort_unstable_by(|a, b| b.cmp(a));
        budget += others.iter().take(2).sum::<u64>();
        let recalled = ask(&engine, query, budget, now)?;
        let parts = &recalled.context.components;
        let there = parts
            .iter()
            .filter(|part| asked.contains(part.source.as_str()));
        let share = there.count() as f64 / asked.len() as f64;
        mean.add(share);
        if share < 1.0 {
            missed.push(format!("{query}: {:.0} %", 100.0 * share));
        }
    }
    println!(
        "{}",
        json!({
            "questions": questions.len(),
            "records": records.len(),
            "found_percent": mean.percent(),
            "missed": missed,
            "ms": milliseconds(before),
        })
    );
    Ok(())
}

fn questions(now: Timestamp, dice: &mut Dice) -> anyhow::Result<Vec<Question>> {
    const FRAMES: [&str; 5] = [
        "What did I do {}?",
        "What was I busy with {}?",
        "what happened {}",
        "Tell me what I did {}.",
        "Which things did I get done {}?",
    ];
    let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    let date = |age: i64| today.saturating_sub(jiff_days(age));
    let mut times: Vec<(String, i64, i64)> = vec![
        ("today".into(), 0, 0),
        ("yesterday".into(), 1, 1),
        ("the day before yesterday".into(), 2, 2),
        ("three days ago".into(), 3, 3),
        ("5 days ago".into(), 5, 5),
        ("this week".into(), 2, 0),
        ("last week".into(), 9, 3),
        ("in the last three days".into(), 3, 0),
        ("in the past 2 weeks".into(), 14, 0),
        ("over the last ten days".into(), 10, 0),
        ("last weekend".into(), 4, 3),
        ("this month".into(), 17, 0),
        ("last month".into(), 48, 18),
        ("on Monday".into(), 2, 2),
        ("on friday".into(), 5, 5),
        ("last Thursday".into(), 6, 6),
        ("last Tuesday".into(), 1, 1),
        ("in october".into(), 48, 18),
        ("in October 2026".into(), 48, 18),
        ("in september".into(), 78, 49),
        ("in August".into(), 109, 79),
        ("in march".into(), 262, 232),
        ("last summer".into(), 170, 79),
        ("last year".into(), 686, 322),
        ("in 2025".into(), 686, 322),
        ("since Monday".into(), 2, 0),
        ("since last Friday".into(), 5, 0),
        ("since the beginning of November".into(), 17, 0),
        ("before June 2026".into(), 10_000, 171),
        ("between 8 and 13 November".into(), 10, 5),
        ("between September and October".into(), 78, 18),
        ("two months ago".into(), 76, 46),
        ("a month ago".into(), 46, 16),
        ("a year ago".into(), 686, 322),
        ("in spring".into(), 262, 171),
    ];
    for (i, age) in AGES.into_iter().enumerate() {
        let day = date(age);
        let form = match i % 5 {
            0 => "on %-d %B %Y",
            1 => "on %B %-d",
            2 => "on %Y-%m-%d",
            3 => "on %B %-d, %Y",
            _ => "on the %-d of %B %Y",
        };
        // A day without a year is the latest of that name.
        let form = if age > 300 { "on %-d %B %Y" } else { form };
        times.push((day.strftime(form).to_string(), age, age));
    }
    let mut questions = Vec::new();
    while questions.len() < 100 {
        let (time, first, last) = match questions.len() < times.len() {
            true => times[questions.len()].clone(),
            false => times[dice.roll(0, times.len() - 1)].clone(),
        };
        let frame = FRAMES[dice.roll(0, FRAMES.len() - 1)];
        let query = frame.replace("{}", &time);
        questions.push(Question { query, first, last });
    }
    Ok(questions)
}

fn jiff_days(days: i64) -> jiff::Span {
    jiff::Span::new().days(days)
}
