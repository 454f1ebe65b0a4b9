//! The MTU of both ends. RDMA does not use it (FAILURES C25); the ring's TCP does.

use super::super::Context;
use super::super::say::{About, Say, Trouble, run};
use super::{each, interface, no_network, over_ssh};
use crate::model::Verdict;

/// What macOS sets by itself.
const DEFAULT: u32 = 1500;

pub(super) fn mtu(ctx: &Context<'_>, say: &mut Say) {
    each::link(ctx, say, |link, wanted, say| {
        let about = About::Link(link);
        let network = wanted.link(&link.id).ok_or_else(|| no_network(ctx, link))?;
        let ends = [&network.a, &network.b];
        let [one, other] = ends.map(|end| interface(ctx, &end.node, end).and_then(|i| i.mtu));
        let (Some(one), Some(other)) = (one, other) else {
            let unknown = if one.is_none() { ends[0] } else { ends[1] };
            return Err(format!("not checked: ifconfig tells no MTU of {} on {}", unknown.interface, unknown.node));
        };
        if one == other {
            say.pass(about, format!("both ends have an MTU of {one}"));
            return Ok(());
        }
        let odd = if one == DEFAULT { (ends[1], one) } else { (ends[0], other) };
        let (end, right) = odd;
        say.trouble(
            Verdict::Warn,
            about,
            Trouble {
                message: format!(
                    "{} of {} and {} of {} have different MTUs: large packets of the ring can get lost; RDMA does not care",
                    ends[0].interface,
                    ctx.label(&ends[0].node),
                    ends[1].interface,
                    ctx.label(&ends[1].node)
                ),
                observed: format!("MTU {one} and {other}"),
                expected: format!("{DEFAULT} at both ends, as macOS sets it"),
                remedy: run([over_ssh(ctx, &end.node, &format!("/sbin/ifconfig {} mtu {right}", end.interface))]),
            },
        );
        Ok(())
    });
}
