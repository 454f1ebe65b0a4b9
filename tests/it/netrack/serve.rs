//! Real engines on nodes of their own: deployed, serving over the cables, closed to strangers, and gone again.

use std::time::{Duration, Instant};

use macluster::agent::certify;
use serde_json::{Value, json};

use super::rack::{NetRack, address};
use super::ready;
use super::witness::Seen;
use crate::support::runtime;

/// For a group to serve again, on two cores.
const AGAIN: Duration = Duration::from_secs(180);

/// Where rank 0 serves.
const URL: &str = "http://127.0.0.1:8080/v1/chat/completions";

/// A rack whose links are up and whose runtime is not there yet.
pub fn rack(count: usize) -> NetRack {
    let rack = NetRack::with_runtime(count);
    rack.macluster(&["network", "apply", "--yes"]).expect(0);
    rack
}

/// Deploys the bundle of the tests.
pub fn deploy(rack: &NetRack) -> crate::support::Ran {
    rack.macluster(&["deploy", "--yes", "--bundle", runtime::bundle().to_str().expect("UTF-8")])
}

/// What `macluster status` says: exit status and nodes.
pub fn status(rack: &NetRack) -> (i32, Vec<Value>) {
    let ran = rack.macluster(&["status", "-o", "json"]);
    let nodes = if ran.stdout.starts_with('{') { ran.json()["nodes"].as_array().cloned() } else { None };
    (ran.status, nodes.unwrap_or_default())
}

/// Waits until all ranks serve in an epoch after this one; gives their status.
#[track_caller]
pub fn serving_after(rack: &NetRack, epoch: u64) -> Vec<Value> {
    let started = Instant::now();
    loop {
        let (code, nodes) = status(rack);
        if code == 0 && nodes.iter().all(|n| n["epoch"].as_u64().is_some_and(|e| e > epoch)) {
            return nodes;
        }
        assert!(started.elapsed() < AGAIN, "not serving again: {nodes:#?}");
        // Each look costs the processors that the engines need.
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Asks on a node, from any thread.
pub struct Asker(std::path::PathBuf);

impl Asker {
    /// On this node.
    pub fn new(rack: &NetRack, number: usize) -> Self {
        Asker(rack.network_path(number).into())
    }

    /// One answer.
    pub fn ask(&self) -> Result<Value, String> {
        let mut command = std::process::Command::new("nsenter");
        command.arg(format!("--net={}", self.0.display())).arg("curl").stdin(std::process::Stdio::null());
        command.args(arguments());
        said(&super::rack::ran(command))
    }
}

fn arguments() -> Vec<String> {
    let body = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0});
    let words = ["-sS", "-m", "60", "-H", "content-type: application/json", "-d", &body.to_string(), URL];
    words.map(str::to_owned).into()
}

fn said(ran: &crate::support::Ran) -> Result<Value, String> {
    let value: Value = serde_json::from_str(&ran.stdout).map_err(|_| format!("{}{}", ran.stdout, ran.stderr))?;
    value["choices"][0]["message"]["content"].as_str().map(|_| value.clone()).ok_or_else(|| value.to_string())
}

/// One answer, asked for on rank 0's node.
pub fn answer(rack: &NetRack, number: usize) -> Result<Value, String> {
    Asker::new(rack, number).ask()
}

/// TCP ports that a node listens at, with their addresses.
fn listening(rack: &NetRack, number: usize) -> Vec<(String, u16)> {
    let text = rack.in_network(number, "ss", &["-Hltn"]).expect(0).stdout;
    let local = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    let split = |at: String| at.rsplit_once(':').map(|(a, p)| (a.to_owned(), p.parse().expect("a port")));
    text.lines().filter_map(local).filter_map(split).collect()
}

/// With a certificate of another authority, and with one that has expired as well, the agent's port breaks the handshake
/// off; with the rank's own it does not, or nothing here would mean anything.
fn strangers_certificates(rack: &NetRack, rank0: usize) {
    let text = std::fs::read_to_string(rack.root(rank0).join("opt/macluster/etc/agent.json")).expect("readable");
    let agents: Value = serde_json::from_str(&text).expect("JSON");
    let leader = agents["agents"][0]["address"].as_str().expect("an address");
    let dir = tempfile::tempdir().expect("a folder");
    let knock = |name: &str, certificate: &str, key: &str| {
        let files = [("pem", certificate), ("key", key)].map(|(kind, text)| {
            let path = dir.path().join(format!("{name}.{kind}"));
            std::fs::write(&path, text).expect("written");
            path.to_str().expect("UTF-8").to_owned()
        });
        let url = format!("https://{leader}/");
        rack.as_stranger("curl", &["-ksS", "-m", "10", "--cert", &files[0], "--key", &files[1], &url])
    };
    let now = jiff::Timestamp::now();
    let long_ago = now - certify::VALID - jiff::SignedDuration::from_hours(1);
    for (name, issued) in [("others", now), ("expired", long_ago)] {
        let theirs = certify::issue_at(now, &[now, issued]).expect("certificates").remove(1);
        let ran = knock(name, &theirs.certificate, &theirs.key);
        assert!(ran.status != 0 && ran.stdout.is_empty() && ran.stderr.contains("alert"), "{name}: {ran:?}");
    }
    let own = |file: &str| {
        let path = rack.root(rank0).join("opt/macluster/etc").join(file);
        std::fs::read_to_string(path).expect("readable")
    };
    let ran = knock("own", &own("agent.pem"), &own("agent.key"));
    // It is no rank's greeting that follows, so nothing is said; but nobody minds the certificate.
    assert!(ran.stdout.is_empty() && !ran.stderr.contains("alert"), "{ran:?}");
}

