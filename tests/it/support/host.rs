//! A Mac as a server, as a value: everything in order.

use std::collections::BTreeMap;

use jiff::Timestamp;
use macluster::model::HostFacts;
use macluster::model::host_facts::{Disk, FileVault, Firewall, PROTECTION_DOMAIN, Process, QUEUE_PAIR};
use macluster::model::runtime_facts::{AgentFacts, FolderFacts, PortFacts, RankFacts, RuntimeFacts};

/// When every node is asked for its time.
pub const ASKED: Timestamp = Timestamp::constant(1_796_068_800, 0);

/// A process.
pub fn process(pid: u32, parent: u32, command: &str) -> Process {
    Process { pid, ppid: parent, seconds: 60, command: command.to_owned() }
}

/// Sleeps never, starts by itself, has room, and runs nothing but launchd.
pub fn calm() -> HostFacts {
    let power = [("sleep", "0"), ("autorestart", "1"), ("disksleep", "0")];
    HostFacts {
        power: Ok(power.map(|(k, v)| (k.to_owned(), v.to_owned())).into()),
        filevault: Ok(FileVault::Off),
        installs_updates: Ok(Some(false)),
        disk: Ok(Disk { total_kib: 4 << 30, available_kib: 3 << 30, mount: "/".to_owned() }),
        processes: Ok(vec![process(1, 0, "/sbin/launchd")]),
        firewall: Ok(Firewall::Off),
        rdma_objects: Ok(BTreeMap::from([(PROTECTION_DOMAIN.to_owned(), Some(0)), (QUEUE_PAIR.to_owned(), Some(0))])),
        reports: Ok(vec!["notes-2026-11-29-101500.ips".to_owned()]),
        login_shell: Ok("/bin/zsh".to_owned()),
        fast_synch: Ok(vec![]),
        clock: Ok(ASKED),
    }
}

/// A rank that serves; `i` from 0.
pub fn serving(i: u32, world_size: u32) -> RuntimeFacts {
    let now: Timestamp = "2026-06-01T12:00:00Z".parse().expect("a time");
    RuntimeFacts {
        schema_version: 1,
        release: "0123456789abcdef".to_owned(),
        damaged: vec![],
        rank: Some(RankFacts {
            launch: "fedcba9876543210".to_owned(),
            release: "0123456789abcdef".to_owned(),
            rank: i,
            world_size,
            backend: "jaccl".to_owned(),
            model: "/opt/macluster/models/bench".to_owned(),
            folder: Ok(FolderFacts {
                model_type: "llama".to_owned(),
                bytes: 16 << 30,
                digest: "00aa11bb22cc33dd".to_owned(),
                share: Some(Ok(4 << 30)),
            }),
            certificates_until: now + jiff::SignedDuration::from_hours(24 * 300),
            ports: vec![PortFacts { what: "agent".to_owned(), at: "192.0.2.11:7420".to_owned(), taken: None }],
        }),
        agent: Some(AgentFacts { engine: "ready".to_owned(), epoch: 3, error: None, degraded: None, reach: vec![] }),
        python: Ok("0.31.0".to_owned()),
        now,
    }
}
