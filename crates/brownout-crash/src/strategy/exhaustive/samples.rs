//! Samples of the states of one crash, where there are too many combinations to explore all: a log with a checksum is read
//! as a whole, so that each of its lines doubles the number of states.
//!
//! In this order: everything lost that can be lost, each unit alone lost, each alone kept, everything that was stored before some
//! time, and then states at random. That everything is kept is what the first run has shown.

use brownout_model::{PmAddress, PossibleMemory, ReadClass, Time};

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
    samples.extend(spread(later).map(|&time| all(time)));
    samples.extend((0..OF_EACH_KIND).map(|_| {
        state(crash, units, |unit| {
            let losable = crash.losable(unit);
            let present = random.below(losable.len() + 1);
            losable.get(present).copied().unwrap_or(NEWEST)
        })
    }));
    samples
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
    samples.extend(spread(&numbers).map(|&alone| {
        all(&mut |unit, oldest| if unit == alone { oldest } else { 0 })
    }));
    samples.extend(spread(&numbers).map(|&alone| {
        all(&mut |unit, oldest| if unit == alone { 0 } else { oldest })
    }));
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
