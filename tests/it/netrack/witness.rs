//! What there is to see of a node, for comparison.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::rack::NetRack;

/// Everything of a node that a change of its links could touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `ifconfig`, and what the kernel has.
    pub interfaces: Vec<String>,
    /// Its files by path: mode and content. Folders without files do not count.
    pub files: BTreeMap<String, (u32, String)>,
    /// launchd's jobs.
    pub jobs: Vec<String>,
}

impl Seen {
    /// The same with the links' addresses from another pool.
    pub fn with_pool(&self, start: &str) -> Seen {
        let interfaces = self.interfaces.iter().map(|l| l.replace("10.254.", start)).collect();
        Seen { interfaces, ..self.clone() }
    }

    /// What differs from another look, a line each.
    pub fn unlike(&self, other: &Seen) -> String {
        let pairs = self.interfaces.iter().zip(&other.interfaces).filter(|(a, b)| a != b);
        let mut lines: Vec<String> = pairs.map(|(a, b)| format!("{a}   (not: {b})")).collect();
        let only = |a: &Seen, b: &Seen, what: &str| -> Vec<String> {
            a.files.iter().filter(|(k, v)| b.files.get(*k) != Some(v)).map(|(k, _)| format!("{what}: {k}")).collect()
        };
        lines.extend(only(self, other, "file now"));
        lines.extend(only(other, self, "file then"));
        if self.jobs != other.jobs {
            lines.push(format!("jobs {:?}   (not: {:?})", self.jobs, other.jobs));
        }
        lines.join("\n")
    }

    /// Looks at a node that takes connections.
    pub fn of(rack: &NetRack, number: usize) -> Seen {
        let mut interfaces = ordered(&rack.ssh(number, "ifconfig").expect(0).stdout);
        interfaces.extend(kernel(rack, number));
        let list = rack.ssh(number, "launchctl list").expect(0).stdout;
        let label = |line: &str| line.rsplit('\t').next().unwrap_or_default().to_owned();
        let mut files = BTreeMap::new();
        walk(rack.root(number), Path::new(""), &mut files);
        Seen { interfaces, files, jobs: list.lines().map(label).collect() }
    }
}

/// The lines of `ifconfig`; members of a bridge by name, since where `addm` puts one says nothing.
fn ordered(text: &str) -> Vec<String> {
    let text = text.replace("\n\t        ifmaxaddr", " ifmaxaddr");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let member = |line: &String| line.starts_with("\tmember: ");
    for group in lines.chunk_by_mut(|a, b| member(a) == member(b)) {
        if group.first().is_some_and(member) {
            group.sort();
        }
    }
    lines
}

/// Flags, bridge and addresses of every interface, as the kernel tells them.
fn kernel(rack: &NetRack, number: usize) -> Vec<String> {
    let rows = rack.in_network(number, "ip", &["-json", "address", "show"]).expect(0).json();
    let row = |row: &serde_json::Value| {
        let inet = |a: &serde_json::Value| format!("{}/{}", a["local"], a["prefixlen"]);
        let addresses: Vec<String> = row["addr_info"].as_array().into_iter().flatten().map(inet).collect();
        let flags: Vec<&str> = row["flags"].as_array().into_iter().flatten().filter_map(|f| f.as_str()).collect();
        // Carrier comes a moment after both ends are up, on a bridge after its spanning tree has settled: it is nobody's
        // setting, and pings prove it where it counts.
        let name = row["ifname"].as_str().unwrap_or_default();
        let says = |f: &&str| !["NO-CARRIER", "LOWER_UP"].contains(f);
        let flags: Vec<&str> = flags.into_iter().filter(says).collect();
        format!("{name} {flags:?} {} {addresses:?}", row["master"])
    };
    rows.as_array().expect("interfaces").iter().map(row).collect()
}

/// Folders that the namespaces mount something on, and what macOS empties at boot.
const ELSEWHERE: &[&str] =
    &[".macsim", "proc", "dev", "run", "lib", "lib64", "usr/lib", "usr/lib64", "private/var/run"];

fn walk(root: &Path, below: &Path, files: &mut BTreeMap<String, (u32, String)>) {
    use std::os::unix::fs::MetadataExt;
    for entry in fs::read_dir(root.join(below)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = below.join(entry.file_name());
        let name = path.to_string_lossy().into_owned();
        if ELSEWHERE.contains(&name.as_str()) {
            continue;
        }
        let meta = entry.metadata().expect("there");
        if meta.is_dir() {
            walk(root, &path, files);
        } else {
            let content = if meta.is_file() { fs::read(root.join(&path)).expect("readable") } else { Vec::new() };
            files.insert(name, (meta.mode(), String::from_utf8_lossy(&content).into_owned()));
        }
    }
}

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, so: impl FnMut() -> bool) {
    wait(what, Duration::from_millis(200), so);
}

/// The same, and is back at once: for what does not last.
#[track_caller]
pub fn soon(what: &str, so: impl FnMut() -> bool) {
    wait(what, Duration::from_millis(1), so);
}

#[track_caller]
fn wait(what: &str, pause: Duration, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(90), "in vain: {what}");
        std::thread::sleep(pause);
    }
}
