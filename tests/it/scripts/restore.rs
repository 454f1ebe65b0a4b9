//! `templates/restore.sh`, which takes back what nobody confirmed.

use super::{Bench, interface, shells};

const NETWORK: &str = "opt/macluster/network";
const EN3: &str = "36:c4:01:23:45:40";
const ARMED: &str = "60\nBOOT-1\nbefore\n";
/// en3 had another address and was in the bridge; there were links of an earlier apply.
const BEFORE: &str =
    "# macluster record 1\nboot BOOT-1\nlinks yes\ninterface en3 up bridge0\naddress en3 10.1.2.3 255.255.255.0\n";
const EARLIER: &str = "link en3 - 10.1.2.3 24 255.255.255.0 10.1.2.4 studio-2\n";

fn own(name: &str) -> String {
    format!("{NETWORK}/{name}")
}

/// A node after a change that nobody has confirmed yet.
fn bench(armed: &str, before: &str) -> Bench {
    let bench = Bench::new();
    bench.program("usr/sbin/sysctl", "/bin/cat \"$R/boot\"\n");
    bench.program("bin/launchctl", "if [ \"$1\" = print ]; then exit 113; fi\necho \"launchctl $*\" >>\"$R/did\"\n");
    bench.program(
        "usr/bin/plutil",
        "echo \"plutil $*\" >>\"$R/did\"\nif [ -f \"$R/locked\" ]; then echo locked; exit 1; fi\n",
    );
    bench.write("boot", "BOOT-1\n");
    bench.write("shown", &(interface("en3", EN3, &["10.254.0.1"]) + "bridge0: flags=8863<UP> mtu 1500\n"));
    bench.write(&own("armed"), armed);
    bench.write(&own("beat"), "desk 1 1\n");
    bench.write(&own("before"), before);
    bench.write(&own("links.conf"), "link en3 - 10.254.0.1 30 255.255.255.252 10.254.0.2 studio-2\n");
    bench.write(&own("before.links"), EARLIER);
    bench.write("Library/LaunchDaemons/com.macluster.links.plist", "links");
    bench.write("Library/LaunchDaemons/com.macluster.deadman.plist", "deadman");
    bench
}

/// Runs it; it must come to its end.
fn run(bench: &Bench, shell: &[&str]) -> String {
    let (status, output) = bench.run(shell, "restore.sh");
    assert_eq!(status, Some(0), "{shell:?}: {output}");
    assert!(!bench.did().iter().any(|d| d == "did not end"), "{shell:?}: {output}");
    output
}

/// Everything is as before the change.
fn assert_back(bench: &Bench, after: u32) {
    let did = bench.did().join("\n").replace(&bench.path("").display().to_string(), "/");
    let expected = format!(
        "launchctl bootout system/com.macluster.links\n\
         {after} ifconfig en3 inet 10.254.0.1 -alias\n\
         {after} ifconfig bridge0 addm en3\n\
         {after} ifconfig en3 inet 10.1.2.3 netmask 255.255.255.0 alias\n\
         launchctl bootstrap system /Library/LaunchDaemons/com.macluster.links.plist"
    );
    assert_eq!(did, expected);
    assert_eq!(bench.read(&own("links.conf")), EARLIER);
    for gone in ["armed", "fire", "before.links"] {
        assert!(!bench.has(&own(gone)), "{gone}");
    }
    assert!(bench.has(&own("reverted")) && !bench.has("Library/LaunchDaemons/com.macluster.deadman.plist"));
}

/// Nothing was touched.
fn assert_untouched(bench: &Bench) {
    assert_eq!(bench.did(), [""; 0]);
    assert!(bench.read(&own("links.conf")).contains("10.254.0.1"));
}

#[test]
fn it_goes_back_when_the_time_is_over_and_no_second_earlier() {
    for shell in shells() {
        let bench = bench(ARMED, BEFORE);
        let output = run(&bench, &shell);
        assert!(output.contains("no new SSH session confirmed the change within 60 s"), "{output}");
        assert_back(&bench, 60);
    }
}

