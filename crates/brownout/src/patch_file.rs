//! The files by which `fix` says to a recording in a private view what to add to the program, and learns how often that was done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use brownout_engine::{PatchCounts, PatchPlan};

use crate::failure::Failure;

/// Writes a plan for a recording.
pub fn write_plan(plan: &PatchPlan, path: &Path) -> Result<(), Failure> {
    let text = serde_json::to_vec(plan).map_err(|error| Failure::FixDirectory(error.into()))?;
    fs::write(path, text).map_err(Failure::FixDirectory)
}

/// Reads what [`write_plan`] has written.
pub fn read_plan(path: &Path) -> Result<PatchPlan, Failure> {
    let unusable = |source| Failure::PatchPlan {
        path: path.to_owned(),
        source,
    };
    let text = fs::read(path).map_err(unusable)?;
    let plan: PatchPlan = serde_json::from_slice(&text).map_err(|error| unusable(error.into()))?;
    let count = plan.patches.len();
    match plan.is_too_large() || plan.sites.iter().any(|site| site.patch >= count) {
        true => Err(unusable(io::ErrorKind::InvalidData.into())),
        false => Ok(plan),
    }
}

/// Where the counts of a recording with the plan at `plan` are.
pub fn counts_path(plan: &Path) -> PathBuf {
    plan.with_extension("counts")
}

/// Writes how often the patches of a plan were carried out.
pub fn write_counts(counts: &PatchCounts, plan: &Path) -> Result<(), Failure> {
    let path = counts_path(plan);
    let unusable = |source: io::Error| Failure::PatchPlan {
        path: path.clone(),
        source,
    };
    let text = serde_json::to_vec(counts).map_err(|error| unusable(error.into()))?;
    fs::write(&path, text).map_err(unusable)
}
