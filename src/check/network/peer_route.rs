//! By which interface each node would send to its peers.

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, run, unknown};
use super::link_ping::path;
use super::{addressed, each, over_ssh};
use crate::network::NetworkEnd;

pub(super) fn peer_route(ctx: &Context<'_>, say: &mut Say) {
    each::link(ctx, say, |link, wanted, say| {
        let network = addressed(ctx, wanted, link)?;
        let mut quiet = true;
        for (own, peer) in [(&network.a, &network.b), (&network.b, &network.a)] {
            let about = About::End(link, &own.node);
            match path(ctx, own, peer).and_then(|p| p.route.as_ref().map_err(unknown)) {
                Ok(Some(by)) if *by == own.interface => {}
                Ok(by) => {
                    quiet = false;
                    let astray = astray(ctx, own, peer, by.as_deref());
                    say.trouble(Purpose::of(ctx.inventory).for_links(), about, astray);
                }
                Err(why) => {
                    quiet = false;
                    say.skip(about, why);
                }
            }
        }
        if quiet {
            say.pass(About::Link(link), "both ends send to each other by the link");
        }
        Ok(())
    });
}

fn astray(ctx: &Context<'_>, own: &NetworkEnd, peer: &NetworkEnd, by: Option<&str>) -> Trouble {
    let (label, link, address) = (ctx.label(&own.node), &own.interface, peer.address);
    let check = "macluster doctor --check network.peer-route".to_owned();
    let (message, observed, first) = match by {
        Some(by) => (
            format!("{label} would send to {} ({address}) by {by}, not by {link}, where the cable is", peer.node),
            format!("route to {address}: {by}"),
            format!("/sbin/route -n delete {address}"),
        ),
        None => (
            format!("{label} has no route to {} ({address}) although {link} has its address", peer.node),
            format!("no route to {address}"),
            format!("/sbin/ifconfig {link} up"),
        ),
    };
    Trouble {
        message,
        observed,
        expected: format!("route to {address}: {link}"),
        remedy: run([over_ssh(ctx, &own.node, &first), check]),
    }
}
