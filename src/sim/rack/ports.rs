//! Ports on loopback: one that refuses, and free ranges for the agents.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A port that is taken although nobody listens on it: connections are refused as long as the socket lives.
pub(super) fn closed() -> io::Result<(SocketAddr, OwnedFd)> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let name: SocketAddr = getsockname(&socket)?.try_into()?;
    Ok((name, socket))
}

/// Ports that each agent may use: its own and nine after it.
pub(super) const PER_AGENT: u16 = 10;

/// The first of `count` ranges of [`PER_AGENT`] ports plus one port for the API, all free at this moment.
///
/// They lie below the ephemeral ranges of Linux (32768) and macOS (49152), so that no outgoing connection takes
/// one meanwhile; where to look first differs by process and call, so that racks started together do not collide.
pub(super) fn agents(count: usize) -> io::Result<u16> {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let need = u16::try_from(count).unwrap_or(u16::MAX).saturating_mul(PER_AGENT) + 1;
    let (low, high) = (12_000_u16, 32_000_u16);
    let span = u64::from(high - low - need.min(high - low - 1));
    for _ in 0..200 {
        let start = low + u16::try_from(RandomState::new().build_hasher().finish() % span).unwrap_or(0);
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if (start..start + need).all(free) {
            return Ok(start);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, format!("no {need} free ports in a row between {low} and {high}")))
}
