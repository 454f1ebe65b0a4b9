//! `macluster stop`: agents and engines end on all nodes; releases stay.

use std::sync::Arc;

use serde_json::json;

use crate::app::App;
use crate::cli::Format;
use crate::event::Event;
use crate::exit::{Exit, Outcome};
use crate::model::{Access, NodeName};
use crate::phase::runtime::{PLAYBOOK, RuntimeNode};
use crate::phase::service::{self, Stopped};
use crate::view::status as view;

/// Options of `macluster stop`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

/// Runs it. Nothing running is fine; so is doing it twice.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let fleet = app.fleet(&inventory, Access::Write).await?;
    app.events.emit(Event::PhaseStarted { id: "stop", title: "Stop the runtime".to_owned() });
    let work = inventory.nodes.iter().map(|node| async {
        let result = match fleet.nodes.get(&node.name) {
            Some(Ok(remote)) => {
                let what = "stopping".to_owned();
                app.events.emit(Event::TaskStarted { node: Some(node.name.clone()), what: what.clone() });
                let result = service::stop(&RuntimeNode::new(&inventory, &book, remote, &app.events)).await;
                let error = result.as_ref().err().cloned();
                app.events.emit(Event::TaskDone { node: Some(node.name.clone()), what, error });
                result
            }
            Some(Err(e)) => Err(e.message.clone()),
            None => Err("no connection".to_owned()),
        };
        (node.name.clone(), result)
    });
    let results: Vec<(NodeName, Result<Stopped, String>)> = futures::future::join_all(work).await;
    let failed = results.iter().any(|(_, r)| r.is_err());
    app.events.emit(Event::PhaseDone { id: "stop", ok: !failed });
    app.printer.out(&match opts.output {
        Format::Human => view::stopped(&results, &inventory),
        Format::Json => {
            let nodes: Vec<_> = results
                .iter()
                .map(|(node, r)| match r {
                    Ok(s) => json!({"node": node, "ran": s.ran, "killed": s.killed, "error": null}),
                    Err(why) => json!({"node": node, "ran": null, "killed": [], "error": why}),
                })
                .collect();
            json!({"schema_version": 1, "rack": inventory.rack, "nodes": nodes}).to_string()
        }
    });
    let exit = fleet.exit();
    fleet.close().await;
    Ok(Exit::worst([exit, if failed { Exit::SomeNodesFailed } else { Exit::Ok }]))
}
