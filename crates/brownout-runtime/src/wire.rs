//! The producer's end of the wire to the recorder (see `brownout-ring`).

use crate::lock::Lock;
use crate::memory;
use crate::sys;
use crate::sys::{is_err, linux};
use brownout_ring as ring;
use brownout_ring::{Control, Intent, Record, Slot, kind};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

pub(crate) static CONTROL: AtomicPtr<Control> = AtomicPtr::new(core::ptr::null_mut());
static FD: AtomicI32 = AtomicI32::new(-1);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Bytes that are published before the recorder is woken.
const DOORBELL_EVERY: u64 = (ring::RING_BYTES / 4) as u64;
/// Rings that threads have left behind, mapped and ready for the next ones: (slot, address).
static SPARE: Lock<alloc::vec::Vec<(u32, u64)>> = Lock::new(alloc::vec::Vec::new());

/// Rights to the parts of the wire that the runtime writes.
pub const READ_WRITE: u32 = linux::PROT_READ | linux::PROT_WRITE;

/// Set while this thread is the only one of the whole recording: then drawing a number needs no
/// locked instruction.
pub(crate) static ALONE: AtomicBool = AtomicBool::new(false);

/// Set once loads are recorded because persistent memory is shared.
static SHARING: AtomicBool = AtomicBool::new(false);

/// Notes whether the calling thread is the only one of its process, before that changes.
pub fn set_alone(alone: bool) {
    let first = control().is_some_and(|control| control.next_process.load(Ordering::Relaxed) <= 1);
    ALONE.store(alone && first, Ordering::Relaxed);
}

/// Descriptor of the wire, which the target must not close.
pub fn descriptor() -> i32 {
    FD.load(Ordering::Relaxed)
}

/// Attaches the process to the wire behind `fd`. False if it is not one.
pub fn attach(fd: i32) -> bool {
    // Memory behind the end of a shorter file could not be accessed.
    let is_long_enough = |stat: &linux::stat| stat.st_size >= ring::WIRE_BYTES as i64;
    if sys::fstat(fd).filter(is_long_enough).is_none() {
        return false;
    }
    let head = ring::SLOT_TABLE + ring::SLOTS * size_of::<Slot>();
    let addr = memory::reserve(head as u64);
    if !map_at(addr, READ_WRITE, fd, 0, head) {
        return false;
    }
    let control = addr as *mut Control;
    // SAFETY: mapped above, and the file was long enough to hold the control page a moment ago.
    let valid = unsafe { (*control).magic == ring::MAGIC && (*control).version == ring::VERSION };
    if valid {
        CONTROL.store(control, Ordering::Release);
        FD.store(fd, Ordering::Relaxed);
    } else {
        // SAFETY: mapped above, and nothing refers to it.
        unsafe { memory::unmap(addr, head as u64) };
    }
    valid
}

fn control() -> Option<&'static Control> {
    // SAFETY: set once to a mapping that is never unmapped; all fields that change are atomic.
    unsafe { CONTROL.load(Ordering::Acquire).as_ref() }
}

/// Whether anybody reads records.
pub fn is_recording() -> bool {
    control()
        .is_some_and(|control| control.recording.load(Ordering::Relaxed) == ring::recording::ON)
}

/// Whether loads are recorded.
pub fn wants_loads() -> bool {
    has_option(ring::option::LOADS) || SHARING.load(Ordering::Relaxed)
}

/// Whether loads are to be recorded once persistent memory is shared, and are not yet.
pub fn awaits_sharing() -> bool {
    has_option(ring::option::SHARED_LOADS) && !SHARING.load(Ordering::Relaxed)
}

/// Loads are recorded and locks recognised from now on.
pub fn set_sharing() {
    SHARING.store(true, Ordering::Relaxed);
}

/// Notes for all processes that two of them have mapped the same file.
pub fn note_shared() {
    if let Some(control) = control() {
        control.shared.store(1, Ordering::Relaxed);
    }
}

