//! Whose code a place in the program is: the user's, or a persistence library's own.
//!
//! A library that keeps logs and allocator state in the user's pool stores, flushes and fences for its own
//! purposes and by its own protocol. Such events are part of the picture, since they flush and fence the
//! user's stores too, but are never reported.

use brownout_trace::{Definitions, Event};

use crate::oracle::Frame;

/// Whose code a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user's code.
    User,
    /// The C library (`memcpy`) on the user's behalf: what one call stores into a line is one store to
    /// the user, however many instructions it takes.
    CLibrary,
    /// The C library on a lock of the user's (`pthread_mutex_lock`), which may lie in persistent memory and is
    /// no data: whoever opens the pool next makes it anew.
    Lock,
    /// A library that persists and copies what it is told to (`pmem_persist`, `pmem_memcpy`), likewise.
    Carrier,
    /// The inside of a persistence library.
    Library,
}

/// Tells whose code a place is.
pub trait Attribution {
    /// The process, instruction and context of `event` were not seen before, or modules have changed
    /// since. `definitions` are those at the event: what an address means can change later.
    fn origin(&mut self, event: &Event<'_>, definitions: &Definitions) -> Origin;

    /// The stack of the place that was asked about after `place` others, innermost frame first. Only
    /// [oracles](crate::oracle) want to know.
    fn stack(&mut self, place: usize) -> Vec<Frame> {
        let _ = place;
        Vec::new()
    }
}

impl<F: FnMut(&Event<'_>, &Definitions) -> Origin> Attribution for F {
    fn origin(&mut self, event: &Event<'_>, definitions: &Definitions) -> Origin {
        self(event, definitions)
    }
}

/// A level of a symbolised stack, as far as attribution needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame<'a> {
    /// The file name of the program or library, without directories.
    pub module: &'a str,
    pub function: Option<&'a str>,
}

/// The C library and its loader.
const C_LIBRARY: [&str; 4] = ["libc.so", "libc-", "ld-linux", "ld-musl"];

/// What the names of functions that work on locks hold, however the C library decorates them.
const LOCKING: [&str; 2] = ["pthread_", "sem_"];

/// Libraries that only carry out what their caller asks for.
const CARRIERS: [&str; 2] = ["libpmem.so", "libpmem2.so"];

/// Libraries with data structures of their own in the user's pool.
const LIBRARIES: [&str; 4] = [
    "libpmemobj.so",
    "libpmemblk.so",
    "libpmemlog.so",
    "libpmempool.so",
];

/// Entry points of these libraries that do no more than persist or copy what they are given.
const THIN: [&str; 14] = [
    "pmemobj_persist",
    "pmemobj_xpersist",
    "pmemobj_flush",
    "pmemobj_xflush",
    "pmemobj_drain",
    "pmemobj_memcpy",
    "pmemobj_memmove",
    "pmemobj_memset",
    "pmemobj_memcpy_persist",
    "pmemobj_memmove_persist",
    "pmemobj_memset_persist",
    "pmemobj_memcpy_nodrain",
    "pmemobj_memmove_nodrain",
    "pmemobj_memset_nodrain",
];

/// The origin of a place by its stack, innermost frame first.
///
/// The frames of C library and libpmem at the inner end say what was done, not for whom. If the next
/// belongs to a persistence library, the call by which the library was entered decides: a thin entry point
/// works for its caller, any other for the library. If it is the user's (also in a constructor that
/// the library calls back), so is the event.
pub fn origin_of<'a>(frames: impl IntoIterator<Item = StackFrame<'a>>) -> Origin {
    let is = |frame: StackFrame<'_>, names: &[&str]| {
        names.iter().any(|name| frame.module.starts_with(name))
    };
    let mut inner = Origin::User;
    let mut entry: Option<StackFrame<'a>> = None;
    for frame in frames {
        if is(frame, &LIBRARIES) {
            entry = Some(frame);
        } else if is(frame, &CARRIERS) {
            inner = Origin::Carrier;
        } else if is(frame, &C_LIBRARY) {
            if inner == Origin::User && entry.is_none() {
                inner = Origin::CLibrary;
            }
            let locks = |name: &str| LOCKING.iter().any(|part| name.contains(part));
            if inner == Origin::CLibrary && frame.function.is_some_and(locks) {
                inner = Origin::Lock;
            }
        } else {
            break;
        }
    }
    match entry {
        Some(entry) if entry.function.is_some_and(|name| THIN.contains(&name)) => Origin::Carrier,
        Some(_) => Origin::Library,
        None => inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(stack: &[(&str, &str)]) -> Origin {
        origin_of(stack.iter().map(|&(module, function)| StackFrame {
            module,
            function: (!function.is_empty()).then_some(function),
        }))
    }

    const PMEM: &str = "libpmem.so.1";
    const OBJ: &str = "libpmemobj.so.1";
    const LIBC: &str = "libc.so.6";

    #[test]
    fn the_program_is_the_users() {
        assert_eq!(
            origin(&[("kv", "put"), ("kv", "main"), (LIBC, "")]),
            Origin::User
        );
        assert_eq!(origin(&[]), Origin::User);
    }

    #[test]
    fn copying_is_done_for_the_caller() {
        assert_eq!(origin(&[(LIBC, "memcpy"), ("kv", "put")]), Origin::CLibrary);
        let stack = [(PMEM, ""), (PMEM, "pmem_memcpy_persist"), ("kv", "put")];
        assert_eq!(origin(&stack), Origin::Carrier);
        let stack = [
            (PMEM, ""),
            (OBJ, ""),
            (OBJ, "pmemobj_memcpy_persist"),
            ("kv", "put"),
        ];
        assert_eq!(origin(&stack), Origin::Carrier);
    }

    #[test]
    fn locks_of_the_user_are_told_from_data() {
        let lock = [(LIBC, "___pthread_mutex_lock"), ("kv", "put")];
        assert_eq!(origin(&lock), Origin::Lock);
        let unlock = [
            (LIBC, "__pthread_mutex_unlock_usercnt"),
            (LIBC, ""),
            ("kv", "put"),
        ];
        assert_eq!(origin(&unlock), Origin::Lock);
        assert_eq!(origin(&[(LIBC, "sem_post"), ("kv", "put")]), Origin::Lock);
    }

    #[test]
    fn what_a_library_does_to_its_own_data_is_its_own() {
        let stack = [
            (PMEM, "pmem_persist"),
            (OBJ, ""),
            (OBJ, "pmemobj_tx_commit"),
            ("kv", "put"),
        ];
        assert_eq!(origin(&stack), Origin::Library);
        let stack = [(OBJ, "pmemobj_alloc"), ("kv", "put")];
        assert_eq!(origin(&stack), Origin::Library);
        let lock = [
            (LIBC, "pthread_mutex_lock"),
            (OBJ, "pmemobj_mutex_lock"),
            ("kv", "put"),
        ];
        assert_eq!(origin(&lock), Origin::Library);
    }

    #[test]
    fn a_constructor_called_back_is_the_users() {
        let stack = [
            ("kv", "construct"),
            (OBJ, ""),
            (OBJ, "pmemobj_alloc"),
            ("kv", "put"),
        ];
        assert_eq!(origin(&stack), Origin::User);
    }
}
