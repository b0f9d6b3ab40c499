//! The keywords of a text: its repeated or special words.

use std::collections::BTreeSet;

use contexture_words::words::counted_keywords;

/// Returns the repeated or special words, in order of appearance.
pub(crate) fn best_keywords(text: &str, most: usize) -> Vec<String> {
    if most == 0 {
        return Vec::new();
    }
    let all = counted_keywords(text, false);
    let is_special = |word: &str| word.contains(['_', '-', '.']);
    let parts: BTreeSet<&str> = all
        .iter()
        .filter(|(keyword, _)| is_special(&keyword.word))
        .flat_map(|(keyword, _)| keyword.word.split(['_', '-', '.']))
        .collect();
    let mut ranked: Vec<(u32, usize, &str)> = all
        .iter()
        .enumerate()
        // A compound is enough as a keyword; its parts serve only for search.
        .filter(|(_, (keyword, _))| !parts.contains(keyword.word.as_str()))
        .map(|(place, (keyword, count))| {
            let length = keyword.word.chars().count();
            let worth = count.min(&8) * 2
                + u32::from(is_special(&keyword.word)) * 2
                + u32::from(length >= 7)
                + u32::from(length >= 4);
            (worth, place, keyword.word.as_str())
        })
        .collect();
    ranked.sort_by_key(|(worth, place, _)| (std::cmp::Reverse(*worth), *place));
    ranked.truncate(most);
    ranked.sort_by_key(|(_, place, _)| *place);
    ranked
        .into_iter()
        .map(|(_, _, word)| word.to_owned())
        .collect()
}
