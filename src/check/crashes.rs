//! `host.recent-panics`: whether a Mac went down lately.

use jiff::civil::Date;

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine};
use crate::model::host_facts::REPORTS;
use crate::model::{Category, Verdict};

pub(super) const CHECKS: &[Row] = &[Row {
    id: "host.recent-panics",
    category: Category::Host,
    title: "no node has panicked lately",
    run: recent_panics,
}];

/// Days for which a panic is recent.
const RECENT: i64 = 14;

/// `panic-full-2026-11-28-031501.0002.panic`, `panic-base+socd-…`: the day in the name.
fn panicked(file: &str) -> Option<Date> {
    let stem = file.strip_suffix(".panic")?;
    if !stem.starts_with("panic-") && !stem.starts_with("Kernel") {
        return None;
    }
    // `YYYY-MM-DD` somewhere after a hyphen or underscore.
    stem.match_indices(['-', '_']).find_map(|(at, _)| stem.get(at + 1..at + 11)?.parse().ok())
}

/// FAILURES G7, G8.
fn recent_panics(ctx: &Context<'_>, say: &mut Say) {
    let today = ctx.snapshot.taken_at.to_zoned_datetime(jiff::tz::TimeZone::UTC).date();
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(files) = say.known(about, &facts.host.reports) else { return };
        // The name is in the node's local time: a day more or less does not matter here.
        let age = |day: Date| i64::from(day.until(today).map_or(i32::MAX, |span| span.get_days()));
        let mut recent: Vec<(Date, &String)> =
            files.iter().filter_map(|f| Some((panicked(f)?, f))).filter(|(day, _)| age(*day) <= RECENT).collect();
        recent.sort();
        let Some((last, file)) = recent.last() else {
            return say.pass(about, format!("{label} has not panicked in the last {RECENT} days"));
        };
        // One panic leaves a full report and a short one.
        let mut days: Vec<Date> = recent.iter().map(|(day, _)| *day).collect();
        days.dedup();
        let often = if days.len() == 1 { format!("on {last}") } else { format!("on {} days, last on {last}", days.len()) };
        say.trouble(
            Verdict::Warn,
            about,
            Trouble {
                message: format!("{label} went down with a kernel panic {often}: the cluster stops with it when it happens again"),
                observed: format!("{REPORTS}/{file}"),
                expected: format!("no panic in {RECENT} days"),
                remedy: at_machine([
                    format!("on {label}: read panicString in that file; IOGPU in it points to memory pressure on the GPU (host.wired-limit, host.swap), Thunderbolt to a cable or the driver"),
                    "update all nodes to the same newer macOS if it happens again".to_owned(),
                ]),
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_is_in_the_name() {
        let day = |f: &str| panicked(f).map(|d| d.to_string());
        assert_eq!(day("panic-full-2026-11-28-031501.0002.panic").as_deref(), Some("2026-11-28"));
        assert_eq!(day("panic-base+socd-2026-11-28-031501.panic").as_deref(), Some("2026-11-28"));
        for no in ["python3.12-2026-11-28-031501.ips", "panic-full.panic", "notes.panic", "x-2026-11-28.panic.synced"] {
            assert_eq!(day(no), None, "{no}");
        }
    }
}
