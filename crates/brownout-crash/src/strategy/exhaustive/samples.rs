//! Samples of the states of one crash, where there are too many combinations to explore all: a log with a checksum is read
//! as a whole, so that each of its lines doubles the number of states.
//!
//! In this order: everything kept, everything lost that can be lost, each unit alone lost, each alone kept, each alone with its last
//! store torn (if stores can be), and everything that was stored before some time: first some of each kind, spread over all that there are,
//! then others. Then follow states at random.

use std::collections::HashSet;

use brownout_model::{PmAddress, PossibleMemory, ReadClass, Tearing, Time};

use super::budget::MOST_SAMPLES;
use crate::strategy::xorshift;

/// Samples of one kind that come first.
const OF_EACH_KIND: usize = 32;
/// Samples of one kind, at most.
const MOST_OF_EACH_KIND: usize = MOST_SAMPLES as usize;

const WORD: u64 = 8;
const NEWEST: Time = Time(u64::MAX);
const OLDEST: Time = Time(0);

/// States that a crash can leave, one after the other.
pub struct Samples {
    /// All that it can leave.
    crash: PossibleMemory,
    /// The units that matter.
    units: Vec<PmAddress>,
    /// The size of a unit if recovery has crashed, too: then what it has read stays true.
    inside: Option<u64>,
    waiting: std::vec::IntoIter<Sample>,
    random: SampleNumbers,
}

/// How a state is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sample {
    /// With what was stored before some time.
    Before(Time),
    /// Everything is kept but one unit, by number.
    Lost(usize),
    /// Everything is lost but one unit.
    Kept(usize),
    /// Everything is kept but some words of the last store to a unit: those with even or with odd numbers, so that a store of two words
    /// is torn in both ways.
    Torn(usize, usize),
    Random,
}

impl Samples {
    /// States after a crash of the target, or if recovery has crashed, too, after both: then with the size of a unit.
    pub fn new(
        crash: PossibleMemory,
        units: Vec<PmAddress>,
        inside: Option<u64>,
        seed: u64,
    ) -> Self {
        let mut stored: Vec<Time> = Vec::new();
        if inside.is_none() {
            stored.extend(units.iter().flat_map(|&unit| crash.losable(unit)));
            stored.sort();
            stored.dedup();
        }
        let numbers: Vec<usize> = (0..units.len()).collect();
        // Before the first of them is what was stored when everything is lost.
        let later = stored.get(1..).unwrap_or_default();
        let can_tear = inside.is_none() && crash.tearing() == Tearing::Words;
        let mut samples = vec![Sample::Before(NEWEST), Sample::Before(OLDEST)];
        for of_each in [OF_EACH_KIND, MOST_OF_EACH_KIND] {
            let known: HashSet<Sample> = samples.iter().copied().collect();
            let mut add = |sample: Sample| {
                if !known.contains(&sample) {
                    samples.push(sample);
                }
            };
            let units = || spread(&numbers, of_each).copied();
            units().for_each(|unit| add(Sample::Lost(unit)));
            units().for_each(|unit| add(Sample::Kept(unit)));
            if can_tear {
                for unit in units() {
                    add(Sample::Torn(unit, 0));
                    add(Sample::Torn(unit, 1));
                }
            }
            spread(later, of_each).for_each(|&time| add(Sample::Before(time)));
        }
        samples.extend([Sample::Random; MOST_OF_EACH_KIND]);
        Self {
            crash,
            units,
            inside,
            waiting: samples.into_iter(),
            random: SampleNumbers(seed),
        }
    }

    /// A state after a crash of the target.
    fn state(&mut self, sample: Sample) -> PossibleMemory {
        let Self {
            crash,
            units,
            random,
            ..
        } = self;
        let mut memory = crash.clone();
        for (number, &unit) in units.iter().enumerate() {
            let before = match sample {
                Sample::Before(time) => time,
                Sample::Lost(lost) if lost == number => OLDEST,
                Sample::Kept(kept) if kept != number => OLDEST,
                Sample::Lost(_) | Sample::Kept(_) => NEWEST,
                Sample::Torn(torn, rest) => {
                    let last = crash.losable(unit).last().copied();
                    let last = last.filter(|_| torn == number).unwrap_or(NEWEST);
                    memory.keep_torn_at(unit, last, |word| word % 2 == rest);
                    continue;
                }
                Sample::Random => {
                    let losable = crash.losable(unit);
                    let present = random.below(losable.len() + 1);
                    let first_lost = losable.get(present).copied().unwrap_or(NEWEST);
                    let can_tear = crash.tearing() == Tearing::Words;
                    memory.keep_torn_at(unit, first_lost, |_| can_tear && random.below(2) == 0);
                    continue;
                }
            };
            memory.keep_issued_before(unit, before);
        }
        memory
    }

