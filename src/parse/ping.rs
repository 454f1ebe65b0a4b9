//! `ping -c N`: how many came back.

use super::words::{excerpt, nothing_found};
use crate::model::Fact;

const TOOL: &str = "ping";

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ping {
    /// Packets sent. A packet the kernel refused (`sendto: No route to host`) counts as sent.
    pub transmitted: u32,
    /// Replies.
    pub received: u32,
    /// Average round trip, milliseconds; none without a reply.
    pub average_ms: Option<f64>,
    /// The last error, e.g. `sendto: Host is down`.
    pub error: Option<String>,
}

/// Reads the statistics. Give both streams: `sendto` errors go to standard error.
pub fn parse(output: &str) -> Fact<Ping> {
    let Some((transmitted, received)) = output.lines().rev().find_map(statistics) else {
        return Err(nothing_found(TOOL, "`… packets transmitted, … packets received`", output));
    };
    let error = output.lines().rev().find_map(|line| line.trim().strip_prefix("ping: ")).map(excerpt);
    Ok(Ping { transmitted, received, average_ms: output.lines().rev().find_map(average), error })
}

/// `3 packets transmitted, 2 packets received, 33.3% packet loss`.
fn statistics(line: &str) -> Option<(u32, u32)> {
    let mut parts = line.trim().split(',');
    let sent = parts.next()?.strip_suffix(" packets transmitted")?.trim().parse().ok()?;
    let mut back = parts.next()?.split_whitespace();
    let received = back.next()?.parse().ok()?;
    back.any(|word| word == "received").then_some((sent, received))
}

/// `round-trip min/avg/max/stddev = 0.321/0.402/0.499/0.060 ms`.
fn average(line: &str) -> Option<f64> {
    let (label, values) = line.split_once(" = ")?;
    if !label.contains("min/avg/max") {
        return None;
    }
    values.split('/').nth(1)?.trim().parse::<f64>().ok().filter(|ms| ms.is_finite())
}
