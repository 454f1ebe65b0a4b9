//! What is said beside the steps.

use std::fmt::Write;

use super::{Wiring, counted, name};
use crate::mesh::wiring::{Bridge, End, Step, WiringPlan};
use crate::model::hardware::Thunderbolt;

/// What stays as it is and matters all the same.
pub(in crate::view) fn notes(wiring: &Wiring<'_>, plan: &WiringPlan) -> Vec<String> {
    let board = wiring.board;
    let mut notes = Vec::new();
    notes.extend(older(wiring));
    for (node, station) in board.stations.iter().enumerate() {
        for (receptacle, what) in &station.things {
            let end = (node, *receptacle);
            if !plan.target.displaced.iter().any(|d| d.from == end) {
                notes.push(format!("{} keeps what is there: {what}", wiring.place(end)));
            }
        }
    }
    let extra = plan.wiring().len() - plan.demand.pairs.len();
    if extra > 0 {
        let (more, verb) = (counted(extra, "cable"), if extra == 1 { "stays" } else { "stay" });
        notes.push(format!(
            "{more} more than a {} needs {verb}: the receptacles are not needed",
            name(plan.demand.topology)
        ));
    }
    let unseen = |end: &End| board.stations[end.0].bridges.get(&end.1) == Some(&Bridge::Unseen);
    let matters = |s: &Step| matches!(s, Step::Apply | Step::Cable { stop: true, .. });
    if plan.steps.iter().any(matters) && plan.wiring().iter().flatten().any(unseen) {
        notes.push(
            "whether all these receptacles are in a bridge is not known; the order of the steps assumes that they are"
                .to_owned(),
        );
    }
    if !plan.choice.proven {
        notes.push("there may be a wiring that touches fewer cables: not all were compared".to_owned());
    }
    notes
}

/// Macs with cables that RDMA does not run on, if there are any.
pub(super) fn older(wiring: &Wiring<'_>) -> Option<String> {
    let old: Vec<String> = wiring
        .board
        .stations
        .iter()
        .enumerate()
        .filter(|(_, station)| station.thunderbolt != Some(Thunderbolt::Five) && !station.usable.is_empty())
        .map(|(n, station)| {
            let generation = station.thunderbolt.map(|t| t.to_string());
            format!("{} ({})", wiring.label(n), generation.as_deref().unwrap_or("unknown generation"))
        })
        .collect();
    let whom =
        if old.len() > 1 && old.len() == wiring.macs.len() { "any of these Macs".to_owned() } else { old.join(", ") };
    (!old.is_empty()).then(|| format!("RDMA needs Thunderbolt 5; the backend `ring` alone runs over cables to {whom}"))
}

/// What it comes to, and what is next.
pub(in crate::view) fn closing(wiring: &Wiring<'_>, plan: &WiringPlan) -> String {
    if wiring.macs.len() < 2 {
        return "No changes: one Mac needs no cable.".to_owned();
    }
    if plan.steps.is_empty() {
        return format!("No changes: the wiring is a {}.", name(plan.demand.topology));
    }
    let counts = plan.counts(wiring.board);
    let moves = if counts.moved == 1 { "1 cable moves".to_owned() } else { format!("{} cables move", counts.moved) };
    let mut line = format!("{moves}, {}, {} to remove", counted(counts.new, "new cable"), counts.removed);
    if counts.put_back > 0 {
        let _ = write!(line, ", {} unplugged and put back", counts.put_back);
    }
    if counts.given > 0 {
        let _ = write!(line, ", {} to give way", counted(counts.given, "other thing"));
    }
    line.push_str(".\nhint: then `macluster network apply`, and `macluster doctor`");
    line
}
