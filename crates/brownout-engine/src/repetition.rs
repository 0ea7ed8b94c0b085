//! Targets that are run several times, and whose runs have to be alike: what makes them alike, and what is left that differs.

use std::fmt;
use std::fs;

use brownout_ring::input;

/// How runs of a target are made alike. Each also gets the same random bytes from the system at its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repetition {
    /// The process id of the target; those of its threads and children follow. Only for a process in a pid namespace that it
    /// shares with nobody else.
    pub pid: Option<u32>,
}

/// Where the system keeps the last process id of a pid namespace.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// Lets the next process or thread of this pid namespace get an id, or one soon after it if it is in use. Returns whether the
/// system allows that.
pub fn set_next_pid(pid: u32) -> bool {
    fs::write(LAST_PID, pid.saturating_sub(1).to_string()).is_ok()
}

impl Repetition {
    /// The target is about to be started. Returns what will differ from run to run.
    pub(crate) fn prepare(self) -> Option<OtherInput> {
        let is_set = self.pid.is_some_and(set_next_pid);
        (!is_set).then_some(OtherInput::ProcessIds)
    }
}

/// What a target uses that is not the same in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OtherInput {
    Time,
    RandomNumbers,
    /// They could not be set.
    ProcessIds,
    /// Files that are neither explored nor those of the system. Only reported in explorations.
    OtherFiles,
}

impl OtherInput {
    /// Those of [`input`] bits.
    pub(crate) fn of(bits: u32) -> impl Iterator<Item = Self> {
        let all = [
            (input::TIME, Self::Time),
            (input::RANDOM, Self::RandomNumbers),
            (input::FILES, Self::OtherFiles),
        ];
        let set = all.into_iter().filter(move |(bit, _)| bits & bit != 0);
        set.map(|(_, input)| input)
    }
}

impl fmt::Display for OtherInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "the time",
            Self::RandomNumbers => "random numbers",
            Self::ProcessIds => "process ids",
            Self::OtherFiles => "other files",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_an_input() {
        let named = |bits| -> Vec<String> {
            let inputs = OtherInput::of(bits);
            inputs.map(|input| input.to_string()).collect()
        };
        assert_eq!(named(0), [""; 0]);
        let all = named(input::TIME | input::RANDOM | input::FILES);
        assert_eq!(all, ["the time", "random numbers", "other files"]);
    }

    #[test]
    fn without_a_namespace_of_its_own_process_ids_differ() {
        let differing = Repetition { pid: None }.prepare();
        assert_eq!(differing, Some(OtherInput::ProcessIds));
    }
}
