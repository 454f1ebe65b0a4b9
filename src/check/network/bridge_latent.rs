//! A bridge that is gone now and comes back at the next restart (FAILURES C2).

use super::super::Context;
use super::super::say::{About, Say, Trouble, needs, run, unknown};
use super::{all_named, bridge, each, link_ends};
use crate::model::Verdict;

pub(super) fn bridge_latent(ctx: &Context<'_>, say: &mut Say) {
    each::node(ctx, say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let entries = facts.network.bridge_entries.as_ref().map_err(unknown)?;
        let interfaces = facts.interfaces.as_ref().map_err(unknown)?;
        facts.hardware_ports.as_ref().map_err(unknown)?;
        // While it is there, that is the trouble.
        if !bridge::captured(ctx, node, interfaces).0.is_empty() {
            return Err(needs("network.bridge", node));
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
        if quiet {
            all_named(ctx, node)?;
            say.pass(about, format!("no bridge takes a link end of {label} back at the next restart"));
        }
        Ok(())
    });
}
