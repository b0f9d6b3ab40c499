//! Recognises proper names by their capital letters and by the words before
//! them.

use std::collections::BTreeSet;

use super::find::is_month;
use super::{Find, Found, MOST_MENTIONS, TextContext, What};
use crate::sentence::sentences;

/// Capitalised words that are not names: weekdays, languages and peoples,
/// holidays, interjections, products, and words that start sentences.
const NO_NAMES: &str = "\
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mondays Fridays Sundays Saturdays \
    Mon Tue Tues Wed Thu Thurs Fri Sat Sun Bye Goodbye Woah Whoa Aww Aw Anytime Glad Lately \
    English German French Spanish Italian Portuguese Dutch Russian Chinese Japanese Korean Arabic \
    Hindi Latin Greek Turkish Polish Swedish American British European African Asian Indian \
    Mexican Canadian Australian Irish Scottish Christian Jewish Muslim Christmas Easter Halloween \
    Thanksgiving Ramadan Internet Python Java JavaScript TypeScript Rust Ruby Perl Linux Windows \
    Docker Git Postgres Redis Kubernetes Markdown Unicode Excel Bluetooth Mom Dad Mum Mommy Daddy \
    Grandma Grandpa God Lord Sir Madam Hi Hey Hello Yes Yeah Yep No Nope Ok Okay Oh Wow Thanks \
    Thank Please Sorry Sure Great Good Nice Cool Awesome Absolutely Definitely Exactly Totally \
    Congrats Congratulations Happy Merry Dear Well Anyway However Maybe Perhaps Actually Today \
    Tomorrow Yesterday Tonight Now Then Here There This That These Those The A An And But Or So If \
    When While Where What Who Why How Which Because Since After Before During Until Although \
    Though As At By For From In Into Of On To With Without About Also Just Only Even Still Again \
    Always Never Sometimes Often Usually Once Later Soon Recently Finally First Second Third Next \
    Last Another Every Each Some Any All Both Most Many Few More My Your His Her Its Our Their I \
    I'm I've I'll I'd It He She We You They It's He's She's We're You're They're That's There's \
    What's Let's Let Can Could Will Would Should May Might Must Do Does Did Is Are Was Were Be \
    Been Has Have Had Not Don't Can't Won't Didn't Isn't Added Fixed Updated Changed Removed \
    Created Deleted Moved Running Error Warning Note Todo Info Debug Failed Success True False \
    None Null Let Look See Check Try Use Run Make Take Give Get Got \
    Go Come Keep Set Add Fix Remove Update Create Delete Open Close Start Stop Read Write \
    Neither Either Nor Everyone Someone Anyone Everything Something Nothing Anything People";

/// Pronouns that are not names, without their ending `body`.
const NO_BODIES: &[&str] = &["No", "Every", "Some", "Any"];

/// Words that are not persons at the start of a sentence, although a relation of
/// persons can follow them: `Production moved to Berlin`.
const NO_PERSONS: &str = "\
    Accounting Administration Agent Agents Army Art Baby Band Boss Boy Boys Brother Business \
    Checkout Child Children Class Client Clients Coach Colleagues Company Couple Cousin Customer \
    Customers Daughter Design Developer Developers Doctor Employees Engineer Engineers Engineering \
    Family Father Finance Folks Friend Friends Girl Girls Government Grandfather \
    Grandmother Guests Guy Guys Headquarters Husband Humans Kid Kids Legal Management Manager \
    Marketing Members Men Money Mother Music Nature Neighbors Neighbours Nephew Niece Half \
    Operations Others Owner Parents Part Partner Police Production Refugees Research Researchers \
    Residents Roommate Sales Security Server Sister Son Staff Student Students Support Teacher \
    Teachers Team Teams Teammates Tourists Traffic Training Two Three Four Five User Users Wife \
    Women Work Workers Worker Writer Writers Author Authors Pilot Project Projects \
    School Service Services System Systems Data Development Office Offices Conference Event Events \
    Meeting Meetings Dinner Lunch Breakfast Life Love One Same Such Several Various Other Fans";

