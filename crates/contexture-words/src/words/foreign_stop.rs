//! Stop words of other languages than English. A query ignores them; texts keep
//! them as terms.
//!
//! The language of a query is the one with the most stop words in it, if these
//! are more than the English ones.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use unicode_normalization::char::is_combining_mark;

use super::stem::folded;
use super::stop::is_stop_word;

/// Articles, pronouns, prepositions, auxiliaries and question words, by language:
/// German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Danish, Finnish,
/// Turkish, Russian, Greek, Arabic and Tamil.
const LANGUAGES: [&str; 14] = [
    "der die das den dem des ein eine einen einem einer eines und oder aber ich du er sie es wir \
     ihr mich mir dich dir ihn ihm uns euch ihnen sich mein meine meinen meinem meiner dein deine \
     sein seine ihre unser unsere euer kein keine nicht ist sind war waren bin bist wird werden \
     wurde wurden hat habe haben hatte hatten kann können muss soll will in im an am auf aus bei \
     mit nach von vom vor zu zum zur für über unter um durch gegen ohne seit bis wie was wer wen \
     wem wo wann warum wieso welche welcher welches woher wohin als auch noch nur so wenn dass \
     man da dann schon sehr",
    "le la les l un une des du de d et ou mais je j tu il elle on nous vous ils elles me m te t se \
     s lui leur leurs y en mon ma mes ton ta tes son sa ses notre nos votre vos ce c cet cette ces \
     que qu qui quoi dont où quand comment pourquoi combien quel quelle quels quelles est sont \
     était étaient été être suis es sommes êtes a ai as ont avons avez avait avoir sera fait dans \
     sur sous avec sans pour par à au aux chez vers entre ne n pas plus très si",
    "el la los las un una unos unas lo de del al y e o pero yo tú él ella nosotros vosotros ellos \
     ellas usted ustedes me te se nos os le les mi mis tu tus su sus nuestro nuestra que qué quién \
     quien quiénes cuál cuáles cuándo cuando dónde donde cómo como cuánto cuánta por para con sin \
     en a ante desde hasta entre sobre es son era eran fue fueron ser soy eres está están estaba \
     estar ha han he había hay no muy más también si este esta esto ese esa",
    "il lo la i gli le l un uno una di del dello della dei degli delle a al allo alla ai agli alle \
     da dal dalla in nel nella nei nelle con su sul sulla per tra fra e ed o ma io tu lui lei noi \
     voi loro mi ti si ci vi mio mia miei mie tuo tua suo sua suoi sue nostro nostra che chi cosa \
     quando dove come perché quale quali quanto quanta è sono era erano essere sei siamo ha ho hai \
     hanno aveva avere stato stata non più anche molto se questo questa quello quella",
    "o a os as um uma uns umas de do da dos das em no na nos nas ao à aos às por pelo pela para \
     com sem sobre entre até e ou mas eu tu ele ela nós vós eles elas você vocês me te se lhe meu \
     minha meus minhas teu tua seu sua seus suas nosso nossa que quem qual quais quando onde como \
     porque quanto quanta é são era eram foi foram ser sou está estão estava estar tem têm tinha \
     ter há não mais muito também este esta isto esse essa isso",
    "de het een en of maar ik jij je u hij zij ze wij we jullie mij me jou hem haar ons hen hun \
     mijn jouw zijn onze is ben bent was waren wordt worden werd heeft heb hebben had hadden kan \
     kunnen moet zal zou in op aan bij met naar van voor uit over onder tussen door om te tot \
     zonder wie wat waar wanneer hoe waarom welke welk dat die dit deze er niet geen ook nog dan \
     als zo",
    "en ett den det de och eller men jag du han hon vi ni mig dig honom henne oss er dem sig min \
     mitt mina din ditt dina sin sitt sina vår vårt våra är var vara varit blir blev har hade ha \
     kan ska skulle i på av för med till från om hos under över mellan utan vem vad när hur varför \
     vilken vilket vilka som att inte också så",
    "en et den det de og eller men jeg du han hun vi i mig dig ham hende os jer dem sig min mit \
     mine din dit dine sin sit sine vores jeres deres er var være været bliver blev har havde have \
     kan skal skulle på af for med til fra om hos under over mellem uden hvem hvad hvor hvornår \
     hvordan hvorfor hvilken hvilket hvilke som at ikke også så",
    "ja tai mutta minä sinä hän me te he se ne minun sinun hänen meidän teidän heidän minua sinua \
     minulla sinulla hänellä tämä tuo nämä on ovat oli olivat olla ole ollut en et ei emme ette \
     eivät kuka ketä kenen mikä mitä missä mistä mihin milloin miten miksi millainen että kun jos \
     kuin myös niin",
    "ve veya ama bir bu şu o ben sen biz siz onlar beni seni onu bizi sizi bana sana ona bize size \
     benim senin onun bizim sizin için ile gibi kadar de da ki mi mı mu mü ne kim kime kimin nerede \
     nereye nereden nasıl neden niçin niye hangi kaç değil var yok çok daha en idi ise olan oldu",
    "и или но а я ты он она оно мы вы они меня мне тебя тебе его ему её ей нас нам вас вам их им \
     мой моя моё мои твой твоя наш наша ваш свой в во на с со к ко у о об от до из за по под над \
     при для без через между не ни что кто где куда откуда когда как почему зачем какой какая \
     какое какие чей сколько это этот эта эти тот та те был была было были есть быть будет же ли \
     бы так",
    "ο η το οι τα του της των τον την τους τις ένας μια μία ένα και ή αλλά εγώ εσύ αυτός αυτή αυτό \
     εμείς εσείς μου σου μας σας με σε από για στο στη στην στον στα στους στις προς χωρίς ποιος \
     ποια ποιο τι πού πότε πώς γιατί πόσο πόσα που ότι να θα δεν μη μην είναι ήταν είμαι είσαι \
     έχει έχω είχε είχα",
    "في من على إلى عن مع هو هي هم أنا أنت نحن هذا هذه ذلك تلك التي الذي الذين ما ماذا من متى أين \
     كيف لماذا كم هل أي و أو ثم لكن لا لم لن ليس كان كانت يكون قد كل بعد قبل بين عند",
    "நான் நீ நீங்கள் அவர் அவன் அவள் அது இது நாம் நாங்கள் அவர்கள் என் உன் உங்கள் என்ன யார் எங்கே \
     எங்கு எப்போது எப்படி ஏன் எது எந்த ஒரு இந்த அந்த மற்றும் ஆனால் இல்லை உள்ளது இருந்து என்று",
];

