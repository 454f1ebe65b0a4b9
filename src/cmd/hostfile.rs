//! `macluster hostfile`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::app::App;
use crate::cmd::file::write_whole;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::mesh::ranks::{self, Topology};
use crate::mesh::usable::live_addresses;
use crate::model::Backend;
use crate::model::command::quote;

/// What the MLX on the nodes must have: `mx.distributed.is_available` as documented by MLX.
const JACCL: &str = "jaccl needs an MLX with JACCL on every node; ask it: python3 -c \
                     'import mlx.core as mx; print(mx.distributed.is_available(\"jaccl\"))'";

/// MLX 0.32.4: `launch_ring` writes an empty `MLX_HOSTFILE` for a single host, which the ring backend cannot parse.
const ALONE: &str = "one node alone: `mx.distributed.init` fails under mlx.launch with a single host; start the script \
                     on the node itself";

/// Options of `macluster hostfile`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Whose format
    #[arg(long, value_enum, default_value = "mlx")]
    pub format: Launcher,
    /// How the ranks talk [default: `runtime.backend` of the inventory]
    #[arg(long, value_enum)]
    pub backend: Option<Wanted>,
    /// Write it to this file and say how to use it
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
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
    // Said before anything is read from the nodes.
    opts.out.as_deref().map_or(Ok(()), replaceable)?;
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
        // Deploy asks this of the bundle it installs. `mlx.launch` starts an MLX of the operator's, which nobody here
        // can look into: the nodes' own RDMA facts decide, and a note says what that MLX must have.
        jaccl_available: true,
        addresses: &|link| graph.links.get(link).and_then(|l| live_addresses(l, &snapshot)),
        etc: &|_| String::new(),
    })
    .map_err(|e| {
        let failure = Failure::new(Exit::ChecksFailed, e.message.clone());
        // The planner's hints name the setting; here the option does the same.
        e.hints.iter().fold(failure, |f, h| f.hint(h.replace("`runtime.backend: ", "`--backend ")))
    })?;
    for note in &plan.notes {
        app.printer.err(note);
    }
    let file = ranks::hostfile(&plan, &inventory)
        .ok_or_else(|| Failure::new(Exit::Unexpected, "the rank plan does not fit the inventory"))?;
    if plan.mlx_backend == "jaccl" {
        app.printer.err(JACCL);
    }
    if plan.topology == Topology::Single {
        app.printer.err(ALONE);
    }
    let text = format!("{file:#}\n");
    let Some(path) = &opts.out else {
        app.printer.out(&text);
        return Ok(Exit::Ok);
    };
    write_whole(path, &text).map_err(|e| {
        Failure::new(Exit::Unexpected, format!("cannot write {}: {e}", path.display()))
            .hint("name a file in a folder that exists and that you may write to")
    })?;
    let shown = quote(&path.display().to_string());
    app.printer.err(&format!("wrote {}; use it: mlx.launch --hostfile {shown} SCRIPT", path.display()));
    Ok(Exit::Ok)
}

/// Refuses a place where something else than a hostfile would be lost.
fn replaceable(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| {
        Err(Failure::new(Exit::Usage, format!("{} {why}, and was left alone", path.display()))
            .hint("name another file, or move that one away"))
    };
    match std::fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(there) if !there.is_file() => return refuse("is not a regular file"),
        _ => {}
    }
    match std::fs::read_to_string(path) {
        Ok(text) if text.is_empty() || ranks::is_hostfile(&text) => Ok(()),
        Ok(_) => refuse("exists and is no hostfile"),
        Err(e) => refuse(&format!("exists and cannot be read ({e})")),
    }
}
