//! A litmus test: a few threads and the exact set of states that a crash can leave.

use std::collections::BTreeSet;

use brownout_model::{Profile, Tearing};

use crate::exploring::{address, crashed, history};
use crate::following::{self, Memory};
use crate::machine;
use crate::program::{Offset, Op, executions};

/// When the crash happens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Crash {
    AtAnyTime,
    AtTheEnd,
}

/// The states that a crash can leave, as values of the locations of the test.
type Outcomes<const N: usize> = BTreeSet<[u8; N]>;

pub struct Litmus<const N: usize> {
    threads: Vec<Vec<Op>>,
    shown: [Offset; N],
    crash: Crash,
}

/// A crash at any time of any execution.
pub fn litmus<const N: usize>(threads: &[&[Op]], shown: [Offset; N]) -> Litmus<N> {
    Litmus {
        threads: threads.iter().map(|thread| thread.to_vec()).collect(),
        shown,
        crash: Crash::AtAnyTime,
    }
}

impl<const N: usize> Litmus<N> {
    /// Restricts the test to crashes after the last step.
    pub fn at_the_end(mut self) -> Self {
        self.crash = Crash::AtTheEnd;
        self
    }

    pub fn adr(self, expected: &[[u8; N]]) -> Self {
        self.check(Profile::ADR, expected)
    }

    /// Checks both profiles in which caches survive.
    pub fn eadr_and_gpf(self, expected: &[[u8; N]]) -> Self {
        self.check(Profile::EADR, expected)
            .check(Profile::GPF, expected)
    }

    pub fn msync(self, expected: &[[u8; N]]) -> Self {
        self.check(Profile::MSYNC, expected)
    }

    fn check(self, profile: Profile, expected: &[[u8; N]]) -> Self {
        let expected: Outcomes<N> = expected.iter().copied().collect();
        let name = profile.name;
        let tracked = self.outcomes(|steps| {
            following::crashes(profile, Tearing::Whole, self.threads.len(), steps)
        });
        assert_eq!(tracked, expected, "the model under {name}");
        let reached = self.outcomes(|steps| machine::run(profile, Tearing::Whole, steps));
        assert_eq!(reached, expected, "the machine under {name}");
        let explored = self.outcomes(|steps| self.explore(profile, steps));
        assert_eq!(explored, expected, "what loads can see under {name}");
        self
    }

    /// What loads of all locations can see at each crash time.
    fn explore(&self, profile: Profile, steps: &[(usize, Op)]) -> Vec<BTreeSet<Memory>> {
        let history = history(profile, Tearing::Whole, steps);
        let times = history.crash_times().iter();
        times
            .map(|&time| {
                let mut read = vec![(crashed(&history, time), Memory::new())];
                for at in self.shown {
                    let loads = read.into_iter().flat_map(|(possible, memory)| {
                        let classes: Vec<_> = possible.may_read(address(at), 1).iter().collect();
                        classes.into_iter().map(move |class| {
                            let (mut possible, mut memory) = (possible.clone(), memory.clone());
                            possible.choose(&class);
                            memory.insert(at, class.bytes[0]);
                            (possible, memory)
                        })
                    });
                    read = loads.collect();
                }
                read.into_iter().map(|(_, memory)| memory).collect()
            })
            .collect()
    }

    fn outcomes(&self, run: impl Fn(&[(usize, Op)]) -> Vec<BTreeSet<Memory>>) -> Outcomes<N> {
        let mut outcomes = Outcomes::new();
        for steps in executions(&self.threads) {
            let crashes = run(&steps);
            let first = match self.crash {
                Crash::AtAnyTime => 0,
                Crash::AtTheEnd => crashes.len() - 1,
            };
            for memory in crashes[first..].iter().flatten() {
                let shown = self.shown.map(|at| memory.get(&at).copied().unwrap_or(0));
                outcomes.insert(shown);
            }
        }
        outcomes
    }
}
