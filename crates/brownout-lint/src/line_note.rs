//! What is remembered of each cache line beside its live stores.

/// The history of a line. Small, as there is one for every line that was ever touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineNote {
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
    pub(crate) fn flush(&mut self) {
        *self = LineNote {
            flushed: true,
            dirty: false,
            non_temporal: false,
        };
    }
}
