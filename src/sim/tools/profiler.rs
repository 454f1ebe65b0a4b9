//! `system_profiler`: JSON of the Thunderbolt, hardware and software reports (samples/thunderbolt, samples/system).

use std::io;

use serde_json::{Map, Value, json};

use super::Call;
use crate::sim::state::{NodeState, Receptacle, SeenBy};
use crate::sim::world::{Far, World};

pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    let mut types = Vec::new();
    let mut as_json = false;
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-json" => as_json = true,
            "-detailLevel" | "-timeout" => drop(args.next()),
            "-listDataTypes" => {
                writeln!(call.out, "Available Datatypes:")?;
                for name in KNOWN {
                    writeln!(call.out, "{name}")?;
                }
                return Ok(0);
            }
            flag if flag.starts_with('-') => {
                // Guess: the man page gives no exit status.
                writeln!(call.err, "system_profiler: unrecognized option `{flag}'")?;
                return Ok(64);
            }
            name => types.push(name.to_owned()),
        }
    }
    if !as_json {
        // Only JSON has samples complete enough to be shaped after.
        writeln!(call.err, "macsim: system_profiler is simulated with -json only")?;
        return Ok(1);
    }
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    call.pause(state.quirks.profiler_delay_ms);
    let mut report = Map::new();
    for name in types {
        match name.as_str() {
            "SPThunderboltDataType" => report.insert(name, thunderbolt(&world, state)),
            "SPHardwareDataType" => report.insert(name, hardware(state)),
            "SPSoftwareDataType" => report.insert(name, software(state)),
            // Guess: an unknown type is left out of the report.
            _ => None,
        };
    }
    let mut text = Vec::new();
    super::json::write(&mut text, &Value::Object(report))?;
    if state.quirks.truncated_profiler {
        text.truncate(text.len() / 2);
    }
    call.out.write_all(&text)?;
    Ok(0)
}

const KNOWN: [&str; 3] = ["SPHardwareDataType", "SPSoftwareDataType", "SPThunderboltDataType"];

