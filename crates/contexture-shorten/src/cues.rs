//! The cue words that classify a line: error, decision, request, constraint
//! and others.
//!
//! Logs are cut by them, and summaries of conversations are extracted by them.

use std::sync::LazyLock;

/// The most bytes of a line that are looked at.
pub const LINE_BYTES: usize = 512;

/// A failure, in any text.
pub const FAIL: u16 = 1;
/// An attempt that led nowhere.
pub const STRONG: u16 = 1 << 1;
/// A failure in a log; in prose, often only a word.
pub const LOG: u16 = 1 << 2;
/// A decision.
pub const DECIDE: u16 = 1 << 3;
/// Something that was done.
pub const DONE: u16 = 1 << 4;
/// A constraint.
pub const BOUND: u16 = 1 << 6;
/// A constraint in words that hardly mean anything else.
pub const FIRM: u16 = 1 << 5;
/// "Let me look": outdated immediately.
pub const PLAN: u16 = 1 << 7;
/// The next steps.
pub const NEXT: u16 = 1 << 8;
/// A fact.
pub const FACT: u16 = 1 << 9;
/// "If it fails" is not a failure.
pub const HEDGE: u16 = 1 << 10;
/// A line of output that sums it up.
pub const RESULT: u16 = 1 << 11;
/// A word that may begin an instruction.
pub const INSTRUCT: u16 = 1 << 12;
/// An error line that does not describe the error by itself.
pub const BLAND: u16 = 1 << 13;
/// A decision, if it is in a message of the user.
pub const PREFER: u16 = 1 << 14;
/// A word for undoing work.
pub const UNDO: u16 = 1 << 15;

/// The sign of each list of words and phrases. They have no punctuation apart
/// from spaces.
#[rustfmt::skip]
const CUES: [(u16, &str); 16] = [
    (FAIL, "failed|fails|panicked|timed out|undefined reference|no such file|permission denied|access denied|segmentation fault|segfault|connection refused|command not found|out of memory|mismatched types|got an error|gives an error|returned an error|throws|crashed|crashes|stack overflow|rejected"),
    (STRONG, "did not work|didn't work|does not work|doesn't work|not working|still fails|still failing|still broken|no luck|dead end|gave up|made it worse|had no effect|made no difference|had to revert|reverted|did not help|didn't help"),
    (LOG, "error|errors|err|exception|traceback|panic|failure|failures|cannot|can't|could not|couldn't|unable to|not found|fatal|aborted|denied|timeout|unresolved|undefined|invalid|assertion|conflict|enoent|eacces|econnrefused|killed|refused"),
    (DECIDE, "decided|decision|we'll use|i'll use|we will use|let's use|let us use|let's go with|go with|going with|chose|settled on|agreed|switched to|switching to|opted|stick with|sticking with|the plan is|we'll keep|let's keep"),
    (PREFER, "instead|instead of|rather than|go for|switch to|choose"),
    (DONE, "added|fixed|implemented|created|updated|removed|renamed|moved|wrote|rewrote|refactored|replaced|deleted|deployed|merged|committed|pushed|installed|migrated|extracted|done|completed|finished|passes now|now passes|tests pass|all green|i've|built|converted|bumped|resolved|verified|confirmed|configured|upgraded|works now|now works"),
    (BOUND | FIRM, "i want|need to|needs to|must|mustn't|never|always|don't|do not|only|at most|at least|no more than|required|requirement|avoid|ensure|make sure|should not|shouldn't|limit|deadline|not allowed|may not"),
    (BOUND, "without|keep|should"),
    (INSTRUCT, "use|no|stop|prefer|remember"),
    (UNDO, "undid|reverted|discarded|rolled|scrapped|reset|threw"),
    (PLAN, "let me|i'll|i will|i'm going to|i am going to|let's look|looking at|i need to|i should|now i|first i|i want to"),
    (NEXT, "next|todo|remaining|remains|still need|still needs|still to do|left to do|not yet|pending|haven't|have not|hasn't been|follow up|remains to"),
    (FACT, "root cause|turns out|because|the problem is|the problem was|the issue is|the issue was|the bug is|the bug was|caused by|means that|the reason|note that|set to|is called|lives in|runs on|listens on|depends on|named|it was|it is"),
    (HEDGE, "if|when|whenever|should|would|could|may|might|unless|in case|handle|handles|handling|so that|prevent|instead of failing|until"),
    (RESULT, "passed|total|time|finished|coverage|warnings|took|seconds|listening|files changed|rows|inserted|up to date|success|successfully|compiled"),
    (BLAND, "traceback most recent|aborting due|could not compile|test result|test failed to rerun|for more information|exit code|exit status|exited with|command failed|build failed|failures|npm err|npm error|tests failed|process didn't exit|some errors have|most recent call"),
];

