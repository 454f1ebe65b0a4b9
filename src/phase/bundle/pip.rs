//! The desk's Python: it downloads wheels, by hash and for another platform, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use super::locks::{Pin, normalise};
use super::manifest::sha256_file;
use super::platform::Platform;
use crate::event::{Event, Events};
use crate::exit::{Exit, Failure};
use crate::model::command::printable;

/// Lowest Python minor that can build a bundle.
const LOWEST: u32 = 11;
/// Asking an interpreter what it is.
const ASK_LIMIT: Duration = Duration::from_secs(20);
/// Downloading everything.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A Python with pip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pip {
    /// The interpreter.
    pub python: PathBuf,
    /// Its minor, e.g. `3.12`.
    pub minor: String,
}

/// Finds a Python ≥ 3.11 with pip: the one given, else the first on `PATH`.
///
/// # Errors
/// What was looked at and why it was not taken.
pub async fn find(given: Option<&Path>) -> Result<Pip, Failure> {
    let candidates: Vec<PathBuf> = match given {
        Some(path) => vec![path.to_owned()],
        None => ["python3", "python3.13", "python3.12", "python3.11", "python3.14", "python"].map(PathBuf::from).into(),
    };
    let mut refused = Vec::new();
    for candidate in candidates {
        match ask(&candidate).await {
            Ok(pip) => return Ok(pip),
            Err(None) => {}
            Err(Some(why)) => refused.push(format!("{}: {why}", candidate.display())),
        }
    }
    if given.is_none() && refused.is_empty() {
        refused.push("no python3 on PATH".to_owned());
    }
    Err(Failure::new(
        Exit::Unexpected,
        format!("no Python ≥ 3.{LOWEST} with pip to download the bundle's packages ({})", refused.join("; ")),
    )
    .hint("install one, or name it: --pip-python PATH"))
}

/// `Err(None)`: there is no such program.
async fn ask(python: &Path) -> Result<Pip, Option<String>> {
    const QUESTION: &str = "import sys\nprint(*sys.version_info[:2])\nimport pip\nprint(sys.executable)";
    // `-I`: neither the working directory nor PYTHON* variables decide what is imported.
    let child = Command::new(python)
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(ASK_LIMIT, child).await {
        Err(_) => return Err(Some(format!("no answer within {} s", ASK_LIMIT.as_secs()))),
        Ok(Err(e)) if e.kind() == std::io::ErrorKind::NotFound => return Err(None),
        Ok(Err(e)) => return Err(Some(e.to_string())),
        Ok(Ok(output)) => output,
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let version = lines.next().and_then(|l| l.split_once(' ')).and_then(|(major, minor)| {
        let pair: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(pair)
    });
    match version {
        Some((3, minor)) if minor >= LOWEST => match lines.next() {
            Some(path) if output.status.success() => {
                Ok(Pip { python: PathBuf::from(path), minor: format!("3.{minor}") })
            }
            _ => Err(Some(format!("Python 3.{minor} without pip"))),
        },
        Some((major, minor)) => Err(Some(format!("Python {major}.{minor} is too old"))),
        None => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(Some(printable(stderr.lines().last().unwrap_or("it does not answer as a Python does"))))
        }
    }
}

