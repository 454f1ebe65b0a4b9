//! `ibv_devices`, `ibv_devinfo`, `rdma_ctl` (samples/rdma).

use std::io;
use std::io::Write;

use super::Call;
use crate::sim::state::{NodeState, Receptacle};
use crate::sim::world::World;

/// `ibv_devices`: unsorted, header only without RDMA.
pub(super) fn devices(call: &mut Call<'_>) -> io::Result<i32> {
    let state = call.node.load()?;
    writeln!(call.out, "    {:<16}\t   node GUID", "device")?;
    writeln!(call.out, "    {:<16}\t----------------", "------")?;
    for r in listed(&state) {
        writeln!(call.out, "    {:<16}\t{}", device(r), r.guid)?;
    }
    Ok(0)
}

/// The real list is not sorted (samples/rdma/ibv_devices-m3ultra-mlxdocs.txt): every second pair is swapped here.
fn listed(state: &NodeState) -> Vec<&Receptacle> {
    if !state.rdma_usable() || state.quirks.no_rdma_devices {
        return Vec::new();
    }
    let mut list: Vec<&Receptacle> = state.receptacles.iter().collect();
    if list.len() > 3 {
        list.swap(2, 3);
    }
    list
}

fn device(r: &Receptacle) -> String {
    format!("rdma_{}", r.interface)
}

/// `ibv_devinfo [-v] [-d DEVICE] [-l]`.
pub(super) fn devinfo(call: &mut Call<'_>) -> io::Result<i32> {
    let mut verbose = false;
    let mut only = None;
    let mut list = false;
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-v" | "--verbose" => verbose = true,
            "-l" | "--list" => list = true,
            "-d" | "--ib-dev" => only = args.next().cloned(),
            other => {
                // Usage text and status of libibverbs; Apple's were not captured.
                writeln!(call.err, "ibv_devinfo: invalid option -- '{}'", other.trim_start_matches('-'))?;
                return Ok(255);
            }
        }
    }
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    let devices = listed(state);
    if devices.is_empty() {
        // mlx#3777 quotes the text; the stream and the status are libibverbs' (guess).
        writeln!(call.err, "No IB devices found")?;
        return Ok(255);
    }
    if list {
        writeln!(call.out, "{} HCAs found:", devices.len())?;
        for r in devices {
            writeln!(call.out, "\t{}", device(r))?;
        }
        return writeln!(call.out).map(|()| 0);
    }
    let chosen: Vec<&Receptacle> =
        devices.into_iter().filter(|r| only.as_ref().is_none_or(|d| *d == device(r))).collect();
    if let (Some(name), true) = (&only, chosen.is_empty()) {
        writeln!(call.err, "IB device '{name}' wasn't found")?;
        return Ok(255);
    }
    for r in chosen {
        one(call.out, &world, state, r, verbose)?;
    }
    Ok(0)
}

fn one(out: &mut dyn Write, world: &World, state: &NodeState, r: &Receptacle, verbose: bool) -> io::Result<()> {
    let active = world.port_active(state, r);
    writeln!(out, "hca_id:\t{}", device(r))?;
    let mut row = |key: &str, tabs: &str, value: &str| writeln!(out, "\t{key}:{tabs}{value}");
    row("transport", "\t\t\t", "Thunderbolt (100)")?;
    row("node_guid", "\t\t\t", &grouped(&r.guid))?;
    row("sys_image_guid", "\t\t\t", "0000:0000:0000:0001")?;
    row("vendor_id", "\t\t\t", "0x0000")?;
    row("vendor_part_id", "\t\t\t", "0")?;
    row("hw_ver", "\t\t\t\t", "0x0")?;
    row("phys_port_cnt", "\t\t\t", "1")?;
    if verbose {
        // Values of 26.x; the full list was never captured, so only keys that some sample shows.
        row("max_mr_size", "\t\t\t", "0xfa0000")?;
        row("max_qp", "\t\t\t\t", &state.rdma.max_qp.to_string())?;
        row("max_cq", "\t\t\t\t", "11")?;
        row("max_mr", "\t\t\t\t", "100")?;
        row("max_pd", "\t\t\t\t", "11")?;
        row("atomic_cap", "\t\t\t", "ATOMIC_NONE (0)")?;
    }
    writeln!(out, "\t\tport:\t1")?;
    let mut row = |key: &str, tabs: &str, value: &str| writeln!(out, "\t\t\t{key}:{tabs}{value}");
    row("state", "\t\t\t", if active { "PORT_ACTIVE (4)" } else { "PORT_DOWN (1)" })?;
    row("max_mtu", "\t\t", "4096 (5)")?;
    row("active_mtu", "\t\t", "4096 (5)")?;
    row("sm_lid", "\t\t\t", &r.id.to_string())?;
    row("port_lid", "\t\t", &r.id.to_string())?;
    row("port_lmc", "\t\t", "0x00")?;
    row("link_layer", "\t\t", "Thunderbolt")?;
    if verbose {
        row("max_msg_sz", "\t\t", "0x1000000")?;
        // A 40 Gb/s link: no capture; half the width is a guess.
        let slow = world.far(&state.name, r.id).is_some_and(|f| f.cable.gbps < 80);
        row("active_width", "\t\t", if slow { "4X (2)" } else { "8X (4)" })?;
        row("active_speed", "\t\t", "10.0 Gbps (4)")?;
        for (index, gid) in world.gids(state, r) {
            writeln!(out, "\t\t\tGID[{index:3}]:\t\t{gid}")?;
        }
    }
    writeln!(out)
}

/// `8096a9d9edbaac05` → `8096:a9d9:edba:ac05`.
fn grouped(guid: &str) -> String {
    let digits: Vec<char> = guid.chars().collect();
    digits.chunks(4).map(|c| c.iter().collect::<String>()).collect::<Vec<_>>().join(":")
}

/// `rdma_ctl status`; `enable` works in Recovery only (`samples/rdma/rdma_ctl.md`).
pub(super) fn rdma_ctl(call: &mut Call<'_>) -> io::Result<i32> {
    match call.args.first().map(String::as_str) {
        Some("status") => {
            let enabled = call.node.load()?.rdma.enabled;
            writeln!(call.out, "{}", if enabled { "enabled" } else { "disabled" })?;
            Ok(0)
        }
        Some("enable" | "disable") => {
            // The stream was not stated in the sources: standard error is assumed.
            writeln!(call.err, "rdma_ctl: This tool needs to be executed from Recovery OS.")?;
            Ok(77)
        }
        _ => {
            // No usage text was ever captured.
            writeln!(call.err, "usage: rdma_ctl enable | disable | status")?;
            Ok(64)
        }
    }
}
