//! Pure readers, one file per macOS tool; total on garbage.
//!
//! Each tool's `parse` takes what the tool printed and gives a [`crate::model::Fact`]: an error names tool and line.
//! Whether the tool ran at all is judged in [`assemble`], which is the only reader of transcripts.

pub mod assemble;
pub mod date;
pub mod defaults;
pub mod df;
pub mod fdesetup;
pub mod hardware;
pub mod ibv_devices;
pub mod ibv_devinfo;
pub mod ifconfig;
pub mod inventory;
pub mod ioclasscount;
pub mod launchctl;
pub mod netstat;
pub mod networksetup;
pub mod own_network;
pub mod ping;
pub mod plutil;
pub mod pmset;
pub mod probe;
pub mod ps;
pub mod rdma_ctl;
pub mod route;
pub mod services;
pub mod socketfilterfw;
pub mod sudo;
pub mod sw_vers;
pub mod sysctl;
pub mod thunderbolt;

mod json;
mod words;
