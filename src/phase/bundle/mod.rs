//! The offline runtime: everything a node needs, in one content-addressed folder.

pub mod manifest;
pub mod platform;

pub use manifest::{FileEntry, Manifest};
pub use platform::Platform;
