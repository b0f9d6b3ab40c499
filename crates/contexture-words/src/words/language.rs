//! Stems of languages other than English.
//!
//! The language is detected by the script of a word, or by the stop words
//! around it. Such a word is indexed by its own stem in addition to the usual
//! one. A query of unknown language therefore still finds the word as it is
//! written.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;

use super::stop::is_stop_word;

/// Frequent words of languages in Latin script that are not English words.
const LATIN: [(Algorithm, &str); 10] = [
    (
        Algorithm::German,
        "der das und ist nicht ich wir ihr sie mit für auf ein eine einen einem einer wo wann \
         wie warum wer welche welcher hat haben sind wird wurde auch bei von vom zum zur dem \
         den des mein meine dein kein keine noch nach aus über oder aber wenn",
    ),
    (
        Algorithm::French,
        "le la les des une est et dans pour que qui où quand comment pourquoi avec sur pas ne \
         nous vous ils elle elles mon ma mes son sa ses leur du au aux ce cette ces sont été \
         quel quelle mais très",
    ),
    (
        Algorithm::Spanish,
        "el los las una es y por para con del que qué dónde cuándo cómo quién está están fue \
         pero muy más mi tu su sus nuestro hay como cuando donde porque también al",
    ),
    (
        Algorithm::Italian,
        "il lo gli della delle dei degli nel nella sono è e per con che chi dove quando come \
         perché non una mio mia suo sua anche più ha hanno questo questa ma di",
    ),
    (
        Algorithm::Portuguese,
        "o os as uma é não para com em no na nos nas do da dos das que onde quando como quem \
         porque está são foi mas muito mais meu minha seu sua também ao",
    ),
    (
        Algorithm::Dutch,
        "het een van niet wij jij zij met voor op waar wanneer hoe waarom wie heeft hebben \
         zijn werd ook bij naar uit maar deze dit dat mijn jouw geen nog aan",
    ),
    (
        Algorithm::Swedish,
        "och är inte jag vi ni för på ett som var när hur varför vem har att av men den det \
         min din mitt också från eller",
    ),
    (
        Algorithm::Danish,
        "og er ikke jeg vi på et som hvor hvornår hvordan hvorfor hvem har at af men den det \
         min din også fra eller til",
    ),
    (
        Algorithm::Finnish,
        "ja on ei minä sinä hän me te he oli olla missä milloin miten miksi kuka mutta myös \
         tämä se että kun jos minun sinun",
    ),
    (
        Algorithm::Turkish,
        "ve bir bu için ile değil ben sen biz siz nerede zaman nasıl neden kim çok ama gibi \
         daha var yok olan",
    ),
];

/// The number of words of a text that are checked for its language.
const MOST_WORDS: usize = 64;

/// Computes stems of other languages.
pub(super) struct OtherStems {
    latin: Option<Stemmer>,
}

impl OtherStems {
    /// Detects the language of a text in Latin script; none for English and for
    /// unknown languages.
    pub(super) fn of(text: &str) -> Self {
        let mut counts = [0_u32; LATIN.len()];
        let mut english = 0;
        let words = text.split(|c: char| !c.is_alphanumeric());
        for word in words.filter(|word| !word.is_empty()).take(MOST_WORDS) {
            // Frequent words are short.
            if word.len() > 10 {
                continue;
            }
            let word = word.to_lowercase();
            english += u32::from(is_stop_word(&word));
            for ((_, words), count) in LATIN.iter().zip(&mut counts) {
                *count += u32::from(words.split_ascii_whitespace().any(|one| one == word));
            }
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        let at = counts.iter().position(|count| *count == most);
        let found = at.filter(|_| most > english);
        Self {
            latin: found.map(|at| Stemmer::create(LATIN[at].0)),
        }
    }

    /// Returns the stem of a word in its own language, without accents. Returns
    /// `None` for English and for unknown languages.
    pub(super) fn stem(&self, word: &str) -> Option<String> {
        let script = word.chars().find(|c| c.is_alphabetic())?;
        let own;
        let stemmer = match script {
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => {
                own = Stemmer::create(Algorithm::Greek);
                &own
            }
            '\u{400}'..='\u{52f}' => {
                own = Stemmer::create(Algorithm::Russian);
                &own
            }
            '\u{600}'..='\u{6ff}' => {
                own = Stemmer::create(Algorithm::Arabic);
                &own
            }
            '\u{b80}'..='\u{bff}' => {
                own = Stemmer::create(Algorithm::Tamil);
                &own
            }
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' => self.latin.as_ref()?,
            _ => return None,
        };
        let lower: String = word.nfc().flat_map(char::to_lowercase).collect();
        let stem = stemmer.stem(&lower);
        let bare = stem
            .nfkd()
            .filter(|c| !matches!(c, '\'' | '\u{2019}' | '\u{300}'..='\u{36f}'));
        Some(bare.collect())
    }
}
