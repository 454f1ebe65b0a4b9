//! The `macluster` binary: composition root and exit code, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(macluster::app::main(&std::env::args_os().collect::<Vec<_>>()))
}
