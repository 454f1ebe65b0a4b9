//! Composition root: reads the command line, builds the parts, runs one command, returns the exit code.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;

use crate::cli::{Cli, Command, Global};
use crate::cmd;
use crate::cmd::service::Way;
use crate::event::Events;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory, Snapshot};
use crate::playbook::{Playbooks, Templates};
use crate::remote::{ConnectOptions, Fleet};
use crate::view::Printer;
use crate::view::prompt::Terminal;

/// What every command gets.
#[derive(Clone)]
pub struct App {
    /// Global options.
    pub global: Global,
    /// The terminal.
    pub printer: Printer,
    /// Where work reports progress.
    pub events: Events,
}

impl App {
    /// The inventory: `-f FILE`, else `macluster.yaml` found upwards from the working directory.
    ///
    /// # Errors
    /// Exit 3 with file, line and column when it cannot be found or used.
    pub fn inventory(&self) -> Result<Inventory, Failure> {
        crate::parse::inventory::load(self.global.file.as_deref())
    }

    /// The playbooks: built in, replaced file by file by `--playbooks DIR`.
    ///
    /// # Errors
    /// Exit 3 with file, line and column.
    pub fn playbooks(&self) -> Result<Playbooks, Failure> {
        Ok(Playbooks::load(self.global.playbooks.as_deref())?)
    }

    /// The templates: built in, replaced file by file by `--templates DIR`.
    ///
    /// # Errors
    /// Exit 3 with file and line.
    pub fn templates(&self) -> Result<Templates, Failure> {
        Ok(Templates::load(self.global.templates.as_deref())?)
    }

    /// The rack's facts: from the nodes, or from the snapshot of `--from` (then with its own inventory, unless `-f`
    /// names another). Nodes that cannot be read are part of the answer, not an error.
    ///
    /// # Errors
    /// Exit 3 when the inventory or the snapshot cannot be used.
    pub async fn facts(&self) -> Result<(Inventory, Snapshot), Failure> {
        self.read(false).await
    }

    /// As [`App::facts`], with what was really printed.
    ///
    /// # Errors
    /// As [`App::facts`].
    pub async fn recording(&self) -> Result<(Inventory, Snapshot), Failure> {
        self.read(true).await
    }

    async fn read(&self, transcripts: bool) -> Result<(Inventory, Snapshot), Failure> {
        if let Some(path) = &self.global.from {
            let (recorded, snapshot) = crate::collect::replay(path)?;
            let inventory = if self.global.file.is_some() { self.inventory()? } else { recorded };
            return Ok((inventory, snapshot));
        }
        let inventory = self.inventory()?;
        let fleet = self.fleet(&inventory, Access::Read).await?;
        let mut snapshot = if transcripts {
            crate::collect::collect(&inventory, &fleet, &self.events).await
        } else {
            crate::collect::collect_facts(&inventory, &fleet, &self.events).await
        };
        crate::collect::paths(&inventory, &fleet, &mut snapshot).await;
        crate::collect::runtime(&inventory, &fleet, &mut snapshot).await;
        fleet.close().await;
        Ok((inventory, snapshot))
    }

    /// Connects to all nodes. Those that cannot be reached are in the fleet with their reasons.
    ///
    /// # Errors
    /// Exit 2 with `--from`: a recording has no nodes to connect to.
    pub async fn fleet(&self, inventory: &Inventory, access: Access) -> Result<Fleet, Failure> {
        if self.global.from.is_some() {
            return Err(Failure::new(
                Exit::Usage,
                "this command needs the nodes themselves: it cannot run with --from",
            ));
        }
        Ok(Fleet::connect(inventory, &self.connect_options(access), &self.events).await)
    }

    /// As [`App::fleet`], for work that takes long: a connection that breaks is opened again for the next command.
    ///
    /// # Errors
    /// As there.
    pub async fn lasting_fleet(&self, inventory: &Inventory, access: Access) -> Result<Fleet, Failure> {
        let mut fleet = self.fleet(inventory, access).await?;
        fleet.keep_open(inventory, &self.connect_options(access), &self.events);
        Ok(fleet)
    }

    /// How connections are made.
    pub fn connect_options(&self, access: Access) -> ConnectOptions {
        ConnectOptions {
            access,
            accept_new_host_keys: self.global.accept_new_host_keys,
            parallel: self.global.parallel,
            prompt: Arc::new(Terminal::new(self.printer, Arc::clone(&self.events))),
        }
    }

