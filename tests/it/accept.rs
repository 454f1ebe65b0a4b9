//! `macluster accept` on a simulated rack with real engines: the report, the comparison, and a service that is back.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::deploy::Bench;
use crate::support::command;
use crate::support::proxy::relayed;

/// In little time.
const SMALL: [&str; 6] = ["accept", "--yes", "--idle", "1", "--needle-tokens", "120"];

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a report")).expect("JSON")
}

fn step<'a>(report: &'a Value, id: &str) -> &'a Value {
    let steps = report["steps"].as_array().expect("steps");
    steps.iter().find(|s| s["step"] == id).unwrap_or_else(|| panic!("no step {id} in {report:#}"))
}

/// The exit status that the steps stand for, by the documented order.
fn expected(report: &Value) -> i32 {
    let failed = |id: &str| step(report, id)["verdict"] == "fail";
    let steps = report["steps"].as_array().expect("steps");
    let others = steps.iter().filter(|s| s["verdict"] == "fail").filter_map(|s| s["step"].as_str());
    let others = others.filter(|s| !["restart", "link-outliers"].contains(s)).count();
    match () {
        () if failed("restart") => 9,
        () if others > 0 => 6,
        () if failed("link-outliers") => 4,
        () => 0,
    }
}

/// Processes of this machine that measure on that node.
fn measuring(node: &Path) -> Vec<Pid> {
    let output = std::process::Command::new("/bin/ps").args(["-axo", "pid,command"]).output().expect("ps runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = node.to_string_lossy().into_owned();
    let ours = text.lines().filter(|l| l.contains("macluster_inference.bench") && l.contains(&name));
    let pid = |l: &str| l.split_whitespace().next()?.parse().ok().and_then(Pid::from_raw);
    ours.filter_map(pid).collect()
}

/// Starts an acceptance run, waits until something measures on the second node, and does this to it.
async fn disturbed(bench: &Bench, inventory: &Path, report: &str, what: impl FnOnce(Pid, &[Pid])) -> (i32, String) {
    let mut run = tokio::process::Command::from(command(&bench.rack.dir));
    run.arg("-f").arg(inventory).args(["accept", "--yes", "--no-requests", "--report", report]);
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = run.spawn().expect("it runs");
    let own = child.id().and_then(|p| i32::try_from(p).ok()).and_then(Pid::from_raw).expect("a pid");
    let node = bench.rack.dir.join("nodes/studio-2");
    let ended = tokio::spawn(child.wait_with_output());
    let began = Instant::now();
    loop {
        let found = measuring(&node);
        if !found.is_empty() {
            what(own, &found);
            break;
        }
        assert!(!ended.is_finished() && began.elapsed() < Duration::from_secs(120), "nothing ever measured");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let output = tokio::time::timeout(Duration::from_secs(400), ended).await.expect("in time").expect("joined");
    let output = output.expect("its output");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rack_is_accepted_and_compared() {
    let bench = Bench::of(3).await;
    let ran = bench.run(&SMALL).await.expect(10);
    assert!(ran.stderr.contains("hint: `macluster deploy` brings it there"), "{}", ran.stderr);
    bench.deploy().await.expect(0);
    let before = bench.status(0).await;

    // Nobody to ask, nothing said: nothing is stopped.
    bench.run(&["accept", "--idle", "0"]).await.expect(2);

    let ran = bench.run(&[&SMALL[..], &["--report", "first", "-o", "json"]].concat()).await;
    assert!(bench.rack.dir.join("first").is_dir(), "{}\n{}", ran.stdout, ran.stderr);
    let report = read(&bench.rack.dir.join("first/report.json"));
    assert_eq!(ran.json(), report, "what is printed is what is filed");
    assert_eq!(ran.status, expected(&report), "{report:#}");
    let ids: Vec<&str> = report["steps"].as_array().expect("steps").iter().filter_map(|s| s["step"].as_str()).collect();
    let wanted =
        ["answer", "needle", "requests-2", "requests-8", "idle", "stop", "links", "link-outliers", "all-reduce"];
    assert_eq!(ids, [&wanted[..], &["restart"]].concat());
    for id in ids.iter().filter(|s| !["needle", "link-outliers"].contains(s)) {
        assert_eq!(step(&report, id)["verdict"], "pass", "{report:#}");
    }
    let figures = &report["figures"];
    assert!(
        figures["needle"]["size"]["prompt_tokens"].as_u64().is_some_and(|n| (120..300).contains(&n)),
        "{figures:#}"
    );
    let said = figures["needle"]["answer"].as_str().expect("an answer").to_lowercase();
    assert_eq!(figures["needle"]["found"], said.contains("kingfisher"), "{figures:#}");
    let each = |i: usize| figures["requests"][i]["each_tokens_per_second"].as_array().map(Vec::len);
    assert_eq!((each(0), each(1)), (Some(2), Some(8)));
    // Three ranks over the management network: three pairs, one after the other.
    let links = figures["links"].as_array().expect("links");
    let mut rounds: Vec<u64> = links.iter().filter_map(|l| l["round"].as_u64()).collect();
    rounds.sort_unstable();
    assert_eq!(rounds, [1, 2, 3]);
    assert!(links.iter().all(|l| l["gbps"].as_f64().is_some_and(|g| g > 0.0)), "{links:#?}");
    assert!(figures["all_reduce"].as_array().is_some_and(|a| a.len() == 4), "{figures:#}");
    assert!(figures["start"]["ready_s"].as_f64().is_some_and(|s| s > 0.0), "{figures:#}");
    assert_eq!(report["service"]["over"], "management");
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(3));
    assert!(
        report["nodes"].as_array().expect("nodes").iter().all(|n| n["serial"].is_string() && n["build"].is_string())
    );
    assert_eq!(report["inventory"], std::fs::read_to_string(&bench.rack.inventory).expect("readable"));
    let page = std::fs::read_to_string(bench.rack.dir.join("first/report.md")).expect("a page");
    let serial = report["nodes"][1]["serial"].as_str().expect("a serial");
    assert!(page.contains("| requests-8 | pass |") && page.contains(serial) && page.contains("## Links"), "{page}");
    let after = bench.status(0).await;
    assert_ne!(after[0]["engine_pid"], before[0]["engine_pid"], "it was restarted, and serves");

    // Reports are not overwritten, and what is no report is not compared with.
    bench.run(&[&SMALL[..], &["--report", "first"]].concat()).await.expect(2);
    let doctored = |change: &dyn Fn(&mut Value)| {
        let mut old = report.clone();
        change(&mut old);
        std::fs::write(bench.rack.dir.join("old.json"), old.to_string()).expect("written");
    };
    doctored(&|old| old["schema_version"] = json!(99));
    let compare = ["accept", "--yes", "--no-requests", "--report", "second", "--compare", "old.json", "-o", "json"];
    let ran = bench.run(&compare).await.expect(3);
    assert!(ran.stderr.contains("has schema_version 99; this macluster compares with 1"), "{}", ran.stderr);
    bench.run(&[&compare[..], &["--no-stop"]].concat()).await.expect(2);
    let same = bench.status(0).await;
    assert_eq!(same[0]["engine_pid"], after[0]["engine_pid"], "what is refused stops nothing");

    // An older report with a link as no cable is.
    doctored(&|old| old["figures"]["links"][0]["gbps"] = json!(1000.0));
    let ran = bench.run(&compare).await;
    let second = ran.json();
    assert_eq!(ran.status, if expected(&second) == 0 { 4 } else { expected(&second) }, "{second:#}");
    let slower = second["comparison"]["slower"].as_array().expect("a list");
    let ends = [&links[0]["a"]["node"], &links[0]["b"]["node"]].map(|n| n.as_str().expect("a node"));
    let name = format!("link {}: bandwidth", ends.join(" – "));
    let link = slower.iter().find(|s| s["figure"] == *name).expect("told");
    assert!(link["percent"].as_f64().is_some_and(|p| p > 90.0), "{link}");
    let gone = second["comparison"]["only_old"].as_array().expect("a list");
    assert!(gone.contains(&json!("answer: first token")), "{gone:?}");
    assert_eq!(step(&second, "needle")["verdict"], "skip");

    bench.run(&["stop"]).await.expect(0);
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_breaks_a_measurement_the_service_runs_again() {
    let bench = Bench::of(3).await;
    bench.deploy().await.expect(0);

    let inventory = &bench.rack.inventory;

    // A rank that is killed while it measures.
    let (code, said) = disturbed(&bench, inventory, "third", |_, ranks| {
        for pid in ranks {
            // The watching process ends with the one it watches.
            let _ = kill_process(*pid, Signal::KILL);
        }
    })
    .await;
    let third = read(&bench.rack.dir.join("third/report.json"));
    assert_eq!((code, step(&third, "links")["verdict"].as_str()), (6, Some("fail")), "{said}");
    assert!(step(&third, "links")["messages"].to_string().contains("studio-2"), "{third:#}");
    assert_eq!(step(&third, "restart")["verdict"], "pass", "{third:#}");
    assert_eq!(step(&third, "requests-8")["verdict"], "skip");
    bench.status(0).await;

    // Ctrl-C while links are measured.
    let (code, said) =
        disturbed(&bench, inventory, "fourth", |own, _| kill_process(own, Signal::INT).expect("asked")).await;
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("hint: the service runs again; nothing was filed away"), "{said}");
    bench.status(0).await;
    assert!(!bench.rack.dir.join("fourth").exists());

    // The desk loses a node for a moment.
    let (proxy, relayed) = relayed(&bench.rack, 1).await;
    let (code, said) = disturbed(&bench, &relayed, "fifth", |_, _| proxy.break_now()).await;
    let fifth = read(&bench.rack.dir.join("fifth/report.json"));
    assert_eq!((code, step(&fifth, "links")["verdict"].as_str()), (6, Some("fail")), "{said}");
    assert_eq!(step(&fifth, "restart")["verdict"], "pass", "{fifth:#}");
    assert!(said.contains("studio-2: the connection broke, and was opened again"), "{said}");
    bench.status(0).await;

    bench.run(&["stop"]).await.expect(0);
    bench.done().await;
}
