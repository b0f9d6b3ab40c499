//! Reads prose and logs: sentences, cue words, paths.

pub(super) use contexture_shorten::cues::{LINE_BYTES, clip, normalise};
use contexture_shorten::cues::{Lexicon, UNDO};

/// The bytes of the start and of the end of a long passage that are read.
pub(super) const HEAD_BYTES: usize = 8 * 1024;
pub(super) const TAIL_BYTES: usize = 4 * 1024;

#[rustfmt::skip]
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "just",
    "me", "my", "no", "not", "now", "of", "on", "or", "our", "please", "should", "so", "some", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "to", "up", "us", "use", "was", "we", "were", "what", "when",
    "where", "which", "who", "why", "will", "with", "would", "you", "your",
];

/// The possible [`STOP_WORDS`].
static MAY_STOP: Shapes = shapes(STOP_WORDS);

/// Returns true for a word that carries no meaning.
fn is_stop_word(word: &str) -> bool {
    may_be_one(&MAY_STOP, word.as_bytes()) && STOP_WORDS.binary_search(&word).is_ok()
}

/// The length of the longest word of the lists here.
const LONGEST: usize = 6;

/// Whether a list has a word with this first letter, by its five lowest bits, and
/// this length. Most words of a text are then compared with none of the list.
type Shapes = [[bool; LONGEST + 1]; 32];

const fn shapes(words: &[&str]) -> Shapes {
    let mut shapes = [[false; LONGEST + 1]; 32];
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_bytes();
        shapes[(word[0] & 31) as usize][word.len()] = true;
        at += 1;
    }
    shapes
}

/// Returns false for a word that is not in the list of these shapes.
fn may_be_one(shapes: &Shapes, word: &[u8]) -> bool {
    let first = word.first().map_or(0, |byte| usize::from(byte & 31));
    shapes[first].get(word.len()) == Some(&true)
}

/// Returns the words of `normal` that carry meaning. Runs of a script without
/// spaces come as pairs of characters, which share what words would share.
pub(super) fn content_words(normal: &str) -> impl Iterator<Item = &str> {
    let is_word = |word: &&str| !is_stop_word(word);
    normal
        .split_ascii_whitespace()
        .filter(is_word)
        .flat_map(|word| {
            let is_run = !word.is_ascii()
                && word.chars().count() > 2
                && word.chars().any(|c| c >= '\u{2e80}');
            let last = word.char_indices().nth_back(1).map_or(0, |(at, _)| at);
            let pairs = word
                .char_indices()
                .filter(move |_| is_run)
                .filter(move |(at, _)| *at <= last);
            let pairs = pairs.map(move |(at, _)| {
                let end = word[at..]
                    .char_indices()
                    .nth(2)
                    .map_or(word.len(), |(len, _)| at + len);
                &word[at..end]
            });
            pairs.chain(Some(word).filter(|_| !is_run))
        })
}

/// Returns the key by which two sentences count as the same: their words, in
/// any order.
pub(super) fn key(normal: &str) -> String {
    let mut words: Vec<&str> = normal
        .split_ascii_whitespace()
        .filter(|word| !is_stop_word(word))
        .collect();
    words.sort_unstable();
    words.dedup();
    words.join(" ")
}

/// Shortens `text` to about `max` bytes at a word's end, with an ellipsis.
pub(super) fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = clip(text, max);
    // A script without spaces, or one long word, is cut between characters.
    let end = head
        .rfind(char::is_whitespace)
        .filter(|&end| end > max / 2 && head[end..].is_ascii())
        .unwrap_or(head.len());
    format!(
        "{}…",
        head[..end].trim_end_matches(|c: char| c.is_whitespace() || ",;:(…".contains(c))
    )
}

/// Returns the start and the end of a long text, at line ends where possible.
pub(super) fn ends(text: &str) -> (&str, &str) {
    if text.len() <= HEAD_BYTES + TAIL_BYTES {
        return (text, "");
    }
    let tail = &text[text.ceil_char_boundary(text.len() - TAIL_BYTES)..];
    (
        clip(text, HEAD_BYTES),
        tail.split_once('\n').map_or(tail, |(_, whole)| whole),
    )
}

/// A sentence of prose, or a line of fenced code.
pub(super) struct Sentence {
    pub(super) text: String,
    pub(super) is_code: bool,
}

