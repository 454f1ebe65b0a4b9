//! Words for what goes wrong on the way to a host: cause first, then what to do.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::session::Stage;
use crate::model::FailureKind;
use crate::model::command::printable;
use crate::remote::ConnectError;
use crate::remote::known_hosts::listed_name;
use crate::remote::target::Target;

const REMOTE_LOGIN: &str = "on the Mac, turn on System Settings → General → Sharing → Remote Login for the login user";
const POWER: &str = "is the Mac switched on and on this network? After a restart with FileVault it waits for a \
                     password at its own screen before it answers";

fn unreachable(message: String, hint: &str) -> ConnectError {
    let hint = Some(hint.to_owned()).filter(|h| !h.is_empty());
    ConnectError { kind: FailureKind::Unreachable, message, hint }
}

fn place(target: &Target) -> String {
    listed_name(&target.host, target.port)
}

pub(super) fn unresolved(target: &Target, e: &io::Error) -> ConnectError {
    unreachable(
        format!("the name `{}` has no address ({e})", target.host.escape_debug()),
        "check `host` in the inventory, HostName in ~/.ssh/config, and the name server",
    )
}

pub(super) fn silent(target: &Target, after: Duration, stage: &Stage) -> ConnectError {
    let (at, after) = (place(target), after.as_secs());
    match stage.now() {
        Stage::HANDSHAKE => unreachable(
            format!("{at} takes the connection, but no SSH server speaks there within {after} s"),
            "check `port` in the inventory; a Mac that just woke up or is overloaded may need a moment",
        ),
        Stage::LOGIN => unreachable(
            format!("{at} did not finish the login within {after} s"),
            "the Mac is overloaded, or its directory service does not answer",
        ),
        _ => unreachable(format!("{at} gave no answer within {after} s"), POWER),
    }
}

pub(super) fn not_connected(target: &Target, address: SocketAddr, e: &io::Error) -> ConnectError {
    let at = if address.ip().to_string() == target.host {
        place(target)
    } else {
        format!("{} ({})", place(target), address.ip())
    };
    match e.kind() {
        io::ErrorKind::ConnectionRefused => unreachable(
            format!("{at} refuses connections to port {}: no SSH server listens there", target.port),
            REMOTE_LOGIN,
        ),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            unreachable(format!("there is no way to {at} ({e})"), POWER)
        }
        io::ErrorKind::TimedOut => unreachable(format!("{at} gave no answer"), POWER),
        _ => unreachable(format!("cannot connect to {at}: {e}"), ""),
    }
}

pub(super) fn jump_refused(target: &Target, e: &russh::Error) -> ConnectError {
    unreachable(
        format!("the jump host cannot reach {}: {}", place(target), broken(e)),
        "check the address as seen from the jump host, and that it allows TCP forwarding",
    )
}

pub(super) fn handshake(target: &Target, e: &russh::Error) -> ConnectError {
    let at = place(target);
    match e {
        russh::Error::Version => {
            unreachable(format!("something answers at {at}, but it is no SSH server"), "check `port` in the inventory")
        }
        russh::Error::NoCommonAlgo { kind, theirs, .. } => unreachable(
            format!(
                "{at} speaks no {kind:?} algorithm that macluster does; it offers {}",
                printable(&theirs.join(", "))
            ),
            "update the SSH server's configuration",
        ),
        russh::Error::WrongServerSig => unreachable(
            format!("{at} could not prove that it owns its host key"),
            "another machine may be answering in its place",
        ),
        russh::Error::Disconnect | russh::Error::HUP => hung_up(&at),
        russh::Error::IO(e) if HANG_UPS.contains(&e.kind()) => hung_up(&at),
        other => unreachable(format!("the SSH handshake with {at} failed: {}", broken(other)), ""),
    }
}

const HANG_UPS: [io::ErrorKind; 4] = [
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::BrokenPipe,
];

fn hung_up(at: &str) -> ConnectError {
    unreachable(
        format!("{at} closed the connection before the SSH handshake was done: no SSH server, or one that is too busy"),
        "check `port` in the inventory; servers also turn away too many connections at once (MaxStartups)",
    )
}

/// What broke a connection.
pub(super) fn broken(e: &russh::Error) -> String {
    match e {
        russh::Error::KeepaliveTimeout => "no sign of life for too long".to_owned(),
        russh::Error::Disconnect | russh::Error::HUP => "the node closed it".to_owned(),
        russh::Error::IO(e) if HANG_UPS.contains(&e.kind()) => "the node closed it".to_owned(),
        russh::Error::ChannelOpenFailure(why) => match why {
            russh::ChannelOpenFailure::ConnectFailed => "connection failed".to_owned(),
            russh::ChannelOpenFailure::AdministrativelyProhibited => "its SSH server forbids it".to_owned(),
            russh::ChannelOpenFailure::ResourceShortage => "too many channels are open".to_owned(),
            other => format!("{other:?}"),
        },
        other => printable(&other.to_string()),
    }
}
