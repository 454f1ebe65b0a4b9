//! Packets over every link, bound to its interface and address, from both ends.

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, at_machine, unknown};
use super::{addressed, each};
use crate::model::network_facts::LinkPath;
use crate::network::NetworkEnd;

/// What this end has tried.
///
/// # Errors
/// Why it is not known.
pub(super) fn path<'a>(ctx: &Context<'a>, own: &NetworkEnd, peer: &NetworkEnd) -> Result<&'a LinkPath, String> {
    let none = || format!("not checked: nothing was sent from {} of {} to {}", own.interface, own.node, peer.node);
    let facts = ctx.snapshot.facts(&own.node).ok_or_else(none)?;
    let paths = facts.network.paths.as_ref().map_err(unknown)?;
    paths.iter().find(|p| p.interface == own.interface && p.peer_address == peer.address).ok_or_else(none)
}

pub(super) fn link_ping(ctx: &Context<'_>, say: &mut Say) {
    each::link(ctx, say, |link, wanted, say| {
        let about = About::Link(link);
        let network = addressed(ctx, wanted, link)?;
        let (a, b) = (&network.a, &network.b);
        let told = |own, peer| path(ctx, own, peer).and_then(|p| p.answered.as_ref().copied().map_err(unknown));
        match (told(a, b), told(b, a)) {
            (Ok(true), Ok(true)) => say.pass(about, "both ends answer each other"),
            (Ok(false), Ok(false)) => say.trouble(Purpose::of(ctx.inventory).for_links(), about, dead(ctx, a, b)),
            (Ok(false), _) => say.trouble(Purpose::of(ctx.inventory).for_links(), about, silent(ctx, a, b)),
            (_, Ok(false)) => say.trouble(Purpose::of(ctx.inventory).for_links(), about, silent(ctx, b, a)),
            (Err(why), _) | (_, Err(why)) => return Err(why),
        }
        Ok(())
    });
}

fn dead(ctx: &Context<'_>, a: &NetworkEnd, b: &NetworkEnd) -> Trouble {
    let (one, other) = (ctx.place(&a.node, a.receptacle), ctx.place(&b.node, b.receptacle));
    Trouble {
        message: format!(
            "nothing comes back over the cable between {} and {}, either way, although both ends have their address",
            ctx.label(&a.node),
            ctx.label(&b.node)
        ),
        observed: format!("no answer from {} and none from {}", a.address, b.address),
        expected: "an answer from both".to_owned(),
        remedy: at_machine([
            format!("pull and plug the cable at {one}, then at {other}"),
            format!("if that does not help, restart {} and {}", ctx.label(&a.node), ctx.label(&b.node)),
        ]),
    }
}

/// A firewall in stealth mode answers no ping, and lets connections pass.
fn silent(ctx: &Context<'_>, from: &NetworkEnd, to: &NetworkEnd) -> Trouble {
    let (label, far) = (ctx.label(&from.node), ctx.label(&to.node));
    Trouble {
        message: format!(
            "{label} gets no answer from {far} ({}) over {}: the cable works the other way, so {far} keeps silent",
            to.address, from.interface
        ),
        observed: format!("no answer from {}", to.address),
        expected: "an answer".to_owned(),
        remedy: at_machine([
            format!("at {far}: System Settings, Network, Firewall, Options: switch stealth mode off"),
            format!("if it is off, pull and plug the cable at {}", ctx.place(&to.node, to.receptacle)),
            "run `macluster doctor` again".to_owned(),
        ]),
    }
}
