//! Aider: `.aider.chat.history.md`.
//!
//! `# aider chat started at TIME` begins a session, `#### ` is a line of the
//! user, `> ` is output of aider or of a tool, and everything else is the
//! model's answer.

use std::path::{Path, PathBuf};

use contexture_core::Usage;
use contexture_store::{
    Message, MessageRole, NewSession, NewTurn, StopReason, StoreError, TurnStatus,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::error::ImportError;
use crate::exported::cut_label;
use crate::file::SourceFile;
use crate::format::{Environment, Format};
use crate::lines::Line;
use crate::messages::{text, title};
use crate::writer::{TurnRef, Writer};

/// The format of Aider.
pub(crate) struct Aider;

const NAME: &str = "aider";

/// The name of the file.
const FILE: &str = ".aider.chat.history.md";

impl Format for Aider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Aider"
    }

    fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        let directories = environment.current.iter().chain(&environment.home);
        directories.map(|directory| directory.join(FILE)).collect()
    }

    fn is_transcript(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == FILE)
    }

    fn read(&self, file: &mut SourceFile<'_>, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let mut lines = file.lines()?.with_blanks();
        let name = blake3::hash(file.name.as_bytes()).to_hex();
        let mut reader = Reader {
            prefix: format!("{NAME}:{}", &name[..8]),
            session: None,
            zone: file.zone.clone(),
            now: file.now,
        };
        let failed = |error| ImportError::file(file.path, error);
        while let Some(line) = lines.next().map_err(failed)? {
            match line {
                Line::Text { bytes, .. } => {
                    reader.line(&String::from_utf8_lossy(bytes), writer)?;
                }
                Line::TooLong { .. } => writer.counts.too_long += 1,
            }
        }
        if file.with_tail {
            let rest = String::from_utf8_lossy(lines.rest()).into_owned();
            if !rest.is_empty() {
                reader.line(&rest, writer)?;
            }
        }
        // Aider adds its own output after an answer.
        if let Some(session) = &mut reader.session
            && !file.rest.allows(false, &mut file.held)
        {
            session.user.clear();
        }
        reader.end(file.with_tail, writer)?;
        file.new_offset = lines.offset();
        Ok(())
    }
}

struct Reader {
    prefix: String,
    session: Option<Session>,
    // Aider writes the local time.
    zone: TimeZone,
    now: Timestamp,
}

struct Session {
    label: String,
    started: Timestamp,
    is_created: bool,
    head: Option<TurnRef>,
    turns: i64,
    user: String,
    output: String,
    answer: String,
    model: Option<String>,
    usage: Option<Usage>,
}

impl Reader {
    fn line(&mut self, line: &str, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let line = line.trim_end_matches('\r');
        if let Some(time) = line.strip_prefix("# aider chat started at ") {
            self.end(true, writer)?;
            let started = time.trim().parse::<DateTime>().ok();
            let started = started.and_then(|it| it.to_zoned(self.zone.clone()).ok());
            let label: String = time
                .trim()
                .chars()
                .map(|one| if one.is_whitespace() { 'T' } else { one })
                .collect();
            let label = cut_label(&format!("{}:{label}", self.prefix));
            // The ids of turns depend on this time, which must not change when the
            // time zone of the computer does.
            let started = match writer.store().session(&label) {
                Ok(stored) => stored.created_at,
                Err(StoreError::NotFound { .. }) => started.map_or(self.now, |it| it.timestamp()),
                Err(error) => return Err(error.into()),
            };
            self.session = Some(Session {
                label,
                started,
                is_created: false,
                head: None,
                turns: 0,
                user: String::new(),
                output: String::new(),
                answer: String::new(),
                model: None,
                usage: None,
            });
            return Ok(());
        }
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        // A heading of the answer has no space after the fourth sign.
        let said = line.strip_prefix("#### ");
        if let Some(said) = said.or_else(|| (line == "####").then_some("")) {
            // A question of several lines has the mark on each of them.
            if !session.answer.trim().is_empty() {
                session.write(TurnStatus::Completed, writer)?;
            }
            add_line(&mut session.user, said.trim());
        } else if let Some(output) = line.strip_prefix('>') {
            let output = output.trim();
            session.learn(output);
            add_line(&mut session.output, output);
        } else if !session.user.is_empty() {
            add_line(&mut session.answer, line.trim_end());
        }
        Ok(())
    }

