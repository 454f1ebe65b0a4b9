//! Reads the keys of one mapping: types, unknown and repeated keys.

use super::problem::{Place, Problem};
use super::tree::{Node, Value, shown};

/// A value that was read, and where.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) at: Place,
    pub(super) value: T,
}

/// Every section and its keys, in the order people are told them.
pub(super) const KEYS: &[(&str, &[&str])] = &[
    ("", &["rack", "ssh", "nodes", "network", "agent", "runtime", "paths"]),
    ("ssh", &["user", "port", "identity", "known_hosts", "jump", "use_config"]),
    ("nodes", &["name", "host", "slot", "port", "user", "identity", "agent_port", "root"]),
    ("network", &["pool"]),
    ("agent", &["port"]),
    ("runtime", &["model", "backend", "over", "parallel", "python", "api", "trust_remote_code", "nodes"]),
    ("runtime.api", &["listen"]),
    ("paths", &["root", "install"]),
];

/// A mapping of the file, opened for reading.
pub(super) struct Section<'a> {
    /// Path of the section: `runtime.api`, `nodes`; empty for the top.
    path: &'static str,
    pub(super) at: Place,
    entries: Vec<(&'a str, &'a Node)>,
    /// Something in it was not understood: what seems to be missing may stand there under another name.
    pub(super) unclear: bool,
}

impl<'a> Section<'a> {
    /// A section that is not in the file: every key has its default.
    pub(super) fn absent(path: &'static str) -> Self {
        Section { path, at: Place { line: 1, column: 1 }, entries: Vec::new(), unclear: false }
    }

    /// Opens a mapping and reports keys that are unknown or repeated. `null` is an empty mapping.
    pub(super) fn open(path: &'static str, node: &'a Node, problems: &mut Vec<Problem>) -> Self {
        let mut section = Section { path, at: node.at, entries: Vec::new(), unclear: false };
        let map = match &node.value {
            Value::Map(map) => map,
            Value::Null => {
                // A file without any value ends, for the YAML reader, behind its comments.
                return if path.is_empty() { Section::absent(path) } else { section };
            }
            other => {
                let keys = list(known(path));
                let what = match path {
                    "" => "expected a mapping".to_owned(),
                    "nodes" => "`nodes`: expected each node as a mapping".to_owned(),
                    path => format!("`{path}`: expected a mapping"),
                };
                section.unclear = true;
                problems
                    .push(Problem::new(node.at, format!("{what} with the keys {keys}, found {}", other.describe())));
                return section;
            }
        };
        let mut first: Vec<(&str, Place)> = Vec::new();
        for (key, value) in map {
            let Value::Text(name) = &key.value else {
                section.unclear = true;
                problems.push(section.unknown_key(key.at, &key.value.describe()));
                continue;
            };
            if let Some((_, place)) = first.iter().find(|(n, _)| n == name) {
                let message = section.of(&format!("the key `{}` stands twice", shown(name)));
                let hint = format!("it stands first in line {}; keep one of the two", place.line);
                problems.push(Problem::new(key.at, message).hint(hint));
                continue;
            }
            first.push((name, key.at));
            if known(path).contains(&name.as_str()) {
                section.entries.push((name, value));
            } else {
                section.unclear = true;
                problems.push(section.unknown_key(key.at, name));
            }
        }
        section
    }

    /// `message`, with the section's name.
    fn of(&self, message: &str) -> String {
        match self.path {
            "" => message.to_owned(),
            path => format!("{message} in `{path}`"),
        }
    }

