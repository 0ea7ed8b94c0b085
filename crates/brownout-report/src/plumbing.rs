//! Which frame of a stack a reader should look at.
//!
//! A store inside `memcpy` or a flush inside `pmem_persist` is made by a library on behalf of its caller,
//! and the caller is what can be mended. The frame that tells most is therefore the innermost one that
//! has a source line and is not plumbing: a C library, a language's own library, a library of
//! persistent-memory primitives, or a compiler's intrinsics.
//!
//! Can miss: a program's own wrapper around such primitives is code like any other and is shown.

use crate::stack::base_name;
use crate::{Frame, Stack};

/// Which of these frames, innermost first, tells a reader most: the innermost one with a source line that is
/// not plumbing, or else the innermost that is not plumbing, or else the innermost of all. `None` if there
/// are no frames.
pub fn telling_frame(frames: &[Frame]) -> Option<usize> {
    let is_program = |frame: &Frame| !frame.is_plumbing();
    frames
        .iter()
        .position(|frame| frame.line.is_some() && is_program(frame))
        .or_else(|| frames.iter().position(is_program))
        .or_else(|| (!frames.is_empty()).then_some(0))
}

impl Stack {
    /// The frame that tells a reader most.
    pub fn telling_frame(&self) -> Option<&Frame> {
        Some(&self.frames[telling_frame(&self.frames)?])
    }

    /// The frames without those outermost ones that lead to every `main` alike. All frames if these
    /// are all there is.
    pub fn frames_of_program(&self) -> &[Frame] {
        let mut frames = &self.frames[..];
        // The `main` that a language generates, and its library calls the real one.
        if let [.., inner, outer] = frames_but_plumbing(frames)
            && inner.is_plumbing()
            && outer.line.is_none()
            && outer.function.as_deref() == Some("main")
        {
            frames = &frames[..frames_but_plumbing(frames).len() - 1];
        }
        match frames_but_plumbing(frames) {
            [] => &self.frames,
            program => program,
        }
    }
}

/// The frames up to the outermost one that is not plumbing.
fn frames_but_plumbing(frames: &[Frame]) -> &[Frame] {
    let last = frames.iter().rposition(|frame| !frame.is_plumbing());
    last.map_or(&[], |last| &frames[..=last])
}

impl Frame {
    /// Whether the frame is code that many programs have alike, called on behalf of another frame.
    pub fn is_plumbing(&self) -> bool {
        let file = self.file.as_deref();
        let linked = |function: &str| {
            is_linked_c_library(function, file)
                || function == "_start"
                || function.starts_with("__libc_start_")
        };
        file.is_some_and(is_library_source)
            || is_library(self.module_name())
            || self.function.as_deref().is_some_and(linked)
    }
}

/// Whether a function of a program is one by which a C library copies, fills or locks on behalf of its caller,
/// linked into the program. Without a source file the name decides; with one, only names that are
/// reserved for the library do.
pub fn is_linked_c_library(function: &str, source: Option<&str>) -> bool {
    const NAMES: [&str; 13] = [
        "memcpy", "memmove", "memset", "mempcpy", "memccpy", "bcopy", "bzero", "strcpy", "strncpy",
        "stpcpy", "stpncpy", "strcat", "strncat",
    ];
    const LOCKS: [&str; 3] = ["pthread_", "sem_", "lll_lock_"];
    let locks = |name: &str| LOCKS.iter().any(|lock| name.starts_with(lock));
    match function.strip_prefix("__") {
        Some(reserved) => {
            // Variants for processors: `__memmove_avx_unaligned_erms`.
            let reserved = reserved.trim_start_matches('_');
            NAMES.iter().any(|name| reserved.starts_with(name)) || locks(reserved)
        }
        None => source.is_none() && (NAMES.contains(&function) || locks(function)),
    }
}

fn is_library(module: &str) -> bool {
    const NAMES: [&str; 12] = [
        "libc.so",
        "libc-",
        "ld-linux",
        "ld-musl",
        "libpthread",
        "libstdc++.so",
        "libgcc_s.so",
        "libpmem.so",
        "libpmem2.so",
        "libpmemobj.so",
        "libpmemblk.so",
        "libpmemlog.so",
    ];
    NAMES.iter().any(|name| module.starts_with(name))
}

