//! Every privileged command of the product stands in a playbook: no other source can ask for root.

use std::path::{Path, PathBuf};

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("src is readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The file without its tests and comments: what ships.
fn shipped(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn root_is_asked_for_by_playbooks_alone() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut asking = Vec::new();
    for file in &files {
        let name = file.strip_prefix(&src).expect("below src").display().to_string();
        // `tests.rs` beside a module is test code; the simulated Mac plays root, it does not ask for it.
        if name.ends_with("tests.rs") || name.starts_with("sim/") {
            continue;
        }
        // Who makes a command names its type.
        let text = std::fs::read_to_string(file).expect("readable");
        if !text.contains("Cmd") {
            continue;
        }
        let code: String = shipped(&text).split_whitespace().collect();
        let calls = code.matches(".sudo(").count();
        let fields = code.matches("sudo=true").count() + code.matches("sudo:true").count();
        if calls + fields > 0 {
            asking.push((name, calls + fields));
        }
    }
    let allowed = [
        // `Step::expand`: the one place where `sudo: true` of a playbook becomes a command.
        ("playbook/load.rs", 1),
        // Probes carry a flag so that the table is complete; a test there holds it at false.
        ("collect/mod.rs", 1),
    ];
    let allowed: Vec<(String, usize)> = allowed.map(|(name, n)| (name.to_owned(), n)).to_vec();
    asking.sort();
    let mut expected = allowed;
    expected.sort();
    assert_eq!(asking, expected, "a command outside the playbooks asks for root");
}

#[test]
fn probes_never_run_as_root() {
    assert!(macluster::parse::probe::probes().iter().all(|p| !p.sudo));
}

#[test]
fn commands_of_playbooks_are_macos_own_programs() {
    let books = macluster::playbook::Playbooks::load(None).expect("playbooks");
    for book in books.all() {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&book.file)).expect("readable");
        for shell in ["/bin/sh", "/bin/zsh", "/bin/bash", "/usr/bin/env", "osascript", "networksetup -set"] {
            assert!(!text.contains(shell), "{}: {shell}", book.file);
        }
    }
}
