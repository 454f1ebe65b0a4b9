use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::phase::bundle::Platform;
use crate::phase::bundle::manifest::MANIFEST_VERSION;

/// A node with an install folder of its own.
struct Node {
    dir: TempDir,
    layout: Layout,
}

fn node() -> Node {
    let dir = tempfile::tempdir().expect("tempdir");
    let layout = Layout::new(&dir.path().to_string_lossy(), "/opt/macluster");
    Node { dir, layout }
}

/// A bundle of these (path, content, mode).
fn bundle(files: &[(&str, &str, u32)]) -> Manifest {
    let entry = |&(path, content, mode): &(&str, &str, u32)| FileEntry {
        path: path.to_owned(),
        size: content.len() as u64,
        sha256: hex::encode(Sha256::digest(content)),
        mode,
    };
    let mut manifest = Manifest {
        schema_version: MANIFEST_VERSION,
        id: String::new(),
        platform: Platform::LinuxX8664,
        python_minor: "3.12".into(),
        python: None,
        macluster_version: "1".into(),
        requirements: Vec::new(),
        files: files.iter().map(entry).collect(),
    };
    manifest.id = manifest.content_id();
    manifest
}

fn text(manifest: &Manifest) -> String {
    serde_json::to_string(manifest).expect("JSON")
}

fn put(path: &Path, content: &str, mode: u32) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
    std::fs::write(path, content).expect("written");
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode");
}

impl Node {
    /// A release of this bundle, whole.
    fn release(&self, files: &[(&str, &str, u32)]) -> PathBuf {
        let manifest = bundle(files);
        let dir = PathBuf::from(self.layout.release(&manifest.id));
        for (path, content, mode) in files {
            put(&dir.join(path), content, *mode);
        }
        put(&dir.join(MANIFEST_FILE), &text(&manifest), 0o644);
        dir
    }

    fn staging(&self, manifest: &Manifest) -> PathBuf {
        PathBuf::from(self.layout.staging(&manifest.id))
    }

    fn gather(&self, manifest: &Manifest) -> Gathered {
        gather(&self.layout, &text(manifest)).expect("gathered")
    }
}

const AGENT: (&str, &str, u32) = ("bin/macluster", "the agent", 0o755);
const WHEEL: (&str, &str, u32) = ("wheels/a-1.whl", "a wheel", 0o644);
const OTHER: (&str, &str, u32) = ("wheels/b-1.whl", "another", 0o644);

#[test]
fn an_empty_node_needs_everything_and_a_second_look_changes_nothing() {
    let node = node();
    let manifest = bundle(&[AGENT, WHEEL]);
    let first = node.gather(&manifest);
    assert_eq!((first.missing.as_slice(), first.kept, first.copied), (&[AGENT.0.into(), WHEEL.0.into()][..], 0, 0));
    assert_eq!(Manifest::read(&node.staging(&manifest)).as_ref(), Ok(&manifest));
    assert_eq!(node.gather(&manifest), first);
    assert!(gather(&node.layout, "{}").is_err());
}

#[test]
fn a_transfer_that_broke_off_goes_on_with_what_is_whole() {
    let node = node();
    let manifest = bundle(&[AGENT, WHEEL, OTHER, ("c", "c", 0o644), ("d", "d", 0o644), ("e/f", "f", 0o644)]);
    let staging = node.staging(&manifest);
    put(&staging.join(AGENT.0), AGENT.1, 0o755);
    // Cut off; the right length with other content, as a file system may leave it after a crash; another mode.
    put(&staging.join(WHEEL.0), "a wh", 0o644);
    put(&staging.join(OTHER.0), "an0ther", 0o644);
    put(&staging.join("c"), "c", 0o600);
    // Things that no transfer leaves.
    let outside = node.dir.path().join("outside");
    put(&outside.join("f"), "f", 0o644);
    symlink(outside.join("f"), staging.join("d")).expect("link");
    symlink(&outside, staging.join("e")).expect("link");
    put(&staging.join("venv/bin/python"), "a trap", 0o755);
    put(&staging.join("installed"), "a lie", 0o644);
    put(&staging.join("wheels/extra/deep"), "extra", 0o644);
    let fifo = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, staging.join("pipe"), rustix::fs::FileType::Fifo, fifo, 0).expect("a pipe");

    let found = node.gather(&manifest);
    assert_eq!((found.kept, found.copied), (1, 0));
    assert_eq!(found.missing, [WHEEL.0, OTHER.0, "c", "d", "e/f"]);
    let left = crate::phase::bundle::manifest::files(&staging).expect("plain files only");
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [AGENT.0, MANIFEST_FILE]);
    assert_eq!(std::fs::read_to_string(outside.join("f")).expect("untouched"), "f");
}

