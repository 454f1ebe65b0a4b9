//! An apply that is cut off at any moment leaves every node reachable, and either as it was or complete.

use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use super::rack::NetRack;
use super::ready;
use super::witness::{Seen, soon, until};

/// Seconds that a node waits for the confirmation.
const WINDOW: &str = "10";

/// Moments of an apply, by the command of studio-1 that is about to run.
const MOMENTS: [&str; 10] = [
    "studio-1 /usr/bin/sudo -n -- /usr/bin/tee /opt/macluster/network/lock/owner",
    "studio-1 /usr/bin/sudo -n -- /usr/bin/tee /opt/macluster/network/first.new",
    "studio-1 /usr/bin/sudo -n -- /usr/bin/tee /opt/macluster/network/restore.sh",
    "studio-1 /usr/bin/sudo -n -- /bin/launchctl enable system/com.macluster.deadman",
    "studio-1 /usr/bin/sudo -n -- /sbin/ifconfig bridge0 deletem en3",
    "studio-1 /usr/bin/sudo -n -- /sbin/ifconfig en3 inet 10.254.",
    "studio-1 /usr/bin/sudo -n -- /bin/mv -f /opt/macluster/network/links.conf.new",
    "studio-1 /usr/bin/sudo -n -- /bin/launchctl bootstrap system /Library/LaunchDaemons/com.macluster.links.plist",
    "studio-1 /usr/bin/sudo -n -- /bin/mv /opt/macluster/network/armed /opt/macluster/network/confirmed",
    "studio-1 /usr/bin/sudo -n -- /bin/launchctl bootout system/com.macluster.deadman",
];

/// Racks that are up at the same time.
const SIDE_BY_SIDE: usize = 5;

/// What an apply makes of two stock nodes.
pub struct Known {
    /// As they leave the box.
    pub before: Vec<Seen>,
    /// Linked.
    pub complete: Vec<Seen>,
}

/// Learnt once: racks of the same size are the same to the byte.
pub static KNOWN: LazyLock<Known> = LazyLock::new(Known::learn);

impl Known {
    fn learn() -> Known {
        let rack = NetRack::start(2, |_| ());
        let look = || rack.numbers().map(|n| Seen::of(&rack, n)).collect();
        let before = look();
        rack.macluster(&["network", "apply", "--yes"]).expect(0);
        Known { before, complete: look() }
    }
}

/// Waits until no node has a change pending; then every node must be like one of these.
#[track_caller]
pub fn judge(rack: &NetRack, moment: &str, allowed: &[&Vec<Seen>]) {
    for number in rack.numbers() {
        until(&format!("{moment}: studio-{number} has nothing pending"), || !pending(rack, number, moment));
    }
    for number in rack.numbers() {
        let like = |now: &Seen, known: &Seen| now.interfaces == known.interfaces && daemon(now) == daemon(known);
        let fits = |now: &Seen| allowed.iter().any(|known| like(now, &known[number - 1]));
        let mut now = Seen::of(rack, number);
        let begin = Instant::now();
        // A daemon that was started again needs a moment.
        while !fits(&now) && begin.elapsed() < Duration::from_secs(20) {
            now = Seen::of(rack, number);
        }
        let log = rack.ssh(number, "cat /opt/macluster/var/log/deadman.log").stdout;
        let other = now.unlike(&allowed[0][number - 1]);
        let daemon = daemon(&now);
        assert!(fits(&now), "{moment}: studio-{number} is between two states:\n{other}\n{daemon:?}\n{log}");
    }
}

/// Whether the node will still change something by itself.
#[track_caller]
fn pending(rack: &NetRack, number: usize, moment: &str) -> bool {
    let names = rack.ssh(number, "ls /opt/macluster/network");
    // Nothing to list is nothing pending; no answer is a node that is cut off.
    assert_ne!(names.status, 255, "{moment}: studio-{number} is cut off: {}", names.stderr);
    if !names.stdout.lines().any(|n| n == "armed" || n == "fire") {
        return false;
    }
    // Armed, but cut off before anything watches: nothing was changed, and nothing happens until the next run.
    rack.ssh(number, "launchctl print system/com.macluster.deadman").status == 0
}

/// Is the links daemon loaded, and will it be after a restart?
fn daemon(seen: &Seen) -> (bool, bool) {
    let loaded = seen.jobs.iter().any(|j| j == "com.macluster.links");
    (loaded, seen.files.contains_key("Library/LaunchDaemons/com.macluster.links.plist"))
}

