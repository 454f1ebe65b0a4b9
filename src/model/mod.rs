//! Types every floor shares: names, the inventory, facts of a node, the hardware catalogue.

pub mod command;
mod fact;
pub mod facts;
pub mod finding;
pub mod hardware;
pub mod host_facts;
pub mod inventory;
pub mod name;
pub mod network_facts;
pub mod panel;
pub mod runtime_facts;
pub mod size;
pub mod snapshot;

pub use command::{Access, Cmd, Output, Stdin};
pub use facts::{Fact, FactError, FactErrorKind, NodeFacts};
pub use finding::{Category, Finding, LinkEnd, LinkRef, Remedy, Verdict};
pub use host_facts::HostFacts;
pub use inventory::{Backend, Inventory, Node, Over, Parallel};
pub use name::NodeName;
pub use network_facts::NetworkFacts;
pub use snapshot::{CollectFailure, FailureKind, NodeRecord, Snapshot, Transcript};
