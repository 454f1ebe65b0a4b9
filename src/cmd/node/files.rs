//! `macluster node files`: a model's files on this node. The list of files comes by standard input.

use std::io::Read;
use std::path::PathBuf;

use clap::Subcommand;

use crate::agent::store::{self, LIST_VERSION, ModelList};
use crate::phase::bundle::manifest::sha256_file;
use crate::phase::model::check::Answer;

/// No list is longer: 16 MiB.
const MAX_LIST: u64 = 16 << 20;

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Step {
    /// Say which lists are understood, and which program this is
    Version,
    /// Say what is missing, what differs, what is too many
    Compare {
        /// The model's folder
        dir: PathBuf,
    },
    /// Prove what has arrived, and put it in its place
    Adopt {
        /// The model's folder
        dir: PathBuf,
    },
    /// Hash every file
    Hash {
        /// The model's folder
        dir: PathBuf,
    },
}

/// Runs it; gives JSON.
pub(super) fn run(step: &Step) -> Result<String, String> {
    match step {
        Step::Version => {
            let own = std::env::current_exe().and_then(|exe| sha256_file(&exe, &mut |_| {}));
            let sha256 = own.map_err(|e| format!("cannot read this program's own file: {e}"))?;
            Ok(super::json(&serde_json::json!({"schema_version": LIST_VERSION, "sha256": sha256})))
        }
        Step::Compare { dir } => Ok(super::json(&store::lacks(&list()?, dir)?)),
        Step::Adopt { dir } => {
            store::adopt(&list()?, dir)?;
            Ok(super::json(&serde_json::json!({"schema_version": LIST_VERSION})))
        }
        Step::Hash { dir } => {
            if !dir.is_dir() {
                return Err(format!("there is no model folder {}", dir.display()));
            }
            let kept = ModelList::kept(dir)?;
            Ok(super::json(&Answer { files: ModelList::of(dir, &mut |_| {})?, kept }))
        }
    }
}

fn list() -> Result<ModelList, String> {
    let mut bytes = Vec::new();
    std::io::stdin().take(MAX_LIST).read_to_end(&mut bytes).map_err(|e| format!("standard input: {e}"))?;
    ModelList::parse(&bytes)
}
