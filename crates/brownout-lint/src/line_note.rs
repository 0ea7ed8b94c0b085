//! What is remembered of each cache line beside its live stores.

/// The history of a line since its last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineNote {
    /// When the line was flushed last, or written back.
    pub(crate) last_flush: u64,
    /// The line was flushed at some time.
    pub(crate) flushed: bool,
    /// Cached stores, or writes by the kernel, since the last flush.
    pub(crate) dirty: bool,
    /// Non-temporal stores since the last flush.
    pub(crate) non_temporal: bool,
}

impl LineNote {
    /// The line was flushed, or written back.
    #[inline]
    pub(crate) fn flush(&mut self, time: u64) {
        *self = LineNote {
            last_flush: time,
            flushed: true,
            dirty: false,
            non_temporal: false,
        };
    }
}
