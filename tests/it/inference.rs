//! The engine's own tests: real engines, real collectives, a real model.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::runtime;

#[test]
fn the_engine_passes_its_tests() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("inference");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(runtime::python())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp"])
        .arg(scratch.path().join("pytest"))
        .current_dir(&project)
        .env("PYTHONPATH", runtime::test_packages())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .expect("python runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains(" passed") && !last.contains("skipped"), "not everything ran: {last}");
}
