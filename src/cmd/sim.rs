//! `macluster sim`.

use std::fmt::Write;
use std::path::PathBuf;

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};
use crate::sim::{Fault, FaultAt, MODELS, Rack, RackError};

/// Options of `macluster sim`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Keep the rack in this folder, new or empty [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How many Mac Studio M3 Ultra, fully cabled; more than 6 in a ring [default: 3]
    #[arg(long, value_name = "N", conflicts_with = "models", value_parser = clap::value_parser!(u16).range(1..=1024))]
    nodes: Option<u16>,
    /// One node per model identifier, e.g. Mac15,14,Mac16,9
    #[arg(long, value_name = "MODEL,…")]
    models: Option<String>,
    /// What is wrong with the rack; may be repeated (see --list-faults)
    #[arg(long = "fault", value_name = "NAME[:NODE[,NODE]]")]
    faults: Vec<FaultAt>,
    /// List faults and models, and end
    #[arg(long)]
    list_faults: bool,
    /// A Python of this machine that the nodes may run
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// A model folder (mlx-lm layout) to lay into every node
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// As Macs leave the box: receptacles in the Thunderbolt Bridge, no link addresses (the default)
    #[arg(long, conflicts_with = "prepared")]
    stock: bool,
    /// With the link networks already set up
    #[arg(long)]
    prepared: bool,
    /// Milliseconds that `system_profiler` takes on every node
    #[arg(long, value_name = "MS", hide = true)]
    profiler_delay: Option<u64>,
    /// Write the inventory's path to this file once the rack answers
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Wait until standard input ends, then end what the rack in this folder has left running
    #[arg(long, value_name = "DIR", hide = true, exclusive = true)]
    keeper: Option<PathBuf>,
    /// End when standard input ends
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

/// Raises the rack, says where it is, and takes it down at Ctrl-C or SIGTERM.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    if opts.list_faults {
        app.printer.out(&catalogue());
        return Ok(Exit::Ok);
    }
    if let Some(dir) = &opts.keeper {
        end_of_input().await;
        return match crate::sim::end_what_is_left(dir) {
            Ok(()) => Ok(Exit::Ok),
            Err(e) => Err(Failure::new(Exit::Unexpected, format!("{}: {e}", dir.display()))),
        };
    }
    // Before the rack stands: a signal meanwhile must not leave its folder behind.
    let broken = |e| Failure::new(Exit::Unexpected, format!("cannot wait for signals: {e}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;

    let mut builder = Rack::builder().prepared(opts.prepared);
    if let Some(delay) = opts.profiler_delay {
        builder = builder.profiler_delay(std::time::Duration::from_millis(delay));
    }
    if let Some(nodes) = opts.nodes {
        builder = builder.nodes(usize::from(nodes));
    }
    if let Some(models) = &opts.models {
        builder = builder.models(split_models(models));
    }
    for fault in opts.faults {
        builder = builder.fault(fault);
    }
    if let Some(dir) = opts.dir {
        builder = builder.dir(dir);
    }
    if let Some(python) = opts.python {
        builder = builder.python(python);
    }
    if let Some(model) = opts.model {
        builder = builder.model(model);
    }
    let rack = builder.start().await.map_err(|e| {
        let exit = if matches!(e, RackError::Description(_)) { Exit::Usage } else { Exit::Unexpected };
        Failure::new(exit, format!("the simulated rack cannot be raised: {e}"))
    })?;
    app.printer.out(&greeting(&rack.inventory.display().to_string(), &rack));
    if let Some(file) = &opts.ready_file {
        let text = format!("{}\n", rack.inventory.display());
        std::fs::write(file, text).map_err(|e| Failure::new(Exit::Unexpected, format!("{}: {e}", file.display())))?;
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = end_of_input(), if opts.exit_with_stdin => {}
    }
    let dir = rack.dir.clone();
    rack.stop()
        .await
        .map_err(|e| Failure::new(Exit::Unexpected, format!("{}: cannot be removed: {e}", dir.display())))?;
    Ok(Exit::Ok)
}

/// Identifiers have a comma themselves: a new one begins at each `Mac`.
fn split_models(list: &str) -> Vec<String> {
    let spaced = list.replace(",Mac", " Mac");
    spaced.split([' ', '/']).filter(|m| !m.is_empty()).map(str::to_owned).collect()
}

async fn end_of_input() {
    let mut input = tokio::io::stdin();
    let mut scratch = [0; 256];
    while input.read(&mut scratch).await.is_ok_and(|n| n > 0) {}
}

fn greeting(inventory: &str, rack: &crate::sim::RunningRack) -> String {
    let quoted = crate::model::command::quote(inventory);
    let mut text = format!("A simulated rack of {} is up. Its inventory: {inventory}\n", rack.nodes.len());
    for node in &rack.nodes {
        let _ = writeln!(text, "  {:<12} ssh port {}", node.node.name, node.address.port());
    }
    text += "\nIn another terminal:\n";
    for line in ["doctor", "cabling", "network plan", "network apply", "checklist"] {
        let _ = writeln!(text, "  macluster -f {quoted} {line}");
    }
    text + "\nCtrl-C takes it down.\n"
}

fn catalogue() -> String {
    let mut text = String::from("Faults (--fault NAME, NAME:NODE, or for cables NAME:NODE,NODE):\n");
    for fault in Fault::all() {
        let _ = writeln!(text, "  {:<18} {}", fault.name(), fault.description());
    }
    text += "\nModels (--models):\n";
    for model in MODELS {
        let ports = model.ports.len();
        let _ = writeln!(
            text,
            "  {:<10} {}, {}, {ports} × Thunderbolt {}",
            model.id, model.name, model.chip, model.generation
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::split_models;

    #[test]
    fn a_list_of_identifiers_is_split_between_them() {
        assert_eq!(split_models("Mac15,14,Mac16,9"), ["Mac15,14", "Mac16,9"]);
        assert_eq!(split_models("Mac15,14"), ["Mac15,14"]);
        assert_eq!(split_models("Mac15,14/Mac16,9"), ["Mac15,14", "Mac16,9"]);
    }
}
