//! `doctor --watch`: what is wrong now, and what has just changed, in one picture that is drawn again and again.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use super::formats::{about, first_step};
use super::{counted, word};
use crate::check::Report;
use crate::model::{Finding, Verdict};
use crate::view::Printer;
use crate::view::text::{Tint, hanging, paint};

/// Changes that stay in the picture.
const KEPT: usize = 6;

/// Names a finding from one picture to the next: check, subject.
type Key = (String, String);

/// A change between two pictures.
struct Change {
    at: Timestamp,
    check: String,
    about: String,
    before: Option<Verdict>,
    after: Option<Verdict>,
    message: String,
}

/// What was seen so far.
#[derive(Default)]
pub struct Watch {
    last: Option<BTreeMap<Key, (Verdict, String)>>,
    changes: VecDeque<Change>,
}

fn states(report: &Report) -> BTreeMap<Key, (Verdict, String)> {
    let mut all = BTreeMap::new();
    for finding in &report.findings {
        // Of the rack several things may be wrong at once, one cable each.
        let rack = finding.node.is_none() && finding.link.is_none() && finding.verdict > Verdict::Skip;
        let subject = if rack { format!("rack, {}", finding.message) } else { about(finding) };
        let key = (finding.check.clone(), subject);
        let now = (finding.verdict, finding.message.clone());
        // Several findings of one check about one thing: the worst speaks.
        let worst = all.entry(key).or_insert_with(|| now.clone());
        if now.0 > worst.0 {
            *worst = now;
        }
    }
    all
}

impl Watch {
    /// Takes the next report in. Gives the lines of what has changed, with their time, for a stream.
    pub fn take(&mut self, report: &Report) -> Vec<String> {
        let now = states(report);
        let mut told = Vec::new();
        if let Some(last) = &self.last {
            let mut keys: Vec<&Key> = last.keys().chain(now.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (before, after) = (last.get(key), now.get(key));
                let verdict = |s: Option<&(Verdict, String)>| s.map(|(v, _)| *v);
                if verdict(before) == verdict(after) {
                    continue;
                }
                // What only turns from not looked at to right, or goes with its cable, is no news by itself.
                let news = |v: Option<Verdict>| v.is_some_and(|v| v > Verdict::Skip);
                if !news(verdict(before)) && !news(verdict(after)) {
                    continue;
                }
                let change = Change {
                    at: report.taken_at,
                    check: key.0.clone(),
                    about: if key.1.starts_with("rack, ") { "rack".to_owned() } else { key.1.clone() },
                    before: verdict(before),
                    after: verdict(after),
                    message: after.or(before).map(|(_, m)| m.clone()).unwrap_or_default(),
                };
                told.push(line(&change));
                self.changes.push_front(change);
            }
            self.changes.truncate(KEPT);
        }
        self.last = Some(now);
        told
    }

    /// The picture: at most `height` lines.
    pub fn picture(&self, report: &Report, trouble: Option<&str>, printer: Printer, height: usize) -> String {
        let mut lines: Vec<String> = Vec::new();
        let (tint, verdict) = word(report.verdict);
        let time = report.taken_at.strftime("%H:%M:%S");
        let head =
            wrapped("", &format!("{verdict}  {} at {time} UTC: {}", report.rack, counted(report.summary)), printer);
        lines.extend(head.into_iter().map(|l| l.replacen(verdict, &paint(printer, tint, verdict), 1)));
        if let Some(trouble) = trouble {
            lines.extend(wrapped("", trouble, printer));
        }
        if !self.changes.is_empty() {
            lines.push(String::new());
            lines.push(paint(printer, Tint::Bold, "changed"));
            for change in &self.changes {
                let good = change.after.is_none_or(|v| v <= Verdict::Skip);
                // What is wrong now stands below in full.
                let told = line(change);
                let told = if good { told.as_str() } else { told.split(": ").next().unwrap_or(&told) };
                let text = wrapped("  ", told, printer);
                let tint = if good { Tint::Green } else { Tint::Red };
                lines.extend(text.into_iter().map(|l| paint(printer, tint, &l)));
            }
        }
        let wrong: Vec<&Finding> = report.findings.iter().filter(|f| f.verdict > Verdict::Skip).collect();
        if wrong.is_empty() {
            lines.push(String::new());
            lines.push("Nothing is wrong.".to_owned());
        }
        let room = height.saturating_sub(2);
        let mut shown = 0;
        for finding in &wrong {
            let mut block = vec![String::new()];
            let (tint, verdict) = word(finding.verdict);
            let head = format!("{verdict}  {} {}: {}", finding.check, about(finding), finding.message);
            let mut text = wrapped("", &head, printer);
            if let Some(first) = text.first_mut() {
                *first = first.replacen(verdict, &paint(printer, tint, verdict), 1);
            }
            block.extend(text);
            if let Some(step) = first_step(finding) {
                block.extend(wrapped("      → ", step, printer));
            }
            if lines.len() + block.len() > room && shown > 0 {
                break;
            }
            lines.extend(block);
            shown += 1;
        }
        lines.truncate(room);
        let hidden = wrong.len() - shown;
        let more = if hidden > 0 { format!("{hidden} more: `macluster doctor` shows all. ") } else { String::new() };
        lines.push(String::new());
        lines.push(format!("{more}Looking again every 2 s; q or Ctrl-C ends."));
        let mut out = lines.join("\n");
        out.push('\n');
        out
    }
}

fn wrapped(first: &str, text: &str, printer: Printer) -> Vec<String> {
    hanging(first, text, printer.width).lines().map(str::to_owned).collect()
}

/// `14:03:07 FAIL → ok cabling.speed studio-1:2–studio-2:2: runs at 80 Gb/s`.
fn line(change: &Change) -> String {
    let before = change.before.map_or("new", |v| word(v).1);
    let after = change.after.map_or("gone", |v| word(v).1);
    let (time, check, about) = (change.at.strftime("%H:%M:%S"), &change.check, &change.about);
    format!("{time} {before} → {after} {check} {about}: {}", change.message)
}
