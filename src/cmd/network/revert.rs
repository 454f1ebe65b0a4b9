//! `macluster network revert`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Books, interrupted, print_json};
use crate::app::App;
use crate::cli::Format;
use crate::collect::collect;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory, NodeName, Snapshot};
use crate::phase::network::{Fate, Operator, Reverting, remotes, revert};
use crate::view::plan as view;
use crate::view::prompt::Terminal;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opts {
    /// Only these nodes; without it all
    #[arg(value_name = "NODE")]
    nodes: Vec<NodeName>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(opts: &Opts, app: &App) -> Outcome {
    let books = Books::load(app)?;
    let inventory = app.inventory()?;
    let wanted = wanted(opts, &inventory)?;
    let fleet = tokio::select! {
        fleet = app.fleet(&inventory, Access::Write) => fleet?,
        _ = tokio::signal::ctrl_c() => return Err(interrupted()),
    };
    let asked = tokio::select! {
        asked = ask(opts, app, &inventory, &wanted, &fleet) => asked,
        _ = tokio::signal::ctrl_c() => Err(interrupted()),
    };
    if let Err(failure) = asked {
        fleet.close().await;
        return Err(failure);
    }
    let operator = Operator::here();
    let reverting =
        Reverting { playbooks: &books.playbooks, scripts: &books.scripts, operator: &operator, events: &app.events };
    let mut connected = remotes(&fleet);
    connected.retain(|name, _| wanted.contains(name));
    // What has begun on a node goes on there, whatever becomes of this process.
    let done = tokio::select! {
        done = revert(&reverting, &connected) => done?,
        _ = tokio::signal::ctrl_c() => {
            return Err(Failure::new(Exit::Interrupted, "interrupted: nodes that have begun go back by themselves")
                .hint("run `macluster network revert` again to see it through"));
        }
    };
    fleet.close().await;
    let unreached: Vec<&NodeName> = wanted.iter().filter(|n| !connected.contains_key(*n)).collect();
    match opts.output {
        Format::Human => app.printer.out(&view::reverted_human(&done, &unreached, &inventory, app.printer)),
        Format::Json => print_json(app, &view::reverted_json(&done, &unreached, &inventory)),
    }
    let failed = done.iter().any(|d| matches!(d.fate, Fate::Untouched(_) | Fate::GoesBack { .. }));
    Ok(match (failed, unreached.len()) {
        (_, n) if n == wanted.len() => Exit::NoNodeReachable,
        (false, 0) => Exit::Ok,
        _ => Exit::SomeNodesFailed,
    })
}

fn wanted(opts: &Opts, inventory: &Inventory) -> Result<BTreeSet<NodeName>, Failure> {
    let known: BTreeSet<NodeName> = inventory.nodes.iter().map(|n| n.name.clone()).collect();
    if let Some(stranger) = opts.nodes.iter().find(|n| !known.contains(*n)) {
        let names = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Failure::new(
            Exit::Usage,
            format!("there is no node {stranger} in the inventory; there are {names}"),
        ));
    }
    Ok(if opts.nodes.is_empty() { known } else { opts.nodes.iter().cloned().collect() })
}

/// Refuses what would cut the way in, and asks.
async fn ask(
    opts: &Opts,
    app: &App,
    inventory: &Inventory,
    wanted: &BTreeSet<NodeName>,
    fleet: &crate::remote::Fleet,
) -> Result<(), Failure> {
    let snapshot = collect(inventory, fleet, &app.events).await;
    if let Some(node) = wanted.iter().find(|n| rides_on_a_link(inventory, &snapshot, n)) {
        return Err(Failure::new(
            Exit::ChecksFailed,
            format!(
                "{}: the SSH session uses the address of a link, which would go: nothing was changed",
                inventory.label(node)
            ),
        )
        .hint("connect over Ethernet or Wi-Fi: set the node's `host` to an address of such an interface"));
    }
    if opts.yes {
        return Ok(());
    }
    let names = wanted.iter().map(|n| inventory.label(n)).collect::<Vec<_>>().join(", ");
    app.printer.err(&format!(
        "{names}: link addresses and the links daemon go; interfaces that were in a bridge are in it again.\n\
         Where cables form a cycle, bridges make a broadcast storm of it: pull cables first, until none does."
    ));
    let terminal = Terminal::new(app.printer, Arc::clone(&app.events));
    let asked = tokio::task::spawn_blocking(move || terminal.literal_yes("Go back to what was there first?")).await;
    match asked.unwrap_or(Some(false)) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::new(Exit::Interrupted, "nothing was changed")),
        None => Err(Failure::new(Exit::Usage, "nothing was changed: there is no terminal to ask at")
            .hint("--yes goes back without asking")),
    }
}

fn rides_on_a_link(inventory: &Inventory, snapshot: &Snapshot, node: &NodeName) -> bool {
    let Some(facts) = snapshot.facts(node) else { return false };
    let kept = facts.network.configured.iter().flatten().flat_map(|c| &c.links);
    let own: Vec<_> = kept.map(|l| std::net::IpAddr::V4(l.address)).collect();
    facts.session.local_address.is_some_and(|a| {
        own.contains(&a.to_canonical())
            || matches!(a.to_canonical(), std::net::IpAddr::V4(v4) if inventory.pool.contains(&v4))
    })
}
