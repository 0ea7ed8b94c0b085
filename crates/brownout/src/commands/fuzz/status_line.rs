//! How far a campaign is: a line that is redrawn on a terminal, and plain lines elsewhere.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use brownout_fuzz::CampaignStatus;

use crate::console::Console;
use crate::quantity::number_of;

/// How often the line is redrawn, and how often a plain line is printed.
const REDRAWN: Duration = Duration::from_millis(500);
const PRINTED: Duration = Duration::from_secs(10);

pub struct StatusLine<'a> {
    console: &'a Console,
    last: Instant,
    executions: (Duration, u64),
    is_drawn: bool,
}

impl<'a> StatusLine<'a> {
    pub fn new(console: &'a Console) -> Self {
        Self {
            console,
            last: Instant::now(),
            executions: (Duration::ZERO, 0),
            is_drawn: false,
        }
    }

    pub fn is_due(&self) -> bool {
        let interval = match self.console.redraws() {
            true => REDRAWN,
            false => PRINTED,
        };
        self.last.elapsed() >= interval
    }

    pub fn show(&mut self, status: &CampaignStatus, findings: usize) {
        self.last = Instant::now();
        let (then, before) = self.executions;
        let seconds = status.elapsed.saturating_sub(then).as_secs_f64().max(0.001);
        let rate = status.executions.saturating_sub(before) as f64 / seconds;
        self.executions = (status.elapsed, status.executions);
        let text = describe(status, rate, findings);
        if self.console.redraws() {
            self.is_drawn = true;
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        } else {
            self.console.remark(text);
        }
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn describe(status: &CampaignStatus, rate: f64, findings: usize) -> String {
    let seconds = status.elapsed.as_secs();
    let time = match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {} s", seconds % 60),
    };
    let last = status.last_new_path.map(|last| {
        let ago = status.elapsed.saturating_sub(last).as_secs();
        format!(" (last new {ago} s ago)")
    });
    let symbolic = status.symbolic.as_ref().map(|symbolic| {
        let (figures, progress) = (&symbolic.figures, &symbolic.progress);
        format!(
            ", {} replayed, {} solved ({} waiting), {} of {} PM operations reached",
            number_of(figures.paths, "path"),
            number_of(figures.solved, "input"),
            figures.waiting,
            progress.reached,
            progress.known,
        )
    });
    format!(
        "{time}: {} ({rate:.0}/s), {} PM paths{}, {} edges, {}, {}, stability {:.0} %{}, {}, {:.1} MB",
        number_of(status.executions, "execution"),
        status.transitions,
        last.unwrap_or_default(),
        status.edges,
        number_of(status.corpus as u64, "input"),
        number_of(status.images as u64, "image"),
        status.stability() * 100.0,
        symbolic.unwrap_or_default(),
        number_of(findings as u64, "finding"),
        status.disk as f64 / 1e6,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_a_fuzzer_does() {
        let status = CampaignStatus {
            elapsed: Duration::from_secs(75),
            executions: 1500,
            transitions: 40,
            edges: 900,
            corpus: 10,
            unstable: 1,
            images: 1,
            disk: 2_500_000,
            last_new_path: Some(Duration::from_secs(70)),
            ..CampaignStatus::default()
        };
        assert_eq!(
            describe(&status, 20.0, 2),
            "1 min 15 s: 1500 executions (20/s), 40 PM paths (last new 5 s ago), 900 edges, 10 inputs, 1 image, \
             stability 90 %, 2 findings, 2.5 MB"
        );
    }
}
