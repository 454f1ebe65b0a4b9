//! `macluster node replace`: another Mac takes a node's place.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::app::App;
use crate::cli::Format;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::model::{Access, Inventory, Node, NodeFacts, NodeName, Snapshot};
use crate::parse::inventory::with_host;
use crate::phase::replace::{Identity, next_actions, recable, refusal};
use crate::remote::Fleet;
use crate::remote::known_hosts::HostKey;
use crate::remote::meet::{Recorded, meet};
use crate::view::prompt::Terminal;
use crate::view::replace::{Done, Replacement, human, json, question};

/// Options of `macluster node replace`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opts {
    /// The node
    name: String,
    /// The new Mac's address, when it has another one; changes `host` in the inventory and nothing else there
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// The new Mac's host key as it is shown at the machine (SHA256:…); any other is refused
    #[arg(long, value_name = "SHA256")]
    fingerprint: Option<String>,
    /// Do not ask: what is printed is right
    #[arg(long)]
    yes: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

pub(super) async fn run(opts: &Opts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let node = find(&inventory, &opts.name)?;
    let before = app.global.from.as_deref().map(crate::collect::replay).transpose()?.map(|(_, snapshot)| snapshot);
    // Where the new Mac is, in the inventory as it will be.
    let text = opts.host.as_deref().map(|host| edited(&inventory, &node.name, host)).transpose()?;
    let after = match &text {
        Some(text) => crate::parse::inventory::read(text, inventory.source.as_deref()).map_err(Failure::from)?,
        None => inventory.clone(),
    };
    let place = after.node(&node.name).unwrap_or(node);
    let at = |e: crate::remote::ConnectError| unreached(place, e);
    let known = Recorded::of(&after, place).map_err(at)?;

    let met = meet(&after, place, &app.connect_options(Access::Read), &app.events).await.map_err(at)?;
    let record = crate::collect::one(met.remote.as_ref(), &app.events).await;
    met.remote.close().await;
    let new = record.facts.clone().map_err(|failure| Failure::new(Exit::NoNodeReachable, failure.message))?;
    if let Some(wanted) = &opts.fingerprint
        && wanted.trim_start_matches("SHA256:") != met.key.fingerprint().trim_start_matches("SHA256:")
    {
        return Err(refused(&format!("{} offers {}, not the key with the fingerprint {wanted}", known.name, met.key)));
    }
    let mut now = others(&inventory, &node.name, before.as_ref(), app).await;
    now.nodes.insert(node.name.clone(), record);
    judge(&node.name, &new, before.as_ref(), &now, &after, &known, &met.key)?;

    let old = before.as_ref().and_then(|b| b.facts(&node.name));
    let replacement = Replacement {
        inventory: &inventory,
        node: &node.name,
        old: old.map(Identity::of),
        new: Identity::of(&new),
        known: &known,
        key: &met.key,
        address: (&node.host, &place.host),
    };
    let shown = human(&replacement, app.printer);
    match opts.output {
        Format::Human => app.printer.out(&shown),
        // Whoever is asked must see what about.
        Format::Json => app.printer.err(&shown),
    }
    if !opts.yes {
        ask(app, question(&replacement)).await?;
    }
    if let (Some(text), Some(path)) = (&text, inventory.source.as_deref()) {
        write(path, text).map_err(|e| Failure::new(Exit::Inventory, format!("{}: {e}", path.display())))?;
    }
    let removed = known.replace(&met.key).await.map_err(|e| {
        Failure::new(Exit::Unexpected, format!("the key of {} could not be recorded: {e}", known.name))
            .hint("what stands above is still to be done; run it again when known_hosts can be changed")
    })?;
    let graph = before.as_ref().map(LinkGraph::build);
    let recabling = recable(&node.name, &after, &now, graph.as_ref());
    let done = Done {
        replacement: &replacement,
        removed: &removed,
        recabling: &recabling,
        facts: &now,
        next: &next_actions(&node.name, &new),
    };
    match opts.output {
        Format::Human => app.printer.out(&done.human(app.printer)),
        Format::Json => app.printer.out(&serde_json::to_string_pretty(&json(&done)).unwrap_or_default()),
    }
    Ok(Exit::Ok)
}

fn find<'a>(inventory: &'a Inventory, name: &str) -> Result<&'a Node, Failure> {
    inventory.nodes.iter().find(|n| n.name.as_str() == name).ok_or_else(|| {
        let names: Vec<&str> = inventory.nodes.iter().map(|n| n.name.as_str()).collect();
        Failure::new(Exit::NotFound, format!("the inventory has no node `{}`", name.escape_debug()))
            .hint(format!("its nodes are {}", names.join(", ")))
    })
}

