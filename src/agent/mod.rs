//! `macluster agent`: the daemon that owns a node's engine.
//!
//! Rank 0's agent leads ([`lead`]): when all agents are there, all engines start in one epoch; when one ends or falls
//! silent, all stop, and after a pause the next epoch begins, as long as the budget of this boot lasts. Each agent owns
//! its node's engine ([`local`]). Its files are in [`layout`]; its report is [`status::Status`].

pub mod activate;
pub mod beat;
pub mod certify;
pub mod config;
pub mod engine_event;
pub mod gather;
pub mod hold;
pub mod inspect;
pub mod layout;
pub mod lead;
pub mod ledger;
pub mod lines;
pub mod local;
pub mod lock;
pub mod log;
pub mod model;
pub mod peers;
pub mod probe;
pub mod process;
mod proof;
pub mod python;
pub mod releases;
pub mod report;
pub mod role;
pub mod seed;
pub mod status;
pub mod store;
mod supervise;
pub mod tls;
pub mod wire;

pub use layout::Layout;
pub use supervise::run;
