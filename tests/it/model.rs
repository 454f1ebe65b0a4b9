//! `macluster model` on the simulated rack: pushed, resumed, proven, and downloaded from a Hub of this machine.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use macluster::sim::{Rack, RunningRack};
use serde_json::{Value, json};

use crate::support::{Ran, command, live};

/// A folder that mlx-lm would read, as small as can be.
pub fn model(dir: &Path) -> PathBuf {
    let dir = dir.join("Tiny-Model.4bit");
    std::fs::create_dir_all(&dir).expect("a folder");
    std::fs::write(dir.join("config.json"), r#"{"model_type": "llama"}"#).expect("written");
    std::fs::write(dir.join("tokenizer.json"), "{}").expect("written");
    std::fs::write(dir.join(".DS_Store"), "nobody's").expect("written");
    for number in 1..=2 {
        let name = format!("model-0000{number}-of-00002.safetensors");
        std::fs::write(dir.join(name), weights(number)).expect("written");
    }
    let index = json!({"weight_map": {
        "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
    }});
    std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).expect("written");
    dir
}

pub fn weights(number: u8) -> Vec<u8> {
    let header = r#"{"w":{"dtype":"U8","shape":[300000],"data_offsets":[0,300000]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + 300_000, number);
    bytes
}

async fn rack() -> RunningRack {
    Rack::builder().binary(crate::support::binary()).nodes(2).start().await.expect("a rack")
}

/// The model's folder on a node.
fn there(rack: &RunningRack, node: &str) -> PathBuf {
    rack.dir.join("nodes").join(node).join("opt/macluster/models/Tiny-Model.4bit")
}

