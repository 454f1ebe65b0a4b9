//! Models on the nodes: brought there, and proven.

mod bring;
pub mod check;
pub mod hub;
pub mod program;
pub mod push;
pub mod relay;
mod seed;
pub mod trouble;
