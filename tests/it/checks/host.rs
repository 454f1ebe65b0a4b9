//! Each Mac as a server: passing, warning or failing, and unable to tell.

use jiff::SignedDuration;
use macluster::model::facts::{Asked, FactError};
use macluster::model::host_facts::{Disk, FastSynch, FileVault, Firewall, PROTECTION_DOMAIN, QUEUE_PAIR};
use macluster::model::{Fact, HostFacts, Verdict};

use super::{Case, doctor, malformed, of, says, show};
use crate::support::host::{ASKED, process};
use crate::support::rack::Rack;

const NODE: &str = "studio-2";

/// One of each, beside the finer ones below.
pub(super) const CASES: &[Case] = &[
    (
        "ssh.login-shell",
        Verdict::Warn,
        |r| r.facts(NODE).host.login_shell = Ok("/usr/local/bin/nu".to_owned()),
        "the login shell of studio-2 (slot 2) is nu",
        |r| r.facts(NODE).host.login_shell = Err(malformed("printenv")),
        "not checked: printenv, line 7",
    ),
    (
        "ssh.clock-skew",
        Verdict::Warn,
        |r| r.facts(NODE).host.clock = Ok(ASKED + SignedDuration::from_hours(30)),
        "is 30 h ahead of this desk's",
        |r| r.facts(NODE).host.clock = Err(malformed("date")),
        "not checked: date, line 7",
    ),
    (
        "host.mixed-models",
        Verdict::Warn,
        |r| r.facts(NODE).hardware.as_mut().expect("hardware").memory = "96 GB".to_owned(),
        "the nodes are not alike",
        |r| r.facts(NODE).hardware = Err(malformed("system_profiler")),
        "not checked: system_profiler, line 7",
    ),
    (
        "host.auto-update",
        Verdict::Warn,
        |r| r.facts(NODE).host.installs_updates = Ok(Some(true)),
        "studio-2 (slot 2) installs macOS updates by itself",
        |r| r.facts(NODE).host.installs_updates = Err(malformed("defaults")),
        "not checked: defaults, line 7",
    ),
    (
        "host.sleep",
        Verdict::Warn,
        |r| power(&mut r.facts(NODE).host, "sleep", Some("1")),
        "studio-2 (slot 2) falls asleep",
        |r| r.facts(NODE).host.power = Err(malformed("pmset")),
        "not checked: pmset, line 7",
    ),
    (
        "host.restart-after-power-loss",
        Verdict::Warn,
        |r| power(&mut r.facts(NODE).host, "autorestart", Some("0")),
        "studio-2 (slot 2) stays off",
        |r| r.facts(NODE).host.power = Err(malformed("pmset")),
        "not checked: pmset, line 7",
    ),
    (
        "host.filevault",
        Verdict::Warn,
        |r| r.facts(NODE).host.filevault = Ok(FileVault::On),
        "FileVault is on on studio-2 (slot 2)",
        |r| r.facts(NODE).host.filevault = Err(malformed("fdesetup")),
        "not checked: fdesetup, line 7",
    ),
    (
        "host.disk-space",
        Verdict::Fail,
        |r| disk(&mut r.facts(NODE).host, 1 << 20),
        "only 1.0 GiB are free on the disk of studio-2 (slot 2)",
        |r| r.facts(NODE).host.disk = Err(malformed("df")),
        "not checked: df, line 7",
    ),
    (
        "host.wired-limit",
        Verdict::Warn,
        |r| sysctl(r, NODE, "iogpu.wired_limit_mb", Some("260000")),
        "macOS gets too little to live on",
        |r| r.facts(NODE).sysctl = Err(malformed("sysctl")),
        "not checked: sysctl, line 7",
    ),
    (
        "host.swap",
        Verdict::Warn,
        |r| sysctl(r, NODE, "vm.swapusage", Some("total = 9.00M  used = 2048.00M  free = 0.00M")),
        "studio-2 (slot 2) has swapped 2048 MiB out",
        |r| r.facts(NODE).sysctl = Err(malformed("sysctl")),
        "not checked: sysctl, line 7",
    ),
    (
        "host.firewall",
        Verdict::Fail,
        |r| r.facts(NODE).host.firewall = Ok(Firewall::BlockAll),
        "the firewall of studio-2 (slot 2) blocks everything",
        |r| r.facts(NODE).host.firewall = Err(malformed("socketfilterfw")),
        "not checked: socketfilterfw, line 7",
    ),
    (
        "host.fast-synch",
        Verdict::Warn,
        |r| r.facts(NODE).host.fast_synch = Ok(vec![FastSynch { place: "launchd".to_owned(), value: "1".to_owned() }]),
        "MLX_METAL_FAST_SYNCH is set on studio-2 (slot 2)",
        |r| r.facts(NODE).host.fast_synch = Err(malformed("launchctl")),
        "not checked: launchctl, line 7",
    ),
    (
        "host.recent-panics",
        Verdict::Warn,
        |r| r.facts(NODE).host.reports = Ok(vec!["panic-full-2026-11-28-031501.0002.panic".to_owned()]),
        "studio-2 (slot 2) went down with a kernel panic on 2026-11-28",
        |r| r.facts(NODE).host.reports = Err(malformed("ls")),
        "not checked: ls, line 7",
    ),
    (
        "host.foreign-engines",
        Verdict::Warn,
        |r| r.facts(NODE).host.processes = Ok(vec![process(9, 1, "/opt/homebrew/bin/ollama serve")]),
        "Ollama runs on studio-2 (slot 2)",
        |r| r.facts(NODE).host.processes = Err(malformed("ps")),
        "not checked: ps, line 7",
    ),
    (
        "rdma.resources",
        Verdict::Fail,
        |r| objects(&mut r.facts(NODE).host, 0, 1),
        "studio-2 (slot 2) holds RDMA objects although no engine is alive",
        |r| r.facts(NODE).host.rdma_objects = Err(malformed("ioclasscount")),
        "not checked: ioclasscount, line 7",
    ),
];

