//! Every rank's environment and files, for every backend, derived from cables; checked against MLX itself.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use macluster::mesh::ranks::{RankError, RankPlan, Request, Topology, plan};
use macluster::mesh::{LinkGraph, LinkId, usable};
use macluster::model::facts::RdmaSwitch;
use macluster::model::{Backend, Over};
use serde_json::Value;

use crate::support::rack::{Rack, name};
use crate::support::runtime;

/// What is asked of the planner.
pub(crate) struct Wanted {
    pub(crate) backend: Backend,
    pub(crate) over: Over,
    pub(crate) jaccl_available: bool,
}

pub(crate) const AUTO: Wanted = Wanted { backend: Backend::Auto, over: Over::Links, jaccl_available: true };

pub(crate) fn make(rack: &Rack, wanted: &Wanted) -> Result<RankPlan, RankError> {
    let graph = LinkGraph::build(&rack.snapshot);
    let addresses = |id: &LinkId| usable::live_addresses(&graph.links[id], &rack.snapshot);
    plan(&Request {
        graph: &graph,
        inventory: &rack.inventory,
        snapshot: &rack.snapshot,
        backend: wanted.backend,
        over: wanted.over,
        jaccl_available: wanted.jaccl_available,
        addresses: &addresses,
        etc: &|_| "/opt/macluster/etc".to_owned(),
    })
}

/// The whole plan as text, one line per fact.
fn show(plan: &RankPlan) -> String {
    let mut out = format!("announced {:?}, mlx {}, {:?}\n", plan.backend, plan.mlx_backend, plan.topology);
    for note in &plan.notes {
        writeln!(out, "note: {note}").expect("a string");
    }
    for rank in &plan.ranks {
        writeln!(out, "rank {} on {}", rank.rank, rank.node).expect("a string");
        for (key, value) in &rank.env {
            writeln!(out, "  {key}={value}").expect("a string");
        }
        for (file, content) in &rank.files {
            writeln!(out, "  {file}:").expect("a string");
            for row in content.as_array().expect("rows") {
                writeln!(out, "    {row}").expect("a string");
            }
        }
    }
    out
}

/// Four studios, fully meshed, one of them with interfaces in no order.
pub(crate) fn crooked_mesh(count: u32) -> Rack {
    let mut rack = Rack::meshed(count);
    rack.rename("studio-2", &[(1, "en8"), (2, "en9"), (3, "en2"), (4, "en12")]);
    rack
}

/// Four studios in the ring 1 – 3 – 2 – 4 – 1.
pub(crate) fn crooked_ring() -> Rack {
    let mut rack = Rack::studios(4);
    rack.rename("studio-3", &[(2, "en6"), (3, "en3"), (4, "en11"), (5, "en4")]);
    rack.cable("studio-1", 2, "studio-3", 5);
    rack.cable("studio-3", 2, "studio-2", 6);
    rack.cable("studio-2", 3, "studio-4", 2);
    rack.cable("studio-4", 3, "studio-1", 3);
    rack
}

/// The same with two cables between each pair of neighbours.
pub(crate) fn two_rails() -> Rack {
    let mut rack = crooked_ring();
    rack.cable("studio-1", 4, "studio-3", 3);
    rack.cable("studio-3", 4, "studio-2", 5);
    rack.cable("studio-2", 4, "studio-4", 6);
    rack.cable("studio-4", 5, "studio-1", 5);
    rack
}

#[test]
fn jaccl_three() {
    insta::assert_snapshot!(show(&make(&crooked_mesh(3), &AUTO).expect("a plan")));
}

#[test]
fn jaccl_four() {
    let wanted = Wanted { backend: Backend::Jaccl, ..AUTO };
    insta::assert_snapshot!(show(&make(&crooked_mesh(4), &wanted).expect("a plan")));
}

#[test]
fn jaccl_ring_four() {
    insta::assert_snapshot!(show(&make(&crooked_ring(), &AUTO).expect("a plan")));
}

#[test]
fn jaccl_ring_two_rails() {
    let wanted = Wanted { backend: Backend::JacclRing, ..AUTO };
    insta::assert_snapshot!(show(&make(&two_rails(), &wanted).expect("a plan")));
}

#[test]
fn ring_over_links_four() {
    let wanted = Wanted { backend: Backend::Ring, ..AUTO };
    insta::assert_snapshot!(show(&make(&crooked_ring(), &wanted).expect("a plan")));
}

