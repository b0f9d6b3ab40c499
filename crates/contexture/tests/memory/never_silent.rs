//! Recall fills the budget: a text that fits the query badly is better than
//! none, and whatever is missing is accounted for.

use contexture::memory::{Channel, ContextRequest};

use crate::fixture::{TestMemory, ids, query_for, said};

fn diary() -> String {
    let texts = [
        "I can't have dairy, it makes me ill.",
        "The bus was late again this morning.",
        "We painted the kitchen yellow.",
        "My brother plays the trombone.",
        "The printer on the second floor is out of toner.",
        "I run five kilometres before breakfast.",
        "Our landlord wants to raise the rent.",
        "The library closes at six on weekdays.",
        "I sold my old bicycle to a neighbour.",
    ];
    let line = |(i, text): (usize, &&str)| {
        let day = format!("2026-02-{:02}T10:00:00Z", i + 1);
        said(&format!("d{i}"), &format!("s{i}"), &day, "Ana", text)
    };
    texts.iter().enumerate().map(line).collect()
}

#[test]
fn a_memory_that_fits_whole_is_shown_whole() {
    let mind = TestMemory::of(&diary());
    let context = mind.ask(&query_for("What is she allergic to?", 1_000));
    assert_eq!(ids(&context).len(), 9, "{}", context.content);
    assert!(context.content.contains("I can't have dairy"));
    assert!(!context.truncated);
}

#[test]
fn when_nothing_matches_the_answer_says_so() {
    let mind = TestMemory::of(&diary());
    let context = mind.ask(&query_for("zzyzx qwghlm", 100));
    assert!(context.metadata.unmatched);
    assert!(context.content.starts_with("## Recent Activity\n"));
    let parts = &context.components;
    assert!(parts.iter().all(|part| part.channel == Channel::Recent));
    // The latest come first.
    assert!(ids(&context).contains(&"d8".to_owned()), "{context:?}");
    assert!(!ids(&context).contains(&"d0".to_owned()), "{context:?}");
    assert_eq!(ids(&context).len() + context.excluded.len(), 9);
    assert!(!mind.recall("the trombone").metadata.unmatched);
}

#[test]
fn small_records_of_any_language_fill_the_budget() {
    let fruits = [
        "苹果", "香蕉", "西瓜", "葡萄", "橙子", "草莓", "樱桃", "柠檬", "芒果",
    ];
    let places = [
        "北京", "上海", "广州", "成都", "杭州", "西安", "南京", "重庆",
    ];
    let verbs = ["喜欢吃", "买了", "种了", "讨厌", "带来了"];
    let mut lines = String::new();
    for i in 0..360 {
        let text = format!(
            "我在{}{}{}。",
            places[i % places.len()],
            verbs[i / 8 % verbs.len()],
            fruits[i / 40 % fruits.len()],
        );
        lines.push_str(&said(
            &format!("m{i}"),
            "s",
            "2026-02-02T10:00:00Z",
            "王",
            &text,
        ));
    }
    let mind = TestMemory::of(&lines);
    for query in ["我的生日是哪一天？", "我在北京买了什么？", "他叫什么名字？"]
    {
        let context = mind.ask(&query_for(query, 480));
        assert!(context.token_count > 460, "{query}: {}", context.content);
    }
}

/// Returns a word that no other number has.
fn word(number: usize) -> String {
    let letter = |digit: usize| char::from(b'a' + (digit % 26) as u8);
    let [a, b, c] = [number, number / 26, number / 676].map(letter);
    format!("z{a}k{b}q{c}")
}

#[test]
fn every_record_is_a_row_or_part_of_a_counted_group() {
    let mut lines = String::new();
    for i in 0..900 {
        let text = format!(
            "The entry {} of the log is about {}.",
            word(i),
            word(i * 7 + 3)
        );
        lines.push_str(&said(
            &format!("e{i}"),
            "s",
            "2026-02-02T10:00:00Z",
            "Ana",
            &text,
        ));
    }
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("Which entry is about xyzzy?", 300));
    let last = context.excluded.len() + context.metadata.unlisted;
    // 256 records are compared for this budget; the group represents the rest.
    assert_eq!(ids(&context).len() + last, 256 + 1);
    let all = mind.ask(&ContextRequest {
        max_tokens: 100_000,
        ..query_for("Which entry is about xyzzy?", 1)
    });
    assert_eq!(
        ids(&all).len() + all.excluded.len() + all.metadata.unlisted,
        900
    );
}