    /// A state after a crash inside recovery.
    fn state_inside(&mut self, sample: Sample, size: u64) -> PossibleMemory {
        let mut memory = self.crash.clone();
        for (number, unit) in self.units.iter().enumerate() {
            // Word by word, because a whole unit can have too many contents. The newest stores come first.
            for word in (unit.offset..unit.offset + size).step_by(WORD as usize) {
                let at = PmAddress {
                    offset: word,
                    ..*unit
                };
                let classes: Vec<ReadClass> = memory.may_read(at, WORD).iter().collect();
                let oldest = classes.len() - 1;
                let chosen = match sample {
                    Sample::Before(OLDEST) => oldest,
                    Sample::Lost(lost) if lost == number => oldest,
                    Sample::Kept(kept) if kept != number => oldest,
                    Sample::Random => self.random.below(oldest + 1),
                    _ => 0,
                };
                memory.choose(&classes[chosen]);
            }
        }
        memory
    }
}

impl Iterator for Samples {
    type Item = PossibleMemory;

    fn next(&mut self) -> Option<PossibleMemory> {
        let sample = self.waiting.next()?;
        Some(match self.inside {
            None => self.state(sample),
            Some(size) => self.state_inside(sample, size),
        })
    }
}

/// At most so many of the elements, evenly spread.
fn spread<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = all.len().min(most);
    (0..count).map(move |number| &all[number * all.len() / count])
}

/// The number that was drawn last.
struct SampleNumbers(u64);

impl SampleNumbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = xorshift::next(self.0 | 1 << 63);
        (self.0 % end as u64) as usize
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

    fn sampled(tearing: Tearing) -> Vec<Vec<[u8; 2]>> {
        sampled_of(LINES, tearing)
    }

    /// The first two words of each line in all samples, after a store of both words to each line.
    fn sampled_of(lines: u64, tearing: Tearing) -> Vec<Vec<[u8; 2]>> {
        let mut run = StoreHistoryBuilder::new(Profile::ADR, tearing);
        let thread = run.add_thread();
        for number in 0..lines {
            let time = Time(number + 1);
            let by = Access { thread, time };
            run.store(by, line(number), &[1; 16], StoreKind::Cached);
        }
        let history = Arc::new(run.finish());
        let end = *history.crash_times().last().unwrap();
        let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
        let crash = PossibleMemory::new(Arc::new(zeros), history, end);
        let units: Vec<PmAddress> = (0..lines).map(line).collect();
        let words = |memory: &PossibleMemory, number| {
            let bytes = memory.may_read(line(number), 16).certain().unwrap();
            [bytes[0], bytes[8]]
        };
        let samples = Samples::new(crash, units, None, 1);
        samples
            .map(|memory| (0..lines).map(|number| words(&memory, number)).collect())
            .collect()
    }

    #[test]
    fn samples_go_from_the_ends_to_the_middle() {
        let samples = sampled(Tearing::Whole);
        let lines = LINES as usize;
        let all = |value: u8| vec![[value; 2]; lines];
        let alone = |value: u8, number: usize| {
            let mut state = all(1 - value);
            state[number] = [value; 2];
            state
        };
        let before = |count: usize| {
            let mut state = all(0);
            state[..count].fill([1; 2]);
            state
        };
        let mut expected = vec![all(1), all(0)];
        expected.extend((0..lines).map(|number| alone(0, number)));
        expected.extend((0..lines).map(|number| alone(1, number)));
        expected.extend((1..lines).map(before));
        assert_eq!(samples[..expected.len()], expected);
        assert_eq!(samples.len(), expected.len() + MOST_OF_EACH_KIND);
    }

    #[test]
    fn every_line_is_lost_alone_however_many_there_are() {
        let lines = 3 * OF_EACH_KIND;
        let samples = sampled_of(lines as u64, Tearing::Whole);
        let lost_alone = |number: usize| {
            let mut state = vec![[1; 2]; lines];
            state[number] = [0; 2];
            samples.iter().position(|sample| *sample == state)
        };
        let positions: Vec<usize> = (0..lines)
            .map(|number| lost_alone(number).unwrap())
            .collect();
        // Those that are spread over all lines come first.
        let first = positions.iter().filter(|&&at| at < 2 + OF_EACH_KIND);
        assert_eq!(first.count(), OF_EACH_KIND);
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
