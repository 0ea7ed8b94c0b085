//! Compares the events of two recordings of one program, which are the same if nothing that the program does depends on chance.
//!
//! Ids of processes and threads are the system's and differ in any case: threads count as the same if they have the same place in
//! the order of their first events, and stored words that differ only by such ids count as equal. The arguments of programs
//! and the texts of notes are not compared, because paths in them may differ.

use std::collections::HashMap;
use std::io::{Read, Seek};

use crate::error::ReadError;
use crate::event::{Event, EventKind, ThreadParent};
use crate::ids::{EventIndex, ProcessId, ThreadId};
use crate::reader::TraceReader;

/// The first event in which two recordings differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The events with this number differ.
    Event(EventIndex),
    /// One of the recordings ends before this event, and the other does not.
    End(EventIndex),
}

impl Difference {
    /// The number of the event.
    pub fn index(self) -> EventIndex {
        match self {
            Difference::Event(index) | Difference::End(index) => index,
        }
    }
}

/// The first difference between the events of two traces, from where they are to their ends.
///
/// ```
/// use brownout_trace::*;
/// # use std::io::Cursor;
/// # fn trace(texts: &[&str]) -> Result<Cursor<Vec<u8>>, Box<dyn std::error::Error>> {
/// #     let header = Header {
/// #         brownout_version: "0.1.0".into(),
/// #         command: vec!["./kvstore".into()],
/// #         cwd: "/home/user".into(),
/// #         pm: Vec::new(),
/// #         loads: false,
/// #         shared_loads: false,
/// #         started: std::time::SystemTime::now(),
/// #     };
/// #     let mut writer = TraceWriter::new(Vec::new(), &header)?;
/// #     for text in texts {
/// #         writer.write(&Event {
/// #             index: EventIndex(0),
/// #             process: ProcessId(0),
/// #             thread: ThreadId(100),
/// #             pc: AppPc(0x401000),
/// #             context: ContextId::ROOT,
/// #             kind: EventKind::Store {
/// #                 addr: Address(0x7f00_0000_0000),
/// #                 bytes: text.as_bytes(),
/// #                 flavor: StoreFlavor::Temporal,
/// #                 locked: false,
/// #                 string: false,
/// #             },
/// #         })?;
/// #     }
/// #     Ok(Cursor::new(writer.finish(Ending::default())?.1))
/// # }
/// #
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (earlier, later) = (trace(&["a", "b"])?, trace(&["a", "c"])?);
/// let mut earlier = TraceReader::new(earlier)?;
/// let mut later = TraceReader::new(later)?;
/// let found = first_difference(&mut earlier, &mut later)?;
/// assert_eq!(found, Some(Difference::Event(EventIndex(1))));
/// # Ok(())
/// # }
/// ```
pub fn first_difference<A: Read + Seek, B: Read + Seek>(
    first: &mut TraceReader<A>,
    second: &mut TraceReader<B>,
) -> Result<Option<Difference>, ReadError> {
    let mut threads = ThreadPairs::default();
    loop {
        let index = first.position();
        match (first.next()?, second.next()?) {
            (None, None) => return Ok(None),
            (Some(one), Some(other)) => {
                if !threads.are_same(&one, &other) {
                    return Ok(Some(Difference::Event(index)));
                }
            }
            _ => return Ok(Some(Difference::End(index))),
        }
    }
}

/// Threads of the first recording with those of the second that take their places.
#[derive(Default)]
struct ThreadPairs(HashMap<(ProcessId, ThreadId), ThreadId>);

impl ThreadPairs {
    fn are_same(&mut self, one: &Event<'_>, other: &Event<'_>) -> bool {
        if (one.process, one.pc, one.context) != (other.process, other.pc, other.context) {
            return false;
        }
        let key = (one.process, one.thread);
        let starts = matches!(one.kind, EventKind::ThreadStart { .. });
        if starts {
            self.0.insert(key, other.thread);
        }
        *self.0.entry(key).or_insert(other.thread) == other.thread
            && self.are_kinds_same(one.process, &one.kind, &other.kind)
    }

