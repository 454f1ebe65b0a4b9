//! `doctor` and `cabling` as they are run: on simulated racks over SSH, and from snapshots of them.

use macluster::check::{self, Context};
use macluster::mesh::LinkGraph;
use macluster::model::Inventory;
use macluster::model::Snapshot;
use macluster::sim::{Fault, RunningRack};
use macluster::view::Printer;
use macluster::view::doctor;
use serde_json::Value;

use crate::support::live::run;
use crate::support::rack::{self as bench, links_script, name};
use crate::support::{binary, macluster};

/// A rack with its link networks set up, whose inventory wants this backend.
async fn rack(fault: Option<Fault>, backend: &str) -> RunningRack {
    let builder = macluster::sim::Rack::builder().binary(binary()).nodes(3).prepared(true);
    let builder = match fault {
        Some(fault) => builder.fault(fault),
        None => builder,
    };
    let rack = builder.start().await.expect("a rack");
    let text = std::fs::read_to_string(&rack.inventory).expect("an inventory");
    let text = text.replace("backend: ring", &format!("backend: {backend}")).replace("over: management", "over: links");
    assert!(text.contains(&format!("backend: {backend}")), "{text}");
    std::fs::write(&rack.inventory, text).expect("written");
    rack
}

/// Findings that are not right, as `verdict check`, once each.
fn wrong(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("findings");
    let mut all: Vec<String> = findings
        .iter()
        .filter(|f| ["warn", "fail", "crash"].contains(&f["verdict"].as_str().expect("a verdict")))
        .map(|f| format!("{} {}", f["verdict"].as_str().expect("a verdict"), f["check"].as_str().expect("a check")))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// What each fault makes doctor say, and its exit code; on a rack whose backend is `auto`.
fn expected(fault: Fault) -> (&'static [&'static str], i32) {
    match fault {
        Fault::MissingCable => (&["fail mesh.complete"], 4),
        Fault::ReceptacleOne => (&["fail cabling.excluded-receptacle"], 4),
        Fault::DuplicateCable => (&["warn cabling.duplicate"], 0),
        Fault::ForeignMac => (&["warn cabling.foreign-peer"], 0),
        Fault::SelfLoop => (&["fail cabling.self-loop"], 4),
        Fault::OneSided => (&["fail cabling.one-sided"], 4),
        Fault::SlowCable => (&["fail cabling.speed"], 4),
        Fault::Dock => (&["fail cabling.via-dock"], 4),
        Fault::OddBuild => (&["fail host.macos-identical"], 4),
        Fault::OldMacos => (&["fail host.macos-identical", "fail host.macos-min"], 4),
        Fault::RdmaOff => (&["fail rdma.enabled"], 4),
        Fault::Tb4 => (&["fail rdma.hardware", "warn cabling.tb4-hardware", "warn host.mixed-models"], 4),
        Fault::Bridge => (&["fail network.bridge"], 4),
        Fault::BridgeLoop => (&["fail network.bridge-loop"], 4),
        Fault::LatentBridge => (&["warn network.bridge-latent"], 0),
        Fault::NoAddress => (&["fail network.addresses"], 4),
        Fault::SharedSubnet => (&["fail network.subnets-disjoint"], 4),
        Fault::PoolClash => (&["fail network.pool-overlap"], 4),
        Fault::DhcpLink => (&["fail network.dhcp-on-link"], 4),
        Fault::Mute => (&["fail network.link-ping"], 4),
        Fault::StrayRoute => (&["fail network.peer-route"], 4),
        Fault::DefaultRoute => (&["fail network.default-route"], 4),
        Fault::Forwarding => (&["fail network.forwarding"], 4),
        Fault::ForeignDaemon => (&["fail network.foreign-daemon"], 4),
        Fault::NotPersistent => (&["fail network.persistent"], 4),
        Fault::Mtu => (&["warn network.mtu"], 0),
        Fault::NoGid | Fault::LostGid => (&["fail rdma.gid"], 4),
        Fault::Unreachable => (&["fail ssh.reachable"], 6),
        Fault::ChangedHostKey => (&["fail ssh.host-key"], 6),
        // `sudo -n` asks for the password before it says that the user may not.
        Fault::SudoPassword | Fault::SudoNotAllowed => (&["warn ssh.sudo"], 0),
        Fault::LoginNoise => (&["warn ssh.login-noise"], 0),
        // What cannot be read is said once, and everything that needs it is skipped, not guessed.
        Fault::Garbage => (&["fail host.facts"], 4),
        Fault::SlowProfiler => (&[], 0),
        Fault::FullDisk => (&["fail host.disk-space"], 4),
        Fault::AutoUpdate => (&["warn host.auto-update"], 0),
        Fault::Sleeps => (&["warn host.sleep"], 0),
        Fault::StaysOff => (&["warn host.restart-after-power-loss"], 0),
        Fault::FileVault => (&["warn host.filevault"], 0),
        // Only the one node has a limit of its own.
        Fault::WiredLimit => (&["warn host.wired-limit"], 0),
        Fault::Swap => (&["warn host.swap"], 0),
        Fault::Firewall => (&["fail host.firewall"], 4),
        Fault::ForeignEngine => (&["warn host.foreign-engines"], 0),
        Fault::RdmaLeak => (&["fail rdma.resources"], 4),
        Fault::FastSynch => (&["warn host.fast-synch"], 0),
        Fault::FishShell => (&["warn ssh.login-shell"], 0),
        Fault::ClockSkew => (&["warn ssh.clock-skew"], 0),
        Fault::SmallMemory => (&["warn host.mixed-models"], 0),
        Fault::NoDevices => (&["fail rdma.devices"], 4),
        Fault::PortDown => (&["fail rdma.port-active"], 4),
        Fault::UnknownModel => (&["warn host.model-supported"], 0),
        Fault::UsbPort => (&["warn cabling.usb-only-port"], 0),
        Fault::Panic => (&["warn host.recent-panics"], 0),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_told_by_its_own_check_and_by_no_other() {
    let mut unlike = Vec::new();
    for fault in Fault::all() {
        let rack = rack(Some(fault), "auto").await;
        let (findings, status) = expected(fault);
        let ran = run(&rack, &["doctor", "-o", "json"]).await;
        let report = ran.json();
        let skipped = report["summary"]["skip"].as_u64().expect("a number");
        let right = wrong(&report) == findings
            && ran.status == status
            && (report["verdict"] == "pass") == (findings.is_empty() && skipped == 0)
            && (fault != Fault::Garbage || skipped > 0);
        if !right {
            let told = run(&rack, &["doctor"]).await;
            unlike.push(format!("{}: exit {}\n{}{}", fault.name(), ran.status, told.stdout, told.stderr));
        }
        rack.stop().await.expect("stops");
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n\n"));
}

/// The remedies that are commands of macluster do what they say: after them the rack passes everything.
#[tokio::test(flavor = "multi_thread")]
async fn what_doctor_tells_to_run_puts_the_links_right() {
    for (fault, option) in [
        (Fault::Bridge, Some("--remove-bridge-entry")),
        (Fault::BridgeLoop, Some("--remove-bridge-entry")),
        (Fault::LatentBridge, Some("--remove-bridge-entry")),
        (Fault::ForeignDaemon, Some("--replace-foreign-daemon")),
        (Fault::NoAddress, None),
        (Fault::SharedSubnet, None),
        (Fault::NotPersistent, None),
    ] {
        let rack = rack(Some(fault), "auto").await;
        let told = run(&rack, &["doctor"]).await.stdout;
        let words: Vec<&str> = ["network", "apply"].into_iter().chain(option).collect();
        let command = format!("macluster {}", words.join(" "));
        // A bridge that is there is taken away first; that it comes back is told after that.
        let first =
            if matches!(fault, Fault::Bridge | Fault::BridgeLoop) { "macluster network apply" } else { &command };
        assert!(told.contains(first), "{}: {told}", fault.name());
        let words: Vec<&str> = words.into_iter().chain(["--yes"]).collect();
        let ran = run(&rack, &words).await;
        assert_eq!(ran.status, 0, "{}: {}{}", fault.name(), ran.stdout, ran.stderr);
        let report = run(&rack, &["doctor", "-o", "json"]).await.json();
        assert_eq!(report["verdict"], "pass", "{}: {:?}", fault.name(), wrong(&report));
        let plan = run(&rack, &["network", "plan", "--detailed-exitcode"]).await;
        assert_eq!(plan.status, 0, "{}: {}", fault.name(), plan.stdout);
        rack.stop().await.expect("stops");
    }
}

/// Whatever cannot be asked is told as not checked, by the checks that need it, and nothing is called wrong for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_not_there_leaves_its_checks_without_an_answer() {
    let rack = rack(None, "auto").await;
    let root = rack.node("studio-3").expect("a node").node.root.clone();
    for (tool, checks) in [
        ("usr/bin/plutil", &["network.bridge-latent", "network.forwarding"] as &[&str]),
        ("bin/launchctl", &["host.fast-synch", "network.foreign-daemon", "network.persistent"]),
        ("bin/date", &["ssh.clock-skew"]),
        ("bin/df", &["host.disk-space"]),
        ("bin/ls", &["host.recent-panics"]),
        ("bin/ps", &["host.foreign-engines"]),
        ("usr/bin/defaults", &["host.auto-update"]),
        ("usr/bin/fdesetup", &["host.filevault"]),
        ("usr/bin/pmset", &["host.restart-after-power-loss", "host.sleep"]),
        ("usr/libexec/ApplicationFirewall/socketfilterfw", &["host.firewall"]),
        ("usr/sbin/ioclasscount", &["rdma.resources"]),
        ("sbin/ping", &["network.link-ping"]),
        ("sbin/route", &["network.peer-route"]),
    ] {
        let (place, away) = (root.join(tool), root.join("Users/Shared/away"));
        std::fs::rename(&place, &away).expect("moved away");
        let report = run(&rack, &["doctor", "-o", "json"]).await.expect(0).json();
        std::fs::rename(&away, &place).expect("moved back");
        assert_eq!(report["verdict"], "skip", "{tool}: {:?}", wrong(&report));
        let findings = report["findings"].as_array().expect("findings");
        let mut skipped: Vec<&str> =
            findings.iter().filter(|f| f["verdict"] == "skip").map(|f| f["check"].as_str().expect("a check")).collect();
        skipped.dedup();
        assert_eq!(skipped, checks, "{tool}");
    }
    let again = run(&rack, &["doctor", "-o", "json"]).await.expect(0).json();
    assert_eq!(again["verdict"], "pass");
    rack.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rack_without_faults_is_right_for_every_backend() {
    for backend in ["auto", "jaccl", "jaccl-ring", "ring"] {
        let rack = rack(None, backend).await;
        let ran = run(&rack, &["doctor", "-o", "json"]).await.expect(0);
        let report = ran.json();
        assert_eq!(report["verdict"], "pass", "{backend}: {:#}", report["findings"]);
        let human = run(&rack, &["doctor"]).await.expect(0);
        assert!(human.stdout.contains("ok: everything is right"), "{}", human.stdout);
        rack.stop().await.expect("stops");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_tells_the_same_as_the_rack() {
    let rack = rack(Some(Fault::SlowCable), "jaccl").await;
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("rack.json").display().to_string();
    run(&rack, &["snapshot", &file]).await.expect(0);
    let live = run(&rack, &["doctor", "-o", "json"]).await.expect(4).json();
    let cabled = run(&rack, &["cabling", "-o", "json"]).await.expect(0).json();
    rack.stop().await.expect("stops");

    let later = macluster(dir.path(), &["doctor", "-o", "json", "--from", &file]).expect(4).json();
    assert_eq!((&live["findings"], &live["summary"]), (&later["findings"], &later["summary"]));
    let again = macluster(dir.path(), &["cabling", "-o", "json", "--from", &file]).expect(0).json();
    assert_eq!(cabled["links"], again["links"]);
    assert_eq!(again["links"].as_array().expect("links").len(), 3);
    let drawn = macluster(dir.path(), &["cabling", "diagram", "-o", "svg", "--from", &file]).expect(0).stdout;
    assert!(drawn.starts_with("<svg ") && drawn.contains("cable 3: studio-2 receptacle 3"), "{drawn}");
    let out = dir.path().join("rack.html").display().to_string();
    let ran = macluster(dir.path(), &["cabling", "diagram", "-o", "html", "--from", &file, "--out", &out]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr), ("", format!("wrote {out}\n")));
    assert!(std::fs::read_to_string(&out).expect("the page").ends_with("</html>\n"));
    let nowhere = dir.path().join("no/such/folder.dot").display().to_string();
    let ran = macluster(dir.path(), &["cabling", "diagram", "-o", "dot", "--from", &file, "--out", &nowhere]).expect(1);
    assert!(ran.stderr.starts_with(&format!("error: cannot write {nowhere}: ")), "{}", ran.stderr);
    let one = macluster(dir.path(), &["doctor", "--from", &file, "--check", "cabling.speed", "-o", "json"]).expect(4);
    assert_eq!(one.json()["findings"].as_array().expect("findings").len(), 3);
    macluster(dir.path(), &["doctor", "--from", &file, "--check", "mesh,host.macos-min"]).expect(0);
    let ran = macluster(dir.path(), &["doctor", "--from", &file, "--on", "studio-7"]).expect(10);
    assert!(ran.stderr.contains("there is no node named `studio-7`"), "{}", ran.stderr);
}

fn printer(width: usize) -> Printer {
    Printer { color: false, progress: false, width }
}

fn report(rack: &bench::Rack) -> (check::Report, Inventory, Snapshot) {
    let graph = LinkGraph::build(&rack.snapshot);
    let context =
        Context { snapshot: &rack.snapshot, graph: &graph, inventory: &rack.inventory, links_script: &links_script() };
    (check::run(&context), rack.inventory.clone(), rack.snapshot.clone())
}

/// A rack of three with one of everything: a misplaced cable, a slow one, RDMA off, a noisy shell.
fn sick() -> bench::Rack {
    let mut rack = bench::Rack::kept(4);
    rack.unplug("studio-2", 2);
    rack.cable("studio-1", 2, "studio-2", 1);
    rack.receptacle("studio-3", 4).speed = Some("40 Gb/s".to_owned());
    rack.facts("studio-4").rdma_switch = Ok(macluster::model::facts::RdmaSwitch::Disabled);
    rack.unplug("studio-2", 3);
    "Welcome!".clone_into(&mut rack.facts("studio-3").login_noise);
    rack.interface("studio-1", 3).inet.clear();
    rack
}

#[test]
fn the_human_report_fits_80_columns_and_needs_no_colour() {
    let (report, inventory, _) = report(&sick());
    let text = doctor::human(&report, &inventory, printer(80), false);
    for line in text.lines().filter(|l| !l.contains("  $ ")) {
        assert!(line.chars().count() <= 80 && !line.ends_with(' '), "{line:?}");
    }
    assert!(!text.contains('\u{1b}'));
    insta::assert_snapshot!(text);
}

#[test]
fn a_remedy_that_findings_share_is_told_once() {
    let mut rack = bench::Rack::kept(3);
    rack.interface("studio-1", 2).inet.clear();
    rack.interface("studio-3", 3).inet.clear();
    let (report, inventory, _) = report(&rack);
    let sharing = report.findings.iter().filter(|f| f.check == "network.addresses" && f.remedy.is_some()).count();
    assert_eq!(sharing, 2);
    for verbose in [false, true] {
        let text = doctor::human(&report, &inventory, printer(100), verbose);
        assert_eq!(text.matches("$ macluster network apply\n").count(), 1, "{text}");
        assert_eq!(text.matches("run this: as for studio-1 above (network.addresses)").count(), 1, "{text}");
    }
}

#[test]
fn a_healthy_rack_is_one_screen() {
    let (report, inventory, _) = report(&bench::Rack::kept(3));
    let text = doctor::human(&report, &inventory, printer(80), false);
    assert!(text.lines().count() <= 45, "{text}");
    insta::assert_snapshot!(text);
    let verbose = doctor::human(&report, &inventory, printer(80), true);
    for check in check::registry() {
        assert!(verbose.contains(check.id()), "-v leaves out {}", check.id());
    }
}

#[test]
fn the_json_is_the_documented_one() {
    let mut rack = bench::Rack::kept(2);
    rack.unplug("studio-2", 2);
    rack.cable("studio-1", 2, "studio-2", 1);
    let (report, _, _) = report(&rack);
    let json: Value = serde_json::from_str(&doctor::json(&report)).expect("JSON");
    let keys = |v: &Value| v.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["schema_version", "rack", "verdict", "taken_at", "summary", "findings"]);
    assert_eq!((&json["schema_version"], &json["verdict"]), (&Value::from(1), &Value::from("fail")));
    assert_eq!(json["taken_at"], "2026-11-30T20:00:00Z");
    assert_eq!(keys(&json["summary"]), ["pass", "warn", "fail", "skip", "crash"]);
    let all = json["findings"].as_array().expect("findings");
    let counted: u64 =
        ["pass", "warn", "fail", "skip", "crash"].iter().map(|k| json["summary"][k].as_u64().expect("a number")).sum();
    assert_eq!(counted, all.len() as u64);
    let finding =
        all.iter().find(|f| f["check"] == "cabling.excluded-receptacle" && f["verdict"] == "fail").expect("one");
    insta::assert_snapshot!(serde_json::to_string_pretty(finding).expect("JSON"));
    let pass = all.iter().find(|f| f["verdict"] == "pass" && f["check"] == "mesh.size").expect("passes are told too");
    assert_eq!((&pass["node"], &pass["link"], &pass["remedy"]), (&Value::Null, &Value::Null, &Value::Null));
}

#[test]
fn nodes_can_be_picked() {
    let (mut report, ..) = report(&sick());
    report.keep_nodes(&[name("studio-4")]);
    assert!(report.findings.iter().any(|f| f.check == "rdma.enabled"));
    assert!(report.findings.iter().any(|f| f.check == "mesh.complete"), "the rack as a whole stays");
    assert!(
        report.findings.iter().all(|f| f.node.as_ref().is_none_or(|n| n.as_str() == "studio-4") || f.link.is_some())
    );
    assert!(!report.findings.iter().any(|f| f.check == "ssh.login-noise" && f.node == Some(name("studio-3"))));
    let summary = report.summary;
    let total = summary.pass + summary.warn + summary.fail + summary.skip + summary.crash;
    assert_eq!(total, report.findings.len());
}

#[test]
fn unknown_names_are_not_found_and_the_nearest_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let ran = macluster(dir.path(), &["doctor", "--check", "cabling.sped"]).expect(10);
    assert!(ran.stderr.contains("there is no check named `cabling.sped`") && ran.stderr.contains("`cabling.speed`"));
    let listed = macluster(dir.path(), &["doctor", "--list-checks"]).expect(0);
    assert_eq!(listed.stdout.lines().filter(|l| l.contains('.')).count(), check::registry().len(), "{}", listed.stdout);
    let json = macluster(dir.path(), &["doctor", "--list-checks", "-o", "json", "--check", "mesh"]).expect(0).json();
    assert_eq!(json["checks"].as_array().expect("checks").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_without_end_is_cut_and_told() {
    use std::os::unix::fs::PermissionsExt;
    let rack = rack(None, "auto").await;
    let tool = rack.node("studio-2").expect("a node").node.root.join("usr/sbin/system_profiler");
    std::fs::remove_file(&tool).expect("a link");
    // A hundred megabytes of JSON that never closes.
    std::fs::write(&tool, "#!/bin/sh\n/usr/bin/yes '{\"a\":[' | /usr/bin/head -c 100000000\n").expect("written");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let report = run(&rack, &["doctor", "-o", "json"]).await.expect(4).json();
    let told: Vec<&str> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|f| f["check"] == "host.facts" && f["verdict"] == "fail")
        .map(|f| f["observed"].as_str().expect("observed"))
        .collect();
    let cut = "its output is longer than the limit; the rest was cut off";
    assert_eq!(told, [format!("system_profiler: {cut}; system_profiler: {cut}")]);
    rack.stop().await.expect("stops");
}

/// What takes a larger rack to be seen.
#[tokio::test(flavor = "multi_thread")]
async fn larger_racks_are_told_what_they_can_be() {
    let larger = async |nodes: usize, fault: Option<Fault>| {
        let builder = macluster::sim::Rack::builder().binary(binary()).nodes(nodes).prepared(true);
        let rack = fault.into_iter().fold(builder, macluster::sim::Builder::fault).start().await.expect("a rack");
        let text = std::fs::read_to_string(&rack.inventory).expect("an inventory");
        let text = text.replace("backend: ring", "backend: auto").replace("over: management", "over: links");
        std::fs::write(&rack.inventory, text).expect("written");
        let report = run(&rack, &["doctor", "-o", "json"]).await.json();
        rack.stop().await.expect("stops");
        report
    };
    assert_eq!(wrong(&larger(4, None).await), Vec::<String>::new());
    let missing = larger(4, Some(Fault::MissingCable)).await;
    assert_eq!(wrong(&missing), ["fail mesh.complete", "warn mesh.ring-possible"]);
    let many = larger(9, None).await;
    assert_eq!(wrong(&many), ["fail mesh.size", "warn mesh.ring-possible"]);
    let complete = many["findings"].as_array().expect("findings").iter().find(|f| f["check"] == "mesh.complete");
    assert_eq!(complete.expect("told")["message"], "not checked (needs mesh.size)");
}
