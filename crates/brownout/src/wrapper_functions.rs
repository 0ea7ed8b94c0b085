//! The target's own wrappers: functions whose only business is flushing, fencing, copying or syncing for their callers.
//!
//! A flush inside `persist(p, len)` is redundant, or missing, because of the call. The place to look at is the caller, as it
//! is for `pmem_persist`. Which functions are wrappers is derived from all events of a run. A function acts if it is the
//! innermost frame of an event that is neither a library's nor a wrapper's.
//!
//! - A function that only flushes, fences or syncs is a wrapper if it is called from two places or more, or if its name says
//!   what it does.
//! - A function that also copies, by `memcpy` and its relatives or by libpmem, is a wrapper only if its name says so: one that
//!   copies its own data looks the same.
//! - A function that stores anything in another way is none, and neither is one that nothing of the target calls.
//!
//! Can miss: copies that the function makes by itself; wrappers with other names that are called from one place.

use brownout_lint::Origin;
use brownout_report::{Finding, Frame};
use brownout_trace::EventKind;
use rustc_hash::{FxHashMap, FxHashSet};

/// Frames of the target that are remembered of a stack: a few wrappers around each other, and their caller.
const DEPTH: usize = 4;

/// Parts of names of functions that persist or copy what they are given.
const NAMES: [&str; 14] = [
    "persist",
    "flush",
    "clwb",
    "fence",
    "drain",
    "barrier",
    "msync",
    "fsync",
    "fdatasync",
    "write_back",
    "writeback",
    "memcpy",
    "memmove",
    "memset",
];

/// What a function does to persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Persist,
    Copy,
    Store,
}

impl Action {
    fn of(event: &EventKind<'_>, origin: Origin) -> Option<Self> {
        match event {
            EventKind::Flush { .. } | EventKind::Fence { .. } | EventKind::Sync(_) => {
                Some(Self::Persist)
            }
            EventKind::Store { .. } => Some(match origin {
                Origin::CLibrary | Origin::Carrier => Self::Copy,
                _ => Self::Store,
            }),
            EventKind::KernelWrite { .. } => Some(Self::Store),
            _ => None,
        }
    }
}

/// A function, by module and name.
type Function = (String, String);

/// A frame of the target: the function, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Step {
    function: u32,
    line: Option<u32>,
    offset: u64,
}

/// Collects what the functions of the target do.
#[derive(Default)]
pub struct WrapperSearch {
    numbers: FxHashMap<Function, u32>,
    /// The innermost frames of the target, innermost first.
    seen: FxHashSet<(Action, Vec<Step>)>,
}

impl WrapperSearch {
    /// An event with a new stack.
    pub fn observe(
        &mut self,
        event: &EventKind<'_>,
        origin: Origin,
        frames: impl Iterator<Item = Frame>,
    ) {
        let Some(action) = Action::of(event, origin) else {
            return;
        };
        let program = frames.filter(|frame| !frame.is_library()).take(DEPTH);
        let steps = program.map(|frame| {
            let next = self.numbers.len() as u32;
            let function = function_of(&frame);
            Step {
                function: *self.numbers.entry(function).or_insert(next),
                line: frame.line,
                // With a line, the instruction does not matter.
                offset: if frame.line.is_some() {
                    0
                } else {
                    frame.offset
                },
            }
        });
        let steps = steps.collect();
        self.seen.insert((action, steps));
    }

    /// The wrappers among the functions that were seen.
    pub fn find(self) -> WrapperFunctions {
        let mut names: Vec<&Function> = self.numbers.keys().collect();
        names.sort_unstable_by_key(|function| self.numbers[*function]);
        let mut wrappers: FxHashSet<u32> = FxHashSet::default();
        loop {
            let mut acting: FxHashMap<u32, Activity<'_>> = FxHashMap::default();
            for (action, steps) in &self.seen {
                let at = steps
                    .iter()
                    .position(|step| !wrappers.contains(&step.function));
                if let Some(at) = at {
                    let activity = acting.entry(steps[at].function).or_default();
                    activity.add(*action, steps.get(at + 1));
                }
            }
            let first = wrappers.is_empty();
            let found = acting.iter().filter(|(function, activity)| {
                let is_named = says_so(&names[**function as usize].1);
                activity.is_wrapper(is_named, first)
            });
            let found: Vec<u32> = found.map(|(&function, _)| function).collect();
            if found.is_empty() {
                break;
            }
            wrappers.extend(found);
        }
        let functions = wrappers
            .iter()
            .map(|&number| names[number as usize].clone());
        WrapperFunctions {
            functions: functions.collect(),
        }
    }
}

