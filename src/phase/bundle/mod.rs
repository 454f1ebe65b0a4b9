//! The offline runtime: everything a node needs, in one content-addressed folder.

pub mod archive;
pub mod build;
pub mod inspect;
pub mod local;
pub mod locks;
pub mod manifest;
pub mod notices;
pub mod pip;
pub mod platform;
pub mod sources;
pub mod wheel;
pub mod wheel_info;

pub use build::{Built, Request, build, cache_dir};
pub use inspect::{Inspection, inspect};
pub use local::{local_environment, python_for};
pub use manifest::{FileEntry, Manifest};
pub use platform::Platform;