/// The same for scripts without spaces, matched anywhere in the text.
#[rustfmt::skip]
const CJK_CUES: [(u16, &str); 9] = [
    (0, "没有错误|无错误|没有报错|エラーなし|エラー処理|错误处理"),
    (FAIL, "错误|失败|异常|超时|报错|錯誤|失敗|エラー|タイムアウト"),
    (STRONG, "不起作用|没有用|无效|没有成功|動かな|うまくいか"),
    (DECIDE, "决定|采用|改用|选择|決定|採用|にします|ことにし"),
    (DONE, "已经|已完成|完成了|修复了|添加了|删除了|更新了|しました|完了"),
    (BOUND | FIRM, "必须|不要|不能|不得|只能|至少|最多|禁止|なければ|しないで|必ず"),
    (NEXT, "下一步|接下来|还需要|剩下|待办|次に|残り"),
    (FACT, "因为|原因|由于|端口|版本|原因は|ため"),
    (PLAN, "让我|我来看|我先|見てみ"),
];

/// The words of sentences without information.
#[rustfmt::skip]
const TRIVIAL: &[&str] = &[
    "ahead", "and", "cool", "continue", "do", "done", "for", "go", "good", "got", "great", "hello", "hey", "hi", "it", "lgtm", "looks",
    "much", "nice", "no", "ok", "okay", "on", "perfect", "please", "proceed", "so", "sounds", "sure", "thank", "thanks", "very", "yes", "you",
    "好", "好的", "谢谢", "继续", "はい",
];

/// Returns true for "ok, thanks" and the like; `normal` is normalised.
pub fn is_trivial(normal: &str) -> bool {
    normal
        .split_ascii_whitespace()
        .all(|word| TRIVIAL.contains(&word))
}

/// The cues found in a line.
#[derive(Default)]
pub struct Signs {
    bits: u16,
    /// The word at which a failure is named, and the name, for counting kinds.
    pub failure: Option<(usize, String)>,
}

impl Signs {
    /// Returns true when one of `bits` was found.
    pub fn has(&self, bits: u16) -> bool {
        self.bits & bits != 0
    }
}

