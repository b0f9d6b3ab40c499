//! [`ModelTable`]: limits and prices of models, as text that is searched in
//! place.
//!
//! A row is a line with tab-separated fields, and rows are sorted by name. A
//! lookup is a binary search over the text, so a process that needs one model
//! does not read the others.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use contexture_core::Tokens;

use super::names::key;
use super::{Prices, Provider};

/// The first line of a table.
const TITLE: &str = "# Contexture model table 1";

/// The names of the fields of a row, in order.
const FIELDS: [&str; 9] = [
    "name",
    "provider",
    "family",
    "window",
    "max_output",
    "input",
    "output",
    "cached_input",
    "cache_write",
];

/// Limits and prices of models, with the date and the source of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelTable {
    text: Cow<'static, str>,
    // The position at which the rows begin.
    rows: usize,
}

/// A row of a [`ModelTable`].
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRow {
    /// The name.
    pub name: String,
    /// The provider whose API the model is called through.
    pub provider: Provider,
    /// The family, such as `claude-sonnet`.
    pub family: String,
    /// The input limit, in tokens.
    pub window: Tokens,
    /// The output limit, in tokens.
    pub max_output: Option<Tokens>,
    /// The price of a million input tokens in dollars.
    pub input: Option<f64>,
    /// The price of a million output tokens.
    pub output: Option<f64>,
    /// The price of a million input tokens read from the cache.
    pub cached_input: Option<f64>,
    /// The price of a million input tokens written to the cache.
    pub cache_write: Option<f64>,
}

impl ModelRow {
    /// Returns the prices, or `None` if input or output has none. Cached input
    /// without a price of its own costs as much as other input.
    pub fn prices(&self) -> Option<Prices> {
        let (input, output) = (self.input?, self.output?);
        Some(Prices {
            input,
            cached_input: self.cached_input.unwrap_or(input),
            cache_write: self.cache_write.unwrap_or(input),
            output,
        })
    }

    fn parse(line: &str) -> Result<Self, (&'static str, String)> {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[
            name,
            provider,
            family,
            window,
            max_output,
            input,
            output,
            cached,
            written,
        ] = fields.as_slice()
        else {
            let what = format!("has {} fields instead of {}", fields.len(), FIELDS.len());
            return Err(("row", what));
        };
        if name.is_empty() {
            return Err(("name", "is empty".to_owned()));
        }
        let tokens = |field, text: &str| match text.parse::<Tokens>() {
            Ok(tokens) if tokens > 0 => Ok(tokens),
            _ => Err((
                field,
                format!("must be a whole number, at least 1, but is `{text}`"),
            )),
        };
        let dollars = |field, text: &str| match text.parse::<f64>() {
            _ if text.is_empty() => Ok(None),
            Ok(price) if price.is_finite() && price >= 0.0 => Ok(Some(price)),
            _ => Err((
                field,
                format!("must be a price in dollars, at least 0, but is `{text}`"),
            )),
        };
        Ok(Self {
            name: name.to_owned(),
            provider: Provider::parse(provider).ok_or_else(|| {
                let what =
                    format!("must be anthropic, openai, gemini or other, but is `{provider}`");
                ("provider", what)
            })?,
            family: family.to_owned(),
            window: tokens("window", window)?,
            max_output: match max_output {
                "" => None,
                limit => Some(tokens("max_output", limit)?),
            },
            input: dollars("input", input)?,
            output: dollars("output", output)?,
            cached_input: dollars("cached_input", cached)?,
            cache_write: dollars("cache_write", written)?,
        })
    }

    fn write(&self, out: &mut String) {
        let tokens = |n: Option<Tokens>| n.map_or_else(String::new, |n| n.to_string());
        let price = |n: Option<f64>| n.map_or_else(String::new, |n| n.to_string());
        let fields = [
            self.name.clone(),
            self.provider.name().to_owned(),
            self.family.clone(),
            self.window.to_string(),
            tokens(self.max_output),
            price(self.input),
            price(self.output),
            price(self.cached_input),
            price(self.cache_write),
        ];
        out.push_str(&fields.join("\t"));
        out.push('\n');
    }
}

/// An error in the text of a [`ModelTable`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    line: usize,
    field: &'static str,
    what: String,
}

impl TableError {
    /// Returns the number of the line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the error without its line, for a table that is not a file.
    pub(super) fn without_line(&self) -> String {
        format!("{}: {}", self.field, self.what)
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.field, self.what)
    }
}

impl std::error::Error for TableError {}

impl ModelTable {
    /// Returns the table that is part of the program.
    pub fn built_in() -> Self {
        let text = include_str!("table.tsv");
        Self {
            rows: rows_start(text),
            text: Cow::Borrowed(text),
        }
    }