fn is_library_source(file: &str) -> bool {
    const PARTS: [&str; 6] = [
        "/lib/gcc/",
        "/lib/clang/",
        "/include/c++/",
        "/rustc/",
        "/compiler_builtins",
        "/libpmemobj++/",
    ];
    // glibc is built in a directory of its own and leaves relative paths.
    const LIBC_START: [&str; 2] = ["libc_start_call_main.h", "libc-start.c"];
    PARTS.iter().any(|part| file.contains(part)) || LIBC_START.contains(&base_name(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str, source: Option<(&str, u32)>) -> Frame {
        Frame {
            function: Some(function.into()),
            module: module.into(),
            file: source.map(|(file, _)| file.into()),
            line: source.map(|(_, line)| line),
            ..Frame::default()
        }
    }

    fn stack(frames: &[Frame]) -> Stack {
        Stack {
            role: "store".into(),
            frames: frames.to_vec(),
        }
    }

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
    const PROGRAM: &str = "/home/u/program";

    #[test]
    fn the_caller_of_a_library_tells_most() {
        let put = frame("put", PROGRAM, Some(("/src/kv.c", 7)));
        let plumbing = [
            frame("memcpy", LIBC, Some(("./string/memcpy.S", 3))),
            frame("pmem_persist", "/usr/lib/libpmem.so.1", None),
            frame(
                "_mm_clwb",
                PROGRAM,
                Some(("/usr/lib/gcc/x/12/include/clwbintrin.h", 33)),
            ),
            frame(
                "core::ptr::write",
                PROGRAM,
                Some(("/rustc/abc/library/core/src/ptr/mod.rs", 1)),
            ),
        ];
        for inner in plumbing {
            let stack = stack(&[inner, put.clone()]);
            assert_eq!(stack.telling_frame(), Some(&put));
        }
    }

    #[test]
    fn a_c_library_in_the_program_is_told_by_its_functions() {
        let put = frame("put", PROGRAM, Some(("/src/kv.c", 7)));
        for copies in ["memcpy", "__memmove_avx512_unaligned_erms", "__strcpy_evex"] {
            let stack = stack(&[frame(copies, PROGRAM, None), put.clone()]);
            assert_eq!(stack.telling_frame(), Some(&put), "{copies}");
        }
        for own in ["memcpy", "strcpy", "pthread_put", "memory_put"] {
            let own = frame(own, PROGRAM, Some(("/src/mem.c", 7)));
            assert_eq!(
                stack(&[own.clone(), put.clone()]).telling_frame(),
                Some(&own)
            );
        }
        assert!(!frame("memcpy_all", PROGRAM, None).is_plumbing());
    }

    #[test]
    fn a_library_of_the_user_is_no_plumbing() {
        let own = frame("put", "/home/u/libcache.so", Some(("/src/cache.c", 7)));
        let main = frame("main", PROGRAM, Some(("/src/main.c", 7)));
        assert_eq!(stack(&[own.clone(), main]).telling_frame(), Some(&own));
    }

    #[test]
    fn without_lines_the_innermost_frame_of_the_program_must_do() {
        let memcpy = frame("memcpy", LIBC, Some(("./string/memcpy.S", 3)));
        let put = frame("put", PROGRAM, None);
        let main = frame("main", PROGRAM, None);
        let frames = [memcpy.clone(), put.clone(), main];
        assert_eq!(stack(&frames).telling_frame(), Some(&put));
        assert_eq!(stack(&frames[..1]).telling_frame(), Some(&memcpy));
        assert_eq!(stack(&[]).telling_frame(), None);
    }

    #[test]
    fn the_way_to_main_is_left_out() {
        let memcpy = frame("memcpy", LIBC, None);
        let main = frame("main", PROGRAM, Some(("/src/main.c", 7)));
        let start = [
            frame("__libc_start_main", LIBC, Some(("./csu/libc-start.c", 360))),
            frame("_start", PROGRAM, None),
        ];
        let frames = [
            memcpy.clone(),
            main.clone(),
            start[0].clone(),
            start[1].clone(),
        ];
        assert_eq!(stack(&frames).frames_of_program(), [memcpy, main.clone()]);
        assert_eq!(stack(&start).frames_of_program(), start);
        let runtime = frame(
            "std::rt::lang_start",
            PROGRAM,
            Some(("/rustc/abc/library/std/src/rt.rs", 1)),
        );
        let generated = frame("main", PROGRAM, None);
        let rust = [main.clone(), runtime, generated, start[0].clone()];
        assert_eq!(stack(&rust).frames_of_program(), [main]);
        let stripped = [frame("put", PROGRAM, None), frame("main", PROGRAM, None)];
        assert_eq!(stack(&stripped).frames_of_program(), stripped);
    }
}
