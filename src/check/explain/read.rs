//! Finds the known texts in what a log says.

use super::{Entry, entries};
use crate::model::command::printable;

/// Characters of a line that are looked at; a log line of binary rubbish must not cost more.
const LONGEST: usize = 4096;

/// A known text that was found.
pub struct Found {
    /// Which one.
    pub entry: &'static Entry,
    /// The line, safe to print.
    pub line: String,
    /// Its number in the text, counted from 1.
    pub number: usize,
    /// The RDMA device that the line names, e.g. `rdma_en4`.
    pub device: Option<String>,
}

/// Every known text in the order in which it first stands there, each once: the first error is usually the cause, the
/// others follow from it.
pub fn read(text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line: String = line.chars().take(LONGEST).collect();
        let small = line.to_lowercase();
        let Some(entry) = entries().iter().find(|e| (e.fits)(&small)) else { continue };
        if found.iter().all(|f| f.entry.id != entry.id) {
            found.push(Found {
                entry,
                device: device(&small),
                number: n + 1,
                line: printable(&line.trim().replace('\t', " ")),
            });
        }
    }
    found
}

/// The text of this id, as `--list` shows it.
pub fn named(id: &str) -> Option<Found> {
    let entry = entries().iter().find(|e| e.id == id.trim())?;
    Some(Found { entry, line: entry.title.to_owned(), number: 1, device: None })
}

fn device(line: &str) -> Option<String> {
    let at = line.find("rdma_en")?;
    let name: String = line[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    name["rdma_en".len()..].parse::<u32>().ok()?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_kind_is_told_with_its_line_and_device() {
        let text = "loading\n[jaccl] Could not find device rdma_en4 (3 available)\nnoise\n\
                    RuntimeError: [jaccl] Couldn't connect (error: 60)\n[jaccl] Could not find device rdma_en5 (3 available)\n";
        let found = read(text);
        let told: Vec<(usize, &str)> = found.iter().map(|f| (f.number, f.entry.id)).collect();
        assert_eq!(told, [(2, "no-such-device"), (4, "connect-60")]);
        assert_eq!(found[0].device.as_deref(), Some("rdma_en4"));
        assert!(read("all is well\n\u{1b}[31merrno\n").is_empty());
        assert_eq!(device("rdma_en is no device"), None);
    }
}
