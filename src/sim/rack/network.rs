//! What of the link networks lies in a node's files: the network preferences, and what `network apply` leaves there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use plist::{Dictionary, Value};

use super::super::boot;
use super::super::fault::{Fault, FaultAt};
use super::super::state::NodeState;
use super::super::store::Node;
use super::faults::hits;
use crate::model::network_facts::{ConfiguredLink, EXO_JOB, LINKS_JOB, LinksConfig, NETWORK_DIR};
use crate::network::persist::{links_conf, links_job};
use crate::playbook::Templates;

/// Which links each node's daemon keeps; empty when the rack is not prepared.
pub(super) type Kept = BTreeMap<String, Vec<ConfiguredLink>>;

/// Faults of a node whose daemon would put right what they break.
const UNKEPT: &[Fault] = &[Fault::Bridge, Fault::NoAddress, Fault::SharedSubnet, Fault::NotPersistent];

/// Writes them.
pub(super) fn lay(node: &Node, state: &NodeState, kept: &Kept, faults: &[FaultAt], last: &str) -> io::Result<()> {
    let hit = |fault: Fault| hits(faults, fault, &node.name, last);
    let loops = faults.iter().any(|f| f.fault == Fault::BridgeLoop);
    let mut members = state.interface("bridge0").map(|b| b.members.clone()).unwrap_or_default();
    if hit(Fault::LatentBridge) {
        members = state.receptacles.iter().map(|r| r.interface.clone()).collect();
    }
    boot::write_preferences(node, "bridge0", &members)?;
    if let Some(links) = kept.get(&node.name).filter(|_| !loops && !UNKEPT.iter().any(|f| hit(*f))) {
        daemon(node, links)?;
    }
    if hit(Fault::ForeignDaemon) {
        let mut job = Dictionary::new();
        job.insert("Label".to_owned(), EXO_JOB.into());
        let program = node.rooted("/usr/bin/true").to_string_lossy().into_owned();
        job.insert("ProgramArguments".to_owned(), Value::Array(vec![program.into()]));
        job.insert("RunAtLoad".to_owned(), true.into());
        // FAILURES C8.
        job.insert("StartInterval".to_owned(), 1786.into());
        let mut bytes = Vec::new();
        Value::Dictionary(job).to_writer_xml(&mut bytes).map_err(io::Error::other)?;
        launch_daemon(node, EXO_JOB, &bytes)?;
    }
    Ok(())
}

/// The links daemon with what it keeps.
fn daemon(node: &Node, links: &[ConfiguredLink]) -> io::Result<()> {
    let scripts = Templates::load(None).and_then(|t| t.scripts()).map_err(io::Error::other)?;
    let config = LinksConfig { script: Some(scripts.links.sha256), links: links.to_vec() };
    let folder = node.rooted(NETWORK_DIR);
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(node.rooted("/opt/macluster/var/log"))?;
    fs::write(folder.join("links.sh"), scripts.links.text)?;
    fs::write(folder.join("links.conf"), links_conf(&config))?;
    launch_daemon(node, LINKS_JOB, &links_job(&node.root.to_string_lossy()).map_err(io::Error::other)?)
}

fn launch_daemon(node: &Node, label: &str, bytes: &[u8]) -> io::Result<()> {
    let path = node.rooted(&format!("/Library/LaunchDaemons/{label}.plist"));
    fs::write(&path, bytes)?;
    // launchd loads no file that others may change.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
}
