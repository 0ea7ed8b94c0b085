//! SeededRandom scripts for `tests/programs/exploration/script.c`, which is a target and its recovery in one.
//!
//! Few words of few lines are stored to, with few values, so that stores overlap, values recur and recovery reads what a crash
//! may have lost.

use std::fmt::Write as _;

use seeded_random::SeededRandom;

/// Bytes of the pool: two pages, with several sectors each.
pub const POOL: usize = 8192;
/// The lines that are used: two neighbours, one in another sector, one in another page.
const LINES: [u64; 4] = [0, 64, 512, 4096];
const LINE: u64 = 64;

/// The kinds of accesses that only read.
pub const READS: &str = "lqgkbpvdoijuh";

/// How recovery does what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    Loads,
    Pread,
    /// It gives persistent memory to system calls.
    SystemCalls,
    /// It reads in ways of which it is not known how much they read: masked loads, private mappings, and names of files.
    Imprecise,
    ForkedChild,
    ExecutedChild,
    TwoThreads,
    OwnStores,
    /// It stores and flushes, and crashes, too.
    Interrupted,
    /// The same, and a forked child does a part of it.
    InterruptedChild,
}

impl Variant {
    pub const ALL: [Variant; 10] = [
        Variant::Loads,
        Variant::Pread,
        Variant::SystemCalls,
        Variant::Imprecise,
        Variant::ForkedChild,
        Variant::ExecutedChild,
        Variant::TwoThreads,
        Variant::OwnStores,
        Variant::Interrupted,
        Variant::InterruptedChild,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Variant::Loads => "loads",
            Variant::Pread => "pread",
            Variant::SystemCalls => "system calls",
            Variant::Imprecise => "imprecise reads",
            Variant::ForkedChild => "forked child",
            Variant::ExecutedChild => "executed child",
            Variant::TwoThreads => "two threads",
            Variant::OwnStores => "stores of its own",
            Variant::Interrupted => "interrupted",
            Variant::InterruptedChild => "interrupted child",
        }
    }

    /// How many runs may crash, the target included.
    pub fn depth(self) -> usize {
        match self {
            Variant::Interrupted | Variant::InterruptedChild => 2,
            _ => 1,
        }
    }

    /// Whether exactly what recovery reads is known. Otherwise more counts as read.
    pub fn is_precise(self) -> bool {
        self != Variant::Imprecise
    }

    fn letter(self) -> char {
        match self {
            Variant::ForkedChild | Variant::InterruptedChild => 'f',
            Variant::ExecutedChild => 'e',
            Variant::TwoThreads => 't',
            _ => 'l',
        }
    }
}

/// An access of the target or of recovery, as a letter of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub kind: char,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// What the target and recovery do.
#[derive(Clone, Debug)]
pub struct Script {
    /// With the number of the thread.
    pub target: Vec<(u8, Access)>,
    pub recovery: Vec<[Access; 3]>,
    pub variant: Variant,
    split: usize,
    early: u64,
    lenient: bool,
    /// The pool before the target runs.
    pub initial: Vec<u8>,
    /// Of the persistency profile.
    pub profile: &'static str,
    /// Whether stores can be torn.
    pub tears: bool,
}

impl Script {
    pub fn random(random: &mut SeededRandom, variant: Variant) -> Script {
        let profile = random.weighted(&[(6, "adr"), (2, "eadr"), (1, "gpf"), (2, "msync")]);
        let target = target(random, profile);
        let steps = match variant {
            Variant::Interrupted | Variant::InterruptedChild => 3 + random.below(5) as usize,
            _ => 2 + random.below(4) as usize,
        };
        let recovery = (0..steps).map(|number| {
            // A recovery that reads nothing is refused.
            [(); 3].map(|()| step(random, variant, number == 0, &target))
        });
        Script {
            recovery: recovery.collect(),
            variant,
            split: random.below(steps as u64 + 1) as usize,
            early: 4 + random.below(10),
            lenient: random.once_in(2),
            initial: initial(random),
            profile,
            tears: random.once_in(2),
            target,
        }
    }

    /// From which access of recovery on a child makes them.
    pub fn first_of_child(&self) -> usize {
        match self.variant {
            Variant::InterruptedChild => self.split,
            _ => usize::MAX,
        }
    }

    /// As the program reads it. Recovery passes if it has read what the digest is of.
    pub fn text(&self, expected: u64) -> String {
        let mut text = format!("{}\n", self.target.len());
        for (thread, access) in &self.target {
            let _ = writeln!(text, "{thread} {}", access.text());
        }
        let _ = writeln!(text, "{}", self.recovery.len());
        for step in &self.recovery {
            let [first, second, third] = step;
            let (first, second, third) = (first.text(), second.text(), third.text());
            let _ = writeln!(text, "{first}  {second}  {third}");
        }
        let (split, early, lenient) = (self.split, self.early, u8::from(self.lenient));
        let letter = self.variant.letter();
        let _ = writeln!(text, "{letter} {split} {early} {expected:x} {lenient}");
        text
    }
}

impl Access {
    fn text(&self) -> String {
        let hex: String = self
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{} {} {hex}", self.kind, self.offset)
    }
}

/// The digest of what recovery prints.
pub fn digest(transcript: &str) -> u64 {
    transcript
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}

fn initial(random: &mut SeededRandom) -> Vec<u8> {
    let mut pool = vec![0; POOL];
    if random.once_in(2) {
        for word in pool.chunks_mut(8) {
            word.fill(random.below(3) as u8);
        }
        // Names of files end somewhere.
        for line in pool.chunks_mut(LINE as usize) {
            line[LINE as usize - 8..].fill(0);
        }
    }
    pool
}

