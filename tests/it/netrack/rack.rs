//! A rack of nodes in Linux namespaces: for each its own network, files and processes, a real cable (veth) where the
//! simulated one is, and a real OpenSSH server. A further network namespace is the operator's: `macluster` runs there.
//!
//! Nothing has a name outside: network namespaces are held open by this process, everything else belongs to a node's
//! first process, which the kernel ends with the thread that made the rack. So nothing stays behind, however a test ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use macluster::sim::state::{Kind, NodeState, RackState};
use macluster::sim::store::{Node, read_json};
use macluster::sim::{Builder, LaidOut, Rack};

use super::furnish::{PROGRAM, furnish, write_inventory};
use super::namespace::Namespace;
use super::witness::until;
use crate::support::{Ran, binary, runtime};

/// The operator's address in the management network, which is also the nodes' router.
const OPERATOR: &str = "192.168.40.1/24";
/// How long anything of the rack's own may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A running rack.
pub struct NetRack {
    /// Its folder: inventory, states, journal.
    pub dir: PathBuf,
    nodes: Vec<NetNode>,
    operator: Namespace,
    /// Folder of a Python that the nodes have.
    python: Option<PathBuf>,
    _folder: Option<tempfile::TempDir>,
}

/// A node of it.
struct NetNode {
    node: Node,
    network: Namespace,
    /// The parent of the node's first process; ends it when it ends itself.
    keeper: Option<Child>,
}

impl NetRack {
    /// So many stock Mac Studios, fully cabled; `spoil` changes their states before they boot.
    pub fn start(count: usize, spoil: impl Fn(&mut NodeState)) -> NetRack {
        Self::raise(Rack::builder().nodes(count), spoil, None)
    }

    /// The same, with Python (the nodes see its folder, read only, at its own path) and a model, for real engines.
    pub fn with_runtime(count: usize) -> NetRack {
        let python = runtime::interpreter();
        let prefix = python.ancestors().nth(2).expect("PREFIX/bin/python").to_owned();
        let builder = Rack::builder().nodes(count).python(python.clone()).model(runtime::tiny_sixths().to_owned());
        let rack = Self::raise(builder, |_| (), Some(prefix));
        let inventory = rack.dir.join("macluster.yaml");
        let mut text = fs::read_to_string(&inventory).expect("an inventory");
        let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        let _ = writeln!(
            text,
            "runtime:\n  model: /opt/macluster/models/{}\n  python: /opt/python/bin/{}\n  backend: ring\n  over: links",
            name(runtime::tiny_sixths()),
            name(&python)
        );
        fs::write(&inventory, text).expect("written");
        rack
    }

    fn raise(builder: Builder, spoil: impl Fn(&mut NodeState), python: Option<PathBuf>) -> NetRack {
        let laid: LaidOut = builder.programs(PROGRAM).lay_out().expect("a folder");
        let count = laid.nodes.len();
        let mut nodes = Vec::new();
        for (node, _) in &laid.nodes {
            node.update(&spoil).expect("a state");
            furnish(node, &laid.client);
            nodes.push(NetNode { node: node.clone(), network: Namespace::new(), keeper: None });
        }
        let operator = Namespace::new();
        let mut rack = NetRack { dir: laid.dir.clone(), nodes, operator, python, _folder: laid.temporary };
        rack.lay_cables();
        write_inventory(&rack.dir, &laid.nodes);
        for number in 1..=count {
            rack.boot(number);
        }
        for number in 1..=count {
            rack.until_up(number);
        }
        for number in 1..=count {
            // The kernel tells a new carrier with a delay.
            let links = || rack.in_network(number, "ip", &["link", "show", "type", "veth"]).expect(0).stdout;
            until("every cable has carrier", || !links().contains("NO-CARRIER"));
        }
        rack
    }

