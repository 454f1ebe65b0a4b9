//! `macluster agent`: started by launchd on a node.

use crate::agent::{self, Layout};
use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};

/// Options of `macluster agent`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Put in front of every path
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: String,
    /// Where releases live
    #[arg(long, value_name = "DIR", default_value = "/opt/macluster")]
    install: String,
}

/// Runs it.
pub async fn run(opts: Opts, _app: &App) -> Outcome {
    let layout = Layout::new(&opts.root, &opts.install);
    agent::run(&layout).await.map(|()| Exit::Ok).map_err(|why| Failure::new(Exit::Unexpected, why))
}
