//! The table of libraries, and how their code is recognised in a target.
//!
//! A library in its own module is recognised by the module's file name. A library that is linked into the target, or
//! compiled into it from headers, is recognised by its source paths, or without debug information by its function names.

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
    pub functions: &'static [&'static str],
    /// Substrings of its source paths in its own project.
    pub sources: &'static [&'static str],
    /// Substrings of the paths of its headers and generic code, which are compiled into the target.
    pub headers: &'static [&'static str],
}

const NONE: Library = Library {
    role: LibraryRole::Language,
    modules: &[],
    functions: &[],
    sources: &[],
    headers: &[],
};

/// All known libraries. If two rows match the same path, the first one counts.
pub const LIBRARIES: &[Library] = &[
    Library {
        role: LibraryRole::CLibrary,
        modules: &["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread"],
        ..NONE
    },
    // The containers of libpmemobj-cpp, which is a header-only library.
    Library {
        role: LibraryRole::Structures,
        headers: &[
            "/libpmemobj++/container/",
            "/libpmemobj++/experimental/concurrent_map.hpp",
            "/libpmemobj++/experimental/inline_string.hpp",
            "/libpmemobj++/experimental/mpsc_queue.hpp",
            "/libpmemobj++/experimental/radix_tree.hpp",
        ],
        ..NONE
    },
    // The rest of libpmemobj-cpp, and the C++ standard library.
    Library {
        role: LibraryRole::Wrapper,
        headers: &["/libpmemobj++/", "/include/c++/"],
        ..NONE
    },
    // The runtime libraries of GCC, and the intrinsics of GCC and Clang.
    Library {
        modules: &["libstdc++.so", "libgcc_s.so"],
        headers: &["/lib/gcc/", "/lib/clang/"],
        ..NONE
    },
    // Rust.
    Library {
        headers: &["/rustc/", "/compiler_builtins"],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmemobj.so"],
        functions: &[
            "pmemobj_",
            "_pobj_",
            "palloc_",
            "pmalloc_",
            "ulog_",
            "memblock_",
            "lane_",
        ],
        sources: &["/src/libpmemobj/"],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmemblk.so"],
        functions: &["pmemblk_"],
        sources: &["/src/libpmemblk/"],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmemlog.so"],
        functions: &["pmemlog_"],
        sources: &["/src/libpmemlog/"],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmempool.so"],
        functions: &["pmempool_"],
        sources: &["/src/libpmempool/"],
        ..NONE
    },
    Library {
        role: LibraryRole::Carrier,
        modules: &["libpmem.so"],
        functions: &["pmem_"],
        sources: &["/src/libpmem/"],
        ..NONE
    },
    Library {
        role: LibraryRole::Carrier,
        modules: &["libpmem2.so"],
        functions: &["pmem2_"],
        sources: &["/src/libpmem2/"],
        ..NONE
    },
];

/// The source files of glibc that call `main`. glibc is built in its own directory, so its paths are relative.
const C_START_FILES: [&str; 2] = ["libc_start_call_main.h", "libc-start.c"];

/// Whether `module`, a file name without directories, is a module of a library.
pub fn is_library_module(module: &str) -> bool {
    module_role(module).is_some()
}

/// Whether a source file is library code that is compiled into each target: headers, generic code, intrinsics, and the
/// code that calls `main`.
pub fn is_library_header(source: &str) -> bool {
    let name = source.rsplit('/').next().unwrap_or(source);
    header_role(source).is_some() || C_START_FILES.contains(&name)
}

pub(crate) fn module_role(module: &str) -> Option<LibraryRole> {
    role_where(|library| library.modules.iter().any(|name| module.starts_with(name)))
}

pub(crate) fn header_role(source: &str) -> Option<LibraryRole> {
    role_where(|library| library.headers.iter().any(|part| source.contains(part)))
}

pub(crate) fn source_role(source: &str) -> Option<LibraryRole> {
    role_where(|library| library.sources.iter().any(|part| source.contains(part)))
}

pub(crate) fn function_role(function: &str) -> Option<LibraryRole> {
    role_where(|library| {
        let mut names = library.functions.iter();
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
        assert_eq!(header("p.hpp"), Some(LibraryRole::Wrapper));
    }

    #[test]
    fn the_code_that_calls_main_is_recognised_by_its_file_name() {
        assert!(is_library_header(
            "./csu/../sysdeps/nptl/libc_start_call_main.h"
        ));
        assert!(!is_library_header("/home/me/main.c"));
    }
}
