//! Link networks: addressing, and the difference between what is and what should be, as a plan.
//!
//! One /30 per link, keyed by node pair and rail (`address`), for links that are beyond doubt (`desired`), from a
//! pool that nothing else on any node uses (`pool`). What differs on a node (`diff`) becomes changes with commands
//! from `playbooks/network.yaml` (`plan`), unless they could cut the way in (`guard`). Pure: no I/O.

mod address;
mod desired;
mod diff;
#[cfg(test)]
mod fixture;
mod guard;
mod plan;
mod pool;
mod problem;

pub use address::{RAILS, pair_index, pair_of, rail_network};
pub use desired::{Desired, LinkNetwork, NetworkEnd, desired};
pub use plan::{Change, NetworkPlan, Symbol, plan};
pub use pool::{Clash, clashes, free_pool};
pub use problem::{Problem, ProblemKind};