/// Endings of longer words that are not persons.
const NO_PERSON_ENDINGS: &[&str] = &["ing", "tion", "sion", "ment", "ness", "ship", "ity"];

/// Last words of names that are not persons.
const ORGANIZATIONS: &[&str] = &[
    "Inc",
    "Ltd",
    "LLC",
    "Corp",
    "GmbH",
    "AG",
    "University",
    "College",
    "School",
    "Institute",
    "Foundation",
    "Company",
    "Bank",
    "Hospital",
    "Museum",
    "Studio",
    "Studios",
    "Labs",
    "Group",
    "Council",
    "Association",
    "Agency",
    "Department",
    "Committee",
    "Union",
    "Team",
];

const PLACES: &[&str] = &[
    "Street",
    "Avenue",
    "Road",
    "City",
    "County",
    "Island",
    "Islands",
    "Lake",
    "River",
    "Mountain",
    "Mountains",
    "Park",
    "Beach",
    "Bay",
    "Valley",
    "Square",
    "Bridge",
    "Airport",
    "Station",
];

/// Words before a person's name.
const TITLES: &[&str] = &[
    "Mr",
    "Mrs",
    "Ms",
    "Dr",
    "Prof",
    "Professor",
    "Aunt",
    "Uncle",
    "Sir",
];

struct Word<'t> {
    start: usize,
    text: &'t str,
    /// True if only a space separates the word from the one before.
    joins: bool,
    /// True if the word begins a sentence or a quotation, or follows a colon.
    opens: bool,
}

/// Finds the proper names of `text`.
///
/// A word that begins a sentence and is followed by one of `verbs` may be a person.
pub(super) fn names(
    text: &str,
    known: &TextContext<'_>,
    verbs: &BTreeSet<String>,
    found: &mut Vec<Found>,
) {
    let mut sure: BTreeSet<&str> = known.names.iter().copied().collect();
    sure.extend(known.speaker);
    let runs = runs(text);
    let mut alone = sure.clone();
    // A name inside a sentence is also a name at the start of another one.
    for run in &runs {
        for word in run.words.iter().filter(|word| !word.opens) {
            sure.insert(word.text);
            if run.words.len() == 1 {
                alone.insert(word.text);
            }
        }
    }
    for run in &runs {
        if found.len() > MOST_MENTIONS * 16 {
            return;
        }
        if run.is_speaker {
            if known.speaker.is_some() {
                let word = &run.words[0];
                found.push(Found {
                    start: word.start,
                    end: word.start + word.text.len(),
                    name: (word.start, word.start + word.text.len()),
                    what: What::Speaker,
                });
            }
            continue;
        }
        if let [word] = run.words.as_slice()
            && word.opens
            && !sure.contains(word.text)
            && let Some(what) = opening(word.text)
            && is_before(text, word, verbs)
        {
            let (start, end) = (word.start, word.start + word.text.len());
            if !is_attached(text, start, end) {
                found.push(Found {
                    start,
                    end,
                    name: (start, end),
                    what,
                });
            }
            continue;
        }
        let mut words = run.words.as_slice();
        while let [first, rest @ ..] = words {
            let titled = TITLES.contains(&first.text);
            // `Bye Ana` is not a name where `Ana` is known to be one.
            let complete = rest.first().is_none_or(|next| alone.contains(next.text));
            let doubtful = first.opens && complete && !sure.contains(first.text);
            if titled || is_no_name(first.text) || doubtful {
                words = rest;
            } else {
                break;
            }
        }
        while let [rest @ .., last] = words {
            // `Ana I` is not a name, and neither is `J` alone.
            if is_no_name(last.text) || last.text.chars().count() == 1 {
                words = rest;
            } else {
                break;
            }
        }
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            continue;
        };
        let after_title = run.words.len() > words.len() && {
            let skipped = &run.words[..run.words.len() - words.len()];
            skipped
                .last()
                .is_some_and(|word| TITLES.contains(&word.text))
        };
        let (start, end) = (first.start, last.start + last.text.len());
        if is_attached(text, start, end) {
            continue;
        }
        let find = if after_title {
            Find::Person
        } else if ORGANIZATIONS.contains(&last.text) {
            Find::Organization
        } else if PLACES.contains(&last.text) || (words.len() > 1 && first.text == "Lake") {
            Find::Place
        } else if first.start > run.words[0].start {
            Find::Person
        } else {
            match run.before {
                "in" | "near" | "around" | "across" | "inside" | "outside" | "visit"
                | "visited" | "visiting" => Find::Place,
                "at" => Find::Organization,
                _ if run.travels => Find::Place,
                _ => Find::Person,
            }
        };
        found.push(Found {
            start,
            end,
            name: (start, end),
            what: What::BuiltIn(find),
        });
    }
}

