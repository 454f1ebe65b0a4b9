//! The login shell of a node in namespaces of its own, as OpenSSH calls it: `zsh -c LINE`. It splits the line as the
//! first rack's server does, and keeps a journal by which a test can choose a moment.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::exec::not_run;
use super::multicall;
use super::program::{Resolved, resolve};
use super::shell;
use super::store::Node;

/// In the rack's folder: every command line that reached a node, one a line, after the node's name.
const JOURNAL: &str = "commands.log";
/// In the rack's folder: a text. A line of the journal that contains it waits until the file is gone.
const HOLD: &str = "hold";
/// A hold that nobody takes away ends by itself.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the line.
pub(super) fn run(node: &Node, line: &str) -> u8 {
    if let Err(error) = record(node, line) {
        return multicall::say(&format!("journal: {error}"), 70);
    }
    if let Some(noise) = node.load_stored().ok().and_then(|s| s.quirks.login_noise) {
        let _ = io::stdout().write_all(noise.as_bytes());
    }
    match shell::split(line) {
        Ok(words) if words.is_empty() => 0,
        Ok(words) => {
            let word = words[0].clone();
            let home = std::env::current_dir().unwrap_or_else(|_| node.root.clone());
            match resolve(node, &word, &home) {
                Resolved::Tool(..) | Resolved::Program(_) => multicall::run(node, Path::new(&word), words),
                missing => {
                    let (text, status) = not_run(&missing, &word);
                    let _ = io::stderr().write_all(text.as_bytes());
                    u8::try_from(status).unwrap_or(1)
                }
            }
        }
        Err(refusal) => {
            node.trip(&format!("line needs a shell: {line}"));
            let _ = writeln!(io::stderr(), "{}", refusal.message);
            u8::try_from(refusal.status).unwrap_or(1)
        }
    }
}

/// Writes the line down, and waits if it is to be held.
fn record(node: &Node, line: &str) -> io::Result<()> {
    let line = format!("{} {}\n", node.name, line.escape_debug());
    let mut journal = OpenOptions::new().create(true).append(true).open(node.dir.join(JOURNAL))?;
    journal.write_all(line.as_bytes())?;
    let held = || fs::read_to_string(node.dir.join(HOLD)).is_ok_and(|text| line.contains(text.trim()));
    let begin = Instant::now();
    while held() && begin.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