#[test]
fn a_file_with_a_second_name_is_sent_again() {
    let node = node();
    let manifest = bundle(&[WHEEL]);
    let place = node.staging(&manifest).join(WHEEL.0);
    put(&place, WHEEL.1, 0o644);
    std::fs::hard_link(&place, node.dir.path().join("second")).expect("linked");
    assert_eq!(node.gather(&manifest).missing, [WHEEL.0]);
    assert!(!place.exists() && node.dir.path().join("second").exists());
}

#[test]
fn other_releases_give_copies_of_what_is_the_same_under_whatever_name() {
    let node = node();
    let old = node.release(&[AGENT, ("wheels/old-name.whl", WHEEL.1, 0o644), ("x", "mode", 0o644)]);
    put(&old.join("venv/lib/y"), "in the environment", 0o644);
    // The program that was sent first.
    let probe = PathBuf::from(node.layout.staging("probe")).join("bin/macluster");
    put(&probe, "a newer agent", 0o755);
    let manifest = bundle(&[
        ("bin/macluster", "a newer agent", 0o755),
        WHEEL,
        ("venv-copy", "in the environment", 0o644),
        ("x", "mode", 0o755),
    ]);
    let found = node.gather(&manifest);
    assert_eq!((found.kept, found.copied, found.missing), (0, 2, vec!["venv-copy".into(), "x".into()]));
    let copy = node.staging(&manifest).join(WHEEL.0);
    let ino = |path: &Path| path.metadata().expect("there").ino();
    assert_eq!(std::fs::read_to_string(&copy).expect("copied"), WHEEL.1);
    assert_ne!(ino(&copy), ino(&old.join("wheels/old-name.whl")), "two releases share nothing");
    assert_eq!(copy.metadata().expect("there").permissions().mode() & 0o7777, 0o644);
    assert_eq!(node.gather(&manifest).kept, 2);
}

#[test]
fn a_rotten_file_is_never_taken_whatever_its_manifest_says() {
    let node = node();
    let rotten = node.release(&[AGENT, WHEEL, OTHER]);
    put(&rotten.join(WHEEL.0), "a whee1", 0o644);
    let elsewhere = node.dir.path().join("elsewhere");
    put(&elsewhere, OTHER.1, 0o644);
    std::fs::remove_file(rotten.join(OTHER.0)).expect("removed");
    symlink(&elsewhere, rotten.join(OTHER.0)).expect("linked");
    // The same bundle again: its damaged release is repaired with what is whole in it.
    let manifest = bundle(&[AGENT, WHEEL, OTHER]);
    let found = node.gather(&manifest);
    assert_eq!((found.copied, found.missing), (1, vec![WHEEL.0.into(), OTHER.0.into()]));
    assert!(!node.staging(&manifest).join(WHEEL.0).exists());
    // Another release has it whole; one without a readable manifest is looked through by name.
    let other = node.release(&[WHEEL, ("z", "z", 0o644)]);
    put(&other.join(MANIFEST_FILE), "{", 0o644);
    assert_eq!(node.gather(&manifest).missing, [OTHER.0]);
}

#[test]
fn what_stands_in_the_place_of_staging_is_replaced_not_followed() {
    let node = node();
    let manifest = bundle(&[WHEEL]);
    let victim = node.dir.path().join("victim");
    put(&victim.join("precious"), "precious", 0o644);
    std::fs::create_dir_all(node.layout.arrivals()).expect("folder");
    symlink(&victim, node.staging(&manifest)).expect("linked");
    node.gather(&manifest);
    assert!(node.staging(&manifest).symlink_metadata().expect("there").is_dir());
    assert_eq!(std::fs::read_to_string(victim.join("precious")).expect("untouched"), "precious");
}
