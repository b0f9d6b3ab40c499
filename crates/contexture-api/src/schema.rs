//! Checks JSON values against the schemas in the OpenAPI document.
//!
//! Derived readers are more lenient than the document: they accept a list of an
//! object's values for the object, and their messages name Rust types. This
//! module checks names, types, lengths of lists and ranges of numbers. Patterns,
//! lengths of strings and conditions are checked by the library, whose errors
//! have advice.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::Location;
use jsonschema::{Draft, JsonType, Keyword, Registry, ValidationError, Validator};
use serde_json::{Map, Value, json};

/// Schemas by name.
pub(crate) type Definitions = Map<String, Value>;

/// The address of the document with all schemas. Nothing is fetched from it.
const DOCUMENT: &str = "contexture:///schemas";

/// The keyword that replaces `anyOf` and `oneOf`. Its value is the index of the
/// union.
const UNION: &str = "x-union";

/// The most names that a message about an unknown field lists.
const MOST_NAMES: usize = 12;

/// The longest name that is compared with known ones: comparing takes time with
/// the product of both lengths.
const LONGEST_NAME: usize = 60;

/// Compiled schemas.
///
/// `jsonschema` reports a failed union with every error of every alternative, and
/// each error owns a copy of the value it is about. A small body could fill the
/// memory that way. Unions are therefore cut out: each alternative is compiled by
/// itself, and only its first error is computed. A value that matches is
/// never copied.
pub struct Schemas {
    /// The schemas that were compiled, each under its name in `$defs`.
    document: Value,
    roots: BTreeMap<String, Root>,
    unions: Arc<Unions>,
}

struct Root {
    definition: String,
    validator: Validator,
}

/// The alternatives of each union. Set once all of them are compiled: one may
/// hold the union itself.
#[derive(Default)]
struct Unions(OnceLock<Vec<Vec<Alternative>>>);

struct Alternative {
    definition: String,
    /// Fields with constant values, by which this alternative is recognised.
    tags: Vec<(String, Vec<Value>)>,
    validator: Validator,
}

/// A value that does not match its schema: its position, and the expected form.
#[derive(Debug)]
pub(crate) struct SchemaError {
    /// The field, such as `messages[2].content`. Empty for the value itself.
    pub(crate) path: String,
    pub(crate) message: String,
    /// The kinds of value that are allowed, if the value has another type or
    /// another value in the field that distinguishes alternatives.
    expected: Vec<String>,
    /// The fields that are allowed, if the field is unknown.
    known: Vec<String>,
}

impl Schemas {
    /// Compiles the schemas in `roots`, which may refer to `definitions`.
    ///
    /// Panics when a schema is invalid: all of them are made from our own types.
    pub fn compile<'a>(
        definitions: &Map<String, Value>,
        roots: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Self {
        let mut plain = Plain::new(definitions);
        let roots: Vec<(String, String)> = roots
            .into_iter()
            .map(|(name, schema)| {
                (
                    name.to_owned(),
                    plain.define(&format!("root.{name}"), schema),
                )
            })
            .collect();
        let Plain { defs, unions, .. } = plain;
        let document = json!({"$defs": defs});
        let registry = Registry::new()
            .draft(Draft::Draft202012)
            .add(DOCUMENT, &document)
            .and_then(|registry| registry.prepare())
            .expect("schemas made from types refer to each other only");
        let compiled = Arc::new(Unions::default());
        let weak = Arc::downgrade(&compiled);
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_registry(&registry)
            .with_keyword(UNION, move |_, index, _| {
                let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
                Ok(Box::new(Union {
                    all: Weak::clone(&weak),
                    index: index.unwrap_or_default(),
                }))
            });
        let validator = |definition: &str| {
            options
                .build(&json!({"$ref": format!("{DOCUMENT}#/$defs/{definition}")}))
                .expect("schemas made from types are valid")
        };
        let alternative = |definition: String| Alternative {
            tags: tags(&document, &definition),
            validator: validator(&definition),
            definition,
        };
        let unions = unions
            .into_iter()
            .map(|union| union.into_iter().map(alternative).collect());
        // Set for the first time here, so that it cannot fail.
        let _ = compiled.0.set(unions.collect());
        let roots = roots.into_iter().map(|(name, definition)| {
            let validator = validator(&definition);
            let root = Root {
                definition,
                validator,
            };
            (name, root)
        });
        let roots = roots.collect();
        drop(options);
        drop(registry);
        Self {
            document,
            roots,
            unions: compiled,
        }
    }