/// A rack of two on which this is so on one node.
fn rack(change: impl FnOnce(&mut HostFacts)) -> Rack {
    let mut rack = Rack::kept(2);
    change(&mut rack.facts(NODE).host);
    rack
}

#[track_caller]
fn warns(check: &str, words: &str, change: impl FnOnce(&mut HostFacts)) {
    only(&rack(change), check, Verdict::Warn, words);
}

/// This check says it of this node, and nothing else is wrong.
#[track_caller]
fn only(rack: &Rack, check: &str, verdict: Verdict, words: &str) {
    says(rack, check, verdict, words);
    let report = doctor(rack);
    let others: Vec<_> = report
        .findings
        .iter()
        .filter(|f| !matches!(f.verdict, Verdict::Pass | Verdict::Skip) && f.check != check)
        // What is in no known shape is told as that, too.
        .filter(|f| !(f.check == "host.facts" && f.verdict == Verdict::Warn))
        .collect();
    assert!(others.is_empty(), "{}", show(&report));
    let of_node: Vec<_> = of(&report, check).into_iter().filter(|f| f.verdict == verdict).collect();
    assert!(of_node.iter().all(|f| f.node.as_ref().is_none_or(|n| n.as_str() == NODE)), "{}", show(&report));
}

#[track_caller]
fn skips<T>(check: &str, tool: &str, pick: impl FnOnce(&mut HostFacts) -> &mut Fact<T>) {
    let rack = rack(|h| *pick(h) = Err(malformed(tool)));
    only(&rack, check, Verdict::Skip, &format!("not checked: {tool}, line 7"));
    let report = doctor(&rack);
    let passes = of(&report, check).into_iter().filter(|f| f.verdict == Verdict::Pass).count();
    assert_eq!(passes, 1, "the other node is still judged:\n{}", show(&report));
}

#[test]
fn a_calm_rack_passes() {
    let report = doctor(&Rack::kept(2));
    for check in [
        "host.auto-update",
        "host.sleep",
        "host.restart-after-power-loss",
        "host.filevault",
        "host.disk-space",
        "host.wired-limit",
        "host.swap",
        "host.firewall",
        "host.fast-synch",
        "host.foreign-engines",
        "host.recent-panics",
        "host.mixed-models",
        "rdma.resources",
        "ssh.login-shell",
        "ssh.clock-skew",
    ] {
        let found = of(&report, check);
        assert!(!found.is_empty() && found.iter().all(|f| f.verdict == Verdict::Pass), "{check}:\n{}", show(&report));
    }
}