    /// Reads the text of a table and checks every row.
    ///
    /// Fails with the line and the field of the first error.
    pub fn parse(text: String) -> Result<Self, TableError> {
        let error = |line, field, what: &str| TableError {
            line,
            field,
            what: what.to_owned(),
        };
        if text.lines().next() != Some(TITLE) {
            return Err(error(1, "title", &format!("must be `{TITLE}`")));
        }
        let table = Self {
            rows: rows_start(&text),
            text: Cow::Owned(text),
        };
        let is_date = |date: &str| {
            let parts: Vec<&str> = date.split('-').collect();
            let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
            lengths == [4, 2, 2] && parts.concat().bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_date(table.date()) {
            return Err(error(2, "date", "must be a date such as 2026-11-16"));
        }
        let first = table.text[..table.rows].lines().count() + 1;
        let mut before: Option<&str> = None;
        for (at, line) in table.lines().enumerate() {
            let number = first + at;
            let row = ModelRow::parse(line).map_err(|(field, what)| TableError {
                line: number,
                field,
                what,
            })?;
            let name = &line[..row.name.len()];
            if before.is_some_and(|before| !key(before).lt(key(name))) {
                let what = format!("`{name}` is not sorted, or appears twice");
                return Err(error(number, "name", &what));
            }
            before = Some(name);
        }
        if before.is_none() {
            return Err(error(first, "row", "the table has no models"));
        }
        Ok(table)
    }

    /// Returns the table of these rows. A name that occurs twice has the first
    /// row.
    pub fn new(date: &str, source: &str, mut rows: Vec<ModelRow>) -> Self {
        rows.sort_by(|a, b| key(&a.name).cmp(key(&b.name)));
        rows.dedup_by(|b, a| key(&a.name).eq(key(&b.name)));
        let source = source.replace(['\n', '\t'], " ");
        let mut text = format!("{TITLE}\n# date\t{date}\n# source\t{source}\n");
        text.push_str("# ");
        text.push_str(&FIELDS.join("\t"));
        text.push('\n');
        for row in &rows {
            row.write(&mut text);
        }
        Self {
            rows: rows_start(&text),
            text: Cow::Owned(text),
        }
    }

    /// Returns the table as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the date of the data, such as `2026-11-16`.
    pub fn date(&self) -> &str {
        self.header("# date\t")
    }

    /// Returns the source of the data.
    pub fn source(&self) -> &str {
        self.header("# source\t")
    }

    fn header(&self, name: &str) -> &str {
        let mut lines = self.text[..self.rows].lines();
        lines
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default()
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.text[self.rows..].lines()
    }

    /// Returns the rows, sorted by name.
    pub fn rows(&self) -> impl Iterator<Item = ModelRow> {
        self.lines().filter_map(|line| ModelRow::parse(line).ok())
    }

    /// Returns the row of that name, in which `4.5` and `4-5` are the same.
    pub fn find(&self, name: &str) -> Option<ModelRow> {
        let text = &self.text[self.rows..];
        let (mut low, mut high) = (0, text.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let start = text.as_bytes()[..middle]
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |at| at + 1);
            let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
            let line = &text[start..end];
            let found = line.split('\t').next().unwrap_or_default();
            match key(name).cmp(key(found)) {
                Ordering::Equal => return ModelRow::parse(line).ok(),
                Ordering::Less => high = start,
                Ordering::Greater => low = (end + 1).min(text.len()),
            }
        }
        None
    }
}

fn rows_start(text: &str) -> usize {
    let comments = text.split_inclusive('\n');
    comments
        .take_while(|line| line.starts_with('#'))
        .map(str::len)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ModelTable {
        let row = |name: &str, window| ModelRow {
            name: name.to_owned(),
            provider: Provider::OpenAi,
            family: "a".to_owned(),
            window,
            max_output: None,
            input: Some(1.5),
            output: Some(3.0),
            cached_input: None,
            cache_write: None,
        };
        let rows = vec![row("a-2.5", 7), row("b", 8), row("a", 9), row("a-2-5", 6)];
        ModelTable::new("2026-01-02", "a test", rows)
    }

    #[test]
    fn every_row_is_found_by_its_name() {
        for table in [table(), ModelTable::built_in()] {
            for row in table.rows() {
                assert_eq!(table.find(&row.name).as_ref(), Some(&row));
            }
            assert_eq!(table.find("no such model"), None);
            assert_eq!(table.find(""), None);
        }
        assert_eq!(table().find("A-2-5").unwrap().window, 7);
        assert_eq!(table().rows().count(), 3);
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        for table in [table(), ModelTable::built_in()] {
            assert_eq!(ModelTable::parse(table.text().to_owned()).unwrap(), table);
        }
        assert_eq!((table().date(), table().source()), ("2026-01-02", "a test"));
    }

    #[test]
    fn an_error_names_line_and_field() {
        let good = table().text().to_owned();
        for (from, to, message) in [
            (
                "table 1",
                "table 2",
                "line 1: title: must be `# Contexture model table 1`",
            ),
            (
                "2026-01-02",
                "today",
                "line 2: date: must be a date such as 2026-11-16",
            ),
            (
                "\t9\t",
                "\t0\t",
                "line 5: window: must be a whole number, at least 1, but is `0`",
            ),
            (
                "\t7\t\t1.5",
                "\t7\t\t-1",
                "line 6: input: must be a price in dollars, at least 0, but is `-1`",
            ),
            (
                "b\topenai",
                "b\tacme",
                "line 7: provider: must be anthropic, openai, gemini or other, but is `acme`",
            ),
            ("b\topenai", "b", "line 7: row: has 8 fields instead of 9"),
            (
                "b\topenai",
                "A\topenai",
                "line 7: name: `A` is not sorted, or appears twice",
            ),
        ] {
            let text = good.replacen(from, to, 1);
            assert_eq!(ModelTable::parse(text).unwrap_err().to_string(), message);
        }
    }
}
