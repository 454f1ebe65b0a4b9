//! Applying a plan of link networks: commands on every node at once, then proof.

mod apply;
mod verify;

pub use apply::{Applied, ApplyFailure, apply};
pub use verify::{LinkResult, Verified, examine, ping_all};