#[test]
fn the_group_of_lower_records_is_listed_with_its_size() {
    let mut lines = String::new();
    for i in 0..300 {
        let text = format!("The word {} stands alone here.", word(i));
        lines.push_str(&said(
            &format!("e{i}"),
            "s",
            "2026-02-02T10:00:00Z",
            "Ana",
            &text,
        ));
    }
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("alone", 4_000));
    let reasons: Vec<String> = context
        .excluded
        .iter()
        .map(|row| row.reason.to_string())
        .collect();
    let group = context
        .excluded
        .iter()
        .find(|row| row.source == "lower-ranking records");
    // The budget is large enough to compare all of them.
    assert!(group.is_none(), "{reasons:?}");
    let context = mind.ask(&query_for("alone", 1_000));
    let group = context
        .excluded
        .iter()
        .find(|row| row.source == "lower-ranking records");
    let reason = group.expect("a group").reason.to_string();
    assert_eq!(
        reason,
        "44 more records rank below the 256 that were compared"
    );
}

/// Only the best records are offered at first. Where most of them are
/// near-duplicates of each other, the others fill the budget.
#[test]
fn near_duplicates_of_the_best_leave_no_room_unused() {
    let mut lines = String::new();
    let mut say = |id: String, text: String| {
        lines.push_str(&said(&id, "s", "2026-02-02T10:00:00Z", "Ana", &text));
    };
    // Texts of which nine in ten words are the same.
    let same: Vec<String> = (0..24).map(|i| word(1_000 + i)).collect();
    for i in 0..400 {
        let text = format!("The harbour alone: {} {}.", same.join(" "), word(i));
        say(format!("same{i}"), text);
    }
    for i in 0..100 {
        let words: Vec<String> = (0..24).map(|j| word(2_000 + 24 * i + j)).collect();
        say(format!("other{i}"), format!("{}.", words.join(" ")));
    }
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("alone in the harbour", 6_000));
    let others = ids(&context)
        .iter()
        .filter(|id| id.starts_with("other"))
        .count();
    assert!(
        others > 40,
        "{others} others, {} tokens",
        context.token_count
    );
    // Every record is in a row, or in one that counts it.
    let listed = ids(&context).len() + context.excluded.len() + context.metadata.unlisted;
    assert!(listed >= 500, "{listed}");
}

#[test]
fn a_fact_with_a_question_is_not_ranked_lower() {
    let long = "I moved to the house by the harbour in spring with my two cats and the old \
                piano, and now I wonder every single evening how I could ever keep the sea wind \
                out of the kitchen, what do you think?";
    let lines = [
        said("long", "s", "2026-02-02T10:00:00Z", "Ana", long),
        said(
            "short",
            "t",
            "2026-02-02T10:00:00Z",
            "Ben",
            "Where is the house by the harbour?",
        ),
    ];
    let mind = TestMemory::of(&lines.concat());
    let context = mind.recall("house by the harbour");
    let part = |id: &str| context.components.iter().find(|part| part.source == id);
    assert!(!part("long").unwrap().scores.contains_key("asks"));
    assert!(part("short").unwrap().scores["asks"] < 0.0);
}

#[test]
fn standing_instructions_are_raised() {
    let mut lines = said(
        "rule",
        "s0",
        "2026-01-02T10:00:00Z",
        "Ana",
        "Always give prices with tax.",
    );
    for i in 0..30 {
        let text = format!("The bill for the {} in the shop was due.", word(i));
        lines.push_str(&said(
            &format!("b{i}"),
            &format!("t{i}"),
            "2026-02-02T10:00:00Z",
            "Ana",
            &text,
        ));
    }
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("How much did the carpet come to?", 120));
    assert!(ids(&context).contains(&"rule".to_owned()), "{context:?}");
    // Instructions of programs do not count.
    let by_program = lines.replace(
        "\"Ana\",\"text\":\"Always",
        "\"Assistant\",\"text\":\"Always",
    );
    let mind = TestMemory::of(&by_program);
    let context = mind.recall("How much did the carpet come to?");
    let rule = context.components.iter().find(|part| part.source == "rule");
    assert!(!rule.unwrap().scores.contains_key("instruction"));
}

