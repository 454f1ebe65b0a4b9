//! All integration tests in one binary.

mod floors;
mod support;