#[test]
fn each_new_beat_starts_the_time_anew_also_in_its_last_second() {
    for shell in shells() {
        let bench = bench(ARMED, BEFORE);
        bench.after(30, "echo 'desk 1 2' >\"$R/opt/macluster/network/beat\"");
        bench.after(90, "echo 'desk 1 3' >\"$R/opt/macluster/network/beat\"");
        // The same once more is no sign of life.
        bench.after(120, "echo 'desk 1 3' >\"$R/opt/macluster/network/beat\"");
        run(&bench, &shell);
        assert_back(&bench, 150);
    }
}

#[test]
fn a_clock_that_is_set_moves_nothing() {
    for shell in shells() {
        for to in ["2026-01-01T13:00:00Z", "2026-01-01T11:00:00Z"] {
            let bench = bench(ARMED, BEFORE);
            bench.write("date", "2026-01-01T12:00:00Z\n");
            // The files are of another hour, too: nothing is told by their times.
            bench.after(5, &format!("echo {to} >\"$R/date\"\n/usr/bin/touch -t 202001010000 \"$R/{NETWORK}/armed\""));
            assert!(run(&bench, &shell).contains(&format!("{to} no new SSH session")));
            assert_back(&bench, 60);
        }
    }
}

#[test]
fn a_confirmation_in_the_last_moment_wins() {
    for shell in shells() {
        // It comes after the decision, before the renaming.
        let bench = bench(ARMED, BEFORE);
        bench.write("before-mv", "/bin/mv \"$R/opt/macluster/network/armed\" \"$R/opt/macluster/network/confirmed\"\n");
        assert!(run(&bench, &shell).contains("nothing waits for a confirmation"));
        assert_untouched(&bench);
        assert_eq!((bench.has(&own("confirmed")), bench.read("seconds").as_str()), (true, "60\n"));
        // It comes while it waits.
        let bench = super::restore::bench(ARMED, BEFORE);
        bench.after(7, "/bin/mv \"$R/opt/macluster/network/armed\" \"$R/opt/macluster/network/confirmed\"");
        run(&bench, &shell);
        assert_untouched(&bench);
        assert_eq!(bench.read("seconds"), "7\n");
    }
}

#[test]
fn a_confirmation_after_that_comes_too_late() {
    for shell in shells() {
        let bench = bench(ARMED, BEFORE);
        bench.program("sbin/ifconfig", &format!("if [ -f \"$R/{NETWORK}/armed\" ]; then echo late >>\"$R/did\"; fi\n"));
        run(&bench, &shell);
        assert!(!bench.did().contains(&"late".to_owned()), "armed is gone before anything is taken back");
    }
}

#[test]
fn after_a_restart_it_goes_back_at_once_and_leaves_the_addresses_to_macos() {
    for shell in shells() {
        let bench = bench(ARMED, BEFORE);
        bench.write("boot", "BOOT-2\n");
        // macOS has put en3 into its bridge, and something else has given it an address since.
        let shown = interface("en3", EN3, &["192.168.7.7"]);
        bench.write("shown", &format!("{shown}bridge0: flags=8863<UP> mtu 1500\n\tmember: en3 flags=3<LEARNING>\n"));
        let output = run(&bench, &shell);
        assert!(output.contains("the node was restarted before the change was confirmed"), "{output}");
        assert_eq!(bench.read("seconds"), "0\n");
        assert!(!bench.read("did").contains("ifconfig"), "{:?}", bench.did());
        assert_eq!(bench.read(&own("links.conf")), EARLIER);
    }
}