#[test]
fn ring_over_links_three_two_rails_where_the_runtime_has_no_jaccl() {
    let mut rack = Rack::studios(3);
    for (a, ra, b, rb) in [(1, 2, 2, 2), (2, 4, 3, 4), (1, 4, 3, 2)] {
        for k in 0..2 {
            rack.cable(&format!("studio-{a}"), ra + k, &format!("studio-{b}"), rb + k);
        }
    }
    insta::assert_snapshot!(show(&make(&rack, &Wanted { jaccl_available: false, ..AUTO }).expect("a plan")));
}

#[test]
fn ring_over_management_three() {
    let wanted = Wanted { backend: Backend::Ring, over: Over::Management, jaccl_available: false };
    insta::assert_snapshot!(show(&make(&Rack::studios(3), &wanted).expect("a plan")));
}

#[test]
fn one_node_alone_needs_no_mlx_environment() {
    let made = make(&Rack::studios(1), &AUTO).expect("a plan");
    assert_eq!((made.topology, made.mlx_backend, made.ranks.len()), (Topology::Single, "ring", 1));
    assert!(made.ranks[0].env.is_empty() && made.ranks[0].files.is_empty());
}

#[test]
fn ranks_follow_slots_then_the_file_and_rings_keep_the_first() {
    let mut rack = crooked_mesh(3);
    rack.inventory.nodes[0].slot = Some(9);
    rack.inventory.nodes[1].slot = None;
    let order = |backend| -> Vec<String> {
        let made = make(&rack, &Wanted { backend, ..AUTO }).expect("a plan");
        made.ranks.iter().map(|r| r.node.to_string()).collect()
    };
    assert_eq!(order(Backend::Jaccl), ["studio-3", "studio-1", "studio-2"]);
    assert_eq!(order(Backend::Ring)[0], "studio-3");
}

#[test]
fn every_downgrade_of_auto_is_told() {
    let mut rack = crooked_mesh(4);
    rack.rdma("studio-1", 2).state = "PORT_DOWN".to_owned();
    let made = make(&rack, &AUTO).expect("a ring is left");
    assert_eq!(made.backend, Backend::JacclRing);
    assert_eq!(made.notes.len(), 1);
    assert!(made.notes[0].contains("rdma_en3 on studio-1 in state PORT_DOWN"), "{:?}", made.notes);

    for node in ["studio-1", "studio-2", "studio-3", "studio-4"] {
        rack.facts(node).rdma_ports = Ok(vec![]);
    }
    let made = make(&rack, &AUTO).expect("TCP is left");
    assert_eq!((made.backend, made.topology, made.notes.len()), (Backend::Ring, Topology::Ring, 2));

    let error = make(&Rack::studios(3), &AUTO).expect_err("no cable at all");
    assert!(error.message.contains("no cable joins studio-1 and studio-2"), "{error}");
}

#[test]
fn jaccl_never_uses_what_rdma_must_not_use() {
    // Each spoils the cable studio-1 – studio-2 of a mesh of three in another way.
    type Spoil = fn(&mut Rack);
    let spoil: [(&str, Spoil); 6] = [
        ("which RDMA must not use", |r| {
            r.unplug("studio-1", 2);
            r.cable("studio-1", 1, "studio-2", 2);
        }),
        ("40 Gb/s", |r| r.receptacle("studio-2", 2).speed = Some("40 Gb/s".to_owned())),
        ("is seen by studio-1 only", |r| r.receptacle("studio-2", 2).attached.clear()),
        ("as GID 1 of rdma_en9 on studio-2", |r| {
            let gid = r.rdma("studio-2", 2).gids.remove(&1).expect("GID 1");
            r.rdma("studio-2", 2).gids.insert(2, gid);
        }),
        ("has no link network", |r| r.interface("studio-1", 2).inet.clear()),
        ("no RDMA device rdma_en3 on studio-1", |r| {
            r.facts("studio-1").rdma_ports.as_mut().expect("ports").retain(|p| p.device != "rdma_en3");
        }),
    ];
    for (reason, spoil) in spoil {
        let mut rack = crooked_mesh(3);
        spoil(&mut rack);
        let error = make(&rack, &Wanted { backend: Backend::Jaccl, ..AUTO }).expect_err(reason);
        assert!(error.message.contains(reason), "{reason}: {error}");
    }
}

#[test]
fn different_builds_get_no_rdma() {
    let mut rack = crooked_mesh(3);
    rack.facts("studio-3").os.as_mut().expect("macOS").build = "25F84".to_owned();
    let error = make(&rack, &Wanted { backend: Backend::Jaccl, ..AUTO }).expect_err("builds differ");
    assert!(error.message.contains("studio-3 26.5.1 (25F84)"), "{error}");
    let made = make(&rack, &AUTO).expect("TCP is left");
    assert_eq!((made.backend, made.notes.len()), (Backend::Ring, 2));
}

