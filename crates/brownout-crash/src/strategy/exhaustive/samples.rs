//! Samples of the states of one crash, where there are too many combinations to explore all: a log with a checksum is read
//! as a whole, so that each of its lines doubles the number of states.
//!
//! In this order: everything lost that can be lost, each unit alone lost, each alone kept, each alone with its last store torn (if
//! stores can be), everything that was stored before some time, and then states at random. That everything is kept is what the
//! first run has shown.

use brownout_model::{PmAddress, PossibleMemory, ReadClass, Tearing, Time};

/// Samples of one kind, spread over all that there are.
const OF_EACH_KIND: usize = 32;

const WORD: u64 = 8;
const NEWEST: Time = Time(u64::MAX);
const OLDEST: Time = Time(0);

/// States that a crash can leave, given what it can leave at all and the units that matter.
pub fn samples(crash: &PossibleMemory, units: &[PmAddress], seed: u64) -> Vec<PossibleMemory> {
    let all = |time| state(crash, units, |_| time);
    let alone = |chosen: PmAddress, here, elsewhere| {
        state(
            crash,
            units,
            |unit| if unit == chosen { here } else { elsewhere },
        )
    };
    let mut stored: Vec<Time> = units.iter().flat_map(|&unit| crash.losable(unit)).collect();
    stored.sort();
    stored.dedup();
    // Before the first of them is what was stored when everything is lost.
    let later = stored.get(1..).unwrap_or_default();
    let mut random = Random(seed);
    let mut samples = vec![all(OLDEST)];
    samples.extend(spread(units).map(|&unit| alone(unit, OLDEST, NEWEST)));
    samples.extend(spread(units).map(|&unit| alone(unit, NEWEST, OLDEST)));
    let can_tear = crash.tearing() == Tearing::Words;
    if can_tear {
        samples.extend(spread(units).flat_map(|&unit| torn(crash, units, unit)));
    }
    samples.extend(spread(later).map(|&time| all(time)));
    samples.extend((0..OF_EACH_KIND).map(|_| {
        let mut memory = crash.clone();
        for &unit in units {
            let losable = crash.losable(unit);
            let present = random.below(losable.len() + 1);
            let first_lost = losable.get(present).copied().unwrap_or(NEWEST);
            memory.keep_torn_at(unit, first_lost, |_| can_tear && random.below(2) == 0);
        }
        memory
    }));
    samples
}

/// States in which the last store to a unit is torn and everything else is kept: of its words, those with even or with odd
/// numbers are present, so that a store of two words is torn in both ways.
fn torn(crash: &PossibleMemory, units: &[PmAddress], unit: PmAddress) -> Vec<PossibleMemory> {
    let last = crash.losable(unit).last().copied();
    let states = last.into_iter().flat_map(|last| {
        [0, 1].map(|rest| {
            let mut memory = state(crash, units, |_| NEWEST);
            memory.keep_torn_at(unit, last, |word| word % 2 == rest);
            memory
        })
    });
    states.collect()
}

/// States of a crash inside recovery. What the interrupted recovery has read stays true in all of them.
pub fn samples_inside(
    crash: &PossibleMemory,
    (units, size): (&[PmAddress], u64),
    seed: u64,
) -> Vec<PossibleMemory> {
    // Word by word, because a whole unit can have too many contents. The newest stores come first.
    let all = |chosen: &mut dyn FnMut(usize, usize) -> usize| {
        let mut memory = crash.clone();
        for (number, unit) in units.iter().enumerate() {
            for word in (unit.offset..unit.offset + size).step_by(WORD as usize) {
                let at = PmAddress {
                    offset: word,
                    ..*unit
                };
                let classes: Vec<ReadClass> = memory.may_read(at, WORD).iter().collect();
                memory.choose(&classes[chosen(number, classes.len() - 1)]);
            }
        }
        memory
    };
    let numbers: Vec<usize> = (0..units.len()).collect();
    let mut random = Random(seed);
    let mut samples = vec![all(&mut |_, oldest| oldest)];
    samples.extend(
        spread(&numbers)
            .map(|&alone| all(&mut |unit, oldest| if unit == alone { oldest } else { 0 })),
    );
    samples.extend(
        spread(&numbers)
            .map(|&alone| all(&mut |unit, oldest| if unit == alone { 0 } else { oldest })),
    );
    samples.extend((0..OF_EACH_KIND).map(|_| all(&mut |_, oldest| random.below(oldest + 1))));
    samples
}

/// What a crash leaves that has in each unit the stores before some time.
fn state(
    crash: &PossibleMemory,
    units: &[PmAddress],
    mut before: impl FnMut(PmAddress) -> Time,
) -> PossibleMemory {
    let mut memory = crash.clone();
    for &unit in units {
        memory.keep_issued_before(unit, before(unit));
    }
    memory
}

/// At most [`OF_EACH_KIND`] of the elements, evenly spread.
fn spread<T>(all: &[T]) -> impl Iterator<Item = &T> {
    let count = all.len().min(OF_EACH_KIND);
    (0..count).map(move |number| &all[number * all.len() / count])
}

/// Numbers that are the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        let mut state = self.0 | 1 << 63;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0 = state;
        (state % end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use brownout_model::{Access, Profile, SpaceId, StoreHistoryBuilder, StoreKind};

    use super::*;

    const LINES: u64 = 12;

    fn line(number: u64) -> PmAddress {
        PmAddress {
            space: SpaceId(0),
            offset: number * 64,
        }
    }

    /// The first two words of each line in all samples, after a store of both words to each line.
    fn sampled(tearing: Tearing) -> Vec<Vec<[u8; 2]>> {
        let mut run = StoreHistoryBuilder::new(Profile::ADR, tearing);
        let thread = run.add_thread();
        for number in 0..LINES {
            let time = Time(number + 1);
            let by = Access { thread, time };
            run.store(by, line(number), &[1; 16], StoreKind::Cached);
        }
        let history = Arc::new(run.finish());
        let end = *history.crash_times().last().unwrap();
        let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
        let crash = PossibleMemory::new(Arc::new(zeros), history, end);
        let units: Vec<PmAddress> = (0..LINES).map(line).collect();
        let words = |memory: &PossibleMemory, number| {
            let bytes = memory.may_read(line(number), 16).certain().unwrap();
            [bytes[0], bytes[8]]
        };
        let samples = samples(&crash, &units, 1);
        let samples = samples.iter();
        samples
            .map(|memory| (0..LINES).map(|number| words(memory, number)).collect())
            .collect()
    }

    #[test]
    fn each_line_is_torn_alone_in_both_ways_if_stores_can_be() {
        let samples = sampled(Tearing::Words);
        for number in 0..LINES as usize {
            for torn in [[1, 0], [0, 1]] {
                let mut expected = vec![[1, 1]; LINES as usize];
                expected[number] = torn;
                assert!(samples.contains(&expected), "{torn:?} in line {number}");
            }
        }
        let whole = sampled(Tearing::Whole);
        let mut lines = whole.iter().flatten();
        assert!(lines.all(|words| words[0] == words[1]), "stores are whole");
    }
}