/// Files sent to each node, and bytes.
fn sent(ran: &Ran) -> Vec<(u64, u64)> {
    let report = ran.json();
    let number = |n: &Value, key: &str| n[key].as_u64().unwrap_or_else(|| panic!("{report}"));
    let nodes = report["nodes"].as_array().expect("nodes");
    nodes.iter().map(|n| (number(n, "files_sent"), number(n, "bytes_sent"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_sent_once_proven_and_mended() {
    let rack = rack().await;
    let desk = tempfile::tempdir().expect("a folder");
    let source = model(desk.path());
    let path = source.to_str().expect("UTF-8");
    let push = ["model", "push", path, "-o", "json"];
    let check = ["model", "check", "/opt/macluster/models/Tiny-Model.4bit"];

    // Nothing is there, and nothing is asked of nodes that have no program to ask.
    let ran = live::run(&rack, &check).await.expect(6);
    assert!(ran.stdout.contains("there is no macluster on this node yet: `macluster model push`"), "{}", ran.stdout);
    live::run(&rack, &["model", "push", "/nowhere"]).await.expect(10);
    let ran = live::run(&rack, &["model", "push", desk.path().to_str().expect("UTF-8")]).await.expect(3);
    assert!(ran.stderr.contains("config.json"), "{}", ran.stderr);
    live::run(&rack, &["model", "push", path, "--to", "/etc"]).await.expect(2);

    // A disk without room is known before anything is sent, to anybody.
    let small = &rack.node("studio-2").expect("a node").node;
    let free = |kib: u64| small.update(|state| std::mem::replace(&mut state.disk.available_kb, kib)).expect("written");
    let before = free(500 << 10);
    let ran = live::run(&rack, &["model", "push", path]).await.expect(9);
    let told = "studio-2 (slot 2): the disk has 500 MiB left, 1024 MiB are needed";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert!(!there(&rack, "studio-1").join("config.json").exists(), "{}", ran.stderr);
    free(before);

    let ran = live::run(&rack, &["model", "push", path]).await.expect(0);
    assert!(ran.stdout.contains("studio-1 (slot 1): 5 of 5 files sent"), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with("/opt/macluster/models/Tiny-Model.4bit is the same on 2 nodes: 5 files, 600261 bytes\n"),
        "{}",
        ran.stdout
    );
    for node in ["studio-1", "studio-2"] {
        let folder = there(&rack, node);
        assert_eq!(std::fs::read(folder.join("model-00002-of-00002.safetensors")).expect("there"), weights(2));
        assert_eq!(folder.join("config.json").metadata().expect("there").permissions().mode() & 0o777, 0o644);
        assert!(!folder.join(".incoming").exists() && !folder.join(".DS_Store").exists());
    }
    let ran = live::run(&rack, &check).await.expect(0);
    assert_eq!(ran.stdout.matches("5 files, 600261 bytes, as it came").count(), 2, "{}", ran.stdout);
    assert_eq!(sent(&live::run(&rack, &push).await.expect(0)), [(0, 0), (0, 0)], "nothing is sent twice");

    // A file that rots is named with its node, and is all that is sent again.
    let shard = there(&rack, "studio-2").join("model-00001-of-00002.safetensors");
    let mut bytes = std::fs::read(&shard).expect("there");
    bytes[1000] ^= 1;
    std::fs::write(&shard, &bytes).expect("written");
    let ran = live::run(&rack, &check).await.expect(4);
    let told = "studio-2 (slot 2): WRONG, not as it came: another content: model-00001-of-00002.safetensors";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
    assert_eq!(sent(&live::run(&rack, &push).await.expect(0)), [(0, 0), (1, bytes.len() as u64)]);
    assert_eq!(std::fs::read(&shard).expect("there"), weights(1));

    // A push that broke off: what had arrived whole is taken, what was cut off is sent again.
    let folder = there(&rack, "studio-1");
    let incoming = folder.join(".incoming");
    std::fs::create_dir(&incoming).expect("a folder");
    for (name, cut) in [("model-00001-of-00002.safetensors", 0), ("model-00002-of-00002.safetensors", 1)] {
        let bytes = std::fs::read(folder.join(name)).expect("there");
        std::fs::write(incoming.join(name), &bytes[..bytes.len() - cut]).expect("written");
        std::fs::remove_file(folder.join(name)).expect("removed");
    }
    assert_eq!(sent(&live::run(&rack, &push).await.expect(0))[0], (1, bytes.len() as u64));
    live::run(&rack, &check).await.expect(0);

    // A file that the model does not have would be read by nobody, or by somebody: a person must say.
    std::fs::write(folder.join("adapters.safetensors"), "x").expect("written");
    let ran = live::run(&rack, &push).await.expect(9);
    assert!(
        ran.stderr.contains("studio-1 (slot 1): ") && ran.stderr.contains("does not have: adapters.safetensors"),
        "{}",
        ran.stderr
    );
    assert!(folder.join("adapters.safetensors").exists());
    live::done(rack).await;
}

/// A Hub for one model: its list, its files, and what was asked.
fn hub(files: BTreeMap<String, Vec<u8>>, token: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
            let mut lines = Vec::new();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                lines.push(std::mem::take(&mut line).trim().to_owned());
            }
            let Some(first) = lines.first().cloned() else { continue };
            let path = first.split(' ').nth(1).expect("a path").to_owned();
            let range = lines.iter().find_map(|l| l.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
            let from: usize = range.as_deref().and_then(|r| r.trim_end_matches('-').parse().ok()).unwrap_or(0);
            log.lock().expect("no panic").push(format!("{path} from {from}"));
            let allowed = lines.iter().any(|l| l.eq_ignore_ascii_case(&format!("authorization: bearer {token}")));
            let list = || {
                use sha2::Digest;
                let entry = |(path, bytes): (&String, &Vec<u8>)| {
                    let lfs = path
                        .ends_with(".safetensors")
                        .then(|| json!({"oid": hex::encode(sha2::Sha256::digest(bytes))}));
                    json!({"type": "file", "path": path, "size": bytes.len(), "lfs": lfs})
                };
                Value::Array(files.iter().map(entry).collect()).to_string().into_bytes()
            };
            let (status, body) = if !allowed {
                ("401 Unauthorized", Vec::new())
            } else if path == "/api/models/lab/tiny/revision/main" {
                ("200 OK", br#"{"sha":"0123456789abcdef0123"}"#.to_vec())
            } else if path.starts_with("/api/models/lab/tiny/tree/0123456789abcdef0123?") {
                ("200 OK", list())
            } else {
                let file =
                    path.strip_prefix("/lab/tiny/resolve/0123456789abcdef0123/").and_then(|name| files.get(name));
                match file {
                    Some(bytes) if from > 0 => ("206 Partial Content", bytes[from..].to_vec()),
                    Some(bytes) => ("200 OK", bytes.clone()),
                    None => ("404 Not Found", Vec::new()),
                }
            };
            let range = if from > 0 { format!("Content-Range: bytes {from}-/*\r\n") } else { String::new() };
            let head =
                format!("HTTP/1.1 {status}\r\n{range}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut reader.take(0), &mut std::io::sink());
        }
    });
    (port, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_the_hub_is_downloaded_once_and_goes_on_where_it_broke_off() {
    let rack = rack().await;
    let desk = tempfile::tempdir().expect("a folder");
    let source = model(desk.path());
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&source).expect("readable").flatten() {
        files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("readable"));
    }
    files.insert("photo.png".to_owned(), vec![0; 10]);
    let (port, asked) = hub(files, "secret-token");
    let cache = desk.path().join("cache");
    let push = |name: &str, token: &str| {
        let mut command = command(&rack.dir);
        command.args(["model", "push", name, "-o", "json"]).env("MACLUSTER_CACHE", &cache);
        command.env("HF_ENDPOINT", format!("http://127.0.0.1:{port}")).env("HF_TOKEN", token);
        command.stdin(std::process::Stdio::null());
        async move {
            let output = tokio::task::spawn_blocking(move || command.output()).await.expect("joined").expect("it runs");
            Ran {
                status: output.status.code().expect("an exit status"),
                stdout: String::from_utf8(output.stdout).expect("UTF-8"),
                stderr: String::from_utf8(output.stderr).expect("UTF-8"),
            }
        }
    };
    let ran = push("lab/tiny", "").await.expect(9);
    assert!(
        ran.stderr.contains("lab/tiny is not given to anybody: HTTP 401") && ran.stderr.contains("HF_TOKEN"),
        "{}",
        ran.stderr
    );
    let ran = push("lab/other", "secret-token").await.expect(10);
    assert!(ran.stderr.contains("has no model lab/other"), "{}", ran.stderr);

    // Half of a file is there from a download that broke off.
    let folder = cache.join("models/lab--tiny@0123456789ab");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("model-00001-of-00002.safetensors.part"), &weights(1)[..100_000]).expect("written");
    let ran = push("lab/tiny", "secret-token").await.expect(0);
    assert_eq!(ran.json()["to"], "/opt/macluster/models/tiny");
    assert!(!ran.stderr.contains("secret-token"), "{}", ran.stderr);
    let log = asked.lock().expect("no panic").clone();
    assert!(log.iter().any(|l| l.ends_with("/model-00001-of-00002.safetensors from 100000")), "{log:?}");
    assert!(!log.iter().any(|l| l.contains("photo.png")), "{log:?}");
    let arrived = rack.dir.join("nodes/studio-2/opt/macluster/models/tiny");
    assert_eq!(std::fs::read(arrived.join("model-00001-of-00002.safetensors")).expect("there"), weights(1));
    assert_eq!(std::fs::read_dir(&arrived).expect("there").flatten().count(), 6, "five files and their list");

    // A second time nothing is downloaded; bytes that are not the Hub's are thrown away and told.
    let before = asked.lock().expect("no panic").len();
    push("lab/tiny", "secret-token").await.expect(0);
    let log = asked.lock().expect("no panic").clone();
    assert!(log[before..].iter().all(|l| l.starts_with("/api/")), "{log:?}");
    std::fs::remove_file(folder.join("model-00001-of-00002.safetensors")).expect("removed");
    std::fs::write(folder.join("model-00001-of-00002.safetensors.part"), vec![7; weights(1).len()]).expect("written");
    let ran = push("lab/tiny", "secret-token").await.expect(9);
    assert!(ran.stderr.contains("model-00001-of-00002.safetensors of lab/tiny did not arrive whole"), "{}", ran.stderr);
    push("lab/tiny", "secret-token").await.expect(0);
    live::done(rack).await;
}

/// Links that are there only by what the nodes say: nobody can fetch over them, and the desk sends it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn links_that_carry_nothing_cost_a_warning_and_not_the_model() {
    let builder = Rack::builder().binary(crate::support::binary()).nodes(2).prepared(true);
    let rack = builder.start().await.expect("a rack");
    let desk = tempfile::tempdir().expect("a folder");
    let source = model(desk.path());
    let ran = live::run(&rack, &["model", "push", source.to_str().expect("UTF-8")]).await.expect(0);
    assert!(
        ran.stderr.contains("studio-2: not over this link: studio-1 does not give it: ")
            && ran.stderr.contains("cannot listen on 10.254.")
            && ran
                .stderr
                .contains("studio-2: nobody who has the model reaches it over the links: it gets the model from here"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("studio-2 (slot 2): 5 of 5 files sent, 600261 bytes\n"), "{}", ran.stdout);
    for node in ["studio-1", "studio-2"] {
        assert_eq!(
            std::fs::read(there(&rack, node).join("model-00001-of-00002.safetensors")).expect("there"),
            weights(1)
        );
    }
    live::done(rack).await;
}
