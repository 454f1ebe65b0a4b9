//! `ps`, `kill`, `lsof`: the node's own processes and launchd, nothing else of this machine.

use std::io;

use rustix::process::Signal;

use super::Call;
use crate::sim::owners;
use crate::sim::processes::{self, Process, Row};
use crate::sim::state::Ghost;

/// `ps [-Aaxwe] [-p PID[,…]] [-o KEYWORD[=][,…]]`.
pub(super) fn ps(call: &mut Call<'_>) -> io::Result<i32> {
    let (mut every, mut pids, mut columns) = (false, None, Vec::new());
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        let mut letters = arg.trim_start_matches('-').chars();
        while let Some(letter) = letters.next() {
            match letter {
                'A' | 'a' | 'x' | 'e' => every = true,
                'w' | 'j' => {}
                'p' | 'o' => {
                    let rest: String = letters.by_ref().collect();
                    let value = if rest.is_empty() { args.next().cloned().unwrap_or_default() } else { rest };
                    if letter == 'o' {
                        columns.extend(value.split(',').map(str::to_owned));
                    } else {
                        let list: Result<Vec<u32>, _> = value.split(',').map(str::parse).collect();
                        let Ok(list) = list else {
                            writeln!(call.err, "ps: illegal process id: {value}")?;
                            return Ok(1);
                        };
                        pids = Some(list);
                    }
                }
                other => {
                    writeln!(
                        call.err,
                        "ps: illegal option -- {other}\nusage: ps [-AaCcEefhjlMmrSTvwXx] [-O fmt | -o fmt] [-G gid[,gid...]]"
                    )?;
                    return Ok(1);
                }
            }
        }
    }
    if columns.is_empty() {
        columns = ["pid", "tt", "stat", "time", "command"].map(str::to_owned).to_vec();
    }
    let state = call.node.load()?;
    let mut rows = vec![launchd(state.boot.seconds)];
    rows.extend(processes::alive(call.node));
    rows.extend(state.quirks.processes.iter().map(ghost));
    rows.sort_by_key(|p| p.row.pid);
    rows.retain(|p| match &pids {
        Some(list) => list.contains(&p.row.pid),
        None => every || p.uid == call.uid,
    });
    let mut heads = Vec::new();
    for column in &columns {
        let (word, title) = match column.split_once('=') {
            Some((word, title)) => (word, Some(title.to_owned())),
            None => (column.as_str(), None),
        };
        let Some((default, width)) = column_of(word) else {
            writeln!(call.err, "ps: {word}: keyword not found")?;
            return Ok(1);
        };
        heads.push((word.to_owned(), title.unwrap_or_else(|| default.to_owned()), width));
    }
    if heads.iter().any(|(_, title, _)| !title.is_empty()) {
        let titles: Vec<String> = heads.iter().map(|(_, title, _)| title.clone()).collect();
        line(call, &heads, &titles)?;
    }
    for process in &rows {
        let cells: Vec<String> = heads.iter().map(|(word, _, _)| cell(process, word, &state)).collect();
        line(call, &heads, &cells)?;
    }
    Ok(i32::from(rows.is_empty()))
}

/// Process 1 of every Mac.
fn launchd(boot: i64) -> Process {
    let now = jiff::Timestamp::now().as_second();
    let row = Row {
        pid: 1,
        ppid: 0,
        pgid: 1,
        birth: String::new(),
        seconds: u64::try_from(now - boot).unwrap_or(0),
        command: "/sbin/launchd".to_owned(),
        zombie: false,
    };
    Process { row, uid: 0 }
}

/// A row that only the state knows.
fn ghost(of: &Ghost) -> Process {
    let row = Row {
        pid: of.pid,
        ppid: of.ppid,
        // Not its own group: its parent is told as it is.
        pgid: of.ppid,
        birth: String::new(),
        seconds: of.seconds,
        command: of.command.clone(),
        zombie: false,
    };
    Process { row, uid: 501 }
}

/// Title and width (positive: right-aligned; 0: left, last column unpadded) after adv_cmds-237.
fn column_of(word: &str) -> Option<(&'static str, usize)> {
    Some(match word {
        "pid" => ("PID", 5),
        "ppid" => ("PPID", 5),
        "pgid" => ("PGID", 5),
        "uid" => ("UID", 5),
        "etime" => ("ELAPSED", 11),
        "time" => ("TIME", 9),
        "stat" | "state" => ("STAT", 0),
        "tt" | "tty" => ("TTY", 0),
        "user" => ("USER", 0),
        "rss" => ("RSS", 6),
        "pcpu" | "%cpu" => ("%CPU", 5),
        "pmem" | "%mem" => ("%MEM", 4),
        "command" => ("COMMAND", 0),
        "args" => ("ARGS", 0),
        "comm" | "ucomm" => ("COMM", 0),
        _ => return None,
    })
}

