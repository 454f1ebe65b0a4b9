//! Garbage: no reader ever panics, and every error names its tool.

use macluster::model::facts::Session;
use macluster::model::{Fact, FactError, Transcript};
use macluster::parse::probe::probes;
use macluster::parse::{
    assemble, date, defaults, df, fdesetup, hardware, ibv_devices, ibv_devinfo, ifconfig, ioclasscount, netstat,
    networksetup, ping, pmset, ps, rdma_ctl, socketfilterfw, sudo, sw_vers, sysctl, thunderbolt,
};
use proptest::prelude::*;

use super::fixture;

const FIXTURES: [&str; 13] = [
    "system_profiler.json",
    "networksetup.txt",
    "ifconfig.txt",
    "ibv_devices.txt",
    "ibv_devices-none.txt",
    "ibv_devinfo.txt",
    "ibv_devinfo-none.txt",
    "sw_vers.txt",
    "sysctl.txt",
    "netstat.txt",
    "netstat-old.txt",
    "ping.txt",
    "networksetup.txt",
];

/// Every reader reads this; errors must be fit to be shown.
fn feed(text: &str) {
    fn check<T>(fact: Fact<T>, tool: &str, text: &str) {
        let Err(FactError { tool: named, line, message, .. }) = fact else { return };
        assert!(named.starts_with(tool), "{named}");
        assert!(line.is_none_or(|l| (1..=text.lines().count() + 1).contains(&l)), "{line:?} of {text:?}");
        assert!(!message.is_empty() && message.chars().all(|c| !c.is_control()), "{message:?}");
        assert!(message.chars().count() < 1000, "{message}");
    }
    check(thunderbolt::parse(text), "system_profiler", text);
    check(hardware::parse(text), "system_profiler", text);
    check(networksetup::parse(text), "networksetup", text);
    check(ifconfig::parse(text), "ifconfig", text);
    check(ibv_devices::parse(text), "ibv_devices", text);
    check(ibv_devinfo::parse(text), "ibv_devinfo", text);
    check(rdma_ctl::parse(text), "rdma_ctl", text);
    check(sw_vers::parse(text), "sw_vers", text);
    check(sysctl::parse(text), "sysctl", text);
    check(netstat::parse(text), "netstat", text);
    check(ping::parse(text), "ping", text);
    check(sudo::classify(Some(1), text), "sudo", text);
    check(date::parse(text), "date", text);
    check(pmset::parse(text), "pmset", text);
    check(fdesetup::parse(text), "fdesetup", text);
    check(defaults::switch(text, "AutomaticDownload"), "defaults", text);
    check(df::parse(text), "df", text);
    check(ps::parse(text), "ps", text);
    check(socketfilterfw::parse(text), "socketfilterfw", text);
    check(ioclasscount::parse(text), "ioclasscount", text);
}

/// All of a node's transcripts print this.
fn feed_all(stdout: &str, stderr: &str, exit: Option<i32>) {
    let all: Vec<Transcript> = probes()
        .iter()
        .map(|p| Transcript {
            probe: p.id.to_owned(),
            argv: vec![p.program.to_owned()],
            exit,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            truncated: false,
            error: None,
        })
        .collect();
    let _ = assemble::facts(&all, Session::default());
}

#[test]
fn every_fixture_may_end_anywhere() {
    for name in FIXTURES {
        let text = fixture(name);
        let step = (text.len() / 120).max(1);
        for end in (0..text.len()).step_by(step) {
            feed(&text[..text.floor_char_boundary(end)]);
        }
    }
}

#[test]
fn large_garbage_takes_no_time_that_grows_with_its_square() {
    let began = std::time::Instant::now();
    for piece in [
        "{",
        "[",
        "{\"a\":",
        "hca_id: x\n",
        "en0: flags=1<UP> mtu 1\n\tinet 1.2.3.4\n",
        "\n",
        "a.b: c\n",
        ":",
        "GID[",
        "\u{feff}",
    ] {
        let text = piece.repeat(80_000 / piece.len());
        feed(&text);
    }
    feed(&(0..8_000).fold(String::new(), |text, n| text + &format!("hca_id: rdma_en{n}\n")));
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

/// Words and signs the tools use, in any order.
fn soup() -> impl Strategy<Value = String> {
    let words = prop_oneof![
        Just("Hardware Port: "),
        Just("Device: "),
        Just("en0: flags=8863<UP> mtu 1500\n"),
        Just("\tinet "),
        Just("\tinet6 "),
        Just("\tether "),
        Just(" netmask 0x"),
        Just(" --> "),
        Just("hca_id:\t"),
        Just("\t\t\tGID["),
        Just("]:\t"),
        Just("\t\t\tstate:\t"),
        Just("Destination Gateway Flags Netif\n"),
        Just("default "),
        Just("10.254/"),
        Just("    device  node GUID\n"),
        Just("rdma_en3 "),
        Just("{\"SPThunderboltDataType\": ["),
        Just("{\"receptacle_1_tag\": {\"receptacle_id_key\": \"1\"}, \"_items\": ["),
        Just("]}"),
        Just("ProductVersion: "),
        Just(" packets transmitted, "),
        Just("min/avg/max = "),
        Just("\n"),
        Just("\r\n"),
        Just("%"),
        Just(":"),
        Just("é"),
    ];
    let piece =
        prop_oneof![3 => words.prop_map(str::to_owned), 1 => "[0-9a-f.:/<>{}\\[\\]\", -]{0,8}", 1 => "\\PC{0,3}"];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        feed(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        feed(&text);
    }

    #[test]
    fn the_tools_words_in_any_order(text in soup(), other in soup(), exit in proptest::option::of(0..130)) {
        feed(&text);
        feed_all(&text, &other, exit);
    }

    #[test]
    fn damaged_fixtures(which in 0..FIXTURES.len(), at in any::<prop::sample::Index>(), len in 0..60_usize, put in "\\PC{0,8}") {
        let text = fixture(FIXTURES[which]);
        let start = text.floor_char_boundary(at.index(text.len()));
        let end = text.floor_char_boundary((start + len).min(text.len()));
        let damaged = format!("{}{put}{}", &text[..start], &text[end..]);
        feed(&damaged);
        feed_all(&damaged, &put, Some(0));
    }
}

#[test]
fn every_reader_is_fuzzed() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let (readers, fuzz) = (read("src/parse/mod.rs"), read("tests/fuzz/src/main.rs"));
    for reader in readers.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')) {
        // `probe` reads nothing; `assemble` is fed through all checks.
        let fed = fuzz.contains(&format!("{reader}::")) || reader == "probe";
        assert!(fed, "{reader} has no fuzz target");
    }
    for target in fuzz.lines().filter_map(|l| l.trim().strip_prefix("(\"")?.split('"').next()) {
        let corpus = root.join("tests/fuzz/corpus").join(target);
        if !["a", "b"].contains(&target) {
            assert!(corpus.is_dir(), "{target} has no corpus");
        }
    }
}
