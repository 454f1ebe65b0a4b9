//! Changing the link networks of a rack, so that no node can be cut off: see [`apply`] and [`revert`].

mod apply;
mod change;
mod deadman;
#[cfg(test)]
mod fixture;
mod lock;
mod prove;
mod revert;
mod steps;
mod verify;

pub use apply::{Again, Applied, ApplyError, Applying, Fate, apply};
pub use lock::Operator;
pub use prove::{Prover, look, remotes};
pub use revert::{Reverting, revert, settle};
pub use verify::{LinkResult, Verified, examine, ping_all};
