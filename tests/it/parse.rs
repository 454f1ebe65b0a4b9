//! The readers of macOS tools: public captures, own fixtures, and garbage.

mod samples;

/// A sample by its path, when the folder of samples stands beside the project.
fn sample(path: &str) -> Option<String> {
    let file = crate::support::samples()?.join(path);
    Some(std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())))
}