#[test]
fn what_a_recording_does_not_hold_is_skipped() {
    let mut rack = Rack::kept(2);
    rack.facts(NODE).host = HostFacts::default();
    let report = doctor(&rack);
    let told: Vec<_> = of(&report, "host.sleep").into_iter().filter(|f| f.verdict == Verdict::Skip).collect();
    assert_eq!(told[0].message, "not checked: pmset: was not asked");
}

#[test]
fn updates_that_install_themselves() {
    warns("host.auto-update", "installs macOS updates by itself", |h| h.installs_updates = Ok(Some(true)));
    warns("host.auto-update", "was never told whether", |h| h.installs_updates = Ok(None));
    skips("host.auto-update", "defaults", |h| &mut h.installs_updates);
}

fn power(h: &mut HostFacts, name: &str, value: Option<&str>) {
    let all = h.power.as_mut().expect("power");
    match value {
        Some(value) => drop(all.insert(name.to_owned(), value.to_owned())),
        None => drop(all.remove(name)),
    }
}

#[test]
fn sleep_and_power_failures() {
    warns("host.sleep", "sudo pmset -a sleep 0", |h| power(h, "sleep", Some("10")));
    let disabled = rack(|h| {
        power(h, "sleep", Some("10"));
        power(h, "SleepDisabled", Some("1"));
    });
    says(&disabled, "host.sleep", Verdict::Pass, "sleep is disabled");
    skips("host.sleep", "pmset", |h| &mut h.power);
    warns("host.restart-after-power-loss", "stays off after a power failure", |h| power(h, "autorestart", Some("0")));
    let laptop = rack(|h| power(h, "autorestart", None));
    only(&laptop, "host.restart-after-power-loss", Verdict::Skip, "knows no autorestart");
    let odd = rack(|h| power(h, "sleep", Some("never")));
    only(&odd, "host.sleep", Verdict::Skip, "pmset says `sleep never`");
}

#[test]
fn a_disk_that_is_locked_at_every_start() {
    warns("host.filevault", "waits for a password at the machine", |h| h.filevault = Ok(FileVault::On));
    warns("host.filevault", "is being switched on", |h| h.filevault = Ok(FileVault::Coming));
    skips("host.filevault", "fdesetup", |h| &mut h.filevault);
}

fn disk(h: &mut HostFacts, available_kib: u64) {
    h.disk = Ok(Disk { total_kib: 1 << 30, available_kib, mount: "/".to_owned() });
}

#[test]
fn room_on_the_disk() {
    let free = |kib: u64| move |h: &mut HostFacts| disk(h, kib);
    warns("host.disk-space", "only 19.9 GiB are free", free((20 << 20) - 1));
    only(&rack(free(512 << 10)), "host.disk-space", Verdict::Fail, "only 0.5 GiB are free");
    says(&rack(free(20 << 20)), "host.disk-space", Verdict::Pass, "has 20.0 GiB free");
    skips("host.disk-space", "df", |h| &mut h.disk);
}

fn sysctl(rack: &mut Rack, node: &str, name: &str, value: Option<&str>) {
    let all = rack.facts(node).sysctl.as_mut().expect("sysctl");
    match value {
        Some(value) => drop(all.insert(name.to_owned(), value.to_owned())),
        None => drop(all.remove(name)),
    }
}

