//! One block of `ifconfig`.

use std::io::{self, Write};

use crate::sim::state::{Interface, Kind, NodeState};
use crate::sim::world::World;

/// Prints one interface; with a family only its addresses (guess: which other lines stay then is not captured).
pub(super) fn block(
    out: &mut dyn Write,
    world: &World,
    state: &NodeState,
    interface: &Interface,
    family: Option<&str>,
) -> io::Result<()> {
    let member = state.bridge_of(&interface.name).is_some();
    let (flags, words) = flags(interface, member);
    writeln!(out, "{}: flags={flags:x}<{}> mtu {}", interface.name, words.join(","), interface.mtu)?;
    if let Some(options) = options(interface.kind) {
        writeln!(out, "\toptions={options}")?;
    }
    if let (Some(mac), None) = (&interface.mac, family) {
        writeln!(out, "\tether {mac}")?;
    }
    addresses(out, world, state, interface, family)?;
    if family.is_some() {
        return Ok(());
    }
    if interface.kind == Kind::Bridge {
        bridge(out, state, interface)?;
    }
    if has_nd6(interface.kind) && !member {
        writeln!(out, "\tnd6 options=201<PERFORMNUD,DAD>")?;
    }
    if let Some(media) = media(interface) {
        writeln!(out, "\tmedia: {media}")?;
    }
    if has_status(interface.kind) {
        let active = world.carrier(state, interface);
        writeln!(out, "\tstatus: {}", if active { "active" } else { "inactive" })?;
    }
    Ok(())
}

fn flags(interface: &Interface, member: bool) -> (u32, Vec<&'static str>) {
    match interface.kind {
        Kind::Loopback => (0x8049, vec!["UP", "LOOPBACK", "RUNNING", "MULTICAST"]),
        Kind::Tunnel => (0x8051, vec!["UP", "POINTOPOINT", "RUNNING", "MULTICAST"]),
        Kind::Idle if interface.name.starts_with("gif") => (0x8010, vec!["POINTOPOINT", "MULTICAST"]),
        Kind::Idle => (0, Vec::new()),
        // samples/ifconfig/NOTES.md: 8863 up, 8963 as a bridge member, 8822 administratively down.
        _ => {
            let mut value = 0x8822;
            let mut words = vec!["BROADCAST", "SMART", "SIMPLEX", "MULTICAST"];
            if interface.up {
                value |= 0x41;
                words.insert(0, "UP");
                words.insert(3, "RUNNING");
            }
            if member {
                value |= 0x100;
                words.insert(if interface.up { 4 } else { 2 }, "PROMISC");
            }
            (value, words)
        }
    }
}

fn options(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Loopback => Some("1203<RXCSUM,TXCSUM,TXSTATUS,SW_TIMESTAMP>"),
        Kind::Anpi | Kind::Gadget | Kind::Llw => Some("400<CHANNEL_IO>"),
        Kind::Ethernet => Some("567<RXCSUM,TXCSUM,VLAN_MTU,TSO4,TSO6,AV,CHANNEL_IO>"),
        Kind::Thunderbolt => Some("460<TSO4,TSO6,CHANNEL_IO>"),
        Kind::Bridge => Some("63<RXCSUM,TXCSUM,TSO4,TSO6>"),
        Kind::Wifi | Kind::AccessPoint | Kind::Awdl => Some("6460<TSO4,TSO6,CHANNEL_IO,PARTIAL_CSUM,ZEROINVERT_CSUM>"),
        Kind::Idle | Kind::Tunnel => None,
    }
}

fn addresses(
    out: &mut dyn Write,
    world: &World,
    state: &NodeState,
    interface: &Interface,
    family: Option<&str>,
) -> io::Result<()> {
    let v4 = |out: &mut dyn Write| -> io::Result<()> {
        for inet in interface.inet.iter().filter(|_| family != Some("inet6")) {
            let mask = u32::MAX.checked_shl(32 - u32::from(inet.prefix)).unwrap_or(0);
            write!(out, "\tinet {} netmask 0x{mask:08x}", inet.address)?;
            match inet.network() {
                Some(network) if interface.kind != Kind::Loopback => {
                    writeln!(out, " broadcast {}", network.broadcast())?;
                }
                _ => writeln!(out)?,
            }
        }
        Ok(())
    };
    let loopback = interface.kind == Kind::Loopback;
    if loopback {
        v4(out)?;
    }
    if family != Some("inet") {
        // Every inet6 line ends in one blank (samples/ifconfig/errors.md).
        let scope = format!("%{} prefixlen 64", interface.name);
        if loopback {
            writeln!(out, "\tinet6 ::1 prefixlen 128 ")?;
            writeln!(out, "\tinet6 fe80::1{scope} scopeid 0x{:x} ", interface.index)?;
        } else if let Some(address) = world.automatic_link_local(state, interface) {
            let secured =
                if matches!(interface.kind, Kind::Thunderbolt | Kind::Ethernet | Kind::Wifi) { " secured" } else { "" };
            writeln!(out, "\tinet6 {address}{scope}{secured} scopeid 0x{:x} ", interface.index)?;
        }
        for inet6 in &interface.inet6 {
            if inet6.address.is_unicast_link_local() {
                let (address, prefix) = (inet6.address, inet6.prefix);
                writeln!(
                    out,
                    "\tinet6 {address}%{} prefixlen {prefix} scopeid 0x{:x} ",
                    interface.name, interface.index
                )?;
            } else {
                writeln!(out, "\tinet6 {} prefixlen {} ", inet6.address, inet6.prefix)?;
            }
        }
    }
    if loopback { Ok(()) } else { v4(out) }
}

fn bridge(out: &mut dyn Write, state: &NodeState, interface: &Interface) -> io::Result<()> {
    out.write_all(
        b"\tConfiguration:\n\t\tid 0:0:0:0:0:0 priority 0 hellotime 0 fwddelay 0\n\t\tmaxage 0 holdcnt 0 proto stp maxaddr 100 timeout 1200\n\t\troot id 0:0:0:0:0:0 priority 0 ifcost 0 port 0\n\t\tipfilter disabled flags 0x0\n",
    )?;
    for member in &interface.members {
        let port = state.interface(member).map_or(0, |i| i.index);
        writeln!(out, "\tmember: {member} flags=3<LEARNING,DISCOVER>")?;
        writeln!(out, "\t        ifmaxaddr 0 port {port} priority 0 path cost 0")?;
    }
    Ok(())
}

fn has_nd6(kind: Kind) -> bool {
    !matches!(kind, Kind::Idle | Kind::Anpi)
}

fn media(interface: &Interface) -> Option<&'static str> {
    Some(match interface.kind {
        Kind::Anpi | Kind::Gadget => "none",
        Kind::Thunderbolt => "autoselect <full-duplex>",
        // Guess: no sample of a connected built-in port.
        Kind::Ethernet => "autoselect (10Gbase-T <full-duplex>)",
        Kind::Bridge => "<unknown type>",
        Kind::Wifi | Kind::Awdl => "autoselect",
        Kind::AccessPoint | Kind::Llw => "autoselect (none)",
        Kind::Loopback | Kind::Idle | Kind::Tunnel => return None,
    })
}

fn has_status(kind: Kind) -> bool {
    !matches!(kind, Kind::Loopback | Kind::Idle | Kind::Llw | Kind::Tunnel)
}