    /// Checks a value against the schema of that name. A name that no schema has
    /// allows no value.
    pub(crate) fn check(&self, name: &str, value: &Value) -> Result<(), SchemaError> {
        let Some(root) = self.roots.get(name) else {
            return Err(SchemaError::new(format!("unknown schema `{name}`")));
        };
        // Much faster than asking for the first error.
        if root.validator.is_valid(value) {
            return Ok(());
        }
        self.first_error(&root.validator, value).map_or(Ok(()), Err)
    }

    /// Writes numbers such as 5.0 as 5 where the schema of that name describes
    /// integers: readers made from types accept only those.
    pub(crate) fn write_integers(&self, name: &str, value: &mut Value) {
        if let Some(root) = self.roots.get(name) {
            self.integers_in(self.definition(&root.definition), value);
        }
    }

    fn definition(&self, name: &str) -> &Value {
        &self.document["$defs"][name]
    }

    fn first_error(&self, validator: &Validator, value: &Value) -> Option<SchemaError> {
        let error = validator.validate(value).err()?;
        let (path, at) = locate(value, error.instance_path());
        let wrong = match error.kind() {
            ValidationErrorKind::Type { kind } => must_be(types(kind)),
            ValidationErrorKind::Constant { expected_value } => {
                must_be(vec![expected_value.to_string()])
            }
            ValidationErrorKind::Enum { options } => {
                let options = options.as_array().into_iter().flatten();
                must_be(options.map(Value::to_string).collect())
            }
            ValidationErrorKind::Minimum { limit } => {
                SchemaError::new(format!("must be at least {limit}"))
            }
            ValidationErrorKind::Maximum { limit } => {
                SchemaError::new(format!("must be at most {limit}"))
            }
            ValidationErrorKind::MinItems { limit } => {
                SchemaError::new(format!("must have at least {}", items(*limit)))
            }
            ValidationErrorKind::MaxItems { limit } => {
                SchemaError::new(format!("must have at most {}", items(*limit)))
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                SchemaError::new("missing required field").inside(name)
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let name = unexpected.first().map_or("", String::as_str);
                self.unknown_field(name, error.schema_path())
            }
            // An object that may have no fields at all.
            ValidationErrorKind::FalseSchema => {
                let name = at.as_object().and_then(|fields| fields.keys().next());
                self.unknown_field(name.map_or("", String::as_str), error.schema_path())
            }
            ValidationErrorKind::Custom { message, .. } => {
                let index = message.parse().unwrap_or_default();
                self.likeliest_error(self.unions.alternatives(index), at)
            }
            _ => SchemaError::new("does not match its schema"),
        };
        Some(wrong.inside(&path))
    }

    /// Returns what is wrong with the alternative that was most probably meant:
    /// one of the right kind, and of those the one with the deepest error.
    fn likeliest_error(&self, alternatives: &[Alternative], value: &Value) -> SchemaError {
        let errors =
            alternatives
                .iter()
                .filter_map(|alternative| match alternative.other_tag(value) {
                    Some((name, values)) => {
                        let values = values.iter().map(Value::to_string).collect();
                        let mut error = must_be(values);
                        error.path = name.clone();
                        Some(error)
                    }
                    None => self.first_error(&alternative.validator, value),
                });
        let (others, alike): (Vec<_>, Vec<_>) = errors.partition(SchemaError::is_of_another_kind);
        // The first of the deepest.
        let meant = (0..alike.len()).rev().max_by_key(|i| alike[*i].depth());
        if let Some(meant) = meant {
            let mut alike = alike;
            let mut meant = alike.remove(meant);
            // If the field is unknown in all of them, the message lists the fields of all.
            if alike.iter().all(|other| !other.known.is_empty()) {
                let others = alike.into_iter().filter(|other| other.path == meant.path);
                let others = others.flat_map(|other| other.known);
                let known = distinct(meant.known.iter().cloned().chain(others));
                if !meant.known.is_empty() && known.len() > meant.known.len() {
                    let name = meant.path.rsplit('.').next().unwrap_or_default();
                    meant.message = unknown_field(name, &known);
                    meant.known = known;
                }
            }
            return meant;
        }
        // The value is of none of these kinds: the message lists them.
        let path = others.first().map(|first| first.path.clone());
        let path = path.unwrap_or_default();
        let others = others.into_iter().filter(|other| other.path == path);
        let expected = distinct(others.flat_map(|other| other.expected));
        SchemaError {
            path,
            ..must_be(expected)
        }
    }

