//! `macluster agent`: the daemon that owns a node's engine.
//!
//! Small on purpose: it starts one engine, passes the word `go`, watches, reports and stops it. It restarts nothing.
//! Its files are in [`layout`]; its report is [`status::Status`].

pub mod activate;
pub mod config;
pub mod engine_event;
pub mod layout;
pub mod lines;
pub mod lock;
pub mod log;
pub mod model;
pub mod process;
pub mod python;
pub mod report;
pub mod status;
mod supervise;

pub use layout::Layout;
pub use supervise::run;
