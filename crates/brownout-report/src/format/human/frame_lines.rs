//! The lines of a stack: one for each frame, and one for each run of library frames.

use super::short_name::short_name;
use crate::Frame;

/// Runs of at least so many library frames become one line.
const FOLDED: usize = 2;

/// What a line of a stack shows.
pub enum FrameLine<'a> {
    Frame(&'a Frame),
    /// Library frames that follow each other.
    Run(&'a [Frame]),
}

/// The lines of these frames. `fold`: runs of library frames become one line each.
pub fn frame_lines(frames: &[Frame], fold: bool) -> Vec<FrameLine<'_>> {
    let mut lines = Vec::new();
    for run in frames.chunk_by(|a, b| a.is_library() && b.is_library()) {
        if fold && run.len() >= FOLDED {
            lines.push(FrameLine::Run(run));
        } else {
            lines.extend(run.iter().map(FrameLine::Frame));
        }
    }
    lines
}

/// `… 4 frames of libpmemobj`.
pub fn run_text(run: &[Frame]) -> String {
    let mut libraries: Vec<&str> = Vec::new();
    for frame in run {
        let name = frame.module_name();
        // Library code that is part of the program, such as inlined functions of a header, has no library of its own.
        let library = name.find(".so").map_or("library code", |end| &name[..end]);
        if !libraries.contains(&library) {
            libraries.push(library);
        }
    }
    format!("… {} frames of {}", run.len(), libraries.join(", "))
}

/// A frame with its function's name shortened.
pub fn with_short_name(frame: Frame) -> Frame {
    Frame {
        function: frame.function.as_deref().map(short_name),
        ..frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str) -> Frame {
        Frame {
            function: Some(function.into()),
            module: module.into(),
            ..Frame::default()
        }
    }

    #[test]
    fn runs_of_library_frames_become_one_line() {
        let library = "/lib/x86_64-linux-gnu/libpmemobj.so.1";
        let frames = [
            frame("pmemobj_flush", library),
            frame("pmemobj_persist", library),
            frame("put", "/home/u/kv"),
            frame("pmemobj_tx_commit", library),
            frame("main", "/home/u/kv"),
        ];
        let texts = |fold| -> Vec<String> {
            let lines = frame_lines(&frames, fold).into_iter();
            let text = |line| match line {
                FrameLine::Frame(frame) => frame.function.clone().unwrap_or_default(),
                FrameLine::Run(run) => run_text(run),
            };
            lines.map(text).collect()
        };
        let folded = [
            "… 2 frames of libpmemobj",
            "put",
            "pmemobj_tx_commit",
            "main",
        ];
        assert_eq!(texts(true), folded);
        assert_eq!(texts(false).len(), 5);
    }
}
