//! Playbooks: ordered, auditable steps; loaded, validated, expanded.
//!
//! Every command that macluster runs with sudo on a node stands in `playbooks/*.yaml` (a test holds this).
//! Use: `playbooks.book("network")?.step("set-address")?.commands(&vars)?` gives the [`Cmd`](crate::model::Cmd)s.

mod checklist;
mod error;
mod expand;
mod load;
mod schema;
mod scope;
mod templates;

pub use checklist::{Checklist, ChecklistNode, ChecklistStep, Told, Work, checklist};
pub use error::PlaybookError;
pub use expand::Vars;
pub use load::{Playbook, Playbooks, Step};
pub use schema::By;
pub use scope::ForEach;
pub use templates::{Script, Scripts, TemplateError, Templates};
