//! `macluster network apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::saved::{self, Saved};
use super::{Books, SETTLE, Wishes, interrupted, print_json, reached};
use crate::app::App;
use crate::cli::Format;
use crate::collect::collect;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory, NodeName, Snapshot};
use crate::network::{NetworkPlan, PlanOptions};
use crate::phase::network::{
    Applied, ApplyError, Applying, Fate, Operator, Prover, Reverting, Verified, apply, look, remotes, settle,
};
use crate::remote::Fleet;
use crate::view::plan as view;
use crate::view::prompt::Terminal;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opts {
    /// A plan saved with `plan --out`; refused when the rack has moved since
    #[arg(value_name = "FILE", conflicts_with_all = ["replace_foreign_daemon", "remove_bridge_entry"])]
    plan: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Seconds without a sign of life after which a node takes an unconfirmed change back
    #[arg(long, value_name = "SECONDS", default_value_t = 90, value_parser = clap::value_parser!(u64).range(10..=3600))]
    deadman: u64,
    /// Change addresses that RDMA has used since the last restart
    #[arg(long)]
    readdress: bool,
    #[command(flatten)]
    wishes: Wishes,
}

pub(super) async fn run(opts: &Opts, app: &App) -> Outcome {
    let saved = opts.plan.as_deref().map(saved::read).transpose()?;
    let books = Books::load(app)?;
    let inventory = app.inventory()?;
    let fleet = tokio::select! {
        fleet = app.fleet(&inventory, Access::Write) => fleet?,
        _ = tokio::signal::ctrl_c() => return Err(interrupted()),
    };
    let run = Run { opts, app, books: &books, inventory: &inventory, fleet: &fleet, operator: Operator::here() };
    let outcome = run.all(saved.as_ref()).await;
    fleet.close().await;
    outcome
}

struct Run<'a> {
    opts: &'a Opts,
    app: &'a App,
    books: &'a Books,
    inventory: &'a Inventory,
    fleet: &'a Fleet,
    operator: Operator,
}

