//! `rdma`, node by node: the hardware, the switch of Recovery, the devices.

use super::Context;
use super::judge::Purpose;
use super::macos::MACOS_MIN;
use super::say::{About, Row, Say, Trouble, at_machine, needs, unknown};
use crate::mesh::usable::rdma_device;
use crate::model::facts::RdmaSwitch;
use crate::model::hardware::{Mac, Thunderbolt};
use crate::model::{Category, NodeFacts, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row { id: "rdma.hardware", category: Category::Rdma, title: "every node has Thunderbolt 5", run: hardware },
    Row { id: "rdma.enabled", category: Category::Rdma, title: "RDMA is enabled on every node", run: enabled },
    Row { id: "rdma.devices", category: Category::Rdma, title: "every link end has its RDMA device", run: devices },
];

fn hardware(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        let mac = Mac::of(facts);
        let what = mac.name().map_or_else(|| label.clone(), |name| format!("{label}, a {name},"));
        match mac.thunderbolt {
            Some(Thunderbolt::Five) => say.pass(about, format!("{what} has Thunderbolt 5")),
            Some(other) => say.trouble(
                Purpose::of(ctx.inventory).for_jaccl(),
                about,
                Trouble {
                    message: format!("{what} has {other}: RDMA needs Thunderbolt 5, and no setting changes that"),
                    observed: other.to_string(),
                    expected: "Thunderbolt 5".to_owned(),
                    remedy: at_machine([
                        format!("replace {label} by a Mac with Thunderbolt 5, or take it out of macluster.yaml"),
                        "or accept the slower `runtime.backend: ring` in macluster.yaml".to_owned(),
                    ]),
                },
            ),
            None => say.skip(
                about,
                match (&facts.hardware, &facts.receptacles) {
                    (Err(error), _) | (_, Err(error)) => unknown(error),
                    _ => format!(
                        "not checked: neither the model of {node} nor its receptacles tell its Thunderbolt generation"
                    ),
                },
            ),
        }
    }
}

/// What must be right on a node before its RDMA switch can be judged.
fn before_switch(facts: &NodeFacts, node: &NodeName) -> Result<(), String> {
    match Mac::of(facts).thunderbolt {
        Some(Thunderbolt::Five) => {}
        // A Mac without Thunderbolt 5 is never sent to Recovery: its switch can be set and does nothing.
        _ => return Err(needs("rdma.hardware", node)),
    }
    let old =
        facts.os.as_ref().ok().and_then(crate::model::facts::OsVersion::major_minor).is_some_and(|v| v < MACOS_MIN);
    if old { Err(needs("host.macos-min", node)) } else { Ok(()) }
}

/// What must be right on a node before its RDMA devices can be judged.
pub(super) fn before_devices(facts: &NodeFacts, node: &NodeName) -> Result<(), String> {
    before_switch(facts, node)?;
    match &facts.rdma_switch {
        Ok(RdmaSwitch::Enabled) => Ok(()),
        Ok(_) => Err(needs("rdma.enabled", node)),
        Err(error) => Err(unknown(error)),
    }
}

fn enabled(ctx: &Context<'_>, say: &mut Say) {
    let verdict = Purpose::of(ctx.inventory).for_rdma();
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        if let Err(why) = before_switch(facts, node) {
            say.skip(about, why);
            continue;
        }
        match &facts.rdma_switch {
            Ok(RdmaSwitch::Enabled) => say.pass(about, format!("RDMA is enabled on {label}")),
            Ok(RdmaSwitch::Disabled) => {
                let serial = facts.hardware.as_ref().map(|h| format!(", serial {}", h.serial)).unwrap_or_default();
                say.trouble(
                    verdict,
                    about,
                    Trouble {
                        message: format!(
                            "RDMA is off on {label}: it can only be switched on in Recovery, by a person at the Mac"
                        ),
                        observed: "rdma_ctl status: disabled".to_owned(),
                        expected: "rdma_ctl status: enabled".to_owned(),
                        remedy: at_machine([
                            format!(
                                "start {label}{serial} in Recovery, open Utilities > Terminal, type: rdma_ctl enable"
                            ),
                            "restart it; `macluster checklist` prints every step for all nodes that need it".to_owned(),
                        ]),
                    },
                );
            }
            Ok(RdmaSwitch::NoCommand) => say.trouble(
                verdict,
                about,
                Trouble {
                    message: format!("{label} has no rdma_ctl: its macOS is older than 26.2"),
                    observed: "no command rdma_ctl".to_owned(),
                    expected: "macOS 26.2 or newer".to_owned(),
                    remedy: at_machine([format!("at {label}: System Settings > General > Software Update")]),
                },
            ),
            Err(error) => say.skip(about, unknown(error)),
        }
    }
}

fn devices(ctx: &Context<'_>, say: &mut Say) {
    let verdict = Purpose::of(ctx.inventory).for_rdma();
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        if let Err(why) = before_devices(facts, node) {
            say.skip(about, why);
            continue;
        }
        let listed = match (&facts.rdma_devices, &facts.receptacles) {
            (Ok(listed), Ok(_)) => listed,
            // Without receptacles no cable of this node is known: nothing could be looked at.
            (Err(error), _) | (_, Err(error)) => {
                say.skip(about, unknown(error));
                continue;
            }
        };
        let observed = if listed.is_empty() { "ibv_devices lists none".to_owned() } else { listed.join(" ") };
        if listed.is_empty() {
            trouble(
                say,
                verdict,
                about,
                &label,
                &format!("{label} has no RDMA device although RDMA is enabled"),
                observed,
                "one device for each receptacle",
            );
            continue;
        }
        let excluded = Mac::of(facts).excluded();
        let mut missing = Vec::new();
        let mut blind = Vec::new();
        for link in ctx.graph.of(node) {
            let Some(end) = link.end(node).filter(|e| Some(e.receptacle) != excluded) else { continue };
            match link.interface(node) {
                Some(interface) if listed.contains(&rdma_device(interface)) => {}
                Some(interface) => missing.push(rdma_device(interface)),
                None => blind.push(end.receptacle.to_string()),
            }
        }
        if !missing.is_empty() {
            let names = missing.join(", ");
            trouble(
                say,
                verdict,
                about,
                &label,
                &format!("{label} has no RDMA device {names} for its cable"),
                observed,
                &names,
            );
        } else if !blind.is_empty() {
            let why = match &facts.hardware_ports {
                Err(error) => unknown(error),
                Ok(_) => {
                    format!("not checked: no hardware port of {node} is called Thunderbolt {}", blind.join(" or "))
                }
            };
            say.skip(about, why);
        } else {
            say.pass(about, format!("{label} has its RDMA devices"));
        }
    }
}

fn trouble(
    say: &mut Say,
    verdict: Verdict,
    about: About<'_>,
    label: &str,
    message: &str,
    observed: String,
    expected: &str,
) {
    say.trouble(
        verdict,
        about,
        Trouble {
            message: message.to_owned(),
            observed,
            expected: expected.to_owned(),
            remedy: at_machine([
                format!("restart {label}: devices appear with the first start after RDMA was enabled"),
                "if that does not help, enable RDMA in Recovery once more (`macluster checklist`)".to_owned(),
            ]),
        },
    );
}
