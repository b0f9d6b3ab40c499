//! Capitalised words that are not names, or not the names of persons.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::find::is_month;

/// Capitalised words that are not names: weekdays, languages and peoples,
/// holidays, interjections, products, and words that start sentences.
const NO_NAMES: &str = "\
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mondays Fridays Sundays Saturdays \
    Mon Tue Tues Wed Thu Thurs Fri Sat Sun Bye Goodbye Woah Whoa Aww Aw Anytime Glad Lately \
    English German French Spanish Italian Portuguese Dutch Russian Chinese Japanese Korean Arabic \
    Hindi Latin Greek Turkish Polish Swedish American British European African Asian Indian \
    Mexican Canadian Australian Irish Scottish Christian Jewish Muslim Christmas Easter Halloween \
    Argentinian Austrian Belgian Bengali Brazilian Bulgarian Catalan Chilean Colombian Croatian \
    Cuban Czech Danish Egyptian Estonian Filipino Finnish Hebrew Hungarian Icelandic Indonesian \
    Iranian Iraqi Israeli Kenyan Latvian Lebanese Lithuanian Malaysian Moroccan Nigerian Norwegian \
    Pakistani Persian Peruvian Romanian Serbian Slovak Slovenian Swiss Syrian Taiwanese Thai \
    Ukrainian Vietnamese Welsh Buddhist Catholic Protestant Euro Euros Dollar Dollars Several \
    Various Such Same Other Others Until Birthday Year Years \
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

/// Returns true for a capitalised word that is not a name.
pub(crate) fn is_no_name(word: &str) -> bool {
    static NONE: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| NO_NAMES.split_ascii_whitespace().collect());
    let is_pronoun = |head: &str| NO_BODIES.contains(&head);
    is_month(word) || NONE.contains(word) || word.strip_suffix("body").is_some_and(is_pronoun)
}

/// Returns true for a word of a group, a department or a thing.
pub(crate) fn is_no_person(word: &str) -> bool {
    static NONE: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| NO_PERSONS.split_ascii_whitespace().collect());
    NONE.contains(word)
}

/// Returns true for a longer word with an ending that no person's name has.
pub(crate) fn has_no_person_ending(word: &str) -> bool {
    word.len() > 6 && NO_PERSON_ENDINGS.iter().any(|end| word.ends_with(end))
}
