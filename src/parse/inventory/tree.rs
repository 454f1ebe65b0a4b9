//! YAML as a tree in which every key and value knows its line and column.
//!
//! A tree instead of serde's derived structs: unknown and repeated keys, wrong types and broken rules can then all
//! be reported at once, each at its own place, in the same words.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{MessageFormatter, Spanned};

use super::problem::{Place, Problem};
use crate::model::command::printable;

/// Nesting allowed in the file; the inventory itself needs three levels.
const MAX_DEPTH: usize = 24;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

/// What a YAML value can be here.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float,
    Text(String),
    List(Vec<Node>),
    /// In the order of the file, repeated keys included.
    Map(Vec<(Node, Node)>),
}

impl Value {
    /// For "expected …, found …".
    pub(super) fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".to_owned(),
            Value::Bool(b) => format!("`{b}`"),
            Value::Int(i) => format!("the number {i}"),
            Value::Float => "a number".to_owned(),
            Value::Text(t) => format!("the text `{}`", shown(t)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Text of the file in a message: one line, short, safe to print.
pub(super) fn shown(text: &str) -> String {
    let line: String = text.chars().take(60).collect::<String>().replace(['\n', '\t'], " ");
    let dots = if line.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", printable(&line))
}

/// Parses the whole file.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let options = serde_yaml::options! {
        // Repeated keys are kept so that they can be reported with both places.
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::PassThrough,
        // `name: no` and `user: on` are names, not booleans.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        budget: serde_yaml::budget! { max_depth: MAX_DEPTH, max_nodes: 100_000 },
    };
    serde_yaml::from_str_with_options::<Node>(text, options).map_err(|error| {
        let error = error.without_snippet();
        let at = error.location().map_or(Place { line: 1, column: 1 }, Place::from);
        let message = serde_yaml::UserMessageFormatter.format_message(error);
        let message = printable(&message.split_whitespace().collect::<Vec<_>>().join(" "));
        Problem::new(at, format!("this is not valid YAML: {message}"))
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Node { at: Place::from(spanned.referenced), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a number, a list or a mapping")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Int(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Int(v.into()))
    }

    fn visit_i128<E>(self, v: i128) -> Result<Value, E> {
        Ok(Value::Int(v))
    }

    fn visit_u128<E>(self, v: u128) -> Result<Value, E> {
        Ok(i128::try_from(v).map_or(Value::Float, Value::Int))
    }

    fn visit_f64<E>(self, _v: f64) -> Result<Value, E> {
        Ok(Value::Float)
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::Text(v.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Node>()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry::<Node, Node>()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}
