//! What is remembered of each cache line beside its live stores.

use crate::sites::SiteId;

/// The history of a line since its last flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineNote {
    /// The first cached store since the last flush, and the last.
    pub(crate) first: SiteId,
    pub(crate) last: SiteId,
    /// Cached stores since the last flush; those of one copy count once.
    pub(crate) stores: u16,
    /// The line was flushed at some time.
    pub(crate) flushed: bool,
    /// Cached stores, or writes by the kernel, since the last flush.
    pub(crate) dirty: bool,
    /// Non-temporal stores since the last flush.
    pub(crate) non_temporal: bool,
}

impl Default for LineNote {
    fn default() -> Self {
        LineNote {
            first: SiteId::NONE,
            last: SiteId::NONE,
            stores: 0,
            flushed: false,
            dirty: false,
            non_temporal: false,
        }
    }
}

impl LineNote {
    /// A cached store at `site`, the first or one of several of its kind.
    #[inline]
    pub(crate) fn store(&mut self, site: SiteId, is_one_copy: impl FnOnce(SiteId, SiteId) -> bool) {
        self.dirty = true;
        if self.stores == 0 {
            self.first = site;
            self.stores = 1;
        } else if !is_one_copy(self.last, site) {
            self.stores = self.stores.saturating_add(1);
        }
        self.last = site;
    }

    /// The line was flushed, or written back.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.stores = 0;
        self.flushed = true;
        self.dirty = false;
        self.non_temporal = false;
    }
}
