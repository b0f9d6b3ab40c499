//! Content in a provider's cache does not change, and the report has the shared
//! part of a request.

use crate::support::dice::Dice;
use crate::support::*;
use contexture::core::{Layout, markup};
use contexture::store::SessionChange;
use contexture::{Assembled, CacheCause, Cause, Event, Format, Hook, Sender};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The window alone.
const PLAIN: &str = "[compaction]\nenabled = false";

fn text(assembled: &Assembled) -> String {
    assembled.render(Format::Text).unwrap()
}

fn count(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

/// Returns the text of everything before the current message.
fn standing(assembled: &Assembled) -> String {
    let mut layout = Layout {
        current: Vec::new(),
        ..assembled.layout.clone()
    };
    // An open call has a placeholder result until it has its own.
    while (layout.history.last()).is_some_and(|b| b.text() == "(no result was recorded)") {
        layout.history.pop();
    }
    markup::render(&layout)
}

/// Returns how many bytes two texts have in common, in whole characters.
fn common(a: &str, b: &str) -> usize {
    let same = |(a, b): &(u8, u8)| a == b;
    let mut common = a.bytes().zip(b.bytes()).take_while(same).count();
    while !a.is_char_boundary(common) {
        common -= 1;
    }
    common
}

/// Checks the report's cache section against the two texts.
fn check_cache(previous: &Assembled, now: &Assembled) -> Result<(), String> {
    let cache = now
        .report
        .cache
        .as_ref()
        .ok_or("there is no cache section")?;
    let (before, after) = (text(previous), text(now));
    let shared = common(&after, &before);
    if before == after {
        return match &cache.first_difference {
            None => Ok(()),
            Some(difference) => Err(format!("the same, but {difference:?}")),
        };
    }
    let difference = (cache.first_difference.as_ref()).ok_or("no difference is named")?;
    if difference.byte != shared as u64 {
        return Err(format!(
            "{difference:?}, but {shared} bytes are shared: {:?} / {:?}",
            &before[shared..before.floor_char_boundary(shared + 60)],
            &after[shared..after.floor_char_boundary(shared + 60)],
        ));
    }
    let media = |assembled: &Assembled| -> u64 {
        (assembled.layout.blocks())
            .map(|block| block.surcharge)
            .sum()
    };
    let real = count(&after[..shared]);
    // A token less for what the last one reaches into.
    if cache.shared_tokens + 3 < real || cache.shared_tokens > real + media(now) {
        return Err(format!(
            "{} shared by the report, {real} really",
            cache.shared_tokens
        ));
    }
    let hash = previous.snapshot.as_deref().ok_or("no snapshot")?;
    if cache.previous != hash {
        return Err(format!("compared with {}, not {hash}", cache.previous));
    }
    Ok(())
}

#[test]
fn a_request_is_a_prefix_of_the_next() {
    let lab = Lab::new("");
    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let number = std::cell::Cell::new(0);
    let conversation = prop::collection::vec(prop::collection::vec(any::<u8>(), 4..40), 1..10);
    runner
        .run(&conversation, |conversation| {
            number.set(number.get() + 1);
            let label = format!("case {}", number.get());
            lab.session(&label);
            let mut open = Vec::new();
            let mut previous: Option<Assembled> = None;
            for bytes in &conversation {
                let before = open.clone();
                let turn = Dice(bytes).turn(&mut open);
                if lab.engine.record(&label, &turn, Some(lab.tick())).is_err() {
                    open = before;
                }
                let now = lab.assemble(&label, 100_000);
                if let Some(previous) = &previous {
                    let (before, after) = (standing(previous), standing(&now));
                    prop_assert!(
                        after.starts_with(before.trim_end_matches('\n')),
                        "{before}\n---\n{after}"
                    );
                    check_cache(previous, &now).map_err(TestCaseError::fail)?;
                }
                previous = Some(now);
            }
            Ok(())
        })
        .unwrap();
}

/// Budgets so small that the window moves and summaries are made.
#[test]
fn the_cache_section_is_true_when_history_shrinks() {
    for config in ["", PLAIN] {
        let lab = Lab::new(config);
        let pinned = lab.pinned();
        lab.session("s");
        let (mut open, mut moved) = (Vec::new(), 0);
        let mut previous: Option<Assembled> = None;
        for i in 0..80_u8 {
            let bytes: Vec<u8> = (0..40_u8)
                .map(|j| i.wrapping_mul(89) ^ j.wrapping_mul(57))
                .collect();
            let before = open.clone();
            let turn = Dice(&bytes).turn(&mut open);
            if lab.engine.record("s", &turn, Some(lab.tick())).is_err() {
                open = before;
            }
            let now = lab.assemble("s", pinned + 3_500);
            check(&now).unwrap();
            if let Some(previous) = &previous {
                check_cache(previous, &now).unwrap();
                moved += usize::from(!standing(&now).starts_with(standing(previous).trim_end()));
            }
            previous = Some(now);
        }
        assert!((2..40).contains(&moved), "{moved} moves");
    }
}

const STEPS: usize = 200;
const WINDOW: u64 = 12_000;

/// Returns the part of all tokens sent that were the beginning of the request
/// before, and how often that broke.
fn share(requests: &[String]) -> (f64, usize) {
    let (mut shared, mut total, mut breaks) = (0, 0, 0);
    for pair in requests.windows(2) {
        let prefix = common(&pair[1], &pair[0]);
        shared += count(&pair[1][..prefix]);
        total += count(&pair[1]);
        // The event comes after the part that can be shared.
        breaks += usize::from(count(&pair[0][prefix..]) > 200);
    }
    (shared as f64 / total as f64, breaks)
}

fn long_session(config: &str) -> (Vec<String>, Lab) {
    let lab = Lab::new(config);
    lab.write(
        "AGENTS.md",
        &format!("Answer briefly.\n{}\n", prose(7, 600)),
    );
    lab.session("long");
    let mut requests = Vec::new();
    for turn in &chat(STEPS, 120) {
        lab.record("long", turn);
        let assembled = lab.assemble("long", WINDOW);
        assert!(assembled.report.budget.used <= WINDOW);
        requests.push(text(&assembled));
    }
    (requests, lab)
}

/// Drops the oldest turn each time, as most do.
fn sliding(lab: &Lab) -> Vec<String> {
    let all = lab.engine.history("long", usize::MAX).unwrap();
    let turns: Vec<String> = (all.iter().filter(|turn| turn.compaction.is_none()))
        .map(|turn| {
            let messages = turn.turn.messages.iter();
            let mut out = String::new();
            for message in messages {
                message.each_text(|text| {
                    out.push_str(&format!("<{}>\n{text}\n</>\n\n", message.role.name()));
                });
            }
            out
        })
        .collect();
    let system = format!(
        "<system>\n{}</system>\n\n",
        std::fs::read_to_string(lab.dir.path().join("AGENTS.md")).unwrap()
    );
    let counts: Vec<u64> = turns.iter().map(|turn| count(turn)).collect();
    (1..=turns.len())
        .map(|end| {
            let (mut from, mut left) = (end, WINDOW - count(&system) - 100);
            while from > 0 && counts[from - 1] <= left {
                from -= 1;
                left -= counts[from];
            }
            format!(
                "{system}{}<user>\n{QUESTION}\n</user>\n",
                turns[from..end].concat()
            )
        })
        .collect()
}

#[test]
fn most_of_a_long_session_is_read_from_the_cache() {
    let (summarised, lab) = long_session("");
    let (windowed, _) = long_session(PLAIN);
    let (with_summaries, summaries) = share(&summarised);
    let (window_alone, moves) = share(&windowed);
    let (slid, _) = share(&sliding(&lab));
    let figures = format!(
        "summaries {:.1} % ({summaries} breaks), window alone {:.1} % ({moves} breaks), sliding {:.1} %",
        with_summaries * 100.0,
        window_alone * 100.0,
        slid * 100.0
    );
    assert!(summaries >= 3 && moves >= 3, "it must overflow: {figures}");
    assert!(with_summaries >= 0.93, "{figures}");
    assert!(window_alone >= 0.93, "{figures}");
    assert!(slid < 0.5, "{figures}");
}

/// Ids of calls are made unique by where the window begins, not by how far
/// back the ledger happened to be read.
#[test]
fn names_of_calls_stay_while_the_window_stays() {
    let lab = Lab::new(PLAIN);
    let pinned = lab.pinned();
    lab.session("s");
    let tool = |words| {
        turn([
            user(&prose(3, words)),
            calls(["c1"]),
            result("c1", "ok"),
            says("Done."),
        ])
    };
    lab.record("s", &tool(5));
    let (mut moved, mut previous) = (0, (String::new(), None));
    for i in 0..120 {
        let turn = match i % 23 {
            11 => tool(20),
            _ => exchange(&prose(i, 20), &prose(i + 500, 20)),
        };
        lab.record("s", &turn);
        let now = lab.assemble("s", pinned + 1_500);
        check(&now).unwrap();
        // The line about omitted steps comes before the window.
        let mut blocks = now.layout.history.iter();
        let start = blocks.find(|block| &*block.id != "gap");
        let start = start.map(|block| block.id.clone());
        let now = (standing(&now), start);
        let stays = now.0.starts_with(previous.0.trim_end());
        assert_eq!(stays, previous.1 == now.1 || i == 0, "turn {i}");
        moved += usize::from(!stays);
        previous = now;
    }
    assert!(moved >= 4, "{moved} moves");
}

#[test]
fn volatile_content_does_not_change_the_bytes_before_it() {
    let lab = Lab::new("");
    lab.talk("s", &chat(6, 40));
    let base = standing(&lab.assemble("s", 20_000));
    let plain = request("s", 20_000);
    let mut others = vec![plain.clone(); 4];
    others[0].now = Some("2031-01-01T00:00:00Z".parse().unwrap());
    others[1].event = Some(Event::from("Something else altogether"));
    let event = others[2].event.as_mut().unwrap();
    event.sender = Some(Sender {
        name: Some("Ana".to_owned()),
        id: None,
    });
    event.timezone = Some("Europe/Berlin".to_owned());
    event.platform = Some("slack".to_owned());
    others[3].event.as_mut().unwrap().hooks = vec![Hook {
        name: "calendar".to_owned(),
        content: "Free until noon".to_owned(),
    }];
    for request in others {
        let other = lab.engine.assemble(&lab.root, &request).unwrap();
        assert_eq!(standing(&other), base);
        let cache = other.report.cache.clone().unwrap();
        assert_eq!(&*cache.first_difference.unwrap().layer, "event");
    }
}

#[test]
fn the_cause_of_a_difference_is_named() {
    let lab = Lab::new("");
    let layer = |assembled: Assembled| {
        let cache = assembled.report.cache.clone().unwrap();
        (
            cache.first_difference.unwrap().layer.to_string(),
            cache.shared_tokens,
        )
    };
    lab.write(
        "capabilities.json",
        r#"{"capabilities": {"email": {"mail": "active"}}}"#,
    );
    lab.talk("s", &chat(4, 40));
    lab.assemble("s", 20_000);
    lab.write(
        "capabilities.json",
        r#"{"capabilities": {"email": {"mail": "broken"}}}"#,
    );
    assert_eq!(layer(lab.assemble("s", 20_000)).0, "environment");
    lab.write("AGENTS.md", "Answer at length. Answer briefly.\n");
    assert_eq!(layer(lab.assemble("s", 20_000)).0, "workspace");
    let mut other = request("s", 20_000);
    other.model = Some("gpt-4.1".to_owned());
    let other = lab.engine.assemble(&lab.root, &other).unwrap();
    assert_eq!(layer(other), ("model".to_owned(), 0));
    lab.record("s", &exchange("And now?", "Now."));
    let mut again = request("s", 20_000);
    again.model = Some("gpt-4.1".to_owned());
    let again = lab.engine.assemble(&lab.root, &again).unwrap();
    assert_eq!(layer(again).0, "session");
}

/// A model with round prices per million tokens.
const PRICED: &str = "
[compaction]
enabled = false

[models.priced]
window = 40000
tokenizer = \"o200k_base\"
provider = \"anthropic\"

[models.priced.prices]
input = 10.0
cached_input = 1.0
cache_write = 12.5
output = 50.0
";

/// Assembles the next request of a session, this many seconds after the start.
fn next(seconds: i64) -> contexture::Request {
    let start: contexture::Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    contexture::Request {
        model: Some("priced".to_owned()),
        now: Some(start + jiff::SignedDuration::from_secs(seconds)),
        ..request("s", 30_000)
    }
}

#[test]
fn a_lost_cache_has_a_cause_and_a_price() {
    let lab = Lab::new(PRICED);
    lab.talk("s", &chat(20, 120));
    let assemble = |seconds: i64| {
        let made = lab.engine.assemble(&lab.root, &next(seconds));
        made.unwrap().report.clone()
    };
    assert_eq!(assemble(0).cache, None);
    lab.record("s", &exchange("And now?", "Now."));
    let report = assemble(20);
    assert_eq!(report.cache_break(), None);
    let cache = report.cache.unwrap();
    assert_eq!(
        (cache.cause, cache.missed_tokens, cache.broken),
        (None, 0, false)
    );
    assert!(cache.read_tokens > 3000, "{cache:?}");
    assert!(cache.written_tokens > 0, "{cache:?}");
    assert_eq!(cache.dollars_missed, Some(0.0));
    let standing = cache.read_tokens + cache.written_tokens;

    // The provider's cache expires after five minutes, which is not a break.
    lab.record("s", &exchange("And then?", "Then."));
    let report = assemble(400);
    assert_eq!(report.cache_break(), None);
    let cache = report.cache.unwrap();
    assert_eq!(cache.cause, Some(CacheCause::TimeToLive));
    assert_eq!((cache.read_tokens, cache.broken), (0, false));
    // All but the current message, which this conversation did not record.
    let missed = cache.missed_tokens;
    assert!(missed > 3000 && missed <= standing, "{cache:?}");
    let extra = missed as f64 * (12.5 - 1.0) / 1e6;
    assert!(
        (cache.dollars_missed.unwrap() - extra).abs() < 1e-6,
        "{cache:?}"
    );

    lab.write("AGENTS.md", "Answer in one word.\n");
    let report = assemble(420);
    assert!(report.cache_break().is_some());
    let cache = report.cache.unwrap();
    assert_eq!(cache.cause, Some(CacheCause::Edit));
    assert_eq!(&*cache.first_difference.as_ref().unwrap().item, "AGENTS.md");
    assert!(
        cache.missed_tokens > 3000 && cache.read_tokens == 0,
        "{cache:?}"
    );

    let tool = r#"[{"name":"shell","description":"Runs","parameters":{"type":"object"}}]"#;
    lab.write("tools.json", tool);
    let cache = assemble(440).cache.unwrap();
    assert_eq!(cache.cause, Some(CacheCause::Tools), "{cache:?}");
    assert!(cache.broken);

    let mut other = next(460);
    other.model = Some("gpt-4.1".to_owned());
    let other = lab.engine.assemble(&lab.root, &other).unwrap();
    let cache = other.report.cache.clone().unwrap();
    assert_eq!((cache.cause, cache.broken), (Some(CacheCause::Model), true));
}

#[test]
fn a_summary_is_the_cause_when_it_replaces_history() {
    let lab = Lab::new("");
    lab.talk("s", &chat(20, 120));
    lab.assemble("s", 20_000);
    let summarised = lab.engine.compact("s", &Default::default()).unwrap();
    assert!(summarised.compacted().is_some());
    let next = lab.assemble("s", 20_000);
    let cache = next.report.cache.as_ref().unwrap();
    assert_eq!(
        (cache.cause, cache.broken),
        (Some(CacheCause::Compaction), true)
    );
}

#[test]
fn a_request_that_must_keep_the_cache_is_refused_and_not_saved() {
    let lab = Lab::new(PRICED);
    lab.talk("s", &chat(6, 40));
    let must = contexture::Request {
        fail_on_cache_break: true,
        ..next(20)
    };
    let first = lab.engine.assemble(&lab.root, &must).unwrap();
    lab.write("AGENTS.md", "Answer in one word.\n");
    for _ in 0..2 {
        // It is compared with the same request again.
        let error = lab.engine.assemble(&lab.root, &must).unwrap_err();
        assert_eq!(error.cause(), Cause::CacheBreak);
        let message = error.to_string();
        let expected =
            "cache break: content changed, 0 tokens missed, $0.0000, first difference at byte ";
        assert!(message.starts_with(expected), "{message}");
        assert!(
            message.contains(" in item AGENTS.md of layer workspace"),
            "{message}"
        );
    }
    let latest = lab.engine.store().unwrap().latest_snapshot("s").unwrap();
    assert_eq!(Some(latest.unwrap().hash.to_string()), first.snapshot);

    let lab = Lab::new("[snapshots]\nkeep = false");
    lab.session("s");
    let error = lab.engine.assemble(&lab.root, &must).unwrap_err();
    assert_eq!(error.field(), Some("fail_on_cache_break"));
}

#[test]
fn the_key_of_the_cache_is_the_sessions_own() {
    let lab = Lab::new("");
    for label in ["s", "t"] {
        lab.session(label);
    }
    let key = |label: &str, text: &str| {
        let mut asked = request(label, 20_000);
        asked.event = Some(Event::from(text));
        let made = lab.engine.assemble(&lab.root, &asked).unwrap();
        let body: serde_json::Value =
            serde_json::from_str(&made.render(Format::OpenAiChat).unwrap()).unwrap();
        body["prompt_cache_key"].as_str().unwrap().to_owned()
    };
    let first = key("s", "Why?");
    assert!(
        first.starts_with("contexture-") && first.len() <= 64,
        "{first}"
    );
    lab.write("AGENTS.md", "Other rules.\n");
    assert_eq!(key("s", "And why not?"), first);
    assert_ne!(key("t", "Why?"), first);
}

#[test]
fn tools_stand_in_the_same_order_however_they_are_listed() {
    let tool = |name: &str| {
        format!(
            r#"{{"name":"{name}","description":"Does {name}","parameters":{{"type":"object","properties":{{}}}}}}"#
        )
    };
    let lab = Lab::new("");
    lab.session("s");
    let mut rendered = Vec::new();
    for order in [["shell", "browse", "mail"], ["mail", "shell", "browse"]] {
        let list: Vec<String> = order.iter().map(|name| tool(name)).collect();
        lab.write("tools.json", &format!("[{}]", list.join(",")));
        let assembled = lab.assemble("s", 20_000);
        for format in PROVIDERS {
            rendered.push(assembled.render(format).unwrap());
        }
    }
    let (first, second) = rendered.split_at(PROVIDERS.len());
    assert_eq!(first, second);
    assert!(first[0].find("browse") < first[0].find("mail"));
}

/// Without snapshots the engine remembers where the window began.
#[test]
fn the_window_stays_without_snapshots() {
    let lab = Lab::new("[compaction]\nenabled = false\n[snapshots]\nkeep = false");
    let pinned = lab.pinned();
    lab.session("s");
    let (mut moved, mut previous) = (0, String::new());
    for turn in &chat(60, 40) {
        lab.record("s", turn);
        let now = standing(&lab.assemble("s", pinned + 1_500));
        moved += usize::from(!now.starts_with(previous.trim_end()));
        previous = now;
    }
    assert!((2..12).contains(&moved), "{moved} moves");
    assert_eq!(lab.assemble("s", 20_000).snapshot, None);
}

/// Items that were dropped for lack of tokens are shown again when the budget
/// grows.
#[test]
fn more_room_shows_more_again() {
    let lab = Lab::new(PLAIN);
    let pinned = lab.pinned();
    lab.talk("s", &chat(30, 40));
    let all = lab.assemble("s", 20_000).layout.clone();
    let few = lab.assemble("s", pinned + 250).layout.clone();
    assert!(few.history.len() < 8);
    assert_eq!(lab.assemble("s", 20_000).layout, all, "a larger window");
    lab.assemble("s", pinned + 250);
    let mut other = request("s", pinned + 250);
    other.model = Some("gpt-4-turbo".to_owned());
    lab.engine.assemble(&lab.root, &other).unwrap();
    // The latest three, whatever fitted before.
    lab.assemble("s", pinned + 10);
    let three = lab.assemble("s", pinned + 300).layout.clone();
    assert_eq!(three.history.len(), 7, "with the line about the others");
    lab.record("s", &exchange("Yes?", "No."));
    assert!(lab.assemble("s", pinned + 300).layout.history.len() >= 7);
}

#[test]
fn an_alias_is_the_same_session() {
    let lab = Lab::new(PLAIN);
    let pinned = lab.pinned();
    lab.talk("main", &chat(30, 40));
    let alias = SessionChange {
        alias: Some("other".to_owned()),
        ..SessionChange::default()
    };
    lab.store.change_session("main", &alias).unwrap();
    let first = lab.assemble("main", pinned + 800);
    lab.record("other", &exchange("Short.", "Yes."));
    let second = lab.assemble("other", pinned + 800);
    check_cache(&first, &second).unwrap();
    assert!(standing(&second).starts_with(standing(&first).trim_end()));
    // Another session has nothing to be compared with.
    lab.session("new");
    assert!(lab.assemble("new", pinned + 800).report.cache.is_none());
}
