//! The wire's memory: a sealed memfd, the mapping of its control page and slot table, and the futexes in it.

use brownout_ring::explore::{MAILBOX_BYTES, MAILBOXES, Mailbox, PROCESSES};
use brownout_ring::fuzz::{self, FuzzPage};
use brownout_ring::hold::{self, HoldPage, state};
use brownout_ring::{Control, RINGS, SLOT_TABLE, SLOTS, Slot};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What a memfd is for. Kernels since 6.3 expect this to be specified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemfdUse {
    /// Shared data, whose size will be sealed.
    Data,
    /// A program to execute.
    Program,
}

/// Creates a memfd that is closed on exec.
pub(crate) fn create_memfd(name: &CStr, purpose: MemfdUse) -> io::Result<File> {
    let (purpose_flag, older_kernels) = match purpose {
        MemfdUse::Data => (
            MemfdFlags::ALLOW_SEALING | MemfdFlags::NOEXEC_SEAL,
            MemfdFlags::ALLOW_SEALING,
        ),
        MemfdUse::Program => (MemfdFlags::EXEC, MemfdFlags::empty()),
    };
    let create = |flags| rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | flags);
    let created = match create(purpose_flag) {
        Err(Errno::INVAL) => create(older_kernels),
        result => result,
    };
    Ok(created?.into())
}

/// Fixes the size of a memfd permanently, so that no other process can make accesses to our mapping fail.
pub(crate) fn seal_size(file: &File) -> io::Result<()> {
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    Ok(rustix::fs::fcntl_add_seals(file, seals)?)
}

/// Frees the memory of a range of a memfd. The range reads as zeroes afterwards.
pub(crate) fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, mode, offset, len)?)
}

/// The control page and the slot table of a wire, mapped shared.
///
/// The target can overwrite everything here at any time. Everything that the safe methods expose is either atomic or never
/// read by the recorder.
pub(crate) struct Table {
    base: NonNull<u8>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed only through atomics.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// Maps the table of `wire`, whose size must already be sealed at the wire's size.
    pub(crate) fn map(wire: &File) -> io::Result<Table> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address of the new mapping, so it replaces no other mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                RINGS,
                protection,
                libc::MAP_SHARED,
                wire.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Table { base })
    }

    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the mapping starts with a page-aligned `Control`, lives as long as `self`, and
        // every bit pattern is a valid `Control`. The plain fields are never read through it.
        unsafe { self.base.cast::<Control>().as_ref() }
    }

    pub(crate) fn slots(&self) -> &[Slot; SLOTS] {
        // SAFETY: SLOTS slots follow at SLOT_TABLE, inside the RINGS bytes mapped and 64-byte
        // aligned; a slot consists of atomics only.
        unsafe { self.base.add(SLOT_TABLE).cast::<[Slot; SLOTS]>().as_ref() }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped; references into it cannot outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), RINGS) };
    }
}

/// Where the target says which thread is held, mapped shared. As with [`Table`], what is read is atomic.
pub(crate) struct HoldMap {
    base: NonNull<HoldPage>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed only through atomics.
unsafe impl Send for HoldMap {}
// SAFETY: as above.
unsafe impl Sync for HoldMap {}

/// A thread that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldThread {
    /// The number of its process in the recording.
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// How many threads have been held before, and this one.
    pub(crate) number: u32,
}

impl HoldMap {
    /// Maps the page of `wire`, whose size must already be sealed at the wire's size.
    pub(crate) fn map(wire: &File) -> io::Result<HoldMap> {
        // SAFETY: the kernel chooses the address of the new mapping, so it replaces no other mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                hold::PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                wire.as_raw_fd(),
                hold::PAGE as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(HoldMap { base })
    }

    fn page(&self) -> &HoldPage {
        // SAFETY: the mapping is page-aligned, large enough and lives as long as `self`; the fields that are read are atomic.
        unsafe { self.base.as_ref() }
    }

    /// The thread that is held, if there is one.
    pub(crate) fn held(&self) -> Option<HeldThread> {
        let page = self.page();
        let is_held = page.state.load(Ordering::Acquire) == state::HELD;
        is_held.then(|| HeldThread {
            number: page.count.load(Ordering::Acquire),
            process: page.process.load(Ordering::Relaxed),
            thread: page.thread.load(Ordering::Relaxed),
        })
    }

    /// Lets the thread go that is held. The next one that comes by is held.
    pub(crate) fn release(&self) {
        self.set(state::READY);
    }

