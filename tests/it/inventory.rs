//! The inventory: what is accepted, and the exact words for what is not.

use std::path::{Path, PathBuf};

use macluster::exit::Failure;
use macluster::model::{Backend, Over, Parallel};
use macluster::parse::inventory::{self, starter};
use proptest::prelude::*;

use crate::support::macluster;

const FULL: &str = "\
rack: loft-rack
ssh: { user: tess, port: 2200, identity: /keys/id_ed25519, known_hosts: /keys/known_hosts, jump: op@gate:22, use_config: false }
nodes:
  - { name: m-1, host: 192.0.2.21, slot: 4 }
  - name: m-2
    host: m2.example.net
    slot: 2
    port: 2201
    user: uma
    identity: /keys/other
    agent_port: 7430
    root: /srv/m2/
network: { pool: 10.250.16.0/20 }
agent: { port: 7421 }
runtime:
  model: /models/tiny/
  backend: jaccl-ring
  over: links
  parallel: pipeline
  python: /opt/py/bin/python3
  api: { listen: 127.0.0.1:9000 }
  trust_remote_code: true
paths: { root: /srv/rack/, install: /opt/mc }
";

fn read(text: &str) -> Result<macluster::model::Inventory, String> {
    inventory::read(text, Some(Path::new("macluster.yaml"))).map_err(|e| {
        let failure = Failure::from(e);
        assert_eq!(failure.exit.code(), 3);
        let hints = failure.hints.iter().map(|h| format!("\nhint: {h}"));
        format!("{}{}", failure.message, hints.collect::<String>())
    })
}

#[test]
fn every_key_is_read() {
    let inventory = read(FULL).expect("valid");
    assert_eq!(inventory.rack, "loft-rack");
    assert_eq!(inventory.text, FULL);
    assert_eq!(inventory.source.as_deref(), Some(Path::new("macluster.yaml")));
    let ssh = &inventory.ssh;
    assert_eq!((ssh.user.as_deref(), ssh.port, ssh.use_config), (Some("tess"), Some(2200), false));
    assert_eq!(ssh.identity.as_deref(), Some(Path::new("/keys/id_ed25519")));
    assert_eq!(ssh.known_hosts.as_deref(), Some(Path::new("/keys/known_hosts")));
    assert_eq!(ssh.jump.as_deref(), Some("op@gate:22"));
    let [one, two] = inventory.nodes.as_slice() else { panic!("two nodes") };
    assert_eq!((one.name.as_str(), one.host.as_str(), one.slot, one.agent_port), ("m-1", "192.0.2.21", Some(4), 7421));
    assert_eq!((one.port, &one.user, &one.identity, &one.root), (None, &None, &None, &None));
    assert_eq!((two.port, two.user.as_deref(), two.agent_port), (Some(2201), Some("uma"), 7430));
    assert_eq!(two.identity.as_deref(), Some(Path::new("/keys/other")));
    assert_eq!(two.root.as_deref(), Some("/srv/m2"));
    assert_eq!(inventory.pool.to_string(), "10.250.16.0/20");
    let runtime = &inventory.runtime;
    assert_eq!((runtime.backend, runtime.over, runtime.trust_remote_code), (Backend::JacclRing, Over::Links, true));
    assert_eq!(runtime.parallel, Some(Parallel::Pipeline));
    assert_eq!(runtime.model.as_deref(), Some("/models/tiny"));
    assert_eq!(runtime.python.as_deref(), Some("/opt/py/bin/python3"));
    assert_eq!(runtime.api.to_string(), "127.0.0.1:9000");
    assert_eq!((inventory.paths.root.as_str(), inventory.paths.install.as_str()), ("/srv/rack", "/opt/mc"));
}