/// The next run makes it complete.
fn converges(rack: &NetRack, moment: &str) {
    let ran = rack.macluster(&["network", "apply", "--yes"]);
    assert_eq!(ran.status, 0, "{moment}: a new run fails\n{}\n{}", ran.stdout, ran.stderr);
    let ran = rack.macluster(&["network", "plan", "--detailed-exitcode"]);
    assert_eq!(ran.status, 0, "{moment}: the plan is not empty\n{}\n{}", ran.stdout, ran.stderr);
}

#[test]
fn macluster_killed_at_ten_moments_leaves_no_node_between_two_states() {
    if !ready("cut_off::macluster_killed_at_ten_moments_leaves_no_node_between_two_states") {
        return;
    }
    let known = &*KNOWN;
    let moments = Mutex::new(MOMENTS.iter());
    let one = |moment: &str| {
        let mut rack = NetRack::start(2, |_| ());
        rack.held(&["network", "apply", "--yes", "--deadman", WINDOW], moment, |_, mut child| {
            child.kill().expect("killed");
            child.wait().expect("ends");
        });
        judge(&rack, moment, &[&known.before, &known.complete]);
        converges(&rack, moment);
    };
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(moment) = { moments.lock().expect("no panic").next() } {
                    one(moment);
                }
            });
        }
    });
}

#[test]
fn an_interrupted_apply_takes_its_changes_back_before_it_ends() {
    if !ready("cut_off::an_interrupted_apply_takes_its_changes_back_before_it_ends") {
        return;
    }
    let known = &*KNOWN;
    for moment in [MOMENTS[5], MOMENTS[8]] {
        let mut rack = NetRack::start(2, |_| ());
        let mut child = rack.held(&["network", "apply", "--yes"], moment, |_, child| {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("sent");
            child
        });
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), Some(130), "{moment}: {}", rack.said());
        for number in rack.numbers() {
            assert!(!pending(&rack, number, moment), "{moment}: studio-{number} is left to itself");
        }
        judge(&rack, moment, &[&known.before, &known.complete]);
        converges(&rack, moment);
    }
}

#[test]
fn a_node_that_nobody_reaches_any_more_takes_its_changes_back() {
    if !ready("cut_off::a_node_that_nobody_reaches_any_more_takes_its_changes_back") {
        return;
    }
    let known = &*KNOWN;
    let moment = MOMENTS[7];
    let mut rack = NetRack::start(2, |_| ());
    let mut child = rack.held(&["network", "apply", "--yes", "--deadman", WINDOW], moment, |rack, child| {
        rack.management(1, false);
        child
    });
    let status = child.wait().expect("ends");
    assert_ne!(status.code(), Some(0), "{}", rack.said());
    // Nobody tells it to: the node alone.
    let own = rack.root(1).join("opt/macluster/network");
    until("studio-1 has gone back", || own.join("reverted").exists());
    rack.management(1, true);
    // The kernel remembers for a moment that nobody answered there.
    until("studio-1 answers again", || rack.ssh(1, "true").status == 0);
    judge(&rack, moment, &[&known.before, &known.complete]);
    assert_eq!(Seen::of(&rack, 1).interfaces, known.before[0].interfaces);
    converges(&rack, moment);
}

#[test]
fn a_node_restarted_before_the_confirmation_is_not_cut_off() {
    if !ready("cut_off::a_node_restarted_before_the_confirmation_is_not_cut_off") {
        return;
    }
    let known = &*KNOWN;
    for moment in [MOMENTS[5], MOMENTS[8]] {
        let mut rack = NetRack::start(2, |_| ());
        let mut child = rack.held(&["network", "apply", "--yes", "--deadman", WINDOW], moment, |rack, child| {
            rack.reboot(1);
            child
        });
        let status = child.wait().expect("ends");
        assert_ne!(status.code(), Some(0), "{moment}: a node that was restarted is told as complete");
        judge(&rack, moment, &[&known.before, &known.complete]);
        converges(&rack, moment);
    }
    // While it goes back, too.
    let mut rack = NetRack::start(2, |_| ());
    rack.held(&["network", "apply", "--yes", "--deadman", WINDOW], MOMENTS[7], |_, mut child| {
        child.kill().expect("killed");
        child.wait().expect("ends");
    });
    let fire = rack.root(1).join("opt/macluster/network/fire");
    soon("studio-1 begins to go back", || fire.exists());
    rack.reboot(1);
    judge(&rack, "restarted while it goes back", &[&known.before, &known.complete]);
    converges(&rack, "restarted while it goes back");
}
