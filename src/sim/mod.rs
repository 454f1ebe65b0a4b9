//! The simulated rack: a fake macOS userland and SSH servers on loopback.
//!
//! Nothing in the product knows that it talks to a simulator; this module knows nothing of the product but its
//! way of quoting words, which it tests.

use std::ffi::OsString;

mod exec;
mod fault;
mod ids;
mod models;
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
pub use models::MODELS;
pub use rack::{Builder, Rack, RackError, RunningNode, RunningRack};

/// Runs as one of the simulated userland's tools when called under its name inside a simulated node; else none.
pub fn multicall(_args: &[OsString]) -> Option<u8> {
    None
}
