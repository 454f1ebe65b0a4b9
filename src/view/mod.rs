//! All printing. Data goes to standard output, everything else to standard error.

pub mod bundle;
pub mod checklist;
pub mod plan;
pub mod printer;
pub mod progress;
pub mod prompt;

pub use printer::Printer;
