//! Pure readers, one file per macOS tool; total on garbage.

pub mod inventory;
