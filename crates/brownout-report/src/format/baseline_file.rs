//! `baseline.json`: the findings of a run as a [`Baseline`](crate::Baseline), also those that were known before, with what the source lines
//! were at the time.

use std::io;

use super::Format;
use crate::{Report, Sources};

/// The findings as a baseline, each of those that are joined on its own.
pub struct BaselineFile {
    pub sources: Sources,
}

impl Format for BaselineFile {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        let baseline = report.to_baseline(&self.sources);
        out.write_all(baseline.to_text().as_bytes())
    }
}
