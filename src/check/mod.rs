//! Checks: pure functions over a snapshot. One file per category, one registry.

mod cabling;
mod cabling_peer;
mod cabling_ports;
mod crashes;
mod engines;
pub mod explain;
mod host;
mod judge;
mod load;
mod macos;
mod mesh;
mod mixed;
mod network;
mod rdma;
mod rdma_link;
mod report;
mod runtime;
mod runtime_engine;
mod runtime_model;
mod say;
mod session;
mod ssh;
mod upkeep;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::mesh::LinkGraph;
use crate::model::{Category, Finding, Inventory, Snapshot, Verdict};

pub use engines::engine_of;
pub use judge::{Purpose, blocks};
pub use report::{Report, SCHEMA_VERSION, Summary, is_urgent};
use say::Row;

/// What every check sees.
pub struct Context<'a> {
    /// Recorded facts.
    pub snapshot: &'a Snapshot,
    /// Cables.
    pub graph: &'a LinkGraph,
    /// Inventory.
    pub inventory: &'a Inventory,
    /// SHA-256 of the links daemon's script that this macluster installs, hexadecimal.
    pub links_script: &'a str,
}

/// One check.
pub trait Check: Sync {
    /// Stable id, `category.name`.
    fn id(&self) -> &'static str;
    /// Category.
    fn category(&self) -> Category;
    /// One line for `--list-checks`.
    fn title(&self) -> &'static str;
    /// Looks and tells; at least one finding.
    fn evaluate(&self, ctx: &Context<'_>) -> Vec<Finding>;
}

/// Every check, in the order in which a rack is put together.
pub fn registry() -> &'static [&'static dyn Check] {
    static ALL: OnceLock<Vec<&'static dyn Check>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files: [&'static [Row]; 19] = [
            ssh::CHECKS,
            session::CHECKS,
            host::CHECKS,
            mixed::CHECKS,
            upkeep::CHECKS,
            load::CHECKS,
            crashes::CHECKS,
            engines::CHECKS,
            rdma::CHECKS,
            rdma_link::CHECKS,
            engines::HELD,
            cabling::CHECKS,
            cabling_peer::CHECKS,
            cabling_ports::CHECKS,
            mesh::CHECKS,
            network::CHECKS,
            runtime::CHECKS,
            runtime_engine::CHECKS,
            runtime_model::CHECKS,
        ];
        files.into_iter().flatten().map(|row| row as &dyn Check).collect()
    })
}

/// Runs every check.
pub fn run(ctx: &Context<'_>) -> Report {
    run_these(ctx, registry())
}

/// Runs the checks that judge the cables and nothing that hangs on them.
pub fn of_cables(ctx: &Context<'_>) -> Report {
    let cables = |c: &&dyn Check| matches!(c.category(), Category::Cabling | Category::Mesh);
    run_these(ctx, &registry().iter().copied().filter(cables).collect::<Vec<_>>())
}

/// Runs these checks. One that panics is told as `crash`; the others run.
pub fn run_these(ctx: &Context<'_>, checks: &[&dyn Check]) -> Report {
    let findings = checks.iter().flat_map(|check| guarded(*check, ctx)).collect();
    Report::new(ctx, findings)
}

fn guarded(check: &dyn Check, ctx: &Context<'_>) -> Vec<Finding> {
    match catch_unwind(AssertUnwindSafe(|| check.evaluate(ctx))) {
        Ok(findings) => findings,
        Err(payload) => {
            let why = payload
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            let mut say = say::Say::new(check.id(), check.category());
            say.crash(&why);
            say.done()
        }
    }
}

/// Whether a verdict ends doctor with the exit code for failed checks.
pub fn counts_as_failed(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Crash)
}
