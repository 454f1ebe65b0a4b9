//! Questions at the terminal.

use std::io::{BufRead, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::event::Events;
use crate::model::command::printable;
use crate::remote::Prompt;
use crate::view::Printer;

/// How the terminal was before it was told not to echo.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

fn remember_terminal() {
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if before.is_none() {
        *before = tcgetattr(std::io::stdin()).ok();
    }
}

/// Lets the terminal echo again: an interrupt during a question ends the process while the question still waits.
pub fn restore_terminal() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Ctrl-C at a hidden question reaches the question, not the process: it is meant for the process.
fn interrupt() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
    // Ends with the process; what waits for the answer must not go on without one meanwhile.
    std::thread::sleep(Duration::from_secs(5));
}

/// The terminal of this process. Without one (a pipe, CI), nothing is asked.
pub struct Terminal {
    printer: Printer,
    events: Events,
}

impl Terminal {
    /// Asks through this terminal; bars of `events` are hidden meanwhile.
    pub fn new(printer: Printer, events: Events) -> Self {
        Terminal { printer, events }
    }

    /// Asks for the literal word `yes`; any other answer, or none, is no. None: there is no terminal.
    pub fn literal_yes(&self, question: &str) -> Option<bool> {
        if !Self::attended() {
            return None;
        }
        let mut answer = Some(false);
        self.events.quietly(&mut || {
            self.printer.err(&format!("{} Only `yes` is accepted:", printable(question)));
            let mut line = String::new();
            answer = Some(std::io::stdin().lock().read_line(&mut line).is_ok() && line.trim() == "yes");
        });
        answer
    }

    /// Both the question must be seen and the answer typed by a person.
    fn attended() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }
}

impl Prompt for Terminal {
    fn ask_secret(&self, question: &str) -> Option<String> {
        if !Self::attended() {
            return None;
        }
        let mut answer = None;
        remember_terminal();
        self.events.quietly(&mut || {
            answer = match rpassword::prompt_password(printable(question)) {
                Ok(answer) => Some(answer),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {
                    interrupt();
                    None
                }
                Err(_) => None,
            }
        });
        answer
    }

    fn confirm(&self, question: &str) -> Option<bool> {
        if !Self::attended() {
            return None;
        }
        let mut answer = None;
        self.events.quietly(&mut || {
            self.printer.err(&format!("{} [yes/no]", printable(question)));
            let mut line = String::new();
            // The end of input is no answer, and no answer is not a yes.
            if std::io::stdin().lock().read_line(&mut line).is_ok() {
                answer = Some(["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()));
            }
        });
        answer
    }
}