impl Run<'_> {
    fn options(&self, saved: Option<&Saved>) -> PlanOptions {
        saved.map_or_else(|| self.opts.wishes.into(), |s| s.basis.options)
    }

    async fn all(&self, saved: Option<&Saved>) -> Outcome {
        let options = self.options(saved);
        let ready = tokio::select! {
            ready = self.ready(saved, options) => ready?,
            _ = tokio::signal::ctrl_c() => return Err(interrupted()),
        };
        let (snapshot, plan) = ready;
        let mut exits = vec![reached(self.inventory, &snapshot)];
        if plan.blocked() {
            exits.push(Exit::ChecksFailed);
        }
        let stop = CancellationToken::new();
        let (applied, verified) = if plan.changes.is_empty() {
            (Vec::new(), self.look(&plan, options).await?)
        } else {
            self.apply(&snapshot, &plan, options, &stop).await?
        };
        if stop.is_cancelled() {
            exits.push(Exit::Interrupted);
        }
        if applied.iter().any(|a| a.fate != Fate::Complete) {
            exits.push(Exit::SomeNodesFailed);
        }
        if !verified.ok() {
            exits.push(Exit::ChecksFailed);
        }
        match self.opts.output {
            Format::Human if verified.links.is_empty() && applied.is_empty() => {}
            Format::Human => {
                self.app.printer.out(&view::applied_human(&applied, &verified, self.inventory, self.app.printer));
            }
            Format::Json => print_json(self.app, &view::applied_json(&plan, &applied, &verified, self.inventory)),
        }
        Ok(Exit::worst(exits))
    }

    /// Everything up to the yes: facts, plan, question. Changes nothing.
    async fn ready(&self, saved: Option<&Saved>, options: PlanOptions) -> Result<(Snapshot, NetworkPlan), Failure> {
        let mut snapshot = collect(self.inventory, self.fleet, &self.app.events).await;
        if self.settled(&snapshot).await? {
            snapshot = collect(self.inventory, self.fleet, &self.app.events).await;
        }
        let plan = self.books.plan(self.inventory, &snapshot, options)?;
        if let Some(saved) = saved {
            saved.compare(&plan)?;
        }
        let shown = view::human(&plan, self.inventory, self.app.printer, self.app.global.verbose);
        match self.opts.output {
            Format::Human => self.app.printer.out(&shown),
            // Standard output is for the one JSON document; the person who is asked still sees the plan.
            Format::Json if !self.opts.yes => self.app.printer.err(&shown),
            Format::Json => {}
        }
        if plan.changes.is_empty() {
            return Ok((snapshot, plan));
        }
        if plan.readdresses() && !self.opts.readdress {
            if self.opts.yes {
                return Err(Failure::new(
                    Exit::Usage,
                    "not applied: it would change addresses that RDMA has used since the last restart",
                )
                .hint("restart these nodes first, or add --readdress and restart them afterwards"));
            }
            self.ask("Change addresses that RDMA has used since the last restart?").await?;
        }
        if self.opts.yes {
            return Ok((snapshot, plan));
        }
        self.ask("Apply these changes?").await?;
        // The question may have stood for hours.
        let snapshot = collect(self.inventory, self.fleet, &self.app.events).await;
        let now = self.books.plan(self.inventory, &snapshot, options)?;
        if now.basis != plan.basis {
            let moved = saved::moved(&plan.basis.moved(&now.basis));
            let message = format!("not applied: the rack has moved since the plan was shown{moved}");
            return Err(
                Failure::new(Exit::StalePlan, message).hint("run `macluster network apply` again: it makes a new plan")
            );
        }
        Ok((snapshot, now))
    }

    /// Waits for nodes that take an earlier change back. True when there were some.
    async fn settled(&self, snapshot: &Snapshot) -> Result<bool, Failure> {
        let reverting = Reverting {
            playbooks: &self.books.playbooks,
            scripts: &self.books.scripts,
            operator: &self.operator,
            events: &self.app.events,
        };
        match settle(&reverting, snapshot, &remotes(self.fleet)).await {
            Ok(nodes) => Ok(!nodes.is_empty()),
            Err(refused) => Err(self.refused(&refused)),
        }
    }

    fn refused(&self, nodes: &[(NodeName, String)]) -> Failure {
        let lines: Vec<String> =
            nodes.iter().map(|(node, why)| format!("\n  {}: {why}", self.inventory.label(node))).collect();
        Failure::new(Exit::ChecksFailed, format!("not applied: nothing was changed{}", lines.concat()))
            .hint("one operator at a time: wait for the other one, then run it again")
    }

    async fn ask(&self, question: &'static str) -> Result<(), Failure> {
        let terminal = Terminal::new(self.app.printer, Arc::clone(&self.app.events));
        let asked = tokio::task::spawn_blocking(move || terminal.literal_yes(question)).await;
        match asked.unwrap_or(Some(false)) {
            Some(true) => Ok(()),
            Some(false) => Err(Failure::new(Exit::Interrupted, "not applied")),
            None => Err(Failure::new(Exit::Usage, "not applied: there is no terminal to ask at")
                .hint("--yes applies without asking")),
        }
    }

    fn prover<'a>(&'a self, options: PlanOptions, given_up: &'a BTreeSet<NodeName>) -> Prover<'a> {
        Prover {
            inventory: self.inventory,
            playbooks: &self.books.playbooks,
            scripts: &self.books.scripts,
            options,
            given_up,
            limit: SETTLE,
            events: &self.app.events,
        }
    }

    /// Proves what is there, when there is nothing to change.
    async fn look(&self, plan: &NetworkPlan, options: PlanOptions) -> Result<Verified, Failure> {
        if plan.links.is_empty() || plan.blocked() {
            return Ok(Verified::default());
        }
        let nobody = BTreeSet::new();
        self.app.events.emit(Event::PhaseStarted { id: "verify", title: "Prove the link networks".to_owned() });
        let verified = look(&self.prover(options, &nobody), self.fleet, &remotes(self.fleet)).await?;
        self.app.events.emit(Event::PhaseDone { id: "verify", ok: verified.ok() });
        Ok(verified)
    }

    async fn apply(
        &self,
        snapshot: &Snapshot,
        plan: &NetworkPlan,
        options: PlanOptions,
        stop: &CancellationToken,
    ) -> Result<(Vec<Applied>, Verified), Failure> {
        let connected: BTreeMap<_, _> = remotes(self.fleet);
        let connect = self.app.connect_options(Access::Write);
        let again = |nodes: BTreeSet<NodeName>| {
            let connect = &connect;
            async move { self.fleet.again(self.inventory, connect, &self.app.events, &nodes).await }.boxed()
        };
        let applying = Applying {
            inventory: self.inventory,
            snapshot,
            plan,
            playbooks: &self.books.playbooks,
            scripts: &self.books.scripts,
            options,
            window: Duration::from_secs(self.opts.deadman),
            settle: SETTLE,
            operator: &self.operator,
            stop,
            events: &self.app.events,
        };
        let work = apply(&applying, &connected, self.fleet, &again);
        let interrupts = async {
            let _ = tokio::signal::ctrl_c().await;
            stop.cancel();
            let text = "interrupted: the nodes take their changes back; interrupt again to leave them to themselves";
            self.app.events.emit(Event::Warning { node: None, text: text.to_owned() });
            let _ = tokio::signal::ctrl_c().await;
        };
        let done = tokio::select! {
            done = work => done,
            () = interrupts => {
                let text = format!(
                    "interrupted: every node that is not finished takes its changes back by itself within {} s",
                    self.opts.deadman
                );
                return Err(Failure::new(Exit::Interrupted, text).hint("`macluster network plan` shows where they are"));
            }
        };
        done.map_err(|e| match e {
            ApplyError::Locked(nodes) => self.refused(&nodes),
            ApplyError::Playbook(e) => e.into(),
        })
    }
}
