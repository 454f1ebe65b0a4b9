//! What a model needs on each rank, by arithmetic alone: before a byte of it is sent anywhere.
//!
//! The layers of each architecture are laid out as mlx-lm 0.32.2 builds and splits them ([`arch`], [`split`], [`Architecture::stages`]);
//! `inference/oracle` asks mlx-lm itself, and a test holds the two equal.

pub mod arch;
pub mod choose;
pub mod headers;
pub mod module;
pub mod split;
mod stage;

pub use arch::{Architecture, Unknown};
pub use split::{Share, Why};
