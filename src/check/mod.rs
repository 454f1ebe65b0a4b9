//! Checks: pure functions over a snapshot. One file per category, one registry.

use crate::mesh::LinkGraph;
use crate::model::{Category, Finding, Inventory, Snapshot};

/// What every check sees.
pub struct Context<'a> {
    /// Recorded facts.
    pub snapshot: &'a Snapshot,
    /// Cables.
    pub graph: &'a LinkGraph,
    /// Inventory.
    pub inventory: &'a Inventory,
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
