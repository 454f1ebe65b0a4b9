//! An apply that is cut off at any moment leaves every node reachable, and either as it was or complete.

use std::sync::Mutex;

use super::rack::NetRack;
use super::ready;
use super::witness::{Seen, until};

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
struct Known {
    before: Vec<Seen>,
    complete: Vec<Seen>,
}

impl Known {
    fn learn() -> Known {
        let rack = NetRack::start(2, |_| ());
        let look = || rack.numbers().map(|n| Seen::of(&rack, n)).collect();
        let before = look();
        rack.macluster(&["network", "apply", "--yes"]).expect(0);
        Known { before, complete: look() }
    }

    /// Waits until no node has a change pending; then every node must be one or the other.
    fn judge(&self, rack: &NetRack, moment: &str) {
        for number in rack.numbers() {
            until(&format!("{moment}: studio-{number} has nothing pending"), || !pending(rack, number, moment));
        }
        for number in rack.numbers() {
            let now = Seen::of(rack, number);
            let fits = |known: &Seen| now.interfaces == known.interfaces && daemon(&now) == daemon(known);
            let was = &self.before[number - 1];
            let log = rack.ssh(number, "cat /opt/macluster/var/log/deadman.log").stdout;
            assert!(
                fits(was) || fits(&self.complete[number - 1]),
                "{moment}: studio-{number} is neither as it was nor complete:\n{}\n{:?}\n{log}",
                now.unlike(was),
                daemon(&now)
            );
        }
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
    let known = Known::learn();
    let moments = Mutex::new(MOMENTS.iter());
    let one = |moment: &str| {
        let mut rack = NetRack::start(2, |_| ());
        rack.held(&["network", "apply", "--yes", "--deadman", WINDOW], moment, |_, mut child| {
            child.kill().expect("killed");
            child.wait().expect("ends");
        });
        known.judge(&rack, moment);
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
fn a_node_restarted_before_the_confirmation_is_not_cut_off() {
    if !ready("cut_off::a_node_restarted_before_the_confirmation_is_not_cut_off") {
        return;
    }
    let known = Known::learn();
    for moment in [MOMENTS[5], MOMENTS[8]] {
        let mut rack = NetRack::start(2, |_| ());
        let mut child = rack.held(&["network", "apply", "--yes", "--deadman", WINDOW], moment, |rack, child| {
            rack.reboot(1);
            child
        });
        let status = child.wait().expect("ends");
        assert_ne!(status.code(), Some(0), "{moment}: a node that was restarted is told as complete");
        known.judge(&rack, moment);
        converges(&rack, moment);
    }
}
