//! Three boolean marks per cache line, whose meaning the observer defines.
//!
//! They are stored per page, so that a page takes less than half a cache line and the working set of a target stays in the
//! processor's cache.

/// One of the three marks of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The first mark.
    First,
    /// The second mark.
    Second,
    /// The third mark.
    Third,
}

/// The marks of all lines of a page, one bit per line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageMarks([u64; 3]);

impl PageMarks {
    #[inline]
    pub(crate) fn of(&mut self, line: usize) -> Marks<'_> {
        Marks {
            page: self,
            line: 1 << line,
        }
    }

    #[inline]
    pub(crate) fn has(&self, line: usize, mark: Mark) -> bool {
        self.0[mark as usize] >> line & 1 != 0
    }

    pub(crate) fn are_none(&self) -> bool {
        self.0 == [0; 3]
    }
}

/// The marks of one line.
pub struct Marks<'a> {
    page: &'a mut PageMarks,
    line: u64,
}

impl Marks<'_> {
    /// Sets a mark.
    #[inline]
    pub fn set(&mut self, mark: Mark) {
        self.page.0[mark as usize] |= self.line;
    }

    /// Clears a mark.
    #[inline]
    pub fn clear(&mut self, mark: Mark) {
        self.page.0[mark as usize] &= !self.line;
    }

    /// Whether a mark is set.
    #[inline]
    pub fn has(&self, mark: Mark) -> bool {
        self.page.0[mark as usize] & self.line != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_marks_are_independent() {
        let mut page = PageMarks::default();
        page.of(0).set(Mark::First);
        page.of(63).set(Mark::Third);
        assert!(page.has(0, Mark::First) && page.has(63, Mark::Third));
        assert!(!page.has(0, Mark::Third) && !page.of(63).has(Mark::First));
        page.of(0).clear(Mark::First);
        assert!(!page.are_none());
        page.of(63).clear(Mark::Third);
        assert!(page.are_none());
    }
}