    /// One veth pair for each cable, and one from each node's Ethernet port to the operator's switch.
    fn lay_cables(&self) {
        let states: BTreeMap<String, NodeState> =
            self.nodes.iter().map(|n| (n.node.name.clone(), n.node.load().expect("a state"))).collect();
        let network = |name: &str| self.nodes.iter().find(|n| n.node.name == name).map(|n| n.network.path());
        let mac = |state: &NodeState, name: &str| {
            state.interface(name).and_then(|i| i.mac.clone()).map(|m| format!("address {m}")).unwrap_or_default()
        };
        let mut script = format!("link add management type bridge\naddress add {OPERATOR} dev management\n");
        let _ = writeln!(script, "link set management up\nlink set lo up");
        for (n, node) in self.nodes.iter().enumerate() {
            let state = &states[&node.node.name];
            let port = state.interfaces.iter().find(|i| i.kind == Kind::Ethernet).expect("a port");
            let _ = writeln!(
                script,
                "link add port{n} type veth peer name {} {} netns {}\nlink set port{n} master management up",
                port.name,
                mac(state, &port.name),
                node.network.path()
            );
        }
        self.operator.ip(&script);
        let rack: RackState = read_json(&self.dir.join("rack.json")).expect("a rack");
        for cable in &rack.cables {
            let (a, b) = (&states[&cable.a.node], &states[&cable.b.node]);
            let interface = |s: &NodeState, id| s.receptacle(id).expect("a receptacle").interface.clone();
            let (from, to) = (interface(a, cable.a.receptacle), interface(b, cable.b.receptacle));
            let far = network(&cable.b.node).expect("a node");
            let here = self.nodes.iter().find(|n| n.node.name == cable.a.node).expect("a node");
            here.network.ip(&format!(
                "link add {from} {} type veth peer name {to} {} netns {far}\n",
                mac(a, &from),
                mac(b, &to)
            ));
        }
    }

