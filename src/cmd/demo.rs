//! `macluster demo`.

use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};

/// Options of `macluster demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {}

/// Runs it.
pub async fn run(_opts: Opts, _app: &App) -> Outcome {
    Err(Failure::new(Exit::Unexpected, "not built yet"))
}
