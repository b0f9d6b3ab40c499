//! Recognises proper names by their capital letters and by the words before
//! them.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use contexture_words::sentences;

use crate::extracted::MOST_MENTIONS;
use crate::extractor::TextContext;
use crate::forms;
use crate::found::{Found, What};
use crate::german::is_german;
use crate::name_lists::{is_company, is_first_name, is_place, is_product};
use crate::not_names::{has_no_person_ending, is_no_name, is_no_person};
use crate::rules::Find;

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

/// Abbreviations at the start of a place's name: `St. Louis`.
const PLACE_ABBREVIATIONS: &[&str] = &["St", "Mt", "Ft"];

/// Titles before a person's name.
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

/// Kinship and roles before a person's name: `my sister Karin`.
const ROLES: &str = "\
    aunt boss boyfriend brother buddy classmate coach colleague cousin coworker customer daughter \
    father fiancé fiancée flatmate friend girlfriend grandfather grandma grandmother grandpa \
    grandson granddaughter husband manager mate mentor mother mum mom dad neighbor neighbour \
    nephew niece partner roommate sister son stepfather stepmother stepson teacher therapist \
    twin uncle wife ex ex-wife ex-husband";

/// Pets before a name that is not a person's: `our dog Max`.
const PETS: &str = "\
    bird boat budgie bunny cat cats dog dogs hamster horse kitten parrot pet pony puppy rabbit \
    ship tortoise turtle yacht";

/// Words before a person's name.
const BEFORE_PERSONS: &str = "\
    met meet meets meeting told asked thank thanks hugged kissed married phoned texted emailed \
    dear hey hi hello bye congratulated invited mr mrs ms";

/// Verbs after a person's name.
const AFTER_PERSONS: &str = "\
    said says told tells asked asks thinks thought replied answered writes wants wanted \
    loves loved likes liked hates hated knows knew laughed smiled cried texted emailed phoned \
    apologised apologized promised agreed invited suggested laughs smiles cries married hugged \
    who whose believes feels felt remembers forgot";

/// Words two before a name that show an organization: `studies at Oxford`.
const BEFORE_ORGANIZATIONS: &[&str] = &[
    "studies",
    "study",
    "studied",
    "studying",
    "works",
    "work",
    "worked",
    "working",
    "job",
    "internship",
    "intern",
    "degree",
    "professor",
    "engineer",
    "teaches",
    "teach",
    "taught",
    "teaching",
    "student",
];

