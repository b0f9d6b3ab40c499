//! Prefixes that tools write before the lines of a text: line numbers, names of files, times, the
//! names of services, signs of a diff, marks of comments and quotations.

/// The kind of a prefix. Lines of one listing have prefixes of one kind.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// `    12→`, `12<tab>`, `12 | `, `12: `.
    Number,
    /// `src/main.rs:12:`, `src/main.rs:`.
    File,
    /// `2026-11-17T10:00:00Z `, `[10:00:00] `.
    Time,
    /// `web-1  | `.
    Service,
    /// `+` and `-` of a diff, also the first dash of `-- `.
    Sign,
    /// `> ` of a quotation.
    Quotation,
    /// `# `, `// `, `* `, `; `.
    Comment,
}

/// The longest name of a file or a service.
const NAME_MAX: usize = 160;
/// The most prefixes of one line.
const MOST: usize = 3;

/// Returns the length of all prefixes of `line`, one after the other.
pub(super) fn length_of_all(line: &[u8]) -> usize {
    let mut at = 0;
    for _ in 0..MOST {
        match of(&line[at..]) {
            Some((_, length)) => at += length,
            None => break,
        }
    }
    at
}

/// Returns the kind and the length of the prefix of `line`.
pub(super) fn of(line: &[u8]) -> Option<(Kind, usize)> {
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    let indent = line.iter().take(40).take_while(is_blank).count();
    let rest = &line[indent..];
    let (kind, length) = match *rest.first()? {
        b'0'..=b'9' => time(rest)
            .map(|length| (Kind::Time, length))
            .or_else(|| number(rest).map(|length| (Kind::Number, length)))
            .or_else(|| named(rest))?,
        b'[' => time(rest).map(|length| (Kind::Time, length))?,
        b'+' | b'-' if indent == 0 => {
            let named = rest.starts_with(b"+++ ") || rest.starts_with(b"--- ");
            (!named).then_some((Kind::Sign, 1))?
        }
        b'>' => (Kind::Quotation, with_blank(rest, 1)),
        b'#' | b';' | b'*' => {
            let mark = rest[0];
            let marks = rest
                .iter()
                .take(4)
                .take_while(|byte| **byte == mark)
                .count();
            (Kind::Comment, with_blank(rest, marks))
        }
        b'/' if rest.starts_with(b"//") => {
            let marks = rest
                .iter()
                .take(4)
                .take_while(|byte| **byte == b'/')
                .count();
            (Kind::Comment, with_blank(rest, marks))
        }
        byte if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/') => named(rest)?,
        _ => return None,
    };
    Some((kind, indent + length))
}

fn with_blank(rest: &[u8], length: usize) -> usize {
    length + usize::from(rest.get(length) == Some(&b' '))
}

/// Returns the length of a line number and what parts it from the line.
fn number(rest: &[u8]) -> Option<usize> {
    let digits = rest
        .iter()
        .take(8)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let after = &rest[digits..];
    if digits > 7 {
        return None;
    }
    for parted in ["→", "\t", " | ", "| ", " │ ", "│ ", ": ", ":"] {
        if after.starts_with(parted.as_bytes()) {
            return Some(digits + parted.len());
        }
    }
    // An empty line of a listing.
    matches!(after, b" |" | b"|" | b" \xE2\x94\x82").then_some(rest.len())
}

/// Returns the length of a time, the blank after it, and a level such as `INFO`.
fn time(rest: &[u8]) -> Option<usize> {
    let open = usize::from(rest[0] == b'[');
    let is_part = |byte: &&u8| byte.is_ascii_digit() || b":-.,+TZ/".contains(byte);
    let mut end = open + rest[open..].iter().take(40).take_while(is_part).count();
    let date = rest.get(open + 4) == Some(&b'-') || rest.get(open + 4) == Some(&b'/');
    let clock = |from: usize| {
        let part = rest.get(from..from + 8)?;
        let is_clock = part.iter().enumerate().all(|(index, byte)| match index {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        });
        is_clock.then_some(from + 8)
    };
    if date {
        let day = open + 10;
        if !matches!(rest.get(day), Some(b'T' | b' ')) {
            return None;
        }
        let stop = clock(day + 1)?;
        end = stop + rest[stop..].iter().take(20).take_while(is_part).count();
    } else {
        clock(open)?;
    }
    if open == 1 {
        if rest.get(end) != Some(&b']') {
            return None;
        }
        end += 1;
    }
    if !matches!(rest.get(end), Some(b' ' | b'\t') | None) {
        return None;
    }
    end = (end + 1).min(rest.len());
    let level = &rest[end..];
    for word in [
        "INFO ", "WARN ", "ERROR ", "DEBUG ", "TRACE ", "[INFO] ", "[DEBUG] ", "[ERROR] ",
    ] {
        if level.starts_with(word.as_bytes()) {
            return Some(end + word.len());
        }
    }
    Some(end)
}

/// Returns the length of `file:12:`, of `file:` or of `service  | `.
fn named(rest: &[u8]) -> Option<(Kind, usize)> {
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._/@+-".contains(byte);
    let name = rest.iter().take(NAME_MAX).take_while(is_name).count();
    match rest.get(name)? {
        b':' => {
            let digits = rest[name + 1..]
                .iter()
                .take(8)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let end = name + 1 + digits;
            if digits > 0 && rest.get(end) == Some(&b':') {
                return Some((Kind::File, end + 1));
            }
            let path = rest[..name].contains(&b'/') && rest[..name].contains(&b'.');
            (path && digits == 0 && rest.get(name + 1).is_some_and(|byte| *byte != b'/'))
                .then_some((Kind::File, name + 1))
        }
        b' ' => {
            let blanks = rest[name..]
                .iter()
                .take(40)
                .take_while(|byte| **byte == b' ')
                .count();
            let bar = name + blanks;
            (rest.get(bar) == Some(&b'|') && matches!(rest.get(bar + 1), Some(b' ') | None))
                .then_some((Kind::Service, (bar + 2).min(rest.len())))
        }
        _ => None,
    }
}
