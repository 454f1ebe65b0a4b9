//! `macluster cabling plan`.

use clap::ValueEnum;

use super::answered;
use crate::app::App;
use crate::cli::Format;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::wiring::{Board, Impossible, Unknown, WiringPlan, mesh, ring};
use crate::mesh::{LinkGraph, ranks};
use crate::model::hardware::{CATALOGUE, Mac, lookup};
use crate::model::{Inventory, NodeName};
use crate::view::wiring::{Wiring, human, impossible_human, impossible_json, json};

/// Options of `macluster cabling plan`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opts {
    #[command(flatten)]
    wanted: Wanted,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Exit with 5 when there are steps, 0 when there are none
    #[arg(long)]
    detailed_exitcode: bool,
}

/// What is planned.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Wanted {
    /// How the Macs are to be joined [default: mesh]
    #[arg(long, value_enum, value_name = "TOPOLOGY")]
    topology: Option<Choice>,
    /// Plan an empty rack of this model without asking the nodes, e.g. Mac15,14; NODE=MODEL for one node
    #[arg(long, value_name = "[NODE=]MODEL")]
    model: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// A cable for every pair (backend jaccl)
    #[default]
    Mesh,
    /// A cable for every two neighbours in a circle (backends jaccl-ring, ring)
    Ring,
}

/// A rack to plan for.
pub(super) struct Subject {
    inventory: Inventory,
    board: Board,
    macs: Vec<Mac>,
    /// How the command ends by the nodes that answered.
    pub(super) reached: Exit,
}

impl Subject {
    /// What a plan is shown with.
    pub(super) fn wiring(&self) -> Wiring<'_> {
        Wiring { inventory: &self.inventory, macs: &self.macs, board: &self.board, at_hand: false }
    }
}

impl Wanted {
    /// Whether one of these options was given.
    pub(super) fn given(&self) -> bool {
        self.topology.is_some() || !self.model.is_empty()
    }

    /// The rack: as its facts tell, or empty with the Macs of `--model`.
    pub(super) async fn subject(&self, app: &App) -> Result<Subject, Failure> {
        if self.model.is_empty() {
            let (inventory, snapshot) = app.facts().await?;
            let reached = answered(&inventory, &snapshot);
            let graph = LinkGraph::build(&snapshot);
            let board = Board::of(&inventory, &snapshot, &graph).map_err(|u| unknown(&u, &inventory, reached))?;
            let macs = board.names.iter().filter_map(|n| snapshot.facts(n)).map(Mac::of).collect();
            return Ok(Subject { inventory, board, macs, reached });
        }
        if app.global.from.is_some() {
            return Err(Failure::new(Exit::Usage, "--model plans an empty rack: it cannot be used with --from"));
        }
        let inventory = app.inventory()?;
        let models = assumed(&self.model, &inventory)?;
        let board = Board::empty(&models).map_err(|u| unknown(&u, &inventory, Exit::Usage))?;
        let macs = models.into_iter().map(|(_, mac)| mac).collect();
        Ok(Subject { inventory, board, macs, reached: Exit::Ok })
    }

    /// The plan, or why there is none, with the ring that is possible instead.
    pub(super) fn plan(&self, board: &Board) -> Result<WiringPlan, Box<(Impossible, Option<WiringPlan>)>> {
        match self.topology.unwrap_or_default() {
            Choice::Mesh => mesh(board).map_err(|no| Box::new((no, ring(board).ok()))),
            Choice::Ring => ring(board).map_err(|no| Box::new((no, None))),
        }
    }
}

pub(super) async fn run(opts: &Opts, app: &App) -> Outcome {
    let subject = opts.wanted.subject(app).await?;
    let wiring = subject.wiring();
    let exit = match opts.wanted.plan(wiring.board) {
        Ok(plan) => {
            match opts.output {
                Format::Human => app.printer.out(&human(&wiring, &plan, app.printer)),
                Format::Json => print_json(app, &json(&wiring, &plan)),
            }
            if opts.detailed_exitcode && !plan.steps.is_empty() { Exit::ChangesPending } else { Exit::Ok }
        }
        Err(why) => {
            let (no, instead) = *why;
            match opts.output {
                Format::Human => app.printer.out(&impossible_human(&wiring, &no, instead.as_ref(), app.printer)),
                Format::Json => print_json(app, &impossible_json(&wiring, &no, instead.as_ref())),
            }
            Exit::ChecksFailed
        }
    };
    Ok(Exit::worst([subject.reached, exit]))
}

fn print_json(app: &App, value: &serde_json::Value) {
    app.printer.out(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// The Macs of `--model`, in the order of ranks.
fn assumed(given: &[String], inventory: &Inventory) -> Result<Vec<(NodeName, Mac)>, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let mut all = None;
    let mut of = Vec::new();
    for text in given {
        let (node, model) = text.split_once('=').map_or((None, text.as_str()), |(n, m)| (Some(n), m));
        let machine = lookup(model).ok_or_else(|| {
            let near = CATALOGUE.iter().map(|m| (strsim::jaro_winkler(model, m.model), m));
            let near = near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, m)| m);
            let hint = near.map_or_else(String::new, |m| format!("did you mean {} ({})?", m.model, m.name));
            usage(format!("`--model {text}`: {model:?} is no model that is known here")).hint(hint)
        })?;
        let Some(node) = node else {
            if all.replace(machine).is_some() {
                return Err(usage("`--model` names a model for all nodes twice: use NODE=MODEL".to_owned()));
            }
            continue;
        };
        let Some(known) = inventory.nodes.iter().find(|n| n.name.as_str() == node) else {
            return Err(Failure::new(Exit::NotFound, format!("`--model {text}`: the inventory has no node {node:?}")));
        };
        of.push((known.name.clone(), machine));
    }
    let nodes = ranks::order(inventory).into_iter().map(|node| {
        let own = of.iter().rev().find(|(name, _)| name == &node.name).map(|(_, machine)| *machine);
        let machine = own.or(all).ok_or_else(|| {
            usage(format!("`--model` says nothing of {}: add --model {}=MODEL", node.name, node.name))
        })?;
        Ok((node.name.clone(), Mac::of_model(machine)))
    });
    nodes.collect()
}

/// Nodes that cannot be planned for: then nothing is, because a cable that is overlooked would be plugged twice.
fn unknown(nodes: &[Unknown], inventory: &Inventory, reached: Exit) -> Failure {
    let lines: Vec<String> = nodes.iter().map(|u| format!("{} {}", inventory.label(&u.node), u.why)).collect();
    let exit = Exit::worst([reached, Exit::ChecksFailed]);
    let message = format!("the wiring cannot be planned:\n  {}", lines.join("\n  "));
    let mut failure = Failure::new(exit, crate::model::command::printable(&message))
        .hint("models, receptacles and cables come from the nodes' own facts: `macluster doctor` says what is wrong");
    if nodes.len() == inventory.nodes.len() && nodes.iter().all(|u| u.unseen) {
        failure = failure.hint("a rack that is still empty can be planned without its nodes: --model MODEL");
    }
    failure
}