/// Splits prose into sentences. Lines that a list marker, a heading or an
/// empty line sets apart end a sentence; wrapped lines do not.
pub(super) fn sentences(text: &str) -> Vec<Sentence> {
    let (mut found, mut block, mut is_code) = (Vec::new(), String::new(), false);
    let (head, tail) = ends(text);
    for line in head.lines().chain(tail.lines()) {
        let line = trimmed(line);
        let is_fence = matches!(
            line.as_bytes(),
            [b'`', b'`', b'`', ..] | [b'~', b'~', b'~', ..]
        );
        if is_fence || is_code {
            split_block(&mut block, &mut found);
            if is_fence {
                is_code = !is_code;
            } else if !line.is_empty() {
                found.push(Sentence {
                    text: clip(line, LINE_BYTES).to_owned(),
                    is_code,
                });
            }
            continue;
        }
        let body = without_marker(line);
        let is_wrapped =
            body.len() == line.len() && block.len() >= 40 && body.starts_with(char::is_lowercase);
        if is_wrapped {
            block.push(' ');
        } else {
            split_block(&mut block, &mut found);
        }
        let is_rule = match line.as_bytes() {
            [b'#', ..] => !line.ends_with(['.', '?', '!', '。', '？']),
            [b'|', b'-', ..] | [b'-', b'-', b'-', ..] => true,
            _ => false,
        };
        if !is_rule {
            block.push_str(body);
        }
    }
    split_block(&mut block, &mut found);
    found
}

/// Returns a line without the white space around it. Plain text, which most lines
/// are, is not decoded.
fn trimmed(line: &str) -> &str {
    let plain = line.trim_ascii();
    match plain.as_bytes() {
        [] | [b'!'..=b'~'] | [b'!'..=b'~', .., b'!'..=b'~'] => plain,
        _ => plain.trim(),
    }
}

/// Splits a message into sentences as they were written, with their line breaks.
/// Fenced code is one piece.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (head, tail) = ends(text);
    for part in [head, tail] {
        let (mut start, mut at, mut is_code) = (0, 0, false);
        for line in part.split_inclusive('\n') {
            let shown = trimmed(line);
            let is_fence = shown.starts_with("```") || shown.starts_with("~~~");
            let is_apart = shown.is_empty() || is_fence || is_set_apart(shown);
            if is_apart && !is_code {
                split_piece(&part[start..at], &mut found);
                start = at;
            }
            at += line.len();
            if is_fence {
                is_code = !is_code;
                if !is_code {
                    found.push(&part[start..at]);
                    start = at;
                }
            }
        }
        match is_code {
            true => found.push(&part[start..]),
            false => split_piece(&part[start..], &mut found),
        }
    }
    found
}

/// Returns true for a line that cannot continue the one before it.
fn is_set_apart(line: &str) -> bool {
    line.starts_with(['#', '|']) || without_marker(line).len() < line.len()
}

/// Adds the sentences of a piece without fences.
fn split_piece<'t>(piece: &'t str, found: &mut Vec<&'t str>) {
    let mut start = 0;
    let bytes = piece.as_bytes();
    let is_mark = |byte: u8| matches!(byte, b'.' | b'!' | b'?');
    for at in (0..bytes.len()).filter(|&at| is_mark(bytes[at])) {
        let end = at + 1;
        let is_end = bytes.get(end).is_some_and(u8::is_ascii_whitespace);
        if is_end && !(bytes[at] == b'.' && is_abbreviation(&piece[start..at])) {
            found.push(&piece[start..end]);
            start = end;
        }
    }
    if !piece[start..].trim().is_empty() {
        found.push(&piece[start..]);
    }
}

/// Returns `line` without `- `, `3. `, `> ` or `## ` at its start.
pub(super) fn without_marker(line: &str) -> &str {
    let rest = line.trim_start_matches(['-', '*', '•', '>', '#', '+']);
    let rest = match rest.as_bytes() {
        [b'0'..=b'9', b'.' | b')', ..] => &rest[2..],
        [b'0'..=b'9', b'0'..=b'9', b'.' | b')', ..] => &rest[3..],
        _ => rest,
    };
    // "**bold**" and "1.5" and "--flag" have no space after the marker.
    if rest.starts_with(' ') {
        rest.trim_start()
    } else {
        line
    }
}

/// The bytes that a sentence may end with: its last character, or the first
/// byte of one that is not ASCII.
static MAY_END: [bool; 256] = {
    let mut may = [false; 256];
    may[b'.' as usize] = true;
    may[b'!' as usize] = true;
    may[b'?' as usize] = true;
    // 。 and ！ and ？
    may[0xE3] = true;
    may[0xEF] = true;
    may
};

