//! A part of jq's language: enough to read JSON, with bounded work.
//!
//! The whole language can loop without end and build values without end, which
//! a server must not do for a caller. This part has paths, lists of paths,
//! pipes, `select`, `map`, objects and a few functions. It has no definitions,
//! no recursion but `..`, and no arithmetic.
//!
//! | Expression | Yields |
//! |---|---|
//! | `.`, `.a.b`, `."a b"`, `.["a"]` | the value, a field |
//! | `.[2]`, `.[-1]`, `.[2:5]`, `.[]` | an element, a slice, every element |
//! | `..` | the value and every value inside it |
//! | `a \| b`, `a, b`, `(a)` | pipe, both, grouping |
//! | `{id, name: .a.b}` | an object |
//! | `select(.n > 3)`, `map(.id)` | what meets a condition, a list |
//! | `keys`, `length`, `type`, `first`, `last`, `has("a")`, `test("regex")` | as in jq |

use std::borrow::Cow;
use std::cmp::Ordering;

use regex::Regex;
use serde_json::{Map, Value};

use crate::part::compile;

/// The longest expression, in bytes.
const MOST_BYTES: usize = 1000;

/// The deepest nesting of an expression.
const MOST_DEPTH: usize = 32;

/// The maximum number of intermediate values of an expression.
const MOST_VALUES: usize = 1_000_000;

enum Filter {
    Identity,
    Everything,
    Field(Box<Filter>, String),
    Index(Box<Filter>, i64),
    Slice(Box<Filter>, Option<i64>, Option<i64>),
    Each(Box<Filter>),
    Pipe(Box<Filter>, Box<Filter>),
    Both(Box<Filter>, Box<Filter>),
    Object(Vec<(String, Filter)>),
    Select(Box<Filter>),
    Map(Box<Filter>),
    Compare(Box<Filter>, Comparison, Box<Filter>),
    Literal(Value),
    Has(String),
    Test(Regex),
    Keys,
    Length,
    Type,
    First,
    Last,
}