#[test]
fn thunderbolt_4_macs_get_no_rdma_even_if_their_switch_says_enabled() {
    let mut rack = Rack::of("Mac16,10", "Mac mini", 2, 3);
    rack.cable("studio-1", 2, "studio-2", 2);
    assert_eq!(rack.facts("studio-1").rdma_switch, Ok(RdmaSwitch::Enabled));
    let error = make(&rack, &Wanted { backend: Backend::Jaccl, ..AUTO }).expect_err("TB4");
    assert!(error.message.contains("Thunderbolt 4"), "{error}");
}

#[test]
fn what_mlx_cannot_parse_is_refused() {
    let mut rack = Rack::studios(2);
    rack.facts("studio-2").session.local_address = Some("fd00::2".parse().expect("an address"));
    let wanted = Wanted { backend: Backend::Ring, over: Over::Management, jaccl_available: true };
    let error = make(&rack, &wanted).expect_err("IPv6 only");
    assert!(error.message.contains("studio-2 (slot 2)") && error.message.contains("IPv4"), "{error}");
    // Over IPv6, on an interface that has an IPv4 address too.
    let interfaces = rack.facts("studio-2").interfaces.as_mut().expect("interfaces");
    interfaces[0].inet6.push("fd00::2".parse().expect("an address"));
    assert!(show(&make(&rack, &wanted).expect("a plan")).contains("192.0.2.12:7421"));
}

#[test]
fn ports_on_one_host_never_collide() {
    let mut rack = Rack::studios(2);
    for node in ["studio-1", "studio-2"] {
        rack.facts(node).session.local_address = Some("127.0.0.1".parse().expect("an address"));
    }
    let wanted = Wanted { backend: Backend::Ring, over: Over::Management, jaccl_available: false };
    assert!(make(&rack, &wanted).expect_err("equal ports").message.contains("127.0.0.1:7420"));
    rack.inventory.nodes[1].agent_port = 7421;
    let plan = make(&rack, &wanted).expect("above the highest agent port");
    let rows = serde_json::json!([["127.0.0.1:7422"], ["127.0.0.1:7423"]]);
    assert!(plan.ranks.iter().all(|r| r.files == [("hostfile.json".to_owned(), rows.clone())]));
    rack.inventory.nodes[1].agent_port = 7430;
    make(&rack, &wanted).expect("apart");
    rack.facts("studio-1").session.local_address = Some("192.0.2.11".parse().expect("an address"));
    assert!(make(&rack, &wanted).expect_err("loopback of another host").message.contains("studio-2"));
    rack.inventory.nodes[0].agent_port = 65535;
    assert!(make(&rack, &wanted).expect_err("no room").message.contains("65535"));
}

#[test]
fn a_silent_node_stops_the_plan() {
    let mut rack = crooked_mesh(3);
    rack.lose("studio-3");
    assert!(make(&rack, &AUTO).expect_err("silent").message.contains("studio-3 (slot 3) did not answer"));
}

/// The topology JACCL itself would choose, after `Config::is_valid_mesh`, `is_valid_ring` and `init` of MLX 0.32.4.
fn jaccl_chooses(matrix: &Value, prefer_ring: bool) -> Option<&'static str> {
    let count = |v: &Value| match v {
        Value::Null => 0,
        Value::String(_) => 1,
        Value::Array(a) => a.len(),
        other => panic!("JACCL refuses {other}"),
    };
    let rows: Vec<Vec<usize>> = matrix
        .as_array()
        .expect("rows")
        .iter()
        .map(|r| r.as_array().expect("a row").iter().map(count).collect())
        .collect();
    let n = rows.len();
    assert!(rows.iter().all(|r| r.len() == n), "JACCL refuses a matrix that is not square");
    let mesh = (0..n).all(|i| (0..n).all(|j| (i == j) == (rows[i][j] == 0)));
    let ring = (0..n).all(|i| rows[i][(i + 1) % n] == rows[0][1] && rows[i][(i + n - 1) % n] == rows[0][1]);
    match (prefer_ring, mesh, ring) {
        (true, _, true) => Some("ring"),
        (_, true, _) => Some("mesh"),
        (_, _, true) => Some("ring"),
        _ => None,
    }
}

