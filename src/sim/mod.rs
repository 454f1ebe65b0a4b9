//! The simulated rack: a fake macOS userland and SSH servers on loopback.

use std::ffi::OsString;

/// Runs as one of the simulated userland's tools when called under its name inside a simulated node; else none.
pub fn multicall(_args: &[OsString]) -> Option<u8> {
    None
}
