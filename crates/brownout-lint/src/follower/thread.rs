//! What is remembered of each thread.

use brownout_model::{LineSlot, PmAddress};
use brownout_trace::{FileId, ProcessId};

use crate::rule_inputs::file;
use crate::site_keys::SiteKey;
use crate::transactions::Transaction;

/// A store and its time; time 0 is before all stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub(crate) time: u64,
    pub(crate) site: SiteKey,
}

impl Newest {
    const NOTHING: Newest = Newest {
        time: 0,
        site: SiteKey::NONE,
    };

    #[inline]
    pub(crate) fn raise(&mut self, time: u64, site: SiteKey) {
        if time > self.time {
            *self = Newest { time, site };
        }
    }
}

/// A flush or non-temporal store that only a locked instruction has ordered so far, and no real fence.
#[derive(Clone, Debug)]
pub(crate) struct AccidentallyOrdered {
    pub(crate) role: &'static str,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    pub(crate) fence: SiteKey,
    pub(crate) fence_time: u64,
    /// The lines that are flushed or stored to; at least one, and not all if there are many.
    pub(crate) lines: Vec<PmAddress>,
    /// Site and time of a store of a pointer to one of them, which relies on the locked instruction.
    pub(crate) pointer: Option<(SiteKey, u64)>,
    pub(crate) count: u64,
}

impl AccidentallyOrdered {
    pub(crate) fn file(&self) -> FileId {
        file(self.lines[0])
    }
}

/// The most lines that are kept of what one site flushes.
const MOST_LINES: usize = 16;

/// A flush or non-temporal store that the next fence orders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered {
    pub(crate) role: &'static str,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
    /// The start of the line.
    pub(crate) line: PmAddress,
}

/// State of a thread.
#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) process: ProcessId,
    /// The time of the last fence, locked instruction or system call that wrote pages back.
    pub(crate) last_fence: u64,
    /// The newest store of the thread that one of its fences has guaranteed, and that fence.
    pub(crate) persisted: Newest,
    pub(crate) persisted_by: (SiteKey, u64),
    /// The same since the last fence.
    pub(crate) persisting: Newest,
    /// Deferred flushes and non-temporal stores since the last real fence, including flushes of volatile memory.
    pub(crate) waiting: u32,
    /// How many of these persist user data and were not ordered by a locked instruction.
    pub(crate) ordering: u32,
    pub(crate) examples: [Option<Ordered>; 2],
    pub(crate) last_non_temporal: Option<(LineSlot, SiteKey)>,
    pub(crate) accidental: Vec<AccidentallyOrdered>,
    /// Those that a pointer has relied on, once for each site.
    pub(crate) relied_on: Vec<AccidentallyOrdered>,
    /// The file that the thread stored to or flushed last.
    pub(crate) file: Option<FileId>,
    pub(crate) transaction: Transaction,
    /// It has begun to exit, or its process has.
    pub(crate) leaving: bool,
    /// The rules have seen its end.
    pub(crate) ended: bool,
    /// It, or its process, ended by itself: it was not killed, nor was the recording stopped.
    pub(crate) completed: bool,
}

impl ThreadState {
    pub(crate) fn new(process: ProcessId) -> Self {
        ThreadState {
            process,
            last_fence: 0,
            persisted: Newest::NOTHING,
            persisted_by: (SiteKey::NONE, 0),
            persisting: Newest::NOTHING,
            waiting: 0,
            ordering: 0,
            examples: [None; 2],
            last_non_temporal: None,
            accidental: Vec::new(),
            relied_on: Vec::new(),
            file: None,
            transaction: Transaction::default(),
            leaving: false,
            ended: false,
            completed: false,
        }
    }

    /// How many events before `time` its last fence was; at most 255.
    #[inline]
    pub(crate) fn since_fence(&self, time: u64) -> u8 {
        (time - self.last_fence).min(u8::MAX.into()) as u8
    }

    /// The next fence will order this, too.
    #[inline]
    pub(crate) fn begin(&mut self, ordered: Ordered) {
        if let Some(example) = self.examples.get_mut(self.ordering as usize) {
            *example = Some(ordered);
        }
        self.ordering = self.ordering.saturating_add(1);
    }

    /// A fence at `site` has taken effect.
    #[inline]
    pub(crate) fn fenced(&mut self, site: SiteKey, time: u64) {
        self.synced(site, time);
        self.ordering = 0;
    }

    /// A system call at `site` has written pages back; flushes are still pending.
    #[inline]
    pub(crate) fn synced(&mut self, site: SiteKey, time: u64) {
        self.last_fence = time;
        if self.persisting.time > self.persisted.time {
            self.persisted = self.persisting;
            self.persisted_by = (site, time);
        }
    }

    pub(crate) fn ordered_by_accident(&mut self, ordered: AccidentallyOrdered) {
        let mut known = self.accidental.iter_mut();
        match known.find(|known| known.site == ordered.site && known.fence == ordered.fence) {
            Some(known) => {
                known.count += ordered.count;
                let room = MOST_LINES.saturating_sub(known.lines.len());
                known.lines.extend(ordered.lines.into_iter().take(room));
            }
            None => self.accidental.push(ordered),
        }
    }

    /// A pointer to `line` is guaranteed with what follows: it relies on the locked instruction that has ordered the line before.
    pub(crate) fn rely_on_accident(&mut self, line: PmAddress, pointer: (SiteKey, u64)) {
        let relies = |ordered: &AccidentallyOrdered| {
            ordered.fence_time < pointer.1 && ordered.lines.contains(&line)
        };
        let mut found = self.accidental.iter().filter(|ordered| relies(ordered));
        let Some(ordered) = found.next() else {
            return;
        };
        let mut known = self.relied_on.iter_mut();
        match known.find(|known| known.site == ordered.site) {
            Some(known) => known.count += 1,
            None => self.relied_on.push(AccidentallyOrdered {
                pointer: Some(pointer),
                count: 1,
                ..ordered.clone()
            }),
        }
    }
}
