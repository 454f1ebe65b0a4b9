//! `sw_vers` and `sysctl` (samples/system).

use std::io;

use super::Call;
use crate::sim::state::NodeState;

/// `sw_vers [-productName|-productVersion|-buildVersion|--productVersionExtra]`.
pub(super) fn sw_vers(call: &mut Call<'_>) -> io::Result<i32> {
    let os = call.node.load()?.os;
    let Some(arg) = call.args.first() else {
        writeln!(call.out, "ProductName:\t\tmacOS")?;
        writeln!(call.out, "ProductVersion:\t\t{}", os.version)?;
        if !os.extra.is_empty() {
            writeln!(call.out, "ProductVersionExtra:\t{}", os.extra)?;
        }
        writeln!(call.out, "BuildVersion:\t\t{}", os.build)?;
        return Ok(0);
    };
    let value = match arg.trim_start_matches('-') {
        "productName" => "macOS".to_owned(),
        "productVersion" => os.version,
        "productVersionExtra" => os.extra,
        "buildVersion" => os.build,
        _ => {
            // Guess: neither text nor status was captured.
            writeln!(call.err, "sw_vers: unrecognized option `{arg}'")?;
            return Ok(1);
        }
    };
    writeln!(call.out, "{value}").map(|()| 0)
}

/// `sysctl [-n] [-i] [-q] NAME… | NAME=VALUE…`; the exit status counts the failed arguments.
pub(super) fn sysctl(call: &mut Call<'_>) -> io::Result<i32> {
    let (mut bare, mut tolerant, mut quiet) = (false, false, false);
    let mut names = Vec::new();
    for arg in call.args {
        match arg.strip_prefix('-') {
            Some(flags) => {
                for flag in flags.chars() {
                    match flag {
                        'n' => bare = true,
                        'i' => tolerant = true,
                        'q' => quiet = true,
                        'w' => {}
                        _ => {
                            writeln!(call.err, "sysctl: illegal option -- {flag}")?;
                            return Ok(1);
                        }
                    }
                }
            }
            None => names.push(arg.clone()),
        }
    }
    if names.is_empty() {
        writeln!(call.err, "usage: sysctl [-bdehiNnoqx] name[=value] ...\n       sysctl [-bdehNnoqx] -a")?;
        return Ok(1);
    }
    let mut failed = 0;
    for name in names {
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (name, None),
        };
        let Some(old) = value_of(&call.node.load()?, &name) else {
            if !tolerant {
                failed += 1;
                if !quiet {
                    writeln!(call.err, "sysctl: unknown oid '{name}'")?;
                }
            }
            continue;
        };
        match value {
            None if bare => writeln!(call.out, "{old}")?,
            None => writeln!(call.out, "{name}: {old}")?,
            Some(value) => failed += set(call, &name, &old, &value)?,
        }
    }
    Ok(failed)
}

/// Numbers that may be set, with their default.
const SETTABLE: [(&str, &str); 3] =
    [("iogpu.wired_limit_mb", "0"), ("net.inet.ip.forwarding", "0"), ("net.inet.ip.portrange.first", "49152")];

fn set(call: &mut Call<'_>, name: &str, old: &str, value: &str) -> io::Result<i32> {
    if !SETTABLE.iter().any(|(n, _)| *n == name) {
        writeln!(call.err, "sysctl: oid '{name}' is read only")?;
        return Ok(1);
    }
    if value.parse::<u64>().is_err() {
        writeln!(call.err, "sysctl: invalid integer '{value}'")?;
        return Ok(1);
    }
    if call.uid != 0 {
        writeln!(call.out, "{name}: {old}")?;
        writeln!(call.err, "sysctl: {name}={value}: Operation not permitted")?;
        return Ok(1);
    }
    call.node.update(|s| s.sysctl.insert(name.to_owned(), value.to_owned()))?;
    writeln!(call.out, "{name}: {old} -> {value}").map(|()| 0)
}

/// Names that the samples show; all others are unknown.
fn value_of(state: &NodeState, name: &str) -> Option<String> {
    if let Some(value) = state.sysctl.get(name) {
        return Some(value.clone());
    }
    if let Some((_, value)) = SETTABLE.iter().find(|(n, _)| *n == name) {
        return Some((*value).to_owned());
    }
    let c = &state.computer;
    Some(match name {
        "hw.model" => c.model.clone(),
        "hw.memsize" => (c.memory_gb << 30).to_string(),
        "hw.ncpu" | "hw.logicalcpu" | "hw.physicalcpu" => c.cores.to_string(),
        "hw.pagesize" => "16384".to_owned(),
        "machdep.cpu.brand_string" => c.chip.clone(),
        "kern.boottime" => boottime(state),
        "kern.bootsessionuuid" => state.boot.session.clone(),
        "kern.hostname" => state.hostname.clone(),
        "kern.osversion" => state.os.build.clone(),
        "kern.osproductversion" => state.os.version.clone(),
        "kern.osrelease" => state.os.darwin.clone(),
        "kern.ostype" => "Darwin".to_owned(),
        "kern.memorystatus_vm_pressure_level" => "1".to_owned(),
        "net.inet.ip.portrange.last" | "net.inet.ip.portrange.hilast" => "65535".to_owned(),
        "net.inet.ip.portrange.hifirst" => "49152".to_owned(),
        "vm.loadavg" => "{ 1.61 1.40 1.38 }".to_owned(),
        "vm.swapusage" => "total = 0.00M  used = 0.00M  free = 0.00M  (encrypted)".to_owned(),
        _ => return None,
    })
}

/// `{ sec = 1790421415, usec = 985376 } Sat Sep 26 06:16:55 2026`, in local time: the rack's is UTC.
fn boottime(state: &NodeState) -> String {
    let at = jiff::Timestamp::from_second(state.boot.seconds).unwrap_or_default();
    format!("{{ sec = {}, usec = {} }} {}", state.boot.seconds, state.boot.micros, at.strftime("%a %b %e %H:%M:%S %Y"))
}
