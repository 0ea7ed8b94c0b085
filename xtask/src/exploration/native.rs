//! What recovery does natively on every crash image: the images that the target can leave, and those that an interrupted
//! recovery can.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::explored::Reads;
use super::machine::{Effect, Machine};
use super::script::{POOL, Script};
use super::transcript;
use crate::cpu::Flushes;

/// How a recovery ended: its status and what it printed.
pub type Ended = (i64, String);

/// What recovery does after it has read certain bytes.
pub type NativeBehaviours = BTreeMap<Reads, Ended>;

/// Recoveries that have run natively, by their image.
pub type NativeRuns = BTreeMap<Vec<u8>, Ended>;

/// All images that a crash can leave after any of these effects; `None` if they are more than `most`.
pub fn images_after(
    mut machine: Machine,
    effects: &[(u64, Effect)],
    most: usize,
) -> Option<BTreeSet<Vec<u8>>> {
    let mut images = BTreeSet::new();
    for (thread, effect) in effects {
        machine.apply(*thread, effect);
        // Crashes are tested once something was stored.
        if machine.has_stores() {
            images.extend(machine.images(most)?);
        }
        if images.len() > most {
            return None;
        }
    }
    Some(images)
}

/// All images that crashes inside these recoveries can leave; `None` if they are more than `most`.
pub fn images_inside(
    script: &Script,
    runs: &NativeRuns,
    most: usize,
) -> Result<Option<BTreeSet<Vec<u8>>>> {
    let flushes = Flushes::of_this_machine();
    let flushes_wait = flushes.clwb || flushes.clflushopt;
    let mut images = BTreeSet::new();
    for (image, (_, transcript)) in runs {
        let effects = transcript::effects(transcript, script.first_of_child(), flushes_wait)?;
        let machine = Machine::new(script.profile, script.tears, image.clone());
        let Some(left) = images_after(machine, &effects, most) else {
            return Ok(None);
        };
        images.extend(left);
        if images.len() > most {
            return Ok(None);
        }
    }
    Ok(Some(images))
}

/// The bytes of the pool that are the same in all crash images: to read them is no choice.
pub struct CertainBytes(Vec<Option<u8>>);

impl CertainBytes {
    pub fn of<'i>(mut images: impl Iterator<Item = &'i Vec<u8>>) -> CertainBytes {
        let first = images.next().into_iter().flatten();
        let mut bytes: Vec<Option<u8>> = first.copied().map(Some).collect();
        bytes.resize(POOL, None);
        for image in images {
            for (known, byte) in bytes.iter_mut().zip(image) {
                *known = known.filter(|known| known == byte);
            }
        }
        CertainBytes(bytes)
    }

    /// The reads without those of bytes that are certain.
    pub fn without(&self, reads: &Reads) -> Reads {
        let mut reads = reads.clone();
        reads.retain(|&(at, byte)| self.0.get(at as usize) != Some(&Some(byte)));
        reads
    }
}

/// What recovery does after it has read certain bytes, of those that differ between crashes.
pub fn behaviours<'e>(
    ended: impl Iterator<Item = &'e Ended>,
    certain: &CertainBytes,
) -> Result<NativeBehaviours> {
    let mut found = NativeBehaviours::new();
    for run in ended {
        let reads = certain.without(&transcript::first_reads(&run.1)?);
        let other = found.insert(reads, run.clone());
        if let Some(other) = other.filter(|other| other != run) {
            bail!(
                "after the same reads, recovery prints {} and {}",
                run.1,
                other.1
            );
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::script::Variant;
    use super::*;
    use seeded_random::SeededRandom;

    #[test]
    fn bytes_that_differ_between_images_are_not_certain() {
        let images = [0, 1].map(|value| {
            let mut image = vec![value; POOL];
            image[7..].fill(0);
            image
        });
        let certain = CertainBytes::of(images.iter());
        assert_eq!(certain.without(&vec![(6, 0), (7, 0), (8, 0)]), [(6, 0)]);
        let impossible = vec![(7, 3)];
        assert_eq!(certain.without(&impossible), impossible);
    }

    #[test]
    fn a_recovery_that_depends_on_more_than_its_reads_is_detected() {
        let certain = CertainBytes::of([vec![0; POOL]].iter());
        let ended = [0, 3].map(|status| (status, "l0:00;l9:00;".to_owned()));
        assert!(behaviours(ended.iter(), &certain).is_err());
        assert!(behaviours(ended[..1].iter(), &certain).is_ok());
    }

    #[test]
    fn a_crash_inside_recovery_leaves_a_part_of_what_it_stored() {
        let mut script = Script::random(&mut SeededRandom::new(1), Variant::Interrupted);
        (script.profile, script.tears) = ("adr", false);
        let mut image = vec![0; POOL];
        image[0] = 1;
        let ended = (0, "l0:01;s8:01;c8:00;s9:01;".to_owned());
        let runs = NativeRuns::from([(image, ended)]);
        let left = images_inside(&script, &runs, 9).unwrap().unwrap();
        let shown: Vec<[u8; 3]> = left
            .iter()
            .map(|image| [image[0], image[8], image[9]])
            .collect();
        assert_eq!(shown, [[1, 0, 0], [1, 1, 0], [1, 1, 1]]);
        assert!(images_inside(&script, &runs, 2).unwrap().is_none());
    }
}
