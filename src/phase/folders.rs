//! The folders of the runtime on a node: made, and later removed so that what was there before is there again.

use super::runtime::{RuntimeNode, StepError};

/// Lies in the install folder when the folder above it was there first.
const KEEP_ABOVE: &str = ".keep-above";

/// Makes folders by this step. When it makes the install folder, the node remembers whether the folder above it was there:
/// an empty one could not be told later from one that deploy has made.
///
/// # Errors
/// The step that failed.
pub async fn make(node: &RuntimeNode, step: &str) -> Result<(), StepError> {
    let (base, above) = paths(node);
    let keep = !above.is_empty() && !is_there(node, &base).await? && is_there(node, &above).await?;
    node.step(step).ok().await?;
    if keep {
        node.step("keep-above").with("file", format!("{base}/{KEEP_ABOVE}")).ok().await?;
    }
    Ok(())
}

/// Removes what deploy has brought. What is not empty stays: models, and what belongs to the link networks.
///
/// # Errors
/// The step that failed.
pub async fn remove(node: &RuntimeNode, models: bool) -> Result<(), StepError> {
    let (base, above) = paths(node);
    let keep = is_there(node, &format!("{base}/{KEEP_ABOVE}")).await?;
    node.step("remove-runtime").ok().await?;
    if models {
        node.step("remove-models").ok().await?;
    }
    let mut folders = vec![format!("{base}/var/log"), format!("{base}/var"), base.clone()];
    if !keep && !above.is_empty() {
        folders.push(above);
    }
    for folder in folders {
        // Whether it is empty is for the node to say: only an empty folder can be removed so.
        node.step("remove-folder").with("folder", folder).answer().await?;
    }
    // What stays is removed another time, and the folder above still was there first.
    if keep && is_there(node, &base).await? {
        node.step("keep-above").with("file", format!("{base}/{KEEP_ABOVE}")).ok().await?;
    }
    Ok(())
}

/// The install folder, and the one above it; the latter is empty when there is none but the root.
fn paths(node: &RuntimeNode) -> (String, String) {
    let base = node.layout.base();
    let above = base.rsplit_once('/').map(|(above, _)| above.to_owned()).unwrap_or_default();
    let above = if above == node.layout.root().trim_end_matches('/') { String::new() } else { above };
    (base, above)
}

async fn is_there(node: &RuntimeNode, path: &str) -> Result<bool, StepError> {
    Ok(node.step("look-for").with("file", path.to_owned()).answer().await?.ok())
}
