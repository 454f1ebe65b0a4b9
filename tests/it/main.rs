//! All integration tests in one binary.

mod floors;
mod mesh;
mod support;
