//! `cabling`: what is plugged where no RDMA can come of it: Thunderbolt 4, and ports that are USB-C only.

use super::Context;
use super::cabling::{blind, each_link, why_blind};
use super::say::{About, Row, Say, Trouble, at_machine, needs};
use crate::model::hardware::Thunderbolt;
use crate::model::{Category, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "cabling.tb4-hardware",
        category: Category::Cabling,
        title: "no cable ends at a Mac with Thunderbolt 4",
        run: tb4_hardware,
    },
    Row {
        id: "cabling.usb-only-port",
        category: Category::Cabling,
        title: "no cable of the rack is in a port that is USB-C only",
        run: usb_only_port,
    },
];

/// FAILURES A2, A3: which cables the hardware makes useless for RDMA. That the Mac itself is the cause, and fails for
/// it, is `rdma.hardware`.
fn tb4_hardware(ctx: &Context<'_>, say: &mut Say) {
    each_link(ctx, say, |link, say| {
        let about = About::Link(link);
        let generation = |node: &NodeName| ctx.mac(node).and_then(|m| m.thunderbolt);
        let ends = link.ends().map(|(end, _)| (end, generation(&end.node)));
        let slow = ends.iter().find(|(_, of)| of.is_some_and(|t| t < Thunderbolt::Five));
        if let Some((end, Some(of))) = slow {
            let other = link.other(&end.node).map(|n| ctx.label(n)).unwrap_or_default();
            say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!(
                        "the cable {} ends at {of} of {}: it carries 40 Gb/s at most and never RDMA, whatever the cable",
                        link.id,
                        ctx.label(&end.node)
                    ),
                    observed: of.to_string(),
                    expected: "Thunderbolt 5 at both ends".to_owned(),
                    remedy: at_machine([
                        format!("nothing is gained by another cable to {other}: see rdma.hardware for {}", end.node),
                        "TCP runs over it: `runtime.backend: ring` with `over: links` in macluster.yaml".to_owned(),
                    ]),
                },
            );
        } else if let Some((end, _)) = ends.iter().find(|(_, of)| of.is_none()) {
            say.skip(about, needs("rdma.hardware", &end.node));
        } else {
            say.pass(about, "Thunderbolt 5 at both ends");
        }
    });
}

/// Ports that are USB-C only have no Thunderbolt bus: no tool tells what is in them. What can be seen is the other end:
/// a receptacle that has something plugged in and nothing that answers. That macOS reports it so for such a cable is a
/// guess, hence at most a warning.
fn usb_only_port(ctx: &Context<'_>, say: &mut Say) {
    let names: Vec<NodeName> = ctx.nodes().cloned().collect();
    let unlinked = ctx.graph.pairs_missing(&names);
    let front = |node: &NodeName| ctx.mac(node).and_then(|m| m.machine).filter(|m| m.usb_c_front);
    for node in ctx.nodes() {
        if blind(ctx, node) {
            say.skip(About::Node(node), why_blind(ctx, node));
            continue;
        }
        let about = About::Node(node);
        let receptacles = ctx.snapshot.facts(node).map(|f| f.receptacles.as_deref().unwrap_or_default());
        let mute: Vec<u32> = receptacles
            .unwrap_or_default()
            .iter()
            .filter(|r| r.connected && r.attached.is_empty())
            // A cable that only the other end sees is `cabling.one-sided`.
            .filter(|r| !ctx.graph.of(node).any(|l| l.end(node).is_some_and(|e| e.receptacle == r.id)))
            .map(|r| r.id)
            .collect();
        let peers: Vec<&NodeName> =
            unlinked.iter().filter_map(|(a, b)| if a == node { Some(b) } else { (b == node).then_some(a) }).collect();
        let suspects: Vec<String> =
            peers.iter().filter_map(|p| front(p).map(|m| format!("{} ({})", ctx.label(p), m.name))).collect();
        if mute.is_empty() && peers.iter().any(|p| front(p).is_some()) && front(node).is_some() {
            let why = format!(
                "not checked: nothing tells what is in the front ports of {node}, which are USB-C only: look there if a cable seems missing"
            );
            say.skip(about, why);
            continue;
        }
        if mute.is_empty() {
            say.pass(about, format!("whatever is plugged into {} answers", ctx.label(node)));
        }
        for id in mute {
            let place = ctx.place(node, id);
            let mut steps = vec![format!("follow the cable from {place} to its other end")];
            steps.push(if suspects.is_empty() {
                "if that is a port for USB only, or a charger or display: plug it into a Thunderbolt receptacle, or pull it"
                    .to_owned()
            } else {
                format!("if that is a front port of {}: those are USB-C only, use one at the back", suspects.join(" or "))
            });
            say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!("something is plugged in at {place}, and nothing there speaks Thunderbolt"),
                    observed: format!("receptacle {id}: connected, nothing attached"),
                    expected: "a Mac, or nothing".to_owned(),
                    remedy: at_machine(steps),
                },
            );
        }
    }
}
