//! What recovery opens and reads of the persistent files, and what that means for the verdict.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use brownout_crash::{
    CrashError, CrashImage, CrashSituation, FailurePoints, Leaf, ObservedReads, Occurrence,
    Operation, RecordedRun, StoredBytesUse, Survey, Suspect, UncrashedRecovery, altered_copies,
    observe_reads, observe_reads_after, passes_on_all, reads_changed_bytes,
};
use brownout_crash::{ProgressObserver as _, journal};
use brownout_recovery::Orphans;
use brownout_report::{ReadFile, ReadsSummary};

use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::runners::open_runner;
use crate::failure::Failure;
use crate::output_directory::{JOURNAL, OutputDirectory};
use crate::suspects::JudgedSuspect;

/// How often recovery is observed again if it has processes that nobody waits for.
const MOST_REPETITIONS: usize = 3;

/// What recovery does with what each finding stores, by the id of the finding; `None` if that is not known.
pub type ReadFindings = BTreeMap<String, Option<StoredBytesUse>>;

/// What is known about the reads of the recovery of a test.
pub struct TestReads {
    pub observed: ObservedReads,
    /// Whether the journal does not have it yet.
    pub is_new: bool,
}

impl TestReads {
    /// What the test that is resumed has observed; `None` if there is none.
    pub fn earlier(directory: &OutputDirectory, plan: &Plan) -> Result<Option<Self>, Failure> {
        if !plan.resume {
            return Ok(None);
        }
        let earlier = journal::read(&directory.file(JOURNAL)).map_err(CrashError::from)?;
        let observed = earlier.and_then(|entries| entries.reads);
        Ok(observed.map(|observed| Self {
            observed,
            is_new: false,
        }))
    }

    /// Observes recovery on the finished image and, if there is a file that it does not open there or if it reads nothing, after some
    /// crashes: it may do nothing if no operation was interrupted.
    pub fn observe(
        (run, survey): (&RecordedRun, &Survey),
        (image, last_event): (&CrashImage, u64),
        operation: Option<Operation>,
        uncrashed: &UncrashedRecovery,
        plan: &Plan,
        monitor: &mut CrashTestMonitor,
    ) -> Result<Self, Failure> {
        let native = uncrashed.attempt.duration;
        let observe = || -> Result<ObservedReads, Failure> {
            let mut runner = open_runner(plan, survey)?;
            let runner = &mut runner;
            Ok(observe_reads(runner, image, last_event, operation, native))
        };
        let mut observed = observe()?;
        if let ObservedReads::Known(reads) = &mut observed {
            // Whether a process outlives the first one may depend on which of the two is faster this time.
            let mut repetitions = match uncrashed.orphans {
                Orphans::Ended => MOST_REPETITIONS,
                _ => 0,
            };
            while repetitions > 0 && !reads.left_processes {
                repetitions -= 1;
                if let ObservedReads::Known(again) = observe()? {
                    reads.unite(again);
                }
            }
            for crash in telling_crashes(&survey.points) {
                if reads.never_opened().next().is_none() && !reads.is_nothing_read() {
                    break;
                }
                let (image, _) = run.image_before(Some(crash.event), &survey.files, monitor)?;
                let operation = operation.map(|_| crash.operation);
                let mut runner = open_runner(plan, survey)?;
                observe_reads_after(reads, &mut runner, &image, crash, operation, native);
            }
        }
        Ok(Self {
            observed,
            is_new: true,
        })
    }
}

/// Crashes inside operations, if there are any: an early one, one in the middle and a late one.
fn telling_crashes(points: &FailurePoints) -> Vec<Occurrence> {
    let leaves = points.leaves().iter();
    let mut crashes: Vec<Occurrence> = leaves.flat_map(Leaf::chosen).collect();
    crashes.sort_by_key(|crash| (!crash.operation.active, crash.event));
    let inside = crashes.partition_point(|crash| crash.operation.active);
    if inside > 0 {
        crashes.truncate(inside);
    }
    let Some(last) = crashes.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut chosen = vec![0, last / 2, last];
    chosen.dedup();
    chosen.into_iter().map(|index| crashes[index]).collect()
}

/// What `run.json` says about the reads.
pub fn reads_summary(observed: &ObservedReads) -> ReadsSummary {
    match observed {
        ObservedReads::Unknown(why) => ReadsSummary {
            unknown: Some(why.clone()),
            ..ReadsSummary::default()
        },
        ObservedReads::Known(reads) => ReadsSummary {
            unknown: None,
            files: reads
                .files
                .iter()
                .map(|file| ReadFile {
                    path: shown(&file.path),
                    opened: file.opened,
                    bytes_read: file.ranges.bytes(),
                })
                .collect(),
            gaps: reads.gaps.clone(),
            doubts: Vec::new(),
        },
    }
}

/// What is not known because recovery could not be observed, in sentences.
pub fn unobserved(observed: &ObservedReads) -> Vec<String> {
    let whys = match observed {
        ObservedReads::Unknown(why) => std::slice::from_ref(why),
        ObservedReads::Known(reads) => &reads.gaps,
    };
    let sentence = |why: &String| {
        format!("{why}; whether recovery reads what the tested crashes change is not known")
    };
    whys.iter().map(sentence).collect()
}

