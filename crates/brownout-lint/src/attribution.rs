//! Whose code an event comes from: the user's, or a persistence library's own.
//!
//! A library that keeps logs and allocator state in the user's pool stores, flushes and fences for its own
//! purposes and by its own protocol. Such events count, since they flush and fence the user's stores too, but they
//! are never reported. The libraries and how their code is recognised are listed in [`brownout_libraries`].

use brownout_libraries::{
    FrameNames, Owner, is_binding_source, is_explicit_snapshot, is_lock_function, is_thin_entry,
};
use brownout_trace::{Definitions, Event};

use crate::oracle::OracleFrame;
use crate::site_keys::SiteKey;

/// Whose code an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user's code.
    User,
    /// The C library (`memcpy`) on the user's behalf. What one call stores into a line is one store to the
    /// user, however many instructions it takes.
    CLibrary,
    /// The C library on nobody's behalf: no caller outside of it, as when a thread starts or ends.
    ThreadRuntime,
    /// The C library working on a lock of the user (`pthread_mutex_lock`). A lock in persistent memory is not data:
    /// the next process that opens the pool initialises it again.
    Lock,
    /// A library that persists and copies what its caller passes (`pmem_persist`, `pmem_memcpy`), on the user's
    /// behalf like the C library.
    Carrier,
    /// The internals of a persistence library.
    Library,
    /// The internals of a persistence library, called by its C++ bindings on each use of one of their types, whether
    /// the call is needed or not.
    Bindings,
}

/// Decides whose code a site is.
pub trait Attribution {
    /// The origin of the site of `event`, which is called `site` from now on. It was not seen before, or modules have
    /// changed since. `definitions` are those at the event: the meaning of an address can change later.
    fn origin(&mut self, site: SiteKey, event: &Event<'_>, definitions: &Definitions) -> Origin;

    /// The stack of a site that [`origin`](Self::origin) has seen, innermost frame first. Only
    /// [oracles](crate::oracle) need it.
    fn stack(&mut self, site: SiteKey) -> Vec<OracleFrame> {
        let _ = site;
        Vec::new()
    }
}

impl<F: FnMut(&Event<'_>, &Definitions) -> Origin> Attribution for F {
    fn origin(&mut self, _: SiteKey, event: &Event<'_>, definitions: &Definitions) -> Origin {
        self(event, definitions)
    }
}

/// The origin of an event by its stack, innermost frame first.
///
/// The innermost frames of the C library and libpmem say what was done, not for whom. If the next frame belongs to a
/// persistence library, the call that entered the library decides: a thin entry point works for its caller,
/// any other for the library. If the next frame is the user's, even in a constructor that the library calls
/// back, so is the event.
///
/// The C++ bindings are recognised by their headers. Their containers are a library like any other; the rest of
/// them belongs to the code that uses it.
///
/// A library that is linked into the target is recognised by its source files, and without debug information, as in
/// Debian's archives, by the names of its functions. A frame with neither belongs to the function that called it.
/// The user's code is mistaken for the library's only if it has no debug information, and either a library in the
/// same module calls it back or its name begins like the library's.
pub fn origin_of<'a>(frames: impl IntoIterator<Item = FrameNames<'a>>) -> Origin {
    let mut inner = Origin::User;
    let mut entry: Option<FrameNames<'a>> = None;
    // The bindings have called the library.
    let mut bound = false;
    // The module of frames whose owner is not known yet.
    let mut unclear: Option<&str> = None;
    // All frames so far belong to the C library.
    let mut only_c_library = true;
    let mut any = false;
    for frame in frames {
        let owner = Owner::of(frame);
        any = true;
        only_c_library &= owner == Owner::CLibrary;
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
                bound |= entry.is_some() && frame.source.is_some_and(is_binding_source);
                bound &= !frame.function.is_some_and(is_explicit_snapshot);
            }
            Owner::Library => entry = Some(frame),
            Owner::Carrier => inner = Origin::Carrier,
            Owner::CLibrary => {
                if inner == Origin::User && entry.is_none() {
                    inner = Origin::CLibrary;
                }
                if inner == Origin::CLibrary && frame.name().is_some_and(is_lock_function) {
                    inner = Origin::Lock;
                }
            }
            Owner::Unclear => unclear = Some(frame.module),
            // The user's.
            _ => break,
        }
    }
    if any && only_c_library {
        return Origin::ThreadRuntime;
    }
    match entry {
        Some(entry) if entry.name().is_some_and(is_thin_entry) => Origin::Carrier,
        Some(_) if bound => Origin::Bindings,
        Some(_) => Origin::Library,
        None => inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(stack: &[(&str, &str)]) -> Origin {
        origin_of(stack.iter().map(|&(module, function)| FrameNames {
            module,
            function: (!function.is_empty()).then_some(function),
            called: None,
            source: None,
        }))
    }

    /// The same in a program that has all in one file.
    fn linked(stack: &[(&str, &str)]) -> Origin {
        let frames = stack.iter().map(|&(function, source)| FrameNames {
            module: "kv",
            function: Some(function),
            called: None,
            source: (!source.is_empty()).then_some(source),
        });
        let start = FrameNames {
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
    fn locks_of_the_user_are_distinguished_from_data() {
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
    fn a_library_in_the_target_is_recognised_by_its_functions() {
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
    fn a_c_library_in_the_target_is_recognised_by_its_functions() {
        let copy = [("__memmove_evex_unaligned_erms", ""), ("put", USERS)];
        assert_eq!(linked(&copy), Origin::CLibrary);
        let lock = [("___pthread_mutex_lock", ""), ("put", USERS)];
        assert_eq!(linked(&lock), Origin::Lock);
        let libraries = [("memcpy", ""), ("pmemobj_tx_commit", ""), ("put", USERS)];
        assert_eq!(linked(&libraries), Origin::Library);
        assert_eq!(linked(&[("memcpy", USERS)]), Origin::User);
    }

    #[test]
    fn a_library_in_the_target_is_recognised_by_its_sources() {
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
    fn what_the_bindings_log_unasked_is_distinguished_from_snapshots() {
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
        let snapshots = [by_itself[0], by_itself[1], snapshot, by_itself[2]];
        assert_eq!(linked(&snapshots), Origin::Library);
        assert_eq!(linked(&[add, ("put", USERS)]), Origin::Library);
    }

    #[test]
    fn the_users_code_in_the_same_module_as_a_library_stays_the_users() {
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
