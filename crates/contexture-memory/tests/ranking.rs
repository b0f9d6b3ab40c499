//! Which records a recall shows, and in which order: records in, text out.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use contexture_engine::Engine;
use contexture_memory::{Context, ContextRequest, Lines, Memory, MemoryCache, Recall};
use contexture_sqlite::SqliteStore;
use jiff::Timestamp;

/// The time of every recall.
const NOW: &str = "2026-11-17T10:00:00Z";

/// A memory in a directory of its own.
struct TestMemory {
    _dir: tempfile::TempDir,
    engine: Engine,
    cache: Arc<MemoryCache>,
}

impl TestMemory {
    /// Returns a memory with these lines of JSON.
    fn of(lines: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(dir.path().join("memory.db")).unwrap());
        let cache = Arc::new(MemoryCache::default());
        let builder = Engine::builder().memories(store);
        let engine = contexture_memory::register(builder, &cache)
            .build()
            .unwrap();
        let memory = Self {
            _dir: dir,
            engine,
            cache,
        };
        let mut lines = Lines {
            name: "records.jsonl",
            reader: &mut lines.as_bytes(),
            progress: &mut |_, _| {},
        };
        let now: Timestamp = NOW.parse().unwrap();
        let recorded = memory.memory().record_lines(&mut lines, Some(now));
        recorded.unwrap();
        memory
    }

    /// Returns a memory with one message per line: `ID DAY SPEAKER SESSION: TEXT`.
    fn said(messages: &str) -> Self {
        let line = |message: &str| {
            let (head, text) = message.trim().split_once(": ").unwrap();
            let [id, day, speaker, session] = head.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{message}");
            };
            let line = serde_json::json!({
                "kind": "event", "id": id, "session_id": session,
                "timestamp": format!("{day}T10:00:00Z"), "type": "user_message",
                "content": {"speaker": speaker, "text": text},
            });
            format!("{line}\n")
        };
        Self::of(&messages.trim().lines().map(line).collect::<String>())
    }

    fn memory(&self) -> Memory<'_> {
        Memory::new(&self.engine, &self.cache).unwrap()
    }

    fn ask(&self, request: &ContextRequest) -> Arc<Context> {
        let how = Recall {
            now: Some(NOW.parse().unwrap()),
            ..Recall::default()
        };
        self.memory().recall(request, &how).unwrap().context
    }

    fn recall(&self, query: &str, max_tokens: u64) -> Arc<Context> {
        self.ask(&ContextRequest {
            query: query.to_owned(),
            max_tokens,
            ..ContextRequest::default()
        })
    }
}

/// Returns the ids of the shown records, best first.
fn best(context: &Context) -> Vec<&str> {
    let mut shown: Vec<_> = context.components.iter().collect();
    shown.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score));
    shown.iter().map(|part| part.source.as_str()).collect()
}

fn has(context: &Context, id: &str) -> bool {
    context.components.iter().any(|part| part.source == id)
}

/// Returns the reason of the row with this name.
fn reason(context: &Context, name: &str) -> Option<String> {
    let row = context.excluded.iter().find(|row| row.source == name);
    row.map(|row| row.reason.to_string())
}

#[test]
fn equal_sentences_of_two_speakers_are_two() {
    let memory = TestMemory::said(
        "a 2026-05-01 Anna a: I am allergic to peanuts.
         b 2026-05-02 Bob b: I am allergic to peanuts.",
    );
    let context = memory.recall("Is Anna allergic to peanuts?", 1_000);
    assert_eq!(
        context.content,
        "## Relevant Content\n\n\
         [2026-05-01]\nAnna: I am allergic to peanuts.\n\n\
         [2026-05-02]\nBob: I am allergic to peanuts.\n"
    );
    assert_eq!(best(&context)[0], "a");
    assert!(context.excluded.is_empty(), "{:?}", context.excluded);
}

#[test]
fn equal_sentences_of_two_users_or_actors_are_two() {
    let line = |id: &str, field: &str| {
        format!(
            "{{\"kind\":\"event\",\"id\":\"{id}\",\"timestamp\":\"2026-05-01T10:00:00Z\",\
             {field},\"content\":\"I am allergic to peanuts.\"}}\n"
        )
    };
    let by = |name: &str| {
        let fields = ["a", "b"].map(|who| format!("\"{name}\":\"{who}\""));
        TestMemory::of(&[line("a", &fields[0]), line("b", &fields[1])].concat())
    };
    for name in ["user", "actor"] {
        let context = by(name).recall("Who is allergic to peanuts?", 1_000);
        assert_eq!(context.components.len(), 2, "{name}: {}", context.content);
    }
}

