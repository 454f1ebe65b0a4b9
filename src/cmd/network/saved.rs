//! A plan in a file: what it rests on goes with it, so that a rack that has moved since is found out.

use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::cmd::file::write_whole;
use crate::exit::{Exit, Failure};
use crate::model::Inventory;
use crate::model::command::printable;
use crate::network::{Basis, Moved, NetworkPlan};
use crate::view::plan as view;

/// Says what kind of file it is.
const KIND: &str = "macluster-network-plan";
/// Version of the file.
const VERSION: u32 = 1;
/// Lines of what moved; the rest is counted.
const TOLD: usize = 20;

/// What is read back.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Saved {
    kind: String,
    schema_version: u32,
    made_at: Timestamp,
    fingerprint: String,
    pub(super) basis: Basis,
}

/// Writes it, whole or not at all.
pub(super) fn write(path: &Path, plan: &NetworkPlan, inventory: &Inventory) -> Result<(), Failure> {
    let mut value = view::json(plan, inventory);
    if let Some(object) = value.as_object_mut() {
        object.insert("kind".to_owned(), json!(KIND));
        object.insert("schema_version".to_owned(), json!(VERSION));
        object.insert("made_at".to_owned(), json!(Timestamp::now().round(jiff::Unit::Second).unwrap_or_default()));
        object.insert("macluster".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        object.insert("basis".to_owned(), json!(plan.basis));
    }
    let text = serde_json::to_string_pretty(&value).unwrap_or_default() + "\n";
    write_whole(path, &text)
        .map_err(|e| Failure::new(Exit::Inventory, format!("cannot write the plan {}: {e}", path.display())))
}

/// Reads it.
pub(super) fn read(path: &Path) -> Result<Saved, Failure> {
    let shown = path.display();
    let fail = |why: String| {
        Failure::new(Exit::Inventory, format!("{shown} is no usable plan: {why}"))
            .hint("make one with `macluster network plan --out FILE`")
    };
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::new(Exit::Inventory, format!("cannot read the plan {shown}: {e}"))
            .hint("make one with `macluster network plan --out FILE`")
    })?;
    let saved: Saved = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
    if saved.kind != KIND || saved.schema_version != VERSION {
        return Err(fail(format!("it is a {} of version {}", saved.kind.escape_debug(), saved.schema_version)));
    }
    if saved.basis.fingerprint() != saved.fingerprint {
        return Err(fail("it was changed after it was made: its fingerprint is another".to_owned()));
    }
    Ok(saved)
}

impl Saved {
    /// Refuses a plan whose rack has moved since.
    pub(super) fn compare(&self, now: &NetworkPlan) -> Result<(), Failure> {
        if now.basis == self.basis {
            return Ok(());
        }
        let mut message = format!("not applied: the rack has moved since the plan was made ({})", self.made_at);
        message.push_str(&moved(&self.basis.moved(&now.basis)));
        Err(Failure::new(Exit::StalePlan, message)
            .hint("`macluster network plan --out FILE` makes a new one; look at it before you apply it"))
    }
}

/// What moved, in lines.
pub(super) fn moved(all: &[Moved]) -> String {
    let mut text = String::new();
    for one in all.iter().take(TOLD) {
        let at = one.node.as_ref().map(|n| format!("{n}: ")).unwrap_or_default();
        let line = match (&one.before, &one.now) {
            (Some(before), Some(now)) => format!("{before} → {now}"),
            (Some(before), None) => format!("no longer: {before}"),
            (None, now) => format!("new: {}", now.as_deref().unwrap_or("nothing")),
        };
        let _ = write!(text, "\n  {at}{}", printable(&line));
    }
    match all.len() {
        0 => text.push_str("\n  what is planned from the same facts is another: this macluster may be another version"),
        n if n > TOLD => {
            let _ = write!(text, "\n  and {} more", n - TOLD);
        }
        _ => {}
    }
    text
}
