//! `cabling`: each cable between two nodes by itself.

use super::Context;
use super::judge::Purpose;
use super::rdma_link::no_links;
use super::say::{About, Row, Say, Trouble, at_machine, needs, unknown, unread};
use crate::mesh::usable::{RDMA_MIN_GBPS, best_of};
use crate::mesh::{Cable, CableEnd, Link, SeenBy, leads_to_a_mac};
use crate::model::facts::Receptacle;
use crate::model::hardware::{Mac, Thunderbolt};
use crate::model::{Category, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "cabling.excluded-receptacle",
        category: Category::Cabling,
        title: "no cable uses the receptacle beside Ethernet of a Mac Studio",
        run: excluded_receptacle,
    },
    Row { id: "cabling.speed", category: Category::Cabling, title: "every link runs at 80 Gb/s or more", run: speed },
    Row { id: "cabling.one-sided", category: Category::Cabling, title: "both ends see each cable", run: one_sided },
    Row { id: "cabling.via-dock", category: Category::Cabling, title: "no dock or hub lies in a cable", run: via_dock },
    Row {
        id: "cabling.duplicate",
        category: Category::Cabling,
        title: "no pair of nodes has more cables than the backend uses",
        run: duplicate,
    },
];

/// Free receptacles that RDMA may use, in order.
pub(super) fn free_receptacles<'a>(ctx: &Context<'a>, node: &NodeName) -> Vec<&'a Receptacle> {
    let Some(facts) = ctx.snapshot.facts(node) else { return Vec::new() };
    let excluded = Mac::of(facts).excluded();
    let mut free: Vec<&Receptacle> = facts
        .receptacles
        .iter()
        .flatten()
        .filter(|r| !r.connected && r.attached.is_empty() && Some(r.id) != excluded)
        .filter(|r| !ctx.graph.occupied(&CableEnd { node: node.clone(), receptacle: r.id }))
        .collect();
    free.sort_by_key(|r| r.id);
    free
}

fn excluded_receptacle(ctx: &Context<'_>, say: &mut Say) {
    let verdict = Purpose::of(ctx.inventory).for_jaccl();
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        let receptacles = match &facts.receptacles {
            Ok(receptacles) => receptacles,
            Err(error) => {
                say.skip(about, unknown(error));
                continue;
            }
        };
        let mac = Mac::of(facts);
        let Some(excluded) = mac.excluded() else {
            match mac.thunderbolt {
                Some(_) => say.pass(about, format!("{label} has no receptacle that RDMA must not use")),
                None => say.skip(about, needs("rdma.hardware", node)),
            }
            continue;
        };
        if ctx.graph.odd.iter().any(|c| loops_at(c, node, excluded)) {
            // Where that cable goes is that check's to say.
            say.skip(about, needs("cabling.self-loop", node));
            continue;
        }
        let used = receptacles.iter().find(|r| r.id == excluded).is_some_and(|r| leads_to_a_mac(&r.attached));
        let link = ctx.graph.of(node).find(|l| l.end(node).is_some_and(|e| e.receptacle == excluded));
        if !used && link.is_none() {
            say.pass(about, format!("receptacle {excluded} of {label} carries no cable to a Mac"));
            continue;
        }
        if link.is_none() {
            // A cable that leads out of the rack is no link of it.
            say.skip(about, needs("cabling.foreign-peer", node));
            continue;
        }
        let from = ctx.place(node, excluded);
        let to = free_receptacles(ctx, node).first().map(|r| ctx.place(node, r.id));
        let step = match (link.and_then(|l| better_than(ctx, l)), to) {
            // `cabling.duplicate` says the same of it.
            (Some(_), _) => format!("take out the cable at {from}"),
            (None, Some(to)) => format!("move the cable from {from} to {to}"),
            (None, None) => format!(
                "no other receptacle of {label} is free: take another cable out, then move the one at {from} there"
            ),
        };
        let peer = link.and_then(|l| l.other(node)).map_or_else(String::new, |p| format!(" to {p}"));
        say.trouble(
            verdict,
            link.map_or(about, |l| About::End(l, node)),
            Trouble {
                message: format!(
                    "the cable{peer} is in {from}: on a Mac Studio that receptacle must not be used for RDMA"
                ),
                observed: format!("a cable in receptacle {excluded}"),
                expected: format!("cables in the other receptacles only (receptacle {excluded} empty)"),
                remedy: at_machine([step]),
            },
        );
    }
}

/// A cable that comes back to this Mac, one end of it in this receptacle.
fn loops_at(cable: &Cable, node: &NodeName, receptacle: u32) -> bool {
    matches!(cable, Cable::SelfLoop(a, b) if &a.node == node && [a.receptacle, b.receptacle].contains(&receptacle))
}

/// The cable of the same pair that makes this one surplus; none when this is the one to keep, or a ring may use both.
pub(super) fn better_than<'a>(ctx: &Context<'a>, link: &Link) -> Option<&'a Link> {
    if Purpose::of(ctx.inventory).ring() {
        return None;
    }
    let pair: Vec<&Link> = ctx.graph.between(&link.id.a.node, &link.id.b.node).collect();
    best_of(&pair, ctx.snapshot).filter(|best| best.id != link.id)
}

/// Both ends of a link as a person finds them.
fn places(ctx: &Context<'_>, link: &Link) -> (String, String) {
    let [a, b] = link.ends().map(|(end, _)| ctx.place(&end.node, end.receptacle));
    (a, b)
}

