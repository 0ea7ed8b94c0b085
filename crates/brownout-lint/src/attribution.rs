//! Whose code a place in the program is: the user's, or a persistence library's own.
//!
//! A library that keeps logs and allocator state in the user's pool stores, flushes and fences for its own
//! purposes and by its own protocol. Such events are part of the picture, since they flush and fence the
//! user's stores too, but are never reported.

use brownout_report::is_linked_c_library;
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
    /// The inside of a persistence library, called by bindings to it on each use of a type of theirs, whether the call is
    /// needed or not.
    Bindings,
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
    /// The function that was called, where it is known; another one if that ended with a jump to `function`.
    pub called: Option<&'a str>,
    /// The source file, where there is debug information.
    pub source: Option<&'a str>,
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

/// How the names of their functions begin, where they are part of the program itself: what they export, and
/// families of inner functions that can be jumped to from an exported one, which then leaves no trace.
const CARRIER_FUNCTIONS: [&str; 2] = ["pmem_", "pmem2_"];
const LIBRARY_FUNCTIONS: [&str; 10] = [
    "pmemobj_",
    "_pobj_",
    "pmemblk_",
    "pmemlog_",
    "pmempool_",
    "palloc_",
    "pmalloc_",
    "ulog_",
    "memblock_",
    "lane_",
];

/// Where their sources are in their project, and what others share with them there.
const CARRIER_SOURCES: [&str; 2] = ["/src/libpmem/", "/src/libpmem2/"];
const LIBRARY_SOURCES: [&str; 4] = [
    "/src/libpmemobj/",
    "/src/libpmemblk/",
    "/src/libpmemlog/",
    "/src/libpmempool/",
];
const SHARED_SOURCES: [&str; 2] = ["/src/common/", "/src/core/"];
const PROJECT: &str = "/pmdk";

/// The C++ bindings to libpmemobj, which are headers: containers with fields of their own in the user's pool, and
/// below the same directory types that wrap the user's.
const BINDINGS: &str = "/libpmemobj++/";
const CONTAINERS: [&str; 5] = [
    "container/",
    "experimental/concurrent_map.hpp",
    "experimental/inline_string.hpp",
    "experimental/mpsc_queue.hpp",
    "experimental/radix_tree.hpp",
];
/// How the bindings are told to log; they do so by themselves otherwise.
const EXPLICIT_ADD: &str = "::snapshot";

/// Where a compiler's own headers are, whose code is part of whatever uses it.
const COMPILER_HEADERS: &str = "/include/c++/";

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

/// Whose a single frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    CLibrary,
    Carrier,
    Library,
    /// That of the frame that called it, if this is a library's in the same file, else the user's.
    Unclear,
    /// That of the frame that called it.
    Wrapper,
}

impl<'a> StackFrame<'a> {
    /// The function's name to those who call it.
    fn name(self) -> Option<&'a str> {
        self.called.or(self.function)
    }

    fn owner(self) -> Owner {
        let module = |names: &[&str]| names.iter().any(|name| self.module.starts_with(name));
        if module(&LIBRARIES) {
            Owner::Library
        } else if module(&CARRIERS) {
            Owner::Carrier
        } else if module(&C_LIBRARY) {
            Owner::CLibrary
        } else {
            self.linked_owner()
        }
    }

    /// Whose it is in a program that libraries may be linked into.
    fn linked_owner(self) -> Owner {
        let mut names = self.called.iter().chain(&self.function);
        if names.any(|name| is_linked_c_library(name, self.source)) {
            return Owner::CLibrary;
        }
        if let Some(source) = self.source {
            let lies = |places: &[&str]| places.iter().any(|place| source.contains(place));
            let binding = source.split_once(BINDINGS).map(|(_, header)| header);
            let contains = |header: &str| CONTAINERS.iter().any(|part| header.starts_with(part));
            return if lies(&LIBRARY_SOURCES) || binding.is_some_and(contains) {
                Owner::Library
            } else if binding.is_some() || source.contains(COMPILER_HEADERS) {
                Owner::Wrapper
            } else if lies(&CARRIER_SOURCES) {
                Owner::Carrier
            } else if lies(&SHARED_SOURCES) && source.contains(PROJECT) {
                Owner::Unclear
            } else {
                Owner::User
            };
        }
        let begins = |begins: &[&str]| {
            let mut names = self.called.iter().chain(&self.function);
            names.any(|name| begins.iter().any(|begin| name.starts_with(begin)))
        };
        if begins(&LIBRARY_FUNCTIONS) {
            Owner::Library
        } else if begins(&CARRIER_FUNCTIONS) {
            Owner::Carrier
        } else {
            Owner::Unclear
        }
    }
}