    fn end(&mut self, with_tail: bool, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let Some(mut session) = self.session.take() else {
            return Ok(());
        };
        let is_answered = !session.answer.trim().is_empty();
        match (is_answered, with_tail) {
            (true, _) => session.write(TurnStatus::Completed, writer)?,
            (false, true) => session.write(TurnStatus::Pending, writer)?,
            (false, false) => {}
        }
        if session.is_created {
            writer.head(&session.label, session.head, "imported", session.at())?;
        }
        Ok(())
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

impl Session {
    fn at(&self) -> Timestamp {
        // The file has the time of the session only.
        let at = self.started.as_millisecond() + self.turns;
        Timestamp::from_millisecond(at).unwrap_or(self.started)
    }

    /// Learns from a line of aider's own output.
    fn learn(&mut self, output: &str) {
        for start in ["Main model: ", "Model: "] {
            if let Some(rest) = output.strip_prefix(start) {
                let name = rest.split_whitespace().next();
                self.model = name.map(str::to_owned).or(self.model.take());
            }
        }
        if let Some(rest) = output.strip_prefix("Tokens: ") {
            let number = |word: &str| {
                let before = rest.split_once(word)?.0;
                tokens(before.split_whitespace().next_back()?)
            };
            let Some(sent) = number(" sent") else {
                return;
            };
            let cached = number(" cache hit").unwrap_or(0);
            let written = number(" cache write").unwrap_or(0);
            // A turn has several calls if aider asks again, for example to fix
            // an edit. The numbers are rounded.
            let before = self.usage.unwrap_or(Usage {
                input_tokens: 0,
                output_tokens: 0,
                cached_input_tokens: 0,
                cache_write_tokens: 0,
                reasoning_tokens: 0,
            });
            self.usage = Some(Usage {
                input_tokens: before.input_tokens + sent.max(cached + written),
                output_tokens: before.output_tokens + number(" received").unwrap_or(0),
                cached_input_tokens: before.cached_input_tokens + cached,
                cache_write_tokens: before.cache_write_tokens + written,
                reasoning_tokens: 0,
            });
        }
    }

    fn write(&mut self, status: TurnStatus, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let user = std::mem::take(&mut self.user);
        let output = std::mem::take(&mut self.output);
        let answer = std::mem::take(&mut self.answer);
        if user.trim().is_empty() {
            return Ok(());
        }
        let mut messages: Vec<Message> = vec![text(MessageRole::User, user.trim())];
        if !output.trim().is_empty() {
            messages.push(text(MessageRole::System, output.trim()));
        }
        if !answer.trim().is_empty() {
            messages.push(text(MessageRole::Assistant, answer.trim()));
        }
        if !self.is_created {
            self.is_created = true;
            let new = NewSession {
                label: self.label.clone(),
                task: title(&user),
                ..NewSession::default()
            };
            writer.session(new, None, self.started)?;
        }
        let is_done = status == TurnStatus::Completed;
        let turn = NewTurn {
            messages,
            model: self.model.clone(),
            usage: self.usage.take(),
            stop_reason: is_done.then_some(StopReason::EndTurn),
            status: (!is_done).then_some(status),
            ..NewTurn::default()
        };
        let at = self.at();
        self.turns += 1;
        self.head = writer.turn(&self.label, self.head, turn, at)?;
        Ok(())
    }
}

/// Reads a number such as `3.2k`.
fn tokens(text: &str) -> Option<u64> {
    let text = text.trim_matches(',');
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1000.0),
        None => match text.strip_suffix(['M', 'm']) {
            Some(number) => (number, 1_000_000.0),
            None => (text, 1.0),
        },
    };
    let number: f64 = number.replace(',', "").parse().ok()?;
    (0.0..1e12)
        .contains(&number)
        .then(|| (number * factor).round() as u64)
}
