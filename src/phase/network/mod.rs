//! Changing the link networks of a rack, so that no node can be cut off: see [`apply`] and [`revert`].

mod apply;
mod change;
mod deadman;
mod fate;
#[cfg(test)]
mod fixture;
mod keeper;
mod lock;
mod prove;
mod revert;
mod steps;
mod verify;

pub use apply::{Again, Applying, apply};
pub use fate::{Applied, ApplyError, Fate};
pub use lock::Operator;
pub use prove::{Prover, look, remotes};
pub use revert::{Reverting, revert, settle};
pub use verify::{LinkResult, Verified, examine, ping_all};
