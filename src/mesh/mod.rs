//! The graph of cables: who is connected to whom, by which receptacles, and what can run over it.

pub mod bridged;
pub mod graph;
pub mod ranks;
pub mod ring;
pub mod rounds;
pub mod usable;
pub mod wiring;

pub use graph::{Cable, CableEnd, ForeignPeer, Link, LinkGraph, LinkId, SeenBy, interface_of, leads_to_a_mac};
