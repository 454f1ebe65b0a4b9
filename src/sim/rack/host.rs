//! Faults of a Mac as a server: what keeps it from staying up, or keeps a launch from its memory and its GPU.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use super::super::fault::{Fault, FaultAt};
use super::super::state::{Ghost, NodeState, RdmaObjects};
use super::super::store::Node;
use super::faults::hits;
use crate::model::host_facts::{FAST_SYNCH, REPORTS};

/// Changes the node's state accordingly; other faults change nothing here.
pub(super) fn apply(fault: Fault, state: &mut NodeState) {
    let quirks = &mut state.quirks;
    let ghost = |command: &str| Ghost { pid: 4242, ppid: 1, seconds: 93_784, command: command.to_owned() };
    match fault {
        Fault::FullDisk => state.disk.available_kb = 512 * 1024,
        Fault::AutoUpdate => state.auto_update = true,
        Fault::Sleeps => power(state, "sleep", "10"),
        Fault::StaysOff => power(state, "autorestart", "0"),
        Fault::FileVault => state.filevault = true,
        Fault::WiredLimit => {
            let all = state.computer.memory_gb * 1024;
            drop(state.sysctl.insert("iogpu.wired_limit_mb".to_owned(), all.to_string()));
        }
        Fault::Swap => {
            let told = "total = 13312.00M  used = 12001.25M  free = 1310.75M  (encrypted)";
            drop(state.sysctl.insert("vm.swapusage".to_owned(), told.to_owned()));
        }
        Fault::Firewall => state.firewall = 2,
        Fault::ForeignEngine => quirks.processes.push(ghost("/Applications/EXO.app/Contents/MacOS/EXO --headless")),
        Fault::RdmaLeak => quirks.rdma_objects = RdmaObjects { protection_domains: 3, queue_pairs: 6 },
        Fault::FastSynch => quirks.environment = BTreeMap::from([(FAST_SYNCH.to_owned(), "1".to_owned())]),
        Fault::FishShell => quirks.login_shell = Some("/opt/homebrew/bin/fish".to_owned()),
        Fault::ClockSkew => quirks.clock_ahead = -3_700,
        Fault::NoDevices => quirks.no_rdma_devices = true,
        Fault::PortDown => quirks.rdma_ports_down = true,
        Fault::LostGid => state.rdma.ipv4_gid_index = 0,
        Fault::UnknownModel => "Mac99,14".clone_into(&mut state.computer.model),
        Fault::UsbPort => quirks.mute_receptacles = vec![5],
        Fault::SmallMemory => state.computer.memory_gb /= 2,
        _ => {}
    }
}

fn power(state: &mut NodeState, name: &str, value: &str) {
    for (_, own) in state.power.iter_mut().filter(|(n, _)| n == name) {
        value.clone_into(own);
    }
}

/// Writes what lies in the node's files.
pub(super) fn lay(node: &Node, faults: &[FaultAt], last: &str) -> io::Result<()> {
    let folder = node.rooted(REPORTS);
    fs::create_dir_all(&folder)?;
    if hits(faults, Fault::Panic, &node.name, last) {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%d-%H%M%S");
        fs::write(folder.join(format!("panic-full-{now}.0002.panic")), "{\"bug_type\":\"210\"}\n{}\n")?;
    }
    Ok(())
}