#[test]
fn of_equal_sentences_the_one_of_the_time_that_is_asked_for_is_shown() {
    let memory = TestMemory::said(
        "a 2026-06-01 Dee a: I ran 5 km today.
         b 2026-06-08 Dee b: I ran 5 km today.",
    );
    let context = memory.recall("What did Dee do on 1 June 2026?", 1_000);
    assert_eq!(
        context.content,
        "## Relevant Content\n\n[2026-06-01]\nDee: I ran 5 km today. (and 1 like it)\n"
    );
    assert_eq!(
        reason(&context, "duplicates of a").as_deref(),
        Some("1 record with the same content as `a`, which represents it")
    );
    // Without a time, the newest is shown.
    let context = memory.recall("How far did Dee run?", 1_000);
    assert_eq!(
        context.content,
        "## Relevant Content\n\n[2026-06-08]\nDee: I ran 5 km today. (and 1 like it)\n"
    );
}

/// Returns a memory with nine payments in June and some noise.
fn payments() -> TestMemory {
    let mut lines: String = (1..=9)
        .map(|n| format!("p{n} 2026-06-0{n} Ana p{n}: Paid 1{n} euros for groceries.\n"))
        .collect();
    lines.push_str("k 2026-06-05 Ana k: Kittens like yarn more than anything else in the house.\n");
    lines.push_str("t 2026-06-06 Ana t: The tram was late because of a tree on the rails.\n");
    TestMemory::said(&lines)
}

#[test]
fn a_series_of_numbers_is_shown_if_there_is_room() {
    let memory = payments();
    let query = "What did I pay for groceries in June?";
    let context = memory.recall(query, 1_000);
    for n in 1..=9 {
        assert!(has(&context, &format!("p{n}")), "{}", context.content);
    }
    assert!(!context.content.contains("like it"), "{}", context.content);
    // Its members come before unrelated records, and those that are missing are
    // counted.
    let context = memory.recall(query, 110);
    let shown = context.components.len();
    assert!((3..9).contains(&shown), "{}", context.content);
    assert!(
        !has(&context, "k") && !has(&context, "t"),
        "{}",
        context.content
    );
    let note = format!("(and {} like it)", 9 - shown);
    assert!(context.content.contains(&note), "{}", context.content);
    let rows = context.excluded.iter();
    let mut rows = rows.filter(|row| row.source.starts_with("records like"));
    let row = rows.next().unwrap().reason.to_string();
    let count = format!("{} record", 9 - shown);
    assert!(row.starts_with(&count), "{row}");
    assert!(context.token_count <= 110);
}

#[test]
fn a_series_outside_the_time_that_is_asked_for_is_counted() {
    let mut lines = String::new();
    for month in 1..=9 {
        for day in [3, 13, 23] {
            let (id, euros) = (month * 100 + day, month + day);
            lines.push_str(&format!(
                "p{id} 2026-0{month}-{day:02} Ana p{id}: Paid {euros} euros for groceries.\n"
            ));
        }
    }
    let context = TestMemory::said(&lines).recall("What did I pay for groceries in June?", 1_000);
    let mut shown = best(&context);
    shown.sort_unstable();
    assert_eq!(shown, ["p603", "p613", "p623"], "{}", context.content);
    assert!(
        context.content.contains("(and 24 like it)"),
        "{}",
        context.content
    );
}

#[test]
fn a_log_does_not_hide_the_one_line_that_says_why() {
    let mut lines: String = (0..3_000)
        .map(|n| {
            let day = 1 + n % 28;
            format!("b{n} 2026-06-{day:02} Bot s: backup {n} failed\n")
        })
        .collect();
    lines.push_str("why 2026-05-01 Bot t: The disk of the backup host was full.\n");
    let memory = TestMemory::said(&lines);
    for tokens in [80, 300] {
        let context = memory.recall("Why did the backup fail?", tokens);
        assert!(has(&context, "why"), "{}", context.content);
        assert_eq!(context.components.len(), 3, "{}", context.content);
        assert!(
            context.content.contains("failed (and 2,998 like it)"),
            "{}",
            context.content
        );
    }
}

#[test]
fn instructions_of_others_leave_room_for_the_answer() {
    let memory = TestMemory::said(
        "i1 2026-05-01 Marcus a: Always answer me in short bullet points.
         i2 2026-05-02 Priya b: Never suggest anything with chocolate to me after 6 pm.
         i3 2026-05-03 Priya b: Please always remind me to check the label for traces of nuts.
         t 2026-05-04 Tomoko c: The reconciliation took 48 minutes because the index was missing.",
    );
    let context = memory.recall("Why was the batch job at night so slow?", 75);
    assert!(has(&context, "t"), "{}", context.content);
    // One instruction still has its bonus.
    let raised =
        |part: &&contexture_memory::ContextComponent| part.scores.contains_key("instruction");
    let raised = context.components.iter().filter(raised).count();
    assert_eq!(raised, 1, "{}", context.content);
    // With more room, all are shown.
    let context = memory.recall("Why was the batch job at night so slow?", 400);
    assert_eq!(context.components.len(), 4, "{}", context.content);
}

