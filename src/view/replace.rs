//! `node replace`: who was there, who is there now, and what follows.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::model::command::printable;
use crate::model::hardware::Mac;
use crate::model::{Inventory, NodeName, Snapshot};
use crate::phase::replace::{Identity, Recabling};
use crate::remote::known_hosts::{HostKey, Place};
use crate::remote::meet::Recorded;
use crate::view::Printer;
use crate::view::text::{Tint, hanging, paint};
use crate::view::wiring::{Wiring, steps_human};

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;

/// One Mac in the place of another.
pub struct Replacement<'a> {
    /// Labels.
    pub inventory: &'a Inventory,
    /// The node.
    pub node: &'a NodeName,
    /// As it was recorded.
    pub old: Option<Identity>,
    /// As it is now.
    pub new: Identity,
    /// What `known_hosts` holds.
    pub known: &'a Recorded,
    /// The key it offers.
    pub key: &'a HostKey,
    /// Its old and its new address.
    pub address: (&'a str, &'a str),
}

/// Old and new side by side.
pub fn human(r: &Replacement<'_>, printer: Printer) -> String {
    let label = r.inventory.label(r.node);
    let mut out = format!("{}\n\n", paint(printer, Tint::Bold, &format!("Another Mac in the place of {label}")));
    let unknown = || "not known (no recording was given with --from)".to_owned();
    let old = |what: fn(&Identity) -> Option<String>| match &r.old {
        Some(old) => what(old).unwrap_or_else(|| "not known".to_owned()),
        None => unknown(),
    };
    let new = |what: fn(&Identity) -> Option<String>| what(&r.new).unwrap_or_else(|| "not known".to_owned());
    let keys: Vec<String> = r.known.keys.iter().map(|(_, key)| key.to_string()).collect();
    let domains = |i: &Identity| Some(format!("{} receptacles with a domain UUID", i.domains.len()));
    for (title, was, is) in [
        ("serial", old(|i| i.serial.clone()), new(|i| i.serial.clone())),
        ("model", old(|i| i.model.clone()), new(|i| i.model.clone())),
        ("Thunderbolt", old(domains), new(domains)),
        ("address", r.address.0.to_owned(), r.address.1.to_owned()),
        ("host key", if keys.is_empty() { "none recorded".to_owned() } else { keys.join(", ") }, r.key.to_string()),
    ] {
        let _ = writeln!(out, "  {title}");
        let _ = writeln!(out, "    old  {}\n    new  {}", printable(&was), printable(&is));
    }
    out
}

/// What the person is asked.
pub fn question(r: &Replacement<'_>) -> String {
    format!(
        "\nCompare the new host key with the one shown at the new Mac (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub).\nIs \
         this the Mac that is to be {} from now on?",
        r.node
    )
}

/// What was done and what follows.
pub struct Done<'a> {
    /// Who.
    pub replacement: &'a Replacement<'a>,
    /// Keys that were taken out of `known_hosts`.
    pub removed: &'a [(Place, HostKey)],
    /// The cables, or why they cannot be planned.
    pub recabling: &'a Result<Recabling, String>,
    /// Facts of the rack now.
    pub facts: &'a Snapshot,
    /// Next actions.
    pub next: &'a [String],
}

impl Done<'_> {
    fn macs(&self, recabling: &Recabling) -> Vec<Mac> {
        recabling.board.names.iter().filter_map(|n| self.facts.facts(n)).map(Mac::of).collect()
    }

    /// For people.
    pub fn human(&self, printer: Printer) -> String {
        let r = self.replacement;
        let mut out = format!("\n{}\n\n", paint(printer, Tint::Bold, "Replaced"));
        if r.address.0 != r.address.1 {
            let file = r.inventory.source.as_ref().map_or_else(String::new, |p| p.display().to_string());
            let _ = writeln!(out, "  {file}: host of {} is {}", r.node, r.address.1);
        }
        for (place, key) in self.removed {
            let _ = writeln!(out, "  {place}: forgotten for {}: {key}", r.known.name);
        }
        let file = r.known.file().map_or_else(String::new, |f| f.display().to_string());
        let _ = writeln!(out, "  {file}: recorded for {}: {}", r.known.name, r.key);
        let _ = writeln!(out, "\n{}\n", paint(printer, Tint::Bold, "Cables"));
        match self.recabling {
            Err(why) => {
                let why = format!("not planned: {}; see `macluster cabling plan`", printable(why));
                out.push_str(&hanging("  ", &why, printer.width));
            }
            Ok(recabling) if recabling.plan.steps.is_empty() => {
                out.push_str("  No changes: its cables are in place.\n");
            }
            Ok(recabling) => {
                let how = if recabling.as_recorded { "in the receptacles of the recording" } else { "planned anew" };
                let _ = writeln!(out, "  The cables of the old Mac, {how}:\n");
                let macs = self.macs(recabling);
                let wiring = Wiring { inventory: r.inventory, macs: &macs, board: &recabling.board, at_hand: true };
                out.push_str(&steps_human(&wiring, &recabling.plan, printer));
            }
        }
        let _ = writeln!(out, "\n{}\n", paint(printer, Tint::Bold, "Next"));
        for (i, action) in self.next.iter().enumerate() {
            out.push_str(&hanging(&format!("{:>3}. ", i + 1), action, printer.width));
        }
        out
    }
}

fn identity_json(identity: &Identity) -> Value {
    json!({"serial": identity.serial, "model": identity.model, "domain_uuids": identity.domains})
}

fn key_json(key: &HostKey) -> Value {
    json!({"type": key.kind, "fingerprint": key.fingerprint()})
}

/// For programs.
pub fn json(done: &Done<'_>) -> Value {
    let r = done.replacement;
    let removed: Vec<Value> = done
        .removed
        .iter()
        .map(|(place, key)| json!({"file": place.file, "line": place.line, "key": key_json(key)}))
        .collect();
    let recabling = done.recabling.as_ref().ok().map(|recabling| {
        let macs = done.macs(recabling);
        let wiring = Wiring { inventory: r.inventory, macs: &macs, board: &recabling.board, at_hand: true };
        json!({"as_recorded": recabling.as_recorded, "plan": crate::view::wiring::json(&wiring, &recabling.plan)})
    });
    json!({
        "schema_version": SCHEMA_VERSION,
        "rack": r.inventory.rack,
        "node": r.node,
        "old": r.old.as_ref().map(identity_json),
        "new": identity_json(&r.new),
        "host": {"old": r.address.0, "new": r.address.1},
        "known_hosts": {"name": r.known.name, "removed": removed, "file": r.known.file(), "key": key_json(r.key)},
        "recabling": recabling,
        "not_recabled": done.recabling.as_ref().err(),
        "next": done.next,
    })
}
