//! English stop words. They occur in almost every text, so full text search
//! ignores them.

use std::sync::LazyLock;

/// Articles, pronouns, auxiliaries, prepositions, question words and the
/// remains of contractions.
const STOP_WORDS: &str = "\
    a about above after again against all also am an and any are aren as at be because been \
    before being below between both but by can cannot could couldn d did didn do does doesn doing \
    don down during each few for from further get got had hadn has hasn have haven having he her \
    here hers herself him himself his how i if in into is isn it its itself just let ll m me might \
    more most must my myself no nor not now of off on once only or other our ours ourselves out \
    over own re s same shall she should shouldn so some such t than that the their theirs them \
    themselves then there these they this those through to too under until up us ve very was wasn \
    we were weren what when where which while who whom whose why will with would wouldn you your \
    yours yourself yourselves";

const SLOTS: usize = 1024;

/// A hash table of words. A slot is empty, or has the only words with its hash.
/// Most lookups hit an empty slot.
static TABLE: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut slots = vec![""; SLOTS];
    for word in STOP_WORDS.split_ascii_whitespace() {
        let mut at = slot(word);
        while !slots[at].is_empty() {
            at = (at + 1) % SLOTS;
        }
        slots[at] = word;
    }
    slots
});

fn slot(word: &str) -> usize {
    let bytes = word.as_bytes();
    let at = |i: usize| usize::from(bytes[i]);
    let last = bytes.len() - 1;
    (at(0) * 31 + at(last) * 7 + at(last / 2) * 131 + bytes.len() * 57) % SLOTS
}

/// Returns true for a stop word; `word` is in lower case.
pub(crate) fn is_stop_word(word: &str) -> bool {
    if word.is_empty() || word.len() > 10 {
        return false;
    }
    let mut at = slot(word);
    loop {
        match TABLE[at] {
            "" => return false,
            known if known == word => return true,
            _ => at = (at + 1) % SLOTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_word_is_found() {
        for word in STOP_WORDS.split_ascii_whitespace() {
            assert!(is_stop_word(word), "{word}");
        }
        for word in ["", "lake", "won", "yourselve", "themselvesx"] {
            assert!(!is_stop_word(word), "{word}");
        }
    }
}
