//! The README's first command, as a reader sees it: the whole path to an answer of a model on three processes.

use std::process::Stdio;

use crate::support::{command, runtime};

#[test]
fn the_demo_ends_with_the_capital_of_france() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    // Made here once for all tests; the demo finds it in its cache.
    runtime::smollm2();
    let output = command(home.path())
        .arg("demo")
        .env("MACLUSTER_CACHE", runtime::cache())
        .env("TMPDIR", scratch.path())
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    assert!(text.lines().any(|l| l.contains("Paris")), "{text}");
    let ranks: Vec<&str> =
        text.lines().filter(|l| l.trim_start().starts_with("studio-") && l.contains("/3 ")).collect();
    assert_eq!(ranks.len(), 3, "status shows three ranks:\n{text}");
    for command in
        ["doctor", "cabling", "network plan", "network apply", "checklist", "bundle build", "deploy", "status"]
    {
        assert!(text.contains(&format!("$ macluster {command}")), "{command} is not shown:\n{text}");
    }
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("readable").flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let home_left: Vec<_> = std::fs::read_dir(home.path()).expect("readable").flatten().map(|e| e.path()).collect();
    assert!(home_left.is_empty(), "written to the home folder: {home_left:?}");
}
