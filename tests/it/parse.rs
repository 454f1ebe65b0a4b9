//! The readers of macOS tools: public captures, own fixtures, facts from transcripts, garbage.

mod assemble;
mod fixtures;
mod hostile;
mod samples;

/// A sample by its path, when the folder of samples stands beside the project.
fn sample(path: &str) -> Option<String> {
    let file = crate::support::samples()?.join(path);
    Some(std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())))
}

/// A fixture of our own: shapes as macOS prints them, values invented.
fn fixture(name: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parse").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}
