//! Turns events into progress bars (a terminal) or lines (anything else), on standard error.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::event::{Event, Events, Sink};
use crate::model::NodeName;
use crate::model::command::printable;
use crate::view::Printer;

/// The sink of this process: bars on a terminal, plain lines elsewhere.
pub fn sink(printer: Printer, verbose: bool) -> Events {
    if printer.progress { Arc::new(Bars::new(verbose)) } else { Arc::new(Lines { printer, verbose }) }
}

/// The line an event makes in a log; none for those that only move a bar.
///
/// Tasks appear when they end, so that nodes working side by side do not interleave; commands that change a node
/// are always shown, reading ones are not events at all.
fn line(event: &Event, verbose: bool) -> Option<String> {
    let at = |node: &Option<NodeName>| node.as_ref().map_or(String::new(), |n| format!("{n}: "));
    let text = match event {
        Event::PhaseStarted { title, .. } => format!("==> {title}"),
        Event::PhaseDone { id, ok: false } => format!("==> {id} failed"),
        Event::TaskDone { node, what, error: Some(error) } => format!("    {}{what}: failed: {error}", at(node)),
        Event::TaskDone { node, what, error: None } if verbose => format!("    {}{what}: done", at(node)),
        Event::Command { node, line } => format!("    {node}$ {line}"),
        Event::Detail { node, line } if verbose => format!("    {node}$ {line}"),
        Event::Note { node, text } => format!("    {}{text}", at(node)),
        Event::Warning { node, text } => format!("warning: {}{text}", at(node)),
        Event::PhaseDone { ok: true, .. }
        | Event::TaskStarted { .. }
        | Event::Progress { .. }
        | Event::Detail { .. }
        | Event::TaskDone { error: None, .. } => return None,
    };
    Some(printable(&text))
}

/// Plain lines.
struct Lines {
    printer: Printer,
    verbose: bool,
}

impl Sink for Lines {
    fn emit(&self, event: Event) {
        if let Some(text) = line(&event, self.verbose) {
            self.printer.err(&text);
        }
    }
}

type Key = (Option<NodeName>, String);

/// One bar per running task; finished ones disappear, lines stay.
struct Bars {
    all: MultiProgress,
    running: Mutex<HashMap<Key, ProgressBar>>,
    verbose: bool,
}

impl Bars {
    fn new(verbose: bool) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Bars { all, running: Mutex::new(HashMap::new()), verbose }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Key, ProgressBar>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bar(&self, node: Option<&NodeName>, what: &str) -> ProgressBar {
        let key = (node.cloned(), what.to_owned());
        let mut running = self.running();
        let make = || {
            let prefix = node.map_or_else(String::new, |n| format!("{n:<12} "));
            let bar = self.all.add(ProgressBar::new_spinner());
            bar.set_style(spinner());
            bar.set_prefix(prefix);
            bar.set_message(printable(what));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        };
        running.entry(key).or_insert_with(make).clone()
    }
}

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("  {spinner} {prefix}{msg} {elapsed:.dim}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Few are items, many are bytes.
fn counter(total: u64) -> ProgressStyle {
    let template = match total {
        0..10_000 => "  {spinner} {prefix}{msg} [{bar:28}] {pos}/{len}",
        _ => "  {spinner} {prefix}{msg} [{bar:28}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

impl Sink for Bars {
    fn emit(&self, event: Event) {
        match &event {
            Event::TaskStarted { node, what } => {
                self.bar(node.as_ref(), what);
            }
            Event::Progress { node, what, done, total } => {
                let bar = self.bar(node.as_ref(), what);
                if *total > 0 && bar.length() != Some(*total) {
                    bar.set_style(counter(*total));
                    bar.set_length(*total);
                }
                bar.set_position(*done);
            }
            Event::TaskDone { node, what, .. } => {
                if let Some(bar) = self.running().remove(&(node.clone(), what.clone())) {
                    bar.finish_and_clear();
                    self.all.remove(&bar);
                }
            }
            _ => {}
        }
        if let Some(text) = line(&event, self.verbose) {
            // Through the multi-bar, so that a line never tears a bar.
            let _ = self.all.println(&text);
        }
    }

    fn quietly(&self, question: &mut dyn FnMut()) {
        self.all.suspend(question);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        for (_, bar) in self.running().drain() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_the_node_and_are_safe_to_print() {
        let node = Some("studio-2".parse::<NodeName>().expect("a name"));
        let done = Event::TaskDone { node, what: "push".into(), error: Some("disk full\u{1b}[2J".into()) };
        assert_eq!(line(&done, false).expect("a line"), "    studio-2: push: failed: disk full\\u{1b}[2J");
        assert_eq!(line(&Event::PhaseDone { id: "push", ok: true }, true), None);
    }
}
