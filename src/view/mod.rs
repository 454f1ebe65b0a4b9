//! All printing. Data goes to standard output, everything else to standard error.

pub mod accept;
pub mod bundle;
pub mod cabling;
pub mod checklist;
pub mod deploy;
pub mod diagram;
pub mod doctor;
pub mod explain;
pub mod logs;
pub mod model;
pub mod ops;
pub mod plan;
pub mod printer;
pub mod progress;
pub mod prompt;
pub mod ranks;
mod remedy;
pub mod replace;
pub mod screen;
pub mod sizing;
pub mod smoke;
pub mod status;
mod text;
pub mod wiring;

pub use printer::Printer;
