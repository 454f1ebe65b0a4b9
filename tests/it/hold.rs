//! `macluster node hold`, as its desks see it: real processes, a real lock of the kernel.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A holder, and the desk's end of it.
struct Holder {
    process: Child,
    said: String,
    desk: Option<ChildStdin>,
}

impl Holder {
    /// Asks for the lock below this root.
    fn ask(root: &Path, run: &str, after: Option<&str>) -> Holder {
        let mut command = Command::new(crate::support::binary());
        command.args(["node", "hold", "--who", &format!("somebody of {run}"), "--root"]).arg(root);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut desk = process.stdin.take().expect("its standard input");
        writeln!(desk, "{}", serde_json::json!({"run": run, "after": after})).expect("told");
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().expect("its standard output"));
        lines.read_line(&mut said).expect("it says something");
        // Somebody listens for as long as it lives.
        std::thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        Holder { process, said: said.trim().to_owned(), desk: Some(desk) }
    }

    /// Its desk goes away.
    fn end(mut self) {
        self.desk = None;
        assert!(self.process.wait().expect("it ends").success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until the lock file says who has worked last.
fn worked(root: &Path, run: &str) {
    let path = root.join("opt/macluster/var/run/operation.lock");
    let wanted = format!("\"worked\":\"{run}\"");
    let started = std::time::Instant::now();
    while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&wanted)) {
        assert!(started.elapsed().as_secs() < 20, "{:?}", std::fs::read_to_string(&path));
        std::thread::yield_now();
    }
}

#[test]
fn a_desk_whose_connection_broke_gets_its_lock_back_unless_somebody_has_worked_meanwhile() {
    let dir = tempfile::tempdir().expect("tempdir");
    let root = dir.path();
    let mut first = Holder::ask(root, "a", None);
    assert_eq!(first.said, "held after nobody");
    writeln!(first.desk.as_mut().expect("there"), "work").expect("told");
    worked(root, "a");

    // Nobody has told the node that the desk is somewhere else now.
    let second = Holder::ask(root, "a", Some("nobody"));
    assert_eq!(second.said, "held after a");
    assert!(!first.process.wait().expect("it was ended").success());

    // Another desk waits, and is told who has it. So is the same one when it does not ask for it again: two names of one Mac,
    // for instance. Nobody is ended for that.
    std::thread::scope(|scope| {
        for run in ["b", "a"] {
            scope.spawn(move || {
                let other = Holder::ask(root, run, None);
                assert_eq!(other.said, "busy somebody of a", "{run}");
                other.end();
            });
        }
    });
    second.end();

    // One that only had the lock has changed nothing.
    let other = Holder::ask(root, "b", None);
    assert_eq!(other.said, "held after a");
    other.end();
    let third = Holder::ask(root, "a", Some("nobody"));
    assert_eq!(third.said, "held after a");
    third.end();

    // One that has worked has.
    let mut other = Holder::ask(root, "b", None);
    writeln!(other.desk.as_mut().expect("there"), "work").expect("told");
    worked(root, "b");
    other.end();
    let last = Holder::ask(root, "a", Some("nobody"));
    assert_eq!(last.said, "passed somebody of b");
    last.end();
    // A lock file that was lost, or cut, says nothing of anybody.
    let path = root.join("opt/macluster/var/run/operation.lock");
    for text in ["", "somebody of b\n", "somebody of b\n{\"worked\":"] {
        std::fs::write(&path, text).expect("written");
        let again = Holder::ask(root, "a", Some("b"));
        assert_eq!(again.said, "held after nobody", "{text:?}");
        again.end();
    }
    // Whoever begins anew may.
    let fresh = Holder::ask(root, "c", None);
    assert_eq!(fresh.said, "held after nobody");
    fresh.end();
}

#[test]
fn a_desk_of_an_older_macluster_says_nothing_and_holds_the_lock_all_the_same() {
    let dir = tempfile::tempdir().expect("tempdir");
    let mut old = Command::new(crate::support::binary())
        .args(["node", "hold", "--who", "an old desk", "--root"])
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(old.stdout.take().expect("its standard output")).lines();
    let mut next = || lines.next().expect("a line").expect("readable");
    assert!(next().starts_with("held "));
    // A sign of life after the end of its standard input, and another one.
    assert_eq!((next(), next()), (".".to_owned(), ".".to_owned()));
    let other = Holder::ask(dir.path(), "b", None);
    assert_eq!(other.said, "busy an old desk");
    old.kill().expect("killed");
    old.wait().expect("ended");
}
