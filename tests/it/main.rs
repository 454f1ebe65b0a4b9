//! All integration tests in one binary.
#![allow(unreachable_pub, reason = "a test binary has no outside")]
#![allow(clippy::print_stderr, reason = "skipped tests say so")]
#![allow(clippy::assigning_clones, reason = "fixtures are assigned for readability")]

mod accept;
mod agent;
mod agents;
mod bundle;
mod cabling;
mod checklist;
mod checks;
mod collect;
mod demo;
mod deploy;
mod diagram;
mod docs;
mod doctor;
mod doctor_use;
mod escapes;
mod explain;
mod floors;
mod hold;
mod hostfile;
mod inference;
mod init;
mod inventory;
mod known_hosts;
mod mesh;
mod model;
mod netrack;
mod netrack_bad_days;
mod network;
mod network_deadman;
mod network_live;
mod network_wishes;
mod parse;
mod playbooks;
mod push;
mod ranks;
mod redact;
mod replace;
mod scripts;
mod sim;
mod sizing;
mod ssh;
mod ssh_config;
mod support;
mod tripwire;
mod wiring;
