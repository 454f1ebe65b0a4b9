//! What is cut off after a first apply: a revert, and a change of links that are in use.

use super::cut_off::{KNOWN, judge};
use super::rack::NetRack;
use super::ready;
use super::witness::Seen;

/// Moments of a revert, by the command of studio-1 that is about to run.
const MOMENTS: [&str; 4] = [
    "studio-1 /usr/bin/sudo -n -- /usr/bin/tee /opt/macluster/network/restore.sh",
    "studio-1 /usr/bin/sudo -n -- /bin/launchctl enable system/com.macluster.deadman",
    "studio-1 /usr/bin/sudo -n -- /bin/launchctl bootout system/com.macluster.links",
    "studio-1 /usr/bin/sudo -n -- /bin/rm -rf /opt/macluster/network",
];

fn kill_at(rack: &mut NetRack, args: &[&str], moment: &str) {
    rack.held(args, moment, |_, mut child| {
        child.kill().expect("killed");
        child.wait().expect("ends");
    });
}

#[test]
fn a_revert_that_is_killed_leaves_no_node_between_two_states() {
    if !ready("again::a_revert_that_is_killed_leaves_no_node_between_two_states") {
        return;
    }
    let one = |moment: &str| {
        let mut rack = NetRack::start(2, |_| ());
        rack.macluster(&["network", "apply", "--yes"]).expect(0);
        kill_at(&mut rack, &["network", "revert", "--yes"], moment);
        judge(&rack, moment, &[&KNOWN.before, &KNOWN.complete]);
        // The way forward is open, too. Where the node was told to go back and launchd was not, the first run sees to that.
        if moment == MOMENTS[1] {
            let inventory = rack.dir.join("macluster.yaml");
            let text = std::fs::read_to_string(&inventory).expect("an inventory");
            std::fs::write(&inventory, format!("{text}network: {{ pool: 10.88.0.0/16 }}\n")).expect("written");
            let first = rack.macluster(&["network", "apply", "--yes", "--readdress"]);
            let second = rack.macluster(&["network", "apply", "--yes", "--readdress"]);
            assert_eq!(second.status, 0, "{}\n{}\nbefore that:\n{}", second.stdout, second.stderr, first.stdout);
        }
        let ran = rack.macluster(&["network", "revert", "--yes"]);
        assert_eq!(ran.status, 0, "{moment}: {}\n{}", ran.stdout, ran.stderr);
        for number in rack.numbers() {
            let (now, was) = (Seen::of(&rack, number), &KNOWN.before[number - 1]);
            assert!(now == *was, "{moment}: studio-{number} is not as it was first:\n{}", now.unlike(was));
        }
    };
    std::thread::scope(|scope| {
        for moment in MOMENTS {
            scope.spawn(move || one(moment));
        }
    });
}

#[test]
fn a_second_change_that_is_cut_off_leaves_the_first_one() {
    if !ready("again::a_second_change_that_is_cut_off_leaves_the_first_one") {
        return;
    }
    let apply = ["network", "apply", "--yes", "--readdress", "--deadman", "10"];
    let moments = [
        "studio-1 /usr/bin/sudo -n -- /sbin/ifconfig en3 inet 10.88.",
        "studio-1 /usr/bin/sudo -n -- /bin/mv /opt/macluster/network/armed /opt/macluster/network/confirmed",
    ];
    let one = |moment: &str, restart: bool| {
        let mut rack = NetRack::start(2, |_| ());
        rack.macluster(&["network", "apply", "--yes"]).expect(0);
        let inventory = rack.dir.join("macluster.yaml");
        let text = std::fs::read_to_string(&inventory).expect("an inventory");
        std::fs::write(&inventory, format!("{text}network: {{ pool: 10.88.0.0/16 }}\n")).expect("written");
        if restart {
            let mut child = rack.held(&apply, moment, |rack, child| {
                rack.reboot(1);
                child
            });
            assert_ne!(child.wait().expect("ends").code(), Some(0));
        } else {
            kill_at(&mut rack, &apply, moment);
        }
        let second: Vec<Seen> = KNOWN.complete.iter().map(|s| s.with_pool("10.88.")).collect();
        judge(&rack, moment, &[&KNOWN.complete, &second]);
        let ran = rack.macluster(&apply);
        assert_eq!(ran.status, 0, "{moment}: {}\n{}", ran.stdout, ran.stderr);
        judge(&rack, moment, &[&second]);
    };
    std::thread::scope(|scope| {
        for moment in moments {
            for restart in [false, true] {
                scope.spawn(move || one(moment, restart));
            }
        }
    });
}
