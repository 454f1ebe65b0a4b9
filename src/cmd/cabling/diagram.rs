//! `macluster cabling diagram`.

use std::path::PathBuf;

use super::answered;
use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::view::Printer;
use crate::view::diagram::{Diagram, dot, draw, from_rack, html, text};

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
    let (inventory, snapshot) = app.facts().await?;
    let graph = LinkGraph::build(&snapshot);
    let diagram = from_rack(&inventory, &snapshot, &graph, !opts.without_cables);
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
    Ok(answered(&inventory, &snapshot))
}
