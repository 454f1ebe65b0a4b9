//! One binary under many names: a node's programs are links to macluster itself, for real programs that call them
//! (a daemon that runs `/sbin/ifconfig`). Over SSH the tools run inside the server.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use super::init;
use super::login;
use super::program::{Resolved, resolve};
use super::store::Node;
use super::tools::{self, Call, Exec};

/// Runs as one of the simulated userland's tools when called under its name inside a simulated node; else none.
pub fn multicall(args: &[OsString]) -> Option<u8> {
    let called = Path::new(args.first()?);
    let name = called.file_name()?.to_str()?;
    // Decided by the name alone for everybody else: the product's own start must cost nothing.
    let first = place_is(called, init::PATH);
    if !first && !tools::is_tool_name(name) {
        return None;
    }
    let place = if called.components().count() > 1 { std::path::absolute(called).ok()? } else { on_path(called)? };
    let node = Node::containing(place.parent()?)?;
    if first {
        return node.inside.then(|| init::run(&node));
    }
    let words: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    Some(match words.as_slice() {
        [_, flag, line] if node.inside && name == "zsh" && flag == "-c" => login::run(&node, line),
        _ => run(&node, &place, words),
    })
}

/// Called by this very path?
fn place_is(called: &Path, path: &str) -> bool {
    called == Path::new(path)
}

/// Where the search path finds this name, if that is a simulated node.
fn on_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.symlink_metadata().is_ok())
}

pub(super) fn run(node: &Node, place: &Path, argv: Vec<String>) -> u8 {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .filter(|(k, _)| k != UID)
        .collect();
    let uid = std::env::var(UID).ok().and_then(|u| u.parse().ok()).unwrap_or(501);
    let cwd = std::env::current_dir().unwrap_or_else(|_| node.root.clone());
    let mut exec = Exec { argv, script: false, uid };
    let mut word = place.to_string_lossy().into_owned();
    loop {
        if exec.script {
            return become_program(Path::new(&word), &exec);
        }
        match resolve(node, &word, &cwd) {
            Resolved::Tool(name, tool) => {
                let (status, next) = one(node, &name, tool, &exec, &cwd, &env);
                match next {
                    Some(next) => {
                        word = next.argv.first().cloned().unwrap_or_default();
                        exec = next;
                    }
                    None => return u8::try_from(status & 0xff).unwrap_or(1),
                }
            }
            Resolved::Program(path) => return become_program(&path, &exec),
            Resolved::Denied => return say(&format!("{word}: Permission denied"), 126),
            Resolved::Missing => return say(&format!("{word}: No such file or directory"), 127),
        }
    }
}

/// Returns only when the program cannot be run.
fn become_program(path: &Path, exec: &Exec) -> u8 {
    let error = std::process::Command::new(path)
        .args(exec.argv.get(1..).unwrap_or_default())
        .env(UID, exec.uid.to_string())
        .exec();
    say(&format!("{}: {error}", path.display()), 126)
}

/// Carries the simulated user id to real programs and back.
pub(super) const UID: &str = "MACSIM_UID";

fn one(
    node: &Node,
    name: &str,
    tool: tools::Tool,
    exec: &Exec,
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> (i32, Option<Exec>) {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut err = io::stderr().lock();
    let mut call = Call {
        node,
        name,
        args: exec.argv.get(1..).unwrap_or_default(),
        stdin: &mut io::stdin().lock(),
        out: &mut out,
        err: &mut err,
        uid: exec.uid,
        cwd: cwd.to_owned(),
        env,
        cancelled: &|| false,
        next: None,
    };
    let result = tool(&mut call);
    let next = call.next.take();
    let status = match result.and_then(|status| out.flush().map(|()| status)) {
        Ok(status) => status,
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => 141,
        Err(e) => i32::from(say(&format!("{}: {e}", OsStr::new(name).to_string_lossy()), 70)),
    };
    (status, next)
}

/// Says a thing of the simulator's own on standard error; gives the status back.
pub(super) fn say(text: &str, status: u8) -> u8 {
    let _ = writeln!(io::stderr(), "macsim: {text}");
    status
}
