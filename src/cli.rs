//! Arguments: global options and the table of subcommands. Each command's own options live beside its `run`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cmd;

/// Turns a rack of Mac Studios into one AI server and keeps it one.
#[derive(Clone, Debug, Parser)]
#[command(name = "macluster", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Inventory file [default: macluster.yaml, searched upwards from the working directory]
    #[arg(short = 'f', long = "file", global = true, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read the rack's facts from this snapshot instead of the nodes (read-only commands)
    #[arg(long, global = true, value_name = "SNAPSHOT")]
    pub from: Option<PathBuf>,
    /// Record the keys of hosts that are not known yet without asking (changed keys are always refused)
    #[arg(long, global = true)]
    pub accept_new_host_keys: bool,
    /// Folder whose playbooks replace the built-in ones, file by file (they run with sudo)
    #[arg(long, global = true, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// Folder whose templates replace the built-in ones, file by file (scripts among them run as root)
    #[arg(long, global = true, value_name = "DIR")]
    pub templates: Option<PathBuf>,
    /// Nodes worked on at the same time
    #[arg(long, global = true, value_name = "N", default_value_t = 32)]
    pub parallel: usize,
    /// Show more (passing rows, commands that run)
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// Output format of commands that print data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// For programs; carries `schema_version`.
    Json,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
#[allow(missing_docs, reason = "each variant is documented by its command's own help text")]
pub enum Command {
    /// Write a commented macluster.yaml
    Init(cmd::init::Opts),
    /// Check everything that is known to go wrong; changes nothing
    Doctor(cmd::doctor::Opts),
    /// Say what an error in a log means, and which of its causes holds on this rack
    Explain(cmd::explain::Opts),
    /// Show which receptacle is cabled to which
    Cabling(cmd::cabling::Opts),
    /// Print or write the hostfile that `mlx.launch` reads
    Hostfile(cmd::hostfile::Opts),
    /// Plan and apply the link networks
    Network(cmd::network::Opts),
    /// Let another Mac take a node's place
    Node(cmd::node::Opts),
    /// Print the steps that only a person at the machine can do
    Checklist(cmd::checklist::Opts),
    /// Save the rack's facts and raw transcripts to a file
    Snapshot(cmd::snapshot::Opts),
    /// Say what a model needs on each node, and on how many it runs
    Sizing(cmd::sizing::Opts),
    /// Bring a model to every node, or prove it there
    Model(cmd::model::Opts),
    /// Build the offline runtime bundle
    Bundle(cmd::bundle::Opts),
    /// Install and start the runtime on every node
    Deploy(cmd::deploy::Opts),
    /// Show whether what is deployed serves, as a CI job asks
    Smoke(cmd::smoke::Opts),
    /// Measure a serving rack before it is handed over, and file a report
    Accept(cmd::accept::Opts),
    /// Show what runs where
    Status(cmd::status::Opts),
    /// Show the engines' logs, of one node or merged
    Logs(cmd::logs::Opts),
    /// Start the runtime on every node
    Start(cmd::service::Opts),
    /// Stop the runtime on every node
    Stop(cmd::stop::Opts),
    /// Stop the runtime on every node and start it again
    Restart(cmd::service::Opts),
    /// Go back to the release before this one
    Rollback(cmd::rollback::Opts),
    /// List the releases on the nodes, or remove old ones
    Releases(cmd::releases::Opts),
    /// Remove the runtime from every node
    Undeploy(cmd::undeploy::Opts),
    /// Forward the model's API to this machine over SSH
    Tunnel(cmd::tunnel::Opts),
    /// Run a simulated rack on this machine
    Sim(cmd::sim::Opts),
    /// Take a simulated rack from cables to an answer, showing each command
    Demo(cmd::demo::Opts),
    /// Print the completions of a shell
    Completions(cmd::completions::Opts),
    /// Print the manual page, or write all of them
    Man(cmd::man::Opts),
    /// The daemon on a node that owns its engine (started by launchd)
    #[command(hide = true)]
    Agent(cmd::agent::Opts),
}
