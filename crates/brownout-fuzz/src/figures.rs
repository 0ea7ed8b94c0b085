//! Figures of a campaign over time, as a table of comma-separated values.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::appended_lines;
use crate::campaign::CampaignStatus;
use crate::error::FuzzError;

const NAME: &str = "figures.csv";
const HEAD: &str = "seconds,executions,executions_per_second,pm_paths,edges,corpus,images,findings,stability,disk_bytes,replayed_paths,solved_inputs,pm_operations_reached,pm_operations_known\n";

/// Appends a line at a time.
#[derive(Debug)]
pub struct Figures {
    path: PathBuf,
    file: File,
    last: (f64, u64),
}

impl Figures {
    /// Continues the table in a results directory, or begins one.
    pub fn open(out: &Path) -> Result<Self, FuzzError> {
        let path = out.join(NAME);
        let failed = |source| FuzzError::Write {
            path: path.clone(),
            source,
        };
        let mut file = appended_lines::open(&path).map_err(failed)?;
        if file.seek(SeekFrom::End(0)).map_err(failed)? == 0 {
            appended_lines::append(&mut file, HEAD.as_bytes()).map_err(failed)?;
        }
        Ok(Self {
            path,
            file,
            last: (0.0, 0),
        })
    }

    /// Adds a line, and returns the executions per second since the last one.
    pub fn add(&mut self, status: &CampaignStatus, findings: usize) -> Result<f64, FuzzError> {
        let seconds = status.elapsed.as_secs_f64();
        let (then, executions) = std::mem::replace(&mut self.last, (seconds, status.executions));
        let done = status.executions.saturating_sub(executions) as f64;
        let rate = done / (seconds - then).max(0.001);
        let symbolic = status.symbolic.clone().unwrap_or_default();
        let line = format!(
            "{seconds:.1},{},{rate:.1},{},{},{},{},{findings},{:.4},{},{},{},{},{}\n",
            status.executions,
            status.transitions,
            status.edges,
            status.corpus,
            status.images,
            status.stability(),
            status.disk,
            symbolic.figures.paths,
            symbolic.figures.solved,
            symbolic.progress.reached,
            symbolic.progress.known,
        );
        appended_lines::append(&mut self.file, line.as_bytes()).map_err(|source| {
            FuzzError::Write {
                path: self.path.clone(),
                source,
            }
        })?;
        Ok(rate)
    }
}