/// An object whose keys come in the order of the samples: sorted, `_items` and `_name` first.
fn sorted(pairs: Vec<(&str, Value)>) -> Value {
    let sorted: std::collections::BTreeMap<&str, Value> = pairs.into_iter().collect();
    Value::Object(sorted.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

fn thunderbolt(world: &World, state: &NodeState) -> Value {
    // Highest bus first (samples/thunderbolt/KEYS.md).
    let mut receptacles: Vec<&Receptacle> = state.receptacles.iter().collect();
    receptacles.sort_by_key(|r| std::cmp::Reverse(r.bus));
    receptacles.into_iter().map(|r| bus(world, state, r)).collect()
}

fn bus(world: &World, state: &NodeState, receptacle: &Receptacle) -> Value {
    let far = world.far(&state.name, receptacle.id).filter(Far::seen);
    let mute = state.quirks.mute_receptacles.contains(&receptacle.id);
    let plugged = far.is_some() || mute;
    let idle = if receptacle.generation >= 5 { "Up to 120 Gb/s" } else { "Up to 40 Gb/s" };
    let mut tag = vec![
        ("current_speed_key", json!(far.map_or(idle.to_owned(), |f| format!("{} Gb/s", f.cable.gbps)))),
        ("link_status_key", json!(if far.is_some() { "0x2" } else { "0x100" })),
        ("receptacle_id_key", json!(receptacle.id.to_string())),
        ("receptacle_status_key", json!(if plugged { "receptacle_connected" } else { NOTHING })),
    ];
    if far.is_some() {
        tag.push(("micro_version_key", json!("0.0.0")));
    }
    let mut keys = vec![
        ("_name", json!(format!("thunderboltusb4_bus_{}", receptacle.bus))),
        ("device_name_key", json!(state.computer.model_name)),
        ("domain_uuid_key", json!(receptacle.domain_uuid)),
        // Always `_1_`, whatever the receptacle's number.
        ("receptacle_1_tag", sorted(tag)),
        ("route_string_key", json!("0")),
        ("switch_uid_key", json!(receptacle.switch_uid)),
        ("vendor_name_key", json!("Apple Inc.")),
    ];
    if let Some(far) = far {
        keys.push(("_items", items(world, far)));
    }
    sorted(keys)
}

const NOTHING: &str = "receptacle_no_devices_connected";

/// What hangs on the bus: the peer, or the dock with the peer behind it.
fn items(world: &World, far: Far<'_>) -> Value {
    let peer = peer(world, far);
    let Some(dock) = far.cable.dock.as_ref().filter(|_| far.near_is_a) else { return Value::Array(vec![peer]) };
    let speed = format!("{} Gb/s", far.cable.gbps);
    let link = |status: &str| {
        sorted(vec![
            ("current_speed_key", json!(speed)),
            ("link_status_key", json!("0x2")),
            ("micro_version_key", json!("1.9.0")),
            ("receptacle_status_key", json!(status)),
        ])
    };
    Value::Array(vec![sorted(vec![
        ("_items", Value::Array(vec![peer])),
        ("_name", json!(dock.name)),
        ("device_id_key", json!(dock.device_id)),
        ("device_name_key", json!(dock.name)),
        ("device_revision_key", json!("0x1")),
        ("mode_key", json!(dock.mode)),
        ("receptacle_2_tag", link("receptacle_connected")),
        ("receptacle_upstream_ambiguous_tag", link("receptacle_connected")),
        ("route_string_key", json!("1")),
        ("switch_uid_key", json!("0x8086A1B2C3D4E500")),
        ("switch_version_key", json!("62.1")),
        ("vendor_id_key", json!(dock.vendor_id)),
        ("vendor_name_key", json!(dock.vendor)),
    ])])
}

/// The Mac at the other end: its model, the domain UUID of its own receptacle, its services.
fn peer(world: &World, far: Far<'_>) -> Value {
    let seed = format!("{}/{}", far.plug.node, far.plug.receptacle);
    let (model_name, model, domain, ip, rdma) = if let Some(node) = world.nodes.get(&far.plug.node) {
        let own = node.receptacle(far.plug.receptacle);
        let rdma = own.filter(|_| node.rdma_usable()).map(|r| r.rdma_service.clone());
        let domain = own.map(|r| r.domain_uuid.clone()).unwrap_or_default();
        let ip = own.map(|r| r.ip_service.clone()).unwrap_or_default();
        (node.computer.model_name.clone(), node.computer.model.clone(), domain, ip, rdma)
    } else {
        let id = |what: &str| crate::sim::ids::uuid(&format!("outsider/{seed}/{what}"));
        let outsider = world.outsider(&far.plug.node);
        let (name, model) = outsider.map_or_else(Default::default, |o| (o.model_name.clone(), o.model.clone()));
        (name, model, id("domain"), id("ip"), outsider.filter(|o| o.rdma).map(|_| id("rdma")))
    };
    let mut services = vec![sorted(vec![
        ("_name", json!("service_ip")),
        ("protocol_id_key", json!(1)),
        ("protocol_revision_key", json!(1)),
        ("protocol_version_key", json!(1)),
        ("service_uuid_key", json!(ip)),
    ])];
    if let Some(uuid) = rdma {
        services.push(sorted(vec![
            ("_name", json!("unknown_xd_service")),
            ("protocol_id_key", json!(64087)),
            ("protocol_revision_key", json!(0)),
            ("protocol_version_key", json!(1)),
            ("service_key_key", json!("\u{2c7}\u{2c7}\u{2c7}\u{2c7}\u{2c7}\u{2c7}AD")),
            ("service_uuid_key", json!(uuid)),
        ]));
    }
    debug_assert!(far.cable.seen_by == SeenBy::Both || far.seen());
    sorted(vec![
        ("_name", json!(model_name)),
        ("device_id_key", json!("0xA")),
        ("device_name_key", json!(model)),
        ("domain_uuid_key", json!(domain)),
        ("services_title", Value::Array(services)),
        ("vendor_id_key", json!("0x0A27")),
        ("vendor_name_key", json!("Apple Inc.")),
    ])
}

fn hardware(state: &NodeState) -> Value {
    let c = &state.computer;
    Value::Array(vec![sorted(vec![
        ("_name", json!("hardware_overview")),
        ("activation_lock_status", json!("activation_lock_disabled")),
        ("boot_rom_version", json!(c.boot_rom)),
        ("chip_type", json!(c.chip)),
        ("machine_model", json!(c.model)),
        ("machine_name", json!(c.model_name)),
        ("model_number", json!(c.model_number)),
        ("number_processors", json!(c.processors)),
        ("os_loader_version", json!(c.boot_rom)),
        ("physical_memory", json!(format!("{} GB", c.memory_gb))),
        ("platform_UUID", json!(c.platform_uuid)),
        ("provisioning_UDID", json!(c.provisioning_udid)),
        ("serial_number", json!(c.serial)),
    ])])
}

fn software(state: &NodeState) -> Value {
    let up = (jiff::Timestamp::now().as_second() - state.boot.seconds).max(0);
    let uptime = format!("up {}:{:02}:{:02}:{:02}", up / 86400, up / 3600 % 24, up / 60 % 60, up % 60);
    Value::Array(vec![sorted(vec![
        ("_name", json!("os_overview")),
        ("boot_mode", json!("normal_boot")),
        ("boot_volume", json!("Macintosh HD")),
        ("kernel_version", json!(format!("Darwin {}", state.os.darwin))),
        ("local_host_name", json!(state.name)),
        ("os_version", json!(format!("macOS {} ({})", state.os.version, state.os.build))),
        ("secure_vm", json!("secure_vm_enabled")),
        ("system_integrity", json!("integrity_enabled")),
        ("uptime", json!(uptime)),
        ("user_name", json!("System Administrator (root)")),
    ])])
}
