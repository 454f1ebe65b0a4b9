//! All integration tests in one binary.
#![allow(unreachable_pub, reason = "a test binary has no outside")]

mod floors;
mod mesh;
mod inventory;
mod support;
