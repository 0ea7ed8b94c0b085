//! What one execution has shown.

use super::FuzzServerError;
use super::server::FuzzServer;
use brownout_ring::fuzz::{MOST_TRANSITIONS, OPERAND_BYTES, TRANSITIONS, effect};
use brownout_trace::replay::Content;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// How the process that made an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyEnd {
    Exited(i32),
    /// By this signal.
    Killed(i32),
    TimedOut,
    /// Not yet: it waits for its input.
    AtInput,
}

/// Two operations on persistent memory that a thread has made one after the other. They are known by their identities, which are the same
/// in each run ([`FuzzServer::operation`]); the first one is 0 if there was none before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transition {
    pub from: u64,
    pub to: u64,
}

impl Transition {
    /// One word that stands for the transition, the same in each run.
    pub fn key(self) -> u64 {
        let word = self.from.rotate_left(29) ^ self.to;
        let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ word >> 27
    }
}

/// Two operands that were compared and were not equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Identity of the instruction.
    pub place: u64,
    /// Values in the byte order of the processor; or, of a call, what its first two arguments point to.
    pub left: Vec<u8>,
    pub right: Vec<u8>,
    pub is_call: bool,
}

/// What one execution has shown. It can be read until the next one begins.
pub struct FuzzExecution<'a> {
    pub end: CopyEnd,
    pub duration: Duration,
    pub(super) server: &'a FuzzServer,
}

impl FuzzExecution<'_> {
    /// How often each edge was taken, up to 255: a map that is indexed by hashes which are the same in each run.
    pub fn edges(&self) -> &[u8] {
        self.server.edges()
    }

    /// The transitions between operations on persistent memory, each once, with their counts.
    pub fn transitions(&self) -> Vec<(Transition, u32)> {
        let page = self.server.page();
        let count = page.transition_count.load(Acquire) as usize;
        let used = page
            .used_transitions
            .iter()
            .take(count.min(MOST_TRANSITIONS));
        used.map(|index| {
            let entry = &page.transitions[index.load(Relaxed) as usize % TRANSITIONS];
            let transition = Transition {
                from: entry.from.load(Relaxed),
                to: entry.to.load(Relaxed),
            };
            (transition, entry.count.load(Relaxed))
        })
        .collect()
    }

    /// Transitions that were not counted because there were too many.
    pub fn lost_transitions(&self) -> u32 {
        self.server.page().lost_transitions.load(Relaxed)
    }

    /// Blocks of code that had not been met before, and were translated in the execution. The server translates them, too, before the next
    /// one.
    pub fn translated_blocks(&self) -> u32 {
        self.server.page().translated.load(Relaxed)
    }

    /// The comparisons, if they are captured.
    pub fn comparisons(&self) -> Vec<Comparison> {
        let page = self.server.page();
        let count = page.comparison_count.load(Acquire) as usize;
        let entries = page.comparisons.iter().take(count);
        entries
            .map(|entry| {
                let len = (entry.len.load(Relaxed) as usize).min(OPERAND_BYTES);
                let bytes = |operand: &[std::sync::atomic::AtomicU8]| -> Vec<u8> {
                    let bytes = operand[..len].iter();
                    bytes.map(|byte| byte.load(Relaxed)).collect()
                };
                Comparison {
                    place: entry.place.load(Relaxed),
                    left: bytes(&entry.left),
                    right: bytes(&entry.right),
                    is_call: entry.is_call.load(Relaxed) != 0,
                }
            })
            .collect()
    }

    /// The persistent files as the execution has left them, in the order of the target's; `None` if a file does not exist.
    pub fn files(&self) -> Result<Vec<Option<Content>>, FuzzServerError> {
        self.server.files()
    }

    /// Whether a page of a persistent file may have changed.
    pub fn may_have_changed_files(&self) -> bool {
        self.server
            .changed_pages()
            .is_none_or(|pages| !pages.is_empty())
    }

    /// Whether files that are not persistent may have been written, created, removed or renamed. The next executions see that.
    pub fn wrote_files(&self) -> bool {
        self.has(effect::FILES)
    }

    /// Whether the execution has started other processes.
    pub fn started_processes(&self) -> bool {
        self.has(effect::PROCESSES)
    }

    /// Whether it has used the input. If not, all inputs lead to the same execution.
    pub fn used_input(&self) -> bool {
        self.server.is_at_input() || self.has(effect::INPUT)
    }

    fn has(&self, bit: u32) -> bool {
        self.server.page().effects.load(Relaxed) & bit != 0
    }
}
