//! Finds the wrappers among the functions of a target.
//!
//! Each event says what its innermost frame does; frames of functions that are known to be wrappers are skipped, so that their callers act
//! in their place. This is repeated until no more wrappers are found.
//!
//! A function that is called from one place and only persists may be a part of its caller (`persist` calls `write_line`). It is
//! tentatively skipped, too, so that its caller acts in its place; if that turns out to be a wrapper, both are.

use brownout_lint::Origin;
use brownout_report::Frame;
use brownout_trace::EventKind;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Function, WrapperFunctions, function_of};

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

/// A frame of the target: the function, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TargetFrame {
    function: u32,
    line: Option<u32>,
    offset: u64,
}

/// Collects what the functions of the target do.
#[derive(Default)]
pub struct WrapperSearch {
    numbers: FxHashMap<Function, u32>,
    /// The innermost frames of the target, innermost first.
    seen: FxHashSet<(Action, Vec<TargetFrame>)>,
    /// Functions that store or copy, or call one that does.
    storing: FxHashSet<u32>,
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
        let program = frames.filter(|frame| !frame.is_library());
        let steps = program.map(|frame| {
            let next = self.numbers.len() as u32;
            let function = function_of(&frame);
            TargetFrame {
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
        let mut steps: Vec<TargetFrame> = steps.collect();
        if action != Action::Persist {
            self.storing.extend(steps.iter().map(|step| step.function));
        }
        steps.truncate(DEPTH);
        self.seen.insert((action, steps));
    }

    /// The wrappers among the functions that were seen.
    pub fn find(self) -> WrapperFunctions {
        let mut names: Vec<&Function> = self.numbers.keys().collect();
        names.sort_unstable_by_key(|function| self.numbers[*function]);
        let mut wrappers: FxHashSet<u32> = FxHashSet::default();
        loop {
            let found = self.find_more(&wrappers, &names);
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

    /// Functions that are wrappers, given that `wrappers` are.
    fn find_more(&self, wrappers: &FxHashSet<u32>, names: &[&Function]) -> FxHashSet<u32> {
        let first_round = wrappers.is_empty();
        let mut found: FxHashSet<u32> = FxHashSet::default();
        // Functions that may be parts of their only callers, and these.
        let mut parts: FxHashMap<u32, u32> = FxHashMap::default();
        let mut skipped = wrappers.clone();
        loop {
            let mut new_parts: Vec<(u32, u32)> = Vec::new();
            for (&function, activity) in &self.activities(&skipped) {
                let is_named = says_so(&names[function as usize].1);
                // What acts only through its parts must not store through others.
                let acts_itself = parts.is_empty() || !self.storing.contains(&function);
                if acts_itself && activity.is_wrapper(is_named, first_round) {
                    found.insert(function);
                } else if let Some(caller) = activity.only_caller() {
                    new_parts.push((function, caller));
                }
            }
            if new_parts.is_empty() {
                break;
            }
            skipped.extend(new_parts.iter().map(|(part, _)| part));
            parts.extend(new_parts);
        }
        for &part in parts.keys() {
            let callers =
                std::iter::successors(Some(part), |function| parts.get(function).copied());
            // Functions that call each other have no outermost caller.
            let mut callers = callers.skip(1).take(DEPTH);
            if callers.any(|caller| found.contains(&caller) || wrappers.contains(&caller)) {
                found.insert(part);
            }
        }
        found.retain(|function| !wrappers.contains(function));
        found
    }

    /// What each function does, without the functions that are `skipped`.
    fn activities(&self, skipped: &FxHashSet<u32>) -> FxHashMap<u32, Activity<'_>> {
        let mut activities: FxHashMap<u32, Activity<'_>> = FxHashMap::default();
        for (action, steps) in &self.seen {
            let at = steps
                .iter()
                .position(|step| !skipped.contains(&step.function));
            if let Some(at) = at {
                let activity = activities.entry(steps[at].function).or_default();
                activity.add(*action, steps.get(at + 1));
            }
        }
        activities
    }
}

/// What a function does, and from where.
#[derive(Default)]
struct Activity<'a> {
    copies: bool,
    stores: bool,
    /// Called by the system, or by a library.
    is_outermost: bool,
    callers: FxHashSet<&'a TargetFrame>,
}

impl<'a> Activity<'a> {
    fn add(&mut self, action: Action, caller: Option<&'a TargetFrame>) {
        self.copies |= action == Action::Copy;
        self.stores |= action == Action::Store;
        match caller {
            Some(caller) => {
                self.callers.insert(caller);
            }
            None => self.is_outermost = true,
        }
    }

    /// The function that calls this one, if all it does is to persist, for one caller.
    fn only_caller(&self) -> Option<u32> {
        let mut callers = self.callers.iter();
        let caller = callers.next()?;
        let persists = !self.stores && !self.copies && !self.is_outermost;
        (persists && callers.next().is_none()).then_some(caller.function)
    }

    /// Functions that only call wrappers may do so for purposes of their own: after the `first_round`, names decide.
    fn is_wrapper(&self, is_named: bool, first_round: bool) -> bool {
        let shared = first_round && !self.copies && self.callers.len() > 1;
        !self.stores && !self.is_outermost && (is_named || shared)
    }
}

/// Whether the name of a function says that it persists or copies.
fn says_so(function: &str) -> bool {
    let plain = function.split(['<', '(']).next().unwrap_or(function);
    let name = plain.rsplit("::").next().unwrap_or(plain).to_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}
