//! `macluster node hold`: holds the lock of operations for a desk, as long as the desk listens.
//!
//! A desk whose connection broke asks for it again. The holder that it left behind may live for minutes, because nobody
//! tells the node: it is known by its run and ended. And another desk may have had the lock meanwhile: then it counts
//! whether that one only asked, or has worked here.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::layout::Layout;

/// A desk that was just left still holds the lock for a moment.
const PATIENCE: Duration = Duration::from_secs(12);
/// Between two tries.
const POLL: Duration = Duration::from_millis(200);
/// The same, once a holder was ended for it.
const SOON: Duration = Duration::from_millis(2);
/// A sign of life, whose failure tells that the desk is gone.
const BEAT: Duration = Duration::from_secs(2);
/// No line of a desk and no lock file is longer, bytes.
const MAX: u64 = 4096;
/// The desk's second line: from now on it changes something.
pub const WORK: &str = "work";

/// What a desk says first, on standard input, as one line of JSON. A desk of an older macluster says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// Names one run of macluster at a desk.
    pub run: String,
    /// It is asked for again: refuse when another run than this one has worked here, besides the run itself.
    pub after: Option<String>,
    /// The run has said [`WORK`] before.
    pub works: bool,
}

/// The second line of the lock file; the first one is for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Note {
    /// Who holds it.
    run: String,
    pid: i32,
    /// Who worked here last.
    worked: String,
    worker: String,
}

/// The lock file.
struct Lock {
    file: File,
    path: String,
}

impl Lock {
    fn open(path: &str) -> Result<Self, String> {
        if let Some(folder) = std::path::Path::new(path).parent() {
            std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        }
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(path);
        open.map(|file| Lock { file, path: path.to_owned() }).map_err(|e| format!("cannot write {path}: {e}"))
    }

    /// Who is said to hold it, and what is noted; of what cannot be read, nothing.
    fn read(&mut self) -> (String, Note) {
        let mut text = String::new();
        let read = self.file.seek(SeekFrom::Start(0)).and_then(|_| (&self.file).take(MAX).read_to_string(&mut text));
        let mut lines = text.lines();
        let who = lines.next().filter(|l| read.is_ok() && !l.is_empty()).unwrap_or("nobody knows whose");
        (who.to_owned(), lines.next().and_then(|l| serde_json::from_str(l).ok()).unwrap_or_default())
    }

    /// Over what is there, and cut to its length only then: a disk that is full leaves the old text.
    fn write(&mut self, who: &str, note: &Note) -> Result<(), String> {
        let text = serde_json::to_string(note).map(|note| format!("{who}\n{note}\n")).map_err(|e| e.to_string())?;
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(text.as_bytes()));
        let written = written.and_then(|()| self.file.set_len(text.len() as u64)).and_then(|()| self.file.sync_data());
        written.map_err(|e| format!("cannot write {}: {e}", self.path))
    }

    /// Takes it; false when somebody else keeps it.
    fn take(&mut self, terms: &Terms) -> Result<bool, String> {
        let started = Instant::now();
        let (mut seen, mut pause) = (Note::default(), POLL);
        loop {
            if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                if self.in_place() {
                    return Ok(true);
                }
                // `undeploy` has removed the file meanwhile: whoever comes now locks another one.
                *self = Lock::open(&self.path)?;
                continue;
            }
            if started.elapsed() >= PATIENCE {
                return Ok(false);
            }
            let (_, note) = self.read();
            // Twice the same: whoever holds it has written that, and is not just about to.
            let left_behind = terms.after.is_some() && !terms.run.is_empty() && note.run == terms.run && note == seen;
            if left_behind
                && pause == POLL
                && let Some(pid) = Pid::from_raw(note.pid)
            {
                let _ = kill_process(pid, Signal::KILL);
                // Before somebody else who waits.
                pause = SOON;
            }
            seen = note;
            std::thread::sleep(pause);
        }
    }

    /// The file is still the one that others find.
    fn in_place(&self) -> bool {
        let there = std::fs::metadata(&self.path);
        there.and_then(|t| Ok((t.dev(), t.ino()) == self.file.metadata().map(|m| (m.dev(), m.ino()))?)).unwrap_or(false)
    }
}

/// Says `held after RUN` (who worked here last) and stays until nobody listens any more; or says `busy WHO`, or
/// `passed WHO` when somebody has worked here in between, and ends.
///
/// # Errors
/// When the lock file cannot be used.
pub fn hold(layout: &Layout, who: &str) -> Result<(), String> {
    let terms: Terms = line().and_then(|l| serde_json::from_str(&l).ok()).unwrap_or_default();
    let mut lock = Lock::open(&layout.operation_lock_file())?;
    let mut out = std::io::stdout();
    let mut say = |text: &str| writeln!(out, "{text}").and_then(|()| out.flush());
    if !lock.take(&terms)? {
        let _ = say(&format!("busy {}", lock.read().0));
        return Ok(());
    }
    let (_, before) = lock.read();
    let after = if before.worked.is_empty() { "nobody".to_owned() } else { before.worked.clone() };
    // A file that was lost says nothing of anybody.
    if !before.worked.is_empty() && terms.after.is_some_and(|known| after != known && after != terms.run) {
        let _ = say(&format!("passed {}", before.worker));
        return Ok(());
    }
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let mut note = Note { run: terms.run, pid, ..before };
    if terms.works {
        note.works(who);
    }
    lock.write(who, &note)?;
    if say(&format!("held after {after}")).is_err() {
        return Ok(());
    }
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || while line().is_some_and(|said| tell.send(said).is_ok()) {});
    while say(".").is_ok() {
        match told.recv_timeout(BEAT) {
            Ok(said) if said == WORK => {
                note.works(who);
                // A disk that is full does not stop the desk's work; another desk that breaks off could miss it.
                let _ = lock.write(who, &note);
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            // An older desk has nothing to say, and may listen all the same.
            Err(RecvTimeoutError::Disconnected) if note.run.is_empty() => std::thread::sleep(BEAT),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

impl Note {
    fn works(&mut self, who: &str) {
        (self.worked, self.worker) = (self.run.clone(), who.to_owned());
    }
}

/// The next line of standard input, without its end; none at the end of it.
fn line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(MAX).read_line(&mut line);
    read.is_ok_and(|bytes| bytes > 0).then(|| line.trim_end().to_owned())
}
