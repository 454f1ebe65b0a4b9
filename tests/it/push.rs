//! deploy sends what a node does not have: after a connection that broke, after a desk that was killed, and when most
//! of another bundle is there already. Bytes are counted on the wire.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use macluster::phase::bundle::Manifest;
use macluster::phase::bundle::manifest::{MANIFEST_FILE, RELEASE_EXTRAS, sha256_file};
use macluster::sim::{Rack, RunningRack};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::proxy::{Proxy, relayed};
use crate::support::{Ran, command, runtime};

/// For everything but the files: handshakes, questions, the manifest, what SSH and tar put around each piece.
const AROUND: u64 = 4 << 20;

struct Bench {
    rack: RunningRack,
    proxy: Proxy,
    inventory: PathBuf,
}

impl Bench {
    /// One node behind a relay.
    async fn new() -> Self {
        let prepared = tokio::task::spawn_blocking(|| {
            runtime::bundle();
            (runtime::interpreter(), runtime::tiny_thirds().to_owned())
        });
        let (python, model) = prepared.await.expect("bundle, Python and model");
        let rack = Rack::builder().binary(crate::support::binary()).nodes(1).python(python).model(model);
        let rack = rack.start().await.expect("a rack");
        let (proxy, inventory) = relayed(&rack, 0).await;
        Bench { rack, proxy, inventory }
    }

    fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::from(command(&self.rack.dir));
        command.arg("-f").arg(&self.inventory).args(args).env("MACLUSTER_CACHE", runtime::cache());
        command.stdin(std::process::Stdio::null()).kill_on_drop(true);
        command
    }

    async fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().await.expect("it runs");
        Ran {
            status: output.status.code().expect("an exit status"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    async fn deploy(&self, bundle: &Path) -> Ran {
        self.run(&["deploy", "--yes", "--bundle", text(bundle)]).await
    }

    fn on(&self, path: &str) -> PathBuf {
        self.rack.nodes[0].node.root.join("opt/macluster").join(path)
    }

    /// Bytes of the bundle's files that lie whole in its staging folder, besides the program.
    fn staged(&self, manifest: &Manifest) -> u64 {
        let dir = self.on("staging").join(&manifest.id);
        let whole = |path: &str, sum: &str| sha256_file(&dir.join(path), &mut |_| {}).is_ok_and(|s| s == sum);
        let files = manifest.files.iter().filter(|f| f.path != "bin/macluster");
        files.filter(|f| whole(&f.path, &f.sha256)).map(|f| f.size).sum()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A copy of a bundle with another word in one of its files.
fn other_bundle(from: &Path, to: &Path, file: &str) -> Manifest {
    let mut manifest = Manifest::read(from).expect("a manifest");
    for entry in &mut manifest.files {
        let place = to.join(&entry.path);
        std::fs::create_dir_all(place.parent().expect("a parent")).expect("folder");
        std::fs::copy(from.join(&entry.path), &place).expect("copied");
        if entry.path == file {
            let mut content = std::fs::read(&place).expect("readable");
            content.extend(b"\nanother word\n");
            std::fs::write(&place, &content).expect("written");
            entry.size = content.len() as u64;
            entry.sha256 = sha256_file(&place, &mut |_| {}).expect("readable");
        }
    }
    manifest.id = manifest.content_id();
    std::fs::write(to.join(MANIFEST_FILE), serde_json::to_string(&manifest).expect("JSON")).expect("written");
    manifest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_breaks_off_goes_on_and_another_bundle_sends_one_file() {
    let bench = Bench::new().await;
    let bundle = runtime::bundle();
    let manifest = Manifest::read(bundle).expect("a manifest");
    let program = manifest.files.iter().find(|f| f.path == "bin/macluster").expect("a program").size;
    // The program is sent alone first, and taken from there afterwards.
    let all = manifest.total_bytes() - program;
    let staging = bench.on("staging").join(&manifest.id);

    // A disk without room is known before anything is sent, and what helps is said.
    let small = &bench.rack.nodes[0].node;
    let free = |kib: u64| small.update(|state| std::mem::replace(&mut state.disk.available_kb, kib)).expect("written");
    let before = free(100 << 10);
    let ran = bench.deploy(bundle).await.expect(4);
    let told = "error: Check what a launch needs: studio-1 (slot 1): host.disk-space: only 0.0 GiB are free";
    assert!(ran.stderr.contains(told) && ran.stderr.contains("hint: at studio-1 (slot 1): "), "{}", ran.stderr);
    assert!(!bench.on("staging").exists(), "nothing was sent");
    free(before);
    bench.proxy.mark();

    // The connection breaks when most of it has arrived.
    bench.proxy.cut_after(program + all * 2 / 3);
    let ran = bench.deploy(bundle).await.expect(9);
    assert!(
        ran.stderr.contains("studio-1: the connection broke")
            && ran.stderr.contains("error: Copy the bundle to the nodes"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("what has arrived stays there; the next deploy sends only the rest"), "{}", ran.stderr);
    assert!(!bench.on("releases").join(&manifest.id).exists(), "half a bundle is no release");
    let first = bench.staged(&manifest);
    assert!(first > all / 3 && first < all, "{first} of {all}");
    assert_eq!(bench.staged(&manifest), first);

    // The desk is killed in the middle of the rest.
    let mut desk = bench.command(&["deploy", "--yes", "--bundle", text(bundle)]);
    desk.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut desk = desk.spawn().expect("it runs");
    tokio::select! {
        () = bench.proxy.passed(program + (all - first) * 3 / 4) => {}
        ended = desk.wait() => panic!("the desk has ended before: {ended:?}"),
    }
    desk.kill().await.expect("killed with -9");
    assert!(staging.is_dir(), "what has arrived stays");

    // Whatever a crash may leave: a file of the right length with other content.
    let uv = staging.join("bin/uv");
    let content = std::fs::read(&uv).expect("it has arrived");
    let small = manifest.files.iter().find(|f| f.path == "requirements.txt").expect("listed");
    std::fs::write(staging.join(&small.path), vec![b'#'; usize::try_from(small.size).expect("small")])
        .expect("written");

    let second = bench.staged(&manifest);
    assert!(second > first, "{second} after {first}");

    bench.proxy.mark();
    let ran = bench.deploy(bundle).await.expect(0);
    assert!(ran.stdout.contains("served by 1 rank"), "{}", ran.stdout);
    let rest = all - second;
    let sent = bench.proxy.sent();
    assert!(sent > program && sent < program + rest + AROUND, "{sent} bytes for {program} + at most {rest}");
    assert!(!bench.on("staging").exists(), "nothing half-done is left");
    let release = bench.on("releases").join(&manifest.id);
    manifest.verify(&release, RELEASE_EXTRAS, &mut |_| {}).expect("a whole release");
    assert_eq!(std::fs::read(release.join("bin/uv")).expect("readable"), content);

    // A bundle that differs in one file sends one file, and shares no inode with the release it was made from. This
    // deploy fails later, and its desk handles that: nothing half-done is left.
    let folder = tempfile::tempdir().expect("a folder");
    let other = other_bundle(bundle, folder.path(), "NOTICES");
    let (model, away) = (bench.on("models"), bench.on("models-away"));
    std::fs::rename(&model, &away).expect("moved");
    bench.proxy.mark();
    let ran = bench.deploy(folder.path()).await.expect(9);
    assert!(ran.stderr.contains("there is no model folder"), "{}", ran.stderr);
    let count = manifest.files.len();
    let note = format!("1 of {count} files are sent (1 MiB); {} were on the node", count - 1);
    assert!(ran.stderr.contains(&note), "{}", ran.stderr);
    let sent = bench.proxy.sent();
    assert!(sent > program && sent < program + AROUND, "{sent} bytes for {program}");
    std::fs::rename(&away, &model).expect("moved back");
    assert!(!bench.on("staging").exists(), "nothing half-done is left");
    let second = bench.on("releases").join(&other.id);
    other.verify(&second, RELEASE_EXTRAS, &mut |_| {}).expect("a whole release");
    let inodes = |dir: &Path| -> BTreeMap<String, u64> {
        let of = |path: &String| dir.join(path).metadata().expect("there").ino();
        manifest.files.iter().map(|f| (f.path.clone(), of(&f.path))).collect()
    };
    let (one, two) = (inodes(&release), inodes(&second));
    assert!(one.iter().all(|(path, ino)| two[path] != *ino), "two releases share a file");

    // Removing one leaves the other as it is.
    let ran = bench.run(&["releases", "prune", "--keep", "1"]).await.expect(0);
    assert!(ran.stdout.contains(&other.id) && !second.exists(), "{}", ran.stdout);
    manifest.verify(&release, RELEASE_EXTRAS, &mut |_| {}).expect("a whole release");
    bench.run(&["undeploy", "--yes"]).await.expect(0);

    // A connection that breaks once is opened again, and the same deploy sends the rest over the new one.
    let mut desk = bench.command(&["deploy", "--yes", "--bundle", text(bundle)]);
    let desk = desk.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let desk = tokio::spawn(desk.expect("it runs").wait_with_output());
    bench.proxy.passed(program + all / 2).await;
    bench.proxy.break_now();
    let output = desk.await.expect("joined").expect("its output");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    for wanted in ["copying goes on where it stopped", "the connection broke, and was opened again"] {
        assert!(said.contains(wanted), "{said}");
    }
    let sent = bench.proxy.sent();
    assert!(sent < program + all * 3 / 2, "{sent} bytes for {program} + {all}");
    manifest.verify(&release, RELEASE_EXTRAS, &mut |_| {}).expect("a whole release");
    bench.run(&["undeploy", "--yes"]).await.expect(0);

    // One that breaks while something else is done ends the deploy. It is taken back over a new connection, under the
    // lock again: nothing is left.
    let mut desk = bench.command(&["deploy", "--yes", "--bundle", text(bundle)]);
    let desk = desk.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn();
    let mut desk = desk.expect("it runs");
    let mut lines = BufReader::new(desk.stderr.take().expect("piped")).lines();
    let mut said = String::new();
    while let Some(line) = lines.next_line().await.expect("readable") {
        let _ = writeln!(said, "{line}");
        if line.starts_with("==> Install") {
            bench.proxy.break_now();
        }
    }
    assert_eq!(desk.wait().await.expect("ended").code(), Some(9), "{said}");
    assert!(said.contains("studio-1 (slot 1): the connection broke"), "{said}");
    assert!(said.contains("the connection broke, and was opened again"), "{said}");
    assert!(!said.contains("removing what arrived failed"), "{said}");
    for left in ["staging", "current", "etc/rank.json", "etc.next"] {
        assert!(!bench.on(left).exists(), "{left}: {said}");
    }
    let ran = bench.deploy(bundle).await.expect(0);
    assert!(ran.stdout.contains("served by 1 rank"), "{}", ran.stdout);
    bench.run(&["undeploy", "--yes"]).await.expect(0);
    assert_eq!(bench.rack.tripwire(), "", "something reached beyond a node");
    bench.rack.stop().await.expect("stops");
}
