//! A snapshot that can go into a public report: whatever names a person, a Mac or a network has a pseudonym, the same
//! value always the same one, so that cables, subnets and twins are still what they were.
//!
//! Only transcripts are rewritten; the facts are read from them anew. What is not needed to judge a rack (arguments of
//! processes, names of crash reports, banners) is left out rather than renamed.

mod address;
mod inventory;
mod pseudonyms;
mod transcripts;

use crate::exit::{Exit, Failure};
use crate::model::facts::Session;
use crate::model::{CollectFailure, Inventory, NodeRecord, Snapshot};
use crate::parse::assemble;
use pseudonyms::Pseudonyms;

/// The snapshot and its inventory under pseudonyms.
///
/// # Errors
/// Exit 3: a node's facts have no transcripts they could be read from anew.
pub fn redact(inventory: &Inventory, snapshot: &Snapshot) -> Result<Snapshot, Failure> {
    let mut names = Pseudonyms::new(inventory, snapshot);
    let mut nodes = std::collections::BTreeMap::new();
    for (name, record) in &snapshot.nodes {
        let facts = match &record.facts {
            Ok(_) if record.transcripts.is_empty() => {
                let message = format!("{name} has facts and no transcripts: they cannot be put under pseudonyms");
                return Err(Failure::new(Exit::Inventory, message).hint("take a new snapshot"));
            }
            Ok(facts) => Ok(facts),
            Err(failure) => Err(CollectFailure {
                kind: failure.kind,
                message: names.prose(&failure.message),
                hint: failure.hint.as_deref().map(|h| names.prose(h)),
            }),
        };
        let transcripts = transcripts::redact(name, record, inventory, &mut names);
        let facts = facts.map(|facts| {
            let session = Session {
                local_address: facts.session.local_address.map(|a| names.ip(a)),
                user: facts.session.user.as_deref().map(|u| names.user(u)),
                clock_asked: facts.session.clock_asked,
            };
            assemble::facts(&transcripts, session)
        });
        nodes.insert(names.node(name), NodeRecord { facts, transcripts });
    }
    Ok(Snapshot {
        schema_version: snapshot.schema_version,
        taken_at: snapshot.taken_at,
        tool_version: snapshot.tool_version.clone(),
        inventory: inventory::text(inventory, &mut names),
        nodes,
    })
}
