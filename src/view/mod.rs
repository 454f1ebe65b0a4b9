//! All printing. Data goes to standard output, everything else to standard error.

pub mod bundle;
pub mod cabling;
pub mod checklist;
pub mod doctor;
pub mod deploy;
pub mod plan;
pub mod printer;
pub mod progress;
pub mod prompt;
mod text;
pub mod ranks;
pub mod status;

pub use printer::Printer;
