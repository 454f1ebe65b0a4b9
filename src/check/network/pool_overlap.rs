//! The pool of link networks against everything that the nodes know.

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, run, unknown};
use crate::network::{clashes, free_pool};

pub(super) fn pool_overlap(ctx: &Context<'_>, say: &mut Say) {
    let (found, blind) = clashes(ctx.inventory, ctx.snapshot);
    let pool = ctx.inventory.pool;
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let mut quiet = true;
        for clash in found.iter().filter(|c| &c.node == node) {
            quiet = false;
            say.trouble(
                Purpose::of(ctx.inventory).for_links(),
                about,
                Trouble {
                    message: format!(
                        "the pool {pool} overlaps the {} on {} of {}: link networks would take its traffic",
                        clash.what,
                        clash.interface,
                        ctx.label(node)
                    ),
                    observed: format!("{} on {}", clash.what, clash.interface),
                    expected: format!("nothing else inside {pool}"),
                    remedy: run([
                        match free_pool(ctx.inventory, ctx.snapshot) {
                            Some(free) => format!("edit macluster.yaml: network: {{ pool: {free} }}"),
                            None => "edit macluster.yaml: choose another `network.pool`".to_owned(),
                        },
                        "macluster network plan".to_owned(),
                    ]),
                },
            );
        }
        if blind.contains(node) {
            let error = [
                facts.interfaces.as_ref().err(),
                facts.routes.as_ref().err(),
                facts.hardware_ports.as_ref().err(),
                facts.receptacles.as_ref().err(),
            ];
            say.skip(
                about,
                match error.into_iter().flatten().next() {
                    Some(error) => unknown(error),
                    None => format!("not checked: the networks of {node} are not known"),
                },
            );
        } else if quiet {
            say.pass(about, format!("nothing on {} overlaps {pool}", ctx.label(node)));
        }
    }
}