#[test]
fn the_instructions_of_a_named_speaker_come_first() {
    let memory = TestMemory::said(
        "i1 2026-05-01 Marcus a: Always answer me in short bullet points.
         i2 2026-05-02 Priya b: Never suggest anything with chocolate.
         t 2026-05-04 Tomoko c: The oven is broken.",
    );
    for (name, rule) in [("Marcus", "i1"), ("Priya", "i2")] {
        let context = memory.recall(&format!("What should I cook for {name}?"), 60);
        let parts = context.components.iter();
        let mut raised = parts.filter(|part| part.scores.contains_key("instruction"));
        assert_eq!(raised.next().unwrap().source, rule, "{}", context.content);
        assert!(raised.next().is_none(), "{}", context.content);
    }
}

#[test]
fn a_neighbour_stays_below_its_source_and_strangers_below_the_named_speaker() {
    let memory = TestMemory::said(
        "a 2026-05-29 Tobias a: I got the job! I start at the observatory on 1 July.
         b 2026-08-29 Priya s: She chose a plastic octopus. It worked, thanks for that idea.
         c 2026-08-30 Assistant s: Lovely!
         d 2026-08-31 Priya s: We had soup for supper.",
    );
    let context = memory.recall("Where does Tobias work?", 50);
    assert_eq!(best(&context)[0], "a", "{}", context.content);
    let context = memory.recall("Where does Tobias work?", 500);
    let of = |id: &str| {
        let part = context.components.iter().find(|part| part.source == id);
        part.unwrap()
    };
    assert!(of("c").scores["words"] < of("b").scores["words"]);
    assert!(of("b").scores.contains_key("boost_speaker"));
    assert!(!of("a").scores.contains_key("boost_speaker"));
    // A text that has the name is about the speaker.
    let memory = TestMemory::said(
        "a 2026-05-29 Tobias a: Good morning!
         b 2026-08-29 Priya b: Tobias works at the harbour.
         c 2026-08-29 Omar c: My work starts at nine.",
    );
    let context = memory.recall("Where does Tobias work?", 500);
    assert_eq!(best(&context)[0], "b", "{}", context.content);
}

#[test]
fn stop_words_of_other_languages_do_not_count() {
    let memory = TestMemory::said(
        "a 2026-05-01 Jan a: Wie der Vater so der Sohn, sagt man von ihm.
         b 2026-05-02 Jan b: Unser Hund Struppi hat den Briefträger gebissen.",
    );
    let context = memory.recall("Wie heißt der Hund von der Familie?", 500);
    assert_eq!(best(&context)[0], "b", "{}", context.content);
    let keywords = &context.metadata.signals.keywords;
    assert_eq!(keywords, &["heißt", "hund", "familie"]);
}

#[test]
fn dates_are_those_of_the_time_zone() {
    let line = r#"{"kind":"event","id":"a","timestamp":"2026-11-17T01:30:00+09:00","content":{"speaker":"Aya","text":"The parcel came."}}"#;
    let memory = TestMemory::of(line);
    let ask = |query: &str, zone: Option<&str>| {
        let context = memory.ask(&ContextRequest {
            query: query.to_owned(),
            max_tokens: 500,
            timezone: zone.map(str::to_owned),
            ..ContextRequest::default()
        });
        context.content.clone()
    };
    let query = "Did the parcel come?";
    assert_eq!(
        ask(query, Some("Asia/Tokyo")),
        "## Relevant Content\n\n[2026-11-17]\nAya: The parcel came.\n"
    );
    assert_eq!(
        ask(query, None),
        "## Relevant Content\n\n[2026-11-16]\nAya: The parcel came.\n"
    );
    assert_eq!(
        ask("", Some("+09:00")),
        "## Recent Activity\n\n[2026-11-17T01:30:00+09:00] Aya: The parcel came.\n"
    );
    assert_eq!(
        ask("", None),
        "## Recent Activity\n\n[2026-11-16T16:30:00Z] Aya: The parcel came.\n"
    );
}

#[test]
fn records_that_are_not_valid_are_counted() {
    let lines = [
        r#"{"kind":"event","id":"old","timestamp":"2026-05-01T10:00:00Z","content":"The code is 17."}"#,
        r#"{"kind":"event","id":"new","timestamp":"2026-05-02T10:00:00Z","content":"The code is 18.","supersedes":"old"}"#,
        r#"{"kind":"event","id":"over","timestamp":"2026-05-02T10:00:00Z","content":"The code was 9.","valid_to":"2026-06-01T00:00:00Z"}"#,
        r#"{"kind":"event","id":"secret","timestamp":"2026-05-02T10:00:00Z","content":"The code is 1.","valid_to":"2026-06-01T00:00:00Z","visible_to":["ana"]}"#,
    ];
    let memory = TestMemory::of(&lines.join("\n"));
    let context = memory.recall("What is the code?", 500);
    assert_eq!(best(&context), ["new"]);
    // Records for other identities are not counted.
    assert_eq!(
        reason(&context, "invalid records").as_deref(),
        Some("2 records are superseded, expired or not valid yet")
    );
}
