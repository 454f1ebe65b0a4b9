//! `ps -axo pid,ppid,etime,command` (samples/processes).

use super::words::{malformed, nothing_found};
use crate::model::Fact;
use crate::model::host_facts::Process;

const TOOL: &str = "ps";
const HEADING: [&str; 4] = ["PID", "PPID", "ELAPSED", "COMMAND"];

/// Every process, in the order of the table.
///
/// # Errors
/// No heading, or a row of another shape.
pub fn parse(output: &str) -> Fact<Vec<Process>> {
    let mut lines = output.lines().enumerate();
    if !lines.any(|(_, l)| l.split_whitespace().eq(HEADING)) {
        return Err(nothing_found(TOOL, "the heading `PID PPID ELAPSED COMMAND`", output));
    }
    lines
        .filter(|(_, l)| !l.trim().is_empty())
        .map(|(n, line)| row(line).ok_or_else(|| malformed(TOOL, Some(n + 1), "expected a process")))
        .collect()
}

fn row(line: &str) -> Option<Process> {
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        word
    };
    let (pid, parent, elapsed) = (word().parse().ok()?, word().parse().ok()?, seconds(word())?);
    Some(Process { pid, ppid: parent, seconds: elapsed, command: rest.trim().to_owned() })
}

/// `[[DD-]HH:]MM:SS`.
fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<u64> = clock.split(':').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let clock = match parts.as_slice() {
        [m, s] => m.checked_mul(60)?.checked_add(*s)?,
        [h, m, s] => h.checked_mul(60)?.checked_add(*m)?.checked_mul(60)?.checked_add(*s)?,
        _ => return None,
    };
    days.parse::<u64>().ok()?.checked_mul(86_400)?.checked_add(clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_any_age_and_any_command() {
        let text = "  PID  PPID     ELAPSED COMMAND\n    1     0 123-04:05:06 /sbin/launchd\n\
                    87139 87070       18:58 Cursor Helper: mcp-process\n87440     1       60:00 (zombie)\n";
        let all = parse(text).expect("reads");
        assert_eq!(all[0].seconds, 123 * 86_400 + 4 * 3600 + 5 * 60 + 6);
        assert_eq!((all[1].pid, all[1].ppid, all[1].command.as_str()), (87139, 87070, "Cursor Helper: mcp-process"));
        assert_eq!(all[2].seconds, 3600);
        for bad in ["", "nothing\n", "PID PPID ELAPSED COMMAND\nx 1 00:01 a\n", "PID PPID ELAPSED COMMAND\n1 1 1 a\n"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
