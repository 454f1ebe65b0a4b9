//! All integration tests in one binary.
#![allow(unreachable_pub, reason = "a test binary has no outside")]

mod agent;
mod floors;
mod init;
mod inventory;
mod mesh;
mod parse;
mod ranks;
mod sim;
mod ssh;
mod support;