/// Whether two processes have mapped the same file.
pub fn is_shared() -> bool {
    control().is_some_and(|control| control.shared.load(Ordering::Relaxed) != 0)
}

fn has_option(option: u32) -> bool {
    control().is_some_and(|control| control.options & option != 0)
}

/// Whether locks are recognised by their instructions.
pub fn wants_locks() -> bool {
    has_option(ring::option::LOCKS) || SHARING.load(Ordering::Relaxed)
}

/// Whether the files that the target opens and reads are reported.
pub fn wants_reads() -> bool {
    control().is_some_and(|control| control.options & ring::option::READS != 0)
}

/// Whether the bytes of loads are chosen by a controller.
pub fn wants_exploration() -> bool {
    control().is_some_and(|control| control.options & ring::option::EXPLORE != 0)
}

/// Whether executions are counted, and the process is copied for each of them.
pub fn wants_fuzz() -> bool {
    has_option(ring::option::FUZZ)
}

/// Whether the target is a server that is sent the input.
pub fn wants_client() -> bool {
    has_option(ring::option::CLIENT)
}

/// Whether threads are held.
pub fn wants_holds() -> bool {
    has_option(ring::option::HOLD)
}

/// Whether the path from the first symbolic byte on is recorded.
pub fn wants_path() -> bool {
    has_option(ring::option::PATH)
}

/// Whether flushes and fences are added to the target.
pub fn wants_patches() -> bool {
    has_option(ring::option::PATCH)
}

/// Whether records may borrow their numbers. Those that borrow the same one are not in the same order in each run.
pub fn allows_borrowing() -> bool {
    !has_option(ring::option::SCHEDULE | ring::option::HOLD)
}

/// Wakes the recorder: what was published is of interest now.
pub fn wake_recorder() {
    if let Some(control) = control() {
        control.doorbell.fetch_add(1, Ordering::Release);
        sys::futex_wake(&control.doorbell);
    }
}

/// Whether the target is run several times, and runs have to be alike.
pub fn is_repeated() -> bool {
    control().is_some_and(|control| control.options & ring::option::REPEATED != 0)
}

/// The seed and the length of the schedule under which threads run; `None` if they run freely.
pub fn schedule() -> Option<(u64, u64)> {
    let control = control().filter(|control| control.options & ring::option::SCHEDULE != 0)?;
    Some((control.seed, control.length))
}

/// When the recording under a schedule started, in nanoseconds of the system's clock. The times of files are no more exact.
pub fn schedule_start() -> u64 {
    control().map_or(u64::MAX, |control| control.started)
}

/// Reports how many steps the threads of this process have made under a schedule since the last report.
pub fn add_steps(steps: u64) {
    if let Some(control) = control() {
        control.steps.fetch_add(steps, Ordering::Relaxed);
    }
}

/// Reports that none of the threads of this process, of which there are this many, can ever run again.
pub fn note_deadlock(threads: u32) {
    if let Some(control) = control() {
        control.deadlocked.store(threads, Ordering::Relaxed);
    }
}

/// Whether the recording has, or had, several processes.
pub fn has_several_processes() -> bool {
    control().is_some_and(|control| {
        control.children.load(Ordering::Relaxed) != 0
            || control.next_process.load(Ordering::Relaxed) > 1
    })
}

/// Reports that the target uses something that is not the same in each run, by [`ring::input`].
pub fn note_input(input: u32) {
    if let Some(control) = control()
        && control.inputs.load(Ordering::Relaxed) & input == 0
    {
        control.inputs.fetch_or(input, Ordering::Relaxed);
    }
}

/// Whether [`note_input`] has reported this.
pub fn has_input(input: u32) -> bool {
    control().is_some_and(|control| control.inputs.load(Ordering::Relaxed) & input != 0)
}

/// Whether the process exists that has created the wire.
pub fn has_recorder() -> bool {
    control().is_some_and(|control| {
        // SAFETY: signal 0 only asks whether the process exists.
        let raw = unsafe { crate::sys!(linux::__NR_kill, control.recorder_pid, 0) };
        raw != sys::err(sys::errno::ESRCH)
    })
}

