//! Output streams: results go to standard output; warnings, notes and progress go to standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

use crate::progress::Progress;

/// Prints warnings, notes and progress.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    quiet: bool,
    silent: bool,
}

impl Console {
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            silent: false,
        }
    }

    /// A console for a part of the work whose warnings the results contain: prints nothing.
    pub fn silent() -> Self {
        Self {
            quiet: true,
            silent: true,
        }
    }

    /// Reports an error that does not end the command at once.
    pub fn error(&self, message: impl Display) {
        if self.silent {
            return;
        }
        // A closed standard error cannot be reported anywhere.
        let _ = writeln!(io::stderr(), "brownout: error: {message}");
    }

    /// Reports that the result is incomplete or restricted. Printed even with `--quiet`: a result that is
    /// silently incomplete is wrong.
    pub fn warn(&self, message: impl Display) {
        if self.silent {
            return;
        }
        // A closed standard error cannot be reported anywhere.
        let _ = writeln!(io::stderr(), "brownout: warning: {message}");
    }

    /// Prints a note; suppressed by `--quiet`.
    pub fn remark(&self, message: impl Display) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "brownout: {message}");
        }
    }

    /// Whether a line can be redrawn in place on standard error.
    pub fn redraws(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// A progress display for work that may take long.
    pub fn progress(&self, task: &'static str, total: Option<u64>) -> Progress {
        if self.quiet {
            Progress::hidden()
        } else {
            Progress::new(task, total, io::stderr().is_terminal())
        }
    }

    /// Like [`progress`](Self::progress), for a command that prints results while it runs. If they go to a
    /// terminal, no progress is shown.
    pub fn progress_beside_output(&self, task: &'static str, total: Option<u64>) -> Progress {
        if io::stdout().is_terminal() {
            Progress::hidden()
        } else {
            self.progress(task, total)
        }
    }
}

/// Buffered standard output. The caller must [`flush`](Write::flush) it at the end to detect the last error.
pub fn results() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}
