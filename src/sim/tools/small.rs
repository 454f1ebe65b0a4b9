//! Tools of a few lines: `true`, `false`, `hostname`, `id`, `printenv`, `uname`.

use std::io;

use super::{Call, Exec};
use crate::sim::kernel::host_tool;
use crate::sim::program::inside;

#[expect(clippy::unnecessary_wraps, reason = "the signature of a tool")]
pub(super) fn yes(_call: &mut Call<'_>) -> io::Result<i32> {
    Ok(0)
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of a tool")]
pub(super) fn no(_call: &mut Call<'_>) -> io::Result<i32> {
    Ok(1)
}

pub(super) fn hostname(call: &mut Call<'_>) -> io::Result<i32> {
    let state = call.node.load()?;
    match call.args.first().map(String::as_str) {
        None => writeln!(call.out, "{}", state.hostname).map(|()| 0),
        Some("-s") => writeln!(call.out, "{}", state.hostname.split('.').next().unwrap_or_default()).map(|()| 0),
        Some(flag) if flag.starts_with('-') => {
            writeln!(call.err, "hostname: illegal option -- {}", flag.trim_start_matches('-'))?;
            writeln!(call.err, "usage: hostname [-f] [-s | -d] [name-of-host]").map(|()| 1)
        }
        Some(_) => writeln!(call.err, "hostname: sethostname: Operation not permitted").map(|()| 1),
    }
}

/// `id [-u|-g] [-n]`; groups as a first administrator has them.
pub(super) fn id(call: &mut Call<'_>) -> io::Result<i32> {
    let state = call.node.load()?;
    let root = call.uid == 0;
    let (user, group, gid) = if root { ("root", "wheel", 0) } else { (state.user.as_str(), "staff", 20) };
    let flags: String = call.args.iter().filter_map(|a| a.strip_prefix('-')).collect();
    let text = match (flags.contains('u'), flags.contains('g'), flags.contains('n')) {
        (true, _, true) => user.to_owned(),
        (true, _, false) => call.uid.to_string(),
        (_, true, true) => group.to_owned(),
        (_, true, false) => gid.to_string(),
        _ if root => "uid=0(root) gid=0(wheel) groups=0(wheel),1(daemon),80(admin)".to_owned(),
        _ => {
            format!("uid={}({user}) gid=20(staff) groups=20(staff),12(everyone),61(localaccounts),80(admin)", call.uid)
        }
    };
    writeln!(call.out, "{text}").map(|()| 0)
}

/// `printenv [NAME]`: exit 1 without a word when it is not set.
pub(super) fn printenv(call: &mut Call<'_>) -> io::Result<i32> {
    if let Some(name) = call.args.first() {
        match call.env.get(name) {
            Some(value) => writeln!(call.out, "{value}").map(|()| 0),
            None => Ok(1),
        }
    } else {
        for (name, value) in call.env {
            writeln!(call.out, "{name}={value}")?;
        }
        Ok(0)
    }
}

/// `uname [-amnrsv]`.
pub(super) fn uname(call: &mut Call<'_>) -> io::Result<i32> {
    let state = call.node.load()?;
    let mut flags: String = call.args.iter().filter_map(|a| a.strip_prefix('-')).collect();
    if let Some(bad) = flags.chars().find(|f| !"amnprsv".contains(*f)) {
        writeln!(call.err, "uname: illegal option -- {bad}")?;
        return writeln!(call.err, "usage: uname [-amnoprsv]").map(|()| 1);
    }
    if flags.contains('a') {
        "snrvm".clone_into(&mut flags);
    } else if flags.is_empty() {
        "s".clone_into(&mut flags);
    }
    let release = &state.os.darwin;
    let version = format!("Darwin Kernel Version {release}: root:xnu-12377.161.2~1/RELEASE_ARM64_T6031");
    let words = [
        ('s', "Darwin".to_owned()),
        ('n', state.hostname.clone()),
        ('r', release.clone()),
        ('v', version),
        ('m', "arm64".to_owned()),
        ('p', "arm".to_owned()),
    ];
    let shown: Vec<String> = words.into_iter().filter(|(f, _)| flags.contains(*f)).map(|(_, w)| w).collect();
    writeln!(call.out, "{}", shown.join(" ")).map(|()| 0)
}

/// `pwd`.
pub(super) fn pwd(call: &mut Call<'_>) -> io::Result<i32> {
    writeln!(call.out, "{}", call.cwd.display()).map(|()| 0)
}

/// `echo [-n] …`.
pub(super) fn echo(call: &mut Call<'_>) -> io::Result<i32> {
    match call.args.split_first() {
        Some((flag, rest)) if flag == "-n" => write!(call.out, "{}", rest.join(" ")).map(|()| 0),
        _ => writeln!(call.out, "{}", call.args.join(" ")).map(|()| 0),
    }
}

/// `sleep SECONDS`.
pub(super) fn sleep(call: &mut Call<'_>) -> io::Result<i32> {
    let Some(seconds) = call.args.first().and_then(|a| a.parse::<f64>().ok()).filter(|s| (0.0..1e6).contains(s)) else {
        return writeln!(call.err, "usage: sleep number[unit] ...").map(|()| 1);
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    while std::time::Instant::now() < end && !(call.cancelled)() {
        let left = end.saturating_duration_since(std::time::Instant::now());
        std::thread::sleep(left.min(std::time::Duration::from_millis(20)));
    }
    Ok(0)
}

/// `date [-u] [+FORMAT]`; the rack's time zone is UTC. GNU's `-d` does not exist.
pub(super) fn date(call: &mut Call<'_>) -> io::Result<i32> {
    let mut format = "%a %b %e %H:%M:%S UTC %Y".to_owned();
    for arg in call.args {
        match arg.strip_prefix('+') {
            Some(given) => given.clone_into(&mut format),
            None if arg == "-u" => {}
            None => {
                let letter = arg.trim_start_matches('-').chars().next().unwrap_or('-');
                writeln!(call.err, "date: illegal option -- {letter}")?;
                return writeln!(call.err, "usage: date [-jnRu] [-I[date|hours|minutes|seconds|ns]] [-f input_fmt]")
                    .map(|()| 1);
            }
        }
    }
    let ahead = jiff::SignedDuration::from_secs(call.node.load()?.quirks.clock_ahead);
    let now = jiff::Timestamp::now().checked_add(ahead).map_err(io::Error::other)?;
    writeln!(call.out, "{}", now.strftime(&format)).map(|()| 0)
}

/// The host's shell, for the scripts that were brought to a node. POSIX `sh` is the same language on both.
const HOST_SHELL: &str = "/bin/sh";

/// `sh FILE ARGS…`: a script of the node runs in the host's shell; what it calls it has to call by a path of the node.
/// Anything else a shell could be asked is a defect of the product that must not go unnoticed: it sends argv.
pub(super) fn shell(call: &mut Call<'_>) -> io::Result<i32> {
    let script = call.args.first().filter(|a| call.name == "sh" && !a.starts_with('-'));
    if let Some(script) = script {
        match inside(call.node, &call.cwd.join(script)).filter(|p| p.is_file()) {
            Some(place) => {
                let host = if call.node.inside { host_tool("sh").display().to_string() } else { HOST_SHELL.to_owned() };
                let mut argv = vec![host, place.display().to_string()];
                argv.extend_from_slice(&call.args[1..]);
                call.next = Some(Exec { argv, script: true, uid: call.uid });
                return Ok(0);
            }
            None => return writeln!(call.err, "sh: {script}: No such file or directory").map(|()| 127),
        }
    }
    call.node.trip(&format!("{} {}", call.name, call.args.join(" ")));
    writeln!(call.err, "macsim: {}: the simulated rack runs no shell", call.name).map(|()| 126)
}
