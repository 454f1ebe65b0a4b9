//! The simulated rack: a fake macOS userland and SSH servers on loopback.
//!
//! Nothing in the product knows that it talks to a simulator; this module knows nothing of the product but its
//! way of quoting words, which it tests.

pub mod boot;
mod exec;
mod fault;
mod ids;
mod init;
mod keeper;
pub mod kernel;
mod launchd;
mod login;
mod models;
mod multicall;
mod owners;
mod processes;
mod program;
mod rack;
mod server;
mod shell;
pub mod state;
pub mod store;
pub mod tools;
pub mod world;

pub use fault::{Fault, FaultAt};
pub use keeper::end_what_is_left;
pub use models::MODELS;
pub use rack::{Builder, LaidOut, Rack, RackError, RunningNode, RunningRack};

pub use multicall::multicall;
