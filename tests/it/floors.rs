//! Imports only go down: the order of the floors is the architecture, so a test holds it.

use std::path::{Path, PathBuf};

/// Modules by floor; a module may use its own floor and those below.
const FLOORS: &[&[&str]] = &[
    &["model", "event", "exit"],
    &["parse", "mesh", "network", "check", "playbook", "sizing"],
    &["remote"],
    &["collect", "phase", "agent", "gateway", "sim"],
    &["view"],
    &["cmd", "cli", "app"],
];

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|f| f.contains(&module))
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("src is readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Modules named after `crate::` anywhere in the file, `use crate::{a, b}` included.
fn used(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in text.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            let mut depth = 0;
            let mut start = true;
            let mut word = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if depth == 0 && start && (c.is_alphanumeric() || c == '_') => word.push(c),
                    _ => {}
                }
                if !(word.is_empty() || c.is_alphanumeric() || c == '_') {
                    found.push(std::mem::take(&mut word));
                    start = c == ',';
                }
            }
            found.extend(Some(word).filter(|w| !w.is_empty()));
        } else {
            found.push(part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    found
}

#[test]
fn imports_only_go_down() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let mut upward = Vec::new();
    for file in &files {
        let relative = file.strip_prefix(&src).expect("below src");
        let top = relative.iter().next().expect("a name").to_string_lossy().trim_end_matches(".rs").to_owned();
        let Some(own) = floor(&top) else {
            assert!(["lib", "main"].contains(&top.as_str()), "src/{top} stands on no floor: add it to FLOORS");
            continue;
        };
        for module in used(&std::fs::read_to_string(file).expect("source is readable")) {
            if floor(&module).is_some_and(|f| f > own) {
                upward.push(format!("{} uses crate::{module}", relative.display()));
            }
        }
    }
    assert!(upward.is_empty(), "upward imports:\n{}", upward.join("\n"));
    assert!(files.len() > 20, "the walk found only {} files", files.len());
}

#[test]
fn the_reader_of_imports_sees_every_form() {
    let text = "use crate::view::Printer;\nuse crate::{model::NodeName, remote::{Remote, ssh}, exit};\ncrate::cmd::x()";
    assert_eq!(used(text), ["view", "model", "remote", "exit", "cmd"]);
}
