//! Models on the nodes: brought there, and proven.

pub mod check;
pub mod hub;
pub mod program;
pub mod push;