    fn unknown_field(&self, name: &str, keyword: &Location) -> SchemaError {
        let object = keyword
            .as_str()
            .rsplit_once('/')
            .map_or("", |(object, _)| object);
        let known = self.document.pointer(object);
        let known = known.and_then(|object| object.get("properties")?.as_object());
        let known = known.into_iter().flatten().map(|(name, _)| name.clone());
        let known: Vec<String> = known.collect();
        SchemaError {
            known: known.clone(),
            ..SchemaError::new(unknown_field(name, &known))
        }
        .inside(name)
    }

    fn integers_in(&self, schema: &Value, value: &mut Value) {
        let Some(schema) = schema.as_object() else {
            return;
        };
        if let Some(Value::String(to)) = schema.get("$ref") {
            self.integers_in(self.definition(definition_name(to)), value);
        }
        for schema in schema
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.integers_in(schema, value);
        }
        if let Some(index) = schema.get(UNION).and_then(Value::as_u64) {
            let index = usize::try_from(index).unwrap_or_default();
            for alternative in self.unions.alternatives(index) {
                if alternative.matches(value) {
                    self.integers_in(self.definition(&alternative.definition), value);
                }
            }
        }
        let allows = |name: &str| match schema.get("type") {
            Some(Value::String(known)) => known == name,
            Some(Value::Array(known)) => known.iter().any(|known| known == name),
            _ => false,
        };
        match value {
            Value::Number(number) if allows("integer") && !allows("number") => {
                if let Some(integer) = number
                    .as_f64()
                    .filter(|_| number.is_f64())
                    .and_then(integer)
                {
                    *value = integer;
                }
            }
            Value::Object(fields) => {
                let described = schema.get("properties").and_then(Value::as_object);
                let others = schema.get("additionalProperties");
                for (name, field) in fields {
                    let schema = described.and_then(|described| described.get(name));
                    if let Some(schema) = schema.or(others) {
                        self.integers_in(schema, field);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = schema.get("items") {
                    for item in items {
                        self.integers_in(schema, item);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns each of the names once, in the order in which they first appear.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

impl Unions {
    fn alternatives(&self, index: usize) -> &[Alternative] {
        let union = self.0.get().and_then(|all| all.get(index));
        union.map_or(&[], Vec::as_slice)
    }
}

impl Alternative {
    fn matches(&self, value: &Value) -> bool {
        self.other_tag(value).is_none() && self.validator.is_valid(value)
    }

    /// Returns the field that shows that `value` is meant to be of another
    /// alternative, and the values that the field has in this one.
    fn other_tag(&self, value: &Value) -> Option<&(String, Vec<Value>)> {
        let fields = value.as_object()?;
        self.tags.iter().find(|(name, values)| {
            let value = fields.get(name);
            value.is_some_and(|value| !values.contains(value))
        })
    }
}

/// Checks that a value matches one of a union's alternatives. The error that it
/// returns holds the index of the union.
struct Union {
    // Each alternative may hold this union.
    all: Weak<Unions>,
    index: usize,
}

impl<'i> Keyword<'i> for Union {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.is_valid(value) {
            true => Ok(()),
            false => Err(ValidationError::custom(self.index.to_string())),
        }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.all.upgrade().is_some_and(|all| {
            let mut alternatives = all.alternatives(self.index).iter();
            alternatives.any(|alternative| alternative.matches(value))
        })
    }
}

impl SchemaError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            path: String::new(),
            message: message.into(),
            expected: Vec::new(),
            known: Vec::new(),
        }
    }

    fn inside(mut self, outer: &str) -> Self {
        if outer.is_empty() {
            return self;
        }
        self.path = match self.path.as_str() {
            "" => outer.to_owned(),
            path if path.starts_with('[') => format!("{outer}{path}"),
            path => format!("{outer}.{path}"),
        };
        // The value around it is of the right kind.
        self.expected.clear();
        self
    }

    fn is_of_another_kind(&self) -> bool {
        !self.expected.is_empty()
    }

    fn depth(&self) -> usize {
        self.path.matches(['.', '[']).count()
    }
}

fn must_be(expected: Vec<String>) -> SchemaError {
    SchemaError {
        path: String::new(),
        message: format!("must be {}", one_of(&expected)),
        expected,
        known: Vec::new(),
    }
}

/// Returns the message about an unknown field of an object with these fields.
fn unknown_field(name: &str, known: &[String]) -> String {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    match nearest(name, &names) {
        Some(meant) => format!("unknown field; did you mean `{meant}`?"),
        None if known.is_empty() => "unknown field; the object has no fields".to_owned(),
        None if known.len() <= MOST_NAMES => {
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("unknown field; expected {}", one_of(&known))
        }
        None => "unknown field; see the fields in `/openapi.json`".to_owned(),
    }
}

fn one_of(names: &[String]) -> String {
    match names {
        [names @ .., last] if !names.is_empty() => format!("{} or {last}", names.join(", ")),
        names => names.concat(),
    }
}

fn items(count: u64) -> String {
    match count {
        1 => "1 item".to_owned(),
        count => format!("{count} items"),
    }
}

fn types(kind: &TypeKind) -> Vec<String> {
    let name = |kind: JsonType| match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    };
    let mut kinds: Vec<JsonType> = match kind {
        TypeKind::Single(kind) => vec![*kind],
        TypeKind::Multiple(kinds) => kinds.iter().collect(),
    };
    kinds.sort_by_key(|kind| matches!(kind, JsonType::Null));
    kinds
        .into_iter()
        .map(|kind| name(kind).to_owned())
        .collect()
}

/// Returns the value at a JSON pointer, and the pointer as a path such as
/// `messages[2].content`.
fn locate<'v>(value: &'v Value, pointer: &Location) -> (String, &'v Value) {
    let (mut path, mut at) = (String::new(), value);
    for part in pointer.as_str().split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let inner = match at {
            Value::Array(items) => {
                path = format!("{path}[{part}]");
                part.parse().ok().and_then(|index: usize| items.get(index))
            }
            at => {
                path = match path.as_str() {
                    "" => part.clone(),
                    path => format!("{path}.{part}"),
                };
                at.get(&part)
            }
        };
        at = inner.unwrap_or(&Value::Null);
    }
    (path, at)
}

