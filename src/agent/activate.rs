//! The switch between releases: one symbolic link, replaced as a whole.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::layout::Layout;

/// The id of the active release; none when nothing is active.
pub fn active(layout: &Layout) -> Option<String> {
    let aim = std::fs::read_link(layout.current()).ok()?;
    aim.file_name().map(|n| n.to_string_lossy().into_owned())
}

/// Makes a release the active one, or none. After a crash at any moment the link is the old or the new one.
///
/// # Errors
/// In words.
pub fn activate(layout: &Layout, id: Option<&str>) -> Result<(), String> {
    let current = layout.current();
    let base = layout.base();
    match id {
        Some(id) => {
            if !Path::new(&layout.release(id)).join("manifest.json").is_file() {
                return Err(format!("{} is no release", layout.release(id)));
            }
            let fresh = format!("{current}.new");
            let _ = std::fs::remove_file(&fresh);
            // Relative, so that the folder can be looked at from anywhere.
            symlink(format!("releases/{id}"), &fresh).map_err(|e| format!("cannot create {fresh}: {e}"))?;
            std::fs::rename(&fresh, &current).map_err(|e| format!("cannot replace {current}: {e}"))?;
        }
        None => match std::fs::remove_file(&current) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("cannot remove {current}: {e}"));
            }
            _ => {}
        },
    }
    File::open(&base).and_then(|dir| dir.sync_all()).map_err(|e| format!("cannot write {base} to disk: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_moves_between_releases_and_away() {
        let dir = tempfile::tempdir().expect("tempdir");
        let layout = Layout::new(&dir.path().to_string_lossy(), "/opt/macluster");
        for id in ["aa", "bb"] {
            std::fs::create_dir_all(layout.release(id)).expect("folder");
            std::fs::write(format!("{}/manifest.json", layout.release(id)), "{}").expect("file");
        }
        assert_eq!(active(&layout), None);
        activate(&layout, Some("aa")).expect("first");
        activate(&layout, Some("bb")).expect("second");
        assert_eq!(active(&layout).as_deref(), Some("bb"));
        assert!(Path::new(&layout.current()).join("manifest.json").is_file());
        assert!(activate(&layout, Some("cc")).expect_err("unknown").contains("no release"));
        assert_eq!(active(&layout).as_deref(), Some("bb"), "a refused switch changes nothing");
        activate(&layout, None).expect("away");
        activate(&layout, None).expect("again");
        assert_eq!(active(&layout), None);
    }
}