/// What a function does, and from where.
#[derive(Default)]
struct Activity<'a> {
    copies: bool,
    stores: bool,
    /// Called by the system, or by a library.
    is_outermost: bool,
    callers: FxHashSet<&'a Step>,
}

impl<'a> Activity<'a> {
    fn add(&mut self, action: Action, caller: Option<&'a Step>) {
        self.copies |= action == Action::Copy;
        self.stores |= action == Action::Store;
        match caller {
            Some(caller) => {
                self.callers.insert(caller);
            }
            None => self.is_outermost = true,
        }
    }

    /// Functions that only call wrappers may do so for purposes of their own: after the `first` round, names decide.
    fn is_wrapper(&self, is_named: bool, first: bool) -> bool {
        let shared = first && !self.copies && self.callers.len() > 1;
        !self.stores && !self.is_outermost && (is_named || shared)
    }
}

/// Whether the name of a function says that it persists or copies.
fn says_so(function: &str) -> bool {
    let plain = function.split(['<', '(']).next().unwrap_or(function);
    let name = plain.rsplit("::").next().unwrap_or(plain).to_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}

fn function_of(frame: &Frame) -> Function {
    let name = frame.function.clone();
    // Without a name, each instruction is a function of its own.
    let name = name.unwrap_or_else(|| format!("{:#x}", frame.offset));
    (frame.module.clone(), name)
}

/// The wrappers of a target.
#[derive(Clone, Debug, Default)]
pub struct WrapperFunctions {
    functions: FxHashSet<Function>,
}

impl WrapperFunctions {
    /// Adds the wrappers that are marked in the findings of an earlier run.
    pub fn learn(&mut self, findings: &[Finding]) {
        let stacks = findings.iter().flat_map(|finding| &finding.stacks);
        let frames = stacks.flat_map(|stack| &stack.frames);
        let marked = frames.filter(|frame| frame.wrapper).map(function_of);
        self.functions.extend(marked);
    }

