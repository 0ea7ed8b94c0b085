//! What has changed between two runs, for programs: one JSON object per line and finding.

use std::io;

use crate::FindingChanges;

/// One JSON object per line: `change` and what belongs to it, and the fields of the finding.
#[derive(Clone, Copy, Debug)]
pub struct ChangeLines;

impl ChangeLines {
    pub fn write(self, changes: &FindingChanges, out: &mut dyn io::Write) -> io::Result<()> {
        for changed in changes.all() {
            serde_json::to_writer(&mut *out, &changed)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}