/// Brings the wheel of every pin into `folder` and returns them, in the order of the pins. Files that are
/// there with the right hash are not downloaded again; files with a wrong one are never used.
///
/// # Errors
/// What pip said; a wheel that does not fit the platform.
pub async fn fetch(
    pip: &Pip,
    pins: &[Pin],
    lock: &str,
    platform: Platform,
    minor: &str,
    folder: &Path,
    events: &Events,
) -> Result<Vec<PathBuf>, Failure> {
    let failed = |why: String| Failure::new(Exit::Unexpected, why);
    std::fs::create_dir_all(folder).map_err(|e| failed(format!("cannot create {}: {e}", folder.display())))?;
    if let Ok(wheels) = choose(pins, folder) {
        return Ok(wheels);
    }
    let lock_file = tempfile::Builder::new()
        .prefix("lock-")
        .suffix(".txt")
        .tempfile()
        .and_then(|mut f| std::io::Write::write_all(&mut f, lock.as_bytes()).map(|()| f))
        .map_err(|e| failed(format!("cannot write a temporary file: {e}")))?;
    let mut command = Command::new(&pip.python);
    command.args(["-I", "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    command.args(["--only-binary=:all:", "--require-hashes", "--progress-bar=off", "--implementation=cp"]);
    command.arg("--python-version").arg(minor);
    for abi in [format!("cp{}", minor.replace('.', "")), "abi3".into(), "none".into()] {
        command.arg("--abi").arg(abi);
    }
    for tag in platform_tags(platform) {
        command.arg("--platform").arg(tag);
    }
    command.arg("--dest").arg(folder).arg("--requirement").arg(lock_file.path());
    run(command, pins.len() as u64, events).await?;
    choose(pins, folder).map_err(failed)
}

/// Runs pip, counting what it collects.
async fn run(mut command: Command, total: u64, events: &Events) -> Result<(), Failure> {
    let what = "downloading packages".to_owned();
    events.emit(Event::TaskStarted { node: None, what: what.clone() });
    let work = async {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("cannot start pip: {e}"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let count = async {
            let mut done = 0;
            if let Some(stdout) = stdout {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.starts_with("Collecting ") {
                        events.emit(Event::Progress { node: None, what: what.clone(), done, total });
                        done += 1;
                    }
                }
            }
        };
        let complain = async {
            let mut text = Vec::new();
            if let Some(stderr) = stderr {
                let _ = stderr.take(1 << 20).read_to_end(&mut text).await;
            }
            String::from_utf8_lossy(&text).into_owned()
        };
        let ((), complaint) = tokio::join!(count, complain);
        let status = child.wait().await.map_err(|e| format!("cannot wait for pip: {e}"))?;
        if status.success() {
            return Ok(());
        }
        let words: Vec<&str> = complaint.lines().filter(|l| !l.trim().is_empty()).collect();
        let tail = words.iter().rev().take(8).rev().copied().collect::<Vec<_>>().join("\n  ");
        Err(format!("pip could not download the packages:\n  {}", printable(&tail)))
    };
    let result = tokio::time::timeout(DOWNLOAD_LIMIT, work)
        .await
        .unwrap_or_else(|_| Err(format!("pip did not end within {} minutes", DOWNLOAD_LIMIT.as_secs() / 60)));
    events.emit(Event::TaskDone { node: None, what, error: result.clone().err() });
    result.map_err(|why| {
        Failure::new(Exit::Unexpected, why)
            .hint("the packages come from the index that pip is set up for; once downloaded they are kept in the cache")
    })
}

/// The wheel of every pin among the files of a folder, by hash.
fn choose(pins: &[Pin], folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut by_name: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let entries = std::fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    for entry in entries.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if let Some((name, _)) =
            file.split_once('-').filter(|_| Path::new(&file).extension().is_some_and(|e| e == "whl"))
        {
            by_name.entry(normalise(name)).or_default().push(entry.path());
        }
    }
    let mut chosen = Vec::new();
    for pin in pins {
        let mut candidates = by_name.get(&pin.name).cloned().unwrap_or_default();
        candidates.sort();
        let fits = |p: &PathBuf| sha256_file(p, &mut |_| {}).is_ok_and(|sum| pin.hashes.contains(&sum));
        let wheel = candidates.into_iter().find(fits);
        chosen.push(wheel.ok_or_else(|| format!("the wheel of {} is missing or corrupted", pin.requirement()))?);
    }
    Ok(chosen)
}

/// Platform tags for pip, best first. pip knows which older macOS a newer one runs; of glibc it knows nothing.
fn platform_tags(platform: Platform) -> &'static [&'static str] {
    match platform {
        Platform::MacosArm64 => &["macosx_26_0_arm64"],
        Platform::LinuxX8664 => &[
            "manylinux_2_35_x86_64",
            "manylinux_2_34_x86_64",
            "manylinux_2_31_x86_64",
            "manylinux_2_28_x86_64",
            "manylinux_2_27_x86_64",
            "manylinux_2_17_x86_64",
            "manylinux2014_x86_64",
            "manylinux_2_12_x86_64",
            "manylinux2010_x86_64",
            "manylinux_2_5_x86_64",
            "manylinux1_x86_64",
            "linux_x86_64",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corrupted_wheel_in_the_cache_is_not_taken() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("Some_Name-1.0-py3-none-any.whl");
        std::fs::write(&path, b"content").expect("written");
        let sum = sha256_file(&path, &mut |_| {}).expect("readable");
        let pin = Pin { name: "some-name".into(), version: "1.0".into(), hashes: [sum].into() };
        assert_eq!(choose(std::slice::from_ref(&pin), dir.path()), Ok(vec![path.clone()]));
        std::fs::write(&path, b"c0ntent").expect("written");
        assert!(choose(&[pin], dir.path()).expect_err("corrupted").contains("some-name==1.0"));
    }

    #[tokio::test]
    async fn a_python_that_cannot_help_is_named_with_its_reason() {
        let dir = tempfile::tempdir().expect("tempdir");
        let old = dir.path().join("python-old");
        std::fs::write(&old, "#!/bin/sh\necho 3 9\n").expect("written");
        std::fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
        let why = find(Some(&old)).await.expect_err("too old");
        assert!(why.message.contains("python-old: Python 3.9 is too old"), "{}", why.message);
        let why = find(Some(&dir.path().join("nothing"))).await.expect_err("nothing there");
        assert!(why.message.contains("Python ≥ 3.11"), "{}", why.message);
        std::fs::write(&old, "#!/bin/sh\necho 3 12\nexit 1\n").expect("written");
        assert!(find(Some(&old)).await.expect_err("no pip").message.contains("without pip"));
    }
}