/// What a test does not show if recovery reads the files, but nothing of what crashes change in them.
pub fn unread_changes(
    observed: &ObservedReads,
    findings: &ReadFindings,
    run: &RecordedRun,
    points: &FailurePoints,
) -> Result<Option<String>, Failure> {
    let leaves = points.leaves().iter();
    let first = leaves.flat_map(Leaf::chosen).map(|crash| crash.event).min();
    // Stores of findings are lost in the images that try them, however early they were made.
    let reads_lost = findings
        .values()
        .any(|&used| used == Some(StoredBytesUse::Read));
    let Some(first) = first.filter(|_| !reads_lost) else {
        return Ok(None);
    };
    let unread = reads_changed_bytes(run, observed, first)? == Some(false);
    Ok(unread.then(|| {
        "recovery reads none of the bytes that the tested crashes change, so it can hardly notice them; use a command that also \
         checks what the program stores after the first failure point"
            .to_owned()
    }))
}

/// What a test does not show if recovery passes whatever it reads.
pub fn accepted_alterations(
    (run, survey): (&RecordedRun, &Survey),
    observed: &ObservedReads,
    (last_event, time_limit): (u64, Duration),
    plan: &Plan,
    monitor: &mut CrashTestMonitor,
) -> Result<Option<String>, Failure> {
    let leaves = survey.points.leaves().iter();
    let first = leaves.flat_map(Leaf::chosen).map(|crash| crash.event).min();
    let Some(first) = first.filter(|_| !monitor.interrupted()) else {
        return Ok(None);
    };
    let copies = altered_copies(run, &survey.files, observed, first, monitor)?;
    if copies.is_empty() {
        return Ok(None);
    }
    let situation = CrashSituation {
        event: last_event,
        operation: plan.counts_operations().then(|| survey.points.operation()),
        time_limit,
    };
    let mut runner = open_runner(plan, survey)?;
    let passes = passes_on_all(&mut runner, &copies, &situation).map_err(CrashError::from)?;
    let tried = match copies.len() {
        1 => "an altered copy".to_owned(),
        several => format!("{several} altered copies"),
    };
    Ok(passes.then(|| {
        format!(
            "recovery also passes on {tried} of the files, so it may not check what it reads; let it fail if something is \
             wrong, unless it accepts or discards such data on purpose"
        )
    }))
}

/// Takes back that findings are harmless: a recovery that does not read the files passes on every image.
pub fn withdraw_acquittals(judged: &mut [JudgedSuspect]) {
    for one in judged {
        one.verdict.confirmed = one.verdict.confirmed.filter(|&confirmed| confirmed);
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Puts suspects first whose bytes recovery reads, and last those whose bytes it never reads.
pub fn most_read_first(suspects: &mut Vec<Suspect>, uses: &[Option<StoredBytesUse>]) {
    let mut ranked: Vec<(u8, Suspect)> = std::mem::take(suspects)
        .into_iter()
        .zip(uses)
        .map(|(suspect, used)| match used {
            Some(StoredBytesUse::Read) => (0, suspect),
            None => (1, suspect),
            Some(StoredBytesUse::Unread | StoredBytesUse::Overwritten) => (2, suspect),
        })
        .collect();
    ranked.sort_by_key(|&(rank, _)| rank);
    suspects.extend(ranked.into_iter().map(|(_, suspect)| suspect));
}

/// What is known about each finding. Several suspects can be one finding.
pub fn by_finding(suspects: &[Suspect], uses: &[Option<StoredBytesUse>]) -> ReadFindings {
    let mut findings = ReadFindings::new();
    for (suspect, &used) in suspects.iter().zip(uses) {
        let known = findings.entry(suspect.finding.clone()).or_insert(used);
        *known = StoredBytesUse::of_both(*known, used);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use StoredBytesUse::{Overwritten, Read, Unread};
    use brownout_crash::Suspicion;

    fn suspect(finding: &str) -> Suspect {
        Suspect {
            finding: finding.to_owned(),
            suspicion: Suspicion::LostStore {
                stores: Vec::new(),
                forever: false,
            },
        }
    }

    #[test]
    fn suspects_whose_bytes_are_read_come_first() {
        let mut suspects = ["a", "b", "c", "d"].map(suspect).to_vec();
        let uses = [Some(Unread), None, Some(Read), None];
        most_read_first(&mut suspects, &uses);
        let order: Vec<&str> = suspects.iter().map(|one| one.finding.as_str()).collect();
        assert_eq!(order, ["c", "b", "d", "a"]);
    }

    #[test]
    fn a_finding_is_unread_only_if_all_its_suspects_are() {
        let suspects = ["a", "a", "b", "b", "c", "c", "d", "d"].map(suspect);
        let uses = [
            Some(Unread),
            Some(Read),
            Some(Overwritten),
            None,
            Some(Unread),
            Some(Overwritten),
            Some(Overwritten),
            Some(Overwritten),
        ];
        let findings: Vec<_> = by_finding(&suspects, &uses).into_values().collect();
        let expected = [Some(Read), None, Some(Unread), Some(Overwritten)];
        assert_eq!(findings, expected);
    }
}