#[test]
fn only_nodes_are_needed() {
    let all_null = "rack: null\nssh: ~\nnetwork:\nagent:\nruntime: { api: , model: null }\npaths: {}\n";
    for rest in ["", all_null] {
        let inventory = read(&format!("nodes: [{{ name: a, host: h }}]\n{rest}")).expect("valid");
        assert_eq!(inventory.rack, "rack");
        assert_eq!(inventory.pool.to_string(), "10.254.0.0/16");
        assert_eq!(inventory.nodes[0].agent_port, 7420);
        assert_eq!((inventory.runtime.backend, inventory.runtime.over), (Backend::Auto, Over::Links));
        assert_eq!(inventory.runtime.api.to_string(), "127.0.0.1:8080");
        assert_eq!((inventory.runtime.model, inventory.runtime.python), (None, None));
        assert!(!inventory.runtime.trust_remote_code);
        assert_eq!(inventory.runtime.parallel, None);
        assert_eq!((inventory.paths.root.as_str(), inventory.paths.install.as_str()), ("/", "/opt/macluster"));
        let ssh = inventory.ssh;
        assert!(ssh.use_config);
        assert_eq!((ssh.user, ssh.port, ssh.identity, ssh.known_hosts, ssh.jump), (None, None, None, None, None));
    }
}

#[test]
fn editors_of_other_systems_are_tolerated() {
    let windows = format!("\u{feff}{}", FULL.replace('\n', "\r\n"));
    let mut inventory = read(&windows).expect("valid");
    let plain = read(FULL).expect("valid");
    inventory.text.clone_from(&plain.text);
    assert_eq!(inventory, plain);
    let error = read("\u{feff}rak: x\r\nnodes: [{ name: a, host: h, solt: 1 }]\r\n").expect_err("two typing errors");
    assert!(error.starts_with("macluster.yaml:1:1: unknown key `rak`;"), "{error}");
    assert!(error.contains("\nmacluster.yaml:2:29: unknown key `solt` in `nodes`;"), "{error}");
}

#[test]
fn words_that_look_like_booleans_and_numbers_stay_names() {
    let inventory =
        read("nodes:\n  - { name: no, host: on, user: 007 }\n  - { name: 1_0, host: 1.2.3.4 }\n").expect("valid");
    let names: Vec<&str> = inventory.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!((names, inventory.nodes[0].user.as_deref()), (vec!["no", "1_0"], Some("007")));
}

#[test]
fn local_files_are_found_from_home_and_from_the_inventory() {
    let home = PathBuf::from(std::env::var_os("HOME").expect("HOME is set where tests run"));
    let text = "ssh: { identity: ~/.ssh/key, known_hosts: keys/known }\nnodes: [{ name: a, host: h, identity: id }]\n";
    let inventory = inventory::read(text, Some(Path::new("racks/one.yaml"))).expect("valid");
    assert_eq!(inventory.ssh.identity, Some(home.join(".ssh/key")));
    assert_eq!(inventory.ssh.known_hosts, Some(PathBuf::from("racks/keys/known")));
    assert_eq!(inventory.nodes[0].identity, Some(PathBuf::from("racks/id")));
}

#[test]
fn anchors_save_typing() {
    let text = "nodes:\n  - &one { name: a, host: h1, user: u }\n  - { <<: *one, name: b, host: h2 }\n";
    let inventory = read(text).expect("valid");
    assert_eq!(inventory.nodes[1].user.as_deref(), Some("u"));
}

const NODE_KEYS: &str = "`name`, `host`, `slot`, `port`, `user`, `identity`, `agent_port`, `root`";
const TOP_KEYS: &str = "`rack`, `ssh`, `nodes`, `network`, `agent`, `runtime`, `paths`";

/// A text and the whole message with hints.
#[track_caller]
fn refused(text: &str, expected: &str) {
    let message = read(text).expect_err(text);
    let expected = expected.replace("{NODE_KEYS}", NODE_KEYS).replace("{TOP_KEYS}", TOP_KEYS);
    assert_eq!(message.replace("macluster.yaml:", ""), expected, "{text}");
}