#[test]
fn a_rack_with_real_cables_is_deployed_closed_to_strangers_and_cleared_again() {
    if !ready("serve::a_rack_with_real_cables_is_deployed_closed_to_strangers_and_cleared_again") {
        return;
    }
    let rack = rack(3);
    let before: Vec<Seen> = rack.numbers().map(|n| Seen::of(&rack, n)).collect();
    let ran = deploy(&rack).expect(0);
    assert!(ran.stdout.contains("served by 3 ranks, backend ring"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("over the management network"), "{}", ran.stderr);
    let first = serving_after(&rack, 0);
    let rank0 = rack.numbers().find(|n| first[n - 1]["rank"] == 0).expect("a rank 0");
    answer(&rack, rank0).expect("an answer");

    // What listens: SSH, rank 0's agent at the management address, the API at loopback; the engines' ring sockets were
    // open only while they joined.
    for number in rack.numbers() {
        for (at, port) in listening(&rack, number) {
            let good = match port {
                22 => true,
                8080 => number == rank0 && at == "127.0.0.1",
                // The simulator's launchd.
                _ if at == "127.0.0.1" => true,
                _ => number == rank0 && at == address(number),
            };
            assert!(good, "studio-{number} listens at {at}:{port}");
        }
    }

    // A stranger on the LAN: the agent's port says nothing to it, no other port answers, and a connection that is aimed
    // at a link address through the LAN interface finds nothing either.
    let links: Vec<String> = rack
        .in_network(rank0, "ip", &["-json", "-4", "address", "show"])
        .expect(0)
        .json()
        .as_array()
        .expect("interfaces")
        .iter()
        .flat_map(|i| i["addr_info"].as_array().cloned().unwrap_or_default())
        .filter_map(|a| a["local"].as_str().filter(|l| l.starts_with("10.254.")).map(str::to_owned))
        .collect();
    assert_eq!(links.len(), 2, "two cables");
    for link in &links {
        let route = format!("{link}/32");
        rack.as_stranger("ip", &["route", "add", &route, "via", &address(rank0)]).expect(0);
    }
    let mut asked = 0;
    for target in links.iter().map(String::as_str).chain([address(rank0).as_str()]) {
        for (at, port) in listening(&rack, rank0) {
            if port == 22 {
                continue;
            }
            // Four words that could open a conversation: HTTP, TLS without a certificate, an agent's greeting, nothing.
            let url = format!("{target}:{port}");
            let http = rack.as_stranger("curl", &["-sS", "-m", "5", &format!("http://{url}/v1/models")]);
            assert_eq!(http.stdout, "", "{at}:{port} answers at {target}");
            assert_ne!(http.status, 0);
            let tls = rack.as_stranger("curl", &["-ksS", "-m", "5", &format!("https://{url}/")]);
            assert_eq!(tls.stdout, "", "{at}:{port} answers at {target}");
            assert_ne!(tls.status, 0);
            let hello = r#"{"protocol":1,"node":"studio-2","rank":1,"release":"x","launch":"y"}"#;
            let raw = format!("exec 3<>/dev/tcp/{target}/{port} && echo '{hello}' >&3 && timeout 5 head -c 100 <&3");
            let said = rack.as_stranger("bash", &["-c", &raw]).stdout;
            // At most an alert of TLS: seven bytes, the first of them 0x15.
            assert!(said.len() <= 16 && !said.contains('{'), "{at}:{port} says {said:?} at {target}");
            asked += 1;
        }
    }
    assert!(asked >= 6, "{asked}");
    strangers_certificates(&rack, rank0);
    answer(&rack, rank0).expect("an answer after all that");

    // The second launch, on two that are no neighbours in the inventory: their link network is the one that it was.
    let inventory = rack.dir.join("macluster.yaml");
    let text = std::fs::read_to_string(&inventory).expect("an inventory");
    std::fs::write(&inventory, text.replace("\nruntime:\n", "\nruntime:\n  nodes: [studio-1, studio-3]\n"))
        .expect("written");
    let ran = deploy(&rack).expect(0);
    assert!(ran.stdout.contains("served by 2 ranks, backend ring"), "{}", ran.stdout);
    let smoke = rack.macluster(&["smoke", "--timeout", "120", "-o", "json"]).expect(0);
    assert_eq!(smoke.json()["steps"][0]["verdict"], "pass", "{}", smoke.stdout);
    std::fs::write(&inventory, text).expect("written");

    // The step back, and away: the files are as before.
    rack.macluster(&["rollback", "--yes"]).expect(0);
    rack.macluster(&["undeploy", "--yes"]).expect(0);
    for (number, before) in rack.numbers().zip(&before) {
        let after = Seen::of(&rack, number);
        assert_eq!(after.unlike(before), "", "studio-{number}");
    }
}
