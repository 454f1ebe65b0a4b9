//! This machine's process table, as far as it is needed to find a node's processes in it.

/// One process of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Row {
    /// Process id.
    pub pid: u32,
    /// Parent.
    pub ppid: u32,
    /// Process group.
    pub pgid: u32,
    /// When it began; comparable, not readable.
    pub birth: String,
    /// How long it has run, seconds.
    pub seconds: u64,
    /// Command line.
    pub command: String,
    /// Ended, not yet waited for.
    pub zombie: bool,
}

/// When this process began; none when it is gone.
pub(super) fn birth(pid: u32) -> Option<String> {
    one(pid).map(|r| r.birth)
}

/// Every process that still runs.
pub(super) fn rows() -> Vec<Row> {
    all().into_iter().filter(|r| !r.zombie).collect()
}

#[cfg(target_os = "linux")]
use linux::{all, one};
#[cfg(not(target_os = "linux"))]
use other::{all, one};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use super::Row;

    pub(super) fn all() -> Vec<Row> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).filter_map(one).collect()
    }

    pub(super) fn one(pid: u32) -> Option<Row> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may hold blanks and brackets itself.
        let (head, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let birth = (*fields.get(19)?).to_owned();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<String> = line
            .split(|b| *b == 0)
            .filter(|w| !w.is_empty())
            .map(|w| String::from_utf8_lossy(w).into_owned())
            .collect();
        let command = if words.is_empty() {
            format!("({})", head.split_once('(').map_or("", |(_, name)| name))
        } else {
            words.join(" ")
        };
        Some(Row {
            pid,
            ppid: fields.get(1)?.parse().ok()?,
            pgid: fields.get(2)?.parse().ok()?,
            seconds: seconds_since(birth.parse().ok()?),
            zombie: *fields.first()? == "Z",
            birth,
            command,
        })
    }

    /// From clock ticks after boot; a tick is 10 ms on every Linux this runs on.
    fn seconds_since(ticks: u64) -> u64 {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let now: f64 = uptime.split(' ').next().and_then(|t| t.parse().ok()).unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an uptime in seconds")]
        (now as u64).saturating_sub(ticks / 100)
    }
}

#[cfg(any(not(target_os = "linux"), test))]
#[cfg_attr(target_os = "linux", allow(dead_code, reason = "compiled for its tests"))]
mod other {
    use std::process::{Command, Stdio};

    use super::Row;

    pub(super) fn all() -> Vec<Row> {
        table(&["-ax"])
    }

    pub(super) fn one(pid: u32) -> Option<Row> {
        table(&["-p", &pid.to_string()]).pop()
    }

    fn table(which: &[&str]) -> Vec<Row> {
        let columns = ["-ww", "-o", "pid=,ppid=,pgid=,stat=,lstart=,etime=,command="];
        let output = Command::new("/bin/ps").args(columns).args(which).env("LC_ALL", "C").stdin(Stdio::null()).output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.lines().filter_map(row).collect()
    }

    /// `  812   1  812 S  Mon Nov 30 21:44:00 2026     01:02 /bin/x -y`.
    fn row(line: &str) -> Option<Row> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(Row {
            pid: words.first()?.parse().ok()?,
            ppid: words.get(1)?.parse().ok()?,
            pgid: words.get(2)?.parse().ok()?,
            zombie: words.get(3)?.starts_with('Z'),
            birth: words.get(4..9)?.join(" "),
            seconds: etime(words.get(9)?)?,
            command: words.get(10..)?.join(" "),
        })
    }

    /// `[[DD-]HH:]MM:SS`.
    fn etime(text: &str) -> Option<u64> {
        let (days, rest) = text.split_once('-').unwrap_or(("0", text));
        let mut seconds = days.parse::<u64>().ok()? * 86_400;
        let mut unit = 1;
        for part in rest.rsplit(':') {
            seconds += part.parse::<u64>().ok()? * unit;
            unit *= 60;
        }
        Some(seconds)
    }

    #[cfg(test)]
    mod tests {
        use super::{etime, row};

        #[test]
        fn a_row_of_ps_is_read() {
            let row = row("  812     1   812 Ss   Mon Nov 30 21:44:00 2026  1-02:03:04 /bin/x -y z").expect("a row");
            assert_eq!((row.pid, row.ppid, row.pgid, row.zombie), (812, 1, 812, false));
            assert_eq!((row.birth.as_str(), row.seconds), ("Mon Nov 30 21:44:00 2026", 93_784));
            assert_eq!(row.command, "/bin/x -y z");
            assert_eq!(etime("01:20"), Some(80));
        }
    }
}