/// `rest` behind two good nodes: it begins in line 4.
#[track_caller]
fn refused_with_nodes(rest: &str, expected: &str) {
    refused(&format!("nodes:\n  - {{ name: a, host: h1 }}\n  - {{ name: b, host: h2 }}\n{rest}\n"), expected);
}

#[test]
fn unknown_and_repeated_keys() {
    refused_with_nodes(
        "runtime:\n  modle: /m",
        "5:3: unknown key `modle` in `runtime`; expected one of `model`, `backend`, `over`, `parallel`, `python`, `api`, \
         `trust_remote_code`, `nodes`\nhint: did you mean `model`?",
    );
    refused_with_nodes(
        "model: /m",
        "4:1: unknown key `model`; expected one of {TOP_KEYS}\nhint: `model` belongs in `runtime`",
    );
    refused_with_nodes(
        "ssh: { rack: x }",
        "4:8: unknown key `rack` in `ssh`; expected one of `user`, `port`, `identity`, `known_hosts`, `jump`, \
         `use_config`\nhint: `rack` stands at the top of the file, not in `ssh`",
    );
    refused_with_nodes("agent: { agent-port: 1 }", "4:10: unknown key `agent-port` in `agent`; expected one of `port`");
    refused_with_nodes(
        "Network: {}",
        "4:1: unknown key `Network`; expected one of {TOP_KEYS}\nhint: did you mean `network`?",
    );
    refused_with_nodes("zzz: 1", "4:1: unknown key `zzz`; expected one of {TOP_KEYS}");
    refused_with_nodes("? [a]\n: 1", "4:3: unknown key `a list`; expected one of {TOP_KEYS}");
    refused_with_nodes(
        "runtime: { api: { port: 1 } }",
        "4:19: unknown key `port` in `runtime.api`; expected one of `listen`\nhint: `port` belongs in `ssh`",
    );
    refused_with_nodes(
        "ssh: { user: a }\nssh: { user: b }",
        "5:1: the key `ssh` stands twice\nhint: it stands first in line 4; keep one of the two",
    );
    refused(
        "nodes:\n  - { name: a, host: h, user: u,\n      user: v }",
        "3:7: the key `user` stands twice in `nodes`\nhint: it stands first in line 2; keep one of the two",
    );
    refused(
        "nodes: [{ nme: a, host: h }]",
        "1:11: unknown key `nme` in `nodes`; expected one of {NODE_KEYS}\nhint: did you mean `name`?",
    );
    refused("\"a\\e[31m\\nb\": 1", "1:1: unknown key `a\\u{1b}[31m b`; expected one of {TOP_KEYS}");
}

#[test]
fn nodes_missing_or_of_another_shape() {
    let begin = "hint: macluster init --hosts HOST,HOST writes an inventory to begin with";
    for text in ["", "# nothing\n", "rack: x\n", "nodes:\n", "---\n"] {
        refused(
            text,
            &format!("1:1: `nodes` is missing: expected a list of nodes, each with `name` and `host`\n{begin}"),
        );
    }
    refused("nodes: []", "1:8: `nodes`: expected 1 to 1024 nodes, the list is empty");
    refused("nodes: 3", "1:8: `nodes`: expected a list of nodes, each with `name` and `host`, found the number 3");
    refused("- a\n", "1:1: expected a mapping with the keys {TOP_KEYS}, found a list");
    refused(
        "nodes: [a]",
        "1:9: `nodes`: expected each node as a mapping with the keys {NODE_KEYS}, found the text `a`",
    );
    refused("nodes: [~]", "1:9: a node without `name` and `host`");
    refused(
        "nodes:\n  - { name: a }\n",
        "2:5: a node without `host`\nhint: add `host:` and the host name, the address, or an alias of ~/.ssh/config",
    );
    refused("nodes:\n  - { host: h }\n", "2:5: a node without `name`\nhint: add `name:` and a short name");
    let many: String = (0..1025).fold("nodes:\n".to_owned(), |t, n| format!("{t}  - {{ name: n{n}, host: h{n} }}\n"));
    refused(&many, "2:3: `nodes`: expected 1 to 1024 nodes, there are 1025");
}