#[test]
fn a_standing_instruction_does_not_hide_what_is_asked_for() {
    let long = "I moved into the flat on Gartenstrasse in June and since then the landlord has not \
                repaired the balcony door, although I wrote to him three times; the deposit was \
                1,850 euros and the contract says that he must repair such things within two \
                weeks. Can I reduce the rent because of that, and by how much?";
    let lines = [
        ("fr", "From now on, answer me in French."),
        ("no", "Never use emojis in your replies."),
        ("cellar", "The heating in the cellar makes a strange noise."),
        ("flat", long),
        ("miele", "We got a new dishwasher, a Miele."),
        ("kyoto", "来月、京都に引っ越します。"),
    ];
    let lines: String = (lines.iter().zip(1..))
        .map(|((id, text), day)| said(id, id, &format!("2026-01-0{day}T10:00:00Z"), "Ana", text))
        .collect();
    let mind = TestMemory::of(&lines);
    for (query, tokens, wanted) in [
        ("How high was the deposit of the flat?", 120, "flat"),
        ("京都にいつ引っ越す？", 60, "kyoto"),
    ] {
        let context = mind.ask(&query_for(query, tokens));
        let found = ids(&context);
        assert!(found.contains(&wanted.to_owned()), "{query}: {found:?}");
        let shown = context.components.iter().find(|part| part.source == wanted);
        let best = context.components.iter().map(|part| part.relevance_score);
        let best = best.fold(0.0, f64::max);
        assert_eq!(shown.unwrap().relevance_score, best, "{query}");
    }
    // An instruction comes right after it.
    let context = mind.ask(&query_for("京都にいつ引っ越す？", 70));
    let of = |id: &str| context.components.iter().find(|part| part.source == id);
    let shown = of("fr").or(of("no")).unwrap();
    assert!(shown.scores["instruction"] > 0.0, "{context:?}");
}

#[test]
fn numbers_in_texts_without_spaces_are_no_template() {
    let names = ["王伟", "李娜", "张敏", "刘洋", "陈静", "杨帆"];
    let facts = [
        "喜欢吃辣椒",
        "住在杭州",
        "养了一只猫",
        "在医院工作",
        "会弹钢琴",
        "对花生过敏",
    ];
    let mut lines = String::new();
    for (i, name) in names.iter().cycle().take(60).enumerate() {
        let text = format!("{name}{i}号{}", facts[(i + i / 6) % 6]);
        let id = format!("z{i}");
        lines.push_str(&said(&id, &id, "2026-02-02T10:00:00Z", "Li", &text));
    }
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("谁对花生过敏？", 480));
    assert!(context.token_count > 400, "{}", context.content);
    assert!(!context.content.contains("like it"), "{}", context.content);
}

#[test]
fn many_records_of_one_template_do_not_hide_the_others() {
    let mut lines = String::new();
    let backups = 2_000;
    for i in 0..backups {
        let at = format!("2026-02-02T{:02}:{:02}:00Z", i / 60 % 24, i % 60);
        let text = format!("backup {i} failed: retrying");
        lines.push_str(&said(&format!("b{i}"), "s", &at, "Bot", &text));
    }
    let why = "The backup failed because the disk is full.";
    lines.push_str(&said("why", "t", "2026-02-01T10:00:00Z", "Bot", why));
    let mind = TestMemory::of(&lines);
    let context = mind.ask(&query_for("Why did the backup fail?", 300));
    let shown = ids(&context);
    assert!(shown.contains(&"why".to_owned()), "{}", context.content);
    assert_eq!(shown.len(), 3, "{}", context.content);
    assert!(
        context
            .content
            .contains("failed: retrying (and 1,998 like it)"),
        "{}",
        context.content
    );
    let group = context
        .excluded
        .iter()
        .find(|row| row.source.starts_with("records like"));
    let reason = &group.expect("a group").reason;
    assert!(
        reason
            .to_string()
            .starts_with("1,998 records differing only in numbers"),
        "{reason}"
    );
    // A few such texts are distinguished by their numbers.
    let few: String = (0..5)
        .map(|i| {
            said(
                &format!("p{i}"),
                "s",
                "2026-02-02T10:00:00Z",
                "Ana",
                &format!("Item {i} costs {} euros.", i * 3),
            )
        })
        .collect();
    assert_eq!(
        ids(&TestMemory::of(&few).recall("What do the items cost?")).len(),
        5
    );
}