/// Returns the meaning that a word can have at the start of a relation.
fn opening(word: &str) -> Option<What> {
    use std::sync::LazyLock;
    static NONE: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| NO_PERSONS.split_ascii_whitespace().collect());
    if matches!(word, "He" | "She") {
        return Some(What::Pronoun);
    }
    let is_long = word.len() > 6;
    let is_noun = is_long && NO_PERSON_ENDINGS.iter().any(|end| word.ends_with(end));
    let is_person = word.chars().count() > 1 && !is_no_name(word) && !NONE.contains(word);
    (is_person && !is_noun).then_some(What::Opening)
}

/// Returns true when one of `verbs` follows a word after a space.
fn is_before(text: &str, word: &Word<'_>, verbs: &BTreeSet<String>) -> bool {
    let after = &text[word.start + word.text.len()..];
    let next = after.strip_prefix(' ').unwrap_or_default();
    let next = next.split(char::is_whitespace).next().unwrap_or_default();
    verbs.contains(next)
}

/// Returns true for a part of another word: `Node.js`, `@Ana`, `Vec::new`.
fn is_attached(text: &str, start: usize, end: usize) -> bool {
    let joins = |c: char| matches!(c, '/' | '\\' | '@' | '#' | '_' | '`' | '<' | '$' | '=');
    let mut after = text[end..].chars();
    let (next, then) = (after.next(), after.next());
    text[..start].ends_with(|c: char| joins(c) || c == '.')
        || next.is_some_and(|c| joins(c) || c == '(')
        || (matches!(next, Some('.' | ':'))
            && then.is_some_and(|c| c.is_alphanumeric() || c == ':'))
}

fn is_no_name(word: &str) -> bool {
    use std::sync::LazyLock;
    static NONE: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| NO_NAMES.split_ascii_whitespace().collect());
    let is_pronoun = |head: &str| NO_BODIES.contains(&head);
    is_month(word) || NONE.contains(word) || word.strip_suffix("body").is_some_and(is_pronoun)
}

/// Consecutive words with capitals.
struct Run<'t> {
    words: Vec<Word<'t>>,
    /// The word before it.
    before: &'t str,
    /// True if the run follows `moved to` or a similar phrase.
    travels: bool,
    /// True if the run is `I`.
    is_speaker: bool,
}

const TRAVELS: &[&str] = &[
    "moved",
    "move",
    "moving",
    "went",
    "go",
    "going",
    "flew",
    "fly",
    "flying",
    "travelled",
    "traveled",
    "travelling",
    "traveling",
    "travel",
    "drove",
    "relocated",
    "trip",
    "back",
];

fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    for sentence in sentences(text) {
        let words = words(text, sentence.start, sentence.end);
        let capitals = words.iter().filter(|word| is_capital(word.text)).count();
        // In a headline, capitals have no meaning.
        if words.len() > 5 && capitals * 10 > words.len() * 7 {
            continue;
        }
        let mut before: [&str; 2] = ["", ""];
        let mut run: Option<Run<'_>> = None;
        for word in words {
            let name = name_of(word.text);
            let capital = is_capital(name);
            let is_speaker = matches!(word.text, "I");
            if let Some(mut open) = run.take() {
                if capital && word.joins && !is_speaker && !open.is_speaker && open.words.len() < 4
                {
                    let ends = name.len() < word.text.len();
                    before = [before[1], word.text];
                    open.words.push(Word { text: name, ..word });
                    if ends {
                        runs.push(open);
                    } else {
                        run = Some(open);
                    }
                    continue;
                }
                runs.push(open);
            }
            if capital || is_speaker {
                let ends = name.len() < word.text.len();
                let open = Run {
                    travels: before[1] == "to" && TRAVELS.contains(&before[0]),
                    before: if word.joins { before[1] } else { "" },
                    is_speaker,
                    words: vec![Word { text: name, ..word }],
                };
                before = [before[1], name];
                if ends {
                    runs.push(open);
                } else {
                    run = Some(open);
                }
            } else {
                before = [before[1], word.text];
            }
        }
        runs.extend(run);
        if runs.len() > MOST_MENTIONS * 16 {
            break;
        }
    }
    runs
}

/// Removes `'s`.
fn name_of(word: &str) -> &str {
    word.strip_suffix("'s")
        .or_else(|| word.strip_suffix("\u{2019}s"))
        .unwrap_or(word)
}

/// Returns true for a word in the form of a name: one capital, then small
/// letters; also `McLean`, `O'Brien` and `Jean-Luc`.
fn is_capital(word: &str) -> bool {
    let mut characters = word.chars();
    if !characters.next().is_some_and(char::is_uppercase) {
        return false;
    }
    let rest = characters.as_str();
    if rest.is_empty() {
        // An initial, except `I`.
        return word != "I";
    }
    let part = rest
        .strip_prefix('c')
        .filter(|_| word.starts_with("Mc"))
        .or_else(|| rest.strip_prefix(['\'', '\u{2019}']))
        .or_else(|| rest.split_once('-').map(|(_, second)| second))
        .unwrap_or(rest);
    let small = |text: &str| {
        text.chars()
            .all(|c| c.is_lowercase() || matches!(c, '\'' | '\u{2019}'))
    };
    let head = &rest[..rest.len() - part.len()];
    let head_small = head
        .chars()
        .all(|c| c.is_lowercase() || matches!(c, '\'' | '\u{2019}' | '-'));
    let mut second = part.chars();
    let first_of_part = second.next();
    let capital_part = part.len() < rest.len() && first_of_part.is_some_and(char::is_uppercase);
    head_small && (small(part) || (capital_part && small(second.as_str())))
}

/// Returns the words of a sentence.
fn words(text: &str, start: usize, end: usize) -> Vec<Word<'_>> {
    let sentence = &text[start..end];
    let mut found: Vec<Word<'_>> = Vec::new();
    let mut at = 0;
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}' | '-' | '_');
    while let Some(offset) = sentence[at..].find(|c: char| c.is_alphanumeric()) {
        let from = at + offset;
        let length = sentence[from..]
            .find(|c: char| !is_letter(c))
            .unwrap_or(sentence.len() - from);
        let word = sentence[from..from + length].trim_end_matches(['\'', '\u{2019}', '-', '_']);
        let between = &sentence[at..from];
        let initial = found
            .last()
            .is_some_and(|last| last.text.chars().count() == 1 || TITLES.contains(&last.text));
        found.push(Word {
            start: start + from,
            text: word,
            joins: between == " " || (initial && between == ". "),
            opens: found.is_empty() || between.contains([':', '"', '“', '(', '*', '>', '«', '…']),
        });
        at = from + word.len();
    }
    found
}
