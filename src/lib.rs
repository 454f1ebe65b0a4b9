//! `macluster` turns a rack of Mac Studios into one AI server and keeps it one.
//!
//! Modules are floors and import only downwards (a test enforces it):
//! `model`, `event`, `exit` → `parse`, `mesh`, `network`, `check`, `playbook` → `remote` →
//! `collect`, `phase`, `agent` (`sim` beside them) → `view` → `cmd` → `cli`, `app`.

pub mod agent;
pub mod app;
pub mod check;
pub mod cli;
pub mod cmd;
pub mod collect;
pub mod event;
pub mod exit;
pub mod mesh;
pub mod model;
pub mod network;
pub mod parse;
pub mod phase;
pub mod playbook;
pub mod remote;
pub mod sim;
pub mod sizing;
pub mod view;
