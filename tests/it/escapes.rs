//! Whatever a node prints, it never commands the terminal: escapes in every text that a person or a tool there may set.

use macluster::sim::state::{Ghost, NodeState, Service};
use macluster::sim::{Fault, Rack};

use crate::support::binary;
use crate::support::live::{done, run};

const EVIL: &str = "x\u{1b}]0;owned\u{7}\u{1b}[2Jy\u{9b}31m\u{8}";

fn spoil(state: &mut NodeState) {
    state.quirks.login_noise = Some(format!("{EVIL}\n"));
    state.computer.chip = format!("Apple {EVIL}");
    state.computer.serial = EVIL.to_owned();
    state.os.extra = EVIL.to_owned();
    state.hostname = EVIL.to_owned();
    state.services.push(Service {
        name: EVIL.to_owned(),
        port: EVIL.to_owned(),
        device: "en3".to_owned(),
        enabled: true,
        manual: false,
        router: None,
    });
    state.quirks.login_shell = Some(format!("/bin/{EVIL}"));
    state.sysctl.insert("vm.swapusage".to_owned(), format!("total = 9.00M  used = 4096.00M {EVIL}"));
    state.sysctl.insert("iogpu.wired_limit_mb".to_owned(), EVIL.to_owned());
    let command = format!("/opt/homebrew/bin/ollama {EVIL}");
    state.quirks.processes.push(Ghost { pid: 4343, ppid: 1, seconds: 9, command });
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_passes_on_what_a_node_prints() {
    // One end of a cable names a stranger, so that names of peers are told, too.
    let rack = Rack::builder().binary(binary()).nodes(3).prepared(true).fault(Fault::ForeignMac);
    let rack = rack.start().await.expect("a rack");
    for node in &rack.nodes {
        node.node.update(spoil).expect("a state");
        let root = &node.node.root;
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("opt/macluster/network/lock/owner", &format!("by {EVIL}\npid 1\nsince {EVIL}\nuntil 9999999999\n"));
        write("opt/macluster/var/log/engine.log", &format!("[jaccl] Recv failed with errno=2 {EVIL}\n"));
        write(&format!("Library/Logs/DiagnosticReports/panic-full-2999-01-01-{EVIL}.panic"), "{}");
    }
    let path = rack.dir.join("rack.json");
    let text = std::fs::read_to_string(&path).expect("readable");
    let mut state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    state["outsiders"][0]["model_name"] = EVIL.into();
    state["outsiders"][0]["model"] = EVIL.into();
    std::fs::write(&path, state.to_string()).expect("written");

    let commands: &[&[&str]] = &[
        &["doctor"],
        &["doctor", "-v"],
        &["doctor", "-o", "short", "-v"],
        &["doctor", "-o", "json"],
        &["doctor", "-o", "junit"],
        &["doctor", "-o", "markdown"],
        &["cabling"],
        &["cabling", "-o", "json"],
        &["cabling", "plan"],
        &["cabling", "diagram", "-o", "text"],
        &["cabling", "diagram", "-o", "svg"],
        &["cabling", "diagram", "-o", "html"],
        &["cabling", "diagram", "-o", "dot"],
        &["network", "plan"],
        &["network", "plan", "-o", "json"],
        &["network", "apply", "--yes"],
        &["checklist"],
        &["hostfile"],
        &["explain", "connect-60"],
        &["explain", EVIL],
        &["doctor", "--from", EVIL],
        &["logs", "studio-1"],
        &["status"],
        &["snapshot", "evil.json"],
        &["snapshot", "--redact", "public.json"],
        &["doctor", "--on", EVIL],
        &["doctor", "--check", EVIL],
        &["node", "replace", EVIL],
    ];
    for args in commands {
        let ran = run(&rack, args).await;
        for (stream, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            let evil = |c: char| c.is_control() && c != '\n' && c != '\t';
            let at = text.find(evil).map(|at| {
                text[text.floor_char_boundary(at.saturating_sub(60))..].escape_debug().take(120).collect::<String>()
            });
            assert_eq!(at, None, "{args:?} {stream}");
        }
        assert!(!ran.stdout.is_empty() || !ran.stderr.is_empty(), "{args:?} says nothing");
    }
    for file in ["evil.json", "public.json"] {
        let text = std::fs::read_to_string(rack.dir.join(file)).expect("a snapshot");
        assert!(!text.contains('\u{1b}'), "{file} is JSON");
    }
    done(rack).await;
}
