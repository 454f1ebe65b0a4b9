//! bundle build and verify, by the real binary, with real wheels.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Ran, command, runtime};

/// The first bytes of a Mach-O arm64 program.
const MACH_O: [u8; 20] = [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];

fn run(dir: &Path, args: &[&str]) -> Ran {
    let output = command(dir).env("MACLUSTER_CACHE", runtime::cache()).args(args).output().expect("it runs");
    Ran {
        status: output.status.code().expect("an exit status"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn build(dir: &Path, more: &[&str]) -> Ran {
    let out = dir.to_str().expect("UTF-8");
    let mut args = vec!["bundle", "build", "--out", out, "-o", "json"];
    args.extend(more);
    run(dir, &args)
}

fn manifest(bundle: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(bundle.join("manifest.json")).expect("readable")).expect("JSON")
}

fn wheels(bundle: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(bundle.join("wheels")).expect("wheels").flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_same_inputs_give_the_same_bundle_and_no_index_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let first = build(dir.path(), &[]).expect(0).json();
    let again = build(dir.path(), &[]).expect(0).json();
    assert_eq!(
        (&first["id"], &first["reused"], &again["reused"]),
        (&again["id"], &Value::Bool(false), &Value::Bool(true))
    );
    let elsewhere = tempfile::tempdir().expect("a folder");
    assert_eq!(build(elsewhere.path(), &[]).expect(0).json()["id"], first["id"]);

    let bundle = PathBuf::from(first["path"].as_str().expect("a path"));
    let one = std::fs::read(bundle.join("manifest.json")).expect("readable");
    let id = first["id"].as_str().expect("an id");
    assert_eq!(std::fs::read(elsewhere.path().join(id).join("manifest.json")).expect("readable"), one);
    for file in ["manifest.json", "requirements.txt"] {
        let text = std::fs::read_to_string(bundle.join(file)).expect("readable");
        assert!(!text.contains("://") && !text.contains("index"), "{file} names an index");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("readable").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, [id], "nothing half-done is left");

    run(dir.path(), &["bundle", "verify", bundle.to_str().expect("UTF-8")]).expect(0);
    std::fs::write(bundle.join("wheels/extra.whl"), "").expect("written");
    let ran = run(dir.path(), &["bundle", "verify", bundle.to_str().expect("UTF-8")]).expect(4);
    assert!(ran.stderr.contains("wheels/extra.whl is not in the manifest"), "{}", ran.stderr);
    // A build over a damaged bundle puts it right.
    build(dir.path(), &[]).expect(0);
    run(dir.path(), &["bundle", "verify", bundle.to_str().expect("UTF-8")]).expect(0);
    run(dir.path(), &["bundle", "verify", "nowhere"]).expect(10);
}

#[test]
fn a_bundle_for_macs_is_built_on_linux_with_every_wheel_for_macos_26() {
    let dir = tempfile::tempdir().expect("a folder");
    let agent = dir.path().join("macluster-mac");
    std::fs::write(&agent, MACH_O).expect("written");
    let args = ["--platform", "macos-arm64", "--agent", agent.to_str().expect("UTF-8"), "--python-minor", "3.12"];
    let report = build(dir.path(), &args).expect(0).json();
    let bundle = PathBuf::from(report["path"].as_str().expect("a path"));
    let names = wheels(&bundle);
    for wanted in ["mlx-0.32.4-cp312-cp312-macosx_26_0_arm64.whl", "mlx_metal-0.32.4-py3-none-macosx_26_0_arm64.whl"] {
        assert!(names.iter().any(|n| n == wanted), "{wanted} is not among {names:?}");
    }
    for name in &names {
        let platform = name.trim_end_matches(".whl").rsplit('-').next().expect("a tag");
        let fits = |tag: &str| {
            tag == "any" || (tag.starts_with("macosx_") && (tag.ends_with("arm64") || tag.ends_with("universal2")))
        };
        assert!(platform.split('.').any(fits), "{name} does not install on a Mac");
        assert!(!name.starts_with("mlx_cpu"), "{name} is for Linux");
    }
    let uv = std::fs::read(bundle.join("bin/uv")).expect("uv");
    assert_eq!(uv[..8], MACH_O[..8], "uv is a Mach-O arm64 program");
    assert_eq!(manifest(&bundle)["platform"], "macos-arm64");
}

#[test]
fn what_does_not_fit_is_refused_with_the_next_action() {
    let dir = tempfile::tempdir().expect("a folder");
    let refuse = |more: &[&str], exit: i32| {
        let ran = build(dir.path(), more).expect(exit);
        let left: Vec<_> = std::fs::read_dir(dir.path()).expect("readable").flatten().map(|e| e.file_name()).collect();
        assert!(left.iter().all(|n| n == "x.tar.gz"), "{left:?} is left");
        ran.stderr
    };
    let other = if cfg!(target_os = "macos") { "linux-x86_64" } else { "macos-arm64" };
    assert!(refuse(&["--platform", other], 1).contains("--agent PATH"));
    let own = crate::support::binary();
    let message = refuse(&["--platform", other, "--agent", own.to_str().expect("UTF-8")], 1);
    assert!(message.contains("does not run on"), "{message}");
    assert!(refuse(&["--platform", "beos"], 2).contains("macos-arm64, linux-x86_64 or host"));
    let message = refuse(&["--python-minor", "3.8"], 1);
    assert!(message.contains("no lock for Python 3.8") && message.contains("3.12"), "{message}");
    assert!(refuse(&["--pip-python", "/nowhere/python"], 1).contains("--pip-python"));
    assert!(refuse(&["--python", "x.tar.gz"], 2).contains("--python-sha256"));
    std::fs::write(dir.path().join("x.tar.gz"), "x").expect("written");
    let zeros = "0".repeat(64);
    let message = refuse(&["--python", "x.tar.gz", "--python-sha256", &zeros], 1);
    assert!(message.contains("not used"), "{message}");
}

/// The relocatable route with an archive made here: this machine's interpreter is not relocatable, but what is looked
/// at is how the archive becomes part of the bundle.
#[test]
fn a_python_archive_becomes_part_of_the_bundle() {
    let dir = tempfile::tempdir().expect("a folder");
    let archive = dir.path().join("python.tar.gz");
    let gz = flate2::write::GzEncoder::new(std::fs::File::create(&archive).expect("file"), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gz);
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(4);
    tar.append_data(&mut header, "python/bin/python3.12", &b"#!py"[..]).expect("appended");
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    tar.append_link(&mut link, "python/bin/python3", "python3.12").expect("appended");
    tar.into_inner().expect("tar").finish().expect("gzip");
    let sum = macluster::phase::bundle::manifest::sha256_file(&archive, &mut |_| {}).expect("readable");
    let args = ["--python", archive.to_str().expect("UTF-8"), "--python-sha256", &sum];
    let report = build(dir.path(), &args).expect(0).json();
    let bundle = PathBuf::from(report["path"].as_str().expect("a path"));
    let manifest = manifest(&bundle);
    assert_eq!((&manifest["python"], &manifest["python_minor"]), (&"python/bin/python3.12".into(), &"3.12".into()));
    assert!(bundle.join("python/bin/python3").symlink_metadata().expect("there").is_file(), "links become files");
    let message = build(dir.path(), &[&args[..], &["--python-minor", "3.13"]].concat()).expect(1).stderr;
    assert!(message.contains("holds Python 3.12, but 3.13 was asked for"), "{message}");
}
