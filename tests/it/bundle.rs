//! bundle build, inspect and verify, by the real binary, with real wheels.

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
    // A file that is no macluster at all carries no version, and none is invented.
    let inspected = run(dir.path(), &["bundle", "inspect", bundle.to_str().expect("UTF-8"), "-o", "json"]);
    let inspected = inspected.expect(0).json();
    assert_eq!(inspected["agent"], serde_json::json!({"version": null, "architecture": "arm64"}));
    assert!(std::fs::read_to_string(bundle.join("NOTICES")).expect("text").contains("\nmacluster (version unknown)\n"));
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
    header.set_mode(0o644);
    tar.append_data(&mut header, "python/lib/python3.12/LICENSE.txt", &b"PSF!"[..]).expect("appended");
    header.set_mode(0o755);
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
    let notices = std::fs::read_to_string(bundle.join("NOTICES")).expect("text");
    let entry =
        "\nPython 3.12\nin python/\nlicence: not declared by name\n\n---- lib/python3.12/LICENSE.txt ----\nPSF!\n";
    assert!(notices.contains(entry), "{notices}");
    let inspected = run(dir.path(), &["bundle", "inspect", bundle.to_str().expect("UTF-8")]).expect(0).stdout;
    assert!(inspected.contains("  Python 3.12 inside\n"), "{inspected}");
    let message = build(dir.path(), &[&args[..], &["--python-minor", "3.13"]].concat()).expect(1).stderr;
    assert!(message.contains("holds Python 3.12, but 3.13 was asked for"), "{message}");
}

/// The entry of one package in `NOTICES`.
fn entry<'a>(notices: &'a str, title: &str) -> &'a str {
    let rule = format!("\n{}\n", "=".repeat(80));
    let mut entries = notices.split(rule.as_str());
    entries.find(|e| e.starts_with(title)).unwrap_or_else(|| panic!("no entry of {title}"))
}

#[test]
fn a_bundle_says_what_is_in_it_and_under_which_licences() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = build(dir.path(), &[]).expect(0).json();
    let bundle = PathBuf::from(report["path"].as_str().expect("a path"));
    let path = bundle.to_str().expect("UTF-8");

    let found = run(dir.path(), &["bundle", "inspect", path, "-o", "json"]).expect(0).json();
    for field in ["id", "platform", "python_minor", "files", "bytes"] {
        assert_eq!(found[field], report[field], "{field}");
    }
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        (&found["schema_version"], &found["python"], &found["notices"]),
        (&1.into(), &Value::Null, &true.into())
    );
    assert_eq!(found["agent"]["version"], version, "read from the program itself");
    let listed = found["wheels"].as_array().expect("wheels");
    let files: Vec<&str> = listed.iter().filter_map(|w| w["path"].as_str()?.strip_prefix("wheels/")).collect();
    assert_eq!(files.len(), wheels(&bundle).len());
    let wheel = |name: &str| listed.iter().find(|w| w["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let mlx = wheel("mlx-lm");
    let expected = serde_json::json!({"name": "MIT", "from": "expression"});
    assert_eq!((&mlx["version"], &mlx["tags"], &mlx["licence"]), (&"0.32.2".into(), &"py3-none-any".into(), &expected));
    assert_eq!(mlx["bytes"], bundle.join(mlx["path"].as_str().expect("a path")).metadata().expect("there").len());
    assert_eq!(wheel("macluster-inference")["licence"]["name"], "Apache-2.0");
    let human = run(dir.path(), &["bundle", "inspect", path]).expect(0).stdout;
    let row = human.lines().find(|l| l.trim_start().starts_with("mlx-lm ")).expect("a row");
    assert!(row.contains("0.32.2") && row.contains("MIT") && row.contains("py3-none-any"), "{row}");
    assert!(human.contains(&format!("agent: macluster {version}, ")), "{human}");

    // One entry for everything; what a wheel lacks is said.
    let notices = std::fs::read_to_string(bundle.join("NOTICES")).expect("text");
    for wheel in listed {
        let (name, version) = (wheel["name"].as_str().expect("a name"), wheel["version"].as_str().expect("a version"));
        let entry = entry(&notices, &format!("{name} {version}\nin wheels/"));
        let texts = wheel["licence_files"].as_array().expect("files");
        assert_eq!(entry.matches("\n---- ").count(), texts.len(), "{name}");
        assert_eq!(entry.contains("licence files: none inside"), texts.is_empty(), "{name}");
        assert_eq!(entry.contains("licence: not declared by name"), wheel["licence"].is_null(), "{name}");
    }
    assert!(entry(&notices, "uv ").contains("\nlicence: MIT OR Apache-2.0\n"));
    let own = format!("macluster {version}\nin bin/macluster\nlicence: Apache-2.0\n");
    assert!(entry(&notices, &own).contains("TERMS AND CONDITIONS FOR USE"));

    // A bundle from before there were notices is as good as ever.
    let mut old: macluster::phase::bundle::Manifest = serde_json::from_value(manifest(&bundle)).expect("a manifest");
    old.files.retain(|f| f.path != "NOTICES");
    old.id = old.content_id();
    std::fs::write(bundle.join("manifest.json"), serde_json::to_string(&old).expect("JSON")).expect("written");
    std::fs::remove_file(bundle.join("NOTICES")).expect("removed");
    run(dir.path(), &["bundle", "verify", path]).expect(0);
    let human = run(dir.path(), &["bundle", "inspect", path]).expect(0).stdout;
    assert!(human.contains("no file NOTICES"), "{human}");

    // What is no bundle, or lacks a part, is refused as `verify` does it.
    run(dir.path(), &["bundle", "inspect", "nowhere"]).expect(10);
    std::fs::create_dir(dir.path().join("empty")).expect("a folder");
    let ran = run(dir.path(), &["bundle", "inspect", "empty"]).expect(4);
    assert!(ran.stderr.contains("empty is no intact bundle: cannot read empty/manifest.json"), "{}", ran.stderr);
    std::fs::write(bundle.join("wheels").join(files[0]), "PK no zip").expect("written");
    let ran = run(dir.path(), &["bundle", "inspect", path, "-o", "json"]).expect(4);
    assert!(ran.stderr.contains(files[0]) && ran.stdout.is_empty(), "{}", ran.stderr);
}
