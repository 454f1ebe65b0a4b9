//! Applying a plan of link networks: commands on every node at once, then proof.

mod apply;
#[cfg(test)]
mod fixture;
mod prove;
mod verify;

pub use apply::{Applied, ApplyFailure, apply};
pub use prove::{prove, remotes};
pub use verify::{LinkResult, Verified, examine, ping_all};