/// Returns the name of `known` that is most like `name`, if one is.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let likeness = |known: &&'k str| (strsim::jaro_winkler(name, known), *known);
    let near = known
        .iter()
        .map(likeness)
        .filter(|(likeness, _)| *likeness > 0.8);
    near.max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Returns a whole number as an integer, if there is one that large.
fn integer(number: f64) -> Option<Value> {
    // Two to the power of 63 and of 64: the first that are too large.
    const SIGNED: f64 = 9_223_372_036_854_775_808.0;
    const UNSIGNED: f64 = 18_446_744_073_709_551_616.0;
    match number {
        number if number.fract() != 0.0 => None,
        number if (-SIGNED..SIGNED).contains(&number) => Some(Value::from(number as i64)),
        number if (SIGNED..UNSIGNED).contains(&number) => Some(Value::from(number as u64)),
        _ => None,
    }
}

/// Returns the fields that distinguish values of a schema from those of others.
fn tags(document: &Value, definition: &str) -> Vec<(String, Vec<Value>)> {
    let mut tags = Vec::new();
    let mut next = Some(definition);
    while let Some(schema) = next.and_then(|name| document["$defs"].get(name)) {
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten() {
            let values = match (field.get("const"), field.get("enum")) {
                (Some(only), _) => vec![only.clone()],
                (None, Some(Value::Array(values)))
                    if matches!(name.as_str(), "type" | "kind" | "action") =>
                {
                    values.clone()
                }
                _ => continue,
            };
            tags.push((name.clone(), values));
        }
        next = schema
            .get("$ref")
            .and_then(Value::as_str)
            .map(definition_name);
    }
    tags
}

fn definition_name(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

/// Schemas reduced to the keywords that are checked here.
struct Plain<'a> {
    known: &'a Definitions,
    defs: Map<String, Value>,
    /// The definitions of each union's alternatives.
    unions: Vec<Vec<String>>,
}

impl<'a> Plain<'a> {
    fn new(known: &'a Definitions) -> Self {
        let mut plain = Self {
            known,
            defs: Map::new(),
            unions: Vec::new(),
        };
        for (name, schema) in known {
            plain.define(name, schema);
        }
        plain
    }

    fn define(&mut self, name: &str, schema: &Value) -> String {
        let schema = self.schema(schema);
        self.defs.insert(name.to_owned(), schema);
        name.to_owned()
    }

