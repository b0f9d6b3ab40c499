//! How two versions of the settings differ, for a program that reads them again.

use serde_json::{Map, Value};

use super::Config;
use crate::error::Error;

impl Config {
    /// Returns the names of the settings that differ, in the order of names: a setting
    /// of a table is `server.log`. A table that only one of them has is one name.
    pub fn differences(&self, other: &Self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        compare("", &value(self)?, &value(other)?, &mut names);
        Ok(names)
    }

    /// Returns every setting with its value as JSON, by its name in the file.
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut entries = Vec::new();
        flatten("", &value(self).unwrap_or_default(), &mut entries);
        entries
    }

    /// Returns these settings with the values of `other` for the settings and tables
    /// of those names.
    pub fn with_values_of(&self, other: &Self, names: &[&str]) -> Result<Self, Error> {
        let (mut own, other) = (value(self)?, value(other)?);
        for name in names {
            let pointer = format!("/{}", name.replace('.', "/"));
            if let (Some(own), Some(other)) = (own.pointer_mut(&pointer), other.pointer(&pointer)) {
                own.clone_from(other);
            }
        }
        serde_json::from_value(own).map_err(|error| failed(&error))
    }
}

fn flatten(path: &str, value: &Value, entries: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                flatten(&path, value, entries);
            }
        }
        Value::Null => entries.push((path.to_owned(), "(not set)".to_owned())),
        value => entries.push((path.to_owned(), value.to_string())),
    }
}

fn value(config: &Config) -> Result<Value, Error> {
    serde_json::to_value(config).map_err(|error| failed(&error))
}

fn failed(error: &serde_json::Error) -> Error {
    Error::input(format!("the settings cannot be compared: {error}"))
}

fn compare(name: &str, one: &Value, other: &Value, names: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => compare_tables(name, one, other, names),
        (one, other) if one != other => names.push(name.to_owned()),
        _ => {}
    }
}

fn compare_tables(
    name: &str,
    one: &Map<String, Value>,
    other: &Map<String, Value>,
    names: &mut Vec<String>,
) {
    let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let name = match name {
            "" => key.clone(),
            name => format!("{name}.{key}"),
        };
        let (one, other) = (one.get(key), other.get(key));
        let missing = Value::Null;
        compare(
            &name,
            one.unwrap_or(&missing),
            other.unwrap_or(&missing),
            names,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        Config::parse(text).unwrap()
    }

    #[test]
    fn differences_are_named() {
        let one = read("model = \"a\"\n[server]\nlog = \"off\"\n[models.mine]\nwindow = 5\n");
        let other =
            read("[server]\nlog = \"off\"\nrate_burst = 7\n[server.quota]\nmax_bytes = 9\n");
        assert_eq!(one.differences(&one).unwrap(), [""; 0]);
        assert_eq!(
            one.differences(&other).unwrap(),
            [
                "model",
                "models.mine",
                "server.quota.max_bytes",
                "server.rate_burst"
            ]
        );
    }

    #[test]
    fn values_of_other_settings_are_copied_by_name() {
        let one = read(
            "model = \"a\"\n[server]\naddr = \"[::1]:1\"\nlog = \"off\"\n[store]\npool_size = 3\n",
        );
        let other = read("model = \"b\"\n[server]\naddr = \"[::1]:2\"\n[store]\npool_size = 4\n");
        let mixed = one
            .with_values_of(&other, &["server.addr", "store"])
            .unwrap();
        assert_eq!(mixed.differences(&other).unwrap(), ["model", "server.log"]);
        assert_eq!(
            mixed.differences(&one).unwrap(),
            ["server.addr", "store.pool_size"]
        );
    }
}
