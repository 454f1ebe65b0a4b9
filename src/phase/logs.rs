//! The engines' logs: read, followed, and brought into one order by their own times.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::runtime::RuntimeNode;
use crate::model::NodeName;

/// One line of a node's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where.
    pub node: NodeName,
    /// By that node's clock; of the line before where it has none of its own.
    pub at: Timestamp,
    /// All of it, with its time.
    pub text: String,
}

/// Makes lines of what arrives in pieces.
#[derive(Debug)]
pub struct Lines {
    from: Option<Timestamp>,
    rest: Vec<u8>,
    last: Timestamp,
}

impl Lines {
    /// Only lines written since then.
    pub fn new(from: Option<Timestamp>) -> Self {
        Lines { from, rest: Vec::new(), last: Timestamp::MIN }
    }

    /// The lines that are whole by now, each with its time.
    pub fn take(&mut self, chunk: &[u8]) -> Vec<(Timestamp, String)> {
        self.rest.extend_from_slice(chunk);
        // Whole lines only: a letter may lie across two pieces.
        let Some(end) = self.rest.iter().rposition(|b| *b == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let mut lines = Vec::new();
        for line in String::from_utf8_lossy(&whole).lines() {
            if let Some(at) = line.split(' ').next().and_then(|t| t.parse().ok()) {
                self.last = at;
            }
            if self.from.is_none_or(|from| self.last >= from) {
                lines.push((self.last, line.to_owned()));
            }
        }
        lines
    }
}

/// Lines of several nodes.
#[derive(Debug, Default)]
pub struct Merge {
    lines: Vec<(Instant, Line)>,
}

impl Merge {
    /// Takes a node's lines, oldest first.
    pub fn add(&mut self, node: &NodeName, lines: Vec<(Timestamp, String)>) {
        let now = Instant::now();
        self.lines.extend(lines.into_iter().map(|(at, text)| (now, Line { node: node.clone(), at, text })));
    }

    /// All of them in order. Lines of one node and time stay as they came.
    pub fn all(self) -> Vec<Line> {
        let mut lines: Vec<Line> = self.lines.into_iter().map(|(_, line)| line).collect();
        lines.sort_by_key(|l| l.at);
        lines
    }

    /// Takes out what has come at least so long ago, in order: others had the time to send what is older.
    pub fn older_than(&mut self, wait: Duration) -> Vec<Line> {
        let (ripe, young) = std::mem::take(&mut self.lines).into_iter().partition(|(came, _)| came.elapsed() >= wait);
        self.lines = young;
        Merge { lines: ripe }.all()
    }
}

/// The end of a node's log: what was written since `from`, at most `count` lines. None when there is none.
///
/// # Errors
/// In words.
pub async fn read_log(
    node: &RuntimeNode,
    from: Option<Timestamp>,
    count: Option<u32>,
) -> Result<Option<Vec<(Timestamp, String)>>, String> {
    let mut lines = Lines::new(from);
    let mut found = Vec::new();
    // What was put aside is asked for only when it can matter.
    let steps: &[&str] = if from.is_some() { &["read-older-log", "read-log"] } else { &["last-words"] };
    let mut there = false;
    for step in steps {
        let mut call = node.step(step);
        if let (Some(count), "last-words") = (count, *step) {
            call = call.with("lines", count.to_string());
        }
        let output = call.answer().await.map_err(|e| e.to_string())?;
        there |= output.ok();
        if output.ok() {
            found.extend(lines.take(&output.stdout));
        }
    }
    if let Some(count) = count {
        let surplus = found.len().saturating_sub(count as usize);
        found.drain(..surplus);
    }
    Ok(there.then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        text.parse().expect("a name")
    }

    #[test]
    fn lines_are_merged_by_time_whatever_pieces_they_came_in() {
        let mut merge = Merge::default();
        let mut lines = Lines::new(None);
        let text = "2026-01-01T00:00:01.000Z engine one é\n2026-01-01T00:00:03.000Z event three\n";
        let cut = text.find('é').expect("there") + 1;
        let (head, tail) = text.as_bytes().split_at(cut);
        for piece in [head, tail, b"a line without a time\n2026-01-01T00:00:09Z half".as_slice()] {
            merge.add(&name("a"), lines.take(piece));
        }
        let mut other = Lines::new(None);
        merge.add(&name("b"), other.take(b"2026-01-01T00:00:02.000Z engine two\n2026-01-01T00:00:04.000Z x\n"));
        let all: Vec<String> = merge.all().into_iter().map(|l| format!("{} {}", l.node, l.text)).collect();
        assert_eq!(
            all,
            [
                "a 2026-01-01T00:00:01.000Z engine one é",
                "b 2026-01-01T00:00:02.000Z engine two",
                "a 2026-01-01T00:00:03.000Z event three",
                "a a line without a time",
                "b 2026-01-01T00:00:04.000Z x"
            ]
        );
    }

    #[test]
    fn what_is_too_old_is_left_out_with_what_belongs_to_it() {
        let mut lines = Lines::new(Some("2026-01-01T00:00:02Z".parse().expect("a time")));
        let text = b"2026-01-01T00:00:01Z old\n  of it\n2026-01-01T00:00:02Z new\n  of it\n";
        let kept: Vec<String> = lines.take(text).into_iter().map(|(_, l)| l).collect();
        assert_eq!(kept, ["2026-01-01T00:00:02Z new", "  of it"]);
    }
}
