//! What each tool printed, without what names anybody.

use super::pseudonyms::Pseudonyms;
use crate::check::engine_of;
use crate::model::{Inventory, NodeName, NodeRecord, Transcript};
use crate::network::root_of;
use crate::parse::{netstat, probe, ps};

/// A banner is somebody's words; that there is one is all that counts.
const BANNER: &str = "a banner was here\n";

pub(super) fn redact(
    node: &NodeName,
    record: &NodeRecord,
    inventory: &Inventory,
    names: &mut Pseudonyms,
) -> Vec<Transcript> {
    let root = root_of(inventory, node).trim_end_matches('/');
    let noise = record.transcripts.iter().find(|t| t.probe == probe::NOISE);
    let banner = noise.map_or((String::new(), String::new()), |t| (t.stdout.clone(), t.stderr.clone()));
    let all = record.transcripts.iter().map(|t| {
        let stdout = Text { root, banner: &banner.0 }.clean(&t.stdout);
        let stderr = Text { root, banner: &banner.1 }.clean(&t.stderr);
        Transcript {
            probe: t.probe.clone(),
            argv: argv(t, names),
            exit: t.exit,
            stdout: out(t, &stdout, names),
            stderr: names.prose(&stderr),
            truncated: t.truncated,
            error: t.error.as_deref().map(|e| names.prose(e)),
        }
    });
    all.collect()
}

struct Text<'a> {
    root: &'a str,
    banner: &'a str,
}

impl Text<'_> {
    /// Without the login shell's words, and with paths as they are on a Mac.
    fn clean(&self, text: &str) -> String {
        let text = match text.strip_prefix(self.banner) {
            Some(rest) if !self.banner.trim().is_empty() => format!("{BANNER}{rest}"),
            _ => text.to_owned(),
        };
        if self.root.is_empty() { text } else { text.replace(self.root, "") }
    }
}

/// The name of a service is an argument of the question about it.
fn argv(t: &Transcript, names: &mut Pseudonyms) -> Vec<String> {
    let last = t.argv.len().saturating_sub(1);
    let word = |(i, word): (usize, &String)| match t.probe.as_str() {
        probe::SERVICE_INFO if i == last => names.service(word),
        probe::RUNTIME if word.starts_with("--root=") => "--root=/".to_owned(),
        _ => names.shapes(word),
    };
    t.argv.iter().enumerate().map(word).collect()
}

fn out(t: &Transcript, text: &str, names: &mut Pseudonyms) -> String {
    let each = |text: &str, line: &mut dyn FnMut(&str) -> String| -> String {
        text.split_inclusive('\n').fold(String::new(), |mut all, whole| {
            let bare = whole.trim_end_matches(['\n', '\r']);
            all.push_str(&line(bare));
            all.push_str(&whole[bare.len()..]);
            all
        })
    };
    match t.probe.as_str() {
        probe::ROUTES => each(text, &mut |line| route(line, names)),
        probe::SERVICES => each(text, &mut |line| service(line, names)),
        probe::PROCESSES => each(text, &mut process),
        probe::REPORTS => each(text, &mut report),
        probe::LINKS_CONFIG => {
            let text = names.shapes(text);
            each(&text, &mut |line| match line.strip_prefix("link ").and_then(|l| l.rsplit_once(' ')) {
                Some((link, peer)) => format!("link {link} {}", names.named_node(peer)),
                None => line.to_owned(),
            })
        }
        probe::LINKS_LOCK => each(text, &mut |line| match line.strip_prefix("by ") {
            Some(who) => format!("by {}@desk", names.user(who.trim())),
            None => names.shapes(line),
        }),
        probe::NOISE | probe::SUDO | probe::SESSION | probe::RUNTIME => names.prose(text),
        _ => names.shapes(text),
    }
}

/// The destination is a network in a short form; the rest has its shapes.
fn route(line: &str, names: &mut Pseudonyms) -> String {
    let word = line.split_whitespace().next().unwrap_or_default();
    let short = word.contains('/') || (1..=2).contains(&word.matches('.').count());
    let table = format!("Destination Gateway Flags Netif\n{word} x U en0\n");
    let network = netstat::parse(&table).ok().and_then(|r| r.first().map(|r| r.destination)).filter(|_| short);
    match network {
        Some(network) => {
            let rest = line.trim_start().strip_prefix(word).unwrap_or_default();
            format!("{}{}", names.network(network), names.shapes(rest))
        }
        None => names.shapes(line),
    }
}

/// `(1) Name` stands before `(Hardware Port: …)`.
fn service(line: &str, names: &mut Pseudonyms) -> String {
    let numbered = line.strip_prefix('(').and_then(|l| l.split_once(") "));
    match numbered.filter(|(n, _)| *n == "*" || n.parse::<u32>().is_ok()) {
        Some((n, name)) => format!("({n}) {}", names.service(name)),
        None => names.shapes(line),
    }
}

/// Arguments may hold anything: of a process only what kind it is stays.
fn process(line: &str) -> String {
    let table = format!("PID PPID ELAPSED COMMAND\n{line}\n");
    let Some(process) = ps::parse(&table).ok().and_then(|mut p| p.pop()) else { return line.to_owned() };
    let kept = engine_of(&process).unwrap_or("-");
    line.strip_suffix(&process.command).map_or_else(String::new, |head| format!("{head}{kept}"))
}

/// Of a crash report its day and its kind.
fn report(line: &str) -> String {
    let line = line.trim();
    let Some((_, end)) = line.rsplit_once('.').filter(|(_, end)| *end != "panic") else { return line.to_owned() };
    let day = line
        .match_indices('-')
        .find_map(|(at, _)| line.get(at + 1..at + 11).filter(|d| d.parse::<jiff::civil::Date>().is_ok()));
    format!("app-{}.{end}", day.unwrap_or("0000-00-00"))
}
