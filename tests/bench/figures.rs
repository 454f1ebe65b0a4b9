//! Prints the figures of docs/benchmarks.md. `cargo bench --bench figures`.

fn main() {}
