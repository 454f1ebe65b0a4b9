//! One file per subcommand: its options beside its `run`.

pub mod agent;
pub mod bundle;
pub mod cabling;
pub mod checklist;
pub mod completions;
pub mod demo;
pub mod deploy;
pub mod doctor;
pub mod explain;
mod file;
pub mod hostfile;
pub mod init;
pub mod logs;
pub mod man;
pub mod network;
pub mod node;
pub mod releases;
pub mod rollback;
pub mod service;
pub mod sim;
pub mod sizing;
pub mod smoke;
pub mod snapshot;
pub mod status;
pub mod stop;
pub mod tunnel;
pub mod undeploy;
