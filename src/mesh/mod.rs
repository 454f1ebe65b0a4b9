//! The graph of cables: who is connected to whom, by which receptacles.

pub mod graph;
pub mod ranks;

pub use graph::{Cable, CableEnd, ForeignPeer, Link, LinkGraph, LinkId, SeenBy, interface_of};
