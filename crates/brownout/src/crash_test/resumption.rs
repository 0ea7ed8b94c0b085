//! Continues an earlier test: only one of the same trace with the same options.

use std::path::Path;

use brownout_crash::journal::{self, Entries, Head};
use brownout_crash::{
    CampaignEnding, Cause, CrashError, Explanation, Journal, SuspectImages, TestConfiguration,
    Trial,
};

use super::plan::Plan;
use crate::console::Console;
use crate::failure::Failure;
use crate::output_directory::{JOURNAL, OutputDirectory};
use crate::quantity::number_of;
use crate::trace_file::TraceFile;

/// What an earlier test has tried and found, and how it ended.
#[derive(Default)]
pub struct EarlierTest {
    pub trials: Vec<Trial>,
    pub causes: Vec<Cause>,
    pub explanations: Vec<Explanation>,
    pub ending: Option<CampaignEnding>,
}

/// The journal of the test that is resumed, which must be the same test.
pub fn earlier_entries(
    directory: &OutputDirectory,
    head: &Head,
    plan: &Plan,
) -> Result<Option<Entries>, Failure> {
    if !plan.resume {
        return Ok(None);
    }
    let path = directory.file(JOURNAL);
    let earlier = journal::read(&path).map_err(CrashError::from)?;
    if let Some(Entries { head: found, .. }) = &earlier {
        check_same_test(&path, &found.configuration, &head.configuration)?;
        if found != head {
            return Err(Failure::OtherOptions { path });
        }
    }
    Ok(earlier)
}

/// A new journal, or an existing one to continue with its content.
pub fn open_journal(
    directory: &OutputDirectory,
    head: &Head,
    earlier: Option<Entries>,
    suspects: &[SuspectImages],
    plan: &Plan,
    console: &Console,
) -> Result<(Journal, EarlierTest), Failure> {
    let path = directory.file(JOURNAL);
    match earlier {
        Some(Entries {
            trials,
            causes,
            explanations,
            ending,
            ..
        }) => {
            console.remark(format_args!(
                "{} tried before",
                number_of(trials.len() as u64, "crash point")
            ));
            let journal = Journal::resume(&path).map_err(CrashError::from)?;
            let earlier = EarlierTest {
                trials,
                causes,
                explanations,
                ending,
            };
            Ok((journal, earlier))
        }
        None => {
            if plan.resume {
                console.remark("there is nothing to resume; starting from the beginning");
            }
            let mut journal = Journal::create(&path, head).map_err(CrashError::from)?;
            for suspect in suspects {
                journal.suspect(suspect).map_err(CrashError::from)?;
            }
            Ok((journal, EarlierTest::default()))
        }
    }
}

/// Fails if the directory holds a test of another trace or with other options, which must not be continued.
pub fn check_resumable(
    directory: &OutputDirectory,
    trace: &TraceFile,
    plan: &Plan,
) -> Result<(), Failure> {
    let path = directory.file(JOURNAL);
    match journal::read(&path).map_err(CrashError::from)? {
        Some(earlier) => {
            let wanted = plan.configuration(trace.identity());
            check_same_test(&path, &earlier.head.configuration, &wanted)
        }
        None => Ok(()),
    }
}

/// Results of different strategies or options are not mixed.
pub fn check_same_test(
    journal: &Path,
    found: &TestConfiguration,
    wanted: &TestConfiguration,
) -> Result<(), Failure> {
    if found.strategy != wanted.strategy {
        return Err(Failure::OtherStrategy {
            path: journal.to_owned(),
            found: found.strategy.clone(),
            wanted: wanted.strategy.clone(),
        });
    }
    let path = journal.to_owned();
    if found.trace != wanted.trace {
        return Err(Failure::OtherConfiguration { path });
    }
    let with_other_programs = TestConfiguration {
        programs: wanted.programs.clone(),
        ..found.clone()
    };
    if found.programs != wanted.programs && with_other_programs == *wanted {
        return Err(Failure::RecoveryChanged { path });
    }
    if found != wanted {
        return Err(Failure::OtherOptions { path });
    }
    Ok(())
}
