//! Tools of a few lines: `true`, `false`, `hostname`, `id`, `printenv`, `uname`.

use std::io;

use super::Call;

pub(super) fn yes(_call: &mut Call<'_>) -> io::Result<i32> {
    Ok(0)
}

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
    match call.args.first() {
        Some(name) => match call.env.get(name) {
            Some(value) => writeln!(call.out, "{value}").map(|()| 0),
            None => Ok(1),
        },
        None => {
            for (name, value) in call.env {
                writeln!(call.out, "{name}={value}")?;
            }
            Ok(0)
        }
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
        flags = "snrvm".to_owned();
    } else if flags.is_empty() {
        flags = "s".to_owned();
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
