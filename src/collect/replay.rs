//! A recorded rack in place of a live one.

use std::path::Path;

use serde::Deserialize;

use crate::exit::{Exit, Failure};
use crate::model::facts::Session;
use crate::model::snapshot::SNAPSHOT_VERSION;
use crate::model::{Inventory, Snapshot};
use crate::parse::{assemble, inventory};

/// Loads a snapshot and the inventory inside it. Facts are read anew from the transcripts, so that a recording
/// profits from every reader that was improved since.
///
/// # Errors
/// Exit 3: the file cannot be read, is no snapshot, is cut short, or is of another version.
pub fn replay(path: &Path) -> Result<(Inventory, Snapshot), Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Exit::Inventory, format!("cannot read the snapshot {shown}: {e}")))?;
    let mut snapshot = read(&text).map_err(|why| {
        Failure::new(Exit::Inventory, format!("{shown} is no usable snapshot: {why}"))
            .hint("take a new one with `macluster snapshot FILE`")
    })?;
    for record in snapshot.nodes.values_mut() {
        let Ok(facts) = &record.facts else { continue };
        if !record.transcripts.is_empty() {
            // The connection's own facts are in no transcript.
            let session: Session = facts.session.clone();
            record.facts = Ok(assemble::facts(&record.transcripts, session));
        }
    }
    let inventory = inventory::read(&snapshot.inventory, None).map_err(|e| {
        let failure = Failure::from(e);
        Failure { message: format!("the inventory inside the snapshot {shown}: {}", failure.message), ..failure }
    })?;
    Ok((inventory, snapshot))
}

/// The version alone, whatever else the file holds.
#[derive(Deserialize)]
struct Version {
    schema_version: Option<u32>,
}

fn read(text: &str) -> Result<Snapshot, String> {
    let version: Version = serde_json::from_str(text).map_err(|e| why(&e))?;
    match version.schema_version {
        Some(SNAPSHOT_VERSION) => {}
        Some(other) => {
            return Err(format!(
                "its schema_version is {other}; this macluster ({}) reads {SNAPSHOT_VERSION}",
                env!("CARGO_PKG_VERSION")
            ));
        }
        None => return Err("it has no schema_version".to_owned()),
    }
    serde_json::from_str(text).map_err(|e| why(&e))
}

fn why(e: &serde_json::Error) -> String {
    match e.classify() {
        serde_json::error::Category::Eof => "it ends too early: the file is cut short".to_owned(),
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => format!("it is not JSON: {e}"),
        serde_json::error::Category::Data => format!("it does not have a snapshot's shape: {e}"),
    }
}