#[test]
fn the_share_of_the_gpu() {
    let limit = |both: &str, one: &str| {
        let mut rack = Rack::kept(2);
        sysctl(&mut rack, "studio-1", "iogpu.wired_limit_mb", Some(both));
        sysctl(&mut rack, NODE, "iogpu.wired_limit_mb", Some(one));
        rack
    };
    says(&limit("200000", "200000"), "host.wired-limit", Verdict::Pass, "may take 195 of 256 GiB");
    says(&limit("200000", "260000"), "host.wired-limit", Verdict::Warn, "sudo sysctl iogpu.wired_limit_mb=233472");
    only(&limit("200000", "0"), "host.wired-limit", Verdict::Warn, "different limits");
    let mut blind = Rack::kept(2);
    sysctl(&mut blind, NODE, "iogpu.wired_limit_mb", None);
    only(&blind, "host.wired-limit", Verdict::Skip, "the kernel does not know iogpu.wired_limit_mb");
    sysctl(&mut blind, NODE, "iogpu.wired_limit_mb", Some("many"));
    only(&blind, "host.wired-limit", Verdict::Skip, "iogpu.wired_limit_mb is `many`");
}

#[test]
fn memory_that_is_swapped_out() {
    let used = |text: Option<&str>| {
        let mut rack = Rack::kept(2);
        sysctl(&mut rack, NODE, "vm.swapusage", text);
        rack
    };
    let text = "total = 3072.00M  used = 1234.56M  free = 1837.44M  (encrypted)";
    only(&used(Some(text)), "host.swap", Verdict::Warn, "has swapped 1234 MiB out");
    says(&used(Some(&text.replace("1234", "1023"))), "host.swap", Verdict::Pass, "studio-2 (slot 2) does not swap");
    only(&used(None), "host.swap", Verdict::Skip, "does not tell vm.swapusage");
    only(&used(Some("none")), "host.swap", Verdict::Skip, "vm.swapusage is `none`");
}

#[test]
fn firewalls() {
    warns("host.firewall", "nobody sees that on a Mac in a rack", |h| h.firewall = Ok(Firewall::On));
    let blocked = rack(|h| h.firewall = Ok(Firewall::BlockAll));
    only(&blocked, "host.firewall", Verdict::Fail, "blocks everything that comes in");
    skips("host.firewall", "socketfilterfw", |h| &mut h.firewall);
}

#[test]
fn a_variable_that_hangs_the_gpu() {
    let set = |place: &str, value: &str| {
        let set = FastSynch { place: place.to_owned(), value: value.to_owned() };
        move |h: &mut HostFacts| h.fast_synch = Ok(vec![set])
    };
    warns("host.fast-synch", "~/.zshenv", set("login shell", "1"));
    warns("host.fast-synch", "launchctl unsetenv MLX_METAL_FAST_SYNCH", set("launchd", "1"));
    says(&rack(set("login shell", "0")), "host.fast-synch", Verdict::Pass, "is not set on studio-2");
    skips("host.fast-synch", "printenv", |h| &mut h.fast_synch);
}

fn objects(h: &mut HostFacts, domains: u64, pairs: u64) {
    h.rdma_objects = Ok([(PROTECTION_DOMAIN.to_owned(), Some(domains)), (QUEUE_PAIR.to_owned(), Some(pairs))].into());
}

#[test]
fn engines_of_others() {
    let exo = |h: &mut HostFacts| {
        h.processes.as_mut().expect("processes").push(process(501, 1, "/Applications/EXO.app/Contents/MacOS/EXO"));
    };
    warns("host.foreign-engines", "exo runs on studio-2", exo);
    let holds = rack(|h| {
        exo(h);
        objects(h, 3, 6);
    });
    only(&holds, "host.foreign-engines", Verdict::Fail, "RDMA objects are in use");
    let own = "/opt/macluster/releases/a/venv/bin/python -I -m macluster_inference.engine --config x";
    let ours = |ppid| move |h: &mut HostFacts| h.processes.as_mut().expect("processes").push(process(77, ppid, own));
    says(&rack(ours(76)), "host.foreign-engines", Verdict::Pass, "no other engine runs on studio-2");
    warns("host.foreign-engines", "whose agent is gone", ours(1));
    let blind = rack(|h| h.processes = Err(malformed("ps")));
    only(&blind, "host.foreign-engines", Verdict::Skip, "not checked: ps");
}