#[test]
fn jaccl_itself_would_choose_the_announced_topology() {
    for (rack, backend) in [
        (crooked_mesh(2), Backend::Jaccl),
        (crooked_mesh(3), Backend::Jaccl),
        (crooked_mesh(4), Backend::Jaccl),
        (crooked_mesh(2), Backend::JacclRing),
        (crooked_mesh(4), Backend::JacclRing),
        (crooked_ring(), Backend::JacclRing),
        (two_rails(), Backend::JacclRing),
    ] {
        let made = make(&rack, &Wanted { backend, ..AUTO }).expect("a plan");
        let rank = &made.ranks[0];
        let chosen = jaccl_chooses(&rank.files[0].1, rank.env.contains_key("MLX_JACCL_RING"));
        assert_eq!(chosen, Some(if backend == Backend::Jaccl { "mesh" } else { "ring" }), "{}", show(&made));
    }
}

#[test]
fn the_kth_device_of_a_pair_is_the_same_cable_on_both_sides() {
    let mut rack = two_rails();
    let made = make(&rack, &Wanted { backend: Backend::JacclRing, ..AUTO }).expect("a plan");
    let matrix = &made.ranks[0].files[0].1;
    let graph = LinkGraph::build(&rack.snapshot);
    let n = made.ranks.len();
    for i in 0..n {
        let j = (i + 1) % n;
        for k in 0..2 {
            let end = |from: usize, to: usize| {
                let device = matrix[from][to][k].as_str().expect("a device").trim_start_matches("rdma_").to_owned();
                (made.ranks[from].node.clone(), device)
            };
            let (a, b) = (end(i, j), end(j, i));
            assert!(
                graph.links.values().any(|l| l.interface(&a.0) == Some(&a.1) && l.interface(&b.0) == Some(&b.1)),
                "{a:?} and {b:?} are not one cable"
            );
        }
    }
    // A pair with a rail too few brings all others down to one.
    rack.unplug("studio-2", 4);
    let made = make(&rack, &Wanted { backend: Backend::JacclRing, ..AUTO }).expect("a plan");
    assert!(made.ranks[0].files[0].1[0][1].is_string(), "{}", show(&made));
}

/// A Python that has the pinned MLX: the bundle's, or the one named by `MACLUSTER_TEST_PYTHON` to save its making.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("MACLUSTER_TEST_PYTHON").map_or_else(|| runtime::python().to_owned(), PathBuf::from)
}

/// MLX joins over the very files of the plan: a permuted ring with two rails, every address a loopback one.
#[test]
#[cfg(target_os = "linux")]
fn mlx_joins_a_permuted_ring_of_two_rails_over_link_addresses() {
    let python = python();
    let mut rack = two_rails();
    // Linux answers on all of 127.0.0.0/8: real sockets on real, distinct link addresses, other ones in each run.
    let third = u8::try_from(std::process::id() % 250).expect("small");
    for (node, record) in &mut rack.snapshot.nodes {
        let facts = record.facts.as_mut().unwrap_or_else(|e| panic!("{node}: {e:?}"));
        for interface in facts.interfaces.as_mut().expect("interfaces").iter_mut().filter(|i| i.name != "en0") {
            for inet in &mut interface.inet {
                let [.., last] = inet.address.octets();
                inet.address = Ipv4Addr::new(127, 77, third, last);
            }
        }
    }
    let wanted = Wanted { backend: Backend::Ring, over: Over::Links, jaccl_available: false };
    let made = make(&rack, &wanted).expect("a plan");
    assert_eq!(made.ranks[0].files[0].1[0].as_array().expect("a row").len(), 2, "two rails");
    // A peer that never comes would be waited for without end: the alarm ends the process.
    let script = "import signal; signal.alarm(60)\n\
                  import mlx.core as mx\n\
                  g = mx.distributed.init(strict=True, backend='ring')\n\
                  print(g.rank(), g.size(), mx.distributed.all_sum(mx.array([2 ** g.rank()])).item())";
    let dir = tempfile::tempdir().expect("a folder");
    let children: Vec<_> = made
        .ranks
        .iter()
        .map(|rank| {
            let etc = dir.path().join(rank.node.as_str());
            std::fs::create_dir(&etc).expect("a folder");
            for (file, content) in &rank.files {
                std::fs::write(etc.join(file), content.to_string()).expect("written");
            }
            let relocate = |v: &String| v.replace("/opt/macluster/etc", &etc.to_string_lossy());
            Command::new(&python)
                .args(["-c", script])
                .env_clear()
                .envs(rank.env.iter().map(|(k, v)| (k, relocate(v))))
                .current_dir(Path::new("/"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("Python runs")
        })
        .collect();
    for (rank, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(said, format!("{rank} 4 15"), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(made.ranks[1].node, name("studio-3"), "the ring follows the cables, not the names");
}