/// Moves the sentences of `block` to `found`.
fn split_block(block: &mut String, found: &mut Vec<Sentence>) {
    let mut start = 0;
    let mut push = |text: &str| {
        if text.chars().any(char::is_alphanumeric) {
            found.push(Sentence {
                text: text.trim().to_owned(),
                is_code: false,
            });
        }
    };
    let mut at = 0;
    let is_end = |byte: &u8| MAY_END[usize::from(*byte)];
    while let Some(ahead) = block.as_bytes()[at..].iter().position(is_end) {
        at += ahead;
        let mut chars = block[at..].char_indices().peekable();
        let Some((_, c)) = chars.next() else { break };
        if !matches!(c, '.' | '!' | '?' | '。' | '！' | '？') {
            at += c.len_utf8();
            continue;
        }
        while chars
            .next_if(|(_, c)| "\"')]*`”」』）".contains(*c))
            .is_some()
        {}
        let end = chars.peek().map_or(block.len(), |(after, _)| at + after);
        let at_gap = chars.peek().is_none_or(|(_, c)| c.is_whitespace());
        // A file name, a version or an address has no space after its dots.
        if !c.is_ascii() || at_gap && !(c == '.' && is_abbreviation(&block[start..at])) {
            push(&block[start..end]);
            start = end;
        }
        at = end;
    }
    push(&block[start..]);
    block.clear();
}

fn is_abbreviation(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or(before);
    let is_initial = word.len() == 1 && word != "I" && word.starts_with(char::is_uppercase);
    let is_marker = before.trim().bytes().all(|b| b.is_ascii_digit());
    let known = [
        "e.g", "i.e", "vs", "mr", "mrs", "ms", "dr", "approx", "cf", "fig", "al", "incl", "resp",
        "st",
    ];
    is_initial || is_marker || known.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[rustfmt::skip]
const EXTENSIONS: &[&str] = &[
    "bat", "c", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "env", "go", "gradle", "h", "hpp", "html", "ini", "ipynb", "java",
    "js", "json", "jsonl", "jsx", "kt", "lock", "log", "lua", "md", "mjs", "php", "proto", "ps1", "py", "pyi", "rb", "rs", "scss", "sh",
    "sql", "svelte", "swift", "tf", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml", "zig",
];

/// The possible [`EXTENSIONS`].
static MAY_EXTEND: Shapes = shapes(EXTENSIONS);

/// Returns false for a word that [`paths`] does not return. Most words with a dot
/// are code.
fn may_be_path(word: &[u8]) -> bool {
    let may_extend = |after: &[u8]| {
        let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric();
        let length = after.iter().take(LONGEST + 1).take_while(is_letter).count();
        may_be_one(&MAY_EXTEND, &after[..length])
    };
    let dots = || word.iter().enumerate().filter(|(_, byte)| **byte == b'.');
    matches!(word, [b'/' | b'~' | b'.', ..]) || dots().any(|(at, _)| may_extend(&word[at + 1..]))
}

/// Whether a character is between the words of a text that is searched for paths.
fn is_edge(c: char) -> bool {
    match c {
        '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' => true,
        '<' | '>' | ',' | ';' | '|' | '=' => true,
        '!'..='~' => false,
        c => c.is_whitespace() || "，。、（）「」".contains(c),
    }
}

/// Returns the words of a text that have a slash or a dot. White space, quotes
/// and brackets are between words.
fn words_of_paths(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_mark = |byte: &u8| matches!(byte, b'/' | b'.');
        let mark = rest.as_bytes().iter().position(is_mark)?;
        let edge = rest[..mark].char_indices().rfind(|(_, c)| is_edge(*c));
        let start = edge.map_or(0, |(at, c)| at + c.len_utf8());
        let end = rest[mark..]
            .find(is_edge)
            .map_or(rest.len(), |at| mark + at);
        let word = &rest[start..end];
        rest = &rest[end..];
        Some(word)
    })
}

