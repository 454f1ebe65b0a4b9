//! Link networks: addressing, and the difference between what is and what should be, as a plan.
//!
//! One /30 per link, keyed by node pair and rail (`address`), for links that are beyond doubt (`desired`), from a
//! pool that nothing else on any node uses (`pool`). What differs on a node (`diff`, `keeping`) becomes changes with
//! commands from `playbooks/network.yaml` (`plan`), unless they could cut the way in (`guard`). What outlives a change
//! or a restart is text (`persist`). Pure: no I/O.

mod address;
mod desired;
mod diff;
#[cfg(test)]
mod fixture;
mod guard;
mod keeping;
pub mod persist;
mod plan;
mod pool;
mod problem;

pub use address::{RAILS, pair_index, pair_of, rail_network};
pub use desired::{Desired, LinkNetwork, NetworkEnd, desired};
pub use guard::{default_over_thunderbolt, thunderbolt_interfaces};
pub use keeping::{places, root_of};
pub use plan::{Basis, Change, Moved, NetworkPlan, PlanOptions, PlanRequest, Symbol, plan};
pub use pool::{Clash, clashes, free_pool};
pub use problem::{Problem, ProblemKind};