/// Whether blocks and branches are counted.
pub fn wants_coverage() -> bool {
    control().is_some_and(|control| control.options & ring::option::COVERAGE != 0)
}

/// Maps `len` bytes of the wire from `offset` on, with the rights `prot`. They stay mapped until the process ends.
pub fn map(prot: u32, offset: usize, len: usize) -> Option<u64> {
    let addr = memory::reserve(len as u64);
    map_at(addr, prot, descriptor(), offset, len).then_some(addr)
}

/// Maps a part of the wire behind `fd` in a range that the caller has reserved. False if that fails.
fn map_at(addr: u64, prot: u32, fd: i32, offset: usize, len: usize) -> bool {
    let flags = linux::MAP_SHARED | linux::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE leaves anything that is in the way alone.
    let raw = unsafe { sys::mmap(addr, len as u64, prot, flags, fd, offset as u64) };
    !is_err(raw)
}

/// Files that any process of the recording has mapped.
pub fn shared_files() -> Option<&'static ring::SharedFiles> {
    control().map(|control| &control.files)
}

fn slots() -> Option<&'static [Slot]> {
    let control = control()?;
    let first = (&raw const *control as u64 + ring::SLOT_TABLE as u64) as *const Slot;
    // SAFETY: the slot table follows the control page in the same mapping.
    Some(unsafe { core::slice::from_raw_parts(first, ring::SLOTS) })
}