#[test]
fn nodes_that_collide() {
    refused(
        "nodes:\n  - { name: a, host: h1 }\n  - { name: a, host: h2 }\n",
        "3:13: two nodes are called `a`: names must be unique\nhint: the first stands in line 2",
    );
    refused(
        "nodes:\n  - { name: a, host: H1 }\n  - { name: b, host: h1 }\n",
        "3:22: `b` has the same host and port as `a`: one Mac is one node\nhint: `a` has it in line 2",
    );
    refused(
        "ssh: { port: 22 }\nnodes:\n  - { name: a, host: h1 }\n  - { name: b, host: h1, port: 22 }\n",
        "4:22: `b` has the same host and port as `a`: one Mac is one node\nhint: `a` has it in line 3",
    );
    refused(
        "nodes:\n  - { name: a, host: h1, slot: 3 }\n  - { name: b, host: h2, slot: 3 }\n",
        "3:32: slot 3 is taken by `a`: every node has a slot of its own\nhint: `a` says so in line 2",
    );
    refused(
        "nodes:\n  - { name: a, host: h, port: 1 }\n  - { name: b, host: h, port: 2, agent_port: 7420 }\n",
        "3:46: `b` and `a` share a host, so their agents cannot both have port 7420\n\
         hint: give each of them an `agent_port` of its own",
    );
    let apart = "nodes:\n  - { name: a, host: h, port: 1 }\n  - { name: b, host: h, port: 2, agent_port: 7421 }\n";
    assert_eq!(read(apart).expect("ports differ").nodes[1].agent_port, 7421);
}

#[test]
fn values_of_nodes() {
    let node = |rest: &str| format!("nodes:\n  - {{ name: a, host: h, {rest} }}\n");
    refused(&node("slot: 0"), "2:31: `slot` of a node: expected a whole number from 1 to 9999, found the number 0");
    refused(&node("slot: one"), "2:31: `slot` of a node: expected a whole number from 1 to 9999, found the text `one`");
    refused(
        &node("port: 65536"),
        "2:31: `port` of a node: expected a whole number from 1 to 65535, found the number 65536",
    );
    refused(
        &node("agent_port: -1"),
        "2:37: `agent_port` of a node: expected a whole number from 1 to 65535, found the number -1",
    );
    refused(
        &node("root: srv"),
        "2:31: `root` of a node: expected an absolute path on the nodes, found `srv`\n\
         hint: write the path from `/`, the same on every node",
    );
    refused(
        &node("user: 7"),
        "2:31: `user` of a node: expected a login name, found the number 7\nhint: put the value in quotes",
    );
    refused(&node("user: [x]"), "2:31: `user` of a node: expected a login name, found a list");
    refused(&node("user: -x"), "2:31: `user` of a node: `-x` is no login name");
    refused(
        &node("identity: ~bob/key"),
        "2:35: `identity` of a node: `~name` is not expanded\nhint: write `~/…` or the absolute path",
    );
    let named = |name: &str| format!("nodes: [{{ name: {name}, host: h }}]");
    let usable = "is not a usable name: use 1 to 63 of a-z, 0-9, `-`, `.` and `_`, beginning with a letter or digit";
    refused(&named("Studio 1"), &format!("1:17: `name` of a node: `Studio 1` {usable}\nhint: `studio-1` would do"));
    refused(&named("../x"), &format!("1:17: `name` of a node: `../x` {usable}"));
    let hosted = |host: &str| format!("nodes: [{{ name: a, host: \"{host}\" }}]");
    let host = "1:26: `host` of a node:";
    refused(
        &hosted("bob@h"),
        &format!("{host} expected a host name or address without a user name\nhint: write `host: h` and `user: bob`"),
    );
    refused(
        &hosted("h:22"),
        &format!("{host} expected a host name or address without a port\nhint: write `host: h` and `port: 22`"),
    );
    refused(
        &hosted("-oProxyCommand=x"),
        &format!("{host} `-oProxyCommand=x` is no host name, address or alias of ~/.ssh/config"),
    );
    refused(&hosted(""), &format!("{host} `` is no host name, address or alias of ~/.ssh/config"));
    assert!(read(&hosted("fe80::1%en0")).is_ok());
}