/// Returns the paths in `text`, without line numbers.
pub(super) fn paths(text: &str) -> impl Iterator<Item = &str> {
    let words = words_of_paths(text).filter(|word| may_be_path(word.as_bytes()));
    words.filter_map(|word| {
        if word.len() > 120 || word.contains("://") {
            return None;
        }
        let word = word.split_once(':').map_or(word, |(path, _)| path);
        let path = word
            .trim_end_matches(['.', '…', '!', '?', '*'])
            .trim_start_matches("./");
        let name = path.rsplit('/').next().unwrap_or(path);
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let is_file = !stem.is_empty() && EXTENSIONS.binary_search(&extension).is_ok();
        let is_rooted =
            path.len() > 4 && path.starts_with(['/', '~']) && path.matches('/').count() > 1;
        if !is_file && !is_rooted {
            return None;
        }
        // Frameworks are called like files: "Node.js".
        let is_framework =
            extension == "js" && !path.contains('/') && path.starts_with(char::is_uppercase);
        let is_foreign = [
            "/dev/",
            "/usr/lib",
            "site-packages",
            "node_modules",
            ".cargo/registry",
        ]
        .iter()
        .any(|part| path.contains(part));
        (!is_framework && !is_foreign && !path.contains(['\\', '*'])).then_some(path)
    })
}

/// Returns true for a path whose last part has an extension.
pub(super) fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').is_some_and(|at| at > 0)
}

/// Cuts the ending off, so that "tests" and "testing" meet "test".
pub(super) fn stem(word: &str) -> &str {
    if word.len() < 5 || !word.is_ascii() {
        return word;
    }
    let word = word
        .strip_suffix("ing")
        .or(word.strip_suffix("ed"))
        .or(word.strip_suffix("es"))
        .unwrap_or(word);
    word.strip_suffix(['s', 'e']).unwrap_or(word)
}

/// Returns the alternative that `text` rejects: the words after "instead of" or
/// "rather than".
pub(super) fn given_up(text: &str) -> Option<&str> {
    let cues = ["instead of ", "rather than "];
    let (_, rest) = cues.iter().find_map(|cue| text.split_once(cue))?;
    match rest.strip_prefix('`') {
        Some(code) => code.split('`').next().filter(|code| code.len() > 2),
        None => rest.split_whitespace().find(|word| word.len() > 3),
    }
}

/// Returns the end of a text, about `max` bytes, from the start of a sentence or
/// a line on if there is one.
pub(super) fn ending(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let tail = &text[text.ceil_char_boundary(text.len() - max)..];
    let starts = ["\n", ". ", "? ", "! ", " "];
    let found = starts.iter().find_map(|mark| {
        let at = tail.find(mark)?;
        (at < max / 2).then(|| tail[at + mark.len()..].trim_start())
    });
    format!("… {}", found.unwrap_or(tail))
}

/// Returns a text of about `max` bytes with its start and its end, and a note of
/// the number of characters that were cut between them.
pub(super) fn cut_middle(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = clip(text, max / 3 * 2);
    let tail = &text[text.ceil_char_boundary(text.len() - max / 3)..];
    let cut = &text[head.len()..text.len() - tail.len()];
    format!("{head} {} {tail}", cut_note(cut))
}

const NOTE_START: &str = "[... ";
/// The end of a note about text that was cut out.
pub(super) const CUT_NOTE: &str = " characters cut ...]";

/// Returns the note about a text that is cut out. Characters that a note in the
/// text counts are counted, too.
pub(super) fn cut_note(cut: &str) -> String {
    let mut count = cut.chars().count();
    for (at, _) in cut.match_indices(CUT_NOTE) {
        let number = cut[..at].rsplit(NOTE_START).next().unwrap_or("");
        count += number.parse::<usize>().unwrap_or(0);
    }
    format!("{NOTE_START}{count}{CUT_NOTE}")
}

/// The first words of a message that agrees to what the model said.
const CONSENTS: [&str; 30] = [
    "absolutely",
    "agreed",
    "aye",
    "confirm",
    "confirmed",
    "continue",
    "correct",
    "definitely",
    "exactly",
    "go",
    "ja",
    "k",
    "lgtm",
    "ok",
    "okay",
    "oui",
    "proceed",
    "right",
    "si",
    "sounds",
    "sure",
    "y",
    "yea",
    "yeah",
    "yep",
    "yes",
    "yup",
    "はい",
    "好",
    "好的",
];

/// The most words of a message that only agrees.
const CONSENT_WORDS: usize = 4;
/// The most words of a message that only answers a question.
const ANSWER_WORDS: usize = 3;
/// The most bytes of such a message.
const ANSWER_BYTES: usize = 40;

