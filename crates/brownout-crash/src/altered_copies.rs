//! Whether recovery notices that something is wrong at all.
//!
//! A recovery that prints what it finds and exits with 0 passes every crash. So it runs on copies of the files that the target left, in
//! which bytes are altered that it reads and that crashes change: first all of them, then each third. One bit of each such byte changes,
//! and zeros stay zeros, so that lengths and counts stay small. A recovery that passes on all copies may check nothing.
//!
//! Can miss: a recovery that checks something, but too little. Can be wrong: a recovery that is right to pass, because it discards what
//! is damaged, or because every value is valid.

use std::ops::Range;

use brownout_recovery::{RecoveryRunner, RunnerError};
use brownout_trace::EventIndex;

use crate::error::CrashError;
use crate::image::CrashImage;
use crate::observed_reads::ObservedReads;
use crate::persistent_files::PersistentFiles;
use crate::progress::ProgressObserver;
use crate::read_stores::changed_bytes_read;
use crate::recorded_run::RecordedRun;
use crate::recovery_environment::CrashSituation;

/// The parts that are altered alone, so that recovery cannot pass just because the first bytes no longer say that there is anything.
const PARTS: u64 = 3;
/// If more bytes would have to be altered, nothing is tried.
const MOST_BYTES: u64 = 64 << 20;
/// What is changed of a byte.
const ALTERED_BITS: u8 = 2;

/// The files that the target left, altered in bytes that recovery reads and that crashes from the event `first` on change: several
/// copies, or none if there is nothing to alter.
pub fn altered_copies(
    run: &RecordedRun,
    files: &PersistentFiles,
    observed: &ObservedReads,
    first: EventIndex,
    observer: &mut dyn ProgressObserver,
) -> Result<Vec<CrashImage>, CrashError> {
    let changed = changed_bytes_read(run, observed, first)?;
    let mut ranges: Vec<(usize, Range<u64>)> = Vec::new();
    for (number, path) in files.paths().iter().enumerate() {
        let changed = changed.get(path).into_iter();
        ranges.extend(changed.flat_map(|bytes| bytes.ranges().map(|range| (number, range))));
    }
    let bytes: u64 = ranges
        .iter()
        .map(|(_, range)| range.end - range.start)
        .sum();
    if bytes == 0 || bytes > MOST_BYTES {
        return Ok(Vec::new());
    }
    let (image, _) = run.image_before(None, files, observer)?;
    let parts = (0..PARTS).map(|part| bytes * part / PARTS..bytes * (part + 1) / PARTS);
    let copies = std::iter::once(0..bytes).chain(parts);
    Ok(copies
        .filter_map(|part| altered(&image, &ranges, part))
        .collect())
}

/// Whether recovery passes on all copies. The runner may be unusable afterwards.
pub fn passes_on_all(
    runner: &mut RecoveryRunner,
    copies: &[CrashImage],
    situation: &CrashSituation,
) -> Result<bool, RunnerError> {
    let task = situation.task();
    for copy in copies {
        // One that takes long does something else than without a crash.
        let attempt = runner.attempt_briefly(&copy.files, &task)?;
        if attempt.is_none_or(|attempt| !attempt.verdict.passed()) {
            return Ok(false);
        }
    }
    Ok(!copies.is_empty())
}

/// A copy in which a part of the bytes of `ranges` is altered; `None` if they are all zeros.
fn altered(
    image: &CrashImage,
    ranges: &[(usize, Range<u64>)],
    part: Range<u64>,
) -> Option<CrashImage> {
    let mut copy = image.clone();
    let mut is_altered = false;
    // How many bytes of `ranges` come before.
    let mut before = 0;
    for (file, range) in ranges {
        let len = range.end - range.start;
        let (first, last) = (part.start.max(before), part.end.min(before + len));
        if first < last
            && let Some(content) = &mut copy.files[*file]
        {
            let offset = range.start + (first - before);
            let mut bytes = vec![0; (last - first) as usize];
            content.read(offset, &mut bytes);
            for byte in bytes.iter_mut().filter(|byte| **byte != 0) {
                *byte ^= ALTERED_BITS;
                is_altered = true;
            }
            content.write(offset, &bytes);
        }
        before += len;
    }
    is_altered.then_some(copy)
}

#[cfg(test)]
mod tests {
    use brownout_trace::replay::Content;

    use super::*;

    fn bytes(image: &CrashImage) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        image.files[0].as_ref().unwrap().read(0, &mut bytes);
        bytes
    }

    #[test]
    fn a_part_of_the_bytes_is_altered_and_zeros_stay() {
        let mut content = Content::default();
        content.resize(8);
        content.write(0, &[1, 2, 0, 4, 5, 6, 7, 8]);
        let image = CrashImage {
            files: vec![Some(content)],
        };
        let ranges = [(0, 0..3), (0, 5..8)];
        let altered = |part| altered(&image, &ranges, part).map(|copy| bytes(&copy));
        assert_eq!(altered(0..6), Some(vec![3, 0, 0, 4, 5, 4, 5, 10]));
        assert_eq!(altered(1..4), Some(vec![1, 0, 0, 4, 5, 4, 7, 8]));
        assert_eq!(altered(2..3), None);
    }
}