#[test]
fn values_of_sections() {
    refused_with_nodes(
        "rack: a/b",
        "4:7: `rack`: `a/b` is not a usable name: use 1 to 63 letters, digits, `-`, `.` and `_`, beginning with a letter or digit",
    );
    refused_with_nodes(
        "ssh: [x]",
        "4:6: `ssh`: expected a mapping with the keys `user`, `port`, `identity`, `known_hosts`, `jump`, `use_config`, found a list",
    );
    refused_with_nodes(
        "ssh: { use_config: yes }",
        "4:20: `ssh.use_config`: expected `true` or `false`, found the text `yes`",
    );
    refused_with_nodes(
        "ssh: { jump: 'a, b' }",
        "4:14: `ssh.jump`: expected `[user@]host[:port]`, several separated by commas, found `a, b`",
    );
    refused_with_nodes(
        "agent: { port: 0 }",
        "4:16: `agent.port`: expected a whole number from 1 to 65535, found the number 0",
    );
    refused_with_nodes(
        "agent: { port: 7.5 }",
        "4:16: `agent.port`: expected a whole number from 1 to 65535, found a number",
    );
    refused_with_nodes(
        "runtime: { backend: jacl }",
        "4:21: `runtime.backend`: expected one of `auto`, `jaccl`, `jaccl-ring`, `ring`, found the text `jacl`\n\
         hint: did you mean `jaccl`?",
    );
    refused_with_nodes(
        "runtime: { parallel: pipelin }",
        "4:22: `runtime.parallel`: expected one of `auto`, `tensor`, `pipeline`, found the text `pipelin`\n\
         hint: did you mean `pipeline`?",
    );
    refused_with_nodes(
        "runtime: { backend: jaccl, over: management }",
        "4:34: `runtime.over`: backend `jaccl` is RDMA over the cables: expected `links`, `management` is for `ring` \
         only\nhint: write `over: links`, or `backend: ring`",
    );
    refused_with_nodes(
        "runtime: { over: management, backend: jaccl-ring }",
        "4:18: `runtime.over`: backend `jaccl-ring` is RDMA over the cables: expected `links`, `management` is for \
         `ring` only\nhint: write `over: links`, or `backend: ring`",
    );
    refused_with_nodes(
        "runtime: { model: models/x }",
        "4:19: `runtime.model`: expected an absolute path on the nodes, found `models/x`\n\
         hint: write the path from `/`, the same on every node",
    );
    refused_with_nodes(
        "runtime: { python: ~/py }",
        "4:20: `runtime.python`: expected an absolute path on the nodes, found `~/py`\n\
         hint: the home folder differs between users and nodes: write the path from `/`",
    );
    refused_with_nodes("paths: { install: / }", "4:19: `paths.install`: `/` itself cannot be used");
    refused_with_nodes("paths: { root: /a/../b }", "4:16: `paths.root`: `/a/../b` must not contain `..`");
}