    /// The inventory's path without reading it.
    pub fn inventory_path(&self) -> Option<PathBuf> {
        self.global.file.clone()
    }
}

/// Runs macluster with these arguments and gives the process exit status.
pub fn main(args: &[OsString]) -> u8 {
    let printer = Printer::detect();
    // The simulated userland: one binary under many names, as busybox does. Only `sim` makes such links.
    if let Some(status) = crate::sim::multicall(args) {
        return status;
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.code() } else { Exit::Ok.code() };
        }
    };
    let outcome = run(cli, printer);
    crate::view::prompt::restore_terminal();
    match outcome {
        Ok(exit) => exit.code(),
        Err(failure) => {
            printer.failure(&failure);
            failure.exit.code()
        }
    }
}

fn run(cli: Cli, printer: Printer) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot start the async runtime: {e}")))?;
    let events = crate::view::progress::sink(printer, cli.global.verbose);
    let app = App { global: cli.global, printer, events };
    let outcome = runtime.block_on(dispatch(cli.command, &app));
    // Blocked reads of standard input must not keep the process alive.
    runtime.shutdown_background();
    outcome
}

/// Commands that own their signals (daemons, tunnels) handle them; all others end with 130 on Ctrl-C.
async fn dispatch(command: Command, app: &App) -> Outcome {
    match command {
        Command::Agent(opts) => cmd::agent::run(opts, app).await,
        Command::Sim(opts) => cmd::sim::run(opts, app).await,
        Command::Tunnel(opts) => cmd::tunnel::run(opts, app).await,
        Command::Demo(opts) => cmd::demo::run(opts, app).await,
        Command::Deploy(opts) => cmd::deploy::run(opts, app).await,
        Command::Accept(opts) => Box::pin(cmd::accept::run(opts, app)).await,
        Command::Network(opts) => cmd::network::run(opts, app).await,
        Command::Status(opts) if opts.owns_signals() => cmd::status::run(opts, app).await,
        Command::Doctor(opts) if opts.owns_signals() => cmd::doctor::run(opts, app).await,
        other => {
            tokio::select! {
                outcome = interruptible(other, app) => outcome,
                _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted")),
            }
        }
    }
}

async fn interruptible(command: Command, app: &App) -> Outcome {
    match command {
        Command::Completions(opts) => cmd::completions::run(&opts, app),
        Command::Man(opts) => cmd::man::run(&opts, app),
        Command::Init(opts) => cmd::init::run(opts, app).await,
        Command::Doctor(opts) => cmd::doctor::run(opts, app).await,
        Command::Explain(opts) => cmd::explain::run(opts, app).await,
        Command::Cabling(opts) => cmd::cabling::run(opts, app).await,
        Command::Hostfile(opts) => cmd::hostfile::run(opts, app).await,
        Command::Checklist(opts) => cmd::checklist::run(opts, app).await,
        Command::Snapshot(opts) => cmd::snapshot::run(opts, app).await,
        Command::Bundle(opts) => cmd::bundle::run(opts, app).await,
        Command::Smoke(opts) => cmd::smoke::run(opts, app).await,
        Command::Status(opts) => cmd::status::run(opts, app).await,
        Command::Logs(opts) => cmd::logs::run(opts, app).await,
        Command::Model(opts) => cmd::model::run(opts, app).await,
        Command::Sizing(opts) => cmd::sizing::run(opts, app).await,
        Command::Start(opts) => cmd::service::run(opts, app, Way::Start).await,
        Command::Stop(opts) => cmd::stop::run(opts, app).await,
        Command::Restart(opts) => cmd::service::run(opts, app, Way::Restart).await,
        Command::Rollback(opts) => cmd::rollback::run(opts, app).await,
        Command::Releases(opts) => cmd::releases::run(opts, app).await,
        Command::Undeploy(opts) => cmd::undeploy::run(opts, app).await,
        Command::Node(opts) => Box::pin(cmd::node::run(opts, app)).await,
        Command::Agent(_)
        | Command::Sim(_)
        | Command::Tunnel(_)
        | Command::Demo(_)
        | Command::Deploy(_)
        | Command::Accept(_)
        | Command::Network(_) => {
            unreachable!("dispatched by the caller")
        }
    }
}
