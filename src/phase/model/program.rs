//! macluster itself on a node, to look at files there before anything is deployed.

use std::path::Path;

use serde::Deserialize;

use super::trouble::Trouble;
use crate::model::command::TarEntry;
use crate::model::{Output, Stdin};
use crate::phase::bundle::manifest::sha256_file;
use crate::phase::folders;
use crate::phase::runtime::RuntimeNode;

/// Exit status of a program that is not there.
const NOT_THERE: i32 = 127;
/// And of one that is too old to know the question.
const USAGE: i32 = 2;

/// Whether a program is missing, or too old.
pub(super) fn unable(output: &Output) -> bool {
    matches!(output.exit, Some(NOT_THERE | USAGE))
}

/// What a program says of itself.
#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    sha256: String,
}

/// Sees to it that the program there is this one: it is sent when there is none, or another.
///
/// # Errors
/// In words.
pub(super) async fn provide(node: &RuntimeNode, own: &Path) -> Result<(), Trouble> {
    let unreadable = |e: std::io::Error| Trouble::Other(format!("cannot read {}: {e}", own.display()));
    let size = std::fs::metadata(own).map_err(unreadable)?.len();
    let file = own.to_owned();
    let hashed = tokio::task::spawn_blocking(move || sha256_file(&file, &mut |_| {})).await;
    let wanted = hashed.map_err(|e| e.to_string())?.map_err(unreadable)?;
    if asked(node).await?.is_some_and(|told| told.sha256 == wanted) {
        return Ok(());
    }
    let entry = TarEntry { path: "macluster".into(), source: own.to_owned().into(), mode: 0o755, size };
    folders::make(node, "make-tools").await?;
    node.step("receive-tools").stdin(Stdin::Tar(vec![entry])).ok().await?;
    match asked(node).await? {
        Some(told) if told.sha256 == wanted => Ok(()),
        Some(told) if told.sha256.is_empty() => {
            Err(Trouble::Other(format!("{} is a macluster too old for this one; --agent names it", own.display())))
        }
        Some(_) => {
            Err(Trouble::Other("another desk has sent another macluster at the same moment: run it again".to_owned()))
        }
        None => Err(Trouble::Other(
            "the program that was sent does not run there; --agent PATH names a macluster for the nodes' platform"
                .to_owned(),
        )),
    }
}

/// None when it does not run at all: it may be for another platform.
async fn asked(node: &RuntimeNode) -> Result<Option<Told>, Trouble> {
    let output = node.step("ask-model-tool").answer().await?;
    let told = || serde_json::from_slice(&output.stdout).unwrap_or(Told { sha256: String::new() });
    Ok(output.ok().then(told))
}