/// Returns true for a message that means something only as an answer to what the
/// model said: "yes, go ahead", or "the second one" after a question.
pub(super) fn is_answer(text: &str, said: &str) -> bool {
    // A script without spaces has long messages of one word.
    let is_short = text.len() <= ANSWER_BYTES && !text.ends_with(['?', '？']);
    if !is_short {
        return CONSENTS.contains(&&*first_word(text)) && asks(said);
    }
    let normal = normalise(text);
    let words: Vec<&str> = normal.split_ascii_whitespace().collect();
    let is_consent = words.first().is_some_and(|first| CONSENTS.contains(first));
    is_consent && words.len() <= CONSENT_WORDS
        || (is_consent || words.len() <= ANSWER_WORDS) && asks(said)
}

/// Returns the first word of a text in the form of [`normalise`]. Most are found
/// without reading the whole text.
fn first_word(text: &str) -> String {
    let mut normal = normalise(clip(text, 32));
    if !normal.contains(' ') {
        normal = normalise(clip(text, LINE_BYTES));
    }
    let end = normal.find(' ').unwrap_or(normal.len());
    normal.truncate(end);
    normal
}

/// Returns true if a message of the model ends with a question.
fn asks(said: &str) -> bool {
    const END_BYTES: usize = 240;
    let end = &said[said.ceil_char_boundary(said.len().saturating_sub(END_BYTES))..];
    let end = end.to_lowercase();
    let asks = ["?", "？", "confirm", "let me know", "would you like"];
    asks.iter().any(|it| end.contains(it))
}

/// Returns true if the user reports that the user undid the model's work.
pub(super) fn undoes(text: &str, lexicon: &Lexicon) -> bool {
    let text = clip(text, LINE_BYTES);
    if !lexicon.may_have(text, UNDO) {
        return false;
    }
    let normal = normalise(text);
    let words: Vec<&str> = normal.split(' ').collect();
    let undid = |at: usize| {
        matches!(
            words[at],
            "undid" | "reverted" | "discarded" | "rolled" | "scrapped" | "reset" | "threw"
        )
    };
    let is_subject = |word: &&str| matches!(*word, "i" | "i've" | "i'd" | "we" | "we've");
    let is_object = |word: &&str| {
        matches!(
            *word,
            "your" | "it" | "all" | "everything" | "that" | "this" | "them" | "those" | "back"
        )
    };
    (0..words.len()).filter(|&at| undid(at)).any(|at| {
        let before = &words[at.saturating_sub(3)..at];
        let after = &words[at + 1..words.len().min(at + 4)];
        before.iter().any(is_subject) && after.iter().any(is_object)
    })
}

/// Returns true if a sentence says that something was not done. `normal` is
/// normalised.
pub(super) fn is_negated(normal: &str) -> bool {
    let negates = |word: &str| {
        matches!(
            word,
            "not"
                | "never"
                | "cannot"
                | "unable"
                | "can't"
                | "couldn't"
                | "didn't"
                | "haven't"
                | "hasn't"
                | "wasn't"
                | "weren't"
                | "isn't"
                | "aren't"
                | "won't"
        )
    };
    // "I fixed the test that did not pass" has the verb before the negation.
    let mut words = normal.split(' ');
    words
        .find(|word| negates(word) || is_done_verb(word))
        .is_some_and(negates)
}

fn is_done_verb(word: &str) -> bool {
    word.len() > 4 && word.ends_with("ed")
        || matches!(word, "done" | "built" | "wrote" | "rewrote" | "made")
}

/// Returns true if a sentence reports work of the speaker, and not of others or a
/// general fact: "I added a cache", "Fixed the build", "All tests pass now".
/// `normal` is normalised.
pub(super) fn reports_work(normal: &str) -> bool {
    let words: Vec<&str> = normal.split(' ').collect();
    let is_speaker = |word: &&str| matches!(*word, "i" | "i've" | "we" | "we've" | "i'm");
    let is_other = |word: &&str| matches!(*word, "you" | "you've" | "they" | "he" | "she");
    let is_subject = |word: &&str| is_speaker(word) || is_other(word);
    if let Some(at) = words.iter().take(6).position(is_subject) {
        // "We stop the watcher of a deleted file" is no report.
        let mut verbs = words.iter().skip(at + 1).take(4);
        return is_speaker(&words[at]) && verbs.any(|word| is_done_verb(word));
    }
    // Without a subject, the verb comes first.
    let is_filler = |word: &&&str| {
        matches!(
            **word,
            "also" | "and" | "just" | "now" | "then" | "successfully" | "finally"
        )
    };
    let verb = words.iter().find(|word| !is_filler(word)).copied();
    let is_verb = verb.is_some_and(|verb| is_done_verb(verb) || verb == "all");
    let is_state = |word: &&str| {
        matches!(
            *word,
            "been" | "now" | "pass" | "passes" | "done" | "complete" | "completed"
        )
    };
    is_verb || words.iter().any(is_state)
}

