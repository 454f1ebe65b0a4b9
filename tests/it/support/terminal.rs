//! The real binary at a terminal of its own, where a person can be asked.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Ran, command};

/// A terminal: our end, and the end for a process.
fn pair() -> (std::fs::File, rustix::fd::OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let ours = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let side = rustix::fs::open(name.as_c_str(), ours, rustix::fs::Mode::empty()).expect("opens");
    (std::fs::File::from(master), side)
}

/// Runs the command in `dir` with a terminal as input and output, and types each key when what stands before it is
/// there. Everything drawn is given as standard output.
pub fn drawn_at_a_terminal(dir: &Path, args: &[&str], keys: &[(&str, &str)]) -> Ran {
    let (mut terminal, side) = pair();
    let copy = || side.try_clone().expect("a copy");
    let mut child =
        command(dir).args(args).stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("the binary runs");
    drop(side);
    let (mut said, mut chunk, mut keys) = (Vec::new(), [0; 4096], keys.iter());
    let mut next = keys.next();
    while let Ok(n @ 1..) = terminal.read(&mut chunk) {
        said.extend_from_slice(&chunk[..n]);
        if let Some((_, key)) = next.filter(|(text, _)| String::from_utf8_lossy(&said).contains(text)) {
            terminal.write_all(key.as_bytes()).expect("typed");
            next = keys.next();
        }
    }
    Ran {
        status: child.wait().expect("ends").code().expect("a status"),
        stdout: String::from_utf8_lossy(&said).into_owned(),
        stderr: String::new(),
    }
}

/// Runs the command in `dir`: `answer` is typed at the question for the word `yes`, after `meanwhile`. What stands on the
/// terminal is given as standard error.
pub fn at_a_terminal(dir: &Path, args: &[&str], answer: &str, meanwhile: impl FnOnce()) -> Ran {
    let (mut terminal, side) = pair();
    let mut child = command(dir)
        .args(args)
        .stdin(side.try_clone().expect("a copy"))
        .stderr(side)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut out = child.stdout.take().expect("standard output");
    let stdout = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let mut said = Vec::new();
    let mut chunk = [0; 4096];
    let mut meanwhile = Some(meanwhile);
    // Reading ends with an error when the process has closed its side.
    while let Ok(n @ 1..) = terminal.read(&mut chunk) {
        said.extend_from_slice(&chunk[..n]);
        if String::from_utf8_lossy(&said).contains("Only `yes` is accepted:")
            && let Some(meanwhile) = meanwhile.take()
        {
            meanwhile();
            terminal.write_all(format!("{answer}\n").as_bytes()).expect("typed");
        }
    }
    Ran {
        status: child.wait().expect("ends").code().expect("a status"),
        stdout: stdout.join().expect("read").expect("UTF-8"),
        stderr: String::from_utf8_lossy(&said).into_owned(),
    }
}
