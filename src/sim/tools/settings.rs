//! Settings that are read before a cluster is trusted to stay up: `nvram`, `pmset`, `fdesetup`, `defaults`,
//! `softwareupdate`, `socketfilterfw`, `ioclasscount` (samples/system, samples/power, samples/processes).

use std::io;

use super::Call;

/// `nvram NAME`.
pub(super) fn nvram(call: &mut Call<'_>) -> io::Result<i32> {
    let Some(name) = call.args.first() else {
        return writeln!(call.err, "nvram: (usage: nvram [-x] [-p] [-f filename] [-d name] [-c] name[=value] ...)")
            .map(|()| 1);
    };
    if let Some((name, _)) = name.split_once('=') {
        // For root, too: writing is not simulated, the way is `rdma_ctl enable` in Recovery.
        return writeln!(call.err, "nvram: Error setting variable - '{name}': (iokit/common) not privileged")
            .map(|()| 1);
    }
    match call.node.load()?.nvram.get(name) {
        Some(value) => writeln!(call.out, "{name}\t{value}").map(|()| 0),
        None => writeln!(call.err, "nvram: Error getting variable - '{name}': (iokit/common) data was not found")
            .map(|()| 1),
    }
}

/// `pmset -g`, `pmset -a NAME VALUE…`.
pub(super) fn pmset(call: &mut Call<'_>) -> io::Result<i32> {
    match call.args {
        [g] if g == "-g" => {
            writeln!(call.out, "System-wide power settings:\nCurrently in use:")?;
            for (name, value) in call.node.load()?.power {
                // Every sample names who keeps the Mac awake; a rack always has powerd.
                let why = if name == "sleep" { " (sleep prevented by powerd)" } else { "" };
                writeln!(call.out, " {name:<20} {value}{why}")?;
            }
            Ok(0)
        }
        [all, pairs @ ..] if all == "-a" && !pairs.is_empty() && pairs.len() % 2 == 0 => {
            if call.uid != 0 {
                // Guess: the exact text was not captured.
                return writeln!(call.err, "'pmset' must be run as root...").map(|()| 77);
            }
            let pairs = pairs.to_vec();
            call.node.update(|state| {
                for pair in pairs.chunks(2) {
                    if let Some(row) = state.power.iter_mut().find(|(n, _)| *n == pair[0]) {
                        row.1.clone_from(&pair[1]);
                    }
                }
            })?;
            Ok(0)
        }
        _ => writeln!(call.err, "macsim: pmset is simulated with -g and -a only").map(|()| 64),
    }
}

/// `fdesetup status`.
pub(super) fn fdesetup(call: &mut Call<'_>) -> io::Result<i32> {
    if call.args != ["status"] {
        return writeln!(call.err, "macsim: fdesetup is simulated with status only").map(|()| 1);
    }
    let on = call.node.load()?.filevault;
    writeln!(call.out, "FileVault is {}.", if on { "On" } else { "Off" }).map(|()| 0)
}

/// `defaults read /Library/Preferences/com.apple.SoftwareUpdate [KEY]`.
pub(super) fn defaults(call: &mut Call<'_>) -> io::Result<i32> {
    let auto = call.node.load()?.auto_update;
    let values = [
        ("AutomaticCheckEnabled", 1),
        ("AutomaticDownload", i32::from(auto)),
        ("AutomaticallyInstallMacOSUpdates", i32::from(auto)),
        ("CriticalUpdateInstall", i32::from(auto)),
    ];
    let domain = "/Library/Preferences/com.apple.SoftwareUpdate";
    let known = |d: &String| d.trim_end_matches(".plist").ends_with(domain);
    match call.args {
        [read, d] if read == "read" && known(d) => {
            writeln!(call.out, "{{")?;
            for (name, value) in values {
                writeln!(call.out, "    {name} = {value};")?;
            }
            writeln!(call.out, "}}").map(|()| 0)
        }
        [read, d, key] if read == "read" => {
            if let Some((_, value)) = values.iter().find(|(n, _)| *n == key && known(d)) {
                writeln!(call.out, "{value}").map(|()| 0)
            } else {
                let now = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S%.3f");
                writeln!(call.err, "{now} defaults[50088:10709073] ")?;
                writeln!(call.err, "The domain/default pair of ({d}, {key}) does not exist").map(|()| 1)
            }
        }
        _ => writeln!(call.err, "macsim: defaults is simulated with read only").map(|()| 1),
    }
}

/// `softwareupdate --schedule`.
pub(super) fn softwareupdate(call: &mut Call<'_>) -> io::Result<i32> {
    if call.args != ["--schedule"] {
        return writeln!(call.err, "macsim: softwareupdate is simulated with --schedule only").map(|()| 1);
    }
    let auto = call.node.load()?.auto_update;
    writeln!(call.out, "Automatic checking for updates is turned {}", if auto { "on" } else { "off" }).map(|()| 0)
}

/// `socketfilterfw --getglobalstate`.
pub(super) fn socketfilterfw(call: &mut Call<'_>) -> io::Result<i32> {
    if call.args != ["--getglobalstate"] {
        return writeln!(call.err, "macsim: socketfilterfw is simulated with --getglobalstate only").map(|()| 1);
    }
    let state = call.node.load()?.firewall;
    let words = match state {
        0 => "Firewall is disabled. (State = 0)",
        1 => "Firewall is enabled. (State = 1)",
        _ => "Firewall is blocking all non-essential incoming connections. (State = 2)",
    };
    writeln!(call.out, "{words}").map(|()| 0)
}

/// `ioclasscount CLASS…`: all on one line.
pub(super) fn ioclasscount(call: &mut Call<'_>) -> io::Result<i32> {
    let state = call.node.load()?;
    let (rdma, held) = (state.rdma_usable(), state.quirks.rdma_objects);
    let count = |class: &String| match class.as_str() {
        "AppleThunderboltRDMAProtectionDomain" if rdma => format!("{class} = {}", held.protection_domains),
        "AppleThunderboltRDMAQueuePair" if rdma => format!("{class} = {}", held.queue_pairs),
        _ => format!("{class} = <no such class>"),
    };
    let counts: Vec<String> = call.args.iter().map(count).collect();
    writeln!(call.out, "{}", counts.join(", ")).map(|()| 0)
}
