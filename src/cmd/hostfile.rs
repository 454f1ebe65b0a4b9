//! `macluster hostfile`.

use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::mesh::ranks;
use crate::mesh::usable::live_addresses;
use crate::model::Backend;

/// Options of `macluster hostfile`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Whose format
    #[arg(long, value_enum, default_value = "mlx")]
    pub format: Launcher,
    /// How the ranks talk [default: `runtime.backend` of the inventory]
    #[arg(long, value_enum)]
    pub backend: Option<Wanted>,
}

/// Launchers whose hostfile can be written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Launcher {
    /// `mlx.launch`.
    Mlx,
}

/// Backends by their name on the command line.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Wanted {
    /// The best the rack allows.
    Auto,
    /// RDMA over a full mesh.
    Jaccl,
    /// RDMA over a ring.
    JacclRing,
    /// TCP over a ring.
    Ring,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let Launcher::Mlx = opts.format;
    let (inventory, snapshot) = app.facts().await?;
    let graph = LinkGraph::build(&snapshot);
    let backend = match opts.backend {
        None => inventory.runtime.backend,
        Some(Wanted::Auto) => Backend::Auto,
        Some(Wanted::Jaccl) => Backend::Jaccl,
        Some(Wanted::JacclRing) => Backend::JacclRing,
        Some(Wanted::Ring) => Backend::Ring,
    };
    let plan = ranks::plan(&ranks::Request {
        graph: &graph,
        inventory: &inventory,
        snapshot: &snapshot,
        backend,
        over: inventory.runtime.over,
        // The operator's own MLX is started on the nodes; RDMA facts of each node decide.
        jaccl_available: true,
        addresses: &|link| graph.links.get(link).and_then(|l| live_addresses(l, &snapshot)),
        etc: &|_| String::new(),
    })
    .map_err(|e| e.hints.iter().fold(Failure::new(Exit::ChecksFailed, e.message.clone()), |f, h| f.hint(h.clone())))?;
    for note in &plan.notes {
        app.printer.err(note);
    }
    let file = ranks::hostfile(&plan, &inventory)
        .ok_or_else(|| Failure::new(Exit::Unexpected, "the rank plan does not fit the inventory"))?;
    app.printer.out(&format!("{file:#}\n"));
    Ok(Exit::Ok)
}