    fn unknown_key(&self, at: Place, name: &str) -> Problem {
        let keys = known(self.path);
        let message = self.of(&format!("unknown key `{}`", shown(name)));
        let problem = Problem::new(at, format!("{message}; expected one of {}", list(keys)));
        match suggestion(self.path, name) {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    /// The value of a key; `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        let (_, node) = self.entries.iter().find(|(k, _)| *k == key)?;
        Some(node).copied().filter(|n| n.value != Value::Null)
    }

    /// `section.key` for messages.
    fn name(&self, key: &str) -> String {
        match self.path {
            "" => format!("`{key}`"),
            "nodes" => format!("`{key}` of a node"),
            path => format!("`{path}.{key}`"),
        }
    }

    fn wrong(&self, key: &str, expected: &str, node: &Node) -> Problem {
        let message = format!("{}: expected {expected}, found {}", self.name(key), node.value.describe());
        Problem::new(node.at, message)
    }

    /// A text.
    pub(super) fn text(&self, key: &str, expected: &str, problems: &mut Vec<Problem>) -> Option<At<String>> {
        let node = self.get(key)?;
        match &node.value {
            Value::Text(text) => Some(At { at: node.at, value: text.clone() }),
            other => {
                let problem = self.wrong(key, expected, node);
                problems.push(match other {
                    Value::Int(_) | Value::Float | Value::Bool(_) => problem.hint("put the value in quotes"),
                    _ => problem,
                });
                None
            }
        }
    }

    /// A text that `check` accepts; its error says what was expected.
    pub(super) fn checked<T>(
        &self,
        key: &str,
        expected: &str,
        problems: &mut Vec<Problem>,
        check: impl FnOnce(&str) -> Result<T, Rejected>,
    ) -> Option<At<T>> {
        let text = self.text(key, expected, problems)?;
        match check(&text.value) {
            Ok(value) => Some(At { at: text.at, value }),
            Err(Rejected { message, hint }) => {
                let mut problem = Problem::new(text.at, format!("{}: {message}", self.name(key)));
                problem.hint = hint;
                problems.push(problem);
                None
            }
        }
    }

    /// A whole number from `low` to `high`.
    pub(super) fn number<T: TryFrom<i128>>(
        &self,
        key: &str,
        (low, high): (i128, i128),
        problems: &mut Vec<Problem>,
    ) -> Option<At<T>> {
        let node = self.get(key)?;
        if let Value::Int(i) = node.value
            && (low..=high).contains(&i)
            && let Ok(value) = T::try_from(i)
        {
            return Some(At { at: node.at, value });
        }
        problems.push(self.wrong(key, &format!("a whole number from {low} to {high}"), node));
        None
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str, problems: &mut Vec<Problem>) -> Option<bool> {
        let node = self.get(key)?;
        if let Value::Bool(b) = node.value {
            return Some(b);
        }
        problems.push(self.wrong(key, "`true` or `false`", node));
        None
    }

    /// One of these words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        problems: &mut Vec<Problem>,
    ) -> Option<At<T>> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let expected = format!("one of {}", list(&words));
        let node = self.get(key)?;
        let found = match &node.value {
            Value::Text(text) => choices.iter().find(|(word, _)| word == text),
            _ => None,
        };
        if let Some((_, value)) = found {
            return Some(At { at: node.at, value: *value });
        }
        let problem = self.wrong(key, &expected, node);
        let near = match &node.value {
            Value::Text(text) => nearest(text, &words),
            _ => None,
        };
        problems.push(match near {
            Some(word) => problem.hint(format!("did you mean `{word}`?")),
            None => problem,
        });
        None
    }

    /// A section inside this one.
    pub(super) fn section(&self, key: &str, path: &'static str, problems: &mut Vec<Problem>) -> Section<'a> {
        self.get(key).map_or_else(|| Section::absent(path), |node| Section::open(path, node, problems))
    }

    /// A list.
    pub(super) fn list(&self, key: &str, expected: &str, problems: &mut Vec<Problem>) -> Option<At<&'a [Node]>> {
        let node = self.get(key)?;
        if let Value::List(items) = &node.value {
            return Some(At { at: node.at, value: items });
        }
        problems.push(self.wrong(key, expected, node));
        None
    }
}

/// Why a text was not accepted.
pub(super) struct Rejected {
    pub(super) message: String,
    hint: Option<String>,
}

impl Rejected {
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl<T: Into<String>> From<T> for Rejected {
    fn from(message: T) -> Self {
        Rejected { message: message.into(), hint: None }
    }
}

fn known(path: &str) -> &'static [&'static str] {
    KEYS.iter().find(|(p, _)| *p == path).map_or(&[], |(_, keys)| keys)
}

/// `` `a`, `b` `` for messages.
fn list(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

/// The nearest known key: the section where the very word is right, else the one most like it in this section.
fn suggestion(path: &str, name: &str) -> Option<String> {
    if let Some((section, _)) = KEYS.iter().find(|(_, keys)| keys.contains(&name)) {
        return Some(match *section {
            "" => format!("`{name}` stands at the top of the file, not in `{path}`"),
            "nodes" => format!("`{name}` belongs to each entry of `nodes`"),
            section => format!("`{name}` belongs in `{section}`"),
        });
    }
    nearest(name, known(path)).map(|near| format!("did you mean `{near}`?"))
}

/// The word closest to `name`, when it is close enough to be a slip.
fn nearest<'w>(name: &str, words: &[&'w str]) -> Option<&'w str> {
    let plain = |s: &str| s.to_lowercase().replace('-', "_");
    let name = plain(&name.chars().take(64).collect::<String>());
    let (score, word) = words
        .iter()
        .map(|word| (strsim::normalized_damerau_levenshtein(&name, &plain(word)), *word))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score >= 0.55).then_some(word)
}