fn target(random: &mut SeededRandom, profile: &str) -> Vec<(u8, Access)> {
    let syncs = if profile == "msync" { 4 } else { 1 };
    let kinds = [
        (9, 's'),
        (3, 'n'),
        (1, 'r'),
        (1, 'a'),
        (1, 'x'),
        (3, 'w'),
        (1, 'c'),
        (2, 'f'),
        (1, 'm'),
        (syncs, 'y'),
    ];
    let count = 5 + random.below(11);
    let mut accesses: Vec<Access> = (1..count)
        .map(|_| {
            let kind = random.weighted(&kinds);
            access(random, kind)
        })
        .collect();
    // Something has to be stored.
    let at = random.below(count) as usize;
    accesses.insert(at, access(random, 's'));
    // In some cases a second thread does a part, in some two parts.
    let bounds: Vec<u64> = match random.below(4) {
        0 => {
            let mut bounds: Vec<u64> = (0..4).map(|_| random.below(count + 1)).collect();
            bounds.sort();
            bounds
        }
        _ => Vec::new(),
    };
    let thread = |number| bounds.iter().filter(|&&bound| bound <= number).count() as u8 % 2;
    let numbered = (0..).zip(accesses);
    numbered
        .map(|(number, access)| (thread(number), access))
        .collect()
}

fn access(random: &mut SeededRandom, kind: char) -> Access {
    let width = match kind {
        's' => random.pick(&[1, 2, 4, 8, 8, 16, 16]),
        'n' => random.pick(&[4, 8, 16]),
        'r' => 1 + random.below(16),
        'a' => 8,
        'x' => random.pick(&[4, 8]),
        _ => 1,
    };
    let is_aligned = matches!(kind, 'n' | 'x') || !random.once_in(3);
    let offset = place(random, width, is_aligned);
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < width {
        let value = random.below(3) as u8;
        bytes.extend([value; 8]);
    }
    bytes.truncate(width as usize);
    Access {
        kind,
        offset,
        bytes,
    }
}

/// Where an access goes: to one of the first words of a line, or anywhere in it, and at the first two lines also over its end.
fn place(random: &mut SeededRandom, width: u64, is_aligned: bool) -> u64 {
    let line = random.pick(&LINES);
    let room = match line {
        0 => LINE,
        _ => LINE - width,
    };
    match is_aligned {
        true => line + random.below(6) * 8 / width * width,
        false => line + random.below(room + 1),
    }
}

/// What recovery does in a step: most of the time it reads where the target has stored.
fn step(
    random: &mut SeededRandom,
    variant: Variant,
    must_read: bool,
    target: &[(u8, Access)],
) -> Access {
    let kind = match variant {
        Variant::Loads => random.weighted(&[(4, 'l'), (2, 'q'), (2, 'g')]),
        Variant::Pread => random.weighted(&[(2, 'p'), (1, 'v')]),
        Variant::SystemCalls => {
            random.weighted(&[(2, 'd'), (2, 'o'), (2, 'i'), (2, 'j'), (2, 'u'), (1, 'l')])
        }
        Variant::Imprecise => random.weighted(&[(2, 'k'), (2, 'b'), (1, 'h'), (1, 'l')]),
        Variant::OwnStores if !must_read => {
            random.weighted(&[(4, 'l'), (2, 's'), (1, 'x'), (1, 'p')])
        }
        Variant::Interrupted | Variant::InterruptedChild if !must_read => random.weighted(&[
            (5, 'l'),
            (4, 's'),
            (1, 'n'),
            (1, 'r'),
            (1, 'x'),
            (1, 'p'),
            (2, 'w'),
            (1, 'c'),
            (2, 'f'),
            (1, 'y'),
        ]),
        Variant::OwnStores | Variant::Interrupted | Variant::InterruptedChild => 'l',
        _ => random.weighted(&[(4, 'l'), (1, 'p')]),
    };
    let is_aligned = matches!(kind, 'x' | 'n');
    // Widths that are good for all kinds.
    let mut made = access(random, if READS.contains(kind) { 's' } else { kind });
    made.kind = kind;
    match kind {
        'g' | 'k' => made.bytes.resize(16, 0),
        'u' => made.bytes.resize(4, 0),
        _ => {}
    }
    if "pv".contains(kind) {
        let width = 1 + random.below(16) as usize;
        made.bytes.resize(width, 0);
    }
    let stored: Vec<u64> = target
        .iter()
        .filter(|(_, access)| "snrax".contains(access.kind))
        .map(|(_, access)| access.offset)
        .collect();
    if !is_aligned && !stored.is_empty() && !random.once_in(4) {
        made.offset = random.pick(&stored);
    }
    if kind == 'u' {
        made.offset -= made.offset % 4;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_in_the_pool_and_locked_ones_in_a_line() {
        let mut random = SeededRandom::new(7);
        for number in 0..2000 {
            let variant = Variant::ALL[number % Variant::ALL.len()];
            let script = Script::random(&mut random, variant);
            let steps = script.recovery.iter().flatten();
            let accesses = script.target.iter().map(|(_, access)| access).chain(steps);
            for access in accesses {
                let end = access.offset + access.bytes.len() as u64;
                assert!(end <= POOL as u64 && !access.bytes.is_empty(), "{access:?}");
                let crosses = access.offset / LINE != (end - 1) / LINE;
                assert!(!(crosses && "nx".contains(access.kind)), "{access:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_script() {
        let text = |seed| Script::random(&mut SeededRandom::new(seed), Variant::Loads).text(1);
        assert_eq!(text(5), text(5));
        assert_ne!(text(5), text(6));
    }
}
