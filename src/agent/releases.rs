//! Releases on this node: what is there, what is active, what was before; and the step back.

use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::activate;
use super::config::{self, AgentFile, RankFile};
use super::layout::Layout;

/// What lies on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Releases {
    /// Active release.
    pub active: Option<String>,
    /// What the configuration in place belongs to.
    pub current: Option<Configured>,
    /// What the configuration before it belongs to.
    pub previous: Option<Configured>,
    /// Every release, newest first.
    pub releases: Vec<Release>,
}

/// What a configuration belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    /// Release.
    pub release: String,
    /// Launch.
    pub launch: String,
    /// Name of the model.
    pub model: String,
    /// Number of ranks.
    pub world_size: u32,
    /// Until when its certificates hold.
    pub certificates_until: Timestamp,
}

/// One release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Id.
    pub id: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was installed; none when that was never finished.
    pub installed_at: Option<Timestamp>,
}

/// Looks at this node.
///
/// # Errors
/// When the folder of releases cannot be read.
pub fn look(layout: &Layout) -> Result<Releases, String> {
    let folder = layout.releases();
    let mut releases = Vec::new();
    match std::fs::read_dir(&folder) {
        Ok(entries) => {
            for entry in entries.flatten().filter(|e| e.path().is_dir()) {
                let installed = entry.path().join("installed").metadata().and_then(|m| m.modified()).ok();
                releases.push(Release {
                    id: entry.file_name().to_string_lossy().into_owned(),
                    bytes: size(&entry.path()),
                    installed_at: installed.and_then(stamp),
                });
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(format!("cannot read {folder}: {e}")),
    }
    releases.sort_by(|a, b| b.installed_at.cmp(&a.installed_at).then_with(|| a.id.cmp(&b.id)));
    Ok(Releases {
        active: activate::active(layout),
        current: configured(&layout.etc()),
        previous: configured(&layout.etc_previous()),
        releases,
    })
}

fn stamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}

/// What a folder of configuration belongs to.
pub fn configured(folder: &str) -> Option<Configured> {
    let rank: RankFile = config::read(&format!("{folder}/rank.json")).ok()?;
    let agent: AgentFile = config::read(&format!("{folder}/agent.json")).ok()?;
    Some(Configured {
        release: rank.release,
        launch: agent.launch,
        model: rank.model.id,
        world_size: rank.world_size,
        certificates_until: agent.certificates_until,
    })
}

/// Bytes below a folder; links count nothing.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let one = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) if meta.is_file() => meta.len(),
        _ => 0,
    };
    entries.flatten().map(one).sum()
}

fn rename(from: &str, to: &str) -> Result<(), String> {
    std::fs::rename(from, to).map_err(|e| format!("cannot rename {from}: {e}"))
}

fn remove(folder: &str) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("cannot remove {folder}: {e}")),
        _ => Ok(()),
    }
}

fn there(folder: &str) -> bool {
    Path::new(folder).is_dir()
}

/// Puts the next configuration in place and keeps the one before. Here and below: one process, so that nobody at a desk
/// can be cut off half-way, and what a crash of the machine leaves half-done is finished by the next call.
///
/// # Errors
/// When a folder cannot be renamed or removed, or there is no next one and none in place.
pub fn switch(layout: &Layout) -> Result<(), String> {
    finish_swap(layout)?;
    let (now, before, next) = (layout.etc(), layout.etc_previous(), layout.etc_next());
    if !there(&next) {
        return if there(&now) { Ok(()) } else { Err(format!("there is no configuration: {next} is missing")) };
    }
    if there(&now) {
        remove(&before)?;
        rename(&now, &before)?;
    }
    rename(&next, &now)
}

/// Takes [`switch`] back, wherever it stands: as long as the next configuration waits, the one in place is the old one.
///
/// # Errors
/// When there is nothing to put back.
pub fn restore(layout: &Layout) -> Result<(), String> {
    let (now, before, next) = (layout.etc(), layout.etc_previous(), layout.etc_next());
    if there(&next) && there(&now) {
        return Ok(());
    }
    if !there(&before) {
        return if there(&now) { Ok(()) } else { Err(format!("there is no configuration: {before} is missing")) };
    }
    remove(&now)?;
    rename(&before, &now)
}

/// Exchanges the configuration with the one before it.
///
/// # Errors
/// When there is none before it, or a folder cannot be renamed.
pub fn swap(layout: &Layout) -> Result<(), String> {
    let (now, before, aside) = (layout.etc(), layout.etc_previous(), aside(layout));
    if finish_swap(layout)? {
        return Ok(());
    }
    if !there(&before) {
        return Err(format!("there is no configuration before this one: {before} is missing"));
    }
    rename(&now, &aside)?;
    finish_swap(layout).map(drop)
}