#[test]
fn the_api_stays_on_loopback() {
    let listen = |value: &str| format!("runtime: {{ api: {{ listen: \"{value}\" }} }}");
    refused_with_nodes(
        &listen("0.0.0.0:8080"),
        "4:27: `runtime.api.listen`: 0.0.0.0:8080 would open the model to everyone on that network: only a loopback \
         address is accepted as long as there are no API keys\n\
         hint: write `127.0.0.1:8080` and reach it with `macluster tunnel`",
    );
    let expected = "4:27: `runtime.api.listen`: expected a loopback address and a port such as `127.0.0.1:8080`";
    refused_with_nodes(
        &listen("localhost:80"),
        &format!("{expected}, found `localhost:80`\nhint: write `127.0.0.1:80`"),
    );
    refused_with_nodes(&listen("127.0.0.1"), &format!("{expected}, found `127.0.0.1`"));
    refused_with_nodes(&listen("127.0.0.1:0"), &format!("{expected}; port 0 is none"));
    for good in ["127.0.0.1:1", "127.9.9.9:65535", "[::1]:8080"] {
        let text = format!("nodes: [{{ name: a, host: h }}]\n{}\n", listen(good));
        assert_eq!(read(&text).expect(good).runtime.api.to_string(), good);
    }
    for bad in ["10.0.0.1:80", "[::]:80", "[::ffff:127.0.0.1]:80", "169.254.1.1:1"] {
        assert!(read(&format!("nodes: [{{ name: a, host: h }}]\n{}\n", listen(bad))).is_err(), "{bad}");
    }
}

#[test]
fn the_pool_holds_a_network_for_every_pair() {
    let pool = |nodes: usize, pool: &str| {
        let nodes = (0..nodes).fold("nodes:\n".to_owned(), |t, n| format!("{t}  - {{ name: n{n}, host: h{n} }}\n"));
        format!("network: {{ pool: {pool} }}\n{nodes}")
    };
    refused(
        &pool(4, "10.254.0.0/28"),
        "1:18: `network.pool`: 10.254.0.0/28 is too small: 4 nodes have up to 6 links, each needs a /30, it holds 4\n\
         hint: expected a /27 or larger",
    );
    refused(
        &pool(2, "10.254.0.0/31"),
        "1:18: `network.pool`: 10.254.0.0/31 is too small: 2 nodes have up to 1 links, each needs a /30, it holds 0\n\
         hint: expected a /30 or larger",
    );
    for (nodes, fits) in
        [(1, "10.0.0.0/32"), (2, "10.0.0.0/30"), (3, "10.0.0.0/28"), (4, "10.0.0.0/27"), (64, "10.0.0.0/19")]
    {
        assert!(read(&pool(nodes, fits)).is_ok(), "{nodes} {fits}");
    }
    let expected = "1:18: `network.pool`: expected an IPv4 network such as `10.254.0.0/16`";
    refused(
        &pool(2, "10.254.0.1/16"),
        &format!("{expected}; 10.254.0.1/16 is an address inside a network\nhint: the network is 10.254.0.0/16"),
    );
    refused(
        &pool(2, "10.254.0.0"),
        &format!("{expected}, found `10.254.0.0`\nhint: the prefix length is missing: `10.254.0.0/16`?"),
    );
    refused(&pool(2, "'fd00::/8'"), &format!("{expected}, found `fd00::/8`"));
    for none in ["127.0.0.0/8", "224.0.0.0/8", "0.0.0.0/0", "240.0.0.0/8"] {
        refused(
            &pool(2, none),
            &format!(
                "1:18: `network.pool`: {none} holds no addresses that an interface can have\n\
                 hint: use a private network, such as 10.254.0.0/16"
            ),
        );
    }
}

#[test]
fn every_problem_is_told_in_the_order_of_the_file() {
    refused(
        "runtime: { backend: x }\nnodes:\n  - { name: a, host: h, prt: 1 }\nagent: { port: x }\nracks: 1\n",
        "1:21: `runtime.backend`: expected one of `auto`, `jaccl`, `jaccl-ring`, `ring`, found the text `x`\n\
         3:25: unknown key `prt` in `nodes`; expected one of {NODE_KEYS}\n\
         4:16: `agent.port`: expected a whole number from 1 to 65535, found the text `x`\n\
         5:1: unknown key `racks`; expected one of {TOP_KEYS}\n\
         hint: line 3: did you mean `port`?\n\
         hint: line 5: did you mean `rack`?",
    );
    let nodes = (0..25).fold("nodes:\n".to_owned(), |t, n| format!("{t}  - {{ name: n{n}, host: h{n}, slot: 0 }}\n"));
    let message = read(&nodes).expect_err("25 problems");
    assert_eq!(message.lines().count(), 21);
    assert!(message.ends_with("\nmacluster.yaml: and 5 more"), "{message}");
}

