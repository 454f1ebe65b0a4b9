//! A bridge that is gone now and comes back at the next restart (FAILURES C2).

use super::super::Context;
use super::super::cabling::why_blind;
use super::super::say::{About, Say, Trouble, needs, run, unknown};
use super::{bridge, link_ends, nameless};
use crate::model::Verdict;

pub(super) fn bridge_latent(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        if ctx.graph.blind.contains(node) {
            say.skip(about, why_blind(ctx, node));
            continue;
        }
        let (entries, interfaces) = match (&facts.network.bridge_entries, &facts.interfaces, &facts.hardware_ports) {
            (Ok(entries), Ok(interfaces), Ok(_)) => (entries, interfaces),
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                say.skip(about, unknown(error));
                continue;
            }
        };
        // While it is there, that is the trouble.
        if !bridge::captured(ctx, node, interfaces).0.is_empty() {
            say.skip(about, needs("network.bridge", node));
            continue;
        }
        let own = link_ends(ctx, node);
        let mut quiet = true;
        for entry in entries {
            let back: Vec<&str> = entry.members.iter().map(String::as_str).filter(|m| own.contains(m)).collect();
            if back.is_empty() {
                continue;
            }
            quiet = false;
            let (name, members) = (&entry.name, back.join(", "));
            say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!(
                        "{name} of {label} comes back at the next restart with {members}: until the links daemon has \
                         taken them out again, cables and bridges can form a cycle"
                    ),
                    observed: format!("the network preferences list {members} as members of {name}"),
                    expected: "no link end in a bridge of the network preferences".to_owned(),
                    remedy: run([
                        "macluster network plan --remove-bridge-entry",
                        "macluster network apply --remove-bridge-entry",
                    ]),
                },
            );
        }
        if let (true, Some(why)) = (quiet, nameless(ctx, node)) {
            say.skip(about, why);
        } else if quiet {
            say.pass(about, format!("no bridge takes a link end of {label} back at the next restart"));
        }
    }
}