    fn schema(&mut self, schema: &Value) -> Value {
        let Some(from) = schema.as_object() else {
            return schema.clone();
        };
        let mut to = Map::new();
        let mut all = Vec::new();
        for (keyword, value) in from {
            match (keyword.as_str(), value) {
                (
                    "type" | "const" | "enum" | "minimum" | "maximum" | "minItems" | "maxItems",
                    value,
                ) => {
                    to.insert(keyword.clone(), value.clone());
                }
                ("$ref", Value::String(reference)) => {
                    let name = definition_name(reference);
                    if self.known.contains_key(name) {
                        to.insert(keyword.clone(), format!("#/$defs/{name}").into());
                    }
                }
                ("properties", Value::Object(fields)) => {
                    let fields = fields
                        .iter()
                        .map(|(name, field)| (name.clone(), self.schema(field)));
                    let fields: Map<String, Value> = fields.collect();
                    to.insert(keyword.clone(), fields.into());
                }
                ("additionalProperties" | "items", schema) => {
                    let schema = self.schema(schema);
                    to.insert(keyword.clone(), schema);
                }
                ("allOf", Value::Array(schemas)) => {
                    all.extend(schemas.iter().map(|schema| self.schema(schema)));
                }
                ("anyOf" | "oneOf", Value::Array(alternatives)) => {
                    all.push(self.union(alternatives));
                }
                _ => {}
            }
        }
        // After the fields that there are: a misspelt one is reported as unknown
        // and not as missing.
        if let Some(required) = from.get("required") {
            all.insert(0, json!({"required": required}));
        }
        if !all.is_empty() {
            to.insert("allOf".to_owned(), all.into());
        }
        to.into()
    }

