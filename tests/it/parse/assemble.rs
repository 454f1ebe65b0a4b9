//! From transcripts to facts: who ran, who did not, and what stood before the output.

use macluster::model::facts::{RdmaSwitch, Session, Sudo};
use macluster::model::host_facts::{FileVault, Firewall, QUEUE_PAIR};
use macluster::model::{FactError, FactErrorKind, NodeFacts, Transcript};
use macluster::parse::assemble::facts;
use macluster::parse::probe::{self, probes};

use super::fixture;

fn transcript(probe: &str, stdout: &str) -> Transcript {
    let probe = probes().iter().find(|p| p.id == probe).expect("a probe");
    Transcript {
        probe: probe.id.to_owned(),
        argv: std::iter::once(probe.program).chain(probe.args.iter().copied()).map(str::to_owned).collect(),
        exit: Some(0),
        stdout: stdout.to_owned(),
        stderr: String::new(),
        truncated: false,
        error: None,
    }
}

/// `links.conf` of a node with one link.
const LINKS: &str =
    "# macluster links 1\nlink en3 36:00:00:00:00:03 10.254.0.1 30 255.255.255.252 10.254.0.2 studio-2\n";

const SERVICES: &str = "An asterisk (*) denotes that a network service is disabled.\n(1) Ethernet\n\
                        (Hardware Port: Ethernet, Device: en0)\n\n(2) Mesh\n(Hardware Port: Thunderbolt 2, Device: en3)\n\n";
const JOB: &str = "system/com.macluster.links = {\n\tpath = /Library/LaunchDaemons/com.macluster.links.plist\n\
                   \tstate = running\n\tpid = 712\n}\n";

const DISK: &str = "Filesystem   1024-blocks      Used Available Capacity iused      ifree %iused  Mounted on\n\
                    /dev/disk3s1s1 482797652 378277460  76757888    84% 9110854  767578880    1%   /\n";
const OBJECTS: &str = "AppleThunderboltRDMAProtectionDomain = 2, AppleThunderboltRDMAQueuePair = <no such class>\n";