#[test]
fn rdma_objects_that_nobody_holds() {
    let leaked = rack(|h| objects(h, 3, 0));
    only(&leaked, "rdma.resources", Verdict::Fail, "restart studio-2 (slot 2): nothing else gives them back");
    let used = rack(|h| {
        objects(h, 3, 6);
        h.processes.as_mut().expect("processes").push(process(9, 8, "/usr/local/bin/python3.12 rank.py"));
    });
    says(&used, "rdma.resources", Verdict::Pass, "in use on studio-2 (slot 2), by pid 9");
    let unknown = rack(|h| {
        h.rdma_objects = Ok([(PROTECTION_DOMAIN.to_owned(), None), (QUEUE_PAIR.to_owned(), None)].into());
    });
    only(&unknown, "rdma.resources", Verdict::Skip, "has no RDMA classes to count");
    skips("rdma.resources", "ioclasscount", |h| &mut h.rdma_objects);
    let blind = rack(|h| {
        objects(h, 3, 6);
        h.processes = Err(malformed("ps"));
    });
    says(&blind, "rdma.resources", Verdict::Skip, "not checked: ps");
}

#[test]
fn panics_count_for_a_fortnight() {
    let report = |file: &str| {
        let file = file.to_owned();
        move |h: &mut HostFacts| h.reports.as_mut().expect("reports").push(file)
    };
    warns("host.recent-panics", "on 2026-11-17", report("panic-full-2026-11-17-031501.0002.panic"));
    let old = rack(report("panic-full-2026-11-15-031501.0002.panic"));
    says(&old, "host.recent-panics", Verdict::Pass, "studio-2 (slot 2) has not panicked");
    let twice = rack(|h| {
        report("panic-full-2026-11-28-031501.0002.panic")(h);
        report("panic-base+socd-2026-11-28-031502.panic")(h);
        report("panic-full-2026-11-29-031501.0003.panic")(h);
    });
    only(&twice, "host.recent-panics", Verdict::Warn, "on 2 days, last on 2026-11-29");
    skips("host.recent-panics", "ls", |h| &mut h.reports);
}

#[test]
fn nodes_that_are_not_alike() {
    let mut rack = Rack::kept(2);
    rack.facts(NODE).hardware.as_mut().expect("hardware").chip = "Apple M4 Max".to_owned();
    only(&rack, "host.mixed-models", Verdict::Warn, "waits for the slowest chip");
    rack.facts(NODE).hardware = Err(malformed("system_profiler"));
    says(&rack, "host.mixed-models", Verdict::Skip, "only one node could be read");
}

#[test]
fn login_shells() {
    warns("ssh.login-shell", "chsh -s /bin/zsh", |h| h.login_shell = Ok("/opt/homebrew/bin/fish".to_owned()));
    says(&rack(|h| h.login_shell = Ok("/bin/bash".to_owned())), "ssh.login-shell", Verdict::Pass, "is bash");
    skips("ssh.login-shell", "printenv", |h| &mut h.login_shell);
}

#[test]
fn clocks() {
    let at = |seconds: i64| Ok::<_, FactError>(ASKED + SignedDuration::from_secs(seconds));
    warns("ssh.clock-skew", "is 10 s ahead of this desk's", |h| h.clock = at(10));
    warns("ssh.clock-skew", "is 2 h behind this desk's", |h| h.clock = at(-7300));
    says(&rack(|h| h.clock = at(4)), "ssh.clock-skew", Verdict::Pass, "studio-2 (slot 2) agrees");
    // Slow to answer is not skewed.
    let mut slow = rack(|h| h.clock = at(20));
    slow.facts(NODE).session.clock_asked = Some(Asked { before: ASKED, after: ASKED + SignedDuration::from_secs(25) });
    says(&slow, "ssh.clock-skew", Verdict::Pass, "studio-2 (slot 2) agrees");
    slow.facts(NODE).session.clock_asked = None;
    only(&slow, "ssh.clock-skew", Verdict::Skip, "does not tell when studio-2 was asked");
    skips("ssh.clock-skew", "date", |h| &mut h.clock);
    let mut all = Rack::kept(2);
    for node in ["studio-1", NODE] {
        all.facts(node).host.clock = at(600);
    }
    says(&all, "ssh.clock-skew", Verdict::Warn, "set the clock of this desk");
}