/// The inventory's text with the node's new address.
fn edited(inventory: &Inventory, node: &NodeName, host: &str) -> Result<String, Failure> {
    let failed = |why: String| Failure::new(Exit::Inventory, why);
    let Some(path) = inventory.source.as_deref().filter(|p| p.is_file()) else {
        return Err(failed("--host changes the inventory, which is no file here".to_owned()));
    };
    let text = std::fs::read_to_string(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
    with_host(&text, node, host).map_err(|why| failed(format!("{}: {why}", path.display())))
}

/// Writes the inventory whole or not at all, with the rights it had; a link stays a link.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let path = path.canonicalize()?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".macluster-").tempfile_in(dir)?;
    file.as_file().set_permissions(std::fs::metadata(&path)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|e| e.error)?;
    Ok(())
}

/// Facts of the other nodes: live, else as they were recorded.
async fn others(inventory: &Inventory, node: &NodeName, before: Option<&Snapshot>, app: &App) -> Snapshot {
    let rest = inventory.narrowed(|name| name != node);
    let fleet = Fleet::connect(&rest, &app.connect_options(Access::Read), &app.events).await;
    let mut now = crate::collect::collect(&rest, &fleet, &app.events).await;
    fleet.close().await;
    for (name, record) in &mut now.nodes {
        if record.facts.is_ok() {
            continue;
        }
        let old = before.and_then(|b| b.nodes.get(name)).filter(|r| r.facts.is_ok());
        // Why it did not answer has been told while connecting.
        let text =
            if old.is_some() { "its recorded facts are used" } else { "not compared with the new Mac" }.to_owned();
        app.events.emit(Event::Warning { node: Some(name.clone()), text });
        if let Some(old) = old {
            *record = old.clone();
        }
    }
    now
}

fn judge(
    node: &NodeName,
    new: &NodeFacts,
    before: Option<&Snapshot>,
    now: &Snapshot,
    inventory: &Inventory,
    known: &Recorded,
    key: &HostKey,
) -> Result<(), Failure> {
    let old = before.and_then(|b| b.facts(node));
    if let Some(why) = refusal(node, new, old, now, inventory) {
        return Err(refused(&why));
    }
    if let Some((place, _)) = known.elsewhere().find(|(_, recorded)| recorded != key) {
        return Err(refused(&format!("{place} records another key for {}, and is not your own file", known.name))
            .hint("take that line out first"));
    }
    // Without a recording only the key tells whether it is another Mac.
    if old.is_none() && known.keys.iter().any(|(_, recorded)| recorded == key) {
        return Err(refused(&format!(
            "{} offers the key that is recorded for it: {node} seems to be the same Mac as ever",
            known.name
        ))
        .hint(
            "a Mac that was restored from the old one's backup can have its key: give the last recording with --from",
        ));
    }
    for other in inventory.nodes.iter().filter(|n| &n.name != node) {
        let theirs = Recorded::of(inventory, other).is_ok_and(|r| r.keys.iter().any(|(_, k)| k == key));
        if theirs {
            return Err(refused(&format!(
                "{} offers the key that is recorded for {}: one Mac is one node",
                known.name,
                inventory.label(&other.name)
            )));
        }
    }
    Ok(())
}

fn refused(why: &str) -> Failure {
    Failure::new(Exit::ChecksFailed, format!("refused: {}", crate::model::command::printable(why)))
}

fn unreached(node: &Node, e: crate::remote::ConnectError) -> Failure {
    let mut failure = Failure::new(Exit::NoNodeReachable, format!("{} ({}): {}", node.name, node.host, e.message));
    failure.hints.extend(e.hint);
    failure.hint("the new Mac needs Remote Login, and your key, before it can take the place")
}

async fn ask(app: &App, question: String) -> Result<(), Failure> {
    let terminal = Terminal::new(app.printer, Arc::clone(&app.events));
    let asked = tokio::task::spawn_blocking(move || terminal.literal_yes(&question)).await;
    match asked.unwrap_or(Some(false)) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::new(Exit::Interrupted, "nothing was changed")),
        None => Err(Failure::new(Exit::Usage, "nothing was changed: there is no terminal to ask at")
            .hint("--fingerprint SHA256:… --yes replaces without asking")),
    }
}
