//! The two streams of the terminal, and what may be done with them.

use std::io::{IsTerminal, Write};

use crate::exit::Failure;

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
        write_all(&mut std::io::stdout().lock(), text);
    }

    /// Everything else: to standard error.
    pub fn err(&self, text: &str) {
        write_all(&mut std::io::stderr().lock(), text);
    }

    /// An error with its hints.
    pub fn failure(&self, failure: &Failure) {
        self.err(&format!("error: {}", failure.message));
        for hint in &failure.hints {
            self.err(&format!("hint: {hint}"));
        }
    }
}

/// Some terminals take U+0080 to U+009F for commands, as they take ESC; JSON lets them through. Nothing of ours has them.
/// Written so that it is the same character in JSON.
fn harmless(text: &str) -> std::borrow::Cow<'_, str> {
    let evil = |c: char| ('\u{7f}'..='\u{9f}').contains(&c);
    if !text.contains(evil) {
        return text.into();
    }
    let shown = |c: char| if evil(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.chars().map(shown).collect::<String>().into()
}

/// Errors are dropped: there is nobody left to tell.
fn write_all(stream: &mut dyn Write, text: &str) {
    let newline: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let text = harmless(text);
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(newline)).and_then(|()| stream.flush());
}
