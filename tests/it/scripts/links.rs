//! `templates/links.sh`, which keeps the link networks.

use super::{Bench, interface, shells};

const CONF: &str = "opt/macluster/network/links.conf";
const LOG: &str = "opt/macluster/var/log/links.log";
const EN3: &str = "36:c4:01:23:45:40";
const LINE: &str = "link en3 36:c4:01:23:45:40 10.254.0.1 30 255.255.255.252 10.254.0.2 studio-2\n";

/// A node with these links, as `ifconfig` shows it, whose links.conf is gone after so many looks.
fn bench(conf: &str, shown: &str, looks: u32) -> Bench {
    let bench = Bench::new();
    bench.write(CONF, conf);
    bench.write("shown", shown);
    bench.after(looks, &format!("/bin/rm \"$R/{CONF}\""));
    bench.write("last", &format!("{}\n", looks + 2));
    bench
}

/// Runs it to its end; what it logged between "started" and that, without the time and the node's folder.
fn log(bench: &Bench, shell: &[&str]) -> Vec<String> {
    let (status, output) = bench.run(shell, "links.sh");
    assert_eq!((status, output.as_str()), (Some(0), ""), "{shell:?}: {:?}", bench.did());
    let text = bench.read(LOG).replace(&format!("{}/", bench.path("").display()).replace("//", "/"), "/");
    let mut lines: Vec<String> = text.lines().map(|l| l.trim_start_matches("T ").to_owned()).collect();
    assert_eq!(lines.pop().as_deref(), Some("there is no links.conf: nothing to keep"));
    if lines.first().is_some_and(|l| l == "started") {
        lines.remove(0);
    }
    lines
}

#[test]
fn what_is_right_is_left_alone_and_without_links_conf_it_ends() {
    for shell in shells() {
        let bench = bench(LINE, &interface("en3", EN3, &["10.254.0.1"]), 3);
        assert_eq!(log(&bench, &shell), [""; 0]);
        assert_eq!(bench.did(), [""; 0]);
        // At once, when there is none to begin with.
        assert_eq!(bench.run(&shell, "links.sh").0, Some(0));
        assert_eq!(bench.read("seconds"), "3\n");
    }
}

#[test]
fn of_two_that_fight_it_gives_way_and_comes_back_after_the_window() {
    for shell in shells() {
        // Every address it sets is gone at the next look.
        let bench = bench(LINE, &interface("en3", EN3, &[]), 300);
        let log = log(&bench, &shell);
        let looks: Vec<u32> = bench
            .did()
            .iter()
            .map(|d| d.split(' ').next().expect("a look").parse::<u32>().expect("a number") + 1)
            .collect();
        // The 24th change is the last; 120 looks later the next 24.
        let expected: Vec<u32> = (1..=24).chain(144..=167).chain(287..=300).collect();
        assert_eq!(looks, expected, "{shell:?}");
        let fought = "en3: something else keeps changing it: left alone for 10 minutes";
        let said: Vec<usize> = log.iter().enumerate().filter(|(_, l)| *l == fought).map(|(n, _)| n).collect();
        assert_eq!(said, [24, 49], "once each time, right after the 24th change");
        assert_eq!(log[0], "done: /sbin/ifconfig en3 inet 10.254.0.1 netmask 255.255.255.252");
    }
}

#[test]
fn one_that_fights_does_not_stop_the_others() {
    for shell in shells() {
        let conf = format!("{LINE}link en4 - 10.254.0.5 30 255.255.255.252 10.254.0.6 studio-3\n");
        let en4 = interface("en4", "36:c4:01:23:45:44", &["10.254.0.5"]);
        let bench = bench(&conf, &(interface("en3", EN3, &[]) + &en4), 60);
        bench.show_after(50, &(interface("en3", EN3, &[]) + &interface("en4", "36:c4:01:23:45:44", &[])));
        bench.show_after(51, &(interface("en3", EN3, &[]) + &en4));
        log(&bench, &shell);
        let did = bench.did();
        assert_eq!(did.len(), 25, "{did:?}");
        assert_eq!(did[24], "50 ifconfig en4 inet 10.254.0.5 netmask 255.255.255.252");
    }
}