fn aside(layout: &Layout) -> String {
    format!("{}.swap", layout.etc())
}

/// Finishes an exchange that was begun; false when none was.
fn finish_swap(layout: &Layout) -> Result<bool, String> {
    let (now, before, aside) = (layout.etc(), layout.etc_previous(), aside(layout));
    if !there(&aside) {
        return Ok(false);
    }
    if !there(&now) {
        rename(&before, &now)?;
    }
    if there(&before) {
        // Both are there: what lies aside was left by something else.
        return remove(&aside).map(|()| false);
    }
    rename(&aside, &before).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders of configuration with a word in each: in place, before, next.
    fn state(layout: &Layout) -> [String; 3] {
        let folders = [layout.etc(), layout.etc_previous(), layout.etc_next()];
        folders.map(|f| std::fs::read_to_string(format!("{f}/word")).unwrap_or_default())
    }

    fn set(layout: &Layout, words: [&str; 3]) {
        for (folder, word) in [layout.etc(), layout.etc_previous(), layout.etc_next()].iter().zip(words) {
            remove(folder).expect("removed");
            if !word.is_empty() {
                std::fs::create_dir_all(folder).expect("folder");
                std::fs::write(format!("{folder}/word"), word).expect("file");
            }
        }
    }

    #[test]
    fn a_switch_that_was_cut_off_is_finished_or_taken_back() {
        let dir = tempfile::tempdir().expect("tempdir");
        let layout = Layout::new(&dir.path().to_string_lossy(), "/opt/macluster");
        // Before it, and after each of its steps.
        for cut in [["old", "older", "new"], ["old", "", "new"], ["", "old", "new"], ["new", "old", ""]] {
            set(&layout, cut);
            switch(&layout).expect("finished");
            assert_eq!(state(&layout), ["new", "old", ""], "{cut:?}");
            switch(&layout).expect("again is fine");
            assert_eq!(state(&layout), ["new", "old", ""], "{cut:?}");
            set(&layout, cut);
            for _ in 0..2 {
                restore(&layout).expect("taken back");
                assert_eq!(state(&layout)[0], "old", "{cut:?}");
            }
        }
        // Taking back was cut off.
        set(&layout, ["", "old", ""]);
        restore(&layout).expect("taken back");
        assert_eq!(state(&layout), ["old", "", ""]);
        set(&layout, ["", "", "new"]);
        assert!(restore(&layout).expect_err("nothing to put back").contains("no configuration"));
        set(&layout, [""; 3]);
        assert!(switch(&layout).expect_err("nothing").contains("no configuration"));
        // An exchange that was cut off does not stand in the way of the next one.
        set(&layout, ["now", "before", ""]);
        std::fs::rename(layout.etc(), aside(&layout)).expect("renamed");
        std::fs::create_dir_all(layout.etc_next()).expect("folder");
        std::fs::write(format!("{}/word", layout.etc_next()), "new").expect("file");
        switch(&layout).expect("switched");
        assert_eq!(state(&layout), ["new", "before", ""]);
        swap(&layout).expect("exchanged");
        assert_eq!(state(&layout), ["before", "new", ""]);
    }

    #[test]
    fn the_step_back_is_an_exchange_that_finishes_what_a_crash_has_left() {
        let dir = tempfile::tempdir().expect("tempdir");
        let layout = Layout::new(&dir.path().to_string_lossy(), "/opt/macluster");
        let write = |folder: &str, word: &str| {
            std::fs::create_dir_all(folder).expect("folder");
            std::fs::write(format!("{folder}/word"), word).expect("file");
        };
        let read = |folder: &str| std::fs::read_to_string(format!("{folder}/word")).unwrap_or_default();
        write(&layout.etc(), "new");
        assert!(swap(&layout).expect_err("nothing before").contains("no configuration before"));
        write(&layout.etc_previous(), "old");
        swap(&layout).expect("exchanged");
        assert_eq!((read(&layout.etc()), read(&layout.etc_previous())), ("old".into(), "new".into()));
        // Cut off after the first rename, and after the second.
        let aside = format!("{}.swap", layout.etc());
        std::fs::rename(layout.etc(), &aside).expect("renamed");
        swap(&layout).expect("finished");
        assert_eq!((read(&layout.etc()), read(&layout.etc_previous())), ("new".into(), "old".into()));
        std::fs::rename(layout.etc(), &aside).expect("renamed");
        std::fs::rename(layout.etc_previous(), layout.etc()).expect("renamed");
        swap(&layout).expect("finished");
        assert_eq!((read(&layout.etc()), read(&layout.etc_previous())), ("old".into(), "new".into()));
    }
}