#[derive(Clone, Copy)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Returns the output of `expression` for `value`.
pub(crate) fn evaluate(expression: &str, value: &Value) -> Result<Vec<Value>, String> {
    if expression.len() > MOST_BYTES {
        return Err(format!("is longer than {MOST_BYTES} bytes"));
    }
    let mut reader = Reader {
        text: expression,
        at: 0,
        depth: 0,
    };
    let filter = reader.pipe()?;
    reader.end()?;
    let mut left = MOST_VALUES;
    let values = filter.run(Cow::Borrowed(value), &mut left)?;
    Ok(values.into_iter().map(Cow::into_owned).collect())
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Reads `mark` if it comes next.
    fn take(&mut self, mark: &str) -> bool {
        self.space();
        let is_there = self.rest().starts_with(mark);
        self.at += if is_there { mark.len() } else { 0 };
        is_there
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        match self.take(mark) {
            true => Ok(()),
            false => Err(self.wrong(&format!("expected `{mark}`"))),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.space();
        match self.rest().is_empty() {
            true => Ok(()),
            false => Err(self.wrong("not understood")),
        }
    }

    fn wrong(&self, what: &str) -> String {
        let rest: String = self.rest().chars().take(20).collect();
        match rest.is_empty() {
            true => format!("{what} at the end of the expression"),
            false => format!("{what} at `{rest}`"),
        }
    }

    fn pipe(&mut self) -> Result<Filter, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(format!("is nested more than {MOST_DEPTH} levels deep"));
        }
        let mut filter = self.both()?;
        while self.take("|") {
            filter = Filter::Pipe(filter.into(), self.both()?.into());
        }
        self.depth -= 1;
        Ok(filter)
    }

    fn both(&mut self) -> Result<Filter, String> {
        let mut filter = self.comparison()?;
        while self.take(",") {
            filter = Filter::Both(filter.into(), self.comparison()?.into());
        }
        Ok(filter)
    }

    fn comparison(&mut self) -> Result<Filter, String> {
        let left = self.path()?;
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::More),
        ];
        for (mark, comparison) in comparisons {
            if self.take(mark) {
                let right = self.path()?;
                return Ok(Filter::Compare(left.into(), comparison, right.into()));
            }
        }
        Ok(left)
    }

    /// Reads a term with its suffixes: `.a[0].b`.
    fn path(&mut self) -> Result<Filter, String> {
        let mut filter = self.term()?;
        loop {
            if self.rest().starts_with('[') {
                filter = self.bracket(filter)?;
            } else if self.rest().starts_with('?') {
                self.at += 1;
            } else if self.rest().starts_with('.') && !self.rest().starts_with("..") {
                self.at += 1;
                filter = match self.rest().starts_with('[') {
                    true => self.bracket(filter)?,
                    false => Filter::Field(filter.into(), self.name()?),
                };
            } else {
                return Ok(filter);
            }
        }
    }

    fn term(&mut self) -> Result<Filter, String> {
        self.space();
        if self.take("..") {
            return Ok(Filter::Everything);
        }
        if self.rest().starts_with('.') {
            self.at += 1;
            let next = self.rest().chars().next();
            return match next {
                Some(c) if c == '"' || is_name(c) => {
                    Ok(Filter::Field(Filter::Identity.into(), self.name()?))
                }
                _ => Ok(Filter::Identity),
            };
        }
        if self.take("(") {
            let inner = self.pipe()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.take("{") {
            return self.object();
        }
        if self
            .rest()
            .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
        {
            return self.literal().map(Filter::Literal);
        }
        let word: String = self.rest().chars().take_while(|c| is_name(*c)).collect();
        let before = self.at;
        self.at += word.len();
        Ok(match word.as_str() {
            "keys" => Filter::Keys,
            "length" => Filter::Length,
            "type" => Filter::Type,
            "first" => Filter::First,
            "last" => Filter::Last,
            "true" => Filter::Literal(true.into()),
            "false" => Filter::Literal(false.into()),
            "null" => Filter::Literal(Value::Null),
            "select" | "map" => {
                self.expect("(")?;
                let inner = Box::new(self.pipe()?);
                self.expect(")")?;
                match word.as_str() {
                    "map" => Filter::Map(inner),
                    _ => Filter::Select(inner),
                }
            }
            "has" | "test" => {
                self.expect("(")?;
                self.space();
                let text = self.string()?;
                self.expect(")")?;
                match word.as_str() {
                    "has" => Filter::Has(text),
                    _ => Filter::Test(compile(&text)?),
                }
            }
            _ => {
                self.at = before;
                return Err(self.wrong(
                    "expected a path such as `.a[0]`, or one of `keys`, `length`, `type`, `first`, \
                     `last`, `has`, `test`, `select` and `map`,",
                ));
            }
        })
    }

    fn bracket(&mut self, of: Filter) -> Result<Filter, String> {
        self.expect("[")?;
        self.space();
        if self.take("]") {
            return Ok(Filter::Each(of.into()));
        }
        if self.rest().starts_with('"') {
            let key = self.string()?;
            self.expect("]")?;
            return Ok(Filter::Field(of.into(), key));
        }
        let from = self.number()?;
        let filter = match self.take(":") {
            true => Filter::Slice(of.into(), from, self.number()?),
            false => match from {
                Some(index) => Filter::Index(of.into(), index),
                None => return Err(self.wrong("expected a number or a key")),
            },
        };
        self.expect("]")?;
        Ok(filter)
    }

    fn object(&mut self) -> Result<Filter, String> {
        let mut fields = Vec::new();
        loop {
            self.space();
            let key = self.name()?;
            let value = match self.take(":") {
                true => self.comparison()?,
                false => Filter::Field(Filter::Identity.into(), key.clone()),
            };
            fields.push((key, value));
            if self.take("}") {
                return Ok(Filter::Object(fields));
            }
            self.expect(",")?;
        }
    }

    /// Reads a key: a word or a string.
    fn name(&mut self) -> Result<String, String> {
        if self.rest().starts_with('"') {
            return self.string();
        }
        let name: String = self.rest().chars().take_while(|c| is_name(*c)).collect();
        if name.is_empty() {
            return Err(self.wrong("expected a key"));
        }
        self.at += name.len();
        Ok(name)
    }

    fn string(&mut self) -> Result<String, String> {
        match self.literal()? {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong("expected a string in double quotes before")),
        }
    }

    fn number(&mut self) -> Result<Option<i64>, String> {
        self.space();
        let is_digit = |c: &char| *c == '-' || c.is_ascii_digit();
        let digits: String = self.rest().chars().take_while(is_digit).collect();
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits
            .parse()
            .map_err(|_| self.wrong("expected a number"))?;
        self.at += digits.len();
        Ok(Some(number))
    }

    fn literal(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let length = match rest.starts_with('"') {
            // A string ends at the first quotation mark that is not escaped.
            true => {
                let mut is_escaped = false;
                let end = rest.char_indices().skip(1).find(|(_, c)| {
                    let ends = *c == '"' && !is_escaped;
                    is_escaped = *c == '\\' && !is_escaped;
                    ends
                });
                end.map_or(rest.len(), |(at, _)| at + 1)
            }
            false => {
                let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                rest.find(|c| !is_number(c)).unwrap_or(rest.len())
            }
        };
        match serde_json::from_str(&rest[..length]) {
            Ok(value) => {
                self.at += length;
                Ok(value)
            }
            Err(_) => Err(self.wrong("expected a string or a number")),
        }
    }
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

