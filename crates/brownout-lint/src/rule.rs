//! What a rule is: one file in `rules/` that implements [`Rule`], and one line in the
//! [registry](crate::rules).
//!
//! A rule has one method for each kind of [input](crate::rule_inputs) it looks at. The follower calls
//! the rules as the run goes on; the judge shows them, after the last event, the stores that are lost. A rule sees
//! only what the user's code does, unless the method says otherwise, and reports to its [`Tally`], which
//! counts findings and keeps the first occurrence of each. Whether a file is persistent memory is not known
//! before the end of the trace: rules report for all candidates, and the judge drops the rest.
//!
//! Methods that a rule does not implement are empty and cost nothing: the registry calls each rule by its
//! type. Methods that run for many events reject what they do not look for first, inline.

use brownout_report::RuleInfo;

use crate::follower::overwrites::Overwriting;
use crate::follower::thread::ThreadState;
use crate::rule_inputs::{
    Fence, GuaranteedStore, LineFlush, LogAdd, LostStore, TransactionEnd, UnpersistedTarget,
    VolatileFlush,
};
use crate::tally::Tally;

pub(crate) trait Rule: Default {
    /// Name, severity and the documentation that `brownout explain` prints.
    const INFO: &'static RuleInfo;

    /// A cache line of a file is flushed.
    #[inline(always)]
    fn flush(&mut self, flush: &LineFlush, found: &mut Tally) {
        let _ = (flush, found);
    }

    /// An address outside every mapped file is flushed.
    #[inline(always)]
    fn volatile_flush(&mut self, flush: &VolatileFlush, found: &mut Tally) {
        let _ = (flush, found);
    }

    /// An `sfence` or `mfence` is executed.
    #[inline(always)]
    fn fence(&mut self, fence: &Fence<'_>, found: &mut Tally) {
        let _ = (fence, found);
    }

    /// A store becomes guaranteed.
    #[inline(always)]
    fn guaranteed(&mut self, store: &GuaranteedStore<'_>, found: &mut Tally) {
        let _ = (store, found);
    }

    /// Flush and fence have guaranteed a store that had overwritten one that was not guaranteed.
    #[inline(always)]
    fn overwrite_guaranteed(&mut self, overwriting: &Overwriting, found: &mut Tally) {
        let _ = (overwriting, found);
    }

    /// A pointer was guaranteed before its target. Shown when the target is guaranteed or lost.
    #[inline(always)]
    fn unpersisted_target(&mut self, pointer: &UnpersistedTarget<'_>, found: &mut Tally) {
        let _ = (pointer, found);
    }

    /// A store can no longer become guaranteed.
    #[inline(always)]
    fn lost(&mut self, lost: &LostStore, found: &mut Tally) {
        let _ = (lost, found);
    }

    /// The user's code, or bindings on an explicit request, adds bytes to a transaction's log.
    #[inline(always)]
    fn log_add(&mut self, add: &LogAdd<'_>, found: &mut Tally) {
        let _ = (add, found);
    }

    /// The outermost transaction of a thread is committed or aborted.
    #[inline(always)]
    fn transaction_end(&mut self, end: &TransactionEnd, found: &mut Tally) {
        let _ = (end, found);
    }

    /// A thread ends, or the trace ends before it does. Once for each thread.
    #[inline(always)]
    fn thread_end(&mut self, thread: &ThreadState, found: &mut Tally) {
        let _ = (thread, found);
    }
}