#[test]
fn texts_that_are_no_yaml() {
    let yaml = "this is not valid YAML:";
    refused("nodes: [", &format!("1:8: {yaml} unclosed bracket '['"));
    refused("nodes:\n\t- x", &format!("2:2: {yaml} tabs disallowed within this context (block indentation)"));
    refused("a: b: c", &format!("1:5: {yaml} mapping values are not allowed in this context"));
    refused("nodes: !exec x", &format!("1:14: {yaml} unsupported tag `!exec`"));
    for bad in ["--- a\n--- b", "nodes: &x [*x]", "a: *nowhere", "\0", "%YAML 9", "\u{85}: [", "- - - ? :"] {
        let message = read(bad).expect_err(bad);
        assert!(message.starts_with("macluster.yaml:"), "{bad:?}: {message}");
    }
    let deep = format!("nodes: {}", "[".repeat(5000));
    assert!(read(&deep).is_err());
    let deep = (0..5000).fold(String::new(), |text, n| format!("{text}{}- \n", " ".repeat(n % 100)));
    assert!(read(&deep).is_err());
    let bomb = (1..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
        format!("{text}a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "))
    });
    let began = std::time::Instant::now();
    assert!(read(&bomb).is_err());
    assert!(began.elapsed().as_secs() < 20, "aliases are bounded");
}

#[test]
fn an_inventory_from_a_snapshot_has_no_file_name() {
    let error = inventory::read("x: 1\nnodes: []", None).expect_err("two problems");
    assert!(error.to_string().starts_with("inventory:1:1: unknown key `x`;"), "{error}");
    assert_eq!(error.problems.len(), 2);
}