type Values<'v> = Vec<Cow<'v, Value>>;

impl Filter {
    fn run<'v>(&self, value: Cow<'v, Value>, left: &mut usize) -> Result<Values<'v>, String> {
        let found = match self {
            Filter::Identity => vec![value],
            Filter::Literal(literal) => vec![Cow::Owned(literal.clone())],
            Filter::Everything => everything(value, left)?,
            Filter::Pipe(first, then) => {
                let mut found = Vec::new();
                for value in first.run(value, left)? {
                    found.extend(then.run(value, left)?);
                }
                found
            }
            Filter::Both(one, other) => {
                let mut found = one.run(value.clone(), left)?;
                found.extend(other.run(value, left)?);
                found
            }
            Filter::Field(of, key) => {
                let each = |value: Cow<'v, Value>| match value {
                    Cow::Borrowed(Value::Object(map)) => Ok(map.get(key).map(Cow::Borrowed)),
                    Cow::Owned(Value::Object(mut map)) => Ok(map.remove(key).map(Cow::Owned)),
                    value if value.is_null() => Ok(None),
                    value => Err(format!("`.{key}` is not possible: it is {}", a(&value))),
                };
                let values = of.run(value, left)?.into_iter().map(each);
                let values = values.map(|found| found.map(|found| found.unwrap_or_else(null)));
                values.collect::<Result<_, _>>()?
            }
            Filter::Index(of, index) => {
                let each = |value: Cow<'v, Value>| match value {
                    Cow::Borrowed(Value::Array(list)) => {
                        Ok(at(list.len(), *index).map(|at| Cow::Borrowed(&list[at])))
                    }
                    Cow::Owned(Value::Array(mut list)) => {
                        Ok(at(list.len(), *index).map(|at| Cow::Owned(list.swap_remove(at))))
                    }
                    value if value.is_null() => Ok(None),
                    value => Err(format!("`.[{index}]` is not possible: it is {}", a(&value))),
                };
                let values = of.run(value, left)?.into_iter().map(each);
                let values = values.map(|found| found.map(|found| found.unwrap_or_else(null)));
                values.collect::<Result<_, _>>()?
            }
            Filter::Slice(of, from, to) => {
                let mut found = Vec::new();
                for value in of.run(value, left)? {
                    let Value::Array(list) = &*value else {
                        return Err(format!("a slice is not possible: it is {}", a(&value)));
                    };
                    let bound = |index: i64| match index {
                        0.. => (index as usize).min(list.len()),
                        _ => list.len().saturating_sub(index.unsigned_abs() as usize),
                    };
                    let from = from.map_or(0, bound);
                    let to = to.map_or(list.len(), bound).max(from);
                    found.push(Cow::Owned(list[from..to].to_vec().into()));
                }
                found
            }
            Filter::Each(of) => {
                let mut found = Vec::new();
                for value in of.run(value, left)? {
                    found.extend(elements(value)?);
                }
                found
            }
            Filter::Object(fields) => {
                let mut map = Map::new();
                for (key, of) in fields {
                    let first = of.run(value.clone(), left)?.into_iter().next();
                    map.insert(key.clone(), first.unwrap_or_else(null).into_owned());
                }
                vec![Cow::Owned(map.into())]
            }
            Filter::Select(condition) => {
                let met = condition.run(value.clone(), left)?;
                let met = met.iter().any(|met| is_true(met));
                if met { vec![value] } else { Vec::new() }
            }
            Filter::Map(each) => {
                let mut list = Vec::new();
                for value in elements(value)? {
                    let found = each.run(value, left)?;
                    list.extend(found.into_iter().map(Cow::into_owned));
                }
                vec![Cow::Owned(list.into())]
            }
            Filter::Compare(one, comparison, other) => {
                let one = one.run(value.clone(), left)?.into_iter().next();
                let other = other.run(value, left)?.into_iter().next();
                let (one, other) = (one.unwrap_or_else(null), other.unwrap_or_else(null));
                vec![Cow::Owned(compare(&one, *comparison, &other).into())]
            }
            Filter::Has(key) => {
                let has = value.get(key).is_some();
                vec![Cow::Owned(has.into())]
            }
            Filter::Test(regex) => match value.as_str() {
                Some(text) => vec![Cow::Owned(regex.is_match(text).into())],
                None => return Err(format!("`test` is not possible: it is {}", a(&value))),
            },
            Filter::Keys => vec![Cow::Owned(match &*value {
                Value::Object(map) => {
                    let mut keys: Vec<&String> = map.keys().collect();
                    keys.sort();
                    keys.into_iter()
                        .map(|key| Value::from(key.as_str()))
                        .collect()
                }
                Value::Array(list) => (0..list.len()).map(Value::from).collect(),
                value => return Err(format!("`keys` is not possible: it is {}", a(value))),
            })],
            Filter::Length => vec![Cow::Owned(match &*value {
                Value::Null => 0.into(),
                Value::String(text) => text.chars().count().into(),
                Value::Array(list) => list.len().into(),
                Value::Object(map) => map.len().into(),
                value => return Err(format!("`length` is not possible: it is {}", a(value))),
            })],
            Filter::Type => vec![Cow::Owned(type_of(&value).into())],
            Filter::First | Filter::Last => {
                let index = if matches!(self, Filter::First) { 0 } else { -1 };
                let of = Box::new(Filter::Identity);
                return Filter::Index(of, index).run(value, left);
            }
        };
        *left = left
            .checked_sub(found.len())
            .ok_or("yields more than 1,000,000 values; select fewer")?;
        Ok(found)
    }
}