    /// Marks the frames of wrappers, so that findings are shown at their callers.
    pub fn mark(&self, findings: &mut [Finding]) {
        if self.functions.is_empty() {
            return;
        }
        let stacks = findings.iter_mut().flat_map(|finding| &mut finding.stacks);
        for frame in stacks.flat_map(|stack| &mut stack.frames) {
            frame.wrapper = self.functions.contains(&function_of(frame));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_trace::{Address, FenceKind, FlushKind, StoreFlavor};

    const FENCE: EventKind<'static> = EventKind::Fence {
        kind: FenceKind::Sfence,
    };
    const FLUSH: EventKind<'static> = EventKind::Flush {
        addr: Address(64),
        kind: FlushKind::Clwb,
        volatile: false,
    };
    const STORE: EventKind<'static> = EventKind::Store {
        addr: Address(64),
        bytes: &[1],
        flavor: StoreFlavor::Temporal,
        locked: false,
        string: false,
    };

    fn frame((function, line): (&str, u32)) -> Frame {
        Frame {
            function: Some(function.to_owned()),
            file: Some("/src/kv.c".to_owned()),
            line: Some(line),
            module: "/bin/kv".to_owned(),
            ..Frame::default()
        }
    }

    /// What happened, whose code did it, and the stack: functions and lines, innermost first.
    type Observed<'a> = (EventKind<'a>, Origin, &'a [(&'a str, u32)]);

    /// The wrappers of a run with these events.
    fn wrappers(events: &[Observed<'_>]) -> Vec<String> {
        let mut search = WrapperSearch::default();
        for (event, origin, stack) in events {
            search.observe(event, *origin, stack.iter().copied().map(frame));
        }
        let mut found: Vec<String> = search
            .find()
            .functions
            .into_iter()
            .map(|(_, function)| function)
            .collect();
        found.sort();
        found
    }

    #[test]
    fn a_function_that_only_flushes_for_two_callers_is_a_wrapper() {
        let user = Origin::User;
        let put: Observed<'_> = (STORE, user, &[("put", 5), ("main", 1)]);
        let first: &[(&str, u32)] = &[("pm_wb", 3), ("put", 6), ("main", 1)];
        let second: &[(&str, u32)] = &[("pm_wb", 3), ("put", 8), ("main", 1)];
        assert_eq!(
            wrappers(&[put, (FLUSH, user, first), (FENCE, user, second)]),
            ["pm_wb"]
        );
        assert_eq!(wrappers(&[put, (FLUSH, user, first)]), [""; 0]);
    }

    #[test]
    fn a_name_that_says_so_needs_only_one_caller() {
        let stack: &[(&str, u32)] = &[("kv::flush_range<int>", 3), ("put", 6), ("main", 1)];
        let events = [
            (FLUSH, Origin::User, stack),
            (STORE, Origin::User, &[("put", 5), ("main", 1)][..]),
        ];
        assert_eq!(wrappers(&events), ["kv::flush_range<int>"]);
    }

    #[test]
    fn wrappers_around_wrappers_are_recognised_by_name() {
        let user = Origin::User;
        let events: [Observed<'_>; 4] = [
            (
                FLUSH,
                user,
                &[("clwb", 3), ("persist", 6), ("checkpoint", 9), ("main", 1)],
            ),
            (
                FENCE,
                user,
                &[
                    ("sfence", 4),
                    ("persist", 7),
                    ("checkpoint", 9),
                    ("main", 1),
                ],
            ),
            (
                FENCE,
                user,
                &[
                    ("sfence", 4),
                    ("persist", 7),
                    ("checkpoint", 10),
                    ("main", 2),
                ],
            ),
            (STORE, user, &[("main", 2)]),
        ];
        assert_eq!(wrappers(&events), ["clwb", "persist", "sfence"]);
    }

    #[test]
    fn a_function_with_stores_of_its_own_is_no_wrapper() {
        let user = Origin::User;
        let events: [Observed<'_>; 3] = [
            (
                STORE,
                user,
                &[("set_and_flush", 3), ("put", 6), ("main", 1)],
            ),
            (
                FLUSH,
                user,
                &[("set_and_flush", 4), ("put", 6), ("main", 1)],
            ),
            (
                FLUSH,
                user,
                &[("set_and_flush", 4), ("put", 7), ("main", 1)],
            ),
        ];
        assert_eq!(wrappers(&events), [""; 0]);
    }

    #[test]
    fn copying_needs_a_name() {
        let copy = |name: &'static str| {
            let first = [(name, 3), ("put", 6), ("main", 1)];
            let second = [(name, 3), ("put", 7), ("main", 1)];
            let events = [
                (STORE, Origin::CLibrary, &first[..]),
                (FLUSH, Origin::User, &second[..]),
                (STORE, Origin::User, &[("put", 5), ("main", 1)][..]),
            ];
            wrappers(&events)
        };
        assert_eq!(copy("memcpy_nt"), ["memcpy_nt"]);
        assert_eq!(copy("append"), [""; 0]);
    }

    #[test]
    fn what_nothing_calls_is_no_wrapper() {
        assert_eq!(
            wrappers(&[(FLUSH, Origin::User, &[("flush_thread", 3)])]),
            [""; 0]
        );
    }

    #[test]
    fn findings_are_shown_at_the_caller_and_keep_their_id() {
        use brownout_report::{Evidence, Stack};
        let mut search = WrapperSearch::default();
        let stack = [("flush", 3), ("put", 6), ("main", 1)];
        search.observe(&FLUSH, Origin::User, stack.iter().copied().map(frame));
        search.observe(&STORE, Origin::User, [frame(("put", 5))].into_iter());
        let rule = brownout_lint::rule("redundant-flush").unwrap();
        let stack = Stack {
            role: "flush".to_owned(),
            frames: stack.into_iter().map(frame).collect(),
        };
        let mut findings = [Finding::new(
            rule,
            "message",
            vec![stack],
            Evidence::default(),
        )];
        let id = findings[0].lineless_id();
        assert_eq!(findings[0].primary_frame(), Some(&frame(("flush", 3))));
        search.find().mark(&mut findings);
        assert_eq!(findings[0].primary_frame(), Some(&frame(("put", 6))));
        assert_eq!(findings[0].lineless_id(), id);
    }
}
