//! `docs/configuration.md` is made from the code: every setting with its type,
//! default, range and effect.
//!
//! `UPDATE_DOCS=1 cargo nextest run -p contexture-cli -E 'binary(configuration)'`
//! writes the page anew.

use std::fmt::Write as _;
use std::path::Path;

use contexture::config::Config;
use serde_json::Value;

const HEAD: &str = "\
# Configuration reference

`contexture.toml` in the root of a project holds the settings. Every setting has a default. \
`contexture doctor --all` prints the effective value of each setting and where it is set. An \
unknown setting is an error.

Some settings run commands, name endpoints or send environment variables. They are inactive in \
a project until you [trust](trust.md) its file; the table says so. Settings of `[server]` can also \
be set in the environment: `CONTEXTURE_SERVER_` and the name in capitals, for example \
`CONTEXTURE_SERVER_ADDR`. A flag of a command comes before the environment, and the environment \
before the file.

This page is generated from the code.
";

/// Reads a schema with the schemas that it refers to.
struct Page<'s> {
    root: &'s Value,
    out: String,
}

impl<'s> Page<'s> {
    /// Follows references, and leaves out that a value may be missing.
    fn resolve(&self, mut schema: &'s Value) -> &'s Value {
        loop {
            if let Some(name) = schema["$ref"].as_str() {
                let name = name.trim_start_matches("#/$defs/");
                schema = &self.root["$defs"][name];
            } else if let Some(any) = schema["anyOf"].as_array()
                && any.len() == 2
                && any.iter().any(|one| one["type"] == "null")
            {
                let is_value = |one: &&Value| one["type"] != "null";
                schema = any.iter().find(is_value).expect("one of two is a value");
            } else {
                return schema;
            }
        }
    }

    /// Writes a table of settings, and then the tables inside it.
    fn table(&mut self, name: &str, about: &str, schema: &'s Value) {
        let properties = schema["properties"]
            .as_object()
            .expect("a table of settings");
        let mut rows = String::new();
        let mut tables: Vec<(String, &str, &'s Value)> = Vec::new();
        for (key, property) in properties {
            let about = property["description"].as_str();
            let resolved = self.resolve(property);
            let about = about
                .or(resolved["description"].as_str())
                .unwrap_or_default();
            let path = match name {
                "" => key.clone(),
                name => format!("{name}.{key}"),
            };
            let entries = &resolved["additionalProperties"];
            if resolved["properties"].is_object() {
                tables.push((path, about, resolved));
            } else if entries.is_object() && self.resolve(entries)["properties"].is_object() {
                tables.push((format!("{path}.NAME"), about, self.resolve(entries)));
            } else {
                self.row(&mut rows, (key, about), property, schema);
                // A setting that is a value or a table has both.
                let either = resolved["anyOf"].as_array().into_iter().flatten();
                let either = either.map(|one| self.resolve(one));
                let is_table = |one: &&Value| one["properties"].is_object();
                let found = either.filter(is_table).map(|one| {
                    let about = one["description"].as_str().unwrap_or_default();
                    (path.clone(), about, one)
                });
                tables.extend(found);
            }
        }
        if !rows.is_empty() {
            let heading = match name {
                "" => "Top level".to_owned(),
                name => format!("`[{name}]`"),
            };
            let _ = write!(self.out, "\n## {heading}\n\n{}\n\n", sentence(about));
            self.out
                .push_str("| Setting | Type | Default | Effect |\n|---|---|---|---|\n");
            self.out.push_str(&rows);
        }
        for (path, about, schema) in tables {
            self.table(&path, about, schema);
        }
    }

    /// Writes the row of one setting. `owner` is the schema of its table.
    fn row(
        &self,
        rows: &mut String,
        (key, about): (&str, &str),
        property: &'s Value,
        owner: &Value,
    ) {
        let schema = self.resolve(property);
        let kind = self.kind(schema);
        let default = property.get("default").or(schema.get("default"));
        let (effect, described) = split_default(&sentence(about));
        let is_required = owner["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|name| name == key));
        let default = match (default.map(shown), described) {
            (Some(value), None) if !value.is_empty() => value,
            (_, Some(described)) => described,
            _ if is_required => "required".to_owned(),
            _ => "none".to_owned(),
        };
        let _ = writeln!(rows, "| `{key}` | {kind} | {default} | {effect} |");
    }

    fn kind(&self, schema: &'s Value) -> String {
        let choices = schema["enum"].as_array().or(schema["oneOf"].as_array());
        if let Some(choices) = choices {
            let name = |choice: &Value| match choice.get("const").unwrap_or(choice) {
                Value::String(name) => format!("`\"{name}\"`"),
                other => self.kind_of(other),
            };
            let names: Vec<String> = choices.iter().map(name).collect();
            return names.join(", ");
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let kinds: Vec<String> = any.iter().map(|one| self.kind(self.resolve(one))).collect();
            return kinds.join(" or ");
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null"),
            kind => Some(kind),
        };
        let limit = |name: &str| schema.get(name).filter(|limit| **limit != 0).map(number);
        let range = match (limit("minimum"), limit("maximum")) {
            (Some(least), Some(most)) => format!(", {least} to {most}"),
            (Some(least), None) => format!(", {least} or more"),
            // A number from 0 on is the usual case.
            (None, Some(most)) if schema["type"] == "number" => format!(", 0 to {most}"),
            _ => String::new(),
        };
        match kind.and_then(Value::as_str).unwrap_or("any") {
            "array" => format!("list of {}s", self.kind(self.resolve(&schema["items"]))),
            "object" => "table".to_owned(),
            kind => format!("{kind}{range}"),
        }
    }

    fn kind_of(&self, schema: &Value) -> String {
        schema["type"].as_str().unwrap_or("any").to_owned()
    }
}

/// Returns a number without a fraction of zero, in groups of three digits.
fn number(value: &Value) -> String {
    match value.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => {
            contexture::core::grouped(float as u64)
        }
        _ => value.to_string(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        // The settings of a table have defaults of their own.
        Value::Null | Value::Object(_) => String::new(),
        value if value.is_f64() => format!("`{}`", value.as_f64().unwrap_or_default()),
        value => format!("`{value}`"),
    }
}

/// Takes the sentence `Default: …` out of a description, and returns the rest
/// and the default.
fn split_default(about: &str) -> (String, Option<String>) {
    let Some((before, rest)) = about.split_once("Default: ") else {
        return (about.to_owned(), None);
    };
    let (default, after) = match rest.split_once(". ") {
        Some((default, after)) => (default, after),
        None => (rest.trim_end_matches('.'), ""),
    };
    let effect = format!("{before}{after}");
    (effect.trim_end().to_owned(), Some(default.to_owned()))
}

/// Returns a comment of the code as one line.
fn sentence(about: &str) -> String {
    about
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[test]
fn the_configuration_reference_is_that_of_the_code() {
    let schema = schemars::schema_for!(Config);
    let schema = serde_json::to_value(&schema).expect("a schema is JSON");
    let mut page = Page {
        root: &schema,
        out: HEAD.to_owned(),
    };
    page.table("", "Settings before the first `[table]`.", &schema);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page.out).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/configuration.md is there");
    assert_eq!(
        written, page.out,
        "docs/configuration.md is out of date: run with UPDATE_DOCS=1"
    );
}