#[test]
fn waiting_is_said_once_and_again_after_it_was_over() {
    let right = interface("en3", EN3, &["10.254.0.1"]);
    let unplugged = right.replace("status: active", "status: inactive");
    let other = right.replace(EN3, "aa:bb:cc:dd:ee:ff");
    let waits = "en3: no carrier: waiting for it";
    let alone = "en3: is not the interface it was (aa:bb:cc:dd:ee:ff, not 36:c4:01:23:45:40): left alone";
    for shell in shells() {
        for (wrong, line) in [(unplugged.as_str(), waits), (&other, alone), ("", "en3: does not exist")] {
            let bench = bench(LINE, wrong, 12);
            bench.show_after(4, &right);
            bench.show_after(8, wrong);
            assert_eq!(log(&bench, &shell), [line, line], "{shell:?}");
            assert_eq!(bench.did(), [""; 0], "nothing is changed meanwhile");
        }
    }
}

#[test]
fn a_line_that_is_not_whole_harms_nothing() {
    let right = interface("en3", EN3, &["10.254.0.1"]);
    let broken = [
        "link en3\n",
        "link en3 -\n",
        "link en3 - 10.254.0\n",
        "link en3 - 10.254.0.9 30\n",
        "link en3 - 10.254.0.9 30 255.255.255.\n",
        "link en3 - 10.254.0.999 30 255.255.255.252 10.254.0.2 studio-2\n",
        "link en3 - 10.254..9 30 255.255.255.252 10.254.0.2 studio-2\n",
        "link en3 36:c4 10.254.0.9 30 255.255.255.252 10.254.0.2 studio-2\n",
        "link en3;reboot - 10.254.0.9 30 255.255.255.252 10.254.0.2 studio-2\n",
        "link $(reboot) - 10.254.0.9 30 255.255.255.252 10.254.0.2 studio-2\n",
        "link * - 10.254.0.9 30 255.255.255.252 10.254.0.2 studio-2\n",
    ];
    for shell in shells() {
        for line in broken {
            let bench = bench(&format!("# macluster links 1\nscript 00\n{line}"), &right, 3);
            let log = log(&bench, &shell);
            assert_eq!(bench.did(), [""; 0], "{line}");
            assert_eq!(log.len(), 1, "said once: {log:?}");
            assert!(log[0].starts_with("links.conf: not understood, left alone: link "), "{log:?}");
        }
        // Lines of a later version and empty ones are nobody's fault.
        let bench = bench(&format!("\nroute en3 10.0.0.0\nlink\u{a0}en3\n{LINE}"), &right, 3);
        assert_eq!((log(&bench, &shell), bench.did()), (Vec::new(), Vec::new()));
    }
}

#[test]
fn a_links_conf_that_is_half_written_keeps_what_is_whole() {
    let shown = interface("en3", EN3, &[]) + &interface("en4", "36:c4:01:23:45:44", &["10.254.0.5"]);
    for shell in shells() {
        // Cut inside the address of the second: as it stands, it would be another address.
        let half = format!("# macluster links 1\n{LINE}link en4 - 10.254.0.5 30 255.255.255.2");
        let bench = bench(&half, &shown, 1);
        assert_eq!(log(&bench, &shell), ["done: /sbin/ifconfig en3 inet 10.254.0.1 netmask 255.255.255.252"]);
        assert_eq!(bench.did().len(), 1);
    }
}

#[test]
fn other_netmasks_are_recognised_as_ifconfig_writes_them() {
    for shell in shells() {
        let shown = interface("en3", EN3, &["10.254.0.1"]).replace("0xfffffffc", "0xffffff00");
        let bench = bench("link en3 - 10.254.0.1 24 255.255.255.0 10.254.0.2 studio-2\n", &shown, 2);
        assert_eq!((log(&bench, &shell), bench.did()), (Vec::new(), Vec::new()));
    }
}

#[test]
fn the_log_is_kept_short() {
    for shell in shells() {
        let bench = bench(LINE, &interface("en3", EN3, &[]), 30);
        let full = "T line\n".repeat(1990);
        bench.write(LOG, &full);
        bench.write(&format!("{LOG}.old"), "T long ago\n");
        assert_eq!(log(&bench, &shell).len(), 16, "{shell:?}");
        let old = bench.read(&format!("{LOG}.old"));
        assert_eq!(old.lines().count(), 2000);
        assert!(old.starts_with("T line\n") && !old.contains("long ago"));
        // A later start counts what is there.
        assert_eq!(bench.run(&shell, "links.sh").0, Some(0));
        assert_eq!(bench.read(LOG).lines().count(), 19);
    }
}
