//! The login shell, as far as a command over SSH meets it: splits one line into words, and nothing else.
//!
//! No real shell exists in the rack. What a shell would have to interpret is refused loudly: the product sends
//! argv, so a line that needs a shell is a defect.

/// Why a line was not run: zsh's words and status, or the simulator's own for what it does not offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// For standard error.
    pub message: String,
    /// Exit status.
    pub status: i32,
}

/// Splits a command line as zsh does, quotes and backslashes included.
pub(super) fn split(line: &str) -> Result<Vec<String>, Refusal> {
    if let Some(refusal) = interpreted(line) {
        return Err(refusal);
    }
    shlex::split(line).ok_or_else(|| Refusal { message: "zsh:1: unmatched quote".to_owned(), status: 1 })
}

/// Looks for anything outside quotes (or expanded inside double ones) that a shell would act on.
fn interpreted(line: &str) -> Option<Refusal> {
    let parse_error = |c: char| {
        let near = if c == '\n' { "\\n".to_owned() } else { c.to_string() };
        Some(Refusal { message: format!("zsh:1: parse error near `{near}'"), status: 1 })
    };
    let mut chars = line.chars().peekable();
    let mut word_start = true;
    let mut quote = None;
    let mut word = String::new();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('"') | None, '\\') => {
                chars.next();
            }
            (Some('"'), '$' | '`') => return parse_error(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ' | '\t') => {
                word_start = true;
                word.clear();
                continue;
            }
            // zsh expands these; without a match it says so and runs nothing.
            (None, '*' | '?' | '[' | ']') => {
                let rest: String = chars.take_while(|c| !c.is_whitespace()).collect();
                return Some(Refusal { message: format!("zsh:1: no matches found: {word}{c}{rest}"), status: 1 });
            }
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '\n' | '{' | '}' | '^') => {
                return parse_error(c);
            }
            (None, '~' | '=' | '#' | '!') if word_start => return parse_error(c),
            _ => {}
        }
        word.push(c);
        word_start = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_come_through_and_nothing_is_interpreted() {
        let words = |line: &str| split(line).expect(line);
        assert_eq!(words("/bin/ls 'a b' \"c d\" e\\ f"), ["/bin/ls", "a b", "c d", "e f"]);
        assert_eq!(words("x 'it'\"'\"'s' '$(y)' '*'"), ["x", "it's", "$(y)", "*"]);
        assert_eq!(words("x ''"), ["x", ""]);
        for line in ["a; b", "a | b", "a > f", "a $HOME", "a `b`", "a \"$b\"", "a & b", "(a)", "~/x", "a\nb", "=ls"] {
            assert!(split(line).is_err(), "{line}");
        }
        assert_eq!(split("ls *.x").map_err(|r| r.message), Err("zsh:1: no matches found: *.x".to_owned()));
    }

    #[test]
    fn the_products_own_quoting_is_understood() {
        for word in ["", "plain", "it's", "a b", "$(touch x)", "a\\b", "*", "~", "=ls", "ü", "a\nb", "!!", "#x"] {
            let line = format!("p {}", crate::model::command::quote(word));
            assert_eq!(split(&line).map(|w| w[1].clone()).as_deref(), Ok(word), "{line}");
        }
    }
}
