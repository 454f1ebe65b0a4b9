//! A picture that takes the whole terminal and leaves it as it was.

use std::io::{IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

use crate::view::Printer;

/// The other screen of the terminal: what stood on the first one is there again afterwards.
pub struct Screen {
    before: Option<Termios>,
}

impl Screen {
    /// Takes the terminal; none when standard output is none.
    pub fn open() -> Option<Screen> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        let before = if std::io::stdin().is_terminal() { tcgetattr(std::io::stdin()).ok() } else { None };
        if let Some(before) = &before {
            // Keys come at once and are not shown; Ctrl-C still interrupts.
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &raw);
        }
        say("\u{1b}[?1049h\u{1b}[?25l");
        Some(Screen { before })
    }

    /// Its size now: people turn and widen windows.
    pub fn size(&self, printer: Printer) -> (Printer, usize) {
        let size = tcgetwinsize(std::io::stdout()).ok();
        let width = size.map(|s| usize::from(s.ws_col)).filter(|w| *w >= 40).unwrap_or(printer.width);
        let height = size.map(|s| usize::from(s.ws_row)).filter(|h| *h >= 8).unwrap_or(24);
        (Printer { width, ..printer }, height)
    }

    /// Draws this over what is there, without flicker.
    pub fn draw(&self, picture: &str) {
        let mut out = String::from("\u{1b}[H");
        for line in picture.lines() {
            out.push_str(line);
            out.push_str("\u{1b}[K\r\n");
        }
        out.push_str("\u{1b}[J");
        say(&out);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        say("\u{1b}[?25h\u{1b}[?1049l");
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Errors are dropped: there is nobody left to tell.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// `q` on the keyboard. Nothing ever comes without one.
pub fn quit_key(screen: Option<&Screen>) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    if screen.is_none() || !std::io::stdin().is_terminal() {
        // Kept open, so that nobody takes its end for a key.
        std::mem::forget(sender);
        return receiver;
    }
    // Blocked in its read when the process ends, which does not wait for it.
    std::thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = std::io::stdin().read(&mut byte) {
            if matches!(byte, [b'q' | b'Q']) && sender.blocking_send(()).is_err() {
                return;
            }
        }
        // The end of the input is no key: the terminal may be gone, the person need not be.
        std::mem::forget(sender);
    });
    receiver
}
