//! A bundle used at the desk: an environment made from its own wheels, for the demo and the tests.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::manifest::Manifest;
use super::pip;
use crate::exit::{Exit, Failure};
use crate::model::command::printable;

/// Making the environment: unpacking a few hundred megabytes.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

fn failed(why: impl Into<String>) -> Failure {
    Failure::new(Exit::Unexpected, why)
}

/// A local interpreter of the minor a bundle was built for, as an absolute path without links or shims.
///
/// # Errors
/// Exit 1 when this machine has none.
pub async fn python_for(bundle: &Path) -> Result<PathBuf, Failure> {
    let manifest = Manifest::read(bundle).map_err(failed)?;
    let named = PathBuf::from(format!("python{}", manifest.python_minor));
    let found = match pip::find(None).await {
        Ok(found) if found.minor == manifest.python_minor => found,
        _ => pip::find(Some(&named)).await?,
    };
    if found.minor != manifest.python_minor {
        return Err(failed(format!("the bundle is for Python {}, this is {}", manifest.python_minor, found.minor)));
    }
    std::fs::canonicalize(&found.python).map_err(|e| failed(format!("cannot find {}: {e}", found.python.display())))
}

/// An environment with everything of the bundle, made without internet below `cache`, used again when complete.
/// Gives its Python.
///
/// # Errors
/// What uv said.
pub async fn local_environment(bundle: &Path, python: &Path, cache: &Path) -> Result<PathBuf, Failure> {
    let manifest = Manifest::read(bundle).map_err(failed)?;
    let folder = cache.join("environments").join(&manifest.id);
    let interpreter = folder.join("bin/python");
    let complete = folder.join("complete");
    if complete.is_file() {
        return Ok(interpreter);
    }
    let text = |path: &Path| path.display().to_string();
    let uv = bundle.join("bin/uv");
    let create =
        ["venv", "--offline", "--no-config", "--clear", "--python", &text(python), &text(&folder)].map(str::to_owned);
    run(&uv, &create).await?;
    let wheels = bundle.join("wheels");
    let mut install =
        ["pip", "install", "--offline", "--no-config", "--no-index", "--no-deps", "--no-cache", "--quiet"]
            .map(str::to_owned)
            .to_vec();
    install.extend(["--python".to_owned(), text(&interpreter)]);
    // The manifest proves every wheel by hash already; its own list is what must be there, nothing else.
    let files = manifest.files.iter().filter(|f| Path::new(&f.path).extension().is_some_and(|e| e == "whl"));
    install.extend(files.filter_map(|f| Some(text(&wheels.join(Path::new(&f.path).file_name()?)))));
    run(&uv, &install).await?;
    std::fs::write(&complete, "").map_err(|e| failed(format!("cannot write {}: {e}", complete.display())))?;
    Ok(interpreter)
}

async fn run(program: &Path, args: &[String]) -> Result<(), Failure> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let name = program.display();
    let output = tokio::time::timeout(INSTALL_LIMIT, child)
        .await
        .map_err(|_| failed(format!("{name} did not end within {} minutes", INSTALL_LIMIT.as_secs() / 60)))?
        .map_err(|e| failed(format!("cannot start {name}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(format!("{name} failed ({}):\n{}", output.status, printable(&String::from_utf8_lossy(&output.stderr)))))
}
