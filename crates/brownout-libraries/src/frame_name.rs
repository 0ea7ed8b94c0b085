//! What the name of a function in a call stack says about the work that is done inside it.
//!
//! Unlike [watched functions](crate::Function) these are found in stacks, by the names that symbol tables or debug
//! information give; no call of them is recorded.

use crate::function::{Purpose, function};
use crate::table::LIBRARIES;

/// The name of functions in call stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameName {
    /// The whole name or a part of it, depending on the meaning.
    pub name: &'static str,
    /// What a frame of such a function says.
    pub meaning: FrameMeaning,
}

/// What a frame of a function says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameMeaning {
    /// It copies or fills memory for its caller. A C library has variants for specific processors, whose names are
    /// reserved and begin with this one (`__memmove_avx_unaligned_erms`).
    Copy,
    /// It works on a lock. The name is a prefix, to which a C library adds its own.
    Lock,
    /// It calls `main`. The name is a prefix if it ends with an underscore.
    Start,
    /// It is an entry point of a persistence library that only persists or copies what it is given.
    ThinEntry,
    /// It logs because the user asks for it, where other functions of its library log automatically. The name is a part of
    /// the demangled one.
    ExplicitSnapshot,
}

/// Whether a function in the target belongs to a linked C library and copies, fills or locks on behalf of its caller.
///
/// If the source file is unknown, the name decides. If it is known, only names that are reserved for the library count.
pub fn is_linked_c_library(function: &str, source: Option<&str>) -> bool {
    let begins = |name: &str, meaning| names(meaning).any(|known| name.starts_with(known));
    match function.strip_prefix("__") {
        Some(reserved) => {
            let reserved = reserved.trim_start_matches('_');
            begins(reserved, FrameMeaning::Copy) || begins(reserved, FrameMeaning::Lock)
        }
        None => {
            let copies = || names(FrameMeaning::Copy).any(|known| function == known);
            source.is_none() && (copies() || begins(function, FrameMeaning::Lock))
        }
    }
}

/// Whether a function calls `main`.
pub fn is_start_function(function: &str) -> bool {
    let matches = |name: &str| match name.ends_with('_') {
        true => function.starts_with(name),
        false => function == name,
    };
    names(FrameMeaning::Start).any(matches)
}

/// Whether a function of a C library works on a lock.
pub fn is_lock_function(name: &str) -> bool {
    let listed = || function(name).is_some_and(|row| matches!(row.purpose, Purpose::Lock { .. }));
    names(FrameMeaning::Lock).any(|part| name.contains(part)) || listed()
}

/// Whether an entry point of a persistence library only persists or copies what its caller passes.
pub fn is_thin_entry(function: &str) -> bool {
    names(FrameMeaning::ThinEntry).any(|name| name == function)
}

/// Whether a function of the C++ bindings to libpmemobj logs because the user asked for it.
pub fn is_explicit_snapshot(function: &str) -> bool {
    names(FrameMeaning::ExplicitSnapshot).any(|part| function.contains(part))
}

/// The names with a meaning.
fn names(meaning: FrameMeaning) -> impl Iterator<Item = &'static str> {
    let frames = LIBRARIES.iter().flat_map(|library| library.frames);
    let wanted = frames.filter(move |frame| frame.meaning == meaning);
    wanted.map(|frame| frame.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_user_may_define_count_only_without_a_source() {
        assert!(is_linked_c_library("memcpy", None));
        assert!(!is_linked_c_library("memcpy", Some("/src/mem.c")));
        assert!(is_linked_c_library(
            "__memmove_evex_unaligned_erms",
            Some("x.S")
        ));
        assert!(is_linked_c_library("___pthread_mutex_lock", None));
        assert!(!is_linked_c_library("memory_put", None));
        assert!(!is_linked_c_library("memcpy_all", None));
    }

    #[test]
    fn functions_that_call_main_are_recognised() {
        assert!(is_start_function("_start"));
        assert!(is_start_function("__libc_start_main@@GLIBC_2.34"));
        assert!(!is_start_function("_start_workers"));
        assert!(!is_start_function("main"));
    }

    #[test]
    fn locks_of_every_interface_are_recognised() {
        for lock in ["__pthread_mutex_unlock_usercnt", "__new_sem_post"] {
            assert!(is_lock_function(lock), "{lock}");
        }
        assert!(is_lock_function("mtx_lock"));
        assert!(!is_lock_function("memcpy"));
    }
}