#[test]
fn ended_at_any_point_it_finishes_the_next_time() {
    for shell in shells() {
        // Ended when it starts the links daemon, when it removes its own job, and just before its last renaming.
        for (program, call) in [("launchctl", "bootstrap*"), ("rm", "*/lock"), ("mv", "*/fire\\ *")] {
            let bench = bench(ARMED, BEFORE);
            let kill = format!(
                "if [ ! -f \"$R/ended\" ]; then case \"$*\" in {call}) : >\"$R/ended\"; kill -9 0 ;; esac; fi\n"
            );
            let plain = bench.read(&format!("bin/{program}"));
            let rest = plain.split_once('\n').and_then(|(_, rest)| rest.split_once('\n')).expect("lines").1.to_owned();
            bench.program(&format!("bin/{program}"), &(kill + &rest));
            let (status, _) = bench.run(&shell, "restore.sh");
            assert_eq!((status, bench.has(&own("fire"))), (None, true), "{program}");
            bench.write("boot", "BOOT-2\n");
            run(&bench, &shell);
            assert_eq!(bench.read(&own("links.conf")), EARLIER, "{program}");
            assert!(bench.has("Library/LaunchDaemons/com.macluster.links.plist"), "{program}");
            assert!(bench.has(&own("reverted")) && !bench.has(&own("fire")), "{program}");
        }
    }
}

#[test]
fn what_is_armed_with_half_a_file_goes_back_at_once() {
    for shell in shells() {
        for half in ["", "6", "60\n", "60\nBOOT"] {
            let bench = bench(half, BEFORE);
            run(&bench, &shell);
            assert_back(&bench, 0);
        }
        // What is no number is the usual time.
        let bench = bench("6O\nBOOT-1\nbefore\n", BEFORE);
        run(&bench, &shell);
        assert_back(&bench, 60);
    }
}

#[test]
fn a_record_that_is_half_written_undoes_only_what_it_surely_says() {
    let not_whole = "the record is not whole: going back as far as it says";
    for shell in shells() {
        // Cut inside an address: the interface's other addresses go, no wrong one is set.
        let half = BEFORE.split_once(".3 255").expect("an address").0;
        let bench = bench(ARMED, half);
        run(&bench, &shell);
        let did = bench.did();
        assert!(did.iter().all(|d| !d.contains("10.1.2")), "{did:?}");
        assert!(did.contains(&"60 ifconfig bridge0 addm en3".to_owned()), "{did:?}");
        // Nothing of it has come to the disk: the links that were there before are not lost.
        for half in ["", "# macluster record 1\nboot BOOT-1\nlinks n"] {
            let bench = super::restore::bench(ARMED, half);
            assert!(run(&bench, &shell).contains(not_whole));
            assert_eq!(bench.read(&own("links.conf")), EARLIER);
            assert!(!bench.read("did").contains("ifconfig"), "{:?}", bench.did());
        }
    }
}

#[test]
fn without_links_before_none_are_left() {
    for shell in shells() {
        let bench = bench(ARMED, "boot BOOT-1\nlinks no\ninterface en3 up -\n");
        std::fs::remove_file(bench.path(&own("before.links"))).expect("removed");
        run(&bench, &shell);
        assert!(!bench.has(&own("links.conf")) && !bench.has("Library/LaunchDaemons/com.macluster.links.plist"));
    }
}

#[test]
fn a_bridge_entry_that_cannot_be_put_back_is_kept() {
    for shell in shells() {
        for locked in [true, false] {
            let bench = bench(ARMED, &format!("{BEFORE}entry bridge0\n"));
            bench.write(&own("entry.bridge0"), "{\"Interfaces\":[\"en3\"]}");
            if locked {
                bench.write("locked", "");
            }
            let output = run(&bench, &shell);
            assert_eq!(bench.has(&own("entry.bridge0")), locked, "{output}");
            let key = "plutil -insert VirtualNetworkInterfaces.Bridge.bridge0 -json {\"Interfaces\":[\"en3\"]}";
            assert!(bench.read("did").contains(key), "{:?}", bench.did());
            assert_eq!(output.contains("failed: ") && output.contains("locked"), locked, "{output}");
        }
    }
}