fn cell(process: &Process, word: &str, state: &crate::sim::state::NodeState) -> String {
    let row = &process.row;
    match word {
        "pid" => row.pid.to_string(),
        "ppid" => {
            // What the simulator itself started has launchd as its parent, as far as a Mac is concerned.
            if row.pid == row.pgid && row.pid != 1 { "1".to_owned() } else { row.ppid.to_string() }
        }
        "pgid" => row.pgid.to_string(),
        "uid" => process.uid.to_string(),
        "user" => owners::user_name(state, process.uid),
        "etime" => etime(row.seconds),
        "time" => "0:00.00".to_owned(),
        "stat" | "state" => "S".to_owned(),
        "tt" | "tty" => "??".to_owned(),
        "rss" | "pcpu" | "%cpu" | "pmem" | "%mem" => "0".to_owned(),
        "comm" | "ucomm" => row.command.split(' ').next().unwrap_or_default().to_owned(),
        _ => row.command.clone(),
    }
}

/// `MM:SS`, `HH:MM:SS`, `DD-HH:MM:SS`; exactly one hour is still `60:00` (samples/processes/ps.md).
fn etime(seconds: u64) -> String {
    let (minutes, rest) = (seconds / 60, seconds % 60);
    if seconds > 86_400 {
        format!("{:02}-{:02}:{:02}:{rest:02}", seconds / 86_400, seconds / 3600 % 24, minutes % 60)
    } else if seconds > 3600 {
        format!("{:02}:{:02}:{rest:02}", seconds / 3600, minutes % 60)
    } else {
        format!("{minutes:02}:{rest:02}")
    }
}

fn line(call: &mut Call<'_>, heads: &[(String, String, usize)], cells: &[String]) -> io::Result<()> {
    let last = cells.len().saturating_sub(1);
    let mut text = String::new();
    for (n, ((_, title, width), cell)) in heads.iter().zip(cells).enumerate() {
        if n > 0 {
            text.push(' ');
        }
        let width = (*width).max(title.len());
        let left = column_of(&heads[n].0).is_some_and(|(_, w)| w == 0);
        let padded = match (left, n == last) {
            (true, true) => cell.clone(),
            (true, false) => format!("{cell:<width$}"),
            (false, _) => format!("{cell:>width$}"),
        };
        text.push_str(&padded);
    }
    writeln!(call.out, "{text}")
}

/// `kill [-SIGNAL | -s SIGNAL | -l] PID…`, the node's own processes only.
pub(super) fn kill(call: &mut Call<'_>) -> io::Result<i32> {
    let mut args: Vec<String> = call.args.to_vec();
    let mut name = "TERM".to_owned();
    match args.first().map(String::as_str) {
        Some("-l") => {
            return writeln!(call.out, "hup int quit ill trap abrt emt fpe kill bus segv sys pipe alrm term")
                .map(|()| 0);
        }
        Some("-s") if args.len() > 1 => {
            name = args.remove(1);
            args.remove(0);
        }
        Some("--") => drop(args.remove(0)),
        Some(flag) if flag.starts_with('-') && flag.len() > 1 => {
            flag.trim_start_matches('-').clone_into(&mut name);
            args.remove(0);
        }
        _ => {}
    }
    // Signal 0 only asks whether the process is there.
    let probe = name == "0";
    let signal = signal_of(&name);
    if signal.is_none() && !probe {
        writeln!(call.err, "kill: unknown signal {name}; valid signals:\nhup int quit kill usr1 usr2 term")?;
        return Ok(1);
    }
    if args.is_empty() {
        writeln!(call.err, "usage: kill [-s signal_name] pid ...")?;
        return Ok(1);
    }
    let alive = processes::alive(call.node);
    let mut status = 0;
    for arg in args {
        let Ok(pid) = arg.parse::<u32>() else {
            writeln!(call.err, "kill: illegal pid: {arg}")?;
            status = 1;
            continue;
        };
        let why = match alive.iter().find(|p| p.row.pid == pid) {
            None if pid == 1 => Some("Operation not permitted"),
            None => Some("No such process"),
            Some(p) if call.uid != 0 && p.uid != call.uid => Some("Operation not permitted"),
            Some(_) => (!processes::signal(pid, signal)).then_some("No such process"),
        };
        if let Some(why) = why {
            writeln!(call.err, "kill: {pid}: {why}")?;
            status = 1;
        }
    }
    Ok(status)
}

/// The signal of a name or number.
fn signal_of(name: &str) -> Option<Signal> {
    let upper = name.to_uppercase();
    Some(match upper.trim_start_matches("SIG") {
        "1" | "HUP" => Signal::HUP,
        "2" | "INT" => Signal::INT,
        "3" | "QUIT" => Signal::QUIT,
        "9" | "KILL" => Signal::KILL,
        "15" | "TERM" => Signal::TERM,
        "30" | "USR1" => Signal::USR1,
        "31" | "USR2" => Signal::USR2,
        _ => return None,
    })
}

/// `lsof`: nothing ever matches, which it says with exit 1 and no word (samples/network/lsof.md).
#[expect(clippy::unnecessary_wraps, reason = "the signature of a tool")]
pub(super) fn lsof(_call: &mut Call<'_>) -> io::Result<i32> {
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::etime;

    #[test]
    fn elapsed_time_turns_over_strictly_after_the_hour() {
        assert_eq!(etime(80), "01:20");
        assert_eq!(etime(3600), "60:00");
        assert_eq!(etime(68_531), "19:02:11");
        assert_eq!(etime(86_400), "24:00:00");
        assert_eq!(etime(90_061), "01-01:01:01");
    }
}