/// Returns true for a sentence of a user that instructs: "use tabs", "no new
/// files". `normal` is normalised. Such a sentence has a word of the sign
/// `INSTRUCT`.
pub(super) fn instructs(text: &str, normal: &str) -> bool {
    const MOST_WORDS: usize = 40;
    if text.trim_end().ends_with(['?', '？']) {
        return false;
    }
    let words: Vec<&str> = normal.split(' ').collect();
    if words.len() > MOST_WORDS {
        return false;
    }
    let begins = words
        .iter()
        .take(4)
        .any(|word| matches!(*word, "use" | "stop" | "prefer" | "remember"));
    let is_statement = |before: &str| {
        matches!(
            before,
            "is" | "are"
                | "was"
                | "were"
                | "be"
                | "has"
                | "have"
                | "had"
                | "there's"
                | "got"
                | "get"
                | "gets"
                | "see"
                | "shows"
                | "with"
                | "it's"
                | "says"
                | "i've"
                | "makes"
        )
    };
    // "no rgb indices", but not "no, that is wrong" and "there is no such thing".
    let forbids = words
        .windows(2)
        .any(|pair| pair[1] == "no" && !is_statement(pair[0]));
    let asks_for_use = |first: &str| matches!(first, "i" | "how" | "can" | "do" | "did" | "what");
    let is_report = words.first().is_some_and(|first| asks_for_use(first));
    (begins || forbids) && !is_report
}

#[cfg(test)]
mod tests {
    use contexture_shorten::cues::INSTRUCT;

    use super::*;

    #[test]
    fn a_sentence_that_instructs_or_undoes_has_a_cue() {
        let lexicon = Lexicon::shared();
        for text in [
            "Use tabs",
            "please USE tabs",
            "add no new files",
            "and then: stop.",
            "(prefer) sqlite",
            "remember, the port is 80",
        ] {
            assert!(instructs(text, &normalise(text)), "{text}");
            assert!(lexicon.may_have(text, INSTRUCT), "{text}");
        }
        for text in [
            "I undid your change",
            "we RESET everything",
            "I rolled it back",
        ] {
            assert!(undoes(text, lexicon), "{text}");
        }
        for text in ["I used it", "we resettle", "nothing else"] {
            assert!(!undoes(text, lexicon), "{text}");
            assert!(!lexicon.may_have(text, INSTRUCT), "{text}");
        }
    }

    #[test]
    fn the_first_word_is_that_of_the_whole_text() {
        for text in [
            "",
            "yes, go ahead and change all of the files",
            "  'Yes' is what I would say to that, I think",
            "don't",
            "a_word_that_is_longer_than_the_part_that_is_read_first and more",
            "awordthatislongerthanthepartthatisreadfirst and more",
            "好的，请继续",
            "ok\u{2019}s and others that follow it",
        ] {
            let normal = normalise(text);
            let expected = normal.split(' ').next().unwrap_or_default();
            assert_eq!(first_word(text), expected, "{text}");
        }
    }

    #[test]
    fn words_with_a_slash_or_a_dot_may_be_paths() {
        let found = |text| paths(text).collect::<Vec<_>>();
        assert_eq!(
            found("see `src/a.rs:12`, ./b/c.py. (d.toml) /etc/x/y ~/z/w Node.js x.y.json?"),
            [
                "src/a.rs", "b/c.py", "d.toml", "/etc/x/y", "~/z/w", "x.y.json"
            ]
        );
        assert_eq!(
            found("（e.md）、「f.go」，g.sh。 h.ts… i.lock!"),
            ["e.md", "f.go", "g.sh", "h.ts", "i.lock"]
        );
        assert_eq!(
            found("a.b() self.at += 1; i.e. 1.5 and/or https://x.de/a.js v.lockx"),
            [""; 0]
        );
    }

    #[test]
    fn white_space_around_a_line_is_removed() {
        for line in [
            "",
            " \t",
            "  a b ",
            "\u{b} a",
            "\u{a0}a\u{2003}",
            "ü ",
            " a\u{85}",
        ] {
            assert_eq!(trimmed(line), line.trim(), "{line:?}");
        }
    }
}