    /// Starts a node: its first process is its launchd, which brings up the interfaces, sshd and the daemons.
    fn boot(&mut self, number: usize) {
        let up = self.state_file(number, "up");
        let _ = fs::remove_file(&up);
        let python = self.python.clone();
        let NetNode { node, network, keeper } = &mut self.nodes[number - 1];
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.join(format!("{}.log", node.name)));
        let log = log.expect("a log");
        let child = network.boot(node, &self.dir, python.as_deref(), log);
        *keeper = Some(child);
    }

    fn state_file(&self, number: usize, extension: &str) -> PathBuf {
        self.dir.join("state").join(format!("{}.{extension}", self.nodes[number - 1].node.name))
    }

    fn until_up(&mut self, number: usize) {
        let up = self.state_file(number, "up");
        let name = self.nodes[number - 1].node.name.clone();
        let sshd = self.dir.join(format!("{name}.log"));
        let text = || fs::read_to_string(&sshd).unwrap_or_default();
        let begin = Instant::now();
        while !up.exists() || !text().rsplit("boot\n").next().unwrap_or_default().contains("Server listening") {
            let ended = self.nodes[number - 1].keeper.as_mut().and_then(|k| k.try_wait().expect("a child"));
            assert!(ended.is_none() && begin.elapsed() < LIMIT, "{name} does not boot: {ended:?}\n{}", text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Turns a node off: every process of it ends at once.
    fn power_off(&mut self, number: usize) {
        if let Some(mut keeper) = self.nodes[number - 1].keeper.take() {
            // Its child, the node's first process, goes with it, and with that one everything in its namespaces.
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }

    /// Restarts a node as a power failure does; back when it takes connections again.
    pub fn reboot(&mut self, number: usize) {
        self.power_off(number);
        macluster::sim::boot::restart(&self.nodes[number - 1].node).expect("a state");
        self.boot(number);
        self.until_up(number);
    }

    /// One of the host's programs at the operator's, in the rack's folder, to be finished by the caller.
    pub fn at_desk(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.operator.command(program);
        command.current_dir(&self.dir);
        command
    }

    /// `macluster` at the operator's, to be finished by the caller.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.at_desk(binary());
        command.args(args).env("HOME", &self.dir).env("NO_COLOR", "1").env("COLUMNS", "100");
        command.env_remove("SSH_AUTH_SOCK");
        command
    }

    /// Runs `macluster` at the operator's.
    pub fn macluster(&self, args: &[&str]) -> Ran {
        ran(self.command(args))
    }

    /// Starts `macluster` at the operator's and lets it come to the first command whose line in the journal contains
    /// `text`; that command waits then, and `meanwhile` decides what happens before it goes on.
    #[track_caller]
    pub fn held<T>(&mut self, args: &[&str], text: &str, meanwhile: impl FnOnce(&mut Self, Child) -> T) -> T {
        let hold = self.dir.join("hold");
        let seen = fs::read_to_string(self.dir.join("commands.log")).unwrap_or_default().len();
        fs::write(&hold, text).expect("written");
        let mut command = self.command(args);
        let log = fs::File::create(self.dir.join("held.out")).expect("a log");
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let mut child = command.spawn().expect("macluster runs");
        let begin = Instant::now();
        while !fs::read_to_string(self.dir.join("commands.log")).is_ok_and(|t| t[seen..].contains(text)) {
            let ended = child.try_wait().expect("a child");
            let said = self.said();
            assert!(ended.is_none() && begin.elapsed() < LIMIT, "never came to `{text}`: {ended:?}\n{said}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let done = meanwhile(self, child);
        let _ = fs::remove_file(&hold);
        done
    }

    /// What the last `macluster` of [`NetRack::held`] said.
    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.join("held.out")).unwrap_or_default()
    }

    /// Runs one of the host's programs as a stranger at the operator's switch would.
    pub fn as_stranger(&self, program: &str, args: &[&str]) -> Ran {
        let mut command = self.operator.command(program);
        command.args(args);
        ran(command)
    }

    /// Plugs a node's management cable in or out, at the switch.
    pub fn management(&self, number: usize, plugged: bool) {
        let state = if plugged { "up" } else { "down" };
        self.operator.ip(&format!("link set port{} {state}\n", number - 1));
    }

    /// Runs a command line on a node with the real OpenSSH client.
    pub fn ssh(&self, number: usize, line: &str) -> Ran {
        let mut command = self.operator.command("ssh");
        command.args(["-F", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "IdentitiesOnly=yes"]);
        command.arg("-o").arg(format!("UserKnownHostsFile={}", self.dir.join("known_hosts").display()));
        command.arg("-i").arg(self.dir.join("id_ed25519"));
        command.arg(format!("admin@{}", address(number))).arg(line).env_remove("SSH_AUTH_SOCK");
        ran(command)
    }

    /// A node's `/` as the host sees it.
    pub fn root(&self, number: usize) -> &Path {
        &self.nodes[number - 1].node.root
    }

    /// Runs one of the host's programs in a node's network: what the kernel really has.
    pub fn in_network(&self, number: usize, program: &str, args: &[&str]) -> Ran {
        let mut command = self.nodes[number - 1].network.command(program);
        command.args(args);
        ran(command)
    }

    /// A node's network, by which other processes of this machine open it.
    pub fn network_path(&self, number: usize) -> String {
        self.nodes[number - 1].network.path()
    }

    /// Runs a script of the host's shell among a node's files and processes.
    pub fn inside(&self, number: usize, script: &str) {
        let keeper = self.nodes[number - 1].keeper.as_ref().expect("booted").id();
        // The keeper's child is the node's first process.
        let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).expect("a process");
        let first = children.split_whitespace().next().expect("a child");
        let mut command = Command::new("nsenter");
        command.args(["--target", first, "--mount", "--pid", "--root", "--wd", "--", "/.macsim/host/bin/sh", "-euc"]);
        let path = "PATH=/.macsim/host/usr/bin:/.macsim/host/bin:/.macsim/host/usr/sbin:/.macsim/host/sbin";
        command.arg(format!("{path}; export PATH; {script}"));
        ran(command).expect(0);
    }

    /// Numbers of the nodes.
    pub fn numbers(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.nodes.len()
    }
}

impl Drop for NetRack {
    fn drop(&mut self) {
        for number in self.numbers() {
            self.power_off(number);
        }
    }
}

/// A node's address in the management network.
pub fn address(number: usize) -> String {
    format!("192.168.40.{}", 20 + number)
}

/// Runs it to its end.
pub fn ran(mut command: Command) -> Ran {
    let output = command.output().expect("it runs");
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
