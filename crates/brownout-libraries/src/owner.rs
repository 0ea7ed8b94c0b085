//! The owner of the code of a call-stack frame: the user or a library.

use crate::frame_name::is_linked_c_library;
use crate::library::{LibraryRole, function_role, header_role, module_role, source_role};

/// The owner of a single frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// The user.
    User,
    /// The C library.
    CLibrary,
    /// A library that flushes, fences and copies what its callers pass.
    Carrier,
    /// A library that keeps its own data in the user's pool.
    Library,
    /// The owner of the calling frame, if that is a library in the same module; otherwise the user.
    Unclear,
    /// The owner of the calling frame.
    Wrapper,
}

/// The names in a frame, from which its owner is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameNames<'a> {
    /// The file name of the module, without directories.
    pub module: &'a str,
    /// The function that the instruction belongs to.
    pub function: Option<&'a str>,
    /// The function that was called, if it is known. It differs from `function` if it tail-called that function.
    pub called: Option<&'a str>,
    /// The source file, if there is debug information.
    pub source: Option<&'a str>,
}

impl<'a> FrameNames<'a> {
    /// The name of the function that was called.
    pub fn name(self) -> Option<&'a str> {
        self.called.or(self.function)
    }
}

impl Owner {
    /// The owner of a frame with these names.
    pub fn of(frame: FrameNames<'_>) -> Owner {
        match module_role(frame.module) {
            Some(LibraryRole::Structures) => Owner::Library,
            Some(LibraryRole::Carrier) => Owner::Carrier,
            Some(LibraryRole::CLibrary) => Owner::CLibrary,
            _ => Owner::in_target(frame),
        }
    }

    /// The owner of a frame in a module that may have libraries linked into it.
    fn in_target(frame: FrameNames<'_>) -> Owner {
        let names = || frame.called.iter().chain(&frame.function);
        if names().any(|name| is_linked_c_library(name, frame.source)) {
            return Owner::CLibrary;
        }
        if let Some(source) = frame.source {
            return Owner::by_source(source);
        }
        let by_name = |role| names().any(|name| function_role(name) == Some(role));
        if by_name(LibraryRole::Structures) {
            Owner::Library
        } else if by_name(LibraryRole::Carrier) {
            Owner::Carrier
        } else {
            Owner::Unclear
        }
    }

    fn by_source(source: &str) -> Owner {
        let (header, own) = (header_role(source), source_role(source));
        if [header, own].contains(&Some(LibraryRole::Structures)) {
            Owner::Library
        } else if matches!(header, Some(LibraryRole::Wrapper | LibraryRole::Bindings)) {
            Owner::Wrapper
        } else if own == Some(LibraryRole::Carrier) {
            Owner::Carrier
        } else if own == Some(LibraryRole::Shared) {
            Owner::Unclear
        } else {
            Owner::User
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(function: &str, source: Option<&str>) -> Owner {
        Owner::of(FrameNames {
            module: "kv",
            function: Some(function),
            called: None,
            source,
        })
    }

    #[test]
    fn the_module_takes_precedence_over_names() {
        let frame = FrameNames {
            module: "libpmemobj.so.1",
            function: Some("memcpy"),
            called: None,
            source: None,
        };
        assert_eq!(Owner::of(frame), Owner::Library);
    }

    #[test]
    fn linked_libraries_are_recognised_by_sources_or_names() {
        assert_eq!(linked("pmemobj_alloc", None), Owner::Library);
        assert_eq!(linked("pmem_persist", None), Owner::Carrier);
        assert_eq!(linked("put", None), Owner::Unclear);
        assert_eq!(linked("pmemobj_put", Some("/home/me/kv.c")), Owner::User);
        let shared = "/build/pmdk-1.12.1/src/common/set.c";
        assert_eq!(linked("util_write", Some(shared)), Owner::Unclear);
        let standard = "/usr/include/c++/12/bits/stl_algobase.h";
        assert_eq!(linked("std::copy", Some(standard)), Owner::Wrapper);
        let intrinsics = "/usr/lib/gcc/x86_64-linux-gnu/12/include/clwbintrin.h";
        assert_eq!(linked("_mm_clwb", Some(intrinsics)), Owner::User);
    }
}
