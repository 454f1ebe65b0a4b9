//! Who has to walk to which Mac, and what to do there: the technician's steps of `playbooks/recovery.yaml`, filled in
//! for the nodes that need them and for no others.

use jiff::Timestamp;
use serde::Serialize;

use super::{ForEach, PlaybookError, Playbooks, Vars};
use crate::model::command::printable;
use crate::model::facts::{NodeFacts, RdmaSwitch};
use crate::model::hardware::{Mac, Thunderbolt};
use crate::model::{Inventory, NodeName, Snapshot};

/// First macOS with RDMA over Thunderbolt (Apple TN3205).
const FIRST_WITH_RDMA: (u32, u32) = (26, 2);

/// The sheet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checklist {
    /// The rack.
    pub rack: String,
    /// When the facts were read.
    pub taken_at: Timestamp,
    /// Nodes somebody has to go to, in the inventory's order.
    pub nodes: Vec<ChecklistNode>,
    /// Nodes that RDMA cannot be turned on for, and why.
    pub left_out: Vec<Told>,
    /// Nodes that answered and of which it cannot be told what they need, and why.
    pub unknown: Vec<Told>,
    /// Nodes that did not answer, and why.
    pub unreachable: Vec<Told>,
    /// Nodes that need nothing.
    pub ready: Vec<NodeName>,
}

/// A node with something to say of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Node.
    pub node: NodeName,
    /// `studio-2 (slot 2)`.
    pub label: String,
    /// What.
    pub why: String,
}

/// What a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A newer macOS first.
    UpdateMacos,
    /// `rdma_ctl enable` in Recovery.
    EnableRdma,
}

/// One Mac and its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChecklistNode {
    /// Node.
    pub node: NodeName,
    /// `studio-2 (slot 2)`.
    pub label: String,
    /// Its place, when the inventory says.
    pub slot: Option<u32>,
    /// Marketing name, e.g. `Mac Studio M3 Ultra (2025)`.
    pub model_name: String,
    /// Model id, e.g. `Mac15,14`.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// macOS as it runs now.
    pub macos: String,
    /// What is to be done.
    pub work: Work,
    /// In order.
    pub steps: Vec<ChecklistStep>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChecklistStep {
    /// Step of the playbook.
    pub id: String,
    /// Title.
    pub title: String,
    /// What to do, sentence by sentence.
    pub lines: Vec<String>,
}

/// What is to be done at this Mac.
enum Verdict {
    Nothing,
    Do(Work),
    LeaveOut(String),
    Unknown(String),
}

/// Makes the sheet.
///
/// # Errors
/// A playbook whose placeholders cannot be filled.
pub fn checklist(
    inventory: &Inventory,
    snapshot: &Snapshot,
    playbooks: &Playbooks,
) -> Result<Checklist, PlaybookError> {
    let mut sheet = Checklist {
        rack: inventory.rack.clone(),
        taken_at: snapshot.taken_at,
        nodes: Vec::new(),
        left_out: Vec::new(),
        unknown: Vec::new(),
        unreachable: Vec::new(),
        ready: Vec::new(),
    };
    for node in &inventory.nodes {
        let name = &node.name;
        let told = |why: String| Told { node: name.clone(), label: inventory.label(name), why };
        match snapshot.nodes.get(name).map(|record| &record.facts) {
            None => sheet.unreachable.push(told("the recording does not have it".to_owned())),
            Some(Err(failure)) => sheet.unreachable.push(told(printable(&failure.message))),
            Some(Ok(facts)) => match judge(facts) {
                Verdict::Nothing => sheet.ready.push(name.clone()),
                Verdict::LeaveOut(why) => sheet.left_out.push(told(why)),
                Verdict::Unknown(why) => sheet.unknown.push(told(why)),
                Verdict::Do(work) => {
                    sheet.nodes.push(entry(name, inventory.label(name), node.slot, facts, work, playbooks)?);
                }
            },
        }
    }
    Ok(sheet)
}

/// A Mac is sent to Recovery only when it is sure that this helps: Thunderbolt 5, and the switch says `disabled`.
fn judge(facts: &NodeFacts) -> Verdict {
    let mac = Mac::of(facts);
    match mac.thunderbolt {
        Some(Thunderbolt::Five) => {}
        Some(other) => {
            let name = mac.name().map_or_else(|| "this Mac".to_owned(), str::to_owned);
            return Verdict::LeaveOut(format!(
                "{name} has {other}: RDMA needs Thunderbolt 5, and no setting changes that; `runtime.backend: ring` works"
            ));
        }
        None => {
            return Verdict::Unknown("what kind of receptacles it has is not known; run `macluster doctor`".to_owned());
        }
    }
    let version = facts.os.as_ref().ok().and_then(|os| Some((os, os.major_minor()?)));
    if version.is_some_and(|(_, v)| v < FIRST_WITH_RDMA) {
        return Verdict::Do(Work::UpdateMacos);
    }
    match &facts.rdma_switch {
        Ok(RdmaSwitch::Enabled) => Verdict::Nothing,
        Ok(RdmaSwitch::Disabled) => Verdict::Do(Work::EnableRdma),
        Ok(RdmaSwitch::NoCommand) => match version {
            Some((os, _)) => Verdict::LeaveOut(format!("macOS {os} has no rdma_ctl, although 26.2 and later should")),
            None => Verdict::Unknown("it has no rdma_ctl, and its macOS version could not be read".to_owned()),
        },
        Err(e) => Verdict::Unknown(format!("whether RDMA is on is not known ({e})")),
    }
}

fn entry(
    node: &NodeName,
    label: String,
    slot: Option<u32>,
    facts: &NodeFacts,
    work: Work,
    playbooks: &Playbooks,
) -> Result<ChecklistNode, PlaybookError> {
    let unknown = || "not known".to_owned();
    let hardware = facts.hardware.as_ref().ok();
    let model =
        hardware.map(|h| h.model.as_str()).or_else(|| facts.sysctl.as_ref().ok()?.get("hw.model").map(String::as_str));
    let model = model.map_or_else(unknown, printable);
    let marketing = || hardware.map_or_else(|| "Mac".to_owned(), |h| printable(&h.name));
    let model_name = Mac::of(facts).name().map_or_else(marketing, str::to_owned);
    let serial = hardware.map_or_else(unknown, |h| printable(&h.serial));
    let os = facts.os.as_ref().ok();
    let vars = Vars::new()
        .with("node", node.as_str())
        .with("label", label.as_str())
        .with("slot", slot.map_or_else(unknown, |s| s.to_string()))
        .with("model", format!("{model_name}, {model}"))
        .with("serial", serial.as_str())
        .with("version", os.map_or_else(unknown, |os| printable(&os.version)))
        .with("build", os.map_or_else(unknown, |os| printable(&os.build)));
    let for_each = match work {
        Work::UpdateMacos => ForEach::OldMacosNode,
        Work::EnableRdma => ForEach::RdmaDisabledNode,
    };
    let steps = playbooks.book("recovery")?.steps.iter().filter(|s| s.for_each == for_each);
    let steps = steps
        .map(|s| Ok(ChecklistStep { id: s.id.clone(), title: s.title.clone(), lines: s.words(&vars)? }))
        .collect::<Result<_, PlaybookError>>()?;
    let macos = os.map_or_else(unknown, |os| printable(&os.to_string()));
    Ok(ChecklistNode { node: node.clone(), label, slot, model_name, model, serial, macos, work, steps })
}