fn null<'v>() -> Cow<'v, Value> {
    Cow::Owned(Value::Null)
}

fn at(length: usize, index: i64) -> Option<usize> {
    let at = match index {
        0.. => usize::try_from(index).ok()?,
        _ => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (at < length).then_some(at)
}

fn elements(value: Cow<'_, Value>) -> Result<Values<'_>, String> {
    match value {
        Cow::Borrowed(Value::Array(list)) => Ok(list.iter().map(Cow::Borrowed).collect()),
        Cow::Borrowed(Value::Object(map)) => Ok(map.values().map(Cow::Borrowed).collect()),
        Cow::Owned(Value::Array(list)) => Ok(list.into_iter().map(Cow::Owned).collect()),
        Cow::Owned(Value::Object(map)) => Ok(map
            .into_iter()
            .map(|(_, value)| Cow::Owned(value))
            .collect()),
        value => Err(format!("`.[]` is not possible: it is {}", a(&value))),
    }
}

/// Returns a value and every value inside it, outer values first.
fn everything<'v>(value: Cow<'v, Value>, left: &mut usize) -> Result<Values<'v>, String> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        *left = left
            .checked_sub(1)
            .ok_or("yields more than 1,000,000 values; select fewer")?;
        if let Ok(inside) = elements(value.clone()) {
            open.extend(inside.into_iter().rev());
        }
        found.push(value);
    }
    Ok(found)
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn compare(one: &Value, comparison: Comparison, other: &Value) -> bool {
    let order = match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => one.as_f64().partial_cmp(&other.as_f64()),
        },
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => None,
    };
    let is_equal = order.map_or(one == other, Ordering::is_eq);
    match comparison {
        Comparison::Equal => is_equal,
        Comparison::NotEqual => !is_equal,
        Comparison::Less => order.is_some_and(Ordering::is_lt),
        Comparison::AtMost => order.is_some_and(Ordering::is_le),
        Comparison::More => order.is_some_and(Ordering::is_gt),
        Comparison::AtLeast => order.is_some_and(Ordering::is_ge),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the type of a value with its article.
fn a(value: &Value) -> String {
    match type_of(value) {
        "null" => "null".to_owned(),
        name @ ("array" | "object") => format!("an {name}"),
        name => format!("a {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: &[&str]) {
        let value = serde_json::json!({
            "name": "pool",
            "a b": 1,
            "items": [
                {"id": 1, "tags": ["x"], "name": "one"},
                {"id": 2, "tags": [], "name": "two"},
                {"id": 3, "name": null}
            ]
        });
        let found = evaluate(expression, &value).unwrap();
        let found: Vec<String> = found.iter().map(Value::to_string).collect();
        assert_eq!(found, expected, "{expression}");
    }

    #[test]
    fn expressions_yield_what_jq_yields() {
        check(".name", &["\"pool\""]);
        check(".[\"a b\"], .\"a b\", .absent", &["1", "1", "null"]);
        check(".items[0].id", &["1"]);
        check(".items[-1].id", &["3"]);
        check(".items[9]", &["null"]);
        check(".items[1:] | length", &["2"]);
        check(".items[].id", &["1", "2", "3"]);
        check(".items | map(.id)", &["[1,2,3]"]);
        check(".items[] | select(.id >= 2) | .name", &["\"two\"", "null"]);
        check(".items[] | select(.name == \"one\") | .id", &["1"]);
        check(
            ".items[] | select(has(\"tags\")) | .tags | length",
            &["1", "0"],
        );
        check(
            ".items[:2][] | select(.name | test(\"^t\")) | {id, n: .name}",
            &["{\"id\":2,\"n\":\"two\"}"],
        );
        check("keys", &["[\"a b\",\"items\",\"name\"]"]);
        check(".items | first | keys | last", &["\"tags\""]);
        check(".items[2] | ..", &["{\"id\":3,\"name\":null}", "3", "null"]);
    }

    #[test]
    fn wrong_expressions_say_where() {
        let value = serde_json::json!({"a": 1});
        for (expression, told) in [
            ("", "at the end of the expression"),
            (".a |", "at the end of the expression"),
            (".a[", "expected a number or a key at the end"),
            (".a.b", "`.b` is not possible: it is a number"),
            (".[0]", "`.[0]` is not possible: it is an object"),
            ("def f: f; f", "expected a path such as `.a[0]`"),
            (".a + 1", "not understood at `+ 1`"),
            ("select(.a", "expected `)` at the end"),
            ("test(\"(\")", "is not a regular expression"),
            (".a | test(\"x\")", "`test` is not possible: it is a number"),
        ] {
            let error = evaluate(expression, &value).unwrap_err();
            assert!(error.contains(told), "{expression}: {error}");
        }
        let deep = "(".repeat(900);
        assert!(evaluate(&deep, &value).unwrap_err().contains("nested"));
        assert!(
            evaluate(&".".repeat(1001), &value)
                .unwrap_err()
                .contains("longer")
        );
    }

    #[test]
    fn work_is_bounded() {
        let list: Vec<Value> = (0..2_000).map(Value::from).collect();
        let value = Value::from(vec![Value::from(list); 2]);
        let many = format!("..{}", ", ..".repeat(100));
        let error = evaluate(&format!("({many}) | ({many})"), &value).unwrap_err();
        assert!(error.contains("more than 1,000,000 values"), "{error}");
    }
}
