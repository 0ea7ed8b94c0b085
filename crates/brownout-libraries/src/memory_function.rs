//! What functions of libraries do to memory, and how sources call them: for analyses that read code.
//!
//! Unlike [watched functions](crate::Function), no call of these has to be recorded: their names are found in symbol tables of files
//! and in sources.
//!
//! Can miss: functions that do the same under other names, such as wrappers of a program.

use crate::table::{LIBRARIES, LOG_BY_C};

/// A function, and what a call of it does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFunction {
    /// The name in sources and symbol tables.
    pub name: &'static str,
    /// What a call does.
    pub effect: MemoryEffect,
}

/// What a call of a function does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryEffect {
    /// It maps a file or anonymous memory, and returns where.
    Maps,
    /// It makes what was stored to files durable.
    Syncs,
    /// It flushes the cache line that its argument points to: an intrinsic of compilers.
    FlushesLine,
    /// It stores where an argument points to.
    Stores {
        /// The index of that argument.
        to: u8,
        /// How much it stores.
        length: StoredLength,
    },
    /// It returns a pointer to persistent memory.
    ReturnsPersistent,
    /// It computes an address and does nothing else. Macros count, too.
    ComputesAddress,
    /// It is a method that says where something is, or how long, and does nothing else.
    ComputesAddressAsMethod,
}

/// How many bytes a function stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoredLength {
    /// At most as many as the argument with this index says.
    Argument(u8),
    /// A string and the zero byte behind it.
    Text,
}

/// The calls that a source file makes which uses a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceCalls {
    /// A part of what the file includes.
    pub header: &'static str,
    /// Flushes an address and a length; with [`pool`](Self::pool), the first argument is the pool.
    pub flush: Option<&'static str>,
    /// Flushes and fences, with the same arguments.
    pub persist: Option<&'static str>,
    /// Fences. It has no arguments.
    pub drain: Option<&'static str>,
    /// Adds an object to the log of the transaction.
    pub log: Option<LogCall>,
    /// How pools are named.
    pub pool: Option<PoolNames>,
}

/// How a source file adds an object to the log of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCall {
    /// The function.
    pub name: &'static str,
    /// Whether the address is followed by a length. Without one, the type of the pointer determines it.
    pub takes_length: bool,
}

/// How sources name the pools of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolNames {
    /// The type of a pool.
    pub ty: &'static str,
    /// The name that variables of this type usually have.
    pub variable: &'static str,
    /// Returns the pool that an address is in.
    pub of_address: &'static str,
}

/// The effect of a function, if it is in the table.
pub fn memory_effect(name: &str) -> Option<MemoryEffect> {
    let functions = LIBRARIES.iter().flat_map(|library| library.memory);
    let mut named = functions.filter(|function| function.name == name);
    named.next().map(|function| function.effect)
}

/// Whether a function makes what was stored to files durable.
pub fn is_sync_function(name: &str) -> bool {
    memory_effect(name) == Some(MemoryEffect::Syncs)
}

/// Whether a variable of a library holds where a pool is.
pub fn is_pool_variable(name: &str) -> bool {
    LIBRARIES
        .iter()
        .any(|library| library.pool_variables.contains(&name))
}

/// The calls of the libraries whose headers a source file includes. `includes` says that of a part of an included name.
fn calls_of_file(includes: &dyn Fn(&str) -> bool) -> impl Iterator<Item = &'static SourceCalls> {
    { LIBRARIES.iter() }
        .filter_map(|library| library.source_calls.as_ref())
        .filter(|calls| includes(calls.header))
}

/// The calls by which a source file can flush. Those that need no pool come first.
pub fn persisting_calls(includes: &dyn Fn(&str) -> bool) -> Option<&'static SourceCalls> {
    let persisting = calls_of_file(includes).filter(|calls| calls.persist.is_some());
    persisting.min_by_key(|calls| calls.pool.is_some())
}

/// The function by which a source file can fence.
pub fn drain_call(includes: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    calls_of_file(includes).find_map(|calls| calls.drain)
}

/// How a source file adds an object to the log of a transaction.
pub fn log_call(includes: &dyn Fn(&str) -> bool) -> LogCall {
    let call = calls_of_file(includes).find_map(|calls| calls.log);
    call.unwrap_or(LOG_BY_C)
}

/// How sources name the pools of the library that a function belongs to.
pub fn pool_names(function: &str) -> Option<PoolNames> {
    let mut named = LIBRARIES
        .iter()
        .filter(|library| library.prefixes.iter().any(|it| function.starts_with(it)));
    named.find_map(|library| library.source_calls?.pool)
}

/// Whether a word is or begins like the name of a function, a macro or a variable of a library: what only this crate may know.
pub fn is_library_name(word: &str) -> bool {
    LIBRARIES.iter().any(|library| {
        let functions = library.functions.iter().map(|function| function.name);
        let memory = library.memory.iter().map(|function| function.name);
        let frames = library.frames.iter().map(|frame| frame.name);
        let mut names = functions
            .chain(memory)
            .chain(frames)
            .chain(library.pool_variables.iter().copied());
        // Names of frames that end so are prefixes.
        let is_name = |name: &str| word == name || name.ends_with('_') && word.starts_with(name);
        names.any(is_name) || library.prefixes.iter().any(|it| word.starts_with(it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_one_effect() {
        let all = LIBRARIES.iter().flat_map(|library| library.memory);
        for function in all {
            assert_eq!(
                memory_effect(function.name),
                Some(function.effect),
                "{}",
                function.name
            );
        }
        assert_eq!(memory_effect("main"), None);
    }

    #[test]
    fn stores_name_where_they_go() {
        let stores = |to, length| Some(MemoryEffect::Stores { to, length });
        assert_eq!(
            memory_effect("memcpy"),
            stores(0, StoredLength::Argument(2))
        );
        assert_eq!(memory_effect("read"), stores(1, StoredLength::Argument(2)));
        assert_eq!(memory_effect("bcopy"), stores(1, StoredLength::Argument(2)));
        assert_eq!(memory_effect("strcat"), stores(0, StoredLength::Text));
    }

    #[test]
    fn only_functions_of_libpmemobj_take_a_pool() {
        assert!(pool_names("pmemobj_persist").is_some());
        assert_eq!(pool_names("pmem_persist"), None);
        assert_eq!(pool_names("persist"), None);
    }

    #[test]
    fn a_file_calls_what_it_includes() {
        let of = |header: &'static str| move |wanted: &str| header.contains(wanted);
        let persist = |includes: &dyn Fn(&str) -> bool| persisting_calls(includes)?.persist;
        assert_eq!(persist(&of("libpmem.h")), Some("pmem_persist"));
        assert_eq!(persist(&of("libpmemobj.h libpmem.h")), Some("pmem_persist"));
        assert_eq!(persist(&of("libpmemobj++/p.hpp")), Some("pmemobj_persist"));
        assert_eq!(persist(&of("stdio.h")), None);
        assert_eq!(drain_call(&of("libpmemobj.h")), None);
        assert!(!log_call(&of("libpmemobj++/p.hpp")).takes_length);
        assert!(log_call(&of("stdio.h")).takes_length);
    }

    #[test]
    fn names_of_libraries_are_recognised() {
        for name in [
            "pmemobj_unknown",
            "pmem_drain",
            "msync",
            "sem_post",
            "memcpy",
            "_pobj_cached_pool",
        ] {
            assert!(is_library_name(name), "{name}");
        }
        for word in ["memory", "pmem", "lanes", "semantics"] {
            assert!(!is_library_name(word), "{word}");
        }
    }
}
