//! `macluster cabling diagram`.

use std::path::PathBuf;

use super::answered;
use super::plan::Wanted;
use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::view::Printer;
use crate::view::diagram::{Diagram, dot, draw, from_plan, from_rack, html, text};
use crate::view::wiring::impossible_human;

/// Options of `macluster cabling diagram`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opts {
    /// What it is drawn as
    #[arg(short, long, value_enum, default_value_t)]
    output: Drawing,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw the Macs without their cables, to fill in by hand
    #[arg(long)]
    without_cables: bool,
    /// Draw the cables of `cabling plan` instead: what stays, moves, is new and is taken out
    #[arg(long, conflicts_with = "without_cables")]
    planned: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// What a diagram can be drawn as.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(super) enum Drawing {
    /// For the terminal
    #[default]
    Text,
    /// A picture for every browser and printer
    Svg,
    /// A page to print: the picture, and a table of the cables
    Html,
    /// For Graphviz
    Dot,
}

impl Drawing {
    /// Draws it.
    pub(super) fn of(self, diagram: &Diagram, printer: Printer) -> String {
        match self {
            Drawing::Text => text(diagram, printer),
            Drawing::Svg => draw(diagram),
            Drawing::Html => html(diagram),
            Drawing::Dot => dot(diagram),
        }
    }
}

/// Runs it.
pub(super) async fn run(opts: Opts, app: &App) -> Outcome {
    let (diagram, exit) = if opts.planned { planned(&opts.wanted, app).await? } else { as_it_is(&opts, app).await? };
    // A file has no colours, whatever the terminal has.
    let printer = Printer { color: app.printer.color && opts.out.is_none(), ..app.printer };
    let drawn = opts.output.of(&diagram, printer);
    match opts.out {
        None => app.printer.out(&drawn),
        Some(file) => {
            std::fs::write(&file, drawn).map_err(|e| {
                Failure::new(Exit::Unexpected, format!("cannot write {}: {e}", file.display()))
                    .hint("name a file in a folder that exists and that you may write to")
            })?;
            app.printer.err(&format!("wrote {}", file.display()));
        }
    }
    Ok(exit)
}

async fn as_it_is(opts: &Opts, app: &App) -> Result<(Diagram, Exit), Failure> {
    if opts.wanted.given() {
        return Err(Failure::new(Exit::Usage, "--topology and --model are for a plan: add --planned"));
    }
    let (inventory, snapshot) = app.facts().await?;
    let graph = LinkGraph::build(&snapshot);
    let diagram = from_rack(&inventory, &snapshot, &graph, !opts.without_cables);
    Ok((diagram, answered(&inventory, &snapshot)))
}

async fn planned(wanted: &Wanted, app: &App) -> Result<(Diagram, Exit), Failure> {
    let subject = wanted.subject(app).await?;
    let wiring = subject.wiring();
    let plan = wanted.plan(wiring.board).map_err(|why| {
        let (no, instead) = *why;
        let why = impossible_human(&wiring, &no, instead.as_ref(), app.printer);
        let exit = Exit::worst([subject.reached, Exit::ChecksFailed]);
        Failure::new(exit, format!("there is no plan to draw\n{}", why.trim_end()))
    })?;
    Ok((from_plan(&wiring, &plan), subject.reached))
}
