//! The link networks' own files on a node: written by `macluster network apply`, read back as facts.
//!
//! - `links.conf`: `script SHA256`, then `link INTERFACE ETHER|- ADDRESS PREFIX NETMASK PEER-ADDRESS PEER`, one line for each link end
//! - `history`: `BOOT INTERFACE ADDRESS`
//! - `lock/owner`: `by …`, `pid …`, `since …`, `until …`
//!
//! The first two begin with a header line, so that whatever a login shell prints before is told from the file. Blank
//! lines and those that begin with `#` mean nothing.

use super::words::excerpt;
use crate::model::network_facts::{ConfiguredLink, HistoryEntry, LinksConfig, LockOwner};
use crate::model::{Fact, FactError, FactErrorKind};

/// First line of `links.conf`.
pub const LINKS_HEADER: &str = "# macluster links 1";
/// First line of `history`.
pub const HISTORY_HEADER: &str = "# macluster history 1";

/// The lines after the header, with their numbers.
fn after<'a>(text: &'a str, file: &str, header: &str) -> Fact<impl Iterator<Item = (usize, &'a str)>> {
    let at = text.lines().position(|l| l.trim() == header);
    let at = at.ok_or_else(|| malformed(file, 1, text.lines().next().unwrap_or("it is empty")))?;
    Ok(lines(text).filter(move |(n, _)| *n > at))
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let meant = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())).filter(meant)
}

fn malformed(file: &str, line: usize, text: &str) -> FactError {
    FactError {
        tool: file.to_owned(),
        kind: FactErrorKind::Malformed,
        line: Some(line),
        message: format!("cannot be read: {}", excerpt(text)),
    }
}

/// Reads `links.conf`.
///
/// # Errors
/// The first line of another shape.
pub fn links(text: &str) -> Fact<LinksConfig> {
    let mut config = LinksConfig::default();
    for (n, line) in after(text, "links.conf", LINKS_HEADER)? {
        match line.strip_prefix("script ") {
            Some(script) => config.script = Some(script.trim().to_owned()),
            None => config.links.push(link(line).ok_or_else(|| malformed("links.conf", n, line))?),
        }
    }
    Ok(config)
}

fn link(line: &str) -> Option<ConfiguredLink> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["link", interface, ether, address, prefix, _netmask, peer_address, peer] = words.as_slice() else {
        return None;
    };
    Some(ConfiguredLink {
        interface: (*interface).to_owned(),
        ether: (*ether != "-").then(|| (*ether).to_owned()),
        address: address.parse().ok()?,
        prefix: prefix.parse().ok().filter(|p| *p <= 32)?,
        peer_address: peer_address.parse().ok()?,
        peer: (*peer).to_owned(),
    })
}

/// Reads `history`.
///
/// # Errors
/// The first line of another shape.
pub fn history(text: &str) -> Fact<Vec<HistoryEntry>> {
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [boot, interface, address] = words.as_slice() else { return None };
        let (boot, interface) = ((*boot).to_owned(), (*interface).to_owned());
        Some(HistoryEntry { boot, interface, address: address.parse().ok()? })
    };
    let lines = after(text, "history", HISTORY_HEADER)?;
    lines.map(|(n, line)| entry(line).ok_or_else(|| malformed("history", n, line))).collect()
}

/// Reads `lock/owner`.
///
/// # Errors
/// A line that is missing or of another shape.
pub fn lock(text: &str) -> Fact<LockOwner> {
    let value = |key: &str| lines(text).find_map(|(_, l)| l.strip_prefix(key)?.strip_prefix(' ').map(str::trim));
    let owner = || {
        Some(LockOwner {
            by: value("by")?.to_owned(),
            pid: value("pid")?.parse().ok()?,
            since: value("since")?.to_owned(),
            until: value("until")?.parse().ok()?,
        })
    };
    owner().ok_or_else(|| malformed("lock/owner", 1, text.lines().next().unwrap_or("it is empty")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_and_another_line_is_named() {
        let text = "welcome\n# macluster links 1\n\nscript 00ff\nlink en3 36:00:00:00:00:01 10.254.0.1 30 255.255.255.252 10.254.0.2 studio-2\n";
        let config = links(text).expect("reads");
        assert_eq!(config.script.as_deref(), Some("00ff"));
        let read = config.links;
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].interface.as_str(), read[0].prefix), ("en3", 30));
        for bad in ["link en3 - 10.254.0.1 30 255.255.255.252 10.254.0.2", "link en3 - x 30 m 10.0.0.1 p", "x"] {
            assert_eq!(links(&format!("{LINKS_HEADER}\n{bad}\n")).expect_err("refused").line, Some(2), "{bad}");
        }
    }

    #[test]
    fn history_and_lock_are_read() {
        let entries = history("# macluster history 1\nAAAA en3 10.254.0.1\n").expect("reads");
        assert_eq!(entries[0].interface, "en3");
        assert!(history("# macluster history 1\nAAAA en3\n").is_err());
        assert!(history("AAAA en3 10.254.0.1\n").is_err(), "no header");
        let owner = lock("by a@b\npid 7\nsince 2026-01-01T00:00:00Z\nuntil 99\n").expect("reads");
        assert_eq!((owner.pid, owner.until), (7, 99));
        assert!(lock("").is_err());
        assert!(lock("by a@b\npid x\nsince s\nuntil 1\n").is_err());
    }
}