/// Takes a process number for a new process, and closes what an earlier image of it left open.
pub fn enter_process(pid: u32) {
    let Some(control) = control() else { return };
    PROCESS.store(
        control.next_process.fetch_add(1, Ordering::Relaxed),
        Ordering::Relaxed,
    );
    let used = control.slots_used.load(Ordering::Relaxed) as usize;
    for slot in slots().unwrap_or_default().iter().take(used) {
        if slot.state.load(Ordering::Acquire) == ring::slot::LIVE
            && slot.pid.load(Ordering::Relaxed) == pid
        {
            // If this fails, it was closed meanwhile and may belong to another thread.
            let states = (ring::slot::LIVE, ring::slot::CLOSED);
            let _ = slot.state.compare_exchange(
                states.0,
                states.1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }
}

/// Announces to the recorder that another process is about to be started, so that it waits for that process.
pub fn announce_process() {
    if let Some(control) = control() {
        control.children.fetch_add(1, Ordering::SeqCst);
    }
}

/// Number of this process in the recording.
pub fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Forgets rings inherited over a fork: they are the parent's.
pub fn forget_spares() {
    SPARE.lock().clear();
}

/// One thread's ring. Known by offset to the assembly that records events.
#[repr(C)]
pub struct Producer {
    pub(crate) slot: Option<&'static Slot>,
    pub(crate) ring: u64,
    /// Bytes written so far.
    pub(crate) head: u64,
    /// The highest `head` up to which records need neither more room in the ring nor a wake-up of the recorder. 0 without a slot.
    pub(crate) limit: u64,
    /// How many bytes the recorder had taken when that was last read.
    tail: u64,
    /// `head` when the recorder was last woken.
    announced: u64,
    /// Where the slot's [`Intent`] is, or 0.
    pub(crate) intent: u64,
    index: u32,
}

/// The number of the first record of a process that is being forked.
pub struct Birth(u64);

/// The parts of a record that are not payload.
#[derive(Clone, Copy, Default)]
pub struct Head {
    pub kind: u16,
    pub flags: u16,
    pub pc: u64,
    pub context: u32,
    pub addr: u64,
}

impl Producer {
    pub const fn none() -> Producer {
        Producer {
            slot: None,
            index: 0,
            ring: 0,
            head: 0,
            limit: 0,
            tail: 0,
            announced: 0,
            intent: 0,
        }
    }

    /// Claims a slot for the calling thread; without one, records are dropped.
    pub fn claim(&mut self, pid: u32, tid: u32) {
        *self = Producer::none();
        let Some(slots) = slots() else { return };
        let found = slots.iter().enumerate().find(|(_, slot)| {
            let states = (ring::slot::FREE, ring::slot::CLAIMED);
            slot.state.load(Ordering::Relaxed) == states.0
                && slot
                    .state
                    .compare_exchange(states.0, states.1, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        });
        let Some((index, slot)) = found else { return };
        let Some(ring) = map_ring(index) else {
            slot.state.store(ring::slot::FREE, Ordering::Release);
            return;
        };
        if let Some(control) = control() {
            control
                .slots_used
                .fetch_max(index as u32 + 1, Ordering::Relaxed);
        }
        slot.process.store(process(), Ordering::Relaxed);
        slot.pid.store(pid, Ordering::Relaxed);
        slot.tid.store(tid, Ordering::Relaxed);
        slot.waiting.store(0, Ordering::Relaxed);
        let head = slot.head.load(Ordering::Relaxed);
        let intent = ring + 2 * ring::RING_BYTES as u64;
        // SAFETY: mapped with the ring, and this thread's alone.
        unsafe { (&raw mut (*(intent as *mut Intent)).at).write_volatile(Intent::VOID) };
        slot.state.store(ring::slot::LIVE, Ordering::Release);
        *self = Producer {
            slot: Some(slot),
            index: index as u32,
            ring,
            head,
            limit: 0,
            tail: head,
            announced: head,
            intent,
        };
        self.update_limit();
    }

    /// Call this whenever the slot, `tail` or `announced` has changed.
    fn update_limit(&mut self) {
        let room = self.tail + ring::RING_BYTES as u64;
        let quiet = self.announced + DOORBELL_EVERY - 1;
        self.limit = self.slot.map_or(0, |_| room.min(quiet));
    }

    /// The slot of the thread, if it has one.
    pub fn slot_index(&self) -> Option<usize> {
        self.slot.map(|_| self.index as usize)
    }

    /// Gives the slot up; the recorder drains what is left.
    pub fn close(&mut self) {
        if self.end() {
            SPARE.lock().push((self.index, self.ring));
        }
    }

    /// Gives the slot up when the process ends, with all that is mapped. False if there was none.
    pub fn end(&mut self) -> bool {
        (self.intent, self.limit) = (0, 0);
        let slot = self.slot.take();
        if let Some(slot) = slot {
            slot.state.store(ring::slot::CLOSED, Ordering::Release);
        }
        slot.is_some()
    }

    /// Takes over the mapping of a ring whose owner, a vfork child, has left this memory.
    pub fn reclaim(&mut self) {
        (self.intent, self.limit) = (0, 0);
        if self.slot.take().is_some() {
            SPARE.lock().push((self.index, self.ring));
        }
    }

    /// Appends a record with a payload in pieces.
    pub fn record(&mut self, head: Head, payload: &[&[u8]]) {
        self.record_pieces(None, head, payload);
    }

    /// Draws the number of the first record of a process that the thread is about to fork: the child inherits what there
    /// is at this position in the order of records. The recorder waits for this record, so one of [`Producer::record_birth`]
    /// (by the child) and [`Producer::cancel_birth`] must follow, and in the parent [`Producer::end_fork`]. `None` if
    /// there is no recorder.
    pub fn draw_birth(&self) -> Option<Birth> {
        let (slot, control) = (self.slot?, control()?);
        if control.recording.load(Ordering::Relaxed) != ring::recording::ON {
            return None;
        }
        control.births.fetch_add(1, Ordering::SeqCst);
        slot.forking.store(1, Ordering::SeqCst);
        Some(Birth(control.next_seq.0.fetch_add(1, Ordering::AcqRel)))
    }

    /// Appends the first record of a forked process.
    pub fn record_birth(&mut self, birth: Option<Birth>, head: Head, payload: &[&[u8]]) {
        self.record_pieces(birth.as_ref().map(|birth| birth.0), head, payload);
        // Even if there was no slot for the record: the recorder need not wait any longer.
        if let (Some(_), Some(control)) = (birth, control()) {
            control.births.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// There is no child that could use the number.
    pub fn cancel_birth(&mut self, birth: Option<Birth>) {
        if birth.is_some() {
            let head = Head {
                kind: kind::NO_PROCESS,
                ..Head::default()
            };
            self.record_birth(birth, head, &[]);
        }
    }

    /// The thread's fork is over: either the child exists, or the fork has failed.
    pub fn end_fork(&self) {
        if let Some(slot) = self.slot {
            slot.forking.store(0, Ordering::SeqCst);
        }
    }

    /// Appends a record with a number that was drawn before, or with the next one.
    fn record_pieces(&mut self, number: Option<u64>, head: Head, payload: &[&[u8]]) {
        let size: usize = payload.iter().map(|piece| piece.len()).sum();
        let Some((at, len)) = self.begin(&head, size, number) else {
            return;
        };
        let mut to = at;
        for piece in payload {
            // SAFETY: `begin` made sure that `size` bytes from `at` are free.
            unsafe { core::ptr::copy_nonoverlapping(piece.as_ptr(), to as *mut u8, piece.len()) };
            to += piece.len() as u64;
        }
        self.publish(len);
    }

    /// As [`Producer::record`] for a payload in one piece, which is usually short.
    #[inline]
    pub fn record_short(&mut self, head: Head, payload: &[u8]) {
        let Some((at, len)) = self.begin(&head, payload.len(), None) else {
            return;
        };
        // Word by word: the bytes were often stored a moment ago in words, and wider loads would wait
        // until those stores have left the core.
        let (from, size) = (payload.as_ptr(), payload.len());
        let mut done = 0;
        // SAFETY: reads `payload` only, and writes the bytes that `begin` made sure are free.
        unsafe {
            while done + 8 <= size {
                let word = from.add(done).cast::<u64>().read_unaligned();
                (at as *mut u8)
                    .add(done)
                    .cast::<u64>()
                    .write_unaligned(word);
                done += 8;
            }
            if size & 4 != 0 {
                let word = from.add(done).cast::<u32>().read_unaligned();
                (at as *mut u8)
                    .add(done)
                    .cast::<u32>()
                    .write_unaligned(word);
                done += 4;
            }
            while done < size {
                (at as *mut u8).add(done).write(from.add(done).read());
                done += 1;
            }
        }
        self.publish(len);
    }

    /// Writes the head of a record with `size` bytes of payload; where those go, and how long the record
    /// is. `None` if there is no recorder.
    #[inline]
    fn begin(&mut self, head: &Head, size: usize, number: Option<u64>) -> Option<(u64, u64)> {
        let (at, seq) = self.reserve(size_of::<Record>() + size, number)?;
        let len = (size_of::<Record>() + size + 7) & !7;
        // SAFETY: `reserve` made sure that `len` bytes from `at` are free; the ring is mapped twice in a
        // row, so they do not wrap.
        let record = unsafe { &mut *(at as *mut Record) };
        record.len = len as u32;
        record.kind = head.kind;
        record.flags = head.flags;
        record.seq = seq;
        record.pc = head.pc;
        record.context = head.context;
        record.size = size as u32;
        record.addr = head.addr;
        Some((at + size_of::<Record>() as u64, len as u64))
    }

    /// Waits for room for `len` bytes and draws a sequence number, unless `number` was drawn before; `None` if there is no
    /// recorder.
    #[inline]
    fn reserve(&mut self, len: usize, number: Option<u64>) -> Option<(u64, u64)> {
        let slot = self.slot?;
        let control = control()?;
        let need = (len as u64 + 7) & !7;
        debug_assert!(need as usize <= ring::MAX_RECORD);
        if control.recording.load(Ordering::Relaxed) != ring::recording::ON {
            return None;
        }
        while self.head + need - self.tail > ring::RING_BYTES as u64 {
            self.tail = slot.tail.load(Ordering::Acquire);
            self.update_limit();
            if self.head + need - self.tail <= ring::RING_BYTES as u64 {
                break;
            }
            self.wait(slot, control)?;
        }
        let next = &control.next_seq.0;
        let seq = if let Some(number) = number {
            number
        } else if ALONE.load(Ordering::Relaxed) {
            let seq = next.load(Ordering::Relaxed);
            next.store(seq + 1, Ordering::Release);
            seq
        } else {
            next.fetch_add(1, Ordering::AcqRel)
        };
        Some((self.ring + self.head % ring::RING_BYTES as u64, seq))
    }

    /// Sleeps until the recorder has taken something; `None` if it is gone.
    fn wait(&mut self, slot: &Slot, control: &Control) -> Option<()> {
        slot.waiting.store(1, Ordering::SeqCst);
        self.ring_doorbell(control);
        let seen = slot.tail.load(Ordering::SeqCst);
        if seen == self.tail {
            // SAFETY: the low word of `tail`, which is where the protocol's futex is.
            let word = unsafe { &*(&raw const slot.tail).cast::<AtomicU32>() };
            sys::futex_wait(word, seen as u32, 50_000_000);
        }
        slot.waiting.store(0, Ordering::Relaxed);
        if slot.tail.load(Ordering::Acquire) == self.tail && !has_recorder() {
            control
                .recording
                .store(ring::recording::OFF, Ordering::Relaxed);
        }
        (control.recording.load(Ordering::Relaxed) == ring::recording::ON).then_some(())
    }

    #[inline]
    fn publish(&mut self, len: u64) {
        self.head += len;
        if let Some(slot) = self.slot {
            slot.head.store(self.head, Ordering::Release);
        }
        if self.head - self.announced >= DOORBELL_EVERY
            && let Some(control) = control()
        {
            self.ring_doorbell(control);
        }
    }

    fn ring_doorbell(&mut self, control: &Control) {
        self.announced = self.head;
        self.update_limit();
        control.doorbell.fetch_add(1, Ordering::Release);
        sys::futex_wake(&control.doorbell);
    }

    /// Whether the store that was noted last is not yet recorded.
    pub fn has_open_intent(&self) -> bool {
        let intent = self.intent as *const Intent;
        // SAFETY: the slot's own intent, mapped as long as the slot is the thread's.
        !intent.is_null() && unsafe { (*intent).at } == self.head
    }

    /// Keeps the note of a store open though something else was published.
    pub fn renew_intent(&mut self) {
        let intent = self.intent as *mut Intent;
        if !intent.is_null() {
            // SAFETY: as above.
            unsafe { (&raw mut (*intent).at).write_volatile(self.head) };
        }
    }

    /// Waits until the recorder has taken everything, at most `tries` times 50 ms.
    pub fn drained(&mut self, tries: usize) {
        for _ in 0..tries {
            let (Some(slot), Some(control)) = (self.slot, control()) else {
                return;
            };
            self.tail = slot.tail.load(Ordering::Acquire);
            self.update_limit();
            if self.tail == self.head || self.wait(slot, control).is_none() {
                return;
            }
        }
    }
}

/// Maps a slot's ring twice in a row, and its intent behind it. Forked children have rings of their own.
fn map_ring(index: usize) -> Option<u64> {
    let mut spare = SPARE.lock();
    if let Some(at) = spare.iter().position(|&(slot, _)| slot as usize == index) {
        return Some(spare.swap_remove(at).1);
    }
    drop(spare);
    let bytes = ring::RING_BYTES as u64;
    let addr = memory::reserve(2 * bytes + ring::INTENT_BYTES as u64);
    let parts = [
        (addr, ring::RING_BYTES),
        (addr + bytes, ring::RING_BYTES + ring::INTENT_BYTES),
    ];
    let offset = ring::ring_offset(index);
    let mut mapped = parts
        .into_iter()
        .map(|(at, len)| map_at(at, READ_WRITE, descriptor(), offset, len));
    let is_mapped = mapped.all(|done| done);
    memory::leave_out_of_forks(addr, 2 * bytes + ring::INTENT_BYTES as u64);
    is_mapped.then_some(addr)
}
