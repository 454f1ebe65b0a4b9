//! The offline runtime: everything a node needs, in one content-addressed folder.

pub mod archive;
pub mod locks;
pub mod manifest;
pub mod pip;
pub mod platform;
pub mod wheel;

pub use manifest::{FileEntry, Manifest};
pub use platform::Platform;
