//! Decides from the runs of one program whether the engine is transparent to it.
//!
//! The machine may keep a program from ending as it should: a container without a limit it relies on, a process
//! namespace, a missing device. It must then end in the same way under the engine. Where native runs differ from each
//! other, a run that differs from them proves nothing, unless only the engine can cause the difference.

use crate::compare::{Scope, differences};
use crate::test_directory::{End, Outcome};

/// Exit status by which `brownout` confesses a fault of its own, and what it says then.
const OWN_FAULT: End = End::Exit(70);
const CONFESSION: &[u8] = b"brownout: internal fault";

/// Of a hundred programs, how many may behave unusually or unstably before the check is worth nothing.
const ALLOWED_ODD_PERCENT: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// As natively, and natively as it says it ends.
    Ok,
    /// As natively, but natively not as it says it ends.
    Unusual,
    /// Native runs differ from each other, so a difference says nothing.
    Unstable,
    Failed,
}

impl std::fmt::Display for Standing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Standing::Ok => "ok",
            Standing::Unusual => "ok, unusual natively",
            Standing::Unstable => "unstable natively",
            Standing::Failed => "FAILED",
        })
    }
}

/// The runs of one program so far.
pub struct Runs {
    /// How the program says it ends.
    pub expected: End,
    /// At least one.
    pub natives: Vec<Outcome>,
    pub tested: Vec<Outcome>,
}

impl Runs {
    /// What the standing is, judged by the runs so far, with the lines that explain it.
    pub fn judge(&self, scope: Scope) -> (Standing, Vec<String>) {
        let first = &self.natives[0];
        let mut notes = Vec::new();
        let mut blamed = false;
        for (number, tested) in self.tested.iter().enumerate() {
            let own_fault = self.is_own_fault(tested);
            if !own_fault && self.is_native(tested, scope) {
                continue;
            }
            blamed |= own_fault;
            let found = differences(first, tested, scope);
            notes.extend(
                found
                    .into_iter()
                    .chain(own_fault.then(|| "the engine is at fault".to_owned()))
                    .map(|line| format!("run {}: {line}", number + 1)),
            );
        }
        let disagreement = self
            .natives
            .iter()
            .skip(1)
            .find_map(|native| differences(first, native, scope).into_iter().next());
        let unusual = first.end != self.expected;
        if unusual {
            let stderr = String::from_utf8_lossy(&first.stderr);
            let last = stderr.trim().lines().last().unwrap_or_default();
            notes.push(format!(
                "natively {} instead of {}: {last}",
                first.end, self.expected
            ));
        }
        let standing = match (&disagreement, self.all_native(scope)) {
            _ if blamed => Standing::Failed,
            (Some(_), _) => Standing::Unstable,
            (None, false) => Standing::Failed,
            (None, true) if unusual => Standing::Unusual,
            (None, true) => Standing::Ok,
        };
        notes.extend(disagreement.map(|line| format!("two native runs differ: {line}")));
        (standing, notes)
    }

    /// Whether every run under test did what some native run did.
    pub fn all_native(&self, scope: Scope) -> bool {
        self.tested
            .iter()
            .all(|tested| self.is_native(tested, scope))
    }

    /// Whether native runs are known to differ.
    pub fn natives_differ(&self, scope: Scope) -> bool {
        let (first, rest) = self.natives.split_first().expect("there is a native run");
        rest.iter()
            .any(|native| !differences(first, native, scope).is_empty())
    }

    fn is_native(&self, tested: &Outcome, scope: Scope) -> bool {
        self.natives
            .iter()
            .any(|native| differences(native, tested, scope).is_empty())
    }

    /// An end that no disagreement of native runs excuses.
    fn is_own_fault(&self, tested: &Outcome) -> bool {
        let natively = |end: End| self.natives.iter().any(|native| native.end == end);
        let confessed = tested
            .stderr
            .windows(CONFESSION.len())
            .any(|window| window == CONFESSION);
        confessed || matches!(tested.end, OWN_FAULT | End::TimedOut) && !natively(tested.end)
    }
}

/// How many of `programs` may be unusual or unstable: one always may, or a run of few could not be used.
pub fn allowed_odd(programs: usize) -> usize {
    (programs * ALLOWED_ODD_PERCENT / 100).max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    const SCOPE: Scope = Scope {
        stdout: true,
        stderr: false,
        files: false,
        ignored: &[],
        normalisers: &[],
    };

    fn outcome(code: i32, stdout: &str) -> Outcome {
        Outcome {
            end: End::Exit(code),
            stdout: stdout.into(),
            stderr: Vec::new(),
            files: BTreeMap::new(),
            wall: Duration::ZERO,
        }
    }

    fn standing(natives: &[(i32, &str)], tested: &[(i32, &str)]) -> Standing {
        let outcomes =
            |runs: &[(i32, &str)]| runs.iter().map(|&(code, out)| outcome(code, out)).collect();
        let runs = Runs {
            expected: End::Exit(0),
            natives: outcomes(natives),
            tested: outcomes(tested),
        };
        runs.judge(SCOPE).0
    }

    #[test]
    fn what_is_as_natively_and_as_expected_is_ok() {
        assert_eq!(standing(&[(0, "a")], &[(0, "a"), (0, "a")]), Standing::Ok);
    }

    #[test]
    fn what_fails_natively_must_fail_in_the_same_way() {
        assert_eq!(standing(&[(1, "a")], &[(1, "a")]), Standing::Unusual);
        assert_eq!(
            standing(&[(1, "a"), (1, "a")], &[(0, "a")]),
            Standing::Failed
        );
        assert_eq!(standing(&[(1, "a")], &[(1, "b")]), Standing::Failed);
    }

    #[test]
    fn one_differing_run_of_several_fails() {
        assert_eq!(
            standing(&[(0, "a"), (0, "a")], &[(0, "a"), (0, "b")]),
            Standing::Failed
        );
    }

    #[test]
    fn native_runs_that_disagree_excuse_a_difference() {
        assert_eq!(
            standing(&[(0, "a"), (1, "b")], &[(0, "c")]),
            Standing::Unstable
        );
        assert_eq!(
            standing(&[(1, "a"), (0, "b")], &[(0, "b")]),
            Standing::Unstable
        );
    }

    #[test]
    fn a_confessed_fault_is_never_excused() {
        assert_eq!(
            standing(&[(0, "a"), (1, "b")], &[(70, "a")]),
            Standing::Failed
        );
        let mut of_a_child = outcome(0, "a");
        of_a_child.stderr = b"brownout: internal fault: a fragment is lost\n".to_vec();
        let runs = Runs {
            expected: End::Exit(0),
            natives: vec![outcome(0, "a")],
            tested: vec![of_a_child],
        };
        assert_eq!(runs.judge(SCOPE).0, Standing::Failed);
    }

    #[test]
    fn a_hang_under_test_is_excused_only_by_a_native_hang() {
        let hung = Outcome {
            end: End::TimedOut,
            ..outcome(0, "")
        };
        let mut runs = Runs {
            expected: End::Exit(0),
            natives: vec![outcome(0, "a"), outcome(0, "b")],
            tested: vec![hung.clone()],
        };
        assert_eq!(runs.judge(SCOPE).0, Standing::Failed);
        runs.natives.push(hung);
        assert_eq!(runs.judge(SCOPE).0, Standing::Unstable);
    }

    #[test]
    fn few_programs_may_be_odd() {
        assert_eq!(allowed_odd(1), 1);
        assert_eq!(allowed_odd(40), 2);
        assert_eq!(allowed_odd(300), 15);
    }
}
