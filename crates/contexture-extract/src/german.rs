//! Recognises German text, in which every noun has a capital letter.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// German words with a grammatical function that are rare in English.
const GERMAN: &str = "\
    aber auch auf bei bin bist da dann das dass dein deine dem den der des dir doch du ein eine \
    einem einen einer er es für gestern habe haben hast heute ich ihm ihn ihr ihre ihren im ist ja \
    jetzt kann kein keine mal mein meine meinem meinen meiner mich mir mit nach nicht noch nur \
    oder schon sehr sein seine seit sich sie sind über um und uns unser unsere vom von vor war \
    waren weil wenn wie wieder wir wird wo zu zum zur beim ins danach wegen uhr bis ob durch gegen \
    ohne unter zwischen diese dieser dieses jeden alle hat die am";

/// English words with a grammatical function that are not also German.
const ENGLISH: &str = "\
    a about and are at because been but by did do does for from had has have he her his i if into \
    is it its my not of on or our she that the their them then they this to us was we were what \
    when where which who with you your";

/// Returns whether the words of a text with a grammatical function are German.
/// Returns `None` for a text with fewer than two of them.
pub(crate) fn is_german<'t>(words: impl Iterator<Item = &'t str>) -> Option<bool> {
    static OF_LANGUAGES: LazyLock<BTreeMap<&'static str, bool>> = LazyLock::new(|| {
        let german = GERMAN.split_ascii_whitespace().map(|word| (word, true));
        let english = ENGLISH.split_ascii_whitespace().map(|word| (word, false));
        german.chain(english).collect()
    });
    let (mut german, mut english) = (0, 0);
    for word in words.filter(|word| !word.is_empty()) {
        let umlaut = |c: char| matches!(c, 'ä' | 'ö' | 'ü' | 'ß');
        let mut buffer = [0; 8];
        let lower = match buffer.get_mut(..word.len()) {
            // Longer words have no grammatical function.
            None => "",
            Some(lower) => {
                lower.copy_from_slice(word.as_bytes());
                lower.make_ascii_lowercase();
                std::str::from_utf8(lower).unwrap_or_default()
            }
        };
        match OF_LANGUAGES.get(lower) {
            Some(true) => german += 1,
            Some(false) => english += 1,
            None if word.starts_with(char::is_lowercase) && word.contains(umlaut) => german += 1,
            None => {}
        }
        // A long text is not counted to its end.
        if german + english >= 200 {
            break;
        }
    }
    (german + english > 1).then_some(german > english)
}
