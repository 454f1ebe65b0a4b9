//! The first process of a node that runs in namespaces of its own: launchd, as far as a node needs it.

use std::fs;
use std::io;

use tokio::sync::watch;

use super::kernel::{self, Mark};
use super::launchd::Launchd;
use super::processes;
use super::store::Node;

/// Its place on a node.
pub(super) const PATH: &str = "/sbin/launchd";

/// Variables of the kernel that make it behave as a Mac where the two differ: a node answers only for addresses of the
/// interface that was asked, forwards nothing, and keeps an interface's other addresses when its first one goes.
/// IPv6 is off: the link-local addresses that tools show are the simulator's.
const VARIABLES: &[(&str, &str)] = &[
    ("net/ipv4/conf/all/arp_ignore", "1"),
    ("net/ipv4/conf/all/arp_announce", "2"),
    ("net/ipv4/conf/all/promote_secondaries", "1"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

/// Boots the node and stays until the node is turned off, which kills every process of its namespaces.
pub(super) fn run(node: &Node) -> u8 {
    let booted = || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(boot(node))
    };
    match booted() {
        Ok(()) => 0,
        Err(error) => super::multicall::say(&format!("launchd: {error}"), 70),
    }
}

async fn boot(node: &Node) -> io::Result<()> {
    processes::forget(node)?;
    for (name, value) in VARIABLES {
        match kernel::set_variable(name, value) {
            // A kernel without IPv6 has nothing to turn off.
            Err(e) if e.kind() == io::ErrorKind::NotFound && name.contains("ipv6") => {}
            set => set?,
        }
    }
    kernel::start(&node.load_stored()?)?;
    let (_stop, stopped) = watch::channel(false);
    let launchd = Launchd::start(&node.dir, Some(node), stopped).await?;
    let mark = Mark::here().ok_or(io::ErrorKind::NotFound)?;
    let mut services = Vec::new();
    for argv in &mark.services {
        let Some((program, args)) = argv.split_first() else { continue };
        services.push(tokio::process::Command::new(program).args(args).spawn()?);
    }
    launchd.boot(node)?;
    fs::write(node.dir.join("state").join(format!("{}.up", node.name)), "")?;
    for mut service in services {
        let status = service.wait().await?;
        super::multicall::say(&format!("launchd: a service ended: {status}"), 0);
    }
    std::future::pending().await
}
