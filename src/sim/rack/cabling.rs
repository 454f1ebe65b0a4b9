//! Which receptacle is cabled to which: a full mesh, from the first receptacle that may be used.

use super::super::models::{self, Model};
use super::super::state::{Cable, Inet, NodeState, Plug, RackState, SeenBy};
use super::RackError;
use super::network::Kept;
use crate::model::network_facts::ConfiguredLink;
use crate::network::{pair_index, rail_network};

/// Node names: the model's prefix, counted per prefix.
pub(super) fn names(models: &[&Model]) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut name = |m: &&Model| {
        seen.push(m.prefix);
        format!("{}-{}", m.prefix, seen.iter().filter(|p| **p == m.prefix).count())
    };
    models.iter().map(&mut name).collect()
}

/// The models by identifier.
pub(super) fn models(ids: &[String]) -> Result<Vec<&'static Model>, RackError> {
    if ids.is_empty() {
        return Err(RackError::Description("a rack needs at least one node".to_owned()));
    }
    let one = |id: &String| {
        models::find(id).ok_or_else(|| {
            let known: Vec<&str> = models::MODELS.iter().map(|m| m.id).collect();
            RackError::Description(format!("no Mac is called `{id}` here; known: {}", known.join(" ")))
        })
    };
    ids.iter().map(one).collect()
}

/// The largest rack that is cabled as a full mesh; a larger one is a ring.
pub(in crate::sim) const MESH: usize = 6;

/// A full mesh, or a ring: node i uses its receptacles in the order of its peers.
pub(super) fn cables(models: &[&Model], names: &[String]) -> Result<Vec<Cable>, RackError> {
    let mut next: Vec<u32> = models.iter().map(|m| m.first_usable_receptacle()).collect();
    let mut cables = Vec::new();
    let count = models.len();
    let joined = |a: usize, b: usize| count <= MESH || b - a == 1 || (a == 0 && b == count - 1);
    for a in 0..count {
        for b in (a + 1..count).filter(|b| joined(a, *b)) {
            let speed = if models[a].generation >= 5 && models[b].generation >= 5 { 80 } else { 40 };
            let mut plug = |n: usize| -> Result<Plug, RackError> {
                let receptacle = next[n];
                let last = u32::try_from(models[n].ports.len()).unwrap_or(0);
                if receptacle > last {
                    return Err(RackError::Description(format!(
                        "{} ({}) has not enough receptacles for a full mesh of {}",
                        names[n],
                        models[n].id,
                        models.len()
                    )));
                }
                next[n] += 1;
                Ok(Plug { node: names[n].clone(), receptacle })
            };
            cables.push(Cable { a: plug(a)?, b: plug(b)?, gbps: speed, dock: None, seen_by: SeenBy::Both });
        }
    }
    Ok(cables)
}

/// The link networks as `network apply --remove-bridge-entry` would leave them: receptacles out of the bridge, an address
/// at each end; and which links each node's daemon keeps.
pub(super) fn prepare(rack: &RackState, states: &mut [NodeState]) -> Kept {
    let mut kept = Kept::new();
    for state in states.iter_mut() {
        for interface in &mut state.interfaces {
            interface.members.clear();
        }
    }
    let Ok(pool) = "10.254.0.0/16".parse() else { return kept };
    let place = |node: &str| rack.nodes.iter().position(|n| n == node);
    let pairs = pair_index(0, rack.nodes.len());
    for cable in &rack.cables {
        let (Some(low), Some(high)) = (place(&cable.a.node), place(&cable.b.node)) else { continue };
        let Some(network) = rail_network(pool, pair_index(low, high), 0, pairs) else { continue };
        let hosts: Vec<_> = network.hosts().collect();
        let [one, other] = hosts.as_slice() else { continue };
        let ends = [(&cable.a, *one, &cable.b, *other), (&cable.b, *other, &cable.a, *one)];
        for (plug, address, far, peer_address) in ends {
            let Some(state) = states.iter_mut().find(|s| s.name == plug.node) else { continue };
            let Some(name) = state.receptacle(plug.receptacle).map(|r| r.interface.clone()) else { continue };
            if let Some(interface) = state.interface_mut(&name) {
                interface.inet.push(Inet { address, prefix: 30 });
                kept.entry(plug.node.clone()).or_default().push(ConfiguredLink {
                    interface: name,
                    ether: interface.mac.clone(),
                    address,
                    prefix: 30,
                    peer_address,
                    peer: far.node.clone(),
                });
            }
        }
    }
    for links in kept.values_mut() {
        links.sort_by(|a, b| a.interface.cmp(&b.interface));
    }
    kept
}
