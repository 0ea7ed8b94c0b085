//! A library, and how its code is recognised in a target.
//!
//! A library in its own module is recognised by the module's file name. A library that is linked into the target, or
//! compiled into it from headers, is recognised by its source paths, or without debug information by its function names.

use crate::frame_name::FrameName;
use crate::function::Function;
use crate::identifier::ObjectIdentifier;
use crate::memory_function::{MemoryFunction, SourceCalls};
use crate::table::LIBRARIES;

/// What a library does with the memory of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LibraryRole {
    /// A C library and its dynamic loader. It copies and locks on behalf of its callers.
    CLibrary,
    /// The runtime library or the built-in headers of a compiler. Its code is part of the code that uses it.
    Language,
    /// A library that flushes, fences and copies what its callers pass (`pmem_persist`).
    Carrier,
    /// A library that keeps its own data (logs, allocator state, containers) in the user's pool.
    Structures,
    /// Templates and types that wrap values of the user. Their code belongs to the code that uses them.
    Wrapper,
    /// Like [`Wrapper`](Self::Wrapper), and calls a persistence library on each use of one of its types.
    Bindings,
    /// Code that several libraries share. It belongs to the library that calls it.
    Shared,
}

/// A library, or a part of a library with its own role.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// What the library does with the memory of its callers.
    pub role: LibraryRole,
    /// Prefixes of the file names of its modules.
    pub modules: &'static [&'static str],
    /// Prefixes of its function names, used when it is linked into the target without debug information.
    ///
    /// They cover its exported functions, and internal functions that an exported function tail-calls, which leaves no frame
    /// of the exported function.
    pub prefixes: &'static [&'static str],
    /// A substring of all of its source paths, for projects whose directories have common names.
    pub project: &'static str,
    /// Substrings of its source paths in its own project.
    pub sources: &'static [&'static str],
    /// Substrings of the paths of its headers and generic code, which are compiled into the target.
    pub headers: &'static [&'static str],
    /// The names, without directories, of the source files that call `main`.
    pub start_files: &'static [&'static str],
    /// Its functions whose calls have a meaning for an analysis.
    pub functions: &'static [Function],
    /// Names of its functions in call stacks.
    pub frames: &'static [FrameName],
    /// What its functions do to memory.
    pub memory: &'static [MemoryFunction],
    /// Its variables that hold where a pool is. Functions that are compiled into programs read them.
    pub pool_variables: &'static [&'static str],
    /// How sources that use it flush, fence and log.
    pub source_calls: Option<SourceCalls>,
    /// How it identifies persistent objects, if not by pointers.
    pub identifier: Option<ObjectIdentifier>,
}

/// Whether `module`, a file name without directories, is a module of a library.
pub fn is_library_module(module: &str) -> bool {
    module_role(module).is_some()
}

/// What the file names of modules of libraries start with.
pub fn library_modules() -> impl Iterator<Item = &'static str> {
    let modules = LIBRARIES.iter().flat_map(|library| library.modules);
    modules.copied()
}

/// The same for libraries that work on the persistent memory of their callers.
pub fn persistence_modules() -> impl Iterator<Item = &'static str> {
    let of_persistence = LIBRARIES
        .iter()
        .filter(|library| matches!(library.role, LibraryRole::Carrier | LibraryRole::Structures));
    of_persistence.flat_map(|library| library.modules).copied()
}

/// Whether a source file is part of the C++ bindings to libpmemobj, their containers aside.
pub fn is_binding_source(source: &str) -> bool {
    header_role(source) == Some(LibraryRole::Bindings)
}

/// Whether a source file is library code that is compiled into each target: headers, generic code, intrinsics, and the
/// code that calls `main`.
pub fn is_library_header(source: &str) -> bool {
    let name = source.rsplit('/').next().unwrap_or(source);
    let starts = |library: &Library| library.start_files.contains(&name);
    header_role(source).is_some() || LIBRARIES.iter().any(starts)
}

pub(crate) fn module_role(module: &str) -> Option<LibraryRole> {
    role_where(|library| library.modules.iter().any(|name| module.starts_with(name)))
}

pub(crate) fn header_role(source: &str) -> Option<LibraryRole> {
    role_where(|library| library.headers.iter().any(|part| source.contains(part)))
}

pub(crate) fn source_role(source: &str) -> Option<LibraryRole> {
    role_where(|library| {
        let mut parts = library.sources.iter();
        source.contains(library.project) && parts.any(|part| source.contains(part))
    })
}

pub(crate) fn function_role(function: &str) -> Option<LibraryRole> {
    role_where(|library| {
        let mut names = library.prefixes.iter();
        names.any(|name| function.starts_with(name))
    })
}

fn role_where(matches: impl Fn(&Library) -> bool) -> Option<LibraryRole> {
    let found = LIBRARIES.iter().find(|library| matches(library));
    found.map(|library| library.role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_recognised_with_their_versions() {
        assert!(is_library_module("libc.so.6"));
        assert!(is_library_module("libpmemobj.so.1.0.0"));
        assert!(!is_library_module("libcache.so"));
        assert_eq!(module_role("libpmem2.so.1"), Some(LibraryRole::Carrier));
    }

    #[test]
    fn a_container_of_the_bindings_is_not_a_wrapper() {
        let header = |name: &str| header_role(&format!("/usr/include/libpmemobj++/{name}"));
        assert_eq!(
            header("container/vector.hpp"),
            Some(LibraryRole::Structures)
        );
        assert_eq!(header("p.hpp"), Some(LibraryRole::Bindings));
    }

    #[test]
    fn the_code_that_calls_main_is_recognised_by_its_file_name() {
        assert!(is_library_header(
            "./csu/../sysdeps/nptl/libc_start_call_main.h"
        ));
        assert!(!is_library_header("/home/me/main.c"));
    }
}