    /// `oneOf` is checked as `anyOf`: reading decides between two alternatives
    /// that both match.
    fn union(&mut self, alternatives: &[Value]) -> Value {
        let values = |schema: &Value| match (schema.get("const"), schema.get("enum")) {
            (Some(only), _) => Some(vec![only.clone()]),
            (None, Some(Value::Array(values))) => Some(values.clone()),
            _ => None,
        };
        let values: Option<Vec<Vec<Value>>> = alternatives.iter().map(values).collect();
        if let Some(values) = values {
            return json!({"enum": values.concat()});
        }
        let index = self.unions.len();
        self.unions.push(Vec::new());
        for (i, alternative) in alternatives.iter().enumerate() {
            let name = self.define(&format!("union.{index}.{i}"), alternative);
            self.unions[index].push(name);
        }
        json!({UNION: index})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions(schemas: Value) -> Definitions {
        match schemas {
            Value::Object(schemas) => schemas,
            _ => Definitions::new(),
        }
    }

    fn compiled(schemas: Value, root: &Value) -> Schemas {
        Schemas::compile(&definitions(schemas), [("root", root)])
    }

    fn checked(schemas: &Schemas, value: &Value) -> String {
        match schemas.check("root", value) {
            Ok(()) => "valid".to_owned(),
            Err(SchemaError { path, message, .. }) => format!("{path}: {message}"),
        }
    }

    #[test]
    fn a_list_is_rejected_where_an_object_is_expected() {
        let schemas = compiled(
            json!({
                "Message": {
                    "type": "object",
                    "properties": {
                        "content": {"anyOf": [
                            {"type": "string"},
                            {"type": "array", "items": {"$ref": "#/components/schemas/Block"}},
                        ]},
                        "tokens": {"type": ["integer", "null"]},
                        "lines": {"type": "array", "minItems": 1, "maxItems": 2},
                        "count": {"type": "integer", "minimum": 1, "maximum": i64::MAX},
                    },
                },
                "Block": {"oneOf": [
                    {"type": "object", "properties": {"text": {"type": "string"}}},
                ]},
            }),
            &json!({"$ref": "#/components/schemas/Message"}),
        );
        for (value, expected) in [
            (json!({"content": "x", "tokens": 3, "other": []}), "valid"),
            (json!({"content": [{"text": "x"}], "tokens": null}), "valid"),
            (json!({"lines": [1, 2]}), "valid"),
            (json!({"count": i64::MAX}), "valid"),
            (json!(["x", 3]), ": must be an object"),
            (
                json!({"content": 3}),
                "content: must be a string or an array",
            ),
            (json!({"content": [["x"]]}), "content[0]: must be an object"),
            (
                json!({"content": [{"text": 1}]}),
                "content[0].text: must be a string",
            ),
            (json!({"tokens": 1.5}), "tokens: must be an integer or null"),
            (json!({"lines": []}), "lines: must have at least 1 item"),
            (
                json!({"lines": [1, 2, 3]}),
                "lines: must have at most 2 items",
            ),
            (json!({"count": 0}), "count: must be at least 1"),
            (
                json!({"count": i64::MAX as u64 + 1}),
                "count: must be at most 9223372036854775807",
            ),
        ] {
            assert_eq!(checked(&schemas, &value), expected, "{value}");
        }
    }

    #[test]
    fn errors_refer_to_the_likeliest_alternative() {
        let schemas = compiled(
            json!({
                "Pin": {
                    "type": "object",
                    "properties": {"action": {"const": "pin"}, "what": {"type": "string"}},
                    "required": ["action", "what"],
                    "additionalProperties": false,
                },
                "Stash": {
                    "type": "object",
                    "properties": {"action": {"const": "stash"}, "name": {"type": "string"}},
                    "required": ["action", "name"],
                    "additionalProperties": false,
                },
            }),
            &json!({"type": "object", "properties": {"changes": {
                "type": "array",
                "items": {"oneOf": [
                    {"$ref": "#/components/schemas/Pin"},
                    {"$ref": "#/components/schemas/Stash"},
                ]},
            }}}),
        );
        for (change, expected) in [
            (json!({"action": "pin", "what": "x"}), "valid"),
            (
                json!({"action": "stash"}),
                "changes[0].name: missing required field",
            ),
            (
                json!({"action": "pin", "what": "x", "name": "y"}),
                "changes[0].name: unknown field; expected `action` or `what`",
            ),
            (
                json!({"action": "pin", "waht": "x"}),
                "changes[0].waht: unknown field; did you mean `what`?",
            ),
            (
                json!({"action": "drop"}),
                "changes[0].action: must be \"pin\" or \"stash\"",
            ),
            (json!([]), "changes[0]: must be an object"),
            (
                json!({"action": "pin", "what": 1}),
                "changes[0].what: must be a string",
            ),
        ] {
            let value = json!({"changes": [{"action": "pin", "what": "x"}, change]});
            let expected = expected.replace("[0]", "[1]");
            assert_eq!(checked(&schemas, &value), expected, "{value}");
        }
    }

    #[test]
    fn patterns_and_string_lengths_are_not_checked() {
        let schemas = compiled(
            json!({"Mode": {"oneOf": [
                {"type": "string", "enum": ["a", "b"]},
                {"type": "string", "const": "c", "description": "The third."},
            ]}}),
            &json!({
                "type": "object",
                "properties": {
                    "label": {"type": "string", "pattern": "^a", "minLength": 3},
                    "mode": {"anyOf": [{"$ref": "#/components/schemas/Mode"}, {"type": "null"}]},
                    "none": {"type": "object", "additionalProperties": false},
                    "numbers": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "elsewhere": {"$ref": "#/components/schemas/Unknown"},
                },
                "required": ["label"],
            }),
        );
        for (value, expected) in [
            // The library's errors about these are more precise.
            (json!({"label": "b", "mode": null, "elsewhere": 3}), "valid"),
            (json!({"label": "b", "mode": "c", "none": {}}), "valid"),
            (
                json!({"label": "b", "mode": "d"}),
                r#"mode: must be "a", "b", "c" or null"#,
            ),
            (
                json!({"label": "b", "none": {"a": 1}}),
                "none.a: unknown field; the object has no fields",
            ),
            (
                json!({"label": "b", "numbers": {"a/b~c": "x"}}),
                "numbers.a/b~c: must be an integer",
            ),
            (
                json!({"label": "b", "numbers": {"2": "x"}}),
                "numbers.2: must be an integer",
            ),
            (json!({}), "label: missing required field"),
        ] {
            assert_eq!(checked(&schemas, &value), expected, "{value}");
        }
        assert!(schemas.check("another", &json!({})).is_err());
    }

    #[test]
    fn a_union_can_contain_itself() {
        let schemas = compiled(
            json!({"Tree": {"anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
            ]}}),
            &json!({"$ref": "#/components/schemas/Tree"}),
        );
        let mut value = json!("leaf");
        for _ in 0..60 {
            value = json!([value, "leaf"]);
        }
        assert_eq!(checked(&schemas, &value), "valid");
        let value = json!(["leaf", ["leaf", [3]]]);
        assert_eq!(
            checked(&schemas, &value),
            "[1][1][0]: must be a string or an array"
        );
        // Each item is wrong in the same way, and the first is reported.
        let value = Value::Array(vec![json!(3); 100_000]);
        assert_eq!(
            checked(&schemas, &value),
            "[0]: must be a string or an array"
        );
    }
}