    fn are_kinds_same(
        &self,
        process: ProcessId,
        one: &EventKind<'_>,
        other: &EventKind<'_>,
    ) -> bool {
        match (*one, *other) {
            (
                EventKind::Store {
                    addr,
                    bytes,
                    flavor,
                    locked,
                    string,
                },
                EventKind::Store { bytes: others, .. },
            ) => {
                let with_others = EventKind::Store {
                    addr,
                    bytes: others,
                    flavor,
                    locked,
                    string,
                };
                with_others == *other && self.are_bytes_same(bytes, others)
            }
            (
                EventKind::Load { addr, bytes },
                EventKind::Load {
                    addr: at,
                    bytes: others,
                },
            ) => addr == at && self.are_bytes_same(bytes, others),
            (EventKind::ThreadStart { parent: one }, EventKind::ThreadStart { parent: other }) => {
                match (one, other) {
                    (Some(one), Some(other)) => self.are_parents_same(one, other),
                    (one, other) => one == other,
                }
            }
            (EventKind::ThreadJoin { joined: one }, EventKind::ThreadJoin { joined: other }) => {
                self.0.get(&(process, one)) == Some(&other)
            }
            (
                EventKind::ProcessStart {
                    parent,
                    origin,
                    exe,
                    ..
                },
                EventKind::ProcessStart {
                    parent: others,
                    origin: how,
                    exe: program,
                    ..
                },
            ) => (parent, origin, exe) == (others, how, program),
            (EventKind::Note { .. }, EventKind::Note { .. }) => true,
            (one, other) => one == other,
        }
    }

    fn are_parents_same(&self, one: ThreadParent, other: ThreadParent) -> bool {
        one.created == other.created && self.is_pair(one.thread.0, other.thread.0)
    }

    /// Whether bytes are the same, except for words that hold the ids of threads that take each other's places.
    fn are_bytes_same(&self, one: &[u8], other: &[u8]) -> bool {
        /// The id of the owner in a word by which the C library and the kernel share a lock.
        const OWNER: u32 = 0x3fff_ffff;
        if one == other {
            return true;
        }
        let (words, rest) = one.as_chunks::<4>();
        let (others, last) = other.as_chunks::<4>();
        let mut pairs = words.iter().zip(others);
        one.len() == other.len()
            && rest == last
            && pairs.all(|(&word, &other)| {
                let (word, other) = (u32::from_le_bytes(word), u32::from_le_bytes(other));
                let differing = word ^ other;
                word == other
                    || differing & !OWNER == 0 && self.is_pair(word & OWNER, other & OWNER)
            })
    }

    /// Whether two ids are those of threads that take each other's places.
    fn is_pair(&self, one: u32, other: u32) -> bool {
        let mut pairs = self.0.iter();
        pairs.any(|(&(_, thread), pair)| (thread.0, pair.0) == (one, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StoreFlavor;
    use crate::ids::{Address, AppPc, ContextId};

    fn event(thread: u32, kind: EventKind<'_>) -> Event<'_> {
        Event {
            index: EventIndex(0),
            process: ProcessId(0),
            thread: ThreadId(thread),
            pc: AppPc(0x1000),
            context: ContextId::ROOT,
            kind,
        }
    }

    fn store(bytes: &[u8]) -> EventKind<'_> {
        EventKind::Store {
            addr: Address(64),
            bytes,
            flavor: StoreFlavor::Temporal,
            locked: false,
            string: false,
        }
    }

    #[test]
    fn threads_are_the_same_by_their_order() {
        let mut pairs = ThreadPairs::default();
        let start = EventKind::ThreadStart { parent: None };
        assert!(pairs.are_same(&event(10, start), &event(20, start)));
        assert!(pairs.are_same(&event(11, start), &event(30, start)));
        assert!(pairs.are_same(&event(10, store(&[1])), &event(20, store(&[1]))));
        assert!(!pairs.are_same(&event(10, store(&[1])), &event(30, store(&[1]))));
        let join = |joined| EventKind::ThreadJoin {
            joined: ThreadId(joined),
        };
        assert!(pairs.are_same(&event(10, join(11)), &event(20, join(30))));
        assert!(!pairs.are_same(&event(10, join(11)), &event(20, join(20))));
    }

    #[test]
    fn other_values_and_addresses_differ() {
        let mut pairs = ThreadPairs::default();
        assert!(!pairs.are_same(&event(1, store(&[1])), &event(1, store(&[2]))));
        let mut elsewhere = event(1, store(&[1]));
        elsewhere.pc = AppPc(0x1004);
        assert!(!pairs.are_same(&event(1, store(&[1])), &elsewhere));
        let fence = EventKind::ThreadExit;
        assert!(!pairs.are_same(&event(1, store(&[1])), &event(1, fence)));
    }

    #[test]
    fn the_owner_of_a_lock_may_have_another_id() {
        let mut pairs = ThreadPairs::default();
        let start = EventKind::ThreadStart { parent: None };
        assert!(pairs.are_same(&event(1000, start), &event(2000, start)));
        const WAITERS: u32 = 1 << 31;
        let word = |id: u32| (id | WAITERS).to_le_bytes();
        let (one, other, unknown) = (word(1000), word(2000), word(2001));
        assert!(pairs.are_same(&event(1000, store(&one)), &event(2000, store(&other))));
        assert!(!pairs.are_same(&event(1000, store(&one)), &event(2000, store(&unknown))));
    }
}
