//! What is remembered of each cache line besides its live stores.

use brownout_model::{Mark, Marks};

/// The line was flushed at some time.
pub(crate) const FLUSHED: Mark = Mark::First;
/// Cached stores, or writes by the kernel, since the last flush.
pub(crate) const DIRTY: Mark = Mark::Second;
/// Non-temporal stores since the last flush.
pub(crate) const NON_TEMPORAL: Mark = Mark::Third;

/// The line was flushed, or written back.
#[inline]
pub(crate) fn flush(mut line: Marks<'_>) {
    line.set(FLUSHED);
    line.clear(DIRTY);
    line.clear(NON_TEMPORAL);
}
