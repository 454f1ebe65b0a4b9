//! `macluster network plan`.

use std::path::PathBuf;

use super::{Books, Wishes, print_json, reached, saved};
use crate::app::App;
use crate::cli::Format;
use crate::exit::{Exit, Outcome};
use crate::view::plan as view;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Exit with 5 when there are changes, 0 when there are none
    #[arg(long)]
    detailed_exitcode: bool,
    /// Save the plan, for `macluster network apply FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    wishes: Wishes,
}

pub(super) async fn run(opts: &Opts, app: &App) -> Outcome {
    let books = Books::load(app)?;
    let (inventory, snapshot) = app.facts().await?;
    let plan = books.plan(&inventory, &snapshot, opts.wishes.into())?;
    match opts.output {
        Format::Human => app.printer.out(&view::human(&plan, &inventory, app.printer, app.global.verbose)),
        Format::Json => print_json(app, &view::json(&plan, &inventory)),
    }
    if let Some(path) = &opts.out {
        saved::write(path, &plan, &inventory)?;
        app.printer.err(&format!(
            "saved: macluster network apply {}",
            crate::model::command::quote(&path.display().to_string())
        ));
    }
    let pending = opts.detailed_exitcode && !plan.changes.is_empty();
    Ok(Exit::worst([
        reached(&inventory, &snapshot),
        if plan.blocked() { Exit::ChecksFailed } else { Exit::Ok },
        if pending { Exit::ChangesPending } else { Exit::Ok },
    ]))
}