/// English words among them. They do not tell the language of a query: `war
/// films`.
const ENGLISH: &str = "\
    a ai al also am an as at bin case chi come comment dat de del den die din dine dit do e el en \
    es et far fare for had has hat have he hem hen her hers i if il in is kim la las le lo los \
    man me men met mi min mine more mu no o of on or over pour s se sen sin so some son sur t \
    te ti to tu un under us van vi war was we will y";

/// The words of each language and of [`ENGLISH`], as [`folded`].
static FOLDED: LazyLock<([BTreeSet<String>; 14], BTreeSet<String>)> = LazyLock::new(|| {
    let all = |words: &str| words.split_ascii_whitespace().map(folded).collect();
    (LANGUAGES.map(all), all(ENGLISH))
});

/// The number of words of a query that are checked.
const MOST_WORDS: usize = 64;

/// The stop words of a query's language.
pub(super) struct ForeignStopWords(Vec<&'static BTreeSet<String>>);

impl ForeignStopWords {
    /// Returns the stop words of the language of a query; none for English and
    /// for unknown languages. If several languages have equally many of the
    /// words, returns those of all.
    pub(super) fn of(query: &str) -> Self {
        let (languages, ambiguous) = &*FOLDED;
        let words: Vec<String> = words(query).collect();
        let english = words.iter().filter(|word| is_stop_word(word)).count();
        let count = |language: &BTreeSet<String>| {
            let found = words.iter().filter(|word| language.contains(*word));
            // One word of the language must be no English word.
            match found.clone().any(|word| !ambiguous.contains(word)) {
                true => found.count(),
                false => 0,
            }
        };
        let counts: Vec<usize> = languages.iter().map(count).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        if most <= english {
            return Self(Vec::new());
        }
        let found = languages.iter().zip(counts);
        let found = found.filter(|(_, count)| *count == most);
        Self(found.map(|(language, _)| language).collect())
    }

    /// Returns true for a stop word; `word` is as [`folded`].
    pub(super) fn contains(&self, word: &str) -> bool {
        self.0.iter().any(|words| words.contains(word))
    }
}

/// Returns the words of a query, as [`folded`]. An elided article is a word:
/// `l'eau`.
fn words(query: &str) -> impl Iterator<Item = String> + '_ {
    let words = query.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c));
    let words = words.filter(|word| !word.is_empty());
    words.take(MOST_WORDS).map(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_known_by_its_words() {
        let is_stop = |query: &str, word: &str| ForeignStopWords::of(query).contains(word);
        assert!(is_stop("Wie heißt der Hund von der Familie?", "wie"));
        assert!(is_stop("Hund der Familie", "der"));
        assert!(is_stop("Qu'est-ce que l'eau ?", "l"));
        assert!(is_stop("¿Dónde vive la hermana de Ana?", "donde"));
        assert!(is_stop("Где живёт моя сестра?", "где"));
        assert!(!is_stop("Wie heißt der Hund?", "hund"));
        // English queries keep words that are stop words elsewhere.
        assert!(!is_stop("war films", "war"));
        assert!(!is_stop("Did the men die in the war?", "die"));
        assert!(!is_stop("What is the plural of der Hund?", "der"));
        assert!(!is_stop("", "der"));
    }
}