/// One finding for each link, and one for each node whose links are not known; else the one that says there is none.
pub(super) fn each_link(ctx: &Context<'_>, say: &mut Say, judge: impl Fn(&Link, &mut Say)) {
    for link in ctx.graph.links.values() {
        judge(link, say);
    }
    skip_blind(ctx, say);
    if say.silent() {
        no_links(ctx, say);
    }
}

fn speed(ctx: &Context<'_>, say: &mut Say) {
    let verdict = Purpose::of(ctx.inventory).for_rdma();
    each_link(ctx, say, |link, say| {
        let slow_mac = link
            .ends()
            .into_iter()
            .find(|(end, _)| ctx.mac(&end.node).is_some_and(|m| m.thunderbolt.is_some_and(|t| t < Thunderbolt::Five)));
        let about = About::Link(link);
        match link.gbps {
            Some(gbps) if gbps >= RDMA_MIN_GBPS => say.pass(about, format!("runs at {gbps} Gb/s")),
            Some(gbps) => match (slow_mac, &link.via_dock) {
                (Some((end, _)), _) => say.skip(about, needs("rdma.hardware", &end.node)),
                (None, Some(_)) => say.skip(about, "not checked (needs cabling.via-dock on this link)"),
                (None, None) => {
                    let (a, b) = places(ctx, link);
                    say.trouble(
                        verdict,
                        about,
                        Trouble {
                            message: format!(
                                "the link {} runs at {gbps} Gb/s although both Macs have Thunderbolt 5: the cable is not a Thunderbolt 5 cable, or not seated",
                                link.id
                            ),
                            observed: format!("{gbps} Gb/s"),
                            expected: format!("{RDMA_MIN_GBPS} Gb/s or more"),
                            remedy: at_machine([
                                format!("replace the cable between {a} and {b} by a Thunderbolt 5 cable (marked with a 5)"),
                            ]),
                        },
                    );
                }
            },
            None => say.skip(about, "not checked: neither end reports the speed of this link"),
        }
    });
}

fn one_sided(ctx: &Context<'_>, say: &mut Say) {
    each_link(ctx, say, |link, say| {
        let (sees, blind) = match link.seen_by {
            SeenBy::Both => {
                say.pass(About::Link(link), "both ends see the cable");
                return;
            }
            SeenBy::OnlyA => (&link.id.a, &link.id.b),
            SeenBy::OnlyB => (&link.id.b, &link.id.a),
        };
        let (a, b) = places(ctx, link);
        say.trouble(
            Verdict::Fail,
            About::End(link, &blind.node),
            Trouble {
                message: format!("{sees} sees {blind}, which does not see it"),
                observed: format!("only {} reports the cable", sees.node),
                expected: "both ends report it".to_owned(),
                remedy: at_machine([
                    format!("pull and plug the cable at {b}, then at {a}"),
                    format!("if that does not help, restart {}", ctx.label(&blind.node)),
                ]),
            },
        );
    });
}

fn via_dock(ctx: &Context<'_>, say: &mut Say) {
    let verdict = Purpose::of(ctx.inventory).for_rdma();
    each_link(ctx, say, |link, say| {
        let Some(dock) = &link.via_dock else {
            say.pass(About::Link(link), "no dock lies between");
            return;
        };
        let (a, b) = places(ctx, link);
        say.trouble(
            verdict,
            About::Link(link),
            Trouble {
                message: format!(
                    "{} and {} are connected through {dock}: RDMA needs a direct cable",
                    link.id.a.node, link.id.b.node
                ),
                observed: format!("{dock} between {} and {}", link.id.a, link.id.b),
                expected: "a cable from Mac to Mac".to_owned(),
                remedy: at_machine([format!("take {dock} out and connect {a} and {b} by one Thunderbolt 5 cable")]),
            },
        );
    });
}

fn duplicate(ctx: &Context<'_>, say: &mut Say) {
    for link in ctx.graph.links.values() {
        let Some(best) = better_than(ctx, link) else { continue };
        let (one, other) = (&link.id.a.node, &link.id.b.node);
        let count = ctx.graph.between(one, other).count();
        let (a, b) = places(ctx, link);
        say.trouble(
            Verdict::Warn,
            About::Link(link),
            Trouble {
                message: format!(
                    "{count} cables join {one} and {other}: a mesh uses one ({}), {} is not used",
                    best.id, link.id
                ),
                observed: format!("{count} cables"),
                expected: "one cable for each pair".to_owned(),
                remedy: at_machine([format!(
                    "take out the cable between {a} and {b}, or use it for a pair that has none (`macluster doctor --check mesh.complete`)"
                )]),
            },
        );
    }
    skip_blind(ctx, say);
    if say.silent() {
        let ring = Purpose::of(ctx.inventory).ring();
        say.pass(
            About::Rack,
            if ring { "a ring may use several cables for a pair" } else { "no pair has more than one cable" },
        );
    }
}

/// Says of every node whose cables are not known that they are not, and why.
pub(super) fn skip_blind(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes().filter(|n| blind(ctx, n)) {
        say.skip(About::Node(node), why_blind(ctx, node));
    }
}

/// Whether the cables of a node are not known: what is missing there proves nothing.
pub(super) fn blind(ctx: &Context<'_>, node: &NodeName) -> bool {
    ctx.graph.blind.contains(node) || ctx.snapshot.facts(node).is_none()
}

/// Why the cables of a node are not known.
pub(super) fn why_blind(ctx: &Context<'_>, node: &NodeName) -> String {
    match ctx.snapshot.facts(node).map(|f| &f.receptacles) {
        None => unread(ctx, node),
        Some(Err(error)) => unknown(error),
        Some(Ok(_)) => format!("not checked: system_profiler on {node} tells no domain UUIDs"),
    }
}
