//! Is the engine still working? Pure: a watch that is told of every sign of life.

use std::time::{Duration, Instant};

/// Nothing is a hang that is shorter.
const LEAST: Duration = Duration::from_secs(15);
/// Nor what is shorter than so many times the slowest step so far: a long prompt on a slow machine is work.
const TIMES_SLOWEST: u32 = 4;

/// Watches a serving engine.
#[derive(Clone, Copy, Debug)]
pub struct Beats {
    last: Instant,
    slowest: Duration,
    /// The limit was over at the last look too.
    suspected: bool,
}

impl Beats {
    /// Begins to watch.
    pub fn start(now: Instant) -> Self {
        Beats { last: now, slowest: Duration::ZERO, suspected: false }
    }

    /// A sign of life.
    pub fn beat(&mut self, now: Instant) {
        self.slowest = self.slowest.max(now.saturating_duration_since(self.last));
        self.last = now;
        self.suspected = false;
    }

    /// How long there may be none.
    pub fn limit(&self) -> Duration {
        LEAST.max(self.slowest.saturating_mul(TIMES_SLOWEST))
    }

    /// Whether it hangs, and for how long. Only at the second look that finds it so: between the two, lines that came
    /// while this process itself had stood still are read.
    pub fn hangs(&mut self, now: Instant) -> Option<Duration> {
        let silent = now.saturating_duration_since(self.last);
        let over = silent > self.limit();
        let hangs = over && self.suspected;
        self.suspected = over;
        hangs.then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_hang_is_longer_than_fifteen_seconds_and_four_of_the_slowest_steps() {
        let start = Instant::now();
        let mut beats = Beats::start(start);
        assert_eq!(beats.hangs(start + 15 * S), None);
        // Steps that grow slower: a prompt of a minute and more is no hang.
        let mut now = start;
        for step in [2, 5, 14, 20, 40] {
            now += step * S;
            assert_eq!(beats.hangs(now), None, "a step of {step} s");
            assert_eq!(beats.hangs(now), None, "a step of {step} s");
            beats.beat(now);
        }
        assert_eq!(beats.limit(), 160 * S);
        assert_eq!(beats.hangs(now + 161 * S), None, "the first look only suspects");
        assert_eq!(beats.hangs(now + 162 * S), Some(162 * S));
    }

    #[test]
    fn a_watcher_that_stood_still_itself_accuses_nobody() {
        let start = Instant::now();
        let mut beats = Beats::start(start);
        let woken = start + 3600 * S;
        assert_eq!(beats.hangs(woken), None);
        beats.beat(woken);
        assert_eq!(beats.hangs(woken + S), None);
    }
}
