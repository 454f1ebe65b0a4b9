//! Subnets of links that overlap others of the same node: the kernel cannot tell by which interface a peer is reached
//! (FAILURES C11).

use ipnet::Ipv4Net;

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, needs, unknown};
use super::{all_named, dhcp, each, link_ends, plan_and_apply};
use crate::model::NodeName;
use crate::network::clashes;

/// Two interfaces of one node in one subnet; at least one is a link's.
pub(super) struct Overlap {
    /// The link's interface.
    pub(super) link: String,
    /// Its address and prefix length.
    pub(super) network: Ipv4Net,
    /// The other interface.
    pub(super) other: String,
    /// Its address and prefix length.
    pub(super) other_network: Ipv4Net,
}

/// What overlaps on this node, seen from each link end; nothing when that cannot be known.
pub(super) fn overlaps(ctx: &Context<'_>, node: &NodeName) -> Vec<Overlap> {
    let own = link_ends(ctx, node);
    let interfaces = ctx.snapshot.facts(node).and_then(|f| f.interfaces.as_ref().ok());
    let known: Vec<(&str, Ipv4Net)> = interfaces
        .into_iter()
        .flatten()
        .flat_map(|i| i.inet.iter().map(move |a| (i.name.as_str(), a)))
        .filter_map(|(name, a)| Some((name, Ipv4Net::new(a.address, a.prefix.unwrap_or(32)).ok()?)))
        .collect();
    let mut found = Vec::new();
    for (link, network) in known.iter().filter(|(name, _)| own.contains(name)) {
        for (other, other_network) in known.iter().filter(|(name, _)| name != link) {
            if network.contains(&other_network.network()) || other_network.contains(&network.network()) {
                found.push(Overlap {
                    link: (*link).to_owned(),
                    network: *network,
                    other: (*other).to_owned(),
                    other_network: *other_network,
                });
            }
        }
    }
    found
}

pub(super) fn subnets_disjoint(ctx: &Context<'_>, say: &mut Say) {
    let (taken, _) = clashes(ctx.inventory, ctx.snapshot);
    each::node(ctx, say, |node, facts, say| {
        let about = About::Node(node);
        facts.interfaces.as_ref().map_err(unknown)?;
        facts.hardware_ports.as_ref().map_err(unknown)?;
        let found = overlaps(ctx, node);
        let Some(first) = found.first() else {
            all_named(ctx, node)?;
            say.pass(about, format!("no subnet of a link of {} overlaps another one there", ctx.label(node)));
            return Ok(());
        };
        // Consequences of something that is told already.
        let asks = |o: &Overlap| o.network.addr().is_link_local() && dhcp::asking(facts, &o.link).next().is_some();
        if found.iter().all(|o| taken.iter().any(|c| &c.node == node && c.interface == o.other)) {
            return Err(needs("network.pool-overlap", node));
        }
        if found.iter().all(asks) {
            return Err(needs("network.dhcp-on-link", node));
        }
        let mut all: Vec<String> = found
            .iter()
            .flat_map(|o| [format!("{} {}", o.link, o.network), format!("{} {}", o.other, o.other_network)])
            .collect();
        all.sort();
        all.dedup();
        say.trouble(
            Purpose::of(ctx.inventory).for_links(),
            about,
            Trouble {
                message: format!(
                    "{} and {} of {} are in one subnet: packets to a peer can leave by the wrong cable",
                    first.link,
                    first.other,
                    ctx.label(node)
                ),
                observed: all.join(", "),
                expected: "a subnet of its own for every link".to_owned(),
                remedy: plan_and_apply(),
            },
        );
        Ok(())
    });
}
