//! A progress line for work that takes longer than two seconds: redrawn in place on a terminal, a
//! plain line every ten seconds elsewhere.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// Work shorter than this shows no progress.
const FIRST_DRAW: Duration = Duration::from_secs(2);
const REDRAW: Duration = Duration::from_millis(200);
const PLAIN_LINE: Duration = Duration::from_secs(10);
/// The clock is read once per this many steps.
const STRIDE: u64 = 1 << 12;

/// The progress display of one task.
#[derive(Debug)]
pub struct Progress {
    shown: Option<Shown>,
    next_check: u64,
}

#[derive(Debug)]
struct Shown {
    task: &'static str,
    total: Option<u64>,
    terminal: bool,
    started: Instant,
    next: Instant,
    drawn: bool,
}

impl Progress {
    pub(crate) fn new(task: &'static str, total: Option<u64>, terminal: bool) -> Self {
        let started = Instant::now();
        Self {
            shown: Some(Shown {
                task,
                total: total.filter(|&total| total > 0),
                terminal,
                started,
                next: started + FIRST_DRAW,
                drawn: false,
            }),
            next_check: STRIDE,
        }
    }

    pub(crate) fn hidden() -> Self {
        Self {
            shown: None,
            next_check: STRIDE,
        }
    }

    /// `done` is the total number of steps so far. Cheap enough to call for every event.
    #[inline]
    pub fn step(&mut self, done: u64) {
        if done >= self.next_check {
            self.next_check = done.saturating_add(STRIDE);
            self.redraw_if_due(done);
        }
    }

    /// Shows `line` if a redraw is due. For tasks whose single steps take long.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        if let Some(shown) = &mut self.shown {
            let now = Instant::now();
            if now >= shown.next {
                shown.draw_line(&line(), now);
            }
        }
    }

    #[cold]
    fn redraw_if_due(&mut self, done: u64) {
        if let Some(shown) = &mut self.shown {
            let now = Instant::now();
            if now >= shown.next {
                shown.draw(done, now);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(shown) = &self.shown
            && shown.drawn
            && shown.terminal
        {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Shown {
    fn draw(&mut self, done: u64, now: Instant) {
        let line = describe(self.task, done, self.total, now - self.started);
        self.draw_line(&line, now);
    }

    fn draw_line(&mut self, line: &str, now: Instant) {
        // Failing to show progress must not stop the work.
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
            self.next = now + REDRAW;
        } else {
            let _ = writeln!(io::stderr(), "brownout: {line}");
            self.next = now + PLAIN_LINE;
        }
        self.drawn = true;
    }
}

fn describe(task: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64() / 1e6;
    match total {
        Some(total) => format!(
            "{task}: {:.0} %, {rate:.1} M events/s",
            (100.0 * done as f64 / total as f64).min(100.0)
        ),
        None => format!("{task}: {done} events, {rate:.1} M events/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_total_gives_a_percentage() {
        let ten_seconds = Duration::from_secs(10);
        assert_eq!(
            describe("reading", 50_000_000, Some(100_000_000), ten_seconds),
            "reading: 50 %, 5.0 M events/s"
        );
        assert_eq!(
            describe("reading", 50_000_000, None, ten_seconds),
            "reading: 50000000 events, 5.0 M events/s"
        );
    }
}
