//! Whether the links come back after a restart: the links daemon is loaded, runs, and keeps what is there now.

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, needs, run, unknown};
use super::{all_named, bridge, carries_address, each, interface, over_ssh, plan_and_apply};
use crate::model::network_facts::{ConfiguredLink, EXO_JOB, Job, LINKS_JOB, LINKS_LOG, LinksConfig};
use crate::model::{Fact, NodeFacts, NodeName, Verdict};
use crate::network::{Desired, LinkNetwork, NetworkEnd, desired};

type End<'w> = (&'w LinkNetwork, &'w NetworkEnd, &'w NetworkEnd);

pub(super) fn persistent(ctx: &Context<'_>, say: &mut Say) {
    let wanted = desired(ctx.inventory, ctx.snapshot, ctx.graph);
    each::node(ctx, say, |node, facts, say| {
        let ends = ends(ctx, facts, &wanted, node)?;
        let config = facts.network.configured.as_ref().map_err(unknown)?;
        let job = facts.network.job(LINKS_JOB).map_err(unknown)?;
        if ends.is_empty() {
            all_named(ctx, node)?;
            say.pass(About::Node(node), format!("{} has no link to keep", ctx.label(node)));
        } else {
            judge(ctx, facts, node, &ends, (config.as_ref(), job), say);
        }
        Ok(())
    });
}

/// The ends that have their address now: what is not there cannot be kept, and is another check's.
fn ends<'w>(
    ctx: &Context<'_>,
    facts: &NodeFacts,
    wanted: &'w Desired,
    node: &'w NodeName,
) -> Result<Vec<End<'w>>, String> {
    let interfaces: &Fact<_> = &facts.interfaces;
    let interfaces = interfaces.as_ref().map_err(unknown)?;
    facts.hardware_ports.as_ref().map_err(unknown)?;
    let all: Vec<End<'w>> = wanted.of(node).collect();
    let there = |(network, own, _): &&End<'w>| {
        interface(ctx, node, own).is_some_and(|i| carries_address(i, own, network.network.prefix_len()))
    };
    let found: Vec<End<'w>> = all.iter().filter(there).copied().collect();
    if !found.is_empty() || all.is_empty() {
        // The foreign daemon sets other addresses, and has to go first.
        return match facts.network.job(EXO_JOB) {
            Ok(Some(_)) if !found.is_empty() => Err(needs("network.foreign-daemon", node)),
            _ => Ok(found),
        };
    }
    let captured = !bridge::captured(ctx, node, interfaces).0.is_empty();
    Err(needs(if captured { "network.bridge" } else { "network.addresses" }, node))
}

fn judge(
    ctx: &Context<'_>,
    facts: &NodeFacts,
    node: &NodeName,
    ends: &[End<'_>],
    (config, job): (Option<&LinksConfig>, Option<&Job>),
    say: &mut Say,
) {
    let (about, label) = (About::Node(node), ctx.label(node));
    let verdict = Purpose::of(ctx.inventory).for_links();
    let names: Vec<&str> = ends.iter().map(|(_, own, _)| own.interface.as_str()).collect();
    let expected = format!("{LINKS_JOB} loaded and running, keeping {}", names.join(", "));
    let trouble =
        |message: String, observed: String, remedy| Trouble { message, observed, expected: expected.clone(), remedy };
    let Some(job) = job else {
        let message =
            format!("nothing brings the links of {label} back after a restart: the links daemon is not loaded");
        say.trouble(verdict, about, trouble(message, format!("launchd has no {LINKS_JOB}"), plan_and_apply()));
        return;
    };
    let lacking: Vec<&str> = ends
        .iter()
        .filter(|end| !config.is_some_and(|c| c.links.iter().any(|l| keeps(facts, l, end))))
        .map(|(_, own, _)| own.interface.as_str())
        .collect();
    if !lacking.is_empty() {
        let message = format!("the links daemon of {label} does not keep {} as it is now", lacking.join(", "));
        let observed = config.map_or_else(|| "no links.conf".to_owned(), listed);
        say.trouble(verdict, about, trouble(message, observed, plan_and_apply()));
    } else if !job.works() {
        let exit = job.last_exit.as_deref().unwrap_or("no exit code");
        let message = format!("the links daemon of {label} is loaded but does not run: nothing keeps its links");
        let again = run([
            over_ssh(ctx, node, &format!("/usr/bin/tail {LINKS_LOG}")),
            "macluster network plan".to_owned(),
            "macluster network apply".to_owned(),
        ]);
        say.trouble(verdict, about, trouble(message, format!("{} ({exit})", job.state), again));
    } else if config.and_then(|c| c.script.as_deref()) != Some(ctx.links_script) {
        let script = config.and_then(|c| c.script.as_deref()).unwrap_or("none");
        let short = |sha: &str| sha.chars().take(12).collect::<String>();
        say.trouble(
            Verdict::Warn,
            about,
            Trouble {
                message: format!("the links daemon of {label} runs the script of another version of macluster"),
                observed: format!("links.sh with SHA-256 {}", short(script)),
                expected: format!("links.sh with SHA-256 {}", short(ctx.links_script)),
                remedy: plan_and_apply(),
            },
        );
    } else {
        say.pass(about, format!("the links of {label} come back after a restart"));
    }
}

fn keeps(facts: &NodeFacts, link: &ConfiguredLink, (network, own, peer): &End<'_>) -> bool {
    let interfaces = facts.interfaces.iter().flatten();
    let ether = interfaces.filter(|i| i.name == own.interface).find_map(|i| i.ether.as_ref());
    link.interface == own.interface
        && link.address == own.address
        && link.prefix == network.network.prefix_len()
        && link.peer_address == peer.address
        && (link.ether.is_none() || ether.is_none() || link.ether.as_ref() == ether)
}

fn listed(config: &LinksConfig) -> String {
    let all: Vec<String> = config.links.iter().map(|l| format!("{} {}/{}", l.interface, l.address, l.prefix)).collect();
    if all.is_empty() { "it keeps nothing".to_owned() } else { format!("it keeps {}", all.join(", ")) }
}
