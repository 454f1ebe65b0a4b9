//! The two streams of the terminal, and what may be done with them.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use crate::exit::Failure;
use crate::model::command::{is_hostile, printable};

/// Writes to the terminal. A broken pipe (`macluster doctor | head`) is a quiet success.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// Colour on standard output.
    pub color: bool,
    /// Standard error is a terminal: progress bars make sense.
    pub progress: bool,
    /// Columns of standard output; 80 when it is no terminal.
    pub width: usize,
}

impl Printer {
    /// Looks at the process's own streams and `NO_COLOR`, `CLICOLOR_FORCE`, `COLUMNS`.
    pub fn detect() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let out_tty = std::io::stdout().is_terminal();
        let color = !set("NO_COLOR") && (set("CLICOLOR_FORCE") || out_tty);
        let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        let measured = if out_tty {
            rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|w| usize::from(w.ws_col))
        } else {
            None
        };
        let width = columns.or(measured).filter(|w| *w >= 40).unwrap_or(80);
        Printer { color, progress: std::io::stderr().is_terminal(), width }
    }

    /// Data: to standard output, with a newline at the end if there is none.
    pub fn out(&self, text: &str) {
        write_all(&mut std::io::stdout().lock(), text, self.color);
    }

    /// Everything else: to standard error.
    pub fn err(&self, text: &str) {
        write_all(&mut std::io::stderr().lock(), text, self.color);
    }

    /// An error with its hints. Both may hold what a node said, down to the names of its files.
    pub fn failure(&self, failure: &Failure) {
        self.err(&printable(&format!("error: {}", failure.message)));
        for hint in &failure.hints {
            self.err(&printable(&format!("hint: {hint}")));
        }
    }
}

/// What no text of ours has and a terminal obeys: whoever forgot to escape what a node said is caught here. Colours are
/// let through where there are any. Written so that it is the same character in JSON.
fn harmless(text: &str, color: bool) -> Cow<'_, str> {
    let ours = |rest: &str| color && rest.strip_prefix("\u{1b}[").is_some_and(ends_in_m);
    let evil = |at: usize, c: char| is_hostile(c) && !ours(&text[at..]);
    if !text.char_indices().any(|(at, c)| evil(at, c)) {
        return text.into();
    }
    let shown = |(at, c)| if evil(at, c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.char_indices().map(shown).collect::<String>().into()
}

/// The rest of a sequence that sets a colour: digits and semicolons, then an m.
fn ends_in_m(rest: &str) -> bool {
    rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
}

/// Errors are dropped: there is nobody left to tell.
fn write_all(stream: &mut dyn Write, text: &str, color: bool) {
    let newline: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let text = harmless(text, color);
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(newline)).and_then(|()| stream.flush());
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn a_terminal_is_told_nothing_but_colours() {
        let hostile = "a\u{1b}[31mred\u{1b}[0m \u{1b}[2J \u{1b}]0;x\u{7} \u{9b}2J \u{202e}b\r\tc\n";
        let escaped = "\\u001b[2J \\u001b]0;x\\u0007 \\u009b2J \\u202eb\\u000d\tc\n";
        assert_eq!(harmless(hostile, true), format!("a\u{1b}[31mred\u{1b}[0m {escaped}"));
        assert_eq!(harmless(hostile, false), format!("a\\u001b[31mred\\u001b[0m {escaped}"));
        assert!(matches!(harmless("grün\tund\ngut", true), std::borrow::Cow::Borrowed(_)));
    }
}