/// The cues by their first word, so that most words of a text are compared with
/// none of them.
pub struct Lexicon {
    // The cues of each place that first words hash to.
    places: Box<[Vec<Cue>]>,
    // The cues by their first words up to an apostrophe, and all signs of each
    // place.
    heads: Box<[Vec<(u16, &'static str)>]>,
    signs: Box<[u16]>,
}

struct Cue {
    bits: u16,
    // The first word of the phrase.
    word: &'static str,
    phrase: &'static str,
}

/// The number of places that words hash to.
const PLACES: usize = 1 << 12;

/// Returns the slot of a word, from its length and its first and last letters.
fn place(word: &[u8]) -> usize {
    let at = |index: usize| word.get(index).map_or(0, |byte| usize::from(*byte & 31));
    let last = word.len().wrapping_sub(1);
    let letters = at(0) | (at(1) << 5) | (at(last) << 10);
    (letters.wrapping_mul(31) + word.len() * 7) & (PLACES - 1)
}

impl Default for Lexicon {
    fn default() -> Self {
        Self::new()
    }
}

impl Lexicon {
    /// Returns the built-in cues.
    pub fn new() -> Self {
        let mut places: Vec<Vec<Cue>> = std::iter::repeat_with(Vec::new).take(PLACES).collect();
        let mut heads: Vec<Vec<(u16, &str)>> = vec![Vec::new(); PLACES];
        for (bits, phrases) in CUES {
            for phrase in phrases.split('|') {
                let word = phrase.split(' ').next().unwrap_or(phrase);
                places[place(word.as_bytes())].push(Cue { bits, word, phrase });
                let head = word.split('\'').next().unwrap_or(word);
                heads[place(head.as_bytes())].push((bits, phrase));
            }
        }
        let all = |heads: &Vec<(u16, &str)>| heads.iter().fold(0, |all, (bits, _)| all | bits);
        let signs = heads.iter().map(all).collect();
        Self {
            places: places.into(),
            heads: heads.into(),
            signs,
        }
    }

    /// Returns the built-in cues, made once.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Lexicon> = LazyLock::new(Lexicon::new);
        &SHARED
    }

    /// Returns false if [`read`](Self::read) finds none of the signs `bits` in
    /// `text` after [`normalise`]. This takes a small part of the time. `bits`
    /// are signs other than those of failures.
    pub fn may_have(&self, text: &str, bits: u16) -> bool {
        debug_assert_eq!(bits & (FAIL | LOG), 0, "codes of failures are not words");
        if !text.is_ascii() {
            return true;
        }
        let mut rest = text.as_bytes();
        loop {
            let is_end = |byte: &u8| !IN_WORD[usize::from(*byte)];
            let end = rest.iter().position(is_end).unwrap_or(rest.len());
            let place = place(&rest[..end]);
            let mut cues = self.heads[place].iter();
            if self.signs[place] & bits != 0
                && cues.any(|(of, phrase)| of & bits != 0 && begins_with(rest, phrase))
            {
                return true;
            }
            match rest.get(end + 1..) {
                Some(next) => rest = next,
                None => return false,
            }
        }
    }

    /// Reads `normal`, which is a text after `normalise`.
    pub fn read(&self, normal: &str) -> Signs {
        let mut signs = Signs::default();
        let (mut before, mut at, mut index) = ("", 0, 0);
        while at < normal.len() {
            let rest = &normal[at..];
            let bytes = rest.as_bytes();
            // Words are short: a loop is quicker than a search.
            let end = bytes.iter().position(|byte| *byte == b' ');
            let word = &rest[..end.unwrap_or(rest.len())];
            let after = || rest[word.len()..].split(' ').nth(1).unwrap_or("");
            let cues = &self.places[place(word.as_bytes())];
            for cue in cues.iter().filter(|cue| cue.word == word) {
                let (bit, phrase) = (cue.bits, cue.phrase);
                let is_there = rest
                    .strip_prefix(phrase)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
                let is_failure = bit & (FAIL | LOG) != 0;
                // "Then I'll stop" is not a plan; "Now let me look" is. And
                // "could not" is not a hedge.
                let is_misread = bit == PLAN && index > 1 || bit == HEDGE && after() == "not";
                // The word after the phrase: "mismatched types" is a failure.
                let behind = || rest[phrase.len()..].split(' ').nth(1).unwrap_or("");
                if is_there && !is_misread && !(is_failure && is_harmless(before, behind())) {
                    signs.bits |= bit;
                    if is_failure
                        && signs
                            .failure
                            .as_ref()
                            .is_none_or(|(_, kind)| is_vague(kind))
                    {
                        let first = signs.failure.as_ref().map_or(index, |(at, _)| *at);
                        signs.failure = Some((first, phrase.to_owned()));
                    }
                }
            }
            if let Some(code) = failure_code(word, rest) {
                // An error code is more specific than any phrase, so it names
                // the kind.
                let first = signs.failure.as_ref().map_or(index, |(at, _)| *at);
                signs.failure = Some((first, code));
                signs.bits |= FAIL;
            } else if word.len() > 7 && (word.ends_with("error") || word.ends_with("exception")) {
                signs.bits |= LOG;
                signs.failure.get_or_insert((index, word.to_owned()));
            }
            (before, at, index) = (word, at + word.len() + 1, index + 1);
        }
        if !normal.is_ascii() {
            for (bit, phrases) in CJK_CUES {
                if let Some(found) = phrases.split('|').find(|phrase| normal.contains(phrase)) {
                    if bit == 0 {
                        signs.bits |= HEDGE;
                    } else {
                        signs.bits |= bit;
                    }
                    if bit == FAIL && !signs.has(HEDGE) {
                        signs.failure.get_or_insert((0, found.to_owned()));
                    }
                }
            }
        }
        signs
    }
}

/// Returns false if plain text does not begin with `phrase` after [`normalise`].
fn begins_with(text: &[u8], phrase: &str) -> bool {
    let mut rest = text;
    for expected in phrase.bytes() {
        if expected == b' ' {
            let is_between = |byte: &u8| !byte.is_ascii_alphanumeric();
            rest = &rest[rest.iter().take_while(|byte| is_between(byte)).count()..];
        } else {
            match rest.split_first() {
                Some((byte, after)) if byte.to_ascii_lowercase() == expected => rest = after,
                _ => return false,
            }
        }
    }
    rest.first()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

/// Returns true for a kind of failure that any failure has.
fn is_vague(kind: &str) -> bool {
    matches!(
        kind,
        "error" | "errors" | "err" | "failed" | "fails" | "failure" | "fatal"
    )
}

/// Returns true if the words next to "error" or "failed" negate it: "0 errors",
/// "failed: 0", "error handling".
fn is_harmless(before: &str, after: &str) -> bool {
    matches!(
        before,
        "no" | "0" | "zero" | "without" | "any" | "not" | "never" | "possible"
    ) || matches!(
        after,
        "0" | "handling"
            | "handler"
            | "handlers"
            | "type"
            | "types"
            | "message"
            | "messages"
            | "enum"
            | "variant"
            | "variants"
            | "path"
            | "paths"
            | "case"
            | "cases"
            | "rate"
    )
}

/// Returns the code of a failure that begins at `word`: `E0308`, `TS2345`,
/// `exit code 2`, `HTTP 503`.
fn failure_code(word: &str, rest: &str) -> Option<String> {
    if word.ends_with(|c: char| c.is_ascii_digit()) {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let is_number = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit());
        let is_code = is_number && matches!(&word[..word.len() - 4], "e" | "ts" | "cs");
        return is_code.then(|| word.to_ascii_uppercase());
    }
    if !matches!(word, "exit" | "exited" | "http" | "status") {
        return None;
    }
    let mut after = rest.split(' ').skip(1).take(3).peekable();
    let is_named = after
        .peek()
        .is_some_and(|next| matches!(*next, "code" | "status" | "with"));
    // "HTTP/1.1 404" and "exited with status 2" have words in between.
    let mut numbers = after.filter_map(|next| next.parse::<u32>().ok());
    if word.starts_with("exit") {
        let code = numbers.next().filter(|&code| is_named && code != 0)?;
        return Some(format!("exit code {code}"));
    }
    let status = numbers.find(|status| (400..600).contains(status))?;
    Some(format!("HTTP {status}"))
}

/// Returns the longest prefix of `text` of at most `max` bytes.
pub fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The class of a byte of plain text for [`normalise`]: a letter or digit in
/// lower case, an apostrophe, or 0 for everything else.
static WRITTEN: [u8; 128] = {
    let mut written = [0; 128];
    let mut byte = 0;
    while byte < 128 {
        let this = byte as u8;
        if this.is_ascii_alphanumeric() {
            written[byte] = this.to_ascii_lowercase();
        } else if this == b'\'' {
            written[byte] = this;
        }
        byte += 1;
    }
    written
};

/// Whether a byte is a letter or a digit of plain text.
static IN_WORD: [bool; 256] = {
    let mut in_word = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        in_word[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    in_word
};

/// Returns the words of `text` in lower case with one space between them.
pub fn normalise(text: &str) -> String {
    if text.is_ascii() {
        return normalise_ascii(text);
    }
    normalise_any(text)
}

/// Does the same as [`normalise_any`] for plain text, which most text is.
fn normalise_ascii(text: &str) -> String {
    let mut normal: Vec<u8> = Vec::with_capacity(text.len());
    let mut in_word = false;
    for byte in text.bytes() {
        let written = WRITTEN[usize::from(byte & 127)];
        if written > b'\'' {
            normal.push(written);
            in_word = true;
        } else if in_word {
            normal.push(if written == b'\'' { b'\'' } else { b' ' });
            in_word = false;
        } else if let Some(last) = normal.last_mut().filter(|last| **last == b'\'') {
            // The quote closed a word: it was not an apostrophe.
            *last = b' ';
        }
    }
    while let Some(b' ' | b'\'') = normal.last() {
        normal.pop();
    }
    String::from_utf8(normal).unwrap_or_default()
}

fn normalise_any(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    // Remembered rather than looked up: this runs over megabytes of output.
    let mut in_word = false;
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            normal.push(c.to_ascii_lowercase());
            in_word = true;
        } else if !c.is_ascii() && c.is_alphanumeric() {
            normal.extend(c.to_lowercase());
            in_word = true;
        } else if in_word {
            let is_apostrophe = c == '\'' || c == '’';
            normal.push(if is_apostrophe { '\'' } else { ' ' });
            in_word = false;
        } else if normal.ends_with('\'') {
            // The quote closed a word: it was not an apostrophe.
            normal.pop();
            normal.push(' ');
        }
    }
    normal.truncate(normal.trim_end_matches([' ', '\'']).len());
    normal
}

