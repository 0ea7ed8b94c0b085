//! Which frames of a stack are library code, and which frame a reader should look at.
//!
//! A store inside `memcpy` or a flush inside `pmem_persist` is made by a library on behalf of its caller, and the
//! caller is what can be fixed. The primary frame is therefore the innermost one that has a source line and
//! is not library code: the C library, a language's standard library, a library of persistent-memory
//! primitives, or a compiler's intrinsics. [`brownout_libraries`] lists them. The target's own wrappers around such
//! primitives are skipped as well, where the analysis has [marked](Frame::wrapper) them.

use brownout_libraries::{
    is_library_header, is_library_module, is_linked_c_library, is_start_function,
};

use crate::{Frame, Stack};

/// The index of the primary frame of these frames, innermost first: the innermost one with a source line that is
/// neither library code nor a wrapper, or else the innermost that is not library code, or else the innermost of all. `None` if
/// there are no frames.
pub fn primary_frame(frames: &[Frame]) -> Option<usize> {
    let is_program = |frame: &Frame| !frame.is_library();
    let has_line = |frame: &Frame| frame.line.is_some() && is_program(frame);
    frames
        .iter()
        .position(|frame| has_line(frame) && !frame.wrapper)
        .or_else(|| frames.iter().position(has_line))
        .or_else(|| frames.iter().position(is_program))
        .or_else(|| (!frames.is_empty()).then_some(0))
}

impl Stack {
    /// The frame that a reader should look at first.
    pub fn primary_frame(&self) -> Option<&Frame> {
        Some(&self.frames[primary_frame(&self.frames)?])
    }

    /// The frames without the outermost ones that only lead to `main`. All frames if there are no others.
    pub fn frames_of_program(&self) -> &[Frame] {
        let mut frames = &self.frames[..];
        // A `main` that the compiler generated; the language's library calls the user's.
        if let [.., inner, outer] = without_outer_library_frames(frames)
            && inner.is_library()
            && outer.line.is_none()
            && outer.function.as_deref() == Some("main")
        {
            frames = &frames[..without_outer_library_frames(frames).len() - 1];
        }
        match without_outer_library_frames(frames) {
            [] => &self.frames,
            program => program,
        }
    }
}

/// The frames up to the outermost one that is not library code.
fn without_outer_library_frames(frames: &[Frame]) -> &[Frame] {
    let last = frames.iter().rposition(|frame| !frame.is_library());
    last.map_or(&[], |last| &frames[..=last])
}

impl Frame {
    /// Whether the frame is code of a known library, which works on behalf of its caller.
    pub fn is_library(&self) -> bool {
        let file = self.file.as_deref();
        let linked =
            |function: &str| is_linked_c_library(function, file) || is_start_function(function);
        file.is_some_and(is_library_header)
            || is_library_module(self.module_name())
            || self.function.as_deref().is_some_and(linked)
    }
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
    fn the_caller_of_a_library_is_primary() {
        let put = frame("put", PROGRAM, Some(("/src/kv.c", 7)));
        let library = [
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
        for inner in library {
            let stack = stack(&[inner, put.clone()]);
            assert_eq!(stack.primary_frame(), Some(&put));
        }
    }

    #[test]
    fn a_c_library_in_the_target_is_recognised_by_its_functions() {
        let put = frame("put", PROGRAM, Some(("/src/kv.c", 7)));
        for copies in ["memcpy", "__memmove_avx512_unaligned_erms", "__strcpy_evex"] {
            let stack = stack(&[frame(copies, PROGRAM, None), put.clone()]);
            assert_eq!(stack.primary_frame(), Some(&put), "{copies}");
        }
        for own in ["memcpy", "strcpy", "pthread_put", "memory_put"] {
            let own = frame(own, PROGRAM, Some(("/src/mem.c", 7)));
            assert_eq!(
                stack(&[own.clone(), put.clone()]).primary_frame(),
                Some(&own)
            );
        }
        assert!(!frame("memcpy_all", PROGRAM, None).is_library());
    }

    #[test]
    fn the_caller_of_a_wrapper_is_primary() {
        let mut flush = frame("flush", PROGRAM, Some(("/src/pm.h", 3)));
        let put = frame("put", PROGRAM, Some(("/src/kv.c", 7)));
        let frames = [flush.clone(), put.clone()];
        assert_eq!(stack(&frames).primary_frame(), Some(&flush));
        flush.wrapper = true;
        let frames = [flush.clone(), put.clone()];
        assert_eq!(stack(&frames).primary_frame(), Some(&put));
        assert_eq!(stack(&frames[..1]).primary_frame(), Some(&flush));
    }

    #[test]
    fn a_library_of_the_user_is_the_users_code() {
        let own = frame("put", "/home/u/libcache.so", Some(("/src/cache.c", 7)));
        let main = frame("main", PROGRAM, Some(("/src/main.c", 7)));
        assert_eq!(stack(&[own.clone(), main]).primary_frame(), Some(&own));
    }

    #[test]
    fn without_lines_the_innermost_frame_of_the_target_is_primary() {
        let memcpy = frame("memcpy", LIBC, Some(("./string/memcpy.S", 3)));
        let put = frame("put", PROGRAM, None);
        let main = frame("main", PROGRAM, None);
        let frames = [memcpy.clone(), put.clone(), main];
        assert_eq!(stack(&frames).primary_frame(), Some(&put));
        assert_eq!(stack(&frames[..1]).primary_frame(), Some(&memcpy));
        assert_eq!(stack(&[]).primary_frame(), None);
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
