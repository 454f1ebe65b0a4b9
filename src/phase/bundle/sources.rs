//! `inference/` as it is embedded in the binary: the engine's sources and the lock files.

use include_dir::{Dir, include_dir};

use super::platform::Platform;

static PACKAGE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/inference/src/macluster_inference");
static LOCKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/inference/locks");

/// The engine's `pyproject.toml`.
pub const PYPROJECT: &str = include_str!("../../../inference/pyproject.toml");

/// The engine's files as (path inside the wheel, content), sorted. What a test run leaves behind is not among them.
pub fn package() -> Vec<(String, &'static [u8])> {
    let mut files = Vec::new();
    let mut open = vec![&PACKAGE];
    while let Some(dir) = open.pop() {
        open.extend(dir.dirs().filter(|d| d.path().file_name().is_none_or(|n| n != "__pycache__")));
        for file in dir.files() {
            let path = file.path();
            let source = path.extension().is_some_and(|e| e == "py") || path.ends_with("py.typed");
            if source {
                files.push((format!("macluster_inference/{}", path.display()), file.contents()));
            }
        }
    }
    files.sort();
    files
}

/// The packages of a platform and Python minor.
pub fn lock(platform: Platform, minor: &str) -> Option<&'static str> {
    text(&format!("{platform}-cp{}.txt", minor.replace('.', "")))
}

/// The tools (uv) of a platform.
pub fn tools(platform: Platform) -> Option<&'static str> {
    text(&format!("tools-{platform}.txt"))
}

/// Python minors there is a lock for, sorted.
pub fn minors(platform: Platform) -> Vec<String> {
    let prefix = format!("{platform}-cp3");
    let mut numbers: Vec<u32> = LOCKS
        .files()
        .filter_map(|f| f.path().file_name()?.to_str()?.strip_prefix(&prefix)?.strip_suffix(".txt")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|n| format!("3.{n}")).collect()
}

fn text(name: &str) -> Option<&'static str> {
    LOCKS.get_file(name)?.contents_utf8()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::phase::bundle::locks;

    #[test]
    fn every_lock_is_complete_and_names_no_index() {
        for platform in Platform::ALL {
            let minors = minors(platform);
            assert!(minors.contains(&"3.12".to_owned()), "{platform}: {minors:?}");
            for minor in &minors {
                let text = lock(platform, minor).expect("there");
                assert!(!text.contains("://") && !text.contains("--index") && !text.contains("--find-links"));
                let names: Vec<String> = locks::parse(text).expect("a lock").into_iter().map(|p| p.name).collect();
                let library = if platform == Platform::MacosArm64 { "mlx-metal" } else { "mlx-cpu" };
                for wanted in ["mlx", "mlx-lm", library] {
                    assert!(names.iter().any(|n| n == wanted), "{platform} {minor} lacks {wanted}");
                }
            }
            let tools = locks::parse(tools(platform).expect("there")).expect("a lock");
            assert!(tools.iter().any(|p| p.name == "uv"));
        }
    }

    /// `include_dir` does not notice a file that is added: this does.
    #[test]
    fn the_embedded_engine_is_the_one_in_the_folder() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("inference/src");
        let embedded: BTreeSet<String> = package().into_iter().map(|(path, _)| path).collect();
        let there: BTreeSet<String> = std::fs::read_dir(dir.join("macluster_inference"))
            .expect("sources")
            .flatten()
            .map(|e| format!("macluster_inference/{}", e.file_name().to_string_lossy()))
            .filter(|n| [".py", "/py.typed"].iter().any(|end| n.ends_with(end)))
            .collect();
        let top: BTreeSet<String> = embedded.iter().filter(|p| p.matches('/').count() == 1).cloned().collect();
        assert_eq!(top, there, "touch src/phase/bundle/sources.rs and build again");
        assert!(embedded.contains("macluster_inference/engine.py"));
    }
}