/// The origin of a place by its stack, innermost frame first.
///
/// The frames of C library and libpmem at the inner end say what was done, not for whom. If the next
/// belongs to a persistence library, the call by which the library was entered decides: a thin entry point
/// works for its caller, any other for the library. If it is the user's (also in a constructor that
/// the library calls back), so is the event.
///
/// The C++ bindings are told by their headers; their containers are a library like others, and what else they have is the
/// code of whoever uses it.
///
/// A library that is linked into the program is told by its source files, and where it has no debug information, as
/// in Debian's archives, by the names of its functions. What has neither belongs to the function that called it.
/// Code of the user is taken for the library's only if it has no debug information, and either is called back by a
/// library that is part of the same file or has a name that begins like those of the library.
pub fn origin_of<'a>(frames: impl IntoIterator<Item = StackFrame<'a>>) -> Origin {
    let mut inner = Origin::User;
    let mut entry: Option<StackFrame<'a>> = None;
    // Bindings have called the library.
    let mut bound = false;
    // The file of frames that nothing is known of yet.
    let mut unclear: Option<&str> = None;
    for frame in frames {
        let owner = frame.owner();
        match (unclear, owner) {
            (Some(module), Owner::Library | Owner::Carrier) if module == frame.module => {
                unclear = None;
            }
            (Some(module), Owner::Unclear) if module == frame.module => {}
            (Some(_), _) => break,
            (None, _) => {}
        }
        match owner {
            Owner::Wrapper => {
                let asked = |name: &str| name.contains(EXPLICIT_ADD);
                bound |=
                    entry.is_some() && frame.source.is_some_and(|file| file.contains(BINDINGS));
                bound &= !frame.function.is_some_and(asked);
            }
            Owner::Library => entry = Some(frame),
            Owner::Carrier => inner = Origin::Carrier,
            Owner::CLibrary => {
                if inner == Origin::User && entry.is_none() {
                    inner = Origin::CLibrary;
                }
                let locks = |name: &str| LOCKING.iter().any(|part| name.contains(part));
                if inner == Origin::CLibrary && frame.name().is_some_and(locks) {
                    inner = Origin::Lock;
                }
            }
            Owner::Unclear => unclear = Some(frame.module),
            Owner::User => break,
        }
    }
    match entry {
        Some(entry) if entry.name().is_some_and(|name| THIN.contains(&name)) => Origin::Carrier,
        Some(_) if bound => Origin::Bindings,
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
            called: None,
            source: None,
        }))
    }

    /// The same in a program that has all in one file.
    fn linked(stack: &[(&str, &str)]) -> Origin {
        let frames = stack.iter().map(|&(function, source)| StackFrame {
            module: "kv",
            function: Some(function),
            called: None,
            source: (!source.is_empty()).then_some(source),
        });
        let start = StackFrame {
            module: LIBC,
            function: Some("__libc_start_main"),
            called: None,
            source: None,
        };
        origin_of(frames.chain([start]))
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

    const USERS: &str = "/home/me/kv/src/kv.c";

    #[test]
    fn a_library_in_the_program_is_told_by_its_functions() {
        let create = [("heap_init", ""), ("pmemobj_create", ""), ("main", USERS)];
        assert_eq!(linked(&create), Origin::Library);
        let persist = [
            ("flush_clwb", ""),
            ("pmem_persist", ""),
            ("pmemobj_persist", ""),
            ("put", USERS),
        ];
        assert_eq!(linked(&persist), Origin::Carrier);
        let copy = [
            ("memmove_mov_sse2", ""),
            ("pmem_memcpy", ""),
            ("put", USERS),
        ];
        assert_eq!(linked(&copy), Origin::Carrier);
        let jumped = [("palloc_operation", ""), ("put", USERS)];
        assert_eq!(linked(&jumped), Origin::Library);
    }

    #[test]
    fn a_c_library_in_the_program_is_told_by_its_functions() {
        let copy = [("__memmove_evex_unaligned_erms", ""), ("put", USERS)];
        assert_eq!(linked(&copy), Origin::CLibrary);
        let lock = [("___pthread_mutex_lock", ""), ("put", USERS)];
        assert_eq!(linked(&lock), Origin::Lock);
        let libraries = [("memcpy", ""), ("pmemobj_tx_commit", ""), ("put", USERS)];
        assert_eq!(linked(&libraries), Origin::Library);
        assert_eq!(linked(&[("memcpy", USERS)]), Origin::User);
    }

    #[test]
    fn a_library_in_the_program_is_told_by_its_sources() {
        let stack = [
            ("util_write", "/build/pmdk-1.12.1/src/common/set.c"),
            ("obj_create", "/build/pmdk-1.12.1/src/libpmemobj/obj.c"),
            ("main", USERS),
        ];
        assert_eq!(linked(&stack), Origin::Library);
        let examples = "/build/pmdk-1.12.1/src/examples/libpmemobj/map/map.c";
        assert_eq!(linked(&[("insert", examples)]), Origin::User);
        let inlined = "/usr/include/libpmemobj/base.h";
        assert_eq!(linked(&[("pmemobj_direct_inline", inlined)]), Origin::User);
    }

    #[test]
    fn containers_of_the_bindings_are_a_library() {
        let vector = "/usr/include/libpmemobj++/container/vector.hpp";
        let wrapper = "/usr/include/libpmemobj++/p.hpp";
        let standard = "/usr/include/c++/12/bits/stl_algobase.h";
        let inside = [
            ("operator=", wrapper),
            ("std::copy", standard),
            ("pmem::obj::vector<int>::push_back", vector),
            ("main", USERS),
        ];
        assert_eq!(linked(&inside), Origin::Library);
        assert_eq!(linked(&[inside[0], inside[3]]), Origin::User);
        assert_eq!(linked(&[inside[1], inside[3]]), Origin::User);
        let element = [("Element::Element", USERS), inside[2], inside[3]];
        assert_eq!(linked(&element), Origin::User);
    }

    #[test]
    fn what_the_bindings_log_by_themselves_is_told_from_what_they_are_told_to() {
        let common = "/usr/include/libpmemobj++/detail/common.hpp";
        let add = ("pmemobj_tx_xadd_range_direct", "");
        let by_itself = [
            add,
            ("pmem::detail::conditional_add_to_tx<int>", common),
            ("put", USERS),
        ];
        assert_eq!(linked(&by_itself), Origin::Bindings);
        let transaction = "/usr/include/libpmemobj++/transaction.hpp";
        let snapshot = ("pmem::obj::transaction::snapshot<int>", transaction);
        let told = [by_itself[0], by_itself[1], snapshot, by_itself[2]];
        assert_eq!(linked(&told), Origin::Library);
        assert_eq!(linked(&[add, ("put", USERS)]), Origin::Library);
    }

    #[test]
    fn the_users_code_beside_a_library_in_the_program_stays_the_users() {
        let called_back = [
            ("construct", USERS),
            ("alloc_prep_block", ""),
            ("pmemobj_alloc", ""),
            ("put", USERS),
        ];
        assert_eq!(linked(&called_back), Origin::User);
        assert_eq!(linked(&[("pmemobj_put", USERS)]), Origin::User);
        let own_folder = [("store", "/home/me/kv/src/common/store.c"), ("put", USERS)];
        assert_eq!(linked(&own_folder), Origin::User);
        assert_eq!(linked(&[("put", ""), ("main", "")]), Origin::User);
    }
}
