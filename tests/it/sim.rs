//! The simulated rack itself: its servers, its tools against the shapes of the samples, its faults.

mod command;
mod docs;
mod files;
mod launchd;
mod programs;
mod reboot;
mod samples;
mod server;
mod state;

use macluster::sim::{Builder, Rack, RunningRack};

use crate::support::binary;

/// A rack whose programs are links to the binary under test.
fn rack() -> Builder {
    Rack::builder().binary(binary())
}

/// The first node's root.
fn root(rack: &RunningRack) -> String {
    rack.nodes[0].node.root.display().to_string()
}