#[test]
fn the_starter_is_read_back_and_its_comments_are_the_defaults() {
    let hosts = ["studio-1.local", "10.0.0.12", "studio-1.lan"].map(str::to_owned);
    for user in [None, Some("tess")] {
        let text = starter("loft-rack", &hosts, user);
        let as_written = read(&text).expect("the starter is valid");
        let names: Vec<&str> = as_written.nodes.iter().map(|n| n.name.as_str()).collect();
        assert_eq!((as_written.rack.as_str(), names), ("loft-rack", vec!["studio-1", "node-2", "studio-1-2"]));
        assert_eq!(as_written.nodes.iter().map(|n| n.slot).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
        assert_eq!(as_written.ssh.user.as_deref(), user);

        // Every optional key stands there: taking out `# ` before each must change nothing but the examples.
        let key = |line: &str| {
            let body = line.trim_start_matches([' ', '#']);
            body.split_once(':').is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        };
        let uncommented: String = text
            .lines()
            .map(|line| if line.contains("# ") && key(line) { line.replacen("# ", "", 1) } else { line.to_owned() } + "\n")
            .collect();
        let mut all = read(&uncommented).unwrap_or_else(|e| panic!("{e}\n{uncommented}"));
        assert_eq!(all.ssh.user.as_deref(), user.or(Some("admin")));
        assert_eq!((all.ssh.port, all.ssh.identity.is_some(), all.ssh.known_hosts.is_some()), (Some(22), true, true));
        all.ssh = as_written.ssh.clone();
        all.text.clone_from(&as_written.text);
        assert_eq!(all, as_written);
        for key in [
            "jump",
            "use_config",
            "pool",
            "model",
            "backend",
            "over",
            "parallel",
            "python",
            "api",
            "trust_remote_code",
            "root",
            "install",
        ] {
            assert!(text.contains(&format!("# {key}: ")) || text.contains(&format!("#   {key}: ")), "{key}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 120), "lines fit");
    }
}

#[test]
fn the_inventory_is_found_upwards_and_named_as_it_was_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = dir.path().join("a/b");
    std::fs::create_dir_all(&below).expect("folders");
    let none = macluster(&below, &["network", "plan"]).expect(3);
    assert!(none.stderr.starts_with("error: no macluster.yaml in "), "{}", none.stderr);
    assert!(none.stderr.ends_with("hint: macluster init --hosts HOST,HOST writes one; -f FILE names another\n"));
    std::fs::write(dir.path().join("macluster.yaml"), "nodes: x\n").expect("written");
    let shown = |place: &str| {
        format!(
            "error: {place}:1:8: `nodes`: expected a list of nodes, each with `name` and `host`, found the text `x`\n"
        )
    };
    assert_eq!(macluster(dir.path(), &["network", "plan"]).expect(3).stderr, shown("macluster.yaml"));
    assert_eq!(macluster(&below, &["network", "plan"]).expect(3).stderr, shown("../../macluster.yaml"));
    let named = macluster(&below, &["network", "plan", "-f", "../../macluster.yaml"]).expect(3);
    assert_eq!((named.stderr, named.stdout.as_str()), (shown("../../macluster.yaml"), ""));
}

#[test]
fn files_that_cannot_be_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let load = |file: &str| {
        let failure = inventory::load(Some(&dir.path().join(file))).expect_err(file);
        assert_eq!(failure.exit.code(), 3);
        let message = failure.message.replace(&format!("{}/", dir.path().display()), "");
        (message, failure.hints)
    };
    let hint = |text: &str| vec![text.to_owned()];
    assert_eq!(
        load("nowhere.yaml"),
        (
            "nowhere.yaml: No such file or directory (os error 2)".to_owned(),
            hint("macluster init --hosts HOST,HOST writes one")
        )
    );
    assert_eq!(load(""), (": expected a file, found a folder".to_owned(), vec![]));
    std::fs::write(dir.path().join("latin.yaml"), b"rack: x\nno: \xe4h\n").expect("written");
    assert_eq!(
        load("latin.yaml"),
        ("latin.yaml:2:5: expected UTF-8 text, found other bytes".to_owned(), hint("save the file as UTF-8"))
    );
    std::fs::write(dir.path().join("big.yaml"), vec![b'#'; 1024 * 1024 + 1]).expect("written");
    assert_eq!(load("big.yaml").0, "big.yaml: this is no inventory: expected at most 1048576 bytes");
    std::fs::write(dir.path().join("bad.yaml"), "nodes: []").expect("written");
    assert_eq!(load("bad.yaml").0, "bad.yaml:1:8: `nodes`: expected 1 to 1024 nodes, the list is empty");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_an_inventory_or_an_error_with_a_place(text in "\\PC*") {
        check_total(&text);
    }

    #[test]
    fn any_yaml_like_text_is_an_inventory_or_an_error_with_a_place(
        words in proptest::collection::vec("(nodes|name|host|- |: |\\{|\\}|\\[|\\]|, |\n|\n  |[a-z0-9.\"'&*!#~/]{0,4})", 0..60)
    ) {
        check_total(&words.concat());
    }

    #[test]
    fn a_damaged_inventory_never_panics(at in 0..FULL.len(), len in 0..20_usize, put in "\\PC{0,6}") {
        let start = FULL.floor_char_boundary(at);
        let end = FULL.floor_char_boundary((start + len).min(FULL.len()));
        check_total(&format!("{}{put}{}", &FULL[..start], &FULL[end..]));
    }
}

fn check_total(text: &str) {
    match inventory::read(text, None) {
        Ok(inventory) => assert!(!inventory.nodes.is_empty()),
        Err(error) => {
            let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() as u64;
            assert!(!error.problems.is_empty());
            for problem in error.problems {
                assert!((1..=lines + 1).contains(&problem.at.line), "{problem:?} in {text:?}");
                assert!(problem.at.column >= 1 && !problem.message.contains('\n'), "{problem:?}");
            }
        }
    }
}