/// Returns true for a line of output that reports a failure. `is_known` is true
/// if the command is known to have failed.
pub fn is_failure_line(line: &str, signs: &Signs, is_known: bool) -> bool {
    if !signs.has(FAIL | STRONG | LOG) {
        return false;
    }
    let lower = clip(line, 16).to_ascii_lowercase();
    let starts = |words: &[&str]| words.iter().any(|word| lower.starts_with(word));
    if starts(&[
        "warning", "note", "help", "info", "debug", "= note", "= help", "|",
    ]) || line.contains("^^")
        || line.ends_with(" ok")
        || line.ends_with("PASSED")
    {
        return false;
    }
    // Far into a line the word is part of a sentence about something else.
    let is_early = signs.failure.as_ref().is_some_and(|(at, _)| *at < 8);
    let is_code = line.ends_with(['{', '}', ';', ',', '(', '['])
        || starts(&[
            "//", "/*", "#", "*", "import ", "fn ", "def ", "let ", "if ", "return ", "raise ",
            "throw ", "except", "pub ", "use ", "const ", "case ",
        ]);
    is_known || is_early && !is_code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_a_cue_are_never_ruled_out() {
        let lexicon = Lexicon::shared();
        for (bits, phrases) in CUES {
            if bits & (FAIL | LOG) != 0 {
                continue;
            }
            for phrase in phrases.split('|') {
                let shouted = phrase.to_uppercase();
                for text in [
                    phrase.to_owned(),
                    format!("We said: \"{shouted}\"."),
                    format!("x\n'{phrase}' y"),
                    format!("- {}-z", phrase.replace(' ', "  ")),
                ] {
                    let signs = lexicon.read(&normalise(&text));
                    assert!(
                        !signs.has(bits) || lexicon.may_have(&text, bits),
                        "{text:?}"
                    );
                }
            }
        }
        assert!(!lexicon.may_have("let us = rows + 1;", BOUND | DECIDE));
        assert!(lexicon.may_have("naïve", BOUND));
    }

    #[test]
    fn plain_text_is_normalised_like_any_other() {
        for text in [
            "",
            "Don't  STOP -- it's 'quoted', isn't it?",
            "a''b 'c' d'",
            "' ' x.y_z/0 '",
            "tab\tand\nline\r\n",
            "rock'n'roll' !",
        ] {
            assert_eq!(normalise_ascii(text), normalise_any(text), "{text:?}");
        }
        // Every pair and triple of kinds of characters.
        for a in ["x", "'", " ", "9", "-"] {
            for b in ["x", "'", " ", "Z", "-"] {
                for c in ["x", "'", " ", "9", "-"] {
                    let text = format!("{a}{b}{c}{a}");
                    assert_eq!(normalise_ascii(&text), normalise_any(&text), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn every_cue_is_found_by_its_first_word() {
        let lexicon = Lexicon::new();
        for (bits, phrases) in CUES {
            for phrase in phrases.split('|') {
                let signs = lexicon.read(phrase);
                assert!(signs.has(bits), "{phrase}");
            }
        }
    }
}