#[derive(Clone, Copy)]
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
pub(crate) fn names(
    text: &str,
    known: &TextContext<'_>,
    verbs: &BTreeSet<String>,
    found: &mut Vec<Found>,
) {
    let mut sure: BTreeSet<&str> = known.names.iter().copied().collect();
    sure.extend(known.speaker);
    let sure_persons = sure.clone();
    let runs = runs(text);
    let mut alone = sure.clone();
    // A name inside a sentence is also a name at the start of another one.
    for run in &runs {
        for word in run
            .words
            .iter()
            .filter(|word| !word.opens && !run.is_german)
        {
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
            if let (Some(_), Some(word)) = (known.speaker, run.words.first()) {
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
            && !is_first_name(word.text)
            && let Some(what) = opening(word.text)
            && (is_before(text, word, verbs) || is_in_couple(text, word))
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
        if run.is_german {
            // Every noun has a capital there, so only known names count.
            for word in &run.words {
                let (start, end) = (word.start, word.start + word.text.len());
                let person = sure_persons.contains(word.text) || is_first_name(word.text);
                let find = match (person, is_place(word.text)) {
                    (true, _) => Find::Person,
                    (_, true) => Find::Place,
                    _ => continue,
                };
                if !is_attached(text, start, end) {
                    found.push(Found {
                        start,
                        end,
                        name: (start, end),
                        what: What::BuiltIn(find),
                    });
                }
            }
            continue;
        }
        let mut words = run.words.as_slice();
        while let [first, rest @ ..] = words {
            let titled = TITLES.contains(&first.text);
            // `Bye Ana` is not a name where `Ana` is known to be one.
            let complete = rest.first().is_none_or(|next| alone.contains(next.text));
            let is_known = sure.contains(first.text) || is_first_name(first.text);
            let doubtful = first.opens && complete && !is_known;
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
        let (start, end) = (first.start, last.start + last.text.len());
        if is_attached(text, start, end) {
            continue;
        }
        let what = match kind_of(run, words, &sure_persons) {
            Some(find) => What::BuiltIn(find),
            None => What::Name,
        };
        found.push(Found {
            start,
            end,
            name: (start, end),
            what,
        });
    }
}

/// Returns the type of a name by the signs in it and around it. `words` is the
/// part of the run that is the name.
fn kind_of(run: &Run<'_>, words: &[Word<'_>], persons: &BTreeSet<&str>) -> Option<Find> {
    let (first, last) = (words.first()?, words.last()?);
    let skipped = &run.words[..run.words.len() - words.len()];
    let skipped = skipped.iter().rfind(|word| word.start < first.start);
    let is_whole = last.start == run.words.last()?.start;
    let before = match skipped {
        Some(word) => word.text.to_lowercase(),
        None => run.before[1].to_owned(),
    };
    let has_initial = words.len() > 1 && first.text.chars().count() == 1;
    let is_name = is_first_name(first.text) && !is_place(first.text);
    // `a cat named Mia`.
    let is_pet =
        contains(PETS, &before) || (matches!(before.as_str(), "named" | "called") && run.of_pet);
    if is_pet {
        return None;
    }
    let person = || {
        has_initial
            || is_first_name(first.text)
            || contains(ROLES, &before)
            || contains(BEFORE_PERSONS, &before)
            || (is_whole && !is_company(first.text) && contains(AFTER_PERSONS, run.after))
    };
    let place = words.len() == 1 && is_place(first.text);
    if skipped.is_some_and(|word| TITLES.contains(&word.text)) || persons.contains(first.text) {
        return Some(Find::Person);
    }
    let is_long = words.len() > 1;
    if is_long && ORGANIZATIONS.contains(&last.text) {
        return Some(Find::Organization);
    }
    let heads = ["Lake", "Mount", "Mt", "Ft", "Fort"];
    if is_long && (PLACES.contains(&last.text) || heads.contains(&first.text)) {
        return Some(Find::Place);
    }
    // `at Sven's` and `in Karin's house` are about a person, if anything.
    let possessive = is_whole && run.is_possessive;
    if !possessive {
        match before.as_str() {
            "in" | "near" | "around" | "across" | "inside" | "outside" => return Some(Find::Place),
            "visit" | "visited" | "visiting" if !is_name => return Some(Find::Place),
            // `moved to Ericsson`.
            _ if run.travels && (is_company(first.text) || is_product(first.text)) => {}
            "at" if BEFORE_ORGANIZATIONS.contains(&run.before[0]) => {
                return Some(Find::Organization);
            }
            _ if run.travels && !is_name => return Some(Find::Place),
            _ => {}
        }
    }
    if place && !contains(ROLES, &before) {
        Some(Find::Place)
    } else if person() {
        Some(Find::Person)
    } else if words.len() == 1 && is_company(first.text) {
        Some(Find::Organization)
    } else {
        None
    }
}

/// Returns true when a list of words contains a word.
fn contains(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split_ascii_whitespace().any(|one| one == word)
}

/// Returns the meaning that a word can have at the start of a relation.
fn opening(word: &str) -> Option<What> {
    if matches!(word, "He" | "She") {
        return Some(What::Pronoun);
    }
    let is_person = word.chars().count() > 1 && !is_no_name(word) && !is_no_person(word);
    (is_person && !has_no_person_ending(word)).then_some(What::Opening)
}

/// Returns true when one of `verbs` follows a word after a space.
fn is_before(text: &str, word: &Word<'_>, verbs: &BTreeSet<String>) -> bool {
    let after = &text[word.start + word.text.len()..];
    let next = after.strip_prefix(' ').unwrap_or_default();
    let next = next.split(char::is_whitespace).next().unwrap_or_default();
    verbs.contains(next)
}

/// Returns true when `and I` follows a word.
fn is_in_couple(text: &str, word: &Word<'_>) -> bool {
    let after = &text[word.start + word.text.len()..];
    after
        .strip_prefix(" and I")
        .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
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

/// Consecutive words with capitals.
struct Run<'t> {
    words: Vec<Word<'t>>,
    /// The two words before it.
    before: [&'t str; 2],
    /// The word after it.
    after: &'t str,
    /// True if the run follows `moved to` or a similar phrase.
    travels: bool,
    /// True if the run is `I`, `we`, or `my` before a spouse.
    is_speaker: bool,
    /// True if the run ends with `'s`.
    is_possessive: bool,
    /// True if its sentence has a pet before it.
    of_pet: bool,
    /// True if the words around it are German.
    is_german: bool,
}

impl<'t> Run<'t> {
    /// Creates the run of a pronoun of the speaker. The pronoun is empty in a
    /// sentence without a subject.
    fn of_speaker(start: usize, pronoun: &'t str) -> Self {
        Self {
            words: vec![Word {
                start,
                text: pronoun,
                joins: false,
                opens: false,
            }],
            before: ["", ""],
            after: "",
            travels: false,
            is_speaker: true,
            is_possessive: false,
            of_pet: false,
            is_german: false,
        }
    }
}

/// Returns the pronoun of the speaker at the start of a word: `I`, also in `I'm`;
/// `we`, which includes the speaker; and `my` before a spouse.
fn speaker_of<'t>(word: &'t str, next: &str) -> Option<&'t str> {
    let pronoun = word.split(['\'', '\u{2019}']).next().unwrap_or(word);
    let rest = word[pronoun.len()..].trim_start_matches(['\'', '\u{2019}']);
    let is_short = rest.len() == word.len() - pronoun.len();
    let is_verb = matches!(rest, "m" | "ve" | "re" | "d" | "ll");
    match pronoun {
        "I" | "i" | "We" | "we" if is_short || is_verb => Some(pronoun),
        "My" | "my" if is_short && forms::is_spouse(next) => Some(pronoun),
        _ => None,
    }
}

/// Returns true when a word is inside a quotation of its sentence.
fn is_quoted(text: &str, sentence: usize, word: usize) -> bool {
    let before = &text[sentence..word];
    let opened = before.matches('“').count() > before.matches('”').count();
    opened || before.matches('"').count() % 2 == 1 || before.ends_with(['\'', '‘'])
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
    let german = OnceCell::new();
    let is_text_german = || {
        let all = || text.split(|c: char| !c.is_alphanumeric());
        *german.get_or_init(|| is_german(all()).unwrap_or_default())
    };
    for sentence in sentences(text) {
        let words = words(text, sentence.start, sentence.end);
        let capitals = words.iter().filter(|word| is_capital(word.text)).count();
        // In a headline, capitals have no meaning.
        if words.len() > 5 && capitals * 10 > words.len() * 7 {
            continue;
        }
        let is_german = match is_german(words.iter().map(|word| word.text)) {
            Some(is_german) => is_german,
            None => is_text_german(),
        };
        if !is_german && forms::is_about_speaker(&text[sentence.clone()]) {
            runs.push(Run::of_speaker(sentence.start, ""));
        }
        let mut before: [&str; 2] = ["", ""];
        let mut of_pet = false;
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            let follows = |at: usize| {
                let next = words.get(at).filter(|next| next.joins);
                next.map_or("", |next| next.text)
            };
            if let Some(pronoun) = speaker_of(word.text, follows(at + 1)) {
                if !is_german && !is_quoted(text, sentence.start, word.start) {
                    runs.push(Run::of_speaker(word.start, pronoun));
                }
                before = [before[1], word.text];
                at += 1;
                continue;
            }
            if !is_capital(name_of(word.text)) {
                of_pet |= contains(PETS, word.text);
                before = [before[1], word.text];
                at += 1;
                continue;
            }
            let mut run = Run {
                words: Vec::new(),
                before: if word.joins { before } else { ["", ""] },
                after: "",
                travels: before[1] == "to" && TRAVELS.contains(&before[0]),
                is_speaker: false,
                is_possessive: false,
                of_pet,
                is_german,
            };
            while let Some(&word) = words.get(at) {
                let name = name_of(word.text);
                let joins = run.words.is_empty() || (word.joins && run.words.len() < 4);
                let is_speaker = speaker_of(word.text, follows(at + 1)).is_some();
                if !joins || is_speaker || !is_capital(name) {
                    break;
                }
                before = [before[1], name];
                run.words.push(Word { text: name, ..word });
                at += 1;
                if name.len() < word.text.len() {
                    run.is_possessive = true;
                    break;
                }
            }
            run.after = follows(at);
            runs.push(run);
        }
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
        let initial = found.last().is_some_and(|last| {
            last.text.chars().count() == 1
                || TITLES.contains(&last.text)
                || PLACE_ABBREVIATIONS.contains(&last.text)
        });
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