/// What a healthy node gives, in the order of the table.
fn healthy() -> Vec<Transcript> {
    probes()
        .iter()
        .map(|p| match p.id {
            probe::NOISE | probe::SUDO | probe::FAST_SYNCH_LAUNCHD => transcript(p.id, ""),
            probe::THUNDERBOLT => transcript(p.id, &fixture("system_profiler.json")),
            probe::PORTS => transcript(p.id, &fixture("networksetup.txt")),
            probe::IFCONFIG => transcript(p.id, &fixture("ifconfig.txt")),
            probe::RDMA_DEVICES => transcript(p.id, &fixture("ibv_devices.txt")),
            probe::RDMA_PORTS => transcript(p.id, &fixture("ibv_devinfo.txt")),
            probe::RDMA_SWITCH => transcript(p.id, "enabled\n"),
            probe::OS => transcript(p.id, &fixture("sw_vers.txt")),
            probe::SYSCTL => transcript(p.id, &fixture("sysctl.txt")),
            probe::ROUTES => transcript(p.id, &fixture("netstat.txt")),
            probe::SESSION => transcript(p.id, "192.0.2.9 51234 192.0.2.61 22\n"),
            probe::LINKS_CONFIG => transcript(p.id, LINKS),
            probe::LINKS_HISTORY => transcript(p.id, "# macluster history 1\nBOOT-1 en3 10.254.0.1\n"),
            probe::LINKS_ARMED => transcript(p.id, "60\n"),
            probe::BRIDGE_ENTRIES => transcript(p.id, r#"{"bridge0":{"Interfaces":["en2","en3"]}}"#),
            probe::INTERNET_SHARING => transcript(p.id, "0\n"),
            probe::SERVICES => transcript(p.id, SERVICES),
            probe::JOB_LINKS => transcript(p.id, JOB),
            probe::JOB_DEADMAN | probe::JOB_EXO => Transcript {
                exit: Some(113),
                stderr: "Bad request.\nCould not find service \"x\" in domain for system\n".to_owned(),
                ..transcript(p.id, "")
            },
            probe::LINKS_LOCK => Transcript {
                exit: Some(1),
                stderr: "cat: /opt/macluster/network/lock/owner: No such file or directory\n".to_owned(),
                ..transcript(p.id, "")
            },
            probe::CLOCK => transcript(p.id, "2026-11-30T20:00:01Z\n"),
            probe::POWER => {
                transcript(p.id, "Currently in use:\n sleep                0 (sleep prevented by powerd)\n")
            }
            probe::FILEVAULT => Transcript { exit: Some(1), ..transcript(p.id, "FileVault is Off.\n") },
            probe::UPDATES => transcript(p.id, "{\n    AutomaticallyInstallMacOSUpdates = 1;\n}\n"),
            probe::DISK => transcript(p.id, DISK),
            probe::PROCESSES => {
                transcript(p.id, "  PID  PPID     ELAPSED COMMAND\n    1     0       01:20 /sbin/launchd\n")
            }
            probe::FIREWALL => transcript(p.id, "Firewall is enabled. (State = 1)\n"),
            probe::RDMA_OBJECTS => transcript(p.id, OBJECTS),
            probe::REPORTS => transcript(p.id, "panic-full-2026-11-28-031501.0002.panic\n"),
            probe::SHELL => transcript(p.id, "/bin/zsh\n"),
            probe::FAST_SYNCH_SHELL => transcript(p.id, "1\n"),
            other => panic!("the probe {other} has no fixture"),
        })
        .collect()
}

fn session() -> Session {
    Session { local_address: "198.51.100.1".parse().ok(), user: Some("tess".to_owned()), clock_asked: None }
}

/// The facts after a change to one transcript.
fn with(probe: &str, change: impl FnOnce(&mut Transcript)) -> NodeFacts {
    let mut all = healthy();
    change(all.iter_mut().find(|t| t.probe == probe).expect("a probe"));
    facts(&all, session())
}

#[track_caller]
fn error<T: std::fmt::Debug>(fact: Result<T, FactError>) -> (FactErrorKind, String) {
    let error = fact.expect_err("an error");
    (error.kind, error.to_string())
}

#[test]
fn a_healthy_node() {
    let facts = facts(&healthy(), session());
    assert_eq!(facts.hardware.expect("hardware").serial, "TESTSERIAL");
    assert_eq!(facts.os.expect("os").build, "25F770123b");
    assert_eq!(facts.receptacles.expect("receptacles").len(), 6);
    assert_eq!(facts.hardware_ports.expect("ports").len(), 11);
    assert_eq!(facts.interfaces.expect("interfaces").len(), 8);
    assert_eq!(facts.rdma_switch, Ok(RdmaSwitch::Enabled));
    assert_eq!(facts.rdma_devices.expect("devices").len(), 3);
    assert_eq!(facts.rdma_ports.expect("ports").len(), 3);
    assert_eq!(facts.routes.expect("routes").len(), 12);
    assert_eq!(facts.sysctl.expect("sysctl")["hw.model"], "Mac15,14");
    assert_eq!(facts.sudo, Ok(Sudo::Passwordless));
    assert_eq!(facts.session.local_address, "192.0.2.61".parse().ok());
    assert_eq!(facts.session.user.as_deref(), Some("tess"));
    assert_eq!(facts.login_noise, "");
    assert_eq!(facts.network.configured.expect("read").expect("there").links[0].interface, "en3");
    assert_eq!(facts.network.history.expect("read").len(), 1);
    assert_eq!((facts.network.lock, facts.network.armed), (Ok(None), Ok(true)));
    assert_eq!(facts.network.bridge_entries.expect("read")[0].members, ["en2", "en3"]);
    assert_eq!(facts.network.sharing, Ok(false));
    assert_eq!(facts.network.jobs.expect("read").iter().map(|j| j.pid).collect::<Vec<_>>(), [Some(712)]);
    assert_eq!(facts.network.services.expect("read").iter().filter(|s| s.method.is_none()).count(), 2);
    assert_eq!(facts.network.paths, Ok(vec![]));
    let host = facts.host;
    assert_eq!(host.clock.expect("a time").to_string(), "2026-11-30T20:00:01Z");
    assert_eq!(host.power.expect("power")["sleep"], "0");
    assert_eq!((host.filevault, host.installs_updates), (Ok(FileVault::Off), Ok(Some(true))));
    assert_eq!(host.disk.expect("a disk").available_kib, 76_757_888);
    assert_eq!(host.processes.expect("processes").len(), 1);
    assert_eq!(host.firewall, Ok(Firewall::On));
    assert_eq!(host.rdma_objects.expect("counts")[QUEUE_PAIR], None);
    assert_eq!(host.reports.expect("reports").len(), 1);
    assert_eq!(host.login_shell.as_deref(), Ok("/bin/zsh"));
    assert_eq!(host.fast_synch.expect("read")[0].place, "login shell");
}

#[test]
fn a_mac_on_which_nothing_was_ever_set_is_read_as_such() {
    let unset = |t: &mut Transcript| {
        t.exit = Some(1);
        t.stdout = String::new();
        t.stderr =
            "2026-02-18 13:29:31.093 defaults[5:1] \nThe domain/default pair of (a, b) does not exist\n".to_owned();
    };
    assert_eq!(with(probe::UPDATES, unset).host.installs_updates, Ok(None));
    let absent = |t: &mut Transcript| {
        t.exit = Some(1);
        t.stdout = String::new();
        t.stderr = "ls: /Library/Logs/DiagnosticReports: No such file or directory\n".to_owned();
    };
    assert_eq!(with(probe::REPORTS, absent).host.reports, Ok(vec![]));
    let silent = |t: &mut Transcript| {
        t.exit = Some(1);
        t.stdout = String::new();
    };
    assert_eq!(with(probe::FAST_SYNCH_SHELL, silent).host.fast_synch, Ok(vec![]));
    let refused = |t: &mut Transcript| {
        t.exit = Some(1);
        t.stdout = String::new();
        t.stderr = "ls: /Library/Logs/DiagnosticReports: Permission denied\n".to_owned();
    };
    let told = error(with(probe::REPORTS, refused).host.reports);
    assert_eq!(told.1, "ls: ended with status 1: ls: /Library/Logs/DiagnosticReports: Permission denied");
}

fn second(id: &str, argv: &str, exit: i32, stdout: &str) -> Transcript {
    Transcript {
        probe: id.to_owned(),
        argv: argv.split(' ').map(str::to_owned).collect(),
        exit: Some(exit),
        stdout: stdout.to_owned(),
        ..transcript(probe::NOISE, "")
    }
}

#[test]
fn the_second_round_is_told_apart_by_its_arguments() {
    let mut all = healthy();
    all.push(second(probe::SERVICE_INFO, "networksetup -getinfo Mesh", 0, "DHCP Configuration\n"));
    all.push(second(
        probe::SERVICE_INFO,
        "networksetup -getinfo Ethernet",
        4,
        "Ethernet is not a recognized network service.\n",
    ));
    let answer = "\n--- 10.254.0.2 ping statistics ---\n1 packets transmitted, 1 packets received, 0.0% packet loss\n";
    let silence =
        "\n--- 10.254.0.6 ping statistics ---\n3 packets transmitted, 0 packets received, 100.0% packet loss\n";
    all.push(second(probe::LINK_PING, "ping -o -b en3 -S 10.254.0.1 10.254.0.2", 0, answer));
    all.push(second(probe::LINK_ROUTE, "route -n get 10.254.0.2", 0, "  interface: en3\n"));
    all.push(second(probe::LINK_PING, "ping -o -b en4 -S 10.254.0.5 10.254.0.6", 2, silence));
    all.push(Transcript {
        stderr: "route: writing to routing socket: not in table\n".to_owned(),
        ..second(probe::LINK_ROUTE, "route -n get 10.254.0.6", 0, "")
    });
    all.push(second(probe::LINK_PING, "ping -o -b en5 -S 10.254.0.9 10.254.0.10", 64, "usage: ping\n"));
    let network = facts(&all, session()).network;
    let methods: Vec<_> = network.services.expect("read").into_iter().map(|s| s.method.map(|m| m.is_ok())).collect();
    assert_eq!(methods, [Some(false), Some(true)], "Ethernet cannot be told, Mesh can");
    let paths = network.paths.expect("tried");
    let told: Vec<_> =
        paths.iter().map(|p| (p.interface.as_str(), p.answered.as_ref().ok(), p.route.as_ref().ok())).collect();
    let en3 = Some("en3".to_owned());
    assert_eq!(told, [("en3", Some(&true), Some(&en3)), ("en4", Some(&false), Some(&None)), ("en5", None, None)]);
    assert_eq!(paths[2].route.as_ref().expect_err("no route asked").kind, FactErrorKind::NotCollected);
}

#[test]
fn what_a_recording_was_not_asked_is_unknown_and_not_absent() {
    let all: Vec<Transcript> =
        healthy().into_iter().filter(|t| !t.probe.starts_with("job-") && t.probe != "services").collect();
    let network = facts(&all, session()).network;
    for (kind, message) in [error(network.jobs), error(network.services), error(network.paths)] {
        assert!(kind == FactErrorKind::NotCollected && message.contains("was not asked"), "{message}");
    }
    let broken = with(probe::JOB_EXO, |t| t.exit = Some(5));
    assert_eq!(error(with(probe::JOB_LINKS, |t| t.stdout = "?".to_owned()).network.jobs).0, FactErrorKind::Malformed);
    // The words alone say it, whatever the status.
    assert!(broken.network.jobs.is_ok());
    let late = with(probe::BRIDGE_ENTRIES, |t| t.error = Some("no answer within 20 s".to_owned()));
    assert_eq!(error(late.network.bridge_entries).0, FactErrorKind::Timeout);
}

#[test]
fn the_probes_are_the_agreed_ones() {
    let lines: Vec<String> = probes().iter().map(|p| format!("{} {} {}", p.id, p.program, p.args.join(" "))).collect();
    assert_eq!(
        lines,
        [
            "noise /usr/bin/true ",
            "clock /bin/date -u +%Y-%m-%dT%H:%M:%SZ",
            "thunderbolt /usr/sbin/system_profiler SPThunderboltDataType SPHardwareDataType -json",
            "ports /usr/sbin/networksetup -listallhardwareports",
            "ifconfig /sbin/ifconfig ",
            "rdma-devices /usr/bin/ibv_devices ",
            "rdma-ports /usr/bin/ibv_devinfo -v",
            "rdma-switch /usr/bin/rdma_ctl status",
            "os /usr/bin/sw_vers ",
            "sysctl /usr/sbin/sysctl hw.model hw.memsize kern.boottime kern.bootsessionuuid kern.osversion \
             net.inet.ip.forwarding iogpu.wired_limit_mb vm.swapusage",
            "routes /usr/sbin/netstat -rn -f inet",
            "sudo /usr/bin/sudo -n /usr/bin/true",
            "session /usr/bin/printenv SSH_CONNECTION",
            "links-config /bin/cat /opt/macluster/network/links.conf",
            "links-history /bin/cat /var/run/com.macluster.network.history",
            "links-lock /bin/cat /opt/macluster/network/lock/owner",
            "links-armed /bin/cat /opt/macluster/network/armed",
            "bridge-entries /usr/bin/plutil -extract VirtualNetworkInterfaces.Bridge json -o - \
             /Library/Preferences/SystemConfiguration/preferences.plist",
            "internet-sharing /usr/bin/plutil -extract NAT.Enabled raw -o - \
             /Library/Preferences/SystemConfiguration/com.apple.nat.plist",
            "services /usr/sbin/networksetup -listnetworkserviceorder",
            "job-links /bin/launchctl print system/com.macluster.links",
            "job-deadman /bin/launchctl print system/com.macluster.deadman",
            "job-exo /bin/launchctl print system/io.exo.networksetup",
            "power /usr/bin/pmset -g",
            "filevault /usr/bin/fdesetup status",
            "updates /usr/bin/defaults read /Library/Preferences/com.apple.SoftwareUpdate",
            "disk /bin/df -k /",
            "processes /bin/ps -axo pid,ppid,etime,command",
            "firewall /usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate",
            "rdma-objects /usr/sbin/ioclasscount AppleThunderboltRDMAProtectionDomain AppleThunderboltRDMAQueuePair",
            "reports /bin/ls -1 /Library/Logs/DiagnosticReports",
            "shell /usr/bin/printenv SHELL",
            "fast-synch-shell /usr/bin/printenv MLX_METAL_FAST_SYNCH",
            "fast-synch-launchd /bin/launchctl getenv MLX_METAL_FAST_SYNCH",
        ]
    );
    assert!(probes().iter().all(|p| !p.sudo && p.timeout.as_secs() > 0));
}

#[test]
fn a_login_banner_is_taken_off_every_output() {
    let clean = facts(&healthy(), session());
    for banner in [
        "Welcome to {loft} :: en9: flags=1<UP> mtu 1\nenabled\nhca_id: rdma_en9\n",
        "Hardware Port: Banner\nDevice: en9\nDestination Gateway Flags Netif\n",
        "{\"SPThunderboltDataType\": []}\n",
        "no newline at the end {",
        "\u{1b}[1mcolours\u{1b}[0m\r\n",
    ] {
        let mut all = healthy();
        for t in &mut all {
            t.stdout.insert_str(0, banner);
        }
        let noisy = facts(&all, session());
        assert_eq!(noisy.login_noise, banner);
        assert_eq!(NodeFacts { login_noise: String::new(), ..noisy }, clean, "{banner:?}");
    }
}

#[test]
fn a_banner_that_changes_with_every_login_is_passed_over_too() {
    let clean = facts(&healthy(), session());
    let mut all = healthy();
    for (n, t) in all.iter_mut().enumerate() {
        t.stdout.insert_str(0, &format!("Login number {n} {{today}}: be kind\n\n"));
        t.stderr.insert_str(0, &format!("warning {n}\n"));
    }
    let noisy = facts(&all, session());
    assert_eq!(noisy.login_noise, "Login number 0 {today}: be kind\n\n");
    assert_eq!(NodeFacts { login_noise: String::new(), ..noisy }, clean);
}

#[test]
fn commands_that_are_not_there() {
    for (exit, stderr) in [
        (Some(127), "zsh:1: no such file or directory: /usr/bin/ibv_devices\n"),
        (Some(127), "zsh:1: command not found: ibv_devices\n"),
        (Some(127), ""),
        (Some(1), "bash: line 1: /usr/bin/ibv_devices: No such file or directory\n"),
        (Some(1), "bash: ibv_devices: command not found\n"),
        (Some(2), "sh: 1: /usr/bin/ibv_devices: not found\n"),
        (Some(1), "fish: Unknown command: /usr/bin/ibv_devices\n"),
        (Some(1), "sudo: /usr/bin/ibv_devices: command not found\n"),
        (None, "zsh:1: command not found: /usr/bin/ibv_devices\n"),
    ] {
        let facts = with(probe::RDMA_DEVICES, |t| {
            (t.exit, t.stdout, t.stderr) = (exit, String::new(), stderr.to_owned());
        });
        let missing = "ibv_devices: there is no such command on the node".to_owned();
        assert_eq!(error(facts.rdma_devices), (FactErrorKind::CommandMissing, missing), "{stderr}");
    }
    // The words alone do not make a command missing.
    for (exit, stdout, stderr) in [
        (1, "", "ibv_devices: cannot open /dev/rdma0: No such file or directory\n"),
        (1, "", "sudo: /usr/bin/other: command not found\n"),
        (0, "", "zsh:1: command not found: ibv_devices\n"),
    ] {
        let facts = with(probe::RDMA_DEVICES, |t| {
            (t.exit, t.stdout, t.stderr) = (Some(exit), stdout.to_owned(), stderr.to_owned());
        });
        assert_ne!(error(facts.rdma_devices).0, FactErrorKind::CommandMissing, "{stderr}");
    }
}

#[test]
fn rdma_ctl_of_an_older_macos_is_an_answer() {
    let facts = with(probe::RDMA_SWITCH, |t| {
        (t.exit, t.stdout, t.stderr) = (Some(127), String::new(), "zsh:1: command not found: rdma_ctl\n".to_owned());
    });
    assert_eq!(facts.rdma_switch, Ok(RdmaSwitch::NoCommand));
    for (exit, stdout, stderr, expected) in
        [(0, "", "disabled\n", RdmaSwitch::Disabled), (1, "enabled\n", "", RdmaSwitch::Enabled)]
    {
        let facts = with(probe::RDMA_SWITCH, |t| {
            (t.exit, t.stdout, t.stderr) = (Some(exit), stdout.to_owned(), stderr.to_owned());
        });
        assert_eq!(facts.rdma_switch, Ok(expected));
    }
    let facts = with(probe::RDMA_SWITCH, |t| {
        let says = "rdma_ctl: This tool needs to be executed from Recovery OS.\n";
        (t.exit, t.stdout, t.stderr) = (Some(77), String::new(), says.to_owned());
    });
    assert_eq!(
        error(facts.rdma_switch),
        (
            FactErrorKind::Failed,
            "rdma_ctl: ended with status 77: rdma_ctl: This tool needs to be executed from Recovery OS.".to_owned()
        )
    );
}

#[test]
fn no_devices_is_an_answer_on_either_stream_and_with_any_status() {
    for (exit, stdout, stderr) in
        [(0, "No IB devices found\n", ""), (0, "", "No IB devices found\n"), (255, "", "No IB devices found\n")]
    {
        let facts = with(probe::RDMA_PORTS, |t| {
            (t.exit, t.stdout, t.stderr) = (Some(exit), stdout.to_owned(), stderr.to_owned());
        });
        assert_eq!(facts.rdma_ports, Ok(vec![]));
    }
}

#[test]
fn failures_keep_the_last_words() {
    let facts = with(probe::PORTS, |t| {
        (t.exit, t.stdout) = (Some(5), "** Error: Command requires admin privileges.\n".to_owned());
    });
    assert_eq!(
        error(facts.hardware_ports),
        (
            FactErrorKind::Failed,
            "networksetup: ended with status 5: ** Error: Command requires admin privileges.".to_owned()
        )
    );
    // Errors on standard output with status 0.
    let facts = with(probe::PORTS, |t| "** Error: The parameters were not valid.\n".clone_into(&mut t.stdout));
    assert_eq!(
        error(facts.hardware_ports),
        (
            FactErrorKind::Malformed,
            "networksetup, line 1: expected `Hardware Port:` lines, found `** Error: The parameters were not valid.`"
                .to_owned()
        )
    );
    // Nothing on standard output, the reason on the other.
    let facts = with(probe::IFCONFIG, |t| {
        (t.stdout, t.stderr) = (String::new(), "ifconfig: \u{1b}[31mbusy\n".to_owned());
    });
    assert_eq!(
        error(facts.interfaces),
        (FactErrorKind::Failed, "ifconfig: ended with status 0: ifconfig: \\u{1b}[31mbusy".to_owned())
    );
    // Half a list of interfaces looks like a whole one: a command that was ended does not count.
    let facts = with(probe::IFCONFIG, |t| t.exit = None);
    assert_eq!(error(facts.interfaces).1, "ifconfig: was ended by a signal: nd6 options=201<PERFORMNUD,DAD>");
}

#[test]
fn statuses_that_lie() {
    // As many unknown names as the status says; the others are answered.
    let facts = with(probe::SYSCTL, |t| {
        (t.exit, t.stderr) = (Some(1), "sysctl: unknown oid 'iogpu.wired_limit_mb'\n".to_owned());
    });
    assert_eq!(facts.sysctl.expect("answered").len(), 6);
    // A JSON object that is closed is whole.
    let facts = with(probe::THUNDERBOLT, |t| t.exit = Some(1));
    assert_eq!(facts.receptacles.expect("whole").len(), 6);
    assert!(facts.hardware.is_ok());
}

#[test]
fn output_that_is_late_cut_or_never_asked_for() {
    let facts = with(probe::THUNDERBOLT, |t| {
        (t.exit, t.stdout) = (None, String::new());
        t.error = Some("`system_profiler …` gave no answer within 60 s".to_owned());
    });
    let late = "system_profiler: `system_profiler …` gave no answer within 60 s".to_owned();
    assert_eq!(error(facts.receptacles), (FactErrorKind::Timeout, late.clone()));
    assert_eq!(error(facts.hardware), (FactErrorKind::Timeout, late));
    assert!(facts.interfaces.is_ok(), "the others are not concerned");

    let facts = with(probe::ROUTES, |t| t.error = Some("the connection broke: end of file".to_owned()));
    assert_eq!(error(facts.routes).0, FactErrorKind::Failed);

    let facts = with(probe::IFCONFIG, |t| t.truncated = true);
    assert_eq!(
        error(facts.interfaces),
        (FactErrorKind::Truncated, "ifconfig: its output is longer than the limit; the rest was cut off".to_owned())
    );

    let nothing = macluster::parse::assemble::facts(&[], session());
    assert_eq!(error(nothing.os), (FactErrorKind::NotCollected, "sw_vers: was not asked".to_owned()));
    assert_eq!(error(nothing.rdma_switch).0, FactErrorKind::NotCollected);
    assert_eq!(error(nothing.sudo).0, FactErrorKind::NotCollected);
    assert_eq!(nothing.session, session());
}

#[test]
fn root_needs_no_sudo() {
    let root = Session { user: Some("root".to_owned()), ..session() };
    let without: Vec<Transcript> = healthy().into_iter().filter(|t| t.probe != probe::SUDO).collect();
    assert_eq!(facts(&without, root.clone()).sudo, Ok(Sudo::Root));
    assert_eq!(facts(&healthy(), root).sudo, Ok(Sudo::Root));
    let asks = with(probe::SUDO, |t| (t.exit, t.stderr) = (Some(1), "sudo: a password is required\n".to_owned()));
    assert_eq!(asks.sudo, Ok(Sudo::NeedsPassword));
    let absent = with(probe::SUDO, |t| (t.exit, t.stderr) = (Some(127), String::new()));
    assert_eq!(error(absent.sudo).0, FactErrorKind::CommandMissing);
    // sudo was there; what it should have run was not.
    let other = with(probe::SUDO, |t| {
        (t.exit, t.stderr) = (Some(1), "sudo: /usr/bin/true: command not found\n".to_owned());
    });
    assert_eq!(error(other.sudo).0, FactErrorKind::Failed);
}

#[test]
fn the_nodes_own_address() {
    let address = |stdout: &str| with(probe::SESSION, |t| stdout.clone_into(&mut t.stdout)).session.local_address;
    assert_eq!(address("fe80::9%en0 50000 fe80::61%en0 22\n"), "fe80::61".parse().ok());
    assert_eq!(address("::ffff:192.0.2.9 50000 ::ffff:192.0.2.61 22\n"), "192.0.2.61".parse().ok());
    assert_eq!(address("hello you too there\n192.0.2.9 50000 192.0.2.62 22\r\n"), "192.0.2.62".parse().ok());
    for none in ["", "192.0.2.9 50000 192.0.2.61\n", "UNKNOWN 65535 UNKNOWN 65535\n"] {
        assert_eq!(address(none), session().local_address, "{none:?}");
    }
}

#[test]
fn facts_survive_a_snapshot() {
    let facts = facts(&healthy(), session());
    let json = serde_json::to_string(&facts).expect("serialises");
    assert_eq!(serde_json::from_str::<NodeFacts>(&json).expect("reads back"), facts);
}