    /// Lets the thread go that is held, and holds none any more.
    pub(crate) fn turn_off(&self) {
        self.set(state::OFF);
    }

    fn set(&self, new: u32) {
        let state = &self.page().state;
        state.store(new, Ordering::Release);
        futex_wake(state);
    }
}

impl Drop for HoldMap {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped; references into it cannot outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), hold::PAGE_BYTES) };
    }
}

/// The mailboxes of an exploration, mapped shared. As with [`Table`], everything in them is atomic.
pub(crate) struct MailboxMap {
    base: NonNull<u8>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed only through atomics.
unsafe impl Send for MailboxMap {}

const ALL_MAILBOXES: usize = PROCESSES * MAILBOX_BYTES;

impl MailboxMap {
    /// Maps the mailboxes of `wire`, whose size must already be sealed at the wire's size.
    pub(crate) fn map(wire: &File) -> io::Result<MailboxMap> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address of the new mapping, so it replaces no other mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                ALL_MAILBOXES,
                protection,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                wire.as_raw_fd(),
                MAILBOXES as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(MailboxMap { base })
    }

    /// The mailbox with this number, which must be below [`PROCESSES`].
    pub(crate) fn mailbox(&self, number: u32) -> &Mailbox {
        let number = number as usize;
        assert!(number < PROCESSES, "no mailbox {number}");
        // SAFETY: inside the mapping, which lives as long as `self`; page-aligned, and all of it is atomic.
        unsafe {
            self.base
                .add(number * MAILBOX_BYTES)
                .cast::<Mailbox>()
                .as_ref()
        }
    }
}

impl Drop for MailboxMap {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped; references into it cannot outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), ALL_MAILBOXES) };
    }
}

/// What executions count, mapped shared. As with [`Table`], what is read is atomic, or copied as bytes.
pub(crate) struct FuzzMap {
    base: NonNull<FuzzPage>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed only through atomics and by copying bytes.
unsafe impl Send for FuzzMap {}

impl FuzzMap {
    /// Maps the page of `wire`, whose size must already be sealed at the wire's size.
    pub(crate) fn map(wire: &File) -> io::Result<FuzzMap> {
        // SAFETY: the kernel chooses the address of the new mapping, so it replaces no other mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                fuzz::PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                wire.as_raw_fd(),
                fuzz::PAGE as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(FuzzMap { base })
    }

    pub(crate) fn page(&self) -> &FuzzPage {
        // SAFETY: the mapping is page-aligned, large enough and lives as long as `self`; all fields are atomic.
        unsafe { self.base.as_ref() }
    }

    /// Copies the counts of edges. Processes that are still counting may make single counts wrong.
    pub(crate) fn copy_edges(&self, to: &mut [u8]) {
        let edges = &self.page().edges;
        let len = edges.len().min(to.len());
        // SAFETY: as many bytes as both have. The bytes are those of atomics in shared memory, to which other processes may write; any
        // value is a byte.
        unsafe { ptr::copy_nonoverlapping(edges.as_ptr().cast(), to.as_mut_ptr(), len) };
    }

    /// Sets the counts of edges to zero.
    pub(crate) fn clear_edges(&self) {
        let edges = &self.page().edges;
        // SAFETY: the bytes of the atomics, which may be changed through a shared reference.
        unsafe { ptr::write_bytes(edges.as_ptr().cast_mut(), 0, edges.len()) };
    }
}

impl Drop for FuzzMap {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped; references into it cannot outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), fuzz::PAGE_BYTES) };
    }
}

/// Sleeps until `word` is woken, no longer holds `expected`, or `timeout` has passed.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    wait(word.as_ptr(), expected, timeout);
}

/// Sleeps until the low word of `word` is woken or no longer that of `expected`, as producers do.
#[cfg(test)]
pub(crate) fn futex_wait_low_word(word: &AtomicU64, expected: u64, timeout: Duration) {
    wait(word.as_ptr().cast(), expected as u32, timeout);
}

fn wait(word: *const u32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the kernel reads one aligned word and the timespec; it checks the word's address.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
        );
    }
}

/// Wakes all threads that sleep on `word`, in any process.
pub(crate) fn futex_wake(word: &AtomicU32) {
    wake(word.as_ptr());
}

/// Wakes all threads that sleep on the low word of `word`, in any process.
pub(crate) fn futex_wake_low_word(word: &AtomicU64) {
    wake(word.as_ptr().cast());
}

fn wake(word: *const u32) {
    // SAFETY: FUTEX_WAKE only uses the address as a key; it reads and writes nothing there.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, libc::c_int::MAX);
    }
}
