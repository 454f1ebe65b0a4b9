//! macluster itself on a node, to look at files there before anything is deployed.

use std::path::Path;

use crate::model::command::TarEntry;
use crate::model::{Output, Stdin};
use crate::phase::folders;
use crate::phase::runtime::{RuntimeNode, StepError};

/// Exit status of a program that is not there.
const NOT_THERE: i32 = 127;
/// And of one that is too old to know the question.
const USAGE: i32 = 2;

/// Whether a program is missing, or too old.
pub(super) fn unable(output: &Output) -> bool {
    matches!(output.exit, Some(NOT_THERE | USAGE))
}

/// Sees to it that there is a program which knows the questions about models: it is sent when there is none.
///
/// # Errors
/// In words.
pub(super) async fn provide(node: &RuntimeNode, own: &Path) -> Result<(), String> {
    if asked(node).await? {
        return Ok(());
    }
    let words = |e: StepError| e.to_string();
    let size = std::fs::metadata(own).map_err(|e| format!("cannot read {}: {e}", own.display()))?.len();
    let entry = TarEntry { path: "macluster".into(), source: own.to_owned().into(), mode: 0o755, size };
    folders::make(node, "make-tools").await.map_err(words)?;
    node.step("receive-tools").stdin(Stdin::Tar(vec![entry])).ok().await.map_err(words)?;
    if asked(node).await? {
        return Ok(());
    }
    Err("the program that was sent does not run there; --agent PATH names a macluster for the nodes' platform"
        .to_owned())
}

async fn asked(node: &RuntimeNode) -> Result<bool, String> {
    // One that does not run at all is replaced, too: it may be for another platform.
    node.step("ask-model-tool").answer().await.map(|o| o.ok()).map_err(|e| e.to_string())
}
