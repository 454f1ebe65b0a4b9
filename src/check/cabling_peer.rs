//! `cabling`: cables that are no links.

use super::Context;
use super::cabling::{blind, why_blind};
use super::say::{About, Row, Say, Trouble, at_machine};
use crate::mesh::Cable;
use crate::model::{Category, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "cabling.foreign-peer",
        category: Category::Cabling,
        title: "no cable leads to a Mac outside the rack",
        run: foreign_peer,
    },
    Row {
        id: "cabling.self-loop",
        category: Category::Cabling,
        title: "no cable joins two receptacles of one Mac",
        run: self_loop,
    },
];

fn odd_at<'a>(ctx: &Context<'a>, node: &'a NodeName) -> impl Iterator<Item = &'a Cable> + use<'a> {
    let graph = ctx.graph;
    graph.odd.iter().filter(move |c| &c.end().node == node)
}

/// Says `skip` when the receptacles of a node are not known.
fn visible(ctx: &Context<'_>, node: &NodeName, say: &mut Say) -> bool {
    let blind = blind(ctx, node);
    if blind {
        say.skip(About::Node(node), why_blind(ctx, node));
    }
    !blind
}

fn foreign_peer(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        if !visible(ctx, node, say) {
            continue;
        }
        let about = About::Node(node);
        let mut quiet = true;
        for cable in odd_at(ctx, node) {
            let place = ctx.place(node, cable.end().receptacle);
            match cable {
                Cable::SelfLoop(..) => continue,
                Cable::Foreign(peer) => say.trouble(
                    Verdict::Warn,
                    about,
                    Trouble {
                        message: format!("the cable at {place} leads to a Mac ({}) that is not in the rack", peer.what),
                        observed: format!("{} at receptacle {}", peer.what, peer.end.receptacle),
                        expected: "cables to nodes of the rack only".to_owned(),
                        remedy: at_machine([
                            format!("pull the cable at {place}, or plug its other end into a node of the rack"),
                            "or add that Mac to macluster.yaml".to_owned(),
                        ]),
                    },
                ),
                Cable::Unknown(_, candidates) => {
                    let names = candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                    let why = if candidates.iter().all(|n| ctx.snapshot.facts(n).is_none()) {
                        "did not answer"
                    } else {
                        "did not tell its receptacles"
                    };
                    say.skip(about, format!("the cable at {place} leads to an unknown Mac ({names} {why})"));
                }
                Cable::Untold(peer) => {
                    say.skip(
                        about,
                        format!("the cable at {place} leads to a Mac ({}) that tells no domain UUID", peer.what),
                    );
                }
            }
            quiet = false;
        }
        if quiet {
            say.pass(about, format!("{} is cabled to nodes of the rack only", ctx.label(node)));
        }
    }
}

fn self_loop(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        if !visible(ctx, node, say) {
            continue;
        }
        let mut quiet = true;
        for cable in odd_at(ctx, node) {
            let Cable::SelfLoop(a, b) = cable else { continue };
            quiet = false;
            // The end that stays must be where RDMA may use it.
            let excluded = ctx.mac(node).and_then(|m| m.excluded());
            let moved = if Some(a.receptacle) == excluded { a } else { b };
            let place = ctx.place(node, moved.receptacle);
            say.trouble(
                Verdict::Fail,
                About::Node(node),
                Trouble {
                    message: format!(
                        "a cable joins receptacles {} and {} of {}: it connects nothing and can flood a bridge",
                        a.receptacle,
                        b.receptacle,
                        ctx.label(node)
                    ),
                    observed: format!("receptacle {} to receptacle {}", a.receptacle, b.receptacle),
                    expected: "cables from Mac to Mac".to_owned(),
                    remedy: at_machine([format!("pull the cable at {place} and plug that end into another node")]),
                },
            );
        }
        if quiet {
            say.pass(About::Node(node), format!("no cable of {} comes back to it", ctx.label(node)));
        }
    }
}
