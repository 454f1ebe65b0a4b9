//! Nodes that pass packets on: links would no longer be isolated from each other and from the LAN.

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, at_machine, run, unknown};
use super::over_ssh;
use crate::model::{FactError, NodeFacts};

const NAME: &str = "net.inet.ip.forwarding";

/// The kernel's value; none when sysctl does not tell it.
fn value(facts: &NodeFacts) -> Result<Option<&str>, &FactError> {
    Ok(facts.sysctl.as_ref()?.get(NAME).map(|v| v.trim()))
}

pub(super) fn forwarding(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        let verdict = Purpose::of(ctx.inventory).for_links();
        let sharing = &facts.network.sharing;
        let off = at_machine([
            format!("at {label}: System Settings, General, Sharing: switch Internet Sharing off"),
            "run `macluster doctor` again".to_owned(),
        ]);
        let expected = format!("{NAME} 0 and Internet Sharing off");
        match (value(facts), sharing) {
            (Err(error), _) | (Ok(Some("0")), Err(error)) => say.skip(about, unknown(error)),
            (Ok(None), _) => say.skip(about, format!("not checked: sysctl on {node} does not tell {NAME}")),
            (Ok(Some("0")), Ok(false)) => say.pass(about, format!("{label} passes no packets on")),
            (Ok(Some(value)), Ok(true)) => say.trouble(
                verdict,
                about,
                Trouble {
                    message: format!(
                        "Internet Sharing is on at {label}: packets can pass from one link network to another"
                    ),
                    observed: format!("Internet Sharing on, {NAME} {value}"),
                    expected,
                    remedy: off,
                },
            ),
            // Something else: a program for virtual machines, a VPN, a person.
            (Ok(Some(value)), _) => say.trouble(
                verdict,
                about,
                Trouble {
                    message: format!(
                        "{label} forwards IP packets: they can pass from one link network to another; virtual machines \
                         with a shared network and VPNs switch this on"
                    ),
                    observed: format!("{NAME} {value}"),
                    expected,
                    remedy: run([over_ssh(ctx, node, &format!("/usr/sbin/sysctl -w {NAME}=0"))]),
                },
            ),
        }
    }
}
