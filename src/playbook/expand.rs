//! Placeholders: found when a playbook is loaded, filled when a step is done.

use std::collections::BTreeMap;

use super::PlaybookError;

/// Values of placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vars(BTreeMap<String, String>);

impl Vars {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The value of a placeholder.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// A word with `{placeholders}`; `{{` and `}}` stand for the braces themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Hole(String),
}

impl Word {
    /// Reads a word.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.peek() == Some(&c) => {
                    chars.next();
                    plain.push(c);
                }
                '{' => {
                    let mut name = String::new();
                    loop {
                        match chars.next() {
                            Some('}') => break,
                            Some(c) if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' => name.push(c),
                            _ => {
                                return Err(format!(
                                    "`{text}` has a `{{` that begins no placeholder (write `{{{{` for a brace)"
                                ));
                            }
                        }
                    }
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Hole(name));
                }
                '}' => return Err(format!("`{text}` has a `}}` that ends no placeholder (write `}}}}` for a brace)")),
                c => plain.push(c),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Word(parts))
    }

    /// Names of its placeholders.
    pub(super) fn holes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|p| match p {
            Part::Hole(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text it begins with, or the placeholder.
    pub(super) fn head(&self) -> Result<&str, &str> {
        match self.0.first() {
            Some(Part::Text(text)) => Ok(text),
            Some(Part::Hole(name)) => Err(name),
            None => Ok(""),
        }
    }

    /// Fills it as text for a person.
    pub(super) fn text(&self, vars: &Vars) -> Result<String, String> {
        self.0.iter().try_fold(String::new(), |mut out, part| {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole(name) => {
                    out.push_str(vars.get(name).ok_or_else(|| format!("no value for the placeholder {{{name}}}"))?);
                }
            }
            Ok(out)
        })
    }

    /// Fills it as one argument of a command. A value cannot become several arguments, and it cannot turn an
    /// argument into an option: values come from nodes, and the command may run as root.
    pub(super) fn argument(&self, vars: &Vars) -> Result<String, String> {
        for name in self.holes() {
            let value = vars.get(name).ok_or_else(|| format!("no value for the placeholder {{{name}}}"))?;
            if value.is_empty() || value.chars().any(char::is_control) {
                return Err(format!("the value {value:?} of the placeholder {{{name}}} cannot be used in a command"));
            }
        }
        let text = self.text(vars)?;
        if text.starts_with('-') && !matches!(self.head(), Ok(head) if head.starts_with('-')) {
            return Err(format!("{text:?} would be read as an option"));
        }
        Ok(text)
    }
}

/// Fills the words of one argv.
pub(super) fn argv(file: &str, step: &str, words: &[Word], vars: &Vars) -> Result<Vec<String>, PlaybookError> {
    words
        .iter()
        .map(|w| w.argument(vars))
        .collect::<Result<_, _>>()
        .map_err(|why| PlaybookError::new(file, None, format!("step `{step}`: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_double_and_placeholders_fill() {
        let word = Word::parse("a{{{x}}}b").expect("parses");
        assert_eq!(word.argument(&Vars::new().with("x", "1")).expect("fills"), "a{1}b");
        assert!(word.argument(&Vars::new()).is_err());
        for bad in ["{", "}", "{x", "{X}", "{a b}"] {
            assert!(Word::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_one_argument_and_never_an_option() {
        let word = Word::parse("{x}").expect("parses");
        assert_eq!(word.argument(&Vars::new().with("x", "a b; rm *")).expect("one word"), "a b; rm *");
        for bad in ["-rf", "", "a\nb", "\u{1b}[0m"] {
            assert!(word.argument(&Vars::new().with("x", bad)).is_err(), "{bad:?}");
        }
        assert!(Word::parse("-{x}").expect("parses").argument(&Vars::new().with("x", "S")).is_ok());
    }
}
